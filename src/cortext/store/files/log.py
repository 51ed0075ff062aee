"""Writing a journal: one file, opened under the session's lock, that only ever grows at its end."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from cortext.errors import InvalidMessage
from cortext.io import files as fsio
from cortext.io.jsonl import MAX_LINE
from cortext.model import clock, ids, tokens
from cortext.model.message import Message, plain
from cortext.store.files import quarantine
from cortext.store.files.lines import BadLine, check_role, decode_line, salvage
from cortext.store.files.seek import line_start, tail

# Makes the line of a message: layouts differ in the keys that come first.
EncodeLine = Callable[[Message], bytes]


class Position:
    """Where a log ended when we last saw it: enough to append again without reading anything.

    `end` is its last good end. The file is longer (see `stamp`) only where a rollback failed.
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
        known: Position | None = None,
    ) -> None:
        self.path = path
        self._encode_line = encode_line
        self._first_seq = first_seq
        self._next, self._last_id, self._found = 0, "", False
        self._file = fsio.AppendFile(path)
        try:
            if known is not None and known.stamp == self._file.stamp():
                if known.end != self._file.end:
                    self._file.cut(known.end)  # what an append that was refused could not take back
                self._next, self._last_id, self._found = known.next_seq, known.last_id, True
            else:
                self._find_end()
        except BaseException:
            self._file.close()
            raise

    @property
    def position(self) -> Position | None:
        """What to give to the next OpenLog of this file; None where we do not know ourselves."""
        return Position(self._file.stamp(), self._file.end, self._next, self._last_id) if self._found else None

    @property
    def next_seq(self) -> int:
        return self._next

    def append(self, messages: Sequence[Message]) -> list[Message]:
        """Number the messages, write their lines at once, flush. All are there, or none.

        A message whose id is that of the last one stored is there already (a caller that could not know
        tries again): it is not written twice.
        """
        if not self._found or not self._file.current():
            self._freshen()
        try:
            return self._append(messages)
        except fsio.Replaced:
            self._freshen()
            return self._append(messages)

    def _append(self, messages: Sequence[Message]) -> list[Message]:
        stored: list[Message] = []
        lines: list[bytes] = []
        seq, last_id = self._next, self._last_id
        for message in messages:
            if message.id and message.id == last_id:
                there = stored[-1] if stored else tail(self.path, 1, self._first_seq())[0]
                if is_repeat(message, there) and not stored:
                    stored.append(there)
                continue
            whole = complete(message, seq)
            lines.append(self._encode_line(whole))
            stored.append(whole)
            seq, last_id = seq + 1, whole.id
        if lines:
            self._file.append(lines[0] if len(lines) == 1 else b"".join(lines))
            self._next, self._last_id = seq, last_id
        return stored

    def append_raw(self, lines: Sequence[bytes]) -> None:
        """Append records that are no messages (they have no number)."""
        self._freshen()
        try:
            self._file.append(b"".join(lines))
        except fsio.Replaced:
            self._freshen()
            self._file.append(b"".join(lines))

    def close(self) -> None:
        self._file.close()

    def _freshen(self) -> None:
        """Look again where the file ends, if it is not the one we left: git or an editor was at work."""
        self._file.heal()
        if self._found and self._file.current():
            return
        self._found = False
        fresh = fsio.AppendFile(self.path)
        self._file.close()
        self._file = fresh
        self._find_end()

    def _find_end(self) -> None:
        """Set a torn last line aside, and find the number of the last message."""
        # Who made the file, or put it in place of another, may have died before its name was flushed.
        fsio.sync_folder(os.path.dirname(self.path))
        end = self._file.end
        self._next, self._last_id = self._first_seq(), ""
        if end and os.pread(self._file.descriptor, 1, end - 1) != b"\n":
            self._mend_end()
        last = tail(self.path, 1, self._next) if end else []
        if last:
            self._next, self._last_id = last[0].seq + 1, last[0].id
        self._found = True

    def _mend_end(self) -> None:
        """The file does not end with a newline: end a whole line, quarantine a torn one."""
        start = line_start(self._file.descriptor, self._file.end)
        length = self._file.end - start
        if length <= MAX_LINE:
            raw = os.pread(self._file.descriptor, length, start)
            try:
                decode_line(raw)
                whole = True
            except BadLine:
                whole = bool(salvage(raw)[0])  # messages and something else: told as damage until it is repaired
            if whole:
                self._file.append(b"\n")
                return
        quarantine.keep(self.path, self._file.descriptor, [(start, length, "an incomplete last line")])
        self._file.cut(start)


def is_repeat(message: Message, last: Message) -> bool:
    """Whether this is the message that was stored last, tried once more; its id must not name another."""
    if not message.id or message.id != last.id:
        return False
    if (message.role, message.content) != (last.role, last.content):
        raise InvalidMessage(
            f"another message has the id {ascii(message.id)[:60]}",
            kept="that one; nothing was written",
            hint="leave the id out, and a new one is given",
        )
    return True


def complete(message: Message, seq: int) -> Message:
    """The message as it is stored: an id, a number, a UTC time and a size in tokens, if it lacks them."""
    if not message.content and not message.parts:
        raise InvalidMessage("a message without any content", hint="an empty reply is not stored")
    timestamp = clock.normalise(message.timestamp) if message.timestamp else clock.now()
    if not timestamp:
        raise InvalidMessage(f"not a time: {ascii(message.timestamp)[:60]}", hint="ISO-8601, as 2026-01-31T09:30:00Z")
    check_role(message.role)
    size = tokens.counted(message.tokens)
    if size is None:
        size = tokens.estimate(message.content or message.text)
    message_id = message.id or ids.new_message_id()
    if type(message) is not Message:
        message = plain(message)  # without the fields that only a line in a file has
    return replace(message, timestamp=timestamp, tokens=size, id=message_id, seq=seq)
