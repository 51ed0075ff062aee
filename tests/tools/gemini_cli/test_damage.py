"""Older documents, damaged and large transcripts: what is intact is read, in bounded memory."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from tests.tools.gemini_cli.corpus import (
    KEY,
    Chat,
    Json,
    compact,
    everyday,
    read,
    texts,
    uuid,
)

from cortext.model.message import THINKING, Part
from cortext.model.threads import thread
from cortext.tools.base import Transcript
from cortext.tools.gemini_cli.read import GeminiReading

# ── the older format ─────────────────────────────────────────────────────────────────────────────────


def document(messages: list[Json], **more: Any) -> Json:
    return {
        "sessionId": KEY,
        "projectHash": "eb2f" * 16,
        "startTime": "2026-01-15T20:51:48.582Z",
        "messages": messages,
        **more,
    }


def older_messages() -> list[Json]:
    chat = Chat()
    call = chat.call("write_file", 'a "result"\n    }\n  ]', path="docs/blue.md")
    return [
        chat.record("user", "create a file"),
        chat.record("gemini", "I will.", toolCalls=[call], thoughts=[{"subject": "Plan", "description": "blue"}]),
        chat.record("info", "saved"),
        chat.record("gemini", "Done: { } ]"),
    ]


@pytest.mark.req("TOOL-03", "SESS-001d")
@pytest.mark.parametrize("indent", [2, 4, None])
def test_a_document_of_an_older_version_is_read(tmp_path: Path, indent: int | None) -> None:
    path = tmp_path / "session-2026-01-15T10-00-1bd1c5df.json"
    path.write_text(json.dumps(document(older_messages(), summary="Blue file"), indent=indent), encoding="utf-8")

    messages, reading = read(path)

    assert texts(messages) == ["create a file", "I will.", 'a "result"\n    }\n  ]', "Done: { } ]"]
    assert messages[1].parts == [Part(THINKING, "**Plan** blue")]
    assert (reading.about.title, reading.about.created_at) == ("Blue file", "2026-01-15T20:51:48.582Z")
    assert reading.counts.skipped["info"] == 1 and not reading.counts.damaged


def test_a_document_without_messages_is_not_damaged(tmp_path: Path) -> None:
    path = tmp_path / "empty.json"
    path.write_text(json.dumps(document([]), indent=2), encoding="utf-8")

    messages, reading = read(path)

    assert (messages, reading.counts.damaged, reading.cursor) == ([], {}, None)


@pytest.mark.req("TOOL-04")
def test_a_truncated_document_returns_its_complete_messages(tmp_path: Path) -> None:
    data = json.dumps(document(older_messages()), indent=2).encode()
    path = tmp_path / "cut.json"
    most = 0
    for size in [*range(0, len(data), 7), len(data) - 1]:
        path.write_bytes(data[:size])
        messages, reading = read(path)
        count = len(texts(messages))
        assert count >= most, "a longer prefix returns no fewer messages"
        most = count
        assert count == 4 or reading.counts.damaged or size < 3
    assert most == 4


@pytest.mark.req("SAFE-06")
def test_a_large_document_is_read_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "big.json"
    messages = [Chat().record("gemini", "x" * 50_000) | {"id": f"m{number}"} for number in range(400)]
    path.write_text(json.dumps(document(messages), indent=2), encoding="utf-8")
    size = path.stat().st_size

    tracemalloc.start()
    count = sum(1 for _ in _stream(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert count == 400
    assert peak < size / 3


def _stream(path: Path) -> GeminiReading:
    return GeminiReading(Transcript(tool="gemini", key=KEY, path=str(path)), None, [])


# ── damage ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("TOOL-04")
def test_damage_costs_only_the_damaged_records(tmp_path: Path) -> None:
    chat = everyday()
    partial = compact(chat.record("gemini", "a long answer that was never finished"))[:60]
    two_records = compact(chat.record("user", "glued one")) + compact(chat.record("gemini", "glued two"))
    after_partial = partial + compact(chat.record("user", "behind the half"))
    chat.lines[3:3] = [
        partial,
        two_records,
        after_partial,
        b"\xff\xfe broken",
        b"[1,2]",
        b'"text"',
        b"{}",
        b"",
        b"null",
    ]
    chat.put({"id": uuid(90), "type": "hologram", "content": "?"})
    chat.put({"id": uuid(91), "type": "user", "content": [{"smell": "roses"}]})
    chat.put({"id": uuid(92), "type": "user", "content": [{"text": "still words"}], "toolCalls": "not a list"})
    chat.put({"id": uuid(93), "type": "gemini", "content": "when?", "timestamp": "last tuesday"})

    messages, reading = read(chat.save(tmp_path))

    found = texts(messages)
    for text in ("glued one", "glued two", "behind the half", "Let me look.", "Now we go.", "still words", "when?"):
        assert found.count(text) == 1, text
    assert messages[-1].timestamp == ""
    assert reading.counts.unknown == {"type hologram": 1, "part of unknown type": 1, "record without an id": 1}
    assert reading.counts.damaged == {"not JSON": 3, "unexpected shape": 4}
    assert reading.counts.places and str(tmp_path) in reading.counts.places[0]


@pytest.mark.req("TOOL-04")
def test_records_of_two_concurrent_writers_are_kept_apart(tmp_path: Path) -> None:
    """Two processes resumed the same session: their records alternate, and each completes its own."""
    chat = Chat().begin()
    one, two = chat.call("ls", "result of one"), chat.call("ls", "result of two")
    first, second = chat.record("gemini", "one looks"), chat.record("gemini", "two looks")
    chat.put(first).put(second).put({**first, "toolCalls": [one]}).put({**second, "toolCalls": [two]})
    chat.put(chat.record("user", one["result"])).put(chat.record("user", two["result"]))

    messages, _ = read(chat.save(tmp_path))

    assert texts(messages) == ["one looks", "two looks", "result of one", "result of two"]
    assert thread(messages) == messages


@pytest.mark.req("SAFE-06", "TOOL-03")
def test_a_large_record_among_many_small_ones_is_read(tmp_path: Path) -> None:
    chat = Chat().begin()
    big = 'words and "quotes" and \\ and ü\n' * 200_000
    chat.model("Reading.", [chat.call("read_file", big)])
    for number in range(5_000):
        chat.user(f"message {number}")
    path = chat.save(tmp_path)
    assert path.stat().st_size > 12_000_000

    messages, reading = read(path)

    assert messages[2].text == big
    assert len(messages) == 5_003 and texts(messages)[-1] == "message 4999"
    assert not reading.counts.damaged


@pytest.mark.req("SAFE-06")
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    chat = Chat().begin()
    for number in range(300):
        chat.model("x" * 2_000, [chat.call("read_file", f"{number}" + "y" * 30_000)])
    path = chat.save(tmp_path)

    tracemalloc.start()
    count = sum(1 for _ in _stream(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert count == 900
    assert peak < path.stat().st_size / 4
