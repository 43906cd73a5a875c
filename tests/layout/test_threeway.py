"""Texts that could not be kept whole: found again among those that came, in little time."""

import random

from holdfast.intake import remains
from holdfast.layout.threeway import _substitutes
from holdfast.redact import Redactor

REDACTOR = Redactor()
PARTS = ["Fix", "\tlog in", "two\nlines", " ", "\x07", "ghp_" + "a1B2" * 9, "long " * 30, "…", ""]
LONGEST = 40


def kept(text: str) -> list[str]:
    return remains(text, REDACTOR)


def cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def is_left_of(original: str, text: str) -> bool:
    """The rule, one text against another."""
    odd = not original.isprintable() or original != original.strip()
    if not (odd or text.endswith("…") or "[redacted:" in text):
        return False
    wholes = kept(original)
    return text in wholes or (
        text.endswith("…") and any(whole.startswith(text[:-1]) for whole in wholes)
    )


def test_each_text_has_the_last_one_that_may_have_been_made_of_it() -> None:
    chance = random.Random(7)
    found = 0
    for _ in range(60):
        old = ["".join(chance.choices(PARTS, k=chance.randint(1, 4))) for _ in range(8)]
        new = [cut(chance.choice(kept(text))) for text in old] + chance.choices(PARTS, k=3)
        gone, came = dict.fromkeys(old), dict.fromkeys(new)
        rule = {
            a: b for a in gone for b in came if a not in came if b not in gone if is_left_of(a, b)
        }
        assert _substitutes(gone, came, kept) == rule
        found += len(rule)
    assert found > 60


def test_thousands_of_edited_texts_are_each_looked_at_once() -> None:
    asked: list[str] = []

    def once(text: str) -> list[str]:
        asked.append(text)
        return [text.strip()]

    old = dict.fromkeys(f" task {n} " for n in range(3000))
    new = dict.fromkeys(text.strip() for text in old)
    assert _substitutes(old, new, once) == {text: text.strip() for text in old}
    assert len(asked) == len(old)
