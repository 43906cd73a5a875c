"""Open the remotes of this home, and limit how long a call to one may take.

A remote that was in use before must show its mark: an empty mount point is not a new remote. Writes
to a remote with weak guarantees are read back. While other remotes wait, one that hangs is
postponed until they are done. No call waits forever.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

from forestay.errors import NotThere, Tampered, Unreachable
from forestay.store.machine.remotes import Known
from forestay.sync.remotes import object_names
from forestay.sync.remotes.open import open_remote
from forestay.sync.remotes.port import FORMAT, Object, Probe, Remote
from forestay.sync.remotes.weak_consistency import ReadBackRemote

_LATE = "late"
"""The prefix of the stored probe result if written objects are listed late."""


def connect_remote(known: Known) -> Remote:
    """Open a remote with the wrappers that it needs."""
    remote = open_remote(known.address, known=bool(known.synced))
    remote = (
        HangDetector(remote) if remote.backend == "folder" else remote
    )  # others set their own limit
    return ReadBackRemote(remote, late=known.probe.startswith(_LATE)) if known.probe else remote


Answer = Remote | BaseException
"""An open remote, or the error."""


def connect_all(found: Sequence[Known]) -> Iterator[tuple[Known, Answer]]:
    """Connect to all remotes at once, and yield them as they answer.

    A remote may answer and hang later. Those that failed the last time come last.
    """
    answers = SimpleQueue[tuple[Known, Answer]]()

    def ask(known: Known) -> None:
        answers.put((known, _connect(known)))

    for one in found:
        # A daemon: the process can exit while the thread hangs.
        Thread(target=ask, args=(one,), name=f"reach {one.name}", daemon=True).start()
    last = []
    for _ in found:
        known, answer = answers.get()
        if known.result == "failed":
            last.append((known, answer))
        else:
            yield known, answer
    yield from last


def _connect(known: Known) -> Answer:
    try:
        remote = connect_remote(known)
        try:
            remote.get(FORMAT)
        except NotThere:
            pass  # it answered, which is enough
        except BaseException:
            remote.close()
            raise
    except BaseException as error:
        return error
    return remote


WHILE_OTHERS_WAIT = 3.0
"""How many seconds a remote may make no progress, while other remotes wait."""
_SLOW, _MOST = 1 << 20, 12.0
"""It has one more second per so many bytes in transfer, up to so many seconds."""

HANGS, _SLOWEST = 120.0, 32 << 10
"""The same if no other remote waits: a stick may first write out earlier data."""

T = TypeVar("T")


class Postponed(Exception):
    """A remote hangs while others wait: it is visited after them."""


class TimeLimited(Remote):
    """A remote that is postponed if none of its calls makes progress for some seconds.

    A call that hangs cannot be ended, so each runs in a daemon thread. A late effect is harmless,
    as after a visit that dies: names end in a hash of the content.
    """

    def __init__(self, inner: Remote, seconds: float) -> None:
        self.inner, self._seconds = inner, seconds
        self.address, self.backend = inner.address, inner.backend
        self._sizes: dict[str, int] = {}
        self._under_way: dict[int, int] = {}
        self._outcome = time.monotonic()
        self._is_aside = False

    def list(self, prefix: str) -> Iterator[Object]:
        return iter(self._call(lambda: [self._listed(one) for one in self.inner.list(prefix)]))

    def _listed(self, one: Object) -> Object:
        self._sizes[one.name] = one.size
        self._get_on()
        return one

    def get(self, name: str) -> bytes:
        return self._call(lambda: self.inner.get(name), self._sizes.get(name, 0))

    def put(self, name: str, data: bytes) -> bool:
        return self._call(lambda: self.inner.put(name, data), len(data))

    def delete(self, name: str) -> None:
        self._call(lambda: self.inner.delete(name))

    def close(self) -> None:
        self.inner.close()

    def _get_on(self) -> None:
        self._outcome = time.monotonic()

    def _call(self, act: Callable[[], T], size: int = 0) -> T:
        if self._is_aside:
            raise self._hangs()
        answer = Future[T]()
        self._under_way[id(answer)] = size
        answer.add_done_callback(lambda _: self._ended(id(answer)))
        self._get_on()
        try:
            Thread(target=_settle, args=(answer, act), daemon=True).start()
        except RuntimeError:  # no thread can be started: make the call without a limit
            _settle(answer, act)
        while not answer.done() and (left := self._left()) > 0:
            wait([answer], timeout=left)  # another call may make progress in the meantime
        if not answer.done():
            self._is_aside = True
            raise self._hangs()
        return answer.result()

    def _hangs(self) -> Exception:
        return Postponed()

    def _ended(self, call: int) -> None:
        del self._under_way[call]
        self._get_on()

    def _left(self) -> float:
        """Return how many seconds are left until it counts as hanging."""
        more = self._more()
        return self._outcome + self._seconds + more - time.monotonic()

    def _more(self) -> float:
        """Return the additional seconds for the bytes in transfer."""
        return min(self._size / _SLOW, _MOST)

    @property
    def _size(self) -> int:
        return sum(list(self._under_way.values()))


class HangDetector(TimeLimited):
    """A folder remote that counts as unreachable if a system call never returns.

    That happens on a mount whose server is gone; waiting would block every other sync.
    """

    def __init__(self, inner: Remote) -> None:
        super().__init__(inner, HANGS)
        self._steps = 0

    def _more(self) -> float:
        if self._steps != self.inner.steps:
            self._steps = self.inner.steps
            self._get_on()
        return self._size / _SLOWEST

    def _hangs(self) -> Exception:
        return Unreachable(
            f"{self.address} does not answer",
            why=f"a call to the system did not return within {self._seconds:g} seconds",
            hint="is its server or its disk gone? see: df -h; nothing is lost, try again later",
        )


def _settle(done: Future[T], act: Callable[[], T]) -> None:
    try:
        done.set_result(act())
    except BaseException as error:
        done.set_exception(error)


def told(probe: Probe) -> str:
    """Return the probe result to store: empty if the remote has all guarantees."""
    if probe.conditional and probe.lists:
        return ""
    return f"{'' if probe.lists else f'{_LATE}: '}{probe.why or 'not careful'}"


def read_group_object(remote: Remote, name: str) -> bytes:
    """Read a device group object; raise `Tampered` if its bytes were changed."""
    data = remote.get(name)
    if not object_names.is_of(name, data):
        raise Tampered("an object of your device group was changed on the storage", why=name)
    return data
