"""Render a briefing as plain text, markdown or JSON.

A renderer turns the parts of a page into lines: the head, a *field* (goal, where, next), a heading,
an entry, the foot that counts what is missing. Each part is a whole line or, in JSON, a whole
member, so the cost of a page is at most the sum of the costs of its parts.

Texts of a session become one line each by `text.one_line`: none of their line breaks can begin a
line of the briefing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from forestay.base.text import one_line
from forestay.briefing.sections import ROOMY, TIGHT, Entry, Section
from forestay.briefing.token_estimate import cost

_MARKUP = r"([\\`*<\[\]])"
_WORD_END = 16
"""The most characters that a cut moves back in order to end at a word."""


class FittedEntry(Struct, frozen=True):
    """An entry cut to its space: `text` is one line, or a fenced block of several lines."""

    id: str
    text: str
    cut: bool = False
    is_block: bool = False


class Page(Struct):
    """Everything a finished briefing states, before it is rendered."""

    session: str
    status: str
    since: str
    facts: dict[str, int | float]
    fields: dict[str, FittedEntry] = {}
    sections: list[tuple[Section, list[FittedEntry]]] = []
    totals: dict[str, int] = {}


def clip(text: str, limit: int, price: Callable[[str], int]) -> str:
    """Return the longest beginning of the text, plus "…", with a price up to `limit`, or ""."""
    low, high = 0, min(len(text), 3 * limit)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if price(text[:middle] + "…") <= limit else (low, middle - 1)
    space = text.rfind(" ", max(0, low - _WORD_END), low + 1)
    end = space if space > 0 else low
    return text[:end].rstrip(" ,;:(") + "…" if end else ""


class TextRenderer:
    """Renders plain text; the base class of the other renderers."""

    allows_blocks = True
    least_entry = 14
    """The least tokens of a useful entry."""

    def __init__(self, budget: int) -> None:
        self.airy = budget >= ROOMY
        self.tight = budget < TIGHT
        if self.tight and self.least_entry < 20:
            self.least_entry = 13

    # -- parts, each with its line end --

    def head(self, page: Page) -> str:
        return f"Session {page.session}: {page.status}{page.since}\n"

    def field(self, name: str, text: str) -> str:
        return f"{name.capitalize()}: {self.safe(text)}\n"

    def heading(self, topic: Section, shown: int) -> str:
        return f"{self.gap}{topic.title}{self.remark(topic, shown)}:\n"

    def remark(self, topic: Section, shown: int) -> str:
        """Return the remark after a heading: the missing entries and, if there is room, a hint."""
        missing = f"{topic.total}, {shown} shown" if shown < topic.total else ""
        parts = [missing, topic.hint, f"see: {topic.see}" * bool(missing)]
        text = "; ".join(filter(None, parts if self.airy else [missing]))
        return f" ({text})" if text else ""

    def entry(self, topic: Section, shown: FittedEntry) -> str:
        if shown.text == shown.id:
            return f"- {self.name(shown.id)}\n"
        name = f"{self.name(shown.id)}:" if shown.id else ""
        text = f"\n{shown.text}" if shown.is_block else f" {self.safe(shown.text)}"
        return f"- {name}{text if name else text.lstrip()}\n"

    def foot(self, hidden: Sequence[Section]) -> str:
        """Return the line that names the sections of which nothing is shown, with their counts."""
        what = ", ".join(f"{topic.name.replace('_', ' ')} {topic.total}" for topic in hidden)
        return f"{self.gap}Not shown: {what}; see: {_commands(hidden)}\n"

    def short_foot(self, missing: int, see: str) -> str:
        if self.tight:
            return f"{missing} more: {see}\n"
        return f"{self.gap}Not shown: {missing} more; see: {see}\n"

    # -- what the parts are made of --

    @property
    def reserves_entries(self) -> bool:
        """Return whether room for one entry is reserved for each mandatory section."""
        return True

    @property
    def gap(self) -> str:
        return "\n" if self.airy else ""

    def safe(self, text: str) -> str:
        return text

    def name(self, id: str) -> str:
        return id

    # -- fitting and writing --

    def fit(self, topic: Section, entry: Entry, limit: int) -> FittedEntry | None:
        """Return the entry in at most `limit` tokens, cut if needed; None if nothing fits."""
        block = FittedEntry(one_line(entry.id), entry.block, is_block=True)
        if entry.block and self.allows_blocks and cost(self.entry(topic, block)) <= limit:
            return block
        return self.fit_line(entry, limit, lambda shown: self.entry(topic, shown))

    def fit_field(self, name: str, entry: Entry, limit: int) -> FittedEntry | None:
        if entry.block and self.allows_blocks:
            block = FittedEntry(name, f"\n{entry.block}", is_block=True)
            if cost(self.field(name, block.text)) <= limit:
                return block
        return self.fit_line(entry, limit, lambda shown: self.field(name, shown.text))

    def fit_line(
        self, entry: Entry, limit: int, write: Callable[[FittedEntry], str]
    ) -> FittedEntry | None:
        lead, space = one_line(entry.lead), " " if entry.tail.startswith(" ") else ""
        tail = space + one_line(entry.tail)
        text, name = one_line(entry.text[: 16 * limit]), one_line(entry.id)

        def whole(text: str) -> str:
            return f"{lead}{text}{tail}".strip()

        def price(text: str) -> int:
            return cost(write(FittedEntry(name, whole(text))))

        if len(entry.text) <= 16 * limit and price(text) <= limit:
            return FittedEntry(name, whole(text))
        text = clip(text, limit, price)
        return FittedEntry(name, whole(text), cut=True) if text else None

    def write(self, page: Page, foot: str) -> str:
        parts = [self.head(page)]
        parts += [self.field(name, shown.text) for name, shown in page.fields.items()]
        for topic, shown in page.sections:
            parts.append(self.heading(topic, len(shown)))
            parts += [self.entry(topic, each) for each in shown]
        return "".join([*parts, foot])


def _commands(hidden: Sequence[Section]) -> str:
    return ", ".join(dict.fromkeys(topic.see for topic in hidden))


class MarkdownRenderer(TextRenderer):
    """Renders markdown: headings, bold labels, and ids as code."""

    def head(self, page: Page) -> str:
        return f"# Session `{page.session}`: {page.status}{page.since}\n\n"

    def field(self, name: str, text: str) -> str:
        return f"**{name.capitalize()}**: {self.safe(text)}  \n"

    def heading(self, topic: Section, shown: int) -> str:
        return f"\n## {topic.title}{self.remark(topic, shown)}\n\n"

    @property
    def gap(self) -> str:
        return "\n"

    def safe(self, text: str) -> str:
        return text if text.startswith("\n") else re.sub(_MARKUP, r"\\\1", text)

    def name(self, id: str) -> str:
        return f"`{id.replace('`', ' ')}`"


class JsonRenderer(TextRenderer):
    """Renders one JSON object: `totals` counts every section, `items` are the shown entries."""

    allows_blocks = False
    least_entry = 26

    @property
    def reserves_entries(self) -> bool:
        return self.airy

    def head(self, page: Page) -> str:
        start = {"forestay": 1, "session": page.session, "status": page.status, **page.facts}
        return f'{_json(start)[:-1]},"totals":{{}},"items":[]}}\n'

    def field(self, name: str, text: str) -> str:
        return f'"{name}":{_json(text)},'

    def heading(self, topic: Section, shown: int) -> str:
        return f'"{topic.name}":{topic.total},'

    def entry(self, topic: Section, shown: FittedEntry) -> str:
        return _json(_item(topic, shown)) + ","

    def foot(self, hidden: Sequence[Section]) -> str:
        counts = {topic.name: topic.total for topic in hidden}
        return f'"not_shown":{_json(counts)},"see":{_json(_commands(hidden))},'

    def short_foot(self, missing: int, see: str) -> str:
        command = f'"see":{_json(see)},' if self.airy else ""
        return f'"not_shown":{missing},{command}'

    def write(self, page: Page, foot: str) -> str:
        data: dict[str, object] = {"forestay": 1, "session": page.session, "status": page.status}
        data |= {name: shown.text for name, shown in page.fields.items()}
        data |= page.facts
        data["totals"] = {topic.name: topic.total for topic, _ in page.sections}
        data["items"] = [_item(topic, each) for topic, shown in page.sections for each in shown]
        if foot:
            data |= msgspec.json.decode("{" + foot[:-1] + "}")
        return _json(data) + "\n"


def _item(topic: Section, shown: FittedEntry) -> dict[str, object]:
    item: dict[str, object] = {"section": topic.name, "id": shown.id, "text": shown.text}
    return {**item, "cut": True} if shown.cut else item


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


RENDERERS: dict[str, type[TextRenderer]] = {
    "text": TextRenderer,
    "markdown": MarkdownRenderer,
    "json": JsonRenderer,
}
