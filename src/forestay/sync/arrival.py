"""Resume a session on a device other than the one where it was last worked on.

Paths in a journal are relative, so a session needs no translation: its project is the tree in
which it is resumed. Differences between the two devices are reported: the branch and commit that
are checked out, the versions of tools, missing files. They prevent resuming only with `--strict`.
"""

from __future__ import annotations

import os
import re
import sys

import msgspec
from msgspec import Struct

from forestay.base import files
from forestay.base.config import child_environment
from forestay.base.findings import Finding
from forestay.base.hashing import digest_of
from forestay.base.text import ago, plural
from forestay.base.version import __version__
from forestay.errors import InvalidInput, NoSession, ReadOnly, Refused
from forestay.journal.recorder import Recorder
from forestay.model.event import AttributeSet, Body
from forestay.model.state import Artifact, Attribute, Core, State
from forestay.sync.device_names import name_of, persons
from forestay.sync.safe_paths import is_harmless
from forestay.workspace import git
from forestay.workspace.current_session import is_open
from forestay.workspace.tree import absolute, relative

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from forestay.journal.context import Context
    from forestay.store.machine.remotes import Known
    from forestay.workspace.tree import Tree

TOOLS = "tools"
"""The session attribute that lists the tools of the device where it was last worked on."""
_TOOLS = ("forestay", "python", "git")
_SECONDS = 5
_FEW = 5
_KNOWN = 64 * 1024 * 1024


class Checkout(Struct, frozen=True):
    """The branch and commit that were checked out on the other device; "" if unknown."""

    branch: str
    commit: str

    def __str__(self) -> str:
        commit = f"commit {self.commit[:10]}" if _HASH.fullmatch(self.commit) else "a commit"
        return f"{commit} of branch {self.branch}" if _BRANCH.fullmatch(self.branch) else commit


class Pulled(Struct, frozen=True):
    """The result of a pull before resuming; `why` and `hint` are set if it failed.

    `new` are sessions that this device did not have before. `late` is set if the pull took too
    long; it reports when each remote was last read. `closed` is the number of sessions on the
    remotes that this device cannot decrypt.
    """

    asked: bool = False
    events: int = 0
    why: str = ""
    hint: str = ""
    new: list[str] = []
    late: str = ""
    closed: int = 0


class Put(Struct, frozen=True):
    """The result of restoring one artifact; `word` is one of: written, same, differs (the file was
    not changed), unknown (no content is stored), refused (the path is not safe), blocked (a folder
    or link has its path), denied (the system does not allow it)."""

    path: str
    word: str


def pull(context: Context, session: str = "") -> Pulled:
    """Pull one session or all before resuming; a failure is reported, not raised."""
    known, seconds = context.store.machine.remotes.all(), context.settings.pull_seconds
    if not known or not seconds:
        return Pulled()
    from forestay.sync.background import fetched  # start-up
    from forestay.sync.keychain import is_locked  # start-up

    # The pull runs in another process, which cannot ask for the passphrase of this device's key.
    ask = context.ask_passphrase
    passphrase = ask() if ask and is_locked(context) else ""
    answer = fetched(context, session, seconds, passphrase)
    if answer is None:
        return Pulled(True, late=_late(known, seconds, context.clock.now()))
    try:
        return _pulled(msgspec.json.decode(answer, type=dict))
    except msgspec.DecodeError:
        return Pulled(True, why="the pull ended without an answer", hint="forestay sync --pull")


def _late(known: Sequence[Known], seconds: int, now: int) -> str:
    states = []
    for one in known:
        state = f"last read {ago(now - one.synced)}" if one.synced else "never read"
        is_failed = one.synced and one.result == "failed"
        states.append(f"{one.name} {'failed, ' if is_failed else ''}{state}")
    return f"no answer within {plural(seconds, 'second')}; {', '.join(states)}"


def _pulled(answer: dict[str, Any]) -> Pulled:
    """Convert the JSON of a pull to its result."""
    if error := answer.get("error"):
        return Pulled(True, why=error["what"], hint=error["hint"])
    remotes = answer["remotes"]
    sessions = [(one["remote"], each) for one in remotes for each in one["sessions"]]
    wrong = [(one["remote"], one["error"]) for one in remotes if one["error"]]
    wrong += [(remote, each["error"]) for remote, each in sessions if each["error"]]
    return Pulled(
        True,
        sum(each["pulled"] for _, each in sessions),
        "; ".join(
            f"{remote}: {error['message']}" + (f" ({error['why']})" if error["why"] else "")
            for remote, error in wrong
        ),
        hint=wrong[0][1]["hint"] or "" if wrong else "",
        new=[each["session"] for _, each in sessions if each["new"] and each["pulled"]],
        closed=sum(one["others"] for one in remotes if not one["sessions"]),
    )


def meant_here(context: Context, error: NoSession) -> str:
    """Choose a session from another device to resume in a folder that has no session.

    Return its id if it is the only one that a device of the user started in this project.
    Otherwise raise `error`, with all sessions from other devices as choices.
    """
    rows = context.store.catalogue(where={"archived": 0, "project": None}, limit=_MOST_CHECKED)
    found = [_arrived(context, row) for row in rows if is_open(row["status"])]
    of_project = [one for one in found if one.fits]
    certain = [one for one in of_project if one.fits == _BY_COMMIT] or of_project
    if len(certain) == 1 and certain[0].is_own and not error.choices:
        return certain[0].id
    rest = [(one.id, one.status, one.goal) for one in of_project or found]
    if not rest:
        raise error
    other = "" if of_project else ", and none of them was started in a project of this name"
    why = "" if error.choices else f"these sessions are from other devices{other}"
    hint = f"forestay resume {rest[0][0]}"
    raise NoSession(error.what, why=why, hint=hint, choices=[*error.choices, *rest])


_BY_NAME, _BY_COMMIT = 1, 2
_MOST_CHECKED = 50


class _Arrived(Struct, frozen=True):
    """An open session from another device; it belongs to no project of this machine yet."""

    id: str
    status: str
    goal: str
    fits: int
    is_own: bool


def _arrived(context: Context, row: dict[str, Any]) -> _Arrived:
    with context.store.view(row["id"]) as view:
        core = context.journal.state(view).core
    tree, fits = context.workspace.tree, 0
    if _is_of(tree, core):
        fits = _BY_COMMIT
    elif core.project.casefold() == os.path.basename(tree.main).casefold():
        fits = _BY_NAME
    begun_by = next(iter(core.chains), "")
    return _Arrived(row["id"], row["status"], row["goal"], fits, begun_by not in persons(context))


def origin(context: Context, state: State) -> str:
    """Return the id of the device that wrote to the session last; "" if it is this device."""
    ends = [
        (clock, n, device)
        for device, chain in state.core.chains.items()
        for n, _, clock in chain.heads
    ]
    last = max(ends, default=(0, 0, ""))[2]
    return last if last != context.store.machine.device else ""


def last_on(context: Context, device: str) -> str:
    """Return the id of the open session that the device with this name worked on last."""
    met: dict[str, None] = {}
    for row in context.store.catalogue():
        if row["status"] in ("completed", "aborted", "abandoned"):
            continue
        with context.store.view(str(row["id"])) as view:
            state = context.journal.state(view)
            chain = origin(context, state) or context.store.machine.device
        met[name_of(context, chain)] = None
        if device.casefold() in (chain.casefold(), name_of(context, chain).casefold()):
            return str(row["id"])
    known = ", ".join(met) or "no device"
    raise InvalidInput(
        f"no open session was last used on {device}",
        why=f"open sessions were last used on: {known}",
        hint="forestay sync --pull; then: forestay list --all",
    )


# -- what is missing here ----------------------------------------------------------------------


def findings(session: Recorder, state: State, drift: list[tuple[str, str]]) -> list[Finding]:
    """Return what differs between this device and the one where the session was last worked on.

    If that is this device, compare the commit with that of the device used before, until the
    session is paused on this device.
    """
    core = state.core
    if not origin(session.context, state):
        return _commit(session, Checkout(*core.git_there)) if core.git_there else []
    return [
        *_project(session, state),
        *_commit(session, Checkout(core.git_branch, core.git_commit)),
        *_tools(session, state),
        *_files(session, state, drift),
    ]


def _lack(code: str, what: str, fix: str = "") -> Finding:
    return Finding(code, "warning", what, fix=fix)


def _project(session: Recorder, state: State) -> list[Finding]:
    tree = session.context.workspace.tree
    recorded, here = state.core.project, os.path.basename(tree.main)
    # A repository with a commit of the session is the same project, whatever its folder is called.
    if not recorded or recorded == here or _is_of(tree, state.core):
        return []
    what = f"the session was started in project {recorded}; this folder is project {here}"
    return [_lack("project", what)]


def _is_of(tree: Tree, core: Core) -> bool:
    """Return whether any commit of the session is in this repository."""
    commits = dict.fromkeys(filter(None, (core.git_first, core.git_commit)))
    return any(_commit_is_here(tree, commit) for commit in commits)


def _commit(session: Recorder, other: Checkout) -> list[Finding]:
    tree = session.context.workspace.tree
    if not other.commit:
        return []
    if tree.git_dir is None:
        what = f"the session was last at {other}; this folder is not a git repository"
        return [_lack("commit", what)]
    if not _commit_is_here(tree, other.commit):
        return [_no_commit(tree, other)]
    behind, ahead = _apart(tree, other.commit)
    if not behind:
        return []
    more = f", and has {ahead} that the other device does not have" if ahead else ""
    text = f"the checkout lacks {plural(behind, 'commit')} up to {other}{more}"
    return [_lack("commit", text, _onward(other, session.context.checkout()[0]))]


def _onward(other: Checkout, branch: str) -> str:
    """Return the git command that brings the other device's commit into this checkout.

    `branch` is checked out now: switch to the other device's branch, or merge if it is the same.
    """
    if other.branch != branch and _BRANCH.fullmatch(other.branch):
        return f"git switch {other.branch}"
    return f"git merge {other.commit[:10]}"


_BRANCH, _VERSION = re.compile(r"[\w.][\w./+@#-]{,99}"), re.compile(r"[\w.+-]{1,40}")
"""Branch names and hashes that are safe to print and to type: a journal can contain any text."""


def _apart(tree: Tree, commit: str) -> tuple[int, int]:
    """Return how many commits only the history of `commit` has, and how many only the checkout."""
    counts = _git(tree, "rev-list", "--left-right", "--count", f"{commit}...HEAD")
    # A branch without any commit has no HEAD yet.
    behind, *ahead = (counts or _git(tree, "rev-list", "--count", commit) or b"0").split()
    return int(behind), int(ahead[0]) if ahead else 0


def _no_commit(tree: Tree, other: Checkout) -> Finding:
    # Git can be missing, or refuse a repository of another user: then it is unknown whether the
    # repository has the commit.
    shallow = _git(tree, "rev-parse", "--is-shallow-repository")
    if shallow is None:
        what = f"the session was last at {other}; git cannot read the repository of this folder"
        return _lack("commit", what)
    if shallow.strip() == b"true":
        text = f"{other} is not in this shallow clone; push it from the other device, then fetch"
        return _lack("commit", text, "git fetch --unshallow")
    text = f"{other} is not in this repository; push it from the other device, then fetch"
    return _lack("commit", text, "git fetch")


def _commit_is_here(tree: Tree, commit: str) -> bool:
    # A journal can come from another person: pass nothing but a commit hash to git.
    named = _HASH.fullmatch(commit)
    return bool(named) and _git(tree, "cat-file", "-e", f"{commit}^{{commit}}") is not None


_HASH = re.compile("[0-9a-f]{7,64}")


def _git(tree: Tree, *arguments: str) -> bytes | None:
    return git.run_git(tree, child_environment(), *arguments, timeout=_SECONDS)


def tools(context: Context) -> dict[str, str]:
    """Return the versions of the tools on this device, by name."""
    words = (_git(context.workspace.tree, "version") or b"").decode("utf-8", "replace").split()
    found = {"forestay": __version__, "python": ".".join(map(str, sys.version_info[:3]))}
    return {**found, "git": words[2]} if words[:2] == ["git", "version"] else found


def _tools(session: Recorder, state: State) -> list[Finding]:
    then = _recorded_tools(state)
    if not then:
        return []
    now = tools(session.context)
    if session.context.workspace.tree.git_dir is None:
        then.pop("git", None)  # without a repository the version of git is irrelevant
    return [
        _lack("tool", f"{name} was {version}; on this device it is {now.get(name, 'missing')}")
        for name, version in then.items()
        if now.get(name) != version
    ]


def _recorded_tools(state: State) -> dict[str, str]:
    row = state.rows.get("attribute", TOOLS) if state.count("attribute") else None
    text = row.value if isinstance(row, Attribute) and isinstance(row.value, str) else ""
    pairs = (part.strip().partition(" ") for part in text.split(","))
    known = {name: version for name, _, version in pairs if _VERSION.fullmatch(version)}
    return {name: known[name] for name in _TOOLS if name in known}


def record_tools(session: Recorder) -> list[Body]:
    """Return an event with the versions of tools if they changed; none without a remote."""
    context = session.context
    if not context.store.machine.remotes.all():
        return []
    now = tools(context)
    with context.store.view(session.id) as view:
        if _recorded_tools(context.journal.state(view)) == now:
            return []
    text = ", ".join(f"{name} {version}" for name, version in now.items())
    return [AttributeSet(key=TOOLS, value=text)]


def _files(session: Recorder, state: State, drift: list[tuple[str, str]]) -> list[Finding]:
    kept = _restorable(session, state)
    missing = list(dict.fromkeys([path for path, word in drift if word == "missing"] + kept))
    if not missing:
        return []
    shown = ", ".join(missing[:_FEW]) + (f" and {len(missing) - _FEW} more" * (len(missing) > _FEW))
    found = [_lack("file", f"missing on this device: {shown}")]
    if kept:
        text = f"{len(kept)} of the missing files are stored with the session"
        found.append(_lack("artifact", text, "forestay resume --restore"))
    return found


def _restorable(session: Recorder, state: State) -> list[str]:
    """Return the paths of missing artifacts that can be restored; check at most a fixed number."""
    root, most = session.context.workspace.tree.root, session.context.settings.drift_files
    rows = state.rows.select("artifact") if state.count("artifact") else ()
    kept = [row.path for row in rows if isinstance(row, Artifact) and row.kept][:most]
    places = {path: _allowed(path, root) for path in kept}
    return [path for path, place in places.items() if place and not os.path.lexists(place)]


# -- artifacts ---------------------------------------------------------------------------------


def restore(session: Recorder, *, force: bool = False) -> list[Put]:
    """Write missing artifacts of a session into its project.

    With `force`, also replace files whose content differs.
    """
    with session.context.store.view(session.id) as view:
        rows = list(session.context.journal.state(view).rows.select("artifact"))
    return [_put(session, row, force) for row in rows if isinstance(row, Artifact)]


def _allowed(stored: str, root: str) -> str:
    """Return the path where an artifact is restored; "" if writing there is not safe."""
    try:
        path = absolute(stored, root)
    except InvalidInput:
        return ""
    # A link in the project can lead to a hidden file.
    led = os.path.relpath(os.path.realpath(path), root)
    return path if is_harmless(stored) and is_harmless(led) else ""


def write(session: Recorder, path: str, to: str, *, overwrite: bool = False) -> int:
    """Write the stored content of an artifact to a path; return its size.

    `path` is the path as recorded, or relative to the current folder.
    """
    with session.context.store.view(session.id) as view:
        rows = list(session.context.journal.state(view).rows.select("artifact"))
    kept = {row.path: row.digest for row in rows if isinstance(row, Artifact) and row.kept}
    digest = kept.get(path) or kept.get(_recorded_as(path, session.context.workspace.tree.root))
    data = session.context.store.blob(digest) if digest else None
    if data is None:
        what = f"session {session.id} has no content of {path}"
        why = f"it has the content of: {', '.join(list(kept)[:_FEW]) or 'no file'}"
        raise InvalidInput(what, why=why, session=session.id)
    (files.replace if overwrite else files.create)(to, [data])
    return len(data)


def _recorded_as(path: str, root: str) -> str:
    try:
        return relative(path, root)
    except InvalidInput:
        return ""


def _put(session: Recorder, row: Artifact, force: bool) -> Put:
    path = _allowed(row.path, session.context.workspace.tree.root)
    if not path:
        return Put(row.path, "refused")
    data = session.context.store.blob(row.digest) if row.kept else None
    if data is None:
        return Put(row.path, "unknown")
    try:
        return Put(row.path, _written(path, data, row.digest, force))
    except (InvalidInput, Refused):
        # A folder, a link or a pipe has this path. The other artifacts are still restored.
        return Put(row.path, "blocked")
    except ReadOnly:
        return Put(row.path, "denied")


def _written(path: str, data: bytes, digest: str, force: bool) -> str:
    there = files.read_optional(path, _KNOWN, follow=False)
    if there is not None and digest_of(there) == digest:
        return "same"
    if there is not None and not force:
        return "differs"
    files.require_no_link(os.path.dirname(path))
    files.make_folder(os.path.dirname(path))
    files.replace(path, data, mode=0o644)
    return "written"
