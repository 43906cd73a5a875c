"""Exchanges of two files: each is synced, and no bytes of others are lost."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from forestay.base import swap_file
from forestay.errors import InvalidInput, StoreFailed


def test_backup_has_the_restrictive_mode_of_the_original_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"one")
    path.chmod(0o600)
    aside = swap_file.stage(str(path), b"two", 0o644)
    assert swap_file.swap(aside, str(path), backup=(f"{path}.bak", b"one"), mode=0o644)
    assert stat.S_IMODE((tmp_path / "x.bak").stat().st_mode) == 0o600


def test_displaced_file_is_removed_only_if_it_has_the_expected_bytes(tmp_path: Path) -> None:
    ours, theirs, longer = tmp_path / "ours", tmp_path / "theirs", tmp_path / "longer"
    ours.write_bytes(b"one")
    theirs.write_bytes(b"two")
    longer.write_bytes(b"one more")
    (tmp_path / "link").symlink_to(ours)
    for other in (theirs, longer, tmp_path / "link"):
        assert swap_file.remove_displaced(str(other), b"one") is None
    held = swap_file.remove_displaced(str(ours), b"one")
    assert held is not None and os.pread(held, 9, 0) == b"one"
    swap_file.free_removed([held])
    assert sorted(os.listdir(tmp_path)) == ["link", "longer", "theirs"]


def test_failed_sync_of_a_staged_file_is_reported_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(fd: int) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "fsync", fail)
    (error,) = swap_file.stage_all([(str(tmp_path / "x"), b"one", "a" * 64)])
    assert isinstance(error, StoreFailed) and os.listdir(tmp_path) == []
    with pytest.raises(StoreFailed):
        swap_file.sync_all([str(tmp_path)])


def test_each_staged_file_is_synced_and_has_its_own_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []

    def sync(fd: int) -> None:
        name = os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))[:2]
        synced.append(name)
        if name == ".b":
            raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "fsync", sync)
    new = [(str(tmp_path / name), b"one", "a" * 64) for name in "abc"]
    a, b, c = swap_file.stage_all(new)
    assert synced == [".a", ".b", ".c"] and isinstance(b, StoreFailed)
    assert sorted(os.listdir(tmp_path)) == sorted(os.path.basename(str(each)) for each in (a, c))


def test_file_that_cannot_be_synced_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").symlink_to(tmp_path)
    (tmp_path / "c").touch()
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    with pytest.raises(InvalidInput, match="symbolic link"):
        swap_file.sync_all(str(tmp_path / name) for name in ("a", "b", "c"))
    assert synced == [str(tmp_path / "c")]


# -- what was cut off --------------------------------------------------------------------------


def _cut_off_after_the_swap(path: Path, data: bytes, seen: bytes) -> Path:
    """Files next to one whose writer died after the exchange, before it compared the old bytes."""
    return Path(swap_file.exchange(str(path), data, seen=seen))


def test_displaced_file_with_the_bytes_seen_before_the_swap_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_bytes(b"old")
    aside = _cut_off_after_the_swap(path, b"new", seen=b"old")
    staged = swap_file.stage(str(path), b"never")
    assert swap_file.remove_leftovers(str(path)) == [] and path.read_bytes() == b"new"
    assert not aside.exists() and not Path(staged).exists()


def test_displaced_file_with_bytes_not_seen_before_the_swap_is_never_removed(
    tmp_path: Path,
) -> None:
    path = tmp_path / "file.yaml"
    path.write_bytes(b"someone's edit")
    aside = _cut_off_after_the_swap(path, b"new", seen=b"old")
    assert swap_file.remove_leftovers(str(path)) == [str(aside)]
    assert aside.read_bytes() == b"someone's edit"
