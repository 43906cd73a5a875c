"""The id that a rendering carries, and the base of an edit that it names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from forestay.formats.rendering_id import (
    rendering_id,
    with_id,
    with_id_line,
    without_id,
    without_id_line,
)
from forestay.formats.text.document import Document
from forestay.formats.three_way import choose_base

ONE, TWO = "0123456789ab", "ba9876543210"


def rendered(value: dict[str, Any], id: str) -> bytes:
    return json.dumps(with_id(value, id)).encode()


def base_of(edit: dict[str, Any], id: str, *kept: bytes) -> Any:
    """Return the base of an edit among renderings, the newest first."""
    return choose_base(id, edit, kept, lambda data: without_id(json.loads(data)))


NEWEST, OLDER = {"status": "paused", "tasks": ["a", "b"]}, {"status": "active", "tasks": ["a"]}


@pytest.mark.parametrize("id, base", [(TWO, NEWEST), (ONE, OLDER)])
def test_base_is_the_rendering_whose_id_the_file_carries(id: str, base: dict[str, Any]) -> None:
    kept = rendered(NEWEST, TWO), rendered(OLDER, ONE)
    assert base_of(NEWEST, id, *kept) == base_of(OLDER, id, *kept) == base


@pytest.mark.parametrize("id", ["", "ffffffffffff"], ids=["none", "unknown"])
def test_base_without_a_known_id_has_the_fewest_different_fields(id: str) -> None:
    kept = rendered(NEWEST, TWO), rendered(OLDER, ONE)
    assert base_of({**OLDER, "more": 1}, id, *kept) == OLDER
    assert base_of({**NEWEST, "more": 1}, id, *kept) == NEWEST


def test_newest_of_equally_near_renderings_is_the_base() -> None:
    kept = [rendered({"n": n}, ONE) for n in (3, 2, 1)]
    assert base_of({"n": 4}, "", *kept) == base_of({"n": 4}, ONE, *kept) == {"n": 3}


def test_without_stored_renderings_there_is_no_base() -> None:
    assert base_of({"n": 4}, ONE) is None


def test_json_carries_its_id_under_our_key() -> None:
    value = {"mine": 1}
    document = Document.parse(rendered(value, ONE), "json")
    assert document.parsed == {"mine": 1, "forestay": {"v": 1, "id": ONE}}
    assert rendering_id(document) == ONE and without_id(document.parsed) == value


def test_id_preserves_other_values_under_our_key() -> None:
    value = {"forestay": {"v": 1, "facts": {"add": {}}}}
    assert without_id(with_id(value, ONE)) == value
    other = {"forestay": {"v": 2, "id": "of a later version"}}
    assert with_id(other, ONE) == other
    assert with_id({"forestay": "of another program"}, ONE) == {"forestay": "of another program"}


@pytest.mark.parametrize("text", ["a: 1\n", "# mine\na: 1\n", ""])
def test_yaml_carries_its_id_in_a_comment(text: str) -> None:
    document = Document.parse(text.encode(), "yaml") if text else Document("yaml", b"", None)
    made = with_id_line(document, ONE)
    assert rendering_id(made) == ONE and rendering_id(with_id_line(made, TWO)) == TWO
    assert without_id_line(made.data) == text.encode()
    if text:
        assert Document.parse(made.data, "yaml").parsed == {"a": 1}


def test_new_id_of_a_yaml_document_needs_no_second_parse() -> None:
    document = Document.parse(f"# forestay: {ONE}\na: 1\n".encode(), "yaml")
    assert with_id_line(document, TWO).root is document.root


def test_line_within_a_text_is_not_read_as_the_rendering_id() -> None:
    data = f'goal: "one\n# forestay: {ONE}\ntwo"\n'.encode()
    document = Document.parse(data, "yaml")
    assert rendering_id(document) == ""
    assert without_id_line(data) == data
    assert with_id_line(document, TWO).data == f"# forestay: {TWO}\n".encode() + data


def test_id_after_other_comments_is_replaced_in_its_place() -> None:
    data = f"---\r\n# mine\n\n# forestay: {ONE}\r\ngoal: x\n".encode()
    made = with_id_line(Document.parse(data, "yaml"), TWO)
    assert made.data == f"---\r\n# mine\n\n# forestay: {TWO}\ngoal: x\n".encode()
    assert rendering_id(made) == TWO


@pytest.mark.parametrize("id", ["e", "x" * 100_000, 7, ["a"], ONE.upper(), ONE + "\n"])
def test_malformed_rendering_id_is_ignored(id: Any) -> None:
    data = json.dumps({"forestay": {"v": 1, "id": id}}).encode()
    assert rendering_id(Document.parse(data, "json")) == ""


@pytest.mark.parametrize("extra", [{"v": 2, "id": ONE}, {"id": "theirs"}, {"v": "1", "id": ONE}])
def test_id_under_a_forestay_key_of_another_program_is_unchanged(extra: dict[str, Any]) -> None:
    value = {"mine": 1, "forestay": extra}
    assert without_id(value) == with_id(value, TWO) == value
    assert rendering_id(Document.parse(json.dumps(value).encode(), "json")) == ""


def test_id_after_a_key_of_another_program_is_replaced_in_its_place() -> None:
    data = f"team: blue\n# forestay: {ONE}\ngoal: x\n".encode()
    document = Document.parse(data, "yaml")
    assert rendering_id(document) == ONE
    assert with_id_line(document, TWO).data == data.replace(ONE.encode(), TWO.encode())
