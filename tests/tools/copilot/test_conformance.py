"""The adapter for Copilot passes the conformance suite."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest
from tests.tools.copilot import samples

from cortext.testing import LineSamples, LineToolConformance
from cortext.tools.base import Hooks, Installer, NativeWriter
from cortext.tools.copilot.adapter import Copilot

pytestmark = pytest.mark.req("LIB-02", "TOOL-03", "TOOL-04", "TOOL-05", "SESS-001d", "SESS-004d", "STORE-13", "SAFE-09")
_SERVERS = ".github/mcp.json"


class FullTool(NativeWriter, Installer, Hooks, Protocol):
    """What the adapter can do, so that mypy checks that it does it."""


class CopilotSamples(LineSamples):
    project = samples.PROJECT
    invalid_cursors = ({"offset": 300, "head": 1}, {"offset": True})
    lines = samples.LINES
    messages = samples.MESSAGES
    unknown = (
        b'{"type":"assistant.hologram","data":{},"id":"u1"}',
        b'{"type":"telepathy.received","data":{"content":"?"}}',
        b"{}",
    )
    broken = (
        b'{"type":"user.message","data":{"content":17},"id":"x"}',
        b'{"type":"tool.execution_complete","data":[],"id":"x"}',
    )
    settings = (
        {_SERVERS: "{}"},
        {_SERVERS: '{\n  "mcpServers": {\n    "other": {"command": "x"}\n  }\n}\n'},
        {_SERVERS: '{"mcpServers":{}}', ".mcp.json": '{"mcpServers": {"mine": {"command": "x"}}}'},
        {_SERVERS: '{\r\n\t"unknown": [1.50, "é"]\r\n}\r\n', ".github/hooks/mine.json": '{"version": 1}'},
    )
    broken_settings = tuple({_SERVERS: text} for text in ("{", "[]", '{"mcpServers": 1}'))

    def tool(self, home: Path) -> FullTool:
        return Copilot(home=str(home), environ={"PATH": "/nowhere"})

    def path(self, home: Path) -> Path:
        return home / ".copilot/session-state" / samples.KEY / "events.jsonl"

    def payloads(self, home: Path, project: Path) -> Sequence[tuple[str, dict[str, Any]]]:
        common = {"session_id": samples.KEY, "timestamp": "2026-11-17T12:45:55.033Z", "cwd": str(project)}
        stop = {"transcript_path": str(self.path(home)), "stop_reason": "end_turn", "stop_hook_active": False}
        events: list[tuple[str, dict[str, Any]]] = [
            ("started", {"hook_event_name": "SessionStart", "source": "new", "initial_prompt": "And storks?"}),
            ("prompt", {"hook_event_name": "UserPromptSubmit", "prompt": "And storks?"}),
            ("answered", {"hook_event_name": "Stop", **stop}),
            ("ended", {"hook_event_name": "SessionEnd", "reason": "complete"}),
        ]
        return [(kind, {**common, **fields}) for kind, fields in events]


class TestCopilot(LineToolConformance):
    samples = CopilotSamples()
