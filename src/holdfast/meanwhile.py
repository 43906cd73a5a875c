"""Something done by a thread while whoever asked goes on.

The threads stay for a while: to start one takes about as long as to sync a small file, to wake one
up a tenth of that. They belong to the process that started them; a fork begins with none. When the
interpreter ends they do: one of several in a process breaks if a thread of it is left.
"""

from __future__ import annotations

import atexit
import os
import sys
from _thread import LockType, allocate_lock, start_new_thread
from collections.abc import Callable

Task = Callable[[], None]

_STAY = 2.0
"""For how many seconds a thread that has nothing to do waits for more."""


def begin(task: Task) -> LockType | None:
    """Do something meanwhile; a lock that can be had once it is done, None if no thread can.

    What it raises is not heard: whoever waits sees by what is not there that it did not end well.
    """
    if _ENDED or sys.is_finalizing():
        return None  # a thread would never get its turn, and whoever waits for it would for ever
    ended = allocate_lock()
    ended.acquire()
    try:
        hand = _FREE.pop() if _FREE else _Hand()
    except IndexError:  # someone else was faster
        hand = _Hand()
    except RuntimeError:  # there are too many threads, or the process is about to end
        return None
    hand.take(task, ended)
    return ended


class _Hand:
    """One thread, what it is to do next, and the bell that it waits for."""

    def __init__(self) -> None:
        self._given: tuple[Task, LockType] | None = None
        self._bell = allocate_lock()
        self._bell.acquire()
        self._gone = allocate_lock()
        self._gone.acquire()
        start_new_thread(self._work, ())

    def take(self, task: Task, ended: LockType) -> None:
        self._given = task, ended
        self._bell.release()

    def leave(self) -> None:
        """End the thread, which has nothing to do."""
        self._bell.release()
        self._gone.acquire(timeout=_STAY)

    def _work(self) -> None:
        while (self._bell.acquire(timeout=_STAY) or self._is_wanted()) and self._given:
            (task, ended), self._given = self._given, None
            try:
                task()
            except Exception:
                pass  # whoever waits sees it, see `begin`
            _FREE.append(self)  # before the end is told: the next task may follow at once
            ended.release()
        self._gone.release()

    def _is_wanted(self) -> bool:
        """Whether someone is about to give it a task; if nobody is, nobody will."""
        try:
            _FREE.remove(self)
        except ValueError:
            return self._bell.acquire()
        return False


def _end() -> None:
    _ENDED.append(True)
    while _FREE:
        _FREE.pop().leave()


_ENDED: list[bool] = []
_FREE: list[_Hand] = []
atexit.register(_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_FREE.clear)
