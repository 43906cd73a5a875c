"""A damaged home: every command reports what, why and a remedy, and `doctor` repairs it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from tests.cli.support import Answer, Cli

pytestmark = pytest.mark.usefixtures("quick_probe")

Harm = Callable[[Path], None]


def folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()
    (path / "inside").write_text("kept")


def pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def link(path: Path) -> None:
    target = path.with_name("elsewhere")
    target.write_text("not ours\n")
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def dangling(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(path.with_name("nowhere"))


ODD = pytest.mark.parametrize("harm", [folder, pipe, link, dangling])


def require_error(answer: Answer, code: int) -> None:
    """Require an error with a next step, and not a bug report."""
    assert answer.code == code, answer
    assert "this is a bug" not in answer.err + answer.out
    assert "Traceback" not in answer.err + answer.out
    assert "→ " in answer.err + answer.out, answer


@ODD
@pytest.mark.parametrize("name", ["writer.lock", "writer.queue"])
def test_object_in_place_of_a_lock_is_reported_and_moved(
    cli: Cli, home: Path, name: str, harm: Harm
) -> None:
    cli.start("Add login", "--id", "login")
    harm(home / name)
    answer = cli("note", "x")
    require_error(answer, 1)
    assert "forestay doctor --fix" in answer.err and name in answer.err
    assert cli.json("status")["seq"] == 1
    require_error(cli("doctor"), 5)
    assert cli("doctor", "--fix").code == 0
    assert any(path.name.startswith(name) for path in (home / "quarantine").iterdir())
    cli.ok("note", "x")
    assert cli("verify").code == 0
    if (home / "elsewhere").exists():
        assert (home / "elsewhere").read_text() == "not ours\n"


@ODD
def test_object_in_place_of_the_heads_file_is_reported_and_replaced(
    cli: Cli, home: Path, harm: Harm
) -> None:
    cli.start("Add login", "--id", "login")
    harm(home / "heads")
    cli.ok("note", "one")
    cli.ok("status")
    require_error(cli("doctor"), 5)
    assert cli("doctor", "--fix").code == 0
    cli.ok("note", "two")
    assert (home / "heads").is_file() and cli("verify").code == 0


@ODD
def test_object_in_place_of_the_backup_state_is_reported_and_replaced(
    cli: Cli, home: Path, harm: Harm
) -> None:
    cli.start("Add login", "--id", "login")
    cli.ok("backup", "create")
    harm(home / "backups" / "state.json")
    require_error(cli("doctor"), 5)
    cli.ok("backup", "create")
    assert (home / "backups" / "state.json").is_file()
    assert cli("doctor").code == 0


# -- the catalogue -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "harm", ["goal = 'Add lagin'", "status = 'completed'", "summary = '{\"attention\": 5}'"]
)
def test_changed_catalogue_row_is_reported_as_damaged_and_repaired(
    cli: Cli, home: Path, harm: str
) -> None:
    cli.start("Add login", "--id", "login")
    cli.start("Another", "--id", "other")
    change(home, f"UPDATE session SET {harm} WHERE id = 'login'")
    answer = cli("status", "--session", "login")
    require_error(answer, 5)
    assert "forestay doctor --fix" in answer.err
    listed = cli("list")
    assert "damaged" in listed.out and "forestay doctor --fix" in listed.out
    marked = {one["session"]: one["attention"] for one in cli.json("list")["sessions"]}
    assert marked == {"login": ["damaged"], "other": []}
    assert cli("verify").code == 5
    assert cli("doctor", "--fix").code == 0
    assert cli.json("status", "--session", "login")["goal"] == "Add login"
    assert cli("verify").code == 0


def change(home: Path, *statements: str) -> None:
    """Change the tables in a way that the program never does."""
    with closing(sqlite3.connect(home / "forestay.db")) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


# -- the doctor --------------------------------------------------------------------------------


def test_doctor_fix_reports_that_a_good_home_needs_no_repair(cli: Cli, home: Path) -> None:
    assert "Nothing had to be repaired" in cli.ok("doctor", "--fix").out
    cli.start("Add login", "--id", "login")
    assert "Nothing had to be repaired" in cli.ok("doctor", "--fix").out
    assert "repair" not in cli.ok("doctor").out


def test_doctor_that_repairs_everything_exits_0(cli: Cli, home: Path) -> None:
    cli.start("Add login", "--id", "login")
    change(home, "DROP TABLE row", "DROP TABLE find", "DELETE FROM meta")
    require_error(cli("note", "x"), 5)
    require_error(cli("brief"), 5)
    require_error(cli("verify"), 5)
    require_error(cli("doctor"), 5)
    answer = cli("doctor", "--fix")
    assert answer.code == 0 and "repaired recreated the table row" in answer.out
    cli.ok("note", "x")
    assert cli.ok("verify").code == 0


def test_pushed_events_lost_here_are_restored_from_the_remote(
    cli: Cli, home: Path, tmp_path: Path
) -> None:
    cli.ok("device", "key", "init")
    cli.ok("remote", "add", "usb", f"folder:{tmp_path / 'remote'}")
    cli.start("Add login", "--id", "login")
    cli.ok("note", "one")
    cli.ok("sync")
    for path in (*home.glob("forestay.db*"), *home.glob("backups/*.fspack")):
        path.unlink()
    require_error(unfixed := cli("doctor"), 5)
    assert "doctor --fix" in unfixed.err
    mended = cli("doctor", "--fix")
    assert mended.code == 5 and "forestay remote add NAME ADDRESS, forestay sync" in mended.out
    cli.ok("remote", "add", "usb", f"folder:{tmp_path / 'remote'}")
    assert "if it was pushed: forestay sync" in cli("doctor").out
    cli.ok("sync")
    assert "Sound: 1 session, 2 events" in cli.ok("verify").out
    assert cli("doctor").code == 0


def test_doctor_names_lost_events_and_exits_5(cli: Cli, home: Path) -> None:
    cli.start("Add login", "--id", "login")
    cli.ok("note", "after the first backup")
    change(home, "DROP TABLE event")
    require_error(cli("doctor"), 5)
    answer = cli("doctor", "--fix")
    assert answer.code == 5 and "lost     session login: 1 of 2 event(s)" in answer.out
    assert cli.json("status")["session"] == "login"
    cli.start("Another")
    assert "recorded on this device" in cli("verify").out


@pytest.mark.parametrize(
    "argv", [["status"], ["list"], ["note", "x"], ["brief"], ["log"], ["doctor"]]
)
@pytest.mark.parametrize("value", ["", "x", "9" * 5000, "²"])
@pytest.mark.parametrize("key", ["format", "min_writer", "device", "secret"])
def test_no_value_in_the_meta_table_causes_a_bug(
    cli: Cli, home: Path, key: str, value: str, argv: list[str]
) -> None:
    cli.start("Add login", "--id", "login")
    change(home, f"UPDATE meta SET value = '{value}' WHERE key = '{key}'")
    answer = cli(*argv)
    assert "this is a bug" not in answer.err and "Traceback" not in answer.err + answer.out
    assert answer.code in (0, 5)


# -- content outside the events ----------------------------------------------------------------


HARMED_CONTENT = {
    "a byte of the first part": "UPDATE blob SET data = CAST(x'ff' || substr(data, 2) AS BLOB)",
    "a byte in the middle": "UPDATE blob SET data = CAST(substr(data, 1, 20) || x'00'"
    " || substr(data, 22) AS BLOB) WHERE hex(substr(data, 21, 1)) != '00'",
    "the end of a part": "UPDATE blob SET data = substr(data, 1, length(data) - 9)",
    "the last part": "DELETE FROM blob WHERE part > 0",
    "all of it": "DELETE FROM blob",
    "its name": "UPDATE blob SET digest = substr(digest, 2) || 'x'",
}


@pytest.fixture
def keeping(cli: Cli, project: Path) -> None:
    """Start a session with a long note and an incompressible artifact of two parts."""
    cli.start("Add login", "--id", "login")
    cli.ok("note", "a long story, part one. " * 1000)
    (project / "a.bin").write_bytes(Random(1).randbytes(1_200_000))
    cli.ok("record", "artifact", "a.bin")


@pytest.mark.usefixtures("keeping")
@pytest.mark.parametrize("name", HARMED_CONTENT)
def test_damaged_content_is_reported_by_every_briefing_command(
    cli: Cli, home: Path, name: str
) -> None:
    assert (cli("brief").code, cli("resume").code, cli("verify").code) == (0, 0, 0)
    with closing(sqlite3.connect(home / "forestay.db")) as connection:
        assert connection.execute(HARMED_CONTENT[name]).rowcount > 0
        connection.commit()
    for command in ("brief", "resume"):
        answer = cli(command, "--no-fence")
        assert answer.code == 5 and "content" in answer.out, answer
        assert "forestay verify" in answer.err
        answer = cli("--json", command)
        assert answer.code == 5 and "damaged" in answer.json["attention"]
    assert cli("verify").code == 5
    assert cli("doctor").code == 5


@pytest.mark.usefixtures("keeping")
def test_session_with_lost_content_can_be_continued(cli: Cli, home: Path) -> None:
    change(home, "DELETE FROM blob")
    before = cli.json("status")["seq"]
    assert cli("resume").code == 5
    assert cli.json("status")["seq"] == before + 1


@pytest.mark.usefixtures("keeping")
def test_content_without_a_checksum_is_accepted_unless_damaged(cli: Cli, home: Path) -> None:
    change(home, "UPDATE blob SET data = substr(data, 1, length(data) - 4)")
    assert (cli("brief").code, cli("resume").code, cli("verify").code) == (0, 0, 0)
    change(home, "UPDATE blob SET data = CAST(substr(data, 1, 20) || x'0000' AS BLOB)")
    assert (cli("brief").code, cli("resume").code, cli("verify").code) == (5, 5, 5)


# -- settings ----------------------------------------------------------------------------------


def noise(path: Path) -> None:
    path.write_bytes(b"\xff\xfe noise")


@pytest.mark.parametrize("harm", [folder, pipe, noise])
def test_unreadable_settings_are_reported_and_do_not_stop_the_doctor(
    cli: Cli, home: Path, harm: Harm
) -> None:
    cli.start("Add login", "--id", "login")
    harm(home / "config.toml")
    for argv in (["status"], ["note", "x"], ["brief"], ["config"]):
        require_error(cli(*argv), 2)
        assert "mv " in cli(*argv).err
    require_error(cli("doctor"), 5)
    assert "config.toml" in cli("doctor").out
    answer = cli("doctor", "--fix")
    if harm is noise:
        assert answer.code == 5 and "mv " in answer.out
        os.rename(home / "config.toml", home / "config.toml.old")
    else:
        assert answer.code == 0 and "moved" in answer.out
    assert cli.json("status")["seq"] == 1


# -- packs -------------------------------------------------------------------------------------


def test_session_with_a_missing_artifact_is_exported_only_with_partial(
    cli: Cli, home: Path, project: Path
) -> None:
    cli.start("Add login", "--id", "login")
    (project / "a.txt").write_text("content\n")
    cli.ok("record", "artifact", "a.txt")
    change(home, "DELETE FROM blob")
    answer = cli("backup", "export", "login.fspack")
    require_error(answer, 5)
    assert "--partial" in answer.err and not (project / "login.fspack").exists()
    answer = cli("backup", "export", "login.fspack", "--partial")
    assert answer.code == 5 and "not exported" in answer.out
    assert cli("--home", str(project / "other"), "backup", "import", "login.fspack").code == 0
    answer = cli("backup", "create")
    assert answer.code == 5 and "not saved login" in answer.out


def test_suggested_commands_quote_a_home_with_a_space(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "my home"
    monkeypatch.setenv("FORESTAY_HOME", str(home))
    cli.start()
    home.chmod(0o755)
    settings = home / "config.toml"
    settings.write_bytes(b"\xff")
    reported = cli("--json", "doctor").json["advice"]
    advised = {each["code"]: each["fix"] for each in reported}
    assert advised["home-open"] == f"chmod 700 '{home}'"
    assert advised["config"].endswith(f": mv '{settings}' '{settings}.old'")
