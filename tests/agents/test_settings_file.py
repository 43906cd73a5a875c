"""Edits of another program's settings: our entry is added or removed, all else stays."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forestay.agents import settings_file
from forestay.agents.settings_file import Unsplicable

ITEM = {"hooks": [{"type": "command", "command": "/x/forestay-hook"}]}
PATH = ["hooks", "Stop"]

_KEYS = st.sampled_from(["hooks", "Stop", "a", "model", 'q"uote', "ü", "x/*y", "//"])
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(_KEYS.filter(lambda key: key not in PATH), inner, max_size=3)
    ),
    max_leaves=8,
)
_OTHERS = st.dictionaries(_KEYS.filter(lambda key: key not in PATH), _VALUES, max_size=3)


@st.composite
def files(draw: st.DrawFn) -> tuple[str, Any]:
    """A settings file as programs and people write them, and its value."""
    value: Any = draw(_OTHERS)
    if draw(st.booleans()):
        value["hooks"] = draw(_OTHERS)
        if draw(st.booleans()):
            value["hooks"]["Stop"] = draw(st.lists(_VALUES, max_size=2))
    indent = draw(st.sampled_from([None, 0, 2, 4, "\t"]))
    text = json.dumps(value, indent=indent, ensure_ascii=draw(st.booleans()))
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    before = draw(st.sampled_from(["", "\ufeff", " ", "// mine\n", "/* \n{ */ "]))
    after = draw(st.sampled_from(["", "\n", "\r\n", " // end", "\n/* } */"]))
    return f"{before}{text}{after}", value


def _is_ours(key: str, value: object) -> bool:
    return value == ITEM


@given(files())
def test_inserting_and_removing_restores_every_byte(file: tuple[str, Any]) -> None:
    text, _ = file
    there, made = settings_file.inserted(text, PATH, ITEM)
    assert settings_file.removed(there, PATH, _is_ours, made) == text


@given(files())
def test_inserted_entry_is_the_only_change(file: tuple[str, Any]) -> None:
    text, value = file
    there, _ = settings_file.inserted(text, PATH, ITEM)
    expected = json.loads(json.dumps(value))
    expected.setdefault("hooks", {}).setdefault("Stop", []).append(ITEM)
    assert settings_file.value_at(there, []) == expected


@given(files(), st.integers(0, 40), st.sampled_from(list('{}[]",:/*\\x\n')))
def test_invalid_json_is_refused_or_left_alone(file: tuple[str, Any], at: int, char: str) -> None:
    text = file[0][:at] + char + file[0][at:]
    try:
        there, made = settings_file.inserted(text, PATH, ITEM)
    except Unsplicable:
        return
    assert settings_file.removed(there, PATH, _is_ours, made) == text


def test_several_events_share_one_object_and_are_removed_together() -> None:
    text, made = '{\n  "model": "opus"\n}\n', []
    now = text
    for event in ("Stop", "SessionStart"):
        now, more = settings_file.inserted(now, ["hooks", event], ITEM)
        made += more
    assert settings_file.value_at(now, ["hooks"]) == {"Stop": [ITEM], "SessionStart": [ITEM]}
    for event in ("Stop", "SessionStart"):
        now = settings_file.removed(now, ["hooks", event], _is_ours, made)
    assert now == text


def test_an_empty_list_that_was_there_before_stays() -> None:
    text = '{"hooks": {"Stop": []}}'
    now, made = settings_file.inserted(text, PATH, ITEM)
    assert settings_file.removed(now, PATH, _is_ours, made) == text
    assert settings_file.removed(now, PATH, _is_ours) == "{}", (
        "unknown origin: nothing empty is left"
    )


def test_new_entries_have_the_style_of_their_neighbours() -> None:
    text = '{\n\t"hooks": {\n\t\t"Stop": [\n\t\t\t{"mine": 1}\n\t\t]\n\t}\n}\n'
    now, _ = settings_file.inserted(text, PATH, ITEM)
    assert '\n\t\t\t{\n\t\t\t\t"hooks": [\n' in now


def test_comments_and_trailing_commas_survive() -> None:
    text = '{\n  // my model\n  "model": "x", /* y */\n  "hooks": {"Stop": [{"a": 1},],},\n}\n'
    now, made = settings_file.inserted(text, PATH, ITEM)
    assert settings_file.entries(now, PATH) == [("", {"a": 1}), ("", ITEM)]
    assert settings_file.removed(now, PATH, _is_ours, made) == text


@pytest.mark.parametrize(
    "text",
    ["", "  ", "[]", '"x"', '{"hooks": []}', '{"hooks": {"Stop": {}}}', "{", '{"a" 1}', "[" * 500],
)
def test_settings_that_cannot_contain_our_entry_are_refused(text: str) -> None:
    with pytest.raises(Unsplicable):
        settings_file.inserted(text, PATH, ITEM)
