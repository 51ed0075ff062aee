"""What the user asked for, what holds, and what is still open.

The last ask and what it answers, the task that it belongs to, the user's standing instructions, what was decided, the
steps that the model had planned and not done, and the question that it asked last. A sentence of the user is a decision
if it chooses; one of the model only if it says that something is settled: a plan for the next step ("Now let's apply
the fixes.") is none.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from cortext.model.message import ASSISTANT, ATTACHMENT, USER, Message
from cortext.model.wording import clip
from cortext.services.digest.calls import ToolCall
from cortext.services.text.decisions import ASKS_USER, DECIDING, NEXT_STEP, states_decision
from cortext.services.text.sentences import COMMAND, MARKUP, NOTICE, sentences, terms, text_of

SHORT = 3  # significant words: an ask with fewer only says how to go on with what was asked before
SHARED = 2  # significant words that two asks about the same task have in common
OWN_WORDS = 600  # characters at the beginning of an ask; what follows is mostly pasted
MISSED = 3  # turns in a row about something else, after which the turns before belong to another task

LONGEST = 240  # characters of a sentence
_PASTED = 4_000  # a longer message of the user is mostly not in the user's own words
_READ = 4_000  # characters of an answer that are read, at its beginning and its end
_LEAST = 12
_QUESTION = ("?", "？")
# Words that make an instruction general: it holds until it is taken back.
_STANDING = re.compile(
    r"\b(?:always|never|from now on|in (?:the )?future|every time|whenever|by default|remember to|must (?:not|never)"
    r"|immer|nie|niemals|ab jetzt|in zukunft|grundsätzlich|toujours|jamais|désormais|siempre|nunca|a partir de ahora)\b"
    r"|(?m:^|(?<=[.!?] ))(?:and |also |but |ok,? )?(?:please,? )?"
    r"(?:don't|do not|use|prefer|avoid|only use|keep|bitte)\b"
    r"|常に|必ず|今後|总是|總是|永远|永遠|以后|以後|请用|請用",
    re.IGNORECASE,
)
# How a user chooses.
_CHOICE = re.compile(
    r"^(?:ok(?:ay)?|yes|no|yeah|then|and|so|but|well|,|\s)*"
    r"(?:let's|lets|let us|we'll|we will|go with|drop|skip|i(?:'d| would) (?:prefer|rather|like)|i want|just|instead"
    r"|dann|wir|ich (?:will|möchte))\b|\b(?:instead of|rather than|statt|anstatt|au lieu de|en vez de)\b",
    re.IGNORECASE,
)

LONGEST_STEP = 200
_STEP_KEYS = ("content", "step", "title", "subject", "description", "text")
_DONE = frozenset(("completed", "complete", "done", "cancelled", "canceled", "deleted", "skipped"))
_NUMBER = re.compile(r"#?(\d+)")


class UserTurn(NamedTuple):
    """An ask of the user with its significant words, and where in the messages its turn begins and ends."""

    ask: str
    words: frozenset[str]
    start: int
    end: int

    @property
    def is_short(self) -> bool:
        """Whether the ask only says how to go on."""
        return len(self.words) < SHORT


def ask_of(message: Message) -> str:
    """Return what a user's message asks; empty if it is another's, or written by a tool in the user's name."""
    if message.role != USER or message.aside or (message.extra is not None and ATTACHMENT in message.extra):
        return ""
    text = text_of(message).strip()
    if NOTICE.match(text):
        return ""
    return text if not text.startswith("<") or MARKUP.sub("", text).strip() else ""


def turns(messages: Sequence[Message]) -> list[UserTurn]:
    """Return the user's turns, in order. What precedes the first ask belongs to none."""
    starts = [(index, ask) for index, message in enumerate(messages) if (ask := ask_of(message))]
    ends = [*(index for index, _ in starts[1:]), len(messages)]
    return [
        UserTurn(ask, terms(COMMAND.sub("", ask[:OWN_WORDS])), start, end)
        for (start, ask), end in zip(starts, ends, strict=False)
    ]


def task(found: Sequence[UserTurn], calls: Sequence[ToolCall]) -> list[UserTurn]:
    """Return the turns of the current task: the last one, and those before it that hang together with it.

    A turn hangs together with the task if it shares words with its asks, or a file that was used. A few turns about
    something else do not end a task.
    """
    if not found:
        return []
    files: list[set[str]] = [set() for _ in found]
    starts = [turn.start for turn in found]
    for call in calls:
        if call.at >= starts[0]:
            files[bisect_right(starts, call.at) - 1].update(use.path for use in call.files)
    chosen = len(found) - 1
    words, used = set(found[chosen].words), set(files[chosen])
    agrees = found[chosen].is_short  # "yes" continues whatever was before it
    for index in range(len(found) - 2, -1, -1):
        own = found[index].words
        if agrees or len(own & words) >= SHARED or files[index] & used:
            chosen = index
            words |= own
            used |= files[index]
            agrees = agrees and found[index].is_short
        elif chosen - index > MISSED:
            break
    while chosen < len(found) - 1 and found[chosen].is_short:
        chosen += 1  # a task does not begin with "yes"
    return list(found[chosen:])


def answered_before(messages: Sequence[Message], turn: UserTurn) -> str:
    """Return the end of the answer that an ask replies to: what "yes" agrees with."""
    for message in reversed(messages[: turn.start]):
        if message.role == ASSISTANT and message.content.strip():
            found = sentences(message.content)
            return found[-1] if found else ""
    return ""


def last_words(messages: Sequence[Message], turn: UserTurn) -> str:
    """Return what the model said last in a turn; empty if it said nothing."""
    texts = (message.content.strip() for message in reversed(messages[turn.start : turn.end]) if is_answer(message))
    return next(texts, "")


def is_answer(message: Message) -> bool:
    """Whether a message is a text of the model."""
    return message.role == ASSISTANT and not message.partial and bool(message.content.strip())


def standing(messages: Sequence[Message]) -> Iterator[str]:
    """Yield the user's standing instructions, the newest first."""
    return _unique(sentence for sentence in _of_user(messages, _STANDING) if _STANDING.search(sentence))


def decisions(messages: Sequence[Message], calls: Sequence[ToolCall]) -> Iterator[str]:
    """Yield what was decided, the newest first: the user's choices, then what the model says is settled."""
    return _unique(chain(filter(None, map(_answer, reversed(calls))), _chosen(messages), _settled(messages)))


def _chosen(messages: Sequence[Message]) -> Iterator[str]:
    for sentence in _of_user(messages):
        if (_CHOICE.search(sentence) or states_decision(sentence)) and not _STANDING.search(sentence):
            yield sentence


def _settled(messages: Sequence[Message]) -> Iterator[str]:
    for message in reversed(messages):
        # The whole text is tested first: most have no decision, and then their sentences need no test.
        if is_answer(message) and _may_settle(message.content.lower()):
            for sentence in reversed(sentences(message.content, _READ)):
                if _fits(sentence) and states_decision(sentence) and not NEXT_STEP.match(sentence):
                    yield sentence


def _may_settle(lowered: str) -> bool:
    return any(stem in lowered for stem in DECIDING)


def _of_user(messages: Sequence[Message], having: re.Pattern[str] | None = None) -> Iterator[str]:
    """Yield the user's own sentences, the newest first; only from messages in which the pattern occurs."""
    for message in reversed(messages):
        ask = ask_of(message)
        if ask and len(ask) <= _PASTED and (having is None or having.search(ask)):
            yield from (sentence for sentence in reversed(sentences(ask)) if _fits(sentence))


def _fits(sentence: str) -> bool:
    return _LEAST <= len(sentence) <= LONGEST and not sentence.endswith((*_QUESTION, ":", "："))


def _answer(call: ToolCall) -> str:
    """Return what the user answered when the model asked through a tool."""
    if not ASKS_USER.search(call.part.name) or call.result is None or call.failed:
        return ""
    return clip(call.result.output, LONGEST)


def _unique(found: Iterable[str]) -> Iterator[str]:
    seen: set[str] = set()
    for sentence in found:
        if sentence not in seen:
            seen.add(sentence)
            yield sentence


def open_steps(calls: Sequence[ToolCall]) -> list[str]:
    """Return the steps of the model's newest list that are not done, in its order.

    A tool either writes the whole list each time, or creates and updates one step per call.
    """
    listed: dict[str, tuple[str, str]] = {}  # the text and the status of each step, by its number
    for call in calls:
        fields = call.part.input
        if call.failed or not isinstance(fields, dict):
            continue
        whole = next((found for value in fields.values() if (found := _list(value))), None)
        if whole is not None:
            listed = {str(number): step for number, step in enumerate(whole, 1)}
        elif isinstance(fields.get("subject"), str):
            number = _NUMBER.search(call.result.output if call.result is not None else "")
            listed[number[1] if number else str(len(listed) + 1)] = (fields["subject"], "pending")
        elif isinstance(fields.get("taskId"), str) and fields["taskId"] in listed:
            text, status = listed[fields["taskId"]]
            listed[fields["taskId"]] = (text, str(fields.get("status") or status))
    return [_shown(text, status) for text, status in listed.values() if status.lower() not in _DONE]


def _list(value: Any) -> list[tuple[str, str]] | None:
    """Return the steps in a field of a call; None if it is no list of steps with a status."""
    if not isinstance(value, list) or not value:
        return None
    found = []
    for step in value:
        text = next((step[key] for key in _STEP_KEYS if isinstance(step.get(key), str)), "") if _is_step(step) else ""
        if not text:
            return None
        found.append((text, step["status"]))
    return found


def _is_step(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("status"), str)


def _shown(text: str, status: str) -> str:
    return f"{clip(text, LONGEST)}{' (in progress)' if 'progress' in status.lower() else ''}"


def open_question(messages: Sequence[Message]) -> str:
    """Return the question at the end of the model's last answer, if the user has not replied to it."""
    for message in reversed(messages):
        if message.role == USER:
            return ""
        if is_answer(message):
            asked = [sentence for sentence in sentences(message.content)[-3:] if sentence.endswith(_QUESTION)]
            return clip(asked[-1], LONGEST_STEP) if asked else ""
    return ""
