"""JSON Lines files as bytes: in blocks that end with a newline, in memory that does not grow with the file.

This only finds where each line begins and ends; what a line means is decided elsewhere.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator

BLOCK = 1 << 18  # larger blocks are slower: their memory is allocated again each time
SMALL = 1 << 16  # for files with longer lines: the memory is reused, and most of it stays in the processor's cache
FIRST = 1 << 15  # the first block is small, for callers that only want the beginning
MAX_LINE = 256 * 1024 * 1024
LONG = 1 << 22  # a line longer than this is shortened if only little of it is needed

# A piece of a file: its offset, its bytes (None if it is longer than a line may be), its length.
Piece = tuple[int, bytes | None, int]


def blocks(descriptor: int, start: int, end: int, size: int = BLOCK, longest: int = 0) -> Iterator[Piece]:
    """Yield the file in pieces of many lines that end with a newline (the last one may not).

    The bytes of a line longer than `longest` (or MAX_LINE) are not read.
    """
    offset, wanted = start, min(size, FIRST)
    while offset < end:
        block = os.pread(descriptor, min(wanted, end - offset), offset)
        wanted = size
        if not block:
            return  # the file was truncated while we read
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
    """Return the length of the line that begins at `start` and continues at `position`."""
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
    """Return a line of JSON with every string truncated to `most` bytes, never holding more than that in memory.

    None if it is not valid JSON: then only the whole line can tell what it is.
    """
    # An atomic group and not `*+`: Python 3.11.2 continues wrongly after half an escape.
    text = re.compile(rb'(?>(?:[^"\\\x00-\x1f]+|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*)')
    decoder = codecs.getincrementaldecoder("utf-8")()
    found = bytearray()
    inside, begin, rest = False, 0, b""
    for offset in range(start, start + length, BLOCK):
        chunk = os.pread(descriptor, min(BLOCK, start + length - offset), offset)
        try:
            decoder.decode(chunk)
        except UnicodeDecodeError:
            return None
        piece, at, rest = rest + chunk, 0, b""
        while at < len(piece):
            if not inside:
                end = piece.find(b'"', at) + 1
                inside = end > 0
                found += piece[at : end or len(piece)]
                at, begin = end or len(piece), len(found)
                continue
            match = text.match(piece, at)
            end = match.end() if match else at
            found += piece[at : min(end, at + begin + most + 1 - len(found))]
            at = end
            if piece[end : end + 1] == b'"':
                _truncate(found, begin, most)
                found += b'"'
                inside, at = False, end + 1
            elif end < len(piece):
                if piece[end] != ord("\\") or len(piece) - end >= 6:  # not an escape that continues in the next chunk
                    return None
                rest = piece[end:]
                break
    return None if inside or rest else bytes(found)


def _truncate(found: bytearray, begin: int, most: int) -> None:
    """Cut the text of JSON that begins there, where it is longer than that, between two characters."""
    if len(found) - begin <= most:
        return
    pair = rb"u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    single = rb'["\\/bfnrt]|u(?![dD][89abAB])[0-9a-fA-F]{4}'
    whole = re.compile(rb'(?>(?:[^"\\]+|\\(?:' + single + rb"|" + pair + rb"))*)").match(found, begin, begin + most)
    del found[whole.end() if whole else begin :]
    try:
        found[begin:].decode("utf-8")
    except UnicodeDecodeError as half:
        del found[begin + half.start :]


def split_lines(piece: bytes) -> list[bytes]:
    """Split lines at newlines only: bytes.splitlines would also split at a carriage return."""
    lines = piece.split(b"\n")
    whole = [line + b"\n" for line in lines[:-1]]
    return [*whole, lines[-1]] if lines[-1] else whole


def no_number(name: str) -> None:
    """Decode NaN and Infinity, which some programs write although JSON does not have them, as None."""


def finite(digits: str) -> float | None:
    """Decode a JSON number; one that overflows (1e400) becomes None."""
    value = float(digits)
    return value if value - value == 0 else None
