"""Remotes for tests: one in memory, and wrappers that make any remote fail, lag or lie.

A wrapper does not change the data: another handle on the same remote reads the true data. Each
counts in `fired` how often its fault occurred, so that a test can check that it tried the fault.

    lying = Lying(remote, before=snapshot(remote))
    ...                       # another device pushes
    lying.roll_back()         # from now on it returns the earlier state
    with pytest.raises(RolledBack):
        pull(home, lying)
    assert lying.fired["rollback"]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock
from typing import NamedTuple

from forestay.errors import NotThere, RemoteFailed, Unreachable
from forestay.sync.remotes.port import Object, Oddity, Probe, Remote, check_name


class MemoryRemote(Remote):
    """Store all objects in a dict; several remotes may share one."""

    backend = "memory"

    def __init__(self, objects: dict[str, bytes] | None = None) -> None:
        self.address = "memory:"
        self.objects = {} if objects is None else objects
        self._lock = Lock()

    def list(self, prefix: str) -> Iterator[Object]:
        for name, data in sorted(self.objects.copy().items()):
            if name.startswith(prefix):
                yield Object(name, len(data))

    def get(self, name: str) -> bytes:
        try:
            return self.objects[check_name(name)]
        except KeyError:
            raise NotThere(f"no {name} in memory") from None

    def put(self, name: str, data: bytes) -> bool:
        with self._lock:
            return check_name(name) not in self.objects and not self.objects.update({name: data})

    def delete(self, name: str) -> None:
        self.objects.pop(check_name(name), None)

    def probe(self) -> Probe:
        return Probe(True, True)


def snapshot(remote: Remote) -> dict[str, bytes]:
    """Return every object with its present bytes."""
    return {each.name: remote.get(each.name) for each in remote.list("")}


class Wrapper(Remote):
    """Forward every call; `fired` counts the faults that occurred, by name."""

    def __init__(self, inner: Remote) -> None:
        self.inner = inner
        self.address, self.backend = inner.address, inner.backend
        self.fired: Counter[str] = Counter()

    def list(self, prefix: str) -> Iterator[Object]:
        yield from self.inner.list(prefix)

    def get(self, name: str) -> bytes:
        return self.inner.get(name)

    def put(self, name: str, data: bytes) -> bool:
        return self.inner.put(name, data)

    def delete(self, name: str) -> None:
        self.inner.delete(name)

    def probe(self) -> Probe:
        return self.inner.probe()

    def oddities(self) -> Sequence[Oddity]:
        return self.inner.oddities()

    def close(self) -> None:
        self.inner.close()


# --- storages that fail -------------------------------------------------------------------------


class Late(Wrapper):
    """List a new object only after so many lists have omitted it."""

    def __init__(self, inner: Remote, lists: int = 1) -> None:
        super().__init__(inner)
        self.lists = lists
        self._waiting: dict[str, int] = {}

    def put(self, name: str, data: bytes) -> bool:
        done = self.inner.put(name, data)
        if done and self.lists:
            self._waiting[name] = self.lists
        return done

    def list(self, prefix: str) -> Iterator[Object]:
        for each in self.inner.list(prefix):
            if self._is_late(each.name):
                self.fired["late"] += 1
            else:
                yield each

    def _is_late(self, name: str) -> bool:
        left = self._waiting.pop(name, 0)
        if left > 1:
            self._waiting[name] = left - 1
        return left > 0


BEFORE, AFTER, HALF = "before", "after", "half"


class Dying(Wrapper):
    """Fail at the call number `at`, counted from 1, and at every later one.

    `how` is `before` (nothing is done), `after` (it is done, but not reported), or for a put `half`
    (half of the bytes are stored under the name).
    """

    def __init__(self, inner: Remote, at: int, how: str = BEFORE, only: str = "put") -> None:
        super().__init__(inner)
        self.at, self.how, self.only, self.calls = at, how, only, 0

    def list(self, prefix: str) -> Iterator[Object]:
        self._count("list", lambda: None)
        yield from self.inner.list(prefix)

    def get(self, name: str) -> bytes:
        self._count("get", lambda: None)
        return self.inner.get(name)

    def put(self, name: str, data: bytes) -> bool:
        stored = data[: len(data) // 2] if self.how == HALF else data
        self._count("put", lambda: self.inner.put(name, stored))
        return self.inner.put(name, data)

    def delete(self, name: str) -> None:
        self._count("delete", lambda: self.inner.delete(name))
        self.inner.delete(name)

    def _count(self, call: str, effect: Callable[[], object]) -> None:
        self.calls += call in self.only.split()
        if call not in self.only.split() or self.calls < self.at:
            return
        if self.how != BEFORE and self.calls == self.at:
            effect()
        self.fired["died"] += 1
        raise Unreachable(f"the connection to {self.address} broke off")


class Throttling(Wrapper):
    """Refuse the calls for whose number `refuses` returns true."""

    def __init__(
        self, inner: Remote, refuses: Callable[[int], bool] = lambda n: n % 3 != 0
    ) -> None:
        super().__init__(inner)
        self.refuses, self.calls = refuses, 0

    def list(self, prefix: str) -> Iterator[Object]:
        self._refuse_if_due()
        yield from self.inner.list(prefix)

    def get(self, name: str) -> bytes:
        self._refuse_if_due()
        return self.inner.get(name)

    def put(self, name: str, data: bytes) -> bool:
        self._refuse_if_due()
        return self.inner.put(name, data)

    def delete(self, name: str) -> None:
        self._refuse_if_due()
        self.inner.delete(name)

    def _refuse_if_due(self) -> None:
        self.calls += 1
        if self.refuses(self.calls):
            self.fired["throttled"] += 1
            raise Unreachable(f"{self.address} limits the rate of requests")


class Full(Wrapper):
    """Accept only `room` more bytes."""

    def __init__(self, inner: Remote, room: int = 0) -> None:
        super().__init__(inner)
        self.room = room

    def put(self, name: str, data: bytes) -> bool:
        if len(data) > self.room:
            self.fired["full"] += 1
            raise RemoteFailed(f"cannot write {name} at {self.address}", why="no room left")
        done = self.inner.put(name, data)
        self.room -= len(data) if done else 0
        return done


class ReadOnlyRemote(Wrapper):
    """Refuse every put and delete."""

    def put(self, name: str, data: bytes) -> bool:
        raise self._refusal(name)

    def delete(self, name: str) -> None:
        raise self._refusal(name)

    def _refusal(self, name: str) -> RemoteFailed:
        self.fired["read-only"] += 1
        return RemoteFailed(f"cannot write {name} at {self.address}", why="it is read-only")


class Forgetful(Wrapper):
    """Ignore conditions: the last writer wins, and the answer claims that it was the first."""

    def put(self, name: str, data: bytes) -> bool:
        if not self.inner.put(name, data):
            self.fired["overwritten"] += 1
            self.inner.delete(name)
            self.inner.put(name, data)
        return True


# --- storages that lie --------------------------------------------------------------------------


class Lie(NamedTuple):
    """Hold the false bytes returned under a name, or None for a hidden object."""

    kind: str
    data: bytes | None


class Lying(Wrapper):
    """Return false data. Lies accumulate; `clear_lies` ends them.

    A lie equal to the true data (a bit flipped twice, a rollback of nothing) does not count.
    `delivered` are the names under which a caller received false bytes.
    """

    def __init__(self, inner: Remote, *, before: Mapping[str, bytes] | None = None) -> None:
        super().__init__(inner)
        self.before = dict(before or {})
        self.lies: dict[str, Lie] = {}
        self.delivered: set[str] = set()

    # -- lies ------------------------------------------------------------------------------------

    def hide(self, name: str, kind: str = "hidden") -> None:
        self._lie_about(kind, name, None)

    def show(self, name: str, data: bytes, kind: str = "shown") -> None:
        self._lie_about(kind, name, data)

    def truncate(self, name: str, size: int) -> None:
        self._lie_about("truncated", name, self.get(name)[:size])

    def flip(self, name: str, bit: int) -> None:
        data = bytearray(self.get(name))
        data[bit // 8 % len(data)] ^= 1 << bit % 8
        self._lie_about("flipped", name, bytes(data))

    def swap(self, one: str, other: str) -> None:
        first, second = self.get(one), self.get(other)
        self._lie_about("swapped", one, second)
        self._lie_about("swapped", other, first)

    def replay(self, old: str, new: str) -> None:
        """Return an existing object under another name as well."""
        self._lie_about("replayed", new, self.get(old))

    def move(self, old: str, new: str) -> None:
        self.replay(old, new)
        self.hide(old, "moved")

    def roll_back(self, prefix: str = "") -> None:
        """Return the state of `before` for all names that begin with the prefix."""
        now = {each.name for each in self.inner.list(prefix)}
        for name in now | {each for each in self.before if each.startswith(prefix)}:
            self._lie_about("rollback", name, self.before.get(name))

    def clear_lies(self) -> None:
        self.lies.clear()

    # -- the port --------------------------------------------------------------------------------

    def list(self, prefix: str) -> Iterator[Object]:
        shown = dict(self.inner.list(prefix))
        for name, lie in self.lies.items():
            if name.startswith(prefix):
                self.fired[lie.kind] += 1
                shown.pop(name, None)
                shown |= {} if lie.data is None else {name: len(lie.data)}
        for name in sorted(shown):
            yield Object(name, shown[name])

    def get(self, name: str) -> bytes:
        lie = self.lies.get(check_name(name))
        if lie is None:
            return self.inner.get(name)
        self.fired[lie.kind] += 1
        if lie.data is None:
            raise NotThere(f"no {name} at {self.address}")
        self.delivered.add(name)
        return lie.data

    def _lie_about(self, kind: str, name: str, data: bytes | None) -> None:
        try:
            truth = self.inner.get(check_name(name))
        except NotThere:
            truth = None
        self.lies.pop(name, None)
        if data != truth:
            self.lies[name] = Lie(kind, data)
