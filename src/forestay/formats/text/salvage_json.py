"""What a damaged JSON file still says: all of it up to the break, and lone fields behind it.

The text is followed token by token. The last place at which it could have ended, had every open
bracket been closed, is where it is cut. Behind the cut, values of topmost keys are still found by
their indentation. If that is not all, a text of up to a megabyte is tried again with its slips put
right: a comma too many or too few, a remark, a backslash that escapes nothing, a word of another
language. Time is in proportion to the text, of which only the first megabytes are read.

Of YAML that can be parsed, `ends_within_a_line` says whether more may have followed.
"""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec import Struct

from forestay.formats.text.git_conflict import sides

LIMIT = 4 * 1024 * 1024
DEEPEST = 64
TOKENS = 200_000

# A number must be seen to end: at the end of a torn file it may be half of one.
_TOKEN = re.compile(
    r"[ \t\r\n]*+(?:([\[{])|([\]}])|([,:])"
    r'|("[^"\\\0]*+(?:\\.[^"\\\0]*+)*+")'
    r"|(-?[0-9]{1,300}(?:\.[0-9]{1,300})?(?:[eE][+-]?[0-9]{1,3})?|true|false|null)"
    r"(?=[ \t\r\n,\]}]))"
)
_OPEN, _CLOSE, _SIGN, _STRING = 1, 2, 3, 4
_CLOSER = {"{": "}", "[": "]"}
_INDENT = re.compile(r'\{[ \t]*\r?\n([ \t]{1,8})"')
_FIELD = re.compile(
    r'^([ \t]{1,8})"([A-Za-z_]{1,40})"[ \t]*:[ \t]*'
    r'("[^"\\\r\n]*+(?:\\.[^"\\\r\n]*+)*+"|true|false|null'
    # A 0 that nothing follows may have been 0.4.
    r"|-?[0-9]{1,15}(?:\.[0-9]{1,15})?(?=[\s,]))"
    r"[ \t]*,?[ \t]*\r?$",
    re.MULTILINE,
)


class Torn(Struct):
    """What was found: a value, remarks on how, and the keys found behind the break."""

    value: dict[str, Any]
    remarks: list[str]
    behind: list[str]
    whole: bool


def recover(data: bytes) -> Torn | None:
    """What the bytes of a JSON object still say, or None when it is nothing."""
    text, remarks = decoded(data)
    torn = _followed(text, remarks)
    if (torn is not None and torn.whole) or len(text) > LIMIT // 4:
        return torn  # nobody slips in so much text, and each slip takes its time
    again = _followed(_SLIP.sub(_put_right, text), remarks)
    return max((torn, again), key=lambda one: (one.whole, len(one.value)) if one else (False, 0))


def _followed(text: str, remarks: list[str]) -> Torn | None:
    start = text.find("{")
    if start < 0:
        return None
    end, closers = _last_safe(text, start)
    value = _loaded(text[start:end] + closers)
    whole = not closers and not text[end:].strip()
    if not whole:
        torn = "the file breaks off or is damaged; what stands before the damage was read"
        remarks = [*remarks, torn]
    behind = _behind(text, start, end, value) if closers else {}
    return Torn({**value, **behind}, remarks, list(behind), whole) if value or behind else None


def decoded(data: bytes) -> tuple[str, list[str]]:
    """The text of a damaged file, and what is odd in it."""
    remarks = ["only the first megabytes were read"] if len(data) > LIMIT else []
    data = data[:LIMIT]
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = data.decode("utf-16", "replace")
        remarks.append("the file is UTF-16, not UTF-8")
    else:
        text = data.decode("utf-8-sig", "replace")
    if "\0" in text.rstrip("\0") or text.endswith("\0"):
        remarks.append("a part of the file was overwritten with zeros")
    if "\ufffd" in text:
        remarks.append("bytes that are no UTF-8 were replaced")
    text, *other = sides(text) if "<<<<<<< " in text else [text]
    remarks += ["of two versions in conflict, the first was taken"] if other else []
    return text.rstrip("\0"), remarks


# --- slips -------------------------------------------------------------------------------------

# A text that does not end is passed over, too, so that nothing in it is looked at again.
_SLIP = re.compile(
    r'(?P<text>"[^"\\\0]*+(?:\\.[^"\\\0]*+)*+"?)'
    r"|,(?=[ \t\r\n]*+[\]}])"
    r"|//[^\n]*+"
    r'|(?P<gap>(?<=["\]}0-9el])[ \t]*+\r?\n[ \t\r\n]*+(?=["{]))'
    r"|(?P<word>(?<![\w.])(?:-?(?:NaN|Infinity)|None|True|False)(?!\w))"
)
_WORDS = {"True": "true", "False": "false"}
_NO_ESCAPE = re.compile(r'(?<!\\)(?:\\\\)*+\\(?!["/bfnrt]|u[0-9a-fA-F]{4})')


def _put_right(slip: re.Match[str]) -> str:
    if slip["text"]:
        # A backslash that begins no escape stands for itself, as in C:\Users.
        return _NO_ESCAPE.sub(r"\g<0>\\", slip[0])
    if slip["gap"]:
        return f",{slip[0]}"
    return _WORDS.get(slip[0], "null") if slip["word"] else ""


# --- the part before the damage ----------------------------------------------------------------

# State → token → state after it. A closed value leads to `after`, which the stack refines.
_VALUES = {"{": "first key", "[": "first value", "string": "after", "scalar": "after"}
_NEXT: dict[str, dict[str, str]] = {
    "value": _VALUES,
    "first value": {**_VALUES, "]": "after"},
    "first key": {"string": "colon", "}": "after"},
    "key": {"string": "colon"},
    "colon": {":": "value"},
    "after": {",": "more", "]": "after", "}": "after"},
}
_UNSAFE = ("colon", "value", "key", "more")


def _last_safe(text: str, start: int) -> tuple[int, str]:
    """Where the text may end, and the brackets that close it there."""
    stack: list[str] = []
    state, at, safe = "value", start, start
    for _ in range(TOKENS):
        if (match := _TOKEN.match(text, at)) is None:
            break
        sign = _sign(match)
        after = _NEXT[state].get(sign)
        if after is None or not _stacked(stack, sign):
            break
        state, at = after, match.end()
        if state == "more":
            state = "key" if stack and stack[-1] == "}" else "value"
        elif state not in _UNSAFE:
            safe = at
            if not stack:
                break
    return safe, "".join(reversed(stack))


def _sign(match: re.Match[str]) -> str:
    if match.lastindex in (_OPEN, _CLOSE, _SIGN):
        return match[match.lastindex]
    return "string" if match.lastindex == _STRING else "scalar"


def _stacked(stack: list[str], sign: str) -> bool:
    """Follow brackets; False for one that closes nothing, or that goes too deep."""
    if sign in _CLOSER and len(stack) < DEEPEST:
        stack.append(_CLOSER[sign])
        return True
    if sign in ("]", "}") and stack and stack[-1] == sign:
        stack.pop()
        return True
    return sign not in "[]{}"


def _loaded(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return {}
    return clean(value) if isinstance(value, dict) else {}


def clean(value: Any) -> Any:
    """The value without halves of surrogate pairs, which no file could hold."""
    if isinstance(value, dict):
        return {clean(key): clean(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [clean(inner) for inner in value]
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value


# --- the part behind it ------------------------------------------------------------------------


def _behind(text: str, start: int, end: int, known: dict[str, Any]) -> dict[str, Any]:
    """Topmost keys behind the cut: those that are indented like the first key of the file."""
    indent = _INDENT.match(text, start)
    if indent is None:
        return {}
    found: dict[str, Any] = {}
    for match in _FIELD.finditer(text, end):
        if match[1] == indent[1] and match[2] not in known:
            found |= _loaded(f'{{"{match[2]}":{match[3]}}}')
    return found


def ends_within_a_line(data: bytes) -> bool:
    """Whether YAML ends neither after a line nor with the brace that closes all of it."""
    return not data.endswith(b"\n") and not data.lstrip().startswith(b"{")
