"""The one gate for text: `clean_input` and `clean_id` on the way in, the rest on the way out.

Text from a session is data. It reaches a terminal only through `terminal` and a model only through
`prompt`. Neither allows the text to move a cursor, change its direction, hide characters or end its
own quotation.

*Invisible* characters are removed: control characters and whole escape sequences with their
payload, bidi controls, zero-width and tag characters, blank fillers. One variation selector after a
character stays (emoji and ideographs need it), and so does a joiner (U+200C, U+200D) between two
characters of a script or emoji that uses joiners, but never next to ASCII or another joiner. An
escape sequence without an end loses only its introducer, so it cannot hide what follows. Lone
surrogates become U+FFFD.

A *fence* is the pair of lines around a text for a model. Both lines carry a code: an HMAC of
provenance and text under a secret of this device, computed again if the text contains it. So no
text can contain or guess its own closing line, and other texts have other codes. The code consists
of letters, which cost a model half as many tokens as digits.
"""

from __future__ import annotations

import functools
import re

from forestay.base.hashing import hmac_sha256, sha256
from forestay.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ELLIPSIS = "…"
ID_LIMIT = 64
CODE_LENGTH = 6

_compiled = functools.cache(re.compile)

# The payload of a string sequence ends at any control character, which keeps the match linear.
_ESCAPES = (
    r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]*+"
    r"(?:\x07|\x9c|\x1b\\)"
    r"|\x1b[ -/]*+[0-~]"
)
_BREAKS = "\r\n|[\n\r\x0b\x0c\x85\u2028\u2029]"
_INVISIBLE = (
    "\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f"
)
_SELECTOR = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_JOINED = "\u0600-\u1fff\u2190-\ud7ff\uf900-\U000e01ef"
_STRAY_JOINER = f"(?<![{_JOINED}])[\u200c\u200d]|[\u200c\u200d](?![{_JOINED}])"
_STRAY_SELECTOR = f"(?<=[{_SELECTOR}])[{_SELECTOR}]+"
_SURROGATE = "[\ud800-\udfff]"
_SUSPECT = f"[{_INVISIBLE}{_SELECTOR}\t\n\r\x0b\x0c\x85\u200c\u200d\u2028\u2029\ud800-\udfff]"


def terminal(text: str, *, newlines: bool = False) -> str:
    """Return the text safe to print. Line breaks and tabs become spaces unless `newlines`."""
    # Most text is plain, and the patterns below take milliseconds to compile.
    plain = text.replace(ELLIPSIS, "").replace("\n", "") if newlines else text
    if plain.isascii() and plain.isprintable():
        return text
    if not _compiled(_SUSPECT).search(text):
        return text
    text = _compiled(_ESCAPES).sub("", text)
    text = _compiled(_BREAKS).sub("\n" if newlines else " ", text)
    text = text if newlines else text.replace("\t", " ")
    text = _compiled(f"[{_INVISIBLE}]").sub("", text)
    text = _compiled(_SURROGATE).sub("\ufffd", text)
    # Joiners first: removing them can bring selectors together, which the next line must see.
    text = _compiled(_STRAY_JOINER).sub("", text)
    return _compiled(_STRAY_SELECTOR).sub("", text)


def prompt(
    text: str, secret: bytes, *, label: str = "", origin: str = "", confirmed: bool = True
) -> str:
    """Return the text as quoted data for a model, between two lines that it cannot contain."""
    source = " from ".join(_header(part) for part in (label, origin) if part)
    provenance = ", ".join(filter(None, (source, "" if confirmed else "unconfirmed")))
    text = terminal(text, newlines=True)
    code = _code(secret, provenance, text)
    return f"<<<data {code} {provenance}".rstrip() + f"\n{text}\n{code}>>>"


def _header(text: str) -> str:
    return shorten(text.replace("<", " ").replace(">", " "), 80) or "text"


_LETTERS = str.maketrans("0123456789abcdef", "bcdfghjkmnpqrtvz")
"""No vowels: a code is never a word."""

DEAREST_FENCE = "<<<data {0}\n\n{0}>>>".format("j" * CODE_LENGTH)
"""An empty fence without a label; no other code costs a model more tokens."""


def _code(secret: bytes, provenance: str, text: str) -> str:
    # The provenance is one line, so the first newline separates the two unambiguously.
    code = hmac_sha256(secret, f"{provenance}\n{text}".encode())
    while code[:CODE_LENGTH].translate(_LETTERS) in text:
        code = hmac_sha256(secret, code.encode())
    return code[:CODE_LENGTH].translate(_LETTERS)


def one_line(text: str) -> str:
    """Return the text safe to print, on one line, with single spaces between words."""
    if text.isascii() and text.isprintable() and "  " not in text:
        return text.strip()
    return " ".join(terminal(text).split())


def shorten(text: str, limit: int) -> str:
    """Return one line of at most `limit` characters, cut at the end of a word if possible."""
    line = one_line(text)
    if limit < 1 or len(line) <= limit:
        return line if limit > 0 else ""
    head = _head(line, limit - 1, len)
    word = head if line[len(head)] == " " else head.rpartition(" ")[0]
    if len(word) * 2 > len(head):
        head = word
    return head.rstrip() + ELLIPSIS


def width(text: str) -> int:
    """Return the columns that a text from `terminal` occupies."""
    if text.isascii():
        return len(text)
    return sum(_columns(cluster) for cluster in _clusters(text))


def fit(text: str, columns: int, *, right: bool = False) -> str:
    """Return one line of exactly `columns` columns: cut with an ellipsis or filled with spaces."""
    line = one_line(text)
    if width(line) > columns:
        line = _head(line, columns - 1, width) + ELLIPSIS if columns > 0 else ""
    fill = " " * (columns - width(line))
    return fill + line if right else line + fill


def person_title(person: str, device: str) -> str:
    """Return how a person is shown: by name, else by device name and fingerprint start.

    A device name is only a claim, so the beginning of the fingerprint follows it.
    """
    if len(person) != 24 or any(c not in "-0123456789abcdef" for c in person) or not device:
        return person
    return f"{device} ({person[:9]})"


def plural(count: int, word: str, many: str = "") -> str:
    """Return a count with its noun: `1 event`, `2 events`."""
    return f"{count} {word if count == 1 else many or word + 's'}"


_SPANS = {"year": 31_536_000, "day": 86_400, "hour": 3600, "minute": 60, "second": 1}


def ago(ms: int) -> str:
    """Return how long ago something was, in its largest unit: "5 minutes ago"."""
    seconds = abs(ms) // 1000
    for word, size in _SPANS.items():
        if seconds >= size:
            text = plural(seconds // size, word)
            return f"{text} ago" if ms > 0 else f"in the future by {text}"
    return "just now"


def _head(text: str, room: int, measure: Callable[[str], int]) -> str:
    """Return the longest beginning, in whole clusters, that measures at most `room`."""
    end = 0
    for cluster in _clusters(text):
        room -= measure(cluster)
        if room < 0:
            break
        end += len(cluster)
    return text[:end]


def _clusters(text: str) -> Iterator[str]:
    """Yield what a reader sees as one character: a base with its marks, a flag, a joined emoji."""
    start = 0
    for at in range(1, len(text)):
        if not _extends(text[at - 1], text[at], at - start):
            yield text[start:at]
            start = at
    if text:
        yield text[start:]


def _extends(before: str, char: str, size: int) -> bool:
    if char < "\u0300":
        return False
    if "\U0001f1e6" <= char <= "\U0001f1ff":
        return size == 1 and "\U0001f1e6" <= before <= "\U0001f1ff"
    if "\U0001f3fb" <= char <= "\U0001f3ff":
        return before > "\u2000"
    return before == "\u200d" or _is_mark(char)


def _is_mark(char: str) -> bool:
    import unicodedata

    if char in "\u200c\u200d" or "\u1160" <= char <= "\u11ff":
        return True
    return unicodedata.category(char) in ("Mn", "Me", "Mc")


def _columns(cluster: str) -> int:
    import unicodedata

    if _is_mark(cluster[0]):
        return 0
    flag = len(cluster) > 1 and "\U0001f1e6" <= cluster[1] <= "\U0001f1ff"
    emoji = "\ufe0f" in cluster and (cluster[0] > "\xa0" or "\u20e3" in cluster)
    wide = unicodedata.east_asian_width(cluster[0]) in ("W", "F")
    return 2 if flag or emoji or wide else 1


_REFUSED = "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]"
_REFUSED_IN_LINE = "[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"
_RECORD_AS_FILE = "write it to a file, then: forestay record artifact PATH"


def is_text(value: str) -> bool:
    """Return whether a text can be stored; a file name may hold bytes that are not text."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def clean_input(text: str, what: str, *, limit: int, lines: bool) -> str:
    """Return the text trimmed for the field `what`, or refuse it with the reason."""
    if not isinstance(text, str):
        raise InvalidInput(f"{what} must be text", why=f"it is {type(text).__name__}")
    text = text.replace("\r\n", "\n").strip(" \t\r\n")
    if len(text) > limit:
        why = f"it has {len(text)} characters; at most {limit} can be recorded"
        hint = _RECORD_AS_FILE if limit > ID_LIMIT else ""
        raise InvalidInput(f"{what} is too long", why=why, hint=hint)
    if not (text.isascii() and text.isprintable()):
        _refuse_characters(text, what, lines=lines)
    if not terminal(text).strip():
        why = "it has no visible character" if text else ""
        raise InvalidInput(f"{what} is empty", why=why, hint="give at least one word")
    return text.strip()


def coerce_input(text: str, *, limit: int, lines: bool) -> str:
    """Return any text in a form that `clean_input` accepts, dropping what it would refuse."""
    plain = text.replace("\n", "") if lines else text
    if len(text) <= limit and plain.isascii() and plain.isprintable():
        return text.strip(" \n")  # the usual case
    text = text.encode("utf-8", "replace").decode().replace("\r\n", "\n")
    refused = _compiled(_REFUSED if lines else _REFUSED_IN_LINE)
    text = refused.sub(lambda bad: " " if bad.group() in "\n\r\t\u2028\u2029" else "", text)
    text = text.strip(" \t\r\n")
    shortened = text if len(text) <= limit else cut(text, limit)
    return shortened if terminal(shortened).strip() else ""


def cut(text: str, limit: int) -> str:
    """Return the beginning of a text that is too long, with an ellipsis."""
    return text[: limit - 1].rstrip() + ELLIPSIS


def _refuse_characters(text: str, what: str, *, lines: bool) -> None:
    bad = _compiled(_REFUSED if lines else _REFUSED_IN_LINE).search(text)
    if not bad:
        return
    place = f"U+{ord(bad.group()):04X} at character {bad.start() + 1}"
    if "\ud800" <= bad.group() <= "\udfff":
        raise InvalidInput(f"{what} is not valid Unicode", why=f"unpaired surrogate, {place}")
    if bad.group() in "\n\r\u2028\u2029":
        raise InvalidInput(
            f"{what} must be one line", why=f"line break {place}", hint=_RECORD_AS_FILE
        )
    raise InvalidInput(
        f"{what} contains a control character", why=place, hint="remove it, or " + _RECORD_AS_FILE
    )


_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))]
)


def clean_id(text: str, what: str) -> str:
    """Return an id unchanged if it is a safe file name on every system, or refuse it."""
    if not isinstance(text, str):
        raise InvalidInput(f"{what} must be text", why=f"it is {type(text).__name__}")
    why = _why_not_an_id(text)
    if why:
        hint = f"use 1 to {ID_LIMIT} letters, digits, '-', '_' and '.', such as: fix-login-2"
        raise InvalidInput(f"{what} '{shorten(text, 40)}' cannot be used", why=why, hint=hint)
    return text


def _why_not_an_id(text: str) -> str:
    if not text:
        return "it is empty"
    if len(text) > ID_LIMIT:
        return f"it has {len(text)} characters; at most {ID_LIMIT} are allowed"
    if not _compiled("[A-Za-z0-9._-]+").fullmatch(text):
        return "only letters, digits, '.', '_' and '-' are allowed"
    if not text[0].isalnum():
        return "it must begin with a letter or a digit"
    if text[-1] == "." or ".." in text:
        return "it must not end in '.' or contain '..'"
    if text.partition(".")[0].lower() in _DEVICES:
        return "Windows reserves this name for a device"
    return ""


def short_name(text: str) -> str:
    """Return a short stable name derived from a text: the same text gives the same name."""
    words = "".join(c if c.isalnum() and c.isascii() else " " for c in text.lower()).split()
    mark = sha256(" ".join(text.lower().split()).encode("utf-8", "replace")).hexdigest()[:6]
    return f"{'-'.join(words)[:32].strip('-') or 'decision'}-{mark}"
