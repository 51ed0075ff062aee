"""From candidates of the index to hits: the sessions and messages are read, checked against the whole query (not every
kind of lookup evaluates it), and cut to the part that shows why they were found."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from cortext.errors import CortextError
from cortext.index.search.fuse import At
from cortext.index.search.query import ParsedQuery, Word
from cortext.index.search.reading import Picking
from cortext.index.search.words import SIGNS, clean, searchable
from cortext.index.sessions import Row
from cortext.model.message import Message
from cortext.model.query import FILTERS, moment, number, of_sessions
from cortext.services.library.listing import Listing
from cortext.services.library.sources import Match
from cortext.store.capabilities import outlines_of

Known = tuple[Row, int]  # a session, and how many of its messages are in the index
Span = tuple[int, int]

Tokens = Callable[[str], list[tuple[str, int, int]]]  # returns the terms of a text with their offsets

WIDTH = 220  # characters of a snippet
BLOCK = 20_000  # characters that are split into terms together
NEIGHBOUR = 160  # characters of a neighbour
REPEATED = 40  # characters of a text that is shown only once of a session; a shorter one may mean something else
LAST = 99991231235959


class QueryReading:
    """The sessions and messages of one query. Each is looked up once; neighbours are read only for what is shown."""

    def __init__(
        self,
        listing: Listing,
        sessions: Callable[[Collection[int]], dict[int, tuple[str, str, int]]],
        picking: Picking,
        leave_out: Collection[str],
    ) -> None:
        self._listing, self._sessions, self._picking, self._leave_out = listing, sessions, picking, leave_out
        self._rows: dict[int, Known | None] = {}
        self._messages: dict[tuple[str, str, int], Message] = {}

    def rows(self, keys: Collection[int]) -> dict[int, Known | None]:
        """Return the sessions with these keys, among others; None for those that are gone or not to be shown."""
        missing = set(keys) - self._rows.keys()
        named = self._sessions(missing)
        found = self._listing.index.named([(root, name) for root, name, _ in named.values()])
        for key in missing:
            root, name, count = named.get(key, ("", "", 0))
            row = found.get((root, name))
            shown = row is not None and name not in self._leave_out and root in self._listing.files
            self._rows[key] = (row, count) if row is not None and shown else None
        return self._rows

    def messages(self, places: Iterable[At]) -> dict[At, Message]:
        """Return messages by session key and number; those that are gone or not shown are left out."""
        wanted: dict[int, list[int]] = {}
        for key, seq in places:
            wanted.setdefault(key, []).append(seq)
        rows = self.rows(wanted.keys())
        found: dict[At, Message] = {}
        for key, numbers in wanted.items():
            known = rows[key]
            if known is not None:
                row, count = known
                source = self._listing.files[row.root]
                exist = [seq for seq in numbers if seq < count]
                for seq, message in self._picking.picked(source, row.id, row.path, exist).items() if exist else ():
                    found[key, seq] = self._messages[row.root, row.id, seq] = message
        return found

    def message(self, row: Row, seq: int) -> Message | None:
        """Return a message, or None if it is gone."""
        at = (row.root, row.id, seq)
        if at not in self._messages:
            picked = self._picking.picked(self._listing.files[row.root], row.id, row.path, [seq])
            if seq not in picked:
                return None
            self._messages[at] = picked[seq]
        return self._messages[at]

    def around(self, row: Row, seq: int) -> dict[int, Message]:
        """Return a message and its neighbours by number."""
        return self._picking.around(self._listing.files[row.root], row.id, row.path, seq)


class LeftOut:
    """The ids of the messages in the sessions that a query leaves out: their copies elsewhere are not shown either.

    A session is read again only after it has changed.
    """

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self._known: dict[tuple[str, str], tuple[str, frozenset[str]]] = {}

    def messages(self, names: Collection[str]) -> set[str]:
        """Return the ids of the messages in the sessions with these ids, of every store."""
        found: set[str] = set()
        for root in self._listing.files if names else ():
            for name, fingerprint in self._listing.index.fingerprints(root, names).items():
                known = self._known.get((root, name))
                if known is None or known[0] != fingerprint:
                    known = self._known[root, name] = (fingerprint, self._read(root, name))
                found |= known[1]
        return found

    def _read(self, root: str, name: str) -> frozenset[str]:
        store = self._listing.named_store(root).store
        try:
            return frozenset(message.id for message in outlines_of(store, name))
        except (CortextError, OSError):
            return frozenset()  # gone, or behind a link that must not be followed


def snippet(text: str, wanted: Collection[str], tokens: Tokens) -> tuple[str, list[Span]]:
    """Return the best part of a text, on one line, and the offsets of the wanted terms in it."""
    flat = " ".join(text.split())
    spans: list[tuple[str, int, int]] = []
    offset = 0
    while offset < len(flat) and not spans and wanted:
        block = flat[offset : offset + BLOCK]
        spans = [(term, start + offset, end + offset) for term, start, end in tokens(block) if term in wanted]
        offset += BLOCK
    if len(flat) <= WIDTH:
        return flat, [(start, end) for _, start, end in spans]
    start = _best_start(spans)
    start = max(0, min(start - WIDTH // 5, len(flat) - WIDTH))
    if start:
        blank = flat.find(" ", start, start + 20)
        start = blank + 1 if blank >= 0 else start
    end = min(len(flat), start + WIDTH)
    if end < len(flat):
        blank = flat.rfind(" ", end - 20, end)
        end = blank if blank > start else end
    lead = "…" if start else ""
    shift = len(lead) - start
    shown = lead + flat[start:end] + ("…" if end < len(flat) else "")
    return shown, [(first + shift, last + shift) for _, first, last in spans if first >= start and last <= end]


def _best_start(spans: list[tuple[str, int, int]]) -> int:
    """Return the offset of the window that has the most different terms."""
    most, best_start = 0, spans[0][1] if spans else 0
    for index, (_, start, _) in enumerate(spans):
        terms: set[str] = set()
        for term, _, end in spans[index : index + 40]:
            if end > start + WIDTH * 4 // 5:
                break
            terms.add(term)
        if len(terms) > most:
            most, best_start = len(terms), start
    return best_start


def shortened(text: str) -> str:
    """Return the beginning of a neighbour, on one line."""
    flat = " ".join(text[: NEIGHBOUR * 4].split())
    return flat if len(flat) <= NEIGHBOUR else flat[: NEIGHBOUR - 1].rstrip() + "…"


class Check:
    """The conditions of one query; it also prevents that a message is shown twice, from a fork or a copy."""

    def __init__(self, query: ParsedQuery, stems: Callable[[str], list[str]], unwanted: Collection[str]) -> None:
        self._stems = stems
        given = [(filter, query.filters.get(name, "")) for name, filter in FILTERS.items()]
        self._fields = [(filter.field, value) for filter, value in given if filter.field and not filter.is_time]
        self._fields = [(field, value) for field, value in self._fields if value]
        after, before = query.filters.get("after", ""), query.filters.get("before", "")
        self._first = moment(after) if after else 0
        self._last = moment(before, end=True) if before else LAST
        self._must = [word for word in query.words if (word.must or word.phrase) and not word.excluded]
        self._excluded = [word for word in query.words if word.excluded]
        self._shown: set[tuple[str, str]] = set()
        self._texts: set[tuple[str, str, str]] = set()  # long ones, by store and session
        self._unwanted = unwanted

    def is_copy(self, message: Message) -> bool:
        """Whether the message was shown already, or is also in a session that is left out."""
        return message.id in self._unwanted or (message.id, searchable(message)) in self._shown

    def repeats(self, message: Message, row: Row) -> bool:
        """Whether the same text was shown already of the same session: an error that was printed again, for example."""
        return (row.root, row.id, _squeezed(searchable(message))) in self._texts

    def allows(self, message: Message, row: Row) -> bool:
        """Whether the message meets the conditions; if so, it counts as shown."""
        text = searchable(message)
        if any(getattr(message, field) != value for field, value in self._fields):
            return False
        if (self._first or self._last != LAST) and not self._first <= number(message.timestamp) <= self._last:
            return False
        if (self._must or self._excluded) and not self._has_words(text, row):
            return False
        self._shown.add((message.id, text))
        if len(squeezed := _squeezed(text)) >= REPEATED:
            self._texts.add((row.root, row.id, squeezed))
        return True

    def _has_words(self, text: str, row: Row) -> bool:
        stems = self._stems(text)
        if any(self._contains(word, text, stems) for word in self._excluded):
            return False
        missing = [word for word in self._must if not self._contains(word, text, stems)]
        if not missing:
            return True
        session_text = f"{row.title}\n{row.summary}"
        session_stems = self._stems(session_text)
        return all(self._contains(word, session_text, session_stems) for word in missing)

    def _contains(self, word: Word, text: str, stems: list[str]) -> bool:
        symbols = SIGNS.findall(clean(word.text))
        if any(run not in text for run in symbols):
            return False
        wanted = self._stems(SIGNS.sub(" ", clean(word.text)))
        if word.begins and len(wanted) == 1:
            return any(stem.startswith(wanted[0]) for stem in stems) or word.text.lower() in text.lower()
        if not wanted:
            return bool(symbols)
        size = len(wanted)
        return any(stems[start : start + size] == wanted for start in range(len(stems) - size + 1))


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def session_filters(query: ParsedQuery) -> dict[str, str]:
    """Return the filters of a query by which the list chooses sessions."""
    # A session that was last active before a time has no message after it; one that is active has older ones, too.
    return {name: query.filters[name] for name in of_sessions() if name in query.filters and name != "before"}


def match_of(
    message: Message,
    shown: tuple[str, list[tuple[int, int]]],
    near: Mapping[int, Message],
    score: float,
    why: tuple[str, ...] = (),
) -> Match:
    """Return a message as it is shown: with its snippet and highlights, and its neighbours, which are in `near`."""
    before, after = (_beginning(near.get(number)) for number in (message.seq - 1, message.seq + 1))
    named = (message.id, message.seq, message.role, message.timestamp)
    return Match(*named, *shown, round(score, 4), before, after, why)


def _beginning(message: Message | None) -> str:
    return shortened(clean(searchable(message))) if message is not None else ""
