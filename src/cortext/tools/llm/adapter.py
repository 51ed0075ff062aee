"""The adapter for llm, Simon Willison's command-line program: its log, an SQLite database.

Since 0.36 a conversation is a thread, which names its last message, and a message names the one before it. Before that,
the log had a row for each answer; conversations that were held then are still in those tables.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, ClassVar

from cortext.model.message import (
    ASSISTANT,
    FILE,
    IMAGE,
    ROLES,
    TEXT,
    THINKING,
    TOOL_CALL,
    TOOL_RESULT,
    USER,
    Message,
    Part,
)
from cortext.tools.base import Transcript, TranscriptReading
from cortext.tools.shared.building import MessageBuilder
from cortext.tools.shared.bundle import Piece, RowReading, WatchedRowTool, query
from cortext.tools.shared.leftovers import Tables
from cortext.tools.shared.lines import note
from cortext.tools.shared.program import LocalTool
from cortext.tools.shared.sqlite import columns, text_of
from cortext.tools.shared.values import Object, field, milliseconds, moment, object_of, objects, word

_FOLDER = "io.datasette.llm"
_THREADS = """
SELECT threads.id, count(turns.id), max(turns.datetime_utc), threads.datetime_utc
FROM threads LEFT JOIN turns ON turns.thread_id = threads.id GROUP BY threads.id
"""
_CONVERSATIONS = """
SELECT conversation_id, count(*), max(datetime_utc), '' FROM responses
WHERE conversation_id NOT IN (SELECT id FROM {threads}) GROUP BY conversation_id
"""
_CHAIN = """
WITH RECURSIVE chain(hash, depth) AS (
    SELECT tip_message_hash, 0 FROM threads WHERE id = ?
    UNION ALL
    SELECT messages.parent_hash, depth + 1 FROM chain JOIN messages ON messages.hash = chain.hash
    WHERE messages.parent_hash IS NOT NULL AND depth < 1000000
)
"""
_PARTS = """
SELECT messages.hash, messages.role, messages.parent_hash, parts.message_hash, parts.type, parts.text, parts.payload
FROM chain JOIN messages ON messages.hash = chain.hash LEFT JOIN parts ON parts.message_hash = messages.hash
ORDER BY chain.depth DESC, parts.position
"""
_STRAYS = (
    """
WITH RECURSIVE chain(hash) AS (
    SELECT tip_message_hash FROM threads
    UNION SELECT messages.parent_hash FROM chain JOIN messages ON messages.hash = chain.hash
)
SELECT count(*) FROM messages WHERE NOT EXISTS (SELECT 1 FROM chain WHERE chain.hash = messages.hash)
""",
    """
SELECT count(DISTINCT coalesce(message_hash, rowid)) FROM parts
WHERE NOT EXISTS (SELECT 1 FROM messages WHERE messages.hash = message_hash)
""",
    "SELECT count(*) FROM responses WHERE conversation_id IS NULL",
)
_FRAGMENTS = """
SELECT DISTINCT fragments.id, fragments.content FROM chain JOIN parts ON parts.message_hash = chain.hash
JOIN part_fragments ON part_fragments.part_id = parts.id JOIN fragments ON fragments.id = part_fragments.fragment_id
"""
_OLDER_FRAGMENTS = """
SELECT fragments.content FROM prompt_fragments JOIN fragments ON fragments.id = prompt_fragments.fragment_id
WHERE prompt_fragments.response_id = ? ORDER BY prompt_fragments."order"
"""
_ATTACHMENTS = """
SELECT DISTINCT attachments.id, attachments.type, attachments.path, attachments.url FROM chain
JOIN parts ON parts.message_hash = chain.hash JOIN part_attachments ON part_attachments.part_id = parts.id
JOIN attachments ON attachments.id = part_attachments.attachment_id
"""
_TURNS = """
SELECT parent_message_hash, tip_message_hash, model, resolved_model, input_tokens, output_tokens, datetime_utc
FROM turns WHERE thread_id = ? ORDER BY id
"""


class Llm(WatchedRowTool, LocalTool):
    """The adapter for llm; it only reads."""

    name = "llm"
    title = "llm"
    tested_version = "0.36"
    command = "llm"
    folder_variables = ("LLM_USER_PATH",)
    database_name = "logs.db"
    tables: ClassVar[Tables] = {
        "threads": ("id", "tip_message_hash", "datetime_utc", "name"),
        "turns": ("thread_id", "tip_message_hash", "datetime_utc"),
        "messages": ("hash", "parent_hash", "role"),
        "parts": ("message_hash", "position", "type", "text", "payload"),
        "responses": ("id", "conversation_id", "prompt", "response", "datetime_utc"),
        "conversations": ("id", "name"),
        "tool_calls": (),
        "tool_results": (),
        "fragments": (),
        "prompt_fragments": (),
        "part_fragments": (),
        "attachments": (),
        "part_attachments": (),
    }
    bookkeeping = (
        *("fragment_aliases", "system_fragments", "prompt_attachments", "tools", "tool_responses"),
        *("tool_instances", "tool_results_attachments", "schemas", "log", "logs"),
        *("turn_tools", "turn_fragments", "turn_search", "tool_instantiations", "embeddings", "collections"),
    )
    beside = ("embeddings.db",)
    strays = _STRAYS

    def databases(self, project: str | None = None) -> Iterable[str]:
        """Return the paths where the log may be: the variable of the program, on Linux, on macOS."""
        named = self.environ.get("LLM_USER_PATH")
        config = self.environ.get("XDG_CONFIG_HOME") or os.path.join(self.home, ".config")
        tops = (config, os.path.join(self.home, "Library", "Application Support"))
        folders = [named] if named else [os.path.join(top, _FOLDER) for top in tops]
        return [os.path.join(folder, self.database_name) for folder in folders]

    def sessions(self, database: sqlite3.Connection, path: str) -> Iterator[Transcript]:
        """Yield the threads, and the conversations of older versions that are not threads."""
        has_threads = bool(columns(database, "threads") and columns(database, "parts"))
        queries = [_THREADS] if has_threads else []
        if "conversation_id" in columns(database, "responses"):
            queries.append(_CONVERSATIONS.format(threads="threads" if has_threads else "(SELECT '' AS id)"))
        for sql in queries:
            for key, size, changed, created in database.execute(sql):
                when = milliseconds(text_of(changed) or text_of(created))
                yield Transcript(tool=self.name, key=text_of(key), path=path, size=size + 1, changed=when)

    def rows(self, database: sqlite3.Connection, key: str) -> Iterator[Piece]:
        """Yield the rows of one conversation."""
        if columns(database, "threads"):
            threads = list(query(database, "thread", "SELECT id, name FROM threads WHERE id = ?", (key,)))
            if threads:
                yield from threads
                yield from query(database, "turn", _TURNS, (key,))
                yield from query(database, "fragment", _CHAIN + _FRAGMENTS, (key,))
                yield from query(database, "attachment", _CHAIN + _ATTACHMENTS, (key,))
                yield from query(database, "part", _CHAIN + _PARTS, (key,))
                return
        yield from _older_rows(database, key)

    def reading(self, transcript: Transcript, pieces: Iterable[Piece]) -> TranscriptReading:
        """Return the messages in these rows."""
        return LlmReading(transcript, pieces)


def _older_rows(database: sqlite3.Connection, key: str) -> Iterator[Piece]:
    """Yield the rows of a conversation in the older tables: each answer with what belongs to it in others."""
    yield from query(database, "thread", "SELECT id, name FROM conversations WHERE id = ?", (key,))
    others = {
        name: sql
        for name, table, sql in (
            ("calls", "tool_calls", "SELECT tool_call_id, name, arguments FROM tool_calls WHERE response_id = ?"),
            ("results", "tool_results", "SELECT tool_call_id, name, output FROM tool_results WHERE response_id = ?"),
            ("fragments", "prompt_fragments", _OLDER_FRAGMENTS),
        )
        if columns(database, table)
    }
    answers = "SELECT * FROM responses WHERE conversation_id = ? ORDER BY datetime_utc, id"
    for _, values in query(database, "response", answers, (key,)):
        values.pop("response_json", None)  # the provider's form of what the other columns have
        for name, sql in others.items():
            values[name] = [piece.values for piece in query(database, name, sql, (values["id"],))]
        yield Piece("response", values)


Row = dict[str, Any]


class LlmReading(RowReading):
    """The messages of one conversation."""

    def __init__(self, transcript: Transcript, pieces: Iterable[Piece]) -> None:
        super().__init__(transcript, pieces)
        self._fragments: dict[int, str] = {}
        self._attachments: dict[str, Row] = {}
        self._turns: dict[str, Row] = {}  # by the message that ends it, or that it answers

    def __iter__(self) -> Iterator[Message]:
        kinds = set()
        for (kind, identity), group in groupby(self.pieces(), _group):
            rows = [piece.values for piece in group]
            if kind == "part":
                if kind not in kinds and rows[0].get("parent_hash") is not None:
                    self.damaged("missing messages", f"what was said before {identity}")
                yield from self.each([(identity, rows)], lambda found: self._messages(*found))
            elif kind == "response":
                yield from self.each(rows, lambda row: messages_of(row, self.builder))
            else:
                self._remember(kind, rows)
            kinds.add(kind)
        if "turn" in kinds and "part" not in kinds:
            self.damaged("missing messages", "the last message is not there, which names all others")

    def _remember(self, kind: str, rows: list[Row]) -> None:
        for row in rows:
            if kind == "thread":
                self.about.title = text_of(row.get("name"))
            elif kind == "fragment":
                self._fragments[row["id"]] = text_of(row.get("content"))
            elif kind == "attachment":
                self._attachments[text_of(row.get("id"))] = row
            elif kind == "turn":
                self._turns.setdefault(text_of(row.get("parent_message_hash")), row)
                self._turns[text_of(row.get("tip_message_hash"))] = row
                self.about.model = text_of(row.get("resolved_model")) or text_of(row.get("model"))

    def _messages(self, identity: str, rows: list[Row]) -> list[Message]:
        role = text_of(rows[0].get("role"))
        if role not in ROLES:
            note(self.counts.unknown, f"message of role {role}")
            return []
        turn = self._turns.get(identity, {})
        answered = role == ASSISTANT
        usage = {name: turn[name] for name in ("input_tokens", "output_tokens") if isinstance(turn.get(name), int)}
        parts = [part for number, row in enumerate(rows) for part in self._part(row, f"{identity}/{number}")]
        return self.builder.messages(
            parts,
            role=role,
            identity=identity,
            timestamp=moment(turn.get("datetime_utc")),
            model=(text_of(turn.get("resolved_model")) or text_of(turn.get("model"))) if answered else "",
            usage=(usage or None) if answered else None,
        )

    def _part(self, row: Row, reference: str) -> Iterator[Part]:
        kind, payload = text_of(row.get("type")), row.get("payload")
        values = {} if payload is None else object_of(text_of(payload))
        if values is None:
            raise ValueError("the payload is not an object")
        if kind in ("text", "reasoning"):
            text = text_of(row.get("text")) or self._resolved(values)
            if text:
                yield Part(TEXT if kind == "text" else THINKING, text=text)
        elif kind == "tool_call":
            yield Part(
                TOOL_CALL,
                id=word(values, "tool_call_id"),
                name=word(values, "name"),
                input=field(values, "arguments"),
            )
        elif kind == "tool_result":
            output = word(values, "output") or self._resolved(values)
            call, name = word(values, "tool_call_id"), word(values, "name")
            is_error = bool(field(values, "exception"))
            yield Part(TOOL_RESULT, call_id=call, name=name, output=output, is_error=is_error)
            for attached in objects(values, "attachments"):
                yield self._attachment(attached, reference)
        elif kind == "attachment":
            yield self._attachment(field(values, "attachment"), reference)
        elif row.get("message_hash") is not None:  # else a message without any part
            note(self.counts.unknown, f"part {kind or 'without a type'}")

    def _resolved(self, values: Object) -> str:
        """Return a text that borrows from fragments: files or pages that were given with a prompt."""
        found = []
        for name in ("text_ref", "output_ref"):
            for piece in objects(values, name):
                number = field(piece, "fragment")
                found.append(self._fragments.get(number, "") if isinstance(number, int) else word(piece, "literal"))
        return "".join(found)

    def _attachment(self, attached: Any, reference: str) -> Part:
        row = self._attachments.get(word(attached, "id"), {})
        media = text_of(row.get("type"))
        where = text_of(row.get("path")) or text_of(row.get("url")) or reference
        return Part(IMAGE if media.startswith("image/") else FILE, ref=where, media_type=media)


def _group(piece: Piece) -> tuple[str, str]:
    """Return what the pieces of one record have in common: a message is a row for each of its parts."""
    return piece.kind, text_of(piece.values.get("hash")) if piece.kind == "part" else ""


def messages_of(values: dict[str, Any], builder: MessageBuilder) -> Iterator[Message]:
    """Yield the results and the prompt that were sent, and the answer."""
    identity = text_of(values.get("id"))
    when = moment(values.get("datetime_utc"))
    results = [
        Part(TOOL_RESULT, call_id=_text(row, "tool_call_id"), name=_text(row, "name"), output=_text(row, "output"))
        for row in objects(values, "results")
    ]
    asked = [*(_text(row, "content") for row in objects(values, "fragments")), _text(values, "prompt")]
    texts = [Part(TEXT, text=text) for text in asked if text]
    yield from builder.messages([*results, *texts], role=USER, identity=f"{identity}/prompt", timestamp=when)
    said = [
        Part(kind, text=text)
        for kind, text in ((THINKING, _text(values, "reasoning")), (TEXT, _text(values, "response")))
        if text
    ]
    for row in objects(values, "calls"):
        arguments = _text(row, "arguments")
        call = Part(TOOL_CALL, id=_text(row, "tool_call_id"), name=_text(row, "name"))
        call.input = object_of(arguments) or arguments or None
        said.append(call)
    usage = {name: values[name] for name in ("input_tokens", "output_tokens") if isinstance(values.get(name), int)}
    model = _text(values, "resolved_model") or _text(values, "model")
    builder.about.model = model or builder.about.model
    yield from builder.messages(
        said, role=ASSISTANT, identity=identity, timestamp=when, model=model, usage=usage or None
    )


def _text(values: dict[str, Any], name: str) -> str:
    return text_of(values.get(name))
