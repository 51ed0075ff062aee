"""The facts of what was left out: found by a quick look at all words, and none of them missed by it."""

from __future__ import annotations

import pytest

from cortext.model.message import Message
from cortext.services.text.decision_words import CHARACTERS, STEMS, sounds_decided, states_decision
from cortext.services.text.digest import DECISIONS_IN, LONGEST, NAMES_IN, digest

pytestmark = pytest.mark.req("SESS-003c")


def _talk(count: int) -> list[Message]:
    return [Message(role="user", content=f"number {number} of the talk") for number in range(count)]


@pytest.mark.parametrize("back", [1, NAMES_IN, NAMES_IN + 1, DECISIONS_IN])
@pytest.mark.parametrize("hint", [*STEMS, *CHARACTERS])
def test_every_sign_of_a_decision_is_seen_as_far_back_as_it_counts(hint: str, back: int) -> None:
    talk = _talk(DECISIONS_IN + 20)
    said = f"The plan: {hint.title()}sqlite for the cache, not redis."
    talk[-back].content = said
    assert sounds_decided(said)
    assert digest(talk).decisions == [said]


def test_what_lies_further_back_does_not_count() -> None:
    talk = _talk(DECISIONS_IN + 20)
    talk[-DECISIONS_IN - 1].content = "We decided to use sqlite for the cache."
    assert digest(talk).decisions == []


@pytest.mark.parametrize("before", [LONGEST - 20, LONGEST - 9, LONGEST - 6, LONGEST - 1, LONGEST, LONGEST + 5_000])
def test_a_decision_far_down_in_a_long_message_is_seen(before: int) -> None:
    lines = "a line of the log, nothing in it\n" * (before // 33 + 1)
    long = lines[: before - 1] + "\nBeschlossen: sqlite for the cache."
    assert digest([*_talk(3), Message(role="user", content=long)]).decisions == ["Beschlossen: sqlite for the cache."]


def test_names_come_by_how_often_they_were_used_then_in_the_order_of_their_first_use() -> None:
    said = ["first_name second_name", "`third name` second_name", "fourthName `third name` second_name"]
    talk = [Message(role="assistant", content=text) for text in said]
    assert digest(talk).identifiers == ["second_name", "third name", "first_name", "fourthName"]
    assert digest(talk, names=2).identifiers == ["second_name", "third name"]


def test_code_and_tables_decide_nothing() -> None:
    said = "A look:\n```yaml\ncursor: opaque  # never an offset, always text\n```\n| use sqlite | always | never |\n"
    talk = [Message(role="assistant", content=f"{said}So we will take sqlite for the cache.")]
    assert digest(talk).decisions == ["So we will take sqlite for the cache."]


@pytest.mark.parametrize(
    ("sentence", "settled", "sounds"),
    [
        ("Decision: sqlite for the cache.", True, True),
        ("We decided to use sqlite.", True, True),
        ("Nothing was decided about the cache.", False, True),
        ("The cache must never be shared.", False, True),
        ("Dann nehmen wir sqlite.", True, True),
        ("キャッシュは sqlite に決定した。", True, True),
        ("The cache is a file.", False, False),
    ],
)
def test_what_settles_something_is_told_from_what_only_sounds_like_it(
    sentence: str, settled: bool, sounds: bool
) -> None:
    assert (states_decision(sentence), sounds_decided(sentence)) == (settled, sounds)
