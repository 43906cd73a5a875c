"""Remotes, and what travels there and back."""

from __future__ import annotations

from argparse import SUPPRESS

from holdfast.cli.arguments import Command, Parser, count, nothing
from holdfast.clock import ago, iso
from holdfast.errors import DONE, UNREACHABLE, HoldfastError, NoSession
from holdfast.text import plural, shorten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable
    from typing import Any, NoReturn

    from holdfast.cli.screen import Screen
    from holdfast.home import Holdfast
    from holdfast.store.remotes import Known
    from holdfast.travel.exchange import Moved
    from holdfast.travel.remotes import Checked
    from holdfast.travel.visit import Report

    OnBytes = Callable[[str, int], None]
    Travel = Callable[[str, OnBytes], list[Report]]

_SHOWN, _GOAL = 5, 60


# -- remotes -----------------------------------------------------------------------------------


def _add_arguments(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="what to call it here")
    parser.add_argument(
        "address", metavar="ADDRESS", help="folder:PATH or s3://BUCKET/PREFIX?endpoint=URL"
    )


def _name_argument(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="the remote")


def run_add(options: Namespace, hf: Holdfast, screen: Screen) -> None:
    found = hf.remote_add(options.name, options.address)
    screen.answer(_checked_values(found))
    screen.done(("Added ", "green"), f"{found.name}, {found.address}")
    _tell_checked(found, screen)
    _tell_next(found, hf, screen)


def _tell_next(found: Checked, hf: Holdfast, screen: Screen) -> None:
    """Sync, if this device has keys; if not, whether it is the first one decides."""
    if hf.in_circle():
        screen.hint("next: ", f"holdfast sync {found.name}")
    elif found.sessions:
        screen.hint("next, to be let in by your other device: ", "holdfast devices add")
    else:
        screen.hint("next, if this is your first device: ", "holdfast key init")


def run_check(options: Namespace, hf: Holdfast, screen: Screen) -> None:
    found = hf.remote_check(options.name)
    screen.answer(_checked_values(found))
    screen.line(f"{found.name}, {found.address}")
    _tell_checked(found, screen)
    for one in found.oddities:
        screen.line(("  not ours ", "yellow"), f"{one.place} ({one.kind})")


def _tell_checked(found: Checked, screen: Screen) -> None:
    probe = found.probe
    if probe.conditional and probe.lists:
        screen.line("  it keeps what is written, refuses to overwrite, and lists it at once")
    else:
        screen.line(("  with care: ", "yellow"), probe.why)
        screen.line(("  every write is read back; that is slower, and safe", "dim"))
    if found.sessions:
        screen.line(f"  {plural(found.sessions, 'session')} there")


def _checked_values(found: Checked) -> dict[str, Any]:
    return {
        "name": found.name,
        "address": found.address,
        "backend": found.backend,
        "conditional": found.probe.conditional,
        "lists": found.probe.lists,
        "why": found.probe.why or None,
        "sessions": found.sessions,
        "not_ours": [{"place": one.place, "kind": one.kind} for one in found.oddities],
    }


def run_list(options: Namespace, hf: Holdfast, screen: Screen) -> None:
    found = hf.remote_list()
    waiting = hf.unpushed()
    screen.answer({"remotes": [_known_values(one) for one in found], "waiting": waiting})
    if not found:
        screen.line("There is no remote yet.")
        screen.hint("add one: ", "holdfast remote add usb folder:/media/usb/holdfast")
        return
    screen.table([[one.name, _last(one, hf.clock.now()), one.address] for one in found])
    for one in (each for each in found if each.error):
        lead = "" if len(found) == 1 else f"{one.name}: "
        for line in screen.wrapped(f"  {lead}{one.error}"):
            screen.line((line, "yellow"))
    if waiting:
        screen.line(f"{plural(waiting, 'event')} not pushed")


def _last(one: Known, now: int) -> str:
    if not one.synced:
        return "never synced"
    last = "failed, last synced" if one.result == "failed" else f"{one.result},"
    return f"{last} {ago(now - one.synced)}"


def _known_values(one: Known) -> dict[str, Any]:
    return {
        "name": one.name,
        "address": one.address,
        "added_at": iso(one.added),
        "synced_at": iso(one.synced) if one.synced else None,
        "result": one.result or None,
        "error": one.error or None,
        "care": one.probe or None,
    }


def run_remove(options: Namespace, hf: Holdfast, screen: Screen) -> None:
    gone = hf.remote_remove(options.name)
    screen.answer({"name": gone.name, "address": gone.address})
    screen.done(("Removed ", "green"), f"{gone.name}; nothing at {gone.address} was changed")


# -- travelling --------------------------------------------------------------------------------


def _which_argument(parser: Parser) -> None:
    parser.add_argument(
        "remote", nargs="?", default="", metavar="REMOTE", help="one of them; else all"
    )


def _push_arguments(parser: Parser) -> None:
    _which_argument(parser)
    parser.add_argument("--again", action="store_true", help="also what the remote had and lost")


def _pull_arguments(parser: Parser) -> None:
    _which_argument(parser)
    parser.add_argument(
        "--join",
        action="append",
        default=[],
        metavar="SESSION",
        help="one that you imported, added to, and are now shared by its owner",
    )
    parser.add_argument(
        "--doubt",
        action="append",
        default=[],
        metavar="WHO",
        help="go on, in this session, though what they tell to be there is not; or though keys"
        " there, by the name of their object, open on no device",
    )
    parser.add_argument(
        "--believe", action="append", default=[], metavar="WHO", help="the end of --doubt"
    )


def _sync_arguments(parser: Parser) -> None:
    _which_argument(parser)
    parser.add_argument("--watch", action="store_true", help="go on until you stop it")
    parser.add_argument(
        "--every", type=count, default=0, metavar="SECONDS", help="with --watch: how often"
    )
    parser.add_argument("--soon", action="store_true", help=SUPPRESS)  # for the background alone


def run_push(options: Namespace, hf: Holdfast, screen: Screen) -> int:
    def travel(remote: str, on_bytes: OnBytes) -> list[Report]:
        return hf.push(remote, sessions=_sessions(hf), again=options.again, on_bytes=on_bytes)

    return _travel(travel, options, hf, screen)


def run_pull(options: Namespace, hf: Holdfast, screen: Screen) -> int:
    def travel(remote: str, on_bytes: OnBytes) -> list[Report]:
        said = {"join": options.join, "doubt": options.doubt, "believe": options.believe}
        return hf.pull(remote, sessions=_sessions(hf, or_there=True), **said, on_bytes=on_bytes)

    code = _travel(travel, options, hf, screen)
    for session in _sessions(hf) if code == DONE else ():  # it is here now, or nowhere
        for who in options.doubt:
            screen.done(f"{_doubted(who)} does not count from now on")
            screen.hint("to end that: ", f"holdfast pull --session {session} --believe {who}")
    return code


def _doubted(who: str) -> str:
    is_object = "/k/" in who
    return "what is sealed to keys that are not here" if is_object else "what they tell to be there"


def run_sync(options: Namespace, hf: Holdfast, screen: Screen) -> int:
    def travel(remote: str, on_bytes: OnBytes) -> list[Report]:
        return hf.sync(remote, sessions=_sessions(hf), on_bytes=on_bytes)

    if options.soon:
        from holdfast.travel import background

        return background.run(hf)
    if options.watch:
        _watch(travel, options, hf, screen)
    return _travel(travel, options, hf, screen)


def _travel(travel: Travel, options: Namespace, hf: Holdfast, screen: Screen) -> int:
    reports = _moved(travel, options, screen)
    screen.answer({"remotes": [_report_values(one) for one in reports]})
    for one in reports:
        _tell_report(one, hf, screen)
    worst = next((one.worst for one in reports if one.worst), None)
    return DONE if worst is None else worst.exit_code if worst.exit_code > 1 else UNREACHABLE


def _moved(travel: Travel, options: Namespace, screen: Screen) -> list[Report]:
    from holdfast.cli.bar import Bar

    bar = Bar(screen)
    try:
        return travel(options.remote, bar)
    except KeyboardInterrupt:
        bar.end()
        screen.complain("stopped; what has moved stays, and the next time goes on from there")
        raise
    finally:
        bar.end()


def _watch(travel: Travel, options: Namespace, hf: Holdfast, screen: Screen) -> NoReturn:
    """Sync again and again, and say what is new: what moved, and what went wrong since."""
    from holdfast.cli.log import for_ever, when

    every = options.every or hf.settings.sync_seconds or 10
    screen.hint(f"every {plural(every, 'second')}; to end it: ", "Ctrl-C")
    before = ""

    def look() -> None:
        nonlocal before
        reports = _moved(travel, options, screen)
        screen.answer({"remotes": [_report_values(one) for one in reports]})
        now, wrong = when(hf.clock.now(), hf.clock.now()), str([one.worst for one in reports])
        if wrong != before or any(one.up or one.down for one in reports):
            screen.done((now, "dim"))
            for one in reports:
                _tell_report(one, hf, screen)
        before = wrong
        screen.flush()
        screen.progress(f"{now} looked; next in {plural(every, 'second')}")
        hf.clock.sleep(every)

    for_ever(look, hf, screen)


def _sessions(hf: Holdfast, *, or_there: bool = False) -> list[str]:
    """The session of --session; a variable that agents carry about must not hide the others.

    It is here, or, by its whole id, only there: the first pull of it may have stopped.
    """
    if hf.settings.origin("session") != "argument":
        return []
    try:
        return [hf.current().id]
    except NoSession as error:
        if error.choices or not or_there:
            raise
        return [hf.settings.session]


def _tell_report(report: Report, hf: Holdfast, screen: Screen) -> None:
    from holdfast.cli.problem import tell_people

    if report.error is not None:
        tell_people(report.error, screen, where=f"{report.remote}: ")
    for one in report.problems:
        if one.error is not None:
            tell_people(one.error, screen, where=f"{report.remote}: session {one.session}: ")
    for one in report.sessions:
        for error in one.aside[:_SHOWN]:
            where = f"{report.remote}: session {one.session}: set aside: "
            tell_people(error, screen, where=where)
        for error in one.noticed[:_SHOWN]:
            tell_people(error, screen, where=f"{report.remote}: session {one.session}: ")
        _tell_moved(one, screen)
    _tell_new([one.session for one in report.sessions if one.new and one.down], hf, screen)
    if report.error is None:
        said = [
            f"{plural(report.up, 'event')} pushed" if report.up else "",
            f"{plural(report.down, 'event')} pulled" if report.down else "",
        ]
        words = ", ".join(filter(None, said))
        words = words or ("nothing moved" if report.problems else "nothing new")
        screen.done((f"{report.remote}: ", "bold"), words)
    if report.foreign:
        _tell_foreign(report, screen)
    waiting = report.waiting - sum(one.stay for one in report.sessions)
    if waiting > 0:
        screen.done(f"{plural(waiting, 'event')} not pushed")


def _tell_new(sessions: list[str], hf: Holdfast, screen: Screen) -> None:
    """What came and was not known here, by its goal, with the line that takes it up."""
    for session in sessions[:_SHOWN]:
        command = screen.as_typed(f"holdfast resume {session}")
        screen.done("  new here: ", shorten(hf.goal(session), _GOAL))
        screen.done("  → ", (command, "cyan"))
    if len(sessions) > _SHOWN:
        more = screen.as_typed("holdfast list --all")
        screen.done(f"  and {len(sessions) - _SHOWN} more: ", (more, "cyan"))


def _tell_foreign(report: Report, screen: Screen) -> None:
    """Sessions that this device has no key for; what helps is told to who has no other."""
    verb = "is" if report.foreign == 1 else "are"
    screen.done(f"{plural(report.foreign, 'session')} there {verb} not for this device")
    if report.sessions:
        return
    show, add = "holdfast key show", "holdfast devices add --new-key"
    screen.done("  → someone's, who shares with you: ", (screen.as_typed(show), "cyan"))
    screen.done("  → yours, from another device: ", (screen.as_typed(add), "cyan"))


def _tell_moved(one: Moved, screen: Screen) -> None:
    if one.ended:
        screen.line((f"  {one.session}: no longer shared with you", "yellow"), "; what came stays")
    if one.stay:
        many = f"{plural(one.stay, 'event')} {'stays' if one.stay == 1 else 'stay'} here"
        why = "it is no longer shared with you" if one.over else "it is shared with you to read"
        screen.done(f"  {one.session}: {many}: {why}")
        show = screen.as_typed("holdfast key show")
        screen.done("  → ask its owner to share it with --continue, and your key: ", (show, "cyan"))
    if one.disputes:
        many = plural(one.disputes, "dispute")
        screen.line((f"  {one.session}: {many}", "yellow"), "; both sides are kept")
        screen.line("  → ", screen.as_typed(f"holdfast settle --session {one.session}"))
    if one.loose:
        many = plural(one.loose, "pack")
        screen.line(
            (f"  {one.session}: {many} wait for others", "yellow"), "; a push is under way there"
        )


def _report_values(report: Report) -> dict[str, Any]:
    return {
        "remote": report.remote,
        "pushed": report.up,
        "pulled": report.down,
        "waiting": report.waiting,
        "others": report.foreign,
        "error": _error_values(report.error),
        "sessions": [_moved_values(one) for one in report.sessions],
    }


def _moved_values(one: Moved) -> dict[str, Any]:
    return {
        "session": one.session,
        "new": one.new,
        "pushed": one.up,
        "pulled": one.down,
        "packs_pushed": one.packs_up,
        "packs_pulled": one.packs_down,
        "bytes_pushed": one.bytes_up,
        "bytes_pulled": one.bytes_down,
        "disputes": one.disputes,
        "packs_waiting": one.loose,
        "stay": one.stay,
        "ended": one.ended,
        "refused": [_error_values(each) for each in one.aside],
        "noticed": [_error_values(each) for each in one.noticed],
        "error": _error_values(one.error),
    }


def _error_values(error: HoldfastError | None) -> dict[str, Any] | None:
    if error is None:
        return None
    return {
        "type": type(error).__name__,
        "message": error.what,
        "why": error.why or None,
        "hint": error.hint or None,
    }


COMMANDS = {
    "remote add": Command(
        _add_arguments,
        run_add,
        "holdfast remote add usb folder:/media/usb/holdfast",
        "holdfast remote add cloud 's3://my-bucket/holdfast?region=eu-central-1'",
    ),
    "remote list": Command(nothing, run_list, "holdfast remote list"),
    "remote remove": Command(_name_argument, run_remove, "holdfast remote remove usb"),
    "remote check": Command(_name_argument, run_check, "holdfast remote check usb"),
    "push": Command(
        _push_arguments, run_push, "holdfast push", "holdfast push usb --session login"
    ),
    "pull": Command(_pull_arguments, run_pull, "holdfast pull", "holdfast pull usb"),
    "sync": Command(
        _sync_arguments, run_sync, "holdfast sync", "holdfast sync usb --watch --every 30"
    ),
}
