"""The adapter of gptme passes the conformance suite, with both ways to write tool calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cortext.testing import LineSamples, LineToolConformance
from cortext.tools.base import NativeWriter
from cortext.tools.gptme.adapter import Gptme

pytestmark = pytest.mark.req("TOOL-01", "TOOL-03", "SESS-001d", "SESS-004d", "STORE-13")

KEY = "2026-11-02-flying-pink-dog"
PROJECT = "/work/pond"


def line(role: str, content: str, second: int = 0, **more: Any) -> bytes:
    """Return a record as gptme writes it: local time without a zone, plain ASCII."""
    return json.dumps(
        {"role": role, "content": content, "timestamp": f"2026-11-02T08:00:{second:02d}.123456", **more}
    ).encode()


class GptmeSamples(LineSamples):
    project = PROJECT
    lines = (
        line("system", "You are gptme v0.35.1", pinned=True, hide=True),
        line("system", "<budget:token_budget>128000</budget:token_budget>", hide=True),
        line("user", "Read note.txt 覚えて 🦩\n\n````note.txt\nthe heron stands still\n\n````", 1),
        line(
            "assistant",
            'Let me look.\n@shell(call_1): {"command": "cat note.txt"}\n@read(call_2): {"path": "nope.txt"}',
            2,
            metadata={"model": "local/m", "usage": {"input_tokens": 10, "output_tokens": 5}},
        ),
        line("system", "the heron stands still", 3, call_id="call_1", metadata={"tool": "shell"}),
        line("system", "no such file", 4, call_id="call_2", metadata={"tool": "read"}),
        line("assistant", "It stands still.", 5, metadata={"model": "local/m"}),
        line("user", "<system>No tool call detected in last message.</system>", 6),
        line("system", "compacting …", 7, ui_only=True),
        line("assistant", "", 8),
        line("system", "Interrupted by user", 9),
        line("user", "And this picture?", 10, files=["/work/pond/heron.png"]),
        line("assistant", "A heron.", 11),
    )
    messages = (
        ("user", "Read note.txt 覚えて 🦩"),
        ("assistant", "Let me look."),
        ("tool", "the heron stands still"),
        ("tool", "no such file"),
        ("assistant", "It stands still."),
        ("system", "Interrupted by user"),
        ("user", "And this picture?"),
        ("assistant", "A heron."),
    )
    invalid_cursors = ({"offset": 5, "seen": ""}, {"offset": 40, "seen": "001122334455667788990011"})
    unknown = (b"{}", b'{"role": "narrator", "content": "Meanwhile"}')
    broken = (
        b'{"role": "user", "content": 17}',
        b'{"role": "user", "content": "x", "metadata": [1]}',
    )

    def tool(self, home: Path) -> NativeWriter:
        return Gptme(home=str(home), environ={"PATH": "/nowhere"})

    def path(self, home: Path) -> Path:
        return home / ".local/share/gptme/logs" / KEY / "conversation.jsonl"

    def save_bytes(self, home: Path, data: bytes) -> Path:
        path = super().save_bytes(home, data)
        path.with_name("config.toml").write_text(f'[chat]\nname = "Herons"\nworkspace = "{PROJECT}"\n')
        return path


class TextFormatSamples(GptmeSamples):
    """A user who has set another tool format, in which gptme sends calls as text."""

    def tool(self, home: Path) -> NativeWriter:
        settings = home / ".config/gptme/config.toml"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text('[env]\nTOOL_FORMAT = "markdown"\n')
        return super().tool(home)


class TestGptme(LineToolConformance):
    samples = GptmeSamples()


class TestGptmeWithCallsAsText(LineToolConformance):
    samples = TextFormatSamples()
