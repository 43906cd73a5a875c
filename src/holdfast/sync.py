"""Sync: a home and a remote, made equal session by session.

A *visit* opens the remote, takes over what its circle's devices say of each other, lists what is
there once, and then makes an exchange for each session, a few side by side. What is wrong with
one session stops that one alone. What cannot be reached stops the visit: nothing here is changed
by it, and what was recorded waits.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from typing import NamedTuple

from holdfast import erasure, files, keychain
from holdfast.bunch import Bunch, Identity
from holdfast.errors import (
    Busy,
    Downgraded,
    HoldfastError,
    InvalidInput,
    Locked,
    NotEntitled,
    NotThere,
    Outdated,
    RemoteFailed,
    Swapped,
    Tampered,
    Unreachable,
)
from holdfast.exchange import PATIENCE, Exchange, Moved, Trip
from holdfast.home import Holdfast
from holdfast.reach import reached, told
from holdfast.remote import FORMAT, Object, Oddity, Probe, Remote, names, open_remote
from holdfast.remote import circle as circles
from holdfast.store.remotes import Known, Packed
from holdfast.text import clean_id, plural

SIDE_BY_SIDE = 4
_LOCK = "sync.lock"

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
    error: HoldfastError | None = None

    @property
    def worst(self) -> HoldfastError | None:
        """What went wrong first, if anything did."""
        return next((e for e in (self.error, *(one.error for one in self.sessions)) if e), None)

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
    """How a visit is made: what it does, and how patient it is."""

    push: bool = True
    pull: bool = True
    again: bool = False
    sessions: Sequence[str] = ()
    wait: float = 10.0
    patience: Sequence[float] = PATIENCE


def meant(home: Holdfast, name: str = "") -> list[Known]:
    """The remote of a name; without one, all of them."""
    every = home.store.remotes.all()
    found = [one for one in every if one.name == name] if name else every
    if found:
        return found
    if every:
        why = f"there is {', '.join(one.name for one in every)}"
        raise InvalidInput(f"there is no remote {name}", why=why, hint="holdfast remote list")
    hint = "holdfast remote add usb folder:/media/usb/holdfast"
    raise InvalidInput("there is no remote yet", hint=hint)


def visit_all(
    home: Holdfast, name: str, manner: Manner, *, tell: Tell | None = None
) -> list[Report]:
    """Visit the remotes meant, one after the other; one that cannot be reached stops no other."""
    found = meant(home, name)
    me = identity(home)
    # What one remote tells of our devices is known at the next.
    first = me if len(found) == 1 else None
    return [_visited(home, one, manner, tell, first) for one in found]


def _visited(
    home: Holdfast, known: Known, manner: Manner, tell: Tell | None, me: Identity | None
) -> Report:
    try:
        return visit(home, known, manner, tell=tell, me=me)
    except (RemoteFailed, Busy, Outdated) as error:
        return Report(known.name, [], 0, home.store.remotes.waiting() or 0, error)


def visit(
    home: Holdfast,
    known: Known,
    manner: Manner,
    *,
    tell: Tell | None = None,
    remote: Remote | None = None,
    me: Identity | None = None,
) -> Report:
    """Exchange sessions with a remote; `tell` hears of bytes as they move."""
    with _alone(home, manner.wait):
        visiting = _Visit(home, known, manner, tell)
        try:
            report = visiting.make(remote, me or identity(home))
        except HoldfastError as error:
            home.store.remotes.synced(known, home.clock.now(), "failed", str(error))
            _add_count(error, home)
            raise
        wrong = "; ".join(f"{one.session}: {one.error}" for one in report.problems[:3])
        result = "failed" if report.problems else "done"
        home.store.remotes.synced(known, home.clock.now(), result, wrong)
        for one in report.sessions:
            if one.up:
                home.reflect(one.session)  # its files tell when it was synced
        return report


def _add_count(error: HoldfastError, home: Holdfast) -> None:
    """Who is told that a remote cannot be reached wants to know what waits."""
    if isinstance(error, Unreachable):
        count = home.store.remotes.waiting() or 0
        verb = "waits" if count == 1 else "wait"
        waits = f"{plural(count, 'event')} {verb} here for the next push" if count else ""
        error.hint = "; ".join(filter(None, (error.hint, waits)))


@contextmanager
def _alone(home: Holdfast, wait: float) -> Iterator[None]:
    files.make_private_dir(home.store.home)
    path = os.path.join(home.store.home, _LOCK)
    with files.locked(path, timeout=wait, clock=home.clock, create=True):
        yield


class _Visit:
    def __init__(self, home: Holdfast, known: Known, manner: Manner, tell: Tell | None) -> None:
        self._home, self._known, self._manner, self._tell = home, known, manner, tell
        self._remotes = home.store.remotes

    def make(self, remote: Remote | None, me: Identity) -> Report:
        there = remote or reached(self._known)
        try:
            _require_format(there, make=self._manner.push)
            me = Circling(there, self._known, self._home).meet(me, push=self._manner.push)
            return self._exchange_all(there, me)
        finally:
            if remote is None:
                there.close()

    def _exchange_all(self, remote: Remote, me: Identity) -> Report:
        with (
            ThreadPoolExecutor(SIDE_BY_SIDE, "transfer") as pool,
            ThreadPoolExecutor(SIDE_BY_SIDE, "session") as sessions,
        ):
            trip = Trip(
                self._home.journal,
                self._known,
                remote,
                me,
                clock=self._home.clock,
                pool=pool,
                again=self._manner.again,
                patience=self._manner.patience,
                tell=self._tell,
                obey=lambda session: erasure.prepare(self._home, session),
            )
            found, clashes, foreign = self._places(trip)
            waiting: list[Future[Moved]] = []
            try:
                if len(found) == 1:
                    ((session, there),) = found.items()
                    moved = [self._done(self._exchange(trip, session, *there))]
                else:
                    for session, there in found.items():
                        waiting.append(sessions.submit(self._exchange, trip, session, *there))
                    moved = [self._done(one.result()) for one in waiting]
            except BaseException:
                # The user said stop, or nothing can be reached: begin nothing more.
                trip.stopped = True
                for one in waiting:
                    one.cancel()
                raise
        return Report(self._known.name, moved + clashes, foreign, self._remotes.waiting() or 0)

    def _done(self, moved: Moved) -> Moved:
        for act in moved.after:
            self._home.afterwards(lambda act=act: self._tell_left(act()))  # type: ignore[misc]
        if moved.down:
            self._home.reflect(moved.session)
        return moved

    def _tell_left(self, done: object) -> None:
        """What another device forgot and could not be looked for here is named."""
        for path in done.left if isinstance(done, erasure.Forgotten) else ():
            self._home.say(f"may still hold something that was forgotten elsewhere: {path}")

    def _exchange(self, trip: Trip, session: str, place: str, listed: Sequence[Object]) -> Moved:
        moved = Moved(session)
        try:
            trip.go_on()
            exchange = Exchange(trip, session, place, listed)
            moved = exchange.moved
            self._move(exchange)
        except Unreachable:
            trip.stopped = True
            raise
        except HoldfastError as error:
            moved.error = error
        return moved

    def _move(self, exchange: Exchange) -> None:
        try:
            if self._manner.pull:
                exchange.pull()
            if self._manner.push and self._is_here(exchange.session):
                exchange.push()
        except Locked:
            if not exchange.has_ended():
                raise
            exchange.end()

    def _is_here(self, session: str) -> bool:
        """Also where it was forgotten: what is left of it says so to others."""
        asked: list[dict[str, object]] = [{"id": session, "forgotten": gone} for gone in (0, 1)]
        return any(self._home.store.catalogue(where=where, limit=1) for where in asked)

    # -- which sessions ------------------------------------------------------------------------

    def _places(self, trip: Trip) -> tuple[Places, list[Moved], int]:
        """The sessions to exchange, those refused, and how many places are not for us."""
        name_key = trip.identity.circle.name_key
        asked = list(self._manner.sessions)
        mine = asked or [str(row["id"]) for row in self._home.store.catalogue()]
        known = {one.session: one.place for one in self._remotes.sessions(self._known)}
        wanted = {one: known.get(one) or names.place(name_key, one) for one in mine}
        if asked:
            listed = {p: list(trip.remote.list(f"s/{p}/")) for p in wanted.values()}
        else:
            listed = _by_place(trip.remote.list(names.SESSIONS))
            wanted = {**known, **wanted}
        trip.shown(one for each in listed.values() for one in each)
        found = {one: (place, listed.get(place, [])) for one, place in wanted.items()}
        strange = listed.keys() - {place for place, _ in found.values()}
        new = {place: self._session_at(trip, place, listed[place]) for place in strange}
        met, clashes = self._met({p: one for p, one in new.items() if one}, found, name_key)
        found |= {one: (place, listed[place]) for place, one in met.items()}
        return found, clashes, sum(not one for one in new.values())

    def _met(
        self, new: Mapping[str, str], found: Places, name_key: bytes
    ) -> tuple[dict[str, str], list[Moved]]:
        """Of sessions at strange places, by place: those to meet, and those whose id is taken.

        Anyone who can write there can say that theirs is called like ours, and share it with us.
        """
        gone = self._home.store.catalogue(where={"forgotten": 1})
        taken = {one.lower() for one in found}
        ours = {p: one for p, one in new.items() if names.place(name_key, one) == p}
        ours = {p: one for p, one in ours.items() if one.lower() not in taken}
        taken |= {one.lower() for one in ours.values()} | {str(row["id"]).lower() for row in gone}
        count = Counter(one.lower() for one in new.values())
        others = {p: one for p, one in new.items() if p not in ours}
        met = {p: s for p, s in others.items() if s.lower() not in taken and count[s.lower()] == 1}
        return ours | met, [_clash(p, s) for p, s in sorted(others.items()) if p not in met]

    def _session_at(self, trip: Trip, place: str, listed: Sequence[Object]) -> str:
        """The id of a session that only the remote has; "" if it is not for us."""
        try:
            bunch = Bunch(
                trip.identity, "", {one.name: 0 for one in listed}, get=trip.get, place=place
            )
            return clean_id(bunch.ring.session, "the id of a session") if bunch.ring else ""
        except Unreachable:
            raise
        except HoldfastError:
            return ""  # of someone else who keeps their sessions here, or of no use to anyone


def _clash(place: str, session: str) -> Moved:
    moved = Moved(session)
    moved.error = Swapped(
        f"someone shares another session {session} with you than the one that is known here",
        why=f"it lies at s/{place}/",
        hint="it was not taken; ask whoever shares it to give it another id",
        session=session,
    )
    return moved


def _by_place(listed: Iterable[Object]) -> dict[str, list[Object]]:
    found: dict[str, list[Object]] = {}
    for one in listed:
        if place := names.place_of(one.name):
            found.setdefault(place, []).append(one)
    return found


def _require_format(remote: Remote, *, make: bool) -> None:
    """The mark that says how things are kept there."""
    try:
        mark = remote.get(FORMAT)
    except NotThere:
        if make:
            remote.put(FORMAT, names.MARK)
        return
    if mark == names.MARK:
        return
    if mark.startswith(b"holdfast remote ") and mark[16:].strip().isdigit() and mark > names.MARK:
        what = "a newer Holdfast keeps things there in another form"
        raise Outdated(what, why=mark[:40].decode("ascii", "replace").strip(), hint="update here")
    raise Downgraded("the mark of the remote is not as it was written", why=f"{mark[:20]!r}")


# --- remotes ----------------------------------------------------------------------------------


class Checked(NamedTuple):
    """A remote as it was found: what it can do, and what else lies there."""

    name: str
    address: str
    backend: str
    probe: Probe
    oddities: Sequence[Oddity]
    sessions: int


_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")


def add(home: Holdfast, name: str, address: str) -> Checked:
    """Try a remote and remember it by a name."""
    if not _NAME.fullmatch(name):
        why = "small letters, digits, dot, dash and underscore, at most 40"
        raise InvalidInput(f"{name!r} is no name for a remote", why=why)
    if home.store.remotes.find(name):
        raise InvalidInput(f"there is a remote {name} already", hint="holdfast remote list")
    remote = open_remote(address)
    try:
        _require_format(remote, make=False)
        found = _checked(name, remote, remote.probe())
    finally:
        remote.close()
    same = [one.name for one in home.store.remotes.all() if one.address == found.address]
    if same:
        raise InvalidInput(f"{found.address} is the remote {same[0]} already")
    home.store.remotes.add(name, found.address, told(found.probe), home.clock.now())
    return found


def check(home: Holdfast, name: str) -> Checked:
    """Try a remote again, and look what else lies there."""
    (known,) = meant(home, name)
    remote = open_remote(known.address, known=bool(known.synced))
    try:
        _require_format(remote, make=False)
        found = _checked(name, remote, remote.probe(), remote.oddities())
    finally:
        remote.close()
    home.store.remotes.probed(known, told(found.probe))
    return found


def _checked(name: str, remote: Remote, probe: Probe, oddities: Sequence[Oddity] = ()) -> Checked:
    places = _by_place(remote.list(names.SESSIONS))
    return Checked(name, remote.address, remote.backend, probe, oddities, len(places))


def remove(home: Holdfast, name: str) -> Known:
    """Forget a remote; nothing there is changed."""
    (known,) = meant(home, name)
    home.store.remotes.remove(known)
    return known


# --- who this device is -----------------------------------------------------------------------


def identity(home: Holdfast) -> Identity:
    """The key and the circle of this device; refused, with what helps, where there is none."""
    key, circle = keychain.own(home)
    known = circle.device(key.id)
    return Identity(key, circle, known.name if known else keychain.own_name(home))


class Circling:
    """What the devices of a circle say of each other, here and on a remote."""

    def __init__(self, remote: Remote, known: Known, home: Holdfast) -> None:
        self._remote, self._known, self._home = remote, known, home
        self._remotes = home.store.remotes

    def meet(self, me: Identity, *, push: bool) -> Identity:
        """Take over what is there, and put there what it lacks."""
        prefix = names.circles(me.circle.id)
        seen = {one.name: one for one in self._remotes.objects(self._known, "")}
        shown = self._remote.list(prefix)
        listed = {one.name: one.size for one in shown if names.is_circle(one.name)}
        circle, fresh = me.circle, []
        for name in sorted(listed.keys() - seen.keys()):
            found = self._read(name, me)
            circle = circles.union(circle, found) if found else circle
            fresh.append(_met(name, found, listed[name]))
        if push:
            # Two that were put out at once may each hold what replaced the keys of the other.
            circle = circles.refreshed(circle, me.key, made=self._home.clock.now())
        if circle is not me.circle:
            circles.keep(keychain.folder(self._home), circle, me.key)
        told = {one.after for name, one in seen.items() if name in listed}
        told |= {one.after for one in fresh}
        if push and _all(circle) not in told and circle.may_speak(me.key.id):
            fresh.append(self._put(circle, me))
        if fresh:
            self._remotes.pushed(self._known, "", fresh)
        return me._replace(circle=circle)

    def _read(self, name: str, me: Identity) -> circles.Circle | None:
        data = self._remote.get(name)
        if names.hash_of(data) != name[-32:]:
            raise Tampered("what is told of your devices is not as it was put there", why=name)
        try:
            return circles.decode(data, me.key)
        except Locked:
            return None  # from before this device was let in, or after it was put out
        except (Tampered, NotEntitled):
            # Nothing is missing: it never was what a device of the circle put there.
            self._home.say(f"no device of yours wrote this, and it was passed over: {name}")
            return None

    def _put(self, circle: circles.Circle, me: Identity) -> Packed:
        data = circles.encode(circle, me.key)
        name = names.circles(circle.id) + names.hash_of(data)
        self._remote.put(name, data)
        return _met(name, circle, len(data))


def _met(name: str, circle: circles.Circle | None, size: int) -> Packed:
    return Packed(name, "", 0, 0, "", _all(circle) if circle else "", size)


def _all(circle: circles.Circle) -> str:
    """One digest of all that a circle's devices said."""
    return sha256("\n".join(sorted(circle.said)).encode()).hexdigest()
