"""Three-way: texts that could not be kept whole, and which version an edit was made from."""

import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.intake import remains
from holdfast.layout.threeway import _substitutes, nearest, was_read
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


def test_each_text_has_those_that_may_have_been_made_of_it() -> None:
    chance = random.Random(7)
    found = 0
    for _ in range(60):
        old = ["".join(chance.choices(PARTS, k=chance.randint(1, 4))) for _ in range(8)]
        new = [cut(chance.choice(kept(text))) for text in old] + chance.choices(PARTS, k=3)
        gone, came = dict.fromkeys(old), dict.fromkeys(new)
        rule = {a: [b for b in came if a != b and is_left_of(a, b)] for a in gone}
        assert _substitutes(gone, came, kept) == {a: left for a, left in rule.items() if left}
        found += len(rule)
    assert found > 60


def test_thousands_of_edited_texts_are_each_looked_at_once() -> None:
    asked: list[str] = []

    def once(text: str) -> list[str]:
        asked.append(text)
        return [text.strip()]

    old = dict.fromkeys(f" task {n} " for n in range(3000))
    new = dict.fromkeys(text.strip() for text in old)
    assert _substitutes(old, new, once) == {text: [text.strip()] for text in old}
    assert len(asked) == len(old)


# -- which version was read --------------------------------------------------------------------

T1, T2, T3 = (f"2027-01-15T08:00:0{second}Z" for second in (1, 2, 3))
NEWEST = {"updated": T2, "status": "paused", "tasks": ["a", "b"], "x": {"deep": 1}, "in": {"n": 2}}
OLDER = {"updated": T1, "status": "active", "tasks": ["a"], "in": {"n": 1}}


@pytest.mark.parametrize(
    "found, is_newest",
    [
        ({**OLDER, "updated": T2}, False),
        ({key: value for key, value in NEWEST.items() if key != "x"}, True),
        ({"updated": T2, "status": "failed", "tasks": ["a", "c"]}, True),
        ({**NEWEST, "updated": T3}, False),
        ({**NEWEST, "updated": T1}, False),
        ({**NEWEST, "in": {"n": 1}}, False),
        ({"status": "paused", "tasks": ["a", "b"]}, False),
        (OLDER, False),
        ({}, False),
    ],
)
def test_an_edit_with_a_time_of_the_newest_version_and_nothing_of_the_older_was_made_from_it(
    found: dict[str, Any], is_newest: bool
) -> None:
    assert was_read(NEWEST, OLDER, found) is is_newest


def test_an_element_that_only_the_older_version_has_tells_that_it_was_read() -> None:
    newest, older = {"at": T2, "tasks": ["b"]}, {"at": T1, "tasks": ["a"]}
    assert not was_read(newest, older, {"at": T2, "tasks": ["a", "c"]})
    assert was_read(newest, older, {"at": T2, "tasks": ["b", "c"]})


def test_what_an_edit_was_made_from_costs_little_more_than_to_part_its_lines() -> None:
    def cost(act: Callable[[], object]) -> float:
        began = time.process_time()
        act()
        return time.process_time() - began

    data = b"# x\n" * 1_000_000
    least = min(cost(data.splitlines) for _ in range(5))
    assert min(cost(lambda: nearest(data, [data])) for _ in range(5)) < 6 * least
