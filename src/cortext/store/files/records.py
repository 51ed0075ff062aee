"""Small files of records that only grow: facts, updates. One JSON object a line, durable when `append` returns.

They are not sessions: no numbers, no archive. A line that cannot be read is passed over, counted, and stays there.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from typing import Any

from cortext.io import files as fsio
from cortext.io import locks
from cortext.io.jsonl import blocks, split_lines
from cortext.store.files.lines import BadLine, decode_value, encode


class RecordFile:
    """One such file. Reading again costs only what is new; many processes may use it."""

    def __init__(self, path: str, *, lock_timeout: float = 5.0) -> None:
        self.path = path
        self.bad = 0
        self._lock_timeout = lock_timeout
        self._records: list[dict[str, Any]] = []
        self._inode, self._read = -1, 0
        self._reading = threading.Lock()
        self._held: fsio.AppendFile | None = None

    def lock(self) -> locks.Lock:
        """The lock of this file, not yet taken."""
        folder, name = os.path.split(self.path)
        return locks.Lock(os.path.join(folder, f".{name}.lock"))

    def append(self, *records: dict[str, Any]) -> None:
        """Add records, all of them or none; durable when this returns."""
        lines = b"".join(encode(record) + b"\n" for record in records)
        if not lines:
            return
        if self._held is not None:
            self._held.append(lines)
            return
        fsio.ensure_folder(os.path.dirname(self.path))
        with self.lock() as lock:
            lock.acquire(self._lock_timeout, self.path)
            fsio.append_once(self.path, lines)

    def hold(self) -> None:
        """Keep the file open: for the one process that writes it, which then needs one flush a record and no lock."""
        self.close()
        fsio.ensure_folder(os.path.dirname(self.path))
        file = fsio.AppendFile(self.path)
        if file.end and os.pread(file.descriptor, 1, file.end - 1) != b"\n":
            file.append(b"\n")  # what a crash left of the last record stands by itself
        self._held = file

    def close(self) -> None:
        """No longer keep it open."""
        if self._held is not None:
            self._held.close()
            self._held = None

    def rewrite(self, records: Iterable[dict[str, Any]]) -> None:
        """Put these records in place of all that is there, atomically. The caller knows that nothing is lost."""
        fsio.ensure_folder(os.path.dirname(self.path))
        with self.lock() as lock:
            lock.acquire(self._lock_timeout, self.path)
            fsio.replace_file(self.path, (encode(record) + b"\n" for record in records))
        if self._held is not None:
            self.hold()

    def read(self) -> list[dict[str, Any]]:
        """Every record, in order. The same list each time, as long as the file only grew."""
        with self._reading:
            return self._read_on()

    def _read_on(self) -> list[dict[str, Any]]:
        try:
            descriptor = fsio.open_file(self.path, os.O_RDONLY)
        except (FileNotFoundError, NotADirectoryError):
            self._forget(-1)
            return self._records
        try:
            status = os.fstat(descriptor)
            if status.st_ino != self._inode or status.st_size < self._read:
                self._forget(status.st_ino)
            for _, piece, length in blocks(descriptor, self._read, status.st_size):
                # A last line without its end is being written at this moment, or was torn: not ours to judge yet.
                if piece is not None and not piece.endswith(b"\n"):
                    break
                self._take(piece or b"")
                self._read += length
        finally:
            os.close(descriptor)
        return self._records

    def _forget(self, inode: int) -> None:
        self._records, self._inode, self._read, self.bad = [], inode, 0, 0

    def _take(self, piece: bytes) -> None:
        for raw in split_lines(piece):
            if not raw.strip():
                continue
            try:
                record = decode_value(raw)
            except BadLine:
                record = None
            if isinstance(record, dict):
                self._records.append(record)
            else:
                self.bad += 1
