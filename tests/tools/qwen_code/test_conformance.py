"""The adapter for Qwen Code passes the conformance suite."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest
from tests.tools.qwen_code import corpus

from cortext.testing import LineSamples, LineToolConformance
from cortext.tools.base import Hooks, Installer, NativeWriter
from cortext.tools.qwen_code.adapter import QwenCode

pytestmark = pytest.mark.req("TOOL-01", "TOOL-03", "TOOL-04", "SESS-001d", "SESS-004d", "STORE-13")

SETTINGS = ".qwen/settings.json"


class Adapter(NativeWriter, Installer, Hooks, Protocol):
    """What the adapter implements, so that mypy checks it."""


class Samples(LineSamples):
    project = corpus.PROJECT
    invalid_cursors = ({"offset": 10**9, "seen": ""}, {"offset": 5, "seen": "x"})
    lines = corpus.everyday().lines
    messages = corpus.EVERYDAY
    unknown = (
        b'{"type":"hologram","uuid":"u1","parentUuid":null}',
        b"{}",
        b'{"type":"system","subtype":"brand_new","uuid":"u9","parentUuid":null}',
    )
    broken = (b'{"type":"user","message":{"role":"user","parts":17},"uuid":"x","parentUuid":null}',)
    settings = tuple(
        {SETTINGS: text}
        for text in (
            "{}",
            "{ }\n",
            '{"hooks": {}, "mcpServers": {}}',
            '{\n  "hooks": {\n    "Stop": [\n      {"hooks": [{ "command": "say done" }]}\n    ]\n  }\n}\n',
            '// mine\n{\n\t"ui": {"theme": "ünï"}, // b\n\t"hooks": {"Stop": [ ]}\n}',
            '{\r\n  "mcpServers": {\r\n    "other": {"command": "x"}\r\n  }\r\n}\r\n',
        )
    )
    broken_settings = tuple(
        {SETTINGS: text} for text in ("{", "[]", '{"hooks": []}', '{"hooks": {"Stop": {}}}', '{"mcpServers": 1}')
    )

    def tool(self, home: Path) -> Adapter:
        return QwenCode(home=str(home), environ={"PATH": "/nowhere"})

    def path(self, home: Path) -> Path:
        return home / ".qwen/projects/-work-boats/chats" / f"{corpus.KEY}.jsonl"

    def payloads(self, home: Path, project: Path) -> Sequence[tuple[str, dict[str, Any]]]:
        common = {"session_id": corpus.KEY, "transcript_path": str(self.path(home)), "cwd": str(project)}
        events: list[tuple[str, dict[str, Any]]] = [
            ("started", {"hook_event_name": "SessionStart", "source": "startup"}),
            ("prompt", {"hook_event_name": "UserPromptSubmit", "prompt": "Read it", "submitted_prompt": "Read it"}),
            ("started", {"hook_event_name": "UserPromptSubmit", "submitted_prompt": corpus.RESUMED}),
            ("answered", {"hook_event_name": "Stop", "last_assistant_message": "It stands still."}),
            ("compacted", {"hook_event_name": "PostCompact", "compact_summary": "They sailed."}),
            ("ended", {"hook_event_name": "SessionEnd", "reason": "other"}),
        ]
        return [(kind, {**common, **fields}) for kind, fields in events]


class TestQwenCode(LineToolConformance):
    samples = Samples()
