"""OpenCode: the facts about it, its folders, and what our plugin reports."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from glob import escape as glob_escape
from glob import glob
from typing import Any

from cortext.tools.base import Detected, HookEvent
from cortext.tools.shared.commands import RESUMED, text_of
from cortext.tools.shared.parts import (
    HasHeadless,
    HasImages,
    HasInstructions,
    HasReader,
    HasRewinds,
    HasSettings,
    HasWriter,
    LazyPart,
)
from cortext.tools.shared.program import Program

_KEY = re.compile(r"ses_[0-9A-Za-z_-]{1,80}")
_INLINE_CONFIG = ("OPENCODE_CONFIG", "OPENCODE_CONFIG_CONTENT")
_NO_UPDATES = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
# The kind of event for each name that our plugin reports.
_EVENTS = {
    "session.created": "started",
    "chat.message": "prompt",
    "command.execute.before": "command",
    "session.idle": "answered",
    "session.compacted": "compacted",
    "dispose": "ended",
}


class Folders:
    """The folders that OpenCode uses, according to its environment."""

    def __init__(self, home: str, environ: Mapping[str, str]) -> None:
        self.data = os.path.join(environ.get("XDG_DATA_HOME") or os.path.join(home, ".local/share"), "opencode")
        self.config = os.path.join(environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "opencode")
        self.state = os.path.join(environ.get("XDG_STATE_HOME") or os.path.join(home, ".local/state"), "opencode")
        # A relative OPENCODE_DB is relative to the data folder.
        self.database = os.path.join(self.data, environ.get("OPENCODE_DB") or "opencode.db")

    @property
    def databases(self) -> list[str]:
        """The databases that exist: the one that OpenCode uses by default, and those of its other channels."""
        others = sorted(glob(os.path.join(glob_escape(self.data), "opencode*.db")))
        return [path for path in dict.fromkeys([self.database, *others]) if os.path.exists(path)]


class OpenCode(HasReader, HasImages, HasRewinds, HasWriter, HasInstructions, HasSettings, HasHeadless):
    """The adapter for OpenCode; its environment determines its folders."""

    name = "opencode"
    title = "OpenCode"
    tested_version = "1.18.18"
    folder_variables = ("OPENCODE_DB",)
    commands_run = False
    records_after_answer = False
    prompt_is_public = False
    first_steps = ("/workspace.brainstorm TOPIC",)
    started_by = "OPENCODE"
    session_variable = ""
    install_command = "npm install -g opencode-ai"
    headless_context = 128_000

    reader = LazyPart("cortext.tools.opencode.read:OpenCodeReader")
    writer = LazyPart("cortext.tools.opencode.write:OpenCodeWriter")
    settings = LazyPart("cortext.tools.opencode.settings:OpenCodeSettings")
    headless = LazyPart("cortext.tools.opencode.live:OpenCodeHeadless")

    def __init__(self, home: str | None = None, environ: Mapping[str, str] | None = None) -> None:
        variables = dict(os.environ if environ is None else environ)
        self.home = home or variables.get("HOME") or os.path.expanduser("~")
        self.environ = {**variables, "HOME": self.home}
        self.folders = Folders(self.home, self.environ)
        # Its program is on the PATH, or where its installer puts it.
        environ = {name: value for name, value in self.environ.items() if name not in _INLINE_CONFIG}
        installed = os.path.join(self.home, ".opencode", "bin", "opencode")
        self.program = Program("opencode", {**environ, **_NO_UPDATES}, elsewhere=installed)

    def detect(self) -> Detected | None:
        """Return the installed program and its version; None if it is not installed."""
        return self.program.detect(self.tested_version)

    def hook_event(self, payload: dict[str, Any]) -> HookEvent | None:
        """Return what our plugin reports as an event; None if it is not one that we handle."""
        kind = _EVENTS.get(text_of(payload, "hook_event_name"))
        key = text_of(payload, "session_id")
        if kind is None or not is_key(key):
            return None
        text = text_of(payload, "prompt")
        return HookEvent(
            # We launched it with this prompt; the user did not type it.
            kind="started" if RESUMED in text else kind,
            key=key,
            path=f"{self.folders.database}#{key}",
            project=text_of(payload, "cwd"),
            text="" if RESUMED in text else text,
            command=text_of(payload, "command_name"),
            arguments=text_of(payload, "command_args"),
        )

    def hook_answer(self, payload: dict[str, Any], context: str) -> str:
        """Return the context that our plugin adds to a prompt; only these two events wait for it."""
        waits = payload.get("hook_event_name") in ("chat.message", "command.execute.before")
        return json.dumps({"context": context}) if waits and context else ""


def is_key(text: str) -> bool:
    """Whether this is a valid session id of OpenCode."""
    return _KEY.fullmatch(text) is not None
