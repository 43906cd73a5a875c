"""log and search: what happened, in order, and where words occur."""

from __future__ import annotations

import time

from holdfast.cli.arguments import Command, Parser, count
from holdfast.cli.screen import VERSION
from holdfast.cli.words import about, word_of
from holdfast.errors import HoldfastError
from holdfast.text import fit, one_line, person_title, shorten, width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable
    from typing import Any, NoReturn

    from holdfast.cli.screen import Part, Screen
    from holdfast.home import Holdfast
    from holdfast.session import Session
    from holdfast.timeline import LogLine

_POLL_SECONDS, _PAUSE_SECONDS = 2.0, 1.0
_WHO, _WORD, _LEAST, _DEVICE = 12, 11, 16, 12
_PERSON, _NARROW, _ROOMY = 32, 18, 100
_GOAL = 50
_COLOURS = {
    "error.raised": "red",
    "agent.failed": "red",
    "session.interrupted": "red",
    "decision.made": "cyan",
    "session.started": "green",
    "session.completed": "green",
}


# -- log ---------------------------------------------------------------------------------------


def _log_arguments(parser: Parser) -> None:
    parser.add_argument("-n", type=count, default=0, metavar="N", help="only the newest N")
    parser.add_argument("--follow", action="store_true", help="wait for what happens next")
    parser.add_argument("--full", action="store_true", help="cut nothing: long texts are wrapped")


def run_log(options: Namespace, hf: Holdfast, screen: Screen) -> None:
    session, told = hf.current(), _Told(hf, screen, options.full)
    if not options.follow:
        screen.long()
    told.tell(session.log(limit=options.n or -1, full=options.full))
    if options.follow:
        _follow(session, told, screen)


def _follow(session: Session, told: _Told, screen: Screen) -> NoReturn:
    def look() -> None:
        if session.follow(told.last, _POLL_SECONDS):
            told.tell(session.log(after=told.last, full=told.full))
        screen.flush()

    screen.flush()
    for_ever(look, told.hf, screen)


def for_ever(act: Callable[[], None], hf: Holdfast, screen: Screen) -> NoReturn:
    """Do it again and again. A store that may come back is waited for, which is said once."""
    waits = False
    while True:
        try:
            act()
            waits = False
        except HoldfastError as error:
            if not error.retryable:
                raise
            if not waits:
                screen.complain(f"{error.what}: waiting for it; Ctrl-C ends this")
            waits = True
            hf.clock.sleep(_PAUSE_SECONDS)


class _Told:
    """What was printed of a log: `last` is the number of the last event, also if more was to be."""

    def __init__(self, hf: Holdfast, screen: Screen, full: bool) -> None:
        self.hf, self.full, self.last = hf, full, 0
        self._screen = screen

    def tell(self, lines: Iterable[LogLine]) -> None:
        now, room = self.hf.clock.now(), _room_for_devices(self.hf, self._screen)
        for line in lines:
            self._tell_one(line, now, room)
            self.last = line.event.seq

    def _tell_one(self, line: LogLine, now: int, room: int) -> None:
        from holdfast.timeline import plain_event

        if self._screen.json:
            self._screen.object({"holdfast": VERSION, **plain_event(line)})
            return
        head = _head(line, now, self.hf, room)
        for parts in _lines(line, head, self._screen, full=self.full):
            self._screen.line(*parts)


def _room_for_devices(hf: Holdfast, screen: Screen) -> int:
    """Columns for devices and persons: names of people are longer, and are not to be cut."""
    others = hf.store.remotes.persons()
    titles = [person_title(one, hf.device(device)) for device, one in others.items()]
    most = _PERSON if not screen.columns or screen.columns >= _ROOMY else _NARROW
    return min(max([_DEVICE, *map(width, titles)]), most)


def _head(line: LogLine, now: int, hf: Holdfast, room: int) -> list[str]:
    """Number, time, who; and on which device, where a session was written on several."""
    event = line.event
    who = fit(event.head.actor.removeprefix("agent:").removeprefix("file:"), _WHO)
    named = person_title(line.person, line.name) or line.name
    device = "here" if line.device == hf.store.device else named
    where = [f"{fit(device, room)} "] if line.device and device else []
    return [f"#{event.seq:<4} ", f"{when(event.head.at, now):<11} ", *where, f"{who} "]


def _lines(line: LogLine, head: list[str], screen: Screen, *, full: bool) -> list[list[Part]]:
    """An event as one line, cut at the edge of a terminal; with `full` as many as it takes."""
    word, text = about(line)
    lead = f"{''.join(head)}{word:<{_WORD}} "
    if screen.columns and not full:
        text = fit(text, max(screen.columns - width(lead), _LEAST))
    first, *more = screen.wrapped(f"{lead}{one_line(text)}".rstrip()) if full else [lead + text]
    said = first[sum(map(len, head)) :].rstrip()
    style = "strike" if line.retracted else _COLOURS.get(line.event.kind, "")
    if line.retracted and not screen.shows_strike:
        said = f"~~{' '.join([said, *map(str.strip, more)])}~~ (withdrawn)"
        more = []
    shade = "dim" if line.retracted else ""
    parts: list[Part] = [(head[0], shade or "bold"), (head[1], "dim")]
    parts += [(part, shade) for part in head[2:]]
    lines: list[list[Part]] = [[*parts, (said, style)]]
    return lines + [[(part, style)] for part in more]


def when(ms: int, now: int) -> str:
    """A local time in at most eleven columns: the hour today, the day this year, else the date."""
    try:
        then, today = time.localtime(ms / 1000), time.localtime(now / 1000)
    except (OverflowError, OSError, ValueError):
        return "?"
    if then[:3] == today[:3]:
        return time.strftime("%H:%M:%S", then)
    if then.tm_year == today.tm_year:
        return time.strftime("%m-%d %H:%M", then)
    return f"{then.tm_year:04d}-{then.tm_mon:02d}-{then.tm_mday:02d}"


# -- search ------------------------------------------------------------------------------------


def _search_arguments(parser: Parser) -> None:
    parser.add_argument(
        "words", nargs="+", metavar="WORDS", help="all of them, or their beginnings"
    )
    parser.add_argument("-n", type=count, default=20, metavar="N", help="at most N (default 20)")


def run_search(options: Namespace, hf: Holdfast, screen: Screen) -> None:
    from holdfast.errors import InvalidInput

    words = " ".join(options.words)
    if not words.strip():
        raise InvalidInput("there is nothing to search for", hint='holdfast search "WORDS"')
    found = hf.search(words, limit=options.n or -1)
    screen.answer({"query": words, "results": found})
    screen.long()
    sessions: dict[str, list[dict[str, Any]]] = {}
    for one in found:
        sessions.setdefault(one["session"], []).append(one)
    for places in sessions.values():
        _tell_places(places, screen)
    if not found:
        screen.line("Nothing found.")


def _tell_places(places: list[dict[str, Any]], screen: Screen) -> None:
    """Where the words occur in one session, under its goal."""
    first = places[0]
    project = f" in {first['project']}" if first["project"] else ""
    screen.line((first["session"], "bold"), (project, "dim"), " – ", shorten(first["goal"], _GOAL))
    screen.table(
        [
            [(f"#{one['seq']}", "dim"), (word_of(one["kind"]), "cyan"), one["snippet"]]
            for one in places
        ],
        indent=2,
    )


COMMANDS = {
    "log": Command(
        _log_arguments,
        run_log,
        "holdfast log",
        "holdfast log -n 20 --full",
        "holdfast log --follow",
    ),
    "search": Command(
        _search_arguments, run_search, 'holdfast search "login token"', "holdfast search boots"
    ),
}
