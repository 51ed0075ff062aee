"""The adapter for Pi passes the conformance suite."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest
from tests.tools.pi import corpus

from cortext.testing import LineSamples, LineToolConformance
from cortext.tools.base import Hooks, Installer, NativeWriter
from cortext.tools.pi.adapter import Pi

pytestmark = pytest.mark.req("TOOL-01", "TOOL-03", "TOOL-04", "TOOL-05", "SESS-001d", "SESS-004d", "STORE-13")


class Adapter(NativeWriter, Installer, Hooks, Protocol):
    """What the adapter implements, so that mypy checks it."""


class Samples(LineSamples):
    project = corpus.PROJECT
    invalid_cursors = ({"offset": 10**9, "seen": ""}, {"offset": 5, "seen": "x"})
    lines = corpus.everyday().lines
    messages = corpus.EVERYDAY
    unknown = (
        b'{"type":"hologram","id":"u1","parentId":null}',
        b"{}",
        b'{"type":"message","id":"u2","parentId":null,"message":{"role":"robot","content":"beep"}}',
    )
    broken = (b'{"type":"message","id":"x","parentId":null,"message":{"role":"user","content":17}}',)

    def tool(self, home: Path) -> Adapter:
        return Pi(home=str(home), environ={"PATH": "/nowhere"})

    def path(self, home: Path) -> Path:
        return home / ".pi/agent/sessions/--work-boats--" / corpus.NAME

    def payloads(self, home: Path, project: Path) -> Sequence[tuple[str, dict[str, Any]]]:
        common = {"session_id": corpus.KEY, "transcript_path": str(self.path(home)), "cwd": str(project)}
        events: list[tuple[str, dict[str, Any]]] = [
            ("started", {"hook_event_name": "session_start"}),
            ("prompt", {"hook_event_name": "before_agent_start", "prompt": "Read note.txt"}),
            ("started", {"hook_event_name": "before_agent_start", "prompt": "[RESUMED CONVERSATION]\nGo on."}),
            ("answered", {"hook_event_name": "agent_end"}),
            ("compacted", {"hook_event_name": "session_compact"}),
            ("ended", {"hook_event_name": "session_shutdown"}),
        ]
        return [(kind, {**common, **fields}) for kind, fields in events]


class TestPi(LineToolConformance):
    samples = Samples()
