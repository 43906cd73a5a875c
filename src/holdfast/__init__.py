"""Holdfast keeps the work of AI agents from getting lost.

    import holdfast

    with holdfast.open() as hf:
        s = hf.start("Add sensitivity analysis")
        s.note("the primary method is bootstrap")
        print(s.brief(budget=500).text)

Importing this package loads almost nothing; each part comes when it is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.errors import (
        Busy,
        Damaged,
        HoldfastError,
        InvalidInput,
        NoSession,
        Outdated,
        ReadOnly,
        Refused,
        RemoteFailed,
        StoreFailed,
        Tampered,
    )
    from holdfast.home import Holdfast, open
    from holdfast.session import Session
    from holdfast.verb.agent import AgentRun

__version__ = "0.1.0"

_HOME = {
    "open": "home",
    "Holdfast": "home",
    "Session": "session",
    "AgentRun": "verb.agent",
    "HoldfastError": "errors",
    "Busy": "errors",
    "Damaged": "errors",
    "InvalidInput": "errors",
    "NoSession": "errors",
    "Outdated": "errors",
    "ReadOnly": "errors",
    "Refused": "errors",
    "RemoteFailed": "errors",
    "StoreFailed": "errors",
    "Tampered": "errors",
}

__all__ = [
    "AgentRun",
    "Busy",
    "Damaged",
    "Holdfast",
    "HoldfastError",
    "InvalidInput",
    "NoSession",
    "Outdated",
    "ReadOnly",
    "Refused",
    "RemoteFailed",
    "Session",
    "StoreFailed",
    "Tampered",
    "__version__",
    "open",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    from importlib import import_module

    module = import_module(f"holdfast.{_HOME[name]}")
    if _HOME[name] != "errors":
        _guard_verbs()
    return getattr(module, name)


def _guard_verbs() -> None:
    from holdfast.home import Holdfast
    from holdfast.kinds import guard
    from holdfast.session import Session
    from holdfast.verb.agent import AgentRun

    for owner in (Holdfast, Session, AgentRun):
        guard(owner)


def __dir__() -> list[str]:
    return __all__
