"""The whole home: verify it, examine it, back it up, and move sessions between homes."""

from __future__ import annotations

import os

from forestay.base.text import plural
from forestay.cli.arguments import Command, Parser
from forestay.cli.suggestions import told_from_here, typed_path
from forestay.cli.terminal import SEVERITIES
from forestay.errors import DAMAGED, Damaged, InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from forestay.api.forestay import Forestay
    from forestay.base.findings import Finding
    from forestay.cli.terminal import Screen
    from forestay.journal.move import MoveResult
    from forestay.journal.restore import ImportResult, SessionResult
    from forestay.journal.verify import Report


# -- verify ------------------------------------------------------------------------------------


def _verify_arguments(parser: Parser) -> None:
    parser.add_argument("chosen", nargs="?", default="", metavar="SESSION", help="only this one")


def run_verify(options: Namespace, stay: Forestay, screen: Screen) -> int:
    chosen = options.chosen or options.session
    found = [stay.session(chosen).verify()] if chosen else stay.verify()
    store = [finding.what for report in found if not report.session for finding in report.findings]
    reports = [report for report in found if report.session]
    ok = all(report.ok for report in found)
    sessions = [_report_values(report) for report in reports]
    screen.answer({"ok": ok, "sessions": sessions, "store": store})
    for report in reports:
        _tell_report(report, screen, always=bool(chosen))
    for problem in store:
        screen.line(("damaged  ", "red"), problem)
    if ok:
        checked = plural(len(reports), "session")
        events = plural(sum(report.events for report in reports), "event")
        screen.done(("Sound: ", "green"), f"{checked}, {events}, as they were written.")
        return 0
    screen.offer("→ ", "forestay doctor")
    return DAMAGED


def _report_values(report: Report) -> dict[str, Any]:
    findings = [
        {"code": finding.code, "message": finding.what, "seq": finding.seq or None}
        for finding in report.findings
    ]
    values = {"session": report.session, "ok": report.ok, "events": report.events}
    return {**values, "findings": findings}


def _tell_report(report: Report, screen: Screen, *, always: bool) -> None:
    if report.ok and not always:
        return
    word = ("sound    ", "green") if report.ok else ("damaged  ", "red")
    screen.line(word, report.session, (f"  {plural(report.events, 'event')}", "dim"))
    for finding in report.findings:
        screen.line("         ", finding.what)


# -- doctor ------------------------------------------------------------------------------------


def _doctor_arguments(parser: Parser) -> None:
    parser.add_argument(
        "path",
        nargs="?",
        default="",
        metavar="PATH",
        help="damaged session files of any of the layouts; else this home",
    )
    parser.add_argument("-o", "--output", default="", metavar="OUT", help="write what is recovered")
    parser.add_argument("--choose", default="", metavar="CHOICE", help="answer what was asked")
    parser.add_argument("--fix", action="store_true", help="mend what can be mended")
    parser.add_argument("--deep", action="store_true", help="every session and every backup")


def run_doctor(options: Namespace, stay: Forestay, screen: Screen) -> int:
    if options.path:
        from forestay.cli.recovery import run_recover

        return run_recover(options, stay, screen)
    if options.output or options.choose:
        raise InvalidInput(
            "-o and --choose are for damaged files", hint="name them: forestay doctor PATH"
        )
    try:
        done, lost, found = stay.doctor(fix=options.fix, deep=options.deep)
    except Damaged as error:
        if not options.fix and "--fix" not in error.hint:
            error.hint = "rebuild it from what is left and from backups: forestay doctor --fix"
        raise
    bad = bool(lost) or any(advice.severity == "error" for advice in found)
    screen.answer(
        {"ok": not bad, "advice": list(map(_advice_values, found)), "done": done, "lost": lost}
    )
    for line in done:
        screen.line(("mended   ", "green"), told_from_here(line))
    for line in lost:
        screen.line(("lost     ", "red"), line)
    for advice in found:
        _tell_advice(advice, screen)
    if options.fix and not done:
        said = "Nothing of this can be mended from here." if bad else "Nothing had to be mended."
        screen.line((said, "" if found else "green"))
    elif not lost and all(advice.severity == "info" for advice in found):
        screen.line(("All is well.", "green"))
    elif any(advice.fixable for advice in found) and not options.fix:
        screen.offer("→ ", "forestay doctor --fix")
    return DAMAGED if bad else 0


_ADVICE = ("code", "severity", "what", "why", "fix", "fixable", "session", "file")


def _advice_values(advice: Finding) -> dict[str, Any]:
    return {name: getattr(advice, name) for name in _ADVICE}


def _tell_advice(advice: Finding, screen: Screen) -> None:
    severity = (f"{advice.severity:<9}", SEVERITIES[advice.severity])
    screen.prose(severity, told_from_here(advice.what, advice.file))
    if advice.why:
        screen.prose(" " * 9, told_from_here(advice.why, advice.file), "dim")
    if advice.fix:
        screen.offer("         → ", told_from_here(advice.fix, advice.file))


def _always(options: Namespace) -> bool:
    return True


# -- backup, restore, export, import -----------------------------------------------------------


def _backup_arguments(parser: Parser) -> None:
    parser.add_argument(
        "folder", nargs="?", default="", metavar="DIR", help="a folder of yours; else in the home"
    )


def run_backup(options: Namespace, stay: Forestay, screen: Screen) -> int:
    saved = stay.backups.create(options.folder)
    left_out = [{"session": session, "why": why} for session, why in saved.left_out]
    screen.answer(
        {
            "path": saved.path,
            "sessions": saved.sessions,
            "events": saved.events,
            "left_out": left_out,
        }
    )
    what = f"{plural(saved.sessions, 'session')}, {plural(saved.events, 'event')}"
    screen.done(("Saved ", "green"), what, " in ", saved.path)
    for session, why in saved.left_out:
        screen.line(("  left out ", "red"), f"{session}: {why}")
    return DAMAGED if saved.left_out else 0


def _pack_arguments(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="a file that backup or export wrote")


def run_restore(options: Namespace, stay: Forestay, screen: Screen) -> None:
    _tell_outcome(stay.backups.restore(options.file), "restored", screen)


def run_import(options: Namespace, stay: Forestay, screen: Screen) -> None:
    outcome = stay.backups.import_(options.file)
    _tell_outcome(outcome, "imported", screen)
    if len(outcome.sessions) == 1 and not outcome.sessions[0].why:
        screen.hint("next: ", f"forestay resume {outcome.sessions[0].session}")


def _tell_outcome(outcome: ImportResult, word: str, screen: Screen) -> None:
    sessions = [_taken_values(taken) for taken in outcome.sessions]
    screen.answer({"sessions": sessions, "new": outcome.new, "contents": outcome.blobs})
    skipped = [taken for taken in outcome.sessions if taken.why]
    for taken in outcome.sessions:
        if taken.why or taken.left_out:
            left = (
                f"{plural(taken.left_out, 'event')} could not be taken: what they follow is missing"
            )
            screen.line(("  skipped ", "yellow"), f"{taken.session}: {taken.why or left}")
        if taken.kept:
            screen.line(
                ("  kept ", "yellow"),
                f"{taken.session}: {plural(taken.kept, 'event')} forgotten where the pack was made;"
                " to erase them here too: forestay session forget EVENT…",
            )
    changed = sum(1 for taken in outcome.sessions if taken.new)
    held = sum(taken.held for taken in outcome.sessions)
    parts = [
        f"{plural(outcome.new, 'event')} {word} in {plural(changed, 'session')}",
        f"{held} were here already",
        *([f"{plural(len(skipped), 'session')} skipped"] if skipped else []),
    ]
    screen.done("; ".join(parts))


def _taken_values(taken: SessionResult) -> dict[str, Any]:
    return taken._asdict()


def _export_arguments(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="a new file, such as login.fspack")
    parser.add_argument("--force", action="store_true", help="replace the file if it is there")
    parser.add_argument("--partial", action="store_true", help="without content that is gone")
    parser.add_argument(
        "--to",
        action="append",
        default=[],
        metavar="KEY",
        help="only this person or device can read it (again for more)",
    )
    parser.add_argument("--passphrase", action="store_true", help="only with a passphrase")


def run_export(options: Namespace, stay: Forestay, screen: Screen) -> int:
    session = stay.current()
    path = os.path.abspath(options.file)
    shown = session.status() if screen.json else {}
    if os.path.lexists(path) and not options.force:
        hint = "choose another name, or replace it: --force"
        raise InvalidInput(f"{path} already exists", hint=hint, file=path)
    words = ""
    if options.passphrase:
        from forestay.cli.key import new_passphrase

        words = new_passphrase(screen)
    left_out = session.export(
        path, overwrite=options.force, partial=options.partial, to=options.to, passphrase=words
    )
    screen.answer({**shown, "path": path, "left_out": left_out})
    sealed = ", sealed" if options.to or words else ""
    screen.done(("Exported ", "green"), f"{session.id} to {path}{sealed}")
    for why in left_out:
        screen.line(("  left out ", "red"), why)
    screen.hint(
        "on another machine: ", f"forestay backup import {typed_path(os.path.basename(path))}"
    )
    return DAMAGED if left_out else 0


# -- move ---------------------------------------------------------------------------------------


def _move_arguments(parser: Parser) -> None:
    parser.add_argument("--to", default="", metavar="URL", help="postgresql://… or sqlite:PATH")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be copied")
    parser.add_argument("--unseal", action="store_true", help="continue here after a move")


def run_move(options: Namespace, stay: Forestay, screen: Screen) -> None:
    if bool(options.to) == options.unseal:
        raise InvalidInput(
            "the target is missing", hint="forestay backup move --to URL, or --unseal"
        )

    def part(what: str, done: int, of: int) -> None:
        screen.progress(f"{done * 100 // max(of, 1)}% {what}")

    moved = stay.backups.move(
        options.to, dry_run=options.dry_run, unseal=options.unseal, on_part=part
    )
    screen.progress()
    screen.answer({**moved._asdict(), "dry_run": options.dry_run})
    _tell_moved(moved, screen)


def _tell_moved(moved: MoveResult, screen: Screen) -> None:
    what = f"{plural(moved.sessions, 'session')}, {plural(moved.events, 'event')}"
    if moved.state == "unsealed":
        screen.done(("Unsealed ", "green"), moved.source, ": ", what)
        screen.line("  what was copied to ", moved.target, " stays there and is not followed")
    elif moved.state == "would move":
        screen.line("Would move ", what, " from ", moved.source, " to ", moved.target)
    else:
        screen.done(("Moved ", "green"), what, " to ", moved.target)
        screen.line("  compared byte for byte; ", moved.source, " is sealed")
        screen.line("  use it: forestay config store ", f"'{moved.target}'")
        screen.line("  or go back: forestay backup move --unseal")
    for left in moved.left_out:
        screen.line(("  left ", "yellow"), left)


COMMANDS = {
    "verify": Command(
        _verify_arguments, run_verify, "forestay verify", "forestay verify fix-login --json"
    ),
    "doctor": Command(
        _doctor_arguments,
        run_doctor,
        "forestay doctor",
        "forestay doctor --fix",
        "forestay doctor .claude/orchestrator-session.json",
        careful=_always,
    ),
    "backup create": Command(
        _backup_arguments, run_backup, "forestay backup create", "forestay backup create /media/usb"
    ),
    "backup restore": Command(_pack_arguments, run_restore, "forestay backup restore all.fspack"),
    "backup export": Command(
        _export_arguments,
        run_export,
        "forestay backup export login.fspack --session fix-login",
        "forestay backup export login.fspack --to fsp1q2w3e4r5t6y7",
    ),
    "backup import": Command(_pack_arguments, run_import, "forestay backup import login.fspack"),
    "backup move": Command(
        _move_arguments,
        run_move,
        "forestay backup move --to postgresql://db.example.org/forestay",
        "forestay backup move --to sqlite: --dry-run",
        "forestay backup move --unseal",
    ),
}
