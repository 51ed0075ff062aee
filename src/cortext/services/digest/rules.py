"""What holds: the user's standing instructions, and what was decided.

A sentence of the user counts if it chooses; one of the model only if it says that something is settled: a plan for the
next step ("Now let's apply the fixes.") is not a decision.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from cortext.model.message import Message
from cortext.services.digest.asks import ask_of, is_answer
from cortext.services.digest.calls import Call
from cortext.services.text.clip import clip
from cortext.services.text.decision_words import DECIDING, states_decision
from cortext.services.text.sentences import sentences

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
# How the model announces its next step.
_NEXT_STEP = re.compile(
    r"(?:now|next|first|then|so|ok(?:ay)?|good|great|perfect|let me|let's|i'll|i will|i'm going|i need to)\b",
    re.IGNORECASE,
)
_ASKS_USER = re.compile(r"ask_?user|askuser|question|elicit", re.IGNORECASE)


def standing(messages: Sequence[Message]) -> Iterator[str]:
    """Yield the user's standing instructions, the newest first."""
    return _unique(sentence for sentence in _of_user(messages, _STANDING) if _STANDING.search(sentence))


def decisions(messages: Sequence[Message], calls: Sequence[Call]) -> Iterator[str]:
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
                if _fits(sentence) and states_decision(sentence) and not _NEXT_STEP.match(sentence):
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


def _answer(call: Call) -> str:
    """Return what the user answered when the model asked through a tool."""
    if not _ASKS_USER.search(call.part.name) or call.result is None or call.failed:
        return ""
    return clip(call.result.output, LONGEST)


def _unique(found: Iterable[str]) -> Iterator[str]:
    seen: set[str] = set()
    for sentence in found:
        if sentence not in seen:
            seen.add(sentence)
            yield sentence
