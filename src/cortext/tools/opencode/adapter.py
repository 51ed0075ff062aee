"""OpenCode: one adapter over its database, its commands and plugin, and its own `import`."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cortext.errors import DamagedData, SessionNotFound, UsageError
from cortext.io import batch as newfiles
from cortext.model.headless import Question, Run
from cortext.tools.base import (
    CommandFile,
    Detected,
    HookEvent,
    Launch,
    Messages,
    Transcript,
    TranscriptReading,
    Withheld,
    Written,
)
from cortext.tools.opencode import start as opencode_start
from cortext.tools.opencode.program import TESTED_VERSION, Program
from cortext.tools.opencode.store import Folders, exists, is_database, is_key, transcripts
from cortext.tools.shared.hooks import text_of

_BROKEN_DATABASE = "damaged-database"

# What our plugin reports, in our words.
_EVENTS = {
    "session.created": "started",
    "chat.message": "prompt",
    "command.execute.before": "command",
    "session.idle": "answered",
    "session.compacted": "compacted",
    "dispose": "ended",
}


class OpenCode:
    """OpenCode, wherever its environment says that it keeps its things."""

    name = "opencode"
    title = "OpenCode"
    tested_version = TESTED_VERSION
    commands_run = False
    records_after_answer = False
    prompt_is_public = False
    first_steps = ("/workspace.brainstorm TOPIC",)
    started_by = "OPENCODE"
    session_variable = ""
    install_command = "npm install -g opencode-ai"
    headless_context = 128_000

    def __init__(self, home: str | None = None, environ: Mapping[str, str] | None = None) -> None:
        given = dict(os.environ if environ is None else environ)
        self.home = home or given.get("HOME") or os.path.expanduser("~")
        self.environ = {**given, "HOME": self.home}
        self.folders = Folders(self.home, self.environ)
        self.program = Program(self.home, self.environ)

    def detect(self) -> Detected | None:
        """Whether it is installed here, and which version."""
        return self.program.detect(self.tested_version)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Its sessions on this machine, side agents' not among them. A damaged database is one too, to be told of."""
        path = self.folders.database
        if not os.path.exists(path):
            return
        try:
            yield from transcripts(path, tool=self.name, project=project)
        except sqlite3.Error:
            yield Transcript(tool=self.name, key=_BROKEN_DATABASE, path=path)

    def transcript_at(self, path: str) -> Transcript | None:
        """A document (kept, or exported); a session of a database as `FILE#ID`, or the only one that is in it."""
        file, _, key = path.rpartition("#")
        if is_key(key) and is_database(file):
            return self._only(file, key)
        if is_database(path):
            return self._only(path)
        from cortext.tools.opencode.document import head_of

        info = head_of(path).info
        key = str(info.get("id") or "")
        if not is_key(key):
            return None
        status = os.stat(path)
        project = str(info.get("directory") or "")
        return Transcript(
            tool=self.name, key=key, path=path, project=project, size=status.st_size, changed=status.st_mtime_ns
        )

    def _only(self, path: str, key: str = "") -> Transcript | None:
        try:
            found = list(transcripts(path, tool=self.name, key=key))
        except sqlite3.Error:
            return None
        return found[0] if len(found) == 1 else None

    def read(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> TranscriptReading:
        """The messages; with a cursor only those since."""
        from cortext.tools.opencode.read import DatabaseReading, DocumentReading

        if is_database(transcript.path) or transcript.key == _BROKEN_DATABASE:
            return DatabaseReading(transcript, cursor)
        return DocumentReading(transcript)

    def copy(self, transcript: Transcript, target: str, later: newfiles.Later | None = None) -> None:
        """Keep a session as a document that `opencode import` takes; one that has not changed costs nothing."""
        if is_database(transcript.path):
            from cortext.tools.opencode.document import keep

            keep(transcript.path, transcript.key, target, later)
        else:
            newfiles.mirror_file(transcript.path, target, later)

    def put_back(self, copy: str, *, project: str) -> str:
        """Import a kept copy where OpenCode has lost it, side agents' sessions too."""
        from cortext.tools.opencode.document import children_of, head_of, pieces_of
        from cortext.tools.opencode.write import import_document

        key = str(head_of(copy).info.get("id") or "")
        if not is_key(key):
            raise DamagedData(f"{copy} is no session of OpenCode", kept="it is unchanged")
        if not exists(self.folders.database, key):
            import_document(self.program, pieces_of(copy), key, project=project)
        for child, document in children_of(copy):
            if not exists(self.folders.database, child):
                import_document(self.program, iter((document,)), child, project=project)
        if not exists(self.folders.database, key):
            raise SessionNotFound(f"OpenCode did not keep {key}", kept="our copy of it")
        return key

    def withheld(self, transcript: Transcript) -> Withheld | None:
        """Everything is sent, unless the session was compacted."""
        from cortext.tools.opencode.store import is_compacted

        return None if is_compacted(transcript.path, transcript.key) else Withheld()

    # ── writing and starting ─────────────────────────────────────────────────────────────────────────

    def preview(self, messages: Messages) -> Written:
        """What `write` would report for these messages."""
        from cortext.tools.opencode.render import Rendering

        return Written.of(Rendering(messages).normal)

    def write(
        self, messages: Messages, *, project: str, title: str = "", key: str = "", model: str = "", note: str = ""
    ) -> Written:
        """Write a new session with these messages as real turns, through `opencode import`.

        A note is for tools whose first prompt is public; here it is handed over in the environment.
        """
        if note:
            raise UsageError("a session for OpenCode takes no note", hint="hand it over as the first prompt")
        from cortext.tools.opencode.write import new_key, write_session

        database = self.folders.database
        if not is_key(key) or exists(database, key):
            key = new_key()
        chosen = opencode_start.choose_model(model, project=project, folders=self.folders)
        return write_session(self.program, database, messages, project=project, title=title, key=key, model=chosen)

    def launch(self, written_or_key: str, *, project: str, prompt: str = "", model: str = "") -> Launch:
        """How to open that session on the terminal, the prompt (if any) sent first."""
        return opencode_start.interactive(
            self.program.path() or self.name,
            written_or_key,
            project=project,
            prompt=prompt,
            model=model,
            folders=self.folders,
            environ=self.environ,
        )

    def launch_new(self, *, project: str, prompt: str, title: str = "", model: str = "") -> tuple[Written, Launch]:
        """A session of a given id can only be imported, so an empty one is."""
        from cortext.tools.opencode.write import new_key, write_begun

        key = new_key()
        launch = self.launch(key, project=project, prompt=prompt, model=model)
        return write_begun(self.program, self.folders.database, project=project, title=title, key=key), launch

    def discard(self, written: Written, *, project: str) -> None:
        """Take away a session that nobody used."""
        from cortext.tools.opencode.write import delete

        delete(self.program, written.key, project=project)

    # ── the project's config ─────────────────────────────────────────────────────────────────────────

    def files(self, commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
        """The whole files that are ours in a project: commands, the plugin, and what keeps a start short."""
        from cortext.tools.opencode.install import project_files

        return project_files(commands, program)

    def install_settings(
        self, project: str, program: Sequence[str], *, server: bool = True, dry_run: bool = False
    ) -> list[str]:
        """Put the MCP entry into the project's config."""
        from cortext.tools.opencode.install import configs
        from cortext.tools.shared import installer

        return installer.install(project, configs(program), server=server, dry_run=dry_run)

    def remove_settings(self, project: str, *, dry_run: bool = False) -> list[str]:
        """Remove exactly what `install_settings` put in."""
        from cortext.tools.opencode.install import configs
        from cortext.tools.shared import installer

        return installer.remove(project, configs(), dry_run=dry_run)

    def mcp_servers(self, project: str) -> set[str]:
        """The names of the MCP servers that OpenCode would have in this project: the user's and the project's."""
        return opencode_start.mcp_servers(project, self.folders)

    def hooks_off(self, project: str) -> list[tuple[str, str]]:
        """Nothing: our plugin is a whole file, and what is there is loaded."""
        return []

    def hook_event(self, payload: dict[str, Any]) -> HookEvent | None:
        """What our plugin reports, in our words."""
        from cortext.tools.opencode.messages import RESUME_BLOCK

        kind = _EVENTS.get(text_of(payload, "hook_event_name"))
        key = text_of(payload, "session_id")
        if kind is None or not is_key(key):
            return None
        text = text_of(payload, "prompt")
        return HookEvent(
            # The prompt that we launched it with ourselves is none of the user's.
            kind="started" if RESUME_BLOCK in text else kind,
            key=key,
            path=f"{self.folders.database}#{key}",
            project=text_of(payload, "cwd"),
            text="" if RESUME_BLOCK in text else text,
            command=text_of(payload, "command_name"),
            arguments=text_of(payload, "command_args"),
        )

    def hook_answer(self, payload: dict[str, Any], context: str) -> str:
        """What our plugin puts beside the prompt; only these two events wait for it."""
        waits = payload.get("hook_event_name") in ("chat.message", "command.execute.before")
        return json.dumps({"context": context}) if waits and context else ""

    # ── without its screen ───────────────────────────────────────────────────────────────────────────

    def program_path(self) -> str:
        """Where the program is; empty where it is not installed."""
        return self.program.path()

    def ask(self, question: Question) -> Run:
        """How to get one answer."""
        from cortext.tools.opencode import headless

        return headless.ask(question)
