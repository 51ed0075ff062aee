"""A session as one JSON document, in the format of `opencode export` and `opencode import`.

In the documents that we write, each message is on its own line, byte for byte as in the database. The sessions of side
agents follow under `children`, and rows that are not valid JSON under `damaged`; OpenCode ignores both.
"""

from __future__ import annotations

import mmap
import os
import sqlite3
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from cortext.errors import SessionNotFound
from cortext.io import durable, new_files
from cortext.tools.base import Counts, Transcript
from cortext.tools.opencode.store import family, session_info, transcripts
from cortext.tools.shared.folders import beginning
from cortext.tools.shared.lines import note, place
from cortext.tools.shared.native import decoded, nth, positions, values_of
from cortext.tools.shared.sqlite import connection, is_database

_SMALL_BLOCK = 1 << 16
_MESSAGES = "SELECT id, CAST(data AS BLOB) FROM message WHERE session_id = ? ORDER BY time_created, id"
_PARTS = "SELECT id, CAST(data AS BLOB) FROM part WHERE message_id = ? ORDER BY id"

_PART = "SELECT id, CAST(data AS BLOB) FROM part WHERE id = ?"
_LARGEST_COPY = 256 << 20  # bytes of a copy in which images are looked for

_syntax_decoder = msgspec.json.Decoder(msgspec.Raw)


class Document(msgspec.Struct):
    """A session's record, its messages (undecoded) and its side agents' documents."""

    info: dict[str, Any] = {}
    messages: list[msgspec.Raw] = []
    children: list[msgspec.Raw] = []


class DocumentMessage(msgspec.Struct):
    """One message of a document."""

    info: msgspec.Raw
    parts: list[msgspec.Raw] = []


class _Head(msgspec.Struct):
    info: dict[str, Any] = {}
    cortext: dict[str, Any] = {}


_document_decoder = msgspec.json.Decoder(Document)
_message_decoder = msgspec.json.Decoder(DocumentMessage)
_head_decoder = msgspec.json.Decoder(_Head)


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────


def keep(path: str, key: str, target: str, later: new_files.Later | None = None) -> None:
    """Write a session of the database to a file, unless the file is up to date."""
    found = next(transcripts(path, tool="", key=key), None)
    if found is None:
        raise SessionNotFound(f"OpenCode has no session {key}", kept="an earlier copy, if there is one")
    fingerprint = {"size": found.size, "changed": found.changed}
    if os.path.exists(target) and head_of(target).cortext == fingerprint:
        return
    with connection(path) as database:
        if later is None:
            durable.replace_file(target, _document_blocks(database, key, fingerprint))
        else:
            new_files.new_file(target, _document_blocks(database, key, fingerprint), later)


def _document_blocks(database: sqlite3.Connection, key: str, fingerprint: dict[str, int]) -> Iterator[bytes]:
    damaged: list[dict[str, str]] = []
    yield from _session_blocks(database, key, fingerprint, damaged)
    yield b',"children":['
    members = [member.id for member in family(database, key)][1:]
    for number, member in enumerate(members):
        yield b",\n" if number else b"\n"
        yield from _session_blocks(database, member, {}, damaged)
        yield b"}"
    yield b'],"damaged":' + msgspec.json.encode(damaged) + b"}\n"


def _session_blocks(
    database: sqlite3.Connection, key: str, fingerprint: dict[str, int], damaged: list[dict[str, str]]
) -> Iterator[bytes]:
    """Yield the document of a session without its closing brace."""
    head = msgspec.json.encode({"cortext": fingerprint, "info": session_info(database, key)})
    yield head[:-1] + b',"messages":['
    parts = database.cursor()
    separator = b"\n"
    for identity, data in database.execute(_MESSAGES, (key,)):
        info = _with_ids(data, {"id": identity, "sessionID": key}, damaged)
        if info is None:
            continue
        ids = {"sessionID": key, "messageID": identity}
        rows = (_with_ids(part, {"id": row, **ids}, damaged) for row, part in parts.execute(_PARTS, (identity,)))
        yield separator + b'{"info":' + info + b',"parts":[' + b",".join(row for row in rows if row) + b"]}"
        separator = b",\n"
    yield b"\n]"


def _with_ids(data: bytes, ids: dict[str, str], damaged: list[dict[str, str]]) -> bytes | None:
    """Return a row's JSON with the ids that the database has in columns, otherwise unchanged; None if damaged."""
    try:
        _syntax_decoder.decode(data)
        is_object = data.lstrip().startswith(b"{")
    except (msgspec.DecodeError, RecursionError):
        is_object = False
    if not is_object:
        damaged.append({**ids, "data": data.decode("utf-8", "replace")})
        return None
    rest = data.lstrip()[1:].lstrip()
    return msgspec.json.encode(ids)[:-1] + (b"" if rest.startswith(b"}") else b",") + rest


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────


def head_of(path: str) -> _Head:
    """Return the head of a document that we wrote or that was exported; an empty one if it is neither."""
    block = beginning(path, _SMALL_BLOCK)
    # The session's record comes first: cut off what follows it, and close the brace.
    for end in (block.find(b',"messages":['), block.find(b',\n  "messages": [')):
        if block[:1] == b"{" and end > 0:
            try:
                return _head_decoder.decode(block[:end] + b"}")
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                return _Head()
    return _Head()


def load(path: str, counts: Counts) -> Document:
    """Return a document with its messages undecoded; they refer to the memory-mapped file."""
    with open(path, "rb", opener=durable.plain_file) as file:
        size = os.fstat(file.fileno()).st_size
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
    try:
        return _document_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        note(counts.damaged, "document")
        place(counts, path, size)
    return Document(info=head_of(path).info, messages=list(_salvaged(path)))


def _salvaged(path: str) -> Iterator[msgspec.Raw]:
    """Yield the complete messages of a damaged document: one per line in ours, indented blocks in an export."""
    block: list[bytes] | None = None
    with open(path, "rb", opener=durable.plain_file) as file:
        for line in file:
            stripped = line.rstrip(b",\r\n")
            if stripped.startswith(b'{"info":'):
                yield msgspec.Raw(stripped)
            elif stripped == b"    {":
                block = [stripped]
            elif block is not None:
                block.append(stripped if stripped == b"    }" else line)
                if stripped == b"    }":
                    yield msgspec.Raw(b"\n".join(block))
                    block = None


def message_of(raw: msgspec.Raw, counts: Counts) -> DocumentMessage | None:
    """Return one message of a document; None if it is damaged."""
    try:
        return _message_decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        note(counts.damaged, "message of a document")
        return None


def descendants(document: Document, counts: Counts) -> Iterator[Document]:
    """Yield the documents of side agents."""
    for raw in document.children:
        try:
            yield _document_decoder.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            note(counts.damaged, "document of a side agent")


def blocks_of(path: str) -> Iterator[bytes]:
    """Yield the bytes of a document in blocks."""
    descriptor = durable.open_file(path, os.O_RDONLY)
    try:
        yield from durable.read_blocks(descriptor, 0, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)


def children_of(path: str) -> Iterator[tuple[str, bytes]]:
    """Yield the id and document of each side agent's session in a kept copy."""
    counts = Counts()
    for raw in load(path, counts).children:
        try:
            key = str(_document_decoder.decode(raw).info.get("id") or "")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        yield key, bytes(raw)


# ── images ───────────────────────────────────────────────────────────────────────────────────────────


def images_in(transcript: Transcript, refs: AbstractSet[str]) -> dict[str, bytes]:
    """Return those of these images that are in a session of the database or in a copy of it."""
    targets = {position.record: position for position in positions(transcript.key, refs)}
    if not targets:
        return {}
    if is_database(transcript.path):
        with connection(transcript.path) as database:
            rows = [row for name in targets for row in database.execute(_PART, (name,))]
        parts = [(name, msgspec.json.decode(data)) for name, data in rows if data]
    else:
        whole = msgspec.json.decode(durable.read_file(transcript.path, _LARGEST_COPY))
        parts = [
            (part["id"], part)
            for part in values_of(whole, "id")
            if isinstance(part["id"], str) and part["id"] in targets
        ]
    found: dict[str, bytes] = {}
    for name, part in parts:
        position = targets[name]
        if data := decoded(nth((str(each["url"]) for each in values_of(part, "url")), position.rest[0])):
            found[position.ref] = data
    return found
