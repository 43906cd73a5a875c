"""The journal: the only writer of events, and the one place that says whether they are sound.

An append runs under the store's writer lock: the state as it is then, `decide`, the events
sealed into this device's chain, the state after them, all in one transaction. `Rows` are read
through and written back, so only what an event touches is loaded.

Two things make a device take a new id before it writes again, because its chain would fork
otherwise: the store remembers a later head than the database has (an old copy was put back), or
the chain has two ends (a copy of this home went on elsewhere and came back).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, get_type_hints

import msgspec
from msgspec import Struct

from holdfast.clock import Clock, derived_id, new_id, short_id
from holdfast.errors import Damaged, Refused
from holdfast.model import event as ev
from holdfast.model.chain import check_link, next_event
from holdfast.model.event import Body, Event, Header, Sealed
from holdfast.model.fold import FOLD_VERSION, extend, fold, follows
from holdfast.model.merge import in_order
from holdfast.model.rules import decide, validate
from holdfast.model.state import TABLES, Core, Row, Rows, State
from holdfast.model.summary import summary
from holdfast.redact import Redactor
from holdfast.store import Batch, Entry, Head, Store, Stored, View
from holdfast.text import clean_id, clean_input

_CACHED_ROWS = 4096
_MAX_TEXT = 4000
_LAST_MS = 2**53 - 1
_LIMITS = {"goal": 2000, "text": 10_000, "arguments": 8000, "summary": 8000, "snapshot": 15_000}
_ONE_LINE = frozenset({"goal", "what", "title", "name", "type", "reason", "key", "path", "model"})
_IDS = frozenset({"step", "agent", "claim", "parent", "blocking_on"})

_encode = msgspec.json.Encoder().encode
_decode_core = msgspec.json.Decoder(Core).decode


@cache
def _decoder(table: str) -> Callable[[bytes], Row]:
    # Made when a table is first met: all of them would cost every start.
    decode: Callable[[bytes], Row] = msgspec.json.Decoder(TABLES[table]).decode
    return decode


class Recorded(Struct, frozen=True):
    """What an append acknowledged. `repeated` means the key had been used: nothing was added."""

    events: list[Event]
    state: State
    repeated: bool = False


class Finding(Struct, frozen=True):
    """Something that is not as it should be, and what it means for the user."""

    code: str
    message: str
    seq: int = 0


class Report(Struct, frozen=True):
    """The outcome of a verification."""

    session: str
    events: int
    findings: list[Finding]

    @property
    def ok(self) -> bool:
        return not self.findings


class StoredRows(Rows):
    """Rows of a store: read through, changes kept until the append writes them."""

    def __init__(self) -> None:
        self._view: View | None = None
        self._known: dict[tuple[str, str], Row | None] = {}
        self._changed: dict[tuple[str, str], Row] = {}

    def look_at(self, view: View | None) -> None:
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

    def select(
        self, table: str, *, open_only: bool = False, newest: bool = False, limit: int = -1
    ) -> list[Row]:
        changed = {key: row for (name, key), row in self._changed.items() if name == table}
        reach = limit + len(changed) if limit >= 0 else -1
        values = self._open_view().rows(table, open_only=open_only, newest=newest, limit=reach)
        rows = [row for row in map(_decoder(table), values) if row.name not in changed]
        rows += [row for row in changed.values() if row.is_open or not open_only]
        rows.sort(key=lambda row: (row.rank, row.name), reverse=newest)
        return rows if limit < 0 else rows[:limit]

    def items(self) -> Iterator[tuple[str, str, Row]]:
        for table, key, _, _, value in self._open_view().all_rows():
            yield table, key, _decoder(table)(value)

    def take_changes(self) -> list[tuple[str, str, bool, int, bytes]]:
        changed, self._changed = self._changed, {}
        return [(*place, row.is_open, row.rank, _encode(row)) for place, row in changed.items()]

    def _open_view(self) -> View:
        if self._view is None:
            raise RuntimeError("rows are only readable while their session is being looked at")
        return self._view


class Journal:
    def __init__(self, store: Store, clock: Clock, redactor: Redactor) -> None:
        self.store = store
        self._clock = clock
        self._redactor = redactor
        # session → (core as stored, state): spares a process that writes on from decoding it. A
        # write takes its entry out and puts it back when it is done: one that fails may have
        # run ahead of what is stored.
        self._cache: dict[str, tuple[bytes, State]] = {}

    # -- appending -----------------------------------------------------------------------------

    def append(
        self,
        session: str,
        body: Body,
        *,
        actor: str,
        key: str = "",
        create: bool = False,
        at: int | None = None,
        blobs: Sequence[tuple[str, bytes]] = (),
    ) -> Recorded:
        """Decide and record one move; durable when it returns.

        With a `key`, doing it again returns what the first time recorded.
        """
        return self.append_moves(
            session, [body], actor=actor, key=key, create=create, at=at, blobs=blobs
        )

    def append_moves(
        self,
        session: str,
        moves: Sequence[Body],
        *,
        actor: str,
        key: str = "",
        create: bool = False,
        at: int | None = None,
        blobs: Sequence[tuple[str, bytes]] = (),
    ) -> Recorded:
        """Decide and record several moves together: all of them, or none."""
        moves = [self._clean(body) for body in moves]
        id = derived_id(session.lower(), key) if key else ""
        done: list[tuple[str, bytes, Recorded]] = []

        def plan(view: View) -> Batch | None:
            state, fresh = self._state(view)
            if id and (earlier := view.find(id)):
                repeated = Recorded(
                    [_same_call(key, _read(earlier), moves[-1])], state, repeated=True
                )
                done.append((view.session, view.core, repeated))
                return None
            writing = _Writing(self._clock, view, state, fresh=fresh)
            for left, move in zip(reversed(range(len(moves))), moves, strict=True):
                # The last one is found by the key.
                own = f"{id}.{left}" if id and left else id
                writing.record_all(decide(writing.state, move), actor=actor, id=own, at=at)
            batch = writing.batch()
            done.append((view.session, batch.core, Recorded(writing.events, writing.state)))
            return batch

        self.store.append(session, plan, create=create, blobs=blobs)
        return self._remember(*done[-1])

    def _remember(self, session: str, core: bytes, recorded: Recorded) -> Recorded:
        rows = recorded.state.rows
        if isinstance(rows, StoredRows):
            rows.look_at(None)
            self._cache[session] = (core, recorded.state)
        return recorded

    def redacted(self, text: str) -> str:
        """The text with every secret taken out."""
        return self._redactor.text(text)[0]

    def secrets_in(self, text: str) -> list[str]:
        """Names of the kinds of secrets a text holds."""
        return self._redactor.text(text)[1]

    def _redact(self, body: Body, field: str, value: object) -> tuple[object, list[str]]:
        if isinstance(body, ev.AttributeSet) and field == "value" and isinstance(value, str):
            # What stands under API_TOKEN is a secret whatever it looks like.
            return self._redactor.pair(body.key, value)
        return self._redactor.value(value)

    def _clean(self, body: Body) -> Body:
        """Refuse what cannot be kept, take secrets out of the rest."""
        changes: dict[str, Any] = {}
        names: list[str] = []
        for field in _texts(type(body)):
            value = getattr(body, field)
            if not value and field not in _required(type(body)):
                continue
            clean, found = self._redact(body, field, _checked(field, value))
            if clean != value:
                changes[field] = clean
            names += found
        if names:
            changes["redacted"] = sorted({*body.redacted, *names})
        clean_body = msgspec.structs.replace(body, **changes) if changes else body
        validate(clean_body)
        return clean_body

    def _state(self, view: View) -> tuple[State, bool]:
        """The state under a view, and whether it had to be folded from the journal."""
        core, state = self._cache.pop(view.session, (b"", State()))
        if core and core == view.core and isinstance(state.rows, StoredRows):
            state.rows.look_at(view)
            return state, False
        return _load(view)

    # -- other devices' events -----------------------------------------------------------------

    def absorb(
        self, session: str, incoming: Sequence[Sealed], blobs: Sequence[tuple[str, bytes]] = ()
    ) -> int:
        """Merge events of a pack into the session; returns how many were new.

        Only whole, causally closed histories are taken: an event whose chain or whose `seen`
        heads are not held is refused, and then none is taken.
        """
        added: list[int] = [0]

        def plan(view: View) -> Batch | None:
            state, _ = self._state(view)
            if state.core.forgotten:
                raise Refused(
                    f"session {session} was forgotten here",
                    why="its content must not come back",
                    hint="import it under another home if you want it again",
                )
            held = list(view.events())
            fresh = _new_events(session, held, incoming)
            added[0] = len(fresh)
            if not fresh and not (blobs and held):
                return None
            return self._merged(view, held, fresh)

        self.store.append(session, plan, create=True, blobs=blobs)
        return added[0]

    def _merged(self, view: View, held: Sequence[Stored], fresh: Sequence[Sealed]) -> Batch:
        state = fold([*map(_read, held), *map(ev.read, fresh)])
        headers = [ev.parse_header(sealed.header) for sealed in fresh]
        return Batch(
            # Found by id too: whoever repeats a keyed call after a restore must not do it twice.
            entries=[
                Entry(s.header, s.salt, s.data, h.id) for s, h in zip(fresh, headers, strict=True)
            ],
            core=_encode(state.core),
            fold=FOLD_VERSION,
            rows=_all_rows(state),
            listing=listing(state),
            fresh_rows=True,
            # Events under our own id that we did not write: a copy of this home wrote them.
            device=_new_device_if_copied(headers, view.device, self._clock),
        )

    # -- reading -------------------------------------------------------------------------------

    def state(self, view: View) -> State:
        """The state under an open view, for reading."""
        return _load(view)[0]

    def events(
        self, view: View, *, after: int = 0, limit: int = -1, newest: bool = False
    ) -> Iterator[Event]:
        return map(_read, view.events(after=after, limit=limit, newest=newest))

    # -- forgetting ----------------------------------------------------------------------------

    def forget(self, session: str, *, actor: str) -> None:
        """Append the tombstone and erase everything else of the session, for good."""

        def plan(view: View) -> Batch:
            state, _ = self._state(view)
            writing = _Writing(self._clock, view, state, fresh=True)
            writing.record_all(decide(state, ev.SessionForgotten()), actor=actor, id="", at=None)
            writing.state = fold(map(_erased, [*view.events(), *writing.entries()]))
            return writing.batch()

        self.store.erase(session, plan)

    # -- verification --------------------------------------------------------------------------

    def rebuild(self, session: str) -> None:
        """Make everything derived anew from the events, which stay as they are."""

        def plan(view: View) -> Batch:
            state = fold(map(_read, view.events()))
            return Batch(
                entries=(),
                core=_encode(state.core),
                fold=FOLD_VERSION,
                rows=_all_rows(state),
                listing=listing(state),
                fresh_rows=True,
                # Damaged events must never be given a sum that fits them.
                resum=not list(_chain_findings(view, list(view.events()))),
            )

        self.store.append(session, plan)

    def check_chain(self, view: View) -> list[Finding]:
        """Whether the events are what was written and none is missing; what `resume` relies on.

        A sum over all of them answers that quickly; only when it does not agree is every event
        looked at by itself, to say what is wrong.
        """
        core = _stored_core(view)
        if core is not None and view.intact() and not view.lost():
            heads = {digest for chain in core.chains.values() for _, digest, _ in chain.heads}
            if view.remembered is None or view.remembered.hash in heads:
                return []
        return list(_chain_findings(view, list(view.events())))

    def verify(self, session: str) -> Report:
        """The chains, the remembered heads, and everything derived against a fresh fold."""
        with self.store.view(session) as view:
            stored = list(view.events())
            findings = list(_chain_findings(view, stored))
            if not any(f.code == "unreadable" for f in findings):
                findings += _missing_content(self.store, stored)
                findings += _derived_findings(view, fold(map(_read, stored)))
            if not findings and not view.intact():
                findings.append(Finding("sum", "the sums over events and tables differ from them"))
            if not findings:
                findings += _listing_findings(view)
            return Report(session, len(stored), findings)


class _Writing:
    """One append in the making: the state moves on with each event that is recorded."""

    def __init__(self, clock: Clock, view: View, state: State, *, fresh: bool) -> None:
        self._clock = clock
        self._view = view
        self._fresh = fresh
        self._entries: list[Entry] = []
        self.state = state
        self.events: list[Event] = []
        self._device, self._lost = _device_for(view, state.core, self._clock)

    def record_all(self, bodies: Sequence[Body], *, actor: str, id: str, at: int | None) -> None:
        """Record moves; the last one, which was asked for, carries the id."""
        for i, body in enumerate(bodies, start=1):
            own = id if i == len(bodies) or not id else f"{id}-{i}"
            self._record(body, actor=actor, id=own, at=at)

    def _record(self, body: Body, *, actor: str, id: str, at: int | None) -> None:
        now = self._clock.now() if at is None else at
        sealed, event = next_event(
            self.state.core,
            body,
            session=self._view.session,
            device=self._device,
            id=id or new_id(self._clock),
            # A clock gone mad must not make an event that nobody can read.
            at=max(-_LAST_MS, min(now, _LAST_MS)),
            actor=actor,
            salt=self._clock.random(ev.SALT_BYTES),
        )
        event = msgspec.structs.replace(event, seq=self._view.seq + len(self.events) + 1)
        self._entries.append(Entry(sealed.header, sealed.salt, sealed.data, id or None))
        self._take_effect(event)
        self.events.append(event)

    def _take_effect(self, event: Event) -> None:
        if follows(self.state, event):
            extend(self.state, event)
            return
        everything = [*map(_read, self._view.events()), *self.events, event]
        self.state, self._fresh = fold(everything), True

    def entries(self) -> list[Stored]:
        """What was recorded, as it will lie in the store."""
        made = enumerate(self._entries, start=self._view.seq + 1)
        return [Stored(seq, entry.header, entry.salt, entry.data) for seq, entry in made]

    def batch(self) -> Batch:
        rows = self.state.rows
        last = self.events[-1]
        # Before the rows are taken: the summary may still look at them through the view.
        shown = listing(self.state)
        changed = rows.take_changes() if isinstance(rows, StoredRows) else _all_rows(self.state)
        if self._fresh:
            self.state = State(self.state.core, StoredRows())
        return Batch(
            entries=self._entries,
            core=_encode(self.state.core),
            fold=FOLD_VERSION,
            rows=changed,
            listing=shown,
            head=Head(self._device, last.head.n, last.hash),
            fresh_rows=self._fresh,
            device=self._device if self._device != self._view.device else None,
            lost=self._lost,
        )


def listing(state: State) -> dict[str, object]:
    """What the catalogue shows of a session."""
    core = state.core
    return {
        "status": core.status,
        "goal": core.goal,
        "archived": int(core.archived),
        "forgotten": int(core.forgotten),
        "began": core.began_at,
        "updated": core.updated_at,
        "summary": _encode(summary(state)).decode(),
    }


def _read(stored: Stored) -> Event:
    return ev.read(Sealed(stored.header, stored.salt, stored.data), stored.seq)


def _erased(stored: Stored) -> Event:
    return ev.read(Sealed(stored.header, None, None), stored.seq)


def _all_rows(state: State) -> list[tuple[str, str, bool, int, bytes]]:
    return [(t, k, row.is_open, row.rank, _encode(row)) for t, k, row in state.rows.items()]


def _device_for(view: View, core: Core, clock: Clock) -> tuple[str, list[tuple[str, int, str]]]:
    """The device id to write under, and the heads that were acknowledged but are not there."""
    lost = _lost_head(view.remembered, core)
    chain = core.chains.get(view.device)
    if (chain and len(chain.heads) > 1) or any(device == view.device for device, _, _ in lost):
        return short_id(clock, 12), lost
    return view.device, lost


def _lost_head(left: Head | None, core: Core) -> list[tuple[str, int, str]]:
    """The remembered head if the journal ends before it. One that lags behind is no loss."""
    if left is None:
        return []
    chain = core.chains.get(left.device)
    heads = chain.heads if chain else []
    newest = max((n for n, _, _ in heads), default=0)
    if left.n < newest or any(digest == left.hash for _, digest, _ in heads):
        return []
    return [(left.device, left.n, left.hash)]


def _checked(field: str, value: Any) -> Any:
    if isinstance(value, str):
        return _checked_text(field, value)
    if isinstance(value, list):
        return [_checked(field, item) for item in value]
    if isinstance(value, dict):
        return {_checked("key", k): _checked(field, v) for k, v in value.items()}
    return value


@cache
def _texts(kind: type[Body]) -> list[str]:
    """Fields of a body that may hold words of people: all but numbers, flags and digests."""
    hints = get_type_hints(kind)
    return [
        name
        for name in kind.__struct_fields__
        if name not in ev.DIGESTS | {"redacted"} and hints[name] not in (int, bool, float)
    ]


@cache
def _required(kind: type[Body]) -> frozenset[str]:
    return frozenset(field.name for field in msgspec.structs.fields(kind) if field.required)


def _checked_text(field: str, value: str) -> str:
    if field in _IDS:
        return clean_id(value, field.replace("_", " "))
    limit = _LIMITS.get(field, _MAX_TEXT)
    return clean_input(value, field.replace("_", " "), limit=limit, lines=field not in _ONE_LINE)


def _new_device_if_copied(headers: Iterable[Header], device: str, clock: Clock) -> str | None:
    return short_id(clock, 12) if any(h.device == device for h in headers) else None


def _load(view: View) -> tuple[State, bool]:
    if not view.exists:
        return State(), True
    core = _stored_core(view)
    if core is None:
        return fold(map(_read, view.events())), True
    rows = StoredRows()
    rows.look_at(view)
    return State(core, rows), False


def _stored_core(view: View) -> Core | None:
    """The core beside the journal; None if it is damaged or of another version."""
    try:
        return _decode_core(view.core) if view.fold == FOLD_VERSION else None
    except msgspec.MsgspecError:
        return None


def _new_events(session: str, held: Sequence[Stored], incoming: Sequence[Sealed]) -> list[Sealed]:
    """The events not held yet, in an order in which each follows its parents; all are checked."""
    headers = {_hash(stored): ev.parse_header(stored.header) for stored in held}
    fresh = {s.hash: s for s in incoming if s.hash not in headers}
    ordered = in_order(map(ev.read, fresh.values()))
    for event in ordered:
        sealed = fresh[event.hash]
        wrong = ev.check(sealed, event.head)
        if event.head.session.lower() != session.lower():
            wrong = f"it belongs to session {event.head.session}"
        wrong = wrong or check_link(event.head, headers.get)
        if wrong:
            raise Damaged(f"event {event.address} cannot be taken", why=wrong, session=session)
        headers[event.hash] = event.head
    return [fresh[event.hash] for event in ordered]


def _hash(stored: Stored) -> str:
    return Sealed(stored.header, stored.salt, stored.data).hash


def _chain_findings(view: View, stored: Sequence[Stored]) -> Iterator[Finding]:
    headers: dict[str, Header] = {}
    for expected, one in enumerate(stored, start=1):
        if one.seq != expected:
            yield Finding("gap", f"event {expected} is missing", expected)
            return
        sealed = Sealed(one.header, one.salt, one.data)
        try:
            header = ev.parse_header(one.header)
        except Damaged as error:
            yield Finding("unreadable", f"event {one.seq}: {error}", one.seq)
            return
        wrong = ev.check(sealed, header) or check_link(header, headers.get)
        if wrong:
            yield Finding("broken", f"event {one.seq}: {wrong}", one.seq)
        headers[sealed.hash] = header
    if view.seq != len(stored):
        yield Finding("tail", f"the last {view.seq - len(stored)} event(s) are missing", view.seq)
    yield from _missing_heads(view, headers)


def _missing_heads(view: View, headers: dict[str, Header]) -> Iterator[Finding]:
    left = view.remembered
    wanted = [(left.device, left.n, left.hash)] if left else []
    for device, n, digest in [*wanted, *view.lost()]:
        if digest not in headers:
            yield Finding(
                "lost",
                f"events up to {device}:{n} were acknowledged here and are not there any more",
            )


def _missing_content(store: Store, stored: Iterable[Stored]) -> Iterator[Finding]:
    """Long notes and artifacts whose content is gone or is not what was kept."""
    for one in stored:
        event = _read(one)
        digest = content_of(event.body)
        if not digest:
            continue
        try:
            there = store.blob(digest) is not None
        except Damaged as error:
            yield Finding("content", f"event {one.seq}: {error}", one.seq)
            continue
        if not there:
            yield Finding("content", f"event {one.seq}: its content is gone", one.seq)


def content_of(body: Body) -> str:
    """The SHA-256 of what is kept beside an event, or an empty string."""
    if isinstance(body, ev.NoteAdded):
        return body.blob
    return body.digest if isinstance(body, ev.ArtifactSaved) and body.kept else ""


def _derived_findings(view: View, fresh: State) -> Iterator[Finding]:
    core = _stored_core(view)
    if core is None:
        yield Finding("core", "the stored state is damaged or of another version")
    elif _encode(core) != _encode(fresh.core):
        yield Finding("core", "the stored state differs from the journal")
    try:
        there = {(t, k): (o, r, v) for t, k, o, r, v in view.all_rows()}
    except Damaged as error:
        yield Finding("rows", str(error))
        return
    want = {(t, k): (o, r, v) for t, k, o, r, v in _all_rows(fresh)}
    for place in sorted(there.keys() | want.keys()):
        if there.get(place) != want.get(place):
            yield Finding("rows", f"{place[0]} {place[1]} differs from the journal")


def _listing_findings(view: View) -> Iterator[Finding]:
    rows, listed = StoredRows(), view.listing()
    rows.look_at(view)
    state = State(_decode_core(view.core), rows)
    for name, value in listing(state).items():
        if name in listed and listed[name] != value:
            yield Finding("catalogue", f"the listed {name} differs from the journal")


def _same_call(key: str, earlier: Event, move: Body) -> Event:
    """A key stands for one call: another call under it would be acknowledged and dropped."""
    names = _ASKED.get(type(move), move.__struct_fields__)
    same = type(move) is type(earlier.body) and all(
        getattr(move, name) == getattr(earlier.body, name) for name in names
    )
    if not same:
        raise Refused(
            f"the key {key} was used for something else",
            why=f"it stands for event {earlier.seq}, {earlier.kind}",
            hint="use a key of its own for every call",
        )
    return earlier


# Of these the rest was worked out when they were recorded, and may have changed since.
_ASKED: dict[type[Body], tuple[str, ...]] = {
    ev.SessionStarted: ("goal", "mode"),
    ev.SessionResumed: (),
    ev.FileChanged: ("path",),
    ev.ArtifactSaved: ("path",),
    ev.StepAdded: ("title", "parent", "agent"),
    ev.EventRetracted: (),
}


def searchable(stored: Stored) -> tuple[str, str] | None:
    """(kind, text) of an event that people search for: goals, notes, decisions, errors, titles."""
    event = _read(stored)
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
    "decision.made": ("what", "because", "chosen", "options"),
    "error.raised": ("message",),
    "agent.started": ("task",),
    "agent.failed": ("error",),
    "step.added": ("title",),
}
