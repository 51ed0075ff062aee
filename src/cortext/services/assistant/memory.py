"""What the assistant remembers beyond one talk.

Facts are curated: each was written down on purpose, says where it comes from, and can be forgotten. Instructions and
preferences are always in the prompt, because no search finds them when they matter.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from cortext.errors import NotFound, UsageError
from cortext.model import clock, tokens
from cortext.safety.framing import field
from cortext.safety.secrets.masking import find
from cortext.store.assistant import FACT, INSTRUCTION, KINDS, PREFERENCE, Fact, Facts

__all__ = ["KINDS", "Fact", "Memory", "fact_json"]

NEAR = 0.2  # how alike two texts must be to have to do with each other: unrelated ones are below
LONGEST = 2_000  # characters of a fact: more is a document, not a fact
_WORD = re.compile(r"\w+")

# How alike a query is to each of these texts, by meaning: 1 is the same, 0 has nothing to do with it.
Alike = Callable[[str, Sequence[str]], Sequence[float]]


class Memory:
    """The curated facts."""

    def __init__(self, facts: Facts, alike: Alike | None = None) -> None:
        self._facts = facts
        self._alike = alike

    def all(self, at: float | None = None) -> list[Fact]:
        """Every fact that holds now, the oldest first."""
        now = clock.from_epoch(time.time() if at is None else at)
        return [fact for fact in self._facts.all() if not fact.expires_at or fact.expires_at > now]

    def remember(
        self,
        text: str,
        *,
        kind: str = FACT,
        expires: str = "",
        session_id: str = "",
        message_id: str = "",
        by: str = "user",
    ) -> Fact:
        """Keep a fact; what is said already is not kept twice."""
        text = " ".join(text.split())
        if not text or len(text) > LONGEST:
            raise UsageError(
                "an empty memory" if not text else f"a memory of {len(text):,} characters; {LONGEST:,} is the most",
                kept="nothing was changed",
                hint="one fact, in a sentence that stands by itself",
            )
        secrets = find(text)
        if secrets:
            raise UsageError(
                f"that holds a secret ({secrets[0].kind})",
                kept="nothing was remembered",
                hint="what is remembered is in every prompt; keep secrets where secrets are kept",
            )
        if kind not in KINDS:
            raise UsageError(f"not a kind of memory: {ascii(kind)[:40]}", hint=f"one of {', '.join(KINDS)}")
        moment = clock.normalise(expires) if expires else ""
        if expires and not moment:
            raise UsageError(f"not a time: {ascii(expires)[:60]}", hint="ISO-8601, as 2026-01-31 or 2026-01-31T09:30Z")
        return self._facts.add(
            Fact(id="", text=text, kind=kind, expires_at=moment, session_id=session_id, message_id=message_id, by=by)
        )

    def forget(self, wanted: str, *, by: str = "user") -> Fact:
        """Forget a fact by its id or the beginning of it."""
        matches = [fact for fact in self._facts.all() if wanted and fact.id.startswith(wanted)]
        if len(matches) > 1:
            raise NotFound(f"{wanted!r} could be: {', '.join(fact.id for fact in matches[:8])}", hint="give more of it")
        return self._facts.forget(matches[0].id if matches else wanted, by=by)

    def search(self, query: str, limit: int = 5) -> list[Fact]:
        """The facts that have to do with these words, the nearest first."""
        facts = self.all()
        if not query.strip() or not facts:
            return []
        texts = [fact.text for fact in facts]
        scores = _shared_words(query, texts)
        if self._alike is not None:
            near = self._alike(query, texts)
            scores = [word + max(0.0, by - NEAR) for word, by in zip(scores, near, strict=True)]
        ranked = sorted(zip(scores, range(len(facts)), facts, strict=True), key=lambda item: (-item[0], -item[1]))
        return [fact for score, _, fact in ranked[: max(1, limit)] if score > 0]

    def standing(self, budget: int) -> str:
        """What is always in the prompt: instructions and preferences, then other facts, as far as the budget goes."""
        facts = self.all()
        order = {INSTRUCTION: 0, PREFERENCE: 1, FACT: 2}
        chosen: list[Fact] = []
        left_out = 0
        # The newest of each kind first: if something has to stay out, it is what was said longest ago.
        newest = dict(reversed([(fact.id, fact) for fact in facts]))
        for fact in sorted(newest.values(), key=lambda fact: order[fact.kind]):
            budget -= tokens.estimate(fact.text) + 6
            if budget < 0:
                left_out += 1
            else:
                chosen.append(fact)
        if not chosen and not left_out:
            return ""
        chosen.sort(key=lambda fact: (order[fact.kind], fact.created_at))
        lines = ["What you were asked to remember (id, kind, what):"]
        lines += [f"- {field(fact.id)} ({fact.kind}): {field(fact.text)}" for fact in chosen]
        if left_out:
            lines.append(f"- and {left_out} more: use search_memories")
        return "\n".join(lines)


def _shared_words(query: str, texts: Sequence[str]) -> list[float]:
    """Which share of the query's words each text has; a word also counts where it begins one of the text's."""
    asked = {word for word in _WORD.findall(query.lower()) if len(word) > 2} or set(_WORD.findall(query.lower()))
    scores = []
    for text in texts:
        there = set(_WORD.findall(text.lower()))
        hits = sum(1 for word in asked if word in there or any(len(word) > 3 and t.startswith(word) for t in there))
        scores.append(hits / max(1, len(asked)))
    return scores


def fact_json(fact: Fact) -> dict[str, Any]:
    """A fact as `--json` shows it."""
    row: dict[str, Any] = msgspec.to_builtins(fact)
    return row
