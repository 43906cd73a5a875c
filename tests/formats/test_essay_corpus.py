"""The `essay` format on the document's own template: what is read and exactly what is found.

The files are not part of the project; where they are absent these tests are skipped.
"""

from __future__ import annotations

from typing import Any

import pytest

from forestay.formats.essay import fields
from forestay.formats.essay.fields import STATE
from forestay.formats.essay.format import FORMAT
from forestay.formats.port import INFO, Tree, Where
from forestay.formats.text.document import Document
from tests import corpus

CORPUS = corpus.CORPUS / "3"

pytestmark = corpus.needs_corpus

# File → generation, complete, status, progress, findings.
Row = tuple[str, bool, str, float, tuple[str, ...]]
TABLE: dict[str, Row] = {
    "seed-session-state.template.yaml": ("", False, "active", 0.0, ("placeholder",) * 6),
}


def document(name: str) -> Document:
    return Document.parse((CORPUS / name).read_bytes(), "yaml")


def load(name: str) -> Tree:
    return {STATE: document(name).value}


def test_expected_results_are_listed_for_every_essay_file_of_the_corpus() -> None:
    assert {path.name for path in CORPUS.iterdir()} == set(TABLE)


@pytest.mark.parametrize("name", TABLE)
def test_each_corpus_file_gives_the_reading_and_findings_listed_for_it(name: str) -> None:
    tree = load(name)
    reading = FORMAT.reading(tree, Where())
    findings = FORMAT.check(tree, Where())
    codes = tuple(finding.code for finding in findings)
    result = (reading.generation, reading.complete, reading.status, reading.progress, codes)
    assert result == TABLE[name]
    assert FORMAT.recognise(name, tree[STATE]) == 1 and reading.writable
    assert {finding.severity for finding in findings} == {INFO}


@pytest.mark.parametrize("name", TABLE)
def test_writing_back_the_facts_of_a_corpus_file_changes_no_byte(name: str) -> None:
    parsed = document(name)
    tree = FORMAT.put({STATE: parsed.value}, FORMAT.get({STATE: parsed.value}, Where()), Where())
    assert parsed.rewrite(tree[STATE]) == (CORPUS / name).read_bytes()


@pytest.mark.req("S3-1", "S3-26", "S3-40")
def test_new_file_has_the_templates_keys_in_their_order_and_its_values() -> None:
    (name,) = TABLE
    template, ours = load(name)[STATE], fields.blank()
    assert keys(ours) == keys(template)
    for path in keys(ours):
        template_value, made = fields.value_at(template, path), fields.value_at(ours, path)
        assert (made or None) == (
            None
            if isinstance(template_value, str) and "{" in template_value
            else template_value or None
        )


def keys(doc: Any, path: str = "") -> list[str]:
    found: list[str] = []
    for key, value in doc.items():
        below = keys(value, f"{path}{key}.") if isinstance(value, dict) else [f"{path}{key}"]
        found += below
    return found
