"""The `craft` format: what is read, what is written, what is reported.

`python -m tests.formats.test_craft` writes the published schemas again.
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import forestay.formats.craft
from forestay.formats import timestamps
from forestay.formats.coerce import copied
from forestay.formats.craft.format import FORMAT
from forestay.formats.craft.schema import published
from forestay.formats.facts import (
    AgentFact,
    DecisionFact,
    Facts,
    FileFact,
    StepFact,
)
from forestay.formats.fields import progress_of
from forestay.formats.port import ERROR, Where
from forestay.formats.status_words import session_status, session_word
from tests.formats import json_stories as stories
from tests.formats.samples.craft import AGENT, DOCUMENT, FAILED, ID, NAME, RUNNING

HERE = Where(now=1_768_700_000_000, naive="utc")
Draft202012Validator: Any = import_module("jsonschema").Draft202012Validator
SCHEMAS = Path(forestay.formats.craft.__file__).parent
FILES = {False: "session-state-v1.json", True: "session-state-v1.strict.json"}


def tree(**changes: Any) -> dict[str, Any]:
    return {NAME: {**copied(DOCUMENT), **changes}}


def without(key: str) -> dict[str, Any]:
    return {NAME: {k: v for k, v in DOCUMENT.items() if k != key}}


def read(**changes: Any) -> Facts:
    return FORMAT.get(tree(**changes), HERE)


def write(facts: Facts, old: dict[str, Any] | None = None) -> dict[str, Any]:
    made = FORMAT.put(old, facts, HERE)
    value: dict[str, Any] = made[next(iter(made))]
    return value


def found(*, strict: bool = False, **changes: Any) -> list[tuple[str, str, str]]:
    findings = FORMAT.check(tree(**changes), HERE, strict=strict)
    return [(f.code, f.severity, f.where) for f in findings]


def inside(key: str, *path: str | int, value: Any) -> dict[str, Any]:
    """A change of one value inside a topmost key."""
    made = {key: copied(DOCUMENT[key])}
    parent: Any = made
    *way, last = (key, *path)
    for step in way:
        parent = parent[step]
    parent[last] = value
    return made


@cache
def validator(strict: bool) -> Any:
    return Draft202012Validator(json.loads((SCHEMAS / FILES[strict]).read_text("utf-8")))


# --- the document ------------------------------------------------------------------------------


@pytest.mark.req("S2-7", "S2-6", "S2-17", "S2-76", "S2-77", "S2-78", "S2-80", "S2-81")
def test_new_file_has_every_key_of_the_document_in_its_order() -> None:
    made = write(Facts(native_id=ID, goal="g", began_at=1))
    assert list(made) == list(DOCUMENT)
    assert made["mode"] == "default"
    assert made["metadata"] == {"git_branch": None, "git_commit": None, "tags": [], "notes": None}
    assert made["$schema"] == DOCUMENT["$schema"]
    assert list(made["context_usage"]) == list(DOCUMENT["context_usage"])
    assert list(made["teleportation"]) == list(DOCUMENT["teleportation"])
    assert FORMAT.put(None, Facts(native_id=ID), HERE).keys() == {NAME}


@pytest.mark.req("S2-8", "S2-9", "S2-87")
def test_new_ids_are_version_4_uuids_and_never_in_use() -> None:
    facts = Facts(goal="g", began_at=5)
    first = FORMAT.new_id(facts, HERE, frozenset())
    second = FORMAT.new_id(facts, HERE, frozenset({first}))
    assert first != second
    assert FORMAT.why_invalid_id(first) == FORMAT.why_invalid_id(second) == ""
    assert write(facts)["session_id"] == first
    for bad in ("", "x", "../etc", ID.upper(), ID.replace("4c", "1c"), f"{ID}\n"):
        assert "UUID" in FORMAT.why_invalid_id(bad)


@pytest.mark.req("X2-1")
def test_files_next_to_a_session_file_are_not_read_as_sessions() -> None:
    assert FORMAT.files(ID) == [NAME]
    bundle = {"index.json": {"sessions": []}, f"{ID}/decisions.log": "x", **tree()}
    assert FORMAT.get(bundle, HERE).goal == DOCUMENT["goal"]
    assert FORMAT.put(bundle, FORMAT.get(bundle, HERE), HERE) == bundle


@pytest.mark.req("S2-12", "S2-13", "S2-14", "S2-15", "S2-16", "S2-17", "S2-18", "S2-19")
def test_core_fields_are_read() -> None:
    facts = read()
    assert (facts.native_id, facts.goal, facts.mode) == (ID, "Make the queue durable", "release")
    assert (facts.began_at, facts.updated_at) == (1_769_936_400_000, 1_769_938_200_250)
    assert (facts.device, facts.project_path) == ("Workbench", "/home/me/queue")
    assert (facts.status, facts.progress) == ("active", 0.4)


@pytest.mark.req("S2-12", "S2-13", "S2-14", "S2-15", "S2-16", "S2-17", "S2-18", "S2-19")
def test_core_fields_are_written() -> None:
    facts = Facts(
        goal="g",
        began_at=1_769_936_400_000,
        updated_at=1_769_938_200_250,
        mode="debug",
        status="failed",
        progress=0.65,
    )
    where = replace(HERE, device="iMac", project_path="/p")
    made = FORMAT.put(None, replace(facts, native_id=ID), where)[NAME]
    assert made["created_at"] == "2026-02-01T09:00:00.000Z"
    assert made["updated_at"] == "2026-02-01T09:30:00.250Z"
    assert (made["device"], made["project"]) == ("iMac", "/p")
    assert (made["goal"], made["mode"], made["status"]) == ("g", "debug", "error")
    assert made["progress"] == 0.65
    assert made["teleportation"]["devices"] == ["iMac"]


@pytest.mark.req("S2-19", "S2-90")
def test_written_progress_is_the_given_figure_or_is_counted_from_steps_and_agents() -> None:
    done, open_ = StepFact("a", status="done"), StepFact("b")
    agent = AgentFact("a-1", fraction=0.5)
    assert write(Facts(progress=0.1, steps=[done]))["progress"] == 0.1
    assert write(Facts(steps=[done, open_, open_, open_]))["progress"] == 0.25
    assert write(Facts(agents=[agent, AgentFact("b-1")]))["progress"] == 0.25
    assert write(Facts())["progress"] == 0.0
    assert write(Facts(status="completed"))["progress"] == 1.0
    assert write(replace(read(), progress=None), tree())["progress"] == 1 / 3


@pytest.mark.req("S2-14")
def test_writing_device_is_named_and_listed() -> None:
    facts = replace(read(), device="", goal="another")
    made = FORMAT.put(tree(), facts, replace(HERE, device="Laptop 2"))[NAME]
    assert made["device"] == "Laptop 2"
    assert made["teleportation"]["devices"] == ["Workbench", "Laptop", "Laptop 2"]


# --- agents ------------------------------------------------------------------------------------


@pytest.mark.req("S2-20", "S2-21", "S2-22", "S2-23", "S2-24", "S2-25", "S2-27", "S2-35", "S2-83")
def test_agents_are_read() -> None:
    first, second, _ = read().agents
    assert first == AgentFact(
        id="plan-1",
        type="backend-architect",
        status="done",
        started_at=1_769_936_415_000,
        ended_at=1_769_936_550_000,
        fraction=1.0,
        result="Three queues",
        tokens=400,
        created=["docs/q.md"],
    )
    assert (second.status, second.ended_at, second.fraction) == ("running", None, 0.25)


@pytest.mark.req("S2-36", "S2-37", "S2-38", "S2-83")
def test_artifacts_are_read_and_written_even_of_a_running_agent() -> None:
    agent = read().agents[1]
    assert (agent.created, agent.modified, agent.deleted) == ([], ["q.py"], ["old.py"])
    made = write(Facts(agents=[replace(agent, created=["n.py"])]))["agents"][0]
    assert made["artifacts"] == {
        "files_created": ["n.py"],
        "files_modified": ["q.py"],
        "files_deleted": ["old.py"],
    }
    ends = ("completed_at", "duration_seconds", "result", "output_summary")
    assert [made[key] for key in ends] == [None] * 4


@pytest.mark.req("S2-30", "S2-31", "S2-32", "S2-33", "S2-34")
def test_agents_error_is_read_and_written() -> None:
    agent = read().agents[2]
    assert (agent.error, agent.category, agent.retries) == ("no network", "transient", 2)
    assert agent.retried_at == 1_769_937_000_000
    assert write(Facts(agents=[agent]))["agents"][0]["error"] == FAILED["error"]
    again = replace(agent, status="running", error="", category="", retries=0, retried_at=None)
    assert write(replace(read(), agents=[again]), tree())["agents"][0]["error"] is None
    plain = AgentFact("a-1", status="failed", error="boom")
    assert write(Facts(agents=[plain]))["agents"][0]["error"]["category"] == "logical"


@pytest.mark.req("S2-23", "S2-28", "S2-39", "S2-40", "S2-41", "S2-42", "S2-43")
@pytest.mark.parametrize(
    "status, word, result",
    [
        ("pending", "pending", None),
        ("running", "running", None),
        ("done", "completed", "success"),
        ("failed", "error", "failure"),
        ("timed_out", "timeout", "timeout"),
        ("skipped", "completed", "aborted"),
    ],
)
def test_each_agent_status_has_its_word_and_result(status: str, word: str, result: str) -> None:
    made = write(Facts(native_id=ID, agents=[AgentFact("a-1", status=status)]))
    assert (made["agents"][0]["status"], made["agents"][0]["result"]) == (word, result)
    assert FORMAT.get({NAME: made}, HERE).agents[0].status == status


@pytest.mark.req("S2-29")
def test_agent_that_waits_for_another_is_blocked() -> None:
    made = write(Facts(native_id=ID, agents=[AgentFact("b", status="blocked", blocking_on="a")]))
    assert (made["agents"][0]["status"], made["agents"][0]["blocking_on"]) == ("pending", "a")
    assert FORMAT.get({NAME: made}, HERE).agents[0].status == "blocked"


@pytest.mark.req("S2-26", "S2-44")
def test_duration_is_the_time_between_start_and_end_rounded() -> None:
    ended = replace(read().agents[0], ended_at=1_769_936_420_600)
    assert write(Facts(agents=[read().agents[0]]))["agents"][0]["duration_seconds"] == 135
    assert write(replace(read(), agents=[ended]), tree())["agents"][0]["duration_seconds"] == 6
    assert found() == []
    assert found(**inside("agents", 0, "duration_seconds", value=140)) == [
        ("wrong-duration", "warning", "agents[0].duration_seconds")
    ]


def test_agents_are_changed_removed_and_added_in_place() -> None:
    plan, code, _ = read().agents
    new = [replace(code, fraction=0.75), AgentFact("doc-1", type="doc-writer"), plan]
    made = write(replace(read(), agents=new), tree(agents=[{**AGENT, "x": 1}, RUNNING, FAILED, 7]))
    assert made["agents"][0] == {**AGENT, "x": 1}
    assert made["agents"][1] == {**RUNNING, "progress": 0.75}
    assert made["agents"][2] == 7
    assert [agent["id"] for agent in made["agents"][3:]] == ["doc-1"]


# --- work, decisions, files --------------------------------------------------------------------


@pytest.mark.req("S2-45", "S2-46")
def test_completed_and_pending_work_is_read_as_steps_without_ids() -> None:
    assert read().steps == [StepFact("Design", status="done"), StepFact("Code"), StepFact("Tests")]
    steps = [
        StepFact("Code", id="c", status="done"),
        StepFact("", id="docs", status="running"),
        StepFact("Tests", status="skipped"),
    ]
    made = write(replace(read(), steps=steps), tree())
    assert made["completed_work"] == ["Code", "Tests"]
    assert made["pending_tasks"] == ["docs"]


@pytest.mark.req("S2-47", "S2-48", "S2-49", "S2-50", "S2-51", "S2-52")
def test_decisions_are_read_and_written() -> None:
    decision = DecisionFact(
        "Where to keep messages",
        options=["a file", "a database"],
        chosen="a file",
        at=1_769_936_700_000,
    )
    assert read().decisions == [decision]
    more = DecisionFact("Sync at once", because="slow is fine", at=1_769_936_800_000)
    made = write(replace(read(), decisions=[more]), tree())["decisions_made"]
    assert made == [
        DOCUMENT["decisions_made"][0],
        {
            "timestamp": "2026-02-01T09:06:40.000Z",
            "context": "Sync at once",
            "options": ["Sync at once"],
            "chosen": "Sync at once",
            "reasoning": "slow is fine",
        },
    ]
    assert read(decisions_made=made).decisions == [decision, more]
    assert [f[0] for f in found(**inside("decisions_made", 0, "chosen", value="paper"))] == [
        "chosen-not-offered"
    ]


@pytest.mark.req("S2-53", "S2-54", "S2-55", "S2-56", "S2-57", "S2-58", "S2-59", "S2-60", "S2-61")
def test_file_changes_are_read_and_written() -> None:
    change = FileFact("q.py", "modified", "code-1", 1_769_937_600_125, 10, 0, "ab" * 32)
    assert read().files == [change]
    new = FileFact("new.py", "created", at=1_769_937_601_000, after="cd" * 32)
    made = write(replace(read(), files=[new]), tree())["files_modified"]
    assert made[0] == DOCUMENT["files_modified"][0]
    assert made[1] == {
        "path": "new.py",
        "action": "created",
        "agent_id": "unknown",
        "timestamp": "2026-02-01T09:20:01.000Z",
        "lines_added": None,
        "lines_removed": None,
        "hash_before": None,
        "hash_after": "cd" * 32,
    }
    assert read(files_modified=made).files == [change, new]


@pytest.mark.req("S2-60", "S2-61")
def test_only_sha256_is_written_as_a_hash_and_others_are_reported() -> None:
    assert (
        write(Facts(files=[FileFact("a", after="a1b2")]))["files_modified"][0]["hash_after"] is None
    )
    odd = inside("files_modified", 0, "hash_after", value="a1b2c3...")
    assert found(**odd) == [("not-sha256", "warning", "files_modified[0].hash_after")]
    assert read(**odd).files[0].after == "a1b2c3..."
    created = inside("files_modified", 0, "action", value="created")
    assert found(**created) == [
        ("hash-before-creation", "warning", "files_modified[0].hash_before")
    ]


def test_bare_path_is_read_as_a_changed_file_and_not_rewritten() -> None:
    old = tree(files_modified=["a.py", "b.py"])
    assert [f.path for f in FORMAT.get(old, HERE).files] == ["a.py", "b.py"]
    made = write(replace(read(), files=[FileFact("b.py", at=7), FileFact("c.py", at=7)]), old)
    assert made["files_modified"][:2] == ["a.py", "b.py"]
    assert [each["path"] for each in made["files_modified"][2:]] == ["c.py"]
    assert found(files_modified=["a.py"]) == [("bare-path", "error", "files_modified[0]")]
    assert found(decisions_made=["x"]) == [("bare-decision", "error", "decisions_made[0]")]


def test_log_entries_are_never_removed_and_not_doubled() -> None:
    facts = replace(read(), decisions=[], files=[])
    assert FORMAT.put(tree(), facts, HERE) == tree()
    coarse = inside("files_modified", 0, "timestamp", value="2026-02-01T09:20:00Z")
    assert FORMAT.put(tree(**coarse), read(), HERE) == tree(**coarse)
    twice = [read().files[0], replace(read().files[0], at=1_769_937_600_126)]
    made = write(replace(read(), files=twice), tree())["files_modified"]
    assert [each["timestamp"][-5:] for each in made] == [".125Z", ".126Z"]


# --- context, teleportation, metadata ----------------------------------------------------------


@pytest.mark.req("S2-62", "S2-63", "S2-64", "S2-65", "S2-66")
def test_context_usage_is_read_and_written() -> None:
    facts = read()
    assert (facts.tokens, facts.compressions) == (900, 1)
    assert facts.compressed_at == 1_769_937_300_000
    assert facts.tokens_by_agent == {"plan-1": 400, "code-1": 500}
    made = write(
        Facts(
            tokens=25_000,
            compressions=2,
            compressed_at=1_769_937_300_000,
            agents=[AgentFact("a-1", tokens=8000)],
            tokens_by_agent={"gone-1": 5},
        )
    )
    assert made["context_usage"] == {
        "estimated_tokens": 25_000,
        "compression_count": 2,
        "last_compression": "2026-02-01T09:15:00.000Z",
        "by_agent": {"a-1": 8000, "gone-1": 5},
    }
    findings = found(**inside("context_usage", "by_agent", value={"plan-1": 800}))
    assert [finding[:2] for finding in findings] == [("tokens-differ", "info")]


@pytest.mark.req("S2-67", "S2-68", "S2-69", "S2-70", "S2-71", "S2-72", "S2-73", "S2-74", "S2-75")
def test_teleportation_is_read_into_attributes_and_written_from_them() -> None:
    attributes = {k: v for k, v in read().attributes.items() if "teleportation" in k}
    assert attributes == {
        "craft.teleportation.enabled": True,
        "craft.teleportation.last_sync": "2026-02-01T09:29:00.000Z",
        "craft.teleportation.sync_status": "error",
        "craft.teleportation.sync_error": "bucket is full",
        "craft.teleportation.devices": "Workbench\nLaptop",
        "craft.teleportation.storage_backend": "s3",
        "craft.teleportation.encrypted": True,
        "craft.teleportation.shared_with": "someone@example.org",
    }
    made = write(Facts(attributes=dict(attributes)))["teleportation"]
    assert made == DOCUMENT["teleportation"]
    changes = dict.fromkeys(attributes) | {"craft.teleportation.sync_status": "success"}
    changed = write(replace(read(), attributes=changes), tree())["teleportation"]
    assert changed["sync_status"] == "success"
    assert changed["last_sync"] is changed["sync_error"] is changed["shared_with"] is None
    assert changed["enabled"] is True and changed["storage_backend"] == "s3"


@pytest.mark.req("S2-69", "S2-70", "S2-73", "S2-85")
def test_attributes_that_the_document_does_not_have_are_not_written() -> None:
    values: dict[str, Any] = {
        "last_sync": "yesterday",
        "sync_status": "fine",
        "storage_backend": "floppy",
    }
    values |= {"enabled": "yes", "devices": True}
    attributes = {f"craft.teleportation.{key}": value for key, value in values.items()}
    for old in (None, tree()):
        made = write(replace(read(), attributes=read().attributes | attributes), old)
        assert list(validator(True).iter_errors(made)) == []
        assert made["teleportation"]["storage_backend"] in ("local", "s3")


@pytest.mark.req("S2-67", "S2-68", "S2-73")
def test_new_file_has_no_teleportation() -> None:
    assert write(Facts(device="iMac"))["teleportation"] == {
        "enabled": False,
        "last_sync": None,
        "sync_status": None,
        "sync_error": None,
        "devices": ["iMac"],
        "storage_backend": "local",
        "encrypted": False,
        "shared_with": None,
    }


@pytest.mark.req("S2-76", "S2-77", "S2-78", "S2-79", "S2-80", "S2-81")
def test_metadata_is_read_written_and_preserved() -> None:
    facts = read()
    assert (facts.git_branch, facts.git_commit) == ("durable", "c" * 40)
    own = ("craft.craft_version", "craft.tags", "craft.notes")
    assert [facts.attributes[name] for name in own] == ["1.23.0", "queue\nio", "Ask about fsync"]
    new = {**facts.attributes, "craft.tags": "one", "craft.notes": None}
    made = write(replace(facts, git_branch="main", attributes=new), tree())["metadata"]
    assert made == {
        **DOCUMENT["metadata"],
        "git_branch": "main",
        "tags": ["one"],
        "notes": None,
    }
    assert FORMAT.check(without("metadata"), HERE) == []
    for key, code in (("git_commit", "not-a-commit"), ("craft_version", "not-a-version")):
        assert found(**inside("metadata", key, value="a1b2..."))[0][0] == code


# --- findings ----------------------------------------------------------------------------------


# Place, what it is (with a question mark: or null), requirement.


@pytest.mark.req("S2-22")
def test_any_agent_type_is_allowed() -> None:
    listed = "feature-dev backend-architect bug-detective code-quality-reviewer test-specialist"
    for kind in (*listed.split(), "doc-writer", "something-of-ours"):
        assert found(**inside("agents", 0, "type", value=kind), strict=True) == []


@pytest.mark.req("S2-21")
def test_agent_with_a_duplicate_id_is_reported_by_its_place() -> None:
    agent = DOCUMENT["agents"][0]
    findings = FORMAT.check(tree(agents=["no agent", agent, {"id": ""}, {"id": ""}, agent]), HERE)
    assert [f.where for f in findings if f.code == "duplicate-agent"] == ["agents[4].id"]


# --- the published schema ----------------------------------------------------------------------


@pytest.mark.req("S2-1", "S2-84", "S2-85")
@pytest.mark.parametrize("strict", [False, True])
def test_published_schemas_are_made_from_the_rules(strict: bool) -> None:
    text = (SCHEMAS / FILES[strict]).read_text("utf-8")
    assert json.loads(text) == published(strict=strict)
    assert "Versions: 1.0.0 2026-01-17 Initial schema definition" in text
    Draft202012Validator.check_schema(json.loads(text))


@pytest.mark.req("S2-85")
def test_jsonschema_tool_validates_a_session_file(tmp_path: Path) -> None:
    session = tmp_path / "session.json"
    tool = [sys.executable, "-W", "ignore", "-m", "jsonschema", "-i", str(session)]
    for strict, name in FILES.items():
        for value, code in ((DOCUMENT, 0), ({**DOCUMENT, "status": "odd"}, 1)):
            session.write_text(json.dumps(value))
            ended = subprocess.run([*tool, str(SCHEMAS / name)], capture_output=True, timeout=60)
            assert ended.returncode == code, (strict, ended.stderr)


def test_checking_a_file_does_not_load_the_jsonschema_package() -> None:
    program = (
        "import sys; from forestay.formats.port import Where, load_format;"
        "load_format('craft').check({'a.json': {}}, Where());"
        "sys.exit('jsonschema' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


@pytest.mark.req("S2-85")
@pytest.mark.parametrize("strict", [False, True])
@given(data=st.data())
def test_check_and_schema_agree(strict: bool, data: st.DataObject) -> None:
    value = data.draw(stories.mutants(DOCUMENT, 2))
    errors = [f for f in FORMAT.check({NAME: value}, HERE, strict=strict) if f.severity == ERROR]
    assert validator(strict).is_valid(value) is (errors == []), errors


@pytest.mark.req("S2-12", "S2-85")
@pytest.mark.parametrize("strict", [False, True])
def test_schema_refuses_days_that_do_not_exist(strict: bool) -> None:
    stamp = re.compile(published(strict=strict)["properties"]["created_at"]["pattern"])
    days = itertools.product((0, 1, 1900, 2000, 2024, 2026, 9999), range(14), range(33))
    for year, month, day in days:
        stamp_text = f"{year:04}-{month:02}-{day:02}T12:00:00.000Z"
        assert (stamp.search(stamp_text) is None) is (timestamps.read(stamp_text) is None), (
            stamp_text
        )


@pytest.mark.req("S2-82", "S2-85")
@given(stories.facts)
def test_written_files_satisfy_the_strict_schema(facts: Facts) -> None:
    value = write(facts)
    assert list(validator(True).iter_errors(value)) == []
    assert not [f for f in FORMAT.check({NAME: value}, HERE, strict=True) if f.severity == ERROR]


# --- laws --------------------------------------------------------------------------------------


def projected(facts: Facts) -> Facts:
    """Return the facts that the format has fields for."""
    done = [s for s in facts.steps if s.status in ("done", "skipped")]
    rest = [s for s in facts.steps if s.status not in ("done", "skipped")]
    plain = {"needs_review": "running", "blocked": "pending"}
    agents = [replace(a, status=plain.get(a.status, a.status)) for a in facts.agents]
    for agent in agents:
        agent.category = agent.category or ("logical" if agent.error else "")
    return replace(
        facts,
        status=session_status("craft", session_word("craft", facts.status)),
        progress=progress_of(facts),
        project="",
        steps=[
            *(StepFact(s.title, status="done") for s in done),
            *(StepFact(s.title) for s in rest),
        ],
        agents=agents,
        tokens_by_agent={a.id: a.tokens for a in facts.agents if a.tokens is not None},
        attributes={},
    )


@given(stories.facts)
def test_reading_written_facts_returns_them(facts: Facts) -> None:
    written = replace(FORMAT.get(FORMAT.put(None, facts, HERE), HERE), attributes={})
    assert written == projected(facts)


# --- recognising and salvaging -----------------------------------------------------------------


def test_keys_after_the_damage_are_found_by_their_indentation() -> None:
    text = json.dumps(DOCUMENT, indent=2)
    hole = text.replace('"device": "Workbench"', '"device": "Wor\0\0\0\0')
    saved = FORMAT.salvage({NAME: hole.encode()}, HERE)
    assert saved is not None
    assert (saved.facts.goal, saved.facts.status) == (DOCUMENT["goal"], "active")
    assert "goal: found behind the damage" in saved.inferred
    assert "agents" in saved.lost


if __name__ == "__main__":
    for strict_, name_ in FILES.items():
        made_ = json.dumps(published(strict=strict_), indent=2, ensure_ascii=False)
        (SCHEMAS / name_).write_text(f"{made_}\n", "utf-8")
