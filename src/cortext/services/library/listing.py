"""The list of all sessions of all known stores, answered from the index, which is brought up to date first."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from cortext.errors import StoreUnreachable
from cortext.index.refresh import StoreSource
from cortext.index.sessions import COLUMNS, Key, Row, SessionIndex, row_of
from cortext.io import locks
from cortext.model import clock
from cortext.model.ids import is_number
from cortext.model.message import Message
from cortext.model.query import Query
from cortext.model.session import COMPLETED, PAUSED
from cortext.services.library.sources import (
    Answer,
    ForksOf,
    IndexedSessions,
    Selection,
    SessionHit,
    SessionSource,
    merged,
    selection,
)
from cortext.services.library.stores import NamedStore, StoredConversation
from cortext.store.files.layout_paths import lock_file

if TYPE_CHECKING:  # imported only if there is a server
    from cortext.services.library.served_sessions import ServedSessions

__all__ = ["Listing", "Query", "Row", "row_of"]


Result = TypeVar("Result")
ALL = Query()
_SKEW_S = 60.0  # by which a tool's clock may be ahead


class Listing:
    """The list of sessions of these stores."""

    def __init__(
        self,
        folder: str,
        stores: Sequence[StoreSource],
        labels: dict[str, str],
        served: Sequence[ServedSessions] = (),
    ) -> None:
        """`stores` are those in files, `served` those on a server."""
        self._index = SessionIndex(folder)
        self.files = {store.root: store for store in stores}
        self.served = served
        self.labels = labels
        self._indexed = IndexedSessions(self._index, self.files)
        self._sources: list[SessionSource] = [self._indexed, *served]
        self._places: dict[Key, str] | None = None
        self._needs_all = True  # whether a server that does not answer is an error
        self._away: dict[str, StoreUnreachable] = {}  # else those that did not answer, by address

    def reachable(self) -> Listing:
        """Return the same list without the servers that do not answer; `away` says which these are."""
        other = copy(self)
        other._needs_all, other._away = False, {}
        return other

    @property
    def away(self) -> Mapping[str, StoreUnreachable]:
        """The servers that did not answer and were left out, by address; each is asked only once."""
        return self._away

    def ask_again(self) -> None:
        """Ask the servers again that did not answer."""
        self._away.clear()

    @property
    def index(self) -> SessionIndex:
        """The index of sessions, for search."""
        return self._index

    @property
    def stores(self) -> list[str]:
        """The stores whose sessions are listed, by root."""
        return [root for source in self._sources for root in source.kinds]

    def of_kind(self, kind: str) -> list[str]:
        """Return the stores of one kind."""
        return [root for source in self._sources for root, each in source.kinds.items() if each == kind]

    def limit(self, most: int) -> int:
        """Return how many sessions to ask for: all (0), or `most` if some are on a server, where there may be many."""
        return most if self.served else 0

    def roots(self, name: str) -> list[str]:
        """Return the stores that a user means by a label, a folder's name, or its path. May be empty."""
        path = os.path.abspath(os.path.expanduser(name))
        wanted = name.casefold()
        return [
            root
            for root in self.stores
            if root == path or wanted in (self.labels.get(root, "").casefold(), os.path.basename(root).casefold())
        ]

    def projects_of(self, folder: str) -> list[str]:
        """Return the folders in which conversations about the project in this folder were held, wherever it was.

        If the folder is inside a repository, these are the same folder in every place where the repository was, and the
        folders below.
        """
        from cortext.services.projects.projects import Projects

        known = [pair for source in self._sources for pair in self.ask(source, source.projects) or ()]
        return Projects().same(os.path.abspath(os.path.expanduser(folder)), known)

    def pairs(self, query: Query) -> list[Key]:
        """Return (store, id) of the sessions in files that a query chooses, unordered."""
        roots, chosen = self._chosen(query)
        local = [root for root in roots if root in self.files]
        if chosen.status in ("", PAUSED, COMPLETED):
            [status] = chosen.statuses
            return self._index.pairs(local, [*chosen.where, *status])
        return merged([self._indexed], ("root", "id"), chosen, local, self.ask)

    def messages(self, row: Row) -> Iterator[Message]:
        """Return the messages of a session."""
        return self._source(row.root).messages(row)

    def reachable_messages(self, row: Row) -> Iterable[Message] | None:
        """Return the messages of a session; None if it is on a server that does not answer."""
        source = self._source(row.root)
        return self.ask(source, lambda: list(self.messages(row))) if source.address else self.messages(row)

    def message(self, row: Row, seq: int) -> Message | None:
        """Return one message of a session, without decoding those before it; None if it does not exist."""
        return self._source(row.root).message(row, seq)

    def refresh(self, progress: Callable[[int, int], None] | None = None, *, quick: bool = False) -> bool:
        """Bring the list up to date; return whether a full comparison of all files is due.

        A `quick` one, for a process that asks all the time, sees less of what others change: see `SessionIndex`.
        """
        self._places = None
        return self._index.refresh(self.files.values(), progress, quick=quick)

    def refresh_all(self) -> None:
        """Compare the files of every session with the list, however many there are."""
        self._index.refresh(self.files.values(), everything=True)

    def rows(self, query: Query = ALL) -> list[Row]:
        """Return the sessions that a query chooses, the newest first."""
        return list(map(partial(tuple.__new__, Row), self.cells(COLUMNS, query)))

    def answer(self, query: Query = ALL) -> Answer:
        """Return the sessions that a query chooses, and which servers did not answer: that is no error here."""
        listing = self.reachable() if self._needs_all else self
        hits = [SessionHit(row, []) for row in listing.rows(query)]
        return Answer(hits, away=dict(listing.away))

    def cells(self, columns: Sequence[str], query: Query = ALL) -> list[tuple[Any, ...]]:
        """Return only these columns of the same sessions, for tables, which can be very long."""
        roots, chosen = self._chosen(query)
        return merged(self._sources, columns, chosen, roots, self.ask)

    def row(self, root: str, session_id: str) -> Row | None:
        """Return the session with this id in a store; None if it is not there."""
        return next((source.row(root, session_id) for source in self._sources if root in source.kinds), None)

    def forks_of(self, root: str) -> ForksOf:
        """Return what finds the forks of sessions of a store: none, if it is on a server that does not answer."""
        source = self._source(root)
        return self.ask(source, lambda: source.forks_of(root)) or (lambda names: [])

    def state(self, *, exact: bool = True) -> tuple[object, ...]:
        """Return a value that changes with the list; unless `exact`, no server is asked for it."""
        return tuple(part for source in self._sources for part in source.state(exact=exact))

    def _source(self, root: str) -> SessionSource:
        return next(source for source in self._sources if root in source.kinds)

    def _chosen(self, query: Query) -> tuple[list[str], Selection]:
        """Return the stores that a query chooses, and its other filters."""
        name = query.filters.get("workspace", "")
        roots = self.roots(name) if name else self.stores
        if query.roots is not None:
            roots = [root for root in roots if root in query.roots]
        return roots, selection(query, self.projects_of)

    def places(self) -> dict[Key, str]:
        """Return where git has the sessions that left their work tree as a whole, by store and id.

        Git is only asked if there are some, and then once after a refresh. For a few sessions, use `placed`.
        """
        if self._places is None:
            roots = [root for root, store in self.files.items() if store.copies is not None]
            self._places = _places_of([(root, *pair) for root in roots for pair in self._index.outside(root)])
        return self._places

    def named(self, wanted: str, shown: Sequence[Key] | None = None) -> list[Row]:
        """Return the sessions among which a name is looked up, the newest first; `shown` is what the last list showed.

        These are all sessions in files. Of a server that has many, the newest and those whose names contain what was
        typed: typing errors are only forgiven in the newest. Without the server, only a whole id and a row of the last
        list are looked up, because any other name could mean another session. Raises StoreUnreachable.
        """
        number = int(wanted) if is_number(wanted.strip()) and len(wanted) < 10 else 0
        listed = shown[number - 1] if shown and 0 < number <= len(shown) else None
        is_row = number < 100 and wanted.strip()[:1] != "0"  # not a session's own number: 001, 014, 120
        found: dict[Key, Row] = {}
        for source in self._sources:
            try:
                found |= {(row.root, row.id): row for row in source.named(wanted)}
            except StoreUnreachable:
                if not (is_row and listed in found) and all(name != wanted.strip() for _, name in found):
                    raise
                break
        if listed is not None and listed not in found and listed[0] not in self.files:
            row = self.row(*listed)
            found |= {listed: row} if row is not None else {}
        return sorted(found.values(), key=attrgetter("last_active", "id"), reverse=True)

    def ask(self, source: SessionSource, question: Callable[[], Result]) -> Result | None:
        """Return the answer of a source; None if it does not answer and may be left out."""
        if not self._needs_all and source.address in self._away:
            return None  # one attempt is enough
        try:
            return question()
        except StoreUnreachable as error:
            if self._needs_all:
                raise
            self._away[source.address] = error
            return None

    def is_away(self, root: str) -> bool:
        """Whether this store is on a server that did not answer."""
        return root.partition("#")[0] in self._away

    def abandoned(self, roots: Collection[str]) -> Iterator[Key]:
        """Yield (store, id) of sessions without messages that no process holds, in spawn stores."""
        return self._indexed.abandoned(roots)

    def was_said_here(self, row: Row) -> bool:
        """Whether the last of a session in files was written by this machine, and did not come with a pull."""
        try:
            written = os.stat(lock_file(self.files[row.root].control, row.id)).st_mtime
        except OSError:
            return False  # it has never written to it
        return written + _SKEW_S > (clock.to_epoch(row.last_active) or 0.0)

    def holder_died(self, root: str, session_id: str) -> bool:
        """Whether the process that held this session last was killed."""
        return locks.holder_died(lock_file(self.files[root].control, session_id))

    def named_store(self, root: str) -> NamedStore:
        """Return the store of a row."""
        source = self._source(root)
        return NamedStore(self.labels.get(root, root), source.kinds[root], root, source.opened(root))

    def found(self, row: Row) -> StoredConversation:
        """Return the session of a row, with its store."""
        named_store = self.named_store(row.root)
        session = named_store.store.peek(row.id)  # without reading the log: the counts are in the row
        session.message_count, session.token_count = row.message_count, row.token_count
        session.last_active = row.last_active
        session.aside_count, session.branch_count = row.aside_count, row.branch_count
        session.damage, session.is_linear = row.damage, bool(row.straight)
        return StoredConversation(named_store, session)


def placed(rows: Iterable[Row], known: Mapping[Key, str] | None = None) -> list[Row]:
    """Return the rows; those of sessions that left their work tree as a whole have their `place`.

    Git is only asked if one is read from outside its store, and then once for all sessions of a workspace; not at all
    with the places that are `known` (`Listing.places`).
    """
    rows = list(rows)
    outside = [row for row in rows if row.path and not row.path.startswith(row.root + os.sep)]
    found = _places_of([(row.root, row.id, row.path) for row in outside]) if known is None else known
    return [row._replace(place=found.get((row.root, row.id), "")) for row in rows] if found else rows


def in_place(answer: Answer) -> Answer:
    """Return the answer with the same of its sessions."""
    hits = answer.hits
    rows = placed(hit.session for hit in hits)
    return answer._replace(hits=[hit._replace(session=row) for hit, row in zip(hits, rows, strict=True)])


def _places_of(outside: Sequence[tuple[str, str, str]]) -> dict[Key, str]:
    if not outside:
        return {}
    from cortext.services.library.taken_by_git import places_of

    return places_of(outside)
