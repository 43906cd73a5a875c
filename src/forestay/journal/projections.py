"""What is derived from a journal and stored next to it: core, rows, listing, search text.

The core is one value. `StoredRows` reads rows on demand and writes back changed ones, so an append
loads and writes only what its events touch. Everything here can be computed again from the events,
so what is damaged or of another version is folded again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache

import msgspec

from forestay.model import event as ev
from forestay.model.event import Body, Event, Sealed
from forestay.model.fold import FOLD_VERSION, fold
from forestay.model.state import TABLES, Core, Row, Rows, State
from forestay.model.summary import summary
from forestay.store.port import Batch, Entry, Stored, View

_CACHED_ROWS = 4096

encode = msgspec.json.Encoder().encode
_decode_core = msgspec.json.Decoder(Core).decode


@cache
def _decoder(table: str) -> Callable[[bytes], Row]:
    # Built on first use: building all decoders would slow every start.
    decode: Callable[[bytes], Row] = msgspec.json.Decoder(TABLES[table]).decode
    return decode


def as_sealed(stored: Stored) -> Sealed:
    """Return a stored event in the form in which it is transferred."""
    return Sealed(stored.header, stored.salt, stored.data)


def read(stored: Stored) -> Event:
    return ev.read(as_sealed(stored), stored.seq)


class StoredRows(Rows):
    """Rows of a store, read on demand; changes stay in memory until the append writes them."""

    def __init__(self) -> None:
        self._view: View | None = None
        self._known: dict[tuple[str, str], Row | None] = {}
        self._changed: dict[tuple[str, str], Row] = {}
        self._selected: dict[tuple[str, bool, bool, int], list[Row]] = {}

    def attach(self, view: View | None) -> None:
        self._view = view
        if len(self._known) > _CACHED_ROWS:
            self._known.clear()

    def get(self, table: str, key: str) -> Row | None:
        place = (table, key)
        if place not in self._known:
            value = self._open_view().row(table, key)
            self._known[place] = None if value is None else _decoder(table)(value)
        return self._known[place]

    def put(self, table: str, key: str, row: Row) -> None:
        self._known[table, key] = self._changed[table, key] = row
        for asked in [each for each in self._selected if each[0] == table]:
            del self._selected[asked]

    def select(
        self, table: str, *, open_only: bool = False, newest: bool = False, limit: int = -1
    ) -> list[Row]:
        view, asked = self._open_view(), (table, open_only, newest, limit)
        if asked not in self._selected:
            rows = self._select(view, table, open_only=open_only, newest=newest, limit=limit)
            if limit < 0:
                return rows  # which may be many
            self._selected[asked] = rows
        return list(self._selected[asked])

    def _select(
        self, view: View, table: str, *, open_only: bool, newest: bool, limit: int
    ) -> list[Row]:
        changed = {key: row for (name, key), row in self._changed.items() if name == table}
        reach = limit + len(changed) if limit >= 0 else -1
        values = view.rows(table, open_only=open_only, newest=newest, limit=reach)
        rows = [row for row in map(_decoder(table), values) if row.name not in changed]
        rows += [row for row in changed.values() if row.is_open or not open_only]
        rows.sort(key=lambda row: (row.rank, row.name), reverse=newest)
        return rows if limit < 0 else rows[:limit]

    def items(self) -> Iterator[tuple[str, str, Row]]:
        for table, key, _, _, value in self._open_view().all_rows():
            if (table, key) not in self._changed:
                yield table, key, _decoder(table)(value)
        yield from ((*place, row) for place, row in self._changed.items())

    def pop_changes(self) -> list[tuple[str, str, bool, int, bytes]]:
        if not self._changed:
            return []
        changed, self._changed = self._changed, {}
        return [(*place, row.is_open, row.rank, encode(row)) for place, row in changed.items()]

    def _open_view(self) -> View:
        if self._view is None:
            raise RuntimeError("rows can only be read while their session is open")
        return self._view


def load(view: View) -> tuple[State, bool]:
    if not view.exists:
        return State(), True
    core = stored_core(view)
    if core is None:
        return fold(map(read, view.events())), True
    rows = StoredRows()
    rows.attach(view)
    return State(core, rows), False


def stored_core(view: View) -> Core | None:
    """Return the stored core; None if it is damaged or of another version."""
    try:
        return _decode_core(view.core) if view.fold == FOLD_VERSION else None
    except msgspec.MsgspecError:
        return None


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
    """Return the batch that replaces everything derived by a fresh fold."""
    return Batch(
        entries=entries,
        core=encode(state.core),
        fold=FOLD_VERSION,
        rows=encode_rows(state),
        listing=listing(state),
        fresh_rows=True,
    )


def blob_digest_of(body: Body) -> str:
    """Return the SHA-256 of the content stored with an event, or an empty string."""
    if isinstance(body, ev.NoteAdded | ev.MessageSent | ev.EvidenceObserved | ev.Verdict):
        return body.blob
    if isinstance(body, ev.PlanSet):
        return body.snapshot
    return body.digest if isinstance(body, ev.ArtifactSaved) and body.kept else ""


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
