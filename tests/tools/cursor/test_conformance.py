"""Cursor: the suite of all adapters, with a conversation in the form of its versions 0.50 to 2, and older ones."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cortext.model.message import Message
from cortext.testing import ReaderConformance, Samples
from cortext.tools.cursor.adapter import Cursor

pytestmark = pytest.mark.req("TOOL-03", "TOOL-04", "TOOL-07")

PROJECT = "/work/reed bed"
KEY = "98251e54-8aed-4515-b2b4-08895453eedd"
TABLES = "CREATE TABLE {} (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)"
CHATS = "workbench.panel.aichat.view.aichat.chatdata"

BUBBLES: tuple[dict[str, Any], ...] = (
    {
        "_v": 3,
        "type": 1,
        "bubbleId": "b1",
        "text": "How many herons? 答え",
        "images": [{"path": "/tmp/a.png"}],
        "createdAt": "2026-11-02T08:00:00.000Z",
    },
    {
        "_v": 3,
        "type": 2,
        "bubbleId": "b2",
        "text": "",
        "thinking": {"text": "Count them.", "signature": "x"},
        "capabilityType": 30,
    },
    {
        "_v": 3,
        "type": 2,
        "bubbleId": "b3",
        "text": "Let me look.",
        "modelInfo": {"modelName": "claude-4.5-sonnet"},
        "tokenCount": {"inputTokens": 120, "outputTokens": 14},
        "capabilityType": 15,
        "toolFormerData": {
            "tool": 15,
            "toolCallId": "call_1",
            "status": "completed",
            "name": "run_terminal_cmd",
            "rawArgs": '{"command":"ls reeds"}',
            "params": '{"command":"ls reeds","cwd":""}',
            "result": '{"output":"heron heron","rejected":false}',
            "userDecision": "accepted",
        },
    },
    {
        "_v": 3,
        "type": 2,
        "bubbleId": "b4",
        "text": "",
        "toolFormerData": {"toolCallId": "call_2", "status": "error", "name": "read_file", "rawArgs": "not JSON"},
    },
    {"_v": 3, "type": 2, "bubbleId": "b5", "text": "Two herons.", "timingInfo": {"clientRpcSendTime": 1793606404000}},
    {"_v": 3, "type": 2, "bubbleId": "b6", "text": "", "codeBlocks": []},
    {"_v": 3, "type": 1, "bubbleId": "b7", "text": "And storks?", "tokenCount": {"inputTokens": 0, "outputTokens": 0}},
)
GROWING = {"_v": 3, "type": 2, "bubbleId": "b9", "text": "Seven"}
MESSAGES = (
    ("user", "How many herons? 答え"),
    ("assistant", ""),
    ("assistant", "Let me look."),
    ("tool", "heron heron"),
    ("assistant", ""),
    ("tool", ""),
    ("assistant", "Two herons."),
    ("user", "And storks?"),
)


def write(path: Path, table: str, rows: dict[str, str | bytes]) -> None:
    """Write rows to a database as Cursor creates it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as database:
        for name in ("ItemTable", "cursorDiskKV"):
            database.execute(TABLES.format(name))
        database.executemany(f"INSERT INTO {table} VALUES (?, ?)", rows.items())
        database.commit()


class CursorSamples(Samples):
    project = PROJECT
    records = len(BUBBLES)
    messages = MESSAGES
    unknown = (b'{"type": 7, "bubbleId": "x", "text": "?"}', b'{"bubbleId": "x"}')
    broken = (b"", b'{"type": {}, "bubbleId": 7.5e999}')
    user = ".config/Cursor/User"

    def tool(self, home: Path) -> Cursor:
        return Cursor(str(home), {"PATH": "/nowhere"})

    def save(self, home: Path, records: int | None = None) -> None:
        self._save(home, [json.dumps(bubble).encode() for bubble in BUBBLES[:records]])

    def save_with(self, home: Path, index: int, record: bytes) -> None:
        bubbles = [json.dumps(bubble).encode() for bubble in BUBBLES]
        self._save(home, [*bubbles[:index], record, *bubbles[index:]])

    def save_growing(self, home: Path) -> bool:
        self._save(home, [json.dumps(bubble).encode() for bubble in (BUBBLES[0], GROWING)], status="generating")
        return True

    def finish_growing(self, home: Path) -> list[str]:
        grown = {**GROWING, "text": "Seven herons."}
        self._save(home, [json.dumps(bubble).encode() for bubble in (BUBBLES[0], grown)], status="completed ")
        return ["Seven herons."]

    def _save(self, home: Path, bubbles: list[bytes], **more: str) -> None:
        headers = [{"bubbleId": f"row{number}", "type": 1} for number in range(len(bubbles))]
        conversation = {
            "_v": 10,
            "composerId": KEY,
            "name": "Counting herons",
            "createdAt": 1793606400000,
            "lastUpdatedAt": 1793606404000,
            "fullConversationHeadersOnly": headers,
            "conversationMap": {},
            "modelConfig": {"modelName": "default"},
            **more,
        }
        rows: dict[str, str | bytes] = {f"composerData:{KEY}": json.dumps(conversation)}
        rows |= {f"bubbleId:{KEY}:row{number}": bubble for number, bubble in enumerate(bubbles)}
        empty = {
            "composerId": "e",
            "createdAt": 1793606400000,
            "fullConversationHeadersOnly": [],
            "conversationMap": {},
        }
        rows |= {"composerData:e": json.dumps(empty), f"bubbleId:{KEY}x:row1": "{}", f"checkpointId:{KEY}:1": "{}"}
        write(home / self.user / "globalStorage/state.vscdb", "cursorDiskKV", rows)
        storage = home / self.user / "workspaceStorage/5d1f"
        write(
            storage / "state.vscdb",
            "ItemTable",
            {"composer.composerData": json.dumps({"allComposers": [{"composerId": KEY, "name": "Counting herons"}]})},
        )
        (storage / "workspace.json").write_text('{"folder": "file:///work/reed%20bed"}')


class TestCursor(ReaderConformance):
    samples = CursorSamples()


class MacSamples(CursorSamples):
    user = "Library/Application Support/Cursor/User"


class TestCursorOnMacOS(ReaderConformance):
    samples = MacSamples()


def read(tool: Cursor) -> tuple[list[Message], Any]:
    """Return the messages of the only conversation, and the reading."""
    (found,) = tool.transcripts()
    reading = tool.read(found)
    return list(reading), reading


def test_calls_results_thinking_times_and_the_title_are_read(tmp_path: Path) -> None:
    samples = CursorSamples()
    samples.save(tmp_path)

    messages, reading = read(samples.tool(tmp_path))

    assert (reading.about.title, reading.about.model) == ("Counting herons", "")
    assert reading.about.tools == ["run_terminal_cmd", "read_file"]
    assert messages[0].timestamp == "2026-11-02T08:00:00.000Z"
    assert [part.type for part in messages[0].parts or ()] == ["text", "image"]
    assert [part.text for part in messages[1].parts_of("thinking")] == ["Count them."]
    (call,) = messages[2].parts_of("tool_call")
    assert (call.name, call.input) == ("run_terminal_cmd", {"command": "ls reeds"})
    assert (messages[2].model, messages[2].usage) == ("claude-4.5-sonnet", {"inputTokens": 120, "outputTokens": 14})
    assert messages[4].parts_of("tool_call")[0].input == "not JSON"
    assert messages[5].parts_of("tool_result")[0].is_error
    assert messages[6].timestamp.startswith("2026-11-02T")
    assert reading.counts.skipped == {"without content": 1}


@pytest.mark.req("TRUE-06")
def test_each_message_without_a_row_is_counted_as_damage(tmp_path: Path) -> None:
    samples = CursorSamples()
    samples.save(tmp_path)
    whole, _ = read(samples.tool(tmp_path))
    with closing(sqlite3.connect(tmp_path / samples.user / "globalStorage/state.vscdb")) as database, database:
        for number in (0, 6):
            database.execute("DELETE FROM cursorDiskKV WHERE key = ?", (f"bubbleId:{KEY}:row{number}",))
    messages, reading = read(samples.tool(tmp_path))
    assert len(messages) == len(whole) - 2
    assert reading.counts.damaged == {"empty": 2}


def test_conversations_in_the_database_of_a_project_are_read(tmp_path: Path) -> None:
    storage = tmp_path / ".config/Cursor/User/workspaceStorage/77aa"
    chats = {
        "tabs": [
            {
                "tabId": "t1",
                "chatTitle": "Old chat",
                "lastSendTime": 1700000000000,
                "bubbles": [
                    {"type": "user", "id": "u1", "text": "Old question"},
                    {"type": "ai", "id": "a1", "rawText": "Old answer", "modelType": "gpt-4"},
                ],
            },
            {"tabId": "t2", "bubbles": []},
        ]
    }
    composers = {
        "allComposers": [
            {"composerId": "c1", "name": "Old composer", "conversation": [{"type": 1, "bubbleId": "x", "text": "Hi"}]}
        ]
    }
    write(
        storage / "state.vscdb",
        "ItemTable",
        {CHATS: json.dumps(chats), "composer.composerData": json.dumps(composers)},
    )
    (storage / "workspace.json").write_text(f'{{"folder": "file://{PROJECT}"}}')
    tool = Cursor(str(tmp_path), {})

    found = {item.key: item for item in tool.transcripts(PROJECT)}

    assert set(found) == {"t1", "c1"}
    reading = tool.read(found["t1"])
    assert [(message.id, message.role, message.text) for message in reading] == [
        ("u1", "user", "Old question"),
        ("a1", "assistant", "Old answer"),
    ]
    assert reading.about.title == "Old chat"
    assert [message.text for message in tool.read(found["c1"])] == ["Hi"]


def test_a_damaged_database_is_reported_once(tmp_path: Path) -> None:
    path = tmp_path / ".config/Cursor/User/globalStorage/state.vscdb"
    samples = CursorSamples()
    samples.save(tmp_path)
    path.write_bytes(path.read_bytes()[:100] + b"\xff" * 8000)
    tool = samples.tool(tmp_path)

    messages, reading = read(tool)

    assert messages == []
    assert reading.counts.damaged == {"database": 1}
    assert str(path) in reading.counts.places[0]
    other = tmp_path / "music.db"
    other.write_bytes(path.read_bytes())
    assert len(list(tool.transcripts_in(str(path)))) == 1
    assert list(tool.transcripts_in(str(other))) == [], "a damaged database of any program is not Cursor's"


def test_a_copy_of_the_whole_database_is_a_collection(tmp_path: Path) -> None:
    samples = CursorSamples()
    samples.save(tmp_path)
    path = tmp_path / ".config/Cursor/User/globalStorage/state.vscdb"
    backup = tmp_path / "backup.vscdb"
    backup.write_bytes(path.read_bytes())

    (found,) = samples.tool(tmp_path).transcripts_in(str(backup))

    assert (found.key, found.project) == (KEY, "")


def changed(home: Path, *statements: str) -> list[str]:
    """Store the conversation, change the database, and return what is told of it beside the transcripts."""
    samples = CursorSamples()
    samples.save(home)
    with closing(sqlite3.connect(home / samples.user / "globalStorage/state.vscdb")) as database, database:
        for statement in statements:
            database.execute(statement)
    tool = samples.tool(home)
    return [left.why for left in tool.leftovers(list(tool.transcripts()))]


STRAY = "it has 7 messages of no conversation that is listed"


@pytest.mark.req("TRUE-05")
@pytest.mark.parametrize(
    ("statement", "told"),
    [
        (
            "UPDATE cursorDiskKV SET value = replace(value, 'fullConversationHeadersOnly', 'conversationHeaders')",
            ["1 record of conversations without a field of messages that is known", STRAY],
        ),
        (
            "UPDATE cursorDiskKV SET key = replace(key, 'composerData:', 'composerDataV2:')",
            [STRAY, "its keys composerDataV2: (2 rows) are of a kind that is not known yet"],
        ),
        (
            "UPDATE cursorDiskKV SET key = replace(key, 'bubbleId:', 'bubble2:')",
            ["its keys bubble2: (8 rows) are of a kind that is not known yet"],
        ),
        (
            """INSERT INTO cursorDiskKV VALUES ('conversation:1', '{"messages": [{"role": "user"}]}')""",
            ["its keys conversation: (1 row) are of a kind that is not known yet"],
        ),
        (
            f"INSERT INTO cursorDiskKV VALUES ('talk:1', '{'Herons stand in the reeds. ' * 20}')",
            ["its keys talk: (1 row) are of a kind that is not known yet"],
        ),
        ('INSERT INTO cursorDiskKV VALUES (\'agentKv:blob:1\', \'{"role": "user", "content": "Hi"}\')', []),
        ('INSERT INTO cursorDiskKV VALUES (\'rowHeights:1\', \'{"heights": [7, 8], "text": ""}\')', []),
        (f"INSERT INTO cursorDiskKV VALUES ('cache:1', '{'ab' * 400}')", []),
        (
            'INSERT INTO ItemTable VALUES (\'chat.v2\', \'{"tabs":[{"bubbles":[{"text":"Hi"}]}]}\')',
            ["its item chat.v2 is of a kind that is not known yet"],
        ),
        (f"INSERT INTO ItemTable VALUES ('{CHATS}', 'not JSON')", [f"its item {CHATS} is not JSON"]),
        ("INSERT INTO ItemTable VALUES ('colors', '{\"conversation\":[]}')", []),
    ],
)
def test_keys_and_records_that_may_hold_what_was_said_are_told(tmp_path: Path, statement: str, told: list[str]) -> None:
    assert changed(tmp_path, statement) == told


@pytest.mark.req("TRUE-05")
def test_a_conversation_without_any_of_its_messages_is_damaged(tmp_path: Path) -> None:
    changed(tmp_path, "DELETE FROM cursorDiskKV WHERE key LIKE 'bubbleId:%'")

    messages, reading = read(CursorSamples().tool(tmp_path))

    assert messages == [] and sum(reading.counts.damaged.values()) == 1
