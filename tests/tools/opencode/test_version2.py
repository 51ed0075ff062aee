"""Sessions of OpenCode 2: other tables of the same database, beside older ones that are out of date."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.tools.opencode import stand_in
from tests.tools.opencode.corpus import START, Corpus

from cortext.testing import ReaderConformance, Samples
from cortext.tools.base import TranscriptSource
from cortext.tools.opencode import store, version2
from cortext.tools.opencode.adapter import OpenCode

pytestmark = pytest.mark.req("TOOL-03", "TOOL-04", "TRUE-05")

PROJECT = "/work/pond"
TABLES = """
CREATE TABLE IF NOT EXISTS session_v2 (
    id text PRIMARY KEY, project_id text NOT NULL, workspace_id text, parent_id text, slug text NOT NULL,
    directory text NOT NULL, path text, title text NOT NULL, version text NOT NULL, agent text, model text,
    time_created integer NOT NULL, time_updated integer NOT NULL, time_archived integer
);
CREATE TABLE IF NOT EXISTS session_message (
    id text PRIMARY KEY, session_id text NOT NULL, type text NOT NULL, seq integer NOT NULL,
    time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL
);
"""
Json = dict[str, Any]


def tool_call(key: str, status: str, **state: Any) -> Json:
    return {"type": "tool", "id": key, "name": "bash", "state": {"status": status, "input": {"command": "ls"}, **state}}


def answer(*content: Json, **more: Any) -> Json:
    tokens = {"input": 12, "output": 6, "reasoning": 0, "cache": {"read": 0, "write": 0}}
    model = {"id": "model-two", "providerID": "some", "variant": "high"}
    time = {"created": START, "completed": START + 5}
    return {"agent": "build", "model": model, "content": list(content), "tokens": tokens, "time": time, **more}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


ROWS: tuple[tuple[str, Json], ...] = (
    ("user", {"text": "How many herons? 答え", "time": {"created": START}}),
    (
        "assistant",
        answer(
            {"type": "reasoning", "text": "Count."},
            text("Let me look."),
            tool_call("call_1", "completed", content=[text("heron heron")], structured={}),
            tool_call("call_2", "error", content=[], error={"type": "unknown", "message": "no such file"}),
        ),
    ),
    ("assistant", answer(text("Two."))),
    (
        "user",
        {"text": "And storks?", "files": [{"uri": "file:///work/pond/a.png", "mime": "image/png", "name": "a.png"}]},
    ),
    ("shell", {"callID": "c", "command": "date", "output": "today"}),
)
SPOKEN = (
    ("user", "How many herons? 答え"),
    ("assistant", "Let me look."),
    ("tool", "heron heron"),
    ("tool", "no such file"),
    ("assistant", "Two."),
    ("user", "And storks?"),
    ("user", "$ date\ntoday"),
)


def database_of(home: Path, name: str = "opencode.db") -> Path:
    path = home / ".local/share/opencode" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def save(path: Path, rows: Sequence[tuple[str, Json | str]] = ROWS, key: str = "ses_one", **session: Any) -> None:
    """Store a session as OpenCode 2 does."""
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(TABLES)
        fields: Json = {
            "id": key,
            "project_id": "global",
            "slug": "a",
            "directory": PROJECT,
            "title": "Counting herons",
        }
        fields |= {"version": "2.0.4", "time_created": START, "time_updated": START, **session}
        names = ", ".join(fields)
        marks = ", ".join("?" * len(fields))
        database.execute(f"INSERT INTO session_v2 ({names}) VALUES ({marks})", tuple(fields.values()))
        for number, (kind, data) in enumerate(rows):
            # Written in the order of `seq`, whatever the ids and times say.
            place = next((99 - index for index, row in enumerate(ROWS) if row[1] is data), 0)
            values = (f"msg_{key}_{place:02}", key, kind, number, START, START + number)
            stored = data if isinstance(data, str) else json.dumps(data)
            database.execute("INSERT INTO session_message VALUES (?, ?, ?, ?, ?, ?, ?)", (*values, stored))


class Version2Samples(Samples):
    project = PROJECT
    records = len(ROWS)
    messages = SPOKEN
    unknown = (b'{"type": "hologram"}',)
    broken = (b'{"text": "cut',)

    def tool(self, home: Path) -> OpenCode:
        stand_in.install(home / "bin")
        return OpenCode(str(home), {"PATH": f"{home / 'bin'}"})

    def save(self, home: Path, records: int | None = None) -> None:
        self._save(home, list(ROWS[:records]))

    def save_with(self, home: Path, index: int, record: bytes) -> None:
        kind = "hologram" if record in self.unknown else "user"
        rows: list[tuple[str, Json | str]] = list(ROWS)
        rows.insert(index, (kind, record.decode("utf-8", "replace")))
        self._save(home, rows)

    def _save(self, home: Path, rows: Sequence[tuple[str, Json | str]]) -> None:
        path = database_of(home)
        path.unlink(missing_ok=True)
        save(path, rows)


class TestOpenCode2(ReaderConformance):
    samples = Version2Samples()


def tool(home: Path) -> OpenCode:
    return OpenCode(str(home), {"PATH": "/nowhere"})


def read(source: TranscriptSource, key: str = "ses_one") -> list[tuple[str, str]]:
    found = {transcript.key: transcript for transcript in source.transcripts()}
    return [(message.role, message.text) for message in source.read(found[key])]


def upgraded(home: Path) -> Path:
    """Store a session in the older tables, and the same one, gone on, in those of OpenCode 2; and one only there."""
    path = database_of(home)
    corpus = Corpus(path)
    corpus.session()
    corpus.user("How many herons? 答え")
    corpus.session("ses_old")
    corpus.message(
        {"role": "user", "time": {"created": START}}, {"type": "text", "text": "Only here"}, session="ses_old"
    )
    corpus.close()
    save(path)
    return path


def test_after_an_upgrade_the_older_tables_are_out_of_date(tmp_path: Path) -> None:
    upgraded(tmp_path)

    assert read(tool(tmp_path)) == list(SPOKEN)
    assert read(tool(tmp_path), "ses_old") == [("user", "Only here")]


def test_a_few_rows_beside_older_messages_are_no_session_of_version_2(tmp_path: Path) -> None:
    path = upgraded(tmp_path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DROP TABLE session_v2")
        database.execute("INSERT INTO session_message VALUES ('x', 'ses_old', 'agent-switched', 0, 1, 1, '{}')")

    assert read(tool(tmp_path), "ses_old") == [("user", "Only here")]


def test_a_beta_that_kept_the_name_of_the_table_is_read(tmp_path: Path) -> None:
    path = database_of(tmp_path)
    save(path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("ALTER TABLE session_v2 RENAME TO session")

    assert read(tool(tmp_path)) == list(SPOKEN)


def test_the_database_of_another_channel_is_read_too(tmp_path: Path) -> None:
    save(database_of(tmp_path, "opencode-beta.db"), key="ses_beta")

    assert read(tool(tmp_path), "ses_beta") == list(SPOKEN)


def test_a_side_agents_session_is_an_aside_of_its_parent(tmp_path: Path) -> None:
    path = database_of(tmp_path)
    save(path)
    save(path, [("user", {"text": "Look at the pond"})], "ses_child", parent_id="ses_one")
    (found,) = tool(tmp_path).transcripts()

    messages = list(tool(tmp_path).read(found))

    assert [message.text for message in messages if message.aside] == ["Look at the pond"]
    assert [(message.role, message.text) for message in messages if not message.aside] == list(SPOKEN)


def test_the_reader_of_before_would_have_raised_the_alarm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    upgraded(tmp_path)
    monkeypatch.setattr(version2, "is_here", lambda database: False)
    known = {name: needed for name, needed in store.TABLES.items() if not name.startswith("session_")}
    monkeypatch.setattr("cortext.tools.opencode.read.TABLES", known)
    source = tool(tmp_path)

    left = [item.why for item in source.leftovers(list(source.transcripts()))]

    assert any("session_v2" in why for why in left) and any("session_message (5 rows)" in why for why in left)


def test_sessions_that_are_still_documents_raise_the_alarm(tmp_path: Path) -> None:
    document = tmp_path / ".local/share/opencode/storage/session/global/ses_older.json"
    document.parent.mkdir(parents=True)
    document.write_text(json.dumps({"id": "ses_older", "directory": PROJECT, "title": "Before the database"}))
    source = tool(tmp_path)

    assert [item.path for item in source.leftovers(list(source.transcripts()))] == [str(document)]
