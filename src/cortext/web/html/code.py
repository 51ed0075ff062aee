"""Code as HTML: highlighted by Pygments with classes only; the colours are in the style sheet."""

from __future__ import annotations

import re
from functools import cache
from html import escape

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name, get_lexer_for_filename
from pygments.util import ClassNotFound

from cortext.web.html import bounded

MOST = 20_000  # characters; longer code is shown without colours, which would take longer than reading it
_NAME = re.compile(r"[A-Za-z0-9_+#.-]{1,30}")


class _Spans(HtmlFormatter[str]):
    """Only the spans, for a `pre` of our own."""

    def __init__(self) -> None:
        super().__init__(nowrap=True, classprefix="t-")


_FORMATTER = _Spans()


@cache
def _lexer(language: str) -> Lexer | None:
    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False) if _NAME.fullmatch(language) else None
    except ClassNotFound:
        return None


@cache
def _lexer_of_file(suffix: str) -> Lexer | None:
    try:
        return get_lexer_for_filename(f"file{suffix}", stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


def spans(code: str, language: str = "", path: str = "") -> str:
    """Return code as safe HTML without a block around it, coloured if the language is known by name or by the path.

    Code that takes too long to colour has no colours: hardly any lexer is linear.
    """
    suffix = re.search(r"\.[A-Za-z0-9]{1,8}$", path)
    lexer = _lexer(language.lower()) if language else _lexer_of_file(suffix[0].lower()) if suffix else None
    if lexer is None or len(code) > MOST:
        return escape(code)
    try:
        coloured = str(bounded.within(len(code), lambda: highlight(code, lexer, _FORMATTER)))
    except bounded.TooLong:
        return escape(code)
    return coloured if code.endswith("\n") else coloured.removesuffix("\n")  # the formatter ends every text with one
