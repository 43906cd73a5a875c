"""Find the session that a command uses in this folder, its project, and its processes.

The *tree* is the folder of the work. Its *current* session is the one last started, resumed or
chosen in it. The *project* is found by keys of the tree (see `project`). A *holder* is a process
that is registered as working on a session; if it died without being released, the session was
*interrupted*.

Writes never guess: without an explicit session, a live agent run above this process, or an open
current session, a writing command changes nothing and reports what to type.
"""

from __future__ import annotations

import os

from forestay.base.clock import short_id
from forestay.base.text import terminal
from forestay.base.vocabulary import FINISHED, STATUSES
from forestay.errors import NoSession
from forestay.store.machine.holders import Holder
from forestay.store.machine.projects import TreeRecord
from forestay.workspace import tree as workspace_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from forestay.base.clock import Clock
    from forestay.store.port import Store
    from forestay.workspace.tree import Tree

_UNKNOWN_TREE = ("", 0, "")
_MAX_COMPARED = 1000
_MAX_SHOWN_LENGTH = 100
_MAX_CHOICES = 10


class Workspace:
    """The folder that a command runs in, with the sessions and processes stored for it."""

    def __init__(self, store: Store, clock: Clock, cwd: str | None) -> None:
        self._store = store
        self._machine = store.machine
        self._clock = clock
        self._cwd = cwd
        self._tree: Tree | None = None
        self._session_above = ""

    @property
    def tree(self) -> Tree:
        if self._tree is None:
            tree = workspace_tree.find_tree(self._cwd)
            self._tree = self._nearest_with_session(tree) if workspace_tree.is_plain(tree) else tree
        return self._tree

    def _nearest_with_session(self, tree: Tree) -> Tree:
        """Return the nearest plain folder above that has sessions, like a repository root.

        The home folder and the root of the file system do not count.
        """
        folder, too_wide = tree.root, ("/", os.path.realpath(os.path.expanduser("~")))
        while folder not in too_wide:
            inode, _, session = self._machine.projects.tree(folder) or _UNKNOWN_TREE
            if session:
                above = workspace_tree.find_tree(folder)
                if inode == f"{above.dev}:{above.ino}" and above.root == folder:
                    return above
            folder = os.path.dirname(folder)
        return tree

    # -- which session -------------------------------------------------------------------------

    def current(self) -> str:
        """Return the session that a command in this folder uses by default, or "" if none."""
        self._session_above = self._find_session_above()
        return self._session_above or self.chosen_here()

    def is_overridden(self) -> bool:
        """Return whether a parent process (an agent run), not this folder, decides the session."""
        return bool(self._session_above) and self._session_above != self.chosen_here()

    def require(self, *, open_only: bool) -> str:
        """Return the session of a command in this folder; else raise with open ones as choices."""
        session = self.current()
        if not session:
            raise self._none("no session is current in this folder")
        rows = self._store.catalogue(where={"id": session}, limit=1) if open_only else []
        status = str(rows[0]["status"]) if rows else "missing"
        if open_only and not is_open(status):
            onward = f'reopen it: forestay session reopen --because "…" --session {session}'
            if status == "aborted":
                onward = f'start one from it: forestay start "GOAL" --from {session}'
            raise self._none(f"the current session {session} is {status}", onward)
        return session

    def only_open(self) -> str:
        """Return the only session of this project that can be resumed, or ""."""
        found = self.list_open()
        return str(found[0]["id"]) if len(found) == 1 else ""

    def list_open(self) -> list[dict[str, object]]:
        # Restored sessions belong to no project until they are resumed, so they are not listed.
        rows = self._store.catalogue(where={"archived": 0, "project": self.project()})
        return [row for row in rows if is_open(row["status"])]

    def choose(self, session: str) -> None:
        """Make a session the current one of this tree."""
        inode, _, current = self._known
        if (inode, current) != (self._inode, session):
            self._machine.projects.record_tree(self.spot(), session)

    def claim(self, sessions: Sequence[str]) -> None:
        """Assign sessions without a project to the project of this tree."""
        self._machine.projects.record_tree(self.spot(), None, members=sessions)

    def spot(self) -> TreeRecord:
        """Return this tree as the record that the store has for it."""
        inode, project, _ = self._known
        if inode == self._inode:
            return TreeRecord(self.tree.root, inode, project)
        # Keys that contradict each other or fit several projects create a new one, never a merge.
        return TreeRecord(
            self.tree.root,
            self._inode,
            self.project(),
            id=short_id(self._clock),
            # A folder name can be any bytes; the name that is shown must be text.
            name=terminal(os.path.basename(self.tree.main)) or "/",
            keys=self._all_keys(),
        )

    def _find_session_above(self) -> str:
        holders = self._machine.holders.find()
        if not holders:
            return ""
        from forestay.base.process import ProcessId, ancestors

        above = {ancestor: depth for depth, ancestor in enumerate(ancestors()) if depth}
        held = [(above.get(ProcessId.parse(h.process)), h) for h in holders]
        near = [(depth, h) for depth, h in held if depth is not None]
        return min(near, key=lambda pair: pair[0])[1].session if near else ""

    def chosen_here(self) -> str:
        """Return the session last started, resumed or chosen in this folder, or ""."""
        inode, project, session = self._known
        if inode and (inode == self._inode or project == self.project()):
            return session
        found, is_certain = ("", False) if inode else self._match()
        # A folder that was moved keeps its current session, if the move is certain.
        return self._session_of_moved(found) if is_certain else ""

    @property
    def _known(self) -> tuple[str, int, str]:
        """Return what is stored for this folder: inode, project, current session."""
        return self._machine.projects.tree(self.tree.root) or _UNKNOWN_TREE

    @property
    def _inode(self) -> str:
        return f"{self.tree.dev}:{self.tree.ino}"

    def _session_of_moved(self, project: str) -> str:
        keys = next((keys for _, id, keys in self._machine.projects.all() if id == project), [])
        for path in (value for kind, value in keys if kind == "path"):
            inode, _, session = self._machine.projects.tree(path) or _UNKNOWN_TREE
            if inode == self._inode and not os.path.exists(path):
                return session
        return ""

    def _none(self, what: str, onward: str = "") -> NoSession:
        rows = self.list_open()
        choices = [(str(r["id"]), str(r["status"]), str(r["goal"])) for r in rows]
        if choices:
            hint = f"choose one: forestay session use {choices[0][0]}"
        elif onward:
            hint = onward
        elif self._store.catalogue(where={"archived": 0, "project": None}, limit=1):
            hint = 'for imported sessions: forestay resume; for a new one: forestay start "GOAL"'
        else:
            hint = 'start one: forestay start "GOAL"'
        return NoSession(what, choices=choices, hint=hint)

    # -- the project ---------------------------------------------------------------------------

    def project(self) -> int:
        """Return the number of this tree's project, or 0 if it is unknown."""
        inode, project, _ = self._known
        if inode == self._inode:
            return project
        found, _ = self._match()
        return next((n for n, id, _ in self._machine.projects.all() if id == found), 0)

    def mark(self) -> str:
        """Write the marker file that identifies this project on any device; return its path."""
        from forestay.workspace.project import strong_keys, write_marker

        project = self._machine.projects.record_tree(self.spot(), None)
        marker = os.path.join(self.tree.root, workspace_tree.MARKER)
        # The marker may exist already, for example because it was committed.
        if not os.path.exists(marker) or "marker" not in dict(strong_keys(self.tree)):
            ids = {number: id for number, id, _ in self._machine.projects.all()}
            marker = write_marker(self.tree, ids.get(project, ""))
        spot = TreeRecord(self.tree.root, self._inode, project, keys=self._all_keys())
        self._machine.projects.record_tree(spot, None)
        return marker

    def _match(self) -> tuple[str, bool]:
        from forestay.workspace.project import KnownProject, match_project, place_keys, strong_keys

        known = [KnownProject.from_disk(id, keys) for _, id, keys in self._machine.projects.all()]
        match = match_project([*place_keys(self.tree), *strong_keys(self.tree)], known)
        if known and not match[1]:
            # Only git knows the first commits, and running it is slow.
            match = match_project(self._all_keys(), known)
        return match

    def _all_keys(self) -> list[tuple[str, str]]:
        from forestay.base.config import child_environment
        from forestay.workspace.project import place_keys, root_keys, strong_keys

        roots = root_keys(self.tree, child_environment()) if self.tree.git_dir else []
        return [*place_keys(self.tree), *strong_keys(self.tree), *roots]

    # -- holders -------------------------------------------------------------------------------

    def holders(self, session: str) -> list[tuple[Holder, str]]:
        """Return the holders of the session, each with "alive", "dead" or "unknown".

        An empty id stands for every session.
        """
        held = self._machine.holders.find(session)
        if not held:
            return []
        from forestay.base.process import ProcessId, liveness

        def alive(holder: Holder) -> str:
            try:
                return liveness(ProcessId.parse(holder.process))
            except ValueError:
                return "unknown"

        return [(holder, alive(holder)) for holder in held]

    @staticmethod
    def distinct(held: list[tuple[Holder, str]]) -> list[tuple[Holder, str]]:
        """Return each process once; if it is registered twice, the entry as an agent."""
        agents = {holder.process for holder, _ in held if holder.agent}
        return [(h, state) for h, state in held if h.agent or h.process not in agents]

    def hold(
        self, session: str, name: str, *, agent: str = "", doing: str = "", pid: int | None = None
    ) -> Holder | None:
        """Register a process (this one unless `pid` is given) as working on the session."""
        from forestay.base.process import identity

        process = identity(pid)
        if process is None:
            return None
        holder = Holder(session, str(process), name, agent, doing, self._clock.now())
        self._machine.holders.add(holder)
        return holder

    def release(self, holders: Sequence[Holder]) -> None:
        self._machine.holders.remove(holders)


def is_open(status: object) -> bool:
    """Return whether work on a session in this status may continue."""
    return status in STATUSES and status not in FINISHED


def find_session(store: Store, text: str) -> str:
    """Return the session that an id or its unique beginning names."""
    found = store.resolve(text)
    if len(found) == 1:
        return found[0]
    if not found:
        import difflib  # start-up

        shown = text if len(text) <= _MAX_SHOWN_LENGTH else text[:_MAX_SHOWN_LENGTH] + "…"
        ids = [str(row["id"]) for row in store.catalogue(limit=_MAX_COMPARED) if shown == text]
        near = difflib.get_close_matches(text, ids, 1, 0.6)
        hint = f"did you mean {near[0]}?" if near else "forestay list --all"
        raise NoSession(f"there is no session {shown}", hint=hint, session=shown)
    raise NoSession(
        f"{text} could be any of {len(found)} sessions",
        why=", ".join(found[:5]),
        hint="type more characters of the id",
        choices=[_choice(store, id) for id in found[:_MAX_CHOICES]],
    )


def _choice(store: Store, id: str) -> tuple[str, str, str]:
    rows = store.catalogue(where={"id": id}, limit=1)
    return (id, str(rows[0]["status"]), str(rows[0]["goal"])) if rows else (id, "", "")
