"""What a store remembers outside its tables, and several processes and threads at once."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from forestay.store.port import Batch, Store, View
from forestay.testing.contracts.base import (
    Fixtures,
    Place,
    batch,
    blob,
    head,
    naming,
    put,
    text_of,
    texts,
)


class Remembering(Fixtures):
    # -- remembered heads ------------------------------------------------------------------------

    def test_the_last_head_is_remembered(self, store: Store, another: Callable[[], Store]) -> None:
        put(store, "s1", batch("a", head=head(1)))
        put(store, "s2", batch("a", head=head(7, "d2")))
        put(store, "s1", batch("b", head=head(2)))
        put(store, "s1", batch("absorbed"))
        for looking in (store, another()):
            known = sorted((s, h.device, h.n, h.hash) for s, h in looking.maintenance.remembered())
            assert known == [
                ("s1", "d1", 2, head(2).hash),
                ("s2", "d2", 7, head(7, "d2").hash),
            ]
            with looking.view("S1") as view:
                assert view.remembered is not None and view.remembered.n == 2

            def plan(view: View) -> None:
                assert view.remembered is not None and view.remembered.hash == head(2).hash

            looking.append("s1", plan)

    def test_rolled_back_database_is_shorter_than_its_remembered_heads(
        self, store: Store, another: Callable[[], Store], place: Place
    ) -> None:
        put(store, "s1", batch("a", head=head(1)))
        store.close()
        put_back = place.copy_data()
        put(store, "s1", batch("b", head=head(2)))
        put(store, "s2", batch("x", head=head(1)))
        store.close()
        put_back()
        later = another()
        assert texts(later, "s1") == ["a"]
        with later.view("s1") as view:
            assert view.remembered is not None and view.remembered.n == 2
        assert {session for session, _ in later.maintenance.remembered()} == {"s1", "s2"}
        # A new session may get the number of the missing one; both must stay known.
        put(later, "s3", batch("new", head=head(1)))
        assert {session for session, _ in later.maintenance.remembered()} == {"s1", "s2", "s3"}

    def test_lost_heads_stay_known(self, store: Store, another: Callable[[], Store]) -> None:
        gone = ("d1", 5, head(5).hash)
        put(store, "s1", batch("a", lost=[gone]))
        put(store, "s1", batch("b", lost=[gone]))
        with another().view("s1") as view:
            assert view.lost() == [gone]
        assert [(s, h.n) for s, h in store.maintenance.remembered()] == [("s1", 5)]

    def test_loss_can_be_recorded_for_a_missing_session(self, store: Store) -> None:
        put(store, "s1", batch("a"))
        for _ in range(2):
            store.maintenance.note_lost("s9", head(5))
        assert [(s, h.device, h.n, h.hash) for s, h in store.maintenance.remembered()] == [
            ("s9", "d1", 5, head(5).hash)
        ]

    def test_a_forgotten_session_is_not_remembered(self, store: Store) -> None:
        put(store, "s1", batch("a", head=head(1), lost=[("d0", 1, head(1, "d0").hash)]))
        store.erase("s1", lambda view: batch("tombstone", forgotten=1, head=head(2)))
        assert store.maintenance.remembered() == []

    # -- this device -----------------------------------------------------------------------------

    def test_a_home_has_one_device_and_one_secret(
        self, store: Store, another: Callable[[], Store]
    ) -> None:
        put(store, "s1", batch("a"))
        device, secret = store.machine.device, store.machine.secret()
        assert device and len(secret) == 32 and secret != bytes(32)
        later = another()
        put(later, "s1", batch("b"))
        assert (later.machine.device, later.machine.secret()) == (device, secret)

    def test_a_new_device_id_is_known_to_every_writer_at_once(
        self, store: Store, another: Callable[[], Store]
    ) -> None:
        other = another()
        put(store, "s1", batch("a"))
        put(other, "s1", batch("b"))
        put(store, "s1", batch("c", device="d-new"))

        def plan(view: View) -> None:
            assert view.device == "d-new"

        other.append("s1", plan)
        store.append("s1", plan)
        assert (store.machine.device, other.machine.device) == ("d-new", "d-new")


class Sharing(Fixtures):
    # -- waiting ---------------------------------------------------------------------------------

    def test_watch_answers_at_once_when_there_is_more(self, store: Store) -> None:
        put(store, "s1", batch("a", "b"))
        assert store.watch("S1", 1, 0) is True
        assert store.watch("s1", 2, 0) is False
        assert store.watch("nothing", 0, 0.01) is False

    def test_watch_notices_what_others_write(
        self, store: Store, another: Callable[[], Store]
    ) -> None:
        put(store, "s1", batch("a"))
        other = another()
        writing = threading.Timer(0.1, lambda: put(other, "s1", batch("b")))
        writing.start()
        try:
            assert store.watch("s1", 1, 30) is True
        finally:
            writing.join()

    # -- several at once -------------------------------------------------------------------------

    def test_writes_of_threads_stay_in_order_with_one_store_or_several(
        self, store: Store, place: Place
    ) -> None:
        put(store, "s1", batch("start"))
        openers: list[Callable[[], Store]] = [partial(_uncloseable, store)] * 2 + [place.opener] * 2
        threads = [
            threading.Thread(target=append_many, args=(opener, "s1", f"w{n}", 25))
            for n, opener in enumerate(openers)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        _check_order(texts(store, "s1"), writers=4, count=25)

    def test_writes_of_several_processes_stay_in_order(self, store: Store, place: Place) -> None:
        put(store, "s1", batch("start"))
        running = [
            in_process(partial(append_many, place.opener, "s1", f"w{n}", 25)) for n in range(2)
        ]
        append_many(place.opener, "s1", "w2", 25)
        assert [process.wait(60) for process in running] == [0, 0]
        _check_order(texts(store, "s1"), writers=3, count=25)

    def test_a_write_inside_a_plan_is_a_mistake_not_a_deadlock(self, store: Store) -> None:
        put(store, "s1", batch("a"))

        def plan(view: View) -> Batch:
            put(store, "s2", batch("nested"))
            return batch("b")

        with pytest.raises(RuntimeError):
            store.append("s1", plan)
        put(store, "s1", batch("c"))
        assert texts(store, "s1") == ["a", "c"]

    # -- opening and closing ---------------------------------------------------------------------

    def test_reading_where_nothing_was_written_finds_nothing(self, store: Store) -> None:
        assert store.catalogue() == []
        assert store.resolve("s") == []
        assert store.maintenance.remembered() == []
        assert store.blob("0" * 64) is None
        assert store.maintenance.check() == [] == store.maintenance.flaws()
        assert store.machine.device == ""
        assert store.search("words", text_of=text_of) == []

    def test_everything_is_stored_after_reopening(
        self, store: Store, another: Callable[[], Store]
    ) -> None:
        put(store, "s1", batch("a", rows=[("step", "t", True, 1, b"row")]))
        put(store, "s1", batch(naming(b"data")), blobs=[b"data"])
        store.close()
        later = another()
        assert texts(later, "s1") == ["a", naming(b"data")]
        assert later.blob(blob(b"data")[0]) == b"data"
        assert later.maintenance.check() == [] == later.maintenance.flaws()

    def test_a_repair_of_a_sound_store_does_nothing(self, store: Store) -> None:
        put(store, "s1", batch("a"))
        repaired = store.maintenance.repair()
        assert (repaired.done, repaired.lost, repaired.stale) == ([], [], [])
        assert texts(store, "s1") == ["a"]

    def test_a_closed_store_may_be_closed_again_and_used_again(self, store: Store) -> None:
        store.close()
        put(store, "s1", batch("a"))
        store.close()
        store.close()
        assert texts(store, "s1") == ["a"]
        put(store, "s1", batch("b"))
        assert texts(store, "s1") == ["a", "b"]

    def test_closing_one_store_does_not_disturb_another(
        self, store: Store, another: Callable[[], Store]
    ) -> None:
        put(store, "s1", batch("a"))
        for number in range(5):
            other = another()
            put(other, "s1", batch(f"other {number}"))
            other.close()
            put(store, "s1", batch(f"own {number}"))
        store.close()
        assert len(texts(another(), "s1")) == 11


def append_many(opener: Callable[[], Store], session: str, name: str, count: int) -> None:
    """Append `count` events, each with its writer, its number, and the event before it."""
    store = opener()
    try:
        for number in range(count):
            store.append(session, partial(_sequel, f"{name} {number}"))
    finally:
        store.close()


def _sequel(text: str, view: View) -> Batch:
    return batch(f"{text} after {view.seq}")


def in_process(function: Callable[[], object]) -> subprocess.Popen[bytes]:
    """Run a function in a new process; the function must be picklable."""
    code = "import pickle, sys; pickle.load(sys.stdin.buffer)()"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(pickle.dumps(function))
    process.stdin.close()
    return process


def _check_order(lines: Sequence[str], *, writers: int, count: int) -> None:
    assert len(lines) == 1 + writers * count
    for seq, line in enumerate(lines):
        assert line == "start" or line.endswith(f" after {seq}")
    for writer in range(writers):
        mine = [line for line in lines if line.startswith(f"w{writer} ")]
        assert [int(line.split()[1]) for line in mine] == list(range(count))


def _uncloseable(store: Store) -> Store:
    return _Shared(store)


class _Shared(Store):
    """A store used by several threads: none of them closes it for the others."""

    def __init__(self, store: Store) -> None:
        self.append = store.append  # type: ignore[method-assign]

    def close(self) -> None:
        pass
