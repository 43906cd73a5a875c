"""How a session begins: what is recorded first, and when an open one is taken up instead.

A plan is kept as it is when the session begins. There is one open session of a workflow on a
target: whoever begins the same is given that one, also when two begin it at the same moment.
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
    """There is an open session of the same workflow on the same target: that one is meant."""

    def __init__(self, session: str) -> None:
        super().__init__(session)
        self.session = session


class Wanted(Struct, frozen=True, kw_only=True):
    """What a session is to begin with; see `Forestay.start`."""

    goal: str
    mode: str = "default"
    id: str = ""
    from_session: str = ""
    formats: Sequence[str] = ()
    workflow: str = ""
    target: str = ""
    pushback: str = ""
    key: str = ""


def begin(context: Context, wanted: Wanted) -> Session:
    """Record that a session begins, and keep its files in the formats; see `Forestay.start`."""
    goal = require(wanted.goal, wanted.mode)
    if wanted.formats:
        from forestay.formats.port import canonical_name

        wanted = replace(wanted, formats=list(map(canonical_name, wanted.formats)))
    session = _checked(context, wanted.id) if wanted.id else _new_id(context, wanted.key)
    plan, blobs = _planned(context, wanted)
    body = _started(context, wanted, goal)
    begun = Session(context, session)
    spot = context.workspace.spot()

    def look() -> None:
        if plan and not wanted.id:
            _yield_to_open(context, plan, session)

    try:
        look()
        with _places(context, session, wanted.formats) as chores:
            begun._recorder.record(
                body,
                *plan,
                key=wanted.key,
                create=True,
                # Once more under the writer lock: two that begin the same must not both see none.
                blobs=blobs,
                options=AppendOptions(tree=spot, file_work=chores, check=look),
            )
    except _AlreadyOpen as other:
        return _take_up_again(context, other.session, wanted.formats)
    if begun.repeated and wanted.formats:
        _add(begun, wanted.formats)  # whoever began it may have named none
    return begun


@contextmanager
def _places(context: Context, session: str, formats: Sequence[str]) -> Iterator[Sequence[str]]:
    """Record inside that a session begins, with these chores: they give it its places.

    What it cannot have is refused before, and nobody else takes it meanwhile; should this process
    die, the next one that writes to the session does the chores.
    """
    if not formats:
        yield ()  # a session without files pays nothing for them
        return
    from forestay.plans import pending_file_ops

    kinds = [chosen.partition(":")[0] for chosen in formats]
    with mirror_of(context).hold_projects(*map(mirror_of(context).root_of, kinds)):
        _require_places(context, session, formats)
        # Those with an id first: whoever names none will have the one that it has.
        in_order = sorted(formats, key=lambda chosen: ":" not in chosen)
        yield [pending_file_ops.keep(context, session, in_order)]
        pending_file_ops.finish(context, session)


def _require_places(context: Context, session: str, formats: Sequence[str]) -> None:
    """Refuse places that a session cannot have, before anything is recorded of it."""
    wanted = [chosen.partition(":")[::2] for chosen in formats]
    mirror_of(context).require_places(session, [(kind, native) for kind, native in wanted])
    for kind, native in wanted:
        if kind == "essay":
            from forestay.plans.essay_sessions import require_free

            require_free(context, session, native)


def require(goal: str, mode: str) -> str:
    """Refuse a goal or a mode that no session has, before anything is done; returns the goal."""
    goal = clean_input(goal, "goal", limit=2000, lines=False)
    validate(SessionStarted(goal=goal, mode=mode))
    return goal


# -- what is recorded --------------------------------------------------------------------------


def _checked(context: Context, id: str) -> str:
    session = clean_id(id, "session id")
    if context.journal.find_secrets(id):
        raise InvalidInput("the session id looks like a secret", why="ids are kept for ever")
    return session


def _new_id(context: Context, key: str) -> str:
    """A fresh id; with a key the one that the same key gives again in this folder."""
    if not key:
        return clocks.short_id(context.clock)
    from forestay.base.process import machine_id

    where = (machine_id(), context.settings.home, context.workspace.tree.root)
    return f"k{clocks.derived_id('start', *where, key)[:15]}"


def _started(context: Context, wanted: Wanted, goal: str) -> Body:
    branch, commit = context.checkout()
    origin = wanted.from_session
    return SessionStarted(
        goal=goal,
        mode=wanted.mode,
        from_session=find_session(context.store, origin) if origin else "",
        # A folder may have any bytes for a name; what is recorded is text.
        project=terminal(os.path.basename(context.workspace.tree.main)),
        git_branch=branch,
        git_commit=commit,
    )


def _planned(context: Context, wanted: Wanted) -> tuple[Sequence[Body], Blobs]:
    """What the session is to do, and what it keeps for that."""
    if wanted.target and not wanted.workflow:
        raise InvalidInput("a target is that of a workflow", hint="--workflow NAME")
    plan, blobs = _plan(context, wanted.workflow, wanted.target) if wanted.workflow else ((), ())
    plan = plan or _stages(wanted.formats)
    return [*plan, *_pushback(plan, wanted.pushback)], blobs


def _plan(context: Context, workflow: str, target: str) -> tuple[Sequence[Body], Blobs]:
    """What begins a plan, and the definition that the session keeps."""
    from forestay.base.hashing import digest_of
    from forestay.model.gates.phase_moves import begin_plan
    from forestay.model.plan import snapshot
    from forestay.plans import workflows

    if context.cwd and workflows.is_path(workflow):
        workflow = os.path.join(context.cwd, os.path.expanduser(workflow))
    found = workflows.find(workflow, context.workspace.tree.root)
    data = snapshot(found)
    digest = digest_of(data)
    inside = _target(context, target) if target else ""
    return begin_plan(found, target=inside, snapshot=digest), [(digest, data)]


def _target(context: Context, target: str) -> str:
    from forestay.workspace.tree import relative

    root = context.workspace.tree.root
    inside = relative(target, root, cwd=context.folder)
    real = os.path.realpath(os.path.join(root, inside))
    if real != root and not real.startswith(root.rstrip(os.sep) + os.sep):
        why = "a link leads out of the project"
        raise InvalidInput(f"{target[:200]} cannot be the target", why=why, file=target)
    return inside


def _stages(formats: Sequence[str]) -> Sequence[Body]:
    """What begins an essay that has its files, but no plan: the stages that these always have."""
    if not formats:
        return []  # a session without files pays nothing for them
    from forestay.formats.essay import fields
    from forestay.model.event import StepAdded

    if not any(chosen.partition(":")[0] == fields.ID for chosen in formats):
        return []
    return [
        StepAdded(step=fields.stage_id(number), title=stage.title, unit="stage")
        for number, stage in fields.STAGES.items()
    ]


def _pushback(plan: Sequence[Body], level: str) -> Sequence[Body]:
    from forestay.base.vocabulary import PUSHBACK
    from forestay.model.essay.moves import WORKFLOW, name_of
    from forestay.model.event import AttributeSet

    if not level:
        return []
    if level not in PUSHBACK:
        raise InvalidInput(f"pushback cannot be {level}", why=f"one of {', '.join(PUSHBACK)}")
    # What begins without the plan of a workflow, but with steps, are the stages of an essay.
    if not plan or getattr(plan[0], "workflow", WORKFLOW) != WORKFLOW:
        raise InvalidInput("pushback is that of an essay", hint=f"--workflow {WORKFLOW}")
    return [AttributeSet(key=name_of("pushback_level"), value=level)]


# -- one that is open already ------------------------------------------------------------------


def _yield_to_open(context: Context, plan: Sequence[Body], session: str) -> None:
    if (like := _open_like(context, plan)) and like != session:
        raise _AlreadyOpen(like)


def _open_like(context: Context, plan: Sequence[Body]) -> str:
    """The open session of this project with the same workflow on the same target, if any."""
    from json import loads

    from forestay.model.summary import plan_key

    body = plan[0] if plan else None
    key = plan_key(body.workflow, body.target) if isinstance(body, PlanSet) else ""
    for row in context.workspace.list_open() if key else ():
        if row["sound"] and loads(str(row["summary"])).get("plan", {}).get("key") == key:
            return str(row["id"])
    return ""


def _take_up_again(context: Context, session: str, formats: Sequence[str]) -> Session:
    found = Session(context, session)
    _add(found, formats)
    found.resume()
    found.was_open = True
    return found


def _add(session: Session, formats: Sequence[str]) -> None:
    """Keep the files of a session that was begun before in these formats too."""
    bound = {binding.layout for binding in session.files.list()}
    for chosen in formats:
        if chosen.partition(":")[0] not in bound:
            session.files.bind(chosen)
