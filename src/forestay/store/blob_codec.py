"""Blobs as every adapter stores them: in compressed parts, each with a checksum."""

from __future__ import annotations

import zlib

from forestay.errors import Damaged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    Parts = list[bytes]

_PART = 1 << 20


def packed(digest: str, data: bytes) -> Parts:
    """Return content in compressed parts, each followed by a checksum.

    So damage, or a missing part, is found without decompressing anything.
    """
    if _sha256(data) != digest:
        raise Damaged(f"the content given as {digest[:12]} has another SHA-256")
    starts = range(0, len(data) or 1, _PART)
    parts = [zlib.compress(data[start : start + _PART], 6) for start in starts]
    return [part + _sum_of_part(digest, n, len(parts), part) for n, part in enumerate(parts)]


def _sum_of_part(digest: str, number: int, count: int, part: bytes | memoryview) -> bytes:
    place = f"{digest} {number}/{count}".encode()
    return zlib.crc32(part, zlib.crc32(place)).to_bytes(4, "little")


def unpacked(digest: str, parts: Sequence[bytes]) -> bytes | None:
    """Return the content of these parts; None if it does not match the digest."""
    try:
        data = b"".join(zlib.decompressobj().decompress(part) for part in parts)
    except (zlib.error, TypeError):
        return None
    return data if parts and _sha256(data) == digest else None


def are_undamaged(digest: str, parts: Sequence[bytes]) -> bool:
    """Return whether all parts are there as they were written."""
    sums = (
        _sum_of_part(digest, n, len(parts), memoryview(part)[:-4]) == part[-4:]
        for n, part in enumerate(parts)
    )
    # Parts of older versions have no checksum: they are decompressed.
    return bool(parts) and (all(sums) or unpacked(digest, parts) is not None)


def _sha256(data: bytes) -> str:
    from hashlib import sha256

    return sha256(data).hexdigest()
