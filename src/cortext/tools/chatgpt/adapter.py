"""The adapter for ChatGPT: the archive of `Settings → Data controls → Export data`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from cortext.model.message import (
    ASSISTANT,
    BEGINNING,
    FILE,
    IMAGE,
    TEXT,
    THINKING,
    TOOL_CALL,
    TOOL_RESULT,
    USER,
    Message,
    Part,
)
from cortext.tools.base import Transcript, TranscriptReading
from cortext.tools.shared.exports import ExportTool
from cortext.tools.shared.lines import note
from cortext.tools.shared.reading import WholeReading
from cortext.tools.shared.values import Object, field, milliseconds, moment, object_of, objects, salvaged, word

_ROLES = {"user": USER, "assistant": ASSISTANT, "tool": ASSISTANT}  # a tool's words are results, or images
_SKIPPED = ("reasoning_recap", "user_editable_context", "model_editable_context", "app_pairing_content")
_POINTERS = ("image_asset_pointer", "audio_asset_pointer", "video_container_asset_pointer")


class _Head(msgspec.Struct):
    """What the list needs; the rest of a conversation may be many megabytes."""

    mapping: msgspec.Raw
    conversation_id: str | None = None
    id: str | None = None
    update_time: Any = None
    create_time: Any = None


class ChatGpt(ExportTool):
    """The adapter for exports of ChatGPT; it only reads."""

    name = "chatgpt"
    title = "ChatGPT"
    decoder = msgspec.json.Decoder(_Head)
    marker = b'"mapping"'
    key_pattern = rb'"conversation_id"\s*:\s*"([^"\\]{1,100})"'

    def identity(self, head: _Head) -> tuple[str, int] | None:
        """Return the id of a conversation and when it was changed; None if it has no id."""
        key = head.conversation_id or head.id or ""
        return (key, milliseconds(head.update_time or head.create_time)) if key else None

    def reading(self, transcript: Transcript, data: bytes) -> TranscriptReading:
        """Return the messages of one conversation."""
        return ChatGptReading(transcript, data)


class ChatGptReading(WholeReading):
    """The messages of one conversation."""

    def __init__(self, transcript: Transcript, data: bytes) -> None:
        super().__init__(transcript)
        self._data = data
        self._calls: dict[str, str] = {}  # node: the call that it made, or that it is the result of
        self._ends: dict[str, str] = {}  # node: the last message up to it
        self._last = ""

    def __iter__(self) -> Iterator[Message]:
        conversation = object_of(self._data)
        nodes: dict[str, Object] = {}
        if conversation is None:
            self.damaged("conversation", self.transcript.key)
            nodes = {word(node, "id"): node for node in salvaged(self._data, _is_node)}
        else:
            self._fill_about(conversation)
            mapping = field(conversation, "mapping")
            if not isinstance(mapping, dict):
                self.damaged("conversation", self.transcript.key)
                mapping = {}
            for name, node in mapping.items():
                if isinstance(node, dict) and _is_node(node):
                    nodes[name] = node
                else:
                    self.damaged("unexpected shape", f"node {name}")
        current = word(conversation, "current_node") or _latest(nodes)
        yield from self.each(in_order(nodes, current), self._messages)

    def _fill_about(self, conversation: Object) -> None:
        self.about.title = word(conversation, "title")
        self.about.created_at = moment(conversation.get("create_time"))
        self.about.model = word(conversation, "default_model_slug")

    def _messages(self, node: Object) -> list[Message]:
        identity, parent = word(node, "id"), word(node, "parent")
        before = self._ends.get(parent, BEGINNING)
        self._ends[identity] = before
        message = node.get("message")
        if not isinstance(message, dict):
            note(self.counts.skipped, "without message")
            return []
        made = self.builder.messages(
            self._parts(message, identity, parent),
            role=_ROLES.get(word(message, "author", "role"), USER),
            identity=identity,
            timestamp=moment(message.get("create_time")),
            model=word(message, "metadata", "model_slug"),
        )
        if made:
            # A message names the one that it follows if that is not the previous one.
            made[0].parent = "" if before == (self._last or BEGINNING) else before
            self._last = self._ends[identity] = made[-1].id
        return made

    def _parts(self, message: Object, identity: str, parent: str) -> list[Part]:
        role, kind = word(message, "author", "role"), word(message, "content", "content_type")
        if role == "system" or field(message, "metadata", "is_visually_hidden_from_conversation") is True:
            note(self.counts.skipped, "system message" if role == "system" else "hidden message")
        elif role not in _ROLES:
            note(self.counts.unknown, f"message of role {role}")
        elif kind in _SKIPPED:
            note(self.counts.skipped, kind)
        elif kind == "thoughts":
            thoughts = (word(thought, "content") for thought in objects(message, "content", "thoughts"))
            return [Part(THINKING, text="\n\n".join(thought for thought in thoughts if thought))]
        else:
            found = self._content(field(message, "content"), kind, f"{self.transcript.key}#{identity}")
            if role == "tool":
                return self._result(found, identity, parent, word(message, "author", "name"))
            recipient = word(message, "recipient")
            if role == "assistant" and recipient not in ("", "all"):
                self._calls[identity] = identity
                words = "\n".join(part.text for part in found)
                return [Part(TOOL_CALL, id=identity, name=recipient, input=object_of(words) or {"input": words})]
            return [*found, *_attachments(message)]
        return []

    def _content(self, content: Any, kind: str, reference: str) -> list[Part]:
        """Return the parts of a message's content; none if it is of an unknown kind."""
        if kind in ("text", "multimodal_text"):
            pieces = field(content, "parts")
            numbered = enumerate(pieces if isinstance(pieces, list) else ())
            return [part for number, piece in numbered for part in self._piece(piece, f"{reference}/{number}")]
        if kind in ("code", "execution_output", "tether_quote", "system_error"):
            return [Part(TEXT, text=text) for text in (word(content, "text"),) if text]
        if kind == "tether_browsing_display":
            return [Part(TEXT, text=text) for text in (word(content, "result") or word(content, "summary"),) if text]
        note(self.counts.unknown, f"content {kind}" if kind else "without content type")
        return []

    def _piece(self, piece: Any, reference: str) -> Iterator[Part]:
        kind = word(piece, "content_type")
        if isinstance(piece, str):
            if piece:
                yield Part(TEXT, text=piece)
        elif kind in _POINTERS:
            image = kind == "image_asset_pointer"
            yield Part(IMAGE if image else FILE, ref=word(piece, "asset_pointer") or reference)
        elif kind == "audio_transcription":
            yield Part(TEXT, text=word(piece, "text"))
        elif kind == "real_time_user_audio_video_asset_pointer":
            note(self.counts.skipped, kind)  # the words are in a transcription beside it
        elif text := word(piece, "text"):
            yield Part(TEXT, text=text)
        else:
            note(self.counts.unknown, f"part {kind}" if kind else "part without type")

    def _result(self, found: list[Part], identity: str, parent: str, name: str) -> list[Part]:
        call = self._calls.get(parent, "")
        self._calls[identity] = call  # a second message of the tool answers the same call
        texts = [part.text for part in found if part.type == TEXT]
        output = "\n".join(texts)
        result = [Part(TOOL_RESULT, call_id=call, name=name, output=output)] if texts or call else []
        return [*result, *(part for part in found if part.type != TEXT)]


def in_order(nodes: dict[str, Object], current: str) -> Iterator[Object]:
    """Yield the nodes, each after its parent, and those of the current branch last."""
    shown: set[str] = set()
    while current in nodes and current not in shown:
        shown.add(current)
        current = word(nodes[current], "parent")
    children: dict[str, list[str]] = {}
    for name, node in nodes.items():
        parent = word(node, "parent")
        children.setdefault(parent if parent in nodes else "", []).append(name)
    done: set[str] = set()
    for start in (*sorted(children.get("", ()), key=lambda name: name in shown), *nodes):
        waiting = [start]  # a stack: a conversation may be deeper than Python's own
        while waiting:
            name = waiting.pop()
            if name in done:
                continue
            done.add(name)
            yield {**nodes[name], "id": name}
            following = sorted(children.get(name, ()), key=lambda child: child in shown)
            waiting.extend(reversed(following))


def _is_node(value: Object) -> bool:
    return "message" in value and ("parent" in value or "children" in value)


def _latest(nodes: dict[str, Object]) -> str:
    """Return the newest node: the end of the conversation, if a damaged one does not say where it is."""

    def time(name: str) -> float:
        found = field(nodes[name], "message", "create_time")
        return found if isinstance(found, int | float) else 0.0

    return max(nodes, key=time, default="")


def _attachments(message: Object) -> Iterator[Part]:
    """Yield the files that the user attached, without the images that are parts of the message."""
    shown = json.dumps(field(message, "content", "parts"))
    for file in objects(message, "metadata", "attachments"):
        identity = word(file, "id")
        if not identity or identity not in shown:
            yield Part(FILE, ref=identity, name=word(file, "name"), media_type=word(file, "mime_type"))
