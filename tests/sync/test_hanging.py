"""Remotes that fail or never answer, next to others that do."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import Any

import pytest

from forestay.api.forestay import Forestay
from forestay.errors import Unreachable
from forestay.sync import connect
from forestay.sync.remotes import folder
from forestay.sync.remotes.folder import FolderRemote
from tests.faulty_remotes import MemoryRemote
from tests.sync.people import World

REFUSAL = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def test_a_remote_that_failed_the_last_time_is_visited_last(world: World, ann: Forestay) -> None:
    remotes, visited = ann.context.store.machine.remotes, []
    remotes.add("cloud", f"folder:{world.folder}/cloud", "", 1)
    cloud, _ = remotes.all()
    remotes.record_failure(cloud, "no answer in time")
    for report in ann.remotes.sync():
        assert report.worst is None
        visited.append(report.remote)
    assert visited == ["usb", "cloud"]


def test_an_unreachable_remote_does_not_stop_the_others(world: World, ann: Forestay) -> None:
    ann.context.store.machine.remotes.add("stick", f"folder:{world.folder}/not/there", "", 1)
    stick, usb = sorted(ann.remotes.sync(), key=lambda one: one.remote)
    assert isinstance(stick.error, Unreachable) and usb.error is None


def test_report_has_the_error_that_stopped_the_sync(
    ann: Forestay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One session finds the remote gone while another one is still being uploaded."""
    ann.start("Another", id="another")
    first, gone = Event(), Event()
    put = FolderRemote.put

    def leave(self: FolderRemote, name: str, data: bytes) -> bool:
        if not name.startswith("s/"):
            return put(self, name, data)
        if not first.is_set():
            first.set()
            assert gone.wait(10)
            Event().wait(0.3)
            return put(self, name, data)
        gone.set()
        raise Unreachable("the stick was pulled out")

    monkeypatch.setattr(FolderRemote, "put", leave)
    (report,) = ann.remotes.sync()
    assert isinstance(report.error, Unreachable)


def test_folder_that_never_answers_is_unreachable(
    ann: Forestay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting for it would block every other sync of this home."""
    (usb,) = ann.context.store.machine.remotes.all()
    release, get = Event(), FolderRemote.get

    def hang(self: FolderRemote, name: str) -> bytes:
        release.wait(20)
        return get(self, name)

    with monkeypatch.context() as patch:
        patch.setattr(FolderRemote, "get", hang)
        patch.setattr(connect, "HANGS", 0.3)
        (report,) = ann.remotes.sync()
    assert isinstance(report.error, Unreachable) and not release.is_set()
    assert f"{usb.address} does not answer" in str(report.error)
    assert report.waiting == 2
    (report,) = ann.remotes.sync()
    assert (report.worst, report.up) == (None, 2)
    release.set()


def test_late_effects_of_a_hanging_folder_are_harmless(
    world: World, ann: Forestay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Abandoned calls end in the middle of the next visit, or after it."""
    release, ended, put = Event(), Event(), FolderRemote.put

    def hang(self: FolderRemote, name: str, data: bytes) -> bool:
        release.wait(20)
        try:
            return put(self, name, data)
        finally:
            ended.set()

    with monkeypatch.context() as patch:
        patch.setattr(FolderRemote, "put", hang)
        patch.setattr(connect, "HANGS", 0.3)
        (report,) = ann.remotes.sync()
    assert isinstance(report.error, Unreachable)
    release.set()
    (report,) = ann.remotes.sync()
    assert ended.wait(10) and report.worst is None
    (report,) = ann.remotes.sync()
    assert (report.worst, report.up, report.waiting) == (None, 0, 0)


def test_folder_with_many_files_that_is_listed_slowly_does_not_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = FolderRemote(str(tmp_path / "there"))
    for n in range(8):
        remote.put(f"s/{n}", b"x")
    look = folder._looked_at

    def slowly(*given: Any) -> Any:
        Event().wait(0.1)
        return look(*given)

    monkeypatch.setattr(folder, "_looked_at", slowly)
    monkeypatch.setattr(connect, "HANGS", 0.5)
    assert len(list(connect.HangDetector(remote).list(""))) == 8


def test_large_objects_may_take_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    class Narrow(MemoryRemote):
        def put(self, name: str, data: bytes) -> bool:
            Event().wait(0.6)
            return super().put(name, data)

    monkeypatch.setattr(connect, "HANGS", 0.2)
    assert connect.HangDetector(Narrow()).put("s/large", bytes(1 << 16))
    with pytest.raises(Unreachable):
        connect.HangDetector(Narrow()).put("s/small", b"x")
