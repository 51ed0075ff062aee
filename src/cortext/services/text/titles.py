"""The title of a conversation in its own words, without a model: what the user first asked for.

Pure and deterministic; the work is bounded, however long the conversation.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice

from cortext.model.message import USER, Message
from cortext.model.titles import best_title, is_poor_title
from cortext.model.wording import clip
from cortext.services.text.sentences import (
    COMMAND,
    GREETING,
    LONGEST,
    NOTICE,
    is_cjk,
    sentences,
    terms,
    text_of,
    with_heading,
)

MESSAGES_FOR_TITLE = 400  # messages that are read
LONGEST_PROMPT = 16_000  # characters of each
_SEPARATORS = re.compile(r"[_./:]")
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
    """Return what the user first asked for: a clause, or a whole sentence."""
    asked = [message for message in islice(messages, MESSAGES_FOR_TITLE) if message.role == USER and not message.aside]
    prompts = [text[:LONGEST_PROMPT] for message in asked if (text := text_of(message)) and not NOTICE.match(text)]
    candidates: list[str] = []
    for prompt in prompts[:20]:
        prompt, commands = COMMAND.subn("", prompt[:4000].strip())
        said = [one for one in sentences(with_heading(prompt)) if not is_poor_title(one)][:6]
        if commands and prompt and "\n" not in prompt and len(prompt) <= 80:
            candidates.append(_short(prompt))
        elif not GREETING.fullmatch(" ".join(said)) and len(terms(" ".join(said))) >= 2:
            candidates.append(_short(_most_relevant(said, prompts)))
        if candidates and not is_poor_title(candidates[-1]):
            break
    first = next((short for prompt in prompts if (short := _short(COMMAND.sub("", prompt)))), "")
    return best_title(*reversed(candidates), first, *map(_short, prompts[:1]))  # at last a command without arguments


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
    """Return the text as a title: of a long sentence its first clause. Only what is no sentence is cut."""
    text = clip(text, LONGEST)
    rest = _LEAD.sub("", text, count=1) if _LEAD.match(text) else text
    text = rest if len(rest) >= 8 else text
    text = text[:1].upper() + text[1:] if text[:1].islower() and " " in text and "_" not in text.split()[0] else text
    if is_cjk(text):
        return text.rstrip("。！？、，")
    if len(text.split(" ")) > words or len(text) > longest:
        clause = re.match(r"[^,;:(–—]{16,}?(?=[,;:(–—] ?)", text)
        text = clause[0] if clause and len(clause[0]) <= longest else text
    return text.strip().rstrip(".!:,")
