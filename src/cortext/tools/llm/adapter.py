"""The adapter for llm, Simon Willison's command-line program: its log, an SQLite database.

Since 0.36 a conversation is a thread, which names its last message, and a message names the one before it. Before that,
the log had a row for each answer; conversations that were held then are still in those tables.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from typing import ClassVar

from cortext.tools.base import Transcript, TranscriptReading
from cortext.tools.llm.read import LlmReading
from cortext.tools.shared.bundle import Piece
from cortext.tools.shared.leftovers import Tables
from cortext.tools.shared.program import LocalTool
from cortext.tools.shared.rows import WatchedRowTool, query
from cortext.tools.shared.sqlite import columns, text_of
from cortext.tools.shared.values import milliseconds

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
