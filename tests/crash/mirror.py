"""Scenarios with bound formats under faults, for `test_mirror_crash`.

The session has files in three formats, and the user has just edited one of them. The check is the
next command: after it journal and files agree, nothing that was acknowledged or edited is lost or
doubled, and no temporary file is left.
"""

import json
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import yaml

import forestay
from forestay.api.session import Session
from forestay.base.clock import Clock
from forestay.errors import Busy, ReadOnly, StoreFailed
from forestay.model.event import CommandRan, StepAdded
from tests.crash.scenario import Ack, Scenario, judge
from tests.homes import state_of

SESSION, FEATURE = "s1", "login-2026-01-31"
CRAFT = "0b0a7a7e-94c1-4b13-a5ee-6ad2b0a7c001"
FORMATS = [f"ai-session:{FEATURE}", "orchestrator", f"craft:{CRAFT}"]
CURRENT = ".claude/orchestrator-session.json"
_HOUR = 3_600_000

# A name, what is done, and the kinds of events that it makes.
Step = tuple[str, Callable[[Session], object], list[str]]
WORK: list[Step] = [
    ("task", lambda s: s.tasks.add("Ours", id="t2", key="task"), ["step.added"]),
    ("command", lambda s: s.record.command("pytest", key="command"), ["command.ran"]),
    ("done", lambda s: s.tasks.done("t1", key="done"), ["step.started", "step.completed"]),
]
END: list[Step] = [
    ("command", lambda s: s.record.command("pytest", key="command"), ["command.ran"]),
    ("complete", lambda s: s.complete(key="complete"), ["session.completed"]),
]
BEFORE = ["session.started", "step.added", "command.ran"]


class _Ticking(Clock):
    """Advance one second at every reading, so that each run writes the same files."""

    def __init__(self, later: int = 0) -> None:
        self._now = super().now() + later

    def now(self) -> int:
        self._now += 1000
        return self._now


def _open(home: str, *, later: int = 0) -> forestay.Forestay:
    folder = os.path.dirname(home)
    return forestay.open(home, cwd=folder, trust_env=False, clock=_Ticking(later))


def _prepare(home: str, formats: Sequence[str] = ()) -> None:
    with _open(home) as opened:
        session = opened.start("Add login page", id=SESSION)
        session.tasks.add("First", id="t1")
        session.record.command("before")
        for format_id in formats:
            session.files.bind(format_id)


def _prepare_edited(home: str) -> None:
    _prepare(home, FORMATS)
    path = Path(home).parent / CURRENT
    value = json.loads(path.read_text())
    value["pending_tasks"].append("Theirs")
    path.write_text(json.dumps(value, indent=2) + "\n")


def _run(work: Sequence[Step], home: str, ack: Ack) -> None:
    with _open(home, later=_HOUR) as opened:
        session = opened.session(SESSION)
        for _, act, kinds in work:
            act(session)
            for kind in kinds:
                ack(kind)


def _run_binding(home: str, ack: Ack) -> None:
    with _open(home, later=_HOUR) as opened:
        session = opened.session(SESSION)
        for format_id in FORMATS:
            session.files.bind(format_id)


def _check(
    work: Sequence[Step], edits: Sequence[str], home: str, acked: Sequence[str]
) -> list[str]:
    notices: list[str] = []
    folder = Path(home).parent
    with _open(home, later=2 * _HOUR) as opened:
        opened.context.on_notice = notices.append
        session = opened.session(SESSION)
        kinds = _own_kinds(session)
        problems = _judge_kinds(work, kinds, acked)
        session.note("the next command")
        if _own_kinds(session) != [*kinds, "note.added"]:
            problems.append("the next event is not simply added")
        problems += _find_disagreements(session, folder, edits, bool(work))
        if not (report := session.verify()).ok:
            problems.append(f"does not verify: {report.findings}")
    refused = [line for line in notices if "not written" in line or "not up to date" in line]
    return [*problems, *refused, *_find_leftovers(folder)]


def _own_kinds(session: Session) -> list[str]:
    events = [line.event for line in session.log()]
    return [event.kind for event in events if not event.head.actor.startswith("file:")]


def _judge_kinds(work: Sequence[Step], kinds: Sequence[str], acked: Sequence[str]) -> list[str]:
    intended = [[f"{n} {k}" for k in made] for n, (_, _, made) in enumerate(work)]
    flat = [each for move in intended for each in move]
    found = flat[: len(kinds) - len(BEFORE)]
    wanted = [*BEFORE, *(each.partition(" ")[2] for each in flat)]
    problems = [] if list(kinds) == wanted[: len(kinds)] else [f"not the intended events: {kinds}"]
    return [*problems, *judge(intended, found, flat[: len(acked)])]


def _find_disagreements(
    session: Session, folder: Path, edits: Sequence[str], bound_at_first: bool
) -> list[str]:
    """Return where the files disagree with the journal."""
    bodies = [line.event.body for line in session.log()]
    titles = sorted(body.title for body in bodies if isinstance(body, StepAdded))
    commands = sorted(body.name for body in bodies if isinstance(body, CommandRan))
    problems = [f"edit lost or doubled: {e}" for e in edits if titles.count(e) != 1]
    status = state_of(session).core.status
    for binding in session.files.list():
        place = Path(binding.place)
        if not place.exists():
            problems.append(f"{binding.format}: {place.name} is missing")
        elif binding.format == "ai-session":
            updates = _allowed_updates(session, bound_at_first)
            problems += _check_ai_session(place.parent, titles, commands, updates, status)
        else:
            problems += _check_json(binding.format, json.loads(place.read_text()), titles, status)
    is_current = (folder / CURRENT).exists()
    if len(session.files.list()) == 3 and is_current == (status == "completed"):
        problems.append("the orchestrator's file is not where it should be")
    return problems


def _allowed_updates(session: Session, bound_at_first: bool) -> list[list[str]]:
    """Return the contents that the log may have: each event since its files exist, once."""
    kinds = [line.event.kind for line in session.log()]
    whole, since = (
        sorted(kind for kind in kinds[first:] if kind != "command.ran")
        for first in (0, len(BEFORE))
    )
    # After a crash the next command may write its event or the files first; and a log that is
    # missing next to its state counts as removed: it is written again, complete.
    return [since] if bound_at_first else [since, [], whole]


def _check_json(
    format_id: str, value: dict[str, object], titles: list[str], status: str
) -> list[str]:
    done, pending = value["completed_work"], value["pending_tasks"]
    assert isinstance(done, list) and isinstance(pending, list)
    shown = sorted([*(w["task"] if isinstance(w, dict) else w for w in done), *pending])
    problems = [] if shown == titles else [f"{format_id}: {shown} instead of {titles}"]
    word = {"completed": ("complete", "completed")}.get(status, ("in_progress",))
    return problems if value["status"] in word else [*problems, f"{format_id}: {value['status']}"]


def _check_ai_session(
    folder: Path, titles: list[str], commands: list[str], updates: list[list[str]], status: str
) -> list[str]:
    lines = [_parse_log_line(line) for line in (folder / "history.jsonl").read_bytes().splitlines()]
    good = sorted(str(line["command"]) for line in lines if line and "event" not in line)
    problems = [] if good == commands else [f"history: {good} instead of {commands}"]
    logged = sorted(str(line["event"]) for line in lines if "event" in line)
    problems += [] if logged in updates else [f"history: {logged} is none of {updates}"]
    plan = (folder / "implementation-plan.yaml").read_text()
    problems += [f"plan: without {title}" for title in titles if title not in plan]
    index = (folder.parent / "active-features.yaml").read_text()
    word = "completed" if status == "completed" else "active"
    problems += [] if f"status: {word}" in index.replace('"', "") else [f"index: {index}"]
    return problems + ([] if (folder / "state.yaml").stat().st_size else ["state: empty"])


def _parse_log_line(line: bytes) -> dict[str, object]:
    try:
        value: dict[str, object] = json.loads(line)
    except ValueError:
        return {}  # a torn line is left in place
    return value


def _find_leftovers(folder: Path) -> list[str]:
    roots = [each for each in folder.iterdir() if each.name != "home"]
    found = [path.name for root in roots for path in root.rglob(".*")]
    return [f"left behind: {name}" for name in found if name.endswith(("-tmp", "-swap"))]


_REFUSALS = (StoreFailed, Busy, ReadOnly)

# Work on a session with files in three formats, one of which the user has just edited.
BOUND = Scenario(
    prepare=_prepare_edited,
    run=partial(_run, WORK),
    check=partial(_check, WORK, ["Theirs"]),
    refusals=_REFUSALS,
)

# The session ends, which moves the orchestrator's file to the archive.
ENDED = Scenario(
    prepare=_prepare_edited,
    run=partial(_run, END),
    check=partial(_check, END, ["Theirs"]),
    refusals=_REFUSALS,
)

ESSAY = "essay-7e57d004-2b97-4e7a-b45f-5387367791cd"


def _prepare_essay(home: str) -> None:
    with _open(home) as opened:
        session = opened.start("Write it", id=SESSION)
        session.files.bind(f"essay:{ESSAY}", root=str(_essay(home)))
        session.note("so that there is a backup")


def _essay(home: str) -> Path:
    return Path(home).parent / "essay"


def _run_essay(home: str, ack: Ack) -> None:
    with _open(home, later=_HOUR) as opened:
        session = opened.session(SESSION)
        session.pause()
        ack("session.paused")
        session.resume()
        ack("session.resumed")


def _check_essay(home: str, acked: Sequence[str]) -> list[str]:
    """Require a readable state and backup before any repair, and agreement after a command."""
    state = _essay(home) / "session-state.yaml"
    problems = _find_unreadable(state)
    with _open(home, later=2 * _HOUR) as opened:
        session = opened.session(SESSION)
        found = _own_kinds(session)[2:]
        problems += judge([["session.paused"], ["session.resumed"]], found, acked)
        session.note("the next command")
        status = state_of(session).core.status
    word = {"paused": "paused", "active": "in_progress"}[status]
    written = yaml.safe_load(state.read_bytes())["status"]
    problems += [] if written == word else [f"the state has {written}, the journal {status}"]
    return [*problems, *_find_unreadable(state), *_find_leftovers(_essay(home).parent)]


def _find_unreadable(state: Path) -> list[str]:
    wrong = []
    for path in (state, state.with_name(f"{state.name}.bak")):
        try:
            whole = yaml.safe_load(path.read_bytes())["pipeline_id"] == ESSAY
        except (OSError, yaml.YAMLError, TypeError, KeyError):
            whole = False
        wrong += [] if whole else [f"{path.name} is not whole"]
    return wrong


# An essay has a state file with a backup.
BACKED = Scenario(
    prepare=_prepare_essay,
    run=_run_essay,
    check=_check_essay,
    refusals=_REFUSALS,
)

# The files are created.
CREATED = Scenario(
    prepare=_prepare,
    run=_run_binding,
    check=partial(_check, [], []),
    refusals=_REFUSALS,
)


OTHERS = ["orchestrator", "ai-session:before-2026-01-31"]


def _prepare_other_session(home: str) -> None:
    with _open(home) as opened:
        opened.start("Before", id="s0", formats=OTHERS).pause()


def _run_start(home: str, ack: Ack) -> None:
    with _open(home, later=_HOUR) as opened:
        opened.start("Add login page", id=SESSION, formats=FORMATS)
        ack("session.started")


def _check_started(home: str, acked: Sequence[str]) -> list[str]:
    with _open(home, later=2 * _HOUR) as opened:
        known = {str(line.session): FORMATS for line in opened.list()} | {"s0": OTHERS}
        problems = ["it was started, and is missing"] if acked and SESSION not in known else []
        for id in known:
            opened.session(id).note("the next command")
        for id, formats in known.items():
            bound = opened.session(id).files.list()
            whole = [b for b in bound if Path(b.place).exists() and not b.suspended]
            found = sorted(b.format for b in whole)
            wanted = sorted(format_id.partition(":")[0] for format_id in formats)
            problems += [] if found == wanted else [f"{id} has {found} instead of {wanted}"]
            status = state_of(opened.session(id)).core.status
            is_expected = status == ("paused" if id == "s0" else "active")
            problems += [] if is_expected else [f"{id} is {status}"]
    return [*problems, *_find_leftovers(Path(home).parent)]


# A session starts with files: one replaces another session's file, one adds an entry to a list.
STARTED = Scenario(
    prepare=_prepare_other_session,
    run=_run_start,
    check=_check_started,
    refusals=_REFUSALS,
)
