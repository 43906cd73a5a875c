"""The functions that the format specifications name, for programs that already call them.

    save_session … resume_from_state     the one current session of a project, `.claude/` (S4)
    WorkflowState, create_session …      a phased workflow (S1)

The first kind works on files as S4 describes, and adds what S4 omits: writes are durable,
a file that cannot be read or belongs to another session is never overwritten, and where the file
belongs to a recorded session, the state is absorbed into its journal. They work on the current
folder, or on `root`; an open `Forestay` can be passed as `home`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from msgspec import Struct

from forestay.api import start
from forestay.api.forestay import Forestay
from forestay.api.forestay import open as open_home
from forestay.base import files, swap_file
from forestay.base.clock import Clock
from forestay.base.findings import Choice
from forestay.base.text import clean_id, terminal
from forestay.errors import Damaged, InvalidInput, NoSession, Refused
from forestay.formats import timestamps
from forestay.formats.facts import Facts
from forestay.formats.orchestrator import format as form
from forestay.formats.orchestrator import schema
from forestay.formats.port import REGISTRY, Where
from forestay.formats.praxis import api_types as workflow
from forestay.formats.praxis.api_types import CheckpointStatus, PhaseArtifact, ResumptionContext
from forestay.formats.praxis.read import is_count
from forestay.formats.praxis.write import LIFECYCLE, scheme
from forestay.formats.status_words import unit_status, unit_word
from forestay.formats.text.document import Document, fresh
from forestay.formats.text.safe_parse import LONGEST, Unreadable
from forestay.mirror import orchestrator_session
from forestay.mirror.session_files import absorb_file_edits, mirror_of, write_files
from forestay.plans.praxis_definition import first_of, starting_phase
from forestay.store.machine.bindings import Binding
from forestay.workspace.tree import find_tree, head

__all__ = [
    "CheckpointStatus",
    "CorruptSession",
    "Loaded",
    "PhaseArtifact",
    "ResumptionContext",
    "WorkflowState",
    "archive_session",
    "create_new_session",
    "create_session",
    "list_history",
    "load_session",
    "look",
    "resume_from_state",
    "resumption_context",
    "save_session",
    "start_workflow",
    "starting_phase",
    "update_agent_status",
]

State = dict[str, Any]
Root = str | os.PathLike[str] | None

_FOLDER = REGISTRY[schema.ID][1]


class CorruptSession(Damaged):
    """The current session file cannot be read. `choices` are what to do, `menu` is their text."""

    choices: tuple[Choice, ...] = ()
    menu: str = ""


class Loaded(Struct):
    """The state of the current file: `none`, `incompatible`, `corrupt` or `ok`."""

    kind: str
    path: str
    state: State | None = None
    why: str = ""


# -- the current session ---------------------------------------------------------------------------


def look(root: Root = None) -> Loaded:
    """Return what the current session file contains, without changing anything."""
    path = _current(root)
    try:
        data = files.read_optional(path, LONGEST)
        value = None if data is None else Document.parse(data, "json").value
    except (Unreadable, InvalidInput) as error:
        return Loaded("corrupt", path, why=str(error))
    if data is None:
        return Loaded("none", path)
    if not isinstance(value, dict):
        return Loaded("corrupt", path, why="it does not contain an object")
    version = value.get("schema_version")
    if version != schema.VERSION:
        return Loaded("incompatible", path, value, f"version {version!r} is unknown")
    return Loaded("ok", path, value)


def load_session(root: Root = None) -> State | None:
    """Return the current session; None if there is none, or one of an unknown version.

    A file that cannot be read raises `CorruptSession`, with the possible choices.
    """
    found = look(root)
    if found.kind == "corrupt":
        question = form.recovery(os.path.basename(_free_name(found.path)))
        why, hint = found.why, "forestay doctor"
        error = CorruptSession(form.CORRUPTED, why=why, hint=hint, file=found.path)
        error.choices, error.menu = question.choices, question.menu
        raise error
    return found.state if found.kind == "ok" else None


def save_session(state: State, root: Root = None, *, home: Forestay | None = None) -> Path:
    """Write the current session durably, with `updated` set to now; return the file.

    Another session's file is archived first, one that cannot be read is renamed, and one of an
    unknown version is refused.
    """
    _require_writable(state)
    with _opened(root, home) as stay, mirror_of(stay.context).hold_projects(_folder(root)):
        state["updated"] = timestamps.write(stay.context.clock.now())
        _bytes(state)
        archived = _make_room(stay, root, state)
        _write(stay, root, state)
        # An archived session that is not finished is bound again to the file it was just saved to.
        id = str(state.get("session_id"))
        for binding in stay.context.store.machine.bindings.named(schema.ID, id):
            if mirror_of(stay.context).return_from_archive(binding, _current(root)):
                absorb_file_edits(stay.context, binding.session)
        if archived is not None:
            # Another program can have overwritten its file: write the archive from the journal.
            write_files(stay.context, archived.session, force=True)
    return Path(_given(root), _FOLDER, form.CURRENT)


def archive_session(state: State, root: Root = None, *, home: Forestay | None = None) -> Path:
    """Store a session under its id in the history and free the current file; return the copy."""
    _require_writable(state)
    name = form.archive_name(clean_id(state.get("session_id", ""), "session_id"))
    with _opened(root, home) as stay, mirror_of(stay.context).hold_projects(_folder(root)):
        _bytes(state)
        owner = _owner(stay, root)
        if owner is None or owner.native != state["session_id"]:
            _archive_file(root, name, state)
            return Path(_given(root), _FOLDER, name)
        found = _move_if_corrupt(look(root))
        if found.state and found.state.get("session_id") != owner.native:
            # The current file now has another session, so it is not touched.
            mirror_of(stay.context).archive(owner)
            _archive_file(root, name, state)
            absorb_file_edits(stay.context, owner.session)
        else:
            _write(stay, root, state)
            mirror_of(stay.context).archive(owner)
    return Path(_given(root), _FOLDER, name)


def list_history(limit: int = 10, root: Root = None) -> list[dict[str, str]]:
    """Return archived sessions, newest first by file name: `id`, `goal`, `status`, `created`."""
    rows = orchestrator_session.list_archived(_folder(root), limit)
    return [{key: row[key] for key in row if key != "path"} for row in rows]


def create_new_session(
    goal: str, mode: str = "default", root: Root = None, *, clock: Clock | None = None
) -> State:
    """Return the state of a session that begins now, with all keys of S4, without saving it."""
    goal, now = start.clean_goal(goal, mode), (clock or Clock()).now()
    here = _absolute(root)
    where = Where(now=now, root=_folder(root), project_path=here)
    branch = terminal(head(find_tree(here))[0] or "")
    facts = Facts(goal=goal, mode=mode, status="created", began_at=now, git_branch=branch)
    made: State = form.FORMAT.put(None, facts, where)[form.CURRENT]
    return made


def update_agent_status(
    state: State, agent_id: str, status: str, result: str | None = "", *, clock: Clock | None = None
) -> State:
    """Record the status of an agent: `in_progress`, `complete` with its result, or `failure`.

    An unknown agent is added. A failure is logged under `errors`. The state is not saved.
    """
    known = unit_status(schema.ID, status)
    word = unit_word(schema.ID, known) if known else status
    if word not in schema.AGENT_STATUSES:
        why = f"it is one of {', '.join(schema.AGENT_STATUSES)}"
        raise InvalidInput(f"unknown agent status: {status}", why=why)
    if not isinstance(result, str | None):
        why = f"it is {type(result).__name__}"
        raise InvalidInput("the result of an agent must be text", why=why)
    now = timestamps.write((clock or Clock()).now())
    agent = _agent(state, agent_id, now)
    agent["status"] = word
    if word == "in_progress":
        for key in ("completed", "result_summary"):
            agent.pop(key, None)
    elif word == "complete":
        agent.pop("progress", None)
        agent |= {"completed": now, "result_summary": result or ""}
    else:
        agent["completed"] = now
        error = {"message": result or "", "category": "", "agent": agent_id, "timestamp": now}
        _list_of(state, "errors").append(error)
    return state


def resume_from_state(
    state: State | None, root: Root = None, *, home: Forestay | None = None
) -> State:
    """Resume a session: set it to in progress and save it. None raises `NoSession`."""
    if state is None:
        hint = "begin one: forestay start GOAL --bind orchestrator"
        raise NoSession(orchestrator_session.NOTHING, hint=hint)
    word = state.get("status")
    if word != "in_progress" and not schema.may_become(str(word), "in_progress"):
        raise Refused(
            f"session {state.get('session_id')} is {word}",
            why="a finished session cannot be resumed",
            legal=schema.LIFECYCLE.get(str(word), ()),
        )
    state["status"] = "in_progress"
    save_session(state, root, home=home)
    return state


# -- files of the current session ------------------------------------------------------------------


def _given(root: Root) -> str:
    return os.fspath(root) if root is not None else ""


def _absolute(root: Root) -> str:
    return os.path.abspath(_given(root) or ".")


def _folder(root: Root) -> str:
    return os.path.join(os.path.realpath(_given(root) or "."), _FOLDER)


def _current(root: Root) -> str:
    return os.path.join(_folder(root), form.CURRENT)


@contextmanager
def _opened(root: Root, home: Forestay | None) -> Iterator[Forestay]:
    if home is not None:
        yield home
        return
    with open_home(cwd=_absolute(root)) as stay:
        yield stay


def _owner(stay: Forestay, root: Root) -> Binding | None:
    return stay.context.store.machine.bindings.owner(_current(root))


def _require_writable(state: State) -> None:
    if not isinstance(state, dict) or state.get("schema_version") != schema.VERSION:
        why = f'schema_version must be "{schema.VERSION}"'
        raise InvalidInput("not saved: this is not the state of a session", why=why)


def _free_name(path: str) -> str:
    """Return the next free name for a file that cannot be read."""
    names = (f"{path}.corrupt{f'-{n}' if n > 1 else ''}" for n in range(1, 10_000))
    return next(name for name in names if not os.path.lexists(name))


def _make_room(stay: Forestay, root: Root, state: State) -> Binding | None:
    """Move another session out of the current file; return its binding if Forestay records it."""
    found, owner = _move_if_corrupt(look(root)), _owner(stay, root)
    named, own = (found.state or {}).get("session_id"), state.get("session_id")
    if found.kind == "incompatible":
        raise Refused(f"{found.path} is not overwritten", why=found.why, hint="move it away first")
    # A file without an id is an edit of the recorded session or, if none, another session.
    known = (own,) if owner is None else (own, owner.native, None, "")
    if found.kind == "ok" and named not in known:
        orchestrator_session.archive_file(found.path, named)
    if owner is None or owner.native == own:
        return None
    mirror_of(stay.context).archive(owner)
    return owner


def _move_if_corrupt(found: Loaded) -> Loaded:
    """Rename a current file that cannot be read; return what is then in its place."""
    if found.kind != "corrupt":
        return found
    files.move(found.path, _free_name(found.path))
    return Loaded("none", found.path)


def _write(stay: Forestay, root: Root, state: State) -> None:
    """Write the current file; if it belongs to a recorded session, absorb it into the journal."""
    path, data = _current(root), _bytes(state)
    files.make_folder(os.path.dirname(path))
    owner = _owner(stay, root)
    if owner is None:
        return files.replace(path, data, mode=0o644)
    # Edits of other programs are absorbed first, or stored next to the file, never overwritten.
    absorb_file_edits(stay.context, owner.session)
    with files.locked(os.path.dirname(path), clock=stay.context.clock):
        swap_file.exchange(path, data, mode=0o644)
    absorb_file_edits(stay.context, owner.session)


def _archive_file(root: Root, name: str, state: State) -> None:
    target = os.path.join(_folder(root), name)
    files.make_folder(os.path.dirname(target))
    files.replace(target, _bytes(state), mode=0o644)
    found = look(root)
    if found.state and found.state.get("session_id") == state["session_id"]:
        files.remove(found.path)


def _bytes(state: State) -> bytes:
    try:
        return fresh("json", state)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput("the state cannot be written as JSON", why=str(error)) from error


# -- agents in the state -----------------------------------------------------------------------


def _agent(state: State, agent_id: str, now: str) -> State:
    if not isinstance(agent_id, str) or not agent_id.strip():
        raise InvalidInput("an agent needs an id", why=f"{agent_id!r} is not a usable id")
    agents = _list_of(state, "agents")
    for agent in agents:
        if isinstance(agent, dict) and agent.get("id") == agent_id:
            return agent
    kind = agent_id.rpartition("-")[0] or "custom"
    new = {"id": agent_id, "type": kind, "task": "", "status": "in_progress", "started": now}
    agents.append(new)
    return new


def _list_of(state: State, key: str) -> list[Any]:
    if not isinstance(state.get(key), list):
        state[key] = []
    found: list[Any] = state[key]
    return found


# -- phased workflows ------------------------------------------------------------------------------


class WorkflowState(workflow.WorkflowState):
    """The state of one workflow session, with the clock of this machine."""

    def moment(self) -> datetime:
        # A time without a zone cannot be subtracted from a time with one.
        return datetime.now(UTC if self.created_at.tzinfo else None)


def start_workflow(
    workflow_type: str,
    target_file: str,
    metadata: Mapping[str, Any],
    *,
    workflow_dir: Root = None,
    session_id: str = "",
    now: datetime | None = None,
) -> WorkflowState:
    """Begin a workflow; its definition decides how many phases there are and which is first."""
    first = starting_phase(metadata, workflow_dir)
    return create_session(
        workflow_type, target_file, metadata, starting_phase=first, session_id=session_id, now=now
    )


def create_session(
    workflow_type: str,
    target_file: str,
    metadata: Mapping[str, Any],
    *,
    starting_phase: int | None = None,
    session_id: str = "",
    now: datetime | None = None,
) -> WorkflowState:
    """Return a session at its first phase, with a copy of the workflow's structure.

    A number of phases that is still unknown (`dynamic`) is None until it is resolved.
    """
    first = first_of(metadata) if starting_phase is None else starting_phase
    now = now or datetime.now(UTC)
    total = metadata.get("total_phases")
    return WorkflowState(
        session_id=session_id or str(uuid4()),
        workflow_type=workflow_type,
        target_file=target_file,
        current_phase=first,
        completed_phases=[],
        phase_artifacts={},
        checkpoints={},
        created_at=now,
        updated_at=now,
        workflow_structure={
            "total_phases": total if is_count(total) else None,
            "starting_phase": first,
            "indexing_scheme": scheme(first),
            "workflow_version": str(metadata.get("version") or ""),
        },
        lifecycle=dict(LIFECYCLE),
        phase_timing={first: {"started_at": workflow.stamp(now)}},
    )


def resumption_context(
    state: WorkflowState, now: datetime | None = None, total: int | None = None
) -> ResumptionContext:
    """Return the resumption context; `total` is the definition's number of phases, if known."""
    return workflow.resumption_context(state, now or datetime.now(UTC), total)
