"""Keeps the list of all sessions up to date incrementally: the cost does not depend on how much is stored.

Our own writers note in their store which session they changed. Changes by others (git, an editor, a tool) show in cheap
fingerprints: mtimes of folders (including conversations without a session yet), git's own files, and the files of every
session (10 µs per session: `bench noticing`). Only what changed is read again. Where there are many sessions, a
background process also compares everything from time to time.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence

from cortext.errors import CortextError, UnsafePath
from cortext.io import durable
from cortext.io.inside import inside
from cortext.model.asides import ASKING_COMMANDS, LONGEST_ASKING, only_asks
from cortext.model.ids import is_id
from cortext.model.order import order_of
from cortext.model.session import Session
from cortext.store.base import Store
from cortext.store.files import layout_paths
from cortext.store.files.layout_paths import CopiesView, Folders

FEW = 400  # up to this many sessions, every folder is scanned each time; beyond it, only folders whose mtime changed
MANY = 1_000  # sessions, the newest, whose files are looked at each time; those of the others by a full scan
NEWEST = 200  # the same for a quick refresh
PATIENCE = 600.0  # seconds between full scans of a large store
MOST = 2**53  # the largest count that is stored
_READ = 17  # columns that are read from the files of a session; its batch and what is derived follow
PLAIN = "plain:"  # prefix, in a store's fingerprint, of a folder without a session


class StoreSource:
    """A store as the index sees it: where it is, and how to open it when something must be read."""

    def __init__(
        self, root: str, kind: str, control: str, opened: Callable[[], Store], copies: CopiesView | None = None
    ) -> None:
        self.root, self.kind, self.control, self._opened = root, kind, control, opened
        self.copies = copies
        self._store: Store | None = None

    @property
    def store(self) -> Store:
        """The store itself; opened (and its modules imported) on first use."""
        if self._store is None:
            self._store = self._opened()
        return self._store

    def folders(self) -> Folders:
        """Return what checks that a path is inside this store."""
        return Folders(self.root, self.copies.folder if self.copies else "")

    def paths(self) -> dict[str, str]:
        """Return the ids of all sessions, those of a workspace with the folder to read them from."""
        if self.kind not in ("workspace", "home"):
            return dict.fromkeys(layout_paths.session_ids(self.kind, self.root), "")
        paths = filter(layout_paths.is_workspace_session, layout_paths.conversations(self.root))
        found = {os.path.basename(path): self.copies.view(path) if self.copies else path for path in paths}
        away = self.copies.away(found) if self.copies else ()
        return found | {os.path.basename(path): path for path in away}


class Refresh:
    """One refresh of one store."""

    def __init__(
        self, database: sqlite3.Connection, source: StoreSource, progress: Callable[[int, int], None] | None
    ) -> None:
        self.database, self.source, self.progress = database, source, progress

    def run(self, *, everything: bool, quick: bool) -> bool:
        """Bring the list up to date. Return whether a full scan is due and was left for later."""
        known = self.database.execute(
            "SELECT noted, signs, scanned FROM store WHERE root = ?", (self.source.root,)
        ).fetchone()
        if not os.path.isdir(self.source.root):
            if known:
                self._forget_store()
            return False
        noted, old, scanned = known or (0, "{}", 0.0)
        now_noted, changed = self._notes(noted)
        fingerprint = self._store_fingerprint() | self._plain_fingerprints(_plain_folders(old))
        same = (text := json.dumps(fingerprint)) == old
        # Only whether there are few: the cost does not grow with the number of sessions.
        few = "SELECT count(*) FROM (SELECT 1 FROM session WHERE root = ? LIMIT ?)"
        count = self.database.execute(few, (self.source.root, FEW + 1)).fetchone()[0]
        everything |= known is None or now_noted < 0 or count <= FEW or (not same and _git(text) != _git(old))
        due = not everything and time.time() - scanned > PATIENCE
        changed |= self._files_changed(None if everything else NEWEST if quick else MANY)
        if everything or not same:
            came, plain = self._new_and_gone()
            changed |= came
            fingerprint = {name: value for name, value in fingerprint.items() if not name.startswith(PLAIN)} | plain
            scanned = time.time() if everything else scanned
        lost = self._read_again(sorted(changed)) if changed else 0
        if lost and not everything and same:  # their folders may still exist, without a session
            fingerprint |= self._new_and_gone()[1]
        text = json.dumps(fingerprint)
        if changed or not same or now_noted != noted or (everything and count > FEW) or known is None:
            self.database.execute(
                "INSERT OR REPLACE INTO store VALUES (?, ?, ?, ?, ?)",
                (self.source.root, self.source.kind, max(0, now_noted), text, scanned),
            )
        return due

    def _notes(self, offset: int) -> tuple[int, set[str]]:
        """Return the new end of our writers' notes (-1 if the file was replaced), and the ids noted since `offset`."""
        path = os.path.join(self.source.control, layout_paths.CHANGES)
        nothing = (-1 if offset else 0), set[str]()
        try:
            size = os.lstat(path).st_size
        except (FileNotFoundError, NotADirectoryError):
            return nothing
        if size <= offset:
            return (offset if size == offset else -1), set()

        try:
            # The workspace may be a stranger's: never follow a link out of it.
            descriptor = durable.open_file(inside(self.source.root, path), os.O_RDONLY)
        except (FileNotFoundError, UnsafePath):
            return nothing
        with os.fdopen(descriptor, "rb") as file:
            file.seek(offset)
            raw = file.read(2 * durable.HINTS)
        whole = raw.rfind(b"\n") + 1
        return offset + whole, set(filter(is_id, raw[:whole].decode("ascii", "replace").split("\n")))

    def _store_fingerprint(self) -> dict[str, int]:
        """Return the mtimes of the folders in which sessions are created and removed, and of git's own files."""
        root = self.source.root
        folders = [root]
        if self.source.kind in ("workspace", "home"):
            top = os.path.join(root, "conversations")
            try:
                with os.scandir(top) as entries:
                    folders = [top, *sorted([entry.path for entry in entries if entry.is_dir(follow_symlinks=False)])]
            except FileNotFoundError:
                folders = [root]
        begin = len(root) + 1  # all of them are below the root; relpath would cost a stat
        fingerprint = {path[begin:] or ".": os.stat(path).st_mtime_ns for path in folders}
        for name in ("HEAD", "index", "ORIG_HEAD", "logs/HEAD"):
            try:
                fingerprint[f"git:{name}"] = os.stat(os.path.join(root, ".git", name)).st_mtime_ns
            except OSError:
                continue
        return fingerprint

    def _plain_fingerprints(self, folders: Iterable[str]) -> dict[str, int]:
        """Return the mtimes of these folders and of the `.session` folder in each."""
        fingerprint = {}
        for folder in folders:
            for name in (folder, f"{folder}/.session"):
                try:
                    fingerprint[f"{PLAIN}{name}"] = os.stat(os.path.join(self.source.root, name)).st_mtime_ns
                except OSError:
                    continue
        return fingerprint

    def _new_and_gone(self) -> tuple[set[str], dict[str, int]]:
        """Return the sessions that appeared or disappeared, and the fingerprints of conversations without a session."""
        known = dict(self.database.execute("SELECT id, path FROM session WHERE root = ?", (self.source.root,)))
        existing = self.source.paths()
        plain: dict[str, int] = {}
        if self.source.kind in ("workspace", "home"):
            for path in layout_paths.conversations(self.source.root):
                name = os.path.basename(path)
                if name in existing:
                    continue
                fingerprint = self._plain_fingerprints([path[len(self.source.root) + 1 :]])
                if layout_paths.is_workspace_session(path):  # created after the listing; its fingerprint would hide it
                    existing[name] = path
                else:
                    plain |= fingerprint
        copies = self.source.copies
        moved = {
            name
            for name in known.keys() & existing.keys()
            if copies and copies.is_copy(known[name]) != copies.is_copy(existing[name])
        }
        return (known.keys() ^ existing.keys()) | moved, plain

    def _files_changed(self, newest: int | None) -> set[str]:
        """Return the sessions whose files changed; this calls stat on each file but reads none.

        With `newest`, only so many sessions are looked at, and so many of those that are active.
        """
        query = "SELECT id, path, signs FROM session WHERE root = ?"
        rows = self.database.execute(query, (self.source.root,)) if newest is None else self._in_use(query, newest)
        files = layout_paths.FILES[self.source.kind]
        return {name for name, path, fingerprint in rows if not _is_unchanged(files, path, fingerprint)}

    def _in_use(self, query: str, newest: int) -> list[tuple[str, str, str]]:
        order = f"ORDER BY last_active DESC LIMIT {newest}"
        return [
            row
            for condition in ("", "AND status = 'active'")
            for row in self.database.execute(f"{query} {condition} {order}", (self.source.root,))
        ]

    def _read_again(self, ids: Sequence[str]) -> int:
        """Read these sessions into the list, in batches so that others need not wait. Return how many are gone."""
        kind, root = self.source.kind, self.source.root
        lost = 0
        for start in range(0, len(ids), 200):
            rows = []
            gone = []
            for done, session_id in enumerate(ids[start : start + 200], start + 1):
                try:
                    session = self.source.store.get(session_id)
                    derived = (self._only_asks(session), *derived_fields(root, kind, session))
                    rows.append((*_row(root, kind, session), *derived))
                except (UnsafePath, OSError):
                    rows.append((*_unreadable(root, kind, session_id), 0, "", "", "", 0, 0, "", 0, 1))
                except CortextError:
                    gone.append((root, session_id))
                if self.progress:
                    self.progress(done, len(ids))
            self._put(rows, gone)
            lost += len(gone)
        return lost

    def _only_asks(self, session: Session) -> int:
        """Return 1 for a chat in which only our own commands were used."""
        if session.agent_config.command not in ASKING_COMMANDS or session.message_count > LONGEST_ASKING:
            return 0
        return int(self.source.kind == "home" and only_asks(self.source.store.read(session.id)))

    def _put(self, rows: Sequence[tuple[object, ...]], gone: Sequence[tuple[str, str]]) -> None:
        """Store one batch in one transaction, with the number that tells search what is new."""
        self.database.execute("BEGIN IMMEDIATE")
        try:
            self._put_inside(rows, gone)
            self.database.execute("COMMIT")
        except BaseException:
            if self.database.in_transaction:  # a full disk has already ended the transaction
                self.database.execute("ROLLBACK")
            raise

    def _put_inside(self, rows: Sequence[tuple[object, ...]], gone: Sequence[tuple[str, str]]) -> None:
        changed = self.database.execute("UPDATE counter SET changed = changed + 1 RETURNING changed").fetchone()[0]
        self.database.executemany("DELETE FROM session WHERE root = ? AND id = ?", gone)
        self.database.executemany("INSERT OR REPLACE INTO gone VALUES (?, ?, ?)", ((*pair, changed) for pair in gone))
        self.database.executemany("DELETE FROM gone WHERE root = ? AND id = ?", ((row[0], row[1]) for row in rows))
        self.database.executemany(
            f"INSERT OR REPLACE INTO session VALUES ({','.join('?' * 27)})",
            ((*row[:_READ], changed, *row[_READ:]) for row in rows),
        )

    def _forget_store(self) -> None:
        ids = self.database.execute("SELECT id FROM session WHERE root = ?", (self.source.root,)).fetchall()
        self._put((), [(self.source.root, row[0]) for row in ids])
        self.database.execute("DELETE FROM store WHERE root = ?", (self.source.root,))


def _plain_folders(fingerprint: str) -> list[str]:
    """Return the folders in this store fingerprint that had no session."""
    if f'"{PLAIN}' not in fingerprint:
        return []

    names = [name.removeprefix(PLAIN) for name in json.loads(fingerprint) if name.startswith(PLAIN)]
    return [name for name in names if not name.endswith("/.session")]


def _git(fingerprint: str) -> dict[str, int]:
    """Return git's files in this store fingerprint; nothing if another version wrote it in its own format."""
    try:
        return {name: value for name, value in json.loads(fingerprint).items() if name.startswith("git:")}
    except ValueError:
        return {}


def _fingerprint(kind: str, path: str) -> str:
    """Return the size, mtime and inode of each of a session's files."""
    return " ".join([_file_fingerprint(f"{path}/{name}" if name else path) for name in layout_paths.FILES[kind]])


def _is_unchanged(files: Sequence[str], path: str, fingerprint: str) -> bool:
    """Whether the files of a session still have this fingerprint."""
    before = fingerprint.split(" ")
    if len(before) != len(files):
        return False
    for name, value in zip(files, before, strict=True):
        file = f"{path}/{name}" if name else path
        # For a file that was missing, access costs half as much as stat.
        if os.access(file, os.F_OK) if value == "-" else _file_fingerprint(file) != value:
            return False
    return True


def _file_fingerprint(path: str) -> str:
    try:
        status = os.stat(path)
    except OSError:
        return "-"
    return f"{status.st_size}.{status.st_mtime_ns}.{status.st_ino}"


def _text(text: str) -> str:
    """Return text that SQLite accepts: a lone surrogate, which a file may contain, becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _count(number: int) -> int:
    """Return a number that fits into SQLite: what a file says is not trusted."""
    return min(max(0, number), MOST)


def _unreadable(root: str, kind: str, session_id: str) -> tuple[object, ...]:
    """Return the row of a session that exists but cannot be read. Its fingerprint is empty, so it is retried."""
    return (root, session_id, kind, *[""] * 7, 0, 0, "", root, 1, 0, "")


def derived_fields(root: str, kind: str, session: Session) -> tuple[str, str, str, int, int, str, int, int]:
    """Return the last columns of a row: project, repository, tags, starred, archived, parent, asides, branches.

    The project is the folder that a session was held in, which for a workspace is that itself.
    """
    project, repository = session.extra.get("project"), session.extra.get("repository")
    folder = root if kind == "workspace" else project if isinstance(project, str) else ""
    order = order_of(session.extra)
    recorded = json.dumps(repository) if isinstance(repository, dict) else ""
    forked = session.extra.get("forked_from")
    parent = forked.get("session") if isinstance(forked, dict) else None
    tags, parent = " ".join(order.tags), parent if isinstance(parent, str) and is_id(parent) else ""
    return (
        _text(folder),
        recorded,
        tags,
        int(order.starred),
        int(order.archived),
        parent,
        session.aside_count,
        session.branch_count,
    )


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
        int(session.is_linear),
        _fingerprint(kind, session.path),
    )
