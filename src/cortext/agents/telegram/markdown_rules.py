"""The markdown that models write and CommonMark does not know, and the parts of CommonMark that would lose text.

Added: `||spoiler||`, `<br>`, footnotes, bold inside a word. A link definition that no link uses stays visible.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

# Not markup: __init__, addresses with underscores or stars in them, 2*3*4 and 2**10.
_LITERAL = re.compile(
    r"(?<!\w)__[a-z0-9]+(?:_[a-z0-9]+)*__"
    r"|(?:(?<=http)|(?<=https))://[^\s<>()\[\]`*\\|]+"
    r"|(?<=[A-Za-z0-9])\*+(?=[A-Za-z0-9])"
)
# Bold inside a word: un**believ**able, **bold**ness. Not a formula: x**y**z, x**y + z**w.
_INNER_BOLD = re.compile(
    r"(?<=[A-Za-z])\*\*(?=[A-Za-z])[^\s*]{2,}\*\*(?!\*)|(?<![\w*])\*\*(?=[^\s*])[^*\n]*[^\s*]\*\*(?=[A-Za-z])"
)
# Of several lines too; the bars may stand on lines of their own. Not: a || b || c.
_SPOILER = re.compile(
    r"(?<![\w|])\|\|(?=[^\s|])(?:[^|]|\|(?!\|))*[^\s|]\|\|(?![\w|])"
    r"|(?:^|(?<=\n))\|\|\n(?:[^|]|\|(?!\|))+\n\|\|(?=\n|\Z)"
)
_BREAK = re.compile(r"<br\s{0,3}/?>", re.IGNORECASE)
_FOOTNOTE = re.compile(r"\[\^([A-Za-z0-9_-]{1,32})\]")
_INDENT = 4  # columns by which the rest of a footnote is indented
_FOOTNOTES = "footnotes"  # in the parser's environment: the labels that are defined
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_SPECIAL = re.compile(r"[\n!#$%&*+\-:<=>@\[\\\]^_`{}~|]")  # where an inline rule may begin


def install(parser: MarkdownIt) -> None:
    """Add the rules to a parser."""
    inline = parser.inline.ruler
    inline.at("text", _text)
    inline.before("emphasis", "literal", _literal)
    inline.before("emphasis", "spoiler", _spoiler)
    inline.before("link", "footnote", _footnote_mark)
    inline.before("autolink", "break", _break)
    parser.block.ruler.before("reference", "footnote", _footnote, {"alt": ["paragraph", "reference"]})


def parsed(parser: MarkdownIt, text: str) -> tuple[list[Token], list[str]]:
    """Return the tokens of a text, and the lines that they refer to."""
    lines = text.split("\n")
    definitions = _Definitions()
    environment: dict[str, Any] = {"references": definitions}
    tokens = parser.parse(text, environment)
    unused = [entry for label, entry in definitions.items() if label not in definitions.used]
    unused += environment.get("duplicate_refs", [])
    if unused:  # a definition that no link uses would disappear
        for entry in unused:
            first = entry["map"][0]
            lines[first] = lines[first].replace("[", "\\[", 1)
        tokens = parser.parse("\n".join(lines), {"references": _Definitions()})
    return tokens, lines


class _Definitions(dict[str, Any]):
    """The link definitions of a text, and which of them were looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.used: set[str] = set()

    def __getitem__(self, label: str) -> Any:
        self.used.add(label)
        return super().__getitem__(label)

    def get(self, label: str, default: Any = None) -> Any:
        self.used.add(label)
        return super().get(label, default)


# ── inline ───────────────────────────────────────────────────────────────────────────────────────────


def _text(state: StateInline, silent: bool) -> bool:
    found = _SPECIAL.search(state.src, state.pos, state.posMax)
    end = found.start() if found else state.posMax
    if end == state.pos:
        return False
    if not silent:
        state.pending += state.src[state.pos : end]
    state.pos = end
    return True


def _literal(state: StateInline, silent: bool) -> bool:
    match = _LITERAL.match(state.src, state.pos)
    if match is None or state.pos in _inner_bold(state.src):
        return False
    if not silent:
        state.pending += match[0]
    state.pos = match.end()
    return True


@lru_cache(maxsize=16)
def _inner_bold(text: str) -> frozenset[int]:
    """Return the offsets of stars that make a part of a word bold."""
    spans = (match.span() for match in _INNER_BOLD.finditer(text))
    return frozenset(offset for start, end in spans for offset in (start, end - 2))


def _spoiler(state: StateInline, silent: bool) -> bool:
    match = _SPOILER.match(state.src, state.pos, state.posMax)
    if match is None:
        return False
    if not silent:
        end = state.posMax
        state.push("spoiler_open", "", 1)
        state.pos, state.posMax = match.start() + 2, match.end() - 2
        if state.src[state.pos] == "\n":  # bars on lines of their own
            state.pos, state.posMax = state.pos + 1, state.posMax - 1
        state.md.inline.tokenize(state)
        state.push("spoiler_close", "", -1)
        state.posMax = end
    state.pos = match.end()
    return True


def _break(state: StateInline, silent: bool) -> bool:
    match = _BREAK.match(state.src, state.pos, state.posMax)
    if match is None:
        return False
    if not silent:
        state.push("hardbreak", "br", 0)
    state.pos = match.end()
    if state.src[state.pos : state.pos + 1] == "\n":
        state.pos += 1
    return True


def _footnote_mark(state: StateInline, silent: bool) -> bool:
    match = _FOOTNOTE.match(state.src, state.pos, state.posMax)
    if match is None or match[1] not in state.env.get(_FOOTNOTES, ()):
        return False
    if not silent:
        state.pending += _raised(match[1])
    state.pos = match.end()
    return True


def _raised(label: str) -> str:
    return label.translate(_RAISED) if label.isdecimal() else f"[{label}]"


# ── blocks ───────────────────────────────────────────────────────────────────────────────────────────


def _footnote(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """`[^1]: text`, a paragraph that begins with the raised number; what is indented below it belongs to it."""
    if state.is_code_block(first):
        return False
    line = state.src[state.bMarks[first] + state.tShift[first] : state.eMarks[first]]
    match = _FOOTNOTE.match(line)
    if match is None or line[match.end() : match.end() + 1] != ":" or not line[match.end() + 1 :].strip():
        return False
    if silent:
        return True
    state.env.setdefault(_FOOTNOTES, set()).add(match[1])
    kind, state.parentType = state.parentType, "paragraph"
    state.blkIndent += _INDENT
    last = first + 1
    while last < end and state.sCount[last] >= state.blkIndent and not _ends_paragraph(state, last, end):
        last += 1
    more = state.getLines(first + 1, last, state.blkIndent, False)
    state.line = last
    state.push("paragraph_open", "p", 1).map = [first, last]
    words = state.push("inline", "", 0)
    text = "\n".join(filter(None, (line[match.end() + 1 :].strip(), more.strip())))
    words.content, words.map, words.children = f"{match[0]} {text}", [first, last], []
    state.push("paragraph_close", "p", -1)
    state.parentType = kind
    following = state.skipEmptyLines(last)
    if following < end and state.sCount[following] >= state.blkIndent:
        state.level += 1  # so that footnotes in footnotes have a limit, too
        state.md.block.tokenize(state, last, end)
        state.level -= 1
    state.blkIndent -= _INDENT
    return True


def _ends_paragraph(state: StateBlock, line: int, end: int) -> bool:
    rules = state.md.block.ruler.getRules("paragraph")
    return state.isEmpty(line) or any(rule(state, line, end, True) for rule in rules)
