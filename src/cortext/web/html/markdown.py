"""Markdown as safe HTML: parsed without raw HTML, then sanitised again. Nothing in it loads anything."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from html import escape
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

from cortext.web.html import bounded
from cortext.web.html.code import spans

MOST = 200_000  # characters; a longer text is shown as it was written
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


def render(text: str) -> str:
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
    if len(text) > MOST:
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
