"""The verbs on files that other programs read and write too: a home has them all.

These are sessions in the five layouts, and definitions of workflows. Each delegates to the module
that knows how: nothing of it is loaded until it is asked for.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeVar

    from forestay.agents.import_transcripts import OnPart as OnTranscript
    from forestay.agents.import_transcripts import TranscriptImport
    from forestay.api.session import Session
    from forestay.formats.ai_session.contract import Verdict
    from forestay.formats.ai_session.format import Report as FeatureReport
    from forestay.journal.context import Context
    from forestay.mirror.adopt import Adopted
    from forestay.mirror.ai_session_cleanup import Put, Wanted
    from forestay.mirror.aiterm import Live
    from forestay.mirror.check_files import FileReport
    from forestay.mirror.contract_file import Contract
    from forestay.mirror.convert import Converted
    from forestay.mirror.recover import Case
    from forestay.model.event import Event
    from forestay.model.plan import Workflow
    from forestay.plans.essay_sessions import Listed
    from forestay.plans.workflows import Checked
    from forestay.plans.workflows import Listed as ListedWorkflow
    from forestay.store.machine.bindings import Binding

    Verdicts = dict[str, Verdict]
    One = TypeVar("One")
    Heard = Callable[[One], None] | None


def _all_of(made: Iterable[One], on_one: Heard[One]) -> list[One]:
    done = []
    for one in made:
        done.append(one)
        if on_one is not None:
            on_one(one)
    return done


class FileMethods:
    """What a home can do with files of other programs; `Forestay` inherits it."""

    if TYPE_CHECKING:
        context: Context

        def _current(self) -> str: ...

    def check(
        self,
        path: str,
        *,
        strict: bool = False,
        workflows: str = "",
        on_report: Heard[FileReport] = None,
    ) -> list[FileReport]:
        """What is wrong with the session files at a path, in any of the five layouts.

        `workflows` is a folder of workflow definitions, which say how many phases there are;
        `on_report` is called with each report as soon as it is made.
        """
        from forestay.mirror import check_files, discover
        from forestay.mirror.check_files import Surroundings
        from forestay.mirror.session_files import mirror_of

        around = Surroundings(mirror_of(self.context).where, workflows)
        clean = self.context.journal.redact
        there = discover.walk(path, parts=True)
        made = (check_files.check(one, around.of(one), strict=strict, clean=clean) for one in there)
        return _all_of(made, on_report)

    def adopt(
        self,
        path: str = "",
        *,
        dry_run: bool = False,
        templates: bool = False,
        workflows: str = "",
        on_adopted: Heard[Adopted] = None,
    ) -> list[Adopted]:
        """Make the sessions in the files at a path sessions of this home; twice is once.

        Without a path these are the files of this project, and the user's essays. `on_adopted` is
        called with what became of each as soon as it is recorded.
        """
        from forestay.mirror import adopt
        from forestay.mirror.discover import own_essay_folders

        also = () if path else own_essay_folders(self.context.settings)
        place = path or self.context.workspace.tree.root
        manner = adopt.Manner(dry_run=dry_run, templates=templates, workflows=workflows)
        return _all_of(adopt.adopt(self.context, place, manner, also=also), on_adopted)

    def adopt_transcripts(
        self,
        agent: str,
        path: str = "",
        *,
        since: str = "",
        dry_run: bool = False,
        on_part: OnTranscript | None = None,
        on_adopted: Heard[TranscriptImport] = None,
    ) -> list[TranscriptImport]:
        """Make sessions of the conversations that an agent wrote down; twice is once.

        Without a path these are all that `claude-code`, `codex` or `gemini` keeps. `since` is a
        span (`36h`, `30d`, `3w`) or a day (`2026-01-31`); `on_part` is told now and then how much
        of a long one was heard, `on_adopted` what became of each.
        """
        from forestay.agents import import_transcripts

        after = import_transcripts.parse_since(since, self.context.clock.now())
        told = import_transcripts.import_transcripts(
            self.context, agent, path, since=after, dry_run=dry_run, on_part=on_part
        )
        return _all_of(told, on_adopted)

    def unadopted(self) -> list[str]:
        """Places in this project with session files of other programs that nobody took up."""
        from forestay.mirror.quick_scan import unadopted_here

        return unadopted_here(self.context)

    def convert(
        self, path: str, to: str, out: str = "", *, native_id: str = "", workflows: str = ""
    ) -> tuple[Converted, list[str]]:
        """Write the session at a path in another layout, beside it; returns what was made."""
        from forestay.mirror import convert
        from forestay.mirror.session_files import mirror_of

        where = mirror_of(self.context).where("")
        made = convert.convert(path, to, where, native=native_id, workflows=workflows)
        made.lost = [self.context.journal.redact(line) for line in made.lost]
        return made, convert.write(made, out or convert.beside(path, made))

    def layouts_report(self, feature: str = "", root: str = "") -> list[FeatureReport]:
        """How the sessions of the ai-session layout stand, in figures; one, or all of a folder."""
        from forestay.mirror import ai_session_cleanup

        ai_session_cleanup.require_folder(root)
        return ai_session_cleanup.reports(self.context, self._ai_root(root), feature)

    def layouts_live(self, folder: str = "", *, prune: bool = False) -> list[Live]:
        """Who is at work now, as aiterm's files tell; `prune` archives those that died."""
        from forestay.base.config import user_home
        from forestay.mirror import aiterm

        folder = folder or os.path.join(user_home(), ".claude", "sessions")
        clean = self.context.journal.redact
        if prune:
            return aiterm.prune(folder, self.context.clock, clean)
        return aiterm.live(folder, clean)

    def cleanup(
        self, path: str = "", wanted: Wanted | None = None, *, dry_run: bool = False
    ) -> list[Put]:
        """Put sessions of the ai-session layout away that are over; nothing is deleted."""
        from forestay.mirror import ai_session_cleanup

        wanted = wanted or ai_session_cleanup.Wanted()
        ai_session_cleanup.require_folder(path)
        return ai_session_cleanup.cleanup(
            self.context, self._ai_root(path), wanted, dry_run=dry_run
        )

    def contract_show(self, root: str = "", spec: str = "") -> Contract:
        """The session-state contract of a folder: who has acknowledged it, and whether it holds."""
        from forestay.mirror.contract_file import Contract

        return Contract(self._ai_root(root), spec, self.context.clock)

    def contract_ack(self, agent: str, root: str = "", spec: str = "") -> str:
        """An agent acknowledges the contract, in its file and in the current session if any."""
        from forestay.journal.recorder import Recorder
        from forestay.model.event import ContractAcknowledged
        from forestay.workspace.current_session import find_session

        contract = self.contract_show(root, spec)
        path = contract.acknowledge(agent)
        with_session = self.context.settings.session or self.context.workspace.current()
        if with_session:
            session = find_session(self.context.store, with_session)
            Recorder(self.context, session).record(
                ContractAcknowledged(
                    agent=agent.strip(), version=contract.version, checksum=contract.checksum
                )
            )
        return path

    def contract_verify(self, agent: str = "", root: str = "", spec: str = "") -> Verdicts:
        """Whether an agent, or every one that ever did, has acknowledged it as it is now."""
        contract = self.contract_show(root, spec)
        name = agent.strip()
        return {name: contract.verify(name)} if name else contract.verify_all()

    def recover(
        self, path: str, *, out: str = "", fix: bool = False, choose: str = ""
    ) -> Case | None:
        """What can be made of damaged session files at a path; None when they can be read.

        Nothing is written unless it is asked for: with `out` elsewhere, with `fix` in place, the
        damaged bytes kept beside. `choose` answers the question that a case may carry.
        """
        from forestay.mirror import recover

        case = recover.examine(self.context, path, choose=choose)
        if case is None or not (out or fix):
            return case
        return recover.write(case, out) if out else recover.fix(self.context, case)

    def _ai_root(self, given: str) -> str:
        from forestay.mirror.session_files import mirror_of

        return os.path.abspath(given or mirror_of(self.context).root_of("ai-session"))

    # -- what two documents call by name -------------------------------------------------------

    def orchestrator_continue(self) -> Session:
        """The project's current orchestrator session, made one of ours if it is not yet.

        `NoSession` when there is none, `Outdated` for a version that cannot be resumed, and
        `Unusable`, with the choices, for a file that cannot be read.
        """
        from forestay.api.session import Session
        from forestay.mirror import orchestrator_session

        return Session(self.context, orchestrator_session.adopt_current(self.context))

    def orchestrator_history(self, which: str = "", *, limit: int = 10) -> list[dict[str, Any]]:
        """Archived orchestrator sessions, newest first; with `which` only the one it means."""
        from forestay.mirror import orchestrator_session

        if which:
            return [orchestrator_session.archived(self.context, which)]
        return orchestrator_session.history(self.context, limit)

    def orchestrator_new(self, goal: str, *, mode: str = "default") -> tuple[Session, str]:
        """Begin another; the one before is archived, and where that is comes back too."""
        from forestay.api import start
        from forestay.formats.orchestrator.schema import ID as ORCHESTRATOR
        from forestay.mirror import orchestrator_session
        from forestay.mirror.session_files import mirror_of

        start.require(goal, mode)
        with mirror_of(self.context).holding(orchestrator_session.folder(self.context)):
            archived = orchestrator_session.make_room(self.context)
            wanted = start.Wanted(goal=goal, mode=mode, formats=[ORCHESTRATOR])
            return start.begin(self.context, wanted), archived

    def orchestrator_abort(self, *, because: str = "", key: str = "") -> Event:
        """Stop the current one for good; its state is preserved in the archive."""
        return self.orchestrator_continue().abort(because=because, key=key)

    def orchestrator_save(self) -> list[Binding]:
        """Write the files of the orchestrator session now; returns where they are.

        That is the one meant here, if it is one, else the project's current one if it is ours.
        """
        from forestay.mirror import orchestrator_session
        from forestay.mirror.session_files import SessionFiles, write_files

        session = orchestrator_session.session_with_file(self.context, self._current)
        write_files(self.context, session, force=True)
        return SessionFiles.of(self.context).standing(session)

    def essay_list(self) -> list[Listed]:
        """The essays of this user, newest first; one that cannot be read has no state."""
        from forestay.plans import essay_sessions

        return essay_sessions.listed(self.context)

    def essay_resume(self, which: str, *, anyway: bool = False) -> Session:
        """The session of an essay, by its number in the list or its name, made one of ours.

        A state that contradicts its files is refused, unless it is to be used `anyway`.
        """
        from forestay.api.session import Session
        from forestay.plans import essay_sessions

        return Session(self.context, essay_sessions.adopt_essay(self.context, which, anyway=anyway))

    # -- workflows -----------------------------------------------------------------------------

    def workflow_list(self) -> list[ListedWorkflow]:
        """The workflows that can be used here: the project's own, then those built in."""
        from forestay.plans import workflows as plans_workflows

        return plans_workflows.available(self.context.workspace.tree.root)

    def workflow_show(self, which: str) -> Workflow:
        """The workflow of a name, or in a file or folder; one with errors is refused."""
        from forestay.plans import workflows as plans_workflows

        return plans_workflows.find(which, self.context.workspace.tree.root)

    def workflow_check(self, which: str) -> Checked:
        """What is wrong with a definition, by line; one with errors is no workflow."""
        from forestay.plans import workflows as plans_workflows

        return plans_workflows.look(which, self.context.workspace.tree.root)

    def workflow_new(self, name: str, *, origin: str = "") -> str:
        """Write a definition to begin with, or a copy of another workflow; returns the file."""
        from forestay.plans import workflows as plans_workflows

        return plans_workflows.new(name, self.context.workspace.tree.root, origin=origin)

    def workflow_schema(self) -> str:
        """The JSON Schema of definitions."""
        from forestay.plans import workflows as plans_workflows

        return plans_workflows.schema().decode()
