"""Toy writers that show what the harness can detect: two correct ones, and the classic mistakes.

A toy appends one line of text to a home and calls `ack` when the line is safe; `read` returns the
lines. Each mistake is one that real programs make, and the harness must catch every one.
"""

import errno
import json
import os
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial

from tests.crash.scenario import Ack, Scenario, judge

Append = Callable[[str, str, Callable[[], None]], None]
Read = Callable[[str], list[str]]

BEFORE = ["before-1", "before-2"]


def _journal(home: str) -> str:
    return os.path.join(home, "journal")


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def _sync_folder(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _line(text: str) -> bytes:
    return json.dumps({"text": text, "padding": "x" * 200}).encode() + b"\n"


def read_lines(home: str) -> list[str]:
    """Return whole lines only: a torn tail was never acknowledged."""
    if not os.path.exists(_journal(home)):
        return []
    with open(_journal(home), "rb") as file:
        lines = [line for line in file if line.endswith(b"\n")]
    return [json.loads(line)["text"] for line in lines]


def append_good(home: str, text: str, ack: Callable[[], None]) -> None:
    """Cut off a torn tail, append, sync the file and its folder, and only then acknowledge."""
    fd = os.open(_journal(home), os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        content = os.pread(fd, 1 << 20, 0)
        os.ftruncate(fd, content.rfind(b"\n") + 1)
        _write(fd, _line(text))
        os.fsync(fd)
    finally:
        os.close(fd)
    _sync_folder(home)
    ack()


def append_sqlite_alone(home: str, text: str, ack: Callable[[], None]) -> None:
    """Rely on SQLite alone. Mistake: it ignores an error when it syncs the folder of a new -wal.

    Each close here removes the -wal, so its old name may come back and hide the newer database.
    """
    _append_sqlite(home, text, lambda: None)
    ack()


def append_sqlite(home: str, text: str, ack: Callable[[], None]) -> None:
    """Append with SQLite, and sync the folder again, with errors reported."""
    _append_sqlite(home, text, partial(_sync_folder, home))
    ack()


def _append_sqlite(home: str, text: str, sync_names: Callable[[], None]) -> None:
    base = sqlite3.connect(os.path.join(home, "base.db"), isolation_level=None)
    try:
        base.execute("PRAGMA journal_mode = WAL")
        base.execute("PRAGMA synchronous = FULL")
        base.execute("CREATE TABLE IF NOT EXISTS event (n INTEGER PRIMARY KEY, text TEXT) STRICT")
        sync_names()
        base.execute("BEGIN IMMEDIATE")
        base.execute("INSERT INTO event (text) VALUES (?)", (text,))
        base.execute("COMMIT")
    finally:
        base.close()


def read_sqlite(home: str) -> list[str]:
    if not os.path.exists(os.path.join(home, "base.db")):
        return []
    base = sqlite3.connect(os.path.join(home, "base.db"), isolation_level=None)
    try:
        if base.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            return ["the database is damaged"]
        made = base.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'event'").fetchone()[0]
        rows = base.execute("SELECT text FROM event ORDER BY n") if made else ()
        return [text for (text,) in rows]
    finally:
        base.close()


def append_rewriting(home: str, text: str, ack: Callable[[], None]) -> None:
    """Rewrite the file. Mistake: the only copy is truncated before the new one exists."""
    lines = read_lines(home)
    fd = os.open(_journal(home), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    _write(fd, b"".join(_line(line) for line in [*lines, text]))
    os.fsync(fd)
    os.close(fd)
    _sync_folder(home)
    ack()


def append_early(home: str, text: str, ack: Callable[[], None]) -> None:
    """Append. Mistake: the acknowledgement precedes the commit."""
    ack()
    append_good(home, text, lambda: None)


def append_unsynced(home: str, text: str, ack: Callable[[], None]) -> None:
    """Append without a sync. Mistake: the data never leaves the page cache."""
    fd = os.open(_journal(home), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    _write(fd, _line(text))
    os.close(fd)
    ack()


def append_once_written(home: str, text: str, ack: Callable[[], None]) -> None:
    """Call write once. Mistake: a write may be short."""
    fd = os.open(_journal(home), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(fd, _line(text))
    os.fsync(fd)
    os.close(fd)
    _sync_folder(home)
    ack()


def _append_with(home: str, text: str, sync: Callable[[int], None]) -> None:
    fd = os.open(_journal(home), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    _write(fd, _line(text))
    sync(fd)
    os.close(fd)


def append_swallowing(home: str, text: str, ack: Callable[[], None]) -> None:
    """Append. Mistake: a failed sync is ignored."""

    def sync(fd: int) -> None:
        try:
            os.fsync(fd)
        except OSError:
            pass

    _append_with(home, text, sync)
    ack()


def append_retrying(home: str, text: str, ack: Callable[[], None]) -> None:
    """Sync again after a failed sync. Mistake: it may succeed without having written."""

    def sync(fd: int) -> None:
        try:
            os.fsync(fd)
        except OSError:
            os.fsync(fd)

    _append_with(home, text, sync)
    ack()


def append_renaming(home: str, text: str, ack: Callable[[], None]) -> None:
    """Replace the file atomically. Mistake: the folder that holds the name is not synced."""
    new = _journal(home) + ".new"
    lines = [*read_lines(home), text]
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    _write(fd, b"".join(_line(line) for line in lines))
    os.fsync(fd)
    os.close(fd)
    os.rename(new, _journal(home))
    ack()


def append_leaving_a_lock(home: str, text: str, ack: Callable[[], None]) -> None:
    """Use a lock file. Mistake: a killed process leaves it behind, so the next write fails."""
    lock = os.path.join(home, "lock")
    try:
        os.close(os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError as error:
        raise OSError(errno.EBUSY, "locked by a dead process") from error
    try:
        append_good(home, text, ack)
    finally:
        os.unlink(lock)


def _prepare(append: Append, home: str) -> None:
    os.mkdir(home, 0o700)
    for text in BEFORE:
        append(home, text, lambda: None)


def _run(append: Append, during: Sequence[str], home: str, ack: Ack) -> None:
    for text in during:
        append(home, text, partial(ack, text))


def _check(
    append: Append, read: Read, during: Sequence[str], home: str, acked: Sequence[str]
) -> list[str]:
    found = read(home)
    problems = judge([[text] for text in [*BEFORE, *during]], found, [*BEFORE, *acked])
    append(home, "after", lambda: None)
    if read(home) != [*found, "after"]:
        problems.append("the next write is not simply added")
    return problems


def _toy(append: Append, read: Read = read_lines, events: int = 2) -> Scenario:
    during = [f"during-{number}" for number in range(1, events + 1)]
    return Scenario(
        prepare=partial(_prepare, append),
        run=partial(_run, append, during),
        check=partial(_check, append, read, during),
        refusals=(OSError, sqlite3.Error),
    )


GOOD = _toy(append_good)
SQLITE = _toy(append_sqlite, read_sqlite, events=1)
SQLITE_ALONE = _toy(append_sqlite_alone, read_sqlite)
REWRITING = _toy(append_rewriting)
EARLY = _toy(append_early)
UNSYNCED = _toy(append_unsynced)
ONCE_WRITTEN = _toy(append_once_written)
SWALLOWING = _toy(append_swallowing)
RETRYING = _toy(append_retrying)
RENAMING = _toy(append_renaming)
LEAVING_A_LOCK = _toy(append_leaving_a_lock)
