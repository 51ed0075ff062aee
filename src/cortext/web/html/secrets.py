"""Masked secrets in HTML: each mark in the text becomes an element that a reader can click.

While text is rendered, a mark is a single character of the private use area: no highlighter or sanitiser splits it.
"""

from __future__ import annotations

import re

from markupsafe import Markup, escape

_MARK = re.compile(r"\[masked ([a-z0-9-]{1,40}) ([0-9a-f]{2,6})\]")
_PRIVATE = re.compile("[\ue000-\uf8ff]")
_TAG_OR_PRIVATE = re.compile("<[^>]*>|[\ue000-\uf8ff]")
_FIRST, _LAST = 0xE000, 0xF8FF


class Marks:
    """The marks of one message. `reveal` is the address that shows the message unmasked; empty if there is none."""

    def __init__(self, reveal: str = "") -> None:
        self._reveal = reveal
        self._found: list[tuple[str, str]] = []

    def hide(self, text: str) -> str:
        """Return the text with a private character for every mark; such characters of its own are replaced."""
        if not text.isascii():
            text = _PRIVATE.sub("\ufffd", text)
        return _MARK.sub(self._take, text) if "[masked " in text else text

    def _take(self, match: re.Match[str]) -> str:
        if len(self._found) > _LAST - _FIRST:
            return match[0]
        self._found.append((match[1], match[2]))
        return chr(_FIRST + len(self._found) - 1)

    def show(self, html: str) -> Markup:
        """Return HTML with an element in place of each private character, except inside tags."""
        if not self._found:
            return Markup(html)  # made by our templates and sanitiser
        return Markup(_TAG_OR_PRIVATE.sub(self._shown, html))

    def _shown(self, match: re.Match[str]) -> str:
        index = ord(match[0][0]) - _FIRST
        if match[0][0] == "<":
            return _PRIVATE.sub("", match[0])
        if index >= len(self._found):
            return "\ufffd"
        kind, digits = self._found[index]
        label = f"masked {kind} {digits}"
        if not self._reveal:
            return f'<span class="secret">{label}</span>'
        title = "Show this message unmasked"
        return f'<a class="secret" href="{escape(self._reveal)}" data-reveal title="{title}">{label}</a>'
