"""A remote that takes connections and never answers, beside one that does."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from forestay.api.forestay import Forestay
from forestay.errors import Unreachable
from forestay.store.machine.remotes import Known, Remotes
from forestay.sync import connect
from forestay.sync.remotes import folder
from forestay.sync.remotes.folder import FolderRemote
from forestay.sync.remotes.port import Object
from tests.faulty_remotes import MemoryRemote
from tests.sync.people import World

REFUSAL = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Hanging:
    """A server that keeps whoever asks waiting, until it is released; then it refuses."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.released, self.asked = Event(), Event()
        Thread(target=self._serve, daemon=True).start()

    @property
    def address(self) -> str:
        return f"s3://bucket/p?endpoint=http://127.0.0.1:{self._socket.getsockname()[1]}"

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            connection.recv(65536)
            self.asked.set()
            self.released.wait(5)
            connection.sendall(REFUSAL)

    def close(self) -> None:
        self.released.set()
        self._socket.close()


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hanging]:
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"FORESTAY_S3_{name}", "x")
    server = Hanging()
    yield server
    server.close()


def test_a_remote_that_hangs_keeps_no_other_waiting(
    world: World, ann: Forestay, hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was never asked before, so nothing is known of it, and it is first by its name."""
    ann.context.store.machine.remotes.add("cloud", hanging.address, "", 1)
    done: list[str] = []
    real = Remotes.record_sync

    def synced(self: Remotes, known: Known, now: int, result: str, error: str) -> None:
        done.append(f"{known.name} {result}")
        if result == "done":
            assert hanging.asked.wait(10)  # both were asked at once
            hanging.released.set()
        real(self, known, now, result, error)

    monkeypatch.setattr(Remotes, "record_sync", synced)
    cloud, usb = ann.remotes.sync()
    assert done == ["usb done", "cloud failed"]
    assert (cloud.remote, usb.remote, usb.up, usb.worst) == ("cloud", "usb", 2, None)
    assert cloud.error is not None and usb.waiting == 0
    assert [one.result for one in ann.context.store.machine.remotes.all()] == ["failed", "done"]


def test_one_that_failed_the_last_time_comes_last_though_it_answers_first(
    ann: Forestay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have answered then, too, and hung in the middle of the visit."""
    ann.context.store.machine.remotes.add("cloud", "s3://bucket/p", "", 1)
    cloud, _ = ann.context.store.machine.remotes.all()
    ann.context.store.machine.remotes.record_failure(cloud, "no answer in time")

    def asked(known: Known) -> Exception:
        if known.name == "usb":
            Event().wait(0.3)
        return Unreachable(known.name)

    monkeypatch.setattr(connect, "_connect", asked)
    coming = connect.connect_all(ann.context.store.machine.remotes.all())
    assert [known.name for known, _ in coming] == ["usb", "cloud"]


def test_what_could_not_be_reached_is_told_once_for_all_remotes(
    world: World, ann: Forestay
) -> None:
    ann.context.store.machine.remotes.add("stick", f"folder:{world.folder}/not/there", "", 1)
    stick, usb = sorted(ann.remotes.sync(), key=lambda one: one.remote)
    assert isinstance(stick.error, Unreachable) and usb.error is None


def test_what_stops_a_visit_is_told_and_not_what_it_stopped(
    ann: Forestay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One session finds the remote gone while another is still under way."""
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


def test_a_remote_that_hangs_in_the_middle_of_its_visit_waits_for_the_others(
    world: World, ann: Forestay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answered first, and is asked once more when the others were visited."""
    stick = world.folder / "stick"
    stick.mkdir()
    ann.context.store.machine.remotes.add("stick", f"folder:{stick}", "", 1)
    goes_on, visited = Event(), list[str]()
    put, done = FolderRemote.put, Remotes.record_sync

    def hang(self: FolderRemote, name: str, data: bytes) -> bool:
        if "stick" in self.address and name.startswith("s/"):
            assert goes_on.wait(30), "nobody else was visited"
        return put(self, name, data)

    def synced(self: Remotes, known: Known, now: int, result: str, error: str) -> None:
        visited.append(f"{known.name} {result}")
        goes_on.set()
        done(self, known, now, result, error)

    def asked_in_turn(found: Sequence[Known]) -> Iterator[tuple[Known, connect.Answer]]:
        yield from ((one, connect.connect_remote(one)) for one in found)

    monkeypatch.setattr(FolderRemote, "put", hang)
    monkeypatch.setattr(Remotes, "record_sync", synced)
    monkeypatch.setattr("forestay.sync.run.connect_all", asked_in_turn)
    monkeypatch.setattr("forestay.sync.connect.WHILE_OTHERS_WAIT", 0.3)
    first, second = ann.remotes.sync()
    assert visited == ["usb done", "stick done"]
    assert (first.remote, second.remote, first.worst, second.worst) == ("stick", "usb", None, None)
    assert first.up == second.up == 2 and second.waiting == first.waiting == 0


def test_a_list_that_comes_slowly_is_no_remote_that_hangs() -> None:
    class Slow(MemoryRemote):
        def list(self, prefix: str) -> Iterator[Object]:
            for one in super().list(prefix):
                Event().wait(0.1)
                yield one

    slow = Slow({f"s/{n}": b"x" for n in range(8)})
    assert len(list(connect.TimeLimited(slow, 0.5).list(""))) == 8


def test_what_is_large_may_take_longer() -> None:
    class Narrow(MemoryRemote):
        def put(self, name: str, data: bytes) -> bool:
            Event().wait(0.6)
            return super().put(name, data)

    narrow = Narrow()
    assert connect.TimeLimited(narrow, 0.2).put("s/large", bytes(1 << 20))
    with pytest.raises(connect.Postponed):
        connect.TimeLimited(narrow, 0.2).put("s/small", b"x")


def test_a_folder_that_never_answers_is_one_that_is_not_there(
    ann: Forestay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waited for it would keep every other sync of this home from going on."""
    (usb,) = ann.context.store.machine.remotes.all()
    goes_on, get = Event(), FolderRemote.get

    def hang(self: FolderRemote, name: str) -> bytes:
        goes_on.wait(20)
        return get(self, name)

    with monkeypatch.context() as patch:
        patch.setattr(FolderRemote, "get", hang)
        patch.setattr(connect, "HANGS", 0.3)
        (report,) = ann.remotes.sync()
    assert isinstance(report.error, Unreachable) and not goes_on.is_set()
    assert f"{usb.address} does not answer" in str(report.error)
    assert report.waiting == 2
    (report,) = ann.remotes.sync()
    assert (report.worst, report.up) == (None, 2)
    goes_on.set()


def test_what_a_hanging_folder_does_later_harms_nothing(
    world: World, ann: Forestay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The calls that nobody waits for any longer end in the middle of the next visit, or after."""
    goes_on, ended, put = Event(), Event(), FolderRemote.put

    def hang(self: FolderRemote, name: str, data: bytes) -> bool:
        goes_on.wait(20)
        try:
            return put(self, name, data)
        finally:
            ended.set()

    with monkeypatch.context() as patch:
        patch.setattr(FolderRemote, "put", hang)
        patch.setattr(connect, "HANGS", 0.3)
        (report,) = ann.remotes.sync()
    assert isinstance(report.error, Unreachable)
    goes_on.set()
    (report,) = ann.remotes.sync()
    assert ended.wait(10) and report.worst is None
    (report,) = ann.remotes.sync()
    assert (report.worst, report.up, report.waiting) == (None, 0, 0)


def test_a_folder_with_many_files_that_is_listed_slowly_does_not_hang(
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
