"""The list of all sessions of all known stores, answered from the index, which is brought up to date first."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any, TypedDict, TypeVar, Unpack

from cortext.errors import CortextError, SessionNotFound, StoreUnreachable
from cortext.index.refresh import StoreSource
from cortext.index.sessions import COLUMNS, Row, SessionIndex
from cortext.io import locks
from cortext.model.amounts import amount
from cortext.model.ids import is_id
from cortext.model.message import Message
from cortext.model.order import tag_name
from cortext.model.status import ACTIVE, INTERRUPTED
from cortext.services.library.resolve import Key, is_number
from cortext.services.library.server_rows import ServerSource
from cortext.services.library.stores import Found, NamedStore
from cortext.store.files.layout_paths import lock_file

__all__ = ["Listing", "Row"]


Result = TypeVar("Result")
NEWEST = 1000  # sessions of a server among which a name is looked up with typing errors


class Wanted(TypedDict, total=False):
    """Which sessions to list, and in which order: see `Listing.cells`."""

    root: str
    kind: str | None
    status: str | None
    tool: str | None
    agent: str | None
    limit: int
    order: str
    roots: Sequence[str] | None
    after: str
    before: str
    asking: bool
    projects: Sequence[str] | None
    tags: Sequence[str]
    starred: bool | None
    archived: bool | None


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
        self.scan_due = False
        self._places: dict[Key, str] | None = None
        # With `partial`, a server that does not answer is left out and its error is kept here, by its address.
        self.partial = False
        self.missing: dict[str, StoreUnreachable] = {}

    @property
    def index(self) -> SessionIndex:
        """The index of sessions, for search."""
        return self._index

    def roots(self, name: str) -> list[str]:
        """Return the stores that a user means by a label, a folder's name, or its path. May be empty."""
        path = os.path.abspath(os.path.expanduser(name))
        wanted = name.casefold()
        return [
            root
            for root in (*self.sources, *self.servers)
            if root == path or wanted in (self.labels.get(root, "").casefold(), os.path.basename(root).casefold())
        ]

    def projects_of(self, folder: str) -> list[str]:
        """Return the folders in which conversations about the project in this folder were held, wherever it was.

        If the folder is inside a repository, these are the same folder in every place where the repository was, and the
        folders below.
        """
        from cortext.services.projects.projects import Projects
        from cortext.services.projects.repository import is_below, repository_of

        projects = Projects()
        folder = os.path.abspath(os.path.expanduser(folder))
        wanted = projects.repository(folder)
        known = self._index.projects([*self.sources])
        served = [row for server in self.servers.values() for row in self.from_server(server, ())]
        known += [(row.project, row.repository) for row in served]
        found = []
        for project, recorded in dict.fromkeys(known):
            repository = repository_of(json.loads(recorded)) if recorded else projects.repository(project)
            if is_below(project, folder) or (wanted.is_same(repository) and is_below(repository.inside, wanted.inside)):
                found.append(project)
        return found

    def pairs(self, roots: Sequence[str], **wanted: str) -> list[tuple[str, str]]:
        """Return (store, id) of sessions by tool, type, agent, status, project, `after` and `before` (timestamps).

        `tag` are tags separated by commas; `is` are words such as starred and archived.
        """
        status = wanted.pop("status", "")
        project = wanted.pop("project", "")
        order = order_filter(wanted.pop("tag", ""), wanted.pop("is", ""))
        projects = self.projects_of(project) if project else None
        if status in ("", "paused", "completed"):
            where = [*wanted.items(), *([("status", status)] if status else []), *_in_projects(projects)]
            return self._index.pairs(roots, [*where, *_in_order(**order)])
        rows = self.rows(
            kind=wanted.get("type"),
            tool=wanted.get("tool"),
            agent=wanted.get("agent"),
            status=status,
            projects=projects,
            **order,
        )
        return [(row.root, row.id) for row in rows if row.root in roots]

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

    def refresh(self, progress: Callable[[int, int], None] | None = None, *, quick: bool = False) -> None:
        """Bring the list up to date. `scan_due` then says whether a full comparison of all files is due.

        A `quick` one, for a process that asks all the time, sees less of what others change: see `SessionIndex`.
        """
        self._places = None
        self.scan_due = self._index.refresh(self.sources.values(), progress, quick=quick)

    def refresh_all(self) -> None:
        """Compare the files of every session with the list, however many there are."""
        self._index.refresh(self.sources.values(), everything=True)

    def rows(self, **wanted: Unpack[Wanted]) -> list[Row]:
        """Return the sessions with these properties, the newest first."""
        return list(map(partial(tuple.__new__, Row), self.cells(COLUMNS, **wanted)))

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
        found = {(row.root, row.id): row for row in self.rows(roots=[*self.sources])}
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

    def cells(
        self,
        columns: Sequence[str],
        *,
        root: str = "",
        kind: str | None = None,
        status: str | None = None,
        tool: str | None = None,
        agent: str | None = None,
        limit: int = 0,
        order: str = "last_active",
        roots: Sequence[str] | None = None,
        after: str = "",
        before: str = "",
        asking: bool = True,
        projects: Sequence[str] | None = None,
        tags: Sequence[str] = (),
        starred: bool | None = None,
        archived: bool | None = None,
    ) -> list[tuple[Any, ...]]:
        """Return only these columns of the same sessions, for tables, which can be very long.

        `status` may also be one that is shown but not stored (interrupted, damaged). `roots` are the stores to list
        (None: all), `projects` the folders that sessions were held in (None: any), `after` and `before` timestamps of
        the last activity. Titles are ordered from A to Z, everything else descending. Without `asking`, chats that only
        ran our own commands are left out. Sessions must have all `tags`; None means that it does not matter whether
        they are starred or archived.
        """
        times = [(name, value) for name, value in (("after", after), ("before", before)) if value]
        wanted = [(name, value) for name, value in (("type", kind), ("tool", tool), ("agent", agent)) if value]
        if status:
            # A session is shown as interrupted if it is stored as active and its holder has died.
            stored = ACTIVE if status == INTERRUPTED else status
            wanted.append(("damage", "") if status == "damaged" else ("status", stored))
        if roots is None:
            roots = [root] if root else [*self.sources, *self.servers]
        served = [server for server in self.servers.values() if server.root in roots]
        spawn_roots = {
            source.root for source in self.sources.values() if source.kind == "spawn" and source.root in roots
        }
        hidden = set(self.abandoned(spawn_roots)) if spawn_roots else set()
        hidden |= set() if asking else set(self._index.asking(roots))
        by_title = order == "title"
        needed = ("id", "root", "status", order) if served or spawn_roots or status or hidden or by_title else (order,)
        fetched = tuple(dict.fromkeys((*columns, *needed)))
        index_of = {name: index for index, name in enumerate(fetched)}
        most = limit + len(hidden) if limit > 0 and not status and not by_title else 0
        held_in = [*_in_projects(projects), *_in_order(tags, starred, archived)]
        found = self._index.cells(fetched, roots, [*times, *wanted, *held_in], limit=most, order=order)
        if hidden:
            found = [cells for cells in found if (cells[index_of["root"]], cells[index_of["id"]]) not in hidden]
        # What the server cannot decide is decided here, and then every session is needed. It knows nothing of tags and
        # the archive, but most sessions are in no archive.
        every = projects is not None or tags or starred or status in (INTERRUPTED, ACTIVE, "damaged")
        most = 0 if every or not limit else limit if archived is None else 2 * limit + 50

        def chosen(rows: Iterable[Row]) -> list[Row]:
            held = (row for row in rows if projects is None or row.project in projects)
            return [row for row in held if is_in_order(row, tags, starred, archived)]

        for server in served:
            inside: list[Row] = []
            for number in (most, 0):
                rows = self.from_server(server, [*times, *wanted], limit=number, order=order)
                inside = chosen(rows)
                if not number or len(rows) < number or len(inside) >= limit:
                    break
            found += map(attrgetter(*fetched), inside)
        if status == INTERRUPTED:
            stored_so = [*wanted[:-1], ("status", INTERRUPTED)]
            found += self._index.cells(fetched, roots, [*times, *stored_so, *held_in], order=order)
            for server in served:
                rows = self.from_server(server, [*times, *stored_so], order=order)
                found += map(attrgetter(*fetched), chosen(rows))
        if by_title:
            title, name = index_of["title"], index_of["id"]
            found.sort(key=lambda cells: ((cells[title] or cells[name]).casefold(), cells[name]))
        elif served or status == INTERRUPTED:
            found.sort(key=itemgetter(index_of[order], index_of["id"]), reverse=True)
        if spawn_roots:
            self._show_interrupted(found, index_of, spawn_roots)
        if status and status != "damaged":
            found = [cells for cells in found if cells[index_of["status"]] == status]
        if len(fetched) > len(columns):
            found = [cells[: len(columns)] for cells in found]
        return found[:limit] if limit > 0 else found

    def from_server(
        self, server: ServerSource, where: Sequence[tuple[str, str]], *, limit: int = 0, order: str = "last_active"
    ) -> list[Row]:
        """Return rows of a server; none if it does not answer and a partial list is wanted."""
        return self.ask(server, lambda: server.rows(where, limit=limit, order=order)) or []

    def ask(self, server: ServerSource, question: Callable[[], Result]) -> Result | None:
        """Return the answer of a server; None if it does not answer and a partial answer is wanted (see `missing`)."""
        address = server.root.partition("#")[0]
        if self.partial and address in self.missing:
            return None  # one attempt is enough
        try:
            return question()
        except StoreUnreachable as error:
            if not self.partial:
                raise
            self.missing[address] = error
            return None

    @contextmanager
    def partly(self) -> Iterator[dict[str, StoreUnreachable]]:
        """Leave out servers that do not answer while this is open; it yields `missing`, which is filled meanwhile."""
        before, self.partial = self.partial, True
        self.missing.clear()
        try:
            yield self.missing
        finally:
            self.partial = before

    def is_missing(self, root: str) -> bool:
        """Whether this store is on a server that did not answer (see `partial`)."""
        return root.partition("#")[0] in self.missing

    def _show_interrupted(self, found: list[tuple[Any, ...]], index_of: dict[str, int], spawn_roots: set[str]) -> None:
        """Change the status of active spawn sessions that no process holds: they end with their process."""
        session_id, root, status = index_of["id"], index_of["root"], index_of["status"]
        for number, cells in enumerate(found):
            if cells[status] != ACTIVE or cells[root] not in spawn_roots:
                continue
            if not self._is_held(cells[root], cells[session_id]):
                found[number] = (*cells[:status], INTERRUPTED, *cells[status + 1 :])

    def abandoned(self, roots: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield (store, id) of sessions without messages that no process holds, which no list shows.

        `roots` are spawn stores, where a session ends with its process: that one was killed, or is about to lock the
        session it has just created (see expiry.drop_abandoned).
        """
        for root in roots:
            for session_id, damage in self._index.active_without_messages(root):
                if not self._is_held(root, session_id) and (not damage or self._only_torn(root, session_id)):
                    yield root, session_id

    def _only_torn(self, root: str, session_id: str) -> bool:
        """Whether the only damage of a session is a torn line, left by a process that was killed."""
        from cortext.store.base import TORN

        try:
            return all(item.kind == TORN for item in self.sources[root].store.check(session_id))
        except (CortextError, OSError):
            return False

    def holder_died(self, root: str, session_id: str) -> bool:
        """Whether the process that held this session last was killed."""
        return locks.holder_died(self._lock(root, session_id))

    def _is_held(self, root: str, session_id: str) -> bool:
        return locks.read_holder(self._lock(root, session_id)) is not None

    def _lock(self, root: str, session_id: str) -> str:
        return lock_file(self.sources[root].control, session_id)

    def named_store(self, root: str) -> NamedStore:
        """Return the store of a row."""
        from cortext.services.library.stores import NamedStore

        source = self.servers.get(root) or self.sources[root]
        return NamedStore(self.labels.get(root, root), source.kind, root, source.store)

    def found(self, row: Row) -> Found:
        """Return the session of a row, with its store."""
        from cortext.services.library.stores import Found

        named_store = self.named_store(row.root)
        session = named_store.store.peek(row.id)  # without reading the log: the counts are in the row
        session.message_count, session.token_count = row.message_count, row.token_count
        session.last_active = row.last_active
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
    from cortext.services.projects.safety_copies import places_of

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


class OrderFilter(TypedDict):
    """A filter by tags, star and archive: see `Listing.cells`."""

    tags: Sequence[str]
    starred: bool | None
    archived: bool | None


def order_filter(tags: str, words: str) -> OrderFilter:
    """Return the filter for tags, and for words such as starred; both separated by commas, and checked before."""
    given = set(words.lower().split(","))
    return OrderFilter(
        tags=[tag_name(tag) for tag in tags.split(",") if tag.strip()],
        starred=True if "starred" in given else False if "unstarred" in given else None,
        archived=True if "archived" in given else False if "unarchived" in given else None,
    )


def is_in_order(row: Row, tags: Sequence[str], starred: bool | None, archived: bool | None) -> bool:
    """Whether a session has these tags, and the star and the archive that are wanted."""
    flags = starred in (None, bool(row.starred)) and archived in (None, bool(row.archived))
    return flags and set(tags) <= set(row.tag_names)


def _in_order(tags: Sequence[str], starred: bool | None, archived: bool | None) -> list[tuple[str, str]]:
    """Return the conditions on tags, star and archive."""
    flags = [
        (name, str(int(value))) for name, value in (("starred", starred), ("archived", archived)) if value is not None
    ]
    return [*(("tag", tag) for tag in tags), *flags]


def _in_projects(projects: Sequence[str] | None) -> list[tuple[str, str]]:
    """Return the condition that a session was held in one of these folders; none if every folder is wanted."""
    return [] if projects is None else [("projects", json.dumps(projects))]
