"""Forestay keeps the work of AI agents from getting lost.

    import forestay

    with forestay.open() as stay:
        s = stay.start("Add sensitivity analysis")
        s.note("the primary method is bootstrap")
        print(s.brief(budget=500))

Importing this package loads almost nothing; each part comes when it is first used.
"""

from __future__ import annotations

from forestay.base.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.api.forestay import Forestay, open
    from forestay.api.session import Session
    from forestay.api.session_agents import AgentRun
    from forestay.errors import (
        Busy,
        Damaged,
        ForestayError,
        InvalidInput,
        NoSession,
        Outdated,
        ReadOnly,
        Refused,
        RemoteFailed,
        StoreFailed,
        Tampered,
    )

_HOME = {
    "open": "api.forestay",
    "Forestay": "api.forestay",
    "Session": "api.session",
    "AgentRun": "api.session_agents",
    "ForestayError": "errors",
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
    "Forestay",
    "ForestayError",
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
        raise AttributeError(f"module 'forestay' has no attribute {name!r}")
    from importlib import import_module

    module = import_module(f"forestay.{_HOME[name]}")
    if _HOME[name] != "errors":
        from forestay.api.argument_check import check_public_classes

        check_public_classes()
    return getattr(module, name)


def __dir__() -> list[str]:
    return __all__
