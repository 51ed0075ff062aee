"""JSON Lines files as bytes: in pieces that end with a newline, in memory that does not grow with the file.

What a line means is said elsewhere; this only finds where each begins and ends.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

BLOCK = 1 << 18  # larger ones are slower: memory of that size is fetched anew each time
SMALL = 1 << 16  # for files with longer lines: the memory is used again, and most of it stays in the processor
FIRST = 1 << 15  # who wants only the beginning need not wait for more
MAX_LINE = 256 * 1024 * 1024

# A piece of a file: where it begins, its bytes (None where it is longer than a line may be), its length.
Piece = tuple[int, bytes | None, int]


def blocks(descriptor: int, start: int, end: int, size: int = BLOCK) -> Iterator[Piece]:
    """The file as pieces that end with a newline (the last may not): many lines a piece."""
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
            length = _line_length(descriptor, offset, offset + len(block), end)
            yield offset, os.pread(descriptor, length, offset) if length <= MAX_LINE else None, length
        offset += length


def _line_length(descriptor: int, start: int, position: int, end: int) -> int:
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
