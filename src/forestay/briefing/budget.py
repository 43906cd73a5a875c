"""Spend a budget of tokens on the sections of a briefing.

The fields of the core come first, then the sections in order of value. Each section can use its
*share* of the remaining tokens, so that a long section cannot displace those after it, but always
gets its *floor* of entries while there is room. Then tokens that are left are spent in the same
order. Room for the mandatory sections is reserved in advance: at least their count is stated.

Every part is charged its highest possible cost before it is written, so the page cannot cost more
than the budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from forestay.base.text import one_line
from forestay.briefing.render import FittedEntry, Page, TextRenderer
from forestay.briefing.sections import MANDATORY, Entry, Section
from forestay.briefing.token_estimate import ONCE, cost, estimate

_SHARE = 0.4
_PER_TOKEN = 6
_NO_LIMIT = 1_000_000
_SLACK = 4
"""Tokens held back for counts that turn out to have more digits than charged."""

_WEIGHTS = {"next": 0.5, "goal": 0.35, "where": 0.15}
"""The share of each field, the most valuable first; a field can use tokens left before it."""
_WIDE = {"for_next": 3, "asked": 2}
"""Sections whose entries can be longer than those of other sections."""


def fill_page(
    page: Page,
    fields: Mapping[str, Entry],
    found: Sequence[Section],
    form: TextRenderer,
    budget: int,
) -> str:
    """Fill the page with as many statements as the budget allows, and return its text."""
    if sum(len(entry.text) for topic in found for entry in topic.entries) < budget * _PER_TOKEN:
        # Shares and limits apply only if the whole briefing does not fit.
        whole = _fill(page, fields, found, form, _NO_LIMIT)
        if estimate(whole) <= budget:
            return whole
    return _fill(page, fields, found, form, budget)


def _fill(
    page: Page,
    fields: Mapping[str, Entry],
    found: Sequence[Section],
    form: TextRenderer,
    budget: int,
) -> str:
    purse = BudgetFiller(form, budget)
    purse.charge(form.head(page))
    page.fields = purse.buy_fields(fields, purse.reserve_for(found))
    for share in (_SHARE, 1.0):
        for topic in found:
            purse.buy(topic, share)
    page.fields = purse.widen_fields(fields, page.fields)
    found = purse.drop_repeats(found)
    page.sections = purse.sections(found)
    page.totals = {topic.name: topic.total for topic in found}
    text = purse.form.write(page, purse.foot(page, found))
    while estimate(text) > budget and any(shown for _, shown in page.sections):
        # Not reached while costs are upper bounds; a briefing over its budget would be worse.
        next(shown for _, shown in reversed(page.sections) if shown).pop()
        text = purse.form.write(page, purse.foot(page, found))
    return text


class BudgetFiller:
    """The remaining tokens of a budget, and the entries chosen so far."""

    def __init__(self, form: TextRenderer, budget: int) -> None:
        self.form = form
        self._left = budget - ONCE
        self._entry_limit = max(32, budget // 6)
        self._field_limit = max(48, budget // 4)
        self._reserved_for_foot = 0
        self._owed: dict[str, int] = {}
        self._bought: dict[str, list[FittedEntry]] = {}
        self._openings: dict[str, int] = {}

    def charge(self, part: str) -> None:
        self._left -= cost(part)

    def reserve_for(self, found: Sequence[Section]) -> int:
        """Reserve the cost of the foot; return the tokens that fields must leave to sections."""
        if found:
            missing = sum(topic.total for topic in found)
            see = max((topic.see for topic in found), key=cost)
            self._reserved_for_foot = cost(self.form.short_foot(missing, see))
            self._left -= self._reserved_for_foot
        least = self.form.least_entry if self.form.reserves_entries else 0
        needed = [topic for topic in found if topic.name in MANDATORY]
        self._owed = {topic.name: self._least(topic, least) for topic in needed}
        return sum(self._owed.values())

    # -- fields --

    def buy_fields(self, fields: Mapping[str, Entry], reserved: int) -> dict[str, FittedEntry]:
        frames = {n: cost(self.form.field(n, f"{e.lead}…{e.tail}")) for n, e in fields.items()}
        room, weight = self._left - reserved - sum(frames.values()), sum(_WEIGHTS.values())
        bought: dict[str, FittedEntry] = {}
        for name in _WEIGHTS:
            entry = fields[name]
            share = int(room * _WEIGHTS[name] / weight)
            bought[name] = self._fit_field(name, entry, frames[name] + share)
            price = cost(self.form.field(name, bought[name].text))
            room, weight = room - (price - frames[name]), weight - _WEIGHTS[name]
            self._left -= price
        return {name: bought[name] for name in fields}

    def widen_fields(
        self, fields: Mapping[str, Entry], bought: Mapping[str, FittedEntry]
    ) -> dict[str, FittedEntry]:
        """Use the remaining tokens to show more of a field that was cut."""
        wider = dict(bought)
        for name, shown in bought.items():
            if shown.cut and self._left > 0:
                paid = cost(self.form.field(name, shown.text))
                wider[name] = self._fit_field(name, fields[name], paid + self._left)
                self._left += paid - cost(self.form.field(name, wider[name].text))
        return wider

    def _fit_field(self, name: str, entry: Entry, limit: int) -> FittedEntry:
        limit = min(self._field_limit, limit)
        return self.form.fit_field(name, entry, limit) or FittedEntry(name, "…", cut=True)

    # -- sections --

    def _opening(self, topic: Section) -> int:
        return cost(self.form.heading(topic, 1)) + (_SLACK if topic.total > 9 else 0)

    def _least(self, topic: Section, entry: int) -> int:
        """Return the least cost of a section: its count, or one entry under its heading."""
        return max(cost(self.form.heading(topic, 0)), self._opening(topic) + entry)

    def buy(self, topic: Section, share: float) -> None:
        """Spend tokens on entries of a section: its floor, then up to a share of the rest."""
        allowance = int(self._left * share)
        bought = self._bought.setdefault(topic.name, [])
        self._owed.pop(topic.name, None)
        owed = sum(self._owed.values())
        wide = self._entry_limit * _WIDE.get(topic.name, 1)
        for entry in self._remaining(topic, bought):
            opening = _SLACK if bought else self._opening(topic)
            left = self._left - owed
            room = left if len(bought) < topic.floor else min(left, allowance)
            most = min(room - opening, wide)
            shown = self.form.fit(topic, entry, most) if most >= self.form.least_entry else None
            if shown is None or (shown.cut and most < wide and bought):
                break
            price = cost(self.form.entry(topic, shown))
            self._left, allowance = self._left - price, allowance - price
            bought.append(shown)
            self._charge_heading(topic, len(bought))
        if topic.name in MANDATORY:
            self._charge_heading(topic, len(bought))

    def _charge_heading(self, topic: Section, shown: int) -> None:
        """Charge the difference when a heading's cost changes with its count."""
        price = cost(self.form.heading(topic, shown))
        self._left += self._openings.get(topic.name, 0) - price
        self._openings[topic.name] = price

    def _remaining(self, topic: Section, bought: Sequence[FittedEntry]) -> list[Entry]:
        if topic.name != "rejected":
            return topic.entries[len(bought) :]
        shown_ids = self._whole_decisions() | {shown.id for shown in bought}
        return [entry for entry in topic.entries if one_line(entry.id) not in shown_ids]

    # -- the end --

    def drop_repeats(self, found: Sequence[Section]) -> list[Section]:
        """Return the sections without entries that repeat a decision which is shown in full."""
        shown_ids = self._whole_decisions()
        remaining = []
        for topic in found:
            if topic.name == "rejected":
                rest = [entry for entry in topic.entries if one_line(entry.id) not in shown_ids]
                topic = replace(topic, entries=rest, total=len(rest))
            remaining.append(topic)
        return [topic for topic in remaining if topic.entries]

    def sections(self, found: Sequence[Section]) -> list[tuple[Section, list[FittedEntry]]]:
        """Return the sections to write, each with the entries that fit."""
        sections = []
        for topic in found:
            names = {one_line(entry.id) for entry in topic.entries}
            shown = [each for each in self._bought[topic.name] if each.id in names]
            if shown or topic.name in MANDATORY:
                sections.append((topic, shown))
        return sections

    def foot(self, page: Page, found: Sequence[Section]) -> str:
        """Return the line that counts entries not shown: by section if that fits, else in all."""
        shown = {topic.name: len(entries) for topic, entries in page.sections}
        short = [topic for topic in found if shown.get(topic.name, 0) < topic.total]
        hidden = [topic for topic in short if topic.name not in shown]
        if not short or (self.form.airy and not hidden):
            return ""
        missing = sum(topic.total - shown.get(topic.name, 0) for topic in short)
        whole = self.form.foot(hidden) if hidden else ""
        if whole and cost(whole) <= self._left + self._reserved_for_foot:
            return whole
        return self.form.short_foot(missing, short[0].see)

    def _whole_decisions(self) -> set[str]:
        return {shown.id for shown in self._bought.get("decisions", []) if not shown.cut}
