"""Every format, and a toy that no generic code knows, meets the contract of formats."""

from __future__ import annotations

import pytest

from forestay.formats.port import REGISTRY, load_format
from tests.formats import test_ai_session, test_craft, test_essay, test_orchestrator, test_praxis
from tests.formats.contract import *  # noqa: F403
from tests.formats.contract import Case
from tests.formats.toy_format.format import FORMAT as TOY

CASES = {
    "ai-session": Case(
        load_format("ai-session"), test_ai_session.tree(), where=test_ai_session.WHERE
    ),
    "praxis": Case(
        load_format("praxis"), {test_praxis.NAME: test_praxis.session()}, where=test_praxis.HERE
    ),
    "craft": Case(load_format("craft"), test_craft.tree()),
    "essay": Case(load_format("essay"), {test_essay.STATE: test_essay.session()}, test_essay.HERE),
    "orchestrator": Case(load_format("orchestrator"), test_orchestrator.tree()),
    "toy": Case(
        TOY,
        {
            "t1.toy.json": {
                "name": "t1",
                "aim": "Play",
                "made": "2026-02-01T09:00:00Z",
                "changed": "2026-02-01T10:00:00Z",
                "state": "active",
                "finished": ["Unpack"],
                "open": ["Build"],
            }
        },
    ),
}


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def test_every_registered_format_has_a_case() -> None:
    assert {*CASES} == {*REGISTRY, "toy"}
