r"""What stands in a text as a whole word, with escapes resolved: only that may be a name, a path or a command.

A tool's result is often JSON, in which `\n` and `\t` stand for the end of a line and for a tab. Read as letters they
make `nOutput` of `Output`; resolved where they are none, they make `ew` of `C:\new`. So the texts of JSON are decoded,
and elsewhere, where a backslash could be either, the word after it is neither.
"""

from __future__ import annotations

import re

_DEEPEST = 4  # JSON in a text of JSON, and so on
# A document or a line of JSON, also behind a line number or the file name that `grep` puts there.
_BEFORE = r"(?:[ \d]*(?:→|\t|[:|] ?)|[\w./@-]{1,200}:(?:\d+:)?)?"
_DOCUMENT = re.compile(r'\s*(?:[\[{]\s*){1,9}"')
_LINE = re.compile(rf'^{_BEFORE}[ \t]*(?:[\[{{][ \t]*){{1,9}}".*$', re.MULTILINE)
_LITERAL = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)("|\\?\Z)', re.DOTALL)
_ESCAPE = re.compile(r"""\\(?:u([0-9a-fA-F]{4})|(["\\/bfnrt]))""")
_MEANT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_COLOUR = re.compile(r"\x1b\[[0-9;]*[mK]")  # and the erasing of a line, as `grep` puts them inside words
_WINDOWS = re.compile(r"(?<!\w)[A-Za-z]:(?:\\{1,2}[\w.$@+-]+)+")
_ESCAPES = "abefnrtuvx0"  # the letters that a backslash may stand before without being part of a path
_JOINED = re.compile("[\\w\\\\\u0300-\u036f]")  # beside one of these, a word is not whole


def decoded(text: str) -> str:
    """Return the text with the escapes of JSON in it resolved, without colours, and with `/` in Windows paths."""
    if "\x1b" in text or "\\" in text:
        text = _resolved(text, _DEEPEST)
        text = _WINDOWS.sub(_with_slashes, _COLOUR.sub("", text))
    return text


def _resolved(text: str, depth: int) -> str:
    if "\\" not in text or not depth:
        return text

    def literal(match: re.Match[str]) -> str:
        return f'"{_resolved(_ESCAPE.sub(_meant, match[1]), depth - 1)}{match[2]}'

    if _DOCUMENT.match(text):
        return _LITERAL.sub(literal, text)
    return _LINE.sub(lambda line: _LITERAL.sub(literal, line[0]), text)


def _meant(match: re.Match[str]) -> str:
    code = int(match[1] or "0", 16)
    if match[1]:
        return chr(code) if not 0xD800 <= code <= 0xDFFF else "\ufffd"
    return _MEANT.get(match[2], match[2])


def _with_slashes(match: re.Match[str]) -> str:
    """Return a path with `/`, unless its backslashes could all begin an escape."""
    names = re.split(r"\\+", match[0])[1:]
    return match[0].replace("\\", "/") if any(name[0] not in _ESCAPES for name in names) else match[0]


def beginning(text: str, most: int) -> str:
    """Return the first characters of a text, at most so many, without a word that would be cut."""
    end = most
    if len(text) > most:
        while end and (text[end - 1].isalnum() or text[end - 1] in "_\\./@-"):
            end -= 1
    return text[:end]


def stands_in(text: str, word: str) -> bool:
    """Whether a decoded text has this name, path or command as a whole word, nowhere only as part of a longer one."""
    start = text.find(word) if word else -1
    while start >= 0:
        around = text[max(0, start - 1) : start], text[start + len(word) : start + len(word) + 1]
        if not _JOINED.match(around[0]) and not (around[1] != "\\" and _JOINED.match(around[1])):
            return True
        start = text.find(word, start + 1)
    return False
