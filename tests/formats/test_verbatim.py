"""Verbatim: texts that could not be kept whole."""

import random

import pytest

from forestay.base.redact import Redactor
from forestay.formats.verbatim import _substitutes
from forestay.journal.validate_input import admit, remains
from forestay.model import event as ev

REDACTOR = Redactor()
PARTS = ["Fix", "\tlog in", "two\nlines", " ", "\x07", "ghp_" + "a1B2" * 9, "long " * 900, "…", ""]


def kept(text: str) -> list[str]:
    return remains(text, REDACTOR)


def is_left_of(original: str, text: str) -> bool:
    """The rule, one text against another."""
    odd = not original.isprintable() or original != original.strip()
    if not (odd or text.endswith("…") or "[redacted:" in text):
        return False
    return text in kept(original)


def test_each_text_has_those_that_may_have_been_made_of_it() -> None:
    chance = random.Random(7)
    found = 0
    for _ in range(60):
        old = ["".join(chance.choices(PARTS, k=chance.randint(1, 4))) for _ in range(8)]
        new = [chance.choice(kept(text)) for text in old] + chance.choices(PARTS, k=3)
        gone, came = dict.fromkeys(old), dict.fromkeys(new)
        rule = {a: [b for b in came if a != b and is_left_of(a, b)] for a in gone}
        assert _substitutes(gone, came, kept) == {a: left for a, left in rule.items() if left}
        found += len(rule)
    assert found > 60


LONG = "words " * 2000


@pytest.mark.parametrize(
    "said",
    [
        ev.SessionRenamed(goal=LONG),
        ev.StepAdded(step=LONG, title=LONG),
        ev.NoteAdded(text=LONG * 3),
    ],
    ids=lambda said: type(said).__name__,
)
def test_a_text_that_is_too_long_is_known_by_its_beginning(said: ev.Body) -> None:
    was = admit(said, REDACTOR, foreign=True)
    texts = [
        getattr(was, field) for field in ("goal", "step", "title", "text") if field in dir(was)
    ]
    assert all(text.endswith("…") for text in texts)
    assert set(texts) <= {*kept(LONG), *kept(LONG * 3)}


@pytest.mark.parametrize("text", ["…", "words…", f"{LONG[:70]}…"])
def test_who_ends_a_text_with_three_dots_has_not_cut_another(text: str) -> None:
    assert _substitutes({LONG: None, "words words words": None}, {text: None}, kept) == {}


def test_thousands_of_edited_texts_are_each_looked_at_once() -> None:
    asked: list[str] = []

    def once(text: str) -> list[str]:
        asked.append(text)
        return [text.strip()]

    old = dict.fromkeys(f" task {n} " for n in range(3000))
    new = dict.fromkeys(text.strip() for text in old)
    assert _substitutes(old, new, once) == {text: [text.strip()] for text in old}
    assert len(asked) == len(old)
