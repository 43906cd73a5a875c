"""`forestay revisit`: the preview, the change, and its undo."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Cli


@pytest.fixture
def worked(cli: Cli, project: Path) -> Cli:
    """Record two tasks with a file each; the second depends on the first, which then changed."""
    cli.start()
    for number in (1, 2):
        (project / f"{number}.md").write_text(f"what task {number} made\n")
        cli.ok("task", "add", f"Task {number}")
        cli.ok("task", "done", f"t{number}", "--file", f"{number}.md")
    cli.ok("record", "artifact", "1.md")
    (project / "1.md").write_text("nothing of that is left here now\n")
    return cli


@pytest.mark.req("S3-134", "S3-141", "S3-147")
def test_revisit_previews_the_change_and_its_impact(worked: Cli, project: Path) -> None:
    out = worked.ok("revisit", "t1").out
    for line in ("-what task 1 made", "Impact: major", "starts again", "2.md → 2.v1.md"):
        assert line in out
    assert "Nothing is changed yet. To do it: forestay revisit t1 --apply" in out
    assert (
        not (project / "2.v1.md").exists() and worked.json("task")["tasks"][1]["status"] == "done"
    )


def test_revisit_changes_with_apply_and_is_reversed_with_undo(worked: Cli, project: Path) -> None:
    out = worked.ok("revisit", "t1", "--apply", "--because", "it was wrong").out
    assert "back at t1, impact major; 1 to start again, 2 saved as versions" in out
    assert (project / "2.v1.md").exists() and not (project / "2.md").exists()
    assert "revisited   t1 – it was wrong" in worked.ok("log").out
    worked.ok("revisit", "--undo")
    assert (project / "2.md").exists() and not (project / "2.v1.md").exists()


def test_revisit_accepts_another_impact(worked: Cli, project: Path) -> None:
    out = worked.ok("revisit", "t1", "--impact", "minor").out
    assert "Impact: minor (proposed: major)" in out and "to review" in out
    worked.ok("revisit", "t1", "--impact", "minor", "--apply")
    assert (project / "2.md").exists()


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["t1", "--undo"],
        ["--undo", "--apply"],
        ["t1", "--because", "r"],
        ["t1", "--impact", "huge"],
    ],
)
def test_wrong_usage_exits_2(worked: Cli, argv: list[str]) -> None:
    assert worked("revisit", *argv).code == 2


def test_revisit_of_a_missing_step_and_undo_without_revisit_are_refused(worked: Cli) -> None:
    assert worked("revisit", "t9").code == 4
    assert worked("revisit", "--undo").code == 4
