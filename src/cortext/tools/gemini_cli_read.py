"""Reading Gemini CLI's transcripts: JSON Lines that are appended to, or (older) one pretty-printed document."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from cortext import fsio
from cortext.jsonl import MAX_LINE, blocks
from cortext.model.message import Message
from cortext.tools.base import About, Counts, Transcript
from cortext.tools.foreign import ForeignLines, glued_values, is_whole, note, place
from cortext.tools.gemini_cli_records import Record, record_decoder
from cortext.tools.gemini_cli_talk import PastNeeded, Talk

# The line after every message; it holds nothing but the time.
_TIME_ONLY = b'{"$set":{"lastUpdated":'
_TIME_ONLY_LENGTH = 80
_RECORD_START = re.compile(rb'\{"(?:id|sessionId|\$set|\$rewindTo)":')
_TRIES = 200
# Where a record has the program's own uuid as its id, its beginning has a fixed length, and this shows results.
_RESULTS = b'user","content":[{"functionResponse":{"id":"'
_RESULTS_PLACE = 92
_ID_PLACE, _ID_END = 7, 43
_BLOCK = 1 << 20
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
                talk.take(record, out)
                yield from out
                out.clear()
            talk.finish(out)
            yield from out
            return
        start, talk = self._begin(cursor)
        lines = GeminiLines(self.path, start, self.counts)
        for line in lines:
            if line.startswith(_RESULTS, _RESULTS_PLACE) and _is_copy(line, talk):
                continue
            records = lines.records(line)
            for number, record in enumerate(records):
                try:
                    talk.take(record, out)
                except PastNeeded:
                    talk = self._replayed(lines.begin, records[:number])
                    talk.take(record, out)
            if out:
                yield from out
                out.clear()
        talk.finish(out)
        yield from out
        self.cursor = {"offset": lines.end, **_marks(self.path, lines.end), **talk.state()}

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

    def _replayed(self, end: int, more: list[Record]) -> Talk:
        """The state after all that was read before, for a record that reaches back."""
        talk = Talk(self.key, About(), Counts(), aside=self.aside, careful=True)
        lines = GeminiLines(self.path, 0, talk.counts)
        out: list[Message] = []
        for line in lines:
            if lines.begin >= end:
                break
            if not (line.startswith(_RESULTS, _RESULTS_PLACE) and _is_copy(line, talk)):
                for record in lines.records(line):
                    talk.take(record, out)
                out.clear()
        for record in more:
            talk.take(record, out)
        talk.about, talk.counts = self.about, self.counts
        return talk


def _is_copy(line: bytes, talk: Talk) -> bool:
    """Whether a message of tool results, by its first bytes, holds only results that are known with their calls."""
    begin = _RESULTS_PLACE + len(_RESULTS)
    end = line.find(b'"', begin)
    if line.find(b'{"functionResponse":', end) >= 0 or line.find(b"\\", begin, end) >= 0:
        return False  # several results: worth a look
    return talk.is_copy(line[_ID_PLACE:_ID_END].decode("utf-8", "replace"), line[begin:end].decode("utf-8", "replace"))


class GeminiLines(ForeignLines):
    """The lines that are worth a look; `begin` is where the given one begins.

    Left out are times, and a record whose very bytes begin the next one: an answer is written when it came,
    and again when its tool calls are done. What is left out is counted, nothing of it is decoded.
    """

    begin = 0

    def __iter__(self) -> Iterator[bytes]:
        times = again = held_at = 0
        held = head = b""
        descriptor = fsio.open_file(self.path, os.O_RDONLY)
        try:
            for offset, piece, length in blocks(descriptor, self.start, os.fstat(descriptor).st_size):
                if piece is None:
                    note(self.counts.damaged, "line too long")
                    place(self.counts, self.path, offset)
                    self.end = offset + length
                    continue
                start = 0
                while (end := piece.find(b"\n", start)) >= 0 or start < len(piece):
                    if end < 0:
                        end = len(piece)
                        if not is_whole(piece[start:]):
                            self.complete = False
                            break
                    if end - start < _TIME_ONLY_LENGTH and piece.startswith(_TIME_ONLY, start):
                        times += 1
                    elif end > start:
                        if held:
                            if piece.startswith(head, start) and piece.startswith(held[:-1], start):
                                again += 1
                            else:
                                self.begin = held_at
                                yield held
                        held, held_at = piece[start:end], offset + start
                        head = held[:_ID_END]
                    start = end + 1
                self.end = offset + min(start, len(piece))
            if held:
                self.begin = held_at
                yield held
        finally:
            os.close(descriptor)
            note(self.counts.skipped, "metadata", times)
            note(self.counts.skipped, "record again", again)

    def records(self, line: bytes) -> list[Record]:
        """The record or records of a line, also one that stands behind half a record; damage is counted."""
        try:
            return [record_decoder.decode(line)]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        values, whole = glued_values(line)
        if not whole:
            self._damage("not JSON")
            values = values or _behind_damage(line)
        return [record for value in values if (record := self._converted(value)) is not None]

    def _converted(self, value: Any) -> Record | None:
        """A value as a record; where its shape is strange, as much as can be had: who, and the plain words."""
        try:
            return record_decoder.decode(msgspec.json.encode(value))
        except (msgspec.DecodeError, RecursionError):
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
        values, whole = glued_values(line[found.start() :])
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
    """The records of a document, one in memory at a time: its indentation shows where each begins and ends."""
    descriptor = fsio.open_file(path, os.O_RDONLY)
    try:
        yield from _Document(descriptor, path, counts).records()
    finally:
        os.close(descriptor)


class _Document:
    """A sliding view of a document that `JSON.stringify(value, null, 2)` wrote."""

    _LIST = b'\n  "messages": ['
    _OPEN = b"\n    {"
    _CLOSE = b"\n    }"

    def __init__(self, descriptor: int, path: str, counts: Counts) -> None:
        self.descriptor, self.path, self.counts = descriptor, path, counts
        self.size = os.fstat(descriptor).st_size
        self.buffer = b""
        self.read = 0

    def records(self) -> Iterator[Record]:
        """The session's own data first, then its messages, then what stands behind them."""
        start = self._find(self._LIST, 0, 4 * _BLOCK)
        if start < 0:
            yield from self._whole()
            return
        yield from self._decode(self.buffer[:start].rstrip().rstrip(b",") + b"}")
        self._drop(start + len(self._LIST))
        while (end := self._find(self._CLOSE, 0, MAX_LINE)) >= 0:
            begin = self.buffer.find(self._OPEN, 0, end)
            if begin < 0:
                break
            yield from self._decode(self.buffer[begin : end + len(self._CLOSE)])
            self._drop(end + len(self._CLOSE))
        self._find(b"\0", 0, 4 * _BLOCK)  # the rest of the file
        rest = self.buffer.lstrip(b" \t\r\n")
        if not rest.startswith(b"]"):
            self._damage("cut off")
        elif rest[1:].strip(b" \t\r\n,}"):
            after = rest[1:].lstrip(b" \t\r\n,")
            for record in self._decode(b'{"sessionId":"",' + after):
                yield Record(sessionId="", summary=record.summary)

    def _find(self, sign: bytes, begin: int, limit: int) -> int:
        """Where a sign comes next, reading on as far as needed; -1 where it does not."""
        while True:
            found = self.buffer.find(sign, begin)
            if found >= 0 or self.read >= self.size or len(self.buffer) > limit:
                return found
            begin = max(0, len(self.buffer) - len(sign))
            block = os.pread(self.descriptor, max(_BLOCK, len(self.buffer)), self.read)
            if not block:
                return -1
            self.read += len(block)
            self.buffer += block

    def _drop(self, length: int) -> None:
        self.buffer = self.buffer[length:]

    def _whole(self) -> Iterator[Record]:
        """A document that is formatted in some other way: all at once, if it is not too big for that."""
        if self.size > MAX_LINE:
            self._damage("document too long")
            return
        yield from self._decode(os.pread(self.descriptor, self.size, 0))

    def _decode(self, data: bytes) -> Iterator[Record]:
        try:
            yield record_decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._damage("unexpected shape")

    def _damage(self, kind: str) -> None:
        note(self.counts.damaged, kind)
        place(self.counts, self.path, self.read)
