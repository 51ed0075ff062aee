"""An import from start to report: find the transcripts that changed, capture them, and record the failures.

An import is mostly bound by the processor, so several processes share a large one. Each takes a batch of transcripts,
builds and publishes their sessions (`intake`), and returns the results. It opens its own connection to the catalogue
and writes only to the home store. If it is killed, the process that started it does the rest.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import sys
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from multiprocessing.synchronize import Event

import msgspec

from cortext.errors import CortextError
from cortext.index.sessions import SessionIndex
from cortext.model.session import Change
from cortext.services.capture import uncaptured
from cortext.services.capture.capture import Capture
from cortext.services.capture.first_reading import CORRECTED, CaptureResult
from cortext.services.capture.intake import BATCH_BYTES, BATCH_SESSIONS, Report, capture_each, delayed_ctrl_c, reason_of
from cortext.services.capture.transcripts import Work, leftovers_of, work_for
from cortext.services.library.stores import NamedStore
from cortext.services.projects.projects import Projects
from cortext.store.capabilities import Bulks
from cortext.tools.base import Counts, Transcript, TranscriptSource
from cortext.tools.shared.lines import ends_whole

LEAST_BYTES = 8 << 20  # of new transcripts: with less, one process is done before others have started
MOST_WORKERS = 4
BATCHES_EACH = 2  # per process: each batch ends with a wait for the disk, and many would leave processors idle

New = Sequence[tuple[TranscriptSource, Transcript]]
Results = list[tuple[int, CaptureResult | str]]  # each with the index of its transcript


def worker_count(work: New) -> int:
    """Return how many processes are worth starting; 1 means that this one works alone."""
    if sum(transcript.size for _, transcript in work) < LEAST_BYTES or not _may_fork():
        return 1
    return min(MOST_WORKERS, len(os.sched_getaffinity(0)), len(work))


def _may_fork() -> bool:
    """Whether a fork is safe: on Linux, and only if no other thread is running that may hold a lock."""
    return sys.platform == "linux" and threading.active_count() == 1


def capture_with_workers(capture: Capture, work: New, count: int, report: Report) -> Iterator[Transcript]:
    """Capture these new transcripts with so many processes; report and then yield each."""
    work = sorted(work, key=lambda item: -item[1].size)  # all would wait for a large one at the end
    left = dict.fromkeys(range(len(work)))
    context = multiprocessing.get_context("fork")  # nothing needs to be pickled, and the start is immediate
    stopping = context.Event()
    capture.catalogue.close()  # a connection does not survive a fork
    executor = ProcessPoolExecutor(count, context, initializer=_start, initargs=(capture, work, stopping))
    waiting: set[Future[Results]] = set()

    def reported(future: Future[Results]) -> Results:
        """Report and return the results of a process; a Ctrl-C is delayed until all are reported."""
        with delayed_ctrl_c():
            waiting.discard(future)
            try:
                done = future.result()
            except Exception:  # noqa: BLE001 (the process failed or was killed: its transcripts are captured below)
                return []
            for index, result in done:
                del left[index]
                report(*work[index], result)
            return done

    try:
        with delayed_ctrl_c():  # a process must have installed its own handler before it gets one
            waiting |= {executor.submit(_import, batch) for batch in _batches(work, count)}
            capture.catalogue.reopen()
        for future in as_completed(list(waiting)):
            for index, _ in reported(future):
                yield work[index][1]
    finally:
        with delayed_ctrl_c():  # what was published is reported, also after a Ctrl-C
            stopping.set()
            executor.shutdown(cancel_futures=True)
            for future in [future for future in waiting if not future.cancelled()]:
                reported(future)
    capture.reload()
    yield from capture_each(capture, [work[index] for index in left], report)


def _batches(work: New, count: int) -> Iterator[list[int]]:
    """Yield the indexes of all transcripts, in batches that keep every process busy until the end."""
    shares = count * BATCHES_EACH
    most_sessions = min(BATCH_SESSIONS, -(-len(work) // shares))
    most_bytes = min(BATCH_BYTES, sum(transcript.size for _, transcript in work) // shares)
    batch: list[int] = []
    size = 0
    for index, (_, transcript) in enumerate(work):
        batch.append(index)
        size += transcript.size
        if len(batch) >= most_sessions or size >= most_bytes:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


# ── in the processes ─────────────────────────────────────────────────────────────────────────────────


class _Job:
    """What this process works on; set when it starts."""

    capture: Capture
    work: New
    stopping: Event


def _start(capture: Capture, work: New, stopping: Event) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process sets `stopping`
    _Job.capture, _Job.work, _Job.stopping = capture, work, stopping
    capture.catalogue.reopen()
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _import(batch: list[int]) -> Results:
    indexes = {id(_Job.work[index][1]): index for index in batch}
    done: Results = []

    def until_stopped() -> Iterator[tuple[TranscriptSource, Transcript]]:
        for index in batch:
            if _Job.stopping.is_set():
                return
            yield _Job.work[index]

    def report(tool: TranscriptSource, transcript: Transcript, result: CaptureResult | str) -> None:
        done.append((indexes[id(transcript)], result))

    for _ in capture_each(_Job.capture, until_stopped(), report):
        pass
    return done


CUT = "ends within a record"
LEFTOVER_KEY = "left over "  # no transcript has such a key
MOST_PLACES = 20  # of damaged records, for each tool


class ToolReport(msgspec.Struct, kw_only=True):
    """The result of an import for one tool."""

    tool: str
    transcripts: int = 0
    unchanged: int = 0
    empty: int = 0  # of those: without a message that can be read
    created: int = 0
    updated: int = 0
    messages: int = 0
    tool_calls: int = 0
    counts: Counts = msgspec.field(default_factory=Counts)
    failed: list[str] = []

    def plus(self, done: CaptureResult) -> ToolReport:
        """Return the report with the result of one more capture."""
        mine, theirs = self.counts, done.counts
        return msgspec.structs.replace(
            self,
            created=self.created + done.created,
            updated=self.updated + (not done.created and done.added > 0),
            unchanged=self.unchanged + (not done.added),
            empty=self.empty + (not done.session_id),
            messages=self.messages + done.added,
            tool_calls=self.tool_calls + done.tool_calls,
            counts=Counts(
                skipped=_sum(mine.skipped, theirs.skipped),
                unknown=_sum(mine.unknown, theirs.unknown),
                damaged=_sum(mine.damaged, theirs.damaged),
                places=[*mine.places, *theirs.places][:MOST_PLACES],
            ),
        )


def _sum(mine: dict[str, int], theirs: dict[str, int]) -> dict[str, int]:
    return {kind: mine.get(kind, 0) + theirs.get(kind, 0) for kind in mine | theirs} if theirs else mine


class ImportReport(msgspec.Struct):
    """What a run captured: the report of each tool, and what the user should know or have saved."""

    tools: dict[str, ToolReport] = {}
    grown: dict[tuple[str, str], None] = {}  # conversations of workspaces with new messages: store and id
    alarms: list[str] = []  # what tools have lost of what was handed over to them
    troubles: dict[str, None] = {}  # why the catalogue could not record what was captured

    def of(self, tool: str) -> ToolReport:
        """Return the report of a tool."""
        return self.tools.setdefault(tool, ToolReport(tool=tool))

    def add(self, tool: str, done: CaptureResult) -> None:
        """Add the result of one capture."""
        self.tools[tool] = self.of(tool).plus(done)
        if done.grown:
            self.grown[done.grown] = None
        if done.alarm:
            self.alarms.append(done.alarm)
        if done.trouble:
            self.troubles[done.trouble] = None

    @property
    def notes(self) -> list[str]:
        """What the user should know."""
        return [*self.troubles, *self.alarms]


def note_failure(reports: ImportReport, tool: str, key: str, path: str, why: str) -> None:
    """Report that a transcript (or, without a key, a tool's store) could not be captured, now and until it is."""
    reports.of(tool).failed.append(f"{path}: {uncaptured.without_path(why, path)}" if path else why)
    uncaptured.record(tool, key, path, why)


def scan(tools: Iterable[TranscriptSource], reports: ImportReport) -> Work:
    """Return every transcript of these tools; report what cannot be listed, now and until it can be."""
    work: Work = []
    for tool in tools:
        try:
            listed = [transcript for _, transcript in work_for([tool])]
            left = leftovers_of(tool, listed)
        except Exception as error:  # noqa: BLE001 (another package's adapter may raise anything)
            note_failure(reports, tool.name, "", "", reason_of(error))
            continue
        work.extend((tool, transcript) for transcript in listed)
        paths = [item.path for item in left]
        # A database may have several: the place among its own keeps the time at which each was noticed.
        keys = [f"{LEFTOVER_KEY}{path} {paths[:place].count(path)}" for place, path in enumerate(paths)]
        version = _version_of(tool) if set(keys) - {failure.key for failure in uncaptured.failures()} else ""
        for key, item in zip(keys, left, strict=True):
            reports.of(tool.name).failed.append(f"{item.path}: {item.why}")
            uncaptured.record(tool.name, key, item.path, item.why, kind=uncaptured.LEFTOVER, version=version)
        uncaptured.settle(tool.name, listed, keys)
    return work


def _version_of(tool: TranscriptSource) -> str:
    """Return the installed version of a tool, for a record of what its format has that we do not know."""
    try:
        found = tool.detect()
    except Exception:  # noqa: BLE001 (another package's adapter may raise anything)
        return ""
    return found.version if found is not None else ""


def lost_in(counts: Counts) -> str:
    """Return which records of a transcript are not in its session, by kind; empty if all are.

    Values that were corrected in a message that is stored do not count.
    """
    kinds = {kind: count for kind, count in counts.damaged.items() if kind not in CORRECTED}
    unknown = {f"unknown kind {kind}": count for kind, count in counts.unknown.items()}
    return ", ".join(f"{kind} × {count}" for kind, count in sorted({**kinds, **unknown}.items()))


def is_cut(path: str) -> bool:
    """Whether a file of records ends within one."""
    try:
        return os.path.isfile(path) and not ends_whole(path)
    except (OSError, CortextError):
        return False


def with_cut(result: CaptureResult, path: str) -> CaptureResult:
    """Return the result for a transcript that ends within a record."""
    counts = result.counts
    damaged, places = {**counts.damaged, CUT: 1}, [f"{path}: {CUT}", *counts.places]
    return result._replace(counts=msgspec.structs.replace(counts, damaged=damaged, places=places))


def capture_all(
    capture: Capture, work: Work, reports: ImportReport, *, share: bool = True, are_named: bool = False
) -> Generator[Transcript, None, None]:
    """Capture these transcripts and yield each when it is done. One that fails does not stop the others.

    If the user named them, the tool is not about to complete one that ends within a record: it is reported as cut.
    With `share`, several processes may share the work; a process with threads of another library must not fork.
    """
    changed: list[tuple[TranscriptSource, Transcript]] = []
    failures = uncaptured.failures()
    failed_before = {(failure.tool, failure.key) for failure in failures if failure.kind != uncaptured.PART}
    cut_before = {(failure.tool, failure.key) for failure in failures if failure.why == f"{CUT} × 1"}
    # A newer version, or a library, may understand what an earlier one did not.
    again = {
        (failure.tool, failure.key)
        for failure in failures
        if failure.kind == uncaptured.PART and failure.cortext != uncaptured.reader()
    }
    for tool, transcript in work:
        report = reports.of(tool.name)
        report.transcripts += 1
        try:
            if (tool.name, transcript.key) in again:
                capture.read_again(transcript)
            unchanged = capture.unchanged(transcript)
        except Exception as error:  # noqa: BLE001 (an unusable key must not stop the others)
            note_failure(reports, tool.name, transcript.key, transcript.path, reason_of(error))
            continue
        if unchanged:
            if (tool.name, transcript.key) in failed_before:  # another process has captured it since
                uncaptured.clear(tool.name, [transcript.key])
            report.unchanged += 1
            yield transcript
        else:
            changed.append((tool, transcript))
    captured: dict[str, list[str]] = {}

    def report_result(tool: TranscriptSource, transcript: Transcript, result: CaptureResult | str) -> None:
        if not isinstance(result, CaptureResult):
            note_failure(reports, tool.name, transcript.key, transcript.path, result)
            return
        if are_named and is_cut(transcript.path):
            result = with_cut(result, transcript.path)
        reports.add(tool.name, result)
        lost = lost_in(result.counts)
        if lost and not result.session_id:  # nothing could be read, so there is no session
            why = f"nothing in it could be read ({lost})"
            note_failure(reports, tool.name, transcript.key, transcript.path, why)
        elif lost:
            uncaptured.record(tool.name, transcript.key, transcript.path, lost, kind=uncaptured.PART)
        elif result.is_whole or (tool.name, transcript.key) in failed_before | cut_before:
            captured.setdefault(tool.name, []).append(transcript.key)

    try:
        yield from _capture_changed(capture, changed, report_result, share=share)
    finally:
        for name, report in reports.tools.items():
            uncaptured.settle(name, [transcript for tool, transcript in work if tool.name == name])
            uncaptured.clear(name, [*captured.get(name, ()), *(() if report.failed else ("",))])


def _capture_changed(capture: Capture, work: New, report: Report, *, share: bool) -> Iterator[Transcript]:
    """Capture these transcripts, with several processes if many bytes of them are new."""
    if share and isinstance(capture.home.store, Bulks):
        new = [item for item in work if _is_new(capture, item[1])]
        count = worker_count(new)
        if count > 1:
            yield from capture_with_workers(capture, new, count, report)
            done = {id(transcript) for _, transcript in new}
            work = [item for item in work if id(item[1]) not in done]
    yield from capture_each(capture, work, report)


def _is_new(capture: Capture, transcript: Transcript) -> bool:
    try:
        return capture.new_entry(transcript) is not None
    except Exception:  # noqa: BLE001 (reported when it is captured)
        return False


def record_repositories(home: NamedStore, index: SessionIndex) -> int:
    """Record the repository with each session that has none and whose folder still exists; return how many there were.

    Nothing else in a session changes. What the index does not know yet is recorded the next time.
    """
    projects = Projects()
    done = 0
    try:
        sessions = index.without_repository(home.root)
    except sqlite3.DatabaseError:
        return 0  # locked or damaged: the next list repairs it
    for session_id, project in sessions:
        record = projects.record(project) if os.path.isdir(project) else {}
        if record:
            try:
                home.store.update(session_id, Change(extra=record))
                done += 1
            except (CortextError, OSError):
                continue  # in use, or just deleted: the next time
    return done
