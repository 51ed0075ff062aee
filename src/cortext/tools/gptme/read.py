"""Read gptme's log. It grows, but gptme rewrites it when the user edits or undoes something."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from cortext.io import files as fsio
from cortext.model import clock
from cortext.model.message import ASSISTANT, FILE, IMAGE, SYSTEM, TEXT, TOOL, TOOL_RESULT, USER, Message, Part
from cortext.safety.framing import BEGIN
from cortext.tools.base import About, Counts, Transcript
from cortext.tools.gptme.notation import split_calls
from cortext.tools.gptme.records import Metadata, Record, decoder
from cortext.tools.gptme.store import folder_of, full_log, settings_of
from cortext.tools.shared.lines import (
    NOT_UNDERSTOOD,
    RECORD_ERRORS,
    WITHOUT_CONTENT,
    ForeignLines,
    derived_id,
    note,
    place,
)
from cortext.tools.shared.mark import Mark

_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_CHECKED = 256  # bytes before the cursor by which a rewritten log is noticed


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
        lines = ForeignLines(path, _start(path, self._start_cursor), self.counts)
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
        self.cursor = {"offset": lines.end, "before": _digest_before(path, lines.end)}

    def _message(self, record: Record, end: int) -> Message | None:
        if record.metadata is not None and record.metadata.cortext is not None:
            message = marked_message(record, record.metadata.cortext)
        elif kind := _skipped(record):
            note(self.counts.skipped, kind)
            return None
        elif record.role not in (USER, ASSISTANT, SYSTEM):
            note(self.counts.unknown, record.role or "without role")
            return None
        else:
            message = _plain_message(record)
            message.id = derived_id(record.timestamp or end, record.role, record.content)
        if message is not None:
            self._describe(message)
        return message

    def _describe(self, message: Message) -> None:
        """Add what a message says about the conversation."""
        self.about.created_at = self.about.created_at or message.timestamp
        self.about.model = message.model or self.about.model
        names = (part.name for part in message.parts_of("tool_call"))
        self.about.tools += dict.fromkeys(name for name in names if name not in self.about.tools)


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


def marked_message(record: Record, mark: Mark) -> Message | None:
    """Return the message that a record of ours was made from; None if it was made from none."""
    if mark.added:
        return None
    message = mark.original()
    if message is None:
        message = _plain_message(record)
        message.id, message.timestamp = mark.id, mark.timestamp
        message.model, message.tokens, message.usage = mark.model, mark.tokens, mark.usage
    return message


def _plain_message(record: Record) -> Message:
    """Return a message as gptme itself records it."""
    metadata = record.metadata or Metadata()
    message = Message(role=record.role, content=record.content, timestamp=_utc(record.timestamp))
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
        if BEGIN in message.content:
            message.aside, message.extra = True, {"resume_block": True}
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


def _utc(timestamp: str) -> str:
    """Return gptme's time, which is local and has no zone, in our format."""
    try:
        return clock.from_epoch(datetime.fromisoformat(timestamp).astimezone(UTC).timestamp())
    except (ValueError, OverflowError, OSError):
        return ""


def _start(path: str, cursor: dict[str, Any] | None) -> int:
    """Return where to start reading: at the cursor if the log still has the same bytes before it."""
    offset = (cursor or {}).get("offset")
    if not isinstance(offset, int) or not 0 < offset <= os.stat(path).st_size:
        return 0
    return offset if _digest_before(path, offset) == (cursor or {}).get("before") else 0


def _digest_before(path: str, offset: int) -> str:
    with open(path, "rb", opener=fsio.plain_file) as file:
        file.seek(max(0, offset - _CHECKED))
        return hashlib.blake2b(file.read(min(offset, _CHECKED)), digest_size=8).hexdigest()
