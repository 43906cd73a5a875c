"""`session forget`: what is erased, where, and what is reported about the rest."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

import forestay
from forestay.journal import pack
from forestay.store.machine.agent_runs import Run, RunChange
from tests.cli.support import Cli

FORMATS = ("craft", "praxis", "ai-session", "orchestrator", "essay")
WORD = "Zimtschnecke"


def holding(*places: Path, word: str = WORD) -> list[str]:
    """Return the files that contain a word in any case, as bytes or packed.

    They are read in another process: closing a database that is open here would drop its locks.
    """
    found = subprocess.run(
        ["grep", "-rlia", "--exclude-dir=.git", word, *map(str, places)],
        capture_output=True,
        text=True,
    ).stdout.split()
    packs = [path for place in places for path in place.rglob("*.fspack")]
    return found + [str(path) for path in packs if _in_pack(path, word.lower().encode())]


def _in_pack(path: Path, word: bytes) -> bool:
    for item in pack.Reader([path.read_bytes()]):
        parts = [item.data] if isinstance(item, pack.Blob) else [s.data for s in item.events]
        if any(word in (part or b"").lower() for part in parts):
            return True
    return False


def work(cli: Cli, project: Path, word: str = WORD) -> None:
    """Record a word with every command that writes it to files."""
    cli.ok("note", f"{word} for the next", "--for-next")
    cli.ok("decide", f"take {word}", "--because", f"{word} is sweet")
    cli.ok("task", "add", f"bake {word}", "--id", "t1")
    cli.ok("task", "start", "t1")
    cli.ok("task", "block", "t1", "--because", f"no {word}")
    cli.ok("record", "command", "echo", "--arguments", f"{word} loud")
    cli.ok("record", "error", f"{word} burnt")
    cli.ok("agent", "start", "a1", "--task", f"eat {word}")
    cli.ok("agent", "done", "a1", "--result", f"{word} eaten")
    (project / "out.txt").write_text(f"{word}\n" * 400)
    cli.ok("record", "artifact", "out.txt")
    (project / "out.txt").unlink()
    cli.ok("note", f"{word} and more " * 600)


@pytest.fixture
def busy(cli: Cli, project: Path) -> Cli:
    cli.ok("start", "a plan", "--id", "plan")
    for format_id in FORMATS:
        cli.ok("files", "bind", format_id)
    work(cli, project)
    return cli


def _copy(source: Path, target: Path) -> None:
    """Copy a database whole, to the place where a rebuild would set it aside."""
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)


def test_erased_session_is_removed_from_files_and_set_aside_copies(
    busy: Cli, home: Path, project: Path
) -> None:
    busy.ok("search", WORD)
    busy.ok("backup", "create")
    aside = home / "quarantine" / "then"
    aside.mkdir(parents=True)
    _copy(home / "forestay.db", aside / "forestay.db")
    saved = sorted((home / "backups").glob("*.fspack"))[-1]
    shutil.copy(saved, aside / "salvage.fspack")
    (aside / "broken.fspack").write_bytes(saved.read_bytes()[:-1])
    (aside / "garbage").write_bytes(b"nobody knows")
    assert len(holding(project)) >= 4
    planned = busy.json("session", "forget", "plan", "--dry-run")
    assert planned["dry_run"] and holding(project)
    done = busy.json("session", "forget", "plan", "--yes")
    assert sorted(done["left"]) == [str(aside / "broken.fspack"), str(aside / "garbage")]
    assert set(planned["files"]) == set(done["removed"])
    (aside / "broken.fspack").unlink()
    assert holding(home, project) == []
    again = busy.json("session", "forget", "plan")
    assert again["left"] == [str(aside / "garbage")]


def test_erased_events_are_removed_from_every_file_and_others_stay(
    busy: Cli, home: Path, project: Path
) -> None:
    busy.ok("note", "this stays here", "--for-next")
    busy.ok("backup", "create")
    lines = busy.ok("--json", "log").lines
    kinds = ("artifact.saved",)
    numbers = [str(n["seq"]) for n in lines if WORD in str(n["data"]) or n["kind"] in kinds]
    reported = busy.json("session", "forget", *numbers, "--yes", "--because", "too sweet")
    assert len(reported["events"]) == len(numbers) and reported["left"] == []
    assert holding(home, project) == []
    assert busy.json("verify")["ok"]
    shown = next((project / ".craft").rglob("*.json")).read_text()
    assert "a plan" in shown
    assert "this stays here" in busy.ok("brief").out
    busy.ok("note", "and it goes on")
    assert holding(home, project) == []


def test_erased_events_are_removed_from_the_backup_of_an_essay(cli: Cli, home: Path) -> None:
    cli.ok("start", "a plan", "--bind", "essay")
    printed = cli.json("record", "attribute", "essay.style_profile_path", WORD)["seq"]
    cli.ok("pause")
    assert len(holding(home / "essays")) == 2
    cli.ok("session", "forget", str(printed), "--yes")
    assert holding(home) == []


def test_file_changed_by_others_is_not_removed_without_force(busy: Cli, project: Path) -> None:
    craft = next((project / ".craft").rglob("*.json"))
    craft.write_text(craft.read_text().replace("a plan", "their plan"))
    planned = busy.json("session", "forget", "plan", "--dry-run")
    assert planned["edited"] == [str(craft)]
    done = busy.json("session", "forget", "plan", "--yes")
    assert done["left"] == [str(craft)] and craft.exists()


def test_force_removes_files_that_others_changed(busy: Cli, project: Path) -> None:
    craft = next((project / ".craft").rglob("*.json"))
    craft.write_text(craft.read_text().replace("a plan", "their plan"))
    assert busy.json("session", "forget", "plan", "--yes", "--force")["left"] == []
    assert holding(project) == []


def test_erasing_a_session_removes_one_entry_of_a_shared_index(cli: Cli, project: Path) -> None:
    for name in ("one", "two"):
        cli.ok("start", f"the {name} plan", "--id", name)
        cli.ok("files", "bind", "ai-session")
    index = project / ".ai-session" / "active-features.yaml"
    assert "the-one" in index.read_text() and "the-two" in index.read_text()
    cli.ok("session", "forget", "one", "--yes")
    assert "the-one" not in index.read_text() and "the-two" in index.read_text()
    assert not list((project / ".ai-session").glob("the-one*"))
    cli.ok("note", "goes on")
    assert cli.json("verify")["ok"]


def test_payloads_of_an_erased_sessions_agents_are_removed(cli: Cli, home: Path) -> None:
    cli.ok("start", "a plan", "--id", "plan")
    bad = home / "spool" / "bad"
    bad.mkdir(parents=True)
    (bad / "1").write_text(f'forestay-spool 1 x\n{{"session_id": "native-7", "a": "{WORD}"')
    (bad / "2").write_text("of someone else")
    change = RunChange(0)
    change.run = Run("claude-code", "native-7", session="plan")
    with forestay.open(str(home)) as stay:
        stay.context.store.machine.agent_runs.save(change)
    done = cli.json("session", "forget", "plan", "--yes")
    assert done["removed"] == [str(bad / "1")]
    assert os.listdir(bad) == ["2"] and holding(home) == []


def test_forgetting_events_asks_first_and_names_what_is_out_of_reach(cli: Cli) -> None:
    cli.ok("start", "a plan", "--id", "plan")
    cli.ok("note", WORD)
    refused = cli("session", "forget", "2")
    assert refused.code == 4 and "forestay session forget '#2' --yes" in refused.err
    answer = cli("session", "forget", "#2", source="no\n", terminal=True)
    assert answer.code == 1 and f"#2 note  {WORD}" in answer.out
    planned = cli.ok("session", "forget", "2", "--dry-run").out
    assert f"#2 note  {WORD}" in planned and "out of reach: exports" in planned
    assert WORD in cli.ok("log").out
    reported = cli.ok("session", "forget", "2", source="yes\n", terminal=True)
    assert "#2. Their content is gone" in reported.out and "not touched: exports" in reported.out
    log = cli.ok("log").out
    assert WORD not in log and "(forgotten on " in log and "forgotten   #2" in log
    (line,) = [one for one in cli.ok("--json", "log").lines if one["seq"] == 2]
    assert line["forgotten"]["by"] == "cli" and line["data"] == {}
    assert "were erased before" in cli.ok("session", "forget", "2", "--yes").out


def test_erased_event_cannot_be_undone_and_an_undo_is_not_erased_alone(cli: Cli) -> None:
    cli.ok("start", "a plan", "--id", "plan")
    cli.ok("note", "first")
    cli.ok("note", "second")
    cli.ok("undo", "2", "--because", WORD)
    alone = cli("session", "forget", "4", "--yes")
    assert alone.code == 4 and "forestay session forget 2 4" in alone.err
    cli.ok("session", "forget", "2", "4", "--yes")
    assert "cannot be restored" in cli("undo").err
    assert "was forgotten" in cli("undo", "2").err
    assert cli("session", "forget", "5", "--yes").code == 4
    cli.ok("undo", "3")


def test_name_of_both_a_session_and_an_event_is_refused_as_ambiguous(cli: Cli) -> None:
    cli.ok("start", "a plan", "--id", "2nd-plan")
    cli.ok("note", "x")
    unclear = cli("session", "forget", "2", "--yes")
    assert unclear.code == 2 and "'#2'" in unclear.err
    cli.ok("session", "forget", "#2", "--yes")
    assert cli("session", "forget", "nothing", "--yes").code == 3
    cli.ok("session", "forget", "2nd-plan", "--yes")


def test_concurrent_reader_does_not_prevent_erasing_from_backups(cli: Cli, home: Path) -> None:
    cli.ok("start", "a plan", "--id", "plan")
    cli.ok("note", WORD)
    cli.ok("backup", "create")
    with forestay.open(str(home)) as stay, stay.context.store.view("plan"):
        answer = cli("session", "forget", "plan", "--yes")
    assert (answer.code, "still in the files" in answer.err) == (6, True)
    assert not any(_in_pack(path, WORD.lower().encode()) for path in home.rglob("*.fspack"))


def test_forget_names_the_remotes_where_the_next_sync_erases_it(cli: Cli, tmp_path: Path) -> None:
    cli.ok("start", "a plan", "--id", "plan")
    cli.ok("note", WORD)
    cli.ok("note", "another")
    assert "next sync" not in cli.ok("session", "forget", "#3", "--yes").out
    cli.ok("remote", "add", "usb", f"folder:{tmp_path / 'usb'}")
    planned = cli.ok("session", "forget", "#2", "--dry-run").out
    assert "usb: replaced there by the next sync" in planned
    reported = cli.ok("session", "forget", "#2", "--yes").out
    assert "still on usb: the next sync erases it there" in reported
    assert "remotes that were removed" in reported
    assert cli.json("session", "forget", "plan", "--yes")["remotes"] == ["usb"]


def test_erased_content_is_no_longer_reported_on_the_remote(cli: Cli, tmp_path: Path) -> None:
    cli.ok("start", "a plan", "--id", "plan")
    cli.ok("note", WORD)
    cli.ok("device", "key", "init")
    cli.ok("config", "auto_sync", "off")
    cli.ok("remote", "add", "usb", f"folder:{tmp_path / 'usb'}")
    cli.ok("sync")
    assert cli.json("session", "forget", "#2", "--dry-run")["remotes"] == ["usb"]
    for what in ("#2", "plan"):
        assert "still on usb" in cli.ok("session", "forget", what, "--yes").out
        cli.ok("sync")
        assert "still on" not in cli.ok("session", "forget", what, "--yes").out
        assert cli.json("session", "forget", what, "--yes")["remotes"] == []


def test_payloads_with_the_text_of_an_erased_event_are_erased_too(cli: Cli, home: Path) -> None:
    cli.ok("start", "a plan", "--id", "plan")
    cli.ok("note", f"the {WORD} is hidden below the stairs")
    bad = home / "spool" / "bad"
    bad.mkdir(parents=True)
    (bad / "1").write_text(f'{{"prompt": "the {WORD} is hidden below the stairs", "torn')
    (bad / "2").write_text('{"prompt": "the plan"}')
    done = cli.json("session", "forget", "#2", "--yes")
    assert done["removed"] == [str(bad / "1")]
    assert os.listdir(bad) == ["2"] and holding(home) == []
