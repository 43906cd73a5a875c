"""Workflows that sessions can follow, and the user's essays."""

from __future__ import annotations

from forestay.api.session import Session
from forestay.base.value import Value
from forestay.journal.topics import HomeTopic
from forestay.plans import essay_sessions, workflows

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins

    from forestay.model.plan import Workflow
    from forestay.plans.workflows import Checked, Listed


class Workflows(HomeTopic):
    """Definitions of workflows: the project's own, and those built in."""

    def list(self) -> builtins.list[Listed]:
        """Return the available workflows: the project's own, then those built in."""
        return workflows.available(self._context.workspace.tree.root)

    def show(self, which: str) -> Workflow:
        """Return the workflow of a name, or in a file or folder; refuse one with errors."""
        return workflows.find(which, self._context.workspace.tree.root)

    def check(self, which: str) -> Checked:
        """Return the problems of a definition, by line; one with errors cannot be used."""
        return workflows.look(which, self._context.workspace.tree.root)

    def new(self, name: str, *, origin: str = "") -> str:
        """Write a first definition, or a copy of another workflow; return the file."""
        return workflows.new(name, self._context.workspace.tree.root, origin=origin)

    def schema(self) -> str:
        """Return the JSON Schema of definitions."""
        return workflows.schema().decode()


class EssayListing(Value):
    """An essay of the user; `abandoned_days` is 0 until it counts as abandoned."""

    name: str
    path: str
    readable: bool
    abandoned_days: int


class Essays(HomeTopic):
    """The essays of the user, in every project."""

    def list(self) -> builtins.list[EssayListing]:
        """Return the essays of this user, newest first, including unreadable ones."""
        return [
            EssayListing(
                {
                    "name": one.name,
                    "path": one.folder,
                    "readable": one.state is not None,
                    "abandoned_days": essay_sessions.abandoned_for(self._context, one),
                }
            )
            for one in essay_sessions.listed(self._context)
        ]

    def resume(self, which: str, *, anyway: bool = False) -> Session:
        """Return the session of an essay, by its number or its name; adopt it if needed.

        A state that contradicts its files is refused, unless `anyway` is given.
        """
        session = essay_sessions.adopt_essay(self._context, which, anyway=anyway)
        return Session(self._context, session)
