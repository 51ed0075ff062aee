"""Long tool results, cut to their beginning and their end, where errors are."""

from __future__ import annotations

from cortext.safety.secrets.masking import mask

SHORTENED = "tool result shortened"  # in a receipt
HEAD, TAIL = 300, 100  # characters that are kept
LEAST_CUT = 80  # characters: for fewer, the note of what is missing is not worth it
_WINDOW = 64_000  # characters at either end of a huge result that are masked; a secret is shorter


def shorten(output: str, head: int = HEAD, tail: int = TAIL) -> str:
    """Return the beginning and the end of a long tool result, with a note of what is missing.

    What is cut is masked before, because half a secret would not be recognised later.
    """
    if len(output) - head - tail < LEAST_CUT:
        return output
    if len(output) > 3 * _WINDOW:  # to mask all of it would take seconds for some megabytes
        first, last = mask(output[:_WINDOW]).text, mask(output[-_WINDOW:]).text
        # A window that is full of secrets shrinks, and the one that its edge cuts in two would come into view.
        if min(len(first), len(last)) > _WINDOW // 2:
            return _cut(first, last, len(output) - head - tail, head, tail)
    whole = mask(output).text
    missing = len(whole) - head - tail
    return whole if missing < LEAST_CUT else _cut(whole, whole, missing, head, tail)


def _cut(first: str, last: str, missing: int, head: int, tail: int) -> str:
    note = f"[… {missing:,} characters of this result left out …]"
    return f"{first[:head]}\n{note}\n{last[len(last) - tail :]}"
