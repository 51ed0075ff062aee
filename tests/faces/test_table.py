"""Tables are laid out column by column for speed; the result equals a cell-by-cell layout."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from cortext.faces.terminal.output import columns, paint
from cortext.faces.terminal.table import SAMPLE, cut, map_values, pad, shown_statuses, table, width
from cortext.safety import terminal
from cortext.testing.table import every_row

WORDS = (
    "plain", "", "two words", "größer", "日本語", "e\u0301", "esc \x1b[31mred\x1b[0m", "bell\x07", "tab\tnew\nline",
    "\u202egpj.exe", "soft\u00adhyphen", "  around  ", "x" * 120, "\udcff", "a\u200bb",
)  # fmt: skip


def cell_by_cell(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]], styles: tuple[str, ...]) -> str:
    """Lay out the same table cell by cell."""
    shown = [[terminal.line(cell) for cell in row] for row in (heads, *rows)]
    sizes = [max(width(row[index]) for row in shown) for index in range(len(heads))]
    lines = []
    for number, row in enumerate(shown):
        for index in range(len(heads) - 1):
            row[index] = pad(row[index], sizes[index])
        if columns():
            row[-1] = cut(row[-1], max(8, columns() - sum(sizes[:-1]) - 2 * (len(heads) - 1)))
        wanted = ["bold"] * len(heads) if not number else [*styles, *[""] * len(heads)][: len(heads)]
        cells = [paint(cell, style) if style else cell for cell, style in zip(row, wanted, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


@pytest.mark.req("SAFE-01", "LOOK-01")
@every_row("screen", ["", "30", "80"])
@every_row("colour", ["", "1"])
@every_row("count", [0, 1, 7, 3 * SAMPLE])
def test_a_table_equals_the_cell_by_cell_layout(
    screen: str, colour: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", screen)
    monkeypatch.setenv("FORCE_COLOR", colour)
    monkeypatch.delenv("NO_COLOR", raising=False)
    for seed in range(20):
        chance = random.Random(seed)
        heads = ("ID", "größe", "KIND", "TITLE")
        rows = [
            (f"id-{number}", str(number % 3), chance.choice(("a", "日本", "\x1b[2J")), chance.choice(WORDS))
            for number in range(count)
        ]
        if seed % 2:  # no column with repeated values
            rows = [(row[0], row[3] + row[0], row[2] + row[0], row[0] + row[3]) for row in rows]
        assert table(heads, rows, styles=("cyan", "", "dim")) == cell_by_cell(heads, rows, ("cyan", "", "dim"))


@pytest.mark.req("SAFE-01")
def test_one_hostile_cell_among_many_is_made_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    for index in (0, 500, 999):
        rows = [("same", f"title {number}") for number in range(1000)]
        rows[index] = ("\x1b[2Jsame", f"title\x1b]0;owned\x07{index}")
        shown = table(("ID", "TITLE"), rows)
        assert "\x1b" not in shown and "\x07" not in shown
        assert f"␛[2Jsame  title␛]0;owned␇{index}" in shown.split("\n")


def test_a_function_is_called_once_per_distinct_value() -> None:
    asked: list[int] = []

    def describe(value: int) -> str:
        asked.append(value)
        return str(value)

    assert map_values(describe, [3, 1, 3, 3, 1]) == ["3", "1", "3", "3", "1"]
    assert sorted(asked) == [1, 3]


def test_damage_is_shown_beside_the_status() -> None:
    assert shown_statuses(("paused", "", "active"), (1, 2, 0)) == ["paused (damaged)", "(damaged)", "active"]
