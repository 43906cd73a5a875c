"""Check the types of arguments against a method's annotations before it runs.

`check_arguments` wraps every public method of a class. That is done when the package is imported as
a library; the command line has its own parser. A path can be any path-like object, and a list any
iterable of texts.
"""

from __future__ import annotations

import os
from functools import wraps

from forestay.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_TEXT = ["str"]
_TEXTS = "Sequence[str]"
_KINDS: dict[str, tuple[str, tuple[type, ...]]] = {
    "str": ("text", (str,)),
    "int": ("a whole number", (int,)),
    "float": ("a number", (int, float)),
    "bool": ("True or False", (bool,)),
    "None": ("None", (type(None),)),
    "dict[str, str]": ("a dictionary of texts", (dict,)),
    _TEXTS: ("a list of texts", (list,)),
    "Mapping[str, object]": ("a dictionary", (dict,)),
}
_WORDS = dict.fromkeys(
    "Mode Status PauseReason Category FileAction CommandStatus Style Format Pushback"
    " DeferReason FactCheck Impact Scope ShareMode".split(),
    "str",
)
"""Literal types of `forestay.base.words`: here only checked to be text; the engine checks more."""


def check_arguments(owner: type) -> None:
    """Make every public method of a class refuse arguments of a wrong type.

    A class that was wrapped before is not wrapped again.
    """
    for part in owner.__mro__[:-1]:
        for name, method in list(vars(part).items()):
            if not (name.startswith("_") or hasattr(method, "__wrapped__")) and callable(method):
                setattr(part, name, _with_check(method))


def _with_check(method: Callable[..., Any]) -> Callable[..., Any]:
    code = method.__code__
    names = code.co_varnames[1 : code.co_argcount]
    kinds = {
        name: [_WORDS.get(kind, kind) for kind in annotation.split(" | ")]
        for name, annotation in method.__annotations__.items()
        if name != "return"
    }
    known = {name: each for name, each in kinds.items() if all(kind in _KINDS for kind in each)}
    if not known:
        return method

    @wraps(method)
    def checked(self: object, *args: Any, **more: Any) -> Any:
        if args:
            given = [
                _check_value(name, value, known) for name, value in zip(names, args, strict=False)
            ]
            args = (*given, *args[len(given) :])
        if more:
            more = {name: _check_value(name, value, known) for name, value in more.items()}
        return method(self, *args, **more)

    return checked


def _check_value(name: str, value: Any, known: dict[str, list[str]]) -> Any:
    """Convert a value to its annotated type; return it unchanged if the annotation is unknown."""
    wanted = known.get(name)
    if wanted is None or (wanted == _TEXT and type(value) is str):
        return value
    value = _to_builtin(value, wanted)
    if not any(_is_of_kind(value, kind) for kind in wanted):
        words = " or ".join(_KINDS[kind][0] for kind in wanted)
        why = f"it is {type(value).__name__}"
        raise InvalidInput(f"{name.replace('_', ' ')} must be {words}", why=why)
    return value


def _to_builtin(value: Any, wanted: list[str]) -> Any:
    if hasattr(value, "__fspath__"):
        return os.fspath(value)
    if wanted == [_TEXTS] and hasattr(value, "__iter__") and not isinstance(value, str | bytes):
        return [os.fspath(one) if hasattr(one, "__fspath__") else one for one in value]
    return value


def _is_of_kind(value: object, kind: str) -> bool:
    if isinstance(value, bool) and kind in ("int", "float"):
        return False
    inside = value if kind == _TEXTS and isinstance(value, list) else []
    return isinstance(value, _KINDS[kind][1]) and all(isinstance(one, str) for one in inside)


_MODULES = """
    api.agents api.backups api.devices api.files api.forestay
    api.remotes api.session api.workflows api.session_agents
    api.session_disputes api.session_files api.session_lifecycle api.session_record
    api.session_tasks plans.essay_steps plans.phases plans.prove plans.revisit
""".split()
"""Modules with public classes whose methods are wrapped."""


def check_public_classes() -> None:
    """Make the methods of all public classes check the types of their arguments."""
    from importlib import import_module

    from forestay.api.forestay import Forestay
    from forestay.api.session import Session
    from forestay.api.session_agents import AgentRun
    from forestay.journal.topics import HomeTopic, Topic

    public = (Forestay, Session, AgentRun, HomeTopic, Topic)
    for module in [import_module(f"forestay.{name}") for name in _MODULES]:
        for owner in vars(module).values():
            if isinstance(owner, type) and issubclass(owner, public):
                check_arguments(owner)
