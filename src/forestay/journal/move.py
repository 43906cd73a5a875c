"""Move the sessions of one store (source) to another (target): copy, compare, seal the source.

Sessions are copied while work continues. Then the source is *sealed* (no process can write to it),
newer events are copied, everything is compared, and the seal becomes a *pointer* to the new place.
The same command finishes an interrupted move: events that were copied are compared, not copied
again. Nothing is removed from the source, and the seal can be broken.

Arrival numbers stay the same. Derived data is folded again from the events. The device gets another
id in the target, so that no event number can be used twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from forestay.errors import Damaged, ForestayError, InvalidInput, Refused
from forestay.journal import verify
from forestay.journal.backup import last_seqs
from forestay.journal.projections import as_sealed, encode_rows, read, rebuild_batch
from forestay.journal.stored_state import encode
from forestay.model.blob_refs import blob_names
from forestay.model.event import parse_header
from forestay.model.fold import fold
from forestay.store.machine.copy import copy_machine
from forestay.store.port import SHOWN, Batch, Entry, Store, Stored, View, moved

_CHUNK = 1000
OnPart = Callable[[str, int, int], None]
"""Progress callback: the current step, the number of parts done, and of all parts."""


class MoveResult(NamedTuple):
    """What a move did or would do. `copied` counts the events that the target did not have."""

    source: str
    target: str
    sessions: int
    events: int
    copied: int
    state: str
    left_out: list[str]


def move(
    source: Store, target: Store, *, dry_run: bool = False, on_part: OnPart | None = None
) -> MoveResult:
    """Copy everything, compare it, and seal the source with a pointer to the target.

    Raise `Refused` if the source was moved before, or the target has other events of a session;
    `Damaged` if an event is not as it was written. Then the source does not change.
    """
    work = _Move(source, target, on_part or (lambda *_: None))
    work.require_possible()
    if dry_run:
        return work.result("would move")
    before = target.maintenance.sealed()
    target.maintenance.seal(source.shown, "filling")
    try:
        work.copy()
        source.maintenance.seal(target.shown, "moving")
        work.copy()
        work.compare()
        work.copy_machine_facts()
    except ForestayError:
        # If the process is killed here, the seals stay, and the same command continues the move.
        source.maintenance.unseal()
        if before is not None and before[1] == "moved":
            target.maintenance.seal(*before)
        else:
            target.maintenance.unseal()
        raise
    source.maintenance.seal(target.shown, "moved")
    target.maintenance.unseal()
    return work.result("moved")


def break_seal(source: Store) -> MoveResult:
    """Make the source writable again; copied sessions stay in the target."""
    seal = source.maintenance.sealed()
    if seal is None:
        raise Refused(f"{source.shown} is not sealed", hint="forestay status")
    source.maintenance.unseal()
    sessions = last_seqs(source)
    count = sum(sessions.values())
    return MoveResult(source.shown, seal[0], len(sessions), count, 0, "unsealed", [])


class _Move:
    def __init__(self, source: Store, target: Store, on_part: OnPart) -> None:
        self._source, self._target, self._report = source, target, on_part
        self._copied = 0
        self._heads = dict(source.maintenance.remembered())

    def require_possible(self) -> None:
        """Raise an error if the move could not be finished, before anything is written."""
        if self._source.shown == self._target.shown:
            what = f"the store {self._source.shown} cannot be moved into itself"
            raise InvalidInput(what, hint="name another store: forestay backup move --to URL")
        ours, theirs = self._source.maintenance.sealed(), self._target.maintenance.sealed()
        is_almost_done = theirs == (self._source.shown, "filling")
        begun = ("moving", "moved") if is_almost_done else ("moving",)
        if ours not in (None, *((self._target.shown, word) for word in begun)):
            raise moved(self._source.shown, ours or ("", ""))
        # A store whose sessions were moved can be the target of the move back.
        if theirs not in (None, *((self._source.shown, word) for word in ("moved", "filling"))):
            raise moved(self._target.shown, theirs or ("", ""))
        for id, _ in self._sessions():
            self._common(id)

    def _sessions(self) -> list[tuple[str, int]]:
        return list(last_seqs(self._source).items())

    def _common(self, id: str) -> int:
        """Return how many events of a session the target has.

        Raise `Refused` if the target has events of it that the source does not have.
        """
        try:
            theirs = self._target.view(id)
        except ForestayError:
            return 0
        with theirs, self._source.view(id) as ours:
            pairs = zip(theirs.events(), ours.events(), strict=False)
            same = all(one.header == other.header for one, other in pairs)
            if ours.seq < theirs.seq or not same:
                raise Refused(
                    f"{self._target.shown} already has other events of session {id}",
                    why="a move does not merge events",
                    hint=f"to merge them: forestay backup export FILE --session {id}, then forestay"
                    f" --store '{self._target.shown}' backup import FILE",
                    session=id,
                )
            return theirs.seq

    # -- copying -------------------------------------------------------------------------------

    def copy(self) -> None:
        sessions = self._sessions()
        for number, (id, seq) in enumerate(sessions):
            self._report(f"copying {id}", number, len(sessions))
            had = self._common(id)
            if had < seq or not had:
                self._copy(id, had)
        self._note_losses({id.lower() for id, _ in sessions})

    def _copy(self, id: str, had: int) -> None:
        """Copy a session of which the target has the first `had` events."""
        with self._source.view(id) as view:
            verify.require_sound(view, "repair it first: forestay doctor --fix")
            forgotten = bool(view.listing()["forgotten"])
            is_known = self._target.catalogue(where={"id": id, "forgotten": 1})
            if had and forgotten and not is_known:
                self._target.erase(id, lambda theirs: self._last(view, theirs.seq))
                self._copied += view.seq - had
                return
            after = had
            while chunk := list(view.events(after=after, limit=_CHUNK)):
                self._put(view, after, had, chunk)
                after = chunk[-1].seq

    def _put(self, view: View, after: int, had: int, chunk: Sequence[Stored]) -> None:
        """Append a part of a session to the target; derived data comes with the last part."""
        if chunk[-1].seq == view.seq:
            batch = self._last(view, after)
            if had:
                batch.erased = self._erased_since(view, had) or None
        else:
            shown = view.listing()
            listing = {name: shown[name] for name in SHOWN}
            entries = list(map(_entry, chunk))
            batch = Batch(entries=entries, core=b"", fold=0, rows=(), listing=listing)
        names = dict.fromkeys(name for one in chunk for name in blob_names(as_sealed(one)))
        found = ((name, self._source.blob(name)) for name in names)
        blobs = [(name, data) for name, data in found if data is not None]

        def plan(theirs: View) -> Batch | None:
            return batch if theirs.seq == after else None  # another process has copied it

        self._target.append(view.session, plan, create=True, blobs=blobs)
        self._copied += len(batch.entries)

    def _erased_since(self, ours: View, had: int) -> list[int]:
        """Return the arrival numbers of copied events that were erased in the source since."""
        with self._target.view(ours.session) as theirs:
            pairs = zip(theirs.events(limit=had), ours.events(limit=had), strict=False)
            return [o.seq for t, o in pairs if t.data is not None and o.data is None]

    def _last(self, view: View, after: int) -> Batch:
        """Return the events after `after`, and the derived data of the whole session."""
        state = fold(map(read, view.events()))
        rest = [_entry(stored, state.core.forgotten) for stored in view.events(after=after)]
        batch = rebuild_batch(state, rest)
        batch.head, batch.lost = self._heads.get(view.session), view.lost()
        return batch

    def _note_losses(self, sessions: set[str]) -> None:
        """Record in the target the heads of sessions that the source once had and lost."""
        known = {(id, head.hash) for id, head in self._target.maintenance.remembered()}
        for id, head in self._source.maintenance.remembered():
            if id.lower() not in sessions and (id, head.hash) not in known:
                self._target.maintenance.note_lost(id, head)

    # -- comparing -----------------------------------------------------------------------------

    def compare(self) -> None:
        """Require that everything is in the target, byte for byte, with the same state."""
        sessions = self._sessions()
        for number, (id, _) in enumerate(sessions):
            self._report(f"comparing {id}", number, len(sessions))
            with self._source.view(id) as ours, self._target.view(id) as theirs:
                wrong = _difference(ours, theirs)
            report = verify.verify(self._target, id)
            wrong = wrong or next((f.what for f in report.findings if f.code != "lost"), "")
            if wrong:
                raise Damaged(
                    f"the copy of session {id} in {self._target.shown} differs from the original",
                    why=wrong,
                    hint=f"the original is unchanged and still in use; run: forestay verify {id}",
                    session=id,
                )

    def copy_machine_facts(self) -> None:
        """Copy the tables of this machine: its folders, bound files, agents and remotes."""
        self._report("copying the tables of this machine", 0, 1)
        self._target.machine.tables.ensure_sessions([id for id, _ in self._sessions()])
        copy_machine(self._source.machine, self._target.machine)

    def result(self, state: str) -> MoveResult:
        sessions = self._sessions()
        undone = [id for id, _ in sessions if self._source.machine.file_work.pending(id)]
        return MoveResult(
            self._source.shown,
            self._target.shown,
            len(sessions),
            sum(seq for _, seq in sessions),
            self._copied,
            state,
            [f"session {id}: changes to its files are still pending" for id in undone],
        )


def _entry(stored: Stored, forgotten: object = False) -> Entry:
    # Stored with its id: a keyed call repeated after the move must find the event.
    key = None if forgotten else parse_header(stored.header).id
    return Entry(stored.header, stored.salt, stored.data, key)


def _difference(ours: View, theirs: View) -> str:
    if ours.seq != theirs.seq:
        return f"only {theirs.seq} of {ours.seq} events were copied"
    for one, other in zip(ours.events(), theirs.events(), strict=False):
        if (one.header, one.salt, one.data) != (other.header, other.salt, other.data):
            return f"event {one.seq} differs"
    state = fold(map(read, ours.events()))
    same_rows = sorted(encode_rows(state)) == sorted(theirs.all_rows())
    return "" if same_rows and encode(state.core) == theirs.core else "its state differs"
