"""Ages as text, for one timestamp and for many: the same words."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from cortext.model import clock

AT = 1_700_000_000.0


@given(st.integers(0, 60 * 365 * 86_400))
@example(0)
@example(60)
@example(86_400)
@example(2 * 86_400)
@example(7 * 86_400)
@example(30 * 86_400)
@example(365 * 86_400)
def test_the_fast_lookup_agrees_with_the_slow_one(age: int) -> None:
    moment = clock.from_epoch(AT - age)
    assert clock.Ago(AT)(moment) == clock.ago(moment, AT)


def test_foreign_timestamps_are_accepted() -> None:
    assert clock.Ago(AT)("not a time") == "unknown"
    assert clock.Ago(AT)("2023-11-14T23:13:20+01:00") == clock.ago("2023-11-14T22:13:20Z", AT) == "just now"


OURS = st.integers(0, 3 * 365 * 86_400).map(lambda age: clock.from_epoch(AT - age))
SHORT = OURS.map(lambda moment: moment[:19] + "Z")
ODD = st.sampled_from(
    ["not a time", "", "2023-11-14T23:13:20+01:00", "2023-11-14T22:13:20.12345678", "1200-01-01T00:00:00Z"]
)
BORDERS = st.sampled_from(
    [clock.from_epoch(AT - age) for age in (0, 59, 60, 61, 3600, 86_400, 172_800, 604_800, 2_592_000, 31_536_000)]
)


@given(
    st.one_of(*(st.lists(kind) for kind in (OURS, SHORT, BORDERS, OURS | SHORT, OURS | ODD, SHORT | ODD, ODD))),
    st.booleans(),
)
def test_a_whole_list_has_the_same_words_as_each_alone(moments: list[str], newest_first: bool) -> None:
    if newest_first:
        moments.sort(reverse=True)
    ago = clock.Ago(AT)
    assert ago.of_all(moments) == [ago(moment) for moment in moments]
