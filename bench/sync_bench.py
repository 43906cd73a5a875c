"""Measure sync: a push and a pull of ten thousand events with a folder, and a merge.

Each is compared with the raw limit: the same rows read from SQLite and copied durably into as many
files as there are packs; those files read and their rows inserted in one durable transaction. A
sync also seals, signs, compresses and checks the events on both sides, and derives the state of the
session.
"""

from __future__ import annotations

import gc
import os
import shutil
import sqlite3
import statistics
import struct
import time
from collections.abc import Callable, Sequence

import forestay
from forestay.api.forestay import Forestay
from forestay.model.event import NoteAdded
from forestay.sync.plan import MOST_EVENTS
from forestay.sync.run import Report

REMOTE = "usb"
_BATCH = 100
_SIZES = struct.Struct(">III")

Row = tuple[bytes, bytes, bytes]


class Devices:
    """Set up two devices of one group; the first has a long session, both have a short one."""

    def __init__(self, folder: str, events: int) -> None:
        self.folder = folder
        self.first = _open(os.path.join(folder, "first"))
        self.first.devices.keys.init()
        short = self.first.start("a short one")
        self.first.remotes.add(REMOTE, f"folder:{folder}/remote")
        self.first.remotes.sync()
        self._join()
        self.long = self.first.start("measure how fast this is").id
        fill(self.first, self.long, events)
        self.short = short.id

    def _join(self) -> None:
        """Add the second device, sync the short session to it, and save copies for later turns."""
        second = _open(os.path.join(self.folder, "second"))
        second.remotes.add(REMOTE, f"folder:{self.folder}/remote")
        request = second.devices.add()
        changed = self.first.devices.approve(getattr(request, "code", ""))
        second.devices.add(confirm=changed.fingerprint)
        second.remotes.sync()
        second.close()
        self.first.remotes.sync()
        shutil.copytree(os.path.join(self.folder, "remote"), os.path.join(self.folder, "short"))

    def push(self, turn: int) -> Callable[[], None]:
        """Return a push of the long session to a remote that has only the short one."""
        target, name = os.path.join(self.folder, f"remote{turn}"), f"r{turn}"
        shutil.copytree(os.path.join(self.folder, "short"), target)
        self.first.remotes.add(name, f"folder:{target}")
        self.first.remotes.sync(name, sessions=[self.short])
        return lambda: _require_success(self.first.remotes.push(name, sessions=[self.long]))

    def pull(self, turn: int) -> tuple[Callable[[], None], Forestay]:
        """Return a pull of the long session into a home that has only the short one."""
        path = os.path.join(self.folder, f"second{turn}")
        shutil.copytree(os.path.join(self.folder, "second"), path)
        home = _open(path)
        home.session(self.short).note("the first write of a copied home")
        return lambda: _require_success(home.remotes.pull(REMOTE, sessions=[self.long])), home


def _require_success(reports: Sequence[Report]) -> None:
    for one in reports:
        if one.worst is not None:
            raise SystemExit(f"the sync failed: {one.worst}")


def _open(path: str) -> Forestay:
    os.makedirs(path, mode=0o700, exist_ok=True)
    with open(os.path.join(path, "config.toml"), "w", encoding="utf-8") as file:
        file.write('auto_sync = "off"\nbackup_every_minutes = 0\n')
    return forestay.open(path, cwd=path, trust_env=False)


def fill(home: Forestay, session: str, events: int) -> None:
    body = NoteAdded(text=("a remark of usual length " * 20)[:285])
    for _ in range(events // _BATCH):
        home.context.journal.append(session, *[body] * _BATCH, actor="bench")


# --- the raw limit ----------------------------------------------------------------------------


class Raw:
    """Hold the rows of the long session in a plain database, and as files."""

    def __init__(self, folder: str, rows: list[Row]) -> None:
        self.folder, self.files = folder, os.path.join(folder, "raw")
        os.makedirs(self.files)
        self.database = _database(os.path.join(folder, "raw.db"))
        _insert(self.database, rows)
        self.push()

    def push(self) -> None:
        """Read the rows, and write them durably into files."""
        rows = self.database.execute("SELECT header, salt, data FROM event ORDER BY position")
        count = 0
        while some := rows.fetchmany(MOST_EVENTS):
            parts: list[bytes] = []
            for header, salt, data in some:
                parts += (_SIZES.pack(len(header), len(salt), len(data)), header, salt, data)
            self._store(f"{count:03}", b"".join(parts))
            count += 1

    def _store(self, name: str, data: bytes) -> None:
        path = os.path.join(self.files, name)
        with open(f"{path}.new", "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(f"{path}.new", path)
        _sync_folder(self.files)

    def pull(self, turn: int) -> Callable[[], None]:
        target = _database(os.path.join(self.folder, f"raw{turn}.db"))
        return lambda: _insert(target, _rows(self.files))


def _database(path: str) -> sqlite3.Connection:
    made = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode=WAL", "synchronous=FULL"):
        made.execute(f"PRAGMA {pragma}")
    made.execute(
        "CREATE TABLE event (position INTEGER PRIMARY KEY, header BLOB, salt BLOB, data BLOB)"
    )
    return made


def _insert(target: sqlite3.Connection, rows: list[Row]) -> None:
    target.execute("BEGIN IMMEDIATE")
    for place, row in enumerate(rows):
        target.execute("INSERT INTO event VALUES (?, ?, ?, ?)", (place, *row))
    target.execute("COMMIT")


def _rows(folder: str) -> list[Row]:
    found: list[Row] = []
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as file:
            found += _read(file.read())
    return found


def _read(data: bytes) -> list[Row]:
    found, at = [], 0
    while at < len(data):
        a, b, c = _SIZES.unpack_from(data, at)
        at += _SIZES.size
        found.append(
            (data[at : at + a], data[at + a : at + a + b], data[at + a + b : at + a + b + c])
        )
        at += a + b + c
    return found


def _sync_folder(path: str) -> None:
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


# --- measuring --------------------------------------------------------------------------------


def measure(folder: str, events: int, turns: int) -> dict[str, tuple[float, float]]:
    """Return for push and pull the medians of Forestay and raw, in alternate turns, in ms."""
    os.makedirs(folder)
    devices = Devices(folder, events)
    with devices.first.context.store.view(devices.long) as view:
        rows = [(one.header, one.salt or b"", one.data or b"") for one in view.events()]
    raw = Raw(folder, rows)
    found: dict[str, tuple[list[float], list[float]]] = {"push": ([], []), "pull": ([], [])}
    for turn in range(turns + 1):
        _run_turn(devices, raw, turn, found, counts=turn > 0)
    devices.first.close()
    middle = statistics.median
    return {what: (middle(ours), middle(limit)) for what, (ours, limit) in found.items()}


def _run_turn(
    devices: Devices,
    raw: Raw,
    turn: int,
    found: dict[str, tuple[list[float], list[float]]],
    *,
    counts: bool,
) -> None:
    push = devices.push(turn)
    acts = [("push", 0, push), ("push", 1, raw.push)]
    if turn == 0:
        devices.first.remotes.push(REMOTE)
    pull, home = devices.pull(turn)
    acts += [("pull", 0, pull), ("pull", 1, raw.pull(turn))]
    for what, which, act in acts:
        gc.collect()
        began = time.perf_counter()
        act()
        if counts:
            found[what][which].append((time.perf_counter() - began) * 1000)
    home.close()


def measure_merge(folder: str, events: int) -> float:
    """Return the microseconds per event of a merge of two devices with many new events."""
    os.makedirs(folder)
    devices = Devices(folder, 0)
    second = _open(os.path.join(folder, "second"))
    for home in (devices.first, second):
        fill(home, devices.short, events // 2)
    devices.first.remotes.sync()
    began = time.perf_counter()
    _require_success(second.remotes.pull(REMOTE, sessions=[devices.short]))
    spent = time.perf_counter() - began
    for home in (devices.first, second):
        home.close()
    return spent * 1e6 / events
