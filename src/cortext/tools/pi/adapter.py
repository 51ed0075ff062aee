"""The adapter for Pi: where its sessions are, how it is started, and what our extension reports."""

from __future__ import annotations

import json
import os
import re
import time
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
from cortext.tools.shared.folders import changed_below, entries, file_transcript
from cortext.tools.shared.hooks import event_of, text_of
from cortext.tools.shared.jsonc import read_object
from cortext.tools.shared.leftovers import files_below, unlisted, unlisted_below
from cortext.tools.shared.local import LocalTool
from cortext.tools.shared.program import check_argument

if TYPE_CHECKING:
    from cortext.tools.pi.read import PiReading
    from cortext.tools.pi.records import Record

_EVENTS = {
    "session_start": "started",
    "before_agent_start": "prompt",
    "agent_end": "answered",
    "session_compact": "compacted",
    "session_shutdown": "ended",
}
_NAME = re.compile(r"[^_]+_(?P<key>.+)\.jsonl")  # the time of creation, and the session's id
_KEY = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")


class Pi(LocalTool):
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

    # ── sessions ─────────────────────────────────────────────────────────────────────────────────────

    @property
    def _agent(self) -> str:
        """The folder of its settings and sessions."""
        return self.environ.get("PI_CODING_AGENT_DIR") or os.path.join(self.home, ".pi", "agent")

    @property
    def _settings(self) -> dict[str, Any]:
        return read_object(os.path.join(self._agent, "settings.json"))

    @property
    def _chosen_folder(self) -> str:
        """The folder that the user chose for the sessions of all projects, which may be relative to each; or empty."""
        chosen = self.environ.get("PI_CODING_AGENT_SESSION_DIR") or self._settings.get("sessionDir")
        if not isinstance(chosen, str) or not chosen:
            return ""
        return os.path.join(self.home, chosen[2:]) if chosen.startswith("~/") else chosen

    @property
    def _sessions(self) -> str:
        """The folder of the sessions of all projects, unless the user chose one in each project."""
        chosen = self._chosen_folder
        return chosen if os.path.isabs(chosen) else os.path.join(self._agent, "sessions")

    def _folder(self, project: str) -> str:
        """Return the folder with the sessions of a project, and perhaps of others."""
        if chosen := self._chosen_folder:
            return os.path.join(project, chosen)
        return os.path.join(self._agent, "sessions", f"--{re.sub(r'[/:]', '-', project.lstrip('/'))}--")

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield every `<time>_<session>.jsonl` in the folder of every project."""
        if project is not None:
            real = os.path.realpath(project)
            for found in self._in_folder(self._folder(real)):
                header = _header(found.path)
                if header is not None and header.cwd == real:
                    found.project = real
                    yield found
        elif os.path.isabs(self._chosen_folder):
            yield from self._in_folder(self._chosen_folder)
        else:
            for folder in entries(os.path.join(self._agent, "sessions")):
                yield from self._in_folder(folder.path)

    def _in_folder(self, folder: str) -> Iterator[Transcript]:
        for entry in entries(folder):
            name = _NAME.fullmatch(entry.name)
            if name and _KEY.fullmatch(name["key"]) and not (entry.is_symlink() and os.path.isfile(entry.path)):
                found = file_transcript(self.name, name["key"], entry.path)
                if found is not None:
                    yield found

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the session at any path, recognised by its first line."""
        header = _header(path)
        return file_transcript(self.name, header.id, path) if header is not None else None

    def leftovers(self, listed: Sequence[Transcript]) -> Iterator[Leftover]:
        """Yield the other files among the sessions; in a folder that the user chose, those of lines."""
        if not self._chosen_folder:
            return unlisted_below(self._sessions, listed, self.title)
        return unlisted((path for path in files_below(self._sessions) if ".jsonl" in path), listed, self.title)

    def watched(self) -> Watch:
        """Return the folder of all sessions."""
        return Watch(folders=[self._sessions])

    def changed(self, path: str) -> list[Transcript]:
        """Return the session in this file."""
        return changed_below(self, self._sessions, path)

    def read(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> PiReading:
        """Return the messages; with a cursor, only those added since."""
        from cortext.tools.pi.read import PiReading

        return PiReading(transcript, cursor)

    def copy(self, transcript: Transcript, target: str, later: new_files.Later | None = None) -> None:
        """Copy the file byte for byte."""
        new_files.ensure_folder(os.path.dirname(target), later)
        new_files.mirror_file(transcript.path, target, later)

    def put_back(self, copy: str, *, project: str) -> str:
        """Restore a copy, unless Pi still has that session; return the session's id."""
        header = _header(copy)
        if header is None or not _KEY.fullmatch(header.id):
            raise NotFound(f"not a session of {self.title}: {copy}", kept="nothing was changed")
        project = os.path.realpath(project)
        if not self._has(header.id, project):
            target = self._new_path(header.id, project)
            durable.ensure_folder(os.path.dirname(target))
            new_files.mirror_file(copy, target)
        return header.id

    def _has(self, key: str, project: str) -> bool:
        """Whether there is a session with this id, in this project or in any other."""
        here = self._in_folder(self._folder(project))
        return any(found.key == key for found in here) or any(found.key == key for found in self.transcripts())

    def _new_path(self, key: str, project: str) -> str:
        stamp = time.strftime("%Y-%m-%dT%H-%M-%S-000Z", time.gmtime())
        return os.path.join(self._folder(project), f"{stamp}_{key}.jsonl")

    # ── writing and starting ─────────────────────────────────────────────────────────────────────────

    def withheld(self, transcript: Transcript) -> Withheld | None:
        """Return the messages that were edited out of the context; None after a compaction."""
        from cortext.tools.pi.withheld import withheld

        return withheld(transcript.path)

    def preview(self, messages: Messages) -> Written:
        """Return what `write` would report."""
        from cortext.model.turns import Turns

        return Written.of(Turns(messages))

    def write(
        self, messages: Messages, *, project: str, title: str = "", key: str = "", model: str = "", note: str = ""
    ) -> Written:
        """Write a new session of the project. It gets another id if `key` is taken or cannot be one."""
        from cortext.tools.pi.write import write_session

        project = os.path.realpath(project)
        if not _KEY.fullmatch(key) or self._has(key, project):
            key = str(uuid.uuid4())
        path = self._new_path(key, project)
        return write_session(
            path, messages, key=key, project=project, title=title, model=self._model_entry(model), note=note
        )

    def _model_entry(self, model: str) -> dict[str, str] | None:
        """Return the given model (`provider/id`), or the user's default, as an entry of a session has it."""
        settings = self._settings
        provider, _, name = model.partition("/")
        if not name:
            provider, name = settings.get("defaultProvider", ""), settings.get("defaultModel", "")
        return {"provider": str(provider), "modelId": str(name)} if provider and name else None

    def launch(self, written_or_key: str, *, project: str, prompt: str = "", model: str = "") -> Launch:
        """Return how to start Pi interactively with that session open."""
        check_argument(prompt)
        # After "--" a prompt that begins with a dash is not taken for an option.
        options = [*(["--model", model] if model else []), *(["--", prompt] if prompt else [])]
        program = self.program.path() or self.program.command
        return Launch(argv=[program, "--session", written_or_key, *options], cwd=project)

    def launch_new(self, *, project: str, prompt: str, title: str = "", model: str = "") -> tuple[Written, Launch]:
        """Write a new session that contains the prompt, and return how to start Pi with it."""
        written = self.write([], project=project, title=title, model=model, note=prompt)
        return written, self.launch(written.key, project=project, prompt=GO_ON, model=model)

    def discard(self, written: Written, *, project: str) -> None:
        """Remove a session that nobody used."""
        if written.path:
            durable.remove(written.path)

    # ── a project's config ───────────────────────────────────────────────────────────────────────────

    def files(self, commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
        """Return the slash commands, our extension and the shared skill as files of the project."""
        from cortext.tools.pi.install import project_files
        from cortext.tools.shared.agent_skill import agent_skill

        return project_files(commands, program) | agent_skill()

    def install_settings(
        self, project: str, program: Sequence[str], *, server: bool = True, dry_run: bool = False
    ) -> list[str]:
        """Change nothing: Pi finds our files by itself, and has no MCP servers."""
        return []

    def remove_settings(self, project: str, *, dry_run: bool = False) -> list[str]:
        """Change nothing."""
        return []

    def mcp_servers(self, project: str) -> set[str]:
        """Return no names: Pi has no MCP servers."""
        return set()

    def hooks_off(self, project: str) -> list[tuple[str, str]]:
        """Report a project that Pi does not trust: then it loads neither the commands nor the extension."""
        known = read_object(os.path.join(self._agent, "trust.json"))
        folder = os.path.realpath(project)
        while folder not in known and os.path.dirname(folder) != folder:
            folder = os.path.dirname(folder)
        trusted = known.get(folder, self._settings.get("defaultProjectTrust") == "always")
        return [] if trusted is True else [("it does not trust this folder yet", "run /trust in pi")]

    # ── hooks ────────────────────────────────────────────────────────────────────────────────────────

    def hook_event(self, payload: dict[str, Any]) -> HookEvent | None:
        """Translate what our extension reports; return None if it names no event or no session."""
        from cortext.tools.shared.typed import is_resume_block, typed_command

        prompt = text_of(payload, "prompt")
        event = event_of({**payload, "prompt": typed_command(prompt) or prompt}, _EVENTS)
        if event is not None and event.kind == "prompt" and is_resume_block(event.text):
            event.kind = "started"  # we launched it with this prompt; the user did not type it
        return event

    def hook_answer(self, payload: dict[str, Any], context: str) -> str:
        """Return the context that our extension adds to a prompt; empty for other events."""
        waits = payload.get("hook_event_name") == "before_agent_start"
        return json.dumps({"context": context}) if waits and context else ""


def _header(path: str) -> Record | None:
    """Return the first line of a session; None if the file is not a session of Pi."""
    from cortext.tools.pi.records import SESSION, Record, decoder
    from cortext.tools.shared.lines import ForeignLines

    lines = ForeignLines(path, 0, Counts())
    try:
        for line in lines:
            for record in lines.decode(line, decoder, Record):
                return record if record.type == SESSION and record.id and record.cwd is not None else None
    except (OSError, UnsafePath):
        pass
    return None
