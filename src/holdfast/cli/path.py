"""Paths as people see and type them: from the folder that they are in.

Programs get every path whole, in JSON. People get the shorter of the two ways to name a place, and
a line to type means the same place in the shell that it is pasted into.
"""

from __future__ import annotations

import os


def shown_path(path: str) -> str:
    """A path as it is shortest from here."""
    from_here = os.path.relpath(path)
    return from_here if len(from_here) < len(path) else path


def typed_path(path: str) -> str:
    """A path as one types it from here in a command."""
    import shlex

    shown = shown_path(path)
    shown = f"./{shown}" if shown.startswith("-") else shown
    return shlex.quote(shown) if shown.isprintable() else f"$'{''.join(map(_spelled, shown))}'"


def _spelled(sign: str) -> str:
    """A character as shells read it between `$'` and `'`: a line break would not be seen."""
    if sign.isprintable():
        return f"\\{sign}" if sign in "\\'" else sign
    return "".join(f"\\x{byte:02x}" for byte in sign.encode("utf-8", "surrogateescape"))


def told_from_here(text: str, *known: str) -> str:
    """A sentence or a command with the paths in this folder, and those that are known to be in
    it, as they are from here."""
    try:
        here = os.getcwd()
    except OSError:  # it is gone
        return text
    if here == os.sep or os.sep not in text:
        return text
    import shlex

    text = _shortened(text, here, "")
    text = _shortened(text, shlex.quote(here)[:-1], "'") if "'" in here else text
    for path in filter(os.path.isabs, known):
        if path != here:
            text = text.replace(shlex.quote(path), typed_path(path)).replace(path, shown_path(path))
    return text


def _shortened(text: str, lead: str, instead: str) -> str:
    import re

    inside = rf"(?<![^\s'\"(]){re.escape(lead)}/(?=[^\s/])"
    # A name that begins with a dash would be taken for an option.
    text = re.sub(f"{inside}(?=-)", f"{instead}./", text)
    return re.sub(inside, instead, text)
