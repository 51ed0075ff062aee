"""A model's markdown for Telegram: plain text plus entities that say which part of it is bold, code or a link.

Entities instead of Telegram's own markup: there is nothing to escape, so no text can break a message or smuggle a link
into it. markdown-it parses, with rules of ours (`markdown_rules`), so that no text disappears. Malformed markdown stays
as it was written. A long text is split where a reader would pause, into messages of at most 4,096 UTF-16 units and 100
entities; only whitespace at a border is lost. The answer to a command becomes markdown for a small screen.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

from cortext.agents.assistant.commands import Outcome
from cortext.agents.telegram import markdown_rules
from cortext.safety import terminal

BOLD, ITALIC, STRIKE, SPOILER = "bold", "italic", "strikethrough", "spoiler"
CODE, PRE, LINK, QUOTE = "code", "pre", "text_link", "blockquote"

_IMAGE = "🖼 "
_BOXES = {"[ ] ": "☐ ", "[x] ": "☑ ", "[X] ": "☑ "}
_STYLES = {"strong": BOLD, "em": ITALIC, "s": STRIKE, "spoiler": SPOILER}
_SAFE_LINK = re.compile(r"(?:https?://|tg://|mailto:)", re.IGNORECASE)
_ROW = re.compile(r"\s*\|.*\|\s*")
_CELL = re.compile(r"(?<!\\)\|")
_DEEPEST = 60  # levels: what is nested deeper is not real markdown


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


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _DEEPEST}).enable(["table", "strikethrough"])
    parser.disable(["html_block", "html_inline"])  # what a model writes in angles, it mostly means as it is
    markdown_rules.install(parser)
    parser.validateLink = lambda url: _SAFE_LINK.match(url) is not None  # type: ignore[method-assign]
    return parser


_PARSER = _parser()


def render(markdown: str) -> Styled:
    """Render a model's markdown, complete or still growing, as text and entities."""
    clean = terminal.block(markdown).expandtabs(4)
    tokens, lines = markdown_rules.parsed(_PARSER, clean)
    if max((token.level for token in tokens), default=0) >= _DEEPEST - 1:
        return Styled(clean.strip(), [])  # the parser leaves out what is nested deeper
    out = _Out(lines)
    out.blocks(tokens)
    styled = _tidy("".join(out.pieces), out.entities)
    # Markdown that renders to nothing (a lone fence) is shown as it was written: no text may vanish.
    return styled if styled.text else Styled(clean.strip(), [])


class _Out:
    """The text so far and its entities."""

    def __init__(self, source: Sequence[str] = ()) -> None:
        self.source = source
        self.pieces: list[str] = []
        self.size = 0
        self.entities: list[Entity] = []
        self._line = 0  # of the source, after the last block
        self._marker = ""  # of a list item that has no text yet
        self._quotes: list[int | None] = []  # where each open quote begins, once there is text in it

    def add(self, text: str) -> None:
        self.pieces.append(text)
        self.size += len(text)

    # ── blocks ───────────────────────────────────────────────────────────────────────────────────────

    def blocks(self, tokens: Sequence[Token]) -> None:
        """Add what a sequence of block tokens shows."""
        lists = 0
        heading: int | None = None
        index = 0
        while index < len(tokens):
            token = tokens[index]
            if token.type in ("bullet_list_open", "ordered_list_open"):
                lists += 1
            elif token.type in ("bullet_list_close", "ordered_list_close"):
                lists -= 1
            elif token.type == "list_item_open":
                self._flush_marker(token)
                self._marker = "  " * (lists - 1) + (f"{token.info}{token.markup} " if token.info else "• ")
            elif token.type == "list_item_close":
                self._flush_marker(token)
            elif token.type == "blockquote_open":
                self._quotes.append(None)
            elif token.type == "blockquote_close":
                start = self._quotes.pop()
                if start is not None and not self._quotes:  # Telegram has no quote inside a quote
                    self.entities.append(Entity(QUOTE, start, self.size))
            elif token.type == "heading_open":
                self._begin(token)
                heading = self.size
            elif token.type == "heading_close" and heading is not None:
                self.entities.append(Entity(BOLD, heading, self.size))
                heading = None
            elif token.type == "paragraph_open":
                self._begin(token)
            elif token.type == "inline":
                self._text(token)
            elif token.type in ("fence", "code_block"):
                self._begin(token)
                self._pre(token.content.removesuffix("\n"), token.info.strip().partition(" ")[0][:40])
            elif token.type == "hr":
                self._begin(token)
                self.add("———")
            elif token.type == "table_open":
                end = next(at for at in range(index, len(tokens)) if tokens[at].type == "table_close")
                self._begin(token)
                first, after = token.map or (0, 0)
                self._pre(_table(tokens[index:end], self.source[first:after]))
                index = end
            index += 1

    def _begin(self, token: Token) -> None:
        """Start a block on a line of its own, as far below the last one as it was written."""
        first, after = token.map or (self._line, self._line)
        if self.size:
            self.add("\n" * (1 + max(0, first - self._line)))
        self._line = after
        self._quotes = [self.size if start is None else start for start in self._quotes]
        self.add(self._marker)
        self._marker = ""

    def _flush_marker(self, token: Token) -> None:
        """Show the marker of a list item without text."""
        if self._marker:
            self._begin(token)

    def _pre(self, text: str, language: str = "") -> None:
        if text:
            self.entities.append(Entity(PRE, self.size, self.size + len(text), language=language))
        self.add(text)

    def _text(self, token: Token) -> None:
        rows = token.content.split("\n")
        if len(rows) > 1 and all(map(_ROW.fullmatch, rows)):
            self._pre("\n".join(row.strip() for row in rows))  # a table that is still coming
            return
        children = token.children or []
        if self.pieces and self.pieces[-1].endswith("• ") and children and (box := _BOXES.get(children[0].content[:4])):
            self.pieces[-1] = self.pieces[-1].removesuffix("• ") + box
            children[0].content = children[0].content[4:]
        self.inline(children)

    # ── inside a block ───────────────────────────────────────────────────────────────────────────────

    def inline(self, tokens: Sequence[Token]) -> None:
        """Add what a sequence of inline tokens shows."""
        opened: list[tuple[int, str]] = []  # where each open style or link begins, and the link's address
        hidden = 0  # open spoilers
        for token in tokens:
            kind = _STYLES.get(token.type.partition("_")[0], "")
            hidden += token.nesting if kind == SPOILER else 0
            if token.type == "link_open" or (kind and token.nesting > 0):
                opened.append((self.size, str(token.attrGet("href") or "")))
            elif token.type == "link_close":
                start, href = opened.pop()
                if self.size == start:
                    self.add(href)
                self.entities.append(Entity(LINK, start, self.size, url=href))
            elif kind:
                self.entities.append(Entity(kind, opened.pop()[0], self.size))
            elif token.type == "code_inline":
                if not hidden:  # Telegram hides no code
                    self.entities.append(Entity(CODE, self.size, self.size + len(token.content)))
                self.add(token.content)
            elif token.type == "image":
                start = self.size
                self.add(_IMAGE + (token.content.strip() or "image"))
                self.entities.append(Entity(LINK, start, self.size, url=str(token.attrGet("src"))))
            else:
                # An entity such as &#x202e; may stand for a character that hides or reverses text.
                self.add("\n" if token.type in ("softbreak", "hardbreak") else terminal.block(token.content))


def _table(tokens: Sequence[Token], source: Sequence[str]) -> str:
    """Return a table in columns, each as wide as its widest cell and aligned as its header says.

    One with cells beyond its header stays as it was written: the parser drops those cells.
    """
    rows: list[list[str]] = []
    alignments: list[str] = []
    for token in tokens:
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "th_open":
            alignments.append(str(token.attrGet("style") or ""))
        elif token.type == "inline":
            cell = _Out()  # a block of code has no styles: only the text
            cell.inline(token.children or [])
            rows[-1].append(" ".join("".join(cell.pieces).split("\n")).strip())
    if any(len(_CELL.split(line.strip().removeprefix("|").removesuffix("|"))) > len(alignments) for line in source):
        return "\n".join(line.strip() for line in source)
    widths = [max(1, *(_width(row[column]) for row in rows)) for column in range(len(alignments))]
    lines = [" | ".join(map(_aligned, row, widths, alignments)).rstrip() for row in rows]
    return "\n".join([lines[0], "-+-".join("-" * width for width in widths), *lines[1:]])


def _width(text: str) -> int:
    """Return how many columns a text takes."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) != 0 or char in "\u200d\ufe0f" for char in text)


def _aligned(text: str, width: int, style: str) -> str:
    room = width - _width(text)
    left = room // 2 if style.endswith("center") else room if style.endswith("right") else 0
    return " " * left + text + " " * (room - left)


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


_LINKABLE = re.compile(r"[a-z0-9_]+")
_LONGEST = 32 - len("resume_")  # Telegram turns commands of up to 32 letters into links


def as_markdown(answer: Outcome) -> str:
    """Return the answer as one text."""
    blocks = [_literal(answer.above)] if answer.above else []
    for number, (session_id, created, active, count, about) in enumerate((row[:5] for row in answer.rows), 1):
        messages = "message" if count == "1" else "messages"
        title = f"**{number}. {_plain(about) or session_id}**"
        blocks.append(f"{title}\n{active} · {count} {messages} · since {created}\n{_link(session_id)}")
    for hit in answer.hits:
        blocks.append(
            f"**{_plain(hit.title) or hit.id}** · {hit.where} · {hit.when}\n> {_plain(hit.snippet)}\n{_link(hit.id)}"
        )
    if answer.aligned:
        blocks.append(f"```\n{answer.text}\n```")
    elif answer.text:
        blocks.append(answer.text if answer.markdown else _literal(answer.text))
    return "\n\n".join(blocks)


def _link(session_id: str) -> str:
    """Return a command that resumes a session with one tap. It must not contain hyphens: underscores replace them."""
    name = session_id.replace("-", "_")
    if not _LINKABLE.fullmatch(name) or len(name) > _LONGEST:
        return f"`/resume {session_id}`"
    return _literal(f"/resume_{name}")


def _literal(text: str) -> str:
    """Return text with all markup escaped."""
    return re.sub(r"([\\`*_~\[\]()#>|])", r"\\\1", text)


def _plain(text: str) -> str:
    return _literal(" ".join(text.split()))
