"""Ids of sessions and of messages."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortext.errors import InvalidId
from cortext.model import ids
from cortext.testing.table import every_row

LEGAL = re.compile(r"\A[a-z0-9][a-z0-9_-]{0,95}\Z")


@pytest.mark.req("STORE-09")
@every_row("text", ["a", "0", "a-", "a_", "001-brainstorm-topic", "sess_abc123", "a" * 96, "con", "0--_"])
def test_a_legal_id_is_returned_unchanged(text: str) -> None:
    assert ids.check_id(text) == text


@pytest.mark.req("STORE-09")
@every_row(
    "text",
    ["", "A", "-a", "_a", "a.b", "a/b", "..", "a\n", "\na", "a\0", "é", "ａ", "а", "²", "٣", "a" * 97, " a", "a "],
)
def test_an_illegal_id_is_refused_with_a_short_printable_message(text: str) -> None:
    with pytest.raises(InvalidId) as caught:
        ids.check_id(text)
    assert caught.value.message.isascii() and caught.value.message.isprintable()
    assert len(caught.value.message) < 200 and caught.value.hint


@pytest.mark.req("STORE-09")
@pytest.mark.parametrize("value", [None, 5, b"abc", ["a"], object()])
def test_only_text_can_be_an_id(value: str) -> None:
    with pytest.raises(InvalidId):
        ids.check_id(value)


@pytest.mark.req("STORE-09")
@given(st.text(max_size=100))
def test_ids_follow_the_documented_rule(text: str) -> None:
    assert ids.is_id(text) is (LEGAL.match(text) is not None)


@pytest.mark.req("STORE-08")
def test_message_ids_are_unique_and_sort_by_creation_time() -> None:
    made = [ids.new_message_id() for _ in range(10_000)]
    assert len(set(made)) == len(made)
    assert all(re.fullmatch(r"[0-9a-f]{28}", text) for text in made)
    times = [text[:16] for text in made]
    assert times == sorted(times)


@pytest.mark.req("STORE-08")
def test_session_ids_are_unique_legal_and_unambiguous() -> None:
    made = {ids.new_session_id("sess_") for _ in range(10_000)}
    assert len(made) == 10_000
    assert all(ids.is_id(text) and re.fullmatch(r"sess_[0-9a-hjkmnp-tv-z]{10}", text) for text in made)


@pytest.mark.req("STORE-09")
def test_an_illegal_prefix_is_refused() -> None:
    with pytest.raises(InvalidId):
        ids.new_session_id("../")


@every_row(
    ("text", "expected"),
    [
        ("Café & API design", "cafe-api-design"),
        ("  REST vs. GraphQL?! ", "rest-vs-graphql"),
        ("../../etc/passwd", "etc-passwd"),
        ("ﬁne ½", "fine-12"),
        ("漢字", ""),
        ("Große Straße, STRAẞE", "grosse-strasse-strasse"),
        ("Ærø, Łódź, Đà Nẵng, Œuvre, Þór, kırmızı", "aero-lodz-da-nang-oeuvre-thor-kirmizi"),
        ("", ""),
        ("a" * 60, "a" * 48),
        ("one two three four five six seven eight nine ten", "one-two-three-four-five-six-seven-eight-nine-ten"),
        ("word " * 20, "-".join(["word"] * 9)),
    ],
)
def test_a_title_becomes_part_of_an_id(text: str, expected: str) -> None:
    assert ids.slug(text) == expected


@given(st.text(), st.integers(min_value=1, max_value=60))
def test_a_slug_is_empty_or_legal_and_never_too_long(text: str, longest: int) -> None:
    slug = ids.slug(text, longest)
    assert slug == "" or (ids.is_id(slug) and len(slug) <= longest)
