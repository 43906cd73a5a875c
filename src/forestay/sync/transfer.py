"""The transfer of objects during one visit to a remote, shared by all its sessions.

A transfer reads and writes objects, reports progress, and runs a few requests in parallel. It
starts no further request after it was stopped: by the user, or because the remote is unreachable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from typing import TypeVar

from forestay.base import hashing
from forestay.base.clock import Clock
from forestay.errors import RemoteFailed
from forestay.journal.journal import Journal
from forestay.store.machine.remotes import Known
from forestay.sync.remotes import object_names
from forestay.sync.remotes.object_names import PackName
from forestay.sync.remotes.port import Object, Remote
from forestay.sync.session_keys import Identity

PATIENCE = (0.2, 0.5, 1.0, 2.0)
"""How many seconds to wait before each further attempt to list new objects."""
_AHEAD = 8

Obey = Callable[[str], Callable[[], Sequence[str]]]

G = TypeVar("G")
T = TypeVar("T")


class Stopped(KeyboardInterrupt):
    """The sync of a session ends because the whole visit was stopped."""


class Transfer:
    """The objects of one remote during one visit."""

    def __init__(
        self,
        journal: Journal,
        known: Known,
        remote: Remote,
        identity: Identity,
        *,
        clock: Clock,
        pool: Executor,
        again: bool = False,
        patience: Sequence[float] = PATIENCE,
        is_unattended: bool = False,
        on_bytes: Callable[[str, int], None] | None = None,
        before_erasure: Obey | None = None,
    ) -> None:
        """`again` uploads what the remote has lost; `on_bytes` shows progress.

        `before_erasure` is called before tombstones are appended; its result is called afterwards.
        """
        self.journal, self.store = journal, journal.store
        self.remotes = journal.store.machine.remotes
        """The stored facts on the remotes of this machine."""
        self.known, self.remote, self.identity = known, remote, identity
        self.clock, self.pool = clock, pool
        self.again, self.patience = again, patience
        self.is_unattended = is_unattended
        self._on_bytes = on_bytes
        self.before_erasure = before_erasure
        self.own = journal.store.machine.devices()
        """Every device id that this home has used."""
        self.stopped: BaseException | None = None
        """The error that stopped the transfer, if any."""
        self._hashes: dict[str, set[str]] = {}
        hashing.use_openssl()

    def get(self, name: str) -> bytes:
        self.require_running()
        data = self.remote.get(name)
        self._report("down", len(data))
        return data

    def put(self, name: str, data: bytes) -> None:
        """Upload an object; raise if the remote has other bytes under its name."""
        self.require_running()
        if not self.remote.put(name, data) and self.remote.get(name) != data:
            raise RemoteFailed(
                "the remote has not stored an object correctly",
                why=f"{name} has other bytes than were written",
                hint=f"forestay remote check {self.known.name}",
            )
        self._report("up", len(data))

    def shown(self, listed: Iterable[Object]) -> None:
        """Record the listing of all sessions, to detect the same pack in two places."""
        for one in map(object_names.as_pack, (each.name for each in listed)):
            if one is not None:
                self._hashes.setdefault(one.hash, set()).add(one.place)

    def is_elsewhere(self, name: PackName) -> bool:
        """Return whether the same bytes were seen in the place of another session."""
        same = self._hashes.get(name.hash, set()) | self.remotes.places(self.known, name.hash)
        return bool(same - {name.place})

    def _report(self, way: str, size: int) -> None:
        if self._on_bytes is not None:
            self._on_bytes(way, size)

    def expect(self, way: str, events: int) -> None:
        """Report how many events will move, if the progress callback has `expect`."""
        if events and (expect := getattr(self._on_bytes, "expect", None)):
            expect(way, events)

    def done(self, way: str, events: int) -> None:
        """Report how many events have moved, if the progress callback has `done`."""
        if done := getattr(self._on_bytes, "done", None):
            done(way, events)

    def stop(self, why: BaseException) -> None:
        self.stopped = self.stopped or why

    def require_running(self) -> None:
        """Raise `Stopped` once the user interrupted, or the remote is unreachable."""
        if self.stopped:
            raise Stopped from self.stopped

    def run_parallel(self, act: Callable[[G], T], given: Iterable[G]) -> Iterator[T]:
        """Call `act` with each value, a few at a time; yield the results in order."""
        waiting: list[Future[T]] = []
        for one in given:
            waiting.append(self.pool.submit(act, one))
            if len(waiting) >= _AHEAD:
                yield waiting.pop(0).result()
        for left in waiting:
            yield left.result()
