"""Plain aligned tables: what a person reads and `awk` can cut."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from cortext.faces.terminal.style import coloured, columns, paint
from cortext.safety import terminal


def width(text: str) -> int:
    """How many cells a text takes: wide characters two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def cut(text: str, cells: int) -> str:
    """The text in at most so many cells, an ellipsis where something went."""
    if width(text) <= cells:
        return text
    kept, used = [], 0
    for character in text:
        used += width(character)
        if used > cells - 1:
            break
        kept.append(character)
    return "".join(kept) + "…"


def pad(text: str, cells: int) -> str:
    """The text with blanks up to so many cells."""
    if text.isascii():
        return text.ljust(cells)
    return text + " " * (cells - width(text))


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, styles: Sequence[str] = ()) -> str:
    """Rows under headings; the last column is cut to the screen. Every cell is made safe here."""
    # A whole column at a time: tables can be long, and most columns are plain.
    cells = [list(column) for column in zip(heads, *rows, strict=True)]
    joined = ["".join(column) for column in cells]
    plain = [text.isascii() for text in joined]
    for column, text in zip(cells, joined, strict=True):
        if not text.isprintable():
            column[:] = [cell if cell.isprintable() else terminal.line(cell) for cell in column]
    sizes = [max(map(len if ascii_only else width, column)) for column, ascii_only in zip(cells, plain, strict=True)]
    screen = columns()
    if screen:
        sizes[-1] = max(8, min(sizes[-1], screen - sum(sizes[:-1]) - 2 * (len(sizes) - 1)))
        cells[-1] = [cut(cell, sizes[-1]) for cell in cells[-1]]
    if not coloured() and all(plain[:-1]):
        line = "  ".join([*(f"%-{size}s" for size in sizes[:-1]), "%s"])
        return "\n".join([(line % row).rstrip() for row in zip(*cells, strict=True)])
    for place, (column, size) in enumerate(zip(cells, sizes, strict=True)):
        if place < len(cells) - 1:
            column[:] = [pad(cell, size) for cell in column]
        if coloured():
            style = styles[place] if place < len(styles) else ""
            column[:] = [paint(column[0], "bold"), *(paint(cell, style) if style else cell for cell in column[1:])]
    return "\n".join([line.rstrip() for line in map("  ".join, zip(*cells, strict=True))])
