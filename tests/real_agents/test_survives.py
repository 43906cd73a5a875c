"""The promise, on real agents: killed in the middle of a tool, it begins again knowing all."""

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
TOUCHED = ("salut.txt", "heard.txt", "part.txt")

# Some agents leave a sub-agent to itself and go on.
_PART_IS_DONE = "for i in $(seq 200); do [ -e part.txt ] && break; sleep 0.1; done"


@dataclass
class Check:
    """A command that stays at work until it is let go, and for a minute at most."""

    folder: Path

    def __post_init__(self) -> None:
        self.script = self.folder / "long-check.sh"
        self.script.write_text(
            f"touch {self.started}\n"
            f"for i in $(seq 600); do [ -e {self.folder}/let-go ] && break; sleep 0.1; done\n"
        )

    @property
    def started(self) -> Path:
        return self.folder / "started"

    @property
    def command(self) -> str:
        return f"sh {self.script}"

    def end(self) -> None:
        (self.folder / "let-go").touch()


@pytest.fixture
def check(place: Place) -> Iterator[Check]:
    """A tool outlives an agent that is killed; none of them outlives the test."""
    under_way = Check(place.home)
    yield under_way
    under_way.end()


def work(client: Client, place: Place, check: Check) -> list[Step]:
    """Edits, shell commands, a sub-agent, a call of our server; then a tool that takes long."""
    tools, salut = client.tools, place.project / "salut.txt"
    return [
        tools.shell("echo bonjour > heard.txt"),
        tools.write(salut, "salut\n"),
        tools.edit(salut, "salut", "coucou"),
        tools.delegate("[[script:part]] write the small part"),
        tools.shell(_PART_IS_DONE),
        tools.mcp("record", {"events": [{"do": "decide", "what": DECISION, "because": "polite"}]}),
        tools.shell(LAST),
        tools.shell(check.command),
    ]


def test_a_killed_agent_begins_again_with_what_it_was_doing(
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

    model.scripts = {"after": [Step(say="I know where it stopped.")]}
    said = client.start(place, "Go on. [[script:after]]").wait()
    told = briefing(model, "after", said)
    assert f"Goal: {GOAL}\n" in told
    assert f"{GOAL}. Keep it short." in section(told, "Last user message"), "in the user's words"
    assert LAST in section(told, "Commands").splitlines()[1], "the last command that ended"
    assert re.search(r"interrupted: .*long-check\.sh", told), "the tool that has no outcome"
    assert DECISION in section(told, "Decisions"), "what came through the server"
    assert "It is done." in section(told, "Agents"), "what the sub-agent answered"
    for name in TOUCHED:
        assert f"{name}: " in section(told, "Files touched"), "by a tool or by a command"
    assert not place.not_understood(), "every payload has a meaning"
