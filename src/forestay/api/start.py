"""Start a session: record its first events, or resume the open session of the same workflow.

The plan is copied from the workflow at that moment. There is at most one open session of a workflow
on a target: starting the same again returns that one, also when two processes start it at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct
from msgspec.structs import replace

from forestay.api.session import Session
from forestay.base import clock as clocks
from forestay.base.text import clean_id, clean_input, terminal
from forestay.errors import InvalidInput
from forestay.formats.registry import REGISTRY
from forestay.journal.context import Context
from forestay.journal.journal import AppendOptions
from forestay.mirror.session_files import mirror_of
from forestay.model.event import Body, PlanSet, SessionStarted
from forestay.model.rules import validate
from forestay.workspace.current_session import find_session

TYPE_CHECKING = False
if TYPE_CHECKING:
    Blobs = Sequence[tuple[str, bytes]]


class _AlreadyOpen(Exception):
    """There is an open session of the same workflow on the same target, to be resumed."""

    def __init__(self, session: str) -> None:
        super().__init__(session)
        self.session = session


class StartOptions(Struct, frozen=True, kw_only=True):
    """The arguments of `Forestay.start`."""

    goal: str
    mode: str = "default"
    id: str = ""
    from_session: str = ""
    formats: Sequence[str] = ()
    workflow: str = ""
    target: str = ""
    pushback: str = ""
    key: str = ""


def start_session(context: Context, wanted: StartOptions) -> Session:
    """Record the start of a session and write its files in the formats; see `Forestay.start`."""
    goal = clean_goal(wanted.goal, wanted.mode)
    if wanted.formats:
        from forestay.formats.port import canonical_name

        wanted = replace(wanted, formats=list(map(canonical_name, wanted.formats)))
    session = _clean_session_id(context, wanted.id) if wanted.id else _new_id(context, wanted.key)
    plan, blobs = _plan_events(context, wanted)
    body = _start_event(context, wanted, goal)
    started = Session(context, session)
    spot = context.workspace.spot()

    def check_open() -> None:
        if plan and not wanted.id:
            open_one = _find_open(context, plan)
            if open_one and open_one != session:
                raise _AlreadyOpen(open_one)

    try:
        check_open()
        with _reserve_places(context, session, wanted.formats) as file_work:
            started._recorder.record(
                body,
                *plan,
                key=wanted.key,
                create=True,
                # `check_open` runs again under the writer lock: another process can be faster.
                blobs=blobs,
                options=AppendOptions(tree=spot, file_work=file_work, check=check_open),
            )
    except _AlreadyOpen as other:
        found = Session(context, other.session)
        _add_formats(found, wanted.formats)
        found.resume()
        found.was_open = True
        return found
    if started.repeated and wanted.formats:
        _add_formats(started, wanted.formats)  # the first call with this key can have named none
    return started


@contextmanager
def _reserve_places(
    context: Context, session: str, formats: Sequence[str]
) -> Iterator[Sequence[str]]:
    """Reserve the places of a session's files; yield the file work to record with its start.

    A place that the session cannot have is refused, and no other process gets it meanwhile. If this
    process dies, the next one that writes to the session does the file work.
    """
    if not formats:
        yield ()  # do not load the code for files
        return
    from forestay.plans import pending_file_ops

    kinds = [chosen.partition(":")[0] for chosen in formats]
    with mirror_of(context).hold_projects(*map(mirror_of(context).root_of, kinds)):
        _require_places(context, session, formats)
        # Bind formats with an id first: those without one then use the same id.
        in_order = sorted(formats, key=lambda chosen: ":" not in chosen)
        yield [pending_file_ops.keep(context, session, in_order)]
        pending_file_ops.finish(context, session)


def _require_places(context: Context, session: str, formats: Sequence[str]) -> None:
    """Refuse places that a session cannot have, before anything is recorded."""
    wanted = [chosen.partition(":")[::2] for chosen in formats]
    mirror_of(context).require_places(session, [(kind, native) for kind, native in wanted])
    for kind, native in wanted:
        if not REGISTRY[kind][1]:
            from forestay.plans.essay_sessions import require_free

            require_free(context, session, native)


def clean_goal(goal: str, mode: str) -> str:
    """Return the cleaned goal; refuse an empty or too long goal, and an unknown mode."""
    goal = clean_input(goal, "goal", limit=2000, lines=False)
    validate(SessionStarted(goal=goal, mode=mode))
    return goal


# -- the first events --------------------------------------------------------------------------


def _clean_session_id(context: Context, id: str) -> str:
    session = clean_id(id, "session id")
    if context.journal.find_secrets(id):
        raise InvalidInput("the session id looks like a secret", why="ids are stored permanently")
    return session


def _new_id(context: Context, key: str) -> str:
    """Return a new id; with a key, the id that this key always gives in this folder."""
    if not key:
        return clocks.short_id(context.clock)
    from forestay.base.process import machine_id

    where = (machine_id(), context.settings.home, context.workspace.tree.root)
    return f"k{clocks.derived_id('start', *where, key)[:15]}"


def _start_event(context: Context, wanted: StartOptions, goal: str) -> Body:
    branch, commit = context.checkout()
    origin = wanted.from_session
    return SessionStarted(
        goal=goal,
        mode=wanted.mode,
        from_session=find_session(context.store, origin) if origin else "",
        # A folder's name can contain any bytes, but events contain only valid text.
        project=terminal(os.path.basename(context.workspace.tree.main)),
        git_branch=branch,
        git_commit=commit,
    )


def _plan_events(context: Context, wanted: StartOptions) -> tuple[Sequence[Body], Blobs]:
    """Return the events of the plan, and the blobs that they refer to."""
    if wanted.target and not wanted.workflow:
        raise InvalidInput("a target requires a workflow", hint="--workflow NAME")
    plan, blobs = (
        _workflow_events(context, wanted.workflow, wanted.target) if wanted.workflow else ((), ())
    )
    plan = plan or _first_steps(wanted.formats)
    return [*plan, *_pushback_event(plan, wanted.pushback)], blobs


def _workflow_events(context: Context, workflow: str, target: str) -> tuple[Sequence[Body], Blobs]:
    """Return the first events of a plan, and the definition to store with the session."""
    from forestay.base.hashing import digest_of
    from forestay.model.gates.phase_moves import begin_plan
    from forestay.model.plan import snapshot
    from forestay.plans import workflows

    if context.cwd and workflows.is_path(workflow):
        workflow = os.path.join(context.cwd, os.path.expanduser(workflow))
    found = workflows.find(workflow, context.workspace.tree.root)
    data = snapshot(found)
    digest = digest_of(data)
    inside = _relative_target(context, target) if target else ""
    return begin_plan(found, target=inside, snapshot=digest), [(digest, data)]


def _relative_target(context: Context, target: str) -> str:
    from forestay.workspace.tree import relative

    root = context.workspace.tree.root
    inside = relative(target, root, cwd=context.folder)
    real = os.path.realpath(os.path.join(root, inside))
    if real != root and not real.startswith(root.rstrip(os.sep) + os.sep):
        why = "a link leads out of the project"
        raise InvalidInput(f"{target[:200]} cannot be the target", why=why, file=target)
    return inside


def _first_steps(formats: Sequence[str]) -> Sequence[Body]:
    """Return the steps that sessions with files, but without a workflow, have in a format."""
    if not formats:
        return []  # do not load the code for files
    from forestay.formats.port import load_format
    from forestay.model.event import StepAdded

    return [
        StepAdded(step=step.id, title=step.title, unit=step.unit)
        for chosen in formats
        for step in load_format(chosen.partition(":")[0]).first_steps()
    ]


def _pushback_event(plan: Sequence[Body], level: str) -> Sequence[Body]:
    from forestay.base.vocabulary import PUSHBACK
    from forestay.model.essay.moves import WORKFLOW, name_of
    from forestay.model.event import AttributeSet

    if not level:
        return []
    if level not in PUSHBACK:
        raise InvalidInput(f"unknown pushback: {level}", why=f"it is one of {', '.join(PUSHBACK)}")
    # Steps without the plan of a workflow are the stages of an essay.
    if not plan or getattr(plan[0], "workflow", WORKFLOW) != WORKFLOW:
        raise InvalidInput("pushback requires an essay", hint=f"--workflow {WORKFLOW}")
    return [AttributeSet(key=name_of("pushback_level"), value=level)]


# -- a session that is open -------------------------------------------------------------------


def _find_open(context: Context, plan: Sequence[Body]) -> str:
    """Return the open session of this project with the same workflow and target; else empty."""
    from json import loads

    from forestay.model.summary import plan_key

    body = plan[0] if plan else None
    key = plan_key(body.workflow, body.target) if isinstance(body, PlanSet) else ""
    for row in context.workspace.list_open() if key else ():
        if row["sound"] and loads(str(row["summary"])).get("plan", {}).get("key") == key:
            return str(row["id"])
    return ""


def _add_formats(session: Session, formats: Sequence[str]) -> None:
    """Write the files of an existing session in these formats too."""
    bound = {binding.format for binding in session.files.list()}
    for chosen in formats:
        if chosen.partition(":")[0] not in bound:
            session.files.bind(chosen)
