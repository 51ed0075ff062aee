"""GitHub Copilot CLI: its transcripts, its native sessions, its skills and hooks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from cortext.io.new_files import Later
from cortext.safety.framing import GO_ON
from cortext.tools.base import CommandFile, HookEvent, Launch, Leftover, Messages, Transcript, Watch, Withheld, Written
from cortext.tools.shared.folders import changed_below, is_uuid
from cortext.tools.shared.hooks import all_hooks_off, text_of
from cortext.tools.shared.leftovers import unlisted_below
from cortext.tools.shared.local import LocalTool
from cortext.tools.shared.program import check_argument
from cortext.tools.shared.settings import SettingsFiles
from cortext.tools.shared.typed import is_resume_block

if TYPE_CHECKING:
    from cortext.tools.copilot.read import CopilotReading
    from cortext.tools.shared.installer import Config

_EVENTS_FILE = "events.jsonl"
# What Copilot keeps beside the events of a session.
_COMPANIONS = (
    *("*/workspace.yaml", "*/plan.md", "*/vscode.metadata.json", "*/session.db", "*/checkpoints/", "*/files/"),
    *("*/research/", "*/rewind-snapshots/", "*/rewind-file-snapshots/"),
)
_KINDS = {
    "SessionStart": "started",
    "UserPromptSubmit": "prompt",
    "Stop": "answered",
    "PreCompact": "compacted",  # it reports only the beginning; the next prompt comes after the end
    "SessionEnd": "ended",
}
_TYPED = re.compile(r"/(workspace\.[\w.-]+)(?:\s+(.*))?", re.DOTALL)


class Copilot(SettingsFiles, LocalTool):
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

    def __init__(self, home: str | None = None, environ: Mapping[str, str] | None = None) -> None:
        super().__init__(home, environ)
        self._default = os.path.join(self.home, ".copilot")
        self._folder = self.own_environ.get("COPILOT_HOME") or self._default
        self._sessions = os.path.join(self._folder, "session-state")

    # ── transcripts ──────────────────────────────────────────────────────────────────────────────────

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield its transcripts on this machine (of one project, if given), in no particular order."""
        wanted = None if project is None else {project, os.path.realpath(project)}
        try:
            names = os.listdir(self._sessions)
        except (FileNotFoundError, NotADirectoryError):
            return
        for name in names:
            found = self.transcript_at(self._path(name)) if is_uuid(name) else None
            if found is not None and (wanted is None or found.project in wanted):
                yield found

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the transcript in this file; None if it is not a transcript of Copilot."""
        from cortext.tools.copilot.read import head_of
        from cortext.tools.copilot.records import Start

        head = head_of(path)
        name = os.path.basename(os.path.dirname(path))
        if (head is None or not is_uuid(head.sessionId)) and path == self._path(name) and os.path.isfile(path):
            head = Start(sessionId=name)  # in Copilot's own folder its name is enough: the first line may be damaged
        if head is None or not is_uuid(head.sessionId):
            return None
        status = os.stat(path)
        return Transcript(
            tool=self.name,
            key=head.sessionId,
            path=path,
            project=head.context.cwd if head.context else "",
            size=status.st_size,
            changed=status.st_mtime_ns,
        )

    def leftovers(self, listed: Sequence[Transcript]) -> Iterator[Leftover]:
        """Yield the other files among the sessions; older versions kept a file of events for each."""
        return unlisted_below(self._sessions, listed, self.title, _COMPANIONS)

    def watched(self) -> Watch:
        """Return the folder of all sessions."""
        return Watch(folders=[self._sessions])

    def changed(self, path: str) -> list[Transcript]:
        """Return the session in this file."""
        return changed_below(self, self._sessions, path)

    def read(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> CopilotReading:
        """Return a reading of the messages; with a cursor, only of those added since."""
        from cortext.tools.copilot.read import CopilotReading

        return CopilotReading(transcript, cursor)

    def copy(self, transcript: Transcript, target: str, later: Later | None = None) -> None:
        """Copy the events unchanged."""
        from cortext.io.new_files import mirror_file

        mirror_file(transcript.path, target, later)

    def put_back(self, copy: str, *, project: str) -> str:
        """Restore a kept copy to the tool's store if the session is missing there; return the session's key."""
        from cortext.tools.copilot.write import put_back

        return put_back(self._sessions, copy)

    def withheld(self, transcript: Transcript) -> Withheld | None:
        """Return an empty report, because Copilot sends everything; None if the session was compacted or cleared."""
        from cortext.tools.copilot.read import is_shortened

        return None if is_shortened(transcript.path) else Withheld()

    def _path(self, key: str) -> str:
        return os.path.join(self._sessions, key, _EVENTS_FILE)

    # ── native sessions ──────────────────────────────────────────────────────────────────────────────

    def preview(self, messages: Messages) -> Written:
        """Return what `write` would report for these messages; nothing is written."""
        from cortext.tools.copilot.render import Rendering

        return Written.of(Rendering(messages).normal)

    def write(
        self, messages: Messages, *, project: str, title: str = "", key: str = "", model: str = "", note: str = ""
    ) -> Written:
        """Write a new native session of this project with these messages as real turns."""
        from cortext.tools.copilot.write import write_session

        return write_session(
            self._sessions,
            messages,
            tool=self.name,
            version=self.tested_version,
            project=project,
            title=title,
            key=key,
            note=note,
        )

    def launch(self, written_or_key: str, *, project: str, prompt: str = "", model: str = "") -> Launch:
        """Return how to open that session interactively; the prompt, if any, is sent first."""
        check_argument(prompt)
        options = [*(["--model", model] if model else []), *(["-i", prompt] if prompt else [])]
        program = self.program.path() or self.program.command
        env = {} if self._folder == self._default else {"COPILOT_HOME": self._folder}
        return Launch(argv=[program, f"--resume={written_or_key}", *options], cwd=project, env=env)

    def launch_new(self, *, project: str, prompt: str, title: str = "", model: str = "") -> tuple[Written, Launch]:
        """Write a new session that contains the prompt; return it and how to open it."""
        written = self.write([], project=project, title=title, note=prompt)
        return written, self.launch(written.key, project=project, prompt=GO_ON, model=model)

    def discard(self, written: Written, *, project: str) -> None:
        """Remove a session that was never used."""
        from cortext.io import durable

        if written.path:
            durable.remove_tree(os.path.dirname(written.path))

    # ── the project's config ─────────────────────────────────────────────────────────────────────────

    def files(self, commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
        """Return the skills and the file of hooks."""
        from cortext.tools.copilot.install import project_files

        return project_files(commands, program)

    def configs(self, program: Sequence[str] = ("cortext",)) -> Sequence[Config]:
        """Return our entries: the MCP server in the project's config."""
        from cortext.tools.copilot.install import configs

        return configs(program)

    def mcp_servers(self, project: str) -> set[str]:
        """Return the names of the MCP servers in the user's and the project's config."""
        from cortext.tools.copilot.install import SERVERS
        from cortext.tools.shared.mcp_servers import servers_of

        return servers_of(os.path.join(self._folder, "mcp-config.json"), project, ".mcp.json", SERVERS)

    def hooks_off(self, project: str) -> list[tuple[str, str]]:
        """Return why our hooks would not run here. Copilot asks at its start whether to trust a folder."""
        from cortext.io.inside import if_inside

        own = [if_inside(project, f".github/copilot/{name}") for name in ("settings.json", "settings.local.json")]
        return all_hooks_off([os.path.join(self._folder, "settings.json"), *own])

    def hook_event(self, payload: dict[str, Any]) -> HookEvent | None:
        """Return a hook's payload as an event; None if it is not one that we handle."""
        kind, key = _KINDS.get(text_of(payload, "hook_event_name")), text_of(payload, "session_id")
        if kind is None or not is_uuid(key):
            return None
        event = HookEvent(kind=kind, key=key, path=self._path(key), project=text_of(payload, "cwd"))
        if kind == "prompt":
            from cortext.tools.copilot.install import COMMAND_MARK

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
