"""Commands for the whole home: verify it, repair it, back it up, and move it."""

from __future__ import annotations

import os

from forestay.base.text import plural
from forestay.cli.arguments import Command, arg, flag
from forestay.cli.suggestions import quoted_path, shorten_paths
from forestay.cli.terminal import SEVERITIES, pick
from forestay.errors import DAMAGED, Damaged, InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.cli.types import Forestay, Namespace, Screen
    from forestay.journal.restore import ImportResult


# -- verify ------------------------------------------------------------------------------------


def run_verify(options: Namespace, stay: Forestay, screen: Screen) -> int:
    chosen = options.chosen or options.session
    found = [stay.session(chosen).verify()] if chosen else stay.verify()
    store = [finding.what for report in found if not report.session for finding in report.findings]
    reports = [report for report in found if report.session]
    ok = all(report.ok for report in found)
    names = "code message=what seq?"
    sessions = [
        {**pick(report, "session ok events"), "findings": [pick(f, names) for f in report.findings]}
        for report in reports
    ]
    screen.answer(ok=ok, sessions=sessions, store=store)
    for report in reports:
        if chosen or not report.ok:
            word = ("sound    ", "green") if report.ok else ("damaged  ", "red")
            screen.line(word, report.session, (f"  {plural(report.events, 'event')}", "dim"))
        for finding in report.findings:
            screen.line("         ", finding.what)
    for problem in store:
        screen.line(("damaged  ", "red"), problem)
    if ok:
        checked = plural(len(reports), "session")
        events = plural(sum(report.events for report in reports), "event")
        what = f"{checked}, {events}, unchanged since they were written."
        screen.done(("Sound: ", "green"), what)
        return 0
    screen.suggest("→ ", "forestay doctor")
    return DAMAGED


# -- doctor ------------------------------------------------------------------------------------


def run_doctor(options: Namespace, stay: Forestay, screen: Screen) -> int:
    if options.path:
        from forestay.cli.files import run_recover

        return run_recover(options, stay, screen)
    if options.output or options.choose:
        what = "-o and --choose work only with the path of damaged files"
        raise InvalidInput(what, hint="name them: forestay doctor PATH")
    try:
        done, lost, found = stay.doctor(fix=options.fix, deep=options.deep)
    except Damaged as error:
        if not options.fix and "--fix" not in error.hint:
            error.hint = "rebuild it from what is left and from backups: forestay doctor --fix"
        raise
    bad = bool(lost) or any(advice.severity == "error" for advice in found)
    names = "code severity what why fix fixable session file"
    screen.answer(ok=not bad, advice=[pick(one, names) for one in found], done=done, lost=lost)
    for line in done:
        screen.line(("repaired ", "green"), shorten_paths(line))
    for line in lost:
        screen.line(("lost     ", "red"), line)
    for advice in found:
        severity = (f"{advice.severity:<9}", SEVERITIES[advice.severity])
        screen.prose(severity, shorten_paths(advice.what, advice.file))
        if advice.why:
            screen.prose(" " * 9, shorten_paths(advice.why, advice.file), "dim")
        if advice.fix:
            screen.suggest("         → ", shorten_paths(advice.fix, advice.file))
    if options.fix and not done:
        nothing = "Nothing had to be repaired."
        message = "None of this can be repaired automatically." if bad else nothing
        screen.line((message, "" if found else "green"))
    elif not lost and all(advice.severity == "info" for advice in found):
        screen.line(("No problems found.", "green"))
    elif any(advice.fixable for advice in found) and not options.fix:
        screen.suggest("→ ", "forestay doctor --fix")
    return DAMAGED if bad else 0


# -- backup, restore, export, import -----------------------------------------------------------


def run_backup(options: Namespace, stay: Forestay, screen: Screen) -> int:
    saved = stay.backups.create(options.folder)
    left_out = [{"session": session, "why": why} for session, why in saved.left_out]
    screen.answer(pick(saved, "path sessions events"), left_out=left_out)
    what = f"{plural(saved.sessions, 'session')}, {plural(saved.events, 'event')}"
    screen.done(("Saved ", "green"), what, " in ", saved.path)
    for session, why in saved.left_out:
        screen.line(("  not saved ", "red"), f"{session}: {why}")
    return DAMAGED if saved.left_out else 0


def run_restore(options: Namespace, stay: Forestay, screen: Screen) -> None:
    _print_outcome(stay.backups.restore(options.file), "restored", screen)


def run_import(options: Namespace, stay: Forestay, screen: Screen) -> None:
    outcome = stay.backups.import_(options.file)
    _print_outcome(outcome, "imported", screen)
    if len(outcome.sessions) == 1 and not outcome.sessions[0].why:
        screen.hint("next: ", f"forestay resume {outcome.sessions[0].session}")


def _print_outcome(outcome: ImportResult, word: str, screen: Screen) -> None:
    sessions = [one._asdict() for one in outcome.sessions]
    screen.answer(sessions=sessions, new=outcome.new, contents=outcome.blobs)
    for one in outcome.sessions:
        if one.why or one.left_out:
            left = f"{plural(one.left_out, 'event')} not imported: events before them are missing"
            screen.line(("  skipped ", "yellow"), f"{one.session}: {one.why or left}")
        if one.kept:
            what = f"{one.session}: {plural(one.kept, 'event')} erased where the file was written;"
            erase = "to erase them in this home too: forestay session forget EVENT…"
            screen.line(("  kept ", "yellow"), f"{what} {erase}")
    skipped = sum(1 for one in outcome.sessions if one.why)
    changed = sum(1 for one in outcome.sessions if one.new)
    held = sum(one.held for one in outcome.sessions)
    parts = [
        f"{plural(outcome.new, 'event')} {word} in {plural(changed, 'session')}",
        f"{held} already stored",
        *([f"{plural(skipped, 'session')} skipped"] if skipped else []),
    ]
    screen.done("; ".join(parts))


def run_export(options: Namespace, stay: Forestay, screen: Screen) -> int:
    session = stay.current()
    path = os.path.abspath(options.file)
    if os.path.lexists(path) and not options.force:
        hint = "choose another name, or replace it: --force"
        raise InvalidInput(f"{path} already exists", hint=hint, file=path)
    words = screen.ask_new_passphrase() if options.passphrase else ""
    left_out = session.export(
        path, overwrite=options.force, partial=options.partial, to=options.to, passphrase=words
    )
    screen.answer(session.status, path=path, left_out=left_out)
    sealed = ", encrypted" if options.to or words else ""
    screen.done(("Exported ", "green"), f"{session.id} to {path}{sealed}")
    for why in left_out:
        screen.line(("  not exported ", "red"), why)
    name = quoted_path(os.path.basename(path))
    screen.hint("on another machine: ", f"forestay backup import {name}")
    return DAMAGED if left_out else 0


# -- move ---------------------------------------------------------------------------------------


def run_move(options: Namespace, stay: Forestay, screen: Screen) -> None:
    if bool(options.to) == options.unseal:
        raise InvalidInput("--to is missing", hint="forestay backup move --to URL, or --unseal")

    def part(what: str, done: int, of: int) -> None:
        screen.progress(f"{done * 100 // max(of, 1)}% {what}")

    moved = stay.backups.move(options.to, **pick(options, "dry_run unseal"), on_part=part)
    screen.progress()
    screen.answer(moved._asdict(), dry_run=options.dry_run)
    what = f"{plural(moved.sessions, 'session')}, {plural(moved.events, 'event')}"
    if moved.state == "unsealed":
        screen.done(("Unsealed ", "green"), moved.source, ": ", what)
        screen.line("  the copy at ", moved.target, " stays there and is not updated")
    elif moved.state == "would move":
        screen.line("Would move ", what, " from ", moved.source, " to ", moved.target)
    else:
        screen.done(("Moved ", "green"), what, " to ", moved.target)
        screen.line("  compared byte for byte; ", moved.source, " is sealed: it cannot be changed")
        screen.line("  use it: forestay config store ", f"'{moved.target}'")
        screen.line("  or go back: forestay backup move --unseal")
    for left in moved.left_out:
        screen.line(("  not moved ", "yellow"), left)


_FILE = arg("file", "FILE", "a file that backup or export wrote")

COMMANDS = {
    "verify": Command(
        run_verify,
        arg("chosen?", "SESSION", "only this one"),
        "forestay verify",
        "forestay verify fix-login --json",
    ),
    "doctor": Command(
        run_doctor,
        arg("path?", "PATH", "damaged session files; default: this home"),
        arg("-o --output", "OUT", "write the recovered files there"),
        arg("--choose", "CHOICE", "how to recover them, where doctor offers a choice"),
        flag("--fix", "repair what can be repaired"),
        flag("--deep", "check every session and every backup"),
        "forestay doctor",
        "forestay doctor --fix",
        "forestay doctor .claude/orchestrator-session.json",
        careful=lambda options: True,
    ),
    "backup create": Command(
        run_backup,
        arg("folder?", "DIR", "a folder; default: in the home"),
        "forestay backup create",
        "forestay backup create /media/usb",
    ),
    "backup restore": Command(run_restore, _FILE, "forestay backup restore all.fspack"),
    "backup export": Command(
        run_export,
        arg("file", "FILE", "a new file, such as login.fspack"),
        flag("--force", "replace the file if it exists"),
        flag("--partial", "even if some content is missing"),
        arg("--to", "KEY", "only this person or device can read it; can be repeated", many=True),
        flag("--passphrase", "protect it with a passphrase"),
        "forestay backup export login.fspack --session fix-login",
        "forestay backup export login.fspack --to fsp1q2w3e4r5t6y7",
    ),
    "backup import": Command(run_import, _FILE, "forestay backup import login.fspack"),
    "backup move": Command(
        run_move,
        arg("--to", "URL", "postgresql://… or sqlite:PATH"),
        flag("--dry-run", "only show what would be copied"),
        flag("--unseal", "use the old store again after a move"),
        "forestay backup move --to postgresql://db.example.org/forestay",
        "forestay backup move --to sqlite: --dry-run",
        "forestay backup move --unseal",
    ),
}
