"""Pi: the facts about it, where its sessions are, and what our extension reports."""

from __future__ import annotations

import json
import os
import re
from typing import Any

from cortext.tools.base import HookEvent
from cortext.tools.shared.commands import typed_event
from cortext.tools.shared.jsonc import read_object
from cortext.tools.shared.parts import HasInstructions, HasReader, HasSettings, HasWriter, LazyPart
from cortext.tools.shared.program import LocalTool

_EVENTS = {
    "session_start": "started",
    "before_agent_start": "prompt",
    "agent_end": "answered",
    "session_compact": "compacted",
    "session_shutdown": "ended",
}


class Pi(HasReader, HasWriter, HasInstructions, HasSettings, LocalTool):
    """The adapter for Pi."""

    name = "pi"
    title = "Pi"
    tested_version = "0.87.1"
    command = "pi"
    package = "@earendil-works/pi-coding-agent"
    folder_variables = ("PI_CODING_AGENT_DIR", "PI_CODING_AGENT_SESSION_DIR")
    commands_run = False
    records_after_answer = False
    prompt_is_public = True
    first_steps = ("/workspace.brainstorm TOPIC",)
    started_by = "PI_CODING_AGENT"
    session_variable = "PI_SESSION_ID"
    install_command = "npm install -g @earendil-works/pi-coding-agent"

    reader = LazyPart("cortext.tools.pi.read:PiReader")
    writer = LazyPart("cortext.tools.pi.write:PiWriter")
    settings = LazyPart("cortext.tools.pi.write:PiSettings")

    @property
    def agent(self) -> str:
        """The folder of its settings and sessions."""
        return self.environ.get("PI_CODING_AGENT_DIR") or os.path.join(self.home, ".pi", "agent")

    @property
    def user_settings(self) -> dict[str, Any]:
        return read_object(os.path.join(self.agent, "settings.json"))

    @property
    def chosen_folder(self) -> str:
        """The folder that the user chose for the sessions of all projects, which may be relative to each; or empty."""
        chosen = self.environ.get("PI_CODING_AGENT_SESSION_DIR") or self.user_settings.get("sessionDir")
        if not isinstance(chosen, str) or not chosen:
            return ""
        return os.path.join(self.home, chosen[2:]) if chosen.startswith("~/") else chosen

    @property
    def sessions(self) -> str:
        """The folder of the sessions of all projects, unless the user chose one in each project."""
        chosen = self.chosen_folder
        return chosen if os.path.isabs(chosen) else os.path.join(self.agent, "sessions")

    def folder(self, project: str) -> str:
        """Return the folder with the sessions of a project, and perhaps of others."""
        if chosen := self.chosen_folder:
            return os.path.join(project, chosen)
        return os.path.join(self.agent, "sessions", f"--{re.sub(r'[/:]', '-', project.lstrip('/'))}--")

    def hook_event(self, payload: dict[str, Any]) -> HookEvent | None:
        """Translate what our extension reports; return None if it names no event or no session."""
        return typed_event(payload, _EVENTS)

    def hook_answer(self, payload: dict[str, Any], context: str) -> str:
        """Return the context that our extension adds to a prompt; empty for other events."""
        waits = payload.get("hook_event_name") == "before_agent_start"
        return json.dumps({"context": context}) if waits and context else ""
