"""A session as one JSON document, in the shape that `opencode export` gives and `opencode import` takes.

In those that we make every message stands on a line of its own, byte for byte as the database had it; the sessions
of side agents follow under `children`, which OpenCode passes over, and so does what could not be read as JSON.
"""

from __future__ import annotations

import mmap
import os
import sqlite3
from collections.abc import Iterator
from typing import Any

import msgspec

from cortext.errors import SessionNotFound
from cortext.io import batch as newfiles
from cortext.io import files as fsio
from cortext.tools.base import Counts
from cortext.tools.opencode.store import connection, family, session_info, transcripts
from cortext.tools.shared.lines import note, place

_SMALL_BLOCK = 1 << 16
_MESSAGES = "SELECT id, CAST(data AS BLOB) FROM message WHERE session_id = ? ORDER BY time_created, id"
_PARTS = "SELECT id, CAST(data AS BLOB) FROM part WHERE message_id = ? ORDER BY id"

_syntax = msgspec.json.Decoder(msgspec.Raw)


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


_document = msgspec.json.Decoder(Document)
_message = msgspec.json.Decoder(DocumentMessage)
_head = msgspec.json.Decoder(_Head)


# ── making one ───────────────────────────────────────────────────────────────────────────────────────


def keep(path: str, key: str, target: str, later: newfiles.Later | None = None) -> None:
    """Write a session of the database to a file; nothing is written where it has not changed since."""
    found = next(transcripts(path, tool="", key=key), None)
    if found is None:
        raise SessionNotFound(f"OpenCode has no session {key}", kept="an earlier copy, if there was one")
    signs = {"size": found.size, "changed": found.changed}
    if os.path.exists(target) and head_of(target).cortext == signs:
        return
    with connection(path) as database:
        if later is None:
            fsio.replace_file(target, _pieces(database, key, signs))
        else:
            newfiles.new_file(target, _pieces(database, key, signs), later)


def _pieces(database: sqlite3.Connection, key: str, signs: dict[str, int]) -> Iterator[bytes]:
    damaged: list[dict[str, str]] = []
    yield from _session_pieces(database, key, signs, damaged)
    yield b',"children":['
    members = [member.id for member in family(database, key)][1:]
    for number, member in enumerate(members):
        yield b",\n" if number else b"\n"
        yield from _session_pieces(database, member, {}, damaged)
        yield b"}"
    yield b'],"damaged":' + msgspec.json.encode(damaged) + b"}\n"


def _session_pieces(
    database: sqlite3.Connection, key: str, signs: dict[str, int], damaged: list[dict[str, str]]
) -> Iterator[bytes]:
    """A session without its last brace."""
    head = msgspec.json.encode({"cortext": signs, "info": session_info(database, key)})
    yield head[:-1] + b',"messages":['
    parts = database.cursor()
    between = b"\n"
    for identity, data in database.execute(_MESSAGES, (key,)):
        info = _with_ids(data, {"id": identity, "sessionID": key}, damaged)
        if info is None:
            continue
        ids = {"sessionID": key, "messageID": identity}
        rows = (_with_ids(part, {"id": row, **ids}, damaged) for row, part in parts.execute(_PARTS, (identity,)))
        yield between + b'{"info":' + info + b',"parts":[' + b",".join(row for row in rows if row) + b"]}"
        between = b",\n"
    yield b"\n]"


def _with_ids(data: bytes, ids: dict[str, str], damaged: list[dict[str, str]]) -> bytes | None:
    """A row's JSON with the ids that the database keeps in columns; the rest of it stays as it is."""
    try:
        _syntax.decode(data)
        whole = data.lstrip().startswith(b"{")
    except (msgspec.DecodeError, RecursionError):
        whole = False
    if not whole:
        damaged.append({**ids, "data": data.decode("utf-8", "replace")})
        return None
    rest = data.lstrip()[1:].lstrip()
    return msgspec.json.encode(ids)[:-1] + (b"" if rest.startswith(b"}") else b",") + rest


# ── reading one ──────────────────────────────────────────────────────────────────────────────────────


def head_of(path: str) -> _Head:
    """What stands at the beginning of a document that we made, or that was exported; empty where it is neither."""
    try:
        with open(path, "rb", opener=fsio.plain_file) as file:
            block = file.read(_SMALL_BLOCK)
    except OSError:
        return _Head()
    # The record of the session comes first: what follows it is cut off, and the braces closed again.
    for end in (block.find(b',"messages":['), block.find(b',\n  "messages": [')):
        if block[:1] == b"{" and end > 0:
            try:
                return _head.decode(block[:end] + b"}")
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                return _Head()
    return _Head()


def load(path: str, counts: Counts) -> Document:
    """A whole document, its messages still undecoded: what they take of memory is the file's own pages."""
    with open(path, "rb", opener=fsio.plain_file) as file:
        size = os.fstat(file.fileno()).st_size
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
    try:
        return _document.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        note(counts.damaged, "document")
        place(counts, path, size)
    return Document(info=head_of(path).info, messages=list(_salvaged(path)))


def _salvaged(path: str) -> Iterator[msgspec.Raw]:
    """The messages of a damaged document that are whole: a line each in ours, an indented block in an exported one."""
    block: list[bytes] | None = None
    with open(path, "rb", opener=fsio.plain_file) as file:
        for line in file:
            bare = line.rstrip(b",\r\n")
            if bare.startswith(b'{"info":'):
                yield msgspec.Raw(bare)
            elif bare == b"    {":
                block = [bare]
            elif block is not None:
                block.append(bare if bare == b"    }" else line)
                if bare == b"    }":
                    yield msgspec.Raw(b"\n".join(block))
                    block = None


def message_of(raw: msgspec.Raw, counts: Counts) -> DocumentMessage | None:
    """One message of a document; None where it is damaged."""
    try:
        return _message.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        note(counts.damaged, "message of a document")
        return None


def descendants(document: Document, counts: Counts) -> Iterator[Document]:
    """The documents of side agents."""
    for raw in document.children:
        try:
            yield _document.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            note(counts.damaged, "document of a side agent")


def pieces_of(path: str) -> Iterator[bytes]:
    """A document as it is, a block at a time."""
    descriptor = fsio.open_file(path, os.O_RDONLY)
    try:
        yield from fsio.read_blocks(descriptor, 0, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)


def children_of(path: str) -> Iterator[tuple[str, bytes]]:
    """The id and document of each side agent's session in a kept copy."""
    counts = Counts()
    for raw in load(path, counts).children:
        try:
            key = str(_document.decode(raw).info.get("id") or "")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        yield key, bytes(raw)
