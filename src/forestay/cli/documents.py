"""Commands that two documents give by name: the orchestrator's session, and the list of essays."""

from __future__ import annotations

import os
import shlex

from forestay.base.text import plural, shorten
from forestay.base.vocabulary import MODES
from forestay.cli.arguments import Command, Parser, count, nothing, spoken, with_key
from forestay.cli.brief import resume_arguments, run_resume
from forestay.cli.common import confirm
from forestay.cli.suggestions import shown_path, typed_path
from forestay.errors import DAMAGED, NoSession

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from forestay.api.forestay import Forestay
    from forestay.cli.terminal import Screen
    from forestay.mirror.recover import Unusable
    from forestay.plans.essay_sessions import Faulty, Listed


# -- orchestrator ------------------------------------------------------------------------------


def _continue_arguments(parser: Parser) -> None:
    resume_arguments(parser)
    parser.set_defaults(style="orchestrator")


def run_continue(options: Namespace, stay: Forestay, screen: Screen) -> int:
    from forestay.mirror import orchestrator_session
    from forestay.mirror.recover import Unusable

    if orchestrator_session.load(stay.context).kind == orchestrator_session.NONE:
        screen.answer({"kind": "none", "message": orchestrator_session.NOTHING})
        screen.line(orchestrator_session.NOTHING)
        screen.hint("begin one: ", 'forestay files orchestrator new "GOAL"')
        return NoSession.exit_code
    try:
        options.chosen = stay.files.orchestrator.current().id
    except Unusable as error:
        return _tell_unusable(error, screen)
    return run_resume(options, stay, screen)


def _tell_unusable(error: Unusable, screen: Screen) -> int:
    from forestay.cli.recovery import case_values, tell_case

    screen.answer({"kind": "corrupt", "case": case_values(error.case)})
    tell_case(error.case, screen, acted=False)
    return DAMAGED


def _history_arguments(parser: Parser) -> None:
    parser.add_argument(
        "which", nargs="?", default="", metavar="N", help="a number of the list, or an id"
    )
    parser.add_argument("--limit", type=count, default=10, metavar="M", help="how many; 10")


def run_history(options: Namespace, stay: Forestay, screen: Screen) -> int | None:
    rows = stay.files.orchestrator.history(options.which, limit=options.limit)
    if options.which:
        return _tell_archived(rows[0], stay, screen)
    screen.answer({"history": rows})
    screen.table([(str(n), *_told(row)) for n, row in enumerate(rows, 1)], right="0")
    if not rows:
        screen.line("no session is archived here" if options.limit else "--limit 0 shows none")
    # In the table they would be cut off where the terminal ends.
    for row in filter(_is_damaged, rows):
        screen.offer(f"what can be made of {row['id']}: ", _doctor_of(row))
    screen.hint("one of them: ", "forestay files orchestrator history 1" if rows else "")
    return None


def _told(row: dict[str, str]) -> tuple[str, str, str]:
    return row["id"], row["status"] or ("damaged" if _is_damaged(row) else ""), row["goal"]


def _is_damaged(row: dict[str, str]) -> bool:
    return not (row["status"] or row["goal"])


def _doctor_of(row: dict[str, str]) -> str:
    return f"forestay doctor {typed_path(row['path'])}"


def _tell_archived(row: dict[str, str], stay: Forestay, screen: Screen) -> int:
    """One archived session as it is in its file."""
    (report,) = stay.files.check(row["path"])
    screen.answer({**row, "complete": report.reading.complete, "progress": report.reading.progress})
    told = [(key, row[key]) for key in ("id", "goal", "status", "created")]
    screen.fields([*told, ("file", shown_path(row["path"]))])
    if report.is_torn:
        screen.line(("damaged   ", "red"), report.findings[0].what)
        screen.offer("→ what can be made of it: ", _doctor_of(row))
        return DAMAGED
    if owner := stay.context.store.machine.bindings.owner(os.path.realpath(row["path"])):
        screen.hint("it is a session of yours: ", f"forestay brief {owner.session}")
    else:
        screen.hint("make it a session of yours: ", f"forestay adopt {typed_path(row['path'])}")
    return 0


def _new_arguments(parser: Parser) -> None:
    parser.add_argument("goal", metavar="GOAL", help="what is to be reached; - reads it from stdin")
    parser.add_argument(
        "--mode", choices=MODES, default=MODES[0], metavar="M", help=", ".join(MODES)
    )


def run_new(options: Namespace, stay: Forestay, screen: Screen) -> int:
    from forestay.mirror.recover import Unusable

    goal = spoken(options.goal, screen)
    try:
        session, archived = stay.files.orchestrator.new(goal, mode=options.mode)
    except Unusable as error:
        return _tell_unusable(error, screen)
    screen.answer({**session.status(), "archive": archived or None})
    screen.done(("Started session ", "green"), session.id, " – ", shorten(goal, 44))
    return 0


def _abort_arguments(parser: Parser) -> None:
    parser.add_argument("--because", default="", metavar="R", help="the reason")
    with_key(parser)


def run_abort(options: Namespace, stay: Forestay, screen: Screen) -> int:
    from forestay.mirror.recover import Unusable

    try:
        event = stay.files.orchestrator.abort(because=options.because, key=options.key)
    except Unusable as error:
        return _tell_unusable(error, screen)
    session = stay.session(event.head.session)
    left = any(b.suspended for b in session.files.list() if b.layout == "orchestrator")
    how = "aborted" if left else "aborted and archived"
    confirm(session, event, screen, f"{how}; its state is preserved")
    return 0


def run_save(options: Namespace, stay: Forestay, screen: Screen) -> int:
    bindings = stay.files.orchestrator.save()
    left = [b.suspended for b in bindings if b.suspended]
    session = bindings[0].session
    screen.answer({"session": session, "files": [b.place for b in bindings], "left": left})
    for binding in bindings:
        word = ("left alone ", "yellow") if binding.suspended else ("saved ", "green")
        screen.line(word, shown_path(binding.place))
    return 1 if left else 0


# -- essays ------------------------------------------------------------------------------------


def run_essays(options: Namespace, stay: Forestay, screen: Screen) -> None:
    from forestay.plans import essay_sessions

    essays = stay.essays.list()
    text = essay_sessions.list_text(stay.context, essays)
    days = [essay_sessions.abandoned_for(stay.context, one) for one in essays]
    rows = [
        {"name": e.name, "path": e.folder, "readable": e.state is not None, "abandoned_days": idle}
        for e, idle in zip(essays, days, strict=True)
    ]
    screen.answer({"essays": rows, "text": text})
    screen.block(text)
    for one, idle in zip(essays, days, strict=True):
        _tell_abandoned(one, idle, screen)
    screen.hint("go on with one: ", "forestay essay resume 1" if essays else "")
    if not essays:
        screen.hint("begin one: ", 'forestay start "GOAL" --workflow essay --bind essay')


def _tell_abandoned(one: Listed, days: int, screen: Screen) -> None:
    """Warn of an essay that counts as given up, with what can be done; nothing is decided."""
    if not days:
        return
    screen.aside((f"nobody worked on {one.name} for ", "yellow"), plural(days, "day"))
    go_on = screen.as_typed(f"forestay essay resume {shlex.quote(one.name)}")
    screen.aside("  go on with it: ", (go_on, "cyan"))
    screen.aside("  clean it up: move its folder away, ", shown_path(one.folder))


def _essay_arguments(parser: Parser) -> None:
    parser.add_argument("which", metavar="N", help="a number of the list, or a name")
    parser.add_argument("--anyway", action="store_true", help="although its state is at fault")
    resume_arguments(parser)


def run_essay_resume(options: Namespace, stay: Forestay, screen: Screen) -> int:
    from forestay.mirror.recover import Unusable
    from forestay.plans.essay_sessions import Faulty

    try:
        options.chosen = stay.essays.resume(options.which, anyway=options.anyway).id
    except Unusable as error:
        return _tell_unusable(error, screen)
    except Faulty as error:
        return _tell_faults(error, screen)
    return run_resume(options, stay, screen)


def _tell_faults(error: Faulty, screen: Screen) -> int:
    """The state contradicts the files: how to proceed is the user's to say."""
    anyway = f"forestay essay resume {shlex.quote(error.name)} --anyway"
    screen.answer({"kind": "invalid", "faults": error.faults, "choices": {"continue": anyway}})
    for fault in error.faults:
        screen.line(("error    ", "red"), fault)
    screen.line("How do you want to proceed?")
    screen.offer("continue as the session file says → ", anyway)
    screen.line("or put right what is wrong first, and try again")
    return DAMAGED


COMMANDS = {
    "files orchestrator continue": Command(
        _continue_arguments, run_continue, "forestay files orchestrator continue"
    ),
    "files orchestrator history": Command(
        _history_arguments,
        run_history,
        "forestay files orchestrator history",
        "forestay files orchestrator history 2",
    ),
    "files orchestrator new": Command(
        _new_arguments, run_new, 'forestay files orchestrator new "Fix the login"'
    ),
    "files orchestrator abort": Command(
        _abort_arguments, run_abort, "forestay files orchestrator abort"
    ),
    "files orchestrator save": Command(nothing, run_save, "forestay files orchestrator save"),
    "essay list": Command(nothing, run_essays, "forestay essay list"),
    "essay resume": Command(_essay_arguments, run_essay_resume, "forestay essay resume 1"),
}
