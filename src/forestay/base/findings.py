"""Findings of a check, and questions that only the user can answer."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """Something that a user should know: a fault, a risk, or a deviation from a specification.

    `severity` is `error` (something is lost or does not work), `warning` (that may happen) or
    `info`. `fix` is the remedy, `fixable` whether `forestay doctor --fix` applies it. A finding
    about a file gives the place: `where` as a path of keys, `line` counted from 1, and the
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
    """A question that only the user can answer. `files` are the files that it is about.

    `menu` is the whole question in the words of a format's specification, if that has such words.
    """

    text: str
    choices: tuple[Choice, ...]
    recommended: str = ""
    files: tuple[str, ...] = ()
    menu: str = ""
