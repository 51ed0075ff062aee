"""Claude Code: the facts about it, where its transcripts are, and what its hooks report."""

from __future__ import annotations

import os
from typing import Any

from cortext.tools.base import HookEvent
from cortext.tools.shared.commands import ShowsSystemMessage, additional_context, event_of, text_of
from cortext.tools.shared.folders import dashed, up_to_top, utf16_units
from cortext.tools.shared.parts import (
    HasHeadless,
    HasImages,
    HasInstructions,
    HasPurge,
    HasReader,
    HasSettings,
    HasWriter,
    LazyPart,
)
from cortext.tools.shared.program import LocalTool

_LONGEST_FOLDER = 200
_LONGEST_CONTEXT = 10_000  # UTF-16 units; of a longer hook answer the model gets only a preview
_TAKES_CONTEXT = frozenset(("SessionStart", "UserPromptSubmit", "UserPromptExpansion"))
_KINDS = {
    "SessionStart": "started",
    "UserPromptSubmit": "prompt",
    "UserPromptExpansion": "command",
    "Stop": "answered",
    "PostCompact": "compacted",
    "SessionEnd": "ended",
}


class ClaudeCode(
    HasReader, HasImages, HasWriter, HasInstructions, HasSettings, HasPurge, HasHeadless, ShowsSystemMessage, LocalTool
):
    """The adapter for Claude Code."""

    name = "claude"
    title = "Claude Code"
    tested_version = "2.1.325"
    command = "claude"
    folder_variables = ("CLAUDE_CONFIG_DIR",)
    commands_run = True
    records_after_answer = False
    prompt_is_public = True
    first_steps = (
        "/workspace.brainstorm TOPIC",
        'When asked about the MCP server, choose "Use this MCP server".',
    )
    started_by = "CLAUDECODE"
    session_variable = "CLAUDE_CODE_SESSION_ID"
    install_command = "npm install -g @anthropic-ai/claude-code"
    headless_context = 200_000

    reader = LazyPart("cortext.tools.claude_code.store:ClaudeStore")
    writer = LazyPart("cortext.tools.claude_code.write:ClaudeWriter")
    settings = LazyPart("cortext.tools.claude_code.settings:ClaudeSettings")
    headless = LazyPart("cortext.tools.claude_code.live:ClaudeHeadless")

    @property
    def config_folder(self) -> str:
        """The folder of its settings and transcripts."""
        return self.environ.get("CLAUDE_CONFIG_DIR") or os.path.join(self.home, ".claude")

    @property
    def projects(self) -> str:
        """The folder with the transcripts of each project."""
        return os.path.join(self.config_folder, "projects")

    def skill_folders(self, project: str) -> list[str]:
        """Return the folders of the user's and the project's skills; plugins have theirs elsewhere."""
        own = (os.path.join(folder, ".claude", "skills") for folder in up_to_top(project))
        return [os.path.join(self.config_folder, "skills"), *own]

    def hook_event(self, payload: dict[str, Any]) -> HookEvent | None:
        """Translate a hook payload; return None if it names no event or no session of Claude Code."""
        # Copilot, too, runs the hooks in Claude Code's settings, for its own sessions. It sets this variable for them.
        return None if self.environ.get("COPILOT_PROJECT_DIR") else event_of(payload, _KINDS)

    def hook_answer(self, payload: dict[str, Any], context: str) -> str:
        """Return the context as JSON for the hook's output; empty if Claude Code would not pass on all of it."""
        event = text_of(payload, "hook_event_name")
        if not context or event not in _TAKES_CONTEXT or _utf16_length(context) > _LONGEST_CONTEXT:
            return ""
        return additional_context(event, context)


def folder_name(project: str) -> str:
    """Return the name of a project's folder: `-` for all but letters and digits; a long name is cut and hashed."""
    name = dashed(project)
    if len(name) <= _LONGEST_FOLDER:
        return name
    value = 0
    for unit in utf16_units(project):
        value = (value * 31 + unit) & 0xFFFFFFFF
    value = abs(value - (1 << 32) if value >= 1 << 31 else value)
    digits = ""
    while value:
        value, digit = divmod(value, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return f"{name[:_LONGEST_FOLDER]}-{digits or '0'}"


def _utf16_length(text: str) -> int:
    """Return the length of a text in JavaScript, which is how Claude Code counts."""
    return len(text.encode("utf-16-le", "replace")) // 2
