"""The commands for essays."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Cli

THESIS = "## Thesis Statement\nSlow software is a choice.\n\n## Claim Type\nargument\n"
OUTLINE = "### Section 1: Waste (~300 words)\n### Section 2: Care (~200 words)\n"


@pytest.fixture
def essay(cli: Cli, project: Path) -> Path:
    """Return the folder of an essay whose outline is approved."""
    cli.start("On slow software", "--workflow", "essay", "--bind", "essay", "--id", "slow")
    folder = Path(cli.json("files")["formats"][0]["path"]).parent
    (folder / "stage-1-thesis.md").write_text(THESIS)
    (folder / "stage-2-outline.md").write_text(OUTLINE)
    cli.ok("essay", "approve", "G1")
    cli.ok("essay", "approve", "G2")
    return folder


@pytest.mark.req("X3-1")
def test_essay_starts_in_a_separate_folder(cli: Cli, project: Path) -> None:
    cli.start("E", "--workflow", "essay", "--bind", "essay", "--pushback", "light")
    (bound,) = cli.json("files")["formats"]
    state = Path(bound["path"])
    assert state.parent.name.startswith("essay-pipeline-")
    assert 'pushback_level: "light"' in state.read_text()


def test_essay_file_is_accepted_by_name_or_path_only_in_the_folder_of_the_essay(
    cli: Cli, essay: Path, project: Path
) -> None:
    map = essay / "stage-3-section-1-arguments.md"
    map.write_text("**Verified**: YES\n")
    answer = cli.json("essay", "section", "done", "1", "--map", map.name)
    assert answer["missing"] == ["essay approve G3 --section 1"]
    assert cli.json("essay", "section", "done", "1", "--map", str(map))["following"].startswith(
        "essay approve G3"
    )
    (project / "elsewhere.md").write_text("x")
    assert cli("essay", "section", "done", "1", "--map", "elsewhere.md").code == 2
    assert cli("essay", "approve", "G9").code == 2


def test_missing_steps_and_the_next_step_are_shown(cli: Cli, essay: Path) -> None:
    answer = cli.ok("--no-color", "essay", "approve", "G3", terminal=True)
    owed = "forestay essay section done 1 --map stage-3-section-1-arguments.md"
    assert f"still missing: {owed}" in answer.out and f"next: {owed}" in answer.out
    assert owed in cli.ok("status").out
    lines = cli.ok("--no-color", "status", terminal=True).out.splitlines()
    assert owed in " ".join(line.strip() for line in lines), "what is to be typed is never cut"
    assert all(len(line) <= 80 for line in lines)


@pytest.mark.req("X3-8", "S3-119", "S3-125")
def test_pause_and_resume_of_an_essay_print_the_specified_text(cli: Cli, essay: Path) -> None:
    reported = cli.ok("pause").out
    assert "Session paused at Stage 3, Section 1. To resume, invoke essay-pipeline" in reported
    assert cli.ok("resume").out.startswith("Resuming at Stage 3. Here's where you left off: ")


@pytest.mark.req("S3-109", "S3-115", "S3-124")
def test_resume_asks_about_an_essay_that_contradicts_its_files(cli: Cli, essay: Path) -> None:
    (essay / "stage-1-thesis.md").unlink()
    answer = cli("resume")
    assert answer.code == 7
    assert "stage-1-thesis.md does not exist in the session's folder" in answer.out
    assert "How do you want to proceed?" in answer.out
    found = cli("--json", "resume").json
    assert found["question"] == "How do you want to proceed?"
    assert len(found["discrepancies"]) == 1 and set(found["choices"]) > {"mend", "continue"}
    (essay / "stage-1-thesis.md").write_text(THESIS)
    assert cli("resume").code == 0


def test_sections_and_claims_are_listed(cli: Cli, essay: Path) -> None:
    cli.ok("essay", "claim", "defer", "It is slower", "--reason", "timeout")
    cli.ok("essay", "claim", "defer", "It is bigger", "--reason", "no_results", "--section", "2")
    cli.ok("essay", "claim", "override", "c2", "--result", "partial", "--because", "it is")
    reported = cli.ok("essay", "claim").out
    assert "deferred: timeout" in reported and "overridden: partial" in reported
    assert [one["title"] for one in cli.json("essay", "section")["sections"]] == ["Waste", "Care"]
    assert "in progress" in cli.ok("essay", "section").out


def test_invalid_score_or_rating_exits_2(cli: Cli, essay: Path) -> None:
    for words in (
        ["essay", "voice", "six"],
        ["essay", "voice", "6"],
        ["essay", "calibrate", "0"],
        ["essay", "pushback", "none"],
    ):
        assert cli(*words).code == 2
    assert cli("essay", "claim", "resolve", "c7").code == 4
    assert cli("essay", "approve", "G5").code == 4
