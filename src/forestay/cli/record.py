"""Commands that record what happens in a session: facts, tasks and agents."""

from __future__ import annotations

import os

from forestay.base.text import shorten
from forestay.base.vocabulary import undecided
from forestay.cli.arguments import Command, arg, flag
from forestay.cli.common import Verb, confirm
from forestay.cli.terminal import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.cli.types import Any, Event, Forestay, Namespace, Part, Screen, Session

_WIDTH = 60
_COLORS = {"running": "green", "failed": "red", "blocked": "yellow", "timed_out": "red"}


# -- facts -------------------------------------------------------------------------------------


def _describe_decision(body: Any) -> str:
    rejected = [one for one in body.options if body.chosen and one != body.chosen]
    left = undecided(body.what, body.chosen, body.options)
    message = f"decided; rejected: {', '.join(rejected)}" if rejected else "decided"
    message = f"recorded; still open: {', '.join(left)}" if left else message
    return shorten(message, _WIDTH)


def _report_file(session: Session, event: Event, screen: Screen) -> None:
    body: Any = event.body
    lines = [f"+{body.added}" if body.added else "", f"-{body.removed}" if body.removed else ""]
    message = " ".join(filter(None, [body.action, body.path, *lines]))
    without_hash: Part = ""
    if not (body.after or body.action == "deleted"):
        try:
            size = os.path.getsize(os.path.join(session.context.workspace.tree.root, body.path))
            without_hash = (f" ({size:,} bytes, not hashed: changes will not be noticed)", "yellow")
        except OSError:
            without_hash = " (not hashed: there is no such file)"
    confirm(session, event, screen, message, without_hash)


def _describe_artifact(body: Any) -> str:
    if not body.kept:
        return f"saved only the digest of {body.path}: it contains secrets"
    return f"saved {body.path} ({body.size:,} bytes)"


def _write_artifact(options: Namespace, session: Session, screen: Screen) -> bool:
    """Write the saved content of an artifact to a file, if --to is given; return whether it is."""
    if not options.to:
        return False
    to = os.path.abspath(options.to)
    size = session.files.write_artifact(options.path, to, overwrite=options.force)
    screen.answer(session=session.id, path=options.path, file=to, size=size)
    screen.done(("Wrote ", "green"), f"{options.path} to {to} ({size:,} bytes)")
    return True


def _parse_value(options: Namespace, session: Session, screen: Screen) -> bool:
    options.value = options.value if options.text else scalar(options.value)
    return False


def scalar(text: str) -> str | int | float | bool | None:
    """Parse true, false, null or a number; return other text unchanged.

    A number such as 007 stays text, because it would be written differently.
    """
    words: dict[str, bool | None] = {"true": True, "false": False, "null": None}
    if text in words:
        return words[text]
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        if str(value) == text and value == value and abs(value) < 2**53:
            return value
    return text


def _describe_attribute(body: Any) -> str:
    value = body.value if isinstance(body.value, str) else json_text(body.value)
    return f"{body.key} = {shorten(value, _WIDTH)}"


def _report_undo(session: Session, last: Event, screen: Screen) -> None:
    """Print every event that an undo withdrew: events recorded together are undone together."""
    message = ""
    if not screen.json:
        from forestay.cli.event_lines import describe_event  # start-up

        lines = list(session.log())
        ours = [line.event for line in lines if line.event.id.startswith(last.id)]
        gone = {getattr(event.body, "event", "") for event in ours}
        found = [(line.event.seq, *describe_event(line)) for line in lines if line.event.id in gone]
        words = ", ".join(f"#{seq} {word} {text}" for seq, word, text in found)
        message = shorten(f"withdrawn: {words}", 2 * _WIDTH)
    confirm(session, last, screen, message)
    line = screen.as_typed(f"forestay undo {last.seq}")
    screen.done(("  to bring it back: ", "dim"), (line, "cyan"))


# -- tasks and agents --------------------------------------------------------------------------


def _status(unit: Any) -> Part:
    done = f" {unit.progress:.0%}" if unit.progress and unit.status == "running" else ""
    return unit.status.replace("_", " ") + done, _COLORS.get(unit.status, "dim")


def _summary(status: dict[str, Any]) -> dict[str, Any]:
    return {name: status[name] for name in ("session", "status", "goal", "progress", "seq")}


def run_task_list(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = stay.current()
    tasks = session.tasks.list()
    screen.answer(lambda: _summary(session.status().as_json()), tasks=tasks)
    rows: list[list[Part]] = []
    for task in tasks:
        result = task.because if task.is_open else task.outcome or task.because
        what = " – ".join(filter(None, [task.title, result]))
        rows.append([task.id, _status(task), task.agent, what])
    empty = 'There are no tasks yet. Add one: forestay task add "TEXT"'
    screen.listing("TASK STATUS AGENT WHAT", rows, empty)


def run_agent_list(options: Namespace, stay: Forestay, screen: Screen) -> None:
    from forestay.base.clock import to_ms  # start-up
    from forestay.cli.log import when  # start-up

    session = stay.current()
    agents, status = session.agents.list(), session.status().as_json()
    now = stay.context.clock.now()
    life = {one["agent"]: one["state"] for one in status["holders"] if one["agent"]}
    values = [{**one.as_json(), "process": life.get(one.id)} for one in agents]
    screen.answer(_summary(status), agents=values)
    rows: list[list[Part]] = []
    for one in agents:
        state = life.get(one.id, "")
        color = {"alive": "green", "dead": "red"}.get(state, "yellow")
        process: Part = (state or "not tracked", color) if one.status == "running" else ""
        started = when(to_ms(one.started_at), now) if one.started_at else ""
        waits = f"waits for {one.blocking_on}" if one.blocking_on and one.is_open else ""
        result = one.error if one.is_open else one.result
        what = " – ".join(filter(None, [one.type, one.task, waits, result]))
        rows.append([one.id, _status(one), (started, "dim"), process, what])
    empty = "There are no agents yet. Start one: forestay agent start ID"
    screen.listing("AGENT STATUS STARTED PROCESS WHAT", rows, empty)


COMMANDS = {
    "note": Verb(
        lambda body: "noted for the next briefing" if body.for_next else "noted",
        'forestay note "the primary method is bootstrap"',
        'forestay note --for-next "run the slow tests first"',
        "git diff --stat | forestay note -",
        warns=True,
        text="TEXT the note",
        for_next="show it first in the next briefing",
    ),
    "decide": Verb(
        _describe_decision,
        'forestay decide "keep sessions in SQLite" --because "one file, no server"',
        'forestay decide "database" --option SQLite --option Postgres --chosen SQLite',
        what="WHAT what was decided",
        options="OPTION what could have been chosen; can be repeated",
        chosen="OPTION the option that was chosen",
    ),
    "record error": Verb(
        "{0.category} error recorded",
        'forestay record error "the API answers 503" --category transient',
        message="MSG what went wrong",
        category="WORD",
        agent="AGENT the agent it happened to",
    ),
    "record command": Verb(
        "{0.name}: {0.status}",
        'forestay record command pytest --arguments "-q tests" --duration-ms 5300',
        'forestay record command make --status failure --error "no rule to make target x"',
        name="NAME the command that ran",
        arguments="ARGUMENTS its arguments",
        status="WORD",
        duration_ms="N how long it ran",
        error="TEXT what it printed when it failed",
        agent="AGENT the agent that ran it",
        task="TASK the task it was run for",
        model="MODEL the model that was used",
    ),
    "record file": Verb(
        "",
        "forestay record file src/login.py",
        "forestay record file a.py --agent code-1",
        report=_report_file,
        about="Values that are not given are determined from the file.",
        path="PATH a file of the project",
        action="WORD",
        added="N lines added",
        removed="N lines removed",
        before="SHA SHA-256 before the change",
        after="SHA SHA-256 after the change",
    ),
    "record artifact": Verb(
        _describe_artifact,
        arg("--to", "FILE", "write its saved content to this file instead"),
        flag("--force", "with --to: replace the file if it exists"),
        "forestay record artifact report.pdf",
        "forestay record artifact report.pdf --to old-report.pdf",
        prepare=_write_artifact,
        path="PATH a file of the project",
    ),
    "record tokens": Verb(
        "{0.tokens:,} tokens",
        "forestay record tokens 25000",
        "forestay record tokens 900 --agent code-1",
        count="N tokens in the context now",
        agent="AGENT the agent whose context it is",
    ),
    "record compaction": Verb(
        "compaction recorded",
        "forestay record compaction",
        then="forestay brief",
        summary="TEXT what the context was reduced to",
    ),
    "record rename": Verb(
        "the goal is now: {0.goal:.80}",
        'forestay record rename "Fix login and logout"',
        warns=True,
        goal="GOAL the new goal",
    ),
    "record model": Verb(
        "model: {0.value}",
        "forestay record model claude-opus-4",
        warns=True,
        name="NAME the model's name",
    ),
    "record attribute": Verb(
        _describe_attribute,
        flag("--text", "store VALUE as text, even if it is a number, true, false or null"),
        "forestay record attribute ticket PROJ-17",
        "forestay record attribute progress 0.4",
        prepare=_parse_value,
        warns=True,
        name="NAME its name",
        value="VALUE a number, true, false, null, or text",
    ),
    "undo": Verb(
        "",
        "forestay undo",
        'forestay undo 12 --because "wrong session"',
        report=_report_undo,
        finished=True,
        event="EVENT its number in the log, or its id; default: the last command",
    ),
    "task list": Command(run_task_list, "forestay task", "forestay task list --json"),
    "task add": Verb(
        lambda body: f"task {body.step}: {shorten(body.title, _WIDTH)}",
        'forestay task add "write the parser"',
        'forestay task add "write its tests" --id tests --agent code-1',
        then="forestay task start {0.step}",
        title="TEXT what is to be done",
        id="ID an id of your own; default: t1, t2, …",
        phase="TASK the task it is part of",
        agent="AGENT the agent that will do it",
    ),
    "task start": Verb(
        "task {0.step} is running",
        "forestay task start t1",
        then="forestay task done {0.step}",
        agent="AGENT the agent that does it",
    ),
    "task done": Verb(
        "task {0.step} is done",
        "forestay task done t1",
        'forestay task done t1 --outcome "it parses" --file src/parser.py',
        outcome="TEXT the result",
        files="FILE a file it created; can be repeated",
    ),
    "task block": Verb(
        "task {0.step} is blocked",
        'forestay task block t2 --because "no test data"',
        then="forestay task unblock {0.step}",
    ),
    "task unblock": Verb(
        "task {0.step} is available again",
        "forestay task unblock t2",
        then="forestay task start {0.step}",
    ),
    "task skip": Verb("task {0.step} is skipped", 'forestay task skip t3 --because "t1 covers it"'),
    "agent list": Command(run_agent_list, "forestay agent", "forestay agent list --json"),
    "agent start": Verb(
        "agent {0.agent} is running",
        'forestay agent start code-1 --type feature-dev --task "write the parser"',
        "forestay agent start code-2 --blocking-on code-1 --pid 4711",
        then="forestay agent done {0.agent}",
        type="TYPE its kind, such as feature-dev",
        task="TEXT what it is to do",
        blocking_on="AGENT the agent it waits for",
        pid="N its process, so that its end is noticed",
    ),
    "agent progress": Verb(
        "agent {0.agent} is at {0.fraction:.0%}",
        "forestay agent progress code-1 0.6",
        fraction="PART 0.6 or 60%%",
    ),
    "agent done": Verb(
        "agent {0.agent} is done",
        'forestay agent done code-1 --result "12 tests pass" --created tests/test_parser.py',
        result="TEXT the result",
        created="FILE a file it created; can be repeated",
        modified="FILE a file it modified; can be repeated",
        deleted="FILE a file it deleted; can be repeated",
    ),
    "agent fail": Verb(
        "agent {0.agent} failed",
        'forestay agent fail code-1 --error "rate limited" --category transient',
        then="forestay agent retry {0.agent}",
        category="WORD",
    ),
    "agent retry": Verb("agent {0.agent} runs again", "forestay agent retry code-1"),
    "agent timeout": Verb(
        "agent {0.agent} timed out",
        "forestay agent timeout code-1",
        then="forestay agent retry {0.agent}",
        error="TEXT what it was waiting for",
    ),
}
