"""Guarded parsing: whatever the bytes, a value or a named refusal, at once."""

from __future__ import annotations

import json
import pickle
import time
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forestay.errors import Damaged
from forestay.formats.diff import same
from forestay.formats.text import safe_parse
from forestay.formats.text.document import Document
from forestay.formats.text.safe_parse import Node, Unreadable, read_json, read_lines, read_yaml
from tests.formats.scribe import Scribe, values

often = settings(deadline=None, suppress_health_check=list(HealthCheck))


def refusal(data: bytes | str, kind: str, **limits: int) -> Unreadable:
    data = data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass")
    start = time.process_time()
    with pytest.raises(Unreadable) as caught:
        Document.parse(data, kind, **limits)
    assert time.process_time() - start < 60
    return caught.value


def outcome(data: bytes, kind: str) -> Document | Unreadable:
    try:
        return Document.parse(data, kind)
    except Unreadable as error:
        return error


BYTES = {
    "byte-order-mark": b"\xef\xbb\xbf{}",
    "utf16": '{"a": 1}'.encode("utf-16"),
    "nul": b'{"a": 1}\n\0\0\0\0',
    "not-utf8": b'{"a": "\xff"}',
    "conflict-markers": b'<<<<<<< HEAD\n{"a": 1}\n=======\n{"a": 2}\n>>>>>>> other\n',
}


@pytest.mark.parametrize("kind", ["json", "yaml", "jsonl"])
@pytest.mark.parametrize("code", BYTES)
def test_bytes_that_are_not_text_are_refused_with_a_code(code: str, kind: str) -> None:
    assert refusal(BYTES[code], kind).code == code


@pytest.mark.parametrize("text", ['{"a": 1}'.encode("utf-16-le"), "a: 1".encode("utf-16-be")])
def test_utf16_without_a_mark_is_detected(text: bytes) -> None:
    assert refusal(text, "json").code == "utf16"


def test_size_of_a_file_is_checked_before_its_bytes() -> None:
    assert refusal(b"\0" * 101, "json", limit=100).code == "too-large"
    assert refusal(b" " * (safe_parse.LARGEST + 1), "yaml").code == "too-large"


JSON = [
    ("", "empty", 1),
    (" \n\t", "empty", 1),
    ("[", "json-syntax", 1),
    ('{"a": 1,\n "b" 2}', "json-syntax", 2),
    ("[1,]", "json-syntax", 1),
    ('{"a": 1,}', "json-syntax", 1),
    ("[01]", "json-syntax", 1),
    ("[1] 2", "json-syntax", 1),
    ("{'a': 1}", "json-syntax", 1),
    ('["tab\there"]', "json-syntax", 1),
    ('["\\x"]', "json-syntax", 1),
    ("[True]", "json-syntax", 1),
    ('{"a": 1}\n{"b": 2}', "json-syntax", 2),
    ('{"a": 1,\n"a": 2}', "duplicate-key", 0),
    ('{"a": {"b": 1, "\\u0062": 2}}', "duplicate-key", 0),
    ("[\nNaN]", "not-finite", 0),
    ("[-Infinity]", "not-finite", 0),
    ("[1e999]", "not-finite", 0),
    ("[\n" + "9" * 5000 + "]", "huge-number", 0),
    ("-" + "9" * 1_000_000, "huge-number", 0),
    ('["\\ud800"]', "lone-surrogate", 0),
    ('{"\\udc00\\ud800": 1}', "lone-surrogate", 0),
    ("[" * 40_000, "too-deep", 0),
    ('{"a":' * 40_000, "too-deep", 0),
    ("[" * 65 + "]" * 65, "too-deep", 0),
    ('[{"a":' * 20_000, "too-deep", 0),
    ("[\n" * 64, "json-syntax", 65),
    ('["' + "[" * 65 + '\\x"]', "json-syntax", 1),
]


@pytest.mark.parametrize("text, code, line", JSON, ids=[repr(row[0][:20]) for row in JSON])
def test_unreadable_json_is_refused_with_code_and_line(text: str, code: str, line: int) -> None:
    error = refusal(text, "json")
    assert (error.code, error.line) == (code, line)


@pytest.mark.parametrize(
    "text, form, stated",
    [
        ('["tab\there"]', "json", "invalid JSON: invalid control character"),
        ('["open', "json", "invalid JSON: unterminated string"),
        ("a: b: c", "yaml", "invalid YAML: mapping values are not allowed in this context"),
    ],
)
def test_parser_message_names_the_language(text: str, form: str, stated: str) -> None:
    assert refusal(text, form).message == stated


YAML = [
    ("", "empty", 1),
    ("# nothing\n\n", "empty", 1),
    ("a: b: c", "yaml-syntax", 1),
    ("a: [1, 2", "yaml-syntax", 1),
    ("a: 1\nb: [1\n\n", "yaml-syntax", 2),
    ("a: 1\nb\nc: 3\n", "yaml-syntax", 2),
    ("a: 1\nb:\n  c: 2\n  d", "yaml-syntax", 4),
    ("a: 1\n  b: 2", "yaml-syntax", 2),
    ("a: 1\n---\nb: 2\n", "yaml-syntax", 2),
    ("a: 'x\n", "yaml-syntax", 1),
    ('a: 1\nb: "x\nc: 3\n', "yaml-syntax", 2),
    ("\tx: 1", "yaml-syntax", 1),
    ("a: \x07", "yaml-syntax", 1),
    ("[a, b]: c", "yaml-syntax", 1),
    ("? {a: b}\n: c", "yaml-syntax", 1),
    ("a: *nowhere", "yaml-syntax", 1),
    ("a: 1\na: 2", "duplicate-key", 2),
    ("1: a\n'1': b", "duplicate-key", 2),
    ("- .nan", "not-finite", 1),
    ("- -.INF", "not-finite", 1),
    ("- 1e+999", "not-finite", 1),
    ("a: " + "9" * 5000, "huge-number", 1),
    ("a: 0x" + "f" * 3990, "huge-number", 1),
    ("a: !!python/object/apply:os.system ['x']", "yaml-tag", 1),
    ("!!python/name:os.system x", "yaml-tag", 1),
    ("a: !!binary aGk=", "yaml-tag", 1),
    ("a: !!timestamp 2001-01-01", "yaml-tag", 1),
    ("a: !!set {x, y}", "yaml-tag", 1),
    ("a: !mine 1", "yaml-tag", 1),
    ("a: !!int x", "yaml-tag", 1),
    ("a: !!map [1]", "yaml-tag", 1),
    ("a: &a [*a]", "alias-bomb", 1),
    ("[" * 40_000, "too-deep", 1),
    ("- " * 40_000, "too-deep", 1),
    ("{a: " * 40_000, "too-deep", 1),
    ("[\n" * 40_000, "too-deep", 65),
    ("{[" * 40_000, "yaml-syntax", 1),
    ("? " * 40_000, "yaml-syntax", 1),
    ("\n".join(" " * i + "a:" for i in range(2000)), "too-deep", 65),
    ("[" + "a," * 400_000 + "]", "too-many-nodes", 1),
    ("a" * 3_000 + ": *a" * 100_000, "yaml-syntax", 1),
    ("- &a a\n" * 200_000, "too-many-nodes", 75_000),
    ("!" * 500_000, "yaml-tag", 1),
    ("&" * 500_000, "yaml-syntax", 1),
    ("%A\n" * 200_000, "yaml-syntax", 1),
    ("a:\n- b\n" + "...\n" * 200_000 + "c", "yaml-syntax", 200_003),
    ("'" * 500_001, "yaml-syntax", 1),
]


@pytest.mark.parametrize("text, code, line", YAML, ids=[repr(row[0][:20]) for row in YAML])
def test_unreadable_yaml_is_refused_with_code_and_line(text: str, code: str, line: int) -> None:
    error = refusal(text, "yaml")
    assert (error.code, error.line) == (code, line)


def bomb(levels: int, width: int) -> str:
    lines = ["a0: &a0 [" + ", ".join(["x"] * width) + "]"]
    for level in range(1, levels):
        refs = ", ".join([f"*a{level - 1}"] * width)
        lines.append(f"a{level}: &a{level} [{refs}]")
    return "\n".join(lines)


def test_alias_bomb_is_refused_before_expansion() -> None:
    assert refusal(bomb(9, 9), "yaml").code == "alias-bomb"
    assert refusal(bomb(40, 2), "yaml").code == "alias-bomb"
    assert refusal("a: &a x\nb: [" + "*a, " * 5000 + "]", "yaml").code == "alias-bomb"
    merge = "a: &a {x: 1}\n" + "".join(f"k{i}: {{<<: *a, y: 1}}\n" for i in range(1001))
    assert refusal(merge, "yaml").code == "alias-bomb"


def test_values_repeated_by_aliases_count_towards_the_limit() -> None:
    repeated = "a: &a [" + "1, " * 500 + "]\nb: [" + "*a, " * 30 + "]\n"
    assert len(read_yaml(repeated + "c: [" + "1, " * 50_000 + "]")[0].value["c"]) == 50_000
    assert refusal(repeated + "c: [" + "1, " * 70_000 + "]", "yaml").code == "too-many-nodes"


def test_too_many_values_are_refused() -> None:
    assert refusal("[" + "0," * safe_parse.NODES + "0]", "json").code == "too-many-nodes"
    assert refusal("[" + "[]," * (safe_parse.NODES * 3) + "0]", "json").code == "too-many-nodes"
    wide = "[" + ",".join(["[[[0]]]"] * (safe_parse.NODES // 2)) + "]"
    assert refusal(wide, "json").code == "too-many-nodes"


def test_commas_in_strings_do_not_count_as_values() -> None:
    text = json.dumps(["," * (safe_parse.NODES + 1), '\\",'])
    assert read_json(text).value == json.loads(text)


def test_maximum_depth_is_read() -> None:
    assert read_json("[" * 64 + "]" * 64).kind == "list"
    assert read_yaml("[" * 64 + "]" * 64)[0].kind == "list"


def test_number_of_four_thousand_digits_is_read() -> None:
    assert read_json("9" * 4000).value == 10**4000 - 1
    assert read_yaml("9" * 4000)[0].value == 10**4000 - 1


def test_pair_of_surrogates_is_one_character() -> None:
    assert read_json('"\\ud83d\\ude00"').value == "😀"


def test_parse_error_is_a_damaged_error_and_survives_pickling() -> None:
    error = refusal("[1", "json")
    assert isinstance(error, Damaged)
    again = pickle.loads(pickle.dumps(error))
    assert (again.code, again.line, str(again)) == (error.code, error.line, str(error))
    assert "line 1" in str(error)


@pytest.mark.parametrize(
    "text, value",
    [
        ("yes", "yes"),
        ("on", "on"),
        ("2025-01-09", "2025-01-09"),
        ("2025-01-09T10:00:00Z", "2025-01-09T10:00:00Z"),
        ("12:30:45", "12:30:45"),
        ("1_000", "1_000"),
        ("'12'", "12"),
        ('"true"', "true"),
        ("=", "="),
        ("0b1", "0b1"),
        ("~", None),
        ("Null", None),
        ("!!null ''", None),
        ("TRUE", True),
        ("010", 10),
        ("0o10", 8),
        ("0x1F", 31),
        ("+12", 12),
        ("-0.5", -0.5),
        (".5", 0.5),
        ("1.", 1.0),
        ("1e+3", 1000.0),
        ("1.0e3", 1000.0),
        ("1e3", "1e3"),
        ("1234e567", "1234e567"),
        ("!!str 12", "12"),
        ("! 12", "12"),
        ("!!float 1.5", 1.5),
        ("|\n  a\n  b\n", "a\nb\n"),
        (">-\n  a\n  b\n", "a b"),
    ],
)
def test_scalars_are_read_by_the_core_schema(text: str, value: Any) -> None:
    assert same(read_yaml(f"k: {text}")[0].value, {"k": value})


def test_keys_are_strings_and_a_merge_key_is_one_of_them() -> None:
    root, remarks = read_yaml("1: a\ntrue: b\n~: c\n<<: {x: 1}\n'<<<': d\n")
    assert root.value == {"1": "a", "true": "b", "~": "c", "<<": {"x": 1}, "<<<": "d"}
    assert [(remark.code, remark.line) for remark in remarks] == [("merge-key", 4)]


def test_alias_is_an_independent_copy() -> None:
    value = read_yaml("a: &a [1]\nb: *a\n")[0].value
    value["a"].append(2)
    assert value["b"] == [1]


def test_conflict_markers_inside_a_string_are_no_conflict() -> None:
    text = json.dumps({"diff": "<<<<<<< HEAD\n=======\n>>>>>>> x"})
    assert read_json(text).value == json.loads(text)
    assert read_yaml("a: |\n  <<<<<<< HEAD\n  =======\n  >>>>>>> x\n")[0].kind == "map"


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_torn_line_has_the_same_message_with_and_without_a_line_end(end: str) -> None:
    *_, torn = read_lines('{"a": 1}\n{"a": "b' + end)
    assert torn.bad is not None and torn.bad.message == "invalid JSON: unterminated string"


def test_invalid_json_lines_are_preserved() -> None:
    text = '{"a": 1}\n\n{"b": \n{"c": NaN}\r\n[2]\n{"torn'
    lines = read_lines(text)
    assert "".join(text[line.start : line.end] for line in lines) == text
    assert [line.node.value for line in lines if line.node] == [{"a": 1}, [2]]
    bad = [(line.bad.number, line.bad.code, line.bad.raw) for line in lines if line.bad]
    assert bad == [
        (3, "json-syntax", '{"b": \n'),
        (4, "not-finite", '{"c": NaN}\r\n'),
        (6, "json-syntax", '{"torn'),
    ]


def test_json_lines_file_may_be_empty() -> None:
    assert Document.parse(b"", "jsonl").value == []


@often
@given(st.binary(max_size=60), st.sampled_from(["json", "yaml", "jsonl"]))
def test_any_bytes_give_a_value_or_a_refusal(data: bytes, kind: str) -> None:
    found = outcome(data, kind)
    assert found.code if isinstance(found, Unreadable) else found.data == data


@often
@given(values, st.integers(0, 2**32), st.randoms(use_true_random=False))
def test_any_damaged_text_gives_a_value_or_a_refusal(value: Any, seed: int, chance: Random) -> None:
    for kind in ("json", "yaml"):
        text = getattr(Scribe(Random(seed)), kind)(value)
        cut, junk = chance.randint(0, len(text)), chance.choice(["", "{", ":", "- ", "'", "\n "])
        found = outcome((text[:cut] + junk + text[cut + 1 :]).encode(), kind)
        if isinstance(found, Unreadable):
            assert found.code
        else:
            assert found.rewrite(found.value) == found.data


def every_node(node: Node) -> list[Node]:
    return [node, *node.keys, *(each for item in node.items for each in every_node(item))]


@often
@given(values, st.integers(0, 2**32))
def test_span_in_json_parses_to_its_value(value: Any, seed: int) -> None:
    text = Scribe(Random(seed)).json(value)
    for node in every_node(read_json(text)):
        assert same(json.loads(text[node.start : node.end]), node.value)


@often
@given(values, st.integers(0, 2**32))
def test_pure_python_yaml_parser_reads_the_same(value: Any, seed: int) -> None:
    text = Scribe(Random(seed)).yaml(value)
    fast = read_yaml(text)[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(yaml, "CSafeLoader")
        slow = read_yaml(text)[0]
    assert same(slow.value, fast.value)
    places = [[(n.start, n.end, n.style) for n in every_node(root)] for root in (slow, fast)]
    assert places[0] == places[1]


def test_parse_megabyte_of_json_in_bounded_time() -> None:
    text = json.dumps([{"id": f"x{i}", "n": i, "t": ["é", "b"]} for i in range(20_000)], indent=1)
    start = time.process_time()
    Document.parse(text.encode(), "json")
    assert len(text) > 1_000_000
    assert time.process_time() - start < 60


def test_log_of_invalid_lines_is_refused_quickly() -> None:
    assert refusal("x\n" * 390_000, "jsonl").code == "bad-line"


@pytest.mark.parametrize("spaces", ["", " ", "\n  "])
def test_duplicate_key_in_a_long_text_is_found(spaces: str) -> None:
    rest = json.dumps([{"note": 'has "quotes": and colons'}] * 10_000)
    assert safe_parse.json_value(f'{{"a"{spaces}: 1, "b": {rest}}}')["a"] == 1
    twice = f'{{"a"{spaces}: 1, "b": {rest}, "\\u0061"{spaces}: 2}}'
    assert refusal(twice, "json").code == "duplicate-key"


@pytest.mark.parametrize("text", ['{"a', '{"a": "b\n', '{"a": "b', '{"a": "\\q"}', "{"])
def test_message_about_invalid_json_is_a_sentence(text: str) -> None:
    assert not str(refusal(text, "json")).split(" (line")[0].endswith((" at", " starting"))


@pytest.mark.parametrize("kind", ["json", "yaml", "jsonl"])
def test_text_of_conflict_beginnings_is_read_in_bounded_time(kind: str) -> None:
    text = "<<<<<<< \n" * 50_000 + ' " >>>>>>> '
    began = time.perf_counter()
    outcome(text.encode(), kind)
    assert time.perf_counter() - began < 5


def test_block_that_is_indented_very_far_is_refused() -> None:
    assert refusal("a:\n" + " " * 1_001 + "b: 1\n", "yaml").code == "too-deep"
    assert Document.parse(b"a:\n" + b" " * 1_000 + b"b: 1\n", "yaml").value == {"a": {"b": 1}}
