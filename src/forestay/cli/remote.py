"""Remotes, and what travels there and back."""

from __future__ import annotations

import threading
from argparse import SUPPRESS

from forestay.base.clock import ago, iso
from forestay.base.text import plural, shorten
from forestay.cli.arguments import Command, Parser, count, nothing
from forestay.errors import DONE, UNREACHABLE, ForestayError, InvalidInput, NoSession

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable
    from typing import Any, NoReturn

    from forestay.api.forestay import Forestay
    from forestay.cli.terminal import Screen
    from forestay.store.machine.remotes import Known
    from forestay.sync.known_remotes import Checked
    from forestay.sync.run import Report
    from forestay.sync.session import Moved

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


def run_add(options: Namespace, stay: Forestay, screen: Screen) -> None:
    found = stay.remotes.add(options.name, options.address)
    screen.answer(_checked_values(found))
    screen.done(("Added ", "green"), f"{found.name}, {found.address}")
    _tell_checked(found, screen)
    _tell_next(found, stay, screen)


def _tell_next(found: Checked, stay: Forestay, screen: Screen) -> None:
    """Sync, if this device has keys; if not, whether it is the first one decides."""
    if stay.devices.has_keys():
        screen.hint("next: ", f"forestay sync {found.name}")
    elif found.sessions:
        screen.hint("next, to be let in by your other device: ", "forestay device add")
    else:
        screen.hint("next, if this is your first device: ", "forestay device key init")


def run_check(options: Namespace, stay: Forestay, screen: Screen) -> None:
    found = stay.remotes.check(options.name)
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


def run_list(options: Namespace, stay: Forestay, screen: Screen) -> None:
    found = stay.remotes.list()
    waiting = stay.remotes.unpushed()
    screen.answer({"remotes": [_known_values(one) for one in found], "waiting": waiting})
    if not found:
        screen.line("There is no remote yet.")
        screen.hint("add one: ", "forestay remote add usb folder:/media/usb/forestay")
        return
    screen.table([[one.name, _last(one, stay.context.clock.now()), one.address] for one in found])
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


def run_remove(options: Namespace, stay: Forestay, screen: Screen) -> None:
    gone = stay.remotes.remove(options.name)
    screen.answer({"name": gone.name, "address": gone.address})
    screen.done(("Removed ", "green"), f"{gone.name}; nothing at {gone.address} was changed")


# -- travelling --------------------------------------------------------------------------------


def _sync_arguments(parser: Parser) -> None:
    add = parser.add_argument
    add("remote", nargs="?", default="", metavar="REMOTE", help="only this one")
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--push", action="store_true", help="only send what was recorded here")
    ways.add_argument("--pull", action="store_true", help="only fetch what other devices sent")
    add("--watch", action="store_true", help="repeat until you stop it with Ctrl-C")
    add("--every", type=count, default=0, metavar="SECONDS", help="with --watch: how often")
    add("--again", action="store_true", help="with --push: resend what the remote has lost")
    doubt = (
        "with --pull: continue with this session although something that WHO announced is missing,"
        " or although keys there, given by the name of their object, open on no device"
    )
    for name, metavar, help in (
        ("--join", "SESSION", "with --pull: merge a session you imported, now shared by its owner"),
        ("--doubt", "WHO", doubt),
        ("--believe", "WHO", "with --pull: end --doubt"),
    ):
        add(name, action="append", default=[], metavar=metavar, help=help)
    add("--soon", action="store_true", help=SUPPRESS)  # for the background process only


_ONE_WAY = {"push": ("again",), "pull": ("join", "doubt", "believe")}


def run_sync(options: Namespace, stay: Forestay, screen: Screen) -> int:
    for way, names in _ONE_WAY.items():
        for name in names:
            if getattr(options, name) and not getattr(options, way):
                raise InvalidInput(f"--{name} needs --{way}", hint=f"forestay sync --{way}")
    if options.soon:
        from forestay.sync import background

        stay.context.is_unattended = True
        return background.run(stay.context, stay.remotes.sync)
    if options.pull and not options.watch:
        return _pull(options, stay, screen)

    def travel(remote: str, on_bytes: OnBytes) -> list[Report]:
        sessions = _sessions(stay)
        if options.push:
            return stay.remotes.push(
                remote, sessions=sessions, again=options.again, on_bytes=on_bytes
            )
        if options.pull:
            return stay.remotes.pull(remote, sessions=sessions, on_bytes=on_bytes)
        return stay.remotes.sync(remote, sessions=sessions, on_bytes=on_bytes)

    if options.watch:
        _watch(travel, options, stay, screen)
    return _travel(travel, options, stay, screen)


def _pull(options: Namespace, stay: Forestay, screen: Screen) -> int:
    def travel(remote: str, on_bytes: OnBytes) -> list[Report]:
        said = {"join": options.join, "doubt": options.doubt, "believe": options.believe}
        return stay.remotes.pull(
            remote, sessions=_sessions(stay, or_there=True), **said, on_bytes=on_bytes
        )

    code = _travel(travel, options, stay, screen)
    for session in _sessions(stay) if code == DONE else ():  # it is here now, or nowhere
        for who in options.doubt:
            screen.done(f"{_doubted(who)} does not count from now on")
            screen.hint(
                "to end that: ", f"forestay sync --pull --session {session} --believe {who}"
            )
    return code


def _doubted(who: str) -> str:
    is_object = "/k/" in who
    return "what is sealed to keys that are not here" if is_object else "what they tell to be there"


def _travel(travel: Travel, options: Namespace, stay: Forestay, screen: Screen) -> int:
    reports = _moved(travel, options, screen)
    screen.answer({"remotes": [_report_values(one) for one in reports]})
    for one in reports:
        _tell_report(one, stay, screen)
    worst = next((one.worst for one in reports if one.worst), None)
    return DONE if worst is None else worst.exit_code if worst.exit_code > 1 else UNREACHABLE


def _moved(travel: Travel, options: Namespace, screen: Screen) -> list[Report]:
    bar = _Bar(screen)
    try:
        return travel(options.remote, bar)
    except KeyboardInterrupt:
        bar.end()
        screen.complain("stopped; what has moved stays, and the next time goes on from there")
        raise
    finally:
        bar.end()


_ARROWS = {"up": "↑", "down": "↓"}
_UNITS = ("B", "kB", "MB", "GB")
_WIDTH = 20


class _Bar:
    """Show on a terminal how far a transfer is; several threads may report.

    The bar counts events: their number is known before a pack is made or read, its size is not.
    """

    def __init__(self, screen: Screen) -> None:
        self._screen, self._lock = screen, threading.Lock()
        self._bytes = dict.fromkeys(_ARROWS, 0)
        self._done, self._planned = dict(self._bytes), dict(self._bytes)

    def __call__(self, way: str, size: int) -> None:
        self._add(self._bytes, way, size)

    def expect(self, way: str, events: int) -> None:
        """Add to the number of events that will move."""
        self._add(self._planned, way, events)

    def done(self, way: str, events: int) -> None:
        """Add to the number of events that have moved."""
        self._add(self._done, way, events)

    def end(self) -> None:
        """Clear the bar."""
        if any(self._bytes.values()) or any(self._planned.values()):
            self._screen.progress()

    def _add(self, to: dict[str, int], way: str, count: int) -> None:
        with self._lock:
            to[way] += count
            ways = [way for way in _ARROWS if self._bytes[way] or self._planned[way]]
            self._screen.progress("   ".join(map(self._describe, ways)))

    def _describe(self, way: str) -> str:
        planned, moved = self._planned[way], _format_size(self._bytes[way])
        if not planned:
            return f"{_ARROWS[way]} {moved}"
        done = min(self._done[way], planned)
        full = _WIDTH * done // planned
        bar = "█" * full + "·" * (_WIDTH - full)
        return f"{_ARROWS[way]} {bar} {done} of {planned} events, {moved}"


def _format_size(count: float) -> str:
    """Return a number of bytes in a unit that fits."""
    for unit in _UNITS:
        if count < 1000 or unit == _UNITS[-1]:
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"


def _watch(travel: Travel, options: Namespace, stay: Forestay, screen: Screen) -> NoReturn:
    """Sync again and again, and say what is new: what moved, and what went wrong since."""
    from forestay.cli.log import for_ever, when

    every = options.every or stay.context.settings.sync_seconds or 10
    screen.hint(f"every {plural(every, 'second')}; to end it: ", "Ctrl-C")
    before = ""

    def look() -> None:
        nonlocal before
        reports = _moved(travel, options, screen)
        screen.answer({"remotes": [_report_values(one) for one in reports]})
        now, wrong = (
            when(stay.context.clock.now(), stay.context.clock.now()),
            str([one.worst for one in reports]),
        )
        if wrong != before or any(one.up or one.down for one in reports):
            screen.done((now, "dim"))
            for one in reports:
                _tell_report(one, stay, screen)
        before = wrong
        screen.flush()
        screen.progress(f"{now} looked; next in {plural(every, 'second')}")
        stay.context.clock.sleep(every)

    for_ever(look, stay, screen)


def _sessions(stay: Forestay, *, or_there: bool = False) -> list[str]:
    """The session of --session; a variable that agents carry about must not hide the others.

    It is here, or, by its whole id, only there: the first pull of it may have stopped.
    """
    if stay.context.settings.origin("session") != "argument":
        return []
    try:
        return [stay.current().id]
    except NoSession as error:
        if error.choices or not or_there:
            raise
        return [stay.context.settings.session]


def _tell_report(report: Report, stay: Forestay, screen: Screen) -> None:
    from forestay.cli.errors import tell_people

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
    _tell_new([one.session for one in report.sessions if one.new and one.down], stay, screen)
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


def _tell_new(sessions: list[str], stay: Forestay, screen: Screen) -> None:
    """What came and was not known here, by its goal, with the line that takes it up."""
    for session in sessions[:_SHOWN]:
        command = screen.as_typed(f"forestay resume {session}")
        screen.done("  new here: ", shorten(stay.goal(session), _GOAL))
        screen.done("  → ", (command, "cyan"))
    if len(sessions) > _SHOWN:
        more = screen.as_typed("forestay list --all")
        screen.done(f"  and {len(sessions) - _SHOWN} more: ", (more, "cyan"))


def _tell_foreign(report: Report, screen: Screen) -> None:
    """Sessions that this device has no key for; what helps is told to who has no other."""
    verb = "is" if report.foreign == 1 else "are"
    screen.done(f"{plural(report.foreign, 'session')} there {verb} not for this device")
    if report.sessions:
        return
    show, add = "forestay device key show", "forestay device add --new-key"
    screen.done("  → someone's, who shares with you: ", (screen.as_typed(show), "cyan"))
    screen.done("  → yours, from another device: ", (screen.as_typed(add), "cyan"))


def _tell_moved(one: Moved, screen: Screen) -> None:
    if one.ended:
        screen.line((f"  {one.session}: no longer shared with you", "yellow"), "; what came stays")
    if one.stay:
        many = f"{plural(one.stay, 'event')} {'stays' if one.stay == 1 else 'stay'} here"
        why = "it is no longer shared with you" if one.over else "it is shared with you to read"
        screen.done(f"  {one.session}: {many}: {why}")
        show = screen.as_typed("forestay device key show")
        screen.done("  → ask its owner to share it with --continue, and your key: ", (show, "cyan"))
    if one.disputes:
        many = plural(one.disputes, "dispute")
        screen.line((f"  {one.session}: {many}", "yellow"), "; both sides are kept")
        screen.line("  → ", screen.as_typed(f"forestay settle --session {one.session}"))
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


def _error_values(error: ForestayError | None) -> dict[str, Any] | None:
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
        "forestay remote add usb folder:/media/usb/forestay",
        "forestay remote add cloud 's3://my-bucket/forestay?region=eu-central-1'",
    ),
    "remote list": Command(nothing, run_list, "forestay remote list"),
    "remote remove": Command(_name_argument, run_remove, "forestay remote remove usb"),
    "remote check": Command(_name_argument, run_check, "forestay remote check usb"),
    "sync": Command(
        _sync_arguments,
        run_sync,
        "forestay sync",
        "forestay sync usb --push",
        "forestay sync --watch --every 30",
    ),
}
