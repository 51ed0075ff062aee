"""Split long texts into messages of at most 4,096 UTF-16 units and 100 entities, where a reader would pause.

Only whitespace at a border is lost, and bold text or code continues as such in the next message.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from itertools import accumulate

from cortext.agents.telegram.formatting import PRE, Styled, cut

LIMIT = 4096
ENTITIES = 100
MOST = 2_000  # a text with more entities than this is not prose: it is shown plain
_JOINERS = "\u200d\ufe0e\ufe0f\u20e3"
_SENTENCE = re.compile(r"[.!?…。！？][\"”»)]*\s|[。！？]")


def units(text: str) -> int:
    """Return the length of a text as Telegram counts it."""
    return len(text) if text.isascii() else len(text) + sum(character > "\uffff" for character in text)


def split(styled: Styled, limit: int = LIMIT) -> list[Styled]:
    """Return the messages that a text becomes; none if it is empty."""
    text = styled.text
    if len(styled.entities) > MOST:
        styled = Styled(text, [])
    pieces: list[Styled] = []
    ends = list(accumulate(1 + (character > "\uffff") for character in text))
    start = 0
    while start < len(text):
        used = ends[start - 1] if start else 0
        end = bisect_right(ends, used + limit)
        end = _few_entities(styled, start, end)
        if end < len(text):
            end = _border(styled, start, end)
        piece = _trimmed(styled, start, end)
        if piece.text:
            pieces.append(piece)
        start = end
    return pieces


def _few_entities(styled: Styled, start: int, end: int) -> int:
    """Return where to end so that a message has at most a hundred entities, Telegram's limit."""
    inside = [entity for entity in styled.entities if entity.start < end and entity.end > start]
    return end if len(inside) <= ENTITIES else max(start + 1, min(end, inside[ENTITIES].start))


def _border(styled: Styled, start: int, end: int) -> int:
    """Return the best offset to split at: after a paragraph, a line, a sentence or a word, else between letters."""
    text = styled.text
    room = end - start
    for entity in styled.entities:
        # Do not split a code block that fits into one message, if enough text is left before it.
        if (
            entity.kind == PRE
            and start + room // 3 <= entity.start < end < entity.end
            and entity.end - entity.start < room
        ):
            return entity.start
    for mark, share in (("\n\n", 0.4), ("\n", 0.4)):
        at = text.rfind(mark, start + int(room * share), end)
        if at >= 0:
            return at + len(mark)
    sentences = [found.end() for found in _SENTENCE.finditer(text, start + room // 2, end)]
    if sentences:
        return sentences[-1]
    blank = text.rfind(" ", start + room // 2, end)
    return blank + 1 if blank >= 0 else _between(text, start, end)


def _between(text: str, start: int, end: int) -> int:
    """Return an offset that is neither between a letter and its accent nor inside a joined emoji."""
    at = end
    while at > start + 1 and end - at < 32 and (_joined(text[at]) or text[at - 1] == "\u200d"):
        at -= 1
    return at if at > start + 1 and end - at < 32 else end


def _joined(character: str) -> bool:
    return character in _JOINERS or unicodedata.combining(character) != 0 or "\U0001f3fb" <= character <= "\U0001f3ff"


def _trimmed(styled: Styled, start: int, end: int) -> Styled:
    """Return the part without whitespace around it; the indentation of code stays."""
    text = styled.text
    while end > start and text[end - 1].isspace():
        end -= 1
    while start < end and text[start].isspace():
        start += 1
    return cut(styled, start, end)
