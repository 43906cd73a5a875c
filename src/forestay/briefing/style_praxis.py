"""The resume display of the phased-workflow document, line for line (S1-99 to S1-116).

Indents are 3 and 6 spaces, and no line ends in blanks. A failed phase is not among the completed
ones: it is under the status, before the next step, together with urgent facts that S1
does not provide for. If the budget is too small, lines are dropped by their value; of the completed
phases the oldest are dropped first, and counted.
"""

from __future__ import annotations

from collections.abc import Iterator

from forestay.briefing.render import clip
from forestay.briefing.sections import BriefingInput, adoption_limits, evidence_text, percent
from forestay.briefing.style_orchestrator import shorten_to_cost, warnings
from forestay.briefing.token_estimate import ONCE, cost
from forestay.model.state import Checkpoint, Edit, Step
from forestay.model.summary import next_step, plan, progress
from forestay.model.timing import Progress, ago, brief, long

_LINE = 60
_ID = 64
"""Tokens for an id, enough for the longest one."""
_MOST = 200
_NEEDED, _IMPORTANT, _OPTIONAL, _LEAST = range(4)
"""The value of a line: never dropped, dropped late, dropped early, dropped first."""

_MARKS = {
    "passed": " ✅ Checkpoint PASSED",
    "overridden": " ⚠️  Checkpoint OVERRIDDEN",
    "failed": " ❌ Checkpoint FAILED",
    "skipped": " ⏭️  Checkpoint SKIPPED",
}

_Line = tuple[int, str]


def render_praxis(known: BriefingInput) -> str:
    """Return the resume display of specification S1, within the budget."""
    here = _progress(known)
    parts = [
        list(_head(known)),
        list(_where(known, here)),
        list(_completed(known, here)),
        list(_status(known, here)),
        list(_timing(known, here)),
    ]
    return _fit([part for part in parts if part], known.budget - ONCE)


def _progress(known: BriefingInput) -> Progress | None:
    if not known.core.is_phased:
        return None
    return Progress(plan(known.state), known.around.now, status=known.core.status)


# -- its parts ---------------------------------------------------------------------------------


def _head(known: BriefingInput) -> Iterator[_Line]:
    core = known.core
    limit = min(_ID, known.budget // 8)
    name = shorten_to_cost(core.workflow or "no workflow", limit)
    yield _NEEDED, f"📋 Session {shorten_to_cost(core.session, limit)}: {name}"
    if core.plan_target:
        yield (
            _IMPORTANT,
            f"   Target: {shorten_to_cost(core.plan_target, min(2 * _LINE, known.budget // 5))}",
        )
    edits: list[Edit] = known.newest("edit", Edit)
    for warning in dict.fromkeys(filter(None, map(adoption_limits, edits))):
        yield _IMPORTANT, f"   ⚠️  {shorten_to_cost(warning, _LINE // 2)}"


def _where(known: BriefingInput, here: Progress | None) -> Iterator[_Line]:
    if here is None:
        yield _NEEDED, f"🎯 Progress: {round(progress(known.state)[0] * 100)}% complete"
        return
    core, timing = known.core, here.timing
    of = "" if core.plan_total is None else f" of {core.plan_total}"
    share = "" if timing.percent is None else f" ({timing.percent}% complete)"
    yield _NEEDED, f"🎯 Progress: Phase {core.phase}{of}{share}"
    if here.since is not None:
        yield _IMPORTANT, f"   Current: Phase {core.phase} (started {ago(here.since)})"
    if (step := _running_task(known)) is not None:
        text = f"{shorten_to_cost(step.id, 10)}: {shorten_to_cost(step.title, _LINE // 2)}"
        yield _IMPORTANT, f"   Task: {text}{percent(step.fraction)}"
    if timing.average is not None:
        yield _OPTIONAL, f"   Average phase time: {long(timing.average)}"
        if timing.inside is not None and timing.inside > timing.average:
            yield _OPTIONAL, "   ⚠️  Current phase taking longer than average"


def _running_task(known: BriefingInput) -> Step | None:
    """Return the running task inside the current phase."""
    if not known.state.count("step.running"):
        return None
    phase = known.core.phase_step(known.core.phase or 0)
    rows: list[Step] = known.open_rows("step", Step)
    return next((row for row in rows if row.status == "running" and row.parent == phase), None)


def _completed(known: BriefingInput, here: Progress | None) -> Iterator[_Line]:
    numbers = here.done if here else []
    if not numbers:
        return
    yield _IMPORTANT, "✅ Completed Phases:"
    if len(numbers) > _MOST:
        yield _IMPORTANT, f"   … and {len(numbers) - _MOST} earlier"
    for number in numbers[-_MOST:]:
        yield _LEAST, f"   {_phase(known, number, known.core.phases_done.get(number, -1))}"


def _phase(known: BriefingInput, number: int, spent: float) -> str:
    step = known.state.step(known.core.phase_step(number))
    name = shorten_to_cost(step.title, _LINE // 3) if step else ""
    named = f": {name}" if name and name != f"Phase {number}" else ""
    took = f" ({brief(spent / 1000)})" if spent >= 0 else ""
    mark = _MARKS.get(known.core.phase_verdicts.get(number, ""), "")
    return f"Phase {number}{named}{took}{mark}"


def _status(known: BriefingInput, here: Progress | None) -> Iterator[_Line]:
    word = here.standing if here else known.core.status or "created"
    yield _NEEDED, f"🔄 Current Status: {word}"
    if here is not None and here.failed:
        yield from _failed(known, here)
    yield from _urgent(known)
    if known.core.status == "paused":
        reason = known.core.pause_context or known.core.pause_reason.replace("_", " ")
        yield _IMPORTANT, f"   Paused: {shorten_to_cost(reason, _LINE // 2)}"
    limit = min(_LINE, known.budget // 7)
    then = "forestay resume, then " if known.core.status == "paused" else ""
    yield _NEEDED, f"   Next step: {then}{shorten_to_cost(next_step(known.state), limit)}"


def _urgent(known: BriefingInput) -> Iterator[_Line]:
    """Yield urgent lines, as many as the budget allows, and how many more there are."""
    lines = warnings(known)
    shown = lines[: max(1, known.budget // 100)]
    for line in shown:
        yield _NEEDED, f"   ⚠️  {shorten_to_cost(line, known.budget // 5)}"
    if len(lines) > len(shown):
        yield _NEEDED, f"   … and {len(lines) - len(shown)} more"


def _failed(known: BriefingInput, here: Progress) -> Iterator[_Line]:
    number = known.core.phase or 0
    inside = here.timing.inside
    yield _IMPORTANT, f"   {_phase(known, number, -1 if inside is None else inside * 1000)}"
    row = known.state.rows.get("checkpoint", known.core.phase_step(number))
    if not isinstance(row, Checkpoint):
        return
    if row.evidence:
        text = ", ".join(f"{name}={evidence_text(value)}" for name, value in row.evidence.items())
        yield _OPTIONAL, f"      Evidence: {shorten_to_cost(text, _LINE)}"
    if row.issue or row.because:
        yield _IMPORTANT, f"      Issue: {shorten_to_cost(row.issue or row.because, _LINE)}"


def _timing(known: BriefingInput, here: Progress | None) -> Iterator[_Line]:
    core, now = known.core, known.around.now
    if not core.began_at:
        return
    yield _OPTIONAL, "⏰ Timing:"
    yield _OPTIONAL, f"   Started: {ago((now - core.began_at) / 1000)}"
    yield _OPTIONAL, f"   Last updated: {ago((now - core.updated_at) / 1000)}"
    if here is not None and here.timing.estimate is not None and here.timing.remaining:
        yield _OPTIONAL, f"   Estimated remaining: ~{long(here.timing.estimate)}"


# -- within the budget -------------------------------------------------------------------------


def _fit(parts: list[list[_Line]], budget: int) -> str:
    """Return the parts with blank lines between them; drop the least valuable lines if needed."""
    while (over := cost(_text(parts)) - budget) > 0:
        worst = max(value for part in parts for value, _ in part)
        if worst == _NEEDED:
            return f"{clip(_text(parts), budget - 2, cost)}\n"
        _drop(parts, worst, over)
    return _text(parts)


def _drop(parts: list[list[_Line]], worst: int, over: int) -> None:
    """Remove lines of the value `worst` until `over` tokens are saved; the oldest phases first."""
    for part in parts if worst == _LEAST else reversed(parts):
        while over > 0 and (at := _find_line(part, worst)) is not None:
            over -= cost(part.pop(at)[1] + "\n")
            if worst == _LEAST:
                _count_earlier(part)
    parts[:] = [part for part in parts if part and (len(part) > 1 or not part[0][1].endswith(":"))]


def _find_line(part: list[_Line], worst: int) -> int | None:
    found = [at for at, (value, _) in enumerate(part) if value == worst]
    if not found:
        return None
    return found[0] if worst == _LEAST else found[-1]


def _count_earlier(part: list[_Line]) -> None:
    """Update the line that counts the completed phases not shown."""
    before = 0
    if len(part) > 1 and part[1][1].startswith("   … and "):
        before = int(part.pop(1)[1].split()[2])
    part.insert(1, (_IMPORTANT, f"   … and {before + 1} earlier"))


def _text(parts: list[list[_Line]]) -> str:
    return "\n\n".join("\n".join(line for _, line in part) for part in parts) + "\n"
