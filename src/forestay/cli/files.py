"""Files in the five layouts: check them, adopt them, convert them, and keep a session's own."""

from __future__ import annotations

import os
from itertools import count

from forestay.base.text import plural
from forestay.base.vocabulary import FINISHED
from forestay.cli.arguments import Command, Parser, nothing
from forestay.cli.suggestions import shown_path, told_from_here, typed_path
from forestay.cli.terminal import SEVERITIES
from forestay.errors import DAMAGED, NO_SESSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from forestay.api.forestay import Forestay
    from forestay.base.findings import Finding
    from forestay.cli.terminal import Screen
    from forestay.mirror.adopt import Adopted
    from forestay.mirror.check_files import FileReport
    from forestay.store.machine.bindings import Binding
_SHOWN = 3
_PROBLEMS = 6
_MOST_SHOWN = 40
_FIVE = "ai-session, praxis, craft, essay or orchestrator"
_FORMAT_HELP = f"{_FIVE}; with an id: craft:ID"


# -- check -------------------------------------------------------------------------------------


def _check_arguments(parser: Parser) -> None:
    parser.add_argument("path", metavar="FILE|DIR", help="a session file, or a folder with some")
    parser.add_argument("--strict", action="store_true", help="what we demand of our own files")
    _workflows_argument(parser)
    parser.add_argument("--all", action="store_true", help="every finding, also those that repeat")


def _workflows_argument(parser: Parser) -> None:
    parser.add_argument(
        "--workflows", default="", metavar="DIR", help="definitions of praxis workflows"
    )


def run_check(options: Namespace, stay: Forestay, screen: Screen) -> int:
    done = count(1)
    reports = stay.files.check(
        options.path,
        strict=options.strict,
        workflows=options.workflows,
        on_report=lambda one: screen.progress(f"{next(done)} checked: {shown_path(one.path)}"),
    )
    screen.progress()
    values = [_report_values(report) for report in reports]
    every = {"findings": [finding for value in values for finding in value["findings"]]}
    first = values[0] if len(values) == 1 else every
    ok = bool(reports) and all(report.ok for report in reports)
    screen.answer({"ok": ok, **first, "sessions": values})
    screen.long()
    for report in reports:
        _tell_report(report, screen, everything=options.all)
    if not reports:
        screen.prose(("nothing  ", "yellow"), f"no session file is in {shown_path(options.path)}")
        return NO_SESSION
    _tell_sum(reports, screen)
    _tell_what_mends(reports, screen)
    return 0 if ok else DAMAGED


def _tell_sum(reports: list[FileReport], screen: Screen) -> None:
    if len(reports) > 1:
        faulty = sum(not report.ok for report in reports)
        said = f"{plural(len(reports), 'session')}: {len(reports) - faulty} good, {faulty} faulty"
        screen.done((said, "red" if faulty else "green"))


def _tell_what_mends(reports: list[FileReport], screen: Screen) -> None:
    torn = [report.path for report in reports if report.is_torn]
    # What lacks files is mended as the folder that it is.
    lacking = [os.path.dirname(report.path) for report in reports if _lacks_files(report)]
    for worst in [*torn, *lacking][:1]:
        screen.hint("what can be made of it: ", f"forestay doctor {typed_path(worst)}")


def _lacks_files(report: FileReport) -> bool:
    return any(finding.code == "missing-file" for finding in report.findings)


def _report_values(report: FileReport) -> dict[str, Any]:
    reading = report.reading
    return {
        "path": report.path,
        "layout": reading.layout or None,
        "generation": reading.generation or None,
        "version": reading.version or None,
        "complete": reading.complete,
        "status": reading.status or None,
        "progress": reading.progress,
        "findings": [_finding_values(finding) for finding in report.findings],
    }


def _finding_values(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "severity": finding.severity,
        "file": finding.file,
        "where": finding.where or None,
        "line": finding.line or None,
        "requirement": finding.requirement or None,
        "message": finding.what,
    }


def _tell_report(report: FileReport, screen: Screen, *, everything: bool) -> None:
    reading = report.reading
    what = " ".join(filter(None, [reading.layout or "unknown layout", reading.generation]))
    state = ", ".join(filter(None, [reading.status, _percent(reading.progress)]))
    word = ("good     ", "green") if report.ok else ("faulty   ", "red")
    screen.line(word, shown_path(report.path))
    screen.line("         ", (what + (f" – {state}" if state else ""), "dim"))
    for alike in _alike(report.findings):
        shown = alike if everything or len(alike) <= _SHOWN + 1 else alike[:_SHOWN]
        for finding in shown:
            _tell_finding(finding, report, screen)
        if len(shown) < len(alike):
            more = f"{len(alike) - len(shown)} more like this: {alike[0].code}"
            screen.line("           ", (more, "dim"))


def _alike(findings: list[Finding]) -> list[list[Finding]]:
    """Findings of one kind together, errors first, else in the order they were met."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.severity, finding.code), []).append(finding)
    return sorted(groups.values(), key=lambda group: list(SEVERITIES).index(group[0].severity))


def _percent(fraction: float | None) -> str:
    return "" if fraction is None else f"{fraction:.0%}"


def _tell_finding(finding: Finding, report: FileReport, screen: Screen) -> None:
    place = "" if finding.file == report.path else os.path.basename(finding.file)
    line = f"line {finding.line}" if finding.line else ""
    at = " · ".join(filter(None, [place, line, finding.where, finding.requirement, finding.code]))
    severity = (f"  {finding.severity:<8} ", SEVERITIES[finding.severity])
    screen.prose(severity, finding.what)
    screen.prose(" " * 11, at, "dim")


# -- adopt -------------------------------------------------------------------------------------


def _adopt_arguments(parser: Parser) -> None:
    parser.add_argument(
        "path",
        nargs="?",
        default="",
        metavar="PATH",
        help="a file or folder; else this project and your essays",
    )
    parser.add_argument(
        "--transcripts",
        default="",
        choices=("claude-code", "codex", "gemini"),
        help="what this agent wrote down of its conversations",
    )
    parser.add_argument(
        "--since",
        default="",
        metavar="WHEN",
        help="transcripts changed since: 36h, 30d, 2026-01-31",
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be adopted")
    _workflows_argument(parser)
    parser.add_argument("--templates", action="store_true", help="also what is not filled in")
    parser.add_argument("--all", action="store_true", help="a line for each, however many")


def run_adopt(options: Namespace, stay: Forestay, screen: Screen) -> int:
    if options.transcripts:
        from forestay.cli.transcripts import run_transcripts

        return run_transcripts(options, stay, screen)
    if options.since:
        from forestay.errors import InvalidInput

        raise InvalidInput("--since is for transcripts", hint="forestay adopt --transcripts AGENT")
    met = count(1)
    shown: list[Adopted] = []

    def tell(one: Adopted) -> None:
        screen.progress(f"{next(met)} looked at: {shown_path(one.path)}")
        if options.all or one.problems or len(shown) < _MOST_SHOWN or not screen.is_terminal:
            shown.append(one)
            screen.progress()
            _tell_adopted(one, screen, dry_run=options.dry_run)

    adopted = stay.files.adopt(
        options.path,
        dry_run=options.dry_run,
        templates=options.templates,
        workflows=options.workflows,
        on_adopted=tell,
    )
    screen.progress()
    screen.answer({"adopted": [_adopted_values(one) for one in adopted]})
    _tell_all_adopted(adopted, options, screen, hidden=len(adopted) - len(shown))
    stuck = any(one.outcome in ("rival", "unreadable") for one in adopted)
    return DAMAGED if stuck and not any(one.session for one in adopted) else 0


def _tell_all_adopted(
    adopted: list[Adopted], options: Namespace, screen: Screen, *, hidden: int
) -> None:
    if hidden:
        screen.line((f"           {hidden} more like these (all of them: --all)", "dim"))
    if not adopted:
        where = shown_path(options.path) if options.path else "this project"
        screen.prose(("nothing  ", "yellow"), f"no session file is in {where}")
    elif len(adopted) > 1:
        counts = {word: sum(one.outcome == word for one in adopted) for word in _OUTCOMES}
        said = ", ".join(f"{n} {_verb(w, options.dry_run)}" for w, n in counts.items() if n)
        screen.done(f"{_how_many(adopted)}: {said}")
    _tell_warnings(adopted, screen)
    new = [one.session for one in adopted if one.outcome == "adopted" and _is_open(one)]
    if new and not options.dry_run:
        screen.hint("pick one up: ", f"forestay resume {new[0]}")
    _tell_what_else_there_is(adopted, options, screen)


def _tell_what_else_there_is(adopted: list[Adopted], options: Namespace, screen: Screen) -> None:
    way = " ".join(filter(None, ["forestay adopt", options.path and typed_path(options.path)]))
    if any(one.outcome == "template" for one in adopted):
        screen.hint("also what is not filled in: ", f"{way} --templates")
    if all(one.path.endswith(".jsonl") and not one.layout for one in adopted):
        screen.hint("conversations of an agent: ", f"{way} --transcripts claude-code")


def _how_many(adopted: list[Adopted]) -> str:
    """Sessions, of which one may have files in several layouts."""
    count = len({one.session or one.path for one in adopted})
    places = "" if count == len(adopted) else f" in {len(adopted)} places"
    return f"{plural(count, 'session')}{places}"


def _is_open(one: Adopted) -> bool:
    return one.reading.status not in FINISHED


def _tell_warnings(adopted: list[Adopted], screen: Screen) -> None:
    """What has to be known of the shape of some files; once, however many they are."""
    said = [one.reading.warning for one in adopted if one.session]
    for warning in dict.fromkeys(filter(None, said)):
        screen.prose(
            ("warning    ", "yellow"), f"{warning} ({plural(said.count(warning), 'session')})"
        )


def _verb(outcome: str, dry_run: bool) -> str:
    return f"would be {outcome}" if dry_run and outcome in _ACTS else outcome


def _adopted_values(one: Adopted) -> dict[str, Any]:
    reading = one.reading
    return {
        "path": one.path,
        "layout": one.layout or None,
        "generation": reading.generation or None,
        "complete": reading.complete,
        "status": reading.status or None,
        "progress": reading.progress,
        "native_id": one.native or None,
        "session": one.session or None,
        "outcome": one.outcome,
        "new": one.is_new,
        "events": one.events,
        "artifacts": one.artifacts,
        "bound": one.bound,
        "problems": one.problems,
        "errors": one.errors,
        "warning": reading.warning or None,
    }


_OUTCOMES = {
    "adopted": "green",
    "edited": "green",
    "moved": "green",
    "known": "dim",
    "copy": "dim",
    "template": "dim",
    "rival": "yellow",
    "unreadable": "red",
}
_ACTS = ("adopted", "edited", "moved")


def _tell_adopted(one: Adopted, screen: Screen, *, dry_run: bool) -> None:
    verb, wide = _verb(one.outcome, dry_run), " " * (18 if dry_run else 11)
    counts = [plural(one.events, "event")] if one.events else []
    counts += [plural(one.artifacts, "artifact")] if one.artifacts else []
    about = ", ".join(filter(None, [one.layout, *counts]))
    # Of several copies of one session it matters which file is meant.
    what = shown_path(one.path) if one.outcome == "copy" or not one.session else one.session
    after = f"  {about}" if about else ""
    screen.line((verb.ljust(len(wide)), _OUTCOMES[one.outcome]), what, (after, "dim"))
    for problem in one.problems[:_PROBLEMS]:
        screen.prose(wide, told_from_here(problem), "yellow")
    more = one.problems[_PROBLEMS:]
    said = [f"{len(more)} more"] if more else []
    said += [plural(one.errors, "error")] if one.errors else []
    if said:
        screen.line(wide, (f"{', '.join(said)}:", "dim"))
        # Of a session with several files all are to be looked at.
        path = one.path if one.layout != "ai-session" else os.path.dirname(one.path)
        # What was saved of files that cannot be read is no finding.
        was_saved = any(problem.startswith(("inferred: ", "lost: ")) for problem in more)
        shows = "doctor" if was_saved else "files check"
        screen.offer(f"{wide}→ ", f"forestay {shows} {typed_path(path)}")


# -- convert -----------------------------------------------------------------------------------


def _convert_arguments(parser: Parser) -> None:
    parser.add_argument("path", metavar="FILE", help="the file, or folder, of one session")
    parser.add_argument("--to", required=True, metavar="LAYOUT", help=_FIVE)
    parser.add_argument("-o", "--output", default="", metavar="OUT", help="a new file or folder")
    parser.add_argument("--id", default="", metavar="ID", help="the session's id in that layout")
    _workflows_argument(parser)


def run_convert(options: Namespace, stay: Forestay, screen: Screen) -> int:
    made, written = stay.files.convert(
        options.path,
        options.to,
        options.output,
        native_id=options.id,
        workflows=options.workflows,
    )
    screen.answer(
        {
            "layout": made.layout,
            "source_layout": made.source,
            "native_id": made.native,
            "files": written,
            "carried": made.carried,
            "lost": made.lost,
        }
    )
    screen.done(("Converted ", "green"), f"{options.path} to {made.layout}:")
    for path in written:
        screen.done("  ", shown_path(path))
    for line in made.lost:
        screen.prose(("  lost    ", "red"), line)
    for alike in _by_room(made.carried):
        screen.prose(("  carried ", "dim"), _together(alike))
    return 0


def _by_room(carried: list[str]) -> list[list[str]]:
    groups: dict[str, list[str]] = {}
    for line in carried:
        groups.setdefault(line.partition(" for ")[0], []).append(line)
    return list(groups.values())


def _together(carried: list[str]) -> str:
    """Sentences that differ in one word, as one."""
    before, _, after = carried[0].partition(" for ")
    _, colon, end = after.partition(": it travels ")
    names = [line.removeprefix(f"{before} for ").removesuffix(f"{colon}{end}") for line in carried]
    return f"{before} for {', '.join(names)}: {'they travel' if names[1:] else 'it travels'} {end}"


# -- layouts -----------------------------------------------------------------------------------


def _format_arguments(parser: Parser) -> None:
    parser.add_argument("format_id", metavar="FORMAT[:ID]", help=_FORMAT_HELP)


def _add_arguments(parser: Parser) -> None:
    _format_arguments(parser)
    parser.add_argument("--root", default="", metavar="DIR", help="where, if not in its own place")


def run_files(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = stay.current()
    bindings = session.files.list()
    screen.answer({"session": session.id, "layouts": [binding_values(b) for b in bindings]})
    for binding in bindings:
        _tell_binding(binding, screen)
    if any(binding.suspended for binding in bindings):
        screen.hint("what helps: ", "forestay doctor")
    if not bindings:
        screen.line("no layout files are kept for this session")
        screen.hint("keep some: ", "forestay files bind craft")


def binding_values(binding: Binding) -> dict[str, Any]:
    return {
        "layout": binding.layout,
        "native_id": binding.native,
        "path": binding.place,
        "mirrored": binding.mirrored,
        "quiet": binding.quiet,
        "suspended": binding.suspended or None,
    }


def _tell_binding(binding: Binding, screen: Screen) -> None:
    quiet = "  written at pause and finish, because git tracks it" if binding.quiet else ""
    screen.line((f"{binding.layout:<13}", "cyan"), shown_path(binding.place), (quiet, "dim"))
    if binding.suspended:
        screen.line("             ", (f"left alone: {told_from_here(binding.suspended)}", "yellow"))


def run_add(options: Namespace, stay: Forestay, screen: Screen) -> None:
    binding = stay.current().files.bind(options.format_id, root=options.root)
    screen.answer({"session": binding.session, **binding_values(binding)})
    when = ", once it can be written" if binding.suspended else ""
    screen.done(("Kept in ", "green"), shown_path(binding.place), when)


def run_remove(options: Namespace, stay: Forestay, screen: Screen) -> int:
    gone = stay.current().files.unbind(options.format_id)
    screen.answer({"removed": [binding_values(b) for b in gone]})
    for binding in gone:
        screen.done("No longer written: ", shown_path(binding.place))
    return 0 if gone else _tell_none(options.format_id, screen)


def _tell_none(format_id: str, screen: Screen) -> int:
    screen.line(f"this session has no files of {format_id}")
    screen.hint("what it has: ", "forestay files")
    return NO_SESSION


def _restore_arguments(parser: Parser) -> None:
    parser.add_argument("format_id", nargs="?", default="", metavar="FORMAT", help="only this one")


def run_restore(options: Namespace, stay: Forestay, screen: Screen) -> int:
    from forestay.cli.recovery import case_values, tell_case
    from forestay.formats.port import spelled

    session = stay.current()
    kept = [binding.layout for binding in session.files.list()]
    done = session.files.restore(options.format_id)
    screen.answer({"session": session.id, "restored": [case_values(case) for case in done]})
    if options.format_id and spelled(options.format_id) not in kept:
        return _tell_none(options.format_id, screen)
    for case in done:
        tell_case(case, screen, acted=True)
    if not done:
        screen.done("No file of this session is damaged or missing.")
    return 0


COMMANDS = {
    "files check": Command(
        _check_arguments,
        run_check,
        "forestay files check .claude/orchestrator-session.json",
        "forestay files check .ai-session --strict --json",
    ),
    "adopt": Command(
        _adopt_arguments,
        run_adopt,
        "forestay adopt",
        "forestay adopt ../old-project --dry-run",
        "forestay adopt --transcripts claude-code --since 30d",
    ),
    "files convert": Command(
        _convert_arguments,
        run_convert,
        "forestay files convert session.json --to craft -o craft.json",
    ),
    "files list": Command(nothing, run_files, "forestay files"),
    "files bind": Command(
        _add_arguments,
        run_add,
        "forestay files bind craft",
        "forestay files bind ai-session:login-2026-01-31",
    ),
    "files restore": Command(
        _restore_arguments,
        run_restore,
        "forestay files restore",
        "forestay files restore craft",
    ),
    "files unbind": Command(_format_arguments, run_remove, "forestay files unbind craft"),
}
