"""Conversations that an AI tool is about to delete and cortext does not keep yet."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

from cortext.model.wording import amount
from cortext.tools.base import Purges, Transcript, TranscriptSource

if TYPE_CHECKING:  # most runs of `doctor` find nothing that is due, and need none of it
    from cortext.services.capture.capture import Capture
    from cortext.services.capture.transcripts import Work

SOON = 14.0  # days: what is deleted later than that is captured by then, or is reported when it is due
_DAY = 86_400.0


class PurgeWarning(msgspec.Struct, kw_only=True):
    """What one tool will delete soon, counting only what is not kept or has grown since; and the setting that says so.

    `days` is how long it takes at most until all of them are deleted; 0 if the tool's next start deletes them.
    """

    tool: str
    title: str
    conversations: int
    at_next_start: int
    days: int
    setting: str
    value: str
    keeping: str
    file: str
    is_managed: bool = False  # by an administrator: the user cannot raise it

    @property
    def text(self) -> str:
        """The warning for the user."""
        count = amount(self.conversations, "conversation")
        when = f"within {amount(self.days, 'day')}" if self.days else "at its next start"
        some = f", {self.at_next_start} of them at its next start" if self.days and self.at_next_start else ""
        return f"{self.title} will delete {count} {when}{some} ({self.setting} is {self.value})"


class Rescue:
    """What the tools will delete soon, and how to prevent it. What captures is made only if something is due."""

    def __init__(self, make_capture: Callable[[], Capture], tools: Iterable[TranscriptSource]) -> None:
        self.endangered: list[PurgeWarning] = []
        self.work: Work = []
        self.purging: list[Purges] = []  # every tool that deletes anything, ever
        self.notes: list[str] = []  # what else the user should know about these settings
        self._make_capture = make_capture
        self._capture: Capture | None = None
        now = time.time()
        for tool in tools:
            if isinstance(tool, Purges):
                self._add(tool, now)

    @property
    def capture(self) -> Capture:
        """What captures, and knows what is kept."""
        self._capture = self._capture or self._make_capture()
        return self._capture

    def _add(self, tool: Purges, now: float) -> None:
        try:
            purge = tool.purge()
        except Exception:  # noqa: BLE001 (another package's adapter may raise anything; `import` reports its store)
            return
        if purge is not None and purge.note:
            self.notes.append(f"{tool.title}: {purge.note}")
        if purge is None or not purge.due:
            return
        self.purging.append(tool)
        due = [
            (transcript, when)
            for transcript, when in purge.due
            if when - now < SOON * _DAY and not is_kept(self.capture, tool, transcript)
        ]
        self.work.extend((tool, transcript) for transcript, _ in due)
        latest = max((when for _, when in due), default=0.0)
        self.endangered.append(
            PurgeWarning(
                tool=tool.name,
                title=tool.title,
                conversations=len(due),
                at_next_start=sum(when <= now for _, when in due),
                days=max(0, math.ceil((latest - now) / _DAY)),
                setting=purge.setting,
                value=purge.value,
                keeping=purge.keeping,
                file=purge.file,
                is_managed=purge.is_managed,
            )
        )

    @property
    def warnings(self) -> list[PurgeWarning]:
        """Those that would lose something."""
        return [item for item in self.endangered if item.conversations]


def is_kept(capture: Capture, tool: TranscriptSource, transcript: Transcript) -> bool:
    """Whether everything in a transcript is kept: it did not change since it was captured, or contains no message."""
    from cortext.services.capture.first_reading import storable

    try:
        if capture.unchanged(transcript):
            return True
        return capture.new_entry(transcript) is not None and next(storable(tool.read(transcript)), None) is None
    except Exception:  # noqa: BLE001 (what cannot be read is not kept)
        return False


def restore_settings(tools: Iterable[TranscriptSource], *, dry_run: bool = False) -> list[str]:
    """Restore every setting that was raised; return the files that changed or, with `dry_run`, would."""
    purging = [tool for tool in tools if isinstance(tool, Purges)]
    return [path for tool in purging for path in tool.restore_retention(dry_run=dry_run)]
