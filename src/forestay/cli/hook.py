"""hook and ingest: what hooks of agents said, taken up, and what an agent is told at its start.

`hook` is run by the spool script alone. It says nothing unless there is something to say, in the
form in which the agent expects it.
"""

from __future__ import annotations

from forestay.base.text import plural
from forestay.cli.arguments import Command, arg, flag
from forestay.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from forestay.agents.ingest import Ingested
    from forestay.api.forestay import Forestay
    from forestay.cli.terminal import Screen

_PLAIN = frozenset({"opencode"})
"""Agents that are told in plain text; all others in a JSON object."""


def run_hook(options: Namespace, stay: Forestay, screen: Screen) -> None:
    if options.set_up:
        stay.agents.write_script()
        return
    if not (options.agent and options.payload):
        raise InvalidInput(
            "AGENT and --payload are missing",
            why="this is run by the script that hooks of agents run",
            hint="to let an agent record its sessions: forestay install AGENT",
        )
    text = stay.agents.hook(options.agent, options.payload)
    if not text:
        return
    if options.agent in _PLAIN:
        for line in text.split("\n"):
            screen.line(line)
        return
    told = {"hookEventName": "SessionStart", "additionalContext": text}
    screen.object({"hookSpecificOutput": told})


def run_ingest(options: Namespace, stay: Forestay, screen: Screen) -> None:
    if options.discard:
        count, size = stay.agents.discard()
        screen.answer({"discarded": count, "bytes": size})
        screen.done(f"{plural(count, 'payload')} of hooks deleted, {size:,} bytes.")
        return
    done = stay.agents.ingest()
    screen.answer(
        {
            "taken": done.taken,
            "ignored": done.ignored,
            "wrong": done.wrong,
            "quarantined": done.quarantined,
            "waiting": done.waiting,
            "busy": done.busy,
            "problems": done.problems,
        }
    )
    screen.done(*_told(done))
    for problem in done.problems:
        screen.aside(("not recorded: ", "yellow"), problem)


def _told(done: Ingested) -> list[str]:
    if done.busy:
        return [f"Another process is taking up what hooks said; {done.waiting} waiting."]
    parts = [
        f"{plural(done.taken, 'payload')} of hooks taken up",
        f"{done.ignored} of no interest" if done.ignored else "",
        f"{done.wrong} of an unknown shape" if done.wrong else "",
        f"{done.quarantined} no JSON" if done.quarantined else "",
        f"{done.waiting} waiting" if done.waiting else "",
    ]
    return [", ".join(filter(None, parts)) + "."]


COMMANDS = {
    "hook": Command(
        run_hook,
        arg("agent?", "AGENT", "whose hook it is"),
        arg("--payload", "NAME", "of the file in the spool"),
        flag("--set-up", "write the script that hooks run, for a plugin"),
        "forestay hook claude-code --payload NAME",
        "forestay hook --set-up",
    ),
    "ingest": Command(
        run_ingest,
        flag("--discard", "delete, for good, what was set aside because nobody understood it"),
        "forestay ingest",
        "forestay ingest --discard",
    ),
}
