"""A model's markdown for Telegram: plain text plus entities that say which part of it is bold, code or a link.

Entities instead of Telegram's own markup: there is nothing to escape, so no text can break a message or smuggle a link
into it. Malformed markdown stays as it was written. One pass over the text, however hostile it is.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from typing import NamedTuple

from cortext.safety import terminal

BOLD, ITALIC, STRIKE, CODE, PRE, LINK, QUOTE = (
    "bold",
    "italic",
    "strikethrough",
    "code",
    "pre",
    "text_link",
    "blockquote",
)

_FENCE = re.compile(r"^\s{0,3}(`{3,}|~{3,})\s*([\w+#.-]{0,40})[^`]*$")
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s+(.*?)\s*#*$")
_BULLET = re.compile(r"^(\s*)(?:[-*+]\s+\[([ xX])\]|[-*+])\s+(?=\S)")
_RULE = re.compile(r"^\s{0,3}(?:-{3,}|\*{3,}|_{3,})\s*$")
_ROW = re.compile(r"^\s*\|.*\|\s*$")
_UNDER_HEADS = re.compile(r"^\s*\|?(?:\s*:?-+:?\s*\|)+(?:\s*:?-+:?\s*)?$")
_CELL = re.compile(r"(?<!\\)\|")
_INLINE = re.compile(
    r"\\([\\`*_~\[\]()#<>|.!+-])"  # an escaped character
    r"|<((?:https?://|mailto:|tg://)[^\s<>]{1,2000}|[\w.+-]{1,64}@[\w.-]{1,200})>"  # an autolink
    r"|((?<!\w)__[a-z0-9]+(?:_[a-z0-9]+)*__|https?://[^\s<>()\[\]`*\\|]+)"  # __init__ and URLs are not markup
    r"|(`+)|(\*\*\*|\*\*|\*|__|_|~~)|(!?\[)"
    r"|\]\(\s*<?([^\s()<>]{1,2000}(?:\([^\s()<>]*\))?)>?(?:\s+\"[^\"]{0,500}\")?\s*\)"
)
_IMAGE = "🖼 "
_BOXES = {" ": "☐", "x": "☑", "X": "☑"}
_STYLES = {"**": (BOLD,), "__": (BOLD,), "*": (ITALIC,), "_": (ITALIC,), "~~": (STRIKE,), "***": (BOLD, ITALIC)}
_SAFE_LINK = re.compile(r"(?:https?://|tg://|mailto:)", re.IGNORECASE)
_DEEPEST = 50  # marks that may be open at the same time: more are not real markdown


class Entity(NamedTuple):
    """A part of a text (in characters) and how it is shown."""

    kind: str
    start: int
    end: int
    url: str = ""
    language: str = ""


class Styled(NamedTuple):
    """A text and its entities, in the order of their starts."""

    text: str
    entities: list[Entity]


def render(markdown: str) -> Styled:
    """Render a model's markdown, complete or still growing, as text and entities."""
    out = _Out()
    lines = terminal.block(markdown).expandtabs(4).split("\n")
    index = 0
    while index < len(lines):
        line = lines[index]
        fence = _FENCE.match(line)
        if fence:
            index = _fenced(out, lines, index, fence.group(1), fence.group(2))
        elif "|" in line and index + 1 < len(lines) and _UNDER_HEADS.match(lines[index + 1]):
            first = index
            index += 2
            while index < len(lines) and "|" in lines[index]:
                index += 1
            out.block(PRE, _table(lines[first], lines[first + 1], lines[first + 2 : index]))
        elif _ROW.match(line) and index + 1 < len(lines) and _ROW.match(lines[index + 1]):
            first = index
            while index < len(lines) and _ROW.match(lines[index]):
                index += 1
            out.block(PRE, "\n".join(row.strip() for row in lines[first:index]))
        elif line.lstrip().startswith(">"):
            start = out.size
            while index < len(lines) and lines[index].lstrip().startswith(">"):
                _inline(out, lines[index].lstrip()[1:].lstrip())
                out.add("\n")
                index += 1
            out.entities.append(Entity(QUOTE, start, max(start, out.size - 1)))
        else:
            _plain_line(out, line)
            index += 1
    styled = _tidy("".join(out.pieces), out.entities)
    # Markdown that renders to nothing (a lone fence) is shown as it was written: no text may vanish.
    return styled if styled.text else Styled(terminal.block(markdown).strip(), [])


class _Out:
    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.size = 0
        self.entities: list[Entity] = []

    def add(self, text: str) -> None:
        self.pieces.append(text)
        self.size += len(text)

    def block(self, kind: str, text: str, language: str = "") -> None:
        if text:
            self.entities.append(Entity(kind, self.size, self.size + len(text), language=language))
        self.add(f"{text}\n")


def _fenced(out: _Out, lines: list[str], index: int, mark: str, language: str) -> int:
    """Add a code block, up to its end or the end of the text so far; return the index of the line after it."""
    first = index + 1
    index = first
    while index < len(lines) and not (lines[index].strip().startswith(mark) and not lines[index].strip(" `~")):
        index += 1
    out.block(PRE, "\n".join(lines[first:index]), language)
    return index + 1


def _table(heads: str, under: str, rows: list[str]) -> str:
    """Return a table in columns, each as wide as its widest cell and aligned as its header says."""
    cells = [[_shown(cell) for cell in _cells(row)] for row in (heads, *rows)]
    marks = [mark.strip() for mark in _cells(under)]
    count = max(len(marks), *map(len, cells))
    full = [row + [""] * (count - len(row)) for row in cells]
    widths = [max(1, *(_width(row[column]) for row in full)) for column in range(count)]
    marks += [""] * (count - len(marks))
    lines = [" | ".join(map(_aligned, row, widths, marks)).rstrip() for row in full]
    return "\n".join([lines[0], "-+-".join("-" * width for width in widths), *lines[1:]])


def _cells(row: str) -> list[str]:
    """Return the cells of a row, with or without bars around it. An escaped bar does not separate cells."""
    found = _CELL.split(row.strip().removeprefix("|").removesuffix("|"))
    return [cell.strip().replace("\\|", "|") for cell in found]


def _shown(cell: str) -> str:
    """Return the plain text of a cell: a block has no styles."""
    out = _Out()
    _inline(out, cell)
    return "".join(out.pieces).strip()


def _width(text: str) -> int:
    """Return how many columns a text takes."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) != 0 or char in "\u200d\ufe0f" for char in text)


def _aligned(text: str, width: int, mark: str) -> str:
    room = width - _width(text)
    left = (
        room // 2
        if mark.startswith(":") and mark.endswith(":") and len(mark) > 1
        else room
        if mark.endswith(":")
        else 0
    )
    return " " * left + text + " " * (room - left)


def _plain_line(out: _Out, line: str) -> None:
    heading = _HEADING.match(line)
    if _RULE.match(line):
        out.add("———\n")
        return
    if heading:
        start = out.size
        _inline(out, heading.group(1))
        out.entities.append(Entity(BOLD, start, out.size))
    else:
        bullet = _BULLET.match(line)
        if bullet:
            out.add(f"{bullet.group(1)}{_BOXES.get(bullet.group(2), '•')} ")
            line = line[bullet.end() :]
        _inline(out, line)
    out.add("\n")


class _Open(NamedTuple):
    mark: str
    piece: int  # the index of the mark itself in the output


def _inline(out: _Out, line: str) -> None:
    """Add one line. A mark stays in the output until the mark that closes it is found: then both are removed."""
    pieces: list[str] = []
    found: list[tuple[str, int, int, str]] = []  # kind, first piece, piece after the last, URL
    waiting: list[_Open] = []
    runs = _backticks(line)
    offset = 0
    while True:
        match = _INLINE.search(line, offset)
        if match is None:
            pieces.append(line[offset:])
            break
        pieces.append(line[offset : match.start()])
        offset = match.end()
        escaped, address, literal, ticks, mark, bracket, url = match.groups()
        if escaped or literal:
            pieces.append(escaped or literal)
        elif address:
            pieces.append(address)
            found.append((LINK, len(pieces) - 1, len(pieces), address if ":" in address else f"mailto:{address}"))
        elif ticks:
            same = runs[len(ticks)]
            next_one = bisect_left(same, offset)
            if next_one == len(same):
                pieces.append(ticks)
                continue
            end = same[next_one]
            code = line[offset:end]
            pieces.append(code.strip() or code)
            found.append((CODE, len(pieces) - 1, len(pieces), ""))
            offset = end + len(ticks)
        elif mark:
            _mark(line, match, mark, pieces, found, waiting)
        elif bracket:
            _wait(waiting, _Open("[", len(pieces)))
            pieces.append(bracket)
        else:
            at = _last(waiting, "[")
            if at < 0 or not _SAFE_LINK.match(url):
                pieces.append(match.group())
                continue
            opened = waiting[at]
            del waiting[at:]
            image = pieces[opened.piece] == "!["
            nameless = not "".join(pieces[opened.piece + 1 :]).strip()
            pieces[opened.piece] = (_IMAGE if image else "") + (("image" if image else url) if nameless else "")
            found.append((LINK, opened.piece, len(pieces), url))
    _emit(out, pieces, found)


def _mark(
    line: str,
    match: re.Match[str],
    mark: str,
    pieces: list[str],
    found: list[tuple[str, int, int, str]],
    waiting: list[_Open],
) -> None:
    before = line[match.start() - 1] if match.start() else " "
    after = line[match.end()] if match.end() < len(line) else " "
    # snake_case, 2*3*4 and 2**10 are not emphasis. In scripts without spaces between words, stars are.
    inside_word = before.isalnum() and after.isalnum() and ("_" in mark or (before + after).isascii())
    at = -1 if before.isspace() or inside_word else _last(waiting, mark)
    if at >= 0:
        opened = waiting[at]
        del waiting[at:]
        if any(pieces[opened.piece + 1 :]):
            pieces[opened.piece] = ""
            found.extend((kind, opened.piece, len(pieces), "") for kind in _STYLES[mark])
            pieces.append("")
            return
    elif not after.isspace() and not inside_word:
        _wait(waiting, _Open(mark, len(pieces)))
    pieces.append(mark)


def _wait(waiting: list[_Open], opened: _Open) -> None:
    if len(waiting) < _DEEPEST:
        waiting.append(opened)


def _last(waiting: list[_Open], mark: str) -> int:
    return next((at for at in range(len(waiting) - 1, -1, -1) if waiting[at].mark == mark), -1)


def _backticks(line: str) -> dict[int, list[int]]:
    runs: dict[int, list[int]] = {}
    for run in re.finditer("`+", line) if "`" in line else ():
        runs.setdefault(len(run.group()), []).append(run.start())
    return runs


def _emit(out: _Out, pieces: list[str], found: list[tuple[str, int, int, str]]) -> None:
    starts = [out.size]
    for piece in pieces:
        starts.append(starts[-1] + len(piece))
    out.entities += [Entity(kind, starts[first], starts[end], url) for kind, first, end, url in found]
    out.add("".join(pieces))


def _tidy(text: str, entities: list[Entity]) -> Styled:
    """Strip whitespace (Telegram does too, which would shift the entities), and remove styles inside code."""
    end = len(text.rstrip())
    start = len(text) - len(text.lstrip())
    code = sorted((entity.start, entity.end) for entity in entities if entity.kind in (CODE, PRE))
    kept: list[Entity] = []
    for entity in entities:
        if entity.kind in (CODE, PRE, QUOTE):
            kept.append(entity)
            continue
        # Telegram allows no style in or around code: split the entity into the parts beside the code.
        at = entity.start
        for first, last in code:
            if first >= entity.end or last <= at:
                continue
            kept.append(entity._replace(start=at, end=first))
            at = last
        kept.append(entity._replace(start=at))
    return cut(Styled(text, kept), start, end) if start < end else Styled("", [])


def cut(styled: Styled, start: int, end: int) -> Styled:
    """Return a part of a styled text, with the parts of its entities."""
    entities = []
    for entity in styled.entities:
        first, last = max(entity.start, start), min(entity.end, end)
        while first < last and styled.text[first].isspace() and entity.kind != PRE:
            first += 1
        while first < last and styled.text[last - 1].isspace():
            last -= 1
        if first < last:
            entities.append(entity._replace(start=first - start, end=last - start))
    entities.sort(key=lambda entity: (entity.start, -entity.end))
    return Styled(styled.text[start:end], entities)
