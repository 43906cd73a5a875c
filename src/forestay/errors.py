"""Every error Forestay raises on purpose.

    ForestayError
    ├── InvalidInput   what was given cannot be recorded or understood
    ├── NoSession      no such session, none chosen, or several to choose from
    ├── Refused        a rule forbids the move; `legal` lists the moves that are allowed
    ├── Damaged        stored bytes are not what was written
    ├── Busy           another process holds the writer lock; try again
    ├── ReadOnly       the home can be read but not written
    ├── Outdated       a newer Forestay wrote this; this one must not write
    ├── StoreFailed    the disk or the database refused; nothing was acknowledged
    └── RemoteFailed   a remote refused, or cannot be reached; what is here is untouched
        ├── Unreachable    nobody answers, or not in time; try again
        ├── NotThere       no object of that name
        ├── Locked         sealed to a key that is not here; it says which one
        ├── NotEntitled    made by a device or person who may not
        └── Tampered       the storage shows something else than was written there
            ├── RolledBack    it shows an older state than it showed before
            ├── Truncated     the end of a chain, or a piece of it, is not shown
            ├── Forked        it shows different histories under one name
            ├── Replayed      an old object under a new name
            ├── Swapped       the object of another session, or of another chain
            └── Downgraded    an older or weaker form than was agreed on

An error says what is wrong, why, and which command helps (`hint`). Misuse of the API
raises RuntimeError or TypeError instead: those are bugs of the caller, not of the world.
`EXIT_CODES` is how a process tells of all this when it ends.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


DONE, FAILED, USAGE, NO_SESSION, REFUSED, DAMAGED, BUSY, UNSETTLED, UNREACHABLE = range(9)
INTERRUPTED = 130
EXIT_CODES = (
    (DONE, "done"),
    (FAILED, "failed"),
    (USAGE, "wrong usage or input"),
    (NO_SESSION, "no such session, none chosen, or several to choose from"),
    (REFUSED, "refused by a rule"),
    (DAMAGED, "damage found"),
    (BUSY, "busy or read-only"),
    (UNSETTLED, "resumed, but with unknown outcomes or disputes"),
    (UNREACHABLE, "a remote cannot be reached, believed or opened"),
    (INTERRUPTED, "interrupted"),
)
BROKEN_PIPE = 141
"""The reader of the output closed it; a shell reports this code for such a process."""


class ForestayError(Exception):
    """Base of the tree. `operation`, `file` and `session` say what it happened to."""

    exit_code = FAILED
    retryable = False

    def __init__(
        self,
        what: str,
        *,
        why: str = "",
        hint: str = "",
        operation: str = "",
        file: str = "",
        session: str = "",
    ) -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.hint = hint
        self.operation = operation
        self.file = file
        self.session = session

    def __str__(self) -> str:
        return f"{self.what} ({self.why})" if self.why else self.what

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments do not survive the default pickling of exceptions.
        return (_rebuild, (type(self), self.what, dict(self.__dict__)))


def _rebuild(cls: type[ForestayError], what: str, fields: dict[str, object]) -> ForestayError:
    error = cls(what)
    error.__dict__.update(fields)
    return error


class InvalidInput(ForestayError):
    """The value given cannot be recorded: empty, too long, control characters, a bad id."""

    exit_code = USAGE


class NoSession(ForestayError):
    """No session is meant unambiguously; `choices` lists the open ones as (id, status, goal)."""

    exit_code = NO_SESSION

    def __init__(
        self, what: str, *, choices: Sequence[tuple[str, str, str]] = (), **facts: str
    ) -> None:
        super().__init__(what, **facts)
        self.choices = list(choices)


class Refused(ForestayError):
    """A rule forbids this move now; `legal` names what may be done instead."""

    exit_code = REFUSED

    def __init__(self, what: str, *, legal: Sequence[str] = (), **facts: str) -> None:
        super().__init__(what, **facts)
        self.legal = list(legal)


class Damaged(ForestayError):
    """Stored bytes are not what was written. Nothing is overwritten or removed."""

    exit_code = DAMAGED


class Busy(ForestayError):
    """Another process kept the writer lock for longer than we may wait."""

    exit_code = BUSY
    retryable = True


class ReadOnly(ForestayError):
    """The home can be read but not written."""

    exit_code = BUSY


class Outdated(ForestayError):
    """A newer version wrote this store or session; this process must not write to it."""

    exit_code = BUSY


class StoreFailed(ForestayError):
    """The disk or the database refused the operation; nothing of it was acknowledged."""


class RemoteFailed(ForestayError):
    """A remote refused, cannot be reached, or cannot be believed. Nothing here was changed."""

    exit_code = UNREACHABLE


class Unreachable(RemoteFailed):
    """Nobody answers, or not in time. What was recorded here waits and is pushed later."""

    retryable = True


class NotThere(RemoteFailed):
    """The remote has no object of that name."""


class Locked(RemoteFailed):
    """It is sealed, and no key here opens it; the message names the key that would."""


class NotEntitled(RemoteFailed):
    """It was made by a device or a person who may not, or may no longer, do that."""


class Tampered(RemoteFailed):
    """What the storage shows is not what was written there. None of it was taken."""


class RolledBack(Tampered):
    """The storage shows an older state than it showed before."""


class Truncated(Tampered):
    """A piece of a chain that is known to be there is not shown."""


class Forked(Tampered):
    """The storage shows different histories under one name."""


class Replayed(Tampered):
    """An old object appears under a new name."""


class Swapped(Tampered):
    """The object belongs to another session, or to another chain."""


class Downgraded(Tampered):
    """The object has an older or weaker form than was agreed on."""
