"""The adapter for Crush: a database in each project, and a list of the projects in the user's data folder."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from cortext.model.message import ASSISTANT, FILE, IMAGE, ROLES, TEXT, THINKING, TOOL_CALL, TOOL_RESULT, Message, Part
from cortext.tools.base import Leftover, Transcript, TranscriptReading
from cortext.tools.shared.building import is_error
from cortext.tools.shared.bundle import Piece, RowReading, WatchedRowTool, query
from cortext.tools.shared.jsonc import read_object
from cortext.tools.shared.leftovers import Tables, described, is_empty, renamed, unlisted
from cortext.tools.shared.lines import note
from cortext.tools.shared.program import LocalTool
from cortext.tools.shared.sqlite import columns, number_of, text_of
from cortext.tools.shared.values import field, list_of, milliseconds, moment, object_of, objects, word

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
        return CrushReading(transcript, pieces)


class CrushReading(RowReading):
    """The messages of one session; those of its subagents are asides."""

    def __iter__(self) -> Iterator[Message]:
        yield from self.each(self.pieces(), self._messages)

    def _messages(self, piece: Piece) -> list[Message]:
        values = piece.values
        if piece.kind == "session":
            self.about.title = text_of(values.get("title"))
            self.about.created_at = moment(values.get("created_at"))
            return []
        content = list_of(text_of(values.get("parts")))
        if content is None or not all(isinstance(item, dict) for item in content):
            raise TypeError("the parts are not a list of objects")
        role, identity = text_of(values.get("role")), text_of(values.get("id"))
        if role not in ROLES:
            note(self.counts.unknown, f"message of role {role}")
            return []
        parts = [part for number, item in enumerate(content) for part in self._part(item, f"{identity}/{number}")]
        if values.get("is_summary_message"):
            self.about.summary = "\n\n".join(part.text for part in parts if part.type == TEXT)
            note(self.counts.skipped, "summary")
            return []
        model = text_of(values.get("model")) if role == ASSISTANT else ""
        self.about.model = model or self.about.model
        # A reply that Crush is still writing gets another id, because it will be different when it is finished.
        unfinished = role == ASSISTANT and not any(word(item, "type") == "finish" for item in content)
        return self.builder.messages(
            parts,
            role=role,
            identity=f"{identity}.unfinished" if unfinished else identity,
            timestamp=moment(values.get("created_at")),
            model=model,
            partial=unfinished,
            aside=text_of(values.get("session_id")) != self.transcript.key,
        )

    def _part(self, item: dict[str, Any], reference: str) -> Iterator[Part]:
        kind, data = word(item, "type"), field(item, "data")
        if kind == "text":
            if text := word(data, "text"):
                yield Part(TEXT, text=text)
        elif kind == "reasoning":
            if text := word(data, "thinking"):
                yield Part(THINKING, text=text)
        elif kind == "tool_call":
            arguments = word(data, "input")
            call = Part(TOOL_CALL, id=word(data, "id"), name=word(data, "name"))
            call.input = object_of(arguments) or arguments or None
            yield call
        elif kind == "tool_result":
            call_id, output = word(data, "tool_call_id"), word(data, "content")
            yield Part(TOOL_RESULT, call_id=call_id, name=word(data, "name"), output=output, is_error=is_error(data))
        elif kind == "image_url":
            yield Part(IMAGE, ref=word(data, "url"))
        elif kind == "binary":
            media, name = word(data, "MIMEType"), word(data, "Path")
            shown = IMAGE if media.startswith("image/") else FILE
            yield Part(shown, ref=f"{self.transcript.key}#{reference}", media_type=media, name=name)
        elif kind == "shell_command":
            yield Part(TEXT, text=f"$ {word(data, 'command')}\n{word(data, 'output')}")
        elif kind != "finish":
            note(self.counts.unknown, f"part {kind}" if kind else "part without type")
