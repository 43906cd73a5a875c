"""Time, ids and randomness: total, deterministic, sortable."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forestay.base.clock import Clock, FakeClock, derived_id, iso, new_id, parse_time, short_id
from forestay.base.text import ago
from forestay.errors import InvalidInput

NOW = 1_794_776_400_000  # 2026-11-15T21:00:00Z
SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
ID = re.compile(r"[0-7][0-9a-hjkmnp-tv-z]{25}")


class Saturated(FakeClock):
    def __init__(self, start_ms: int, byte: int) -> None:
        super().__init__(start_ms)
        self.byte = byte

    def random(self, n: int) -> bytes:
        return bytes([self.byte]) * n


def test_real_clock_returns_utc_milliseconds() -> None:
    before = time.time() * 1000
    assert before - 1 <= Clock().now() <= time.time() * 1000


def test_real_clock_returns_different_random_bytes_each_time() -> None:
    assert Clock().random(16) != Clock().random(16)
    assert len(Clock().random(16)) == 16


def test_real_clock_sleeps_as_long_as_requested() -> None:
    clock = Clock()
    start = clock.monotonic()
    clock.sleep(0.01)
    assert clock.monotonic() - start >= 0.01


def test_fake_clocks_are_equal_exactly_if_their_seeds_are() -> None:
    one, two, other = FakeClock(5, seed=1), FakeClock(5, seed=1), FakeClock(5, seed=2)
    assert [one.random(8), one.random(8)] == [two.random(8), two.random(8)]
    assert FakeClock(5, seed=1).random(8) != other.random(8)
    assert one.random(8) != one.random(8)


def test_fake_clock_moves_only_on_request() -> None:
    clock = FakeClock(NOW)
    assert (clock.now(), clock.monotonic()) == (NOW, 0.0)
    clock.sleep(1.5)
    assert (clock.now(), clock.monotonic()) == (NOW + 1_500, 1.5)
    clock.jump(-10 * 365 * DAY)
    assert (clock.now(), clock.monotonic()) == (NOW + 1_500 - 10 * 365 * DAY, 1.5)


# --- ids ---------------------------------------------------------------------------------------


def test_event_id_has_26_characters_and_begins_with_its_time() -> None:
    assert new_id(Saturated(0, 0)) == "0" * 26
    assert new_id(Saturated(NOW, 0)) == "01m7gg50400000000000000000"
    assert new_id(Saturated(0, 255)) == "0000000000" + "z" * 16


@given(st.integers(0, 2**48 - 2), st.integers(0, 255), st.integers(0, 255))
def test_later_event_ids_sort_later(at: int, one: int, two: int) -> None:
    assert new_id(Saturated(at, one)) < new_id(Saturated(at + 1, two))


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_clock_gives_an_event_id(at: int) -> None:
    assert ID.fullmatch(new_id(FakeClock(at)))


def test_event_ids_from_before_1970_sort_first_and_from_the_far_future_last() -> None:
    assert new_id(Saturated(-(10**15), 0)) == "0" * 26
    assert new_id(Saturated(10**15, 0)) == "7zzzzzzzzz" + "0" * 16


@given(st.integers(), st.integers(1, 40))
def test_short_id_has_its_length_and_starts_with_a_letter(seed: int, length: int) -> None:
    made = short_id(FakeClock(seed=seed), length)
    assert re.fullmatch(r"[a-hjkmnp-tv-z][0-9a-hjkmnp-tv-z]*", made)
    assert len(made) == length


@pytest.mark.parametrize("byte", [0, 255])
def test_short_id_has_its_form_even_if_all_random_bytes_are_equal(byte: int) -> None:
    assert re.fullmatch(r"[a-z][0-9a-z]{15}", short_id(Saturated(0, byte)))


def test_short_ids_do_not_repeat() -> None:
    clock = FakeClock()
    assert len({short_id(clock, 12) for _ in range(2_000)}) == 2_000


def test_every_character_of_a_short_id_varies() -> None:
    clock = FakeClock()
    made = [short_id(clock) for _ in range(2_000)]
    assert [len({m[i] for m in made}) for i in range(16)] == [22] + [32] * 15


def test_derived_id_is_pinned() -> None:
    assert derived_id("hook", "abc") == "721r713r0m4y363072gr656z5k"


@given(st.lists(st.text()), st.lists(st.text()))
def test_derived_ids_differ_exactly_when_their_parts_do(one: list[str], two: list[str]) -> None:
    assert (derived_id(*one) == derived_id(*two)) == (one == two)


def test_derived_id_depends_on_where_one_part_ends() -> None:
    assert derived_id("ab", "c") != derived_id("a", "bc") != derived_id("abc")


def test_derived_id_has_the_shape_of_an_event_id_whatever_the_text() -> None:
    assert ID.fullmatch(derived_id("\udcff", "\0", ""))
    assert ID.fullmatch(derived_id())


# --- times as text -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (NOW, "2026-11-15T21:00:00Z"),
        (NOW + 999, "2026-11-15T21:00:00Z"),
        (-1, "1969-12-31T23:59:59Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59Z"),
        (253_402_300_800_000, "+10000-01-01T00:00:00Z"),
        (-62_167_219_200_000, "0000-01-01T00:00:00Z"),
        (-62_167_219_200_001, "-0001-12-31T23:59:59Z"),
        (2**63 - 1, "+292278994-08-17T07:12:55Z"),
        (-(2**63), "-292275055-05-16T16:47:04Z"),
        (10**40, f"{10**40} ms"),
    ],
)
def test_iso_prints_any_time(ms: int, text: str) -> None:
    assert iso(ms) == text


def test_iso_shows_milliseconds_when_asked() -> None:
    assert iso(NOW + 7, millis=True) == "2026-11-15T21:00:00.007Z"
    assert iso(-1, millis=True) == "1969-12-31T23:59:59.999Z"


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_iso_time_is_parsed_back_to_the_same_milliseconds(ms: int) -> None:
    assert parse_time(iso(ms, millis=True), NOW) == ms


@given(st.integers(-(2**63), 2**63 - 1), st.booleans())
def test_iso_accepts_every_integer(ms: int, millis: bool) -> None:
    assert iso(ms, millis=millis).endswith("Z")


@pytest.mark.parametrize(
    ("delta", "text"),
    [
        (0, "just now"),
        (999, "just now"),
        (-999, "just now"),
        (SECOND, "1 second ago"),
        (59_999, "59 seconds ago"),
        (MINUTE, "1 minute ago"),
        (5 * MINUTE, "5 minutes ago"),
        (2 * HOUR, "2 hours ago"),
        (47 * HOUR, "1 day ago"),
        (364 * DAY, "364 days ago"),
        (800 * DAY, "2 years ago"),
        (-3 * MINUTE, "in the future by 3 minutes"),
        (-DAY, "in the future by 1 day"),
        (2**63, "292471208 years ago"),
    ],
)
def test_ago_names_the_largest_unit(delta: int, text: str) -> None:
    assert ago(delta) == text


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-11-15T21:00:00Z", NOW),
        ("2026-11-15t21:00:00z", NOW),
        ("2026-11-15T22:00:00+01:00", NOW),
        ("2026-11-15T21:00:00.250Z", NOW + 250),
        ("2026-11-15 21:00", NOW),
        ("  2026-11-15  ", NOW - 21 * HOUR),
        ("now", NOW),
        ("today", NOW - 21 * HOUR),
        ("Yesterday", NOW - 45 * HOUR),
        ("15m", NOW - 15 * MINUTE),
        ("15 m ago", NOW - 15 * MINUTE),
        ("2 hours ago", NOW - 2 * HOUR),
        ("1 hour ago", NOW - HOUR),
        ("1h30m", NOW - 90 * MINUTE),
        ("1 day 2 hours ago", NOW - 26 * HOUR),
        ("3d", NOW - 3 * DAY),
        ("2w", NOW - 14 * DAY),
        ("90s", NOW - 90 * SECOND),
        ("0s", NOW),
    ],
)
def test_parse_time_accepts_what_people_write(text: str, ms: int) -> None:
    assert parse_time(text, NOW) == ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "soon",
        "12",
        "-5m",
        "5 parsecs ago",
        "ago",
        "2026-13-01",
        "2026-02-30",
        "\0",
        "\udc80",
        "1h" * 40,
        "9" * 10 + "s",
        "9" * 5000,
        "١٥m",
        "５m",
        "5m5",
        "m",
        "tomorrow",
        "0000-01-01",
    ],
)
def test_invalid_time_is_refused_with_examples(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_time(text, NOW)
    assert "15m" in caught.value.hint
    assert len(str(caught.value)) < 500


def test_time_without_zone_is_local(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        assert parse_time("2026-11-15T22:00", NOW) == NOW
        assert parse_time("2026-07-01", NOW) == parse_time("2026-06-30T22:00Z", NOW)
        # The clocks went back in the night before: this yesterday had 25 hours.
        after = parse_time("2026-10-26T12:00Z", NOW)
        assert parse_time("yesterday", after) == parse_time("2026-10-24T22:00Z", NOW)
        assert parse_time("2026-11-15T21:00", NOW, naive="utc") == NOW
        assert parse_time("today", NOW, naive="utc") == NOW - 21 * HOUR
    time.tzset()


@given(st.text(max_size=70))
def test_parsing_any_text_as_a_time_returns_a_time_or_refuses(text: str) -> None:
    try:
        assert isinstance(parse_time(text, NOW), int)
    except InvalidInput:
        pass


@given(st.datetimes(timezones=st.just(UTC)))
def test_every_iso_time_with_a_zone_is_read_exactly(at: datetime) -> None:
    whole = at.replace(microsecond=0)
    assert parse_time(whole.isoformat(), NOW) == int(whole.timestamp()) * 1000
