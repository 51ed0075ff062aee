"""Output that all faces print in the same way: JSON, and notes on standard error."""

from __future__ import annotations

import json
import sys

from cortext.faces.terminal.style import paint
from cortext.safety import terminal


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
