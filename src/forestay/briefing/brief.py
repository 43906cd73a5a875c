"""The briefing: what the next agent or person must know, within a token budget.

No model writes it: the same journal, surroundings and clock give the same bytes. At any budget it
states the goal, where the work stands, what comes next, what blocks it and which outcomes are
unknown. Other facts follow, the most valuable first, as far as the budget allows; those that do not
fit are counted, with the command that shows them.

`sections` builds the statements, `token_estimate` computes their cost, `budget` chooses among them,
`render` and the styles format them; `model.summary` has the parts that listings show too.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from forestay.base.text import one_line, plural, terminal
from forestay.base.vocabulary import FORMATS, LEAST, MOST, STYLES
from forestay.briefing.budget import fill_page
from forestay.briefing.render import RENDERERS, Page, clip
from forestay.briefing.sections import (
    TIGHT,
    BriefingInput,
    Entry,
    Lacking,
    Section,
    Surroundings,
    build_sections,
    git_drift,
    next_with_warnings,
    percent,
    quote,
)
from forestay.briefing.token_estimate import cost, estimate
from forestay.errors import InvalidInput
from forestay.model.state import State
from forestay.model.summary import (
    attention,
    first_step,
    next_step,
    progress,
    settled_steps,
    summary,
)

__all__ = [
    "FORMATS",
    "STYLES",
    "Briefing",
    "Item",
    "Surroundings",
    "attention",
    "brief",
    "estimate",
    "next_step",
    "progress",
    "summary",
]

_NAME = 20
_GIVEN, _BEGINNING = 16, 8
"""Tokens for a session's id; the length of Forestay's ids; and how many characters of an id a tight
budget shows, because commands accept any unique beginning of an id."""


class Item(Struct, frozen=True):
    """One statement of the briefing. `id` is a step, agent, decision, path or event to act on."""

    id: str
    section: str
    text: str
    cut: bool = False


class SectionCount(NamedTuple):
    """How many items of a section are shown, and how many there are."""

    shown: int
    total: int


class Briefing(Struct, frozen=True):
    """The text of a briefing, and facts about it for callers that do not parse the text.

    `counts` has each section that is not empty. `came_from` is the device that wrote last, if it is
    not this one; `lacking` lists what is missing or different on this device.
    """

    text: str
    tokens: int
    budget: int
    items: list[Item]
    counts: dict[str, SectionCount]
    attention: list[str]
    unknown_outcomes: int
    disputes: int
    came_from: str = ""
    lacking: list[Lacking] = []

    def __str__(self) -> str:
        """Return the text for a terminal; for a model use `text`, which is fenced as data."""
        lines = terminal(self.text, newlines=True).splitlines()
        is_fenced = len(lines) > 1 and lines[0].startswith("<<<data") and lines[-1].endswith(">>>")
        return "\n".join(lines[1:-1] if is_fenced else lines)


def brief(
    state: State,
    around: Surroundings,
    *,
    budget: int = 1500,
    style: str = "forestay",
    fmt: str = "text",
    reserve: int = 0,
) -> Briefing:
    """Return the briefing of a session; `estimate` of its text never exceeds the budget.

    JSON is the same in every style. `reserve` is the part of the budget that the caller needs for
    text that it adds around the briefing.
    """
    check_request(budget, style, fmt)
    known = BriefingInput(state, around, budget - reserve)
    found = build_sections(known)
    core = state.core
    since = known.since_suffix(core.ended_at or core.paused_at or core.began_at)
    facts: dict[str, int | float] = {"progress": round(progress(state)[0], 2)}
    if around.seq:
        facts["seq"] = around.seq
    page = Page(_session(known, fmt), core.status or "created", since, facts)
    text = fill_page(page, _fields(known, found), found, RENDERERS[fmt](known.budget), known.budget)
    if style == "orchestrator" and fmt != "json":
        from forestay.briefing.style_orchestrator import render_orchestrator

        text = render_orchestrator(known)
    elif style == "praxis" and fmt != "json":
        from forestay.briefing.style_praxis import render_praxis

        text = render_praxis(known)
    shown, totals = {topic.name: len(entries) for topic, entries in page.sections}, page.totals
    return Briefing(
        text=text,
        tokens=estimate(text),
        budget=known.budget,
        items=_items(page),
        counts={name: SectionCount(shown.get(name, 0), total) for name, total in totals.items()},
        attention=_flags(known, totals),
        unknown_outcomes=totals.get("unknown", 0),
        disputes=state.count("dispute.open"),
        came_from=around.came_from,
        lacking=around.lacking,
    )


def check_request(budget: int, style: str, fmt: str) -> None:
    """Raise `InvalidInput` for a budget, style or format that no briefing can have."""
    if not LEAST <= budget <= MOST:
        raise InvalidInput(
            f"no briefing fits a budget of {budget} tokens",
            why=f"it must be from {LEAST} to {MOST:,}",
            hint=f"forestay brief --budget {min(MOST, max(LEAST, budget))}",
        )
    for what, value, allowed in (("style", style, STYLES), ("format", fmt, FORMATS)):
        if value not in allowed:
            why = f"it must be one of {', '.join(allowed)}"
            raise InvalidInput(f"a briefing has no {what} {value!r}", why=why)


def _items(page: Page) -> list[Item]:
    fields = [Item(n, n, shown.text.strip(), shown.cut) for n, shown in page.fields.items()]
    return fields + [
        Item(shown.id, topic.name, shown.text, shown.cut)
        for topic, entries in page.sections
        for shown in entries
    ]


def _flags(known: BriefingInput, totals: dict[str, int]) -> list[str]:
    around = known.around
    drifted = any(word in ("changed", "missing") for _, word in around.drift)
    raised = (
        ("damaged", bool(around.damage)),
        ("unknown_outcomes", totals.get("unknown", 0) > 0),
        ("interrupted", bool(around.interrupted)),
        ("drifted", drifted or bool(git_drift(around))),
        ("stale", "stale" in around.proofs.values()),
        ("lacking", bool(around.lacking)),
    )
    words = [word for word, is_raised in raised if is_raised]
    return list(dict.fromkeys([*words, *attention(known.state)]))


# -- the core ----------------------------------------------------------------------------------


def _session(known: BriefingInput, fmt: str) -> str:
    name = one_line(known.core.session)
    if known.budget < TIGHT and fmt != "json" and len(name) == _GIVEN and name.isalnum():
        return name[:_BEGINNING]
    # The reader must be able to type the id, but an id of another program can be long (a UUID).
    room = max(_NAME, known.budget // 10)
    return name if cost(name) <= room else clip(name, room, cost)


def _fields(known: BriefingInput, found: list[Section]) -> dict[str, Entry]:
    core = known.core
    by = known.author(core.goal_by, core.goal_device)
    return {
        "goal": quote(known, "goal", core.goal or "none", by, label="goal"),
        "where": Entry("where", _where(known)),
        "next": Entry("next", next_with_warnings(known, _step(known, found))),
    }


def _where(known: BriefingInput) -> str:
    step = first_step(known.state, "running", inside=known.core.is_phased)
    parts = [_pause_or_end(known), _work_done(known)]
    parts += [f"{step.id} is running{percent(step.fraction)}"] if step else []
    others = sum(word != "dead" for _, _, word in known.around.holders)
    number = "another process" if others == 1 else f"{others} other processes"
    parts += [_running_agents(known), f"{number} may be working on it" if others else ""]
    if known.budget < TIGHT:
        return next(filter(None, parts), "nothing done yet")
    return "; ".join(filter(None, parts)) or "nothing is planned or under way yet"


def _pause_or_end(known: BriefingInput) -> str:
    core = known.core
    if core.status == "paused":
        why = core.pause_context or core.pause_reason.replace("_", " ")
        return f"paused ({why})" if why else "paused"
    return f"{core.status} ({core.because})" if core.because else ""


def _work_done(known: BriefingInput) -> str:
    state = known.state
    if known.core.is_phased:
        return _phase_at(known)
    fraction, origin = progress(state)
    figure = f"{round(fraction * 100)}%"
    if steps := state.tasks():
        share = f" ({figure})" if known.budget >= TIGHT else ""
        settled = "done or skipped" if state.tasks("skipped") else "done"
        return f"{settled_steps(state)} of {plural(steps, 'task')} {settled}{share}"
    # The progress of agents is not the progress of the session: it can have more work than theirs.
    return f"{figure} done" if origin not in ("none", "agents") else ""


def _phase_at(known: BriefingInput) -> str:
    """Return the current phase, the number of phases, and the share of the plan."""
    core = known.core
    of = "" if not core.plan_total else f" of {core.plan_total}"
    if known.budget < TIGHT:
        return f"{core.plan_unit} {core.phase}{of}"
    step = known.state.step(core.phase_step(core.phase or 0))
    named = f": {step.title}" if step and step.title else ""
    share = f" ({round(progress(known.state)[0] * 100)}%)" if core.plan_total else ""
    return f"{core.plan_unit} {core.phase}{of}{named}{share}"


def _running_agents(known: BriefingInput) -> str:
    dead, live = set(known.around.dead_agents), known.around.live_agents
    running = [name for name in summary(known.state)["running"] if name not in dead]
    more = known.state.count("agent.running") - len(running) - len(dead)
    rest = f" and {more} more" if running and more > 0 else ""
    word = "running" if set(running) <= set(live) else "reported running"
    return f"agents {word}: {', '.join(running)}{rest}" if running else ""


def _step(known: BriefingInput, found: list[Section]) -> str:
    """Return the next step; in a tight budget, only its name if the blockers describe it."""
    step = next_step(known.state)
    blocked = {entry.id for topic in found if topic.name == "blockers" for entry in topic.entries}
    name = step.partition(":")[0]
    return name if known.budget < TIGHT and name.rpartition(" ")[2] in blocked else step
