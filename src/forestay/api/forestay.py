"""A home, seen from a folder: the way in for every surface.

`open` gives a `Forestay`; it starts, finds and lists sessions, and looks after the home as a
whole. What happens in one session is in `session`. Nothing is created on disk until something
is recorded, and the parts that cost start-up time are loaded when they are first needed.
"""

from __future__ import annotations

import os

from forestay.api.files import FileMethods
from forestay.api.remotes import TravelVerbs
from forestay.api.status import count_waiting, list_sessions, look, project_name
from forestay.base import files
from forestay.base.clock import Clock
from forestay.base.config import Settings
from forestay.base.config import load as load_settings
from forestay.errors import NoSession
from forestay.journal.context import Context
from forestay.store.machine.holders import Holder
from forestay.workspace.current_session import Workspace, find_session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from forestay.agents.ingest import Ingested
    from forestay.agents.install import Places
    from forestay.agents.install import Plan as AgentPlan
    from forestay.api.session import Session
    from forestay.health.doctor import DoctorReport
    from forestay.journal.backup import BackupResult
    from forestay.journal.context import Follower
    from forestay.journal.journal import Journal
    from forestay.journal.move import MoveResult, OnPart
    from forestay.journal.restore import ImportResult
    from forestay.journal.verify import Report
    from forestay.mirror.mirror import Mirror
    from forestay.mirror.session_files import SessionFiles
    from forestay.store.port import Store

    Notice = Callable[[str], None]
    # `list` is a verb of this class, so types that name the builtin are spelled here.
    Listings = list[dict[str, Any]]
    Reports = list[Report]
    Lines = list[str]
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
) -> Forestay:
    """Open a home (the user's own unless given) as seen from a folder.

    Nothing is created until something is recorded. `on_notice` is called with one line when
    another process is found at work on the same session. With `trust_env=False` the
    environment is not read; the home's config file is.
    """
    chosen = {"store": store, "session": session}
    settings = load_settings(home, overrides=chosen, trust_env=trust_env)
    return Forestay(settings, cwd=cwd, actor=actor, clock=clock, on_notice=on_notice)


_QUICK = 0.05
"""How long a command that records something may first take up what hooks said, in seconds."""


class Forestay(FileMethods, TravelVerbs):
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
        self.context = Context(
            settings,
            cwd=cwd,
            actor=actor,
            clock=clock,
            on_notice=on_notice,
            one_shot=one_shot,
            is_helper=hand,
            followers=lambda context: _make_followers(context, before_mirror),
        )

    # -- parts, made when first needed ---------------------------------------------------------

    @property
    def settings(self) -> Settings:
        return self.context.settings

    @property
    def clock(self) -> Clock:
        return self.context.clock

    @property
    def actor(self) -> str:
        return self.context.actor

    @property
    def store(self) -> Store:
        return self.context.store

    @property
    def journal(self) -> Journal:
        return self.context.journal

    @property
    def workspace(self) -> Workspace:
        return self.context.workspace

    @property
    def folder(self) -> str:
        """The folder that this is seen from; the tree is around it."""
        return self.context.folder

    @property
    def mirror(self) -> Mirror:
        return self._files.mirror

    @property
    def _files(self) -> SessionFiles:
        from forestay.mirror.session_files import SessionFiles  # start-up

        return SessionFiles.of(self.context)

    def seen_from(self, folder: str, actor: str) -> Forestay:
        """Return the same home seen from another folder, for another actor; it ends with this."""
        other = Forestay(self.settings)
        other.context = self.context.seen_from(folder, actor)
        return other

    # -- files of sessions ---------------------------------------------------------------------

    def absorb_file_edits(self, session: str) -> None:
        """Record what others wrote into the session's files."""
        self._files.absorb(session)

    def write_files(self, session: str, *, force: bool = False) -> None:
        """Write what was recorded into the session's files; a failure is reported, not raised."""
        self._files.write(session, force=force)

    def is_idle(self, session: str) -> bool:
        """Whether nothing happened for so long that it may matter; `Session.expiry` decides."""
        from forestay.api.followers import is_idle  # start-up

        return is_idle(self.context, session)

    def may_expire(self, session: str) -> bool:
        """Whether inactivity may matter for a session without a workflow: because of the settings,
        or because it has files, which may be those of an essay."""
        limits = self.settings.pause_hours, self.settings.abandon_hours
        return any(limits) or self.store.machine.is_bound(session)

    # -- sessions ------------------------------------------------------------------------------

    def start(
        self,
        goal: str,
        *,
        mode: str = "default",
        id: str = "",
        from_session: str = "",
        formats: Sequence[str] = (),
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
        from forestay.api.start import Wanted, begin

        wanted = Wanted(
            goal=goal,
            mode=mode,
            id=id,
            from_session=from_session,
            formats=formats,
            workflow=workflow,
            target=target,
            pushback=pushback,
            key=key,
        )
        return begin(self.context, wanted)

    def session(self, text: str) -> Session:
        """The session an id means; it may be shortened while it is unique."""
        from forestay.api.session import Session

        return Session(self.context, find_session(self.store, text))

    def current(self, *, open_only: bool = False) -> Session:
        """The session meant here: asked for, above this process, or chosen in this folder.

        Raises `NoSession` with the open ones when that would be a guess.
        """
        from forestay.api.session import Session

        return Session(self.context, self._current(open_only=open_only))

    def _current(self, *, open_only: bool = False) -> str:
        if self.settings.session:
            return find_session(self.store, self.settings.session)
        try:
            return self.workspace.require(open_only=open_only)
        except NoSession:
            # Whoever edited its files may have opened it again, as `status` shows it.
            if not (over := self.workspace.current()) or not self.store.machine.is_bound(over):
                raise
        self.absorb_file_edits(over)
        return self.workspace.require(open_only=open_only)

    def status(self) -> dict[str, Any]:
        """Where the session meant here stands, without loading what else a session can do."""
        return look(self.context, self._current())

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
        from forestay.sync.arrival import meant_here

        return meant_here(self.context, error)

    def list(
        self, *, all: bool = False, archived: bool = False, status: str = "", limit: int = -1
    ) -> list[dict[str, Any]]:
        """Sessions of this project, latest first; with `archived` those out of the way.

        With `all` those of every project, archived or not.
        """
        return list_sessions(self.context, all=all, archived=archived, status=status, limit=limit)

    def use(self, text: str) -> Session:
        """Make a session the current one of this folder."""
        chosen = self.session(text)
        self.workspace.choose(chosen.id)
        return chosen

    def search(self, words: str, *, limit: int = 20) -> Listings:
        """Where all the words occur in goals, notes, messages, decisions, errors and titles."""
        from forestay.journal.projections import search_text

        found = self.store.search(words, text_of=search_text, limit=limit)
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
        name = project_name(self.context, rows[0]["project"])
        return {"goal": rows[0]["goal"], "project": name}

    def init(self) -> str:
        """Mark this folder as a project that is recognised wherever it goes."""
        return self.workspace.mark()

    def git(self) -> tuple[str, str]:
        """The branch and commit that are checked out here, empty where there are none.

        The branch as it is kept, without secrets: only so it can be compared with what was.
        """
        return self.context.checkout()

    # -- what hooks of agents said -------------------------------------------------------------

    def waiting(self) -> int:
        """How many payloads of hooks wait to be taken up."""
        return count_waiting(self.context)

    def ingest(
        self, *, limit: int | None = None, seconds: float | None = None, wait: float = 0.0
    ) -> Ingested:
        """Record what hooks of agents said: at most so many payloads, for about so long.

        Where another process is at it, wait for it no longer than `wait` seconds.
        """
        from forestay.agents.ingest import ingest

        return ingest(self.context, limit=limit, seconds=seconds, wait=wait)

    def ingest_discard(self) -> tuple[int, int]:
        """Delete, for good, what hooks said and nobody understood: how many, and bytes."""
        from forestay.agents.spool import Spool

        return Spool(self.store.home).erase_aside()

    def catch_up(self) -> None:
        """Before something is recorded: what was said earlier, as far as that is quick."""
        if self.waiting():
            self.best_effort(lambda: self.ingest(seconds=_QUICK))

    def hook(self, agent: str, payload: str) -> str:
        """What an agent is told when a conversation begins, by the payload of that hook."""
        from forestay.api.session_start import greet

        return greet(self.context, agent, payload)

    def hook_set_up(self) -> None:
        """Write the script that hooks run into the home; `install` does it too."""
        from forestay.agents import install

        install.write_script(self._places())

    # -- the whole home ------------------------------------------------------------------------

    def verify(self) -> Reports:
        """Verify every session and the store; the reports of what is not sound come first.

        The report of the store itself names no session, and is there only if it is not sound.
        """
        # First what must be there, then what is: sessions begin, and are forgotten, meanwhile.
        known = {session for session, _ in self.store.maintenance.remembered()}
        listed = self.store.catalogue()
        forgotten = self.store.catalogue(where={"forgotten": 1})
        shown = [*listed, *(row for row in forgotten if not row["sound"])]
        reports = [self.journal.verify(str(row["id"])) for row in shown]
        whole = self._verify_store(known - {str(row["id"]) for row in [*shown, *forgotten]})
        return sorted([*whole, *reports], key=lambda report: report.ok)

    def _verify_store(self, gone: set[str]) -> Reports:
        from forestay.base.findings import Finding
        from forestay.journal.verify import Report

        told = "was acknowledged here and is not there any more"
        lost = [f"session {id} {told}" for id in sorted(gone)]
        flaws = [flaw.what for flaw in self.store.maintenance.flaws()]
        found = [
            Finding("store", "error", what)
            for what in [*self.store.maintenance.check(), *flaws, *lost]
        ]
        return [Report("", 0, found)] if found else []

    def doctor(self, *, fix: bool = False, deep: bool = False) -> DoctorReport:
        """What is wrong with this home, in `left`, the worst first. Changes nothing.

        With `fix` what can be mended is mended first; nothing that was kept is deleted.
        """
        from forestay.agents import install_check
        from forestay.health import doctor, format_checks

        parts = (self.settings, self.store, self.journal)
        if not fix:
            done: Lines = []
            lost: Lines = []
            left = doctor.examine(*parts, clock=self.clock, deep=deep)
        else:
            done, lost, left = doctor.fix(*parts, clock=self.clock, deep=deep)
            done += [] if format_checks.is_blocked(left) else format_checks.fix(self.context)
        agents = install_check.advice(self._places())
        return doctor.DoctorReport(
            done, lost, doctor.by_severity([*left, *format_checks.examine(self.context), *agents])
        )

    def install(
        self, agent: str, scope: str = "user", *, tools: bool = True, dry_run: bool = False
    ) -> AgentPlan:
        """Make an agent record its sessions here; `dry_run` only says what would change.

        `scope` is "user" (all projects) or "project" (this one); `tools` adds the MCP server.
        """
        from forestay.agents import install

        return install.install(agent, scope, self._places(), tools=tools, dry_run=dry_run)

    def uninstall(self, agent: str, scope: str = "user", *, dry_run: bool = False) -> AgentPlan:
        """Take out of an agent what `install` put there; what was recorded stays."""
        from forestay.agents import install

        return install.uninstall(agent, scope, self._places(), dry_run=dry_run)

    def installed(self) -> AgentPlans:
        """Where we are installed, each as the plan that would take us out."""
        from forestay.agents import install

        return install.installed(self._places())

    def _places(self) -> Places:
        from forestay.agents.install import places_here

        return places_here(self.settings.home, self.workspace.tree.root)

    def config(
        self, key: str = "", value: object = None, *, unset: bool = False
    ) -> dict[str, tuple[object, str]]:
        """Settings as name → (value, where it comes from): all of them, or one.

        With a value it is set in this home's file, with `unset` taken out of it; either holds
        for whoever opens the home next.
        """
        from forestay.base import config

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
        from forestay.journal.backup import own_backups

        return own_backups(self.store.home)

    @property
    def backup_folder(self) -> str:
        return os.path.join(self.store.home, files.BACKUPS)

    def backup(self, folder: str = "") -> BackupResult:
        """Write everything into one pack, in the home's own backups or in a folder of yours."""
        from forestay.journal import backup

        target = os.path.abspath(folder) if folder else self.backup_folder
        keep = None if folder else self.settings.backup_keep
        return backup.save(self.store, target, clock=self.clock, keep=keep)

    def restore(self, path: str) -> ImportResult:
        """Merge a backup into this home; nothing that is here is replaced.

        A folder of backups means its newest one. What cannot be taken is left out and told.
        A session that is new here belongs to no project until it is resumed or chosen in one.
        """
        from forestay.journal import backup, pack, restore

        outcome = restore.combine_results(
            restore.absorb(self.journal, part, limits=pack.OWN, partial=True)
            for part in backup.newest_packs(path)
        )
        self._write_merged(outcome)
        return outcome

    def import_(self, path: str) -> ImportResult:
        """Merge a pack of someone else into this home: all of it, or nothing.

        Sessions that are new here belong to the project of this folder. A sealed one is opened
        by the keys of this device and its circle, or by its passphrase.
        """
        from forestay.journal import restore
        from forestay.sync import sealed_export

        outcome = restore.absorb(
            self.journal, sealed_export.opened(self.context, path), foreign=True
        )
        taken = [one.session for one in outcome.sessions if one.new]
        if taken:
            self.best_effort(lambda: self.workspace.claim(taken))
        self._write_merged(outcome)
        return outcome

    def _write_merged(self, outcome: ImportResult) -> None:
        """Write the files of sessions that gained events."""
        for merged in outcome.sessions:
            if merged.new:
                self.write_files(merged.session)

    def move(
        self,
        to: str = "",
        *,
        dry_run: bool = False,
        unseal: bool = False,
        on_part: OnPart | None = None,
    ) -> MoveResult:
        """Copy this store into another, compare them, and seal this one with a pointer to it.

        `to` is a URL: `postgresql://…`, `sqlite:PATH`, or `sqlite:` for the database of the home.
        A move that was interrupted is finished by the same call; `unseal` takes it back.
        `on_part` is told what is being done, how much of it is done, and of how much.
        """
        from forestay.journal import move

        self.close()
        source = self.context.open_store(self.settings.store, sealed=True)
        target = self.context.open_store(to, sealed=True) if to else source
        try:
            if unseal:
                return move.break_seal(source)
            return move.move(source, target, dry_run=dry_run, on_part=on_part)
        finally:
            source.close()
            target.close()

    def best_effort(self, act: Callable[[], object]) -> None:
        """Do something after an event is durable: a failure is reported, not raised."""
        self.context.best_effort(act)

    def notify(self, line: str) -> None:
        """Report something to the caller that is no error of its call."""
        self.context.notify(line)

    def quoted(self, text: str, label: str = "") -> str:
        """A text for a model, fenced as data by a code that it cannot hold."""
        from forestay.base.text import prompt

        return prompt(text, self.store.machine.secret(), label=label)

    def others(self, session: str) -> Holders:
        """Return the other holders of the session, each with "alive", "dead" or "unknown".

        Neither this process nor any that it registered is among them.
        """
        from forestay.journal.presence import Presence  # start-up

        return Presence.of(self.context).others(session)

    def close(self) -> None:
        """Release every session and close the store. May be called twice."""
        self.context.close()

    def __enter__(self) -> Forestay:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _make_followers(
    context: Context, before_mirror: Callable[[], None] | None
) -> Sequence[Follower]:
    from forestay.api.followers import make_followers  # start-up

    return make_followers(context, before_mirror=before_mirror)
