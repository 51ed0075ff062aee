"""What comes through a pipe, beside a question on the command line: `git diff | aur spawn "Review this"`."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Sequence
from io import TextIOWrapper

PATIENCE = 2.0  # seconds until a person is told what we wait for


def question_of(words: Sequence[str]) -> str:
    """The words, with what comes through the pipe in the place of `-`, or after them where there is no `-`."""
    if "-" in words:
        return " ".join(_read() if word == "-" else word for word in words).strip()
    question = " ".join(words).strip()
    return "\n\n".join(filter(None, (question, _read() if _is_piped() else "")))


def _is_piped() -> bool:
    """Whether standard input is a pipe or a file: somebody put it there."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):  # it is closed
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _read() -> str:
    """Everything up to its end; bytes that are no text are kept as they are."""
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")
    try:
        if not select.select([sys.stdin], [], [], PATIENCE)[0] and sys.stderr.isatty():
            print("(waiting for the end of standard input; < /dev/null asks without it)", file=sys.stderr)
    except (OSError, ValueError):  # nothing that can be waited for
        pass
    return sys.stdin.read().strip()
