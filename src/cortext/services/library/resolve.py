"""Choosing the session that a person means. Every command of every face names sessions in these ways:

- its row in the last list: 1, 2, 12;
- its own number, at least three digits: 001, 014. Inside a workspace, that workspace's;
- its id, or as much of the beginning as no other id has;
- words, where a slip does no harm: from titles, summaries and types, then from titles with room for typing errors, then
  from what was said.

Numbers and ids are matched exactly or not at all. What could be two sessions is refused, with both names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple, TypeVar

from cortext.errors import AmbiguousId, SessionNotFound, UsageError
from cortext.index.sessions import Row
from cortext.model.ids import looks_like_id, number_of

Thing = TypeVar("Thing")

NEAR = 0.74  # how alike two words must be: one wrong letter in five
NEAR_SHORT = 0.66  # or in three, of a word of up to four letters

# Whether all these words were said in one message of a session; asked only where no name matches.
Said = Callable[[Row, Sequence[str]], bool]
Key = tuple[str, str]  # the store's root, and the id


class Ways(NamedTuple):
    """What a name may mean where it is used.

    `here` is the workspace that the user stands in, `shown` what the last list showed. Where none was shown, rows are
    counted as they are given; but not without `words`, which is for commands that must not hit another session. `see`
    names the command that lists the sessions.
    """

    here: str = ""
    shown: Sequence[Key] | None = None
    words: bool = True
    see: str = "`cortext list`"


EVERY_WAY = Ways()


def choose(rows: Sequence[Row], wanted: str, ways: Ways = EVERY_WAY, said: Said | None = None) -> Row:
    """The one that is meant; AmbiguousId, or SessionNotFound with the nearest."""
    return only(candidates(rows, wanted, ways, said), rows, wanted, ways)


def candidates(rows: Sequence[Row], wanted: str, ways: Ways = EVERY_WAY, said: Said | None = None) -> list[Row]:
    """The sessions that could be meant, by the first of the ways that finds any."""
    wanted = wanted.strip()
    if not wanted:
        raise UsageError("no session was named", kept="nothing was changed", hint="give its number, or its id")
    if is_number(wanted):
        return _by_number(rows, wanted, ways)
    found = _prefer(by_id(((row.id, row) for row in rows), wanted), ways.here)
    if found or not ways.words or looks_like_id(wanted.lower()):
        return found
    terms = wanted.casefold().split()
    named = [row for row in rows if all(holds(_text(row), term) for term in terms)]
    named = named or [row for row in rows if _alike(terms, row)]
    named = named or [row for row in rows if said is not None and said(row, terms)]
    return _prefer_clone(named, ways.here)


def only(matches: Sequence[Row], rows: Sequence[Row], wanted: str, ways: Ways = EVERY_WAY) -> Row:
    """The one match; AmbiguousId, or SessionNotFound that says why there is none."""
    if len(matches) == 1:
        return matches[0]
    if matches:
        clones = len({row.id for row in matches}) == 1
        names = ", ".join(f"{row.id} in {row.root}" if clones else row.id for row in matches[:8])
        more = f" and {len(matches) - 8} more" if len(matches) > 8 else ""
        hint = "go to the workspace that you mean" if clones else "give more of the id"
        raise AmbiguousId(f"{wanted!r} could be: {names}{more}", kept="nothing was changed", hint=hint)
    hint = _why_not(rows, wanted.strip(), ways)
    raise SessionNotFound(f"no conversation matches {wanted!r}", hint=hint)


def is_number(wanted: str) -> bool:
    """Whether this is a number, which is never taken for a word."""
    return wanted.isascii() and wanted.isdigit()


def by_id(things: Iterable[tuple[str, Thing]], wanted: str) -> list[Thing]:
    """Those with this id, or this number of their own; else those whose id begins so.

    A messenger's links cannot hold a hyphen: an underscore stands for it.
    """
    wanted = wanted.strip().lower()
    there = list(things)
    if is_number(wanted):
        return [thing for name, thing in there if wanted in (name, number_of(name))]
    exact = [thing for name, thing in there if name == wanted]
    if exact or not wanted:
        return exact
    plain = wanted.replace("-", "_")
    return [thing for name, thing in there if name.startswith(wanted)] or [
        thing for name, thing in there if name.replace("-", "_").startswith(plain)
    ]


def _by_number(rows: Sequence[Row], wanted: str, ways: Ways) -> list[Row]:
    """By the row in the list, and by the conversation's own number: where these are two, both."""
    found = by_id(((row.id, row) for row in rows), wanted)
    if ways.here:  # every workspace counts from 001, and who types that means the one here
        found = [row for row in found if row.root == ways.here or row.id == wanted]
    counted = _counted(rows, ways)
    if wanted[0] != "0" and int(wanted) <= len(counted):
        key = counted[int(wanted) - 1]
        found += [row for row in rows if (row.root, row.id) == key and row not in found]
    return found


def _counted(rows: Sequence[Row], ways: Ways) -> Sequence[Key]:
    """The sessions that row numbers count in."""
    if ways.shown is not None:
        return ways.shown
    return [(row.root, row.id) for row in rows] if ways.words else ()


def _prefer(matches: list[Row], here: str) -> list[Row]:
    """Of ids that begin so, the one in the workspace that we stand in: every workspace counts from 001."""
    near = [row for row in matches if row.root == here]
    return near if len(near) == 1 else matches


def _prefer_clone(matches: list[Row], here: str) -> list[Row]:
    """Of clones of one conversation, the one in the workspace that we stand in."""
    return _prefer(matches, here) if len({row.id for row in matches}) == 1 else matches


def _why_not(rows: Sequence[Row], wanted: str, ways: Ways) -> str:
    """What to do next, where nothing matches."""
    if is_number(wanted):
        elsewhere = by_id(((row.id, row) for row in rows), wanted)
        if elsewhere:
            return f"{elsewhere[0].id} of {elsewhere[0].root} has that number: give its whole id"
        counted = _counted(rows, ways)
        if wanted[0] != "0" and int(wanted) <= len(counted):
            return f"that was {counted[int(wanted) - 1][1]}, which is gone; see {ways.see}"
        return f"1, 2, … are the rows of the last list, 001 is a conversation's own number; see {ways.see}"
    near = ", ".join(
        row.id if looks_like_id(wanted.lower()) or not ways.words else row.name for row in nearest(rows, wanted)
    )
    rule = "" if ways.words or looks_like_id(wanted.lower()) else "give its number or its id, not words; "
    return f"{rule}the nearest: {near}" if near else f"{rule}see what there is with {ways.see}"


def nearest(rows: Sequence[Row], wanted: str, count: int = 3) -> list[Row]:
    """The sessions whose names are most like what was typed."""
    words = wanted.casefold().replace("-", " ").split()
    scored = [(sum(_best(word, _names(row).split()) for word in words), row) for row in rows]
    scored = [pair for pair in scored if pair[0] >= 0.4 * len(words)]
    scored.sort(key=lambda pair: -pair[0])
    return [row for _, row in scored[:count]]


def _text(row: Row) -> str:
    return f"{_names(row)} {row.summary}".casefold()


def _names(row: Row) -> str:
    return f"{row.id.replace('-', ' ')} {row.title} {row.type}".casefold()


def holds(text: str, word: str) -> bool:
    """Whether a text holds a word, also as a part of another; but a number only as it stands."""
    return word in text.split() if is_number(word) else word in text


def _alike(words: Sequence[str], row: Row) -> bool:
    """Whether every word is in the names of a session, give or take a typing error; numbers exactly.

    Not in its summary: among a thousand words nearly anything is like one of them.
    """
    there = _names(row).split()
    return all(
        word in there if is_number(word) else _best(word, there) >= (NEAR if len(word) > 4 else NEAR_SHORT)
        for word in words
    )


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
