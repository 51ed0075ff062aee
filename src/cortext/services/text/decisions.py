"""What was decided about a topic: the sentences that settled something, found by code in what was said.

No model is asked: each is word for word, with its session, its place and its time, so it can be checked.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

import msgspec

from cortext.index.search.words import STOP, WORD
from cortext.model.message import ASSISTANT, USER, Message
from cortext.services.text.decision_words import settles, sounds_decided
from cortext.services.text.digest import clip
from cortext.services.text.sentences import sentences

NEAR = 3  # messages between a place that was found by search and a decision that belongs to it
LONGEST = 400  # characters of one decision with its reason
SHORT = 40  # a decision of fewer characters ("Agreed.") needs what it answers
_QUESTION = ("?", "？")
_REASON = re.compile(
    r"\b(?:because|since|so that|the reason|due to|otherwise|weil|damit|sonst|parce que|porque)\b|因为|因為|ので|ため",
    re.IGNORECASE,
)


class Decision(msgspec.Struct, kw_only=True):
    """One sentence that settled something; `score` says how much it is about the topic."""

    seq: int
    role: str
    timestamp: str
    text: str
    score: float


def topic_words(topic: str) -> frozenset[str]:
    """The words of a topic that tell something, as beginnings: `decisions` stands for `decision` too."""
    words = [word for word in WORD.findall(topic[:2000].casefold()) if word not in STOP]
    return frozenset(word[: max(4, len(word) - 2)] for word in words)


def decisions_in(
    messages: Iterable[Message], words: Collection[str], found: Collection[int], title: str = ""
) -> list[Decision]:
    """The decisions in these messages that are about the words, or stand near a place that search found.

    Where the title of the session is about them, so is everything in it.
    """
    titled = _about(title, words) >= 0.5
    made: list[Decision] = []
    before = ""
    for message in messages:
        if message.role not in (USER, ASSISTANT) or message.aside or message.partial or not message.content:
            continue
        near = titled or any(abs(message.seq - place) <= NEAR for place in found)
        said = sentences(message.content)
        for place, sentence in enumerate(said):
            if len(sentence) < 12 or sentence.endswith(_QUESTION):
                continue
            score = _score(sentence, _about(sentence, words), near)
            if score > 0:
                text = _with_reason(sentence, said[place + 1 : place + 2])
                if place == 0 and len(text) < SHORT and before:
                    text = f'{text} (in answer to: "{clip(before, 160)}")'
                made.append(
                    Decision(
                        seq=message.seq,
                        role=message.role,
                        timestamp=message.timestamp[:24],
                        text=text,
                        score=round(score, 4),
                    )
                )
        before = said[-1] if said else ""
    return made


def _score(sentence: str, about: float, near: bool) -> float:
    """What clearly settles something counts near a find; what merely sounds like it must name the topic too."""
    if settles(sentence):
        return 1.0 + about if near or about > 0 else 0.0
    return about if near and about >= 0.5 and sounds_decided(sentence) else 0.0


def _about(sentence: str, words: Collection[str]) -> float:
    """The share of the topic's words that the sentence has."""
    if not words:
        return 0.0
    low = sentence.casefold()
    there = WORD.findall(low)
    # Scripts without blanks have no beginnings of words: there any place counts.
    hits = sum(any(one.startswith(word) for one in there) or (not word.isascii() and word in low) for word in words)
    return hits / len(words)


def _with_reason(sentence: str, following: list[str]) -> str:
    """The sentence, and the next one where that gives the reason."""
    if following and not _REASON.search(sentence) and _REASON.search(following[0]):
        sentence = f"{sentence} {following[0]}"
    return clip(sentence, LONGEST)
