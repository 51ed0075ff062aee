"""Code and edits as HTML: highlighted by Pygments with classes only; the colours are in the style sheet.

An edit has one row per line, with its sign, so that colour is never the only difference.
"""

from __future__ import annotations

import re
from functools import cache
from html import escape

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name, get_lexer_for_filename
from pygments.util import ClassNotFound

from cortext.model.amounts import amount
from cortext.safety import terminal
from cortext.services.text.edits import ADDED, REMOVED, SKIPPED, Edit, Line
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


MOST_LINES = 400
LONGEST_LINE = 2_000  # characters
_CLASSES = {ADDED: "added", REMOVED: "removed", SKIPPED: "skipped"}
_LABELS = {ADDED: "added: ", REMOVED: "removed: "}


def render(edit: Edit, *, lines: int = MOST_LINES, complete: bool = False) -> tuple[str, int]:
    """Return the diff of one file, and how many characters of it are left out.

    Without `complete`, what is longer than so many lines, and the end of a very long line, is left out, and says so.
    """
    shown = edit.lines if complete else edit.lines[:lines]
    left = sum(len(line.text) + 1 for line in edit.lines[len(shown) :])
    rows = []
    for line in shown:
        rest = 0 if complete else max(0, len(line.text) - LONGEST_LINE)
        left += rest
        rows.append(_row(line._replace(text=line.text[: len(line.text) - rest]), edit.path, rest))
    if len(shown) < len(edit.lines):
        rows.append(f'<span class="line skipped">… {amount(len(edit.lines) - len(shown), "more line")}</span>')
    return f'<pre class="diff" tabindex="0"><code>{"".join(rows)}</code></pre>', left


def _row(line: Line, path: str, rest: int = 0) -> str:
    if line.sign == SKIPPED:
        return f'<span class="line skipped">⋯ {escape(terminal.line(line.text))}</span>'
    label = f'<span class="aloud">{_LABELS[line.sign]}</span>' if line.sign in _LABELS else ""
    code = spans(terminal.line(line.text), path=path) + (f" … {amount(rest, 'more character')}" if rest else "")
    kind = _CLASSES.get(line.sign, "same")
    return f'<span class="line {kind}">{label}<span class="sign" aria-hidden="true">{line.sign}</span>{code}\n</span>'
