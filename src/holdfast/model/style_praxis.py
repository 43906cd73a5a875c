"""The resume display of the phased-workflow document, line for line (S1-99 to S1-116).

Indents are of 3 and 6 spaces, and no line ends in blanks. A failed phase is not among the
completed ones: it stands under the status, before the next step. What its document does not know
of but nobody may miss stands there too. Where the budget does not reach, lines go by their value;
of the completed phases the oldest go first, and are counted.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.model.form import clip
from holdfast.model.state import Checkpoint, Edit, Step
from holdfast.model.style import short, warnings
from holdfast.model.summary import next_step, plan, progress
from holdfast.model.tokens import ONCE, cost
from holdfast.model.topics import Known, adopted_with, percent, plainly
from holdfast.timing import Progress, ago, brief, long

_LINE = 60
_ID = 64
"""What an id may cost, so that the longest one is whole."""
_MOST = 200
_NEEDED, _TOLD, _MORE, _LEAST = range(4)
"""How dear a line is: never left out, among the last to go, among the first, the very first."""

_MARKS = {
    "passed": " ✅ Checkpoint PASSED",
    "overridden": " ⚠️  Checkpoint OVERRIDDEN",
    "failed": " ❌ Checkpoint FAILED",
    "skipped": " ⏭️  Checkpoint SKIPPED",
}

_Line = tuple[int, str]


def praxis(known: Known) -> str:
    """The display of S1, within the budget."""
    here = _progress(known)
    parts = [
        list(_head(known)),
        list(_where(known, here)),
        list(_completed(known, here)),
        list(_status(known, here)),
        list(_timing(known, here)),
    ]
    return _fit([part for part in parts if part], known.budget - ONCE)


def _progress(known: Known) -> Progress | None:
    if not known.core.is_phased:
        return None
    return Progress(plan(known.state), known.around.now, status=known.core.status)


# -- its parts ---------------------------------------------------------------------------------


def _head(known: Known) -> Iterator[_Line]:
    core = known.core
    limit = min(_ID, known.budget // 8)
    name = short(core.workflow or "no workflow", limit)
    yield _NEEDED, f"📋 Session {short(core.session, limit)}: {name}"
    if core.plan_target:
        yield _TOLD, f"   Target: {short(core.plan_target, min(2 * _LINE, known.budget // 5))}"
    edits: list[Edit] = known.newest("edit", Edit)
    for warning in dict.fromkeys(filter(None, map(adopted_with, edits))):
        yield _TOLD, f"   ⚠️  {short(warning, _LINE // 2)}"


def _where(known: Known, here: Progress | None) -> Iterator[_Line]:
    if here is None:
        yield _NEEDED, f"🎯 Progress: {round(progress(known.state)[0] * 100)}% complete"
        return
    core, timing = known.core, here.timing
    of = "" if core.plan_total is None else f" of {core.plan_total}"
    share = "" if timing.percent is None else f" ({timing.percent}% complete)"
    yield _NEEDED, f"🎯 Progress: Phase {core.phase}{of}{share}"
    if here.since is not None:
        yield _TOLD, f"   Current: Phase {core.phase} (started {ago(here.since)})"
    if (step := _at_work(known)) is not None:
        told = f"{short(step.id, 10)}: {short(step.title, _LINE // 2)}"
        yield _TOLD, f"   Task: {told}{percent(step.fraction)}"
    if timing.average is not None:
        yield _MORE, f"   Average phase time: {long(timing.average)}"
        if timing.inside is not None and timing.inside > timing.average:
            yield _MORE, "   ⚠️  Current phase taking longer than average"


def _at_work(known: Known) -> Step | None:
    """The task inside the current phase that is running."""
    if not known.state.count("step.running"):
        return None
    phase = known.core.phase_step(known.core.phase or 0)
    rows: list[Step] = known.still_open("step", Step)
    return next((row for row in rows if row.status == "running" and row.parent == phase), None)


def _completed(known: Known, here: Progress | None) -> Iterator[_Line]:
    numbers = here.done if here else []
    if not numbers:
        return
    yield _TOLD, "✅ Completed Phases:"
    if len(numbers) > _MOST:
        yield _TOLD, f"   … and {len(numbers) - _MOST} earlier"
    for number in numbers[-_MOST:]:
        yield _LEAST, f"   {_phase(known, number, known.core.phases_done.get(number, -1))}"


def _phase(known: Known, number: int, spent: float) -> str:
    step = known.state.step(known.core.phase_step(number))
    name = short(step.title, _LINE // 3) if step else ""
    named = f": {name}" if name and name != f"Phase {number}" else ""
    took = f" ({brief(spent / 1000)})" if spent >= 0 else ""
    mark = _MARKS.get(known.core.phase_verdicts.get(number, ""), "")
    return f"Phase {number}{named}{took}{mark}"


def _status(known: Known, here: Progress | None) -> Iterator[_Line]:
    word = here.standing if here else known.core.status or "created"
    yield _NEEDED, f"🔄 Current Status: {word}"
    if here is not None and here.failed:
        yield from _failed(known, here)
    yield from _urgent(known)
    if known.core.status == "paused":
        reason = known.core.pause_context or known.core.pause_reason.replace("_", " ")
        yield _TOLD, f"   Paused: {short(reason, _LINE // 2)}"
    then = "holdfast resume, then " if known.core.status == "paused" else ""
    yield _NEEDED, f"   Next step: {then}{short(next_step(known.state), _next(known))}"


def _urgent(known: Known) -> Iterator[_Line]:
    """What nobody may miss; as many as the budget bears, and how many more there are."""
    lines = warnings(known)
    shown = lines[: max(1, known.budget // 100)]
    for line in shown:
        yield _NEEDED, f"   ⚠️  {short(line, known.budget // 5)}"
    if len(lines) > len(shown):
        yield _NEEDED, f"   … and {len(lines) - len(shown)} more"


def _next(known: Known) -> int:
    return min(_LINE, known.budget // 7)


def _failed(known: Known, here: Progress) -> Iterator[_Line]:
    number = known.core.phase or 0
    inside = here.timing.inside
    yield _TOLD, f"   {_phase(known, number, -1 if inside is None else inside * 1000)}"
    row = known.state.rows.get("checkpoint", known.core.phase_step(number))
    if not isinstance(row, Checkpoint):
        return
    if row.evidence:
        told = ", ".join(f"{name}={plainly(value)}" for name, value in row.evidence.items())
        yield _MORE, f"      Evidence: {short(told, _LINE)}"
    if row.issue or row.because:
        yield _TOLD, f"      Issue: {short(row.issue or row.because, _LINE)}"


def _timing(known: Known, here: Progress | None) -> Iterator[_Line]:
    core, now = known.core, known.around.now
    if not core.began_at:
        return
    yield _MORE, "⏰ Timing:"
    yield _MORE, f"   Started: {ago((now - core.began_at) / 1000)}"
    yield _MORE, f"   Last updated: {ago((now - core.updated_at) / 1000)}"
    if here is not None and here.timing.estimate is not None and here.timing.remaining:
        yield _MORE, f"   Estimated remaining: ~{long(here.timing.estimate)}"


# -- within the budget -------------------------------------------------------------------------


def _fit(parts: list[list[_Line]], budget: int) -> str:
    """The parts with blank lines between them; what is least worth goes where it is too much."""
    while (over := cost(_text(parts)) - budget) > 0:
        worst = max(value for part in parts for value, _ in part)
        if worst == _NEEDED:
            return f"{clip(_text(parts), budget - 2, cost)}\n"
        _drop(parts, worst, over)
    return _text(parts)


def _drop(parts: list[list[_Line]], worst: int, over: int) -> None:
    """Take out lines of the lowest value, from above for phases, until so much is saved."""
    for part in parts if worst == _LEAST else reversed(parts):
        while over > 0 and (at := _place(part, worst)) is not None:
            over -= cost(part.pop(at)[1] + "\n")
            if worst == _LEAST:
                _count_earlier(part)
    parts[:] = [part for part in parts if _says_something(part)]


def _place(part: list[_Line], worst: int) -> int | None:
    found = [at for at, (value, _) in enumerate(part) if value == worst]
    if not found:
        return None
    return found[0] if worst == _LEAST else found[-1]


def _count_earlier(part: list[_Line]) -> None:
    """Say how many completed phases are not shown."""
    before = 0
    if len(part) > 1 and part[1][1].startswith("   … and "):
        before = int(part.pop(1)[1].split()[2])
    part.insert(1, (_TOLD, f"   … and {before + 1} earlier"))


def _says_something(part: list[_Line]) -> bool:
    return bool(part) and not (len(part) == 1 and part[0][1].endswith(":"))


def _text(parts: list[list[_Line]]) -> str:
    return "\n\n".join("\n".join(line for _, line in part) for part in parts) + "\n"
