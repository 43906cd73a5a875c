"""The public library: few names on each object, typed results, and times that are `datetime`."""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import re
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, Literal, get_args, get_origin

import pytest

from forestay.api.forestay import Forestay
from forestay.api.session import Session
from forestay.base.value import Value

MOST_NAMES = 30
ENGINE = {
    "Context": "what the engine works with; documented as such, and not a result",
    "Header": "the stored header of an event; `Event.time` is its time",
    "Body": "what an event records, as it is stored",
}
"""Classes whose fields are not checked, and why."""
TIME = re.compile(r"(?:.*_)?(?:at|since|began|started|ended|updated|modified|synced|date)")
"""Names of fields that are times; a number of milliseconds ends in `_ms`."""


@cache
def _names(module: str) -> dict[str, Any]:
    """Return the names that the annotations of a module may use, those for type checkers too."""
    loaded = importlib.import_module(module)
    names = dict(vars(loaded)) | {"builtins": builtins}
    for node in ast.parse(Path(str(loaded.__file__)).read_text()).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for statement in node.body:
                try:
                    exec(compile(ast.Module([statement], []), module, "exec"), names)
                except ImportError:
                    # It is defined for type checkers only, in the other module too.
                    assert isinstance(statement, ast.ImportFrom) and statement.module
                    there = _names(statement.module)
                    names |= {alias.name: there[alias.name] for alias in statement.names}
    return names


def _members(owner: type) -> Iterator[tuple[str, Any]]:
    """Return the public fields, properties and methods of a class, with the types they give."""
    for part in reversed(owner.__mro__):
        if not part.__module__.startswith("forestay"):
            continue
        fields = dict(part.__annotations__)
        if not fields and not part.__module__.startswith("forestay.api"):
            fields = dict(getattr(vars(part).get("__init__"), "__annotations__", {}))
        functions = {
            name: value.fget if isinstance(value, property) else value
            for name, value in vars(part).items()
            if isinstance(value, FunctionType | property)
        }
        fields |= {
            name: inspect.unwrap(one).__annotations__.get("return")
            for name, one in functions.items()
            if one is not None
        }
        for name, kind in fields.items():
            if not name.startswith("_") and name != "return":
                text = getattr(kind, "__forward_arg__", kind)
                found = eval(text, _names(part.__module__)) if isinstance(text, str) else kind
                yield name, found


def _parts(kind: Any) -> Iterator[Any]:
    """Return a type and all types in it."""
    yield kind
    if get_origin(kind) is not Literal:
        for part in get_args(kind):
            yield from _parts(part)


def _reachable() -> dict[type, dict[str, Any]]:
    """Return all classes that a caller can get from a `Forestay`, with their public members."""
    found: dict[type, dict[str, Any]] = {}
    waiting: list[type] = [Forestay]
    while waiting:
        owner = waiting.pop()
        if owner in found or owner.__name__ in ENGINE:
            continue
        found[owner] = dict(_members(owner))
        for kind in found[owner].values():
            waiting += [
                part
                for part in _parts(kind)
                if isinstance(part, type) and part.__module__.startswith("forestay")
            ]
    return found


REACHABLE = _reachable()


def _is_mixed_tuple(kind: Any) -> bool:
    return get_origin(kind) is tuple and get_args(kind)[1:] != (...,)


def test_walk_finds_the_results_of_the_library() -> None:
    names = {owner.__name__ for owner in REACHABLE}
    assert len(names) > 80
    assert {"TaskInfo", "PhaseInfo", "ProofInfo", "RemoteInfo", "DeviceInfo", "Event"} <= names


@pytest.mark.parametrize("owner", REACHABLE, ids=lambda owner: owner.__name__)
def test_times_are_datetimes_and_results_are_typed(owner: type) -> None:
    for name, kind in REACHABLE[owner].items():
        where = f"{owner.__module__}.{owner.__name__}.{name}: {kind}"
        parts = list(_parts(kind))
        if TIME.fullmatch(name):
            assert int not in parts and float not in parts, f"a time is no number: {where}"
        assert not any(map(_is_mixed_tuple, parts)), f"a tuple of several meanings: {where}"
        if name not in ("as_json", "as_values"):
            assert Any not in parts, f"untyped: {where}"


@pytest.mark.parametrize(
    "owner",
    [owner for owner in REACHABLE if owner.__module__.startswith("forestay.api")],
    ids=lambda owner: owner.__name__,
)
def test_public_object_has_at_most_thirty_names(owner: type) -> None:
    if not issubclass(owner, Value):
        names = {name for name in dir(owner) if not name.startswith("_")}
        assert len(names) <= MOST_NAMES, sorted(names)


def test_rules_of_this_test_find_what_they_are_for() -> None:
    assert TIME.fullmatch("started_at") and TIME.fullmatch("since") and TIME.fullmatch("at")
    assert not TIME.fullmatch("paused_ms") and not TIME.fullmatch("format")
    assert _is_mixed_tuple(tuple[str, int]) and not _is_mixed_tuple(tuple[str, ...])
    assert datetime in _parts(REACHABLE[Session] and dict[str, datetime | None])
