"""Goose: the suite of all adapters, with a session in its database and one in a file of lines."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cortext.testing import LineReaderConformance, LineSamples, ReaderConformance, Samples
from cortext.tools.goose.adapter import Goose

pytestmark = pytest.mark.req("TOOL-03", "TOOL-04", "TOOL-07")

KEY = "20261102_1"
PROJECT = "/work/pond"
FOLDER = ".local/share/goose/sessions"
TABLES = """
CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT NOT NULL DEFAULT '', description TEXT NOT NULL DEFAULT '',
    user_set_name BOOLEAN DEFAULT FALSE, session_type TEXT NOT NULL DEFAULT 'user', working_dir TEXT NOT NULL,
    created_at TIMESTAMP, updated_at TIMESTAMP, model_config_json TEXT);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT, session_id TEXT NOT NULL,
    role TEXT NOT NULL, content_json TEXT NOT NULL, created_timestamp INTEGER NOT NULL, timestamp TIMESTAMP,
    tokens INTEGER, metadata_json TEXT);
"""
Content = list[dict[str, Any]]
RECORDS: tuple[tuple[str, Content], ...] = (
    (
        "user",
        [{"type": "text", "text": "How many herons? 答え"}, {"type": "image", "data": "x", "mimeType": "image/png"}],
    ),
    (
        "assistant",
        [
            {"type": "thinking", "thinking": "Count.", "signature": ""},
            {"type": "redactedThinking", "data": "x"},
            {"type": "text", "text": "Let me look."},
            {
                "type": "toolRequest",
                "id": "call_1",
                "toolCall": {"status": "success", "value": {"name": "shell", "arguments": {"command": "ls"}}},
            },
            {"type": "toolConfirmationRequest", "id": "call_1", "toolName": "shell", "arguments": {}, "prompt": None},
        ],
    ),
    (
        "user",
        [
            {
                "type": "toolResponse",
                "id": "call_1",
                "toolResult": {
                    "status": "success",
                    "value": {"content": [{"type": "text", "text": "heron heron"}], "isError": False},
                },
            },
        ],
    ),
    (
        "assistant",
        [{"type": "toolRequest", "id": "call_2", "toolCall": {"status": "error", "error": "no such tool"}}],
    ),
    ("user", [{"type": "toolResponse", "id": "call_2", "toolResult": {"status": "error", "error": "failed"}}]),
    (
        "assistant",
        [
            {"type": "text", "text": "Two."},
            {"type": "systemNotification", "notificationType": "inlineMessage", "msg": ""},
        ],
    ),
    ("user", [{"type": "text", "text": "And storks?"}]),
)
MESSAGES = (
    ("user", "How many herons? 答え"),
    ("assistant", "Let me look."),
    ("tool", "heron heron"),
    ("assistant", ""),
    ("tool", "failed"),
    ("assistant", "Two."),
    ("user", "And storks?"),
)


class GooseSamples(Samples):
    project = PROJECT
    records = len(RECORDS)
    messages = MESSAGES
    unknown = (b'[{"type": "hologram"}]', b"[{}]")
    broken = (b'[{"type": "text"}, 7]',)

    def tool(self, home: Path) -> Goose:
        return Goose(str(home), {"PATH": "/nowhere"})

    def save(self, home: Path, records: int | None = None) -> None:
        self._save(home, [(role, json.dumps(content).encode()) for role, content in RECORDS[:records]])

    def save_with(self, home: Path, index: int, record: bytes) -> None:
        records = [(role, json.dumps(content).encode()) for role, content in RECORDS]
        self._save(home, [*records[:index], ("user", record), *records[index:]])

    def _save(self, home: Path, records: list[tuple[str, bytes]]) -> None:
        path = home / FOLDER / "sessions.db"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as database:
            database.executescript(TABLES)
            sessions = ((KEY, "Counting herons", "user"), ("sub", "", "sub_agent"), ("empty", "", "user"))
            for key, name, kind in sessions:
                database.execute(
                    "INSERT INTO sessions (id, name, session_type, working_dir, created_at, updated_at,"
                    " model_config_json) VALUES (?, ?, ?, ?, '2026-11-02 08:00:00', '2026-11-02 08:00:09', ?)",
                    (key, name, kind, PROJECT, '{"model_name": "gpt-5"}'),
                )
            database.execute(
                "INSERT INTO messages (session_id, role, content_json, created_timestamp)"
                " VALUES ('sub', 'user', '[]', 1)"
            )
            for number, (role, content) in enumerate(records):
                database.execute(
                    "INSERT INTO messages (message_id, session_id, role, content_json, created_timestamp, tokens)"
                    " VALUES (?, ?, ?, CAST(? AS TEXT), ?, ?)",
                    (f"m_{_digest(content)}", KEY, role, content, 1793606400 + number, number),
                )
            database.commit()


def _digest(content: bytes) -> str:
    return str(abs(hash(content)))


class TestGoose(ReaderConformance):
    samples = GooseSamples()


class GooseLineSamples(LineSamples):
    project = PROJECT
    lines = (
        json.dumps({"working_dir": PROJECT, "description": "Counting herons", "message_count": 7}).encode(),
        *(
            json.dumps({"role": role, "created": 1793606400 + number, "content": content}).encode()
            for number, (role, content) in enumerate(RECORDS)
        ),
    )
    messages = MESSAGES
    unknown = (b'{"role": "oracle", "content": []}', b"{}", b'{"role": "user", "content": [{"type": "hologram"}]}')
    broken = (b'{"role": "user", "content": 7}', b'{"role": "user", "content": [7]}')

    def tool(self, home: Path) -> Goose:
        return Goose(str(home), {"PATH": "/nowhere"})

    def path(self, home: Path) -> Path:
        return home / FOLDER / f"{KEY}.jsonl"


class TestGooseLines(LineReaderConformance):
    samples = GooseLineSamples()


def test_a_file_that_the_database_has_taken_over_is_not_read_again(tmp_path: Path) -> None:
    GooseSamples().save(tmp_path)
    GooseLineSamples().save(tmp_path)

    (found,) = Goose(str(tmp_path), {}).transcripts()

    assert found.path.endswith("sessions.db")


def test_the_metadata_calls_and_errors_are_read(tmp_path: Path) -> None:
    GooseSamples().save(tmp_path)
    tool = Goose(str(tmp_path), {})
    (found,) = tool.transcripts()
    reading = tool.read(found)

    messages = list(reading)

    assert (reading.about.title, reading.about.model) == ("Counting herons", "gpt-5")
    assert reading.about.created_at == "2026-11-02T08:00:00.000Z"
    assert messages[1].parts_of("tool_call")[0].input == {"command": "ls"}
    assert messages[2].parts_of("tool_result")[0].name == "shell"
    assert messages[4].parts_of("tool_result")[0].is_error
    assert messages[6].timestamp == "2026-11-02T08:00:06.000Z"
    assert reading.counts.skipped == {"redactedThinking": 1, "toolConfirmationRequest": 1, "systemNotification": 1}


def test_the_summary_of_a_compaction_is_not_a_message(tmp_path: Path) -> None:
    GooseSamples().save(tmp_path)
    with closing(sqlite3.connect(tmp_path / FOLDER / "sessions.db")) as database:
        database.execute(
            "INSERT INTO messages (message_id, session_id, role, content_json, created_timestamp, metadata_json)"
            " VALUES ('s', ?, 'user', ?, 1793606500, '{\"userVisible\": false, \"agentVisible\": true}')",
            (KEY, json.dumps([{"type": "text", "text": "They counted."}])),
        )
        database.commit()
    tool = Goose(str(tmp_path), {})
    (found,) = tool.transcripts()
    reading = tool.read(found)

    assert len(list(reading)) == len(MESSAGES)
    assert reading.about.summary == "They counted."
