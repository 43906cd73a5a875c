"""The figures we hold ourselves to, each as a ratio to the raw limit measured in the same run.

Contenders take turns, so that a slow moment of the machine hits both; what is printed is the
ratio of medians after a warm-up. Absolute times depend on the machine; the ratios should not.

    make bench                 50 pairs each
    make bench ARGS=--quick    15 pairs each
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

import holdfast
from holdfast.clock import Clock
from holdfast.journal import Journal
from holdfast.model.event import NoteAdded, SessionStarted
from holdfast.redact import Redactor
from holdfast.store import open_store

SESSIONS = 10_000
EVENTS = 10_000
EVENT_BYTES = 300
WARM_UP = 5

Timed = Callable[[], None]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer pairs, the same set-up")
    parser.add_argument("--folder", default="build", help="where to measure: a real disk")
    options = parser.parse_args()
    pairs = 15 if options.quick else 50
    os.makedirs(options.folder, exist_ok=True)
    print_versions(pairs)
    with tempfile.TemporaryDirectory(dir=os.path.abspath(options.folder)) as folder:
        one_event(os.path.join(folder, "a"), pairs)
        layouts_bound(os.path.join(folder, "c"), pairs)
        home = long_home(os.path.join(folder, "b"))
        whole_processes(home, os.path.join(folder, "project"), pairs)
    return 0


def print_versions(pairs: int) -> None:
    print(
        f"holdfast {holdfast.__version__} · Python {platform.python_version()} · SQLite"
        f" {sqlite3.sqlite_version} · msgspec {msgspec.__version__} · {platform.system()}"
        f" {platform.machine()} · {os.cpu_count()} cores · {pairs} pairs, medians"
    )
    print(f"{'what':<52}{'ours':>11}{'raw':>11}{'ratio':>8}{'bar':>7}")


def report(what: str, ours: float, raw: float, bar: float, unit: str = "ms") -> None:
    ratio = ours / raw
    mark = "" if ratio <= bar else "   over the bar"
    print(f"{what:<52}{ours:>9.2f} {unit}{raw:>8.2f} {unit}{ratio:>7.2f}×{bar:>6.1f}×{mark}")


def alternate(ours: Timed, raw: Timed, pairs: int) -> tuple[float, float]:
    """Medians in milliseconds of two contenders that take turns."""
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(pairs + WARM_UP):
        for contender, into in ((ours, times[0]), (raw, times[1])):
            began = time.perf_counter()
            contender()
            if turn >= WARM_UP:
                into.append((time.perf_counter() - began) * 1000)
    return statistics.median(times[0]), statistics.median(times[1])


# -- one event ---------------------------------------------------------------------------------


def one_event(folder: str, pairs: int) -> None:
    os.makedirs(folder)
    journal = new_journal(folder)
    start(journal, "s")
    raw = raw_inserter(os.path.join(folder, "raw.db"))
    # Events are quick and noisy: many pairs for one figure.
    many = pairs * 20
    early, limit = alternate(lambda: note(journal, "s"), raw, many)
    report("one durable event through the library", early, limit, 1.6)
    fill(journal, "s", EVENTS - many - WARM_UP)
    late, limit_then = alternate(lambda: note(journal, "s"), raw, many)
    report("the 10,000th event, beside its raw insert", late, limit_then, 1.6)
    report("the 10,000th event against the first ones", late / limit_then, early / limit, 1.2, "× ")
    disk_use(folder)


def layouts_bound(folder: str, pairs: int) -> None:
    """Events of a session of 5 agents, 50 tasks and 200 file changes, files in three layouts."""
    project = new_project(os.path.join(folder, "project"))
    # Times in files have seconds: with a tick for each event every one of them is in the files.
    home = holdfast.open(
        os.path.join(folder, "home"), cwd=project, clock=Ticking(), trust_env=False
    )
    session = busy_session(home, project)
    numbers = itertools.count()
    acts: dict[str, Timed] = {
        "a note": lambda: use(session.note(f"remark {next(numbers)}")),
        "a task": lambda: use(session.task_add("Another", id=f"n{next(numbers)}")),
        "a command": lambda: use(session.command("pytest", arguments=f"-k {next(numbers)}")),
    }
    for what, act in acts.items():
        raw = raw_files(folder, changed_by(project, act))
        ours, limit = alternate(act, raw, pairs)
        report(f"{what}, with three layouts bound", ours, limit, 1.5)
    home.close()


def use(_: object) -> None:
    """What is measured has no other use for what it made."""


class Ticking(Clock):
    """A second passes with every look at it."""

    def __init__(self) -> None:
        self._now = super().now()

    def now(self) -> int:
        self._now += 1000
        return self._now


def busy_session(home: holdfast.Holdfast, project: str) -> holdfast.Session:
    session = home.start("measure how fast this is")
    for number in range(5):
        session.agent_start(f"code-{number}", type="code", task=f"Part {number}")
    for number in range(50):
        session.task_add(f"Task number {number}", id=f"t{number}")
    for number in range(200):
        path = os.path.join(project, f"file{number}.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write("x" * number)
        session.file(path, agent=f"code-{number % 5}")
    for layout in ("ai-session", "orchestrator", "craft"):
        session.layouts_add(layout)
    return session


def changed_by(project: str, act: Timed) -> tuple[list[int], list[int]]:
    """The sizes of the files that an event replaces, and of the lines that it appends."""
    act()
    before = sizes(project)
    act()
    after = sizes(project)
    changed = [path for path in after if after[path] != before.get(path)]
    logs = [path for path in changed if path.endswith(".jsonl")]
    lines = [after[path][0] - before[path][0] for path in logs]
    return [after[path][0] for path in changed if path not in logs], lines


def sizes(project: str) -> dict[str, tuple[int, int]]:
    paths = (os.path.join(at, name) for at, _, names in os.walk(project) for name in names)
    return {path: (os.path.getsize(path), os.stat(path).st_mtime_ns) for path in paths}


def raw_files(folder: str, sizes: tuple[list[int], list[int]]) -> Timed:
    """One raw insert, one raw durable replace per file, one raw synced append per line."""
    insert = raw_inserter(os.path.join(folder, "raw.db"))
    replaced, appended = sizes
    names = [os.path.join(folder, f"raw{n}") for n in range(len(replaced))]

    def write() -> None:
        insert()
        for name, size in zip(names, replaced, strict=True):
            raw_replace(name, b"x" * size)
        for size in appended:
            raw_append(os.path.join(folder, "raw.log"), b"x" * size)

    return write


def raw_replace(path: str, data: bytes) -> None:
    fd = os.open(f"{path}.tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.write(fd, data)
    os.fsync(fd)
    os.close(fd)
    os.rename(f"{path}.tmp", path)
    fd = os.open(os.path.dirname(path), os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def raw_append(path: str, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, data)
    os.fsync(fd)
    os.close(fd)


def disk_use(folder: str) -> None:
    home = os.path.join(folder, "disk")
    with in_memory(home):
        journal = new_journal(home)
        start(journal, "s")
        fill(journal, "s", EVENTS)
        journal.store.close()
    used = sum(os.path.getsize(os.path.join(home, name)) for name in os.listdir(home))
    raw = EVENTS * EVENT_BYTES
    report(
        f"disk after {EVENTS:,} events of {EVENT_BYTES} bytes", used / 2**20, raw / 2**20, 2.5, "MB"
    )


def raw_inserter(path: str) -> Timed:
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute("PRAGMA journal_mode=WAL")
    raw.execute("PRAGMA synchronous=FULL")
    raw.execute("CREATE TABLE IF NOT EXISTS event (id INTEGER PRIMARY KEY, data BLOB)")
    data = b"x" * EVENT_BYTES

    def insert() -> None:
        raw.execute("INSERT INTO event (data) VALUES (?)", (data,))

    return insert


# -- whole processes ---------------------------------------------------------------------------


def whole_processes(home: str, project: str, pairs: int) -> None:
    new_project(project)
    program = os.path.join(os.path.dirname(sys.executable), "holdfast")
    environ = {**os.environ, "HOLDFAST_HOME": home, "HOLDFAST_SESSION": "long"}
    environ["HOLDFAST_BACKUP_EVERY_MINUTES"] = "0"

    def runner(*command: str) -> Timed:
        def run() -> None:
            subprocess.run(
                command,
                cwd=project,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                check=True,
            )

        return run

    bare = runner(sys.executable, "-c", "pass")
    for command, bar in (
        (("status",), 3.5),
        (("list", "--all", "-n", "20"), 3.5),
        (("note", "one more remark"), 6.5),
        (("brief",), 6.5),
        (("resume",), 6.5),
    ):
        ours, raw = alternate(runner(program, *command), bare, pairs)
        what = f"holdfast {command[0]} (whole process)"
        report(what, ours, raw, bar)


def long_home(folder: str) -> str:
    """A home with 10,000 sessions, one of them 10,000 events long, on the measured disk."""
    with in_memory(folder):
        journal = new_journal(folder)
        start(journal, "long")
        for number in range(SESSIONS - 1):
            start(journal, f"s{number}")
        fill(journal, "long", EVENTS)
        journal.store.close()
    return folder


@contextmanager
def in_memory(folder: str) -> Iterator[None]:
    """Make `folder` on a memory disk where there is one, then move it to its place."""
    memory = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    os.symlink(memory, folder)
    try:
        yield
    finally:
        os.unlink(folder)
        shutil.move(memory, folder)


# -- parts -------------------------------------------------------------------------------------


def new_project(folder: str) -> str:
    """A project of its own: else its layout files would be those of the checkout around it."""
    subprocess.run(["git", "init", "--quiet", folder], check=True)
    return folder


def new_journal(home: str) -> Journal:
    clock = Clock()
    store = open_store("", os.path.realpath(home), clock=clock, machine="bench")
    return Journal(store, clock, Redactor())


def start(journal: Journal, session: str) -> None:
    body = SessionStarted(goal="measure how fast this is")
    journal.append(session, body, actor="bench", create=True)


def note(journal: Journal, session: str) -> None:
    journal.append(session, NoteAdded(text=("a remark of usual length " * 20)[:285]), actor="bench")


def fill(journal: Journal, session: str, count: int) -> None:
    for _ in range(count):
        note(journal, session)


if __name__ == "__main__":
    sys.exit(main())
