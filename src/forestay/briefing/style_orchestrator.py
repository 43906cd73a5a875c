"""The resume display of the orchestrator's session document, line for line (S4-58 to S4-64).

It is markdown with times relative to now. Lists end with "… and N more" if the budget does not
allow more. Urgent facts that S4 does not provide for, such as an unknown outcome or a
dispute, come before the closing line.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from forestay.base.text import ago, one_line
from forestay.briefing.render import clip
from forestay.briefing.sections import BriefingInput, next_with_warnings, quote
from forestay.briefing.token_estimate import ONCE, cost
from forestay.model.state import Agent, Dispute, Step
from forestay.model.summary import next_step, outcomes, progress, subject

_MINUTE = 60_000
_ALL = 10**9
_LINE = 60
"""The most tokens that one line of a list can cost."""


_VALUE = (
    "### Before Continuing",
    "### In Progress",
    "### Pending",
    "### Completed Work",
    "### Context Budget",
)


class _List(Struct):
    """A heading with lines, and the total number of lines, also those that were not loaded."""

    heading: str
    lines: list[str]
    total: int


def render_orchestrator(known: BriefingInput) -> str:
    """Return the resume display of specification S4, within the budget."""
    lists, end = _lists(known), _end(known)
    left = known.budget - ONCE - cost(_head(known, "")) - cost(end)
    # Urgent lines must fit next to the goal.
    urgent = any(each.heading == _VALUE[0] for each in lists)
    goal = _goal(known, min(left, known.budget // (8 if urgent else 5)))
    return f"{_head(known, goal)}{_fit(lists, left - cost(goal))}{end}"


def _ago(ms: int) -> str:
    return ago(ms) if ms >= _MINUTE else "just now"


def _head(known: BriefingInput, goal: str) -> str:
    core = known.core
    name = known.around.natives.get("orchestrator", core.session)
    started = _ago(known.around.now - core.began_at) if core.began_at else "not yet"
    return (
        "## 🔄 RESUMING SESSION\n\n"
        f"**Session ID**: {shorten_to_cost(name, max(20, known.budget // 10))}\n"
        f"**Goal**: {goal}\n"
        f"**Started**: {started}\n"
        f"**Progress**: {_percent(_progress(known))}% complete\n"
    )


def _goal(known: BriefingInput, limit: int) -> str:
    core = known.core
    entry = quote(known, "goal", core.goal, known.author(core.goal_by, core.goal_device))
    tail = one_line(entry.tail)

    def whole(text: str) -> str:
        return f"{entry.lead}{text}{tail}"

    text = one_line(entry.text[: 16 * limit])
    if cost(whole(text)) > limit:
        text = clip(text, limit, lambda cut: cost(whole(cut)))
    return whole(text or "…")


def _progress(known: BriefingInput) -> float:
    """Return the progress of the first running agent that reports one, else the session's."""
    fractions = (agent.fraction for agent in _running(known) if agent.fraction is not None)
    first = next(fractions, None)
    return progress(known.state)[0] if first is None else first


def _percent(fraction: float) -> int:
    return round(fraction * 100)


def shorten_to_cost(text: str, limit: int) -> str:
    """Return one line that costs at most `limit` tokens."""
    line = one_line(text[: 16 * limit])
    return line if cost(line) <= limit else clip(line, limit, cost)


def _running(known: BriefingInput) -> list[Agent]:
    if not known.state.count("agent.running"):
        return []
    dead = {agent.id for agent in known.dead}
    rows = known.open_rows("agent", Agent)
    return [row for row in rows if row.status == "running" and row.id not in dead]


def _lists(known: BriefingInput) -> list[_List]:
    found = [_completed(known), _in_progress(known), _pending(known), _context(known)]
    urgent = [f"- {line}" for line in warnings(known)]
    found.append(_List("### Before Continuing", urgent, len(urgent)))
    return [each for each in found if each.total]


def _completed(known: BriefingInput) -> _List:
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
    result = f" ({shorten_to_cost(outcome, _LINE // 2)})" if outcome else ""
    return f"- ✅ {shorten_to_cost(task, _LINE // 2)}{result}"


def _in_progress(known: BriefingInput) -> _List:
    lines = [
        f"- 🔄 {shorten_to_cost(a.id, 20)}: {shorten_to_cost(a.task, _LINE // 2)}"
        f" ({_percent(a.fraction or 0.0)}%)"
        for a in _running(known)
    ]
    return _List("### In Progress", lines, max(len(lines), known.state.count("agent.running")))


def _pending(known: BriefingInput) -> _List:
    total = known.state.tasks("pending")
    steps = known.open_rows("step", Step) if total else []
    titles = [shorten_to_cost(s.title or s.id, _LINE // 2) for s in steps if s.status == "pending"]
    return _List("### Pending", [f"{n}. {title}" for n, title in enumerate(titles, 1)], total)


def _context(known: BriefingInput) -> _List:
    core, around = known.core, known.around
    used = core.tokens_used
    percent = round(100 * used / around.window) if around.window > 0 else 0
    last = _ago(around.now - core.compressed_at) if core.compressed_at else "Never"
    lines = [f"- Tokens used: ~{used:,} ({percent}%)", f"- Last compression: {last}"]
    return _List("### Context Budget", lines, 2)


def warnings(known: BriefingInput) -> list[str]:
    """Return lines that every display must show: unknown or disputed outcomes, and damage."""
    found = [f"Unknown outcome: agent {shorten_to_cost(a.id, 20)} died" for a in known.dead]
    rows = known.open_rows("dispute", Dispute)
    for row in rows:
        dispute = f"{subject(row)} ({' or '.join(outcomes(row))})"
        found.append(f"Disputed: {shorten_to_cost(dispute, _LINE // 2)}")
    return found + [f"Damage: {shorten_to_cost(text, _LINE // 2)}" for text in known.around.damage]


def _end(known: BriefingInput) -> str:
    for agent in _running(known):
        return f"\n**Resuming from {shorten_to_cost(agent.id, 20)}...**\n"
    step = next_with_warnings(known, next_step(known.state))
    return f"\n**Next: {shorten_to_cost(step, min(30, known.budget // 8))}**\n"


def _fit(lists: Sequence[_List], room: int) -> str:
    """Return as many lines as fit, in the order of the display, but urgent lists first."""
    by_value = sorted(lists, key=lambda each: _VALUE.index(each.heading))
    fitting: list[_List] = []
    left = room
    for each in by_value:
        if _frame(each) <= left:
            fitting.append(each)
            left -= _frame(each)
    counts = {each.heading: 0 for each in fitting}
    for most, parts in ((1, 1), (_ALL, len(fitting)), (_ALL, 1)):
        # First one line of each list, then an equal share for each, then the most valuable lists.
        for i, each in enumerate(fitting):
            room = left // max(1, parts - i)
            counts[each.heading], rest = _add_lines(each, counts[each.heading], room, most)
            left -= room - rest
    return "".join(_render_list(each, counts[each.heading]) for each in lists if each in fitting)


def _add_lines(each: _List, shown: int, room: int, most: int) -> tuple[int, int]:
    """Add lines while there is room; return how many are shown and the remaining room."""
    while shown < min(most, len(each.lines)):
        line = cost(f"{each.lines[shown]}\n")
        more = line + cost(_rest(each, shown + 1)) - cost(_rest(each, shown))
        if more > room:
            break
        shown, room = shown + 1, room - more
    return shown, room


def _frame(each: _List) -> int:
    """Return what a list costs before any of its lines is shown."""
    return cost(f"\n{each.heading}\n") + cost(_rest(each, 0))


def _rest(each: _List, shown: int) -> str:
    return f"… and {each.total - shown} more\n" if shown < each.total else ""


def _render_list(each: _List, shown: int) -> str:
    lines = "".join(f"{line}\n" for line in each.lines[:shown])
    return f"\n{each.heading}\n{lines}{_rest(each, shown)}"
