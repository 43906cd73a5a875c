"""Moving a store into another: copied, compared, and sealed behind itself.

Sessions are copied while work goes on, then the source is *sealed* (nobody writes to it any more),
what came meanwhile is copied, everything is compared, and the seal becomes a *pointer* to where
it went. A move that was interrupted is finished by the same command: what is there already is
compared, not copied again. Nothing is taken away from the source, and the seal can be broken.

Arrival numbers stay the same. What is derived is folded anew from the events; the device goes on
under another id there, so that nothing it wrote here can be written twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from holdfast import soundness
from holdfast.backup import lines
from holdfast.derived import all_rows, as_sealed, encode, listing, read
from holdfast.errors import Damaged, HoldfastError, InvalidInput, Refused
from holdfast.model.content import blob_names
from holdfast.model.event import parse_header
from holdfast.model.fold import FOLD_VERSION, fold
from holdfast.sha import digest_of
from holdfast.store import Batch, Entry, Store, Stored, View, moved

_CHUNK = 1000
OnPart = Callable[[str, int, int], None]
"""Told now and then: what is being done, how much of it is done, of how much."""


class Moved(NamedTuple):
    """What a move did, or would do. `copied` events were not there before."""

    source: str
    target: str
    sessions: int
    events: int
    copied: int
    state: str
    left_out: list[str]


def move(
    source: Store,
    target: Store,
    *,
    dry_run: bool = False,
    on_part: OnPart | None = None,
) -> Moved:
    """Copy everything, compare it, and seal the source with a pointer to the target.

    `Refused` if the source has moved already, or the target has other events under the same id;
    `Damaged` if anything is not as it was written. Then the source stays as it is.
    """
    work = _Move(source, target, on_part or (lambda *_: None))
    work.require_possible()
    if dry_run:
        return work.result("would move")
    before = target.sealed()
    target.seal(source.shown, "filling")
    try:
        work.copy()
        source.seal(target.shown, "moving")
        work.copy()
        work.compare()
        work.take_along()
    except HoldfastError:
        # Not when the process is killed: then the same command goes on from here.
        source.unseal()
        _put_back(target, before)
        raise
    source.seal(target.shown, "moved")
    target.unseal()
    return work.result("moved")


def _put_back(target: Store, seal: tuple[str, str] | None) -> None:
    if seal is not None and seal[1] == "moved":
        target.seal(*seal)
    else:
        target.unseal()


def take_back(source: Store) -> Moved:
    """Break the seal: what is here can be written again, and what was copied stays there."""
    seal = source.sealed()
    if seal is None:
        raise Refused(f"{source.shown} is not sealed", hint="holdfast status")
    source.unseal()
    sessions = [(str(row["id"]), int(str(row["seq"]))) for row in lines(source)]
    count = sum(seq for _, seq in sessions)
    return Moved(source.shown, seal[0], len(sessions), count, 0, "unsealed", [])


class _Move:
    def __init__(self, source: Store, target: Store, on_part: OnPart) -> None:
        self._source, self._target, self._tell = source, target, on_part
        self._copied = 0
        self._heads = dict(source.remembered())

    def require_possible(self) -> None:
        """Refuse what could not be finished, before anything is written."""
        if self._source.shown == self._target.shown:
            raise InvalidInput("a store cannot be moved into itself", why=self._source.shown)
        ours, theirs = self._source.sealed(), self._target.sealed()
        is_almost_done = theirs == (self._source.shown, "filling")
        begun = ("moving", *(["moved"] if is_almost_done else []))
        if ours not in (None, *((self._target.shown, word) for word in begun)):
            raise moved(self._source.shown, ours or ("", ""))
        # One that everything once moved away from may be filled again from where it went.
        if theirs not in (None, *((self._source.shown, word) for word in ("moved", "filling"))):
            raise moved(self._target.shown, theirs or ("", ""))
        for id, _ in self._sessions():
            self._common(id)

    def _sessions(self) -> list[tuple[str, int]]:
        return [(str(row["id"]), int(str(row["seq"]))) for row in lines(self._source)]

    def _common(self, id: str) -> int:
        """How many events of a session are there already; `Refused` if there are others."""
        try:
            theirs = self._target.view(id)
        except HoldfastError:
            return 0
        with theirs, self._source.view(id) as ours:
            if ours.seq < theirs.seq or not _same_headers(ours, theirs):
                raise Refused(
                    f"session {id} is in {self._target.shown} with other events",
                    why="they would have to be merged",
                    hint=f"holdfast export FILE --session {id}, then import it there",
                    session=id,
                )
            return theirs.seq

    # -- copying -------------------------------------------------------------------------------

    def copy(self) -> None:
        sessions = self._sessions()
        for number, (id, seq) in enumerate(sessions):
            self._tell(f"copying {id}", number, len(sessions))
            there = self._common(id)
            if there < seq or not there:
                self._copy(id, there)
        self._note_losses({id.lower() for id, _ in sessions})

    def _copy(self, id: str, there: int) -> None:
        with self._source.view(id) as view:
            _require_sound(view)
            forgotten = bool(view.listing()["forgotten"])
            if there and forgotten and not self._is_forgotten(id):
                self._target.erase(id, lambda theirs: self._last(view, theirs.seq))
                self._copied += view.seq - there
                return
            for chunk in _chunks(view, there):
                is_last = chunk[-1].seq == view.seq
                batch = self._last(view, chunk[0].seq - 1) if is_last else _begun(view, chunk)
                if is_last and there:
                    batch.erased = self._erased_since(view, there) or None
                self._put(id, chunk[0].seq - 1, batch, self._blobs(chunk))

    def _erased_since(self, ours: View, there: int) -> list[int]:
        """Events that were copied once, and of which nothing but the header is left here."""
        with self._target.view(ours.session) as theirs:
            pairs = zip(theirs.events(limit=there), ours.events(limit=there), strict=False)
            return [o.seq for t, o in pairs if t.data is not None and o.data is None]

    def _is_forgotten(self, id: str) -> bool:
        return bool(self._target.catalogue(where={"id": id, "forgotten": 1}))

    def _put(self, id: str, after: int, batch: Batch, blobs: Sequence[tuple[str, bytes]]) -> None:
        def plan(view: View) -> Batch | None:
            return batch if view.seq == after else None  # another move has done it meanwhile

        self._target.append(id, plan, create=True, blobs=blobs)
        self._copied += len(batch.entries)

    def _last(self, view: View, after: int) -> Batch:
        """The rest of a session, and all that follows from the whole."""
        state = fold(map(read, view.events()))
        return Batch(
            entries=[_entry(stored, state.core.forgotten) for stored in view.events(after=after)],
            core=encode(state.core),
            fold=FOLD_VERSION,
            rows=all_rows(state),
            listing=listing(state),
            head=self._heads.get(view.session),
            fresh_rows=True,
            lost=view.lost(),
        )

    def _blobs(self, chunk: Sequence[Stored]) -> list[tuple[str, bytes]]:
        names = dict.fromkeys(name for one in chunk for name in blob_names(as_sealed(one)))
        found = ((name, self._source.blob(name)) for name in names)
        return [(name, data) for name, data in found if data is not None]

    def _note_losses(self, there: set[str]) -> None:
        known = {(id, head.hash) for id, head in self._target.remembered()}
        for id, head in self._source.remembered():
            if id.lower() not in there and (id, head.hash) not in known:
                self._target.note_lost(id, head)

    # -- comparing -----------------------------------------------------------------------------

    def compare(self) -> None:
        """That all of it is there, byte for byte, and means the same."""
        sessions = self._sessions()
        for number, (id, _) in enumerate(sessions):
            self._tell(f"comparing {id}", number, len(sessions))
            with self._source.view(id) as ours, self._target.view(id) as theirs:
                wrong = _difference(ours, theirs)
            report = soundness.verify(self._target, id)
            wrong = wrong or next((f.message for f in report.findings if f.code != "lost"), "")
            if wrong:
                raise Damaged(
                    f"session {id} is not the same in {self._target.shown}",
                    why=wrong,
                    hint=f"holdfast verify {id}; nothing was sealed",
                    session=id,
                )

    def take_along(self) -> None:
        """What is true of this machine: its folders, layout files, agents and remotes."""
        from holdfast.store.carry import carry

        self._tell("taking along what is known of this machine", 0, 1)
        carry(self._source.here([]), self._target.here([id for id, _ in self._sessions()]))

    def result(self, state: str) -> Moved:
        sessions = self._sessions()
        undone = [id for id, _ in sessions if self._source.local.chores(id)]
        return Moved(
            self._source.shown,
            self._target.shown,
            len(sessions),
            sum(seq for _, seq in sessions),
            self._copied,
            state,
            [f"session {id}: something was left to do to its files" for id in undone],
        )


def _entry(stored: Stored, forgotten: object = False) -> Entry:
    # Found by its id too: whoever repeats a keyed call after the move must not do it twice.
    key = None if forgotten else parse_header(stored.header).id
    return Entry(stored.header, stored.salt, stored.data, key)


def _chunks(view: View, after: int) -> Iterator[list[Stored]]:
    while chunk := list(view.events(after=after, limit=_CHUNK)):
        yield chunk
        after = chunk[-1].seq


def _begun(view: View, chunk: Sequence[Stored]) -> Batch:
    """Part of a session: what follows from it is worked out when the last part is there."""
    shown = view.listing()
    names = ("status", "goal", "archived", "forgotten", "began", "updated", "summary")
    return Batch(
        entries=list(map(_entry, chunk)),
        core=b"",
        fold=0,
        rows=(),
        listing={name: shown[name] for name in names},
    )


def _require_sound(view: View) -> None:
    wrong = [one.message for one in soundness.check_chain(view) if one.code != "lost"]
    if wrong:
        raise Damaged(
            f"session {view.session} is damaged",
            why=wrong[0],
            hint="mend it first: holdfast doctor --fix",
            session=view.session,
        )


def _same_headers(ours: View, theirs: View) -> bool:
    pairs = zip(theirs.events(), ours.events(), strict=False)
    return all(one.header == other.header for one, other in pairs)


def _difference(ours: View, theirs: View) -> str:
    if ours.seq != theirs.seq:
        return f"{theirs.seq} of {ours.seq} events are there"
    for one, other in zip(ours.events(), theirs.events(), strict=False):
        if (one.header, one.salt, one.data) != (other.header, other.salt, other.data):
            return f"event {one.seq} differs"
    state = fold(map(read, ours.events()))
    if _hash(encode(state.core), all_rows(state)) != _hash(theirs.core, theirs.all_rows()):
        return "it does not mean the same"
    return ""


def _hash(core: bytes, rows: Sequence[tuple[str, str, bool, int, bytes]]) -> str:
    """Of all that a session means: its core and its rows."""
    return digest_of(core + repr(sorted(rows)).encode())
