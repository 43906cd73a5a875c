"""Read fields of JSON session files into facts, and write back the facts that differ.

A *kind* reads a value of a file into a fact (a wrong value into an empty fact) and writes a fact as
such a value. A *field* connects a kind with a key and the name of the fact. `put_fields` changes a
value only if its meaning changes, so unusual spellings of the same value are preserved.

Elements of lists are paired with facts before they are written: units by id or title, log entries
by their words and times. Elements that cannot be read are never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from operator import attrgetter, is_
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from msgspec.structs import replace

from forestay.base.hashing import digest_of
from forestay.formats import diff, timestamps
from forestay.formats.coerce import LARGEST, Node, mapping, sequence, text
from forestay.formats.diff import Key, Pass, both, pair
from forestay.formats.facts import AgentFact, Facts, StepFact, with_stated_times
from forestay.formats.port import Where
from forestay.formats.status_words import session_status, session_word

_T = TypeVar("_T")


class _Drop:
    """The `blank` of a field whose key is removed when the fact is empty."""


DROP = _Drop()


# --- plain values ------------------------------------------------------------------------------


def number(value: Any) -> float | None:
    """Return a number within the exact range of JSON; None for anything else, booleans included."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) <= LARGEST else None


def alike(one: Any, other: Any) -> bool:
    """Return whether two values are the same, including the order of keys."""
    return one is other or diff.identical(one, other)


def main(files: Mapping[str, Any], *wanted: str) -> tuple[str, Any]:
    """Return the name and value of a tree's main file: one of `wanted`, else the first file."""
    names = [*(name for name in wanted if name in files), *files]
    return (names[0], files[names[0]]) if names else ("", None)


def insert(into: Node, key: str, value: Any, order: Sequence[str]) -> None:
    """Set a key; insert a new one after the keys that come before it in `order`."""
    if key in into or key not in order:
        into[key] = value
        return
    before = [name for name in order[: order.index(key)] if name in into]
    rest = list(into.items())
    at = list(into).index(before[-1]) + 1 if before else 0
    into.clear()
    into.update([*rest[:at], (key, value), *rest[at:]])


# --- kinds -------------------------------------------------------------------------------------


class Kind(Protocol):
    def read(self, value: Any, where: Where) -> Any:
        """Return the fact in a value of the file; None, "" or [] if the value is invalid."""
        ...

    def write(self, fact: Any, old: Any, where: Where) -> Any: ...


class Text(NamedTuple):
    """A text; `unsaid` is the text in the file that stands for an empty one."""

    unsaid: str = ""

    def read(self, value: Any, where: Where) -> str:
        return "" if value == self.unsaid else text(value)

    def write(self, fact: str, old: Any, where: Where) -> str:
        return fact or self.unsaid


class Stamp(NamedTuple):
    milliseconds: bool = False

    def read(self, value: Any, where: Where) -> int | None:
        return timestamps.read(value, where.naive)

    def write(self, fact: int, old: Any, where: Where) -> str:
        return timestamps.write(fact, old, milliseconds=self.milliseconds, naive=where.naive)


class Count(NamedTuple):
    """A whole number of at least 0; 3.0 counts as a whole number, as in JSON."""

    def read(self, value: Any, where: Where) -> int | None:
        found = number(value)
        return int(found) if found is not None and found >= 0 and found == int(found) else None

    def write(self, fact: int, old: Any, where: Where) -> int:
        return fact


class Share(NamedTuple):
    """A fraction; `whole` is the number that stands for 1 in the file: 100 for percents."""

    whole: int = 1

    def read(self, value: Any, where: Where) -> float | None:
        found = number(value)
        return found / self.whole if found is not None and 0 <= found <= self.whole else None

    def write(self, fact: float, old: Any, where: Where) -> float:
        share = min(max(fact, 0.0), 1.0)
        return float(share) if self.whole == 1 else round(share * self.whole)


class Names(NamedTuple):
    """A list of texts; elements of other types are preserved at its end."""

    def read(self, value: Any, where: Where) -> list[str]:
        return [each for each in sequence(value) if isinstance(each, str)]

    def write(self, fact: list[str], old: Any, where: Where) -> list[Any]:
        return [*fact, *(each for each in sequence(old) if not isinstance(each, str))]


TEXT, COUNT, FRACTION, PERCENT, NAMES = Text(), Count(), Share(), Share(100), Names()
SECONDS, MILLISECONDS = Stamp(), Stamp(True)


class Field(NamedTuple):
    """A fact and its key in a file. `keys` are spellings of the key, the specified one first.

    `blank` is written for an empty fact. A `sticky` field is not changed by an empty fact. A field
    that is not `own` is used only if the file already has its key.
    """

    fact: str
    keys: tuple[str, ...]
    kind: Kind
    blank: Any = None
    sticky: bool = False
    own: bool = True

    def key(self, of: Node) -> str:
        if len(self.keys) == 1:
            return self.keys[0]
        return next((key for key in self.keys if key in of), self.keys[0])


def get_fields(of: Node, fields: Iterable[Field], where: Where) -> dict[str, Any]:
    return {f.fact: f.kind.read(of.get(f.key(of)), where) for f in fields}


def put_fields(
    into: Node, facts: Any, fields: Iterable[Field], where: Where, order: Sequence[str]
) -> None:
    for field in fields:
        if field.own or field.key(into) in into:
            put_field(into, field, getattr(facts, field.fact), where, order)


def put_field(into: Node, field: Field, fact: Any, where: Where, order: Sequence[str]) -> None:
    key, kind = field.key(into), field.kind
    old = into.get(key)
    stated, empty = kind.read(old, where), fact is None or fact == "" or fact == []
    if stated == fact or (empty and field.sticky):
        return
    new = field.blank if empty else kind.write(fact, old, where)
    if isinstance(new, _Drop):
        into.pop(key, None)
    elif key not in into or kind.read(new, where) != stated:
        insert(into, key, new, order)


def put_latest(
    into: Node, field: Field, moment: int | None, where: Where, order: Sequence[str]
) -> None:
    """Write a time unless the file has a later one."""
    stated = field.kind.read(into.get(field.key(into)), where)
    latest = max((at for at in (stated, moment) if at is not None), default=None)
    put_field(into, field, latest, where, order)


def put_machine_value(
    into: Node, field: Field, fact: str, here: str, where: Where, order: Sequence[str]
) -> None:
    """Write a value that depends on the machine: the fact, else `here` if the file has a value.

    A file without a value stays without one, so that writing its own facts changes nothing.
    """
    stated = field.kind.read(into.get(field.key(into)), where)
    put_field(into, field, fact or (here if stated else ""), where, order)


def put_section(root: Node, key: str, put: Callable[[Node], None], order: Sequence[str]) -> None:
    """Change an object inside another; create it if `put` adds anything to it."""
    inner = dict(mapping(root.get(key)))
    put(inner)
    if inner and not alike(root.get(key), inner):
        insert(root, key, inner, order)


# --- lists -------------------------------------------------------------------------------------


def by_name(name: str) -> list[Pass]:
    """Return passes that pair elements by one attribute that both sides have."""
    return both(attrgetter(name))


def match_by_time(words: Key) -> list[Pass]:
    """Return passes that pair log entries by words and time, or by words if one side has no time.

    A time in whole seconds equals any time within that second.
    """

    def with_time(moment: Key) -> Key:
        return lambda each: None if (at := moment(each)) is None else (words(each), at)

    def without_time(each: Any) -> Hashable:
        return words(each) if each.at is None else None

    within = (with_time(_whole_second), with_time(_second))
    exact = both(lambda each: (words(each), each.at))
    return [*exact, within, (without_time, words), (words, without_time)]


def reworded() -> list[Pass]:
    """Return passes that pair log entries by time alone, because their words can be edited."""
    return [*both(attrgetter("at")), (_whole_second, _second)]


def _second(each: Any) -> int | None:
    return None if each.at is None else each.at // 1000


def _whole_second(each: Any) -> int | None:
    return None if each.at is None or each.at % 1000 else _second(each)


class Entry(NamedTuple, Generic[_T]):
    """How to read and write the elements of a list.

    `read` returns the fact of an element, or None if it cannot be read. `write` returns an element
    changed to a fact, or a new element if there was none. `passes` pair elements with facts.
    Elements of a `log` stay even if they have no fact.
    """

    read: Callable[[Any], _T | None]
    write: Callable[[Any, _T], Any]
    passes: Sequence[Pass]
    log: bool = False


def log(
    read: Callable[..., _T | None], write: Any, passes: Sequence[Pass], where: Where, moment: int
) -> Entry[_T]:
    """Return the `Entry` of a log; `moment` is the time of facts that have none."""
    writer = partial(write, where=where, moment=moment)
    return Entry(partial(read, where=where), writer, passes, log=True)


def put_list(
    into: Node,
    key: str,
    order: Sequence[str],
    facts: Sequence[_T],
    entry: Entry[_T],
    *,
    gone: Sequence[_T] = (),
) -> None:
    """Write facts into a list; create it only if there are any.

    Elements of a log are removed only if they are `gone`.
    """
    old = sequence(into.get(key))
    made = _rewritten(old, facts, entry, gone)
    if len(old) != len(made) or not all(map(is_, old, made)):
        insert(into, key, made, order)


def _rewritten(
    old: list[Any], facts: Sequence[_T], entry: Entry[_T], gone: Sequence[_T]
) -> list[Any]:
    """Return a list with paired elements rewritten in place and new ones at the end."""
    stated = [entry.read(element) for element in old]
    pairs = pair(stated, facts, entry.passes)
    rest = [None if at in pairs else each for at, each in enumerate(stated)] if gone else []
    removed = pair(rest, gone, entry.passes)
    made = []
    for at, element in enumerate(old):
        if at in pairs:
            new = entry.write(element, facts[pairs[at]])
            made.append(element if alike(element, new) else new)
        elif (entry.log and at not in removed) or stated[at] is None:
            made.append(element)
    taken = set(pairs.values())
    return made + [entry.write(None, fact) for at, fact in enumerate(facts) if at not in taken]


def read_elements(listed: Any, read: Callable[[Any], _T | None]) -> list[_T]:
    """Return the facts in the elements of a list that can be read."""
    return [fact for each in sequence(listed) if (fact := read(each)) is not None]


# --- what several formats share -----------------------------------------------------------------


ReadAgent = Callable[[Any], AgentFact | None]


def latest_runs(
    listed: Any, read: ReadAgent, written: Iterable[AgentFact] | None = None
) -> ReadAgent:
    """Return a reader of agent entries that skips all but the last entry of each id.

    The others describe earlier runs and stay unchanged. Only if `written` is given and does not
    have the agent, all of its entries are read, so that all are removed.
    """
    last = {text(mapping(each).get("id")): each for each in sequence(listed)}
    gone = set() if written is None else last.keys() - {agent.id for agent in written}

    def read_latest(each: Any) -> AgentFact | None:
        id = text(mapping(each).get("id"))
        return read(each) if last.get(id) is each or id in gone else None

    return read_latest


def titled(steps: Iterable[StepFact]) -> list[StepFact]:
    """Return the steps; one without a title gets its id as title, one without both is dropped."""
    return [s if s.title else replace(s, title=s.id) for s in steps if s.title or s.id]


def get_task(value: Any, status: str = "pending") -> StepFact | None:
    """Return the step that a sentence, or an object with a sentence under `task`, describes."""
    title = text(value.get("task") if isinstance(value, dict) else value)
    return StepFact(title, status=status) if title else None


def _put_task(old: Any, step: StepFact) -> Any:
    return step.title if old is None else old


TASK = Entry(get_task, _put_task, by_name("title"))

DONE = ("done", "skipped")
"""Statuses of steps that count as completed work."""


def progress_of(facts: Facts) -> float:
    """Return the progress of a session: the stated one, else computed from steps, else agents."""
    if facts.progress is not None:
        return facts.progress
    if steps := tasks_in(facts):
        return [step.status in DONE for step in steps].count(True) / len(steps)
    if facts.agents:
        parts = [1.0 if a.status == "done" else a.fraction or 0.0 for a in facts.agents]
        return min(1.0, max(0.0, sum(parts) / len(parts)))
    return 1.0 if facts.status == "completed" else 0.0


def tasks_in(facts: Facts) -> list[StepFact]:
    """Return the steps; without a plan, leave out phases that are only headings of tasks."""
    around = set() if facts.workflow or facts.plan_total else {s.parent for s in facts.steps}
    return [step for step in facts.steps if step.unit != "phase" or step.id not in around]


def with_stated_progress(fact: AgentFact, stated: AgentFact | None) -> AgentFact:
    """Return an agent with the progress in its entry if it is done, else with the entry's times.

    A done agent is complete whatever its entry states, so the stated progress stays unchanged.
    """
    fact = with_stated_times(fact, stated)
    done = stated is not None and stated.status in DONE and fact.status in DONE
    return (
        replace(fact, fraction=stated.fraction)
        if stated and done and fact.fraction == 1.0
        else fact
    )


def put_status(root: Node, id: str, status: str, order: Sequence[str]) -> None:
    """Write the status of a session unless the word in the file already has that meaning."""
    stated, word = (
        session_status(id, text(root.get("status"))) or "active",
        session_word(id, status),
    )
    if status != stated and session_status(id, word) != stated:
        insert(root, "status", word, order)


# --- entire files ------------------------------------------------------------------------------

COMMON = ("session_id", "goal", "status", "agents", "completed_work", "pending_tasks")
"""Keys that identify a session file in every format that lists agents and work."""


def digests(facts: Facts, where: Where) -> Iterator[str]:
    """Yield digests from which an id can be made; a session always gets the same sequence.

    If the id from one digest is in use, the caller uses the next digest.
    """
    seed = f"{facts.goal}\n{facts.began_at}\n{where.now}\n{where.root}\n{facts.native_id}"
    return (digest_of(f"{seed}\n{n}".encode(errors="replace")) for n in count())


def is_session(value: Node) -> bool:
    """Return whether a JSON object has any of the common keys of a session file."""
    return not value.keys().isdisjoint(COMMON)


def put_no_compression(usage: Node, facts: Facts, where: Where) -> None:
    """Clear the time of the last context compression if the facts have no compression."""
    never = facts.compressions == 0 and facts.compressed_at is None
    if never and SECONDS.read(usage.get("last_compression"), where) is not None:
        usage["last_compression"] = None
