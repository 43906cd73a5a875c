"""A home, seen from a folder: the way in for every surface.

`open` gives a `Holdfast`; it starts, finds and lists sessions, and looks after the home as a
whole. What happens in one session is in `session`. Nothing is created on disk until something
is recorded, and the parts that cost start-up time are loaded when they are first needed.
"""

from __future__ import annotations

import os

from holdfast import files
from holdfast.clock import Clock
from holdfast.config import Settings
from holdfast.config import load as load_settings
from holdfast.errors import HoldfastError, NoSession
from holdfast.home.layout import LayoutVerbs
from holdfast.home.travel import TravelVerbs
from holdfast.store import Store, open_store
from holdfast.store.local import Holder
from holdfast.text import terminal
from holdfast.view import listing, look
from holdfast.workspace import Workspace, find_session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from holdfast.backup import Saved
    from holdfast.doctor import Mended
    from holdfast.hooks.install import Ground
    from holdfast.hooks.install import Plan as AgentPlan
    from holdfast.ingest import Ingested
    from holdfast.journal import Journal
    from holdfast.layout.translate import Move
    from holdfast.mirror import Ahead, Mirror
    from holdfast.move import Moved, OnPart
    from holdfast.restore import Outcome
    from holdfast.session import Session
    from holdfast.soundness import Report
    from holdfast.store.bound import Binding
    from holdfast.verb import Recorder

    Notice = Callable[[str], None]
    # `list` is a verb of this class, so types that name the builtin are spelled here.
    Listings = list[dict[str, Any]]
    Reports = list[Report]
    Lines = list[str]
    Moves = list[Move]
    AgentPlans = list[AgentPlan]
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


_HOUR = 3_600_000
_QUICK = 0.05
"""How long a command that records something may first take up what hooks said, in seconds."""
_SHORTEST = 6 * 60_000
"""No limit on inactivity is shorter, in milliseconds."""


class Holdfast(LayoutVerbs, TravelVerbs):
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
        hand: bool = False,
        before_mirror: Callable[[], None] | None = None,
    ) -> None:
        """`one_shot` is a process that ends at once; a `hand` works for the one that started it.

        `before_mirror` is called before what keeps layout files is loaded, which takes a while.
        """
        self.settings = settings
        self.clock = clock or Clock()
        self.actor = actor
        self._cwd = cwd
        self._notice = on_notice
        self._one_shot = one_shot
        self._hand = hand or one_shot
        self._before_mirror = before_mirror
        self._store: Store | None = None
        self._journal: Journal | None = None
        self._workspace: Workspace | None = None
        self._mirror: Mirror | None = None
        self._held: dict[str, Holder] = {}
        self._introduced: set[str] = set()
        self._told: set[str] = set()
        self._tidied: set[str] = set()
        self._expires_again: dict[str, int] = {}
        self._look_again = 0.0
        self._backup_again = 0.0
        self._pid = os.getpid()

    @property
    def _home(self) -> Holdfast:
        """This object, as its verbs by topic know it."""
        return self

    # -- parts, made when first needed ---------------------------------------------------------

    @property
    def store(self) -> Store:
        if self._store is None:
            self._store = self._open_store(self.settings.store)
        return self._store

    def _open_store(self, url: str, *, sealed: bool = False) -> Store:
        from holdfast.process import machine_id

        return open_store(
            url,
            self.settings.home,
            clock=self.clock,
            busy_timeout=self.settings.busy_timeout,
            machine=machine_id,
            sealed=sealed,
        )

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

    @property
    def folder(self) -> str:
        """The folder that this is seen from; the tree is around it."""
        return os.path.abspath(self._cwd or os.getcwd())

    @property
    def mirror(self) -> Mirror:
        if self._mirror is None:
            if self._before_mirror is not None:
                self._before_mirror()
            from holdfast.mirror import Mirror
            from holdfast.mirror.desk import Desk
            from holdfast.who import own_name

            desk = Desk(
                self.store,
                self.journal,
                self.clock,
                self.workspace.tree,
                naive=self.settings.naive_time,
                device=own_name(self),
                window=self.settings.context_window,
                roots={"ai-session": self.settings.session_root},
                travel=self.travel,
            )
            self._mirror = Mirror(desk)
        return self._mirror

    def seen_from(self, folder: str, actor: str) -> Holdfast:
        """The same home from another folder, for someone else; it ends with this one."""
        other = Holdfast(
            self.settings,
            cwd=folder,
            actor=actor,
            clock=self.clock,
            on_notice=self._notice,
            one_shot=True,
        )
        other._store, other._journal = self.store, self.journal
        return other

    # -- layout files --------------------------------------------------------------------------

    def take_up(self, session: str) -> None:
        """Record what others wrote into the session's files, before anything is decided.

        Chores that a process left when it died are done first, once in the life of this object.
        """
        if session not in self._tidied:
            self._tidied.add(session)
            if self.store.local.chores(session):
                from holdfast.chore import finish

                self.afterwards(lambda: finish(self, session))
        self._take_up_files(session)

    def _take_up_files(self, session: str) -> None:
        def absorb() -> None:
            if said := self.mirror.absorb(session):
                self._tell(said)
                self.sync_if_due()

        if self._is_bound(session):
            self.afterwards(absorb)

    def _is_bound(self, session: str) -> bool:
        """Whether there may be files of the session; the mirror, once loaded, knows best."""
        return self._mirror is not None or self.store.local.is_bound(session)

    def expire(self, session: Recorder) -> None:
        """Note that a session was paused by inactivity; looked at once an hour at most."""
        now = self.clock.now()
        if now < self._expires_again.get(session.id, now):
            return
        self._expires_again[session.id] = now + _HOUR
        if self.is_idle(session.id):
            from holdfast.expiry import enforce

            self.afterwards(lambda: enforce(session))

    def is_idle(self, session: str) -> bool:
        """Whether nothing happened for so long that it may matter. `Session.expiry` says if so.

        Most sessions are written to now and then: for those this is all it costs.
        """
        rows = self.store.catalogue(where={"id": session}, limit=1)
        updated = rows[0]["updated"] if rows else None
        return isinstance(updated, int) and self.clock.now() - updated >= _SHORTEST

    def may_expire(self, session: str) -> bool:
        """Whether silence may come to mean something for a session without a workflow: the settings
        say so, or it has files, which may be an essay's."""
        limits = self.settings.pause_hours, self.settings.abandon_hours
        return any(limits) or self._is_bound(session)

    def pending(self, session: str) -> Moves:
        """What others wrote into the session's files and nobody has taken up; changes nothing."""
        return self.mirror.pending(session) if self._is_bound(session) else []

    def _standing(self, session: str) -> list[Binding]:
        """Where the session's files are, and why some are left alone now; changes nothing."""
        return self.mirror.standing(session) if self._is_bound(session) else []

    def ahead(self, session: str) -> Ahead | None:
        """What is done for the session's files in the transaction of an event; see `Mirror`."""
        return None if self._mirror is None else self._mirror.ahead(session)

    def reflect(
        self, session: str, kind: str = "", *, force: bool = False, ahead: Ahead | None = None
    ) -> None:
        """Bring the session's files up to what was recorded; a failure is told, not raised."""

        def write() -> None:
            self._tell(self.mirror.write(session, kind=kind, force=force, ahead=ahead))

        if self._is_bound(session):
            self.afterwards(write)

    def _tell(self, lines: Lines) -> None:
        for line in lines:
            self.say(line)

    # -- sessions ------------------------------------------------------------------------------

    def start(
        self,
        goal: str,
        *,
        mode: str = "default",
        id: str = "",
        from_session: str = "",
        layouts: Sequence[str] = (),
        workflow: str = "",
        target: str = "",
        pushback: str = "",
        key: str = "",
    ) -> Session:
        """Begin a session and make it the current one of this folder.

        `layouts` are the forms in which its files are kept here too, as `craft` or, with an id
        of your choice, `ai-session:login-2026-01-31`. A `workflow`, by its name or its file,
        gives it a plan, kept as it is now; `target` is what it is carried out on, inside the
        project. An open session of the same workflow on the same target is resumed instead,
        unless an `id` is given; `taken_up` tells. `pushback` is how hard the author of an essay
        wants to be questioned: full, unless it is light or minimal.
        """
        from holdfast.beginning import Wanted, begin

        wanted = Wanted(
            goal=goal,
            mode=mode,
            id=id,
            from_session=from_session,
            layouts=layouts,
            workflow=workflow,
            target=target,
            pushback=pushback,
            key=key,
        )
        return begin(self, wanted)

    def session(self, text: str) -> Session:
        """The session an id means; it may be shortened while it is unique."""
        from holdfast.session import Session

        return Session(self, find_session(self.store, text))

    def current(self, *, open_only: bool = False) -> Session:
        """The session meant here: asked for, above this process, or chosen in this folder.

        Raises `NoSession` with the open ones when that would be a guess.
        """
        from holdfast.session import Session

        return Session(self, self._current(open_only=open_only))

    def _current(self, *, open_only: bool = False) -> str:
        if self.settings.session:
            return find_session(self.store, self.settings.session)
        try:
            return self.workspace.require(open_only=open_only)
        except NoSession:
            # Whoever edited its files may have opened it again, as `status` shows it.
            if not (over := self.workspace.current()) or not self._is_bound(over):
                raise
        self.take_up(over)
        return self.workspace.require(open_only=open_only)

    def status(self) -> dict[str, Any]:
        """Where the session meant here stands, without loading what else a session can do."""
        return look(self, self._current())

    def to_pick_up(self, text: str = "", *, open_only: bool = True) -> Session:
        """The session named, else the current one, else the only open one of this project.

        If none was begun here, one that another device of the user began in this project will do.
        Raises `NoSession` with the open ones when none or several can be meant.
        """
        if text:
            return self.session(text)
        try:
            return self.current(open_only=open_only)
        except NoSession as error:
            if self.settings.session:
                raise
            return self.session(self.workspace.only_open() or self._from_elsewhere(error))

    def _from_elsewhere(self, error: NoSession) -> str:
        if not self.store.catalogue(where={"archived": 0, "project": None}, limit=1):
            raise error
        from holdfast.arrival import meant_here

        return meant_here(self, error)

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
        held: dict[object, Holders] = {}
        for holder, word in self.workspace.holders(""):
            held.setdefault(holder.session, []).append((holder, word))
        shown = [listing(row, held.get(row["id"], [])) for row in rows]
        # One that came from elsewhere, and was not taken up here yet, says where it was begun.
        return [
            one | {"project": names[row["project"]] or one["project"]}
            for one, row in zip(shown, rows, strict=True)
        ]

    def _project_name(self, number: object) -> str:
        return self.store.local.project_name(number) if isinstance(number, int) else ""

    def use(self, text: str) -> Session:
        """Make a session the current one of this folder."""
        chosen = self.session(text)
        self.workspace.choose(chosen.id)
        return chosen

    def search(self, words: str, *, limit: int = 20) -> Listings:
        """Where all the words occur in goals, notes, messages, decisions, errors and titles."""
        from holdfast.derived import searchable

        found = self.store.search(words, text_of=searchable, limit=limit)
        about = {id: self._about(id) for id in {str(one["session"]) for one in found}}
        return [{**one, **about[str(one["session"])]} for one in found]

    def goal(self, session: str) -> str:
        """What a session is about, as lists show it; empty for one that is not there."""
        return str(self._about(session)["goal"])

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
        """The branch and commit that are checked out here, empty where there are none.

        The branch as it is kept, without secrets: only so it can be compared with what was.
        """
        from holdfast.place import head

        branch, commit = head(self.workspace.tree)
        return self.journal.redacted(terminal(branch or "")), commit or ""

    # -- what hooks of agents said -------------------------------------------------------------

    def waiting(self) -> int:
        """How many payloads of hooks wait to be taken up."""
        try:
            return len(os.listdir(os.path.join(self.store.home, files.SPOOL, files.WAITING)))
        except OSError:
            return 0

    def ingest(
        self, *, limit: int | None = None, seconds: float | None = None, wait: float = 0.0
    ) -> Ingested:
        """Record what hooks of agents said: at most so many payloads, for about so long.

        Where another process is at it, wait for it no longer than `wait` seconds.
        """
        from holdfast.ingest import ingest

        return ingest(self, limit=limit, seconds=seconds, wait=wait)

    def ingest_discard(self) -> tuple[int, int]:
        """Delete, for good, what hooks said and nobody understood: how many, and bytes."""
        from holdfast.hooks.spool import Spool

        return Spool(self.store.home).erase_aside()

    def catch_up(self) -> None:
        """Before something is recorded: what was said earlier, as far as that is quick."""
        if self.waiting():
            self.afterwards(lambda: self.ingest(seconds=_QUICK))

    def hook(self, agent: str, payload: str) -> str:
        """What an agent is told when a conversation begins, by the payload of that hook."""
        from holdfast.greeting import greet

        return greet(self, agent, payload)

    def hook_set_up(self) -> None:
        """Write the script that hooks run into the home; `install` does it too."""
        from holdfast.hooks import install

        install.write_script(self._ground())

    # -- the whole home ------------------------------------------------------------------------

    def verify(self) -> Reports:
        """Verify every session and the store; the reports of what is not sound come first.

        The report of the store itself names no session, and is there only if it is not sound.
        """
        # First what must be there, then what is: sessions begin, and are forgotten, meanwhile.
        known = {session for session, _ in self.store.remembered()}
        listed = self.store.catalogue()
        forgotten = self.store.catalogue(where={"forgotten": 1})
        shown = [*listed, *(row for row in forgotten if not row["sound"])]
        reports = [self.journal.verify(str(row["id"])) for row in shown]
        whole = self._verify_store(known - {str(row["id"]) for row in [*shown, *forgotten]})
        return sorted([*whole, *reports], key=lambda report: report.ok)

    def _verify_store(self, gone: set[str]) -> Reports:
        from holdfast.soundness import Finding, Report

        told = "was acknowledged here and is not there any more"
        lost = [f"session {id} {told}" for id in sorted(gone)]
        flaws = [flaw.what for flaw in self.store.flaws()]
        found = [Finding("store", what) for what in [*self.store.check(), *flaws, *lost]]
        return [Report("", 0, found)] if found else []

    def doctor(self, *, fix: bool = False, deep: bool = False) -> Mended:
        """What is wrong with this home, in `left`, the worst first. Changes nothing.

        With `fix` what can be mended is mended first; nothing that was kept is deleted.
        """
        from holdfast import doctor, remedy
        from holdfast.hooks import survey

        parts = (self.settings, self.store, self.journal)
        if not fix:
            done: Lines = []
            lost: Lines = []
            left = doctor.examine(*parts, clock=self.clock, deep=deep)
        else:
            done, lost, left = doctor.mend(*parts, clock=self.clock, deep=deep)
            done += [] if remedy.blocked(left) else remedy.mend(self)
        agents = survey.advice(self._ground())
        return doctor.Mended(done, lost, doctor.by_severity([*left, *remedy.advice(self), *agents]))

    def install(
        self, agent: str, scope: str = "user", *, tools: bool = True, dry_run: bool = False
    ) -> AgentPlan:
        """Make an agent record its sessions here; `dry_run` only says what would change.

        `scope` is "user" (all projects) or "project" (this one); `tools` adds the MCP server.
        """
        from holdfast.hooks import install

        return install.install(agent, scope, self._ground(), tools=tools, dry_run=dry_run)

    def uninstall(self, agent: str, scope: str = "user", *, dry_run: bool = False) -> AgentPlan:
        """Take out of an agent what `install` put there; what was recorded stays."""
        from holdfast.hooks import install

        return install.uninstall(agent, scope, self._ground(), dry_run=dry_run)

    def installed(self) -> AgentPlans:
        """Where we are installed, each as the plan that would take us out."""
        from holdfast.hooks import install

        return install.installed(self._ground())

    def _ground(self) -> Ground:
        from holdfast.hooks.install import ground_here

        return ground_here(self.settings.home, self.workspace.tree.root)

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
        from holdfast import backup, pack, restore

        outcome = restore.together(
            restore.absorb(self.journal, part, limits=pack.OWN, partial=True)
            for part in backup.newest(path)
        )
        self._reflect_all(outcome)
        return outcome

    def import_(self, path: str) -> Outcome:
        """Merge a pack of someone else into this home: all of it, or nothing.

        Sessions that are new here belong to the project of this folder. A sealed one is opened
        by the keys of this device and its circle, or by its passphrase.
        """
        from holdfast import restore, sealed_export

        outcome = restore.absorb(self.journal, sealed_export.opened(self, path), foreign=True)
        taken = [one.session for one in outcome.sessions if one.new]
        if taken:
            self.afterwards(lambda: self.workspace.claim(taken))
        self._reflect_all(outcome)
        return outcome

    def _reflect_all(self, outcome: Outcome) -> None:
        """Bring the files of sessions that gained something up to it."""
        for taken in outcome.sessions:
            if taken.new:
                self.reflect(taken.session)

    def move(
        self,
        to: str = "",
        *,
        dry_run: bool = False,
        unseal: bool = False,
        on_part: OnPart | None = None,
    ) -> Moved:
        """Copy this store into another, compare them, and seal this one with a pointer to it.

        `to` is a URL: `postgresql://…`, `sqlite:PATH`, or `sqlite:` for the database of the home.
        A move that was interrupted is finished by the same call; `unseal` takes it back.
        `on_part` is told what is being done, how much of it is done, and of how much.
        """
        from holdfast import move

        self.close()
        source = self._open_store(self.settings.store, sealed=True)
        target = self._open_store(to, sealed=True) if to else source
        try:
            if unseal:
                return move.take_back(source)
            return move.move(source, target, dry_run=dry_run, on_part=on_part)
        finally:
            source.close()
            target.close()

    def keep_house(self, *kinds: str) -> None:
        """After events of these kinds were recorded: a backup and a sync, if they are due."""
        self.backup_if_due()
        self.sync_if_due(*kinds)

    def backup_if_due(self) -> None:
        """Once an hour (a setting), pack what is new beside the database; servers do it better."""
        every = self.settings.backup_every_minutes * self.store.capabilities.files
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
            self.say(f"no backup was made: {error}")

    def afterwards(self, act: Callable[[], object]) -> None:
        """Keep house after an event is durable: what fails now must not look like its failure."""
        try:
            act()
        except HoldfastError as error:
            self.say(f"recorded, but: {error}")

    def say(self, line: str) -> None:
        """Tell the caller something that is no error of its call."""
        if self._notice is not None:
            self._notice(line)

    def quoted(self, text: str, label: str = "") -> str:
        """A text for a model, fenced as data by a code that it cannot hold."""
        from holdfast.text import prompt

        return prompt(text, self.store.secret(), label=label)

    # -- presence ------------------------------------------------------------------------------

    def appear(self, session: str) -> None:
        """Register this process as working on the session, and tell about the others."""
        if self._one_shot:
            return
        self._notice_fork()
        if session in self._held:
            return self._look_around(session)
        holder = self.workspace.hold(session, self.journal.actor(self.actor))
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

    def introduce(self, session: str, agent: str, doing: str, pid: int) -> None:
        """Register the process of an agent, so that its death will be noticed."""
        holder = self.workspace.hold(session, f"agent {agent}", agent=agent, doing=doing, pid=pid)
        if holder is not None:
            self._introduced.add(holder.process)

    def others(self, session: str) -> Holders:
        """Who else has not let go of the session: holders with "alive", "dead", "unknown".

        Not this process, and none that it registered itself.
        """
        from holdfast.process import same_hands

        held = self.workspace.holders(session)
        mine = {holder.process for holder in self._held.values()} | self._introduced
        mine |= same_hands([holder.process for holder, _ in held]) if self._hand else set()
        return self.workspace.distinct([(h, w) for h, w in held if h.process not in mine])

    def own_processes(self) -> set[str]:
        """The processes that are this one, as they hold sessions."""
        return {holder.process for holder in self._held.values()}

    def hold_while(self, session: str, doing: str) -> Holder | None:
        """Be a holder of the session, one that says what it does, until `let_go_of`."""
        return self.workspace.hold(session, self.journal.actor(self.actor), doing=doing)

    def let_go_of(self, holder: Holder | None) -> None:
        """The work is done; whoever held the session before still does."""
        before = self._held.get(holder.session) if holder else None
        if before is not None:
            self.afterwards(lambda: self.store.local.hold(before))
        elif holder is not None:
            self.afterwards(lambda: self.workspace.let_go([holder]))

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
            self.say(f"could not let go of the session: {error}")
        if self._store is not None:
            self._store.close()
        self._store = self._journal = self._workspace = self._mirror = None

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
