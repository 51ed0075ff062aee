"""Taking in transcripts by the lot: those that are new to us are built aside, and become sessions together.

The same words in the same files as `Capture.capture` gives, for a fraction of the flushes. Everything else (what grew,
what belongs to a workspace, what somebody else is taking in at this moment) goes that way.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import NamedTuple

from cortext.errors import CortextError, SessionExists
from cortext.index.catalogue import Entry
from cortext.model.message import Message
from cortext.services.capture.capture import (
    Capture,
    Captured,
    batches_of,
    calls_in,
    changes_of,
    done_entry,
    new_session,
    newest_of,
    title_of,
)
from cortext.store.capabilities import Bulk, Bulks
from cortext.tools.base import Transcript, TranscriptSource

# What is built before it is flushed and counted: more would not be quicker, and Ctrl-C forgets it.
LOT_SESSIONS = 24
LOT_BYTES = 32 << 20
FEW_MESSAGES = 64  # read, then written, while they are still in the processor

Work = Iterable[tuple[TranscriptSource, Transcript]]


class _Waiting(NamedTuple):
    """A transcript whose session is built and not yet published."""

    tool: TranscriptSource
    transcript: Transcript
    captured: Captured
    entry: Entry


# Takes what became of a transcript: what was captured, or why not.
Tell = Callable[[TranscriptSource, Transcript, Captured | str], None]


@contextmanager
def ctrl_c_later() -> Iterator[None]:
    """A Ctrl-C is heard after what is done in here, so that nothing is published and not told."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[object] = []
    before = signal.signal(signal.SIGINT, lambda *given: heard.append(given))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if heard:
        signal.raise_signal(signal.SIGINT)


class Intake:
    """Builds the sessions of new transcripts, and publishes them a lot at a time."""

    def __init__(self, capture: Capture, bulk: Bulk) -> None:
        self._capture, self._bulk = capture, bulk
        self._waiting: dict[str, _Waiting] = {}
        self._bytes = 0

    @property
    def full(self) -> bool:
        """Whether it is time to publish."""
        return len(self._waiting) >= LOT_SESSIONS or self._bytes >= LOT_BYTES

    def add(self, tool: TranscriptSource, transcript: Transcript, entry: Entry) -> Captured | None:
        """Build the session; None where it waits to be published, else what there is to say at once."""
        capture = self._capture
        try:
            draft = self._bulk.begin(entry.session_id)
        except SessionExists:
            return capture.capture(tool, transcript)
        added = calls = 0
        title = last = ""

        def counted(batches: Iterable[list[Message]]) -> Iterator[list[Message]]:
            nonlocal added, calls, title, last
            for batch in batches:
                added += len(batch)
                calls += calls_in(batch)
                last = newest_of(batch) or last
                title = title or title_of(batch)
                yield batch

        try:
            tool.copy(transcript, draft.copy, draft.later)  # before anything in it is read
            with capture.keeping_unread(tool, transcript):
                reading = tool.read(transcript)
                batches = batches_of(capture.words(reading, entry), FEW_MESSAGES)
                first = next(batches, None)
            if first is None:
                self._bulk.drop(draft)
                return capture.nothing_said(tool, transcript, reading.counts)
            draft.write(counted(chain((first,), batches)))
            session = new_session(entry, transcript, reading.about, first)
            session.title = session.title or title
            draft.finish(session, changes_of(session, reading.about, []))
            self._bulk.ready(draft)
        except BaseException:
            self._bulk.drop(draft)
            raise
        captured = Captured(entry.session_id, True, added, calls, reading.counts)
        done = done_entry(entry._replace(last=last), transcript, reading)
        self._waiting[entry.session_id] = _Waiting(tool, transcript, captured, done)
        self._bytes += transcript.size
        return None

    def publish(self, tell: Tell) -> list[Transcript]:
        """Make sessions of what waits, and tell what became of each; a Ctrl-C waits until all of it is told."""
        waiting, self._waiting, self._bytes = self._waiting, {}, 0
        if not waiting:
            return []
        taken: list[_Waiting] = []
        with ctrl_c_later():
            try:
                done = self._bulk.publish(lambda made: self._capture.remember([waiting[name].entry for name in made]))
            except CortextError as error:
                for item in waiting.values():
                    tell(item.tool, item.transcript, str(error))
            else:
                for name, item in waiting.items():
                    if name in done.taken:
                        taken.append(item)
                    else:
                        why = done.failed.get(name)
                        tell(item.tool, item.transcript, item.captured if why is None else str(why))
        for item in taken:  # somebody was quicker: what they have not got yet is appended
            tell(item.tool, item.transcript, tried(self._capture, item.tool, item.transcript))
        return [item.transcript for item in waiting.values()]


def outcomes(capture: Capture, work: Work, tell: Tell) -> Iterator[Transcript]:
    """Capture these transcripts, tell what became of each, and yield it then; one that fails stops nothing."""
    store = capture.home.store
    if not isinstance(store, Bulks):
        for tool, transcript in work:
            tell(tool, transcript, tried(capture, tool, transcript))
            yield transcript
        return
    bulk = store.bulk()
    intake = Intake(capture, bulk)
    try:
        for tool, transcript in work:
            outcome: Captured | str | None
            try:
                entry = capture.new_entry(transcript)
                outcome = intake.add(tool, transcript, entry) if entry else tried(capture, tool, transcript)
            except Exception:  # noqa: BLE001 (tried by itself, so that what can be had of it is kept)
                outcome = tried(capture, tool, transcript)
            if outcome is not None:
                tell(tool, transcript, outcome)
                yield transcript
            if intake.full:
                yield from intake.publish(tell)
        yield from intake.publish(tell)
    finally:
        bulk.close()


def tried(capture: Capture, tool: TranscriptSource, transcript: Transcript) -> Captured | str:
    """What a capture gave, or why it gave nothing: whatever is wrong with a transcript is that transcript's alone."""
    try:
        return capture.capture(tool, transcript)
    except Exception as error:  # noqa: BLE001 (the others must not suffer)
        return reason_of(error)


def reason_of(error: Exception) -> str:
    """Why a transcript could not be taken in, in a line."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if isinstance(error.filename, str) else error.strerror
    if isinstance(error, CortextError | OSError):
        return str(error)
    return f"it holds something unexpected ({type(error).__name__}: {error}); its file is kept as it is"
