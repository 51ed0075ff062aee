"""Output that all faces print in the same way: colours and widths, JSON, and notes on standard error.

Colours and widths only on a terminal, and only if the user has not disabled them (NO_COLOR, TERM=dumb).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from textwrap import wrap
from typing import TextIO

from cortext.errors import CortextError
from cortext.safety import terminal

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
    """Return the text in these styles; unchanged if no colour is used."""
    before, after = style_codes(*names, stream=stream)
    return f"{before}{text}{after}" if text else text


def style_codes(*names: str, stream: TextIO | None = None) -> tuple[str, str]:
    """Return what to write before and after a text in these styles; empty if no colour is used."""
    if not names or not coloured(stream):
        return "", ""
    return f"\x1b[{';'.join(_CODES[name] for name in names)}m", "\x1b[0m"


def columns(stream: TextIO | None = None) -> int:
    """Return the width of the screen; 0 if the output is not a screen, so that nothing needs to be cut."""
    stream = stream or sys.stdout
    if not stream.isatty() and not os.environ.get("COLUMNS"):
        return 0
    try:
        return int(os.environ.get("COLUMNS") or os.get_terminal_size(stream.fileno()).columns)
    except (ValueError, OSError):
        return 80


def rows_of_screen() -> int:
    """Return the height of the screen; 0 if the output is not a terminal."""
    if not sys.stdout.isatty():
        return 0
    try:
        return int(os.environ.get("LINES") or os.get_terminal_size(sys.stdout.fileno()).lines)
    except (ValueError, OSError):
        return 24


def folded(text: str, stream: TextIO | None = None, *, first: int = 0, indent: int = 0) -> str:
    """Return a text with its lines broken between words to fit the screen; unchanged if there is no screen.

    `first` columns of the first line are taken already; continuation lines are indented by `indent` more than the line
    that they continue.
    """
    wide = columns(stream)
    if not wide or all(len(line) + first <= wide for line in text.split("\n")):
        return text

    lines: list[str] = []
    for number, line in enumerate(text.split("\n")):
        taken = " " * first if not number else ""
        margin = " " * (len(line) - len(line.lstrip(" ")) + indent)
        broken = wrap(
            taken + line,
            max(wide, len(margin) + 20),
            subsequent_indent=margin,
            break_long_words=False,
            break_on_hyphens=False,
            drop_whitespace=True,
            replace_whitespace=False,
        )
        if broken and taken:
            broken[0] = broken[0][first:]
        lines += broken or [""]
    return "\n".join(lines)


def print_fields(lines: Iterable[str], stream: TextIO | None = None) -> None:
    """Print the lines of a receipt, each a name of eleven columns and its text; a long text goes on below itself."""
    for line in lines:
        print(folded(f"  {terminal.line(line)}", stream, indent=11), file=stream)


def print_json(value: object) -> None:
    """Print JSON on standard output; what UTF-8 cannot encode (half a surrogate pair) is escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value, indent=2)
    print(text)


def note(text: str) -> None:
    """Print a note for the user on standard error, to keep standard output clean for scripts."""
    for line in text.splitlines():
        print(paint(terminal.line(line), "dim", stream=sys.stderr), file=sys.stderr)


def report_missing(missing: Mapping[str, CortextError]) -> int:
    """Say on standard error which servers did not answer, so that their sessions are missing; return the exit code."""
    from cortext.services.library.sources import incomplete_line

    for error in missing.values():
        text = terminal.line(f"Note: {incomplete_line([error.message])} To see them: {error.hint}")
        print(folded(text, sys.stderr, indent=2), file=sys.stderr)
    return max((error.exit_status for error in missing.values()), default=0)
