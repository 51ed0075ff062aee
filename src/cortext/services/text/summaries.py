"""The title of a conversation, its summary and where it stopped, in its own words, without a model.

The title is taken from the first messages. The summary is a selection of sentences, verbatim: first decisions and what
is still open, then the sentences that cover most of the rare words that are not yet covered (measured: as good as a
model's summary at keeping what is asked for later, and free). Pure and deterministic; the work is bounded, however long
the conversation.
"""

from __future__ import annotations

import math
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

import msgspec

from cortext.model import tokens
from cortext.model.message import ASSISTANT, USER, Message, thread
from cortext.model.tokens import clip
from cortext.services.text.decisions import DECIDING, may_decide, sounds_decided, states_decision
from cortext.services.text.sentences import COMMAND, is_cjk, sentences, terms, text_of

MESSAGES_FOR_TITLE = 400  # messages that are read
LONGEST_PROMPT = 16_000  # characters of each
_SEPARATORS = re.compile(r"[_./:]")
_GREETING = re.compile(
    r"(?:hi|hey|hello|good (?:morning|afternoon|evening)|hallo|moin|guten (?:tag|morgen|abend)|bonjour|hola|yo"
    r"|ok(?:ay)?|yes|no|thanks?(?: you)?|go on|continue|weiter|test|ping)(?:[ ,]+\w+)?\W*",
    re.IGNORECASE,
)
_LEAD = re.compile(
    r"(?:(?:hi|hey|hello|hallo|ok(?:ay)?|so|please|bitte)[ ,!.:]+|(?:can|could|would|will) you (?:please )?"
    r"|i(?:'d| would) like (?:you )?to |i (?:want|need|have) (?:you )?to |(?:please )?help me (?:to )?|let'?s "
    r"|kannst du (?:bitte )?|ich (?:möchte|will) )+",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"\b(?:i want|i need|i'd like|need|help|how (?:do|can|to)|why|plan|find|review|fix|build|write|explain"
    r"|ich (?:möchte|will|brauche)|warum|wie)\b",
    re.IGNORECASE,
)

_TEXT = 100_000  # characters that are read, shared among the messages
_MESSAGES = 400  # messages that are read: the first, the newest, those with decisions, and some between
_LONGEST_END = 16_000  # characters of either end of a message that are held, more than are ever read
ENDING = 200  # newest messages that are read for the stopping point
_OVERHEAD = 15  # tokens added to the cost of every sentence, so that few long ones win over many short ones
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


def title(messages: Iterable[Message]) -> str:
    """Return what the user first asked for, in a dozen words at most."""
    asked = [message for message in islice(messages, MESSAGES_FOR_TITLE) if message.role == USER and not message.aside]
    prompts = [text[:LONGEST_PROMPT] for message in asked if (text := text_of(message))]
    fallback = ""
    for prompt in prompts[:20]:
        prompt, commands = COMMAND.subn("", prompt[:4000].strip())
        found = sentences(prompt)[:6]
        if commands and prompt and "\n" not in prompt and len(prompt) <= 80:
            return _short(prompt)
        fallback = fallback or _short(found[0] if found else prompt)
        if found and not _GREETING.fullmatch(" ".join(found)) and len(terms(" ".join(found))) >= 2:
            return _short(_most_relevant(found, prompts))
    return fallback or (_short(prompts[0]) if prompts else "")  # a command without arguments


def _most_relevant(found: Sequence[str], prompts: Sequence[str]) -> str:
    """Return the sentence with most of the words that the user repeats in the prompts."""
    counts: Counter[str] = Counter()
    for prompt in prompts[:60]:
        counts.update(terms(_SEPARATORS.sub(" ", prompt[:2000])))

    def score(index: int) -> float:
        words = terms(_SEPARATORS.sub(" ", found[index]))
        if not words:
            return 0.0
        relevance = sum(math.log1p(counts[w]) for w in words) / math.sqrt(len(words) + 4)
        return relevance * (2.2 if index == 0 else 1.0) * (1.25 if _ASKS.search(found[index]) else 1.0)

    return found[max(range(len(found)), key=lambda index: (score(index), -index))]


def _short(text: str, words: int = 12, longest: int = 72) -> str:
    """Return the text shortened to a title, at the end of a clause if there is one, else after so many words."""
    text = " ".join(text.split())
    rest = _LEAD.sub("", text, count=1) if _LEAD.match(text) else text
    text = rest if len(rest) >= 8 else text
    text = text[:1].upper() + text[1:] if text[:1].islower() and " " in text and "_" not in text.split()[0] else text
    if is_cjk(text):
        return text[: longest // 3].rstrip("。！？、，")
    kept = text.split(" ")
    if len(kept) > words or len(text) > longest:
        clause = re.match(r"[^,;:(–—]{16,}?(?=[,;:(–—] ?)", text)
        if clause and len(clause[0]) <= longest:
            text = clause[0]
        else:
            while kept and (len(kept) > words or len(" ".join(kept)) > longest - 1):
                kept.pop()
            text = (" ".join(kept) or text[: longest - 1]).rstrip(",;:(") + "…"
    return text.strip().rstrip(".!:,")


class _Sentence(msgspec.Struct):
    text: str
    index: int
    message: int
    role: str
    words: frozenset[str]
    size: int
    worth: float = 1.0
    decides: bool = False


def summarise(messages: Iterable[Message], *, budget: int = 165) -> str:
    """Return what was decided, what is open and what it was about, in at most `budget` tokens.

    The messages are iterated twice, and few of them are held in memory.
    """
    selected = _selected(messages)
    found = _sentences_of(selected)
    if not found:
        return ""
    weights = _weights(found)
    statements = [s for s in found if not s.text.endswith(_QUESTION)]
    covered: set[str] = set()
    request = _open_request(selected, found)
    if request and request.size > budget // 3:
        request = None
    room = budget - (request.size if request else 0)
    decisions = _cover([s for s in statements if s.decides], weights, covered, min(room, budget * 45 // 100))
    room -= sum(s.size for s in decisions)
    chosen = set(map(id, decisions))
    others = _cover([s for s in statements if id(s) not in chosen and s is not request], weights, covered, room)
    in_order = [*decisions, *([request] if request else []), *others]
    return _joined([s.text for s in in_order]) or clip(
        found[0].text, max(budget, 8) * (3 if found[0].text.isascii() else 1)
    )


def stopping_point(messages: Sequence[Message]) -> str:
    """Return one or two sentences on where the conversation stopped.

    The user's last request if it was not answered, else the end of the last answer with the question it left open.
    """
    texts = list(_texts(messages[-ENDING:]))
    for role, text in reversed(texts):
        found = [s for s in sentences(text) if len(terms(s)) >= 2] or (sentences(text) if len(texts) == 1 else [])
        if not found:
            continue
        questions = [s for s in found if s.endswith(_QUESTION)]
        if role == USER:
            return _joined([clip(s) for s in (questions[-1:] or found[:2])])
        open_question = questions[-1:] if questions and questions[-1] in found[-3:] else []
        statements = [s for s in found if not s.endswith((*_QUESTION, ":", "："))]
        statements.sort(key=lambda s: 2 * bool(_NEXT.search(s)) + states_decision(s) + found.index(s) / len(found))
        best = statements[-1:] if open_question else statements[-2:]
        return _joined([clip(s) for s in sorted({*best, *open_question}, key=found.index)])
    return ""


def _texts(messages: Iterable[Message]) -> Iterator[tuple[str, str]]:
    """Yield the role and text of each message, without tools, asides, partial replies and the names of commands.

    A sequence is reduced to its thread; any other iterable is a thread already, read lazily from a store.
    """
    for message in thread(messages) if isinstance(messages, Sequence) else messages:
        if message.role in (USER, ASSISTANT):
            text = text_of(message)
            if text := COMMAND.sub("", text) if message.role == USER else text:
                yield message.role, text


def _selected(messages: Iterable[Message]) -> dict[int, tuple[str, str]]:
    """Return the role and text of the messages to read, by their index.

    All of a conversation of ordinary length; of a long one the first, the newest, those with decisions, and some of the
    rest.
    """
    quarter = _MESSAGES // 4
    with_decisions = {word: deque[int](maxlen=quarter) for word in DECIDING}
    beginning: list[tuple[str, str]] = []
    count = 0
    for role, text in _texts(messages):
        if count < _MESSAGES:
            beginning.append((role, _ends(text)))
        head = text[:400].lower()
        for word, indexes in with_decisions.items():
            if word in head:
                indexes.extend([count] * head.count(word))
        count += 1
    if count <= _MESSAGES:
        return dict(enumerate(beginning))
    deciding = sorted({index for indexes in with_decisions.values() for index in indexes})
    between = range(0, count, max(1, count // quarter))
    chosen = {*range(10), *range(count - quarter, count), *deciding[-2 * quarter :], *between}
    return {index: (role, _ends(text)) for index, (role, text) in enumerate(_texts(messages)) if index in chosen}


def _ends(text: str) -> str:
    """Return the beginning and the end of a text: as much as is ever read of it."""
    return text if len(text) <= 2 * _LONGEST_END else f"{text[:_LONGEST_END]}\n\n{text[-_LONGEST_END:]}"


def _sentences_of(selected: Mapping[int, tuple[str, str]]) -> list[_Sentence]:
    """Return the significant sentences of these messages, with their weights."""
    found: list[_Sentence] = []
    seen: set[str] = set()
    most = min(8_000, max(400, _TEXT // max(1, len(selected))))
    for number, (role, text) in selected.items():
        if len(text) > 2 * most:
            text = f"{text[:most]}\n\n{text[-most:]}"
        # The whole message is tested first: most have neither, and then their sentences need no test.
        deciding, important = may_decide(text), sounds_decided(text) or bool(_NEXT.search(text))
        for sentence in sentences(text, most):
            words = terms(sentence)
            if len(words) < 3 or sentence in seen or sentence.endswith((":", "：")):
                continue
            seen.add(sentence)
            one = _Sentence(sentence, len(found), number, role, words, tokens.estimate(sentence) + 1)
            one.decides = deciding and states_decision(sentence)
            one.worth = _worth(one, important, first=number == 0)
            found.append(one)
    return found


def _worth(sentence: _Sentence, important: bool, *, first: bool) -> float:
    """Return the factor for names, numbers, a decision, the user's own words, and the goal."""
    worth = 1.0 + 0.2 * min(len(_NAME.findall(sentence.text)), 4) + (0.4 if _NUMBER.search(sentence.text) else 0.0)
    if sentence.decides or (important and (sounds_decided(sentence.text) or _NEXT.search(sentence.text))):
        worth += 0.3
    if sentence.role == USER:
        worth *= 1.15
    return worth * 1.3 if first else worth


def _weights(found: Iterable[_Sentence]) -> dict[str, float]:
    """Return the inverse document frequency of each word, with messages as documents."""
    messages_with: dict[str, set[int]] = {}
    messages: set[int] = set()
    for sentence in found:
        messages.add(sentence.message)
        for word in sentence.words:
            messages_with.setdefault(word, set()).add(sentence.message)
    return {word: math.log((len(messages) + 1) / len(having)) + 0.1 for word, having in messages_with.items()}


def _cover(candidates: list[_Sentence], weights: dict[str, float], covered: set[str], room: int) -> list[_Sentence]:
    """Choose, greedily, the sentences that cover the most rare words for their length; return them in order."""
    chosen: list[_Sentence] = []
    bounds = [(sum(weights[w] for w in s.words) * s.worth / (s.size + _OVERHEAD), s) for s in candidates]
    bounds.sort(key=lambda pair: (-pair[0], pair[1].index))
    while bounds and room > 0:
        # Covered words only lower a gain, so no sentence after a bound below the best gain can be better.
        best_gain, best_index = -1.0, -1
        for index, (bound, sentence) in enumerate(bounds):
            if bound <= best_gain:
                break
            uncovered = sum(weights[w] for w in sentence.words if w not in covered)
            gain = uncovered * sentence.worth / (sentence.size + _OVERHEAD)
            if sentence.size <= room and gain > best_gain:
                best_gain, best_index = gain, index
        if best_index < 0 or best_gain <= 0:
            break
        sentence = bounds.pop(best_index)[1]
        chosen.append(sentence)
        covered |= sentence.words
        room -= sentence.size
    return sorted(chosen, key=lambda s: s.index)


def _open_request(selected: Mapping[int, tuple[str, str]], found: Sequence[_Sentence]) -> _Sentence | None:
    """Return what waits for an answer: from the user's last message if it is the newest, else the agent's question."""
    last = max(selected)
    ending = [s for s in found if s.message == last]
    questions = [s for s in ending if s.text.endswith(_QUESTION)]
    if selected[last][0] == USER:
        return (questions or ending)[-1] if ending else None
    return questions[-1] if questions and questions[-1] in ending[-3:] else None


def _joined(found: Iterable[str]) -> str:
    """Return the sentences as one text, with a full stop between two if the first has no punctuation."""
    out = ""
    for sentence in found:
        if out and out[-1] not in '.!?…。！？"”»':
            out += "." if out.isascii() or not is_cjk(out[-20:]) else "。"
        out += sentence if not out or out[-1] in "。！？" else f" {sentence}"
    return out
