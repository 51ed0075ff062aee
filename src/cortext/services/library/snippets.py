"""The piece of a message that shows why it was found, and where in it the words are."""

from __future__ import annotations

from collections.abc import Callable, Collection

Span = tuple[int, int]

Tokens = Callable[[str], list[tuple[str, int, int]]]  # the terms of a text with their places

WIDTH = 220  # characters of a snippet
BLOCK = 20_000  # characters that are looked at together
SHORT = 160  # characters of a neighbour


def snippet(text: str, lit: Collection[str], tokens: Tokens) -> tuple[str, list[Span]]:
    """The best window of a text, on one line, and the places of the words in it."""
    flat = " ".join(text.split())
    spans: list[tuple[str, int, int]] = []
    offset = 0
    while offset < len(flat) and not spans and lit:
        piece = flat[offset : offset + BLOCK]
        spans = [(term, start + offset, end + offset) for term, start, end in tokens(piece) if term in lit]
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
    """Where the window begins that holds the most different words."""
    best, where = 0, spans[0][1] if spans else 0
    for number, (_, start, _) in enumerate(spans):
        there: set[str] = set()
        for term, _, end in spans[number : number + 40]:
            if end > start + WIDTH * 4 // 5:
                break
            there.add(term)
        if len(there) > best:
            best, where = len(there), start
    return where


def shortened(text: str) -> str:
    """The beginning of a neighbour, on one line."""
    flat = " ".join(text[: SHORT * 4].split())
    return flat if len(flat) <= SHORT else flat[: SHORT - 1].rstrip() + "…"
