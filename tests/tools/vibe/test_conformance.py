"""The adapter for Mistral Vibe passes the conformance suite, with the sessions of Vibe 2 and of Vibe 3."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest
from tests.tools.vibe import samples

from cortext.testing import LineSamples, LineToolConformance, Samples, ToolConformance
from cortext.testing.running import HooksConformance
from cortext.tools.base import Hooks, Installer, NativeWriter
from cortext.tools.vibe.adapter import Vibe

pytestmark = pytest.mark.req("LIB-02", "TOOL-03", "TOOL-04", "TOOL-05", "SESS-001d", "SESS-004d", "STORE-13", "SAFE-09")


class FullTool(NativeWriter, Installer, Hooks, Protocol):
    """What the adapter can do, so that mypy checks that it does it."""


def _tool(home: Path) -> FullTool:
    return Vibe(home=str(home), environ={"PATH": "/nowhere"})


class Vibe2Samples(LineSamples):
    project = samples.PROJECT
    lines = samples.LINES
    messages = samples.MESSAGES
    unknown = (b'{"role":"hologram","content":"?"}', b"{}")
    broken = (b'{"role":"user","content":17.5}', b'{"role":"assistant","tool_calls":[7]}')
    settings = (
        {
            ".vibe/hooks.toml": '[[hooks]]\nname = "mine"\ntype = "post_tool"\ncommand = "say done"',
            ".vibe/config.toml": '# mine\nactive_model = "x"\n\n[[mcp_servers]]\nname = "other"\ncommand = "other"\n',
        },
        {".vibe/hooks.toml": "", ".vibe/config.toml": "\n\n[t]\nx = 1\n\n\n"},
        {".vibe/config.toml": "a = 1\r\n[t]\r\nb = 2\r\n", ".vibe/notes.md": "mine"},
    )
    broken_settings = (
        {".vibe/hooks.toml": "hooks = "},
        {".vibe/config.toml": "mcp_servers = {}\n"},
        {".vibe/config.toml": 'a = "x"\na = "y"\n'},
    )

    def tool(self, home: Path) -> FullTool:
        return _tool(home)

    def path(self, home: Path) -> Path:
        return home / ".vibe/logs/session" / samples.FOLDER / "messages.jsonl"

    def save_bytes(self, home: Path, data: bytes) -> Path:
        return samples.save_vibe_2(home, data)


class Vibe3Samples(Samples):
    project = samples.PROJECT
    records = len(samples.JOURNAL)
    messages = samples.SPOKEN
    unknown = (b'{"type":"telepathy","payload":{}}', b"{}")
    broken = (b'{"type":"action_result","payload":[]}', b'{"type":"projection_delta","payload":{"delta":7}}')

    def tool(self, home: Path) -> FullTool:
        return _tool(home)

    def save(self, home: Path, records: int | None = None) -> None:
        samples.save_unified(home, samples.JOURNAL[:records])

    def save_with(self, home: Path, index: int, record: bytes) -> None:
        samples.save_unified(home, [*samples.JOURNAL[:index], record, *samples.JOURNAL[index:]])

    def payloads(self, home: Path, project: Path) -> Sequence[tuple[str, dict[str, Any]]]:
        folder = home / ".vibe/logs/session/unified" / samples.UNIFIED
        common = {"session_id": samples.UNIFIED, "transcript_path": str(folder), "cwd": str(project)}
        return [("answered", {**common, "parent_session_id": None, "hook_event_name": "post_agent"})]


class TestVibe2(LineToolConformance):
    samples = Vibe2Samples()
    leaves_out = (HooksConformance,)  # only Vibe 3 has hooks


class TestVibe3(ToolConformance):
    samples = Vibe3Samples()
