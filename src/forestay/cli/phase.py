"""Commands for the phases of a plan: what their gates require, and how to pass them."""

from __future__ import annotations

from forestay.api import json_values
from forestay.base.text import shorten
from forestay.cli.arguments import KEY, Command, arg, count, flag
from forestay.cli.common import Verb, confirm, current_session
from forestay.cli.terminal import json_text
from forestay.errors import DONE, REFUSED
from forestay.model.gates.gate import describe_field, submit_command
from forestay.model.timing import brief
from forestay.plans.evidence import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from forestay.api.forestay import Forestay
    from forestay.api.session import Session
    from forestay.cli.terminal import Part, Screen
    from forestay.model.event import Event
    from forestay.model.gates.gate import Judgment
    from forestay.plans.phases import Asked, Listed, Outcome

_WIDTH = 60
_COLORS = {"passed": "green", "failed": "red", "overridden": "yellow", "running": "green"}
_EVIDENCE = (
    arg("--evidence", "NAME=VALUE", "JSON, else text; may be repeated", many=True),
    arg("--evidence-file", "FILE", "names and values as JSON or YAML"),
)


# -- verdicts ----------------------------------------------------------------------------------


def run_done(options: Namespace, stay: Forestay, screen: Screen) -> int:
    session = current_session(stay)
    outcome = session.phases.done(
        options.number,
        read(options.evidence, options.evidence_file),
        override=options.override,
        because=options.because,
        key=options.key,
    )
    judgment = outcome.judgment
    message: Part = (f"phase {outcome.phase} passed", "green")
    if outcome.overridden:
        message = (f"phase {outcome.phase} passed by override", "yellow")
    if not outcome.passed:
        message = (f"phase {outcome.phase} did not pass", "red")
    last = "; it was the last one: the session is completed" if outcome.complete else ""
    left = _open_tasks(session, outcome) if outcome.passed else []
    still = f"; its open tasks: {shorten(', '.join(left), _WIDTH)}" if left else ""
    confirm(
        session,
        outcome.event,
        screen,
        message,
        last,
        (still, "yellow"),
        left_open=left,
        result=None if judgment is None else judgment.as_values(),
        outputs=outcome.outputs,
    )
    if not screen.json:
        _print_judgment(judgment, screen, advise=not outcome.overridden)
        for path, word in outcome.outputs.items():
            plain = word in ("kept", "as it was")
            screen.line("  ", ("", "") if plain else ("! ", "yellow"), f"output {path}: {word}")
        screen.hint("next: ", _next_step(session, outcome))
    return DONE if outcome.passed else REFUSED


def _open_tasks(session: Session, outcome: Outcome) -> list[str]:
    """Return the open tasks inside a phase that passed."""
    inside = f"{session.status().as_json()['phase']['unit']}-{outcome.phase}"
    return [task.id for task in session.tasks.list() if task.is_open and task.parent == inside]


def _next_step(session: Session, outcome: Outcome) -> str:
    if outcome.complete:
        return "forestay session archive"
    if not outcome.passed and outcome.judgment is not None:
        return outcome.judgment.next_steps[0]
    phase = session.status().as_json()["phase"]
    name = shorten(phase["name"], _WIDTH)
    return f"phase {phase['current']}, {name}: forestay phase gate {phase['current']}"


def _print_judgment(judgment: Judgment | None, screen: Screen, *, advise: bool = True) -> None:
    if judgment is None:
        return
    for error in judgment.errors:
        screen.line("  ", ("✗ ", "red"), error)
    for warning in judgment.warnings:
        screen.line("  ", ("! ", "yellow"), warning)
    if advise and not judgment.checkpoint_passed:
        for advice in filter(None, judgment.remediation.split("\n")):
            screen.line("  ", (advice, "dim"))


def _read_evidence(options: Namespace, session: Session, screen: Screen) -> bool:
    options.evidence = read(options.evidence, options.evidence_file)
    return False


def _report_fail(session: Session, outcome: Outcome, screen: Screen) -> None:
    message = f"phase {outcome.phase}: failed attempt recorded"
    confirm(session, outcome.event, screen, message, then="forestay phase retry")


def _report_retry(session: Session, event: Event, screen: Screen) -> None:
    number = session.status().as_json()["phase"]["current"]
    then = f"forestay phase gate {number}"
    confirm(session, event, screen, f"phase {number}: another attempt", then=then)


def _report_rollback(session: Session, event: Event, screen: Screen) -> None:
    number = session.status().as_json()["phase"]["current"]
    message = f"back at phase {number}; it and all later phases are to be repeated"
    confirm(session, event, screen, message, then=f"forestay phase gate {number}")


# -- gates and lists ---------------------------------------------------------------------------


def run_gate(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = stay.current()
    number = options.number
    if number is None:
        # The library refuses a session without phases, whatever the number.
        number = (session.status().as_json()["phase"] or {"current": 0})["current"]
    asked = session.phases.gate(number, read(options.evidence, options.evidence_file))
    if screen.json:
        screen.answer({**session.status().as_json(), **json_values.gate(asked)})
        return
    past = " (passed)" if asked.done else ""
    unit = session.status().as_json()["phase"]["unit"].capitalize()
    screen.line((f"{unit} {asked.phase}: {asked.name}", "bold"), past)
    if not asked.gate.fields and not asked.gate.rules:
        screen.suggest("  its gate requires nothing: ", _next_commands(asked)[0])
        return
    _print_fields(asked, screen)
    for rule in asked.gate.rules:
        screen.line("  rule: ", rule.check, (f"  ({rule.message})", "dim"))
    would = "would pass" if asked.judgment.checkpoint_passed else "would not pass"
    kind = "" if asked.gate.strict else "; it only warns"
    screen.line("  with the present evidence it ", (would, "bold"), kind)
    _print_judgment(asked.judgment, screen, advise=False)
    for line in _next_commands(asked):
        screen.suggest("  → ", line)


def _next_commands(asked: Asked) -> list[str]:
    """Return what to type: first for what is missing, then to submit the phase."""
    if not (asked.handed_in and asked.judgment.checkpoint_passed):
        return asked.judgment.next_steps
    return [submit_command(asked.gate, asked.evidence, asked.phase, asked.observed)]


def _print_fields(asked: Asked, screen: Screen) -> None:
    there = {**asked.evidence, **asked.observed}
    rows: list[list[Part]] = []
    for field in asked.gate.fields:
        value = json_text(there[field.name]) if field.name in there else "–"
        need = describe_field(field) + ("" if field.required else " (optional)")
        about = " ".join(field.description.split())
        rows.append([field.name, need, shorten(value, _WIDTH), (about, "dim")])
    screen.listing("EVIDENCE REQUIRED PRESENT -", rows, indent=2)


def run_list(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = stay.current()
    phases = session.phases.list()
    if screen.json:
        screen.answer(
            {**session.status().as_json(), "phases": [json_values.phase(one) for one in phases]}
        )
        return
    screen.listing("- PHASE STATUS CHECKPOINT TIME WHAT", [_row(one) for one in phases])


def _row(one: Listed) -> list[Part]:
    tries = f" ({one.attempts} attempts)" if one.attempts > 1 else ""
    return [
        ("*" if one.current else "", "green"),
        str(one.number),
        (one.status.replace("_", " "), _COLORS.get(one.status, "dim")),
        (one.verdict.replace("_", " ") + tries, _COLORS.get(one.verdict, "dim")),
        "" if one.spent_ms is None else brief(one.spent_ms / 1000),
        one.name,
    ]


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
        flag("--override", "pass it whatever its gate decides"),
        arg("--because", "REASON", "why it is overridden"),
        KEY,
        "forestay phase done 1 --evidence environment_ready=true",
        "forestay phase done 2 --evidence-file evidence.json",
        'forestay phase done 2 --override --because "the last test is flaky upstream"',
    ),
    "phase fail": Verb(
        "phases.fail",
        _report_fail,
        *_EVIDENCE,
        'forestay phase fail 2 --evidence coverage=65 --issue "coverage must be 80%"',
        prepare=_read_evidence,
        number="N the number of the phase",
        issue="TEXT what is wrong",
    ),
    "phase retry": Verb("phases.retry", _report_retry, "forestay phase retry"),
    "phase rollback": Verb(
        "phases.rollback",
        _report_rollback,
        'forestay phase rollback 1 --because "the specification changed"',
        finished=True,
        number="N the number of the phase",
    ),
    "phase total": Verb(
        "phases.total",
        "the plan has {0.total} phases",
        "forestay phase total 5 --name Parser --name Printer",
        count="N how many phases there are",
        names="TITLE of a phase that has none yet, in their order; may be repeated",
    ),
}
