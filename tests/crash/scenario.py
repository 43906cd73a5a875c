"""What is put under faults: a scenario, and the rule by which its journal is judged.

A **scenario** writes some events into a home and **acknowledges** each one as soon as the writer
says that it is safe. The rule is the same for every writer: what is found afterwards is a beginning
of what was meant, holds everything acknowledged, and at most one move more (the one in flight).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

Ack = Callable[[str], None]


@dataclass(frozen=True)
class Scenario:
    """Three functions over the path of a home, each called in a process of its own.

    `prepare` makes the home as it was before (it may make none), `run` is what meets the fault,
    `check` says in words what is wrong afterwards; it also writes once more, with no repair.
    `refusals` are the errors by which a writer may say that it did not write. `afresh` brings what
    lies outside of the folder back to where it began: then kills are all that can be tried,
    because no power cut can be played there, and a state cannot be checked twice.
    """

    prepare: Callable[[str], None]
    run: Callable[[str, Ack], None]
    check: Callable[[str, Sequence[str]], list[str]]
    refusals: tuple[type[Exception], ...]
    afresh: Callable[[str], None] | None = None


def judge(meant: Sequence[Sequence[str]], found: Sequence[str], acked: Sequence[str]) -> list[str]:
    """Holds the found events of one journal against the moves that were meant.

    A move is the events that it makes: all of them or none. `acked` lists events.
    """
    problems = [f"acknowledged but lost: {event}" for event in acked if event not in found]
    problems += [f"doubled: {event}" for event in sorted(set(found)) if found.count(event) > 1]
    if list(found) != [event for move in meant for event in move][: len(found)]:
        problems.append(f"not a beginning of what was meant: {_short(found)}")
    ends = [0, *accumulate(map(len, meant))]
    if len(found) not in ends:
        problems.append(f"{len(found)} events are half a move")
    in_flight = [end for end in ends if len(acked) < end <= len(found)]
    if len(in_flight) > 1:
        problems.append(f"{len(found)} events, but only {len(acked)} acknowledged")
    return problems


def _short(found: Sequence[str]) -> str:
    shown = [event[:40] for event in found[-5:]]
    return f"{len(found)} events, the last {shown}"
