"""Append to a journal: one file, opened under the session's lock, that only grows at its end.

What is unreadable at its end is kept beside it before it is cut off. `<log>.quarantine` is JSON Lines: {"found_at",
"file", "offset", "length", "reason", "sha256", "base64"}. A long range takes several lines. Nothing is written twice,
so an interrupted repair can simply be run again.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from cortext.errors import InvalidMessage
from cortext.io import durable
from cortext.io.jsonl import MAX_LINE, blocks, split_lines
from cortext.model import clock, ids, tokens
from cortext.model.message import Message, plain
from cortext.store.files.journal import line_start, tail
from cortext.store.files.lines import BadLine, check_role, decode_line, decode_value, encode, salvage

CHUNK = 1 << 20

# Returns the line of a message: layouts differ in the first keys.
EncodeLine = Callable[[Message], bytes]


def quarantine_path(log: str) -> str:
    """Return the path of a log's quarantine file."""
    return f"{log}.quarantine"


def keep_in_quarantine(log: str, descriptor: int, ranges: Iterable[tuple[int, int, str]], name: str = "") -> int:
    """Copy ranges (offset, length, reason) of an open file into the log's quarantine; return the number of bytes.

    The open file is the log itself, or the file `name` beside it. The copy is durable when this returns.
    """
    target = quarantine_path(log)
    known = _known(target)
    total = 0
    for offset, length, reason in ranges:
        for start in range(offset, offset + length, CHUNK):
            data = os.pread(descriptor, min(CHUNK, offset + length - start), start)
            digest = hashlib.sha256(data).hexdigest()
            total += len(data)
            if (start, digest) in known:
                continue
            record = {
                "found_at": clock.now(),
                "file": name or os.path.basename(log),
                "offset": start,
                "length": len(data),
                "reason": reason,
                "sha256": digest,
                "base64": base64.b64encode(data).decode("ascii"),
            }
            durable.append_once(target, encode(record) + b"\n")
    return total


def _known(target: str) -> set[tuple[int, str]]:
    """Return the offset and hash of everything in the quarantine. A torn line there is ignored."""
    known: set[tuple[int, str]] = set()
    try:
        descriptor = durable.open_file(target, os.O_RDONLY)
    except FileNotFoundError:
        return known
    try:
        for _, block, _ in blocks(descriptor, 0, os.fstat(descriptor).st_size):
            for line in split_lines(block or b""):
                try:
                    record = decode_value(line)
                    known.add((record["offset"], record["sha256"]))
                except (BadLine, KeyError, TypeError):
                    continue
    finally:
        os.close(descriptor)
    return known


class LogEnd:
    """Where a log ended when we last wrote it: enough to append again without reading the file.

    `end` is the end of the last complete append. The file is longer (see `stamp`) only if a rollback failed.
    """

    __slots__ = ("end", "last_id", "next_seq", "stamp")

    def __init__(self, stamp: tuple[int, int, int], end: int, next_seq: int, last_id: str) -> None:
        self.stamp, self.end, self.next_seq, self.last_id = stamp, end, next_seq, last_id


class OpenLog:
    """A log held open for appending. The caller holds the lock."""

    def __init__(
        self,
        path: str,
        encode_line: EncodeLine,
        *,
        first_seq: Callable[[], int] = lambda: 0,
        known: LogEnd | None = None,
    ) -> None:
        self.path = path
        self._encode_line = encode_line
        self._first_seq = first_seq
        self._next_seq, self._last_id, self._end_known = 0, "", False
        self._file = durable.AppendFile(path)
        try:
            if known is not None and known.stamp == self._file.stamp():
                if known.end != self._file.end:
                    self._file.cut(known.end)  # remove what a failed append could not roll back
                self._next_seq, self._last_id, self._end_known = known.next_seq, known.last_id, True
            else:
                self._find_end()
        except BaseException:
            self._file.close()
            raise

    @property
    def position(self) -> LogEnd | None:
        """What to pass to the next OpenLog of this file; None if the end is not known."""
        return LogEnd(self._file.stamp(), self._file.end, self._next_seq, self._last_id) if self._end_known else None

    @property
    def next_seq(self) -> int:
        return self._next_seq

    def append(self, messages: Sequence[Message]) -> list[Message]:
        """Number the messages, write their lines at once and flush: either all are stored or none.

        A message with the id of the last stored one is a retry by a caller that did not learn of its success: it is
        not written again.
        """
        if not self._end_known or not self._file.current():
            self._refresh()
        try:
            return self._append(messages)
        except durable.Replaced:
            self._refresh()
            return self._append(messages)

    def _append(self, messages: Sequence[Message]) -> list[Message]:
        stored: list[Message] = []
        lines: list[bytes] = []
        seq, last_id = self._next_seq, self._last_id
        for message in messages:
            if message.id and message.id == last_id:
                last = stored[-1] if stored else tail(self.path, 1, self._first_seq())[0]
                if is_repeat(message, last) and not stored:
                    stored.append(last)
                continue
            completed = complete(message, seq)
            lines.append(self._encode_line(completed))
            stored.append(completed)
            seq, last_id = seq + 1, completed.id
        if lines:
            self._file.append(lines[0] if len(lines) == 1 else b"".join(lines))
            self._next_seq, self._last_id = seq, last_id
        return stored

    def append_raw(self, lines: Sequence[bytes]) -> None:
        """Append records that are not messages: they have no sequence number."""
        self._refresh()
        try:
            self._file.append(b"".join(lines))
        except durable.Replaced:
            self._refresh()
            self._file.append(b"".join(lines))

    def close(self) -> None:
        self._file.close()

    def _refresh(self) -> None:
        """Find the end again if the file has changed since we wrote it: git or an editor may have replaced it."""
        self._file.heal()
        if self._end_known and self._file.current():
            return
        self._end_known = False
        reopened = durable.AppendFile(self.path)
        self._file.close()
        self._file = reopened
        self._find_end()

    def _find_end(self) -> None:
        """Quarantine a torn last line, and find the sequence number of the last message."""
        # The process that created or replaced the file may have crashed before it flushed the folder.
        durable.sync_folder(os.path.dirname(self.path))
        end = self._file.end
        self._next_seq, self._last_id = self._first_seq(), ""
        if end and os.pread(self._file.descriptor, 1, end - 1) != b"\n":
            self._repair_end()
        last = tail(self.path, 1, self._next_seq) if end else []
        if last:
            self._next_seq, self._last_id = last[0].seq + 1, last[0].id
        self._end_known = True

    def _repair_end(self) -> None:
        """Add the missing newline to a complete last line; quarantine an incomplete one."""
        start = line_start(self._file.descriptor, self._file.end)
        length = self._file.end - start
        if length <= MAX_LINE:
            raw = os.pread(self._file.descriptor, length, start)
            try:
                decode_line(raw)
                has_record = True
            except BadLine:
                has_record = bool(salvage(raw)[0])  # with something else: reported as damage until it is repaired
            if has_record:
                self._file.append(b"\n")
                return
        keep_in_quarantine(self.path, self._file.descriptor, [(start, length, "an incomplete last line")])
        self._file.cut(start)


def is_repeat(message: Message, last: Message) -> bool:
    """Whether this message is a retry of the last one stored; InvalidMessage if another message has its id."""
    if not message.id or message.id != last.id:
        return False
    if (message.role, message.content) != (last.role, last.content):
        raise InvalidMessage(
            f"another message has the id {ascii(message.id)[:60]}",
            kept="the other message; nothing was written",
            hint="leave out the id to get a new one",
        )
    return True


def complete(message: Message, seq: int) -> Message:
    """Return the message as it is stored: with an id, a sequence number, a UTC timestamp and a token count."""
    if not message.content and not message.parts:
        raise InvalidMessage("the message has no content", hint="add text or a part; an empty reply is not stored")
    timestamp = clock.normalise(message.timestamp) if message.timestamp else clock.now()
    if not timestamp:
        raise InvalidMessage(
            f"invalid timestamp {ascii(message.timestamp)[:60]}", hint="use ISO 8601, as in 2026-01-31T09:30:00Z"
        )
    check_role(message.role)
    size = tokens.counted(message.tokens)
    if size is None:
        size = tokens.estimate(message.content or message.text)
    message_id = message.id or ids.new_message_id()
    if type(message) is not Message:
        message = plain(message)  # without the fields that only a stored line has
    return replace(message, timestamp=timestamp, tokens=size, id=message_id, seq=seq)
