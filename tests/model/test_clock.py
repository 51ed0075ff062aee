"""Timestamps."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortext.model import clock
from cortext.testing.table import every_row

SPELLING = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
NOW = 1_763_200_000.0
STAMP = "2026-02-28T23:59:58.123Z"


@pytest.mark.req("STORE-08")
def test_now_is_utc_with_milliseconds_and_a_z() -> None:
    before = datetime.now(UTC).timestamp()
    text = clock.now()
    assert SPELLING.fullmatch(text)
    seconds = clock.to_epoch(text)
    assert seconds is not None and before - 1 <= seconds <= datetime.now(UTC).timestamp() + 1


@pytest.mark.req("STORE-08")
@every_row(
    ("seconds", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (0.001, "1970-01-01T00:00:00.001Z"),
        (0.9996, "1970-01-01T00:00:01.000Z"),
        (-0.5, "1969-12-31T23:59:59.500Z"),
        (1_763_200_000.123, "2025-11-15T09:46:40.123Z"),
        (951_782_400, "2000-02-29T00:00:00.000Z"),
        (-62_135_596_800, "0001-01-01T00:00:00.000Z"),
        (253_402_300_799, "9999-12-31T23:59:59.000Z"),
    ],
)
def test_seconds_become_a_timestamp(seconds: float, text: str) -> None:
    assert clock.from_epoch(seconds) == text


@pytest.mark.req("STORE-08")
@given(st.integers(min_value=-62_135_596_800_000, max_value=253_402_300_799_999))
def test_every_millisecond_survives_a_round_trip(millis: int) -> None:
    text = clock.from_epoch(millis / 1000)
    assert SPELLING.fullmatch(text)
    back = clock.to_epoch(text)
    assert back is not None and round(back * 1000) == millis
    assert clock.normalise(text) == text
    assert clock.normalise(text.replace("Z", "+00:00")) == text


@pytest.mark.req("STORE-08")
@given(st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(9000, 1, 1)))
def test_timestamps_sort_as_text_in_order_of_time(moment: datetime) -> None:
    first = clock.from_epoch(moment.replace(tzinfo=UTC).timestamp())
    later = clock.from_epoch(moment.replace(tzinfo=UTC).timestamp() + 0.002)
    assert first < later


@pytest.mark.req("STORE-08")
@every_row(
    ("given_text", "expected"),
    [
        ("2025-11-22T10:30:00Z", "2025-11-22T10:30:00Z"),
        ("2025-11-22T10:30:00.123Z", "2025-11-22T10:30:00.123Z"),
        ("2025-11-22T10:30:00.123456Z", "2025-11-22T10:30:00.123Z"),
        ("2025-11-22T10:30:00.123456789Z", "2025-11-22T10:30:00.123Z"),
        ("2025-11-22T10:30:00.123+00:00", "2025-11-22T10:30:00.123Z"),
        ("2025-11-22T12:30:00+02:00", "2025-11-22T10:30:00.000Z"),
        ("2025-11-22T00:30:00-11:30", "2025-11-22T12:00:00.000Z"),
        ("2025-11-22T10:30:00", "2025-11-22T10:30:00.000Z"),
        ("2025-11-22 10:30:00Z", "2025-11-22T10:30:00.000Z"),
        ("20251122T103000.500Z", "2025-11-22T10:30:00.500Z"),
        ("2025-W47-6T10:30:00Z", "2025-11-22T10:30:00.000Z"),
        ("2025-11-22", "2025-11-22T00:00:00.000Z"),
        ("", ""),
        ("yesterday", ""),
        ("2025-02-30T10:30:00Z", ""),
        ("2025-11-22T25:30:00Z", ""),
        ("2025-11-22T10:30:00Z\n", ""),
        ("1763200000", ""),
        ("\ud800", ""),
        ("0001-01-01T00:00:00+14:00", ""),
    ],
)
def test_every_timestamp_format_is_normalised(given_text: str, expected: str) -> None:
    assert clock.normalise(given_text) == expected


@every_row(
    ("seconds", "words"),
    [
        (-100, "just now"), (0, "just now"), (59, "just now"), (60, "1 minute ago"), (119, "1 minute ago"),
        (120, "2 minutes ago"), (3_599, "59 minutes ago"), (3_600, "1 hour ago"), (7_200, "2 hours ago"),
        (86_399, "23 hours ago"), (86_400, "yesterday"), (2 * 86_400 - 1, "yesterday"), (2 * 86_400, "2 days ago"),
        (7 * 86_400, "1 week ago"), (21 * 86_400, "3 weeks ago"), (30 * 86_400, "1 month ago"),
        (364 * 86_400, "12 months ago"), (365 * 86_400, "1 year ago"), (800 * 86_400, "2 years ago"),
    ],
)  # fmt: skip
def test_an_age_is_put_into_words(seconds: int, words: str) -> None:
    assert clock.ago(clock.from_epoch(NOW - seconds), at=NOW) == words


def test_an_invalid_timestamp_is_unknown() -> None:
    assert clock.ago("soon") == "unknown"


@given(
    st.builds(
        lambda start, inserted, more: f"{STAMP[:start]}{inserted}{STAMP[start + len(inserted) + more :]}",
        st.integers(0, 23),
        st.text("0123456789-:.,+TWZ ٣", max_size=3),
        st.integers(-1, 1),
    )
)
def test_only_our_own_format_is_left_unchanged(text: str) -> None:
    """However a timestamp is misspelled, what is left unchanged has our format and is valid."""
    kept = clock.normalise(text)
    ours = re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{3})?Z", text)
    assert (kept == text and text != "") == (ours is not None and clock.to_epoch(text) is not None)
