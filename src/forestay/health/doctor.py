"""The doctor: asks every part what is wrong, and lists what would mend it.

An *advice* says what is wrong, why it matters and which command helps; one that is `fixable`
is what `mend` takes care of. Looking changes nothing. The database file is looked at in a
child process, because opening it here other than through the store would drop the locks of
this process. Where nothing less helps, the database is made anew (`rebuild`).
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from typing import NamedTuple

from forestay.agents.spool import BAD, LOST, OF_NO_INTEREST, Spool
from forestay.base import config, files
from forestay.base.clock import Clock, ago, iso
from forestay.base.config import Settings
from forestay.base.findings import Finding
from forestay.base.process import ProcessId, liveness
from forestay.errors import Damaged, ForestayError, NoSession
from forestay.health import database_probe
from forestay.health.rebuild import Rebuild, remembered
from forestay.journal import backup, pack, restore
from forestay.journal.journal import Journal, own_head
from forestay.journal.pack import Blob, Range
from forestay.journal.projections import as_sealed
from forestay.journal.restore import UNREADABLE
from forestay.journal.verify import Report
from forestay.model.blob_refs import blob_names, is_promise
from forestay.model.event import Sealed
from forestay.store.port import Repaired, Store
from forestay.store.sqlite import filesystem_check
from forestay.store.sqlite.repair import is_good
from forestay.store.sqlite.schema import FORMAT

_UNFORESEEN = "make a copy of the home, then: forestay doctor --fix"
NEWEST = 20
"""How many sessions a look that is not deep verifies."""

_HOUR = 3600 * 1000
_DAY = 24 * _HOUR
_FEW = 3
_MUCH_ASIDE, _BYTES_ASIDE = 1000, 100 << 20
_ALL = 1_000_000
_LITTLE_SPACE = 100 << 20
_SEVERITIES = ("error", "warning", "info")
_FLAWS = ("tables", "line")
_DERIVED = frozenset({"core", "rows", "catalogue"})
_TOLD_APART = frozenset({"lost", "content"})
_DAMAGED = frozenset({"session-damaged", "content-damaged"})
_MERGED = frozenset({"session-lost", "session-missing", "content-missing"})
_ENDED = frozenset({"completed", "failed", "aborted", "abandoned"})
_SAVED_AFTER = ("backup-", "content-", "database-", "session-")
_BLOCKING = ("database-", "tables")
_TROUBLE = (ForestayError, OSError)


class Mended(NamedTuple):
    """What was done, what could not be brought back, and what is still wrong."""

    done: list[str]
    lost: list[str]
    left: list[Finding]


class _Case(NamedTuple):
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
    def rebuilds(self) -> bool:
        """Whether the database can be made anew here: those of a server are not ours to replace."""
        return self.store.capabilities.files and files.is_writable(self.home)


def examine(
    settings: Settings, store: Store, journal: Journal, *, clock: Clock, deep: bool = False
) -> list[Finding]:
    """What is wrong with a home, the worst first. Changes nothing.

    Verifies the sessions that changed last; with `deep` all of them, and every backup.
    """
    return _examined(_Case(settings, store, journal, clock, deep))


def _examined(case: _Case) -> list[Finding]:
    if not os.path.isdir(case.home):
        return [Finding("home-new", "info", f"nothing is kept in {case.home} yet")]
    found: list[Finding] = []
    own = _OWN_FILE_CHECKS if case.store.capabilities.files else (_look_at_server,)
    for checks in ((*_FILE_CHECKS, *own), (_look_at_flaws,), _STORE_CHECKS):
        if not any(advice.code.startswith(_BLOCKING) for advice in found):
            found += [advice for check in checks for advice in _looked(check, case)]
    return by_severity(found)


def by_severity(found: list[Finding]) -> list[Finding]:
    """The worst first."""
    return sorted(found, key=lambda advice: _SEVERITIES.index(advice.severity))


def _looked(check: Callable[[_Case], Iterator[Finding]], case: _Case) -> list[Finding]:
    """What a check finds; that it could not look is a finding too."""
    found: list[Finding] = []
    try:
        found.extend(check(case))
    except _TROUBLE as error:
        hint = getattr(error, "hint", "")
        found.append(Finding("not-seen", "error", f"could not look: {error}", fix=hint))
    except Exception as error:
        # Damage that nobody foresaw must not keep the doctor from telling the rest.
        said = f"{type(error).__name__}: {error}"
        found.append(Finding("not-seen", "error", f"could not look: {said}", fix=_UNFORESEEN))
    return found


# --- files ------------------------------------------------------------------------------------


def _look_at_home(case: _Case) -> Iterator[Finding]:
    facts = os.stat(case.home)
    if facts.st_uid != os.geteuid():
        yield Finding(
            "home-owner",
            "error",
            f"{case.home} belongs to another user",
            fix="set FORESTAY_HOME to a folder of your own",
            file=case.home,
        )
    reason = filesystem_check.shared_locks_ok(case.home)
    if reason:
        yield Finding(
            "home-place",
            "error",
            "sessions cannot be kept here",
            reason,
            "set FORESTAY_HOME to a folder on a local disk",
            file=case.home,
        )
    if closed := _not_writable(case.home):
        yield Finding(
            "home-readonly",
            "warning",
            "the home can be read but not written",
            fix=f"check owner and permissions: ls -ld {files.shell_quote(closed)}",
            file=closed,
        )


def _not_writable(home: str) -> str:
    """What keeps us from writing to a home, itself or a file that every event is written to."""
    parts = (os.path.join(home, name) for name in (files.DATABASE, f"{files.DATABASE}-wal"))
    closed = next((path for path in parts if files.why_not_appendable(path)), "")
    return closed if files.is_writable(home) else home


def _look_at_mode(case: _Case) -> Iterator[Finding]:
    facts = os.stat(case.home)
    if facts.st_mode & 0o077:
        yield Finding(
            "home-open",
            "warning",
            f"others may look into {case.home}",
            f"its mode is {stat.S_IMODE(facts.st_mode):04o}",
            f"chmod 700 {files.shell_quote(case.home)}",
            fixable=facts.st_uid == os.geteuid() and files.is_writable(case.home),
            file=case.home,
        )


def _look_at_settings(case: _Case) -> Iterator[Finding]:
    path = os.path.join(case.settings.home, config.FILE_NAME)
    if os.path.exists(path) and not os.path.isfile(path):
        return  # told among the odd files
    try:
        unknown = config.load(case.settings.home).unknown
    except ForestayError as error:
        yield Finding("config", "error", error.what, error.why, error.hint, file=path)
        return
    for name in unknown:
        yield Finding(
            "config-unknown",
            "info",
            f"the option {name} in {path} is not known to this version",
            fix="forestay config",
            file=path,
        )


def _look_at_space(case: _Case) -> Iterator[Finding]:
    facts = os.statvfs(case.home)
    free = facts.f_bavail * facts.f_frsize
    if free < _LITTLE_SPACE:
        yield Finding(
            "space",
            "warning",
            f"only {free >> 20} MB are free where the home is",
            "when the disk is full nothing can be recorded",
            "free some space: df -h",
            file=case.home,
        )


def _look_at_temporaries(case: _Case) -> Iterator[Finding]:
    before = case.clock.now() - _DAY
    for path in [*files.list_paths(case.home), *files.list_paths(case.backups)]:
        if path.endswith(files.TEMPORARY) and os.lstat(path).st_mtime * 1000 < before:
            yield Finding(
                "temporary",
                "info",
                f"{path} was left by a process that died",
                "it was never acknowledged",
                "forestay doctor --fix",
                fixable=files.is_writable(case.home),
                file=path,
            )


def _look_at_odd_files(case: _Case) -> Iterator[Finding]:
    names = (files.LOCK, files.QUEUE, files.HEADS, os.path.join(files.BACKUPS, files.BACKUP_STATE))
    odd = [path for name in names if files.is_irregular(path := os.path.join(case.home, name))]
    settings = os.path.join(case.settings.home, config.FILE_NAME)
    # That one may be a link: many keep their settings elsewhere.
    odd += [settings] if os.path.exists(settings) and not os.path.isfile(settings) else []
    for path in odd:
        yield _odd(case, f"{path} is not a file", path)
    if os.path.lexists(case.backups) and not os.path.isdir(case.backups):
        yield _odd(case, f"{case.backups} is not a folder: no backup can be made", case.backups)


def _is_quarantine_blocked(case: _Case) -> bool:
    path = os.path.join(case.home, files.QUARANTINE)
    return os.path.lexists(path) and not os.path.isdir(path)


def _odd(case: _Case, what: str, path: str) -> Finding:
    aside, blocked = os.path.join(case.home, files.QUARANTINE), _is_quarantine_blocked(case)
    return Finding(
        "odd-file",
        "error",
        what,
        "something else has its name",
        files.move_away_command(aside) if blocked else "move it aside: forestay doctor --fix",
        fixable=files.is_writable(case.home) and not blocked,
        file=path,
    )


# --- the database, seen from a child process --------------------------------------------------


def _look_at_database(case: _Case) -> Iterator[Finding]:
    gone = len({session for session, _ in remembered(case.store)})
    if files.size(case.database):
        yield from _look_inside(case)
    elif gone or backup.list_generations(case.backups) or files.size(case.database + "-wal"):
        word = "empty" if os.path.exists(case.database) else "missing"
        yield _broken(case, word, f"the database is {word}", f"{gone} session(s) were kept in it")


def _look_inside(case: _Case) -> Iterator[Finding]:
    seen = database_probe.look(case.database, case.home)
    code, error = seen.get("code"), str(seen.get("error", ""))
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        yield _broken(case, "damaged", "the database is damaged", error)
    elif error:
        yield Finding(
            "database-closed",
            "error",
            "the database cannot be opened",
            error,
            f"check owner, permissions and disk: ls -l {case.home}",
            file=case.database,
        )
    elif not seen.get("ours"):
        yield _broken(case, "foreign", "the database is not one of Forestay", case.database)
    elif is_good("min_writer", seen.get("min_writer")) and int(str(seen["min_writer"])) > FORMAT:
        yield Finding(
            "newer",
            "error",
            "a newer Forestay took this home over; this one can only read it",
            f"format {seen['min_writer']}, this one knows {FORMAT}",
            "use the newer version",
            file=case.database,
        )


def _look_at_server(case: _Case) -> Iterator[Finding]:
    """What a store without files of ours says of itself; which is all that can be seen of it."""
    try:
        remarks = case.store.maintenance.remarks()
    except ForestayError as error:
        yield Finding("database-closed", "error", error.what, error.why, error.hint)
        return
    yield from remarks


def _broken(case: _Case, word: str, what: str, why: str) -> Finding:
    if not case.store.capabilities.files:
        helps = "restore it by the means of the server, then: forestay verify"
        return Finding(f"database-{word}", "error", what, why, helps)
    packs = sum(map(len, backup.list_generations(case.backups)))
    helps = (
        f"rebuild it from {packs} backup pack(s)" if packs else "begin anew (no backup is there)"
    )
    return Finding(
        f"database-{word}",
        "error",
        what,
        why,
        f"put the file back, or {helps}: forestay doctor --fix",
        fixable=files.is_writable(case.home),
        file=case.database,
    )


def _look_at_sqlite(case: _Case) -> Iterator[Finding]:
    if sqlite3.sqlite_version_info < (3, 51, 3):
        yield Finding(
            "sqlite",
            "info",
            f"SQLite {sqlite3.sqlite_version} is in use",
            "before 3.51.3 a commit could be lost; here it is guarded by the writer lock",
        )


# --- what the store holds ---------------------------------------------------------------------


def _look_at_flaws(case: _Case) -> Iterator[Finding]:
    try:
        flaws = case.store.maintenance.flaws()
    except Damaged as error:
        yield _broken(case, "damaged", "the database is damaged", error.why)
        return
    for flaw in flaws:
        if not flaw.fixable:
            yield _broken(case, "damaged", "the database is damaged", flaw.what)
        else:
            yield Finding(
                flaw.code,
                "error",
                flaw.what,
                fix="make it anew: forestay doctor --fix",
                fixable=files.is_writable(case.home),
                file=case.database,
            )


def _look_at_integrity(case: _Case) -> Iterator[Finding]:
    try:
        problems = case.store.maintenance.check()
    except _TROUBLE as error:
        problems = [str(error)]
    if problems:
        yield _broken(case, "damaged", "the database is damaged", "; ".join(problems[:3]))


def _look_at_sessions(case: _Case) -> Iterator[Finding]:
    for row in case.store.catalogue(limit=-1 if case.deep else NEWEST):
        yield from _look_at_session(case, str(row["id"]))
        yield from _look_at_content(case, str(row["id"]))


def _look_at_session(case: _Case, session: str) -> Iterator[Finding]:
    try:
        report = case.journal.verify(session)
    except NoSession:
        return  # gone between listing and looking
    except _TROUBLE as error:
        yield _damaged(case, session, str(error))
        return
    codes = {finding.code for finding in report.findings}
    bad = codes - _DERIVED - _TOLD_APART
    if codes & _DERIVED:
        bad -= {"sum"}  # a sum over tables differs because they do
    if bad:
        yield _damaged(case, session, _first(report, bad))
    elif codes & _DERIVED:
        yield Finding(
            "session-derived",
            "error",
            f"what is derived from the journal of {session} is wrong",
            _first(report, codes & _DERIVED),
            "make it anew: forestay doctor --fix",
            fixable=files.is_writable(case.home),
            session=session,
        )
    if "lost" in codes:
        yield _lost(case, session, _first(report, {"lost"}))


def _first(report: Report, codes: set[str] | frozenset[str]) -> str:
    return next(finding.what for finding in report.findings if finding.code in codes)


def _damaged(case: _Case, session: str, why: str) -> Finding:
    mendable = case.rebuilds and _is_whole_in_backups(case, session)
    other = f"forestay backup import FILE, from another copy of {session}"
    return Finding(
        "session-damaged",
        "error",
        f"session {session} is damaged",
        why,
        "rebuild it from backups: forestay doctor --fix" if mendable else other,
        fixable=mendable,
        session=session,
    )


def _is_whole_in_backups(case: _Case, session: str) -> bool:
    """Whether backups and what can be read here give the session back without a gap."""
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


def _look_at_content(case: _Case, session: str) -> Iterator[Finding]:
    try:
        with case.store.view(session) as view:
            events = [event for event in map(as_sealed, view.events()) if blob_names(event)]
    except _TROUBLE:
        return  # then the session itself is damaged, and that was told
    named = {name: is_promise(event) for event in events for name in blob_names(event)}
    for digest, promised in named.items():
        word, why = _state_of_content(case, digest)
        if word == "damaged" or (word == "missing" and promised):
            what = f"content {digest[:12]} of session {session} is {word}"
            items = backup.saved_items(case.backups, session)
            found = any(isinstance(item, Blob) and item.digest == digest for item in items)
            yield _gone(case, f"content-{word}", what, why, session, found=found)


def _state_of_content(case: _Case, digest: str) -> tuple[str, str]:
    try:
        there = case.store.blob(digest) is not None
    except Damaged as error:
        return "damaged", error.why
    return ("", "") if there else ("missing", "it was kept with an artifact or a long note")


def _lost(case: _Case, session: str, why: str) -> Finding:
    with case.store.view(session) as view:
        wanted = {digest for _, _, digest in view.lost()}
    wanted |= {head.hash for id, head in remembered(case.store) if id == session}
    found = any(sealed.hash in wanted for sealed in _saved_events(case, session))
    what = f"session {session} lost events"
    return _gone(case, "session-lost", what, why, session, found=found)


def _gone(case: _Case, code: str, what: str, why: str, session: str, *, found: bool) -> Finding:
    helps = "bring it back from backups: forestay doctor --fix"
    return Finding(
        code,
        "error",
        what,
        why,
        helps if found else _from_elsewhere(case, session),
        fixable=found and files.is_writable(case.home),
        session=session,
    )


def _from_elsewhere(case: _Case, session: str) -> str:
    """No backup has it. What was pushed lies on a remote, also where this home forgot which."""
    copy = f"forestay backup import FILE, from another copy of {session}; no backup has it"
    if case.store.machine.remotes.any():
        return f"if it was pushed: forestay sync; else {copy}"
    if os.path.exists(os.path.join(case.home, files.KEYS)):
        return f"if it was pushed: forestay remote add NAME ADDRESS, forestay sync; else {copy}"
    return copy


def _look_at_heads(case: _Case) -> Iterator[Finding]:
    there = {session.lower() for session in backup.last_seqs(case.store)}
    gone = {s: head for s, head in remembered(case.store) if s.lower() not in there}
    for session, head in sorted(gone.items()):
        why = f"it was acknowledged up to {head.device}:{head.n}"
        what = f"session {session} is not in the database any more"
        found = any(_saved_events(case, session))
        yield _gone(case, "session-missing", what, why, session, found=found)


def _look_at_memory(case: _Case) -> Iterator[Finding]:
    if unknown := _unremembered(case):
        shown = ", ".join(unknown[:3]) + (" …" if unknown[3:] else "")
        yield Finding(
            "heads",
            "warning",
            f"where {len(unknown)} session(s) end is not remembered any more: {shown}",
            "if their last events were cut off, nobody would notice",
            "forestay doctor --fix",
            fixable=files.is_writable(case.home),
            file=os.path.join(case.home, files.HEADS),
        )


def _unremembered(case: _Case) -> list[str]:
    rows = case.store.catalogue(limit=-1 if case.deep else NEWEST)
    return [str(row["id"]) for row in rows if _is_unremembered(case, str(row["id"]))]


def _is_unremembered(case: _Case, session: str) -> bool:
    try:
        with case.store.view(session) as view:
            core = case.journal.state(view).core
            return view.remembered is None and own_head(view, core) is not None
    except _TROUBLE:
        return False  # which was told of the session


def _look_at_holders(case: _Case) -> Iterator[Finding]:
    status = {str(row["id"]): str(row["status"]) for row in case.store.catalogue()}
    for holder in case.store.machine.holders.find():
        if liveness(ProcessId.parse(holder.process)) != "dead":
            continue
        ended = status.get(holder.session) in _ENDED
        if holder.is_idle and not ended:
            continue  # a pause, which the next resume notes
        yield Finding(
            "holder",
            "info",
            f"{holder.name} died while it worked on session {holder.session}",
            "" if ended else "what it was doing has an unknown outcome",
            "forestay doctor --fix" if ended else f"forestay resume {holder.session}",
            fixable=ended and files.is_writable(case.home),
            session=holder.session,
        )


def _look_at_clock(case: _Case) -> Iterator[Finding]:
    newest = max((int(str(row["updated"])) for row in case.store.catalogue(limit=1)), default=0)
    if newest > case.clock.now() + _DAY:
        yield Finding(
            "clock",
            "warning",
            f"this machine's clock says {iso(case.clock.now())}, but there are later events",
            f"the newest is of {iso(newest)}",
            "check date and time: date -u",
        )


def _look_at_backups(case: _Case) -> Iterator[Finding]:
    made = backup.list_generations(case.backups)
    for path in [path for packs in (made if case.deep else made[-1:]) for path in packs]:
        why = _fault_of_pack(path, deep=case.deep)
        if why:
            yield Finding(
                "backup-damaged",
                "error",
                f"the backup {path} is damaged",
                why,
                "make another: forestay doctor --fix",
                fixable=files.is_writable(case.home),
                file=path,
            )
    if case.settings.backup_every_minutes and case.store.capabilities.files:
        yield from _look_at_age(case, made)


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


def _look_at_age(case: _Case, made: list[list[str]]) -> Iterator[Finding]:
    if not case.store.catalogue(limit=1):
        return
    fix = "forestay backup create"
    if not os.path.isdir(case.backups) and _is_quarantine_blocked(case):
        return  # told among the odd files
    if not made:
        what = "there is no backup yet"
        yield Finding("backup-none", "warning", what, fix=fix, fixable=files.is_writable(case.home))
        return
    age = case.clock.now() - _made_at(made[-1][-1])
    allowed = max(_DAY, 2 * 60_000 * case.settings.backup_every_minutes)
    if age > allowed and backup.is_behind(case.store, case.backups):
        what = f"the newest backup was made {ago(age)}, and there is something new"
        yield Finding("backup-old", "warning", what, fix=fix, fixable=files.is_writable(case.home))


def _made_at(path: str) -> int:
    try:
        return pack.read_manifest(files.read_chunks(path), name=path).created
    except UNREADABLE:
        return int(os.stat(path).st_mtime * 1000)


def _look_at_spool(case: _Case) -> Iterator[Finding]:
    """What hooks of agents said: lost, set aside, or waiting although nobody comes."""
    spool = Spool(case.home)
    lost, at = spool.lost()
    if lost > 0:
        yield Finding(
            "spool-lost",
            "warning",
            f"{lost} of what hooks said could not be kept, the last {ago(case.clock.now() - at)}",
            "the disk was full, or the home could not be written",
            "forestay doctor --fix forgets the count",
            fixable=True,
            file=spool.path(LOST),
        )
    bad, size = spool.set_aside_size()
    if bad:
        yield Finding(
            "spool-bad",
            "warning" if bad > _MUCH_ASIDE or size > _BYTES_ASIDE else "info",
            f"{bad} of what hooks said ({_megabytes(size)}) could not be understood"
            f" and lies in {spool.path(BAD)}",
            "; ".join(_reasons(case)[:_FEW]),
            "look at it; to delete it for good: forestay ingest --discard",
            file=spool.path(BAD),
        )
    oldest = spool.oldest()
    if oldest is not None and case.clock.now() - oldest > _HOUR:
        yield Finding(
            "spool-waiting",
            "warning",
            f"{spool.count()} of what hooks said waits, the oldest since {iso(oldest)}",
            "an agent that starts, or stops, takes it up; none did",
            "forestay ingest",
        )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def _reasons(case: _Case) -> list[str]:
    tallies = case.store.machine.agent_runs.tallies().items()
    return [f"{what} ({n})" for what, (n, _) in tallies if not what.endswith(OF_NO_INTEREST)]


_FILE_CHECKS = (
    _look_at_home,
    _look_at_mode,
    _look_at_settings,
    _look_at_space,
    _look_at_temporaries,
    _look_at_odd_files,
)
_OWN_FILE_CHECKS = (_look_at_database, _look_at_sqlite)
_STORE_CHECKS: tuple[Callable[[_Case], Iterator[Finding]], ...] = (
    _look_at_integrity,
    _look_at_sessions,
    _look_at_heads,
    _look_at_memory,
    _look_at_holders,
    _look_at_clock,
    _look_at_backups,
    _look_at_spool,
)


# --- mending ----------------------------------------------------------------------------------


def mend(
    settings: Settings, store: Store, journal: Journal, *, clock: Clock, deep: bool = False
) -> Mended:
    """Do what the advice calls fixable, and look again. On a good home this does nothing.

    After a rebuild the store's file is another one: whoever keeps states of it in memory must
    let go of them.
    """
    case = _Case(settings, store, journal, clock, deep)
    found = _examined(case)
    todo = [advice for advice in found if advice.fixable]
    if not todo:
        return Mended([], [], found)
    done, lost = _tidy_files(case, todo), list[str]()
    beyond = any(map(_needs_rebuild, todo))
    if any(advice.code in _FLAWS for advice in todo) and not beyond:
        repaired = _repair(case)
        # Its files may be damaged where nobody has looked yet: then only a rebuild helps.
        beyond = repaired is None
        if repaired is not None:
            done, lost = [*done, *repaired.done], [*lost, *repaired.lost]
            todo = [advice for advice in _examined(case) if advice.fixable]
            beyond = any(map(_needs_rebuild, todo))
    if case.rebuilds and beyond:
        rebuilding = Rebuild(case.store, settings, clock=clock)
        done += rebuilding.run()
        lost += rebuilding.lost
    else:
        done += _mend_sessions(case, todo)
    # What could not be brought back may still be in a backup that nobody can read today.
    keep = _ALL if lost else settings.backup_keep
    done += _renew_backups(case, todo, keep=keep)
    return Mended(done, lost, _examined(case))


def _repair(case: _Case) -> Repaired | None:
    """Mend the tables; None where the database is damaged below them."""
    try:
        repaired = case.store.maintenance.repair()
    except Damaged:
        if not case.rebuilds:
            raise
        return None
    for session in repaired.stale:
        try:
            case.journal.rebuild(session)
        except ForestayError:
            continue  # its events are damaged, which the next look tells
    for session, strays in repaired.strays.items():
        try:
            case.journal.absorb(session, [as_sealed(stored) for stored in strays])
        except ForestayError:
            continue  # they stay where they are
    if repaired.strays:
        repaired.done += case.store.maintenance.repair().done
    return repaired


def _needs_rebuild(advice: Finding) -> bool:
    return advice.code.startswith("database-") or advice.code in _DAMAGED


def _tidy_files(case: _Case, todo: list[Finding]) -> list[str]:
    done: list[str] = []
    for advice in todo:
        if advice.code == "home-open":
            os.chmod(advice.file, 0o700)
            done.append(f"closed {advice.file} to others")
        elif advice.code == "spool-lost":
            Spool(case.home).forget_lost()
            done.append("forgot how much of what hooks said was lost")
        elif advice.code == "temporary":
            os.unlink(advice.file)
            done.append(f"removed {advice.file}")
        elif advice.code == "odd-file":
            done.append(f"moved {advice.file} to {_set_aside(case, advice.file)}")
    return done


def _mend_sessions(case: _Case, todo: list[Finding]) -> list[str]:
    done: list[str] = []
    # Where nothing is rebuilt, damaged content is mended by taking it from backups again.
    if any(advice.code in _MERGED | _DAMAGED for advice in todo):
        new, _ = restore.absorb_all(case.journal, backup.list_packs(case.backups))
        done.append(f"merged all backups: {new} event(s) came back")
    for advice in todo:
        if advice.code == "session-derived":
            case.journal.rebuild(advice.session)
            done.append(f"made anew what is derived from the journal of {advice.session}")
        elif advice.code == "heads":
            unknown = _unremembered(case)
            for session in unknown:
                case.journal.rebuild(session)
            done.append(f"remembered anew where {len(unknown)} session(s) end")
    if any(advice.code == "holder" for advice in todo):
        ended = {advice.session for advice in todo if advice.code == "holder"}
        dead = [holder for holder in case.store.machine.holders.find() if holder.session in ended]
        dead = [h for h in dead if liveness(ProcessId.parse(h.process)) == "dead"]
        case.store.machine.holders.remove(dead)
        done.append(f"let {len(dead)} dead process(es) go")
    return done


def _renew_backups(case: _Case, todo: list[Finding], *, keep: int) -> list[str]:
    bad = [advice.file for advice in todo if advice.code == "backup-damaged"]
    done = [f"moved {path} to {_set_aside(case, path)}" for path in bad]
    if not any(advice.code.startswith(_SAVED_AFTER) for advice in todo):
        return done
    saved = backup.save(case.store, case.backups, clock=case.clock, keep=keep)
    return [*done, f"made the backup {saved.path}"]


def _set_aside(case: _Case, path: str) -> str:
    return files.quarantine(path, os.path.join(case.home, files.QUARANTINE))
