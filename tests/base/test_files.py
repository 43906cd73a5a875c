"""Durable writing, bounded reading, private folders: what holds when calls fail."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import resource
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forestay.base import files, swap_file
from forestay.base.clock import FakeClock
from forestay.errors import Busy, ForestayError, InvalidInput, ReadOnly, Refused, StoreFailed
from tests.conftest import NOBODY


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


class Calls:
    """Records the calls of os that change something; lets the n-th one fail."""

    NAMES = ("open", "fchmod", "write", "fsync", "close", "rename", "link", "unlink")

    def __init__(self, patch: pytest.MonkeyPatch, *, fail_at: int = -1, code: int = 0) -> None:
        self.log: list[str] = []
        self.fail_at, self.code = fail_at, code
        for name in self.NAMES:
            patch.setattr(os, name, self.wrapped(name, getattr(os, name)))

    def wrapped(self, name: str, real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            self.log.append(name)
            if len(self.log) - 1 == self.fail_at and name != "close":
                raise OSError(self.code, os.strerror(self.code))
            result = real(*args, **kwargs)
            if len(self.log) - 1 == self.fail_at:  # close reports an error and closes all the same
                raise OSError(self.code, os.strerror(self.code))
            return result

        return call


def calls_of(action: Callable[[], object]) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        calls = Calls(patch)
        action()
    return calls.log


# --- replace -----------------------------------------------------------------------------------


def test_replace_writes_all_bytes_with_the_mode_whatever_the_umask(tmp_path: Path) -> None:
    os.umask(0o777)
    path = tmp_path / "x"
    files.replace(str(path), b"one")
    assert (path.read_bytes(), mode(path)) == (b"one", 0o600)
    path.chmod(0o644)
    files.replace(str(path), b"two")
    assert (path.read_bytes(), mode(path)) == (b"two", 0o600)
    assert names(tmp_path) == ["x"]


@pytest.mark.parametrize("write", [files.replace, swap_file.exchange])
def test_replacing_a_shared_file_preserves_its_mode(
    tmp_path: Path, write: Callable[..., object]
) -> None:
    os.umask(0o027)
    path = tmp_path / "x"
    write(str(path), b"one", 0o644)
    assert mode(path) == 0o640
    for wanted in (0o600, 0o666):
        path.chmod(wanted)
        write(str(path), b"two", 0o644)
        assert mode(path) == wanted


def test_a_new_log_obeys_the_umask(tmp_path: Path) -> None:
    os.umask(0o077)
    files.append_lines(str(tmp_path / "log"), b"one", 0o644)
    assert mode(tmp_path / "log") == 0o600


def test_replace_syncs_the_file_then_renames_then_syncs_the_folder(tmp_path: Path) -> None:
    log = calls_of(lambda: files.replace(str(tmp_path / "x"), b"data"))
    assert log == "open fchmod write fsync close rename open fsync close".split()


def test_replace_continues_after_short_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, bytes(data[:3])))
    files.replace(str(tmp_path / "x"), b"0123456789")
    assert (tmp_path / "x").read_bytes() == b"0123456789"


def test_chunks_are_written_as_one_file_or_not_at_all(tmp_path: Path) -> None:
    def pieces(*, fail: bool) -> Iterator[bytes]:
        yield b"one "
        if fail:
            raise ValueError("the source failed")
        yield b"two"

    files.replace(str(tmp_path / "x"), pieces(fail=False))
    files.create(str(tmp_path / "y"), pieces(fail=False))
    for write in (files.replace, files.create):
        with pytest.raises(ValueError, match="the source failed"):
            write(str(tmp_path / "x"), pieces(fail=True))
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"one two"] * 2


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("fail_at", range(9))
def test_replace_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, fail_at: int, code: int
) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with pytest.MonkeyPatch.context() as patch:
        calls = Calls(patch, fail_at=fail_at, code=code)
        with pytest.raises(StoreFailed) as caught:
            files.replace(str(path), b"new")
    renamed = "rename" in calls.log[:fail_at]
    assert path.read_bytes() == (b"new" if renamed else b"old")
    assert names(tmp_path) == ["x"]
    assert caught.value.file == str(path) and caught.value.hint


def test_interrupted_replace_leaves_no_temporary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(fd: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        files.replace(str(tmp_path / "x"), b"new")
    assert names(tmp_path) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "full")], ids=repr)
@pytest.mark.parametrize("fail_at", range(1, 4))
def test_create_all_creates_all_files_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fail_at: int, error: BaseException
) -> None:
    (tmp_path / "there").mkdir()
    made, link = {"a": b"1", "sub/b": b"2", "sub/deep/c": b"3"}, os.link
    calls = itertools.count(1)

    def fail(old: str, new: str) -> None:
        if next(calls) == fail_at:
            raise error
        link(old, new)

    monkeypatch.setattr(os, "link", fail)
    for out in ("there", "new/folder"):
        with pytest.raises((KeyboardInterrupt, StoreFailed)):
            files.create_all(str(tmp_path / out), made)
        assert names(tmp_path) == ["there"] and names(tmp_path / "there") == []
        calls = itertools.count(1)


def test_replace_refuses_a_symbolic_link_and_leaves_its_target(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(InvalidInput, match="symbolic link"):
        files.replace(str(tmp_path / "link"), b"new")
    assert (tmp_path / "real").read_bytes() == b"old"
    assert names(tmp_path) == ["link", "real"]


def test_replace_refuses_what_is_not_a_regular_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    for name in ("folder", "fifo"):
        with pytest.raises(InvalidInput, match="not a regular file"):
            files.replace(str(tmp_path / name), b"x")
    assert names(tmp_path) == ["fifo", "folder"]


def test_replace_works_for_the_longest_name(tmp_path: Path) -> None:
    path = tmp_path / ("ü" * 127)
    files.replace(str(path), b"x")
    assert path.read_bytes() == b"x"
    with pytest.raises(InvalidInput, match="too long"):
        files.replace(str(tmp_path / ("n" * 256)), b"x")


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_impossible_path_is_refused(tmp_path: Path, name: str) -> None:
    path = str(tmp_path) + "/" + name
    for action in (
        lambda: files.replace(path, b""),
        lambda: files.create(path, b""),
        lambda: files.append_lines(path, b""),
        lambda: files.read_bounded(path, 9),
        lambda: files.make_private_dir(path),
        lambda: files.quarantine(path, str(tmp_path)),
    ):
        with pytest.raises(InvalidInput, match="not a path"):
            action()


def test_replace_in_a_folder_that_is_gone_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="nowhere/x"):
        files.replace(str(tmp_path / "nowhere" / "x"), b"")


@pytest.mark.parametrize("is_there", [True, False])
def test_replace_in_a_read_only_folder_is_read_only_and_names_the_folder(
    plain_user: Path, is_there: bool
) -> None:
    folder = plain_user / "its folder"
    folder.mkdir()
    if is_there:
        (folder / "x").touch()
    folder.chmod(0o500)
    with pytest.raises(ReadOnly) as caught:
        files.replace(str(folder / "x"), b"")
    assert caught.value.hint.endswith(f"ls -ld '{folder}'")


def test_error_for_a_file_in_a_closed_folder_names_the_folder(plain_user: Path) -> None:
    folder = plain_user / "a"
    (folder / "b").mkdir(parents=True)
    folder.chmod(0)
    with pytest.raises(StoreFailed) as caught:
        files.read_bounded(str(folder / "b" / "x"), 100)
    assert caught.value.hint.endswith(f"ls -ld {folder}") and caught.value.file.endswith("b/x")


def test_relative_names_are_written_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files.replace("x", b"1")
    files.create("y", b"2")
    files.append_lines("z", b"3")
    assert names(tmp_path) == ["x", "y", "z"]


def test_file_larger_than_the_limit_of_the_process_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(StoreFailed, match="too large"):
            files.replace(str(path), b"x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["x"]


def test_readers_never_see_a_mixture_while_writers_replace(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"a" * 50_000)
    stop = threading.Event()

    def write(sign: bytes) -> None:
        while not stop.is_set():
            files.replace(str(path), sign * 50_000)

    writers = [threading.Thread(target=write, args=(sign,)) for sign in (b"a", b"b")]
    for writer in writers:
        writer.start()
    seen = {files.read_bounded(str(path), 50_000) for _ in range(200)}
    stop.set()
    for writer in writers:
        writer.join()
    assert seen <= {b"a" * 50_000, b"b" * 50_000}
    assert names(tmp_path) == ["x"]


# --- create ------------------------------------------------------------------------------------


def test_create_makes_a_whole_private_file(tmp_path: Path) -> None:
    os.umask(0)
    files.create(str(tmp_path / "x"), b"data")
    assert ((tmp_path / "x").read_bytes(), mode(tmp_path / "x")) == (b"data", 0o600)
    assert names(tmp_path) == ["x"]


@pytest.mark.parametrize("links", [True, False], ids=["with links", "without links"])
def test_create_refuses_an_existing_name_and_does_not_change_it(
    tmp_path: Path, links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not links:
        without_links(monkeypatch)
    (tmp_path / "x").write_bytes(b"old")
    (tmp_path / "dangling").symlink_to("nowhere")
    for name in ("x", "dangling"):
        with pytest.raises(InvalidInput, match="already exists"):
            files.create(str(tmp_path / name), b"new")
    assert (tmp_path / "x").read_bytes() == b"old"
    assert names(tmp_path) == ["dangling", "x"]


def test_create_works_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_links(monkeypatch)
    files.create(str(tmp_path / "x"), b"data")
    assert (tmp_path / "x").read_bytes() == b"data"
    assert names(tmp_path) == ["x"]


@pytest.mark.parametrize("fail_at", range(6))
def test_create_that_fails_leaves_nothing(tmp_path: Path, fail_at: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        Calls(patch, fail_at=fail_at, code=errno.EIO)
        with pytest.raises(StoreFailed):
            files.create(str(tmp_path / "x"), b"new")
    assert names(tmp_path) == []


@pytest.mark.parametrize("fail_at", [7, 8, 9])
def test_create_fails_if_the_name_cannot_be_synced(tmp_path: Path, fail_at: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        Calls(patch, fail_at=fail_at, code=errno.EIO)
        with pytest.raises(StoreFailed):
            files.create(str(tmp_path / "x"), b"new")
    assert names(tmp_path) == ["x"]


def test_exactly_one_of_many_concurrent_creators_succeeds(tmp_path: Path) -> None:
    won: list[int] = []

    def create(number: int) -> None:
        try:
            files.create(str(tmp_path / "x"), b"%d" % number)
            won.append(number)
        except InvalidInput:
            pass

    threads = [threading.Thread(target=create, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [b"%d" % number for number in won] == [(tmp_path / "x").read_bytes()]


def without_links(patch: pytest.MonkeyPatch) -> None:
    def link(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "no hard links here")

    patch.setattr(os, "link", link)


# --- append_lines ------------------------------------------------------------------------------


def test_appended_lines_end_with_one_newline(tmp_path: Path) -> None:
    os.umask(0)
    path = tmp_path / "log"
    files.append_lines(str(path), b"one")
    files.append_lines(str(path), b"two\n")
    assert (path.read_bytes(), mode(path)) == (b"one\ntwo\n", 0o600)


def test_append_syncs_and_a_new_name_is_synced_too(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    first = calls_of(lambda: files.append_lines(path, b"one"))
    second = calls_of(lambda: files.append_lines(path, b"two"))
    assert first == "open fchmod write fsync close open fsync close".split()
    assert second == "open open write fsync close".split()


def test_append_terminates_a_torn_line_first(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"whole\nto")
    files.append_lines(str(path), b"next")
    assert path.read_bytes() == b"whole\nto\nnext\n"


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_append_once_does_not_repeat_an_existing_line(tmp_path: Path, end: bytes) -> None:
    path = tmp_path / "exclude"
    path.write_bytes(b"one" + end + b"two" + end)
    for line in (b"two", b"tw", b"three", b"three"):
        files.append_once(str(path), line, header=b"# title")
    assert path.read_bytes() == b"one" + end + b"two" + end + b"tw\nthree\n"


@pytest.mark.parametrize(("first", "made"), [(b"", b"line\n"), (b"# title", b"# title\nline\n")])
def test_append_once_begins_a_new_file_with_the_header(
    tmp_path: Path, first: bytes, made: bytes
) -> None:
    files.append_once(str(tmp_path / "log"), b"line", header=first)
    assert (tmp_path / "log").read_bytes() == made


def test_append_that_writes_only_a_part_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, bytes(data[:2])))
    with pytest.raises(StoreFailed, match="part of the line"):
        files.append_lines(str(tmp_path / "log"), b"line")


def test_append_whose_sync_fails_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StoreFailed, match="input/output"):
        files.append_lines(str(tmp_path / "log"), b"line")


def test_append_refuses_links_and_fifos(tmp_path: Path) -> None:
    (tmp_path / "real").touch()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dangling").symlink_to("nowhere")
    os.mkfifo(tmp_path / "fifo")
    for name in ("link", "dangling", "fifo"):
        with pytest.raises(InvalidInput):
            files.append_lines(str(tmp_path / name), b"line")
    assert names(tmp_path) == ["dangling", "fifo", "link", "real"]
    assert (tmp_path / "real").read_bytes() == b""


def test_lines_of_many_processes_never_mix(tmp_path: Path) -> None:
    path = tmp_path / "log"
    program = (
        "import sys; from forestay.base import files\n"
        "for i in range(50): files.append_lines(sys.argv[1], sys.argv[2].encode() * 200)"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", program, str(path), sign]) for sign in "abcd"
    ]
    assert [writer.wait() for writer in writers] == [0] * 4
    lines = path.read_bytes().split(b"\n")
    assert sorted(lines) == sorted(
        [b"", *(s * 200 for s in (b"a", b"b", b"c", b"d") for _ in range(50))]
    )


def test_line_being_written_is_not_treated_as_torn(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("ab", buffering=0) as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        other.write(b"half of")
        append = threading.Thread(target=files.append_lines, args=(str(path), b"next"))
        append.start()
        append.join(0.1)
        other.write(b" a line\n")
    append.join()
    assert path.read_bytes() == b"half of a line\nnext\n"


# --- private folders ---------------------------------------------------------------------------


@pytest.mark.parametrize("umask", [0, 0o022, 0o077, 0o777])
def test_private_folder_and_its_new_parents_are_0700(tmp_path: Path, umask: int) -> None:
    os.umask(umask)
    assert files.make_private_dir(str(tmp_path / "a" / "b")) is True
    assert [mode(tmp_path / "a"), mode(tmp_path / "a" / "b")] == [0o700, 0o700]
    assert files.make_private_dir(str(tmp_path / "a" / "b")) is False


def test_names_of_new_folders_are_synced_from_the_top(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    files.make_private_dir(str(tmp_path / "a" / "b"))
    assert synced == [str(tmp_path), str(tmp_path / "a")]


def test_name_of_an_empty_folder_is_synced_again_but_not_of_a_used_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    (tmp_path / "home").mkdir(mode=0o700)
    files.make_private_dir(str(tmp_path / "home"))
    assert len(synced) == 1
    (tmp_path / "home" / "db").touch()
    files.make_private_dir(str(tmp_path / "home"))
    assert len(synced) == 1


def test_folder_whose_sync_fails_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StoreFailed):
        files.make_private_dir(str(tmp_path / "home"))


def test_file_system_without_folder_sync_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(fd: int) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fsync", unsupported)
    assert files.make_private_dir(str(tmp_path / "home"))


@pytest.mark.parametrize("bits", [0o770, 0o707, 0o777, 0o720, 0o702])
def test_folder_others_may_write_to_is_refused_and_not_changed(tmp_path: Path, bits: int) -> None:
    home = tmp_path / "my home"
    home.mkdir()
    home.chmod(bits)
    with pytest.raises(Refused) as caught:
        files.make_private_dir(str(home))
    assert caught.value.hint == f"chmod 700 '{home}'"
    assert mode(home) == bits


def test_folder_others_may_only_read_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o755)
    files.make_private_dir(str(tmp_path / "home"))
    assert mode(tmp_path / "home") == 0o755


def test_folder_of_another_user_is_refused(plain_user: Path) -> None:
    with pytest.raises(Refused, match="another user") as caught:
        files.make_private_dir("/usr")
    assert "FORESTAY_HOME" in caught.value.hint


def test_private_folder_where_a_file_is_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "home"):
        with pytest.raises(InvalidInput) as caught:
            files.make_private_dir(str(path))
        assert caught.value.hint


def test_private_folder_through_a_link_is_the_folder_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("real")
    assert files.make_private_dir(str(tmp_path / "link")) is False
    assert files.make_private_dir(str(tmp_path / "link" / "home")) is True
    assert mode(tmp_path / "real" / "home") == 0o700


def test_private_folder_in_a_read_only_place_is_read_only(plain_user: Path) -> None:
    plain_user.chmod(0o500)
    with pytest.raises(ReadOnly):
        files.make_private_dir(str(plain_user / "home"))


# --- locks -------------------------------------------------------------------------------------


def test_locked_folder_excludes_others_until_released(tmp_path: Path) -> None:
    clock = FakeClock()
    with files.locked(str(tmp_path)):
        with pytest.raises(Busy) as caught, files.locked(str(tmp_path), timeout=3, clock=clock):
            pass
    assert caught.value.retryable
    assert 3 <= clock.monotonic() < 4
    with files.locked(str(tmp_path)):
        pass
    assert names(tmp_path) == []


@pytest.mark.parametrize("umask", [0, 0o777])
def test_private_lock_is_for_its_user_alone_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    os.umask(umask)
    lock = tmp_path / "lock"
    with files.locked(str(lock), private=True):
        assert mode(lock) == 0o600
    lock.chmod(0o644)
    with files.locked(str(lock), private=True):
        assert mode(lock) == 0o600


def test_waiting_for_a_lock_tries_often(tmp_path: Path) -> None:
    rests: list[float] = []

    class Counting(FakeClock):
        def sleep(self, seconds: float) -> None:
            rests.append(seconds)
            super().sleep(seconds)

    clock = Counting()
    with files.locked(str(tmp_path)), pytest.raises(Busy):
        files.locked(str(tmp_path), timeout=3, clock=clock).__enter__()
    assert max(rests) < 0.1


def test_lock_is_free_after_release_although_a_forked_child_inherited_it(tmp_path: Path) -> None:
    lock = files.locked(str(tmp_path))
    with lock:
        inherited = os.dup(lock._fd)
    try:
        with files.locked(str(tmp_path), timeout=0):
            pass
    finally:
        os.close(inherited)


def test_lock_is_free_after_an_interrupt_of_its_holder(tmp_path: Path) -> None:
    files.locked(str(tmp_path)).__enter__()
    with files.locked(str(tmp_path), timeout=0):
        pass


def test_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    program = (
        "import sys, time; from forestay.base import files\n"
        "with files.locked(sys.argv[1]): print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        with pytest.raises(Busy), files.locked(str(tmp_path), timeout=0):
            pass
        holder.kill()
    with files.locked(str(tmp_path), timeout=0):
        pass


def test_lock_on_something_else_than_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput), files.locked(str(tmp_path / "nowhere")):
        pass


# --- reading -----------------------------------------------------------------------------------


def test_file_that_is_too_large_is_not_read_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "huge"
    path.touch()
    os.truncate(path, 1 << 40)
    monkeypatch.setattr(files, "read_up_to", None)
    with pytest.raises(InvalidInput, match="too large"):
        files.read_bounded(str(path), 256 << 20)


def test_reading_stops_at_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"12345")
    assert files.read_bounded(str(path), 5) == b"12345"
    with pytest.raises(InvalidInput, match="over 4 bytes"):
        files.read_bounded(str(path), 4)


def test_file_that_claims_no_size_is_still_bounded() -> None:
    with pytest.raises(InvalidInput, match="too large"):
        files.read_bounded("/proc/self/mountinfo", 10)


@pytest.mark.parametrize("kind", ["fifo", "folder", "device", "socket"])
def test_only_regular_files_are_read_and_nothing_hangs(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path = Path("/dev/zero")
    else:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    with pytest.raises(ForestayError):
        files.read_bounded(str(path), 100)
    assert files.read_text(str(path)) is None


def test_links_are_followed_unless_asked_otherwise(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"data")
    (tmp_path / "link").symlink_to("real")
    assert files.read_bounded(str(tmp_path / "link"), 10) == b"data"
    with pytest.raises(InvalidInput, match="symbolic link"):
        files.read_bounded(str(tmp_path / "link"), 10, follow=False)


def test_missing_file_is_an_error_or_none_as_asked(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "x", tmp_path / "file" / "x"):
        with pytest.raises(InvalidInput):
            files.read_bounded(str(path), 10)
        assert files.read_optional(str(path), 10) is None
        assert files.read_text(str(path)) is None


def test_optional_file_that_is_too_large_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"12345")
    with pytest.raises(InvalidInput):
        files.read_optional(str(tmp_path / "x"), 4)
    assert files.read_text(str(tmp_path / "x"), 4) is None


def test_text_read_from_a_file_is_stripped_and_never_fails_to_decode(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b" a\xff\n")
    assert files.read_text(str(tmp_path / "x")) == "a\N{REPLACEMENT CHARACTER}"


def test_unreadable_file_is_not_called_read_only(plain_user: Path) -> None:
    path = plain_user / "x"
    path.write_bytes(b"secret")
    path.chmod(0)
    with pytest.raises(StoreFailed) as caught:
        files.read_bounded(str(path), 100)
    assert "ls -ld" in caught.value.hint


def test_private_reading_refuses_a_file_that_other_users_can_write(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"data")
    path.chmod(0o666)
    tmp_path.chmod(0o755)
    with pytest.raises(Refused, match="other users of this computer can write"):
        files.read_bounded(str(path), 10, private=True)
    path.chmod(0o644)
    assert files.read_bounded(str(path), 10, private=True) == b"data"


def test_private_reading_accepts_a_shared_mode_in_a_closed_folder(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"data")
    path.chmod(0o664)
    tmp_path.chmod(0o700)
    assert files.read_bounded(str(path), 10, private=True) == b"data"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_private_reading_refuses_a_file_of_another_user(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"data")
    os.chown(path, NOBODY, NOBODY)
    with pytest.raises(Refused):
        files.read_bounded(str(path), 10, private=True)


def test_chunks_read_from_a_file_make_up_the_whole_file(tmp_path: Path) -> None:
    data = os.urandom(2_500_000)
    (tmp_path / "x").write_bytes(data)
    chunks = list(files.read_chunks(str(tmp_path / "x")))
    assert b"".join(chunks) == data and len(chunks) == 3
    with pytest.raises(InvalidInput):
        list(files.read_chunks(str(tmp_path)))


# --- quarantine --------------------------------------------------------------------------------


@pytest.fixture
def other_file_system(tmp_path: Path) -> Iterator[Path]:
    for place in (tempfile.gettempdir(), "/dev/shm"):
        if os.path.isdir(place) and os.stat(place).st_dev != tmp_path.stat().st_dev:
            with tempfile.TemporaryDirectory(dir=place) as folder:
                yield Path(folder)
                return
    pytest.skip("needs a second file system")


def test_quarantine_preserves_every_byte_and_frees_the_name(tmp_path: Path) -> None:
    kept = []
    for data in (b"one", b"two"):
        (tmp_path / "x").write_bytes(data)
        kept.append(Path(files.quarantine(str(tmp_path / "x"), str(tmp_path / "bad"))))
    assert [path.read_bytes() for path in kept] == [b"one", b"two"]
    assert all(path.name.startswith("x.") for path in kept)
    assert names(tmp_path) == ["bad"] and mode(tmp_path / "bad") == 0o700


def test_quarantine_can_move_to_another_file_system(
    tmp_path: Path, other_file_system: Path
) -> None:
    (tmp_path / "x").write_bytes(b"data" * 1_000_000)
    kept = Path(files.quarantine(str(tmp_path / "x"), str(other_file_system / "bad")))
    assert kept.read_bytes() == b"data" * 1_000_000 and mode(kept) == 0o600
    assert names(tmp_path) == []
    assert names(kept.parent) == [kept.name]


def test_quarantine_removes_the_original_only_when_the_copy_is_certain(
    tmp_path: Path, other_file_system: Path
) -> None:
    (tmp_path / "x").write_bytes(b"data")
    bad = other_file_system / "bad"
    bad.mkdir(mode=0o700)
    (bad / "used").touch()
    log = calls_of(lambda: files.quarantine(str(tmp_path / "x"), str(bad)))
    certain = "fsync close rename open fsync close unlink".split()
    assert log[log.index("fsync") : log.index("unlink") + 1] == certain


@pytest.mark.parametrize("taken", [False, True], ids=["name free", "name taken meanwhile"])
def test_quarantine_that_fails_halfway_loses_nothing(
    tmp_path: Path, other_file_system: Path, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"data")
    bad = other_file_system / "bad"
    bad.mkdir(mode=0o700)
    (bad / "used").touch()

    def full(fd: int) -> None:
        if taken:
            path.write_bytes(b"newer")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreFailed):
        files.quarantine(str(path), str(bad))
    contents = {child.read_bytes() for child in tmp_path.iterdir()}
    assert contents == ({b"data", b"newer"} if taken else {b"data"})
    assert path.read_bytes() == (b"newer" if taken else b"data")
    assert names(bad) == ["used"]


def test_quarantine_of_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        files.quarantine(str(tmp_path / "x"), str(tmp_path / "bad"))


# --- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (errno.EROFS, ReadOnly),
        (errno.EACCES, ReadOnly),
        (errno.EPERM, ReadOnly),
        (errno.ENOSPC, StoreFailed),
        (errno.EDQUOT, StoreFailed),
        (errno.EIO, StoreFailed),
        (errno.EMFILE, StoreFailed),
        (errno.ELOOP, InvalidInput),
        (errno.ENOTDIR, InvalidInput),
        (errno.ENAMETOOLONG, InvalidInput),
    ],
)
def test_each_system_error_has_its_meaning_file_and_hint(
    code: int, kind: type[ForestayError]
) -> None:
    error = files.failure(OSError(code, os.strerror(code)), "write", "/some/file")
    assert type(error) is kind
    assert error.file == "/some/file" and "/some/file" in error.what
    assert error.why and error.hint


@given(st.integers(0, 200))
def test_every_system_error_is_translated(code: int) -> None:
    error = files.failure(OSError(code, os.strerror(code)), "write", "x")
    assert isinstance(error, ForestayError) and error.operation == "update"
