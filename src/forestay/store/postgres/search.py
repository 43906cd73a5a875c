"""Full-text search over the text of events, with an index that each search brings up to date.

Texts are split into words here, not by the server: letters and digits in any script, without case
and accents, so that every server answers alike and none needs a dictionary. The server stores where
the words of an event are (`tsvector`) and finds those with a prefix; the text is read from the
event. `session.indexed` is the arrival number of the last event in the index.
"""

from __future__ import annotations

import re
import unicodedata
from functools import partial

from forestay.errors import ReadOnly
from forestay.store.port import Stored
from forestay.store.search import BATCH, read_text, read_unread, split_words
from forestay.store.sql import MOST, at_most

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from forestay.store.postgres.connection import Connection, Server
    from forestay.store.postgres.local_db import LocalSide
    from forestay.store.search import OpenView, TextOf, Unread

    Word = tuple[str, int, int]
    Query = list[list[str]]

_LONGEST = 200
_LAST_PLACE = 16_000
_AROUND = 12
_WORD = re.compile("[^\\W_](?:[^\\W_]|[\u0300-\u036f])*")
_BEHIND = """
    SELECT number, id, indexed FROM @session WHERE indexed < seq AND forgotten = 0 LIMIT %s
"""
_MOVED = """
    UPDATE @session SET indexed = %s WHERE number = %s AND indexed = %s AND forgotten = 0
"""
_ADD = """
    INSERT INTO @find SELECT %s, u.seq, u.words::tsvector
    FROM unnest(%s::bigint[], %s::text[]) u (seq, words) ON CONFLICT DO NOTHING
"""
_FIND = """
    SELECT s.id, e.seq, e.header, e.salt, e.data
    FROM @find f JOIN @session s ON s.number = f.session AND s.forgotten = 0
    JOIN @event e ON e.session = f.session AND e.seq = f.seq
    WHERE f.words @@ %s::tsquery
    ORDER BY ts_rank(f.words, %s::tsquery) DESC, s.updated DESC, s.id, e.seq LIMIT %s
"""


def search(
    local: LocalSide,
    server: Server,
    open_view: OpenView,
    words: str,
    text_of: TextOf,
    limit: int,
) -> list[dict[str, object]]:
    query = _query(words)
    if not query:
        return []
    found: list[dict[str, object]] = []
    try:
        _catch_up(local, server, open_view, text_of)
    except ReadOnly:
        # A store that can only be read is searched without the index.
        found += _unindexed(local, open_view, text_of, query)
    wanted = _tsquery(query)
    for session, seq, header, salt, data in local.read_server(
        _FIND, (wanted, wanted, at_most(limit))
    ):
        if text := read_text(Stored(seq, header, salt, data), text_of):
            found.append(_hit(session, seq, *text, query))
    return found if limit < 0 else found[:limit]


# -- words -----------------------------------------------------------------------------------------


def _words(text: str) -> Iterator[Word]:
    """Yield each word in the form that is compared, with its start and end in the text."""
    for match in _WORD.finditer(text):
        yield _plain(match[0])[:_LONGEST], *match.span()


def _plain(word: str) -> str:
    if word.isascii():
        return word.lower()
    apart = unicodedata.normalize("NFD", word)
    return "".join(sign for sign in apart if unicodedata.category(sign) != "Mn").lower()


def _query(words: str) -> Query:
    """Return each search word, split into the words it consists of; the last is a prefix."""
    phrases = ([word for word, _, _ in _words(one) if word] for one in split_words(words))
    return [phrase for phrase in phrases if phrase]


def _tsquery(query: Query) -> str:
    return " & ".join(
        "(" + " <-> ".join([*(f"'{word}'" for word in phrase[:-1]), f"'{phrase[-1]}':*"]) + ")"
        for phrase in query
    )


def _tsvector(text: str) -> str:
    places: dict[str, list[str]] = {}
    for number, (word, _, _) in enumerate(_words(text), start=1):
        if word:
            places.setdefault(word, []).append(str(min(number, _LAST_PLACE)))
    return " ".join(f"'{word}':{','.join(at[:250])}" for word, at in places.items())


def _does_match(text: str, query: Query) -> bool:
    words = [word for word, _, _ in _words(text)]

    def occurs(phrase: list[str]) -> bool:
        size = len(phrase)
        return any(
            words[at : at + size - 1] == phrase[:-1] and words[at + size - 1].startswith(phrase[-1])
            for at in range(len(words) - size + 1)
        )

    return all(map(occurs, query))


def _snippet(text: str, query: Query) -> str:
    """Return some words around the first hit, with the hits in brackets."""
    begun = tuple(phrase[-1] for phrase in query)
    whole = {word for phrase in query for word in phrase[:-1]}
    words = list(_words(text))
    hits = [word in whole or word.startswith(begun) for word, _, _ in words]
    if not any(hits):
        return text[:100]
    first = max(0, hits.index(True) - _AROUND // 3)
    shown = range(first, min(first + _AROUND, len(words)))
    start, end = (words[first][1] if first else 0), words[shown[-1]][2]
    end = len(text) if shown[-1] == len(words) - 1 else end
    parts, at = ["…"] if first else [], start
    for number in shown:
        _, begins, ends = words[number]
        if hits[number]:
            parts += [text[at:begins], "[", text[begins:ends], "]"]
            at = ends
    parts += [text[at:end], "" if end == len(text) else "…"]
    return "".join(parts)


# -- the index -------------------------------------------------------------------------------------


def _hit(session: str, seq: int, kind: str, text: str, query: Query) -> dict[str, object]:
    return {"session": session, "seq": seq, "kind": kind, "snippet": _snippet(text, query)}


def _catch_up(local: LocalSide, server: Server, open_view: OpenView, text_of: TextOf) -> None:
    while unread := read_unread(local.read_server(_BEHIND, (BATCH,)), open_view, text_of, BATCH):
        act = partial(_index, server, unread)
        server.insist(partial(server.use, act, "update"))


def _index(server: Server, unread: Iterable[Unread], connection: Connection) -> None:
    with connection.transaction():
        for part in unread:
            place = (part.reached, part.number, part.after)
            moved = connection.execute(server.sql(_MOVED), place)
            # Otherwise another process has indexed or erased the session since.
            if moved.rowcount and part.texts:
                words = [_tsvector(text) for _, _, text in part.texts]
                seqs = [seq for seq, _, _ in part.texts]
                connection.execute(server.sql(_ADD), (part.number, seqs, words))


def _unindexed(
    local: LocalSide, open_view: OpenView, text_of: TextOf, query: Query
) -> list[dict[str, object]]:
    behind = local.read_server(_BEHIND, (MOST,))
    return [
        _hit(part.session, seq, kind, text, query)
        for part in read_unread(behind, open_view, text_of, -1)
        for seq, kind, text in part.texts
        if _does_match(text, query)
    ]
