"""Finds the threads of Codex, and reads their pages as a stream, from where the last reading ended."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Generator, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from cortext.errors import DamagedData
from cortext.io import durable, new_files
from cortext.model import clock
from cortext.model.message import Message
from cortext.tools.base import About, Counts, Leftover, Transcript, TranscriptReading, Watch
from cortext.tools.codex.adapter import Codex
from cortext.tools.codex.messages import MessageBuilder
from cortext.tools.codex.pages import (
    COPIES,
    Page,
    Segment,
    by_thread,
    from_name,
    head_of,
    is_thread,
    later,
    plain,
    plain_name,
    project_of,
    root_of,
    scan,
    segments,
    siblings,
    unread,
    with_fingerprint,
)
from cortext.tools.codex.records import image_in
from cortext.tools.shared.leftovers import unlisted_below
from cortext.tools.shared.lines import NOT_UNDERSTOOD, RECORD_ERRORS, ForeignLines, note, place, place_named
from cortext.tools.shared.native import in_lines
from cortext.tools.shared.parts import ToolPart

_SAMPLE = 1024  # bytes at a page's beginning, and before the offset reached, that the fingerprint covers


class CodexReader(ToolPart[Codex]):
    """Finds, reads and copies the threads."""

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield every thread, archived ones too. A subagent has a thread of its own."""
        folders = None if project is None else {project, os.path.realpath(project)}
        for pages in by_thread(self.all_pages()).values():
            transcript = _transcript(pages)
            if folders is None or transcript.project in folders:
                yield transcript

    def all_pages(self) -> Iterator[Page]:
        yield from scan(self.tool.archive)
        yield from scan(self.tool.sessions)

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the thread that a file belongs to: a page in the store, or a copy at any path."""
        page = from_name(path)
        if os.path.islink(path):
            return None
        if page is not None and os.path.isfile(path):
            return _transcript(siblings(page) if page.page != page.thread else later(page))
        head = head_of(path)
        if head is None or not is_thread(head.meta.id.lower()):
            return None
        copy = with_fingerprint(Page(path, "", head.meta.id.lower(), head.meta.id.lower()))
        return _transcript([copy])

    def leftovers(self, listed: Sequence[Transcript]) -> Iterator[Leftover]:
        """Yield the files among the threads that are no pages of one; the first versions kept documents."""
        pages = {page.path for page in self.all_pages()}
        for folder in (self.tool.archive, self.tool.sessions):
            yield from unlisted_below(folder, listed, self.tool.title, is_companion=pages.__contains__)

    def watched(self) -> Watch:
        """Return the folder of all threads; what is archived does not change."""
        return Watch(folders=[self.tool.sessions])

    def changed(self, path: str) -> list[Transcript]:
        """Return the thread that this page belongs to."""
        found = self.transcript_at(path) if from_name(path) is not None else None
        return [found] if found is not None else []

    def read(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> TranscriptReading:
        """Return the messages of all pages of a thread; with a cursor, only those added since."""
        pages, by_id = self.pages_of(transcript)
        title = titles(os.path.join(self.tool.folder, "session_index.jsonl")).get(transcript.key, "")
        return CodexReading(pages, by_id, title=title, cursor=cursor)

    def pages_of(self, transcript: Transcript) -> tuple[list[Page], dict[str, Page]]:
        """Return the pages of a thread in order, and by id every page that they may continue."""
        path = transcript.path
        page = from_name(path) or Page(path, "", transcript.key, transcript.key)
        head = head_of(path)
        is_single = page.page == page.thread and (head is None or head.meta.history_base is None)
        if is_single and not os.path.isdir(path + COPIES):
            return [page], {}
        roots = [root_of(path)]
        if not os.path.isdir(path + COPIES):
            roots += [self.tool.archive, self.tool.sessions]
        found = [other for root in roots for other in scan(root)]
        pages = by_thread(iter(found)).get(page.thread) or [page]
        return pages, {other.page: other for other in found}

    def copy(self, transcript: Transcript, target: str, later: new_files.Later | None = None) -> None:
        """Copy the newest page, unpacked; if the thread has more, copy all of them to a folder next to it."""
        pages, by_id = self.pages_of(transcript)
        found = segments(pages, by_id, [])
        new_files.ensure_folder(os.path.dirname(target), later)
        if len(found) > 1:
            new_files.ensure_folder(target + COPIES, later)
            for segment in found:
                path = segment.page.path
                new_files.mirror_file(plain(path) or path, os.path.join(target + COPIES, plain_name(path)), later)
        new_files.mirror_file(plain(transcript.path) or transcript.path, target, later)

    def images(self, transcript: Transcript, refs: AbstractSet[str]) -> dict[str, bytes]:
        """Return the bytes of those of these images that are in the transcript."""
        return in_lines(transcript, refs, image_in)


def _transcript(pages: list[Page]) -> Transcript:
    newest = pages[-1]
    return Transcript(
        tool=Codex.name,
        key=newest.thread,
        path=newest.path,
        project=project_of(pages[0].path),
        size=sum(page.size for page in pages),
        changed=max(page.changed for page in pages),
    )


class CodexReading:
    """The messages of a thread; `by_id` has the pages of other threads that it continues."""

    def __init__(
        self, pages: list[Page], by_id: dict[str, Page], *, title: str = "", cursor: dict[str, Any] | None = None
    ) -> None:
        self.about = About()
        self.counts = Counts()
        self.cursor: dict[str, Any] | None = None
        self._by_id = {page.page: page for page in pages} | by_id
        self._missing: list[str] = []
        self._segments = segments(pages, self._by_id, self._missing)
        self._since = cursor if cursor is not None and _is_usable(cursor, self._segments) else None
        self._builder = self._begin(pages, title)

    def _begin(self, pages: list[Page], title: str) -> MessageBuilder:
        """Fill in `about` from the first lines of the pages; return a builder in the state of the cursor."""
        head = head_of(pages[0].path)
        newest = head_of(pages[-1].path) or head
        about = self.about
        if head is not None:
            about.project, about.remote = head.meta.cwd or "", head.meta.remote
            about.created_at = clock.normalise(head.meta.timestamp or "")
        about.branch, about.head = newest.meta.checkout if newest is not None else ("", "")
        about.title = title or (head.mark.title if head and head.mark else "")
        meta = newest.meta if newest else None
        first = (meta.subagent_history_start_ordinal or 0) if meta else 0
        aside = bool(meta and meta.is_subagent)
        builder = MessageBuilder(pages[0].thread, about, self.counts, aside=aside, first_ordinal=first)
        if self._since is not None:
            builder.restore(self._since)
            about.command, about.model = str(self._since.get("command", "")), builder.model
        return builder

    def __iter__(self) -> Iterator[Message]:
        builder = self._builder
        earlier: dict[str, list[Any]] = dict(self._since["pages"]) if self._since else {}
        ends: dict[str, list[Any]] = {}
        if self._missing:
            note(self.counts.damaged, "missing page", len(self._missing))
            self.counts.places += [f"page {page} is missing" for page in self._missing]
        for number, segment in enumerate(self._segments):
            page = segment.page
            start = int(earlier[page.page][0]) if page.page in earlier else 0
            if not segment.inherited and number and page.page not in earlier:
                builder.next_parent = self._parent_of(segment)
            is_last = number == len(self._segments) - 1
            if segment.end is not None and start >= segment.end:
                ends[page.page] = earlier[page.page]
                continue
            end = yield from _read_segment(builder, segment, start, is_final=not is_last)
            if path := _plain(page.path, Counts()):
                ends[page.page] = [end, *_fingerprints(path, end)]
        self.cursor = {"pages": ends, "command": self.about.command, **builder.state()}

    def _parent_of(self, segment: Segment) -> str | None:
        """Return the id of the message that a page continues; None if that is the message just read."""
        head = head_of(segment.page.path)
        seen: set[str] = set()
        while head is not None and head.meta.history_base is not None:
            base = head.meta.history_base
            page = self._by_id.get(base.thread_id)
            if page is None or page.page in seen:
                return None
            seen.add(page.page)
            builder = MessageBuilder(page.thread, About(), Counts())
            for _ in _read_segment(builder, Segment(page, base.end_byte_offset, True), 0, is_final=True):
                pass
            if builder.last:
                return builder.last
            head = head_of(page.path)
        return "" if seen else None


def _read_segment(
    builder: MessageBuilder, segment: Segment, start: int, *, is_final: bool
) -> Generator[Message, None, int]:
    """Yield the messages of a segment; return the offset where its next reading begins."""
    page = segment.page
    path = _plain(page.path, builder.counts)
    if not path:
        return 0
    builder.path, builder.items.page = page.path, page.page
    lines = ForeignLines(path, start, builder.counts)
    begin, limit = start, segment.end
    add_line = builder.add_line
    for line in lines:
        if limit is not None and lines.end > limit:
            break
        try:
            ready = add_line(line, begin)
        except RECORD_ERRORS:
            note(builder.counts.damaged, NOT_UNDERSTOOD)
            place(builder.counts, page.path, begin)
            ready = ()
        begin = lines.end
        if ready:
            yield from ready
    yield from builder.finish(is_final=is_final or segment.end is not None)
    if segment.end is not None:
        return segment.end
    return builder.held_from if builder.held_from >= 0 else lines.end


def _plain(path: str, counts: Counts) -> str:
    """Return the path of a page's lines; empty if it is compressed and cannot be unpacked, which is counted."""
    try:
        found = plain(path)
    except DamagedData as error:
        note(counts.damaged, "compressed page cannot be unpacked")
        place_named(counts, error.message)
        return ""
    if not found:
        note(counts.unknown, unread())
        place_named(counts, path)
    return found


def _fingerprints(path: str, end: int) -> tuple[str, str]:
    """Return hashes of a page's first bytes and of those before an offset."""
    descriptor = durable.open_file(path, os.O_RDONLY)
    try:
        low = max(0, end - _SAMPLE)
        samples = os.pread(descriptor, min(_SAMPLE, end), 0), os.pread(descriptor, end - low, low)
    finally:
        os.close(descriptor)
    first, last = (hashlib.blake2b(data, digest_size=8).hexdigest() for data in samples)
    return first, last


def _is_usable(cursor: dict[str, Any], found: list[Segment]) -> bool:
    """Whether every page that was read before still has the same content up to the cursor."""
    pages = {segment.page.page: segment.page for segment in found}
    try:
        for page, (end, *fingerprints) in cursor["pages"].items():
            path = plain(pages[page].path) if page in pages else ""
            if not path or os.path.getsize(path) < end or list(_fingerprints(path, end)) != fingerprints:
                return False
    except (DamagedData, KeyError, TypeError, ValueError, AttributeError, OSError):
        return False
    return True


def titles(index: str) -> dict[str, str]:
    """Return the names of threads from Codex's index of them; the newest name counts."""
    try:
        status = os.stat(index)
    except OSError:
        return {}
    return _titles(index, status.st_mtime_ns, status.st_size)


class _IndexEntry(msgspec.Struct):
    id: str = ""
    thread_name: str | None = None


_index_entries = msgspec.json.Decoder(_IndexEntry)


@functools.lru_cache(maxsize=4)
def _titles(index: str, changed: int, size: int) -> dict[str, str]:
    found: dict[str, str] = {}
    lines = ForeignLines(index, 0, Counts())
    for line in lines:
        for entry in lines.decode(line, _index_entries, _IndexEntry):
            found[entry.id] = entry.thread_name or ""
    return found
