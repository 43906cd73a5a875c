"""A folder as a remote: what sync tools leave in it, and sticks and shares that are missing."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from forestay.base import files
from forestay.errors import InvalidInput, NotThere, RemoteFailed, Unreachable
from forestay.sync.remotes.cloud_folder import (
    COPY,
    OBJECT,
    PARTIAL,
    PLACEHOLDER,
    STRANGER,
    classify_file,
)
from forestay.sync.remotes.open import open_remote
from forestay.sync.remotes.port import FORMAT, Object, Oddity, Probe, Remote

NAME = "s/0a/p/1f/000000000001-000000000009-5e"
LAST = "000000000001-000000000009-5e"
FOLDER = NAME.removesuffix(LAST)

COPIES = [
    "{} (1)",
    "{} 2",
    "{} copy",
    "{} copy 3",
    "{} - Copy",
    "{} - Copy (2)",
    "Copy of {}",
    "{} (conflicted copy 2026-11-16)",
    "{} (Anna's conflicted copy 2026-11-16)",
    "{} (conflicted copy 2026-11-16 101530)",
    "{} (In Konflikt stehende Kopie von Anna 2026-11-16)",
    "{} (SFConflict anna@example.org 2026-11-16-10-15-30)",
    "{}.sync-conflict-20261116-101530-ABCDEF7",
    "{}.sync-conflict-20261116-101530",
    "{}_conflict-20261116-101530",
    "{}_DESKTOP-7A9_Nov-16-101530-2026_Conflict",
    "{}.conflict1",
    "{}.Conflict",
    "{}-DESKTOP-7A9",
    "{} (1) (2)",
]
PARTIALS = [
    "{}.part",
    "{}.tmp",
    "{}~",
    "~{}",
    "{}.crdownload",
    "{}.!sync",
    ".syncthing.{}.tmp",
    "~syncthing~{}.tmp",
    ".{}.0011aabb.forestay-tmp",
    "{}.partial",
]
STRANGERS = [".DS_Store", ".stfolder", "Thumbs.db", "desktop.ini", "README.md", ".{}.Xy12Zz", "Ü"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "remote"


@pytest.fixture
def remote(folder: Path) -> Remote:
    return open_remote(f"folder:{folder}")


def names(remote: Remote, prefix: str = "") -> list[str]:
    return [each.name for each in remote.list(prefix)]


# --- how objects are stored ---------------------------------------------------------------------


def test_objects_are_files_below_the_folder_and_private(remote: Remote, folder: Path) -> None:
    os.umask(0)
    remote.put(NAME, b"sealed")
    assert (folder / NAME).read_bytes() == b"sealed"
    assert [p.name for p in (folder / NAME).parent.iterdir()] == [LAST]
    assert {p.stat().st_mode & 0o777 for p in folder.rglob("*") if p.is_dir()} == {0o700}
    assert (folder / NAME).stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700


def test_file_and_folders_are_durable_when_put_returns(
    remote: Remote, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = files.sync_file

    def sync(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))
        real(fd)

    monkeypatch.setattr(files, "sync_file", sync)
    remote.put("s/0a/x", b"1")
    assert synced[0] == str(folder.parent)
    assert synced[1:3] == [str(folder), str(folder / "s")]
    assert synced[3].endswith(files.TEMPORARY) and synced[4:] == [str(folder / "s/0a")]
    synced.clear()
    remote.put("s/0a/y", b"1")
    assert len(synced) == 2


def test_object_that_cannot_be_synced_is_not_stored(
    remote: Remote, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote.put("s/1", b"")

    def fail(fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "sync_file", fail)
    with pytest.raises(RemoteFailed, match="no room left") as caught:
        remote.put("s/2", b"data")
    assert "df -h" in caught.value.hint
    assert [p.name for p in (folder / "s").iterdir()] == ["1"]


def test_stick_without_hard_links_stores_objects(
    remote: Remote, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    assert remote.put("s/1", b"first")
    assert not remote.put("s/1", b"second")
    assert remote.get("s/1") == b"first"
    assert [p.name for p in (folder / "s").iterdir()] == ["1"]
    assert remote.probe() == Probe(True, True)


def test_probe_creates_no_folder(remote: Remote, folder: Path) -> None:
    assert remote.probe() == Probe(True, True)
    assert not folder.exists()


def test_home_may_be_written_as_a_tilde() -> None:
    remote = open_remote("folder:~/stick")
    assert remote.address == f"folder:{os.environ['HOME']}/stick"


@pytest.mark.parametrize("address", ["folder:", "folder", "ftp://x/y", "", "folder:a\0b"])
def test_invalid_address_is_refused(address: str) -> None:
    with pytest.raises(InvalidInput):
        open_remote(address)


# --- what sync tools leave ----------------------------------------------------------------------


@pytest.mark.parametrize("spelling", COPIES)
def test_spelling_of_a_copy_is_recognised(spelling: str) -> None:
    for name in (LAST, "format", "5e.x"):
        assert classify_file(spelling.format(name)) == (COPY, name)


@pytest.mark.parametrize("spelling", ["{} (1).x", "{} 2.x", "{}.sync-conflict-20261116-101530-A.x"])
def test_copy_name_that_preserves_the_suffix_is_recognised(spelling: str) -> None:
    assert classify_file(spelling.format("5e")) == (COPY, "5e.x")


@pytest.mark.parametrize("spelling", PARTIALS)
def test_partial_file_is_no_object(spelling: str) -> None:
    assert classify_file(spelling.format(LAST)).kind == PARTIAL


@pytest.mark.parametrize("spelling", [".{}.icloud", "{}.nextcloud", "{}.owncloud"])
def test_placeholder_is_recognised(spelling: str) -> None:
    assert classify_file(spelling.format(LAST)) == (PLACEHOLDER, LAST)


def test_unrelated_files_and_objects_are_distinguished() -> None:
    assert {classify_file(name.format(LAST)).kind for name in STRANGERS} == {STRANGER}
    assert {classify_file(name).kind for name in (LAST, "format", "0a.b-c")} == {OBJECT}


@pytest.mark.parametrize("spelling", COPIES)
def test_copy_is_read_in_place_of_a_missing_object(
    remote: Remote, folder: Path, spelling: str
) -> None:
    remote.put(NAME, b"sealed")
    place = FOLDER + spelling.format(LAST)
    (folder / NAME).rename(folder / place)
    assert [*remote.list("s/0a/")] == [Object(NAME, 6)]
    assert remote.get(NAME) == b"sealed"
    assert remote.oddities() == [Oddity(place, "stand-in", NAME)]
    remote.delete(NAME)
    assert names(remote) == [] and remote.oddities() == []
    with pytest.raises(NotThere):
        remote.get(NAME)


def test_copy_next_to_its_object_is_compared_and_changes_nothing(
    remote: Remote, folder: Path
) -> None:
    remote.put(NAME, b"sealed")
    (folder / f"{NAME} (1)").write_bytes(b"sealed")
    (folder / f"{NAME} 2").write_bytes(b"another")
    assert [*remote.list("")] == [Object(NAME, 6)]
    assert remote.get(NAME) == b"sealed"
    assert remote.oddities() == [
        Oddity(f"{NAME} (1)", "copy", NAME),
        Oddity(f"{NAME} 2", "differs", NAME),
    ]


def test_duplicated_folder_is_searched(remote: Remote, folder: Path) -> None:
    remote.put(NAME, b"sealed")
    (folder / "s/0a").rename(folder / "s/0a (conflicted copy 2026-11-16)")
    remote.put(NAME[:-2] + "5f", b"later")
    assert names(remote, "s/0a/p/") == [NAME, NAME[:-2] + "5f"]
    assert remote.get(NAME) == b"sealed"
    assert [each.kind for each in remote.oddities()] == ["stand-in"]


def test_partial_files_and_strangers_are_not_listed(remote: Remote, folder: Path) -> None:
    remote.put(NAME, b"sealed")
    for spelling in PARTIALS + STRANGERS:
        (folder / (FOLDER + spelling.format("000000000010-000000000011-aa"))).write_bytes(b"half")
    assert names(remote) == [NAME]
    assert {each.kind for each in remote.oddities()} == {"partial"}
    assert len(remote.oddities()) == len(PARTIALS)


def test_placeholder_is_listed_and_the_user_is_asked_to_download_it(
    remote: Remote, folder: Path
) -> None:
    remote.put(NAME, b"sealed")
    (folder / NAME).unlink()
    (folder / f"{FOLDER}.{LAST}.icloud").write_bytes(b"bplist00")
    assert names(remote) == [NAME]
    with pytest.raises(Unreachable, match="has not downloaded") as caught:
        remote.get(NAME)
    assert "download" in caught.value.hint
    assert remote.oddities() == [Oddity(f"{FOLDER}.{LAST}.icloud", "placeholder", NAME)]


# --- links --------------------------------------------------------------------------------------


def test_links_are_not_followed(remote: Remote, folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"private")
    remote.put("s/1", b"1")
    (folder / "s/secret").symlink_to(outside / "secret")
    (folder / "t").symlink_to(outside)
    assert names(remote) == ["s/1"]
    assert remote.oddities() == [Oddity("s/secret", "link"), Oddity("t", "link")]
    for name in ("s/secret", "t/secret"):
        with pytest.raises(RemoteFailed):
            remote.get(name)
    with pytest.raises(RemoteFailed, match="where a folder should be"):
        remote.put("t/new", b"x")
    with pytest.raises(RemoteFailed, match="links are not followed"):
        remote.put("s/secret", b"x")
    remote.delete("s/secret")
    assert [p.name for p in outside.iterdir()] == ["secret"]
    assert (outside / "secret").read_bytes() == b"private"


def test_pipe_is_not_waited_for(remote: Remote, folder: Path) -> None:
    remote.put("s/1", b"1")
    os.mkfifo(folder / "s/2")
    assert names(remote) == ["s/1"]
    with pytest.raises(RemoteFailed):
        remote.get("s/2")


# --- sticks and shares --------------------------------------------------------------------------


def test_missing_stick_is_not_set_up_again(folder: Path) -> None:
    mount = folder.parent / "stick"
    mount.mkdir()
    remote = open_remote(f"folder:{mount}")
    remote.put(FORMAT, b"forestay remote 1\n")
    remote.put("s/1", b"1")
    mount.rename(folder.parent / "away")
    mount.mkdir()
    for known in (remote, open_remote(f"folder:{mount}", known=True)):
        for act in (lambda r: r.put("s/2", b""), lambda r: r.get("s/1"), lambda r: [*r.list("")]):
            with pytest.raises(Unreachable, match="is the stick plugged in") as caught:
                act(known)
            assert "plug in the stick" in caught.value.hint
            assert "emptied on purpose" in caught.value.hint
    assert [*mount.iterdir()] == []
    mount.rmdir()
    with pytest.raises(Unreachable, match="not available"):
        remote.put("s/2", b"")
    assert not mount.exists()
    (folder.parent / "away").rename(mount)
    assert remote.put("s/2", b"") and names(remote) == [FORMAT, "s/1", "s/2"]


def test_format_object_under_the_name_of_a_copy_is_recognised(remote: Remote, folder: Path) -> None:
    remote.put(FORMAT, b"forestay remote 1\n")
    (folder / FORMAT).rename(folder / f"{FORMAT} (1)")
    assert open_remote(f"folder:{folder}", known=True).get(FORMAT) == b"forestay remote 1\n"


def test_path_without_a_parent_folder_is_not_created(tmp_path: Path) -> None:
    remote = open_remote(f"folder:{tmp_path}/media/stick/forestay")
    for act in (lambda: remote.put("s/1", b""), lambda: [*remote.list("")], remote.probe):
        with pytest.raises(Unreachable) as caught:
            act()
        assert "mkdir" in caught.value.hint
    assert not (tmp_path / "media").exists()


def test_file_in_place_of_the_folder_is_reported(remote: Remote, folder: Path) -> None:
    folder.write_text("a file")
    for act in (lambda: remote.put("s/1", b""), lambda: [*remote.list("")], remote.probe):
        with pytest.raises(RemoteFailed, match="where a folder should be"):
            act()


def test_file_in_place_of_a_folder_below_is_reported(remote: Remote, folder: Path) -> None:
    folder.mkdir()
    (folder / "s").write_text("a file")
    with pytest.raises(RemoteFailed, match="where a folder should be"):
        remote.put("s/1", b"")
    (folder / "s").unlink()
    (folder / "s/1").mkdir(parents=True)
    with pytest.raises(RemoteFailed, match="where a file should be"):
        remote.put("s/1", b"")


@pytest.mark.parametrize(
    "code, kind, words",
    [
        (errno.ENOSPC, RemoteFailed, "no room left"),
        (errno.EDQUOT, RemoteFailed, "no room left"),
        (errno.EROFS, RemoteFailed, "read-only"),
        (errno.EACCES, RemoteFailed, "read-only"),
        (errno.EIO, Unreachable, "input/output error"),
        (errno.ENODEV, Unreachable, "no such device"),
        (errno.EBADF, RemoteFailed, "bad file descriptor"),
    ],
)
def test_system_error_has_a_class_and_a_reason_and_leaves_no_file(
    remote: Remote,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    kind: type[RemoteFailed],
    words: str,
) -> None:
    def fail(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    remote.put("s/1", b"1")
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail)
        with pytest.raises(kind, match=words) as caught:
            remote.put("s/2", b"data")
    assert type(caught.value) is kind and str(folder) in str(caught.value)
    assert [p.name for p in (folder / "s").iterdir()] == ["1"]
    assert names(remote) == ["s/1"]


def test_object_larger_than_any_of_ours_is_not_read(remote: Remote, folder: Path) -> None:
    remote.put("s/1", b"1")
    with open(folder / "s/1", "ab") as file:
        file.truncate(1 << 40)
    with pytest.raises(RemoteFailed, match="too large"):
        remote.get("s/1")
