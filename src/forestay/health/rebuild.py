"""Rebuild a damaged database.

The new database is made from what can still be read of the damaged one (the *salvage*) and from
every backup. It replaces the old one only when it is complete, under the writer lock and while no
process has the old one open. The old files are moved into `quarantine/TIME/`, never deleted. What
is true of this machine only (current sessions of folders, remotes, owners of chains) is in no
backup: it is copied if it can still be read.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from forestay.base import config, files
from forestay.base.clock import Clock, iso
from forestay.base.config import Settings
from forestay.base.process import machine_id
from forestay.base.redact import Redactor
from forestay.errors import Busy, ForestayError, NoSession, StoreFailed
from forestay.journal import backup, restore
from forestay.journal.journal import Journal
from forestay.journal.projections import as_sealed
from forestay.store.machine.copy import SalvagedMachine
from forestay.store.open import open_store
from forestay.store.port import Head, Store
from forestay.store.sqlite.heads_file import RememberedHeads
from forestay.store.sqlite.writer_lock import WriterLock

_SALVAGE = "salvage.fspack"
_TIMEOUT = 60
# A script that exits with 3 if any process has a connection open: connections lock these bytes of
# the file and of -shm. It runs in a child process, because closing the file would drop the locks
# that this process holds.
_HELD = """
import fcntl, os, sys
for path, start, length in ((sys.argv[1], 0x40000002, 510), (sys.argv[1] + "-shm", 120, 9)):
    try:
        fd = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        continue
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
    except OSError:
        sys.exit(3)
"""


def remembered(store: Store) -> list[tuple[str, Head]]:
    """Return the last acknowledged event of every chain, as far as it is still known."""
    try:
        return store.maintenance.remembered()
    except ForestayError:
        heads = RememberedHeads(os.path.join(store.home, files.HEADS))
        return [(session, head) for _, session, head in heads.all()]


def quarantined(home: str) -> list[str]:
    """Return the files in the quarantine; they can contain anything that was ever recorded."""
    return files.list_paths(os.path.join(home, files.QUARANTINE))


class Rebuild:
    """One rebuild; `lost` lists what could not be restored."""

    def __init__(self, store: Store, settings: Settings, *, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._home = store.home
        self._database = os.path.join(self._home, files.DATABASE)
        self._backups = os.path.join(self._home, files.BACKUPS)
        stamp = iso(clock.now()).replace(":", "")
        self._aside = _unused(os.path.join(self._home, files.QUARANTINE, stamp))
        self._new = os.path.join(self._aside, "new")
        self._heads = remembered(store)
        self._counts: dict[str, int] = {}
        self._machine: SalvagedMachine | None = None
        self.lost: list[str] = []

    def run(self) -> list[str]:
        """Rebuild the database; return what was done."""
        self._store.close()
        lock = WriterLock(
            os.path.join(self._home, files.LOCK),
            clock=self._clock,
            timeout=self._settings.busy_timeout,
        )
        with lock:
            try:
                is_in_use = bool(_child(_HELD, self._database).returncode)
            except (OSError, subprocess.SubprocessError) as error:
                raise StoreFailed("could not find out whether the database is in use") from error
            if is_in_use:
                # SQLite would remove the log of the new file when the last connection closes.
                raise Busy(
                    "another process has the database open",
                    hint="end it (an agent, an editor, a server), then: forestay doctor --fix",
                    file=self._database,
                )
            files.make_private_dir(self._new)
            try:
                restored = self._fill()
                self._replace_database()
            finally:
                shutil.rmtree(self._new, ignore_errors=True)
        lock.close()
        return [
            f"moved the damaged files to {self._aside}",
            f"rebuilt the database: {restored} event(s) restored",
        ]

    def _fill(self) -> int:
        """Fill the new database from the salvage and all backups; return how many events."""
        self._salvage()
        packs = [*backup.list_packs(self._backups), *self._salvages()]
        store = self._open(self._new)
        try:
            if self._machine is not None:
                self._machine.write_identity(store.machine)  # decides what may be erased
            journal = Journal(store, self._clock, Redactor())
            total, unread = restore.absorb_all(journal, packs)
            self.lost += [f"a pack that cannot be read: {why}" for why in unread]
            self._compare(store)
            self._copy_places(store)
        finally:
            store.close()
        return total

    def _open(self, home: str) -> Store:
        return open_store(
            "",
            home,
            clock=self._clock,
            busy_timeout=self._settings.busy_timeout,
            machine=machine_id(),
        )

    def _salvage(self) -> None:
        """Write what can be read of the damaged database into a pack.

        The pack stays until a rebuild succeeds, so that a killed rebuild loses nothing.
        """
        store = self._open(self._home)
        try:
            self._counts = backup.last_seqs(store)
        except ForestayError:
            self._counts = {}
        devices = [head.device for _, head in self._heads]
        self._machine = SalvagedMachine(store.machine, devices)
        wanted = dict.fromkeys([*self._counts, *(session for session, _ in self._heads)])
        path = os.path.join(self._aside, _SALVAGE)
        try:
            backup.salvage(store, wanted, path, clock=self._clock)
        finally:
            store.close()

    def _salvages(self) -> list[str]:
        found = [os.path.join(path, _SALVAGE) for path in quarantined(self._home)]
        return [path for path in found if os.path.exists(path)]

    def _compare(self, store: Store) -> None:
        """Add to `lost` what is known to have existed and is not in the new database."""
        there = backup.last_seqs(store)
        for session, count in self._counts.items():
            if there.get(session, 0) < count:
                gone = count - there.get(session, 0)
                self.lost.append(f"session {session}: {gone} of {count} event(s)")
        for session, head in self._heads:
            if _ends(store, session, head):
                continue
            store.maintenance.note_lost(session, head)
            if self._counts.get(session, 0) <= there.get(session, 0):
                upto = f"{head.device}:{head.n}"
                self.lost.append(f"session {session}: events up to {upto}, which were acknowledged")

    def _copy_places(self, store: Store) -> None:
        if self._machine is not None and self._machine.has_places:
            self._machine.write_places(store.machine)
        elif backup.last_seqs(store):
            use = "forestay session use SESSION"
            self.lost.append(f"the current session of each folder; to choose it again: {use}")
            if os.path.exists(os.path.join(self._home, files.KEYS)):
                self.lost.append("the remotes; to add one again: forestay remote add NAME ADDRESS")

    def _replace_database(self) -> None:
        """Replace the database files.

        Move the log first and the heads file last: after a crash, checks report the loss.
        """
        fresh = os.path.join(self._new, files.DATABASE)
        if os.path.exists(fresh + "-wal"):
            raise StoreFailed("the new database was not closed properly", file=fresh)
        for suffix in ("-shm", "-wal", ""):
            self._move_aside(self._database + suffix)
        if os.path.exists(fresh):
            os.rename(fresh, self._database)
        files.sync_folder(self._home)
        self._move_aside(os.path.join(self._home, files.HEADS))
        self._move_aside(os.path.join(self._backups, files.BACKUP_STATE))
        for path in self._salvages():
            os.unlink(path)

    def _move_aside(self, path: str) -> None:
        if os.path.lexists(path):
            kept = files.quarantine(path, self._aside)
            os.rename(kept, os.path.join(self._aside, os.path.basename(path)))


def _child(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", "-c", script, *arguments],
        env=config.child_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
    )


def _unused(path: str) -> str:
    names = (path, *(f"{path}-{n}" for n in range(2, 1000)))
    return next(name for name in names if not os.path.lexists(name))


def _ends(store: Store, session: str, head: Head) -> bool:
    """Return whether the session has the event that a remembered head names."""
    try:
        with store.view(session) as view:
            return any(as_sealed(stored).hash == head.hash for stored in view.events())
    except NoSession:
        return False
