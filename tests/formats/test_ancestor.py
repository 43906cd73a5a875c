"""Ancestor: which version of a file an edit was made from."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from forestay.formats.ancestor import nearest, was_read

T1, T2, T3 = (f"2027-01-15T08:00:0{second}Z" for second in (1, 2, 3))
NEWEST = {"updated": T2, "status": "paused", "tasks": ["a", "b"], "x": {"deep": 1}, "in": {"n": 2}}
OLDER = {"updated": T1, "status": "active", "tasks": ["a"], "in": {"n": 1}}


@pytest.mark.parametrize(
    "found, is_newest",
    [
        ({**OLDER, "updated": T2}, True),
        ({**OLDER, "updated": T2, "more": 1}, False),
        ({key: value for key, value in NEWEST.items() if key != "x"}, True),
        ({"updated": T2, "status": "failed", "tasks": ["a", "c"]}, True),
        ({**NEWEST, "updated": T3}, True),
        ({**OLDER, "updated": T3}, False),
        ({**OLDER, "updated": T3, "x": {}}, False),
        ({**NEWEST, "updated": T1}, False),
        ({**NEWEST, "in": {"n": 1}}, False),
        ({"status": "paused", "tasks": ["a", "b"]}, False),
        (OLDER, False),
        ({}, False),
    ],
)
def test_an_edit_with_a_time_of_the_newest_version_and_nothing_or_all_of_the_older_is_of_it(
    found: dict[str, Any], is_newest: bool
) -> None:
    assert was_read(NEWEST, OLDER, found) is is_newest


def test_an_element_that_only_the_older_version_has_tells_that_it_was_read() -> None:
    newest, older = {"at": T2, "tasks": ["b"]}, {"at": T1, "tasks": ["a"]}
    assert not was_read(newest, older, {"at": T2, "tasks": ["a", "c"]})
    assert was_read(newest, older, {"at": T2, "tasks": ["b", "c"]})


def test_an_entry_that_only_the_newest_version_has_tells_that_it_was_read() -> None:
    newest, older = {"tries": [{"at": T1}, {"at": T2}]}, {"tries": [{"at": T1}], "n": 1}
    assert was_read(newest, older, {**newest, "n": 1})
    assert not was_read(newest, older, {"tries": [{"at": T1}, {"at": T2, "of": "another"}], "n": 1})


def test_whoever_says_anew_what_was_taken_back_has_read_that_it_was() -> None:
    older, newest = {"n": 1, "done": {"0": {"at": T1}}}, {"n": 0, "done": {}}
    assert was_read(newest, older, {"n": 1, "done": {"0": {"at": T3}}})
    assert not was_read(newest, older, {"n": 1, "done": {"0": {"at": T1}}, "more": T3})
    same_otherwise = T1.replace("Z", "+00:00")
    assert not was_read(newest, older, {"n": 1, "done": {"0": {"at": same_otherwise}}})


def test_what_an_edit_was_made_from_costs_little_more_than_to_part_its_lines() -> None:
    def cost(act: Callable[[], object]) -> float:
        began = time.process_time()
        act()
        return time.process_time() - began

    data = b"# x\n" * 1_000_000
    least = min(cost(data.splitlines) for _ in range(5))
    assert min(cost(lambda: nearest(data, [data])) for _ in range(5)) < 60 * least + 10


@pytest.mark.parametrize("ascii", [True, False])
@pytest.mark.parametrize("indent", [None, 2, 8])
def test_a_copy_is_known_however_it_is_spelled(indent: int | None, ascii: bool) -> None:
    versions = [
        {"goal": "Größe 🎉", "list": [{"n": n}, {"more": list(range(n))}]} for n in range(6)
    ]
    renderings = [json.dumps(each, indent=2, ensure_ascii=False).encode() for each in versions]
    for version, rendering in zip(versions, renderings, strict=True):
        copy = json.dumps(version | {"x": 1}, indent=indent, ensure_ascii=ascii).encode()
        assert nearest(copy, [*reversed(renderings)]) == rendering


def test_escapes_of_yaml_are_no_other_signs() -> None:
    kept = ["goal: Größe…\n", "goal: other\nlist: []\n"]
    copy = b'goal: "Gr\\xf6\\xdfe\\u2026"\nx: {a: 1}\ny: []\n'
    assert nearest(copy, [text.encode() for text in kept]) == kept[0].encode()


def test_of_renderings_with_the_same_words_the_one_with_them_in_their_places_is_nearest() -> None:
    before, after = {"open": ["t"], "done": []}, {"open": [], "done": ["t"]}
    kept = [json.dumps(each, indent=2).encode() for each in (after, before)]
    copy = json.dumps({"x": 1, **before}).encode()
    assert nearest(copy, [*kept, b"{}"], json.loads) == kept[1]
    assert nearest(json.dumps({"x": 1, **after}).encode(), [*reversed(kept)], json.loads) == kept[0]


def test_agents_that_are_alike_make_no_rendering_nearer() -> None:
    agent = {"type": "code", "status": "running", "progress": 0.2}
    before, after = ({"agents": [{"id": name, **agent} for name in names]} for names in ("", "a"))
    kept = [json.dumps(each).encode() for each in ({**after, "x": 1}, before)]
    copy = json.dumps({"agents": [{"id": "b", **agent}]}).encode()
    assert nearest(copy, [*kept, b"{}"], json.loads) == kept[1]


def test_errors_that_are_alike_make_no_rendering_nearer() -> None:
    error = {"category": "logical", "agent": "", "timestamp": T1}
    before, after = (
        {"errors": [{"message": name, **error} for name in names]} for names in ("", "a")
    )
    kept = [json.dumps(each).encode() for each in ({**after, "x": 1}, before)]
    copy = json.dumps({"errors": [{"message": "b", **error}]}).encode()
    assert nearest(copy, [*kept, b"{}"], json.loads) == kept[1]


def test_whoever_takes_an_id_out_has_not_read_what_was_before_it() -> None:
    task = {"description": "Write it", "agent": "", "status": "pending", "artifacts": []}
    before, after = (
        {"tasks": [{"task_id": name, **task} for name in names]} for names in ("", "a")
    )
    kept = [json.dumps(each).encode() for each in (after, before)]
    assert nearest(json.dumps({"tasks": [task]}).encode(), kept, json.loads) == kept[0]


def test_a_text_of_one_rendering_alone_tells_that_it_was_read() -> None:
    decision = {"timestamp": T1, "options": ["a", "b"], "chosen": "a", "reasoning": ""}
    one, two = ({"context": text, **decision} for text in ("Use a queue", "Keep it small"))
    kept = [json.dumps({"decisions_made": each}).encode() for each in ([one, two], [one])]
    taken = json.dumps({"decisions_made": [two]}).encode()
    assert nearest(taken, kept, json.loads) == kept[0]
    reworded = json.dumps({"decisions_made": [{**one, "context": "Use no queue"}]}).encode()
    assert nearest(reworded, kept, json.loads) == kept[1]
    another = json.dumps({"decisions_made": [one, {**two, "context": "Hire people"}]}).encode()
    assert nearest(another, kept, json.loads) == kept[1]
    reworded = json.dumps({"decisions_made": [one, {**two, "context": "Keep it tiny"}]}).encode()
    assert nearest(reworded, kept, json.loads) == kept[0]


def test_a_thing_that_comes_where_another_goes_from_another_list_makes_none_nearer() -> None:
    one, two = ({"at": T1, "what": text, "because": "so"} for text in ("Keep it small", "Redis"))
    kept = [{"decisions": some, "tasks": []} for some in ([one, two], [one], [])]
    taken = {"decisions": [two], "tasks": ["Write it"]}
    newest, *older = (json.dumps(each).encode() for each in kept)
    assert nearest(json.dumps(taken).encode(), [newest, *older], json.loads) == newest
