"""The sessions of OpenCode 2, which are in other tables of the same database: one row for each message.

`session_v2` has the sessions, and `session_message` their messages in the order of `seq`. The older tables stay, and
are out of date after an upgrade; some 2.x versions kept the table `session`. So what decides is where a session's
messages are, not a version: it is one of OpenCode 2 if `session_message` has rows of it, and either `session_v2` has it
or the table of older messages has none.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

from cortext.model.message import ASSISTANT, FILE, IMAGE, TEXT, THINKING, TOOL_CALL, TOOL_RESULT, USER, Message, Part
from cortext.tools.base import Transcript, TranscriptReading
from cortext.tools.shared.building import MessageBuilder, output_of
from cortext.tools.shared.bundle import Piece, RowReading, RowTool, query
from cortext.tools.shared.lines import note
from cortext.tools.shared.sqlite import columns, connection, number_of, text_of
from cortext.tools.shared.values import Object, field, moment, object_of, objects, word

TABLE = "session_v2"
MESSAGES = "session_message"
_NEEDED = {"id", "session_id", "type", "seq", "data", "time_updated"}
_SKIPPED = ("system", "synthetic", "model-switched", "agent-switched", "location-switched")
_UNFINISHED = ("pending", "running", "streaming")
_ONLY_NEW = " AND (SELECT count(*) FROM message WHERE message.session_id = {table}.id) = 0"
# A side agent's session names its parent. UNION, not UNION ALL, ends if they form a circle.
_FAMILY = """
WITH RECURSIVE family(root, id) AS (
    SELECT id, id FROM {table} WHERE {roots}
    UNION
    SELECT family.root, {table}.id FROM {table} JOIN family ON {table}.parent_id = family.id
)
"""
_ANY = "SELECT 1 FROM {table} WHERE session_id = ? LIMIT 1"
_ROOTS = "(parent_id IS NULL OR parent_id NOT IN (SELECT id FROM {table}))"
_SESSIONS = """
SELECT family.root, root.directory, count(session_message.id), max(session_message.time_updated),
    max(member.time_updated)
FROM family JOIN {table} root ON root.id = family.root JOIN {table} member ON member.id = family.id
JOIN session_message ON session_message.session_id = family.id
WHERE family.root IN (SELECT session_id FROM session_message){only} GROUP BY family.root
"""
_MESSAGES = """
SELECT session_message.* FROM family JOIN session_message ON session_message.session_id = family.id
ORDER BY session_message.session_id != family.root, session_message.session_id, session_message.seq
"""


def is_here(database: sqlite3.Connection) -> bool:
    """Whether a database has messages in the table of OpenCode 2."""
    if not columns(database, MESSAGES) >= _NEEDED:
        return False
    return database.execute(f"SELECT 1 FROM {MESSAGES} LIMIT 1").fetchone() is not None


def has(path: str, key: str) -> bool:
    """Whether the messages of this session are in the newer table; False if the database cannot be read."""
    try:
        with connection(path) as database:
            if not is_here(database) or not database.execute(_ANY.format(table=MESSAGES), (key,)).fetchone():
                return False
            is_old = _table(database) != TABLE and columns(database, "message")
            return not is_old or not database.execute(_ANY.format(table="message"), (key,)).fetchone()
    except sqlite3.Error:
        return False


def is_compacted(path: str, key: str) -> bool:
    """Whether OpenCode replaced messages of a session by a summary."""
    with connection(path) as database:
        sql = "SELECT 1 FROM session_message WHERE session_id = ? AND type = 'compaction'"
        return database.execute(sql, (key,)).fetchone() is not None


class Version2(RowTool):
    """The part of the adapter that reads these sessions. A copy has the rows, because `opencode import` takes none."""

    name = "opencode"
    database_name = "opencode.db"

    def databases(self, project: str | None = None) -> Iterable[str]:
        """Return nothing: the adapter names the databases."""
        return ()

    def listed(self, path: str) -> list[Transcript]:
        """Return these sessions of a database; raise sqlite3.Error if it cannot be read."""
        with connection(path) as database:
            return list(self.sessions(database, path))

    def sessions(self, database: sqlite3.Connection, path: str) -> Iterator[Transcript]:
        """Yield the sessions whose messages are in the newer table, without those of side agents."""
        if not is_here(database):
            return
        table = _table(database)
        has_old = table == "session" and columns(database, "message")
        only = _ONLY_NEW.format(table="root") if has_old else ""
        sql = (_FAMILY.replace("{roots}", _ROOTS) + _SESSIONS.replace("{only}", only)).replace("{table}", table)
        for key, directory, size, changed, touched in database.execute(sql):
            yield Transcript(
                tool=self.name,
                key=text_of(key),
                path=path,
                project=text_of(directory),
                size=number_of(size),
                changed=max(1, number_of(changed), number_of(touched)),
            )

    def rows(self, database: sqlite3.Connection, key: str) -> Iterator[Piece]:
        """Yield a session, and its messages together with those of its side agents."""
        table = _table(database)
        yield from query(database, "session", f"SELECT * FROM {table} WHERE id = ?", (key,))  # one of two constants
        family = _FAMILY.replace("{roots}", "id = ?").replace("{table}", table)
        yield from query(database, "message", family + _MESSAGES, (key,))

    def reading(self, transcript: Transcript, pieces: Iterable[Piece]) -> TranscriptReading:
        """Return the messages in these rows."""
        return Version2Reading(transcript, pieces)


def _table(database: sqlite3.Connection) -> str:
    return TABLE if "id" in columns(database, TABLE) else "session"


class Version2Reading(RowReading):
    """The messages of one session; those of its side agents are asides."""

    def __init__(self, transcript: Transcript, pieces: Iterable[Piece]) -> None:
        super().__init__(transcript, pieces)
        self._builder = MessageBuilder(self.about, self.counts)

    def __iter__(self) -> Iterator[Message]:
        yield from self.each(self.pieces(), self._messages)

    def _messages(self, piece: Piece) -> list[Message]:
        values = piece.values
        if piece.kind == "session":
            self.about.title = text_of(values.get("title"))
            self.about.project = text_of(values.get("directory")) or self.about.project
            self.about.created_at = moment(values.get("time_created"))
            return []
        kind, identity = text_of(values.get("type")), text_of(values.get("id"))
        data = object_of(text_of(values.get("data")))
        if data is None:
            raise TypeError("the message is not an object")
        fields: dict[str, Any] = {
            "identity": identity,
            "timestamp": moment(values.get("time_created")),
            "aside": text_of(values.get("session_id")) != self.transcript.key,
        }
        if kind in _SKIPPED:
            note(self.counts.skipped, kind)
            return []
        if kind == "compaction":
            self.about.summary = word(data, "summary") or self.about.summary
            note(self.counts.skipped, kind)
            return []
        if kind == "user":
            return self._builder.messages(list(_prompt(data, identity)), role=USER, **fields)
        if kind == "shell":
            text = f"$ {word(data, 'command')}\n{word(data, 'output')}".rstrip()
            return self._builder.messages([Part(TEXT, text=text)], role=USER, **fields)
        if kind == "assistant":
            return self._answer(data, fields)
        note(self.counts.unknown, f"message {kind}" if kind else "message without type")
        return []

    def _answer(self, data: Object, fields: dict[str, Any]) -> list[Message]:
        provider, model = word(data, "model", "providerID"), word(data, "model", "id")
        model = f"{provider}/{model}" if provider and model else model
        self.about.model = model if model and not fields["aside"] else self.about.model
        content = data.get("content")
        if not isinstance(content, list):
            raise TypeError("the content is not a list")
        parts: list[Part] = []
        results: list[Part] = []  # those of the calls of one answer come after all of them, each on its own
        for number, item in enumerate(content):
            for part in self._part(item, f"{fields['identity']}/{number}"):
                (results if part.type == TOOL_RESULT else parts).append(part)
        failed = field(data, "error") is not None
        # A reply that is still being written gets another id, because it will be different when it is finished.
        unfinished = not failed and field(data, "time", "completed") is None
        usage = field(data, "tokens")
        messages = self._builder.messages(
            parts,
            role=ASSISTANT,
            model=model,
            partial=failed or unfinished,
            usage=usage if isinstance(usage, dict) else None,
            **fields,
        )
        for result in results:
            identity = f"{fields['identity']}/{result.call_id}"
            messages += self._builder.messages([result], role=ASSISTANT, **{**fields, "identity": identity})
        if unfinished:
            for message in messages:
                message.id = f"{message.id}.unfinished"
        return messages

    def _part(self, item: Any, reference: str) -> Iterator[Part]:
        kind = word(item, "type")
        if kind in ("text", "reasoning"):
            if text := word(item, "text"):
                yield Part(TEXT if kind == "text" else THINKING, text=text)
        elif kind == "tool":
            call, name, state = word(item, "id"), word(item, "name") or word(item, "tool"), field(item, "state")
            arguments = field(state, "input")
            if isinstance(arguments, str):  # while it is being written
                arguments = object_of(arguments) or arguments
            yield Part(TOOL_CALL, id=call, name=name, input=arguments)
            if word(state, "status") in _UNFINISHED:
                return
            is_error = word(state, "status") == "error"
            output, images = output_of(field(state, "content") or field(state, "output"), reference)
            reason = word(state, "error", "message") or word(state, "error")
            output = "\n".join(text for text in (output, reason if is_error else "") if text)
            yield Part(TOOL_RESULT, call_id=call, name=name, output=output, is_error=is_error)
            yield from images
        else:
            note(self.counts.unknown, f"part {kind}" if kind else "part without type")


def _prompt(data: Object, identity: str) -> Iterator[Part]:
    """Yield the text of a prompt, and what was attached to it."""
    if text := word(data, "text"):
        yield Part(TEXT, text=text)
    for number, file in enumerate(objects(data, "files")):
        media, uri = word(file, "mime"), word(file, "uri")
        ref = f"{identity}/{number}" if uri.startswith("data:") or not uri else uri
        yield Part(IMAGE if media.startswith("image/") else FILE, ref=ref, name=word(file, "name"), media_type=media)
