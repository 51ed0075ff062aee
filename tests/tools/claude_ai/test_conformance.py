"""Claude.ai: the suite of all adapters with a conversation of a data export, its branches, and older exports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import cortext
from tests.tools.exports import listing, save_zip

from cortext.model.message import BEGINNING, Message
from cortext.model.threads import thread
from cortext.testing import ReaderConformance, Samples
from cortext.tools.chatgpt.adapter import ChatGpt
from cortext.tools.claude_ai.adapter import ClaudeAi

pytestmark = pytest.mark.req("TOOL-03", "TOOL-04", "TOOL-07")

KEY = "0b0f7c1e-0000-4000-8000-00000000abcd"
ROOT = "00000000-0000-4000-8000-000000000000"


def said(name: str, sender: str, content: Any, parent: str = "", **more: Any) -> dict[str, Any]:
    """Return a message, as it is exported."""
    blocks: list[Any] = [{"type": "text", "text": content, "citations": []}] if isinstance(content, str) else content
    text = "".join(block.get("text", "") for block in blocks)
    times = {"created_at": f"2026-11-02T08:00:0{len(name)}.123456Z", "updated_at": "2026-11-02T08:00:09Z"}
    record = {"uuid": name, "text": text, "content": blocks, "sender": sender, **times, "attachments": [], "files": []}
    return record | ({"parent_message_uuid": parent} if parent else {}) | more


MESSAGES_OF_SAMPLE = (
    said(
        "u1",
        "human",
        "How many herons? 答え",
        ROOT,
        attachments=[{"file_name": "list.txt", "file_size": 5, "file_type": "txt", "extracted_content": "heron"}],
        files=[{"file_name": "pond.png", "file_uuid": "f1"}, {"file_name": "list.txt", "file_uuid": "f2"}],
    ),
    said(
        "a1",
        "assistant",
        [
            {"type": "thinking", "thinking": "Count them.", "summaries": [], "cut_off": False},
            {"type": "text", "text": "Let me look.", "citations": []},
            {"type": "tool_use", "id": "toolu_1", "name": "web_search", "input": {"query": "herons"}},
            {
                "type": "tool_result",
                "tool_use_id": "toolu_1",
                "name": "web_search",
                "content": [{"type": "text", "text": "two"}, {"type": "knowledge", "title": "t", "url": "x"}],
                "is_error": False,
            },
            {"type": "token_budget", "remaining": 5},
            {"type": "text", "text": "Two herons.", "citations": []},
        ],
        "u1",
    ),
    said("u2", "human", "And storks?", "a1"),
    said("a2", "assistant", [], "u2", text="No storks."),
    said("u3", "human", "Thanks", "a2"),
)


def conversation(messages: list[bytes], key: str = KEY) -> bytes:
    """Return a conversation with these messages, each as bytes."""
    head: dict[str, Any] = {
        "uuid": key,
        "name": "Counting herons",
        "summary": "About herons.",
        "created_at": "2026-11-02T08:00:00Z",
    }
    head |= {"updated_at": f"2026-11-02T08:00:{len(messages):02}Z", "account": {"uuid": "acc"}}
    return json.dumps(head)[:-1].encode() + b', "chat_messages": [' + b",".join(messages) + b"]}"


class ClaudeAiSamples(Samples):
    records = len(MESSAGES_OF_SAMPLE)
    messages = (
        ("user", "How many herons? 答え"),
        ("assistant", "Let me look."),
        ("tool", 'two\n{"type": "knowledge", "title": "t", "url": "x"}'),
        ("assistant", "Two herons."),
        ("user", "And storks?"),
        ("assistant", "No storks."),
        ("user", "Thanks"),
    )
    unknown = (
        json.dumps(said("x", "oracle", "?")).encode(),
        json.dumps(said("x", "human", [{"type": "hologram"}])).encode(),
    )
    broken = (b'{"uuid": "x", "sender": 7.5e999}',)

    def tool(self, home: Path) -> ClaudeAi:
        return listing(ClaudeAi(), lambda: home / "data-2026-11-02.zip")

    def save(self, home: Path, records: int | None = None) -> None:
        self._save(home, [json.dumps(item).encode() for item in MESSAGES_OF_SAMPLE[:records]])

    def save_with(self, home: Path, index: int, record: bytes) -> None:
        messages = [json.dumps(item).encode() for item in MESSAGES_OF_SAMPLE]
        self._save(home, [*messages[:index], record, *messages[index:]])

    def _save(self, home: Path, messages: list[bytes]) -> None:
        save_zip(home / "data-2026-11-02.zip", b"[" + conversation(messages) + b"]")


class TestClaudeAi(ReaderConformance):
    samples = ClaudeAiSamples()


def read(path: Path, records: list[dict[str, Any]]) -> list[Message]:
    path.write_bytes(b"[" + conversation([json.dumps(record).encode() for record in records]) + b"]")
    tool = ClaudeAi()
    (found,) = tool.transcripts_in(str(path))
    return list(tool.read(found))


def test_files_calls_and_results_are_read(tmp_path: Path) -> None:
    messages = read(tmp_path / "conversations.json", list(MESSAGES_OF_SAMPLE))

    assert [part.name for part in messages[0].parts_of("file")] == ["list.txt", "pond.png"]
    assert messages[0].parts_of("file")[0].text == "heron"
    assert messages[0].timestamp == "2026-11-02T08:00:02.123Z"
    (call,), (result,) = messages[1].parts_of("tool_call"), messages[2].parts_of("tool_result")
    assert (call.id, call.input) == (result.call_id, {"query": "herons"})
    assert not any(message.parent for message in messages)


def test_an_edited_question_is_a_branch(tmp_path: Path) -> None:
    records = [
        said("u1", "human", "Hwo many?", ROOT),
        said("a1", "assistant", "What?", "u1"),
        said("u1b", "human", "How many?", ROOT),
        said("a1b", "assistant", "Two.", "u1b"),
        said("a1c", "assistant", "Two herons.", "u1b"),
    ]

    messages = read(tmp_path / "conversations.json", records)

    assert [message.parent for message in messages] == ["", "", BEGINNING, "", "u1b"]
    assert [message.text for message in thread(messages)] == ["How many?", "Two herons."]


def test_calls_without_an_id_are_paired_with_the_result_that_follows(tmp_path: Path) -> None:
    blocks = [
        {"type": "tool_use", "name": "repl", "input": {"code": "1"}},
        {"type": "tool_result", "name": "repl", "content": "one"},
        {"type": "tool_use", "name": "repl", "input": {"code": "2"}},
        {"type": "tool_result", "name": "repl", "content": [], "is_error": True},
    ]

    messages = read(tmp_path / "conversations.json", [said("a1", "assistant", blocks)])

    calls = [part.id for message in messages for part in message.parts_of("tool_call")]
    results = [part.call_id for message in messages for part in message.parts_of("tool_result")]
    assert calls == results and len(set(calls)) == 2
    assert messages[-1].parts_of("tool_result")[0].is_error


def test_each_export_is_recognised_by_its_own_adapter_only(tmp_path: Path, home: Path) -> None:
    ClaudeAiSamples().save(tmp_path)
    path = str(tmp_path / "data-2026-11-02.zip")
    assert ChatGpt().transcript_at(path) is None

    (report,) = cortext("import", path, "--json").json

    assert (report["tool"], report["created"], report["messages"]) == ("claude-ai", 1, 7)
