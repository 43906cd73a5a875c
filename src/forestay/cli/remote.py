"""Commands for remotes, and for exchanging sessions with them."""

from __future__ import annotations

import threading
from argparse import SUPPRESS

from forestay.base.clock import to_ms
from forestay.base.text import ago, plural, shorten
from forestay.cli.arguments import Command, arg, count, flag
from forestay.cli.terminal import format_size, pick
from forestay.errors import DONE, UNREACHABLE, ForestayError, InvalidInput, NoSession

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from forestay.api.values import RemoteInfo
    from forestay.cli.types import Any, Forestay, Namespace, Screen
    from forestay.sync.known_remotes import Checked
    from forestay.sync.run import Report
    from forestay.sync.session import SessionOutcome

_SHOWN, _GOAL = 5, 60


# -- remotes -----------------------------------------------------------------------------------


def run_add(options: Namespace, stay: Forestay, screen: Screen) -> None:
    found = stay.remotes.add(options.name, options.address)
    screen.done(("Added ", "green"), f"{found.name}, {found.address}")
    _print_checked(found, screen)
    if stay.devices.has_keys():
        screen.hint("next: ", f"forestay sync {found.name}")
    elif found.sessions:
        screen.hint("next, to join your other device: ", "forestay device add")
    else:
        screen.hint("next, if this is your first device: ", "forestay device key init")


def run_check(options: Namespace, stay: Forestay, screen: Screen) -> None:
    found = stay.remotes.check(options.name)
    screen.line(f"{found.name}, {found.address}")
    _print_checked(found, screen)


def _print_checked(found: Checked, screen: Screen) -> None:
    foreign = [pick(one, "place kind") for one in found.oddities]
    values = pick(found, "name address backend sessions")
    screen.answer(values, pick(found.probe, "conditional lists why?"), not_ours=foreign)
    if found.probe.conditional and found.probe.lists:
        screen.line("  it stores objects, refuses to overwrite them, and lists them at once")
    else:
        screen.line(("  careful mode: ", "yellow"), found.probe.why)
        screen.line(("  every write is read back, which is slower but safe", "dim"))
    if found.sessions:
        screen.line(f"  {plural(found.sessions, 'session')} there")
    for one in found.oddities:
        screen.line(("  foreign  ", "yellow"), f"{one.place} ({one.kind})")


def run_list(options: Namespace, stay: Forestay, screen: Screen) -> None:
    found, waiting = stay.remotes.list(), stay.remotes.unpushed()
    screen.answer(remotes=found, waiting=waiting)
    if not found:
        screen.line("There is no remote yet.")
        screen.hint("add one: ", "forestay remote add usb folder:/media/usb/forestay")
        return
    now = stay.context.clock.now()
    screen.table([[one.name, _last_sync(one, now), one.address] for one in found])
    for one in (each for each in found if each.error):
        lead = "" if len(found) == 1 else f"{one.name}: "
        screen.prose("  ", f"{lead}{one.error}", "yellow")
    if waiting:
        screen.line(f"{plural(waiting, 'event')} not pushed")


def _last_sync(one: RemoteInfo, now: int) -> str:
    if not one.synced_at:
        return "never synced"
    last = "failed, last synced" if one.result == "failed" else f"{one.result},"
    return f"{last} {ago(now - to_ms(one.synced_at))}"


def run_remove(options: Namespace, stay: Forestay, screen: Screen) -> None:
    removed = stay.remotes.remove(options.name)
    screen.answer(pick(removed, "name address"))
    screen.done(("Removed ", "green"), f"{removed.name}; nothing at {removed.address} was changed")


# -- syncing -----------------------------------------------------------------------------------


_ONE_WAY = {"push": ("again",), "pull": ("join", "doubt", "believe")}
_DOUBT = (
    "with --pull: pull this session although events announced by the device WHO are missing,"
    " or although no device can decrypt an object with keys (then WHO is the object's name)"
)


def run_sync(options: Namespace, stay: Forestay, screen: Screen) -> int:
    for way, names in _ONE_WAY.items():
        for name in names:
            if getattr(options, name) and not getattr(options, way):
                raise InvalidInput(f"--{name} needs --{way}", hint=f"forestay sync --{way}")
    if options.soon:
        from forestay.sync import background

        stay.context.is_unattended = True
        return background.run(stay.context, stay.remotes.sync)

    def transfer() -> list[Report]:
        bar = _Bar(screen)
        sessions = _named_sessions(stay, allow_remote_only=options.pull)
        given: dict[str, Any] = {"sessions": sessions, "on_bytes": bar}
        try:
            if options.push:
                return stay.remotes.push(options.remote, again=options.again, **given)
            if options.pull:
                given |= pick(options, *_ONE_WAY["pull"])
                return stay.remotes.pull(options.remote, **given)
            return stay.remotes.sync(options.remote, **given)
        except KeyboardInterrupt:
            bar.end()
            screen.write_error("stopped; the next sync continues where this one stopped")
            raise
        finally:
            bar.end()

    if options.watch:
        _watch(transfer, options, stay, screen)
    reports = transfer()
    screen.answer(remotes=[_report_values(one) for one in reports])
    for one in reports:
        _print_report(one, stay, screen)
    if worst := next((one.worst for one in reports if one.worst), None):
        return worst.exit_code if worst.exit_code > 1 else UNREACHABLE
    # After a pull, a session that --session names must be on this device: raise NoSession if not.
    for session in _named_sessions(stay):
        for who in options.doubt:
            keys = "data that no device has the keys for"
            screen.done(
                f"{keys if '/k/' in who else f'what {who} announced'} is ignored from now on"
            )
            undo = f"forestay sync --pull --session {session} --believe {who}"
            screen.hint("to undo that: ", undo)
    return DONE


_ARROWS = {"up": "↑", "down": "↓"}
_WIDTH = 20


class _Bar:
    """Show on a terminal how far a transfer is; several threads can report to it.

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
        planned, moved = self._planned[way], format_size(self._bytes[way])
        if not planned:
            return f"{_ARROWS[way]} {moved}"
        done = min(self._done[way], planned)
        full = _WIDTH * done // planned
        bar = "█" * full + "·" * (_WIDTH - full)
        return f"{_ARROWS[way]} {bar} {done} of {planned} events, {moved}"


def _watch(
    transfer: Callable[[], list[Report]], options: Namespace, stay: Forestay, screen: Screen
) -> NoReturn:
    """Sync repeatedly, and report new transfers and problems."""
    from forestay.cli.log import repeat_forever, when

    every = options.every or stay.context.settings.sync_seconds or 10
    screen.hint(f"every {plural(every, 'second')}; to stop: ", "Ctrl-C")
    before = ""

    def sync_once() -> None:
        nonlocal before
        reports = transfer()
        screen.answer(remotes=[_report_values(one) for one in reports])
        now = when(stay.context.clock.now(), stay.context.clock.now())
        wrong = str([one.worst for one in reports])
        if wrong != before or any(one.up or one.down for one in reports):
            screen.done((now, "dim"))
            for one in reports:
                _print_report(one, stay, screen)
        before = wrong
        screen.flush()
        screen.progress(f"{now} synced; next in {plural(every, 'second')}")
        stay.context.clock.sleep(every)

    repeat_forever(sync_once, stay, screen)


def _named_sessions(stay: Forestay, *, allow_remote_only: bool = False) -> list[str]:
    """Return the session of --session; ignore FORESTAY_SESSION, so that all sessions are synced.

    With `allow_remote_only`, a complete id can name a session that is not on this device yet.
    """
    if stay.context.settings.origin("session") != "argument":
        return []
    try:
        return [stay.current().id]
    except NoSession as error:
        if error.choices or not allow_remote_only:
            raise
        return [stay.context.settings.session]


def _print_report(report: Report, stay: Forestay, screen: Screen) -> None:
    from forestay.cli.errors import print_error

    if report.error is not None:
        print_error(report.error, screen, where=f"{report.remote}: ")
    for one in report.sessions:
        where = f"{report.remote}: session {one.session}: "
        if one.error is not None:
            print_error(one.error, screen, where=where)
        for error in one.aside[:_SHOWN]:
            print_error(error, screen, where=f"{where}set aside: ")
        for error in one.noticed[:_SHOWN]:
            print_error(error, screen, where=where)
        _print_moved(one, screen)
    new = [one.session for one in report.sessions if one.new and one.down]
    for session in new[:_SHOWN]:
        command = screen.as_typed(f"forestay resume {session}")
        screen.done("  new here: ", shorten(stay.goal(session), _GOAL))
        screen.done("  → ", (command, "cyan"))
    if len(new) > _SHOWN:
        more = screen.as_typed("forestay list --all")
        screen.done(f"  and {len(new) - _SHOWN} more: ", (more, "cyan"))
    if report.error is None:
        counts = [
            f"{plural(report.up, 'event')} pushed" if report.up else "",
            f"{plural(report.down, 'event')} pulled" if report.down else "",
        ]
        words = ", ".join(filter(None, counts))
        words = words or ("nothing was transferred" if report.problems else "nothing new")
        screen.done((f"{report.remote}: ", "bold"), words)
    if report.foreign:
        verb = "is" if report.foreign == 1 else "are"
        screen.done(f"{plural(report.foreign, 'session')} there {verb} encrypted for other devices")
    if report.foreign and not report.sessions:
        show, add = "forestay device key show", "forestay device add --new-key"
        screen.done("  → shared with you by someone: ", (screen.as_typed(show), "cyan"))
        screen.done("  → yours, from another device: ", (screen.as_typed(add), "cyan"))
    waiting = report.waiting - sum(one.stay for one in report.sessions)
    if waiting > 0:
        screen.done(f"{plural(waiting, 'event')} not pushed")


def _print_moved(one: SessionOutcome, screen: Screen) -> None:
    lead = f"  {one.session}: "
    if one.ended:
        screen.line((f"{lead}no longer shared with you", "yellow"), "; what you have stays")
    if one.stay:
        many = f"{plural(one.stay, 'event')} {'stays' if one.stay == 1 else 'stay'} on this device"
        why = (
            "it is no longer shared with you"
            if one.over
            else "it is shared with you for reading only"
        )
        screen.done(f"{lead}{many}: {why}")
        show = screen.as_typed("forestay device key show")
        screen.done("  → ask its owner to share it with --continue; your key: ", (show, "cyan"))
    if one.disputes:
        disputes = plural(one.disputes, "dispute")
        screen.line((f"{lead}{disputes}", "yellow"), "; both sides are stored")
        screen.line("  → ", screen.as_typed(f"forestay settle --session {one.session}"))
    if one.loose:
        waits = f"{lead}{plural(one.loose, 'pack')} wait for earlier packs"
        screen.line((waits, "yellow"), "; another device is still pushing")


def _report_values(report: Report) -> dict[str, Any]:
    sessions = []
    for one in report.sessions:
        values = pick(
            one,
            "session new pushed=up pulled=down disputes packs_waiting=loose stay ended",
            "packs_pushed=packs_up packs_pulled=packs_down",
            "bytes_pushed=bytes_up bytes_pulled=bytes_down",
        )
        values["refused"] = [_error_values(each) for each in one.aside]
        values["noticed"] = [_error_values(each) for each in one.noticed]
        sessions.append({**values, "error": _error_values(one.error)})
    known = pick(report, "remote pushed=up pulled=down waiting others=foreign")
    return {**known, "error": _error_values(report.error), "sessions": sessions}


def _error_values(error: ForestayError | None) -> dict[str, Any] | None:
    if error is None:
        return None
    return {"type": type(error).__name__, **pick(error, "message=what why? hint?")}


_NAME = arg("name", "NAME", "the name of the remote")

COMMANDS = {
    "remote add": Command(
        run_add,
        arg("name", "NAME", "a name for it on this device"),
        arg("address", "ADDRESS", "folder:PATH or s3://BUCKET/PREFIX?endpoint=URL"),
        "forestay remote add usb folder:/media/usb/forestay",
        "forestay remote add cloud 's3://my-bucket/forestay?region=eu-central-1'",
    ),
    "remote list": Command(run_list, "forestay remote list"),
    "remote remove": Command(run_remove, _NAME, "forestay remote remove usb"),
    "remote check": Command(run_check, _NAME, "forestay remote check usb"),
    "sync": Command(
        run_sync,
        arg("remote?", "REMOTE", "only this one"),
        flag("--push", "only send what was recorded on this device", group="way"),
        flag("--pull", "only fetch what other devices sent", group="way"),
        flag("--watch", "repeat until you stop it with Ctrl-C"),
        arg("--every", "SECONDS", "with --watch: how often", type=count, default=0),
        flag("--again", "with --push: resend what the remote has lost"),
        arg(
            "--join",
            "SESSION",
            "with --pull: merge an imported session with the one on the remote",
            many=True,
        ),
        arg("--doubt", "WHO", _DOUBT, many=True),
        arg("--believe", "WHO", "with --pull: undo --doubt", many=True),
        flag("--soon", SUPPRESS),  # for the background process only
        "forestay sync",
        "forestay sync usb --push",
        "forestay sync --watch --every 30",
    ),
}
