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

from holdfast import clock as clocks
from holdfast.errors import InvalidInput
from holdfast.home import Holdfast
from holdfast.model.event import Body, PlanSet, SessionStarted
from holdfast.model.rules import validate
from holdfast.session import Session
from holdfast.text import clean_id, clean_input, terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    Blobs = Sequence[tuple[str, bytes]]


class _AlreadyOpen(Exception):
    """There is an open session of the same workflow on the same target: that one is meant."""

    def __init__(self, session: str) -> None:
        super().__init__(session)
        self.session = session


class Wanted(Struct, frozen=True, kw_only=True):
    """What a session is to begin with; see `Holdfast.start`."""

    goal: str
    mode: str
    id: str
    from_session: str
    layouts: Sequence[str]
    workflow: str
    target: str
    pushback: str
    key: str


def begin(home: Holdfast, wanted: Wanted) -> Session:
    """Record that a session begins, and keep its files in the layouts; see `Holdfast.start`."""
    goal = require(wanted.goal, wanted.mode)
    if wanted.layouts:
        from holdfast.layout import spelled

        wanted = replace(wanted, layouts=list(map(spelled, wanted.layouts)))
    session = _checked(home, wanted.id) if wanted.id else _new_id(home, wanted.key)
    plan, blobs = _planned(home, wanted)
    body = _started(home, wanted, goal)
    begun = Session(home, session)
    spot = home.workspace.spot()

    def look() -> None:
        if plan and not wanted.id:
            _yield_to_open(home, plan, session)

    try:
        look()
        with _places(home, session, wanted.layouts) as chores:
            begun.record(
                body,
                *plan,
                key=wanted.key,
                create=True,
                spot=spot,
                blobs=blobs,
                chores=chores,
                # Once more under the writer lock: two that begin the same must not both see none.
                first=look,
            )
    except _AlreadyOpen as other:
        return _take_up_again(home, other.session, wanted.layouts)
    if begun.repeated and wanted.layouts:
        _add(begun, wanted.layouts)  # whoever began it may have named none
    return begun


@contextmanager
def _places(home: Holdfast, session: str, layouts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Record inside that a session begins, with these chores: they give it its places.

    What it cannot have is refused before, and nobody else takes it meanwhile; should this process
    die, the next one that writes to the session does the chores.
    """
    if not layouts:
        yield ()  # a session without files pays nothing for them
        return
    from holdfast import chore

    kinds = [chosen.partition(":")[0] for chosen in layouts]
    with home.mirror.holding(*map(home.mirror.root_of, kinds)):
        _require_places(home, session, layouts)
        # Those with an id first: whoever names none will have the one that it has.
        in_order = sorted(layouts, key=lambda chosen: ":" not in chosen)
        yield [chore.keep(home, session, in_order)]
        chore.finish(home, session)


def _require_places(home: Holdfast, session: str, layouts: Sequence[str]) -> None:
    """Refuse places that a session cannot have, before anything is recorded of it."""
    wanted = [chosen.partition(":")[::2] for chosen in layouts]
    home.mirror.require_places(session, [(kind, native) for kind, native in wanted])
    for kind, native in wanted:
        if kind == "essay":
            from holdfast.essay import require_free

            require_free(home, session, native)


def require(goal: str, mode: str) -> str:
    """Refuse a goal or a mode that no session has, before anything is done; returns the goal."""
    goal = clean_input(goal, "goal", limit=2000, lines=False)
    validate(SessionStarted(goal=goal, mode=mode))
    return goal


# -- what is recorded --------------------------------------------------------------------------


def _checked(home: Holdfast, id: str) -> str:
    session = clean_id(id, "session id")
    if home.journal.secrets_in(id):
        raise InvalidInput("the session id looks like a secret", why="ids are kept for ever")
    return session


def _new_id(home: Holdfast, key: str) -> str:
    """A fresh id; with a key the one that the same key gives again in this folder."""
    if not key:
        return clocks.short_id(home.clock)
    from holdfast.process import machine_id

    where = (machine_id(), home.settings.home, home.workspace.tree.root)
    return f"k{clocks.derived_id('start', *where, key)[:15]}"


def _started(home: Holdfast, wanted: Wanted, goal: str) -> Body:
    branch, commit = home.git()
    return SessionStarted(
        goal=goal,
        mode=wanted.mode,
        from_session=home.session(wanted.from_session).id if wanted.from_session else "",
        # A folder may have any bytes for a name; what is recorded is text.
        project=terminal(os.path.basename(home.workspace.tree.main)),
        git_branch=branch,
        git_commit=commit,
    )


def _planned(home: Holdfast, wanted: Wanted) -> tuple[Sequence[Body], Blobs]:
    """What the session is to do, and what it keeps for that."""
    if wanted.target and not wanted.workflow:
        raise InvalidInput("a target is that of a workflow", hint="--workflow NAME")
    plan, blobs = _plan(home, wanted.workflow, wanted.target) if wanted.workflow else ((), ())
    plan = plan or _stages(wanted.layouts)
    return [*plan, *_pushback(plan, wanted.pushback)], blobs


def _plan(home: Holdfast, workflow: str, target: str) -> tuple[Sequence[Body], Blobs]:
    """What begins a plan, and the definition that the session keeps."""
    from holdfast import workflow as workflows
    from holdfast.model.phase import begin
    from holdfast.model.plan import snapshot
    from holdfast.sha import digest_of

    if home._cwd and workflows.is_path(workflow):
        workflow = os.path.join(home._cwd, os.path.expanduser(workflow))
    found = workflows.find(workflow, home.workspace.tree.root)
    data = snapshot(found)
    digest = digest_of(data)
    inside = _target(home, target) if target else ""
    return begin(found, target=inside, snapshot=digest), [(digest, data)]


def _target(home: Holdfast, target: str) -> str:
    from holdfast.place import relative

    root = home.workspace.tree.root
    inside = relative(target, root, cwd=home.folder)
    real = os.path.realpath(os.path.join(root, inside))
    if real != root and not real.startswith(root.rstrip(os.sep) + os.sep):
        why = "a link leads out of the project"
        raise InvalidInput(f"{target[:200]} cannot be the target", why=why, file=target)
    return inside


def _stages(layouts: Sequence[str]) -> Sequence[Body]:
    """What begins an essay that has its files, but no plan: the stages that these always have."""
    if not layouts:
        return []  # a session without files pays nothing for them
    from holdfast.layout.essay import form
    from holdfast.model.event import StepAdded

    if not any(chosen.partition(":")[0] == form.ID for chosen in layouts):
        return []
    return [
        StepAdded(step=form.stage_id(number), title=stage.title, unit="stage")
        for number, stage in form.STAGES.items()
    ]


def _pushback(plan: Sequence[Body], level: str) -> Sequence[Body]:
    from holdfast.choice import PUSHBACK
    from holdfast.model.essay_move import WORKFLOW, name_of
    from holdfast.model.event import AttributeSet

    if not level:
        return []
    if level not in PUSHBACK:
        raise InvalidInput(f"pushback cannot be {level}", why=f"one of {', '.join(PUSHBACK)}")
    # What begins without the plan of a workflow, but with steps, are the stages of an essay.
    if not plan or getattr(plan[0], "workflow", WORKFLOW) != WORKFLOW:
        raise InvalidInput("pushback is that of an essay", hint=f"--workflow {WORKFLOW}")
    return [AttributeSet(key=name_of("pushback_level"), value=level)]


# -- one that is open already ------------------------------------------------------------------


def _yield_to_open(home: Holdfast, plan: Sequence[Body], session: str) -> None:
    if (like := _open_like(home, plan)) and like != session:
        raise _AlreadyOpen(like)


def _open_like(home: Holdfast, plan: Sequence[Body]) -> str:
    """The open session of this project with the same workflow on the same target, if any."""
    from json import loads

    from holdfast.model.summary import plan_key

    body = plan[0] if plan else None
    key = plan_key(body.workflow, body.target) if isinstance(body, PlanSet) else ""
    for row in home.workspace.listed_open() if key else ():
        if row["sound"] and loads(str(row["summary"])).get("plan", {}).get("key") == key:
            return str(row["id"])
    return ""


def _take_up_again(home: Holdfast, session: str, layouts: Sequence[str]) -> Session:
    found = Session(home, session)
    _add(found, layouts)
    found.resume()
    found.taken_up = True
    return found


def _add(session: Session, layouts: Sequence[str]) -> None:
    """Keep the files of a session that was begun before in these layouts too."""
    bound = {binding.layout for binding in session.layouts_list()}
    for chosen in layouts:
        if chosen.partition(":")[0] not in bound:
            session.layouts_add(chosen)
