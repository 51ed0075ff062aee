"""Reading databases that are damaged, in use or large, and files of other tools."""

from __future__ import annotations

import shutil
import sqlite3
import tracemalloc
from contextlib import closing
from pathlib import Path

import pytest
from tests.tools.opencode.corpus import MODEL, Corpus, call, text
from tests.tools.opencode.readings import reading, roles_and_texts

from cortext.tools.base import Transcript
from cortext.tools.opencode.adapter import OpenCode


@pytest.mark.req("TOOL-04")
def test_damaged_and_unknown_records_are_counted(tool: OpenCode, corpus: Corpus) -> None:
    corpus.user("Before")
    corpus.message('{"role":"user","time":{"crea', text("lost with its message"))
    corpus.message('{"role":"robot"}', text("who?"))
    corpus.message("[1, 2]")
    corpus.assistant({"type": "hologram", "text": "?"}, {"text": "no type"}, "Whole too.")
    corpus.message({"time": "yesterday", "role": "user", "model": MODEL}, text("Odd time"))
    corpus.assistant(call("bash", {}, "fine", time="never"))

    messages, found = reading(tool)

    assert [message.text for message in messages if message.text] == ["Before", "Whole too.", "Odd time", "fine"]
    assert found.counts.unknown == {"message of role robot": 1, "hologram": 1, "part without type": 1}
    assert found.counts.damaged == {"not JSON": 1, "unexpected shape": 1, "field of unexpected shape": 2}
    assert len(found.counts.places) == 4
    assert found.cursor is not None
    assert reading(tool, found.cursor)[0] == []


@pytest.mark.req("TOOL-04")
def test_damaged_parts_do_not_affect_the_others(tool: OpenCode, corpus: Corpus) -> None:
    reply = corpus.assistant("Whole.")
    corpus.part(reply, '{"type":"text","text":"half a l')
    corpus.part(reply, '{"type":"text","text":"one"}{"type":"text","text":"two"}')

    messages, found = reading(tool)

    assert roles_and_texts(messages) == [("assistant", "Whole.")]
    assert found.counts.damaged == {"not JSON": 2}


@pytest.mark.req("TOOL-04")
@pytest.mark.parametrize("damage", ["no database", "no table", "half a file"])
def test_a_damaged_database_is_reported(tool: OpenCode, corpus: Corpus, damage: str) -> None:
    corpus.user("Go")
    corpus.close()
    path = Path(tool.folders.database)
    shutil.rmtree(path.parent)
    path.parent.mkdir()
    if damage == "no database":
        path.write_bytes(b"something else" * 100)
    elif damage == "no table":
        with closing(sqlite3.connect(path)) as database:
            database.execute("CREATE TABLE other (id)")
    else:
        path.write_bytes(b"SQLite format 3\0" + bytes(2000))

    (damaged,) = tool.transcripts()
    found = tool.read(damaged)

    assert list(found) == []
    assert sum(found.counts.damaged.values()) == 1
    assert found.counts.places


def test_a_home_without_opencode_is_no_error(tmp_path: Path) -> None:
    tool = OpenCode(str(tmp_path), {"PATH": "", "XDG_DATA_HOME": str(tmp_path / "none")})

    assert list(tool.transcripts()) == []
    assert tool.detect() is None
    assert tool.transcript_at(str(tmp_path / "none.json")) is None


@pytest.mark.req("TOOL-03")
def test_reading_leaves_the_folder_of_opencode_unchanged(tool: OpenCode, corpus: Corpus, tmp_path: Path) -> None:
    corpus.user("Go")
    corpus.close()
    path = Path(tool.folders.database)
    for name in ("opencode.db-wal", "opencode.db-shm"):
        (path.parent / name).unlink(missing_ok=True)
    before = [(item.name, item.stat().st_mtime_ns) for item in path.parent.iterdir()]

    assert roles_and_texts(reading(tool)[0]) == [("user", "Go")]

    assert [(item.name, item.stat().st_mtime_ns) for item in path.parent.iterdir()] == before


@pytest.mark.req("TOOL-03")
def test_an_open_transaction_does_not_disturb_a_reading(tool: OpenCode, corpus: Corpus) -> None:
    other = sqlite3.connect(corpus.path, isolation_level=None)
    corpus.user("Go")
    other.execute("BEGIN IMMEDIATE")
    other.execute("UPDATE session SET title = 'Half a title'")
    messages, found = reading(tool)
    assert (roles_and_texts(messages), found.about.title) == ([("user", "Go")], "A talk")
    other.execute("COMMIT")
    other.close()
    assert reading(tool)[1].about.title == "Half a title"


@pytest.mark.req("TOOL-03", "TOOL-04")
def test_a_large_record_among_many_messages_is_read(tool: OpenCode, corpus: Corpus) -> None:
    big = "a line of output\n" * 700_000
    with corpus.at_once():
        corpus.assistant(call("bash", {}, big))
        for number in range(5_000):
            corpus.user(f"Prompt {number}")

    messages, _ = reading(tool)

    assert len(messages) == 5_002
    assert messages[1].text == big


@pytest.mark.req("TOOL-03")
def test_memory_does_not_grow_with_the_session(tool: OpenCode, corpus: Corpus) -> None:
    with corpus.at_once():
        for number in range(400):
            corpus.assistant(
                call("bash", {}, "output\n" * 7_000, identity=f"c{number}")
            )  # 40 MB, because the output is stored twice
    (transcript,) = tool.transcripts()
    tracemalloc.start()
    try:
        count = sum(1 for _ in tool.read(transcript))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert count == 800
    assert peak < 4_000_000


def test_transcripts_of_other_tools_are_not_recognised(tool: OpenCode, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"type":"user","message":{"role":"user","content":"x"}}\n', encoding="utf-8")
    (tmp_path / "b.json").write_text('{"sessionId":"x","messages":[]}', encoding="utf-8")
    files = [tmp_path / "a.jsonl", tmp_path / "b.json"]

    assert [path for path in files if tool.transcript_at(str(path)) is not None] == []


def test_a_missing_session_is_reported(tool: OpenCode, corpus: Corpus) -> None:
    corpus.user("Go")
    found = tool.read(Transcript(tool="opencode", key="ses_gone", path=tool.folders.database))

    assert list(found) == []
    assert found.counts.damaged == {"session not found": 1}
