"""Reading the JSON Lines files of other programs, as a stream and leniently.

An adapter receives each line as bytes, so that it can skip a record by its first characters without parsing it. Two
records on one line are both returned. A last line without a newline is returned if it is a complete record; otherwise
it is left for the next reading, because the tool may still be writing it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from cortext.io import durable
from cortext.io.jsonl import SMALL, blocks, finite, no_number
from cortext.model import clock
from cortext.tools.base import Counts

T = TypeVar("T")

# The errors that a record with an unexpected structure may cause in code that expects the usual one.
RECORD_ERRORS = (
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
_MOST_PLACES = 20
_HEAD = 1 << 20
_BEGINNING = 4096  # bytes of a line in which a match must be
_any = msgspec.json.Decoder()


class ForeignLines:
    """The lines of a file from an offset on; `end` is the offset at which the next reading may start."""

    def __init__(self, path: str, start: int, counts: Counts) -> None:
        self.path = path
        self.counts = counts
        self.start = self.end = start
        self.complete = True  # False if the last line is incomplete

    def __iter__(self) -> Iterator[bytes]:
        descriptor = durable.open_file(self.path, os.O_RDONLY)
        try:
            for offset, block, length in blocks(descriptor, self.start, os.fstat(descriptor).st_size, SMALL):
                self.end = offset
                if block is None:
                    note(self.counts.damaged, "line too long")
                    place(self.counts, self.path, offset)
                    self.end = offset + length
                    continue
                begin = 0
                while (newline := block.find(b"\n", begin)) >= 0:  # split() would take four times as long
                    line = block[begin:newline]
                    begin = newline + 1
                    self.end = offset + begin
                    if line:
                        yield line
                if begin < len(block):
                    rest = block[begin:]
                    if not is_whole(rest):
                        self.complete = False
                        self.cut(len(rest))
                        return
                    self.end = offset + len(block)
                    yield rest
        finally:
            os.close(descriptor)

    def cut(self, length: int) -> None:
        """Count an incomplete last line if it is the only one: nothing else would tell that the file has contents."""
        if not self.end:
            note(self.counts.damaged, "cut in its first record")
            place(self.counts, self.path, length)

    def decode(self, line: bytes, decoder: msgspec.json.Decoder[T], fallback: type[T]) -> list[T]:
        """Return the records of a line, converted to the adapter's type; count those that cannot be read."""
        try:
            return [decoder.decode(line)]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        found: list[T] = []
        values, is_complete = concatenated_values(line)
        for value in values:
            try:
                try:
                    found.append(msgspec.convert(value, fallback, strict=False))
                except (msgspec.ValidationError, UnicodeEncodeError):
                    # A field of type Raw can only be decoded from bytes, and UTF-8 cannot encode a lone surrogate.
                    encoded = msgspec.json.encode(without_lone_surrogates(value))
                    found.append(msgspec.json.decode(encoded, type=fallback, strict=False))
            except (msgspec.ValidationError, RecursionError):
                note(self.counts.damaged, "unexpected shape")
                place(self.counts, self.path, self.end)
        if not is_complete:
            note(self.counts.damaged, "not JSON")
            place(self.counts, self.path, self.end)
        return found


def note(kinds: dict[str, int], kind: str, count: int = 1) -> None:
    """Add to the count of a kind of record."""
    kinds[kind] = kinds.get(kind, 0) + count


def place(counts: Counts, path: str, offset: int) -> None:
    """Record where a damaged record is; only the first ones are kept."""
    place_named(counts, f"{path}: before byte {offset}")


def place_named(counts: Counts, where: str) -> None:
    """The same, for a record that is not found by its offset."""
    if len(counts.places) < _MOST_PLACES:
        counts.places.append(where)


def ends_whole(path: str) -> bool:
    """Whether a file with one record per line ends with a complete one; true for every other kind of file."""
    descriptor = durable.open_file(path, os.O_RDONLY)
    try:
        size = os.fstat(descriptor).st_size
        if not size or os.pread(descriptor, 1, size - 1) == b"\n":
            return True
        if not is_whole(os.pread(descriptor, _HEAD, 0).partition(b"\n")[0]):
            return True  # a database, or one document on many lines
        last, start = b"", size
        while start and b"\n" not in last:
            begin = max(0, start - durable.COPY_BLOCK)
            last, start = os.pread(descriptor, start - begin, begin) + last, begin
        return is_whole(last.rpartition(b"\n")[2])
    finally:
        os.close(descriptor)


def is_whole(line: bytes) -> bool:
    """Whether a line that has no newline yet is a complete record."""
    values, is_complete = concatenated_values(line)
    return bool(values) and is_complete


def concatenated_values(line: bytes) -> tuple[list[Any], bool]:
    """Return the JSON values that follow one another on a line, and whether the line contains nothing else."""
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
    """Return the value with a replacement character for every lone surrogate: a text may be cut inside an emoji.

    UTF-8 cannot encode a lone surrogate, but JavaScript writes it to JSON as an escape.
    """
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {without_lone_surrogates(name): without_lone_surrogates(item) for name, item in value.items()}
    if isinstance(value, list):
        return [without_lone_surrogates(item) for item in value]
    return value


def value_of(raw: bytes | memoryview) -> Any:
    """Return the only JSON value in these bytes, without lone surrogates; None if there is not exactly one."""
    values, is_complete = concatenated_values(bytes(raw))
    try:
        return without_lone_surrogates(values[0]) if is_complete and len(values) == 1 else None
    except RecursionError:
        return None


def as_utf8(line: bytes) -> bytes | None:
    """Return a record that is invalid only because of lone surrogates, without them; None for any other record."""
    try:
        _any.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = value_of(line)
        return None if value is None else msgspec.json.encode(value)
    return None


def moment(stamp: str | None) -> str:
    """Return a time in our format; most tools already write it, and parsing it would take longer than the record."""
    stamp = stamp or ""
    return stamp if len(stamp) == 24 and stamp[23] == "Z" and stamp[10] == "T" else clock.normalise(stamp)


def one_line_each(data: bytes) -> bytes:
    """Return JSON without two characters at which Node.js ends a line; they occur only in strings, as escapes."""
    return data.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")


def last_match(path: str, pattern: re.Pattern[bytes]) -> str:
    """Return what the last line has that matches in its first bytes (the group); empty if there is none, or no file."""
    last = b""
    try:
        with open(path, "rb", opener=durable.plain_file) as file:
            for line in file:
                found = pattern.search(line, 0, _BEGINNING)
                last = found[1] if found is not None else last
    except OSError:
        return ""
    return last.decode("utf-8", "replace")


def local_moment(stamp: str) -> str:
    """Return a local time without a zone in our format; empty if it is not a time."""
    try:
        return clock.from_epoch(datetime.fromisoformat(stamp).astimezone(UTC).timestamp())
    except (ValueError, OverflowError, OSError):
        return ""


def derived_id(*parts: str | int) -> str:
    """Return an id for a record that has none; every reading of the same record derives the same id."""
    text = "\0".join(str(part) for part in parts)
    return "x" + hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


# ── the cursor of a file that only grows ───────────────────────────────────────────────────────────


_SEEN_HEAD, _SEEN_TAIL = 4096, 512  # bytes that the fingerprint covers


def usable(cursor: dict[str, Any] | None, path: str) -> dict[str, Any] | None:
    """Return the cursor if the file still has the content that it was made for; else None."""
    if not cursor or not isinstance(cursor.get("offset"), int) or not cursor.get("seen"):
        return None
    return cursor if cursor["seen"] == fingerprint(path, cursor["offset"]) else None


def fingerprint(path: str, offset: int) -> str:
    """Return a hash of a file's first bytes and of those before an offset; empty if the file is shorter."""
    try:
        descriptor = durable.open_file(path, os.O_RDONLY)
    except FileNotFoundError:
        return ""
    try:
        if os.fstat(descriptor).st_size < offset:
            return ""
        tail = max(0, offset - _SEEN_TAIL)
        data = os.pread(descriptor, min(_SEEN_HEAD, offset), 0) + b"\0" + os.pread(descriptor, offset - tail, tail)
    finally:
        os.close(descriptor)
    return hashlib.blake2b(data, digest_size=12).hexdigest()
