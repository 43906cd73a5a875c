"""Whether a session is what was written: its chains, what was acknowledged, what is derived.

A *finding* is something that is not as it should be, in words for the user. Chains are checked
event by event, each against its own digest and against what it follows; chain ends against those
the store remembers outside its tables, so that a tail cut off cleanly is seen too; everything
derived against a fresh fold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from holdfast.derived import (
    all_rows,
    as_sealed,
    content_of,
    encode,
    listing,
    load,
    read,
    stored_core,
)
from holdfast.errors import Damaged
from holdfast.model import event as ev
from holdfast.model.chain import check_link
from holdfast.model.event import Header
from holdfast.model.fold import FOLD_VERSION, fold
from holdfast.model.state import State
from holdfast.store import Store, Stored, View


class Finding(Struct, frozen=True):
    """Something that is not as it should be, and what it means for the user."""

    code: str
    message: str
    seq: int = 0


_LINE = Finding("catalogue", "what is listed of the session is not as it was written")
_SUM = Finding("sum", "the sums over events and tables differ from them")


class Report(Struct, frozen=True):
    """The outcome of a verification."""

    session: str
    events: int
    findings: list[Finding]

    @property
    def ok(self) -> bool:
        return not self.findings


def check_chain(view: View) -> list[Finding]:
    """Whether the events are what was written and none is missing; what `resume` relies on.

    A sum over all of them answers that quickly; only when it does not agree is every event
    looked at by itself, to say what is wrong.
    """
    core, intact = stored_core(view), view.intact()
    if core is not None and intact and view.listed_well and not view.lost():
        heads = {digest for chain in core.chains.values() for _, digest, _ in chain.heads}
        if view.remembered is None or view.remembered.hash in heads:
            return []
    findings = list(chain_findings(view, list(view.events())))
    return findings or ([] if intact else [_SUM]) or ([] if view.listed_well else [_LINE])


def check_content(store: Store, view: View) -> list[Finding]:
    """Whether what is kept beside the events is there as it was; they themselves must be sound."""
    return [] if view.keeps_content() else list(_missing_content(store, view.events()))


def verify(store: Store, session: str) -> Report:
    """The chains, the remembered heads, and everything derived against a fresh fold."""
    with store.view(session) as view:
        stored = list(view.events())
        findings = list(chain_findings(view, stored))
        if not any(f.code == "unreadable" for f in findings):
            findings += _missing_content(store, stored)
            if not _is_of_another_version(view):
                findings += _derived_findings(view, fold(map(read, stored)))
        if not findings and not view.intact():
            findings.append(_SUM)
        if not findings and not _is_of_another_version(view):
            findings += _listing_findings(view)
        return Report(session, len(stored), findings)


def _is_of_another_version(view: View) -> bool:
    """Whether another version of Holdfast made the state: not wrong, and soon made anew."""
    return view.fold > 0 and view.fold != FOLD_VERSION


def chain_findings(view: View, stored: Sequence[Stored]) -> Iterator[Finding]:
    headers: dict[str, Header] = {}
    for expected, one in enumerate(stored, start=1):
        if one.seq != expected:
            yield Finding("gap", f"event {expected} is missing", expected)
            return
        sealed = as_sealed(one)
        try:
            header = ev.parse_header(one.header)
        except Damaged as error:
            yield Finding("unreadable", f"event {one.seq}: {error}", one.seq)
            return
        wrong = ev.check(sealed, header) or check_link(header, headers.get)
        if wrong:
            yield Finding("broken", f"event {one.seq}: {wrong}", one.seq)
        headers[sealed.hash] = header
    if view.seq < len(stored):
        yield Finding("tail", f"{len(stored)} event(s) are there, {view.seq} are listed", view.seq)
    elif view.seq > len(stored):
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
        event = read(one)
        digest = content_of(event.body)
        if not digest:
            continue
        try:
            there = store.blob(digest) is not None
        except Damaged:
            yield Finding("content", f"event {one.seq}: its content is not what was kept", one.seq)
            continue
        if not there:
            yield Finding("content", f"event {one.seq}: its content is gone", one.seq)


def _derived_findings(view: View, fresh: State) -> Iterator[Finding]:
    core = stored_core(view)
    if core is None:
        yield Finding("core", "the stored state is damaged or of another version")
    elif encode(core) != encode(fresh.core):
        yield Finding("core", "the stored state differs from the journal")
    try:
        there = {(t, k): (o, r, v) for t, k, o, r, v in view.all_rows()}
    except Damaged as error:
        yield Finding("rows", str(error))
        return
    want = {(t, k): (o, r, v) for t, k, o, r, v in all_rows(fresh)}
    for place in sorted(there.keys() | want.keys()):
        if there.get(place) != want.get(place):
            yield Finding("rows", f"{place[0]} {place[1]} differs from the journal")


def _listing_findings(view: View) -> Iterator[Finding]:
    listed = view.listing()
    if not listed["sound"]:
        yield _LINE
    for name, value in listing(load(view)[0]).items():
        if name in listed and listed[name] != value:
            yield Finding("catalogue", f"the listed {name} differs from the journal")


def require_intact(view: View) -> None:
    """The sum over the events is made anew when some are erased: it must not hide a damage."""
    if not view.intact():
        raise Damaged(
            f"events of session {view.session} are damaged",
            why="nothing was erased",
            hint="holdfast doctor --fix, then again",
            session=view.session,
        )
