"""Reading messages for the index: directly from the session's files if it has any, else through its store.

The session list knows where the files are; a store would have to look them up for every session.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from itertools import islice

from cortext.errors import CortextError
from cortext.index.refresh import StoreSource
from cortext.io import durable
from cortext.io.jsonl import BLOCK
from cortext.model.message import Message
from cortext.store.files import layout_paths
from cortext.store.files.archive import ArchivedReading
from cortext.store.files.journal import JournalReading, offset_of
from cortext.store.files.layout_paths import Folders
from cortext.store.files.lines import BadLine, decode_line

AT_A_TIME = 500  # messages per batch from a store without files
PIECE = 1 << 16  # bytes of a log that are read at once to find a message


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
    files = layout_paths.FILES[source.kind]
    log = f"{path}/{files[0]}" if files[0] else path
    archive = f"{path}/{files[-1]}" if len(files) > 1 else ""
    source.folders().check(os.path.dirname(log))
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


class Picking:
    """Reads single messages by their numbers. The folders of a store are checked once, not for every message."""

    def __init__(self) -> None:
        self._folders: dict[str, Folders] = {}

    def picked(self, source: StoreSource, session_id: str, path: str, numbers: Collection[int]) -> dict[int, Message]:
        """Return these messages of one session; those that do not exist are left out."""
        found = self._from_log(source, path, numbers)
        missing = [number for number in numbers if number not in found]
        if missing:
            for message in messages(source, session_id, path, min(missing)):
                if message.seq > max(missing):
                    break
                if message.seq in missing:
                    found[message.seq] = message
        return found

    def around(self, source: StoreSource, session_id: str, path: str, number: int) -> dict[int, Message]:
        """Return a message and its neighbours by number; empty if it does not exist."""
        wanted = range(max(0, number - 1), number + 2)
        found = self._from_log(source, path, wanted)
        if number not in found:
            found = self.picked(source, session_id, path, wanted)
        return found if number in found else {}

    def _from_log(self, source: StoreSource, path: str, numbers: Collection[int]) -> dict[int, Message]:
        """Return what one of our logs has of these, by searching for the numbers: only their lines are decoded."""
        files = layout_paths.FILES.get(source.kind)
        if files is None or (len(files) > 1 and os.path.lexists(f"{path}/{files[-1]}")):
            return {}
        log = f"{path}/{files[0]}" if files[0] else path
        try:
            self._folders.setdefault(source.root, source.folders()).check(os.path.dirname(log))
            descriptor = durable.open_file(log, os.O_RDONLY)
        except (CortextError, OSError):
            return {}
        found: dict[int, Message] = {}
        piece = b""
        try:
            for number in sorted(numbers):
                message = _in_piece(piece, number)
                if message is None:
                    piece, message = _piece_with(descriptor, number)
                if message is not None:
                    found[number] = message
        finally:
            os.close(descriptor)
        return found


def _piece_with(descriptor: int, number: int) -> tuple[bytes, Message | None]:
    """Return a part of a log, and the message with this number if it is in it."""
    start = offset_of(descriptor, number)
    piece = os.pread(descriptor, PIECE, start)
    message = _in_piece(piece, number)
    if message is None and len(piece) == PIECE:
        piece = os.pread(descriptor, 2 * BLOCK, start)
        message = _in_piece(piece, number)
    return piece, message


def _in_piece(piece: bytes, number: int) -> Message | None:
    """Return the message with this number from a part of a log; None if the log differs from what we write."""
    mark = b'"seq": %d' % number
    at = piece.find(mark)
    while at >= 0:
        end = piece.find(b"\n", at)
        if end < 0:
            return None
        try:
            message = decode_line(piece[piece.rfind(b"\n", 0, at) + 1 : end])
        except BadLine:
            return None
        if message.role and message.seq == number:
            return message
        at = piece.find(mark, at + 1)
    return None


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
