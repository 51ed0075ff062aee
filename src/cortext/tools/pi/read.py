"""Reads a session of Pi: a tree of entries, in which the last one is the current end of the conversation.

The entries are those of version 3 of its documented format.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from cortext.errors import UnsafePath
from cortext.model.message import (
    ASSISTANT,
    IMAGE,
    SYSTEM,
    TEXT,
    THINKING,
    TOOL,
    TOOL_CALL,
    TOOL_RESULT,
    USER,
    Message,
    Part,
    joined_text,
)
from cortext.tools.base import Counts, Leftover, Transcript, Watch
from cortext.tools.pi.adapter import Pi
from cortext.tools.shared.commands import is_resume_block, typed_command
from cortext.tools.shared.entries import NAME
from cortext.tools.shared.folders import changed_below, entries, file_transcript
from cortext.tools.shared.leftovers import files_below, unlisted, unlisted_below
from cortext.tools.shared.lines import WITHOUT_CONTENT, ForeignLines, derived_id, moment, note
from cortext.tools.shared.native import RunMark
from cortext.tools.shared.parts import FileReader
from cortext.tools.shared.reading import TreeReading

_NAME = re.compile(r"[^_]+_(?P<key>.+)\.jsonl")  # the time of creation, and the session's id
KEY = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
# Entries that are Pi's own bookkeeping: known, and not part of the conversation.
BOOKKEEPING = frozenset(("model_change", "thinking_level_change", "usage", "context_edit", "custom", "label"))
MESSAGE, INJECTED, BRANCH_SUMMARY = "message", "custom_message", "branch_summary"
SESSION, TITLE, COMPACTION, EDIT = "session", "session_info", "compaction", "context_edit"


class Block(msgspec.Struct, gc=False):
    """One block of a message's content. The base64 of an image is not a field, so that it is never decoded."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    arguments: Any = None
    mimeType: str | None = None


Content = str | list[Block] | None


class Body(msgspec.Struct, gc=False):
    """The `message` of an entry, of any role."""

    role: str = ""
    content: Content = None
    model: str | None = None
    usage: dict[str, Any] | None = None
    stopReason: str | None = None
    toolCallId: str | None = None
    toolName: str | None = None
    isError: bool | None = None
    customType: str | None = None
    command: str | None = None
    output: str | None = None
    excludeFromContext: bool | None = None


class Record(msgspec.Struct, gc=False):
    """A line of a session. `parentId` is null at a root, and empty if it is missing, as in version 1."""

    type: str = ""
    id: str = ""
    parentId: str | None = ""
    timestamp: str | None = None
    cwd: str | None = None
    message: Body | None = None
    content: Content = None
    customType: str | None = None
    summary: str | None = None
    name: str | None = None
    targetId: str | None = None
    replacement: Any = None
    cortext: RunMark | None = None


decoder = msgspec.json.Decoder(Record)


def blocks_of(content: Content) -> list[Block]:
    """Return a content of either form as a list of blocks."""
    if isinstance(content, str):
        return [Block("text", content)] if content else []
    return content or []


# ── sessions ─────────────────────────────────────────────────────────────────────────────────────────


class PiReader(FileReader[Pi]):
    """Finds and reads the sessions."""

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield every `<time>_<session>.jsonl` in the folder of every project."""
        if project is not None:
            real = os.path.realpath(project)
            for found in self._in_folder(self.tool.folder(real)):
                first = header(found.path)
                if first is not None and first.cwd == real:
                    found.project = real
                    yield found
        elif os.path.isabs(self.tool.chosen_folder):
            yield from self._in_folder(self.tool.chosen_folder)
        else:
            for folder in entries(os.path.join(self.tool.agent, "sessions")):
                yield from self._in_folder(folder.path)

    def _in_folder(self, folder: str) -> Iterator[Transcript]:
        for entry in entries(folder):
            name = _NAME.fullmatch(entry.name)
            if name and KEY.fullmatch(name["key"]) and not (entry.is_symlink() and os.path.isfile(entry.path)):
                found = file_transcript(self.tool.name, name["key"], entry.path)
                if found is not None:
                    yield found

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the session at any path, recognised by its first line."""
        first = header(path)
        return file_transcript(self.tool.name, first.id, path) if first is not None else None

    def leftovers(self, listed: Sequence[Transcript]) -> Iterator[Leftover]:
        """Yield the other files among the sessions; in a folder that the user chose, those of lines."""
        if not self.tool.chosen_folder:
            return unlisted_below(self.tool.sessions, listed, self.tool.title)
        return unlisted((path for path in files_below(self.tool.sessions) if ".jsonl" in path), listed, self.tool.title)

    def watched(self) -> Watch:
        """Return the folder of all sessions."""
        return Watch(folders=[self.tool.sessions])

    def changed(self, path: str) -> list[Transcript]:
        """Return the session in this file."""
        return changed_below(self.tool, self.tool.sessions, path)

    def read(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> PiReading:
        """Return the messages; with a cursor, only those added since."""
        return PiReading(transcript, cursor)

    def has(self, key: str, project: str) -> bool:
        """Whether there is a session with this id, in this project or in any other."""
        here = self._in_folder(self.tool.folder(project))
        return any(found.key == key for found in here) or any(found.key == key for found in self.transcripts())


def header(path: str) -> Record | None:
    """Return the first line of a session; None if the file is not a session of Pi."""
    lines = ForeignLines(path, 0, Counts())
    try:
        for line in lines:
            for record in lines.decode(line, decoder, Record):
                return record if record.type == SESSION and record.id and record.cwd is not None else None
    except (OSError, UnsafePath):
        pass
    return None


# ── messages ─────────────────────────────────────────────────────────────────────────────────────────

# An answer that Pi stores although it was cut off, and does not send to the model again.
_CUT = frozenset(("error", "aborted"))


class PiReading(TreeReading[Record]):
    """The messages of a session, in order; `parent` says where a branch begins."""

    decoder = decoder
    record_type = Record

    def link(self, record: Record) -> tuple[str, str | None]:
        return ("", "") if record.type == SESSION else (record.id, record.parentId)

    def messages(self, record: Record, line: bytes) -> list[Message]:
        identity = record.id or derived_id(line.hex())
        if record.cortext is not None:
            return self._marked(record, record.cortext, identity)
        if record.type == MESSAGE and record.message is not None:
            return self._said(record, record.message, identity)
        if record.type == INJECTED:
            return self._injected(record, record.content, record.customType or "", identity)
        if record.type == BRANCH_SUMMARY:
            return [self._message(SYSTEM, record, identity, [], record.summary or "")]
        self._bookkeeping(record)
        return []

    def _bookkeeping(self, record: Record) -> None:
        is_known = record.type in BOOKKEEPING or record.type in (SESSION, TITLE, COMPACTION)
        note(self.counts.skipped if is_known else self.counts.unknown, record.type or "without type")
        if record.type == SESSION:
            self.about.project = self.about.project or record.cwd or ""
            self.about.created_at = self.about.created_at or moment(record.timestamp)
        elif record.type == TITLE:
            self.about.title = record.name or ""
        elif record.type == COMPACTION:
            self.about.summary = record.summary or ""

    # ── messages ─────────────────────────────────────────────────────────────────────────────────────

    def _said(self, record: Record, body: Body, identity: str) -> list[Message]:
        if body.role in ("user", "assistant", "toolResult"):
            message = self.literal(record, body, identity)
            return [self._typed(message)] if body.role == "user" else [message]
        if body.role == "bashExecution":  # a command that the user ran, with its output, for the model to read
            message = self._message(USER, record, identity, [], f"!{body.command or ''}\n{body.output or ''}")
            message.aside = bool(body.excludeFromContext)
            return [message]
        if body.role in ("custom", "hookMessage"):
            return self._injected(record, body.content, body.customType or "", identity)
        note(self.counts.skipped if body.role == "system" else self.counts.unknown, f"message/{body.role}")
        return []

    def _typed(self, message: Message) -> Message:
        """Return what the user typed: a command instead of its expansion. Our context block is an aside."""
        if is_resume_block(message.content):
            message.aside, message.extra = True, {"resume_block": True}
        elif command := typed_command(message.content):
            message.content = command
            message.parts = [part for part in message.parts or () if part.type != TEXT] or None
        if message.content.startswith("/workspace.") and not (message.aside or self.about.command):
            self.about.command = message.content.split(None, 1)[0]
        return message

    def _injected(self, record: Record, content: Content, origin: str, identity: str) -> list[Message]:
        """Return what an extension added for the model. Of ours, only the context block is kept, as an aside."""
        parts = self._parts(blocks_of(content), identity)
        message = self._message(USER, record, identity, parts, joined_text(parts))
        if is_resume_block(message.content):
            message.aside, message.extra = True, {"resume_block": True}
        elif origin == NAME:
            note(self.counts.skipped, "added by cortext")
            return []
        return [message]

    def literal(self, record: Record, body: Body, identity: str) -> Message:
        """Return a message of the user, the model or a tool, its texts unchanged."""
        parts = self._parts(blocks_of(body.content), identity)
        if body.role == "toolResult":
            call = body.toolCallId or ""
            output = "\n".join(part.text for part in parts if part.type == TEXT)
            name = self.calls.pop(call, "") or body.toolName or ""
            result = Part(TOOL_RESULT, call_id=call, name=name, output=output, is_error=bool(body.isError))
            return self._message(TOOL, record, identity, [result, *(part for part in parts if part.type == IMAGE)], "")
        message = self._message(USER, record, identity, parts, joined_text(parts))
        if body.role == "assistant":
            message.role, message.model = ASSISTANT, body.model or ""
            message.partial = body.stopReason in _CUT
            self.about.model = body.model or self.about.model
            if body.usage is not None:
                message.usage = body.usage
                count = body.usage.get("output")
                message.tokens = count if isinstance(count, int) else None
        return message

    def _parts(self, blocks: list[Block], identity: str) -> list[Part]:
        parts: list[Part] = []
        for number, block in enumerate(blocks):
            if block.type == "text":
                parts.append(Part(TEXT, text=block.text or ""))
            elif block.type == "thinking":
                parts.append(Part(THINKING, text=block.thinking or ""))
            elif block.type == "toolCall":
                name = block.name or ""
                parts.append(Part(TOOL_CALL, id=block.id or "", name=name, input=block.arguments))
                self.calls[block.id or ""] = name
                if name and name not in self.about.tools:
                    self.about.tools.append(name)
            elif block.type == "image":
                reference = f"{self.transcript.key}#{identity}/{number}"
                parts.append(Part(IMAGE, ref=reference, media_type=block.mimeType or ""))
            else:
                note(self.counts.unknown, f"block {block.type or 'without type'}")
                parts.append(Part(block.type or "unknown", text=block.text or ""))
        return parts

    # ── entries that we wrote ────────────────────────────────────────────────────────────────────────

    def _marked(self, record: Record, mark: RunMark, identity: str) -> list[Message]:
        """Return an entry that we wrote as the messages that it was made from."""
        if mark.added or record.message is None:
            note(self.counts.skipped, "added by cortext" if mark.added else WITHOUT_CONTENT)
            return []
        return self.restored(mark, self.literal(record, record.message, identity))

    def _message(self, role: str, record: Record, identity: str, parts: list[Part], content: str) -> Message:
        if len(parts) == 1 and parts[0].type == TEXT:
            parts = []
        return Message(role=role, content=content, timestamp=moment(record.timestamp), id=identity, parts=parts or None)
