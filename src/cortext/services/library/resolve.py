"""Which session is meant. Every command of every face names sessions in these ways:

- the row in the last list: 1, 2, 12;
- the session's own number, at least three digits: 001, 014. Inside a workspace, that workspace's;
- its id, or a prefix that no other id has;
- words, where a wrong guess does no harm: from titles, summaries and types, then from titles allowing typing errors,
  then from what was said.

Numbers and ids are matched exactly or not at all. What could be two sessions is refused, and both are named.
"""

from collections.abc import Callable, Iterable, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple, NoReturn, TypeVar

from cortext.errors import AmbiguousId, SessionNotFound, UsageError, not_in_trash
from cortext.index.sessions import Row
from cortext.model.ids import is_id, looks_like_id, number_of
from cortext.services.library.stores import Found, NamedStore
from cortext.store.base import Trashed

Item = TypeVar("Item")

NEAR = 0.74  # how alike two words must be: one wrong letter in five
NEAR_SHORT = 0.66  # or in three, of a word of up to four letters
NAMED = 8  # candidates that an error names

# Whether all these words were said in one message of a session; asked only where no name matches.
Said = Callable[[Row, Sequence[str]], bool]
Key = tuple[str, str]  # the store's root, and the id


class Resolver(NamedTuple):
    """Finds the session that a name means among `rows`.

    `here` is the workspace that the user is in, `own` a store that is searched before all others. `shown` is what the
    last list showed; where it is None, row numbers count `rows`, but only for commands that take words: the others
    must not hit a session by guessing. `newest_clone`: of clones of one conversation the newest is meant, for callers
    that cannot go to another workspace. `see` names the command that lists the sessions.
    """

    rows: Sequence[Row]
    here: str = ""
    shown: Sequence[Key] | None = None
    own: str = ""
    newest_clone: bool = False
    see: str = "`cortext list`"

    def resolve(self, wanted: str, *, words: bool = True, said: Said | None = None) -> Row:
        """The session that is meant; AmbiguousId, or SessionNotFound with the nearest names."""
        return self.only(self.candidates(wanted, words=words, said=said), wanted, words=words)

    def candidates(self, wanted: str, *, words: bool = True, said: Said | None = None) -> list[Row]:
        """The sessions that could be meant, by the first of the ways that finds any."""
        wanted = _cleaned(wanted)
        if is_number(wanted):
            return self._by_number(wanted, words)
        found = self._first(lambda rows: _prefer(by_id(((row.id, row) for row in rows), wanted), self.here))
        if found or not words or looks_like_id(wanted.lower()):
            return found
        terms = wanted.casefold().split()
        return self._first(lambda rows: self._by_words(rows, terms, said))

    def only(self, matches: Sequence[Row], wanted: str, *, words: bool = True) -> Row:
        """The one match; AmbiguousId, or SessionNotFound that says why there is none."""
        clones = len({row.id for row in matches}) == 1
        if len(matches) == 1 or (clones and self.newest_clone):
            return matches[0]
        if matches:
            names = [f"{row.id} in {row.root}" if clones else row.id for row in matches]
            refuse(wanted, names, hint="go to the workspace that you mean" if clones else "give more of the id")
        wanted = _cleaned(wanted)
        raise SessionNotFound(f"no conversation matches {wanted!r}", hint=self._why_not(wanted, words))

    def _first(self, search: Callable[[Sequence[Row]], list[Row]]) -> list[Row]:
        """What a search finds in our own store, else in all."""
        own = [row for row in self.rows if row.root == self.own] if self.own else ()
        return search(own) or search(self.rows)

    def _by_words(self, rows: Sequence[Row], terms: Sequence[str], said: Said | None) -> list[Row]:
        named = [row for row in rows if all(holds(_text(row), term) for term in terms)]
        named = named or [row for row in rows if _alike(terms, row)]
        named = named or [row for row in rows if said is not None and said(row, terms)]
        # Of clones of one conversation, the one in the workspace that the user is in.
        return _prefer(named, self.here) if len({row.id for row in named}) == 1 else named

    def _by_number(self, wanted: str, words: bool) -> list[Row]:
        """By the row in the list, and by the conversation's own number: where these are two, both."""
        found = by_id(((row.id, row) for row in self.rows), wanted)
        if self.here:  # every workspace counts from 001: the number is that of the workspace here
            found = [row for row in found if row.root == self.here or row.id == wanted]
        key = self._at(wanted, words)
        return found + [row for row in self.rows if (row.root, row.id) == key and row not in found]

    def _at(self, wanted: str, words: bool) -> Key | None:
        """The session in a row of the last list."""
        counted = self.shown
        if counted is None:
            counted = [(row.root, row.id) for row in self.rows] if words else ()
        return counted[int(wanted) - 1] if wanted[0] != "0" and int(wanted) <= len(counted) else None

    def _why_not(self, wanted: str, words: bool) -> str:
        """What to do next, where nothing matches."""
        if is_number(wanted):
            elsewhere = by_id(((row.id, row) for row in self.rows), wanted)
            if elsewhere:
                return f"{elsewhere[0].id} of {elsewhere[0].root} has that number: give its whole id"
            key = self._at(wanted, words)
            if key is not None:
                return f"that was {key[1]}, which is gone; see {self.see}"
            return f"1, 2, … are the rows of the last list, 001 is a conversation's own number; see {self.see}"
        by_words = words and not looks_like_id(wanted.lower())
        near = ", ".join(row.name if by_words else row.id for row in nearest(self.rows, wanted))
        rule = "" if words or looks_like_id(wanted.lower()) else "give its number or its id, not words; "
        return f"{rule}the nearest: {near}" if near else f"{rule}see what there is with {self.see}"


def exact(places: Iterable[NamedStore], wanted: str) -> list[Found]:
    """The sessions with this very id, asked of the stores themselves: there may be clones."""
    found = []
    for place in places if is_id(wanted) and not is_number(wanted) else ():
        try:
            found.append(Found(place, place.store.get(wanted)))
        except SessionNotFound:
            continue
    return found


def resolve_trashed(
    items: Sequence[tuple[NamedStore, Trashed]], wanted: str, *, here: str = "", hint: str
) -> tuple[NamedStore, Trashed]:
    """The newest deletion that is meant by a key, a number or an id; of several stores, the one here.

    NotFound, AmbiguousId; `hint` says where the trash is listed.
    """
    wanted = wanted.strip()
    found = [pair for pair in items if pair[1].key == wanted]
    found = found or by_id(((pair[1].session_id, pair) for pair in items), wanted)
    near = [pair for pair in found if pair[0].root == here]
    found = near if is_number(wanted) and here else near or found
    if not found:
        raise not_in_trash(repr(wanted), hint)
    several = len({place.root for place, _ in found}) > 1
    names = dict.fromkeys(
        f"{item.session_id} of {place.label}" if several else item.session_id for place, item in found
    )
    if len(names) > 1:
        refuse(wanted, list(names), hint=hint if several else "give more of the id")
    return found[0]


def refuse(wanted: str, names: Sequence[str], *, hint: str) -> NoReturn:
    """Say that a name could mean several things, and which."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    listed = ", ".join(names[:NAMED])
    raise AmbiguousId(f"{wanted!r} could be: {listed}{more}", kept="nothing was changed", hint=hint)


def is_number(wanted: str) -> bool:
    """Whether this is a number, which is never taken for a word."""
    return wanted.isascii() and wanted.isdigit()


def by_id(items: Iterable[tuple[str, Item]], wanted: str) -> list[Item]:
    """Those with this id, or this number of their own; else those whose id begins so.

    A messenger's links cannot hold a hyphen: an underscore stands for it.
    """
    wanted = wanted.strip().lower()
    there = list(items)
    if is_number(wanted):
        return [item for name, item in there if wanted in (name, number_of(name))]
    exact = [item for name, item in there if name == wanted]
    if exact or not wanted:
        return exact
    plain = wanted.replace("-", "_")
    return [item for name, item in there if name.startswith(wanted)] or [
        item for name, item in there if name.replace("-", "_").startswith(plain)
    ]


def _cleaned(wanted: str) -> str:
    wanted = wanted.strip()
    if not wanted:
        raise UsageError("no session was named", kept="nothing was changed", hint="give its number, or its id")
    return wanted


def _prefer(matches: list[Row], here: str) -> list[Row]:
    """Of several matches, the one in the workspace that the user is in: every workspace counts from 001."""
    near = [row for row in matches if row.root == here]
    return near if len(near) == 1 else matches


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
