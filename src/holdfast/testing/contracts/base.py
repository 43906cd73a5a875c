"""What the parts of the contract share: a place for the data, and short ways to say things."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256

import pytest

from holdfast.store import Batch, Entry, Head, Store, Stored

Row = tuple[str, str, bool, int, bytes]


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
    erased: Sequence[int] | None = None,
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
        erased=erased,
    )


def put(store: Store, session: str, what: Batch, blobs: Sequence[bytes] = ()) -> None:
    named = [(sha256(data).hexdigest(), data) for data in blobs]
    store.append(session, lambda view: what, create=True, blobs=named)


def naming(*content: bytes) -> str:
    """What an event says that keeps this content: no search finds it."""
    return " ".join(["unsaid", *(sha256(data).hexdigest() for data in content)])


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


def blob(data: bytes) -> tuple[str, bytes]:
    return sha256(data).hexdigest(), data


class Fixtures:
    """Each test gets a fresh place; an adapter's class says where."""

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
