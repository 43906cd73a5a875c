"""Sync a home with its remotes, session by session.

A *visit* is the sync with one remote. It opens the remote, merges the device group, lists all
objects once, and then pulls and pushes each session, a few in parallel. An error in one session
stops that session alone. If the remote becomes unreachable, the visit stops, and the next visit
pushes the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, nullcontext
from functools import partial
from typing import Any, NamedTuple

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
from forestay.sync.connect import connect_remote
from forestay.sync.device_list import identity, sync_device_list, with_current_group
from forestay.sync.join import SessionJoin
from forestay.sync.known_remotes import by_place, require_format, select_remotes
from forestay.sync.lock import exclusive_sync
from forestay.sync.pull import SessionPull
from forestay.sync.push import SessionPush, rotate_keys_if_due
from forestay.sync.remotes import object_names
from forestay.sync.remotes.port import Object, Remote
from forestay.sync.session import Exchange, SessionOutcome
from forestay.sync.session_keys import ELSEWHERE, Identity, SessionKeys
from forestay.sync.transfer import PATIENCE, Stopped, Transfer

SIDE_BY_SIDE = 4

OnBytes = Callable[[str, int], None]
Places = dict[str, tuple[str, list[Object]]]
"""For each session id: its place on the remote, and the objects listed there."""


class Report(NamedTuple):
    """The result of one visit.

    `waiting` is the number of local events that are on no remote yet, `foreign` the number of
    places on the remote that belong to other persons. If `error` is set, the visit failed.
    """

    remote: str
    sessions: list[SessionOutcome]
    foreign: int
    waiting: int
    error: ForestayError | None = None

    @property
    def worst(self) -> ForestayError | None:
        """The first error, if there is one."""
        aside = (error for one in self.sessions for error in (*one.aside, *one.noticed))
        every = (self.error, *(one.error for one in self.sessions), *aside)
        return next((error for error in every if error), None)

    @property
    def problems(self) -> list[SessionOutcome]:
        return [one for one in self.sessions if one.error is not None]

    @property
    def up(self) -> int:
        return sum(one.up for one in self.sessions)

    @property
    def down(self) -> int:
        return sum(one.down for one in self.sessions)


class SyncOptions(NamedTuple):
    """The options of a visit: what it does, and how long it waits for another sync.

    `join` names imported sessions to join with the copies that their owners share, including events
    added here. In the named `sessions`, reports of the persons in `doubt` are ignored, and those of
    the persons in `believe` no longer.
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
    context: Context, name: str, options: SyncOptions, *, on_bytes: OnBytes | None = None
) -> list[Report]:
    """Sync with the named remote, or with all, one after the other; `on_bytes` shows progress.

    If one is unreachable, the others are still synced. Those that failed last time come last.
    """
    if (options.doubt or options.believe) and not options.sessions:
        hint = "forestay sync --pull --session SESSION --doubt WHO"
        raise InvalidInput("--doubt and --believe need the option --session", hint=hint)
    found = select_remotes(context, name)
    me = _opened(context, found)
    reports = []
    for known in found:
        try:
            reports.append(visit(context, known, options, on_bytes=on_bytes, me=me))
        except (RemoteFailed, Busy, Outdated) as error:
            waiting = context.store.machine.remotes.waiting() or 0
            reports.append(Report(known.name, [], 0, waiting, error))
    return reports


def _opened(context: Context, found: Sequence[Known]) -> Identity:
    try:
        return identity(context)
    except Locked as error:
        # A background sync cannot ask for a passphrase or show an error: store the error.
        for known in found:
            _failed(context, known, error)
        raise


def visit(context: Context, known: Known, options: SyncOptions, **given: Any) -> Report:
    """Acquire the sync lock, then sync with one remote (see `visit_alone`)."""
    with exclusive_sync(context, options.wait):
        return visit_alone(context, known, options, **given)


def visit_alone(
    context: Context,
    known: Known,
    options: SyncOptions,
    *,
    on_bytes: OnBytes | None = None,
    remote: Remote | None = None,
    me: Identity | None = None,
) -> Report:
    """Sync with one remote; the caller holds the sync lock.

    `remote` is open already, if given; `me` was loaded before the lock was taken.
    """
    visiting = _Visit(context, known, options, on_bytes)
    try:
        report = visiting.make(remote, with_current_group(context, me) if me else identity(context))
    except ForestayError as error:
        _failed(context, known, error)
        raise
    wrong = "; ".join(f"{one.session}: {one.error}" for one in report.problems[:3])
    result = "failed" if report.problems else "done"
    # While nothing was ever stored on the remote, it counts as new: nothing can be missing there.
    met = visiting.is_begun or known.synced
    context.store.machine.remotes.record_sync(
        known, context.clock.now() if met else 0, result, wrong
    )
    for one in report.sessions:
        if one.up:
            write_files(context, one.session)  # session files show when it was synced
    _write_sync_state(context, known, result, wrong)
    return report


def _write_sync_state(context: Context, before: Known, result: str, wrong: str) -> None:
    """Rewrite the files of all sessions if the sync state that they show has changed."""
    if (before.result, before.error) != (result, wrong):
        SessionFiles.of(context).write_sync_state()


def _failed(context: Context, known: Known, error: ForestayError) -> None:
    context.store.machine.remotes.record_failure(known, str(error))
    _write_sync_state(context, known, "failed", str(error))
    if isinstance(error, Unreachable):
        count = context.store.machine.remotes.waiting() or 0
        verb = "waits" if count == 1 else "wait"
        waits = f"{plural(count, 'event')} {verb} here for the next push" if count else ""
        error.hint = "; ".join(filter(None, (error.hint, waits)))


class _Visit:
    def __init__(
        self, context: Context, known: Known, options: SyncOptions, on_bytes: OnBytes | None
    ) -> None:
        self._context, self._known, self._options = context, known, options
        self._on_bytes = on_bytes
        self._remotes = context.store.machine.remotes
        self.is_begun = False
        self._under_way: list[SessionOutcome] = []

    def make(self, remote: Remote | None, me: Identity) -> Report:
        opened = remote or connect_remote(self._known)
        with nullcontext() if remote else closing(opened):
            self.is_begun = require_format(opened, make=self._options.push)
            push = self._options.push
            me = sync_device_list(self._context, opened, self._known, me, push=push)
            self._remotes.record_group(me.group.id, me.name)
            return self._exchange_all(opened, me)

    def _exchange_all(self, remote: Remote, me: Identity) -> Report:
        for session in self._remotes.sessions_to_search():
            acts = (partial(each.resume_erasure, session) for each in self._context.followers)
            for act in acts:
                self._finish_erasure(act)
        try:
            with ThreadPoolExecutor(SIDE_BY_SIDE, "transfer") as pool:
                transfer = Transfer(
                    self._context.journal,
                    self._known,
                    remote,
                    me,
                    clock=self._context.clock,
                    pool=pool,
                    again=self._options.again,
                    patience=self._options.patience,
                    is_unattended=self._context.is_unattended,
                    on_bytes=self._on_bytes,
                    before_erasure=lambda session: _prepare_erasure(self._context, session),
                )
                found, clashes, foreign = self._places(transfer)
                outcome = self._exchange_each(transfer, found)
        finally:
            # Pulled events are stored even if the visit fails; they are not pulled again.
            for one in self._under_way.copy():
                self._done(one)
        return Report(self._known.name, outcome + clashes, foreign, self._remotes.waiting() or 0)

    def _exchange_each(self, transfer: Transfer, found: Places) -> list[SessionOutcome]:
        """Sync several sessions in parallel, a single one without a thread."""
        waiting: list[Future[SessionOutcome]] = []
        with ThreadPoolExecutor(SIDE_BY_SIDE, "session") as threads:
            try:
                if len(found) == 1:
                    ((session, there),) = found.items()
                    return [self._done(self._exchange(transfer, session, *there))]
                for session, there in found.items():
                    waiting.append(threads.submit(self._exchange, transfer, session, *there))
                return [self._done(one.result()) for one in waiting]
            except BaseException as error:
                # The user interrupted, or the remote is unreachable: start no further session.
                transfer.stop(error)
                for one in waiting:
                    one.cancel()
                if isinstance(error, Stopped) and transfer.stopped:
                    raise transfer.stopped from transfer.stopped.__cause__
                raise

    def _done(self, outcome: SessionOutcome) -> SessionOutcome:
        if outcome in self._under_way:
            self._under_way.remove(outcome)
        for act in outcome.after:
            self._finish_erasure(act)
        if outcome.down:
            write_files(self._context, outcome.session)
        return outcome

    def _finish_erasure(self, act: Callable[[], Sequence[str]]) -> None:
        """Erase on this device what another device erased; name files that may still have it."""

        def finish() -> None:
            for path in act():
                line = f"this file may still contain what another device has forgotten: {path}"
                self._context.notify(line)

        self._context.best_effort(finish)

    def _exchange(
        self, transfer: Transfer, session: str, place: str, listed: Sequence[Object]
    ) -> SessionOutcome:
        outcome = SessionOutcome(session)
        try:
            transfer.require_running()
            exchange = Exchange(transfer, session, place, listed)
            outcome = exchange.outcome
            self._under_way.append(outcome)
            if self._options.doubt or self._options.believe:
                exchange.doubt(self._options.doubt, believe=self._options.believe)
            pull = SessionPull(exchange)
            try:
                if self._options.pull:
                    pull.pull()
                if self._options.push:
                    rotate_keys_if_due(exchange, pull)
                    if self._is_here(exchange.session):
                        SessionPush(exchange, pull).push()
            except Locked:
                # Keys that cannot be decrypted do not prove that a share was ended: anyone who can
                # write there can upload such keys.
                if not exchange.keys.is_removed:
                    raise
                exchange.end()
        except Unreachable as error:
            transfer.stop(error)
            raise
        except ForestayError as error:
            if isinstance(error, Tampered) and not error.hint:
                error.hint = ELSEWHERE
            outcome.error = error
        return outcome

    def _is_here(self, session: str) -> bool:
        """Return whether the session exists here, or was forgotten (then push the tombstone)."""
        asked: list[dict[str, object]] = [{"id": session, "forgotten": gone} for gone in (0, 1)]
        return any(self._context.store.catalogue(where=where, limit=1) for where in asked)

    # -- which sessions ------------------------------------------------------------------------

    def _places(self, transfer: Transfer) -> tuple[Places, list[SessionOutcome], int]:
        """Return the sessions to sync, those refused, and the number of places of others."""
        name_key = transfer.identity.group.name_key
        asked = list(self._options.sessions)
        mine = asked or [str(row["id"]) for row in self._context.store.catalogue()]
        known = {one.session: one.place for one in self._remotes.sessions(self._known)}
        shared = self._remotes.places_of_others(transfer.identity.group.id) | known
        wanted = {one: shared.get(one) or object_names.place(name_key, one) for one in mine}
        # To find sessions that other persons share, all places have to be listed.
        unknown = {one for one in asked if one not in shared and not self._is_here(one)}
        wanted = {one: place for one, place in wanted.items() if one not in unknown}
        if asked and not unknown:
            listed = {
                p: list(transfer.remote.list(object_names.within(p))) for p in wanted.values()
            }
        else:
            listed = by_place(transfer.remote.list(object_names.SESSIONS))
            wanted = wanted if asked else {**known, **wanted}
        transfer.shown(one for each in listed.values() for one in each)
        found = {one: (place, listed.get(place, [])) for one, place in wanted.items()}
        strange = listed.keys() - {place for place, _ in found.values()}
        new = {place: self._session_at(transfer, place, listed[place]) for place in strange}
        new = {p: one for p, one in new.items() if not asked or one in unknown}
        met, taken = self._met({p: one for p, one in new.items() if one}, found, name_key)
        found |= {one: (place, listed[place]) for place, one in met.items()}
        clashes = []
        count = Counter(taken.values())
        for place, one in sorted(taken.items()):
            there = (place, listed[place])
            wrong = (
                self._join(transfer, one, there, found) if count[one] == 1 else _clash(place, one)
            )
            clashes += [wrong] if wrong else []
        left = {p: one for p, one in new.items() if one and p not in {**met, **taken}}
        for place, one in sorted(left.items()):
            clashes += self._leave_place(transfer, one, place, listed[place])
        return found, clashes, sum(not one for one in new.values())

    def _join(
        self, transfer: Transfer, session: str, there: tuple[str, list[Object]], found: Places
    ) -> SessionOutcome | None:
        """Join a session of this home with the place of its owner; return an outcome if refused.

        The remote must not have another session with this id.
        """
        here = next((one for one in found if one.lower() == session.lower()), "")
        join = SessionJoin(transfer, here, *there)
        if not here or here != session or not join.is_same():
            return _clash(there[0], session)
        if join.has_own() and session not in self._options.join:
            return _unjoined(self._known.name, session)
        join.join()
        self._context.notify(f"{session} is now the session that {join.owner} shares with you")
        found[here] = there
        return None

    def _leave_place(
        self, transfer: Transfer, session: str, place: str, there: Sequence[Object]
    ) -> list[SessionOutcome]:
        """Delete what this user pushed to the former place of a session that was joined.

        If another device of the user pushed events there, delete nothing and report it.
        """
        left = self._remotes.notes(self._known, session).get(LEFT, {})
        packs = {one.name for one in there if object_names.as_pack(one.name)}
        if not {place, *packs} <= left.keys():
            return [_own_clash(place, session)]
        for one in there if self._options.push else ():
            transfer.remote.delete(one.name)
        return []

    def _met(
        self, new: Mapping[str, str], found: Places, name_key: bytes
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Split sessions at unknown places into new ones and those whose id is already in use.

        Anyone who can write there can share a session under an id that the user already has.
        """
        gone = self._context.store.catalogue(where={"forgotten": 1})
        taken = {one.lower() for one in found}
        ours = {p: one for p, one in new.items() if object_names.place(name_key, one) == p}
        ours = {p: one for p, one in ours.items() if one.lower() not in taken}
        taken |= {one.lower() for one in ours.values()} | {str(row["id"]).lower() for row in gone}
        count = Counter(one.lower() for one in new.values())
        # Objects at a place of the user were left there when the session was joined.
        others = {p: s for p, s in new.items() if object_names.place(name_key, s) != p}
        met = {p: s for p, s in others.items() if s.lower() not in taken and count[s.lower()] == 1}
        return ours | met, {p: s for p, s in others.items() if p not in met}

    def _session_at(self, transfer: Transfer, place: str, listed: Sequence[Object]) -> str:
        """Return the id of the session at a place; "" if this user cannot read it."""
        try:
            shown = {one.name: one.size for one in listed}
            ring = SessionKeys(transfer.identity, "", shown, get=transfer.get, place=place).ring
            return clean_id(ring.session, "the id of a session") if ring else ""
        except Unreachable:
            raise
        except ForestayError:
            return ""  # a session of another person on the same storage, or damaged keys


def _unjoined(remote: str, session: str) -> SessionOutcome:
    return _not_taken(
        session,
        f"session {session}, which was imported here, is now shared with you by its owner",
        "it was not joined with your copy: the owner could then read what you added",
        f"to join both: forestay sync --pull {remote} --join {session}",
    )


def _clash(place: str, session: str) -> SessionOutcome:
    return _not_taken(
        session,
        f"another person shares a session {session} with you, but yours is a different one",
        f"it is at {object_names.within(place)}",
        "it was not pulled; ask that person to use another session id",
    )


def _own_clash(place: str, session: str) -> SessionOutcome:
    return _not_taken(
        session,
        f"another device of yours pushed a different session with the same id {session}",
        f"it is at {object_names.within(place)}",
        "it was not pulled, and stays on the remote; use another session id on that device",
    )


def _not_taken(session: str, what: str, why: str, hint: str) -> SessionOutcome:
    outcome = SessionOutcome(session)
    outcome.error = Swapped(what, why=why, hint=hint, session=session)
    return outcome


def _prepare_erasure(context: Context, session: str) -> Callable[[], Sequence[str]]:
    """Find the files to erase, before erasures by other devices are appended.

    Return the function that erases them, to be called afterwards.
    """
    acts = [follower.before_erasure(session) for follower in context.followers]
    return lambda: [path for act in acts for path in act()]
