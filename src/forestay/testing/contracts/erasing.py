"""Blobs, and erasing: what is erased is in no byte any more."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256

import pytest

from forestay.errors import Busy, Damaged
from forestay.store.port import Batch, Store, View
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

    def test_a_damaged_blob_is_never_handed_out(self, store: Store, place: Place) -> None:
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

    def test_content_goes_with_the_last_session_that_names_it(self, store: Store) -> None:
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

    def test_erased_events_leave_nothing_of_theirs_in_any_byte(
        self, store: Store, place: Place
    ) -> None:
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

    def test_what_was_held_without_content_can_get_it(self, store: Store) -> None:
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

    def test_content_that_no_event_names_goes_with_an_empty_erasure(self, store: Store) -> None:
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

    def test_pages_that_are_being_read_go_when_the_reader_has_gone(
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
    """Bytes that no compression makes shorter, so that they would be found as they are."""
    return b"".join(sha256(f"{seed}{n}".encode()).digest() for n in range(300))
