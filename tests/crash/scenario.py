"""Define a scenario to run under faults, and the rule by which its journal is judged.

A **scenario** writes some events into a home and **acknowledges** each one as soon as the writer
reports it as safe. The rule is the same for every writer: the journal found afterwards is a prefix
of the intended events, contains every acknowledged one, and at most one more move (in flight).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

Ack = Callable[[str], None]


@dataclass(frozen=True)
class Scenario:
    """Hold three functions over the path of a home, each called in a separate process.

    `prepare` makes the initial home (or none), `run` meets the fault, `check` returns the problems
    found afterwards in words; it also writes one more event, without any repair. `refusals` are
    the errors by which a writer may report that it did not write. `reset` restores state outside
    of the folder to the beginning: then only kills can be tried, because a power cut cannot be
    simulated there, and a state cannot be checked twice.
    """

    prepare: Callable[[str], None]
    run: Callable[[str, Ack], None]
    check: Callable[[str, Sequence[str]], list[str]]
    refusals: tuple[type[Exception], ...]
    reset: Callable[[str], None] | None = None


def judge(
    intended: Sequence[Sequence[str]], found: Sequence[str], acked: Sequence[str]
) -> list[str]:
    """Compare the events found in one journal with the intended moves; return the problems.

    A move is the events that it makes: all of them or none. `acked` lists events.
    """
    problems = [f"acknowledged but lost: {event}" for event in acked if event not in found]
    problems += [f"doubled: {event}" for event in sorted(set(found)) if found.count(event) > 1]
    if list(found) != [event for move in intended for event in move][: len(found)]:
        problems.append(f"not a prefix of the intended events: {_short(found)}")
    ends = [0, *accumulate(map(len, intended))]
    if len(found) not in ends:
        problems.append(f"{len(found)} events are half a move")
    in_flight = [end for end in ends if len(acked) < end <= len(found)]
    if len(in_flight) > 1:
        problems.append(f"{len(found)} events, but only {len(acked)} acknowledged")
    return problems


def _short(found: Sequence[str]) -> str:
    shown = [event[:40] for event in found[-5:]]
    return f"{len(found)} events, the last {shown}"
