"""Storages for tests: one in memory.

Each wraps nothing of the network or the disk, so that thousands of runs cost little.
"""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock

from holdfast.errors import NotThere
from holdfast.remote import Object, Probe, Remote, check_name


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
