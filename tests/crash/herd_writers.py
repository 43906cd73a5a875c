"""Run a process of a herd: the product, a correct toy on SQLite, or one of two wrong ones.

python -m tests.crash.herd_writers WRITER HOME NAME FIRST LAST
"""

import os
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial

Ack = Callable[[], None]
Record = Callable[[str, str, Ack], None]  # key, text, ack

SESSION = "herd"
LINGER_SECONDS = 0.01
TIMEOUT_SECONDS = 300


@contextmanager
def store(home: str) -> Iterator[Record]:
    """Record with the product. A caller that received no answer sends the same key again."""
    import forestay
    from forestay.errors import Busy

    opened = forestay.open(home, cwd=home, trust_env=False)
    session = opened.session(SESSION)

    def record(key: str, text: str, ack: Ack) -> None:
        while True:
            try:
                session.note(text, key=key)
                break
            except Busy:
                pass
        ack()

    yield record
    opened.close()


@contextmanager
def correct(home: str) -> Iterator[Record]:
    """Record a key once, and acknowledge it after its commit."""
    with closing(_toy_base(home)) as base:

        def record(key: str, text: str, ack: Ack) -> None:
            base.execute("INSERT OR IGNORE INTO event (key, text) VALUES (?, ?)", (key, text))
            ack()

        yield record


@contextmanager
def keyless(home: str) -> Iterator[Record]:
    """Ignore the key. Mistake: an event that is sent again is recorded again."""
    with closing(_toy_base(home)) as base:

        def record(key: str, text: str, ack: Ack) -> None:
            base.execute("INSERT INTO event (text) VALUES (?)", (text,))
            time.sleep(LINGER_SECONDS)
            ack()

        yield record


@contextmanager
def early(home: str) -> Iterator[Record]:
    """Acknowledge first. Mistake: the answer precedes the commit."""
    with closing(_toy_base(home)) as base:

        def record(key: str, text: str, ack: Ack) -> None:
            ack()
            time.sleep(LINGER_SECONDS)
            base.execute("INSERT OR IGNORE INTO event (key, text) VALUES (?, ?)", (key, text))

        yield record


def _toy_base(home: str) -> sqlite3.Connection:
    base = sqlite3.connect(os.path.join(home, "toy.db"), timeout=60, isolation_level=None)
    _use_wal(base)
    base.execute("PRAGMA synchronous = FULL")
    base.execute("CREATE TABLE IF NOT EXISTS event (n INTEGER PRIMARY KEY, key UNIQUE, text)")
    return base


def _use_wal(base: sqlite3.Connection) -> None:
    """Switch to WAL. Of several simultaneous requests SQLite may refuse all but one: try again."""
    for _ in range(1000):
        try:
            base.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            time.sleep(LINGER_SECONDS)
    raise TimeoutError("the database was busy all the time")


def toy_journal(home: str) -> list[str]:
    """Return what the toys wrote, in order."""
    with closing(_toy_base(home)) as base:
        return [text for (text,) in base.execute("SELECT text FROM event ORDER BY n")]


WRITERS = {"store": store, "correct": correct, "keyless": keyless, "early": early}


def main() -> None:
    writer, home, name, first, last = sys.argv[1:]
    signal.alarm(TIMEOUT_SECONDS)
    with WRITERS[writer](home) as record:
        for number in range(int(first), int(last) + 1):
            record(f"{name}-{number}", f"{name} {number}", partial(_answer, number))


def _answer(number: int) -> None:
    os.write(1, f"{number}\n".encode())


if __name__ == "__main__":
    main()
