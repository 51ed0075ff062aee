"""Capturing many new transcripts: their sessions are built aside and published in batches.

The files are the same as those of `Capture.capture`, for a fraction of the flushes. Every other transcript (one that
grew, belongs to a workspace, or is being captured by another process) is captured on its own.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from cortext.errors import CortextError, SessionExists
from cortext.index.catalogue import Entry
from cortext.services.capture.additions import first_change
from cortext.services.capture.capture import Capture
from cortext.services.capture.first_reading import CaptureResult
from cortext.store.capabilities import Bulk, Bulks
from cortext.tools.base import Transcript, TranscriptSource

# Sessions and bytes that are published together: more would not be faster, and Ctrl-C discards what is unpublished.
BATCH_SESSIONS = 24
BATCH_BYTES = 32 << 20
FEW_MESSAGES = 64  # read and then written while they are still in the processor's cache

Work = Iterable[tuple[TranscriptSource, Transcript]]


class _Waiting(NamedTuple):
    """A transcript whose session is built but not yet published."""

    tool: TranscriptSource
    transcript: Transcript
    captured: CaptureResult
    entry: Entry


# Called with the result for each transcript: what was captured, or why it failed.
Report = Callable[[TranscriptSource, Transcript, CaptureResult | str], None]


@contextmanager
def delayed_ctrl_c() -> Iterator[None]:
    """Delay a Ctrl-C until the block ends, so that everything published is also reported."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[object] = []
    previous = signal.signal(signal.SIGINT, lambda *arguments: received.append(arguments))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
    if received:
        signal.raise_signal(signal.SIGINT)


class Intake:
    """Builds the sessions of new transcripts and publishes them in batches."""

    def __init__(self, capture: Capture, bulk: Bulk) -> None:
        self._capture, self._bulk = capture, bulk
        self._waiting: dict[str, _Waiting] = {}
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether the batch should be published now."""
        return len(self._waiting) >= BATCH_SESSIONS or self._bytes >= BATCH_BYTES

    def add(self, tool: TranscriptSource, transcript: Transcript, entry: Entry) -> CaptureResult | None:
        """Build the session. Return None if it waits to be published, else the result."""
        capture = self._capture
        try:
            draft = self._bulk.begin(entry.session_id)
        except SessionExists:
            return capture.capture(tool, transcript)
        try:
            tool.copy(transcript, draft.copy, draft.later)  # before anything in it is read
            first = capture.first_reading(tool, transcript, entry, FEW_MESSAGES)
            if first.is_empty:
                self._bulk.drop(draft)
                return capture.without_session(tool, transcript, first.counts)
            draft.write(first.batches())
            if first.withheld.any:  # the copy has it
                self._bulk.drop(draft)
                return capture.capture(tool, transcript)
            session = capture.session_of(first)
            draft.finish(session, first_change(session, entry, tool, transcript, first))
            self._bulk.ready(draft)
        except BaseException:
            self._bulk.drop(draft)
            raise
        self._waiting[entry.session_id] = _Waiting(tool, transcript, first.captured(), first.entry())
        self._bytes += transcript.size
        return None

    def publish(self, report: Report) -> list[Transcript]:
        """Publish the sessions that wait, report each, and return their transcripts. A Ctrl-C is delayed meanwhile."""
        waiting, self._waiting, self._bytes = self._waiting, {}, 0
        if not waiting:
            return []
        exists_already: list[_Waiting] = []
        troubles: list[str] = []
        with delayed_ctrl_c():
            try:
                done = self._bulk.publish(
                    lambda made: troubles.append(self._capture.remember([waiting[name].entry for name in made]))
                )
            except CortextError as error:
                for item in waiting.values():
                    report(item.tool, item.transcript, str(error))
            else:
                for name, item in waiting.items():
                    if name in done.taken:
                        exists_already.append(item)
                    else:
                        why = done.failed.get(name)
                        captured = item.captured._replace(trouble="".join(troubles))
                        report(item.tool, item.transcript, captured if why is None else str(why))
        for item in exists_already:  # another process was faster: append what it has not read
            report(item.tool, item.transcript, result_of(self._capture, item.tool, item.transcript))
        return [item.transcript for item in waiting.values()]


def capture_each(capture: Capture, work: Work, report: Report) -> Iterator[Transcript]:
    """Capture these transcripts; report and then yield each. One that fails does not stop the others."""
    store = capture.home.store
    if not isinstance(store, Bulks):
        for tool, transcript in work:
            report(tool, transcript, result_of(capture, tool, transcript))
            yield transcript
        return
    bulk = store.bulk()
    intake = Intake(capture, bulk)
    try:
        for tool, transcript in work:
            result: CaptureResult | str | None
            try:
                entry = capture.new_entry(transcript)
                result = intake.add(tool, transcript, entry) if entry else result_of(capture, tool, transcript)
            except Exception:  # noqa: BLE001 (captured on its own, which keeps as much of it as can be read)
                result = result_of(capture, tool, transcript)
            if result is not None:
                report(tool, transcript, result)
                yield transcript
            if intake.is_full:
                yield from intake.publish(report)
        yield from intake.publish(report)
    finally:
        bulk.close()


def result_of(capture: Capture, tool: TranscriptSource, transcript: Transcript) -> CaptureResult | str:
    """Capture one transcript and return the result, or the reason if it failed."""
    try:
        return capture.capture(tool, transcript)
    except Exception as error:  # noqa: BLE001 (a damaged transcript must not stop the others)
        return reason_of(error)


def reason_of(error: Exception) -> str:
    """Return why a transcript could not be captured, on one line."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if isinstance(error.filename, str) else error.strerror
    if isinstance(error, CortextError | OSError):
        return str(error)
    return f"unexpected content ({type(error).__name__}: {error}); the file is kept as it is"
