"""Paths and suggested commands: relative, complete, and working when pasted."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from forestay.cli.suggestions import shorten_paths
from forestay.cli.terminal import Screen
from tests.cli.support import Answer, Cli, Terminal
from tests.format_helpers import CRAFT, MAIN, ORCHESTRATOR, STATE, fill

ODD = ["plain", "with blank", "it's $HOME", "-dash", "日本 🎉", 'a"b', "#5"]


@pytest.fixture(params=ODD)
def odd(project: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """Enter a folder of the project whose name must be quoted in a shell."""
    folder = project / str(request.param)
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def lines_to_type(answer: Answer) -> list[str]:
    """Return the suggested commands, except those with a placeholder in capitals."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", f"{answer.out}\n{answer.err}")
    found = re.findall(r"(?m)(?:→ |: |^ +)(forestay [a-z].*?)(?= · |; |$)", plain)
    return [line for line in found if not re.search(r"\b(OUT|NAME|PATH|GOAL)\b|…", line)]


def test_paths_in_this_folder_are_shown_relative_to_it(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text, reported in (
        (f"{project}/a.json is missing", "a.json is missing"),
        (f"ls '{project}/a b.json'", "ls 'a b.json'"),
        (f"rm {project}/-f", "rm ./-f"),
        (f"rm '{project}/- f'", "rm './- f'"),
        (f"{project} is not one session", f"{project} is not one session"),
        (f"/backup{project}/a.json", f"/backup{project}/a.json"),
        (f"{project}-old/a.json", f"{project}-old/a.json"),
    ):
        assert shorten_paths(text) == reported
    monkeypatch.chdir("/")
    assert shorten_paths(f"{project}/a.json") == f"{project}/a.json"


@pytest.mark.parametrize("name", ["a\nb", "\x1b[31m'q'", "tab\tand \\", "\u202ertl", "-\n"])
def test_invisible_characters_in_a_name_are_quoted_for_the_shell(
    cli: Cli, project: Path, name: str
) -> None:
    fill(project, kinds=["orchestrator"])
    (project / name).write_bytes((project / ORCHESTRATOR).read_bytes()[:200])
    (line,) = lines_to_type(cli("files", "check", f"./{name}", terminal=True))
    typed = f"python3 -c 'import sys; print(ascii(sys.argv[2]))' {line.partition(' ')[2]}"
    done = subprocess.run(["bash", "-c", typed], capture_output=True, text=True, check=True)
    assert (project / ast.literal_eval(done.stdout)) == project / name


@pytest.mark.parametrize("below", ["", "sub"])
@pytest.mark.parametrize("kind", MAIN)
def test_messages_about_damaged_files_use_relative_paths(
    cli: Cli, project: Path, kind: str, below: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(project, kinds=[kind])
    (project / "sub").mkdir()
    monkeypatch.chdir(project / below)
    main = f"../{MAIN[kind]}" if below else MAIN[kind]
    path = project / MAIN[kind]
    path.write_bytes(path.read_bytes()[:60])
    for line in (
        f"doctor {main}",
        "doctor",
        *([] if below else [f"files convert {main} --to praxis"]),
    ):
        printed = cli(*line.split(), terminal=True)
        assert str(project) not in printed.out + printed.err, printed


def test_json_has_absolute_paths(cli: Cli, project: Path) -> None:
    fill(project, kinds=["orchestrator"])
    (project / ORCHESTRATOR).write_text("{")
    case = cli("--json", "doctor", ORCHESTRATOR).json["case"]
    assert case["path"] == str(project / ORCHESTRATOR) and case["what"].startswith(str(project))
    refused = cli("--json", "files", "convert", ORCHESTRATOR, "--to", "craft").json["error"]
    assert refused["what"].startswith(str(project))


@pytest.mark.parametrize("kind", ["craft", "orchestrator", "ai-session"])
def test_every_suggested_command_works_unchanged_in_any_folder(
    cli: Cli, odd: Path, kind: str
) -> None:
    fill(odd, kinds=[kind])
    path = odd / MAIN[kind]
    torn = path.read_bytes()[:200]
    path.write_bytes(torn)
    tried = 0
    for argv in (["files", "check", "."], ["doctor", MAIN[kind]], ["doctor"], ["adopt", "."]):
        for line in lines_to_type(cli(*argv, terminal=True)):
            printed = cli(*shlex.split(line)[1:])
            assert printed.code in (0, 5), (line, printed)
            tried += 1
            path.write_bytes(torn)  # otherwise the other choices have nothing to do
    assert tried >= 2


@pytest.mark.parametrize("kind", ["craft", "orchestrator", "ai-session"])
def test_suggested_command_repairs_the_files_of_a_session(cli: Cli, odd: Path, kind: str) -> None:
    id = ":add-login-2026-02-14" if kind == "ai-session" else ""
    cli.start("Add login", "--bind", f"{kind}{id}")
    path = Path(cli.json("files")["formats"][0]["path"])
    good = path.read_bytes()
    path.write_bytes(good[:40])
    for argv in (["status"], ["files"]):
        assert lines_to_type(cli(*argv, terminal=True)) == ["forestay doctor"]
    (fix,) = set(lines_to_type(cli("doctor", str(path), terminal=True)))
    cli.ok(*shlex.split(fix)[1:])
    assert path.read_bytes() == good


def test_doctor_repairs_files_only_after_a_merge_is_finished(cli: Cli, project: Path) -> None:
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    cli.start("Add login", "--bind", "craft", "--bind", "orchestrator")
    (project / ORCHESTRATOR).write_text("{")
    (project / ".git" / "MERGE_HEAD").touch()
    reported = cli("doctor", "--fix", "--no-color", terminal=True).out
    assert "git is in the middle of a merge\n" in reported
    assert "→ finish that, then: forestay doctor --fix\n" in reported
    (project / ".git" / "MERGE_HEAD").unlink()
    cli.ok("doctor", "--fix")
    assert '"goal": "Add login"' in (project / ORCHESTRATOR).read_text()


def test_warning_about_unwritten_files_suggests_a_remedy(cli: Cli, project: Path) -> None:
    cli.start("Add login", "--bind", "orchestrator")
    (project / ORCHESTRATOR).write_text("{")
    assert cli.ok("note", "hello").err.endswith("; to fix it: forestay doctor\n")


def test_legal_moves_are_suggested_for_the_refused_session(cli: Cli) -> None:
    over = cli.start("One", "--id", "over")
    cli.ok("complete")
    other = cli.start("Two")
    refused = cli("resume", over)
    assert refused.code == 4
    assert f'→ forestay --session {over} session reopen --because "…"' in refused.err
    assert refused.err.count("--session") == 1 and other not in refused.err
    hint = cli("--json", "resume", over).json["error"]["hint"]
    cli.ok(*shlex.split(hint)[1:])
    assert {one["status"] for one in cli.json("list")["sessions"]} == {"active"}


def test_suggested_commands_repeat_the_named_home(cli: Cli, project: Path, tmp_path: Path) -> None:
    fill(project, kinds=["craft"])
    (project / CRAFT).write_bytes((project / CRAFT).read_bytes()[:200])
    home = shlex.quote(str(tmp_path / "other home"))
    for argv in (["files", "check", "."], ["doctor", CRAFT], ["doctor"], ["adopt", "--dry-run"]):
        for line in lines_to_type(cli("--home", str(tmp_path / "other home"), *argv)):
            assert line.startswith(f"forestay --home {home} "), line


def test_suggested_command_resumes_the_session_that_has_the_files(cli: Cli) -> None:
    first = cli.start("One", "--bind", "ai-session:pay-2026-01-31")
    cli.start("Two")
    refused = cli("files", "bind", "ai-session:pay-2026-01-31")
    (line,) = lines_to_type(refused)
    assert refused.code == 4 and f"Session {first}: active" in cli.ok(*shlex.split(line)[1:]).out


def test_advice_for_files_in_the_way_works_unchanged(cli: Cli, odd: Path) -> None:
    fill(odd, kinds=["orchestrator"])
    (adopt,) = lines_to_type(cli("start", "One", "--bind", "orchestrator"))
    good = (odd / ORCHESTRATOR).read_bytes()
    (odd / ORCHESTRATOR).write_bytes(good[:200])
    (doctor,) = lines_to_type(cli("start", "One", "--bind", "orchestrator"))
    assert cli(*shlex.split(doctor)[1:]).code == 5 and doctor.startswith("forestay doctor ")
    (odd / ORCHESTRATOR).write_bytes(good)
    cli.ok(*shlex.split(adopt)[1:])


# -- check and doctor --------------------------------------------------------------------------


def test_doctor_is_suggested_only_for_unreadable_files(cli: Cli, project: Path) -> None:
    fill(project, kinds=["orchestrator"])
    path = project / ORCHESTRATOR
    good = path.read_text()
    path.write_text(good.replace('"status": "in_progress"', '"status": "odd"'))
    reported = cli("files", "check", ".", terminal=True)
    assert reported.code == 5 and "forestay doctor" not in reported.out
    assert "readable" in cli.ok("doctor", ORCHESTRATOR).out
    path.write_text(good[:200])
    assert "forestay doctor" in cli("files", "check", ".", terminal=True).out
    (project / "other.json").write_text('{"a": 1}')
    assert "forestay doctor" not in cli("files", "check", "other.json", terminal=True).out


def test_doctor_does_not_report_possible_repairs_as_done(cli: Cli, project: Path) -> None:
    cli.start("Add login", "--bind", "orchestrator")
    path = project / ORCHESTRATOR
    path.write_text("{")
    reported = cli("doctor", ORCHESTRATOR)
    assert (
        reported.code == 5
        and "\nnothing is changed yet; afterwards: written again from the" in reported.out
    )
    assert path.read_text() == "{"
    assert "nothing is changed yet" not in cli.ok("doctor", ORCHESTRATOR, "--fix").out


def test_bound_file_is_recovered_only_in_place(cli: Cli, project: Path) -> None:
    session = cli.start("Add login", "--bind", "orchestrator")
    (project / ORCHESTRATOR).write_text("{")
    refused = cli("doctor", ORCHESTRATOR, "-o", "out.json")
    assert refused.code == 4 and not (project / "out.json").exists()
    assert f"it belongs to session {session}, which writes it in place" in refused.err
    (way,) = lines_to_type(refused)
    cli.ok(*shlex.split(way)[1:])


def test_choice_that_only_moves_a_file_away_refuses_an_output_path(cli: Cli, project: Path) -> None:
    fill(project, kinds=["orchestrator"])
    (project / ORCHESTRATOR).write_text("{")
    refused = cli("doctor", ORCHESTRATOR, "-o", "out.json", "--choose", "fresh")
    assert refused.code == 4 and "it would only be moved away" in refused.err
    (way,) = lines_to_type(refused)
    cli.ok(*shlex.split(way)[1:])
    assert not (project / ORCHESTRATOR).exists()


# -- adopt -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["craft", "orchestrator"])
def test_suggested_command_shows_the_omitted_findings_of_a_recovered_session(
    cli: Cli, project: Path, kind: str
) -> None:
    fill(project, kinds=[kind])
    path = project / MAIN[kind]
    path.write_bytes(path.read_bytes()[:300])
    (reported,) = cli.json("adopt", "--dry-run", MAIN[kind])["adopted"]
    (line,) = lines_to_type(cli.ok("adopt", "--dry-run", MAIN[kind], terminal=True))
    shown = cli(*shlex.split(line)[1:]).out
    assert len(reported["problems"]) > 6
    for problem in reported["problems"][6:]:
        assert re.sub(r"^(inferred|lost|\S+:\d+): ", "", problem) in shown


def rival(project: Path, path: Path) -> Path:
    """Write another file with the session's id and different content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = (project / ORCHESTRATOR).read_text()
    path.write_text(text.replace("Add login", "Add logout"))
    return path


def test_advice_for_a_loose_rival_file_makes_it_the_valid_one(cli: Cli, project: Path) -> None:
    fill(project, kinds=["orchestrator"])
    cli.ok("adopt", ORCHESTRATOR)
    path = rival(project, project / "loose.json")
    reported = cli("adopt", "loose.json")
    assert reported.code == 5 and f"{ORCHESTRATOR} has the same id" in reported.out
    assert "replace the others with them and adopt again" in reported.out
    path.rename(project / ORCHESTRATOR)
    cli.ok("adopt", ORCHESTRATOR)
    assert [one["goal"] for one in cli.json("list")["sessions"]] == ["Add logout"]


def test_advice_for_a_rival_in_a_standard_place_makes_it_the_valid_one(
    cli: Cli, project: Path
) -> None:
    fill(project, kinds=["orchestrator"])
    cli.ok("adopt", ORCHESTRATOR)
    path = rival(project, project / "other" / ORCHESTRATOR)
    assert "replace the others with them and adopt again" in cli("adopt", str(path)).out
    path.rename(project / ORCHESTRATOR)
    cli.ok("adopt", ORCHESTRATOR)
    assert [one["goal"] for one in cli.json("list")["sessions"]] == ["Add logout"]


def test_rival_of_a_session_whose_file_was_deleted_can_be_adopted_separately(
    cli: Cli, project: Path
) -> None:
    fill(project, kinds=["orchestrator"])
    path = rival(project, project / "a b.json")
    (project / ORCHESTRATOR).rename(project / "first.json")
    cli.ok("adopt", "first.json")
    (project / "first.json").unlink()
    reported = cli("adopt", "a b.json")
    assert (
        reported.code == 5
        and "session 2026-02-14-abc123, from another place, has the same id" in reported.out
    )
    convert, adopt = re.findall(
        r"forestay (files convert .*?|adopt OUT)(?=, then|$)", reported.out, re.M
    )
    for line in (convert, adopt):
        cli.ok(*shlex.split(line.replace(" ID ", " 2026-02-15-abc123 ").replace("OUT", "out.json")))
    assert {one["goal"] for one in cli.json("list")["sessions"]} == {"Add login", "Add logout"}
    assert path.exists()


def test_own_archived_session_is_not_suggested_for_adoption(cli: Cli, project: Path) -> None:
    ours = str(cli.json("files", "orchestrator", "new", "One")["session"])
    cli.ok("files", "orchestrator", "new", "Two")
    reported = cli.ok("files", "orchestrator", "history", "1", terminal=True)
    assert lines_to_type(reported) == [f"forestay brief {ours}"]
    fill(project / "other", kinds=["orchestrator"])
    (project / "other" / ORCHESTRATOR).rename(project / ".claude/orchestrator-history/a.json")
    (line,) = lines_to_type(cli.ok("files", "orchestrator", "history", "1", terminal=True))
    assert line == "forestay adopt .claude/orchestrator-history/a.json"


# -- long work ---------------------------------------------------------------------------------


def test_progress_of_a_check_is_shown_and_cleared_at_the_end(cli: Cli, project: Path) -> None:
    fill(project, kinds=["craft", "orchestrator"])
    reported = cli("files", "check", ".", terminal=True)
    assert "\r\x1b[K2 checked: .claude/orchestrator-session.json " in reported.err
    assert reported.err.endswith("\r\x1b[K\r") and "checked" not in reported.out
    assert cli("files", "check", ".").err == ""


def test_interrupt_clears_the_progress_line() -> None:
    for begun, left in ((True, "\r\x1b[K"), (False, "\n")):
        err = Terminal()
        screen = Screen(Terminal(), err, None)
        screen.progress("3 looked at")
        if not begun:
            screen.progress()
        shown = err.getvalue()
        screen.end_line()
        assert err.getvalue().removeprefix(shown) == left


# -- wrong arguments --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line", ["adopt", "doctor", "doctor --fix", "files cleanup --yes", "files live"]
)
def test_empty_path_is_refused(cli: Cli, project: Path, line: str) -> None:
    fill(project, kinds=["ai-session"])
    refused = cli(*line.split(), "")
    assert refused.code == 2 and "is empty\n  perhaps a shell variable is empty" in refused.err


CODES = {
    "files check good.json": 0,
    "files check good.json --strict": 0,
    "files check torn.json": 5,
    "files check note.txt": 5,
    "files check empty": 3,
    "files check nowhere": 2,
    "files check": 2,
    "files check --srtict good.json": 2,
    "adopt good.json": 0,
    "adopt torn.json": 0,
    "adopt empty": 0,
    "adopt note.txt": 5,
    "adopt nowhere": 2,
    "files convert good.json --to craft -o out.json": 0,
    "files convert good.json --to craft -o torn.json": 2,
    "files convert good.json": 2,
    "files convert torn.json --to craft": 5,
    "files convert note.txt --to craft": 2,
    "files convert empty --to craft": 2,
    "doctor good.json": 0,
    "doctor torn.json": 5,
    "doctor torn.json --fix": 4,
    "doctor torn.json --fix --choose fresh": 0,
    "doctor torn.json --choose nope": 2,
    "doctor note.txt": 2,
    "doctor nowhere": 2,
    "files": 3,
    "files bind craft": 3,
    "files nope": 2,
    "files contract show": 0,
    "files contract verify": 5,
    "files contract ack": 2,
    "files contract verify --spec nowhere": 2,
    "files cleanup": 0,
    "files cleanup note.txt": 2,
    "files cleanup --days x": 2,
    "files orchestrator history": 0,
    "files orchestrator continue": 3,
    "orchestrator": 2,
    "essay list": 0,
}


@pytest.mark.parametrize("line", CODES)
def test_every_command_on_files_ends_with_a_documented_exit_code(
    cli: Cli, project: Path, line: str
) -> None:
    fill(project, kinds=["orchestrator"])
    path = project / ORCHESTRATOR
    (project / "empty").mkdir()
    (project / "note.txt").write_text("hello")
    (project / "torn.json").write_bytes(path.read_bytes()[:200])
    path.rename(project / "good.json")
    answer = cli("--json", *line.split())
    assert answer.code == CODES[line], answer
    if "error" in answer.json:
        assert answer.json["error"]["code"] == answer.code


def test_suggested_command_checks_several_files(cli: Cli, project: Path) -> None:
    fill(project, kinds=["orchestrator", "craft"])
    refused = cli("files", "check", ORCHESTRATOR, CRAFT)
    assert refused.code == 2 and lines_to_type(refused) == ["forestay files check ."]
    assert len(cli.json("files", "check", ".")["sessions"]) == 2


NO_SUCH = [
    *(
        "files orchestrator history 7",
        "files orchestrator history nope",
        "essay resume 7",
        "essay resume nope",
    ),
    *("files report no-2026-01-31", "files update no-2026-01-31 --status=paused"),
    *(
        "resume nope",
        "files --session nope",
        "files orchestrator continue",
        "files orchestrator abort",
    ),
]


@pytest.mark.parametrize("line", NO_SUCH)
def test_missing_session_exits_3_in_every_command_that_names_one(cli: Cli, line: str) -> None:
    assert cli(*line.split()).code == 3


# -- cleanup -----------------------------------------------------------------------------------


def test_cleanup_with_a_pattern_reports_an_active_session_as_kept(cli: Cli, project: Path) -> None:
    fill(project, kinds=["ai-session"])
    reported = cli.json("files", "cleanup", "--pattern", "*", "--dry-run")["sessions"]
    assert [one["kept"] for one in reported] == ["it is active: complete or pause it first"]
    assert cli.json("files", "cleanup", "--dry-run")["sessions"] == []
    assert (project / STATE).exists()
