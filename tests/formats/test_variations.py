"""Files like the known ones, each with one thing different: how they are read and what is found.

A row names a story, what is changed in it, the reading, and the finding codes that come with the
change, beyond those that the story has anyway.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import forestay
from forestay.api.forestay import Forestay
from forestay.formats.text.document import Document
from tests.formats.test_pairs import STORIES, kind

GONE = object()
CRAFT, SHORT = "craft/first", "craft/short"
PLAIN, LOOSE = "orchestrator/first", "orchestrator/loose"
REDESIGN, LEGACY, SECOND = "praxis/first", "praxis/legacy", "praxis/second"
ESSAY = "essay/first"
STATE = "ai-session/first"

Row = tuple[str, dict[str, Any], tuple[str, bool | None, str], set[str]]
# story, changes by path, (generation, complete, status), codes
ROWS: dict[str, Row] = {
    "a word of another format": (
        CRAFT, {"status": "complete"}, ("document", True, "completed"), {"unknown-word"},
    ),
    "a version to come": (
        CRAFT, {"schema_version": "2.0.0"}, ("document", False, "active"), {"unknown-version"},
    ),
    "percents for a fraction": (
        CRAFT, {"progress": 65}, ("document", False, "active"), {"out-of-range"},
    ),
    "time that runs back": (
        CRAFT,
        {"updated_at": "2020-01-01T00:00:00.000Z"},
        ("document", False, "active"),
        {"time-runs-back"},
    ),
    "a running agent with an end": (
        CRAFT,
        {"agents.0.completed_at": "2026-01-31T11:00:00.000Z"},
        ("document", False, "active"),
        {"running-has-end"},
    ),
    "the fewest keys of craft": (
        SHORT,
        dict.fromkeys(
            "$schema mode updated_at device project pending_tasks completed_work progress agents"
            " decisions_made files_modified context_usage notes".split(),
            GONE,
        ),
        ("document", False, "active"),
        set(),
    ),
    "a word of ours in an orchestrator file": (
        PLAIN, {"status": "completed"}, ("document", True, "completed"), {"foreign-word"},
    ),
    "a word in capitals": (
        PLAIN, {"status": "COMPLETE"}, ("document", True, "completed"), {"unknown-word"},
    ),
    "an agent whose word has a hyphen": (
        PLAIN, {"agents.0.status": "in-progress"}, ("document", False, "active"), {"foreign-word"},
    ),
    "a minor version of orchestrator": (
        PLAIN, {"schema_version": "1.1"}, ("document", False, "active"), {"unknown-version"},
    ),
    "a project that is only named": (
        PLAIN, {"project": "/home/me/shop"}, ("document", False, "active"), {"wrong-type"},
    ),
    "an id that names no day": (
        PLAIN, {"session_id": "2026-13-45-abc123"}, ("document", False, "active"),
        {"odd-session-id"},
    ),
    "a fraction for percents": (
        PLAIN, {"agents.0.progress": 0.6}, ("document", False, "active"), {"wrong-type"},
    ),
    "signs misread": (
        PLAIN, {"goal": "â””â”€â”€ tree"}, ("document", False, "active"), {"misread-text"},
    ),
    "a running agent with all keys": (
        PLAIN,
        {"agents.0.completed": None, "agents.0.result_summary": None},
        ("document", False, "active"),
        set(),
    ),
    "a loose file that is over": (
        LOOSE, {"status": "done"}, ("aiterm", True, "completed"), {"foreign-word"},
    ),
    "the fewest keys of a loose file": (
        LOOSE,
        dict.fromkeys("project_path pending_tasks files_modified paused_at".split(), GONE),
        ("aiterm", False, "active"),
        set(),
    ),
    "a pause for no known reason": (
        REDESIGN,
        {"lifecycle.paused": True, "lifecycle.paused_reason": "bored"},
        ("redesign", False, "paused"),
        {"unknown-pause-reason"},
    ),
    "a flag before its time": (
        REDESIGN,
        {"lifecycle.completed": True, "lifecycle.completed_at": "2026-01-31T10:31:00Z"},
        ("redesign", True, "completed"),
        {"flagged-early"},
    ),
    "a phase past the end": (
        REDESIGN, {"current_phase": 7}, ("redesign", False, "active"), {"current-out-of-range"},
    ),
    "a redesigned file without its flags": (
        REDESIGN, {"lifecycle": GONE}, ("redesign", False, "active"), {"missing-key"},
    ),
    "an overrun": (
        LEGACY,
        {"completed_phases": [0, 1, 2, 3], "current_phase": 4, "metadata": {"total_phases": 3}},
        ("legacy-total", True, "completed"),
        {"overrun", "current-out-of-range", "completed-but-pending"},
    ),
    "a number of phases that is none": (
        LEGACY, {"metadata": {"total_phases": "dynamic"}}, ("legacy", False, "active"), set(),
    ),
    "phases as texts": (
        LEGACY,
        {"completed_phases": ["0", "1"]},
        ("legacy", False, "active"),
        {"wrong-type", "passed-not-completed"},
    ),
    "a second generation that is paused": (
        SECOND, {"status": "paused"}, ("ouroboros-timed", False, "paused"), set(),
    ),
    "a second generation without times": (
        SECOND, {"phase_timings": GONE}, ("ouroboros", False, "active"), set(),
    ),
    "an error without a status": (
        SECOND,
        {"status": GONE, "error_reason": "manually_deleted"},
        ("ouroboros-timed", False, "failed"),
        {"deleted-by-hand"},
    ),
    "a status nobody knows": (
        SECOND, {"status": "zombie"}, ("ouroboros-timed", False, "active"), {"unknown-word"},
    ),
    "a stage that is none": (
        ESSAY, {"current_stage": 5}, ("", False, "active"), {"out-of-range"},
    ),
    "a stage by another's name": (
        ESSAY,
        {"current_stage_name": "paragraph_writing"},
        ("", False, "active"),
        {"stage-name-differs"},
    ),
    "an outline of fewer sections than are argued": (
        ESSAY,
        {"stages.stage_2.total_sections": 1, "stages.stage_3.total_sections": 9},
        ("", False, "active"),
        {"count-differs"},
    ),
    "an essay that ends too early": (
        ESSAY, {"status": "completed"}, ("", True, "completed"), {"completed-too-early"},
    ),
    "a rating beyond the scale": (
        ESSAY,
        {"voice_calibration.first_assessment_user_rating": 9},
        ("", False, "active"),
        {"out-of-range"},
    ),
    "a model that is not allowed": (
        STATE, {"current_state.model_in_use": "gpt-4"}, ("contract", False, "active"),
        {"unknown-word"},
    ),
    "a contract to come": (
        STATE, {"version": "99"}, ("contract", False, "active"), {"version-unknown"},
    ),
    "a version that is a number": (
        STATE, {"version": 1.0}, ("contract", False, "active"), {"version-not-text"},
    ),
    "a state without a version": (
        STATE, {"version": GONE}, ("contract", False, "active"), {"version-missing"},
    ),
}  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Forestay:
    return forestay.open(str(tmp_path / "home"), cwd=str(tmp_path), trust_env=False)


def changed(value: Any, path: str, to: Any) -> None:
    *way, last = path.split(".")
    for key in way:
        value = value[int(key) if isinstance(value, list) else key]
    if to is GONE:
        value.pop(last, None)
    else:
        value[last] = to


def checked(home: Forestay, folder: Path, story: str, changes: dict[str, Any]) -> Any:
    """What `check` says of a story's main file alone, so changed."""
    name, data = next(iter(STORIES[story].items()))
    document = Document.parse(data, kind(name))
    value = document.value
    for path, to in changes.items():
        changed(value, path, to)
    file = folder / Path(name).name
    folder.mkdir()
    file.write_bytes(document.rewrite(value))
    (report,) = home.files.check(str(file))
    return report


@pytest.mark.parametrize("row", ROWS)
def test_changed_story_gives_only_the_findings_expected_for_its_changes(
    home: Forestay, tmp_path: Path, row: str
) -> None:
    story, changes, reading, codes = ROWS[row]
    with home:
        known = checked(home, tmp_path / "known", story, {})
        report = checked(home, tmp_path / "varied", story, changes)
    read = report.reading
    assert read.format == story.partition("/")[0]
    assert (read.generation, read.complete, read.status) == reading
    before = {finding.code for finding in known.findings}
    assert {finding.code for finding in report.findings} - before == codes
