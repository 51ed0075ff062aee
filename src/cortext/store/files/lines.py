"""Encode and decode one line of a journal: strict and fast for lines of ours, lenient for those of other programs.

A line of ours is a Message that is preceded, in some layouts, by a key (`type`, `idx`). Lines have a space after each
comma and colon, as in the examples of the format, so that a diff is easy to read.
"""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, TypeVar

import msgspec

from cortext.errors import InvalidMessage
from cortext.io.jsonl import MAX_LINE, finite, no_number
from cortext.model.message import ROLES, TEXT, Message, Part
from cortext.model.tokens import MOST, counted

MESSAGE_TYPES = frozenset({"", "turn", "message"})
# Decoders refuse JSON that is nested about as deep as Python's stack. What we write stays far below, so that it can be
# read however deep the reader's own stack is.
MAX_DEPTH = 200
MAX_SEQ = 2**53
METADATA_TYPE = "metadata"
_BOM = b"\xef\xbb\xbf"
_USER = b'{"role": "user", '
_PADDING = b"\0 \t\r\n"
NO_OBJECT = "not a JSON object"
NO_ROLE = "no role: not a message"
_NESTING = "nested too deeply"


# A line with an impossible count is decoded leniently, without the count, and reported as damage.
Tokens = Annotated[int, msgspec.Meta(ge=0, le=MOST)]


class StoredMessage(Message, kw_only=True, omit_defaults=True):
    """A message as it is in a file: with the keys that only some layouts have.

    `role` may be empty: such a line is a record of another type, not a message.
    """

    role: str = ""
    tokens: Tokens | None = None
    type: str = ""
    idx: int = -1


class OutlineExtra(msgspec.Struct):
    """What an outline needs of a message's `extra`."""

    replaces: str = ""
    forked_from: str = ""
    forked_in: str = ""
    joins: bool = False


class StoredOutline(msgspec.Struct, kw_only=True):
    """A stored message without its text: most of a line is skipped, which takes a fifth of the time."""

    role: str = ""
    timestamp: str = ""
    tokens: Tokens | None = None
    id: str = ""
    seq: int = -1
    parent: str = ""
    partial: bool = False
    aside: bool = False
    type: str = ""
    extra: OutlineExtra | None = None

    @property
    def replaces(self) -> str:
        """See Message."""
        return self.extra.replaces if self.extra is not None else ""

    @property
    def forked_from(self) -> str:
        """See Message."""
        return self.extra.forked_from if self.extra is not None else ""

    @property
    def forked_in(self) -> str:
        """See Message."""
        return self.extra.forked_in if self.extra is not None else ""

    @property
    def joins(self) -> bool:
        """See Message."""
        return self.extra is not None and self.extra.joins


class BadLine(ValueError):
    """A line, or part of one, that is not a record. The text says why."""


_encoder = msgspec.json.Encoder()
line_decoder = msgspec.json.Decoder(StoredMessage)
outline_decoder = msgspec.json.Decoder(StoredOutline)
Stored = TypeVar("Stored", StoredMessage, StoredOutline)
_any_decoder = msgspec.json.Decoder()


def encode(value: object) -> bytes:
    """Return a value as one line of JSON without a newline; the key order is kept."""
    return _encode(value, 0)


def encode_pretty(value: object) -> bytes:
    """Return the contents of a metadata file: JSON indented by two, with a newline at the end."""
    return _encode(value, 2) + b"\n"


def _encode(value: object, indent: int) -> bytes:
    try:
        try:
            raw = _encoder.encode(value)
            _check_length(len(raw))
            return msgspec.json.format(raw, indent=indent)
        except UnicodeEncodeError:  # a lone surrogate: legal in JSON only as an escape
            text = json.dumps(msgspec.to_builtins(value), ensure_ascii=True, indent=indent or None)
            if "NaN" in text or "Infinity" in text:  # written as null, as msgspec does: JSON has no such numbers
                text = json.dumps(json.loads(text, parse_constant=lambda _: None), indent=indent or None)
            return text.encode("ascii")
    except RecursionError as error:
        raise InvalidMessage(f"the message is {_NESTING}", hint="flatten it before storing it") from error
    except (TypeError, ValueError) as error:
        raise InvalidMessage(f"the value cannot be encoded as JSON: {error}", kept="nothing was written") from error


def encode_message(message: Message, prefix: bytes = b"") -> bytes:
    """Return a message as one line with its newline; `prefix` is the layout's own first keys, e.g. `"idx": 3, `."""
    _check_length(len(message.content))  # before a copy is made
    raw = encode(message)
    if raw.startswith(_USER) and not message.content:  # a photo without words: every reader expects the key
        raw = _USER + b'"content": "", ' + raw[len(_USER) :]
    _check_length(len(prefix) + len(raw) + 1)
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH and deeper_than(msgspec.to_builtins(message), MAX_DEPTH):
        raise InvalidMessage(
            f"the message is {_NESTING} (more than {MAX_DEPTH} levels)",
            kept="nothing was written",
            hint="flatten it before storing it",
        )
    return b"{" + prefix + raw[1:] + b"\n"


def _check_length(length: int) -> None:
    if length > MAX_LINE:
        raise InvalidMessage(
            f"the message is {length >> 20} MiB long; the limit is {MAX_LINE >> 20} MiB",
            kept="nothing was written",
            hint="store large data in a file and refer to it",
        )


def deeper_than(value: object, levels: int) -> bool:
    """Whether a JSON value has more than this many levels. It does not recurse: the value may be very deep."""
    level = [value]
    for _ in range(levels):
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return False
    return True


def encode_annotation(record: dict[str, object]) -> bytes:
    """Return a record about a message (an embedding) as one line with its newline."""
    kind, message_id = record.get("type"), record.get("message_id")
    if not isinstance(kind, str) or not isinstance(message_id, str) or kind in MESSAGE_TYPES or "role" in record:
        raise InvalidMessage(
            "invalid record about a message",
            kept="nothing was written",
            hint="give it a `type` of its own and a `message_id`, and no `role`",
        )
    return encode(record) + b"\n"


def decode_value(raw: bytes) -> Any:
    """Return any JSON value, decoded as leniently as is safe; raise BadLine with the reason if it is not JSON."""
    try:
        return _any_decoder.decode(raw)
    except RecursionError as error:
        raise BadLine(_NESTING) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        strict_reason = str(error)
    # The standard library accepts what JavaScript writes and msgspec refuses: lone surrogates, and NaN (as null). The
    # bytes are decoded here, because it would also guess UTF-16, which a line never is.
    try:
        text = raw.decode("utf-8", "surrogatepass").removeprefix("\ufeff")
        return json.loads(text, parse_constant=no_number, parse_float=finite)
    except RecursionError as error:
        raise BadLine(_NESTING) from error
    except UnicodeDecodeError as error:
        raise BadLine("not UTF-8") from error
    except ValueError as error:
        raise BadLine(strict_reason) from error


def decode_plain(block: bytes, decoder: msgspec.json.Decoder[Stored]) -> list[Stored] | None:
    """Decode many lines at once; None if one of them is irregular."""
    end = block.find(b"\n") + 1
    lines = block.split(b"\n") if 0 < end < len(block) else [block]  # one long line is not copied
    if not lines[-1]:
        lines.pop()
    decode = decoder.decode  # line by line: decode_lines would accept several records on one line
    try:
        for line in lines:  # not the whole block: most lines are ASCII, and cost nothing
            _check_utf8(line)
        return [decode(line) for line in lines]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _check_utf8(raw: bytes) -> None:
    """Raise UnicodeDecodeError for invalid UTF-8: msgspec does not check the strings of keys that it skips."""
    if not raw.isascii():
        raw.decode("utf-8")


def decode_line(raw: bytes) -> StoredMessage:
    """Return the record of one line, or raise BadLine."""
    try:
        _check_utf8(raw)
        return line_decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        if not begins_record(raw):
            raise BadLine(NO_OBJECT) from None
        return coerce(decode_value(raw))


def begins_record(raw: bytes) -> bool:
    """Whether a line could be a record at all: a cheap check, for files with very many other lines."""
    return raw.lstrip(_PADDING).removeprefix(_BOM).startswith(b"{")


def salvage(raw: bytes) -> tuple[list[tuple[StoredMessage, bytes]], bytes, str]:
    """Return what a bad line still contains: the leading records with their bytes, the rest, and what is wrong with it.

    Only complete records from the start of the line count, as two concurrent writers leave them: a record found inside
    a broken one could be a message that is quoted in another.
    """
    rest = raw.strip(_PADDING).removeprefix(_BOM)
    try:
        text, tail, reason = rest.decode("utf-8"), b"", ""
    except UnicodeDecodeError as error:
        text, tail, reason = rest[: error.start].decode("utf-8"), rest[error.start :], "not UTF-8"
    records, text = _leading_records(text)
    if text and not reason:
        reason = "not a JSON record after a complete one" if records else "not a JSON record"
    return records, text.encode("utf-8") + tail, reason


def _leading_records(text: str) -> tuple[list[tuple[StoredMessage, bytes]], str]:
    decoder = json.JSONDecoder(parse_constant=no_number, parse_float=finite)
    records: list[tuple[StoredMessage, bytes]] = []
    offset = 0
    while text.startswith("{", offset):
        try:
            value, end = decoder.raw_decode(text, offset)
            record = coerce(value)
        except (ValueError, RecursionError):  # a BadLine is a ValueError
            break
        records.append((record, text[offset:end].encode("utf-8")))
        offset = end
        while offset < len(text) and text[offset] in "\0 \t\r\n":
            offset += 1
    return records, text[offset:]


def coerce(value: Any) -> StoredMessage:
    """Return a message from a record that another program wrote, as well as it can be understood; raise BadLine."""
    if not isinstance(value, dict):
        raise BadLine(NO_OBJECT)
    kind = value.get("type", "")
    role = value.get("role")
    is_other_type = isinstance(kind, str) and kind not in MESSAGE_TYPES
    if is_other_type and (kind == METADATA_TYPE or not isinstance(role, str)):
        return StoredMessage(type=kind)
    if not isinstance(role, str) or not role:
        raise BadLine(NO_ROLE)
    content = value.get("content")
    parts = value.get("parts")
    return StoredMessage(
        type=kind if isinstance(kind, str) and kind in MESSAGE_TYPES else "",
        role=role,
        content=_plain_text(content),
        timestamp=_string(value.get("timestamp")),
        tokens=counted(value.get("tokens")),
        id=_string(value.get("id")),
        seq=_number(value.get("seq")),
        idx=_number(value.get("idx")),
        model=_string(value.get("model")),
        parts=_parts(parts if parts is not None else content if isinstance(content, list) else None),
        usage=value["usage"] if isinstance(value.get("usage"), dict) else None,
        parent=_string(value.get("parent")),
        partial=value.get("partial") is True,
        aside=value.get("aside") is True,
        extra=value["extra"] if isinstance(value.get("extra"), dict) else None,
    )


def impossible_numbers(raw: bytes) -> list[str]:
    """Return the fields of a record that should be a count or a sequence number, but have an impossible value."""
    try:
        value = json.loads(raw.decode("utf-8", "surrogatepass").removeprefix("\ufeff"))  # NaN must stay NaN
    except (ValueError, RecursionError):
        return []
    if not isinstance(value, dict):
        return []
    count, seq = value.get("tokens"), value.get("seq")
    found = ["tokens"] if count is not None and counted(count) is None else []
    if isinstance(seq, int | float) and seq != -1 and _number(seq) < 0:
        found.append("seq")
    return found


def is_message(record: StoredMessage | StoredOutline) -> bool:
    """Whether a record is meant as a message: by its type, or by having a role under an unknown type."""
    return record.type in MESSAGE_TYPES or (record.role != "" and record.type != METADATA_TYPE)


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: Any) -> int:
    found = _integer(value)
    return found if found is not None and 0 <= found < MAX_SEQ else -1


def _plain_text(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = (
            item if isinstance(item, str) else item.get("text") if isinstance(item, dict) else None for item in content
        )
        return "\n\n".join(text for text in texts if isinstance(text, str) and text)

    return json.dumps(content, ensure_ascii=False)


def _parts(value: Any) -> list[Part] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        return [Part(type="unknown", data=value)]
    parts = []
    for item in value:
        if isinstance(item, str):
            parts.append(Part(type=TEXT, text=item))
            continue
        try:
            part = msgspec.convert(item, Part)
        except (msgspec.ValidationError, UnicodeEncodeError):  # the latter for a lone surrogate in a key
            part = Part(type="unknown", data=item)
        else:
            unknown = {name: data for name, data in item.items() if name not in Part.__struct_fields__}
            if unknown and part.data is None:
                part.data = unknown
        parts.append(part)
    return parts


def derived_id(seq: int, raw: bytes) -> str:
    """Return the id of a message that was stored without one: the same at every reading of the same line."""
    raw = raw.strip()  # whatever the line ending
    return "x" + hashlib.blake2b(raw, digest_size=12, salt=seq.to_bytes(8, "big")).hexdigest()


def check_role(role: str) -> str:
    """Return the role, or raise InvalidMessage: we write only these four."""
    if role not in ROLES:
        raise InvalidMessage(f"unknown role {ascii(role)[:40]}", hint=f"use one of {', '.join(ROLES)}")
    return role
