"""Styles: displays that other documents prescribe, made from the same state.

`orchestrator` is the resume display of the orchestrator's session document, line for line
(S4-58 to S4-64). It is markdown and speaks of times relative to now. Lists end with "… and N
more" when the budget does not reach further. What its document does not know of but nobody may
miss, an unknown outcome or a dispute, stands before the closing line.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from holdfast.model.form import clip
from holdfast.model.state import Agent, Dispute, Step
from holdfast.model.summary import next_step, outcomes, progress, subject
from holdfast.model.tokens import ONCE, cost
from holdfast.model.topics import Known, after_looking, said
from holdfast.text import one_line

_MINUTE = 60_000
_UNITS = ((525_600, "year"), (1440, "day"), (60, "hour"), (1, "minute"))
_ALL = 10**9
_LINE = 60
"""The most tokens one line of a list may cost."""


_VALUE = (
    "### Before Continuing",
    "### In Progress",
    "### Pending",
    "### Completed Work",
    "### Context Budget",
)


class _List(Struct):
    """A heading with lines, and how many there are in all."""

    heading: str
    lines: list[str]
    total: int


def orchestrator(known: Known) -> str:
    """The display of S4, within the budget."""
    lists, end = _lists(known), _end(known)
    left = known.budget - ONCE - cost(_head(known, "")) - cost(end)
    # What is urgent must find room beside the goal.
    urgent = any(each.heading == _VALUE[0] for each in lists)
    goal = _goal(known, min(left, known.budget // (8 if urgent else 5)))
    return f"{_head(known, goal)}{_fit(lists, left - cost(goal))}{end}"


def ago(then: int, now: int) -> str:
    """How long ago, in its largest unit: "2 hours ago"."""
    minutes = (now - then) // _MINUTE
    for size, unit in _UNITS:
        if minutes >= size:
            n = minutes // size
            return f"{n} {unit}{'s' * (n != 1)} ago"
    return "just now"


def _head(known: Known, goal: str) -> str:
    core = known.core
    name = known.around.natives.get("orchestrator", core.session)
    started = ago(core.began_at, known.around.now) if core.began_at else "not yet"
    return (
        "## 🔄 RESUMING SESSION\n\n"
        f"**Session ID**: {short(name, max(20, known.budget // 10))}\n"
        f"**Goal**: {goal}\n"
        f"**Started**: {started}\n"
        f"**Progress**: {_percent(_progress(known))}% complete\n"
    )


def _goal(known: Known, limit: int) -> str:
    entry = said(
        known, "goal", known.core.goal, known.by(known.core.goal_by, known.core.goal_device)
    )
    tail = one_line(entry.tail)

    def whole(text: str) -> str:
        return f"{entry.lead}{text}{tail}"

    text = one_line(entry.text[: 16 * limit])
    if cost(whole(text)) > limit:
        text = clip(text, limit, lambda cut: cost(whole(cut)))
    return whole(text or "…")


def _progress(known: Known) -> float:
    """That of the first running agent that says; the session's when none runs or says."""
    told = (agent.fraction for agent in _running(known) if agent.fraction is not None)
    first = next(told, None)
    return progress(known.state)[0] if first is None else first


def _percent(fraction: float) -> int:
    return round(fraction * 100)


def short(text: str, limit: int) -> str:
    """One line that costs at most so many tokens."""
    line = one_line(text[: 16 * limit])
    return line if cost(line) <= limit else clip(line, limit, cost)


def _running(known: Known) -> list[Agent]:
    if not known.state.count("agent.running"):
        return []
    dead = {agent.id for agent in known.dead}
    rows = known.still_open("agent", Agent)
    return [row for row in rows if row.status == "running" and row.id not in dead]


def _current(known: Known) -> Agent | None:
    running = _running(known)
    return running[0] if running else None


def _lists(known: Known) -> list[_List]:
    found = [_completed(known), _in_progress(known), _pending(known), _context(known)]
    return [each for each in [*found, _warnings(known)] if each.total]


def _completed(known: Known) -> _List:
    count = known.state.count
    if not count("step"):
        agents = [a for a in known.oldest("agent", Agent) if a.status == "done"]
        lines = [_done(agent.task or agent.id, agent.result) for agent in agents]
        return _List("### Completed Work", lines, count("agent.done"))
    total = known.state.tasks("done")
    steps = known.oldest("step", Step) if total else []
    lines = [_done(s.title or s.id, s.outcome) for s in steps if s.status == "done"]
    return _List("### Completed Work", lines, total)


def _done(task: str, outcome: str) -> str:
    result = f" ({short(outcome, _LINE // 2)})" if outcome else ""
    return f"- ✅ {short(task, _LINE // 2)}{result}"


def _in_progress(known: Known) -> _List:
    running = _running(known)
    lines = [
        f"- 🔄 {short(a.id, 20)}: {short(a.task, _LINE // 2)} ({_percent(a.fraction or 0.0)}%)"
        for a in running
    ]
    return _List("### In Progress", lines, max(len(lines), known.state.count("agent.running")))


def _pending(known: Known) -> _List:
    total = known.state.tasks("pending")
    steps = known.still_open("step", Step) if total else []
    titles = [short(s.title or s.id, _LINE // 2) for s in steps if s.status == "pending"]
    return _List("### Pending", [f"{n}. {title}" for n, title in enumerate(titles, 1)], total)


def _context(known: Known) -> _List:
    core, around = known.core, known.around
    used = core.tokens_used
    percent = round(100 * used / around.window) if around.window > 0 else 0
    last = ago(core.compressed_at, around.now) if core.compressed_at else "Never"
    lines = [f"- Tokens used: ~{used:,} ({percent}%)", f"- Last compression: {last}"]
    return _List("### Context Budget", lines, 2)


def _warnings(known: Known) -> _List:
    lost = [f"- {line}" for line in warnings(known)]
    return _List("### Before Continuing", lost, len(lost))


def warnings(known: Known) -> list[str]:
    """What nobody may miss, whatever the display: outcomes unknown or disputed, damage."""
    lost = [f"Unknown outcome: agent {short(a.id, 20)} died" for a in known.dead]
    rows = known.still_open("dispute", Dispute)
    lost += [f"Disputed: {short(_contest(d), _LINE // 2)}" for d in rows]
    return lost + [f"Damage: {short(text, _LINE // 2)}" for text in known.around.damage]


def _contest(dispute: Dispute) -> str:
    return f"{subject(dispute)} ({' or '.join(outcomes(dispute))})"


def _end(known: Known) -> str:
    agent = _current(known)
    if agent is not None:
        return f"\n**Resuming from {short(agent.id, 20)}...**\n"
    step = after_looking(known, next_step(known.state))
    return f"\n**Next: {short(step, min(30, known.budget // 8))}**\n"


def _fit(lists: Sequence[_List], room: int) -> str:
    """As many lines as there is room for; the display's order, but the urgent lists first."""
    by_value = sorted(lists, key=lambda each: _VALUE.index(each.heading))
    kept: list[_List] = []
    left = room
    for each in by_value:
        if _frame(each) <= left:
            kept.append(each)
            left -= _frame(each)
    taken = {each.heading: 0 for each in kept}
    for most, parts in ((1, 1), (_ALL, len(kept)), (_ALL, 1)):
        # A first line for each, then a fair part for each, then what is left by value.
        for i, each in enumerate(kept):
            room = left // max(1, parts - i)
            taken[each.heading], rest = _take(each, taken[each.heading], room, most)
            left -= room - rest
    return "".join(_written(each, taken[each.heading]) for each in lists if each in kept)


def _take(each: _List, shown: int, room: int, most: int) -> tuple[int, int]:
    """How many lines are shown when more are added while there is room, and what remains of it."""
    while shown < min(most, len(each.lines)):
        line = cost(f"{each.lines[shown]}\n")
        more = line + cost(_rest(each, shown + 1)) - cost(_rest(each, shown))
        if more > room:
            break
        shown, room = shown + 1, room - more
    return shown, room


def _frame(each: _List) -> int:
    """What a list costs before any of its lines is shown."""
    return cost(f"\n{each.heading}\n") + cost(_rest(each, 0))


def _rest(each: _List, shown: int) -> str:
    return f"… and {each.total - shown} more\n" if shown < each.total else ""


def _written(each: _List, shown: int) -> str:
    lines = "".join(f"{line}\n" for line in each.lines[:shown])
    return f"\n{each.heading}\n{lines}{_rest(each, shown)}"
