"""Topics: everything a briefing can speak about, the most valuable first.

A *topic* is a heading with *entries*, each with an id that can be acted on, and the count of all
there are, because only as many rows are asked for as the budget could ever show. Who fits what
into how many tokens is `brief`'s business; how it looks is `form`'s.

Text from a session is data. What came from a file, a transcript or an import is quoted with its
origin and marked unconfirmed, so that nobody takes it for the user's own words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.choice import COMMAND_STATUSES, PAUSE_REASONS, undecided, what_next
from holdfast.model.state import (
    ADOPTED_FROM,
    EDIT,
    Agent,
    Checkpoint,
    Claim,
    Core,
    Decision,
    Dispute,
    Edit,
    File,
    Line,
    Note,
    Problem,
    Proof,
    State,
    Step,
)
from holdfast.model.summary import FAILED, died, plain_outcome, plan, subject
from holdfast.text import person_title
from holdfast.timing import Progress, long

PERSON = "person:"
"""Begins who said something, where that is someone else than the user."""
UNCONFIRMED = ("file:", "transcript:", "import:", PERSON)
"""Actors whose words nobody has confirmed."""

LOG, SHOW, VERIFY = "holdfast log", "holdfast show", "holdfast verify"
MANDATORY = ("blockers", "unknown")

ROOMY = 400
"""From this budget on there is room for times, whose digits are dear, and for blank lines."""

AMPLE = 3000
"""From this one on it is worth reading back in the journal."""

TIGHT = 200
"""Below this one, every word that is not the session's own is one too many."""

_MOST = 300
"""How many times the average a phase may take before it is said to take long."""
_NAMED = 3
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Fence = Callable[[str, str, str, bool], str]


class Surroundings(Struct, kw_only=True):
    """What only the machine at hand can know, looked up by whoever asks for a briefing.

    Times are UTC milliseconds. `drift` pairs a path with changed, missing or not checked,
    `holders` are (who, since, alive | dead | unknown), `live_agents` the agents whose process is
    known to live: of any other running one there is no sign of life. `interrupted` names what died,
    `doing` what it had begun itself. `fence` quotes a text of
    several lines for a model: fence(text, label, origin, confirmed). `notes` and `commands` are
    those that were read back from the journal, oldest first; without them the state's last few
    are shown.
    """

    now: int = 0
    seq: int = 0
    drift: list[tuple[str, str]] = []
    branch_then: str = ""
    branch_now: str = ""
    commit_then: str = ""
    commit_now: str = ""
    holders: list[tuple[str, int, str]] = []
    dead_agents: list[str] = []
    live_agents: list[str] = []
    interrupted: str = ""
    doing: str = ""
    damage: list[str] = []
    fence: Fence | None = None
    device_names: dict[str, str] = {}
    device: str = ""
    """The chain that is written here."""
    persons: dict[str, str] = {}
    """Chains of others than the user, with who they are."""
    came_from: str = ""
    """The chain that was written last, if it is not the one of this device."""
    lacking: list[tuple[str, str, str]] = []
    """What is not here as it was there: what, in words, the command that helps."""
    window: int = 128_000
    proofs: dict[str, str] = {}
    """Proofs by id: `fresh`, `stale`, `failed`, `not checked`, or `passed` without inputs."""
    natives: dict[str, str] = {}
    """The id that the session has in the files of a layout, by layout."""
    notes: list[Line] = []
    commands: list[Line] = []


class Entry(Struct, frozen=True):
    """One thing to say. Only `text` may be cut short; `lead` and `tail` stay whole."""

    id: str
    text: str
    lead: str = ""
    tail: str = ""
    block: str = ""


class Topic(Struct, frozen=True):
    """A heading and what stands under it. `total` counts what the entries are a part of."""

    name: str
    title: str
    entries: list[Entry]
    total: int
    see: str = SHOW
    floor: int = 1
    hint: str = ""


class Known(Struct):
    """What the makers of entries need: the state, the surroundings, and how much may be asked.

    `dead` are the agents whose process is gone and whose work nobody has looked at since.
    """

    state: State
    around: Surroundings
    budget: int
    dead: list[Agent] = []

    def __post_init__(self) -> None:
        self.dead = _dead_agents(self)

    @property
    def core(self) -> Core:
        return self.state.core

    @property
    def limit(self) -> int:
        return max(8, self.budget // 12)

    def newest(self, table: str, kind: type[Any]) -> list[Any]:
        return self._rows(table, kind, newest=True, limit=self.limit)

    def oldest(self, table: str, kind: type[Any]) -> list[Any]:
        return self._rows(table, kind, limit=self.limit)

    def still_open(self, table: str, kind: type[Any]) -> list[Any]:
        """Open rows in their order, more than could be shown: some will be sorted out."""
        return self._rows(table, kind, open_only=True, limit=_MOST)

    def _rows(self, table: str, kind: type[Any], **how: Any) -> list[Any]:
        if not self.state.count(table):
            return []
        rows = (row for row in self.state.rows.select(table, **how) if isinstance(row, kind))
        return [row for row in rows if not self.state.is_heading(row)]

    def writer(self, device: str) -> str:
        """The chain that a row or line is of; what tells of none is of the first there was."""
        return device or next(iter(self.core.chains), "")

    def by(self, actor: str, device: str) -> str:
        """Who said something: the actor, or the person whose device it was said on."""
        person = self._person(self.writer(device))
        return f"{PERSON}{person}" if person else actor

    def _person(self, chain: str) -> str:
        named = self.around.device_names.get(chain, "")
        return person_title(self.around.persons.get(chain, ""), named)

    def on(self, device: str) -> str:
        """Which device, where several took part and it is not this one."""
        chain = self.writer(device)
        if len(self.core.chains) < 2 or chain == self.around.device or self.budget < ROOMY:
            return ""
        return f" (on {self.around.device_names.get(chain, chain)})"

    def doer(self, device: str) -> str:
        """Whose doing it was, where it is not told by whose words they are."""
        person = self._person(self.writer(device)) if self.budget >= ROOMY else ""
        return f" (by {person})" if person else self.on(device)

    def when(self, at: int) -> str:
        return f" ({stamp(at)})" if at and self.budget >= ROOMY else ""

    def since(self, at: int) -> str:
        return f" since {stamp(at)}" if at and self.budget >= ROOMY else ""


def topics(known: Known) -> list[Topic]:
    """All topics that have something to say, in order of value."""
    return [topic for make in _TOPICS for topic in [make(known)] if topic.entries]


def stamp(at: int) -> str:
    """An absolute time, to the minute."""
    try:
        return (_EPOCH + timedelta(milliseconds=at)).strftime("%Y-%m-%d %H:%MZ")
    except (OverflowError, ValueError):
        return f"{at} ms"


def is_unconfirmed(actor: str) -> bool:
    return actor.startswith(UNCONFIRMED)


def said(known: Known, id: str, text: str, by: str, *, tail: str = "", label: str = "") -> Entry:
    """Someone's words: quoted with their origin if nobody has confirmed them.

    With a label, words of several lines are also offered as a fenced block.
    """
    block = _fenced(known, text, label, by) if label else ""
    if not is_unconfirmed(by):
        return Entry(id, text, tail=tail, block=block)
    origin = by.removeprefix(PERSON) if known.budget >= ROOMY else by.partition(":")[0]
    mark = f'" (from {origin}, unconfirmed)'
    return Entry(id, text.replace('"', "'"), lead='"', tail=mark + tail, block=block)


def _fenced(known: Known, text: str, label: str, by: str) -> str:
    fence = known.around.fence
    if fence is None or "\n" not in text.strip():
        return ""
    return fence(text, label, by, not is_unconfirmed(by))


def short(event: str) -> str:
    """An event's id as far as it takes to name it: its time and a little chance."""
    return event[:12]


def after_looking(known: Known, step: str) -> str:
    """The next step, after what must be looked at first."""
    return what_next(
        step,
        (agent.id for agent in known.dead),
        paused=known.core.status == "paused",
        damaged=bool(known.around.damage),
        **{} if known.budget >= TIGHT else {"ask": "settle"},
    )


def git_drift(around: Surroundings) -> list[str]:
    """How the checkout differs from the one that was recorded."""
    pairs = (
        ("branch", around.branch_then, around.branch_now, 60),
        ("commit", around.commit_then, around.commit_now, 10),
    )
    return [
        f"{what} was {then[:cut]}, is now {now[:cut]}"
        for what, then, now, cut in pairs
        if then and now and then != now
    ]


# -- the core: what stops us, what nobody knows ------------------------------------------------


def _blockers(known: Known) -> Topic:
    count = known.state.count
    total = count("step.blocked") + sum(count(f"step.{status}") for status in FAILED)
    found: list[Entry] = []
    if total:
        steps = known.still_open("step", Step)
        stuck = [s for s in steps if s.status == "blocked" or s.status in FAILED]
        say = _stuck if known.budget >= TIGHT else _why_stuck
        found = [Entry(s.id, say(s)) for s in stuck]
    return Topic("blockers", "Blockers", _or_count(found, total, "task"), total, floor=3)


def _stuck(step: Step) -> str:
    why = f": {step.because}" if step.because else ""
    return f"{_titled(step)} is {_word(step.status)}{why}"


def _why_stuck(step: Step) -> str:
    """What is wrong before what it is wrong with, which may have to be cut."""
    return ": ".join(filter(None, (_word(step.status), step.because or _titled(step))))


def _titled(step: Step) -> str:
    return "" if step.title == step.id else step.title


def _word(status: str) -> str:
    return status.replace("_", " ")


def _or_count(found: list[Entry], total: int, what: str) -> list[Entry]:
    """Never silent about what the counts know: if no row was in reach, say how many there are."""
    told = f"{many(total, what)} further down the plan"
    return found if found or not total else [Entry("", told)]


def _unknown(known: Known) -> Topic:
    agents = [Entry(a.id, _died(a, known.budget)) for a in known.dead]
    found = [*_broken_off(known), *agents]
    then = ", then: holdfast agent done|fail|retry ID" if agents else ""
    hint = f"find out before doing any of it again{then}"
    return Topic("unknown", "Unknown outcomes", found, len(found), floor=3, hint=hint)


def _broken_off(known: Known) -> list[Entry]:
    """What a process itself was doing when it died; that of its sub-agents is told of them."""
    doing = known.around.doing or known.core.interrupted
    if not doing or doing == ", ".join(sorted(agent.id for agent in known.dead)):
        return []
    return [
        Entry("interrupted", f"{'its process ' if known.budget >= TIGHT else ''}died at: {doing}")
    ]


def _died(agent: Agent, budget: int) -> str:
    doing = f"{' while' if budget >= TIGHT else ''} at: {agent.task}" if agent.task else ""
    return f"{'agent ' if budget >= TIGHT else ''}died{percent(agent.fraction)}{doing}"


def _dead_agents(known: Known) -> list[Agent]:
    gone = set(known.around.dead_agents)
    if not gone and not known.state.count("agent.failed"):
        return []
    found = [a for a in reversed(known.still_open("agent", Agent)) if _is_dead(a, gone)]
    seen = {agent.id for agent in found}
    return found + [known.state.agent(key) or Agent(id=key) for key in sorted(gone - seen)]


def _is_dead(agent: Agent, gone: set[str]) -> bool:
    return agent.id in gone if agent.status == "running" else died(agent)


# -- what to know before trusting anything -----------------------------------------------------


def _for_next(known: Known) -> Topic:
    notes = known.newest("note", Note)
    found = [
        said(
            known,
            short(n.event),
            n.text,
            known.by(n.by, n.device),
            tail=_when_by(known, n),
            label="note",
        )
        for n in notes
    ]
    return Topic("for_next", "For whoever comes next", found, known.state.count("note"), LOG)


def _asked(known: Known) -> Topic:
    return _last_words(known, "asked", "Asked last", known.core.asked, "user")


def _spoken(known: Known) -> Topic:
    return _last_words(known, "said", "Said last by the agent", known.core.said, "agent")


def _last_words(known: Known, name: str, title: str, line: Line | None, role: str) -> Topic:
    if line is None:
        return Topic(name, title, [], 0)
    tail, by = known.on(line.device) + known.when(line.at), known.by(line.by, line.device)
    entry = said(known, short(line.event), line.text, by, tail=tail, label=name)
    total = known.state.count(f"message.{role}")
    return Topic(name, title, [entry], min(1, total), LOG)


def _when_by(known: Known, said: Note | Line) -> str:
    by = known.by(said.by, said.device)
    plain = by in ("", "cli", "user", "mcp") or is_unconfirmed(by)
    return ("" if plain else f" (by {by})") + known.on(said.device) + known.when(said.at)


def _verify(known: Known) -> Topic:
    found = [entry for doubts in _DOUBTS for entry in doubts(known)]
    return Topic("verify", "Verify before trusting", found, len(found), floor=2)


def _arrived(known: Known) -> Topic:
    """What is not here as it was on the device where the session was last worked on."""
    around = known.around
    if not around.came_from and not around.lacking:
        return Topic("arrival", "", [], 0)
    found = [
        Entry(what, text, tail=f"; to get it: {command}" if command else "")
        for what, text, command in around.lacking
    ]
    if not around.came_from:
        return Topic("arrival", "Left on another device, and not here", found, len(found), floor=2)
    name = around.device_names.get(around.came_from, around.came_from)
    person = around.persons.get(around.came_from, "")
    who = f"{name} of {person}" if person else name
    title = f"Last worked on at {who}; here it is otherwise"
    return Topic("arrival", title, found, len(found), floor=2)


def _damage(known: Known) -> Iterator[Entry]:
    for text in known.around.damage:
        yield Entry("damage", text, tail=f"; see: {VERIFY}")
    if known.core.needs:
        yield Entry("version", f"some events need Holdfast {known.core.needs}; read only here")


def _interrupted(known: Known) -> Iterator[Entry]:
    doing = known.around.interrupted
    if doing and not _broken_off(known):
        yield Entry("interrupted", f"the last process died without letting go; at: {doing}")


def _unconfirmed_goal(known: Known) -> Iterator[Entry]:
    by = known.by(known.core.goal_by, known.core.goal_device)
    if is_unconfirmed(by):
        origin = by.removeprefix(PERSON)
        yield Entry("goal", f"nobody has confirmed the goal; it came from {origin}")


def _claims(known: Known) -> Iterator[Entry]:
    for claim in known.still_open("claim", Claim):
        yield Entry(claim.id, f"unproven: {claim.text}", tail=_reason(claim.reason))


def _reason(reason: str) -> str:
    return f" ({reason[:80]})" if reason else ""


def _claimed_checkpoints(known: Known) -> Iterator[Entry]:
    words = {"passed": "is said to have passed; nobody observed it", "overridden": "was overridden"}
    for point in known.newest("checkpoint", Checkpoint):
        if point.verdict in words and not point.observed:
            why = f": {point.because}" if point.because else ""
            yield Entry(point.step, f"checkpoint {words[point.verdict]}{why}")


def _broken_proofs(known: Known) -> Iterator[Entry]:
    told = {
        "stale": "its inputs changed since it passed; run it again: holdfast prove --again",
        "failed": "failed",
    }
    for row in known.newest("proof", Proof):
        if (word := known.around.proofs.get(row.id, "")) in told:
            ended = f" ({_ending(row)})" if word == "failed" else ""
            yield Entry(row.id, f"proof {_command_line(row)}: {told[word]}{ended}")


def _ending(row: Proof) -> str:
    if row.interrupted:
        return "interrupted"
    return "timed out" if row.timed_out else f"exit {row.exit}"


def _command_line(row: Proof) -> str:
    return " ".join(row.argv)[:80]


def _done_by_word(known: Known) -> Iterator[Entry]:
    done = known.state.tasks("done")
    unproven = done - known.state.count("checkpoint.passed")
    if unproven > 0:
        told = f"{unproven} of {many(done, 'task')} said to be done; no check recorded"
        yield Entry("tasks", told)


def _needs_review(known: Known) -> Iterator[Entry]:
    if known.state.count("step.needs_review"):
        for step in known.still_open("step", Step):
            if step.status == "needs_review":
                yield Entry(step.id, f"{_titled(step)} needs review{_reason(step.because)}".strip())


def _drifted(known: Known) -> Iterator[Entry]:
    """The first few by name; the rest stands at the end, once."""
    moved = _moved(known)
    named = [f"{path} {word}" for path, word in moved[:_NAMED]]
    more = [f"{len(moved) - _NAMED} more files changed"] if len(moved) > _NAMED else []
    if told := [*git_drift(known.around), *named, *more]:
        yield Entry("underneath", "; ".join(told))


def _moved(known: Known) -> list[tuple[str, str]]:
    return [(path, word) for path, word in known.around.drift if word != "not checked"]


def _edits(known: Known) -> Iterator[Entry]:
    for edit in known.newest("edit", Edit):
        rest = f"; not taken up: {edit.residue}" if edit.residue else ""
        adopted = edit.cause.startswith(ADOPTED_FROM)
        what = "taken over from a file of others" if adopted else "edited by someone else"
        limits = f"; {told}" if (told := adopted_with(edit)) else ""
        yield Entry(edit.path, f"{what} ({edit.layout}){limits}{rest}")


def adopted_with(edit: Edit) -> str:
    """What has to be known of the shape of files that were adopted."""
    return edit.cause.partition("; ")[2] if edit.cause.startswith(ADOPTED_FROM) else ""


_DOUBTS: tuple[Callable[[Known], Iterator[Entry]], ...] = (
    _damage,
    _interrupted,
    _unconfirmed_goal,
    _drifted,
    _needs_review,
    _broken_proofs,
    _claims,
    _claimed_checkpoints,
    _edits,
    _done_by_word,
)


_HOW_TO_SETTLE = "look at both sides and say what stands: holdfast settle; both are kept"


def _disputes(known: Known) -> Topic:
    rows = known.still_open("dispute", Dispute)
    found = [Entry(d.subject, _sides(d, known.around.device_names)) for d in rows]
    total, hint = known.state.count("dispute.open"), _HOW_TO_SETTLE
    return Topic("disputes", "Disputed", found, total, LOG, hint=hint)


def _sides(dispute: Dispute, names: dict[str, str]) -> str:
    if dispute.subject.startswith(EDIT):
        return f"{subject(dispute)} is not what had been changed here"
    said = [
        f"{plain_outcome(outcome)} ({names.get(device, device)})"
        for _, device, _, outcome in dispute.sides
    ]
    return f"{subject(dispute)} is {' but also '.join(dict.fromkeys(said))}"


# -- decisions ---------------------------------------------------------------------------------


def _decisions(known: Known) -> Topic:
    rows = known.newest("decision", Decision)
    found = [
        said(
            known,
            d.id,
            _decided(d),
            known.by(d.by, d.device),
            tail=known.on(d.device) + known.when(d.at),
        )
        for d in rows
    ]
    return Topic("decisions", "Decisions", found, known.state.count("decision"), floor=2)


def _decided(row: Decision) -> str:
    chosen = f": {row.chosen}" if row.chosen and row.chosen != row.what else ""
    left = undecided(row.what, row.chosen, row.options)
    still_open = f" (still open: {'; '.join(left)})" if left else ""
    rejected = f" (rejected: {'; '.join(row.rejected)})" if row.rejected else ""
    because = f", because {row.because}" if row.because else ""
    return f"{row.what}{chosen}{still_open}{rejected}{because}"


def _rejected(known: Known) -> Topic:
    """Also of decisions that are not shown any more: a rejected approach never ages out."""
    if not known.state.count("decision"):
        return Topic("rejected", "", [], 0)
    rows = known.state.rows.select("decision", newest=True, limit=_MOST)
    turned_down = [row for row in rows if isinstance(row, Decision) and row.rejected]
    found = [Entry(row.id, _turned_down(row)) for row in turned_down]
    return Topic("rejected", "Rejected before", found, len(found), floor=3)


def _turned_down(row: Decision) -> str:
    chosen = f" (chosen: {row.chosen})" if row.chosen else f" ({row.what})"
    return "; ".join(row.rejected) + chosen


# -- the work ----------------------------------------------------------------------------------


def _checkpoints(known: Known) -> Topic:
    # Pending is a verdict only after a failed one, while another attempt is under way.
    total = sum(known.state.count(f"checkpoint.{word}") for word in ("failed", "pending"))
    rows = known.newest("checkpoint", Checkpoint) if total else []
    failed = [point for point in rows if point.verdict in ("failed", "pending")]
    found = [Entry(p.step, _failure(p), tail=known.when(p.at)) for p in failed]
    return Topic("checkpoints", "Failed checkpoints", found, total)


def _failure(point: Checkpoint) -> str:
    if point.verdict == "pending":
        last = point.tries[-1][2] if point.tries else ""
        return f"attempt {point.attempts + 1} is under way" + (f"; before: {last}" if last else "")
    issue = point.issue or point.because or "failed"
    given = sorted(point.evidence.items())
    evidence = ", ".join(f"{key}={plainly(value)}" for key, value in given)
    again = f" (attempt {point.attempts})" if point.attempts > 1 else ""
    return f"{issue}{again}" + (f"; evidence: {evidence}" if evidence else "")


def _errors(known: Known) -> Topic:
    rows = known.newest("error", Problem)
    found = [
        Entry(short(p.event), _problem(p), tail=known.on(p.device) + known.when(p.at)) for p in rows
    ]
    return Topic("errors", "Errors", found, known.state.count("error"), LOG)


def _problem(row: Problem) -> str:
    about = ", ".join(word for word in (row.agent, row.category) if word)
    return f"{row.message} ({about})" if about else row.message


def _to_do(known: Known) -> Topic:
    total = known.state.tasks("pending") + known.state.tasks("running")
    rows = known.still_open("step", Step) if total else []
    found = [Entry(s.id, _plan(s)) for s in rows if s.status in ("running", "pending")]
    return Topic("to_do", "Still to do", found, total, floor=2)


def _plan(step: Step) -> str:
    agent = f", {step.agent}" if step.agent else ""
    state = f" (running{percent(step.fraction)}{agent})" if step.status == "running" else ""
    return f"{_titled(step)}{state}".strip() or step.id


def percent(fraction: float | None) -> str:
    return "" if fraction is None else f" at {round(fraction * 100)}%"


def _agents(known: Known) -> Topic:
    rows = sorted(known.still_open("agent", Agent), key=_is_idle)
    rows += [row for row in known.newest("agent", Agent) if not row.is_open]
    dead = {agent.id for agent in known.dead}
    found = [
        Entry(a.id, _agent(a, known), tail=known.doer(a.device)) for a in rows if a.id not in dead
    ]
    return Topic("agents", "Agents", found, known.state.count("agent") - len(dead))


def _is_idle(agent: Agent) -> bool:
    return agent.status != "running"


def _agent(agent: Agent, known: Known) -> str:
    outcome = agent.error or agent.result
    told = f": {outcome}" if outcome else ""
    waits = f", waits for {agent.blocking_on}" if agent.blocking_on and agent.is_open else ""
    running = _at_work(agent, known) if agent.status == "running" else ""
    task = f"{agent.task}; " if agent.task else ""
    return f"{task}{_word(agent.status)}{running}{waits}{told}"


def _at_work(agent: Agent, known: Known) -> str:
    seen = "" if agent.id in known.around.live_agents else ", no sign of life known"
    return f"{percent(agent.fraction)}{known.since(agent.started_at)}{seen}"


def _proven(known: Known) -> Topic:
    rows = known.newest("checkpoint", Checkpoint)
    seen = [point for point in rows if point.observed and point.verdict == "passed"]
    found = [Entry(p.step, "checkpoint passed, observed", tail=known.when(p.at)) for p in seen]
    found += _proofs(known)
    return Topic("proven", "Proven", found, len(found))


def _proofs(known: Known) -> Iterator[Entry]:
    told = {
        "fresh": "passed, inputs unchanged",
        "passed": "passed; it names no inputs",
        "not checked": "passed; inputs not checked since",
    }
    for row in known.newest("proof", Proof):
        if (word := known.around.proofs.get(row.id, "")) in told:
            text = f"{_command_line(row)}: {told[word]}"
            yield Entry(row.id, text, tail=known.when(row.at))


def _done(known: Known) -> Topic:
    total = known.state.tasks("done")
    rows = known.newest("step", Step) if total else []
    found = [_finished(s, known.doer(s.device)) for s in rows if s.status == "done"]
    return Topic("done", "Done", found, total)


def _finished(step: Step, by: str) -> Entry:
    told = ": ".join(filter(None, (_titled(step), step.outcome)))
    return Entry(step.id, told or ("" if by else step.id), tail=by)


def _files(known: Known) -> Topic:
    found = [Entry(f.path, _file(f), tail=known.doer(f.device)) for f in known.newest("file", File)]
    return Topic("files", "Files touched", found, known.state.count("file"))


def _file(row: File) -> str:
    by = f" by {row.agent}" if row.agent else ""
    times = f", {row.changes} times" if row.changes > 1 else ""
    return f"{row.action}{by}{times}"


# -- what happened lately ----------------------------------------------------------------------


def _lines(known: Known, lines: Iterable[Line]) -> list[Entry]:
    return [
        said(
            known,
            short(line.event),
            line.text,
            known.by(line.by, line.device),
            tail=_when_by(known, line),
        )
        for line in reversed(list(lines))
    ]


def _recent(read: list[Line], kept: list[Line]) -> list[Line]:
    """What was read back, and what a file says that is in no journal yet."""
    told = {line.event for line in read}
    return [*read, *(line for line in kept if line.event not in told)]


def _commands(known: Known) -> Topic:
    total = sum(known.state.count(f"command.{status}") for status in COMMAND_STATUSES)
    found = _lines(known, _recent(known.around.commands, known.core.commands))
    return Topic("commands", "Commands", found, max(total, len(found)), LOG)


def _notes(known: Known) -> Topic:
    total = known.state.count("notes") - known.state.count("note")
    found = _lines(known, _recent(known.around.notes, known.core.notes))
    return Topic("notes", "Notes", found, max(total, len(found)), LOG)


def _compaction(known: Known) -> Topic:
    text = known.core.summary
    found = [Entry("context", text, tail=known.when(known.core.compressed_at))] if text else []
    return Topic("compaction", "Summary of the last compaction", found, len(found), LOG)


def _pauses(known: Known) -> Topic:
    plain = {reason: _word(reason) for reason in PAUSE_REASONS}
    lines = [replace(line, text=plain.get(line.text, line.text)) for line in known.core.pauses]
    found = _lines(known, lines)
    return Topic("pauses", "Pauses", found, len(found), LOG)


def _redacted(known: Known) -> Topic:
    kinds = sorted(known.core.redacted.items())
    text = ", ".join(f"{name} {n}" for name, n in kinds)
    found = [Entry("redacted", f"taken out before anything was stored: {text}")] if text else []
    return Topic("redacted", "Secrets", found, len(found))


def _journal(known: Known) -> Topic:
    core = known.core
    kinds = ", ".join(f"{kind} {n}" for kind, n in sorted(core.unknown.items()))
    facts = (
        ("from", core.from_session, f"continues session {core.from_session}"),
        ("undone", core.retracted, f"{many(core.retracted, 'event')} taken back"),
        ("erased", core.erased, f"{many(core.erased, 'event')} erased; the content is gone"),
        ("unknown", core.unknown, f"of kinds this version does not know: {kinds}"),
    )
    found = [Entry(name, text) for name, present, text in facts if present]
    return Topic("journal", "History", found, len(found), LOG)


def _took_part(known: Known) -> Topic:
    """The devices and persons that wrote, where it was more than one."""
    chains, around = known.core.chains, known.around
    if len(chains) < 2:
        return Topic("who", "", [], 0)
    found = []
    for device, chain in chains.items():
        name = around.device_names.get(device, device)
        here = " (here)" if device == around.device else ""
        person = f", of {around.persons[device]}" if device in around.persons else ""
        count = max((n for n, _, _ in chain.heads), default=0)
        found.append(Entry(device, f"{name}{here}{person}: {many(count, 'event')}"))
    return Topic("who", "Took part", found, len(found), LOG)


# -- true only now -----------------------------------------------------------------------------


def _drift(known: Known) -> Topic:
    """What could not be said under "verify before trusting"."""
    found = [Entry(path, word) for path, word in _moved(known)[_NAMED:]]
    unchecked = sum(word == "not checked" for _, word in known.around.drift)
    if unchecked:
        found.append(Entry("unchecked", f"not checked: {many(unchecked, 'file')}"))
    return Topic("drift", "Changed underneath", found, len(found), "holdfast brief")


def _holders(known: Known) -> Topic:
    words = {"alive": "at work since", "dead": "dead, held it since"}
    found = [
        Entry(who, f"{words.get(word, 'perhaps at work since')} {stamp(since)}")
        for who, since, word in known.around.holders
    ]
    return Topic("holders", "Other processes on this session", found, len(found), "holdfast status")


def _timing(known: Known) -> Topic:
    core, around = known.core, known.around
    found = []
    if core.began_at:
        parts = [f"began {stamp(core.began_at)}", f"last event {stamp(core.updated_at)}"]
        parts += [f"paused {span(core.paused_ms)} in all"] if core.paused_ms else []
        parts += [f"resumed {many(core.resumes, 'time')}"] if core.resumes else []
        found.append(Entry("time", ", ".join(parts)))
    if core.is_phased:
        found.append(Entry("phases", _pace(known)))
    if used := core.tokens_used:
        percent = round(100 * used / around.window) if around.window > 0 else 0
        found.append(Entry("context", f"{used:,} tokens used ({percent}%)"))
    return Topic("timing", "Timing", found, len(found), "holdfast status")


def _pace(known: Known) -> str:
    """How the phases go in time: the current one, the others on average, what is left."""
    core = known.core
    here = Progress(plan(known.state), known.around.now, status=core.status)
    timing, unit = here.timing, core.plan_unit
    parts = [f"{unit} {core.phase}{known.since(here.plan['started'])}"]
    parts += [] if timing.inside is None else [f"worked on for {long(timing.inside)}"]
    parts += [] if timing.average is None else [f"{unit}s took {long(timing.average)} on average"]
    parts += [] if not timing.estimate else [f"about {long(timing.estimate)} left"]
    parts += ["possibly stalled"] if here.standing == "possibly_stalled" else []
    return ", ".join(parts)


def plainly(value: object) -> str:
    """A value of evidence as it was typed, for people."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return str(value)


def many(n: int, what: str) -> str:
    """A number with its noun: "1 file", "3 files"."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def span(ms: int) -> str:
    """A length of time in its two largest units."""
    minutes = max(0, ms) // 60_000
    days, hours = minutes // 1440, minutes // 60 % 24
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min"


_TOPICS: tuple[Callable[[Known], Topic], ...] = (
    _blockers,
    _unknown,
    _asked,
    _for_next,
    _verify,
    _arrived,
    _disputes,
    _decisions,
    _rejected,
    _checkpoints,
    _errors,
    _to_do,
    _agents,
    _proven,
    _done,
    _files,
    _spoken,
    _notes,
    _commands,
    _compaction,
    _pauses,
    _redacted,
    _journal,
    _took_part,
    _drift,
    _holders,
    _timing,
)
