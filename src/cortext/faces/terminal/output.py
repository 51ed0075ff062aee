"""Output that all faces print in the same way: JSON, and notes on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

from cortext.errors import CortextError
from cortext.faces.terminal.style import folded, paint
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


def report_missing(missing: Mapping[str, CortextError]) -> int:
    """Say on standard error which servers did not answer, so that their sessions are missing; return the exit code."""
    from cortext.services.library.listing import incomplete_line

    for error in missing.values():
        text = terminal.line(f"Note: {incomplete_line([error.message])} To see them: {error.hint}")
        print(folded(text, sys.stderr, indent=2), file=sys.stderr)
    return max((error.exit_status for error in missing.values()), default=0)
