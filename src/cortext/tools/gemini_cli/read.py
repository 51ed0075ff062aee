"""Read Gemini CLI's transcripts: JSON Lines that grow, or (older versions) one pretty-printed document."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from cortext.io import durable
from cortext.io.jsonl import MAX_LINE, blocks
from cortext.model.message import Message
from cortext.tools.base import About, Counts, Transcript
from cortext.tools.gemini_cli.conversation import Conversation, HistoryNeeded
from cortext.tools.gemini_cli.records import Record, document_decoder, record_decoder
from cortext.tools.shared.lines import (
    NOT_UNDERSTOOD,
    RECORD_ERRORS,
    ForeignLines,
    concatenated_values,
    is_whole,
    note,
    place,
    without_lone_surrogates,
)

# The line after every message; it contains only the time.
_TIME_ONLY = b'{"$set":{"lastUpdated":'
_TIME_ONLY_START = len(_TIME_ONLY)
_TIME_ONLY_LENGTH = 80
_RECORD_START = re.compile(rb'\{"(?:id|sessionId|\$set|\$rewindTo)":')
_MAX_ATTEMPTS = 200
# A record whose id is a UUID has a prefix of fixed length; these bytes after it show that it contains results.
_RESULTS = b'user","content":[{"functionResponse":{"id":"'
_RESULTS_START = 92
_RESULTS_END = _RESULTS_START + len(_RESULTS)
_ID_START, _ID_END = 7, 43
_BLOCK = 1 << 20
_DECODED_WHOLE_LIMIT = 4 << 20
_HEAD = 1024
_TAIL = 256


class GeminiReading:
    """The messages of a transcript and of its side agents; see `TranscriptReading`."""

    def __init__(self, transcript: Transcript, cursor: dict[str, Any] | None, agents: list[str]) -> None:
        self.about = About(project=transcript.project)
        self.counts = Counts()
        self.cursor: dict[str, Any] | None = None
        self._transcript = transcript
        self._start_cursor = cursor
        self._agents = agents

    def __iter__(self) -> Iterator[Message]:
        self.about = About(project=self._transcript.project)
        self.counts = Counts()
        self.cursor = None
        main = _File(self._transcript.path, self._transcript.key, self.about, self.counts)
        yield from main.messages(self._start_cursor)
        earlier = (self._start_cursor or {}).get("agents")
        cursors: dict[str, Any] = {}
        for path in self._agents:
            name = os.path.basename(path)
            # The prompt and the model of a side agent do not describe the conversation, so its `About` is discarded.
            agent = _File(path, f"{self._transcript.key}/{name}", About(), self.counts, aside=True)
            yield from agent.messages(earlier.get(name) if isinstance(earlier, dict) else None)
            cursors[name] = agent.cursor
        self.cursor = main.cursor
        if self.cursor is not None and cursors:
            self.cursor["agents"] = cursors


class _File:
    """One file of a transcript."""

    def __init__(self, path: str, key: str, about: About, counts: Counts, *, aside: bool = False) -> None:
        self.path, self.key, self.about, self.counts, self.aside = path, key, about, counts, aside
        self.cursor: dict[str, Any] | None = None

    def messages(self, cursor: dict[str, Any] | None) -> Iterator[Message]:
        """Yield the messages since the cursor; all of them if it no longer matches the file."""
        out: list[Message] = []
        if is_document(self.path):
            conversation = self._conversation()
            for record in document_records(self.path, self.counts):
                try:
                    conversation.add(record, out)
                except RECORD_ERRORS:
                    self._count_not_understood(0)
                yield from out
                out.clear()
            conversation.finish(out)
            yield from out
            return
        start, conversation = self._begin(cursor)
        lines = GeminiLines(self.path, start, self.counts)
        lines.is_repeated_result = conversation.is_repeated_result
        for record in lines.records():
            try:
                conversation.add(record, out)
            except HistoryNeeded:
                conversation = self._replayed(lines.line_start, lines.earlier_on_line)
                lines.is_repeated_result = conversation.is_repeated_result
                conversation.add(record, out)
            except RECORD_ERRORS:
                self._count_not_understood(lines.line_start)
            if out:
                yield from out
                out.clear()
        conversation.finish(out)
        yield from out
        self.cursor = {"offset": lines.end, **_fingerprints(self.path, lines.end), **conversation.state()}

    def _count_not_understood(self, offset: int) -> None:
        note(self.counts.damaged, NOT_UNDERSTOOD)
        place(self.counts, self.path, offset)

    def _conversation(self) -> Conversation:
        return Conversation(self.key, self.about, self.counts, aside=self.aside)

    def _begin(self, cursor: dict[str, Any] | None) -> tuple[int, Conversation]:
        conversation = self._conversation()
        offset = cursor.get("offset") if cursor else None
        if cursor and isinstance(offset, int) and offset > 0:
            fingerprints = _fingerprints(self.path, offset)
            if fingerprints and fingerprints == {name: cursor.get(name) for name in fingerprints}:
                try:
                    conversation.restore(cursor)
                    return offset, conversation
                except (KeyError, TypeError, ValueError, msgspec.ValidationError):
                    conversation = self._conversation()  # a cursor that another version of cortext wrote
        return 0, conversation

    def _replayed(self, end: int, more: Sequence[Record]) -> Conversation:
        """Return the state after all earlier records (up to `end`, then `more`), for a record that refers back."""
        conversation = Conversation(self.key, About(), Counts(), aside=self.aside, remember_all=True)
        lines = GeminiLines(self.path, 0, conversation.counts)
        lines.is_repeated_result = conversation.is_repeated_result
        out: list[Message] = []
        for record in lines.records():
            if lines.line_start >= end:
                break
            try:
                conversation.add(record, out)
            except RECORD_ERRORS:
                pass  # counted when it was first read
            out.clear()
        for record in more:
            conversation.add(record, out)
        conversation.about, conversation.counts = self.about, self.counts
        return conversation


class GeminiLines(ForeignLines):
    """The records of a file.

    `line_start` is the offset of the current record's line, `earlier_on_line` the records before it on the same line.
    Lines that add nothing are skipped without decoding: times; a record that is a prefix of the next one (an answer is
    written when it arrives, and again when its tool calls are done); and results that the record of the call contains.
    """

    line_start = 0
    earlier_on_line: Sequence[Record] = ()
    is_repeated_result: Callable[[str, str], bool]

    def records(self) -> Iterator[Record]:
        """Yield the records in order; damage is counted."""
        decode = record_decoder.decode
        for line in self:
            try:
                yield decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                records = self._damaged(line)
                for number, record in enumerate(records):
                    self.earlier_on_line = records[:number]
                    yield record
                self.earlier_on_line = ()

    def __iter__(self) -> Iterator[bytes]:
        time_lines = repeats = 0
        descriptor = durable.open_file(self.path, os.O_RDONLY)
        try:
            for offset, block, length in blocks(descriptor, self.start, os.fstat(descriptor).st_size):
                if block is None:
                    note(self.counts.damaged, "line too long")
                    place(self.counts, self.path, offset)
                    self.end = offset + length
                    continue
                start = pending = pending_end = 0
                pending_head = b""
                while (end := block.find(b"\n", start)) >= 0 or start < len(block):
                    if end < 0:
                        end = len(block)
                        if not is_whole(block[start:]):
                            self.complete = False
                            if not start:
                                self.cut(len(block))
                            break
                    # Comparing slices is faster than startswith, and this runs for every line.
                    if end - start < _TIME_ONLY_LENGTH and block[start : start + _TIME_ONLY_START] == _TIME_ONLY:
                        time_lines += 1
                    elif end > start:
                        head = block[start : start + _ID_END]
                        if pending_end:
                            if head == pending_head and block.startswith(block[pending : pending_end - 1], start):
                                repeats += 1
                            else:
                                self.line_start = offset + pending
                                yield block[pending:pending_end]
                                pending_end = 0
                        results = block[start + _RESULTS_START : start + _RESULTS_END] == _RESULTS
                        if not results or not self._is_repeated(block, start, end):
                            pending, pending_end, pending_head = start, end, head
                    start = end + 1
                if pending_end:
                    self.line_start = offset + pending
                    yield block[pending:pending_end]
                self.end = offset + min(start, len(block))
        finally:
            os.close(descriptor)
            for kind, count in (("metadata", time_lines), ("repeated record", repeats)):
                if count:
                    note(self.counts.skipped, kind, count)

    def _is_repeated(self, block: bytes, start: int, end: int) -> bool:
        """Whether a line with a tool result, by its first bytes, repeats what the call already contains."""
        call_start = start + _RESULTS_END
        call = block[call_start : block.find(b'"', call_start, end)]
        record = block[start + _ID_START : start + _ID_END]
        return self.is_repeated_result(record.decode("utf-8", "replace"), call.decode("utf-8", "replace"))

    def _damaged(self, line: bytes) -> list[Record]:
        """Return what can be salvaged from a damaged line: several records, or whole records after a partial one."""
        values, is_valid = concatenated_values(line)
        if not is_valid:
            self._damage("not JSON")
            values = values or _records_after_damage(line)
        return [record for value in values if (record := self._converted(value)) is not None]

    def _converted(self, value: Any) -> Record | None:
        """Return a value as a record; if its shape is unexpected, only its id, type, time and text."""
        try:
            return record_decoder.decode(msgspec.json.encode(without_lone_surrogates(value)))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            self._damage("unexpected shape")
        if not isinstance(value, dict) or not isinstance(value.get("id"), str):
            return None
        content = value.get("content")
        parts = content if isinstance(content, list) else [content]
        texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
        text = "".join(text for text in texts if isinstance(text, str))
        kind, when = value.get("type"), value.get("timestamp")
        return Record(
            id=value["id"],
            type=kind if isinstance(kind, str) else "",
            timestamp=when if isinstance(when, str) else None,
            content=text,
        )

    def _damage(self, kind: str) -> None:
        note(self.counts.damaged, kind)
        place(self.counts, self.path, self.end)


def _records_after_damage(line: bytes) -> list[Any]:
    """Return the whole records at the end of a line that begins with a partial one, left by a process that died."""
    for tried, found in enumerate(_RECORD_START.finditer(line, 1)):
        if tried >= _MAX_ATTEMPTS:
            break
        values, is_valid = concatenated_values(line[found.start() :])
        if values and is_valid:
            return values
    return []


def _fingerprints(path: str, offset: int) -> dict[str, str]:
    """Return fingerprints of the file's beginning and of the bytes before an offset; empty if it is shorter."""
    descriptor = durable.open_file(path, os.O_RDONLY)
    try:
        if os.fstat(descriptor).st_size < offset:
            return {}
        start = max(0, offset - _TAIL)
        head, tail = os.pread(descriptor, min(_HEAD, offset), 0), os.pread(descriptor, offset - start, start)
    finally:
        os.close(descriptor)
    return {"head": _digest(head), "mark": _digest(tail)}


def _digest(block: bytes) -> str:
    return hashlib.blake2b(block, digest_size=8).hexdigest()


# ── the older format ─────────────────────────────────────────────────────────────────────────────────


def is_document(path: str) -> bool:
    """Whether the file is one pretty-printed document, by its first line: a single brace."""
    descriptor = durable.open_file(path, os.O_RDONLY)
    try:
        return re.match(rb"\s*\{\s*\n", os.pread(descriptor, 64, 0)) is not None
    finally:
        os.close(descriptor)


def document_records(path: str, counts: Counts) -> Iterator[Record]:
    """Yield the records of a document; a small one is decoded at once, a large one record by record."""
    descriptor = durable.open_file(path, os.O_RDONLY)
    try:
        document = _Document(descriptor, path, counts)
        yield from document.decode_whole() if document.size <= _DECODED_WHOLE_LIMIT else document.stream()
    finally:
        os.close(descriptor)


class _Document:
    """A document written by `JSON.stringify(value, null, 2)`: the indentation shows where each message begins."""

    _LIST = b'\n  "messages": ['
    _OPEN = b"\n    {"
    _CLOSE = b"\n    }"

    def __init__(self, descriptor: int, path: str, counts: Counts) -> None:
        self.descriptor, self.path, self.counts = descriptor, path, counts
        self.size = os.fstat(descriptor).st_size
        self.buffer = b""
        self.position = self.file_offset = 0  # positions in the buffer and in the file

    def decode_whole(self) -> Iterator[Record]:
        """Decode the document at once; fall back to `stream` if anything in it is damaged."""
        try:
            session = document_decoder.decode(os.pread(self.descriptor, self.size, 0))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self.stream()
        metadata = Record(sessionId=session.sessionId, startTime=session.startTime, summary=session.summary)
        return itertools.chain([metadata], session.messages)

    def stream(self) -> Iterator[Record]:
        """Yield the session's metadata, then its messages, then the metadata after them."""
        start = self._find(self._LIST, 4 * _BLOCK)
        if start < 0:
            if self.size <= MAX_LINE:  # formatted differently: decode it at once
                yield from self._decoded(os.pread(self.descriptor, self.size, 0))
            else:
                self._damage("document too long")
            return
        yield from self._decoded(self.buffer[:start].rstrip().rstrip(b",") + b"}")
        self.position = start + len(self._LIST)
        while (end := self.buffer.find(self._CLOSE, self.position)) >= 0 or (
            end := self._find(self._CLOSE, MAX_LINE)
        ) >= 0:
            message_start = self.buffer.find(self._OPEN, self.position, end)
            if message_start < 0:
                break
            self.position = end + len(self._CLOSE)
            message = self.buffer[message_start : self.position]
            try:
                yield record_decoder.decode(message)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                self._damage("unexpected shape")
        self._find(b"\0", 4 * _BLOCK)  # the rest of the file
        rest = self.buffer[self.position :].lstrip(b" \t\r\n")
        if not rest.startswith(b"]"):
            self._damage("truncated")
        elif rest[1:].strip(b" \t\r\n,}"):
            yield from self._decoded(b'{"sessionId":"",' + rest[1:].lstrip(b" \t\r\n,"))

    def _find(self, pattern: bytes, limit: int) -> int:
        """Return the next position of a pattern in the buffer, reading more as needed; -1 if it does not occur."""
        search_start = self.position
        while True:
            found = self.buffer.find(pattern, search_start)
            if found >= 0 or self.file_offset >= self.size or len(self.buffer) - self.position > limit:
                return found
            # Reading more each time keeps the cost of a long message linear in its length.
            block = os.pread(self.descriptor, max(_BLOCK, len(self.buffer) - self.position), self.file_offset)
            if not block:
                return -1
            self.file_offset += len(block)
            search_start = max(0, len(self.buffer) - self.position - len(pattern))
            self.buffer = self.buffer[self.position :] + block
            self.position = 0

    def _decoded(self, data: bytes) -> list[Record]:
        try:
            return [record_decoder.decode(data)]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._damage("unexpected shape")
            return []

    def _damage(self, kind: str) -> None:
        note(self.counts.damaged, kind)
        place(self.counts, self.path, self.file_offset)
