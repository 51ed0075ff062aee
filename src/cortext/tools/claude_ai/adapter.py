"""The adapter for Claude.ai: the archive of `Settings → Privacy → Export data`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from cortext.model.message import ASSISTANT, BEGINNING, FILE, TEXT, USER, Message, Part
from cortext.tools.base import Transcript, TranscriptReading
from cortext.tools.shared.exports import ExportTool
from cortext.tools.shared.lines import note
from cortext.tools.shared.reading import WholeReading
from cortext.tools.shared.values import Object, field, milliseconds, moment, object_of, objects, salvaged, word

_ROLES = {"human": USER, "user": USER, "assistant": ASSISTANT}


class _Head(msgspec.Struct):
    uuid: str
    chat_messages: msgspec.Raw
    updated_at: str = ""
    created_at: str = ""


class ClaudeAi(ExportTool):
    """The adapter for exports of Claude.ai; it only reads."""

    name = "claude-ai"
    title = "Claude.ai"
    decoder = msgspec.json.Decoder(_Head)
    marker = b'"chat_messages"'
    key_pattern = rb'"uuid"\s*:\s*"([^"\\]{1,100})"'

    def identity(self, head: _Head) -> tuple[str, int] | None:
        """Return the id of a conversation and when it was changed."""
        return head.uuid, milliseconds(head.updated_at or head.created_at)

    def reading(self, transcript: Transcript, data: bytes) -> TranscriptReading:
        """Return the messages of one conversation."""
        return ClaudeAiReading(transcript, data)


class ClaudeAiReading(WholeReading):
    """The messages of one conversation."""

    def __init__(self, transcript: Transcript, data: bytes) -> None:
        super().__init__(transcript)
        self._data = data
        self._ends: dict[str, str] = {}  # message: the last of those that we made of it
        self._last = ""

    def __iter__(self) -> Iterator[Message]:
        conversation = object_of(self._data)
        if conversation is None:
            self.damaged("conversation", self.transcript.key)
            found: list[Any] = list(salvaged(self._data, lambda value: "sender" in value))
        else:
            self.about.title = word(conversation, "name")
            self.about.created_at = moment(conversation.get("created_at"))
            self.about.summary = word(conversation, "summary")
            self.about.model = word(conversation, "model")
            listed = conversation.get("chat_messages")
            if not isinstance(listed, list):
                self.damaged("conversation", self.transcript.key)
                listed = []
            found = listed
        yield from self.each(found, self._messages)

    def _messages(self, record: Any) -> list[Message]:
        if not isinstance(record, dict):
            raise TypeError
        role = _ROLES.get(word(record, "sender"))
        if role is None:
            note(self.counts.unknown, f"message of {word(record, 'sender') or 'nobody'}")
            return []
        text = word(record, "text")
        identity = word(record, "uuid") or self.builder.identity(self.transcript.key, role, text)
        content = _with_call_ids(objects(record, "content"), identity)
        parts = self.builder.parts(content, f"{self.transcript.key}#{identity}")
        if not parts and text:
            parts = [Part(TEXT, text=text)]
        made = self.builder.messages(
            [*parts, *_files(record)],
            role=role,
            identity=identity,
            timestamp=moment(record.get("created_at")),
            parent=self._parent(word(record, "parent_message_uuid")),
        )
        self._ends[identity] = made[-1].id if made else self._last
        self._last = self._ends[identity]
        return made

    def _parent(self, parent: str) -> str:
        """Return the message that the next one follows, if that is not the previous one."""
        if not parent:
            return ""
        before = self._ends.get(parent, "")
        return "" if before == self._last else before or BEGINNING


def _with_call_ids(blocks: list[Object], identity: str) -> list[Object]:
    """Return the blocks with an id for each call, which older exports lack: a result follows its call there."""
    latest = ""
    found = []
    for number, block in enumerate(blocks):
        if word(block, "type") == "tool_use":
            latest = word(block, "id") or f"{identity}/call{number}"
            found.append({**block, "id": latest})
        elif word(block, "type") == "tool_result":
            found.append({**block, "tool_use_id": word(block, "tool_use_id") or latest})
        else:
            found.append(block)
    return found


def _files(record: Object) -> Iterator[Part]:
    """Yield what the user attached: with its text, if Claude.ai extracted it."""
    names = set()
    for file in objects(record, "attachments"):
        names.add(word(file, "file_name"))
        media = word(file, "file_type")
        yield Part(FILE, name=word(file, "file_name"), media_type=media, text=word(file, "extracted_content"))
    for file in objects(record, "files"):
        if word(file, "file_name") not in names:
            yield Part(FILE, name=word(file, "file_name"), ref=str(field(file, "file_uuid") or ""))
