"""Which session is meant here, whose project this is, and who else is at work.

Words. The *tree* is the folder work happens in, with its own *current* session: what was last
started, resumed or chosen in it. The *project* is found by keys of the tree (see `project`). A
*holder* is a live process that works on a session; one that is dead and has not let go means
the session was *interrupted*.

Writes never guess: without an explicit session, a live agent run above this process, or a
current session that is open, a writing command changes nothing and is told what to type.
"""

from __future__ import annotations

import os

from holdfast import place
from holdfast.choice import FINISHED, STATUSES
from holdfast.clock import short_id
from holdfast.errors import NoSession
from holdfast.store import Spot
from holdfast.store.local import Holder
from holdfast.text import terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.clock import Clock
    from holdfast.place import Tree
    from holdfast.project import Match
    from holdfast.store import Store

_NEVER_MET = ("", 0, "")
_LOOKED_AT = 1000
_LONGEST = 100
_SHOWN = 10


class Workspace:
    def __init__(self, store: Store, clock: Clock, cwd: str | None) -> None:
        self._store = store
        self._local = store.local
        self._clock = clock
        self._cwd = cwd
        self._tree: Tree | None = None
        self._decided_above = ""

    @property
    def tree(self) -> Tree:
        if self._tree is None:
            tree = place.find_tree(self._cwd)
            self._tree = self._known_above(tree) if place.is_plain(tree) else tree
        return self._tree

    def _known_above(self, tree: Tree) -> Tree:
        """Below a plain folder that has sessions one is still in it, as below a repository.

        The nearest one counts. What is below the home folder or the root is no part of them.
        """
        folder, too_wide = tree.root, ("/", os.path.realpath(os.path.expanduser("~")))
        while folder not in too_wide:
            inode, _, session = self._local.tree(folder) or _NEVER_MET
            if session:
                above = place.find_tree(folder)
                if inode == f"{above.dev}:{above.ino}" and above.root == folder:
                    return above
            folder = os.path.dirname(folder)
        return tree

    # -- which session -------------------------------------------------------------------------

    def current(self) -> str:
        """The session meant here without being named, or "" when there is none."""
        self._decided_above = self._above()
        return self._decided_above or self.chosen()

    def outvoted(self) -> bool:
        """Whether a process above this one decided which session is meant, not this folder."""
        return bool(self._decided_above) and self._decided_above != self.chosen()

    def require(self, *, open_only: bool) -> str:
        """The session meant here; `NoSession` with the open ones when that would be a guess."""
        session = self.current()
        if not session:
            raise self._none("no session is current in this folder")
        if open_only and not is_open(status := self._status(session)):
            onward = f'go on with it: holdfast reopen --because "…" --session {session}'
            if status == "aborted":
                onward = f'begin one from it: holdfast start "GOAL" --from {session}'
            raise self._none(f"the current session {session} is {status}", onward)
        return session

    def only_open(self) -> str:
        """The one session of this project that can be resumed, or "" when there is not one."""
        found = self.listed_open()
        return str(found[0]["id"]) if len(found) == 1 else ""

    def listed_open(self) -> list[dict[str, object]]:
        # What was restored belongs to no project until someone takes it up: it is in no list here.
        rows = self._store.catalogue(where={"archived": 0, "project": self.project()})
        return [row for row in rows if is_open(row["status"])]

    def choose(self, session: str) -> None:
        """Make a session the current one of this tree."""
        inode, _, current = self._known
        if (inode, current) != (self._inode, session):
            self._local.settle(self.spot(), session)

    def claim(self, sessions: Sequence[str]) -> None:
        """Let sessions that belong to no project yet belong to the one of this tree."""
        self._local.settle(self.spot(), None, members=sessions)

    def spot(self) -> Spot:
        """This tree, to be remembered."""
        inode, project, _ = self._known
        if inode == self._inode:
            return Spot(self.tree.root, inode, project)
        # Keys that contradict or fit several make a project of its own: never merged.
        return Spot(
            self.tree.root,
            self._inode,
            self.project(),
            id=short_id(self._clock),
            # A folder may have any bytes for a name; what is shown is text.
            name=terminal(os.path.basename(self.tree.main)) or "/",
            keys=self._all_keys(),
        )

    def _above(self) -> str:
        holders = self._local.holders()
        if not holders:
            return ""
        from holdfast.process import ProcessId, ancestors

        above = {ancestor: depth for depth, ancestor in enumerate(ancestors()) if depth}
        held = [(above.get(ProcessId.parse(h.process)), h) for h in holders]
        near = [(depth, h) for depth, h in held if depth is not None]
        return min(near, key=lambda pair: pair[0])[1].session if near else ""

    def chosen(self) -> str:
        """The session that was last started, resumed or chosen in this folder, or ""."""
        inode, project, session = self._known
        if inode and (inode == self._inode or project == self.project()):
            return session
        match = None if inode else self._match()
        # A folder that was moved takes its current session along, if that is beyond doubt.
        if match is None or match.outcome != "found" or not match.certain:
            return ""
        return self._left_behind(match.project)

    @property
    def _known(self) -> tuple[str, int, str]:
        """What was here when this folder was last met: inode, project, current session."""
        return self._local.tree(self.tree.root) or _NEVER_MET

    @property
    def _inode(self) -> str:
        return f"{self.tree.dev}:{self.tree.ino}"

    def _left_behind(self, project: str) -> str:
        keys = next((keys for _, id, keys in self._local.projects() if id == project), [])
        for path in (value for kind, value in keys if kind == "path"):
            inode, _, session = self._local.tree(path) or _NEVER_MET
            if inode == self._inode and not os.path.exists(path):
                return session
        return ""

    def _status(self, session: str) -> str:
        rows = self._store.catalogue(where={"id": session}, limit=1)
        return str(rows[0]["status"]) if rows else "not there"

    def _none(self, what: str, onward: str = "") -> NoSession:
        rows = self.listed_open()
        choices = [(str(r["id"]), str(r["status"]), str(r["goal"])) for r in rows]
        if choices:
            hint = f"choose one: holdfast use {choices[0][0]}"
        elif onward:
            hint = onward
        elif self._store.catalogue(where={"archived": 0, "project": None}, limit=1):
            hint = 'what came from elsewhere: holdfast resume; a new one: holdfast start "GOAL"'
        else:
            hint = 'begin one: holdfast start "GOAL"'
        return NoSession(what, choices=choices, hint=hint)

    # -- the project ---------------------------------------------------------------------------

    def project(self) -> int:
        """The number of the project this tree belongs to, or 0 when it is not known."""
        inode, project, _ = self._known
        if inode == self._inode:
            return project
        match = self._match()
        return self._number(match.project) if match.outcome == "found" else 0

    def mark(self) -> str:
        """Write the marker that makes this tree recognisable anywhere; returns its path."""
        from holdfast.project import strong_keys, write_marker

        project = self._local.settle(self.spot(), None)
        marker = os.path.join(self.tree.root, place.MARKER)
        # It may be marked already, here or by whoever committed the marker.
        if not os.path.exists(marker) or "marker" not in dict(strong_keys(self.tree)):
            marker = write_marker(self.tree, self._id(project))
        spot = Spot(self.tree.root, self._inode, project, keys=self._all_keys())
        self._local.settle(spot, None)
        return marker

    def _match(self) -> Match:
        from holdfast.project import KnownProject, match_project, place_keys, strong_keys

        known = [KnownProject.look(id, keys) for _, id, keys in self._local.projects()]
        match = match_project([*place_keys(self.tree), *strong_keys(self.tree)], known)
        if known and not match.certain:
            # Only git knows the first commits, and asking it takes longest.
            match = match_project(self._all_keys(), known)
        return match

    def _all_keys(self) -> list[tuple[str, str]]:
        from holdfast.config import child_environment
        from holdfast.project import place_keys, root_keys, strong_keys

        roots = root_keys(self.tree, child_environment()) if self.tree.git_dir else []
        return [*place_keys(self.tree), *strong_keys(self.tree), *roots]

    def _number(self, id: str) -> int:
        return next((n for n, known, _ in self._local.projects() if known == id), 0)

    def _id(self, number: int) -> str:
        return next((id for n, id, _ in self._local.projects() if n == number), "")

    # -- who is at work ------------------------------------------------------------------------

    def holders(self, session: str) -> list[tuple[Holder, str]]:
        """Everyone who has not let go of the session, with "alive", "dead" or "unknown".

        An empty id means every session.
        """
        held = self._local.holders(session)
        if not held:
            return []
        from holdfast.process import ProcessId, liveness

        def alive(holder: Holder) -> str:
            try:
                return liveness(ProcessId.parse(holder.process))
            except ValueError:
                return "unknown"

        return [(holder, alive(holder)) for holder in held]

    @staticmethod
    def distinct(held: list[tuple[Holder, str]]) -> list[tuple[Holder, str]]:
        """Each process once: as the agent it runs, where it runs one."""
        agents = {holder.process for holder, _ in held if holder.agent}
        return [(h, word) for h, word in held if h.agent or h.process not in agents]

    def hold(
        self, session: str, name: str, *, agent: str = "", doing: str = "", pid: int | None = None
    ) -> Holder | None:
        """Register a process (this one unless `pid` is given) as working on the session."""
        from holdfast.process import identity

        process = identity(pid)
        if process is None:
            return None
        holder = Holder(session, str(process), name, agent, doing, self._clock.now())
        self._local.hold(holder)
        return holder

    def let_go(self, holders: Sequence[Holder]) -> None:
        self._local.let_go(holders)


def _near(store: Store, text: str) -> str:
    """What may have been meant by an id that is not there."""
    import difflib

    ids = [str(row["id"]) for row in store.catalogue(limit=_LOOKED_AT) if len(text) <= _LONGEST]
    near = difflib.get_close_matches(text, ids, 1, 0.6)
    return f"did you mean {near[0]}?" if near else "holdfast list --all"


def is_open(status: object) -> bool:
    """Whether work on a session in this status may go on."""
    return status in STATUSES and status not in FINISHED


def find_session(store: Store, text: str) -> str:
    """The id a user's text means: whole, or shortened while unique."""
    found = store.resolve(text)
    if len(found) == 1:
        return found[0]
    if not found:
        shown = text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
        raise NoSession(f"there is no session {shown}", hint=_near(store, text), session=shown)
    raise NoSession(
        f"{text} could be any of {len(found)} sessions",
        why=", ".join(found[:5]),
        hint="type more of the id",
        choices=[_choice(store, id) for id in found[:_SHOWN]],
    )


def _choice(store: Store, id: str) -> tuple[str, str, str]:
    rows = store.catalogue(where={"id": id}, limit=1)
    return (id, str(rows[0]["status"]), str(rows[0]["goal"])) if rows else (id, "", "")
