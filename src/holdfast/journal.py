"""The journal: the only writer of events.

An append runs under the store's writer lock: the state as it is then, `decide`, the events
sealed into this device's chain, the state after them, all in one transaction.

Two things make a device take a new id before it writes again, because its chain would fork
otherwise: the store remembers a later head than the database has (an old copy was put back), or
the chain has two ends (a copy of this home went on elsewhere and came back).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from itertools import takewhile

import msgspec
from msgspec import Struct

from holdfast.clock import Clock, derived_id, new_id, short_id
from holdfast.derived import (
    News,
    StoredRows,
    all_rows,
    encode,
    listing,
    load,
    read,
    rebuilt,
)
from holdfast.errors import Busy, Damaged, NoSession, Refused
from holdfast.intake import admit, admit_actor, remains
from holdfast.model import event as ev
from holdfast.model import tombstone
from holdfast.model.chain import next_of
from holdfast.model.event import Body, Event, Sealed
from holdfast.model.fold import FOLD_VERSION, advance, extend, fold, follows
from holdfast.model.rules import allow, decide, report, weigh
from holdfast.model.state import Core, State
from holdfast.model.tombstone import Entitled, Rights, Tombstones
from holdfast.redact import Redactor
from holdfast.sha import digest_of
from holdfast.store import Batch, Entry, Head, Spot, Store, View
from holdfast.text import terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.model.plan import Workflow
    from holdfast.soundness import Finding, Report
    from holdfast.store import Along
    from holdfast.store.runs import Change
    from holdfast.union import Arrival, Arrived

Rule = Callable[[State, Body], list[Body]]
Maker = Callable[[State], Sequence[Body]]

_LAST_MS = 2**53 - 1
_MOST_TOGETHER = 10_000
_MOST_NEWS = 7
_MOST_NAMED = 100
_IN_EVENT = 6000
_PREVIEW = 1000


class Recorded(Struct, frozen=True):
    """What an append acknowledged. `repeated` means the key had been used: nothing was added."""

    events: list[Event]
    state: State
    repeated: bool = False


class Given(Struct, frozen=True):
    """Moves that belong together and have happened: recorded once, however often given.

    `key` is of their source; what was recorded under it is not recorded again. `made` makes the
    moves of the state that they are recorded in, where they depend on it.
    """

    key: str
    actor: str
    moves: Sequence[Body] = ()
    at: int | None = None
    made: Maker | None = None


class Journal:
    def __init__(self, store: Store, clock: Clock, redactor: Redactor) -> None:
        self.store = store
        self._clock = clock
        self._redactor = redactor
        # session → (core as stored, state): spares a process that writes on from decoding it. A
        # write takes its entry out and puts it back when it is done: one that fails may have
        # run ahead of what is stored.
        self._cache: dict[str, tuple[bytes, State]] = {}
        self._news: tuple[str, list[tuple[int, int, News, Sequence[Event]]]] = ("", [])
        self._actors: dict[str, str] = {}

    # -- appending -----------------------------------------------------------------------------

    def append(
        self,
        session: str,
        *moves: Body,
        actor: str,
        key: str = "",
        create: bool = False,
        at: int | Sequence[int | None] | None = None,
        blobs: Sequence[tuple[str, bytes]] = (),
        foreign: bool = False,
        spot: Spot | None = None,
        made: Maker | None = None,
        chores: Sequence[str] = (),
        first: Callable[[], None] | None = None,
        along: Along | None = None,
    ) -> Recorded:
        """Decide and record moves together, all of them or none; durable when it returns.

        With a `key`, doing it again returns what the first time recorded: the last event. `at`
        is when they happened, all of them or each. `foreign` moves were made by another program,
        in a file: they are taken as they are. `made` makes the moves of the state that they are
        recorded in, so that nothing comes between; who repeats its key is not asked again. `first`
        is called under the writer lock, where no other session can change; when it raises, nothing
        is recorded. `along` is for the store.
        """
        moves = tuple(admit(body, self._redactor, foreign=foreign) for body in moves)
        actor, rule = self.actor(actor), allow if foreign else weigh
        id = derived_id(session.lower(), key) if key else ""
        done: list[tuple[str, bytes, Recorded]] = []
        before = self._news

        def plan(view: View) -> Batch | None:
            self._news = before
            _require_listed_well(view)
            state, fresh = self._state(view)
            if id and (earlier := view.find(id)):
                found = read(earlier)
                same = _same_call(key, found, moves[-1]) if made is None else found
                done.append((view.session, view.core, Recorded([same], state, repeated=True)))
                return None
            if first is not None:
                first()
            writing = _Writing(self._clock, view, state, fresh=fresh, actor=actor, id=id, at=at)
            wanted = moves if made is None else self._admitted(made(state))
            batch = writing.record(wanted, rule)
            done.append((view.session, batch.core, Recorded(writing.events, writing.state)))
            if writing.news is not None:
                self._keep_news(view.session, writing.events, writing.news)
            return batch

        try:
            self.store.append(
                session, plan, create=create, blobs=blobs, spot=spot, chores=chores, along=along
            )
        except BaseException:
            self._news = ("", [])
            raise
        return self._remember(*done[-1])

    def take(
        self,
        session: str,
        given: Sequence[Given],
        *,
        create: bool = False,
        blobs: Sequence[tuple[str, bytes]] = (),
        spot: Spot | None = None,
        change: Change | None = None,
    ) -> Recorded:
        """Record what others report, all of it in one transaction, each of it once.

        Work is taken as it is, like a `foreign` move. What is said of the session itself (that it
        begins, pauses, is resumed) is given alone, and left out where its rules refuse it: it has
        become otherwise meanwhile.
        """
        once: dict[str, Given] = {}
        for one in given:
            once.setdefault(derived_id(session.lower(), one.key), one)
        done: list[tuple[str, bytes, Recorded]] = []

        def plan(view: View) -> Batch | None:
            _require_listed_well(view)
            state, fresh = self._state(view)
            writing = _Writing(self._clock, view, state, fresh=fresh, actor="", id="")
            actors = {name: self.actor(name) for name in {one.actor for one in given}}
            for id, one in once.items():
                if view.find(id) is None:
                    writing.begin(id, actors[one.actor], one.at)
                    made = one.made and list(map(self.admit, one.made(writing.state)))
                    _report(writing, made or one.moves)
            batch = writing.batch() if writing.events else None
            core = batch.core if batch else view.core
            done.append((view.session, core, Recorded(writing.events, writing.state)))
            return batch

        self.store.append(session, plan, create=create, blobs=blobs, spot=spot, change=change)
        return self._remember(*done[-1])

    def admit(self, body: Body) -> Body:
        """What another program reports as it can be kept; `InvalidInput` if it cannot."""
        return admit(body, self._redactor, foreign=True)

    def spilled(self, body: Body, blobs: list[tuple[str, bytes]]) -> Body:
        """A message that is too long for an event as its beginning; the whole goes to `blobs`."""
        if not isinstance(body, ev.MessageSent) or len(body.text) <= _IN_EVENT // 4:
            return body
        # Before it is cut: half a secret is not recognized as one.
        whole = self.redacted(terminal(body.text, newlines=True))
        data = whole.encode("utf-8", "replace")
        if len(data) <= _IN_EVENT:
            return body
        blobs.append((digest_of(data), data))
        return msgspec.structs.replace(
            body, text=whole[:_PREVIEW], blob=blobs[-1][0], size=len(data)
        )

    def _admitted(self, moves: Sequence[Body]) -> Sequence[Body]:
        return [admit(body, self._redactor) for body in moves]

    def _remember(self, session: str, core: bytes, recorded: Recorded) -> Recorded:
        rows = recorded.state.rows
        if isinstance(rows, StoredRows):
            rows.look_at(None)
            self._cache[session] = (core, recorded.state)
        return recorded

    def _keep_news(self, session: str, events: Sequence[Event], news: News) -> None:
        whose, known = self._news
        one = (events[0].seq - 1, events[-1].seq, news, events)
        self._news = (session, [*known[-_MOST_NEWS:], one] if whose == session else [one])

    def news(self, session: str, after: int, upto: int) -> tuple[News, list[Event]] | None:
        """The rows that some events changed, and these; None unless this process recorded them."""
        found: News = {}
        events: list[Event] = []
        for start, end, news, recorded in self._news[1] if self._news[0] == session else ():
            if start == after < upto:
                after = end
                events += recorded
                for place, (before, now) in news.items():
                    found[place] = (found.get(place, (before,))[0], now)
        return (found, events) if after == upto else None

    def redacted(self, text: str) -> str:
        """The text with every secret taken out."""
        return self._redactor.text(text)[0]

    def no_secrets_in(self, texts: Iterable[str]) -> bool:
        """Whether none of some texts holds a secret; no, if that takes a look at each."""
        return self._redactor.none_in(texts)

    def actor(self, name: str) -> str:
        """The name of who acts as it is kept. Few act, and often."""
        if name not in self._actors:
            self._actors[name] = admit_actor(name, self._redactor)
        return self._actors[name]

    def redacted_value(self, value: object) -> tuple[object, list[str]]:
        """A copy of plain values with every secret in them taken out, and their kinds."""
        return self._redactor.value(value)

    def batch(self, session: str, key: str) -> list[Event]:
        """The events that were recorded together under a key, in their order; none if none."""
        id = derived_id(session.lower(), key)
        with self.store.view(session) as view:
            last = view.find(id)
            parts = (view.find(f"{id}-{n}") for n in range(1, _MOST_TOGETHER))
            found = [*takewhile(lambda part: part is not None, parts), last] if last else []
            return [read(stored) for stored in found if stored is not None]

    def plan(self, state: State) -> Workflow | None:
        """The workflow that a session was started with; None for a plan that came with a file."""
        if not state.core.plan:
            return None
        from holdfast.model.plan import from_snapshot

        data = self.store.blob(state.core.plan)
        if data is None:
            named = state.core.session
            what = f"the plan kept with session {named} is gone"
            raise Damaged(what, hint="holdfast doctor", session=named)
        return from_snapshot(data)

    def remains(self, original: str) -> list[str]:
        """What may have been kept of a text that another program wrote."""
        return remains(original, self._redactor)

    def secrets_in(self, text: str) -> list[str]:
        """Names of the kinds of secrets a text holds."""
        return self._redactor.text(text)[1]

    def _state(self, view: View) -> tuple[State, bool]:
        """The state under a view, and whether it had to be folded from the journal."""
        core, state = self._cache.pop(view.session, (b"", State()))
        if core and core == view.core and isinstance(state.rows, StoredRows):
            state.rows.look_at(view)
            return state, False
        return load(view)

    def preview(
        self, view: View, *moves: Body, actor: str, at: Sequence[int | None] | None = None
    ) -> State:
        """The state as it would be after some foreign moves. Nothing is recorded."""
        state, fresh = load(view)
        admitted = [admit(body, self._redactor, foreign=True) for body in moves]
        writing = _Writing(self._clock, view, state, fresh=fresh, actor=actor, at=at)
        writing.take(admitted, allow)
        return writing.state

    def require(self, view: View, move: Body) -> None:
        """Refuse what could not be recorded now; for what takes long before it is."""
        decide(load(view)[0], admit(move, self._redactor))

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
        """Merge events of a pack into the session; returns how many were new.

        Only whole, causally closed histories are taken: an event whose chain or whose `seen`
        heads are not held is refused, and then none is taken. What was forgotten by someone who
        is `entitled` to that is taken without its content, and erased if it is held. By default
        that is who may erase by what is known here (`rights`), and nothing that is held is
        erased: whoever made a file can write anything into it. Of `gone` events it is known that
        they were erased here, by whom ever. With `fills` whoever sends events vouches for them:
        what is held without content, though nobody entitled had it erased, gets it.
        """
        from holdfast.union import Arrival

        arrival = Arrival(session, list(incoming), entitled, gone, fills=fills)
        if entitled and arrival.is_the_end and self._says(session):
            return self._absorb_the_end(session, arrival)
        may = entitled or (lambda device, of: self.rights(session).may_erase(device, of))
        hearsay = set[str]() if arrival.is_the_end else self.store.remotes.hearsay()
        added: list[int] = [0]

        def plan(view: View) -> Batch | None:
            _require_listed_well(view)
            meeting = arrival.meet(view, self._state(view)[0].core, may, hearsay)
            added[0] = len(meeting.fresh)
            return meeting.batch(view, blobs, self._clock) if meeting.changes(blobs) else None

        try:
            self.store.append(session, plan, create=True, blobs=blobs)
        except Busy as error:
            _require_undone(error)
        return added[0]

    def rights(self, session: str) -> Rights:
        """Who may erase in a session, by what is known in this home."""
        remotes = self.store.remotes
        return Rights(
            self.store.devices(),
            remotes.owners(session),
            circle=remotes.circle(),
            owner=remotes.owner(session),
            disputed=remotes.disputed(session),
        )

    def _entitled_elsewhere(self, session: str) -> Entitled:
        """Whose tombstones erase on other devices, too: none under an id that others used."""
        used, may_erase = self.store.remotes.used_by_others(session), self.rights(session).may_erase
        return lambda device, of: device not in used and may_erase(device, of)

    def _says(self, session: str) -> bool:
        """Whether any content is held of a session."""
        try:
            with self.store.view(session) as view:
                return any(stored.data is not None for stored in view.events())
        except NoSession:
            return False

    def _absorb_the_end(self, session: str, arrival: Arrival) -> int:
        """Take a whole session's tombstone, of one who may say so: all content goes."""
        added: list[int] = [0]

        def plan(view: View) -> Batch:
            _require_listed_well(view)
            self._let_go(view.session)
            meeting = arrival.end(view)
            added[0] = len(meeting.fresh)
            return meeting.batch(view, (), self._clock)

        try:
            self.store.erase(session, plan)
        except Busy as error:
            _require_undone(error)
        return added[0]

    def go_on(
        self,
        session: str,
        arrived: Sequence[Arrived],
        blobs: Sequence[tuple[str, bytes]] = (),
    ) -> bool:
        """Take events, in merge order, that simply go on from what is held; True if it was so.

        Each has seen everything before it, so nothing need be folded anew, and each was checked
        by itself. Where that is not so nothing is taken, and `absorb` has to look closer: at
        tombstones too, which may have to erase something.
        """
        from holdfast.union import continued

        taken: list[bool] = [False]
        if not tombstone.KINDS.isdisjoint({head.kind for _, head, _ in arrived}):
            return False

        def plan(view: View) -> Batch | None:
            _require_listed_well(view)
            state, fresh = self._state(view)
            batch = continued(view, state, arrived, fresh=fresh)
            taken[0] = batch is not None
            return batch

        self.store.append(session, plan, create=True, blobs=blobs)
        return taken[0]

    # -- reading -------------------------------------------------------------------------------

    def state(self, view: View) -> State:
        """The state under an open view, for reading."""
        return load(view)[0]

    def events(
        self, view: View, *, after: int = 0, limit: int = -1, newest: bool = False
    ) -> Iterator[Event]:
        return map(read, view.events(after=after, limit=limit, newest=newest))

    # -- forgetting and mending ----------------------------------------------------------------

    def forget(self, session: str, *, actor: str) -> None:
        """Append the tombstone and erase everything else of the session, for good."""

        def plan(view: View) -> Batch:
            _require_listed_well(view)
            state, _ = self._state(view)
            writing = _Writing(self._clock, view, state, fresh=True, actor=self.actor(actor))
            batch = writing.record([ev.SessionForgotten()])
            # The event itself is erased too: it says all by its kind.
            self._let_go(view.session)
            left = rebuilt(fold(map(_erased, [*view.events(), *batch.entries])))
            batch.core, batch.rows, batch.listing = left.core, left.rows, left.listing
            return batch

        self.store.erase(session, plan)

    def forget_events(
        self, session: str, hashes: Sequence[str], *, actor: str, because: str = ""
    ) -> list[Event]:
        """Append tombstones for some events and erase what these say, for good.

        A copy of one under another hash goes with it. Returns the events that lost something now,
        as they were: none the second time.
        """
        from holdfast.soundness import require_intact

        done: list[Event] = []
        entitled = self._entitled_elsewhere(session)

        def plan(view: View) -> Batch | None:
            _require_listed_well(view)
            require_intact(view)
            events = list(map(read, view.events()))
            done[:], named = _to_forget(events, hashes, entitled)
            if not done and not named:
                return None
            self._let_go(view.session)
            writing = _Writing(self._clock, view, fold(events), fresh=True, actor=self.actor(actor))
            moves = [self.admit(body) for body in _tombstones(named, because)]
            batch = writing.record(moves) if moves else rebuilt(writing.state)
            batch.erased = [event.seq for event in done]
            return batch

        self.store.append(session, plan)
        return done

    def _let_go(self, session: str) -> None:
        """What this process remembers of a session may be what must go."""
        self._cache.pop(session, None)
        self._news = ("", [])

    def rebuild(self, session: str) -> None:
        """Make everything derived anew from the events, which stay as they are.

        Where the end of the session was not remembered any more, it is from now on.
        """
        from holdfast.soundness import chain_findings

        def plan(view: View) -> Batch:
            stored = list(view.events())
            state = fold(map(read, stored))
            batch = rebuilt(state)
            # Damaged events must never be given a sum that fits them.
            batch.resum = not list(chain_findings(view, stored))
            if batch.resum and view.remembered is None:
                batch.head = own_head(view, state.core)
            return batch

        self.store.append(session, plan)

    # -- verification --------------------------------------------------------------------------

    def check_chain(self, view: View) -> list[Finding]:
        """Whether the events are what was written and none is missing; what `resume` relies on."""
        from holdfast.soundness import check_chain

        return check_chain(view)

    def check_content(self, view: View) -> list[Finding]:
        """Whether what is kept beside sound events is there as it was kept."""
        from holdfast.soundness import check_content

        return check_content(self.store, view)

    def verify(self, session: str) -> Report:
        """The chains, the remembered heads, and everything derived against a fresh fold."""
        from holdfast.soundness import verify

        return verify(self.store, session)


def _require_undone(error: Busy) -> None:
    """Old pages that someone still reads go with the next write; what came is taken."""
    if error.operation != "delete":
        raise error


def _to_forget(
    events: Sequence[Event], hashes: Sequence[str], entitled: Entitled
) -> tuple[list[Event], list[Event]]:
    """Of the events meant and their copies, those with content, and those without a tombstone of
    someone who is entitled to it: that of another has nothing erased elsewhere."""
    ids = {event.id for event in events if event.hash in set(hashes)}
    meant = [event for event in events if event.id in ids and event.kind not in tombstone.KINDS]
    known = Tombstones(events)
    return (
        [event for event in meant if not isinstance(event.body, ev.Erased)],
        [event for event in meant if not known.erase(event.head, event.hash, entitled)],
    )


def _tombstones(events: Sequence[Event], because: str) -> list[Body]:
    """As many as it takes: what names many does not fit into one event."""
    parts = (events[at : at + _MOST_NAMED] for at in range(0, len(events), _MOST_NAMED))
    return [
        ev.EventForgotten(
            hashes=[event.hash for event in part], ids=[event.id for event in part], because=because
        )
        for part in parts
    ]


class _Writing:
    """One append in the making: the state moves on with each event that is recorded."""

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
        # What is recorded together shares the beginning of its ids: `undo` takes all of it back.
        self._id = id or new_id(clock)
        self._before = 0
        self._entries: list[Entry] = []
        self.state = state
        self.events: list[Event] = []
        self.news: News | None = None
        self._in_row = False
        """Whether the next move is a withdrawal too."""
        self._device, self._lost = _device_for(view, state.core, self._clock)

    def record(self, moves: Sequence[Body], rule: Rule = decide) -> Batch:
        """What has to be kept for these moves."""
        self.take(moves, rule)
        return self.batch()

    def begin(self, id: str, actor: str, at: int | None) -> None:
        """What follows is of another call, under a key of its own."""
        self._id = self._key = id
        self._actor, self._at, self._before = actor, at, len(self.events)

    def take(self, moves: Sequence[Body], rule: Rule) -> None:
        """Decide each move and let it take effect; the very last event has the id itself."""
        at = self._at
        times = [at] * len(moves) if at is None or isinstance(at, int) else at
        for left, move, at in zip(reversed(range(len(moves))), moves, times, strict=True):
            *implied, asked = rule(self.state, move)
            for body in implied:
                self._record(body, self._part(), at)
            self._in_row = isinstance(moves[-left] if left else None, ev.EventRetracted)
            is_read = asked is move and rule is weigh
            self._record(asked, self._part() if left else self._id, at, is_read=is_read)

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
            # A clock gone mad must not make an event that nobody can read.
            at=max(-_LAST_MS, min(now, _LAST_MS)),
            actor=self._actor,
        )
        key = id if self._key else None
        self._entries.append(Entry(sealed.header, sealed.salt, sealed.data, key))
        self._take_effect(event)
        self.events.append(event)

    def _take_effect(self, event: Event) -> None:
        if follows(self.state, event):
            extend(self.state, event)
            return
        if self._in_row and isinstance(event.body, ev.EventRetracted):
            # What many withdraw together is worked out with the last of them, once.
            advance(self.state.core, event)
            return
        everything = [*map(read, self._view.events()), *self.events, event]
        self.state, self._fresh = fold(everything), True

    def batch(self) -> Batch:
        rows = self.state.rows
        last = self.events[-1]
        # Before the rows are taken: the summary may still look at them through the view.
        shown = listing(self.state)
        if isinstance(rows, StoredRows):
            self.news, changed = rows.news(), rows.take_changes()
        else:
            changed = all_rows(self.state)
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


def _report(writing: _Writing, moves: Sequence[Body]) -> None:
    """Take what happened as it is; of the session itself only what its rules allow."""
    if not moves:
        return
    about = ev.KIND_OF[type(moves[0])].startswith("session.")
    try:
        writing.take(moves, decide if about else report)
    except Refused:
        if not about:
            raise


def _require_listed_well(view: View) -> None:
    """What is added after a wrong length, or under a wrong id, could not be found again."""
    if not view.listed_well:
        raise Damaged(
            f"what is listed of session {view.session} is not as it was written",
            why="nothing was recorded",
            hint="make it anew from its events: holdfast doctor --fix",
            session=view.session,
        )


def own_head(view: View, core: Core) -> Head | None:
    """The end of the chain that this device writes; None if it wrote none, or one with forks."""
    chain = core.chains.get(view.device)
    ends = chain.heads if chain else []
    return Head(view.device, *ends[0][:2]) if len(ends) == 1 else None


def _erased(entry: Entry) -> Event:
    return ev.read(Sealed(entry.header, None, None))


def _device_for(view: View, core: Core, clock: Clock) -> tuple[str, list[tuple[str, int, str]]]:
    """The device id to write under, and the heads that were acknowledged but are not there."""
    lost = _lost_head(view.remembered, core)
    chain = core.chains.get(view.device)
    is_forked = chain is not None and len(chain.heads) > 1
    if is_forked or (lost and any(device == view.device for device, _, _ in lost)):
        return short_id(clock, 12), lost
    return view.device, lost


def _lost_head(left: Head | None, core: Core) -> list[tuple[str, int, str]]:
    """The remembered head if the journal ends before it. One that lags behind is no loss."""
    if left is None:
        return []
    chain = core.chains.get(left.device)
    heads = chain.heads if chain else []
    if [1 for n, digest, _ in heads if left.n < n or digest == left.hash]:
        return []
    return [(left.device, left.n, left.hash)]


def _same_call(key: str, earlier: Event, move: Body) -> Event:
    """A key stands for one call: another call under it would be acknowledged and dropped."""
    if isinstance(earlier.body, ev.Erased):
        return earlier  # what it said is gone; that it was said is not
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
