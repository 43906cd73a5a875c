"""Revisit: what going back to an earlier step means for the work that came after it.

An *output* is a file that a step made: as it was when it was kept, and as it is now. Their
difference gives *signals*, each with an *impact* and a reason in words; a layout that knows its
files adds better ones than words alone can. The largest impact is the proposal:

    minor       the substance of later work is not affected: it is flagged for review
    moderate    some of it is: what is affected is archived as a version and flagged
    major       the direction changes: all of it is archived and begins anew

Everything here is a proposal for a person, who may choose another impact.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from forestay.model.state import Checkpoint, State, Step, number_of

IMPACTS = ("minor", "moderate", "major")
REWORDED, REWRITTEN = 0.8, 0.4
"""From which likeness on a text counts as reworded, and below which as another text."""
_WORDS = 2000
_PAIRS = 20_000
_LINES = 8000
_TEXT = 1 << 20
_DIFF = 200
_HEADING = re.compile(r"#{1,6} +(\S.*)")


class Signal(Struct, frozen=True):
    """One thing that a change says. `sections` are those it is about; none means all."""

    impact: str
    reason: str
    sections: list[int] = []


class Output(Struct, frozen=True):
    """A file of the step that is revisited: kept text and text now, None where there is none."""

    path: str
    old: str | None = None
    new: str | None = None
    signals: list[Signal] = []
    """What a layout makes of it; where there is nothing, the words are compared."""

    @property
    def changed(self) -> bool:
        return self.old is not None and self.old != self.new


class Later(Struct, frozen=True):
    """A step that comes after: what it made, and which sections that is about (none: all)."""

    step: str
    status: str
    files: list[str] = []
    sections: list[int] = []


class Assessment(Struct, frozen=True):
    """What a revisit would do. Nothing of it has happened."""

    step: str
    proposed: str
    impact: str
    reasons: list[str]
    diff: list[str]
    review: list[str]
    reset: list[str]
    archive: list[str]
    changed: list[str]
    """Outputs of the step itself that differ from what was kept: the old ones become versions."""


def assess(
    step: str,
    outputs: Sequence[Output],
    later: Sequence[Later],
    *,
    impact: str = "",
    in_order: bool = False,
) -> Assessment:
    """The proposal, or what another `impact` would do.

    With `in_order` no later step can stay as it is while an earlier one is at work.
    """
    signals = [signal for output in outputs for signal in _signals(output)]
    proposed = max((s.impact for s in signals), key=IMPACTS.index, default="minor")
    chosen = impact or proposed
    reasons = [s.reason for s in signals if s.impact == proposed] or ["it has no output to compare"]
    touched = _affected(signals, later, chosen)
    reset = _reset(later, chosen, in_order=in_order)
    flagged = _review(later, touched, chosen, in_order=in_order)
    return Assessment(
        step=step,
        proposed=proposed,
        impact=chosen,
        reasons=list(dict.fromkeys(reasons)),
        diff=[line for output in outputs if output.changed for line in diff(output)],
        review=[step for step in flagged if step not in reset],
        reset=reset,
        archive=[] if chosen == "minor" else [f for one in touched for f in one.files],
        changed=[output.path for output in outputs if output.changed],
    )


def _affected(signals: Iterable[Signal], later: Sequence[Later], impact: str) -> list[Later]:
    """Later steps that a change is about; for the extremes all of them."""
    about = [s for s in signals if s.impact != "minor"]
    if impact != "moderate" or not about or any(not s.sections for s in about):
        return list(later)
    sections = {number for s in about for number in s.sections}
    return [one for one in later if not one.sections or sections.intersection(one.sections)]


def _review(
    later: Sequence[Later], touched: Sequence[Later], impact: str, *, in_order: bool
) -> list[str]:
    if impact == "major":
        return []
    flagged = later if in_order else touched
    return [one.step for one in flagged if one.step and one.status == "done"]


def _reset(later: Sequence[Later], impact: str, *, in_order: bool) -> list[str]:
    begun = [one for one in later if one.step and one.status not in ("pending", "skipped")]
    if impact == "major":
        return [one.step for one in begun]
    # The one that was reached has to be reached again, whatever became of it.
    reached = [one for one in begun if one.status != "done"] or begun[-1:]
    return [one.step for one in reached if in_order]


# -- what a change says --------------------------------------------------------------------------


def _signals(output: Output) -> list[Signal]:
    if output.old is None:
        told = "is there for the first time" if output.new else "was never kept"
        return [Signal("minor", f"{output.path} {told}, so there is nothing to compare")]
    if output.new is None:
        return [Signal("major", f"{output.path} is gone")]
    if output.old == output.new:
        return [Signal("minor", f"{output.path} is as it was")]
    return output.signals or [*_headings(output.old, output.new), by_words(output)]


def by_words(output: Output) -> Signal:
    """How much of a text is another one now."""
    alike = likeness(output.old or "", output.new or "")
    told = f"{output.path} is {round(alike * 100)}% as it was"
    if alike >= REWORDED:
        return Signal("minor", f"{told}: reworded")
    if alike >= REWRITTEN:
        return Signal("moderate", f"{told}: rewritten in part")
    return Signal("major", f"{told}: another text")


def _headings(old: str, new: str) -> list[Signal]:
    then, now = headings(old), headings(new)
    gone, added = [h for h in then if h not in now], [h for h in now if h not in then]
    if not gone and not added:
        return []
    told = [f"without {h!r}" for h in gone[:3]] + [f"new: {h!r}" for h in added[:3]]
    most = len(gone) * 2 > len(then) > 1
    return [Signal("major" if most else "moderate", f"the headings changed ({', '.join(told)})")]


def headings(text: str) -> list[str]:
    """Headings of a text in Markdown, in order, cut to a readable length."""
    found = (_HEADING.match(line) for line in text[:_TEXT].splitlines())
    return [match[1].strip()[:60] for match in found if match]


def likeness(old: str, new: str) -> float:
    """How alike two texts are, from 0 to 1; of long ones by which words they use."""
    a, b = _words(old), _words(new)
    if a == b:
        return 1.0
    then, now = Counter(a), Counter(b)
    # What comparing in order would cost: every pair of equal words, again and again.
    pairs = sum(count * now[word] for word, count in then.items())
    if len(a) + len(b) > _WORDS or pairs > _PAIRS:
        return 2 * sum((then & now).values()) / (len(a) + len(b))
    return difflib.SequenceMatcher(None, a, b, autojunk=False).ratio()


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text[:_TEXT].casefold())


def diff(output: Output) -> list[str]:
    """The change line by line, as `diff -u` shows it; a long one is cut, and says so."""
    old, new = ((text or "")[:_TEXT].splitlines() for text in (output.old, output.new))
    if len(old) + len(new) > _LINES:
        return [f"{output.path}: {len(old)} lines then, {len(new)} now; too long to be compared"]
    lines = list(
        difflib.unified_diff(old, new, f"{output.path} (kept)", f"{output.path} (now)", lineterm="")
    )
    more = len(lines) - _DIFF
    return [*lines[:_DIFF], f"… and {more} more lines"] if more > 0 else lines


# -- which steps come after ----------------------------------------------------------------------


def later_steps(state: State, step: str) -> list[Step]:
    """Steps after this one: of later phases or stages, else those that came up after it."""
    rows = [row for row in state.rows.select("step") if isinstance(row, Step)]
    known = {row.id: row for row in rows}
    place = _place(known, step)
    if place is None:
        rank = known[step].rank
        return [r for r in rows if r.rank > rank and not _is_below(known, r.id, step)]
    places = {row.id: _place(known, row.id) for row in rows}
    return [row for row in rows if (at := places[row.id]) is not None and at > place]


def _place(known: dict[str, Step], step: str) -> int | None:
    """The number of the phase or stage that a step is, or lies in."""
    for _ in range(8):
        number = number_of(step.partition("/")[0])
        row = known.get(step)
        if number is not None or row is None or not row.parent:
            return number
        step = row.parent
    return None


def _is_below(known: dict[str, Step], step: str, above: str) -> bool:
    row = known.get(step)
    for _ in range(8):
        if row is None or not row.parent:
            return False
        if row.parent == above:
            return True
        row = known.get(row.parent)
    return False


def verdicts_of(state: State, steps: Iterable[str]) -> list[str]:
    """Those of some steps whose checkpoint was passed, and would have to be passed again."""
    found = ((step, state.rows.get("checkpoint", step)) for step in steps)
    words = ("passed", "overridden")
    return [step for step, row in found if isinstance(row, Checkpoint) and row.verdict in words]
