"""What full-text search shares between stores: the words asked for, and events not indexed yet."""

from __future__ import annotations

from forestay.errors import Damaged, InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from forestay.store.port import Stored, View

    TextOf = Callable[[Stored], "tuple[str, str] | None"]
    OpenView = Callable[[str], View]

MOST_WORDS = 64
BATCH = 2000
"""Events that are indexed in one transaction."""


class Unread:
    """Events of one session that are not indexed yet, up to `reached`: their kinds and texts."""

    __slots__ = ("after", "number", "reached", "session", "texts")

    def __init__(self, number: int, session: str, after: int) -> None:
        self.number, self.session, self.after, self.reached = number, session, after, after
        self.texts: list[tuple[int, str, str]] = []


def split_words(text: str) -> list[str]:
    """Return the words of a search, each once."""
    clean = text.replace("\0", " ").encode("utf-8", "replace").decode()
    words = list(dict.fromkeys(clean.split()))
    if len(words) > MOST_WORDS:
        what = f"a search can have at most {MOST_WORDS} words, not {len(words)}"
        raise InvalidInput(what, hint="search for fewer words")
    return words


def read_unread(
    behind: Iterable[tuple[int, str, int]], open_view: OpenView, text_of: TextOf, most: int
) -> list[Unread]:
    """Return the events of sessions (number, id, last indexed event) that are not indexed yet.

    At most `most` events are read; a negative number is all of them.
    """
    found: list[Unread] = []
    for number, session, indexed in behind:
        part = Unread(number, session, indexed)
        with open_view(session) as view:
            events = list(view.events(after=indexed, limit=most))
            # If events are missing, the session must still count as indexed up to its end.
            part.reached = events[-1].seq if len(events) == most else view.seq
        for stored in events:
            if text := read_text(stored, text_of):
                part.texts.append((stored.seq, *text))
        found.append(part)
        most -= len(events) if most >= 0 else 0
        if most == 0:
            break
    return found


def read_text(stored: Stored, text_of: TextOf) -> tuple[str, str] | None:
    """Return kind and text of an event; None for a damaged one, which verification reports."""
    try:
        return text_of(stored)
    except Damaged:
        return None
