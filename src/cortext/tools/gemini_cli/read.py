"""Reading Gemini CLI's transcripts: JSON Lines that are appended to, or (older) one pretty-printed document."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from cortext.io import files as fsio
from cortext.io.jsonl import MAX_LINE, blocks
from cortext.model.message import Message
from cortext.tools.base import About, Counts, Transcript
from cortext.tools.gemini_cli.records import Record, document_decoder, record_decoder
from cortext.tools.gemini_cli.talk import PastNeeded, Talk
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

# The line after every message; it holds nothing but the time.
_TIME_ONLY = b'{"$set":{"lastUpdated":'
_TIME_ONLY_START = len(_TIME_ONLY)
_TIME_ONLY_LENGTH = 80
_RECORD_START = re.compile(rb'\{"(?:id|sessionId|\$set|\$rewindTo)":')
_TRIES = 200
# Where a record has the program's own uuid as its id, its beginning has a fixed length, and this shows results.
_RESULTS = b'user","content":[{"functionResponse":{"id":"'
_RESULTS_PLACE = 92
_RESULTS_END = _RESULTS_PLACE + len(_RESULTS)
_ID_PLACE, _ID_END = 7, 43
_BLOCK = 1 << 20
_AT_ONCE = 4 << 20
_HEAD = 1024
_TAIL = 256


class GeminiReading:
    """The messages of a transcript and of its side agents; see `TranscriptReading`."""

    def __init__(self, transcript: Transcript, cursor: dict[str, Any] | None, agents: list[str]) -> None:
        self.about = About(project=transcript.project)
        self.counts = Counts()
        self.cursor: dict[str, Any] | None = None
        self._transcript = transcript
        self._from = cursor
        self._agents = agents

    def __iter__(self) -> Iterator[Message]:
        self.about = About(project=self._transcript.project)
        self.counts = Counts()
        self.cursor = None
        main = _File(self._transcript.path, self._transcript.key, self.about, self.counts)
        yield from main.messages(self._from)
        earlier = (self._from or {}).get("agents")
        cursors: dict[str, Any] = {}
        for path in self._agents:
            name = os.path.basename(path)
            # What a side agent was told, and which model it used, says nothing about the talk.
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
        """The messages since the cursor, or all of them where it does not fit the file any more."""
        out: list[Message] = []
        if is_document(self.path):
            talk = self._talk()
            for record in documented(self.path, self.counts):
                try:
                    talk.take(record, out)
                except RECORD_ERRORS:
                    self._not_understood(0)
                yield from out
                out.clear()
            talk.finish(out)
            yield from out
            return
        start, talk = self._begin(cursor)
        lines = GeminiLines(self.path, start, self.counts)
        lines.is_copy = talk.is_copy
        for record in lines.records():
            try:
                talk.take(record, out)
            except PastNeeded:
                talk = self._replayed(lines.begin, lines.beside)
                lines.is_copy = talk.is_copy
                talk.take(record, out)
            except RECORD_ERRORS:
                self._not_understood(lines.begin)
            if out:
                yield from out
                out.clear()
        talk.finish(out)
        yield from out
        self.cursor = {"offset": lines.end, **_marks(self.path, lines.end), **talk.state()}

    def _not_understood(self, offset: int) -> None:
        note(self.counts.damaged, NOT_UNDERSTOOD)
        place(self.counts, self.path, offset)

    def _talk(self) -> Talk:
        return Talk(self.key, self.about, self.counts, aside=self.aside)

    def _begin(self, cursor: dict[str, Any] | None) -> tuple[int, Talk]:
        talk = self._talk()
        offset = cursor.get("offset") if cursor else None
        if cursor and isinstance(offset, int) and offset > 0:
            marks = _marks(self.path, offset)
            if marks and marks == {name: cursor.get(name) for name in marks}:
                try:
                    talk.go_on(cursor)
                    return offset, talk
                except (KeyError, TypeError, ValueError, msgspec.ValidationError):
                    talk = self._talk()  # a cursor of another version of ours
        return 0, talk

    def _replayed(self, end: int, more: Sequence[Record]) -> Talk:
        """The state after all that was read before, for a record that reaches back."""
        talk = Talk(self.key, About(), Counts(), aside=self.aside, careful=True)
        lines = GeminiLines(self.path, 0, talk.counts)
        lines.is_copy = talk.is_copy
        out: list[Message] = []
        for record in lines.records():
            if lines.begin >= end:
                break
            try:
                talk.take(record, out)
            except RECORD_ERRORS:
                pass  # it was counted when it was read first
            out.clear()
        for record in more:
            talk.take(record, out)
        talk.about, talk.counts = self.about, self.counts
        return talk


class GeminiLines(ForeignLines):
    """The records of a file; `begin` is where the line of the given one begins, `beside` what stood before it there.

    What brings nothing new is passed over by its bytes: times, a record whose very bytes begin the next one (an
    answer is written when it came, and again when its tool calls are done), and results that stood with their call.
    """

    begin = 0
    beside: Sequence[Record] = ()
    is_copy: Callable[[str, str], bool]

    def records(self) -> Iterator[Record]:
        """The records, in order; damage is counted."""
        decode = record_decoder.decode
        for line in self:
            try:
                yield decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                records = self._damaged(line)
                for number, record in enumerate(records):
                    self.beside = records[:number]
                    yield record
                self.beside = ()

    def __iter__(self) -> Iterator[bytes]:
        times = again = 0
        descriptor = fsio.open_file(self.path, os.O_RDONLY)
        try:
            for offset, piece, length in blocks(descriptor, self.start, os.fstat(descriptor).st_size):
                if piece is None:
                    note(self.counts.damaged, "line too long")
                    place(self.counts, self.path, offset)
                    self.end = offset + length
                    continue
                start = held = held_end = 0
                held_head = b""
                while (end := piece.find(b"\n", start)) >= 0 or start < len(piece):
                    if end < 0:
                        end = len(piece)
                        if not is_whole(piece[start:]):
                            self.complete = False
                            break
                    # Comparing slices is faster than startswith, and this runs for every line there is.
                    if end - start < _TIME_ONLY_LENGTH and piece[start : start + _TIME_ONLY_START] == _TIME_ONLY:
                        times += 1
                    elif end > start:
                        head = piece[start : start + _ID_END]
                        if held_end:
                            if head == held_head and piece.startswith(piece[held : held_end - 1], start):
                                again += 1
                            else:
                                self.begin = offset + held
                                yield piece[held:held_end]
                                held_end = 0
                        results = piece[start + _RESULTS_PLACE : start + _RESULTS_END] == _RESULTS
                        if not results or not self._known(piece, start, end):
                            held, held_end, held_head = start, end, head
                    start = end + 1
                if held_end:
                    self.begin = offset + held
                    yield piece[held:held_end]
                self.end = offset + min(start, len(piece))
        finally:
            os.close(descriptor)
            for kind, count in (("metadata", times), ("record again", again)):
                if count:
                    note(self.counts.skipped, kind, count)

    def _known(self, piece: bytes, start: int, end: int) -> bool:
        """Whether a line of one tool result, by its first bytes, holds what is known with its call."""
        begin = start + _RESULTS_END
        call = piece[begin : piece.find(b'"', begin, end)]
        record = piece[start + _ID_PLACE : start + _ID_END]
        return self.is_copy(record.decode("utf-8", "replace"), call.decode("utf-8", "replace"))

    def _damaged(self, line: bytes) -> list[Record]:
        """What can be had of a line that is not one good record: two on one line, or one behind half a record."""
        values, whole = concatenated_values(line)
        if not whole:
            self._damage("not JSON")
            values = values or _behind_damage(line)
        return [record for value in values if (record := self._converted(value)) is not None]

    def _converted(self, value: Any) -> Record | None:
        """A value as a record; where its shape is strange, as much as can be had: who, and the plain words."""
        try:
            return record_decoder.decode(msgspec.json.encode(without_lone_surrogates(value)))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            self._damage("unexpected shape")
        if not isinstance(value, dict) or not isinstance(value.get("id"), str):
            return None
        content = value.get("content")
        parts = content if isinstance(content, list) else [content]
        texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
        words = "".join(text for text in texts if isinstance(text, str))
        kind, when = value.get("type"), value.get("timestamp")
        return Record(
            id=value["id"],
            type=kind if isinstance(kind, str) else "",
            timestamp=when if isinstance(when, str) else None,
            content=words,
        )

    def _damage(self, kind: str) -> None:
        note(self.counts.damaged, kind)
        place(self.counts, self.path, self.end)


def _behind_damage(line: bytes) -> list[Any]:
    """Whole records at the end of a line that begins with a broken one: its writer died, the next went on."""
    for tried, found in enumerate(_RECORD_START.finditer(line, 1)):
        if tried >= _TRIES:
            break
        values, whole = concatenated_values(line[found.start() :])
        if values and whole:
            return values
    return []


def _marks(path: str, offset: int) -> dict[str, str]:
    """Signs of the file's beginning and of what stands before an offset; nothing where it is shorter."""
    descriptor = fsio.open_file(path, os.O_RDONLY)
    try:
        if os.fstat(descriptor).st_size < offset:
            return {}
        start = max(0, offset - _TAIL)
        head, tail = os.pread(descriptor, min(_HEAD, offset), 0), os.pread(descriptor, offset - start, start)
    finally:
        os.close(descriptor)
    return {"head": _digest(head), "mark": _digest(tail)}


def _digest(piece: bytes) -> str:
    return hashlib.blake2b(piece, digest_size=8).hexdigest()


# ── the older form ───────────────────────────────────────────────────────────────────────────────────


def is_document(path: str) -> bool:
    """Whether the file is one pretty-printed document: then its first line is a lone brace."""
    descriptor = fsio.open_file(path, os.O_RDONLY)
    try:
        return re.match(rb"\s*\{\s*\n", os.pread(descriptor, 64, 0)) is not None
    finally:
        os.close(descriptor)


def documented(path: str, counts: Counts) -> Iterator[Record]:
    """The records of a document: of a small one all at once, of others one at a time."""
    descriptor = fsio.open_file(path, os.O_RDONLY)
    try:
        document = _Document(descriptor, path, counts)
        yield from document.at_once() if document.size <= _AT_ONCE else document.records()
    finally:
        os.close(descriptor)


class _Document:
    """A document that `JSON.stringify(value, null, 2)` wrote: its indentation shows where each message begins."""

    _LIST = b'\n  "messages": ['
    _OPEN = b"\n    {"
    _CLOSE = b"\n    }"

    def __init__(self, descriptor: int, path: str, counts: Counts) -> None:
        self.descriptor, self.path, self.counts = descriptor, path, counts
        self.size = os.fstat(descriptor).st_size
        self.buffer = b""
        self.place = self.read = 0  # how far the buffer is done with, how far the file is read

    def at_once(self) -> Iterator[Record]:
        """The same, decoded in one piece; where anything is wrong with it, piece by piece after all."""
        try:
            whole = document_decoder.decode(os.pread(self.descriptor, self.size, 0))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self.records()
        opening = Record(sessionId=whole.sessionId, startTime=whole.startTime, summary=whole.summary)
        return itertools.chain([opening], whole.messages)

    def records(self) -> Iterator[Record]:
        """The session's own data first, then its messages, then what stands behind them."""
        start = self._find(self._LIST, 4 * _BLOCK)
        if start < 0:
            if self.size <= MAX_LINE:  # formatted in some other way: all at once
                yield from self._decoded(os.pread(self.descriptor, self.size, 0))
            else:
                self._damage("document too long")
            return
        yield from self._decoded(self.buffer[:start].rstrip().rstrip(b",") + b"}")
        self.place = start + len(self._LIST)
        while (end := self.buffer.find(self._CLOSE, self.place)) >= 0 or (
            end := self._find(self._CLOSE, MAX_LINE)
        ) >= 0:
            begin = self.buffer.find(self._OPEN, self.place, end)
            if begin < 0:
                break
            self.place = end + len(self._CLOSE)
            message = self.buffer[begin : self.place]
            try:
                yield record_decoder.decode(message)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                self._damage("unexpected shape")
        self._find(b"\0", 4 * _BLOCK)  # the rest of the file
        rest = self.buffer[self.place :].lstrip(b" \t\r\n")
        if not rest.startswith(b"]"):
            self._damage("cut off")
        elif rest[1:].strip(b" \t\r\n,}"):
            yield from self._decoded(b'{"sessionId":"",' + rest[1:].lstrip(b" \t\r\n,"))

    def _find(self, sign: bytes, limit: int) -> int:
        """Where a sign comes next, reading on as far as needed; -1 where it does not."""
        begin = self.place
        while True:
            found = self.buffer.find(sign, begin)
            if found >= 0 or self.read >= self.size or len(self.buffer) - self.place > limit:
                return found
            # Reading more each time, a long message costs no more than its length.
            block = os.pread(self.descriptor, max(_BLOCK, len(self.buffer) - self.place), self.read)
            if not block:
                return -1
            self.read += len(block)
            begin = max(0, len(self.buffer) - self.place - len(sign))
            self.buffer = self.buffer[self.place :] + block
            self.place = 0

    def _decoded(self, data: bytes) -> list[Record]:
        try:
            return [record_decoder.decode(data)]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._damage("unexpected shape")
            return []

    def _damage(self, kind: str) -> None:
        note(self.counts.damaged, kind)
        place(self.counts, self.path, self.read)
