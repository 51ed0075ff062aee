"""Text that cannot control the terminal it is shown on. Stored text is never changed, only what is shown.

Escape sequences, other control characters, and characters that reverse or hide text become visible marks. Lookalike
letters are not detected.
"""

from __future__ import annotations

import functools
import re

# Control characters except newline and tab; C1 controls; the Arabic mark, embeddings, overrides and isolates; line
# and paragraph separators; invisible characters and tags. Zero-width joiners stay: emoji need them; so do
# U+200E and U+200F, which right-to-left text needs beside punctuation and which reverse nothing.
_UNSAFE = (
    "\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u061c\\u200b\\u2028\\u2029\\u202a-\\u202e\\u2060-\\u2069"
    "\\ufeff\\ufff9-\\ufffb\\ud800-\\udfff\\U000e0000-\\U000e007f"
)
_PLAIN = bytes([*b"\t\n", *range(0x20, 0x7F)])


@functools.cache
def _pattern(also: str = "") -> re.Pattern[str]:
    return re.compile(f"[{_UNSAFE}{also}]")


def _mark(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code in (0x09, 0x0A):
        return " "
    if code < 0x20:
        return chr(0x2400 + code)  # the symbol for the control character: ␛
    return "\ufffd" if 0xD800 <= code <= 0xDFFF else f"<U+{code:04X}>"


def block(text: str) -> str:
    """Return a safe text of several lines: newlines and tabs stay; CRLF becomes LF."""
    text = text.replace("\r\n", "\n")
    # A long text is almost entirely plain: only the rest is matched against the pattern, which is four times slower.
    rest = text.encode("utf-8", "surrogatepass").translate(None, _PLAIN).decode("utf-8", "surrogatepass")
    return text if rest.isprintable() or not _pattern().search(rest) else _pattern().sub(_mark, text)


def json_text(text: str) -> str:
    """Return JSON for a terminal: the same values, with unsafe characters written as escapes."""
    return text if text.isascii() else _pattern().sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    units = match.group().encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[index : index + 2].hex()}" for index in range(0, len(units), 2))


def line(text: str) -> str:
    """Return a safe text for one line, such as a title or a name: newlines and tabs become spaces."""
    # No unsafe character is printable in Python's sense; compiling the pattern takes longer than most commands need.
    return text if text.isprintable() else _pattern("\\t\\n").sub(_mark, text)
