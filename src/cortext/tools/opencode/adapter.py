"""The adapter for OpenCode: its database, its commands and plugin, and its `import` command."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

from cortext.errors import DamagedData, SessionNotFound, UsageError
from cortext.io import new_files
from cortext.model.headless import Question, Run
from cortext.tools.base import (
    CommandFile,
    Detected,
    HookEvent,
    Launch,
    Leftover,
    Messages,
    Transcript,
    TranscriptReading,
    Watch,
    Withheld,
    Written,
)
from cortext.tools.opencode import start as opencode_start
from cortext.tools.opencode.program import TESTED_VERSION, Program
from cortext.tools.opencode.store import BOOKKEEPING, TABLES, Folders, exists, is_key, keys_in, strays, transcripts
from cortext.tools.shared.hooks import text_of
from cortext.tools.shared.leftovers import files_below, is_empty, renamed, stray_messages, table_leftovers, unlisted
from cortext.tools.shared.settings import SettingsFiles
from cortext.tools.shared.sqlite import DAMAGED_DATABASE, is_database

if TYPE_CHECKING:
    from cortext.tools.opencode.version2 import Version2
    from cortext.tools.shared.installer import Config

_PIECES = ("message/", "part/", "share/")  # what belongs to a session, beside the sessions of the oldest versions
# The kind of event for each name that our plugin reports.
_EVENTS = {
    "session.created": "started",
    "chat.message": "prompt",
    "command.execute.before": "command",
    "session.idle": "answered",
    "session.compacted": "compacted",
    "dispose": "ended",
}


class OpenCode(SettingsFiles):
    """The adapter for OpenCode; its environment determines its folders."""

    name = "opencode"
    title = "OpenCode"
    tested_version = TESTED_VERSION
    folder_variables = ("OPENCODE_DB",)
    commands_run = False
    records_after_answer = False
    prompt_is_public = False
    first_steps = ("/workspace.brainstorm TOPIC",)
    started_by = "OPENCODE"
    session_variable = ""
    install_command = "npm install -g opencode-ai"
    headless_context = 128_000

    def __init__(self, home: str | None = None, environ: Mapping[str, str] | None = None) -> None:
        variables = dict(os.environ if environ is None else environ)
        self.home = home or variables.get("HOME") or os.path.expanduser("~")
        self.environ = {**variables, "HOME": self.home}
        self.folders = Folders(self.home, self.environ)
        self.program = Program(self.home, self.environ)

    def detect(self) -> Detected | None:
        """Return the installed program and its version; None if it is not installed."""
        return self.program.detect(self.tested_version)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield its sessions on this machine, without those of side agents.

        A damaged database is listed as one transcript, so that reading it reports the damage.
        """
        taken: set[str] = set()
        for path in self.folders.databases:
            try:
                found = self._listed(path, project)
            except sqlite3.Error:
                is_default = path == self.folders.database
                key = DAMAGED_DATABASE if is_default else f"{DAMAGED_DATABASE}-{os.path.basename(path)}"
                found = [Transcript(tool=self.name, key=key, path=path)]
            yield from (transcript for transcript in found if transcript.key not in taken)
            taken.update(transcript.key for transcript in found)

    def _listed(self, path: str, project: str | None = None, key: str = "") -> list[Transcript]:
        """Return the sessions of a database, of both versions; those of OpenCode 2 are out of date in older tables."""
        folders = None if project is None else {project, os.path.realpath(project)}
        new = [found for found in self._version2.listed(path) if key in ("", found.key)]
        taken = {found.key for found in new}
        old = transcripts(path, tool=self.name, project=project, key=key)
        return [
            *(found for found in new if folders is None or found.project in folders),
            *(found for found in old if found.key not in taken),
        ]

    @property
    def _version2(self) -> Version2:
        from cortext.tools.opencode.version2 import Version2

        return Version2()

    def _is_version2(self, transcript: Transcript) -> bool:
        """Whether this is a session of OpenCode 2, in a database or in a copy."""
        from cortext.tools.opencode.version2 import has

        if not is_database(transcript.path):
            return self._version2.copied_transcript(transcript.path) is not None
        return has(transcript.path, transcript.key)

    def leftovers(self, listed: Sequence[Transcript]) -> Iterator[Leftover]:
        """Yield what the databases have that is not read, other ones, and documents of versions before the database."""
        for path in self.folders.databases:
            yield from table_leftovers(path, TABLES, BOOKKEEPING)
            yield from stray_messages(path, strays(path))
        others = renamed(os.path.join(self.folders.data, "opencode.db"), self.folders.databases)
        yield from unlisted(others, listed, self.title)
        known = {key for path in self.folders.databases for key in keys_in(path)}
        for path in files_below(os.path.join(self.folders.data, "storage", "session"), _PIECES):
            if os.path.basename(path).removesuffix(".json") not in known and not is_empty(path):
                yield Leftover(path, "OpenCode has not moved this session into its database, which is what is read")

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the transcript in a document (a kept copy or an export), or in a database; None if there is none.

        A session of a database is named as `FILE#ID`; the id may be omitted if it is the only one.
        """
        file, _, key = path.rpartition("#")
        if is_key(key) and is_database(file):
            return self._only_session(file, key)
        if is_database(path):
            return self._only_session(path)
        from cortext.tools.opencode.document import head_of

        if (copied := self._version2.copied_transcript(path)) is not None:
            return copied
        info = head_of(path).info
        key = str(info.get("id") or "")
        if not is_key(key):
            return None
        status = os.stat(path)
        project = str(info.get("directory") or "")
        return Transcript(
            tool=self.name, key=key, path=path, project=project, size=status.st_size, changed=status.st_mtime_ns
        )

    def _only_session(self, path: str, key: str = "") -> Transcript | None:
        try:
            found = self._listed(path, key=key)
        except sqlite3.Error:
            return None
        return found[0] if len(found) == 1 else None

    def watched(self) -> Watch:
        """Return the database and its log. Their folder also contains snapshots of projects, far too much to watch."""
        paths = dict.fromkeys([self.folders.database, *self.folders.databases])
        return Watch(files=[file for path in paths for file in (path, f"{path}-wal")])

    def changed(self, path: str) -> list[Transcript]:
        """Return every session if this is the database: which of them changed is known by their fingerprints."""
        return list(self.transcripts()) if path in self.watched().files else []

    def read(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> TranscriptReading:
        """Return a reading of the messages; with a cursor, only of those added since."""
        from cortext.tools.opencode.read import DatabaseReading, DocumentReading

        if self._is_version2(transcript):
            return self._version2.read(transcript)
        if is_database(transcript.path) or transcript.key.startswith(DAMAGED_DATABASE):
            return DatabaseReading(transcript, cursor)
        return DocumentReading(transcript)

    def copy(self, transcript: Transcript, target: str, later: new_files.Later | None = None) -> None:
        """Copy a session as a document for `opencode import`; a copy that is up to date is not rewritten.

        That of a session of OpenCode 2 has its rows.
        """
        if self._is_version2(transcript):
            self._version2.copy(transcript, target, later)
        elif is_database(transcript.path):
            from cortext.tools.opencode.document import keep

            keep(transcript.path, transcript.key, target, later)
        else:
            new_files.mirror_file(transcript.path, target, later)

    def images(self, transcript: Transcript, refs: AbstractSet[str]) -> dict[str, bytes]:
        """Return the bytes of those of these images that are in the transcript."""
        from cortext.tools.opencode.document import images_in

        return images_in(transcript, refs)

    def put_back(self, copy: str, *, project: str) -> str:
        """Import a kept copy, with its side agents, if OpenCode has lost the session; return the session's key."""
        from cortext.tools.opencode.document import blocks_of, children_of, head_of
        from cortext.tools.opencode.write import import_document

        if (copied := self._version2.copied_transcript(copy)) is not None:
            if not any(found.key == copied.key for found in self.transcripts()):
                raise SessionNotFound(
                    f"a session of OpenCode 2 cannot be put back: {copied.key}",
                    kept="our copy of it",
                    hint="resume it with --rewrite: a new session gets its messages",
                )
            return copied.key
        key = str(head_of(copy).info.get("id") or "")
        if not is_key(key):
            raise DamagedData(f"{copy} is not a session of OpenCode", kept="it is unchanged")
        if not exists(self.folders.database, key):
            import_document(self.program, blocks_of(copy), key, project=project)
        for child, document in children_of(copy):
            if not exists(self.folders.database, child):
                import_document(self.program, iter((document,)), child, project=project)
        if not exists(self.folders.database, key):
            raise SessionNotFound(f"OpenCode did not store session {key}", kept="our copy of it")
        return key

    def withheld(self, transcript: Transcript) -> Withheld | None:
        """Return an empty report, because OpenCode sends everything; None if the session was compacted."""
        from cortext.tools.opencode import version2
        from cortext.tools.opencode.store import is_compacted

        if self._is_version2(transcript) and is_database(transcript.path):
            return None if version2.is_compacted(transcript.path, transcript.key) else Withheld()
        return None if is_compacted(transcript.path, transcript.key) else Withheld()

    def rewinds(self, transcript: Transcript) -> int:
        """Return how many messages OpenCode has removed, because the user undid them."""
        from cortext.tools.opencode.store import removed

        return removed(transcript.path, transcript.key)

    # ── writing and starting ─────────────────────────────────────────────────────────────────────────

    def preview(self, messages: Messages) -> Written:
        """Return what `write` would report for these messages; nothing is written."""
        from cortext.tools.opencode.render import Rendering

        return Written.of(Rendering(messages).normal)

    def write(
        self, messages: Messages, *, project: str, title: str = "", key: str = "", model: str = "", note: str = ""
    ) -> Written:
        """Write a new session with these messages as real turns, through `opencode import`.

        A note is only for tools whose first prompt is public; OpenCode gets its prompt in the environment.
        """
        if note:
            raise UsageError("a session for OpenCode cannot have a note", hint="pass the text as the first prompt")
        from cortext.tools.opencode.write import new_key, write_session

        database = self.folders.database
        if not is_key(key) or exists(database, key):
            key = new_key()
        chosen = opencode_start.choose_model(model, project=project, folders=self.folders)
        return write_session(self.program, database, messages, project=project, title=title, key=key, model=chosen)

    def launch(self, written_or_key: str, *, project: str, prompt: str = "", model: str = "") -> Launch:
        """Return how to open that session on the terminal; the prompt, if any, is sent first."""
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
        """Import an empty session, because only an imported one has an id we know; return it and how to open it."""
        from cortext.tools.opencode.write import new_key, write_empty

        key = new_key()
        launch = self.launch(key, project=project, prompt=prompt, model=model)
        return write_empty(self.program, self.folders.database, project=project, title=title, key=key), launch

    def discard(self, written: Written, *, project: str) -> None:
        """Delete a session that was never used."""
        from cortext.tools.opencode.write import delete

        delete(self.program, written.key, project=project)

    # ── the project's config ─────────────────────────────────────────────────────────────────────────

    def files(self, commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
        """Return our files in a project: commands, plugin, npm settings that keep the start short, and our skill."""
        from cortext.tools.opencode.install import project_files
        from cortext.tools.shared.agent_skill import agent_skill

        return project_files(commands, program) | agent_skill()

    def configs(self, program: Sequence[str] = ("cortext",)) -> Sequence[Config]:
        """Return our entries: the MCP server in the project's config."""
        from cortext.tools.opencode.install import configs

        return configs(program)

    def mcp_servers(self, project: str) -> set[str]:
        """Return the names of the MCP servers in the user's and the project's config."""
        return opencode_start.mcp_servers(project, self.folders)

    def hooks_off(self, project: str) -> list[tuple[str, str]]:
        """Return nothing: OpenCode loads every plugin file that it finds."""
        return []

    def hook_event(self, payload: dict[str, Any]) -> HookEvent | None:
        """Return what our plugin reports as an event; None if it is not one that we handle."""
        from cortext.tools.opencode.messages import RESUME_BLOCK

        kind = _EVENTS.get(text_of(payload, "hook_event_name"))
        key = text_of(payload, "session_id")
        if kind is None or not is_key(key):
            return None
        text = text_of(payload, "prompt")
        return HookEvent(
            # We launched it with this prompt; the user did not type it.
            kind="started" if RESUME_BLOCK in text else kind,
            key=key,
            path=f"{self.folders.database}#{key}",
            project=text_of(payload, "cwd"),
            text="" if RESUME_BLOCK in text else text,
            command=text_of(payload, "command_name"),
            arguments=text_of(payload, "command_args"),
        )

    def hook_answer(self, payload: dict[str, Any], context: str) -> str:
        """Return the context that our plugin adds to a prompt; only these two events wait for it."""
        waits = payload.get("hook_event_name") in ("chat.message", "command.execute.before")
        return json.dumps({"context": context}) if waits and context else ""

    # ── headless ─────────────────────────────────────────────────────────────────────────────────────

    def program_path(self) -> str:
        """Return the path of the program; empty if it is not installed."""
        return self.program.path()

    def ask(self, question: Question) -> Run:
        """Return how to run the program for one answer."""
        from cortext.tools.opencode import headless

        return headless.ask(question)
