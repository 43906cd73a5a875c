"""Commands for the phases of a plan: what their gates require, and how to pass them."""

from __future__ import annotations

from forestay.base.text import shorten
from forestay.cli.arguments import KEY, Command, arg, count, flag
from forestay.cli.common import Verb, confirm, current_session
from forestay.cli.terminal import json_text, pick
from forestay.errors import DONE, REFUSED
from forestay.model.gates.gate import describe_field, submit_command
from forestay.model.timing import brief
from forestay.plans.evidence import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.cli.common import Report
    from forestay.cli.types import Any, Event, Forestay, Namespace, Part, Screen, Session
    from forestay.model.gates.gate import Judgment
    from forestay.plans.phases import Outcome

_WIDTH = 60
_COLORS = {"passed": "green", "failed": "red", "overridden": "yellow", "running": "green"}
_EVIDENCE = (
    arg("--evidence", "NAME=VALUE", "VALUE is JSON, or else text; can be repeated", many=True),
    arg("--evidence-file", "FILE", "names and values as JSON or YAML"),
)


# -- verdicts ----------------------------------------------------------------------------------


def run_done(options: Namespace, stay: Forestay, screen: Screen) -> int:
    session = current_session(stay)
    evidence = read(options.evidence, options.evidence_file)
    given = pick(options, "override because key")
    outcome = session.phases.done(options.number, evidence, **given)
    judgment, phase = outcome.judgment, session.status().as_json()["phase"]
    message: Part = (f"phase {outcome.phase} passed", "green")
    if outcome.overridden:
        message = (f"phase {outcome.phase} passed by override", "yellow")
    if not outcome.passed:
        message = (f"phase {outcome.phase} did not pass", "red")
    last = "; it was the last one: the session is completed" if outcome.complete else ""
    inside = f"{phase['unit']}-{outcome.phase}"
    tasks = session.tasks.list() if outcome.passed else []
    left = [task.id for task in tasks if task.is_open and task.phase == inside]
    still = f"; its open tasks: {shorten(', '.join(left), _WIDTH)}" if left else ""
    result = None if judgment is None else judgment.as_values()
    known: dict[str, Any] = {"left_open": left, "result": result, "outputs": outcome.outputs}
    confirm(session, outcome.event, screen, message, last, (still, "yellow"), **known)
    if judgment is not None:
        _print_judgment(judgment, screen)
        if not (outcome.overridden or judgment.checkpoint_passed):
            for advice in filter(None, judgment.remediation.split("\n")):
                screen.line("  ", (advice, "dim"))
    for path, word in outcome.outputs.items():
        plain = word in ("kept", "as it was")
        screen.line("  ", ("", "") if plain else ("! ", "yellow"), f"output {path}: {word}")
    if outcome.complete:
        then = "forestay session archive"
    elif not outcome.passed and judgment is not None:
        then = judgment.next_steps[0]
    else:
        name = shorten(phase["name"], _WIDTH)
        then = f"phase {phase['current']}, {name}: forestay phase gate {phase['current']}"
    screen.hint("next: ", then)
    return DONE if outcome.passed else REFUSED


def _print_judgment(judgment: Judgment, screen: Screen) -> None:
    for error in judgment.errors:
        screen.line("  ", ("✗ ", "red"), error)
    for warning in judgment.warnings:
        screen.line("  ", ("! ", "yellow"), warning)


def _read_evidence(options: Namespace, session: Session, screen: Screen) -> bool:
    options.evidence = read(options.evidence, options.evidence_file)
    return False


def _report_fail(session: Session, outcome: Outcome, screen: Screen) -> None:
    message = f"phase {outcome.phase}: failed attempt recorded"
    confirm(session, outcome.event, screen, message, then="forestay phase retry")


def _report_current(message: str) -> Report:
    """Return a report that has the number of the phase that is current afterwards."""

    def report(session: Session, event: Event, screen: Screen) -> None:
        number = session.status().as_json()["phase"]["current"]
        then = f"forestay phase gate {number}"
        confirm(session, event, screen, message.format(number), then=then)

    return report


# -- gates and lists ---------------------------------------------------------------------------


def run_gate(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = stay.current()
    number, phase = options.number, session.status().as_json()["phase"]
    if number is None:
        # The library refuses a session without phases, whatever the number.
        number = phase["current"] if phase else 0
    asked = session.phases.gate(number, read(options.evidence, options.evidence_file))
    screen.answer(session.status, asked)
    gate, judgment = asked.gate, asked.judgment
    past = " (passed)" if asked.done else ""
    screen.line((f"{phase['unit'].capitalize()} {asked.phase}: {asked.name}", "bold"), past)
    # Suggest the commands for missing evidence first, then the one that submits the phase.
    steps = judgment.next_steps
    if asked.handed_in and judgment.checkpoint_passed:
        steps = [submit_command(gate, asked.evidence, asked.phase, asked.observed)]
    if not gate.fields and not gate.rules:
        screen.suggest("  its gate requires nothing: ", steps[0])
        return
    there = {**asked.evidence, **asked.observed}
    rows: list[list[Part]] = []
    for field in gate.fields:
        value = json_text(there[field.name]) if field.name in there else "–"
        need = describe_field(field) + ("" if field.required else " (optional)")
        about = " ".join(field.description.split())
        rows.append([field.name, need, shorten(value, _WIDTH), (about, "dim")])
    screen.listing("EVIDENCE REQUIRED PRESENT -", rows, indent=2)
    for rule in gate.rules:
        screen.line("  rule: ", rule.check, (f"  ({rule.message})", "dim"))
    would = "would pass" if judgment.checkpoint_passed else "would not pass"
    kind = "" if gate.strict else "; it only warns"
    screen.line("  with the present evidence it ", (would, "bold"), kind)
    _print_judgment(judgment, screen)
    for line in steps:
        screen.suggest("  → ", line)


def run_list(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = stay.current()
    phases = session.phases.list()
    screen.answer(session.status, phases=phases)
    rows: list[list[Part]] = []
    for one in phases:
        tries = f" ({one.attempts} attempts)" if one.attempts > 1 else ""
        mark: Part = ("*" if one.current else "", "green")
        status = (one.status.replace("_", " "), _COLORS.get(one.status, "dim"))
        verdict = (one.checkpoint.replace("_", " ") + tries, _COLORS.get(one.checkpoint, "dim"))
        spent = "" if one.duration_seconds is None else brief(one.duration_seconds)
        rows.append([mark, str(one.number), status, verdict, spent, one.name])
    screen.listing("- PHASE STATUS CHECKPOINT TIME WHAT", rows)


_NUMBER = arg("number", "N", "the number of the phase", type=count)

COMMANDS = {
    "phase list": Command(run_list, "forestay phase", "forestay phase list --json"),
    "phase gate": Command(
        run_gate,
        arg("number?", "N", "the number of the phase; default: the current one", type=count),
        *_EVIDENCE,
        "forestay phase gate",
        "forestay phase gate 2 --evidence coverage=91",
    ),
    "phase done": Command(
        run_done,
        _NUMBER,
        *_EVIDENCE,
        flag("--override", "pass the phase even if its gate fails"),
        arg("--because", "REASON", "why it is overridden"),
        KEY,
        "forestay phase done 1 --evidence environment_ready=true",
        "forestay phase done 2 --evidence-file evidence.json",
        'forestay phase done 2 --override --because "the last test is flaky upstream"',
    ),
    "phase fail": Verb(
        "",
        *_EVIDENCE,
        'forestay phase fail 2 --evidence coverage=65 --issue "coverage must be 80%"',
        report=_report_fail,
        prepare=_read_evidence,
        number="N the number of the phase",
        issue="TEXT what is wrong",
    ),
    "phase retry": Verb(
        "",
        "forestay phase retry",
        report=_report_current("phase {}: another attempt"),
    ),
    "phase rollback": Verb(
        "",
        'forestay phase rollback 1 --because "the specification changed"',
        report=_report_current("back at phase {}; it and all later phases are to be repeated"),
        finished=True,
        number="N the number of the phase",
    ),
    "phase total": Verb(
        "the plan has {0.total} phases",
        "forestay phase total 5 --name Parser --name Printer",
        count="N how many phases there are",
        names="TITLE of a phase that has none yet, in their order; can be repeated",
    ),
}
