"""The processes of a herd: the product, a right toy on SQLite, and two that are wrong.

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
PATIENCE_SECONDS = 300


@contextmanager
def store(home: str) -> Iterator[Record]:
    """The product. A caller that saw no answer sends the same key again."""
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
def right(home: str) -> Iterator[Record]:
    """A key happens once, and is acknowledged after its commit."""
    with closing(_toy_base(home)) as base:

        def record(key: str, text: str, ack: Ack) -> None:
            base.execute("INSERT OR IGNORE INTO event (key, text) VALUES (?, ?)", (key, text))
            ack()

        yield record


@contextmanager
def keyless(home: str) -> Iterator[Record]:
    """Mistake: what is sent again is recorded again."""
    with closing(_toy_base(home)) as base:

        def record(key: str, text: str, ack: Ack) -> None:
            base.execute("INSERT INTO event (text) VALUES (?)", (text,))
            time.sleep(LINGER_SECONDS)
            ack()

        yield record


@contextmanager
def early(home: str) -> Iterator[Record]:
    """Mistake: the answer comes before the commit."""
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
    """Of several that ask for this at once all but one may be refused, however long they wait."""
    for _ in range(1000):
        try:
            base.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            time.sleep(LINGER_SECONDS)
    raise TimeoutError("the base was busy all the time")


def toy_journal(home: str) -> list[str]:
    """What the toys wrote, in order."""
    with closing(_toy_base(home)) as base:
        return [text for (text,) in base.execute("SELECT text FROM event ORDER BY n")]


WRITERS = {"store": store, "right": right, "keyless": keyless, "early": early}


def main() -> None:
    writer, home, name, first, last = sys.argv[1:]
    signal.alarm(PATIENCE_SECONDS)
    with WRITERS[writer](home) as record:
        for number in range(int(first), int(last) + 1):
            record(f"{name}-{number}", f"{name} {number}", partial(_answer, number))


def _answer(number: int) -> None:
    os.write(1, f"{number}\n".encode())


if __name__ == "__main__":
    main()
