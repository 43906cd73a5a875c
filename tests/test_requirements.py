"""Requirements of the documents for the core, tested through the library.

Each test cites the requirements it shows; docs/requirements.md has their text. Requirements tested
elsewhere (durability, locks, refusals, the display) are marked there.
"""

from __future__ import annotations

import inspect
import json
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import forestay
from forestay import Forestay, InvalidInput, Refused, Session
from forestay.base.clock import FakeClock, iso
from forestay.journal.topics import Topic
from forestay.model.event import Sealed
from forestay.model.state import Agent, Decision, File, Problem, Row
from tests.homes import state_of


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


@pytest.fixture
def stay(tmp_path: Path, folder: Path, clock: FakeClock) -> Iterator[Forestay]:
    with forestay.open(str(tmp_path / "home"), cwd=str(folder), clock=clock) as opened:
        yield opened


@pytest.fixture
def s(stay: Forestay) -> Session:
    return stay.start("Add login", id="login")


def data(session: Session) -> dict[str, Any]:
    """Return the stored data of the last event."""
    found: dict[str, Any] = json.loads(stored(session)[-1].data or b"{}")
    return found


def stored(session: Session) -> list[Sealed]:
    with session.context.store.view(session.id) as view:
        return [Sealed(e.header, e.salt, e.data) for e in view.events()]


def agent(session: Session, id: str) -> Agent:
    found = state_of(session).agent(id)
    assert found is not None
    return found


def newest(session: Session, table: str) -> Row | None:
    return next(iter(state_of(session).rows.select(table, newest=True, limit=1)), None)


def is_refused(session: Session, act: Callable[[], object]) -> bool:
    """Return whether the call is refused as bad input and records nothing."""
    before = stored(session)
    with pytest.raises(InvalidInput):
        act()
    return stored(session) == before


# -- the journal -------------------------------------------------------------------------------

EVERY_VERB: list[Callable[[Session], object]] = [
    lambda s: s.note("a remark"),
    lambda s: s.decide("database", options=["SQLite", "Postgres"], chosen="SQLite"),
    lambda s: s.record.error("the API answers 503", category="transient"),
    lambda s: s.record.command("pytest", status="failure", error="2 failed"),
    lambda s: s.record.file("a.txt"),
    lambda s: s.record.artifact("a.txt"),
    lambda s: s.record.tokens(2500),
    lambda s: s.record.compaction("shorter"),
    lambda s: s.record.rename("Add login and logout"),
    lambda s: s.record.model("opus"),
    lambda s: s.record.attribute("ticket", "P-1"),
    lambda s: s.files.update(model="sonnet"),
    lambda s: s.undo(),
    lambda s: s.tasks.add("the form", id="form"),
    lambda s: s.tasks.add("the page", id="page"),
    lambda s: s.tasks.start("form"),
    lambda s: s.tasks.block("form", "no design"),
    lambda s: s.tasks.unblock("form"),
    lambda s: s.tasks.done("form", outcome="it works"),
    lambda s: s.tasks.skip("page", "not needed"),
    lambda s: s.proofs.run(["true"]),
    lambda s: list(s.proofs.run_again(all=True)),
    lambda s: s.revisit.apply("form", because="it does not"),
    lambda s: s.revisit.undo(),
    lambda s: s.agents.start("code-1", task="the form"),
    lambda s: s.agents.progress("code-1", 0.5),
    lambda s: s.agents.timeout("code-1"),
    lambda s: s.agents.retry("code-1"),
    lambda s: s.agents.fail("code-1", "no memory"),
    lambda s: s.agents.retry("code-1"),
    lambda s: s.agents.done("code-1", result="done"),
    lambda s: s.pause(),
    lambda s: s.resume(),
    lambda s: s.lifecycle.fail(because="no access"),
    lambda s: s.resume(),
    lambda s: s.complete(),
    lambda s: s.lifecycle.archive(),
    lambda s: s.lifecycle.unarchive(),
    lambda s: s.lifecycle.reopen("a case is left"),
    lambda s: s.lifecycle.abandon(),
    lambda s: s.lifecycle.reopen("after all"),
    lambda s: s.lifecycle.abort(),
]


def assert_each_appends(
    s: Session, verbs: list[Callable[[Session], object]], clock: FakeClock
) -> None:
    before = stored(s)
    for act in verbs:
        clock.sleep(60)
        act(s)
        after = stored(s)
        assert after[: len(before)] == before and len(after) > len(before)
        assert s.status().as_json()["updated_at"] == iso(clock.now())
        before = after
    assert s.verify().ok


@pytest.mark.req("S0-59", "S0-60", "S0-70")
def test_every_verb_appends_and_changes_no_earlier_event(
    s: Session, clock: FakeClock, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "a.txt").write_text("one\n")
    assert_each_appends(s, EVERY_VERB, clock)


# The verbs of a plan, in an order in which each is allowed.
PLAN_VERBS: list[Callable[[Session], object]] = [
    lambda s: s.phases.fail(1, {"n": 1}, issue="no"),
    lambda s: s.phases.retry(),
    lambda s: s.phases.done(1, {"n": 2}),
    lambda s: s.phases.total(3, names=["End"]),
    lambda s: s.phases.rollback(1),
]


@pytest.mark.req("S0-59", "S0-60")
def test_every_verb_of_a_plan_appends(stay: Forestay, clock: FakeClock, folder: Path) -> None:
    (folder / "w.yaml").write_text("workflow: w\nphases: [Look]\neach: Part\n")
    s = stay.start("Go through it", workflow="./w.yaml")
    assert_each_appends(s, PLAN_VERBS, clock)


ESSAY_VERBS: list[Callable[[Session], object]] = [
    lambda s: s.essay.pushback("light"),
    lambda s: s.essay.approve("G1"),
    lambda s: s.essay.approve("G2"),
    lambda s: s.essay.sections.add(2, title="More"),
    lambda s: s.essay.sections.start(2),
    lambda s: s.essay.sections.done(1, map="map.md"),
    lambda s: s.essay.claims.defer("Cats sleep", reason="timeout", section=1),
    lambda s: s.essay.claims.resolve("c1"),
    lambda s: s.essay.claims.defer("Dogs bark", reason="no_results"),
    lambda s: s.essay.claims.override("c2", result="contested", because="heard it"),
    lambda s: s.essay.approve("G3", section=1),
    lambda s: s.essay.paragraph_done(1, section=1),
    lambda s: s.essay.voice(4, section=1),
    lambda s: s.essay.calibrate(4),
    lambda s: s.essay.output("final-essay.md"),
]


@pytest.mark.req("S0-59", "S0-60")
def test_every_verb_of_an_essay_appends(stay: Forestay, clock: FakeClock, folder: Path) -> None:
    (folder / "stage-1-thesis.md").write_text("# Thesis\n\nCats are asleep.\n")
    outline = "# Outline\n\n- **Sections**: 1\n\n### Section 1: Sleep (~100 words)\n"
    (folder / "stage-2-outline.md").write_text(outline)
    for name in ("map.md", "stage-4-draft.md", "final-essay.md"):
        (folder / name).write_text("Cats sleep.\n")
    s = stay.start("Write of cats", workflow="essay")
    assert_each_appends(s, ESSAY_VERBS, clock)


def test_every_verb_that_records_is_tested() -> None:
    """Check that the lists above include every method with a `key`, except one."""
    verbs = [*EVERY_VERB, *PLAN_VERBS, *ESSAY_VERBS]
    tried = {name for act in verbs for name in act.__code__.co_names}
    recording = {
        name
        for owner in (Session, *Topic.__subclasses__())
        for name, method in vars(owner).items()
        if name[0] != "_" and callable(method) and "key" in inspect.signature(method).parameters
    }
    # Settling needs two devices: test_settle.
    assert recording - tried == {"settle"}


@pytest.mark.req("S0-72")
@pytest.mark.parametrize("taken", ["login", "LOGIN"])
def test_an_id_is_used_once(stay: Forestay, s: Session, taken: str) -> None:
    before = stored(s)
    with pytest.raises(Refused):
        stay.start("Something else", id=taken)
    assert [(one.session, one.goal) for one in stay.list(all=True)] == [("login", "Add login")]
    assert stored(s) == before


# -- commands that ran -------------------------------------------------------------------------


@pytest.mark.req("S0-40")
def test_arguments_survive_quotes_and_newlines(s: Session) -> None:
    text = 'say "it\'s\n\tdone" \\ {"a": [1]} # – 🔄'
    s.record.command("sh", arguments=text)
    assert data(s)["arguments"] == text


@pytest.mark.req("S0-44")
def test_a_command_ends_only_in_success_or_failure(s: Session) -> None:
    for status in ("success", "failure"):
        s.record.command("make", status=status)
    assert {"command.success": 1, "command.failure": 1}.items() <= state_of(s).core.counts.items()
    for other in ("", "ok", "SUCCESS", "error"):
        assert is_refused(s, partial(s.record.command, "make", status=other))  # type: ignore[arg-type]


@pytest.mark.req("S0-45")
def test_a_duration_is_a_whole_number_of_milliseconds(s: Session) -> None:
    s.record.command("make", duration_ms=5300)
    assert data(s)["duration_ms"] == 5300
    s.record.command("make", duration_ms=0)
    assert data(s)["duration_ms"] == 0
    assert is_refused(s, lambda: s.record.command("make", duration_ms=-1))
    assert is_refused(s, lambda: s.record.command("make", duration_ms=1.5))  # type: ignore[arg-type]


# -- the life of a session ---------------------------------------------------------------------


@pytest.mark.req("S1-8")
def test_paused_completed_and_failed_are_recorded_not_derived(s: Session) -> None:
    s.record.error("something broke")
    s.tasks.add("the only one", id="t")
    s.tasks.done("t")
    assert s.status().status == "active"
    s.pause()
    assert s.status().status == "paused"
    s.resume()
    s.lifecycle.fail()
    assert s.status().status == "failed"
    s.resume()
    s.complete()
    assert s.status().status == "completed"


@pytest.mark.req("S1-47", "S1-69")
def test_a_new_session_is_neither_paused_nor_completed_nor_ever_resumed(s: Session) -> None:
    new = s.status()
    assert (new.status, new.as_json()["paused_at"], new.resumes) == ("active", None, 0)
    assert state_of(s).core.ended_at == 0
    for count in (1, 2, 3):
        s.pause()
        s.resume()
        assert s.status().resumes == count


@pytest.mark.req("S1-44", "S1-45")
def test_a_pause_has_one_of_three_reasons_and_a_context(s: Session) -> None:
    for reason in ("user_request", "checkpoint_failed", "system_error"):
        s.pause(reason=reason, context=f"halfway, {reason}")
        core = state_of(s).core
        assert (core.pause_reason, core.pause_context) == (reason, f"halfway, {reason}")
        s.resume()
        core = state_of(s).core
        assert (core.pause_reason, core.pause_context) == ("", "")
    assert is_refused(s, lambda: s.pause(reason="tired"))  # type: ignore[arg-type]
    s.pause()
    core = state_of(s).core
    assert (core.pause_reason, core.pause_context) == ("user_request", "")


@pytest.mark.req("S1-48", "S1-49")
def test_the_last_error_is_known_with_its_time(s: Session, clock: FakeClock) -> None:
    assert newest(s, "error") is None
    for message in ("the first", "the last"):
        clock.sleep(60)
        s.record.error(message)
    s.note("work went on")
    last = newest(s, "error")
    assert isinstance(last, Problem)
    assert (last.message, last.at) == ("the last", clock.now())


@pytest.mark.req("S2-16")
@pytest.mark.parametrize("goal", ["", " ", "\n"])
def test_every_session_has_a_goal(stay: Forestay, s: Session, goal: str) -> None:
    assert is_refused(s, lambda: stay.start(goal))
    assert is_refused(s, lambda: s.record.rename(goal))
    assert [one.goal for one in stay.list(all=True)] == ["Add login"]


@pytest.mark.req("S2-17")
def test_a_session_has_one_of_four_modes(stay: Forestay, s: Session) -> None:
    assert state_of(s).core.mode == "default"
    for mode in ("debug", "default", "optimize", "release"):
        assert state_of(stay.start("Another", mode=mode)).core.mode == mode
    count = len(stay.list(all=True))
    for other in ("", "fast", "Debug"):
        with pytest.raises(InvalidInput):
            stay.start("Another", mode=other)  # type: ignore[arg-type]
    assert len(stay.list(all=True)) == count


@pytest.mark.req("S2-19")
def test_progress_is_between_0_and_1_from_any_source(s: Session) -> None:
    def progress() -> tuple[object, object]:
        status = s.status()
        return status.progress, status.progress_from

    assert progress() == (0.0, "none")
    s.agents.start("a")
    s.agents.progress("a", 0.5)
    s.agents.start("b")
    assert progress() == (0.25, "agents")
    for id in ("t1", "t2", "t3", "t4"):
        s.tasks.add("a part", id=id)
    s.tasks.done("t1")
    s.tasks.skip("t2", "covered")
    s.tasks.done("t3")
    assert progress() == (0.75, "steps")
    s.record.attribute("progress", 0.65)
    assert progress() == (0.65, "given")
    for beyond in (1.5, -1, 65):
        with pytest.raises(InvalidInput, match="0 to 1"):
            s.record.attribute("progress", beyond)
        assert progress() == (0.65, "given")


# -- agents ------------------------------------------------------------------------------------


@pytest.mark.req("S2-39", "S2-40", "S2-41", "S2-42", "S2-43")
def test_agents_have_a_status_for_each_outcome(s: Session) -> None:
    s.record.tokens(900, agent="planned")
    for id in ("at-work", "finished", "broken", "late"):
        s.agents.start(id)
    s.agents.done("finished", result="12 tests pass")
    s.agents.fail("broken", "no memory")
    s.agents.timeout("late")
    rows = state_of(s).rows.select("agent")
    assert {row.name: row.status for row in rows if isinstance(row, Agent)} == {
        "planned": "pending",
        "at-work": "running",
        "finished": "done",
        "broken": "failed",
        "late": "timed_out",
    }
    assert s.status().running == ["at-work"]
    assert agent(s, "planned").started_at == 0
    assert agent(s, "broken").error == "no memory"


@pytest.mark.req("S2-27")
def test_an_agents_progress_is_between_0_and_1_and_unknown_until_reported(s: Session) -> None:
    s.agents.start("code-1")
    assert agent(s, "code-1").fraction is None
    for part in (0, 0.65, 1.0):
        s.agents.progress("code-1", part)
        assert agent(s, "code-1").fraction == part
    for beyond in (-0.1, 1.01, 60, float("nan")):
        assert is_refused(s, partial(s.agents.progress, "code-1", beyond))


@pytest.mark.req("S2-29")
def test_an_agent_may_wait_for_another(s: Session) -> None:
    s.agents.start("arch-1")
    s.agents.start("code-1", blocking_on="arch-1")
    assert [agent(s, id).blocking_on for id in ("arch-1", "code-1")] == ["", "arch-1"]
    assert is_refused(s, lambda: s.agents.start("code-2", blocking_on="no id at all"))


@pytest.mark.req("S2-31")
def test_an_error_has_one_of_five_categories(s: Session) -> None:
    for category in ("transient", "resource", "configuration", "logical", "permanent"):
        s.agents.start(f"a-{category}")
        s.agents.fail(f"a-{category}", "it broke", category=category)
        assert agent(s, f"a-{category}").category == category
        s.record.error("it broke", category=category)
    s.agents.start("a")
    assert is_refused(s, lambda: s.agents.fail("a", "it broke", category="cosmic"))  # type: ignore[arg-type]
    assert is_refused(s, lambda: s.record.error("it broke", category="cosmic"))  # type: ignore[arg-type]


@pytest.mark.req("S2-32", "S2-33", "S2-34")
def test_a_failed_agent_has_its_message_attempts_and_last_retry(
    s: Session, clock: FakeClock
) -> None:
    s.agents.start("code-1")
    s.agents.fail("code-1", "rate limited", category="transient")
    first = agent(s, "code-1")
    assert (first.error, first.attempts, first.retried_at) == ("rate limited", 1, 0)
    for tries in (2, 3):
        clock.sleep(60)
        s.agents.retry("code-1")
        tried_at = clock.now()
        clock.sleep(5)
        s.agents.fail("code-1", f"try {tries} failed")
        again = agent(s, "code-1")
        assert (again.error, again.attempts) == (f"try {tries} failed", tries)
        assert again.retried_at == tried_at


# -- decisions ---------------------------------------------------------------------------------


@pytest.mark.req("S2-48", "S2-49", "S2-50", "S2-51", "S2-52")
def test_a_decision_has_its_subject_options_choice_and_reason(s: Session, clock: FakeClock) -> None:
    clock.sleep(60)
    s.decide("the store", options=["SQLite", "files"], chosen="SQLite", because="one file")
    made = newest(s, "decision")
    assert isinstance(made, Decision)
    assert (made.at, made.what, made.because) == (clock.now(), "the store", "one file")
    assert (made.options, made.chosen, made.rejected) == (["SQLite", "files"], "SQLite", ["files"])
    assert is_refused(s, lambda: s.decide("x", options=["SQLite", "files"], chosen="paper"))
    s.decide("the name")
    made = newest(s, "decision")
    assert isinstance(made, Decision)
    assert (made.what, made.options, made.chosen, made.because) == ("the name", [], "", "")


# -- files -------------------------------------------------------------------------------------


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True)


@pytest.mark.req("S2-54", "S2-55", "S2-60")
def test_a_file_is_tracked_from_creation_to_deletion(s: Session, folder: Path) -> None:
    path = folder / "src" / "login.py"
    path.parent.mkdir()
    changes = []
    for content in ("one\n", "two\n", None):
        path.write_text(content) if content else path.unlink()
        s.record.file(str(path))
        change = data(s)
        changes.append((change["path"], change.get("action", "modified")))
        changes.append((change.get("before"), change.get("after")))
    assert changes == [
        ("src/login.py", "created"),
        (None, digest("one\n")),
        ("src/login.py", "modified"),
        (digest("one\n"), digest("two\n")),
        ("src/login.py", "deleted"),
        (digest("two\n"), None),
    ]
    assert is_refused(s, lambda: s.record.file(str(path), action="renamed"))  # type: ignore[arg-type]
    assert is_refused(s, lambda: s.record.file(str(folder.parent / "elsewhere.py")))
    assert is_refused(s, lambda: s.record.file(str(path), before="abc"))


@pytest.mark.req("S2-56", "S2-57")
def test_a_file_change_names_its_agent_and_its_time(
    s: Session, folder: Path, clock: FakeClock
) -> None:
    (folder / "a.py").write_text("one\n")
    clock.sleep(60)
    with s.agents.run("code-1") as run:
        run.record.file(str(folder / "a.py"))
    changed = newest(s, "file")
    assert isinstance(changed, File)
    assert (changed.agent, changed.at) == ("code-1", clock.now())


@pytest.mark.req("S2-58", "S2-59")
def test_added_and_removed_lines_are_counted_given_or_unknown(
    s: Session, stay: Forestay, folder: Path, tmp_path: Path
) -> None:
    (folder / "a.py").write_text("one\n")
    s.record.file(str(folder / "a.py"))
    assert not {"added", "removed"} & data(s).keys()
    s.record.file(str(folder / "a.py"), added=7, removed=0)
    assert (data(s)["added"], data(s)["removed"]) == (7, 0)
    assert is_refused(s, lambda: s.record.file(str(folder / "a.py"), added=-1))
    tree = tmp_path / "tree"
    tree.mkdir()
    git(tree, "init", "-q")
    (tree / "b.py").write_text("one\ntwo\nthree\n")
    git(tree, "add", ".")
    git(tree, "commit", "-q", "-m", "first")
    (tree / "b.py").write_text("one\n2\n")
    with forestay.open(stay.context.settings.home, cwd=str(tree)) as elsewhere:
        counted = elsewhere.start("Shorten b")
        counted.record.file(str(tree / "b.py"))
        assert (data(counted)["added"], data(counted)["removed"]) == (1, 2)


# -- the context -------------------------------------------------------------------------------


@pytest.mark.req("S2-63", "S2-64", "S2-65", "S2-66")
def test_tokens_are_known_in_total_and_by_agent_and_compressions_are_counted(
    s: Session, clock: FakeClock
) -> None:
    core = state_of(s).core
    assert (core.tokens, core.compressions, core.compressed_at) == (0, 0, 0)
    used = {"arch-1": 8000, "code-1": 12000, "test-1": 5000}
    for id, tokens in used.items():
        s.record.tokens(tokens, agent=id)
    s.record.tokens(sum(used.values()))
    for count in (1, 2):
        clock.sleep(60)
        s.record.compaction()
        core = state_of(s).core
        assert (core.compressions, core.compressed_at) == (count, clock.now())
    assert core.tokens == s.status().tokens == 25000
    assert {id: agent(s, id).tokens for id in used} == used
    assert is_refused(s, lambda: s.record.tokens(-1))


@pytest.mark.req("S4-34", "S4-62", "S4-63")
@pytest.mark.parametrize("tokens, percent", [(0, 0), (25_000, 20), (64_000, 50), (128_000, 100)])
def test_the_share_of_the_context_is_a_whole_percentage(
    s: Session, tokens: int, percent: int
) -> None:
    s.record.tokens(tokens)
    shown = s.brief(style="orchestrator", fenced=False).text
    assert f"- Tokens used: ~{tokens:,} ({percent}%)\n- Last compression: Never\n" in shown


# -- continuing another's work -----------------------------------------------------------------


@pytest.mark.req("X0-12")
def test_a_briefing_has_goal_current_task_last_commands_and_plan(
    s: Session,
) -> None:
    for id in ("form", "page", "tests"):
        s.tasks.add(f"the {id}", id=id)
    s.tasks.start("page", agent="code-1")
    for n in range(1, 8):
        s.record.command(f"step-{n}")
    briefing = json.loads(s.brief(budget=2000, fmt="json").text)
    items = [(item["section"], item["id"], item["text"]) for item in briefing["items"]]
    assert briefing["goal"] == "Add login"
    assert "page" in briefing["next"]
    commands = [text.partition(" ")[0] for name, _, text in items if name == "commands"]
    assert commands == ["step-7", "step-6", "step-5", "step-4", "step-3"]
    assert {id for name, id, _ in items if name == "to_do"} == {"form", "page", "tests"}
    assert briefing["totals"]["to_do"] == 3


@pytest.mark.req("S4-58", "S4-59", "S4-60", "S4-61", "S4-64")
def test_resuming_in_the_orchestrators_style_lists_completed_running_and_pending_work(
    s: Session, clock: FakeClock
) -> None:
    for id in ("design", "code", "tests"):
        s.tasks.add(f"the {id}", id=id)
    s.tasks.done("design", outcome="3 ways")
    s.agents.start("code-1", task="the form")
    s.agents.progress("code-1", 0.6)
    clock.sleep(2 * 3600)
    shown = s.resume(style="orchestrator", fenced=False).text
    assert shown.startswith(
        "## 🔄 RESUMING SESSION\n\n**Session ID**: login\n**Goal**: Add login\n"
        "**Started**: 2 hours ago\n**Progress**: 60% complete\n\n"
        "### Completed Work\n- ✅ the design (3 ways)\n\n"
        "### In Progress\n- 🔄 code-1: the form (60%)\n\n"
        "### Pending\n1. the code\n2. the tests\n"
    )
    assert shown.endswith("\n**Resuming from code-1...**\n")


@pytest.mark.req("S0-46")
def test_every_failure_has_an_error_message(stay: Forestay, s: Session, folder: Path) -> None:
    s.files.bind("ai-session")
    body = s.record.command("make", status="failure").body
    assert getattr(body, "error", "") == "no error message was given"
    (report,) = stay.files.check(str(folder / ".ai-session"))
    assert [one.code for one in report.findings if one.code == "failure-without-error"] == []
    s.agents.start("a1")
    for blank in ("", " "):
        with pytest.raises(InvalidInput, match="an error is needed"):
            s.agents.fail("a1", blank)
