"""Files that other programs read and write too: session files in the five formats."""

from __future__ import annotations

import os
from typing import NamedTuple

from forestay.api.status import current_session
from forestay.api.values import ArchivedSession, FeatureReport
from forestay.journal.topics import HomeTopic, collect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.api.session import Session
    from forestay.base.words import Mode
    from forestay.formats.ai_session.contract import Verdict
    from forestay.journal.context import Context
    from forestay.journal.topics import OnEach
    from forestay.mirror.adopt import Adopted
    from forestay.mirror.ai_session_cleanup import Put, Wanted
    from forestay.mirror.aiterm import Live
    from forestay.mirror.check_files import FileReport
    from forestay.mirror.contract_file import Contract
    from forestay.mirror.convert import Converted
    from forestay.mirror.recover import Case
    from forestay.model.event import Event
    from forestay.store.machine.bindings import Binding

    Verdicts = dict[str, Verdict]


class Files(HomeTopic):
    """Session files of other programs: check, adopt, convert, repair."""

    @property
    def contract(self) -> ContractFiles:
        """The session-state contract of a folder."""
        return ContractFiles(self._context)

    @property
    def orchestrator(self) -> Orchestrator:
        """The project's one current orchestrator session."""
        return Orchestrator(self._context)

    def check(
        self,
        path: str,
        *,
        strict: bool = False,
        workflows: str = "",
        on_report: OnEach[FileReport] = None,
    ) -> list[FileReport]:
        """Return what is wrong with the session files at a path, in any of the five formats.

        `workflows` is a folder of workflow definitions, which decide the number of phases;
        `on_report` is called with each report as soon as it is made.
        """
        from forestay.mirror import check_files, discover
        from forestay.mirror.check_files import Surroundings
        from forestay.mirror.session_files import mirror_of

        around = Surroundings(mirror_of(self._context).where, workflows)
        clean = self._context.journal.redact
        found = discover.walk(path, parts=True)
        made = (check_files.check(one, around.of(one), strict=strict, clean=clean) for one in found)
        return collect(made, on_report)

    def adopt(
        self,
        path: str = "",
        *,
        dry_run: bool = False,
        templates: bool = False,
        workflows: str = "",
        on_adopted: OnEach[Adopted] = None,
    ) -> list[Adopted]:
        """Adopt the sessions in the files at a path into this home; known ones are skipped.

        Without a path, the files of this project and the user's essays are used. `on_adopted` is
        called with the result for each as soon as it is recorded.
        """
        from forestay.mirror import adopt
        from forestay.mirror.discover import own_folders

        also = () if path else own_folders(self._context.settings)
        place = path or self._context.workspace.tree.root
        options = adopt.AdoptOptions(dry_run=dry_run, templates=templates, workflows=workflows)
        return collect(adopt.adopt(self._context, place, options, also=also), on_adopted)

    def unadopted(self) -> list[str]:
        """Return the paths in this project of session files that are not adopted yet."""
        from forestay.mirror.quick_scan import unadopted_here

        return unadopted_here(self._context)

    def convert(
        self, path: str, to: str, out: str = "", *, native_id: str = "", workflows: str = ""
    ) -> Converted:
        """Write the session at a path in another format, next to it; return what was written."""
        from forestay.mirror import convert
        from forestay.mirror.session_files import mirror_of

        where = mirror_of(self._context).where("")
        made = convert.convert(path, to, where, native=native_id, workflows=workflows)
        made.lost = [self._context.journal.redact(line) for line in made.lost]
        made.written = convert.write(made, out or convert.default_target(path, made))
        return made

    def report(self, feature: str = "", root: str = "") -> list[FeatureReport]:
        """Return figures about one session of the ai-session format, or about all in a folder."""
        from forestay.mirror import ai_session_cleanup

        ai_session_cleanup.require_folder(root)
        root = _ai_session_root(self._context, root)
        return list(
            map(FeatureReport, ai_session_cleanup.list_reports(self._context, root, feature))
        )

    def live(self, folder: str = "", *, prune: bool = False) -> list[Live]:
        """Return the live sessions in aiterm's files; `prune` archives those that died."""
        from forestay.base.config import user_home
        from forestay.mirror import aiterm

        folder = folder or os.path.join(user_home(), ".claude", "sessions")
        clean = self._context.journal.redact
        if prune:
            return aiterm.prune(folder, self._context.clock, clean)
        return aiterm.list_live(folder, clean)

    def cleanup(
        self, path: str = "", wanted: Wanted | None = None, *, dry_run: bool = False
    ) -> list[Put]:
        """Archive finished sessions of the ai-session format; nothing is deleted."""
        from forestay.mirror import ai_session_cleanup

        wanted = wanted or ai_session_cleanup.Wanted()
        ai_session_cleanup.require_folder(path)
        return ai_session_cleanup.cleanup(
            self._context, _ai_session_root(self._context, path), wanted, dry_run=dry_run
        )

    def recover(
        self, path: str, *, out: str = "", fix: bool = False, choose: str = ""
    ) -> Case | None:
        """Return what can be restored from damaged session files; None if they can be read.

        Nothing is written without `out` (to another place) or `fix` (in place; the damaged bytes
        are set aside). `choose` is the id of one of the choices in the returned case's question.
        """
        from forestay.mirror import recover

        case = recover.examine(self._context, path, choose=choose)
        if case is None or not (out or fix):
            return case
        return recover.write(case, out) if out else recover.fix(self._context, case)


def _ai_session_root(context: Context, given: str) -> str:
    from forestay.mirror.session_files import mirror_of

    return os.path.abspath(given or mirror_of(context).root_of("ai-session"))


class ContractFiles(HomeTopic):
    """The session-state contract of a folder, and the agents that acknowledged it."""

    def show(self, root: str = "", spec: str = "") -> Contract:
        """Return the contract of a folder: the agents that acknowledged it, and its validity."""
        from forestay.mirror.contract_file import Contract

        return Contract(_ai_session_root(self._context, root), spec, self._context.clock)

    def ack(self, agent: str, root: str = "", spec: str = "") -> str:
        """Record that an agent acknowledges the contract, also in the current session if any."""
        from forestay.journal.recorder import Recorder
        from forestay.model.event import ContractAcknowledged
        from forestay.workspace.current_session import find_session

        contract = self.show(root, spec)
        path = contract.acknowledge(agent)
        with_session = self._context.settings.session or self._context.workspace.current()
        if with_session:
            session = find_session(self._context.store, with_session)
            Recorder(self._context, session).record(
                ContractAcknowledged(
                    agent=agent.strip(), version=contract.version, checksum=contract.checksum
                )
            )
        return path

    def verify(self, agent: str = "", root: str = "", spec: str = "") -> Verdicts:
        """Return whether an agent, or each known one, has acknowledged the present contract."""
        contract = self.show(root, spec)
        name = agent.strip()
        return {name: contract.verify(name)} if name else contract.verify_all()


class NewSession(NamedTuple):
    """A new orchestrator session, and the archived file of the previous one ("" if none)."""

    session: Session
    archive: str


class Orchestrator(HomeTopic):
    """The one current orchestrator session of a project, and the archive of earlier ones."""

    def current(self) -> Session:
        """Return the project's current orchestrator session; adopt it if needed.

        Raises `NoSession` if there is none, `Outdated` for a version that cannot be resumed, and
        `Unusable`, with the choices, for a file that cannot be read.
        """
        from forestay.api.session import Session
        from forestay.mirror import orchestrator_session

        return Session(self._context, orchestrator_session.adopt_current(self._context))

    def history(self, which: str = "", *, limit: int = 10) -> list[ArchivedSession]:
        """Return archived orchestrator sessions, newest first; with `which` only that one."""
        from forestay.mirror import orchestrator_session

        if which:
            return [ArchivedSession({**orchestrator_session.find_archived(self._context, which)})]
        rows = orchestrator_session.history(self._context, limit)
        return [ArchivedSession({**row}) for row in rows]

    def new(self, goal: str, *, mode: Mode = "default") -> NewSession:
        """Start another orchestrator session; the file of the previous one is archived."""
        from forestay.api import start
        from forestay.formats.orchestrator.schema import ID as ORCHESTRATOR
        from forestay.mirror import orchestrator_session
        from forestay.mirror.session_files import mirror_of

        start.clean_goal(goal, mode)
        with mirror_of(self._context).hold_projects(orchestrator_session.folder(self._context)):
            archived = orchestrator_session.make_room(self._context)
            wanted = start.StartOptions(goal=goal, mode=mode, formats=[ORCHESTRATOR])
            return NewSession(start.start_session(self._context, wanted), archived)

    def abort(self, *, because: str = "", key: str = "") -> Event:
        """Abort the current session permanently; its state stays in the archive."""
        return self.current().lifecycle.abort(because=because, key=key)

    def save(self) -> list[Binding]:
        """Write the files of the orchestrator session now; return where they are.

        It is the current session if that has such files, else the project's orchestrator session.
        """
        from forestay.mirror import orchestrator_session
        from forestay.mirror.session_files import SessionFiles, write_files

        session = orchestrator_session.session_with_file(
            self._context, lambda: current_session(self._context)
        )
        write_files(self._context, session, force=True)
        return SessionFiles.of(self._context).inspect_bindings(session)
