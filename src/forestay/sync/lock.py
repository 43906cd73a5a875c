"""Alone: in a home, one visit to a remote at a time, and no change of keys while it lasts.

A visit seals with the keys that it found when it began. If someone were put out meanwhile, it
would go on sealing to them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from forestay.base import files
from forestay.errors import Busy
from forestay.journal.context import Context

FILE = "sync.lock"
PATIENCE = 30.0
"""How many seconds a change of keys waits for a visit to end."""


@contextmanager
def exclusive_sync(context: Context, wait: float | None = None) -> Iterator[None]:
    """Keep every other visit and change of keys out; `Busy` if one lasts too long."""
    files.make_private_dir(context.store.home)
    path = os.path.join(context.store.home, FILE)
    timeout = PATIENCE if wait is None else wait
    with ExitStack() as held:
        try:
            held.enter_context(
                files.locked(path, timeout=timeout, clock=context.clock, private=True)
            )
        except Busy:
            raise _under_way(changes_keys=wait is None, seconds=timeout) from None
        yield


def _under_way(*, changes_keys: bool, seconds: float) -> Busy:
    why = f"another one was still at it after {seconds:g} seconds, so this one moved nothing"
    hint = "nothing is lost: whatever is not there by then goes with the next sync"
    if changes_keys:
        why = "it goes on with the keys that it began with, so nothing was changed"
        hint = "when it is done, or stopped, try again"
    return Busy("a sync of this home is under way", why=why, hint=hint)
