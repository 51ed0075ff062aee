"""Read a session of Crush."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from cortext.model.message import (
    ASSISTANT,
    FILE,
    IMAGE,
    ROLES,
    TEXT,
    THINKING,
    TOOL_CALL,
    TOOL_RESULT,
    Message,
    Part,
)
from cortext.tools.base import Transcript
from cortext.tools.shared.building import MessageBuilder, is_error
from cortext.tools.shared.bundle import Piece
from cortext.tools.shared.documents import list_of, object_of
from cortext.tools.shared.lines import note
from cortext.tools.shared.rows import RowReading
from cortext.tools.shared.sqlite import text_of
from cortext.tools.shared.values import field, moment, word


class CrushReading(RowReading):
    """The messages of one session; those of its subagents are asides."""

    def __init__(self, transcript: Transcript, pieces: Iterable[Piece]) -> None:
        super().__init__(transcript, pieces)
        self._builder = MessageBuilder(self.about, self.counts)

    def __iter__(self) -> Iterator[Message]:
        yield from self.each(self.pieces(), self._messages)

    def _messages(self, piece: Piece) -> list[Message]:
        values = piece.values
        if piece.kind == "session":
            self.about.title = text_of(values.get("title"))
            self.about.created_at = moment(values.get("created_at"))
            return []
        content = list_of(text_of(values.get("parts")))
        if content is None or not all(isinstance(item, dict) for item in content):
            raise TypeError("the parts are not a list of objects")
        role, identity = text_of(values.get("role")), text_of(values.get("id"))
        if role not in ROLES:
            note(self.counts.unknown, f"message of role {role}")
            return []
        parts = [part for number, item in enumerate(content) for part in self._part(item, f"{identity}/{number}")]
        if values.get("is_summary_message"):
            self.about.summary = "\n\n".join(part.text for part in parts if part.type == TEXT)
            note(self.counts.skipped, "summary")
            return []
        model = text_of(values.get("model")) if role == ASSISTANT else ""
        self.about.model = model or self.about.model
        # A reply that Crush is still writing gets another id, because it will be different when it is finished.
        unfinished = role == ASSISTANT and not any(word(item, "type") == "finish" for item in content)
        return self._builder.messages(
            parts,
            role=role,
            identity=f"{identity}.unfinished" if unfinished else identity,
            timestamp=moment(values.get("created_at")),
            model=model,
            partial=unfinished,
            aside=text_of(values.get("session_id")) != self.transcript.key,
        )

    def _part(self, item: dict[str, Any], reference: str) -> Iterator[Part]:
        kind, data = word(item, "type"), field(item, "data")
        if kind == "text":
            if text := word(data, "text"):
                yield Part(TEXT, text=text)
        elif kind == "reasoning":
            if text := word(data, "thinking"):
                yield Part(THINKING, text=text)
        elif kind == "tool_call":
            arguments = word(data, "input")
            call = Part(TOOL_CALL, id=word(data, "id"), name=word(data, "name"))
            call.input = object_of(arguments) or arguments or None
            yield call
        elif kind == "tool_result":
            call_id, output = word(data, "tool_call_id"), word(data, "content")
            yield Part(TOOL_RESULT, call_id=call_id, name=word(data, "name"), output=output, is_error=is_error(data))
        elif kind == "image_url":
            yield Part(IMAGE, ref=word(data, "url"))
        elif kind == "binary":
            media, name = word(data, "MIMEType"), word(data, "Path")
            shown = IMAGE if media.startswith("image/") else FILE
            yield Part(shown, ref=f"{self.transcript.key}#{reference}", media_type=media, name=name)
        elif kind == "shell_command":
            yield Part(TEXT, text=f"$ {word(data, 'command')}\n{word(data, 'output')}")
        elif kind != "finish":
            note(self.counts.unknown, f"part {kind}" if kind else "part without type")
