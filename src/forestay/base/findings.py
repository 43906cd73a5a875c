"""What a check of a home finds."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """Something that a user should know about a home.

    `severity` is `error` (something is lost or does not work), `warning` (that may happen) or
    `info`. `fixable` says that the doctor can fix it.
    """

    code: str
    severity: str
    what: str
    why: str = ""
    fix: str = ""
    fixable: bool = False
    session: str = ""
    file: str = ""
