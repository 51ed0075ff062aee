"""What Gemini CLI omits, and what it sends repeatedly, when it resumes a session of its own.

It omits user messages that begin like its commands. It stores the results of tool calls twice, with the calls and as a
separate message, and sends both. After a compression it sends a summary instead of the earlier messages.
"""

from __future__ import annotations

import msgspec

from cortext.tools.base import Counts, Withheld
from cortext.tools.gemini_cli.messages import COMPRESSED, bookkeeping
from cortext.tools.gemini_cli.read import document_records, is_document
from cortext.tools.gemini_cli.records import Record, record_decoder
from cortext.tools.shared.google_parts import Content, parts_of
from cortext.tools.shared.lines import ForeignLines

COMMANDS = "message that begins with / or ? (Gemini CLI does not send it again)"
REPEATED = "tool result that Gemini CLI sends more than once"
_OMITTED_PREFIXES = ("/", "?", "<session_context>", "<hook_context>")


def withheld(path: str) -> Withheld | None:
    """Return which messages the tool would omit from this transcript, and how many results it would repeat.

    None after a compression.
    """
    observer = _Observer()
    counts = Counts()
    if is_document(path):
        records = document_records(path, counts)
    else:
        lines = ForeignLines(path, 0, counts)
        records = (record for line in lines for record in lines.decode(line, record_decoder, Record))
    for record in records:
        observer.add(record)
    return observer.result()


class _Observer:
    """Follows the records in order; a later record replaces an earlier one with the same id."""

    def __init__(self) -> None:
        self._compressed = False  # whether the history begins with a summary
        self._omitted: set[str] = set()
        self._answers: dict[str, list[str]] = {}  # record id: the calls whose results it contains

    def add(self, record: Record) -> None:
        """Process one record."""
        if record.changed is not None and record.changed.messages is not None:
            self._compressed, self._omitted, self._answers = False, set(), {}
            for raw in record.changed.messages:
                try:
                    self.add(record_decoder.decode(raw))
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    continue  # `GeminiReading` counts the damage
        if record.type == "user":
            self._omitted.discard(record.id)
            text = _text(record.content)
            if text.strip().startswith(_OMITTED_PREFIXES):
                self._omitted.add(record.id)
            if record.cortext is None and bookkeeping(text) == COMPRESSED:
                self._compressed = True
        if record.type in ("user", "gemini"):
            results = [part for call in record.toolCalls or () for part in parts_of(call.result)]
            found = [part.functionResponse for part in (*parts_of(record.content), *results)]
            self._answers[record.id] = [answer.id or "" for answer in found if answer is not None]

    def result(self) -> Withheld | None:
        """Return what was found so far."""
        if self._compressed:
            return None
        answers = [name for names in self._answers.values() for name in names if name]
        repeated = len(answers) - len(set(answers))
        return Withheld(
            messages={COMMANDS: self._omitted} if self._omitted else {},
            changed={REPEATED: repeated} if repeated else {},
        )


def _text(content: Content) -> str:
    return "".join(part.text or "" for part in parts_of(content))
