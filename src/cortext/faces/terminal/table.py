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
    # Most cells are plain: what is printable needs no look for control characters. Tables can be long.
    safe = [[cell if cell.isprintable() else terminal.line(cell) for cell in row] for row in rows]
    widths = [max(map(width, column)) for column in zip(heads, *safe, strict=True)]
    screen = columns()
    if screen:
        used = sum(widths[:-1]) + 2 * (len(widths) - 1)
        widths[-1] = max(8, min(widths[-1], screen - used))
    padded = [pad(head, size) for head, size in zip(heads[:-1], widths[:-1], strict=True)]
    lines = ["  ".join(paint(head, "bold") for head in (*padded, heads[-1]))]
    painted = [place for place, style in enumerate(styles) if style] if coloured() else []
    last = widths[-1]
    for row in safe:
        cells = [pad(cell, size) for cell, size in zip(row[:-1], widths[:-1], strict=True)]
        cells.append(cut(row[-1], last))
        for place in painted:
            cells[place] = paint(cells[place], styles[place])
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
