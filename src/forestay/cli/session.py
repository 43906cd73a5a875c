"""The life of a session: begin it, choose it, describe it, lay it aside, end it."""

from __future__ import annotations

from forestay.base.text import plural, shorten
from forestay.base.vocabulary import MODES, PAUSE_REASONS, PUSHBACK
from forestay.cli.arguments import Command, Parser, spoken, with_key
from forestay.cli.common import (
    at_work,
    confirm,
    is_essay,
    left_out,
    meant,
    recorded,
    tell_finished,
    tell_others,
    tell_outvoted,
)
from forestay.cli.status import tell_status
from forestay.cli.terminal import json_text
from forestay.errors import ForestayError, InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from forestay.api.forestay import Forestay
    from forestay.api.session import Session
    from forestay.cli.arguments import Run
    from forestay.cli.terminal import Part, Screen
    from forestay.model.event import Event

_GOAL = 44


# -- begin and choose --------------------------------------------------------------------------


def _start_arguments(parser: Parser) -> None:
    parser.add_argument("goal", metavar="GOAL", help="what is to be reached; - reads it from stdin")
    parser.add_argument(
        "--mode", choices=MODES, default=MODES[0], metavar="MODE", help=", ".join(MODES)
    )
    parser.add_argument("--id", default="", metavar="ID", help="an id of your own")
    parser.add_argument(
        "--from", dest="origin", default="", metavar="SESSION", help="the session it continues"
    )
    parser.add_argument(
        "--bind",
        action="append",
        default=[],
        metavar="FORMAT[:ID]",
        help="also keep its files as ai-session, praxis, craft, essay or orchestrator; "
        "may be repeated",
    )
    parser.add_argument(
        "--workflow", default="", metavar="NAME|FILE", help="a plan of phases to go through"
    )
    parser.add_argument(
        "--target", default="", metavar="PATH", help="what the workflow is carried out on"
    )
    parser.add_argument(
        "--pushback",
        choices=PUSHBACK,
        default="",
        metavar="LEVEL",
        help=f"of an essay: {', '.join(PUSHBACK)}",
    )
    with_key(parser)


def run_start(options: Namespace, stay: Forestay, screen: Screen) -> None:
    before = _open_before(stay)
    goal = spoken(options.goal, screen)
    session = stay.start(
        goal,
        mode=options.mode,
        id=options.id,
        from_session=options.origin,
        formats=options.bind,
        workflow=options.workflow,
        target=options.target,
        pushback=options.pushback,
        key=options.key,
    )
    shown = session.status()
    if screen.json:
        known = {"repeated": session.repeated, "before": before or None}
        known |= {"taken_up": session.was_open}
        files = {"layouts": _files(session, options)}
        screen.answer({**shown, "event": recorded(_first_event(session)), **known, **files})
        return
    lead = "Already started: session " if session.repeated else "Started session "
    if session.was_open:
        screen.done("There is an open session of this workflow on this target; nothing was begun.")
        lead = "Resumed session "
    what = (session.id, " – ", shorten(shown["goal"], _GOAL))
    screen.done((lead, "green"), *what, *left_out(_first_event(session)))
    if before and before != session.id:
        back = (screen.as_typed(f"forestay session use {before}"), "cyan")
        screen.done(("  the one before stays open; to go back: ", "dim"), back)
    if options.bind:
        _tell_files(session, screen)
    tell_outvoted(session, screen)
    screen.hint("next: ", _first_steps(shown))


def _files(session: Session, options: Namespace) -> list[dict[str, Any]]:
    if not options.bind:
        return []
    from forestay.cli.files import binding_values

    return [binding_values(binding) for binding in session.files.list()]


def _tell_files(session: Session, screen: Screen) -> None:
    from forestay.cli.suggestions import shown_path

    for binding in session.files.list():
        when = ", once they can be written" if binding.suspended else " too"
        screen.done((f"  its files{when}: ", "dim"), shown_path(binding.place))


def _first_steps(shown: dict[str, Any]) -> str:
    if shown["next"].endswith("forestay essay approve G1"):
        return "write stage-1-thesis.md, then: forestay essay approve G1"
    if not shown["phase"]:
        return 'forestay task add "…" · forestay note "…" · forestay brief'
    number = shown["phase"]["current"]
    return f"forestay phase gate {number} · forestay phase done {number} · forestay brief"


def _open_before(stay: Forestay) -> str:
    """The open session that was current here, if any."""
    try:
        return stay.context.workspace.require(open_only=True)
    except ForestayError:
        return ""


def _first_event(session: Session) -> Event:
    return next(session.log()).event


def _session_argument(parser: Parser) -> None:
    parser.add_argument("chosen", metavar="SESSION", help="its id, shortened while it is unique")


def run_use(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = stay.use(options.chosen)
    shown = session.status()
    others = at_work(session)
    screen.answer({**shown, "others": others})
    if not screen.quiet:
        tell_status(shown, stay, screen)
    tell_outvoted(session, screen)
    tell_others(others, screen)


# -- describe ----------------------------------------------------------------------------------


def _rename_arguments(parser: Parser) -> None:
    parser.add_argument("goal", metavar="GOAL", help="the goal as it is now; - reads from stdin")
    with_key(parser)


def run_rename(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    goal = spoken(options.goal, screen)
    event = session.record.rename(goal, key=options.key)
    body: Any = event.body
    confirm(session, event, screen, "the goal is now: ", shorten(body.goal, _GOAL))
    tell_finished(session, screen)


def _model_arguments(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="the model's name")
    with_key(parser)


def run_model(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    event = session.record.model(options.name, key=options.key)
    body: Any = event.body
    confirm(session, event, screen, "model: ", shorten(str(body.value), _GOAL))
    tell_finished(session, screen)


def _attr_arguments(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="its name")
    parser.add_argument("value", metavar="VALUE", help="a number, true, false, null, or text")
    parser.add_argument("--text", action="store_true", help="text, whatever it looks like")
    with_key(parser)


def run_attr(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    value = options.value if options.text else scalar(options.value)
    event = session.record.attribute(options.name, value, key=options.key)
    body: Any = event.body
    shown = body.value if isinstance(body.value, str) else json_text(body.value)
    confirm(session, event, screen, f"{body.key} = ", shorten(shown, _GOAL))
    tell_finished(session, screen)


def scalar(text: str) -> str | int | float | bool | None:
    """The value a word stands for; text unless it would be written again just like this."""
    words: dict[str, bool | None] = {"true": True, "false": False, "null": None}
    if text in words:
        return words[text]
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        if str(value) == text and value == value and abs(value) < 2**53:
            return value
    return text


# -- lay aside, end, take up again -------------------------------------------------------------


def _pause_arguments(parser: Parser) -> None:
    parser.add_argument(
        "--reason",
        choices=PAUSE_REASONS,
        default=PAUSE_REASONS[0],
        metavar="WORD",
        help=", ".join(PAUSE_REASONS),
    )
    parser.add_argument("--context", default="", metavar="TEXT", help="what was being worked on")
    parser.add_argument(
        "--save",
        action="append",
        default=[],
        metavar="FILE=TEXT",
        help="unfinished work of an essay, kept first; FILE=- reads it from stdin",
    )
    with_key(parser)


def run_pause(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    context = spoken(options.context, screen)
    event = session.pause(
        reason=options.reason,
        context=context,
        partial=_unfinished(options.save, screen),
        key=options.key,
    )
    said = _essay_says(stay, session)
    confirm(session, event, screen, said or "paused", then="forestay resume")


def _unfinished(given: list[str], screen: Screen) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in given:
        name, equals, text = one.partition("=")
        if not equals or name in found:
            what = "is named twice" if equals else "says nothing"
            raise InvalidInput(f"--save {name[:60]} {what}", hint="--save stage-4-draft.md=-")
        found[name] = spoken(text, screen)
    return found


def _essay_says(stay: Forestay, session: Session) -> str:
    """How the document of an essay words the pause."""
    if not is_essay(session):
        return ""
    from forestay.plans.essay_sessions import pause_message

    return pause_message(stay.context, session.id)


def _because_arguments(parser: Parser) -> None:
    parser.add_argument("--because", default="", metavar="REASON", help="why")
    with_key(parser)


def _ending(verb: str, said: str, then: str) -> Run:
    def run(options: Namespace, stay: Forestay, screen: Screen) -> None:
        session = meant(stay)
        act = session.complete if verb == "complete" else getattr(session.lifecycle, verb)
        event = act(because=options.because, key=options.key)
        confirm(session, event, screen, said, then=then)

    return run


def run_complete(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    event = session.complete(because=options.because, key=options.key)
    then = 'forestay session archive · forestay start "GOAL"'
    left = left_open(session)
    confirm(session, event, screen, "completed", _still(left), then=then, left_open=left)


def left_open(session: Session) -> dict[str, list[str]]:
    """Tasks and agents that are neither done nor left out, by their ids."""
    units: dict[str, list[Any]] = {"tasks": session.tasks.list(), "agents": session.agents.list()}
    return {word: [unit.id for unit in found if unit.is_open] for word, found in units.items()}


def _still(left: dict[str, list[str]]) -> Part:
    named = [(plural(len(ids), word[:-1]), ids) for word, ids in left.items() if ids]
    parts = [f"{number} ({shorten(', '.join(ids), _GOAL)})" for number, ids in named]
    return (f"; left open: {', '.join(parts)}" if parts else "", "yellow")


run_fail = _ending("fail", "failed", "forestay resume, when what went wrong is mended")
run_abort = _ending("abort", "aborted, for good", 'forestay start "GOAL" --from S')
run_abandon = _ending("abandon", "abandoned", 'forestay start "GOAL"')


def _reopen_arguments(parser: Parser) -> None:
    parser.add_argument("--because", required=True, metavar="REASON", help="why")
    with_key(parser)


def run_reopen(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay, finished=True)
    event = session.lifecycle.reopen(options.because, key=options.key)
    confirm(session, event, screen, "reopened", then="forestay brief")


def run_archive(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay, finished=True)
    event = session.lifecycle.archive(key=options.key)
    confirm(
        session, event, screen, "archived; nothing was deleted", then="forestay list --archived"
    )


def run_unarchive(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay, finished=True)
    event = session.lifecycle.unarchive(key=options.key)
    confirm(session, event, screen, "back in the list")


COMMANDS = {
    "start": Command(
        _start_arguments,
        run_start,
        'forestay start "Add sensitivity analysis"',
        "git log -1 --format=%s | forestay start - --mode debug --id fix-login",
        'forestay start "Build it" --workflow spec-execution --target specs/login.md',
    ),
    "session use": Command(_session_argument, run_use, "forestay session use fix-login"),
    "record rename": Command(
        _rename_arguments, run_rename, 'forestay record rename "Fix login and logout"'
    ),
    "record model": Command(_model_arguments, run_model, "forestay record model claude-opus-4"),
    "record attribute": Command(
        _attr_arguments,
        run_attr,
        "forestay record attribute ticket PROJ-17",
        "forestay record attribute progress 0.4",
    ),
    "pause": Command(
        _pause_arguments,
        run_pause,
        "forestay pause",
        'forestay pause --context "halfway in t2"',
        "cat draft.md | forestay pause --save stage-4-draft.md=-",
    ),
    "complete": Command(_because_arguments, run_complete, "forestay complete"),
    "session fail": Command(
        _because_arguments, run_fail, 'forestay session fail --because "no access to CI"'
    ),
    "session abort": Command(_because_arguments, run_abort, "forestay session abort"),
    "session abandon": Command(
        _because_arguments, run_abandon, 'forestay session abandon --because "not needed any more"'
    ),
    "session reopen": Command(
        _reopen_arguments, run_reopen, 'forestay session reopen --because "a case is left"'
    ),
    "session archive": Command(with_key, run_archive, "forestay session archive"),
    "session unarchive": Command(
        with_key, run_unarchive, "forestay session unarchive --session fix-login"
    ),
}
