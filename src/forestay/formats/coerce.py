"""Read plain values of unknown type: a value of an unexpected type counts as empty."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Node = dict[str, Any]

LARGEST = 2**53 - 1
"""The largest whole number that every reader of JSON parses exactly."""


def mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def sequence(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def copied(value: Any, levels: int = -1) -> Any:
    """Return a deep copy; with `levels`, copy only that many levels and share the rest."""
    if levels == 1:
        return value.copy() if isinstance(value, (dict, list)) else value
    if isinstance(value, dict):
        return {key: copied(inner, levels - 1) for key, inner in value.items()}
    return [copied(inner, levels - 1) for inner in value] if isinstance(value, list) else value


def with_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return a value with each text in it changed, except keys."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: with_texts(each, change) for key, each in value.items()}
    return [with_texts(each, change) for each in value] if isinstance(value, list) else value


def put_back(part: dict[Any, Any], before: dict[Any, Any], key: str | int) -> None:
    """Set a key of `part` to its value in `before`, at the same position among the keys."""
    later = set(list(before)[list(before).index(key) :])
    behind = next((at for at, name in enumerate(part) if name in later), len(part))
    moved = {name: part.pop(name) for name in list(part)[behind:]}
    part.update({key: None} | moved | {key: copied(before[key])})


def texts_in(value: Any) -> dict[str, None]:
    """Return all texts in a value except keys, each once."""
    found: dict[str, None] = {}
    todo = [value]
    while todo:
        each = todo.pop()
        if isinstance(each, str):
            found[each] = None
        elif isinstance(each, dict):
            todo += each.values()
        elif isinstance(each, list):
            todo += each
    return found
