"""A pack of one stretch that is at hand as a whole, read or made in one go.

Packs that travel are small, and a device that comes late reads many: here every event is parsed
once and hashed once, and what was found out is kept for whoever takes it. Nothing is trusted
more than in `pack`: whatever is not exactly as it should be is left to the careful reader there,
which says what is wrong.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

import msgspec

from holdfast import pack
from holdfast.errors import Damaged, InvalidInput
from holdfast.model import event as ev
from holdfast.model.content import digests_in
from holdfast.model.event import Event, Header, Sealed
from holdfast.pack import MAGIC, Blob, Manifest, Range

_SUM = 32
_RECORD = struct.Struct(">cI")
_EVENT = struct.Struct(">cII")
_QUICKLY = 1
MOST = pack.MAX_BLOB + (16 << 20)
"""What is larger when it is inflated is refused: one event with its content is the most."""
MOST_EVENTS = 10_000
"""The same, of how many events there are."""

_encode = msgspec.json.Encoder().encode
_decode_header = msgspec.json.Decoder(Header).decode
_decode_manifest = msgspec.json.Decoder(Manifest).decode
_decode_place = msgspec.json.Decoder(pack.Place).decode


class Row(NamedTuple):
    """A stretch of a chain with all that was found out about its events."""

    range: Range
    headers: list[Header]
    hashes: list[str]

    def events(self) -> list[Event]:
        """The events as values; what they say is read only now."""
        read = ev.decode_body
        whole = zip(self.headers, self.hashes, self.range.events, strict=True)
        return [Event(head, hash, read(head.kind, sealed.data)) for head, hash, sealed in whole]


_ODD = (zlib.error, struct.error, msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _Odd(Exception):
    """Something is not as it should be, or needs a closer look."""


def load(data: bytes, *, name: str = "the pack") -> tuple[Row, list[Blob]]:
    """The one stretch of a pack, and the content that came with it; raises as `pack.Reader`."""
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
    """The events of a stretch. Long for one function: it runs once for each event that travels."""
    session, device, before = place.session, place.device, place.before
    sealed: list[Sealed] = []
    headers: list[Header] = []
    hashes: list[str] = []
    for n in range(place.first, place.last + 1):
        kind, length, size = _EVENT.unpack_from(body, at)
        begin, at = at + _EVENT.size, at + _RECORD.size + length
        end = begin + size
        raw, content = body[begin:end], body[end:at]
        head = _decode_header(raw)
        if (kind, head.prev, head.n) != (b"E", before, n) or end > at or len(body) < at:
            raise _Odd
        if (head.session, head.device) != (session, device) or head.v > ev.FORMAT:
            raise _Odd
        if content and sha256(content).hexdigest() != head.digest:
            raise _Odd
        if not content:
            sealed.append(Sealed(raw, None, None))
        elif ev.SALT_BYTES <= len(content) <= ev.SALT_BYTES + ev.MAX_EVENT_BYTES:
            sealed.append(Sealed(raw, content[: ev.SALT_BYTES], content[ev.SALT_BYTES :]))
        else:
            raise _Odd
        before = sha256(raw).hexdigest()
        headers.append(head)
        hashes.append(before)
    if before != place.after:
        raise _Odd
    return Row(Range(session, device, place.first, place.before, sealed), headers, hashes), at


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
        named.discard(digest.encode())  # nothing is there twice
        found.append(Blob(row.range.session, digest, data))
    return found


# --- writing ----------------------------------------------------------------------------------


class Made(NamedTuple):
    """The records of a pack, before they are compressed: that takes no lock, this does."""

    session: str
    events: int
    records: bytes

    def finish(self, *, created: int, tool: str, what: str) -> bytes:
        sessions = [(self.session, self.events)]
        opening = _encode(Manifest(created, tool, what, sessions, len(self.records)))
        start = _RECORD.pack(b"M", len(opening)) + opening
        whole = MAGIC + zlib.compress(start + self.records, _QUICKLY)
        return whole + sha256(whole).digest()


def make(row: Range, blobs: Sequence[Blob]) -> Made:
    """The records of a pack of one stretch, made in one go."""
    place = (row.session, row.device, row.first, row.last, row.before, row.after)
    about = _encode(pack.Place(*place, ev.FORMAT))
    parts = [_RECORD.pack(b"C", len(about)), about]
    for sealed in row.events:
        header, salt, data = sealed.header, sealed.salt or b"", sealed.data or b""
        size = len(header)
        parts += (_EVENT.pack(b"E", 4 + size + len(salt) + len(data), size), header, salt, data)
    for blob in blobs:
        parts += (_RECORD.pack(b"B", _SUM + len(blob.data)), bytes.fromhex(blob.digest), blob.data)
    return Made(row.session, len(row.events), b"".join(parts))


def _read_carefully(data: bytes, name: str) -> tuple[Row, list[Blob]]:
    reader = pack.Reader((data,), name=name, limits=pack.Limits(total=MOST))
    events = sum(count for _, count in reader.manifest.sessions)
    if events > MOST_EVENTS:
        why = f"{events:,} events; at most {MOST_EVENTS:,} travel together"
        raise InvalidInput(f"{name} cannot be taken", why=why)
    items = list(reader)
    ranges = [item for item in items if isinstance(item, Range)]
    if len(ranges) != 1:
        raise Damaged(f"{name} does not hold one stretch", why=f"{len(ranges)} of them", file=name)
    headers = [ev.parse_header(sealed.header) for sealed in ranges[0].events]
    hashes = [sealed.hash for sealed in ranges[0].events]
    blobs = [item for item in items if isinstance(item, Blob)]
    return Row(ranges[0], headers, hashes), blobs
