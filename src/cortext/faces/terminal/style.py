"""Colour and width: on a terminal only, and only if nobody said no (NO_COLOR, TERM=dumb)."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as mypy knows it: importing typing would cost a quarter of our start-up
if TYPE_CHECKING:
    from typing import TextIO

_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}


def coloured(stream: TextIO | None = None) -> bool:
    """Whether to use colour on this stream (standard output if none is given)."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    stream = stream or sys.stdout
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def paint(text: str, *names: str, stream: TextIO | None = None) -> str:
    """The text in these styles, where colour is used at all."""
    before, after = brush(*names, stream=stream)
    return f"{before}{text}{after}" if text else text


def brush(*names: str, stream: TextIO | None = None) -> tuple[str, str]:
    """What to write before and after a text in these styles; nothing where no colour is used."""
    if not names or not coloured(stream):
        return "", ""
    return f"\x1b[{';'.join(_CODES[name] for name in names)}m", "\x1b[0m"


def columns() -> int:
    """How wide the screen is; 0 where the output is no screen, and nothing needs to be cut."""
    if not sys.stdout.isatty() and not os.environ.get("COLUMNS"):
        return 0
    try:
        return int(os.environ.get("COLUMNS") or os.get_terminal_size(sys.stdout.fileno()).columns)
    except (ValueError, OSError):
        return 80
