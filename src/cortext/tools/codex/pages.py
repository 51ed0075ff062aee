"""Where Codex keeps its conversations: which files belong to one, and in what order they are read.

A conversation is a thread. It begins as one file, `rollout-<time>-<thread>.jsonl`. When the user goes back
to an earlier message, the thread goes on in a new page, `rollout-<time>-<thread>_<page>.jsonl`, whose first
line says which page it continues (`history_base`) and how many bytes of that page still count. A fork is a
new thread whose first page continues a page of another thread.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from cortext.errors import UnsafePath
from cortext.io import files as fsio
from cortext.io.jsonl import MAX_LINE
from cortext.tools.codex.mark import Mark
from cortext.tools.codex.records import Meta

_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_NAME = re.compile(
    rf"rollout-(\d{{4}})-(\d\d)-(\d\d)T(\d\d-\d\d-\d\d)-({_UUID})(?:_({_UUID}))?\.jsonl(?:\.zst)?", re.ASCII
)
_CWD = re.compile(rb'"cwd": ?("(?:[^"\\]|\\.)*")')
_COMPACTED = re.compile(rb'\{"timestamp":"[^"]*",(?:"ordinal":\d+,)?"type":"compacted"')
_DEPTH = 4
COMPRESSED = ".zst"
COPIES = ".pages"  # beside a kept copy: all pages of the thread, under their own names


class Page(NamedTuple):
    """One file of a thread. `page` is its own id: the thread's for the first one."""

    path: str
    when: str
    thread: str
    page: str
    size: int = 0
    changed: int = 0


class Head(msgspec.Struct):
    """What the first line of a page says."""

    meta: Meta
    mark: Mark | None = None


class Segment(NamedTuple):
    """A stretch of a conversation: a page, up to a byte (None: to its end)."""

    page: Page
    end: int | None
    inherited: bool


def named(path: str) -> Page | None:
    """The page that a file name tells of; None where it is not the name of a rollout."""
    found = _NAME.fullmatch(os.path.basename(path))
    if found is None:
        return None
    thread = found[5].lower()
    return Page(path, f"{found[1]}-{found[2]}-{found[3]}T{found[4]}", thread, (found[6] or thread).lower())


def is_thread(text: str) -> bool:
    """Whether a text can be the id of a thread."""
    return re.fullmatch(_UUID, text) is not None and text == text.lower()


def folder_of(page: Page) -> str:
    """The folder below `sessions` that a page of this time lies in."""
    return os.path.join(*page.when.partition("T")[0].split("-"))


def scan(folder: str, depth: int = _DEPTH, thread: str = "") -> Iterator[Page]:
    """Every page below a folder (of one thread), with the cheap signs of change. Links are not followed."""
    try:
        entries = list(os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if depth > 1:
                yield from scan(entry.path, depth - 1, thread)
        elif thread not in entry.name.lower():
            continue
        elif (page := named(entry.path)) is not None:
            status = entry.stat(follow_symlinks=False)
            yield page._replace(size=status.st_size, changed=status.st_mtime_ns)


def by_thread(pages: Iterator[Page]) -> dict[str, list[Page]]:
    """The pages of each thread in the order in which they came to be."""
    threads: dict[str, dict[str, Page]] = {}
    for page in pages:
        known = threads.setdefault(page.thread, {})
        # The same page twice (an archived one beside a copy): the later file is the one in use.
        if page.page not in known or known[page.page].when <= page.when:
            known[page.page] = page
    return {
        thread: sorted(found.values(), key=lambda page: (page.when, page.page)) for thread, found in threads.items()
    }


def project_of(path: str) -> str:
    """The project folder that a page was begun in, from its first bytes."""
    found = _CWD.search(_first_bytes(path, 4096))
    try:
        return str(msgspec.json.decode(found[1])) if found else ""
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


def head_of(path: str) -> Head | None:
    """The first line of a page, understood; None where the file does not begin as a rollout does."""
    from cortext.tools.codex import records

    line = _first_line(path)
    try:
        first = records.metas.decode(line)
        if first.type == "session_meta":
            return Head(first.payload, first.cortext)
        meta = records.bare_metas.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    # The oldest files have the bare description on their first line.
    return Head(meta) if not first.type and meta.id and meta.timestamp and b'"instructions"' in line else None


def is_compacted(path: str) -> bool:
    """Whether the program summed up a page and goes on from that; a page that cannot be looked at may have been."""
    if path.endswith(COMPRESSED):
        return True
    try:
        with open(path, "rb", opener=fsio.plain_file) as file:
            return any(_COMPACTED.match(line) is not None for line in file)
    except OSError:
        return True


def _first_line(path: str) -> bytes:
    size = 65_536
    while size <= MAX_LINE:
        data = _first_bytes(path, size)
        if not data.startswith(b"{"):
            return b""
        line, ended, _ = data.partition(b"\n")
        if ended or len(data) < size:
            return line
        size *= 8
    return b""


def _first_bytes(path: str, size: int) -> bytes:
    """The beginning of a file; nothing where it is none, a link, or compressed."""
    if path.endswith(COMPRESSED):
        return b""
    try:
        descriptor = fsio.open_file(path, os.O_RDONLY)
        try:
            return os.pread(descriptor, size, 0)
        finally:
            os.close(descriptor)
    except (OSError, UnsafePath):
        return b""


def shelf_of(path: str) -> str:
    """The folder below which the other pages of a page are to be looked for."""
    if os.path.isdir(path + COPIES):
        return path + COPIES
    folder = os.path.dirname(os.path.abspath(path))
    dated = folder
    for _ in range(3):
        dated, name = os.path.split(dated)
        if not name.isdigit():
            return folder
    return dated


def siblings(page: Page) -> list[Page]:
    """All pages of the thread that this page belongs to. Only a first page can be alone by its name."""
    shelf = shelf_of(page.path)
    found = [other for other in scan(shelf, thread=page.thread) if other.thread == page.thread]
    if not any(os.path.samefile(other.path, page.path) for other in found if other.page == page.page):
        found.append(with_signs(page))
    return by_thread(iter(found))[page.thread]


def later(page: Page) -> list[Page]:
    """This page and the later ones of its thread: only folders of that day and after are looked at."""
    shelf = shelf_of(page.path)
    own = os.path.relpath(os.path.dirname(os.path.abspath(page.path)), shelf)
    if own == ".":
        return siblings(page)
    found: list[Page] = []
    for year in _names(shelf, own[:4]):
        for month in _names(os.path.join(shelf, year), own[5:7] if year == own[:4] else ""):
            low = own[8:10] if f"{year}/{month}" == own[:7] else ""
            for day in _names(os.path.join(shelf, year, month), low):
                near = scan(os.path.join(shelf, year, month, day), 1, page.thread)
                found += (other for other in near if other.thread == page.thread)
    return by_thread(iter(found)).get(page.thread, [with_signs(page)])


def _names(folder: str, low: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if name.isdigit() and name >= low)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []


def with_signs(page: Page) -> Page:
    """The page with its size and time of change as they are now."""
    status = os.stat(page.path, follow_symlinks=False)
    return page._replace(size=status.st_size, changed=status.st_mtime_ns)


def segments(own: list[Page], places: dict[str, Page], missing: list[str]) -> list[Segment]:
    """What to read for a thread: what its first page inherits, then its own pages.

    `places` finds a page by its id; ids of pages that are not there are added to `missing`.
    """
    inherited: list[Segment] = []
    seen = {own[0].page}
    head = head_of(own[0].path)
    while head is not None and head.meta.history_base is not None:
        base = head.meta.history_base
        page = places.get(base.thread_id)
        if page is None or page.page in seen:
            missing.append(base.thread_id)
            break
        seen.add(page.page)
        inherited.append(Segment(page, base.end_byte_offset, True))
        head = head_of(page.path)
    return [*reversed(inherited), *(Segment(page, None, False) for page in own)]
