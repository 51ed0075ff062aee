"""The sentences of a message: what was said, without the code, tables, logs and markup that came with it."""

from __future__ import annotations

import re

LONGEST = 400  # characters; a longer "sentence" is something pasted
_READ = 8_000  # of a message longer than this, the beginning and the end are read

_FENCE = re.compile(r"^[ >]*(```|~~~)")
# Blocks that tools put into what the user said: they are not his words.
_MARKUP = re.compile(r"<(?P<tag>[a-z][\w-]{2,40})(?: [^<>]{0,200})?>.{0,20000}?</(?P=tag)>", re.DOTALL)
_BULLET = re.compile(r"^(?:[-*+•]|\d{1,3}[.)]|\[[ xX]\])\s+(?:\[[ xX]\]\s+)?")
_NOT_PROSE = re.compile(
    r"\||[$#%] |#{1,6}\s|>>> |\.\.\. |@@ |[+-]{3} |diff --git |[├└│┌]|[-=_*~]{3,}$|\s*at \S+\(|Traceback |File \"|</?\w"
    r"|\[?\d{4}-\d\d-\d\d[T ]\d\d:|\[?\d\d:\d\d:\d\d|\[?(?:ERROR|WARN(?:ING)?|INFO|DEBUG|TRACE|FATAL)\b|[{}\[\]();]+,?$"
    r"|\[Request interrupted|\[Image|Caveat: |!\["
)
_END = re.compile(r"(?<=[.!?…])[\"'”’)\]*_`]{0,3}\s+|(?<=[。！？])[」』）]?")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:e\.g|i\.e|etc|vs|cf|approx|no|nr|mr|mrs|ms|dr|st|z\.\s?b|d\.\s?h|u\.\s?a|bzw|ca|[a-z]|\d{1,3})\.$",
    re.IGNORECASE,
)
_EMPHASIS = re.compile(r"\*\*|__(?=\w)|(?<=\w)__|(?<![\w*])\*(?=[^\s*])|(?<=[^\s*])\*(?![\w*])")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af]")


def is_cjk(text: str) -> bool:
    """Whether the text is written without blanks between words, by its share of such characters."""
    return not text.isascii() and 3 * len(_CJK.findall(text)) > len(text)


def sentences(text: str) -> list[str]:
    """The sentences in order, word for word; blanks are made one, marks of emphasis and of lists are dropped."""
    if len(text) > _READ:
        text = f"{text[: _READ // 2]}\n\n{text[-_READ // 2 :]}"
    if "</" in text:
        text = _MARKUP.sub("\n", text)
    return [sentence for paragraph in _paragraphs(text) for sentence in _split(paragraph)]


def _paragraphs(text: str) -> list[str]:
    """Lines that belong together: a list item is one, and a line that was broken for its length goes on."""
    if "\n" not in text:
        return [] if _NOT_PROSE.match(text) else [_BULLET.sub("", text)]
    found: list[str] = []
    fenced = goes_on = False
    for raw in text.split("\n"):
        if _FENCE.match(raw):
            fenced, goes_on = not fenced, False
            continue
        line = raw.strip().lstrip("> ")
        if fenced or not line or (raw.startswith(("    ", "\t")) and not _BULLET.match(line)) or _NOT_PROSE.match(line):
            goes_on = False
            continue
        item = _BULLET.match(line)
        if goes_on and not item:
            found[-1] += line if _CJK.match(line[0]) else f" {line}"
        else:
            found.append(line[item.end() :] if item else line)
        goes_on = len(line) >= 50 and line[-1] not in ".!?:。！？："
    return found


def _split(paragraph: str) -> list[str]:
    paragraph = " ".join(_EMPHASIS.sub("", paragraph).split())
    found: list[str] = []
    place, held = 0, ""
    for end in _END.finditer(paragraph):
        piece = held + paragraph[place : end.end()]
        place = end.end()
        if _ABBREVIATION.search(piece.rstrip()):
            held = piece
            continue
        held = ""
        found.append(piece.strip())
    found.append((held + paragraph[place:]).strip())
    return [sentence for sentence in found if _is_said(sentence)]


def _is_said(sentence: str) -> bool:
    """Long enough to say something, short enough to be a sentence, and made of letters."""
    if not 2 <= len(sentence) <= LONGEST:
        return False
    letters = sum(1 for c in sentence if c.isalnum() or c == " ")
    return letters >= 0.75 * len(sentence)
