"""What a store remembers outside its tables: chain ends, losses, its device."""

from __future__ import annotations

from collections.abc import Callable

from forestay.store.port import Store, View
from forestay.testing.contracts.base import Fixtures, Place, batch, head, put, texts


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

    def test_a_database_that_was_set_back_is_shorter_than_what_is_remembered(
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
        # A new session may get the place of the one that is gone: that stays known too.
        put(later, "s3", batch("new", head=head(1)))
        assert {session for session, _ in later.maintenance.remembered()} == {"s1", "s2", "s3"}

    def test_what_was_lost_stays_known(self, store: Store, another: Callable[[], Store]) -> None:
        gone = ("d1", 5, head(5).hash)
        put(store, "s1", batch("a", lost=[gone]))
        put(store, "s1", batch("b", lost=[gone]))
        with another().view("s1") as view:
            assert view.lost() == [gone]
        assert [(s, h.n) for s, h in store.maintenance.remembered()] == [("s1", 5)]

    def test_a_loss_may_be_noted_for_a_session_that_is_not_there(self, store: Store) -> None:
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
