"""Messages and sessions as rows, both ways.

A row of text has no room for a NUL or half a character pair. Where a value has one, the column holds what can be
searched, and the value itself stands in the JSON beside it (`more`, `record`), where both are escapes.
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
SEARCHED = 100_000  # characters of a text that the server's index takes in
_LARGEST = 2**53
_BEYOND = ("model", "parts", "usage", "parent", "partial", "aside", "extra")
_STORED = (
    "type", "title", "status", "created_at", "summary", "summary_covers", "summary_by", "agent", "agent_config",
    "origin", "extra",
)  # fmt: skip

MessageRow = tuple[str, str, str, int, str, str | None]


class _More(msgspec.Struct, omit_defaults=True):
    """What a message has beyond the columns, or in place of them."""

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


_more = msgspec.json.Decoder(_More)
_record = msgspec.json.Decoder(_Record)


def storable(text: str) -> str:
    """The text as a column can hold it: the same, or with marks in place of what cannot be there."""
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
    """The hour of a moment: lists are ordered by it first, because the index then seldom changes."""
    return timestamp[:13]


def key_of(message_id: str) -> str:
    """The id of a message as a column can hold it: never the same for two ids."""
    plain = storable(message_id)
    return plain if plain == message_id else "\ufffd" + ascii(message_id)


def to_row(message: Message) -> MessageRow:
    """A whole message (see log.complete) as id, role, said_at, tokens, content, more; InvalidMessage."""
    tokens = message.tokens or 0
    plain = not (
        message.parts is not None
        or message.usage is not None
        or message.extra is not None
        or message.model
        or message.parent
        or message.partial
        or message.aside
        or not 0 <= tokens < _LARGEST
    )
    content, key = storable(message.content), key_of(message.id)
    if plain and content == message.content and key == message.id and len(content) < MAX_LINE // 6:
        return key, message.role, message.timestamp, tokens, content, None
    encode_message(message)  # refuses what is too long or too deep for a line of any store
    more = {name: value for name in _BEYOND if (value := getattr(message, name))}
    more |= {name: {} for name in ("usage", "extra") if getattr(message, name) == {}}
    if message.parts is not None:
        more["parts"] = message.parts
    if not message.content:
        content = storable(message.text)[:SEARCHED]
    if content != message.content:
        more["content"] = message.content
    if key != message.id:
        more["id"] = message.id
    if not 0 <= tokens < _LARGEST:
        more["tokens"], tokens = tokens, 0
    return key, message.role, message.timestamp, tokens, content, encode(more).decode("utf-8")


def from_row(row: tuple[Any, ...]) -> Message:
    """The message of the columns in MESSAGE; BadLine where what is beyond them cannot be read."""
    seq, key, role, said_at, tokens, content, beyond = row
    if beyond is None:
        return Message(role=role, content=content, timestamp=said_at, tokens=tokens, id=key, seq=seq)
    more = _decoded(beyond, _more, _More)
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
    """The metadata as JSON."""
    return encode({name: getattr(session, name) for name in _STORED}).decode("utf-8")


def what_is_wrong(record: str) -> str:
    """Why this metadata cannot be read; empty where it can."""
    try:
        _decoded(record, _record, _Record)
    except BadLine as error:
        return str(error)
    return ""


def columns_of(session: Session) -> tuple[str, ...]:
    """Record, type, title, status, agent, tool, summary: the columns that a change of metadata writes."""
    texts = (session.type, session.title, session.status, session.agent, session.origin.tool, session.summary)
    return (record_of(session), *(storable(text) for text in texts))


def session_from(row: tuple[Any, ...], *, store: str, path: str, leased: bool) -> Session:
    """The session of the columns in SESSION. Metadata that cannot be read is damage, never an error."""
    session_id, record, created_at, last_active, count, tokens, straight, held = row
    damage = 0
    try:
        found = _decoded(record, _record, _Record)
    except BadLine:
        found, damage = _Record(), 1
    return Session(
        id=session_id,
        **{name: getattr(found, name) for name in _STORED if name != "created_at"},
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
        pass  # half a character pair, which only the lenient way takes
    try:
        return msgspec.convert(decode_value(text.encode("utf-8")), kind)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise BadLine(str(error)) from error
