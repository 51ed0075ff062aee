"""llm: the suite of all adapters, with the rows that llm 0.36 wrote, and with those of older versions."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cortext.model.message import Message
from cortext.testing import ReaderConformance, Samples
from cortext.tools.llm.adapter import Llm

pytestmark = pytest.mark.req("TOOL-03", "TOOL-04", "TOOL-07")

KEY = "01m7mt1q18naf8nbwa3yd0e2tc"
TABLES = """
CREATE TABLE messages (hash TEXT PRIMARY KEY, parent_hash TEXT, role TEXT, provider_metadata TEXT);
CREATE TABLE parts (id INTEGER PRIMARY KEY, message_hash TEXT, position INTEGER, type TEXT, tool_name TEXT, text TEXT,
    payload TEXT);
CREATE TABLE part_attachments (part_id INTEGER, attachment_id TEXT, "order" INTEGER);
CREATE TABLE part_fragments (part_id INTEGER, fragment_id INTEGER, "order" INTEGER);
CREATE TABLE fragments (id INTEGER PRIMARY KEY, hash TEXT, content TEXT, datetime_utc TEXT, source TEXT);
CREATE TABLE attachments (id TEXT PRIMARY KEY, type TEXT, path TEXT, url TEXT, content BLOB);
CREATE TABLE threads (id TEXT PRIMARY KEY, name TEXT, tip_message_hash TEXT, forked_from TEXT, datetime_utc TEXT);
CREATE TABLE turns (id TEXT PRIMARY KEY, thread_id TEXT, parent_message_hash TEXT, tip_message_hash TEXT, model TEXT,
    resolved_model TEXT, options_json TEXT, schema_id TEXT, input_tokens INTEGER, output_tokens INTEGER,
    token_details TEXT, duration_ms INTEGER, datetime_utc TEXT, response_json TEXT);
"""
OLD_TABLES = """
CREATE TABLE conversations (id TEXT PRIMARY KEY, name TEXT, model TEXT);
CREATE TABLE responses (id TEXT PRIMARY KEY, model TEXT, prompt TEXT, system TEXT, prompt_json TEXT, options_json TEXT,
    response TEXT, response_json TEXT, conversation_id TEXT, duration_ms INTEGER, datetime_utc TEXT,
    input_tokens INTEGER, output_tokens INTEGER, token_details TEXT, schema_id TEXT, resolved_model TEXT,
    reasoning TEXT);
CREATE TABLE fragments (id INTEGER PRIMARY KEY, hash TEXT, content TEXT, datetime_utc TEXT, source TEXT);
CREATE TABLE prompt_fragments (response_id TEXT, fragment_id INTEGER, "order" INTEGER);
CREATE TABLE tool_calls (id INTEGER PRIMARY KEY, response_id TEXT, tool_id INTEGER, name TEXT, arguments TEXT,
    tool_call_id TEXT);
CREATE TABLE tool_results (id INTEGER PRIMARY KEY, response_id TEXT, tool_id INTEGER, name TEXT, output TEXT,
    tool_call_id TEXT, instance_id INTEGER, exception TEXT);
"""

# The role of a message, and its parts: type, text, payload.
CHAIN: tuple[tuple[str, list[tuple[str, str | None, Any]]], ...] = (
    ("system", [("text", "You count birds", None)]),
    ("user", [("text", "How many herons? 答え", None), ("attachment", None, {"attachment": {"id": "a1"}})]),
    (
        "assistant",
        [
            ("reasoning", "Count them.", {"redacted": False}),
            ("text", "Let me look.", None),
            ("tool_call", None, {"name": "pond", "arguments": {"deep": 1}, "tool_call_id": "call_1"}),
        ],
    ),
    (
        "tool",
        [
            (
                "tool_result",
                None,
                {"name": "pond", "output": "two", "tool_call_id": "call_1", "attachments": [{"id": "a1"}]},
            )
        ],
    ),
    ("assistant", [("text", "Two herons.", None)]),
    ("user", [("text", None, {"text_ref": [{"fragment": 1}, {"literal": "\nand storks?"}]})]),
)


class LlmSamples(Samples):
    records = len(CHAIN)
    messages = (
        ("system", "You count birds"),
        ("user", "How many herons? 答え"),
        ("assistant", "Let me look."),
        ("tool", "two"),
        ("tool", ""),
        ("assistant", "Two herons."),
        ("user", "a long page\nand storks?"),
    )
    unknown = (b'{"unknown": true}',)
    folder = ".config/io.datasette.llm"

    def tool(self, home: Path) -> Llm:
        return Llm(str(home), {"PATH": "/nowhere"})

    def save(self, home: Path, records: int | None = None) -> None:
        self._save(home, list(CHAIN[:records]))

    def save_with(self, home: Path, index: int, record: bytes) -> None:
        kind = "hologram" if record in self.unknown else "tool_call"
        self._save(home, [*CHAIN[:index], ("assistant", [(kind, None, record)]), *CHAIN[index:]])

    def _save(self, home: Path, chain: list[tuple[str, list[tuple[str, str | None, Any]]]]) -> None:
        path = home / self.folder / "logs.db"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as database:
            database.executescript(TABLES)
            database.execute("INSERT INTO fragments VALUES (1, 'h', 'a long page', '', 'page.txt')")
            database.execute("INSERT INTO attachments VALUES ('a1', 'image/png', '/tmp/a.png', NULL, NULL)")
            before = None
            for number, (role, parts) in enumerate(chain):
                # The id of a message does not depend on what is around it, so that the suite can compare them.
                name = "b2:" + str(hash(str((role, parts))))
                database.execute("INSERT INTO messages VALUES (?, ?, ?, NULL)", (name, before, role))
                for position, (kind, text, payload) in enumerate(parts):
                    stored = payload if isinstance(payload, bytes) or payload is None else json.dumps(payload)
                    row = (name, position, kind, text, stored)
                    made = database.execute(
                        "INSERT INTO parts VALUES (NULL, ?, ?, ?, NULL, ?, CAST(? AS TEXT))", row
                    ).lastrowid
                    database.execute("INSERT INTO part_fragments VALUES (?, 1, 0)", (made,))
                    database.execute("INSERT INTO part_attachments VALUES (?, 'a1', 0)", (made,))
                turn = (f"t{number}", KEY, before, name, "gpt", f"2026-11-02T08:00:{number:02}.5+00:00")
                database.execute(
                    "INSERT INTO turns (id, thread_id, parent_message_hash, tip_message_hash, model, datetime_utc,"
                    " input_tokens, output_tokens) VALUES (?, ?, ?, ?, ?, ?, 10, 5)",
                    turn,
                )
                before = name
            thread = (KEY, "Counting herons", before, None, "2026-11-02 08:00:00+00:00")
            database.execute("INSERT INTO threads VALUES (?, ?, ?, ?, ?)", thread)
            database.commit()


class TestLlm(ReaderConformance):
    samples = LlmSamples()


class MacSamples(LlmSamples):
    folder = "Library/Application Support/io.datasette.llm"


class TestLlmOnMacOS(ReaderConformance):
    samples = MacSamples()


def read(tool: Llm) -> tuple[list[Message], Any]:
    (found,) = tool.transcripts()
    reading = tool.read(found)
    return list(reading), reading


def test_calls_attachments_times_and_usage_are_read(tmp_path: Path) -> None:
    samples = LlmSamples()
    samples.save(tmp_path)

    messages, reading = read(samples.tool(tmp_path))

    assert (reading.about.title, reading.about.model) == ("Counting herons", "gpt")
    assert messages[1].parts_of("image")[0].ref == "/tmp/a.png"
    assert messages[2].parts_of("tool_call")[0].input == {"deep": 1}
    assert (messages[2].model, messages[2].usage) == ("gpt", {"input_tokens": 10, "output_tokens": 5})
    assert messages[2].timestamp == "2026-11-02T08:00:02.500Z"
    assert messages[3].parts_of("tool_result")[0].call_id == "call_1"


def test_the_tables_of_older_versions_are_read(tmp_path: Path) -> None:
    path = tmp_path / LlmSamples.folder / "logs.db"
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(OLD_TABLES)
        database.execute("INSERT INTO conversations VALUES ('c1', 'Old herons', 'gpt-4')")
        answers = [
            ("r1", "How many?", "", "2026-01-02T08:00:00", ""),
            ("r2", "", "Two.", "2026-01-02T08:00:05", "Hm."),
        ]
        for name, prompt, response, when, reasoning in answers:
            database.execute(
                "INSERT INTO responses (id, model, prompt, response, conversation_id, datetime_utc, input_tokens,"
                " reasoning) VALUES (?, 'gpt-4', ?, ?, 'c1', ?, 3, ?)",
                (name, prompt, response, when, reasoning),
            )
        database.execute("INSERT INTO fragments VALUES (1, 'h', 'A page.', '', '')")
        database.execute("INSERT INTO prompt_fragments VALUES ('r1', 1, 0)")
        database.execute("INSERT INTO tool_calls VALUES (1, 'r1', 1, 'pond', '{\"deep\": 1}', 'call_1')")
        database.execute("INSERT INTO tool_results VALUES (1, 'r2', 1, 'pond', 'heron heron', 'call_1', NULL, NULL)")
        database.commit()
    tool = Llm(str(tmp_path), {})

    messages, reading = read(tool)

    assert [(message.role, message.text) for message in messages] == [
        ("user", "A page.\n\nHow many?"),
        ("assistant", ""),
        ("tool", "heron heron"),
        ("assistant", "Two."),
    ]
    assert messages[1].parts_of("tool_call")[0].id == messages[2].parts_of("tool_result")[0].call_id
    assert messages[3].parts_of("thinking")[0].text == "Hm."
    assert (reading.about.title, messages[3].usage) == ("Old herons", {"input_tokens": 3})
    assert reading.counts.damaged == {}
    tool.copy(next(tool.transcripts()), str(tmp_path / "native"))
    copied = tool.transcript_at(str(tmp_path / "native"))
    assert copied is not None
    assert list(tool.read(copied)) == messages


def test_another_database_has_no_conversations(tmp_path: Path) -> None:
    path = tmp_path / LlmSamples.folder / "logs.db"
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE threads (id TEXT)")
        database.commit()

    assert list(Llm(str(tmp_path), {}).transcripts()) == []
