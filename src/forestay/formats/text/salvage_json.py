"""Read a damaged JSON file: everything before the damage, and single fields after it.

The text is read token by token and cut at the last place where closing all open brackets gives
valid JSON. After the cut, values of top-level keys are found by their indentation. If that is not
everything, a text of up to a megabyte is read again with common mistakes repaired: a comma too many
or too few, a comment, a backslash that escapes nothing, a word of another language. The time is
proportional to the size, of which only the first megabytes are read.

For YAML that can be parsed, `ends_within_a_line` returns whether more may have followed.
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

# A number must be followed by something: at the end of a file it may be incomplete.
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
    # A 0 at the end of the file may have been 0.4.
    r"|-?[0-9]{1,15}(?:\.[0-9]{1,15})?(?=[\s,]))"
    r"[ \t]*,?[ \t]*\r?$",
    re.MULTILINE,
)


class Torn(Struct):
    """What was found: a value, remarks on the damage, and the keys found after the damage."""

    value: dict[str, Any]
    remarks: list[str]
    behind: list[str]
    whole: bool


def recover(data: bytes) -> Torn | None:
    """Return what can be read of the bytes of a JSON object, or None."""
    text, remarks = decode_damaged(data)
    torn = _read_tokens(text, remarks)
    if (torn is not None and torn.whole) or len(text) > LIMIT // 4:
        return torn  # repairing large texts would take too long
    again = _read_tokens(_MISTAKE.sub(_repair, text), remarks)
    return max((torn, again), key=lambda one: (one.whole, len(one.value)) if one else (False, 0))


def _read_tokens(text: str, remarks: list[str]) -> Torn | None:
    start = text.find("{")
    if start < 0:
        return None
    end, closers = _find_cut(text, start)
    value = _load_object(text[start:end] + closers)
    whole = not closers and not text[end:].strip()
    if not whole:
        torn = "the file is incomplete or damaged; everything before the damage was read"
        remarks = [*remarks, torn]
    behind = _fields_after(text, start, end, value) if closers else {}
    return Torn({**value, **behind}, remarks, list(behind), whole) if value or behind else None


def decode_damaged(data: bytes) -> tuple[str, list[str]]:
    """Return the text of a damaged file, and remarks on it."""
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
        remarks.append("bytes that are not UTF-8 were replaced")
    text, *other = sides(text) if "<<<<<<< " in text else [text]
    remarks += ["of two versions in conflict, the first was used"] if other else []
    return text.rstrip("\0"), remarks


# --- mistakes ----------------------------------------------------------------------------------

# A string without an end matches too, so that nothing inside it is repaired.
_MISTAKE = re.compile(
    r'(?P<text>"[^"\\\0]*+(?:\\.[^"\\\0]*+)*+"?)'
    r"|,(?=[ \t\r\n]*+[\]}])"
    r"|//[^\n]*+"
    r'|(?P<gap>(?<=["\]}0-9el])[ \t]*+\r?\n[ \t\r\n]*+(?=["{]))'
    r"|(?P<word>(?<![\w.])(?:-?(?:NaN|Infinity)|None|True|False)(?!\w))"
)
_WORDS = {"True": "true", "False": "false"}
_NO_ESCAPE = re.compile(r'(?<!\\)(?:\\\\)*+\\(?!["/bfnrt]|u[0-9a-fA-F]{4})')


def _repair(mistake: re.Match[str]) -> str:
    if mistake["text"]:
        # A backslash that begins no escape is literal, as in C:\Users.
        return _NO_ESCAPE.sub(r"\g<0>\\", mistake[0])
    if mistake["gap"]:
        return f",{mistake[0]}"
    return _WORDS.get(mistake[0], "null") if mistake["word"] else ""


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


def _find_cut(text: str, start: int) -> tuple[int, str]:
    """Return where to cut the text, and the brackets that close it there."""
    stack: list[str] = []
    state, at, safe = "value", start, start
    for _ in range(TOKENS):
        if (match := _TOKEN.match(text, at)) is None:
            break
        sign = _sign(match)
        after = _NEXT[state].get(sign)
        if after is None or not _track_bracket(stack, sign):
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


def _track_bracket(stack: list[str], sign: str) -> bool:
    """Push or pop a bracket; return False if it closes nothing or is too deep."""
    if sign in _CLOSER and len(stack) < DEEPEST:
        stack.append(_CLOSER[sign])
        return True
    if sign in ("]", "}") and stack and stack[-1] == sign:
        stack.pop()
        return True
    return sign not in "[]{}"


def _load_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return {}
    return without_surrogates(value) if isinstance(value, dict) else {}


def without_surrogates(value: Any) -> Any:
    """Return the value without lone surrogates, which cannot be written."""
    if isinstance(value, dict):
        return {without_surrogates(key): without_surrogates(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_surrogates(inner) for inner in value]
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value


# --- the part after it -------------------------------------------------------------------------


def _fields_after(text: str, start: int, end: int, known: dict[str, Any]) -> dict[str, Any]:
    """Return top-level keys after the cut: those indented like the first key of the file."""
    indent = _INDENT.match(text, start)
    if indent is None:
        return {}
    found: dict[str, Any] = {}
    for match in _FIELD.finditer(text, end):
        if match[1] == indent[1] and match[2] not in known:
            found |= _load_object(f'{{"{match[2]}":{match[3]}}}')
    return found


def ends_within_a_line(data: bytes) -> bool:
    """Return whether YAML ends neither with a line end nor with the brace that closes it."""
    return not data.endswith(b"\n") and not data.lstrip().startswith(b"{")
