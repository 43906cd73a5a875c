"""A lock per home: one sync at a time, and no change of keys during a sync.

A sync seals with the keys that it found at its start. If a member were removed in the meantime, it
would still seal to that member.
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
    """Exclude every other sync and change of keys; raise `Busy` if one takes too long.

    A sync says how long it waits; a change of keys does not.
    """
    files.make_private_dir(context.store.home)
    path = os.path.join(context.store.home, FILE)
    timeout = PATIENCE if wait is None else wait
    with ExitStack() as held:
        lock = files.locked(path, timeout=timeout, clock=context.clock, private=True)
        try:
            held.enter_context(lock)
        except Busy:
            why = (
                f"another one was still running after {timeout:g} seconds, so this one did nothing"
            )
            hint = "nothing is lost: the next sync pushes the rest"
            if wait is None:
                why = "it uses the keys from its start, so nothing was changed"
                hint = "try again when it has ended"
            raise Busy("a sync of this home is running", why=why, hint=hint) from None
        yield
