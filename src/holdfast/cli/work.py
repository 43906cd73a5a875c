"""Tasks and agents: what is to be done, and who does it."""

from __future__ import annotations

from holdfast.cli.acting import confirm, meant
from holdfast.cli.arguments import Command, Parser, count, fraction, spoken, with_key
from holdfast.cli.record import with_category
from holdfast.text import shorten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.screen import Screen
    from holdfast.home import Holdfast

_SAID = 60


# -- tasks -------------------------------------------------------------------------------------


def _task_add_arguments(parser: Parser) -> None:
    parser.add_argument("title", metavar="TEXT", help="what is to be done; - reads it from stdin")
    parser.add_argument("--id", default="", metavar="ID", help="an id of your own, else t1, t2, …")
    parser.add_argument("--phase", default="", metavar="TASK", help="the task it is a part of")
    parser.add_argument("--agent", default="", metavar="AGENT", help="who shall do it")
    with_key(parser)


def run_task_add(options: Namespace, hf: Holdfast, screen: Screen) -> None:
    session = meant(hf)
    title = spoken(options.title, screen)
    event = session.task_add(
        title, id=options.id, phase=options.phase, agent=options.agent, key=options.key
    )
    id = getattr(event.body, "step", "")
    then = f"holdfast task start {id}"
    confirm(session, event, screen, f"task {id}: ", shorten(title, _SAID), then=then)


def _task_arguments(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="the task")
    with_key(parser)


def _task_start_arguments(parser: Parser) -> None:
    _task_arguments(parser)
    parser.add_argument("--agent", default="", metavar="AGENT", help="who does it")


def run_task_start(options: Namespace, hf: Holdfast, screen: Screen) -> None:
    session = meant(hf)
    event = session.task_start(options.id, agent=options.agent, key=options.key)
    then = f"holdfast task done {options.id}"
    confirm(session, event, screen, f"task {options.id} is running", then=then)


def _task_done_arguments(parser: Parser) -> None:
    _task_arguments(parser)
    parser.add_argument("--outcome", default="", metavar="TEXT", help="what came of it")
    parser.add_argument(
        "--file", dest="files", action="append", default=[], metavar="FILE", help="a file it made"
    )


def run_task_done(options: Namespace, hf: Holdfast, screen: Screen) -> None:
    session = meant(hf)
    event = session.task_done(
        options.id, outcome=options.outcome, files=options.files, key=options.key
    )
    confirm(session, event, screen, f"task {options.id} is done")


def _task_because_arguments(parser: Parser) -> None:
    _task_arguments(parser)
    parser.add_argument("--because", required=True, metavar="REASON", help="why")


def run_task_block(options: Namespace, hf: Holdfast, screen: Screen) -> None:
    session = meant(hf)
    event = session.task_block(options.id, options.because, key=options.key)
    then = f"holdfast task unblock {options.id}"
    confirm(session, event, screen, f"task {options.id} is blocked", then=then)


def run_task_skip(options: Namespace, hf: Holdfast, screen: Screen) -> None:
    session = meant(hf)
    event = session.task_skip(options.id, options.because, key=options.key)
    confirm(session, event, screen, f"task {options.id} is left out")


def run_task_unblock(options: Namespace, hf: Holdfast, screen: Screen) -> None:
    session = meant(hf)
    event = session.task_unblock(options.id, key=options.key)
    then = f"holdfast task start {options.id}"
    confirm(session, event, screen, f"task {options.id} can be taken up again", then=then)


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


def run_agent_start(options: Namespace, hf: Holdfast, screen: Screen) -> None:
    session = meant(hf)
    event = session.agent_start(
        options.id,
        type=options.type,
        task=options.task,
        blocking_on=options.blocking_on,
        pid=options.pid,
        key=options.key,
    )
    then = f"holdfast agent done {options.id}"
    confirm(session, event, screen, f"agent {options.id} is running", then=then)


def _agent_progress_arguments(parser: Parser) -> None:
    _agent_arguments(parser)
    parser.add_argument("part", type=fraction, metavar="PART", help="0.6 or 60%%")


def run_agent_progress(options: Namespace, hf: Holdfast, screen: Screen) -> None:
    session = meant(hf)
    event = session.agent_progress(options.id, options.part, key=options.key)
    confirm(session, event, screen, f"agent {options.id}: {options.part:.0%}")


def _agent_done_arguments(parser: Parser) -> None:
    _agent_arguments(parser)
    parser.add_argument("--result", default="", metavar="TEXT", help="what came of it")
    for word in ("created", "modified", "deleted"):
        parser.add_argument(
            f"--{word}", action="append", default=[], metavar="FILE", help=f"a file it {word}"
        )


def run_agent_done(options: Namespace, hf: Holdfast, screen: Screen) -> None:
    session = meant(hf)
    event = session.agent_done(
        options.id,
        result=spoken(options.result, screen),
        created=options.created,
        modified=options.modified,
        deleted=options.deleted,
        key=options.key,
    )
    confirm(session, event, screen, f"agent {options.id} is done")


def _agent_fail_arguments(parser: Parser) -> None:
    _agent_arguments(parser)
    parser.add_argument("--error", required=True, metavar="TEXT", help="what went wrong")
    with_category(parser)


def run_agent_fail(options: Namespace, hf: Holdfast, screen: Screen) -> None:
    session = meant(hf)
    event = session.agent_fail(
        options.id, options.error, category=options.category, key=options.key
    )
    then = f"holdfast agent retry {options.id}"
    confirm(session, event, screen, f"agent {options.id} failed", then=then)


def _agent_timeout_arguments(parser: Parser) -> None:
    _agent_arguments(parser)
    parser.add_argument("--error", default="", metavar="TEXT", help="what it was waiting for")


def run_agent_timeout(options: Namespace, hf: Holdfast, screen: Screen) -> None:
    session = meant(hf)
    event = session.agent_timeout(options.id, error=options.error, key=options.key)
    then = f"holdfast agent retry {options.id}"
    confirm(session, event, screen, f"agent {options.id} took too long", then=then)


def run_agent_retry(options: Namespace, hf: Holdfast, screen: Screen) -> None:
    session = meant(hf)
    event = session.agent_retry(options.id, key=options.key)
    confirm(session, event, screen, f"agent {options.id} runs again")


COMMANDS = {
    "task add": Command(
        _task_add_arguments,
        run_task_add,
        'holdfast task add "write the parser"',
        'holdfast task add "write its tests" --id tests --agent code-1',
    ),
    "task start": Command(_task_start_arguments, run_task_start, "holdfast task start t1"),
    "task done": Command(
        _task_done_arguments,
        run_task_done,
        "holdfast task done t1",
        'holdfast task done t1 --outcome "it parses" --file src/parser.py',
    ),
    "task block": Command(
        _task_because_arguments, run_task_block, 'holdfast task block t2 --because "no test data"'
    ),
    "task unblock": Command(_task_arguments, run_task_unblock, "holdfast task unblock t2"),
    "task skip": Command(
        _task_because_arguments, run_task_skip, 'holdfast task skip t3 --because "t1 covers it"'
    ),
    "agent start": Command(
        _agent_start_arguments,
        run_agent_start,
        'holdfast agent start code-1 --type feature-dev --task "write the parser"',
        "holdfast agent start code-2 --blocking-on code-1 --pid 1",
    ),
    "agent progress": Command(
        _agent_progress_arguments, run_agent_progress, "holdfast agent progress code-1 0.6"
    ),
    "agent done": Command(
        _agent_done_arguments,
        run_agent_done,
        'holdfast agent done code-1 --result "12 tests pass" --created tests/test_parser.py',
    ),
    "agent fail": Command(
        _agent_fail_arguments,
        run_agent_fail,
        'holdfast agent fail code-1 --error "rate limited" --category transient',
    ),
    "agent retry": Command(_agent_arguments, run_agent_retry, "holdfast agent retry code-1"),
    "agent timeout": Command(
        _agent_timeout_arguments, run_agent_timeout, "holdfast agent timeout code-1"
    ),
}
