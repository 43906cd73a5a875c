"""Time, ids and randomness: everything that differs between runs comes from here.

A *time* is an int: milliseconds since 1970 in UTC, as the wall clock showed it, even if that clock
is wrong. The engine asks a *Clock* for time, random bytes and sleep; a test passes a FakeClock and
gets the same bytes in every run.

There are three kinds of id, all in lower-case Crockford base32 (no i, l, o, u, so they can be read
aloud). An *event id* begins with its time, so later ids sort later. A *short id* names a session or
a device and starts with a letter, so no tool mistakes it for a number. A *derived id* depends on
its source alone: the same source gives the same id.
"""

from __future__ import annotations

import os
import time

from forestay.base.hashing import sha256
from forestay.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import date, datetime

# The alphabet is part of every stored id and must not change.
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_LETTERS = _ALPHABET[10:]
_LAST_TIME = (1 << 48) - 1

_SECOND = 1_000
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_UNITS = {"s": _SECOND, "m": _MINUTE, "h": _HOUR, "d": _DAY, "w": 7 * _DAY}
_UNIT_WORDS = {
    "s": ("s", "sec", "secs", "second", "seconds"),
    "m": ("m", "min", "mins", "minute", "minutes"),
    "h": ("h", "hr", "hrs", "hour", "hours"),
    "d": ("d", "day", "days"),
    "w": ("w", "week", "weeks"),
}


class Clock:
    """The real clock. Subclass it to control time in a test."""

    def now(self) -> int:
        """Return UTC milliseconds by the wall clock, which may jump either way."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Return seconds that only grow; only differences within this process are meaningful."""
        return time.monotonic()

    def random(self, n: int) -> bytes:
        return os.urandom(n)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class FakeClock(Clock):
    """A clock that moves only on request: same start and seed, same times and random bytes."""

    def __init__(self, start_ms: int = 1_700_000_000_000, seed: int = 0) -> None:
        self._now, self._elapsed, self._seed, self._drawn = start_ms, 0.0, seed, 0

    def now(self) -> int:
        return self._now

    def monotonic(self) -> float:
        return self._elapsed

    def random(self, n: int) -> bytes:
        from hashlib import shake_256

        self._drawn += 1
        return shake_256(f"{self._seed}:{self._drawn}".encode()).digest(n)

    def sleep(self, seconds: float) -> None:
        """Move the wall clock and the monotonic clock forward without waiting."""
        self._elapsed += seconds
        self._now += round(seconds * _SECOND)

    def jump(self, ms: int) -> None:
        """Set the wall clock forward or back; the monotonic clock does not change."""
        self._now += ms


def new_id(clock: Clock) -> str:
    """Return a new event id: 48 bits of time, then 80 random bits, in 26 characters."""
    # A clock before 1970 or after the year 10889 still gets an id; only the order suffers.
    at = min(max(clock.now(), 0), _LAST_TIME)
    return _base32(at << 80 | int.from_bytes(clock.random(10), "big"), 26)


def short_id(clock: Clock, length: int = 16) -> str:
    """Return a random id that starts with a letter: sessions have 16 characters, devices 12."""
    drawn = int.from_bytes(clock.random(length + 4), "big")
    rest, first = divmod(drawn, len(_LETTERS))
    return _LETTERS[first] + _base32(rest, length - 1)


def derived_id(*parts: str) -> str:
    """Return the same id for the same parts, in the form of an event id.

    Each part is hashed with its length, so ("ab", "c") and ("a", "bc") differ. The bytes hashed
    here are stored as ids and must not change.
    """
    digest = sha256()
    for part in parts:
        # File names can contain lone surrogates; these must give an id, too.
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return _base32(int.from_bytes(digest.digest()[:16], "big"), 26)


def _base32(number: int, length: int) -> str:
    return "".join([_ALPHABET[number >> place & 31] for place in range(5 * length - 5, -1, -5)])


def iso(ms: int, *, millis: bool = False) -> str:
    """Return a time as ISO 8601 in UTC: 2026-11-15T21:00:00Z. Never raises.

    Years outside 0000 to 9999 get the sign and the length they need; a time that no
    calendar can express is returned as its number of milliseconds.
    """
    seconds, rest = divmod(ms, _SECOND)
    try:
        at = time.gmtime(seconds)
    except (OverflowError, OSError, ValueError):
        return f"{ms} ms"
    year = f"{at.tm_year:04d}" if 0 <= at.tm_year <= 9999 else f"{at.tm_year:+05d}"
    fraction = f".{rest:03d}" if millis else ""
    return (
        f"{year}-{at.tm_mon:02d}-{at.tm_mday:02d}"
        f"T{at.tm_hour:02d}:{at.tm_min:02d}:{at.tm_sec:02d}{fraction}Z"
    )


def to_datetime(at: int | str) -> datetime:
    """Return a time in milliseconds, or in ISO 8601, as a `datetime` in UTC.

    A time outside the range of `datetime` becomes the nearest time inside it.
    """
    from datetime import UTC, datetime, timedelta

    try:
        if isinstance(at, str):
            return datetime.fromisoformat(at)
        return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=at)
    except (OverflowError, ValueError):  # outside the years of `datetime`
        is_early = str(at).startswith(("-", "0000"))
        return (datetime.min if is_early else datetime.max).replace(tzinfo=UTC)


def to_ms(at: datetime) -> int:
    """Return a `datetime` in milliseconds since 1970."""
    return round(at.timestamp() * _SECOND)


def parse_time(text: str, now_ms: int, *, naive: str = "local") -> int:
    """Return the time in milliseconds that a user wrote as text.

    Accepts ISO 8601 with or without a zone ("2026-11-15T21:00:00Z", "2026-11-15 21:00"), a date, a
    span back from now ("15m", "1h30m", "2 hours ago"), and now, today, yesterday. A day stands for
    its first moment. Without a zone the time is local, or UTC with naive="utc".
    """
    words = " ".join(text.lower().split()) if len(text) <= 64 else ""
    if words == "now":
        return now_ms
    found = _span_back(words)
    if found is not None:
        return now_ms - found
    try:
        return _calendar_time(words, now_ms, naive)
    except (ValueError, OverflowError, OSError):
        raise InvalidInput(
            f"not a time: {text[:64]!r}",
            hint='write 2026-11-15T21:00:00Z, 2026-11-15, "2 hours ago", 15m or yesterday',
        ) from None


def _span_back(words: str) -> int | None:
    import re

    body = words.removesuffix(" ago")
    parts = re.findall(r"([0-9]{1,9}) ?([a-z]+) ?", body)
    if not parts or re.fullmatch(r"(?:[0-9]{1,9} ?[a-z]+ ?)+", body) is None:
        return None
    sizes = {word: _UNITS[unit] for unit, names in _UNIT_WORDS.items() for word in names}
    if any(word not in sizes for _, word in parts):
        return None
    return sum(int(count) * sizes[word] for count, word in parts)


def _calendar_time(words: str, now_ms: int, naive: str) -> int:
    from datetime import UTC, datetime, time, timedelta

    zone = UTC if naive == "utc" else None
    if words in ("today", "yesterday"):
        today: date = datetime.fromtimestamp(now_ms / _SECOND, zone).date()
        at = datetime.combine(today - timedelta(days=words == "yesterday"), time())
    else:
        at = datetime.fromisoformat(words.upper())
    if at.tzinfo is None:
        # astimezone() reads a naive value as local time, with the offset of that day.
        at = at.replace(tzinfo=zone) if zone else at.astimezone()
    return (at - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)
