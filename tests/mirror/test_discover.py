"""Session files are found by content, findings have line and requirement, any input is safe.

Every bad input goes through check, adopt and convert, in place of each format's main file: no
exception but ours, an end within a bounded time, and not a byte changed outside the home.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import forestay
from forestay.api.forestay import Forestay
from forestay.errors import ForestayError, StoreFailed
from forestay.formats import diff
from forestay.formats.ai_session.read import ARCHIVE
from forestay.formats.port import REGISTRY
from forestay.formats.text.document import Document
from forestay.mirror import check_files, discover
from tests.format_helpers import (
    CRAFT,
    ESSAY,
    IDS,
    INDEX,
    LOG,
    MAIN,
    ORCHESTRATOR,
    PRAXIS,
    STATE,
    fill,
)
from tests.format_helpers import snapshot as whole_snapshot
from tests.formats.test_pairs import STORIES

KINDS = list(MAIN)


@pytest.fixture
def stay(tmp_path: Path, project: Path) -> Iterator[Forestay]:
    with forestay.open(str(tmp_path / "home"), trust_env=False) as opened:
        yield opened


def snapshot(folder: Path) -> dict[str, bytes]:
    """Return the files in a folder without those of the home."""
    home = str(folder / "home")
    return {n: d for n, d in whole_snapshot(folder).items() if not n.startswith(home)}


# -- finding -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [kind for kind in KINDS if REGISTRY[kind][1]])
def test_quick_scan_finds_sessions_in_the_folders_of_their_formats(
    stay: Forestay, project: Path, kind: str
) -> None:
    fill(project, kinds=[kind])
    (seen,) = stay.files.unadopted()
    assert seen.startswith(str(project / REGISTRY[kind][1]))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "ai-session"])
def test_file_that_is_no_session_in_the_place_of_one_is_reported(
    stay: Forestay, project: Path, kind: str
) -> None:
    path = project / MAIN[kind]
    path.parent.mkdir(parents=True)
    path.write_text('{"a": 1}')
    (report,) = stay.files.check(str(project))
    (fault,) = report.findings
    assert (fault.code, fault.file, report.ok) == ("not-a-session", str(path), False)
    (reported,) = stay.files.adopt(str(project))
    assert reported.outcome == "unreadable" and path.read_text() == '{"a": 1}'


def test_folder_with_a_state_file_is_a_session_in_any_place(project: Path) -> None:
    fill(project, kinds=["ai-session"])
    folder = project / "elsewhere"
    folder.mkdir()
    (folder / "state.yaml").write_bytes((project / STATE).read_bytes())
    (one,) = discover.find(str(folder))
    assert (one.format_id, list(one.paths.values())) == ("ai-session", [str(folder / "state.yaml")])
    (folder / "state.yaml").write_text("pods: 3\n")
    assert discover.find(str(folder)) == []


def test_single_files_of_sessions_are_checked_under_any_name_but_not_adopted(
    stay: Forestay, project: Path
) -> None:
    fill(project, kinds=["ai-session"])
    loose = project / "elsewhere"
    shutil.copytree((project / STATE).parent, loose / ARCHIVE / "login-2026-01-31")
    (loose / "state.before.yaml").write_bytes((project / STATE).read_bytes())
    (loose / "active-features.old.yaml").write_text("active_features: [\n")
    (loose / "state.yaml").write_text("pods: 3\n")
    reported = {os.path.basename(each.path): each.ok for each in stay.files.check(str(loose))}
    assert reported == {"state.before.yaml": True, "active-features.old.yaml": False}
    assert [*stay.files.adopt(str(loose))] == []


def test_session_folder_is_found_below_any_folder_but_an_archive(project: Path) -> None:
    fill(project, kinds=["ai-session"])
    folder = (project / STATE).parent
    for above, count in (("deep/down", 1), (ARCHIVE, 0)):
        shutil.copytree(folder, project / "elsewhere" / above / folder.name)
        assert len(discover.find(str(project / "elsewhere"))) == count
        shutil.rmtree(project / "elsewhere")


@pytest.mark.parametrize("end", ["", "current_state:\n"])
def test_state_file_cut_between_lines_is_recognized(
    stay: Forestay, project: Path, end: str
) -> None:
    path = project / "any.yaml"
    path.write_text(f'version: "1.0"\nfeature_id: "cart-2026-02-14"\n{end}')
    (report,) = stay.files.check(str(path))
    assert (report.reading.format, report.ok) == ("ai-session", False)
    assert "current_state" in [finding.where for finding in report.findings]


@pytest.mark.parametrize("story", [name for name in STORIES if not name.startswith(("ai", "es"))])
def test_cut_file_is_recognized_as_its_format_or_none(story: str) -> None:
    data = next(iter(STORIES[story].values()))
    finds = [discover.identify("/any.json", data[: len(data) * part // 20]) for part in range(20)]
    reported = [one.format_id if one else "" for one in finds]
    kind = story.partition("/")[0]
    assert {*reported} <= {kind, ""} and {*reported[14:]} == {kind}


@pytest.mark.req("S0-78")
def test_yaml_merge_key_is_reported_with_line_and_requirement(
    stay: Forestay, project: Path
) -> None:
    fill(project, kinds=["ai-session"])
    with (project / STATE).open("a") as state:
        state.write("a: &a {x: 1}\nb: {<<: *a}\n")
    (report,) = stay.files.check(str(project / STATE))
    (reported,) = report.findings
    line = (project / STATE).read_text().count("\n")
    assert (reported.code, reported.line, reported.requirement) == ("merge-key", line, "S0-78")


@pytest.mark.req("S0-55")
def test_empty_log_is_valid(stay: Forestay, project: Path) -> None:
    fill(project, kinds=["ai-session"])
    (project / LOG).write_bytes(b"")
    (report,) = stay.files.check(str(project / LOG))
    assert (report.reading.format, report.findings) == ("ai-session", [])


@pytest.mark.parametrize("between", [b"\n\n", b"\n  \n", b"\r\n"])
def test_log_is_recognized_despite_blank_lines_or_crlf(
    stay: Forestay, project: Path, between: bytes
) -> None:
    fill(project, kinds=["ai-session"])
    path = project / "somewhere"
    lines = (project / LOG).read_bytes().splitlines()
    path.write_bytes(between.join([*lines, *lines]) + b"\n")
    (report,) = stay.files.check(str(path))
    assert (report.reading.format, report.reading.generation) == ("ai-session", "contract")


@pytest.mark.parametrize("kind", KINDS)
def test_utf_16_file_is_reported_and_read_under_any_name(
    stay: Forestay, project: Path, kind: str
) -> None:
    fill(project, kinds=[kind])
    path = (project / MAIN[kind]).with_name(f"any{Path(MAIN[kind]).suffix}")
    path.write_bytes((project / MAIN[kind]).read_text("utf-8").encode("utf-16"))
    (report,) = stay.files.check(str(path))
    assert report.reading.format == kind
    assert [finding.code for finding in report.findings] == ["utf16"]


@pytest.mark.parametrize("name", ["state.yaml", "implementation-plan.yaml", "history.jsonl"])
def test_single_file_in_its_place_is_checked_with_the_files_around_it(
    stay: Forestay, project: Path, name: str
) -> None:
    fill(project, kinds=["ai-session"])
    part = (project / STATE).with_name(name)
    (report,) = stay.files.check(str(part))
    assert report.findings == []
    part.parent.rename(part.parent.with_name("other-2026-02-14"))
    (report,) = stay.files.check(str(part.parent.with_name("other-2026-02-14") / name))
    codes = [finding.code for finding in report.findings]
    assert codes == ([] if name == "history.jsonl" else ["id-mismatch"])


def test_plan_file_elsewhere_is_checked_without_findings(stay: Forestay, project: Path) -> None:
    fill(project, kinds=["ai-session"])
    (project / "saved").mkdir()
    shutil.copy((project / STATE).with_name("implementation-plan.yaml"), project / "saved/p.yaml")
    (report,) = stay.files.check(str(project / "saved" / "p.yaml"))
    assert report.findings == []


@pytest.mark.req("X1-1", "X2-1", "S4-6")
@pytest.mark.parametrize(
    "kind, folder, requirement",
    [
        ("praxis", ".praxis-os/.cache/state", "X1-1"),
        ("craft", ".craft/cache/orchestration-sessions", "X2-1"),
        ("orchestrator", ".claude/orchestrator-history", "S4-6"),
    ],
)
def test_file_not_named_after_its_session_is_reported_in_the_folder_of_its_format(
    stay: Forestay, project: Path, kind: str, folder: str, requirement: str
) -> None:
    fill(project, kinds=[kind])
    written = (project / MAIN[kind]).read_bytes()
    (project / folder).mkdir(parents=True, exist_ok=True)

    def reported(name: str) -> list[tuple[str, str | None, str | None]]:
        (project / name).write_bytes(written)
        (report,) = stay.files.check(str(project / name))
        found = [each for each in report.findings if each.severity == "warning"]
        return [(each.code, each.where, each.requirement) for each in found]

    assert reported(f"{folder}/{IDS[kind]}.json") == reported("other.json") == []
    assert reported(f"{folder}/other.json") == [("name-differs", "session_id", requirement)]
    (adopted,) = stay.files.adopt(str(project / folder / "other.json"))
    stated = f"other.json: the file should be called {IDS[kind]}.json"
    assert (adopted.outcome, adopted.bound, adopted.problems) == ("adopted", False, [stated])


@pytest.mark.req("X2-1")
def test_index_of_another_program_is_no_session(project: Path) -> None:
    fill(project, kinds=["craft"])
    (project / CRAFT).with_name("index.json").write_text('{"sessions": []}')
    assert [one.path for one in discover.find(str(project))] == [str(project / CRAFT)]


def test_every_format_is_recognized_by_content_under_any_name(project: Path) -> None:
    fill(project)
    for number, (kind, name) in enumerate(MAIN.items()):
        path = project / f"file-{number}"
        path.write_bytes((project / name).read_bytes())
        (one,) = discover.find(str(path))
        assert one.format_id == kind and not one.faults


def test_folder_yields_each_session_once(project: Path) -> None:
    fill(project)
    (project / "package.json").write_text('{"name": "x", "version": "1.0"}')
    (project / "node_modules").mkdir()
    (project / "node_modules" / "copy.json").write_bytes((project / CRAFT).read_bytes())
    assert sorted(one.format_id for one in discover.find(str(project))) == sorted(KINDS)


@pytest.mark.req("S3-94")
@pytest.mark.parametrize(
    "folder, name, codes",
    [
        ("mine", "session-state.yaml.bak", ["missing-file", "bad-backup"]),
        ("essay-pipeline-20260214-143022", "stage-4-draft.md", ["missing-file"]),
        ("essay-pipeline-20260214-143022", "README.md", []),
        ("mine", "stage-4-draft.md", []),
    ],
)
def test_essay_without_its_session_file_is_reported_only_if_certain(
    stay: Forestay, project: Path, folder: str, name: str, codes: list[str]
) -> None:
    (project / folder).mkdir()
    (project / folder / name).write_text("x")
    reported = [[f.code for f in report.findings] for report in stay.files.check(str(project))]
    assert reported == ([codes] if codes else [])


@pytest.mark.req("S3-109", "S3-113")
@pytest.mark.parametrize("odd", ["pipe", "link", "nowhere", "folder"])
def test_result_of_a_stage_counts_only_if_it_is_a_file(
    stay: Forestay, project: Path, odd: str
) -> None:
    fill(project, kinds=["essay"])
    state, thesis = project / ESSAY, (project / ESSAY).with_name("stage-1-thesis.md")
    (project / "thesis.md").write_text("Cats.")
    makers: dict[str, Callable[[], None]] = {
        "pipe": lambda: os.mkfifo(thesis),
        "link": lambda: thesis.symlink_to(project / "thesis.md"),
        "nowhere": lambda: thesis.symlink_to(project / "nowhere.md"),
        "folder": thesis.mkdir,
    }
    makers[odd]()
    stated = state.read_text().replace("thesis_file: null", f'thesis_file: "{thesis.name}"')
    state.write_text(stated)
    (report,) = stay.files.check(str(project))
    reported = ("file-missing", "S3-113") in [(f.code, f.requirement) for f in report.findings]
    assert reported == (odd != "link")


def test_folder_of_one_session_yields_only_that_session(project: Path) -> None:
    fill(project, kinds=["ai-session"])
    other = project / ".ai-session" / "other-2026-01-01"
    other.mkdir()
    (other / "state.yaml").write_bytes((project / STATE).read_bytes())
    assert len(discover.find(str(project))) == 2
    (one,) = discover.find(str(other))
    assert one.native == "other-2026-01-01"


def test_index_of_many_sessions_is_parsed_once_unless_it_changes(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(project, kinds=["ai-session"])
    root, parsed = project / ".ai-session", list[bytes]()
    for n in range(5):
        shutil.copytree((project / STATE).parent, root / f"other{n}-2026-01-01")
    parse = Document.parse

    def count_parse(data: bytes, kind: str) -> Document:
        parsed.append(data)
        return parse(data, kind)

    monkeypatch.setattr(Document, "parse", count_parse)
    discover._parse_shared.cache_clear()
    listed = (project / INDEX).read_bytes()
    finds = discover.walk(str(root))
    assert [next(finds).bundle["active-features.yaml"] for _ in range(4)] == [listed] * 4
    (project / INDEX).write_bytes(news := listed.replace(b"Z", b".5Z"))
    assert [one.bundle["active-features.yaml"] for one in finds] == [news] * 2
    assert (parsed.count(listed), parsed.count(news)) == (1, 1)


def test_state_yaml_of_another_program_makes_no_session(project: Path) -> None:
    (project / "state.yaml").write_text("resources: []\n")
    (project.parent / "active.yaml").write_text("x: 1\n")
    assert discover.find(str(project)) == []


def test_findings_have_line_place_and_requirement(stay: Forestay, project: Path) -> None:
    fill(project, kinds=["orchestrator"])
    path = project / ORCHESTRATOR
    lines = path.read_text().splitlines()
    at = next(n for n, line in enumerate(lines, 1) if '"status": "in_progress"' in line)
    path.write_text(path.read_text().replace('"in_progress"', '"wandering"', 1))
    (report,) = stay.files.check(str(path))
    (finding,) = [f for f in report.findings if f.severity == "error"]
    assert (finding.line, finding.file, finding.requirement[:3]) == (at, str(path), "S4-")


def test_number_of_phases_comes_from_the_definition_of_the_workflow(
    stay: Forestay, project: Path
) -> None:
    fill(project, kinds=["praxis"])
    path = project / PRAXIS
    value = json.loads(path.read_text())
    value["workflow_type"] = "spec_v1"
    path.write_text(json.dumps(value, indent=2))
    (before,) = stay.files.check(str(path))
    assert "total-unknown" in [finding.code for finding in before.findings]
    folder = project / ".praxis-os" / "workflows" / "spec_v1"
    folder.mkdir(parents=True)
    (folder / "metadata.json").write_text('{"workflow_type": "spec_v1", "total_phases": 4}')
    (after,) = stay.files.check(str(path))
    assert "total-unknown" not in [finding.code for finding in after.findings]
    (folder / "metadata.json").write_text('{"total_phases": "dynamic"}')
    assert stay.files.check(str(path))[0].findings == before.findings


@pytest.mark.req("S1-125")
@pytest.mark.parametrize("to", KINDS)
@pytest.mark.parametrize("is_named", [False, True], ids=["its project's", "named"])
def test_session_completed_by_its_workflow_is_completed_in_another_format(
    stay: Forestay, project: Path, tmp_path: Path, to: str, is_named: bool
) -> None:
    path = project / PRAXIS
    path.parent.mkdir(parents=True)
    path.write_bytes(next(iter(STORIES["praxis/legacy"].values())))
    value = json.loads(path.read_text())
    defined = tmp_path / "defined" if is_named else project / ".praxis-os" / "workflows"
    folder = defined / value["workflow_type"]
    folder.mkdir(parents=True)
    total = len(value["completed_phases"])
    (folder / "metadata.json").write_text(json.dumps({"total_phases": total}))
    there, back = tmp_path / "there", tmp_path / "back"
    stay.files.convert(str(path), to, str(there), workflows=str(defined) if is_named else "")
    (report,) = stay.files.check(str(there))
    assert (report.reading.complete, report.reading.status) == (True, "completed")
    if to != "praxis":
        stay.files.convert(str(there), "praxis", str(back))
        assert diff.identical(json.loads(back.read_bytes()), value)


CLOSED = [*MAIN.values(), LOG, ".praxis-os", ".craft/cache", ".claude", ".ai-session", "."]


@pytest.mark.parametrize("name", [*CLOSED, os.path.dirname(STATE)])
def test_file_without_permission_is_reported_and_not_called_damaged(
    plain_user: Path, name: str
) -> None:
    fill(plain_user)
    (plain_user / name).chmod(0)
    (fault,) = [fault for one in discover.find(str(plain_user)) for fault in one.faults]
    assert fault.code == "no-access" and "permission denied" in fault.what


@pytest.mark.parametrize("kind", MAIN)
def test_failing_disk_is_not_reported_as_a_permission_problem(
    project: Path, stay: Forestay, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(project)
    path = project / MAIN[kind]
    before = whole_snapshot(project)
    with monkeypatch.context() as patch:
        patch.setattr("forestay.base.files.read_up_to", _failing)
        (one,) = discover.find(str(path))
        assert {fault.code for fault in one.faults} == {"read-failed"}, one.faults
        with pytest.raises(StoreFailed, match="input/output error") as caught:
            stay.files.recover(str(path), fix=True)
    assert "system log" in caught.value.hint and whole_snapshot(project) == before


def _failing(*_: object) -> bytes:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_inaccessible_folder_is_reported_with_a_hint(plain_user: Path) -> None:
    fill(plain_user)
    (plain_user / ".claude").chmod(0)
    with pytest.raises(StoreFailed, match="permission denied") as caught:
        discover.find(str(plain_user / MAIN["orchestrator"]))
    assert "ls -ld" in caught.value.hint


@pytest.mark.parametrize("kind", ["../../secret", "/etc", "a/b", "", "x\0y"])
def test_workflow_name_that_is_a_path_names_no_definition(project: Path, kind: str) -> None:
    fill(project, kinds=["praxis"])
    (project / "secret").mkdir()
    (project / "secret" / "metadata.json").write_text('{"total_phases": 4}')
    path = project / PRAXIS
    value = json.loads(path.read_text())
    value["workflow_type"] = kind
    path.write_text(json.dumps(value))
    (one,) = discover.find(str(path))
    assert check_files.count_phases(one, str(project / "secret" / "x" / "y")) is None


# -- bad input ---------------------------------------------------------------------------------


def _bomb() -> bytes:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    return ("pipeline_id: x\ncurrent_state: {}\n" + "\n".join(lines)).encode()


def _merge_bomb() -> bytes:
    lines = ["m0: &m0 {a: 1}"]
    lines += [f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 9)}]}}" for n in range(1, 12)]
    return "\n".join(lines).encode()


DEEP = 40_000
BAD: dict[str, Callable[[bytes], bytes]] = {
    "object tag": lambda d: b"!!python/object/apply:os.system ['touch /tmp/pwned']\n" + d,
    "tagged value": lambda d: d + b"\nx: !!python/object:os.system {}\n",
    "alias bomb": lambda d: _bomb(),
    "merge bomb": lambda d: _merge_bomb(),
    "deep lists": lambda d: b"[" * DEEP + b"]" * DEEP,
    "deep maps": lambda d: b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "deep in key": lambda d: d[:-2] + b',"x":' + b"[" * DEEP + b"]" * DEEP + b"}",
    "deep blocks": lambda d: b"".join(b" " * n + b"a:\n" for n in range(2000)),
    "deep dashes": lambda d: b"- " * DEEP + b"x",
    "duplicate keys": lambda d: d.replace(b"\n", b"\n", 1) + d,
    "NaN": lambda d: b'{"session_id": NaN, "workflow_type": Infinity, "progress": -Infinity}',
    "yaml NaN": lambda d: b"pipeline_id: .nan\ncurrent_stage: .inf\nstages: {stage_1: .nan}\n",
    "5,000 digits": lambda d: b'{"session_id": ' + b"9" * 5000 + b', "workflow_type": "x"}',
    "huge exponent": lambda d: b'{"session_id": 1e999999, "workflow_type": 1E400}',
    "invalid UTF-8": lambda d: d[:40] + b"\xff\xfe\xc3\x28" + d[40:],
    "BOM": lambda d: b"\xef\xbb\xbf" + d,
    "UTF-16": lambda d: d.decode().encode("utf-16"),
    "UTF-16 big": lambda d: b"\xfe\xff" + d.decode().encode("utf-16-be"),
    "lone surrogate": lambda d: b'{"session_id": "\\ud800", "workflow_type": "\\udfff"}',
    "raw surrogate": lambda d: d[:30] + b"\xed\xa0\x80" + d[30:],
    "NUL tail": lambda d: d + b"\0" * 4096,
    "all NUL": lambda d: b"\0" * 4096,
    "torn": lambda d: d[: len(d) // 2],
    "torn last line": lambda d: d[:-3],
    "zero bytes": lambda d: b"",
    "one newline": lambda d: b"\n",
    "conflict": lambda d: b"<<<<<<< HEAD\n" + d + b"=======\n" + d[::-1] + b"\n>>>>>>> other\n",
    "only a number": lambda d: b"7",
    "only null": lambda d: b"null",
    "a list": lambda d: b"[1, 2, 3]",
    "control characters": lambda d: d[:20] + b"\x1b[2J\x07\x08" + d[20:],
    "a very long line": lambda d: b'{"session_id": "' + b"x" * 1_500_000 + b'"}',
    "many keys": lambda d: (
        b"{" + b",".join(b'"k%d": 1' % n for n in range(8_000)) + b', "workflow_type": "x"}'
    ),
    "brackets": lambda d: b"{[" * 50_000,
    "quotes": lambda d: b'"\\' * 50_000,
    "colons": lambda d: b"a: " * 50_000,
    "comments": lambda d: b"#" * 500_000 + b"\n" + d,
    "blank lines": lambda d: b"]" + b"\n" * 500_000,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("harm", BAD)
def test_bad_input_raises_only_our_errors_and_changes_no_file(
    stay: Forestay, project: Path, tmp_path: Path, kind: str, harm: str
) -> None:
    fill(project, kinds=[kind])
    path = project / MAIN[kind]
    path.write_bytes(BAD[harm](path.read_bytes()))
    before = snapshot(tmp_path)
    _all_commands(stay, path, tmp_path)
    after = snapshot(tmp_path)
    made = {name for name in after if name not in before}
    assert all(name.startswith(str(tmp_path / "out")) for name in made), made
    assert {name: after[name] for name in before} == before
    assert not os.path.exists("/tmp/pwned")


def _all_commands(stay: Forestay, path: Path, tmp_path: Path) -> None:
    _quick(lambda: [r.reading.status for r in stay.files.check(str(path.parent), strict=True)])
    _quick(lambda: list(stay.files.adopt(str(path))))
    _quick(lambda: stay.files.convert(str(path), "craft", str(tmp_path / "out")))
    _quick(lambda: stay.files.recover(str(path)))


def _quick(act: Callable[[], object]) -> None:
    """Run a command; only our own errors are allowed, and it must end within a bound.

    The bound is above what is needed: it detects a hang, not a slow machine.
    """
    start = time.process_time()
    with suppress(ForestayError):
        act()
    assert time.process_time() - start < 60


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", ["folder", "pipe", "link", "dead link", "loop", "1 GB"])
def test_irregular_or_huge_file_in_place_of_a_session_file_is_reported(
    stay: Forestay, project: Path, tmp_path: Path, kind: str, what: str
) -> None:
    fill(project, kinds=[kind])
    path = project / MAIN[kind]
    target = tmp_path / "target"
    path.rename(target)
    if what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    elif what == "1 GB":
        with path.open("wb") as file:
            file.truncate(1 << 30)
    else:
        path.symlink_to({"link": target, "dead link": tmp_path / "no", "loop": path}[what])
    before = target.read_bytes()
    _quick(lambda: stay.files.check(str(path)))
    _quick(lambda: list(stay.files.adopt(str(path))))
    _quick(lambda: stay.files.convert(str(path), "craft", str(tmp_path / "out")))
    _quick(lambda: stay.files.recover(str(path)))
    assert what == "link" or not (tmp_path / "out").exists()
    reports = stay.files.check(str(project))
    assert reports and not reports[0].ok, reports
    adopted = list(stay.files.adopt(str(project)))
    assert not any(one.bound for one in adopted)
    for one in adopted:
        if one.session:
            stay.session(one.session).note("goes on")
    assert target.read_bytes() == before
    assert what != "pipe" or path.is_fifo()


@pytest.mark.parametrize("kind", ["praxis", "ai-session", "orchestrator", "craft"])
def test_check_reports_the_status_of_the_session(stay: Forestay, project: Path, kind: str) -> None:
    session = stay.start("Fix login", formats=[kind])
    session.record.error("no network")
    assert [each.reading.status for each in stay.files.check(str(project))] == ["active"]
    session.lifecycle.abandon()
    assert [each.reading.status for each in stay.files.check(str(project))] == ["abandoned"]


@pytest.mark.req("S0-36", "S0-77")
def test_files_of_one_session_do_not_count_for_another(stay: Forestay, project: Path) -> None:
    fill(project, ["ai-session"])
    mine = (project / STATE).parent
    other = mine.with_name("other-2026-01-31")
    shutil.copytree(mine, other)
    (mine / "history.jsonl").unlink()
    (mine / "artifacts").mkdir(exist_ok=True)
    (mine / "artifacts" / "made.md").write_text("made")
    tasks = [{"task_id": "T", "artifacts": ["artifacts/made.md", "artifacts/gone.md"]}]
    plan = {"phases": [{"phase_id": "P", "tasks": tasks}]}
    (mine / "implementation-plan.yaml").write_text(json.dumps(plan))
    (report,) = (one for one in stay.files.check(str(project)) if one.path.startswith(f"{mine}/"))
    stated = {(finding.code, finding.where) for finding in report.findings}
    assert ("missing-file", "") in stated
    missing = [place for code, place in stated if code == "artifact-missing"]
    assert missing == ["phases[0].tasks[0].artifacts[1]"]


_OLD_PRAXIS = {
    "session_id": "062f24e7-6fdc-40b3-a2d8-7ffaea6351b6",
    "workflow_type": "spec",
    "target_file": "a.md",
    "current_phase": 1,
    "completed_phases": [0],
    "phase_artifacts": {},
    "checkpoints": {"0": "passed"},
    "created_at": "2025-10-23T07:40:50",
    "updated_at": "2025-10-23T11:14:38",
    "metadata": {"total_phases": 1},
}
_AGENT_AT_WORK = {
    "schema_version": "1.0",
    "session_id": "2025-12-27-abc123",
    "goal": "Fix login",
    "status": "in_progress",
    "agents": [{"id": "code-1", "status": "in_progress", "progress": 60}],
}


@pytest.mark.parametrize("original", [_OLD_PRAXIS, _AGENT_AT_WORK], ids=["old praxis", "agent"])
def test_check_reports_the_status_that_another_program_set_in_a_converted_file(
    stay: Forestay, project: Path, original: dict[str, object]
) -> None:
    first, craft, back = (project / name for name in ("first.json", "craft.json", "back.json"))
    first.write_text(json.dumps(original, indent=2), encoding="utf-8")
    format_id = stay.files.convert(str(first), "craft", str(craft)).source
    edited = json.loads(craft.read_bytes()) | {"status": "paused", "progress": 0.9}
    craft.write_text(json.dumps(edited, indent=2), encoding="utf-8")
    stay.files.convert(str(craft), format_id, str(back))
    (report,) = stay.files.check(str(back))
    (adopted,) = stay.files.adopt(str(back))
    seen = stay.session(adopted.session).status()
    assert (report.reading.status, report.reading.progress) == (seen.status, seen.progress)
    assert (seen.status, seen.progress) == ("paused", 0.9) and not report.reading.complete


def test_log_too_long_to_be_read_is_no_fault(stay: Forestay, project: Path) -> None:
    fill(project, kinds=["ai-session"])
    log = project / LOG
    line = log.read_bytes().splitlines()[0] + b"\n"
    log.write_bytes(line * (discover.MAX_BYTES // len(line) + 1))
    for path in (project, log):
        (report,) = stay.files.check(str(path))
        (reported,) = [each for each in report.findings if each.file == str(log)]
        assert (reported.code, reported.severity) == ("long-log", "info") and report.ok


@pytest.mark.parametrize("kind", ["craft", "orchestrator", "ai-session"])
def test_files_of_an_unsupported_version_are_changed_by_no_command(
    stay: Forestay, project: Path, tmp_path: Path, kind: str
) -> None:
    fill(project, kinds=[kind])
    path = project / MAIN[kind]
    for old in (b'"1.0.0"', b'"1.0"'):
        path.write_bytes(path.read_bytes().replace(old, b'"99"', 1))
    assert b"99" in path.read_bytes()
    before = snapshot(project)
    _all_commands(stay, path, tmp_path)
    for one in list(stay.files.adopt()):
        assert (
            one.reading.warning
            == "version 99 is not supported for writing; the files are not changed"
        )
        if one.session:
            session = stay.session(one.session)
            session.resume()
            session.note("goes on")
            session.pause()
    stay.doctor(fix=True)
    assert snapshot(project) == before


@pytest.mark.req("S0-86")
@pytest.mark.parametrize("left", ["state.yaml", "implementation-plan.yaml", "history.jsonl", ""])
def test_partly_written_session_is_found(project: Path, left: str) -> None:
    fill(project, kinds=["ai-session"])
    folder = (project / STATE).parent
    (folder / "artifacts").mkdir(exist_ok=True)
    for name in ("state.yaml", "implementation-plan.yaml", "history.jsonl"):
        if name != left:
            (folder / name).unlink()
    (project / INDEX).unlink()
    finds = discover.find(str(project))
    assert [one.native for one in finds] == [folder.name]


def test_ids_that_differ_only_in_case_are_different_sessions(stay: Forestay, project: Path) -> None:
    fill(project, kinds=["craft"])
    path = project / CRAFT
    value = json.loads(path.read_text())
    value["session_id"] = value["session_id"].upper()
    path.with_name(f"{value['session_id']}.json").write_text(json.dumps(value))
    adopted = list(stay.files.adopt())
    assert len(adopted) == 2
    assert len({one.session.lower() for one in adopted if one.session}) == len(
        [one for one in adopted if one.session]
    )


def test_damage_in_an_essay_or_a_log_is_reported_by_adopt(stay: Forestay, project: Path) -> None:
    fill(project, kinds=["essay", "ai-session"])
    (project / ESSAY).write_bytes((project / ESSAY).read_bytes() + b"\n  odd: [")
    (project / LOG).write_bytes((project / LOG).read_bytes()[:-9])
    for one in stay.files.adopt():
        assert one.problems


# -- backups -----------------------------------------------------------------------------------


def _pipe(path: Path, _: bytes) -> None:
    os.mkfifo(path)


BACKUPS: dict[str, tuple[Callable[[Path, bytes], object], str]] = {
    "torn": (lambda path, data: path.write_bytes(data[:200]), "breaks off"),
    "empty": (lambda path, _: path.write_bytes(b""), "no essay session"),
    "not YAML": (lambda path, _: path.write_bytes(b"a: [1\n"), "line"),
    "another thing": (lambda path, _: path.write_bytes(b"a: 1\n"), "no essay session"),
    "a pipe": (_pipe, "a pipe"),
    "a link": (lambda path, _: path.symlink_to("session-state.yaml"), "a link"),
}


@pytest.mark.req("S3-92")
@pytest.mark.parametrize("harm", BACKUPS)
def test_unusable_backup_is_reported_as_a_warning(project: Path, stay: Forestay, harm: str) -> None:
    fill(project, kinds=["essay"])
    state = project / ESSAY
    backup = state.with_name(f"{state.name}.bak")
    backup.write_bytes(state.read_bytes())
    (before,) = stay.files.check(str(state.parent))
    assert "bad-backup" not in [finding.code for finding in before.findings]
    backup.unlink()
    BACKUPS[harm][0](backup, state.read_bytes())
    (report,) = stay.files.check(str(state.parent))
    (reported,) = [finding for finding in report.findings if finding.code == "bad-backup"]
    assert (reported.file, reported.severity, report.ok) == (str(backup), "warning", before.ok)
    assert "the backup cannot be used" in reported.what and report.findings[:-1] == before.findings
