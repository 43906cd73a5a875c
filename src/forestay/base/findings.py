"""What a check reports, and what only the user can decide."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """Something that a user should know: a fault, a risk, or a deviation from a specification.

    `severity` is `error` (something is lost or does not work), `warning` (that may happen) or
    `info`. `fix` is what helps, `fixable` says that `forestay doctor --fix` does it. A finding
    about a file has its place in it: `where` as a path of keys, `line` counted from 1, and the
    `requirement` that it does not meet; one about an event has its `seq`.
    """

    code: str
    severity: str
    what: str
    why: str = ""
    fix: str = ""
    fixable: bool = False
    session: str = ""
    file: str = ""
    where: str = ""
    requirement: str = ""
    line: int = 0
    seq: int = 0


class Choice(NamedTuple):
    """One answer to a question, and the command that gives it."""

    id: str
    title: str
    detail: str = ""
    command: str = ""


class Question(NamedTuple):
    """What only the user can decide. `files` are those that the answer is about.

    `menu` is the whole question in the words of a format's specification, where it has them.
    """

    text: str
    choices: tuple[Choice, ...]
    recommended: str = ""
    files: tuple[str, ...] = ()
    menu: str = ""
