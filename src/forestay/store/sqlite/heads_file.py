"""Remembered heads: the last event of this device in each session, stored outside the database.

A database that was rolled back (an old copy restored, the last events deleted) is consistent in
itself. This file is not rolled back with it, so the loss is detected. A slot is written after the
commit, before the writer lock is released, and never synced: after a power cut it may lag behind
the database, but is never ahead of it. So only a database that lost something can look shorter
than what is remembered here; a comparison must read the slot before the database.

One slot of fixed size per session, at the session's number in the database:
session id (64), device id (16), n (8), hash (32), CRC-32 of these (4), padding (4).
"""

from __future__ import annotations

import os
import struct
import zlib

from forestay.store.port import Head
from forestay.store.sqlite.writer_lock import open_private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_SLOT = struct.Struct("<64s16sQ32s")
_CRC = struct.Struct("<I")
SIZE = 128
_AT_ONCE = 8192
_LAST_N = 2**53 - 1
LONGEST_ID = 64
"""Bytes of a session id that fit into a slot."""


class RememberedHeads:
    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1
        self._last: tuple[bytes, tuple[str, Head] | None] = (b"", None)

    def remember(self, number: int, session: str, head: Head) -> None:
        body = _SLOT.pack(session.encode(), head.device.encode(), head.n, bytes.fromhex(head.hash))
        slot = (body + _CRC.pack(zlib.crc32(body))).ljust(SIZE, b"\0")
        self._put(number, slot)
        self._last = (slot, (session, head))

    def forget(self, number: int) -> None:
        self._put(number, b"\0" * SIZE)

    def recall(self, number: int) -> tuple[str, Head] | None:
        """Return the session and head remembered under a number, or None."""
        try:
            if self._fd >= 0:
                slot = os.pread(self._fd, SIZE, number * SIZE)
                # A process that keeps writing finds its own slot, and need not parse it.
                return self._last[1] if slot == self._last[0] else _decode(slot)
            fd = self._open()
            try:
                return _decode(os.pread(fd, SIZE, number * SIZE))
            finally:
                os.close(fd)
        except OSError:
            return None

    def all(self) -> Iterator[tuple[int, str, Head]]:
        """Yield every number with its session and head; none if the file cannot be read."""
        number = 0
        try:
            fd = self._open()
            try:
                while slots := os.pread(fd, _AT_ONCE * SIZE, number * SIZE):
                    for start in range(0, len(slots), SIZE):
                        if found := _decode(slots[start : start + SIZE]):
                            yield number + start // SIZE, *found
                    number += _AT_ONCE
            finally:
                os.close(fd)
        except OSError:
            return

    def _open(self) -> int:
        # Reading must not wait for the writer of a pipe under this name.
        return os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _put(self, number: int, slot: bytes) -> None:
        try:
            if self._fd < 0:
                self._fd = open_private(self._path)
            os.pwrite(self._fd, slot, number * SIZE)
        except OSError:
            # The commit is durable already; the file is allowed to lag behind.
            self.close()


def _decode(slot: bytes) -> tuple[str, Head] | None:
    if len(slot) < _SLOT.size + _CRC.size:
        return None
    body = slot[: _SLOT.size]
    if _CRC.unpack_from(slot, _SLOT.size)[0] != zlib.crc32(body):
        return None
    session, device, n, digest = _SLOT.unpack(body)
    if not 0 < n <= _LAST_N:
        return None
    try:
        head = Head(device.rstrip(b"\0").decode(), n, digest.hex())
        return session.rstrip(b"\0").decode(), head
    except UnicodeDecodeError:
        return None
