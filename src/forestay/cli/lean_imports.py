"""Travelling light: in a process of our own, others load nothing that none of our commands needs.

Starting takes longer than working, and much of it is what modules of others import: argparse its
translations, msgspec the types and formats it knows beside ours. While those two are loaded, a
*stand-in* is found under the name of each such module. It has what is asked of it at that time;
if anything else ever is, it loads the module. Afterwards the name means the module again.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

_Module = type(sys)  # without loading `types`


class _Foreign:
    """In place of a type whose values are in no event of ours."""

    unknown = None


def speak_english() -> None:
    """Load argparse without its translations.

    Ours has none, so half of a message would be in another language; and looking for them
    costs as much as parsing does.
    """
    _load("argparse", {"gettext": {"gettext": str, "ngettext": _either}})
    import argparse

    # It may have been there before.
    argparse._ = argparse.gettext = str  # type: ignore[attr-defined]
    argparse.ngettext = _either  # type: ignore[attr-defined]


def _either(one: str, many: str, count: int) -> str:
    return one if count == 1 else many


def pack_msgspec() -> None:
    """Load msgspec without schemas, other formats, and types that are not ours."""
    # It does without, and where it is installed it takes as long as bare Python.
    sys.modules.setdefault("typing_extensions", None)  # type: ignore[arg-type]
    types: dict[str, dict[str, object]] = {
        "uuid": {"UUID": _Foreign, "SafeUUID": _Foreign},
        "decimal": {"Decimal": _Foreign},
    }
    unused = ("msgspec.inspect", "msgspec.toml", "msgspec.yaml", "textwrap")
    import _signal  # type: ignore[import-not-found]  # `signal` loads much to give them names

    # An interrupt while it starts is lost in it, and kills the process at the first type it meets.
    before = _signal.pthread_sigmask(_signal.SIG_BLOCK, [_signal.SIGINT])
    try:
        _load("msgspec", {**types, **{name: {} for name in unused}})
    finally:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)
        if sys.modules["typing_extensions"] is None:
            del sys.modules["typing_extensions"]  # others, such as drivers, cannot do without


def _load(name: str, instead: dict[str, dict[str, object]]) -> None:
    if name in sys.modules:
        return
    placed = {other: _stand_in(other, has) for other, has in instead.items()}
    try:
        __import__(name)
    except Exception:
        # A version that needs more than that: whoever imports it next loads all of it.
        sys.modules.pop(name, None)
    finally:
        for other, module in placed.items():
            _leave(other, module)


def _stand_in(name: str, has: dict[str, object]) -> ModuleType:
    module = _Module(name)

    def ask(attribute: str) -> object:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        _leave(name, module)
        __import__(name)
        return getattr(sys.modules[name], attribute)

    module.__dict__.update(has, __getattr__=ask)
    sys.modules.setdefault(name, module)
    return module


def _leave(name: str, module: ModuleType) -> None:
    if sys.modules.get(name) is module:
        del sys.modules[name]
