"""Amounts, lists and long texts as people and models read them: "2 messages", "a, b and 3 more", cut with an ellipsis.

What is cut is masked before: half a secret has no recognisable form.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

from cortext.model import tokens

_LONGEST_WORD = 80
NAMES = "Files and identifiers"  # the heading of the names in a summary that a model wrote
HEADING = re.compile(r"^#{1,4}\s*(.+?)\s*:?\s*$", re.MULTILINE)


def amount(count: int, noun: str) -> str:
    """Return a number with its noun: `1 message`, `2 messages`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def times(count: int) -> str:
    """Return how often: `once`, `2 times`."""
    return "once" if count == 1 else f"{count:,} times"


def listed(names: Sequence[str], most: int, shown: Callable[[str], str] = str) -> str:
    """Return at most so many names, as they are `shown`, and how many there are besides: `a, b and 3 more`."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(map(shown, names[:most])) + more


def kinds(counts: Mapping[str, int]) -> str:
    """Return how many there are of each kind: `2 × api key, 1 × password`."""
    return ", ".join(f"{count} × {kind}" for kind, count in sorted(counts.items()))


def quoted(text: str, longest: int) -> str:
    """Return the text in quotes, on one line, cut to at most so many characters."""
    return f'"{clip(text, longest)}"'


def ends(beginning: str, end: str, missing: int, what: str = "") -> str:
    """Return the beginning and the end of a long text, with a note of how many characters are missing between them."""
    return f"{beginning}\n[… {missing:,} characters {what}left out …]\n{end}"


def cut(text: str, longest: int) -> str:
    """Return the text, cut to at most so many characters with an ellipsis."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def clip(text: str, longest: int = 240) -> str:
    """Return the text on one line, cut to at most so many characters with an ellipsis."""
    return cut(" ".join(text.split()), longest)


def clip_summary(text: str, longest: int, lines: int = 0) -> str:
    """Return a summary in at most so many characters, and lines (0: any number); `…` stands where some are missing.

    In one with headings, the last section (what is next) and that of the names are shortened after all others.
    """
    if len(text) > longest:
        kept = _fitting(text.splitlines(), longest, lambda line: len(line) + 1)
        text = cut("\n".join(kept), longest) if kept else clip(text, longest)
    if lines and len(text.splitlines()) > lines:
        text = "\n".join(_fitting(text.splitlines(), lines, lambda line: 1))
    return text


def _fitting(lines: list[str], most: int, cost: Callable[[str], int]) -> list[str]:
    """Return the lines of a summary that cost at most so much in all; none if it is one of long lines."""
    starts = [index for index, line in enumerate(lines) if HEADING.match(line)]
    if len(starts) < 2:
        first = _first_lines(lines, most, cost)
        return first if sum(map(cost, first)) > most // 2 else []
    sections = [lines[start:end] for start, end in zip([0, *starts[1:]], [*starts[1:], len(lines)], strict=True)]
    last = len(sections) - 1
    names = [index for index in range(last) if heading_of(sections[index][0]) == NAMES.casefold()]
    others = [index for index in range(last) if index not in names]
    kept: dict[int, list[str]] = {last: _kept_lines(sections[last], most // 2, cost)}
    for index in names[:1]:
        room = most - sum(map(cost, kept[last]))
        spare = room - sum(cost(line) for other in others for line in sections[other])
        kept[index] = _kept_lines(
            sections[index], max(room // 2, spare, min(_least(sections[index], cost), room)), cost
        )
    for place, index in enumerate(others):
        room = most - sum(cost(line) for section in kept.values() for line in section)
        most_here = max(room // (len(others) - place), min(_least(sections[index], cost), room))
        share = _first_lines(sections[index], most_here, cost)
        kept[index] = share if len(share) > 2 or share == sections[index] else []
    return [line for index in sorted(kept) for line in kept[index]]


def _least(section: list[str], cost: Callable[[str], int]) -> int:
    """Return the cost of the heading of a section and a line below it."""
    return sum(map(cost, section[:2])) + cost("…")


def _first_lines(lines: list[str], most: int, cost: Callable[[str], int]) -> list[str]:
    if sum(map(cost, lines)) <= most:
        return lines
    used = list(accumulate(map(cost, lines), initial=cost("…")))
    return [*lines[: bisect_right(used, most) - 1], "…"] if used[0] <= most else []


def _kept_lines(lines: list[str], most: int, cost: Callable[[str], int]) -> list[str]:
    """Return the first lines of a section of which something must remain: if need be, the first words."""
    kept = _first_lines(lines, most, cost)
    if len(kept) > 2 or kept == lines:
        return kept
    return [lines[0], clip(" ".join(lines[1:]), max(most - len(lines[0]) - 2, 1))]


def heading_of(line: str) -> str:
    """Return the words of a heading of a summary, for a comparison; empty for any other line."""
    found = HEADING.match(line)
    return found[1].strip("*_ ").casefold() if found else ""


def clip_tokens(text: str, most: int) -> str:
    """Return the beginning of a text in at most so many tokens, with an ellipsis if something is missing."""
    if tokens.estimate(text) <= most:
        return text
    low, high = 0, min(len(text), 4 * max(most, 0))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if tokens.estimate(text[:middle]) < most else (low, middle - 1)
    return text[: _after_a_word(text, low)].rstrip() + "…" if low else ""


def _after_a_word(text: str, end: int) -> int:
    """Return where to cut so that no word is cut: half a name would be one that nobody used.

    Scripts without blanks are cut anywhere.
    """
    start = text.rfind(" ", max(0, end - _LONGEST_WORD), end + 1)
    return start if start > 0 and text[start:end].isascii() else end
