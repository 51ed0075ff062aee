"""Snippets: the part of a message that shows why it was found, with the words to highlight."""

from __future__ import annotations

from collections.abc import Callable, Collection

Span = tuple[int, int]

Tokens = Callable[[str], list[tuple[str, int, int]]]  # returns the terms of a text with their offsets

WIDTH = 220  # characters of a snippet
BLOCK = 20_000  # characters that are split into terms together
NEIGHBOUR = 160  # characters of a neighbour


def snippet(text: str, wanted: Collection[str], tokens: Tokens) -> tuple[str, list[Span]]:
    """Return the best part of a text, on one line, and the offsets of the wanted terms in it."""
    flat = " ".join(text.split())
    spans: list[tuple[str, int, int]] = []
    offset = 0
    while offset < len(flat) and not spans and wanted:
        block = flat[offset : offset + BLOCK]
        spans = [(term, start + offset, end + offset) for term, start, end in tokens(block) if term in wanted]
        offset += BLOCK
    if len(flat) <= WIDTH:
        return flat, [(start, end) for _, start, end in spans]
    start = _best_start(spans)
    start = max(0, min(start - WIDTH // 5, len(flat) - WIDTH))
    if start:
        blank = flat.find(" ", start, start + 20)
        start = blank + 1 if blank >= 0 else start
    end = min(len(flat), start + WIDTH)
    if end < len(flat):
        blank = flat.rfind(" ", end - 20, end)
        end = blank if blank > start else end
    lead = "…" if start else ""
    shift = len(lead) - start
    shown = lead + flat[start:end] + ("…" if end < len(flat) else "")
    return shown, [(first + shift, last + shift) for _, first, last in spans if first >= start and last <= end]


def _best_start(spans: list[tuple[str, int, int]]) -> int:
    """Return the offset of the window that has the most different terms."""
    most, best_start = 0, spans[0][1] if spans else 0
    for index, (_, start, _) in enumerate(spans):
        terms: set[str] = set()
        for term, _, end in spans[index : index + 40]:
            if end > start + WIDTH * 4 // 5:
                break
            terms.add(term)
        if len(terms) > most:
            most, best_start = len(terms), start
    return best_start


def shortened(text: str) -> str:
    """Return the beginning of a neighbour, on one line."""
    flat = " ".join(text[: NEIGHBOUR * 4].split())
    return flat if len(flat) <= NEIGHBOUR else flat[: NEIGHBOUR - 1].rstrip() + "…"
