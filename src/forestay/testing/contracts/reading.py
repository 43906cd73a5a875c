"""Reading: events in parts, one moment for each view, the catalogue of sessions, and search."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from forestay.errors import Damaged, InvalidInput
from forestay.store.port import Batch, Store, Stored, View
from forestay.testing.contracts.base import (
    Fixtures,
    Place,
    Row,
    batch,
    content_of,
    found,
    head,
    put,
    text_of,
    texts,
)


class Reading(Fixtures):
    # -- events ----------------------------------------------------------------------------------

    def test_events_can_be_read_in_parts_and_backwards(self, store: Store) -> None:
        put(store, "s0", batch("before"))
        put(store, "s1", batch(*map(str, range(1, 8))))
        put(store, "s2", batch("behind"))
        with store.view("s1") as view:

            def seqs(**how: int | bool) -> list[int]:
                return [stored.seq for stored in view.events(**how)]  # type: ignore[arg-type]

            assert seqs(after=5) == [6, 7]
            assert seqs(after=2, limit=3) == [3, 4, 5]
            assert seqs(newest=True, limit=2) == [7, 6]
            assert seqs(newest=True, after=4) == [7, 6, 5]
            assert seqs(limit=0) == []
            assert seqs(after=7) == seqs(after=10**30) == []
            assert seqs(after=-(10**30), limit=10**30) == [1, 2, 3, 4, 5, 6, 7]

    def test_two_readings_of_one_view_do_not_disturb_each_other(self, store: Store) -> None:
        put(store, "s1", batch(*map(str, range(50))))
        with store.view("s1") as view:
            pairs = zip(view.events(), view.events(newest=True), strict=True)
            assert [(a.seq, b.seq) for a, b in pairs] == [(n, 51 - n) for n in range(1, 51)]

    def test_events_are_intact_until_a_byte_of_them_changes(
        self, store: Store, another: Callable[[], Store], place: Place
    ) -> None:
        def intact(session: str = "s1") -> bool:
            with another().view(session) as view:
                return view.intact()

        rows: list[Row] = [("step", "t", True, 1, b"1"), ("step", "u", True, 1, b"1")]
        put(store, "s1", batch("a", "b", key="k", rows=rows))
        put(store, "s2", batch("x", rows=rows))
        put(store, "s1", batch("c", rows=[("step", "t", False, 3, b"2")]))
        put(store, "s1", batch())
        assert intact()
        put(store, "s1", batch("c", rows=rows, fresh_rows=True))
        assert intact()
        store.erase("s2", lambda view: batch("tombstone", forgotten=1))
        assert intact("s2")
        place.damage_event("s1", 2)
        assert not intact()
        put(store, "s1", batch("d"))
        assert not intact()
        assert intact("s2")
        put(store, "s1", batch("e", resum=True))
        assert intact()

    # -- moments ---------------------------------------------------------------------------------

    def test_a_view_is_one_moment_while_others_write(
        self, store: Store, another: Callable[[], Store]
    ) -> None:
        put(store, "s1", batch("a", goal="old", rows=[("step", "t", True, 1, b"old")]))
        other = another()
        with store.view("s1") as view:
            put(other, "s1", batch("b", goal="new", rows=[("step", "t", True, 1, b"new")]))
            assert [content_of(stored) for stored in view.events()] == ["a"]
            assert (view.row("step", "t"), view.listing()["goal"]) == (b"old", "old")
            with store.view("s1") as later:
                assert (later.seq, later.row("step", "t")) == (2, b"new")
            assert store.catalogue()[0]["goal"] == "new"
            assert view.row("step", "t") == b"old"
        assert texts(store, "s1") == ["a", "b"]

    def test_a_head_remembered_later_is_not_in_an_earlier_view(
        self, store: Store, another: Callable[[], Store]
    ) -> None:
        put(store, "s1", batch("a", head=head(1)))
        other = another()
        with store.view("s1") as view:
            put(other, "s1", batch("b", head=head(2)))
            assert view.remembered is not None and view.remembered.n == 1

    def test_writing_is_possible_during_a_read(self, store: Store) -> None:
        put(store, "s1", batch(*map(str, range(100))))
        with store.view("s1") as view:
            for stored in view.events():
                if stored.seq % 25 == 0:
                    put(store, "s1", batch(f"written at {stored.seq}"))
        assert texts(store, "s1")[100:] == [f"written at {n}" for n in (25, 50, 75, 100)]

    def test_a_view_that_has_ended_cannot_be_used(self, store: Store) -> None:
        put(store, "s1", batch("a", "b", "c"))
        with store.view("s1") as view:
            half_read = view.events()
            next(half_read)
        for use in (
            lambda: next(half_read),
            lambda: view.row("step", "t"),
            lambda: list(view.events()),
            lambda: view.find("k"),
            view.intact,
            view.listing,
        ):
            with pytest.raises(RuntimeError):
                use()

    def test_the_view_of_a_plan_ends_with_it(self, store: Store) -> None:
        kept: list[View] = []
        put(store, "s1", batch("a"))

        def plan(view: View) -> Batch:
            kept.append(view)
            return batch("b")

        store.append("s1", plan)
        with pytest.raises(RuntimeError):
            kept[0].row("step", "t")

    def test_an_error_inside_a_view_ends_it(self, store: Store) -> None:
        put(store, "s1", batch("a"))
        for _ in range(20):
            with pytest.raises(LookupError):
                with store.view("s1"):
                    raise LookupError
        put(store, "s1", batch("b"))
        assert texts(store, "s1") == ["a", "b"]

    # -- the catalogue ---------------------------------------------------------------------------

    def test_the_catalogue_lists_the_latest_change_first(self, store: Store) -> None:
        for session, updated in (("s1", 5), ("s2", 9), ("s3", 5), ("s4", -2)):
            put(store, session, batch("a", updated=updated))
        assert [row["id"] for row in store.catalogue()] == ["s2", "s3", "s1", "s4"]
        put(store, "s4", batch("b", updated=10))
        assert [row["id"] for row in store.catalogue(limit=2)] == ["s4", "s2"]
        assert store.catalogue(limit=0) == []
        assert len(store.catalogue(limit=10**30)) == 4

    def test_listing_is_that_of_the_last_batch(self, store: Store) -> None:
        put(store, "s1", batch("a", goal="first"))
        put(
            store,
            "s1",
            batch("b", status="paused", goal="Zweites ✓", began=1, updated=2, summary='{"x":1}'),
        )
        (row,) = store.catalogue()
        with store.view("s1") as view:
            assert view.listing() == row
        shown = {name: row[name] for name in ("id", "seq", "status", "goal", "began", "updated")}
        assert shown == {
            "id": "s1",
            "seq": 2,
            "status": "paused",
            "goal": "Zweites ✓",
            "began": 1,
            "updated": 2,
        }
        assert (row["summary"], row["archived"], row["project"]) == ('{"x":1}', 0, None)

    def test_the_catalogue_is_filtered_by_equality(self, store: Store) -> None:
        put(store, "s1", batch("a", status="active"))
        put(store, "s2", batch("a", status="paused"))
        put(store, "s3", batch("a", status="paused", archived=1))
        put(store, "s4", batch("a", forgotten=1))

        def ids(**where: object) -> list[str]:
            return sorted(str(row["id"]) for row in store.catalogue(where=where))

        assert ids() == ["s1", "s2", "s3"]
        assert ids(status="paused") == ["s2", "s3"]
        assert ids(status="paused", archived=0) == ["s2"]
        assert ids(id="s1") == ["s1"]
        assert ids(id="s4") == []
        assert ids(forgotten=1) == ["s4"]
        assert ids(project=None) == ["s1", "s2", "s3"]
        assert ids(status="' OR 1=1 --") == []

    def test_prefix_finds_every_id_that_begins_with_it(self, store: Store) -> None:
        for session in "abc abx ABe b% b_x b* b? b[a] zz zzz ä1 y~ yü".split():
            put(store, session, batch("a"))
        for prefix, expected in (
            ("ab", ["abc", "ABe", "abx"]),
            ("AB", ["abc", "ABe", "abx"]),
            ("y", ["y~", "yü"]),
            ("abc", ["abc"]),
            *((id, [id]) for id in ("b%", "b*", "b?", "zz", "zzz")),
            ("b_", ["b_x"]),
            ("b[", ["b[a]"]),
            ("ä", ["ä1"]),
            *(
                (none, [])
                for none in ("%", "_", "é", "", "\0", "ab\0", "\udc80", "abcd", "a" * 10_000)
            ),
        ):
            assert sorted(store.resolve(prefix), key=str.lower) == expected, prefix

    def test_forgotten_sessions_are_not_resolved(self, store: Store) -> None:
        put(store, "s1", batch("a"))
        put(store, "s2", batch("a", forgotten=1))
        assert store.resolve("s") == ["s1"]
        assert store.resolve("s2") == []


class Searching(Fixtures):
    @pytest.fixture
    def searched(self, store: Store) -> Store:
        if not store.capabilities.search:
            pytest.skip("declares no search")
        put(store, "s1", batch("Login fails with a wörd", "unsaid login", "the login page"))
        put(store, "s2", batch('say "NEAR" AND stop', "C++ * login-form"))
        return store

    @pytest.mark.parametrize(
        "words, expected",
        [
            ("login fails", [("s1", 1)]),
            ("fails login", [("s1", 1)]),
            ("LOG", [("s1", 1), ("s1", 3), ("s2", 2)]),
            ("ogin", []),
            ("word", [("s1", 1)]),
            ("WÖRD", [("s1", 1)]),
            ("login nothing", []),
            ("near", [("s2", 1)]),
            ("AND", [("s2", 1)]),
            ('say "NEAR"', [("s2", 1)]),
            ("NEAR(", [("s2", 1)]),
            ("login-form", [("s2", 2)]),
            ("login OR stop", []),
            ("NOT login", []),
            ("text:login", []),
            ("c++", [("s2", 2)]),
            ("login*", [("s1", 1), ("s1", 3), ("s2", 2)]),
            ("log\0in", []),
            ("log\0 login\0", [("s1", 1), ("s1", 3), ("s2", 2)]),
        ],
    )
    def test_search_finds_all_words_or_what_begins_with_them(
        self, searched: Store, words: str, expected: list[tuple[str, int]]
    ) -> None:
        assert sorted(found(searched, words)) == expected

    @pytest.mark.parametrize(
        "words",
        [
            *("", " \t\n", '"', '""', "*", "-", "^", "(", "NEAR(", "{a b}: x", "'", "a" * 100_000),
            *("\udc80", "✓", "a:b", "\\", "%", ";DROP TABLE find", '"a" AND', "🦀 " * 60),
        ],
    )
    def test_nothing_in_a_search_is_an_operator_or_an_error(
        self, searched: Store, words: str
    ) -> None:
        assert isinstance(found(searched, words), list)

    def test_too_many_words_are_refused(self, searched: Store) -> None:
        with pytest.raises(InvalidInput):
            found(searched, " ".join(map(str, range(10_000))))

    def test_hit_has_its_place_and_a_snippet(self, searched: Store) -> None:
        (hit,) = searched.search("fails", text_of=text_of)
        assert (hit["session"], hit["seq"], hit["kind"]) == ("s1", 1, "note.added")
        assert "[fails]" in str(hit["snippet"])

    def test_search_is_up_to_date_when_it_answers(
        self, searched: Store, another: Callable[[], Store]
    ) -> None:
        assert found(searched, "later") == []
        put(searched, "s1", batch("a later event", "one more"))
        put(another(), "s3", batch("much later"))
        assert sorted(found(searched, "later")) == [("s1", 4), ("s3", 1)]
        assert sorted(found(searched, "later")) == [("s1", 4), ("s3", 1)]

    def test_search_obeys_its_limit(self, searched: Store) -> None:
        put(searched, "s4", batch(*(f"many words {n}" for n in range(50))))
        assert len(found(searched, "many")) == 20
        assert len(found(searched, "many", limit=3)) == 3

    def test_search_of_a_long_journal_reaches_its_end(self, searched: Store) -> None:
        put(searched, "s5", batch(*(f"needle{n}" for n in range(4500))))
        assert found(searched, "needle4499") == [("s5", 4500)]
        assert found(searched, "needle0") == [("s5", 1)]

    def test_an_event_that_cannot_be_read_does_not_hide_the_others(self, searched: Store) -> None:
        def picky(stored: Stored) -> tuple[str, str] | None:
            if stored.seq == 1:
                raise Damaged("unreadable")
            return text_of(stored)

        hits = searched.search("login", text_of=picky)
        assert sorted((str(h["session"]), h["seq"]) for h in hits) == [("s1", 3), ("s2", 2)]

    def test_event_erased_during_a_search_is_not_indexed(
        self, searched: Store, another: Callable[[], Store], place: Place
    ) -> None:
        other = another()
        put(searched, "s6", batch("Geheimnis"))

        def erasing(stored: Stored) -> tuple[str, str] | None:
            if content_of(stored) == "Geheimnis" and other.resolve("s6"):
                other.erase("s6", lambda view: batch("tombstone", forgotten=1))
            return text_of(stored)

        assert searched.search("geheimnis", text_of=erasing) == []
        searched.close()
        other.close()
        assert b"geheimnis" not in place.raw().lower()

    def test_two_simultaneous_searches_do_not_index_twice(
        self, searched: Store, another: Callable[[], Store]
    ) -> None:
        other = another()

        def slowly(stored: Stored) -> tuple[str, str] | None:
            assert len(found(other, "fails")) == 1
            return text_of(stored)

        assert len(searched.search("fails", text_of=slowly)) == 1
        assert len(found(searched, "login")) == 3
