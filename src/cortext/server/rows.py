"""Conversion of messages and sessions to rows and back.

A text column cannot hold NUL or an unpaired surrogate. For a value that contains one, the column holds a searchable
substitute, and the value itself is in the JSON beside it (`more`, `record`), where both are escaped.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cortext.io.jsonl import MAX_LINE
from cortext.model.message import Message, Part
from cortext.model.session import AgentConfig, Origin, Session
from cortext.store.files.lines import BadLine, decode_value, encode, encode_message

MESSAGE = "seq, id, role, said_at, tokens, content, more"
SESSION = (
    "session_id, record, created_at, last_active, message_count, token_count, straight, "
    "coalesce(held_until > now(), false)"
)
# The same columns in a join, where `s` is the session and `m` the message.
MESSAGE_OF_M = ", ".join(f"m.{name}" for name in MESSAGE.split(", "))
SESSION_OF_S = ", ".join(f"s.{name}" for name in SESSION.split(", ")[:7]) + ", coalesce(s.held_until > now(), false)"
SEARCHED = 100_000  # characters of a text that the server indexes
_MAX_INTEGER = 2**53
_MORE_FIELDS = ("model", "parts", "usage", "parent", "partial", "aside", "extra")
_RECORD_FIELDS = (
    "type", "title", "status", "created_at", "summary", "summary_covers", "summary_by", "agent", "agent_config",
    "origin", "extra",
)  # fmt: skip

MessageRow = tuple[str, str, str, int, str, str | None]


class _More(msgspec.Struct, omit_defaults=True):
    """The fields of a message that have no column, and values that their column cannot hold."""

    id: str | None = None
    role: str | None = None
    content: str | None = None
    tokens: int | None = None
    model: str = ""
    parts: list[Part] | None = None
    usage: dict[str, Any] | None = None
    parent: str = ""
    partial: bool = False
    aside: bool = False
    extra: dict[str, Any] | None = None


class _Record(msgspec.Struct):
    """The metadata of a session."""

    type: str = ""
    title: str = ""
    status: str = ""
    created_at: str = ""
    summary: str = ""
    summary_covers: int = 0
    summary_by: str = ""
    agent: str = ""
    agent_config: AgentConfig = msgspec.field(default_factory=AgentConfig)
    origin: Origin = msgspec.field(default_factory=Origin)
    extra: dict[str, Any] = {}


_more_decoder = msgspec.json.Decoder(_More)
_record_decoder = msgspec.json.Decoder(_Record)


def storable(text: str) -> str:
    """Return the text with replacement characters for what a text column cannot hold."""
    if "\0" not in text:
        if text.isascii():
            return text
        try:
            text.encode("utf-8")
            return text
        except UnicodeEncodeError:
            pass
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def hour_of(timestamp: str) -> str:
    """Return the hour of a timestamp. Lists are ordered by it first, because the index then seldom changes."""
    return timestamp[:13]


def key_of(message_id: str) -> str:
    """Return a message id in a form that a text column can hold; distinct ids stay distinct."""
    plain = storable(message_id)
    return plain if plain == message_id else "\ufffd" + ascii(message_id)


def to_row(message: Message) -> MessageRow:
    """Return a complete message (see files.log) as id, role, said_at, tokens, content, more; InvalidMessage."""
    tokens = message.tokens or 0
    fits_columns = not (
        message.parts is not None
        or message.usage is not None
        or message.extra is not None
        or message.model
        or message.parent
        or message.partial
        or message.aside
        or not 0 <= tokens < _MAX_INTEGER
    )
    content, key = storable(message.content), key_of(message.id)
    if fits_columns and content == message.content and key == message.id and len(content) < MAX_LINE // 6:
        return key, message.role, message.timestamp, tokens, content, None
    encode_message(message)  # raises InvalidMessage for what is too long or too deeply nested for any store
    more = {name: value for name in _MORE_FIELDS if (value := getattr(message, name))}
    more |= {name: {} for name in ("usage", "extra") if getattr(message, name) == {}}
    if message.parts is not None:
        more["parts"] = message.parts
    if not message.content:
        content = storable(message.text)[:SEARCHED]
    if content != message.content:
        more["content"] = message.content
    if key != message.id:
        more["id"] = message.id
    if not 0 <= tokens < _MAX_INTEGER:
        more["tokens"], tokens = tokens, 0
    return key, message.role, message.timestamp, tokens, content, encode(more).decode("utf-8")


def from_row(row: tuple[Any, ...]) -> Message:
    """Return the message of a row with the columns MESSAGE; BadLine if `more` cannot be decoded."""
    seq, key, role, said_at, tokens, content, encoded = row
    if encoded is None:
        return Message(role=role, content=content, timestamp=said_at, tokens=tokens, id=key, seq=seq)
    more = _decoded(encoded, _more_decoder, _More)
    return Message(
        role=role,
        content=content if more.content is None else more.content,
        timestamp=said_at,
        tokens=tokens if more.tokens is None else more.tokens,
        id=key if more.id is None else more.id,
        seq=seq,
        model=more.model,
        parts=more.parts,
        usage=more.usage,
        parent=more.parent,
        partial=more.partial,
        aside=more.aside,
        extra=more.extra,
    )


def record_of(session: Session) -> str:
    """Return the metadata as JSON."""
    return encode({name: getattr(session, name) for name in _RECORD_FIELDS}).decode("utf-8")


def record_error(record: str) -> str:
    """Return why this metadata cannot be decoded; empty if it can."""
    try:
        _decoded(record, _record_decoder, _Record)
    except BadLine as error:
        return str(error)
    return ""


def columns_of(session: Session) -> tuple[str, ...]:
    """Return the columns that a change of metadata writes: record, type, title, status, agent, tool, summary."""
    texts = (session.type, session.title, session.status, session.agent, session.origin.tool, session.summary)
    return (record_of(session), *(storable(text) for text in texts))


def session_from(row: tuple[Any, ...], *, store: str, path: str, leased: bool) -> Session:
    """Return the session of a row with the columns SESSION. Unreadable metadata counts as damage, not as an error."""
    session_id, record, created_at, last_active, count, tokens, straight, held = row
    damage = 0
    try:
        found = _decoded(record, _record_decoder, _Record)
    except BadLine:
        found, damage = _Record(), 1
    return Session(
        id=session_id,
        **{name: getattr(found, name) for name in _RECORD_FIELDS if name != "created_at"},
        created_at=found.created_at or created_at,
        last_active=last_active,
        message_count=count,
        token_count=tokens,
        is_linear=straight,
        store=store,
        path=path,
        damage=damage,
        leased=held if leased else None,
    )


def _decoded(text: str, decoder: Any, kind: Any) -> Any:
    try:
        return decoder.decode(text)
    except msgspec.DecodeError:
        pass  # an unpaired surrogate, which only the lenient decoder accepts
    try:
        return msgspec.convert(decode_value(text.encode("utf-8")), kind)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise BadLine(str(error)) from error
