"""Going on from where the last reading ended, at any place, and the real files of strangers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.tools.claude_code.corpus import KEY, Script, a_whole_life, at, call, read

from cortext.model.message import Message, thread
from cortext.tools.claude_code.read import ClaudeReading

SHARED = Path(__file__).parents[3].parent / "shared" / "data" / "transcripts"


def grow(path: Path, data: bytes) -> None:
    """Append what a file lacks, as the program does."""
    path.parent.mkdir(exist_ok=True)
    with path.open("ab") as file:
        file.write(data[file.tell() :])


def grown(path: Path, data: bytes) -> tuple[list[Message], ClaudeReading]:
    grow(path, data)
    return read(at(path))


def _a_branching_talk() -> Script:
    script = a_whole_life()
    fork = script.tip
    script.user("this way")
    script.user("no, that way", parent=fork)
    script.assistant(call("z"), answer="msg_last")
    script.result("z", "ü 答")
    return script


@pytest.mark.req("TOOL-03")
def test_a_reading_goes_on_at_every_line(tmp_path: Path) -> None:
    script = _a_branching_talk()
    whole, _ = read(script.save(tmp_path))
    for cut in range(len(script.lines) + 1):
        path = tmp_path / str(cut) / f"{KEY}.jsonl"
        before, reading = grown(path, b"".join(line + b"\n" for line in script.lines[:cut]))
        cursor = json.loads(json.dumps(reading.cursor))
        grow(path, script.data())
        after, reading = read(at(path), cursor)

        assert before + after == whole, cut
        assert read(at(path), reading.cursor)[0] == []
        assert reading.about.title == "Shanties"
        assert reading.about.command == "/workspace.brainstorm"


@pytest.mark.req("TOOL-03")
def test_a_file_that_was_rewritten_is_read_whole(tmp_path: Path) -> None:
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


def test_many_messages(tmp_path: Path) -> None:
    line = Script()
    line.user("PLACE")
    template = line.lines[0]
    path = tmp_path / f"{KEY}.jsonl"
    with path.open("wb") as file:
        for number in range(20_000):
            file.write(template.replace(b"PLACE", b"%d" % number).replace(b'"uuid":"', b'"uuid":"%d-' % number) + b"\n")

    reading = ClaudeReading(at(path))
    for count, message in enumerate(reading):
        assert message.content == str(count)
    assert reading.cursor is not None
    assert len(json.dumps(reading.cursor)) < 4_000


# ── strangers' files ─────────────────────────────────────────────────────────────────────────────────

_STRANGERS = sorted((SHARED / "claude").glob("*.jsonl")) if SHARED.is_dir() else []


@pytest.mark.req("TOOL-03", "TOOL-04")
def test_real_files_of_strangers(tmp_path: Path) -> None:
    """Where the files are at hand; the corpus above holds every kind that they do."""
    for path in _STRANGERS:
        data = path.read_bytes()
        messages, reading = read(at(path))
        talk = thread(messages)

        assert reading.counts.damaged == reading.counts.unknown == {}
        assert len(talk) == sum(not message.aside for message in messages) > 100
        calls = [part.id for message in talk for part in message.parts_of("tool_call")]
        results = [part.call_id for message in talk for part in message.parts_of("tool_result")]
        assert sorted(calls) == sorted(results)
        assert {message.role for message in messages} >= {"user", "assistant", "tool"}
        assert reading.about.model.startswith("claude-")

        for cut in (data.find(b"\n", place) + 1 for place in range(0, len(data), len(data) // 5)):
            copy = tmp_path / f"{cut}" / path.name
            before, earlier = grown(copy, data[:cut])
            grow(copy, data)
            after, _ = read(at(copy), earlier.cursor)
            assert before + after == messages
