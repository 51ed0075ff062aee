"""The built-in adapters pass the conformance suite. Tests of a single adapter are in its own folder."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest
from tests.tools.claude_code import corpus as claude
from tests.tools.codex import corpus as codex
from tests.tools.gemini_cli import corpus as gemini
from tests.tools.opencode import corpus as opencode
from tests.tools.opencode import stand_in

from cortext.testing import LineSamples, LineToolConformance, Samples, ToolConformance
from cortext.tools.base import Headless, Hooks, Installer, NativeWriter
from cortext.tools.claude_code.adapter import ClaudeCode, folder_name
from cortext.tools.codex.adapter import Codex
from cortext.tools.gemini_cli.adapter import GeminiCli
from cortext.tools.opencode.adapter import OpenCode

PROMISES = (
    "LIB-02",
    "TOOL-01",
    "TOOL-03",
    "TOOL-04",
    "TOOL-05",
    "SESS-001d",
    "SESS-004d",
    "STORE-13",
    "SAFE-03",
    "SAFE-09",
    "TRUE-05",
)
pytestmark = pytest.mark.req(*PROMISES)

Payloads = Sequence[tuple[str, dict[str, Any]]]
GEMINI_USERS = {
    "ui": {"theme": "Dracula"},
    "hooks": {
        "AfterAgent": [{"matcher": "*", "hooks": [{"type": "command", "command": "say done"}]}],
        "Notification": [],
    },
    "mcpServers": {"other": {"command": "other"}},
    "unknown": [1, {"deep": "ünï"}],
}
OPENCODE_CONFIGS = [
    '{\n  "theme": "dark"\n}\n',
    '{\n  "theme": "dark",\n  "mcp": {\n    "other": {\n      "type": "local",\n      "command": ["x"]\n    }\n  }\n}',
    '{"theme":"dark","mcp":{"other":{"type":"local"}}}',
    "{}",
    "{ \n }\n",
    '{\n\t"mcp": {}\n}\n',
    '{\r\n  "a": 1\r\n}\r\n',
    '// mine\n{\n  /* a "quoted", comment */ "url": "http://x/*y*/", // why\n  "list": [1, 2,],\n}\n',
    '{\n  "mcp": { // servers\n    "other": {"type": "local",},\n  },\n}\n',
    '\ufeff{"a": "ü答え"}',
]

NO_OBJECT = ("{", "[]", '"text"', "[" * 100_000)


class FullTool(NativeWriter, Installer, Hooks, Headless, Protocol):
    """Everything that an adapter can do, so that mypy checks that ours do it."""


class ClaudeSamples(LineSamples):
    project = claude.PROJECT
    invalid_cursors = ({"offset": 10**9, "seen": ""}, {"offset": 5, "seen": "x"})
    lines = claude.full_conversation().lines
    messages = tuple((role, "" if text in ("~", "Bash!", "Read!") else text) for role, text in claude.FULL_CONVERSATION)
    unknown = (
        b'{"type":"dream-journal","sessionId":"x"}',
        b'{"no": "type"}',
        b'{"type":"system","subtype":"brand_new","uuid":"u9"}',
    )
    broken = (b'{"type":"user","message":{"role":"user","content":17},"uuid":"x"}',)
    settings = (
        {
            ".claude/settings.json": '{\n  "permissions": {"allow": ["Read"]},\n  "hooks": {\n    "Stop": [\n      {\n'
            '        "matcher": "",\n        "hooks": [{ "type": "command", "command": "say done" }]\n      }\n'
            '    ],\n    "PreToolUse": []\n  },\n  "futureThing": [1.50, 1e3, "\\u00e9", "é"]\n}\n',
            ".mcp.json": '{"mcpServers": {"mine": {"command": "x"}}}',
        },
        {".claude/settings.json": "{}", ".mcp.json": "{}"},
        {".claude/settings.json": "{ }\n", ".mcp.json": '{"mcpServers": {}}'},
        {".claude/settings.json": '{"hooks": {}}', ".mcp.json": '{\n  "mcpServers": {\n    "a": {}\n  }\n}\n'},
        {".claude/settings.json": '{\n  "hooks": {\n    "Stop": []\n  }\n}\n', ".mcp.json": '{"x": 1}\n'},
        {".claude/settings.json": '{\n\t"a": 1,\n\t"hooks": {"Stop": [ ]}\n}'},
        {".claude/settings.json": '{\r\n    "a": {"b": [1,2]}\r\n}\r\n'},
        {".claude/settings.json": '  {"a": "}{", "hooks": {"SessionEnd": [{"hooks": []}]}}  '},
    )
    broken_settings = (
        *({name: text} for name in (".claude/settings.json", ".mcp.json") for text in NO_OBJECT),
        {".claude/settings.json": '{"hooks": []}'},
        {".claude/settings.json": '{"hooks": {"Stop": {}}}'},
        {".mcp.json": '{"mcpServers": 1}'},
    )
    answer_lines = (
        {"type": "stream_event", "event": {"type": "message_start", "message": {"model": "claude-x"}}},
        {"type": "stream_event", "event": {"type": "content_block_start", "content_block": {"type": "text"}}},
        {"type": "stream_event", "event": {"type": "content_block_delta", "delta": {"text": "Seven "}}},
        {"type": "stream_event", "event": {"type": "content_block_delta", "delta": {"text": "herons."}}},
        {"type": "stream_event", "event": {"type": "message_stop"}},
        {"type": "result", "is_error": False, "usage": {"input_tokens": 1, "output_tokens": 2}},
    )
    answer = "Seven herons."
    failure_lines = ({"type": "result", "is_error": True, "result": "Not logged in"},)

    def tool(self, home: Path) -> FullTool:
        return ClaudeCode(home=str(home), environ={"PATH": "/nowhere"})

    def path(self, home: Path) -> Path:
        return home / ".claude/projects" / folder_name(self.project) / f"{claude.KEY}.jsonl"

    def payloads(self, home: Path, project: Path) -> Payloads:
        common = {"session_id": claude.KEY, "transcript_path": str(self.path(home)), "cwd": str(project)}
        events: list[tuple[str, dict[str, Any]]] = [
            ("started", {"hook_event_name": "SessionStart", "source": "startup"}),
            ("prompt", {"hook_event_name": "UserPromptSubmit", "prompt": "Sing one"}),
            ("answered", {"hook_event_name": "Stop", "last_assistant_message": "Way hay."}),
            ("compacted", {"hook_event_name": "PostCompact", "compact_summary": "They sang."}),
            ("ended", {"hook_event_name": "SessionEnd", "reason": "other"}),
        ]
        return [(kind, {**common, **fields}) for kind, fields in events]


class CodexSamples(LineSamples):
    project = "/work/boats"
    invalid_cursors = ({"pages": 3}, {"pages": {"x": [1]}}, {"pages": {codex.THREAD: ["a", "b", "c"]}})
    lines = codex.everyday().lines
    messages = codex.EVERYDAY
    unknown = (
        b'{"timestamp":"2026-11-15T02:34:00.000Z","type":"hologram","payload":{"type":"x"}}',
        b'{"timestamp":"2026-11-15T02:34:00.000Z","type":"event_msg","payload":{"type":"event_from_the_future"}}',
        b'{"timestamp":"2026-11-15T02:34:00.000Z","type":"response_item","payload":{"type":"telepathy","id":"t1"}}',
    )
    broken = (b'{"timestamp":"2026-11-15T02:34:00Z","type":"response_item","payload":{"type":"message","content":7}}',)
    settings = (
        {
            ".codex/hooks.json": '{\n  "note": "mine",\n  "hooks": {\n    "Stop": [\n      {\n        "hooks": [\n'
            '          {\n            "type": "command",\n            "command": "say done"\n          }\n        ]\n'
            "      }\n    ]\n  }\n}\n",
            ".codex/config.toml": '# my settings\nmodel = "x"   # a comment\n\n[mcp_servers.other]\ncommand = "other"',
            ".codex/notes.md": "mine",
        },
        {".codex/hooks.json": '{"hooks": {}}', ".codex/config.toml": ""},
        {".codex/hooks.json": "{}\n\n", ".codex/config.toml": "\n\n[t]\nx = 1\n\n\n"},
        {".codex/hooks.json": '{\n\t"note": "Ünï"\n}', ".codex/config.toml": "a = 1\r\n[t]\r\nb = 2\r\n"},
        {".codex/hooks.json": '{"hooks":{"Stop":[]}}', ".codex/config.toml": "# note"},
        {".codex/hooks.json": '{\n    "hooks": {}\n}\n', ".codex/config.toml": "[t]\nx = 1"},
        {".codex/config.toml": "\n"},
    )
    broken_settings = (
        *({".codex/hooks.json": text} for text in NO_OBJECT[:3]),
        {".codex/hooks.json": '{"hooks": []}'},
        {".codex/hooks.json": '{"hooks": {"Stop": {}}}'},
        {".codex/config.toml": "model = "},
        {".codex/config.toml": "mcp_servers = {}\n"},
        {".codex/config.toml": 'a = "x"\na = "y"\n'},
    )
    answer_lines = (
        {"type": "item.completed", "item": {"type": "reasoning", "text": "hm"}},
        {"type": "item.started", "item": {"type": "command_execution", "command": "cat x"}},
        {"type": "item.completed", "item": {"type": "agent_message", "text": "Seven herons."}},
        {"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 2}},
    )
    answer = "Seven herons."
    failure_lines = ({"type": "turn.failed", "error": {"message": "stream disconnected"}},)

    def tool(self, home: Path) -> FullTool:
        program = home / "bin" / "codex"
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/sh\necho codex-cli 0.166.0\n", encoding="utf-8")
        program.chmod(0o755)
        return Codex(home=str(home), environ={"PATH": str(program.parent)})

    def path(self, home: Path) -> Path:
        return home / ".codex/sessions/2026/11/15" / codex.everyday().name()

    def payloads(self, home: Path, project: Path) -> Payloads:
        common = {"session_id": codex.THREAD, "transcript_path": str(self.path(home)), "cwd": str(project)}
        events: list[tuple[str, dict[str, Any]]] = [
            ("started", {"hook_event_name": "SessionStart", "source": "startup"}),
            ("prompt", {"hook_event_name": "UserPromptSubmit", "prompt": "Read note.txt"}),
            ("answered", {"hook_event_name": "Stop", "last_assistant_message": "It is green."}),
            ("ended", {"hook_event_name": "SessionEnd"}),
        ]
        return [(kind, {**common, **fields}) for kind, fields in events]


class GeminiSamples(LineSamples):
    project = "/work/boats"
    invalid_cursors = ({"offset": 300, "head": 1},)
    lines = gemini.everyday().lines
    messages = gemini.EVERYDAY
    unknown = (b'{"id":"u1","type":"hologram","content":"?"}', b"{}")
    settings = tuple(
        {".gemini/settings.json": text}
        for text in (
            "{}",
            "{}\n",
            *(json.dumps(GEMINI_USERS, indent=indent, ensure_ascii=False) for indent in (None, 2, 4, "\t")),
            json.dumps(GEMINI_USERS, indent=2) + "\n",
            json.dumps({"hooks": {}, "mcpServers": {}, "general": {"sessionRetention": {}}}, indent=2),
            json.dumps({"general": {"sessionRetention": {"enabled": True, "maxAge": "7d"}, "vimMode": True}}, indent=2),
            json.dumps({"general": {"sessionRetention": {"enabled": False}}}, indent=2),
            '// mine\n{\n /* a */ "ui": {}, // b\n  "hooks": {\n    "AfterAgent": [] // none\n  }\n}\n',
            '{\r\n\t"a": "// no comment"\r\n}\r\n',
        )
    )
    broken_settings = tuple(
        {".gemini/settings.json": text}
        for text in (
            *NO_OBJECT[:3],
            *('{"a": }', '{"a": 1,}', '{"a": 1} x', '{"a" 1}', "{1: 2}", '{"hooks": []}'),
            *('{"hooks": {"AfterAgent": {}}}', '{"mcpServers": 1}', '{"general": {"sessionRetention": 5}}'),
        )
    )
    answer_lines = (
        {"type": "message", "role": "user", "content": "mine"},
        {"type": "message", "role": "assistant", "content": "Seven "},
        {"type": "message", "role": "assistant", "content": "herons."},
        {"type": "result", "status": "success", "stats": {"input_tokens": 3, "output_tokens": 4}},
    )
    answer = "Seven herons."
    failure_lines = ({"type": "result", "status": "error", "error": {"message": "quota, code 429"}},)

    def tool(self, home: Path) -> FullTool:
        return GeminiCli(environ={"HOME": str(home), "PATH": ""})

    def path(self, home: Path) -> Path:
        return home / ".gemini/tmp/boats/chats" / f"session-2026-11-15T02-10-{gemini.KEY[:8]}.jsonl"

    def save_bytes(self, home: Path, data: bytes) -> Path:
        path = super().save_bytes(home, data)
        (path.parents[1] / ".project_root").write_text(self.project, encoding="utf-8")
        return path

    def payloads(self, home: Path, project: Path) -> Payloads:
        common = {"session_id": gemini.KEY, "transcript_path": str(self.path(home)), "cwd": str(project)}
        events: list[tuple[str, dict[str, Any]]] = [
            ("started", {"hook_event_name": "SessionStart", "source": "startup"}),
            ("prompt", {"hook_event_name": "BeforeAgent", "prompt": "Read note.txt"}),
            ("answered", {"hook_event_name": "AfterAgent", "prompt": "x", "prompt_response": "one"}),
            ("compacted", {"hook_event_name": "PreCompress", "trigger": "manual"}),
            ("ended", {"hook_event_name": "SessionEnd", "reason": "exit"}),
        ]
        return [(kind, {**common, **fields}) for kind, fields in events]


class OpenCodeSamples(Samples):
    project = "/work/place"
    invalid_cursors = ({"sessions": None}, {"sessions": {"ses_one": ["x"]}}, {"sessions": {"no": [1, "a", 1]}})
    records = 5
    unknown = (b'{"role":"robot"}',)
    broken = (b'{"role":"user","time":{"crea',)
    messages = (
        ("user", "Read note.txt, Ünïcode: 答え"),
        ("assistant", "Let me look."),
        ("tool", "the heron\n"),
        ("user", "And now?"),
        ("assistant", "Now we go."),
        ("user", "Look at it"),
    )
    settings = (
        *({"opencode.json": text} for text in OPENCODE_CONFIGS),
        {"opencode.jsonc": OPENCODE_CONFIGS[-2]},
    )
    broken_settings = tuple(
        {"opencode.json": text} for text in (*NO_OBJECT[:3], '{"mcp": []}', '{"a" 1}', '{"a": 1} {"b": 2}')
    )
    answer_lines = (
        {"type": "reasoning", "part": {"text": "hm"}},
        {"type": "text", "part": {"text": "Seven herons."}},
        {"type": "step_finish", "part": {"reason": "stop", "tokens": {"input": 12, "output": 6}}},
    )
    answer = "Seven herons."
    failure_lines = ({"type": "error", "error": {"name": "APIError", "data": {"message": "503 busy"}}},)

    def tool(self, home: Path) -> FullTool:
        stand_in.install(home / "bin")
        return OpenCode(str(home), {"PATH": f"{home / 'bin'}:{os.environ['PATH']}"})

    def save(self, home: Path, records: int | None = None) -> None:
        self._fill(home, records).close()

    def save_with(self, home: Path, index: int, record: bytes) -> None:
        corpus = self._fill(home)
        # The corpus stores a message each second, so this one comes between two of them.
        message = corpus.message("", created=opencode.START + 1000 * index + 500)
        corpus.change("message", message, data=record)
        corpus.close()

    def save_growing(self, home: Path) -> bool:
        self._save_reply(home, "Seven", done=False)
        return True

    def finish_growing(self, home: Path) -> list[str]:
        self._save_reply(home, "Seven herons.", done=True)
        return ["Seven herons."]

    def _save_reply(self, home: Path, text: str, *, done: bool) -> None:
        corpus = self._fill(home, 1)
        corpus.change("message", corpus.assistant(text, done=done), time_updated=corpus.now + len(text))
        corpus.close()

    def _fill(self, home: Path, records: int | None = None) -> opencode.Corpus:
        path = home / ".local/share/opencode/opencode.db"
        for name in ("", "-wal", "-shm"):
            path.with_name(path.name + name).unlink(missing_ok=True)
        corpus = opencode.Corpus(path)
        corpus.session()
        steps: tuple[Callable[[], str], ...] = (
            lambda: corpus.user("Read note.txt, Ünïcode: 答え"),
            lambda: corpus.assistant(
                opencode.thinking("hm"), "Let me look.", opencode.call("bash", {"command": "cat"}, "the heron\n")
            ),
            lambda: corpus.user("And now?"),
            lambda: corpus.assistant("Now we go."),
            lambda: corpus.user("Look at it"),
        )
        for step in steps[:records]:
            step()
        return corpus

    def payloads(self, home: Path, project: Path) -> Payloads:
        common = {"session_id": "ses_one", "cwd": str(project)}
        events: list[tuple[str, dict[str, Any]]] = [
            ("started", {"hook_event_name": "session.created"}),
            ("prompt", {"hook_event_name": "chat.message", "prompt": "Read note.txt"}),
            ("answered", {"hook_event_name": "session.idle"}),
            ("compacted", {"hook_event_name": "session.compacted"}),
            ("ended", {"hook_event_name": "dispose"}),
        ]
        return [(kind, {**common, **fields}) for kind, fields in events]


class TestClaudeCode(LineToolConformance):
    samples = ClaudeSamples()


class TestCodex(LineToolConformance):
    samples = CodexSamples()


class TestGeminiCli(LineToolConformance):
    samples = GeminiSamples()


class TestOpenCode(ToolConformance):
    samples = OpenCodeSamples()
