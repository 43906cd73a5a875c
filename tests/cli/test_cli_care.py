"""The whole home: verify, doctor, backup, restore, export, import, settings, init, completion."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from forestay.base.config import OPTIONS
from tests.cli.support import Cli


def test_verify_reports_what_it_checked(cli: Cli) -> None:
    cli.start("First", "--id", "first")
    cli.start("Second", "--id", "second")
    assert (
        cli.ok("verify").out == "Sound: 2 sessions, 2 events, unchanged since they were written.\n"
    )
    assert "sound    first" in cli.ok("verify", "first").out
    assert [one["session"] for one in cli.json("verify", "--session", "sec")["sessions"]] == [
        "second"
    ]


def test_verify_reports_a_missing_session(cli: Cli, home: Path) -> None:
    import sqlite3

    cli.start("First", "--id", "first")
    cli.start("Second", "--id", "second")
    connection = sqlite3.connect(home / "forestay.db")
    connection.execute("DELETE FROM session WHERE id = 'second'")
    connection.commit()
    connection.close()
    answer = cli("verify")
    assert answer.code == 5
    assert "session second is missing, although" in answer.out


def test_doctor_finds_nothing_serious_in_a_fresh_home(cli: Cli) -> None:
    cli.start()
    answer = cli.json("doctor")
    assert answer["ok"] and answer["done"] == [] and answer["lost"] == []
    assert cli.ok("doctor", "--deep").out.endswith("No problems found.\n")
    assert cli("doctor", "--fix").code == 0


def test_doctor_works_with_a_bad_config_file(cli: Cli, home: Path) -> None:
    cli.start()
    (home / "config.toml").write_text("busy_timeout = 'soon'\n")
    assert cli("status").code == 2
    assert "busy_timeout" in cli("doctor").out


@pytest.mark.req("S2-4")
def test_backup_restores_a_lost_home(cli: Cli, tmp_path: Path) -> None:
    cli.start("Add login", "--id", "login")
    cli.ok("note", "x")
    saved = cli.json("backup", "create", str(tmp_path / "usb"))
    assert (saved["sessions"], saved["events"]) == (1, 2)
    other = str(tmp_path / "other")
    assert (
        "2 events restored in 1 session"
        in cli.ok("--home", other, "backup", "restore", saved["path"]).out
    )
    assert cli.json("--home", other, "status", "--session", "login")["seq"] == 2
    again = cli.json("--home", other, "backup", "restore", saved["path"])
    assert again["new"] == 0 and again["sessions"][0]["held"] == 2


def test_export_and_import_carry_a_session_with_its_artifacts(
    cli: Cli, project: Path, tmp_path: Path
) -> None:
    (project / "a.txt").write_text("content\n")
    cli.start("Add login", "--id", "login")
    cli.ok("record", "artifact", "a.txt")
    cli.ok("backup", "export", "login.fspack")
    assert cli("backup", "export", "login.fspack").code == 2
    cli.ok("backup", "export", "login.fspack", "--force")
    other = str(tmp_path / "other")
    answer = cli.ok("backup", "import", "login.fspack", "--home", other, terminal=True)
    assert f"forestay --home {other} resume login" in answer.out
    assert cli.json("resume", "login", "--home", other)["goal"] == "Add login"


@pytest.mark.parametrize("content", [b"", b"garbage", b"FORESTAY PACK 9\n"])
def test_file_that_is_not_a_pack_is_refused(cli: Cli, project: Path, content: bytes) -> None:
    (project / "x.fspack").write_bytes(content)
    assert cli("backup", "import", "x.fspack").code in (2, 5, 6)
    assert cli("backup", "restore", "missing.fspack").code == 2


# -- settings ----------------------------------------------------------------------------------


def test_config_lists_every_setting_with_its_origin(cli: Cli) -> None:
    values = cli.json("config")["values"]
    assert set(values) == set(OPTIONS)
    assert values["home"]["origin"] == "environment FORESTAY_HOME"
    lines = cli.ok("config").out.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == list(OPTIONS)
    assert lines[-1].endswith("what they mean: forestay config --example")


def test_config_sets_shows_and_unsets_a_value(cli: Cli, home: Path) -> None:
    assert cli.ok("config", "brief_budget", "2000").out == "brief_budget = 2000\n"
    assert cli.ok("config", "brief_budget").out == "2000\n"
    assert cli.json("config", "brief_budget")["values"]["brief_budget"]["origin"].endswith(
        "config.toml"
    )
    cli.ok("config", "--unset", "brief_budget")
    assert cli.ok("config", "brief_budget").out == "1500\n"
    assert "was not set" in cli.ok("config", "--unset", "brief_budget").out


@pytest.mark.parametrize(
    "argv", [["brief_budget", "many"], ["nonsense"], ["nonsense", "1"], ["home", "/x"]]
)
def test_config_refuses_unknown_settings_and_values(cli: Cli, home: Path, argv: list[str]) -> None:
    assert cli("config", *argv).code == 2
    assert not home.exists()


def test_config_repairs_the_file_that_stops_all_other_commands(cli: Cli, home: Path) -> None:
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text("brief_budget = 1\nbusy_timeout = 'soon'\n")
    (home / "config.toml").chmod(0o600)
    assert cli("list").code == 2
    cli.ok("config", "brief_budget", "2000")
    cli.ok("config", "--unset", "busy_timeout")
    cli.ok("list")


def test_config_shows_no_password(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORESTAY_STORE", "postgres://me:hunter2@host/db")
    assert "hunter2" not in cli.ok("config").out
    assert "hunter2" not in cli.ok("config", "--json").out


def test_config_warns_that_a_variable_overrides_the_setting(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORESTAY_BRIEF_BUDGET", "300")
    assert "FORESTAY_BRIEF_BUDGET overrides" in cli.ok("config", "brief_budget", "2000").err


def test_example_config_file_is_valid_and_sets_nothing(cli: Cli, home: Path) -> None:
    import tomllib

    assert tomllib.loads(cli.ok("config", "--example").out) == {}


def test_init_marks_the_project(cli: Cli, project: Path) -> None:
    path = cli.json("init")["path"]
    assert Path(path) == project / ".forestay" / "project"
    cli.ok("init")


def test_marked_project_is_recognized_in_a_renamed_folder(
    cli: Cli, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.start("Add login", "--id", "login")
    cli.ok("init")
    other = project.parent / "clone"
    shutil.copytree(project, other)
    shutil.rmtree(project)
    monkeypatch.chdir(other)
    assert [one["session"] for one in cli.json("list")["sessions"]] == ["login"]


# -- completion --------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_commands_and_options(cli: Cli, shell: str) -> None:
    script = cli.ok("config", "completion", shell).out
    for word in ("resume", "unblock", "for-next", "because"):
        assert word in script


def test_completion_offers_the_actions_of_a_family(cli: Cli) -> None:
    assert "files:'list, bind, unbind" in cli.ok("config", "completion", "zsh").out


def test_bash_completes_commands_actions_and_options(cli: Cli, project: Path) -> None:
    (project / "script").write_text(cli.ok("config", "completion", "bash").out)
    answers = {("sta",): "start status", ("task", "un"): "unblock", ("note", "--for"): "--for-next"}
    for words, expected in answers.items():
        typed = " ".join(("forestay", *words))
        script = (
            f". ./script; COMP_WORDS=({typed}); COMP_CWORD={len(words)};"
            f" COMP_LINE='{typed}'; _shtab_forestay; echo ${{COMPREPLY[@]}}"
        )
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == expected


def test_skipped_sessions_are_not_counted_as_restored(cli: Cli, tmp_path: Path) -> None:
    cli.start("First", "--id", "first")
    cli.start("Second", "--id", "second")
    saved = cli.json("backup", "create", str(tmp_path / "usb"))["path"]
    cli.ok("session", "forget", "first", "--yes")
    cli.ok("note", "x")
    answer = cli.ok("backup", "restore", saved)
    assert "skipped first: it was forgotten on this device" in answer.out
    assert "0 events restored in 0 sessions; 2 already stored; 1 session skipped" in answer.out
    other = str(tmp_path / "other")
    answer = cli.ok("--home", other, "backup", "restore", saved)
    assert answer.out.strip() == "2 events restored in 2 sessions; 0 already stored"
