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

    from holdfast.adopt import Adopted
    from holdfast.cleanup import Put, Wanted
    from holdfast.contract import Contract
    from holdfast.convert import Converted
    from holdfast.essay import Listed
    from holdfast.home import Holdfast
    from holdfast.inspection import Report as FileReport
    from holdfast.layout.ai_session import Report as FeatureReport
    from holdfast.layout.contract import Verdict
    from holdfast.live import Live
    from holdfast.model.event import Event
    from holdfast.model.plan import Workflow
    from holdfast.recover import Case
    from holdfast.retell import OnPart as OnTranscript
    from holdfast.retell import Retold
    from holdfast.session import Session
    from holdfast.store.bound import Binding
    from holdfast.workflow import Checked
    from holdfast.workflow import Listed as ListedWorkflow

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


class LayoutVerbs:
    """What a home can do with files of other programs; `Holdfast` inherits it."""

    if TYPE_CHECKING:

        @property
        def _home(self) -> Holdfast: ...

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
        from holdfast import found, inspection
        from holdfast.surroundings import Surroundings

        around = Surroundings(self._home.mirror.where, workflows)
        clean = self._home.journal.redacted
        there = found.walk(path, parts=True)
        made = (inspection.check(one, around.of(one), strict=strict, clean=clean) for one in there)
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
        from holdfast import adopt

        also = () if path else self.essay_folders()
        place = path or self._home.workspace.tree.root
        manner = adopt.Manner(dry_run=dry_run, templates=templates, workflows=workflows)
        return _all_of(adopt.adopt(self._home, place, manner, also=also), on_adopted)

    def adopt_transcripts(
        self,
        agent: str,
        path: str = "",
        *,
        since: str = "",
        dry_run: bool = False,
        on_part: OnTranscript | None = None,
        on_adopted: Heard[Retold] = None,
    ) -> list[Retold]:
        """Make sessions of the conversations that an agent wrote down; twice is once.

        Without a path these are all that `claude-code`, `codex` or `gemini` keeps. `since` is a
        span (`36h`, `30d`, `3w`) or a day (`2026-01-31`); `on_part` is told now and then how much
        of a long one was heard, `on_adopted` what became of each.
        """
        from holdfast import retell

        after = retell.moment_of(since, self._home.clock.now())
        told = retell.retell(self._home, agent, path, since=after, dry_run=dry_run, on_part=on_part)
        return _all_of(told, on_adopted)

    def unadopted(self) -> list[str]:
        """Places in this project with session files of other programs that nobody took up."""
        from holdfast.glance import unadopted

        root = self._home.workspace.tree.root
        store = self._home.store
        return unadopted(root, lambda: store.bound.places(root), store.local.stamps_below)

    def convert(
        self, path: str, to: str, out: str = "", *, native_id: str = "", workflows: str = ""
    ) -> tuple[Converted, list[str]]:
        """Write the session at a path in another layout, beside it; returns what was made."""
        from holdfast import convert

        where = self._home.mirror.where("")
        made = convert.convert(path, to, where, native=native_id, workflows=workflows)
        made.lost = [self._home.journal.redacted(line) for line in made.lost]
        return made, convert.write(made, out or convert.beside(path, made))

    def layouts_report(self, feature: str = "", root: str = "") -> list[FeatureReport]:
        """How the sessions of the ai-session layout stand, in figures; one, or all of a folder."""
        from holdfast import cleanup

        cleanup.require_folder(root)
        return cleanup.reports(self._home, self._ai_root(root), feature)

    def layouts_live(self, folder: str = "", *, prune: bool = False) -> list[Live]:
        """Who is at work now, as aiterm's files tell; `prune` archives those that died."""
        from holdfast import live
        from holdfast.config import user_home

        folder = folder or os.path.join(user_home(), ".claude", "sessions")
        clean = self._home.journal.redacted
        if prune:
            return live.prune(folder, self._home.clock, clean)
        return live.live(folder, clean)

    def cleanup(
        self, path: str = "", wanted: Wanted | None = None, *, dry_run: bool = False
    ) -> list[Put]:
        """Put sessions of the ai-session layout away that are over; nothing is deleted."""
        from holdfast import cleanup

        wanted = wanted or cleanup.Wanted()
        cleanup.require_folder(path)
        return cleanup.cleanup(self._home, self._ai_root(path), wanted, dry_run=dry_run)

    def contract_show(self, root: str = "", spec: str = "") -> Contract:
        """The session-state contract of a folder: who has acknowledged it, and whether it holds."""
        from holdfast.contract import Contract

        return Contract(self._ai_root(root), spec, self._home.clock)

    def contract_ack(self, agent: str, root: str = "", spec: str = "") -> str:
        """An agent acknowledges the contract, in its file and in the current session if any."""
        from holdfast.model.event import ContractAcknowledged

        contract = self.contract_show(root, spec)
        path = contract.acknowledge(agent)
        with_session = self._home.settings.session or self._home.workspace.current()
        if with_session:
            session = self._home.session(with_session)
            session.record(
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
        from holdfast import recover

        case = recover.examine(self._home, path, choose=choose)
        if case is None or not (out or fix):
            return case
        return recover.write(case, out) if out else recover.fix(self._home, case)

    def _ai_root(self, given: str) -> str:
        return os.path.abspath(given or self._home.mirror.root_of("ai-session"))

    # -- what two documents call by name -------------------------------------------------------

    def orchestrator_continue(self) -> Session:
        """The project's current orchestrator session, made one of ours if it is not yet.

        `NoSession` when there is none, `Outdated` for a version that cannot be resumed, and
        `Unusable`, with the choices, for a file that cannot be read.
        """
        from holdfast import orchestrator

        return orchestrator.take(self._home)

    def orchestrator_history(self, which: str = "", *, limit: int = 10) -> list[dict[str, Any]]:
        """Archived orchestrator sessions, newest first; with `which` only the one it means."""
        from holdfast import orchestrator

        if which:
            return [orchestrator.archived(self._home, which)]
        return orchestrator.history(self._home, limit)

    def orchestrator_new(self, goal: str, *, mode: str = "default") -> tuple[Session, str]:
        """Begin another; the one before is archived, and where that is comes back too."""
        from holdfast import orchestrator

        return orchestrator.begin(self._home, goal, mode=mode)

    def orchestrator_abort(self, *, because: str = "", key: str = "") -> Event:
        """Stop the current one for good; its state is preserved in the archive."""
        return self.orchestrator_continue().abort(because=because, key=key)

    def orchestrator_save(self) -> list[Binding]:
        """Write the files of the orchestrator session now; returns where they are.

        That is the one meant here, if it is one, else the project's current one if it is ours.
        """
        from holdfast import orchestrator

        session = orchestrator.kept(self._home)
        self._home.reflect(session.id, force=True)
        return session.layouts_list()

    def essay_list(self) -> list[Listed]:
        """The essays of this user, newest first; one that cannot be read has no state."""
        from holdfast import essay

        return essay.listed(self._home)

    def essay_resume(self, which: str, *, anyway: bool = False) -> Session:
        """The session of an essay, by its number in the list or its name, made one of ours.

        A state that contradicts its files is refused, unless it is to be used `anyway`.
        """
        from holdfast import essay

        return essay.take(self._home, which, anyway=anyway)

    def essay_folders(self) -> list[str]:
        """The folders of the user's essays, in this home and where they used to be made."""
        from holdfast import found

        return found.essay_folders((self.essay_root, *found.ESSAY_ROOTS))

    @property
    def essay_root(self) -> str:
        return os.path.join(self._home.settings.home, "essays")

    # -- workflows -----------------------------------------------------------------------------

    def workflow_list(self) -> list[ListedWorkflow]:
        """The workflows that can be used here: the project's own, then those built in."""
        from holdfast import workflow

        return workflow.available(self._home.workspace.tree.root)

    def workflow_show(self, which: str) -> Workflow:
        """The workflow of a name, or in a file or folder; one with errors is refused."""
        from holdfast import workflow

        return workflow.find(which, self._home.workspace.tree.root)

    def workflow_check(self, which: str) -> Checked:
        """What is wrong with a definition, by line; one with errors is no workflow."""
        from holdfast import workflow

        return workflow.look(which, self._home.workspace.tree.root)

    def workflow_new(self, name: str, *, origin: str = "") -> str:
        """Write a definition to begin with, or a copy of another workflow; returns the file."""
        from holdfast import workflow

        return workflow.new(name, self._home.workspace.tree.root, origin=origin)

    def workflow_schema(self) -> str:
        """The JSON Schema of definitions."""
        from holdfast import workflow

        return workflow.schema().decode()
