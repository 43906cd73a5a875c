"""Results are typed values: fields are attributes, times are datetimes, their JSON is stable."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime
from pathlib import Path

import pytest

import forestay
from forestay.base.clock import FakeClock, iso, to_datetime


def test_status_has_typed_fields_and_the_json_of_the_command_line(tmp_path: Path) -> None:
    clock = FakeClock()
    with forestay.open(str(tmp_path / "home"), cwd=str(tmp_path), clock=clock) as stay:
        session = stay.start("Add login")
        session.tasks.add("write it")
        status = session.status()
        assert (status.session, status.status, status.steps.total) == (session.id, "active", 1)
        assert status.phase is None and status.suspended == [] and status.agents.died == 0
        assert status.updated_at is not None and status.updated_at.tzinfo is not None
        assert status.updated_at == datetime.fromtimestamp(clock.now() // 1000, UTC)
        assert status.as_json()["updated_at"] == status.updated_at.strftime("%Y-%m-%dT%H:%M:%SZ")
        (holder,) = status.holders
        assert holder.state == "alive" and holder.since.tzinfo is not None
        (row,) = stay.list()
        assert (
            row.goal == "Add login"
            and row.as_json().items()
            <= {
                **status.as_json(),
                "project": row.project,
            }.items()
        )
        (found,) = stay.search("login")
        assert (found.session, found.seq, found.goal) == (session.id, 1, "Add login")


def test_value_has_no_other_fields_and_cannot_be_changed(tmp_path: Path) -> None:
    with forestay.open(str(tmp_path / "home"), cwd=str(tmp_path)) as stay:
        status = stay.start("Add login").status()
        with pytest.raises(AttributeError, match="SessionStatus has no field colour"):
            status.colour  # type: ignore[attr-defined]  # noqa: B018
        with pytest.raises(AttributeError):
            status.goal = "another"
        assert status == stay.status() and "Add login" in repr(status)


def test_times_of_events_tasks_and_states_are_datetimes(tmp_path: Path) -> None:
    clock = FakeClock()
    with forestay.open(str(tmp_path / "home"), cwd=str(tmp_path), clock=clock) as stay:
        session = stay.start("Add login")
        session.tasks.add("write it")
        event = session.tasks.start("t1")
        (task,) = session.tasks.list()
        assert task.status == "running" and task.is_open and task.ended_at is None
        assert task.started_at == event.time and event.time.tzinfo is UTC
        assert task.as_json()["started_at"] == event.time.strftime("%Y-%m-%dT%H:%M:%SZ")
        session.decide("database", options=["SQLite", "Postgres"], chosen="SQLite")
        state = session.show()
        (decision,) = state.decisions
        assert decision.rejected == ["Postgres"] and decision.at.tzinfo is UTC
        assert state.tasks == [task] and state.began_at is not None and state.seq == 4
        assert session.show(at=1).tasks == []
        assert state.as_json()["rows"]["step"][0]["id"] == "t1"


def test_recovery_code_is_not_in_the_representation_of_a_result(tmp_path: Path) -> None:
    with forestay.open(str(tmp_path / "home"), cwd=str(tmp_path)) as stay:
        changed = stay.devices.keys.init()
        (device,) = stay.devices.list().devices
    assert changed.recovery and changed.recovery not in repr(changed)
    assert device.this and device.added.tzinfo is UTC and device.revoked is None


def test_value_can_be_copied_and_pickled(tmp_path: Path) -> None:
    with forestay.open(str(tmp_path / "home"), cwd=str(tmp_path)) as stay:
        status = stay.start("Add login").status()
    assert (
        copy.copy(status) == copy.deepcopy(status) == pickle.loads(pickle.dumps(status)) == status
    )


@pytest.mark.parametrize("ms", [10**18, 10**15, -(10**15), -(10**18), -62_150_000_000_000])
def test_time_that_no_datetime_can_hold_is_the_nearest_one(ms: int) -> None:
    nearest = (datetime.max if ms > 0 else datetime.min).replace(tzinfo=UTC)
    assert to_datetime(ms) == to_datetime(iso(ms)) == nearest
