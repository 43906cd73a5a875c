"""Codex runs hooks once they are trusted, with a daemon that outlives its terminals."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator

import pytest

from tests.real_agents.clients import CODEX, Place
from tests.real_agents.model import Model, Step
from tests.real_agents.recorded_prompts import briefing
from tests.real_agents.terminal import Terminal

pytestmark = pytest.mark.agents

GOAL = "Greet in French too"
Open = Callable[[str], Terminal]


@pytest.fixture
def codex(place: Place) -> Iterator[Open]:
    if CODEX.executable() is None:
        pytest.skip("not run: codex")
    CODEX.settings(place)
    place.forestay("install", "codex")
    shown: list[Terminal] = []

    def window(prompt: str) -> Terminal:
        env = place.environment(CODEX.variables(place))
        shown.append(Terminal(CODEX.command("-m", "scripted", prompt), cwd=place.project, env=env))
        return shown[-1]

    yield window
    for each in shown:
        each.close()
    _end_daemon(place)


def _end_daemon(place: Place) -> None:
    for name in ("daemon-updater.pid", "daemon.pid"):
        path = place.home / ".codex" / "app-server-daemon" / name
        if path.exists():
            try:
                os.kill(json.loads(path.read_text())["pid"], signal.SIGKILL)
            except ProcessLookupError:
                pass


def _quit(window: Terminal) -> None:
    window.wait_until_idle()
    window.type("/quit")
    window.process.wait(30)


def test_once_trusted_the_next_terminal_receives_what_the_last_one_did(
    codex: Open, place: Place, model: Model
) -> None:
    model.scripts = {
        "work": [CODEX.tools.shell("echo bonjour > greeting.txt"), Step(text="It greets.")],
        "after": [Step(text="I know.")],
    }
    assert "not trusted yet" in place.forestay("doctor")
    first = codex(f"{GOAL}. [[script:work]]")
    first.wait_until_shown("Trust and continue")
    first.type("")
    first.wait_until_shown("Trust all and continue")
    first.type("2")
    first.wait_until(
        lambda: any(each.script == "work#1" for each in model.requests), "the last step"
    )
    assert "not trusted" not in place.forestay("doctor")
    _quit(first)

    second = codex("Go on. [[script:after]]")
    second.wait_until(lambda: any(each.script == "after#0" for each in model.requests), "a request")
    text = briefing(model, "after")
    assert f"Goal: {GOAL}\n" in text and "greeting.txt" in text
    _quit(second)
    assert len(json.loads(place.forestay("list", "--json"))["sessions"]) == 1
