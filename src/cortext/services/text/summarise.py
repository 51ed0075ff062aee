"""Summary and where it stopped, from the words of the talk itself, without a model.

The summary is a choice of sentences, word for word: decisions and what is still open first, then what covers
most of the rare words that are not yet covered (measured: as good as a model's session summary at keeping
what is asked for later, and free). Pure and deterministic; the work is bounded, however long the talk.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from cortext.model import tokens
from cortext.model.message import ASSISTANT, USER, Message, thread
from cortext.services.text.decision_words import SETTLING, has_settling, settles, sounds_decided
from cortext.services.text.digest import clip
from cortext.services.text.sentences import COMMAND, is_cjk, sentences, terms, words_of

_TEXT = 100_000  # so many characters are read, shared among the messages
_MESSAGES = 400  # so many are read whole: the first, the newest, those that decide, and some between
_LONGEST = 16_000  # characters of either end of a message, more than are ever read of it
ENDING = 200  # the newest messages that tell where it stopped
_FIXED = 15  # tokens that every sentence is taken to cost beside its own: few whole ones, not many scraps
_NAME = re.compile(r"`[^`]+`|\b\w+(?:_\w+)+\b|\b[a-z]+[A-Z]\w+|(?<=[\w,;:] )[A-ZÄÖÜ]\w+")
_NUMBER = re.compile(r"\d")
_QUESTION = ("?", "？")
_NEXT = re.compile(
    r"\b(?:next(?: time| step| up| is|:)|still (?:open|to|need|missing|waiting)|to-?do|remaining|left (?:open|to do)"
    r"|waiting for|(?:i|we) need|need from you|come back|tomorrow|before (?:merging|production|anything)|uncommitted"
    r"|blocked|nächste[nrs]?|noch offen|offen ist|bleibt|fehlt noch|prochaine|reste à|falta|pendiente)"
    r"|次は|次回|残り|下一步|接下来|还需",
    re.IGNORECASE,
)


class _Sentence(msgspec.Struct):
    text: str
    place: int
    message: int
    role: str
    words: frozenset[str]
    size: int
    worth: float = 1.0
    decides: bool = False


def summarise(messages: Iterable[Message], *, budget: int = 165) -> str:
    """What was decided, what is open and what it was about, in the words of the talk: about `budget` tokens.

    The messages are gone through twice, and few of them are held at a time.
    """
    talk = _selected(messages)
    read = _read(talk)
    if not read:
        return ""
    weights = _weights(read)
    statements = [s for s in read if not s.text.endswith(_QUESTION)]
    covered: set[str] = set()
    open_ask = _open_ask(talk, read)
    if open_ask and open_ask.size > budget // 3:
        open_ask = None
    room = budget - (open_ask.size if open_ask else 0)
    decisions = _cover([s for s in statements if s.decides], weights, covered, min(room, budget * 45 // 100))
    room -= sum(s.size for s in decisions)
    chosen = set(map(id, decisions))
    others = _cover([s for s in statements if id(s) not in chosen and s is not open_ask], weights, covered, room)
    in_order = [*decisions, *([open_ask] if open_ask else []), *others]
    return _joined([s.text for s in in_order]) or clip(
        read[0].text, max(budget, 8) * (3 if read[0].text.isascii() else 1)
    )


def stopping_point(messages: Sequence[Message]) -> str:
    """One or two sentences on where things stopped: what the user last asked if nobody answered, else how the
    last answer ended, with the question that it left open."""
    talk = list(_talk(messages[-ENDING:]))
    for role, text in reversed(talk):
        found = [s for s in sentences(text) if len(terms(s)) >= 2] or (sentences(text) if len(talk) == 1 else [])
        if not found:
            continue
        asked = [s for s in found if s.endswith(_QUESTION)]
        if role == USER:
            return _joined([clip(s) for s in (asked[-1:] or found[:2])])
        waits = asked[-1:] if asked and asked[-1] in found[-3:] else []
        told = [s for s in found if not s.endswith((*_QUESTION, ":", "："))]
        told.sort(key=lambda s: 2 * bool(_NEXT.search(s)) + settles(s) + found.index(s) / len(found))
        best = told[-1:] if waits else told[-2:]
        return _joined([clip(s) for s in sorted({*best, *waits}, key=found.index)])
    return ""


def _talk(messages: Iterable[Message]) -> Iterator[tuple[str, str]]:
    """Who said what, without tools, side talk, cut replies and the names of commands.

    What is no sequence is a thread that is read from a store as it is asked for.
    """
    for message in thread(messages) if isinstance(messages, Sequence) else messages:
        if message.role in (USER, ASSISTANT):
            text = words_of(message)
            if text := COMMAND.sub("", text) if message.role == USER else text:
                yield message.role, text


def _selected(messages: Iterable[Message]) -> dict[int, tuple[str, str]]:
    """What is read, by its place in the talk: all of a talk of ordinary length; of a long one the first messages, the
    newest, those in which something was settled, and some of the rest."""
    quarter = _MESSAGES // 4
    settling = {word: deque[int](maxlen=quarter) for word in SETTLING}
    beginning: list[tuple[str, str]] = []
    count = 0
    for role, text in _talk(messages):
        if count < _MESSAGES:
            beginning.append((role, _ends(text)))
        head = text[:400].lower()
        for word, places in settling.items():
            if word in head:
                places.extend([count] * head.count(word))
        count += 1
    if count <= _MESSAGES:
        return dict(enumerate(beginning))
    settled = sorted({place for places in settling.values() for place in places})
    between = range(0, count, max(1, count // quarter))
    chosen = {*range(10), *range(count - quarter, count), *settled[-2 * quarter :], *between}
    return {place: (role, _ends(text)) for place, (role, text) in enumerate(_talk(messages)) if place in chosen}


def _ends(text: str) -> str:
    """As much of a text as is ever read: its beginning and its end."""
    return text if len(text) <= 2 * _LONGEST else f"{text[:_LONGEST]}\n\n{text[-_LONGEST:]}"


def _read(talk: Mapping[int, tuple[str, str]]) -> list[_Sentence]:
    """The sentences of the talk that say something, with what each is worth."""
    found: list[_Sentence] = []
    seen: set[str] = set()
    most = min(8_000, max(400, _TEXT // max(1, len(talk))))
    for number, (role, text) in talk.items():
        if len(text) > 2 * most:
            text = f"{text[:most]}\n\n{text[-most:]}"
        # A whole message is asked first: most hold nothing of the kind, and their sentences need not be asked.
        settling, weighs = has_settling(text), sounds_decided(text) or bool(_NEXT.search(text))
        for sentence in sentences(text, most):
            words = terms(sentence)
            if len(words) < 3 or sentence in seen or sentence.endswith((":", "：")):
                continue
            seen.add(sentence)
            one = _Sentence(sentence, len(found), number, role, words, tokens.estimate(sentence) + 1)
            one.decides = settling and settles(sentence)
            one.worth = _worth(one, weighs, first=number == 0)
            found.append(one)
    return found


def _worth(sentence: _Sentence, weighs: bool, *, first: bool) -> float:
    """What makes a sentence worth more than its words: names, numbers, a decision, the user, the goal."""
    worth = 1.0 + 0.2 * min(len(_NAME.findall(sentence.text)), 4) + (0.4 if _NUMBER.search(sentence.text) else 0.0)
    if sentence.decides or (weighs and (sounds_decided(sentence.text) or _NEXT.search(sentence.text))):
        worth += 0.3
    if sentence.role == USER:
        worth *= 1.15
    return worth * 1.3 if first else worth


def _weights(read: Iterable[_Sentence]) -> dict[str, float]:
    """How rare each word is in this talk, by the messages that hold it."""
    holders: dict[str, set[int]] = {}
    for sentence in read:
        for word in sentence.words:
            holders.setdefault(word, set()).add(sentence.message)
    count = len({sentence.message for sentence in read})
    return {word: math.log((count + 1) / len(held)) + 0.1 for word, held in holders.items()}


def _cover(candidates: list[_Sentence], weights: dict[str, float], covered: set[str], room: int) -> list[_Sentence]:
    """The sentences that cover the most rare words for their length, one after the other, in the order of the talk."""
    chosen: list[_Sentence] = []
    gains = [(sum(weights[w] for w in s.words) * s.worth / (s.size + _FIXED), s) for s in candidates]
    gains.sort(key=lambda pair: (-pair[0], pair[1].place))
    while gains and room > 0:
        # What has been covered only ever lowers a gain: the first that keeps its place is the best.
        best, at = -1.0, -1
        for index, (bound, sentence) in enumerate(gains):
            if bound <= best:
                break
            gain = (
                sum(weights[w] for w in sentence.words if w not in covered) * sentence.worth / (sentence.size + _FIXED)
            )
            if sentence.size <= room and gain > best:
                best, at = gain, index
        if at < 0 or best <= 0:
            break
        sentence = gains.pop(at)[1]
        chosen.append(sentence)
        covered |= sentence.words
        room -= sentence.size
    return sorted(chosen, key=lambda s: s.place)


def _open_ask(talk: Mapping[int, tuple[str, str]], read: Sequence[_Sentence]) -> _Sentence | None:
    """What waits for an answer: the user's last words if nobody spoke after them, else the agent's question."""
    last = max(talk)
    ending = [s for s in read if s.message == last]
    questions = [s for s in ending if s.text.endswith(_QUESTION)]
    if talk[last][0] == USER:
        return (questions or ending)[-1] if ending else None
    return questions[-1] if questions and questions[-1] in ending[-3:] else None


def _joined(found: Iterable[str]) -> str:
    """Sentences as one text: what was written without a full stop gets one before the next begins."""
    out = ""
    for sentence in found:
        if out and out[-1] not in '.!?…。！？"”»':
            out += "." if out.isascii() or not is_cjk(out[-20:]) else "。"
        out += sentence if not out or out[-1] in "。！？" else f" {sentence}"
    return out
