"""Manners: how a text is written, apart from what it says; and values dressed in them again.

    style     the habits that differ from ours: indentation, quotes, line ends
    inline    collections on one line among others that are not
    at, key   by path, for a value and for a key:
              q  the quote of a string, or the word for null
              s  another spelling: the digest of the value it spells, and a script from ours to it
              r  an alias instead of the value
              t  what follows on its line, b  the lines before its own (comments, blank lines)
              g  all that stands between it and what precedes it, where t and b cannot say it
    end, last     what follows the last value, and the path of that
    lines, raw    of JSON Lines: spellings by number; lines that are no values, and what they follow
    diff      a script for the whole text, where all this cannot express it

A text is seen as tokens (keys, scalars, empty collections) with gaps between them. Text of the same
value in our own spelling has the same tokens in the same order, so it is enough to say which gaps
and which spellings differ. Of values nothing is kept but what is odd in their spelling.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any

from msgspec import Struct

from holdfast.layout import guarded, tree
from holdfast.layout.guarded import LEAF, MAP, Node, Unreadable
from holdfast.layout.habits import BREAK, JSON_BREAK
from holdfast.layout.spelling import (
    COMPACT,
    JSON,
    JSONL,
    YAML,
    Style,
    changed,
    fresh,
    is_one_line,
    json_text,
    yaml_key,
    yaml_scalar,
)
from holdfast.layout.value import copied

Manner = dict[str, Any]

_NULLS = ("", "~", "Null", "NULL")
_PROPERTY = re.compile(r"(?:[&!][^\s,\[\]{}]*[ \t]*)+")
_NOISE = re.compile(
    "^%[^\n]*$|^---|#[^\n\r\x85\u2028\u2029]*|[&!][^\\s,\\[\\]{}]*|\\s+", re.MULTILINE
)
_LAST_COMMA = re.compile(r",(?=[\]}])")
_PIECES = re.compile(r"\w+|\s+|.", re.DOTALL)
_MANY = 2_000
_WIDE = 40


class Token(Struct):
    """A key or a value without parts, where it stands, and how it is called."""

    path: str
    is_key: bool
    start: int
    end: int
    node: Node


def tokens_of(text: str, root: Node, whole: frozenset[str] = frozenset()) -> list[Token]:
    """The tokens of a text in order; collections at the paths in `whole` count as one."""
    found: list[Token] = []
    _collect(text, root, "", whole, found)
    return found


def _collect(text: str, node: Node, path: str, whole: frozenset[str], found: list[Token]) -> None:
    if node.kind == LEAF or not node.items or path in whole:
        found.append(Token(path, False, _behind_properties(text, node), node.end, node))
        return
    for place, (name, item) in enumerate(zip(names(node.value), node.items, strict=True)):
        inner = f"{path}/{name}"
        if node.kind == MAP:
            key = node.keys[place]
            found.append(Token(inner, True, _behind_properties(text, key), key.end, key))
        _collect(text, item, inner, whole, found)


def names(value: Any) -> Iterator[str]:
    """What the children of a collection are called in paths: keys, identities or numbers."""
    if isinstance(value, dict):
        yield from (key.replace("~", "~0").replace("/", "~1") for key in value)
        return
    by = tree.identity(value)
    for place, element in enumerate(value):
        is_known = by and isinstance(element, dict)
        yield "=" + tree.digest(element[by], 6) if is_known else str(place)


def _behind_properties(text: str, node: Node) -> int:
    """Where a node begins without its anchor and tag: those belong to the gap."""
    if text[node.start : node.start + 1] not in ("&", "!"):
        return node.start
    match = _PROPERTY.match(text, node.start, node.end)
    return match.end() if match else node.start


# Taking manners


def take(kind: str, text: str, root: Node, style: Style) -> Manner:
    """How a JSON or YAML text is written; nothing when it is as we would write it."""
    if fresh(kind, root.value) == text.encode():
        return {}
    manner: Manner = {"style": _habits(style, Style())}
    manner["inline"] = list(_inline(text, root, "", style, kind))
    plain = _written(kind, root.value, manner)
    if plain == text:
        return {name: part for name, part in manner.items() if part}
    theirs = tokens_of(text, root)
    aliases = frozenset(token.path for token in theirs if token.node.style == "*")
    ours = _tokens(kind, plain, aliases)
    if [(t.path, t.is_key) for t in ours] == [(t.path, t.is_key) for t in theirs]:
        manner |= _differences(kind, (plain, ours), (text, theirs), style)
    manner = {name: part for name, part in manner.items() if part}
    if _dresses(
        kind, root.value, manner, (plain, ours) if _whole(manner) == aliases else None, text
    ):
        return manner
    return {"diff": [tree.digest(root.value), script(fresh(kind, root.value).decode(), text)]}


def _dresses(
    kind: str, value: Any, manner: Manner, plain: tuple[str, list[Token]] | None, text: str
) -> bool:
    """Whether a manner makes this text of a value; what is known `plain` need not be read again."""
    if plain is None:
        return dress(kind, value, manner) == text.encode()
    try:
        return _put_on(*plain, manner, "") == text
    except (TypeError, ValueError, KeyError, IndexError, AttributeError):
        return False


def _habits(style: Style, base: Style) -> dict[str, Any]:
    fields = (name for name in style.__struct_fields__ if name != "inline")
    return {
        name: getattr(style, name) for name in fields if getattr(style, name) != getattr(base, name)
    }


def _inline(text: str, node: Node, path: str, style: Style, kind: str) -> Iterator[str]:
    """The collections on one line that the habits would write on several."""
    if node.kind == LEAF or not node.items or is_one_line(node.value, style):
        return
    if kind == YAML:
        is_inline = node.style == "flow"
    else:
        is_inline = JSON_BREAK.search(text, node.start, node.end) is None
    if is_inline:
        yield path
        return
    for name, item in zip(names(node.value), node.items, strict=True):
        yield from _inline(text, item, f"{path}/{name}", style, kind)


def _written(kind: str, value: Any, manner: Manner) -> str:
    """A value in the style of a manner, with its collections on one line."""
    style = changed(Style(), **manner.get("style", {}))
    if wanted := frozenset(manner.get("inline", ())):
        value = copied(value)
        inline = (id(each) for path, each in _collections(value, "") if path in wanted)
        style.inline = frozenset(inline)
    return fresh(kind, value, style).decode()


def _undressed(
    kind: str, value: Any, manner: Manner, whole: frozenset[str]
) -> tuple[str, list[Token]]:
    """The value in the style of the manner, and the tokens of that text."""
    text = _written(kind, value, manner)
    return text, _tokens(kind, text, whole)


def _tokens(kind: str, text: str, whole: frozenset[str]) -> list[Token]:
    root = guarded.read_json(text) if kind == JSON else guarded.read_yaml(text)[0]
    return tokens_of(text, root, whole)


def _collections(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (dict, list)):
        yield path, value
        children = value.values() if isinstance(value, dict) else value
        for name, child in zip(names(value), children, strict=True):
            yield from _collections(child, f"{path}/{name}")


def _differences(
    kind: str, ours: tuple[str, list[Token]], theirs: tuple[str, list[Token]], style: Style
) -> Manner:
    made: dict[str, dict[str, Any]] = {"key": {}, "at": {}}
    entries: list[dict[str, Any]] = [{} for _ in ours[1]]
    at_ours = at_theirs = 0
    for place, (one, two) in enumerate(zip(ours[1], theirs[1], strict=True)):
        word = theirs[0][two.start : two.end]
        gap = _gap(ours[0][at_ours : one.start], word)
        before = entries[place - 1] if place else None
        _compare_gaps(gap, theirs[0][at_theirs : two.start], before, entries[place], style.eol)
        entries[place] |= _compare_words(kind, ours[0], one, word, two.node, style)
        at_ours, at_theirs = one.end, two.end
    for token, entry in zip(ours[1], entries, strict=True):
        if entry:
            made["key" if token.is_key else "at"][token.path] = entry
    tail = theirs[0][at_theirs:]
    if tail == ours[0][at_ours:]:
        return made
    return {**made, "end": tail, "last": theirs[1][-1].path}


def _gap(gap: str, word: str) -> str:
    """The gap before a word; before an empty one it has no space."""
    return gap if word else gap.rstrip(" ")


def _compare_gaps(
    ours: str, theirs: str, before: dict[str, Any] | None, entry: dict[str, Any], eol: str
) -> None:
    if ours == theirs:
        return
    first, lined, last = ours.partition(eol)
    if before is None and theirs.endswith(ours):
        entry["b"] = theirs.removesuffix(ours)
    elif before is None or not lined or eol in last or not _is_around(theirs, first, last):
        entry["g"] = theirs
        trail, found, _ = theirs.removeprefix(first).partition(eol)
        if before is not None and found and trail.strip() and not _bones(trail):
            before["t"] = trail  # it is of the line before, also when this one goes
    else:
        trail, found, lines = theirs[len(first) : len(theirs) - len(last)].partition(eol)
        if not found or (lines and not lines.endswith(eol)):
            entry["g"] = theirs
            return
        before |= {"t": trail} if trail else {}
        entry |= {"b": lines} if lines else {}


def _is_around(text: str, first: str, last: str) -> bool:
    return len(text) >= len(first) + len(last) and text.startswith(first) and text.endswith(last)


def _compare_words(
    kind: str, text: str, token: Token, word: str, node: Node, style: Style
) -> dict[str, Any]:
    ours = text[token.start : token.end]
    if ours == word:
        return {}
    if node.style == "*":
        return {"r": word}
    if kind == YAML:
        for quote in _quotes(token):
            if _spelled(text, token, quote, style) == word:
                return {"q": quote}
    return {"s": [tree.digest(token.node.value, 6), script(ours, word)]}


def _quotes(token: Token) -> tuple[str, ...]:
    if token.node.value is None:
        return _NULLS
    return ("", "'", '"', "|") if isinstance(token.node.value, str) else ()


def _spelled(text: str, token: Token, quote: str, style: Style) -> str:
    """A token in another quote."""
    value = token.node.value
    if value is None and quote in _NULLS:
        return quote
    if not isinstance(value, str):
        return text[token.start : token.end]
    if token.is_key:
        return yaml_key(value, style, quote).removesuffix(":") if quote else value
    if quote == "|":
        return _literal(value, text, token.start, style)
    return yaml_scalar(value, style, quote)


def _literal(value: str, text: str, at: int, style: Style) -> str:
    """A string as a literal block under the line on which it begins."""
    start = max((match.end() for match in BREAK.finditer(text, 0, at)), default=0)
    dashes = re.match(r"[ ]*(?:- +)*", text[start:at])
    pad = style.eol + " " * ((dashes.end() if dashes else 0) + style.step)
    lines = value.removesuffix("\n").split("\n")
    sign = "|" if value.endswith("\n") else "|-"
    return sign + "".join(pad + line if line else style.eol for line in lines)


# Scripts: how one text becomes another


def script(old: str, new: str) -> list[list[Any]]:
    """The replacements [start, end, text] that lead from one text to another."""
    if max(len(old), len(new)) > _MANY * 4:
        one, two = old.splitlines(keepends=True), new.splitlines(keepends=True)
    else:
        one, two = _PIECES.findall(old), _PIECES.findall(new)
    if max(len(one), len(two)) > _MANY:
        return _ends(old, new)
    ends = [0]
    for piece in one:
        ends.append(ends[-1] + len(piece))
    blocks = SequenceMatcher(None, one, two, autojunk=False).get_opcodes()
    return [[ends[a], ends[b], "".join(two[c:d])] for tag, a, b, c, d in blocks if tag != "equal"]


def _ends(old: str, new: str) -> list[list[Any]]:
    """One replacement of all between the common ends."""
    least = min(len(old), len(new))
    start = next((at for at in range(least) if old[at] != new[at]), least)
    rest = least - start
    end = next((at for at in range(rest) if old[-1 - at] != new[-1 - at]), rest)
    return [[start, len(old) - end, new[start : len(new) - end]]]


def played(steps: list[list[Any]], old: str) -> str:
    """The new text. Steps go forwards: else a few of them would make a text of any length."""
    made, at = [], 0
    for start, end, text in steps:
        if not at <= start <= end:
            raise ValueError("not a script")
        made += [old[at:start], text]
        at = end
    return "".join([*made, old[at:]])


# Dressing


def dress(kind: str, value: Any, manner: Any) -> bytes:
    """A value as text in the given manners, as far as they still fit; always saying the value."""
    if isinstance(manner, dict) and manner:
        for leave_out in ("", "r", "rg", "rgs", "rgsqtb"):
            try:
                text = _dressed(kind, value, manner, leave_out)
            except (TypeError, ValueError, KeyError, IndexError, AttributeError, Unreadable):
                continue
            if _says(kind, text, value):
                return text.encode()
    return fresh(kind, value)


def _says(kind: str, text: str, value: Any) -> bool:
    try:
        if kind == JSONL:
            said = [line.node.value for line in guarded.read_lines(text) if line.node]
        else:
            said = guarded.json_value(text) if kind == JSON else guarded.read_yaml(text)[0].value
    except Unreadable:
        return False
    return tree.same(said, value)


def _dressed(kind: str, value: Any, manner: Manner, leave_out: str) -> str:
    _require_modest(manner.get("style", {}))
    if kind == JSONL:
        return _dressed_lines(value, manner, leave_out)
    if "diff" in manner:
        known, steps = manner["diff"]
        if known != tree.digest(value):
            raise ValueError("another value")
        return played(steps, fresh(kind, value).decode())
    whole = frozenset() if "r" in leave_out else _whole(manner)
    return _put_on(*_undressed(kind, value, manner, whole), manner, leave_out)


def _whole(manner: Manner) -> frozenset[str]:
    """The paths of values for which an alias stands."""
    return frozenset(path for path, entry in manner.get("at", {}).items() if "r" in entry)


def _put_on(text: str, tokens: list[Token], manner: Manner, leave_out: str) -> str:
    _require_modest(manner.get("style", {}))
    style = changed(Style(), **manner.get("style", {}))
    end = "" if "g" in leave_out else manner.get("end", "")
    return _assembled(text, tokens, {**manner, "end": end}, leave_out, style)


def _require_modest(style: dict[str, Any]) -> None:
    """An indentation that somebody's file asks for is written on every line."""
    for part in style.values():
        if (type(part) is int and not 0 <= part <= _WIDE) or len(str(part)) > _WIDE:
            raise ValueError("nobody writes like that")


def _assembled(text: str, tokens: list[Token], manner: Manner, leave_out: str, style: Style) -> str:
    parts: list[str] = []
    at = 0
    before: dict[str, Any] = {}
    end, last, path = manner["end"], manner.get("last"), None
    for token in tokens:
        known = manner.get("key" if token.is_key else "at", {}).get(token.path, {})
        entry = {name: part for name, part in known.items() if name not in leave_out}
        word = _word(text, token, entry, style)
        gap = _gap(text[at : token.start], word)
        if end and last and path == last:
            gap, end = _continued(end, gap, style.eol), ""
        parts += [_fitting(gap, before, entry, style.eol, at), word]
        at, before, path = token.end, entry, None if token.is_key else token.path
    fits = end and _bones(end) == _bones(text[at:])
    return "".join([*parts, end if fits else text[at:]])


def _continued(end: str, gap: str, eol: str) -> str:
    """The gap behind what was the last value and no longer is: as that ended, then on."""
    begun, comma, rest = gap.rpartition(",")
    known = end[: end.rfind("}")].rstrip() if comma else end.removesuffix(eol)
    if not comma:
        begun, lined, rest = gap.partition(eol)
        comma = lined
    return f"{known}{comma}{rest}" if comma and _bones(known) == _bones(begun) else gap


def _word(text: str, token: Token, entry: dict[str, Any], style: Style) -> str:
    ours = text[token.start : token.end]
    if "r" in entry:
        return str(entry["r"])
    if "q" in entry:
        return _spelled(text, token, entry["q"], style)
    if "s" in entry and entry["s"][0] == tree.digest(token.node.value, 6):
        return played(entry["s"][1], ours)
    return ours


def _fitting(gap: str, before: dict[str, Any], entry: dict[str, Any], eol: str, at: int) -> str:
    """The gap before a token, with what the manner says of it if it still stands in such a gap."""
    if "g" in entry and (fit := _refitted(str(entry["g"]), gap, before.get("t", ""), eol)):
        return fit
    if at == 0 and "b" in entry:
        return str(entry["b"]) + gap
    first, lined, last = gap.partition(eol)
    trail, lines = before.get("t", ""), entry.get("b", "")
    return f"{first}{trail}{eol}{lines}{last}" if lined else gap


def _refitted(known: str, gap: str, trail: str, eol: str) -> str:
    """A gap as it was known; where another value ends in it now, at least as it went on from there,
    behind what trails on the line of that."""
    if _bones(known) == _bones(gap):
        return known
    (begun, comma, _), (_, before, rest) = gap.rpartition(","), known.rpartition(",")
    if comma and before and not _bones(rest):
        return begun + comma + rest
    (begun, lined, ours), (_, _, rest) = gap.partition(eol), known.partition(eol)
    return begun + trail + lined + rest if lined and _bones(rest) == _bones(ours) else ""


def _bones(gap: str) -> str:
    """The signs in a gap without space, comments, anchors, marks and a comma behind the last."""
    return _LAST_COMMA.sub("", _NOISE.sub("", gap))


# JSON Lines


def take_lines(text: str, lines: list[guarded.Line], style: Style) -> Manner:
    """How a JSON Lines text is written."""
    spellings, raw, number = {}, [], 0
    for line in lines:
        theirs = text[line.start : line.end]
        if line.node is None:
            raw.append([number, theirs])
            continue
        ours = json_text(line.node.value, style) + style.eol
        if ours != theirs:
            spellings[str(number)] = [tree.digest(line.node.value, 6), script(ours, theirs)]
        number += 1
    made = {"style": _habits(style, COMPACT), "lines": spellings, "raw": raw}
    return {name: part for name, part in made.items() if part}


def _dressed_lines(values: list[Any], manner: Manner, leave_out: str) -> str:
    style = changed(COMPACT, **manner.get("style", {}))
    parts: list[str] = []
    raw = _by_place(manner.get("raw", []), len(values))
    for number, value in enumerate(values):
        parts += raw.get(number, ())
        ours = json_text(value, style) + style.eol
        known = manner.get("lines", {}).get(str(number))
        is_known = known and "s" not in leave_out and known[0] == tree.digest(value, 6)
        parts.append(played(known[1], ours) if is_known else ours)
    parts += raw.get(len(values), ())
    return joined(parts, style.eol)


def joined(parts: list[str], eol: str) -> str:
    """Lines one after the other; only the last may lack its end."""
    whole = [part if part.endswith("\n") else part + eol for part in parts[:-1]]
    return "".join(whole + parts[-1:])


def _by_place(raw: list[list[Any]], last: int) -> dict[int, list[str]]:
    """Lines that are no values, by the number of values before them."""
    made: dict[int, list[str]] = {}
    for after, text in raw:
        made.setdefault(min(after, last), []).append(text)
    return made
