"""JSON Lines files as bytes: in pieces that end with a newline, in memory that does not grow with the file.

What a line means is said elsewhere; this only finds where each begins and ends.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator

BLOCK = 1 << 18  # larger ones are slower: memory of that size is fetched anew each time
SMALL = 1 << 16  # for files with longer lines: the memory is used again, and most of it stays in the processor
FIRST = 1 << 15  # who wants only the beginning need not wait for more
MAX_LINE = 256 * 1024 * 1024
LONG = 1 << 22  # a line longer than this is shortened where only little of it is wanted

# A piece of a file: where it begins, its bytes (None where it is longer than a line may be), its length.
Piece = tuple[int, bytes | None, int]


def blocks(descriptor: int, start: int, end: int, size: int = BLOCK, longest: int = 0) -> Iterator[Piece]:
    """The file as pieces that end with a newline (the last may not): many lines a piece.

    The bytes of a line that is longer than `longest` (else than any may be) are not read.
    """
    offset, wanted = start, min(size, FIRST)
    while offset < end:
        block = os.pread(descriptor, min(wanted, end - offset), offset)
        wanted = size
        if not block:
            return  # the file became shorter while we read
        length = block.rfind(b"\n") + 1
        if length:
            yield offset, block[:length], length
        elif offset + len(block) >= end:
            length = len(block)
            yield offset, block, length
        else:
            # A long line: find its end first, so that one that is too long is never held in memory.
            length = line_length(descriptor, offset, offset + len(block), end)
            yield offset, os.pread(descriptor, length, offset) if length <= (longest or MAX_LINE) else None, length
        offset += length


def line_length(descriptor: int, start: int, position: int, end: int) -> int:
    """The length of the line that begins at `start` and goes on at `position`."""
    while position < end:
        block = os.pread(descriptor, min(BLOCK, end - position), position)
        if not block:
            break
        newline = block.find(b"\n")
        if newline >= 0:
            return position + newline + 1 - start
        position += len(block)
    return position - start


def shortened(descriptor: int, start: int, length: int, most: int = LONG) -> bytes | None:
    """A line of JSON with every text in it cut to `most` bytes, and never more of it in memory than that.

    None where it is not JSON by the book: then only the whole line tells what it is.
    """
    text = re.compile(rb'(?:[^"\\\x00-\x1f]+|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
    decoder = codecs.getincrementaldecoder("utf-8")()
    found = bytearray()
    inside, begin, rest = False, 0, b""
    for offset in range(start, start + length, BLOCK):
        chunk = os.pread(descriptor, min(BLOCK, start + length - offset), offset)
        try:
            decoder.decode(chunk)
        except UnicodeDecodeError:
            return None
        piece, place, rest = rest + chunk, 0, b""
        while place < len(piece):
            if not inside:
                end = piece.find(b'"', place) + 1
                inside = end > 0
                found += piece[place : end or len(piece)]
                place, begin = end or len(piece), len(found)
                continue
            match = text.match(piece, place)
            end = match.end() if match else place
            found += piece[place : min(end, place + begin + most + 1 - len(found))]
            place = end
            if piece[end : end + 1] == b'"':
                _cut(found, begin, most)
                found += b'"'
                inside, place = False, end + 1
            elif end < len(piece):
                if piece[end] != ord("\\") or len(piece) - end >= 6:  # not an escape that goes on in the next chunk
                    return None
                rest = piece[end:]
                break
    return None if inside or rest else bytes(found)


def _cut(found: bytearray, begin: int, most: int) -> None:
    """Cut the text of JSON that begins there, where it is longer than that, between two characters."""
    if len(found) - begin <= most:
        return
    pair = rb"u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    single = rb'["\\/bfnrt]|u(?![dD][89abAB])[0-9a-fA-F]{4}'
    whole = re.compile(rb'(?:[^"\\]+|\\(?:' + single + rb"|" + pair + rb"))*+").match(found, begin, begin + most)
    del found[whole.end() if whole else begin :]
    try:
        found[begin:].decode("utf-8")
    except UnicodeDecodeError as half:
        del found[begin + half.start :]


def split_lines(piece: bytes) -> list[bytes]:
    """Lines by newline alone: bytes.splitlines would also cut at a carriage return inside one."""
    lines = piece.split(b"\n")
    whole = [line + b"\n" for line in lines[:-1]]
    return [*whole, lines[-1]] if lines[-1] else whole


def no_number(name: str) -> None:
    """NaN and Infinity, which some programs write and JSON does not have: no value."""


def finite(digits: str) -> float | None:
    """A number as JSON spells it; one that is beyond any (1e400) is no value."""
    value = float(digits)
    return value if value - value == 0 else None
