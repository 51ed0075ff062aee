"""The adapter for Crush: a database in each project, and a list of the projects in the user's data folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from cortext.tools.base import Leftover, Transcript, TranscriptReading
from cortext.tools.shared.bundle import Piece
from cortext.tools.shared.jsonc import read_object
from cortext.tools.shared.leftovers import Tables, described, is_empty, renamed, unlisted
from cortext.tools.shared.local import LocalTool
from cortext.tools.shared.rows import WatchedRowTool, query
from cortext.tools.shared.sqlite import columns, number_of, text_of
from cortext.tools.shared.values import field, milliseconds, objects, word

if TYPE_CHECKING:
    import sqlite3

_FOLDER = ".crush"
# The sessions of subagents name the one that they belong to. UNION, not UNION ALL, ends if they form a circle.
_FAMILY = """
WITH RECURSIVE family(id) AS (
    SELECT ? UNION SELECT sessions.id FROM sessions JOIN family ON sessions.parent_session_id = family.id
)
"""
_SESSIONS = """
SELECT sessions.id, sessions.updated_at, count(messages.id), max(messages.updated_at)
FROM sessions JOIN messages ON messages.session_id = sessions.id
WHERE {roots} GROUP BY sessions.id
"""
# A session whose parent is missing counts as a root.
_ROOTS = """
coalesce(sessions.parent_session_id, '') = '' OR sessions.parent_session_id NOT IN (SELECT id FROM sessions)
"""
_STRAYS = """
WITH RECURSIVE family(id) AS (
    SELECT id FROM sessions WHERE {roots}
    UNION SELECT sessions.id FROM sessions JOIN family ON sessions.parent_session_id = family.id
)
SELECT count(*) FROM messages WHERE NOT EXISTS (SELECT 1 FROM family WHERE family.id = session_id)
"""
_MESSAGES = """
SELECT messages.* FROM family JOIN messages ON messages.session_id = family.id
ORDER BY messages.created_at, messages.rowid
"""


class Crush(WatchedRowTool, LocalTool):
    """The adapter for Crush; it only reads."""

    name = "crush"
    title = "Crush"
    tested_version = ""
    command = "crush"
    database_name = "crush.db"
    proof = "samples"
    tables: ClassVar[Tables] = {
        "sessions": ("id", "parent_session_id", "updated_at"),
        "messages": ("id", "session_id", "role", "parts", "created_at", "updated_at"),
    }
    bookkeeping = ("files", "read_files", "goose_db_version")
    beside = ("crush.json",)
    strays = (_STRAYS.format(roots=_ROOTS),)

    def databases(self, project: str | None = None) -> Iterable[str]:
        """Return the databases of the projects that Crush lists, and of the one that was asked for."""
        found = [os.path.join(folder, self.database_name) for folder in self._folders()]
        if project is not None:
            found.append(os.path.join(project, _FOLDER, self.database_name))
        return list(dict.fromkeys(found))

    def leftovers(self, listed: Sequence[Transcript]) -> Iterator[Leftover]:
        """Yield the tables that are not read, and the list of projects if it cannot be read: it names the databases."""
        yield from super().leftovers(listed)
        items = field(read_object(self._list), "projects")
        if not is_empty(self._list) and not (isinstance(items, list) and all(word(item, "path") for item in items)):
            yield Leftover(self._list, f"the list of projects cannot be read: it is {described(self._list)}")
        if not os.path.exists(self._list):
            yield from unlisted(renamed(self._list), listed, self.title)

    @property
    def _list(self) -> str:
        """The file in which Crush lists the projects that it was used in."""
        data = self.environ.get("XDG_DATA_HOME") or os.path.join(self.home, ".local", "share")
        return os.path.join(data, "crush", "projects.json")

    def _folders(self) -> dict[str, str]:
        """Return the folder with the data of each project, and the project."""
        listed = read_object(self._list)
        return {
            os.path.join(word(item, "path"), word(item, "data_dir") or _FOLDER): word(item, "path")
            for item in objects(listed, "projects")
        }

    def sessions(self, database: sqlite3.Connection, path: str) -> Iterator[Transcript]:
        """Yield the sessions, without those of subagents."""
        if "parts" not in columns(database, "messages") or "parent_session_id" not in columns(database, "sessions"):
            return
        folder = os.path.dirname(path)
        project = self._folders().get(folder, "")
        if not project and os.path.basename(folder) == _FOLDER:
            project = os.path.dirname(folder)
        for key, changed, size, last in database.execute(_SESSIONS.format(roots=_ROOTS)):
            yield Transcript(
                tool=self.name,
                key=text_of(key),
                path=path,
                project=project,
                size=number_of(size),
                changed=max(milliseconds(changed), milliseconds(last)),
            )

    def rows(self, database: sqlite3.Connection, key: str) -> Iterator[Piece]:
        """Yield a session, and its messages together with those of its subagents."""
        yield from query(database, "session", "SELECT * FROM sessions WHERE id = ?", (key,))
        yield from query(database, "message", _FAMILY + _MESSAGES, (key,))

    def reading(self, transcript: Transcript, pieces: Iterable[Piece]) -> TranscriptReading:
        """Return the messages in these rows."""
        from cortext.tools.crush.read import CrushReading

        return CrushReading(transcript, pieces)
