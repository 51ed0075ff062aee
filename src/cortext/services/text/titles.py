"""A title for a conversation, from its first words and without a model."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice

from cortext.model.message import USER, Message
from cortext.services.text.sentences import COMMAND, is_cjk, sentences, terms, words_of

MESSAGES = 400  # so many are read
LONGEST = 16_000  # characters of each
_PIECES = re.compile(r"[_./:]")
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


def title(messages: Iterable[Message]) -> str:
    """A title from the user's first real words: what they asked for, in a dozen words at most."""
    asked = [message for message in islice(messages, MESSAGES) if message.role == USER and not message.aside]
    prompts = [text[:LONGEST] for message in asked if (text := words_of(message))]
    fallback = ""
    for prompt in prompts[:20]:
        prompt, commands = COMMAND.subn("", prompt[:4000].strip())
        said_there = sentences(prompt)[:6]
        if commands and prompt and "\n" not in prompt and len(prompt) <= 80:
            return _short(prompt)
        fallback = fallback or _short(said_there[0] if said_there else prompt)
        if said_there and not _GREETING.fullmatch(" ".join(said_there)) and len(terms(" ".join(said_there))) >= 2:
            return _short(_telling(said_there, prompts))
    return fallback or (_short(prompts[0]) if prompts else "")  # a bare command


def _telling(found: Sequence[str], prompts: Sequence[str]) -> str:
    """The sentence of the first prompt that says most of what the user then talked about."""
    counts: Counter[str] = Counter()
    for prompt in prompts[:60]:
        counts.update(terms(_PIECES.sub(" ", prompt[:2000])))

    def score(place: int) -> float:
        words = terms(_PIECES.sub(" ", found[place]))
        if not words:
            return 0.0
        about = sum(math.log1p(counts[w]) for w in words) / math.sqrt(len(words) + 4)
        return about * (2.2 if place == 0 else 1.0) * (1.25 if _ASKS.search(found[place]) else 1.0)

    return found[max(range(len(found)), key=lambda place: (score(place), -place))]


def _short(text: str, words: int = 12, longest: int = 72) -> str:
    """A title's length: to the end of the clause where there is one, else so many words."""
    text = " ".join(text.split())
    rest = _LEAD.sub("", text, count=1) if _LEAD.match(text) else text
    text = rest if len(rest) >= 8 else text
    text = text[:1].upper() + text[1:] if text[:1].islower() and " " in text and "_" not in text.split()[0] else text
    if is_cjk(text):
        return text[: longest // 3].rstrip("。！？、，")
    pieces = text.split(" ")
    if len(pieces) > words or len(text) > longest:
        clause = re.match(r"[^,;:(–—]{16,}?(?=[,;:(–—] ?)", text)
        if clause and len(clause[0]) <= longest:
            text = clause[0]
        else:
            while pieces and (len(pieces) > words or len(" ".join(pieces)) > longest - 1):
                pieces.pop()
            text = (" ".join(pieces) or text[: longest - 1]).rstrip(",;:(") + "…"
    return text.strip().rstrip(".!:,")
