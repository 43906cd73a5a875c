"""Parse untrusted JSON and YAML into nodes with spans, or raise `Unreadable` with a stable code.

Every limit is checked while parsing, before anything is built from the text: size, encoding, depth,
number of nodes, expansion of aliases, length of numbers. Nothing recurses, and only plain values
are constructed. A `Node` has its span in the text (character offsets), so that `document` can
change one value and preserve every other byte.

YAML is read by its 1.2 core schema: plain scalars become null, booleans, integers and floats,
everything else stays a string (dates, `yes`, `on`). `1234e56` stays a string too, although the
schema makes it a number: no program writes numbers in this form, but programs with YAML 1.1 write
texts such as the hash of a commit in it. Keys are always strings; a merge
key `<<` is an ordinary key, reported as a remark. Only tags that do not change the value are
allowed.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from forestay.errors import Damaged
from forestay.formats.coerce import copied

if TYPE_CHECKING:
    import yaml  # not loaded for JSON, the format of most files

LARGEST = 5 * 1024 * 1024
LARGEST_YAML = 3 * 1024 * 1024
LONGEST = 16 * 1024 * 1024
"""The most bytes of a JSON file, a YAML file and a log. An edited file is read, compared, searched
for secrets and written, and a command should take at most about a second for all of that."""
DEPTH = 64
COLUMNS = 1_000
"""The most columns by which a YAML block may be indented: each new line repeats them."""
NODES = 150_000
YAML_NODES = 75_000
LINES = 400_000
BAD_LINES = 20_000
ALIASES = 1_000
EXPANSION = 20_000
DIGITS = 4_000

MAP, LIST, LEAF = "map", "list", "leaf"
BREAKS = ("\n", "\r", "\x85", "\u2028", "\u2029")


class Unreadable(Damaged):
    """The text cannot be read safely; `code` is stable, `line` and `column` count from 1."""

    def __init__(self, code: str, message: str = "", line: int = 0, column: int = 0) -> None:
        super().__init__(message or code)
        self.code = code
        self.message = message
        self.line = line
        self.column = column

    def __str__(self) -> str:
        return f"{self.what} (line {self.line}, column {self.column})" if self.line else self.what


class Node:
    """A value and its span in the text. A map has `keys` as well as `items`.

    `style` is `flow` or `block` for a collection; for a scalar it is its quote, `|` or `>`, and
    empty for a plain one; for an alias it is `*`. A block collection ends with its last item.
    """

    __slots__ = ("_parts", "_text", "anchor", "end", "kind", "start", "style", "value")

    def __init__(
        self, kind: str, start: int, value: Any = None, style: str = "", text: str = ""
    ) -> None:
        self.kind = kind
        self.start = start
        self.end = start
        self.value = value
        self.style = style
        self.anchor = ""
        self._text = text
        self._parts: tuple[list[Node], list[Node]] | None = None

    @property
    def keys(self) -> list[Node]:
        return self._find_parts()[0]

    @property
    def items(self) -> list[Node]:
        return self._find_parts()[1]

    def _find_parts(self) -> tuple[list[Node], list[Node]]:
        # The parts of a JSON node are computed at the first use.
        if self._parts is None:
            self._parts = _json_parts(self._text, self) if self._text else ([], [])
        return self._parts


class Remark(Struct, frozen=True):
    """A remark on something unusual in a file that is accepted: its `code` and line."""

    code: str
    line: int


class BadLine(Struct, frozen=True):
    """A line of a JSON Lines file that is not valid JSON; its raw text is preserved."""

    number: int
    raw: str
    code: str
    message: str


class Line(Struct):
    """One line of a JSON Lines file; `node` is None for blank and bad lines."""

    start: int
    end: int
    node: Node | None = None
    bad: BadLine | None = None


def decode(data: bytes, limit: int = LARGEST) -> str:
    """Return the text of a file's bytes; refuse all but UTF-8 without a byte order mark."""
    if len(data) > limit:
        raise Unreadable("too-large", f"the file has {len(data)} bytes, the limit is {limit}")
    if data.startswith(b"\xef\xbb\xbf"):
        raise Unreadable("byte-order-mark", "the file begins with a byte order mark", 1, 1)
    pattern = [byte == 0 for byte in data[:4]]
    is_wide = pattern in ([True, False] * 2, [False, True] * 2)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or is_wide:
        raise Unreadable("utf16", "the file is UTF-16, not UTF-8", 1, 1)
    # In Latin-1 each byte is one character, so offsets in bytes and characters are equal.
    raw = "latin-1"
    if (at := data.find(b"\0")) >= 0:
        raise _at("nul", "the file contains a NUL byte", data.decode(raw), at)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        message = "the file is not UTF-8"
        raise _at("not-utf8", message, data.decode(raw), error.start) from None


def _at(code: str, message: str, text: str, at: int) -> Unreadable:
    return Unreadable(
        code, message, text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1) + 1
    )


_CONFLICT = re.compile(r"^<<<<<<< ", re.MULTILINE)
_CONFLICT_END = re.compile(r"^(?:=======$|>>>>>>> )", re.MULTILINE)


def _refuse_conflicts(text: str) -> None:
    # One pattern for the whole conflict would be slow on a text with very many start markers.
    if "<<<<<<< " not in text or ">>>>>>> " not in text:
        return
    match = _CONFLICT.search(text)
    if match and _CONFLICT_END.search(text, match.end()):
        message = "the file contains git conflict markers"
        raise _at("conflict-markers", message, text, match.start())


# JSON


_SPACE = re.compile(r"[ \t\n\r]*")
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
SURROGATE = re.compile(r"[\ud800-\udfff]")
_scanstring: Callable[[str, int, bool], tuple[str, int]] = vars(json.decoder)["scanstring"]
_scan_once: Callable[[str, int], tuple[Any, int]] = vars(json.JSONDecoder())["scan_once"]


def read_json(text: str) -> Node:
    """Return the node tree of a JSON text."""
    return json_root(text, json_value(text))


def json_root(text: str, value: Any) -> Node:
    """Return the node tree of a JSON text that is known to be valid and to have this value."""
    return _json_node(text, _skip_space(text, 0), value, len(text.rstrip(" \t\n\r")))


def json_value(text: str) -> Any:
    """Return the value of a JSON text."""
    if not text.strip(" \t\n\r"):
        raise Unreadable("empty", "the file is empty", 1, 1)
    _refuse_conflicts(text)
    if _max_values(text) > NODES and _max_values(_STRING.sub("", text)) > NODES:
        raise Unreadable("too-many-nodes", f"the file has more than {NODES} values")
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        message = error.msg.removesuffix(" at").removesuffix(" starting")
        message = f"invalid JSON: {message[:1].lower()}{message[1:]}"
        raise _at("json-syntax", message, text, error.pos) from None
    except RecursionError:
        raise Unreadable("too-deep", _TOO_DEEP) from None
    if text.count("[") + text.count("{") > DEPTH:
        _refuse_deep(value)
    has_pairs = "\\ud" in text or "\\uD" in text
    if has_pairs and SURROGATE.search(json.dumps(value, ensure_ascii=False)):
        raise Unreadable("lone-surrogate", "a text contains half of a surrogate pair")
    return value


_TOO_DEEP = f"values are nested more than {DEPTH} levels deep"


def _max_values(text: str) -> int:
    """Return an upper bound for the number of values in a JSON text.

    The bound is exact unless strings contain brackets or commas, or collections are empty.
    """
    return text.count(",") + text.count("[") + text.count("{") + 1


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        ((key, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise Unreadable("duplicate-key", f"the key {key[:80]!r} occurs twice in one object")
    return made


def _refuse_constant(word: str) -> Any:
    raise Unreadable("not-finite", f"{word} is not a number")


def _integer(word: str) -> int:
    if len(word) > DIGITS:
        raise Unreadable("huge-number", f"a number has more than {DIGITS} digits")
    return int(word)


def _float(word: str) -> float:
    value = float(word)
    if not math.isfinite(value):
        raise Unreadable("not-finite", "a number is too large for a float")
    return value


# Created once, because each of the thousands of lines of a log is decoded separately.
_DECODER = json.JSONDecoder(
    parse_constant=_refuse_constant,
    parse_int=_integer,
    parse_float=_float,
    object_pairs_hook=_refuse_duplicates,
)


def _refuse_deep(value: Any) -> None:
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(DEPTH):
        inside = map(_children, level)
        level = [each for values in inside for each in values if isinstance(each, (dict, list))]
    if level:
        raise Unreadable("too-deep", _TOO_DEEP)


def _children(value: Any) -> Collection[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _skip_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _json_node(text: str, start: int, value: Any, end: int) -> Node:
    if isinstance(value, (dict, list)):
        node = Node(MAP if isinstance(value, dict) else LIST, start, value, "flow", text)
    else:
        node = Node(LEAF, start, value, '"' if isinstance(value, str) else "")
    node.end = end
    return node


def _json_parts(text: str, node: Node) -> tuple[list[Node], list[Node]]:
    """Return the nodes of the keys and items of an object or array in a valid JSON text."""
    keys: list[Node] = []
    items: list[Node] = []
    at = node.start + 1
    for name, value in node.value.items() if node.kind == MAP else enumerate(node.value):
        at = _skip_space(text, at)
        if node.kind == MAP:
            end = _scanstring(text, at + 1, True)[1]
            keys.append(_json_node(text, at, name, end))
            at = _skip_space(text, _skip_space(text, end) + 1)
        items.append(_json_node(text, at, value, _scan_once(text, at)[1]))
        at = _skip_space(text, items[-1].end) + 1
    return keys, items


# JSON Lines


def read_lines(text: str) -> list[Line]:
    """Return all lines of a JSON Lines text, including blank lines and lines that are not JSON."""
    _refuse_conflicts(text)
    # Only a line feed ends a line: other breaks may occur inside JSON strings.
    parts = text.split("\n")
    parts = [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
    if len(parts) > LINES:
        start = sum(map(len, parts[:LINES]))
        raise _at("too-many-nodes", f"the file has more than {LINES} lines", text, start)
    lines, start, bad = [], 0, 0
    for number, raw in enumerate(parts, 1):
        line = Line(start, start + len(raw))
        try:
            if raw.strip(" \t\r\n"):
                # Parse without the line feed: in an open string it would be reported.
                line.node = read_json(raw.rstrip("\r\n"))
        except Unreadable as error:
            line.bad = BadLine(number, raw, error.code, error.message)
            bad += 1
        if bad > BAD_LINES:
            raise _at("bad-line", f"more than {BAD_LINES} lines are not JSON", text, start)
        lines.append(line)
        start += len(raw)
    return lines


# YAML


_CORE = "tag:yaml.org,2002:"
_NULL = {"", "~", "null", "Null", "NULL"}
_TRUE, _FALSE = {"true", "True", "TRUE"}, {"false", "False", "FALSE"}
_BEGINNINGS = frozenset("~nNtTfF.+-0123456789")
_INT = re.compile(r"[-+]?[0-9]+\Z")
_BASED = re.compile(r"0(?:o[0-7]+|x[0-9a-fA-F]+)\Z")
_FLOAT = re.compile(
    r"[-+]?(?:(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+][0-9]+)\Z"
)
_NOT_FINITE = re.compile(r"(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z")


def read_yaml(text: str) -> tuple[Node, list[Remark]]:
    """Return the node tree of a YAML text with one document, and remarks on unusual parts."""
    import yaml

    _refuse_conflicts(text)
    composer = _Yaml(text)
    try:
        composer.read()
    except yaml.MarkedYAMLError as error:
        raise _yaml_error(error, text) from None
    except yaml.reader.ReaderError:
        match = _FORBIDDEN.search(text)
        message = "the file contains a character that YAML does not allow"
        raise _at("yaml-syntax", message, text, match.start() if match else 0) from None
    if composer.root is None:
        raise Unreadable("empty", "the file has no content", 1, 1)
    return composer.root, composer.remarks


_FORBIDDEN = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _yaml_error(error: yaml.MarkedYAMLError, text: str) -> Unreadable:
    mark = error.problem_mark or error.context_mark
    # A missing end is detected after the line with the fault, perhaps at the end of the file.
    lacks_end = mark is not None and mark.index >= len(text.rstrip())
    if error.context_mark and (lacks_end or error.context == "while scanning a simple key"):
        mark = error.context_mark
    message = f"invalid YAML: {error.problem}" if error.problem else "invalid YAML"
    if mark is None:
        return Unreadable("yaml-syntax", message)
    return Unreadable("yaml-syntax", message, mark.line + 1, mark.column + 1)


def plain(word: str) -> Any:
    """Return the value that an unquoted scalar has in the core schema of YAML 1.2."""
    if word and word[0] not in _BEGINNINGS:
        return word
    if word in _NULL:
        return None
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    if _INT.match(word):
        return _integer(word)
    if _BASED.match(word):
        value = int(word[2:], 8 if word[1] == "o" else 16) if len(word) <= DIGITS else None
        if value is None or is_huge(value):
            raise Unreadable("huge-number", f"a number has more than {DIGITS} digits")
        return value
    if _FLOAT.match(word):
        return _float(word)
    if _NOT_FINITE.match(word):
        raise Unreadable("not-finite", f"{word} is not a finite number")
    return word


def is_huge(value: int) -> bool:
    """Return whether a number has more than `DIGITS` decimal digits."""
    bits = value.bit_length()
    # The number of bits decides most cases, even if Python refuses to print the number.
    return bits > DIGITS * 3 and (bits > DIGITS * 10 // 3 or len(str(value)) > DIGITS)


class _Open:
    """An unfinished collection: its node, its parts, and the key that has no value yet."""

    __slots__ = ("is_map", "items", "key", "keys", "node", "value")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.is_map, self.value = node.kind == MAP, node.value
        self.key: Node | None = None
        self.keys, self.items = node.keys, node.items


class _Yaml:
    """Builds nodes from the events of the YAML parser, with a stack instead of recursion."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.root: Node | None = None
        self.remarks: list[Remark] = []
        self.open: list[_Open] = []
        self.anchors: dict[str, Node] = {}
        self.aliases = self.expanded = self.documents = 0

    def read(self) -> None:
        import yaml

        begins: dict[type, Callable[[Any], None]] = {
            yaml.ScalarEvent: self._scalar,
            yaml.AliasEvent: self._alias,
            yaml.MappingStartEvent: partial(self._start, True),
            yaml.SequenceStartEvent: partial(self._start, False),
        }
        handle: dict[type, Callable[[Any], None]] = {
            **begins,
            yaml.DocumentStartEvent: self._document,
            yaml.MappingEndEvent: self._end,
            yaml.SequenceEndEvent: self._end,
        }
        loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        nodes = 0
        for event in yaml.parse(self.text, Loader=loader):
            nodes += type(event) in begins
            # Values repeated by aliases count each time, because other formats write them in full.
            if nodes + self.expanded > YAML_NODES:
                raise self._wrong(
                    "too-many-nodes", f"the file has more than {YAML_NODES} values", event
                )
            act = handle.get(type(event))
            if act is not None:
                act(event)

    def _document(self, event: yaml.DocumentStartEvent) -> None:
        self.documents += 1
        if self.documents > 1:
            raise self._wrong("yaml-syntax", "the file contains more than one YAML document", event)

    def _scalar(self, event: Any) -> None:
        node = Node(LEAF, event.start_mark.index, style=event.style or "")
        node.end = event.end_mark.index
        frame = self.open[-1] if self.open else None
        is_key = frame is not None and frame.is_map and frame.key is None
        # A quoted scalar or key without a tag is always a string.
        if event.tag is None and (is_key or not event.implicit[0]):
            node.value = event.value
        else:
            try:
                node.value = self._meaning(event)
            except Unreadable as error:
                raise self._wrong(error.code, error.message, event) from None
        if node.style in ("|", ">"):
            node.end = self._block_end(node)
        if event.anchor:
            self._anchor(node, event)
        self._place(node, event, event.value)

    def _meaning(self, event: Any) -> Any:
        if event.tag is None:
            return plain(event.value)
        name = event.tag.removeprefix(_CORE)
        if event.tag == "!" or name == "str":
            return event.value
        value = plain(event.value)
        if name == event.tag or _TAGGED.get(name) is not type(value):
            raise Unreadable("yaml-tag", f"the tag {event.tag[:80]} is not allowed")
        return value

    def _block_end(self, node: Node) -> int:
        """Return the end of the text of a block scalar, before its last line break."""
        raw = self.text[node.start : node.end]
        header = _HEADER.search(raw)
        kept = raw if header is None or "+" not in header.group() else ""
        body = kept.rstrip("".join(BREAKS) + " ") if kept else _LAST_BREAK.sub("", raw)
        return node.start + max(len(body), header.end() if header else 0)

    def _alias(self, event: Any) -> None:
        self.aliases += 1
        target = self.anchors.get(event.anchor)
        if target is None:
            raise self._wrong("yaml-syntax", f"the anchor {event.anchor[:80]} is undefined", event)
        if any(frame.node is target for frame in self.open):
            raise self._wrong("alias-bomb", "an alias contains itself", event)
        self.expanded += _size(target.value, EXPANSION + 1)
        if self.aliases > ALIASES or self.expanded > EXPANSION:
            raise self._wrong("alias-bomb", "aliases repeat too many values", event)
        node = Node(LEAF, event.start_mark.index, copied(target.value), "*")
        node.end = event.end_mark.index
        self._place(node, event, target.value if isinstance(target.value, str) else None)

    def _start(self, is_map: bool, event: Any) -> None:
        if len(self.open) >= DEPTH:
            raise self._wrong("too-deep", _TOO_DEEP, event)
        if event.tag not in (None, "!", _CORE + ("map" if is_map else "seq")):
            raise self._wrong("yaml-tag", f"the tag {event.tag[:80]} is not allowed", event)
        if self.open and self.open[-1].node.kind == MAP and self.open[-1].key is None:
            raise self._wrong("yaml-syntax", "a key is a map or list, not a scalar", event)
        style = "flow" if event.flow_style else "block"
        if style == "block" and event.start_mark.column > COLUMNS:
            raise self._wrong(
                "too-deep", f"a block is indented by more than {COLUMNS} columns", event
            )
        node = Node(MAP if is_map else LIST, event.start_mark.index, {} if is_map else [], style)
        if event.anchor:
            self._anchor(node, event)
        self.open.append(_Open(node))

    def _end(self, event: Any) -> None:
        node = self.open.pop().node
        if node.style == "flow":
            node.end = event.end_mark.index
        else:
            node.end = node.items[-1].end if node.items else node.start
        if node.items and not node.anchor and node.style == "block" and node.kind == MAP:
            node.end = max(node.end, node.keys[-1].end)
        self._place(node, event, None)

    def _place(self, node: Node, event: Any, word: str | None) -> None:
        if not self.open:
            self.root = node
            return
        frame = self.open[-1]
        if not frame.is_map:
            frame.items.append(node)
            frame.value.append(node.value)
        elif frame.key is None:
            frame.key = self._key(frame, node, event, word)
        else:
            frame.keys.append(frame.key)
            frame.items.append(node)
            frame.value[frame.key.value] = node.value
            frame.key = None

    def _key(self, frame: _Open, node: Node, event: Any, word: str | None) -> Node:
        if word is None:
            raise self._wrong("yaml-syntax", "a key is a map or list, not a scalar", event)
        if word in frame.value:
            message = f"the key {word!r} occurs twice in one map"
            raise self._wrong("duplicate-key", message[:200], event)
        if word == "<<" and not node.style:
            self.remarks.append(Remark("merge-key", event.start_mark.line + 1))
        node.value = word
        return node

    def _anchor(self, node: Node, event: Any) -> None:
        node.anchor = event.anchor
        self.anchors[event.anchor] = node
        if len(self.anchors) > ALIASES:
            raise self._wrong("alias-bomb", f"the file has more than {ALIASES} anchors", event)

    def _wrong(self, code: str, message: str, event: Any) -> Unreadable:
        mark = event.start_mark
        return Unreadable(code, message, mark.line + 1, mark.column + 1)


_LAST_BREAK = re.compile("(?:\r\n|[\n\r\x85\u2028\u2029])\\Z")
_HEADER = re.compile(r"[|>][-+0-9]*")
_TAGGED = {"int": int, "float": float, "bool": bool, "null": type(None)}


def _size(value: Any, most: int) -> int:
    todo, count = [value], 0
    while todo and count <= most:
        count += 1
        todo.extend(_children(todo.pop()))
    return count
