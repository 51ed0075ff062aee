r"""The small languages of other programs that a stored value reaches, each with its one encoder. Pure.

A folder named `#(touch x)` runs a program where tmux reads a format, `%H` is another host where systemd reads a unit,
and a name with Ctrl-C in it ends what a terminal is being typed. So whatever is put into a text that a program
interprets goes through the function for that program here, and `docs/safety.md` lists the places.
`tests/safety/test_languages.py` looks for places that do not.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from cortext.safety import terminal

_CONTROL = re.compile("[\x00-\x1f\x7f\x80-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\udc80-\udcff]")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
# What begins something in Markdown: emphasis, code, links, HTML, tables. An underscore inside a word does not.
_MARKDOWN = re.compile(r"[\\`*\[\]<>|~]|(?<!\w)_|_(?!\w)|&(?=#?\w+;)|^(?:[#+=-]|\d+[.)])")


def shell(words: Iterable[str]) -> str:
    """Return words as a line that a shell is given to run."""
    return shlex.join(words)


def typed(words: Iterable[str]) -> str:
    """Return words as a line that is typed or pasted into a shell.

    Control characters are written as `$'\\x03'` (bash, zsh, ksh): a terminal acts on them inside quotes, too.
    """
    return " ".join(_typed_word(word) for word in words)


def _typed_word(word: str) -> str:
    if not _CONTROL.search(word):
        return shlex.quote(word)
    quoted = word.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + _CONTROL.sub(lambda match: _NAMED.get(match.group()) or _bytes(match), quoted) + "'"


def _bytes(match: re.Match[str]) -> str:
    return "".join(f"\\x{byte:02x}" for byte in match.group().encode("utf-8", "surrogateescape"))


def tmux_words(words: Iterable[str]) -> list[str]:
    """Return the words of a command for arguments of tmux, where one that ends with a semicolon begins a command.

    Not for an option that takes a format (`-c`, `-n`, `-F`): no encoding is right in every version of tmux. A folder
    is given to it as the folder that it is started in.
    """
    return [f"{word[:-1]}\\;" if word.endswith(";") else word for word in words]


def applescript(text: str) -> str:
    """Return a text as a literal of AppleScript."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub("[\n\r\t]", lambda match: _NAMED[match.group()], quoted) + '"'


def systemd(word: str) -> str:
    """Return a word of a unit file: quoted, and without the characters that systemd would replace."""
    quoted = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return '"' + _CONTROL.sub(_bytes, quoted) + '"'


def systemd_command(words: Iterable[str]) -> str:
    """Return words as a command line of a unit file. Only there systemd expands variables, too."""
    return " ".join(systemd(word).replace("$", "$$") for word in words)


def launchd(values: Mapping[str, Any]) -> bytes:
    """Return the file of a launchd agent. Raises ValueError for control characters, which it cannot have."""
    import plistlib

    return plistlib.dumps(dict(values))


def cron(words: Iterable[str]) -> str:
    """Return words as the command of a line for crontab, in which a percent sign would end the line."""
    # It takes the backslash before a percent sign away, but not one after another backslash: those are kept apart.
    return shell(words).replace("\\%", "\\''%").replace("%", "\\%")


def markdown(text: str) -> str:
    """Return a value for a line of Markdown: on one line, without control characters, and read as plain text."""
    plain = " ".join(terminal.line(text).split())
    return _MARKDOWN.sub(lambda match: f"{match.group()[:-1]}\\{match.group()[-1]}", plain)


def sql_like(text: str) -> str:
    """Return a text for LIKE of SQL, which matches it anywhere, literally. The escape sign is the default one."""
    return "%" + re.sub(r"([\\%_])", r"\\\1", text) + "%"


def git_subject(text: str) -> str:
    """Return a text as the one line of a commit message: no trailers or further paragraphs come from it."""
    return " ".join(terminal.line(text).split())
