"""What all faces print in the same way: JSON, and notes beside the output."""

from __future__ import annotations

import json
import sys

from cortext.faces.terminal.style import paint
from cortext.safety import terminal


def print_json(value: object) -> None:
    """JSON on standard output; what UTF-8 cannot encode (half a surrogate pair) is escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value, indent=2)
    print(text)


def note(text: str) -> None:
    """A word to the user on standard error, so that a script can take the output alone."""
    for line in text.splitlines():
        print(paint(terminal.line(line), "dim", stream=sys.stderr), file=sys.stderr)
