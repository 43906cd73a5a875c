"""Agents report that the MCP server is connected. Tests of the server are in tests/mcp."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.real_agents.clients import CLAUDE, GEMINI, Client, Place

pytestmark = pytest.mark.agents


@pytest.mark.parametrize("client", [CLAUDE, GEMINI], ids=lambda each: each.name)
def test_an_agent_reports_that_the_server_is_connected(client: Client, place: Place) -> None:
    if client.executable() is None:
        pytest.skip(f"not run: {client.name}")
    client.settings(place)
    place.forestay("install", client.name)
    # An agent waits for a server only a few seconds, which may not suffice on a busy machine.
    listed = next((output for output in _list_servers(client, place) if " Connected" in output), "")
    assert any("forestay" in line and " Connected" in line for line in listed.splitlines()), listed


def _list_servers(client: Client, place: Place) -> Iterator[str]:
    for _ in range(3):
        yield client.call(place, "mcp", "list")
