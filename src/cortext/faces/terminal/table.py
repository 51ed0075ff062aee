"""Plain aligned tables: what a person reads and `awk` can cut."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from cortext.faces.terminal.style import brush, columns, paint
from cortext.safety import terminal

JOINER = "\u200d"  # between the pieces of an emoji: of no width
SAMPLE = 64  # so many cells of a column show whether its words come again and again


Value = TypeVar("Value", bound=Hashable)


def width(text: str) -> int:
    """How many cells a text takes: wide characters two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0
        if unicodedata.category(character) in ("Mn", "Me") or character == JOINER
        else 2
        if unicodedata.east_asian_width(character) in "WF"
        else 1
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
    return columns_table(heads, list(zip(*rows, strict=True)) if rows else [()] * len(heads), styles=styles)


def columns_table(heads: Sequence[str], given: Sequence[Sequence[str]], *, styles: Sequence[str] = ()) -> str:
    """The same table by its columns: where it is very long, that is quicker than cell by cell."""
    screen, used, laid = columns(), 0, []
    for place, (head, cells) in enumerate(zip(heads, given, strict=True)):
        # Where the same words come again and again, each is laid out once.
        sample = cells[:SAMPLE]
        words = list(set(cells)) if 2 * len(set(sample)) < len(sample) else []
        head, (made, plain) = terminal.line(head), _safe(words or cells)
        size = max(width(head), max(map(len if plain else width, made), default=0))
        if place < len(heads) - 1:
            made = [cell.ljust(size) for cell in made] if plain else [pad(cell, size) for cell in made]
            head = pad(head, size)
            used += size + 2
        elif screen:
            room = max(8, screen - used)
            made = [cut(cell, room) for cell in made]
            head = cut(head, room)
        before, after = brush(*filter(None, styles[place : place + 1]))
        if before:
            made = [f"{before}{cell}{after}" if cell else cell for cell in made]
        if words:
            made = list(map(dict(zip(words, made, strict=True)).__getitem__, cells))
        laid.append([paint(head, "bold"), *made])
    return "\n".join([line.rstrip() for line in map("  ".join, zip(*laid, strict=True))])


class Column:
    """A column of a table that fits the screen. `rank` 0: always there; else the highest rank drops out first."""

    def __init__(self, head: str, cells: Sequence[str], *, rank: int = 0, right: bool = False, style: str = "") -> None:
        self.head, self.cells, self.rank, self.right, self.style = head, cells, rank, right, style

    @property
    def size(self) -> int:
        """How wide it is."""
        return max(width(self.head), max(map(width, self.cells), default=0))


def fitted_table(given: Sequence[Column], stretched: int, screen: int, *, least: int = 0) -> tuple[str, list[str]]:
    """A table that is no wider than the screen, and the headings of the columns that it shows.

    Columns drop out until the stretched one has a third of the screen (or `least`, or all that it needs); what is too
    long in it is cut. Its cells are made safe here, as those of every table.
    """
    main = given[stretched]
    main.cells = [terminal.line(cell) for cell in main.cells]
    needed = min(main.size, least or max(16, screen // 3))
    sizes = {column.head: column.size for column in given}
    shown = list(given)

    def room() -> int:
        return screen - sum(sizes[column.head] + 2 for column in shown if column is not main)

    while room() < needed and any(column.rank for column in shown):
        shown.remove(max(shown, key=lambda column: column.rank))
    main.cells = [cut(cell, max(8, room())) for cell in main.cells]
    for column in shown:
        if column.right:
            size = sizes[column.head]
            column.cells, column.head = [cell.rjust(size) for cell in column.cells], column.head.rjust(size)
    heads = [column.head for column in shown]
    made = columns_table(heads, [column.cells for column in shown], styles=[column.style for column in shown])
    return made, [head.strip() for head in heads]


def each(function: Callable[[Value], str], values: Sequence[Value]) -> list[str]:
    """The function of every value; where the same ones come again and again, of each only once."""
    made = {value: function(value) for value in set(values)}
    return list(map(made.__getitem__, values))


def shown_statuses(statuses: Sequence[str], damage: Sequence[int]) -> Sequence[str]:
    """The statuses of sessions as a table shows them: damage is marked."""
    if not any(damage):
        return statuses
    return [f"{status} (damaged)".lstrip() if bad else status for status, bad in zip(statuses, damage, strict=True)]


def _safe(cells: Sequence[str]) -> tuple[Sequence[str], bool]:
    """The cells, none of which can control the terminal, and whether all are ASCII; looked at all at once."""
    text = "".join(cells)
    if text.isprintable():
        return cells, text.isascii()
    safe = [cell if cell.isprintable() else terminal.line(cell) for cell in cells]
    return safe, all(map(str.isascii, safe))
