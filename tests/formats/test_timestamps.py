"""Stamps: every spelling is read, and what replaces one looks like it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forestay.formats import timestamps

MOMENT = 1_736_416_845_123  # 2025-01-09T10:00:45.123Z

SPELLINGS = {
    "2025-01-09T10:00:45.123Z": MOMENT,
    "2025-01-09T10:00:45Z": MOMENT - 123,
    "2025-01-09T10:00:45z": MOMENT - 123,
    "2025-01-09 10:00:45Z": MOMENT - 123,
    "2025-01-09T10:00:45,123Z": MOMENT,
    "2025-01-09T10:00:45.123456Z": MOMENT,
    "2025-01-09T10:00:45.123456789+00:00": MOMENT,
    "2025-01-09T04:00:45.123-06:00": MOMENT,
    "2025-01-09T15:30:45.123+0530": MOMENT,
    "1969-12-31T23:59:59.500Z": -500,
}


@pytest.fixture
def far_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("text", SPELLINGS)
def test_timestamp_is_read_in_every_spelling(text: str) -> None:
    assert timestamps.read(text) == SPELLINGS[text]


@pytest.mark.parametrize("text", SPELLINGS)
def test_replaced_timestamp_retains_its_style(text: str) -> None:
    moment = timestamps.read(text)
    assert moment is not None
    again = timestamps.write(moment, text)
    assert len(again) == len(text)
    assert timestamps.read(again) == moment
    if len(text.partition(".")[2]) < 6 or "." not in text:
        assert again == text


@pytest.mark.parametrize(
    "junk",
    [
        "", "now", "2025-01-09", "2025-13-09T10:00:45Z", "2025-02-30T10:00:45Z", None, 5, True, [],
        "2025-01-09T25:00:45Z", "2025-01-09T10:00:60Z", "2025-01-09T10:00:45+99:99",
        "2025-01-09T10:00:45Z\n", " 2025-01-09T10:00:45Z", "٢٠٢٥-01-09T10:00:45Z",
        "0000-01-01T00:00:00Z", "{ISO8601}",
    ],
)  # fmt: skip
def test_anything_but_a_timestamp_reads_as_none(junk: Any) -> None:
    assert timestamps.read(junk) is None
    assert not timestamps.is_naive(junk)
    assert timestamps.write(MOMENT, junk) == "2025-01-09T10:00:45Z"


def test_new_timestamp_has_seconds_or_milliseconds_and_z() -> None:
    assert timestamps.write(MOMENT) == "2025-01-09T10:00:45Z"
    assert timestamps.write(MOMENT, milliseconds=True) == "2025-01-09T10:00:45.123Z"


def test_timestamp_without_a_zone_is_local_or_utc_as_requested(far_zone: None) -> None:
    assert timestamps.is_naive("2025-01-09T10:00:45")
    assert timestamps.read("2025-01-09T10:00:45", "utc") == MOMENT - 123
    assert timestamps.read("2025-01-09T15:30:45") == MOMENT - 123
    assert timestamps.write(MOMENT, "2020-01-01T00:00:00", naive="utc") == "2025-01-09T10:00:45"
    assert timestamps.write(MOMENT, "2020-01-01 00:00:00.5") == "2025-01-09 15:30:45.1"


def test_timestamp_without_seconds_is_read() -> None:
    assert timestamps.read("2025-01-09T10:00Z") == MOMENT - 45_123


@given(st.integers(-(10**15), 10**15), st.sampled_from([*SPELLINGS, "2020-01-01T00:00:00"]))
def test_written_timestamp_reads_as_the_same_time(moment: int, style: str) -> None:
    text = timestamps.write(moment, style, naive="utc")
    found = timestamps.read(text, "utc")
    assert found is not None
    if -62_000_000_000_000 < moment < 253_000_000_000_000:
        assert 0 <= moment - found < 1000
        assert timestamps.write(found, text, naive="utc") == text


@given(st.text(max_size=40))
def test_any_text_reads_as_a_time_or_none(text: str) -> None:
    moment = timestamps.read(text)
    assert moment is None or timestamps.read(timestamps.write(moment, text)) is not None
