"""The adapter for gptme: finding and reading its conversations, `logs/<name>/conversation.jsonl`.

The log says nothing about itself: the folder's name is the id, and `config.toml` beside it names the project and the
title. So a copy elsewhere has a folder beside it, `<copy>.files/<name>`, with the other files of the session. After
`/compact`, the full history is in `lossless.jsonl`; a compaction by gptme itself leaves the log as it is and works with
a view of it.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Iterator, Sequence
from typing import Any

from cortext.errors import CortextError
from cortext.io import durable, new_files
from cortext.model.message import ASSISTANT, FILE, IMAGE, SYSTEM, TEXT, TOOL, TOOL_RESULT, USER, Message, Part
from cortext.tools.base import About, Counts, Leftover, Transcript, Watch
from cortext.tools.gptme.notation import Metadata, Record, decoder, split_calls
from cortext.tools.shared import parts
from cortext.tools.shared.building import note_tools
from cortext.tools.shared.commands import is_resume_block
from cortext.tools.shared.folders import changed_below, listing, of_project
from cortext.tools.shared.leftovers import unlisted_below
from cortext.tools.shared.lines import (
    NOT_UNDERSTOOD,
    RECORD_ERRORS,
    WITHOUT_CONTENT,
    ForeignLines,
    derived_id,
    fingerprint,
    local_moment,
    note,
    place,
    usable,
)
from cortext.tools.shared.program import LocalTool

LOG = "conversation.jsonl"
SETTINGS = "config.toml"
LOSSLESS = "lossless.jsonl"
# What gptme keeps beside a conversation.
_COMPANIONS = (
    *(f"*/{SETTINGS}", f"*/{LOSSLESS}", "*/events.jsonl", "*/control.jsonl", "*/progress.jsonl", "*/RESUME.md"),
    *("*/conv-checkpoints.jsonl", "*/lesson-emissions.jsonl", "*/phase0-shadow.jsonl*", "*/model_selection_trace.json"),
    *("*/prompt-queue-closed", "*/tui.log", "*/attachments/", "*/branches/", "*/files/", "*/tool-outputs/"),
    *("*/views/", "*/workspace/"),
)
KEY = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_ACTIVE_VIEW = os.path.join("views", ".current")
_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp")


class Gptme(parts.HasWriter, parts.HasRefusal, LocalTool):
    """The adapter for gptme, which has neither command files nor hooks that a project could add."""

    name = "gptme"
    title = "gptme"
    tested_version = "0.35.1"
    command = "gptme"
    distribution = "gptme"
    folder_variables = ("GPTME_LOGS_HOME",)
    prompt_is_public = True
    install_command = "pipx install gptme"

    writer = parts.LazyPart("cortext.tools.gptme.write:GptmeWriter")

    @property
    def logs(self) -> str:
        """The folder with all conversations of the user."""
        data = self.own_environ.get("XDG_DATA_HOME", "").strip() or os.path.join(self.home, ".local", "share")
        return self.own_environ.get("GPTME_LOGS_HOME", "").strip() or os.path.join(data, "gptme", "logs")

    @property
    def config(self) -> str:
        """The folder of the user's settings."""
        config = self.own_environ.get("XDG_CONFIG_HOME", "").strip() or os.path.join(self.home, ".config")
        return os.path.join(config, "gptme")

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield every session, or those of one project."""
        paths = (os.path.join(self.logs, name, LOG) for name in listing(self.logs))
        return of_project(map(self.transcript_at, paths), project, resolve=True)

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the session whose log is at this path, or whose copy."""
        beside = folder_of(path)
        if not beside or not _is_log(path):
            return None
        size = changed = 0
        for file in (path, os.path.join(beside, LOSSLESS)):
            try:
                status = os.stat(file)
            except OSError:
                continue
            size += status.st_size
            changed = max(changed, status.st_mtime_ns)
        project = settings_of(beside).get("workspace")
        return Transcript(
            tool=self.name,
            key=os.path.basename(beside),
            path=os.path.abspath(path),
            project=project if isinstance(project, str) else "",
            size=size,
            changed=changed,
        )

    def leftovers(self, listed: Sequence[Transcript]) -> Iterator[Leftover]:
        """Yield the other files among the conversations, without what belongs to one."""
        return unlisted_below(self.logs, listed, self.title, _COMPANIONS)

    def watched(self) -> Watch:
        """Return the folder of all sessions."""
        return Watch(folders=[self.logs])

    def changed(self, path: str) -> list[Transcript]:
        """Return the session in this file."""
        return changed_below(self, self.logs, path)

    def rewinds(self, transcript: Transcript) -> int:
        """Return how many earlier states gptme has set aside, because the user undid or edited messages."""
        try:
            return len(os.listdir(os.path.join(folder_of(transcript.path), "branches")))
        except OSError:
            return 0

    def read(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> GptmeReading:
        """Return a reading of the messages; with a cursor, only of those added since."""
        return GptmeReading(transcript, cursor)

    def copy(self, transcript: Transcript, target: str, later: new_files.Later | None = None) -> None:
        """Copy a session: its log to the target, its other files beside that."""
        source = folder_of(transcript.path)
        beside = os.path.join(f"{target}.files", os.path.basename(source))
        new_files.ensure_folder(os.path.dirname(target), later)
        new_files.mirror_file(transcript.path, target, later)
        new_files.ensure_folder(beside, later)
        for name in (SETTINGS, LOSSLESS):
            if os.path.isfile(os.path.join(source, name)):
                new_files.mirror_file(os.path.join(source, name), os.path.join(beside, name), later)


def folder_of(path: str) -> str:
    """Return the folder with the other files of a session, whose name is the session's id; empty if there is none."""
    path = os.path.abspath(path)
    if os.path.basename(path) == LOG:
        return os.path.dirname(path)
    try:
        (name,) = os.listdir(f"{path}.files")
    except (OSError, ValueError):
        return ""
    return os.path.join(f"{path}.files", name) if KEY.fullmatch(name) else ""


def full_log(path: str) -> str:
    """Return the path of the log with all messages: not the one that a compaction by the user shortened."""
    lossless = os.path.join(folder_of(path), LOSSLESS)
    return lossless if os.path.isfile(lossless) else path


def is_compacted(path: str) -> bool:
    """Whether gptme would send a summary instead of the earlier messages."""
    folder = folder_of(path)
    return any(os.path.exists(os.path.join(folder, name)) for name in (LOSSLESS, _ACTIVE_VIEW))


def settings_of(folder: str, table: str = "chat", name: str = SETTINGS) -> dict[str, Any]:
    """Return a table of the settings in a folder; empty if there is none that can be read."""
    try:
        settings = tomllib.loads(durable.read_text(os.path.join(folder, name))).get(table)
    except (OSError, CortextError, ValueError, RecursionError):  # ValueError: not TOML, or not UTF-8
        return {}
    return settings if isinstance(settings, dict) else {}


def _is_log(path: str) -> bool:
    """Whether one of the first lines of a file is a message."""
    lines = ForeignLines(path, 0, Counts())
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return False
        for number, line in enumerate(lines):
            records: list[Record] = lines.decode(line, decoder, Record)
            if any(record.role for record in records):
                return True
            if number == 2:
                break
    except (OSError, CortextError):
        return False
    return False


class GptmeReading:
    """The messages of a log; see `TranscriptReading`."""

    def __init__(self, transcript: Transcript, cursor: dict[str, Any] | None) -> None:
        self._transcript, self._start_cursor = transcript, cursor
        self.about, self.counts = About(), Counts()
        self.cursor: dict[str, Any] | None = None

    def __iter__(self) -> Iterator[Message]:
        title = settings_of(folder_of(self._transcript.path)).get("name")
        self.about = About(project=self._transcript.project, title=title if isinstance(title, str) else "")
        self.counts, self.cursor = Counts(), None
        path = full_log(self._transcript.path)
        cursor = usable(self._start_cursor, path)
        lines = ForeignLines(path, cursor["offset"] if cursor else 0, self.counts)
        for line in lines:
            for record in lines.decode(line, decoder, Record):
                try:
                    message = self._message(record, lines.end)
                except RECORD_ERRORS:
                    note(self.counts.damaged, NOT_UNDERSTOOD)
                    place(self.counts, path, lines.end)
                    continue
                if message is not None:
                    yield message
        self.cursor = {"offset": lines.end, "seen": fingerprint(path, lines.end)}

    def _message(self, record: Record, end: int) -> Message | None:
        mark = record.metadata.cortext if record.metadata is not None else None
        if mark is not None:
            message = None if mark.added else mark.restored(literal_message(record), self.counts.damaged)
        elif kind := _skipped(record):
            note(self.counts.skipped, kind)
            return None
        elif record.role not in (USER, ASSISTANT, SYSTEM):
            note(self.counts.unknown, record.role or "without role")
            return None
        else:
            message = literal_message(record)
            message.id = derived_id(record.timestamp or end, record.role, record.content)
            if message.role == USER and is_resume_block(message.content):
                message.aside, message.extra = True, {"resume_block": True}
        if message is not None:
            self._describe(message)
        return message

    def _describe(self, message: Message) -> None:
        """Add what a message says about the conversation."""
        self.about.created_at = self.about.created_at or message.timestamp
        self.about.model = message.model or self.about.model
        note_tools(self.about, message)


def _skipped(record: Record) -> str:
    """Return why a record is not part of the conversation; empty if it is."""
    if record.ui_only:
        return "status"
    if record.role == SYSTEM and not record.call_id and (record.pinned or record.hide):
        return "system prompt"
    if record.role == USER and record.content.startswith("<system>") and record.content.endswith("</system>"):
        return "automatic reply"  # without a terminal, gptme answers an answer without a tool call itself
    if record.role in (USER, ASSISTANT, SYSTEM) and not (record.content or record.files):
        return WITHOUT_CONTENT
    return ""


def literal_message(record: Record) -> Message:
    """Return the message that a record contains, without its id and regardless of our mark."""
    metadata = record.metadata or Metadata()
    message = Message(role=record.role, content=record.content, timestamp=local_moment(record.timestamp))
    if record.role == ASSISTANT:
        message.content, calls = split_calls(record.content)
        if calls:
            message.parts = [*([Part(TEXT, text=message.content)] if message.content else []), *calls]
        message.model, message.usage = metadata.model, metadata.usage
        tokens = (metadata.usage or {}).get("output_tokens")
        message.tokens = tokens if isinstance(tokens, int) else None
    elif record.role == SYSTEM and record.call_id:
        message.role, message.content = TOOL, ""
        result = Part(TOOL_RESULT, call_id=record.call_id, name=metadata.tool, output=record.content)
        message.parts = [result]
    elif record.role == USER:
        message.content, included = _typed(record.content)
        message.parts = [*included, *map(_attachment, record.files)] or None
    return message


def _typed(content: str) -> tuple[str, list[Part]]:
    """Return what the user typed, and the files that gptme appended because the prompt names them."""
    included: list[Part] = []
    while True:
        stripped = content.rstrip()
        fence = "`" * (len(stripped) - len(stripped.rstrip("`")))
        start = stripped.rfind(f"\n\n{fence}", 0, len(stripped) - len(fence)) if len(fence) >= 3 else -1
        name, newline, text = stripped[start + 2 + len(fence) : len(stripped) - len(fence)].partition("\n")
        if start < 0 or not newline or not name.strip() or "`" in name or name not in content[:start]:
            return content, included
        included.insert(0, Part(FILE, name=name, text=text))
        content = content[:start]


def _attachment(path: str) -> Part:
    kind = IMAGE if path.lower().endswith(_IMAGES) else FILE
    return Part(kind, ref=path, name=os.path.basename(path))
