"""Phases of a plan: what their gates ask, and how one gets through them."""

from __future__ import annotations

from forestay.api import json_values
from forestay.base.text import shorten
from forestay.cli.arguments import Command, Parser, count, nothing, with_key
from forestay.cli.common import confirm, meant
from forestay.cli.terminal import json_text
from forestay.errors import DONE, REFUSED
from forestay.model.gates.gate import hand_in, wanted
from forestay.model.timing import brief
from forestay.plans.evidence import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from forestay.api.forestay import Forestay
    from forestay.api.session import Session
    from forestay.cli.terminal import Part, Screen
    from forestay.model.gates.gate import Judgment
    from forestay.plans.phases import Asked, Listed, Outcome

_SAID = 60
_COLOURS = {"passed": "green", "failed": "red", "overridden": "yellow", "running": "green"}


def _number_argument(parser: Parser) -> None:
    parser.add_argument("number", type=count, metavar="N", help="the number of the phase")


def _evidence_arguments(parser: Parser) -> None:
    parser.add_argument(
        "--evidence",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="what shows it; the value is JSON, else text; may be repeated",
    )
    parser.add_argument(
        "--evidence-file", default="", metavar="FILE", help="names and values as JSON or YAML"
    )


def _evidence(options: Namespace) -> dict[str, Any]:
    return read(options.evidence, options.evidence_file)


# -- done and fail -----------------------------------------------------------------------------


def _done_arguments(parser: Parser) -> None:
    _number_argument(parser)
    _evidence_arguments(parser)
    parser.add_argument("--override", action="store_true", help="pass it whatever the gate says")
    parser.add_argument("--because", default="", metavar="REASON", help="why it is overridden")
    with_key(parser)


def run_done(options: Namespace, stay: Forestay, screen: Screen) -> int:
    session = meant(stay)
    outcome = session.phases.done(
        options.number,
        _evidence(options),
        override=options.override,
        because=options.because,
        key=options.key,
    )
    judged = _judged(outcome.judgment)
    said: Part = (f"phase {outcome.phase} passed", "green")
    if outcome.overridden:
        said = (f"phase {outcome.phase} passed by override", "yellow")
    if not outcome.passed:
        said = (f"phase {outcome.phase} did not pass", "red")
    left = _left_open(session, outcome)
    parts: list[Part] = [said, _last(outcome), _still(left)]
    judged |= {"outputs": outcome.outputs}
    confirm(session, outcome.event, screen, *parts, left_open=left, **judged)
    if not screen.json:
        _tell_judgment(outcome.judgment, screen, advise=not outcome.overridden)
        _tell_outputs(outcome, screen)
        screen.hint("next: ", _next(session, outcome))
    return DONE if outcome.passed else REFUSED


def _last(outcome: Outcome) -> str:
    return "; that was the last one: the session is completed" if outcome.complete else ""


def _left_open(session: Session, outcome: Outcome) -> list[str]:
    """Tasks inside a phase that passed which are neither done nor left out."""
    if not outcome.passed:
        return []
    inside = f"{session.status()['phase']['unit']}-{outcome.phase}"
    return [task.id for task in session.tasks.list() if task.is_open and task.parent == inside]


def _still(left: list[str]) -> Part:
    return (
        f"; tasks of it still open: {shorten(', '.join(left), _SAID)}" if left else "",
        "yellow",
    )


def _next(session: Session, outcome: Outcome) -> str:
    if outcome.complete:
        return "forestay session archive"
    if not outcome.passed and outcome.judgment is not None:
        return outcome.judgment.next_steps[0]
    shown = session.status()["phase"]
    name = shorten(shown["name"], _SAID)
    return f"phase {shown['current']}, {name}: forestay phase gate {shown['current']}"


def _judged(judgment: Judgment | None) -> dict[str, Any]:
    return {"result": None if judgment is None else judgment.as_values()}


def _tell_judgment(judgment: Judgment | None, screen: Screen, *, advise: bool = True) -> None:
    if judgment is None:
        return
    for error in judgment.errors:
        screen.line("  ", ("✗ ", "red"), error)
    for warning in judgment.warnings:
        screen.line("  ", ("! ", "yellow"), warning)
    if judgment.checkpoint_passed or not advise:
        return
    for advice in filter(None, judgment.remediation.split("\n")):
        screen.line("  ", (advice, "dim"))


def _tell_outputs(outcome: Outcome, screen: Screen) -> None:
    for path, word in outcome.outputs.items():
        plain = word in ("kept", "as it was")
        screen.line("  ", ("", "") if plain else ("! ", "yellow"), f"output {path}: {word}")


def _fail_arguments(parser: Parser) -> None:
    _number_argument(parser)
    _evidence_arguments(parser)
    parser.add_argument("--issue", default="", metavar="TEXT", help="what is wrong")
    with_key(parser)


def run_fail(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    evidence = _evidence(options)
    outcome = session.phases.fail(options.number, evidence, issue=options.issue, key=options.key)
    said = f"phase {outcome.phase}: a failed attempt"
    confirm(session, outcome.event, screen, said, then="forestay phase retry")


# -- again, back, how many ---------------------------------------------------------------------


def run_retry(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    event = session.phases.retry(key=options.key)
    number = session.status()["phase"]["current"]
    then = f"forestay phase gate {number}"
    confirm(session, event, screen, f"phase {number}: another attempt", then=then)


def _rollback_arguments(parser: Parser) -> None:
    _number_argument(parser)
    parser.add_argument("--because", default="", metavar="REASON", help="why")
    with_key(parser)


def run_rollback(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay, finished=True)
    event = session.phases.rollback(options.number, because=options.because, key=options.key)
    said = f"back at phase {options.number}; it and all after it are to be done anew"
    confirm(session, event, screen, said, then=f"forestay phase gate {options.number}")


def _total_arguments(parser: Parser) -> None:
    parser.add_argument("number", type=count, metavar="N", help="how many phases there are")
    parser.add_argument(
        "--name",
        dest="names",
        action="append",
        default=[],
        metavar="TITLE",
        help="of a phase that has none yet, in their order; may be repeated",
    )
    with_key(parser)


def run_total(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    event = session.phases.total(options.number, names=options.names, key=options.key)
    confirm(session, event, screen, f"the plan has {options.number} phases")


# -- looking -----------------------------------------------------------------------------------


def _gate_arguments(parser: Parser) -> None:
    told = "the number of the phase; the current one unless given"
    parser.add_argument("number", type=count, nargs="?", metavar="N", help=told)
    _evidence_arguments(parser)


def run_gate(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = stay.current()
    number = options.number
    if number is None:
        # A session without phases is refused below, whatever the number.
        number = (session.status()["phase"] or {"current": 0})["current"]
    asked = session.phases.gate(number, _evidence(options))
    if screen.json:
        screen.answer({**session.status(), **json_values.gate(asked)})
        return
    past = " (it has passed)" if asked.done else ""
    unit = session.status()["phase"]["unit"].capitalize()
    screen.line((f"{unit} {asked.phase}: {asked.name}", "bold"), past)
    if not asked.gate.fields and not asked.gate.rules:
        screen.line("  its gate asks for nothing: ", (screen.as_typed(_then(asked)[0]), "cyan"))
        return
    _tell_fields(asked, screen)
    for rule in asked.gate.rules:
        screen.line("  and so that: ", rule.check, (f"  ({rule.message})", "dim"))
    would = "would pass" if asked.judgment.checkpoint_passed else "would not pass"
    kind = "" if asked.gate.strict else "; it only warns"
    screen.line("  with what there is it ", (would, "bold"), kind)
    _tell_judgment(asked.judgment, screen, advise=False)
    for line in _then(asked):
        screen.line("  → ", (screen.as_typed(line), "cyan"))


def _then(asked: Asked) -> list[str]:
    """What to type: what is lacking first, then how the phase is handed in."""
    if not (asked.handed_in and asked.judgment.checkpoint_passed):
        return asked.judgment.next_steps
    return [hand_in(asked.gate, asked.evidence, asked.phase, asked.observed)]


def _tell_fields(asked: Asked, screen: Screen) -> None:
    there = {**asked.evidence, **asked.observed}
    rows: list[list[Part]] = [[(word, "dim") for word in ("EVIDENCE", "WANTED", "THERE IS", "")]]
    for field in asked.gate.fields:
        value = json_text(there[field.name]) if field.name in there else "–"
        need = wanted(field) + ("" if field.required else " (if any)")
        about = " ".join(field.description.split())
        rows.append([field.name, need, shorten(value, _SAID), (about, "dim")])
    screen.table(rows, indent=2)


def run_list(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = stay.current()
    phases = session.phases.list()
    if screen.json:
        screen.answer({**session.status(), "phases": [json_values.phase(one) for one in phases]})
        return
    screen.long()
    head = ("", "PHASE", "STATUS", "CHECKPOINT", "TIME", "WHAT")
    rows: list[list[Part]] = [[(word, "dim") for word in head]]
    rows += [_row(one) for one in phases]
    screen.table(rows)


def _row(one: Listed) -> list[Part]:
    tries = f" ({one.attempts} attempts)" if one.attempts > 1 else ""
    return [
        ("*" if one.current else "", "green"),
        str(one.number),
        (one.status.replace("_", " "), _COLOURS.get(one.status, "dim")),
        (one.verdict.replace("_", " ") + tries, _COLOURS.get(one.verdict, "dim")),
        "" if one.spent_ms is None else brief(one.spent_ms / 1000),
        one.name,
    ]


COMMANDS = {
    "phase list": Command(nothing, run_list, "forestay phase", "forestay phase list --json"),
    "phase gate": Command(
        _gate_arguments,
        run_gate,
        "forestay phase gate",
        "forestay phase gate 2 --evidence coverage=91",
    ),
    "phase done": Command(
        _done_arguments,
        run_done,
        "forestay phase done 1 --evidence environment_ready=true",
        "forestay phase done 2 --evidence-file evidence.json",
        'forestay phase done 2 --override --because "the last test is flaky upstream"',
    ),
    "phase fail": Command(
        _fail_arguments,
        run_fail,
        'forestay phase fail 2 --evidence coverage=65 --issue "coverage must be 80%"',
    ),
    "phase retry": Command(with_key, run_retry, "forestay phase retry"),
    "phase rollback": Command(
        _rollback_arguments,
        run_rollback,
        'forestay phase rollback 1 --because "the specification changed"',
    ),
    "phase total": Command(
        _total_arguments,
        run_total,
        "forestay phase total 5 --name Parser --name Printer",
    ),
}
