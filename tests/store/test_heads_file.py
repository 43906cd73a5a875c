"""Remembered heads: one slot per session, ignored if damaged, never an obstacle."""

from __future__ import annotations

import errno
import os
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forestay.store.port import Head
from forestay.store.sqlite.heads_file import LONGEST_ID, SIZE, RememberedHeads

IDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).filter(
    lambda text: len(text.encode()) <= LONGEST_ID
)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "heads")


def head(n: int, device: str = "d1") -> Head:
    return Head(device, n, sha256(str(n).encode()).hexdigest())


def seen(found: tuple[str, Head] | None) -> tuple[str, str, int, str] | None:
    return None if found is None else (found[0], found[1].device, found[1].n, found[1].hash)


def test_remembered_head_is_recalled_by_every_process(path: str) -> None:
    writing = RememberedHeads(path)
    writing.remember(1, "s1", head(3))
    writing.remember(40, "s40", head(2**53 - 1))
    for reading in (writing, RememberedHeads(path)):
        assert seen(reading.recall(1)) == ("s1", "d1", 3, head(3).hash)
        assert seen(reading.recall(40)) == ("s40", "d1", 2**53 - 1, head(2**53 - 1).hash)
        assert reading.recall(2) is reading.recall(0) is reading.recall(10**9) is None
        assert [(number, session) for number, session, _ in reading.all()] == [
            (1, "s1"),
            (40, "s40"),
        ]
    assert os.path.getsize(path) == 41 * SIZE


def test_reading_creates_no_file(path: str) -> None:
    heads = RememberedHeads(path)
    assert heads.recall(1) is None
    assert list(heads.all()) == []
    heads.close()
    assert not os.path.exists(path)


def test_forgotten_head_leaves_no_byte(path: str) -> None:
    heads = RememberedHeads(path)
    heads.remember(1, "secret-name", head(3))
    heads.remember(2, "s2", head(1))
    heads.forget(1)
    assert heads.recall(1) is None
    assert [session for _, session, _ in heads.all()] == ["s2"]
    assert b"secret" not in Path(path).read_bytes()


def test_a_head_remembered_by_another_process_is_recalled_at_once(path: str) -> None:
    mine, other = RememberedHeads(path), RememberedHeads(path)
    mine.remember(1, "s1", head(1))
    other.remember(1, "s1", head(2))
    found = mine.recall(1)
    assert found is not None and found[1].n == 2


@given(st.integers(1, 2**53 - 1), IDS, st.from_regex("[a-z0-9]{1,16}", fullmatch=True))
def test_any_head_is_read_back_from_its_slot(n: int, session: str, device: str) -> None:
    with TemporaryDirectory() as folder:
        heads = RememberedHeads(os.path.join(folder, "heads"))
        wanted = Head(device, n, sha256(session.encode()).hexdigest())
        heads.remember(3, session, wanted)
        heads.close()
        assert seen(heads.recall(3)) == (session, device, n, wanted.hash)


def test_slot_with_a_flipped_bit_is_ignored(path: str) -> None:
    heads = RememberedHeads(path)
    heads.remember(0, "s1", head(7))
    heads.close()
    whole = Path(path).read_bytes()
    for place in range(SIZE - 4):
        for bit in (1, 128):
            bent = bytearray(whole)
            bent[place] ^= bit
            Path(path).write_bytes(bent)
            assert heads.recall(0) is None, place
    for length in range(SIZE - 4):
        Path(path).write_bytes(whole[:length])
        assert heads.recall(0) is None
        assert list(heads.all()) == []


def test_garbage_in_the_heads_file_is_ignored(path: str) -> None:
    Path(path).write_bytes(os.urandom(50 * SIZE + 17))
    heads = RememberedHeads(path)
    assert list(heads.all()) == []
    assert all(heads.recall(number) is None for number in range(60))
    os.unlink(path)
    os.mkdir(path)
    assert list(heads.all()) == []
    assert heads.recall(1) is None
    heads.remember(1, "s1", head(1))


def test_failing_disk_does_not_stop_other_work(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    heads = RememberedHeads(path)
    heads.remember(1, "s1", head(1))

    def failing(*_: object) -> bytes:
        raise OSError(errno.EIO, "input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", failing)
        patched.setattr(os, "pread", failing)
        heads.remember(1, "s1", head(2))
        heads.forget(1)
        assert heads.recall(1) is None
    found = heads.recall(1)
    assert found is not None and found[1].n == 1


def test_slots_have_the_documented_offsets_and_layout(path: str) -> None:
    RememberedHeads(path).remember(2, "s1", Head("d1", 258, "ab" * 32))
    raw = Path(path).read_bytes()
    assert raw[: 2 * SIZE] == bytes(2 * SIZE)
    slot = raw[2 * SIZE :]
    assert slot[:80] == b"s1".ljust(64, b"\0") + b"d1".ljust(16, b"\0")
    assert slot[80:120] == (258).to_bytes(8, "little") + b"\xab" * 32
    assert slot[124:] == bytes(4)


def test_heads_file_can_be_closed_twice_and_used_again(path: str) -> None:
    heads = RememberedHeads(path)
    heads.remember(1, "s1", head(1))
    heads.close()
    heads.close()
    heads.remember(1, "s1", head(2))
    found = heads.recall(1)
    assert found is not None and found[1].n == 2


def test_impossible_chain_number_is_ignored(path: str) -> None:
    heads = RememberedHeads(path)
    heads.remember(1, "s1", head(3))
    heads.remember(2, "s2", head(2**63))
    assert heads.recall(1) is not None
    reading = RememberedHeads(path)
    assert reading.recall(2) is None
    assert [number for number, _, _ in reading.all()] == [1]
    heads.close()


def test_head_far_inside_a_sparse_heads_file_is_found(path: str) -> None:
    heads = RememberedHeads(path)
    heads.remember(1_000_000, "far", head(3))
    assert [(number, session) for number, session, _ in heads.all()] == [(1_000_000, "far")]
    heads.close()
