"""Load argparse and msgspec without modules that no command needs, so that commands start faster.

Starting takes longer than most commands, and much of it is spent on what these two import:
argparse loads translations, msgspec loads types and formats that Forestay does not use. While they
are loaded, a *stub* replaces each such module in `sys.modules`. It has the attributes that are
read during the import; reading any other attribute loads the real module. Afterwards the stubs
are removed. Only the program's own process does this, not programs that use the library.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

_Module = type(sys)  # `types.ModuleType`, without loading `types`


class _UnusedType:
    """Replace a type that no event contains."""

    unknown = None


def load_argparse() -> None:
    """Load argparse without its translations.

    Our messages are not translated, so half of a message would be in another language; and
    searching for translations takes as long as parsing.
    """
    _load("argparse", {"gettext": {"gettext": str, "ngettext": _singular_or_plural}})
    import argparse

    # Set these even if argparse was loaded before, with its translations.
    argparse._ = argparse.gettext = str  # type: ignore[attr-defined]
    argparse.ngettext = _singular_or_plural  # type: ignore[attr-defined]


def _singular_or_plural(one: str, many: str, count: int) -> str:
    return one if count == 1 else many


def load_msgspec() -> None:
    """Load msgspec without schemas, other formats, and unused types."""
    # Optional for msgspec, and loading it takes as long as starting Python.
    sys.modules.setdefault("typing_extensions", None)  # type: ignore[arg-type]
    types: dict[str, dict[str, object]] = {
        "uuid": {"UUID": _UnusedType, "SafeUUID": _UnusedType},
        "decimal": {"Decimal": _UnusedType},
    }
    unused = ("msgspec.inspect", "msgspec.toml", "msgspec.yaml", "textwrap")
    import _signal  # type: ignore[import-not-found]  # the module `signal` also loads `enum`

    # msgspec swallows an interrupt during its import, and later crashes at its first type.
    before = _signal.pthread_sigmask(_signal.SIG_BLOCK, [_signal.SIGINT])
    try:
        _load("msgspec", {**types, **{name: {} for name in unused}})
    finally:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)
        if sys.modules["typing_extensions"] is None:
            del sys.modules["typing_extensions"]  # database drivers need it


def _load(name: str, stubs: dict[str, dict[str, object]]) -> None:
    if name in sys.modules:
        return
    modules = {other: _place_stub(other, attributes) for other, attributes in stubs.items()}
    try:
        __import__(name)
    except Exception:
        # This version needs more than the stubs have: the next import loads all of it.
        sys.modules.pop(name, None)
    finally:
        for other, module in modules.items():
            _remove_stub(other, module)


def _place_stub(name: str, attributes: dict[str, object]) -> ModuleType:
    module = _Module(name)

    def load_real(attribute: str) -> object:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        _remove_stub(name, module)
        __import__(name)
        return getattr(sys.modules[name], attribute)

    module.__dict__.update(attributes, __getattr__=load_real)
    sys.modules.setdefault(name, module)
    return module


def _remove_stub(name: str, module: ModuleType) -> None:
    if sys.modules.get(name) is module:
        del sys.modules[name]
