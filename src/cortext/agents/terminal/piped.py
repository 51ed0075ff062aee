"""Piped input together with a question on the command line: `git diff | aur spawn "Review this"`."""

from __future__ import annotations

import codecs
import os
import re
import select
import stat
import sys
from collections.abc import Sequence
from io import TextIOWrapper

from cortext.errors import UsageError

_INVALID = re.compile("[\udc80-\udcff]")  # how Python reads such a byte
BEGINNING = 1 << 16  # bytes of a pipe that are read to see what is piped in
BEGINS_WITHIN = 1.0  # seconds to wait for them
NOTE_AFTER = 2.0  # seconds until a note says what we are waiting for


def question_of(words: Sequence[str]) -> str:
    """Return the question, with the piped input in place of `-`, or after it if there is no `-`."""
    if "-" in words:
        return " ".join(_read() if word == "-" else word for word in words).strip()
    question = " ".join(words).strip()
    return "\n\n".join(filter(None, (question, _read() if _is_piped() else "")))


def _is_piped() -> bool:
    """Whether standard input is a pipe, a file or a socket."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):  # it is closed
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _read() -> str:
    """Read standard input to its end. Bytes that are not UTF-8 raise UsageError."""
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")
    try:
        if not select.select([sys.stdin], [], [], NOTE_AFTER)[0] and sys.stderr.isatty():
            print("(waiting for the end of standard input; use < /dev/null to ask without it)", file=sys.stderr)
    except (OSError, ValueError):  # it does not support select
        pass
    return checked(sys.stdin.read()).strip()


def beginning() -> str:
    """Return the beginning of what is piped in; empty if nothing is, or nothing comes soon. Raises as `_read`."""
    if not _is_piped():
        return ""
    descriptor = sys.stdin.fileno()
    try:
        raw = os.read(descriptor, BEGINNING) if select.select([descriptor], [], [], BEGINS_WITHIN)[0] else b""
    except (OSError, ValueError):
        return ""
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    return checked(decoder.decode(raw, final=len(raw) < BEGINNING)).strip()


def checked(text: str) -> str:
    """Return what was read from standard input; UsageError if it had bytes that are not UTF-8."""
    invalid = _INVALID.search(text)
    if invalid is None:
        return text
    line = text.count("\n", 0, invalid.start()) + 1
    raise UsageError(
        f"standard input is not UTF-8: byte 0x{ord(invalid[0]) - 0xDC00:02x} in line {line}",
        kept="nothing was stored, and no model was asked",
        hint="convert it first, for example with: iconv -f latin1 -t utf-8",
    )
