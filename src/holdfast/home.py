"""A home, seen from a folder: the way in for every surface.

`open` gives a `Holdfast`; it starts, finds and lists sessions, and looks after the home as a
whole. What happens in one session is in `session`. Nothing is created on disk until something
is recorded, and the parts that cost start-up time are loaded when they are first needed.
"""

from __future__ import annotations

import os

from holdfast import clock as clocks
from holdfast import files
from holdfast.clock import Clock
from holdfast.config import Settings
from holdfast.config import load as load_settings
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.session import Session
from holdfast.store import Store, open_store
from holdfast.store.local import Holder
from holdfast.text import clean_id, clean_input, terminal
from holdfast.view import listing
from holdfast.workspace import Workspace, find_session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from holdfast.backup import Saved
    from holdfast.doctor import Mended
    from holdfast.journal import Journal
    from holdfast.restore import Outcome
    from holdfast.soundness import Report

    Notice = Callable[[str], None]
    # `list` is a verb of this class, so types that name the builtin are spelled here.
    Listings = list[dict[str, Any]]
    Reports = list[Report]
    Lines = list[str]
    Holders = list[tuple[Holder, str]]


def open(
    home: str | None = None,
    *,
    store: str | None = None,
    session: str | None = None,
    cwd: str | None = None,
    actor: str = "user",
    clock: Clock | None = None,
    trust_env: bool = True,
    on_notice: Notice | None = None,
) -> Holdfast:
    """Open a home (the user's own unless given) as seen from a folder.

    Nothing is created until something is recorded. `on_notice` is called with one line when
    another process is found at work on the same session. With `trust_env=False` the
    environment is not read; the home's config file is.
    """
    chosen = {"store": store, "session": session}
    settings = load_settings(home, overrides=chosen, trust_env=trust_env)
    return Holdfast(settings, cwd=cwd, actor=actor, clock=clock, on_notice=on_notice)


class Holdfast:
    """A home, seen from a folder. Use it in a `with`, or `close` it."""

    def __init__(
        self,
        settings: Settings,
        *,
        cwd: str | None = None,
        actor: str = "user",
        clock: Clock | None = None,
        on_notice: Notice | None = None,
        one_shot: bool = False,
    ) -> None:
        self.settings = settings
        self.clock = clock or Clock()
        self.actor = actor
        self._cwd = cwd
        self._notice = on_notice
        self._one_shot = one_shot
        self._store: Store | None = None
        self._journal: Journal | None = None
        self._workspace: Workspace | None = None
        self._held: dict[str, Holder] = {}
        self._told: set[str] = set()
        self._look_again = 0.0
        self._backup_again = 0.0
        self._pid = os.getpid()

    # -- parts, made when first needed ---------------------------------------------------------

    @property
    def store(self) -> Store:
        if self._store is None:
            from holdfast.process import machine_id

            self._store = open_store(
                self.settings.store,
                self.settings.home,
                clock=self.clock,
                busy_timeout=self.settings.busy_timeout,
                machine=machine_id,
            )
        return self._store

    @property
    def journal(self) -> Journal:
        if self._journal is None:
            from holdfast.journal import Journal
            from holdfast.redact import Redactor

            redactor = Redactor(self.settings.redact_patterns)
            self._journal = Journal(self.store, self.clock, redactor)
        return self._journal

    @property
    def workspace(self) -> Workspace:
        if self._workspace is None:
            self._workspace = Workspace(self.store, self.clock, self._cwd)
        return self._workspace

    # -- sessions ------------------------------------------------------------------------------

    def start(
        self,
        goal: str,
        *,
        mode: str = "default",
        id: str = "",
        from_session: str = "",
        key: str = "",
    ) -> Session:
        """Begin a session and make it the current one of this folder."""
        from holdfast.model.event import SessionStarted

        goal = clean_input(goal, "goal", limit=2000, lines=False)
        session = clean_id(id, "session id") if id else self._new_id(key)
        if id and self.journal.secrets_in(id):
            raise InvalidInput("the session id looks like a secret", why="ids are kept for ever")
        origin = self.session(from_session).id if from_session else ""
        branch, commit = self.git()
        body = SessionStarted(
            goal=goal,
            mode=mode,
            from_session=origin,
            # A folder may have any bytes for a name; what is recorded is text.
            project=terminal(os.path.basename(self.workspace.tree.main)),
            git_branch=branch,
            git_commit=commit,
        )
        started = Session(self, session)
        started.record(body, key=key, create=True, spot=self.workspace.spot())
        return started

    def _new_id(self, key: str) -> str:
        """A fresh id; with a key the one that the same key gives again in this folder."""
        if not key:
            return clocks.short_id(self.clock)
        from holdfast.process import machine_id

        where = (machine_id(), self.settings.home, self.workspace.tree.root)
        return f"k{clocks.derived_id('start', *where, key)[:15]}"

    def session(self, text: str) -> Session:
        """The session an id means; it may be shortened while it is unique."""
        return Session(self, find_session(self.store, text))

    def current(self, *, open_only: bool = False) -> Session:
        """The session meant here: asked for, above this process, or chosen in this folder.

        Raises `NoSession` with the open ones when that would be a guess.
        """
        if self.settings.session:
            return self.session(self.settings.session)
        return Session(self, self.workspace.require(open_only=open_only))

    def list(
        self, *, all: bool = False, archived: bool = False, status: str = "", limit: int = -1
    ) -> list[dict[str, Any]]:
        """Sessions of this project, latest first; with `archived` those out of the way.

        With `all` those of every project, archived or not.
        """
        where: dict[str, object] = {"status": status} if status else {}
        if not all:
            where |= {"archived": int(archived), "project": self.workspace.project()}
        rows = self.store.catalogue(where=where, limit=limit)
        names = {n: self._project_name(n) for n in {row["project"] for row in rows}}
        return [{**listing(row), "project": names[row["project"]]} for row in rows]

    def _project_name(self, number: object) -> str:
        return self.store.local.project_name(number) if isinstance(number, int) else ""

    def use(self, text: str) -> Session:
        """Make a session the current one of this folder."""
        chosen = self.session(text)
        self.workspace.choose(chosen.id)
        return chosen

    def search(self, words: str, *, limit: int = 20) -> Listings:
        """Where all the words occur in goals, notes, decisions, errors and titles."""
        from holdfast.derived import searchable

        found = self.store.search(words, text_of=searchable, limit=limit)
        about = {id: self._about(id) for id in {str(one["session"]) for one in found}}
        return [{**one, **about[str(one["session"])]} for one in found]

    def _about(self, session: str) -> dict[str, Any]:
        """The goal and the project of a session, by which people know it."""
        rows = self.store.catalogue(where={"id": session}, limit=1)
        if not rows:
            return {"goal": "", "project": ""}
        return {"goal": rows[0]["goal"], "project": self._project_name(rows[0]["project"])}

    def init(self) -> str:
        """Mark this folder as a project that is recognised wherever it goes."""
        return self.workspace.mark()

    def git(self) -> tuple[str, str]:
        """The branch and commit that are checked out here, empty where there are none."""
        from holdfast.place import head

        branch, commit = head(self.workspace.tree)
        return terminal(branch or ""), commit or ""

    # -- the whole home ------------------------------------------------------------------------

    def verify(self) -> Reports:
        """Verify every session and the store; the reports of what is not sound come first.

        The report of the store itself names no session, and is there only if it is not sound.
        """
        forgotten = self.store.catalogue(where={"forgotten": 1})
        shown = [*self.store.catalogue(), *(row for row in forgotten if not row["sound"])]
        reports = [self.journal.verify(str(row["id"])) for row in shown]
        whole = self._verify_store({str(row["id"]) for row in [*shown, *forgotten]})
        return sorted([*whole, *reports], key=lambda report: report.ok)

    def _verify_store(self, there: set[str]) -> Reports:
        from holdfast.soundness import Finding, Report

        gone = sorted({session for session, _ in self.store.remembered()} - there)
        lost = [f"session {id} was acknowledged here and is not there any more" for id in gone]
        flaws = [flaw.what for flaw in self.store.flaws()]
        found = [Finding("store", what) for what in [*self.store.check(), *flaws, *lost]]
        return [Report("", 0, found)] if found else []

    def doctor(self, *, fix: bool = False, deep: bool = False) -> Mended:
        """What is wrong with this home, in `left`, the worst first. Changes nothing.

        With `fix` what can be mended is mended first; nothing that was kept is deleted.
        """
        from holdfast import doctor

        parts = (self.settings, self.store, self.journal)
        if fix:
            return doctor.mend(*parts, clock=self.clock, deep=deep)
        return doctor.Mended([], [], doctor.examine(*parts, clock=self.clock, deep=deep))

    def config(
        self, key: str = "", value: object = None, *, unset: bool = False
    ) -> dict[str, tuple[object, str]]:
        """Settings as name → (value, where it comes from): all of them, or one.

        With a value it is set in this home's file, with `unset` taken out of it; either holds
        for whoever opens the home next.
        """
        from holdfast import config

        if key:
            config.require_known(key)
        if unset:
            config.unset(self.settings.home, key)
        if value is not None:
            file = os.path.join(self.settings.home, config.FILE_NAME)
            return {key: (config.set_value(self.settings.home, key, value), file)}
        return {n: (v, origin) for n, v, origin in self.settings.items() if key in ("", n)}

    def backups(self) -> Lines:
        """The files of this home's own backups."""
        try:
            names = sorted(os.listdir(self.backup_folder))
        except OSError:
            return []
        return [os.path.join(self.backup_folder, n) for n in names if n.endswith(files.PACK)]

    @property
    def backup_folder(self) -> str:
        return os.path.join(self.store.home, files.BACKUPS)

    def backup(self, folder: str = "") -> Saved:
        """Write everything into one pack, in the home's own backups or in a folder of yours."""
        from holdfast import backup

        target = os.path.abspath(folder) if folder else self.backup_folder
        keep = None if folder else self.settings.backup_keep
        return backup.save(self.store, target, clock=self.clock, keep=keep)

    def restore(self, path: str) -> Outcome:
        """Merge a backup into this home; nothing that is here is replaced.

        A folder of backups means its newest one. What cannot be taken is left out and told.
        A session that is new here belongs to no project until it is resumed or chosen in one.
        """
        from holdfast import pack, restore

        return restore.together(
            restore.absorb(self.journal, part, limits=pack.OWN, partial=True)
            for part in self._parts(path)
        )

    @staticmethod
    def _parts(path: str) -> Sequence[str]:
        if not os.path.isdir(path):
            return [path]
        from holdfast import backup

        parts = backup.generations(path)
        if not parts:
            raise InvalidInput(f"there is no backup in {path}", hint="holdfast backup", file=path)
        return parts[-1]

    def import_(self, path: str) -> Outcome:
        """Merge a pack of someone else into this home: all of it, or nothing.

        Sessions that are new here belong to the project of this folder.
        """
        from holdfast import restore

        outcome = restore.absorb(self.journal, path)
        taken = [one.session for one in outcome.sessions if one.new]
        if taken:
            self.afterwards(lambda: self.workspace.claim(taken))
        return outcome

    def backup_if_due(self) -> None:
        """Once an hour (a setting), pack what is new beside the database."""
        every = self.settings.backup_every_minutes
        now = self.clock.now() / 1000
        if not every or now < self._backup_again:
            return
        self._backup_again = now + 60
        try:
            last = os.stat(os.path.join(self.backup_folder, files.BACKUP_STATE)).st_mtime
        except OSError:
            last = 0.0
        if not 0 <= now - last < every * 60:
            self._back_up()

    def _back_up(self) -> None:
        from holdfast import backup

        try:
            keep = self.settings.backup_keep
            backup.backup_if_due(self.store, self.backup_folder, clock=self.clock, keep=keep)
        except HoldfastError as error:
            # The event is durable: a backup that fails must not look like an event that failed.
            self._say(f"no backup was made: {error}")

    def afterwards(self, act: Callable[[], object]) -> None:
        """Keep house after an event is durable: what fails now must not look like its failure."""
        try:
            act()
        except HoldfastError as error:
            self._say(f"recorded, but: {error}")

    def _say(self, line: str) -> None:
        if self._notice is not None:
            self._notice(line)

    # -- presence ------------------------------------------------------------------------------

    def appear(self, session: str) -> None:
        """Register this process as working on the session, and tell about the others."""
        if self._one_shot:
            return
        self._notice_fork()
        if session in self._held:
            return self._look_around(session)
        holder = self.workspace.hold(session, self.actor)
        if holder is not None:
            if not self._held:
                _close_at_exit(self)
            self._held[session] = holder
        self._look_around(session)

    def _look_around(self, session: str) -> None:
        """Tell, once each, about live processes on the same session; at most once a second."""
        now = self.clock.monotonic()
        if self._notice is None or now < self._look_again:
            return
        self._look_again = now + 1.0
        for holder, word in self.others(session):
            if word != "dead" and holder.process not in self._told:
                self._told.add(holder.process)
                pid = holder.process.split("/")[3]
                self._notice(f"another process works on session {session}: {holder.name} ({pid})")

    def others(self, session: str) -> Holders:
        """Who else has not let go of the session: holders with "alive", "dead", "unknown"."""
        held = self.workspace.holders(session)
        mine = {holder.process for holder in self._held.values()}
        if held and self._one_shot:
            # A short command is the hand of the process that runs it, not someone else.
            from holdfast.process import ancestors

            mine |= {str(process) for process in ancestors()}
        return self.workspace.distinct([(h, w) for h, w in held if h.process not in mine])

    def _notice_fork(self) -> None:
        if self._pid != os.getpid():
            # A forked child is a process of its own: it holds nothing until it works itself.
            self._pid, self._held = os.getpid(), {}

    def close(self) -> None:
        """Let go of every session and of the store. May be called twice."""
        self._notice_fork()
        held, self._held = list(self._held.values()), {}
        try:
            if held:
                self.workspace.let_go(held)
        except HoldfastError as error:
            # Every event is acknowledged: what is left over is a holder that will be found dead.
            self._say(f"could not let go of the session: {error}")
        if self._store is not None:
            self._store.close()
        self._store = self._journal = self._workspace = None

    def __enter__(self) -> Holdfast:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _close_at_exit(home: Holdfast) -> None:
    import atexit
    import weakref

    # A program that ends in order lets go; only one that dies leaves its holder behind.
    reference = weakref.ref(home)

    def close() -> None:
        alive = reference()
        if alive is not None:
            alive.close()

    atexit.register(close)
