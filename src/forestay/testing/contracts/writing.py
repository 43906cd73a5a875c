"""Writing: all of a batch or nothing; what is erased is in no byte any more."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256

import pytest

from forestay.errors import Busy, Damaged, InvalidInput, NoSession
from forestay.store.machine.machine import MachineChange
from forestay.store.machine.projects import TreeRecord
from forestay.store.port import Batch, Entry, Store, View
from forestay.testing.contracts.base import (
    Fixtures,
    Place,
    Row,
    batch,
    blob,
    content_of,
    found,
    header,
    naming,
    put,
    texts,
)

MEGABYTE = 1 << 20


class Appending(Fixtures):
    # -- appending -------------------------------------------------------------------------------

    def test_appended_events_are_read_back_exactly(self, store: Store) -> None:
        top, salt, data = bytes(range(256)), b"\0salt\xff", "näh ✓ \0".encode()
        rows: list[Row] = [("step", "ü", True, -3, b"\0\xff"), ("step", "", False, 2**40, b"")]
        what = batch(rows=rows, core=b"\0core\xff", fold=7)
        what.entries = [Entry(top, salt, data), Entry(b"h", None, None)]
        put(store, "s1", what)
        with store.view("s1") as view:
            events = [(e.seq, e.header, e.salt, e.data) for e in view.events()]
            assert events == [(1, top, salt, data), (2, b"h", None, None)]
            assert (view.core, view.fold, view.seq, view.exists) == (b"\0core\xff", 7, 2, True)
            assert sorted(view.all_rows()) == sorted(rows)

    def test_arrival_numbers_start_at_one_and_have_no_gaps(self, store: Store) -> None:
        put(store, "s1", batch("a"))
        put(store, "s2", batch("x"))
        put(store, "s1", batch("b", "c"))
        put(store, "s1", batch())
        put(store, "s1", batch("d"))
        for session, expected in (("s1", [1, 2, 3, 4]), ("s2", [1])):
            with store.view(session) as view:
                assert [stored.seq for stored in view.events()] == expected
                assert view.seq == expected[-1]

    def test_plan_sees_the_current_session(self, store: Store) -> None:
        put(store, "s1", batch("a", rows=[("step", "t1", True, 1, b"row")], core=b"first"))

        def plan(view: View) -> Batch:
            assert (view.exists, view.seq, view.core) == (True, 1, b"first")
            assert view.row("step", "t1") == b"row"
            assert [content_of(stored) for stored in view.events()] == ["a"]
            return batch("b")

        store.append("s1", plan)
        assert texts(store, "s1") == ["a", "b"]

    def test_plan_that_returns_none_writes_nothing(self, store: Store) -> None:
        store.append("s1", lambda view: None, create=True, blobs=[blob(b"x")])
        assert store.catalogue() == []
        assert store.blob(blob(b"x")[0]) is None
        put(store, "s1", batch("a", goal="kept"))
        store.append("s1", lambda view: None)
        assert (texts(store, "s1"), store.catalogue()[0]["goal"]) == (["a"], "kept")

    def test_a_plan_that_raises_writes_nothing_and_the_next_one_works(self, store: Store) -> None:
        def plan(view: View) -> Batch:
            raise LookupError("mine")

        with pytest.raises(LookupError, match="mine"):
            store.append("s1", plan, create=True)
        assert store.catalogue() == []
        put(store, "s1", batch("a"))
        with pytest.raises(LookupError, match="mine"):
            store.append("s1", plan)
        assert texts(store, "s1") == ["a"]
        put(store, "s1", batch("b"))
        assert texts(store, "s1") == ["a", "b"]

    def test_batch_that_cannot_be_stored_completely_is_not_stored_at_all(
        self, store: Store
    ) -> None:
        put(store, "s1", batch("a", goal="old", rows=[("step", "t1", True, 1, b"old")]))
        bad = batch("b", "c", goal="new", rows=[("step", "t1", True, 1, b"new")])
        bad.rows = [*bad.rows, ("step", "t2", True, "no number", b"")]  # type: ignore[list-item]
        with pytest.raises(Exception):  # noqa: B017, PT011 - any refusal will do
            put(store, "s1", bad)
        with store.view("s1") as view:
            assert (view.seq, view.row("step", "t1"), view.listing()["goal"]) == (1, b"old", "old")
        assert texts(store, "s1") == ["a"]

    def test_session_is_created_only_on_request(self, store: Store) -> None:
        with pytest.raises(NoSession):
            store.append("s1", lambda view: batch("a"))
        assert store.catalogue() == []

        def plan(view: View) -> Batch:
            assert (view.exists, view.seq, view.core) == (False, 0, b"")
            return batch("a")

        store.append("s1", plan, create=True)
        assert texts(store, "s1") == ["a"]

    def test_create_of_an_existing_session_shows_it_to_the_plan(self, store: Store) -> None:
        put(store, "s1", batch("a"))
        seen: list[bool] = []

        def plan(view: View) -> None:
            seen.append(view.exists)

        store.append("s1", plan, create=True)
        assert seen == [True]
        assert len(store.catalogue()) == 1

    def test_reading_a_missing_session_raises_no_session(self, store: Store) -> None:
        for session in ("s1", "", "\0", "\udc80", "%", "s" * 1000):
            with pytest.raises(NoSession):
                store.view(session)
        put(store, "s1", batch("a"))
        with pytest.raises(NoSession):
            store.view("s2")
        with pytest.raises(NoSession):
            store.erase("s2", lambda view: batch("gone"))

    def test_ids_are_found_in_any_case_and_stored_as_first_written(self, store: Store) -> None:
        put(store, "Fix-Login", batch("a"))
        put(store, "FIX-LOGIN", batch("b"))
        with store.view("fix-login") as view:
            assert (view.session, view.seq) == ("Fix-Login", 2)

        def plan(view: View) -> None:
            assert view.session == "Fix-Login"

        store.append("fix-LOGIN", plan)
        assert [row["id"] for row in store.catalogue()] == ["Fix-Login"]
        assert store.resolve("fIX-l") == ["Fix-Login"]
        assert len(store.catalogue(where={"id": "fix-login"})) == 1

    def test_a_key_finds_its_event_in_its_session_only(self, store: Store) -> None:
        put(store, "s1", batch("a", key="k1"))
        put(store, "s1", batch("b"))
        put(store, "s2", batch("c", key="k2"))
        put(store, "s2", batch("d", key="k1"))
        for session, key, expected in (
            ("s1", "k1", "a"),
            ("s2", "k1", "d"),
            ("s2", "k2", "c"),
            ("s1", "k2", None),
            ("s1", "", None),
        ):
            with store.view(session) as view:
                event = view.find(key)
                assert (content_of(event) if event else None) == expected
        with store.view("s1") as view:
            again = view.find("k1")
            assert again is not None and again.seq == 1

    def test_several_keys_are_looked_up_together_and_keyless_events_are_listed(
        self, store: Store
    ) -> None:
        put(store, "s1", batch("a", key="k1"))
        put(store, "s1", batch("b", "c"))
        put(store, "s2", batch("d", key="k2"))
        many = [f"no {n}" for n in range(1_200)]
        with store.view("s1") as view:
            assert view.has_any([*many, "k1"]) and not view.has_any([*many, "k2", ""])
            assert not view.has_any([])
            assert [(one.seq, content_of(one)) for one in view.events(keyless_only=True)] == [
                (2, "b"),
                (3, "c"),
            ]

    def test_an_id_that_is_too_long_is_refused(self, store: Store) -> None:
        with pytest.raises(InvalidInput):
            put(store, "s" * 300, batch("a"))
        assert store.catalogue() == []

    # -- rows ------------------------------------------------------------------------------------

    def test_rows_come_by_rank_then_key(self, store: Store) -> None:
        rows: list[Row] = [
            ("step", "c", True, 1, b"c1"),
            ("step", "a", False, 2, b"a2"),
            ("step", "b", True, 2, b"b2"),
            ("step", "d", True, -5, b"d-5"),
            ("file", "z", True, 0, b"other table"),
        ]
        put(store, "s1", batch("x", rows=rows))
        put(store, "s2", batch("x", rows=[("step", "a", True, 0, b"other session")]))
        with store.view("s1") as view:
            assert view.rows("step") == [b"d-5", b"c1", b"a2", b"b2"]
            assert view.rows("step", newest=True) == [b"b2", b"a2", b"c1", b"d-5"]
            assert view.rows("step", open_only=True) == [b"d-5", b"c1", b"b2"]
            assert view.rows("step", newest=True, limit=2) == [b"b2", b"a2"]
            assert view.rows("step", open_only=True, newest=True, limit=1) == [b"b2"]
            assert view.rows("step", limit=0) == []
            assert view.rows("step", limit=10**30) == view.rows("step")
            assert view.rows("nothing") == []
            assert view.row("step", "nothing") is None

    def test_row_written_again_replaces_the_old_one(self, store: Store) -> None:
        put(store, "s1", batch("a", rows=[("step", "t", True, 1, b"old")]))
        put(store, "s1", batch("b", rows=[("step", "t", False, 9, b"new")]))
        with store.view("s1") as view:
            assert view.all_rows() == [("step", "t", False, 9, b"new")]
            assert view.rows("step", open_only=True) == []

    def test_fresh_rows_replace_all_rows_of_the_session(self, store: Store) -> None:
        put(
            store,
            "s1",
            batch("a", rows=[("step", "t", True, 1, b"1"), ("file", "f", False, 1, b"")]),
        )
        put(store, "s2", batch("a", rows=[("step", "t", True, 1, b"kept")]))
        put(store, "s1", batch("b", rows=[("step", "u", True, 1, b"2")], fresh_rows=True))
        with store.view("s1") as view:
            assert view.all_rows() == [("step", "u", True, 1, b"2")]
        with store.view("s2") as view:
            assert view.row("step", "t") == b"kept"

    def test_a_session_is_chosen_with_its_event_or_not_at_all(self, store: Store) -> None:
        tree = TreeRecord("/w", "1:2", 0, id="p1", name="shop", keys=[("path", "/w")])

        def refuse(view: View) -> Batch:
            raise LookupError

        with pytest.raises(LookupError):
            store.append("s1", refuse, create=True, change=MachineChange(tree=tree))
        assert store.machine.projects.tree("/w") is None and store.machine.projects.all() == []
        store.append("s1", lambda view: batch("a"), create=True, change=MachineChange(tree=tree))
        project = store.machine.projects.all()[0][0]
        assert store.machine.projects.tree("/w") == ("1:2", project, "s1")
        assert store.machine.projects.name_of(project) == "shop"
        assert [row["project"] for row in store.catalogue()] == [project]
        store.append("s2", lambda view: batch("b"), create=True)
        store.append(
            "s2", lambda view: None, change=MachineChange(tree=TreeRecord("/w", "1:2", project))
        )
        assert store.machine.projects.tree("/w") == ("1:2", project, "s2")


class Erasing(Fixtures):
    # -- blobs -----------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        "data",
        [b"", b"\0", b"text", bytes(range(256)) * 5000, b"\0" * (2 * MEGABYTE), b"x" * MEGABYTE],
        ids=["empty", "one byte", "text", "several parts", "two full parts", "one full part"],
    )
    def test_a_blob_is_read_back_exactly(self, store: Store, data: bytes) -> None:
        put(store, "s1", batch("a"), blobs=[data])
        put(store, "s2", batch("a"), blobs=[data])
        assert store.blob(sha256(data).hexdigest()) == data
        assert store.blob("0" * 64) is None
        assert store.blob("\udc80") is None

    def test_blob_that_does_not_match_its_digest_is_refused(self, store: Store) -> None:
        with pytest.raises(Damaged):
            store.append("s1", lambda view: batch("a"), create=True, blobs=[("0" * 64, b"x")])
        assert store.catalogue() == []

    def test_damaged_blob_is_never_returned(self, store: Store, place: Place) -> None:
        digest, data = blob(b"what was written" * 1000)
        put(store, "s1", batch("a"), blobs=[data, b"sound"])
        place.damage_blob(digest)
        with pytest.raises(Damaged):
            store.blob(digest)
        assert store.blob(blob(b"sound")[0]) == b"sound"

    # -- erasing ---------------------------------------------------------------------------------

    def test_nothing_erased_remains_in_any_byte(self, store: Store, place: Place) -> None:
        secrets = [f"Geheim-{n}-" + "x" * (40 * n) for n in range(1, 60)]
        shared = _noise("shared")
        own = _noise("own")
        for text in secrets:
            rows: list[Row] = [("step", text[:50], True, 1, text.encode())]
            put(store, "s1", batch(text, key="Geheimkey", rows=rows, core=text.encode()))
        last = batch(naming(shared, own), goal="Geheimziel", summary="Geheimes")
        put(store, "s1", last, [shared, own])
        put(store, "s2", batch("open", naming(shared), goal="kept"), [shared])
        if store.capabilities.search:
            assert len(found(store, "geheim", limit=100)) == 59
        assert b"Geheim" in place.raw()
        store.erase("S1", lambda view: batch("tombstone", core=b"gone", forgotten=1))
        assert b"geheim" not in place.raw().lower()
        store.close()
        assert b"geheim" not in place.raw().lower()
        assert store.blob(blob(own)[0]) is None
        assert store.blob(blob(shared)[0]) == shared
        assert texts(store, "s2") == ["open", naming(shared)]
        assert [row["goal"] for row in store.catalogue()] == ["kept"]
        if store.capabilities.search:
            assert found(store, "geheim") == []

    def test_content_is_erased_with_the_last_session_that_names_it(self, store: Store) -> None:
        for session in ("s1", "s2"):
            put(store, session, batch(naming(b"shared")), [b"shared"])
        store.erase("s1", lambda view: batch("tombstone", forgotten=1))
        assert store.blob(blob(b"shared")[0]) == b"shared"
        assert store.maintenance.flaws() == []
        store.erase("s2", lambda view: batch("tombstone", forgotten=1))
        assert store.blob(blob(b"shared")[0]) is None
        assert store.maintenance.flaws() == []

    def test_headers_stay_and_the_tombstone_is_the_last(self, store: Store) -> None:
        put(store, "s1", batch("a", "b", rows=[("step", "t", True, 1, b"")]))
        store.erase("s1", lambda view: batch("tombstone", core=b"gone", forgotten=1))
        with store.view("s1") as view:
            events = [(e.seq, e.header, e.salt, e.data) for e in view.events()]
            assert events == [
                (1, header("a"), None, None),
                (2, header("b"), None, None),
                (3, header("tombstone"), None, None),
            ]
            assert (view.core, view.seq, view.all_rows()) == (b"gone", 3, [])
        put(store, "s1", batch("after"))
        assert texts(store, "s1")[3:] == ["after"]

    def test_erased_events_leave_no_byte(self, store: Store, place: Place) -> None:
        own, shared = _noise("own"), _noise("shared")
        put(store, "s1", batch("Geheim-1", naming(shared)), [shared])
        put(store, "s1", batch(naming(own), key="Geheimkey"), [own])
        put(store, "s1", batch("plain", rows=[("step", "t", True, 1, b"Geheim-2")]))
        if store.capabilities.search:
            assert len(found(store, "geheim")) == 1
        store.append("s1", lambda view: batch("tombstone", erased=[1, 3], fresh_rows=True))
        raw = place.raw()
        assert b"geheim-" not in raw.lower() and own[:64] not in raw
        assert (store.blob(blob(own)[0]), store.blob(blob(shared)[0])) == (None, shared)
        with store.view("s1") as view:
            events = list(view.events())
            assert view.intact() and view.keeps_content()
            assert [(e.salt is None, e.data is None) for e in events] == [
                (number in (1, 3),) * 2 for number in range(1, 6)
            ]
            kept = view.find("Geheimkey")
            assert kept is not None and (kept.seq, kept.data) == (3, None)
        assert store.maintenance.flaws() == []
        put(store, "s1", batch("after"))
        if store.capabilities.search:
            assert found(store, "geheim") == [] and len(found(store, "after")) == 1

    def test_event_without_content_can_get_it_later(self, store: Store) -> None:
        put(store, "s1", batch("first", "second", "third"))
        with store.view("s1") as view:
            before = list(view.events())
        store.append("s1", lambda view: batch("tombstone", erased=[2], fresh_rows=True))

        def fill(view: View) -> Batch:
            made = batch(erased=[], fresh_rows=True)
            made.filled = [(n, before[n - 1].salt or b"", b"not " * n) for n in (1, 2)]
            return made

        store.append("s1", fill)
        with store.view("s1") as view:
            assert view.intact()
            filled = [before[0].data, b"not not ", before[2].data]
            assert [event.data for event in view.events(limit=3)] == filled
        assert store.maintenance.flaws() == []

    def test_empty_erasure_removes_content_that_no_event_names(self, store: Store) -> None:
        put(store, "s1", batch(naming(b"named")), [b"named"])
        store.append("s1", lambda view: batch("a", erased=[]), blobs=[blob(b"named by nobody")])
        assert store.blob(blob(b"named by nobody")[0]) is None
        assert store.blob(blob(b"named")[0]) == b"named"

    def test_an_erasure_that_is_refused_erases_nothing(self, store: Store) -> None:
        put(store, "s1", batch("a"), blobs=[b"data"])

        def plan(view: View) -> Batch:
            raise LookupError

        with pytest.raises(LookupError):
            store.erase("s1", plan)
        assert texts(store, "s1") == ["a"]
        assert store.blob(blob(b"data")[0]) == b"data"

    def test_pages_in_use_by_a_reader_are_removed_after_it_ends(
        self, store: Store, another: Callable[[], Store], place: Place
    ) -> None:
        put(store, "s1", batch("Geheimnis"))
        other = another()
        with other.view("s1") as view:
            with suppress(Busy):
                store.erase("s1", lambda view: batch("tombstone", forgotten=1))
            assert [content_of(stored) for stored in view.events()] == ["Geheimnis"]
        assert [row["id"] for row in other.catalogue(where={"forgotten": 1})] == ["s1"]
        other.close()
        store.close()
        put(another(), "s2", batch("the next write"))
        assert b"Geheimnis" not in place.raw()


def _noise(seed: str) -> bytes:
    """Return incompressible bytes, so that they would be found in a file."""
    return b"".join(sha256(f"{seed}{n}".encode()).digest() for n in range(300))
