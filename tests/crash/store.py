"""Scenarios of the product under faults, for `test_store_crash`.

Each scenario is a list of moves on a home; a move is acknowledged when its call returns. The check
opens the home like any other process: it reads the journals, sends every move again (as a caller
that received no answer would), writes one more event, and verifies each session.
"""

import json
import os
from collections.abc import Callable, Sequence
from functools import partial

import forestay
from forestay.errors import Busy, NoSession, ReadOnly, StoreFailed
from forestay.model.event import Event
from tests.crash.scenario import Ack, Scenario, judge

Move = tuple[str, str, str]  # session, what is done, with what

REFUSALS = (StoreFailed, Busy, ReadOnly)

# Which field of an event's body holds the word of the move.
WORD_FIELD = {
    "session.started": "goal",
    "note.added": "text",
    "agent.started": "agent",
    "step.added": "step",
    "step.started": "step",
    "step.completed": "step",
}
# The events that a move makes: all of them or none.
MAKES = {
    "start": ["session.started"],
    "note": ["note.added"],
    "long": ["note.added"],
    "agent": ["agent.started"],
    "task": ["step.added"],
    "done": ["step.started", "step.completed"],
}


_TOO_LONG = "so long that an event cannot hold it, " * 500


def move(home: forestay.Forestay, session: str, done: str, word: str) -> None:
    """Make one move, with a key so that it happens once however often it is sent."""
    key = f"{done} {word}"
    if done == "start":
        home.start(word, id=session, key=key)
        return
    doing = home.session(session)
    if done == "note":
        doing.note(word, key=key)
    elif done == "long":
        doing.note(f"{word} {_TOO_LONG}", key=key)
    elif done == "agent":
        doing.agents.start(word, key=key)
    elif done == "task":
        doing.tasks.add("a task", id=word, key=key)
    else:
        doing.tasks.done(word, key=key)


def _events(step: Move) -> list[str]:
    session, done, word = step
    return [f"{session}: {kind} {word}" for kind in MAKES[done]]


def _journal(home: forestay.Forestay, session: str) -> list[str]:
    try:
        log = home.session(session).log()
    except NoSession:
        return []
    return [f"{session}: {line.event.kind} {_word(line.event)}" for line in log]


def _word(event: Event) -> str:
    text = str(getattr(event.body, WORD_FIELD[event.kind]))
    return text.split()[0] if event.kind == "note.added" else text


def _open(home: str) -> forestay.Forestay:
    return forestay.open(home, cwd=os.path.dirname(home), trust_env=False)


def _do(moves: Sequence[Move], home: str, ack: Ack) -> None:
    with _open(home) as opened:
        _do_all(moves, opened, ack)


def _do_without_closing(moves: Sequence[Move], home: str, ack: Ack) -> None:
    _do_all(moves, _open(home), ack)


def _do_retrying(moves: Sequence[Move], home: str, ack: Ack) -> None:
    with _open(home) as opened:
        for step in moves:
            try:
                _do_all([step], opened, ack)
            except REFUSALS:
                _do_all([step], opened, ack)


def _do_all(moves: Sequence[Move], opened: forestay.Forestay, ack: Ack) -> None:
    for step in moves:
        move(opened, *step)
        for event in _events(step):
            ack(event)


def _check(
    before: Sequence[Move], moves: Sequence[Move], home: str, acked: Sequence[str]
) -> list[str]:
    acked = [*(event for step in before for event in _events(step)), *acked]
    problems: list[str] = []
    with _open(home) as opened:
        for session in dict.fromkeys(step[0] for step in [*before, *moves]):
            past = [step for step in before if step[0] == session]
            mine = [step for step in moves if step[0] == session]
            problems += _check_session(opened, session, past, mine, acked)
    return problems


def _check_session(
    home: forestay.Forestay,
    session: str,
    before: Sequence[Move],
    moves: Sequence[Move],
    acked: Sequence[str],
) -> list[str]:
    found = _journal(home, session)
    mine = [event for event in acked if event.startswith(f"{session}:")]
    problems = judge([_events(step) for step in [*before, *moves]], found, mine)
    sent = [*moves, (session, "note", "after")]
    for step in sent:
        move(home, *step)
    added = [event for step in sent for event in _events(step) if event not in found]
    if _journal(home, session) != found + added:
        problems.append("a repeated or a new write is not simply added")
    report = home.session(session).verify()
    if not report.ok:
        problems.append(f"does not verify: {report.findings}")
    return problems


def _scenario(
    before: Sequence[Move], moves: Sequence[Move], *, do: Callable[..., None] = _do
) -> Scenario:
    return Scenario(
        prepare=partial(_do, before, ack=lambda event: None),
        run=partial(do, moves),
        check=partial(_check, before, moves),
        refusals=REFUSALS,
    )


_STARTED: list[Move] = [("s1", "start", "a goal"), ("s1", "note", "n1"), ("s1", "task", "t1")]

# The home does not exist yet.
FIRST = _scenario([], [("s1", "start", "a goal"), ("s1", "note", "n1")])

# The everyday case.
APPEND = _scenario(_STARTED, [("s1", "note", "n2"), ("s1", "done", "t1")])

TWO_SESSIONS = _scenario(
    [*_STARTED, ("s2", "start", "another goal")],
    [("s1", "note", "n2"), ("s2", "agent", "code-1"), ("s1", "note", "n3"), ("s2", "long", "n4")],
)

# A process ends without closing, like a killed one, and leaves all events in the -wal file.
LEFT_OPEN = _scenario(
    _STARTED, [("s1", "note", "n2"), ("s1", "note", "n3")], do=_do_without_closing
)

# A process tries again after an error, and acknowledges what succeeded the second time.
RETRIED = _scenario(_STARTED, [("s1", "note", "n2"), ("s1", "long", "n3")], do=_do_retrying)

_WAL_FRAMES = 128  # at this number SQLite moves them into the database: wal_autocheckpoint
_WAL_FRAME_BYTES = 4096 + 24


def _prepare_full_wal(home: str) -> None:
    """Leave a -wal file that the next few events fill; store the moves made next to the home."""
    opened = _open(home)
    notes = [*_STARTED]
    _do_all(notes, opened, lambda event: None)
    while os.stat(f"{home}/forestay.db-wal").st_size < (_WAL_FRAMES - 8) * _WAL_FRAME_BYTES:
        notes.append(("s1", "note", f"m{len(notes):03}"))
        _do_all(notes[-1:], opened, lambda event: None)
    with open(f"{home}.moves", "w", encoding="utf-8") as file:
        json.dump(notes, file)


def _check_full_wal(home: str, acked: Sequence[str]) -> list[str]:
    with open(f"{home}.moves", encoding="utf-8") as file:
        before = [(session, done, word) for session, done, word in json.load(file)]
    return _check(before, _FILLING, home, acked)


# An append that makes SQLite move the -wal file into the database.
_FILLING: list[Move] = [("s1", "note", "n2"), ("s1", "note", "n3"), ("s1", "note", "n4")]
CHECKPOINT = Scenario(
    prepare=_prepare_full_wal,
    run=partial(_do_without_closing, _FILLING),
    check=_check_full_wal,
    refusals=REFUSALS,
)
