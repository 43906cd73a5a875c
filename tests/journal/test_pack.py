"""Packs: what is written is read back exactly, and nothing else is ever taken for a pack."""

from __future__ import annotations

import hashlib
import json
import struct
import tracemalloc
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forestay.errors import Busy, Damaged, ForestayError, InvalidInput, Outdated, StoreFailed
from forestay.journal import pack
from forestay.journal.pack import Blob, Item, Limits, Range, Reader
from forestay.model import event as ev
from forestay.model.blob_refs import blob_names
from forestay.model.event import Body, Header, Sealed
from forestay.model.fold import advance
from forestay.model.state import Core
from tests.histories import SESSION, next_event, simulate

GOLDEN = Path(__file__).parent.parent / "golden" / "pack-1.fspack"
CONTENT = b"what the artifact says\n" * 3


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def history(
    session: str = "s-1", bodies: Iterable[Body] = (), device: str = "device-a"
) -> list[Sealed]:
    """A chain of one device, the same bytes in every run."""
    core, found = Core(), list[Sealed]()
    for n, body in enumerate([ev.SessionStarted(goal="hold fast"), *bodies], start=1):
        sealed, event = next_event(
            core,
            body,
            session=session,
            device=device,
            id=f"e{n}",
            at=1_700_000_000_000 + n,
            actor="cli",
            salt=hashlib.sha256(f"{session}{n}".encode()).digest()[:16],
        )
        advance(core, event)
        found.append(sealed)
    return found


NOTES = [ev.NoteAdded(text="one"), ev.NoteAdded(text="two"), ev.NoteAdded(text="three")]
ARTIFACT = ev.ArtifactSaved(path="out.txt", digest=digest_of(CONTENT), size=len(CONTENT))


def sample() -> list[Item]:
    """Two sessions; the first has a fork, an erased event and an artifact."""
    chain = history(bodies=[*NOTES, ARTIFACT])
    twin = history(bodies=[*NOTES[:2], ev.NoteAdded(text="another third"), ev.SessionCompleted()])
    chain[1] = twin[1] = Sealed(chain[1].header, None, None)
    return [
        *pack.ranges("s-1", [*chain, *twin[3:]]),
        Blob("s-1", digest_of(CONTENT), CONTENT),
        *pack.ranges("s-2", history("s-2", NOTES, "device-b")),
    ]


def written(items: Iterable[Item], **facts: Any) -> bytes:
    kept = list(items)
    manifest = {"created": 1_700_000_000_000, "tool": "forestay test", "what": "export", **facts}
    return b"".join(pack.write(lambda: kept, **manifest))


def pieces(data: bytes, size: int = 1000) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


def read(data: bytes, **how: Any) -> list[Item]:
    return list(Reader(pieces(data), name="some.fspack", **how))


def body_of(data: bytes) -> bytes:
    return zlib.decompress(data[len(pack.MAGIC) : -32])


# --- what is written is read back -------------------------------------------------------------


def test_pack_reads_back_what_was_written() -> None:
    data = written(sample())
    reader = Reader(pieces(data))
    assert list(reader) == sample()
    assert reader.manifest.sessions == [("s-1", 7), ("s-2", 4)]
    assert reader.manifest.size == len(body_of(data)) - _manifest_length(body_of(data))


def _manifest_length(body: bytes) -> int:
    return 5 + int(struct.unpack(">I", body[1:5])[0])


@pytest.mark.parametrize("size", [1, 7, 16, 17, 100_000])
def test_pack_can_be_read_in_chunks_of_any_size(size: int) -> None:
    data = written(sample())
    assert list(Reader(pieces(data, size))) == sample()
    assert pack.has_valid_checksum(pieces(data, size))


def test_empty_pack_is_valid() -> None:
    assert read(written([])) == []


@given(st.randoms(use_true_random=False), st.integers(0, 40))
def test_any_history_is_read_back_from_a_pack(random: Random, steps: int) -> None:
    world = simulate(random, steps)
    events = [world.sealed[event.hash] for event in world.events]
    gone = {sealed.hash for sealed in events if random.random() < 0.1}
    events = [Sealed(s.header, None, None) if s.hash in gone else s for s in events]
    items: list[Item] = [*pack.ranges(SESSION, events)]
    back = read(written(items))
    assert back == items
    found = [sealed for item in back if isinstance(item, Range) for sealed in item.events]
    assert sorted(found, key=_hash) == sorted(events, key=_hash)


def _hash(sealed: Sealed) -> str:
    return sealed.hash


def test_a_forked_chain_is_packed_as_a_separate_range() -> None:
    first, second = (item for item in sample()[:2] if isinstance(item, Range))
    assert (first.first, first.last, first.before) == (1, 5, "")
    assert (second.first, second.last, second.before) == (4, 5, first.events[2].hash)


def test_a_number_that_does_not_follow_begins_a_new_range() -> None:
    first = _raw_event(b"{}")
    fifth = _raw_event(b"{}", n=5, prev=first.hash)
    found = pack.ranges("s-1", [first, fifth])
    assert [(item.first, item.last, item.before) for item in found] == [
        (1, 1, ""),
        (5, 5, first.hash),
    ]


def test_the_manifest_can_be_read_from_the_beginning_of_a_pack() -> None:
    data = written(sample(), what="backup")
    manifest = pack.read_manifest([data[:300]])
    assert (manifest.what, manifest.created) == ("backup", 1_700_000_000_000)
    assert manifest.sessions == [("s-1", 7), ("s-2", 4)]


def test_fully_erased_pack_holds_only_the_chain() -> None:
    whole = pack.ranges("s-1", history(bodies=NOTES))[0]
    (twin,) = pack.without_content([whole], lambda session, sealed: True)
    assert isinstance(twin, Range)
    assert (twin.first, twin.last, twin.before, twin.after) == (1, 4, "", whole.after)
    assert read(written([twin])) == [twin]
    assert b"three" not in body_of(written([twin]))


def test_erased_pack_lacks_forgotten_content_and_its_blobs() -> None:
    both, other = history(bodies=[ARTIFACT, NOTES[0], ARTIFACT]), ARTIFACT.digest
    blob = Blob("s-1", other, CONTENT)
    whole: list[Item] = [*pack.ranges("s-1", both), blob]

    def without(*gone: str) -> bytes:
        return written(
            list(pack.without_content(whole, lambda session, sealed: sealed.hash in gone))
        )

    assert without() == written(whole)
    assert blob in read(without(both[1].hash))
    bare = without(both[1].hash, both[3].hash)
    assert CONTENT not in body_of(bare)
    (left,) = read(bare)
    assert isinstance(left, Range)
    assert [sealed.hash for sealed in left.events] == [sealed.hash for sealed in both]
    assert [sealed.data is None for sealed in left.events] == [False, True, False, True]


def test_events_name_their_stored_content() -> None:
    def names(body: Body) -> list[str]:
        return blob_names(history(bodies=[body])[-1])

    some = digest_of(b"x")
    assert names(ARTIFACT) == [ARTIFACT.digest]
    assert names(ev.NoteAdded(text="long", blob=some)) == [some]
    assert names(ev.ArtifactVersioned(path="a", version=2, digest=some)) == [some]
    assert names(ev.NoteAdded(text=some)) == []
    assert names(ev.FileChanged(path="a", before=some, after=some)) == []
    assert names(ev.ArtifactSaved(path="a", digest="not a digest", size=1)) == []
    assert names(ev.ArtifactSaved(path="a", digest=some, size=1, kept=False)) == []


def test_every_digest_in_an_unknown_kind_counts_as_content() -> None:
    data = json.dumps({"thing": digest_of(CONTENT), "n": 1}).encode()
    sealed = _raw_event(data, kind="future.thing")
    assert blob_names(sealed) == [digest_of(CONTENT)]
    items: list[Item] = [*pack.ranges("s-1", [sealed]), Blob("s-1", digest_of(CONTENT), CONTENT)]
    assert read(written(items)) == items
    assert blob_names(Sealed(sealed.header, None, None)) == []


def _raw_event(data: bytes, *, kind: str = "note.added", **fields: Any) -> Sealed:
    salt = b"s" * 16
    facts: dict[str, Any] = {
        "v": 1,
        "id": "e1",
        "session": "s-1",
        "device": "device-a",
        "n": 1,
        "clock": 1,
        "at": 0,
        "actor": "cli",
        "kind": kind,
        "digest": ev.content_digest(salt, data),
        "prev": "",
        **fields,
    }
    return ev.seal(Header(**facts), salt, data)


def test_session_that_changes_during_packing_is_refused() -> None:
    runs = iter([sample(), sample()[:-1]])
    with pytest.raises(Busy, match="changed"):
        list(pack.write(lambda: next(runs), created=0, tool="t", what="export"))


def test_a_half_erased_event_is_not_packed_as_an_erased_one() -> None:
    good = history()[0]
    broken = [Range("s-1", "device-a", 1, "", [Sealed(good.header, None, good.data)])]
    with pytest.raises(Damaged, match="only partly erased"):
        written(broken)


def test_a_blob_beyond_the_limit_is_not_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack, "MAX_BLOB", 10)
    with pytest.raises(StoreFailed, match="too large"):
        written(sample())


@pytest.mark.parametrize("id", ["../x", "CON", "a/b", "", "x" * 65, "a b"])
def test_writer_refuses_what_a_reader_refuses(id: str) -> None:
    with pytest.raises(InvalidInput):
        written([Range(id, "device-a", 1, "", history())])
    with pytest.raises(InvalidInput):
        written([Range("s-1", id, 1, "", history())])


# --- bytes that must not change ---------------------------------------------------------------


def test_the_bytes_of_a_pack_are_pinned() -> None:
    # Compressed bytes depend on the zlib at hand; the body and all around it do not.
    data = GOLDEN.read_bytes()
    assert data.startswith(b"FORESTAY PACK 1\n")
    assert data[-32:] == hashlib.sha256(data[:-32]).digest()
    assert body_of(data) == body_of(written(sample()))
    assert hashlib.sha256(body_of(data)).hexdigest() == (
        "2ad3d82269864a9c82061b30e194b12b746b1c2efbc5c8e16c585e10be8100e1"
    )


def test_packs_of_the_first_version_can_be_read() -> None:
    assert read(GOLDEN.read_bytes()) == sample()


def test_the_body_is_laid_out_as_documented() -> None:
    item = pack.ranges("s-1", history())[0]
    body = body_of(written([item, *pack.ranges("s-2", history("s-2", [ARTIFACT]))]))
    kinds, at = [], 0
    while at < len(body):
        kind, length = struct.unpack_from(">cI", body, at)
        kinds.append((kind, body[at + 5 : at + 5 + length]))
        at += 5 + length
    assert b"".join(kind for kind, _ in kinds) == b"MCECEE"
    manifest, place, event = (payload for _, payload in kinds[:3])
    assert list(json.loads(manifest)) == ["created", "tool", "what", "sessions", "size"]
    assert json.loads(place) == {
        "session": "s-1",
        "device": "device-a",
        "first": 1,
        "last": 1,
        "before": "",
        "after": item.after,
        "format": 1,
    }
    sealed = item.events[0]
    assert event == struct.pack(">I", len(sealed.header)) + sealed.header + (
        (sealed.salt or b"") + (sealed.data or b"")
    )


# --- damage -----------------------------------------------------------------------------------


def refused(data: bytes, **how: Any) -> ForestayError:
    with pytest.raises((Damaged, InvalidInput, Outdated)) as caught:
        read(data, **how)
    assert caught.value.file == "some.fspack"
    assert "some.fspack" in caught.value.what and caught.value.why
    return caught.value


def test_every_flipped_bit_in_a_pack_is_noticed() -> None:
    data = GOLDEN.read_bytes()
    for at in range(len(data)):
        for bit in range(8):
            refused(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :])


def test_every_truncation_of_a_pack_is_noticed() -> None:
    data = GOLDEN.read_bytes()
    for end in range(len(data)):
        refused(data[:end])
        assert not pack.has_valid_checksum([data[:end]])


@given(st.randoms(use_true_random=False), st.integers(0, 10), st.data())
def test_damage_in_any_pack_is_noticed(random: Random, steps: int, drawn: st.DataObject) -> None:
    world = simulate(random, steps)
    items = pack.ranges(SESSION, [world.sealed[event.hash] for event in world.events])
    data = bytearray(written(items))
    at = drawn.draw(st.integers(0, len(data) - 1))
    data[at] ^= drawn.draw(st.integers(1, 255))
    refused(bytes(data))
    assert not pack.has_valid_checksum([bytes(data)])


@given(st.binary(max_size=200))
def test_random_bytes_are_never_accepted(data: bytes) -> None:
    refused(data)
    refused(pack.MAGIC + data)
    refused(forged(data))
    assert not pack.has_valid_checksum([data])


@pytest.mark.parametrize("more", [b"\n", b"\0" * 32, b"PK", GOLDEN.read_bytes()])
def test_bytes_after_the_end_of_a_pack_are_refused(more: bytes) -> None:
    assert "other bytes follow" in refused(GOLDEN.read_bytes() + more).why


def test_file_that_is_not_a_pack_is_reported() -> None:
    for data in (b"", b"PK\x03\x04", b"FORESTAY", b"SQLite format 3\0", b"FORESTAY PACKS\n\n"):
        error = refused(data)
        assert isinstance(error, InvalidInput | Damaged)
    assert isinstance(refused(b"SQLite format 3\0" * 9), InvalidInput)


@pytest.mark.parametrize("first", [b"FORESTAY PACK 2\n", b"FORESTAY PACK 10\n"])
def test_a_pack_of_a_newer_format_is_reported(first: bytes) -> None:
    assert isinstance(refused(first + GOLDEN.read_bytes()[16:]), Outdated)


# --- hostile packs: everything below has a right checksum -------------------------------------


def forged(body: bytes) -> bytes:
    data = pack.MAGIC + zlib.compress(body)
    return data + hashlib.sha256(data).digest()


def record(kind: bytes, payload: bytes) -> bytes:
    return struct.pack(">cI", kind, len(payload)) + payload


def with_manifest(
    records: bytes, sessions: object = (("s-1", 1),), size: int | None = None, **more: object
) -> bytes:
    manifest = {"created": 0, "tool": "t", "what": "export", "sessions": sessions, **more}
    manifest["size"] = len(records) if size is None else size
    return forged(record(b"M", json.dumps(manifest).encode()) + records)


def place(events: list[Sealed], **fields: Any) -> bytes:
    facts: dict[str, Any] = {"session": "s-1", "device": "device-a", "first": 1, "before": ""}
    facts |= {"last": len(events), "after": events[-1].hash, "format": 1, **fields}
    return record(b"C", json.dumps(facts).encode())


def packed(sealed: Sealed) -> bytes:
    content = (sealed.salt or b"") + (sealed.data or b"")
    return record(b"E", struct.pack(">I", len(sealed.header)) + sealed.header + content)


def blob(data: bytes, digest: str = "") -> bytes:
    return record(b"B", bytes.fromhex(digest or digest_of(data)) + data)


ONE = history()
KEPT = history(bodies=[ARTIFACT])
WITH_BLOB = place(KEPT) + b"".join(map(packed, KEPT))


def test_helper_that_forges_packs_can_also_write_valid_ones() -> None:
    assert read(with_manifest(place(ONE) + packed(ONE[0]))) == pack.ranges("s-1", ONE)
    assert len(read(with_manifest(WITH_BLOB + blob(CONTENT), [["s-1", 2]]))) == 2
    later = with_manifest(place(ONE, new=1) + packed(ONE[0]), [["s-1", 1]], recipients=["x"])
    assert read(later) == pack.ranges("s-1", ONE)


FORGERIES: dict[str, tuple[Callable[[], bytes], str]] = {
    "no manifest": (lambda: forged(place(ONE) + packed(ONE[0])), "in the wrong place"),
    "manifest is no JSON": (lambda: forged(record(b"M", b"{")), "manifest cannot be read"),
    "manifest is too deep": (lambda: forged(record(b"M", b"[" * 100_000)), "manifest"),
    "two manifests": (
        lambda: with_manifest(record(b"M", b"{}"), []),
        "in the wrong place",
    ),
    "unknown record": (lambda: with_manifest(record(b"X", b""), []), "in the wrong place"),
    "negative size": (lambda: with_manifest(b"", [], -1), "-1 bytes"),
    "size too small": (
        lambda: with_manifest(place(ONE) + packed(ONE[0]), size=70),
        "longer than the rest of the pack",
    ),
    "size too large": (
        lambda: with_manifest(place(ONE) + packed(ONE[0]), size=100_000),
        "ends too early",
    ),
    "bytes after the last record": (
        lambda: with_manifest(
            place(ONE) + packed(ONE[0]) + b"\0", size=len(place(ONE) + packed(ONE[0]))
        ),
        "does not end where",
    ),
    "record beyond the end": (
        lambda: with_manifest(struct.pack(">cI", b"C", 4000) + b"{}" * 40, []),
        "longer than the rest of the pack",
    ),
    "record beyond its limit": (
        lambda: with_manifest(struct.pack(">cI", b"C", 1 << 31), [], 1 << 30),
        "at most",
    ),
    "event without a range": (lambda: with_manifest(packed(ONE[0])), "in the wrong place"),
    "range without its events": (
        lambda: with_manifest(place(ONE) + bytes(300)),
        "in the wrong place",
    ),
    "absurd count of events": (
        lambda: with_manifest(place(ONE, last=1 << 40) + packed(ONE[0])),
        "cannot be in it",
    ),
    "absurd count in the manifest": (
        lambda: with_manifest(place(ONE) + packed(ONE[0]), [["s-1", 1 << 40]]),
        "more events than its size allows",
    ),
    "range backwards": (lambda: with_manifest(place(ONE, last=0) + packed(ONE[0])), "range"),
    "range that ends before it starts": (
        lambda: with_manifest(place(ONE, first=3, last=2, before="f" * 64) + packed(ONE[0])),
        "cannot be in it",
    ),
    "range number zero": (lambda: with_manifest(place(ONE, first=0) + packed(ONE[0])), "range"),
    "start with a past": (
        lambda: with_manifest(place(ONE, before="f" * 64) + packed(ONE[0])),
        "name its predecessor",
    ),
    "middle without a past": (
        lambda: with_manifest(place(ONE, first=2, last=2) + packed(ONE[0])),
        "name its predecessor",
    ),
    "other last hash": (
        lambda: with_manifest(place(ONE, after="f" * 64) + packed(ONE[0])),
        "does not end with the hash",
    ),
    "other session in the event": (
        lambda: with_manifest(place(ONE, session="s-2") + packed(ONE[0]), [["s-2", 1]]),
        "belongs to another session",
    ),
    "other device in the event": (
        lambda: with_manifest(place(ONE, device="device-b") + packed(ONE[0])),
        "belongs to another device",
    ),
    "other number in the event": (
        lambda: with_manifest(_lonely(_raw_event(b"{}", n=2))),
        "its number is 2",
    ),
    "event that follows another": (
        lambda: with_manifest(_lonely(_raw_event(b"{}", prev="f" * 64))),
        "does not follow",
    ),
    "events of two chains in one range": (
        lambda: with_manifest(
            place(KEPT) + packed(KEPT[0]) + packed(history(bodies=NOTES[:1], session="s-1x")[1]),
            [["s-1", 2]],
        ),
        "another session",
    ),
    "content of another event": (
        lambda: with_manifest(_lonely(Sealed(ONE[0].header, b"s" * 16, b"{}"))),
        "digest differs",
    ),
    "envelope of a newer version": (
        lambda: with_manifest(_lonely(_raw_event(b"{}", v=2))),
        "version 2",
    ),
    "event larger than events are": (
        lambda: with_manifest(_lonely(_raw_event(b'"' + b"x" * 20_000 + b'"'))),
        "at most 16384",
    ),
    "header beyond the record": (
        lambda: with_manifest(
            place(ONE) + record(b"E", struct.pack(">I", 1 << 31) + ONE[0].header)
        ),
        "cut short",
    ),
    "event of three bytes": (
        lambda: with_manifest(place(ONE) + record(b"E", b"abc") + bytes(99)),
        "cut short",
    ),
    "half a salt": (
        lambda: with_manifest(
            place(ONE) + record(b"E", struct.pack(">I", len(ONE[0].header)) + ONE[0].header + b"x")
        ),
        "cut short",
    ),
    "header that is no JSON": (
        lambda: with_manifest(place(ONE) + record(b"E", struct.pack(">I", 100) + b"\xff" * 100)),
        "header cannot be read",
    ),
    "the same range twice": (
        lambda: with_manifest((place(ONE) + packed(ONE[0])) * 2, [["s-1", 2]]),
        "in it twice",
    ),
    "a session that comes back": (
        lambda: with_manifest(_sessions("s-1", "s-2", "s-1"), [["s-1", 1], ["s-2", 1], ["s-1", 1]]),
        "in it twice",
    ),
    "a session in other letters": (
        lambda: with_manifest(_sessions("s-1", "S-1"), [["s-1", 1], ["S-1", 1]]),
        "in it twice",
    ),
    "sessions in another order": (
        lambda: with_manifest(_sessions("s-1", "s-2"), [["s-2", 1], ["s-1", 1]]),
        "not in the place that its manifest states",
    ),
    "fewer events than announced": (
        lambda: with_manifest(place(ONE) + packed(ONE[0]), [["s-1", 2]]),
        "not 2 as its manifest says",
    ),
    "a session less than announced": (
        lambda: with_manifest(_sessions("s-1"), [["s-1", 1], ["s-2", 1]]),
        "lacks a session",
    ),
    "blob that lies": (
        lambda: with_manifest(WITH_BLOB + blob(b"other", digest_of(CONTENT)), [["s-1", 2]]),
        "does not match its digest",
    ),
    "blob that no event names": (
        lambda: with_manifest(WITH_BLOB + blob(b"smuggled"), [["s-1", 2]]),
        "names the content",
    ),
    "blob of another session": (
        lambda: with_manifest(
            WITH_BLOB + _sessions("s-2") + blob(CONTENT), [["s-1", 2], ["s-2", 1]]
        ),
        "names the content",
    ),
    "blob before any session": (lambda: with_manifest(blob(CONTENT * 3), []), "names the content"),
    "blob twice": (
        lambda: with_manifest(WITH_BLOB + blob(CONTENT) * 2, [["s-1", 2]]),
        "in it twice",
    ),
    "range behind a blob": (
        lambda: with_manifest(
            WITH_BLOB + blob(CONTENT) + _lonely(_raw_event(b"{}", device="b"), device="b"),
            [["s-1", 3]],
        ),
        "after its content",
    ),
    "blob without a digest": (
        lambda: with_manifest(WITH_BLOB + record(b"B", b"short"), [["s-1", 2]]),
        "digest",
    ),
    "body in two streams": (lambda: _two_streams(), "does not end where|other bytes follow"),
}


def _lonely(sealed: Sealed, **fields: Any) -> bytes:
    return place([sealed], **fields) + packed(sealed)


def _sessions(*ids: str) -> bytes:
    chains = [(id, history(id)) for id in ids]
    return b"".join(place(chain, session=id) + packed(chain[0]) for id, chain in chains)


def _two_streams() -> bytes:
    whole = with_manifest(place(ONE) + packed(ONE[0]))
    data = whole[:-32] + zlib.compress(b"more")
    return data + hashlib.sha256(data).digest()


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_pack_is_refused(name: str) -> None:
    make, why = FORGERIES[name]
    data = make()
    assert pack.has_valid_checksum([data])
    with pytest.raises((Damaged, InvalidInput), match=why) as caught:
        read(data)
    assert caught.value.file == "some.fspack"


@pytest.mark.parametrize("id", ["../x", "..", "/etc/passwd", "CON", "a\0b", "x" * 300, "", "a\nb"])
def test_invalid_ids_in_a_pack_are_refused(id: str) -> None:
    sealed = _raw_event(b"{}", session=id)
    bad = with_manifest(place([sealed], session=id) + packed(sealed), [[id, 1]])
    assert isinstance(refused(bad), InvalidInput)
    sealed = _raw_event(b"{}", device=id)
    bad = with_manifest(place([sealed], device=id) + packed(sealed))
    assert isinstance(refused(bad), InvalidInput)


def test_range_of_a_newer_format_requires_a_newer_version() -> None:
    error = refused(with_manifest(place(ONE, format=2) + packed(ONE[0])))
    assert isinstance(error, Outdated)


def test_a_path_in_an_event_is_only_text() -> None:
    body = ev.ArtifactSaved(path="../../etc/passwd", digest=digest_of(CONTENT), size=1)
    items: list[Item] = [
        *pack.ranges("s-1", history(bodies=[body])),
        Blob("s-1", digest_of(CONTENT), CONTENT),
    ]
    assert read(written(items)) == items


# --- bombs ------------------------------------------------------------------------------------


def test_a_pack_that_declares_too_much_is_refused_at_once() -> None:
    error = refused(with_manifest(b"", [], 3 << 30))
    assert isinstance(error, InvalidInput) and "at most" in error.why
    assert read(with_manifest(b"", [], 0), limits=Limits(total=0)) == []
    refused(written(sample()), limits=Limits(total=100))


def test_a_pack_is_never_inflated_beyond_its_declared_size() -> None:
    data = bomb(record(b"M", b'{"created":0,"tool":"","what":"","sessions":[],"size":0}'), 64 << 20)
    peak = memory_of_refusing(data)
    assert len(data) > 60_000 and peak < 8_000_000


def test_a_manifest_that_never_ends_is_refused() -> None:
    assert memory_of_refusing(bomb(struct.pack(">cI", b"M", (1 << 32) - 1), 64 << 20)) < 8_000_000


def memory_of_refusing(data: bytes) -> int:
    tracemalloc.start()
    with pytest.raises((Damaged, InvalidInput)):
        list(Reader([data]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def bomb(start: bytes, zeros: int) -> bytes:
    squeeze = zlib.compressobj(9)
    parts = [pack.MAGIC, squeeze.compress(start)]
    parts += [squeeze.compress(bytes(1 << 20)) for _ in range(zeros >> 20)]
    data = b"".join([*parts, squeeze.flush()])
    return data + hashlib.sha256(data).digest()


def test_events_that_expand_too_much_are_refused() -> None:
    chain = history(bodies=[ev.NoteAdded(text="x" * 10_000)] * 200)
    data = written(pack.ranges("s-1", chain))
    # An honest chain, even of the emptiest words, stays far below the limit …
    assert len(body_of(data)) < 200 * len(data)
    assert len(read(data)) == 1
    # … and what goes beyond any given one is refused.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pack, "_SLACK", 0)
        error = refused(data, limits=Limits(ratio=10))
    assert "expands" in error.why


def test_content_that_compresses_well_is_accepted() -> None:
    dull = bytes(20 << 20)
    body = ev.ArtifactSaved(path="zeros", digest=digest_of(dull), size=len(dull))
    items: list[Item] = [
        *pack.ranges("s-1", history(bodies=[body])),
        Blob("s-1", digest_of(dull), dull),
    ]
    data = written(items)
    assert len(dull) > 500 * len(data)
    assert read(data) == items
