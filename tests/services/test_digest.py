"""The digest of earlier messages finds every decision, file and name within its limits."""

from __future__ import annotations

import pytest

from cortext.model.message import Message
from cortext.services.text.decision_words import CHARACTERS, STEMS, sounds_decided, states_decision
from cortext.services.text.digest import DECISIONS_IN, LONGEST, NAMES_IN, digest

pytestmark = pytest.mark.req("SESS-003c")


def _messages(count: int) -> list[Message]:
    return [Message(role="user", content=f"number {number} of the messages") for number in range(count)]


@pytest.mark.parametrize("back", [1, NAMES_IN, NAMES_IN + 1, DECISIONS_IN])
@pytest.mark.parametrize("hint", [*STEMS, *CHARACTERS])
def test_every_decision_word_is_found_in_the_newest_messages(hint: str, back: int) -> None:
    messages = _messages(DECISIONS_IN + 20)
    text = f"The plan: {hint.title()}sqlite for the cache, not redis."
    messages[-back].content = text
    assert sounds_decided(text)
    assert digest(messages).decisions == [text]


def test_decisions_in_older_messages_are_left_out() -> None:
    messages = _messages(DECISIONS_IN + 20)
    messages[-DECISIONS_IN - 1].content = "We decided to use sqlite for the cache."
    assert digest(messages).decisions == []


@pytest.mark.parametrize("before", [LONGEST - 20, LONGEST - 9, LONGEST - 6, LONGEST - 1, LONGEST, LONGEST + 5_000])
def test_a_decision_far_down_in_a_long_message_is_found(before: int) -> None:
    lines = "a line of the log, nothing in it\n" * (before // 33 + 1)
    long = lines[: before - 1] + "\nBeschlossen: sqlite for the cache."
    assert digest([*_messages(3), Message(role="user", content=long)]).decisions == [
        "Beschlossen: sqlite for the cache."
    ]


def test_names_are_sorted_by_frequency_then_by_first_use() -> None:
    texts = ["first_name second_name", "`third name` second_name", "fourthName `third name` second_name"]
    messages = [Message(role="assistant", content=text) for text in texts]
    assert digest(messages).identifiers == ["second_name", "third name", "first_name", "fourthName"]
    assert digest(messages, names=2).identifiers == ["second_name", "third name"]


def test_code_and_tables_are_not_decisions() -> None:
    text = "A look:\n```yaml\ncursor: opaque  # never an offset, always text\n```\n| use sqlite | always | never |\n"
    messages = [Message(role="assistant", content=f"{text}So we will take sqlite for the cache.")]
    assert digest(messages).decisions == ["So we will take sqlite for the cache."]


@pytest.mark.parametrize(
    ("sentence", "decided", "sounds"),
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
def test_a_decision_differs_from_what_only_sounds_like_one(sentence: str, decided: bool, sounds: bool) -> None:
    assert (states_decision(sentence), sounds_decided(sentence)) == (decided, sounds)
