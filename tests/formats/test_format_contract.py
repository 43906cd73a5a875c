"""The laws that every format meets, among them a toy format that no generic code knows.

The cases come from `tests/formats/samples`. A row of a table carries the mark of its requirement.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from forestay.formats import timestamps
from forestay.formats.coerce import copied
from forestay.formats.facts import SESSION, UNIT, Facts
from forestay.formats.port import ERROR, EXTRA, REGISTRY, load_format
from forestay.formats.status_words import SESSION_WORDS, session_status
from tests.formats import json_stories as stories
from tests.formats.sample import Sample

NAMES = [*(module.split(".")[2] for module, _ in REGISTRY.values()), "toy"]
SAMPLES: dict[str, Sample] = {
    name: import_module(f"tests.formats.samples.{name}").SAMPLE for name in NAMES
}
WRONG_KIND = {"text": 7, "stamp": "soon", "number": "7", "boolean": "yes", "list": {}, "object": []}
"""Kind of a field → a value of another kind."""
WORD_CODES = {"unknown-word", "foreign-word", "odd-word"}


def cases(rows_of: Callable[[Sample], Iterable[tuple[Any, ...]]]) -> list[Any]:
    """Return the rows of all samples as parameters, marked with the requirement at their end."""
    return [
        pytest.param(
            sample,
            *row,
            marks=pytest.mark.req(row[-1]) if row[-1] else (),
            id=f"{sample.format.id}-{number}-{row[0]}",
        )
        for sample in SAMPLES.values()
        for number, row in enumerate(rows_of(sample))
    ]


@pytest.fixture(scope="module", params=NAMES)
def sample(request: pytest.FixtureRequest) -> Sample:
    return SAMPLES[request.param]


def test_format_is_registered_under_its_id() -> None:
    for id in REGISTRY:
        assert load_format(id).id == id
        assert load_format(id).document == f"S{[*REGISTRY].index(id)}"


# --- recognising ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_session_is_recognised_by_its_own_format_only(name: str) -> None:
    sample = SAMPLES[name]
    value = sample.tree[sample.main]
    assert sample.format.recognise(sample.main, value) > 0.5
    for other in SAMPLES.values():
        assert other is sample or other.format.recognise("any.json", value) < 0.3


def test_values_that_are_not_sessions_are_not_recognised(sample: Sample) -> None:
    for value in (None, [], "text", *sample.others):
        assert sample.format.recognise("any.json", value) < 0.3, value


def test_new_id_is_valid_repeatable_and_not_taken(sample: Sample) -> None:
    facts = Facts(goal="Row across", began_at=1_768_600_000_000)
    first = sample.format.new_id(facts, sample.where, frozenset())
    other = sample.format.new_id(facts, sample.where, frozenset({first}))
    assert first == sample.format.new_id(facts, sample.where, frozenset()) != other
    assert [sample.format.why_invalid_id(id) for id in (first, other)] == ["", ""]
    for bad in ("", "../etc", f"{first}\n", f"{first}/.."):
        assert sample.format.why_invalid_id(bad), bad


# --- reading and writing -------------------------------------------------------------------------


@pytest.mark.req("S0-77", "S0-78")
@given(data=st.data())
def test_any_session_files_can_be_read_and_checked(sample: Sample, data: st.DataObject) -> None:
    names = st.sampled_from([*sample.tree, "x"])
    tree = data.draw(st.dictionaries(names, stories.junk, max_size=3))
    facts = sample.get(tree)
    assert facts.status in SESSION
    assert {step.status for step in facts.steps} <= {*UNIT}
    sample.format.reading(tree, sample.where)
    assert all(finding.what for finding in sample.check(tree, strict=True))
    assert all(0.0 <= sample.format.recognise(name, each) <= 1.0 for name, each in tree.items())


@pytest.mark.req("S2-82")
@given(data=st.data())
def test_writing_what_was_read_changes_nothing(sample: Sample, data: st.DataObject) -> None:
    where = replace(sample.where, device="elsewhere", project_path="/elsewhere")
    tree = {name: data.draw(stories.mutants(value)) for name, value in sample.tree.items()}
    before = json.dumps(tree)
    facts = sample.format.get(tree, where)
    sample.format.check(tree, where, strict=True)
    assert json.dumps(sample.format.put(tree, facts, where)) == before == json.dumps(tree)


@given(data=st.data())
def test_file_has_the_written_facts_whatever_it_had_before(
    sample: Sample, data: st.DataObject
) -> None:
    facts = data.draw(stories.facts_for(sample.get()))
    tree = {name: data.draw(stories.mutants(value)) for name, value in sample.tree.items()}
    before = copied(tree)
    made = sample.put(tree, facts)
    assert sample.put(made, facts) == made, "writing twice is writing once"
    assert tree == before, "the old tree is not changed"
    if sample.format.reading(tree, sample.where).writable:
        read, alone = sample.get(made), sample.get(sample.put(None, facts))
        assert stories.core(read) == stories.core(alone)
        assert read.goal == alone.goal or not sample.format.has_goal


@given(data=st.data())
def test_new_file_gives_back_its_facts_without_fault(sample: Sample, data: st.DataObject) -> None:
    facts = data.draw(stories.facts_for(sample.get()))
    made = sample.put(None, facts)
    read = sample.get(made)
    assert sample.put(made, facts) == made
    assert sample.put(made, read) == made
    faults = [f for f in sample.check(made, strict=True) if f.severity == ERROR]
    # The order of stages and times is the journal's affair.
    codes = {f.code for f in faults if not f.where.endswith(".started")}
    assert codes <= {"time-runs-back", "prerequisite-not-started"}


@pytest.mark.parametrize("status", SESSION)
def test_status_of_a_session_has_a_word_of_the_format(sample: Sample, status: str) -> None:
    facts = replace(sample.get(), status=status)
    id = sample.format.id
    for old in (None, sample.tree):
        read = sample.get(sample.put(old, facts))
        if id in SESSION_WORDS:
            assert read.status == session_status(id, SESSION_WORDS[id][status])


@pytest.mark.parametrize(
    "sample, word, status, req",
    cases(lambda s: [(word, status, s.status[1]) for word, status in s.statuses.items()]),
)
def test_word_for_a_status_is_read_and_not_changed(
    sample: Sample, word: str, status: str, req: str
) -> None:
    tree = sample.changed(sample.status[0], word)
    assert sample.get(tree).status == status
    assert sample.format.reading(tree, sample.where).complete is (status == "completed")
    words = SESSION_WORDS[sample.format.id]
    for finer in SESSION:
        if session_status(sample.format.id, words[finer]) == status:
            assert sample.put(tree, replace(sample.get(tree), status=finer)) == tree, finer


@pytest.mark.parametrize("sample, place, req", cases(lambda s: [s.updated]))
def test_time_of_the_last_change_never_goes_back_and_retains_its_style(
    sample: Sample, place: str, req: str
) -> None:
    moment = sample.get().updated_at
    assert moment is not None
    moment = moment // 1000 * 1000
    odd = timestamps.write(moment, "2026-01-01T00:00:00+01:00")
    old = sample.changed(place, odd)
    facts = sample.get(old)
    for at, wanted in ((1, moment), (moment + 60_999, moment + 60_000)):
        made = sample.put(old, replace(facts, updated_at=at))
        node, key = sample.locate(made, place)
        assert node[key] == timestamps.write(wanted, odd)


@pytest.mark.parametrize(
    "sample, version, is_written, req",
    cases(lambda s: [(version, ours, s.version[1]) for version, ours in s.versions.items()]),
)
def test_only_known_versions_are_written(
    sample: Sample, version: Any, is_written: bool, req: str
) -> None:
    tree = sample.changed(sample.version[0], version)
    reading = sample.format.reading(tree, sample.where)
    assert reading.writable is is_written
    assert (reading.status, sample.get(tree).goal) == ("active", sample.get().goal)
    if not is_written:
        assert sample.check(tree)[0].where == sample.version[0].rpartition(":")[2]


def mappings(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield every mapping inside a value with its path."""
    if isinstance(value, dict):
        yield path, value
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in inner:
        if isinstance(each, dict | list):
            yield from mappings(each, (*path, key))


@pytest.mark.req("S2-82")
def test_unknown_keys_survive_in_every_mapping(sample: Sample) -> None:
    tree = copied(sample.tree)
    marked = [(name, path) for name, value in tree.items() for path, _ in [*mappings(value)]]
    for value in tree.values():
        for _, part in [*mappings(value)]:
            part["zz_theirs"] = "x"
    facts = sample.get(tree)
    facts = replace(
        facts,
        status="paused",
        updated_at=(facts.updated_at or 0) + 60_000,
        agents=[replace(agent, result="Another result") for agent in facts.agents],
        decisions=[replace(choice, because="Another reason") for choice in facts.decisions],
        tokens=77,
        git_branch="another",
        mode="debug",
    )
    made = sample.put(tree, facts)
    assert made != tree
    for name, path in marked:
        part = made[name]
        for key in path:
            part = part[key]
        assert part["zz_theirs"] == "x", (name, path)


def test_our_extra_key_gives_no_finding_and_is_preserved(sample: Sample) -> None:
    ours = {"v": 1, "facts": {}}
    tree = {**sample.tree, sample.main: {**sample.tree[sample.main], EXTRA: ours}}
    assert sample.check(tree, strict=True) == []
    made = sample.put(tree, replace(sample.get(tree), status="paused"))
    assert made[sample.main][EXTRA] == ours


# --- field by field ------------------------------------------------------------------------------


def test_consistent_session_has_no_fault(sample: Sample) -> None:
    assert sample.check(sample.tree, strict=True) == []


@pytest.mark.parametrize(
    "sample, place, kind, req", cases(lambda s: [f for f in s.fields if f[1] != "-"])
)
def test_field_with_a_value_of_the_wrong_type_is_an_error(
    sample: Sample, place: str, kind: str, req: str
) -> None:
    path = place.rpartition(":")[2]
    for value, is_wrong in ((WRONG_KIND[kind.rstrip("?")], True), (None, "?" not in kind)):
        found = [f for f in sample.check(sample.changed(place, value)) if f.where == path]
        assert [f.requirement for f in found if f.severity == ERROR] == [req] * is_wrong, value


@pytest.mark.parametrize(
    "sample, place, kind, req",
    cases(
        lambda s: [
            f for f in s.fields if f[0][-1] != "]" and not f[0].startswith(s.optional or "-")
        ]
    ),
)
def test_missing_field_is_reported_and_an_error_in_what_we_write(
    sample: Sample, place: str, kind: str, req: str
) -> None:
    tree = sample.changed(place, ...)
    found = [f for f in sample.check(tree, strict=True) if f.code == "missing-key"]
    assert (place.rpartition(":")[2], ERROR) in [(f.where, f.severity) for f in found]
    assert "." not in place or req in [f.requirement for f in found]


@pytest.mark.parametrize(
    "sample, place, kind, req",
    cases(lambda s: [f for f in s.fields if s.full and not f[0].startswith(s.unwritten or "-")]),
)
def test_field_is_written_into_a_new_file(sample: Sample, place: str, kind: str, req: str) -> None:
    assert sample.full is not None
    tree = sample.full(place)
    made = sample.put(None, sample.get(tree))
    (node, key), (wanted, _) = sample.locate(made, place), sample.locate(tree, place)
    assert node[key] == wanted[key]
    if isinstance(node, dict):
        assert list(node) == [name for name in wanted if name in node]


@pytest.mark.parametrize("sample, place, value, code, req", cases(lambda s: s.faults))
def test_fault_is_reported_with_its_code_and_requirement(
    sample: Sample, place: str, value: Any, code: str, req: str
) -> None:
    found = [f for f in sample.check(sample.changed(place, value)) if f.code == code]
    assert found and found[0].what
    assert found[0].file == (sample.files.get(place.rpartition(":")[0]) or sample.main)
    assert req in ("", *(f.requirement for f in found))


@pytest.mark.parametrize("sample, place, words, req", cases(lambda s: s.words))
def test_words_of_the_document_are_allowed_and_no_others(
    sample: Sample, place: str, words: str, req: str
) -> None:
    for word in words.split():
        found = sample.check(sample.changed(place, word), strict=True)
        assert not {f.code for f in found} & WORD_CODES, word
    found = sample.check(sample.changed(place, "nonsense"))
    assert (place, True) in [(f.where, f.code in WORD_CODES) for f in found]


# --- salvage -------------------------------------------------------------------------------------


@given(st.integers(0, 4000), st.binary(max_size=20))
def test_salvage_never_raises_and_changes_no_bytes(sample: Sample, cut: int, tail: bytes) -> None:
    data = json.dumps(sample.tree[sample.main], indent=2).encode()[:cut] + tail
    bundle = {sample.main: data}
    found = sample.format.salvage(bundle, sample.where)
    assert bundle == {sample.main: data}
    if found is not None:
        known, read = sample.get(), found.facts
        assert tail or read.native_id in ("", known.native_id)
        assert tail or {agent.id for agent in read.agents} <= {agent.id for agent in known.agents}
        assert tail or read.tokens in (None, known.tokens)
        assert sample.get(sample.put(None, read)).status in SESSION


@pytest.mark.parametrize(
    "data",
    [b"", b"\0" * 900, b"nothing", b"[1, 2]", b"{", b"- a\n", b"[" * 90_000, b'{"a":' * 90_000],
)
def test_salvage_of_missing_or_worthless_files_gives_nothing(sample: Sample, data: bytes) -> None:
    assert sample.format.salvage({sample.main: data}, sample.where) is None
    assert sample.format.salvage({}, sample.where) is None


@pytest.mark.parametrize("id", ["praxis", "craft", "orchestrator"])
def test_torn_file_gives_everything_before_the_damage(id: str) -> None:
    sample = SAMPLES[id]
    value = sample.tree[sample.main]
    text = json.dumps(value, indent=2)
    last = [*value][-3]
    found = sample.format.salvage(
        {sample.main: text[: text.index(f'\n  "{last}"')].encode() + b"\0" * 512}, sample.where
    )
    assert found is not None
    assert found.level == "partial" and "zeros" in found.message
    whole = sample.get({sample.main: {k: v for k, v in value.items() if k not in [*value][-3:]}})
    assert found.facts == whole
    assert {*found.lost} <= {*[*value][-3:]} | {EXTRA}


@pytest.mark.parametrize("id", ["praxis", "craft", "orchestrator"])
def test_padding_byte_order_mark_and_utf_16_do_not_change_salvaged_facts(id: str) -> None:
    sample = SAMPLES[id]
    text = json.dumps(sample.tree[sample.main])
    for data in (
        text.encode() + b"\0" * 50,
        b"\xef\xbb\xbf" + text.encode(),
        text.encode("utf-16"),
    ):
        found = sample.format.salvage({sample.main: data}, sample.where)
        assert found is not None and found.facts == sample.get()


@pytest.mark.parametrize("id", ["praxis", "craft", "orchestrator"])
def test_salvage_reads_the_first_side_of_a_merge_conflict(id: str) -> None:
    sample = SAMPLES[id]
    lines = json.dumps(sample.tree[sample.main], indent=2).splitlines(keepends=True)
    ours = lines[3]
    lines[3:4] = ["<<<<<<< a\n", ours, "=======\n", ours.replace('": "', '": "x'), ">>>>>>> b\n"]
    found = sample.format.salvage({sample.main: "".join(lines).encode()}, sample.where)
    assert found is not None and found.facts == sample.get()
    assert "conflict" in found.message
