"""Syncs that run by themselves: when one is wished for, how often, and what is set for it."""

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


class Wished:
    """A home that requests syncs in the background; no process is started."""

    def __init__(self, travellers: Travellers, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began = 0
        self.put_off: list[int] = []
        monkeypatch.setattr(background, "_start", self._begin)
        path = str(Path(travellers.make("laptop").context.settings.home))
        self.clock = FakeClock(start_ms=1_900_000_000_000)
        settings = load(path, trust_env=False, overrides={"backup_every_minutes": 0})
        self.home = Forestay(settings, cwd=path, clock=self.clock)
        travellers.homes.append(self.home)
        self.session = self.home.start("Fix the login", id="login")

    def _begin(self, home: Forestay, after: int = 0) -> None:
        self.put_off += [after] * bool(after)
        self.began += not after

    def after(self, act: Callable[[Session], object]) -> bool:
        before = self.began
        act(self.session)
        return self.began > before


@pytest.fixture
def wished(travellers: Travellers, monkeypatch: pytest.MonkeyPatch) -> Wished:
    return Wished(travellers, monkeypatch)


@pytest.mark.req("X2-2")
def test_moments_that_matter_are_synced_at_once(wished: Wished) -> None:
    moments: list[Callable[[Session], object]] = [
        lambda s: s.agents.start("a1"),
        lambda s: s.agents.done("a1"),
        lambda s: s.decide("cookies"),
        lambda s: s.record.error("boom"),
        lambda s: s.pause(),
    ]
    assert [wished.after(act) for act in moments] == [True] * len(moments)


@pytest.mark.req("X2-2", "X2-3")
def test_all_else_is_synced_at_most_every_ten_seconds(wished: Wished) -> None:
    wished.after(lambda s: s.decide("cookies"))
    assert not wished.after(lambda s: s.note("one"))
    wished.clock.sleep(9)
    assert not wished.after(lambda s: s.note("two"))
    wished.clock.sleep(2)
    assert wished.after(lambda s: s.note("three"))


@pytest.mark.req("X2-2")
def test_events_recorded_too_early_are_synced_when_due(wished: Wished) -> None:
    wished.after(lambda s: s.decide("cookies"))
    wished.clock.sleep(4)
    for text in ("one", "two"):
        wished.session.note(text)
    assert wished.put_off == [7], "once, until ten seconds are over"
    wished.clock.sleep(7)
    background.run(wished.home.context, wished.home.remotes.sync)
    assert wished.home.remotes.unpushed() == 0
    wished.session.note("three")
    assert wished.put_off == [7, 11], "ten seconds after that one"


def test_waiting_process_leaves_its_request_to_a_running_sync(wished: Wished) -> None:
    """The other one may have begun before what was put off was recorded."""
    wished.after(lambda s: s.note("one"))
    wished.clock.sleep(5)
    wished.after(lambda s: s.decide("cookies"))
    turns: list[int] = []

    def meanwhile() -> list[Report]:
        turns.append(len(turns))
        if turns == [0]:
            wished.clock.sleep(6)
            background.run(wished.home.context, meanwhile)
        return []

    background.run(wished.home.context, meanwhile)
    assert turns == [0, 1]


@pytest.mark.req("X2-2")
def test_process_that_waited_too_long_for_a_sync_tries_again(wished: Wished) -> None:
    """The user started it before the last note was recorded: no other process would push that."""
    wished.session.note("one")
    with ExitStack() as typed:
        typed.enter_context(exclusive_sync(wished.home.context))
        sync, turns = wished.home.remotes.sync, list[str]()

        def in_vain() -> list[Report]:
            done = sync()
            turns.extend(type(one.error).__name__ for one in done)
            typed.close()
            return done

        background.run(wished.home.context, in_vain)
    assert turns == ["Busy", "NoneType"]
    assert wished.home.remotes.unpushed() == 0


@pytest.mark.req("X2-2")
def test_urgent_event_counts_anywhere_in_a_batch(wished: Wished) -> None:
    wished.after(lambda s: s.note("one"))
    both = (ev.ErrorRaised(message="boom"), ev.NoteAdded(text="so it goes"))
    assert wished.after(lambda s: s._recorder.record(*both))


@pytest.mark.req("X2-2")
def test_events_of_agent_hooks_are_synced(wished: Wished, tmp_path: Path) -> None:
    hooks = Hooks(tmp_path)
    hooks.spool = Spool(wished.home.context.settings.home)
    hooks.spool.prepare()
    hooks.start()
    hooks.ask("Fix it")
    hooks.end()
    assert wished.after(lambda _: wished.home.agents.ingest())


def test_new_keys_go_to_the_sessions_at_once(wished: Wished, travellers: Travellers) -> None:
    travel(travellers.make("desktop"))
    background.run(wished.home.context, wished.home.remotes.sync)
    assert wished.after(lambda _: wished.home.devices.revoke("desktop"))
    assert wished.after(lambda _: wished.home.devices.keys.rotate())


def test_resuming_and_forgetting_are_synced_too(wished: Wished) -> None:
    wished.clock.sleep(11)
    assert wished.after(lambda s: s.resume())
    assert wished.after(lambda s: s.lifecycle.forget())


@pytest.mark.req("X2-3")
def test_the_settings_have_the_values_of_the_document(wished: Wished) -> None:
    settings = wished.home.context.settings
    assert (settings.auto_sync, settings.sync_seconds) == ("on", 10)
    wished.home.config("auto_sync", "off")
    off = Forestay(load(settings.home, trust_env=False), cwd=settings.home, clock=wished.clock)
    off.session("login").decide("by hand")
    off.close()
    assert wished.began == 1, "the one that began the session"


@pytest.mark.req("X2-2")
def test_background_sync_brings_events_to_other_devices(
    wished: Wished, travellers: Travellers
) -> None:
    other = travellers.make("desktop")
    wished.session.note("tried cookies")
    assert background.run(wished.home.context, wished.home.remotes.sync) == 0
    travel(other)
    assert hashes(other, "login") == hashes(wished.home, "login")


@pytest.mark.usefixtures("quick_passphrase")
def test_missing_passphrase_is_recorded_with_the_remote(
    wished: Wished, monkeypatch: pytest.MonkeyPatch
) -> None:
    wished.home.devices.keys.init(passphrase="correct horse")
    monkeypatch.setattr(keys, "_opened", {})  # as in another process
    background.run(wished.home.context, wished.home.remotes.sync)
    (known,) = wished.home.remotes.list()
    assert known.result == "failed" and "wrapped in a passphrase" in (known.error or "")
