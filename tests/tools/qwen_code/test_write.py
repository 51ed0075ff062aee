"""What is written for Qwen Code, where its rules differ from those of the other tools."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cortext.model.message import Message, Part
from cortext.tools.base import Transcript
from cortext.tools.qwen_code.read import QwenReading
from cortext.tools.qwen_code.write import write_session


@pytest.mark.req("TOOL-06")
def test_calls_in_their_own_messages_are_one_record_followed_by_all_results(tmp_path: Path) -> None:
    """Codex records two calls at once as two messages; Qwen Code replaces the result of one that has to wait."""
    messages = [
        Message(id="m1", role="user", content="look at both"),
        Message(id="m2", role="assistant", model="a", parts=[Part("tool_call", id="c1", name="cat", input={"f": "a"})]),
        Message(id="m3", role="assistant", model="b", parts=[Part("tool_call", id="c2", name="cat", input={"f": "b"})]),
        Message(id="m4", role="tool", parts=[Part("tool_result", call_id="c1", text="of a")]),
        Message(id="m5", role="tool", parts=[Part("tool_result", call_id="c2", text="of b")]),
    ]
    path = tmp_path / "s.jsonl"

    write_session(str(path), messages, key="s", project="/work", title="", model="", version="1")

    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [record["type"] for record in records] == ["user", "assistant", "tool_result", "tool_result"]
    assert [part["functionCall"]["id"] for part in records[1]["message"]["parts"]] == ["c1", "c2"]
    read = list(QwenReading(Transcript(tool="qwen", key="s", path=str(path))))
    assert [(message.id, message.model) for message in read] == [
        ("m1", ""), ("m2", "a"), ("m3", "b"), ("m4", ""), ("m5", ""),
    ]  # fmt: skip
