"""Read a conversation of llm."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
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
    USER,
    Message,
    Part,
)
from cortext.tools.base import Transcript
from cortext.tools.shared.building import MessageBuilder
from cortext.tools.shared.bundle import Piece
from cortext.tools.shared.lines import note
from cortext.tools.shared.rows import RowReading
from cortext.tools.shared.sqlite import text_of
from cortext.tools.shared.values import Object, field, moment, object_of, objects, word

Row = dict[str, Any]


class LlmReading(RowReading):
    """The messages of one conversation."""

    def __init__(self, transcript: Transcript, pieces: Iterable[Piece]) -> None:
        super().__init__(transcript, pieces)
        self._fragments: dict[int, str] = {}
        self._attachments: dict[str, Row] = {}
        self._turns: dict[str, Row] = {}  # by the message that ends it, or that it answers

    def __iter__(self) -> Iterator[Message]:
        kinds = set()
        for (kind, identity), group in groupby(self.pieces(), _group):
            rows = [piece.values for piece in group]
            if kind == "part":
                if kind not in kinds and rows[0].get("parent_hash") is not None:
                    self.damaged("missing messages", f"what was said before {identity}")
                yield from self.each([(identity, rows)], lambda found: self._messages(*found))
            elif kind == "response":
                yield from self.each(rows, lambda row: messages_of(row, self.builder))
            else:
                self._remember(kind, rows)
            kinds.add(kind)
        if "turn" in kinds and "part" not in kinds:
            self.damaged("missing messages", "the last message is not there, which names all others")

    def _remember(self, kind: str, rows: list[Row]) -> None:
        for row in rows:
            if kind == "thread":
                self.about.title = text_of(row.get("name"))
            elif kind == "fragment":
                self._fragments[row["id"]] = text_of(row.get("content"))
            elif kind == "attachment":
                self._attachments[text_of(row.get("id"))] = row
            elif kind == "turn":
                self._turns.setdefault(text_of(row.get("parent_message_hash")), row)
                self._turns[text_of(row.get("tip_message_hash"))] = row
                self.about.model = text_of(row.get("resolved_model")) or text_of(row.get("model"))

    def _messages(self, identity: str, rows: list[Row]) -> list[Message]:
        role = text_of(rows[0].get("role"))
        if role not in ROLES:
            note(self.counts.unknown, f"message of role {role}")
            return []
        turn = self._turns.get(identity, {})
        answered = role == ASSISTANT
        usage = {name: turn[name] for name in ("input_tokens", "output_tokens") if isinstance(turn.get(name), int)}
        parts = [part for number, row in enumerate(rows) for part in self._part(row, f"{identity}/{number}")]
        return self.builder.messages(
            parts,
            role=role,
            identity=identity,
            timestamp=moment(turn.get("datetime_utc")),
            model=(text_of(turn.get("resolved_model")) or text_of(turn.get("model"))) if answered else "",
            usage=(usage or None) if answered else None,
        )

    def _part(self, row: Row, reference: str) -> Iterator[Part]:
        kind, payload = text_of(row.get("type")), row.get("payload")
        values = {} if payload is None else object_of(text_of(payload))
        if values is None:
            raise ValueError("the payload is not an object")
        if kind in ("text", "reasoning"):
            text = text_of(row.get("text")) or self._resolved(values)
            if text:
                yield Part(TEXT if kind == "text" else THINKING, text=text)
        elif kind == "tool_call":
            yield Part(
                TOOL_CALL,
                id=word(values, "tool_call_id"),
                name=word(values, "name"),
                input=field(values, "arguments"),
            )
        elif kind == "tool_result":
            output = word(values, "output") or self._resolved(values)
            call, name = word(values, "tool_call_id"), word(values, "name")
            is_error = bool(field(values, "exception"))
            yield Part(TOOL_RESULT, call_id=call, name=name, output=output, is_error=is_error)
            for attached in objects(values, "attachments"):
                yield self._attachment(attached, reference)
        elif kind == "attachment":
            yield self._attachment(field(values, "attachment"), reference)
        elif row.get("message_hash") is not None:  # else a message without any part
            note(self.counts.unknown, f"part {kind or 'without a type'}")

    def _resolved(self, values: Object) -> str:
        """Return a text that borrows from fragments: files or pages that were given with a prompt."""
        found = []
        for name in ("text_ref", "output_ref"):
            for piece in objects(values, name):
                number = field(piece, "fragment")
                found.append(self._fragments.get(number, "") if isinstance(number, int) else word(piece, "literal"))
        return "".join(found)

    def _attachment(self, attached: Any, reference: str) -> Part:
        row = self._attachments.get(word(attached, "id"), {})
        media = text_of(row.get("type"))
        where = text_of(row.get("path")) or text_of(row.get("url")) or reference
        return Part(IMAGE if media.startswith("image/") else FILE, ref=where, media_type=media)


def _group(piece: Piece) -> tuple[str, str]:
    """Return what the pieces of one record have in common: a message is a row for each of its parts."""
    return piece.kind, text_of(piece.values.get("hash")) if piece.kind == "part" else ""


def messages_of(values: dict[str, Any], builder: MessageBuilder) -> Iterator[Message]:
    """Yield the results and the prompt that were sent, and the answer."""
    identity = text_of(values.get("id"))
    when = moment(values.get("datetime_utc"))
    results = [
        Part(TOOL_RESULT, call_id=_text(row, "tool_call_id"), name=_text(row, "name"), output=_text(row, "output"))
        for row in objects(values, "results")
    ]
    asked = [*(_text(row, "content") for row in objects(values, "fragments")), _text(values, "prompt")]
    texts = [Part(TEXT, text=text) for text in asked if text]
    yield from builder.messages([*results, *texts], role=USER, identity=f"{identity}/prompt", timestamp=when)
    said = [
        Part(kind, text=text)
        for kind, text in ((THINKING, _text(values, "reasoning")), (TEXT, _text(values, "response")))
        if text
    ]
    for row in objects(values, "calls"):
        arguments = _text(row, "arguments")
        call = Part(TOOL_CALL, id=_text(row, "tool_call_id"), name=_text(row, "name"))
        call.input = object_of(arguments) or arguments or None
        said.append(call)
    usage = {name: values[name] for name in ("input_tokens", "output_tokens") if isinstance(values.get(name), int)}
    model = _text(values, "resolved_model") or _text(values, "model")
    builder.about.model = model or builder.about.model
    yield from builder.messages(
        said, role=ASSISTANT, identity=identity, timestamp=when, model=model, usage=usage or None
    )


def _text(values: dict[str, Any], name: str) -> str:
    return text_of(values.get(name))
