"""A lock per home: one sync at a time, and no change of keys during a sync.

A sync encrypts with the keys that it read at its start. If a member were removed during the sync,
that member could still read what the sync uploads.
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
"""How many seconds a change of keys waits for a sync to end."""


@contextmanager
def exclusive_sync(context: Context, wait: float | None = None) -> Iterator[None]:
    """Exclude every other sync and change of keys; raise `Busy` if another one does not end.

    A sync passes `wait`, in seconds. A change of keys does not: it waits `PATIENCE` seconds.
    """
    files.make_private_dir(context.store.home)
    path = os.path.join(context.store.home, FILE)
    timeout = PATIENCE if wait is None else wait
    with ExitStack() as held:
        lock = files.locked(path, timeout=timeout, clock=context.clock, private=True)
        try:
            held.enter_context(lock)
        except Busy:
            why = f"it did not end within {timeout:g} seconds, so this sync was not started"
            hint = "nothing is lost: the next sync pushes the rest"
            if wait is None:
                why = "keys cannot be changed during a sync, so nothing was changed"
                hint = "try again when the sync has ended"
            raise Busy("another sync of this home is running", why=why, hint=hint) from None
        yield
