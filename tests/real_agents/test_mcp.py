"""The server, as the agents that use it say. What judges servers is in tests/mcp."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.real_agents.clients import CLAUDE, GEMINI, Client, Place

pytestmark = pytest.mark.agents


@pytest.mark.parametrize("client", [CLAUDE, GEMINI], ids=lambda each: each.name)
def test_an_agent_says_that_it_is_connected(client: Client, place: Place) -> None:
    if client.executable() is None:
        pytest.skip(f"not run: {client.name}")
    client.settings(place)
    place.forestay("install", client.name)
    # An agent gives a server a few seconds only, which a busy machine may not have.
    listed = next((said for said in _lists(client, place) if " Connected" in said), "")
    assert any("forestay" in line and " Connected" in line for line in listed.splitlines()), listed


def _lists(client: Client, place: Place) -> Iterator[str]:
    for _ in range(3):
        yield client.call(place, "mcp", "list")
