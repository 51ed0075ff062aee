"""What was decided about a topic: the sentences that state a decision, found without a model.

Each is quoted verbatim, with its message and its time, so that it can be checked.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

import msgspec

from cortext.index.search.words import STOP, WORD, function_words
from cortext.model.message import ASSISTANT, USER, Message
from cortext.services.text.clip import clip
from cortext.services.text.decision_words import may_decide, sounds_decided, states_decision
from cortext.services.text.sentences import sentences

NEAR = 3  # messages between a match of the search and a decision that belongs to it
LONGEST = 400  # characters of one decision with its reason
SHORT = 40  # a decision of fewer characters ("Agreed.") is shown with what it answers
_QUESTION = ("?", "？")
_REASON = re.compile(
    r"\b(?:because|since|so that|the reason|due to|otherwise|weil|damit|sonst|parce que|porque)\b|因为|因為|ので|ため",
    re.IGNORECASE,
)


# What settles a question if the sentence names its subject: "we'll use the disk", "disk it is".
_CHOICE = re.compile(
    r"\b(?:we'll|we’ll|we will|i'll|i’ll|let's|let’s)\s+(?:use|take|keep|drop|stay with|stick to)\b"
    r"|\w\s+it is\b\s*(?:[.!]|$)",
    re.IGNORECASE,
)


class Decision(msgspec.Struct, kw_only=True):
    """One sentence that states a decision; `score` says how much it is about the topic."""

    seq: int
    role: str
    timestamp: str
    text: str
    score: float


def topic_words(topic: str) -> frozenset[str]:
    """Return the significant words of a topic as prefixes: `decisions` also matches `decision`, `retries` `retry`."""
    words = WORD.findall(topic[:2000].casefold())
    empty = STOP | function_words(words)
    return frozenset(_prefix(word) for word in words if word not in empty)


def _prefix(word: str) -> str:
    return word[: max(4, len(word) - (3 if word.endswith("ies") else 2))]


def decided_share(text: str, words: Collection[str]) -> float:
    """Return how much of a topic is in the sentence of this text that decides it, from 0 to 1; 0 if none does.

    A short sentence ("Agreed.") is about what the sentence before it says.
    """
    if not may_decide(text) and not _CHOICE.search(text):
        return 0.0
    best, before = 0.0, ""
    for sentence in sentences(text):
        if (states_decision(sentence) or _CHOICE.search(sentence)) and not sentence.endswith(_QUESTION):
            about = f"{before} {sentence}" if len(sentence) < SHORT else sentence
            best = max(best, _relevance(about, words))
        before = sentence
    return best


def decisions_in(
    messages: Iterable[Message], words: Collection[str], matched: Collection[int], title: str = ""
) -> list[Decision]:
    """Return the decisions in these messages that are about the words, or near a match of the search.

    If the session's title is about the words, every decision in it counts as near.
    """
    title_matches = _relevance(title, words) >= 0.5
    decisions: list[Decision] = []
    before = ""
    for message in messages:
        if message.role not in (USER, ASSISTANT) or message.aside or message.partial or not message.content:
            continue
        near = title_matches or any(abs(message.seq - seq) <= NEAR for seq in matched)
        found = sentences(message.content)
        for index, sentence in enumerate(found):
            if len(sentence) < 12 or sentence.endswith(_QUESTION):
                continue
            score = _score(sentence, _relevance(sentence, words), near)
            if score > 0:
                text = _with_reason(sentence, found[index + 1 : index + 2])
                if index == 0 and len(text) < SHORT and before:
                    text = f'{text} (in answer to: "{clip(before, 160)}")'
                decisions.append(
                    Decision(
                        seq=message.seq,
                        role=message.role,
                        timestamp=message.timestamp[:24],
                        text=text,
                        score=round(score, 4),
                    )
                )
        before = found[-1] if found else ""
    return decisions


def _score(sentence: str, relevance: float, near: bool) -> float:
    """A clear decision counts near a match; a sentence that only sounds like one must name the topic too."""
    if states_decision(sentence):
        return 1.0 + relevance if near or relevance > 0 else 0.0
    return relevance if near and relevance >= 0.5 and sounds_decided(sentence) else 0.0


def _relevance(sentence: str, words: Collection[str]) -> float:
    """Return the share of the topic's words that the sentence has."""
    if not words:
        return 0.0
    folded = sentence.casefold()
    own_words = WORD.findall(folded)
    # In scripts without spaces there are no word starts, so any position counts.
    hits = sum(
        any(own.startswith(word) for own in own_words) or (not word.isascii() and word in folded) for word in words
    )
    return hits / len(words)


def _with_reason(sentence: str, following: list[str]) -> str:
    """Return the sentence, and the next one if it gives the reason."""
    if following and not _REASON.search(sentence) and _REASON.search(following[0]):
        sentence = f"{sentence} {following[0]}"
    return clip(sentence, LONGEST)
