"""What we wrote into a tool's session, for tools that do not keep fields of ours in their records.

Such a session is captured again exactly as it was written because a file in cortext's data folder lists its messages:
how each is read, and the message of the conversation that it was made from. Where a tool's records can hold `Mark`, use
that instead, because it is copied together with the session.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from cortext.errors import CortextError
from cortext.io import durable
from cortext.model.message import Message
from cortext.model.turns import essence, standalone
from cortext.tools.shared.verify import encode

_LARGEST = 1 << 30


class _Line(msgspec.Struct, omit_defaults=True):
    digest: str  # of the message as the tool's session is read
    message: Message | None = None  # None: we added it, the conversation has no such message


def list_path(home: str, environ: Mapping[str, str], tool: str, key: str) -> str:
    """Return the path of the list for one session of a tool. The key must be a valid file name."""
    data = environ.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
    return os.path.join(data, "cortext", "written", tool, f"{key}.jsonl")


def save_list(path: str, as_read: Sequence[Message], made_from: Sequence[Message | None]) -> None:
    """Save which message each message of a new session was made from. Both sequences have the same length."""
    durable.ensure_folder(os.path.dirname(path))
    lines = (
        _Line(_digest(read), standalone(original) if original is not None else None)
        for read, original in zip(as_read, made_from, strict=True)
    )
    durable.replace_file(path, (msgspec.json.encode(line) + b"\n" for line in lines))


class Restored:
    """The messages of a session as they were before we wrote it, then those that were added since.

    The listed messages are the beginning of the session: the first one that differs ends the comparison, so that what
    the user says later is new even if it repeats earlier words. A reading with a cursor passes the `position` at which
    the previous reading ended.
    """

    def __init__(self, messages: Iterable[Message], path: str, position: int = 0) -> None:
        self._messages = messages
        self._lines = _load(path)[position:]
        self.position = position

    @classmethod
    def of(cls, messages: Iterable[Message], pairs: Iterable[tuple[Message, Message | None]]) -> Restored:
        """Return the same for a session whose beginning is known: each message as read, and what it was made from."""
        restored = cls(messages, "")
        restored._lines = [_Line(_digest(read), original) for read, original in pairs]
        return restored

    def __iter__(self) -> Iterator[Message]:
        ids: dict[str, str] = {}  # of the messages as read, to the original ones
        remaining = iter(self._lines)
        expected = next(remaining, None)
        for message in self._messages:
            if message.parent in ids:
                message.parent = ids[message.parent]
            if expected is None or expected.digest != _digest(message):
                expected = None
                yield message
                continue
            self.position += 1
            if expected.message is not None:
                ids[message.id] = expected.message.id
                yield expected.message
            expected = next(remaining, None)


def _load(path: str) -> list[_Line]:
    """Return the list; what cannot be read ends it, and the messages after that count as new."""
    try:
        data = durable.read_file(path, _LARGEST)
    except (OSError, CortextError):  # not a session that we wrote
        return []
    lines = []
    for line in data.splitlines():
        try:
            lines.append(msgspec.json.decode(line, type=_Line))
        except msgspec.MsgspecError:
            break
    return lines


def _digest(message: Message) -> str:
    return hashlib.blake2b(encode(essence(message)), digest_size=16).hexdigest()
