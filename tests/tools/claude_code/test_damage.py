"""Torn, joined, malformed and huge records: counted and skipped, never fatal."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from tests.tools.claude_code.corpus import KEY, Script, call, read

from cortext.tools.claude_code.read import ClaudeReading


@pytest.mark.req("TOOL-04")
@pytest.mark.parametrize("torn", ["message", "bookkeeping"])
def test_a_torn_record_loses_only_itself(tmp_path: Path, torn: str) -> None:
    script = Script()
    script.user("one")
    if torn == "message":
        script.user("torn " * 20)
    else:
        script.raw({"type": "queue-operation", "content": "torn " * 20, "sessionId": KEY})
    torn_record = script.lines.pop()[:-30]
    script.tip = None
    script.user("two")
    complete_record = script.lines.pop()
    # After a kill in the middle of a write, Claude Code appends to the torn line.
    script.raw(torn_record + complete_record)
    script.raw(torn_record)
    script.user("three")

    messages, reading = read(script.save(tmp_path))

    assert [message.content for message in messages] == ["one", "two", "three"]
    assert sum(reading.counts.damaged.values()) == 2
    assert len(reading.counts.places) == 2


def test_invalid_characters_are_kept_as_they_are(tmp_path: Path) -> None:
    script = Script()
    script.raw(b'{"type":"user","uuid":"u1","message":{"role":"user","content":"half \\ud83d pair \\u0000"}}')
    script.raw(b'\0\0\0{"type":"user","uuid":"u2","message":{"role":"user","content":"after NULs"}}')

    messages, reading = read(script.save(tmp_path))

    assert [message.content for message in messages] == ["half \ud83d pair \0", "after NULs"]
    assert reading.counts.damaged == {}


def test_a_record_without_an_id_gets_a_stable_one(tmp_path: Path) -> None:
    script = Script()
    script.raw({"type": "user", "message": {"role": "user", "content": "who am I"}})

    (first,), _ = read(script.save(tmp_path))
    (second,), _ = read(script.save(tmp_path))

    assert first.id == second.id != ""


def test_a_very_large_record_is_read_in_bounded_memory(tmp_path: Path) -> None:
    script = Script()
    script.user("cat it")
    script.assistant(call("a"))
    script.result("a", "x" * 6_000_000)
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 8_000_000}}
    script.user([{"type": "text", "text": "and this?"}, picture])
    script.assistant("large")
    transcript = script.save(tmp_path)
    del script
    tracemalloc.start()
    lengths = [len(message.text) for message in ClaudeReading(transcript)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert lengths == [6, 0, 6_000_000, 9, 5]
    assert peak < 60_000_000


def test_memory_does_not_grow_with_the_length_of_messages(tmp_path: Path) -> None:
    script = Script()
    for number in range(2_000):
        script.user(f"{number} " + "word " * 1_000)
    transcript = script.save(tmp_path)
    del script
    tracemalloc.start()
    count = sum(1 for _ in ClaudeReading(transcript))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert count == 2_000
    assert peak < 8_000_000  # the file has 10 MB
