"""The commands log and search: what happened, in order, and where words occur."""

from __future__ import annotations

import time

from forestay.base.text import fit, one_line, person_title, shorten, width
from forestay.cli.arguments import Command, arg, count, flag
from forestay.cli.event_lines import describe_event, kind_word
from forestay.errors import ForestayError, InvalidInput
from forestay.journal.history import event_to_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import NoReturn

    from forestay.cli.types import Any, Forestay, Namespace, Part, Screen
    from forestay.journal.history import LogLine

_POLL_SECONDS, _PAUSE_SECONDS = 2.0, 1.0
_WHO, _WORD, _LEAST, _DEVICE = 12, 11, 16, 12
_PERSON, _NARROW, _ROOMY = 32, 18, 100
_GOAL = 50
_COLORS = {
    "error.raised": "red",
    "agent.failed": "red",
    "session.interrupted": "red",
    "decision.made": "cyan",
    "session.started": "green",
    "session.completed": "green",
}


# -- log ---------------------------------------------------------------------------------------


def run_log(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session, last = stay.current(), 0

    def print_lines(lines: Iterable[LogLine]) -> None:
        nonlocal last
        now, room = stay.context.clock.now(), _room_for_devices(stay, screen)
        for line in lines:
            if screen.json:
                screen.answer(event_to_json(line))
            else:
                for parts in _lines(line, now, stay, screen, room=room, full=options.full):
                    screen.line(*parts)
            last = line.event.seq

    def print_new() -> None:
        if session.wait(last, _POLL_SECONDS):
            print_lines(session.log(after=last, full=options.full))
        screen.flush()

    if not options.follow:
        screen.start_paging()
    print_lines(session.log(limit=options.n or -1, full=options.full))
    if options.follow:
        screen.flush()
        repeat_forever(print_new, stay, screen)


def repeat_forever(act: Callable[[], None], stay: Forestay, screen: Screen) -> NoReturn:
    """Repeat an action forever; while the store cannot be reached, wait, and report that once."""
    waits = False
    while True:
        try:
            act()
            waits = False
        except ForestayError as error:
            if not error.retryable:
                raise
            if not waits:
                screen.write_error(f"{error.what}: waiting for it; Ctrl-C stops this")
            waits = True
            stay.context.clock.sleep(_PAUSE_SECONDS)


def _room_for_devices(stay: Forestay, screen: Screen) -> int:
    """Return the columns for devices and people: names of people are longer."""
    others = stay.context.store.machine.remotes.persons()
    titles = [person_title(one, stay.devices.name_of(device)) for device, one in others.items()]
    most = _PERSON if not screen.columns or screen.columns >= _ROOMY else _NARROW
    return min(max([_DEVICE, *map(width, titles)]), most)


def _lines(
    line: LogLine, now: int, stay: Forestay, screen: Screen, *, room: int, full: bool
) -> list[list[Part]]:
    """Return an event as one line that fits the terminal; with `full`, as many as needed."""
    event = line.event
    who = fit(event.head.actor.removeprefix("agent:").removeprefix("file:"), _WHO)
    named = person_title(line.person, line.name) or line.name
    device = "here" if line.device == stay.context.store.machine.device else named
    # The device is named where a session has several.
    where = [f"{fit(device, room)} "] if line.device and device else []
    head = [f"#{event.seq:<4} ", f"{when(event.head.at, now):<11} ", *where, f"{who} "]
    word, text = describe_event(line)
    lead = f"{''.join(head)}{word:<{_WORD}} "
    if screen.columns and not full:
        text = fit(text, max(screen.columns - width(lead), _LEAST))
    first, *more = screen.wrap(f"{lead}{one_line(text)}".rstrip()) if full else [lead + text]
    shown = first[sum(map(len, head)) :].rstrip()
    style = "strike" if line.retracted else _COLORS.get(event.kind, "")
    if line.retracted and not screen.shows_strike:
        shown, more = f"~~{' '.join([shown, *map(str.strip, more)])}~~ (withdrawn)", []
    shade = "dim" if line.retracted else ""
    parts: list[Part] = [(head[0], shade or "bold"), (head[1], "dim")]
    parts += [(part, shade) for part in head[2:]]
    lines: list[list[Part]] = [[*parts, (shown, style)]]
    return lines + [[(part, style)] for part in more]


def when(ms: int, now: int) -> str:
    """Return a local time in at most 11 columns: time today, day this year, else the date."""
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


def run_search(options: Namespace, stay: Forestay, screen: Screen) -> None:
    words = " ".join(options.words)
    if not words.strip():
        raise InvalidInput("there is nothing to search for", hint='forestay search "WORDS"')
    found = [one.as_json() for one in stay.search(words, limit=options.n or -1)]
    screen.answer(query=words, results=found)
    screen.start_paging()
    sessions: dict[str, list[dict[str, Any]]] = {}
    for one in found:
        sessions.setdefault(one["session"], []).append(one)
    for session, places in sessions.items():
        project = f" in {places[0]['project']}" if places[0]["project"] else ""
        goal = shorten(places[0]["goal"], _GOAL)
        screen.line((session, "bold"), (project, "dim"), " – ", goal)
        rows: list[list[Part]] = []
        for one in places:
            word = (kind_word(one["kind"]), "cyan")
            rows.append([(f"#{one['seq']}", "dim"), word, one["snippet"]])
        screen.table(rows, indent=2)
    if not found:
        screen.line("Nothing found.")


COMMANDS = {
    "log": Command(
        run_log,
        arg("-n", "N", "only the newest N", type=count, default=0),
        flag("--follow", "wait for new events and print them"),
        flag("--full", "show long texts in full"),
        "forestay log",
        "forestay log -n 20 --full",
        "forestay log --follow",
    ),
    "search": Command(
        run_search,
        arg("words+", "WORDS", "words, or the beginnings of words; all must occur"),
        arg("-n", "N", "at most N (default 20)", type=count, default=20),
        'forestay search "login token"',
        "forestay search boots",
    ),
}
