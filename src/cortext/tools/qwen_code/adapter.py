"""Qwen Code: the facts about it, where its sessions are, and what its hooks report."""

from __future__ import annotations

import os
from typing import Any

from cortext.tools.base import HookEvent
from cortext.tools.shared.commands import additional_context, text_of, typed_event
from cortext.tools.shared.folders import dashed
from cortext.tools.shared.parts import HasInstructions, HasReader, HasSettings, HasWriter, LazyPart
from cortext.tools.shared.program import LocalTool

SUFFIX = ".jsonl"
# UserPromptExpansion is not needed: UserPromptSubmit follows it, and names the command as it was typed.
KINDS = {
    "SessionStart": "started",
    "UserPromptSubmit": "prompt",
    "Stop": "answered",
    "PostCompact": "compacted",
    "SessionEnd": "ended",
}


class QwenCode(HasReader, HasWriter, HasInstructions, HasSettings, LocalTool):
    """The adapter for Qwen Code."""

    name = "qwen"
    title = "Qwen Code"
    tested_version = "0.24.4"
    command = "qwen"
    package = "@qwen-code/qwen-code"
    folder_variables = ("QWEN_HOME", "QWEN_RUNTIME_DIR")
    commands_run = False
    records_after_answer = False
    prompt_is_public = True
    first_steps = ("/workspace.brainstorm TOPIC",)
    started_by = "QWEN_CODE"
    session_variable = "QWEN_CODE_SESSION_ID"
    install_command = "npm install -g @qwen-code/qwen-code"

    reader = LazyPart("cortext.tools.qwen_code.read:QwenReader")
    writer = LazyPart("cortext.tools.qwen_code.write:QwenWriter")
    settings = LazyPart("cortext.tools.qwen_code.write:QwenSettings")

    @property
    def folder(self) -> str:
        """The folder of its settings."""
        return self.environ.get("QWEN_HOME") or os.path.join(self.home, ".qwen")

    @property
    def user_settings(self) -> str:
        """The file of the user's settings."""
        return os.path.join(self.folder, "settings.json")

    @property
    def trust_rules(self) -> str:
        """The file that says which folders the user trusts."""
        return self.environ.get("QWEN_CODE_TRUSTED_FOLDERS_PATH") or os.path.join(self.folder, "trustedFolders.json")

    @property
    def projects(self) -> str:
        """The folder with the sessions of all projects."""
        return os.path.join(self.environ.get("QWEN_RUNTIME_DIR") or self.folder, "projects")

    def chats(self, project: str) -> str:
        """Return the folder with the sessions of a project."""
        return os.path.join(self.projects, dashed(os.path.realpath(project)), "chats")

    def session(self, project: str, key: str) -> str:
        """Return the path of a session of a project."""
        return os.path.join(self.chats(project), key + SUFFIX)

    def hook_event(self, payload: dict[str, Any]) -> HookEvent | None:
        """Translate a hook payload; return None if it names no event or no session."""
        # `prompt` is the expansion of a command, and `submitted_prompt` is as typed.
        return typed_event(payload, KINDS, text_of(payload, "submitted_prompt"))

    def hook_answer(self, payload: dict[str, Any], context: str) -> str:
        """Return the output that adds context to a prompt; empty for other events."""
        event = text_of(payload, "hook_event_name")
        return additional_context(event, context) if context and event == "UserPromptSubmit" else ""
