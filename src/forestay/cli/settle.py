"""The command settle: show contradictions between devices, and decide what holds."""

from __future__ import annotations

from forestay.base.clock import iso
from forestay.base.text import plural, shorten
from forestay.cli.arguments import KEY, Command, arg, flag
from forestay.cli.common import confirm
from forestay.cli.log import when
from forestay.cli.terminal import pick
from forestay.sync.device_names import name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from forestay.api.forestay import Forestay
    from forestay.api.session import Session
    from forestay.cli.terminal import Screen
    from forestay.journal.context import Context

_LONG, _MAX_TEXT = 60, 400


def run_settle(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = stay.current()
    if not (options.prefer or options.merge or options.keep_both):
        _print(session, options.dispute, stay, screen)
        return
    open_before = {case.subject: case.about for case in session.disputes.list()}
    event = session.disputes.settle(
        options.dispute,
        prefer=options.prefer,
        merge=options.merge,
        keep_both=options.keep_both,
        because=options.because,
        key=options.key,
    )
    left = {case.subject: case.about for case in session.disputes.list()}
    over = [about for subject, about in open_before.items() if subject not in left]
    then = "forestay settle" if left else "forestay brief"
    message = f"settled: {', '.join(over)}; both sides stay in the log"
    confirm(session, event, screen, message, then=then, settled=over, disputes=len(left))


# -- the dialogue ------------------------------------------------------------------------------


def dialogue(session: Session, dispute: str = "") -> dict[str, Any]:
    """Return devices, disputes with their sides, and the choices, as JSON values."""
    context = session.context
    found = session.disputes.list(dispute)
    devices = [
        {
            **pick(seat, "device progress active_agents events"),
            "name": name_of(context, seat.device),
            "here": seat.device == context.store.machine.device,
            "last_modified": iso(seat.last_modified),
            "active_agent": seat.active_agents[0] if seat.active_agents else None,
        }
        for seat in session.disputes.devices()
    ]
    return {
        "devices": devices,
        "disputes": [{**_case(case, context), "title": _title(session, case)} for case in found],
        "settled": _settled(session),
        "choices": [{"what": what, "command": line} for what, line in _choices(found)],
    }


_TITLES = {"step": "title", "decision": "what", "agent": "task"}


def _title(session: Session, case: Any) -> str:
    """Return the title of what is disputed, or ""."""
    kind, _, id = case.subject.partition(":")
    row = session.show().rows.get(kind, id) if kind in _TITLES else None
    return str(getattr(row, _TITLES[kind], "")) if row else ""


def _case(case: Any, context: Context) -> dict[str, Any]:
    sides = [
        {
            **pick(side, "number outcome said device by event?"),
            "name": name_of(context, side.device),
            "at": iso(side.at) if side.at else None,
        }
        for side in case.sides
    ]
    return {**pick(case, "number subject about recommended=newer why"), "sides": sides}


def _settled(session: Session) -> list[dict[str, Any]]:
    rows: list[Any] = list(session.show().rows.select("dispute"))
    rows = [row for row in rows if not row.is_open]
    return [
        {"subject": row.subject, "outcomes": sorted({side[3] for side in row.sides})}
        for row in rows
    ]


def _choices(found: list[Any]) -> list[tuple[str, str]]:
    if not found:
        return []
    first = found[0]
    one = f"forestay settle {first.number}"
    cancel = ("cancel: change nothing, it stays open", "")
    if first.kind == "edit":
        # Each side is a whole file: there is nothing to merge, and no place for both.
        sides = ("file", "journal")
        return [*((f"the {side} is right", f"{one} --prefer {side}") for side in sides), cancel]
    return [
        (f"prefer one side (newer: {first.newer})", f"{one} --prefer {first.newer}"),
        ("merge both into one", f"{one} --merge"),
        ("keep both, separately", f"{one} --keep-both"),
        cancel,
    ]


def _print(session: Session, dispute: str, stay: Forestay, screen: Screen) -> None:
    shown = dialogue(session, dispute)
    if screen.json:
        screen.answer({**session.status().as_json(), **shown})
        return
    if not shown["disputes"]:
        screen.line("Nothing is disputed.")
    else:
        screen.line((f"{plural(len(shown['disputes']), 'dispute')} to settle", "bold"))
        screen.line()
        _print_devices(shown["devices"], stay.context.clock.now(), screen)
        for case in shown["disputes"]:
            _print_case(case, stay.context.clock.now(), screen)
        screen.line()
        for one in shown["choices"]:
            screen.line("→ ", f"{one['what']:<44}", (screen.as_typed(one["command"]), "cyan"))
    _print_settled(shown["settled"], screen)


def _print_devices(devices: list[dict[str, Any]], now: int, screen: Screen) -> None:
    from forestay.cli.status import since  # start-up

    rows = []
    for one in devices:
        name = one["name"] + (" (here)" if one["here"] else "")
        agents = ", ".join(one["active_agents"]) or "–"
        done, count = f"{one['progress']:.0%}", str(one["events"])
        rows.append([name, since(one["last_modified"], now), done, count, agents])
    screen.listing("DEVICE LAST_MODIFIED DONE EVENTS AGENTS", rows, indent=2, right="23")


def _print_case(case: dict[str, Any], now: int, screen: Screen) -> None:
    screen.line()
    title = shorten(case["title"], _LONG) if case["title"] not in case["about"] else ""
    screen.line((f"{case['number']}  {case['about']}", "bold"), f": {title}" if title else "")
    for side in case["sides"]:
        message = " – ".join(
            filter(None, [_plain(side["outcome"]), shorten(side["said"], _MAX_TEXT)])
        )
        screen.prose(f"   {side['number']}  ", message)
        at = when(_ms(side["at"]), now) if side["at"] else ""
        by = ", ".join(filter(None, [side["name"], at, side["by"]]))
        newer = ("  newer", "green") if side["number"] == case["recommended"] else ""
        screen.line("      ", (by, "dim"), newer)
    recommendation = f"recommended: {case['recommended']}, the newer; {case['why']}"
    for line in screen.wrap(f"   {recommendation}"):
        screen.line((line, "dim"))


def _print_settled(settled: list[dict[str, Any]], screen: Screen) -> None:
    for one in settled:
        both = " or ".join(_plain(word) for word in one["outcomes"])
        name = one["subject"].replace("step:", "task ").replace(":", " ", 1)
        screen.line((f"settled before: {name} ({both})", "dim"))


def _plain(word: str) -> str:
    from forestay.model.summary import plain_outcome

    return plain_outcome(word)


def _ms(stamp: str) -> int:
    from datetime import datetime

    return round(datetime.fromisoformat(stamp).timestamp() * 1000)


COMMANDS = {
    "settle": Command(
        run_settle,
        arg("dispute?", "DISPUTE", "its number, or what it is about"),
        arg("--prefer", "SIDE", "the side that is right: a number, or a device"),
        flag("--merge", "merge both into one"),
        flag("--keep-both", "keep both, separately"),
        arg("--because", "TEXT", "why"),
        KEY,
        "forestay settle",
        'forestay settle t1 --prefer laptop --because "its tests ran"',
        "forestay settle --merge",
    )
}
