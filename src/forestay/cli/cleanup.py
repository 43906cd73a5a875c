"""What users of other programs are used to: update, report and clean up, and who is live."""

from __future__ import annotations

from forestay.base.text import plural
from forestay.cli.arguments import Command, Parser, count
from forestay.cli.common import confirm, meant
from forestay.cli.suggestions import shown_path, told_from_here
from forestay.errors import REFUSED, InvalidInput, NoSession, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from forestay.api.forestay import Forestay
    from forestay.api.session import Session
    from forestay.cli.terminal import Screen
    from forestay.formats.ai_session.format import Report
    from forestay.mirror.ai_session_cleanup import Put
    from forestay.mirror.aiterm import Live


# -- update ------------------------------------------------------------------------------------


def _update_arguments(parser: Parser) -> None:
    parser.add_argument(
        "feature", nargs="?", default="", metavar="FEATURE", help="its id; else the current session"
    )
    parser.add_argument("--task", default="", metavar="ID", help="the task at work, or none")
    parser.add_argument("--model", default="", metavar="NAME", help="gemini, opus or sonnet")
    parser.add_argument("--status", default="", metavar="WORD", help="active, paused or completed")


def run_update(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = _session_of(options.feature, stay)
    event = session.files.update(task=options.task, model=options.model, status=options.status)
    confirm(session, event, screen, ("updated ", "green"), session.id)


def _session_of(feature: str, stay: Forestay) -> Session:
    if not feature:
        return meant(stay)
    for binding in stay.context.store.machine.bindings.bindings():
        if binding.layout == "ai-session" and binding.native == feature:
            return stay.session(binding.session)
    raise NoSession(
        f"no session here keeps the files of {feature}",
        hint="take it in first: forestay adopt",
        session=feature,
    )


# -- report ------------------------------------------------------------------------------------


def _report_arguments(parser: Parser) -> None:
    parser.add_argument(
        "feature", nargs="?", default="", metavar="FEATURE", help="its id; else all that are here"
    )
    parser.add_argument(
        "--root", default="", metavar="DIR", help="where the files are; else .ai-session here"
    )


def run_report(options: Namespace, stay: Forestay, screen: Screen) -> None:
    from forestay.formats.ai_session.format import display

    reports = stay.files.report(options.feature, options.root)
    screen.answer({"reports": [_report_values(report) for report in reports]})
    for number, report in enumerate(reports):
        screen.block(("\n" if number else "") + display(report))
    if not reports:
        screen.line("no session files of ai-session are here")


def _report_values(report: Report) -> dict[str, Any]:
    from forestay.base.clock import iso

    values = {name: getattr(report, name) for name in report.__struct_fields__}
    for name in ("started_at", "last_updated"):
        values[name] = None if values[name] is None else iso(values[name])
    values["last"] = [
        {"command": each.name, "status": each.status, "duration_ms": each.duration_ms}
        for each in report.last
    ]
    return values


# -- live --------------------------------------------------------------------------------------


def _live_arguments(parser: Parser) -> None:
    parser.add_argument(
        "folder", nargs="?", default="", metavar="DIR", help="else ~/.claude/sessions"
    )
    parser.add_argument("--prune", action="store_true", help="archive those whose process is gone")


def run_live(options: Namespace, stay: Forestay, screen: Screen) -> None:
    found = stay.files.live(options.folder, prune=options.prune)
    screen.answer({"live": [_live_values(one) for one in found]})
    for one in found:
        _tell_live(one, screen)
    if not found:
        screen.line("nobody is at work, as far as aiterm knows")


def _live_values(one: Live) -> dict[str, Any]:
    values = {name: getattr(one, name) for name in one.__struct_fields__}
    return {**values, "pruned": one.pruned or None, "problem": one.problem or None}


def _tell_live(one: Live, screen: Screen) -> None:
    word = "unread" if one.problem else "pruned" if one.pruned else "alive" if one.alive else "dead"
    colour = {"alive": "green", "unread": "red"}.get(word, "yellow")
    screen.line((f"{word:<8}", colour), one.session_id, "  ", one.problem or one.path)
    if one.task:
        screen.line("        ", (one.task, "dim"))
    if one.conflicts:
        others = ", ".join(one.conflicts)
        screen.line("        ", (f"conflict: {others} works on the same path", "red"))


# -- cleanup -----------------------------------------------------------------------------------


def _cleanup_arguments(parser: Parser) -> None:
    parser.add_argument(
        "path", nargs="?", default="", metavar="PATH", help="a folder; else .ai-session here"
    )
    parser.add_argument(
        "--completed", action="store_true", help="those that are completed; so if nothing is said"
    )
    parser.add_argument("--stale", action="store_true", help="those that nobody touched for long")
    parser.add_argument("--days", type=count, metavar="N", help="how long that is (7)")
    parser.add_argument("--empty", action="store_true", help="those in which nothing happened")
    parser.add_argument(
        "--pattern",
        default="",
        metavar="P",
        help="only ids that match, as *-2025-*; alone: of any kind",
    )
    parser.add_argument(
        "--archive", action="store_true", help="move them to .ai-session-archive (always done)"
    )
    parser.add_argument(
        "--preserve-artifacts", action="store_true", help="leave their artifacts where they are"
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def run_cleanup(options: Namespace, stay: Forestay, screen: Screen) -> int:
    planned = _clean(options, stay, dry_run=True)
    going = [one for one in planned if not one.kept]
    ask = going and not options.dry_run and not options.yes
    if ask and not _agreed(going, screen):
        screen.line("nothing was moved")
        return 1
    done = planned if options.dry_run or not going else _clean(options, stay, dry_run=False)
    screen.answer({"dry_run": options.dry_run, "sessions": [_put_values(one) for one in done]})
    for one in done:
        _tell(one, screen, dry_run=options.dry_run)
    if not done:
        screen.line("nothing to clean up")
    refused = done and not options.dry_run and all(one.kept for one in done)
    return REFUSED if refused else 0


def _clean(options: Namespace, stay: Forestay, *, dry_run: bool) -> list[Put]:
    from forestay.mirror.ai_session_cleanup import Wanted

    if options.days is not None and not options.stale:
        raise InvalidInput("--days says how long stale is", hint="add --stale, or leave it out")
    wanted = Wanted(
        completed=options.completed or _names_nothing(options),
        stale=options.stale,
        days=7 if options.days is None else options.days,
        empty=options.empty,
        pattern=options.pattern or "*",
        keep_artifacts=options.preserve_artifacts,
    )
    return stay.files.cleanup(options.path, wanted, dry_run=dry_run)


def _names_nothing(options: Namespace) -> bool:
    return not (options.stale or options.empty or options.pattern)


def _agreed(going: list[Put], screen: Screen) -> bool:
    if not screen.can_ask:
        raise Refused(
            f"{plural(len(going), 'session')} would be put away",
            why=", ".join(one.feature for one in going[:5]),
            hint="if that is meant, add --yes; to see what would be done, --dry-run",
        )
    for one in going:
        screen.line("  ", one.feature, (f"  {one.because}", "dim"))
    return screen.says_yes(f"to put {plural(len(going), 'session')} away")


def _put_values(one: Put) -> dict[str, Any]:
    return {
        "feature_id": one.feature,
        "path": one.path,
        "status": one.status,
        "because": one.because,
        "archived": one.archived or None,
        "kept": one.kept or None,
    }


def _tell(one: Put, screen: Screen, *, dry_run: bool) -> None:
    if one.kept:
        screen.line(("Kept: ", "yellow"), one.feature, f" ({told_from_here(one.kept)})")
    elif dry_run:
        told = f"  {one.because}; it would go to .ai-session-archive"
        screen.line(f"Would remove: {one.feature}", (told, "dim"))
    else:
        screen.line(("Archived: ", "green"), one.feature, (f"  {shown_path(one.archived)}", "dim"))


COMMANDS = {
    "files update": Command(
        _update_arguments,
        run_update,
        "forestay files update --task=task-2 --model=opus",
        "forestay files update login-2026-01-31 --status=paused",
    ),
    "files report": Command(
        _report_arguments, run_report, "forestay files report login-2026-01-31"
    ),
    "files live": Command(
        _live_arguments, run_live, "forestay files live", "forestay files live --prune"
    ),
    "files cleanup": Command(
        _cleanup_arguments,
        run_cleanup,
        "forestay files cleanup --completed --dry-run",
        "forestay files cleanup --stale --days 30 --yes",
    ),
}
