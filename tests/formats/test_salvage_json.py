"""JSON with slips that leave no doubt of what was meant is read whole, in every layout."""

from __future__ import annotations

import json
from typing import Any

import pytest

from forestay.formats.port import Where, load_format
from forestay.formats.text.salvage_json import recover
from tests.formats.test_pairs import STORIES

PLAIN: dict[str, Any] = {"goal": "C:\\kim", "list": [1, {"a": None}], "on": True, "end": "x"}
TEXT = json.dumps(PLAIN, indent=2)

# What happened → the text, and what is said of it.
SLIPS: dict[str, tuple[str, dict[str, Any]]] = {
    "a backslash that escapes nothing": (TEXT.replace("C:\\\\kim", "C:\\kim"), PLAIN),
    "half an escape": (TEXT.replace('"x"', '"\\u12"'), {**PLAIN, "end": "\\u12"}),
    "a comma too many in a list": (TEXT.replace("    }\n  ]", "    },\n  ]"), PLAIN),
    "a comma too many at the end": (TEXT.replace('"x"\n', '"x",\n'), PLAIN),
    "a comma too few": (TEXT.replace("true,", "true"), PLAIN),
    "no number": (TEXT.replace("1,", "NaN,"), {**PLAIN, "list": [None, {"a": None}]}),
    "words of Python": (TEXT.replace("null", "None").replace("true", "True"), PLAIN),
    "a remark": (TEXT.replace("true,", "true, // since noon"), PLAIN),
    "a text that looks like slips": (
        TEXT.replace('"x"', '"see https://x, ] None"'),
        {**PLAIN, "end": "see https://x, ] None"},
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_mistake_loses_nothing_around_it(slip: str) -> None:
    text, said = SLIPS[slip]
    found = recover(text.encode())
    assert found is not None and found.whole and found.value == said


def test_mistake_before_the_damage_loses_nothing_between_them() -> None:
    text = TEXT.replace("C:\\\\kim", "C:\\kim").replace('"x"\n}', '"x')
    found = recover(text.encode())
    assert found is not None and not found.whole
    assert found.value == {key: value for key, value in PLAIN.items() if key != "end"}


@pytest.mark.parametrize("story", [name for name in STORIES if not name.startswith(("ai", "es"))])
def test_mistake_in_a_session_file_loses_nothing(story: str) -> None:
    format = load_format(story.partition("/")[0])
    ((name, data),) = STORIES[story].items()
    assert data.rstrip().endswith(b"}")
    saved = format.salvage({name: data.rstrip()[:-1] + b",}"}, Where())
    assert saved is not None and saved.level == "whole"
    assert saved.facts == format.get({name: json.loads(data)}, Where())


def test_any_number_of_mistakes_is_repaired_in_bounded_time() -> None:
    for noise in (",", '"\\', "//", "/*", '"\n', "NaN ", "\\", "1\n"):
        recover(b"{" + noise.encode() * 50_000)
