"""Droid: the suite of all adapters, with a session in a file of lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cortext.testing import LineReaderConformance, LineSamples
from cortext.tools.droid.adapter import Droid

pytestmark = pytest.mark.req("TOOL-03", "TOOL-04", "TOOL-07")

KEY = "b2f4f0aa-0000-4000-8000-000000000001"
PROJECT = "/work/pond"


def line(kind: str, **fields: Any) -> bytes:
    return json.dumps({"type": kind, **fields}, ensure_ascii=False).encode()


def said(name: str, role: str, *content: Any) -> bytes:
    return line(
        "message",
        id=name,
        timestamp="2026-11-02T08:00:00.000Z",
        message={"role": role, "content": list(content)},
        parentId="p",
    )


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


class DroidSamples(LineSamples):
    project = PROJECT
    invalid_cursors = ({"offset": 10, "calls": 7}, {"calls": {}})
    lines = (
        line("session_start", id=KEY, title="How many", sessionTitle="Counting herons", version=2, cwd=PROJECT),
        said("u1", "user", text("<system-reminder>\nbe good\n</system-reminder>"), text("How many herons? 答え")),
        said(
            "a1",
            "assistant",
            {"type": "thinking", "thinking": "Count.", "signature": "s"},
            text("Let me look."),
            {"type": "tool_use", "id": "call_1", "name": "Execute", "input": {"command": "ls"}},
        ),
        line("todo_state", id="t", timestamp="2026-11-02T08:00:00.000Z", todos=[], messageIndex=1),
        said(
            "r1", "user", {"type": "tool_result", "tool_use_id": "call_1", "content": "heron heron", "is_error": False}
        ),
        said("a2", "assistant", text("Two.")),
        line("compaction_state", id="c", summaryText="They counted."),
        said("u2", "user", text("And storks?")),
    )
    messages = (
        ("user", "How many herons? 答え"),
        ("assistant", "Let me look."),
        ("tool", "heron heron"),
        ("assistant", "Two."),
        ("user", "And storks?"),
    )
    unknown = (b'{"type": "hologram"}', b"{}", line("message", id="x", message={"role": "oracle", "content": []}))
    broken = (line("message", id="x", message={"role": "user", "content": 7}),)

    def tool(self, home: Path) -> Droid:
        return Droid(str(home), {"PATH": "/nowhere"})

    def path(self, home: Path) -> Path:
        return home / ".factory/sessions/-work-pond" / f"{KEY}.jsonl"


class TestDroid(LineReaderConformance):
    samples = DroidSamples()


def test_the_title_the_model_and_the_summary_are_read(tmp_path: Path) -> None:
    samples = DroidSamples()
    samples.save(tmp_path)
    samples.path(tmp_path).with_suffix(".settings.json").write_text('{"model": "glm-4.6"}')
    tool = samples.tool(tmp_path)
    (found,) = tool.transcripts()
    reading = tool.read(found)

    messages = list(reading)

    assert (reading.about.title, reading.about.model) == ("Counting herons", "glm-4.6")
    assert reading.about.summary == "They counted."
    assert messages[2].parts_of("tool_result")[0].name == "Execute"
    assert reading.counts.skipped == {"system reminder": 1, "todo_state": 1, "compaction_state": 1}
