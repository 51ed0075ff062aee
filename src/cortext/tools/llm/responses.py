"""The tables that llm used before 0.36: one row for each answer, with the prompt in it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

from cortext.model.message import ASSISTANT, TEXT, THINKING, TOOL_CALL, TOOL_RESULT, USER, Message, Part
from cortext.tools.shared.building import MessageBuilder
from cortext.tools.shared.bundle import Piece
from cortext.tools.shared.documents import object_of
from cortext.tools.shared.rows import query
from cortext.tools.shared.sqlite import columns, text_of
from cortext.tools.shared.values import moment, objects

_FRAGMENTS = """
SELECT fragments.content FROM prompt_fragments JOIN fragments ON fragments.id = prompt_fragments.fragment_id
WHERE prompt_fragments.response_id = ? ORDER BY prompt_fragments."order"
"""


def rows(database: sqlite3.Connection, key: str) -> Iterator[Piece]:
    """Yield the rows of one conversation: each answer with what belongs to it in other tables."""
    yield from query(database, "thread", "SELECT id, name FROM conversations WHERE id = ?", (key,))
    others = {
        name: sql
        for name, table, sql in (
            ("calls", "tool_calls", "SELECT tool_call_id, name, arguments FROM tool_calls WHERE response_id = ?"),
            ("results", "tool_results", "SELECT tool_call_id, name, output FROM tool_results WHERE response_id = ?"),
            ("fragments", "prompt_fragments", _FRAGMENTS),
        )
        if columns(database, table)
    }
    answers = "SELECT * FROM responses WHERE conversation_id = ? ORDER BY datetime_utc, id"
    for _, values in query(database, "response", answers, (key,)):
        values.pop("response_json", None)  # the provider's form of what the other columns have
        for name, sql in others.items():
            values[name] = [piece.values for piece in query(database, name, sql, (values["id"],))]
        yield Piece("response", values)


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
