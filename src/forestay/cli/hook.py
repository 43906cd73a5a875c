"""The commands hook and ingest: record the events of agents' hooks, and brief agents at start.

Only the spool script runs `hook`. It prints nothing, or a briefing in the form the agent expects.
"""

from __future__ import annotations

from forestay.base.text import plural
from forestay.cli.arguments import Command, arg, flag
from forestay.cli.terminal import pick
from forestay.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.cli.types import Forestay, Namespace, Screen

_PLAIN = frozenset({"opencode"})
"""Agents that read plain text; all others read a JSON object."""


def run_hook(options: Namespace, stay: Forestay, screen: Screen) -> None:
    if options.set_up:
        stay.agents.write_script()
        return
    if not (options.agent and options.payload):
        raise InvalidInput(
            "AGENT and --payload are missing",
            why="only the hook script of an agent runs this",
            hint="to record the sessions of an agent: forestay install AGENT",
        )
    text = stay.agents.hook(options.agent, options.payload)
    if text and options.agent in _PLAIN:
        screen.block(text)
    elif text:
        output = {"hookEventName": "SessionStart", "additionalContext": text}
        screen.object({"hookSpecificOutput": output})


def run_ingest(options: Namespace, stay: Forestay, screen: Screen) -> None:
    if options.discard:
        count, size = stay.agents.discard()
        screen.answer(discarded=count, bytes=size)
        screen.done(f"{plural(count, 'hook event')} deleted, {size:,} bytes.")
        return
    done = stay.agents.ingest()
    screen.answer(pick(done, "taken ignored wrong quarantined waiting busy problems"))
    if done.busy:
        screen.done(f"Another process is recording hook events; {done.waiting} waiting.")
    else:
        parts = [
            f"{plural(done.taken, 'hook event')} recorded",
            f"{done.ignored} ignored" if done.ignored else "",
            f"{done.wrong} not understood" if done.wrong else "",
            f"{done.quarantined} not JSON" if done.quarantined else "",
            f"{done.waiting} waiting" if done.waiting else "",
        ]
        screen.done(", ".join(filter(None, parts)) + ".")
    for problem in done.problems:
        screen.warn(("not recorded: ", "yellow"), problem)


COMMANDS = {
    "hook": Command(
        run_hook,
        arg("agent?", "AGENT", "the agent of the hook"),
        arg("--payload", "NAME", "the name of a spool file"),
        flag("--set-up", "write the hook script, for a plugin"),
        "forestay hook claude-code --payload NAME",
        "forestay hook --set-up",
    ),
    "ingest": Command(
        run_ingest,
        flag("--discard", "delete events that were set aside because they were not understood"),
        "forestay ingest",
        "forestay ingest --discard",
    ),
}
