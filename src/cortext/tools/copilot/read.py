"""Finds and reads the sessions of GitHub Copilot CLI, as a stream, from where the last reading ended.

Every event names the one before it, so the file's order is the conversation's: what the user takes back, the program
removes from the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from cortext.errors import CortextError
from cortext.io import durable
from cortext.model import clock
from cortext.model.message import ASSISTANT, USER, Message, is_empty_message
from cortext.tools.base import About, Counts, Leftover, Transcript, Watch
from cortext.tools.copilot.adapter import Copilot
from cortext.tools.copilot.messages import (
    CALL_STARTED,
    CLEARED,
    COMPACTED,
    MESSAGES,
    MODEL,
    START,
    TRUNCATED,
    USAGE,
    USER_MESSAGE,
    CallStarted,
    Compaction,
    Event,
    ModelChange,
    Start,
    Usage,
    UserMessage,
    decoder,
    is_bookkeeping,
    message_of,
    original,
)
from cortext.tools.shared.building import note_tools
from cortext.tools.shared.folders import changed_below, is_uuid, listing, of_project, transcript_of
from cortext.tools.shared.leftovers import unlisted_below
from cortext.tools.shared.lines import (
    NOT_UNDERSTOOD,
    RECORD_ERRORS,
    WITHOUT_CONTENT,
    ForeignLines,
    fingerprint,
    note,
    place,
    usable,
)
from cortext.tools.shared.parts import FileReader
from cortext.tools.shared.values import valid_fields

# What Copilot keeps beside the events of a session.
_COMPANIONS = (
    *("*/workspace.yaml", "*/plan.md", "*/vscode.metadata.json", "*/session.db", "*/checkpoints/", "*/files/"),
    *("*/research/", "*/rewind-snapshots/", "*/rewind-file-snapshots/"),
)
_TYPE = re.compile(rb'\{"type":"([\w.]{1,60})",')
_INFORMATIVE = (START, MODEL, USAGE, COMPACTED, CALL_STARTED)
_SHRINKING = (COMPACTED, CLEARED, TRUNCATED)
_NAME = re.compile(r"""^name: (?:'((?:[^']|'')*)'|"((?:[^"\\]|\\.)*)"|([^'"|>&*!%@`#\s].*))$""", re.MULTILINE)
_HEAD = 1 << 16  # bytes: more than the first event needs
_KEPT_CALLS = 64


class CopilotReader(FileReader[Copilot]):
    """Finds and reads the sessions."""

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield its transcripts on this machine (of one project, if given), in no particular order."""
        paths = (self.tool.events_of(name) for name in listing(self.tool.sessions) if is_uuid(name))
        return of_project(map(self.transcript_at, paths), project)

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the transcript in this file; None if it is not a transcript of Copilot."""
        head = head_of(path)
        name = os.path.basename(os.path.dirname(path))
        if (head is None or not is_uuid(head.sessionId)) and path == self.tool.events_of(name) and os.path.isfile(path):
            head = Start(sessionId=name)  # in Copilot's own folder its name is enough: the first line may be damaged
        if head is None or not is_uuid(head.sessionId):
            return None
        project = head.context.cwd if head.context else ""
        return transcript_of(self.tool.name, head.sessionId, path, project, os.stat(path))

    def leftovers(self, listed: Sequence[Transcript]) -> Iterator[Leftover]:
        """Yield the other files among the sessions; older versions kept a file of events for each."""
        return unlisted_below(self.tool.sessions, listed, self.tool.title, _COMPANIONS)

    def watched(self) -> Watch:
        """Return the folder of all sessions."""
        return Watch(folders=[self.tool.sessions])

    def changed(self, path: str) -> list[Transcript]:
        """Return the session in this file."""
        return changed_below(self.tool, self.tool.sessions, path)

    def read(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> CopilotReading:
        """Return a reading of the messages; with a cursor, only of those added since."""
        return CopilotReading(transcript, cursor)


class CopilotReading:
    """The messages of a session. The cursor also holds what later events refer to: usage, calls, model, command."""

    def __init__(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> None:
        self.about = About(project=transcript.project)
        self.counts = Counts()
        self.cursor: dict[str, Any] | None = None
        self._path, self._key = transcript.path, transcript.key
        state = usable(cursor, self._path) or {}
        self._start = state.get("offset", 0)
        self._usage: dict[str, Any] = _dict(state.get("usage"))
        self._names: dict[str, str] = {str(call): str(name) for call, name in _dict(state.get("calls")).items()}
        self.about.model, self.about.command = str(state.get("model", "")), str(state.get("command", ""))
        self.about.notes = int(state.get("notes") or 0)

    def __iter__(self) -> Iterator[Message]:
        self.about.title = title_beside(self._path)
        lines = ForeignLines(self._path, self._start, self.counts)
        for line in lines:
            found = _TYPE.match(line)
            kind = found[1].decode("ascii") if found else ""
            if kind not in MESSAGES and kind not in _INFORMATIVE and is_bookkeeping(kind) and _is_one_event(line):
                self.about.notes += kind == "skill.invoked"
                note(self.counts.skipped, kind)  # some of them hold a whole request: too long to decode for nothing
                continue
            for event in lines.decode(line, decoder, Event):
                try:
                    message = self._message(event)
                except RECORD_ERRORS:
                    note(self.counts.damaged, NOT_UNDERSTOOD)
                    place(self.counts, self._path, lines.end)
                    continue
                if message is not None:
                    self._describe(message)
                    yield message
        calls = dict(list(self._names.items())[-_KEPT_CALLS:])
        state: dict[str, Any] = {
            "usage": self._usage,
            "calls": calls,
            "model": self.about.model,
            "command": self.about.command,
        }
        state["notes"] = self.about.notes
        self.cursor = {"offset": lines.end, "seen": fingerprint(self._path, lines.end), **state}

    def _message(self, event: Event) -> Message | None:
        """Return the message that an event is; None if it is none."""
        if event.type not in MESSAGES:
            self._other(event)
            return None
        if event.cortext is not None:
            message = original(event, event.cortext, self._key)
            if message is None:
                note(self.counts.skipped, "added by cortext")
            return message
        message = message_of(event, self._key, self._names)
        if message is not None and message.role == USER and not message.aside and event.type == USER_MESSAGE:
            sent = msgspec.json.decode(event.data, type=UserMessage)
            self.about.notes += sent.transformedContent not in (None, "", sent.content)
        if message is None:
            note(self.counts.skipped, "prompt of the program")
            self.about.notes += 1
        elif is_empty_message(message):
            note(self.counts.skipped, WITHOUT_CONTENT)
            return None
        elif message.role == ASSISTANT and not message.aside:
            self._count_tokens(message)
        return message

    def _other(self, event: Event) -> None:
        """Count an event that is not a message; use the few that say something about the conversation."""
        kind, data = event.type, event.data
        note(self.counts.skipped if is_bookkeeping(kind) else self.counts.unknown, kind or "without type")
        if kind == START:
            start = msgspec.json.decode(data, type=Start)
            self.about.created_at = clock.normalise(start.startTime)
            self.about.model = start.selectedModel or self.about.model
        elif kind == MODEL:
            self.about.model = msgspec.json.decode(data, type=ModelChange).newModel
        elif kind == USAGE and not event.agentId:
            self._usage = msgspec.json.decode(data, type=Usage).usage
        elif kind == COMPACTED:
            self.about.summary = msgspec.json.decode(data, type=Compaction).summaryContent or ""
        elif kind == CALL_STARTED:
            call = msgspec.json.decode(data, type=CallStarted)
            self._names[call.toolCallId] = call.toolName

    def _count_tokens(self, message: Message) -> None:
        """Set the usage of a request on the first message of its answer."""
        if self._usage:
            message.usage, self._usage = self._usage, {}
            tokens = message.usage.get("outputTokens")
            message.tokens = tokens if isinstance(tokens, int) else None

    def _describe(self, message: Message) -> None:
        about = self.about
        if message.role == ASSISTANT and not message.aside:
            about.model = message.model or about.model
        note_tools(about, message)
        if message.role == USER and not about.command and message.content.startswith("/workspace."):
            about.command = message.content.split(maxsplit=1)[0]


def head_of(path: str) -> Start | None:
    """Return the first event of a file if it is the start of a session of Copilot; None otherwise."""
    try:
        descriptor = durable.open_file(path, os.O_RDONLY)
    except (OSError, CortextError):
        return None
    try:
        first = os.pread(descriptor, _HEAD, 0).partition(b"\n")[0]
        event = decoder.decode(first)
        fields = msgspec.json.decode(event.data)
        start = valid_fields(fields, Start) if isinstance(fields, dict) else Start()
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    finally:
        os.close(descriptor)
    return start if event.type == START and start.sessionId else None


def is_shortened(path: str) -> bool:
    """Whether the model no longer gets the whole session: it was compacted, cleared or truncated."""
    lines = ForeignLines(path, 0, Counts())
    for line in lines:
        found = _TYPE.match(line)
        if found and found[1].decode("ascii") in _SHRINKING and b'"success":false' not in line:
            return True
    return False


def title_beside(path: str) -> str:
    """Return the session's name in the `workspace.yaml` beside its events; empty if there is none."""
    try:
        text = durable.read_text(os.path.join(os.path.dirname(path), "workspace.yaml"))
    except (OSError, ValueError, CortextError):
        return ""
    found = _NAME.search(text)
    if found is None:
        return ""
    if found[2] is not None:  # in double quotes, a YAML string is nearly a JSON string
        try:
            return str(msgspec.json.decode(f'"{found[2]}"'))
        except msgspec.DecodeError:
            return ""
    return found[1].replace("''", "'") if found[1] is not None else found[3].strip()


def _is_one_event(line: bytes) -> bool:
    """Whether a line holds exactly one event, which is complete."""
    return line.endswith(b"}") and line.count(b'"parentId":') == 1


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
