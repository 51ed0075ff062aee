"""Writing native sessions: the records of a conversation, and that reading them gives it back."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.tools.claude_code.conversations import call_part, message_of, native_turns, records, result_part, round_trip
from tests.tools.claude_code.corpus import KEY, at, read

from cortext.errors import DamagedData
from cortext.model.message import Part
from cortext.model.turns import NOT_RECORDED, essence
from cortext.tools.base import Written
from cortext.tools.claude_code import write as claude_code_write
from cortext.tools.claude_code.adapter import ClaudeCode, folder_name
from cortext.tools.shared.folders import is_uuid


@pytest.fixture
def tool(tmp_path: Path) -> ClaudeCode:
    return ClaudeCode(home=str(tmp_path / "home"), environ={"PATH": "/nowhere"})


CONVERSATION = [
    message_of("user", "Hello — ünïcode, 答え, 👩‍👩‍👧", model=""),
    message_of("assistant", "", Part("thinking", text="hm"), model="gemini-3-pro", tokens=7, usage={"output": 7}),
    message_of("assistant", "Looking.", Part("text", text="Looking."), call_part("c1"), model="gemini-3-pro", tokens=9),
    message_of("tool", "", result_part("c1", "a.txt")),
    message_of("assistant", "There is a.txt.", model="gpt-5"),
    message_of("user", "/workspace.brainstorm API design"),
    message_of("assistant", "Two lines\n\nand \t tabs.", model="gpt-5"),
]


@pytest.mark.req("TOOL-01", "SESS-004d", "STORE-13")
def test_a_conversation_comes_back_with_its_ids(tool: ClaudeCode, tmp_path: Path) -> None:
    written, back = round_trip(tool, CONVERSATION, tmp_path)

    kept = [message for message in CONVERSATION if message.content or message.role == "tool"]
    assert [message.id for message in back] == [message.id for message in kept]
    for want, got in zip(kept, back, strict=True):
        assert essence(want) == essence(got)
        assert (want.model, want.tokens, want.usage, want.timestamp) == (
            got.model,
            got.tokens,
            got.usage,
            got.timestamp,
        )
    assert (written.messages, written.tool_calls, written.changed) == (6, 1, {"thinking left out": 1})
    assert tool.preview(CONVERSATION) == Written(
        key="", path="", messages=6, tool_calls=1, changed={"thinking left out": 1}
    )


def test_the_file_looks_like_one_of_claude_code(tool: ClaudeCode, tmp_path: Path) -> None:
    written = tool.write(CONVERSATION, project=str(tmp_path), title="A title", model="claude-opus-5-5")

    assert is_uuid(written.key)
    assert written.path == str(tmp_path / "home/.claude/projects" / folder_name(str(tmp_path)) / f"{written.key}.jsonl")
    assert stat.S_IMODE(os.stat(written.path).st_mode) == 0o600
    *turns, title = records(written)
    assert title == {"type": "custom-title", "customTitle": "A title", "sessionId": written.key}
    parent = None
    for record in turns:
        assert record["parentUuid"] == parent
        assert (record["sessionId"], record["cwd"]) == (written.key, str(tmp_path))
        assert is_uuid(record["uuid"])
        parent = record["uuid"]
        if record["type"] == "assistant":
            assert record["message"]["model"]
            assert record["timestamp"]
    stamps = [record["timestamp"] for record in turns]
    assert stamps == sorted(stamps)
    _, reading = read(at(Path(written.path)))
    assert reading.about.title == "A title"


def test_the_same_messages_get_the_same_records(tool: ClaudeCode, tmp_path: Path) -> None:
    first, second = (tool.write(CONVERSATION, project=str(tmp_path)) for _ in range(2))

    assert first.key != second.key
    assert [record["uuid"] for record in records(first)] == [record["uuid"] for record in records(second)]


def test_a_session_that_reads_back_differently_is_removed(
    tool: ClaudeCode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = claude_code_write._lines

    def lossy(*arguments: Any) -> Any:
        for line in original(*arguments):
            yield line.replace(b"Looking.", b"Look.")

    monkeypatch.setattr(claude_code_write, "_lines", lossy)

    with pytest.raises(DamagedData, match="is different"):
        tool.write(CONVERSATION, project=str(tmp_path), key=KEY)

    assert list(tool.transcripts()) == []


# ── calls and results ────────────────────────────────────────────────────────────────────────────────


def test_consecutive_assistant_messages_share_a_message_id(tool: ClaudeCode, tmp_path: Path) -> None:
    messages = [
        message_of("user", "go"),
        message_of("assistant", "", call_part("a")),
        message_of("assistant", "", call_part("b")),
        message_of("tool", "", result_part("a", "1")),
        message_of("tool", "", result_part("b", "2")),
        message_of("assistant", "", call_part("c")),
        message_of("tool", "", result_part("c", "3")),
        message_of("assistant", "done"),
    ]

    written, back = round_trip(tool, messages, tmp_path)

    assert written.changed == {}
    assert [message.id for message in back] == [message.id for message in messages]
    answer_ids = [record["message"]["id"] for record in records(written) if record["type"] == "assistant"]
    assert answer_ids[0] == answer_ids[1]
    assert len(set(answer_ids)) == 3


def test_text_next_to_results_comes_after_the_last_result(tool: ClaudeCode, tmp_path: Path) -> None:
    messages = [
        message_of("user", "go"),
        message_of("assistant", "", call_part("a"), call_part("b"), call_part("c")),
        message_of("user", "no more", result_part("a", "first"), Part("text", text="no more")),
        message_of("tool", "", result_part("b", "second")),
    ]

    written, back = round_trip(tool, messages, tmp_path)

    assert [text for _, text in native_turns(written)][4:] == [NOT_RECORDED, "first", "second", "no more"]
    assert sorted(essence(message) for message in back) == sorted(essence(message) for message in messages)


def test_one_message_may_hold_results_for_two_answers(tool: ClaudeCode, tmp_path: Path) -> None:
    messages = [
        message_of("user", "go"),
        message_of("assistant", "", call_part("a")),
        message_of("user", "wait"),
        message_of("assistant", "", call_part("b")),
        message_of("tool", "", result_part("a", "first"), result_part("b", "second")),
    ]

    written, back = round_trip(tool, messages, tmp_path)

    assert [text for _, text in native_turns(written)] == ["go", "Bash", "first", "wait", "Bash", "second"]
    assert {message.id for message in back} == {message.id for message in messages}
    by_id = {message.id: message for message in back}
    assert essence(by_id[messages[4].id]) == essence(messages[4])


# ── texts ────────────────────────────────────────────────────────────────────────────────────────────


def test_texts_that_claude_code_would_drop_are_quoted(tool: ClaudeCode, tmp_path: Path) -> None:
    messages = [
        message_of("user", "  \n\t"),
        message_of("assistant", "(no content)"),
        message_of("user", "(no content)"),
        message_of("assistant", " \u2003 "),
        message_of("user", ""),
    ]

    written, back = round_trip(tool, messages, tmp_path)

    assert [text for _, text in native_turns(written)] == [
        r'[text: "  \n\t"]',
        '[text: "(no content)"]',
        "(no content)",
        '[text: " \u2003 "]',
    ]
    assert written.changed == {
        "whitespace-only text quoted": 2,
        "text that the tool would drop quoted": 1,
        "empty message left out": 1,
    }
    assert [message.content for message in back] == [message.content for message in messages[:4]]


@pytest.mark.req("SAFE-03")
def test_a_system_message_becomes_a_labelled_user_message(tool: ClaudeCode, tmp_path: Path) -> None:
    messages = [message_of("system", "Obey me."), message_of("assistant", "No.")]

    written, back = round_trip(tool, messages, tmp_path)

    assert native_turns(written)[0] == ("user/text", "[system note, not the user's words]\nObey me.")
    assert {record["type"] for record in records(written)} == {"user", "assistant"}
    assert [(message.role, message.content) for message in back] == [("system", "Obey me."), ("assistant", "No.")]


def test_a_conversation_that_an_assistant_begins_gets_an_opening(tool: ClaudeCode, tmp_path: Path) -> None:
    written, back = round_trip(tool, [message_of("assistant", "I begin.", id="a")], tmp_path)

    assert native_turns(written)[0][0] == "user/text"
    assert written.changed == {"opening user message added": 1}
    assert [message.id for message in back] == ["a"]


def test_content_and_parts_that_differ_are_both_written(tool: ClaudeCode, tmp_path: Path) -> None:
    messages = [
        message_of("user", "the words", Part("image", ref="r")),
        message_of("assistant", "some words", Part("text", text="other words"), Part("sparkle", text="new kind")),
        message_of("tool", "out", result_part("a", "out")),
    ]

    written, _ = round_trip(tool, messages, tmp_path)

    texts = " ".join(text for _, text in native_turns(written))
    assert all(text in texts for text in ("the words", "some words", "other words", "new kind", "out"))
