"""The summary of a conversation in its own words, without a model, in the order of the talk and with its speakers.

It begins with what the user wanted first, and ends with the last ask and what became of it. Between them are sentences,
verbatim: the user's decisions, then the agent's, then those that cover most of the rare words that are not yet covered.
A proposal that was rejected later is marked. The work is bounded, however long the conversation.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from cortext.model import tokens
from cortext.model.asides import only_asks
from cortext.model.message import ASSISTANT, USER, Message
from cortext.model.threads import thread
from cortext.model.wording import clip
from cortext.services.text.decisions import DECIDING, chooses, may_decide, says_no, sounds_decided, states_decision
from cortext.services.text.sentences import (
    COMMAND,
    GREETING,
    MARKUP,
    NOTICE,
    is_cjk,
    sentences,
    terms,
    text_of,
    with_heading,
)

_TEXT = 100_000  # characters that are read, shared among the messages
_MESSAGES = 400  # messages that are read: the first, the newest, those with decisions, and some between
_LONGEST_END = 16_000  # characters of either end of a message that are held, more than are ever read
_SHORTEST_ASK = 40  # characters of a prompt that is no sentence, such as a number that was chosen
_ASKED, _NARRATED = 1.8, 0.4  # factors for what the user asks, and for an agent that says what it does
_WANTED = 1.3  # the factor for what the user proposes: what it names is what the talk is about
_NARRATES = re.compile(
    r"(?:now |next,? |first,? |then,? |ok(?:ay)?,? |good[.,!] |great[.,!] |perfect[.,!] )*"
    r"(?:i'll|i will|let me|let's|i need to|i see|i'm going to|i can see|i have|now i)\b",
    re.IGNORECASE,
)
_LABEL = 3  # tokens of "Agent: "
_SPEAKERS = {USER: "User", ASSISTANT: "Agent"}
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
_PROPOSES = re.compile(
    r"\b(?:suggest\w*|recommend\w*|propos\w+|prefer\w*|favou?r|lean\w*|go(?:ing)? with|could|should|might|option|let's"
    r"|wants?|use|using|try|vorschlag\w*|schlage|empfehl\w+|könnten|nehmen)\b|建議|建议|提案|おすすめ",
    re.IGNORECASE,
)
# What a sentence decides against: named after these words, or before them.
_NAMED = r"([^.,;:!?()]{2,60})"
_AGAINST = re.compile(
    r"\b(?:instead of|rather than|decid\w+ against|reject(?:ed|s|ing)?|rul(?:e|ed|es|ing) out|drop(?:ped|ping)?"
    r"|(?:won't|will not|no longer|not) use|discard(?:ed)?|abandon(?:ed)?|anstatt|statt|au lieu d[eu']"
    rf"|en (?:lugar|vez) de)\s+{_NAMED}"
    rf"|{_NAMED}\s(?:is|are|was|were|'s)\s(?:out|rejected|ruled out|dropped|off the table|verworfen)\b",
    re.IGNORECASE,
)
_DONE = re.compile(
    r"\b(?:done|fixed|works?|added|implemented|pushed|merged|created|updated|removed|changed|pass(?:es|ed)?|green|committed"
    r"|found|because|caused|answer|yes|no|fertig|erledigt|behoben|ursache|terminé|listo)\b|完成|原因",
    re.IGNORECASE,
)


LeavesOut = Callable[[str], bool]


def _nothing(_: str) -> bool:
    return False


class _Sentence(msgspec.Struct):
    text: str
    index: int
    message: int
    role: str
    words: frozenset[str]
    size: int
    worth: float = 1.0
    decides: bool = False
    note: str = ""  # what became of it, if that was said later

    @property
    def shown(self) -> str:
        """The sentence with its note."""
        return f"{self.text.rstrip('.。')} ({self.note})" if self.note else self.text


def summarise(messages: Iterable[Message], *, budget: int = 260, leave_out: LeavesOut = _nothing) -> str:
    """Return what was asked, decided and rejected, in the order of the talk and with its speakers, in `budget` tokens.

    It ends with the last ask and what became of it. `leave_out` names the prompts that are not part of the talk, which
    are left out with their answers. The messages are iterated twice, and few are held in memory.
    """
    selected = _selected(messages, leave_out)
    found = _sentences_of(selected)
    last = max((index for index, (role, _) in selected.items() if role == USER), default=-1)
    if not found and last < 0:
        return ""
    end = _cut(_end_of(selected, last, budget * 45 // 100), budget)
    room = max(budget - tokens.estimate(end) - 2, 0)
    _mark_rejected(found, selected)
    before = [one for one in found if one.message < last or last < 0]
    return " ".join(filter(None, (_cut(_body(before, selected, last, room), room), end)))


def _body(found: list[_Sentence], selected: Mapping[int, tuple[str, str]], last: int, room: int) -> str:
    """Return the goal, and the sentences that say most in the room that is left, in order and with their speakers."""
    asked = [text for index, (role, text) in selected.items() if role == USER and index < last]
    first = next((text for text in asked if len(terms(text)) >= 2 and not GREETING.fullmatch(text)), "")
    goal = _ask(first, room * 4 // 3) if first else ""
    covered = set(terms(goal))
    room -= tokens.estimate(goal) + _LABEL
    said = [one for one in found if one.text not in goal and (one.role == USER or not one.text.endswith(_QUESTION))]
    weights = _weights(found)
    choices = [one for one in said if one.decides and one.role == USER]
    findings = [one for one in said if one.decides and one.role != USER]
    chosen: list[_Sentence] = []
    for candidates, share in ((choices, 2), (findings, 2), ([one for one in said if not one.decides], 1)):
        more = _cover(candidates, weights, covered, room // share)
        room -= sum(one.size + _LABEL for one in more)
        chosen += more
    out, speaker = (f"User: {goal}", USER) if goal else ("", "")
    for one in sorted(chosen, key=lambda one: one.index):
        label = "" if one.role == speaker else f"{_SPEAKERS[one.role]}: "
        out, speaker = _joined((out, f"{label}{one.shown}")), one.role
    return _joined((out, "")).rstrip()


def _end_of(selected: Mapping[int, tuple[str, str]], last: int, room: int) -> str:
    """Return the last ask, and what became of it: the answer and what it left open, or that there is none yet."""
    answers = [text for index, (role, text) in selected.items() if index > last and role == ASSISTANT]
    if last < 0:
        answer = _answer(answers[-1], room * 4)
        return f"Agent: {answer}" if answer else ""
    asks = [index for index, (role, _) in selected.items() if role == USER]
    ask, reply = ("Last ask", "Answer") if len(asks) > 1 else ("User", "Agent")
    asked = _ask(selected[last][1], room * 2)
    earlier = [text for index, (role, text) in selected.items() if index < last and role == ASSISTANT]
    if len(terms(asked)) < 3 and earlier and (question := _questions(earlier[-1])):
        asked = f'{asked.rstrip(".")} (to: "{clip(question[-1], room)}")'
    if not answers:
        return f"{ask}: {asked} (not answered yet)"
    answer = _answer(answers[-1], room * 4 - len(asked))
    return _joined((f"{ask}: {asked}", f"{reply}: {answer}" if answer else ""))


def _ask(text: str, longest: int) -> str:
    """Return what a prompt asks: its last question, else its first sentences."""
    said = sentences(text) or [text]
    full = [one for one in said if len(terms(one)) >= 2 and not one.endswith((":", "："))] or said
    questions = [one for one in full if one.endswith(_QUESTION)]
    chosen = questions[-1:] or full[:1]
    for one in (*full[:1], *full):
        if one not in chosen and len(_joined([*chosen, one])) < longest:
            chosen = sorted([*chosen, one], key=full.index)
        if len(chosen) > 1:
            break
    return clip(_joined(chosen), longest)


def _answer(text: str, longest: int) -> str:
    """Return what an answer says: its result, what it says is next, and the question that it leaves open."""
    said = [one for one in sentences(text) if len(terms(one)) >= 2] or sentences(text)
    statements = [one for one in said if not one.endswith((*_QUESTION, ":", "："))]
    result = max(statements, key=lambda one: (_outcome(one), -said.index(one)), default="")
    ahead = [one for one in statements if one != result and _NEXT.search(one)]
    wanted = [*[one for one in _questions(text)[-1:] if one in said[-3:]], result, *(ahead[-2:] or statements[-1:])]
    chosen: list[str] = []
    for one in filter(None, wanted):
        if one not in chosen and (not chosen or len(_joined([*chosen, one])) < longest):
            chosen.append(one)
    return clip(_joined(sorted(chosen, key=said.index)), max(longest, 40))


def _outcome(sentence: str) -> int:
    """Return how clearly a sentence says what was done, found or decided."""
    return 2 * states_decision(sentence) + (_DONE.search(sentence) is not None)


def _questions(text: str) -> list[str]:
    return [one for one in sentences(text) if one.endswith(_QUESTION)]


def _cut(text: str, budget: int) -> str:
    """Return a text within the budget, for texts that the estimates of its parts did not foresee."""
    while (size := tokens.estimate(text)) > budget:
        text = clip(text, min(len(text) - 1, len(text) * budget // size)) if budget else ""
    return text


def _mark_rejected(found: Sequence[_Sentence], selected: Mapping[int, tuple[str, str]]) -> None:
    """Note at every proposal that the user refused it, or that a later sentence rejects what it names."""
    refused, answered = set[int](), -1
    for index, (role, text) in selected.items():
        if role == ASSISTANT:
            answered = index
        elif says_no(text):
            refused.add(answered)
    rejected: list[tuple[int, frozenset[str]]] = []
    for one in found:
        for named in _AGAINST.finditer(one.text):
            rejected.append((one.index, terms(named[1] or named[2] or "")))
    for one in found:
        if not _PROPOSES.search(one.text) and not one.decides:
            continue
        if one.message in refused:
            one.note = "the user said no"
        elif any(one.index < index and words and words <= one.words for index, words in rejected):
            one.note = "rejected later"
        one.size += tokens.estimate(one.note) + 1


def _texts(messages: Iterable[Message], leave_out: LeavesOut) -> Iterator[tuple[str, str]]:
    """Yield the role and text of each message, without tools, asides, partial replies and the names of commands.

    Our own commands are left out with the answers to them. A sequence is reduced to its thread; any other iterable is a
    thread already, read lazily from a store.
    """
    is_talk = True
    for message in thread(messages) if isinstance(messages, Sequence) else messages:
        text = _ends(text_of(message))
        if message.role == USER and text:
            asked = _asked_in(text)
            is_talk = not only_asks([message]) and not leave_out(text) and (is_talk or asked != "")
            if is_talk and asked:
                yield USER, asked
        elif message.role == ASSISTANT and is_talk and text:
            yield ASSISTANT, text


def _asked_in(text: str) -> str:
    """Return what the user typed in a prompt, without a command's name; empty for a notice, or only pasted text."""
    text = COMMAND.sub("", text)
    if NOTICE.match(text):
        return ""
    text = with_heading(text)
    short = " ".join(MARKUP.sub(" ", text).split())
    return text if sentences(text) or (0 < len(short) <= _SHORTEST_ASK and short[0] not in "[<{`") else ""


def _selected(messages: Iterable[Message], leave_out: LeavesOut) -> dict[int, tuple[str, str]]:
    """Return the role and text of the messages to read, by their index.

    All of a conversation of ordinary length; of a long one the first, the newest, those with decisions, and some of the
    rest.
    """
    quarter = _MESSAGES // 4
    with_decisions = {word: deque[int](maxlen=quarter) for word in DECIDING}
    beginning: list[tuple[str, str]] = []
    count = last = 0
    for role, text in _texts(messages, leave_out):
        if count < _MESSAGES:
            beginning.append((role, text))
        last = count if role == USER else last
        head = text[:400].lower()
        for word, indexes in with_decisions.items():
            if word in head:
                indexes.extend([count] * head.count(word))
        count += 1
    if count <= _MESSAGES:
        return dict(enumerate(beginning))
    deciding = sorted({index for indexes in with_decisions.values() for index in indexes})
    between = range(0, count, max(1, count // quarter))
    chosen = {last, *range(10), *range(count - quarter, count), *deciding[-2 * quarter :], *between}
    again = enumerate(_texts(messages, leave_out))
    return {index: said for index, said in again if index in chosen}


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
        opens = True
        for sentence in sentences(text, most):
            words = terms(sentence)
            decides = (deciding and states_decision(sentence)) or (role == USER and chooses(sentence))
            if len(words) < (1 if decides else 3) or sentence in seen or sentence.endswith((":", "：")):
                continue
            seen.add(sentence)
            one = _Sentence(sentence, len(found), number, role, words, tokens.estimate(sentence) + 1)
            one.decides = decides
            one.worth = _worth(one, important, opens=opens)
            opens = False
            found.append(one)
    return found


def _worth(sentence: _Sentence, important: bool, *, opens: bool) -> float:
    """Return the factor for names, numbers, a decision, and what the user asks; `opens`: the first of a message."""
    worth = 1.0 + 0.2 * min(len(_NAME.findall(sentence.text)), 4) + (0.4 if _NUMBER.search(sentence.text) else 0.0)
    if sentence.decides or (important and (sounds_decided(sentence.text) or _NEXT.search(sentence.text))):
        worth += 0.3
    if sentence.role == USER:
        worth *= _WANTED if _PROPOSES.search(sentence.text) else 1.0
        return worth * (_ASKED if opens or sentence.text.endswith(_QUESTION) else 1.15)
    return worth * (_NARRATED if _NARRATES.match(sentence.text) else 1.0)


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


def _joined(found: Iterable[str]) -> str:
    """Return the sentences as one text, with a full stop between two if the first has no punctuation."""
    out = ""
    for sentence in found:
        if out and out[-1] not in '.!?…。！？"”»':
            out += "." if out.isascii() or not is_cjk(out[-20:]) else "。"
        out += sentence if not out or out[-1] in "。！？" else f" {sentence}"
    return out
