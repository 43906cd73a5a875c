"""`forestay files contract`: acknowledge a contract, and detect that it has changed."""

from __future__ import annotations

import shlex
from itertools import combinations_with_replacement, count
from pathlib import Path

import pytest

from forestay.formats.ai_session.contract import checksum, shipped
from tests.cli.support import Cli
from tests.mirror.support import around_exchanges, swap_in

FILE = Path(".ai-session/contract-acknowledgment.md")


@pytest.mark.req("S0-94", "S0-95", "S0-96", "S0-97", "S0-98", "S0-99", "S0-100")
def test_acknowledging_writes_the_file_in_the_specified_form(cli: Cli) -> None:
    answer = cli.json("files", "contract", "ack", "--agent", "claude")
    assert answer["agent"] == "claude" and answer["checksum"] == checksum(shipped())
    lines = FILE.read_text().splitlines()
    assert lines[0] == "# Contract Acknowledgment"
    assert lines[2] == "Agent: claude"
    assert lines[3].startswith("Date: 20") and lines[3].endswith("Z")
    assert lines[4:6] == ["Contract Version: 1.0", f"Checksum: {checksum(shipped())}"]
    assert lines[-1] == (
        "I acknowledge that I have read and will adhere to the Session State Specification v1.0."
    )


@pytest.mark.req("S0-94")
def test_acknowledging_does_not_change_other_bytes_of_the_file(cli: Cli) -> None:
    cli.ok("files", "contract", "ack", "--agent", "claude")
    first = FILE.read_bytes() + b"\n\xff odd bytes of someone\r\n"
    FILE.write_bytes(first)
    cli.ok("files", "contract", "ack", "--agent", "gemini")
    assert FILE.read_bytes().startswith(first)
    cli.ok("files", "contract", "ack", "--agent", "gemini")
    assert FILE.read_bytes().startswith(first) and FILE.read_bytes().count(b"Agent: gemini") == 1
    agents = cli.json("files", "contract", "show")["agents"]
    assert [(one["agent"], one["current"]) for one in agents] == [
        ("claude", True),
        ("gemini", True),
    ]


def test_contract_without_action_lists_acknowledgments(cli: Cli) -> None:
    assert "not acknowledged by any agent" in cli.ok("files", "contract").out
    cli.ok("files", "contract", "ack", "--agent", "claude")
    assert "claude: version 1.0" in cli.ok("files", "contract").out
    assert cli.ok("files", "contract", "show", "--text").out == shipped().decode()


@pytest.mark.req("X0-9")
def test_verify_fails_where_nothing_is_acknowledged(cli: Cli) -> None:
    answer = cli("files", "contract", "verify")
    assert answer.code == 5 and "no agent has acknowledged the contract" in answer.out
    assert not FILE.parent.exists()


@pytest.mark.req("X0-9", "S0-104")
def test_verify_reports_a_changed_contract(cli: Cli) -> None:
    spec = Path("contract.md")
    spec.write_text("# Ours\n\nVersion: 1.0\n")
    cli.ok("files", "contract", "ack", "--agent", "claude", "--spec", "contract.md")
    cli.ok("files", "contract", "verify", "--agent", "claude", "--spec", "contract.md")
    spec.write_text("# Ours!\n\nVersion: 1.0\n")
    answer = cli("files", "contract", "verify", "--agent", "claude", "--spec", "contract.md")
    assert answer.code == 5
    assert "Contract has changed since acknowledgment" in answer.out
    assert "Re-acknowledgment required" in answer.out
    cli.ok("files", "contract", "ack", "--agent", "claude", "--spec", "contract.md")
    cli.ok("files", "contract", "verify", "--agent", "claude", "--spec", "contract.md")


@pytest.mark.req("X0-9")
def test_verify_fails_for_another_version(cli: Cli) -> None:
    cli.ok("files", "contract", "ack", "--agent", "claude")
    FILE.write_text(FILE.read_text().replace("Version: 1.0", "Version: 0.9"))
    answer = cli("--json", "files", "contract", "verify", "--agent", "claude")
    (agent,) = answer.json["agents"]
    assert answer.code == 5 and agent["findings"][0]["code"] == "contract-version"


@pytest.mark.req("X0-9")
def test_verify_only_warns_if_another_agent_acknowledged_the_contract(cli: Cli) -> None:
    cli.ok("files", "contract", "ack", "--agent", "claude")
    answer = cli.ok("files", "contract", "verify", "--agent", "gemini")
    assert "acknowledged by claude, not by gemini" in answer.out


def test_verify_without_a_name_fails_if_any_agent_is_behind(cli: Cli) -> None:
    Path("contract.md").write_text("one")
    cli.ok("files", "contract", "ack", "--agent", "old", "--spec", "contract.md")
    cli.ok("files", "contract", "ack", "--agent", "new")
    answer = cli("--json", "files", "contract", "verify")
    assert answer.code == 5
    assert {one["agent"]: one["ok"] for one in answer.json["agents"]} == {"old": False, "new": True}


def test_acknowledgment_is_recorded_in_the_current_session(cli: Cli) -> None:
    cli.ok("files", "contract", "ack", "--agent", "first")
    cli.start()
    cli.ok("files", "contract", "ack", "--agent", "claude")
    kinds = [line["kind"] for line in cli.ok("--json", "log").lines]
    assert kinds.count("contract.acknowledged") == 1


@pytest.mark.req("S0-94")
@pytest.mark.parametrize("turns", [*combinations_with_replacement(range(4), 2)], ids=str)
def test_block_added_during_an_acknowledgment_is_preserved(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, turns: tuple[int, ...]
) -> None:
    cli.ok("files", "contract", "ack", "--agent", "first")
    block, step, added = FILE.read_bytes(), count(), list[str]()

    def turn() -> None:
        now = next(step)
        for _ in range(turns.count(now)):
            added.append(f"theirs-{len(added)}")
            swap_in(FILE, FILE.read_bytes() + b"\n" + block.replace(b"first", added[-1].encode()))

    around_exchanges(monkeypatch, turn)
    cli.ok("files", "contract", "ack", "--agent", "claude")
    agents = [line[7:] for line in FILE.read_text().splitlines() if line.startswith("Agent: ")]
    assert sorted(agents) == sorted(["first", "claude", *added])
    assert [path.name for path in FILE.parent.iterdir()] == [FILE.name]


@pytest.mark.parametrize("name", ["", "  ", "a\nAgent: b", "\x1b[31m", "x" * 65])
def test_agent_name_that_would_break_the_file_or_the_record_is_refused(cli: Cli, name: str) -> None:
    cli.start()
    refused = cli("files", "contract", "ack", f"--agent={name}")
    assert refused.code == 2 and "forestay record artifact" not in refused.err
    assert not FILE.parent.exists()


@pytest.mark.req("X0-2")
def test_root_option_and_session_root_select_another_folder(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.ok("files", "contract", "ack", "--agent", "claude", "--root", "elsewhere")
    assert Path("elsewhere", FILE.name).is_file()
    monkeypatch.setenv("SESSION_ROOT", str(tmp_path / "sessions"))
    cli.ok("files", "contract", "ack", "--agent", "claude")
    assert (tmp_path / "sessions" / FILE.name).is_file() and not FILE.exists()


def test_missing_specification_is_reported(cli: Cli) -> None:
    assert cli("files", "contract", "verify", "--spec", "none.md").code == 2


def test_agent_without_acknowledgment_is_not_current(cli: Cli) -> None:
    cli.ok("files", "contract", "ack", "--agent", "one")
    assert cli.ok("files", "contract", "verify", "--agent", "one").out == "current  one\n"
    doubtful = cli.ok(
        "files", "contract", "verify", "--agent", "two", "--no-color", terminal=True
    ).out
    assert doubtful.startswith("doubtful two\n  warning acknowledged by one, not by two")
    assert doubtful.endswith("  acknowledge it: forestay files contract ack --agent two\n")


def test_advice_of_a_failed_contract_check_makes_it_pass(
    cli: Cli, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    (project / "our spec.md").write_text("# Ours")
    for given in ([], ["--spec", "our spec.md"], ["--root", "elsewhere"]):
        verify = ("files", "contract", "verify", "--agent", "claude", *given)
        reported = cli(*verify, terminal=True).out
        cli.ok(*shlex.split(reported.rpartition("forestay ")[2]))
        cli.ok(*verify)


def test_first_examples_in_the_contract_help_work_in_order(cli: Cli) -> None:
    shown = cli.ok("files", "contract", "--help").out.partition("Examples\n")[2]
    for line in shown.split("\n\n")[0].splitlines():
        cli.ok(*line.split()[1:])


def test_acknowledgments_behind_a_link_are_refused(cli: Cli, project: Path) -> None:
    path = project / ".ai-session" / "contract-acknowledgment.md"
    path.parent.mkdir()
    (project / "real.md").write_text("")
    path.symlink_to(project / "real.md")
    for words in (("show",), ("ack", "--agent", "claude")):
        refused = cli("files", "contract", *words)
        assert refused.code == 2 and "  it is a symbolic link\n" in refused.err, words
    assert (project / "real.md").read_text() == ""
