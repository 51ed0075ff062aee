"""Kimi Code: the facts about it, where its sessions are, and what its hooks report.

A prompt that the user types is reported before it is sent (`UserPromptSubmit`), a skill only when its turn begins
(`TurnStarted`), and then Kimi Code ignores the answer. The payloads do not name the transcript.
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from cortext.safety.framing import BEGIN
from cortext.tools.base import HookEvent, UserHooks
from cortext.tools.shared.commands import command_in, text_of
from cortext.tools.shared.folders import listing
from cortext.tools.shared.parts import HasReader, HasRefusal, HasSettings, HasWriter, LazyPart, forward
from cortext.tools.shared.program import LocalTool

CONFIG = "config.toml"
LOG = "wire.jsonl"
KEY = re.compile(r"session_[0-9A-Za-z-]{8,64}")
_KINDS = {
    "SessionStart": "started",
    "UserPromptSubmit": "prompt",
    "TurnStarted": "command",
    "Stop": "answered",
    "PostCompact": "compacted",
    "SessionEnd": "ended",
}
_LOADED = re.compile(r'<skill-loaded name="workspace-([^"]+)" trigger="user-slash"(?:[^>]*? args="([^"]*)")?')


class KimiCode(HasReader, HasWriter, HasRefusal, HasSettings, LocalTool):
    """The adapter for Kimi Code."""

    name = "kimi"
    title = "Kimi Code"
    tested_version = "2.1.0"
    command = "kimi"
    package = "@moonshot-ai/kimi-code"
    folder_variables = ("KIMI_CODE_HOME",)
    prompt_is_public = True
    user_speaks_first = True  # its screen takes no first prompt at all
    commands_run = True
    records_after_answer = False
    first_steps = ("/skill:workspace-brainstorm TOPIC",)
    started_by = session_variable = "KIMI_SESSION_ID"  # set by the command lines in our skills
    install_command = "npm install -g @moonshot-ai/kimi-code"

    reader = LazyPart("cortext.tools.kimi_code.read:KimiReader")
    writer = LazyPart("cortext.tools.kimi_code.write:KimiWriter")
    settings = LazyPart("cortext.tools.kimi_code.write:KimiSettings")
    install_user_hooks = forward("settings", UserHooks.install_user_hooks)
    remove_user_hooks = forward("settings", UserHooks.remove_user_hooks)

    @property
    def folder(self) -> str:
        """The folder of its settings and sessions."""
        return self.own_environ.get("KIMI_CODE_HOME") or os.path.join(self.home, ".kimi-code")

    @property
    def sessions(self) -> str:
        """The folder of the sessions of all projects."""
        return os.path.join(self.folder, "sessions")

    @property
    def user_hooks_file(self) -> str:
        """The user's config: a project cannot bring hooks."""
        return os.path.join(self.folder, CONFIG)

    def folders(self) -> Iterator[str]:
        """Yield the folders of all sessions."""
        for workspace in listing(self.sessions):
            for key in listing(os.path.join(self.sessions, workspace)) if workspace.startswith("wd_") else ():
                if KEY.fullmatch(key):
                    yield os.path.join(self.sessions, workspace, key)

    def find(self, key: str) -> str:
        """Return the folder of a session; empty if there is none."""
        return next((folder for folder in self.folders() if os.path.basename(folder) == key), "")

    def hook_event(self, payload: dict[str, Any]) -> HookEvent | None:
        """Return what happened in which session; None if it is of no interest."""
        kind, key = _KINDS.get(text_of(payload, "hook_event_name")), text_of(payload, "session_id")
        if kind is None or not key:
            return None
        folder = self.find(key)
        path = log_in(folder) if folder else ""
        event = HookEvent(kind=kind, key=key, path=path, project=text_of(payload, "cwd"), text=_prompt(payload))
        if kind == "command":
            skill = _LOADED.search(event.text)
            if skill is None:
                return None  # another turn: its prompt was reported before
            event.command = f"workspace.{skill[1]}"
            event.arguments = html.unescape(skill[2] or "")
        elif kind == "prompt":
            # A skill as text: Kimi Code sends it so if it has not loaded its skills yet, or has no screen.
            event.command, event.arguments = command_in(event.text)
            if event.command:
                event.kind = "command"
            elif BEGIN in event.text:
                event.kind = "started"  # it contains what we wrote; the user did not type it
        return event

    def hook_answer(self, payload: dict[str, Any], context: str) -> str:
        """Return what makes Kimi Code give a text to the model; it takes none except with a prompt."""
        if not context or payload.get("hook_event_name") != "UserPromptSubmit":
            return ""
        return msgspec.json.encode({"message": context}).decode("utf-8")


def log_in(folder: str) -> str:
    """Return the path of the main agent's log in the folder of a session."""
    return os.path.join(folder, "agents", "main", LOG)


def _prompt(payload: dict[str, Any]) -> str:
    """Return the text of a prompt, which may be a list of parts."""
    prompt = payload.get("prompt")
    if not isinstance(prompt, list):
        return text_of(payload, "prompt")
    return "\n\n".join(text_of(part, "text") for part in prompt if isinstance(part, dict))
