"""A home, seen from a folder: the entry point of the library.

`open` returns a `Forestay`; it starts, finds and lists sessions. What concerns the home as a whole
is in its topics, such as `forestay.remotes`. Nothing is created on disk until something is
recorded, and parts that cost start-up time are loaded when they are first used.
"""

from __future__ import annotations

import os

from forestay.api.status import current_session, list_sessions, project_name, session_status
from forestay.api.values import SearchResult, SessionListing, SessionStatus, Setting
from forestay.base.config import Settings
from forestay.base.config import load as load_settings
from forestay.errors import NoSession
from forestay.journal.context import Context
from forestay.workspace.current_session import find_session

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Sequence
    from typing import Any

    from forestay.api.agents import AgentSetup
    from forestay.api.backups import Backups
    from forestay.api.devices import Devices, Shares
    from forestay.api.files import Files
    from forestay.api.remotes import Remotes
    from forestay.api.session import Session
    from forestay.api.workflows import Essays, Workflows
    from forestay.base.clock import Clock
    from forestay.base.words import Mode, Pushback, Status
    from forestay.health.doctor import DoctorReport
    from forestay.journal.context import Follower
    from forestay.journal.verify import Report

    Notice = Callable[[str], None]


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
    another process is found working on the same session. With `trust_env=False` the environment
    is not read; the home's config file is.
    """
    chosen = {"store": store, "session": session}
    settings = load_settings(home, overrides=chosen, trust_env=trust_env)
    return Forestay(settings, cwd=cwd, actor=actor, clock=clock, on_notice=on_notice)


class Forestay:
    """A home, seen from a folder. Use it in a `with`, or `close` it.

    `context` is what the engine works with: settings, clock, store, journal and workspace.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        cwd: str | None = None,
        actor: str = "user",
        clock: Clock | None = None,
        on_notice: Notice | None = None,
        one_shot: bool = False,
        is_helper: bool = False,
        before_mirror: Callable[[], None] | None = None,
    ) -> None:
        """Open a home with settings; `open` is the usual way.

        `one_shot` is a process that ends after one command, `is_helper` one that works for the
        process that started it. `before_mirror` is called before the code for session files is
        loaded, which takes a while.
        """
        self.context = Context(
            settings,
            cwd=cwd,
            actor=actor,
            clock=clock,
            on_notice=on_notice,
            one_shot=one_shot,
            is_helper=is_helper,
            followers=lambda context: _make_followers(context, before_mirror),
        )

    def close(self) -> None:
        """Release every session and close the store. A second call does nothing."""
        self.context.close()

    def __enter__(self) -> Forestay:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def seen_from(self, folder: str, actor: str) -> Forestay:
        """Return a `Forestay` for the same home, another folder and another actor.

        Both share one store, which is closed when this object is closed.
        """
        other = Forestay(self.context.settings)
        other.context = self.context.seen_from(folder, actor)
        return other

    # -- topics --------------------------------------------------------------------------------

    @property
    def files(self) -> Files:
        """Session files of other programs: check, adopt, convert, repair."""
        from forestay.api.files import Files  # start-up

        return Files(self.context)

    @property
    def workflows(self) -> Workflows:
        """Workflows that sessions can follow."""
        from forestay.api.workflows import Workflows  # start-up

        return Workflows(self.context)

    @property
    def essays(self) -> Essays:
        """The essays of the user, in every project."""
        from forestay.api.workflows import Essays  # start-up

        return Essays(self.context)

    @property
    def remotes(self) -> Remotes:
        """Storage through which sessions reach other devices: add, push, pull, sync."""
        from forestay.api.remotes import Remotes  # start-up

        return Remotes(self.context)

    @property
    def devices(self) -> Devices:
        """The devices of the user, and the key of this one."""
        from forestay.api.devices import Devices  # start-up

        return Devices(self.context)

    @property
    def shares(self) -> Shares:
        """Persons who are allowed to read or continue a session."""
        from forestay.api.devices import Shares  # start-up

        return Shares(self.context)

    @property
    def agents(self) -> AgentSetup:
        """Agents that record in this home: install, uninstall, ingest what their hooks report."""
        from forestay.api.agents import AgentSetup  # start-up

        return AgentSetup(self.context)

    @property
    def backups(self) -> Backups:
        """Backups of this home, packs from elsewhere, moving to another store."""
        from forestay.api.backups import Backups  # start-up

        return Backups(self.context)

    # -- sessions ------------------------------------------------------------------------------

    def start(
        self,
        goal: str,
        *,
        mode: Mode = "default",
        id: str = "",
        from_session: str = "",
        formats: Sequence[str] = (),
        workflow: str = "",
        target: str = "",
        pushback: Pushback | None = None,
        key: str = "",
    ) -> Session:
        """Start a session and make it the current one of this folder.

        Its files are also written into the project in `formats`: `craft` or, with an id of
        your choice, `ai-session:login-2026-01-31`. A `workflow`, by its name or its file, gives it
        a plan, which later changes of the workflow do not change; `target` is the file or folder
        of the project that it is about. An open session of the same workflow on the same target is
        resumed instead, unless an `id` is given; then `was_open` is true. `pushback` is how hard
        the author of an essay wants to be questioned: full, unless it is light or minimal.
        """
        from forestay.api.start import StartOptions, start_session  # start-up

        wanted = StartOptions(
            goal=goal,
            mode=mode,
            id=id,
            from_session=from_session,
            formats=formats,
            workflow=workflow,
            target=target,
            pushback=pushback or "",
            key=key,
        )
        return start_session(self.context, wanted)

    def session(self, text: str) -> Session:
        """Return the session with an id; the beginning of the id is enough if it is unique."""
        from forestay.api.session import Session  # start-up

        return Session(self.context, find_session(self.context.store, text))

    def current(self, *, open_only: bool = False) -> Session:
        """Return the current session: the one in the settings, else the one of a parent process,
        else the one chosen in this folder.

        Raises `NoSession`, with the open sessions, if there is none.
        """
        from forestay.api.session import Session  # start-up

        return Session(self.context, current_session(self.context, open_only=open_only))

    def to_resume(self, text: str = "", *, open_only: bool = True) -> Session:
        """Return the session named, else the current one, else the only open one of this project.

        If none was started on this device, one that another device started in this project is
        used. Raises `NoSession`, with the open sessions, if none or several are possible.
        """
        if text:
            return self.session(text)
        try:
            return self.current(open_only=open_only)
        except NoSession as error:
            if self.context.settings.session:
                raise
            return self.session(
                self.context.workspace.only_open() or self._from_another_device(error)
            )

    def _from_another_device(self, error: NoSession) -> str:
        if not self.context.store.catalogue(where={"archived": 0, "project": None}, limit=1):
            raise error
        from forestay.sync.arrival import meant_here  # start-up

        return meant_here(self.context, error)

    def use(self, text: str) -> Session:
        """Make a session the current one of this folder."""
        chosen = self.session(text)
        self.context.workspace.choose(chosen.id)
        return chosen

    def status(self) -> SessionStatus:
        """Return the status of the current session, loading less than `current().status()`."""
        return SessionStatus(session_status(self.context, current_session(self.context)))

    def list(
        self,
        *,
        all: bool = False,
        archived: bool = False,
        status: Status | None = None,
        limit: int = -1,
    ) -> builtins.list[SessionListing]:
        """Return the sessions of this project, latest first; with `archived` the archived ones.

        With `all`, those of every project, archived or not.
        """
        rows = list_sessions(
            self.context, all=all, archived=archived, status=status or "", limit=limit
        )
        return [SessionListing(row) for row in rows]

    def search(self, words: str, *, limit: int = 20) -> builtins.list[SearchResult]:
        """Return the events in which all the words occur, and goals and titles of tasks."""
        from forestay.journal.projections import search_text  # start-up

        found = self.context.store.search(words, text_of=search_text, limit=limit)
        about = {id: self._about(id) for id in {str(one["session"]) for one in found}}
        return [SearchResult({**one, **about[str(one["session"])]}) for one in found]

    def goal(self, session: str) -> str:
        """Return the goal of a session as `list` shows it; "" if the session is unknown."""
        return str(self._about(session)["goal"])

    def _about(self, session: str) -> dict[str, Any]:
        """Return the goal and the project of a session, by which users recognize it."""
        rows = self.context.store.catalogue(where={"id": session}, limit=1)
        if not rows:
            return {"goal": "", "project": ""}
        name = project_name(self.context, rows[0]["project"])
        return {"goal": rows[0]["goal"], "project": name}

    def quote(self, text: str, label: str = "") -> str:
        """Return a text for a model, fenced as data by a code that the text cannot contain."""
        from forestay.base.text import prompt  # start-up

        return prompt(text, self.context.store.machine.secret(), label=label)

    # -- the whole home ------------------------------------------------------------------------

    def init(self) -> str:
        """Mark this folder as a project that is recognized even if it is moved."""
        return self.context.workspace.mark()

    def verify(self) -> builtins.list[Report]:
        """Verify every session and the store; return reports, those with findings first.

        The report of the store itself names no session, and exists only if it has findings.
        """
        # Read the expected sessions before the existing ones: other processes start sessions.
        known = {session for session, _ in self.context.store.maintenance.remembered()}
        listed = self.context.store.catalogue()
        forgotten = self.context.store.catalogue(where={"forgotten": 1})
        shown = [*listed, *(row for row in forgotten if not row["sound"])]
        reports = [self.context.journal.verify(str(row["id"])) for row in shown]
        of_store = self._verify_store(known - {str(row["id"]) for row in [*shown, *forgotten]})
        return sorted([*of_store, *reports], key=lambda report: report.ok)

    def _verify_store(self, missing: set[str]) -> builtins.list[Report]:
        from forestay.base.findings import Finding
        from forestay.journal.verify import Report

        lost = [
            f"session {id} is missing, although this store acknowledged it"
            for id in sorted(missing)
        ]
        flaws = [flaw.what for flaw in self.context.store.maintenance.flaws()]
        found = [
            Finding("store", "error", what)
            for what in [*self.context.store.maintenance.check(), *flaws, *lost]
        ]
        return [Report("", 0, found)] if found else []

    def doctor(self, *, fix: bool = False, deep: bool = False) -> DoctorReport:
        """Return the findings about this home, in `left`, most severe first. Changes nothing.

        With `fix`, what can be repaired is repaired first; nothing that was stored is deleted.
        """
        from forestay.agents import install_check
        from forestay.agents.install import places_here
        from forestay.health import doctor, format_checks

        parts = (self.context.settings, self.context.store, self.context.journal)
        if not fix:
            done: builtins.list[str] = []
            lost: builtins.list[str] = []
            left = doctor.examine(*parts, clock=self.context.clock, deep=deep)
        else:
            done, lost, left = doctor.fix(*parts, clock=self.context.clock, deep=deep)
            done += [] if format_checks.is_blocked(left) else format_checks.fix(self.context)
        # Only now: a damaged store must be rebuilt before it can name this folder's project.
        places = places_here(self.context.settings.home, self.context.workspace.tree.root)
        agents = install_check.advice(places)
        return doctor.DoctorReport(
            done, lost, doctor.by_severity([*left, *format_checks.examine(self.context), *agents])
        )

    def config(
        self, key: str = "", value: object = None, *, unset: bool = False
    ) -> dict[str, Setting]:
        """Return settings by name, each with its value and its origin: all of them, or one.

        A `value` is written into this home's file; `unset` removes the setting from it. Either
        takes effect the next time the home is opened.
        """
        from forestay.base import config

        if key:
            config.require_known(key)
        if unset:
            config.unset(self.context.settings.home, key)
        if value is not None:
            file = os.path.join(self.context.settings.home, config.FILE_NAME)
            kept = config.set_value(self.context.settings.home, key, value)
            return {key: Setting({"value": kept, "origin": file})}
        return {
            name: Setting({"value": value, "origin": origin})
            for name, value, origin in self.context.settings.items()
            if key in ("", name)
        }


def _make_followers(
    context: Context, before_mirror: Callable[[], None] | None
) -> Sequence[Follower]:
    from forestay.api.followers import make_followers  # start-up

    return make_followers(context, before_mirror=before_mirror)
