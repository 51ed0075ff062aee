"""Reading the JSON Lines files of other programs: streaming, lenient, and looking before parsing.

A line is handed to the adapter as bytes, so that it can pass over what it does not need by its first
characters. Two records glued on one line are both given. A last line without its newline is given if it is
whole, else left for the next reading: the tool may be writing it at this moment.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from cortext.io import files as fsio
from cortext.io.jsonl import SMALL, blocks, finite, no_number
from cortext.tools.base import Counts

T = TypeVar("T")

# What may come of a record that is not as its program writes it, where it was taken for one that is.
ODD = (
    msgspec.MsgspecError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
NOT_UNDERSTOOD = "not understood"
WITHOUT_CONTENT = "without content"
_PLACES = 20
_any = msgspec.json.Decoder()


class ForeignLines:
    """The lines of a file from an offset on; `end` is where the next reading may begin."""

    def __init__(self, path: str, start: int, counts: Counts) -> None:
        self.path = path
        self.counts = counts
        self.start = self.end = start
        self.complete = True  # False where the last line is not whole yet

    def __iter__(self) -> Iterator[bytes]:
        descriptor = fsio.open_file(self.path, os.O_RDONLY)
        try:
            for offset, piece, length in blocks(descriptor, self.start, os.fstat(descriptor).st_size, SMALL):
                self.end = offset
                if piece is None:
                    note(self.counts.damaged, "line too long")
                    place(self.counts, self.path, offset)
                    self.end = offset + length
                    continue
                begin = 0
                while (newline := piece.find(b"\n", begin)) >= 0:  # split() would take four times as long
                    line = piece[begin:newline]
                    begin = newline + 1
                    self.end = offset + begin
                    if line:
                        yield line
                if begin < len(piece):
                    rest = piece[begin:]
                    if not is_whole(rest):
                        self.complete = False
                        return
                    self.end = offset + len(piece)
                    yield rest
        finally:
            os.close(descriptor)

    def decode(self, line: bytes, decoder: msgspec.json.Decoder[T], fallback: type[T]) -> list[T]:
        """The record or records of a line, in the type that the adapter wants; damage is counted."""
        try:
            return [decoder.decode(line)]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        found: list[T] = []
        values, whole = concatenated_values(line)
        for value in values:
            try:
                try:
                    found.append(msgspec.convert(value, fallback, strict=False))
                except (msgspec.ValidationError, UnicodeEncodeError):
                    # A field that is kept undecoded can only be had from bytes, and those have no half surrogate pair.
                    again = msgspec.json.encode(without_lone_surrogates(value))
                    found.append(msgspec.json.decode(again, type=fallback, strict=False))
            except (msgspec.ValidationError, RecursionError):
                note(self.counts.damaged, "unexpected shape")
                place(self.counts, self.path, self.end)
        if not whole:
            note(self.counts.damaged, "not JSON")
            place(self.counts, self.path, self.end)
        return found


def note(kinds: dict[str, int], kind: str, count: int = 1) -> None:
    """Count one more of a kind."""
    kinds[kind] = kinds.get(kind, 0) + count


def place(counts: Counts, path: str, offset: int) -> None:
    """Remember where damage was, the first few times."""
    if len(counts.places) < _PLACES:
        counts.places.append(f"{path}: before byte {offset}")


def is_whole(line: bytes) -> bool:
    """Whether a line without a newline is a whole record already."""
    values, whole = concatenated_values(line)
    return bool(values) and whole


def concatenated_values(line: bytes) -> tuple[list[Any], bool]:
    """The JSON values that stand one after another on a line, and whether nothing else was there."""
    try:
        return [_any.decode(line)], True
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        text = line.decode("utf-8").strip("\0 \t\r\n\ufeff")
    except UnicodeDecodeError:
        return [], False

    decoder = json.JSONDecoder(parse_constant=no_number, parse_float=finite)
    values: list[Any] = []
    while text:
        try:
            value, end = decoder.raw_decode(text)
        except (ValueError, RecursionError):
            return values, False
        values.append(value)
        text = text[end:].lstrip("\0 \t\r\n")
    return values, True


def without_lone_surrogates(value: Any) -> Any:
    """The value with a replacement character for every half of a surrogate pair: a text cut inside an emoji.

    No UTF-8 can hold such a half; JavaScript writes it as an escape all the same.
    """
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {without_lone_surrogates(name): without_lone_surrogates(item) for name, item in value.items()}
    if isinstance(value, list):
        return [without_lone_surrogates(item) for item in value]
    return value


def value_of(raw: bytes | memoryview) -> Any:
    """The JSON value that stands here alone, as UTF-8 can hold it; None where there is none."""
    values, whole = concatenated_values(bytes(raw))
    try:
        return without_lone_surrogates(values[0]) if whole and len(values) == 1 else None
    except RecursionError:
        return None


def as_utf8(line: bytes) -> bytes | None:
    """A record whose only fault is half a surrogate pair, without it; None where that is not so."""
    try:
        _any.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = value_of(line)
        return None if value is None else msgspec.json.encode(value)
    return None


def derived_id(*parts: str | int) -> str:
    """An id for a record that has none: the same at every reading of the same record."""
    text = "\0".join(str(part) for part in parts)

    return "x" + hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
