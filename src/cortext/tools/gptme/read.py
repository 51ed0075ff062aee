"""Read gptme's log. It grows, but gptme rewrites it when the user edits or undoes something."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from cortext.model.message import ASSISTANT, FILE, IMAGE, SYSTEM, TEXT, TOOL, TOOL_RESULT, USER, Message, Part
from cortext.tools.base import About, Counts, Transcript
from cortext.tools.gptme.notation import split_calls
from cortext.tools.gptme.records import Metadata, Record, decoder
from cortext.tools.gptme.store import folder_of, full_log, settings_of
from cortext.tools.shared.cursor import fingerprint, usable
from cortext.tools.shared.lines import (
    NOT_UNDERSTOOD,
    RECORD_ERRORS,
    WITHOUT_CONTENT,
    ForeignLines,
    derived_id,
    local_moment,
    note,
    place,
)
from cortext.tools.shared.typed import is_resume_block

_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp")


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
