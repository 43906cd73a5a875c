"""Syncs in the background: which events request one, how often, and the settings."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from forestay.agents.spool import Spool
from forestay.api.forestay import Forestay
from forestay.api.session import Session
from forestay.base.clock import FakeClock
from forestay.base.config import load
from forestay.model import event as ev
from forestay.sync import background
from forestay.sync.crypto import keys
from forestay.sync.lock import exclusive_sync
from forestay.sync.run import Report
from tests.agents.spooling import Hooks
from tests.sync.travelling import Travellers, hashes, travel


class AutoSyncHome:
    """A home that requests syncs in the background; no process is started."""

    def __init__(self, travellers: Travellers, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began = 0
        self.delays: list[int] = []
        monkeypatch.setattr(background, "_start", self._begin)
        path = str(Path(travellers.make("laptop").context.settings.home))
        self.clock = FakeClock(start_ms=1_900_000_000_000)
        settings = load(path, trust_env=False, overrides={"backup_every_minutes": 0})
        self.home = Forestay(settings, cwd=path, clock=self.clock)
        travellers.homes.append(self.home)
        self.session = self.home.start("Fix the login", id="login")

    def _begin(self, home: Forestay, after: int = 0) -> None:
        self.delays += [after] * bool(after)
        self.began += not after

    def after(self, act: Callable[[Session], object]) -> bool:
        before = self.began
        act(self.session)
        return self.began > before


@pytest.fixture
def auto(travellers: Travellers, monkeypatch: pytest.MonkeyPatch) -> AutoSyncHome:
    return AutoSyncHome(travellers, monkeypatch)


@pytest.mark.req("X2-2")
def test_important_events_are_synced_at_once(auto: AutoSyncHome) -> None:
    moments: list[Callable[[Session], object]] = [
        lambda s: s.agents.start("a1"),
        lambda s: s.agents.done("a1"),
        lambda s: s.decide("cookies"),
        lambda s: s.record.error("boom"),
        lambda s: s.pause(),
    ]
    assert [auto.after(act) for act in moments] == [True] * len(moments)


@pytest.mark.req("X2-2", "X2-3")
def test_other_events_are_synced_at_most_every_ten_seconds(auto: AutoSyncHome) -> None:
    auto.after(lambda s: s.decide("cookies"))
    assert not auto.after(lambda s: s.note("one"))
    auto.clock.sleep(9)
    assert not auto.after(lambda s: s.note("two"))
    auto.clock.sleep(2)
    assert auto.after(lambda s: s.note("three"))


@pytest.mark.req("X2-2")
def test_events_recorded_too_early_are_synced_when_due(auto: AutoSyncHome) -> None:
    auto.after(lambda s: s.decide("cookies"))
    auto.clock.sleep(4)
    for text in ("one", "two"):
        auto.session.note(text)
    assert auto.delays == [7], "once, until ten seconds are over"
    auto.clock.sleep(7)
    background.run(auto.home.context, auto.home.remotes.sync)
    assert auto.home.remotes.unpushed() == 0
    auto.session.note("three")
    assert auto.delays == [7, 11], "ten seconds after that one"


def test_running_sync_runs_again_for_a_request_made_meanwhile(auto: AutoSyncHome) -> None:
    """The running sync may have started before the last events were recorded."""
    auto.after(lambda s: s.note("one"))
    auto.clock.sleep(5)
    auto.after(lambda s: s.decide("cookies"))
    turns: list[int] = []

    def meanwhile() -> list[Report]:
        turns.append(len(turns))
        if turns == [0]:
            auto.clock.sleep(6)
            background.run(auto.home.context, meanwhile)
        return []

    background.run(auto.home.context, meanwhile)
    assert turns == [0, 1]


@pytest.mark.req("X2-2")
def test_process_that_waited_too_long_for_a_sync_tries_again(auto: AutoSyncHome) -> None:
    """The user started it before the last note was recorded: no other process would push that."""
    auto.session.note("one")
    with ExitStack() as typed:
        typed.enter_context(exclusive_sync(auto.home.context))
        sync, turns = auto.home.remotes.sync, list[str]()

        def in_vain() -> list[Report]:
            done = sync()
            turns.extend(type(one.error).__name__ for one in done)
            typed.close()
            return done

        background.run(auto.home.context, in_vain)
    assert turns == ["Busy", "NoneType"]
    assert auto.home.remotes.unpushed() == 0


@pytest.mark.req("X2-2")
def test_urgent_event_counts_anywhere_in_a_batch(auto: AutoSyncHome) -> None:
    auto.after(lambda s: s.note("one"))
    both = (ev.ErrorRaised(message="boom"), ev.NoteAdded(text="so it goes"))
    assert auto.after(lambda s: s._recorder.record(*both))


@pytest.mark.req("X2-2")
def test_events_of_agent_hooks_are_synced(auto: AutoSyncHome, tmp_path: Path) -> None:
    hooks = Hooks(tmp_path)
    hooks.spool = Spool(auto.home.context.settings.home)
    hooks.spool.prepare()
    hooks.start()
    hooks.ask("Fix it")
    hooks.end()
    assert auto.after(lambda _: auto.home.agents.ingest())


def test_change_of_keys_requests_a_sync_at_once(auto: AutoSyncHome, travellers: Travellers) -> None:
    travel(travellers.make("desktop"))
    background.run(auto.home.context, auto.home.remotes.sync)
    assert auto.after(lambda _: auto.home.devices.revoke("desktop"))
    assert auto.after(lambda _: auto.home.devices.keys.rotate())


def test_resuming_and_forgetting_request_a_sync(auto: AutoSyncHome) -> None:
    auto.clock.sleep(11)
    assert auto.after(lambda s: s.resume())
    assert auto.after(lambda s: s.lifecycle.forget())


@pytest.mark.req("X2-3")
def test_background_sync_is_on_by_default_and_can_be_switched_off(auto: AutoSyncHome) -> None:
    settings = auto.home.context.settings
    assert (settings.auto_sync, settings.sync_seconds) == ("on", 10)
    auto.home.config("auto_sync", "off")
    off = Forestay(load(settings.home, trust_env=False), cwd=settings.home, clock=auto.clock)
    off.session("login").decide("by hand")
    off.close()
    assert auto.began == 1, "the one that began the session"


@pytest.mark.req("X2-2")
def test_background_sync_brings_events_to_other_devices(
    auto: AutoSyncHome, travellers: Travellers
) -> None:
    other = travellers.make("desktop")
    auto.session.note("tried cookies")
    assert background.run(auto.home.context, auto.home.remotes.sync) == 0
    travel(other)
    assert hashes(other, "login") == hashes(auto.home, "login")


@pytest.mark.usefixtures("quick_passphrase")
def test_missing_passphrase_is_recorded_with_the_remote(
    auto: AutoSyncHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    auto.home.devices.keys.init(passphrase="correct horse")
    monkeypatch.setattr(keys, "_opened", {})  # as in another process
    background.run(auto.home.context, auto.home.remotes.sync)
    (known,) = auto.home.remotes.list()
    assert known.result == "failed" and "needs its passphrase" in (known.error or "")
