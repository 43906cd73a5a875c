"""Proofs: what is stored of a command, and when a proof becomes stale."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import forestay
from forestay.api.forestay import Forestay
from forestay.api.session import Session
from forestay.base import files
from forestay.base.clock import derived_id
from forestay.errors import Busy, InvalidInput, Refused
from forestay.model.event import EvidenceObserved
from forestay.plans import input_digests, prove, run_command
from tests.cli.support import command, environment
from tests.homes import state_of
from tests.plans.test_run_command import gone

SECRET = "ghp_" + "a1B2" * 9


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src/a.py").write_text("one")
    return folder


@pytest.fixture
def stay(tmp_path: Path, project: Path) -> Iterator[Forestay]:
    with forestay.open(str(tmp_path / "home"), cwd=str(project)) as home:
        yield home


@pytest.fixture
def session(stay: Forestay) -> Session:
    return stay.start("show that it works")


def ran(session: Session, *argv: str, **how: Any) -> EvidenceObserved:
    body = session.proofs.run(argv, **how).body
    assert isinstance(body, EvidenceObserved)
    return body


def python(session: Session, code: str, **how: Any) -> EvidenceObserved:
    return ran(session, sys.executable, "-c", code, **how)


def word(session: Session) -> str:
    (one,) = session.proofs.list()
    return one.state


def test_a_command_is_stored_with_its_result(session: Session) -> None:
    body = ran(session, "sh", "-c", "echo all is well", inputs=["src/**"], name="works")
    assert (body.proof, body.exit, body.tail, body.globs) == ("works", 0, "all is well", ["src/**"])
    assert body.argv == ["sh", "-c", "echo all is well"] and body.files == 1
    kept = session.context.store.blob(body.blob)
    assert kept is not None and list(input_digests.parse(kept)) == ["src/a.py"]
    assert session.verify().ok


def test_failed_command_is_recorded_as_failed(session: Session) -> None:
    assert ran(session, "sh", "-c", "exit 3").exit == 3
    (one,) = session.proofs.list()
    assert (one.state, one.holds) == ("failed", False)


def test_a_proof_without_inputs_never_becomes_stale(session: Session, project: Path) -> None:
    ran(session, "true")
    (project / "src/a.py").write_text("two")
    assert word(session) == "passed"


def _edit(src: Path) -> None:
    (src / "a.py").write_text("two")


def _add(src: Path) -> None:
    (src / "b.py").write_text("new")


def _delete(src: Path) -> None:
    (src / "a.py").unlink()


def _rename(src: Path) -> None:
    (src / "a.py").rename(src / "c.py")


@pytest.mark.parametrize("change", [_edit, _add, _delete, _rename])
@pytest.mark.parametrize("git", [True, False])
def test_change_of_its_inputs_makes_a_proof_stale(
    session: Session, project: Path, change: Any, git: bool
) -> None:
    if git:
        subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    ran(session, "true", inputs=["src/**"])
    assert word(session) == "fresh"
    change(project / "src")
    assert word(session) == "stale"


def test_a_reverted_change_leaves_a_proof_fresh(session: Session, project: Path) -> None:
    ran(session, "true", inputs=["src/**"])
    (project / "src/a.py").write_text("two")
    (project / "src/a.py").write_text("one")
    assert word(session) == "fresh"


def test_inputs_that_change_during_a_proof_make_it_stale_at_once(session: Session) -> None:
    body = ran(session, "sh", "-c", "echo more >> src/a.py", inputs=["src/**"])
    assert body.changed and body.exit == 0
    (one,) = session.proofs.list()
    (file,) = one.because
    assert one.stale and (file.path, file.what) == ("inputs", "changed while it ran")


def test_run_again_runs_only_stale_proofs(session: Session, project: Path) -> None:
    ran(session, "sh", "-c", "echo a >> ../ran", name="a", inputs=["src/**"])
    ran(session, "sh", "-c", "echo b >> ../ran", name="b")
    assert list(session.proofs.run_again()) == []
    (project / "src/a.py").write_text("two")
    ((before, event),) = session.proofs.run_again()
    assert (before.proof, before.state) == ("a", "stale")
    assert isinstance(event.body, EvidenceObserved) and event.body.proof == "a"
    assert (project.parent / "ran").read_text() == "a\nb\na\n"
    assert [one.state for one in session.proofs.list()] == ["passed", "fresh"]
    assert len(list(session.proofs.run_again(all=True))) == 2


def test_failed_proof_is_run_again_even_if_its_inputs_are_unchanged(
    session: Session, project: Path
) -> None:
    ran(session, "test", "-e", "../there", inputs=["src/**"])
    ((_, event),) = session.proofs.run_again()
    assert getattr(event.body, "exit", 0) == 1 and word(session) == "failed"
    (project.parent / "there").write_text("nothing that is an input")
    list(session.proofs.run_again())
    assert word(session) == "fresh"
    assert list(session.proofs.run_again()) == []


def test_run_again_accepts_a_timeout(session: Session) -> None:
    body = ran(session, "sleep", "30", timeout=0.01)
    assert body.timed_out
    ((_, event),) = session.proofs.run_again(timeout=0.01)
    assert getattr(event.body, "timed_out", False)


def test_a_proof_that_cannot_be_run_again_does_not_block_others(session: Session) -> None:
    ran(session, "false", "--password", "hunter22x9")
    ran(session, "false", name="other")
    again = session.proofs.run_again()
    assert next(again).before.proof == "other"
    with pytest.raises(Refused, match="cannot be run again"):
        next(again)


def test_proof_is_run_again_in_its_original_folder(tmp_path: Path, project: Path) -> None:
    with forestay.open(str(tmp_path / "home"), cwd=str(project)) as stay:
        stay.start("from a folder below")
    with forestay.open(str(tmp_path / "home"), cwd=str(project / "src")) as stay:
        body = ran(stay.current(), "ls", inputs=["src/**"])
        assert (body.folder, body.tail) == ("src", "a.py")
    with forestay.open(str(tmp_path / "home"), cwd=str(project)) as stay:
        ((_, event),) = stay.current().proofs.run_again(all=True)
        assert getattr(event.body, "tail", "") == "a.py"


def test_secrets_are_removed_before_storing(session: Session) -> None:
    shown: list[bytes] = []
    body = ran(session, "sh", "-c", f"echo token {SECRET}", sink=shown.append)
    assert SECRET.encode() in b"".join(shown), "what the user sees is what the command printed"
    assert SECRET not in repr(body) and "[redacted:github-token]" in body.tail
    clean = ran(session, "echo", "token [redacted:github-token]")
    assert body.output == clean.output, "the digest is that of the redacted output"


def test_a_command_with_a_secret_is_redacted_and_cannot_be_run_again(
    session: Session,
) -> None:
    body = ran(session, "echo", "--password", "hunter22x9")
    assert "hunter22x9" not in repr(body) and body.redacted
    with pytest.raises(Refused, match="cannot be run again"):
        list(session.proofs.run_again(all=True))


def test_binary_output_is_stored_as_text(session: Session) -> None:
    body = python(session, "import sys\nsys.stdout.buffer.write(bytes(range(256)) * 40 + b'end')")
    assert body.exit == 0 and body.tail.endswith("end") and body.printed == 256 * 40 + 3
    assert session.verify().ok


def test_the_end_of_a_long_output_is_stored(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_command, "HEAD", 1000)
    body = python(session, f"print('x\\n' * 100_000 + '{SECRET} was the last line')")
    assert body.tail.endswith("was the last line") and SECRET not in body.tail
    assert body.printed > 200_000 and len(body.tail) <= 2000


def test_missing_command_is_refused_and_nothing_is_recorded(session: Session) -> None:
    with pytest.raises(InvalidInput, match="there is no command"):
        session.proofs.run(["no-such-command"])
    assert session.status().seq == 1 and not session.proofs.list()


def test_inputs_that_match_nothing_are_refused_before_anything_runs(
    session: Session, project: Path
) -> None:
    with pytest.raises(InvalidInput, match=r"no file matches nothing/\*\*"):
        session.proofs.run(["touch", "it-ran"], inputs=["src/**", "nothing/**"])
    assert not (project / "it-ran").exists()


def test_command_that_cannot_be_recorded_is_not_run(session: Session, project: Path) -> None:
    with pytest.raises(Refused, match="no task nine"):
        session.proofs.run(["touch", "it-ran"], phase="nine")
    with pytest.raises(InvalidInput, match="cannot be used"):
        session.proofs.run(["touch", "it-ran"], name="a b")
    with pytest.raises(InvalidInput, match="too long"):
        session.proofs.run(["echo", "x" * 9000])
    session.complete()
    with pytest.raises(Refused):
        session.proofs.run(["touch", "it-ran"])
    assert not (project / "it-ran").exists()


def test_proof_is_for_the_running_phase_unless_one_is_named(session: Session) -> None:
    for number in (1, 2):
        session.tasks.add(f"Phase {number}", id=f"phase-{number}")
    session.tasks.start("phase-2")
    assert ran(session, "true", name="a").step == "phase-2"
    assert ran(session, "true", name="a", phase="1").step == "phase-1"
    assert ran(session, "false", name="b", phase="phase-1").step == "phase-1"
    assert len(session.proofs.list()) == 3
    assert prove.observed(session._recorder, "phase-1")[0] == {"a": True, "b": False}


def test_gates_see_how_each_proof_ended_and_which_are_stale(
    session: Session, project: Path
) -> None:
    ran(session, "true", name="lint", inputs=["src/**"])
    ran(session, "false", name="tests")
    assert prove.observed(session._recorder, "phase-1") == (
        {"lint": True, "tests": False},
        frozenset(),
    )
    (project / "src/a.py").write_text("two")
    assert prove.observed(session._recorder, "phase-1")[1] == {"lint"}


def test_proof_repeated_with_the_same_key_is_run_once(session: Session, project: Path) -> None:
    argv = ["sh", "-c", "echo ran >> ../ran"]
    first = session.proofs.run(argv, key="k1")
    assert session.proofs.run(argv, key="k1") == first and session.repeated
    assert (project.parent / "ran").read_text() == "ran\n"
    with pytest.raises(Refused, match="already used for another call"):
        session.proofs.run(["true"], key="k1")


def test_command_that_times_out_is_ended_and_recorded(session: Session) -> None:
    body = ran(session, "sleep", "600", timeout=0.3)
    assert body.timed_out and body.exit == 128 + signal.SIGTERM
    assert word(session) == "failed"


def test_two_concurrent_proofs_are_both_recorded(
    session: Session, tmp_path: Path, project: Path
) -> None:
    def other(name: str) -> None:
        with forestay.open(str(tmp_path / "home"), cwd=str(project)) as stay:
            mine = stay.session(session.id)
            mine.proofs.run(["sh", "-c", "sleep 0.3; echo " + name], name=name, inputs=["src/**"])

    threads = [threading.Thread(target=other, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {one.proof: one.tail for one in session.proofs.list()} == {
        "one": "one",
        "two": "two",
    }


def test_own_format_files_are_not_inputs(session: Session, project: Path) -> None:
    session.files.bind("craft")
    ran(session, "true", inputs=["**"])
    session.note("which changes the file of the format")
    assert word(session) == "fresh"


def test_history_file_shows_a_proof_as_a_command(session: Session, project: Path) -> None:
    session.files.bind("ai-session")
    ran(session, "sh", "-c", "exit 2")
    session.note("something else")
    history = "".join(path.read_text() for path in project.rglob("history.jsonl"))
    assert "exit 2" in history and session.status().seq == 3


def test_an_exported_proof_includes_its_inputs(session: Session, tmp_path: Path) -> None:
    body = ran(session, "true", inputs=["src/**"])
    session.export(str(tmp_path / "it.fspack"))
    with forestay.open(
        str(tmp_path / "other"), cwd=str(session.context.workspace.tree.root)
    ) as stay:
        stay.backups.import_(str(tmp_path / "it.fspack"))
        assert stay.context.store.blob(body.blob) and word(stay.session(session.id)) == "fresh"


def test_a_briefing_lists_which_proofs_hold(session: Session, project: Path) -> None:
    ran(session, "true", name="ok", inputs=["src/**"])
    ran(session, "false", name="bad")
    brief = session.brief(fenced=False)
    assert "ok: true: passed, inputs unchanged" in brief.text
    assert "bad: proof false: failed (exit 1)" in brief.text and "stale" not in brief.attention
    (project / "src/a.py").write_text("two")
    brief = session.brief(fenced=False)
    assert "its inputs changed since it passed" in brief.text and "stale" in brief.attention


def test_a_briefing_checks_no_more_files_than_its_limit(session: Session, project: Path) -> None:
    for number in range(201):
        (project / f"src/{number}.py").write_text("x")
    ran(session, "true", name="big", inputs=["src/**"])
    assert "inputs not checked since" in session.brief(fenced=False).text
    assert word(session) == "fresh"


def test_process_killed_during_a_proof_leaves_an_unknown_outcome(
    session: Session, tmp_path: Path, project: Path
) -> None:
    home, started = tmp_path / "home", tmp_path / "started"
    code = f"import os,time\nopen({str(started)!r},'w').write(str(os.getpid()))\ntime.sleep(600)"
    process = subprocess.Popen(
        [*command(), "prove", "--as", "slow", "--", sys.executable, "-c", code],
        cwd=project,
        env=environment(FORESTAY_HOME=str(home)),
    )
    while not (started.exists() and started.read_text()):
        time.sleep(0.01)
    (held,) = [one for one in session.agents.others() if one.state == "alive"]
    assert held.doing.startswith("proving slow: ")
    process.kill()
    process.wait()
    assert gone(int(started.read_text())), "the command still runs"
    brief = session.resume(fenced=False)
    assert "- interrupted: its process died at: proving slow" in brief.text
    assert brief.unknown_outcomes == 1
    assert not session.proofs.list()


def test_concurrent_proofs_with_one_key_run_the_command_once(
    session: Session, tmp_path: Path, project: Path
) -> None:
    ran = project / "ran"
    argv = ["sh", "-c", f"echo once >> {ran}; sleep 0.5"]
    ids: list[str] = []

    def other() -> None:
        with forestay.open(str(tmp_path / "home"), cwd=str(project)) as home:
            ids.append(home.session(session.id).proofs.run(argv, name="slow", key="k").id)

    threads = [threading.Thread(target=other) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert ran.read_text() == "once\n"
    assert len(ids) == 3 and len(set(ids)) == 1
    assert not list((tmp_path / "home/proving").iterdir())


def test_waiting_too_long_for_the_same_key_raises_busy(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prove, "_PATIENCE", 0.0)
    folder = tmp_path / "home/proving"
    folder.mkdir(mode=0o700)
    with files.locked(str(folder / derived_id(session.id, "k")), private=True):
        with pytest.raises(Busy, match="under this key") as caught:
            session.proofs.run(["true"], name="quick", key="k")
    assert caught.value.retryable and "same key" in caught.value.hint
    assert not session.proofs.list()
    assert ran(session, "true", name="quick", key="k").exit == 0


def test_this_process_still_holds_the_session_after_a_proof(session: Session) -> None:
    ran(session, "true")
    (held,) = [holder for holder, _ in session.context.workspace.holders(session.id)]
    assert held.doing == ""


# -- at a gate ---------------------------------------------------------------------------------

GATED = """
workflow: gated
phases:
  - {name: Build, evidence: {tests: observed, coverage: {min: 80, required: false}}}
  - {name: Ship, evidence: {tests: observed, notes: string}}
"""


def test_a_gate_with_observed_evidence_accepts_no_claim_and_no_stale_proof(
    stay: Forestay, project: Path
) -> None:
    (project / "gated.yaml").write_text(GATED)
    session = stay.start("build it", workflow="./gated.yaml")
    assert not session.phases.done(1, {"tests": True}).passed
    ran(session, "false", name="tests", inputs=["src/**"])
    assert not session.phases.done(1).passed
    ran(session, "true", name="tests", inputs=["src/**"])
    (project / "src/a.py").write_text("another")
    judged = session.phases.done(1).judgment
    assert judged is not None and "before its inputs changed" in judged.issue
    list(session.proofs.run_again())
    assert session.phases.done(1, {"coverage": 90}).passed
    ran(session, "true", name="tests")
    assert session.phases.done(2, {"notes": "all of it"}).passed
    rows: list[Any] = list(state_of(session).rows.select("checkpoint"))
    seen = [row.observed for row in rows]
    assert seen == [True, False], "the notes were claimed, not observed"


def test_the_briefing_reports_an_interrupted_proof(session: Session) -> None:
    session.proofs.run(["sleep", "20"], name="left", stop=lambda: True)
    session.proofs.run(["sleep", "20"], name="slow", timeout=0.05)
    text = session.brief().text
    assert "proof sleep 20: failed (interrupted)" in text
    assert "proof sleep 20: failed (timed out)" in text
