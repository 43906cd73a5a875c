"""Searching: plain words, no operators, always up to date. For stores that declare it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from forestay.errors import Damaged, InvalidInput
from forestay.store.port import Store, Stored
from forestay.testing.contracts.base import Fixtures, Place, batch, content_of, found, put, text_of


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

    def test_what_is_erased_while_it_is_being_read_is_not_indexed(
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
