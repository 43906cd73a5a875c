"""Commands for session files in the five formats: check, convert, bind and restore them.

A *case* describes damaged files: what can be recovered from them, and the commands that do it.
"""

from __future__ import annotations

import os
import shlex
from itertools import count

from forestay.base.text import plural
from forestay.cli.arguments import FIVE, Command, arg, flag
from forestay.cli.suggestions import quoted_path, short_path, shorten_paths
from forestay.cli.terminal import BINDING, SEVERITIES, pick
from forestay.errors import DAMAGED, NO_SESSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.base.findings import Finding, Question
    from forestay.cli.types import Any, Forestay, Namespace, Screen
    from forestay.mirror.check_files import FileReport
    from forestay.mirror.recover import Case, Unusable

_SHOWN, _MOST_LINES = 3, 40
_SOURCES = {
    "journal": "from the journal",
    "backup": "from the backup next to it",
    "artifacts": "from what is left of it",
    "user": "only if you choose how",
}
WORKFLOWS = arg("--workflows", "DIR", "definitions of praxis workflows")


# -- check -------------------------------------------------------------------------------------


def run_check(options: Namespace, stay: Forestay, screen: Screen) -> int:
    done = count(1)
    reports = stay.files.check(
        options.path,
        strict=options.strict,
        workflows=options.workflows,
        on_report=lambda one: screen.progress(f"{next(done)} checked: {short_path(one.path)}"),
    )
    screen.progress()
    names = "code severity file where? line? requirement? message=what"
    values = [
        {
            "path": report.path,
            **pick(report.reading, "format? generation? version? complete status? progress"),
            "findings": [pick(finding, names) for finding in report.findings],
        }
        for report in reports
    ]
    every = {"findings": [finding for value in values for finding in value["findings"]]}
    ok = bool(reports) and all(report.ok for report in reports)
    screen.answer({"ok": ok}, values[0] if len(values) == 1 else every, sessions=values)
    screen.start_paging()
    for report in reports:
        _print_report(report, screen, everything=options.all)
    if not reports:
        screen.prose(
            ("nothing  ", "yellow"), f"no session files found in {short_path(options.path)}"
        )
        return NO_SESSION
    if len(reports) > 1:
        faulty = sum(not report.ok for report in reports)
        counts = f"{len(reports) - faulty} good, {faulty} faulty"
        message = f"{plural(len(reports), 'session')}: {counts}"
        screen.done((message, "red" if faulty else "green"))
    torn = [report.path for report in reports if report.is_torn]
    # A session that lacks files is repaired as a folder.
    lacking = [
        os.path.dirname(report.path)
        for report in reports
        if any(finding.code == "missing-file" for finding in report.findings)
    ]
    for worst in [*torn, *lacking][:1]:
        screen.hint("to recover it: ", f"forestay doctor {quoted_path(worst)}")
    return 0 if ok else DAMAGED


def _print_report(report: FileReport, screen: Screen, *, everything: bool) -> None:
    reading = report.reading
    what = " ".join(filter(None, [reading.format or "unknown format", reading.generation]))
    percent = "" if reading.progress is None else f"{reading.progress:.0%}"
    state = ", ".join(filter(None, [reading.status, percent]))
    word = ("good     ", "green") if report.ok else ("faulty   ", "red")
    screen.line(word, short_path(report.path))
    screen.line("         ", (what + (f" – {state}" if state else ""), "dim"))
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in report.findings:
        groups.setdefault((finding.severity, finding.code), []).append(finding)
    for alike in sorted(groups.values(), key=lambda g: list(SEVERITIES).index(g[0].severity)):
        shown = alike if everything or len(alike) <= _SHOWN + 1 else alike[:_SHOWN]
        for finding in shown:
            place = "" if finding.file == report.path else os.path.basename(finding.file)
            line = f"line {finding.line}" if finding.line else ""
            at = [place, line, finding.where, finding.requirement, finding.code]
            severity = (f"  {finding.severity:<8} ", SEVERITIES[finding.severity])
            screen.prose(severity, finding.what)
            screen.prose(" " * 11, " · ".join(filter(None, at)), "dim")
        if len(shown) < len(alike):
            more = f"{len(alike) - len(shown)} more like this: {alike[0].code}"
            screen.line("           ", (more, "dim"))


# -- convert -----------------------------------------------------------------------------------


def run_convert(options: Namespace, stay: Forestay, screen: Screen) -> None:
    made = stay.files.convert(
        options.path, options.to, options.output, native_id=options.id, workflows=options.workflows
    )
    values = pick(made, "format source_format=source native_id=native carried lost")
    screen.answer(values, files=made.written)
    screen.done(("Converted ", "green"), f"{options.path} to {made.format}:")
    for path in made.written:
        screen.done("  ", short_path(path))
    for line in made.lost:
        screen.prose(("  lost    ", "red"), line)
    for line in made.carried:
        screen.prose(("  carried ", "dim"), line)


# -- bind --------------------------------------------------------------------------------------


def run_files(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = stay.current()
    bindings = session.files.list()
    screen.answer(session=session.id, formats=[pick(b, BINDING) for b in bindings])
    for binding in bindings:
        quiet = "  written at pause and finish, because git tracks it" if binding.quiet else ""
        screen.line((f"{binding.format:<13}", "cyan"), short_path(binding.place), (quiet, "dim"))
        if binding.suspended:
            screen.line(" " * 13, (f"not written: {shorten_paths(binding.suspended)}", "yellow"))
    if any(binding.suspended for binding in bindings):
        screen.hint("to fix it: ", "forestay doctor")
    if not bindings:
        screen.line("this session has no files in any format")
        screen.hint("to write some: ", "forestay files bind craft")


def run_bind(options: Namespace, stay: Forestay, screen: Screen) -> None:
    binding = stay.current().files.bind(options.format_id, root=options.root)
    screen.answer(pick(binding, BINDING), session=binding.session)
    when = ", once it can be written" if binding.suspended else ""
    screen.done(("Written to ", "green"), short_path(binding.place), when)


def run_unbind(options: Namespace, stay: Forestay, screen: Screen) -> int:
    removed = stay.current().files.unbind(options.format_id)
    screen.answer(removed=[pick(b, BINDING) for b in removed])
    for binding in removed:
        screen.done("No longer written: ", short_path(binding.place))
    return 0 if removed else _print_none(options.format_id, screen)


def _print_none(format_id: str, screen: Screen) -> int:
    screen.line(f"this session has no files of {format_id}")
    screen.hint("what it has: ", "forestay files")
    return NO_SESSION


def run_restore(options: Namespace, stay: Forestay, screen: Screen) -> int:
    from forestay.formats.port import canonical_name

    session = stay.current()
    bound = [binding.format for binding in session.files.list()]
    done = session.files.restore(options.format_id)
    screen.answer(session=session.id, restored=[case_values(case) for case in done])
    if options.format_id and canonical_name(options.format_id) not in bound:
        return _print_none(options.format_id, screen)
    for case in done:
        print_case(case, screen, acted=True)
    if not done:
        screen.done("No file of this session is damaged or missing.")
    return 0


# -- damaged files -----------------------------------------------------------------------------


def run_recover(options: Namespace, stay: Forestay, screen: Screen) -> int:
    """Run `forestay doctor PATH`."""
    case = stay.files.recover(
        options.path, out=options.output, fix=options.fix, choose=options.choose
    )
    if case is None:
        screen.answer(ok=True, case=None)
        screen.line(("readable ", "green"), short_path(options.path))
        screen.hint("check its content: ", f"forestay files check {quoted_path(options.path)}")
        return 0
    asked = bool(options.output or options.fix)
    screen.answer(ok=asked, case=case_values(case))
    print_case(case, screen, acted=asked, chosen=options.choose)
    return 0 if asked else DAMAGED


def answer_unusable(error: Unusable, screen: Screen) -> int:
    """Print what can be done about the damaged files a command needs; return the exit code."""
    screen.answer(kind="corrupt", case=case_values(error.case))
    print_case(error.case, screen, acted=False)
    return DAMAGED


def case_values(case: Case) -> dict[str, Any]:
    """Return damaged files, and what can be recovered, as JSON values."""
    names = "format path session? what rung message inferred lost damaged missing kept written"
    values = pick(case, names)
    if case.question is None:
        return {**values, "question": None}
    question = pick(case.question, "text recommended files menu?")
    choices = [pick(c, "id title says=detail? command?") for c in case.question.choices]
    return {**values, "question": {**question, "choices": choices}}


def print_case(case: Case, screen: Screen, *, acted: bool, chosen: str = "") -> None:
    """Print damaged files, what was or can be recovered, and the commands that do it."""
    word = ("recovered ", "green") if acted else ("damaged   ", "red")
    screen.line(word, case.message if acted else _with_short_paths(case.what, case))
    if not acted:
        screen.line("          ", (f"can be recovered {_SOURCES[case.rung]}", "dim"))
    for name, lines in (("inferred", case.inferred), ("lost", case.lost)):
        for line in lines[:_MOST_LINES]:
            screen.line((f"  {name:<9}", "dim"), line)
        if len(lines) > _MOST_LINES:
            screen.line("           ", (f"{len(lines) - _MOST_LINES} more like this", "dim"))
    for path in case.kept:
        screen.line(("  saved    ", "dim"), f"{short_path(path)} (the damaged bytes)")
    for path in case.written:
        screen.line(("  written  ", "dim"), short_path(path))
    if acted:
        return
    if case.question is not None:
        _print_question(case, case.question, screen)
        return
    doctor = f"forestay doctor {quoted_path(case.path)}"
    choice = f" --choose {shlex.quote(chosen)}" if chosen else ""
    screen.line(("nothing is changed yet; afterwards: ", "dim"), case.message)
    if case.rung != "journal":
        screen.suggest("→ as a copy: ", f"{doctor} -o OUT{choice}")
    screen.suggest("→ in place, the old bytes are saved: ", f"{doctor} --fix{choice}")


def _with_short_paths(text: str, case: Case) -> str:
    return shorten_paths(text, *dict.fromkeys([case.path, *case.damaged, *case.missing]))


def _print_question(case: Case, question: Question, screen: Screen) -> None:
    screen.line()
    if question.menu:
        screen.block(question.menu)
    else:
        screen.line((case.message, "bold"))
        for name in question.files:
            screen.line(("  there is ", "dim"), name)
        screen.line(question.text)
    screen.line()
    for choice in question.choices:
        best = ("  recommended", "green") if choice.id == question.recommended else ""
        detail = "" if question.menu or not choice.detail else f": {choice.detail}"
        screen.line((f"{choice.id:<9} ", "cyan"), choice.title, detail, best)
        if choice.command:
            screen.suggest("          → ", _with_short_paths(choice.command, case))


_FORMAT = arg("format_id", "FORMAT[:ID]", f"{FIVE}; with an id: craft:ID")

COMMANDS = {
    "files check": Command(
        run_check,
        arg("path", "FILE|DIR", "a session file, or a folder with some"),
        flag("--strict", "apply the rules for files that Forestay writes"),
        WORKFLOWS,
        flag("--all", "show every finding, also repeated ones"),
        "forestay files check .claude/orchestrator-session.json",
        "forestay files check .ai-session --strict --json",
    ),
    "files convert": Command(
        run_convert,
        arg("path", "FILE", "the file, or folder, of one session"),
        arg("--to", "FORMAT", FIVE, required=True),
        arg("-o --output", "OUT", "a new file or folder"),
        arg("--id", "ID", "the session's id in that format"),
        WORKFLOWS,
        "forestay files convert session.json --to craft -o craft.json",
    ),
    "files list": Command(run_files, "forestay files"),
    "files bind": Command(
        run_bind,
        _FORMAT,
        arg("--root", "DIR", "where; default: the usual place of the format"),
        "forestay files bind craft",
        "forestay files bind ai-session:login-2026-01-31",
    ),
    "files unbind": Command(run_unbind, _FORMAT, "forestay files unbind craft"),
    "files restore": Command(
        run_restore,
        arg("format_id?", "FORMAT", "only this one"),
        "forestay files restore",
        "forestay files restore craft",
    ),
}
