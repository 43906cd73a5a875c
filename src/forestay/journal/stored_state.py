"""The stored state of a session: the core, and rows that are read on demand.

Reading it needs neither the rules nor the fold, so a briefing starts without loading them. A state
that is damaged or of another version is folded again from the events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import msgspec

from forestay.errors import Damaged
from forestay.model.state import FOLD_VERSION, TABLES, Core, Row, Rows, State
from forestay.store.port import View

_CACHED_ROWS = 4096

encode = msgspec.json.Encoder().encode
_decode_core = msgspec.json.Decoder(Core).decode


@cache
def _decoder(table: str) -> Callable[[bytes], Row]:
    # Built on first use: building all decoders would slow every start.
    decode: Callable[[bytes], Row] = msgspec.json.Decoder(TABLES[table]).decode
    return decode


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
                return rows  # do not add the table to the cache: it may be large
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
    """Return the state of a session, and whether it had to be folded from the journal."""
    if not view.exists:
        return State(), True
    core = stored_core(view)
    if core is None:
        from forestay.model.event import Sealed, read  # start-up
        from forestay.model.fold import fold  # start-up

        stored = view.events()
        return fold(read(Sealed(s.header, s.salt, s.data), s.seq) for s in stored), True
    rows = StoredRows()
    rows.attach(view)
    return State(core, rows), False


def stored_core(view: View) -> Core | None:
    """Return the stored core; None if it is damaged or of another version."""
    try:
        return _decode_core(view.core) if view.fold == FOLD_VERSION else None
    except msgspec.MsgspecError:
        return None


def looks_intact(view: View) -> bool:
    """Return whether the events are as written and none is missing, by their checksum."""
    core = stored_core(view)
    if core is None or view.lost() or not (view.intact() and view.listed_well):
        return False
    heads = {digest for chain in core.chains.values() for _, digest, _ in chain.heads}
    return view.remembered is None or view.remembered.hash in heads


def require_intact(view: View) -> None:
    """Refuse to erase from damaged events: the new checksum would hide the damage."""
    if not view.intact():
        raise Damaged(
            f"events of session {view.session} are damaged",
            why="nothing was erased",
            hint="run: forestay doctor --fix, then repeat the command",
            session=view.session,
        )
