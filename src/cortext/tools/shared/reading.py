"""What the readings of simple formats have in common: everything is read every time, and no record is fatal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from cortext.model.message import Message
from cortext.tools.base import About, Counts, Transcript
from cortext.tools.shared.building import MessageBuilder
from cortext.tools.shared.lines import NOT_UNDERSTOOD, RECORD_ERRORS, note, place_named

T = TypeVar("T")


class WholeReading:
    """A reading without a cursor. A subclass yields the messages."""

    is_whole = True  # whatever cursor it was given

    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript
        self.about = About(project=transcript.project)
        self.counts = Counts()
        self.cursor: dict[str, Any] | None = None
        self.builder = MessageBuilder(self.about, self.counts)

    def __iter__(self) -> Iterator[Message]:
        raise NotImplementedError

    def each(self, records: Iterable[T], messages_of: Callable[[T], Iterable[Message]]) -> Iterator[Message]:
        """Yield the messages of all records; one with an unexpected structure is counted, and has no message."""
        for number, record in enumerate(records):
            try:
                yield from list(messages_of(record))
            except RECORD_ERRORS:
                self.damaged(NOT_UNDERSTOOD, f"record {number}")

    def damaged(self, reason: str, where: str) -> None:
        """Count a damaged record."""
        note(self.counts.damaged, reason)
        place_named(self.counts, f"{self.transcript.path}: {where}")
