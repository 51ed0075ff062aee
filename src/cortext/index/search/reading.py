"""Reading messages for the index: directly from the session's files if it has any, else through its store.

The session list knows where the files are; a store would have to look them up for every session.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice

from cortext.errors import CortextError
from cortext.index.sessions import StoreSource
from cortext.io import files as fsio
from cortext.io.jsonl import BLOCK
from cortext.model.message import Message
from cortext.store.files import layout_paths

AT_A_TIME = 500  # messages per batch from a store without files


def messages(source: StoreSource, session_id: str, path: str, start: int = 0) -> Iterator[Message]:
    """Yield the messages from number `start` on; none if the session is gone."""
    for batch in batches(source, session_id, path, start):
        yield from batch


def batches(source: StoreSource, session_id: str, path: str, start: int = 0) -> Iterator[list[Message]]:
    """Yield the same messages in batches: the fast way to read a whole session."""
    try:
        if source.kind in layout_paths.FILES:
            yield from _from_files(source, path, start)
        else:
            yield from _gathered(source.store.read(session_id, start))
    except (CortextError, OSError):
        return  # gone, or behind a link that must not be followed


def _from_files(source: StoreSource, path: str, start: int) -> Iterator[list[Message]]:
    from cortext.store.files.archive import ArchivedReading
    from cortext.store.files.folders import Folders
    from cortext.store.files.journal import JournalReading
    from cortext.store.files.seek import offset_of

    files = layout_paths.FILES[source.kind]
    log = f"{path}/{files[0]}" if files[0] else path
    archive = f"{path}/{files[-1]}" if len(files) > 1 else ""
    Folders(source.root).check(os.path.dirname(log))
    if archive and os.path.lexists(archive):
        found = _gathered(ArchivedReading(archive, log, start, brief=True))
    else:
        seek = (lambda opened: offset_of(opened, start)) if start else None
        found = JournalReading(log, seek=seek, brief=True).batches()
    for batch in found:
        if batch and batch[0].seq < start:
            batch = [message for message in batch if message.seq >= start]
        if batch:
            yield batch


def _gathered(reading: Iterable[Message]) -> Iterator[list[Message]]:
    found = iter(reading)
    while batch := list(islice(found, AT_A_TIME)):
        yield batch


def around(source: StoreSource, session_id: str, path: str, seq: int) -> dict[int, Message]:
    """Return a message and its neighbours by number; empty if it does not exist."""
    found = _picked(source, path, seq)
    if found:
        return found
    for message in messages(source, session_id, path, max(0, seq - 1)):
        if message.seq > seq + 1:
            break
        found[message.seq] = message
    return found


def _picked(source: StoreSource, path: str, seq: int) -> dict[int, Message]:
    """Return the same from one of our logs by searching for the number, which decodes three lines instead of 1 MB.

    Empty if the log differs in any way from what we write; the caller then reads it normally.
    """
    from cortext.store.files.folders import Folders
    from cortext.store.files.seek import offset_of

    files = layout_paths.FILES.get(source.kind)
    if files is None or (len(files) > 1 and os.path.lexists(f"{path}/{files[-1]}")):
        return {}
    log = f"{path}/{files[0]}" if files[0] else path
    try:
        Folders(source.root).check(os.path.dirname(log))
        descriptor = fsio.open_file(log, os.O_RDONLY)
    except (CortextError, OSError):
        return {}
    try:
        start = offset_of(descriptor, max(0, seq - 1))
        return _in_piece(os.pread(descriptor, 2 * BLOCK, start), seq)
    finally:
        os.close(descriptor)


def _in_piece(piece: bytes, seq: int) -> dict[int, Message]:
    from cortext.store.files.lines import BadLine, decode_line

    mark = b'"seq": %d' % seq
    at = piece.find(mark)
    while at >= 0:
        begin = piece.rfind(b"\n", 0, at) + 1
        end = piece.find(b"\n", at)
        if end < 0:
            return {}
        found: dict[int, Message] = {}
        before = piece.rfind(b"\n", 0, max(0, begin - 1)) + 1
        after = piece.find(b"\n", end + 1)
        for first, last in ((before, begin - 1), (begin, end), (end + 1, after)):
            if last <= first:
                continue
            try:
                message = decode_line(piece[first:last])
            except BadLine:
                return {}
            if message.role and abs(message.seq - seq) <= 1:
                found[message.seq] = message
        if seq in found:
            return found
        at = piece.find(mark, at + 1)
    return {}


def log_fingerprint(kind: str, fingerprint: str) -> str:
    """Return the part of a session's fingerprint that covers its messages: the log and the archive."""
    files = layout_paths.FILES.get(kind)
    if files is None:
        return fingerprint
    pieces = fingerprint.split(" ")
    return pieces[0] if len(files) == 1 else f"{pieces[0]} {pieces[-1]}"


def only_grew(old: str, new: str) -> bool:
    """Whether a log is the same file as before, only longer, and its archive unchanged: then only the tail is new."""
    before, now = old.split(" "), new.split(" ")
    if len(before) != len(now) or before[1:] != now[1:] or "-" in (before[0], now[0]):
        return False
    old_size, _, old_inode = before[0].split(".")
    new_size, _, new_inode = now[0].split(".")
    return old_inode == new_inode and int(new_size) >= int(old_size)
