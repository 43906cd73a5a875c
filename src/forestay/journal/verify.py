"""Verify that a session is unchanged: its chains, acknowledged events, and derived data.

A *finding* describes a deviation for the user. Chains are checked event by event, each against its
own digest and its predecessors; chain ends against the heads that the store remembers outside its
tables, so that a cleanly removed tail is noticed too; everything derived against a fresh fold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from forestay.base.findings import Finding
from forestay.errors import Damaged
from forestay.journal.projections import as_sealed, encode_rows, listing, read
from forestay.journal.stored_state import encode, load, looks_intact, stored_core
from forestay.model import event as ev
from forestay.model.blob_refs import blob_names, is_promise
from forestay.model.event import Header
from forestay.model.fold import fold
from forestay.model.hash_chain import check_link
from forestay.model.state import FOLD_VERSION, State
from forestay.store.port import Store, Stored, View


def _error(code: str, what: str, seq: int = 0) -> Finding:
    return Finding(code, "error", what, seq=seq)


_LINE = _error("catalogue", "the catalogue entry of the session is damaged")
_SUM = _error("sum", "the checksums do not match the events and tables")


class Report(Struct, frozen=True):
    """The outcome of a verification."""

    session: str
    events: int
    findings: list[Finding]

    @property
    def ok(self) -> bool:
        return not self.findings


def check_chain(view: View) -> list[Finding]:
    """Check that the events are as written and none is missing; `resume` relies on it.

    A checksum over all events answers that quickly; only if it does not match is every event
    checked, to find out what is wrong.
    """
    if looks_intact(view):
        return []
    findings = list(chain_findings(view, list(view.events())))
    return findings or ([] if view.intact() else [_SUM]) or ([] if view.listed_well else [_LINE])


def require_sound(view: View, hint: str) -> None:
    """Raise `Damaged` if the session is damaged; events known to be lost do not count."""
    wrong = [one.what for one in check_chain(view) if one.code != "lost"]
    if wrong:
        id = view.session
        raise Damaged(f"session {id} is damaged", why=wrong[0], hint=hint, session=id)


def check_content(store: Store, view: View) -> list[Finding]:
    """Check that all blobs of the events exist unchanged; the events must be intact."""
    return [] if view.keeps_content() else list(_missing_content(store, view.events()))


def verify(store: Store, session: str) -> Report:
    """Check the chains, the remembered heads, and everything derived against a fresh fold."""
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
    """Return whether another version of Forestay computed the state; that is not an error."""
    return view.fold > 0 and view.fold != FOLD_VERSION


def chain_findings(view: View, stored: Sequence[Stored]) -> Iterator[Finding]:
    headers: dict[str, Header] = {}
    for expected, one in enumerate(stored, start=1):
        if one.seq != expected:
            yield _error("gap", f"event {expected} is missing", expected)
            return
        sealed = as_sealed(one)
        try:
            header = ev.parse_header(one.header)
        except Damaged as error:
            yield _error("unreadable", f"event {one.seq}: {error}", one.seq)
            return
        wrong = ev.check(sealed, header) or check_link(header, headers.get)
        if wrong:
            yield _error("broken", f"event {one.seq}: {wrong}", one.seq)
        headers[sealed.hash] = header
    if view.seq < len(stored):
        what = f"{len(stored)} event(s) are stored, but {view.seq} are listed"
        yield _error("tail", what, view.seq)
    elif view.seq > len(stored):
        yield _error("tail", f"the last {view.seq - len(stored)} event(s) are missing", view.seq)
    left = view.remembered
    wanted = [(left.device, left.n, left.hash)] if left else []
    for device, n, digest in [*wanted, *view.lost()]:
        if digest not in headers:
            lost = f"events up to {device}:{n} were recorded on this device and are missing"
            yield _error("lost", lost)


def _missing_content(store: Store, stored: Iterable[Stored]) -> Iterator[Finding]:
    """Yield a finding for each long note or artifact whose content is missing or changed."""
    for one in stored:
        sealed = as_sealed(one)
        promised = blob_names(sealed) if is_promise(sealed) else []
        try:
            wrong = "is missing" if None in map(store.blob, promised) else ""
        except Damaged:
            wrong = "was changed"
        if wrong:
            yield _error("content", f"event {one.seq}: its content {wrong}", one.seq)


def _derived_findings(view: View, fresh: State) -> Iterator[Finding]:
    core = stored_core(view)
    if core is None:
        yield _error("core", "the stored state is damaged or of another version")
    elif encode(core) != encode(fresh.core):
        yield _error("core", "the stored state differs from the journal")
    try:
        there = {(t, k): (o, r, v) for t, k, o, r, v in view.all_rows()}
    except Damaged as error:
        yield _error("rows", str(error))
        return
    want = {(t, k): (o, r, v) for t, k, o, r, v in encode_rows(fresh)}
    for place in sorted(there.keys() | want.keys()):
        if there.get(place) != want.get(place):
            yield _error("rows", f"{place[0]} {place[1]} differs from the journal")


def _listing_findings(view: View) -> Iterator[Finding]:
    listed = view.listing()
    if not listed["sound"]:
        yield _LINE
    for name, value in listing(load(view)[0]).items():
        if name in listed and listed[name] != value:
            yield _error("catalogue", f"the listed {name} differs from the journal")
