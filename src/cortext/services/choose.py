"""Choosing the session that a person means: by its number in the list, its id, a prefix, or words.

Words are looked for in titles, summaries and types first, then in titles with room for typing errors, then in what was
said.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cortext.errors import AmbiguousId, SessionNotFound
from cortext.index.sessions import Row

NEAR = 0.74  # how alike two words must be: one wrong letter in five
NEAR_SHORT = 0.66  # or in three, of a word of up to four letters

# Whether all these words were said in one message of a session; asked only where no name matches.
Said = Callable[[Row, Sequence[str]], bool]


def choose(rows: Sequence[Row], wanted: str, said: Said | None = None) -> Row:
    """The one that is meant; AmbiguousId, or SessionNotFound with the nearest."""
    return only(candidates(rows, wanted, said), rows, wanted)


def only(matches: Sequence[Row], rows: Sequence[Row], wanted: str) -> Row:
    """The one match; AmbiguousId, or SessionNotFound with the nearest of the rows."""
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = ", ".join(row.id for row in matches[:8])
        more = f" and {len(matches) - 8} more" if len(matches) > 8 else ""
        raise AmbiguousId(f"{wanted!r} could be: {names}{more}", hint="give more of the id, or its number in the list")
    near = ", ".join(row.name for row in nearest(rows, wanted))
    raise SessionNotFound(
        f"no conversation matches {wanted!r}",
        hint=f"the nearest: {near}" if near else "see what there is with `cortext list`",
    )


def candidates(rows: Sequence[Row], wanted: str, said: Said | None = None) -> list[Row]:
    """The sessions that could be meant, by the first of the ways that finds any."""
    wanted = wanted.strip()
    if wanted.isdigit() and len(wanted) < 3 and 1 <= int(wanted) <= len(rows):
        return [rows[int(wanted) - 1]]
    prefixed = by_id(rows, wanted)
    words = wanted.casefold().split()
    if prefixed or not words:
        return prefixed
    if wanted.isdigit() and wanted[0] != "0" and 1 <= int(wanted) <= len(rows):  # 007 is the beginning of an id
        return [rows[int(wanted) - 1]]
    named = [row for row in rows if all(word in _text(row) for word in words)]
    named = named or [row for row in rows if _alike(words, row)]
    return named or [row for row in rows if said is not None and said(row, words)]


def by_id(rows: Sequence[Row], wanted: str) -> list[Row]:
    """Those with this id; else those whose id begins so."""
    return [row for row in rows if row.id == wanted] or [row for row in rows if row.id.startswith(wanted.lower())]


def prefer_here(matches: Sequence[Row], workspace: str, wanted: str) -> list[Row]:
    """Of clones of one conversation, and of ids that begin so, the one in the workspace that we stand in.

    Every workspace numbers its conversations from 001: who types that means the one here.
    """
    here = [row for row in matches if row.root == workspace]
    by_number = bool(here) and here[0].id.startswith(wanted.strip().lower())
    return here if len(here) == 1 and (by_number or len({row.id for row in matches}) == 1) else list(matches)


def nearest(rows: Sequence[Row], wanted: str, count: int = 3) -> list[Row]:
    """The sessions whose names are most like what was typed."""
    words = wanted.casefold().split()
    scored = [(sum(_best(word, _names(row).split()) for word in words), row) for row in rows]
    scored = [pair for pair in scored if pair[0] >= 0.4 * len(words)]
    scored.sort(key=lambda pair: -pair[0])
    return [row for _, row in scored[:count]]


def _text(row: Row) -> str:
    return f"{_names(row)} {row.summary}".casefold()


def _names(row: Row) -> str:
    return f"{row.id.replace('-', ' ')} {row.title} {row.type}".casefold()


def _alike(words: Sequence[str], row: Row) -> bool:
    """Whether every word is in the names of a session, give or take a typing error.

    Not in its summary: among a thousand words nearly anything is like one of them.
    """
    there = _names(row).split()
    return all(_best(word, there) >= (NEAR if len(word) > 4 else NEAR_SHORT) for word in words)


def _best(word: str, there: Sequence[str]) -> float:
    from difflib import SequenceMatcher

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
