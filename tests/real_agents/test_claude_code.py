"""Claude Code at a terminal: what it forgets, it is told again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.real_agents.clients import CLAUDE, Client, Place
from tests.real_agents.model import SUMMARY, Model, Step
from tests.real_agents.recorded_prompts import briefing
from tests.real_agents.terminal import Terminal

pytestmark = pytest.mark.agents

GOAL = "Greet in French too"


@pytest.fixture
def terminal(place: Place) -> Iterator[Terminal]:
    if CLAUDE.executable() is None:
        pytest.skip("not run: claude-code")
    CLAUDE.settings(place)
    place.forestay("install", "claude-code")
    command = CLAUDE.command("--allowedTools", "Bash")
    env = place.environment(CLAUDE.variables(place))
    shown = Terminal(command, cwd=place.project, env=env)
    shown.until_shown("❯")
    yield shown
    shown.close()


def _ask(terminal: Terminal, model: Model, script: str, text: str) -> None:
    """Ask, and wait for the last step of the script."""
    last = f"{script}#{len(model.scripts[script]) - 1}"
    terminal.type(f"{text} [[script:{script}]]")
    terminal.until(lambda: any(each.script == last for each in model.asked), f"the step {last}")
    terminal.until_idle()


def test_what_compaction_and_clear_took_away_is_told_again(
    terminal: Terminal, place: Place, model: Model
) -> None:
    model.scripts = {
        "work": [CLAUDE.tools.shell("echo bonjour > heard.txt"), Step(say="It greets.")],
        "more": [Step(say="More.")],
        "anew": [Step(say="Anew.")],
    }
    _ask(terminal, model, "work", f"{GOAL}.")
    terminal.type("/compact")
    terminal.until_shown("Compacted")
    _ask(terminal, model, "more", "Go on.")
    told = briefing(model, "more")
    assert GOAL in told and "heard.txt" in told
    assert SUMMARY in place.forestay("log"), "what was left of it is part of the record"

    terminal.type("/clear")
    terminal.until_idle()
    _ask(terminal, model, "anew", "What was it?")
    told = briefing(model, "anew")
    assert GOAL in told and "heard.txt" in told
    assert len(json.loads(place.forestay("list", "--json"))["sessions"]) == 1, "one piece of work"


def test_a_conversation_that_goes_on_keeps_its_session_and_a_fork_begins_another(
    place: Place, model: Model
) -> None:
    if CLAUDE.executable() is None:
        pytest.skip("not run: claude-code")
    CLAUDE.settings(place)
    place.forestay("install", "claude-code")
    model.scripts = {each: [Step(say="Done.")] for each in ("work", "more", "fork")}
    CLAUDE.start(place, f"{GOAL}. [[script:work]]").wait()
    _with("--continue").start(place, "Go on. [[script:more]]").wait()
    assert f"Goal: {GOAL}\n" in briefing(model, "more")
    _with("--continue", "--fork-session").start(place, "Or so. [[script:fork]]").wait()
    told = briefing(model, "fork")
    listed = json.loads(place.forestay("list", "--json"))["sessions"]
    ids = [each["session"] for each in listed]
    assert len(ids) == 2 and any(f"continues session {each}" in told for each in ids)


def _with(*options: str) -> Client:
    return replace(CLAUDE, arguments=lambda prompt: [*options, *CLAUDE.arguments(prompt)])
