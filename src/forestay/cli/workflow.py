"""Commands for workflows: list them, show one, check a definition, write a new one."""

from __future__ import annotations

from forestay.base.text import plural
from forestay.cli.arguments import Command, arg, flag
from forestay.cli.terminal import SEVERITIES, pick
from forestay.errors import DAMAGED, InvalidInput
from forestay.model.gates.gate import describe_field
from forestay.model.plan import as_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.cli.types import Forestay, Namespace, Part, Screen
    from forestay.model.plan import Gate, Phase, Workflow


# -- list --------------------------------------------------------------------------------------


def run_list(options: Namespace, stay: Forestay, screen: Screen) -> None:
    found = stay.workflows.list()
    screen.answer(workflows=found)
    rows: list[list[Part]] = []
    for each in found:
        count: Part = ("faulty", "red") if each.error else _count(each.phases, each.unit)
        source = "built in" if each.built_in else each.source
        rows.append([(each.name, "cyan"), count, each.title, (source, "dim")])
    screen.table(rows)
    for each in found:
        if each.error:
            screen.warn((f"{each.name}: ", "red"), each.error)
    screen.hint("what one requires: ", "forestay workflow show NAME")


def _count(phases: int | None, unit: str) -> str:
    if phases is None:
        return f"as many {unit}s as needed"
    return plural(phases, unit) if phases else f"no {unit}s"


# -- show --------------------------------------------------------------------------------------


def run_show(options: Namespace, stay: Forestay, screen: Screen) -> None:
    if options.schema:
        text = stay.workflows.schema()
        screen.answer(schema=text)
        screen.block(text)
        return
    if not options.name:
        raise InvalidInput("NAME is missing", hint="forestay workflow list")
    found = stay.workflows.show(options.name)
    screen.answer(as_values(found))
    screen.start_paging()
    screen.line((found.name, "bold"), f"   {found.title}" if found.title else "")
    if found.description:
        screen.prose("", found.description)
    paused, abandoned = (
        f"after {hours:g} h of inactivity" if hours else ""
        for hours in (found.expiry.pause_hours, found.expiry.abandon_hours)
    )
    screen.fields(
        [
            ("version", found.version),
            ("phases", _range(found)),
            ("paused", paused),
            ("abandoned", abandoned),
            ("from", found.source),
        ]
    )
    for phase in found.phases:
        _print_phase(phase, f"{found.unit.capitalize()} {phase.number}", screen)
    if found.pattern is not None:
        _print_phase(found.pattern, f"Every further {found.unit}", screen)


def _range(found: Workflow) -> str:
    words = _count(found.total, found.unit)
    last = found.base + (found.total or 0) - 1
    if found.total is None:
        return f"{words}, from {found.base} on"
    return f"{words}, {found.base} to {last}" if found.total else words


def _print_phase(phase: Phase, number: str, screen: Screen) -> None:
    screen.line()
    effort = f"  {phase.effort}" if phase.effort else ""
    screen.line((number, "title"), f"  {phase.name}", (effort, "dim"))
    if phase.purpose:
        screen.line("  ", (phase.purpose, "dim"))
    rows = [("task", task.name) for task in phase.tasks]
    rows += [("output", output) for output in phase.outputs]
    rows += _gate_rows(phase.gate) if phase.gate else []
    screen.table([((word, "dim"), text) for word, text in rows], indent=2)


def _gate_rows(gate: Gate) -> list[tuple[str, str]]:
    rows = []
    for field in gate.fields:
        optional = "" if field.required else "optional"
        words = ", ".join(filter(None, [describe_field(field), optional]))
        more = f" – {field.description}" if field.description else ""
        rows.append(("evidence", f"{field.name}: {words}{more}"))
    rows += [("rule", rule.check) for rule in gate.rules]
    rows += [("not checked", opaque) for opaque in gate.opaque]
    rows += [] if gate.strict else [("", "only warns")]
    rows += [] if gate.override else [("", "cannot be overridden")]
    return rows


# -- check -------------------------------------------------------------------------------------


def run_check(options: Namespace, stay: Forestay, screen: Screen) -> int:
    checked = stay.workflows.check(options.file)
    names = "code severity file line? where? message=what"
    name = checked.workflow.name if checked.workflow else None
    findings = [pick(finding, names) for finding in checked.findings]
    screen.answer(pick(checked, "ok path"), name=name, findings=findings)
    for finding in checked.findings:
        place = f"{finding.file}:{finding.line}" if finding.line else finding.file
        severity = (finding.severity, SEVERITIES[finding.severity])
        screen.line(place, ": ", severity, f": {finding.what}  ", (f"[{finding.code}]", "dim"))
    if checked.workflow is not None:
        screen.done(("good  ", "green"), f"{checked.workflow.name}: {_range(checked.workflow)}")
    return 0 if checked.ok else DAMAGED


# -- new ---------------------------------------------------------------------------------------


def run_new(options: Namespace, stay: Forestay, screen: Screen) -> None:
    path = stay.workflows.new(options.name, origin=options.origin)
    screen.answer(name=options.name, path=path)
    screen.done(("Wrote ", "green"), path)
    screen.hint("edit it, then: ", f"forestay workflow check {options.name}")


COMMANDS = {
    "workflow list": Command(run_list, "forestay workflow"),
    "workflow show": Command(
        run_show,
        arg("name?", "NAME|FILE", "the workflow"),
        flag("--schema", "print the JSON Schema of definitions"),
        "forestay workflow show spec-execution",
        "forestay workflow show --schema > workflow-v1.json",
    ),
    "workflow check": Command(
        run_check,
        arg("file", "FILE|NAME", "a definition, or a praxis folder"),
        "forestay workflow check .forestay/workflows/release.yaml",
        "forestay workflow check .praxis-os/workflows/spec_execution_v1",
    ),
    "workflow new": Command(
        run_new,
        arg("name", "NAME", "its name"),
        arg("--from", "NAME|FILE", "copy this one", dest="origin"),
        "forestay workflow new release",
        "forestay workflow new ours --from spec-execution",
    ),
}
