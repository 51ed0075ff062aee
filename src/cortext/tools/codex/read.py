"""Reading a Codex conversation: its pages one after another, streaming, from where the last reading ended."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Generator, Iterator
from typing import Any

import msgspec

from cortext.io import files as fsio
from cortext.model import clock
from cortext.model.message import Message
from cortext.tools.base import About, Counts
from cortext.tools.codex.pages import COMPRESSED, Page, Segment, head_of, segments
from cortext.tools.codex.talk import Talk
from cortext.tools.shared.lines import NOT_UNDERSTOOD, RECORD_ERRORS, ForeignLines, note, place

_ENDS = 1024  # how much of a page's beginning, and before the place we stopped, is compared


class CodexReading:
    """The messages of a thread; `places` finds pages of other threads that it goes on from."""

    def __init__(
        self, own: list[Page], places: dict[str, Page], *, title: str = "", cursor: dict[str, Any] | None = None
    ) -> None:
        self.about = About()
        self.counts = Counts()
        self.cursor: dict[str, Any] | None = None
        self._places = {page.page: page for page in own} | places
        self._missing: list[str] = []
        self._segments = segments(own, self._places, self._missing)
        self._since = cursor if cursor is not None and _still_fits(cursor, self._segments) else None
        self._talk = self._begin(own, title)

    def _begin(self, own: list[Page], title: str) -> Talk:
        """Everything that is known before the first line of talk is read."""
        head = head_of(own[0].path)
        newest = head_of(own[-1].path) or head
        about = self.about
        if head is not None:
            about.project = head.meta.cwd or ""
            about.created_at = clock.normalise(head.meta.timestamp or "")
        about.title = title or (head.mark.title if head and head.mark else "")
        meta = newest.meta if newest else None
        first = (meta.subagent_history_start_ordinal or 0) if meta else 0
        talk = Talk(own[0].thread, about, self.counts, aside=bool(meta and meta.is_side_agent), first=first)
        if self._since is not None:
            talk.restore(self._since)
            about.command, about.model = str(self._since.get("command", "")), talk.model
        return talk

    def __iter__(self) -> Iterator[Message]:
        talk = self._talk
        known: dict[str, list[Any]] = dict(self._since["pages"]) if self._since else {}
        ends: dict[str, list[Any]] = {}
        if self._missing:
            note(self.counts.damaged, "missing page", len(self._missing))
            self.counts.places += [f"page {page} is not there" for page in self._missing]
        for number, segment in enumerate(self._segments):
            page = segment.page
            start = int(known[page.page][0]) if page.page in known else 0
            if not segment.inherited and number and page.page not in known:
                talk.follows = self._before(segment)
            last = number == len(self._segments) - 1
            if segment.end is not None and start >= segment.end:
                ends[page.page] = known[page.page]
                continue
            end = yield from _read_segment(talk, segment, start, for_good=not last)
            ends[page.page] = [end, *_marks(page.path, end)]
        self.cursor = {"pages": ends, "command": self.about.command, **talk.state()}

    def _before(self, segment: Segment) -> str | None:
        """The message that a page goes on from; None where it goes on from what was just read."""
        head = head_of(segment.page.path)
        seen: set[str] = set()
        while head is not None and head.meta.history_base is not None:
            base = head.meta.history_base
            page = self._places.get(base.thread_id)
            if page is None or page.page in seen:
                return None
            seen.add(page.page)
            quiet = Talk(page.thread, About(), Counts())
            for _ in _read_segment(quiet, Segment(page, base.end_byte_offset, True), 0, for_good=True):
                pass
            if quiet.last:
                return quiet.last
            head = head_of(page.path)
        return "" if seen else None


def _read_segment(talk: Talk, segment: Segment, start: int, *, for_good: bool) -> Generator[Message, None, int]:
    """Give the messages of a stretch; returns where the next reading of it begins."""
    page = segment.page
    if page.path.endswith(COMPRESSED):
        note(talk.counts.unknown, "compressed page (.zst)")
        return 0
    talk.path, talk.items.page = page.path, page.page
    lines = ForeignLines(page.path, start, talk.counts)
    begin, limit = start, segment.end
    take = talk.take
    for line in lines:
        if limit is not None and lines.end > limit:
            break
        try:
            ready = take(line, begin)
        except RECORD_ERRORS:
            note(talk.counts.damaged, NOT_UNDERSTOOD)
            place(talk.counts, page.path, begin)
            ready = ()
        begin = lines.end
        if ready:
            yield from ready
    yield from talk.finish(for_good=for_good or segment.end is not None)
    if segment.end is not None:
        return segment.end
    return talk.held if talk.held >= 0 else lines.end


def _marks(path: str, end: int) -> tuple[str, str]:
    """What a page's beginning, and the bytes before a place in it, are: to know the page again."""
    descriptor = fsio.open_file(path, os.O_RDONLY)
    try:
        low = max(0, end - _ENDS)
        ends = os.pread(descriptor, min(_ENDS, end), 0), os.pread(descriptor, end - low, low)
    finally:
        os.close(descriptor)
    first, last = (hashlib.blake2b(data, digest_size=8).hexdigest() for data in ends)
    return first, last


def _still_fits(cursor: dict[str, Any], found: list[Segment]) -> bool:
    """Whether all that was read before is still there, byte for byte by its ends."""
    here = {segment.page.page: segment.page for segment in found}
    try:
        for page, (end, *marks) in cursor["pages"].items():
            if page not in here or os.path.getsize(here[page].path) < end:
                return False
            if not here[page].path.endswith(COMPRESSED) and list(_marks(here[page].path, end)) != marks:
                return False
    except (KeyError, TypeError, ValueError, AttributeError, OSError):
        return False
    return True


def titles(index: str) -> dict[str, str]:
    """The names that threads were given, from the tool's own list of them; the newest name counts."""
    try:
        status = os.stat(index)
    except OSError:
        return {}
    return _titles(index, status.st_mtime_ns, status.st_size)


class _Named(msgspec.Struct):
    id: str = ""
    thread_name: str | None = None


_named = msgspec.json.Decoder(_Named)


@functools.lru_cache(maxsize=4)
def _titles(index: str, changed: int, size: int) -> dict[str, str]:
    found: dict[str, str] = {}
    lines = ForeignLines(index, 0, Counts())
    for line in lines:
        for entry in lines.decode(line, _named, _Named):
            found[entry.id] = entry.thread_name or ""
    return found
