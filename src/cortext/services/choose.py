"""Choosing the session that a person means: by its number in the list, its id, a prefix, or words.

Words are looked for in titles, summaries and types first, then in what was said, then with room for typing errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

from cortext.errors import AmbiguousId, SessionNotFound
from cortext.services.stores import Found

NEAR = 0.74  # how alike two words must be: one wrong letter in five


def choose(found: Sequence[Found], wanted: str) -> Found:
    """The one that is meant; AmbiguousId, or SessionNotFound with the nearest."""
    matches = candidates(found, wanted)
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = ", ".join(item.session.id for item in matches[:8])
        more = f" and {len(matches) - 8} more" if len(matches) > 8 else ""
        raise AmbiguousId(
            f"{wanted!r} could be: {names}{more}",
            hint="give more of the id, or its number from `cortext resume --list`",
        )
    near = ", ".join(f"{item.session.title or item.session.id}" for item in nearest(found, wanted))
    raise SessionNotFound(
        f"no conversation matches {wanted!r}",
        hint=f"the nearest: {near}" if near else "see what there is with `cortext resume --list`",
    )


def candidates(found: Sequence[Found], wanted: str) -> list[Found]:
    """The sessions that could be meant, by the first of the ways that finds any."""
    wanted = wanted.strip()
    if wanted.isdigit() and 1 <= int(wanted) <= len(found):
        return [found[int(wanted) - 1]]
    exact = [item for item in found if item.session.id == wanted]
    prefixed = exact or [item for item in found if item.session.id.startswith(wanted.lower())]
    words = wanted.casefold().split()
    if prefixed or not words:
        return prefixed
    named = [item for item in found if all(word in _text(item) for word in words)]
    return named or [item for item in found if _alike(words, item)] or [i for i in found if _said(i, words)]


def nearest(found: Sequence[Found], wanted: str, count: int = 3) -> list[Found]:
    """The sessions whose names are most like what was typed."""
    words = wanted.casefold().split()
    scored = [(sum(_best(word, _text(item).split()) for word in words), item) for item in found]
    scored = [pair for pair in scored if pair[0] >= 0.5 * len(words)]
    scored.sort(key=lambda pair: -pair[0])
    return [item for _, item in scored[:count]]


def _text(item: Found) -> str:
    session = item.session
    return f"{session.id.replace('-', ' ')} {session.title} {session.summary} {session.type}".casefold()


def _alike(words: Sequence[str], item: Found) -> bool:
    """Whether every word is in the names of a session, give or take a typing error."""
    there = _text(item).split()
    return all(_best(word, there) >= NEAR for word in words)


def _best(word: str, there: Sequence[str]) -> float:
    best = 0.0
    for other in there:
        if word in other:
            return 1.0
        # Words of very different length are never alike; and the quick bounds spare most of the real work.
        if abs(len(other) - len(word)) > 2:
            continue
        matcher = SequenceMatcher(None, word, other)
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best:
            best = max(best, matcher.ratio())
    return best


def _said(item: Found, words: Sequence[str]) -> bool:
    """Whether all the words were said in one message of this session."""
    for message in item.place.store.read(item.session.id):
        text = message.text.casefold()
        if all(word in text for word in words):
            return True
    return False
