"""Several processes that take in new transcripts side by side: most of an import is work for a processor.

Each takes the next transcript when it has time, builds sessions and publishes them by the lot (`intake`), and tells us
what became of them. They are forks, so that they begin at once; each opens the catalogue anew, and touches nothing but
the home store. What one of them leaves undone, because it was killed, is done here.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

import msgspec

from cortext.services.capture.capture import Capture, Captured
from cortext.services.capture.intake import Tell, ctrl_c_later, outcomes
from cortext.tools.base import Transcript, TranscriptSource

WORTH_IT = 8 << 20  # bytes of new transcripts: below this one process is done before others have begun
MOST = 4
_NUMBER = struct.Struct("<I")
_AT_ONCE = 1024  # numbers that a pipe takes all or none of (4 kB)
_CTRL_C = (signal.SIGINT,)

New = Sequence[tuple[TranscriptSource, Transcript]]


class Told(msgspec.Struct, array_like=True):
    """What became of a transcript, by its number; `why` says why it could not be taken in."""

    number: int
    captured: Captured | None
    why: str = ""


_told = msgspec.msgpack.Decoder(Told)


def size_of_crew(work: New) -> int:
    """How many processes are worth it; fewer than two means none beside this one."""
    if sum(transcript.size for _, transcript in work) < WORTH_IT or not _may_fork():
        return 1
    return min(MOST, len(os.sched_getaffinity(0)), len(work))


def _may_fork() -> bool:
    """Only on Linux, and where no thread runs that might hold a lock at this moment."""
    threads = sys.modules.get("threading")
    return sys.platform == "linux" and (threads is None or threads.active_count() == 1)


def outcomes_of_crew(capture: Capture, work: New, size: int, tell: Tell) -> Iterator[Transcript]:
    """Capture these new transcripts, by so many processes."""
    work = sorted(work, key=lambda item: -item[1].size)  # a large one at the end would be waited for
    left = dict.fromkeys(range(len(work)))
    capture.catalogue.close()  # a connection does not survive a fork

    def heard(told: Told) -> None:
        del left[told.number]
        tell(*work[told.number], told.why if told.captured is None else told.captured)

    crew = Crew(heard)
    try:
        crew.begin(capture, work, size)
        capture.catalogue.reopen()
        for number in crew.reports(len(work)):
            yield work[number][1]
    finally:
        crew.end()
    capture.look_again()
    yield from outcomes(capture, [work[number] for number in left], tell)


class Crew:
    """The processes, the pipe that hands out work, and those that they answer through."""

    def __init__(self, heard: Callable[[Told], None]) -> None:
        self._heard = heard
        self._reading, self._giving = os.pipe()
        os.set_blocking(self._giving, False)
        self._answers: dict[int, bytearray] = {}
        self._processes: list[int] = []

    def begin(self, capture: Capture, work: New, size: int) -> None:
        """Start them. Where the system allows fewer, there are fewer."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _CTRL_C)  # none may hear it before it knows what to do then
        try:
            for _ in range(size):
                ours, theirs = os.pipe()
                try:
                    process = os.fork()
                except OSError:
                    os.close(ours)
                    os.close(theirs)
                    break
                if process == 0:
                    _work(capture, work, self._reading, theirs, [ours, self._giving, *self._answers])
                os.close(theirs)
                self._answers[ours] = bytearray()
                self._processes.append(process)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _CTRL_C)
            os.close(self._reading)

    def reports(self, count: int) -> Iterator[int]:
        """Hand out so many numbers; those that are done, until all have ended."""
        numbers = list(range(count))
        while self._answers:
            readable, writable, _ = select.select(list(self._answers), [self._giving] if self._giving >= 0 else [], [])
            if writable:
                self._give(numbers)
            for descriptor in readable:
                yield from self._told(descriptor)

    def _give(self, numbers: list[int]) -> None:
        """Hand out as many as there is room for; then say that there are no more."""
        try:
            os.write(self._giving, b"".join(map(_NUMBER.pack, numbers[:_AT_ONCE])))
            del numbers[:_AT_ONCE]
        except BlockingIOError:
            return
        except BrokenPipeError:  # nobody is left
            numbers.clear()
        if not numbers:
            os.close(self._giving)
            self._giving = -1

    def _told(self, descriptor: int) -> list[int]:
        """Hear what one of them tells; the numbers that are done."""
        done: list[int] = []
        with ctrl_c_later():
            piece = os.read(descriptor, 1 << 16)
            waiting = self._answers[descriptor]
            waiting += piece
            while len(waiting) >= _NUMBER.size:
                end = _NUMBER.size + _NUMBER.unpack_from(waiting)[0]
                if len(waiting) < end:
                    break
                told = _told.decode(bytes(waiting[_NUMBER.size : end]))
                del waiting[:end]
                self._heard(told)
                done.append(told.number)
            if not piece:
                os.close(descriptor)
                del self._answers[descriptor]
        return done

    def end(self) -> None:
        """Stop who is still at work (a Ctrl-C may have reached only us), hear what they had done, and wait for them."""
        with ctrl_c_later():
            if self._giving >= 0:
                os.close(self._giving)
            if self._answers:
                for process in self._processes:
                    os.kill(process, signal.SIGINT)
            while self._answers:
                self._told(next(iter(self._answers)))
            for process in self._processes:
                os.waitpid(process, 0)


def _work(capture: Capture, work: New, reading: int, telling: int, others: list[int]) -> NoReturn:
    """What one of them does, until there are no more numbers. It never returns into what it was forked from."""
    status = 1
    try:
        signal.signal(signal.SIGINT, _stop)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _CTRL_C)
        for descriptor in others:
            os.close(descriptor)
        gc.disable()  # what is made here goes by itself; looking for circles among it costs a twentieth
        capture.catalogue.reopen()
        numbers = {id(transcript): number for number, (_, transcript) in enumerate(work)}

        def asked() -> Iterator[tuple[TranscriptSource, Transcript]]:
            while len(raw := os.read(reading, _NUMBER.size)) == _NUMBER.size:
                yield work[_NUMBER.unpack(raw)[0]]

        def told(tool: TranscriptSource, transcript: Transcript, outcome: Captured | str) -> None:
            done, why = (outcome, "") if isinstance(outcome, Captured) else (None, outcome)
            _tell(telling, Told(numbers[id(transcript)], done, why))

        for _ in outcomes(capture, asked(), told):
            pass
        status = 0
    except (KeyboardInterrupt, BrokenPipeError):
        pass  # what was published is safe; the rest is for who comes next
    finally:
        os._exit(status)


def _stop(number: int, frame: object) -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # once is enough: what follows is tidying up
    raise KeyboardInterrupt


def _tell(descriptor: int, told: Told) -> None:
    raw = msgspec.msgpack.encode(told)
    rest = memoryview(_NUMBER.pack(len(raw)) + raw)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
