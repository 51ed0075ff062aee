"""GitHub Copilot CLI: the facts about it, where its sessions are, and what its hooks report."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from cortext.tools.base import HookEvent
from cortext.tools.shared.commands import is_resume_block, text_of
from cortext.tools.shared.folders import is_uuid
from cortext.tools.shared.parts import HasReader, HasSettings, HasWriter, LazyPart
from cortext.tools.shared.program import LocalTool

_EVENTS_FILE = "events.jsonl"
# The names are those of Claude Code, because with them a payload says which event it is.
KINDS = {
    "SessionStart": "started",
    "UserPromptSubmit": "prompt",
    "Stop": "answered",
    "PreCompact": "compacted",  # it reports only the beginning; the next prompt comes after the end
    "SessionEnd": "ended",
}
# The prompt of a called skill is its text, which the hook gets. These lines say in it what was typed.
COMMAND_MARK = re.compile(r"<command-name>/(\S+)</command-name>\n<command-args>(.*?)</command-args>", re.DOTALL)
_TYPED = re.compile(r"/(workspace\.[\w.-]+)(?:\s+(.*))?", re.DOTALL)


class Copilot(HasReader, HasWriter, HasSettings, LocalTool):
    """The adapter for GitHub Copilot CLI."""

    name = "copilot"
    title = "GitHub Copilot CLI"
    tested_version = "1.0.102"
    command = "copilot"
    package = "@github/copilot"
    folder_variables = ("COPILOT_HOME",)
    commands_run = False
    records_after_answer = False
    prompt_is_public = True
    first_steps = ("/workspace.brainstorm TOPIC",)
    started_by = "COPILOT_CLI"
    session_variable = "COPILOT_AGENT_SESSION_ID"
    install_command = "npm install -g @github/copilot"

    reader = LazyPart("cortext.tools.copilot.read:CopilotReader")
    writer = LazyPart("cortext.tools.copilot.write:CopilotWriter")
    settings = LazyPart("cortext.tools.copilot.write:CopilotSettings")

    def __init__(self, home: str | None = None, environ: Mapping[str, str] | None = None) -> None:
        super().__init__(home, environ)
        self.default_folder = os.path.join(self.home, ".copilot")
        self.folder = self.own_environ.get("COPILOT_HOME") or self.default_folder
        self.sessions = os.path.join(self.folder, "session-state")

    def events_of(self, key: str) -> str:
        """Return the path of a session's events."""
        return os.path.join(self.sessions, key, _EVENTS_FILE)

    def hook_event(self, payload: dict[str, Any]) -> HookEvent | None:
        """Return a hook's payload as an event; None if it is not one that we handle."""
        kind, key = KINDS.get(text_of(payload, "hook_event_name")), text_of(payload, "session_id")
        if kind is None or not is_uuid(key):
            return None
        event = HookEvent(kind=kind, key=key, path=self.events_of(key), project=text_of(payload, "cwd"))
        if kind == "prompt":
            event.text = text_of(payload, "prompt")
            command = COMMAND_MARK.search(event.text) or _TYPED.fullmatch(event.text.strip())
            if command:
                event.kind, event.command, event.arguments = "command", command[1], (command[2] or "").strip()
            elif is_resume_block(event.text):
                event.kind = "started"  # we launched it with this prompt; the user did not type it
        return event

    def hook_answer(self, payload: dict[str, Any], context: str) -> str:
        """Return the output that adds context to a prompt; no other event passes it to the model at once."""
        if not context or text_of(payload, "hook_event_name") != "UserPromptSubmit":
            return ""
        return msgspec.json.encode({"additionalContext": context}).decode("utf-8")
