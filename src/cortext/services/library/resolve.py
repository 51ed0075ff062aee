"""Resolving the name of a session. Every command of every interface accepts the same names:

- the row in the last list: 1, 2, 12;
- the session's own number, at least three digits: 001, 014. Inside a workspace, that workspace's;
- its id, or a unique prefix of it;
- words, if a wrong guess does no harm: from titles, summaries and types, then from titles allowing typing errors, then
  from messages.

Numbers and ids are matched exactly or not at all. An ambiguous name is refused, and the error lists the candidates.
"""

from collections.abc import Callable, Iterable, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple, NoReturn, TypeVar

from cortext.errors import AmbiguousId, SessionNotFound, UsageError, not_in_trash
from cortext.index.sessions import Key, Row
from cortext.model.ids import is_id, is_number, looks_like_id, number_of
from cortext.model.wording import listed
from cortext.services.library.stores import NamedStore, StoredConversation, ask_all
from cortext.store.base import Trashed
from cortext.store.capabilities import KeepsCopies

Item = TypeVar("Item")

LEAST_SIMILARITY = 0.74  # of two words: one wrong letter in five
LEAST_SIMILARITY_SHORT = 0.66  # of words of up to four letters: one wrong letter in three
MOST_CANDIDATES = 8  # named by an error

# Whether one message of a session has all these words; called only if no name matches.
Said = Callable[[Row, Sequence[str]], bool]


class Resolver(NamedTuple):
    """Finds the session with a given name among `rows`.

    `here` is the workspace that the user is in, `own` a store that is searched before all others. `shown` is what the
    last list showed; if it is None, row numbers count `rows`, but only for commands that accept words: the others must
    not guess. With `newest_clone`, the newest of several clones of a conversation is used, for callers that cannot
    change to another workspace. `see` names the command that lists the sessions.
    """

    rows: Sequence[Row]
    here: str = ""
    shown: Sequence[Key] | None = None
    own: str = ""
    newest_clone: bool = False
    see: str = "`cortext list`"

    def resolve(self, wanted: str, *, words: bool = True, said: Said | None = None) -> Row:
        """Return the session with this name. Raises AmbiguousId, or SessionNotFound with the nearest names."""
        return self.only(self.candidates(wanted, words=words, said=said), wanted, words=words)

    def candidates(self, wanted: str, *, words: bool = True, said: Said | None = None) -> list[Row]:
        """Return the sessions that could be meant, by the first kind of name that matches any."""
        wanted = _cleaned(wanted)
        if is_number(wanted):
            return self._by_number(wanted, words)
        found = self._first(lambda rows: _prefer(by_id(((row.id, row) for row in rows), wanted), self.here))
        if found or not words or looks_like_id(wanted.lower()):
            return found
        terms = wanted.casefold().split()
        return self._first(lambda rows: self._by_words(rows, terms, said))

    def only(self, matches: Sequence[Row], wanted: str, *, words: bool = True) -> Row:
        """Return the one match. Raises AmbiguousId if there are several, SessionNotFound if there is none."""
        clones = len({row.id for row in matches}) == 1
        if len(matches) == 1 or (clones and self.newest_clone):
            return matches[0]
        if matches:
            names = [f"{row.id} in {row.root}" if clones else row.id for row in matches]
            raise_ambiguous(
                wanted, names, hint="run this in the workspace that you mean" if clones else "type more of the id"
            )
        wanted = _cleaned(wanted)
        raise SessionNotFound(f"no conversation matches {wanted!r}", hint=self._hint(wanted, words))

    def _first(self, search: Callable[[Sequence[Row]], list[Row]]) -> list[Row]:
        """Return what a search finds in `own`, else in all stores."""
        own = [row for row in self.rows if row.root == self.own] if self.own else ()
        return search(own) or search(self.rows)

    def _by_words(self, rows: Sequence[Row], terms: Sequence[str], said: Said | None) -> list[Row]:
        matches = [row for row in rows if all(contains(_text(row), term) for term in terms)]
        matches = matches or [row for row in rows if _is_similar(terms, row)]
        matches = matches or [row for row in rows if said is not None and said(row, terms)]
        # Of clones of one conversation, the one in the workspace that the user is in.
        return _prefer(matches, self.here) if len({row.id for row in matches}) == 1 else matches

    def _by_number(self, wanted: str, words: bool) -> list[Row]:
        """Return the sessions with this number of their own, and the one in this row of the list."""
        found = by_id(((row.id, row) for row in self.rows), wanted)
        if self.here:  # every workspace counts from 001
            found = [row for row in found if row.root == self.here or row.id == wanted]
        key = self._in_row(wanted, words)
        return found + [row for row in self.rows if (row.root, row.id) == key and row not in found]

    def _in_row(self, wanted: str, words: bool) -> Key | None:
        """Return the session in a row of the last list."""
        keys = self.shown
        if keys is None:
            keys = [(row.root, row.id) for row in self.rows] if words else ()
        return keys[int(wanted) - 1] if wanted[0] != "0" and int(wanted) <= len(keys) else None

    def _hint(self, wanted: str, words: bool) -> str:
        """Return what to do next if nothing matches."""
        if is_number(wanted):
            elsewhere = by_id(((row.id, row) for row in self.rows), wanted)
            if elsewhere:
                return f"use the whole id of {elsewhere[0].id}, which has that number in {elsewhere[0].root}"
            key = self._in_row(wanted, words)
            if key is not None:
                return f"that row was {key[1]}, which no longer exists; see {self.see}"
            return f"1, 2, … are the rows of the last list or search, 001 is its own number; see {self.see}"
        by_words = words and not looks_like_id(wanted.lower())
        near = ", ".join(row.name if by_words else row.id for row in nearest(self.rows, wanted))
        rule = "" if words or looks_like_id(wanted.lower()) else "use its number or its id, not words; "
        return f"{rule}the nearest: {near}" if near else f"{rule}see {self.see}"


def with_exact_id(stores: Iterable[NamedStore], wanted: str) -> list[StoredConversation]:
    """Return the sessions with exactly this id, read from the stores. Clones may share an id.

    Raises StoreUnreachable if it is not found and a server does not answer.
    """

    def get(named_store: NamedStore) -> list[StoredConversation]:
        try:
            return [StoredConversation(named_store, named_store.store.get(wanted))]
        except SessionNotFound:
            return []

    found, missing = ask_all(stores if is_id(wanted) and not is_number(wanted) else (), get)
    if missing and not found:
        raise next(iter(missing.values()))
    return found


def refuse_namesake(here: NamedStore, root: str, session_id: str) -> None:
    """Raise SessionNotFound if a session with this id was deleted here, and the one found is in another store.

    Clones of a workspace share ids: who names a deleted conversation again must not change that of another clone.
    """
    store = here.store
    if root == here.root or not isinstance(store, KeepsCopies) or not store.was_deleted(session_id):
        return
    raise SessionNotFound(
        f"{session_id} was deleted in this workspace, {here.root}",
        kept=f"the conversation with the same id in {root}, unchanged",
        hint=f"bring yours back with `cortext restore {session_id}`, or run this in {root}",
    )


def resolve_trashed(
    items: Sequence[tuple[NamedStore, Trashed]], wanted: str, *, here: str = "", hint: str
) -> tuple[NamedStore, Trashed]:
    """Return the newest deletion with a key, a number or an id; of several stores, the one in the workspace `here`.

    Raises NotFound or AmbiguousId; `hint` says how to list the trash.
    """
    wanted = wanted.strip()
    found = [pair for pair in items if pair[1].key == wanted]
    found = found or by_id(((pair[1].session_id, pair) for pair in items), wanted)
    near = [pair for pair in found if pair[0].root == here]
    found = near if is_number(wanted) and here else near or found
    if not found:
        raise not_in_trash(repr(wanted), hint)
    several = len({named_store.root for named_store, _ in found}) > 1
    names = dict.fromkeys(
        f"{item.session_id} of {named_store.label}" if several else item.session_id for named_store, item in found
    )
    if len(names) > 1:
        raise_ambiguous(wanted, list(names), hint=hint if several else "type more of the id")
    return found[0]


def raise_ambiguous(wanted: str, names: Sequence[str], *, hint: str) -> NoReturn:
    """Raise AmbiguousId, naming the candidates."""
    candidates = listed(names, MOST_CANDIDATES)
    raise AmbiguousId(f"{wanted!r} could be: {candidates}", kept="nothing was changed", hint=hint)


def by_id(items: Iterable[tuple[str, Item]], wanted: str) -> list[Item]:
    """Return the items with this id or number, else those whose id starts with it.

    An underscore matches a hyphen, which the links of a messenger cannot contain.
    """
    wanted = wanted.strip().lower()
    pairs = list(items)
    if is_number(wanted):
        return [item for name, item in pairs if wanted in (name, number_of(name))]
    exact = [item for name, item in pairs if name == wanted]
    if exact or not wanted:
        return exact
    underscored = wanted.replace("-", "_")
    return [item for name, item in pairs if name.startswith(wanted)] or [
        item for name, item in pairs if name.replace("-", "_").startswith(underscored)
    ]


def _cleaned(wanted: str) -> str:
    wanted = wanted.strip()
    if not wanted:
        raise UsageError("no session was named", kept="nothing was changed", hint="use its number or its id")
    return wanted


def _prefer(matches: list[Row], here: str) -> list[Row]:
    """Return the one match in the workspace that the user is in, else all: every workspace counts from 001."""
    near = [row for row in matches if row.root == here]
    return near if len(near) == 1 else matches


def nearest(rows: Sequence[Row], wanted: str, count: int = 3) -> list[Row]:
    """Return the sessions whose names are most similar to what was typed."""
    words = wanted.casefold().replace("-", " ").split()
    scored = [(sum(_similarity(word, _names(row).split()) for word in words), row) for row in rows]
    scored = [pair for pair in scored if pair[0] >= 0.4 * len(words)]
    scored.sort(key=lambda pair: -pair[0])
    return [row for _, row in scored[:count]]


def _text(row: Row) -> str:
    return f"{_names(row)} {row.summary}".casefold()


def _names(row: Row) -> str:
    return f"{row.id.replace('-', ' ')} {row.title} {row.type}".casefold()


def contains(text: str, word: str) -> bool:
    """Whether a text has a word, also as a part of another; a number matches only as a whole word."""
    return word in text.split() if is_number(word) else word in text


def _is_similar(words: Sequence[str], row: Row) -> bool:
    """Whether every word is in the names of a session, allowing typing errors; numbers must match exactly.

    The summary is not searched: among a thousand words, almost any word is similar to one of them.
    """
    names = _names(row).split()
    for word in words:
        least = LEAST_SIMILARITY if len(word) > 4 else LEAST_SIMILARITY_SHORT
        if not (word in names if is_number(word) else _similarity(word, names) >= least):
            return False
    return True


def _similarity(word: str, names: Sequence[str]) -> float:
    """Return how similar a word is to the most similar of the names, from 0 to 1."""
    best = 0.0
    for other in names:
        if word in other:
            return 1.0
        # Words of very different length are never similar, and the quick upper bounds avoid most of the real work.
        if abs(len(other) - len(word)) > 2:
            continue
        matcher = SequenceMatcher(None, word, other)
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best:
            best = max(best, matcher.ratio())
    return best
