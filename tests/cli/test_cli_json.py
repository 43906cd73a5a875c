"""docs/json-output.md is true: the fields it names are the fields that are printed."""

from __future__ import annotations

import json
import re
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyrage
import pytest

from forestay.cli.terminal import json_text
from tests.cli.support import Answer, Cli
from tests.crash.disk import lay_out
from tests.format_helpers import IDS, bundle
from tests.sync.quick import seal_quickly

DOCUMENT = Path(__file__).parents[2] / "docs" / "json-output.md"
TYPES: dict[str, type | tuple[type, ...]] = {
    "text": str,
    "number": (int, float),
    "boolean": bool,
    "list": list,
    "object": dict,
    "null": type(None),
    "any": object,
}

# Section → the command whose answer it describes, in the session made by `scene`.
ANSWERS = {
    "status": "status",
    "forestay alone, without a current session": "",
    "Recording commands": "note x",
    "start": "start Another",
    "session use": "session use login",
    "list": "list",
    "task list": "task",
    "prove": "prove --inputs a.py -- true",
    "prove --list": "prove --list",
    "revisit": "revisit t1",
    "revisit --apply": "revisit t1 --apply",
    "phase done": "--session planned phase done 1 --evidence done=true",
    "phase gate": "--session planned phase gate 1",
    "phase list": "--session planned phase",
    "Essay verbs": "--session essay essay approve G1",
    "essay section list": "--session essay essay section",
    "essay claim list": "--session essay essay claim",
    "essay show": "--session essay essay show",
    "agent list": "agent list",
    "search": "search bootstrap",
    "show": "show",
    "diff": "diff 1 2",
    "resume": "resume",
    "brief": "brief --format json",
    "settle": "settle --session apart",
    "session forget": "session forget login --yes",
    "files check": "files check .ai-session",
    "files convert": "files convert .ai-session/login-2026-01-31 --to craft -o made.json",
    "files list": "files",
    "files bind": "files bind craft",
    "files unbind": "files unbind ai-session",
    "files restore": "files restore",
    "adopt": "adopt",
    "adopt --transcripts": "adopt --transcripts claude-code agents",
    "doctor PATH": "doctor torn.json -o whole.json",
    "files orchestrator history": "files orchestrator history",
    "files orchestrator history N": "files orchestrator history 1",
    "files orchestrator new": "files orchestrator new Again",
    "files orchestrator save": "--session kept files orchestrator save",
    "essay list": "essay list",
    "files contract show": "files contract",
    "files contract ack": "files contract ack --agent claude",
    "files contract verify": "files contract verify",
    "workflow list": "workflow",
    "workflow show": "workflow show essay",
    "workflow show --schema": "workflow show --schema",
    "workflow check": "workflow check odd.yaml",
    "workflow new": "workflow new release",
    "files report": "files report",
    "files live": "files live sessions",
    "files cleanup": "files cleanup --dry-run --pattern l*",
    "verify": "verify",
    "doctor": "doctor",
    "backup move": "backup move --to sqlite:another-home --dry-run",
    "backup create": "backup create",
    "backup restore, backup import": "backup import other.fspack",
    "record artifact --to": "record artifact a.py --to new.py --session other",
    "backup export": "backup export new.fspack",
    "config": "config",
    "config KEY VALUE": "config brief_budget 2000",
    "config --unset KEY": "config --unset brief_budget",
    "config --example": "config --example",
    "Changes of keys and devices": "device key rotate --recovery",
    "device key show": "device key show",
    "device key export": "device key export laptop.key",
    "device list": "device list",
    "device add": "--home other device add",
    "sync": "sync",
    "remote add": "remote add other folder:other-remote",
    "remote list": "remote list",
    "remote remove": "remote remove usb",
    "share": "share add login --with PERSON --yes",
    "init": "init",
    "config completion": "config completion bash",
    "help": "--help",
    "help of a command": "note --help",
    "--version": "--version",
}
RECORDING = """
    note x · decide x · undo
    record error x · record command x · record file a.py · record artifact a.py · record tokens 1
    record compaction · record rename x · record model x · record attribute k v
    task add x · task start t1 · task block t1 --because r · task unblock t1 · task done t1
    task skip t2 --because r
    phase fail 1 --issue no --session planned · phase retry --session planned
    phase rollback 1 --session planned
    agent start a1 · agent progress a1 0.5 · agent timeout a1 · agent retry a1
    agent fail a1 --error e · agent start a2 · agent done a2
    pause · resume · session fail · resume · session abandon · session reopen --because r · complete
    session archive · session unarchive · session reopen --because r · session abort
"""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stage")


@pytest.fixture
def scene(stage: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Create the folders once, and copy them to the same place for each test."""
    monkeypatch.setattr(pyrage.passphrase, "encrypt", seal_quickly)
    monkeypatch.setenv("FORESTAY_PASSPHRASE", "secret")
    monkeypatch.setenv("FORESTAY_AUTO_SYNC", "off")
    here, kept = stage / "here", stage / "kept"
    monkeypatch.setenv("FORESTAY_HOME", str(here / "home"))
    if kept.exists():
        lay_out(str(kept), str(here))
    (here / "project").mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(here / "project")
    if not kept.exists():
        _make(Cli(), here / "project")
        shutil.copytree(here, kept)
    return Cli()


def _make(cli: Cli, project: Path) -> None:
    cli.ok("device", "key", "init")
    cli.ok("remote", "add", "usb", f"folder:{project / 'usb'}")
    (project / "a.py").write_text("x = 1\n")
    cli.start("Other", "--id", "other")
    cli.ok("record", "artifact", "a.py")
    cli.ok("backup", "export", "other.fspack")
    _come_apart(cli)
    cli.start("Go through it", "--id", "planned", "--workflow", "feature", "--target", "a.py")
    cli.start("An essay", "--id", "essay", "--workflow", "essay")
    (project / "stage-1-thesis.md").write_text("One claim.\n")
    cli.ok("essay", "section", "add", "1")
    cli.ok("essay", "claim", "defer", "It is so", "--reason", "timeout", "--section", "1")
    cli.start("Keep it", "--id", "kept", "--bind", "orchestrator")
    cli.start("Add login", "--id", "login")
    for text in ("task add one", "task add two"):
        cli.ok(*text.split())
    cli.ok("note", "bootstrap", "--for-next")
    cli.ok("agent", "start", "a0")
    cli.ok("prove", "--inputs", "*.py", "--", "true")
    cli.ok("files", "bind", "ai-session:login-2026-01-31")
    cli.ok("files", "contract", "ack", "--agent", "gemini")
    (project / "torn.json").write_bytes(bundle("craft")[f"{IDS['craft']}.json"][:-9])
    history = project / ".claude" / "orchestrator-history"
    history.mkdir(parents=True)
    (archived,) = bundle("orchestrator").values()
    (history / f"{IDS['orchestrator']}.json").write_bytes(archived)
    (project / "odd.yaml").write_text("{workflow: odd, phases: [{name: One, strict: true}]}")
    (project / "agents").mkdir()
    printed = {"type": "user", "sessionId": "n1", "cwd": "/w", "message": {"content": "go"}}
    (project / "agents" / "n1.jsonl").write_text(json.dumps(printed) + "\n")
    active = project / "sessions" / "active"
    active.mkdir(parents=True)
    (active / "s1.json").write_text('{"session_id": "s1", "path": "/", "started": "x", "pid": 1}')


def _come_apart(cli: Cli) -> None:
    """Start a session with a dispute between two devices."""
    cli.start("Come apart", "--id", "apart")
    for text in ("task add one", "task start t1", "backup export apart.fspack"):
        cli.ok(*text.split())
    elsewhere = ("--home", "elsewhere", "--session", "apart")
    cli.ok("backup", "import", "apart.fspack", "--home", "elsewhere")
    cli.ok("task", "block", "t1", "--because", "no", *elsewhere)
    cli.ok("task", "done", "t1")
    cli.ok("backup", "export", "apart.fspack", "--force", *elsewhere)
    cli.ok("backup", "import", "apart.fspack")


def sections() -> dict[str, str]:
    parts = re.split(r"^## ", DOCUMENT.read_text(encoding="utf-8"), flags=re.M)[1:]
    return {part.partition("\n")[0]: part.partition("\n")[2] for part in parts}


def tables(name: str) -> dict[str, dict[str, str]]:
    """Return the tables of a section by the field they describe; "" is the answer itself."""
    found: dict[str, dict[str, str]] = {}
    for title, rows in re.findall(
        r"(?:^`(\w+)`:\n\n)?^\| field \| type \| meaning \|\n\|---\|---\|---\|\n((?:\|.*\n?)+)",
        sections()[name],
        flags=re.M,
    ):
        found[title] = dict(re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", rows, flags=re.M))
    if "All fields of `status`" in " ".join(sections()[name].split()):
        found[""] = {**tables("status")[""], **found[""]}
    return found


def check(values: dict[str, Any], fields: dict[str, str]) -> None:
    needed = {name for name, kind in fields.items() if "sometimes" not in kind}
    assert needed <= values.keys() - {"forestay"} <= fields.keys()
    for name, value in values.items():
        if name != "forestay":
            kinds = fields[name].removesuffix(", sometimes").split(" or ")
            assert any(_is(value, kind) for kind in kinds), (name, value, kinds)


def _is(value: object, kind: str) -> bool:
    return isinstance(value, TYPES[kind]) and not (kind == "number" and isinstance(value, bool))


def test_every_section_is_checked() -> None:
    assert set(sections()) == {*ANSWERS, "Errors", "log"}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_have_the_documented_fields(scene: Cli, name: str) -> None:
    if "without a current" in name:
        scene.ok("session", "forget", "login", "--yes")
    words = ANSWERS[name].split()
    found = scene.json(*(_person(scene) if word == "PERSON" else word for word in words))
    for title, fields in tables(name).items():
        part = found[title] if title else found
        for one in part if isinstance(part, list) else [part]:
            check(one, fields)


def _person(scene: Cli) -> str:
    """Return the person key of someone to share with."""
    scene.ok("--home", "other", "device", "key", "init")
    return str(scene.json("--home", "other", "device", "key", "show")["person"])


def test_log_lines_have_the_documented_fields(scene: Cli) -> None:
    for line in scene.ok("log", "--json").lines:
        assert line["forestay"] == 1
        check(line, tables("log")[""])


@pytest.mark.req("S0-80", "S0-81", "S0-82", "S0-83", "S0-84")
def test_errors_have_the_documented_fields(scene: Cli) -> None:
    lines = {
        "note": "update",
        "task done t9": "update",
        "show --at x": "read",
        "start": "create",
        "session forget nowhere": "delete",
        "backup import nowhere": "read",
        "backup export other.fspack": "update",
        "files check nowhere": "read",
        "files convert nowhere --to craft": "read",
        "files report nowhere-2026-01-01": "read",
        "files bind ai-session:Bad": "create",
        "start Login --bind ai-session:Bad": "create",
    }
    for line, operation in lines.items():
        answer = scene("--json", *line.split())
        assert answer.err == ""
        assert answer.json["error"]["error_context"]["operation"] == operation, line
        check(answer.json, tables("Errors")[""])
        error = answer.json["error"]
        check(error, tables("Errors")["error"])
        assert error["code"] == answer.code
        assert list(error["error_context"]) == [
            *("operation", "file", "feature_id", "timestamp", "details")
        ]


@pytest.mark.req("S0-81", "S0-82", "S0-83", "S0-84")
def test_json_error_has_file_session_and_time(scene: Cli) -> None:
    missing = scene("--json", "backup", "import", "nowhere.fspack").json["error"]["error_context"]
    assert "nowhere.fspack" in str(missing["file"]) and "nowhere.fspack" in missing["details"]
    age = datetime.now(UTC) - datetime.fromisoformat(missing["timestamp"])
    assert timedelta(seconds=-2) < age < timedelta(hours=1)
    scene.ok("complete")
    refused = scene("--json", "task", "add", "More", "--session", "login").json["error"]
    assert refused["error_context"]["feature_id"] == "login"


@pytest.mark.req("S0-81", "S0-82", "X0-3")
def test_errors_about_a_feature_name_it_and_its_file(scene: Cli) -> None:
    scene.ok("start", "Pay", "--bind", "ai-session:pay-2026-01-31")
    taken = scene("--json", "start", "Two", "--bind", "ai-session:pay-2026-01-31").json["error"]
    context = taken["error_context"]
    assert (context["operation"], context["feature_id"]) == ("create", "pay-2026-01-31")
    assert context["file"].endswith("/.ai-session/pay-2026-01-31/state.yaml")
    assert "already exists" in taken["what"]
    wrong = scene("--json", "files", "update", "--model=gpt").json["error"]["error_context"]
    assert (wrong["operation"], wrong["feature_id"]) == ("update", "pay-2026-01-31")
    unknown = scene("--json", "files", "update", "no-2026-01-31", "--status=paused").json["error"]
    assert unknown["error_context"]["feature_id"] == "no-2026-01-31"


@pytest.mark.req("X0-3", "S0-71")
def test_refused_feature_id_has_the_specified_message(scene: Cli) -> None:
    for line in ("files bind", "start Login --bind"):
        answer = scene(*line.split(), "ai-session:-login-2026-01-31")
        assert answer.err.startswith("Error: Invalid feature ID '-login-2026-01-31'\n"), line
        assert answer.code == 2


def test_every_recording_command_has_the_same_json_fields(scene: Cli) -> None:
    fields = tables("Recording commands")[""]
    named = set(re.findall(r"`([a-z]+)`", sections()["Recording commands"].partition("All")[0]))
    lines = [line.split() for line in re.split("[·\n]", RECORDING) if line.strip()]
    assert {words[0] for words in lines} - {"resume"} == named
    for words in lines:
        values = scene.json(*words)
        if words != ["resume"]:
            check(values, fields)


def test_json_answer_is_one_line_without_control_characters(scene: Cli) -> None:
    text = "right-to-left \u202e override, csi \u200b, 漢字, 🎉"
    answer = scene.ok("--json", "record", "rename", text)
    assert answer.json["goal"] == text
    assert answer.out.count("\n") == 1 and answer.out.strip().isprintable()
    assert "漢字, 🎉" in answer.out


def test_lone_surrogates_are_replaced_in_json() -> None:
    assert json.loads(json_text({"a": "x\udcff\x7f\x9b\U000e0001"})) == {
        "a": "x\ufffd\x7f\x9b\U000e0001"
    }


def test_json_answer_is_never_followed_by_text_for_people(scene: Cli) -> None:
    answers: list[Answer] = [
        scene("--json", *line.split()) for line in ("", "list", "show", "note x", "undo", "verify")
    ]
    for answer in answers:
        assert answer.json["forestay"] == 1 and answer.err == ""
