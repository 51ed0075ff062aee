"""The files of a Codex thread: which belong to it, and in what order they are read.

A thread begins as one file, `rollout-<time>-<thread>.jsonl`. When the user goes back to an earlier message, the thread
continues in a new page, `rollout-<time>-<thread>_<page>.jsonl`. Its first line says which page it continues
(`history_base`) and how many bytes of that page still apply. A fork is a new thread whose first page continues a page
of another thread.

Codex compresses a page with zstd if nothing was said in it for a week. Python has the format since 3.14; before, a
library is needed (`EXTRA`), and without it such a page is named as not read.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

import msgspec

from cortext.distribution import install_hint
from cortext.errors import DamagedData, UnsafePath
from cortext.io import durable
from cortext.io.jsonl import MAX_LINE
from cortext.model import clock
from cortext.tools.codex import records
from cortext.tools.codex.records import Mark, Meta
from cortext.tools.shared.lines import last_match

_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_NAME = re.compile(
    rf"rollout-(\d{{4}})-(\d\d)-(\d\d)T(\d\d-\d\d-\d\d)-({_UUID})(?:_({_UUID}))?\.jsonl(?:\.zst)?", re.ASCII
)
_CWD = re.compile(rb'"cwd": ?("(?:[^"\\]|\\.)*")')
_COMPACTED = re.compile(rb'\{"timestamp":"[^"]*",(?:"ordinal":\d+,)?"type":"compacted"')
# The settings that a turn began with: they replace those of the first line.
_APPLIED = re.compile(rb'"type":"thread_settings_applied".*?"model_provider_id":"([^"\\]*)"')
_DEPTH = 4
COPIES = ".pages"  # suffix of the folder next to a copy with all pages of the thread, under their own names
COMPRESSED = ".zst"
EXTRA = "zst"


class Page(NamedTuple):
    """One file of a thread. `page` is its id, which is the thread's for the first page."""

    path: str
    when: str
    thread: str
    page: str
    size: int = 0
    changed: int = 0


class Head(msgspec.Struct):
    """The first line of a page."""

    meta: Meta
    mark: Mark | None = None


class Segment(NamedTuple):
    """A section of a conversation: a page up to a byte offset (None: to its end)."""

    page: Page
    end: int | None
    inherited: bool


def from_name(path: str) -> Page | None:
    """Return the page that a file name describes; None if it is not the name of a rollout."""
    found = _NAME.fullmatch(os.path.basename(path))
    if found is None:
        return None
    thread = found[5].lower()
    return Page(path, f"{found[1]}-{found[2]}-{found[3]}T{found[4]}", thread, (found[6] or thread).lower())


def as_page(copy: str, thread: str) -> Page:
    """Return a copy as a page. Its first line has the start time in UTC; file names have local time."""
    head = head_of(copy)
    started = clock.to_epoch(head.meta.timestamp or "") if head else None
    when = time.strftime("%Y-%m-%dT%H-%M-%S", time.localtime(started))
    return Page(copy, when, thread, thread)


def is_thread(text: str) -> bool:
    """Whether a text is a valid thread id."""
    return re.fullmatch(_UUID, text) is not None and text == text.lower()


def folder_of(page: Page) -> str:
    """Return the folder of a page, relative to `sessions`."""
    return os.path.join(*page.when.partition("T")[0].split("-"))


def scan(folder: str, depth: int = _DEPTH, thread: str = "") -> Iterator[Page]:
    """Yield every page below a folder, with its fingerprint; only those of one thread if given. Follows no links."""
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
        elif (page := from_name(entry.path)) is not None:
            status = entry.stat(follow_symlinks=False)
            yield page._replace(size=status.st_size, changed=status.st_mtime_ns)


def by_thread(pages: Iterator[Page]) -> dict[str, list[Page]]:
    """Return the pages of each thread in the order of their creation."""
    threads: dict[str, dict[str, Page]] = {}
    for page in pages:
        by_page = threads.setdefault(page.thread, {})
        # A page may exist twice, archived and as a copy: Codex uses the later file. While it is being compressed or
        # unpacked there are two files of one name: the plain one counts.
        if page.page not in by_page or _rank(by_page[page.page]) <= _rank(page):
            by_page[page.page] = page
    return {
        thread: sorted(found.values(), key=lambda page: (page.when, page.page)) for thread, found in threads.items()
    }


def _rank(page: Page) -> tuple[str, bool]:
    return page.when, not page.path.endswith(COMPRESSED)


def project_of(path: str) -> str:
    """Return the project folder that a page was started in, from its first bytes."""
    found = _CWD.search(_first_bytes(path, 4096))
    try:
        return str(msgspec.json.decode(found[1])) if found else ""
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


def head_of(path: str) -> Head | None:
    """Return the decoded first line of a page; None if the file is not a rollout."""
    line = _first_line(path)
    try:
        first = records.metas.decode(line)
        if first.type == "session_meta":
            return Head(first.payload, first.cortext)
        meta = records.bare_metas.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    # The oldest files have the metadata on their first line, without a record around it.
    return Head(meta) if not first.type and meta.id and meta.timestamp and b'"instructions"' in line else None


def is_compacted(path: str) -> bool:
    """Whether Codex compacted a page. True for a page that cannot be read: it may have been."""
    try:
        with open(plain(path), "rb", opener=durable.plain_file) as file:
            return any(_COMPACTED.match(line) is not None for line in file)
    except (OSError, DamagedData):
        return True


def provider_of(pages: Sequence[Page]) -> str:
    """Return the provider that a thread was last held with, from its pages in order; empty if they name none."""
    for page in reversed(pages):
        head = head_of(page.path)
        applied = "" if page.path.endswith(COMPRESSED) else last_match(page.path, _APPLIED)
        if found := applied or ((head.meta.model_provider or "") if head is not None else ""):
            return found
    return ""


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
    """Return the beginning of a file, unpacked; empty if it is missing, a link, or cannot be unpacked."""
    if path.endswith(COMPRESSED):
        return unpacked_beginning(path, size)
    try:
        descriptor = durable.open_file(path, os.O_RDONLY)
        try:
            return os.pread(descriptor, size, 0)
        finally:
            os.close(descriptor)
    except (OSError, UnsafePath):
        return b""


def root_of(path: str) -> str:
    """Return the folder below which the other pages of the same thread are."""
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
    """Return all pages of the thread that this page belongs to."""
    root = root_of(page.path)
    found = [other for other in scan(root, thread=page.thread) if other.thread == page.thread]
    if not any(os.path.samefile(other.path, page.path) for other in found if other.page == page.page):
        found.append(with_fingerprint(page))
    return by_thread(iter(found))[page.thread]


def later(page: Page) -> list[Page]:
    """Return this page and the later ones of its thread. Reads only the folders of its day and after."""
    root = root_of(page.path)
    date = os.path.relpath(os.path.dirname(os.path.abspath(page.path)), root)
    if date == ".":
        return siblings(page)
    found: list[Page] = []
    for year in _dates_from(root, date[:4]):
        for month in _dates_from(os.path.join(root, year), date[5:7] if year == date[:4] else ""):
            first = date[8:10] if f"{year}/{month}" == date[:7] else ""
            for day in _dates_from(os.path.join(root, year, month), first):
                of_day = scan(os.path.join(root, year, month, day), 1, page.thread)
                found += (other for other in of_day if other.thread == page.thread)
    return by_thread(iter(found)).get(page.thread, [with_fingerprint(page)])


def _dates_from(folder: str, first: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if name.isdigit() and name >= first)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []


def with_fingerprint(page: Page) -> Page:
    """Return the page with its current size and modification time."""
    status = os.stat(page.path, follow_symlinks=False)
    return page._replace(size=status.st_size, changed=status.st_mtime_ns)


def segments(pages: list[Page], by_id: dict[str, Page], missing: list[str]) -> list[Segment]:
    """Return what to read for a thread: what its first page inherits, then its own pages.

    `by_id` has the pages of all threads. Ids of pages that it lacks are added to `missing`.
    """
    inherited: list[Segment] = []
    seen = {pages[0].page}
    head = head_of(pages[0].path)
    while head is not None and head.meta.history_base is not None:
        base = head.meta.history_base
        page = by_id.get(base.thread_id)
        if page is None or page.page in seen:
            missing.append(base.thread_id)
            break
        seen.add(page.page)
        inherited.append(Segment(page, base.end_byte_offset, True))
        head = head_of(page.path)
    return [*reversed(inherited), *(Segment(page, None, False) for page in pages)]


# ── compressed pages ─────────────────────────────────────────────────────────────────────────────────


def unread() -> str:
    """Return the kind of record that a page is without the library."""
    return f"compressed page (.zst; {install_hint(EXTRA)})"


@lru_cache(maxsize=1)
def library() -> Any:
    """Return the module that unpacks zstd; None if there is none."""
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return import_module(name)
        except ImportError:
            continue
    return None


def unpacked_beginning(path: str, size: int) -> bytes:
    """Return the beginning of a compressed page, unpacked; empty if it cannot be read."""
    zstd = library()
    if zstd is None:
        return b""
    try:
        with open(path, "rb", opener=durable.plain_file) as packed, zstd.open(packed) as file:
            return bytes(file.read(size))
    except (OSError, EOFError, zstd.ZstdError):
        return b""


def plain(path: str) -> str:
    """Return the path of a page's lines: of a compressed page, that of a copy that lasts as long as this process.

    Empty if there is no library for it; raise DamagedData if the page cannot be unpacked.
    """
    if not path.endswith(COMPRESSED):
        return path
    if library() is None:
        return ""
    status = os.stat(path)
    return _unpacked(path, status.st_size, status.st_mtime_ns)


def plain_name(path: str) -> str:
    """Return the name for a copy of a page that `plain` unpacks, if it can."""
    return os.path.basename(path).removesuffix(COMPRESSED if library() else "")


@lru_cache(maxsize=64)
def _unpacked(path: str, size: int, changed: int) -> str:
    zstd = library()
    with tempfile.NamedTemporaryFile(dir=_folder(), suffix=".jsonl", delete=False) as target:
        try:
            with open(path, "rb", opener=durable.plain_file) as packed, zstd.open(packed) as file:
                shutil.copyfileobj(file, target, 1 << 20)
        except (EOFError, zstd.ZstdError) as error:
            raise DamagedData(f"{path} cannot be unpacked: {error}", kept="it is unchanged") from error
        return target.name


@lru_cache(maxsize=1)
def _folder() -> str:
    folder = tempfile.mkdtemp(prefix="cortext-zst-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
