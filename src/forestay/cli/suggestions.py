"""Make paths and suggested commands short and ready to be copied to the command line.

JSON has absolute paths. People see the shorter of the relative and the absolute path. A suggested
command repeats the options --home, --store and --session of the present command; settings from
the environment or the folder apply to the next command without that.
"""

from __future__ import annotations

import os
import re


def short_path(path: str) -> str:
    """Return the relative path if it is shorter than the absolute one."""
    from_here = os.path.relpath(path)
    return from_here if len(from_here) < len(path) else path


def quoted_path(path: str) -> str:
    """Return a path in the form to type it in a shell command."""
    import shlex

    shown = short_path(path)
    shown = f"./{shown}" if shown.startswith("-") else shown
    return shlex.quote(shown) if shown.isprintable() else f"$'{''.join(map(_escape_char, shown))}'"


def _escape_char(char: str) -> str:
    """Return a character as shells read it between `$'` and `'`; control characters as hex."""
    if char.isprintable():
        return f"\\{char}" if char in "\\'" else char
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape"))


def shorten_paths(text: str, *known: str) -> str:
    """Return a text with relative paths for this folder and for the paths in `known`."""
    try:
        here = os.getcwd()
    except OSError:  # the folder was deleted
        return text
    if here == os.sep or os.sep not in text:
        return text
    import shlex

    text = _shorten_in(text, here, "")
    text = _shorten_in(text, shlex.quote(here)[:-1], "'") if "'" in here else text
    for path in filter(os.path.isabs, known):
        if path != here:
            text = text.replace(shlex.quote(path), quoted_path(path)).replace(
                path, short_path(path)
            )
    return text


def _shorten_in(text: str, lead: str, instead: str) -> str:
    inside = rf"(?<![^\s'\"(]){re.escape(lead)}/(?=[^\s/])"
    # A name that begins with a dash would be parsed as an option.
    text = re.sub(f"{inside}(?=-)", f"{instead}./", text)
    return re.sub(inside, instead, text)


# -- commands ----------------------------------------------------------------------------------

_COMMAND = re.compile(r"\bforestay (?P<words>[a-z]+[^·;,→]*)")
_OF_ONE_SESSION = frozenset(
    "resume brief status log show diff note decide task undo pause complete settle agent phase "
    "prove revisit essay files record session verify".split()
)
_NAMES_IT = ("resume", "brief", "verify", "session use", "session forget")
"""Commands that can name their session as an argument."""


def as_typed(line: str, given: dict[str, str]) -> str:
    """Return the line with the shared options in `given` added to each command in it."""
    import shlex

    def add_options(found: re.Match[str]) -> str:
        words = found["words"].split()
        if "--help" in words:
            return found[0]
        wanted = [(name, given[name]) for name in given if _applies(name, words)]
        options = "".join(f" {name} {shlex.quote(value)}" for name, value in wanted)
        return f"forestay{options} {found['words']}"

    return _COMMAND.sub(add_options, line)


def _applies(option: str, words: list[str]) -> bool:
    if option in words:
        return False
    if option != "--session":
        return True
    if words[:2] == ["backup", "export"]:
        return True
    named = [name for name in _NAMES_IT if words[: len(name.split())] == name.split()]
    after = words[len(named[0].split()) :] if named else []
    return words[0] in _OF_ONE_SESSION and not (after and after[0][:1].isalnum())


_GUESSES = {
    "list": "sessions ls",
    "complete": "finish done end",
    "pause": "stop",
    "start": "new begin",
    "resume": "continue",
    "log": "history",
    "search": "find",
    "note": "remember",
    "task add": "todo",
    "task": "tasks",
    "agent": "agents",
    "files": "formats format layouts layout",
    "files bind": "bind",
    "record attribute": "attr",
    "record compaction": "compressed",
    "session forget": "delete remove",
    "session use": "switch",
    "sync --push": "push",
    "sync --pull": "pull",
    "device list": "devices",
    "device key": "key",
    "share remove": "unshare",
    "doctor": "repair fix",
    "config": "settings",
    "install": "setup",
    "--version": "version",
    "settle": "resolve",
}
_MEANT = {word: command for command, words in _GUESSES.items() for word in words.split()}
"""Likely guesses of users for the names of commands."""


def suggest_commands(name: str, names: tuple[str, ...]) -> list[str]:
    """Return those of `names` that an unknown name probably stands for, best first."""
    if name in _MEANT:
        return [_MEANT[name]]
    import difflib

    family, _, action = name.rpartition(" ")
    lead = f"{family} " if family else ""
    known = {c.removeprefix(lead).split()[0]: c for c in names if c.startswith(lead)}
    elsewhere = sorted((c for c in names if c.split()[-1] == name), key=lambda c: c.count(" "))
    near = difflib.get_close_matches(action, [*known, *([] if family else _MEANT)], 3, 0.7)
    return elsewhere or list(
        dict.fromkeys(lead + one if one in known else _MEANT[one] for one in near)
    )
