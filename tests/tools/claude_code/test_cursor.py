"""Reading on from a cursor at any line, and real transcripts of other people."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.tools.claude_code.corpus import KEY, Script, at, call, full_conversation, read

from cortext.model.message import Message
from cortext.model.threads import thread
from cortext.tools.base import TranscriptReading
from cortext.tools.claude_code.read import ClaudeReading

SHARED = Path(__file__).parents[3].parent / "shared" / "data" / "transcripts"


def grow(path: Path, data: bytes) -> None:
    """Append what a file lacks, as Claude Code does."""
    path.parent.mkdir(exist_ok=True)
    with path.open("ab") as file:
        file.write(data[file.tell() :])


def grow_and_read(path: Path, data: bytes) -> tuple[list[Message], TranscriptReading]:
    grow(path, data)
    return read(at(path))


def _branching_conversation() -> Script:
    script = full_conversation()
    fork = script.tip
    script.user("this way")
    script.user("no, that way", parent=fork)
    script.assistant(call("z"), answer="msg_last")
    script.result("z", "ü 答")
    return script


@pytest.mark.req("TOOL-03")
def test_a_reading_continues_from_any_line(tmp_path: Path) -> None:
    script = _branching_conversation()
    everything, _ = read(script.save(tmp_path))
    for cut in range(len(script.lines) + 1):
        path = tmp_path / str(cut) / f"{KEY}.jsonl"
        before, reading = grow_and_read(path, b"".join(line + b"\n" for line in script.lines[:cut]))
        cursor = json.loads(json.dumps(reading.cursor))
        grow(path, script.data())
        after, reading = read(at(path), cursor)

        assert before + after == everything, cut
        assert read(at(path), reading.cursor)[0] == []
        assert reading.about.title == "Shanties"
        assert reading.about.command == "/workspace.brainstorm"


@pytest.mark.req("TOOL-03")
def test_a_rewritten_file_is_read_from_the_start(tmp_path: Path) -> None:
    script = Script()
    script.user("one")
    script.user("two")
    _, reading = read(script.save(tmp_path))
    path = tmp_path / f"{KEY}.jsonl"
    for data in (
        b"",
        script.lines[0] + b"\n",
        script.data().replace(b"one", b"uno"),
        script.data().replace(b"two", b"tow"),
    ):
        path.write_bytes(data)
        messages, _ = read(at(path), reading.cursor)
        assert len(messages) == data.count(b"\n")
    path.unlink()
    with pytest.raises(FileNotFoundError):
        read(at(path), reading.cursor)


def test_the_cursor_stays_small_after_many_messages(tmp_path: Path) -> None:
    script = Script()
    script.user("NUMBER")
    template = script.lines[0]
    path = tmp_path / f"{KEY}.jsonl"
    with path.open("wb") as file:
        for number in range(20_000):
            file.write(
                template.replace(b"NUMBER", b"%d" % number).replace(b'"uuid":"', b'"uuid":"%d-' % number) + b"\n"
            )

    reading = ClaudeReading(at(path))
    for count, message in enumerate(reading):
        assert message.content == str(count)
    assert reading.cursor is not None
    assert len(json.dumps(reading.cursor)) < 4_000


# ── real transcripts ─────────────────────────────────────────────────────────────────────────────────

_REAL_TRANSCRIPTS = sorted((SHARED / "claude").glob("*.jsonl")) if SHARED.is_dir() else []


@pytest.mark.req("TOOL-03", "TOOL-04")
def test_real_transcripts_are_read_completely(tmp_path: Path) -> None:
    """Does nothing if the files are not available; the corpus contains every kind of record that they do."""
    for path in _REAL_TRANSCRIPTS:
        data = path.read_bytes()
        messages, reading = read(at(path))
        conversation = thread(messages)

        assert reading.counts.damaged == reading.counts.unknown == {}
        assert len(conversation) == sum(not message.aside for message in messages) > 100
        calls = [part.id for message in conversation for part in message.parts_of("tool_call")]
        results = [part.call_id for message in conversation for part in message.parts_of("tool_result")]
        assert sorted(calls) == sorted(results)
        assert {message.role for message in messages} >= {"user", "assistant", "tool"}
        assert reading.about.model.startswith("claude-")

        for cut in (data.find(b"\n", offset) + 1 for offset in range(0, len(data), len(data) // 5)):
            copy = tmp_path / f"{cut}" / path.name
            before, earlier = grow_and_read(copy, data[:cut])
            grow(copy, data)
            after, _ = read(at(copy), earlier.cursor)
            assert before + after == messages
