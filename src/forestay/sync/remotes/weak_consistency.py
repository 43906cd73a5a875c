"""A wrapper for remotes that ignore conditional writes or list late.

Before a write it checks whether the name exists; after it, the object is read back and compared. If
listings are late, written objects are added to them until they appear. If two devices write
different bytes under one name in the same moment, one of them gets an error.
"""

from __future__ import annotations

from forestay.base.clock import Clock
from forestay.errors import NotThere, RemoteFailed
from forestay.sync.remotes.port import Object, Oddity, Probe, Remote, check_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PAUSES = (0.02, 0.1, 0.5, 0.0)


class ReadBackRemote(Remote):
    """Read back each written object; `late`: written objects do not appear in listings at once."""

    def __init__(self, inner: Remote, *, late: bool = False, clock: Clock | None = None) -> None:
        self.inner, self.late, self._clock = inner, late, clock or Clock()
        self.address, self.backend = inner.address, inner.backend
        self._written: dict[str, int] = {}

    def list(self, prefix: str) -> Iterator[Object]:
        shown = dict(self.inner.list(prefix))
        for name in shown:
            self._written.pop(name, None)
        late = {n: size for n, size in self._written.copy().items() if n.startswith(prefix)}
        for name, size in sorted({**late, **shown}.items()):
            yield Object(name, size)

    def get(self, name: str) -> bytes:
        return self.inner.get(name)

    def put(self, name: str, data: bytes) -> bool:
        try:  # read it: a storage with late listings may have it already
            self.inner.get(check_name(name))
            return False
        except NotThere:
            self.inner.put(name, data)
        if not self._is_kept(name, data):
            raise RemoteFailed(
                f"{name} at {self.address} has other bytes than were written",
                why="another device wrote it in the same moment, or the storage changes objects",
                hint="try again; if this persists, use another storage",
            )
        if self.late:
            self._written[name] = len(data)
        return True

    def delete(self, name: str) -> None:
        self.inner.delete(name)
        self._written.pop(name, None)

    def probe(self) -> Probe:
        return self.inner.probe()

    def oddities(self) -> Sequence[Oddity]:
        return self.inner.oddities()

    def close(self) -> None:
        self.inner.close()

    def _is_kept(self, name: str, data: bytes) -> bool:
        # Read several times: while another device overwrites the object, it may be incomplete.
        for pause in _PAUSES:
            try:
                if self.inner.get(name) == data:
                    return True
            except NotThere:
                pass
            self._clock.sleep(pause)
        return False
