"""Measure Forestay, each figure as a ratio to the raw limit measured in the same run.

Both run alternately, so that a slow moment of the machine affects both; the output is the ratio of
medians after a warm-up. Absolute times depend on the machine; the ratios should not.

    make bench                              50 pairs each
    make bench ARGS=--quick                 15 pairs each
    make bench ARGS='--quick formats check'  these rows only

A row that is over its bar is measured again. The exit code is 1 if one is over it three times.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import sha256

import hook_bench
import msgspec
import server_bench
import sync_bench
import yaml

import forestay
from forestay.base.clock import Clock
from forestay.base.redact import Redactor
from forestay.journal.journal import Journal
from forestay.model.event import NoteAdded, SessionStarted
from forestay.store.open import open_store

SESSIONS = 10_000
EVENTS = 10_000
EVENT_BYTES = 300
WARM_UP = 5
ADOPTED, LOTS = 1_000, 25
PAYLOADS = 10_000
CRAFT = ".craft/cache/orchestration-sessions"
CHECKED = "0b0a7a7e-94c1-4b13-a5ee-6ad2b0a7c001"

ATTEMPTS = 3
MISSED: list[str] = []
"""Figures of the current row that are over their bar."""

Timed = Callable[[], None]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer pairs, the same set-up")
    parser.add_argument("--folder", default="build", help="where to measure: a real disk")
    parser.add_argument("rows", nargs="*", choices=[*ROWS, []], help="only these rows: %(choices)s")
    options = parser.parse_args()
    pairs = 15 if options.quick else 50
    os.makedirs(options.folder, exist_ok=True)
    print_versions(pairs)
    with tempfile.TemporaryDirectory(dir=os.path.abspath(options.folder)) as folder:
        failed = [row for row in options.rows or ROWS if not is_within_bars(row, folder, pairs)]
    if failed:
        print(f"over the bar {ATTEMPTS} times in a row: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def is_within_bars(row: str, folder: str, pairs: int) -> bool:
    """Measure a row until it stays within its bars; give up after `ATTEMPTS` attempts.

    A slow moment of the machine can push one measurement over its bar, hardly three in a row.
    """
    for attempt in range(ATTEMPTS):
        MISSED.clear()
        ROWS[row](os.path.join(folder, f"{row}-{attempt}"), pairs)
        if not MISSED:
            return True
    return False


def print_versions(pairs: int) -> None:
    print(
        f"forestay {forestay.__version__} · Python {platform.python_version()} · SQLite"
        f" {sqlite3.sqlite_version} · msgspec {msgspec.__version__} · {platform.system()}"
        f" {platform.machine()} · {os.cpu_count()} cores · {pairs} pairs, medians"
    )
    print(f"{'what':<52}{'ours':>11}{'raw':>11}{'ratio':>8}{'bar':>7}")


def report(what: str, ours: float, raw: float, bar: float | None, unit: str = "ms") -> None:
    """Print one figure; without a bar it is for information only."""
    ratio = ours / raw
    shown = "      –" if bar is None else f"{bar:>6.1f}×"
    mark = ""
    if bar is not None and ratio > bar:
        mark = "   over the bar"
        MISSED.append(what)
    print(f"{what:<52}{ours:>9.2f} {unit}{raw:>8.2f} {unit}{ratio:>7.2f}×{shown}{mark}", flush=True)


def alternate(
    ours: Timed,
    raw: Timed,
    pairs: int,
    clock: Callable[[], float] = time.perf_counter,
    middle: Callable[[list[float]], float] = statistics.median,
) -> tuple[float, float]:
    """Run two functions alternately; return the median milliseconds of each (or `middle`)."""
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(pairs + WARM_UP):
        for contender, into in ((ours, times[0]), (raw, times[1])):
            began = clock()
            contender()
            if turn >= WARM_UP:
                into.append((clock() - began) * 1000)
    return middle(times[0]), middle(times[1])


# -- one event ---------------------------------------------------------------------------------


def one_event(folder: str, pairs: int) -> None:
    os.makedirs(folder)
    journal = new_journal(folder)
    start(journal, "s")
    raw = raw_inserter(os.path.join(folder, "raw.db"))
    # Single events vary much: one figure needs many pairs.
    many = pairs * 20
    early, limit = alternate(lambda: note(journal, "s"), raw, many)
    report("one durable event through the library", early, limit, 1.6)
    fill(journal, "s", EVENTS - many - WARM_UP)
    late, limit_then = alternate(lambda: note(journal, "s"), raw, many)
    report("the 10,000th event, against a raw insert", late, limit_then, 1.6)
    report("the 10,000th event against the first ones", late / limit_then, early / limit, 1.2, "× ")
    disk_use(folder)


def formats_bound(folder: str, pairs: int) -> None:
    """Measure events of a session with 5 agents, 50 tasks, 200 file changes and three formats."""
    project = new_project(os.path.join(folder, "project"))
    # Times in files have seconds: one second per event makes each event change the files.
    home = forestay.open(
        os.path.join(folder, "home"), cwd=project, clock=Ticking(), trust_env=False
    )
    session = busy_session(home, project)
    numbers = itertools.count()
    acts: dict[str, Timed] = {
        "a note": lambda: discard(session.note(f"remark {next(numbers)}")),
        "a task": lambda: discard(session.tasks.add("Another", id=f"n{next(numbers)}")),
        "a command": lambda: discard(
            session.record.command("pytest", arguments=f"-k {next(numbers)}")
        ),
    }
    for what, act in acts.items():
        written = partial(act_and_write, act, home)
        raw = raw_files(folder, find_changes(project, written))
        # Files are written once in 100 ms: a median would hide the events that include the write.
        # A disk that writes five files has fast and slow seconds; more pairs include both.
        ours, limit = alternate(act, raw, 12 * pairs, middle=statistics.mean)
        report(f"{what}, with three formats bound", ours, limit, 2.5)
        # The time above the limit is work, not waiting: each file is read before the event, to
        # find edits, its new content is computed, and the content replaced by the swap is read.
        report("  with its files before it returns", *alternate(written, raw, pairs), None)
        report("  processor time of that", *alternate(written, raw, pairs, time.process_time), None)
    home.close()


def act_and_write(act: Timed, home: forestay.Forestay) -> None:
    act()
    home.context.finish()


# -- many and large sessions -------------------------------------------------------------------


def adopt_files(folder: str, pairs: int) -> None:
    """Adopt a thousand files of about 8 kB, in lots; raw: read, parse and insert each durably."""
    project = new_project(os.path.join(folder, "project"))
    text, native = make_craft_file(project)
    lots = [os.path.join(project, f"lot{n}/{CRAFT}") for n in range(LOTS)]
    for lot, number in itertools.product(range(LOTS), range(ADOPTED // LOTS)):
        id = f"7e57d004-2b97-4e7a-b45f-{lot:06d}{number:06d}"
        write_file(os.path.join(lots[lot], f"{id}.json"), text.replace(native, id))
    insert = raw_inserter(os.path.join(folder, "raw.db"))

    def raw(lot: str) -> None:
        for name in sorted(os.listdir(lot)):
            with open(os.path.join(lot, name), "rb") as file:
                json.loads(file.read())
            insert()

    with forestay.open(os.path.join(folder, "home"), cwd=project, trust_env=False) as home:
        ours, theirs = iter(lots), iter(lots)
        mine, limit = alternate(
            lambda: discard(list(home.files.adopt(next(ours)))),
            lambda: raw(next(theirs)),
            LOTS - WARM_UP,
        )
    share = ADOPTED // LOTS
    report(f"adopting {ADOPTED:,} sessions, each", mine / share, limit / share, None)


def check_files(folder: str, pairs: int) -> None:
    """Check files of 1 MB; raw: parse them with the fastest available loader."""
    project = new_project(os.path.join(folder, "project"))
    craft = os.path.join(folder, f"{CHECKED}.json")
    text, native = make_craft_file(project)
    write_file(craft, grow_json(text.replace(native, CHECKED)))
    plan = os.path.join(make_feature(project), "implementation-plan.yaml")
    with open(plan, encoding="utf-8") as file:
        write_file(plan, grow_yaml(file.read()))
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with forestay.open(os.path.join(folder, "home"), cwd=project, trust_env=False) as home:
        for what, path, parsed, parse in (
            ("JSON", craft, craft, json.loads),
            ("YAML", os.path.dirname(plan), plan, lambda data: yaml.load(data, loader)),
        ):
            with open(parsed, "rb") as file:
                data = file.read()
            act = partial(home.files.check, path)
            ours, raw = alternate(partial(call, act), partial(call, parse, data), pairs)
            report(f"checking {what} of 1 MB, against parsing it", ours, raw, None)


def call(act: Callable[..., object], *given: object) -> None:
    act(*given)


def make_craft_file(project: str) -> tuple[str, str]:
    """Return the craft file of a session with 3 agents, 10 tasks and 20 changes, and its id."""
    with forestay.open(f"{project}.home", cwd=project, trust_env=False) as home:
        session = busy_session(home, project, agents=3, tasks=10, changes=20, formats=())
        binding = session.files.bind("craft")
    with open(binding.place, encoding="utf-8") as file:
        text = file.read()
    os.unlink(binding.place)
    return text, binding.native


def make_feature(project: str) -> str:
    with forestay.open(f"{project}.home", cwd=project, trust_env=False) as home:
        session = busy_session(home, project, agents=0, tasks=3, changes=0, formats=())
        return os.path.dirname(session.files.bind("ai-session").place)


def grow_json(text: str) -> str:
    value = json.loads(text)
    one, size = value["files_modified"][0], len(json.dumps(value["files_modified"][0], indent=6))
    value["files_modified"] = [{**one, "path": f"src/f{n}.py"} for n in range(2**20 // size)]
    return json.dumps(value, indent=2) + "\n"


def grow_yaml(text: str) -> str:
    """Return the plan with its first task repeated many times."""
    head, mark, rest = text.partition('- task_id: "t0"')
    task = rest[: rest.index("- task_id")]
    lines = (f"{mark.replace('t0', f'x{n}')}{task}" for n in range(2**20 // len(task)))
    return head + "".join(lines) + mark + rest


def write_file(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def discard(_: object) -> None:
    """Discard a result that only the measurement needs."""


class Ticking(Clock):
    """Advance one second at every reading."""

    def __init__(self) -> None:
        self._now = super().now()

    def now(self) -> int:
        self._now += 1000
        return self._now


def busy_session(
    home: forestay.Forestay,
    project: str,
    *,
    agents: int = 5,
    tasks: int = 50,
    changes: int = 200,
    formats: Sequence[str] = ("ai-session", "orchestrator", "craft"),
) -> forestay.Session:
    session = home.start("measure how fast this is")
    for number in range(agents):
        session.agents.start(f"code-{number}", type="code", task=f"Part {number}")
    for number in range(tasks):
        session.tasks.add(f"Task number {number}", id=f"t{number}")
    for number in range(changes):
        path = os.path.join(project, f"file{number}.py")
        write_file(path, "x" * number)
        session.record.file(path, agent=f"code-{number % agents}")
    for format_id in formats:
        session.files.bind(format_id)
    return session


def find_changes(project: str, act: Timed) -> tuple[list[tuple[str, int]], list[int]]:
    """Return the files that an event replaces, with their sizes, and the sizes of appended lines.

    Only changed files count: the raw limit does not rewrite files without a change.
    """
    act()
    before = contents(project)
    act()
    after = contents(project)
    changed = [path for path in after if after[path] != before.get(path)]
    logs = [path for path in changed if path.endswith(".jsonl")]
    lines = [after[path][0] - before[path][0] for path in logs]
    return [(path, after[path][0]) for path in changed if path not in logs], lines


def contents(project: str) -> dict[str, tuple[int, str]]:
    """Return size and digest of each file by path, without those of git."""
    found: dict[str, tuple[int, str]] = {}
    for at, below, names in os.walk(project):
        below[:] = [name for name in below if name != ".git"]
        for path in (os.path.join(at, name) for name in names):
            with open(path, "rb") as file:
                data = file.read()
            found[path] = (len(data), sha256(data).hexdigest())
    return found


def raw_files(folder: str, changed: tuple[list[tuple[str, int]], list[int]]) -> Timed:
    """Return a raw run: one insert, one durable replace per file, one synced append per line."""
    insert = raw_inserter(os.path.join(folder, "raw.db"))
    replaced, appended = changed
    new = [(os.path.join(folder, f"raw{path}"), size) for path, size in replaced]
    for path, _ in new:
        os.makedirs(os.path.dirname(path), exist_ok=True)

    def write() -> None:
        insert()
        for path, size in new:
            raw_replace(path, b"x" * size)
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


def whole_processes(folder: str, pairs: int) -> None:
    os.makedirs(folder)
    project = new_project(os.path.join(folder, "project"))
    home = long_home(os.path.join(folder, "home"))
    program = os.path.join(os.path.dirname(sys.executable), "forestay")
    environ = {**os.environ, "FORESTAY_HOME": home, "FORESTAY_SESSION": "long"}
    environ["FORESTAY_BACKUP_EVERY_MINUTES"] = "0"

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
        what = f"forestay {command[0]} (whole process)"
        report(what, ours, raw, bar)


def long_home(folder: str) -> str:
    """Make a home with 10,000 sessions, one of them with 10,000 events, on the measured disk."""
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
    """Make `folder` on a memory disk if possible, then move it to its place."""
    memory = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    os.symlink(memory, folder)
    try:
        yield
    finally:
        os.unlink(folder)
        shutil.move(memory, folder)


# -- hooks of agents ---------------------------------------------------------------------------


def hooks_of_agents(folder: str, pairs: int) -> None:
    os.makedirs(folder)
    project = new_project(os.path.join(folder, "project"))
    for sync, ours in hook_bench.one_hook(folder).items():
        one, true = alternate(ours, lambda: hook_bench.run("/bin/true"), pairs)
        report(f"one hook event, {'' if sync else 'not '}synced (whole process)", one, true, 8)
    ingest_payloads(os.path.join(folder, "lots"), project, max(3, pairs // 10))
    program = os.path.join(os.path.dirname(sys.executable), "forestay")
    start = hook_bench.make_session_start(os.path.join(folder, "start"), project, program)
    bare = partial(hook_bench.run, sys.executable, "-c", "pass")
    brief, limit = alternate(start, bare, pairs)
    report("briefing at the start of a session (whole process)", brief, limit, 6.5)


def ingest_payloads(folder: str, project: str, times: int) -> None:
    """Ingest ten thousand spooled payloads; raw: read the same files and parse their JSON."""
    os.makedirs(folder)
    ours: list[float] = []
    raw: list[float] = []
    for turn in range(times):
        home, paths = hook_bench.make_spooled_home(
            os.path.join(folder, f"home{turn}"), project, PAYLOADS
        )
        # A new home is due for its first backup, which is hourly and not part of this figure.
        write_file(os.path.join(home, "config.toml"), "backup_every_minutes = 0\n")
        with forestay.open(home, cwd=project, trust_env=False) as stay:
            for act, into in (
                (partial(hook_bench.read_and_parse, paths), raw),
                (stay.agents.ingest, ours),
            ):
                began = time.perf_counter()
                act()
                into.append((time.perf_counter() - began) * 1000)
        shutil.rmtree(home)
    mine, limit = statistics.median(ours), statistics.median(raw)
    report(f"ingesting {PAYLOADS:,} hook payloads", mine, limit, 4)


# -- a store on a server -----------------------------------------------------------------------


def on_a_server(folder: str, pairs: int) -> None:
    os.makedirs(folder)
    for above in (folder, os.path.dirname(folder)):
        os.chmod(above, 0o755)  # the server may run as another user
    try:
        for flush in (0, 300):
            with server_bench.run_server(folder, EVENT_BYTES, flush) as (journal, raw, version):
                start(journal, "s")
                disk = f"flush of {flush / 1000} ms" if flush else version
                for count in (100, EVENTS):
                    grow(journal, "s", count)
                    ours, limit = alternate(lambda: note(journal, "s"), raw, pairs * 2)
                    report(f"an event on PostgreSQL, {disk}, after {count:,}", ours, limit, 2)
    except server_bench.NotRun as error:
        print(f"{'an event on PostgreSQL':<52}not run: {error}")


def grow(journal: Journal, session: str, count: int) -> None:
    """Add events to a session, many at a time, until it has `count`."""
    with journal.store.view(session) as view:
        left = count - view.seq
    text = ("a remark of usual length " * 20)[:285]
    while left > 0:
        some = min(left, 500)
        journal.append(session, *[NoteAdded(text=text)] * some, actor="bench")
        left -= some


# -- parts -------------------------------------------------------------------------------------


def new_project(folder: str) -> str:
    """Make a separate project; otherwise files would go to the surrounding checkout."""
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


# -- between devices ---------------------------------------------------------------------------


def sync_devices(folder: str, pairs: int) -> None:
    """Push and pull ten thousand events with a folder; raw: copy the same bytes durably."""
    os.makedirs(folder)
    found = sync_bench.measure(os.path.join(folder, "travel"), EVENTS, max(pairs // 5, 5))
    for what, (ours, limit) in found.items():
        report(f"{what} of {EVENTS:,} events, against copying the bytes", ours, limit, 3.0)
    each = sync_bench.measure_merge(os.path.join(folder, "merge"), EVENTS)
    print(f"{'merge of two devices with new events, per event':<52}{each:>9.2f} µs", flush=True)


ROWS: dict[str, Callable[[str, int], None]] = {
    "event": one_event,
    "formats": formats_bound,
    "adopt": adopt_files,
    "check": check_files,
    "processes": whole_processes,
    "hooks": hooks_of_agents,
    "sync": sync_devices,
    "postgres": on_a_server,
}

if __name__ == "__main__":
    sys.exit(main())
