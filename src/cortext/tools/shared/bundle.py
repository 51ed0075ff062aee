"""A conversation that a tool keeps in rows of a database or in several files, copied as one file of lines.

The first line says which conversation it is; each other line is a row, or one of the tool's files. An adapter reads a
copy with the same code as the tool's own store: both are a stream of pieces.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from cortext.io import durable, new_files
from cortext.tools.base import Transcript, TranscriptReading
from cortext.tools.shared.folders import transcript_of
from cortext.tools.shared.lines import without_lone_surrogates

_BEGIN = b'{"cortext":'
_HEAD_BYTES = 1 << 16


class Piece(NamedTuple):
    """A row of a table, or a file (`values` has its text). Text and numbers only."""

    kind: str
    values: dict[str, Any]


class _Head(msgspec.Struct):
    tool: str = ""
    key: str = ""
    project: str = ""
    size: int = 0
    changed: int = 0


class _First(msgspec.Struct):
    cortext: _Head


class _Line(msgspec.Struct):
    kind: str
    values: dict[str, Any]


_first_decoder = msgspec.json.Decoder(_First)
_line_decoder = msgspec.json.Decoder(_Line)


def head_of(path: str) -> _Head | None:
    """Return what a copy says about itself; None if the file is not a copy."""
    try:
        with open(path, "rb", opener=durable.plain_file) as file:
            line = file.readline(_HEAD_BYTES)
        return _first_decoder.decode(line).cortext if line.startswith(_BEGIN) else None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


class BundleTool:
    """The part of an adapter that copies conversations and reads copies. A subclass knows the tool's own store."""

    name: str

    def pieces(self, transcript: Transcript) -> Iterator[Piece]:
        """Yield the pieces of a conversation in the tool's own store, in a stable order."""
        raise NotImplementedError

    def reading(self, transcript: Transcript, pieces: Iterable[Piece]) -> TranscriptReading:
        """Return the reading of these pieces."""
        raise NotImplementedError

    def read(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> TranscriptReading:
        """Return a reading of the whole conversation: the format has no place to continue from."""
        is_copy = head_of(transcript.path) is not None
        return self.reading(transcript, pieces_in(transcript.path) if is_copy else self.pieces(transcript))

    def copy(self, transcript: Transcript, target: str, later: new_files.Later | None = None) -> None:
        """Copy the conversation to one file, unless that is up to date."""
        if head_of(transcript.path) is not None:
            new_files.mirror_file(transcript.path, target, later)
            return
        project = without_lone_surrogates(transcript.project)
        head = _Head(self.name, transcript.key, project, transcript.size, transcript.changed)
        if later is not None:
            new_files.new_file(target, self._encoded(head, transcript), later)
        elif head_of(target) != head:
            durable.replace_file(target, self._encoded(head, transcript))

    def _encoded(self, head: _Head, transcript: Transcript) -> Iterator[bytes]:
        yield msgspec.json.encode(_First(head)) + b"\n"
        for kind, values in self.pieces(transcript):
            yield msgspec.json.encode(_Line(kind, values)) + b"\n"

    def copied_transcript(self, path: str) -> Transcript | None:
        """Return the conversation in a copy; None if the file is not a copy, or one of another tool."""
        head = head_of(path)
        if head is None or head.tool != self.name:
            return None
        return transcript_of(self.name, head.key, path, head.project, os.stat(path))


def pieces_in(path: str) -> Iterator[Piece]:
    """Yield the pieces in a copy."""
    with open(path, "rb", opener=durable.plain_file) as file:
        next(file, b"")
        for line in file:
            try:
                piece = _line_decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue  # the copy was damaged: the messages are in the session anyway
            yield Piece(piece.kind, piece.values)
