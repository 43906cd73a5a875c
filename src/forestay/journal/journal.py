"""The journal: the only writer of events.

An append runs under the store's writer lock: it loads the current state, calls `decide`, seals the
events into this device's chain and computes the state after them, all in one transaction.

A device takes a new id before it writes again in two cases, because its chain would fork otherwise:
the store remembers a later head than the database has (an old copy was restored), or the chain has
two ends (a copy of this home was used elsewhere and merged).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from itertools import takewhile
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from forestay.base.clock import Clock, derived_id, new_id, short_id
from forestay.base.hashing import digest_of
from forestay.base.redact import Redactor
from forestay.base.text import terminal
from forestay.errors import Busy, Damaged, NoSession, Refused
from forestay.journal.projections import encode_rows, listing, read, rebuild_batch
from forestay.journal.stored_state import StoredRows, encode, load, require_intact
from forestay.journal.validate_input import admit, admit_actor, clean_facts
from forestay.model import erasure
from forestay.model import event as ev
from forestay.model.erasure import Entitled, Rights, Tombstones
from forestay.model.event import Body, Event, Sealed
from forestay.model.fold import advance, extend, fold, follows
from forestay.model.hash_chain import next_of
from forestay.model.rules import allow, decide, decide_validated, report
from forestay.model.state import FOLD_VERSION, Core, State
from forestay.store.machine.machine import MachineChange
from forestay.store.machine.projects import TreeRecord
from forestay.store.port import Batch, Entry, Head, Store, View

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.base.findings import Finding
    from forestay.journal.merge_incoming import CheckedEvent, IncomingEvents
    from forestay.journal.verify import Report
    from forestay.model.plan import Workflow
    from forestay.store.machine.agent_runs import RunChange

Rule = Callable[[State, Body], list[Body]]
Maker = Callable[[State], Sequence[Body]]

_LAST_MS = 2**53 - 1
_MOST_TOGETHER = 10_000
_MOST_NAMED = 100
_IN_EVENT = 6000
_PREVIEW = 1000


class Recorded(Struct, frozen=True):
    """The result of an append. If `repeated`, the key was used before, and nothing was added."""

    events: list[Event]
    state: State
    repeated: bool = False


class ExternalEvents(Struct, frozen=True):
    """Events that happened together and were reported by another program; recorded only once.

    `key` identifies their source; events under a key that was recorded before are skipped. `made`
    makes the events from the state in which they are recorded, if they depend on it.
    """

    key: str
    actor: str
    moves: Sequence[Body] = ()
    at: int | None = None
    made: Maker | None = None


class AppendOptions(Struct, frozen=True):
    """The options of an append, besides its events.

    `at` is the time of all events, or of each. `foreign` events were made by another program, in a
    file: they are recorded unchanged. With `tree` the session becomes the current one of that
    tree. `file_work` describes the changes of files that the events require. `make` makes the
    events from the state in which they are recorded, so that no other event can come between; it is
    not called for a repeated key. `check` is called under the writer lock, where no other session
    can change; if it raises, nothing is recorded.
    """

    at: int | Sequence[int | None] | None = None
    foreign: bool = False
    tree: TreeRecord | None = None
    file_work: Sequence[str] = ()
    make: Maker | None = None
    check: Callable[[], None] | None = None


_DEFAULTS = AppendOptions()


class Journal:
    def __init__(self, store: Store, clock: Clock, redactor: Redactor) -> None:
        self.store = store
        self._clock = clock
        self.redactor = redactor
        # session → (core as stored, state), so that a long-lived process need not decode it again.
        self._cache: dict[str, tuple[bytes, State]] = {}
        self._actors: dict[str, str] = {}

    # -- appending -----------------------------------------------------------------------------

    def append(
        self,
        session: str,
        *moves: Body,
        actor: str,
        key: str = "",
        create: bool = False,
        blobs: Sequence[tuple[str, bytes]] = (),
        options: AppendOptions | None = None,
    ) -> Recorded:
        """Check moves by the rules and record them, all or none; durable when this returns.

        A second call with the same `key` records nothing and returns the last event that the first
        call recorded. With `create` the session need not exist. `blobs` (SHA-256, bytes) are
        content that the moves name.
        """
        options = options or _DEFAULTS
        foreign, make = options.foreign, options.make
        moves = tuple(admit(body, self.redactor, foreign=foreign) for body in moves)
        actor, rule = self.clean_actor(actor), allow if foreign else decide_validated
        id = derived_id(session.lower(), key) if key else ""
        done: list[tuple[str, bytes, Recorded]] = []

        def plan(view: View) -> Batch | None:
            state, fresh = self._state(view)
            if id and (earlier := view.find(id)):
                found = read(earlier)
                same = _require_same_call(key, found, moves[-1]) if make is None else found
                done.append((view.session, view.core, Recorded([same], state, repeated=True)))
                return None
            if options.check is not None:
                options.check()
            at = options.at
            writing = _Append(self._clock, view, state, fresh=fresh, actor=actor, id=id, at=at)
            wanted = moves if make is None else [admit(b, self.redactor) for b in make(state)]
            batch = writing.record(wanted, rule)
            done.append((view.session, batch.core, Recorded(writing.events, writing.state)))
            return batch

        change = MachineChange(tree=options.tree, file_work=options.file_work)
        self.store.append(session, plan, create=create, blobs=blobs, change=change)
        return self._remember(*done[-1])

    def record_external(
        self,
        session: str,
        reports: Sequence[ExternalEvents],
        *,
        create: bool = False,
        blobs: Sequence[tuple[str, bytes]] = (),
        spot: TreeRecord | None = None,
        change: RunChange | None = None,
    ) -> Recorded:
        """Record in one transaction what other programs report, each item once.

        An item about work is recorded unchanged, like a `foreign` move. An item about the session
        itself (it starts, pauses or resumes) holds nothing else, and is skipped if the rules refuse
        it, because the session has changed in the meantime.
        """
        once: dict[str, ExternalEvents] = {}
        for external in reports:
            once.setdefault(derived_id(session.lower(), external.key), external)
        done: list[tuple[str, bytes, Recorded]] = []

        def plan(view: View) -> Batch | None:
            state, fresh = self._state(view)
            writing = _Append(self._clock, view, state, fresh=fresh, actor="", id="")
            for id, external in once.items():
                if view.find(id) is None:
                    writing.begin(id, self.clean_actor(external.actor), external.at)
                    made = external.made and list(map(self.admit, external.made(writing.state)))
                    writing.apply_report(made or external.moves)
            batch = writing.batch() if writing.events else None
            core = batch.core if batch else view.core
            done.append((view.session, core, Recorded(writing.events, writing.state)))
            return batch

        both = MachineChange(tree=spot, run=change)
        self.store.append(session, plan, create=create, blobs=blobs, change=both)
        return self._remember(*done[-1])

    def admit(self, body: Body) -> Body:
        """Return a body that another program made in the form that is stored.

        Raise `InvalidInput` if it cannot be stored.
        """
        return admit(body, self.redactor, foreign=True)

    def overflow_to_blob(self, body: Body, blobs: list[tuple[str, bytes]]) -> Body:
        """Return the body with its message cut to fit into an event; add the whole to `blobs`."""
        if not isinstance(body, ev.MessageSent) or len(body.text) <= _IN_EVENT // 4:
            return body
        # Redact before cutting: half a secret is not recognized.
        text = self.redact(terminal(body.text, newlines=True))
        data = text.encode("utf-8", "replace")
        if len(data) <= _IN_EVENT:
            return body
        blobs.append((digest_of(data), data))
        return replace(body, text=text[:_PREVIEW], blob=blobs[-1][0], size=len(data))

    def _remember(self, session: str, core: bytes, recorded: Recorded) -> Recorded:
        rows = recorded.state.rows
        if isinstance(rows, StoredRows):
            rows.attach(None)
            self._cache[session] = (core, recorded.state)
        return recorded

    def redact(self, text: str) -> str:
        """Return the text with every secret removed."""
        return self.redactor.text(text)[0]

    def clean_actor(self, name: str) -> str:
        """Return the name of an actor in its stored form; cached, because few names occur often."""
        if name not in self._actors:
            self._actors[name] = admit_actor(name, self.redactor)
        return self._actors[name]

    def events_of_key(
        self, session: str, key: str, is_same: Callable[[Body], bool] | None = None
    ) -> list[Event]:
        """Return the events that were recorded together under a key, in order; empty if none.

        Raise `Refused` if there are events but `is_same` accepts none of them: then the key was
        used for another call.
        """
        id = derived_id(session.lower(), key)
        with self.store.view(session) as view:
            last = view.find(id)
            parts = (view.find(f"{id}-{n}") for n in range(1, _MOST_TOGETHER))
            found = [*takewhile(lambda part: part is not None, parts), last] if last else []
            events = [read(stored) for stored in found if stored is not None]
        if events and is_same and not any(is_same(event.body) for event in events):
            raise _used_key(key, events[-1])
        return events

    def plan(self, state: State) -> Workflow | None:
        """Return the workflow that a session started with; None if its plan came from a file."""
        if not state.core.plan:
            return None
        from forestay.model.plan import from_snapshot

        data = self.store.blob(state.core.plan)
        if data is None:
            id = state.core.session
            what = f"the plan of session {id} is missing"
            raise Damaged(what, hint="forestay doctor", session=id)
        return from_snapshot(data)

    def clean_facts(self, facts: Any) -> Any:
        """Return the form in which plain facts of another program would be stored."""
        return clean_facts(facts, self.redactor)

    def find_secrets(self, text: str) -> list[str]:
        """Return the kinds of secrets a text holds."""
        return self.redactor.text(text)[1]

    def _state(self, view: View) -> tuple[State, bool]:
        """Return the state to write on, and whether it had to be folded from the journal.

        The state is removed from the cache: after a failed write it may be ahead of the store, and
        after an erasure it must not stay in memory.
        """
        if not view.listed_well:
            # An event appended under a wrong length or id could not be found again.
            raise Damaged(
                f"the catalogue entry of session {view.session} is damaged",
                why="nothing was recorded",
                hint="rebuild it from its events: forestay doctor --fix",
                session=view.session,
            )
        core, state = self._cache.pop(view.session, (b"", State()))
        if core and core == view.core and isinstance(state.rows, StoredRows):
            state.rows.attach(view)
            return state, False
        return load(view)

    def preview(
        self, view: View, *moves: Body, actor: str, at: Sequence[int | None] | None = None
    ) -> State:
        """Return the state after some moves of another program, without recording them."""
        state, fresh = load(view)
        admitted = [admit(body, self.redactor, foreign=True) for body in moves]
        writing = _Append(self._clock, view, state, fresh=fresh, actor=actor, at=at)
        writing.apply_moves(admitted, allow)
        return writing.state

    def require_allowed(self, view: View, move: Body) -> None:
        """Raise an error if the rules do not allow a move now; call this before long work."""
        decide(load(view)[0], admit(move, self.redactor))

    # -- other devices' events -----------------------------------------------------------------

    def absorb(
        self,
        session: str,
        incoming: Sequence[Sealed],
        blobs: Sequence[tuple[str, bytes]] = (),
        *,
        entitled: Entitled | None = None,
        gone: Set[str] = frozenset(),
        fills: bool = False,
    ) -> int:
        """Merge events of other devices into the session; return how many were new.

        Only complete histories are accepted: if a predecessor of an event, or an event that it had
        seen, is missing, no event is merged. If a device that is `entitled` to erase an event has
        forgotten it, its content is not stored, and is erased if this home has it. Without
        `entitled` the rule is `rights`, and nothing in this home is erased, because the author of a
        file can write anything into it. `gone` are events that this home erased before. With
        `fills` the sender vouches for the events: an event that this home has without content,
        although no entitled device erased it, gets its content.
        """
        from forestay.journal.merge_incoming import IncomingEvents  # start-up

        arrival = IncomingEvents(session, list(incoming), entitled, gone, fills=fills)
        if entitled and arrival.erases_session and self._has_content(session):
            return self._absorb_session_erasure(session, arrival)
        may = entitled or (lambda device, of: self.rights(session).may_erase(device, of))
        hearsay = set[str]() if arrival.erases_session else self.store.machine.remotes.unconfirmed()
        added: list[int] = [0]

        def plan(view: View) -> Batch | None:
            merge = arrival.plan_merge(view, self._state(view)[0].core, may, hearsay)
            added[0] = len(merge.fresh)
            return merge.batch(view, blobs, self._clock) if merge.has_changes(blobs) else None

        try:
            self.store.append(session, plan, create=True, blobs=blobs)
        except Busy as error:
            _ignore_delayed_erasure(error)
        return added[0]

    def rights(self, session: str) -> Rights:
        """Return which devices may erase events of a session, by the owners known here."""
        remotes = self.store.machine.remotes
        return Rights(
            self.store.machine.devices(),
            remotes.owners(session),
            group=remotes.device_group(),
            owner=remotes.owner(session),
            disputed=remotes.disputed(session),
        )

    def _entitled_elsewhere(self, session: str) -> Entitled:
        """Return the rule for tombstones that also erase on other devices.

        Tombstones under a device id that two persons used do not.
        """
        used = self.store.machine.remotes.used_by_others(session)
        may_erase = self.rights(session).may_erase
        return lambda device, of: device not in used and may_erase(device, of)

    def _has_content(self, session: str) -> bool:
        """Return whether this home has content of any event of a session."""
        try:
            with self.store.view(session) as view:
                return any(stored.data is not None for stored in view.events())
        except NoSession:
            return False

    def _absorb_session_erasure(self, session: str, arrival: IncomingEvents) -> int:
        """Accept the tombstone of a whole session from an entitled device: erase all content."""
        added: list[int] = [0]

        def plan(view: View) -> Batch:
            self._state(view)
            merge = arrival.plan_erasure(view)
            added[0] = len(merge.fresh)
            return merge.batch(view, (), self._clock)

        try:
            self.store.erase(session, plan)
        except Busy as error:
            _ignore_delayed_erasure(error)
        return added[0]

    def append_in_order(
        self,
        session: str,
        events: Sequence[CheckedEvent],
        blobs: Sequence[tuple[str, bytes]] = (),
    ) -> bool:
        """Append checked events, in merge order, that directly continue the session in this home.

        Each of them has seen all events before it, so the state need not be folded again. Return
        False and append nothing if that is not the case, or if one of them is a tombstone, which
        may erase something: then call `absorb`.
        """
        from forestay.journal.merge_incoming import build_continuation

        appended: list[bool] = [False]
        if not erasure.KINDS.isdisjoint({head.kind for _, head, _ in events}):
            return False

        def plan(view: View) -> Batch | None:
            state, fresh = self._state(view)
            batch = build_continuation(view, state, events, fresh=fresh)
            appended[0] = batch is not None
            return batch

        self.store.append(session, plan, create=True, blobs=blobs)
        return appended[0]

    # -- reading -------------------------------------------------------------------------------

    def state(self, view: View) -> State:
        """Return the state of the session in an open view, for reading only."""
        return load(view)[0]

    def events(
        self, view: View, *, after: int = 0, limit: int = -1, newest: bool = False
    ) -> Iterator[Event]:
        return map(read, view.events(after=after, limit=limit, newest=newest))

    # -- forgetting and repairing --------------------------------------------------------------

    def forget(self, session: str, *, actor: str) -> None:
        """Append the tombstone and erase everything else of the session permanently."""

        def plan(view: View) -> Batch:
            state, _ = self._state(view)
            writing = _Append(self._clock, view, state, fresh=True, actor=self.clean_actor(actor))
            batch = writing.record([ev.SessionForgotten()])
            # The content of the tombstone is erased too: the kind of the event is enough.
            every = [*view.events(), *batch.entries]
            left = rebuild_batch(fold(ev.read(Sealed(one.header, None, None)) for one in every))
            batch.core, batch.rows, batch.listing = left.core, left.rows, left.listing
            return batch

        self.store.erase(session, plan)

    def forget_events(
        self, session: str, hashes: Sequence[str], *, actor: str, because: str = ""
    ) -> list[Event]:
        """Append tombstones for some events and erase their content permanently.

        A copy of an event under another hash is erased with it. Return the events that lost their
        content in this call, as they were before; a second call returns none.
        """
        done: list[Event] = []
        entitled = self._entitled_elsewhere(session)

        def plan(view: View) -> Batch | None:
            self._state(view)
            require_intact(view)
            events = list(map(read, view.events()))
            done[:], named = _select_to_forget(events, hashes, entitled)
            if not done and not named:
                return None
            name = self.clean_actor(actor)
            writing = _Append(self._clock, view, fold(events), fresh=True, actor=name)
            # A long list of events does not fit into one tombstone.
            parts = (named[at : at + _MOST_NAMED] for at in range(0, len(named), _MOST_NAMED))
            moves = [
                self.admit(
                    ev.EventForgotten(
                        hashes=[event.hash for event in part],
                        ids=[event.id for event in part],
                        because=because,
                    )
                )
                for part in parts
            ]
            batch = writing.record(moves) if moves else rebuild_batch(writing.state)
            batch.erased = [event.seq for event in done]
            return batch

        self.store.append(session, plan)
        return done

    def rebuild(self, session: str) -> None:
        """Compute everything derived from the events again; the events do not change.

        If the store has lost the remembered head of the session, it remembers it again.
        """
        from forestay.journal.verify import chain_findings

        def plan(view: View) -> Batch:
            stored = list(view.events())
            state = fold(map(read, stored))
            batch = rebuild_batch(state)
            # Damaged events must never get a checksum that matches them.
            batch.resum = not list(chain_findings(view, stored))
            if batch.resum and view.remembered is None:
                batch.head = own_head(view, state.core)
            return batch

        self.store.append(session, plan)

    # -- verification --------------------------------------------------------------------------

    def check_chain(self, view: View) -> list[Finding]:
        """Check that the events are as written and none is missing; `resume` relies on it."""
        from forestay.journal.verify import check_chain

        return check_chain(view)

    def check_content(self, view: View) -> list[Finding]:
        """Check that the blobs of intact events exist unchanged."""
        from forestay.journal.verify import check_content

        return check_content(self.store, view)

    def verify(self, session: str) -> Report:
        """Check the chains, the remembered heads, and everything derived against a fresh fold."""
        from forestay.journal.verify import verify

        return verify(self.store, session)


def _ignore_delayed_erasure(error: Busy) -> None:
    """Ignore that a reader prevents the removal of old pages: the next write removes them."""
    if error.operation != "delete":
        raise error


def _select_to_forget(
    events: Sequence[Event], hashes: Sequence[str], entitled: Entitled
) -> tuple[list[Event], list[Event]]:
    """Return the named events and their copies that have content, and those without a tombstone.

    A tombstone by a device that is not entitled does not count: it erases nothing elsewhere.
    """
    ids = {event.id for event in events if event.hash in set(hashes)}
    meant = [event for event in events if event.id in ids and event.kind not in erasure.KINDS]
    known = Tombstones(events)
    return (
        [event for event in meant if not isinstance(event.body, ev.Erased)],
        [event for event in meant if not known.erase(event.head, event.hash, entitled)],
    )


class _Append:
    """One append in progress: the state advances with each event."""

    def __init__(
        self,
        clock: Clock,
        view: View,
        state: State,
        *,
        fresh: bool,
        actor: str,
        id: str = "",
        at: int | Sequence[int | None] | None = None,
    ) -> None:
        self._clock, self._view, self._fresh = clock, view, fresh
        self._actor, self._key, self._at = actor, id, at
        # Events recorded together share the beginning of their ids: `undo` withdraws all of them.
        self._id = id or new_id(clock)
        self._before = 0
        self._entries: list[Entry] = []
        self.state = state
        self.events: list[Event] = []
        self._in_row = False
        """Whether the next move is a retraction too."""
        self._device, self._lost = _device_for(view, state.core, self._clock)

    def record(self, moves: Sequence[Body], rule: Rule = decide) -> Batch:
        """Apply the moves and return what has to be stored."""
        self.apply_moves(moves, rule)
        return self.batch()

    def begin(self, id: str, actor: str, at: int | None) -> None:
        """Begin the events of the next call; the last of them gets `id`."""
        self._id = self._key = id
        self._actor, self._at, self._before = actor, at, len(self.events)

    def apply_moves(self, moves: Sequence[Body], rule: Rule) -> None:
        """Check each move by the rules and apply it; the last event gets the id of the call."""
        at = self._at
        times = [at] * len(moves) if at is None or isinstance(at, int) else at
        for left, move, at in zip(reversed(range(len(moves))), moves, times, strict=True):
            *implied, asked = rule(self.state, move)
            for body in implied:
                self._record(body, self._part(), at)
            self._in_row = isinstance(moves[-left] if left else None, ev.EventRetracted)
            is_read = asked is move and rule is decide_validated
            self._record(asked, self._part() if left else self._id, at, is_read=is_read)

    def apply_report(self, moves: Sequence[Body]) -> None:
        """Apply reported moves unchanged; a move about the session itself only if it is allowed."""
        is_work = not (moves and ev.KIND_OF[type(moves[0])].startswith("session."))
        try:
            self.apply_moves(moves, report if is_work else decide)
        except Refused:
            if is_work:
                raise

    def _part(self) -> str:
        return f"{self._id}-{len(self.events) - self._before + 1}"

    def _record(self, body: Body, id: str, at: int | None, *, is_read: bool = False) -> None:
        now = self._clock.now() if at is None else at
        sealed, event = next_of(
            self.state.core,
            body if is_read else ev.as_stored(body),
            self._device,
            self._clock.random(ev.SALT_BYTES),
            self._view.seq + len(self.events) + 1,
            session=self._view.session,
            id=id,
            # A wrong clock must not create an event whose time cannot be read.
            at=max(-_LAST_MS, min(now, _LAST_MS)),
            actor=self._actor,
        )
        key = id if self._key else None
        self._entries.append(Entry(sealed.header, sealed.salt, sealed.data, key))
        self._apply(event)
        self.events.append(event)

    def _apply(self, event: Event) -> None:
        if follows(self.state, event):
            extend(self.state, event)
            return
        if self._in_row and isinstance(event.body, ev.EventRetracted):
            # Several retractions in a row are folded once, with the last of them.
            advance(self.state.core, event)
            return
        everything = [*map(read, self._view.events()), *self.events, event]
        self.state, self._fresh = fold(everything), True

    def batch(self) -> Batch:
        rows = self.state.rows
        last = self.events[-1]
        # Before `pop_changes`: the summary may still read rows through the view.
        shown = listing(self.state)
        if isinstance(rows, StoredRows):
            changed = rows.pop_changes()
        else:
            changed = encode_rows(self.state)
        if self._fresh:
            self.state = State(self.state.core, StoredRows())
        return Batch(
            entries=self._entries,
            core=encode(self.state.core),
            fold=FOLD_VERSION,
            rows=changed,
            listing=shown,
            head=Head(self._device, last.head.n, last.hash),
            fresh_rows=self._fresh,
            device=self._device if self._device != self._view.device else None,
            lost=self._lost,
        )


def own_head(view: View, core: Core) -> Head | None:
    """Return the end of this device's chain; None if it wrote nothing or the chain forks."""
    chain = core.chains.get(view.device)
    ends = chain.heads if chain else []
    return Head(view.device, *ends[0][:2]) if len(ends) == 1 else None


def _device_for(view: View, core: Core, clock: Clock) -> tuple[str, list[tuple[str, int, str]]]:
    """Return the device id to write under, and the heads that were acknowledged but are missing."""
    left, lost = view.remembered, list[tuple[str, int, str]]()
    if left is not None:
        chain = core.chains.get(left.device)
        heads = chain.heads if chain else []
        # A remembered head that lags behind the journal is no loss.
        if not any(left.n < n or digest == left.hash for n, digest, _ in heads):
            lost = [(left.device, left.n, left.hash)]
    own = core.chains.get(view.device)
    is_forked = own is not None and len(own.heads) > 1
    if is_forked or any(device == view.device for device, _, _ in lost):
        return short_id(clock, 12), lost
    return view.device, lost


def _used_key(key: str, earlier: Event) -> Refused:
    """Return the error for a key that was used for another call."""
    return Refused(
        f"the key {key} was already used for another call",
        why=f"it belongs to event {earlier.seq}, {earlier.kind}",
        hint="use a new key for every call",
    )


def _require_same_call(key: str, earlier: Event, move: Body) -> Event:
    """Raise `Refused` if `move` differs from the event that was recorded under the key.

    Otherwise the second call would be acknowledged although nothing is recorded.
    """
    if isinstance(earlier.body, ev.Erased):
        return earlier  # the content of the event is erased, so nothing can be compared
    names = _COMPARED_FIELDS.get(type(move), move.__struct_fields__)
    same = type(move) is type(earlier.body) and all(
        getattr(move, name) == getattr(earlier.body, name) for name in names
    )
    if not same:
        raise _used_key(key, earlier)
    return earlier


# Of these kinds, all other fields were computed when they were recorded, and may differ now.
_COMPARED_FIELDS: dict[type[Body], tuple[str, ...]] = {
    ev.SessionStarted: ("goal", "mode"),
    ev.PlanSet: ("workflow", "target"),
    ev.SessionResumed: (),
    ev.SessionPaused: ("reason", "context"),
    ev.SessionCompleted: ("because",),
    ev.SessionFailed: ("because",),
    ev.SessionAborted: ("because",),
    ev.SessionAbandoned: ("because",),
    ev.FileChanged: ("path",),
    ev.ArtifactSaved: ("path",),
    ev.StepAdded: ("title", "parent", "agent"),
    ev.EventRetracted: (),
    ev.EvidenceObserved: ("proof", "step", "argv"),
}
