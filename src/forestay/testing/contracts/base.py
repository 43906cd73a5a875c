"""Fixtures and helpers that all parts of the contract use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any

import pytest

from forestay.store.port import Batch, Entry, Head, Store, Stored

Row = tuple[str, str, bool, int, bytes]


class Place:
    """The data of one test. `opener` opens a store over this data and can be pickled."""

    def __init__(self, opener: Callable[[], Store]) -> None:
        self.opener = opener

    def raw(self) -> bytes:
        """Return every byte that this place stores now, in any file or table."""
        raise NotImplementedError

    def damage_blob(self, digest: str) -> None:
        """Change the content stored under a digest, without the store."""
        raise NotImplementedError

    def damage_event(self, session: str, seq: int) -> None:
        """Change one byte of the content of an event, without the store."""
        raise NotImplementedError

    def copy_data(self) -> Callable[[], None]:
        """Copy the data as it is now; return a function that restores the copy.

        What the store remembers outside its tables does not change.
        """
        raise NotImplementedError


def entry(text: str, key: str | None = None) -> Entry:
    return Entry(header(text), f"salt of {text}".encode(), text.encode(), key)


def header(text: str) -> bytes:
    return b"header " + sha256(text.encode()).hexdigest().encode()


def head(n: int, device: str = "d1") -> Head:
    return Head(device, n, sha256(f"{device}:{n}".encode()).hexdigest())


_LISTING = {"status": "active", "goal": "", "archived": 0, "forgotten": 0, "began": 0}


def batch(
    *texts: str,
    key: str | None = None,
    rows: Sequence[Row] = (),
    core: bytes = b"core",
    fold: int = 1,
    **more: Any,
) -> Batch:
    """Return a batch of events with these texts; `more` are fields of the batch or its listing."""
    defaults = {**_LISTING, "updated": 0, "summary": "{}"}
    listing = {name: more.pop(name, value) for name, value in defaults.items()}
    entries = [entry(text, key) for text in texts]
    return Batch(entries=entries, core=core, fold=fold, rows=rows, listing=listing, **more)


def put(store: Store, session: str, what: Batch, blobs: Sequence[bytes] = ()) -> None:
    named = [(sha256(data).hexdigest(), data) for data in blobs]
    store.append(session, lambda view: what, create=True, blobs=named)


def naming(*content: bytes) -> str:
    """Return the text of an event that names this content; no search finds it."""
    return " ".join(["unsaid", *(sha256(data).hexdigest() for data in content)])


def texts(store: Store, session: str) -> list[str]:
    with store.view(session) as view:
        return [content_of(stored) for stored in view.events()]


def content_of(stored: Stored) -> str:
    return (stored.data or b"").decode()


def text_of(stored: Stored) -> tuple[str, str] | None:
    """Return kind and text of every event worth finding: not erased, and not marked "unsaid"."""
    found = content_of(stored)
    return None if found.startswith("unsaid") or not found else ("note.added", found)


def found(store: Store, words: str, limit: int = 20) -> list[tuple[object, object]]:
    hits = store.search(words, text_of=text_of, limit=limit)
    return [(hit["session"], hit["seq"]) for hit in hits]


def blob(data: bytes) -> tuple[str, bytes]:
    return sha256(data).hexdigest(), data


class Fixtures:
    """The fixtures of all tests; the test class of an adapter must define `place`."""

    @pytest.fixture
    def place(self) -> Place:
        raise NotImplementedError("an adapter's test class needs its own fixture `place`")

    @pytest.fixture
    def another(self, place: Place) -> Iterator[Callable[[], Store]]:
        """Return a function that opens one more store over the same data."""
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
