"""What `status` and `resume` print about a session after long inactivity."""

from __future__ import annotations

from pathlib import Path

import pytest

from forestay.api.session_lifecycle import Lifecycle
from forestay.base.clock import Clock
from tests.cli.support import Cli
from tests.format_helpers import ESSAY, ESSAY_FOLDER, fill

DAY = 24 * 3_600_000


@pytest.fixture
def left(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Start a session that is idle for eight days, with limits of a day and a week."""
    cli.start()
    cli.ok("config", "pause_hours", "24")
    cli.ok("config", "abandon_hours", "168")
    now = Clock.now
    monkeypatch.setattr(Clock, "now", lambda self: now(self) + 8 * DAY)
    return cli


@pytest.mark.req("S3-128")
def test_status_warns_and_offers_the_choices(left: Cli) -> None:
    answer = left.ok("status")
    assert "no work on this session for 8 days" in answer.err
    assert "forestay session abandon --session" in answer.err
    expiry = left.json("status")["expiry"]
    assert expiry["state"] == "abandoned" and len(expiry["choices"]) == 3
    assert (expiry["pause_hours"], expiry["abandon_hours"]) == (24, 168)


def test_resume_warns_and_continues(left: Cli) -> None:
    values = left.json("resume")
    assert values["status"] == "active" and values["expiry"]["state"] == "abandoned"
    assert "expiry" not in left.json("status")
    log = left.ok("log").out
    assert "inactivity" in log and "no activity for 24 hours" in log


def test_starting_a_task_in_an_expired_session_is_refused_with_a_remedy(left: Cli) -> None:
    left.ok("task", "add", "more")
    answer = left("task", "start", "t1")
    assert answer.code == 4 and "forestay resume" in answer.err


def test_status_without_limits_does_not_compute_inactivity(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.start()
    now = Clock.now
    monkeypatch.setattr(Clock, "now", lambda self: now(self) + 8 * DAY)
    monkeypatch.setattr(
        Lifecycle, "inactivity", lambda self: pytest.fail("inactivity was computed")
    )
    assert "expiry" not in cli.json("status")


def test_active_session_has_no_expiry_field(cli: Cli) -> None:
    cli.start()
    assert "expiry" not in cli.json("status")


@pytest.mark.req("S3-127")
def test_status_warns_that_a_session_idle_for_a_day_counts_as_paused(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.start()
    cli.ok("files", "bind", "essay")
    assert cli.ok("status").err == ""
    now = Clock.now
    monkeypatch.setattr(Clock, "now", lambda self: now(self) + DAY + DAY // 24)
    printed = "no work on this session for 25 hours: it counts as paused"
    assert printed in cli.ok("status").err
    cli.ok("note", "back")
    assert printed not in cli.ok("status").err


@pytest.mark.req("S3-128")
@pytest.mark.parametrize("days, is_warned", [(6, False), (8, True)])
def test_list_and_resume_of_essays_warn_after_a_week(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, days: int, is_warned: bool
) -> None:
    cli.start()
    cli.ok("files", "bind", "essay")
    now = Clock.now
    monkeypatch.setattr(Clock, "now", lambda self: now(self) + days * DAY)
    listed = cli.ok("essay", "list")
    assert ("for 8 days" in listed.err, "forestay essay resume" in listed.err) == (is_warned,) * 2
    assert listed.out.startswith("Sessions found:")
    (row,) = cli.json("essay", "list")["essays"]
    assert row["abandoned_days"] == (days if is_warned else 0)
    assert cli.ok("essay", "resume", "1").err.count("for 8 days") == is_warned
    assert "for 8 days" not in cli.ok("essay", "list").err


@pytest.mark.req("S3-128")
def test_resuming_an_essay_of_another_program_after_a_week_warns_once(
    cli: Cli, project: Path
) -> None:
    fill(project, kinds=["essay"])
    (project.parent / "tmp").mkdir(exist_ok=True)
    (project / ESSAY).parent.rename(project.parent / "tmp" / ESSAY_FOLDER)
    assert cli.ok("essay", "resume", "1").err.count("no work on") == 1
    assert "no work on" not in cli.ok("status").err
