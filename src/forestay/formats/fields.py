"""Fields of JSON session files: each read into a fact and written back only where the fact differs.

A *kind* reads a native value (anything wrong reads as "not said") and spells a fact. A *field* ties
a kind to a key and to the name of the fact. `put_fields` leaves a value alone when it already says
the fact, or says all of it that its spelling can hold, so that odd but equal spellings survive.

Lists are paired with facts before they are written: units by id or title, logs by what they say and
when. Elements that nobody can read are never touched.
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
from forestay.formats.facts import AgentFact, Facts, StepFact, with_told_times
from forestay.formats.port import Where
from forestay.formats.status_words import session_status, session_word

_T = TypeVar("_T")


class _Drop:
    """Says that a key is left out rather than blank."""


DROP = _Drop()


# --- plain values ------------------------------------------------------------------------------


def number(value: Any) -> float | None:
    """A number that is no truth value and not beyond all use."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) <= LARGEST else None


def alike(one: Any, other: Any) -> bool:
    """Whether nothing would change, not even the order of keys."""
    return one is other or diff.identical(one, other)


def main(files: Mapping[str, Any], *wanted: str) -> tuple[str, Any]:
    """The session's own file of a tree and its name: one of those wanted, else the first."""
    names = [*(name for name in wanted if name in files), *files]
    return (names[0], files[names[0]]) if names else ("", None)


def insert(into: Node, key: str, value: Any, order: Sequence[str]) -> None:
    """Set a key; a new one comes behind the key that it follows in the document's order."""
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
        """What a native value says; the empty fact (None, "" or []) for anything else."""
        ...

    def write(self, fact: Any, old: Any, where: Where) -> Any: ...


class Text(NamedTuple):
    """Text; `unsaid` is what stands in the file when there is nothing to say."""

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
    """A whole number from 0 on; 3.0 is one too, as JSON has it."""

    def read(self, value: Any, where: Where) -> int | None:
        found = number(value)
        return int(found) if found is not None and found >= 0 and found == int(found) else None

    def write(self, fact: int, old: Any, where: Where) -> int:
        return fact


class Share(NamedTuple):
    """A fraction; `whole` is how the file writes 1, and 100 writes whole percents."""

    whole: int = 1

    def read(self, value: Any, where: Where) -> float | None:
        found = number(value)
        return found / self.whole if found is not None and 0 <= found <= self.whole else None

    def write(self, fact: float, old: Any, where: Where) -> float:
        share = min(max(fact, 0.0), 1.0)
        return float(share) if self.whole == 1 else round(share * self.whole)


class Names(NamedTuple):
    """A list of texts; other elements are kept behind them."""

    def read(self, value: Any, where: Where) -> list[str]:
        return [each for each in sequence(value) if isinstance(each, str)]

    def write(self, fact: list[str], old: Any, where: Where) -> list[Any]:
        return [*fact, *(each for each in sequence(old) if not isinstance(each, str))]


TEXT, COUNT, FRACTION, PERCENT, NAMES = Text(), Count(), Share(), Share(100), Names()
SECONDS, MILLISECONDS = Stamp(), Stamp(True)


class Field(NamedTuple):
    """A fact and where it stands. `keys` are spellings of the key, the document's own first.

    `blank` is written for an empty fact. A `sticky` field is never blanked: an empty fact says
    nothing about it. A field that is not `own` is only used where a file already has its key.
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
    said, empty = kind.read(old, where), fact is None or fact == "" or fact == []
    if said == fact or (empty and field.sticky):
        return
    new = field.blank if empty else kind.write(fact, old, where)
    if isinstance(new, _Drop):
        into.pop(key, None)
    elif key not in into or kind.read(new, where) != said:
        insert(into, key, new, order)


def put_latest(
    into: Node, field: Field, moment: int | None, where: Where, order: Sequence[str]
) -> None:
    """A stamp that never goes back."""
    said = field.kind.read(into.get(field.key(into)), where)
    latest = max((at for at in (said, moment) if at is not None), default=None)
    put_field(into, field, latest, where, order)


def put_place(
    into: Node, field: Field, fact: str, here: str, where: Where, order: Sequence[str]
) -> None:
    """What is true of one machine: what the facts say, else, if the file says another, ours.

    A file that says nothing is left saying nothing: its own facts would ask for no more.
    """
    said = field.kind.read(into.get(field.key(into)), where)
    put_field(into, field, fact or (here if said else ""), where, order)


def put_section(root: Node, key: str, put: Callable[[Node], None], order: Sequence[str]) -> None:
    """Change an object inside another; it is made if there is something to say."""
    inner = dict(mapping(root.get(key)))
    put(inner)
    if inner and not alike(root.get(key), inner):
        insert(root, key, inner, order)


# --- lists -------------------------------------------------------------------------------------


def by_name(name: str) -> list[Pass]:
    """Pairing by one attribute that both sides have."""
    return both(attrgetter(name))


def by_moment(told: Key) -> list[Pass]:
    """Pairing of log entries: the same words at the same moment, or one side knows no moment.

    A file that keeps whole seconds says the same moment as a fact with milliseconds.
    """

    def with_words(moment: Key) -> Key:
        return lambda each: None if (at := moment(each)) is None else (told(each), at)

    def timeless(each: Any) -> Hashable:
        return told(each) if each.at is None else None

    within = (with_words(_whole_second), with_words(_second))
    exact = both(lambda each: (told(each), each.at))
    return [*exact, within, (timeless, told), (told, timeless)]


def reworded() -> list[Pass]:
    """Pairing of what is left of log entries whose words may be changed: those of one moment."""
    return [*both(attrgetter("at")), (_whole_second, _second)]


def _second(each: Any) -> int | None:
    return None if each.at is None else each.at // 1000


def _whole_second(each: Any) -> int | None:
    return None if each.at is None or each.at % 1000 else _second(each)


class Entry(NamedTuple, Generic[_T]):
    """What a list is of: how an element is read (None: nobody can), how a fact is written over one
    (None: it is new), and by what both are known. A `log` keeps what no fact speaks of."""

    read: Callable[[Any], _T | None]
    write: Callable[[Any, _T], Any]
    passes: Sequence[Pass]
    log: bool = False


def log(
    read: Callable[..., _T | None], write: Any, passes: Sequence[Pass], where: Where, moment: int
) -> Entry[_T]:
    """What a log is of; `moment` is when happened what has no time of its own."""
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
    """Write the facts into a list, which is created only if there are any.

    Elements of a log are removed only if they are `gone`.
    """
    old = sequence(into.get(key))
    made = _rewritten(old, facts, entry, gone)
    if len(old) != len(made) or not all(map(is_, old, made)):
        insert(into, key, made, order)


def _rewritten(
    old: list[Any], facts: Sequence[_T], entry: Entry[_T], gone: Sequence[_T]
) -> list[Any]:
    """Paired elements rewritten in place, new ones behind; those nobody can read stay."""
    said = [entry.read(element) for element in old]
    pairs = pair(said, facts, entry.passes)
    rest = [None if at in pairs else each for at, each in enumerate(said)] if gone else []
    ghosts = pair(rest, gone, entry.passes)
    made = []
    for at, element in enumerate(old):
        if at in pairs:
            new = entry.write(element, facts[pairs[at]])
            made.append(element if alike(element, new) else new)
        elif (entry.log and at not in ghosts) or said[at] is None:
            made.append(element)
    taken = set(pairs.values())
    return made + [entry.write(None, fact) for at, fact in enumerate(facts) if at not in taken]


def seen(listed: Any, read: Callable[[Any], _T | None]) -> list[_T]:
    """What the elements of a list say; those that say nothing are left out."""
    return [fact for each in sequence(listed) if (fact := read(each)) is not None]


# --- what both documents share -----------------------------------------------------------------


ReadAgent = Callable[[Any], AgentFact | None]


def last_of_each(
    listed: Any, read: ReadAgent, written: Iterable[AgentFact] | None = None
) -> ReadAgent:
    """Reads an agent's entry, but of several with one id only the last: the others tell of runs
    before, of which nobody has more to say. They go with it, if it is not to be `written`."""
    last = {text(mapping(each).get("id")): each for each in sequence(listed)}
    gone = set() if written is None else last.keys() - {agent.id for agent in written}

    def of(each: Any) -> AgentFact | None:
        id = text(mapping(each).get("id"))
        return read(each) if last.get(id) is each or id in gone else None

    return of


def titled(steps: Iterable[StepFact]) -> list[StepFact]:
    """Steps that have a name; their id is one."""
    return [s if s.title else replace(s, title=s.id) for s in steps if s.title or s.id]


def get_task(value: Any, status: str = "pending") -> StepFact | None:
    """A step of which there is a sentence; an object may have it as its task."""
    title = text(value.get("task") if isinstance(value, dict) else value)
    return StepFact(title, status=status) if title else None


def _put_task(old: Any, step: StepFact) -> Any:
    return step.title if old is None else old


TASK = Entry(get_task, _put_task, by_name("title"))

DONE = ("done", "skipped")
"""Statuses of steps that count as completed work; all others are still to do."""


def progress_of(facts: Facts) -> float:
    """The figure for a session: the one given, else counted from steps, else from agents."""
    if facts.progress is not None:
        return facts.progress
    if steps := tasks_in(facts):
        return [step.status in DONE for step in steps].count(True) / len(steps)
    if facts.agents:
        parts = [1.0 if a.status == "done" else a.fraction or 0.0 for a in facts.agents]
        return min(1.0, max(0.0, sum(parts) / len(parts)))
    return 1.0 if facts.status == "completed" else 0.0


def tasks_in(facts: Facts) -> list[StepFact]:
    """The steps without the headings of tasks: phases, where the work does not go through them one
    by one."""
    around = set() if facts.workflow or facts.plan_total else {s.parent for s in facts.steps}
    return [step for step in facts.steps if step.unit != "phase" or step.id not in around]


def as_far(fact: AgentFact, said: AgentFact | None) -> AgentFact:
    """An agent that is done has done all, whatever its entry says or leaves out; and the times of
    one that is not are as its entry says."""
    fact = with_told_times(fact, said)
    done = said is not None and said.status in DONE and fact.status in DONE
    return replace(fact, fraction=said.fraction) if said and done and fact.fraction == 1.0 else fact


def put_status(root: Node, id: str, status: str, order: Sequence[str]) -> None:
    """A session's status, unless the word that stands there means it already."""
    said, word = session_status(id, text(root.get("status"))) or "active", session_word(id, status)
    if status != said and session_status(id, word) != said:
        insert(root, "status", word, order)


# --- whole files -------------------------------------------------------------------------------

COMMON = ("session_id", "goal", "status", "agents", "completed_work", "pending_tasks")
"""The keys by which the file of a session is known in any layout that lists agents and work."""


def digests(facts: Facts, where: Where) -> Iterator[str]:
    """What ids are made of: always the same for a session, and another one if that is taken."""
    seed = f"{facts.goal}\n{facts.began_at}\n{where.now}\n{where.root}\n{facts.native_id}"
    return (digest_of(f"{seed}\n{n}".encode(errors="replace")) for n in count())


def is_session(value: Node) -> bool:
    """Whether a JSON object has any of the common keys of a session file."""
    return not value.keys().isdisjoint(COMMON)


def put_no_compression(usage: Node, facts: Facts, where: Where) -> None:
    """Do not say when a context was compressed last if it was not after all."""
    never = facts.compressions == 0 and facts.compressed_at is None
    if never and SECONDS.read(usage.get("last_compression"), where) is not None:
        usage["last_compression"] = None
