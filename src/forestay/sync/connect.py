"""Open the remotes of this home, and limit how long a call to a remote can take.

A remote that was in use before must show its mark: an empty mount point is not a new remote. Writes
to a remote with weak guarantees are read back. No call waits forever.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from threading import Thread
from typing import TypeVar

from forestay.errors import Tampered, Unreachable
from forestay.store.machine.remotes import Known
from forestay.sync.remotes import object_names
from forestay.sync.remotes.open import open_remote
from forestay.sync.remotes.port import Object, Probe, Remote
from forestay.sync.remotes.weak_consistency import ReadBackRemote

_LATE = "late"
"""The prefix of a stored probe result: written objects do not appear in listings at once."""


def connect_remote(known: Known) -> Remote:
    """Open a remote; add a time limit, and the checks that its probe result requires."""
    remote = open_remote(known.address, known=bool(known.synced))
    if remote.backend == "folder":  # other backends have their own time limit
        remote = HangDetector(remote)
    return ReadBackRemote(remote, late=known.probe.startswith(_LATE)) if known.probe else remote


HANGS, _SLOWEST = 120.0, 32 << 10
"""After how many seconds without progress a folder counts as hanging, and how many bytes in
transfer add one second: a USB stick may first write out earlier data.
"""

T = TypeVar("T")


class HangDetector(Remote):
    """A folder remote that counts as unreachable if a system call never returns.

    That happens on a mount whose server is gone; waiting would block every other sync. A call that
    hangs cannot be ended, so each runs in a daemon thread. If it succeeds later after all, that is
    harmless: object names end in a hash of the content, so it writes what was to be written.
    """

    def __init__(self, inner: Remote) -> None:
        self.inner, self.address, self.backend = inner, inner.address, inner.backend
        self._sizes: dict[str, int] = {}
        self._under_way: dict[int, int] = {}
        self._progress_at, self._steps, self._hangs = time.monotonic(), 0, False

    def list(self, prefix: str) -> Iterator[Object]:
        found = self._call(lambda: [*self.inner.list(prefix)])
        self._sizes |= {one.name: one.size for one in found}
        return iter(found)

    def get(self, name: str) -> bytes:
        return self._call(lambda: self.inner.get(name), self._sizes.get(name, 0))

    def put(self, name: str, data: bytes) -> bool:
        return self._call(lambda: self.inner.put(name, data), len(data))

    def delete(self, name: str) -> None:
        self._call(lambda: self.inner.delete(name))

    def close(self) -> None:
        self.inner.close()

    def _call(self, act: Callable[[], T], size: int = 0) -> T:
        answer = Future[T]()
        if not self._hangs:
            self._under_way[id(answer)] = size
            answer.add_done_callback(lambda _: self._ended(id(answer)))
            self._progress_at = time.monotonic()
            try:
                Thread(target=_settle, args=(answer, act), daemon=True).start()
            except RuntimeError:  # no thread can be started: make the call without a limit
                _settle(answer, act)
            while not answer.done() and (left := self._left()) > 0:
                wait([answer], timeout=left)  # another call may make progress in the meantime
        if not answer.done():
            self._hangs = True
            raise Unreachable(
                f"{self.address} does not answer",
                why=f"a call to the system did not return within {HANGS:g} seconds",
                hint="check its server or disk: df -h; nothing is lost, try again later",
            )
        return answer.result()

    def _ended(self, call: int) -> None:
        del self._under_way[call]
        self._progress_at = time.monotonic()

    def _left(self) -> float:
        """Return how many seconds are left until the folder counts as hanging."""
        if self._steps != self.inner.steps:
            self._steps, self._progress_at = self.inner.steps, time.monotonic()
        more = sum(list(self._under_way.values())) / _SLOWEST
        return self._progress_at + HANGS + more - time.monotonic()


def _settle(done: Future[T], act: Callable[[], T]) -> None:
    try:
        done.set_result(act())
    except BaseException as error:
        done.set_exception(error)


def describe_probe(probe: Probe) -> str:
    """Return the probe result to store: empty if the remote has all guarantees."""
    if probe.conditional and probe.lists:
        return ""
    return f"{'' if probe.lists else f'{_LATE}: '}{probe.why or 'not careful'}"


def read_group_object(remote: Remote, name: str) -> bytes:
    """Read a device group object; raise `Tampered` if its bytes do not match its name."""
    data = remote.get(name)
    if not object_names.is_of(name, data):
        what = "an object of your device group was changed on the storage"
        why = f"the bytes of {name} do not match its name"
        raise Tampered(what, why=why, hint="check the storage, then: forestay sync")
    return data
