"""Find out whether processes can share a database on a file system, without writing anything.

The type of the file system comes from the system's table of mounts: some types may be served by
another machine. Then a lock on the folder is tried.
"""

from __future__ import annotations

import errno
import os

# WAL needs memory shared by all processes that have the database open, so file systems that
# another kernel may serve are excluded, however well they lock.
_FOREIGN_TYPES = frozenset(
    "9p afs beegfs ceph cifs coda davfs drvfs fakeowner gfs2 glusterfs gpfs lustre ncpfs nfs "
    "ocfs2 orangefs prl_fs smbfs vboxsf vboxfs virtiofs vmhgfs".split()
)
_FOREIGN_PREFIXES = ("nfs", "smb")
# FUSE is often local (bindfs, encfs): only those known to leave the machine are excluded.
_FOREIGN_FUSE = frozenset(
    "sshfs rclone s3fs gcsfuse davfs2 juicefs glusterfs cephfs ceph-fuse vmhgfs-fuse grpcfuse "
    "osxfs curlftpfs goofys mount-s3 blobfuse blobfuse2 google-drive-ocamlfuse onedriver".split()
)


def shared_locks_ok(path: str, *, mounts: bytes | None = None) -> str | None:
    """Return why processes cannot share a database at `path`; None if they can.

    An unknown type of file system, or no table of mounts, counts as good if a lock on the folder
    works. `mounts` replaces the system's table.
    """
    real = os.path.realpath(path)
    if mounts is None:
        try:
            mounts = _mount_table()
        except OSError:
            mounts = b""
    kind = _type_of_mount(os.fsencode(real), mounts)
    if _is_foreign(kind):
        return f"{real} is on {kind}, which other machines may serve or share"
    return _try_lock(real)


def _mount_table() -> bytes:
    with open("/proc/self/mountinfo", "rb", buffering=0) as table:
        return table.read()


def _type_of_mount(real: bytes, mounts: bytes) -> str:
    """Return the type at the longest mount point above `real`; of equal ones the last counts."""
    best, kind = b"", b""
    for line in mounts.splitlines():
        left, _, right = line.partition(b" - ")
        fields = left.split(b" ")
        if len(fields) < 6 or not right:
            continue
        point = _unescaped(fields[4]).rstrip(b"/")
        if (real == point or real.startswith(point + b"/")) and len(point) >= len(best):
            best, kind = point, right.split(b" ")[0]
    return kind.decode("ascii", "replace")


def _unescaped(field: bytes) -> bytes:
    """Decode space, tab, newline and backslash, which mount points write in octal."""
    first, *rest = field.split(b"\\")
    return first + b"".join(bytes([int(part[:3], 8)]) + part[3:] for part in rest)


def _is_foreign(kind: str) -> bool:
    if kind.startswith("fuse."):
        return kind[5:] in _FOREIGN_FUSE
    return kind in _FOREIGN_TYPES or kind.startswith(_FOREIGN_PREFIXES)


def _try_lock(folder: str) -> str | None:
    import fcntl

    opened: list[int] = []
    try:
        for _ in range(2):
            opened.append(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            fcntl.flock(opened[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None  # refused because it is held, by us or another process: locks work
    except OSError as error:
        no_locks = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
        return f"{folder} has no file locks" if error.errno in no_locks else None
    finally:
        for fd in opened:
            os.close(fd)
    return f"file locks on {folder} do not exclude other processes"
