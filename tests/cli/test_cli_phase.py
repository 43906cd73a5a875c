"""Phases on the command line: evidence, messages and exit codes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from forestay.model.gates.gate import MOST_BYTES
from tests.cli.support import Cli, command

GATED = """\
workflow: gated
base: 0
phases:
  - name: Plan
    evidence:
      files: {type: list, min: 1}
      ready: true
  - name: Build
"""


@pytest.fixture
def planned(cli: Cli, project: Path) -> Cli:
    (project / "gated.yaml").write_text(GATED, encoding="utf-8")
    cli.start("Build it", "--id", "it", "--workflow", "./gated.yaml", "--target", "specs/it.md")
    return cli


@pytest.mark.req("X1-7")
def test_second_start_reports_that_it_resumed_the_open_session(planned: Cli) -> None:
    again = ("start", "Build it again", "--workflow", "./gated.yaml", "--target", "specs/it.md")
    printed = planned.ok(*again).out
    assert "This workflow already has an open session for this target" in printed
    assert "Resumed session it" in printed
    assert planned.json(*again)["taken_up"] is True


@pytest.mark.req("X1-10")
def test_target_outside_the_project_exits_2(planned: Cli) -> None:
    answer = planned("start", "x", "--workflow", "gated.yaml", "--target", "../elsewhere")
    assert answer.code == 2 and "outside of" in answer.err


def test_evidence_is_parsed_as_json_if_possible(planned: Cli) -> None:
    given = ["files=[1, 2]", "ready=true", "n=65", 'quoted="65"', "text=65%", "object={", "no=nope"]
    words = [word for one in given for word in ("--evidence", one)]
    found = planned.json("phase", "gate", "0", *words)["evidence"]
    assert found == {
        "files": [1, 2],
        "ready": True,
        "n": 65,
        "quoted": "65",
        "text": "65%",
        "object": "{",
        "no": "nope",
    }


def test_gate_of_the_current_phase_shows_how_to_submit_it(planned: Cli) -> None:
    printed = planned.ok("phase", "gate", "--evidence", "ready=true").out
    assert "Phase 0: Plan" in printed and "✗ files is missing" in printed
    assert "→ forestay phase done 0 --evidence files=VALUE --evidence ready=true" in printed
    both = ("--evidence", "ready=true", "--evidence", "files=[1]")
    printed = planned.ok("phase", "gate", *both).out
    assert "it would pass" in printed
    assert "→ forestay phase done 0 --evidence files=VALUE --evidence ready=true" in printed
    cli = planned
    cli.start("No plan", "--id", "bare")
    assert "has no plan with phases" in cli("phase", "gate").err


@pytest.mark.parametrize(
    ("name", "text"),
    [("e.json", '{"files": ["a"], "ready": true}'), ("e.yaml", "files: [a]\nready: true\n")],
)
def test_evidence_can_be_read_from_files(planned: Cli, name: str, text: str) -> None:
    Path(name).write_text(text, encoding="utf-8")
    answer = planned("phase", "done", "0", "--evidence-file", name, "--evidence", "ready=false")
    assert answer.code == 4 and "ready is false, true is wanted" in answer.out
    assert planned.ok("phase", "done", "0", "--evidence-file", name).code == 0


@pytest.mark.req("X1-10")
@pytest.mark.parametrize(
    ("data", "reported"),
    [
        (b"[1, 2]", "is not evidence"),
        (b'{"a": 1, "a"', "cannot be read"),
        (b"a: &a [*a]\n", "cannot be read"),
        (b'{"x": ' + b"[" * 90 + b"]" * 90 + b"}", ""),
        (b'{"x": "' + b"y" * MOST_BYTES + b'"}', "too large"),
        (b"\xff\xfe\x00", "cannot be read"),
    ],
)
def test_bad_evidence_is_refused_and_nothing_recorded(
    planned: Cli, data: bytes, reported: str
) -> None:
    Path("bad.json").write_bytes(data)
    before = planned.json("status")["seq"]
    answer = planned("phase", "done", "0", "--evidence-file", "bad.json")
    assert answer.code == 2 and reported in answer.err
    assert planned("phase", "done", "0", "--evidence", "no-value").code == 2
    assert planned("phase", "done", "0", "--evidence-file", "not-there.json").code == 2
    assert planned.json("status")["seq"] == before


@pytest.mark.req("X1-9")
def test_phase_refused_by_its_gate_exits_4_with_the_reasons(planned: Cli) -> None:
    answer = planned("--json", "phase", "done", "0", "--evidence", "ready=true")
    assert answer.code == 4
    reported = answer.json["result"]
    assert (reported["checkpoint_passed"], reported["errors"]) == (False, ["files is missing"])
    assert reported["diagnostics"]["fields_missing"] == ["files"]
    assert reported["diagnostics"]["gate_source"] == "gated.yaml, line 5"
    assert answer.json["event"]["kind"] == "checkpoint.failed"
    assert answer.json["timing"]["status"] == "checkpoint_failed"


def test_plan_can_be_completed_phase_by_phase(planned: Cli) -> None:
    assert "phase 0 did not pass" in planned("phase", "done", "0").out
    assert planned.ok("phase", "retry").code == 0
    answer = planned.ok("phase", "done", "0", "--override", "--because", "seen")
    assert "passed by override" in answer.out
    assert "1 of 2: Build" in planned.ok("status").out
    assert "completed" in planned.ok("phase", "done", "1").out
    assert planned.json("status")["status"] == "completed"
    planned.ok("phase", "rollback", "0", "--because", "once more", "--session", "it")
    shown = planned.json("status")
    assert (shown["status"], shown["phase"]["completed"]) == ("active", [])
    table = planned.ok("phase").out
    assert "rolled back (2 attempts)" in table and "*  0" in table


def test_gate_shows_its_requirements_and_whether_it_would_pass(planned: Cli) -> None:
    reported = planned.ok("phase", "gate", "0", "--evidence", "ready=true").out
    assert "a list, at least 1" in reported and "would not pass" in reported
    enough = planned.ok("phase", "gate", "0", "--evidence", "ready=true", "--evidence", "files=[1]")
    assert "would pass" in enough.out
    planned.ok("phase", "done", "0", "--evidence", "ready=true", "--evidence", "files=[1]")
    assert "requires nothing" in planned.ok("phase", "gate", "1").out


@pytest.mark.req("X1-6")
def test_later_phase_exits_4(planned: Cli) -> None:
    answer = planned("phase", "gate", "1")
    assert answer.code == 4
    assert "You must complete Phase 0 before accessing Phase 1" in answer.err
    wrong = planned("phase", "done", "1")
    assert wrong.code == 4 and "Cannot complete phase 1, current phase is 0" in wrong.err


def test_passed_phase_names_its_open_tasks(cli: Cli) -> None:
    cli.start("Build", "--workflow", "feature")
    cli.ok("task", "done", "plan-goal")
    printed = cli.ok("phase", "done", "1").out
    assert "its open tasks: plan-scope, plan-criteria" in printed
    assert "! criteria is missing" in printed, "a gate that is not strict only warns"


def test_log_begins_with_the_plan(planned: Cli) -> None:
    printed = planned.ok("log").out
    assert "gated" in printed and "phase-0 – Plan" in printed


@pytest.mark.req("S1-124")
def test_resume_can_print_the_specified_display(planned: Cli) -> None:
    printed = planned.ok("resume", "--style", "praxis", "--no-fence").out
    assert printed.startswith("📋 Session it: gated\n   Target: specs/it.md\n")
    assert "🎯 Progress: Phase 0 of 2 (0% complete)" in printed


def test_only_one_of_many_processes_passes_a_phase(planned: Cli) -> None:
    words = ["phase", "done", "0", "--evidence", "ready=true", "--evidence", "files=[1]"]
    line = [*command(), *words]
    runs = [subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in "1234"]
    reported = [run.communicate(timeout=60)[1].decode() for run in runs]
    assert sorted(run.returncode for run in runs) == [0, 4, 4, 4]
    assert sum("Cannot complete phase 0, current phase is 1" in one for one in reported) == 3
    kinds = [line["kind"] for line in planned.ok("log", "--json").lines]
    assert kinds.count("checkpoint.passed") == kinds.count("step.completed") == 1


def test_undo_withdraws_a_passed_phase_and_a_second_undo_restores_it(cli: Cli) -> None:
    cli.ok("start", "Build it", "--workflow", "feature")
    assert "nothing to undo" in cli("undo").err
    first = cli.json("status")["phase"]["current"]
    cli.ok("phase", "done", str(first), "--override", "--because", "known")
    assert "phase start" in cli.ok("log").out
    cli.ok("undo")
    assert (
        cli.json("status")["phase"] | {"current": first, "completed": []}
        == (cli.json("status")["phase"])
    )
    cli.ok("undo", str(cli.json("status")["seq"]))
    assert cli.json("status")["phase"]["completed"] == [first]


def test_gate_of_a_passed_phase_suggests_a_rollback(planned: Cli) -> None:
    planned.ok("phase", "done", "0", "--evidence", "files=[1]", "--evidence", "ready=true")
    back = "forestay phase rollback 0 --because REASON"
    asked = planned.ok("phase", "gate", "0").out
    assert "(passed)" in asked and back in asked and "phase done" not in asked
    answer = planned.json("phase", "gate", "0")
    assert answer["gate"]["passed"] and answer["result"]["next_steps"] == [back]
    assert not planned.json("phase", "gate")["gate"]["passed"]


def test_gate_without_override_names_the_missing_evidence(cli: Cli, project: Path) -> None:
    (project / "hard.yaml").write_text(
        "workflow: hard\nphases: [{name: A, override: false, evidence: {ready: true}}]\n"
    )
    cli.start("x", "--workflow", "./hard.yaml")
    answer = cli("phase", "done", "1", "--override", "--because", "no time")
    assert answer.code == 4 and "forestay phase done 1 --evidence ready=VALUE" in answer.err
