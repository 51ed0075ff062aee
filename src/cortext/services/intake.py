"""Taking in transcripts by the lot: those that are new to us are built aside, and become sessions together.

The same words in the same files as `Capture.capture` gives, for a fraction of the flushes. Everything else (what grew,
what belongs to a workspace, what somebody else is taking in at this moment) goes that way.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from cortext.errors import CortextError, SessionExists
from cortext.index.catalogue import Entry
from cortext.model.message import Message
from cortext.services.capture import (
    UNCHANGED,
    Capture,
    Captured,
    ToolReport,
    batches_of,
    calls_in,
    changes_of,
    done_entry,
    new_session,
    newest_of,
    title_from,
)
from cortext.store.base import Bulk
from cortext.tools.base import Tool, Transcript

# What is built before it is flushed and counted: more would not be quicker, and Ctrl-C forgets it.
LOT_SESSIONS = 24
LOT_BYTES = 32 << 20
FEW_MESSAGES = 64  # read, then written, while they are still in the processor

Work = Iterable[tuple[Tool, Transcript]]


class _Waiting(NamedTuple):
    """A transcript whose session is built and not yet published."""

    tool: Tool
    transcript: Transcript
    captured: Captured
    entry: Entry


# What became of a transcript: what was captured, or why not.
Outcome = tuple[Tool, Transcript, Captured | str]


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

    def add(self, tool: Tool, transcript: Transcript, entry: Entry) -> Captured | None:
        """Build the session; None where it waits to be published, else what there is to say at once."""
        capture = self._capture
        reading = tool.read(transcript)
        batches = batches_of(capture.words(reading, entry), FEW_MESSAGES)
        first = next(batches, None)
        if first is None:
            return UNCHANGED._replace(counts=reading.counts)
        try:
            draft = self._bulk.begin(entry.session_id)
        except SessionExists:
            return capture.capture(tool, transcript)
        added = calls = 0
        title = last = ""

        def counted() -> Iterator[list[Message]]:
            nonlocal added, calls, title, last
            for batch in chain((first,), batches):
                added += len(batch)
                calls += calls_in(batch)
                last = newest_of(batch) or last
                title = title or title_from(batch)
                yield batch

        try:
            draft.write(counted())
            session = new_session(entry, transcript, reading.about, first)
            session.title = session.title or title
            draft.finish(session, changes_of(session, reading.about, []))
            tool.copy(transcript, draft.copy, draft.later)
            self._bulk.ready(draft)
        except BaseException:
            self._bulk.drop(draft)
            raise
        captured = Captured(entry.session_id, True, added, calls, reading.counts)
        done = done_entry(entry._replace(last=last), transcript, reading)
        self._waiting[entry.session_id] = _Waiting(tool, transcript, captured, done)
        self._bytes += transcript.size
        return None

    def publish(self) -> Iterator[Outcome]:
        """Make sessions of what waits; what became of each."""
        waiting, self._waiting, self._bytes = self._waiting, {}, 0
        if not waiting:
            return
        try:
            done = self._bulk.publish(lambda made: self._capture.remember([waiting[name].entry for name in made]))
        except CortextError as error:
            yield from ((item.tool, item.transcript, str(error)) for item in waiting.values())
            return
        for name, item in waiting.items():
            if name in done.taken:  # somebody was quicker: what they have not got yet is appended
                yield item.tool, item.transcript, _tried(self._capture, item.tool, item.transcript)
            else:
                yield item.tool, item.transcript, str(done.failed[name]) if name in done.failed else item.captured


def outcomes(capture: Capture, work: Work) -> Iterator[Outcome]:
    """Capture these transcripts; one that fails stops nothing."""
    store: Any = capture.home.store
    bulk: Bulk | None = store.bulk() if hasattr(store, "bulk") else None
    if bulk is None:
        yield from ((tool, transcript, _tried(capture, tool, transcript)) for tool, transcript in work)
        return
    intake = Intake(capture, bulk)
    try:
        for tool, transcript in work:
            entry = capture.new_entry(transcript)
            if entry is None:
                yield tool, transcript, _tried(capture, tool, transcript)
                continue
            try:
                captured = intake.add(tool, transcript, entry)
            except (CortextError, OSError) as error:
                yield tool, transcript, str(error)
                continue
            if captured is not None:
                yield tool, transcript, captured
            if intake.full:
                yield from intake.publish()
        yield from intake.publish()
    finally:
        bulk.close()


def _side_by_side(capture: Capture, work: Sequence[tuple[Tool, Transcript]]) -> Iterator[Outcome]:
    """The same, by several processes for what is new where there is much of it."""
    if hasattr(capture.home.store, "bulk"):
        from cortext.services import crew

        new = [item for item in work if capture.new_entry(item[1]) is not None]
        size = crew.size_of_crew(new)
        if size > 1:
            yield from crew.outcomes_of_crew(capture, new, size)
            taken = {id(transcript) for _, transcript in new}
            work = [item for item in work if id(item[1]) not in taken]
    yield from outcomes(capture, work)


def _tried(capture: Capture, tool: Tool, transcript: Transcript) -> Captured | str:
    try:
        return capture.capture(tool, transcript)
    except (CortextError, OSError) as error:
        return str(error)


def capture_all(capture: Capture, work: Work, reports: dict[str, ToolReport]) -> Generator[Transcript, None, None]:
    """Capture these transcripts, yielding each when it is done; one that fails stops nothing."""
    changed: list[tuple[Tool, Transcript]] = []
    for tool, transcript in work:
        report = reports.setdefault(tool.name, ToolReport(tool=tool.name))
        report.transcripts += 1
        if capture.unchanged(transcript):
            report.unchanged += 1
            yield transcript
        else:
            changed.append((tool, transcript))
    for tool, transcript, outcome in _side_by_side(capture, changed):
        if isinstance(outcome, Captured):
            reports[tool.name].add(outcome)
        else:
            reports[tool.name].failed.append(f"{transcript.path}: {outcome}")
        yield transcript
