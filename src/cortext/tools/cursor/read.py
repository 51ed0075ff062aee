"""Read a conversation of Cursor: its record, and the messages, which Cursor calls bubbles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from cortext.model.message import ASSISTANT, IMAGE, TEXT, THINKING, TOOL_CALL, TOOL_RESULT, USER, Message, Part
from cortext.tools.base import Transcript
from cortext.tools.shared.bundle import Piece
from cortext.tools.shared.lines import derived_id, note
from cortext.tools.shared.rows import RowReading
from cortext.tools.shared.sqlite import text_of
from cortext.tools.shared.values import field, moment, object_of, objects, word

_ROLES = {1: USER, 2: ASSISTANT, "user": USER, "ai": ASSISTANT}
_FAILED = ("error", "cancelled", "rejected")


class CursorReading(RowReading):
    """The messages of one conversation."""

    def __init__(self, transcript: Transcript, pieces: Iterable[Piece]) -> None:
        super().__init__(transcript, pieces)
        self._is_generating = False
        self._growing: set[str] = set()  # the ids of messages that are being written, as far as Cursor names them

    def __iter__(self) -> Iterator[Message]:
        yield from self.each(_with_last(self._bubbles()), self._messages)

    def _bubbles(self) -> Iterator[dict[str, Any]]:
        """Yield the messages as Cursor stores them: in rows of their own or, in older versions, in the record."""
        for number, (kind, values) in enumerate(self.pieces()):
            value = text_of(values.get("value"))
            record = object_of(value)
            if record is None:
                self.damaged("not JSON" if value else "empty", f"{kind} {text_of(values.get('key')) or number}")
            elif kind == "message":
                yield record
            else:
                self._fill_about(record)
                self._fill_state(record)
                yield from objects(record, "conversation") or objects(record, "bubbles")

    def _fill_about(self, record: dict[str, Any]) -> None:
        self.about.title = word(record, "name") or word(record, "chatTitle")
        self.about.created_at = moment(field(record, "createdAt"))
        model = word(record, "modelConfig", "modelName")
        self.about.model = "" if model == "default" else model
        self.about.summary = word(record, "latestConversationSummary", "summary", "summary")

    def _fill_state(self, record: dict[str, Any]) -> None:
        self._is_generating = word(record, "status") == "generating"
        named = record.get("generatingBubbleIds")
        self._growing = {name for name in named if isinstance(name, str)} if isinstance(named, list) else set()

    def _messages(self, bubble_and_last: tuple[dict[str, Any], bool]) -> list[Message]:
        bubble, is_last = bubble_and_last
        kind = bubble.get("type")
        role = _ROLES.get(kind) if isinstance(kind, int | str) else None
        if role is None:
            note(self.counts.unknown, f"message of type {kind}")
            return []
        identity = word(bubble, "bubbleId") or word(bubble, "id")
        text = word(bubble, "text") or word(bubble, "rawText")
        identity = identity or self.builder.identity(self.transcript.key, role, text)
        # A reply that Cursor is still writing gets another id, because it will be different when it is finished.
        unfinished = role == ASSISTANT and (identity in self._growing or (is_last and self._is_generating))
        usage = field(bubble, "tokenCount")
        made = self.builder.messages(
            list(_parts(bubble, text, f"{self.transcript.key}#{identity}")),
            role=role,
            identity=f"{identity}.unfinished" if unfinished else identity,
            partial=unfinished,
            timestamp=moment(bubble.get("createdAt")) or moment(field(bubble, "timingInfo", "clientRpcSendTime")),
            model=word(bubble, "modelInfo", "modelName") or word(bubble, "modelType") if role == ASSISTANT else "",
            usage=usage if isinstance(usage, dict) and any(usage.values()) else None,
        )
        if not made:
            note(self.counts.skipped, "without content")
        return made


def _with_last(bubbles: Iterable[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yield each message, and whether it is the last one."""
    previous = None
    for bubble in bubbles:
        if previous is not None:
            yield previous, False
        previous = bubble
    if previous is not None:
        yield previous, True


def _parts(bubble: dict[str, Any], text: str, reference: str) -> Iterator[Part]:
    if thinking := word(bubble, "thinking", "text") or word(bubble, "thinking"):
        yield Part(THINKING, text=thinking)
    if text:
        yield Part(TEXT, text=text)
    for number, _ in enumerate(objects(bubble, "images")):
        yield Part(IMAGE, ref=f"{reference}/{number}")
    call = field(bubble, "toolFormerData")
    name = word(call, "name")
    if not name:
        return
    identity = word(call, "toolCallId") or derived_id(reference)
    arguments = word(call, "rawArgs") or word(call, "params")
    yield Part(TOOL_CALL, id=identity, name=name, input=object_of(arguments) or arguments or None)
    result, status = word(call, "result"), word(call, "status")
    if result or status in ("completed", *_FAILED):
        shown = object_of(result)
        output = word(shown, "output") or word(shown, "contents") or result
        yield Part(TOOL_RESULT, call_id=identity, name=name, output=output, is_error=status in _FAILED)
