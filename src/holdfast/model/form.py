"""Forms: how a briefing is written down, as plain text, as markdown or as JSON.

A form turns the parts of a page into lines: the head, a *field* (goal, where, next), a heading,
an entry, the foot that counts what is missing. Each part is a whole line or, in JSON, a whole
member, so the price of a page is at most the sum of the prices of its parts.

The words of a session become one line each by `text.one_line`: no line break of theirs begins a
line of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from holdfast.model.tokens import cost
from holdfast.model.topics import ROOMY, TIGHT, Entry, Topic
from holdfast.text import one_line

_MARKUP = r"([\\`*<\[\]])"
_WORD_END = 16
"""How far back a cut may go to end at a word."""


class Shown(Struct, frozen=True):
    """An entry as it was fitted: `text` is one line, or a fenced block of several."""

    id: str
    text: str
    cut: bool = False
    is_block: bool = False


class Page(Struct):
    """Everything a finished briefing says, before it is written down."""

    session: str
    status: str
    since: str
    facts: dict[str, int | float]
    fields: dict[str, Shown] = {}
    sections: list[tuple[Topic, list[Shown]]] = []
    totals: dict[str, int] = {}


def clip(text: str, limit: int, price: Callable[[str], int]) -> str:
    """The longest beginning of the text, with …, that costs at most `limit`; "" if none does."""
    low, high = 0, min(len(text), 3 * limit)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if price(text[:middle] + "…") <= limit else (low, middle - 1)
    space = text.rfind(" ", max(0, low - _WORD_END), low + 1)
    end = space if space > 0 else low
    return text[:end].rstrip(" ,;:(") + "…" if end else ""


class Form:
    """Plain text, and what the other forms have in common with it."""

    takes_blocks = True
    least_entry = 14
    """What an entry needs to say anything."""

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

    def heading(self, topic: Topic, shown: int) -> str:
        return f"{self.gap}{topic.title}{self.remark(topic, shown)}:\n"

    def remark(self, topic: Topic, shown: int) -> str:
        """What a heading adds: how much is missing and, where there is room, advice."""
        missing = f"{topic.total}, {shown} shown" if shown < topic.total else ""
        parts = [missing, topic.hint, f"see: {topic.see}" * bool(missing)]
        told = "; ".join(filter(None, parts if self.airy else [missing]))
        return f" ({told})" if told else ""

    def entry(self, topic: Topic, shown: Shown) -> str:
        if shown.text == shown.id:
            return f"- {self.name(shown.id)}\n"
        name = f"{self.name(shown.id)}:" if shown.id else ""
        text = f"\n{shown.text}" if shown.is_block else f" {self.safe(shown.text)}"
        return f"- {name}{text if name else text.lstrip()}\n"

    def foot(self, hidden: Sequence[Topic]) -> str:
        """Counts the sections of which nothing is shown."""
        what = ", ".join(f"{topic.name.replace('_', ' ')} {topic.total}" for topic in hidden)
        return f"{self.gap}Not shown: {what}; see: {_commands(hidden)}\n"

    def short_foot(self, missing: int, see: str) -> str:
        if self.tight:
            return f"{missing} more: {see}\n"
        return f"{self.gap}Not shown: {missing} more; see: {see}\n"

    # -- what the parts are made of --

    @property
    def keeps_entries(self) -> bool:
        """Whether each mandatory section is kept room for an entry, besides its count."""
        return True

    @property
    def gap(self) -> str:
        return "\n" if self.airy else ""

    def safe(self, text: str) -> str:
        return text

    def name(self, id: str) -> str:
        return id

    # -- fitting and writing --

    def fit(self, topic: Topic, entry: Entry, limit: int) -> Shown | None:
        """The entry in at most `limit` tokens, cut if need be; None if not even a word fits."""
        block = Shown(one_line(entry.id), entry.block, is_block=True)
        if entry.block and self.takes_blocks and cost(self.entry(topic, block)) <= limit:
            return block
        return self.fit_line(entry, limit, lambda shown: self.entry(topic, shown))

    def fit_field(self, name: str, entry: Entry, limit: int) -> Shown | None:
        if entry.block and self.takes_blocks:
            block = Shown(name, f"\n{entry.block}", is_block=True)
            if cost(self.field(name, block.text)) <= limit:
                return block
        return self.fit_line(entry, limit, lambda shown: self.field(name, shown.text))

    def fit_line(self, entry: Entry, limit: int, write: Callable[[Shown], str]) -> Shown | None:
        lead, tail = one_line(entry.lead), _spaced(entry.tail)
        text, name = one_line(entry.text[: 16 * limit]), one_line(entry.id)

        def whole(text: str) -> str:
            return f"{lead}{text}{tail}".strip()

        def price(text: str) -> int:
            return cost(write(Shown(name, whole(text))))

        if len(entry.text) <= 16 * limit and price(text) <= limit:
            return Shown(name, whole(text))
        text = clip(text, limit, price)
        return Shown(name, whole(text), cut=True) if text else None

    def write(self, page: Page, foot: str) -> str:
        parts = [self.head(page)]
        parts += [self.field(name, shown.text) for name, shown in page.fields.items()]
        for topic, shown in page.sections:
            parts.append(self.heading(topic, len(shown)))
            parts += [self.entry(topic, each) for each in shown]
        return "".join([*parts, foot])


def _spaced(tail: str) -> str:
    """A tail as one line that keeps the space it begins with."""
    return (" " if tail.startswith(" ") else "") + one_line(tail)


def _commands(hidden: Sequence[Topic]) -> str:
    return ", ".join(dict.fromkeys(topic.see for topic in hidden))


class Markdown(Form):
    """The same with headings, bold labels and ids as code."""

    def head(self, page: Page) -> str:
        return f"# Session `{page.session}`: {page.status}{page.since}\n\n"

    def field(self, name: str, text: str) -> str:
        return f"**{name.capitalize()}**: {self.safe(text)}  \n"

    def heading(self, topic: Topic, shown: int) -> str:
        return f"\n## {topic.title}{self.remark(topic, shown)}\n\n"

    @property
    def gap(self) -> str:
        return "\n"

    def safe(self, text: str) -> str:
        return text if text.startswith("\n") else re.sub(_MARKUP, r"\\\1", text)

    def name(self, id: str) -> str:
        return f"`{id.replace('`', ' ')}`"


class Json(Form):
    """One object. `totals` counts every section that is there, `items` holds what is shown."""

    takes_blocks = False
    least_entry = 26

    @property
    def keeps_entries(self) -> bool:
        return self.airy

    def head(self, page: Page) -> str:
        start = {"holdfast": 1, "session": page.session, "status": page.status, **page.facts}
        return f'{_json(start)[:-1]},"totals":{{}},"items":[]}}\n'

    def field(self, name: str, text: str) -> str:
        return f'"{name}":{_json(text)},'

    def heading(self, topic: Topic, shown: int) -> str:
        return f'"{topic.name}":{topic.total},'

    def entry(self, topic: Topic, shown: Shown) -> str:
        return _json(_item(topic, shown)) + ","

    def foot(self, hidden: Sequence[Topic]) -> str:
        counts = {topic.name: topic.total for topic in hidden}
        return f'"not_shown":{_json(counts)},"see":{_json(_commands(hidden))},'

    def short_foot(self, missing: int, see: str) -> str:
        command = f'"see":{_json(see)},' if self.airy else ""
        return f'"not_shown":{missing},{command}'

    def write(self, page: Page, foot: str) -> str:
        told: dict[str, object] = {"holdfast": 1, "session": page.session, "status": page.status}
        told |= {name: shown.text for name, shown in page.fields.items()}
        told |= page.facts
        told["totals"] = {topic.name: topic.total for topic, _ in page.sections}
        told["items"] = [_item(topic, each) for topic, shown in page.sections for each in shown]
        if foot:
            told |= msgspec.json.decode("{" + foot[:-1] + "}")
        return _json(told) + "\n"


def _item(topic: Topic, shown: Shown) -> dict[str, object]:
    item: dict[str, object] = {"section": topic.name, "id": shown.id, "text": shown.text}
    return {**item, "cut": True} if shown.cut else item


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


FORMS: dict[str, type[Form]] = {"text": Form, "markdown": Markdown, "json": Json}
