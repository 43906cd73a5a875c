"""Suggested lines: a command to type next must mean what the one before it meant.

Whoever names a home, a store or a session on the command line gets suggestions that name them
too. What the environment or the folder says holds for the next command anyway.
"""

from __future__ import annotations

import re

from holdfast.cli.table import GROUPS

_COMMAND = re.compile(r"\bholdfast (?P<verb>[a-z]+)(?P<rest>[^·;,→]*)")
_GROUPS = ("Record", "Tasks", "Agents", "End")
_OF_ONE_SESSION = frozenset(
    ["resume", "brief", "pause", "status", "log", "show", "diff", "verify", "export", "layouts"]
    + [name.split()[0] for group in _GROUPS for name in GROUPS[group]]
)
_NAMES_IT = ("resume", "brief", "verify", "forget")
"""Commands that may name their session themselves."""


def as_typed(line: str, given: dict[str, str]) -> str:
    """The line with the shared options that were given, wherever it names a command."""
    import shlex

    def with_options(found: re.Match[str]) -> str:
        if "--help" in found["rest"]:
            return found[0]
        wanted = [(name, given[name]) for name in given if _applies(name, found)]
        options = "".join(f" {name} {shlex.quote(value)}" for name, value in wanted)
        return f"holdfast{options} {found['verb']}{found['rest']}"

    return _COMMAND.sub(with_options, line)


def _applies(option: str, found: re.Match[str]) -> bool:
    if option in found["rest"].split():
        return False
    if option != "--session":
        return True
    verb, first = found["verb"], found["rest"].strip().partition(" ")[0]
    names_it = verb in _NAMES_IT and first[:1].isalnum()
    return verb in _OF_ONE_SESSION and not names_it
