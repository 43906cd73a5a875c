"""Session files on the command line: output for people, JSON, and specified texts."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from forestay import compat
from forestay.formats.port import REGISTRY
from forestay.formats.text.document import Document
from tests.cli.support import Cli
from tests.format_helpers import (
    CRAFT,
    ESSAY,
    IDS,
    INDEX,
    LOG,
    ORCHESTRATOR,
    PRAXIS,
    STATE,
    fill,
    snapshot,
)
from tests.formats.samples.praxis import session as workflow
from tests.formats.test_praxis import legacy

KINDS = ["ai-session", "praxis", "craft", "essay", "orchestrator"]


def essay_in_tmp(project: Path, name: str = "essay-pipeline-20260214-143022") -> Path:
    fill(project, kinds=["essay"])
    folder = project.parent / "tmp" / name
    folder.parent.mkdir(exist_ok=True)
    (project / ESSAY).parent.rename(folder)
    return folder


# -- check -------------------------------------------------------------------------------------


def test_check_prints_the_documented_fields(cli: Cli, project: Path) -> None:
    fill(project)
    (project / CRAFT).write_text((project / CRAFT).read_text().replace("1.0.0", "one"))
    answer = cli("--json", "files", "check", CRAFT)
    assert answer.code == 5
    printed = answer.json
    assert {"format", "version", "findings", "complete", "status", "progress"} <= printed.keys()
    assert printed["format"] == "craft" and printed["ok"] is False
    wanted = {"code", "severity", "file", "where", "requirement", "message"}
    assert all(wanted <= finding.keys() for finding in printed["findings"])


def test_check_prints_the_findings_of_several_sessions(cli: Cli, project: Path) -> None:
    fill(project)
    for main in (CRAFT, ORCHESTRATOR):
        (project / main).write_text("{")
    found = {finding["file"] for finding in cli("--json", "files", "check", ".").json["findings"]}
    assert {str(project / CRAFT), str(project / ORCHESTRATOR)} <= found


def test_suggested_command_quotes_the_name_of_a_file(
    cli: Cli, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    fill(project, kinds=["orchestrator"])
    for name in ("-rf.json", "a b.json"):
        (project / name).write_text((project / ORCHESTRATOR).read_text()[:200])
        reported = cli("files", "check", f"./{name}", terminal=True)
        (line,) = [line for line in reported.out.splitlines() if "to recover" in line]
        assert cli(*shlex.split(line.partition("forestay ")[2])).code == 5


@pytest.mark.parametrize("command", ["files check", "adopt", "files convert --to craft"])
def test_missing_or_unreadable_workflow_definitions_are_refused(
    cli: Cli, project: Path, command: str
) -> None:
    fill(project, kinds=["praxis"])
    refused = cli(*command.split(), ".", "--workflows", "nowhere")
    assert refused.code == 2 and "nowhere is not a folder" in refused.err
    kind = json.loads((project / PRAXIS).read_text())["workflow_type"]
    definition = project / "there" / kind / "metadata.json"
    definition.parent.mkdir(parents=True)
    definition.write_text('{"total_phases": 6')
    refused = cli(*command.split(), ".", "--workflows", "there")
    assert refused.code and f"{kind}/metadata.json cannot be read" in refused.out + refused.err


@pytest.mark.parametrize("key", ["schema_version", "session_id"])
def test_secret_in_the_id_or_version_of_a_file_is_not_printed(
    cli: Cli, project: Path, key: str
) -> None:
    token = f"ghp_{'a1B2' * 9}"
    fill(project, kinds=["craft"])
    value = json.loads((project / CRAFT).read_text())
    (project / "odd.json").write_text(json.dumps({**value, key: token}))
    for command in (
        "files check",
        "doctor",
        "files convert --to praxis -o out",
        "adopt --dry-run",
        "adopt",
    ):
        for json_ in ([], ["--json"]):
            reported = cli(*command.split(), "odd.json", *json_)
            assert token not in reported.out + reported.err, command
    assert json.loads((project / "odd.json").read_text())[key] == token


def test_secret_in_a_merge_conflict_is_not_printed(cli: Cli, project: Path) -> None:
    token = f"ghp_{'a1B2' * 9}"
    fill(project, kinds=["ai-session"])
    with (project / ".ai-session/active-features.yaml").open("a") as index:
        index.write(f"<<<<<<< ours\n    note: {token}\n=======\n    note: y\n>>>>>>> theirs\n")
    for command in ("files check", "doctor", "files convert --to praxis -o out", "adopt"):
        reported = cli(*command.split(), ".ai-session")
        assert (
            token not in reported.out + reported.err and "[redacted:" in reported.out + reported.err
        ), command


def test_restore_of_an_unbound_format_is_reported(cli: Cli) -> None:
    cli.start("Add login", "--bind", "craft")
    cli.ok("files", "restore", "craft")
    assert "did you mean craft?" in cli("files", "restore", "craft:ID").err
    reported = cli("files", "restore", "praxis")
    assert reported.code == 3 and "no files of praxis" in reported.out


@pytest.mark.parametrize(
    "line",
    ["files bind", "files unbind", "files restore", "start x --bind", "files convert x --to"],
)
def test_misspelt_format_is_answered_with_the_right_name(cli: Cli, line: str) -> None:
    cli.start("Add login", "--bind", "craft")
    for wrong, right in (("carft", "craft"), ("Ai_session", "ai-session"), ("Essay", "essay")):
        refused = cli(*line.split(), wrong)
        assert refused.code == 2 and f"there is no format {wrong}" in refused.err
        assert f"→ did you mean {right}?" in refused.err
    assert "the formats are ai-session, praxis, craft, essay, orch" in cli(*line.split(), "?").err


def test_ai_session_is_also_accepted_with_an_underscore(cli: Cli) -> None:
    cli.start("Add login", "--bind", "ai_session:login-2026-01-31")
    place = Path(".ai-session/login-2026-01-31/state.yaml")
    assert place.is_file()
    cli.ok("files", "convert", str(place), "--to", "ai_session", "-o", "out")
    place.write_text("{")
    assert "ai-session" in cli.ok("files", "restore", "ai_session").out
    cli.ok("files", "unbind", "ai_session")
    assert cli.json("files")["formats"] == []
    cli.ok("files", "bind", "ai_session:login-2026-01-31")
    assert [one["format"] for one in cli.json("files")["formats"]] == ["ai-session"]


@pytest.mark.parametrize("option", ["-o", "--choose"])
def test_doctor_of_the_home_refuses_options_for_files(cli: Cli, option: str) -> None:
    refused = cli("doctor", option, "x")
    assert refused.code == 2 and "forestay doctor PATH" in refused.err


def test_check_of_a_folder_without_session_files_exits_3(cli: Cli, project: Path) -> None:
    (project / "empty").mkdir()
    answer = cli("--json", "files", "check", "empty")
    assert (answer.code, answer.json["ok"], answer.json["sessions"]) == (3, False, [])
    assert "no session file" in cli("files", "check", "empty").out


def test_repeated_findings_are_counted_and_all_shown_on_request(cli: Cli, project: Path) -> None:
    fill(project, kinds=["orchestrator"])
    value = json.loads((project / ORCHESTRATOR).read_text())
    value["completed_work"] = [f"bare {n}" for n in range(12)]
    (project / ORCHESTRATOR).write_text(json.dumps(value, indent=2))
    short = cli("files", "check", ORCHESTRATOR)
    assert short.out.count("must be an object") == 3
    assert "9 more like this: bare-text" in short.out
    assert cli("files", "check", ORCHESTRATOR, "--all").out.count("must be an object") == 12
    assert len(cli("--json", "files", "check", ORCHESTRATOR).json["findings"]) >= 12


def test_lines_of_check_fit_a_terminal_of_80_columns(cli: Cli, project: Path) -> None:
    fill(project)
    answer = cli("files", "check", ".", "--no-color", terminal=True)
    own = [line for line in answer.out.splitlines() if not line.startswith((" " * 9, "good"))]
    assert all(len(line) <= 80 for line in own), own
    assert "5 sessions: 5 good, 0 faulty" in answer.out


# -- adopt -------------------------------------------------------------------------------------


def test_adopt_reports_the_outcome_of_each_file_and_the_totals(cli: Cli, project: Path) -> None:
    fill(project)
    (project / CRAFT).write_text("{")
    answer = cli.ok("adopt")
    assert answer.out.count("adopted") == 5 and "unreadable" in answer.out
    assert answer.out.splitlines()[-1] == "5 sessions: 4 adopted, 1 unreadable"
    assert "4 known" in cli.ok("adopt").out


def test_dry_run_of_adopt_does_not_claim_that_anything_was_adopted(cli: Cli, project: Path) -> None:
    fill(project)
    answer = cli.ok("adopt", "--dry-run")
    assert answer.out.splitlines()[-1] == "5 sessions: 5 would be adopted"
    assert answer.out.count("would be adopted  ") == 5
    cli.ok("adopt")
    project.rename(project.with_name("moved"))
    assert cli.ok("adopt", "--dry-run", "../moved").out.count("would be moved    ") == 5


def test_template_is_not_reported_as_damaged(cli: Cli, project: Path) -> None:
    fill(project, kinds=["essay"])
    text = (project / ESSAY).read_text()
    (project / ESSAY).write_text(text.replace(IDS["essay"], "essay-{uuid}"))
    assert cli.ok("adopt", ESSAY).out.startswith("template")
    reported = cli.ok("adopt", "--no-color", terminal=True).out
    assert reported.endswith("  to include templates: forestay adopt --templates\n")


def test_copies_of_a_session_are_listed_with_their_files(cli: Cli, project: Path) -> None:
    fill(project, kinds=["orchestrator"])
    for kind in ("craft", "praxis"):
        cli.ok("files", "convert", ORCHESTRATOR, "--to", kind)
    reported = [
        line.split() for line in cli.ok("adopt").out.splitlines() if line.startswith("copy")
    ]
    stem = ORCHESTRATOR.removesuffix(".json")
    assert reported == [["copy", f"{stem}.{kind}.json", kind] for kind in ("craft", "praxis")]


@pytest.mark.parametrize("name", ["package.json", "chat.jsonl", "empty", ""])
def test_file_or_folder_without_a_session_is_reported(cli: Cli, project: Path, name: str) -> None:
    (project / "empty").mkdir()
    (project / "package.json").write_text('{"name": "x", "version": "1.0.0"}')
    (project / "chat.jsonl").write_text('{"type": "user", "message": {"content": "hi"}}')
    for line in (["files", "convert", name or ".", "--to", "craft"], ["doctor", name or "."]):
        answer = cli(*line)
        where = name or (project if line[0] == "doctor" else ".")
        assert (answer.code, answer.err.splitlines()[0]) == (
            2,
            f"error: there is no session in {where}",
        )
    reported = cli("adopt", "--no-color", *([name] if name else []), terminal=True).out
    assert not any(line.endswith(" ") for line in reported.split("\r")[-1].splitlines())
    other = " ".join(filter(None, ["forestay adopt", name, "--transcripts claude-code"]))
    hinted = reported.endswith(f"  conversations of an agent: {other}\n")
    assert hinted == (name != "package.json")


def test_start_shows_the_paths_of_bound_files(cli: Cli, project: Path) -> None:
    answer = cli.ok("start", "Add login", "--bind", "orchestrator")
    assert f"  its files: {ORCHESTRATOR}\n" in answer.out
    reported = cli.json("start", "Add logout", "--bind", "craft")["formats"]
    assert reported == cli.json("files")["formats"] and Path(reported[0]["path"]).is_file()
    assert cli.json("start", "Add nothing")["formats"] == []


@pytest.mark.parametrize("kind", KINDS)
def test_binding_a_format_twice_writes_one_set_of_files(cli: Cli, kind: str) -> None:
    cli.start("Add login", "--bind", kind)
    (before,) = cli.json("files")["formats"]
    assert cli.json("files", "bind", kind)["path"] == before["path"]
    assert [one["path"] for one in cli.json("files")["formats"]] == [before["path"]]


def test_answer_of_bind_is_the_resulting_binding(cli: Cli, project: Path) -> None:
    cli.start("Add login")
    (project / INDEX).parent.mkdir()
    (project / INDEX).write_text("no index\n")
    for kind in ("craft", "ai-session"):
        added = cli.json("files", "bind", kind)
        last = cli.json("files")["formats"][-1]
        assert {name: added[name] for name in last} == last
    assert added["suspended"] and not (project / STATE).exists()
    assert ", once it can be written\n" in cli.ok("files", "bind", "ai-session").out


def test_unwritten_files_are_reported_once(cli: Cli, project: Path) -> None:
    cli.start("Add login", "--bind", "orchestrator")
    (project / ORCHESTRATOR).write_text("{")
    assert cli.ok("note", "hello").err.count("are not written") == 1


@pytest.mark.parametrize("is_torn", [True, False])
def test_unwritten_files_are_reported_by_read_only_commands(
    cli: Cli, project: Path, is_torn: bool
) -> None:
    cli.start("Add login", "--bind", "orchestrator", "--bind", "craft")
    path = project / ORCHESTRATOR
    good = path.read_text()
    bad = good[:40] if is_torn else good.replace('"schema_version": "1.0"', '"schema_version": "9"')
    for write_too in (False, True):
        path.write_text(bad)
        if write_too:
            cli.ok("note", "hello")
        (one,) = cli.json("status")["suspended"]
        why = "invalid JSON" if is_torn else "version 9 is not supported for writing"
        assert (one["format"], one["path"]) == ("orchestrator", str(path)) and why in one["why"]
        assert f"  files    orchestrator not written: {one['why']}\n" in cli.ok("status").out
        assert f"not written: {one['why']}\n" in cli.ok("files").out
        assert "No problems found" not in cli("doctor").out
        assert path.read_text() == bad
        path.write_text(good)
        assert "suspended" not in cli.json("status")
        assert (
            "not written" not in cli.ok("files").out and "No problems found" in cli.ok("doctor").out
        )


@pytest.mark.parametrize("state", ["full", "read-only"])
def test_outdated_files_on_an_unwritable_disk_are_reported(
    cli: Cli, small_disk: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    monkeypatch.chdir(small_disk)
    cli.start("Add login", "--bind", "craft", "--bind", "orchestrator")
    if state == "full":
        with suppress(OSError):
            (small_disk / "more").write_bytes(bytes(1_000_000))
        why = "the disk is full"
    else:
        subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
        why = "the file system is read-only"
    assert "suspended" not in cli.json("status"), "the files are still up to date"
    assert "not up to date" in cli.ok("task", "add", "Write tests").err
    assert [one["why"] for one in cli.json("status")["suspended"]] == [why, why]
    assert f"craft, orchestrator not written: {why}" in cli.ok("status").out
    assert why in cli("doctor").out and why in cli.ok("files").out


def test_doctor_reports_the_files_that_it_updated(
    cli: Cli, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(small_disk)
    cli.start("Add login", "--bind", "craft")
    with suppress(OSError):
        (small_disk / "more").write_bytes(bytes(1_000_000))
    assert "not up to date" in cli.ok("complete").err
    assert "up to date" not in cli("doctor", "--fix").out
    (small_disk / "more").unlink()
    mended = cli.ok("doctor", "--fix").out
    assert "repaired brought the craft files of session" in mended
    assert "Nothing had to be repaired" in cli.ok("doctor", "--fix").out


def test_command_that_doctor_suggests_for_suspended_files_works(cli: Cli, project: Path) -> None:
    cli.start("Add login", "--bind", "orchestrator")
    path = project / ORCHESTRATOR
    path.write_text(path.read_text().replace('"schema_version": "1.0"', '"schema_version": "9"'))
    theirs = path.read_text()
    (advice,) = [a for a in cli.json("doctor")["advice"] if a["code"] == "files-suspended"]
    cli.ok(*shlex.split(advice["fix"].rpartition(": forestay ")[2]))
    left = [a["code"] for a in cli.json("doctor")["advice"] if a["severity"] != "info"]
    assert left == ["file-faulty"] and path.read_text() == theirs


def test_recorded_file_edits_are_counted_in_the_message(cli: Cli, project: Path) -> None:
    cli.start("Add login", "--bind", "orchestrator")
    path = project / ORCHESTRATOR
    path.write_text(path.read_text().replace('"pending_tasks": []', '"pending_tasks": ["docs"]'))
    printed = "orchestrator-session.json was edited: 1 change recorded"
    assert printed in cli.ok("note", "hello").err


@pytest.mark.req("S4-58")
def test_resume_display_has_the_session_id_of_the_file(cli: Cli, project: Path) -> None:
    cli.start("Add login", "--bind", "orchestrator")
    native = json.loads((project / ORCHESTRATOR).read_text())["session_id"]
    assert f"**Session ID**: {native}\n" in cli.ok("files", "orchestrator", "continue").out


def test_family_without_a_list_names_its_actions(cli: Cli) -> None:
    answer = cli("files", "orchestrator")
    assert answer.code == 2
    assert "ACTION is missing\n  choose one of continue, history, new, abort, save" in answer.err


def test_resumed_adopted_session_shows_its_whole_id_and_no_false_edit(
    cli: Cli, project: Path
) -> None:
    fill(project, kinds=["craft"])
    (adopted,) = cli.json("adopt")["adopted"]
    reported = cli.ok("resume", adopted["session"], "--no-fence").out
    assert reported.startswith(f"Session {adopted['session']}: ")
    assert f"- {Path(CRAFT).name}: imported from another program's file (craft)\n" in reported
    styled = cli.ok("brief", "--style", "orchestrator").out
    assert f"**Session ID**: {adopted['session']}\n" in styled


@pytest.mark.req("X1-1")
@pytest.mark.parametrize("folder", ["active", "completed", "error"])
def test_sessions_of_newer_praxis_are_mentioned_and_adopted_in_place(
    cli: Cli, project: Path, folder: str
) -> None:
    fill(project, kinds=["praxis"])
    place = project / ".praxis-os/state/workflow" / folder
    place.mkdir(parents=True)
    (project / PRAXIS).rename(place / (project / PRAXIS).name)
    assert "to adopt them: forestay adopt" in cli.ok().out
    (adopted,) = cli.json("adopt")["adopted"]
    assert adopted["outcome"] == "adopted" and str(place) in adopted["path"]
    cli.ok("session", "use", adopted["session"])
    assert "also here" not in cli.ok("resume").err


def test_legacy_files_are_mentioned_until_they_are_adopted(cli: Cli, project: Path) -> None:
    place = project / ".praxis-os/.cache/state"
    place.mkdir(parents=True)
    old = [place / f"0a1b2c3d-0000-4000-8000-00000000000{n}.json" for n in range(2)]
    for path in old:
        path.write_text(json.dumps(legacy(session_id=path.stem)))
    cli.ok("adopt", str(old[0]))
    cli.ok("session", "use", old[0].stem)
    assert "also here" in cli.ok("resume").err
    cli.ok("adopt", "--dry-run")
    assert "also here" in cli.ok("resume").err
    cli.ok("adopt")
    assert "also here" not in cli.ok("resume").err
    old[1].write_text(json.dumps(legacy(session_id=old[1].stem, current_phase=4)))
    assert "also here" in cli.ok("resume").err
    cli.ok("adopt")
    assert "also here" not in cli.ok("resume").err


def test_adopting_many_shows_some_and_counts_the_rest(cli: Cli, project: Path) -> None:
    fill(project, kinds=["craft"])
    text = (project / CRAFT).read_text()
    for n in range(60):
        id = f"7e57d004-2b97-4e7a-b45f-{n:012d}"
        path = (project / CRAFT).with_name(f"{id}.json")
        path.write_text(text.replace("7e57d004-2b97-4e7a-b45f-5387367791cd", id))
    answer = cli.ok("adopt", "--no-color", terminal=True)
    assert answer.out.count("craft, 15 events") == 40
    assert "61 sessions: 61 adopted\nall of them: --all" in answer.out
    assert "\r" in answer.err and " read: " in answer.err
    assert len(cli.json("adopt")["adopted"]) == 61
    assert len(cli.ok("adopt").out.splitlines()) == 62


# -- resuming a workflow -----------------------------------------------------------------------


@pytest.mark.req("S1-124")
def test_resume_shows_the_context_of_a_workflow(cli: Cli, project: Path) -> None:
    fill(project, kinds=["praxis"])
    value = workflow(session_id=(project / PRAXIS).stem)
    (project / PRAXIS).write_text(json.dumps(value))
    cli.ok("adopt")
    for command in ("resume", "brief"):
        printed = cli.ok(command).out
        assert "Where: phase 2 of 3: Phase 2 (67%)" in printed
        assert "Next: finish phase-2" in printed
        assert (
            "phases took 15 minutes on average, about 15 minutes left, possibly stalled" in printed
        )


def test_workflow_without_a_finished_phase_has_no_estimate(cli: Cli, project: Path) -> None:
    fill(project, kinds=["praxis"])
    cli.ok("adopt")
    assert "on average" not in cli.ok("resume").out


# -- convert -----------------------------------------------------------------------------------


@pytest.mark.req("S0-91", "S0-92", "S0-93")
@pytest.mark.parametrize("to", [kind for kind in KINDS if kind != "ai-session"])
def test_new_format_is_written_next_to_the_old_one(cli: Cli, project: Path, to: str) -> None:
    fill(project, kinds=["ai-session"])
    old = snapshot(project)
    made = [project / name for name in cli.json("files", "convert", STATE, "--to", to)["files"]]
    assert made and all(path.is_relative_to((project / STATE).parent) for path in made)
    assert {name: data for name, data in snapshot(project).items() if name in old} == old
    assert cli.json("files", "check", str(made[0]))["format"] == to
    assert cli("files", "convert", STATE, "--to", to).code != 0, "existing files are never replaced"
    assert snapshot(project).keys() == old.keys() | {str(path) for path in made}


@pytest.mark.req("S0-93", "S1-127", "S1-142")
def test_convert_upgrades_an_old_generation_into_another_file(cli: Cli, project: Path) -> None:
    old = project / "old.json"
    old.write_text(json.dumps(legacy(mystery=[1])))
    before = old.read_bytes()
    assert cli.json("files", "check", "old.json")["generation"] == "legacy"
    cli.ok("files", "convert", "old.json", "--to", "praxis", "-o", "new.json")
    new = cli.json("files", "check", "new.json")
    assert new["generation"] == "redesign" and "mystery" in (project / "new.json").read_text()
    assert old.read_bytes() == before


@pytest.mark.req("S0-90", "S0-91", "S0-92", "S0-93")
@pytest.mark.parametrize("version", ['version: "2.0"', "version: 1.1", "version: 1", ""])
def test_convert_writes_a_copy_of_another_version_in_the_current_one(
    cli: Cli, project: Path, version: str
) -> None:
    fill(project, kinds=["ai-session"])
    state = project / STATE
    state.write_text(state.read_text().replace('version: "1.0"', version) + "mystery: [1]\n")
    before = snapshot(project)
    answer = cli.json("files", "convert", str(state.parent), "--to", "ai-session", "-o", "new")
    assert len(answer["lost"]) == (version in ('version: "2.0"', "version: 1.1"))
    reported = cli.json("files", "check", "new", "--strict")
    assert (reported["version"], reported["findings"]) == ("1.0", [])
    made = (project / "new" / state.parent.name / "state.yaml").read_text()
    # Within one format the file is edited in place: the line that lost its version stays, empty.
    assert made.lstrip("\n").startswith('version: "1.0"') and "mystery: [1]" in made
    assert {name: data for name, data in snapshot(project).items() if name in before} == before


@pytest.mark.req("S1-126")
def test_resuming_a_legacy_session_warns_once(cli: Cli, project: Path) -> None:
    warning = "Legacy session format, limited resumption context"
    ids = ["0a1b2c3d-0000-4000-8000-000000000001", "0a1b2c3d-0000-4000-8000-000000000002"]
    for id in ids:
        (project / f"{id}.json").write_text(json.dumps(legacy(session_id=id)))
    assert [one["warning"] for one in cli.json("adopt")["adopted"]] == [warning, warning]
    assert cli.ok("adopt").out.count(warning) == 1
    assert cli.ok("resume", ids[0]).out.count(warning) == 1
    assert cli.ok("resume", ids[1], "--style", "praxis").out.count(warning) == 1


def test_converted_essay_is_readable_under_any_file_name(cli: Cli, project: Path) -> None:
    fill(project, kinds=["orchestrator"])
    cli.ok("files", "convert", ORCHESTRATOR, "--to", "essay", "-o", "essay.json")
    assert cli.ok("files", "check", "essay.json").out.startswith("good ")
    cli.ok("files", "convert", "essay.json", "--to", "orchestrator", "-o", "back.json")
    assert (project / "back.json").read_bytes() == (project / ORCHESTRATOR).read_bytes()


TAKEN = ["file", "link", "dangling", "fifo", "/dev/null", ORCHESTRATOR, "hard", "loop", "-"]


@pytest.mark.parametrize("out", TAKEN)
@pytest.mark.parametrize("to", ["craft", "ai-session"])
def test_convert_never_overwrites_an_existing_path(
    cli: Cli, project: Path, to: str, out: str
) -> None:
    fill(project, kinds=["orchestrator"])
    (project / "file").write_text("mine")
    (project / "link").symlink_to("file")
    (project / "dangling").symlink_to("nowhere")
    (project / "loop").symlink_to("loop")
    os.mkfifo(project / "fifo")
    os.link(project / ORCHESTRATOR, project / "hard")
    before = snapshot(project)
    refused = cli("files", "convert", ORCHESTRATOR, "--to", to, "-o", out)
    assert refused.code == 2 and "error: " in refused.err, refused
    assert snapshot(project) == before


def test_converting_the_current_folder_writes_the_result_into_it(
    cli: Cli, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(project, kinds=["craft"])
    name = f"{project.name}.praxis.json"
    assert cli.json("files", "convert", ".", "--to", "praxis")["files"] == [name]
    (project / name).unlink()
    monkeypatch.chdir(project / ".craft")
    assert cli.json("files", "convert", "..", "--to", "praxis")["files"] == [f"../{name}"]


@pytest.mark.parametrize("path", ["/dev/stdin", "/proc/self/fd/0"])
def test_convert_of_standard_input_needs_an_output_path(cli: Cli, project: Path, path: str) -> None:
    fill(project, kinds=["craft"])
    kept = os.dup(0)
    try:
        with (project / CRAFT).open() as file:
            os.dup2(file.fileno(), 0)
        refused = cli("files", "convert", path, "--to", "praxis")
        assert refused.code == 2 and "-o OUT" in refused.err
        cli.ok("files", "convert", path, "--to", "praxis", "-o", "made.json")
    finally:
        os.dup2(kept, 0)
        os.close(kept)


@pytest.mark.parametrize("out", ["new/", "deep/new/", "old"])
def test_single_file_is_written_into_the_folder_that_is_named(
    cli: Cli, project: Path, out: str
) -> None:
    fill(project, kinds=["orchestrator"])
    (project / "old").mkdir()
    (path,) = cli.json("files", "convert", ORCHESTRATOR, "--to", "craft", "-o", out)["files"]
    assert (project / path).is_file() and (project / path).parent == (project / out).resolve()
    (project / ORCHESTRATOR).write_text((project / ORCHESTRATOR).read_text()[:-20])
    cli.ok("doctor", ORCHESTRATOR, "--choose", "manual", "-o", out)
    assert (project / out / "orchestrator-session.json").is_file()


@pytest.mark.parametrize("to", KINDS)
def test_id_that_is_invalid_in_the_format_is_not_converted(
    cli: Cli, project: Path, to: str
) -> None:
    fill(project, kinds=["craft"])
    before = snapshot(project)
    for id in ("foo/bar", "..", "a\nb", "x" * 300, "a\x1b[31m"):
        refused = cli("files", "convert", CRAFT, "--to", to, "--id", id, "-o", "out")
        assert refused.code == 2 and " ID " in refused.err and "\x1b" not in refused.err
    assert snapshot(project) == before


def test_convert_names_the_file_that_cannot_be_read(cli: Cli, project: Path) -> None:
    fill(project, kinds=["ai-session"])
    index = project / ".ai-session" / "active-features.yaml"
    index.write_text("active_features: []\n- x\n")
    answer = cli("files", "convert", str((project / STATE).parent), "--to", "craft", "-o", "x.json")
    assert answer.code == 5
    assert (
        ".ai-session/active-features.yaml cannot be read completely" in answer.err
        and "(line 2)" in answer.err
        and "forestay doctor" in answer.err
    )


@pytest.mark.parametrize("to", REGISTRY)
def test_convert_reports_a_torn_line_that_the_other_format_cannot_store(
    cli: Cli, project: Path, to: str
) -> None:
    fill(project, kinds=["ai-session"])
    with (project / LOG).open("a") as log:
        log.write('{"timestamp": "2026-02-14T1')
    lost = cli.json("files", "convert", ".ai-session", "--to", to, "-o", "out")["lost"]
    if to == "ai-session":
        assert lost == []
        made = project / LOG.replace(".ai-session", "out")
        assert made.read_bytes() == (project / LOG).read_bytes()
    else:
        (line,) = lost
        assert line.startswith("line ") and line.endswith("history.jsonl, which is not JSON")


def test_converting_one_file_of_a_session_converts_all_of_it(cli: Cli, project: Path) -> None:
    fill(project, kinds=["ai-session"])
    cli.ok("files", "convert", STATE, "--to", "craft", "-o", "out.json")
    made = json.loads((project / "out.json").read_text())
    assert (made["goal"], made["completed_work"]) == ("Add login", ["Write tests"])


def test_convert_accepts_yaml_anchors_and_lists_carried_content(cli: Cli, project: Path) -> None:
    fill(project, kinds=["essay"])
    essay = project / ESSAY
    essay.write_text(essay.read_text() + "x_one: &one {a: 1}\nx_two: {<<: *one, b: 2}\n")
    printed = cli.ok("files", "convert", ESSAY, "--to", "craft", "-o", "made.json").out
    assert " for steps.id: it is stored under `forestay`\n" in printed
    cli.ok("files", "convert", "made.json", "--to", "essay", "-o", "back.yaml")
    made, first = (Document.parse(p.read_bytes(), "yaml") for p in (project / "back.yaml", essay))
    assert made.value == first.value


@pytest.mark.parametrize("strange", [[0] * 80_000, "é " * 1_100_000], ids=["many", "long"])
def test_convert_reports_a_result_that_cannot_be_read_again(
    cli: Cli, project: Path, strange: object
) -> None:
    fill(project, kinds=["craft"])
    reported = json.loads((project / CRAFT).read_text())
    large = json.dumps({**reported, "mine": strange}, ensure_ascii=False)
    (project / CRAFT).write_text(large)
    printed = cli.ok("files", "convert", CRAFT, "--to", "essay", "-o", "made.yaml").out
    assert "lost    session-state.yaml is too large to be converted back: " in printed
    assert cli("files", "check", "made.yaml").code == 5
    printed = cli.ok("files", "convert", CRAFT, "--to", "praxis", "-o", "made.json").out
    assert "lost" not in printed
    cli.ok("files", "convert", "made.json", "--to", "craft", "-o", "back.json")
    assert json.loads((project / "back.json").read_text()) == json.loads(large)


def test_list_of_carried_content_fits_80_columns(cli: Cli, project: Path) -> None:
    fill(project, kinds=["essay"])
    command = ("files", "convert", ESSAY, "--to", "craft", "-o", "made.json", "--no-color")
    _, _, reported = cli.ok(*command, terminal=True).out.rpartition("made.json\n")
    assert reported.startswith("  carried craft") and all(
        len(line) <= 80 for line in reported.split("\n")
    )


def test_resume_mentions_files_of_others_and_adopts_nothing(cli: Cli, project: Path) -> None:
    fill(project)
    answer = cli("resume")
    assert answer.code == 3
    assert ".ai-session" in answer.err and "forestay adopt" in answer.err
    assert cli.json("list", "--all")["sessions"] == []
    cli.start()
    assert "forestay adopt" in cli.ok("resume").err
    cli.ok("adopt")
    assert "forestay adopt" not in cli("resume", "2026-02-14-abc123").err


def test_resume_does_not_report_own_files_as_files_of_other_programs(
    cli: Cli, project: Path
) -> None:
    formats = [f"--bind={name}" for name in ("ai-session", "praxis", "craft", "orchestrator")]
    cli.start("Add login", *formats)
    assert "also here" not in cli.ok("resume").err
    fill(project, kinds=["craft"])
    reported = cli.ok("resume").err
    assert ".craft" in reported and ".claude" not in reported and ".ai-session" not in reported


# -- recovery ----------------------------------------------------------------------------------


def test_doctor_reports_and_repairs_bound_files(cli: Cli, project: Path) -> None:
    cli.ok("start", "Add login", "--bind", "craft")
    (binding,) = cli.json("files")["formats"]
    whole = Path(binding["path"]).read_bytes()
    Path(binding["path"]).write_bytes(b'{"torn')
    reported = cli("doctor").out
    assert "not complete" in reported and "nothing is lost" not in reported, (
        "the torn file may have had new content"
    )
    answer = cli.ok("doctor", "--fix")
    assert "kept the previous bytes as" in answer.out
    assert Path(binding["path"]).read_bytes() == whole
    Path(binding["path"]).unlink()
    assert "nothing is lost" in cli("doctor").out
    assert "recovered" in cli.ok("files", "restore").out
    assert cli.ok("files", "restore").out == "No file of this session is damaged or missing.\n"


def test_repairing_an_index_updates_all_files_that_waited_for_it(cli: Cli) -> None:
    index = Path(".ai-session/active-features.yaml")
    for name in ("one", "two"):
        cli.start(name, "--bind", f"ai-session:{name}-2026-01-31")
    index.write_text(index.read_text().replace("features:", "features: []", 1))
    cli.ok("note", "meanwhile")
    log = Path(".ai-session/two-2026-01-31/history.jsonl")
    assert log.read_text() == ""
    reported = cli.ok("doctor", "--fix").out
    assert "note.added" in log.read_text() and reported.count("up to date") == 1


def test_a_question_is_shown_with_the_command_for_each_answer(cli: Cli, project: Path) -> None:
    fill(project, kinds=["orchestrator"])
    (project / ORCHESTRATOR).write_text("{")
    answer = cli("doctor", ORCHESTRATOR)
    assert answer.code == 5
    assert "## ⚠️ SESSION RECOVERY" in answer.out
    question = cli("--json", "doctor", ORCHESTRATOR).json["case"]["question"]
    assert [choice["id"] for choice in question["choices"]] == ["fresh", "history", "manual"]
    for choice in question["choices"]:
        assert choice["command"].replace(f"{project}/", "") in answer.out
    cli.ok("doctor", ORCHESTRATOR, "--fix", "--choose", "fresh")
    assert not (project / ORCHESTRATOR).exists()


def test_recovered_files_can_be_written_to_another_path(cli: Cli, project: Path) -> None:
    fill(project, kinds=["craft"])
    whole = (project / CRAFT).read_bytes()
    (project / CRAFT).write_bytes(whole[:-20])
    printed = cli.json("doctor", CRAFT, "-o", "out.json")
    assert printed["case"]["written"] == ["out.json"] and printed["case"]["lost"] is not None
    assert json.loads((project / "out.json").read_text())["goal"] == "Add login"
    assert (project / CRAFT).read_bytes() == whole[:-20]
    assert cli("doctor", CRAFT, "-o", "out.json").code == 2
    (project / CRAFT).write_bytes(whole)
    assert "readable" in cli.ok("doctor", CRAFT).out


def test_recovery_that_needs_a_choice_shows_how_to_choose(cli: Cli, project: Path) -> None:
    fill(project, kinds=["orchestrator"])
    path = project / ORCHESTRATOR
    path.write_text(path.read_text()[:300])
    answer = cli("doctor", ORCHESTRATOR, "-o", "out.json")
    assert answer.code == 4 and "→ add --choose; the choices: forestay doctor" in answer.err
    offered = cli("doctor", ORCHESTRATOR, "--choose", "manual").out
    assert f"forestay doctor {ORCHESTRATOR} --fix --choose manual\n" in offered
    cli.ok("doctor", ORCHESTRATOR, "-o", "out.json", "--choose", "manual")


# -- essays ------------------------------------------------------------------------------------


ESSAY_ID = "essay-0a1b2c3d-0000-4000-8000-00000000000{}"


def test_essay_id_belongs_to_only_one_session(cli: Cli) -> None:
    one, two = (ESSAY_ID.format(n) for n in (1, 2))
    cli.ok("start", "On cats", "--id", "cats", "--bind", f"essay:{one}")
    answer = cli("start", "On dogs", "--id", "dogs", "--bind", f"essay:{one}")
    assert answer.code == 4 and "it belongs to session cats" in answer.err
    assert len(cli.json("list")["sessions"]) == 1
    cli.ok("start", "On dogs", "--id", "dogs", "--bind", f"essay:{two}")
    for more in ([], ["--root", "here"]):
        answer = cli("files", "bind", f"essay:{one}", *more)
        assert answer.code == 4 and "→ forestay resume cats" in answer.err
    assert len(cli.json("essay", "list")["essays"]) == 2


def test_id_of_an_unadopted_essay_is_refused_for_a_new_session(cli: Cli, project: Path) -> None:
    folder = essay_in_tmp(project)
    answer = cli("start", "On cats", "--bind", f"essay:{IDS['essay']}")
    assert answer.code == 4 and f"→ forestay adopt {folder}" in answer.err
    assert cli.json("list")["sessions"] == []


def test_essay_bound_by_its_id_uses_its_present_or_former_folder(cli: Cli) -> None:
    one, two = (f"essay:{ESSAY_ID.format(n)}" for n in (1, 2))

    def add(id: str) -> str:
        return str(cli.json("files", "bind", id)["path"])

    cli.ok("start", "On cats", "--bind", one)
    first = add(one)
    assert [b["path"] for b in cli.json("files")["formats"]] == [first]
    cli.ok("files", "unbind", "essay")
    second = add(two)
    assert second != first
    assert add(one) == first


def test_essay_is_one_line_of_the_list_for_any_folder_name(cli: Cli, project: Path) -> None:
    essay_in_tmp(project, "essay-pipeline-1 -- Stage 4\n2. essay-pipeline-2")
    assert len(cli.ok("essay", "list").out.splitlines()) == 2


@pytest.mark.req("S3-120", "S3-121", "S3-122")
def test_essay_list_has_the_specified_text(cli: Cli, project: Path) -> None:
    assert cli.ok("essay", "list").out == "No sessions found.\n"
    begin = 'forestay start "GOAL" --workflow essay --bind essay'
    reported = cli.ok("essay", "list", "--no-color", terminal=True).out
    assert reported.splitlines()[1] == f"  start one: {begin}"
    essay_in_tmp(project)
    essay_in_tmp(project, "essay-pipeline-20260301-090000")
    lines = cli.ok("essay", "list").out.splitlines()
    assert lines[0] == "Sessions found:"
    assert lines[1].startswith("1. essay-pipeline-20260301-090000 -- Stage 1 -- Last active: ")
    assert lines[2].startswith("2. essay-pipeline-20260214-143022 -- Stage 1 -- Last active: ")
    assert lines[1].endswith(" ago")


@pytest.mark.req("S3-123")
def test_essay_adopted_in_place_is_listed(cli: Cli, project: Path) -> None:
    folder = project / "essay-pipeline-20260214-143022"
    essay_in_tmp(project).rename(folder)
    assert cli.ok("essay", "list").out == "No sessions found.\n"
    cli.ok("adopt", str(folder))
    assert [one["path"] for one in cli.json("essay", "list")["essays"]] == [str(folder)]
    assert cli.ok("essay", "resume", "1").out.startswith("Resuming at Stage 1.")


@pytest.mark.req("S3-123", "S3-124", "S3-125", "S3-126")
def test_selected_essay_is_loaded_validated_and_resumed(cli: Cli, project: Path) -> None:
    folder = essay_in_tmp(project)
    (folder / "session-state.yaml").write_text("stages: [")
    cli.ok("doctor", str(folder), "--fix", "--choose", "stage-2")
    answer = cli.ok("essay", "resume", "1")
    assert answer.out.startswith("Resuming at Stage 2. Here's where you left off: ")
    session = cli.json("status")["session"]
    cli.ok("pause")
    state = folder / "session-state.yaml"
    assert 'status: "paused"' in state.read_text()
    assert cli.json("resume")["summary"].startswith("Resuming at Stage 2.")
    assert "current_stage: 2" in state.read_text()
    assert 'status: "in_progress"' in state.read_text()
    assert cli.json("status")["session"] == session


@pytest.mark.req("S3-124")
def test_unknown_number_or_name_of_an_essay_is_reported(cli: Cli) -> None:
    for number in range(2):
        cli.start(f"Essay {number}", "--bind", "essay")
    for off in ("0", "9", "20", "nope"):
        refused = cli("essay", "resume", off)
        assert refused.code == 3 and f"error: there is no essay {off}\n" in refused.err
    assert "there are 2 in the list" in cli("essay", "resume", "3").err
    assert (
        "2 essays have names that contain essay-pipeline"
        in cli("essay", "resume", "essay-pipeline").err
    )


def test_essay_resume_asks_about_a_state_that_contradicts_its_files(
    cli: Cli, project: Path
) -> None:
    folder = essay_in_tmp(project)
    state = folder / "session-state.yaml"
    text = state.read_text()
    at = text.index("stage_1:")
    changed = text[at:].replace('"not_started"', '"completed"', 1)
    changed = changed.replace("artifact: null", 'artifact: "missing.md"', 1)
    state.write_text(text[:at] + changed)
    answer = cli("essay", "resume", "1")
    assert answer.code == 5 and "How do you want to proceed?" in answer.out
    assert cli.json("list", "--all")["sessions"] == []
    cli.ok("essay", "resume", "1", "--anyway")


def test_essay_with_copies_is_resumed_and_a_copy_is_refused(cli: Cli, project: Path) -> None:
    folder = essay_in_tmp(project)
    shutil.copytree(folder, folder.with_name("essay-pipeline-20250101-000000"))
    shutil.copytree(folder, folder / "old")
    answer = cli.ok("essay", "resume", "1")
    assert "Resuming at Stage 1" in answer.out and "readable" in cli.ok("doctor", str(folder)).out
    cli.ok("pause")
    answer = cli("essay", "resume", "2")
    assert answer.code == 4 and "has the same id and other content" in answer.err


def test_resuming_an_unreadable_essay_exits_5_and_the_list_marks_it(
    cli: Cli, project: Path
) -> None:
    folder = essay_in_tmp(project)
    (folder / "session-state.yaml").write_text("stages: [")
    answer = cli("essay", "resume", "1")
    assert answer.code == 5
    assert "Session state could not be automatically recovered." in answer.out
    assert "State unreadable" in cli.ok("essay", "list").out
    assert cli("essay", "resume", "7").code == 3


@pytest.mark.req("S3-116", "S3-117", "S3-118", "S3-119")
def test_pausing_an_essay_saves_its_work_first_and_reports_its_state(
    cli: Cli, project: Path, home: Path
) -> None:
    cli.ok("start", "On cats", "--bind", "essay")
    (binding,) = cli.json("files")["formats"]
    folder = Path(binding["path"]).parent
    assert folder.parent == home / "essays"
    assert folder.name.startswith("essay-pipeline-")
    answer = cli.ok("pause", "--save", "stage-4-draft.md=-", source="First words.\n")
    message = "Session paused at Stage 1. To resume, invoke essay-pipeline and select this session."
    assert message in answer.out
    assert (folder / "stage-4-draft.md").read_text() == "First words.\n"
    assert 'status: "paused"' in (folder / "session-state.yaml").read_text()


@pytest.mark.req("S3-116", "S3-117")
def test_session_is_not_paused_if_its_work_cannot_be_saved(cli: Cli, project: Path) -> None:
    cli.ok("start", "On cats", "--bind", "essay")
    (binding,) = cli.json("files")["formats"]
    for name in ("../escape.md", "session-state.yaml", ".hidden.md", "a/b.md", "x\x1b.md"):
        assert cli("pause", "--save", f"{name}=text").code == 2
    (Path(binding["path"]).parent / "stage-4-draft.md").mkdir()
    assert cli("pause", "--save", "stage-4-draft.md=text").code != 0
    assert cli.json("status")["status"] == "active"
    cli.start("Another")
    assert cli("pause", "--save", "stage-4-draft.md=text").code == 4


@pytest.mark.req("S3-116", "S3-119")
@pytest.mark.req("S3-132")
@pytest.mark.parametrize(
    "given, printed",
    [
        (["stage-4-draft.md=new", "stage-4-draft.md=newer"], "is named twice"),
        (["stage-4-draft.v1.md=new"], "not an older version"),
    ],
)
def test_unfinished_work_named_twice_or_as_an_older_version_is_refused(
    cli: Cli, given: list[str], printed: str
) -> None:
    cli.ok("start", "On cats", "--bind", "essay")
    folder = place_of(cli).parent
    (folder / "stage-4-draft.v1.md").write_text("old")
    answer = cli("pause", *(part for one in given for part in ("--save", one)))
    assert answer.code == 2 and printed in answer.err
    assert [path.read_text() for path in folder.glob("*.md")] == ["old"]
    assert cli.json("status")["status"] == "active"


def test_unfinished_work_for_a_missing_folder_is_stored_and_reported(cli: Cli) -> None:
    cli.ok("start", "On cats", "--bind", "essay")
    folder = place_of(cli).parent
    folder.rename(folder.with_name("elsewhere"))
    answer = cli.ok("pause", "--save", "stage-4-draft.md=new")
    assert "was missing and is created again" in answer.err
    assert (folder / "stage-4-draft.md").read_text() == "new"


def test_paused_essay_accepts_unfinished_work_later(cli: Cli, project: Path) -> None:
    cli.ok("start", "On cats", "--bind", "essay")
    (binding,) = cli.json("files")["formats"]
    draft = Path(binding["path"]).parent / "stage-4-draft.md"
    cli.ok("pause")
    for _ in range(2):
        answer = cli.ok("pause", "--save", f"{draft.name}=First words.", "--key", "late")
        assert "Session paused at Stage 1." in answer.out
    assert draft.read_text() == "First words."
    assert cli.json("status")["status"] == "paused"
    assert f"unfinished work is in {draft.name}" in cli.ok("log").out


@pytest.mark.req("S3-116", "S3-118")
def test_nothing_is_saved_for_an_essay_that_cannot_be_paused(cli: Cli, project: Path) -> None:
    cli.ok("start", "On cats", "--bind", "essay", "--id", "cats")
    (binding,) = cli.json("files")["formats"]
    cli.ok("session", "abandon", "--because", "no time")
    late = cli("pause", "--save", "stage-4-draft.md=First words.", "--session", "cats")
    assert late.code == 4
    assert not (Path(binding["path"]).parent / "stage-4-draft.md").exists()


def test_replaced_unfinished_work_is_preserved_as_a_version(cli: Cli, project: Path) -> None:
    cli.ok("start", "On cats", "--bind", "essay")
    (binding,) = cli.json("files")["formats"]
    folder = Path(binding["path"]).parent
    for text in ("One.", "One.\n\nTwo.", "Something else."):
        cli.ok("pause", "--save", f"stage-4-draft.md={text}")
        cli.ok("resume")
    assert (folder / "stage-4-draft.md").read_text() == "Something else."
    assert (folder / "stage-4-draft.v1.md").read_text() == "One.\n\nTwo."
    assert len(list(folder.glob("stage-4*"))) == 2


# -- the orchestrator --------------------------------------------------------------------------


@pytest.mark.req("S4-1")
def test_session_can_be_saved_loaded_resumed_and_found_in_the_history(
    cli: Cli, project: Path
) -> None:
    cli.ok("files", "orchestrator", "new", "Add login")
    id = json.loads((project / ORCHESTRATOR).read_text())["session_id"]
    cli.ok("pause")
    cli.ok("files", "orchestrator", "save")
    assert json.loads((project / ORCHESTRATOR).read_text())["status"] == "paused"
    assert "**Goal**: Add login" in cli.ok("files", "orchestrator", "continue").out
    assert json.loads((project / ORCHESTRATOR).read_text())["status"] == "in_progress"
    cli.ok("files", "orchestrator", "abort")
    assert (
        not (project / ORCHESTRATOR).exists()
        and id in cli.ok("files", "orchestrator", "history").out
    )


@pytest.mark.req("S4-86", "S4-45")
def test_continue_without_a_session_is_reported(cli: Cli) -> None:
    answer = cli("files", "orchestrator", "continue")
    assert (answer.code, answer.out) == (3, "No session to resume\n")
    assert cli("--json", "files", "orchestrator", "continue").json["kind"] == "none"


@pytest.mark.req("S4-44", "S4-47", "S4-85", "X4-1")
def test_continue_adopts_the_current_file_and_resumes_it(cli: Cli, project: Path) -> None:
    fill(project, kinds=["orchestrator"])
    answer = cli.ok("files", "orchestrator", "continue")
    assert "## 🔄 RESUMING SESSION" in answer.out and "2026-02-14-abc123" in answer.out
    assert cli.json("status")["session"] == "2026-02-14-abc123"
    assert json.loads((project / ORCHESTRATOR).read_text())["session_id"] == "2026-02-14-abc123"
    answer = cli.ok("files", "orchestrator", "continue", "--style", "forestay")
    assert "\nSession 2026-02-14-abc123: active" in answer.out and "RESUMING" not in answer.out


@pytest.mark.req("S4-46")
def test_file_of_another_version_is_refused_with_the_reason_and_not_changed(
    cli: Cli, project: Path
) -> None:
    fill(project, kinds=["orchestrator"])
    path = project / ORCHESTRATOR
    path.write_text(path.read_text().replace('"1.0"', '"2.0"', 1))
    before = path.read_bytes()
    answer = cli("files", "orchestrator", "continue")
    assert answer.code == 6 and "version 2.0" in answer.err
    assert path.read_bytes() == before


def test_corrupted_orchestrator_file_is_answered_with_the_recovery_menu(
    cli: Cli, project: Path
) -> None:
    fill(project, kinds=["orchestrator"])
    (project / ORCHESTRATOR).write_text("{")
    for verb in (["continue"], ["new", "Another"], ["abort"]):
        answer = cli("files", "orchestrator", *verb)
        assert answer.code == 5 and "## ⚠️ SESSION RECOVERY" in answer.out
    assert (project / ORCHESTRATOR).read_text() == "{"


@pytest.mark.req("S4-48", "S4-49", "S4-50", "S4-52", "S4-53", "X4-1")
@pytest.mark.parametrize("ours", [False, True])
def test_orchestrator_new_archives_the_current_session(cli: Cli, project: Path, ours: bool) -> None:
    fill(project, kinds=["orchestrator"])
    before = (project / ORCHESTRATOR).read_bytes()
    if ours:
        cli.ok("adopt")
    printed = cli.json("files", "orchestrator", "new", "Another goal")
    archive = project / ".claude/orchestrator-history/2026-02-14-abc123.json"
    assert (printed["archive"], printed["archived"]) == (str(archive), False)
    assert archive.read_bytes() == before
    assert json.loads((project / ORCHESTRATOR).read_text())["goal"] == "Another goal"


def test_orchestrator_new_with_a_refused_goal_archives_nothing(cli: Cli, project: Path) -> None:
    fill(project, kinds=["orchestrator"])
    assert cli("files", "orchestrator", "new", " ").code == 2
    assert (project / ORCHESTRATOR).exists()


@pytest.mark.req("S4-44", "S4-49", "X4-1")
@pytest.mark.parametrize("verb", [["continue"], ["abort"], ["new", "Third"]])
def test_current_orchestrator_session_is_the_one_in_the_file(
    cli: Cli, project: Path, verb: list[str]
) -> None:
    """Replace our session file by one of another program."""
    cli.ok("files", "orchestrator", "new", "Ours")
    ours = json.loads((project / ORCHESTRATOR).read_text())["session_id"]
    (project / ORCHESTRATOR).unlink()
    fill(project, kinds=["orchestrator"])
    before = (project / ORCHESTRATOR).read_bytes()
    cli.ok("files", "orchestrator", *verb)
    rows = {row["id"]: row for row in cli.json("files", "orchestrator", "history")["history"]}
    assert rows[ours]["status"] == "in_progress", "ours stays in progress, in the archive"
    if verb == ["continue"]:
        assert cli.json("status")["session"] == "2026-02-14-abc123"
    else:
        kept = Path(rows["2026-02-14-abc123"]["path"])
        assert (kept.read_bytes() == before) is (verb[0] == "new")


@pytest.mark.req("S4-54", "S4-55", "S4-56", "S4-57", "X4-1")
def test_history_lists_archived_sessions_newest_first(cli: Cli, project: Path) -> None:
    assert cli.json("files", "orchestrator", "history")["history"] == []
    fill(project, kinds=["orchestrator"])
    folder = project / ".claude" / "orchestrator-history"
    folder.mkdir()
    text = (project / ORCHESTRATOR).read_text()
    for day in range(1, 13):
        id = f"2026-01-{day:02}-abc123"
        (folder / f"{id}.json").write_text(text.replace("2026-02-14-abc123", id))
    (folder / "2026-01-13-broken.json").write_text("{")
    rows = cli.json("files", "orchestrator", "history")["history"]
    assert len(rows) == 10
    assert [row["id"] for row in rows[:2]] == ["2026-01-13-broken", "2026-01-12-abc123"]
    assert {"id", "goal", "status", "created"} <= rows[1].keys()
    assert len(cli.json("files", "orchestrator", "history", "--limit", "3")["history"]) == 3
    reported = cli.ok("files", "orchestrator", "history", terminal=True).out
    assert (
        "2026-01-13-broken\x1b[0m  damaged" in reported or "2026-01-13-broken  damaged" in reported
    )
    doctor = "forestay doctor .claude/orchestrator-history/2026-01-13-broken.json"
    assert doctor in reported, "whole, so that it can be typed"
    broken = cli("files", "orchestrator", "history", "1")
    assert broken.code == 5 and doctor in broken.out and "adopt" not in broken.out
    assert (
        "no session is archived"
        not in cli.ok("files", "orchestrator", "history", "--limit", "0").out
    )
    one = cli.json("files", "orchestrator", "history", "2")
    assert (one["id"], one["goal"], one["complete"]) == ("2026-01-12-abc123", "Add login", False)
    reported = cli.ok("files", "orchestrator", "history", "2026-01-03").out
    assert "  goal     Add login\n" in reported and "  file     .claude/orchestrator-h" in reported
    for off in ("99", "0"):
        assert (
            f"no archived session is number {off}"
            in cli("files", "orchestrator", "history", off).err
        )
    assert "several archived" in cli("files", "orchestrator", "history", "2026-01").err


@pytest.mark.req("S4-56", "S4-91")
def test_history_is_in_the_specified_order_of_file_names(cli: Cli, project: Path) -> None:
    fill(project, kinds=["orchestrator"])
    folder = project / ".claude" / "orchestrator-history"
    folder.mkdir()
    value = json.loads((project / ORCHESTRATOR).read_text())
    for hour, end in enumerate(("cccccc", "aaaaaa", "bbbbbb")):
        id = f"2026-01-31-{end}"
        new = {**value, "session_id": id, "created": f"2026-01-31T0{hour}:00:00Z"}
        (folder / f"{id}.json").write_text(json.dumps(new))
    (folder / "2026-01-30-dddddd.json").write_text("{")
    rows = cli.json("files", "orchestrator", "history", "--limit", "2")["history"]
    assert [row["id"][-6:] for row in rows] == ["cccccc", "bbbbbb"]
    assert [row["id"] for row in compat.list_history(2, project)] == [row["id"] for row in rows]
    assert cli.json("files", "orchestrator", "history", "--limit", "0")["history"] == []


@pytest.mark.req("S4-40", "S4-51", "S4-52", "X4-1")
def test_abort_saves_the_state_and_archives_it(cli: Cli, project: Path) -> None:
    fill(project, kinds=["orchestrator"])
    cli.ok("files", "orchestrator", "abort", "--because", "no time")
    archive = project / ".claude/orchestrator-history/2026-02-14-abc123.json"
    assert json.loads(archive.read_text())["status"] == "aborted"
    assert '\n  "session_id"' in archive.read_text()
    assert not (project / ORCHESTRATOR).exists()
    assert cli("files", "orchestrator", "continue").code == 3


@pytest.mark.req("S4-76", "S4-42", "S4-43", "X4-1")
def test_save_writes_the_file_now(cli: Cli, project: Path) -> None:
    cli.ok("files", "orchestrator", "new", "Add login")
    (project / ORCHESTRATOR).unlink()
    assert ORCHESTRATOR in cli.ok("files", "orchestrator", "save").out
    assert json.loads((project / ORCHESTRATOR).read_text())["goal"] == "Add login"
    assert '\n  "goal"' in (project / ORCHESTRATOR).read_text()


def test_adopting_a_faulty_file_counts_the_findings_and_suggests_the_check(
    cli: Cli, project: Path
) -> None:
    fill(project, kinds=["orchestrator"])
    path = project / ORCHESTRATOR
    path.write_text(json.dumps(json.loads(path.read_text()) | {"created": "?", "agents": "none"}))
    reported = cli.ok("adopt").out
    assert "2 errors:" in reported and f"forestay files check {ORCHESTRATOR}" in reported
    assert "error" not in cli.ok("adopt").out


def test_session_with_files_in_several_formats_is_counted_once(cli: Cli) -> None:
    cli.ok("start", "one", "--bind", "craft", "--bind", "praxis", "--bind", "ai-session")
    assert "1 session in 3 places: 3 known" in cli.ok("adopt").out
    cli.ok("start", "another", "--bind", "craft")
    assert "2 sessions in 4 places: 4 known" in cli.ok("adopt").out


def test_save_needs_an_orchestrator_session(cli: Cli, project: Path) -> None:
    cli.ok("start", "without its files", "--bind", "craft")
    refused = cli("files", "orchestrator", "save")
    assert refused.code == 3 and "forestay files bind orchestrator" in refused.err
    plain = cli.json("status")["session"]
    begun = cli.json("start", "Add login", "--bind", "orchestrator")["session"]
    cli.ok("session", "use", plain)
    (project / ORCHESTRATOR).unlink()
    assert cli.json("files", "orchestrator", "save")["session"] == begun
    assert json.loads((project / ORCHESTRATOR).read_text())["goal"] == "Add login"
    assert cli("files", "orchestrator", "save", "--session", plain).code == 3


@pytest.mark.req("S4-34", "X4-3")
def test_context_share_uses_the_configured_window(cli: Cli, project: Path) -> None:
    cli.ok("config", "context_window", "200000")
    cli.ok("start", "Add login", "--bind", "orchestrator")
    cli.ok("record", "tokens", "50000")
    usage = json.loads((project / ORCHESTRATOR).read_text())["context_usage"]
    assert usage["percentage"] == 25 and "(25%)" in cli.ok("brief", "--style", "orchestrator").out
    assert cli.json("files", "check", ORCHESTRATOR)["findings"] == []


@pytest.mark.req("S2-19", "S4-23", "S4-25")
def test_files_have_agents_without_result_and_failed_ones_as_specified(
    cli: Cli, project: Path
) -> None:
    cli.ok("start", "Add login", "--bind", "orchestrator", "--bind", "craft")
    for agent, *words in (["a-1", "done"], ["b-1", "fail", "--error", "no"], ["c-1", "timeout"]):
        cli.ok("agent", "start", agent)
        cli.ok("agent", words[0], agent, *words[1:])
    first = json.loads((project / ORCHESTRATOR).read_text())["agents"][0]
    assert first["result_summary"] == "" and "progress" not in first
    reported = cli.json("files", "check", ".", "--strict")["sessions"]
    assert [each["findings"] for each in reported] == [[], []]
    assert [round(each["progress"], 4) for each in reported] == [0.3333, 0.3333]
    assert cli.json("status")["progress"] == 0.3333


@pytest.mark.req("S4-89", "S4-90")
def test_orchestrator_session_is_archived_when_complete_and_not_when_paused(
    cli: Cli, project: Path
) -> None:
    cli.ok("files", "orchestrator", "new", "Add login")
    cli.ok("pause")
    assert json.loads((project / ORCHESTRATOR).read_text())["status"] == "paused"
    cli.ok("resume")
    cli.ok("complete")
    assert not (project / ORCHESTRATOR).exists()
    (row,) = cli.json("files", "orchestrator", "history")["history"]
    assert row["status"] == "complete"


def test_failed_file_commands_suggest_the_next_command(cli: Cli, project: Path) -> None:
    cli.start()
    answer = cli("files", "unbind", "craft", terminal=True)
    assert answer.code == 3 and "forestay files" in answer.out
    assert "forestay files update --task ID" in cli("files", "update").err
    (project / "state.yaml").write_text("feature_id: [x")
    answer = cli("files", "check", "state.yaml", terminal=True)
    assert answer.code == 5 and "forestay doctor state.yaml" in answer.out
    missing = cli("files", "check", "nowhere")
    assert missing.code == 2 and "no such file" in missing.err and "check the path" in missing.err


# -- which session -----------------------------------------------------------------------------


CRAFT_WORDS = '"status": "completed"', '"status": "active"'
PRAXIS_WORDS = '"completed": true', '"completed": false'


@pytest.mark.parametrize("kind, words", [("craft", CRAFT_WORDS), ("praxis", PRAXIS_WORDS)])
def test_session_reopened_by_its_file_stays_current(
    cli: Cli, project: Path, kind: str, words: tuple[str, str]
) -> None:
    id = cli("--json", "start", "g", "--bind", kind).json["session"]
    cli("complete")
    assert cli("note", "too late").code != 0
    place = Path(cli("--json", "files").json["formats"][0]["path"])
    place.write_text(place.read_text().replace(*words))
    assert cli("--json", "status").json["status"] == "active"
    noted = cli("--json", "note", "in time")
    assert (noted.code, noted.json["session"], noted.json["status"]) == (0, id, "active")


def test_convert_lists_what_the_other_format_has_no_exact_field_for(cli: Cli) -> None:
    cli.start("Add login", "--bind", "craft")
    (kept,) = cli.json("files")["formats"]
    printed = " ".join(cli.ok("files", "convert", kept["path"], "--to", "orchestrator").out.split())
    for field in ("progress", "began_at", "updated_at"):
        line = f"orchestrator has no exact field for {field}: it is stored under `forestay`"
        assert line in printed


# -- edits of other programs are shown -----------------------------------------------------------


def place_of(cli: Cli) -> Path:
    return Path(cli.json("files")["formats"][0]["path"])


def test_showing_an_essay_shows_edits_of_others_and_records_nothing(
    cli: Cli,
) -> None:
    cli.ok("start", "On cats", "--bind", "essay")
    path = place_of(cli)
    value = yaml.safe_load(path.read_text())
    stages = value["stages"]
    for stage in ("stage_1", "stage_2"):
        stages[stage].update(status="completed", completed_at="2026-02-14T10:00:00Z")
    stages["stage_3"]["sections"] = [{"section_index": 1, "status": "in_progress"}]
    value["deferred_verifications"] = [{"claim_text": "Cats purr", "reason": "timeout"}]
    path.write_text(yaml.safe_dump(value))
    path.with_name("stage-1-thesis.md").write_text("Cats.")
    edited, seq = path.read_bytes(), cli.json("status")["seq"]
    assert "Cats purr" in cli.ok("essay", "claim").out
    assert "in progress" in cli.ok("essay", "section").out
    assert [task["status"] for task in cli.json("task")["tasks"]][:2] == ["done", "done"]
    assert cli.ok("essay", "show").out.endswith("Cats.\n")
    assert "stage-2" in cli.ok("revisit", "stage-1").out
    assert (cli.json("status")["seq"], path.read_bytes()) == (seq, edited)


def test_listing_agents_shows_edits_of_others_and_records_nothing(cli: Cli) -> None:
    cli.ok("start", "Build it", "--bind", "craft")
    cli.ok("agent", "start", "code-1", "--type", "feature-dev")
    path = place_of(cli)
    path.write_text(path.read_text().replace('"running"', '"completed"'))
    seq = cli.json("status")["seq"]
    assert cli.json("agent")["agents"][0]["status"] == "done"
    assert cli.json("status")["seq"] == seq


def test_reading_a_gate_does_not_record_edits_of_others(cli: Cli) -> None:
    cli.ok("start", "Build it", "--workflow", "spec-execution", "--bind", "praxis")
    path, seq = place_of(cli), cli.json("status")["seq"]
    value = json.loads(path.read_text())
    value["lifecycle"].update(paused=True, paused_at="2026-02-14T10:00:00+00:00")
    path.write_text(json.dumps(value, indent=2))
    assert cli.json("status")["status"] == "paused"
    cli("phase", "gate", "0")
    assert cli.json("status")["seq"] == seq


def test_file_left_in_both_places_by_a_crash_is_archived_once(cli: Cli, project: Path) -> None:
    fill(project, kinds=["orchestrator"])
    current = project / ORCHESTRATOR
    history = current.parent / "orchestrator-history"
    history.mkdir()
    (history / "2026-02-14-abc123.json").write_bytes(current.read_bytes())
    cli.ok("files", "orchestrator", "new", "Another")
    assert [path.name for path in history.iterdir()] == ["2026-02-14-abc123.json"]


def test_refused_session_does_not_move_a_file_outside_the_project(
    cli: Cli, project: Path, tmp_path: Path
) -> None:
    fill(project, kinds=["orchestrator"])
    (project / ".claude").rename(tmp_path / "elsewhere")
    (project / ".claude").symlink_to(tmp_path / "elsewhere")
    before = snapshot(tmp_path / "elsewhere")
    answer = cli("files", "orchestrator", "new", "Another")
    assert answer.code == 4 and "leads out of the project" in answer.err, answer
    assert snapshot(tmp_path / "elsewhere") == before
