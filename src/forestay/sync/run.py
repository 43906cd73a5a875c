"""A visit: a home and a remote, made equal session by session.

It opens the remote, takes over what its circle's devices say of each other, lists what is
there once, and then makes an exchange for each session, a few side by side. What is wrong with
one session stops that one alone. What cannot be reached stops the visit: nothing here is changed
by it, and what was recorded waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, nullcontext
from functools import partial
from typing import NamedTuple

from forestay.base.text import clean_id, plural
from forestay.errors import (
    Busy,
    ForestayError,
    InvalidInput,
    Locked,
    Outdated,
    RemoteFailed,
    Swapped,
    Tampered,
    Unreachable,
)
from forestay.journal.context import Context
from forestay.mirror.session_files import SessionFiles, write_files
from forestay.store.machine.remotes import LEFT, Known
from forestay.sync import connect
from forestay.sync.connect import Answer, Hasty, SetAside, as_they_answer, reached
from forestay.sync.device_list import Circling, as_now, identity
from forestay.sync.join import Joining
from forestay.sync.known_remotes import by_place, meant, require_format
from forestay.sync.lock import alone
from forestay.sync.pull import SessionPull
from forestay.sync.push import SessionPush
from forestay.sync.remotes import object_names
from forestay.sync.remotes.port import Object, Remote
from forestay.sync.rotate_keys import Turning
from forestay.sync.session import Exchange, Moved
from forestay.sync.session_keys import ELSEWHERE, Identity, SessionKeys
from forestay.sync.transfer import PATIENCE, Stopped, Trip

SIDE_BY_SIDE = 4

Tell = Callable[[str, int], None]
Places = dict[str, tuple[str, list[Object]]]
"""Sessions, with where each is and what is listed there."""


class Report(NamedTuple):
    """What one visit did. `waiting` events of this home are on no remote yet.

    `foreign` places there belong to others. With an `error` the visit came to nothing.
    """

    remote: str
    sessions: list[Moved]
    foreign: int
    waiting: int
    error: ForestayError | None = None

    @property
    def worst(self) -> ForestayError | None:
        """What went wrong first, if anything did."""
        aside = (error for one in self.sessions for error in (*one.aside, *one.noticed))
        every = (self.error, *(one.error for one in self.sessions), *aside)
        return next((error for error in every if error), None)

    @property
    def problems(self) -> list[Moved]:
        return [one for one in self.sessions if one.error is not None]

    @property
    def up(self) -> int:
        return sum(one.up for one in self.sessions)

    @property
    def down(self) -> int:
        return sum(one.down for one in self.sessions)


class Manner(NamedTuple):
    """How a visit is made: what it does, and how patient it is.

    `join` names sessions of this home that their owner shares, with what was added here;
    `doubt` and `believe` name persons, for the sessions that are named.
    """

    push: bool = True
    pull: bool = True
    again: bool = False
    join: Sequence[str] = ()
    sessions: Sequence[str] = ()
    doubt: Sequence[str] = ()
    believe: Sequence[str] = ()
    wait: float = 10.0
    patience: Sequence[float] = PATIENCE


def visit_all(
    context: Context, name: str, manner: Manner, *, tell: Tell | None = None
) -> list[Report]:
    """Visit the remotes meant, one after the other, as they answer.

    One that cannot be reached stops no other. One that hangs comes last: it is left where it is,
    which is no more than a visit that dies, and begun anew when the others were visited.
    """
    if (manner.doubt or manner.believe) and not manner.sessions:
        hint = "forestay sync --pull --session SESSION --doubt WHO"
        raise InvalidInput("whom you doubt is said of a session; name it", hint=hint)
    found = meant(context, name)
    me = _opened(context, found)
    if len(found) == 1:
        return [
            _visited(context, found[0], lambda: visit(context, found[0], manner, tell=tell, me=me))
        ]
    turns = (_Turn(context, known, manner, tell, answer) for known, answer in as_they_answer(found))
    reports = _in_turn(turns, len(found))
    return [reports[one.name] for one in found]


def _in_turn(turns: Iterable[_Turn], count: int) -> dict[str, Report]:
    """What one remote tells of our devices is known at the next."""
    reports: dict[str, Report] = {}
    aside: list[_Turn] = []
    for number, turn in enumerate(turns, 1):
        try:
            act = turn.visit if number == count else turn.visit_hastily
            reports[turn.known.name] = _visited(turn.context, turn.known, act)
        except SetAside:
            aside.append(turn)
    again = {one.known.name: _visited(one.context, one.known, one.visit_anew) for one in aside}
    return reports | again


def _opened(context: Context, found: Sequence[Known]) -> Identity:
    try:
        return identity(context)
    except Locked as error:
        # A sync by itself has nobody to ask for a passphrase, and nobody to tell that it had not.
        for known in found:
            _failed(context, known, error)
        raise


def _visited(context: Context, known: Known, act: Callable[[], Report]) -> Report:
    try:
        return act()
    except (RemoteFailed, Busy, Outdated) as error:
        return Report(known.name, [], 0, context.store.machine.remotes.waiting() or 0, error)


class _Turn(NamedTuple):
    """A remote that answered, and is to be visited."""

    context: Context
    known: Known
    manner: Manner
    tell: Tell | None
    answer: Answer

    def visit(self, seconds: float = 0.0) -> Report:
        if isinstance(self.answer, Remote):
            with closing(self.answer) as remote:
                there = Hasty(remote, seconds) if seconds else remote
                return visit(self.context, self.known, self.manner, tell=self.tell, remote=there)
        if isinstance(self.answer, ForestayError):
            _failed(self.context, self.known, self.answer)
        raise self.answer

    def visit_hastily(self) -> Report:
        """While others wait; `SetAside` if it hangs."""
        return self.visit(connect.WHILE_OTHERS_WAIT)

    def visit_anew(self) -> Report:
        return visit(self.context, self.known, self.manner, tell=self.tell)


def visit(
    context: Context,
    known: Known,
    manner: Manner,
    *,
    tell: Tell | None = None,
    remote: Remote | None = None,
    me: Identity | None = None,
) -> Report:
    """Exchange sessions with a remote; `tell` hears of bytes as they move."""
    with alone(context, manner.wait):
        return visit_alone(context, known, manner, tell=tell, remote=remote, me=me)


def visit_alone(
    context: Context,
    known: Known,
    manner: Manner,
    *,
    tell: Tell | None = None,
    remote: Remote | None = None,
    me: Identity | None = None,
) -> Report:
    """The same, for who keeps others out already."""
    visiting = _Visit(context, known, manner, tell)
    try:
        # Who `me` is was found before others were kept out.
        report = visiting.make(remote, as_now(context, me) if me else identity(context))
    except ForestayError as error:
        _failed(context, known, error)
        raise
    wrong = "; ".join(f"{one.session}: {one.error}" for one in report.problems[:3])
    result = "failed" if report.problems else "done"
    # Where nothing was ever put, nothing can be missed: it stays a remote that is new.
    met = visiting.is_begun or known.synced
    context.store.machine.remotes.synced(known, context.clock.now() if met else 0, result, wrong)
    for one in report.sessions:
        if one.up:
            write_files(context, one.session)  # its files tell when it was synced
    _tell_change(context, known, result, wrong)
    return report


def _tell_change(context: Context, before: Known, result: str, wrong: str) -> None:
    """Files tell how the last sync went, also those of sessions of which nothing moved."""
    if (before.result, before.error) != (result, wrong):
        SessionFiles.of(context).write_sync_state()


def _failed(context: Context, known: Known, error: ForestayError) -> None:
    context.store.machine.remotes.failed(known, str(error))
    _tell_change(context, known, "failed", str(error))
    _add_count(error, context)


def _add_count(error: ForestayError, context: Context) -> None:
    """Who is told that a remote cannot be reached wants to know what waits."""
    if isinstance(error, Unreachable):
        count = context.store.machine.remotes.waiting() or 0
        verb = "waits" if count == 1 else "wait"
        waits = f"{plural(count, 'event')} {verb} here for the next push" if count else ""
        error.hint = "; ".join(filter(None, (error.hint, waits)))


class _Visit:
    def __init__(self, context: Context, known: Known, manner: Manner, tell: Tell | None) -> None:
        self._context, self._known, self._manner, self._tell = context, known, manner, tell
        self._remotes = context.store.machine.remotes
        self.is_begun = False
        self._under_way: list[Moved] = []

    def make(self, remote: Remote | None, me: Identity) -> Report:
        there = remote or reached(self._known)
        with nullcontext() if remote else closing(there):
            self.is_begun = require_format(there, make=self._manner.push)
            me = Circling(there, self._known, self._context).meet(me, push=self._manner.push)
            self._remotes.is_of(me.circle.id, me.name)
            return self._exchange_all(there, me)

    def _exchange_all(self, remote: Remote, me: Identity) -> Report:
        for session in self._remotes.owing():
            self._finish_erasure(partial(_resume_erasure, self._context, session))
        try:
            with ThreadPoolExecutor(SIDE_BY_SIDE, "transfer") as pool:
                trip = self._trip(remote, me, pool)
                found, clashes, foreign = self._places(trip)
                moved = self._exchange_each(trip, found)
        finally:
            # What was taken is here, also of a visit that does not end; it is not taken again.
            for one in self._under_way.copy():
                self._done(one)
        return Report(self._known.name, moved + clashes, foreign, self._remotes.waiting() or 0)

    def _trip(self, remote: Remote, me: Identity, pool: ThreadPoolExecutor) -> Trip:
        return Trip(
            self._context.journal,
            self._known,
            remote,
            me,
            clock=self._context.clock,
            pool=pool,
            again=self._manner.again,
            patience=self._manner.patience,
            is_unattended=self._context.is_unattended,
            tell=self._tell,
            obey=lambda session: _prepare_erasure(self._context, session),
        )

    def _exchange_each(self, trip: Trip, found: Places) -> list[Moved]:
        """Several sessions at once; one alone needs no thread."""
        waiting: list[Future[Moved]] = []
        with ThreadPoolExecutor(SIDE_BY_SIDE, "session") as threads:
            try:
                if len(found) == 1:
                    ((session, there),) = found.items()
                    return [self._done(self._exchange(trip, session, *there))]
                for session, there in found.items():
                    waiting.append(threads.submit(self._exchange, trip, session, *there))
                return [self._done(one.result()) for one in waiting]
            except BaseException as error:
                # The user said stop, or nothing can be reached: begin nothing more.
                trip.stop(error)
                for one in waiting:
                    one.cancel()
                if isinstance(error, Stopped) and trip.stopped:
                    raise trip.stopped from trip.stopped.__cause__
                raise

    def _done(self, moved: Moved) -> Moved:
        if moved in self._under_way:
            self._under_way.remove(moved)
        for act in moved.after:
            self._finish_erasure(act)
        if moved.down:
            write_files(self._context, moved.session)
        return moved

    def _finish_erasure(self, act: Callable[[], Sequence[str]]) -> None:
        """Do what an erasure by another device demands here; name the files that may be left."""

        def finish() -> None:
            for path in act():
                line = f"may still hold something that was forgotten elsewhere: {path}"
                self._context.notify(line)

        self._context.best_effort(finish)

    def _exchange(self, trip: Trip, session: str, place: str, listed: Sequence[Object]) -> Moved:
        moved = Moved(session)
        try:
            trip.go_on()
            exchange = Exchange(trip, session, place, listed)
            moved = exchange.moved
            self._under_way.append(moved)
            if self._manner.doubt or self._manner.believe:
                exchange.doubt(self._manner.doubt, believe=self._manner.believe)
            self._move(exchange)
        except Unreachable as error:
            trip.stop(error)
            raise
        except ForestayError as error:
            if isinstance(error, Tampered) and not error.hint:
                error.hint = ELSEWHERE
            moved.error = error
        return moved

    def _move(self, exchange: Exchange) -> None:
        taking = SessionPull(exchange)
        try:
            if self._manner.pull:
                taking.pull()
            if self._manner.push:
                Turning(exchange, taking).turn()
                if self._is_here(exchange.session):
                    SessionPush(exchange, taking).push()
        except Locked:
            if not exchange.has_ended():
                raise
            exchange.end()

    def _is_here(self, session: str) -> bool:
        """Also where it was forgotten: what is left of it says so to others."""
        asked: list[dict[str, object]] = [{"id": session, "forgotten": gone} for gone in (0, 1)]
        return any(self._context.store.catalogue(where=where, limit=1) for where in asked)

    # -- which sessions ------------------------------------------------------------------------

    def _places(self, trip: Trip) -> tuple[Places, list[Moved], int]:
        """The sessions to exchange, those refused, and how many places are not for us."""
        name_key = trip.identity.circle.name_key
        asked = list(self._manner.sessions)
        mine = asked or [str(row["id"]) for row in self._context.store.catalogue()]
        known = {one.session: one.place for one in self._remotes.sessions(self._known)}
        shared = self._remotes.shared_at(trip.identity.circle.id) | known
        wanted = {one: shared.get(one) or object_names.place(name_key, one) for one in mine}
        # Where someone else shares it is known to whoever looks at all places.
        strangers = {one for one in asked if one not in shared and not self._is_here(one)}
        wanted = {one: place for one, place in wanted.items() if one not in strangers}
        if asked and not strangers:
            listed = {p: list(trip.remote.list(object_names.within(p))) for p in wanted.values()}
        else:
            listed = by_place(trip.remote.list(object_names.SESSIONS))
            wanted = wanted if asked else {**known, **wanted}
        trip.shown(one for each in listed.values() for one in each)
        found = {one: (place, listed.get(place, [])) for one, place in wanted.items()}
        strange = listed.keys() - {place for place, _ in found.values()}
        new = {place: self._session_at(trip, place, listed[place]) for place in strange}
        new = {p: one for p, one in new.items() if not asked or one in strangers}
        met, taken = self._met({p: one for p, one in new.items() if one}, found, name_key)
        found |= {one: (place, listed[place]) for place, one in met.items()}
        clashes = []
        count = Counter(taken.values())
        for place, one in sorted(taken.items()):
            there = (place, listed[place])
            wrong = self._join(trip, one, there, found) if count[one] == 1 else _clash(place, one)
            clashes += [wrong] if wrong else []
        left = {p: one for p, one in new.items() if one and p not in {**met, **taken}}
        for place, one in sorted(left.items()):
            clashes += self._leave(trip, one, place, listed[place])
        return found, clashes, sum(not one for one in new.values())

    def _join(
        self, trip: Trip, session: str, there: tuple[str, list[Object]], found: Places
    ) -> Moved | None:
        """Have a session of this home lie where its owner shares it; what is wrong, if it is not.

        Nothing else of its id may be there.
        """
        here = next((one for one in found if one.lower() == session.lower()), "")
        joining = Joining(trip, here, *there)
        if not here or here != session or not joining.is_same():
            return _clash(there[0], session)
        if joining.has_own() and session not in self._manner.join:
            return _unjoined(self._known.name, session)
        joining.join()
        self._context.notify(f"{session} is now the session that {joining.owner} shares with you")
        found[here] = there
        return None

    def _leave(self, trip: Trip, session: str, place: str, there: Sequence[Object]) -> list[Moved]:
        """What this person put at a place of their own is of no use once they joined another.

        Another device of theirs may have put something there that is nowhere else.
        """
        left = self._remotes.noted(self._known, session).get(LEFT, {})
        packs = {one.name for one in there if object_names.as_pack(one.name)}
        if not {place, *packs} <= left.keys():
            return [_own_clash(place, session)]
        for one in there if self._manner.push else ():
            trip.remote.delete(one.name)
        return []

    def _met(
        self, new: Mapping[str, str], found: Places, name_key: bytes
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Of sessions at strange places, by place: those to meet, and those whose id is taken.

        Anyone who can write there can say that theirs is called like ours, and share it with us.
        """
        gone = self._context.store.catalogue(where={"forgotten": 1})
        taken = {one.lower() for one in found}
        ours = {p: one for p, one in new.items() if object_names.place(name_key, one) == p}
        ours = {p: one for p, one in ours.items() if one.lower() not in taken}
        taken |= {one.lower() for one in ours.values()} | {str(row["id"]).lower() for row in gone}
        count = Counter(one.lower() for one in new.values())
        # What lies at a place of this person's own was left behind when they joined another.
        others = {p: s for p, s in new.items() if object_names.place(name_key, s) != p}
        met = {p: s for p, s in others.items() if s.lower() not in taken and count[s.lower()] == 1}
        return ours | met, {p: s for p, s in others.items() if p not in met}

    def _session_at(self, trip: Trip, place: str, listed: Sequence[Object]) -> str:
        """The id of a session that only the remote has; "" if it is not for us."""
        try:
            shown = {one.name: one.size for one in listed}
            ring = SessionKeys(trip.identity, "", shown, get=trip.get, place=place).ring
            return clean_id(ring.session, "the id of a session") if ring else ""
        except Unreachable:
            raise
        except ForestayError:
            return ""  # of someone else who keeps their sessions here, or of no use to anyone


def _unjoined(remote: str, session: str) -> Moved:
    return _not_taken(
        session,
        f"session {session}, which was imported here, is now shared with you by its owner",
        "what you added to it would be theirs to read",
        f"to bring both together: forestay sync --pull {remote} --join {session}",
    )


def _clash(place: str, session: str) -> Moved:
    return _not_taken(
        session,
        f"someone shares another session {session} with you than the one that is known here",
        f"it lies at {object_names.within(place)}",
        "it was not taken; ask whoever shares it to give it another id",
    )


def _own_clash(place: str, session: str) -> Moved:
    return _not_taken(
        session,
        f"another device of yours has another session {session} than the one that is known here",
        f"it lies at {object_names.within(place)}",
        "it was not taken, and stays there; on that device, work on under another id",
    )


def _not_taken(session: str, what: str, why: str, hint: str) -> Moved:
    moved = Moved(session)
    moved.error = Swapped(what, why=why, hint=hint, session=session)
    return moved


def _prepare_erasure(context: Context, session: str) -> Callable[[], Sequence[str]]:
    """Call before erasures by other devices are merged; the result is called after them."""
    acts = [follower.before_erasure(session) for follower in context.followers]
    return lambda: [path for act in acts for path in act()]


def _resume_erasure(context: Context, session: str) -> Sequence[str]:
    return [path for follower in context.followers for path in follower.resume_erasure(session)]
