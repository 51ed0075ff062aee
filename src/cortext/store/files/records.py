"""Small append-only files of records, such as facts and updates: one JSON object per line.

They are not sessions: they have no sequence numbers and no archive. An unreadable line is skipped and counted, and it
stays in the file.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from typing import Any

from cortext.io import durable, locks
from cortext.io.jsonl import blocks, split_lines
from cortext.store.files.lines import BadLine, decode_value, encode


class RecordFile:
    """One such file, which many processes may use. Reading again reads only what is new."""

    def __init__(self, path: str, *, lock_timeout: float = 5.0) -> None:
        self.path = path
        self.unreadable = 0
        self._lock_timeout = lock_timeout
        self._records: list[dict[str, Any]] = []
        self._inode, self._read_to = -1, 0
        self._mutex = threading.Lock()
        self._open_file: durable.AppendFile | None = None

    def lock(self) -> locks.Lock:
        """Return the lock of this file, not acquired."""
        folder, name = os.path.split(self.path)
        return locks.Lock(os.path.join(folder, f".{name}.lock"))

    def append(self, *records: dict[str, Any]) -> None:
        """Append all records or none of them; they are durable when this returns."""
        lines = b"".join(encode(record) + b"\n" for record in records)
        if not lines:
            return
        if self._open_file is not None:
            self._open_file.append(lines)
            return
        durable.ensure_folder(os.path.dirname(self.path))
        with self.lock() as lock:
            lock.acquire(self._lock_timeout, self.path)
            durable.append_once(self.path, lines)

    def hold(self) -> None:
        """Keep the file open, for a process that is its only writer: an append then needs one flush and no lock."""
        self.close()
        durable.ensure_folder(os.path.dirname(self.path))
        file = durable.AppendFile(self.path)
        if file.end and os.pread(file.descriptor, 1, file.end - 1) != b"\n":
            file.append(b"\n")  # a record that a crash left incomplete must not run into the next one
        self._open_file = file

    def close(self) -> None:
        """Close the file that `hold` opened."""
        if self._open_file is not None:
            self._open_file.close()
            self._open_file = None

    def rewrite(self, records: Iterable[dict[str, Any]]) -> None:
        """Replace all records atomically. The caller ensures that no needed record is left out."""
        durable.ensure_folder(os.path.dirname(self.path))
        with self.lock() as lock:
            lock.acquire(self._lock_timeout, self.path)
            durable.replace_file(self.path, (encode(record) + b"\n" for record in records))
        if self._open_file is not None:
            self.hold()

    def read(self) -> list[dict[str, Any]]:
        """Return every record, in order. It is the same list each time, as long as the file has only grown."""
        with self._mutex:
            return self._read_new()

    def _read_new(self) -> list[dict[str, Any]]:
        try:
            descriptor = durable.open_file(self.path, os.O_RDONLY)
        except (FileNotFoundError, NotADirectoryError):
            self._reset(-1)
            return self._records
        try:
            status = os.fstat(descriptor)
            if status.st_ino != self._inode or status.st_size < self._read_to:
                self._reset(status.st_ino)
            for _, block, length in blocks(descriptor, self._read_to, status.st_size):
                # A last line without a newline may still be being written: it is left for the next read.
                if block is not None and not block.endswith(b"\n"):
                    break
                self._decode(block or b"")
                self._read_to += length
        finally:
            os.close(descriptor)
        return self._records

    def _reset(self, inode: int) -> None:
        self._records, self._inode, self._read_to, self.unreadable = [], inode, 0, 0

    def _decode(self, block: bytes) -> None:
        for raw in split_lines(block):
            if not raw.strip():
                continue
            try:
                record = decode_value(raw)
            except BadLine:
                record = None
            if isinstance(record, dict):
                self._records.append(record)
            else:
                self.unreadable += 1
