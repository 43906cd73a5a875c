"""The writer lock: one holder at a time, fair waiting, and errors that name the holder."""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from opcode import opmap
from pathlib import Path
from types import FrameType

import pytest

from forestay.base.clock import Clock, FakeClock
from forestay.errors import Busy, ForestayError, ReadOnly, StoreFailed
from forestay.store.sqlite.view import LentView
from forestay.store.sqlite.writer_lock import WriterLock, open_private
from forestay.testing.store_contract import batch, put
from tests.store.support import end, opened, read_word, resume_process, run, start


class Resting(FakeClock):
    """A clock that advances only by sleeping, and records each pause."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        super().sleep(seconds)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "writer.lock")


def lock_at(path: str, timeout: float = 5.0, clock: Clock | None = None) -> WriterLock:
    return WriterLock(path, clock=clock or Clock(), timeout=timeout)


@contextmanager
def held_elsewhere(path: str) -> Iterator[int]:
    """Hold the file with a lock that is not ours."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        yield fd
    finally:
        os.close(fd)


def queue_of(path: str) -> str:
    return path.replace(".lock", ".queue")


def is_free(path: str) -> bool:
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
    return True


def holding(path: str) -> subprocess.Popen[str]:
    """Start a process that holds the lock until `resume_process` is called."""
    holder = start(
        """
        from forestay.store.sqlite.writer_lock import WriterLock
        with WriterLock(home, clock=Clock(), timeout=1):
            report("holding")
            sys.stdin.readline()
        """,
        path,
    )
    read_word(holder, "holding")
    return holder


def test_lock_is_held_only_inside_its_with_block(path: str) -> None:
    lock = lock_at(path)
    for _ in range(3):
        with lock:
            assert not is_free(path)
            assert is_free(queue_of(path))
        assert is_free(path)
    lock.close()
    lock.close()


def test_error_inside_the_with_block_releases_the_lock(path: str) -> None:
    lock = lock_at(path)
    with pytest.raises(LookupError):
        with lock:
            raise LookupError
    assert is_free(path)
    with lock:
        pass


def test_a_lock_file_that_could_not_be_opened_is_opened_by_the_next_try(path: str) -> None:
    lock = lock_at(path)
    in_the_way = Path(os.path.splitext(path)[0] + ".queue")
    in_the_way.mkdir()
    with pytest.raises(ForestayError):
        with lock:
            pass
    in_the_way.rmdir()
    with lock:
        assert not is_free(path)
    lock.close()


def test_holder_records_its_pid_and_name(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/agent-7", "x"])
    with lock_at(path) as _:
        assert lock_at(path).holder() == f"pid {os.getpid()} (agent-7)"
    assert os.path.getsize(path) == 160


@pytest.mark.parametrize("argv", [[], [""], ["/x/" + "n" * 300], ["\udc80ü"]])
def test_holder_is_recorded_whatever_its_program_name(
    path: str, argv: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", argv)
    with lock_at(path):
        assert lock_at(path).holder().startswith(f"pid {os.getpid()} (")
    assert os.path.getsize(path) == 160


def test_holder_of_a_missing_or_empty_lock_file_is_unknown(path: str) -> None:
    assert lock_at(path).holder() == "unknown"
    Path(path).write_bytes(b"")
    assert lock_at(path).holder() == "unknown"


def test_timeout_error_names_the_holder_of_the_lock(path: str) -> None:
    Path(path).write_bytes(b"pid 42 (agent)".ljust(159) + b"\n")
    clock = Resting()
    with held_elsewhere(path):
        with pytest.raises(Busy) as busy:
            with lock_at(path, timeout=3.0, clock=clock):
                raise AssertionError("must not get here")
    assert "pid 42 (agent)" in busy.value.what
    assert "3 s" in busy.value.why
    assert busy.value.hint and busy.value.file == path
    assert sum(clock.slept) == pytest.approx(3.0)


@pytest.mark.req("S0-87")
def test_pauses_between_lock_attempts_grow_have_jitter_and_stay_short(path: str) -> None:
    clock = Resting()
    with held_elsewhere(path), held_elsewhere(queue_of(path)):
        with pytest.raises(Busy):
            with lock_at(path, timeout=3.0, clock=clock):
                raise AssertionError("must not get here")
    first, later = clock.slept[:5], clock.slept[10:-1]
    for doublings, pause in enumerate(first):
        assert 0.5 <= pause / (0.0005 * 2**doublings) <= 1.5
    assert all(0.005 <= pause <= 0.015 for pause in later)
    assert len(set(later)) > 20


def test_timeout_of_zero_makes_exactly_one_attempt(path: str) -> None:
    clock = Resting()
    with lock_at(path, timeout=0, clock=clock):
        pass
    with held_elsewhere(path), pytest.raises(Busy):
        with lock_at(path, timeout=0, clock=clock):
            raise AssertionError("must not get here")
    assert clock.slept == []


def test_stopped_process_at_the_head_of_the_queue_does_not_block_the_others(path: str) -> None:
    clock = Resting()
    with held_elsewhere(queue_of(path)):
        with lock_at(path, clock=clock):
            assert not is_free(path)
    assert 0.2 < sum(clock.slept) < 0.5


def test_process_that_times_out_leaves_the_queue(path: str) -> None:
    with held_elsewhere(path):
        with pytest.raises(Busy):
            with lock_at(path, timeout=0.01):
                raise AssertionError("must not get here")
        assert is_free(queue_of(path))


def test_threads_take_turns_within_the_timeout(path: str) -> None:
    lock = lock_at(path, timeout=0.2)
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            inside.set()
            leave.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    assert inside.wait(10)
    with pytest.raises(Busy, match="another thread"):
        with lock:
            raise AssertionError("must not get here")
    leave.set()
    holder.join()
    with lock:
        pass


def test_locking_again_inside_the_with_block_raises(path: str) -> None:
    lock = lock_at(path)
    with lock:
        with pytest.raises(RuntimeError):
            with lock:
                raise AssertionError("must not get here")
        assert not is_free(path)
    assert is_free(path)


def test_full_disk_prevents_the_holder_name_but_not_the_write(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pwrite(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "pwrite", pwrite)
    with lock_at(path):
        assert not is_free(path)
    assert is_free(path)


def test_interrupt_while_writing_the_holder_name_releases_the_lock(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pwrite(*_: object) -> int:
        raise KeyboardInterrupt

    lock = lock_at(path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", pwrite)
        with pytest.raises(KeyboardInterrupt):
            with lock:
                raise AssertionError("must not get here")
    assert is_free(path)
    with lock:
        pass


@pytest.mark.parametrize(
    "code, error", [(errno.EIO, StoreFailed), (errno.EACCES, ReadOnly), (errno.ENOLCK, StoreFailed)]
)
def test_system_errors_of_locking_are_translated(
    path: str, code: int, error: type[ForestayError], monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    lock = lock_at(path)
    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", flock)
        with pytest.raises(error):
            with lock:
                raise AssertionError("must not get here")
    with lock:
        pass


def test_symbolic_link_in_place_of_the_lock_file_is_not_followed(path: str, tmp_path: Path) -> None:
    os.symlink(tmp_path / "elsewhere", path)
    with pytest.raises(ForestayError):
        with lock_at(path):
            raise AssertionError("must not get here")
    assert not (tmp_path / "elsewhere").exists()


def test_a_lock_on_a_removed_file_is_noticed(path: str) -> None:
    """A cleaner removes lock files: holders of two different files would not exclude each other."""
    clock = Resting()
    lock = lock_at(path, timeout=0.5, clock=clock)
    with lock:
        pass
    clock.sleep(2)
    os.unlink(path)
    with lock:
        assert not is_free(path)
    os.unlink(path)
    with held_elsewhere(path):
        clock.sleep(2)
        with pytest.raises(Busy):
            with lock:
                raise AssertionError("must not get here")


def test_a_forked_child_does_not_share_its_parents_lock(tmp_path: Path) -> None:
    out = run(
        """
        from forestay.store.sqlite.writer_lock import WriterLock
        lock = WriterLock(home + "/lock", clock=Clock(), timeout=0.2)
        with lock:
            child = os.fork()
            if child == 0:
                lock.reset_after_fork()
                try:
                    with lock:
                        report("inside")
                except Exception as error:
                    report(type(error).__name__)
                os._exit(0)
            os.wait()
        if os.fork() == 0:
            lock.reset_after_fork()
            with lock:
                report("inside")
            os._exit(0)
        os.wait()
        """,
        tmp_path,
    )
    assert out.split() == ["Busy", "inside"]


def test_kernel_releases_the_lock_when_its_holder_is_killed(path: str) -> None:
    holder = holding(path)
    with pytest.raises(Busy, match=f"pid {holder.pid} "):
        with lock_at(path, timeout=0.05):
            raise AssertionError("must not get here")
    holder.kill()
    holder.communicate()
    with lock_at(path, timeout=5):
        pass


def test_waiting_ends_as_soon_as_the_lock_is_free(path: str) -> None:
    holder = holding(path)
    threading.Timer(0.1, lambda: resume_process(holder)).start()
    with lock_at(path, timeout=20):
        assert not is_free(path)
    end(holder)


@pytest.mark.parametrize("umask", [0, 0o777])
def test_private_files_are_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        os.close(open_private(str(tmp_path / "file")))
    finally:
        os.umask(before)
    assert os.stat(tmp_path / "file").st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        open_private(str(tmp_path / "file"), os.O_EXCL)


def test_remaining_wait_time_decreases_while_the_lock_is_held(tmp_path: Path) -> None:
    """Opening and beginning may each wait for a foreign lock: they share one deadline."""
    clock = FakeClock()
    lock = WriterLock(str(tmp_path / "lock"), clock=clock, timeout=10)
    with lock:
        before = lock.left
        clock.sleep(4)
        assert 9 < before <= 10 and before - 4.5 < lock.left < before - 3.5
        clock.sleep(20)
        assert lock.left == 0
    with lock:
        assert lock.left > 9
    lock.close()


def test_waiting_for_both_locks_stays_within_the_timeout(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    store = opened(home, timeout=1.0)
    put(store, "s1", batch("a"))
    foreign = sqlite3.connect(home / "forestay.db", isolation_level=None)
    foreign.execute("BEGIN IMMEDIATE")
    holding = os.open(home / "writer.lock", os.O_RDWR)
    fcntl.flock(holding, fcntl.LOCK_EX)
    later = threading.Timer(0.7, os.close, [holding])
    later.start()
    began = time.monotonic()
    for _ in range(2):
        with pytest.raises(Busy):
            put(store, "s1", batch("b"))
        assert time.monotonic() - began < 1.4
        began = time.monotonic()
    assert store.database._patience == 1000, "who did not wait for us has all of its time again"
    foreign.close()
    put(store, "s1", batch("c"))
    store.close()


# --- interrupts ---------------------------------------------------------------------------------


class At:
    """An interrupt before the n-th step of the interpreter in the module of the lock, or in ours.

    There are more steps than a signal can interrupt. From Python 3.12 on the first call of a
    function is traced by lines only, so there are fewer steps. From 3.14 on a step without effect
    follows each branch: no signal is handled there, and it is outside of the `try` around it, so
    an error raised there would not be caught.
    """

    def __init__(self, n: int) -> None:
        self.left = n
        modules = (
            WriterLock.__module__,
            "forestay.store.sqlite.connection",
            "forestay.store.sqlite.store",
        )
        self._files = {__file__, *(sys.modules[one].__file__ for one in modules)}

    def __call__(self, frame: FrameType, event: str, _: object) -> At | None:
        if frame.f_code.co_filename not in self._files:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, sys.version_info >= (3, 12)
        if event in ("call", "line", "opcode") and not _is_not_taken(frame):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


def _is_not_taken(frame: FrameType) -> bool:
    return frame.f_code.co_code[frame.f_lasti] == opmap.get("NOT_TAKEN")


def interrupted(act: Callable[[], object], n: int) -> bool:
    """Return whether `act` was interrupted at its n-th step; False if it has fewer."""
    before, at = sys.gettrace(), At(n)
    sys.settrace(at)
    try:
        act()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return at.left == 0


def every_step(act: Callable[[], object], then: Callable[[], object]) -> int:
    n = 1
    while interrupted(act, n):
        then()
        n += 1
    return n


@pytest.mark.parametrize("opened_before", [True, False])
def test_interrupt_at_any_step_leaves_no_lock(path: str, opened_before: bool) -> None:
    lock = lock_at(path)
    done: list[int] = []
    with lock:
        pass

    def act() -> None:
        if not opened_before:
            lock.close()
        lock.hold(lambda: done.append(1))

    def is_left() -> None:
        assert not lock.is_mine
        assert is_free(path) and is_free(queue_of(path))

    assert every_step(act, is_left) > 200
    assert len(done) > 50
    with lock:
        pass


def test_interrupt_at_any_step_of_a_turn_releases_the_turn(path: str) -> None:
    lock = lock_at(path)
    done: list[int] = []

    def is_left() -> None:
        assert not lock.is_mine

    steps = every_step(lambda: lock.in_turn(lambda: done.append(1), 1), is_left)
    assert steps > 30 and len(done) > 10


def test_thread_that_times_out_does_not_release_the_lock_of_another(path: str) -> None:
    lock = lock_at(path, timeout=0.01)
    failed: list[type] = []

    def try_it() -> None:
        try:
            lock.hold(lambda: None)
        except Busy as error:
            failed.append(type(error))

    with lock:
        other = threading.Thread(target=try_it)
        other.start()
        other.join()
        assert failed == [Busy] and lock.is_mine and not is_free(path)


def test_interrupt_at_any_step_of_a_write_does_not_block_the_next(tmp_path: Path) -> None:
    store = opened(tmp_path / "home")
    put(store, "s-1", batch("a"))
    database = store.database
    count = "SELECT count(*) FROM tally"

    def act() -> None:
        database.write(lambda db: db.execute("INSERT INTO tally VALUES ('x', 1, 1)"))

    def is_left() -> None:
        assert not database.lock.is_mine and is_free(database.lock.path)
        database.write(lambda db: db.execute("DELETE FROM tally"))
        assert store.database.read(count) == [(0,)]

    assert every_step(act, is_left) > 300


def test_interrupt_at_any_step_of_a_view_returns_its_reader_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader never returned would make forks fail; one returned twice would serve two views."""
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # otherwise it keeps its old value
    store = opened(tmp_path / "home")
    put(store, "s-1", batch("a"))
    database = store.database

    def act() -> None:
        with store.view("s-1"):
            store.database.read("SELECT 1")

    def is_left() -> None:
        assert len(set(map(id, database._idle))) == len(database._idle)
        assert not any(reader.in_transaction for reader in database._idle)

    assert every_step(act, is_left) > 300
    database.before_fork()  # a connection and its statements refer to each other
    database.after_fork_in_parent()
    assert [reader() for reader in database._lent.values() if reader() is not None] == []


def test_interrupted_view_does_not_end_another_view(tmp_path: Path) -> None:
    store = opened(tmp_path / "home")
    put(store, "s-1", batch("a"))
    left = store.view("s-1")
    assert isinstance(left, LentView) and left._reader is not None
    left._reader.execute("ROLLBACK")
    store.database.give_back(left._reader)  # as an interrupted caller does
    with store.view("s-1") as view:
        assert store.database._idle == []
        left.end()
        assert store.database._idle == [] and view.find("x") is None
