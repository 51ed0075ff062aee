"""Safe HTML of what others wrote: the templates of all pages, which escape it, and markdown, code and edits.

Markdown is sanitised, and code highlighted by Pygments with classes only: the colours are in the style sheet. An edit
has one row per line, with its sign, so that colour is never the only difference.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from html import escape
from typing import Any

import nh3
from jinja2 import Environment, PackageLoader, PrefixLoader, StrictUndefined, Template
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name, get_lexer_for_filename
from pygments.util import ClassNotFound

from cortext.model import clock
from cortext.model.wording import amount
from cortext.safety import terminal
from cortext.services.text.edits import ADDED, REMOVED, SKIPPED, DiffLine, FileDiff
from cortext.web.html import bounded


def load_template(name: str) -> Template:
    """Return a template, which is named by its package: `html/…` or `web/…`.

    Everything that is inserted is escaped, unless our own code marked it as HTML. And it has no control character and
    none that turns the direction of text, so a title cannot pass for another one. What the field of a form sends back
    is therefore compared with what was shown (`pages.stored`).
    """
    return _environment().get_template(name)


@cache
def _environment() -> Environment:
    loaders = {name: PackageLoader(package) for name, package in (("html", "cortext.web.html"), ("web", "cortext.web"))}
    environment = Environment(
        loader=PrefixLoader(loaders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
    )
    environment.filters |= {"ago": clock.ago, "short_time": clock.short, "number": "{:,}".format}
    return environment


def _visible(value: object) -> object:
    return terminal.block(value) if type(value) is str else value


# ── code and edits ──────────────────────────────────────────────────────────────────────────────────

MOST_CODE = 20_000  # characters; longer code is shown without colours, which would take longer than reading it
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
    if lexer is None or len(code) > MOST_CODE:
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


def render_edit(edit: FileDiff, *, lines: int = MOST_LINES, complete: bool = False) -> tuple[str, int]:
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


def _row(line: DiffLine, path: str, rest: int = 0) -> str:
    if line.sign == SKIPPED:
        return f'<span class="line skipped">⋯ {escape(terminal.line(line.text))}</span>'
    label = f'<span class="aloud">{_LABELS[line.sign]}</span>' if line.sign in _LABELS else ""
    code = spans(terminal.line(line.text), path=path) + (f" … {amount(rest, 'more character')}" if rest else "")
    kind = _CLASSES.get(line.sign, "same")
    return f'<span class="line {kind}">{label}<span class="sign" aria-hidden="true">{line.sign}</span>{code}\n</span>'


# ── markdown ───────────────────────────────────────────────────────────────────────────────────────

MOST_MARKDOWN = 200_000  # characters; a longer text is shown as it was written
REMEMBERED = 8_000  # characters of a text whose HTML is kept: a reader scrolls up and down in the same messages
MOST_REMEMBERED = 1024  # texts
_remembered: dict[str, str] = {}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_TAGS = {
    *("p", "br", "hr", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code", "span", "em", "strong"),
    *("s", "a", "table", "thead", "tbody", "tr", "th", "td", "div"),
}
_ATTRIBUTES = {
    "a": {"href"},
    "span": {"class"},
    "pre": {"class", "tabindex"},
    "div": {"class", "tabindex"},
    "ol": {"start"},
    **{name: {"dir"} for name in ("p", "li", "h3", "h4", "h5", "h6", "blockquote", "th", "td", "ul")},
}
_ATTRIBUTES["ol"] |= {"dir"}
_DIRECTED = ("paragraph_open", "heading_open", "list_item_open", "blockquote_open", "th_open", "td_open")


class _Renderer(RendererHTML):
    """Markdown's own HTML, with code highlighted, images as text, and headings below those of the page."""

    def fence(self, tokens: Sequence[Token], index: int, options: Any, environment: Any) -> str:
        token = tokens[index]
        language = token.info.strip().split(maxsplit=1)[0] if token.info.strip() else ""
        return f'<pre class="code" tabindex="0"><code>{spans(token.content, language)}</code></pre>\n'

    def code_block(self, tokens: Sequence[Token], index: int, options: Any, environment: Any) -> str:
        return f'<pre class="code" tabindex="0"><code>{escape(tokens[index].content)}</code></pre>\n'

    def image(self, tokens: Sequence[Token], index: int, options: Any, environment: Any) -> str:
        token = tokens[index]
        name = token.content or "image"
        return f'<span class="image">image: {escape(name)} ({escape(str(token.attrs.get("src", "")))})</span>'

    def heading_open(self, tokens: Sequence[Token], index: int, options: Any, environment: Any) -> str:
        return f'<{_lower(tokens[index].tag)} dir="auto">'

    def heading_close(self, tokens: Sequence[Token], index: int, options: Any, environment: Any) -> str:
        return f"</{_lower(tokens[index].tag)}>\n"

    def table_open(self, tokens: Sequence[Token], index: int, options: Any, environment: Any) -> str:
        return '<div class="table" tabindex="0"><table>\n'

    def table_close(self, tokens: Sequence[Token], index: int, options: Any, environment: Any) -> str:
        return "</table></div>\n"


def _lower(tag: str) -> str:
    """Return the heading that a message may use: the page has the first two levels."""
    return f"h{min(6, int(tag[1]) + 2)}"


@cache
def _parser() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False, "breaks": True}, renderer_cls=_Renderer)
    return made.enable(["table", "strikethrough"])


@cache
def _cleaner() -> nh3.Cleaner:
    return nh3.Cleaner(
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
        strip_comments=True,
    )


def plain(text: str) -> str:
    """Return text without control characters and without overrides of its direction; each becomes a visible mark."""
    return text if text.isascii() and text.isprintable() else _CONTROL.sub("\ufffd", text.replace("\r\n", "\n"))


def render_markdown(text: str) -> str:
    """Return markdown as safe HTML."""
    if len(text) > REMEMBERED:
        return _rendered(text)
    if text not in _remembered:
        html = _rendered(text)
        if not bounded.may_format():  # perhaps it was not formatted because of other texts
            return html
        if len(_remembered) >= MOST_REMEMBERED:
            _remembered.clear()
        _remembered[text] = html
    return _remembered[text]


def _rendered(text: str) -> str:
    text = plain(text)
    written = f'<pre class="text" tabindex="0">{escape(text)}</pre>'
    if len(text) > MOST_MARKDOWN:
        return written
    parser = _parser()
    try:
        tokens = bounded.within(len(text), lambda: parser.parse(text))
    except bounded.TooLong:
        return f'<p class="quiet">Shown as it was written, because formatting it takes too long.</p>{written}'
    for token in tokens:
        if token.type in _DIRECTED:
            token.attrSet("dir", "auto")
    return str(_cleaner().clean(parser.renderer.render(tokens, parser.options, {})))
