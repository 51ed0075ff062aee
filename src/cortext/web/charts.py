"""Charts as SVG made here: an activity calendar and bars. Colours come from the style sheet, numbers from a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from html import escape
from typing import NamedTuple

from markupsafe import Markup

from cortext.safety import terminal

CELL, GAP = 11, 3  # of the calendar
LEVELS = 4  # shades
LEFT, TOP = 30, 18  # of the calendar, for the names of days and months
WIDTH, HEIGHT = 720, 140  # of the bars by day
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class Bar(NamedTuple):
    """A name and its value, with a link."""

    name: str
    value: int
    link: str = ""


def level(value: int, most: int) -> int:
    """Return the shade of a value, from 0 for nothing to LEVELS."""
    return 0 if value <= 0 else min(LEVELS, 1 + (value * LEVELS - 1) // max(1, most))


def calendar(counts: Mapping[str, int], today: date, weeks: int = 53, unit: str = "messages") -> Markup:
    """Return a year as weeks of squares, the darker the more; each square has its date and count as a title."""
    start = today - timedelta(days=today.weekday() + 7 * (weeks - 1))
    shown = {day: value for day, value in counts.items() if day >= start.isoformat()}
    most = max(shown.values(), default=0)
    step = CELL + GAP
    parts = []
    month = 0
    for week in range(weeks):
        monday = start + timedelta(weeks=week)
        if monday.month != month and monday.day <= 7:
            parts.append(
                f'<text class="axis" x="{LEFT + week * step}" y="{TOP - 6}">{_MONTHS[monday.month - 1]}</text>'
            )
        month = monday.month
        for weekday in range(7):
            day = monday + timedelta(days=weekday)
            if day > today:
                break
            value = shown.get(day.isoformat(), 0)
            parts.append(
                f'<rect class="level-{level(value, most)}" x="{LEFT + week * step}" y="{TOP + weekday * step}" '
                f'width="{CELL}" height="{CELL}" rx="2">'
                f"<title>{day.isoformat()}: {value:,} {escape(unit)}</title></rect>"
            )
    for weekday, name in ((0, "Mon"), (2, "Wed"), (4, "Fri")):
        parts.append(f'<text class="axis" x="0" y="{TOP + weekday * step + CELL - 1}">{name}</text>')
    width, height = LEFT + weeks * step, TOP + 7 * step
    label = f"Activity by day: {sum(shown.values()):,} {unit} in a year"
    return _svg("calendar", width, height, label, parts)


def days(bars: Sequence[Bar], unit: str) -> Markup:
    """Return columns by day."""
    most = max((bar.value for bar in bars), default=0)
    step = WIDTH / max(1, len(bars))
    parts = [f'<line class="base" x1="0" x2="{WIDTH}" y1="{HEIGHT - 20}" y2="{HEIGHT - 20}"/>']
    for index, bar in enumerate(bars):
        height = round(bar.value / most * (HEIGHT - 34), 1) if most else 0
        height = max(height, 1.5) if bar.value else 0
        parts.append(
            f'<rect class="bar" x="{index * step + step * 0.12:.1f}" y="{HEIGHT - 20 - height:.1f}" '
            f'width="{step * 0.76:.1f}" height="{height:.1f}" rx="1.5">'
            f"<title>{escape(terminal.line(bar.name))}: {bar.value:,} {escape(unit)}</title></rect>"
        )
    for index in sorted({0, len(bars) // 2, len(bars) - 1}) if bars else ():
        place = ("start", "middle", "end")[0 if index == 0 else 2 if index == len(bars) - 1 else 1]
        x = 0 if place == "start" else WIDTH if place == "end" else (index + 0.5) * step
        parts.append(
            f'<text class="axis" x="{x:.0f}" y="{HEIGHT - 5}" text-anchor="{place}">'
            f"{escape(terminal.line(bars[index].name))}</text>"
        )
    parts.append(f'<text class="axis" x="0" y="10">{most:,} {escape(unit)}</text>')
    return _svg("days", WIDTH, HEIGHT, f"{unit} by day, at most {most:,}", parts)


def share(value: int, most: int) -> Markup:
    """Return a horizontal bar for a row of a table."""
    width = max(1.0, round(100 * value / most, 1)) if value and most else 0
    rect = f'<rect class="bar" width="{width}" height="8" rx="2"/>'
    return Markup(f'<svg class="share" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">{rect}</svg>')


def _svg(name: str, width: float, height: float, label: str, parts: Sequence[str]) -> Markup:
    size = f'viewBox="0 0 {width:.0f} {height:.0f}"'
    return Markup(f'<svg class="chart {name}" {size} role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>')
