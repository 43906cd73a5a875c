"""Threads that stay: what is begun is done once, and they end when nobody needs them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from _thread import LockType
from functools import partial

import pytest

from holdfast import meanwhile

LONG = 20.0


@pytest.fixture(autouse=True)
def none_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread of an earlier test takes part."""
    monkeypatch.setattr(meanwhile, "_FREE", [])


def begun(task: meanwhile.Task) -> LockType:
    ended = meanwhile.begin(task)
    assert ended is not None
    return ended


def did(task: meanwhile.Task) -> None:
    assert begun(task).acquire(timeout=LONG)


def test_all_that_is_begun_is_done_once() -> None:
    done: list[int] = []
    for ended in [begun(partial(done.append, number)) for number in range(200)]:
        assert ended.acquire(timeout=LONG)
    assert sorted(done) == list(range(200))


def test_who_asked_goes_on_and_the_end_is_told_after_it() -> None:
    go = threading.Event()
    ended = begun(lambda: use(go.wait(LONG)))
    assert not ended.acquire(blocking=False)
    go.set()
    assert ended.acquire(timeout=LONG)


def test_a_thread_is_there_for_the_next_task_at_once() -> None:
    who: list[int] = []
    for _ in range(50):
        did(lambda: who.append(threading.get_ident()))
    assert len(set(who)) == 1


def test_tasks_that_wait_for_each_other_have_a_thread_each() -> None:
    met = threading.Barrier(5, timeout=LONG)
    ended = [begun(lambda: use(met.wait())) for _ in range(4)]
    met.wait()
    assert all(each.acquire(timeout=LONG) for each in ended)


def test_what_a_task_raises_is_not_heard_and_ends_no_thread(
    capfd: pytest.CaptureFixture[str],
) -> None:
    who: list[int] = []

    def fail() -> None:
        who.append(threading.get_ident())
        raise ValueError("broken")

    for task in (fail, lambda: who.append(threading.get_ident())):
        did(task)
    assert who[0] == who[1] and capfd.readouterr() == ("", "")


def test_a_thread_without_a_task_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meanwhile, "_STAY", 0.01)
    did(lambda: None)
    until = time.monotonic() + LONG
    while meanwhile._FREE and time.monotonic() < until:
        time.sleep(0.01)
    assert not meanwhile._FREE
    did(lambda: None)


def test_one_that_is_chosen_when_it_would_end_does_the_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Chosen, but the task comes later than it waits for one."""
    monkeypatch.setattr(meanwhile, "_STAY", 0.01)
    did(lambda: None)
    (hand,) = meanwhile._FREE
    meanwhile._FREE.clear()
    time.sleep(0.1)
    ended = threading.Lock()
    ended.acquire()
    hand.take(lambda: None, ended)
    assert ended.acquire(timeout=LONG)


def test_no_thread_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(meanwhile, "start_new_thread", refuse)
    assert meanwhile.begin(lambda: None) is None


def test_when_the_interpreter_ends_threads_do_and_none_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thread that is left breaks an interpreter that is one of several in its process."""
    monkeypatch.setattr(meanwhile, "_ENDED", [])
    before = set(sys._current_frames())
    met = threading.Barrier(3, timeout=LONG)
    for ended in [begun(lambda: use(met.wait())) for _ in range(3)]:
        assert ended.acquire(timeout=LONG)
    assert len(meanwhile._FREE) == 3
    meanwhile._end()
    until = time.monotonic() + 1  # less than they would stay
    while set(sys._current_frames()) - before and time.monotonic() < until:
        time.sleep(0.001)
    assert set(sys._current_frames()) <= before
    assert meanwhile.begin(lambda: None) is None


LATE = """
import sys
from holdfast import meanwhile

meanwhile.begin(int).acquire()

class Late:
    def __del__(self):
        print(sys.is_finalizing(), meanwhile.begin(int))

sys.modules["late"] = Late()
"""


def test_what_is_left_for_the_very_end_does_not_wait_for_a_thread_for_ever() -> None:
    run = [sys.executable, "-c", LATE]
    assert subprocess.check_output(run, text=True, timeout=LONG) == "True None\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_begins_with_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # the list that a fork empties is the one that was there first
    did(lambda: None)
    assert meanwhile._FREE
    child = os.fork()
    if child == 0:
        ended = None if meanwhile._FREE else meanwhile.begin(lambda: None)
        os._exit(0 if ended is not None and ended.acquire(timeout=LONG) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def use(_: object) -> None:
    """What a task gives back is of no use here."""
