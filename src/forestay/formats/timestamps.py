"""Read timestamps in every spelling found in session files, and write them in the same spelling.

A replaced timestamp retains its style: zone (`Z`, an offset, none), separators and the number of
fraction digits. Timestamps without a zone are read as local time or UTC, as the caller chooses.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache

_STAMP = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)([T ])(\d\d):(\d\d)(?::(\d\d)(?:([.,])(\d{1,9}))?)?"
    r"(Z|z|[+-](?:[01]\d|2[0-3]):?[0-5]\d)?\Z",
    re.ASCII,
)
# All times of `datetime` except a day at each end, where a zone could lead out of range.
_FIRST, _LAST = -62_135_510_400_000, 253_402_214_399_999


_EPOCH, _NONE = datetime(1970, 1, 1), timedelta(0)
_UTC = (None, "Z", "z")


def read(text: object, naive: str = "local") -> int | None:
    """Return the time of a timestamp in UTC milliseconds; None if it is not a timestamp."""
    if not isinstance(text, str):
        return None
    return _read_utc(text) if text.endswith("Z") else _read(text, naive)


# Cached: a file is read many times, and most of its timestamps do not change.
@lru_cache(maxsize=2048)
def _read_utc(text: str) -> int | None:
    return _read(text, "utc")


def _read(text: str, naive: str) -> int | None:
    match = _STAMP.match(text)
    if match is None:
        return None
    year, month, day, _, hour, minute, second, _, fraction, zone = match.groups()
    try:
        date, time = (int(year), int(month), int(day)), (int(hour), int(minute), int(second or 0))
        moment = datetime(*date, *time)
        if zone or naive == "utc":
            since = moment - _EPOCH - (_zone(zone).utcoffset(None) if zone not in _UTC else _NONE)
            seconds: float = since.days * 86_400 + since.seconds
        else:
            seconds = moment.astimezone().timestamp()
    except (ValueError, OverflowError, OSError):
        return None
    return round(seconds) * 1000 + int((fraction or "0").ljust(3, "0")[:3])


def write(
    moment: int, style: object = "", *, milliseconds: bool = False, naive: str = "local"
) -> str:
    """Return a time as a timestamp, in the style of the timestamp it replaces if that is valid."""
    moment = max(_FIRST, min(moment, _LAST))
    match = _STAMP.match(style) if isinstance(style, str) else None
    if match is None:
        return _write(moment, UTC, "T", "." if milliseconds else "", 3, "Z")
    between, sign, digits, zone = match[4], match[8] or "", len(match[9] or ""), match[10]
    if zone is None:
        return _write(moment, UTC if naive == "utc" else _here(moment), between, sign, digits, "")
    return _write(moment, _zone(zone), between, sign, digits, zone)


def first(*moments: int | None) -> int:
    """Return the first time that is not None."""
    return next(moment for moment in moments if moment is not None)


def is_naive(text: object) -> bool:
    """Return whether a timestamp has no zone."""
    match = _STAMP.match(text) if isinstance(text, str) else None
    return match is not None and match[10] is None


def _zone(text: str | None) -> timezone:
    if text is None or text in "Zz":
        return UTC
    sign = -1 if text[0] == "-" else 1
    digits = text[1:].replace(":", "")
    return timezone(sign * timedelta(hours=int(digits[:2]), minutes=int(digits[2:])))


def _here(moment: int) -> timezone:
    """Return the zone of this machine at a time."""
    return timezone(datetime.fromtimestamp(moment // 1000, UTC).astimezone().utcoffset() or _NONE)


# Cached: several files of a session get the same timestamp.
@lru_cache(maxsize=64)
def _write(moment: int, zone: timezone, between: str, sign: str, digits: int, suffix: str) -> str:
    """Return a timestamp; `sign` precedes the fraction, which is left out if it is empty."""
    seconds, rest = divmod(moment, 1000)
    at = datetime.fromtimestamp(seconds, zone)
    text = at.replace(tzinfo=None).isoformat(between, "seconds")
    fraction = f"{rest:03d}".ljust(digits, "0")[:digits]
    return f"{text}{sign + fraction if sign else ''}{suffix}"
