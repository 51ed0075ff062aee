"""The list of all sessions, kept up to date by itself: what a list costs does not depend on how much there is.

Our own writers note in their store which session they changed. What others change (git, an editor, a tool) is seen
by cheap signs: the times of folders (also of conversations that have no session yet), git's own files, and those of
every session (a look at all of one's takes ten millionths of a second: `bench/noticing`). Only what changed is read
again. Where there are many sessions, everything is compared now and then too, by a process that nobody waits for.

This module imports nothing heavy: a list that finds nothing changed answers from the database alone.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from cortext.errors import CortextError, UnsafePath
from cortext.index.database import connect, in_memory, remade, unwritable
from cortext.io import files as fsio
from cortext.io.inside import inside
from cortext.model import asking
from cortext.model.ids import is_id
from cortext.model.session import Session
from cortext.store.base import Store
from cortext.store.files import layout_paths as shapes

Changed = tuple["Row", str, int]  # a session, the signs of its files, the number of its lot

FEW = 400  # of so many sessions all folders are gone through every time; of more, those whose times changed
MOST = 2**53  # the largest count that is kept
AT_ONCE = 500  # sessions that are asked for by name
PATIENCE = 600.0  # seconds until a look at all of very many is due again
IN_USE = ("status", "active")
PLAIN = "plain:"  # before the name of a folder without a session, among the signs

COLUMNS = (
    "id", "type", "title", "status", "tool", "agent", "root", "created_at", "last_active", "message_count",
    "token_count", "summary", "path", "kind", "damage",
    "straight",
)  # fmt: skip

# What a table shows in place of what is missing; `Row` says the same of one session.
_SHOWN = {
    "shown_type": "CASE type WHEN '' THEN kind ELSE type END",
    "shown_title": "CASE title WHEN '' THEN summary ELSE title END",
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


class Row(_Fields):
    """A session as lists show it."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """What people call it: its title, else its id."""
        return self.title or self.id

    @property
    def shown_type(self) -> str:
        """Its type, else the kind of store that it is in."""
        return self.type or self.kind

    @property
    def shown_title(self) -> str:
        """Its title, else its summary."""
        return self.title or self.summary


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
        self._folder = folder
        self._database: sqlite3.Connection = connect(folder)

    def refresh(
        self,
        sources: Iterable[StoreSource],
        progress: Callable[[int, int], None] | None = None,
        *,
        everything: bool = False,
    ) -> bool:
        """Bring the list up to date; whether a full look at some store is due (and was left for later)."""
        sources = list(sources)
        try:
            return self._refresh(sources, progress, everything=everything)
        except sqlite3.DatabaseError as error:
            self._database.close()
            # Damaged: it is made anew. It cannot be kept: it is made in memory, for this once.
            self._database = in_memory() if unwritable(error) else remade(self._folder)
            return self._refresh(sources, progress, everything=everything)

    def _refresh(
        self, sources: Sequence[StoreSource], progress: Callable[[int, int], None] | None, *, everything: bool
    ) -> bool:
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
    ) -> list[Row]:
        """Sessions of these stores, the last active first; `where` are columns and the values that they must have."""
        found = self.cells(COLUMNS, roots, where, limit=limit, order=order)
        return list(map(partial(tuple.__new__, Row), found))  # what Row._make does, without calling Python for each

    def cells(
        self,
        columns: Sequence[str],
        roots: Sequence[str],
        where: Sequence[tuple[str, str]] = (),
        *,
        limit: int = 0,
        order: str = "last_active",
    ) -> list[tuple[Any, ...]]:
        """The same sessions, of each these columns only; `order` is one of them. Half the time where there are many."""
        conditions, values = _conditions(roots, where)
        names = ", ".join([_SHOWN.get(column, column) for column in columns])
        query = f"SELECT {names} FROM session WHERE {conditions}"
        if limit > 0:
            return self._database.execute(f"{query} ORDER BY {order} DESC, id DESC LIMIT {limit}", values).fetchall()
        found = self._database.execute(query, values).fetchall()
        # Quicker than SQLite sorts whole rows. They come by id: turned round, ties are in the order of a limited list.
        found.reverse()
        found.sort(key=itemgetter(columns.index(order)), reverse=True)
        return found

    def pairs(self, roots: Sequence[str], where: Sequence[tuple[str, str]] = ()) -> list[tuple[str, str]]:
        """(store, id) alone, in no order."""
        conditions, values = _conditions(roots, where)
        return self._database.execute(f"SELECT root, id FROM session WHERE {conditions}", values).fetchall()

    def unspoken(self, root: str) -> list[tuple[str, int]]:
        """The active sessions of a store in which nothing was said yet; and how many damages each has."""
        nothing = "root = ? AND status = 'active' AND message_count = 0"
        return self._database.execute(f"SELECT id, damage FROM session WHERE {nothing}", (root,)).fetchall()

    def asking(self, roots: Sequence[str]) -> list[tuple[str, str]]:
        """(store, id) of chats that only ran our own commands."""
        return self.pairs(roots, [("asked", "1")])

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
        wanted: dict[str, list[str]] = {}
        for root, name in pairs:
            wanted.setdefault(root, []).append(name)
        found: dict[tuple[str, str], Row] = {}
        for root, names in wanted.items():  # a store at a time: SQLite looks at every row for a list of pairs
            for start in range(0, len(names), AT_ONCE):
                lot = names[start : start + AT_ONCE]
                asked = f"root = ? AND id IN ({','.join('?' * len(lot))})"
                rows = self._database.execute(f"SELECT {', '.join(COLUMNS)} FROM session WHERE {asked}", (root, *lot))
                found.update(((row.root, row.id), row) for row in map(Row._make, rows))
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
        noted, old, scanned = known or (0, "{}", 0.0)
        now_noted, changed = self._notes(noted)
        signs = self._signs() | self._plain_signs(_plain(old))
        same = (text := json.dumps(signs)) == old
        # Not how many there are, only whether they are few: that costs the same however many there are.
        few = "SELECT count(*) FROM (SELECT 1 FROM session WHERE root = ? LIMIT ?)"
        count = self.database.execute(few, (self.source.root, FEW + 1)).fetchone()[0]
        everything |= known is None or now_noted < 0 or count <= FEW or (not same and _git(text) != _git(old))
        due = not everything and time.time() - scanned > PATIENCE
        changed |= self._files_changed()
        if everything or not same:
            came, plain = self._new_and_gone()
            changed |= came
            signs = {name: sign for name, sign in signs.items() if not name.startswith(PLAIN)} | plain
            scanned = time.time() if everything else scanned
        lost = self._read_again(sorted(changed)) if changed else 0
        if lost and not everything and same:  # their folders may be there still, without a session
            signs |= self._new_and_gone()[1]
        text = json.dumps(signs)
        if changed or not same or now_noted != noted or (everything and count > FEW) or known is None:
            self.database.execute(
                "INSERT OR REPLACE INTO store VALUES (?, ?, ?, ?, ?)",
                (self.source.root, self.source.kind, max(0, now_noted), text, scanned),
            )
        return due

    def _notes(self, offset: int) -> tuple[int, set[str]]:
        """What our own writers noted since: the new end of their notes (-1: they are not what we knew), and the ids."""
        path = os.path.join(self.source.control, shapes.CHANGES)
        nothing = (-1 if offset else 0), set[str]()
        try:
            size = os.lstat(path).st_size
        except (FileNotFoundError, NotADirectoryError):
            return nothing
        if size <= offset:
            return (offset if size == offset else -1), set()

        try:
            # A workspace may be a stranger's: what a link leads to is none of our notes.
            descriptor = fsio.open_file(inside(self.source.root, path), os.O_RDONLY)
        except (FileNotFoundError, UnsafePath):
            return nothing
        with os.fdopen(descriptor, "rb") as file:
            file.seek(offset)
            raw = file.read(2 * fsio.HINTS)
        whole = raw.rfind(b"\n") + 1
        return offset + whole, set(filter(is_id, raw[:whole].decode("ascii", "replace").split("\n")))

    def _signs(self) -> dict[str, int]:
        """Times of the folders in which sessions come and go, and of git's own files."""
        root = self.source.root
        folders = [root]
        if self.source.kind in ("workspace", "home"):
            top = os.path.join(root, "conversations")
            try:
                with os.scandir(top) as entries:
                    folders = [top, *sorted([entry.path for entry in entries if entry.is_dir(follow_symlinks=False)])]
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

    def _plain_signs(self, folders: Iterable[str]) -> dict[str, int]:
        """Times of these folders, and of what is in them where a session would be."""
        signs = {}
        for folder in folders:
            for name in (folder, f"{folder}/.session"):
                try:
                    signs[f"{PLAIN}{name}"] = os.stat(os.path.join(self.source.root, name)).st_mtime_ns
                except OSError:
                    continue
        return signs

    def _new_and_gone(self) -> tuple[set[str], dict[str, int]]:
        """Sessions that came or went; and the signs of conversations without one, in which somebody may begin it."""
        known = {row[0] for row in self.database.execute("SELECT id FROM session WHERE root = ?", (self.source.root,))}
        there = set(shapes.session_ids(self.source.kind, self.source.root))
        plain: dict[str, int] = {}
        if self.source.kind in ("workspace", "home"):
            for path in shapes.conversations(self.source.root):
                name = os.path.basename(path)
                if name in there:
                    continue
                signs = self._plain_signs([path[len(self.source.root) + 1 :]])
                if shapes.is_workspace_session(path):  # since the look: the signs do not tell of it any more
                    there.add(name)
                else:
                    plain |= signs
        return (known - there) | (there - known), plain

    def _files_changed(self) -> set[str]:
        """Every session whose files are not as they were: a look at each, no reading."""
        rows = self.database.execute("SELECT id, path, signs FROM session WHERE root = ?", (self.source.root,))
        files = shapes.FILES[self.source.kind]
        return {name for name, path, signs in rows if not _as_before(files, path, signs)}

    def _read_again(self, ids: Sequence[str]) -> int:
        """Read these sessions and put them into the list; in lots, so that others need not wait. How many are gone."""
        kind, root = self.source.kind, self.source.root
        lost = 0
        for start in range(0, len(ids), 200):
            rows = []
            gone = []
            for place, session_id in enumerate(ids[start : start + 200], start + 1):
                try:
                    session = self.source.store.get(session_id)
                    rows.append((*_row(root, kind, session), self._only_asks(session)))
                except (UnsafePath, OSError):
                    rows.append((*_unreadable(root, kind, session_id), 0))
                except CortextError:
                    gone.append((root, session_id))
                if self.progress:
                    self.progress(place, len(ids))
            self._put(rows, gone)
            lost += len(gone)
        return lost

    def _only_asks(self, session: Session) -> int:
        """1 for a chat in which our own commands were used and nothing else was said."""
        if session.agent_config.command not in asking.COMMANDS or session.message_count > asking.LONGEST:
            return 0
        return int(self.source.kind == "home" and asking.only_asks(self.source.store.read(session.id)))

    def _put(self, rows: Sequence[tuple[object, ...]], gone: Sequence[tuple[str, str]]) -> None:
        """One lot, at once: with the number that tells search what is new."""
        self.database.execute("BEGIN IMMEDIATE")
        changed = self.database.execute("UPDATE counter SET changed = changed + 1 RETURNING changed").fetchone()[0]
        self.database.executemany("DELETE FROM session WHERE root = ? AND id = ?", gone)
        self.database.executemany("INSERT OR REPLACE INTO gone VALUES (?, ?, ?)", ((*pair, changed) for pair in gone))
        self.database.executemany("DELETE FROM gone WHERE root = ? AND id = ?", ((row[0], row[1]) for row in rows))
        self.database.executemany(
            f"INSERT OR REPLACE INTO session VALUES ({','.join('?' * 19)})",
            ((*row[:-1], changed, row[-1]) for row in rows),
        )
        self.database.execute("COMMIT")

    def _forget_store(self) -> None:
        ids = self.database.execute("SELECT id FROM session WHERE root = ?", (self.source.root,)).fetchall()
        self._put((), [(self.source.root, row[0]) for row in ids])
        self.database.execute("DELETE FROM store WHERE root = ?", (self.source.root,))


def _conditions(roots: Sequence[str], where: Sequence[tuple[str, str]]) -> tuple[str, list[object]]:
    """What SQL asks for, and the values in it; the columns are ours, never the user's."""
    # The plus keeps SQLite from going through a whole store where a filter names its rows at once.
    plus = "+" if any(column in ("tool", "type") or (column, value) == IN_USE for column, value in where) else ""
    conditions = [f"{plus}root IN ({','.join('?' * len(roots))})"]
    values: list[object] = list(roots)
    for column, value in where:
        if column == "damage":
            conditions.append("damage > 0")
        elif (column, value) == IN_USE:
            conditions.append("status = 'active'")  # in the words of the index of these, or SQLite would not use it
        else:
            conditions.append({"after": "last_active >= ?", "before": "last_active <= ?"}.get(column, f"{column} = ?"))
            values.append(value)
    return " AND ".join(conditions), values


def _plain(signs: str) -> list[str]:
    """Of these signs, the folders that had no session."""
    if f'"{PLAIN}' not in signs:
        return []
    names = [name.removeprefix(PLAIN) for name in json.loads(signs) if name.startswith(PLAIN)]
    return [name for name in names if not name.endswith("/.session")]


def _git(signs: str) -> dict[str, int]:
    """Of these signs, those of git's files; none of what another version wrote in its own way."""
    try:
        return {name: value for name, value in json.loads(signs).items() if name.startswith("git:")}
    except ValueError:
        return {}


def _signs_of(kind: str, path: str) -> str:
    """Size, time and inode of a session's files."""
    return " ".join([_sign_of(f"{path}/{name}" if name else path) for name in shapes.FILES[kind]])


def _as_before(files: Sequence[str], path: str, signs: str) -> bool:
    """Whether the files of a session still have these signs."""
    before = signs.split(" ")
    if len(before) != len(files):
        return False
    for name, sign in zip(files, before, strict=True):
        file = f"{path}/{name}" if name else path
        # That a file is still missing costs half as much to ask in this way.
        if os.access(file, os.F_OK) if sign == "-" else _sign_of(file) != sign:
            return False
    return True


def _sign_of(path: str) -> str:
    try:
        status = os.stat(path)
    except OSError:
        return "-"
    return f"{status.st_size}.{status.st_mtime_ns}.{status.st_ino}"


def _text(text: str) -> str:
    """As SQLite takes it: half a surrogate pair, which a file may hold, becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _count(number: int) -> int:
    """As SQLite takes it: what a file says is never trusted to fit."""
    return min(max(0, number), MOST)


def _unreadable(root: str, kind: str, session_id: str) -> tuple[object, ...]:
    """A session that is there and not ours to read: the list says so. Its signs are none, so it is tried again."""
    return (root, session_id, kind, *[""] * 7, 0, 0, "", root, 1, 0, "")


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
        _count(session.message_count),
        _count(session.token_count),
        _text(session.summary),
        _text(session.path),
        _count(session.damage),
        int(session.straight),
        _signs_of(kind, session.path),
    )
