"""Briefing: what whoever comes next must know, in the tokens they can spare.

No model writes it: the same journal, the same surroundings and the same clock give the same
bytes. At any budget it says the goal, where the work stands, what comes next, what blocks it and
what nobody knows the outcome of. The rest follows by value as far as the budget reaches, and
what did not fit is counted, with the command that shows it.

`topics` knows what there is to say, `tokens` what it costs, `fit` who gets how much, `form` and
`style` how it looks; `summary` answers the questions that listings ask too.
"""

from __future__ import annotations

from msgspec import Struct

from holdfast.choice import FORMATS, LEAST, MOST, STYLES
from holdfast.errors import InvalidInput
from holdfast.model.fit import fit
from holdfast.model.form import FORMS, Page, clip
from holdfast.model.state import State
from holdfast.model.summary import attention, next_step, progress, settled_steps, summary
from holdfast.model.summary import first_step as _first_step
from holdfast.model.tokens import cost, estimate
from holdfast.model.topics import (
    TIGHT,
    Entry,
    Known,
    Surroundings,
    Topic,
    after_looking,
    git_drift,
    many,
    percent,
    said,
    topics,
)
from holdfast.text import one_line

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
"""What a session's id may cost; how long one is that we gave, and how much of it will do where
words are dear: any unique beginning of an id is accepted."""


class Item(Struct, frozen=True):
    """One thing the briefing says. `id` is a step, agent, decision, path or event to act on."""

    id: str
    section: str
    text: str
    cut: bool = False


class Briefing(Struct, frozen=True):
    """The text, and what a caller needs to know of it without reading it.

    `counts` has (shown, total) for each section that has anything to say. `came_from` is the
    device that wrote last, if it was another, `lacking` what is not here as it was there.
    """

    text: str
    tokens: int
    budget: int
    items: list[Item]
    counts: dict[str, tuple[int, int]]
    attention: list[str]
    unknown_outcomes: int
    disputes: int
    came_from: str = ""
    lacking: list[tuple[str, str, str]] = []


def brief(
    state: State,
    around: Surroundings,
    *,
    budget: int = 1500,
    style: str = "holdfast",
    fmt: str = "text",
    reserve: int = 0,
) -> Briefing:
    """The briefing of a session, never above the budget by `estimate`.

    JSON is data and has no style: it is the same for all of them. `reserve` is what the caller
    needs of the budget for what it puts around the text.
    """
    check(budget, style, fmt)
    known = Known(state, around, budget - reserve)
    found = topics(known)
    page = Page(_session(known, fmt), known.core.status or "created", _since(known), _facts(known))
    text = fit(page, _fields(known, found), found, FORMS[fmt](known.budget), known.budget)
    if style == "orchestrator" and fmt != "json":
        from holdfast.model.style import orchestrator

        text = orchestrator(known)
    elif style == "praxis" and fmt != "json":
        from holdfast.model.style_praxis import praxis

        text = praxis(known)
    return _briefing(known, page, text)


def check(budget: int, style: str, fmt: str) -> None:
    """Refuse a request that no briefing can answer."""
    if not LEAST <= budget <= MOST:
        raise InvalidInput(
            f"a briefing cannot have a budget of {budget} tokens",
            why=f"it is from {LEAST} to {MOST:,}",
            hint=f"holdfast brief --budget {min(MOST, max(LEAST, budget))}",
        )
    for what, value, allowed in (("style", style, STYLES), ("format", fmt, FORMATS)):
        if value not in allowed:
            why = f"it is one of {', '.join(allowed)}"
            raise InvalidInput(f"a briefing has no {what} {value!r}", why=why)


def _briefing(known: Known, page: Page, text: str) -> Briefing:
    shown = {topic.name: len(entries) for topic, entries in page.sections}
    totals = page.totals
    return Briefing(
        text=text,
        tokens=estimate(text),
        budget=known.budget,
        items=_items(page),
        counts={name: (shown.get(name, 0), total) for name, total in totals.items()},
        attention=_flags(known, totals),
        unknown_outcomes=totals.get("unknown", 0),
        disputes=known.state.count("dispute.open"),
        came_from=known.around.came_from,
        lacking=known.around.lacking,
    )


def _items(page: Page) -> list[Item]:
    fields = [Item(n, n, shown.text.strip(), shown.cut) for n, shown in page.fields.items()]
    return fields + [
        Item(shown.id, topic.name, shown.text, shown.cut)
        for topic, entries in page.sections
        for shown in entries
    ]


def _flags(known: Known, totals: dict[str, int]) -> list[str]:
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


def _session(known: Known, fmt: str) -> str:
    name = one_line(known.core.session)
    if known.budget < TIGHT and fmt != "json" and len(name) == _GIVEN and name.isalnum():
        return name[:_BEGINNING]
    # Who reads it must be able to name it: an id of other programs, such as a UUID, is long.
    room = max(_NAME, known.budget // 10)
    return name if cost(name) <= room else clip(name, room, cost)


def _since(known: Known) -> str:
    core = known.core
    return known.since(core.ended_at or core.paused_at or core.began_at)


def _facts(known: Known) -> dict[str, int | float]:
    facts: dict[str, int | float] = {"progress": round(progress(known.state)[0], 2)}
    return {**facts, "seq": known.around.seq} if known.around.seq else facts


def _fields(known: Known, found: list[Topic]) -> dict[str, Entry]:
    core = known.core
    goal, by = core.goal, known.by(core.goal_by, core.goal_device)
    return {
        "goal": said(known, "goal", goal or "none", by, label="goal"),
        "where": Entry("where", _where(known)),
        "next": Entry("next", after_looking(known, _step(known, found))),
    }


def _where(known: Known) -> str:
    parts = [_held_up(known), _done_so_far(known), _step_at_work(known)]
    parts += [_agents_at_work(known), _others_at_work(known)]
    if known.budget < TIGHT:
        return next(filter(None, parts), "nothing done yet")
    return "; ".join(filter(None, parts)) or "nothing is planned or under way yet"


def _held_up(known: Known) -> str:
    core = known.core
    if core.status == "paused":
        why = core.pause_context or core.pause_reason.replace("_", " ")
        return f"paused ({why})" if why else "paused"
    return f"{core.status} ({core.because})" if core.because else ""


def _done_so_far(known: Known) -> str:
    state = known.state
    if known.core.is_phased:
        return _phase_at(known)
    fraction, origin = progress(state)
    figure = f"{round(fraction * 100)}%"
    if steps := state.tasks():
        figure = figure if known.budget >= TIGHT else ""
        settled = "done or skipped" if state.tasks("skipped") else "done"
        return f"{settled_steps(state)} of {many(steps, 'task')} {settled}" + (
            f" ({figure})" if figure else ""
        )
    # How far agents are says nothing of the work: there may be more of it than they have.
    return f"{figure} done" if origin not in ("none", "agents") else ""


def _phase_at(known: Known) -> str:
    """Which phase the work is in, of how many, and how much of the plan that is."""
    core = known.core
    of = "" if not core.plan_total else f" of {core.plan_total}"
    if known.budget < TIGHT:
        return f"{core.plan_unit} {core.phase}{of}"
    step = known.state.step(core.phase_step(core.phase or 0))
    named = f": {step.title}" if step and step.title else ""
    share = f" ({round(progress(known.state)[0] * 100)}%)" if core.plan_total else ""
    return f"{core.plan_unit} {core.phase}{of}{named}{share}"


def _step_at_work(known: Known) -> str:
    step = _first_step(known.state, "running", inside=known.core.is_phased)
    return f"{step.id} is running{percent(step.fraction)}" if step else ""


def _agents_at_work(known: Known) -> str:
    dead, live = set(known.around.dead_agents), known.around.live_agents
    running = [name for name in summary(known.state)["running"] if name not in dead]
    more = known.state.count("agent.running") - len(running) - len(dead)
    rest = f" and {more} more" if running and more > 0 else ""
    word = "at work" if set(running) <= set(live) else "said to be at work"
    return f"agents {word}: {', '.join(running)}{rest}" if running else ""


def _others_at_work(known: Known) -> str:
    others = sum(word != "dead" for _, _, word in known.around.holders)
    number = "another process" if others == 1 else f"{others} other processes"
    return f"{number} may be working on it" if others else ""


def _step(known: Known, found: list[Topic]) -> str:
    """The next step; where words are dear, without those that stand under the blockers."""
    step = next_step(known.state)
    told = {entry.id for topic in found if topic.name == "blockers" for entry in topic.entries}
    name = step.partition(":")[0]
    return name if known.budget < TIGHT and name.rpartition(" ")[2] in told else step
