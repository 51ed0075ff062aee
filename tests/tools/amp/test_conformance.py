"""Amp: the suite of all adapters, with a thread that has every kind of block."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cortext.testing import ReaderConformance, Samples
from cortext.tools.amp.adapter import Amp

pytestmark = pytest.mark.req("TOOL-03", "TOOL-04", "TOOL-07")

KEY = "T-019b9d03-62e3-772f-9780-3e637f90eaec"
PROJECT = "/work/reed bed"
RECORDS: tuple[dict[str, Any], ...] = (
    {
        "role": "user",
        "messageId": 0,
        "content": [{"type": "text", "text": "How many herons? 答え"}, {"type": "image", "source": {"type": "base64"}}],
        "meta": {"sentAt": 1793606400000},
    },
    {
        "role": "assistant",
        "messageId": 1,
        "content": [
            {"type": "thinking", "thinking": "Count.", "signature": "s"},
            {"type": "text", "text": "Let me look."},
            {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"cmd": "ls"}, "complete": True},
        ],
        "state": {"type": "complete", "stopReason": "tool_use"},
        "usage": {"model": "claude-opus-4-5", "inputTokens": 9, "timestamp": "2026-11-02T08:00:01.000Z"},
    },
    {
        "role": "user",
        "messageId": 2,
        "content": [
            {
                "type": "tool_result",
                "toolUseID": "toolu_1",
                "run": {"status": "done", "result": {"output": "heron heron", "exitCode": 0}},
            }
        ],
    },
    {
        "role": "info",
        "messageId": 3,
        "content": [{"type": "summary", "summary": {"type": "message", "summary": "So."}}],
    },
    {
        "role": "user",
        "messageId": 4,
        "content": [
            {"type": "tool_result", "toolUseID": "toolu_2", "run": {"status": "error", "error": {"message": "no"}}}
        ],
    },
    {
        "role": "user",
        "messageId": 5,
        "content": [
            {
                "type": "manual_bash_invocation",
                "args": {"cmd": "pwd"},
                "toolRun": {"status": "done", "result": {"output": "/work"}},
            }
        ],
    },
    {"role": "assistant", "messageId": 6, "content": [{"type": "text", "text": "Two."}], "state": {"type": "complete"}},
    {"role": "user", "messageId": 7, "content": [{"type": "text", "text": "And storks?"}]},
)


class AmpSamples(Samples):
    project = PROJECT
    records = len(RECORDS)
    messages = (
        ("user", "How many herons? 答え"),
        ("assistant", "Let me look."),
        ("tool", "heron heron"),
        ("tool", "no"),
        ("user", "$ pwd\n/work"),
        ("assistant", "Two."),
        ("user", "And storks?"),
    )
    unknown = (b'{"role": "oracle", "content": []}', b"{}", b'{"role": "user", "content": [{"type": "hologram"}]}')
    broken = (b'{"role": "user", "messageId": 9, "content": 7.5e999}',)

    def tool(self, home: Path) -> Amp:
        return Amp(str(home), {"PATH": "/nowhere"})

    def save(self, home: Path, records: int | None = None) -> None:
        self._save(home, [json.dumps(record).encode() for record in RECORDS[:records]])

    def save_with(self, home: Path, index: int, record: bytes) -> None:
        records = [json.dumps(item).encode() for item in RECORDS]
        self._save(home, [*records[:index], record, *records[index:]])

    def save_growing(self, home: Path) -> bool:
        self._save_reply(home, "Seven", "streaming")
        return True

    def finish_growing(self, home: Path) -> list[str]:
        self._save_reply(home, "Seven herons.", "complete")
        return ["Seven herons."]

    def _save_reply(self, home: Path, text: str, state: str) -> None:
        content = [{"type": "text", "text": text}]
        reply = {"role": "assistant", "messageId": 1, "content": content, "state": {"type": state}}
        self._save(home, [json.dumps(record).encode() for record in (RECORDS[0], reply)])

    def _save(self, home: Path, records: list[bytes]) -> None:
        path = home / ".local/share/amp/threads" / f"{KEY}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        head = {"v": 7, "id": KEY, "created": 1793606400000, "title": "Counting herons"}
        tail = {"agentMode": "smart", "env": {"initial": {"trees": [{"uri": "file:///work/reed%20bed"}]}}}
        body = b', "messages": [' + b",".join(records) + b"], "
        path.write_bytes(json.dumps(head)[:-1].encode() + body + json.dumps(tail)[1:].encode())


class TestAmp(ReaderConformance):
    samples = AmpSamples()


def test_results_errors_models_and_the_summary_are_read(tmp_path: Path) -> None:
    AmpSamples().save(tmp_path)
    tool = Amp(str(tmp_path), {})
    (found,) = tool.transcripts()
    reading = tool.read(found)

    messages = list(reading)

    assert (reading.about.title, reading.about.summary) == ("Counting herons", "So.")
    assert reading.about.created_at == messages[0].timestamp == "2026-11-02T08:00:00.000Z"
    assert (messages[1].model, messages[1].timestamp) == ("claude-opus-4-5", "2026-11-02T08:00:01.000Z")
    assert messages[2].parts_of("tool_result")[0].name == "Bash"
    assert messages[3].parts_of("tool_result")[0].is_error


def test_an_answer_that_is_being_written_gets_its_id_when_it_is_complete(tmp_path: Path) -> None:
    samples = AmpSamples()
    streaming = {"role": "assistant", "messageId": 1, "content": [{"type": "text", "text": "T"}]}
    samples._save(tmp_path, [json.dumps({**streaming, "state": {"type": "streaming"}}).encode()])
    tool = samples.tool(tmp_path)
    (found,) = tool.transcripts()

    (message,) = tool.read(found)

    assert message.partial and message.id == f"{KEY}#1.unfinished"
