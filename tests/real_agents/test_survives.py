"""A real agent killed in the middle of a tool starts again with a complete briefing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.real_agents.clients import Client, Place
from tests.real_agents.model import Model, Step
from tests.real_agents.recorded_prompts import briefing, section

pytestmark = pytest.mark.agents

GOAL = "Greet in French too"
DECISION = "say bonjour in the morning"
LAST = "ls -1"
TOUCHED = ("salut.txt", "greeting.txt", "part.txt")

# Some agents continue without waiting for a sub-agent.
_PART_IS_DONE = "for i in $(seq 200); do [ -e part.txt ] && break; sleep 0.1; done"


@dataclass
class Check:
    """Run a command that lasts until it is released, and for a minute at most."""

    folder: Path

    def __post_init__(self) -> None:
        self.script = self.folder / "long-check.sh"
        self.script.write_text(
            f"touch {self.started}\n"
            f"for i in $(seq 600); do [ -e {self.folder}/release ] && break; sleep 0.1; done\n"
        )

    @property
    def started(self) -> Path:
        return self.folder / "started"

    @property
    def command(self) -> str:
        return f"sh {self.script}"

    def release(self) -> None:
        (self.folder / "release").touch()


@pytest.fixture
def check(place: Place) -> Iterator[Check]:
    """Provide a long command, and end it with the test: a tool outlives an agent that is killed."""
    long_check = Check(place.home)
    yield long_check
    long_check.release()


def work(client: Client, place: Place, check: Check) -> list[Step]:
    """Return edits, shell commands, a sub-agent, a call of our server; then a long command."""
    tools, salut = client.tools, place.project / "salut.txt"
    return [
        tools.shell("echo bonjour > greeting.txt"),
        tools.write(salut, "salut\n"),
        tools.edit(salut, "salut", "coucou"),
        tools.delegate("[[script:part]] write the small part"),
        tools.shell(_PART_IS_DONE),
        tools.mcp("record", {"events": [{"do": "decide", "what": DECISION, "because": "polite"}]}),
        tools.shell(LAST),
        tools.shell(check.command),
    ]


def test_a_killed_agent_starts_again_with_a_complete_briefing(
    client: Client, place: Place, model: Model, check: Check
) -> None:
    client.settings(place)
    place.forestay("install", client.name)
    model.scripts = {
        "work": work(client, place, check),
        "part": [client.tools.shell("echo part > part.txt"), client.tools.report("It is done.")],
    }
    first = client.start(place, f"{GOAL}. Keep it short. [[script:work]]")
    first.wait_for(check.started)
    first.kill()

    model.scripts = {"after": [Step(text="I know where it stopped.")]}
    output = client.start(place, "Go on. [[script:after]]").wait()
    text = briefing(model, "after", output)
    assert f"Goal: {GOAL}\n" in text
    assert f"{GOAL}. Keep it short." in section(text, "Last user message"), "as the user wrote it"
    assert LAST in section(text, "Commands").splitlines()[1], "the last command that ended"
    assert re.search(r"interrupted: .*long-check\.sh", text), "the tool that has no outcome"
    assert DECISION in section(text, "Decisions"), "recorded through the server"
    assert "It is done." in section(text, "Agents"), "what the sub-agent answered"
    for name in TOUCHED:
        assert f"{name}: " in section(text, "Files touched"), "by a tool or by a command"
    assert not place.ignored_payloads(), "every payload is understood"
