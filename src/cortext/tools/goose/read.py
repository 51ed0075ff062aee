"""Read a session of Goose, from its database or from a file of lines: the content of a message is the same in both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from cortext.model.message import ASSISTANT, IMAGE, TEXT, THINKING, TOOL_CALL, TOOL_RESULT, USER, Message, Part
from cortext.tools.base import About, Counts, Transcript
from cortext.tools.shared.building import MessageBuilder, is_error, output_of
from cortext.tools.shared.bundle import Piece
from cortext.tools.shared.documents import list_of, object_of
from cortext.tools.shared.lines import concatenated_values, note
from cortext.tools.shared.rows import RowReading
from cortext.tools.shared.sqlite import text_of
from cortext.tools.shared.values import field, moment, word

_ROLES = {"user": USER, "assistant": ASSISTANT}
_SKIPPED = (
    *("redactedThinking", "toolConfirmationRequest", "actionRequired", "systemNotification"),
    *("contextLengthExceeded", "summarizationRequested", "conversationCompacted"),
)


class GooseReading(RowReading):
    """The messages of one session in the database."""

    def __init__(self, transcript: Transcript, pieces: Iterable[Piece]) -> None:
        super().__init__(transcript, pieces)
        self._builder = GooseBuilder(transcript.key, self.about, self.counts)

    def __iter__(self) -> Iterator[Message]:
        yield from self.each(self._records(), self._messages)

    def _records(self) -> Iterator[Piece]:
        """Yield rows, and the records of lines in the same form: a line may have two."""
        for number, piece in enumerate(self.pieces()):
            if piece.kind != "line":
                yield piece
                continue
            values, is_complete = concatenated_values(text_of(piece.values.get("text")).encode("utf-8", "replace"))
            for value in values:
                if isinstance(value, dict):
                    yield Piece("record", value)
                else:
                    self.damaged("unexpected shape", f"line {number + 1}")
            if not is_complete:
                self.damaged("not JSON", f"line {number + 1}")

    def _messages(self, piece: Piece) -> list[Message]:
        return {"session": self._session, "message": self._row, "record": self._record}[piece.kind](piece.values)

    def _session(self, values: dict[str, Any]) -> list[Message]:
        self.about.title = text_of(values.get("name")) or text_of(values.get("description"))
        self.about.created_at = moment(text_of(values.get("created_at")))
        self.about.model = word(object_of(text_of(values.get("model_config_json"))), "model_name")
        return []

    def _row(self, values: dict[str, Any]) -> list[Message]:
        tokens = values.get("tokens")
        return self._builder.record(
            role=text_of(values.get("role")),
            content=list_of(text_of(values.get("content_json"))),
            identity=text_of(values.get("message_id")) or f"{self.transcript.key}#{values.get('id')}",
            created=values.get("created_timestamp"),
            metadata=object_of(text_of(values.get("metadata_json"))),
            tokens=tokens if isinstance(tokens, int) else None,
        )

    def _record(self, values: dict[str, Any]) -> list[Message]:
        if "description" in values and "role" not in values:
            return self._session(values)
        role, content, created = word(values, "role"), values.get("content"), values.get("created")
        return self._builder.record(
            role=role,
            content=content,
            identity=word(values, "id")
            or self._builder.identity(self.transcript.key, role, str(created), str(content)),
            created=created,
            metadata=values.get("metadata"),
        )


class GooseBuilder(MessageBuilder):
    """Builds the messages of a session."""

    def __init__(self, key: str, about: About, counts: Counts) -> None:
        super().__init__(about, counts)
        self._key = key

    def record(
        self, *, role: str, content: Any, identity: str, created: Any, metadata: Any, tokens: int | None = None
    ) -> list[Message]:
        """Return the messages of one record; raise TypeError if its content is not a list of objects."""
        if role not in _ROLES:
            note(self.counts.unknown, f"message of role {role}" if role else "without role")
            return []
        if not isinstance(content, list) or not all(isinstance(item, dict) for item in content):
            raise TypeError("the content is not a list of objects")
        parts = [part for number, item in enumerate(content) for part in self._part(item, f"{identity}/{number}")]
        if field(metadata, "userVisible") is False:  # what Goose tells the model after a compaction
            self.about.summary = "\n\n".join(part.text for part in parts if part.type == TEXT) or self.about.summary
            note(self.counts.skipped, "compacted context")
            return []
        return self.messages(parts, role=_ROLES[role], identity=identity, timestamp=moment(created), tokens=tokens)

    def _part(self, item: dict[str, Any], reference: str) -> Iterator[Part]:
        kind, identity = word(item, "type"), word(item, "id")
        if kind == "text":
            yield Part(TEXT, text=word(item, "text"))
        elif kind in ("thinking", "reasoning"):
            yield Part(THINKING, text=word(item, "thinking") or word(item, "text"))
        elif kind == "image":
            yield Part(IMAGE, ref=f"{self._key}#{reference}", media_type=word(item, "mimeType"))
        elif kind in ("toolRequest", "frontendToolRequest"):
            call = field(item, "toolCall", "value")
            name = word(call, "name") or word(item, "toolCall", "error")
            yield Part(TOOL_CALL, id=identity, name=name, input=field(call, "arguments"))
        elif kind == "toolResponse":
            result = field(item, "toolResult")
            value = field(result, "value")
            output, images = output_of(field(value, "content") if isinstance(value, dict) else value, reference)
            failed = word(result, "status") == "error" or is_error(value)
            yield Part(TOOL_RESULT, call_id=identity, output=output or word(result, "error"), is_error=failed)
            yield from images
        elif kind in _SKIPPED:
            note(self.counts.skipped, kind)
        else:
            note(self.counts.unknown, f"part {kind}" if kind else "part without type")
