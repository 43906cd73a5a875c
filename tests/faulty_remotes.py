"""Storages for tests: one in memory, and wrappers that make any remote fail, lag or lie.

A wrapper changes nothing behind its remote: another handle on the same data sees the truth. Each
counts in `fired` how often its fault was met, so that a test can say that it tried what it claims
to have tried.

    lying = Lying(remote, before=snapshot(remote))
    ...                       # someone pushes
    lying.roll_back()         # from now on it shows the state of before
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
    """All objects in a dict; several remotes may share one."""

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
    """Every object as it is now."""
    return {each.name: remote.get(each.name) for each in remote.list("")}


class Wrapper(Remote):
    """Passes everything on; `fired` counts the faults that were met, by their names."""

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
    """Lists what was put through it only after so many lists have left it out."""

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
    """Breaks off at the call number `at`, counted from 1, and at every one after it.

    `how`: `before` anything is done, `after` it was done but nobody was told, or, of a put,
    `half` of the bytes under the name.
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
        kept = data[: len(data) // 2] if self.how == HALF else data
        self._count("put", lambda: self.inner.put(name, kept))
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
    """Refuses calls as long as `refuses`, asked with the number of the call, says so."""

    def __init__(
        self, inner: Remote, refuses: Callable[[int], bool] = lambda n: n % 3 != 0
    ) -> None:
        super().__init__(inner)
        self.refuses, self.calls = refuses, 0

    def list(self, prefix: str) -> Iterator[Object]:
        self._ask()
        yield from self.inner.list(prefix)

    def get(self, name: str) -> bytes:
        self._ask()
        return self.inner.get(name)

    def put(self, name: str, data: bytes) -> bool:
        self._ask()
        return self.inner.put(name, data)

    def delete(self, name: str) -> None:
        self._ask()
        self.inner.delete(name)

    def _ask(self) -> None:
        self.calls += 1
        if self.refuses(self.calls):
            self.fired["throttled"] += 1
            raise Unreachable(f"{self.address} asks for fewer requests")


class Full(Wrapper):
    """Has room for so many bytes more."""

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
    """Takes nothing and removes nothing."""

    def put(self, name: str, data: bytes) -> bool:
        raise self._refusal(name)

    def delete(self, name: str) -> None:
        raise self._refusal(name)

    def _refusal(self, name: str) -> RemoteFailed:
        self.fired["read-only"] += 1
        return RemoteFailed(f"cannot write {name} at {self.address}", why="it is read-only")


class Forgetful(Wrapper):
    """Ignores conditions: the last writer wins, and is told that it was the first."""

    def put(self, name: str, data: bytes) -> bool:
        if not self.inner.put(name, data):
            self.fired["overwritten"] += 1
            self.inner.delete(name)
            self.inner.put(name, data)
        return True


# --- storages that lie --------------------------------------------------------------------------


class Lie(NamedTuple):
    """What is shown under a name instead of the truth; None for nothing at all."""

    kind: str
    data: bytes | None


class Lying(Wrapper):
    """Shows something else than is there. Lies add up; `tell_the_truth` ends them.

    A lie that would show the truth (a bit flipped twice, a rollback of nothing) is none.
    `believed` are the names under which somebody was handed false bytes.
    """

    def __init__(self, inner: Remote, *, before: Mapping[str, bytes] | None = None) -> None:
        super().__init__(inner)
        self.before = dict(before or {})
        self.lies: dict[str, Lie] = {}
        self.believed: set[str] = set()

    # -- what it can do --------------------------------------------------------------------------

    def hide(self, name: str, kind: str = "hidden") -> None:
        self._tell(kind, name, None)

    def show(self, name: str, data: bytes, kind: str = "shown") -> None:
        self._tell(kind, name, data)

    def truncate(self, name: str, size: int) -> None:
        self._tell("truncated", name, self.get(name)[:size])

    def flip(self, name: str, bit: int) -> None:
        data = bytearray(self.get(name))
        data[bit // 8 % len(data)] ^= 1 << bit % 8
        self._tell("flipped", name, bytes(data))

    def swap(self, one: str, other: str) -> None:
        first, second = self.get(one), self.get(other)
        self._tell("swapped", one, second)
        self._tell("swapped", other, first)

    def replay(self, old: str, new: str) -> None:
        """An object that is there under another name as well, or in the place of another."""
        self._tell("replayed", new, self.get(old))

    def move(self, old: str, new: str) -> None:
        self.replay(old, new)
        self.hide(old, "moved")

    def roll_back(self, prefix: str = "") -> None:
        """Show the state of `before`, of all names that begin with the prefix."""
        now = {each.name for each in self.inner.list(prefix)}
        for name in now | {each for each in self.before if each.startswith(prefix)}:
            self._tell("rollback", name, self.before.get(name))

    def tell_the_truth(self) -> None:
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
        self.believed.add(name)
        return lie.data

    def _tell(self, kind: str, name: str, data: bytes | None) -> None:
        try:
            truth = self.inner.get(check_name(name))
        except NotThere:
            truth = None
        self.lies.pop(name, None)
        if data != truth:
            self.lies[name] = Lie(kind, data)
