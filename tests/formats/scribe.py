"""Write the same value differently each time, in every style that is found in files.

The text always has the given value, so parsers and rewriters can be tested with it.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

from hypothesis import strategies as st

_WORDS = ["alpha", "beta b", "impl-1", "a/b.py", "done", "x_y"]
_TRICKY = [
    "yes", "no", "null", "~", "12", "1.5", "0x1f", "2025-01-09T10:00:00Z", "a: b", "a #b", "- x",
    "", " ", "it's", 'say "x"', "tab\there", "two\nlines\n", "é ✓", "\u2028", "\ufeffx", "#", "*a",
    "&a", "!t", "[", "{", "%", "@", "`", "'", '"', "? ", ":", "a:", "|", ">", "...", "---", "\x85",
    "<<", "=", "😀", "a\\b", "\x7f", "end \n", "\n", "  lead\nx", "back\r\nslash",
]  # fmt: skip

strings = st.one_of(
    st.sampled_from(_WORDS),
    st.sampled_from(_TRICKY),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8),
)
scalars = st.one_of(
    strings,
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
)
keys = st.one_of(st.sampled_from(["id", "title", "status", "a", "b", "c d", "<<"]), strings)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(keys, inner, max_size=4),
        st.lists(st.fixed_dictionaries({"id": st.sampled_from("pqrs"), "v": inner}), max_size=3),
    ),
    max_leaves=12,
)
maps = st.dictionaries(keys, values, min_size=1, max_size=5)


def is_full(value: Any) -> bool:
    return isinstance(value, (dict, list)) and bool(value)


class Scribe:
    """Writes values with choices drawn from a source of chance."""

    def __init__(self, chance: Random, *, plain: bool = False) -> None:
        self.chance = chance
        self.eol = chance.choice(["\n", "\n", "\r\n"])
        self.comments = chance.random() < 0.5 and not plain
        self.anchors = 0

    def odds(self, likely: float) -> bool:
        return self.chance.random() < likely

    def one_of(self, *choices: str) -> str:
        return self.chance.choice(choices)

    # JSON

    def json(self, value: Any) -> str:
        space = self.one_of("", "", " ", "  ", self.eol, "\t", self.eol * 2)
        return space + self._json(value, 0) + self.one_of("", self.eol, " ", self.eol * 2)

    def _json(self, value: Any, depth: int) -> str:
        if not is_full(value):
            empty = self.one_of("", " ") if isinstance(value, (dict, list)) else ""
            text = self._json_scalar(value)
            return text[0] + empty + text[1] if empty else text
        inner = self._json_gap(depth + 1)
        if isinstance(value, list):
            members = [self._json(each, depth + 1) for each in value]
        else:
            members = [
                self._json_scalar(key) + self.one_of(":", ": ", " : ") + self._json(each, depth + 1)
                for key, each in value.items()
            ]
        opening, closing = "[]" if isinstance(value, list) else "{}"
        comma = self.one_of(",", ",", " ,")
        text = (comma + inner).join(members)
        return opening + inner + text + self._json_gap(depth) + closing

    def _json_gap(self, depth: int) -> str:
        lined = self.eol + self.one_of("  ", "    ", "\t", "") * depth
        return self.one_of("", " ", lined, lined, lined)

    def _json_scalar(self, value: Any) -> str:
        if isinstance(value, float) and self.odds(0.3):
            return repr(value) if "e" not in repr(value) else repr(value).upper()
        text = json.dumps(value, ensure_ascii=self.odds(0.5))
        return text.replace("/", "\\/") if self.odds(0.1) else text

    # YAML

    def yaml(self, value: Any) -> str:
        head = self.one_of("", "", "---" + self.eol, "# head" + self.eol, "%YAML 1.1\n---\n")
        text = head + self._lines(0) + self._block(value, 0)
        if self.odds(0.8) or text.endswith((self.eol, "|", ">")):
            text += self.eol + self._lines(0)
        return text

    def _lines(self, column: int) -> str:
        if not self.comments or self.odds(0.6):
            return ""
        pad = " " * self.chance.choice([0, column, column, column + 1])
        return self.one_of(self.eol, f"{pad}# note{self.eol}", f"{pad}#{self.eol}{self.eol}")

    def _rest(self) -> str:
        if self.comments and self.odds(0.3):
            return self.one_of("  # why: x", " #", "   ", " # 'q")
        return ""

    def _block(self, value: Any, column: int, *, may_flow: bool = True) -> str:
        """Return a value whose first character is at a column."""
        if not is_full(value) or (may_flow and self.odds(0.15)):
            return self._flow(value) + self._rest()
        if isinstance(value, list):
            parts = [self._item(each, column) for each in value]
        else:
            parts = [self._pair(key, each, column) for key, each in value.items()]
        text = parts[0]
        for part in parts[1:]:
            text += self.eol + self._lines(column) + " " * column + part
        return text

    def _item(self, value: Any, column: int) -> str:
        if value is None and self.odds(0.4):
            return "-" + self._rest()
        gap = self.chance.choice([1, 1, 1, 3])
        if is_full(value) and self.odds(0.2):
            inner = column + self.chance.choice([1, 2, 4])
            return f"-{self._rest()}{self.eol}{self._lines(inner)}{' ' * inner}" + self._block(
                value, inner
            )
        if isinstance(value, str) and self.odds(0.1):
            return "- " + self._literal(value, column + 2)
        return "-" + " " * gap + self._block(value, column + 1 + gap)

    def _pair(self, key: str, value: Any, column: int) -> str:
        spelled = self._string(key, is_key=True)
        if value is None and self.odds(0.4):
            return spelled + ":" + self._rest()
        if is_full(value) and self.odds(0.9):
            least = 0 if isinstance(value, list) else 1
            inner = column + self.chance.choice([least, 2, 2, 2, 4])
            begin = f"{spelled}:{self._rest()}{self.eol}{self._lines(inner)}{' ' * inner}"
            return begin + self._block(value, inner, may_flow=inner > column)
        if isinstance(value, str) and self.odds(0.15):
            return f"{spelled}: " + self._literal(value, column + 2)
        return f"{spelled}:{self.one_of(' ', ' ', '   ')}" + self._flow(value) + self._rest()

    def _literal(self, value: str, column: int) -> str:
        lines = value.split("\n")
        body, tail = lines[:-1], lines[-1]
        fits = tail == "" and body and all(_is_word(line) for line in body)
        if not fits:
            return self._flow(value) + self._rest()
        pad = self.eol + " " * column
        return "|" + self._rest().replace("   ", "") + "".join(pad + line for line in body)

    def _flow(self, value: Any) -> str:
        if not is_full(value):
            return self._scalar(value)
        gap = self.one_of("", " ", " ")
        if isinstance(value, list):
            inner = ("," + gap).join(self._flow(each) for each in value)
            return f"[{gap}{inner}{self.one_of('', ' ', ',')}]"
        pairs = ", ".join(
            f"{self._string(key, is_key=True)}: {self._flow(each)}" for key, each in value.items()
        )
        return f"{{{gap}{pairs}{gap}}}"

    def _scalar(self, value: Any) -> str:
        if isinstance(value, str):
            return self._string(value)
        if value is None:
            return self.one_of("null", "~", "Null")
        if isinstance(value, bool):
            return self.one_of(str(value), str(value).lower(), str(value).upper())
        if isinstance(value, float):
            text = repr(value)
            return text if "e" not in text or "." in text else text.replace("e", ".0e")
        return json.dumps(value)

    def _string(self, value: str, *, is_key: bool = False) -> str:
        if _is_word(value) and self.odds(0.5):
            return value
        if value.isascii() and value.isprintable() and value and self.odds(0.4):
            return "'" + value.replace("'", "''") + "'"
        text = json.dumps(value, ensure_ascii=False)
        return "".join(_escaped(sign) for sign in text)


def _is_word(value: str) -> bool:
    return value in ("alpha", "beta b", "impl-1", "done", "x_y", "id", "title", "status", "two")


def _escaped(sign: str) -> str:
    code = ord(sign)
    if sign.isprintable() and code != 0xFEFF:
        return sign
    return f"\\U{code:08x}" if code > 0xFFFF else f"\\u{code:04x}"
