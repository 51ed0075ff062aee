"""Importing new transcripts with several processes: an import is mostly bound by the processor.

Each process takes a batch of transcripts, builds and publishes their sessions (`intake`), and returns the results. It
opens its own connection to the catalogue and writes only to the home store. If it is killed, the process that started
it does the rest.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from multiprocessing.synchronize import Event

from cortext.services.capture.capture import Capture
from cortext.services.capture.first_reading import Captured
from cortext.services.capture.intake import BATCH_BYTES, BATCH_SESSIONS, Report, capture_each, delayed_ctrl_c
from cortext.tools.base import Transcript, TranscriptSource

LEAST_BYTES = 8 << 20  # of new transcripts: with less, one process is done before others have started
MOST_WORKERS = 4
BATCHES_EACH = 2  # per process: each batch ends with a wait for the disk, and many would leave processors idle

New = Sequence[tuple[TranscriptSource, Transcript]]
Results = list[tuple[int, Captured | str]]  # each with the index of its transcript


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

    def report(tool: TranscriptSource, transcript: Transcript, result: Captured | str) -> None:
        done.append((indexes[id(transcript)], result))

    for _ in capture_each(_Job.capture, until_stopped(), report):
        pass
    return done
