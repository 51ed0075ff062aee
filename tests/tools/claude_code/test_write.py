"""Writing a native session: what any conversation becomes, and that it comes back as it was."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.tools.claude_code.corpus import KEY, at, read
from tests.tools.claude_code.talk import answers, calls, records, round_trip, said, wire

from cortext.errors import DamagedData
from cortext.model.message import Part
from cortext.model.turns import NOT_RECORDED, essence
from cortext.tools.base import Written
from cortext.tools.claude_code import write as claude_code_write
from cortext.tools.claude_code.adapter import ClaudeCode, folder_name, is_uuid


@pytest.fixture
def tool(tmp_path: Path) -> ClaudeCode:
    return ClaudeCode(home=str(tmp_path / "home"), environ={"PATH": "/nowhere"})


A_TALK = [
    said("user", "Hello — ünïcode, 答え, 👩‍👩‍👧", model=""),
    said("assistant", "", Part("thinking", text="hm"), model="gemini-3-pro", tokens=7, usage={"output": 7}),
    said("assistant", "Looking.", Part("text", text="Looking."), calls("c1"), model="gemini-3-pro", tokens=9),
    said("tool", "", answers("c1", "a.txt")),
    said("assistant", "There is a.txt.", model="gpt-5"),
    said("user", "/workspace.brainstorm API design"),
    said("assistant", "Two lines\n\nand \t tabs.", model="gpt-5"),
]


@pytest.mark.req("TOOL-01", "SESS-004d", "STORE-13")
def test_a_conversation_comes_back_with_its_ids(tool: ClaudeCode, tmp_path: Path) -> None:
    written, back = round_trip(tool, A_TALK, tmp_path)

    kept = [message for message in A_TALK if message.content or message.role == "tool"]
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
    assert tool.preview(A_TALK) == Written(key="", path="", messages=6, tool_calls=1, changed={"thinking left out": 1})


def test_the_file_is_what_the_program_writes_itself(tool: ClaudeCode, tmp_path: Path) -> None:
    written = tool.write(A_TALK, project=str(tmp_path), title="A talk", model="claude-opus-5-5")

    assert is_uuid(written.key)
    assert written.path == str(tmp_path / "home/.claude/projects" / folder_name(str(tmp_path)) / f"{written.key}.jsonl")
    assert stat.S_IMODE(os.stat(written.path).st_mode) == 0o600
    *turns, title = records(written)
    assert title == {"type": "custom-title", "customTitle": "A talk", "sessionId": written.key}
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
    assert reading.about.title == "A talk"


def test_the_same_messages_get_the_same_records(tool: ClaudeCode, tmp_path: Path) -> None:
    first, second = (tool.write(A_TALK, project=str(tmp_path)) for _ in range(2))

    assert first.key != second.key
    assert [record["uuid"] for record in records(first)] == [record["uuid"] for record in records(second)]


def test_what_does_not_come_back_is_not_left_there(
    tool: ClaudeCode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = claude_code_write._lines

    def lossy(*arguments: Any) -> Any:
        for line in real(*arguments):
            yield line.replace(b"Looking.", b"Look.")

    monkeypatch.setattr(claude_code_write, "_lines", lossy)

    with pytest.raises(DamagedData, match="did not come back"):
        tool.write(A_TALK, project=str(tmp_path), key=KEY)

    assert list(tool.transcripts()) == []


# ── calls and results ────────────────────────────────────────────────────────────────────────────────


def test_consecutive_answers_share_an_id_because_the_program_joins_by_it(tool: ClaudeCode, tmp_path: Path) -> None:
    talk = [
        said("user", "go"),
        said("assistant", "", calls("a")),
        said("assistant", "", calls("b")),
        said("tool", "", answers("a", "1")),
        said("tool", "", answers("b", "2")),
        said("assistant", "", calls("c")),
        said("tool", "", answers("c", "3")),
        said("assistant", "done"),
    ]

    written, back = round_trip(tool, talk, tmp_path)

    assert written.changed == {}
    assert [message.id for message in back] == [message.id for message in talk]
    answer_ids = [record["message"]["id"] for record in records(written) if record["type"] == "assistant"]
    assert answer_ids[0] == answer_ids[1]
    assert len(set(answer_ids)) == 3


def test_words_beside_results_wait_for_the_last_result(tool: ClaudeCode, tmp_path: Path) -> None:
    talk = [
        said("user", "go"),
        said("assistant", "", calls("a"), calls("b"), calls("c")),
        said("user", "no more", answers("a", "first"), Part("text", text="no more")),
        said("tool", "", answers("b", "second")),
    ]

    written, back = round_trip(tool, talk, tmp_path)

    assert [text for _, text in wire(written)][4:] == [NOT_RECORDED, "first", "second", "no more"]
    assert sorted(essence(message) for message in back) == sorted(essence(message) for message in talk)


def test_one_message_may_answer_calls_of_two_answers(tool: ClaudeCode, tmp_path: Path) -> None:
    talk = [
        said("user", "go"),
        said("assistant", "", calls("a")),
        said("user", "wait"),
        said("assistant", "", calls("b")),
        said("tool", "", answers("a", "first"), answers("b", "second")),
    ]

    written, back = round_trip(tool, talk, tmp_path)

    assert [text for _, text in wire(written)] == ["go", "Bash", "first", "wait", "Bash", "second"]
    assert {message.id for message in back} == {message.id for message in talk}
    by_id = {message.id: message for message in back}
    assert essence(by_id[talk[4].id]) == essence(talk[4])


# ── texts ────────────────────────────────────────────────────────────────────────────────────────────


def test_texts_that_would_vanish_are_quoted(tool: ClaudeCode, tmp_path: Path) -> None:
    talk = [
        said("user", "  \n\t"),
        said("assistant", "(no content)"),
        said("user", "(no content)"),
        said("assistant", " \u2003 "),
        said("user", ""),
    ]

    written, back = round_trip(tool, talk, tmp_path)

    assert [text for _, text in wire(written)] == [
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
    assert [message.content for message in back] == [message.content for message in talk[:4]]


@pytest.mark.req("SAFE-03")
def test_nothing_becomes_system_text(tool: ClaudeCode, tmp_path: Path) -> None:
    talk = [said("system", "Obey me."), said("assistant", "No.")]

    written, back = round_trip(tool, talk, tmp_path)

    assert wire(written)[0] == ("user/text", "[system note, not the user's words]\nObey me.")
    assert {record["type"] for record in records(written)} == {"user", "assistant"}
    assert [(message.role, message.content) for message in back] == [("system", "Obey me."), ("assistant", "No.")]


def test_an_assistant_does_not_begin(tool: ClaudeCode, tmp_path: Path) -> None:
    written, back = round_trip(tool, [said("assistant", "I begin.", id="a")], tmp_path)

    assert wire(written)[0][0] == "user/text"
    assert written.changed == {"opening user message added": 1}
    assert [message.id for message in back] == ["a"]


def test_content_and_parts_that_disagree_lose_nothing(tool: ClaudeCode, tmp_path: Path) -> None:
    talk = [
        said("user", "the words", Part("image", ref="r")),
        said("assistant", "some words", Part("text", text="other words"), Part("sparkle", text="new kind")),
        said("tool", "out", answers("a", "out")),
    ]

    written, _ = round_trip(tool, talk, tmp_path)

    texts = " ".join(text for _, text in wire(written))
    assert all(words in texts for words in ("the words", "some words", "other words", "new kind", "out"))
