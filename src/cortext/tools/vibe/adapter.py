"""Mistral Vibe: the facts about it, where its sessions are, and what its hook reports."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from cortext.tools.base import HookEvent
from cortext.tools.shared.commands import text_of
from cortext.tools.shared.folders import is_uuid, listing
from cortext.tools.shared.parts import HasReader, HasRefusal, HasSettings, HasWriter, LazyPart
from cortext.tools.shared.program import LocalTool

CURRENT = "CURRENT"  # names the newest state of a session of Vibe 3
VIBE_2 = "session_"  # how the folder of a session of Vibe 2 begins


class Vibe(HasReader, HasWriter, HasRefusal, HasSettings, LocalTool):
    """The adapter for Mistral Vibe."""

    name = "vibe"
    title = "Mistral Vibe"
    tested_version = "3.0.2"
    command = "vibe"
    folder_variables = ("VIBE_HOME",)
    commands_run = False
    records_after_answer = True
    prompt_is_public = True
    first_steps = ("/workspace-brainstorm TOPIC",)
    started_by = "VIBE_APP_SERVER_BIN"
    session_variable = ""
    install_command = "uv tool install mistral-vibe"

    reader = LazyPart("cortext.tools.vibe.store:VibeReader")
    writer = LazyPart("cortext.tools.vibe.write:VibeWriter")
    settings = LazyPart("cortext.tools.vibe.write:VibeSettings")

    @property
    def default_folder(self) -> str:
        """The folder of its settings and sessions, unless the user chose another one."""
        return os.path.join(self.home, ".vibe")

    @property
    def folder(self) -> str:
        """The folder of its settings and sessions."""
        return self.own_environ.get("VIBE_HOME") or self.default_folder

    @property
    def root(self) -> str:
        """The folder of its sessions: those of Vibe 2 are in it."""
        return os.path.join(self.folder, "logs", "session")

    @property
    def unified(self) -> str:
        """The folder of the sessions of Vibe 3."""
        return os.path.join(self.root, "unified")

    def current(self, key: str) -> str:
        """Return the path of the file that names the newest state of a session of Vibe 3."""
        return os.path.join(self.unified, key, CURRENT)

    @property
    def vibe_2(self) -> list[str]:
        """The folders of the sessions of Vibe 2."""
        return [os.path.join(self.root, name) for name in listing(self.root) if name.startswith(VIBE_2)]

    def hook_event(self, payload: dict[str, Any]) -> HookEvent | None:
        """Return a hook's payload as an event; None if it is not one that we handle.

        Vibe names the session that it made of an imported one; we know it by its first id.
        """
        key = text_of(payload, "session_id")
        if text_of(payload, "hook_event_name") != "post_agent" or not is_uuid(key) or payload.get("parent_session_id"):
            return None
        path = self.current(key)
        transcript = self.transcript_at(path)
        return HookEvent(
            kind="answered", key=transcript.key if transcript else key, path=path, project=text_of(payload, "cwd")
        )

    def hook_answer(self, payload: dict[str, Any], context: str) -> str:
        """Return the output that makes Vibe send a text to the model, as another message of the user."""
        if not context or text_of(payload, "hook_event_name") != "post_agent":
            return ""
        return msgspec.json.encode({"decision": "deny", "reason": context}).decode("utf-8")
