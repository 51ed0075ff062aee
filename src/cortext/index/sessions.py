"""The list of all sessions, kept up to date by itself: what a list costs does not depend on how much there is.

Our own writers note in their store which session they changed. What others change (git, an editor, a tool) is seen
by cheap signs: the times of folders, git's own files, the newest logs; and, where there are many sessions, at the
latest by a look at all of them that nobody waits for. Only what changed is read again.

This module imports nothing heavy: a list that finds nothing changed answers from the database alone.
"""

from __future__ import annotations

import json
import os
import time
from collections import namedtuple
from functools import partial
from operator import itemgetter

from cortext.index.database import connect
from cortext.store import shapes

TYPE_CHECKING = False  # as mypy knows it: importing typing would cost a quarter of our start-up
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Sequence

    from cortext.model.session import Session
    from cortext.store.base import Store

    Changed = tuple["Row", str, int]  # a session, the signs of its files, the number of its lot

FEW = 400  # so many sessions are looked at every time
NEWEST = 20
PATIENCE = 600.0  # seconds until a look at all of very many is due again

COLUMNS = (
    "id", "type", "title", "status", "tool", "agent", "root", "created_at", "last_active", "message_count",
    "token_count", "summary", "path", "kind", "damage",
    "straight",
)  # fmt: skip

# A row for a table: paths and times that it does not show, and summaries behind a title, are not read at all.
_BRIEF = ", ".join(
    {
        "agent": "''",
        "created_at": "''",
        "token_count": "0",
        "path": "''",
        "summary": "CASE title WHEN '' THEN summary ELSE '' END",
        "root": "CASE kind WHEN 'spawn' THEN root ELSE '' END",
    }.get(column, column)
    for column in COLUMNS
)

if TYPE_CHECKING:
    from typing import NamedTuple

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
else:
    _Fields = namedtuple("_Fields", COLUMNS)  # noqa: PYI024 (typing costs start-up time)


class Row(_Fields):
    """A session as lists show it."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """What people call it: its title, else its id."""
        return self.title or self.id


class StoreSource:
    """A store as the index sees it: where it is, and how to open it when something has to be read."""

    def __init__(self, root: str, kind: str, control: str, opened: Callable[[], Store]) -> None:
        self.root, self.kind, self.control, self._opened = root, kind, control, opened
        self._store: Store | None = None

    @property
    def store(self) -> Store:
        """The store itself, opened (and its modules imported) at the first use."""
        if self._store is None:
            self._store = self._opened()
        return self._store


class SessionIndex:
    """The sessions of all known stores."""

    def __init__(self, folder: str) -> None:
        self._database: sqlite3.Connection = connect(folder)

    def refresh(
        self,
        sources: Iterable[StoreSource],
        progress: Callable[[int, int], None] | None = None,
        *,
        everything: bool = False,
    ) -> bool:
        """Bring the list up to date; whether a full look at some store is due (and was left for later)."""
        due = False
        for source in sources:
            due = _Refresh(self._database, source, progress).run(everything=everything) or due
        return due

    def rows(
        self,
        roots: Sequence[str],
        where: Sequence[tuple[str, str]] = (),
        *,
        limit: int = 0,
        order: str = "last_active",
        brief: bool = False,
    ) -> list[Row]:
        """Sessions of these stores, the last active first; `where` are columns and the values that they must have.

        `brief` rows lack what a table does not show: very many are then read in two thirds of the time.
        """
        conditions, values = _conditions(roots, where)
        query = f"SELECT {_BRIEF if brief else ', '.join(COLUMNS)} FROM session WHERE {conditions}"
        made = partial(tuple.__new__, Row)  # what Row._make does, without calling Python for each
        if limit > 0:
            return list(
                map(made, self._database.execute(f"{query} ORDER BY {order} DESC, id DESC LIMIT {limit}", values))
            )
        rows = list(map(made, self._database.execute(query, values)))
        # Quicker than SQLite sorts whole rows. They come by id: turned round, ties are in the order of a limited list.
        rows.reverse()
        rows.sort(key=itemgetter(COLUMNS.index(order)), reverse=True)
        return rows

    def pairs(self, roots: Sequence[str], where: Sequence[tuple[str, str]] = ()) -> list[tuple[str, str]]:
        """(store, id) alone, in no order."""
        conditions, values = _conditions(roots, where)
        return self._database.execute(f"SELECT root, id FROM session WHERE {conditions}", values).fetchall()

    def counter(self) -> tuple[str, int]:
        """Which database this is, and how many lots of changes it has seen."""
        changed, name = self._database.execute("SELECT changed, name FROM counter").fetchone()
        return name, changed

    def changes(self, since: int) -> tuple[list[Changed], list[tuple[str, str]]]:
        """Sessions that changed after that many lots, in order, and (store, id) of those that went away."""
        rows = self._database.execute(
            f"SELECT {', '.join(COLUMNS)}, signs, changed FROM session WHERE changed > ? ORDER BY changed", (since,)
        )
        gone = self._database.execute("SELECT root, id FROM gone WHERE changed > ?", (since,)).fetchall()
        return [(Row._make(row[:-2]), row[-2], row[-1]) for row in rows], gone

    def known(self) -> set[tuple[str, str]]:
        """(store, id) of every session."""
        return set(self._database.execute("SELECT root, id FROM session"))

    def named(self, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Row]:
        """The sessions with these (store, id); those that are gone are left out."""
        query = f"SELECT {', '.join(COLUMNS)} FROM session WHERE root = ? AND id = ?"
        found: dict[tuple[str, str], Row] = {}
        for pair in pairs:  # each by its key: SQLite looks at every row for a list of pairs
            row = self._database.execute(query, pair).fetchone()
            if row:
                found[pair] = Row._make(row)
        return found

    def close(self) -> None:
        self._database.close()


class _Refresh:
    """One look at one store."""

    def __init__(
        self, database: sqlite3.Connection, source: StoreSource, progress: Callable[[int, int], None] | None
    ) -> None:
        self.database, self.source, self.progress = database, source, progress

    def run(self, *, everything: bool) -> bool:
        known = self.database.execute(
            "SELECT noted, signs, scanned FROM store WHERE root = ?", (self.source.root,)
        ).fetchone()
        if not os.path.isdir(self.source.root):
            if known:
                self._forget_store()
            return False
        noted, signs, scanned = known or (0, "{}", 0.0)
        now_noted, changed = self._notes(noted)
        now_signs = self._signs()
        # Not how many there are, only whether they are few: that costs the same however many there are.
        few = "SELECT count(*) FROM (SELECT 1 FROM session WHERE root = ? LIMIT ?)"
        count = self.database.execute(few, (self.source.root, FEW + 1)).fetchone()[0]
        old_signs = json.loads(signs)
        everything |= known is None or now_noted < 0 or count <= FEW or _git(now_signs) != _git(old_signs)
        due = not everything and time.time() - scanned > PATIENCE
        if everything:
            changed |= self._all_changed()
            scanned = time.time()
        else:
            changed |= self._new_and_gone(old_signs, now_signs) | self._newest_changed()
        if changed:
            self._read_again(sorted(changed))
        if changed or now_signs != old_signs or now_noted != noted or (everything and count > FEW) or known is None:
            self.database.execute(
                "INSERT OR REPLACE INTO store VALUES (?, ?, ?, ?, ?)",
                (self.source.root, self.source.kind, max(0, now_noted), json.dumps(now_signs), scanned),
            )
        return due

    def _notes(self, offset: int) -> tuple[int, set[str]]:
        """What our own writers noted since: the new end of their notes (-1: they are not what we knew), and the ids."""
        path = os.path.join(self.source.control, shapes.CHANGES)
        try:
            size = os.stat(path).st_size
            if size == offset:
                return offset, set()
            if size < offset:
                return -1, set()
            with open(path, "rb") as file:
                file.seek(offset)
                raw = file.read()
        except FileNotFoundError:
            return (0, set()) if not offset else (-1, set())
        whole = raw.rfind(b"\n") + 1
        return offset + whole, {line.decode("ascii", "replace") for line in raw[:whole].split(b"\n") if line}

    def _signs(self) -> dict[str, int]:
        """Times of the folders in which sessions come and go, and of git's own files."""
        root = self.source.root
        folders = [root]
        if self.source.kind in ("workspace", "home"):
            top = os.path.join(root, "conversations")
            try:
                with os.scandir(top) as entries:
                    folders = [top, *(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))]
            except FileNotFoundError:
                folders = [root]
        begin = len(root) + 1  # every one of them lies below the root: no need for relpath, which costs a stat
        signs = {path[begin:] or ".": os.stat(path).st_mtime_ns for path in folders}
        for name in ("HEAD", "index", "ORIG_HEAD", "logs/HEAD"):
            try:
                signs[f"git:{name}"] = os.stat(os.path.join(root, ".git", name)).st_mtime_ns
            except OSError:
                continue
        return signs

    def _new_and_gone(self, old: dict[str, int], new: dict[str, int]) -> set[str]:
        """Sessions that came or went, looked for only in the folders whose time changed."""
        if old == new:
            return set()
        known = {row[0] for row in self.database.execute("SELECT id FROM session WHERE root = ?", (self.source.root,))}
        there = set(shapes.session_ids(self.source.kind, self.source.root))
        return (known - there) | (there - known)

    def _newest_changed(self) -> set[str]:
        rows = self.database.execute(
            "SELECT id, path, signs FROM session WHERE root = ? ORDER BY last_active DESC LIMIT ?",
            (self.source.root, NEWEST),
        )
        return {row[0] for row in rows if _signs_of(self.source.kind, row[1]) != row[2]}

    def _all_changed(self) -> set[str]:
        """Every session whose files are not as they were: two looks at a file each, no reading."""
        known = {
            row[0]: (row[1], row[2])
            for row in self.database.execute("SELECT id, path, signs FROM session WHERE root = ?", (self.source.root,))
        }
        changed = {name for name, (path, signs) in known.items() if _signs_of(self.source.kind, path) != signs}
        return changed | (set(shapes.session_ids(self.source.kind, self.source.root)) - set(known))

    def _read_again(self, ids: Sequence[str]) -> None:
        """Read these sessions and put them into the list; in lots, so that others need not wait."""
        from cortext.errors import CortextError

        kind, root = self.source.kind, self.source.root
        for start in range(0, len(ids), 200):
            rows = []
            gone = []
            for place, session_id in enumerate(ids[start : start + 200], start + 1):
                try:
                    session = self.source.store.get(session_id)
                    rows.append(_row(root, kind, session))
                except (CortextError, OSError):
                    gone.append((root, session_id))
                if self.progress:
                    self.progress(place, len(ids))
            self._put(rows, gone)

    def _put(self, rows: Sequence[tuple[object, ...]], gone: Sequence[tuple[str, str]]) -> None:
        """One lot, at once: with the number that tells search what is new."""
        self.database.execute("BEGIN IMMEDIATE")
        changed = self.database.execute("UPDATE counter SET changed = changed + 1 RETURNING changed").fetchone()[0]
        self.database.executemany("DELETE FROM session WHERE root = ? AND id = ?", gone)
        self.database.executemany("INSERT OR REPLACE INTO gone VALUES (?, ?, ?)", ((*pair, changed) for pair in gone))
        self.database.executemany("DELETE FROM gone WHERE root = ? AND id = ?", ((row[0], row[1]) for row in rows))
        self.database.executemany(
            f"INSERT OR REPLACE INTO session VALUES ({','.join('?' * 18)})", ((*row, changed) for row in rows)
        )
        self.database.execute("COMMIT")

    def _forget_store(self) -> None:
        ids = self.database.execute("SELECT id FROM session WHERE root = ?", (self.source.root,)).fetchall()
        self._put((), [(self.source.root, row[0]) for row in ids])
        self.database.execute("DELETE FROM store WHERE root = ?", (self.source.root,))


def _conditions(roots: Sequence[str], where: Sequence[tuple[str, str]]) -> tuple[str, list[object]]:
    """What SQL asks for, and the values in it; the columns are ours, never the user's."""
    # The plus keeps SQLite from going through a whole store where a filter names its rows at once.
    plus = "+" if any(column in ("tool", "type") for column, _ in where) else ""
    conditions = [f"{plus}root IN ({','.join('?' * len(roots))})"]
    values: list[object] = list(roots)
    for column, value in where:
        if column == "damage":
            conditions.append("damage > 0")
        else:
            conditions.append({"after": "last_active >= ?", "before": "last_active <= ?"}.get(column, f"{column} = ?"))
            values.append(value)
    return " AND ".join(conditions), values


def _git(signs: dict[str, int]) -> dict[str, int]:
    return {name: value for name, value in signs.items() if name.startswith("git:")}


def _signs_of(kind: str, path: str) -> str:
    """Size, time and inode of a session's files."""
    signs = []
    for name in shapes.FILES[kind]:
        try:
            status = os.stat(f"{path}/{name}" if name else path)
            signs.append(f"{status.st_size}.{status.st_mtime_ns}.{status.st_ino}")
        except OSError:
            signs.append("-")
    return " ".join(signs)


def _text(text: str) -> str:
    """As SQLite takes it: half a surrogate pair, which a file may hold, becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _row(root: str, kind: str, session: Session) -> tuple[object, ...]:
    return (
        root,
        session.id,
        kind,
        _text(session.type),
        _text(session.title),
        _text(session.status),
        _text(session.origin.tool),
        _text(session.agent),
        session.created_at,
        session.last_active,
        session.message_count,
        session.token_count,
        _text(session.summary),
        session.path,
        session.damage,
        int(session.straight),
        _signs_of(kind, session.path),
    )
