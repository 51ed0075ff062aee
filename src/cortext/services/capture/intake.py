"""Taking in transcripts by the lot: those that are new to us are built aside, and become sessions together.

The same words in the same files as `Capture.capture` gives, for a fraction of the flushes. Everything else (what grew,
what belongs to a workspace, what somebody else is taking in at this moment) goes that way.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import NamedTuple

from cortext.errors import CortextError, SessionExists
from cortext.index.catalogue import Entry
from cortext.model.message import Message
from cortext.services.capture import uncaptured
from cortext.services.capture.capture import (
    Capture,
    Captured,
    ToolReport,
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


def _side_by_side(
    capture: Capture, work: Sequence[tuple[TranscriptSource, Transcript]], tell: Tell
) -> Iterator[Transcript]:
    """The same, by several processes for what is new where there is much of it."""
    if isinstance(capture.home.store, Bulks):
        from cortext.services.capture import workers as crew

        new = [item for item in work if _is_new(capture, item[1])]
        size = crew.size_of_crew(new)
        if size > 1:
            yield from crew.outcomes_of_crew(capture, new, size, tell)
            taken = {id(transcript) for _, transcript in new}
            work = [item for item in work if id(item[1]) not in taken]
    yield from outcomes(capture, work, tell)


def _is_new(capture: Capture, transcript: Transcript) -> bool:
    try:
        return capture.new_entry(transcript) is not None
    except Exception:  # noqa: BLE001 (told when it is tried by itself)
        return False


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


def note_failure(reports: dict[str, ToolReport], tool: str, key: str, path: str, why: str) -> None:
    """Tell that a transcript (or, without a key, a tool's store) could not be taken in, now and until it is."""
    report = reports.setdefault(tool, ToolReport(tool=tool))
    report.failed.append(f"{path}: {uncaptured.without_path(why, path)}" if path else why)
    uncaptured.failed(tool, key, path, why)


def capture_all(capture: Capture, work: Work, reports: dict[str, ToolReport]) -> Generator[Transcript, None, None]:
    """Capture these transcripts, yielding each when it is done; one that fails stops nothing."""
    changed: list[tuple[TranscriptSource, Transcript]] = []
    marked = {(mark.tool, mark.key) for mark in uncaptured.marks()}
    for tool, transcript in work:
        report = reports.setdefault(tool.name, ToolReport(tool=tool.name))
        report.transcripts += 1
        try:
            unchanged = capture.unchanged(transcript)
        except Exception as error:  # noqa: BLE001 (its name is odd: the others must not suffer)
            note_failure(reports, tool.name, transcript.key, transcript.path, reason_of(error))
            continue
        if unchanged:
            if (tool.name, transcript.key) in marked:  # a hook failed, and somebody else has captured it since
                uncaptured.done(tool.name, [transcript.key])
            report.unchanged += 1
            yield transcript
        else:
            changed.append((tool, transcript))
    taken: dict[str, list[str]] = {}

    def tell(tool: TranscriptSource, transcript: Transcript, outcome: Captured | str) -> None:
        if not isinstance(outcome, Captured):
            note_failure(reports, tool.name, transcript.key, transcript.path, outcome)
            return
        reports[tool.name].add(outcome)
        if outcome.counts.damaged and not outcome.session_id:  # nothing but damage: there is no session of it
            kinds = ", ".join(f"{kind} × {count}" for kind, count in sorted(outcome.counts.damaged.items()))
            uncaptured.failed(tool.name, transcript.key, transcript.path, f"nothing in it could be read ({kinds})")
        else:
            taken.setdefault(tool.name, []).append(transcript.key)

    try:
        yield from _side_by_side(capture, changed, tell)
    finally:
        for name, report in reports.items():
            uncaptured.done(name, [*taken.get(name, ()), *(() if report.failed else ("",))])
