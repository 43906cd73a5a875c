"""Inactive sessions: paused as of the moment of the limit, and never deleted."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from forestay.api.followers import Inactivity
from forestay.api.forestay import Forestay
from forestay.api.session import Session
from forestay.base import config
from forestay.base.clock import FakeClock
from forestay.base.hashing import digest_of
from forestay.errors import Refused
from forestay.model.event import PlanSet
from forestay.model.plan import Expiry, Workflow, snapshot
from tests.homes import state_of

HOUR = 3_600_000
DAY = 24 * HOUR


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def stay(tmp_path: Path, clock: FakeClock) -> Iterator[Forestay]:
    with opened(tmp_path, clock) as home:
        yield home


def opened(tmp_path: Path, clock: FakeClock, **settings: Any) -> Forestay:
    given = config.load(str(tmp_path / "home"), trust_env=False, overrides=settings)
    # One-shot, like a command: a longer process would hold the session, which is activity.
    return Forestay(given, cwd=str(tmp_path), clock=clock, one_shot=True)


def later(stay: Forestay, session: Session, ms: int) -> Session:
    """Return the session as a command sees it after this time."""
    assert isinstance(stay.context.clock, FakeClock)
    stay.context.clock.jump(ms)
    stay.context.follower(Inactivity)._check_again.clear()
    return stay.session(session.id)


def essay(stay: Forestay) -> Session:
    session = stay.start("an essay")
    session.files.bind("essay")
    return session


def planned(stay: Forestay, **hours: float) -> Session:
    data = snapshot(Workflow("w", total=1, expiry=Expiry(**hours)))
    session = stay.start("a plan")
    body = PlanSet(workflow="w", total=1, snapshot=digest_of(data))
    session._recorder.record(body, blobs=[(body.snapshot, data)])
    return session


@pytest.mark.req("S3-127")
def test_essay_idle_for_a_day_is_paused_as_of_the_limit(stay: Forestay) -> None:
    session = essay(stay)
    left = stay.context.clock.now()
    session = later(stay, session, 30 * HOUR)
    session.note("I am back")
    core = state_of(session).core
    assert (core.status, core.pause_reason) == ("paused", "inactivity")
    assert (core.paused_at, core.pause_context) == (left + DAY, "no activity for 24 hours")
    with pytest.raises(Refused, match="does not allow that now"):
        session.tasks.add("more") and session.tasks.start("t1")
    session.resume()
    assert session.status().status == "active" and session.status().paused_ms == 6 * HOUR


def test_a_resume_records_the_pause_by_inactivity_first(stay: Forestay) -> None:
    notices: list[str] = []
    stay.context.on_notice = notices.append
    session = later(stay, essay(stay), 25 * HOUR)
    session.resume()
    kinds = [line.event.kind for line in session.log()]
    assert kinds[-2:] == ["session.paused", "session.resumed"]
    assert notices == [f"session {session.id} was paused: no activity for 24 hours"]


@pytest.mark.parametrize("ms", [0, HOUR, DAY - 1])
def test_essay_idle_for_less_than_a_day_stays_active(stay: Forestay, ms: int) -> None:
    session = later(stay, essay(stay), ms)
    session.note("still here")
    assert session.status().status == "active"


def test_reading_an_inactive_session_records_nothing(stay: Forestay) -> None:
    session = later(stay, essay(stay), 8 * DAY)
    seq = session.status().seq
    assert session.lifecycle.inactivity().word == "abandoned" and session.brief()
    assert session.status().seq == seq and session.status().status == "active"


@pytest.mark.req("S3-128")
def test_choices_are_offered_after_a_week_and_nothing_is_deleted(stay: Forestay) -> None:
    session = later(stay, essay(stay), 8 * DAY)
    found = session.lifecycle.inactivity()
    assert found.word == "abandoned" and found.idle_ms == 8 * DAY
    commands = [one.command for one in found.choices]
    assert commands == [
        f"forestay resume {session.id}",
        f"forestay session abandon --session {session.id}",
        "",
    ]
    session.resume()
    assert session.status().status == "active" and session.lifecycle.inactivity().word == "active"


def test_other_sessions_expire_only_by_a_setting(tmp_path: Path, clock: FakeClock) -> None:
    with opened(tmp_path, clock) as stay:
        session = later(stay, stay.start("a plain one"), 99 * DAY)
        assert session.lifecycle.inactivity().word == "active"
    with opened(tmp_path, clock, pause_hours=2, abandon_hours=5) as stay:
        assert stay.session(session.id).lifecycle.inactivity().word == "abandoned"
        stay.session(session.id).note("paused by that")
        assert state_of(stay.session(session.id)).core.pause_context == "no activity for 2 hours"


def test_limits_of_a_workflow_override_the_settings(tmp_path: Path, clock: FakeClock) -> None:
    with opened(tmp_path, clock, pause_hours=1) as stay:
        session = later(stay, planned(stay, pause_hours=48.0, abandon_hours=96.0), 40 * HOUR)
        assert session.lifecycle.inactivity().word == "active"
        assert later(stay, session, 10 * HOUR).lifecycle.inactivity().word == "pause"
        assert later(stay, session, 50 * HOUR).lifecycle.inactivity().word == "abandoned"
        never = later(stay, planned(stay, pause_hours=0.0), 40 * HOUR)
        assert never.lifecycle.inactivity().word == "active"


def test_session_held_by_a_live_process_is_not_idle(stay: Forestay) -> None:
    import os

    session = essay(stay)
    stay.context.workspace.hold(session.id, "an agent", agent="code-1", pid=os.getpid())
    session = later(stay, session, 8 * DAY)
    assert session.lifecycle.inactivity().word == "active"


@pytest.mark.parametrize("verb", ["pause", "complete", "lifecycle.abandon"])
def test_explicit_pause_or_end_is_not_preceded_by_a_pause_for_inactivity(
    stay: Forestay, verb: str
) -> None:
    session = later(stay, essay(stay), 30 * HOUR)
    attrgetter(verb)(session)()
    assert "inactivity" not in state_of(session).core.pause_reason


def test_a_finished_session_does_not_expire(stay: Forestay) -> None:
    session = essay(stay)
    session.complete()
    assert later(stay, session, 99 * DAY).lifecycle.inactivity().word == "active"


def test_session_is_sound_after_a_pause_for_inactivity(stay: Forestay) -> None:
    session = later(stay, essay(stay), 30 * HOUR)
    session.note("back")
    assert session.verify().ok
