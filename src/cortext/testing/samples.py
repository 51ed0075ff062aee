"""What an adapter brings to the suite: one conversation as the tool stores it, and the files of its users."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cortext.tools.base import TranscriptSource


class Samples(ABC):
    """One conversation that holds every kind of record the tool writes, in a home folder of the suite's choosing."""

    project = ""  # the folder that it was held in, where the tool's format says
    records: int  # how many records it has
    wrong_cursors: Sequence[Mapping[str, Any]] = ()  # which nearly look like one of the adapter's
    said: Sequence[tuple[str, str]]  # role and text of every message that is read, in order

    # Settings files that users have, path in the project → text: each set is merged into and restored byte for byte.
    settings: Sequence[Mapping[str, str]] = ()
    # Settings that the tool itself could not use: they are named in an error, and nothing is changed.
    broken_settings: Sequence[Mapping[str, str]] = ()

    # What the program writes when it answers without a screen, a JSON object a line, and what that says.
    answer_lines: Sequence[Mapping[str, Any]] = ()
    answer = ""
    failure_lines: Sequence[Mapping[str, Any]] = ()

    @abstractmethod
    def tool(self, home: Path) -> TranscriptSource:
        """The adapter, looking at this home folder and at nothing else."""

    @abstractmethod
    def save(self, home: Path, records: int | None = None) -> None:
        """Store the conversation as the tool would: all of it, or as it is after so many records."""

    def payloads(self, home: Path, project: Path) -> Sequence[tuple[str, dict[str, Any]]]:
        """What the tool sends to its hooks in the course of the conversation: the kind of event, and the payload."""
        return ()


class LineSamples(Samples):
    """The same for a tool that keeps a conversation in one file, a record a line."""

    lines: Sequence[bytes]
    unknown: Sequence[bytes] = ()  # records of kinds that the adapter does not know
    broken: Sequence[bytes] = ()  # records that cannot be read, besides those that no JSON tool could read

    @abstractmethod
    def path(self, home: Path) -> Path:
        """Where the tool keeps the conversation."""

    @property
    def records(self) -> int:  # type: ignore[override]
        """One a line."""
        return len(self.lines)

    def save(self, home: Path, records: int | None = None) -> None:
        """Write the file."""
        self.save_bytes(home, b"".join(line + b"\n" for line in self.lines[:records]))

    def save_bytes(self, home: Path, data: bytes) -> Path:
        """Write the file with these contents."""
        path = self.path(home)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path
