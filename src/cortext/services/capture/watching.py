"""Watching the stores of the AI tools: what changes in them is captured within seconds.

Folders are watched by file notification, the few files that a tool changes in place are looked at once a second. What
is noticed is captured as an import does it, so hooks and imports may run at the same time. Work is bounded: changes
are collected for a moment, one round follows another after a pause, and only the transcripts that changed are read,
from their cursors. Everything is checked at the start and every ten minutes, for what no notification reported, and
tools that cannot be watched every minute.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from importlib.util import find_spec

from cortext.config import folders
from cortext.distribution import install_hint
from cortext.errors import ConfigError, CortextError, SessionBusy
from cortext.io.locks import Lock, read_holder
from cortext.services.capture import uncaptured
from cortext.services.capture.capture import Capture
from cortext.services.capture.importing import ImportReport, capture_all, note_failure, scan
from cortext.services.capture.intake import reason_of
from cortext.services.capture.transcripts import Work
from cortext.tools.base import TranscriptSource, Watched

EXTRA = "watch"
COLLECT_MS = 400  # changes that follow one another are captured together, at the latest after this time
STEP_MS = 100  # how often the notifications are looked at
LOOK_MS = 1_000  # how often the single files are looked at
PAUSE_S = 0.5  # between two rounds, so that a busy tool costs little
ALL_S = 600.0  # how often everything is checked
RETRY_S = 10.0  # after a failure that concerns everything
UNWATCHED_S = 60.0  # the same for tools that cannot be watched, and if the system has no notifications

Signs = dict[str, tuple[int, int]]  # size and time of files


class _NotNotified(Exception):
    """The system reports no changes."""


class Watching:
    """Captures what changes until `stop` is set.

    `report` gets the result of each round, and whether everything was checked in it; `trouble` a line for the user.
    """

    def __init__(
        self,
        tools: Sequence[TranscriptSource],
        make_capture: Callable[[], Capture],
        report: Callable[[Capture, ImportReport, bool], None],
        trouble: Callable[[str], None],
        stop: threading.Event,
    ) -> None:
        self._tools, self._make_capture, self._report, self._stop = tools, make_capture, report, stop
        self.trouble = trouble
        self._watched = [tool for tool in tools if isinstance(tool, Watched)]
        self._unwatched = [tool for tool in tools if not isinstance(tool, Watched)]
        self._grown: dict[tuple[str, str], None] = {}  # conversations of workspaces, since everything was checked

    def check_all(self) -> ImportReport:
        """Capture whatever is new in any transcript; return the results by tool."""
        return self._check(self._tools, is_all=True)

    def _check(self, tools: Sequence[TranscriptSource], *, is_all: bool) -> ImportReport:
        reports = ImportReport()
        work = scan(tools, reports)
        capture = self._make_capture()
        if is_all:
            capture.remember_all()
        self._capture(capture, work, reports)
        if is_all:
            uncaptured.forget_missing()
            reports.alarms.extend(capture.check_smaller({tool.name: tool for tool in tools}.__getitem__))
            reports.grown.update(self._grown)
            self._grown = {}
        else:
            self._grown |= reports.grown
        self._report(capture, reports, is_all)
        return reports

    def run(self, started: Callable[[], None] = lambda: None) -> None:
        """Check everything, then follow the changes. Raise SessionBusy if another process does that already."""
        require()
        with _alone():
            started()
            while not self._stop.is_set():
                self._follow(self._roots())

    def _follow(self, roots: list[str]) -> None:
        """Check everything and follow the changes, until it is time to do so again or there are other folders."""
        try:
            try:
                self._rounds(_changes(roots, self._stop), roots, ALL_S)
            except _NotNotified as error:  # the system has no notifications left, for example
                self.trouble(
                    f"changes cannot be watched ({error}); everything is checked each {UNWATCHED_S:g} s instead"
                )
                self._rounds(_changes([], self._stop), roots, UNWATCHED_S)
        except (CortextError, OSError, sqlite3.Error) as error:  # a full disk, for example
            self.trouble(f"not everything could be captured ({error}); trying again in {RETRY_S:g} s")
            self._stop.wait(RETRY_S)

    def _rounds(self, changes: Iterator[set[str]], roots: list[str], seconds: float) -> None:
        until = time.monotonic() + seconds
        look = time.monotonic() + UNWATCHED_S
        signs = self._signs()
        is_checked = False
        for found in changes:
            if not is_checked:  # after the first: from then on no change is missed
                is_checked = True
                self.check_all()
            before, signs = signs, self._signs()
            paths = {path for path in found if os.path.isfile(path)}
            paths |= {path for path, sign in signs.items() if before.get(path) != sign}
            if paths:
                self._round(paths)
                self._stop.wait(PAUSE_S)
            if self._unwatched and time.monotonic() > look:
                self._check(self._unwatched, is_all=False)
                look = time.monotonic() + UNWATCHED_S
            if time.monotonic() > until or (not found and self._roots() != roots):
                return

    def _round(self, paths: set[str]) -> None:
        """Capture the transcripts that these files belong to."""
        reports = ImportReport()
        found: dict[tuple[str, str], tuple[TranscriptSource, str]] = {}
        work: Work = []
        for path in sorted(paths):
            for tool in self._watched:
                try:
                    for transcript in tool.changed(path):
                        if found.setdefault((tool.name, transcript.key), (tool, path)) == (tool, path):
                            work.append((tool, transcript))
                except Exception as error:  # noqa: BLE001 (one transcript must not stop the others)
                    note_failure(reports, tool.name, "", path, reason_of(error))
        if work:
            capture = self._make_capture()
            self._capture(capture, work, reports)
            self._grown |= reports.grown
            self._report(capture, reports, False)

    def _capture(self, capture: Capture, work: Work, reports: ImportReport) -> None:
        with closing(capture_all(capture, work, reports, share=False)) as captured:
            for _ in captured:
                if self._stop.is_set():
                    return

    def _roots(self) -> list[str]:
        """Return the folders to watch that exist."""
        return sorted({root for tool in self._watched for root in tool.watched().folders if os.path.isdir(root)})

    def _signs(self) -> Signs:
        found: Signs = {}
        for path in {file for tool in self._watched for file in tool.watched().files}:
            try:
                status = os.stat(path)
            except OSError:
                continue
            found[path] = status.st_size, status.st_mtime_ns
        return found


def require() -> None:
    """Raise ConfigError if the library for file notifications is not installed."""
    if find_spec("watchfiles") is None:
        raise ConfigError(
            "`cortext watch` needs the library watchfiles, which is not installed",
            kept="hooks, import and sync work without it",
            hint=install_hint(EXTRA),
        )


def running() -> int:
    """Return the process id of the watcher that is running for this user; 0 if there is none."""
    holder = read_holder(_lock_path())
    return holder.pid if holder is not None else 0


def _lock_path() -> str:
    return os.path.join(folders.state(), "watch.lock")


@contextmanager
def _alone() -> Iterator[None]:
    """Let only one process watch: a second one would do the same work again."""
    with Lock(_lock_path()) as lock:
        try:
            lock.acquire(0.0, "")
        except SessionBusy:
            raise SessionBusy(
                f"`cortext watch` is already running (process {running()})",
                kept="nothing was changed",
                hint="see `cortext watch --status`",
            ) from None
        yield


def _changes(roots: list[str], stop: threading.Event) -> Iterator[set[str]]:
    """Yield the files that changed below these folders, at least once a second; stop when told to."""
    if not roots:
        while not stop.is_set():
            yield set()
            stop.wait(LOOK_MS / 1000)
        return
    from watchfiles import watch

    changes = watch(
        *roots,
        watch_filter=None,
        debounce=COLLECT_MS,
        step=STEP_MS,
        rust_timeout=LOOK_MS,
        yield_on_timeout=True,
        stop_event=stop,
        raise_interrupt=False,
        ignore_permission_denied=True,
    )
    try:
        for found in changes:
            yield {path for _, path in found}
    except (OSError, RuntimeError) as error:  # the library raises both if the system has no watches left
        raise _NotNotified(str(error)) from error
