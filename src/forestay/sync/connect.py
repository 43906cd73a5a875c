"""A remote of this home, opened as what is remembered of it demands.

One that was in use before must show its mark: a mount point without its stick is not begun anew.
One that proved to be careless is handled with care. While others wait for their turn nobody waits
long for one that hangs: it is set aside, and visited when they were. Nobody waits for ever.
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
"""Begins what is kept of a probe where what is written is not listed at once."""


def connect_remote(known: Known) -> Remote:
    """The remote, opened."""
    remote = open_remote(known.address, known=bool(known.synced))
    remote = (
        HangDetector(remote) if remote.backend == "folder" else remote
    )  # others set their own limit
    return ReadBackRemote(remote, late=known.probe.startswith(_LATE)) if known.probe else remote


Answer = Remote | BaseException
"""A remote that was reached, or what kept it from being so."""


def connect_all(found: Sequence[Known]) -> Iterator[tuple[Known, Answer]]:
    """All of these are asked at once: one that hangs keeps nobody from the others.

    One may answer, and hang in the middle of the visit. Who failed the last time comes last.
    """
    answers = SimpleQueue[tuple[Known, Answer]]()

    def ask(known: Known) -> None:
        answers.put((known, _connect(known)))

    for one in found:
        # Nothing waits for such a thread in the end: who is told to stop stops.
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
            pass  # it answered, which is all that was asked
        except BaseException:
            remote.close()
            raise
    except BaseException as error:
        return error
    return remote


WHILE_OTHERS_WAIT = 3.0
"""How many seconds a remote may take to do nothing at all, while there are others to visit."""
_SLOW, _MOST = 1 << 20, 12.0
"""For what is large it has a second more for so many bytes under way, and so many at most."""

HANGS, _SLOWEST = 120.0, 32 << 10
"""The same where nobody waits: a stick may take long to write what others left to be written."""

T = TypeVar("T")


class Postponed(Exception):
    """A remote hangs, and others wait: it comes after them."""


class TimeLimited(Remote):
    """A remote that is set aside when none of its calls gets on for so many seconds.

    A call that hangs cannot be ended, so each is made in a thread for which nobody waits. What
    comes of it later is as good as what comes of a visit that dies: names end in a hash of what
    they hold.
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
        except RuntimeError:  # no thread can be started: the call is worth more than its limit
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
        """How many seconds are left until it hangs."""
        more = self._more()
        return self._outcome + self._seconds + more - time.monotonic()

    def _more(self) -> float:
        """How many it has more than usual, for what is under way."""
        return min(self._size / _SLOW, _MOST)

    @property
    def _size(self) -> int:
        return sum(list(self._under_way.values()))


class HangDetector(TimeLimited):
    """A folder may be on a mount whose server is gone, and the system then waits for ever.

    Then it is as one that is not there: who waits for it would keep every other sync from going on.
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
    """What to remember of a probe: nothing, if all is well."""
    if probe.conditional and probe.lists:
        return ""
    return f"{'' if probe.lists else f'{_LATE}: '}{probe.why or 'not careful'}"


def read_group_object(remote: Remote, name: str) -> bytes:
    """What lies under the name of a circle object, if it is what was put there."""
    data = remote.get(name)
    if not object_names.is_of(name, data):
        raise Tampered("what is told of your devices is not as it was put there", why=name)
    return data
