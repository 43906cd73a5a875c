"""Commands for the life of a session: start it, choose it, pause it, finish it, reopen it."""

from __future__ import annotations

from forestay.api.status import event_receipt
from forestay.base.text import plural, shorten
from forestay.base.vocabulary import MODES, PUSHBACK
from forestay.cli.arguments import FIVE, KEY, Command, arg, read_text
from forestay.cli.common import (
    Verb,
    confirm,
    is_essay,
    other_holders,
    removed_secrets,
    warn_other_current,
    warn_others,
)
from forestay.cli.status import print_status
from forestay.cli.terminal import BINDING, pick
from forestay.errors import ForestayError, InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.cli.types import Any, Event, Forestay, Namespace, Screen, Session

_GOAL = 44
_BIND = f"also write its files as {FIVE}; can be repeated"
_SAVE = "unfinished work of an essay, saved first; FILE=- reads it from stdin"


# -- start and choose --------------------------------------------------------------------------


def run_start(options: Namespace, stay: Forestay, screen: Screen) -> None:
    try:
        before = stay.context.workspace.require(open_only=True)
    except ForestayError:
        before = ""
    given = pick(options, "mode id workflow target pushback key from_session formats")
    session = stay.start(read_text(options.goal, screen), **given)
    status, first = session.status().as_json(), next(session.log()).event
    bindings = session.files.list() if options.formats else []
    known = {"event": event_receipt(first), "repeated": session.repeated}
    known |= {"before": before or None, "taken_up": session.was_open}
    screen.answer(status, known, formats=[pick(one, BINDING) for one in bindings])
    lead = "Already started: session " if session.repeated else "Started session "
    if session.was_open:
        screen.done("This workflow already has an open session for this target; it is resumed.")
        lead = "Resumed session "
    goal = shorten(status["goal"], _GOAL)
    screen.done((lead, "green"), session.id, " – ", goal, *removed_secrets(first))
    if before and before != session.id:
        back = (screen.as_typed(f"forestay session use {before}"), "cyan")
        screen.done(("  the previous session stays open; to return to it: ", "dim"), back)
    for binding in bindings:
        from forestay.cli.suggestions import short_path  # start-up

        when = ", once they can be written" if binding.suspended else ""
        screen.done((f"  its files{when}: ", "dim"), short_path(binding.place))
    warn_other_current(session, screen)
    screen.hint("next: ", _first_steps(status))


def _first_steps(status: dict[str, Any]) -> str:
    if status["next"].endswith("forestay essay approve G1"):
        return "write stage-1-thesis.md, then: forestay essay approve G1"
    if not status["phase"]:
        return 'forestay task add "…" · forestay note "…" · forestay brief'
    number = status["phase"]["current"]
    return f"forestay phase gate {number} · forestay phase done {number} · forestay brief"


def run_use(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = stay.use(options.chosen)
    status, others = session.status().as_json(), other_holders(session)
    screen.answer(status, others=others)
    if not screen.quiet:
        print_status(status, stay, screen)
    warn_other_current(session, screen)
    warn_others(others, screen)


# -- pause and finish --------------------------------------------------------------------------


def _read_unfinished(options: Namespace, session: Session, screen: Screen) -> bool:
    """Read the files of --save, which are saved before the session is paused."""
    found: dict[str, str] = {}
    for one in options.save:
        name, equals, text = one.partition("=")
        if not equals or name in found:
            what = "is named twice" if equals else "has no content"
            raise InvalidInput(f"--save {name[:60]} {what}", hint="--save stage-4-draft.md=-")
        found[name] = read_text(text, screen)
    options.partial = found
    return False


def _report_pause(session: Session, event: Event, screen: Screen) -> None:
    message = "paused"
    if is_essay(session):
        from forestay.plans.essay_sessions import pause_message  # start-up

        message = pause_message(session.context, session.id)
    confirm(session, event, screen, message, then="forestay resume")


def _report_complete(session: Session, event: Event, screen: Screen) -> None:
    """Print that the session is completed, and name its open tasks and agents."""
    units: dict[str, list[Any]] = {"tasks": session.tasks.list(), "agents": session.agents.list()}
    left = {word: [unit.id for unit in found if unit.is_open] for word, found in units.items()}
    named = [(plural(len(ids), word[:-1]), ids) for word, ids in left.items() if ids]
    parts = [f"{number} ({shorten(', '.join(ids), _GOAL)})" for number, ids in named]
    still = (f"; left open: {', '.join(parts)}" if parts else "", "yellow")
    then = 'forestay session archive · forestay start "GOAL"'
    confirm(session, event, screen, "completed", still, then=then, left_open=left)


COMMANDS = {
    "start": Command(
        run_start,
        arg("goal", "GOAL", "what is to be achieved; - reads it from stdin"),
        arg("--mode", "MODE", ", ".join(MODES), choices=MODES, default=MODES[0]),
        arg("--id", "ID", "an id of your own"),
        arg("--from", "SESSION", "the session it continues", dest="from_session"),
        arg("--bind", "FORMAT[:ID]", _BIND, many=True, dest="formats"),
        arg("--workflow", "NAME|FILE", "a plan of phases to follow"),
        arg("--target", "PATH", "what the workflow is applied to"),
        arg("--pushback", "LEVEL", f"for an essay: {', '.join(PUSHBACK)}", choices=PUSHBACK),
        KEY,
        'forestay start "Add sensitivity analysis"',
        "git log -1 --format=%s | forestay start - --mode debug --id fix-login",
        'forestay start "Build it" --workflow spec-execution --target specs/login.md',
    ),
    "session use": Command(
        run_use,
        arg("chosen", "SESSION", "its id, or a unique beginning of it"),
        "forestay session use fix-login",
    ),
    "pause": Verb(
        "",
        arg("--save", "FILE=TEXT", _SAVE, many=True),
        "forestay pause",
        'forestay pause --context "halfway in t2"',
        "cat draft.md | forestay pause --save stage-4-draft.md=-",
        report=_report_pause,
        prepare=_read_unfinished,
        reason="WORD",
        context="TEXT what was being worked on",
    ),
    "complete": Verb("", "forestay complete", report=_report_complete),
    "session fail": Verb(
        "failed",
        'forestay session fail --because "no access to CI"',
        then="forestay resume",
    ),
    "session abort": Verb(
        "aborted permanently",
        "forestay session abort",
        then='forestay start "GOAL" --from SESSION',
    ),
    "session abandon": Verb(
        "abandoned",
        'forestay session abandon --because "not needed any more"',
        then='forestay start "GOAL"',
    ),
    "session reopen": Verb(
        "reopened",
        'forestay session reopen --because "a case is left"',
        then="forestay brief",
        finished=True,
    ),
    "session archive": Verb(
        "archived; nothing was deleted",
        "forestay session archive",
        then="forestay list --archived",
        finished=True,
    ),
    "session unarchive": Verb(
        "back in the list",
        "forestay session unarchive --session fix-login",
        finished=True,
    ),
}
