"""The list of all sessions: filtered, ordered and looked up in the database; `index/refresh.py` keeps it up to date.

This module imports nothing heavy: if nothing has changed, a list is answered from the database alone.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from cortext.index.database import connect, in_memory, is_misuse, is_unwritable, recreate
from cortext.index.refresh import Refresh, StoreSource, derived_fields
from cortext.model.query import AMONG, FILTERS, WORD, Filter, several
from cortext.model.session import Session

Key = tuple[str, str]  # the store's root and the session's id
Changed = tuple["Row", str, int]  # a session, the fingerprint of its files, the number of its batch

AT_ONCE = 500  # sessions per query by id
LOOK_AGAIN = 2.0  # seconds for which a process that looked at the files of all sessions only refreshes quickly
IN_USE = ("status", "active")

COLUMNS = (
    "id", "type", "title", "status", "tool", "agent", "root", "created_at", "last_active", "message_count",
    "token_count", "summary", "path", "kind", "damage",
    "straight", "project", "repository", "tags", "starred", "archived", "parent", "aside_count", "branch_count",
    "place",
)  # fmt: skip

# What a table shows if the column is empty; the properties of `Row` do the same for one session.
_SHOWN = {
    "place": "''",  # git knows it: see `listing.placed`
    "shown_type": "CASE type WHEN '' THEN kind ELSE type END",
    "shown_title": "CASE title WHEN '' THEN id ELSE title END",
}


class _Fields(NamedTuple):
    id: str
    type: str
    title: str
    status: str
    tool: str
    agent: str
    root: str
    created_at: str
    last_active: str
    message_count: int
    token_count: int
    summary: str
    path: str
    kind: str
    damage: int
    straight: int
    project: str = ""
    repository: str = ""
    tags: str = ""  # separated by blanks
    starred: int = 0
    archived: int = 0
    parent: str = ""  # the session that it was forked from
    aside_count: int = 0
    branch_count: int = 1
    place: str = ""  # where git has a session that left its work tree; filled by `listing.placed`


class Row(_Fields):
    """A session as lists show it."""

    __slots__ = ()

    @property
    def line_count(self) -> int:
        """How many messages its log has, asides included."""
        return self.message_count + self.aside_count

    @property
    def tag_names(self) -> list[str]:
        """Its tags."""
        return self.tags.split()

    @property
    def name(self) -> str:
        """Its title, or its id if it has none."""
        return self.title or self.id

    @property
    def shown_type(self) -> str:
        """Its type, or the kind of store it is in if it has none."""
        return self.type or self.kind

    @property
    def shown_title(self) -> str:
        """Its title, or its id if it has none."""
        return self.name


def row_of(session: Session, root: str, kind: str) -> Row:
    """Return a session of an open store as a row of the list."""
    return Row(
        session.id,
        session.type,
        session.title,
        session.shown_status,
        session.origin.tool,
        session.agent,
        root,
        session.created_at,
        session.last_active,
        session.message_count,
        session.token_count,
        session.summary,
        session.path,
        kind,
        session.damage,
        int(session.is_linear),
        *derived_fields(root, kind, session),
    )


class SessionIndex:
    """The sessions of all known stores."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._database: sqlite3.Connection = connect(folder)
        self._looked: dict[str, float] = {}  # when the files of all sessions of a store were last looked at

    def refresh(
        self,
        sources: Iterable[StoreSource],
        progress: Callable[[int, int], None] | None = None,
        *,
        everything: bool = False,
        quick: bool = False,
    ) -> bool:
        """Bring the list up to date. Return whether a full scan of some store is due and was left for later.

        What our own writers noted and what git did is always seen; changes that others make to files in place are seen
        in the newest sessions and in active ones: in fewer with `quick`, in all with `everything`.
        """
        sources = list(sources)
        try:
            return self._refresh(sources, progress, everything=everything, quick=quick)
        except sqlite3.DatabaseError as error:
            if is_misuse(error):
                raise
            self._database.close()
            # A damaged database is recreated on disk; if the disk refuses writes, a temporary one is made in memory.
            self._database = in_memory() if is_unwritable(error) else recreate(self._folder)
            return self._refresh(sources, progress, everything=everything, quick=quick)

    def _refresh(
        self,
        sources: Sequence[StoreSource],
        progress: Callable[[int, int], None] | None,
        *,
        everything: bool,
        quick: bool,
    ) -> bool:
        due = False
        for source in sources:
            now = time.monotonic()
            looked = quick or now - self._looked.get(source.root, -LOOK_AGAIN) < LOOK_AGAIN
            due = Refresh(self._database, source, progress).run(everything=everything, quick=looked) or due
            if everything or not looked:
                self._looked[source.root] = now
        return due

    def rows(
        self,
        roots: Sequence[str],
        where: Sequence[tuple[str, str]] = (),
        *,
        limit: int = 0,
        order: str = "last_active",
    ) -> list[Row]:
        """Return sessions of these stores, last active first; `where` pairs filters, or columns, with their values."""
        found = self.cells(COLUMNS, roots, where, limit=limit, order=order)
        return [Row._make(cells) for cells in found]

    def cells(
        self,
        columns: Sequence[str],
        roots: Sequence[str],
        where: Sequence[tuple[str, str]] = (),
        *,
        limit: int = 0,
        order: str = "last_active",
    ) -> list[tuple[Any, ...]]:
        """Return only these columns of the same sessions, ordered by one of them: twice as fast for a long list."""
        conditions, values = _conditions(roots, where)
        query = f"SELECT {_selected(columns)} FROM session WHERE {conditions}"
        if limit > 0:
            return self._database.execute(f"{query} ORDER BY {order} DESC, id DESC LIMIT {limit}", values).fetchall()
        found = self._database.execute(query, values).fetchall()
        # Faster than letting SQLite sort whole rows. Rows arrive by id; reversing gives ties the same order as LIMIT.
        found.reverse()
        found.sort(key=itemgetter(columns.index(order)), reverse=True)
        return found

    def pairs(self, roots: Sequence[str], where: Sequence[tuple[str, str]] = ()) -> list[tuple[str, str]]:
        """Return (store, id) of the matching sessions, unordered."""
        conditions, values = _conditions(roots, where)
        return self._database.execute(f"SELECT root, id FROM session WHERE {conditions}", values).fetchall()

    def projects(self, roots: Sequence[str]) -> list[tuple[str, str]]:
        """Return the folders in which the sessions of these stores were held, each with its repository as JSON."""
        conditions, values = _conditions(roots, ())
        query = f"SELECT DISTINCT project, repository FROM session WHERE {conditions} AND project != ''"
        return self._database.execute(query, values).fetchall()

    def outside(self, root: str) -> list[tuple[str, str]]:
        """Return the sessions of a store that are read from a folder outside it: id and path."""
        query = "SELECT id, path FROM session WHERE root = ? AND substr(path, 1, length(root)) != root ORDER BY id"
        return self._database.execute(query, (root,)).fetchall()

    def without_repository(self, root: str) -> list[tuple[str, str]]:
        """Return the sessions of a store that have a project and no repository: id and project."""
        missing = "root = ? AND project != '' AND repository = ''"
        return self._database.execute(f"SELECT id, project FROM session WHERE {missing}", (root,)).fetchall()

    def active_without_messages(self, root: str) -> list[tuple[str, int]]:
        """Return the active sessions of a store that have no messages yet, each with its damage count."""
        nothing = "root = ? AND status = 'active' AND message_count = 0"
        return self._database.execute(f"SELECT id, damage FROM session WHERE {nothing}", (root,)).fetchall()

    def asking(self, roots: Sequence[str]) -> list[tuple[str, str]]:
        """Return (store, id) of chats that only ran our own commands."""
        return self.pairs(roots, [("asked", "1")])

    def counter(self) -> tuple[str, int]:
        """Return the identity of this database and the number of change batches it has seen."""
        changed, name = self._database.execute("SELECT changed, name FROM counter").fetchone()
        return name, changed

    def changes(self, since: int) -> tuple[list[Changed], list[tuple[str, str]]]:
        """Return the sessions changed after batch `since`, in order, and (store, id) of those removed after it."""
        rows = self._database.execute(
            f"SELECT {_selected(COLUMNS)}, signs, changed FROM session WHERE changed > ? ORDER BY changed", (since,)
        )
        gone = self._database.execute("SELECT root, id FROM gone WHERE changed > ?", (since,)).fetchall()
        return [(Row._make(row[:-2]), row[-2], row[-1]) for row in rows], gone

    def known(self) -> set[tuple[str, str]]:
        """Return (store, id) of every session."""
        return set(self._database.execute("SELECT root, id FROM session"))

    def named(self, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Row]:
        """Return the sessions with these (store, id); sessions that no longer exist are left out."""
        wanted: dict[str, list[str]] = {}
        for root, name in pairs:
            wanted.setdefault(root, []).append(name)
        found: dict[tuple[str, str], Row] = {}
        for root, names in wanted.items():  # one store at a time: for a list of pairs SQLite scans every row
            for start in range(0, len(names), AT_ONCE):
                batch = names[start : start + AT_ONCE]
                condition = f"root = ? AND id IN ({','.join('?' * len(batch))})"
                rows = self._database.execute(
                    f"SELECT {_selected(COLUMNS)} FROM session WHERE {condition}", (root, *batch)
                )
                found.update(((row.root, row.id), row) for row in map(Row._make, rows))
        return found

    def forks(self, root: str, names: Sequence[str]) -> list[Row]:
        """Return the sessions that were forked from one of these in the same store, the oldest first."""
        found: list[Row] = []
        for start in range(0, len(names), AT_ONCE):
            batch = names[start : start + AT_ONCE]
            condition = f"root = ? AND parent != '' AND parent IN ({','.join('?' * len(batch))})"
            rows = self._database.execute(f"SELECT {_selected(COLUMNS)} FROM session WHERE {condition}", (root, *batch))
            found += map(Row._make, rows)
        return sorted(found, key=lambda row: (row.created_at, row.id))

    def fingerprints(self, root: str, names: Collection[str]) -> dict[str, str]:
        """Return the fingerprints of the sessions of a store that have one of these ids."""
        condition = f"root = ? AND id IN ({','.join('?' * len(names))})"
        return dict(self._database.execute(f"SELECT id, signs FROM session WHERE {condition}", (root, *names)))

    @property
    def database(self) -> sqlite3.Connection:
        """The catalogue, for what else is derived from the logs (index/activity); after `refresh`."""
        return self._database

    def close(self) -> None:
        self._database.close()


def _selected(columns: Sequence[str]) -> str:
    """Return columns of `Row` as SQL; those of `_SHOWN` are not stored."""
    return ", ".join([_SHOWN.get(column, column) for column in columns])


def _conditions(roots: Sequence[str], where: Sequence[tuple[str, str]]) -> tuple[str, list[object]]:
    """Return the SQL condition and its values; column names are ours, never the user's."""
    # The unary plus keeps SQLite from using the index by store where a filter is far more selective.
    plus = (
        "+" if any(column in ("tool", "type", "damage") or (column, value) == IN_USE for column, value in where) else ""
    )
    conditions = [f"{plus}root IN ({','.join('?' * len(roots))})"]
    values: list[object] = list(roots)
    for name, value in where:
        if name == "damage":
            conditions.append("damage > 0")
        elif (name, value) == IN_USE:
            conditions.append("status = 'active'")  # spelt as in the partial index, or SQLite would not use it
        else:
            condition, compared = _condition(FILTERS.get(name) or Filter("", column=name), value)
            conditions.append(condition)
            values += compared
    return " AND ".join(conditions), values


def _condition(filter: Filter, value: str) -> tuple[str, list[str]]:
    """Return the SQL condition of a filter with this value, and the values in it."""
    if filter.compare == AMONG:
        return f"{filter.column} IN (SELECT value FROM json_each(?))", [value]
    if filter.compare == WORD:
        return f"instr(' ' || {filter.column} || ' ', ' ' || ? || ' ') > 0", [value]
    if filter.several and "," in value:
        names = several(value)
        return f"{filter.column} IN ({','.join('?' * len(names))})", [*names]
    return f"{filter.column} {filter.compare} ?", [value]
