"""Codex: the facts about it, where its threads are, and what its hooks report.

A payload of a hook names the thread and the path of its current page, which may be null. Reading does not depend on
hooks, which need the user's approval: the rollout contains every message.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from cortext.tools.base import HookEvent
from cortext.tools.shared.commands import ShowsSystemMessage, additional_context, command_in, text_of
from cortext.tools.shared.folders import up_to_top
from cortext.tools.shared.parts import HasHeadless, HasImages, HasReader, HasRefusal, HasSettings, HasWriter, LazyPart
from cortext.tools.shared.program import LocalTool, Program

_KINDS = {
    "SessionStart": "started",
    "UserPromptSubmit": "prompt",
    "Stop": "answered",
    "PostCompact": "compacted",
    "SessionEnd": "ended",
}
# The events after which Codex passes a hook's text to the model, as a developer message. Text from a past conversation
# must not have that authority. What a Stop hook returns becomes a user message of at most 10,000 characters, so such
# text goes there.
_TAKES_CONTEXT = ("SessionStart", "UserPromptSubmit")
# It shows such a text under the words "Blocked by hook".
_ANSWERED = "This is what you asked cortext for; nothing went wrong.\n\n"


class Codex(HasReader, HasImages, HasWriter, HasRefusal, HasSettings, HasHeadless, ShowsSystemMessage, LocalTool):
    """The adapter for Codex."""

    name = "codex"
    title = "Codex"
    tested_version = "0.166.0"
    command = "codex"
    folder_variables = ("CODEX_HOME",)
    commands_run = False
    records_after_answer = True
    prompt_is_public = True
    first_steps = (
        "$workspace-brainstorm TOPIC",
        "Codex runs hooks only after you trust them: choose",
        '"Trust all and continue" at the start, or type /hooks, then t.',
    )
    started_by = session_variable = "CODEX_THREAD_ID"
    install_command = "npm install -g @openai/codex"
    headless_context = 272_000

    reader = LazyPart("cortext.tools.codex.read:CodexReader")
    writer = LazyPart("cortext.tools.codex.write:CodexWriter")
    settings = LazyPart("cortext.tools.codex.settings:CodexSettings")
    headless = LazyPart("cortext.tools.codex.live:CodexHeadless")

    def __init__(self, home: str | None = None, environ: Mapping[str, str] | None = None) -> None:
        super().__init__(home, environ)
        self.folder = self.own_environ.get("CODEX_HOME") or os.path.join(self.home, ".codex")
        self.sessions = os.path.join(self.folder, "sessions")
        self.archive = os.path.join(self.folder, "archived_sessions")

    def _find_program(self) -> Program:
        # Codex creates a folder in its home at every start. With no home, asking for the version leaves nothing behind.
        no_home = {"HOME": os.devnull, "CODEX_HOME": os.devnull}
        return Program(self.command, self.environ, version_env=no_home)

    def skill_folders(self, project: str) -> list[str]:
        """Return the folders of the user's and the project's skills."""
        own = (os.path.join(folder, ".agents", "skills") for folder in up_to_top(project))
        return [os.path.join(self.folder, "skills"), os.path.join(self.home, ".agents", "skills"), *own]

    def hook_event(self, payload: dict[str, Any]) -> HookEvent | None:
        """Return what happened and in which thread; None if the payload names no event or no thread."""
        key = text_of(payload, "session_id")
        name = text_of(payload, "hook_event_name")
        if not key or not name:
            return None
        event = HookEvent(
            kind=_KINDS.get(name, "other"),
            key=key,
            path=text_of(payload, "transcript_path"),
            project=text_of(payload, "cwd"),
            text=text_of(payload, "prompt") or text_of(payload, "last_assistant_message"),
        )
        if agent := text_of(payload, "agent_id"):
            # An event of a subagent: `session_id` is that of its parent thread.
            event.kind, event.key = "other", agent
        elif name == "UserPromptSubmit":
            event.command, event.arguments = command_in(event.text)
            if event.command:
                event.kind = "command"
        return event

    def hook_answer(self, payload: dict[str, Any], context: str) -> str:
        """Return the JSON with which Codex gives a text to the model; empty if it takes none with this event."""
        name = text_of(payload, "hook_event_name")
        if name == "Stop" and context:
            return msgspec.json.encode({"decision": "block", "reason": f"{_ANSWERED}{context}"}).decode("utf-8")
        if name not in _TAKES_CONTEXT or not context:
            return ""
        return additional_context(name, context)
