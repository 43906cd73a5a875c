"""Exchanges: staged meanwhile or when waited for, synced each, and nobody's bytes are lost."""

from __future__ import annotations

import errno
import os
import stat
from _thread import LockType, allocate_lock
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import exchange, meanwhile
from holdfast.errors import InvalidInput, StoreFailed


def test_a_backup_is_no_more_open_than_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"one")
    path.chmod(0o600)
    aside = exchange.stage(str(path), b"two", 0o644)
    assert exchange.swap(aside, str(path), backup=(f"{path}.bak", b"one"), mode=0o644)
    assert stat.S_IMODE((tmp_path / "x.bak").stat().st_mode) == 0o600


@pytest.mark.parametrize("threads", [0, 1])
def test_what_is_staged_meanwhile_is_staged_when_it_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    begun: list[object] = []
    real = meanwhile.begin
    synced: list[int] = []

    def begin(run: Callable[[], None]) -> LockType | None:
        begun.append(run)
        return real(run) if threads else None

    monkeypatch.setattr(exchange, "_QUICK", -1.0)
    monkeypatch.setattr(meanwhile, "begin", begin)
    monkeypatch.setattr(os, "fsync", synced.append)
    (aside,) = exchange.Staging([(str(tmp_path / "x"), b"one", "a" * 64)]).done()
    assert os.listdir(tmp_path) == [os.path.basename(str(aside))]
    assert len(begun) == 1 and len(synced) == 1


@pytest.mark.parametrize("threads", [0, 1])
def test_space_is_given_back_whether_or_not_a_thread_can_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    closed: list[int] = []
    later: list[Callable[[], None]] = []

    def begin(run: Callable[[], None]) -> LockType | None:
        later.append(run)
        return allocate_lock() if threads else None

    monkeypatch.setattr(exchange, "_QUICK", -1.0)
    monkeypatch.setattr(meanwhile, "begin", begin)
    monkeypatch.setattr(os, "close", closed.append)
    exchange.let_go([71, 72])
    assert closed == ([] if threads else [71, 72])
    for run in later if threads else []:
        run()
    assert closed == [71, 72]


def test_only_what_has_the_bytes_that_it_should_have_is_forgotten(tmp_path: Path) -> None:
    ours, theirs, longer = tmp_path / "ours", tmp_path / "theirs", tmp_path / "longer"
    ours.write_bytes(b"one")
    theirs.write_bytes(b"two")
    longer.write_bytes(b"one more")
    (tmp_path / "link").symlink_to(ours)
    for other in (theirs, longer, tmp_path / "link"):
        assert exchange.forget(str(other), b"one") is None
    held = exchange.forget(str(ours), b"one")
    assert held is not None and os.pread(held, 9, 0) == b"one"
    exchange.let_go([held])
    assert sorted(os.listdir(tmp_path)) == ["link", "longer", "theirs"]


def test_a_sync_that_fails_in_a_thread_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(fd: int) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(exchange, "_QUICK", -1.0)
    monkeypatch.setattr(os, "fsync", fail)
    (error,) = exchange.Staging([(str(tmp_path / "x"), b"one", "a" * 64)]).done()
    assert isinstance(error, StoreFailed) and os.listdir(tmp_path) == []
    with pytest.raises(StoreFailed):
        exchange.sync_all([str(tmp_path)])


@pytest.mark.parametrize("room", [0, 1 << 62])
def test_no_file_is_staged_early_that_could_take_the_last_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    monkeypatch.setattr(exchange, "_QUICK", -1.0)
    monkeypatch.setattr(exchange, "_ROOM", room)
    started: list[object] = []
    monkeypatch.setattr(meanwhile, "begin", started.append)
    staging = exchange.Staging([(str(tmp_path / "x"), b"one", "a" * 64)])
    assert os.listdir(tmp_path) == [] and bool(started) == (room == 0)
    assert [os.path.basename(str(aside)) for aside in staging.done()] == os.listdir(tmp_path)


def test_a_thread_that_could_not_go_on_is_stood_in_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(run: object) -> object:
        return allocate_lock()

    monkeypatch.setattr(exchange, "_QUICK", -1.0)
    monkeypatch.setattr(meanwhile, "begin", ended)
    (aside,) = exchange.Staging([(str(tmp_path / "x"), b"one", "a" * 64)]).done()
    assert os.listdir(tmp_path) == [os.path.basename(str(aside))]


@pytest.mark.parametrize("slow", [-1.0, 60.0])
def test_each_is_synced_and_each_failure_told_at_once_or_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: float
) -> None:
    synced: list[str] = []

    def sync(fd: int) -> None:
        name = os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))
        synced.append(name)
        if name == "b":
            raise OSError(errno.EIO, "broken")
        if name == "c":
            raise MemoryError

    names = ["a", "b", "d"] if slow > 0 else ["a", "b", "c", "d"]
    fds = [os.open(tmp_path / name, os.O_CREAT | os.O_WRONLY) for name in names]
    monkeypatch.setattr(exchange, "_SLOW", slow)
    monkeypatch.setattr(os, "fsync", sync)
    failed = dict(zip(names, exchange._synced(fds), strict=True))
    assert sorted(synced) == names
    assert [name for name in names if failed[name] is None] == ["a", "d"]
    for fd in fds:
        os.close(fd)
    assert exchange._synced([]) == []


def test_one_that_cannot_be_synced_keeps_no_other_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").symlink_to(tmp_path)
    (tmp_path / "c").touch()
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    with pytest.raises(InvalidInput, match="symbolic link"):
        exchange.sync_all(str(tmp_path / name) for name in ("a", "b", "c"))
    assert synced == [str(tmp_path / "c")]


# -- what was cut off --------------------------------------------------------------------------


def _cut_off_after_the_swap(path: Path, data: bytes, seen: bytes) -> Path:
    """What lies beside a file whose writer died between exchange and look."""
    return Path(exchange.one(str(path), data, seen=seen))


def test_what_was_seen_before_it_was_displaced_is_cleared_up(tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_bytes(b"old")
    aside = _cut_off_after_the_swap(path, b"new", seen=b"old")
    staged = exchange.stage(str(path), b"never")
    assert exchange.cut_off(str(tmp_path)) == [str(path)]
    assert exchange.clear_up(str(path)) == [] and path.read_bytes() == b"new"
    assert not aside.exists() and not Path(staged).exists()
    assert exchange.cut_off(str(tmp_path)) == []


def test_what_nobody_saw_is_never_cleared_up(tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_bytes(b"someone's edit")
    aside = _cut_off_after_the_swap(path, b"new", seen=b"old")
    assert exchange.clear_up(str(path)) == [str(aside)]
    assert aside.read_bytes() == b"someone's edit"
