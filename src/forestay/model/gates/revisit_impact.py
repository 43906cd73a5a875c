"""Assess how a revisit of an earlier step affects the work after it.

An *output* is a file that a step made: as it was recorded, and as it is now. The difference gives
*signals*, each with an *impact* and a reason for people; a format that knows its files adds better
ones than a comparison of words. The largest impact is the proposal:

    minor       the substance of later work is not affected: it is marked for review
    moderate    some of it is: that part is archived as a version and marked for review
    major       the direction changes: all of it is archived and begins again

Everything here is a proposal for a person, who may choose another impact.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from forestay.model.state import Checkpoint, State, Step, number_of

IMPACTS = ("minor", "moderate", "major")
REWORDED, REWRITTEN = 0.8, 0.4
"""From the first similarity on, a text counts as reworded; below the second, as another text."""
_WORDS = 2000
_PAIRS = 20_000
_LINES = 8000
_TEXT = 1 << 20
_DIFF = 200
_HEADING = re.compile(r"#{1,6} +(\S.*)")


class Signal(Struct, frozen=True):
    """One consequence of a change. `sections` are those it affects; none means all."""

    impact: str
    reason: str
    sections: list[int] = []


class Output(Struct, frozen=True):
    """A file of the revisited step: recorded text and present text, None if there is none."""

    path: str
    old: str | None = None
    new: str | None = None
    signals: list[Signal] = []
    """Signals of the format; without any, the words are compared."""

    @property
    def changed(self) -> bool:
        return self.old is not None and self.old != self.new


class Later(Struct, frozen=True):
    """A later step: its files, and the sections these are about (none means all)."""

    step: str
    status: str
    files: list[str] = []
    sections: list[int] = []


class Assessment(Struct, frozen=True):
    """What a revisit would do; nothing is done yet."""

    step: str
    proposed: str
    impact: str
    reasons: list[str]
    diff: list[str]
    review: list[str]
    reset: list[str]
    archive: list[str]
    changed: list[str]
    """Outputs of the step itself that differ from the recorded ones, which become versions."""


def assess(
    step: str,
    outputs: Sequence[Output],
    later: Sequence[Later],
    *,
    impact: str = "",
    in_order: bool = False,
) -> Assessment:
    """Return the proposal, or what another `impact` would do.

    With `in_order` no later step can stay unchanged while an earlier one is running.
    """
    signals = [signal for output in outputs for signal in _signals(output)]
    proposed = max((s.impact for s in signals), key=IMPACTS.index, default="minor")
    chosen = impact or proposed
    reasons = [s.reason for s in signals if s.impact == proposed] or [
        "the step has no output to compare"
    ]
    touched = _affected(signals, later, chosen)
    reset = _reset(later, chosen, in_order=in_order)
    flagged = [] if chosen == "major" else later if in_order else touched
    return Assessment(
        step=step,
        proposed=proposed,
        impact=chosen,
        reasons=list(dict.fromkeys(reasons)),
        diff=[line for output in outputs if output.changed for line in diff(output)],
        review=[
            one.step for one in flagged if one.status == "done" and one.step not in ("", *reset)
        ],
        reset=reset,
        archive=[] if chosen == "minor" else [f for one in touched for f in one.files],
        changed=[output.path for output in outputs if output.changed],
    )


def _affected(signals: Iterable[Signal], later: Sequence[Later], impact: str) -> list[Later]:
    """Return the later steps that a change affects; all of them unless the impact is moderate."""
    about = [s for s in signals if s.impact != "minor"]
    if impact != "moderate" or not about or any(not s.sections for s in about):
        return list(later)
    sections = {number for s in about for number in s.sections}
    return [one for one in later if not one.sections or sections.intersection(one.sections)]


def _reset(later: Sequence[Later], impact: str, *, in_order: bool) -> list[str]:
    begun = [one for one in later if one.step and one.status not in ("pending", "skipped")]
    if impact == "major":
        return [one.step for one in begun]
    # The step that was current has to be reached again, whatever its status.
    reached = [one for one in begun if one.status != "done"] or begun[-1:]
    return [one.step for one in reached if in_order]


# -- signals of a change --------------------------------------------------------------------------


def _signals(output: Output) -> list[Signal]:
    if output.old is None:
        why = "is new" if output.new else "was never recorded"
        return [Signal("minor", f"{output.path} {why}, so there is nothing to compare")]
    if output.new is None:
        return [Signal("major", f"{output.path} is gone")]
    if output.old == output.new:
        return [Signal("minor", f"{output.path} is as it was")]
    return output.signals or [*_headings(output.old, output.new), compare_words(output)]


def compare_words(output: Output) -> Signal:
    """Return a signal for the share of words that changed."""
    alike = likeness(output.old or "", output.new or "")
    share = f"{output.path} is {round(alike * 100)}% as it was"
    if alike >= REWORDED:
        return Signal("minor", f"{share}: reworded")
    if alike >= REWRITTEN:
        return Signal("moderate", f"{share}: rewritten in part")
    return Signal("major", f"{share}: another text")


def _headings(old: str, new: str) -> list[Signal]:
    then, now = headings(old), headings(new)
    gone, added = [h for h in then if h not in now], [h for h in now if h not in then]
    if not gone and not added:
        return []
    changes = [f"without {h!r}" for h in gone[:3]] + [f"new: {h!r}" for h in added[:3]]
    most = len(gone) * 2 > len(then) > 1
    return [Signal("major" if most else "moderate", f"the headings changed ({', '.join(changes)})")]


def headings(text: str) -> list[str]:
    """Return the headings of a Markdown text, in order, cut to a readable length."""
    found = (_HEADING.match(line) for line in text[:_TEXT].splitlines())
    return [match[1].strip()[:60] for match in found if match]


def likeness(old: str, new: str) -> float:
    """Return how similar two texts are, from 0 to 1; long ones are compared without word order."""
    a, b = _words(old), _words(new)
    if a == b:
        return 1.0
    then, now = Counter(a), Counter(b)
    # A comparison in order costs time for every pair of equal words.
    pairs = sum(count * now[word] for word, count in then.items())
    if len(a) + len(b) > _WORDS or pairs > _PAIRS:
        return 2 * sum((then & now).values()) / (len(a) + len(b))
    return difflib.SequenceMatcher(None, a, b, autojunk=False).ratio()


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text[:_TEXT].casefold())


def diff(output: Output) -> list[str]:
    """Return the change as `diff -u` shows it; a long one is cut, and the rest counted."""
    old, new = ((text or "")[:_TEXT].splitlines() for text in (output.old, output.new))
    if len(old) + len(new) > _LINES:
        return [f"{output.path}: {len(old)} lines then, {len(new)} now; too long to be compared"]
    lines = list(
        difflib.unified_diff(
            old, new, f"{output.path} (recorded)", f"{output.path} (now)", lineterm=""
        )
    )
    more = len(lines) - _DIFF
    return [*lines[:_DIFF], f"… and {more} more lines"] if more > 0 else lines


# -- which steps come after ----------------------------------------------------------------------


def later_steps(state: State, step: str) -> list[Step]:
    """Return the steps after this one: of later phases or stages, or else those added after it."""
    rows = [row for row in state.rows.select("step") if isinstance(row, Step)]
    known = {row.id: row for row in rows}
    place = _place(known, step)
    if place is None:
        rank = known[step].rank
        return [r for r in rows if r.rank > rank and step not in _with_parents(known, r.id)]
    places = {row.id: _place(known, row.id) for row in rows}
    return [row for row in rows if (at := places[row.id]) is not None and at > place]


def _with_parents(known: dict[str, Step], step: str) -> Iterator[str]:
    """Yield a step and the steps around it, from the inside out."""
    for _ in range(8):
        yield step
        row = known.get(step)
        if row is None or not row.parent:
            return
        step = row.parent


def _place(known: dict[str, Step], step: str) -> int | None:
    """Return the number of the phase or stage that a step is, or is inside of."""
    numbers = (number_of(each.partition("/")[0]) for each in _with_parents(known, step))
    return next((number for number in numbers if number is not None), None)


def passed_checkpoints(state: State, steps: Iterable[str]) -> list[str]:
    """Return those of some steps whose checkpoint was passed, and must be passed again."""
    found = ((step, state.rows.get("checkpoint", step)) for step in steps)
    words = ("passed", "overridden")
    return [step for step, row in found if isinstance(row, Checkpoint) and row.verdict in words]
