"""Gemini CLI: the facts about it, where its sessions are, and what its hooks report.

With `--resume` and `-i`, Gemini CLI loads the history and sends the prompt at the same time. If the prompt wins the
race, the model gets it without the history, and the answer is written to a separate file. A hook that runs before the
prompt therefore waits until the history is loaded, which appends a line to the session's file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from cortext.io import durable
from cortext.tools.base import (
    HookEvent,
)
from cortext.tools.shared.commands import RESUMED, ShowsSystemMessage, additional_context, text_of, typed_command
from cortext.tools.shared.parts import HasHeadless, HasImages, HasPurge, HasReader, HasSettings, HasWriter, LazyPart
from cortext.tools.shared.program import LocalTool

_KINDS = {
    "SessionStart": "started",
    "BeforeAgent": "prompt",
    "AfterAgent": "answered",
    "PreCompress": "compacted",  # it reports only the beginning; the next prompt comes after the end
    "SessionEnd": "ended",
}
# Gemini CLI passes these variables to its hooks, even where it filters the rest of the environment.
_FILE, _SIZE = "GEMINI_CLI_CORTEXT_FILE", "GEMINI_CLI_CORTEXT_SIZE"
# `wait_for_history` as a shell command, for projects without our hook: polls ten times a second, for at most eight
# seconds.
GATE = (
    'cat > /dev/null; i=0; while [ -n "$GEMINI_CLI_CORTEXT_FILE" ] && [ "$i" -lt 80 ] && '
    '! tail -c "+$((GEMINI_CLI_CORTEXT_SIZE + 1))" "$GEMINI_CLI_CORTEXT_FILE" 2> /dev/null | '
    'grep -q \'"$set":{"sessionId"\'; do i=$((i + 1)); sleep 0.1; done; true'
)
_LOADED = b'{"$set":{"sessionId":'
_TIMEOUT = 8.0
_POLL_INTERVAL = 0.02
_READ_LIMIT = 4 << 20


class GeminiCli(HasReader, HasImages, HasWriter, HasSettings, HasPurge, HasHeadless, ShowsSystemMessage, LocalTool):
    """The adapter for Gemini CLI."""

    name = "gemini"
    title = "Gemini CLI"
    tested_version = "0.61.0"
    command = "gemini"
    package = "@google/gemini-cli"
    folder_variables = ("GEMINI_CLI_HOME",)
    commands_run = False
    records_after_answer = False
    prompt_is_public = True
    reads_named_files = True
    first_steps = ("/workspace.brainstorm TOPIC",)
    started_by = "GEMINI_CLI"
    session_variable = ""
    install_command = "npm install -g @google/gemini-cli"
    headless_context = 1_048_576

    reader = LazyPart("cortext.tools.gemini_cli.store:GeminiStore")
    writer = LazyPart("cortext.tools.gemini_cli.write:GeminiWriter")
    settings = LazyPart("cortext.tools.gemini_cli.settings:GeminiSettings")
    headless = LazyPart("cortext.tools.gemini_cli.live:GeminiHeadless")

    def __init__(self, home: str | None = None, environ: Mapping[str, str] | None = None) -> None:
        super().__init__(home, environ)
        self.folder = os.path.join(self.own_environ.get("GEMINI_CLI_HOME") or self.home, ".gemini")
        self.chats_root = os.path.join(self.folder, "tmp")

    def hook_event(self, payload: dict[str, Any]) -> HookEvent | None:
        """Return a hook's payload as an event; None if it is not one that we handle."""
        kind = _KINDS.get(text_of(payload, "hook_event_name"))
        key = text_of(payload, "session_id")
        if kind is None or not key:
            return None
        if kind == "compacted" and text_of(payload, "trigger") != "manual":
            return None  # a turn, before which Gemini CLI compresses or does not
        event = HookEvent(kind=kind, key=key, path=text_of(payload, "transcript_path"), project=text_of(payload, "cwd"))
        if kind == "prompt":
            wait_for_history(self.environ)
            event.text = text_of(payload, "prompt")
            if typed := typed_command(event.text):
                name, _, event.arguments = typed.removeprefix("/").partition(" ")
                event.kind, event.command = "command", name
            elif RESUMED in event.text:
                event.kind = "started"  # we launched it with this prompt; the user did not type it
        # `prompt_response` repeats chunks of a streamed answer, so the answer is read from the transcript.
        return event

    def hook_answer(self, payload: dict[str, Any], context: str) -> str:
        """Return the output that adds context to a prompt; at a session's start it would break a slash command."""
        event = text_of(payload, "hook_event_name")
        if not context or event != "BeforeAgent":
            return ""
        return additional_context(event, context)


# ── the first prompt ──────────────────────────────────────────────────────────────────────────────


def gate_environment(path: str) -> dict[str, str]:
    """Return the variables that tell the gate which session is resumed: its file, and the file's current size."""
    # Gemini CLI continues an older document in a JSON Lines file beside it.
    lines = path if path.endswith(".jsonl") else f"{path}l"
    size = os.stat(lines).st_size if os.path.exists(lines) else 0
    return {_FILE: lines, _SIZE: str(size)}


def wait_for_history(environ: Mapping[str, str], timeout: float = _TIMEOUT) -> bool:
    """Wait until the session that we launched is loaded; return False on a timeout.

    Return True immediately if we launched none.
    """
    path, size = environ.get(_FILE, ""), environ.get(_SIZE, "")
    if not path or not size.isdigit():
        return True
    deadline = time.monotonic() + timeout
    while not _is_loaded(path, int(size)):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_INTERVAL)
    return True


def _is_loaded(path: str, size: int) -> bool:
    try:
        with open(path, "rb", opener=durable.plain_file) as file:
            file.seek(size)
            return _LOADED in file.read(_READ_LIMIT)
    except OSError:
        return False
