"""Claude Code receives its briefing again after it loses its context."""

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
    shown.wait_until_shown("❯")
    yield shown
    shown.close()


def _prompt(terminal: Terminal, model: Model, script: str, text: str) -> None:
    """Type a prompt, and wait for the last step of the script."""
    last = f"{script}#{len(model.scripts[script]) - 1}"
    terminal.type(f"{text} [[script:{script}]]")
    terminal.wait_until(
        lambda: any(each.script == last for each in model.requests), f"the step {last}"
    )
    terminal.wait_until_idle()


def test_the_briefing_is_repeated_after_compaction_and_clear(
    terminal: Terminal, place: Place, model: Model
) -> None:
    model.scripts = {
        "work": [CLAUDE.tools.shell("echo bonjour > greeting.txt"), Step(text="It greets.")],
        "more": [Step(text="More.")],
        "again": [Step(text="Again.")],
    }
    _prompt(terminal, model, "work", f"{GOAL}.")
    terminal.type("/compact")
    terminal.wait_until_shown("Compacted")
    _prompt(terminal, model, "more", "Go on.")
    text = briefing(model, "more")
    assert GOAL in text and "greeting.txt" in text
    assert SUMMARY in place.forestay("log"), "the summary is recorded"

    terminal.type("/clear")
    terminal.wait_until_idle()
    _prompt(terminal, model, "again", "What was it?")
    text = briefing(model, "again")
    assert GOAL in text and "greeting.txt" in text
    assert len(json.loads(place.forestay("list", "--json"))["sessions"]) == 1, "one session"


def test_a_continued_conversation_stays_in_its_session_and_a_fork_starts_another(
    place: Place, model: Model
) -> None:
    if CLAUDE.executable() is None:
        pytest.skip("not run: claude-code")
    CLAUDE.settings(place)
    place.forestay("install", "claude-code")
    model.scripts = {each: [Step(text="Done.")] for each in ("work", "more", "fork")}
    CLAUDE.start(place, f"{GOAL}. [[script:work]]").wait()
    _with_options("--continue").start(place, "Go on. [[script:more]]").wait()
    assert f"Goal: {GOAL}\n" in briefing(model, "more")
    _with_options("--continue", "--fork-session").start(place, "Or so. [[script:fork]]").wait()
    text = briefing(model, "fork")
    listed = json.loads(place.forestay("list", "--json"))["sessions"]
    ids = [each["session"] for each in listed]
    assert len(ids) == 2 and any(f"continues session {each}" in text for each in ids)


def _with_options(*options: str) -> Client:
    return replace(CLAUDE, arguments=lambda prompt: [*options, *CLAUDE.arguments(prompt)])
