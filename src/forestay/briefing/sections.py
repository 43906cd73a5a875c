"""The sections of a briefing, the most valuable first.

A *section* is a heading with *entries*, each with an id to act on. It also has the total count,
because only as many rows are loaded as the budget could ever show. `budget` decides what fits;
`render` decides how it looks.

Text from a session is data. Text from a file, a transcript or an import is quoted with its
origin and marked unconfirmed, so that no reader mistakes it for the user's own words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from forestay.base.text import person_title, plural
from forestay.base.vocabulary import COMMAND_STATUSES, PAUSE_REASONS, undecided, what_next
from forestay.model.state import (
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
from forestay.model.summary import FAILED, plain_outcome, plan, subject
from forestay.model.timing import Progress, long

PERSON = "person:"
"""Prefix of an author who is not the user."""
UNCONFIRMED = ("file:", "transcript:", "import:", PERSON)
"""Authors whose words the user has not confirmed."""

LOG, SHOW, VERIFY = "forestay log", "forestay show", "forestay verify"
MANDATORY = ("blockers", "unknown")

ROOMY = 400
"""From this budget on there is room for times, whose digits are expensive, and blank lines."""

AMPLE = 3000
"""From this budget on, older notes and commands are read from the journal."""

TIGHT = 200
"""Below this budget explanations are left out, and only recorded text is shown."""

_MOST = 300
"""The most rows that are loaded to filter them."""
_NAMED = 3
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Fence = Callable[[str, str, str, bool], str]


class Lacking(NamedTuple):
    """Something missing or different on this device: its name, a description, the command."""

    what: str
    text: str
    command: str


class Surroundings(Struct, kw_only=True):
    """Facts about this machine now, which the caller of a briefing looks up.

    Times are UTC milliseconds. `drift` pairs a path with changed, missing or not checked, `holders`
    are (name, since, alive | dead | unknown), `live_agents` the agents whose process is known to
    run: other running agents are not tracked. `interrupted` names the process that died, `doing`
    its own work at that time. `fence` quotes a text of several lines for a model: fence(text,
    label, origin, confirmed). `notes` and `commands` were read from the journal, oldest first; if
    they are empty, the last few in the state are shown.
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
    """The id of the chain that this device writes."""
    persons: dict[str, str] = {}
    """Chain id → name of the person who wrote it, for chains of other people."""
    came_from: str = ""
    """The id of the chain that was written last, if it is not the chain of this device."""
    lacking: list[Lacking] = []
    window: int = 128_000
    proofs: dict[str, str] = {}
    """Proofs by id: `fresh`, `stale`, `failed`, `not checked`, or `passed` without inputs."""
    natives: dict[str, str] = {}
    """The id of the session in the files of each format."""
    notes: list[Line] = []
    commands: list[Line] = []


class Entry(Struct, frozen=True):
    """One statement. Only `text` is ever cut; `lead` and `tail` are shown in full or not at all."""

    id: str
    text: str
    lead: str = ""
    tail: str = ""
    block: str = ""


class Section(Struct, frozen=True):
    """A heading and its entries. `total` counts all entries, also those that were not loaded."""

    name: str
    title: str
    entries: list[Entry]
    total: int
    see: str = SHOW
    floor: int = 1
    hint: str = ""


class BriefingInput(Struct):
    """What the sections are built from: the state, the surroundings and the budget.

    `dead` are the agents whose process died and whose outcome is still unknown.
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

    def newest(self, table: str, kind: type[Any], limit: int = 0) -> list[Any]:
        return self._rows(table, kind, newest=True, limit=limit or self.limit)

    def oldest(self, table: str, kind: type[Any]) -> list[Any]:
        return self._rows(table, kind, limit=self.limit)

    def open_rows(self, table: str, kind: type[Any]) -> list[Any]:
        """Return open rows in order, more than fit, because the caller filters some out."""
        return self._rows(table, kind, open_only=True, limit=_MOST)

    def _rows(self, table: str, kind: type[Any], **how: Any) -> list[Any]:
        if not self.state.count(table):
            return []
        rows = (row for row in self.state.rows.select(table, **how) if isinstance(row, kind))
        return [row for row in rows if not self.state.is_heading(row)]

    def writer(self, device: str) -> str:
        """Return the chain id of a row or line; if it names no device, the first chain."""
        return device or next(iter(self.core.chains), "")

    def author(self, actor: str, device: str) -> str:
        """Return who wrote something: the actor, or the owner of another person's device."""
        person = self._person(self.writer(device))
        return f"{PERSON}{person}" if person else actor

    def _person(self, chain: str) -> str:
        named = self.around.device_names.get(chain, "")
        return person_title(self.around.persons.get(chain, ""), named)

    def device_suffix(self, device: str) -> str:
        """Return " (on DEVICE)" for a row of another device; "" if only one device took part."""
        chain = self.writer(device)
        if len(self.core.chains) < 2 or chain == self.around.device or self.budget < ROOMY:
            return ""
        return f" (on {self.around.device_names.get(chain, chain)})"

    def doer_suffix(self, device: str) -> str:
        """Return " (by PERSON)" or " (on DEVICE)", for entries that do not name their author."""
        person = self._person(self.writer(device)) if self.budget >= ROOMY else ""
        return f" (by {person})" if person else self.device_suffix(device)

    def time_suffix(self, at: int) -> str:
        return f" ({time_text(at)})" if at and self.budget >= ROOMY else ""

    def since_suffix(self, at: int) -> str:
        return f" since {time_text(at)}" if at and self.budget >= ROOMY else ""


def build_sections(known: BriefingInput) -> list[Section]:
    """Return all sections that are not empty, in order of value."""
    return [topic for build in _SECTIONS for topic in [build(known)] if topic.entries]


def time_text(at: int) -> str:
    """Return an absolute time, to the minute."""
    try:
        return (_EPOCH + timedelta(milliseconds=at)).strftime("%Y-%m-%d %H:%MZ")
    except (OverflowError, ValueError):
        return f"{at} ms"


def is_unconfirmed(actor: str) -> bool:
    return actor.startswith(UNCONFIRMED)


def quote(
    known: BriefingInput, id: str, text: str, by: str, *, tail: str = "", label: str = ""
) -> Entry:
    """Return someone's words as an entry, quoted with their origin if unconfirmed.

    With a label, words of several lines are also offered as a fenced block.
    """
    block, fence = "", known.around.fence
    if label and fence is not None and "\n" in text.strip():
        block = fence(text, label, by, not is_unconfirmed(by))
    if not is_unconfirmed(by):
        return Entry(id, text, tail=tail, block=block)
    origin = by.removeprefix(PERSON) if known.budget >= ROOMY else by.partition(":")[0]
    mark = f'" (from {origin}, unconfirmed)'
    return Entry(id, text.replace('"', "'"), lead='"', tail=mark + tail, block=block)


def short_id(event: str) -> str:
    """Return enough of an event's id to name it: its time and some random characters."""
    return event[:12]


def next_with_warnings(known: BriefingInput, step: str) -> str:
    """Return the next step, preceded by warnings about what must be checked first."""
    return what_next(
        step,
        (agent.id for agent in known.dead),
        paused=known.core.status == "paused",
        damaged=bool(known.around.damage),
        **{} if known.budget >= TIGHT else {"ask": "settle"},
    )


def git_drift(around: Surroundings) -> list[str]:
    """Return how the branch and commit checked out now differ from the recorded ones."""
    pairs = (
        ("branch", around.branch_then, around.branch_now, 60),
        ("commit", around.commit_then, around.commit_now, 10),
    )
    return [
        f"{what} was {then[:cut]}, is now {now[:cut]}"
        for what, then, now, cut in pairs
        if then and now and then != now
    ]


# -- the core: blockers and unknown outcomes ---------------------------------------------------


def _blockers(known: BriefingInput) -> Section:
    stuck = ("blocked", *FAILED)
    total = sum(known.state.count(f"step.{status}") for status in stuck)
    found: list[Entry] = []
    for step in known.open_rows("step", Step) if total else ():
        if step.status in stuck:
            why = f": {step.because}" if step.because else ""
            text = f"{_titled(step)} is {_word(step.status)}{why}"
            if known.budget < TIGHT:  # the problem before the title, because the end can be cut
                text = ": ".join(filter(None, (_word(step.status), step.because or _titled(step))))
            found.append(Entry(step.id, text))
    if total and not found:
        found = [Entry("", f"{plural(total, 'task')} further down the plan")]
    return Section("blockers", "Blockers", found, total, floor=3)


def _titled(step: Step) -> str:
    return "" if step.title == step.id else step.title


def _word(status: str) -> str:
    return status.replace("_", " ")


def _unknown(known: BriefingInput) -> Section:
    found = _interrupted_work(known)
    # In a tight budget, leave out explaining words.
    agent, during = ("agent ", " while at: ") if known.budget >= TIGHT else ("", " at: ")
    for one in known.dead:
        doing = f"{during}{one.task}" if one.task else ""
        found.append(Entry(one.id, f"{agent}died{percent(one.fraction)}{doing}"))
    then = ", then: forestay agent done|fail|retry ID" if known.dead else ""
    hint = f"find out before doing any of it again{then}"
    return Section("unknown", "Unknown outcomes", found, len(found), floor=3, hint=hint)


def _interrupted_work(known: BriefingInput) -> list[Entry]:
    """Return what a process itself was doing when it died; its agents are listed separately."""
    doing = known.around.doing or known.core.interrupted
    if not doing or doing == ", ".join(sorted(agent.id for agent in known.dead)):
        return []
    process = "its process " if known.budget >= TIGHT else ""
    return [Entry("interrupted", f"{process}died at: {doing}")]


def _dead_agents(known: BriefingInput) -> list[Agent]:
    gone = set(known.around.dead_agents)
    if not gone and not known.state.count("agent.failed"):
        return []
    found = [
        a
        for a in reversed(known.open_rows("agent", Agent))
        if (a.id in gone if a.status == "running" else a.died)
    ]
    seen = {agent.id for agent in found}
    return found + [known.state.agent(key) or Agent(id=key) for key in sorted(gone - seen)]


# -- what to know before trusting anything -----------------------------------------------------


def _for_next(known: BriefingInput) -> Section:
    found = [_quote_line(known, note, "note") for note in known.newest("note", Note)]
    return Section("for_next", "Notes for the next reader", found, known.state.count("note"), LOG)


def _user_message(known: BriefingInput) -> Section:
    return _last_message(known, "asked", "Last user message", known.core.asked)


def _agent_message(known: BriefingInput) -> Section:
    return _last_message(known, "said", "Last agent message", known.core.said)


def _last_message(known: BriefingInput, name: str, title: str, line: Line | None) -> Section:
    found = []
    if line is not None:
        tail = known.device_suffix(line.device) + known.time_suffix(line.at)
        by = known.author(line.by, line.device)
        found = [quote(known, short_id(line.event), line.text, by, tail=tail, label=name)]
    return Section(name, title, found, len(found), LOG)


def _quote_line(known: BriefingInput, line: Note | Line, label: str = "") -> Entry:
    by = known.author(line.by, line.device)
    plain = by in ("", "cli", "user", "mcp") or is_unconfirmed(by)
    name = "" if plain else f" (by {by})"
    tail = name + known.device_suffix(line.device) + known.time_suffix(line.at)
    return quote(known, short_id(line.event), line.text, by, tail=tail, label=label)


def _to_verify(known: BriefingInput) -> Section:
    found = [entry for doubts in _DOUBTS for entry in doubts(known)]
    return Section("verify", "Verify before trusting", found, len(found), floor=2)


def _arrival(known: BriefingInput) -> Section:
    """Build the section on what this device lacks after work on another device."""
    around = known.around
    found = [
        Entry(what, text, tail=f"; to get it: {command}" if command else "")
        for what, text, command in around.lacking
    ]
    title = "Left on another device"
    if around.came_from:
        name = around.device_names.get(around.came_from, around.came_from)
        person = around.persons.get(around.came_from, "")
        title = f"Last worked on at {name}{f' of {person}' if person else ''}; different here"
    return Section("arrival", title, found, len(found), floor=2)


def _damage(known: BriefingInput) -> Iterator[Entry]:
    for text in known.around.damage:
        yield Entry("damage", text, tail=f"; see: {VERIFY}")
    if known.core.needs:
        yield Entry("version", f"some events need Forestay {known.core.needs}; read only here")


def _interrupted(known: BriefingInput) -> Iterator[Entry]:
    doing = known.around.interrupted
    if doing and not _interrupted_work(known):
        yield Entry("interrupted", f"the last process died during: {doing}")


def _unconfirmed_goal(known: BriefingInput) -> Iterator[Entry]:
    by = known.author(known.core.goal_by, known.core.goal_device)
    if is_unconfirmed(by):
        origin = by.removeprefix(PERSON)
        yield Entry("goal", f"the goal is not confirmed; it came from {origin}")


def _claims(known: BriefingInput) -> Iterator[Entry]:
    for claim in known.open_rows("claim", Claim):
        yield Entry(claim.id, f"unproven: {claim.text}", tail=_reason(claim.reason))


def _reason(reason: str) -> str:
    return f" ({reason[:80]})" if reason else ""


def _claimed_checkpoints(known: BriefingInput) -> Iterator[Entry]:
    words = {"passed": "was reported as passed but not observed", "overridden": "was overridden"}
    for point in known.newest("checkpoint", Checkpoint):
        if point.verdict in words and not point.observed:
            why = f": {point.because}" if point.because else ""
            yield Entry(point.step, f"checkpoint {words[point.verdict]}{why}")


def _broken_proofs(known: BriefingInput) -> Iterator[Entry]:
    texts = {
        "stale": "its inputs changed since it passed; run it again: forestay prove --again",
        "failed": "failed",
    }
    for row in known.newest("proof", Proof):
        if (word := known.around.proofs.get(row.id, "")) in texts:
            ended = "timed out" if row.timed_out else f"exit {row.exit}"
            ended = "interrupted" if row.interrupted else ended
            ended = f" ({ended})" if word == "failed" else ""
            yield Entry(row.id, f"proof {_command_line(row)}: {texts[word]}{ended}")


def _command_line(row: Proof) -> str:
    return " ".join(row.argv)[:80]


def _unchecked_tasks(known: BriefingInput) -> Iterator[Entry]:
    done = known.state.tasks("done")
    unproven = done - known.state.count("checkpoint.passed")
    if unproven > 0:
        text = f"{unproven} of {plural(done, 'task')} reported done without a recorded check"
        yield Entry("tasks", text)


def _needs_review(known: BriefingInput) -> Iterator[Entry]:
    if known.state.count("step.needs_review"):
        for step in known.open_rows("step", Step):
            if step.status == "needs_review":
                yield Entry(step.id, f"{_titled(step)} needs review{_reason(step.because)}".strip())


def _drifted(known: BriefingInput) -> Iterator[Entry]:
    """Yield the first few changed files by name, and how many more there are."""
    moved = _changed_files(known)
    named = [f"{path} {word}" for path, word in moved[:_NAMED]]
    more = [f"{len(moved) - _NAMED} more files changed"] if len(moved) > _NAMED else []
    if parts := [*git_drift(known.around), *named, *more]:
        yield Entry("underneath", "; ".join(parts))


def _changed_files(known: BriefingInput) -> list[tuple[str, str]]:
    return [(path, word) for path, word in known.around.drift if word != "not checked"]


def _edits(known: BriefingInput) -> Iterator[Entry]:
    for edit in known.newest("edit", Edit):
        rest = f"; not imported: {edit.residue}" if edit.residue else ""
        adopted = edit.cause.startswith(ADOPTED_FROM)
        what = "imported from another program's file" if adopted else "edited by another program"
        limits = f"; {text}" if (text := adoption_limits(edit)) else ""
        yield Entry(edit.path, f"{what} ({edit.format}){limits}{rest}")


def adoption_limits(edit: Edit) -> str:
    """Return what the recorded cause of an adoption adds about the format; "" for other edits."""
    return edit.cause.partition("; ")[2] if edit.cause.startswith(ADOPTED_FROM) else ""


_DOUBTS: tuple[Callable[[BriefingInput], Iterator[Entry]], ...] = (
    _damage,
    _interrupted,
    _unconfirmed_goal,
    _drifted,
    _needs_review,
    _broken_proofs,
    _claims,
    _claimed_checkpoints,
    _edits,
    _unchecked_tasks,
)


_HOW_TO_SETTLE = "compare both sides and choose one: forestay settle; both stay in the journal"


def _disputes(known: BriefingInput) -> Section:
    rows = known.open_rows("dispute", Dispute)
    found = [Entry(d.subject, _sides(d, known.around.device_names)) for d in rows]
    total, hint = known.state.count("dispute.open"), _HOW_TO_SETTLE
    return Section("disputes", "Disputed", found, total, LOG, hint=hint)


def _sides(dispute: Dispute, names: dict[str, str]) -> str:
    if dispute.subject.startswith(EDIT):
        return f"{subject(dispute)} differs from what was changed here"
    outcomes = [
        f"{plain_outcome(outcome)} ({names.get(device, device)})"
        for _, device, _, outcome in dispute.sides
    ]
    return f"{subject(dispute)} is {' but also '.join(dict.fromkeys(outcomes))}"


# -- decisions ---------------------------------------------------------------------------------


def _decisions(known: BriefingInput) -> Section:
    found = []
    for row in known.newest("decision", Decision):
        chosen = f": {row.chosen}" if row.chosen and row.chosen != row.what else ""
        left = undecided(row.what, row.chosen, row.options)
        still_open = f" (still open: {'; '.join(left)})" if left else ""
        rejected = f" (rejected: {'; '.join(row.rejected)})" if row.rejected else ""
        because = f", because {row.because}" if row.because else ""
        text = f"{row.what}{chosen}{still_open}{rejected}{because}"
        by, tail = known.author(row.by, row.device), known.device_suffix(row.device)
        found.append(quote(known, row.id, text, by, tail=tail + known.time_suffix(row.at)))
    return Section("decisions", "Decisions", found, known.state.count("decision"), floor=2)


def _rejected(known: BriefingInput) -> Section:
    """Build the section on rejected options, also of decisions that are too old to be shown."""
    found = []
    for row in known.newest("decision", Decision, _MOST):
        if row.rejected:
            chosen = f" (chosen: {row.chosen})" if row.chosen else f" ({row.what})"
            found.append(Entry(row.id, "; ".join(row.rejected) + chosen))
    return Section("rejected", "Rejected before", found, len(found), floor=3)


# -- the work ----------------------------------------------------------------------------------


def _checkpoints(known: BriefingInput) -> Section:
    # A pending checkpoint is listed only if an attempt failed and another one is under way.
    total = sum(known.state.count(f"checkpoint.{word}") for word in ("failed", "pending"))
    rows = known.newest("checkpoint", Checkpoint) if total else []
    failed = [point for point in rows if point.verdict in ("failed", "pending")]
    found = [Entry(p.step, _failure(p), tail=known.time_suffix(p.at)) for p in failed]
    return Section("checkpoints", "Failed checkpoints", found, total)


def _failure(point: Checkpoint) -> str:
    if point.verdict == "pending":
        last = point.tries[-1][2] if point.tries else ""
        return f"attempt {point.attempts + 1} is under way" + (f"; before: {last}" if last else "")
    issue = point.issue or point.because or "failed"
    given = sorted(point.evidence.items())
    evidence = ", ".join(f"{key}={evidence_text(value)}" for key, value in given)
    again = f" (attempt {point.attempts})" if point.attempts > 1 else ""
    return f"{issue}{again}" + (f"; evidence: {evidence}" if evidence else "")


def _errors(known: BriefingInput) -> Section:
    found = []
    for row in known.newest("error", Problem):
        about = ", ".join(word for word in (row.agent, row.category) if word)
        text = f"{row.message} ({about})" if about else row.message
        tail = known.device_suffix(row.device) + known.time_suffix(row.at)
        found.append(Entry(short_id(row.event), text, tail=tail))
    return Section("errors", "Errors", found, known.state.count("error"), LOG)


def _to_do(known: BriefingInput) -> Section:
    total = known.state.tasks("pending") + known.state.tasks("running")
    rows = known.open_rows("step", Step) if total else []
    found = [Entry(s.id, _plan(s)) for s in rows if s.status in ("running", "pending")]
    return Section("to_do", "Still to do", found, total, floor=2)


def _plan(step: Step) -> str:
    agent = f", {step.agent}" if step.agent else ""
    state = f" (running{percent(step.fraction)}{agent})" if step.status == "running" else ""
    return f"{_titled(step)}{state}".strip() or step.id


def percent(fraction: float | None) -> str:
    return "" if fraction is None else f" at {round(fraction * 100)}%"


def _agents(known: BriefingInput) -> Section:
    rows = sorted(known.open_rows("agent", Agent), key=lambda agent: agent.status != "running")
    rows += [row for row in known.newest("agent", Agent) if not row.is_open]
    dead = {agent.id for agent in known.dead}
    found = [
        Entry(a.id, _agent(a, known), tail=known.doer_suffix(a.device))
        for a in rows
        if a.id not in dead
    ]
    return Section("agents", "Agents", found, known.state.count("agent") - len(dead))


def _agent(agent: Agent, known: BriefingInput) -> str:
    outcome = agent.error or agent.result
    result = f": {outcome}" if outcome else ""
    waits = f", waits for {agent.blocking_on}" if agent.blocking_on and agent.is_open else ""
    running = ""
    if agent.status == "running":
        tracking = "" if agent.id in known.around.live_agents else ", process not tracked"
        running = f"{percent(agent.fraction)}{known.since_suffix(agent.started_at)}{tracking}"
    task = f"{agent.task}; " if agent.task else ""
    return f"{task}{_word(agent.status)}{running}{waits}{result}"


def _proven(known: BriefingInput) -> Section:
    rows = known.newest("checkpoint", Checkpoint)
    found = [
        Entry(point.step, "checkpoint passed, observed", tail=known.time_suffix(point.at))
        for point in rows
        if point.observed and point.verdict == "passed"
    ]
    texts = {
        "fresh": "passed, inputs unchanged",
        "passed": "passed; it names no inputs",
        "not checked": "passed; inputs not checked since",
    }
    for row in known.newest("proof", Proof):
        if (word := known.around.proofs.get(row.id, "")) in texts:
            text = f"{_command_line(row)}: {texts[word]}"
            found.append(Entry(row.id, text, tail=known.time_suffix(row.at)))
    return Section("proven", "Proven", found, len(found))


def _done(known: BriefingInput) -> Section:
    total = known.state.tasks("done")
    rows = known.newest("step", Step) if total else []
    found = []
    for step in rows:
        if step.status == "done":
            by = known.doer_suffix(step.device)
            text = ": ".join(filter(None, (_titled(step), step.outcome)))
            found.append(Entry(step.id, text or ("" if by else step.id), tail=by))
    return Section("done", "Done", found, total)


def _files(known: BriefingInput) -> Section:
    found = []
    for row in known.newest("file", File):
        by = f" by {row.agent}" if row.agent else ""
        times = f", {row.changes} times" if row.changes > 1 else ""
        text = f"{row.action}{by}{times}"
        found.append(Entry(row.path, text, tail=known.doer_suffix(row.device)))
    return Section("files", "Files touched", found, known.state.count("file"))


# -- what happened lately ----------------------------------------------------------------------


def _recent(known: BriefingInput, in_journal: list[Line], in_state: list[Line]) -> list[Entry]:
    """Return the lines of the journal and of the state, each once, the newest first."""
    read = {line.event for line in in_journal}
    lines = [*in_journal, *(line for line in in_state if line.event not in read)]
    return [_quote_line(known, line) for line in reversed(lines)]


def _commands(known: BriefingInput) -> Section:
    total = sum(known.state.count(f"command.{status}") for status in COMMAND_STATUSES)
    found = _recent(known, known.around.commands, known.core.commands)
    return Section("commands", "Commands", found, max(total, len(found)), LOG)


def _notes(known: BriefingInput) -> Section:
    total = known.state.count("notes") - known.state.count("note")
    found = _recent(known, known.around.notes, known.core.notes)
    return Section("notes", "Notes", found, max(total, len(found)), LOG)


def _compaction(known: BriefingInput) -> Section:
    text, tail = known.core.summary, known.time_suffix(known.core.compressed_at)
    found = [Entry("context", text, tail=tail)] if text else []
    return Section("compaction", "Summary of the last compaction", found, len(found), LOG)


def _pauses(known: BriefingInput) -> Section:
    plain = {reason: _word(reason) for reason in PAUSE_REASONS}
    lines = [replace(line, text=plain.get(line.text, line.text)) for line in known.core.pauses]
    found = _recent(known, [], lines)
    return Section("pauses", "Pauses", found, len(found), LOG)


def _redacted(known: BriefingInput) -> Section:
    kinds = sorted(known.core.redacted.items())
    text = ", ".join(f"{name} {n}" for name, n in kinds)
    found = [Entry("redacted", f"removed before anything was stored: {text}")] if text else []
    return Section("redacted", "Secrets", found, len(found))


def _journal(known: BriefingInput) -> Section:
    core = known.core
    kinds = ", ".join(f"{kind} {n}" for kind, n in sorted(core.unknown.items()))
    facts = (
        ("from", core.from_session, f"continues session {core.from_session}"),
        ("undone", core.retracted, f"{plural(core.retracted, 'event')} undone"),
        ("erased", core.erased, f"{plural(core.erased, 'event')} erased"),
        ("unknown", core.unknown, f"of kinds this version does not know: {kinds}"),
    )
    found = [Entry(name, text) for name, present, text in facts if present]
    return Section("journal", "History", found, len(found), LOG)


def _participants(known: BriefingInput) -> Section:
    """Build the section on the devices and people that wrote, if there is more than one."""
    chains, around = known.core.chains, known.around
    found = []
    for device, chain in chains.items() if len(chains) > 1 else ():
        name = around.device_names.get(device, device)
        here = " (here)" if device == around.device else ""
        person = f", of {around.persons[device]}" if device in around.persons else ""
        count = max((n for n, _, _ in chain.heads), default=0)
        found.append(Entry(device, f"{name}{here}{person}: {plural(count, 'event')}"))
    return Section("who", "Took part", found, len(found), LOG)


# -- true only at this moment ------------------------------------------------------------------


def _drift(known: BriefingInput) -> Section:
    """Build the section on changed files that "verify before trusting" had no room for."""
    found = [Entry(path, word) for path, word in _changed_files(known)[_NAMED:]]
    unchecked = sum(word == "not checked" for _, word in known.around.drift)
    if unchecked:
        found.append(Entry("unchecked", f"not checked: {plural(unchecked, 'file')}"))
    return Section("drift", "Changed since recorded", found, len(found), "forestay brief")


def _holders(known: BriefingInput) -> Section:
    words = {"alive": "working since", "dead": "dead, held it since"}
    found = [
        Entry(who, f"{words.get(word, 'perhaps working since')} {time_text(since)}")
        for who, since, word in known.around.holders
    ]
    title = "Other processes on this session"
    return Section("holders", title, found, len(found), "forestay status")


def _timing(known: BriefingInput) -> Section:
    core, around = known.core, known.around
    found = []
    if core.began_at:
        parts = [f"began {time_text(core.began_at)}", f"last event {time_text(core.updated_at)}"]
        parts += [f"paused {long(core.paused_ms / 1000)} in all"] if core.paused_ms else []
        parts += [f"resumed {plural(core.resumes, 'time')}"] if core.resumes else []
        found.append(Entry("time", ", ".join(parts)))
    if core.is_phased:
        found.append(Entry("phases", _pace(known)))
    if used := core.tokens_used:
        percent = round(100 * used / around.window) if around.window > 0 else 0
        found.append(Entry("context", f"{used:,} tokens used ({percent}%)"))
    return Section("timing", "Timing", found, len(found), "forestay status")


def _pace(known: BriefingInput) -> str:
    """Return the times of the current phase, of phases on average, and of those left."""
    core = known.core
    here = Progress(plan(known.state), known.around.now, status=core.status)
    timing, unit = here.timing, core.plan_unit
    parts = [f"{unit} {core.phase}{known.since_suffix(here.plan['started'])}"]
    parts += [] if timing.inside is None else [f"worked on for {long(timing.inside)}"]
    parts += [] if timing.average is None else [f"{unit}s took {long(timing.average)} on average"]
    parts += [] if not timing.estimate else [f"about {long(timing.estimate)} left"]
    parts += ["possibly stalled"] if here.standing == "possibly_stalled" else []
    return ", ".join(parts)


def evidence_text(value: object) -> str:
    """Return a value of evidence as the user typed it."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return str(value)


_SECTIONS: tuple[Callable[[BriefingInput], Section], ...] = (
    _blockers,
    _unknown,
    _user_message,
    _for_next,
    _to_verify,
    _arrival,
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
    _agent_message,
    _notes,
    _commands,
    _compaction,
    _pauses,
    _redacted,
    _journal,
    _participants,
    _drift,
    _holders,
    _timing,
)
