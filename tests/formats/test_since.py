"""Putting what changed since the last time gives what putting everything gives."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from forestay.formats import carry_over, diff
from forestay.formats.coerce import copied
from forestay.formats.facts import CommandFact, Facts
from forestay.formats.port import REGISTRY, Where, load_format
from tests.formats import json_stories as stories

HERE = Where(now=1_768_700_000_000, naive="utc")
ID = {"ai-session": "login-2026-01-31", "orchestrator": "2026-01-31-abc123"}
LOGS = ("files", "commands", "notes")
NAMES = [name for name in Facts.__struct_fields__ if name not in ("native_id", *LOGS)]
commands = st.lists(st.builds(CommandFact, name=stories.filled, at=stories.moments), max_size=2)


@st.composite
def changed(draw: Any) -> tuple[Facts, Facts]:
    """Facts, and the same facts with some of them changed."""
    one, other = draw(stories.facts), draw(stories.facts)
    names = draw(st.sets(st.sampled_from(NAMES)))
    new = replace(one, **{name: getattr(other, name) for name in names})
    if draw(st.booleans()):
        more = [replace(step, id=f"n{at}") for at, step in enumerate(other.steps)]
        new = replace(one, steps=[*one.steps, *more], updated_at=other.updated_at)
    return one, new


@pytest.mark.parametrize("id", REGISTRY)
@given(facts=changed(), ran=commands)
def test_what_did_not_change_need_not_be_put_again(
    id: str, facts: tuple[Facts, Facts], ran: list[CommandFact]
) -> None:
    format, (one, new) = load_format(id), facts
    native = ID.get(id, one.native_id)
    one = replace(one, native_id=native, files=[], commands=[])
    new = replace(new, native_id=native, files=[], commands=ran)
    old = carry_over.write(format, None, one, HERE)
    before = copied(old)
    whole = carry_over.write(format, old, new, HERE)
    quick = carry_over.write(format, old, new, HERE, was=one)
    assert diff.identical(quick, whole)
    assert diff.identical(old, before), "what was given is not changed"
