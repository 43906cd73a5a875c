"""Too large or too many objects are refused before they fill the memory."""

from __future__ import annotations

import os
import tracemalloc
from collections import Counter
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from forestay.errors import InvalidInput, RemoteFailed
from forestay.journal import pack
from forestay.journal.projections import as_sealed
from forestay.model import event as ev
from forestay.model.event import Sealed
from forestay.sync import pack_codec
from forestay.sync.crypto import key_text
from forestay.sync.plan import Stretch
from forestay.sync.pull import Content, Opened, PackReader
from forestay.sync.remotes import object_names
from forestay.sync.remotes.folder import FolderRemote
from forestay.sync.remotes.object_names import PackName
from tests.homes import Home
from tests.sync.people import World, synced
from tests.sync.travelling import Travellers, travel

HASH = "0" * 32


def bomb(tmp_path: Path, count: int, size: int) -> bytes:
    """A pack of one event of an unknown kind with much meaningless content."""
    home = Home(tmp_path / "bomber")
    home.start()
    with home.store.view("s-1") as view:
        first = as_sealed(next(iter(view.events())))
    home.store.close()
    contents = [bytes([n]) + b"\0" * (size - 1) for n in range(count)]
    blobs = [pack.Blob("s-1", sha256(data).hexdigest(), data) for data in contents]
    text = msgspec.json.encode({"x": [blob.digest for blob in blobs]})
    salt = b"s" * 16
    head = ev.parse_header(first.header)
    digest = sha256(salt + text).hexdigest()
    header = msgspec.json.encode(structs.replace(head, kind="zzz.new", digest=digest))
    row = pack.Range("s-1", head.device, 1, "", [Sealed(header, salt, text)])
    return packed(row, blobs)


def packed(row: pack.Range, blobs: list[pack.Blob]) -> bytes:
    made = pack_codec.make(row.session, Stretch.of(row), row.events, blobs)
    return made.finish(created=1, tool="x", what="sync")


def test_a_small_pack_that_unpacks_to_much_is_refused_in_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = bomb(tmp_path, 20, 1 << 20)
    assert len(data) < 1 << 18
    row, blobs = pack_codec.load(data)
    assert (len(row.hashes), len(blobs)) == (1, 20)
    monkeypatch.setattr(pack_codec, "MOST", 4 << 20)
    tracemalloc.start()
    with pytest.raises(InvalidInput, match="at most 4194304 are allowed"):
        pack_codec.load(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * (4 << 20)


def test_too_many_events_in_one_pack_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "home")
    home.start()
    for n in range(5):
        home.note(f"note {n}")
    (row,) = pack.ranges("s-1", home.events())
    home.store.close()
    data = packed(row, [])
    assert len(pack_codec.load(data)[0].hashes) == 6
    monkeypatch.setattr(pack_codec, "MOST_EVENTS", 5)
    with pytest.raises(InvalidInput, match="6 events; a pack can have at most 5"):
        pack_codec.load(data)


@pytest.mark.parametrize(
    ("name", "most"),
    [
        (f"c/{HASH}/{HASH}", 8 << 20),
        (f"s/{HASH}/w/{HASH}", 8 << 20),
        (f"s/{HASH}/k/000001-{HASH}", 32 << 20),
        (f"s/{HASH}/p/{HASH}/000000000001-000000000002-{HASH}", 96 << 20),
    ],
)
def test_too_large_object_is_not_read(tmp_path: Path, name: str, most: int) -> None:
    remote = FolderRemote(str(tmp_path / "r"))
    remote.put("forestay/format", object_names.MARK)
    path = tmp_path / "r" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
    os.truncate(path, most + 1)
    with pytest.raises(RemoteFailed, match="too large for an object of Forestay"):
        remote.get(name)


def test_listing_of_too_many_objects_is_an_error(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    stay = world.person("ann")
    stay.start("Add login", id="login").note("one")
    synced(stay)
    monkeypatch.setattr("forestay.sync.remotes.port.MOST_LISTED", 1)
    with pytest.raises(RemoteFailed, match="more than 1 objects") as caught:
        synced(stay)
    assert "remote add" in caught.value.hint


def test_a_large_session_travels_in_several_packs_and_arrives_whole(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stay = world.person("ann")
    session = stay.start("Add login", id="login")
    digests = []
    for n in range(3):
        path = tmp_path / f"large-{n}"
        path.write_bytes(os.urandom(1 << 20) * 3)
        saved = session.record.artifact(str(path)).body
        assert isinstance(saved, ev.ArtifactSaved)
        digests.append(saved.digest)
    assert synced(stay).sessions[0].packs_up == 3
    desk = world.device("desk", by=stay)
    monkeypatch.setattr("forestay.sync.pull.MEMORY", 1)
    monkeypatch.setattr("forestay.sync.pull.READY", 1)
    monkeypatch.setattr("forestay.sync.pull.MEMORY", 1)
    assert synced(desk).problems == []
    assert all(desk.context.store.blob(digest) is not None for digest in digests)


def test_pack_is_parsed_once_for_all_reported_heads_in_it(
    travellers: Travellers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a member could make others read a large pack any number of times."""
    a, b = travellers.make("a"), travellers.make("b")
    session = a.start("a plan", id="s-1")
    travel(a)
    for n in range(45):  # so many that those of one device are put together
        session.note(f"{n}")
        travel(a)
        travel(b)
        b.session("s-1").note(f"and {n}")
        travel(b)
        travel(a)
    reads, read = Counter[str](), PackReader._read

    def count(self: PackReader, name: PackName, data: bytes) -> tuple[Opened, Content]:
        reads[name.name] += 1
        return read(self, name, data)

    monkeypatch.setattr("forestay.sync.pull.READY", 1)
    monkeypatch.setattr(PackReader, "_read", count)
    assert travel(travellers.make("c")).problems == []
    assert len(reads) > 4 and max(reads.values()) <= 3, "to check, to inspect and to import it"


@pytest.mark.parametrize("sign", ["x", " "])
def test_recovery_code_that_is_far_too_long_is_refused(sign: str) -> None:
    with pytest.raises(InvalidInput, match="recovery code"):
        key_text.seed_of(sign * 1_000_000)
