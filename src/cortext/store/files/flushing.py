"""Flushes on their way: what was written is made durable while the next is being built."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread

from cortext.io import batch as newfiles


class Flush:
    """One of them; `error` says why it failed, once it is `done`."""

    def __init__(self, later: newfiles.Later) -> None:
        self._later = later
        self._turn = Lock()
        self._stopped = False
        self.done = Event()
        self.error: OSError | None = OSError(errno.EINTR, os.strerror(errno.EINTR))  # until it has come to its end

    def run(self) -> None:
        """Do it, in whichever thread."""
        with self._turn:
            try:
                if not self._stopped:
                    self._later.flush()
                    self.error = None
            except OSError as error:
                self.error = error
            finally:
                self.done.set()

    def stop(self) -> None:
        """Nobody needs it any more: when this returns nobody is at it, nor will be."""
        self._stopped = True
        with self._turn:
            self.done.set()


class Flusher:
    """Does them in so many threads, begun when there is something to do. A disk takes several at a time."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._threads: list[Thread] = []
        self._waiting: SimpleQueue[Flush | None] = SimpleQueue()

    def begin(self, flush: Flush) -> None:
        """Do this as soon as may be."""
        self._waiting.put(flush)
        if len(self._threads) < self._size:
            self._threads.append(Thread(target=self._work, daemon=True))
            self._threads[-1].start()

    def _work(self) -> None:
        while (flush := self._waiting.get()) is not None:
            flush.run()

    def help(self) -> None:
        """Do what nobody has begun with."""
        for flush in self._unbegun():
            flush.run()

    def _unbegun(self) -> Iterator[Flush]:
        while True:
            try:
                flush = self._waiting.get_nowait()
            except Empty:
                return
            if flush is not None:
                yield flush

    def end(self) -> None:
        """Forget what nobody has begun with, and wait for the rest."""
        for flush in self._unbegun():
            flush.stop()
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()
