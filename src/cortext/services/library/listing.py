"""The list of all sessions of all known stores, answered from the index, which is brought up to date first."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

from cortext.errors import SessionNotFound, StoreUnreachable
from cortext.index.refresh import StoreSource
from cortext.index.sessions import COLUMNS, Row, SessionIndex, row_of
from cortext.io import locks
from cortext.model import clock
from cortext.model.ids import is_id
from cortext.model.message import Message
from cortext.model.query import Query
from cortext.model.session import COMPLETED, PAUSED
from cortext.model.wording import amount
from cortext.services.library.resolve import Key, is_number
from cortext.services.library.sources import IndexedSessions, Selection, ServedSessions, ServerSource, merged, selection
from cortext.services.library.stores import Found, NamedStore
from cortext.services.projects.repository import is_below, repository_of
from cortext.store.files.layout_paths import lock_file

__all__ = ["Listing", "Query", "Row", "row_of"]


Result = TypeVar("Result")
EVERYTHING = Query()
_SKEW_S = 60.0  # by which a tool's clock may be ahead
NEWEST = 1000  # sessions of a server among which a name is looked up with typing errors


class Listing:
    """The list of sessions of these stores."""

    def __init__(
        self,
        folder: str,
        sources: Sequence[StoreSource],
        labels: dict[str, str],
        servers: Sequence[ServerSource] = (),
    ) -> None:
        self._index = SessionIndex(folder)
        self.sources = {source.root: source for source in sources}
        # A server keeps its own list.
        self.servers = {server.root: server for server in servers}
        self.labels = labels
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
        return [*self.sources, *self.servers]

    def limit(self, most: int) -> int:
        """Return how many sessions to ask for: all (0), or `most` if some are on a server, where there may be many."""
        return most if self.servers else 0

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

        projects = Projects()
        folder = os.path.abspath(os.path.expanduser(folder))
        wanted = projects.repository(folder)
        known = self._index.projects([*self.sources])
        served = [row for server in self.servers.values() for row in self.from_server(server)]
        known += [(row.project, row.repository) for row in served]
        found = []
        for project, recorded in dict.fromkeys(known):
            repository = repository_of(json.loads(recorded)) if recorded else projects.repository(project)
            if is_below(project, folder) or (wanted.is_same(repository) and is_below(repository.inside, wanted.inside)):
                found.append(project)
        return found

    def pairs(self, query: Query) -> list[Key]:
        """Return (store, id) of the sessions in files that a query chooses, unordered."""
        roots, chosen = self._chosen(query)
        local = [root for root in roots if root in self.sources]
        if chosen.status in ("", PAUSED, COMPLETED):
            [status] = chosen.statuses
            return self._index.pairs(local, [*chosen.where, *status])
        return merged([self._in_files(local)], ("root", "id"), chosen)

    def messages(self, row: Row) -> Iterator[Message]:
        """Return the messages of a session."""
        if row.root in self.sources:
            from cortext.index.search.reading import messages

            return messages(self.sources[row.root], row.id, row.path)
        return iter(self.named_store(row.root).store.read(row.id))

    def reachable_messages(self, row: Row) -> Iterable[Message] | None:
        """Return the messages of a session; None if it is on a server that does not answer."""
        server = self.servers.get(row.root)
        return self.messages(row) if server is None else self.ask(server, lambda: list(self.messages(row)))

    def message(self, row: Row, seq: int) -> Message | None:
        """Return one message of a session, without decoding those before it; None if it does not exist."""
        if row.root in self.sources:
            from cortext.index.search.reading import Picking

            return Picking().picked(self.sources[row.root], row.id, row.path, [seq]).get(seq)
        found = next(iter(self.named_store(row.root).store.read(row.id, seq)), None)
        return found if found is not None and found.seq == seq else None

    def refresh(self, progress: Callable[[int, int], None] | None = None, *, quick: bool = False) -> bool:
        """Bring the list up to date; return whether a full comparison of all files is due.

        A `quick` one, for a process that asks all the time, sees less of what others change: see `SessionIndex`.
        """
        self._places = None
        return self._index.refresh(self.sources.values(), progress, quick=quick)

    def refresh_all(self) -> None:
        """Compare the files of every session with the list, however many there are."""
        self._index.refresh(self.sources.values(), everything=True)

    def rows(self, query: Query = EVERYTHING) -> list[Row]:
        """Return the sessions that a query chooses, the newest first."""
        return list(map(partial(tuple.__new__, Row), self.cells(COLUMNS, query)))

    def cells(self, columns: Sequence[str], query: Query = EVERYTHING) -> list[tuple[Any, ...]]:
        """Return only these columns of the same sessions, for tables, which can be very long."""
        roots, chosen = self._chosen(query)
        servers = [ServedSessions(server, self.from_server) for root, server in self.servers.items() if root in roots]
        local = self._in_files([root for root in roots if root in self.sources])
        return merged([local, *servers], columns, chosen)

    def _chosen(self, query: Query) -> tuple[list[str], Selection]:
        """Return the stores that a query chooses, and its other filters."""
        name = query.filters.get("workspace", "")
        roots = self.roots(name) if name else self.stores
        if query.roots is not None:
            roots = [root for root in roots if root in query.roots]
        return roots, selection(query, self.projects_of)

    def _in_files(self, roots: Sequence[str]) -> IndexedSessions:
        return IndexedSessions(self._index, self.sources, roots)

    def places(self) -> dict[Key, str]:
        """Return where git has the sessions that left their work tree as a whole, by store and id.

        Git is only asked if there are some, and then once after a refresh. For a few sessions, use `placed`.
        """
        if self._places is None:
            roots = [root for root, source in self.sources.items() if source.copies is not None]
            self._places = _places_of([(root, *pair) for root in roots for pair in self._index.outside(root)])
        return self._places

    def named(self, wanted: str, shown: Sequence[Key] | None = None) -> list[Row]:
        """Return the sessions among which a name is looked up, the newest first; `shown` is what the last list showed.

        These are all sessions in files. Of a server that has many, the newest and those whose names contain what was
        typed: typing errors are only forgiven in the newest. Without the server, only a whole id and a row of the last
        list are looked up, because any other name could mean another session. Raises StoreUnreachable.
        """
        found = {(row.root, row.id): row for row in self.rows(Query(roots=[*self.sources]))}
        number = int(wanted) if is_number(wanted.strip()) and len(wanted) < 10 else 0
        is_row = 0 < number <= len(shown or ())
        is_certain = any(session_id == wanted.strip() for _, session_id in found)
        if shown and is_row and number < 100 and wanted.strip()[0] != "0":  # not a session's own number: 001, 014, 120
            is_certain |= shown[number - 1] in found
        pieces = [("named", piece) for piece in wanted.split()[:8]]
        for server in self.servers.values():
            try:
                newest = server.rows(limit=NEWEST)
                more = server.rows(pieces, limit=NEWEST) if len(newest) == NEWEST and pieces else []
            except StoreUnreachable:
                if not is_certain:
                    raise
                break
            found |= {(row.root, row.id): row for row in (*newest, *more)}
        if shown and is_row and shown[number - 1] not in found:
            root, session_id = shown[number - 1]
            row = self.on_server(root, session_id)
            found |= {(root, session_id): row} if row else {}
        return sorted(found.values(), key=attrgetter("last_active", "id"), reverse=True)

    def on_server(self, root: str, session_id: str) -> Row | None:
        """Return the session with this id on a server; None if it is not there."""
        server = self.servers.get(root)
        try:
            return server.row(server.store.get(session_id)) if server and is_id(session_id) else None
        except SessionNotFound:
            return None

    def from_server(
        self,
        server: ServerSource,
        where: Sequence[tuple[str, str]] = (),
        limit: int = 0,
        order: str = "last_active",
    ) -> list[Row]:
        """Return rows of a server; none if it does not answer and may be left out."""
        return self.ask(server, lambda: server.rows(where, limit=limit, order=order)) or []

    def ask(self, server: ServerSource, question: Callable[[], Result]) -> Result | None:
        """Return the answer of a server; None if it does not answer and may be left out."""
        if not self._needs_all and self.is_away(server.root):
            return None  # one attempt is enough
        try:
            return question()
        except StoreUnreachable as error:
            if self._needs_all:
                raise
            self._away[server.root.partition("#")[0]] = error
            return None

    def is_away(self, root: str) -> bool:
        """Whether this store is on a server that did not answer."""
        return root.partition("#")[0] in self._away

    def abandoned(self, roots: Collection[str]) -> Iterator[Key]:
        """Yield (store, id) of sessions without messages that no process holds, in spawn stores."""
        return self._in_files(list(roots)).abandoned(roots)

    def was_said_here(self, row: Row) -> bool:
        """Whether the last of a session in files was written by this machine, and did not come with a pull."""
        try:
            written = os.stat(lock_file(self.sources[row.root].control, row.id)).st_mtime
        except OSError:
            return False  # it has never written to it
        return written + _SKEW_S > (clock.to_epoch(row.last_active) or 0.0)

    def holder_died(self, root: str, session_id: str) -> bool:
        """Whether the process that held this session last was killed."""
        return locks.holder_died(lock_file(self.sources[root].control, session_id))

    def named_store(self, root: str) -> NamedStore:
        """Return the store of a row."""
        source = self.servers.get(root) or self.sources[root]
        return NamedStore(self.labels.get(root, root), source.kind, root, source.store)

    def found(self, row: Row) -> Found:
        """Return the session of a row, with its store."""
        named_store = self.named_store(row.root)
        session = named_store.store.peek(row.id)  # without reading the log: the counts are in the row
        session.message_count, session.token_count = row.message_count, row.token_count
        session.last_active = row.last_active
        session.aside_count, session.branch_count = row.aside_count, row.branch_count
        session.damage, session.is_linear = row.damage, bool(row.straight)
        return Found(named_store, session)


def placed(rows: Iterable[Row], known: Mapping[Key, str] | None = None) -> list[Row]:
    """Return the rows; those of sessions that left their work tree as a whole have their `place`.

    Git is only asked if one is read from outside its store, and then once for all sessions of a workspace; not at all
    with the places that are `known` (`Listing.places`).
    """
    rows = list(rows)
    outside = [row for row in rows if row.path and not row.path.startswith(row.root + os.sep)]
    found = _places_of([(row.root, row.id, row.path) for row in outside]) if known is None else known
    return [row._replace(place=found.get((row.root, row.id), "")) for row in rows] if found else rows


def _places_of(outside: Sequence[tuple[str, str, str]]) -> dict[Key, str]:
    if not outside:
        return {}
    from cortext.services.library.left import places_of

    return places_of(outside)


def incomplete_line(missing: Iterable[str], *, is_current: bool = True, damaged: int = 0) -> str:
    """Return why an answer may lack something, in the words of every face; empty if it is complete.

    `missing` says why servers did not answer; `is_current` is False if the index is behind; `damaged` counts the
    damaged sessions among those that were asked for.
    """
    reasons = "; ".join(dict.fromkeys(missing))
    away = f"Sessions are missing: {reasons}." if reasons else ""
    behind = "" if is_current else "Another process is indexing right now: the newest messages may be missing."
    several = f"{amount(damaged, 'session')} {'is' if damaged == 1 else 'are'}"
    broken = f"{several} damaged, so messages may be missing: `cortext doctor` says what to do." if damaged else ""
    return " ".join(filter(None, (away, behind, broken)))
