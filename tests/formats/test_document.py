"""Documents: rewriting changes the values that differ and preserves the style of the file."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forestay.errors import InvalidInput
from forestay.formats import diff
from forestay.formats.text import style
from forestay.formats.text.document import Document, fresh
from forestay.formats.text.safe_parse import LEAF, MAP, Node, Unreadable
from tests.corpus import CORPUS, needs_corpus
from tests.formats.scribe import Scribe, keys, maps, scalars, values

BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")

often = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@st.composite
def edits(draw: st.DrawFn, value: Any) -> Any:
    """Return a value with a few places changed, removed, added or moved."""
    value = copy.deepcopy(value)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(places(value))
        if place is not None:
            change(draw, *place)
    return value


@st.composite
def places(draw: st.DrawFn, value: Any) -> tuple[Any, Any] | None:
    node = value
    while isinstance(node, (dict, list)) and node:
        choices = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = draw(st.sampled_from(choices))
        inner = node[key]
        if not (isinstance(inner, (dict, list)) and inner) or draw(st.booleans()):
            return node, key
        node = inner
    return None


def change(draw: st.DrawFn, node: Any, key: Any) -> None:
    what = draw(st.sampled_from(["set", "set", "remove", "add", "move"]))
    if what == "set":
        node[key] = draw(values)
    elif what == "remove":
        del node[key]
    elif isinstance(node, list):
        moved = draw(st.permutations(node)) if what == "move" else [*node, draw(values)]
        node[:] = moved
    else:
        pairs = [pair for pair in node.items() if pair[0] != (new := draw(keys))]
        pairs.insert(draw(st.integers(0, len(pairs))), (new, draw(values)))
        node.clear()
        node.update(pairs)


def written(kind: str, value: Any, seed: int, **manner: bool) -> Document:
    text = getattr(Scribe(Random(seed), **manner), kind)(value)
    document = Document.parse(text.encode(), kind)
    assert diff.same(document.value, value), text
    return document


kinds = st.sampled_from(["json", "yaml"])
seeds = st.integers(0, 2**32)


@often
@given(kinds, maps, seeds)
def test_writing_the_same_value_changes_no_byte(kind: str, value: Any, seed: int) -> None:
    document = written(kind, value, seed)
    assert document.rewrite(copy.deepcopy(value)) == document.data


@often
@given(kinds, maps, seeds, st.data())
def test_rewritten_text_has_the_new_value(
    kind: str, value: Any, seed: int, data: st.DataObject
) -> None:
    document = written(kind, value, seed)
    new = data.draw(edits(value))
    assert diff.same(Document.parse(document.rewrite(new), kind).value, new)


@often
@given(kinds, st.one_of(scalars, values), st.one_of(scalars, values), seeds)
def test_any_text_can_get_any_value(kind: str, old: Any, new: Any, seed: int) -> None:
    document = written(kind, old, seed)
    assert diff.same(Document.parse(document.rewrite(new), kind).value, new)


@often
@given(maps, seeds, st.data())
def test_unchanged_lines_of_yaml_stay_in_their_order(
    value: Any, seed: int, data: st.DataObject
) -> None:
    document = written("yaml", value, seed)
    new = data.draw(edits(value))
    touched = set(lines_touched(document, new))
    old = BREAK.split(document.text)
    # A key whose predecessor goes may move up behind the dash: the dash is not its own.
    stay = [line.strip(" -") for at, line in enumerate(old) if at not in touched]
    now = iter([line.strip(" -") for line in BREAK.split(document.rewrite(new).decode())])
    assert all(line in now for line in stay if line), (document.text, new)


def lines_touched(document: Document, new: Any) -> list[int]:
    """Return the lines of a text with something that a new value changes."""
    found: list[int] = []
    _touch(document.text, document.root, document.root, new, found)
    return found


def _touch(text: str, node: Node, from_: Node, new: Any, found: list[int]) -> None:
    """Add the lines of a node; `from_` is where its removal begins: its key, or the node."""
    if diff.same(node.value, new):
        return
    alike = node.kind != LEAF and node.items and new and isinstance(new, type(node.value))
    if not alike or _is_rebuilt(node, new):
        found += _span(text, from_.start, node.end)
    elif node.kind == MAP:
        for key, item in zip(node.keys, node.items, strict=True):
            _touch(text, item, key, new[key.value], found) if key.value in new else found.extend(
                _span(text, key.start, item.end)
            )
    else:
        pairs = dict(diff.align(node.value, new))
        in_place = {old for old, _ in diff.rising(sorted(pairs.items()))}
        for at, item in enumerate(node.items):
            start = max(text.rfind("-", 0, item.start), 0) if node.style == "block" else item.start
            if at in in_place:
                _touch(text, item, item, new[pairs[at]], found)
            else:
                found += _span(text, start, item.end)


def _is_rebuilt(node: Node, new: Any) -> bool:
    """Return whether a collection is written again: in brackets, or without any old element."""
    if node.kind == MAP:
        return node.style == "flow" or not any(key.value in new for key in node.keys)
    return node.style == "flow" or not diff.align(node.value, new)


def _span(text: str, start: int, end: int) -> list[int]:
    first = len(BREAK.findall(text, 0, start))
    return list(range(first, len(BREAK.findall(text, 0, end)) + 1))


ODD = [
    "a: &x {k: 1}\nb: *x\nc:\n  - *x\n  - 2\n",
    "a: &x\n  k: 1\n  l: [1, 2]\nb: *x\nc: d\n",
    "a: &s text\nb: *s\nc: [*s, *s]\n",
    "base: &b\n  x: 1\nderived:\n  <<: *b\n  y: 2\n",
    "- &a\n  k: v\n- *a\n- !!map\n  z: 1\n",
    "a: !!str 12\nb: !!int 3\nc: !!null ''\n",
    "? a\n: 1\n? b\n: - 2\n  - 3\n? c\n",
    "a: |\n  one\n\n  two\nb: >-\n  folded\n  text\n\n  more\nc: |+\n  keep\n\n\nd: 1\n",
    "a: |2\n    two more\n  x\nb: |-\n  last",
    "a: plain text\n  over lines\nb: 'single\n  quoted'\nc: \"double \\\n  quoted\"\n",
    "{a: 1, b: [x, y,], c: {d}, 'e': }\n",
    "a: [1,\n  2, # two\n  3]\nb: {x: 1,\n    y: 2}\n",
    "[a: b, c, d: e]\n",
    "a:\n- 1\n-\n- - 2\n  - 3\n-   k: 1\n    l: 2\nb:\n",
    "--- # start\na: 1 # one\n# between\n\nb: 2\n...\n",
    "%YAML 1.1\n%TAG !e! tag:e,2000:\n---\na: 1\n",
    "--- {a: 1, b: 2}\n",
    "--- >\n  text\n",
    "# only\na:   # nothing\n  # inside\nb: ~\n   # odd\nc: null # n\n",
    "a:\n    deep:\n       deeper:\n        - x\n",
    "a: 1\r\nb:\r\n  - x\r\n  - y # c\r\nc: 2",
    "'quoted key': 1\n\"other\": 2\n12: 3\ntrue: 4\n",
    "a: 'it''s'\nb: \"\\u00e9\\x41\\/\"\nc: TRUE\nd: 0x1F\ne: 1.50\nf: .5\ng: +3\nh: 2025-01-09\n",
    "a:\t1\nb: 2\t# tab\n",
    "a: 1\u2028b: 2\x85c: 3\n",
    "- a\n-  b\n-   - c\n    - d\n",
    "- 1\n# c\n- 2\n\n\n- 3\n",
    "text\n",
    "'text'",
    "[]",
    "a: {}\nb: []\nc: ''\n",
    "a: [[], [[]], {}]\n",
]


@pytest.mark.parametrize("text", ODD)
def test_unusual_yaml_retains_its_bytes_while_its_value_is_the_same(text: str) -> None:
    document = Document.parse(text.encode(), "yaml")
    assert document.rewrite(document.value) == text.encode()


@pytest.mark.parametrize("text", ODD)
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_unusual_yaml_can_get_any_value(text: str, data: st.DataObject) -> None:
    document = Document.parse(text.encode(), "yaml")
    new = data.draw(edits(document.value))
    assert diff.same(Document.parse(document.rewrite(new), "yaml").value, new)


def changed(text: str, change: Callable[[Any], None], kind: str = "yaml") -> str:
    document = Document.parse(text.encode(), kind)
    value = copy.deepcopy(document.value)
    change(value)
    return document.rewrite(value).decode()


def put(*path: Any, to: Any) -> Callable[[Any], None]:
    def change(value: Any) -> None:
        for key in path[:-1]:
            value = value[key]
        value[path[-1]] = to

    return change


def drop(*path: Any) -> Callable[[Any], None]:
    def change(value: Any) -> None:
        for key in path[:-1]:
            value = value[key]
        del value[path[-1]]

    return change


def push(*path: Any, item: Any, at: int | None = None) -> Callable[[Any], None]:
    def change(value: Any) -> None:
        for key in path:
            value = value[key]
        value.insert(len(value) if at is None else at, item)

    return change


PLAN = """\
# plan
feature: "x"  # the name
phases:
  - id: "p1"   # first
    tasks:
      # of the first
      - id: "t1"
        status: "pending"  # soon
        files: []
      - id: "t2"
        status: 'done'
        files: ["a", "b"]

  - id: p2
    tasks:
notes: |
  keep
  this
"""

YAML_EDITS = [
    (put("phases", 0, "tasks", 0, "status", to="done"), '"pending"  # soon', '"done"  # soon'),
    (put("phases", 0, "tasks", 1, "status", to="it's"), "'done'", "'it''s'"),
    (put("phases", 1, "id", to="p3"), "id: p2", "id: p3"),
    (put("phases", 1, "id", to="yes"), "id: p2", 'id: "yes"'),
    (put("phases", 1, "id", to=None), "id: p2", "id: null"),
    (put("feature", to=["a"]), ' "x"  # the name', '\n  - "a"  # the name'),
    (push("phases", 0, "tasks", 1, "files", item="c"), '["a", "b"]', '["a", "b", "c"]'),
    (drop("phases", 0, "tasks", 1, "files", 0), '["a", "b"]', '["b"]'),
    (push("phases", 0, "tasks", 0, "files", item="c"), "files: []", 'files:\n          - "c"'),
    (
        put("phases", 1, "tasks", to=[{"id": "t3", "m": 1}, {"id": "t4"}]),
        "    tasks:\nnotes",
        '    tasks:\n      - id: "t3"\n        m: 1\n      - id: "t4"\nnotes',
    ),
    (put("phases", 1, "tasks", to={}), "    tasks:\nnotes", "    tasks: {}\nnotes"),
    (put("phases", 1, "new", to={"a": 1}), "notes:", "    new:\n      a: 1\nnotes:"),
    (
        drop("phases", 0, "tasks", 0),
        PLAN[PLAN.index('      - id: "t1') : PLAN.index('      - id: "t2')],
        "",
    ),
    (drop("phases", 0, "tasks", 0, "id"), 'id: "t1"\n        status', "status"),
    (drop("feature"), 'feature: "x"  # the name\n', ""),
    (drop("notes"), "notes: |\n  keep\n  this\n", ""),
    (put("notes", to="new\n"), "|\n  keep\n  this", '"new\\n"'),
    (put("status", to="a"), "  this\n", '  this\nstatus: "a"\n'),
    (
        push("phases", 0, "tasks", item={"id": "t9"}, at=1),
        '      - id: "t2"',
        '      - id: "t9"\n      - id: "t2"',
    ),
]


@pytest.mark.parametrize("change, old, new", YAML_EDITS)
def test_edit_of_yaml_has_the_style_of_the_file(
    change: Callable[[Any], None], old: str, new: str
) -> None:
    assert PLAN.count(old) == 1
    assert changed(PLAN, change) == PLAN.replace(old, new)


def test_emptied_list_goes_with_the_comments_in_it() -> None:
    text = "a:  # list\n  # one\n  - 1  # uno\n  - 2\n# end\nb: 1\n"
    assert changed(text, put("a", to=[])) == "a: []\n# end\nb: 1\n"


@pytest.mark.parametrize(
    "inner, new, made",
    [(" - 1\n", [], " []\n"), ("\n    - 1\n", [], " []\n"), ("\n    []\n", ["x"], ' - "x"\n')],
)
def test_list_within_a_list_begins_on_the_line_of_its_dash(
    inner: str, new: list[str], made: str
) -> None:
    text = "a:  # list\n  -{}# end\n"
    assert changed(text.format(inner), put("a", 0, to=new)) == text.format(made)


def test_removed_line_leaves_the_comment_of_the_line_before() -> None:
    assert changed("a: 1  # one\nb: 2  # two\nc: 3\n", drop("b")) == "a: 1  # one\nc: 3\n"


def test_unquoted_timestamp_stays_unquoted() -> None:
    text = "at: 2025-01-09T10:00:00Z\n"
    assert changed(text, put("at", to="2025-01-10T10:00:00Z")) == "at: 2025-01-10T10:00:00Z\n"


def test_alias_is_expanded_only_when_necessary() -> None:
    text = "a: &x [1, 2]\nb: *x\nc: 3\n"
    assert changed(text, put("c", to=4)) == "a: &x [1, 2]\nb: *x\nc: 4\n"
    assert changed(text, push("b", item=3)) == "a: &x [1, 2]\nb:\n  - 1\n  - 2\n  - 3\nc: 3\n"


JSON_TEXT = """\
{
    "name": "x",
    "agents": [
        {
            "id": 1
        },
        {
            "id": 2
        }
    ],
    "empty": {}
}"""

JSON_EDITS = [
    (put("name", to="é"), '"x"', '"é"'),
    (put("agents", 1, "id", to=None), '"id": 2', '"id": null'),
    (drop("agents", 0), '{\n            "id": 1\n        },\n        ', ""),
    (put("empty", "k", to=1), "{}", '{\n        "k": 1\n    }'),
    (put("last", to=[]), "{}", '{},\n    "last": []'),
]


@pytest.mark.parametrize("change, old, new", JSON_EDITS)
def test_edit_of_json_has_the_style_of_the_file(
    change: Callable[[Any], None], old: str, new: str
) -> None:
    assert JSON_TEXT.count(old) == 1
    assert changed(JSON_TEXT, change, "json") == JSON_TEXT.replace(old, new)
    windows = JSON_TEXT.replace("\n", "\r\n")
    assert changed(windows, change, "json") == windows.replace(
        old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
    )


def test_json_in_a_yaml_file_stays_json() -> None:
    assert changed(JSON_TEXT, put("name", to="é"), "yaml") == JSON_TEXT.replace('"x"', '"é"')


def test_json_is_written_again_in_one_form() -> None:
    text = '{\n  "a": [1, 2],\n  "b" : 1.50\n}\n'
    wanted = '{\n  "a": [\n    1,\n    2\n  ],\n  "b": 2\n}\n'
    assert changed(text, put("b", to=2), "json") == wanted


def test_compact_file_stays_compact_and_an_escaped_one_escaped() -> None:
    assert changed('{"a":1,"b":[1]}', push("b", item=2), "json") == '{"a":1,"b":[1,2]}'
    assert changed('{"a":"\\u00e9"}', put("a", to="ü"), "json") == '{"a":"\\u00fc"}'


# JSON Lines


lines = st.lists(values, max_size=6)


@often
@given(lines, lines, st.data())
def test_json_lines_are_preserved_including_invalid_ones(
    old: list[Any], new: list[Any], data: st.DataObject
) -> None:
    bad = ["{torn", "", "not json"]
    mixed = [json.dumps(each) for each in old]
    for line in data.draw(st.lists(st.sampled_from(bad), max_size=3)):
        mixed.insert(data.draw(st.integers(0, len(mixed))), line)
    text = "\n".join(mixed) + data.draw(st.sampled_from(["", "\n"]))
    document = Document.parse(text.encode(), "jsonl")
    assert diff.same(document.value, old)
    assert document.rewrite(old) == text.encode()
    after = Document.parse(document.rewrite(new), "jsonl")
    assert diff.same(after.value, new)
    assert [line.raw.strip() for line in after.bad] == [line.raw.strip() for line in document.bad]
    appended = document.rewrite([*old, *new])
    assert appended.startswith(text.encode())


def test_torn_last_line_is_closed_before_another_is_appended() -> None:
    document = Document.parse(b'{"a":1}\n{"b":', "jsonl")
    assert document.rewrite([{"a": 1}, {"c": [1, "x"]}]) == b'{"a":1}\n{"b":\n{"c":[1,"x"]}\n'


# New files, places, refusals


def test_new_json_file_has_two_spaces_and_no_escapes() -> None:
    assert (
        fresh("json", {"a": ["é"], "b": {}})
        == '{\n  "a": [\n    "é"\n  ],\n  "b": {}\n}\n'.encode()
    )


def test_new_yaml_file_has_the_style_of_the_documents() -> None:
    value: dict[str, Any] = {
        "version": "1.0",
        "list": [{"id": "x", "of": ["a"]}, [1], []],
        "none": None,
        "on": True,
        "m": 1.5,
        "map": {"k": {}},
    }
    assert fresh("yaml", value).decode() == (
        'version: "1.0"\n'
        "list:\n"
        '  - id: "x"\n'
        "    of:\n"
        '      - "a"\n'
        "  - - 1\n"
        "  - []\n"
        "none: null\n"
        '"on": true\n'
        "m: 1.5\n"
        "map:\n"
        "  k: {}\n"
    )


def test_new_json_lines_are_compact() -> None:
    assert fresh("jsonl", [{"a": [1, 2]}, "é"]) == '{"a":[1,2]}\n"é"\n'.encode()


@often
@given(st.sampled_from(["json", "yaml", "jsonl"]), st.lists(values, max_size=4))
def test_new_file_is_parsed_as_the_value_it_was_written_from(kind: str, value: Any) -> None:
    document = Document.parse(fresh(kind, value), kind)
    assert diff.same(document.value, value)


def test_very_long_key_is_written_and_read() -> None:
    value = {"k" * 3000: {"l" * 3000: [{"m" * 2000: 1}]}}
    assert Document.parse(fresh("yaml", value), "yaml").value == value


@pytest.mark.parametrize(
    "value",
    [float("nan"), {1: 2}, "\ud800", {"a": {1, 2}}, (1, 2), 10**5000, b"x"],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("kind", ["json", "yaml"])
def test_value_that_the_file_type_cannot_represent_is_refused(kind: str, value: Any) -> None:
    with pytest.raises(InvalidInput):
        fresh(kind, value)
    with pytest.raises(InvalidInput):
        Document.parse(b"1", kind).rewrite([value])


def test_value_too_deep_is_refused() -> None:
    value: Any = 1
    for _ in range(64):
        value = [value]
    assert Document.parse(fresh("json", value), "json").value == value
    with pytest.raises(InvalidInput):
        fresh("json", [value])


@pytest.mark.parametrize(
    "path, line",
    [("phases[0].tasks[1].status", 11), ("phases[1]", 14), ("feature", 2), ("gone", 2)],
)
def test_line_of_a_path_in_yaml_is_found(path: str, line: int) -> None:
    assert Document.parse(PLAN.encode(), "yaml").line(path) == line


def test_line_of_a_path_in_json_and_json_lines_is_found() -> None:
    assert Document.parse(JSON_TEXT.encode(), "json").line("agents[1].id") == 8
    assert Document.parse(JSON_TEXT.encode(), "json").line(("agents", 0)) == 4
    assert Document.parse(b"\n{}\n{x\n[]\n", "jsonl").line("[1]") == 4


def test_changing_the_value_in_place_does_not_change_the_document() -> None:
    document = Document.parse(b'{"a": [1]}', "json")
    document.value["a"].append(2)
    assert document.rewrite(document.value) == b'{"a": [1, 2]}'


def test_rewritten_document_can_be_rewritten_again() -> None:
    document = Document.parse(PLAN.encode(), "yaml")
    once = document.rewritten({**document.value, "feature": "y"})
    assert once.rewrite({**once.value, "feature": "x"}) == document.data


@needs_corpus
def test_real_files_retain_their_bytes() -> None:
    kept = 0
    for path in sorted(CORPUS.rglob("*")):
        kind = path.suffix.removeprefix(".")
        if kind in ("json", "yaml", "jsonl") and "hooks" not in path.parts:
            try:
                document = Document.parse(path.read_bytes(), kind)
            except Unreadable:
                continue
            assert document.rewrite(copy.deepcopy(document.value)) == path.read_bytes()
            kept += 1
    assert kept > 50


@given(st.text("ab\n\r\u2028", max_size=40))
def test_line_start_and_number_are_right_for_every_character(text: str) -> None:
    for breaks in (style.BREAK, style.JSON_BREAK):
        starts = [0, *(match.end() for match in breaks.finditer(text))]
        lines = style.Lines(text, breaks)
        for at in range(len(text)):
            assert lines.start(at) == max(s for s in starts if s <= at)
            assert lines.number(at) == sum(s <= at for s in starts)


@pytest.mark.parametrize("value", [1e300, 1.5, -0.0, 10**30, "ü: \x7f\u2028", {}, [], [[1], {}]])
def test_fast_json_writer_gives_the_same_bytes_as_the_styled_one(value: Any) -> None:
    for each in ({"a": value}, {"a": [value], "b": {"c": value}}):
        assert fresh("json", each) == fresh("json", each, style.Style())
        assert fresh("jsonl", [each]) == fresh("jsonl", [each], style.COMPACT)


@pytest.mark.parametrize("odd", [float("nan"), "\ud800", {1: 2}, (1, 2), object()])
def test_new_value_that_cannot_be_written_is_refused_at_any_place(odd: object) -> None:
    document = Document.parse(b'{"a": [1, {"b": 2}], "c": {"d": [3]}}', "json")
    now = document.parsed
    for value in (
        odd,
        {**now, "c": odd},
        {**now, "a": [*now["a"], odd]},
        {**now, "e": [odd]},
    ):
        with pytest.raises(InvalidInput):
            document.rewrite(value)
    with pytest.raises(InvalidInput):
        document.rewrite({**now, "\ud800": 1})


def test_removed_element_leaves_the_style_of_its_neighbours() -> None:
    text = """\
list:
-   id: a
    sizes:
    - 1   # the least
-   {id: b, sizes: [2]}
# and this
-   id: c
    sizes: []
"""
    document = Document.parse(text.encode(), "yaml")
    value = {"list": [document.value["list"][0], document.value["list"][2]]}
    assert document.rewrite(value).decode() == text.replace("-   {id: b, sizes: [2]}\n", "")


def test_very_wide_indentation_of_json_is_not_repeated() -> None:
    text = "{\n" + " " * 100_000 + '"a": [' + ", ".join(["1"] * 1_000) + "]}"
    assert len(changed(text, put("b", to=1), "json")) < 20_000


def test_number_with_more_digits_than_a_float_keeps_them() -> None:
    text = (
        '{"pi": 3.14159265358979323846, "n": -12345678901234567.25e-3, "sum": 0.30000000000000004}'
    )
    assert changed(text, put("b", to=0.5), "json") == text[:-1] + ', "b": 0.5}'
    digits = '{"a": "' + "1" * 1_000_000 + '"}'
    assert changed(digits, put("b", to=1), "json") == digits[:-1] + ', "b": 1}'
