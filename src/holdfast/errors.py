"""Every error Holdfast raises on purpose.

    HoldfastError
    ├── InvalidInput   exit 2   what was given cannot be recorded or understood
    ├── NoSession      exit 3   no such session, none chosen, or several to choose from
    ├── Refused        exit 4   a rule forbids the move; `legal` lists the moves that are allowed
    ├── Damaged        exit 5   stored bytes are not what was written
    ├── Busy           exit 6   another process holds the writer lock; try again
    ├── ReadOnly       exit 6   the home can be read but not written
    ├── Outdated       exit 6   a newer Holdfast wrote this; this one must not write
    └── StoreFailed    exit 1   the disk or the database refused; nothing was acknowledged

An error says what is wrong, why, and which command helps (`hint`). Misuse of the API
raises RuntimeError or TypeError instead: those are bugs of the caller, not of the world.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class HoldfastError(Exception):
    """Base of the tree. `operation`, `file` and `session` are S0's error context."""

    exit_code = 1
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

    def error_context(self, now: str) -> dict[str, str | None]:
        """The five fields document 0 asks of every error report (S0-80 to S0-84)."""
        return {
            "operation": self.operation or "read",
            "file": self.file or None,
            "feature_id": self.session or None,
            "timestamp": now,
            "details": str(self),
        }


def _rebuild(cls: type[HoldfastError], what: str, fields: dict[str, object]) -> HoldfastError:
    error = cls(what)
    error.__dict__.update(fields)
    return error


class InvalidInput(HoldfastError):
    """The value given cannot be recorded: empty, too long, control characters, a bad id."""

    exit_code = 2


class NoSession(HoldfastError):
    """No session is meant unambiguously; `choices` lists the open ones as (id, status, goal)."""

    exit_code = 3

    def __init__(
        self, what: str, *, choices: Sequence[tuple[str, str, str]] = (), **facts: str
    ) -> None:
        super().__init__(what, **facts)
        self.choices = list(choices)


class Refused(HoldfastError):
    """A rule forbids this move now; `legal` names what may be done instead."""

    exit_code = 4

    def __init__(self, what: str, *, legal: Sequence[str] = (), **facts: str) -> None:
        super().__init__(what, **facts)
        self.legal = list(legal)


class Damaged(HoldfastError):
    """Stored bytes are not what was written. Nothing is overwritten or removed."""

    exit_code = 5


class Busy(HoldfastError):
    """Another process kept the writer lock for longer than we may wait."""

    exit_code = 6
    retryable = True


class ReadOnly(HoldfastError):
    """The home can be read but not written."""

    exit_code = 6


class Outdated(HoldfastError):
    """A newer version wrote this store or session; this process must not write to it."""

    exit_code = 6


class StoreFailed(HoldfastError):
    """The disk or the database refused the operation; nothing of it was acknowledged."""
