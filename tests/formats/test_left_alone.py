"""A text in a file that the journal stores in a cleaned form is not changed in the file."""

from __future__ import annotations

from typing import Any

import pytest

from forestay.base.redact import Redactor
from forestay.formats.three_way import restore_texts
from forestay.journal.validate_input import admit, clean_facts
from forestay.model import event as ev

REDACTOR = Redactor()
LONG = "words " * 3000
ODD = ["two\nlines", " spaces ", "a\tbell\x07", "use ghp_" + "a1B2" * 9, LONG, "\x07"]


@pytest.mark.parametrize("text", ODD)
@pytest.mark.parametrize(
    "body, path",
    [
        (ev.SessionRenamed, ("goal",)),
        (ev.NoteAdded, ("notes", "text")),
        (ev.ErrorRaised, ("errors", "message")),
    ],
    ids=lambda each: each[-1] if isinstance(each, tuple) else "",
)
def test_facts_are_cleaned_as_the_journal_cleans_events(
    body: Any, path: tuple[str, ...], text: str
) -> None:
    stored = admit(body(**{path[-1]: text}), REDACTOR, foreign=True)
    facts: Any = {path[-1]: text} if len(path) == 1 else {path[0]: [{path[1]: text}]}
    clean = clean_facts(facts, REDACTOR)
    member = clean if len(path) == 1 else clean[path[0]][0]
    assert member[path[-1]] == getattr(stored, path[-1])


def test_ids_and_values_of_secret_attributes_are_cleaned() -> None:
    facts = {"steps": [{"id": LONG}], "attributes": {"API_TOKEN": "hunter2hunter2", "n": 1}}
    clean = clean_facts(facts, REDACTOR)
    step = admit(ev.StepAdded(step=LONG, title="x"), REDACTOR, foreign=True)
    assert isinstance(step, ev.StepAdded) and clean["steps"][0]["id"] == step.step
    assert "hunter2" not in str(clean) and clean["attributes"]["n"] == 1


def test_text_that_differs_only_by_cleaning_retains_its_spelling_in_the_file() -> None:
    raw = {"goal": " a ", "steps": [{"title": "one\t"}, {"title": "two"}]}
    clean = {"goal": "a", "steps": [{"title": "one"}, {"title": "two"}]}
    new = {"goal": "b", "steps": [{"title": "two", "status": "done"}, {"title": "one"}]}
    assert restore_texts(raw, clean, clean) == raw
    assert restore_texts(raw, clean, new) == {
        "goal": "b",
        "steps": [{"title": "two", "status": "done"}, {"title": "one\t"}],
    }
