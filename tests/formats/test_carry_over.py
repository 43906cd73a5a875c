"""What a format has no field for travels under our key, and counts while its field is unchanged."""

from __future__ import annotations

import copy
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forestay.formats import carry_over, diff
from forestay.formats.facts import AgentFact, DecisionFact, Facts, StepFact, plain
from forestay.formats.port import EXTRA, Where, load_format
from forestay.formats.praxis.format import FORMAT as PRAXIS
from forestay.formats.text.document import Document, fresh
from tests.formats.scribe import keys, values
from tests.formats.toys import POOR, RICH, Toy, facts

often = settings(deadline=None, suppress_health_check=list(HealthCheck))
formats = st.sampled_from([RICH, POOR])
HERE = Where(now=1_700_000_000_000)
LATER = Where(now=1_800_000_000_000)


def main_of(files: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(iter(files.values()))
    return found


def with_strange_keys(files: dict[str, Any], strange: dict[str, Any]) -> dict[str, Any]:
    """Return the files as another program may have them: with its keys in front and inside."""
    name, main = next(iter(files.items()))
    known = {f"x {key}": value for key, value in strange.items()}
    made = {**known, **copy.deepcopy(main)}
    for item in made.get("items", [])[:1]:
        item.update(known)
    return {name: made}


def example() -> Facts:
    return Facts(
        native_id="n1",
        goal="ship",
        status="aborted",
        progress=0.5,
        because="tired",
        steps=[
            StepFact("plan", id="t1", status="done", agent="arch-1"),
            StepFact("build", id="t2", status="blocked", parent="t1"),
            StepFact("test", id="t3", status="failed"),
        ],
        agents=[AgentFact("arch-1", status="timed_out")],
        decisions=[DecisionFact("use a", because="small", at=5)],
    )


@often
@given(formats, facts)
def test_facts_survive_conversion_to_a_format_without_fields_for_them(
    format: Toy, want: Facts
) -> None:
    files = carry_over.write(format, None, want, HERE, full=True)
    assert carry_over.read(format, files, LATER) == want


@often
@given(formats, facts)
def test_facts_that_a_format_has_no_field_for_survive_writing_and_reading(
    format: Toy, want: Facts
) -> None:
    files = carry_over.write(format, None, want, HERE, full=True)
    name, main = next(iter(files.items()))
    kind = name.rpartition(".")[2]
    back = {name: Document.parse(fresh(kind, main), kind).value}
    assert carry_over.read(format, back, LATER) == want


@often
@given(formats, facts, st.booleans(), st.dictionaries(keys, values, max_size=2))
def test_writing_what_was_read_changes_nothing(
    format: Toy, want: Facts, full: bool, strange: dict[str, Any]
) -> None:
    files = with_strange_keys(carry_over.write(format, None, want, HERE, full=full), strange)
    again = carry_over.write(format, files, carry_over.read(format, files, HERE), LATER, full=full)
    assert diff.identical(again, files)


def test_steps_with_equal_names_retain_their_statuses() -> None:
    for statuses in product(("pending", "running", "blocked", "done"), repeat=3):
        steps = [StepFact("plan it", id=f"t{n}", status=s) for n, s in enumerate(statuses)]
        files = carry_over.write(POOR, None, Facts(native_id="n", steps=steps), HERE)
        read = carry_over.read(POOR, files, HERE)
        assert sorted(step.status for step in read.steps) == sorted(statuses)
        assert diff.identical(carry_over.write(POOR, files, read, HERE), files)


def test_finished_step_among_equal_names_stays_finished() -> None:
    stated = ("skipped", "running")
    steps = [StepFact("build it", id=f"t{n}", status=s) for n, s in enumerate(stated)]
    files = carry_over.write(POOR, None, Facts(native_id="n", steps=steps), HERE)
    assert [step.status for step in carry_over.read(POOR, files, HERE).steps] == [
        "running",
        "skipped",
    ]


def test_format_that_can_hold_every_fact_gets_no_key_of_ours() -> None:
    files = carry_over.write(RICH, None, Facts(native_id="n", goal="g", status="paused"), HERE)
    assert EXTRA not in main_of(files)


def test_written_mirror_file_carries_statuses_and_no_other_values() -> None:
    files = carry_over.write(POOR, None, example(), HERE)
    stated = carry_over.read(POOR, files, HERE)
    assert stated.status == "aborted"
    assert [step.status for step in stated.steps] == ["blocked", "failed", "done"]
    assert (stated.because, stated.agents, {step.id for step in stated.steps}) == ("", [], {""})


def test_extra_key_is_removed_when_nothing_is_carried() -> None:
    files = carry_over.write(POOR, None, example(), HERE)
    plainer = Facts(native_id="n1", goal="ship", status="completed")
    assert EXTRA in main_of(files)
    assert EXTRA not in main_of(carry_over.write(POOR, files, plainer, HERE))


def test_carried_status_is_used_only_while_the_status_word_in_the_file_is_unchanged() -> None:
    files = carry_over.write(POOR, None, example(), HERE, full=True)
    main_of(files)["word"] = "open"
    stated = carry_over.read(POOR, files, HERE)
    assert (stated.status, stated.because) == ("active", "tired")


def test_step_without_an_id_is_found_again_after_another_program_finished_it() -> None:
    files = carry_over.write(POOR, None, example(), HERE, full=True)
    main = main_of(files)
    main["todo"].remove("build")
    main["finished"].append("build")
    steps = {step.id: step for step in carry_over.read(POOR, files, HERE).steps}
    assert steps["t2"].title == "build"
    assert (steps["t2"].status, steps["t2"].parent) == ("done", "t1")
    assert (steps["t1"].status, steps["t1"].agent) == ("done", "arch-1")
    assert steps["t3"].status == "failed"


def test_step_without_an_id_is_found_again_after_another_program_retitled_it() -> None:
    files = carry_over.write(POOR, None, example(), HERE, full=True)
    main_of(files)["todo"][0] = "build well"
    steps = {step.id: step for step in carry_over.read(POOR, files, HERE).steps}
    assert (steps["t2"].title, steps["t2"].parent) == ("build well", "t1")
    assert set(steps) == {"t1", "t2", "t3"}


def test_new_step_of_another_program_stays_without_an_id() -> None:
    files = carry_over.write(POOR, None, example(), HERE, full=True)
    main_of(files)["todo"].append("celebrate")
    steps = carry_over.read(POOR, files, HERE).steps
    assert {step.title: step.id for step in steps} == {
        "plan": "t1",
        "build": "t2",
        "test": "t3",
        "celebrate": "",
    }


@often
@given(formats, facts, values)
def test_file_with_junk_under_our_extra_key_can_be_read_and_converted(
    format: Toy, want: Facts, junk: Any
) -> None:
    files = format.put(None, want, HERE)
    for extra in (junk, {"v": 1, "facts": junk}, {"v": 1, "from": junk}, {"v": 99, "facts": junk}):
        main_of(files)[EXTRA] = extra
        assert isinstance(carry_over.read(format, files, HERE), Facts)
        assert carry_over.convert(format, files, POOR, HERE)[0]


def test_praxis_goal_is_derived_even_if_the_carried_facts_are_junk() -> None:
    files = PRAXIS.put(None, example(), HERE)
    own = PRAXIS.get(files, HERE)
    for junk in (5, [1], None, {"goal": 5}):
        change = {"was": carry_over._shared(plain(own)), "now": junk}
        main_of(files)[EXTRA] = {"v": 1, "facts": change}
        assert carry_over.read(PRAXIS, files, HERE).goal == own.goal


def test_values_carried_by_a_newer_version_are_not_changed() -> None:
    files = carry_over.write(POOR, None, example(), HERE)
    main_of(files)[EXTRA] = {"v": 2, "facts": "in a form unknown here"}
    again = carry_over.write(POOR, files, example(), HERE, full=True)
    assert main_of(again)[EXTRA] == {"v": 2, "facts": "in a form unknown here"}


# Conversions

pairs = st.sampled_from([(RICH, POOR), (POOR, RICH)])


@often
@given(pairs, facts, st.booleans(), st.dictionaries(keys, values, max_size=3))
def test_conversion_to_another_format_and_back_gives_identical_files(
    pair: tuple[Toy, Toy], want: Facts, full: bool, strange: dict[str, Any]
) -> None:
    a, b = pair
    files = with_strange_keys(carry_over.write(a, None, want, HERE, full=full), strange)
    there, loss = carry_over.convert(a, files, b, HERE)
    back, _ = carry_over.convert(b, there, a, LATER)
    assert diff.identical(back, files)
    assert loss.lost == []


@often
@given(facts, st.dictionaries(keys, values, max_size=3))
def test_conversion_through_several_formats_preserves_unknown_keys(
    want: Facts, strange: dict[str, Any]
) -> None:
    files = with_strange_keys(carry_over.write(POOR, None, want, HERE), strange)
    there = carry_over.convert(POOR, files, RICH, HERE)[0]
    further = carry_over.convert(RICH, there, OTHER, HERE)[0]
    assert diff.identical(carry_over.convert(OTHER, further, POOR, LATER)[0], files)


class _Other(type(POOR)):  # type: ignore[misc]
    id = "other"
    name = "other-{}.json"


OTHER = _Other()


def converted(a: Toy, b: Toy) -> tuple[dict[str, Any], dict[str, Any]]:
    strange = {"note": ["kept"], "n": 3}
    files = with_strange_keys(carry_over.write(a, None, example(), HERE), strange)
    return files, carry_over.convert(a, files, b, HERE)[0]


def back(b: Toy, there: dict[str, Any], a: Toy) -> dict[str, Any]:
    return carry_over.convert(b, there, a, LATER)[0]


def changes(old: Any, new: Any, path: str = "") -> dict[str, Any]:
    """Return the places that differ, and their present values."""
    if isinstance(old, dict) and isinstance(new, dict):
        found: dict[str, Any] = {}
        for key in {**old, **new}:
            found |= changes(old.get(key), new.get(key), f"{path}.{key}")
        return found
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        found = {}
        for place, (one, two) in enumerate(zip(old, new, strict=True)):
            found |= changes(one, two, f"{path}[{place}]")
        return found
    return {} if diff.same(old, new) else {path: new}


def test_status_changed_in_the_converted_file_is_the_only_change_after_converting_back() -> None:
    files, there = converted(RICH, POOR)
    main_of(there)["word"] = "open"
    assert changes(main_of(files), main_of(back(POOR, there, RICH))) == {".state": "active"}


def test_progress_changed_in_the_converted_file_is_the_only_change_after_converting_back() -> None:
    files, there = converted(RICH, POOR)
    main_of(there)["percent"] = 75
    assert changes(main_of(files), main_of(back(POOR, there, RICH))) == {".progress": 0.75}


def test_task_retitled_in_the_converted_file_is_the_only_change_after_converting_back() -> None:
    files, there = converted(RICH, POOR)
    main_of(there)["todo"][0] = "build well"
    after = main_of(back(POOR, there, RICH))
    assert changes(main_of(files), after) == {".items[1].text": "build well"}


def test_task_finished_in_the_converted_file_is_the_only_change_after_converting_back() -> None:
    files, there = converted(RICH, POOR)
    main_of(there)["todo"].remove("build")
    main_of(there)["finished"].append("build")
    after = main_of(back(POOR, there, RICH))
    assert changes(main_of(files), after) == {".items[1].state": "done"}


def test_decision_added_in_the_converted_file_is_the_only_change_after_converting_back() -> None:
    files, there = converted(RICH, POOR)
    main_of(there)["log"].append("use b")
    after = main_of(back(POOR, there, RICH))
    assert after["why"] == [*main_of(files)["why"], {"what": "use b", "why": ""}]
    assert changes(main_of(files), after).keys() == {".why"}


def test_unknown_key_added_to_the_converted_file_survives_conversion_back_and_forth() -> None:
    files, there = converted(RICH, POOR)
    main_of(there)["mood"] = {"today": "fine"}
    home = back(POOR, there, RICH)
    assert changes(main_of(files), main_of(home)).keys() == {f".{EXTRA}"}
    again = carry_over.convert(RICH, home, POOR, LATER)[0]
    assert main_of(again)["mood"] == {"today": "fine"}


def test_order_of_steps_survives_a_format_that_sorts_them() -> None:
    there = converted(RICH, POOR)[1]
    main_of(there)["todo"].reverse()
    main_of(there)["finished"] = [*main_of(there)["todo"], *main_of(there)["finished"]]
    main_of(there)["todo"] = []
    after = main_of(back(POOR, there, RICH))
    assert [item["key"] for item in after["items"]] == ["t1", "t2", "t3"]
    assert {item["state"] for item in after["items"]} == {"done"}


def test_changed_step_status_is_converted_back_to_a_format_with_fewer_status_words() -> None:
    there = converted(POOR, RICH)[1]
    main_of(there)["items"][0]["state"] = "done"
    after = main_of(back(RICH, there, POOR))
    assert after["todo"] == ["test"]
    assert sorted(after["finished"]) == ["build", "plan"]
    assert after["x note"] == ["kept"]


def test_loss_report_names_the_carried_values() -> None:
    loss = carry_over.convert(RICH, carry_over.write(RICH, None, example(), HERE), POOR, HERE)[1]
    assert loss.lost == []
    assert "poor has no exact field for began_at: it is stored under `forestay`" in loss.carried
    assert "poor has no exact field for status: it is stored under `forestay`" in loss.carried
    assert any("steps.id" in sentence for sentence in loss.carried)


def test_loss_report_is_empty_when_every_value_has_a_field() -> None:
    want = Facts(native_id="n1", goal="ship", status="completed")
    loss = carry_over.convert(POOR, carry_over.write(POOR, None, want, HERE), RICH, HERE)[1]
    assert (loss.carried, loss.lost) == ([], [])


def test_value_that_cannot_be_carried_is_reported_lost() -> None:
    class Mute(type(POOR)):  # type: ignore[misc]
        def put(self, old: Any, facts: Facts, where: Where) -> Any:
            return {self.files(facts.native_id)[0]: [facts.goal]}

        def get(self, tree: Any, where: Where) -> Facts:
            return Facts(goal=next(iter(tree.values()))[0])

    loss = carry_over.convert(RICH, carry_over.write(RICH, None, example(), HERE), Mute(), HERE)[1]
    assert any("status" in sentence for sentence in loss.lost)


def test_session_without_an_id_has_none_after_conversion_and_back() -> None:
    files: dict[str, Any] = {"session-.yaml": {"task": "ship"}}
    there = carry_over.convert(POOR, files, RICH, HERE)[0]
    assert carry_over.convert(RICH, there, POOR, LATER)[0] == files


@pytest.mark.parametrize("format", [RICH, POOR], ids=["rich", "poor"])
def test_conversion_uses_the_native_id_given_instead_of_the_original_one(format: Toy) -> None:
    files = carry_over.write(RICH, None, example(), HERE)
    there = carry_over.convert(RICH, files, format, HERE, native_id="mine")[0]
    assert carry_over.read(format, there, HERE).native_id == "mine"
    assert list(there) == format.files("mine")


def test_carried_file_whose_content_is_no_document_is_not_written() -> None:
    craft, other = load_format("craft"), load_format("ai-session")
    came = carry_over.write(craft, None, Facts(native_id="n1", goal="ship"), HERE, full=True)
    junk = dict.fromkeys(other.files("s-1"), 5)
    main_of(came)[EXTRA] = {"v": 1, "from": {other.id: {"id": "s-1", "files": junk}}}
    made, _ = carry_over.convert(craft, came, other, HERE)
    assert all(fresh(name.rpartition(".")[2], value) for name, value in made.items() if value)
    assert 5 not in made.values()
