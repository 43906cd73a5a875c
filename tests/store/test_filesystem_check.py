"""Which file systems are suitable for a home: found out without writing anything."""

from __future__ import annotations

import errno
import fcntl
from pathlib import Path

import pytest

from forestay.base import files
from forestay.store.sqlite import filesystem_check

MOUNTS = b"""\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
28 27 0:25 / /home rw,nosuid shared:5 - nfs4 server:/home rw
29 28 0:26 / /home/me/local rw - xfs /dev/vdb rw
30 27 0:27 / /mnt/with\\040space rw - 9p share rw
31 27 0:28 / /over rw - ext4 /dev/vdc rw
32 27 0:29 / /over rw - virtiofs share rw
33 27 0:30 / /ssh rw - fuse.sshfs host: rw
34 27 0:31 / /enc rw - fuse.encfs encfs rw
35 27 0:32 / /win rw master:1 propagate_from:2 - cifs //host/share rw
a line that is none
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", ""),
        ("/var/lib", ""),
        ("/home", "nfs4"),
        ("/home/me", "nfs4"),
        ("/homestead", ""),
        ("/home/me/local", ""),
        ("/home/me/local/share/forestay", ""),
        ("/home/me/locals", "nfs4"),
        ("/mnt/with space/x", "9p"),
        ("/over/x", "virtiofs"),
        ("/ssh/x", "fuse.sshfs"),
        ("/enc/x", ""),
        ("/win/x", "cifs"),
    ],
)
def test_home_on_a_file_system_of_another_machine_is_reported(path: str, kind: str) -> None:
    reason = filesystem_check.shared_locks_ok(path, mounts=MOUNTS)
    assert (reason is not None) == bool(kind)
    assert f" {kind}," in (reason or f" {kind},")


@pytest.mark.parametrize(
    "kind",
    "nfs nfs3 nfs4 cifs smb3 smbfs 9p virtiofs afs ceph vboxsf fuse.rclone fuse.s3fs".split(),
)
def test_every_file_system_type_that_another_machine_may_serve_is_reported(kind: str) -> None:
    line = f"27 1 254:0 / / rw - {kind} x rw".encode()
    assert filesystem_check.shared_locks_ok("/x", mounts=line)


def test_home_in_a_local_folder_is_accepted(tmp_path: Path) -> None:
    assert filesystem_check.shared_locks_ok(str(tmp_path)) is None
    assert filesystem_check.shared_locks_ok(str(tmp_path / "not" / "yet")) is None
    assert list(tmp_path.iterdir()) == []


def test_home_in_a_folder_locked_by_another_process_is_accepted(tmp_path: Path) -> None:
    with files.locked(str(tmp_path)):
        assert filesystem_check.shared_locks_ok(str(tmp_path)) is None


def test_folder_without_locks_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    def none(fd: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    assert "no file locks" in (filesystem_check.shared_locks_ok(str(tmp_path)) or "")


def test_locks_that_exclude_no_process_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    monkeypatch.setattr(fcntl, "flock", lambda fd, how: None)
    assert "do not exclude" in (filesystem_check.shared_locks_ok(str(tmp_path)) or "")


def test_without_a_mount_table_only_the_lock_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> bytes:
        raise FileNotFoundError

    monkeypatch.setattr(filesystem_check, "_mount_table", missing)
    assert filesystem_check.shared_locks_ok(str(tmp_path)) is None
