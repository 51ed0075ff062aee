"""New transcripts imported by several processes: most of an import is work for a processor.

Each process takes a batch of transcripts, builds and publishes their sessions (`intake`), and returns what became of
each. It opens the catalogue by itself and writes only to the home store. What a killed process left undone is done by
the one that started it.
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

from cortext.services.capture.capture import Capture, Captured
from cortext.services.capture.intake import LOT_BYTES, LOT_SESSIONS, Tell, ctrl_c_later, outcomes
from cortext.tools.base import Transcript, TranscriptSource

WORTH_IT = 8 << 20  # bytes of new transcripts: below this one process is done before others have started
MOST = 4
BATCHES_EACH = 2  # of a process: each batch ends with a wait for the disk, and many would leave processors idle

New = Sequence[tuple[TranscriptSource, Transcript]]
Outcomes = list[tuple[int, Captured | str]]  # by the number of a transcript


def worker_count(work: New) -> int:
    """How many processes are worth starting; 1 means that this one does it alone."""
    if sum(transcript.size for _, transcript in work) < WORTH_IT or not _may_fork():
        return 1
    return min(MOST, len(os.sched_getaffinity(0)), len(work))


def _may_fork() -> bool:
    """Only on Linux, and only if no other thread is running that may hold a lock now."""
    return sys.platform == "linux" and threading.active_count() == 1


def outcomes_of_workers(capture: Capture, work: New, count: int, tell: Tell) -> Iterator[Transcript]:
    """Capture these new transcripts with so many processes; tell what became of each, and yield it then."""
    work = sorted(work, key=lambda item: -item[1].size)  # a large one at the end would be waited for
    left = dict.fromkeys(range(len(work)))
    context = multiprocessing.get_context("fork")  # so that nothing need be pickled, and they start at once
    stopping = context.Event()
    capture.catalogue.close()  # a connection does not survive a fork
    executor = ProcessPoolExecutor(count, context, initializer=_start, initargs=(capture, work, stopping))
    waiting: set[Future[Outcomes]] = set()

    def told(future: Future[Outcomes]) -> Outcomes:
        """Pass on what a process returned; a Ctrl-C waits until all of it is told."""
        with ctrl_c_later():
            waiting.discard(future)
            try:
                done = future.result()
            except Exception:  # noqa: BLE001 (a process was killed, or failed: what it did not return is done below)
                return []
            for number, outcome in done:
                del left[number]
                tell(*work[number], outcome)
            return done

    try:
        with ctrl_c_later():  # no process may get it before it knows what to do then
            waiting |= {executor.submit(_import, batch) for batch in _batches(work, count)}
            capture.catalogue.reopen()
        for future in as_completed(list(waiting)):
            for number, _ in told(future):
                yield work[number][1]
    finally:
        with ctrl_c_later():  # what was published is told, also after a Ctrl-C
            stopping.set()
            executor.shutdown(cancel_futures=True)
            for future in [future for future in waiting if not future.cancelled()]:
                told(future)
    capture.look_again()
    yield from outcomes(capture, [work[number] for number in left], tell)


def _batches(work: New, count: int) -> Iterator[list[int]]:
    """The numbers of all transcripts, in batches that keep every process busy until the end."""
    shares = count * BATCHES_EACH
    sessions = min(LOT_SESSIONS, -(-len(work) // shares))
    most = min(LOT_BYTES, sum(transcript.size for _, transcript in work) // shares)
    batch: list[int] = []
    size = 0
    for number, (_, transcript) in enumerate(work):
        batch.append(number)
        size += transcript.size
        if len(batch) >= sessions or size >= most:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


# ── in the processes ─────────────────────────────────────────────────────────────────────────────────


class _Job:
    """What a process works on; set when it starts."""

    capture: Capture
    work: New
    stopping: Event


def _start(capture: Capture, work: New, stopping: Event) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started us says when to stop
    _Job.capture, _Job.work, _Job.stopping = capture, work, stopping
    capture.catalogue.reopen()
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _import(batch: list[int]) -> Outcomes:
    numbers = {id(_Job.work[number][1]): number for number in batch}
    done: Outcomes = []

    def until_stopped() -> Iterator[tuple[TranscriptSource, Transcript]]:
        for number in batch:
            if _Job.stopping.is_set():
                return
            yield _Job.work[number]

    def tell(tool: TranscriptSource, transcript: Transcript, outcome: Captured | str) -> None:
        done.append((numbers[id(transcript)], outcome))

    for _ in outcomes(_Job.capture, until_stopped(), tell):
        pass
    return done
