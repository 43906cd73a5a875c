"""Disputes between two devices: both see them, one settles them, the log has both sides."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from forestay import Forestay, InvalidInput, Refused, Session
from forestay.cli.settle import dialogue
from forestay.cli.status import _next_command
from forestay.model import event as ev
from tests.devices import Pair
from tests.histories import image
from tests.homes import state_of

HOUR = 3_600_000


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    made.close()


def kinds(session: Session) -> list[str]:
    return [line.event.kind for line in session.log()]


def record_events(*bodies: ev.Body) -> Callable[[Session], object]:
    return lambda session: session._recorder.record(*bodies)


def write(text: str) -> Callable[[Session], object]:
    def act(session: Session) -> None:
        Path(session.context.workspace.tree.root, "x.py").write_text(text)
        session.record.file(str(Path(session.context.workspace.tree.root, "x.py")))

    return act


CONTESTS: dict[str, tuple[Callable[[Session], object], Callable[[Session], object], str, str]] = {
    "step:t1": (
        lambda s: s.tasks.done("t1", outcome="it works"),
        lambda s: s.tasks.block("t1", because="no key"),
        "done",
        "blocked",
    ),
    "agent:a1": (
        lambda s: s.agents.done("a1", result="fine"),
        lambda s: s.agents.fail("a1", "boom"),
        "done",
        "failed",
    ),
    "decision:db": (
        record_events(ev.DecisionMade(decision="db", what="the store", chosen="sqlite")),
        record_events(ev.DecisionMade(decision="db", what="the store", chosen="postgres")),
        "sqlite",
        "postgres",
    ),
    "file:x.py": (write("a\n"), write("b\n"), "", ""),
    "session": (
        lambda s: s.complete(),
        lambda s: s.tasks.done("t1"),
        "completed",
        "work went on",
    ),
}
"""Every kind of dispute: what the laptop does, what the desktop does, what each side is."""


def contest(pair: Pair, subject: str) -> None:
    first, second, *_ = CONTESTS[subject]
    first(pair.a)
    pair.desktop.clock.jump(HOUR)
    second(pair.b)
    pair.exchange()


def outcome(session: Session, subject: str) -> str:
    state, name = state_of(session), subject.partition(":")[2]
    rows: dict[str, Callable[[], Any]] = {
        "step": lambda: getattr(state.step(name), "status", ""),
        "agent": lambda: getattr(state.agent(name), "status", ""),
        "decision": lambda: getattr(state.rows.get("decision", name), "chosen", ""),
        "file": lambda: getattr(state.rows.get("file", name), "after", ""),
        "session": lambda: state.core.status,
    }
    return str(rows[subject.partition(":")[0]]())


@pytest.mark.req("X2-4")
@pytest.mark.parametrize("subject", CONTESTS)
@pytest.mark.parametrize("winner", ["laptop", "desktop"])
def test_preferred_side_holds_on_both_devices(pair: Pair, subject: str, winner: str) -> None:
    contest(pair, subject)
    (case,) = pair.a.disputes.list()
    outcomes = {pair.laptop.stay.devices.name_of(side.device): side.outcome for side in case.sides}
    number = next(s.number for s in case.sides if s.device == getattr(pair, winner).id)
    pair.a.disputes.settle(case.subject, prefer=number, because="I looked")
    pair.exchange()
    assert pair.a.disputes.list() == pair.b.disputes.list() == []
    other = [text for device, text in outcomes.items() if device != "laptop"]
    wanted = case.sides[number - 1].outcome
    assert outcome(pair.b, subject) == {"work went on": "active"}.get(wanted, wanted), other
    assert image(state_of(pair.a)) == image(state_of(pair.b))


@pytest.mark.parametrize("subject", CONTESTS)
def test_both_sides_stay_in_the_journal_after_settling(pair: Pair, subject: str) -> None:
    contest(pair, subject)
    before = [line.event.hash for line in pair.a.log()]
    (case,) = pair.a.disputes.list()
    pair.a.disputes.settle(prefer=case.recommended)
    assert [line.event.hash for line in pair.a.log()][: len(before)] == before
    (row,) = state_of(pair.a).rows.select("dispute")
    assert [side[3] for side in getattr(row, "sides", [])] == [s.outcome for s in case.sides]
    assert not row.is_open


@pytest.mark.parametrize(
    ("subject", "merged", "kept"),
    [
        ("step:t1", "done", "needs_review"),
        ("agent:a1", "done", "blocked"),
        ("decision:db", "sqlite and postgres", "sqlite and postgres"),
        ("session", "active", "active"),
    ],
)
@pytest.mark.parametrize("way", ["merge", "keep_both"])
def test_both_sides_can_be_merged_or_both_stay(
    pair: Pair, subject: str, merged: str, kept: str, way: str
) -> None:
    contest(pair, subject)
    pair.a.disputes.settle(subject, merge=way == "merge", keep_both=way == "keep_both")
    assert pair.a.disputes.list() == []
    wanted = merged if way == "merge" else kept
    assert sorted(outcome(pair.a, subject).split(" and ")) == sorted(wanted.split(" and "))


def test_merged_decision_rejects_neither_option(pair: Pair) -> None:
    contest(pair, "decision:db")
    pair.a.disputes.settle(merge=True)
    assert getattr(state_of(pair.a).rows.get("decision", "db"), "rejected", None) == []


def test_recording_a_file_settles_the_dispute_about_it(pair: Pair) -> None:
    contest(pair, "file:x.py")
    write("a and b\n")(
        pair.desktop.session("s-1")
    )  # this also records it, which settles the dispute
    pair.laptop.receive(pair.desktop)
    assert pair.a.disputes.list() == []


def test_merging_a_file_records_its_present_content(pair: Pair) -> None:
    contest(pair, "file:x.py")
    (pair.laptop.folder / "x.py").write_text("a and b\n")
    pair.a.disputes.settle("x.py", merge=True)
    assert outcome(pair.a, "file:x.py") == sha256(b"a and b\n").hexdigest()
    contest(pair, "file:x.py")
    pair.a.disputes.settle("x.py", keep_both=True)
    assert outcome(pair.a, "file:x.py") == "" and pair.a.disputes.list() == []


def test_settling_logs_the_sides_the_choice_and_the_reason(pair: Pair) -> None:
    contest(pair, "step:t1")
    pair.a.disputes.settle("t1", prefer="laptop", because="its tests ran")
    *_, statement, note = [line.event.body for line in pair.a.log()]
    assert isinstance(statement, ev.StepCompleted) and isinstance(note, ev.NoteAdded)
    desk = pair.laptop.stay.devices.name_of(pair.desktop.id)
    expected = f"settled task t1: done (laptop) stands, not blocked ({desk}), because its tests ran"
    assert note.text == expected


def test_one_call_can_settle_everything(pair: Pair) -> None:
    for subject in ("step:t1", "agent:a1", "decision:db"):
        CONTESTS[subject][0](pair.a)
        CONTESTS[subject][1](pair.b)
    pair.exchange()
    assert len(pair.a.disputes.list()) == 3
    pair.a.disputes.settle(prefer="laptop")
    assert pair.a.disputes.list() == []
    assert [outcome(pair.a, s) for s in ("step:t1", "agent:a1", "decision:db")] == [
        *("done", "done", "sqlite")
    ]


def test_a_repeated_call_settles_once(pair: Pair) -> None:
    contest(pair, "step:t1")
    first = pair.a.disputes.settle(prefer=1, key="k")
    assert pair.a.disputes.settle(prefer=1, key="k").id == first.id and pair.a.repeated


@pytest.mark.parametrize("status", ["paused", "completed"])
def test_dispute_can_be_settled_in_a_paused_or_finished_session(pair: Pair, status: str) -> None:
    contest(pair, "step:t1")
    pair.a.pause() if status == "paused" else pair.a.complete()
    pair.a.disputes.settle(prefer="laptop")
    assert outcome(pair.a, "step:t1") == "done" and pair.a.status().status == status


def test_resuming_does_not_settle_whether_a_session_is_completed(pair: Pair) -> None:
    contest(pair, "session")
    brief = pair.a.resume()
    assert brief.disputes == 1 and "session.resumed" not in kinds(pair.a)
    assert "forestay settle" in brief.text and "completed (laptop)" in brief.text
    with pytest.raises(Refused, match="disputed"):
        pair.a._recorder.record(ev.SessionResumed())
    pair.a.disputes.settle(prefer="work went on")
    pair.a.resume()
    assert kinds(pair.a)[-1] == "session.resumed"


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"prefer": 1, "merge": True},
        {"prefer": "nobody"},
        {"prefer": 3},
        {"dispute": "t7", "prefer": 1},
    ],
)
def test_invalid_or_ambiguous_call_settles_nothing(pair: Pair, wrong: dict[str, Any]) -> None:
    contest(pair, "step:t1")
    with pytest.raises(InvalidInput):
        pair.a.disputes.settle(**wrong)
    assert len(pair.a.disputes.list()) == 1


def test_without_a_dispute_there_is_nothing_to_settle(pair: Pair) -> None:
    with pytest.raises(Refused, match="nothing is disputed"):
        pair.a.disputes.settle(merge=True)


# -- which is newer ----------------------------------------------------------------------------


@pytest.mark.req("X2-4")
def test_the_newer_side_is_recommended_and_the_reason_given(pair: Pair) -> None:
    contest(pair, "step:t1")
    (case,) = pair.a.disputes.list()
    assert case.sides[case.recommended - 1].device == pair.desktop.id
    assert case.why == "it was stated 1 hour later by the clocks of the devices"


def test_clock_that_is_behind_known_events_is_not_trusted(pair: Pair) -> None:
    pair.laptop.clock.jump(-48 * HOUR)
    pair.a.note("a day that was")
    pair.a.note("more that the other does not know")
    contest(pair, "step:t1")
    pair.laptop.clock.jump(48 * HOUR)
    (case,) = pair.b.disputes.list()
    assert "by the clocks" in case.why  # its own earlier events are not newer
    behind = Pair(pair.laptop.folder)
    behind.desktop.clock.jump(-48 * HOUR)
    behind.a.note("the laptop knows more")
    contest(behind, "step:t1")
    (case,) = behind.a.disputes.list()
    behind.close()
    assert case.sides[case.recommended - 1].device == behind.laptop.id and "disagree" in case.why


# -- the dialogue ------------------------------------------------------------------------------


@pytest.mark.req("X2-4")
def test_dialogue_shows_devices_sides_and_ways_to_settle(pair: Pair) -> None:
    contest(pair, "step:t1")
    shown = dialogue(pair.a)
    laptop = next(one for one in shown["devices"] if one["here"])
    desktop = next(one for one in shown["devices"] if not one["here"])
    assert laptop["name"] == "laptop" and laptop["progress"] == 1.0
    assert desktop["progress"] == 0.0 and desktop["active_agent"] == "a1"
    assert desktop["last_modified"] > laptop["last_modified"]
    (case,) = shown["disputes"]
    assert {side["outcome"] for side in case["sides"]} == {"done", "blocked"}
    assert case["sides"][case["recommended"] - 1]["outcome"] == "blocked"
    words = [choice["what"].partition(" ")[0].rstrip(":") for choice in shown["choices"]]
    assert words == ["prefer", "merge", "keep", "cancel"]
    json.dumps(shown)
    pair.a.disputes.settle(merge=True)
    after = dialogue(pair.a)
    assert after["disputes"] == after["choices"] == []
    assert after["settled"] == [{"subject": "step:t1", "outcomes": ["blocked", "done"]}]


# -- files against the journal -----------------------------------------------------------------


@pytest.fixture
def edited(pair: Pair) -> Session:
    """Return a session with a file that was edited where the journal had changed too."""
    session = pair.a
    binding = session.files.bind("craft")
    (place,) = Path(binding.root).rglob("*.json")
    stale = json.loads(place.read_text())
    pair.laptop.clock.jump(HOUR)
    session.record.rename("Ours")
    stale["goal"] = "Theirs"
    place.unlink()
    place.write_text(json.dumps(stale, indent=2))
    session.note("which takes it up")
    assert state_of(session).core.goal == "Theirs"
    return session


@pytest.mark.parametrize(("side", "goal"), [("file", "Theirs"), ("journal", "Ours")])
def test_a_file_against_the_journal_is_settled_either_way(
    edited: Session, side: str, goal: str
) -> None:
    (case,) = edited.disputes.list()
    assert [s.outcome for s in case.sides] == ["the file", "the journal"]
    assert [s.said for s in case.sides] == ["session.renamed Theirs", "session.renamed Ours"]
    assert case.about == "goal in the craft file"
    assert edited.status().next == f"settle {case.about}: the file or the journal?"
    assert f"{case.about} differs from what was changed here" in edited.brief().text
    lines = [one["command"] for one in dialogue(edited)["choices"]]
    assert lines == ["forestay settle 1 --prefer file", "forestay settle 1 --prefer journal", ""]
    edited.resume()
    assert len(edited.disputes.list()) == 1, "resuming does not settle it"
    edited.disputes.settle(str(case.number), prefer=side)
    assert edited.disputes.list() == [] and state_of(edited).core.goal == goal
    (place,) = Path(edited.files.list()[0].root).rglob("*.json")
    assert json.loads(place.read_text())["goal"] == goal


def test_dialogue_of_a_session_without_disputes_has_none(pair: Pair) -> None:
    home: Forestay = pair.laptop.stay
    assert dialogue(home.session("s-1"))["disputes"] == []


def test_dispute_is_found_by_a_unique_prefix_of_its_id(pair: Pair) -> None:
    for session, chosen in ((pair.a, "sqlite"), (pair.b, "files")):
        for what in ("store", "stove"):
            session._recorder.record(
                ev.DecisionMade(decision=f"{what}-0a1b", what=what, chosen=chosen)
            )
    pair.exchange()
    with pytest.raises(InvalidInput, match="several disputes match sto"):
        pair.a.disputes.settle("sto", merge=True)
    pair.a.disputes.settle("store", merge=True)
    assert [case.subject for case in pair.a.disputes.list()] == ["decision:stove-0a1b"]


def test_dispute_is_shown_with_its_text_and_is_the_next_step(pair: Pair) -> None:
    contest(pair, "step:t1")
    (case,) = dialogue(pair.a)["disputes"]
    assert (case["about"], case["title"]) == ("task t1", "one")
    status = pair.a.status()
    assert "disputed" in status.attention and _next_command(status.as_json()) == "forestay settle"
