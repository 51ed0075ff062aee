"""Plain aligned tables, for people to read and for `awk` to split."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from cortext.faces.terminal.output import columns, paint, style_codes
from cortext.safety import terminal

_INVISIBLE = "\u200d\u200e\u200f"  # the joiner in emoji, and marks of direction
SAMPLE = 64  # cells of a column that show whether its values repeat


Value = TypeVar("Value", bound=Hashable)


def width(text: str) -> int:
    """Return how many columns a text takes: wide characters two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0
        if unicodedata.category(character) in ("Mn", "Me") or character in _INVISIBLE
        else 2
        if unicodedata.east_asian_width(character) in "WF"
        else 1
        for character in text
    )


def cut(text: str, cells: int) -> str:
    """Return the text cut to at most this many columns, with an ellipsis if it was cut."""
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
    """Return the text padded with blanks to this many columns."""
    if text.isascii():
        return text.ljust(cells)
    return text + " " * (cells - width(text))


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, styles: Sequence[str] = ()) -> str:
    """Return rows under headings; the last column is cut to the screen. Every cell is made safe here."""
    return columns_table(heads, list(zip(*rows, strict=True)) if rows else [()] * len(heads), styles=styles)


def columns_table(heads: Sequence[str], given: Sequence[Sequence[str]], *, styles: Sequence[str] = ()) -> str:
    """Return the same table from its columns: for a very long one, faster than cell by cell."""
    screen, used, laid = columns(), 0, []
    for index, (head, cells) in enumerate(zip(heads, given, strict=True)):
        # If values repeat, each is formatted once.
        sample = cells[:SAMPLE]
        values = list(set(cells)) if 2 * len(set(sample)) < len(sample) else []
        head, (made, plain) = terminal.line(head), _safe(values or cells)
        size = max(width(head), max(map(len if plain else width, made), default=0))
        if index < len(heads) - 1:
            made = [cell.ljust(size) for cell in made] if plain else [pad(cell, size) for cell in made]
            head = pad(head, size)
            used += size + 2
        elif screen:
            room = max(8, screen - used)
            made = [cut(cell, room) for cell in made]
            head = cut(head, room)
        before, after = style_codes(*filter(None, styles[index : index + 1]))
        if before:
            made = [f"{before}{cell}{after}" if cell else cell for cell in made]
        if values:
            made = list(map(dict(zip(values, made, strict=True)).__getitem__, cells))
        laid.append([paint(head, "bold"), *made])
    return "\n".join([line.rstrip() for line in map("  ".join, zip(*laid, strict=True))])


class Column:
    """A column of a table that fits the screen. With `rank` 0 it is always shown; the highest rank is dropped first."""

    def __init__(self, head: str, cells: Sequence[str], *, rank: int = 0, right: bool = False, style: str = "") -> None:
        self.head, self.cells, self.rank, self.right, self.style = head, cells, rank, right, style

    @property
    def size(self) -> int:
        """Its width."""
        return max(width(self.head), max(map(width, self.cells), default=0))


def fitted_table(given: Sequence[Column], stretched: int, screen: int, *, least: int = 0) -> tuple[str, list[str]]:
    """Return a table that is no wider than the screen, and the headings of the columns that it shows.

    Columns are dropped until the stretched one has a third of the screen (or `least`, or all that it needs); longer
    cells in it are cut. Its cells are made safe here, as those of every table.
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


def map_values(function: Callable[[Value], str], values: Sequence[Value]) -> list[str]:
    """Return the function's result for every value; it is called once for equal values."""
    texts = {value: function(value) for value in set(values)}
    return list(map(texts.__getitem__, values))


def shown_statuses(statuses: Sequence[str], damage: Sequence[int], branches: Sequence[int] = ()) -> Sequence[str]:
    """Return the statuses of sessions for a table: damage is marked, and several branches are."""
    if any(count > 1 for count in branches):
        pairs = zip(statuses, branches, strict=True)
        statuses = [f"{status}, {count} branches" if count > 1 else status for status, count in pairs]
    if not any(damage):
        return statuses
    return [f"{status} (damaged)".lstrip() if bad else status for status, bad in zip(statuses, damage, strict=True)]


def _safe(cells: Sequence[str]) -> tuple[Sequence[str], bool]:
    """Return the cells without control characters, and whether all are ASCII; checked all at once, for speed."""
    text = "".join(cells)
    if text.isprintable():
        return cells, text.isascii()
    safe = [cell if cell.isprintable() else terminal.line(cell) for cell in cells]
    return safe, all(map(str.isascii, safe))
