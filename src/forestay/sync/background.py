"""Sync in a background process, so that recording never waits for a remote.

At important moments (an agent starts or ends, a decision, an error, a pause), and otherwise at most
as often as the setting allows, the recording process sets the time of a file (the *request*) and
starts a sync process unless one is running. The sync process syncs with every remote, and repeats
that if a newer request was made in the meantime. If it is too early for a sync, a process waits
until one is due, and sets the time of another file, so that no second one is started. Without a
remote nothing is started. Errors are stored with the remote, where `forestay remote list` shows
them; the recording process does not see them.

Before a session is resumed, the work of other devices is *fetched* by another process, for at most
a few seconds. If it takes longer, that process continues in the background, and its results are
used the next time.
"""

from __future__ import annotations

import os

from forestay.base import files
from forestay.base.config import environment_of
from forestay.errors import Busy, ForestayError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from forestay.journal.context import Context
    from forestay.sync.run import Report

_WISH = "sync.wish"
_LATER = "sync.later"
_LOCK = "errand.lock"
_MOST = 20
"""How many times one process syncs at most, even if there are further requests."""


def request_sync(context: Context, *, is_urgent: bool) -> float:
    """Start a sync in the background: now if it is urgent, else when the next one is due.

    Return for how many seconds no further request is needed, because a process is waiting to sync.
    """
    now, last, seconds = context.clock.now(), _time(context, _WISH), context.settings.sync_seconds
    if not is_urgent and not seconds:
        return 1.0
    if not is_urgent and 0 <= now - last < seconds * 1000:
        return _put_off(context, now, last + seconds * 1000)
    _touch(context, _WISH, now)
    if not _is_under_way(context):
        _start(context)
    return 0.0


def _put_off(context: Context, now: int, due: int) -> float:
    later = _time(context, _LATER)
    # If a process already waits, start none. If that one died, a later request starts another.
    if not now < later <= due:
        _touch(context, _LATER, due)
        _start(context, after=(due - now) // 1000 + 1)
        later = due
    return (later - now) / 1000


def _time(context: Context, name: str) -> int:
    """Return the time of a file, in milliseconds; 0 if there is none."""
    try:
        return os.stat(os.path.join(context.store.home, name)).st_mtime_ns // 1_000_000
    except OSError:
        return 0


def _touch(context: Context, name: str, at: int) -> None:
    path = os.path.join(context.store.home, name)
    if not os.path.exists(path):
        files.replace(path, b"")
    os.utime(path, ns=(at * 1_000_000, at * 1_000_000))


def _is_under_way(context: Context) -> bool:
    try:
        with files.locked(_lock(context), timeout=0, clock=context.clock, private=True):
            return False
    except Busy:
        return True


def _lock(context: Context) -> str:
    return os.path.join(context.store.home, _LOCK)


def _start(context: Context, after: int = 0) -> None:
    out = os.open(os.devnull, os.O_WRONLY)
    try:
        _detach(context, out, "sync", "--soon", "--quiet", after=after)
    except OSError:
        return  # the next request tries again
    finally:
        os.close(out)


def _detach(context: Context, out: int, *argv: str, passphrase: str = "", after: int = 0) -> None:
    """Start a detached Forestay process, through a shell that exits at once."""
    import sys

    program = [sys.executable, "-c", "from forestay.cli.main import entry; entry()", *argv]
    # The shell is the parent of the new process, so this process has no child to wait for.
    child = os.posix_spawn(
        "/bin/sh",
        ["sh", "-c", _DETACHED, "sh", str(after), *program],
        environment_of(context.settings, passphrase),
        file_actions=[(os.POSIX_SPAWN_DUP2, out, 1)],
    )
    os.waitpid(child, 0)


# A shell does the waiting, because it needs a fraction of the memory.
_DETACHED = """trap '' HUP; cd /; after=$1; shift
{ [ "$after" = 0 ] || sleep "$after"; exec "$@"; } </dev/null 2>/dev/null &"""


def fetched(context: Context, session: str, seconds: float, passphrase: str = "") -> bytes | None:
    """Pull one session or all in another process; return its JSON, or None after `seconds`."""
    import select

    ours, theirs = os.pipe()
    named = ("--session", session) if session else ()
    try:
        _detach(context, theirs, "--json", *named, "sync", "--pull", passphrase=passphrase)
    except OSError:
        os.close(ours)
        return b""
    finally:
        os.close(theirs)
    until, answer = context.clock.monotonic() + seconds, b""
    with os.fdopen(ours, "rb", buffering=0) as pipe:
        ready = select.poll()  # `select` fails on descriptors from 1024 on
        ready.register(pipe, select.POLLIN | select.POLLHUP)
        while ready.poll(max(until - context.clock.monotonic(), 0) * 1000):
            more = pipe.read(1 << 16)
            if not more:
                return answer
            answer += more
    return None


def run(context: Context, sync: Callable[[], Sequence[Report]]) -> int:
    """Sync with every remote until no request is left; the exit code is always 0."""
    now = context.clock.now()
    if _time(context, _WISH) < _time(context, _LATER) <= now:
        _touch(context, _WISH, now)  # a delayed sync is due; a running process can do it, too
    for _ in range(_MOST):
        before = _time(context, _WISH)
        try:
            with files.locked(_lock(context), timeout=0, clock=context.clock, private=True):
                done = sync()
        except ForestayError:
            return 0
        # A request made while the lock was held started no process. A sync that the user started
        # may have begun before the event to sync was recorded; each round waits for that sync.
        if _time(context, _WISH) == before and not any(isinstance(one.error, Busy) for one in done):
            break
    return 0
