"""The adapter for Goose: its database of sessions, and the files of lines that older versions wrote, one a session."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from cortext.errors import CortextError
from cortext.model.message import ASSISTANT, IMAGE, TEXT, THINKING, TOOL_CALL, TOOL_RESULT, USER, Message, Part
from cortext.tools.base import Counts, Leftover, Transcript, TranscriptReading, Watch
from cortext.tools.shared.building import is_error, output_of
from cortext.tools.shared.bundle import Piece, RowReading, WatchedRowTool, query
from cortext.tools.shared.folders import listing, of_project, transcript_of
from cortext.tools.shared.leftovers import Tables, unlisted_below
from cortext.tools.shared.lines import ForeignLines, concatenated_values, note
from cortext.tools.shared.program import LocalTool
from cortext.tools.shared.sqlite import columns, number_of, text_of
from cortext.tools.shared.values import Object, field, list_of, milliseconds, moment, object_of, word

_SESSIONS = """
SELECT sessions.id, working_dir, updated_at, count(messages.id), max(messages.id)
FROM sessions JOIN messages ON messages.session_id = sessions.id {only} GROUP BY sessions.id
"""
_MESSAGES = "SELECT * FROM messages WHERE session_id = ? ORDER BY created_timestamp, id"
_STRAYS = "SELECT count(*) FROM messages WHERE NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.id = session_id)"
_LINES = ".jsonl"
_ROLES = {"user": USER, "assistant": ASSISTANT}
_SKIPPED = (
    *("redactedThinking", "toolConfirmationRequest", "actionRequired", "systemNotification"),
    *("contextLengthExceeded", "summarizationRequested", "conversationCompacted"),
)


class Goose(WatchedRowTool, LocalTool):
    """The adapter for Goose; it only reads."""

    name = "goose"
    title = "Goose"
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
        return of_project(self._all(), project)

    def _all(self) -> Iterator[Transcript | None]:
        taken = set()
        for found in super().transcripts():
            taken.add(found.key)
            yield found
        for name in listing(self.folder):
            if name.endswith(_LINES) and name.removesuffix(_LINES) not in taken:
                yield self.transcript_at(os.path.join(self.folder, name))

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the session in a copy or a file of lines, or the only one of a database."""
        if not _is_lines(path):
            return super().transcript_at(path)
        key = os.path.basename(path).removesuffix(_LINES)
        return transcript_of(self.name, key, path, word(_head(path), "working_dir"), os.stat(path))

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
        return _pieces_of(transcript.path) if _is_lines(transcript.path) else super().pieces(transcript)

    def reading(self, transcript: Transcript, pieces: Iterable[Piece]) -> TranscriptReading:
        """Return the messages in these rows."""
        return GooseReading(transcript, pieces)


class GooseReading(RowReading):
    """The messages of one session in the database."""

    def __iter__(self) -> Iterator[Message]:
        yield from self.each(self._records(), self._messages)

    def _records(self) -> Iterator[Piece]:
        """Yield rows, and the records of lines in the same form: a line may have two."""
        for number, piece in enumerate(self.pieces()):
            if piece.kind != "line":
                yield piece
                continue
            values, is_complete = concatenated_values(text_of(piece.values.get("text")).encode("utf-8", "replace"))
            for value in values:
                if isinstance(value, dict):
                    yield Piece("record", value)
                else:
                    self.damaged("unexpected shape", f"line {number + 1}")
            if not is_complete:
                self.damaged("not JSON", f"line {number + 1}")

    def _messages(self, piece: Piece) -> list[Message]:
        return {"session": self._session, "message": self._row, "record": self._record}[piece.kind](piece.values)

    def _session(self, values: dict[str, Any]) -> list[Message]:
        self.about.title = text_of(values.get("name")) or text_of(values.get("description"))
        self.about.created_at = moment(text_of(values.get("created_at")))
        self.about.model = word(object_of(text_of(values.get("model_config_json"))), "model_name")
        return []

    def _row(self, values: dict[str, Any]) -> list[Message]:
        tokens = values.get("tokens")
        return self._built(
            role=text_of(values.get("role")),
            content=list_of(text_of(values.get("content_json"))),
            identity=text_of(values.get("message_id")) or f"{self.transcript.key}#{values.get('id')}",
            created=values.get("created_timestamp"),
            metadata=object_of(text_of(values.get("metadata_json"))),
            tokens=tokens if isinstance(tokens, int) else None,
        )

    def _record(self, values: dict[str, Any]) -> list[Message]:
        if "description" in values and "role" not in values:
            return self._session(values)
        role, content, created = word(values, "role"), values.get("content"), values.get("created")
        return self._built(
            role=role,
            content=content,
            identity=word(values, "id") or self.builder.identity(self.transcript.key, role, str(created), str(content)),
            created=created,
            metadata=values.get("metadata"),
        )

    def _built(
        self, *, role: str, content: Any, identity: str, created: Any, metadata: Any, tokens: int | None = None
    ) -> list[Message]:
        """Return the messages of one record; raise TypeError if its content is not a list of objects."""
        if role not in _ROLES:
            note(self.counts.unknown, f"message of role {role}" if role else "without role")
            return []
        if not isinstance(content, list) or not all(isinstance(item, dict) for item in content):
            raise TypeError("the content is not a list of objects")
        parts = [part for number, item in enumerate(content) for part in self._part(item, f"{identity}/{number}")]
        if field(metadata, "userVisible") is False:  # what Goose tells the model after a compaction
            self.about.summary = "\n\n".join(part.text for part in parts if part.type == TEXT) or self.about.summary
            note(self.counts.skipped, "compacted context")
            return []
        return self.builder.messages(
            parts, role=_ROLES[role], identity=identity, timestamp=moment(created), tokens=tokens
        )

    def _part(self, item: dict[str, Any], reference: str) -> Iterator[Part]:
        kind, identity = word(item, "type"), word(item, "id")
        if kind == "text":
            yield Part(TEXT, text=word(item, "text"))
        elif kind in ("thinking", "reasoning"):
            yield Part(THINKING, text=word(item, "thinking") or word(item, "text"))
        elif kind == "image":
            yield Part(IMAGE, ref=f"{self.transcript.key}#{reference}", media_type=word(item, "mimeType"))
        elif kind in ("toolRequest", "frontendToolRequest"):
            call = field(item, "toolCall", "value")
            name = word(call, "name") or word(item, "toolCall", "error")
            yield Part(TOOL_CALL, id=identity, name=name, input=field(call, "arguments"))
        elif kind == "toolResponse":
            result = field(item, "toolResult")
            value = field(result, "value")
            output, images = output_of(field(value, "content") if isinstance(value, dict) else value, reference)
            failed = word(result, "status") == "error" or is_error(value)
            yield Part(TOOL_RESULT, call_id=identity, output=output or word(result, "error"), is_error=failed)
            yield from images
        elif kind in _SKIPPED:
            note(self.counts.skipped, kind)
        else:
            note(self.counts.unknown, f"part {kind}" if kind else "part without type")


def _is_lines(path: str) -> bool:
    """Whether this is a session in a file of lines."""
    head = _head(path)
    return head is not None and "description" in head and ("working_dir" in head or "message_count" in head)


def _pieces_of(path: str) -> Iterator[Piece]:
    """Yield the lines of a file, without a last one that is incomplete."""
    for line in ForeignLines(path, 0, Counts()):
        yield Piece("line", {"text": line.decode("utf-8", "replace")})


def _head(path: str) -> Object | None:
    try:
        return object_of(next(iter(ForeignLines(path, 0, Counts())), b""))
    except (OSError, CortextError):
        return None
