"""Tasks and agents: what is to be done, and who does it."""

from __future__ import annotations

from forestay.base.text import shorten
from forestay.cli.arguments import Command, Parser, count, fraction, nothing, spoken, with_key
from forestay.cli.common import confirm, meant
from forestay.cli.facts import with_category
from forestay.cli.log import when

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from forestay.api.forestay import Forestay
    from forestay.api.session import Session
    from forestay.cli.terminal import Part, Screen
    from forestay.model.event import Event

_SAID = 60
_COLOURS = {"running": "green", "failed": "red", "blocked": "yellow", "timed_out": "red"}


def _confirm(
    session: Session, event: Event, screen: Screen, said: str, *, then: str = "", **more: object
) -> None:
    """Confirm what became of a task or an agent, under the id that was stored."""
    body: Any = event.body
    what, id = ("task", body.step) if hasattr(body, "step") else ("agent", body.agent)
    next_line = f"{then} {id}" if then else ""
    confirm(session, event, screen, f"{what} {id} {said}", then=next_line, **more)


def _status(unit: Any) -> Part:
    done = f" {unit.fraction:.0%}" if unit.fraction and unit.status == "running" else ""
    return unit.status.replace("_", " ") + done, _COLOURS.get(unit.status, "dim")


def _of_session(shown: dict[str, Any]) -> dict[str, Any]:
    return {name: shown[name] for name in ("session", "status", "goal", "progress", "seq")}


def _moment(ms: int) -> str | None:
    from forestay.base.clock import iso

    return iso(ms) if ms else None


# -- tasks -------------------------------------------------------------------------------------


def _task_add_arguments(parser: Parser) -> None:
    parser.add_argument("title", metavar="TEXT", help="what is to be done; - reads it from stdin")
    parser.add_argument("--id", default="", metavar="ID", help="an id of your own, else t1, t2, …")
    parser.add_argument("--phase", default="", metavar="TASK", help="the task it is a part of")
    parser.add_argument("--agent", default="", metavar="AGENT", help="who shall do it")
    with_key(parser)


def run_task_add(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    title = spoken(options.title, screen)
    event = session.tasks.add(
        title, id=options.id, phase=options.phase, agent=options.agent, key=options.key
    )
    body: Any = event.body
    then = f"forestay task start {body.step}"
    confirm(session, event, screen, f"task {body.step}: ", shorten(body.title, _SAID), then=then)


def _task_arguments(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="the task")
    with_key(parser)


def _task_start_arguments(parser: Parser) -> None:
    _task_arguments(parser)
    parser.add_argument("--agent", default="", metavar="AGENT", help="who does it")


def run_task_start(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    event = session.tasks.start(options.id, agent=options.agent, key=options.key)
    _confirm(session, event, screen, "is running", then="forestay task done")


def _task_done_arguments(parser: Parser) -> None:
    _task_arguments(parser)
    parser.add_argument("--outcome", default="", metavar="TEXT", help="what came of it")
    parser.add_argument(
        "--file", dest="files", action="append", default=[], metavar="FILE", help="a file it made"
    )


def run_task_done(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    event = session.tasks.done(
        options.id, outcome=options.outcome, files=options.files, key=options.key
    )
    _confirm(session, event, screen, "is done")


def _task_because_arguments(parser: Parser) -> None:
    _task_arguments(parser)
    parser.add_argument("--because", required=True, metavar="REASON", help="why")


def run_task_block(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    event = session.tasks.block(options.id, options.because, key=options.key)
    _confirm(session, event, screen, "is blocked", then="forestay task unblock")


def run_task_skip(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    event = session.tasks.skip(options.id, options.because, key=options.key)
    _confirm(session, event, screen, "is left out")


def run_task_unblock(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    event = session.tasks.unblock(options.id, key=options.key)
    _confirm(session, event, screen, "can be taken up again", then="forestay task start")


def run_task_list(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = stay.current()
    tasks = session.tasks.list()
    if screen.json:
        found = [task_values(task) for task in tasks]
        screen.answer({**_of_session(session.status()), "tasks": found})
        return
    screen.long()
    rows: list[list[Part]] = [[(word, "dim") for word in ("TASK", "STATUS", "AGENT", "WHAT")]]
    rows += [[task.id, _status(task), task.agent, _about_task(task)] for task in tasks]
    if tasks:
        screen.table(rows)
    else:
        screen.line("There are no tasks yet. Add one: ", ('forestay task add "TEXT"', "cyan"))


def _about_task(task: Any) -> str:
    told = task.because if task.is_open else task.outcome or task.because
    return " – ".join(filter(None, [task.title, told]))


def task_values(task: Any) -> dict[str, Any]:
    """A task as JSON values."""
    return {
        "id": task.id,
        "title": task.title,
        "status": task.status,
        "progress": task.fraction,
        "phase": task.parent,
        "agent": task.agent,
        "because": task.because,
        "outcome": task.outcome,
        "files": list(task.files),
        "started_at": _moment(task.started_at),
        "ended_at": _moment(task.ended_at),
    }


# -- agents ------------------------------------------------------------------------------------


def _agent_arguments(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="the agent")
    with_key(parser)


def _agent_start_arguments(parser: Parser) -> None:
    _agent_arguments(parser)
    parser.add_argument("--type", default="", metavar="TYPE", help="its kind, such as feature-dev")
    parser.add_argument("--task", default="", metavar="TEXT", help="what it is to do")
    parser.add_argument("--blocking-on", default="", metavar="AGENT", help="the agent it waits for")
    parser.add_argument("--pid", type=count, metavar="N", help="its process: its death is noticed")


def run_agent_start(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    event = session.agents.start(
        options.id,
        type=options.type,
        task=options.task,
        blocking_on=options.blocking_on,
        pid=options.pid,
        key=options.key,
    )
    _confirm(session, event, screen, "is running", then="forestay agent done")


def _agent_progress_arguments(parser: Parser) -> None:
    _agent_arguments(parser)
    parser.add_argument("part", type=fraction, metavar="PART", help="0.6 or 60%%")


def run_agent_progress(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    event = session.agents.progress(options.id, options.part, key=options.key)
    _confirm(session, event, screen, f"is at {options.part:.0%}")


def _agent_done_arguments(parser: Parser) -> None:
    _agent_arguments(parser)
    parser.add_argument("--result", default="", metavar="TEXT", help="what came of it")
    for word in ("created", "modified", "deleted"):
        parser.add_argument(
            f"--{word}", action="append", default=[], metavar="FILE", help=f"a file it {word}"
        )


def run_agent_done(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    event = session.agents.done(
        options.id,
        result=spoken(options.result, screen),
        created=options.created,
        modified=options.modified,
        deleted=options.deleted,
        key=options.key,
    )
    _confirm(session, event, screen, "is done")


def _agent_fail_arguments(parser: Parser) -> None:
    _agent_arguments(parser)
    parser.add_argument("--error", required=True, metavar="TEXT", help="what went wrong")
    with_category(parser)


def run_agent_fail(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    event = session.agents.fail(
        options.id, options.error, category=options.category, key=options.key
    )
    _confirm(session, event, screen, "failed", then="forestay agent retry")


def _agent_timeout_arguments(parser: Parser) -> None:
    _agent_arguments(parser)
    parser.add_argument("--error", default="", metavar="TEXT", help="what it was waiting for")


def run_agent_timeout(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    event = session.agents.timeout(options.id, error=options.error, key=options.key)
    _confirm(session, event, screen, "took too long", then="forestay agent retry")


def run_agent_retry(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    event = session.agents.retry(options.id, key=options.key)
    _confirm(session, event, screen, "runs again")


def run_agent_list(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = stay.current()
    agents, status = session.agents.list(), session.status()
    life = {one["agent"]: one["state"] for one in status["holders"] if one["agent"]}
    if screen.json:
        values = [{**agent_values(one), "process": life.get(one.id)} for one in agents]
        screen.answer({**_of_session(status), "agents": values})
        return
    screen.long()
    now = stay.context.clock.now()
    rows: list[list[Part]] = [
        [(word, "dim") for word in ("AGENT", "STATUS", "STARTED", "PROCESS", "WHAT")]
    ]
    rows += [
        [one.id, _status(one), _started(one, now), _sign_of_life(one, life), _about(one)]
        for one in agents
    ]
    if agents:
        screen.table(rows)
    else:
        screen.line("There are no agents yet. Start one: ", ("forestay agent start ID", "cyan"))


def _started(agent: Any, now: int) -> Part:
    return when(agent.started_at, now) if agent.started_at else "", "dim"


def _sign_of_life(agent: Any, life: dict[str, str]) -> Part:
    """Whether the process of a running agent is known to live."""
    if agent.status != "running":
        return ""
    state = life.get(agent.id, "")
    return state or "none known", {"alive": "green", "dead": "red"}.get(state, "yellow")


def _about(agent: Any) -> str:
    waits = f"waits for {agent.blocking_on}" if agent.blocking_on and agent.is_open else ""
    told = agent.error if agent.is_open else agent.result
    return " – ".join(filter(None, [agent.type, agent.task, waits, told]))


def agent_values(agent: Any) -> dict[str, Any]:
    """An agent as JSON values."""
    return {
        "id": agent.id,
        "type": agent.type,
        "task": agent.task,
        "status": agent.status,
        "progress": agent.fraction,
        "blocking_on": agent.blocking_on,
        "result": agent.result,
        "error": agent.error,
        "category": agent.category,
        "tokens": agent.tokens,
        "started_at": _moment(agent.started_at),
        "ended_at": _moment(agent.ended_at),
    }


COMMANDS = {
    "task list": Command(nothing, run_task_list, "forestay task", "forestay task list --json"),
    "agent list": Command(nothing, run_agent_list, "forestay agent", "forestay agent list --json"),
    "task add": Command(
        _task_add_arguments,
        run_task_add,
        'forestay task add "write the parser"',
        'forestay task add "write its tests" --id tests --agent code-1',
    ),
    "task start": Command(_task_start_arguments, run_task_start, "forestay task start t1"),
    "task done": Command(
        _task_done_arguments,
        run_task_done,
        "forestay task done t1",
        'forestay task done t1 --outcome "it parses" --file src/parser.py',
    ),
    "task block": Command(
        _task_because_arguments, run_task_block, 'forestay task block t2 --because "no test data"'
    ),
    "task unblock": Command(_task_arguments, run_task_unblock, "forestay task unblock t2"),
    "task skip": Command(
        _task_because_arguments, run_task_skip, 'forestay task skip t3 --because "t1 covers it"'
    ),
    "agent start": Command(
        _agent_start_arguments,
        run_agent_start,
        'forestay agent start code-1 --type feature-dev --task "write the parser"',
        "forestay agent start code-2 --blocking-on code-1 --pid 4711",
    ),
    "agent progress": Command(
        _agent_progress_arguments, run_agent_progress, "forestay agent progress code-1 0.6"
    ),
    "agent done": Command(
        _agent_done_arguments,
        run_agent_done,
        'forestay agent done code-1 --result "12 tests pass" --created tests/test_parser.py',
    ),
    "agent fail": Command(
        _agent_fail_arguments,
        run_agent_fail,
        'forestay agent fail code-1 --error "rate limited" --category transient',
    ),
    "agent retry": Command(_agent_arguments, run_agent_retry, "forestay agent retry code-1"),
    "agent timeout": Command(
        _agent_timeout_arguments, run_agent_timeout, "forestay agent timeout code-1"
    ),
}
