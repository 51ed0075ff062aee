"""The words that announce a decision, and how much a text is about a topic.

No model is used. The words are in one table for summaries, digests and decisions: in English, German, French,
Spanish, Japanese and Chinese.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from cortext.index.search.words import STOP, WORD, function_words
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
NEGATED = re.compile(r"\b(?:not|nobody|no one|never|nothing|kein\w*|nicht|niemand|nie)\b|n't\b|[没不未]", re.IGNORECASE)

SHORT = 40  # a decision of fewer characters ("Agreed.") is shown with what it answers
QUESTION = ("?", "？")
# How the model announces its next step.
NEXT_STEP = re.compile(
    r"(?:now|next|first|then|so|ok(?:ay)?|good|great|perfect|let me|let's|i'll|i will|i'm going|i need to)\b",
    re.IGNORECASE,
)
ASKS_USER = re.compile(r"ask_?user|askuser|question|elicit", re.IGNORECASE)  # a call with which a model asks the user
# What settles a question if the sentence names its subject: "we'll use the disk", "disk it is".
_CHOICE = re.compile(
    r"\b(?:we'll|we’ll|we will|i'll|i’ll|let's|let’s)\s+(?:use|take|keep|drop|stay with|stick to)\b"
    r"|\w\s+it is\b\s*(?:[.!]|$)",
    re.IGNORECASE,
)


def any_of(*patterns: str) -> re.Pattern[str]:
    """Return a pattern that matches where one of these does, in upper or lower case."""
    return re.compile("|".join(patterns), re.IGNORECASE)


# ── what a sentence rejects ──────────────────────────────────────────────────────────────────────────

START = (
    r"^(?:(?:ok(?:ay)?|yes|no|well|so|and|but|now|next|then|please|good|great|gut|ja|nein|jetzt|nun|dann|bitte|also"
    r"|oui|non|alors)[,.! ]+)*"
)
# What is named: without an article, up to the next clause.
THING = (
    r"(?:(?:to )?(?:use|using|use of|have|having|keep(?:ing)?|go with|the|a|an|our|any|der|die|das|den|dem"
    r"|eine[mnrs]?|ein|le|la|les|un|une) )*(?P<thing>[^,.;:!?()\"“”—\s][^,;:!?()\"“”—]{0,60}?)"
    r"(?=\s+(?:for|because|since|as|in|on|at|so|when|while|and|but|to|from|with|now|any ?more|here|instead|rather"
    r"|für|weil|bei|im|statt|und|aber|sondern|entschieden|verworfen|pour|car|parce|dans|et|mais)\b"
    r"|\s*(?:[,;:!?()\"“”—]|\.(?:\s|$)|$))"
)
# The words before what is rejected, and those that must follow it.
_REJECTS = tuple(
    (any_of(rf"(?:{before})\s+{THING}"), any_of(after))
    for before, after in (
        (r"\b(?:instead of|rather than|as opposed to|in place of|(?:an)?statt|anstelle von)", ""),
        (r"\b(?:au lieu d[eu']|plutôt que|en vez de|en lugar de)", ""),
        (r"\b(?:decided against|no longer|stop using|get rid of|gegen)", ""),
        (r"\b(?:we|i)(?:'ve| have| had)? (?:rejected|ruled out|abandoned)", ""),
        (rf"(?:{START}|\b(?:we|i|let's|let’s|we'll|we will)\s+)(?:drop(?:ped)?|discard(?:ed)?)", ""),
        (rf"(?:{START}|\b(?:we|i) )(?:will not|won't|don't|do not) (?:want|need|use|take|keep)", ""),
        (r"\bnot", r"^,?\s+but\b"),
        (r"\b(?:nicht|kein\w*)", r"^,?\s+sondern\b"),
        (r"\bpas", r"^,?\s+mais\b"),
    )
)
OUTRIGHT = any_of(
    r"\b(?:we|i)(?:'ve| have| had)? (?:rejected|ruled out|discarded|dropped|abandoned)\b",
    r"\b(?P<thing>[\w.+#-]+) (?:was|is|were|are|wurde|ist) (?:rejected|ruled out|verworfen)(?= because| since| as"
    r"| in favou?r|[.!]|$)",
)


def rejected_in(sentence: str) -> str:
    """Return what a sentence names as not chosen, in its own words; empty if it names nothing."""
    for before, after in _REJECTS:
        match = before.search(sentence)
        if match and after.search(sentence[match.end("thing") :]):
            return match["thing"].strip()
    outright = OUTRIGHT.search(sentence)
    return (outright["thing"] or "").strip() if outright else ""


# ── what it decides ──────────────────────────────────────────────────────────────────────────────────


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
    return found is not None and not NEGATED.search(sentence, max(0, found.start() - 24), found.start())


def chooses(sentence: str) -> bool:
    """Whether the sentence chooses something by its name; said by the user, that is a decision."""
    return _CHOICE.search(sentence) is not None and not sentence.endswith(QUESTION)


def topic_words(topic: str) -> frozenset[str]:
    """Return the significant words of a topic as prefixes: `decisions` also matches `decision`, `retries` `retry`."""
    words = WORD.findall(topic[:2000].casefold())
    empty = STOP | function_words(words)
    return frozenset(prefix(word) for word in words if word not in empty)


def prefix(word: str) -> str:
    """Return the beginning of a word, which its other forms share."""
    return word[: max(4, len(word) - (3 if word.endswith("ies") else 2))]


def decided_share(text: str, words: Collection[str]) -> float:
    """Return how much of a topic is in the sentence of this text that decides it, from 0 to 1; 0 if none does.

    A short sentence ("Agreed.") is about what the sentence before it says.
    """
    if not may_decide(text) and not _CHOICE.search(text):
        return 0.0
    best, before = 0.0, ""
    for sentence in sentences(text):
        if (states_decision(sentence) or _CHOICE.search(sentence)) and not sentence.endswith(QUESTION):
            about = f"{before} {sentence}" if len(sentence) < SHORT else sentence
            best = max(best, relevance(about, words))
        before = sentence
    return best


def relevance(sentence: str, words: Collection[str]) -> float:
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
