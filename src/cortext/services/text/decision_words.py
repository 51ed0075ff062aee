"""The words that announce a decision, in one table for summaries, digests and decisions.

In English, German, French, Spanish, Japanese and Chinese.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

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
