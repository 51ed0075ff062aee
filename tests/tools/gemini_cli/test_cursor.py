"""Reading from a cursor: whatever happened since, each message is returned once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.tools.gemini_cli.corpus import (
    KEY,
    Chat,
    Json,
    everyday,
    read,
    resumed,
    texts,
)

from cortext.model.message import Message
from cortext.model.threads import thread


def eventful() -> Chat:
    """Return a session with a resume, a rewind, a new version of an answer and two compressions."""
    chat = everyday()
    first = [json.loads(line) for line in chat.lines if line.startswith(b'{"id":')]
    resumed(chat, list({record["id"]: record for record in first}.values()), same_minute=False)
    wrong = chat.user("wrong way")
    chat.model("oh", [chat.call("ls", "x")])
    chat.put({"$rewindTo": wrong["id"]})
    chat.user("right way")
    draft = chat.record("gemini", "draft")
    chat.put(draft).put({**draft, "content": "final"})
    kept = chat.user("kept by the compression")
    chat.replace(
        chat.context(), chat.record("user", [{"text": "<state_snapshot>s"}]), chat.record("user", kept["content"])
    )
    chat.model("the end", [chat.call("ls", "y"), chat.call("ls", None)])
    summary = chat.record("user", [{"text": "<state_snapshot>of everything"}])
    chat.replace(chat.context(), summary)
    chat.opening().begin().replace(chat.context(), summary)
    chat.user("after the end")
    chat.put({"$set": {"summary": "Herons"}})
    return chat


@pytest.mark.req("TOOL-03")
def test_two_readings_at_any_cut_return_what_one_reading_does(tmp_path: Path) -> None:
    data = eventful().data
    path = tmp_path / "session-2026-11-15T02-10-1bd1c5df.jsonl"
    path.write_bytes(data)
    expected, _ = read(path)
    assert len(texts(thread(expected))) > 8

    for cut in range(0, len(data) + 1, 37):
        path.write_bytes(data[:cut])
        before, first = read(path)
        path.write_bytes(data)
        after, second = read(path, first.cursor)
        assert [*before, *after] == expected, cut
        rest, third = read(path, second.cursor)
        assert rest == [] and third.counts.damaged == {}
        assert third.cursor == second.cursor


@pytest.mark.req("TOOL-03")
def test_reading_line_by_line_returns_what_one_reading_does(tmp_path: Path) -> None:
    chat = eventful()
    path = tmp_path / "session-2026-11-15T02-10-1bd1c5df.jsonl"
    path.write_bytes(chat.data)
    expected, _ = read(path)

    cursor: Json | None = None
    found: list[Message] = []
    for count in range(1, len(chat.lines) + 1):
        path.write_bytes(b"".join(line + b"\n" for line in chat.lines[:count]))
        more, reading = read(path, cursor)
        found += more
        cursor = json.loads(json.dumps(reading.cursor))

    assert found == expected


def test_a_cursor_of_another_file_is_ignored(tmp_path: Path) -> None:
    path = everyday().save(tmp_path)
    _, reading = read(path)
    other = Chat(KEY).begin()
    other.user("a new beginning")
    path.write_bytes(other.data + b"\n" * 5_000)

    messages, _ = read(path, reading.cursor)

    assert texts(messages) == ["a new beginning"]
