"""`forestay workflow`: list, show, check and create workflows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.support import Cli

FOLDER = Path(".forestay/workflows")
BAD = """workflow: bad
phases:
  - name: Build
    evidence:
      tests: bool
    rules:
      - tests = true
"""


@pytest.fixture
def bad(cli: Cli) -> Cli:
    FOLDER.mkdir(parents=True)
    (FOLDER / "bad.yaml").write_text(BAD)
    return cli


def test_list_names_usable_and_faulty_workflows(bad: Cli) -> None:
    answer = bad.ok("workflow")
    first, *others = answer.out.splitlines()
    assert first.split() == ["bad", "faulty", ".forestay/workflows/bad.yaml"]
    assert [line.split()[0] for line in others] == ["essay", "feature", "free", "spec-execution"]
    assert others[0].split()[1:3] == ["4", "stages"]
    assert answer.err == "bad: line 5: there is no type bool; boolean?\n"


def test_show_lists_requirements_phase_by_phase(cli: Cli) -> None:
    shown = cli.ok("workflow", "show", "spec-execution").out
    assert "6 phases, 0 to 5" in shown and "Phase 2  Implementation\n" in shown
    assert "coverage: a number, at least 80, at most 100" in shown
    assert "rule      tests_passing == tests_total" in shown
    assert "tests: observed – the whole test suite" in shown
    essay = cli.ok("workflow", "show", "essay").out
    assert "after 24 h of inactivity" in essay and "Stage 1  Thesis Development" in essay


def test_show_prints_the_schema(cli: Cli) -> None:
    schema = json.loads(cli.ok("workflow", "show", "--schema").out)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    answer = cli("workflow", "show")
    assert answer.code == 2 and "NAME is missing" in answer.err


def test_check_names_every_fault_with_its_line_and_ends_with_5(bad: Cli) -> None:
    for named in ("bad", str(FOLDER / "bad.yaml")):
        answer = bad("workflow", "check", named)
        assert answer.code == 5
        assert answer.out.splitlines() == [
            ".forestay/workflows/bad.yaml:5: error: there is no type bool; boolean?  [bad-type]",
            ".forestay/workflows/bad.yaml:7: error: the rule cannot be read: unexpected '=';"
            " write == (column 7)  [bad-rule]",
        ]
    found = bad("--json", "workflow", "check", "bad")
    assert found.code == 5 and [each["line"] for each in found.json["findings"]] == [5, 7]


def test_faulty_workflow_is_not_shown_and_the_check_command_is_suggested(bad: Cli) -> None:
    answer = bad("workflow", "show", "bad")
    assert answer.code == 5 and "forestay workflow check" in answer.err


def test_new_writes_a_valid_workflow_and_never_overwrites(cli: Cli) -> None:
    assert cli.ok("workflow", "new", "release").out.endswith(".forestay/workflows/release.yaml\n")
    assert cli.ok("workflow", "check", "release").out == "good  release: 3 phases, 1 to 3\n"
    before = (FOLDER / "release.yaml").read_bytes()
    answer = cli("workflow", "new", "release", "--from", "essay")
    assert answer.code == 2 and "already" in answer.err
    assert (FOLDER / "release.yaml").read_bytes() == before


def test_new_can_copy_a_workflow_under_another_name(cli: Cli) -> None:
    cli.ok("workflow", "new", "ours", "--from", "spec-execution")
    shown = cli.json("workflow", "show", "ours")
    assert shown["name"] == "ours" and len(shown["phases"]) == 6 and shown["base"] == 0


@pytest.mark.parametrize("name", ["../x", "a/b", "", "x y", ".hidden"])
def test_new_refuses_a_name_that_leads_to_another_folder(cli: Cli, name: str) -> None:
    assert cli("workflow", "new", name).code == 2
    assert not FOLDER.exists()


def test_control_sequences_of_a_definition_do_not_reach_the_terminal(cli: Cli) -> None:
    FOLDER.mkdir(parents=True)
    (FOLDER / "odd.yaml").write_text('workflow: odd\n"\\e[31mred": 1\ntitle: "a\\u202eb"')
    answer = cli("workflow", "check", "odd")
    assert answer.code == 5 and "\x1b" not in answer.out and "\u202e" not in answer.out
