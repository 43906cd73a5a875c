"""Arrival: a session is taken up on another device than it was last worked on.

Paths in a journal are relative, so a session needs no translation: its project is the tree in
which it is resumed. What cannot be carried over is looked at here and told: the branch and the
commit that were checked out, the tools that were at work, files that are missing. Nothing of it
keeps anyone from going on, unless they ask for that with `--strict`.
"""

from __future__ import annotations

import os
import sys

from msgspec import Struct

from holdfast import __version__, files, git
from holdfast.config import child_environment
from holdfast.errors import Busy, HoldfastError, InvalidInput
from holdfast.model.event import AttributeSet, Body
from holdfast.model.state import Artifact, Attribute, State
from holdfast.place import absolute
from holdfast.sha import digest_of
from holdfast.verb import Recorder
from holdfast.who import name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.home import Holdfast

TOOLS = "tools"
"""The attribute that says which tools a session was last worked on with."""
_SECONDS = 5
_BUSY = 2.0
_FEW = 5
_KNOWN = 64 * 1024 * 1024


class Finding(Struct, frozen=True):
    """Something that is not here as it was there; `command` helps, if anything does."""

    what: str
    text: str
    command: str = ""


class Pulled(Struct, frozen=True):
    """Whether others' work was asked for first; `why` is told when it could not be had."""

    asked: bool = False
    events: int = 0
    why: str = ""


class Put(Struct, frozen=True):
    """What became of an artifact: written, same, differs, unknown (no content) or refused."""

    path: str
    word: str


def pull(home: Holdfast, session: str = "") -> Pulled:
    """Take what other devices put on remotes, of one session or all; going on without is fine."""
    known = home.store.remotes.all()
    if not known:
        return Pulled()
    from holdfast.travel.visit import Manner, visit

    count, wrong = 0, []
    manner = Manner(push=False, sessions=[session] if session else (), wait=_BUSY)
    for remote in known:
        try:
            report = visit(home, remote, manner)
        except Busy:
            wrong.append(f"{remote.name}: another sync is under way")
        except HoldfastError as error:
            wrong.append(f"{remote.name}: {error}")
        else:
            count += report.down
            wrong += [f"{remote.name}: {one.error}" for one in report.problems]
    return Pulled(True, count, "; ".join(wrong))


def origin(home: Holdfast, state: State) -> str:
    """The chain that was written last, if that is not the one of this device."""
    ends = [
        (clock, n, device)
        for device, chain in state.core.chains.items()
        for n, _, clock in chain.heads
    ]
    last = max(ends, default=(0, 0, ""))[2]
    return last if last != home.store.device else ""


def last_on(home: Holdfast, device: str) -> str:
    """The open session that was worked on last on a device, by its name."""
    met: dict[str, None] = {}
    for row in home.list(all=True):
        if row["status"] in ("completed", "aborted", "abandoned"):
            continue
        with home.store.view(row["session"]) as view:
            state = home.journal.state(view)
            chain = origin(home, state) or home.store.device
        met[name_of(home, chain)] = None
        if device.casefold() in (chain.casefold(), name_of(home, chain).casefold()):
            return str(row["session"])
    known = ", ".join(met) or "none"
    raise InvalidInput(
        f"no open session was worked on last on {device}",
        why=f"devices that are known: {known}",
        hint="holdfast pull; then: holdfast list --all",
    )


# -- what is missing here ----------------------------------------------------------------------


def findings(session: Recorder, state: State, drift: list[tuple[str, str]]) -> list[Finding]:
    """What is not here as it was where the session was last worked on; nothing if it was here."""
    if not origin(session.home, state):
        return []
    return [
        *_project(session, state),
        *_commit(session, state),
        *_tools(session, state),
        *_files(state, drift),
    ]


def _project(session: Recorder, state: State) -> list[Finding]:
    there, here = state.core.project, os.path.basename(session.home.workspace.tree.main)
    # Where its commit is, it is the same project, whatever its folder is called.
    if not there or there == here or _has_commit(session, state.core.git_commit):
        return []
    return [Finding("project", f"it was begun in project {there}; this folder is of {here}")]


def _commit(session: Recorder, state: State) -> list[Finding]:
    commit, tree = state.core.git_commit, session.home.workspace.tree
    if not commit:
        return []
    if tree.git_dir is None:
        text = f"it was worked on at commit {commit[:10]}; there is no git repository here"
        return [Finding("commit", text)]
    if not _has_commit(session, commit):
        text = f"commit {commit[:10]} is not here; what was done there may not be pushed"
        return [Finding("commit", text, "git fetch")]
    counts = git.ask(
        tree,
        child_environment(),
        *("rev-list", "--left-right", "--count", f"{commit}...HEAD"),
        timeout=_SECONDS,
    )
    behind, ahead = (int(n) for n in (counts or b"0 0").split()[:2])
    if behind:
        more = f" and has {ahead} of its own" if ahead else ""
        text = f"the checkout lacks {behind} commits up to {commit[:10]}{more}"
        return [Finding("commit", text, f"git merge {commit[:10]}")]
    return []


def _has_commit(session: Recorder, commit: str) -> bool:
    tree = session.home.workspace.tree
    asked = ("cat-file", "-e", commit)
    return bool(commit) and git.ask(tree, child_environment(), *asked, timeout=_SECONDS) is not None


def tools(home: Holdfast) -> dict[str, str]:
    """What a session is worked on with here, by name."""
    said = git.ask(home.workspace.tree, child_environment(), "version", timeout=_SECONDS) or b""
    words = said.decode("utf-8", "replace").split()
    found = {"holdfast": __version__, "python": ".".join(map(str, sys.version_info[:3]))}
    return {**found, "git": words[2]} if words[:2] == ["git", "version"] else found


def _tools(session: Recorder, state: State) -> list[Finding]:
    then = _said_tools(state)
    if not then:
        return []
    now = tools(session.home)
    if "git" not in now:
        then.pop("git", None)  # without a repository nobody asks which git there is
    return [
        Finding("tool", f"{name} was {version}, here it is {now.get(name, 'not there')}")
        for name, version in then.items()
        if now.get(name) != version
    ]


def _said_tools(state: State) -> dict[str, str]:
    row = state.rows.get("attribute", TOOLS) if state.count("attribute") else None
    text = row.value if isinstance(row, Attribute) and isinstance(row.value, str) else ""
    pairs = (part.strip().partition(" ") for part in text.split(","))
    return {name: version for name, _, version in pairs if name and version}


def record_tools(session: Recorder) -> list[Body]:
    """That the tools changed since they were last told; nothing where no session ever travels."""
    home = session.home
    if not home.store.remotes.all():
        return []
    now = tools(home)
    with home.store.view(session.id) as view:
        if _said_tools(home.journal.state(view)) == now:
            return []
    text = ", ".join(f"{name} {version}" for name, version in now.items())
    return [AttributeSet(key=TOOLS, value=text)]


def _files(state: State, drift: list[tuple[str, str]]) -> list[Finding]:
    missing = [path for path, word in drift if word == "missing"]
    if not missing:
        return []
    kept = [path for path in missing if _is_kept(state, path)]
    shown = ", ".join(missing[:_FEW]) + (f" and {len(missing) - _FEW} more" * (len(missing) > _FEW))
    found = [Finding("file", f"missing here: {shown}")]
    if kept:
        text = f"{len(kept)} of them came with the session"
        found.append(Finding("artifact", text, "holdfast resume --restore"))
    return found


def _is_kept(state: State, path: str) -> bool:
    row = state.rows.get("artifact", path) if state.count("artifact") else None
    return isinstance(row, Artifact) and row.kept


# -- artifacts ---------------------------------------------------------------------------------


def restore(session: Recorder, *, force: bool = False) -> list[Put]:
    """Write the artifacts that came with a session into its project, where they are not there.

    A file that differs is left as it is, unless forced.
    """
    with session.home.store.view(session.id) as view:
        rows = list(session.home.journal.state(view).rows.select("artifact"))
    return [_put(session, row, force) for row in rows if isinstance(row, Artifact)]


def _put(session: Recorder, row: Artifact, force: bool) -> Put:
    # What git or a hook of it runs is never taken from a session: it may be another person's.
    if ".git" in row.path.casefold().split("/"):
        return Put(row.path, "refused")
    data = session.home.store.blob(row.digest) if row.kept else None
    if data is None:
        return Put(row.path, "unknown")
    path = absolute(row.path, session.home.workspace.tree.root)
    there = files.read_optional(path, _KNOWN, follow=False)
    if there is not None and digest_of(there) == row.digest:
        return Put(row.path, "same")
    if there is not None and not force:
        return Put(row.path, "differs")
    files.require_no_link(os.path.dirname(path))
    files.make_folder(os.path.dirname(path))
    files.replace(path, data, mode=0o644)
    return Put(row.path, "written")
