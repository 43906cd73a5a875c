"""Fit: spends a budget of tokens on what there is to say.

The fields of the core come first, then the sections in order of value. Each section may take its
*share* of what is left, so that a long one cannot silence those after it, but always gets its
*floor* of entries while there is room; what remains is then filled up in the same order. The
mandatory sections are kept room for in advance: at least their count is always told.

Every part is paid with its highest possible price before it is written, so the page cannot cost
more than the budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from holdfast.model.form import Form, Page, Shown
from holdfast.model.tokens import ONCE, cost, estimate
from holdfast.model.topics import MANDATORY, Entry, Topic
from holdfast.text import one_line

_SHARE = 0.4
_PER_TOKEN = 6
_NO_LIMIT = 1_000_000
_SLACK = 4
"""For counts that turn out to have more digits than the ones paid for."""

_WEIGHTS = {"next": 0.5, "goal": 0.35, "where": 0.15}
"""What each field may take of the room, the most valuable first: what one leaves, the next has."""
_WIDE = {"for_next": 3, "asked": 2}
"""Sections whose entries may be longer than others'."""


def fit(
    page: Page, fields: Mapping[str, Entry], found: Sequence[Topic], form: Form, budget: int
) -> str:
    """Fill the page with as much as the budget allows, and write it down."""
    if sum(len(entry.text) for topic in found for entry in topic.entries) < budget * _PER_TOKEN:
        # Shares and limits are for what does not fit as a whole.
        whole = _filled(page, fields, found, form, _NO_LIMIT)
        if estimate(whole) <= budget:
            return whole
    return _filled(page, fields, found, form, budget)


def _filled(
    page: Page, fields: Mapping[str, Entry], found: Sequence[Topic], form: Form, budget: int
) -> str:
    purse = Purse(form, budget)
    purse.pay(form.head(page))
    page.fields = purse.buy_fields(fields, purse.keep_for(found))
    purse.share_out(found)
    purse.fill_up(found)
    page.fields = purse.widen_fields(fields, page.fields)
    found = purse.without_repeats(found)
    page.sections = purse.sections(found)
    page.totals = {topic.name: topic.total for topic in found}
    return _within(page, purse, found, budget)


def _within(page: Page, purse: Purse, found: Sequence[Topic], budget: int) -> str:
    text = purse.form.write(page, purse.foot(page, found))
    while estimate(text) > budget and any(shown for _, shown in page.sections):
        # Not reached as long as prices are honest; a briefing over budget would be worse.
        next(shown for _, shown in reversed(page.sections) if shown).pop()
        text = purse.form.write(page, purse.foot(page, found))
    return text


class Purse:
    """What is left of a budget, and what was bought with the rest."""

    def __init__(self, form: Form, budget: int) -> None:
        self.form = form
        self._left = budget - ONCE
        self._entry_limit = max(32, budget // 6)
        self._field_limit = max(48, budget // 4)
        self._kept_for_foot = 0
        self._owed: dict[str, int] = {}
        self._bought: dict[str, list[Shown]] = {}
        self._openings: dict[str, int] = {}

    def pay(self, part: str) -> None:
        self._left -= cost(part)

    def keep_for(self, found: Sequence[Topic]) -> int:
        """Set the foot's price aside; returns what the fields must leave to the sections."""
        if found:
            missing = sum(topic.total for topic in found)
            see = max((topic.see for topic in found), key=cost)
            self._kept_for_foot = cost(self.form.short_foot(missing, see))
            self._left -= self._kept_for_foot
        least = self.form.least_entry if self.form.keeps_entries else 0
        needed = [topic for topic in found if topic.name in MANDATORY]
        self._owed = {topic.name: self._least(topic, least) for topic in needed}
        return sum(self._owed.values())

    # -- fields --

    def buy_fields(self, fields: Mapping[str, Entry], kept: int) -> dict[str, Shown]:
        frames = {n: cost(self.form.field(n, f"{e.lead}…{e.tail}")) for n, e in fields.items()}
        room, weight = self._left - kept - sum(frames.values()), sum(_WEIGHTS.values())
        bought: dict[str, Shown] = {}
        for name in _WEIGHTS:
            entry = fields[name]
            share = int(room * _WEIGHTS[name] / weight)
            bought[name] = self._fit_field(name, entry, frames[name] + share)
            price = cost(self.form.field(name, bought[name].text))
            room, weight = room - (price - frames[name]), weight - _WEIGHTS[name]
            self._left -= price
        return {name: bought[name] for name in fields}

    def widen_fields(
        self, fields: Mapping[str, Entry], bought: Mapping[str, Shown]
    ) -> dict[str, Shown]:
        """What nothing else could use lets a field that was cut say more."""
        wider = dict(bought)
        for name, shown in bought.items():
            if shown.cut and self._left > 0:
                paid = cost(self.form.field(name, shown.text))
                wider[name] = self._fit_field(name, fields[name], paid + self._left)
                self._left += paid - cost(self.form.field(name, wider[name].text))
        return wider

    def _fit_field(self, name: str, entry: Entry, limit: int) -> Shown:
        limit = min(self._field_limit, limit)
        return self.form.fit_field(name, entry, limit) or Shown(name, "…", cut=True)

    # -- sections --

    def share_out(self, found: Sequence[Topic]) -> None:
        for topic in found:
            self._buy(topic, int(self._left * _SHARE))

    def fill_up(self, found: Sequence[Topic]) -> None:
        for topic in found:
            self._buy(topic, self._left)

    def _opening(self, topic: Topic) -> int:
        return cost(self.form.heading(topic, 1)) + (_SLACK if topic.total > 9 else 0)

    def _least(self, topic: Topic, entry: int) -> int:
        """What a section needs to say anything: its count, or one entry under its heading."""
        return max(cost(self.form.heading(topic, 0)), self._opening(topic) + entry)

    def _buy(self, topic: Topic, allowance: int) -> None:
        taken = self._bought.setdefault(topic.name, [])
        self._owed.pop(topic.name, None)
        owed = sum(self._owed.values())
        wide = self._entry_limit * _WIDE.get(topic.name, 1)
        for entry in self._not_yet(topic, taken):
            opening = _SLACK if taken else self._opening(topic)
            left = self._left - owed
            room = left if len(taken) < topic.floor else min(left, allowance)
            most = min(room - opening, wide)
            shown = self.form.fit(topic, entry, most) if most >= self.form.least_entry else None
            if shown is None or (shown.cut and most < wide and taken):
                break
            price = cost(self.form.entry(topic, shown))
            self._left, allowance = self._left - price, allowance - price
            taken.append(shown)
            self._pay_heading(topic, len(taken))
        if topic.name in MANDATORY:
            self._pay_heading(topic, len(taken))

    def _pay_heading(self, topic: Topic, shown: int) -> None:
        """A heading's price changes with the count in it: the difference is settled here."""
        price = cost(self.form.heading(topic, shown))
        self._left += self._openings.get(topic.name, 0) - price
        self._openings[topic.name] = price

    def _not_yet(self, topic: Topic, taken: Sequence[Shown]) -> list[Entry]:
        if topic.name != "rejected":
            return topic.entries[len(taken) :]
        told = self._whole_decisions() | {shown.id for shown in taken}
        return [entry for entry in topic.entries if one_line(entry.id) not in told]

    # -- the end --

    def without_repeats(self, found: Sequence[Topic]) -> list[Topic]:
        """The topics without what a decision shown in full says already."""
        told = self._whole_decisions()
        kept = []
        for topic in found:
            if topic.name == "rejected":
                rest = [entry for entry in topic.entries if one_line(entry.id) not in told]
                topic = replace(topic, entries=rest, total=len(rest))
            kept.append(topic)
        return [topic for topic in kept if topic.entries]

    def sections(self, found: Sequence[Topic]) -> list[tuple[Topic, list[Shown]]]:
        """What was bought for each section that is to be written."""
        sections = []
        for topic in found:
            names = {one_line(entry.id) for entry in topic.entries}
            shown = [each for each in self._bought[topic.name] if each.id in names]
            if shown or topic.name in MANDATORY:
                sections.append((topic, shown))
        return sections

    def foot(self, page: Page, found: Sequence[Topic]) -> str:
        """Counts what is missing: section by section if that fits, else in one number."""
        shown = {topic.name: len(entries) for topic, entries in page.sections}
        short = [topic for topic in found if shown.get(topic.name, 0) < topic.total]
        hidden = [topic for topic in short if topic.name not in shown]
        if not short or (self.form.airy and not hidden):
            return ""
        missing = sum(topic.total - shown.get(topic.name, 0) for topic in short)
        whole = self.form.foot(hidden) if hidden else ""
        if whole and cost(whole) <= self._left + self._kept_for_foot:
            return whole
        return self.form.short_foot(missing, short[0].see)

    def _whole_decisions(self) -> set[str]:
        return {shown.id for shown in self._bought.get("decisions", []) if not shown.cut}
