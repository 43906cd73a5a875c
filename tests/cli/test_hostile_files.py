"""Malicious files: they cause no write elsewhere, and no long wait."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forestay.mirror import discover
from tests.cli.support import Answer, Cli
from tests.format_helpers import IDS, LOG, MAIN, ORCHESTRATOR, STATE, fill, snapshot

PATIENCE = 60.0


def forged(project: Path, extra: dict[str, Any], **more: Any) -> Path:
    """Return a file of another program with this value as carried content."""
    fill(project, kinds=["orchestrator"])
    path = project / "in.json"
    value = json.loads((project / ORCHESTRATOR).read_text())
    path.write_text(json.dumps({**value, **more, "forestay": {"v": 1, **extra}}))
    return path


def quickly(cli: Cli, *words: str) -> Answer:
    began = time.process_time()
    answer = cli(*words)
    assert time.process_time() - began < PATIENCE
    return answer


# -- conversion writes only to the given path---------------------------------------------------


@pytest.mark.parametrize("name", ["../../evil.json", "{out}/../evil.json", ".profile"])
def test_carried_content_cannot_write_other_files(
    cli: Cli, project: Path, tmp_path: Path, name: str
) -> None:
    out = project / "out"
    out.mkdir()
    entry = {"id": IDS["craft"], "files": {name.format(out=out): {"x": 1}}}
    forged(project, {"from": {"craft": entry}})
    before = snapshot(tmp_path)
    cli.ok("files", "convert", "in.json", "--to", "craft", "-o", "out")
    made = snapshot(tmp_path).keys() - before.keys()
    written = [Path(path) for path in made if "/home/" not in path]
    assert [path.parent for path in written] == [out]
    assert json.loads(written[0].read_text())["session_id"] == written[0].stem


@pytest.mark.parametrize("id", ["../../evil", "/{out}/evil", "../evil"])
def test_carried_id_that_is_a_path_is_not_used(cli: Cli, project: Path, id: str) -> None:
    (project / "out").mkdir()
    forged(project, {"from": {"craft": {"id": id.format(out=project)}}})
    (path,) = cli.json("files", "convert", "in.json", "--to", "craft", "-o", "out")["files"]
    assert (project / path).resolve().parent == project / "out"


@pytest.mark.parametrize("kind", ["craft", "ai-session"])
def test_id_that_is_a_path_creates_no_file_elsewhere(
    cli: Cli, project: Path, tmp_path: Path, kind: str
) -> None:
    fill(project, kinds=[kind])
    old = project / MAIN[kind]
    path = project / f"in{old.suffix}"
    path.write_text(old.read_text().replace(IDS[kind], "../../evil"))
    (project / "out").mkdir()
    refused = cli("files", "convert", path.name, "--to", kind, "-o", "out")
    assert refused.code == 2 and "leads out" in refused.err and "--id" in refused.err
    assert not list(tmp_path.rglob("evil*"))
    cli.ok("files", "convert", path.name, "--to", kind, "-o", "out", "--id", IDS[kind])


# -- invalid carried content -------------------------------------------------------------------


def _huge() -> dict[str, Any]:
    return {"in": {"steps": {"n": 10**15, "at": [[7, "x", {"add": {}}]]}}}


def _repeated() -> dict[str, Any]:
    return {"add": {f"k{i}": 1 for i in range(10_000)}, "order": ["goal"] * 120_000}


def _many_new() -> dict[str, Any]:
    return {"in": {"steps": {"n": 0, "new": [[-1, "", f"a{i}"] for i in range(20_000)]}}}


@pytest.mark.parametrize("facts", [_huge, _repeated, _many_new])
def test_carried_content_is_read_quickly(cli: Cli, project: Path, facts: Any) -> None:
    tasks = [f"task {i}" for i in range(1000)]
    forged(project, {"facts": facts()}, pending_tasks=tasks)
    assert quickly(cli, "files", "convert", "in.json", "--to", "craft", "-o", "out.json").code == 0


@pytest.mark.parametrize(
    "facts",
    [
        {"in": {"status": {"was": "active", "now": "bogus"}}, "add": {"status": "bogus"}},
        {"in": {"steps": {"n": 2, "new": [[-1, "", {"title": "x", "status": "bogus"}]]}}},
        {"in": {"agents": {"n": 1, "new": [[-1, "", {"id": "x", "status": "bogus"}]]}}},
    ],
)
def test_carried_status_that_is_invalid_is_omitted(
    cli: Cli, project: Path, facts: dict[str, Any]
) -> None:
    forged(project, {"facts": facts})
    cli.ok("files", "convert", "in.json", "--to", "craft", "-o", "out.json")
    (one,) = cli.json("adopt", "in.json")["adopted"]
    assert one["outcome"] == "adopted"
    assert cli.json("status", "--session", one["session"])["status"] == "active"


# -- links and names do not lead to other folders ------------------------------------------------


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Return a folder outside the project."""
    folder = tmp_path / "outside"
    (folder / "artifacts").mkdir(parents=True)
    (folder / "artifacts" / "diary.txt").write_text("dear diary")
    return folder


@pytest.mark.parametrize("ours", [True, False])
def test_archive_folder_that_is_a_link_is_not_followed(
    cli: Cli, project: Path, outside: Path, ours: bool
) -> None:
    cli.start("Add login", "--bind", "orchestrator")
    (project / ORCHESTRATOR).parent.joinpath("orchestrator-history").symlink_to(outside)
    if not ours:
        cli.ok("files", "unbind", "orchestrator")
    answer = cli("complete") if ours else cli("files", "orchestrator", "new", "Add logout")
    assert "symbolic link" in answer.err and (project / ORCHESTRATOR).is_file()
    assert [path.name for path in outside.iterdir()] == ["artifacts"]


def test_cleaning_up_into_a_link_is_refused(cli: Cli, project: Path, outside: Path) -> None:
    cli.start("Add login", "--bind", "ai-session:login-2026-01-31")
    cli.ok("complete")
    (project / ".ai-session-archive").symlink_to(outside)
    answer = cli("files", "cleanup", "--completed", "--yes")
    assert answer.code == 4 and "symbolic link" in answer.out
    assert (project / ".ai-session/login-2026-01-31/state.yaml").is_file()
    assert [path.name for path in outside.iterdir()] == ["artifacts"]


def test_artifacts_behind_a_link_do_not_belong_to_the_session(
    cli: Cli, project: Path, outside: Path
) -> None:
    fill(project, kinds=["ai-session"])
    (project / STATE).parent.joinpath("artifacts").symlink_to(outside)
    (one,) = cli.json("adopt", ".ai-session")["adopted"]
    assert (one["outcome"], one["artifacts"]) == ("adopted", 0)


def test_artifacts_of_an_id_that_is_a_path_are_not_read(
    cli: Cli, project: Path, outside: Path
) -> None:
    fill(project, kinds=["ai-session"])
    text = (project / STATE).read_text().replace(IDS["ai-session"], "../outside")
    (project / "state.yaml").write_text(text)
    (one,) = cli.json("adopt", "state.yaml")["adopted"]
    assert (one["outcome"], one["artifacts"]) == ("adopted", 0)


# -- folders of any size -----------------------------------------------------------------------


def test_very_deep_folder_does_not_stop_the_search(
    cli: Cli, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(1500):
        Path("a").mkdir()
        monkeypatch.chdir("a")
    monkeypatch.chdir(project)
    fill(project, kinds=["craft"])
    try:
        assert len(cli.json("files", "check", ".")["sessions"]) == 1
        assert len(cli.json("adopt", ".")["adopted"]) == 1
    finally:
        # Not every version of Python can remove folders of this depth.
        subprocess.run(["rm", "-rf", "a"], cwd=project, check=True)


def test_folder_with_too_many_files_is_reported(
    cli: Cli, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discover, "MOST_FILES", 5)
    fill(project, kinds=["craft"])
    for number in range(6):
        (project / f"{number}.txt").touch()
    good, rest = cli("--json", "files", "check", ".").json["sessions"]
    assert good["format"] == "craft", "the formats' own folders come first"
    assert [finding["code"] for finding in rest["findings"]] == ["too-many-files"]
    adopted = cli.json("adopt", ".")["adopted"]
    assert [one["outcome"] for one in adopted] == ["adopted", "unreadable"]


def test_folder_name_may_contain_a_line_break(cli: Cli, project: Path) -> None:
    subprocess.run(["git", "init", "-q"], check=True)
    cli.start()
    cli.ok("files", "bind", "craft", "--root", "a\nb")
    assert len(list((project / "a\nb").glob("*.json"))) == 1


def test_existing_backup_is_not_overwritten(cli: Cli, project: Path) -> None:
    backup = project / "essay" / "session-state.yaml.bak"
    backup.parent.mkdir()
    backup.write_text("mine")
    cli.start()
    assert cli("files", "bind", "essay", "--root", "essay").code == 4
    cli.ok("pause")
    assert backup.read_text() == "mine"


def test_number_beyond_the_list_is_refused(cli: Cli, project: Path) -> None:
    fill(project, kinds=["orchestrator"])
    cli.ok("files", "orchestrator", "new", "Add logout")
    assert cli("files", "orchestrator", "history", "000001999").code == 3
    assert cli("essay", "resume", "000001999").code == 3


@pytest.mark.parametrize("line", ["Agent: x\n", "Agent: x{}\n", "\n"])
@pytest.mark.parametrize("size", [250_000, 1_000_000])
def test_any_number_of_acknowledgments_is_read_quickly(
    cli: Cli, project: Path, line: str, size: int
) -> None:
    path = project / ".ai-session" / "contract-acknowledgment.md"
    path.parent.mkdir()
    text = "".join(line.format(n) for n in range(size // len(line)))
    path.write_text(text[:size])
    for words in (("show",), ("verify",), ("verify", "--agent", "y"), ("ack", "--agent", "x")):
        answer = quickly(cli, "files", "contract", *words)
        assert ("too large" in answer.err) == (size > 256 * 1024), words
    assert (size > 256 * 1024) == (path.read_text() == text[:size])


# -- finished sessions and copies ---------------------------------------------------------------


def test_stale_file_does_not_reopen_an_aborted_session(cli: Cli, project: Path) -> None:
    session = cli.start("Add login", "--bind", "orchestrator")
    stale = (project / ORCHESTRATOR).read_text()
    cli.ok("session", "abort")
    (project / ORCHESTRATOR).write_text(stale.replace("Add login", "Add login and logout"))
    answer = cli("files", "orchestrator", "continue")
    assert answer.code == 4 and "has the same id" in answer.err
    listed = cli.json("list", "--all")["sessions"]
    assert [(one["session"], one["status"]) for one in listed] == [(session, "aborted")]


def test_copy_of_a_session_file_is_not_another_session(cli: Cli, project: Path) -> None:
    session = cli.start("Add login", "--bind", "craft")
    (place,) = project.glob(".craft/**/*.json")
    (project / "copy.json").write_bytes(place.read_bytes())
    (one,) = cli.json("adopt", "copy.json")["adopted"]
    assert (one["outcome"], one["session"], one["events"]) == ("copy", session, 0)


def test_session_in_a_folder_whose_name_is_not_utf_8_is_adopted_unbound(
    cli: Cli, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = os.fsdecode(os.fsencode(project) + b"/\xff")
    fill(Path(folder), kinds=["craft"])
    monkeypatch.chdir(folder)
    refused = cli("start", "Add login", "--bind", "praxis")
    assert refused.code == 2 and "UTF-8" in refused.err
    (one,) = cli.json("adopt", ".")["adopted"]
    assert (one["outcome"], one["bound"]) == ("adopted", False)
    assert cli.json("adopt", ".")["adopted"][0]["outcome"] == "known"


# -- secrets -----------------------------------------------------------------------------------

TOKEN = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"


def _token_as_status(project: Path) -> None:
    path = project / ORCHESTRATOR
    path.write_text(path.read_text().replace('"in_progress"', f'"{TOKEN}"'))


def _token_as_key(project: Path) -> None:
    path = project / MAIN["craft"]
    path.write_text(path.read_text().replace('"goal"', f'"{TOKEN}"'))


def _token_in_log(project: Path) -> None:
    path = project / LOG
    path.write_text(path.read_text().replace('"plan"', f'"curl -u {TOKEN}"'))


def _token_as_task(project: Path) -> None:
    path = project / STATE
    path.write_text(path.read_text().replace("active_task:", f"active_task: {TOKEN} #"))


@pytest.mark.parametrize("harm", [_token_as_status, _token_as_key, _token_in_log, _token_as_task])
def test_secret_in_a_file_is_not_repeated_by_commands_that_read_it(
    cli: Cli, project: Path, harm: Callable[[Path], None]
) -> None:
    fill(project)
    harm(project)
    reported = [
        repr(cli(*words))
        for words in (
            *(
                ("files", "check", "."),
                ("--json", "files", "check", ".", "--strict"),
                ("doctor",),
                ("adopt",),
            ),
            *(("files", "report"), ("--json", "files", "report")),
        )
    ]
    assert TOKEN not in "".join(reported) and "[redacted:" in "".join(reported)
    assert any(TOKEN.encode() in data for data in snapshot(project).values()), "the file stays"


def test_secret_in_place_of_an_id_does_not_become_a_session_id(
    cli: Cli, project: Path, home: Path
) -> None:
    fill(project, kinds=["orchestrator"])
    path = project / "in.json"
    path.write_text((project / ORCHESTRATOR).read_text().replace(IDS["orchestrator"], TOKEN))
    (project / ORCHESTRATOR).unlink()
    (one,) = cli.json("adopt", "in.json")["adopted"]
    assert one["outcome"] == "adopted" and one["session"].startswith("orchestrator-")
    assert cli.json("adopt", "in.json")["adopted"][0]["outcome"] == "known"
    assert not any(TOKEN.encode() in data for data in snapshot(home).values())
