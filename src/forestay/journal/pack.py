"""A pack: ranges of chains in one immutable file, the one format of export, backup and restore.

A *range* is a piece of one chain: events with consecutive numbers and hashes. A *blob* is content
that an event of the same session names by its SHA-256. The *manifest* comes first and describes
what follows, so that a pack can be listed without reading it to its end. *Items* are ranges and
blobs; a session's items are together, its ranges first.

    file      = "FORESTAY PACK 1" LF, body, sum
    body      = one zlib stream (RFC 1950) of manifest and items, nothing else
    sum       = SHA-256 (32 bytes) of every byte of the file before it
    record    = type (1 byte), length (4 bytes, big endian), that many bytes
    manifest  = record "M": JSON {"created": UTC ms, "tool": text, "what": text,
                "sessions": [[id, events], …], "size": bytes of all records after this one}
    range     = record "C": JSON {"session": id, "device": id, "first": n, "last": n,
                "before": hash of the event before the first, "" at the start of a chain,
                "after": hash of the last event, "format": envelope version},
                then last - first + 1 records "E", in the order of the chain
    event     = record "E": length of the header (4 bytes, big endian), header, content;
                content is salt (16 bytes) and data, or nothing at all if it was erased
    blob      = record "B": SHA-256 (32 bytes), content; it belongs to the session of the
                range before it

    !! Packs are stored for years. A change of these bytes is a new number in the first line;
    !! a new field of the manifest or of a range may be added, readers ignore what they do not
    !! know. Compressed bytes may differ between zlib versions; the body within does not.

Event bytes are exactly as they were hashed, erased ones erased.

The reader trusts nothing. It inflates in small steps and stops at once if a length exceeds what
the manifest declared, if the output exceeds its limits, if an id is invalid, if an event
contradicts its range, its hash or its digest, if a blob does not match its digest or no event
names it, and if an item occurs twice. Only the sum at the end proves the pack: items that were read
before it may be shown but must not be stored. No name in a pack is ever used as a path.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from itertools import chain
from typing import NamedTuple, NoReturn, TypeVar

import msgspec
from msgspec import Struct, structs

from forestay.base.text import clean_id
from forestay.errors import Busy, Damaged, ForestayError, InvalidInput, Outdated, StoreFailed
from forestay.model import event as ev
from forestay.model.blob_refs import blob_names, digests_in
from forestay.model.event import Sealed

MAGIC = b"FORESTAY PACK 1\n"
_ANY_VERSION = re.compile(rb"FORESTAY PACK [0-9]{1,6}\n?")
_SUM = 32
_RECORD = struct.Struct(">cI")
_LENGTH = struct.Struct(">I")

MAX_BLOB = 64 << 20
"""The largest blob of a pack, in bytes: a blob is in memory as a whole."""

_MAX_MANIFEST = 16 << 20
_MAX_EVENT = 1 << 20
_LEAST_EVENT = 64
_LEVEL = 6
# Small steps: each one copies the input that the inflater has not used yet.
_STEP_IN = 1 << 14
_STEP_OUT = 1 << 18
# The ratio is not checked for this many bytes: the beginning can compress well.
_SLACK = 16 << 20


class Limits(NamedTuple):
    """The limits within which a reader accepts a pack.

    `ratio` is how many times larger events may become when inflated. Real events stay below it:
    each has two hashes, an id and a salt that do not compress, and at most 16 KB of data.
    """

    total: int = 2 << 30
    ratio: int = 200


OWN = Limits(total=1 << 50)
"""The limits for packs that this home wrote: they can be as large as the store."""


class Manifest(Struct, frozen=True):
    """The description at the start of a pack; it is proved only when the whole pack is read."""

    created: int
    tool: str
    what: str
    sessions: list[tuple[str, int]]
    size: int


class Place(Struct, frozen=True):
    """The session, device and numbers of a range, as the record before its events states them."""

    session: str
    device: str
    first: ev.Number
    last: ev.Number
    before: str
    after: str
    format: ev.Number


def require_place(place: Place) -> None:
    """Raise an error if a range has invalid ids, or events of a newer format."""
    for id, what in ((place.session, "session id"), (place.device, "device id")):
        clean_id(id, what)
    if place.format > ev.FORMAT:
        why = f"it has events of format {place.format}; this version reads up to {ev.FORMAT}"
        raise Outdated(why)


class Range(Struct, frozen=True):
    """A piece of one chain, with all its events."""

    session: str
    device: str
    first: int
    before: str
    events: list[Sealed]

    @property
    def last(self) -> int:
        return self.first + len(self.events) - 1

    @property
    def after(self) -> str:
        return self.events[-1].hash


class Blob(Struct, frozen=True):
    """Content that an event of the session names."""

    session: str
    digest: str
    data: bytes


Item = Range | Blob

_encode = msgspec.json.Encoder().encode
_T = TypeVar("_T")


# --- making items -----------------------------------------------------------------------------


def ranges(session: str, events: Iterable[Sealed]) -> list[Range]:
    """Return the ranges of a session's events, each of which is given after its predecessor.

    If a copied home continued a chain twice, the second continuation becomes a separate range.
    """
    found: list[Range] = []
    ends: dict[tuple[str, str], Range] = {}
    for sealed in events:
        header = ev.parse_header(sealed.header)
        grown = ends.pop((header.device, header.prev), None)
        if grown is None or grown.last + 1 != header.n:
            grown = Range(session, header.device, header.n, header.prev, [])
            found.append(grown)
        grown.events.append(sealed)
        ends[header.device, sealed.hash] = grown
    return found


IsErased = Callable[[str, Sealed], bool]
"""Return whether the content of an event of a session was erased."""


def without_content(items: Iterable[Item], gone: IsErased) -> Iterator[Item]:
    """Yield the items without the content of erased events, and without blobs only they name.

    Chains still verify: a replaced range has the same numbers and hashes.
    """
    session, named = "", set[str]()
    for item in items:
        if item.session != session:
            session, named = item.session, set()
        if isinstance(item, Range):
            events = [
                Sealed(one.header, None, None) if gone(session, one) else one for one in item.events
            ]
            item = structs.replace(item, events=events)
            named.update(name for sealed in item.events for name in blob_names(sealed))
            yield item
        elif item.digest in named:
            yield item


# --- writing ----------------------------------------------------------------------------------


def write(
    items: Callable[[], Iterable[Item]], *, created: int, tool: str, what: str
) -> Iterator[bytes]:
    """Yield the bytes of a pack in chunks.

    `items` is called twice, because the manifest comes first: once to measure, once to write.
    Raise `Busy` if the second call returns other items; then the bytes so far are useless.
    """
    first = _Tally()
    for _ in first.records(items()):
        pass
    manifest = Manifest(created, tool, what, list(first.counts.items()), first.size)
    opening = _encode(manifest)
    if len(opening) > _MAX_MANIFEST:
        count = len(manifest.sessions)
        raise StoreFailed(
            f"{count} sessions are too many for one pack", hint="export fewer sessions at a time"
        )
    total, squeeze = sha256(MAGIC), zlib.compressobj(_LEVEL)
    yield MAGIC
    again = _Tally()
    for raw in chain([_framed(b"M", opening)], again.records(items())):
        if piece := squeeze.compress(raw):
            total.update(piece)
            yield piece
    if (list(again.counts.items()), again.size) != (manifest.sessions, manifest.size):
        raise Busy("the sessions changed while the pack was written", hint="try again")
    piece = squeeze.flush()
    total.update(piece)
    yield piece + total.digest()


class _Tally:
    """Counts the records of items, and their bytes, while they are written."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.size = 0

    def records(self, items: Iterable[Item]) -> Iterator[bytes]:
        for item in items:
            if isinstance(item, Range):
                self.counts[item.session] = self.counts.get(item.session, 0) + len(item.events)
            for record in _records(item):
                self.size += len(record)
                yield record


def _records(item: Item) -> Iterator[bytes]:
    if isinstance(item, Blob):
        if len(item.data) > MAX_BLOB:
            raise StoreFailed(f"the content {item.digest[:12]} is too large for a pack")
        yield _framed(b"B", bytes.fromhex(item.digest) + item.data)
        return
    for id in (item.session, item.device):
        clean_id(id, "id")
    place = (item.session, item.device, item.first, item.last, item.before, item.after)
    yield _framed(b"C", _encode(Place(*place, ev.FORMAT)))
    for sealed in item.events:
        yield _framed(b"E", _event_bytes(sealed))


def _event_bytes(sealed: Sealed) -> bytes:
    if (sealed.salt is None) != (sealed.data is None):
        raise Damaged("an event is only partly erased", hint="forestay verify")
    content = (sealed.salt or b"") + (sealed.data or b"")
    return _LENGTH.pack(len(sealed.header)) + sealed.header + content


def _framed(kind: bytes, payload: bytes) -> bytes:
    return _RECORD.pack(kind, len(payload)) + payload


# --- reading ----------------------------------------------------------------------------------


def read_manifest(chunks: Iterable[bytes], *, name: str = "the pack") -> Manifest:
    """Return the manifest of a pack, to list it; the rest is neither read nor checked."""
    return Reader(chunks, name=name, limits=Limits(total=1 << 62)).manifest


def has_valid_checksum(chunks: Iterable[bytes]) -> bool:
    """Return whether a file begins like a pack and its checksum matches.

    The items are not checked; only reading them with `Reader` does that.
    """
    source = _Source(chunks)
    good = source.take(len(MAGIC)) == MAGIC
    while source.more():
        pass
    return good and source.ends_with_its_sum()


class Reader:
    """A pack being read: `manifest` is read at once, the items by iterating once to the end.

    Raise `InvalidInput` for a file that is no pack or exceeds the limits, `Damaged` for a pack
    that was changed, `Outdated` for one of a newer version; each error names the file.
    """

    def __init__(
        self, chunks: Iterable[bytes], *, name: str = "the pack", limits: Limits | None = None
    ) -> None:
        self._name = name
        self._limits = limits or Limits()
        self._source = _Source(chunks)
        self._begin()
        self._body = _Body(self._source, self._limits.ratio)
        self._left = _RECORD.size + _MAX_MANIFEST
        self.manifest = self._read_manifest()

    def __iter__(self) -> Iterator[Item]:
        expected = iter(self.manifest.sessions)
        session = _Session("", 0)
        met: set[str] = set()
        while self._left:
            kind, payload = self._record(b"CB")
            if kind == b"B":
                yield self._blob(session, payload)
                continue
            place = self._place(payload)
            if place.session != session.id:
                self._finish(session)
                session = self._next_session(place.session, expected, met)
            elif session.blobs:
                self._fail(f"a range of {session.id} comes after its content")
            yield self._range(place, session)
        self._finish(session)
        self._end(expected)

    def _fail(self, why: str, kind: type[ForestayError] = Damaged) -> NoReturn:
        what, hint = {
            Damaged: ("is damaged", "use another copy of this pack"),
            Outdated: ("was made by a newer Forestay", "update Forestay, then repeat the command"),
        }.get(kind, ("cannot be read", "use a pack that Forestay wrote"))
        raise kind(f"{self._name} {what}", why=why, hint=hint, file=self._name, operation="read")

    def _begin(self) -> None:
        start = self._source.take(len(MAGIC))
        if start == MAGIC:
            return
        if start and MAGIC.startswith(start):
            self._fail("it ends too early")
        if _ANY_VERSION.fullmatch(start):
            self._fail(start.decode().strip(), Outdated)
        self._fail("it is not a Forestay pack", InvalidInput)

    def _read_manifest(self) -> Manifest:
        _, payload = self._record(b"M")
        manifest = self._decode(payload, Manifest, "its manifest")
        limit = self._limits.total
        if not 0 <= manifest.size <= limit:
            self._fail(f"it has {manifest.size} bytes; at most {limit} are allowed", InvalidInput)
        least = sum(max(1, count) for _, count in manifest.sessions) * _LEAST_EVENT
        if least > manifest.size:
            self._fail("its manifest lists more events than its size allows")
        self._left = manifest.size
        return manifest

    # -- records -------------------------------------------------------------------------------

    def _record(self, kinds: bytes) -> tuple[bytes, bytes]:
        kind, length = _RECORD.unpack(self._take(_RECORD.size, plain=True))
        if kind not in kinds:
            self._fail(f"a record of type {kind!r} is in the wrong place")
        most = {b"B": MAX_BLOB + 32, b"E": _MAX_EVENT, b"C": 4096}.get(kind, _MAX_MANIFEST)
        if length > most:
            self._fail(f"a record has {length} bytes; at most {most} are allowed", InvalidInput)
        return kind, self._take(length, plain=kind != b"B")

    def _take(self, count: int, *, plain: bool) -> bytes:
        if count > self._left:
            self._fail("a record is longer than the rest of the pack")
        self._left -= count
        try:
            data = self._body.take(count, plain=plain)
        except zlib.error as error:
            self._fail(f"it cannot be inflated: {error}")
        except _TooDense:
            self._fail("it expands far more than events can", InvalidInput)
        if len(data) < count:
            self._fail("it ends too early")
        return data

    def _decode(self, payload: bytes, kind: type[_T], what: str) -> _T:
        try:
            return msgspec.json.decode(payload, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self._fail(f"{what} cannot be read: {error}")

    # -- items ---------------------------------------------------------------------------------

    def _place(self, payload: bytes) -> Place:
        place = self._decode(payload, Place, "a range")
        try:
            require_place(place)
        except (InvalidInput, Outdated) as error:
            self._fail(str(error), type(error))
        if place.last < place.first or (place.last - place.first) * _LEAST_EVENT > self._left:
            self._fail(f"a range from {place.first} to {place.last} cannot be in it")
        if (place.before == ev.FIRST) != (place.first == 1):
            self._fail(f"a range from {place.first} does not name its predecessor")
        return place

    def _next_session(
        self, id: str, expected: Iterator[tuple[str, int]], met: set[str]
    ) -> _Session:
        if id.lower() in met:
            self._fail(f"session {id} is in it twice")
        met.add(id.lower())
        announced, count = next(expected, ("", 0))
        if announced != id:
            self._fail(f"session {id} is not in the place that its manifest states")
        return _Session(id, count)

    def _range(self, place: Place, session: _Session) -> Range:
        events: list[Sealed] = []
        before = place.before
        for n in range(place.first, place.last + 1):
            sealed = self._event()
            self._check_event(sealed, place, n, before)
            before = sealed.hash
            if before in session.hashes:
                self._fail(f"event {place.device}:{n} of {session.id} is in it twice")
            session.hashes.add(before)
            session.named |= {name.decode() for name in digests_in(sealed.data or b"")}
            events.append(sealed)
        if before != place.after:
            self._fail(f"the range does not end with the hash it names, at {place.device}:{n}")
        return Range(place.session, place.device, place.first, place.before, events)

    def _event(self) -> Sealed:
        _, payload = self._record(b"E")
        if len(payload) < _LENGTH.size:
            self._fail("an event is cut short")
        end = _LENGTH.size + _LENGTH.unpack_from(payload)[0]
        content = payload[end:]
        if end > len(payload) or 0 < len(content) < ev.SALT_BYTES:
            self._fail("an event is cut short")
        header = payload[_LENGTH.size : end]
        if not content:
            return Sealed(header, None, None)
        return Sealed(header, content[: ev.SALT_BYTES], content[ev.SALT_BYTES :])

    def _check_event(self, sealed: Sealed, place: Place, n: int, before: str) -> None:
        try:
            header = ev.parse_header(sealed.header)
        except Damaged as error:
            self._fail(f"event {place.device}:{n}: {error}")
        demands = (
            (header.session == place.session, "it belongs to another session"),
            (header.device == place.device, "it belongs to another device"),
            (header.n == n, f"its number is {header.n}"),
            (header.prev == before, "it does not follow the event before it"),
        )
        wrong = next((why for is_met, why in demands if not is_met), "")
        wrong = wrong or ev.check(sealed, header)
        if sealed.data is not None and len(sealed.data) > ev.MAX_EVENT_BYTES:
            size, most = len(sealed.data), ev.MAX_EVENT_BYTES
            wrong = wrong or f"it has {size} bytes; at most {most} are allowed"
        if wrong:
            self._fail(f"event {place.device}:{n}: {wrong}")

    def _blob(self, session: _Session, payload: bytes) -> Blob:
        digest, data = payload[:32].hex(), payload[32:]
        if len(payload) < 32 or sha256(data).hexdigest() != digest:
            self._fail(f"the content {digest[:12]} does not match its digest")
        if digest not in session.named:
            self._fail(f"no event of its session names the content {digest[:12]}")
        if digest in session.blobs:
            self._fail(f"the content {digest[:12]} is in it twice")
        session.blobs.add(digest)
        return Blob(session.id, digest, data)

    # -- the end -------------------------------------------------------------------------------

    def _finish(self, session: _Session) -> None:
        if len(session.hashes) != session.count:
            why = f"{len(session.hashes)} events of {session.id}, not {session.count}"
            self._fail(f"it holds {why} as its manifest says")

    def _end(self, expected: Iterator[tuple[str, int]]) -> None:
        if next(expected, None):
            self._fail("it lacks a session that its manifest lists")
        try:
            whole = self._body.is_over()
        except zlib.error as error:
            self._fail(f"it cannot be inflated: {error}")
        if not whole:
            self._fail("its body does not end where its manifest states")
        if not self._source.ends_with_its_sum(self._body.behind()):
            self._fail("its checksum is wrong, or other bytes follow the checksum")


class _Session:
    """The items of a session that were read so far."""

    def __init__(self, id: str, count: int) -> None:
        self.id = id
        self.count = count
        self.hashes: set[str] = set()
        self.named: set[str] = set()
        self.blobs: set[str] = set()


class _TooDense(Exception):
    """The body expands more than events can."""


class _Source:
    """The bytes of the file in chunks; all but the sum at the end are hashed as they are read."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._sum = sha256()
        self._last = b""
        self._rest = memoryview(b"")
        self.length = 0

    def more(self) -> bytes:
        """Return the next chunk; empty at the end of the file."""
        found = self._rest or memoryview(next(filter(None, self._chunks), b""))
        piece, self._rest = bytes(found[:_STEP_IN]), found[_STEP_IN:]
        self.length += len(piece)
        seen = self._last + piece
        self._sum.update(seen[:-_SUM])
        self._last = seen[-_SUM:]
        return piece

    def take(self, count: int) -> bytes:
        """Return the first bytes of the file, fewer if it is shorter."""
        found = b""
        while len(found) < count and (piece := next(filter(None, self._chunks), b"")):
            found += piece
        self._rest = memoryview(found)[count:]
        self._sum.update(found[:count])
        self.length += count
        return found[:count]

    def ends_with_its_sum(self, behind: bytes | None = None) -> bool:
        """Return whether the rest of the file is exactly the sum of all bytes before it.

        `behind` are bytes after the body that were read already: they are a part of that rest.
        """
        if behind is not None:
            while len(behind) <= _SUM and (piece := self.more()):
                behind += piece
            if len(behind) != _SUM:
                return False
        return self._last == self._sum.digest()


class _Body:
    """The body, inflated in small steps, so that little more than requested is in memory."""

    def __init__(self, source: _Source, ratio: int) -> None:
        self._source = source
        self._ratio = ratio
        self._inflate = zlib.decompressobj()
        self._ready = bytearray()
        self._plain = 0

    def take(self, count: int, *, plain: bool) -> bytes:
        """Return the next bytes, fewer at the end.

        With `plain`, raise `_TooDense` if the body expands more than events can.
        """
        while len(self._ready) < count and self._step():
            pass
        found = bytes(self._ready[:count])
        del self._ready[:count]
        if plain:
            self._plain += count
            if self._plain > self._source.length * self._ratio + _SLACK:
                raise _TooDense
        return found

    def is_over(self) -> bool:
        while not self._ready and self._step():
            pass
        return not self._ready and self._inflate.eof

    def behind(self) -> bytes:
        return self._inflate.unused_data

    def _step(self) -> bool:
        """Inflate some more bytes; return False at the end of the body."""
        if self._inflate.eof:
            return False
        piece = self._inflate.unconsumed_tail or self._source.more()
        if not piece:
            return False
        self._ready += self._inflate.decompress(piece, _STEP_OUT)
        return True
