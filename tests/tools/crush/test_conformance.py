"""Crush: the suite of all adapters, with a session that has every kind of part, and subagents."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cortext.testing import ReaderConformance, Samples
from cortext.tools.crush.adapter import Crush

pytestmark = pytest.mark.req("TOOL-03", "TOOL-04", "TOOL-07")

KEY = "7f6f2f0e-0000-4000-8000-000000000001"
TABLES = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, parent_session_id TEXT, title TEXT NOT NULL, message_count INTEGER,
    prompt_tokens INTEGER, completion_tokens INTEGER, cost REAL, updated_at INTEGER NOT NULL,
    created_at INTEGER NOT NULL, summary_message_id TEXT, todos TEXT);
CREATE TABLE messages (id TEXT PRIMARY KEY, session_id TEXT NOT NULL, role TEXT NOT NULL,
    parts TEXT NOT NULL default '[]', model TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,
    finished_at INTEGER, provider TEXT, is_summary_message INTEGER DEFAULT 0 NOT NULL);
"""


def part(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data}


FINISH = part("finish", reason="end_turn", time=1793606402)
RECORDS: tuple[tuple[str, list[dict[str, Any]]], ...] = (
    (
        "user",
        [
            part("text", text="How many herons? 答え"),
            part("binary", Path="/tmp/a.png", MIMEType="image/png", Data="x"),
            part("binary", Path="/tmp/a.txt", MIMEType="text/plain", Data="x"),
            part("image_url", url="http://x/y.png"),
            FINISH,
        ],
    ),
    (
        "assistant",
        [
            part("reasoning", thinking="Count.", signature=""),
            part("text", text="Let me look."),
            part("tool_call", id="call_1", name="bash", input='{"command":"ls"}', finished=True),
            part("finish", reason="tool_use", time=1793606402),
        ],
    ),
    ("tool", [part("tool_result", tool_call_id="call_1", name="bash", content="heron heron", is_error=False)]),
    ("user", [part("shell_command", command="pwd", output="/work", exit_code=0)]),
    ("assistant", [part("text", text="Two."), FINISH]),
    ("user", [part("text", text="And storks?"), FINISH]),
)


class CrushSamples(Samples):
    records = len(RECORDS)
    messages = (
        ("user", "How many herons? 答え"),
        ("assistant", "Let me look."),
        ("tool", "heron heron"),
        ("user", "$ pwd\n/work"),
        ("assistant", "Two."),
        ("user", "And storks?"),
    )
    unknown = (b'[{"type": "hologram", "data": {}}]', b"[{}]")
    broken = (b'[{"type": "text"}, 7]',)

    def tool(self, home: Path) -> Crush:
        return Crush(str(home), {"PATH": "/nowhere"})

    def save(self, home: Path, records: int | None = None) -> None:
        self._save(home, [(role, json.dumps(parts).encode()) for role, parts in RECORDS[:records]])

    def save_with(self, home: Path, index: int, record: bytes) -> None:
        records = [(role, json.dumps(parts).encode()) for role, parts in RECORDS]
        self._save(home, [*records[:index], ("user", record), *records[index:]])

    def save_growing(self, home: Path) -> bool:
        self._save_reply(home, [part("text", text="Seven")])
        return True

    def finish_growing(self, home: Path) -> list[str]:
        self._save_reply(home, [part("text", text="Seven herons."), FINISH])
        return ["Seven herons."]

    def _save_reply(self, home: Path, parts: list[dict[str, Any]]) -> None:
        self.save(home, 1)
        with closing(sqlite3.connect(home / "pond/.crush/crush.db")) as database:
            add_message(database, "m9", KEY, "assistant", json.dumps(parts).encode(), 1793606409)
            database.execute("UPDATE messages SET updated_at = updated_at + ?", (len(parts),))
            database.commit()

    def _save(self, home: Path, records: list[tuple[str, bytes]]) -> None:
        project = home / "pond"
        path = project / ".crush" / "crush.db"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as database:
            database.executescript(TABLES)
            add_session(database, KEY, None, "Counting herons")
            add_session(database, "title-1", KEY, "x")
            for number, (role, parts) in enumerate(records):
                add_message(database, f"m{abs(hash(parts))}", KEY, role, parts, 1793606400 + number)
            database.commit()
        listed = home / ".local/share/crush/projects.json"
        listed.parent.mkdir(parents=True, exist_ok=True)
        projects = [{"path": str(project), "data_dir": str(path.parent)}, {"path": "/gone", "data_dir": ".crush"}]
        listed.write_text(json.dumps({"projects": projects}))


def add_session(database: sqlite3.Connection, key: str, parent: str | None, title: str) -> None:
    database.execute(
        "INSERT INTO sessions (id, parent_session_id, title, updated_at, created_at) VALUES (?, ?, ?, ?, ?)",
        (key, parent, title, 1793606400, 1793606400),
    )


def add_message(database: sqlite3.Connection, name: str, key: str, role: str, parts: bytes, at: int) -> None:
    database.execute(
        "INSERT INTO messages (id, session_id, role, parts, model, created_at, updated_at)"
        " VALUES (?, ?, ?, CAST(? AS TEXT), 'gpt-5', ?, ?)",
        (name, key, role, parts, at, at),
    )


class TestCrush(ReaderConformance):
    samples = CrushSamples()


def test_the_project_is_the_folder_around_the_database(tmp_path: Path) -> None:
    CrushSamples().save(tmp_path)
    project = str(tmp_path / "pond")

    (found,) = Crush(str(tmp_path), {}).transcripts()
    (asked,) = Crush("/nowhere", {}).transcripts(project)

    assert found == asked
    assert found.project == project


def test_subagents_are_asides_summaries_no_messages_and_a_reply_may_be_unfinished(tmp_path: Path) -> None:
    CrushSamples().save(tmp_path)
    with closing(sqlite3.connect(tmp_path / "pond/.crush/crush.db")) as database:
        add_session(database, "child", KEY, "Subagent")
        add_message(database, "c1", "child", "user", b'[{"type":"text","data":{"text":"Go"}}]', 1793606401)
        add_message(database, "s1", KEY, "assistant", b'[{"type":"text","data":{"text":"They counted."}}]', 1793606407)
        database.execute("UPDATE messages SET is_summary_message = 1 WHERE id = 's1'")
        add_message(database, "w1", KEY, "assistant", b'[{"type":"text","data":{"text":"No st"}}]', 1793606408)
        database.commit()
    tool = Crush(str(tmp_path), {})
    (found,) = tool.transcripts()
    reading = tool.read(found)

    messages = {message.id: message for message in reading}

    assert messages["c1"].aside
    assert "s1" not in messages and reading.about.summary == "They counted."
    assert messages["w1.unfinished"].partial
    assert (reading.about.title, reading.about.model) == ("Counting herons", "gpt-5")
    calls = [part for message in messages.values() for part in message.parts_of("tool_call")]
    assert [(call.name, call.input) for call in calls] == [("bash", {"command": "ls"})]


@pytest.mark.req("TRUE-05")
def test_a_session_whose_parent_is_gone_is_read_as_one_of_its_own(tmp_path: Path) -> None:
    samples = CrushSamples()
    samples.save(tmp_path)
    (path,) = tmp_path.rglob("crush.db")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE sessions SET parent_session_id = 'gone' WHERE coalesce(parent_session_id, '') = ''")
    tool = samples.tool(tmp_path)

    (found,) = tool.transcripts()

    assert [(message.role, message.text) for message in tool.read(found)] == list(samples.messages)
