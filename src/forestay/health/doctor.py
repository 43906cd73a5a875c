"""Find out what is wrong with a home, and repair it.

A check is a function that yields findings and changes nothing; `_CHECKS` lists the checks in
stages. If a finding of one stage is that the database cannot be read, later stages are skipped.
`_CODES` has the severity and the default remedy of each kind of finding, `_FIXES` the function that
repairs it.

The database is read only through the store: opening and closing its file in this process would drop
the locks that the process holds on it. If nothing else helps, the database is rebuilt (`rebuild`).
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

from forestay.agents.spool import BAD, LOST, OF_NO_INTEREST, Spool
from forestay.base import config, files
from forestay.base.clock import Clock, iso
from forestay.base.config import Settings
from forestay.base.findings import Finding
from forestay.base.process import ProcessId, liveness
from forestay.base.text import ago
from forestay.errors import Damaged, ForestayError, NoSession
from forestay.health.rebuild import Rebuild, remembered
from forestay.journal import backup, pack, restore
from forestay.journal.journal import Journal, own_head
from forestay.journal.pack import Blob, Range
from forestay.journal.projections import as_sealed
from forestay.journal.restore import UNREADABLE
from forestay.model.blob_refs import blob_names, is_promise
from forestay.model.event import Sealed
from forestay.store.machine.holders import Holder
from forestay.store.port import Store
from forestay.store.sqlite import filesystem_check
from forestay.store.sqlite.repair import is_good
from forestay.store.sqlite.schema import FORMAT

NEWEST = 20
"""How many sessions are verified, unless the user asks for all (`deep`)."""
FIX = "forestay doctor --fix"

_HOUR = 3600 * 1000
_DAY = 24 * _HOUR
_MANY_REJECTED, _LARGE_REJECTED = 1000, 100 << 20
_ALL = 1_000_000
_LITTLE_SPACE = 100 << 20
_SEVERITIES = ("error", "warning", "info")
_DERIVED = frozenset({"core", "rows", "catalogue"})
_ENDED = frozenset({"completed", "failed", "aborted", "abandoned"})
_TROUBLE = (ForestayError, OSError)

_CODES = {
    "home-new": ("info", ""),
    "home-owner": ("error", "set FORESTAY_HOME to a folder of your own"),
    "home-place": ("error", "set FORESTAY_HOME to a folder on a local disk"),
    "home-readonly": ("warning", ""),
    "home-open": ("warning", ""),
    "config": ("error", ""),
    "config-unknown": ("info", "forestay config"),
    "space": ("warning", "free some space: df -h"),
    "temporary": ("info", FIX),
    "odd-file": ("error", f"move it aside: {FIX}"),
    "newer": ("error", "update Forestay on this device"),
    "sqlite": ("info", ""),
    "tables": ("error", f"restore it: {FIX}"),
    "line": ("error", f"restore it: {FIX}"),
    "session-derived": ("error", f"compute them again: {FIX}"),
    "session-damaged": ("error", ""),
    "session-lost": ("error", ""),
    "session-missing": ("error", ""),
    "content-damaged": ("error", ""),
    "content-missing": ("error", ""),
    "heads": ("warning", FIX),
    "holder": ("info", ""),
    "clock": ("warning", "check date and time: date -u"),
    "backup-damaged": ("error", f"make another: {FIX}"),
    "backup-none": ("warning", "forestay backup create"),
    "backup-old": ("warning", "forestay backup create"),
    "spool-lost": ("warning", f"{FIX} resets the count"),
    "spool-bad": ("info", "read it; to delete it permanently: forestay ingest --discard"),
    "spool-waiting": ("warning", "forestay ingest"),
    "not-seen": ("error", f"make a copy of the home, then: {FIX}"),
}
"""Code → severity and default remedy; a check can give a more exact remedy."""


class DoctorReport(NamedTuple):
    """What was done, what could not be restored, and what is still wrong."""

    done: list[str]
    lost: list[str]
    left: list[Finding]


class _Case(NamedTuple):
    """The home under examination; `deep` means that all sessions and backups are verified."""

    settings: Settings
    store: Store
    journal: Journal
    clock: Clock
    deep: bool

    @property
    def home(self) -> str:
        return self.store.home

    @property
    def database(self) -> str:
        return os.path.join(self.home, files.DATABASE)

    @property
    def backups(self) -> str:
        return os.path.join(self.home, files.BACKUPS)

    @property
    def quarantine(self) -> str:
        return os.path.join(self.home, files.QUARANTINE)

    @property
    def is_writable(self) -> bool:
        return files.is_writable(self.home)

    @property
    def can_rebuild(self) -> bool:
        """Whether the database is a local file; a database on a server cannot be replaced."""
        return self.store.capabilities.files and self.is_writable

    def sessions(self) -> list[str]:
        """Return the sessions to examine, newest first."""
        return [str(row["id"]) for row in self.store.catalogue(limit=-1 if self.deep else NEWEST)]


Check = Callable[[_Case], Iterator[Finding]]


def _found(
    code: str,
    what: str,
    why: str = "",
    fix: str = "",
    *,
    fixable: bool = False,
    session: str = "",
    file: str = "",
) -> Finding:
    severity, helps = _CODES[code]
    return Finding(code, severity, what, why, fix or helps, fixable, session, file)


def examine(
    settings: Settings, store: Store, journal: Journal, *, clock: Clock, deep: bool = False
) -> list[Finding]:
    """Return what is wrong with a home, most severe first; change nothing.

    Verify the sessions that changed last; with `deep`, all sessions and every backup.
    """
    return _examine(_Case(settings, store, journal, clock, deep))


def _examine(case: _Case) -> list[Finding]:
    if not os.path.isdir(case.home):
        return [_found("home-new", f"nothing is stored in {case.home} yet")]
    found: list[Finding] = []
    for checks in _CHECKS:
        if not any(one.code == "tables" or one.code.startswith("database-") for one in found):
            found += [finding for check in checks for finding in _run(check, case)]
    if not case.is_writable:
        found = [finding._replace(fixable=False) for finding in found]
    return by_severity(found)


def by_severity(found: list[Finding]) -> list[Finding]:
    """Return findings in order, most severe first."""
    return sorted(found, key=lambda finding: _SEVERITIES.index(finding.severity))


def _run(check: Check, case: _Case) -> list[Finding]:
    """Return the findings of a check; if the check fails, that is a finding, too."""
    found: list[Finding] = []
    try:
        found.extend(check(case))
    except Exception as error:  # unforeseen damage must not hide the rest
        why = str(error) if isinstance(error, _TROUBLE) else f"{type(error).__name__}: {error}"
        fix = getattr(error, "hint", "")
        found.append(_found("not-seen", f"a check could not be completed: {why}", "", fix))
    return found


# --- files ------------------------------------------------------------------------------------


def _check_home(case: _Case) -> Iterator[Finding]:
    facts = os.stat(case.home)
    is_own = facts.st_uid == os.geteuid()
    if not is_own:
        yield _found("home-owner", f"{case.home} belongs to another user", file=case.home)
    if reason := filesystem_check.shared_locks_ok(case.home):
        yield _found("home-place", "sessions cannot be stored here", reason, file=case.home)
    if closed := _not_writable(case.home):
        fix = f"check owner and permissions: ls -ld {files.shell_quote(closed)}"
        yield _found("home-readonly", "the home can be read but not written", "", fix, file=closed)
    if facts.st_mode & 0o077:
        why = f"its mode is {stat.S_IMODE(facts.st_mode):04o}"
        fix = f"chmod 700 {files.shell_quote(case.home)}"
        what = f"other users may read {case.home}"
        yield _found("home-open", what, why, fix, fixable=is_own, file=case.home)


def _not_writable(home: str) -> str:
    """Return the path that cannot be written: the home, or a file that every event needs."""
    parts = (os.path.join(home, name) for name in (files.DATABASE, f"{files.DATABASE}-wal"))
    closed = next((path for path in parts if files.why_not_appendable(path)), "")
    return closed if files.is_writable(home) else home


def _check_settings(case: _Case) -> Iterator[Finding]:
    path = os.path.join(case.settings.home, config.FILE_NAME)
    if os.path.exists(path) and not os.path.isfile(path):
        return  # reported as an odd file
    try:
        unknown = config.load(case.settings.home).unknown
    except ForestayError as error:
        yield _found("config", error.what, error.why, error.hint, file=path)
        return
    for name in unknown:
        what = f"the option {name} in {path} is not known to this version"
        yield _found("config-unknown", what, file=path)


def _check_space(case: _Case) -> Iterator[Finding]:
    facts = os.statvfs(case.home)
    free = facts.f_bavail * facts.f_frsize
    if free < _LITTLE_SPACE:
        what = f"only {free >> 20} MB are free on the disk of the home"
        yield _found("space", what, "a full disk prevents recording", file=case.home)


def _check_temporary_files(case: _Case) -> Iterator[Finding]:
    before = case.clock.now() - _DAY
    for path in [*files.list_paths(case.home), *files.list_paths(case.backups)]:
        if path.endswith(files.TEMPORARY) and os.lstat(path).st_mtime * 1000 < before:
            what, why = f"{path} was left by a process that died", "it was never acknowledged"
            yield _found("temporary", what, why, fixable=True, file=path)


def _check_odd_files(case: _Case) -> Iterator[Finding]:
    names = (files.LOCK, files.QUEUE, files.HEADS, os.path.join(files.BACKUPS, files.BACKUP_STATE))
    odd = [path for name in names if files.is_irregular(path := os.path.join(case.home, name))]
    settings = os.path.join(case.settings.home, config.FILE_NAME)
    # The settings file may be a link: many users store their settings elsewhere.
    odd += [settings] if os.path.exists(settings) and not os.path.isfile(settings) else []
    what = {path: f"{path} is not a file" for path in odd}
    if os.path.lexists(case.backups) and not os.path.isdir(case.backups):
        what[case.backups] = f"{case.backups} is not a folder: no backup can be made"
    blocked = _is_quarantine_blocked(case)
    fix = files.move_away_command(case.quarantine) if blocked else ""
    for path, text in what.items():
        why = "a link, a folder or another kind of file has this name"
        yield _found("odd-file", text, why, fix, fixable=not blocked, file=path)


def _is_quarantine_blocked(case: _Case) -> bool:
    return os.path.lexists(case.quarantine) and not os.path.isdir(case.quarantine)


# --- the database -----------------------------------------------------------------------------


def _check_database(case: _Case) -> Iterator[Finding]:
    """Check the SQLite file or the database server by its own means."""
    if not case.store.capabilities.files:
        try:
            yield from case.store.maintenance.remarks()
        except ForestayError as error:
            yield Finding("database-closed", "error", error.what, error.why, error.hint)
        return
    if sqlite3.sqlite_version_info < (3, 51, 3):
        why = "before 3.51.3 a commit could be lost; the writer lock prevents that"
        yield _found("sqlite", f"SQLite {sqlite3.sqlite_version} is in use", why)
    gone = len({session for session, _ in remembered(case.store)})
    if files.size(case.database):
        yield from _check_database_file(case)
    elif gone or backup.list_generations(case.backups) or files.size(case.database + "-wal"):
        word = "empty" if os.path.exists(case.database) else "missing"
        yield _broken(case, f"it contained {gone} session(s)", f"the database is {word}", word)


def _check_database_file(case: _Case) -> Iterator[Finding]:
    read = case.store.machine.tables.read
    try:
        tables = {name for (name,) in read("SELECT name FROM sqlite_schema")}
    except Damaged as error:
        yield _broken(case, error.why)
        return
    except ForestayError as error:
        what, fix = "the database cannot be opened", "check owner, permissions and disk: ls -l"
        fix = f"{fix} {case.home}"
        yield Finding("database-closed", "error", what, error.why, fix, file=case.database)
        return
    if len(tables & {"event", "session", "meta"}) < 2:
        yield _broken(case, case.database, "the file is not a database of Forestay", "foreign")
        return
    with suppress(ForestayError):  # `_check_tables` reports an altered table
        for (value,) in read("SELECT value FROM meta WHERE key = 'min_writer'"):
            if is_good("min_writer", value) and int(value) > FORMAT:
                what = "a newer Forestay changed this home; this version can only read it"
                why = f"the home has format {value}, this version writes format {FORMAT}"
                yield _found("newer", what, why, file=case.database)


def _broken(
    case: _Case, why: str, what: str = "the database is damaged", word: str = "damaged"
) -> Finding:
    code = f"database-{word}"
    if not case.store.capabilities.files:
        fix = "restore it from a backup of the server, then: forestay verify"
        return Finding(code, "error", what, why, fix)
    packs = sum(map(len, backup.list_generations(case.backups)))
    helps = f"rebuild it from {packs} backup pack(s)" if packs else "start with an empty database"
    fix = f"put the file back, or {helps}: {FIX}"
    return Finding(code, "error", what, why, fix, fixable=True, file=case.database)


def _check_tables(case: _Case) -> Iterator[Finding]:
    try:
        flaws = case.store.maintenance.flaws()
    except Damaged as error:
        yield _broken(case, error.why)
        return
    for flaw in flaws:
        if flaw.fixable:
            yield _found(flaw.code, flaw.what, fixable=True, file=case.database)
        else:
            yield _broken(case, flaw.what)


def _check_integrity(case: _Case) -> Iterator[Finding]:
    try:
        problems = case.store.maintenance.check()
    except _TROUBLE as error:
        problems = [str(error)]
    if problems:
        yield _broken(case, "; ".join(problems[:3]))


# --- sessions ---------------------------------------------------------------------------------


def _check_sessions(case: _Case) -> Iterator[Finding]:
    for session in case.sessions():
        yield from _check_session(case, session)
        yield from _check_content(case, session)


def _check_session(case: _Case, session: str) -> Iterator[Finding]:
    try:
        report = case.journal.verify(session)
    except NoSession:
        return  # the session was erased since it was listed
    except _TROUBLE as error:
        yield _damaged(case, session, str(error))
        return
    derived = [finding.what for finding in report.findings if finding.code in _DERIVED]
    lost = [finding.what for finding in report.findings if finding.code == "lost"]
    # A wrong checksum over tables follows from wrong tables: report only the tables.
    apart = {*_DERIVED, "lost", "content", *(["sum"] if derived else [])}
    bad = [finding.what for finding in report.findings if finding.code not in apart]
    if bad:
        yield _damaged(case, session, bad[0])
    elif derived:
        what = f"the tables derived from the journal of {session} are wrong"
        yield _found("session-derived", what, derived[0], fixable=True, session=session)
    if lost:
        with case.store.view(session) as view:
            wanted = {digest for _, _, digest in view.lost()}
        wanted |= {head.hash for id, head in remembered(case.store) if id == session}
        is_saved = any(sealed.hash in wanted for sealed in _saved_events(case, session))
        what = f"events of session {session} are missing"
        yield _gone(case, "session-lost", what, lost[0], session, is_saved=is_saved)


def _damaged(case: _Case, session: str, why: str) -> Finding:
    fixable = case.can_rebuild and _is_whole_in_backups(case, session)
    other = f"forestay backup import FILE, from another copy of {session}"
    fix = f"rebuild it from backups: {FIX}" if fixable else other
    what = f"session {session} is damaged"
    return _found("session-damaged", what, why, fix, fixable=fixable, session=session)


def _is_whole_in_backups(case: _Case, session: str) -> bool:
    """Return whether the backups and the readable events restore the session without a gap."""
    try:
        with case.store.view(session) as view:
            stored, _ = backup.read_what_is_readable(view)
            count = view.seq
    except _TROUBLE:
        return False
    here, _ = backup.select_credible(session, stored)
    known = {s.hash: s for s in [*here, *_saved_events(case, session)]}
    return len(restore.select_with_complete_past(session, known.values())) >= count


def _saved_events(case: _Case, session: str) -> Iterator[Sealed]:
    for item in backup.saved_items(case.backups, session):
        if isinstance(item, Range):
            yield from item.events


def _check_content(case: _Case, session: str) -> Iterator[Finding]:
    try:
        with case.store.view(session) as view:
            events = [event for event in map(as_sealed, view.events()) if blob_names(event)]
    except _TROUBLE:
        return  # the session itself is damaged, which was reported
    promised = {name: is_promise(event) for event in events for name in blob_names(event)}
    for digest, is_promised in promised.items():
        word, why = "missing", "it belongs to an artifact or a long note"
        try:
            if case.store.blob(digest) is not None or not is_promised:
                continue
        except Damaged as error:
            word, why = "damaged", error.why
        what = f"content {digest[:12]} of session {session} is {word}"
        items = backup.saved_items(case.backups, session)
        is_saved = any(isinstance(item, Blob) and item.digest == digest for item in items)
        yield _gone(case, f"content-{word}", what, why, session, is_saved=is_saved)


def _gone(case: _Case, code: str, what: str, why: str, session: str, *, is_saved: bool) -> Finding:
    """Return a finding about content that a session lacks, with the remedy.

    `is_saved` means that a backup has it; otherwise another copy of the session can have it.
    """
    fix = f"restore it from backups: {FIX}"
    if not is_saved:
        fix = f"forestay backup import FILE, from another copy of {session}; no backup has it"
        # Pushed content is on a remote, even if this home no longer knows which one.
        if case.store.machine.remotes.any():
            fix = f"if it was pushed: forestay sync; else {fix}"
        elif os.path.exists(os.path.join(case.home, files.KEYS)):
            fix = f"if it was pushed: forestay remote add NAME ADDRESS, forestay sync; else {fix}"
    return _found(code, what, why, fix, fixable=is_saved, session=session)


def _check_missing_sessions(case: _Case) -> Iterator[Finding]:
    there = {session.lower() for session in backup.last_seqs(case.store)}
    gone = {s: head for s, head in remembered(case.store) if s.lower() not in there}
    for session, head in sorted(gone.items()):
        why = f"its events were acknowledged up to {head.device}:{head.n}"
        what = f"session {session} is no longer in the database"
        is_saved = any(_saved_events(case, session))
        yield _gone(case, "session-missing", what, why, session, is_saved=is_saved)


def _check_heads(case: _Case) -> Iterator[Finding]:
    if unknown := [session for session in case.sessions() if _is_without_head(case, session)]:
        shown = ", ".join(unknown[:3]) + (" …" if unknown[3:] else "")
        what = f"the note of the last event is missing for {len(unknown)} session(s): {shown}"
        why = "if the last events of these sessions were lost, no check would notice it"
        path = os.path.join(case.home, files.HEADS)
        yield _found("heads", what, why, fixable=True, file=path)


def _is_without_head(case: _Case, session: str) -> bool:
    try:
        with case.store.view(session) as view:
            core = case.journal.state(view).core
            return view.remembered is None and own_head(view, core) is not None
    except _TROUBLE:
        return False  # reported with the session


# --- around the sessions ----------------------------------------------------------------------


def _check_holders(case: _Case) -> Iterator[Finding]:
    status = {str(row["id"]): str(row["status"]) for row in case.store.catalogue()}
    for holder in _dead_holders(case):
        ended = status.get(holder.session) in _ENDED
        if holder.is_idle and not ended:
            continue  # the next resume records this as a pause
        what = f"{holder.name} died while it worked on session {holder.session}"
        why = "" if ended else "the outcome of its work is unknown"
        fix = FIX if ended else f"forestay resume {holder.session}"
        yield _found("holder", what, why, fix, fixable=ended, session=holder.session)


def _dead_holders(case: _Case) -> list[Holder]:
    holders = case.store.machine.holders.find()
    return [one for one in holders if liveness(ProcessId.parse(one.process)) == "dead"]


def _check_clock(case: _Case) -> Iterator[Finding]:
    newest = max((int(str(row["updated"])) for row in case.store.catalogue(limit=1)), default=0)
    if newest > case.clock.now() + _DAY:
        what = f"this machine's clock shows {iso(case.clock.now())}, but there are later events"
        yield _found("clock", what, f"the newest event is of {iso(newest)}")


def _check_backups(case: _Case) -> Iterator[Finding]:
    made = backup.list_generations(case.backups)
    for path in [path for packs in (made if case.deep else made[-1:]) for path in packs]:
        if why := _fault_of_pack(path, deep=case.deep):
            what = f"the backup {path} is damaged"
            yield _found("backup-damaged", what, why, fixable=True, file=path)
    is_due = case.settings.backup_every_minutes and case.store.capabilities.files
    if not (is_due and case.store.catalogue(limit=1)):
        return
    if not os.path.isdir(case.backups) and _is_quarantine_blocked(case):
        return  # reported as an odd file
    if not made:
        yield _found("backup-none", "there is no backup yet", fixable=True)
        return
    newest = made[-1][-1]
    try:
        at = pack.read_manifest(files.read_chunks(newest), name=newest).created
    except UNREADABLE:
        at = int(os.stat(newest).st_mtime * 1000)
    age = case.clock.now() - at
    allowed = max(_DAY, 2 * 60_000 * case.settings.backup_every_minutes)
    if age > allowed and backup.is_behind(case.store, case.backups):
        what = f"the newest backup was made {ago(age)}, and events were recorded since"
        yield _found("backup-old", what, fixable=True)


def _fault_of_pack(path: str, *, deep: bool) -> str:
    try:
        if not pack.has_valid_checksum(files.read_chunks(path)):
            return "its checksum is wrong"
        if deep:
            for _ in pack.Reader(files.read_chunks(path), name=path, limits=pack.OWN):
                pass
    except ForestayError as error:
        return str(error)
    return ""


def _check_spool(case: _Case) -> Iterator[Finding]:
    """Check the payloads of agent hooks: lost, not understood, or waiting for too long."""
    spool, now = Spool(case.home), case.clock.now()
    lost, at = spool.lost()
    if lost > 0:
        what = f"{lost} payload(s) of hooks could not be stored, the last {ago(now - at)}"
        why = "the disk was full, or the home could not be written"
        yield _found("spool-lost", what, why, fixable=True, file=spool.path(LOST))
    count, size = spool.set_aside_size()
    if count:
        where, shown = spool.path(BAD), f"{size / 1e6:,.1f} MB"
        what = f"{count} payload(s) of hooks ({shown}) could not be understood and are in {where}"
        tallies = case.store.machine.agent_runs.tallies().items()
        reasons = [f"{w} ({n})" for w, (n, _) in tallies if not w.endswith(OF_NO_INTEREST)]
        finding = _found("spool-bad", what, "; ".join(reasons[:3]), file=where)
        is_much = count > _MANY_REJECTED or size > _LARGE_REJECTED
        yield finding._replace(severity="warning") if is_much else finding
    oldest = spool.oldest()
    if oldest is not None and now - oldest > _HOUR:
        what = f"{spool.count()} payload(s) of hooks are waiting, the oldest since {iso(oldest)}"
        why = "they are recorded when an agent starts or stops; none did"
        yield _found("spool-waiting", what, why)


_CHECKS: tuple[tuple[Check, ...], ...] = (
    (
        _check_home,
        _check_settings,
        _check_space,
        _check_temporary_files,
        _check_odd_files,
        _check_database,
    ),
    (_check_tables,),
    (
        _check_integrity,
        _check_sessions,
        _check_missing_sessions,
        _check_heads,
        _check_holders,
        _check_clock,
        _check_backups,
        _check_spool,
    ),
)
"""Stages of checks: if one finds the database or its tables broken, the later ones are skipped."""


# --- repair -----------------------------------------------------------------------------------


def fix(
    settings: Settings, store: Store, journal: Journal, *, clock: Clock, deep: bool = False
) -> DoctorReport:
    """Repair what is fixable, and examine again. On a home without faults this changes nothing.

    A rebuild replaces the database file, so the caller must drop all states that it has cached.
    """
    case = _Case(settings, store, journal, clock, deep)
    found = _examine(case)
    todo = [finding for finding in found if finding.fixable]
    if not todo:
        return DoctorReport([], [], found)
    done, lost = _apply(_FILE_FIXES, case, todo), list[str]()
    must_rebuild = any(map(_needs_rebuild, todo))
    if any(finding.code in ("tables", "line") for finding in todo) and not must_rebuild:
        must_rebuild = not _repair_tables(case, done, lost)
        if not must_rebuild:
            todo = [finding for finding in _examine(case) if finding.fixable]
            must_rebuild = any(map(_needs_rebuild, todo))
    if case.can_rebuild and must_rebuild:
        rebuild = Rebuild(case.store, settings, clock=clock)
        done += rebuild.run()
        lost += rebuild.lost
    else:
        if any(finding.code.startswith(_IN_BACKUPS) for finding in todo):
            new, _ = restore.absorb_all(case.journal, backup.list_packs(case.backups))
            done.append(f"merged all backups: {new} event(s) came back")
        done += _apply(_SESSION_FIXES, case, todo)
    # Remove no old backup while something is lost: an unreadable backup can still contain it.
    done += _renew_backups(case, todo, keep=_ALL if lost else settings.backup_keep)
    return DoctorReport(done, lost, _examine(case))


_IN_BACKUPS = ("session-lost", "session-missing", "session-damaged", "content-")


def _needs_rebuild(finding: Finding) -> bool:
    damaged = ("session-damaged", "content-damaged")
    return finding.code.startswith("database-") or finding.code in damaged


def _repair_tables(case: _Case, done: list[str], lost: list[str]) -> bool:
    """Repair the tables; return False if that failed because the database file is damaged."""
    try:
        repaired = case.store.maintenance.repair()
    except Damaged:
        if not case.can_rebuild:
            raise
        return False
    for session in repaired.stale:
        try:
            case.journal.rebuild(session)
        except ForestayError:
            continue  # its events are damaged, which the next examination reports
    for session, strays in repaired.strays.items():
        try:
            case.journal.absorb(session, [as_sealed(stored) for stored in strays])
        except ForestayError:
            continue  # the files stay in their place
    done += repaired.done
    lost += repaired.lost
    if repaired.strays:
        done += case.store.maintenance.repair().done
    return True


Fixes = dict[str, Callable[[_Case, Finding], str]]


def _apply(fixes: Fixes, case: _Case, todo: list[Finding]) -> list[str]:
    """Run the fix that `fixes` has for each finding, if any; return what was done."""
    return [line for f in todo if f.code in fixes and (line := fixes[f.code](case, f))]


def _close_home(case: _Case, finding: Finding) -> str:
    os.chmod(finding.file, 0o700)
    return f"removed the access of other users to {finding.file}"


def _reset_lost_count(case: _Case, finding: Finding) -> str:
    Spool(case.home).forget_lost()
    return "reset the count of payloads that were lost"


def _remove_file(case: _Case, finding: Finding) -> str:
    os.unlink(finding.file)
    return f"removed {finding.file}"


def _move_aside(case: _Case, finding: Finding) -> str:
    return f"moved {finding.file} to {files.quarantine(finding.file, case.quarantine)}"


_FILE_FIXES: Fixes = {
    "home-open": _close_home,
    "spool-lost": _reset_lost_count,
    "temporary": _remove_file,
    "odd-file": _move_aside,
}


def _derive_again(case: _Case, finding: Finding) -> str:
    case.journal.rebuild(finding.session)
    return f"computed again the tables derived from the journal of {finding.session}"


def _remember_heads(case: _Case, finding: Finding) -> str:
    unknown = [session for session in case.sessions() if _is_without_head(case, session)]
    for session in unknown:
        case.journal.rebuild(session)
    return f"noted the last event of {len(unknown)} session(s) again"


def _remove_holders(case: _Case, finding: Finding) -> str:
    dead = [holder for holder in _dead_holders(case) if holder.session == finding.session]
    case.store.machine.holders.remove(dead)
    return f"removed {len(dead)} dead process(es) from session {finding.session}" if dead else ""


_SESSION_FIXES: Fixes = {
    "session-derived": _derive_again,
    "heads": _remember_heads,
    "holder": _remove_holders,
}


def _renew_backups(case: _Case, todo: list[Finding], *, keep: int) -> list[str]:
    done = _apply({"backup-damaged": _move_aside}, case, todo)
    changed = ("backup-", "content-", "database-", "session-")
    if any(finding.code.startswith(changed) for finding in todo):
        saved = backup.save(case.store, case.backups, clock=case.clock, keep=keep)
        done.append(f"made the backup {saved.path}")
    return done
