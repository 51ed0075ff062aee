"""What was decided: the words that announce a decision, and the sentences that state one about a topic.

No model is used. The words are in one table for summaries, digests and decisions: in English, German, French,
Spanish, Japanese and Chinese. Each decision is quoted verbatim, with its message and its time, so that it can be
checked.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

import msgspec

from cortext.index.search.words import STOP, WORD, function_words
from cortext.model.message import ASSISTANT, USER, Message
from cortext.model.wording import clip
from cortext.services.text.sentences import sentences

# The start of a word or phrase → the pattern that says that something was decided. Without a pattern it only sounds
# like a decision (a rule, a plan, advice): enough for a list of findings, not for "this was decided".
_PHRASES: dict[str, str] = {
    # English
    "decid": r"(?<!to )(?<!be )decided",
    "decision:": "decision:",
    "decision is:": "decision is:",
    "agreed": "agreed",
    "settled": "settled",
    "going with": "going with",
    "go with": r"(?:i'll|we'll|let's|we) go with",
    "we keep": "we keep",
    "we drop": "we drop",
    "chose": "chosen?",
    "leaning": "leaning",
    "convinced": "convinced",
    "conclu": r"conclu(?:ded|sion)",
    "root cause": "root cause",
    "turns out": "turns out",
    "turned out": "turned out",
    "fixed": r"(?:is|are|was|now|been) fixed",
    "works now": "works now",
    "we'll": "",
    "we will": "",
    "let's": "",
    "instead of": "",
    "must": "",
    "never": "",
    "always": "",
    "use ": "",
    # German
    "entschied": "entschieden",
    "entscheiden uns": "entscheiden uns",
    "beschlossen": "beschlossen",
    "vereinbart": "vereinbart",
    "einigen uns": "einigen uns",
    "geeinigt": "geeinigt",
    "nehmen wir": "nehmen wir",
    "machen wir": "machen wir",
    "ursache": "ursache",
    "behoben": "behoben",
    "entschloss": "",
    "statt ": "",
    # French
    "décid": "décidé",
    "convenu": "convenu",
    "choisi": "choisi",
    # Spanish
    "decidi": r"decidi(?:do|mos)",
    "acordamos": "acordamos",
    "elegimos": "elegimos",
}
# In scripts without spaces there are no word starts, so these match anywhere.
_CHARACTERS = {
    **{phrase: phrase for phrase in ("決定", "決め", "決ま", "采用", "採用", "决定", "同意")},
    "原因": "原因[は是]",
}

STEMS = tuple(_PHRASES)
CHARACTERS = tuple(_CHARACTERS)
DECIDING = tuple(stem for stem, pattern in (_PHRASES | _CHARACTERS).items() if pattern)
_DECIDED = re.compile(
    rf"\b(?:{'|'.join(filter(None, _PHRASES.values()))})(?!\w)|{'|'.join(_CHARACTERS.values())}", re.IGNORECASE
)
_NEGATED = re.compile(
    r"\b(?:not|nobody|no one|never|nothing|kein\w*|nicht|niemand|nie)\b|n't\b|[没不未]", re.IGNORECASE
)

NEAR = 3  # messages between a match of the search and a decision that belongs to it
LONGEST = 400  # characters of one decision with its reason
SHORT = 40  # a decision of fewer characters ("Agreed.") is shown with what it answers
_QUESTION = ("?", "？")
_REASON = re.compile(
    r"\b(?:because|since|so that|the reason|due to|otherwise|weil|damit|sonst|parce que|porque)\b|因为|因為|ので|ため",
    re.IGNORECASE,
)


ASKS_USER = re.compile(r"ask_?user|askuser|question|elicit", re.IGNORECASE)  # a call with which a model asks the user
# What settles a question if the sentence names its subject: "we'll use the disk", "disk it is".
_CHOICE = re.compile(
    r"\b(?:we'll|we’ll|we will|i'll|i’ll|let's|let’s)\s+(?:use|take|keep|drop|stay with|stick to)\b"
    r"|\w\s+it is\b\s*(?:[.!]|$)",
    re.IGNORECASE,
)


def sounds_decided(text: str, stems: Sequence[str] = STEMS, characters: Sequence[str] = CHARACTERS) -> bool:
    """Whether the text has any of the words. (Not a regular expression, which would take ten times as long.)"""
    lowered = text.lower()
    for stem in stems:
        offset = lowered.find(stem)
        while offset > 0 and lowered[offset - 1].isalnum():  # only at the start of a word
            offset = lowered.find(stem, offset + 1)
        if offset >= 0:
            return True
    return any(phrase in lowered for phrase in characters)


def may_decide(text: str) -> bool:
    """Whether any sentence of the text may state a decision: a quick test before each sentence is judged."""
    return _DECIDED.search(text) is not None


def states_decision(sentence: str) -> bool:
    """Whether the sentence says that something was decided, and does not deny it."""
    found = _DECIDED.search(sentence)
    return found is not None and not _NEGATED.search(sentence, max(0, found.start() - 24), found.start())


def chooses(sentence: str) -> bool:
    """Whether the sentence chooses something by its name; said by the user, that is a decision."""
    return _CHOICE.search(sentence) is not None and not sentence.endswith(_QUESTION)


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
