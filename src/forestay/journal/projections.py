"""Data that is derived from a journal and stored with it: core, rows, listing, search text.

An append writes only what its events touch. Everything here can be computed again from the events.
"""

from __future__ import annotations

from collections.abc import Sequence

from forestay.journal.stored_state import encode
from forestay.model import event as ev
from forestay.model.event import Event, Sealed
from forestay.model.state import FOLD_VERSION, State
from forestay.model.summary import summary
from forestay.store.port import Batch, Entry, Stored


def as_sealed(stored: Stored) -> Sealed:
    """Return a stored event in the form in which it is transferred."""
    return Sealed(stored.header, stored.salt, stored.data)


def read(stored: Stored) -> Event:
    return ev.read(as_sealed(stored), stored.seq)


def encode_rows(state: State) -> list[tuple[str, str, bool, int, bytes]]:
    return [(t, k, row.is_open, row.rank, encode(row)) for t, k, row in state.rows.items()]


def listing(state: State) -> dict[str, object]:
    """Return the catalogue entry of a session."""
    core = state.core
    return {
        "status": core.status,
        "goal": core.goal,
        "archived": int(core.archived),
        "forgotten": int(core.forgotten),
        "began": core.began_at,
        "updated": core.updated_at,
        "summary": encode(summary(state)).decode(),
    }


def rebuild_batch(state: State, entries: Sequence[Entry] = ()) -> Batch:
    """Return the batch that replaces all derived data by that of this state."""
    return Batch(
        entries=entries,
        core=encode(state.core),
        fold=FOLD_VERSION,
        rows=encode_rows(state),
        listing=listing(state),
        fresh_rows=True,
    )


def search_text(stored: Stored) -> tuple[str, str] | None:
    """Return (kind, text) of an event that people search for, else None."""
    event = read(stored)
    fields = _SEARCHED.get(event.kind)
    if fields is None or isinstance(event.body, ev.Unknown | ev.Erased):
        return None
    parts = [getattr(event.body, field) for field in fields]
    texts = [" ".join(part) if isinstance(part, list) else part for part in parts]
    return event.kind, " ".join(filter(None, texts))


_SEARCHED = {
    "session.started": ("goal",),
    "session.adopted": ("goal",),
    "session.renamed": ("goal",),
    "note.added": ("text",),
    "message.sent": ("text",),
    "decision.made": ("what", "because", "chosen", "options"),
    "error.raised": ("message",),
    "agent.started": ("task",),
    "agent.failed": ("error",),
    "step.added": ("title",),
}
