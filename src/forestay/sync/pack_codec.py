"""Encode and decode a pack of one stretch in memory, fast.

Synced packs are small, and a new device reads many of them: so every event is parsed and hashed
only once. The checks are as strict as in `journal.pack`: if this fast reader finds any deviation,
the strict reader of `journal.pack` reads the pack again and reports the defect.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple, Protocol

import msgspec

from forestay.errors import Damaged, InvalidInput
from forestay.journal import pack
from forestay.journal.pack import MAGIC, Blob, Manifest, Range
from forestay.model import event as ev
from forestay.model.blob_refs import digests_in
from forestay.model.event import Header, Sealed
from forestay.sync.plan import Stretch

_SUM = 32
_RECORD = struct.Struct(">cI")
_EVENT = struct.Struct(">cII")
_LEAST, _LARGEST = ev.SALT_BYTES, ev.SALT_BYTES + ev.MAX_EVENT_BYTES
_QUICKLY = 1
MOST = pack.MAX_BLOB + (16 << 20)
"""The most bytes of an inflated pack: one event with its content."""
MOST_EVENTS = 10_000
"""The most events of a pack."""

_encode = msgspec.json.Encoder().encode
_decode_header = msgspec.json.Decoder(Header).decode
_decode_manifest = msgspec.json.Decoder(Manifest).decode
_decode_place = msgspec.json.Decoder(pack.Place).decode


class Row(NamedTuple):
    """A stretch of a chain, with parsed headers and hashes of its events."""

    range: Range
    headers: list[Header]
    hashes: list[str]

    @property
    def kinds(self) -> set[str]:
        return {head.kind for head in self.headers}

    def events(self) -> Iterator[tuple[Sealed, Header, str]]:
        """Yield the events with headers and hashes; their content is not parsed."""
        return zip(self.range.events, self.headers, self.hashes, strict=True)


_ODD = (zlib.error, struct.error, msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _Odd(Exception):
    """The fast reader found a deviation; the strict reader has to decide."""


def load(data: bytes, *, name: str = "the pack") -> tuple[Row, list[Blob]]:
    """Return the stretch and the blobs of a pack; raise the same errors as `pack.Reader`."""
    try:
        return _load(data)
    except (*_ODD, _Odd):
        return _read_carefully(data, name)


def _load(data: bytes) -> tuple[Row, list[Blob]]:
    body = _inflated(data)
    start = _RECORD.size
    kind, size = _RECORD.unpack_from(body)
    manifest = _decode_manifest(body[start : start + size])
    at = start + size
    if kind != b"M" or manifest.size != len(body) - at or len(manifest.sessions) != 1:
        raise _Odd
    kind, size = _RECORD.unpack_from(body, at)
    place = _decode_place(body[at + start : at + start + size])
    if kind != b"C" or manifest.sessions[0] != (place.session, place.last - place.first + 1):
        raise _Odd
    pack.require_place(place)
    if not 0 <= place.last - place.first < MOST_EVENTS:
        raise _Odd
    if (place.before == ev.FIRST) != (place.first == 1):
        raise _Odd
    row, at = _events(body, at + start + size, place)
    return row, list(_blobs(body, at, row))


def _inflated(data: bytes) -> bytes:
    start = len(MAGIC)
    end = len(data) - _SUM
    if data[:start] != MAGIC or sha256(data[:end]).digest() != data[end:]:
        raise _Odd
    inflate = zlib.decompressobj()
    body = inflate.decompress(data[start:end], MOST)
    if not inflate.eof or inflate.unused_data:
        raise _Odd
    return body


def _events(body: bytes, at: int, place: pack.Place) -> tuple[Row, int]:
    """Decode the events of a stretch, column by column for speed."""
    raws: list[bytes] = []
    contents: list[bytes] = []
    for _ in range(place.first, place.last + 1):
        kind, length, size = _EVENT.unpack_from(body, at)
        begin, at = at + _EVENT.size, at + _RECORD.size + length
        end = begin + size
        if kind != b"E" or end > at:
            raise _Odd
        raws.append(body[begin:end])
        contents.append(body[end:at])
    if at > len(body):
        raise _Odd
    headers = [_decode_header(raw) for raw in raws]
    hashes = [sha256(raw).hexdigest() for raw in raws]
    if [head.prev for head in headers] != [place.before, *hashes[:-1]]:
        raise _Odd
    if [head.n for head in headers] != list(range(place.first, place.last + 1)):
        raise _Odd
    whose = {(head.session, head.device) for head in headers}
    if whose != {(place.session, place.device)} or max(head.v for head in headers) > ev.FORMAT:
        raise _Odd
    if hashes[-1] != place.after:
        raise _Odd
    for head, content in zip(headers, contents, strict=True):
        if content and (
            sha256(content).hexdigest() != head.digest or not _LEAST <= len(content) <= _LARGEST
        ):
            raise _Odd
    return Row(_range(place, raws, contents), headers, hashes), at


def _range(place: pack.Place, raws: list[bytes], contents: list[bytes]) -> Range:
    cut = ev.SALT_BYTES
    sealed = [
        Sealed(raw, content[:cut], content[cut:]) if content else Sealed(raw, None, None)
        for raw, content in zip(raws, contents, strict=True)
    ]
    return Range(place.session, place.device, place.first, place.before, sealed)


def _blobs(body: bytes, at: int, row: Row) -> list[Blob]:
    found: list[Blob] = []
    named: set[bytes] = set()
    if at < len(body):
        named = named.union(*(digests_in(sealed.data or b"") for sealed in row.range.events))
    while at < len(body):
        kind, size = _RECORD.unpack_from(body, at)
        content = body[at + _RECORD.size : at + _RECORD.size + size]
        digest, data = content[:_SUM].hex(), content[_SUM:]
        at += _RECORD.size + size
        good = kind == b"B" and len(content) == size >= _SUM and digest.encode() in named
        if not good or sha256(data).hexdigest() != digest:
            raise _Odd
        named.discard(digest.encode())  # each blob occurs once
        found.append(Blob(row.range.session, digest, data))
    return found


# --- writing ----------------------------------------------------------------------------------


class Made(NamedTuple):
    """The records of a pack before compression, which releases Python's lock."""

    session: str
    events: int
    records: bytes

    def finish(self, *, created: int, tool: str, what: str) -> bytes:
        sessions = [(self.session, self.events)]
        reader = _encode(Manifest(created, tool, what, sessions, len(self.records)))
        start = _RECORD.pack(b"M", len(reader)) + reader
        try:
            from isal.isal_zlib import compress
        except ImportError:  # isal is not available for every platform
            compress = zlib.compress
        whole = MAGIC + compress(start + self.records, _QUICKLY)
        return whole + sha256(whole).digest()


class Kept(Protocol):
    """The bytes of an event."""

    @property
    def header(self) -> bytes: ...
    @property
    def salt(self) -> bytes | None: ...
    @property
    def data(self) -> bytes | None: ...


def make(session: str, stretch: Stretch, events: Sequence[Kept], blobs: Sequence[Blob]) -> Made:
    """Encode the records of a pack of one stretch."""
    about = _encode(pack.Place(session, *stretch, ev.FORMAT))
    parts = [_RECORD.pack(b"C", len(about)), about]
    for one in events:
        header, salt, data = one.header, one.salt or b"", one.data or b""
        size = len(header)
        parts += (_EVENT.pack(b"E", 4 + size + len(salt) + len(data), size), header, salt, data)
    for blob in blobs:
        parts += (_RECORD.pack(b"B", _SUM + len(blob.data)), bytes.fromhex(blob.digest), blob.data)
    return Made(session, len(events), b"".join(parts))


def _read_carefully(data: bytes, name: str) -> tuple[Row, list[Blob]]:
    reader = pack.Reader((data,), name=name, limits=pack.Limits(total=MOST))
    events = sum(count for _, count in reader.manifest.sessions)
    if events > MOST_EVENTS:
        why = f"it has {events:,} events; a pack can have at most {MOST_EVENTS:,}"
        raise InvalidInput(f"{name} cannot be imported", why=why)
    items = list(reader)
    ranges = [item for item in items if isinstance(item, Range)]
    if len(ranges) != 1:
        why = f"it has {len(ranges)} ranges"
        raise Damaged(f"{name} does not have exactly one range of events", why=why, file=name)
    headers = [ev.parse_header(sealed.header) for sealed in ranges[0].events]
    hashes = [sealed.hash for sealed in ranges[0].events]
    blobs = [item for item in items if isinstance(item, Blob)]
    return Row(ranges[0], headers, hashes), blobs
