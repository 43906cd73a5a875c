"""What every store must do, as tests. An adapter is done when all of them pass.

An adapter's test module names the *place* where its data lies and inherits the rest:

    class TestMyStore(StoreContract):
        @pytest.fixture
        def place(self, tmp_path: Path) -> MyPlace:
            return MyPlace(partial(open_store, "my:…", str(tmp_path), clock=Clock()))

Each test gets a fresh place, in any order. What an adapter does not declare in `Capabilities` is
skipped; everything else is not optional.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256

import pytest

from holdfast.errors import Busy, Damaged, InvalidInput, NoSession
from holdfast.store import Batch, Entry, Head, Store, Stored, View

Row = tuple[str, str, bool, int, bytes]
MEGABYTE = 1 << 20


class Place:
    """Where the data of one test lies. `opener` makes a store over it and can be pickled."""

    def __init__(self, opener: Callable[[], Store]) -> None:
        self.opener = opener

    def raw(self) -> bytes:
        """Every byte that lies there now, in any file or table."""
        raise NotImplementedError

    def damage_blob(self, digest: str) -> None:
        """Change what is kept under a digest, behind the store's back."""
        raise NotImplementedError

    def damage_event(self, session: str, seq: int) -> None:
        """Change one byte of what an event says, behind the store's back."""
        raise NotImplementedError

    def keep(self) -> Callable[[], None]:
        """Copy the data as it is now; the answer puts the copy back as its owner would.

        What the store remembers outside its tables stays as it is.
        """
        raise NotImplementedError


# --- short ways to say things ------------------------------------------------------------------


def entry(text: str, key: str | None = None) -> Entry:
    return Entry(header(text), f"salt of {text}".encode(), text.encode(), key)


def header(text: str) -> bytes:
    return b"header " + sha256(text.encode()).hexdigest().encode()


def head(n: int, device: str = "d1") -> Head:
    return Head(device, n, sha256(f"{device}:{n}".encode()).hexdigest())


def batch(
    *texts: str,
    key: str | None = None,
    rows: Sequence[Row] = (),
    core: bytes = b"core",
    fold: int = 1,
    head: Head | None = None,
    fresh_rows: bool = False,
    device: str | None = None,
    lost: Sequence[tuple[str, int, str]] = (),
    resum: bool = False,
    **listing: object,
) -> Batch:
    shown = {"status": "active", "goal": "", "archived": 0, "forgotten": 0, "began": 0}
    return Batch(
        entries=[entry(text, key) for text in texts],
        core=core,
        fold=fold,
        rows=rows,
        listing={**shown, "updated": 0, "summary": "{}", **listing},
        head=head,
        fresh_rows=fresh_rows,
        device=device,
        lost=lost,
        resum=resum,
    )


def put(store: Store, session: str, what: Batch, blobs: Sequence[bytes] = ()) -> None:
    named = [(sha256(data).hexdigest(), data) for data in blobs]
    store.append(session, lambda view: what, create=True, blobs=named)


def texts(store: Store, session: str) -> list[str]:
    with store.view(session) as view:
        return [said(stored) for stored in view.events()]


def said(stored: Stored) -> str:
    return (stored.data or b"").decode()


def text_of(stored: Stored) -> tuple[str, str] | None:
    """Every event is worth finding, unless it says so or is erased."""
    text = said(stored)
    return None if text.startswith("unsaid") or not text else ("note.added", text)


def found(store: Store, words: str, limit: int = 20) -> list[tuple[object, object]]:
    hits = store.search(words, text_of=text_of, limit=limit)
    return [(hit["session"], hit["seq"]) for hit in hits]


def append_many(opener: Callable[[], Store], session: str, name: str, count: int) -> None:
    """Append `count` events, each saying who wrote it, its number, and what came before it."""
    store = opener()
    try:
        for number in range(count):
            store.append(session, partial(_sequel, f"{name} {number}"))
    finally:
        store.close()


def _sequel(text: str, view: View) -> Batch:
    return batch(f"{text} after {view.seq}")


def in_process(function: Callable[[], object]) -> subprocess.Popen[bytes]:
    """Run a function of importable parts in a fresh process."""
    code = "import pickle, sys; pickle.load(sys.stdin.buffer)()"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(pickle.dumps(function))
    process.stdin.close()
    return process


# --- the contract ------------------------------------------------------------------------------


class StoreContract:
    @pytest.fixture
    def place(self) -> Place:
        raise NotImplementedError("an adapter's test class has a fixture `place` of its own")

    @pytest.fixture
    def another(self, place: Place) -> Iterator[Callable[[], Store]]:
        """Opens one more store over the same data."""
        opened: list[Store] = []

        def open_one() -> Store:
            opened.append(place.opener())
            return opened[-1]

        yield open_one
        for store in opened:
            store.close()

    @pytest.fixture
    def store(self, another: Callable[[], Store]) -> Store:
        return another()

    # -- appending -----------------------------------------------------------------------------

    def test_what_was_appended_is_read_back_exactly(self, store: Store) -> None:
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

    def test_a_plan_sees_the_session_as_it_is(self, store: Store) -> None:
        put(store, "s1", batch("a", rows=[("step", "t1", True, 1, b"row")], core=b"first"))

        def plan(view: View) -> Batch:
            assert (view.exists, view.seq, view.core) == (True, 1, b"first")
            assert view.row("step", "t1") == b"row"
            assert [said(stored) for stored in view.events()] == ["a"]
            return batch("b")

        store.append("s1", plan)
        assert texts(store, "s1") == ["a", "b"]

    def test_a_plan_that_answers_nothing_writes_nothing(self, store: Store) -> None:
        store.append("s1", lambda view: None, create=True, blobs=[_blob(b"x")])
        assert store.catalogue() == []
        assert store.blob(_blob(b"x")[0]) is None
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

    def test_a_batch_that_cannot_be_kept_whole_is_not_kept_at_all(self, store: Store) -> None:
        put(store, "s1", batch("a", goal="old", rows=[("step", "t1", True, 1, b"old")]))
        bad = batch("b", "c", goal="new", rows=[("step", "t1", True, 1, b"new")])
        bad.rows = [*bad.rows, ("step", "t2", True, "no number", b"")]  # type: ignore[list-item]
        with pytest.raises(Exception):  # noqa: B017, PT011 - any refusal will do
            put(store, "s1", bad)
        with store.view("s1") as view:
            assert (view.seq, view.row("step", "t1"), view.listing()["goal"]) == (1, b"old", "old")
        assert texts(store, "s1") == ["a"]

    def test_a_session_is_made_only_when_asked(self, store: Store) -> None:
        with pytest.raises(NoSession):
            store.append("s1", lambda view: batch("a"))
        assert store.catalogue() == []

        def plan(view: View) -> Batch:
            assert (view.exists, view.seq, view.core) == (False, 0, b"")
            return batch("a")

        store.append("s1", plan, create=True)
        assert texts(store, "s1") == ["a"]

    def test_create_of_one_that_is_there_shows_it_to_the_plan(self, store: Store) -> None:
        put(store, "s1", batch("a"))
        seen: list[bool] = []

        def plan(view: View) -> None:
            seen.append(view.exists)

        store.append("s1", plan, create=True)
        assert seen == [True]
        assert len(store.catalogue()) == 1

    def test_reading_what_is_not_there_raises_no_session(self, store: Store) -> None:
        for session in ("s1", "", "\0", "\udc80", "%", "s" * 1000):
            with pytest.raises(NoSession):
                store.view(session)
        put(store, "s1", batch("a"))
        with pytest.raises(NoSession):
            store.view("s2")
        with pytest.raises(NoSession):
            store.erase("s2", lambda view: batch("gone"))

    def test_ids_are_found_in_any_case_and_kept_as_first_written(self, store: Store) -> None:
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
                assert (said(event) if event else None) == expected
        with store.view("s1") as view:
            again = view.find("k1")
            assert again is not None and again.seq == 1

    def test_an_id_that_is_too_long_is_refused(self, store: Store) -> None:
        with pytest.raises(InvalidInput):
            put(store, "s" * 300, batch("a"))
        assert store.catalogue() == []

    # -- rows ----------------------------------------------------------------------------------

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

    def test_a_row_put_again_takes_the_place_of_the_old_one(self, store: Store) -> None:
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

    # -- events --------------------------------------------------------------------------------

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

    # -- moments -------------------------------------------------------------------------------

    def test_a_view_is_one_moment_while_others_write(
        self, store: Store, another: Callable[[], Store]
    ) -> None:
        put(store, "s1", batch("a", goal="old", rows=[("step", "t", True, 1, b"old")]))
        other = another()
        with store.view("s1") as view:
            put(other, "s1", batch("b", goal="new", rows=[("step", "t", True, 1, b"new")]))
            assert [said(stored) for stored in view.events()] == ["a"]
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

    def test_one_can_write_while_one_reads(self, store: Store) -> None:
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

    # -- the catalogue -------------------------------------------------------------------------

    def test_the_catalogue_lists_the_latest_change_first(self, store: Store) -> None:
        for session, updated in (("s1", 5), ("s2", 9), ("s3", 5), ("s4", -2)):
            put(store, session, batch("a", updated=updated))
        assert [row["id"] for row in store.catalogue()] == ["s2", "s3", "s1", "s4"]
        put(store, "s4", batch("b", updated=10))
        assert [row["id"] for row in store.catalogue(limit=2)] == ["s4", "s2"]
        assert store.catalogue(limit=0) == []
        assert len(store.catalogue(limit=10**30)) == 4

    def test_a_listing_says_what_the_last_batch_said(self, store: Store) -> None:
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

    def test_a_beginning_finds_every_id_that_has_it(self, store: Store) -> None:
        for session in (
            "abc",
            "abx",
            "ABe",
            "b%",
            "b_x",
            "b*",
            "b?",
            "b[a]",
            "zz",
            "zzz",
            "ä1",
            "y~",
            "yü",
        ):
            put(store, session, batch("a"))
        for prefix, expected in (
            ("ab", ["abc", "ABe", "abx"]),
            ("AB", ["abc", "ABe", "abx"]),
            ("y", ["y~", "yü"]),
            ("abc", ["abc"]),
            ("b%", ["b%"]),
            ("b_", ["b_x"]),
            ("b*", ["b*"]),
            ("b?", ["b?"]),
            ("b[", ["b[a]"]),
            ("%", []),
            ("_", []),
            ("zz", ["zz"]),
            ("zzz", ["zzz"]),
            ("ä", ["ä1"]),
            ("é", []),
            ("", []),
            ("\0", []),
            ("ab\0", []),
            ("\udc80", []),
            ("abcd", []),
            ("a" * 10_000, []),
        ):
            assert sorted(store.resolve(prefix), key=str.lower) == expected, prefix

    def test_forgotten_sessions_are_not_resolved(self, store: Store) -> None:
        put(store, "s1", batch("a"))
        put(store, "s2", batch("a", forgotten=1))
        assert store.resolve("s") == ["s1"]
        assert store.resolve("s2") == []

    # -- blobs ---------------------------------------------------------------------------------

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

    def test_a_blob_that_is_not_what_its_name_says_is_refused(self, store: Store) -> None:
        with pytest.raises(Damaged):
            store.append("s1", lambda view: batch("a"), create=True, blobs=[("0" * 64, b"x")])
        assert store.catalogue() == []

    def test_a_damaged_blob_is_never_handed_out(self, store: Store, place: Place) -> None:
        digest, data = _blob(b"what was written" * 1000)
        put(store, "s1", batch("a"), blobs=[data, b"sound"])
        place.damage_blob(digest)
        with pytest.raises(Damaged):
            store.blob(digest)
        assert store.blob(_blob(b"sound")[0]) == b"sound"

    # -- erasing -------------------------------------------------------------------------------

    def test_nothing_erased_remains_in_any_byte(self, store: Store, place: Place) -> None:
        secrets = [f"Geheim-{n}-" + "x" * (40 * n) for n in range(1, 60)]
        shared = _noise("shared")
        own = _noise("own")
        for text in secrets:
            rows: list[Row] = [("step", text[:50], True, 1, text.encode())]
            put(store, "s1", batch(text, key="Geheimkey", rows=rows, core=text.encode()))
        put(store, "s1", batch("unsaid", goal="Geheimziel", summary="Geheimes"), [shared, own])
        put(store, "s2", batch("open", goal="kept"), [shared])
        if store.capabilities.search:
            assert len(found(store, "geheim", limit=100)) == 59
        assert b"Geheim" in place.raw()
        store.erase("S1", lambda view: batch("tombstone", core=b"gone", forgotten=1))
        assert b"geheim" not in place.raw().lower()
        store.close()
        assert b"geheim" not in place.raw().lower()
        assert store.blob(_blob(own)[0]) is None
        assert store.blob(_blob(shared)[0]) == shared
        assert texts(store, "s2") == ["open"]
        assert [row["goal"] for row in store.catalogue()] == ["kept"]
        if store.capabilities.search:
            assert found(store, "geheim") == []

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

    def test_an_erasure_that_is_refused_erases_nothing(self, store: Store) -> None:
        put(store, "s1", batch("a"), blobs=[b"data"])

        def plan(view: View) -> Batch:
            raise LookupError

        with pytest.raises(LookupError):
            store.erase("s1", plan)
        assert texts(store, "s1") == ["a"]
        assert store.blob(_blob(b"data")[0]) == b"data"

    def test_pages_that_are_being_read_go_when_the_reader_has_gone(
        self, store: Store, another: Callable[[], Store], place: Place
    ) -> None:
        put(store, "s1", batch("Geheimnis"))
        other = another()
        with other.view("s1") as view:
            with suppress(Busy):
                store.erase("s1", lambda view: batch("tombstone", forgotten=1))
            assert [said(stored) for stored in view.events()] == ["Geheimnis"]
        assert [row["id"] for row in other.catalogue(where={"forgotten": 1})] == ["s1"]
        other.close()
        store.close()
        put(another(), "s2", batch("the next write"))
        assert b"Geheimnis" not in place.raw()

    # -- searching -----------------------------------------------------------------------------

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

    def test_a_hit_says_where_and_shows_the_words(self, searched: Store) -> None:
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
            if said(stored) == "Geheimnis" and other.resolve("s6"):
                other.erase("s6", lambda view: batch("tombstone", forgotten=1))
            return text_of(stored)

        assert searched.search("geheimnis", text_of=erasing) == []
        searched.close()
        other.close()
        assert b"geheimnis" not in place.raw().lower()

    def test_two_who_search_at_once_do_not_index_twice(
        self, searched: Store, another: Callable[[], Store]
    ) -> None:
        other = another()

        def slowly(stored: Stored) -> tuple[str, str] | None:
            assert len(found(other, "fails")) == 1
            return text_of(stored)

        assert len(searched.search("fails", text_of=slowly)) == 1
        assert len(found(searched, "login")) == 3

    # -- remembered heads ----------------------------------------------------------------------

    def test_the_last_head_is_remembered(self, store: Store, another: Callable[[], Store]) -> None:
        put(store, "s1", batch("a", head=head(1)))
        put(store, "s2", batch("a", head=head(7, "d2")))
        put(store, "s1", batch("b", head=head(2)))
        put(store, "s1", batch("absorbed"))
        for looking in (store, another()):
            known = sorted((s, h.device, h.n, h.hash) for s, h in looking.remembered())
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
        put_back = place.keep()
        put(store, "s1", batch("b", head=head(2)))
        put(store, "s2", batch("x", head=head(1)))
        store.close()
        put_back()
        later = another()
        assert texts(later, "s1") == ["a"]
        with later.view("s1") as view:
            assert view.remembered is not None and view.remembered.n == 2
        assert {session for session, _ in later.remembered()} == {"s1", "s2"}
        # A new session may get the place of the one that is gone: that stays known too.
        put(later, "s3", batch("new", head=head(1)))
        assert {session for session, _ in later.remembered()} == {"s1", "s2", "s3"}

    def test_what_was_lost_stays_known(self, store: Store, another: Callable[[], Store]) -> None:
        gone = ("d1", 5, head(5).hash)
        put(store, "s1", batch("a", lost=[gone]))
        put(store, "s1", batch("b", lost=[gone]))
        with another().view("s1") as view:
            assert view.lost() == [gone]
        assert [(s, h.n) for s, h in store.remembered()] == [("s1", 5)]

    def test_a_loss_may_be_noted_for_a_session_that_is_not_there(self, store: Store) -> None:
        put(store, "s1", batch("a"))
        for _ in range(2):
            store.note_lost("s9", head(5))
        assert [(s, h.device, h.n, h.hash) for s, h in store.remembered()] == [
            ("s9", "d1", 5, head(5).hash)
        ]

    def test_a_forgotten_session_is_not_remembered(self, store: Store) -> None:
        put(store, "s1", batch("a", head=head(1), lost=[("d0", 1, head(1, "d0").hash)]))
        store.erase("s1", lambda view: batch("tombstone", forgotten=1, head=head(2)))
        assert store.remembered() == []

    # -- this device ---------------------------------------------------------------------------

    def test_a_home_has_one_device_and_one_secret(
        self, store: Store, another: Callable[[], Store]
    ) -> None:
        put(store, "s1", batch("a"))
        device, secret = store.device, store.secret()
        assert device and len(secret) == 32 and secret != bytes(32)
        later = another()
        put(later, "s1", batch("b"))
        assert (later.device, later.secret()) == (device, secret)

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
        assert (store.device, other.device) == ("d-new", "d-new")

    # -- waiting -------------------------------------------------------------------------------

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

    # -- several at once -----------------------------------------------------------------------

    def test_threads_of_one_store_and_of_several_keep_their_order(
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

    def test_processes_keep_their_order(self, store: Store, place: Place) -> None:
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

    # -- opening and closing -------------------------------------------------------------------

    def test_reading_where_nothing_was_written_finds_nothing(self, store: Store) -> None:
        assert store.catalogue() == []
        assert store.resolve("s") == []
        assert store.remembered() == []
        assert store.blob("0" * 64) is None
        assert store.check() == []
        assert store.device == ""
        assert store.search("words", text_of=text_of) == []

    def test_everything_is_there_after_reopening(
        self, store: Store, another: Callable[[], Store]
    ) -> None:
        put(store, "s1", batch("a", rows=[("step", "t", True, 1, b"row")]), blobs=[b"data"])
        store.close()
        later = another()
        assert texts(later, "s1") == ["a"]
        assert later.blob(_blob(b"data")[0]) == b"data"
        assert later.check() == []

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


def _blob(data: bytes) -> tuple[str, bytes]:
    return sha256(data).hexdigest(), data


def _noise(seed: str) -> bytes:
    """Bytes that no compression makes shorter, so that they would be found as they are."""
    return b"".join(sha256(f"{seed}{n}".encode()).digest() for n in range(300))


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
