"""Title and summary of a conversation from the text itself, without a model.

The summary is made of the talk's own sentences, chosen greedily so that they cover its rarest words; questions
are left out, decisions, names and numbers count more. Code, tables and tool output are not sentences.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from cortext.model import tokens
from cortext.model.message import ASSISTANT, USER, Message

BUDGET = 165
NEWEST = 400  # messages that are looked at: enough for any summary, and the work stays bounded
LONGEST_TEXT = 6_000

_CODE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)
_SENTENCE = re.compile(r"(?<=[.!?…])\s+(?=[\"'(\[A-ZÀ-ÞА-Я0-9`*])|(?<=[。！？])|\n+")
_WORD = re.compile(r"[^\W_][\w'’-]*|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_DECIDED = re.compile(
    r"\b(?:decid\w*|agreed?|we(?:'ll| will| go)|go(?:ing)? with|settled?|chose|choose|conclu\w*|root cause|turns? out"
    r"|because|therefore|must|never|instead|fixed|next step|still open|todo|entschieden|deshalb|weil)\b",
    re.IGNORECASE,
)
_COMMAND = re.compile(r"^/(\S+)\s*(.*)$", re.DOTALL)
_LIST_MARK = re.compile(r"^\s*(?:[-*+>#|]+|\d+[.)])\s*")
_SMALL_TALK = re.compile(
    r"^(?:thanks?|thank you|ok(?:ay)?|great|sure|yes|no|hi|hello|perfect|nice|good)\b[^.]{0,20}$", re.IGNORECASE
)


class _Sentence(NamedTuple):
    text: str
    words: frozenset[str]
    weight: float
    place: int


def summarise(messages: Sequence[Message], *, budget: int = BUDGET) -> str:
    """The sentences that say most of what was said, in the order in which they were said."""
    sentences = _sentences(messages[-NEWEST:])
    if not sentences:
        return ""
    rarity = _rarity(sentences)
    chosen: list[_Sentence] = []
    covered: set[str] = set()
    left = budget
    rest = list(sentences)
    while rest:
        best = max(rest, key=lambda sentence: (_gain(sentence, covered, rarity), sentence.place))
        if _gain(best, covered, rarity) <= 0:
            break
        rest.remove(best)
        size = tokens.estimate(best.text) + 1
        if size > left:
            if left < 12:
                break
            continue
        chosen.append(best)
        covered |= best.words
        left -= size
    chosen.sort(key=lambda sentence: sentence.place)
    return " ".join(sentence.text for sentence in chosen)


def title(messages: Sequence[Message]) -> str:
    """A name for a conversation: the topic of its command, else the first dozen words that the user said."""
    for message in messages:
        if message.role != USER or message.aside or not message.content.strip():
            continue
        command = _COMMAND.match(message.content.strip())
        text = command.group(2) if command else message.content
        text = " ".join(_CODE.sub(" ", text).split())
        if not text or _SMALL_TALK.match(text):
            continue
        first = _SENTENCE.split(text)[0]
        words = first.split()
        short = " ".join(words[:12]).rstrip(".,;:!")
        return short if len(short) <= 80 else short[:79] + "…"
    return ""


def where_it_stopped(messages: Sequence[Message]) -> str:
    """One or two sentences on where things stand: the last decision, and what was said last."""
    sentences = _sentences(messages[-8:])
    if not sentences:
        return ""
    decided = [sentence for sentence in sentences if _DECIDED.search(sentence.text)]
    chosen = [decided[-1]] if decided else []
    if sentences[-1] not in chosen:
        chosen.append(sentences[-1])
    text = " ".join(sentence.text for sentence in sorted(chosen, key=lambda sentence: sentence.place))
    return text if len(text) <= 400 else text[:399] + "…"


def _sentences(messages: Iterable[Message]) -> list[_Sentence]:
    found: list[_Sentence] = []
    seen: set[str] = set()
    for message in messages:
        if message.role not in (USER, ASSISTANT) or message.aside or message.partial:
            continue
        text = _CODE.sub("\n", message.content[:LONGEST_TEXT])
        for raw in _SENTENCE.split(text):
            plain = " ".join(_LIST_MARK.sub("", raw).replace("**", "").split())
            words = _words(plain)
            if not _is_statement(plain, words) or plain in seen:
                continue
            seen.add(plain)
            found.append(_Sentence(plain, words, _weight(plain, message.role), len(found)))
    return found


def _is_statement(text: str, words: frozenset[str]) -> bool:
    """A sentence that tells something: not a question, a command, a row of a table, a greeting or a log line."""
    if text.endswith(("?", "？", ":")) or text.startswith(("/", "|", "$ ", "{", "<")) or len(text) > 400:
        return False
    letters = sum(character.isalpha() or character.isspace() for character in text)
    return len(words) >= 4 and letters >= 0.7 * len(text) and not _SMALL_TALK.match(text)


def _words(text: str) -> frozenset[str]:
    """The words of a sentence; of text without blanks, its pairs of characters."""
    found = [word.casefold() for word in _WORD.findall(text)]
    wide = _WIDE.findall(text)
    pairs = [first + second for first, second in pairwise(wide)]
    return frozenset(word for word in found if len(word) > 2) | frozenset(pairs)


def _weight(text: str, role: str) -> float:
    weight = 1.15 if role == USER else 1.0
    if _DECIDED.search(text):
        weight *= 1.6
    if re.search(r"\d", text) or re.search(r"(?<=[a-z,;] )[A-Z][a-z]+|`[^`]+`", text):
        weight *= 1.15
    return weight


def _rarity(sentences: Sequence[_Sentence]) -> dict[str, float]:
    """How much a word tells: the rarer in this conversation the more; one that occurs once is often noise."""
    counts: Counter[str] = Counter(word for sentence in sentences for word in sentence.words)
    total = len(sentences)
    return {word: math.log(1 + total / count) * (0.6 if count == 1 else 1.0) for word, count in counts.items()}


def _gain(sentence: _Sentence, covered: set[str], rarity: dict[str, float]) -> float:
    """What a sentence adds, for its length."""
    new = sum(rarity[word] for word in sentence.words if word not in covered)
    return sentence.weight * new / math.pow(8 + len(sentence.words), 0.7)
