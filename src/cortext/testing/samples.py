"""What an adapter provides to the suite: one conversation in the tool's own format, and the settings files of users."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cortext.tools.base import TranscriptSource


class Samples(ABC):
    """One conversation with every kind of record that the tool writes. The suite chooses the home folder."""

    project = ""  # the folder in which the conversation took place, if the tool's format stores it
    records: int  # how many records the conversation has
    messages: Sequence[tuple[str, str]]  # role and text of every message in it, in order
    invalid_cursors: Sequence[Mapping[str, Any]] = ()  # similar to the adapter's own, but unusable
    unknown: Sequence[bytes] = ()  # records of kinds that the adapter does not know
    broken: Sequence[bytes] = ()  # records that cannot be read, in addition to those that the suite tries itself

    # Whether the folder of the conversation is the tool's own. In a project, a subfolder is another one's affair.
    has_folder = True

    # Settings files of users, path in the project → text. Each set gets our entries, and is then restored byte by byte.
    settings: Sequence[Mapping[str, str]] = ()
    # Settings that the tool itself would reject. The adapter names the file in an error and changes nothing.
    broken_settings: Sequence[Mapping[str, str]] = ()

    # What the program prints when it runs without a terminal interface, a JSON object per line, and the answer in it.
    answer_lines: Sequence[Mapping[str, Any]] = ()
    answer = ""
    failure_lines: Sequence[Mapping[str, Any]] = ()

    @abstractmethod
    def tool(self, home: Path) -> TranscriptSource:
        """Return the adapter for this home folder. It must not look anywhere else."""

    @abstractmethod
    def save(self, home: Path, records: int | None = None) -> None:
        """Store the conversation as the tool would: all of it, or only its first records."""

    @abstractmethod
    def save_with(self, home: Path, index: int, record: bytes) -> None:
        """Store the whole conversation with an additional record before the record of this index."""

    def save_growing(self, home: Path) -> bool:
        """Store a conversation whose last reply is still being written, in a record that `finish_growing` completes.

        Return False if the tool stores only what is complete: then this is not tested.
        """
        return False

    def finish_growing(self, home: Path) -> Sequence[str]:
        """Complete the reply of `save_growing` in its place; return the texts of all replies."""
        return ()

    def payloads(self, home: Path, project: Path) -> Sequence[tuple[str, dict[str, Any]]]:
        """Return what the tool sends to its hooks during the conversation: the kind of event, and the payload."""
        return ()


class LineSamples(Samples):
    """The samples of a tool that keeps a conversation in a file with one record per line."""

    lines: Sequence[bytes]

    @abstractmethod
    def path(self, home: Path) -> Path:
        """Return where the tool keeps the conversation."""

    @property
    def records(self) -> int:  # type: ignore[override]
        """The number of lines."""
        return len(self.lines)

    def save(self, home: Path, records: int | None = None) -> None:
        """Write the file."""
        self.save_bytes(home, _joined(self.lines[:records]))

    def save_with(self, home: Path, index: int, record: bytes) -> None:
        """Write the file with an additional line."""
        self.save_bytes(home, _joined([*self.lines[:index], record, *self.lines[index:]]))

    def save_bytes(self, home: Path, data: bytes) -> Path:
        """Write the file with these contents; return its path."""
        path = self.path(home)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path


def _joined(lines: Sequence[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)
