"""`forestay prove`: exit codes, streams, and an example project with a linter."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.support import Cli, command, environment

MAKEFILE = "lint:\n\t@! grep -n TODO src/*.py\n"


@pytest.fixture
def linted(project: Path, cli: Cli) -> Path:
    """Create a project under git with a linter, and a session in it."""
    subprocess.run(["git", "init", "-q"], check=True)
    (project / "src").mkdir()
    (project / "src/a.py").write_text("x = 1\n")
    (project / "Makefile").write_text(MAKEFILE)
    cli.start()
    return project


def lint(cli: Cli) -> int:
    return cli("prove", "--inputs", "src/**", "--as", "lint", "--", "make", "lint").code


def states(cli: Cli) -> list[str]:
    return [one["state"] for one in cli.json("prove", "--list")["proofs"]]


def test_proof_becomes_stale_after_an_edit_and_holds_when_run_again(cli: Cli, linted: Path) -> None:
    assert lint(cli) == 0 and states(cli) == ["fresh"]
    (linted / "src/a.py").write_text("x = 2\n")
    assert states(cli) == ["stale"]
    assert "src/a.py changed" in cli.ok("prove", "--list").out
    answer = cli.ok("prove", "--again")
    assert "passed" in answer.out and "it was stale: src/a.py changed" in answer.out
    assert states(cli) == ["fresh"]
    assert "Every proof holds" in cli.ok("prove", "--again").out


def test_a_command_that_fails_exits_1_and_is_recorded(cli: Cli, linted: Path) -> None:
    (linted / "src/a.py").write_text("# TODO\n")
    assert lint(cli) == 1 and states(cli) == ["failed"]
    assert "proof" in cli.ok("log").out
    (linted / "src/a.py").write_text("done\n")
    assert cli("prove", "--again").code == 0


def test_output_of_the_command_precedes_the_confirmation(cli: Cli, linted: Path) -> None:
    lines = cli.ok("prove", "--", "echo", "hello").out.splitlines()
    assert lines[0] == "hello" and lines[1].startswith("#2 echo-hello: echo hello passed in ")


def test_with_json_the_answer_is_one_object(cli: Cli, linted: Path) -> None:
    answer = cli("--json", "prove", "--", "sh", "-c", "echo hello; exit 4")
    assert (answer.code, answer.err) == (1, "hello\n")
    (proof,) = answer.json["ran"]
    assert (proof["exit"], proof["passed"], proof["tail"]) == (4, False, "hello")
    assert proof["event"]["kind"] == "evidence.observed"


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["--again", "--", "true"],
        ["--list", "--again"],
        ["--all", "--", "true"],
        ["--timeout", "0", "--", "true"],
        ["--timeout", "x", "--", "true"],
        ["--inputs", "/etc", "--", "true"],
        ["--", "no-such-command"],
    ],
)
def test_wrong_usage_exits_2_and_records_nothing(cli: Cli, linted: Path, argv: list[str]) -> None:
    assert cli("prove", *argv).code == 2
    assert cli.json("status")["seq"] == 1


def test_options_after_the_dashes_belong_to_the_proven_command(cli: Cli, linted: Path) -> None:
    assert cli.ok("prove", "--", "echo", "--json", "--help").out.startswith("--json --help\n")


def test_strict_briefing_exits_7_with_stale_proofs(cli: Cli, linted: Path) -> None:
    lint(cli)
    assert cli("resume", "--strict").code == 0
    (linted / "src/a.py").write_text("x = 3\n")
    assert cli("brief").code == 0
    assert cli("brief", "--strict").code == 7


def test_closed_output_does_not_stop_the_proof(cli: Cli, linted: Path) -> None:
    argv = [*command(), "prove", "--", "sh", "-c", "yes | head -c 3000000; echo end >&2"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, env=environment())
    assert process.stdout is not None
    process.stdout.read(10)
    process.stdout.close()
    process.wait(60)
    (proof,) = cli.json("prove", "--list")["proofs"]
    assert proof["passed"] and proof["tail"].endswith("end")


def test_an_interrupt_ends_the_command_and_is_recorded(cli: Cli, linted: Path) -> None:
    argv = [*command(), "prove", "--as", "slow", "--", "sh", "-c", "echo up; exec sleep 600"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, env=environment())
    assert process.stdout is not None and process.stdout.readline() == b"up\n"
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    assert process.wait(60) == 130 and time.monotonic() - began < 60
    process.stdout.close()
    (proof,) = cli.json("prove", "--list")["proofs"]
    assert proof["interrupted"] and proof["exit"] == 128 + signal.SIGINT
    assert cli.json("status")["holders"] == []


def test_confirmation_starts_a_new_line_after_unfinished_output(cli: Cli) -> None:
    cli.start("x")
    lines = cli.ok("prove", "--", "printf", "half a line").out.splitlines()
    assert lines[0] == "half a line" and lines[1].startswith("#2 printf")
    assert "\n\n" not in cli.ok("prove", "--", "echo", "a whole one").out
