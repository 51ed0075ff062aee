"""The adapter for Qwen Code: where its sessions are, how it is started, and what its hooks report."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from cortext.errors import NotFound, UnsafePath
from cortext.io import durable, new_files
from cortext.safety.framing import GO_ON
from cortext.tools.base import (
    CommandFile,
    Counts,
    HookEvent,
    Launch,
    Leftover,
    Messages,
    Transcript,
    Watch,
    Withheld,
    Written,
)
from cortext.tools.shared.folders import changed_below, dashed, entries, file_transcript, is_uuid
from cortext.tools.shared.hooks import additional_context, all_hooks_off, event_of, text_of
from cortext.tools.shared.leftovers import unlisted_below
from cortext.tools.shared.local import LocalTool
from cortext.tools.shared.program import check_argument
from cortext.tools.shared.settings import SettingsFiles

if TYPE_CHECKING:
    from cortext.tools.qwen_code.read import QwenReading
    from cortext.tools.shared.installer import Config

_SUFFIX = ".jsonl"
# What Qwen Code keeps beside the sessions of a project.
_COMPANIONS = (
    *("*/chats/*.runtime.json", "*/chats/*.worktree.json", "*/chats/*.pr.json", "*/chats/*.ledger.jsonl"),
    *("*/subagents/", "*/tool-results/", "*/workflows/", "*/diagnostics/", "*/memory/", "*/*.json", "*/*.md"),
)
_KINDS = {
    "SessionStart": "started",
    "UserPromptSubmit": "prompt",
    "Stop": "answered",
    "PostCompact": "compacted",
    "SessionEnd": "ended",
}
_RECORDS_CHECKED = 64  # the first message comes well before that


class QwenCode(SettingsFiles, LocalTool):
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

    # ── sessions ─────────────────────────────────────────────────────────────────────────────────────

    @property
    def _folder(self) -> str:
        """The folder of its settings."""
        return self.environ.get("QWEN_HOME") or os.path.join(self.home, ".qwen")

    @property
    def _projects(self) -> str:
        return os.path.join(self.environ.get("QWEN_RUNTIME_DIR") or self._folder, "projects")

    def _chats(self, project: str) -> str:
        return os.path.join(self._projects, dashed(os.path.realpath(project)), "chats")

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield every `<session>.jsonl` in the `chats` of every project's folder."""
        if project is not None:
            yield from self._in_folder(self._chats(project), os.path.realpath(project))
            return
        for folder in entries(self._projects):
            yield from self._in_folder(os.path.join(folder.path, "chats"), "")

    def _in_folder(self, folder: str, project: str) -> Iterator[Transcript]:
        for entry in entries(folder):
            key = entry.name.removesuffix(_SUFFIX)
            if key != entry.name and is_uuid(key) and not (entry.is_symlink() and os.path.isfile(entry.path)):
                found = file_transcript(self.name, key, entry.path, project)
                if found is not None:
                    yield found

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the session at any path, recognised by its records."""
        try:
            key = _session_in(path)
        except (OSError, UnsafePath):
            return None
        return file_transcript(self.name, key, path) if key else None

    def leftovers(self, listed: Sequence[Transcript]) -> Iterator[Leftover]:
        """Yield the other files among the sessions."""
        return unlisted_below(self._projects, listed, self.title, _COMPANIONS)

    def watched(self) -> Watch:
        """Return the folder of all projects."""
        return Watch(folders=[self._projects])

    def changed(self, path: str) -> list[Transcript]:
        """Return the session in this file."""
        return changed_below(self, self._projects, path)

    def read(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> QwenReading:
        """Return the messages; with a cursor, only those added since."""
        from cortext.tools.qwen_code.read import QwenReading

        return QwenReading(transcript, cursor)

    def copy(self, transcript: Transcript, target: str, later: new_files.Later | None = None) -> None:
        """Copy the file byte for byte."""
        new_files.ensure_folder(os.path.dirname(target), later)
        new_files.mirror_file(transcript.path, target, later)

    def put_back(self, copy: str, *, project: str) -> str:
        """Restore a copy, unless Qwen Code still has that session; return the session's id."""
        key = _session_in(copy)
        if not is_uuid(key):
            raise NotFound(f"not a session of {self.title}: {copy}", kept="nothing was changed")
        if not self._has(key):
            target = os.path.join(self._chats(project), key + _SUFFIX)
            durable.ensure_folder(os.path.dirname(target))
            new_files.mirror_file(copy, target)
        return key

    def _has(self, key: str) -> bool:
        """Whether there is a session with this id, in any project."""
        folders = (os.path.join(folder.path, "chats") for folder in entries(self._projects))
        return any(os.path.lexists(os.path.join(folder, key + _SUFFIX)) for folder in folders)

    # ── writing and starting ─────────────────────────────────────────────────────────────────────────

    def withheld(self, transcript: Transcript) -> Withheld | None:
        """Return the messages of voice calls; None after a compaction."""
        from cortext.tools.qwen_code.withheld import withheld

        return withheld(transcript.path)

    def preview(self, messages: Messages) -> Written:
        """Return what `write` would report."""
        from cortext.model.turns import Turns

        return Written.of(Turns(messages))

    def write(
        self, messages: Messages, *, project: str, title: str = "", key: str = "", model: str = "", note: str = ""
    ) -> Written:
        """Write a new session into the project's folder. It gets another id if `key` is taken or not a UUID."""
        from cortext.tools.qwen_code.write import write_session

        if not is_uuid(key) or self._has(key):
            key = str(uuid.uuid4())
        return write_session(
            os.path.join(self._chats(project), key + _SUFFIX),
            messages,
            key=key,
            project=os.path.realpath(project),
            title=title,
            model=model,
            version=self.tested_version,
            note=note,
        )

    def launch(self, written_or_key: str, *, project: str, prompt: str = "", model: str = "") -> Launch:
        """Return how to start Qwen Code interactively with that session open."""
        check_argument(prompt)
        options = [*(["--model", model] if model else []), *(["--prompt-interactive", prompt] if prompt else [])]
        program = self.program.path() or self.program.command
        return Launch(argv=[program, "--resume", written_or_key, *options], cwd=project)

    def launch_new(self, *, project: str, prompt: str, title: str = "", model: str = "") -> tuple[Written, Launch]:
        """Write a new session that contains the prompt, and return how to start Qwen Code with it."""
        written = self.write([], project=project, title=title, model=model, note=prompt)
        return written, self.launch(written.key, project=project, prompt=GO_ON, model=model)

    def discard(self, written: Written, *, project: str) -> None:
        """Remove a session that nobody used."""
        if written.path:
            durable.remove(written.path)

    # ── a project's config ───────────────────────────────────────────────────────────────────────────

    def files(self, commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
        """Return the slash commands as files of the project."""
        from cortext.tools.qwen_code.install import command_files

        return command_files(commands)

    def configs(self, program: Sequence[str] = ("cortext",)) -> Sequence[Config]:
        """Return our entries: the hooks and the MCP server in `.qwen/settings.json`."""
        from cortext.tools.qwen_code.install import configs

        return configs(program)

    def mcp_servers(self, project: str) -> set[str]:
        """Return the names of the MCP servers of the project and of the user."""
        from cortext.tools.qwen_code.install import SETTINGS
        from cortext.tools.shared.mcp_servers import servers_of

        return servers_of(os.path.join(self._folder, "settings.json"), project, SETTINGS)

    def hooks_off(self, project: str) -> list[tuple[str, str]]:
        """Return why our hooks would not run here (hooks turned off, folder not trusted), each with a remedy."""
        from cortext.tools.qwen_code.install import SETTINGS
        from cortext.tools.shared.jsonc import read_object
        from cortext.tools.shared.trust import at, trust_level

        user = os.path.join(self._folder, "settings.json")
        reasons = all_hooks_off([user, os.path.join(project, SETTINGS)])
        if at(read_object(user), "security", "folderTrust", "enabled") is True:
            rules = self.environ.get("QWEN_CODE_TRUSTED_FOLDERS_PATH")
            level = trust_level(read_object(rules or os.path.join(self._folder, "trustedFolders.json")), project)
            if level in ("", "DO_NOT_TRUST"):
                reasons.append(("it does not trust this folder", "run /trust in qwen"))
        return reasons

    # ── hooks ────────────────────────────────────────────────────────────────────────────────────────

    def hook_event(self, payload: dict[str, Any]) -> HookEvent | None:
        """Translate a hook payload; return None if it names no event or no session."""
        from cortext.tools.shared.typed import is_resume_block, typed_command

        # `prompt` is the expansion of a command, and `submitted_prompt` is as typed.
        prompt = text_of(payload, "prompt")
        typed = text_of(payload, "submitted_prompt") or typed_command(prompt) or prompt
        event = event_of({**payload, "prompt": typed}, _KINDS)
        if event is not None and event.kind == "prompt" and is_resume_block(event.text):
            event.kind = "started"  # we launched it with this prompt; the user did not type it
        return event

    def hook_answer(self, payload: dict[str, Any], context: str) -> str:
        """Return the output that adds context to a prompt; empty for other events."""
        event = text_of(payload, "hook_event_name")
        return additional_context(event, context) if context and event == "UserPromptSubmit" else ""


def _session_in(path: str) -> str:
    """Return the id of the session in a file, from its first records; empty if it is not a session of Qwen Code."""
    from cortext.tools.qwen_code.records import MESSAGE_TYPES, Record, decoder
    from cortext.tools.shared.lines import ForeignLines

    descriptor = durable.open_file(path, os.O_RDONLY)
    try:
        head = os.pread(descriptor, 64, 0)
    finally:
        os.close(descriptor)
    if not head.lstrip(b"\0 \t\r\n").startswith(b"{"):
        return ""
    lines = ForeignLines(path, 0, Counts())
    for line, _ in zip(lines, range(_RECORDS_CHECKED), strict=False):
        for record in lines.decode(line, decoder, Record):
            # Claude Code's messages have `content` instead of `parts`.
            if record.type in MESSAGE_TYPES and record.message is not None and record.message.parts is not None:
                return record.sessionId or ""
    return ""
