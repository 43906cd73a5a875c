"""The command settle: show contradictions between devices, and decide what holds."""

from __future__ import annotations

from forestay.base.text import plural, shorten
from forestay.cli.arguments import KEY, Command, arg, flag
from forestay.cli.common import confirm
from forestay.cli.log import when
from forestay.cli.terminal import pick
from forestay.sync.device_names import name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.cli.types import Any, Forestay, Namespace, Screen, Session

_LONG, _MAX_TEXT = 60, 400


def run_settle(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = stay.current()
    if not (options.prefer or options.merge or options.keep_both):
        _print(session, options.dispute, stay.context.clock.now(), screen)
        return
    open_before = {case.subject: case.about for case in session.disputes.list()}
    given = pick(options, "prefer merge keep_both because key")
    event = session.disputes.settle(options.dispute, **given)
    left = {case.subject: case.about for case in session.disputes.list()}
    over = [about for subject, about in open_before.items() if subject not in left]
    then = "forestay settle" if left else "forestay brief"
    message = f"settled: {', '.join(over)}; both sides stay in the log"
    confirm(session, event, screen, message, then=then, settled=over, disputes=len(left))


# -- the dialogue ------------------------------------------------------------------------------


def dialogue(session: Session, dispute: str = "") -> dict[str, Any]:
    """Return devices, disputes with their sides, and the choices, as JSON values."""
    context, state = session.context, session.show()
    found = session.disputes.list(dispute)
    devices = [
        {
            **seat.as_json(),
            "name": name_of(context, seat.device),
            "here": seat.device == context.store.machine.device,
            "active_agent": seat.active_agents[0] if seat.active_agents else None,
        }
        for seat in session.disputes.devices()
    ]
    disputes = []
    for case in found:
        kind, _, id = case.subject.partition(":")
        sides = [{**side.as_json(), "name": name_of(context, side.device)} for side in case.sides]
        table, field = _TITLES.get(kind, ("", ""))
        rows: list[Any] = getattr(state, table) if table else []
        title = next((str(getattr(row, field)) for row in rows if row.id == id), "")
        disputes.append({**case.as_json(), "sides": sides, "title": title})
    settled = [
        {"subject": row["subject"], "outcomes": sorted({side[3] for side in row["sides"]})}
        for row in state.as_json()["rows"].get("dispute", [])
        if row.get("settled_by")
    ]
    choices = [{"what": what, "command": line} for what, line in _choices(found)]
    return {"devices": devices, "disputes": disputes, "settled": settled, "choices": choices}


_TITLES = {
    "step": ("tasks", "title"),
    "decision": ("decisions", "what"),
    "agent": ("agents", "task"),
}
"""For each kind of disputed thing: its table in the state, and the field with its title."""


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
        (f"prefer one side (newer: {first.recommended})", f"{one} --prefer {first.recommended}"),
        ("merge both into one", f"{one} --merge"),
        ("keep both, separately", f"{one} --keep-both"),
        cancel,
    ]


def _print(session: Session, dispute: str, now: int, screen: Screen) -> None:
    from forestay.cli.status import since  # start-up
    from forestay.model.summary import plain_outcome  # start-up

    shown = dialogue(session, dispute)
    screen.answer(session.status, shown)
    if not shown["disputes"]:
        screen.line("Nothing is disputed.")
    else:
        screen.line((f"{plural(len(shown['disputes']), 'dispute')} to settle", "bold"))
        screen.line()
        rows = []
        for one in shown["devices"]:
            name = one["name"] + (" (here)" if one["here"] else "")
            agents = ", ".join(one["active_agents"]) or "–"
            done, count = f"{one['progress']:.0%}", str(one["events"])
            rows.append([name, since(one["last_modified"], now), done, count, agents])
        screen.listing("DEVICE LAST_MODIFIED DONE EVENTS AGENTS", rows, indent=2, right="23")
        for case in shown["disputes"]:
            _print_case(case, now, screen)
        screen.line()
        for one in shown["choices"]:
            screen.line("→ ", f"{one['what']:<44}", (screen.as_typed(one["command"]), "cyan"))
    for one in shown["settled"]:
        both = " or ".join(map(plain_outcome, one["outcomes"]))
        name = one["subject"].replace("step:", "task ").replace(":", " ", 1)
        screen.line((f"settled before: {name} ({both})", "dim"))


def _print_case(case: dict[str, Any], now: int, screen: Screen) -> None:
    from datetime import datetime  # start-up

    from forestay.model.summary import plain_outcome  # start-up

    screen.line()
    title = shorten(case["title"], _LONG) if case["title"] not in case["about"] else ""
    screen.line((f"{case['number']}  {case['about']}", "bold"), f": {title}" if title else "")
    for side in case["sides"]:
        parts = [plain_outcome(side["outcome"]), shorten(side["said"], _MAX_TEXT)]
        screen.prose(f"   {side['number']}  ", " – ".join(filter(None, parts)))
        ms = round(datetime.fromisoformat(side["at"]).timestamp() * 1000) if side["at"] else 0
        by = ", ".join(filter(None, [side["name"], when(ms, now) if ms else "", side["by"]]))
        newer = ("  newer", "green") if side["number"] == case["recommended"] else ""
        screen.line("      ", (by, "dim"), newer)
    screen.prose("   ", f"recommended: {case['recommended']}, the newer; {case['why']}", "dim")


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
