"""The adapter for Goose: its database of sessions, and the files of lines that older versions wrote, one a session."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from cortext.tools.base import Leftover, Transcript, TranscriptReading, Watch
from cortext.tools.shared.bundle import Piece
from cortext.tools.shared.leftovers import Tables, unlisted_below
from cortext.tools.shared.local import LocalTool
from cortext.tools.shared.rows import WatchedRowTool, query
from cortext.tools.shared.sqlite import columns, number_of, text_of
from cortext.tools.shared.values import milliseconds

if TYPE_CHECKING:
    import sqlite3

_SESSIONS = """
SELECT sessions.id, working_dir, updated_at, count(messages.id), max(messages.id)
FROM sessions JOIN messages ON messages.session_id = sessions.id {only} GROUP BY sessions.id
"""
_MESSAGES = "SELECT * FROM messages WHERE session_id = ? ORDER BY created_timestamp, id"
_STRAYS = "SELECT count(*) FROM messages WHERE NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.id = session_id)"
_LINES = ".jsonl"


class Goose(WatchedRowTool, LocalTool):
    """The adapter for Goose; it only reads."""

    name = "goose"
    title = "Goose"
    tested_version = ""
    command = "goose"
    folder_variables = ("GOOSE_PATH_ROOT",)
    database_name = "sessions.db"
    proof = "samples"
    tables: ClassVar[Tables] = {
        "sessions": ("id", "working_dir", "updated_at"),
        "messages": ("id", "session_id", "role", "content_json", "created_timestamp"),
    }
    bookkeeping = ("schema_version",)
    strays = (_STRAYS,)

    def __init__(self, home: str | None = None, environ: Mapping[str, str] | None = None) -> None:
        super().__init__(home, environ)
        root = self.environ.get("GOOSE_PATH_ROOT")
        data = self.environ.get("XDG_DATA_HOME") or os.path.join(self.home, ".local", "share")
        self.folder = os.path.join(root, "data", "sessions") if root else os.path.join(data, "goose", "sessions")

    def databases(self, project: str | None = None) -> Iterable[str]:
        """Return the path of the only database."""
        return [os.path.join(self.folder, self.database_name)]

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield the sessions of the database, and the files that it has not taken over."""
        taken = set()
        for found in super().transcripts():
            taken.add(found.key)
            yield from self._wanted(found, project)
        for name in sorted(os.listdir(self.folder)) if os.path.isdir(self.folder) else ():
            if name.endswith(_LINES) and name.removesuffix(_LINES) not in taken:
                yield from self._wanted(self.transcript_at(os.path.join(self.folder, name)), project)

    def _wanted(self, found: Transcript | None, project: str | None) -> Iterator[Transcript]:
        if found is not None and (project is None or found.project in (project, os.path.realpath(project))):
            yield found

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the session in a copy or a file of lines, or the only one of a database."""
        from cortext.tools.goose.lines import is_lines, project_of

        if not is_lines(path):
            return super().transcript_at(path)
        status = os.stat(path)
        return Transcript(
            tool=self.name,
            key=os.path.basename(path).removesuffix(_LINES),
            path=path,
            project=project_of(path),
            size=status.st_size,
            changed=status.st_mtime_ns,
        )

    def leftovers(self, listed: Sequence[Transcript]) -> Iterator[Leftover]:
        """Yield what the database has beside its sessions, and the files that are no session."""
        found = list(super().leftovers(listed))
        keys, told = {transcript.key for transcript in listed}, {left.path for left in found}

        def is_known(path: str) -> bool:  # the database has taken over files of lines
            name = os.path.basename(path)
            return path in told or (name.endswith(_LINES) and name.removesuffix(_LINES) in keys)

        yield from found
        yield from unlisted_below(self.folder, listed, self.title, (self.database_name, "*.backup"), is_known)

    def watched(self) -> Watch:
        """Return the database, and the folder of the files."""
        return Watch(folders=[self.folder], files=super().watched().files)

    def changed(self, path: str) -> list[Transcript]:
        """Return the sessions of the database, or the one in a file that the database has not taken over."""
        if not path.endswith(_LINES):
            return super().changed(path)
        return [found for found in self.transcripts() if found.path == path]

    def sessions(self, database: sqlite3.Connection, path: str) -> Iterator[Transcript]:
        """Yield the sessions that a user had; those of subagents name no session that they belong to."""
        known = columns(database, "sessions")
        if "working_dir" not in known or "content_json" not in columns(database, "messages"):
            return
        only = "AND session_type NOT IN ('sub_agent', 'hidden')" if "session_type" in known else ""
        for key, project, changed, count, last in database.execute(_SESSIONS.format(only=only)):
            yield Transcript(
                tool=self.name,
                key=text_of(key),
                path=path,
                project=text_of(project),
                size=number_of(count) + number_of(last),
                changed=milliseconds(text_of(changed)),
            )

    def rows(self, database: sqlite3.Connection, key: str) -> Iterator[Piece]:
        """Yield a session and its messages."""
        yield from query(database, "session", "SELECT * FROM sessions WHERE id = ?", (key,))
        yield from query(database, "message", _MESSAGES, (key,))

    def pieces(self, transcript: Transcript) -> Iterator[Piece]:
        """Yield the rows of a session, or its lines."""
        from cortext.tools.goose.lines import is_lines, pieces_of

        return pieces_of(transcript.path) if is_lines(transcript.path) else super().pieces(transcript)

    def reading(self, transcript: Transcript, pieces: Iterable[Piece]) -> TranscriptReading:
        """Return the messages in these rows."""
        from cortext.tools.goose.read import GooseReading

        return GooseReading(transcript, pieces)
