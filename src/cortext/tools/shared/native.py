"""Native sessions that we write: verified by reading them back, and captured again exactly as they were written. And
the images inside a transcript, which are found by the references that its adapter made: `KEY#RECORD/NUMBER`.

`Mark` is a field of ours in the tool's records. For tools that do not keep such fields, a file in cortext's data folder
lists the messages of a session: how each is read, and the message of the conversation that it was made from. Where
records can hold `Mark`, use that instead, because it is copied together with the session.
"""

from __future__ import annotations

import binascii
import hashlib
import json
import os
import uuid
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any, NamedTuple, Self, TypeVar

import msgspec

from cortext.errors import CortextError, DamagedData
from cortext.io import durable
from cortext.model.message import Message
from cortext.model.turns import essence, standalone
from cortext.tools.base import Counts, Transcript
from cortext.tools.shared.lines import ForeignLines

T = TypeVar("T")


class Mark(msgspec.Struct, omit_defaults=True, gc=False):
    """Which message a native record was made from, and what the tool's format cannot represent.

    `added` says that the record represents no message of the conversation. `was` is the original message, if the record
    lost something; `role` and `timestamp` are the original ones, if they had to change. Adapters add their own fields.
    """

    id: str = ""
    role: str = ""
    timestamp: str = ""
    model: str = ""
    tokens: int | None = None
    usage: dict[str, Any] | None = None
    was: Any = None
    added: bool | str = False  # "yes" in sessions of Claude Code that earlier versions wrote

    def original(self) -> Message | None:
        """Return the original message; None if it is not stored. Raise msgspec.ValidationError if it was edited."""
        return msgspec.convert(self.was, Message) if self.was is not None else None

    @classmethod
    def made_from(cls, message: Message | None, literal: Message) -> Self:
        """Return the mark of a record, which without the mark would be read as `literal`."""
        if message is None:
            return cls(added=True)
        return cls(
            id=message.id,
            model=message.model,
            timestamp=message.timestamp if message.timestamp != literal.timestamp else "",
            tokens=message.tokens,
            usage=message.usage,
            was=msgspec.to_builtins(message) if essence(literal) != essence(message) else None,
        )

    def restored(self, literal: Message, damaged: dict[str, int]) -> Message:
        """Return the message that a record was made from, as far as the mark is intact; count it if it was edited."""
        try:
            message = self.original() or literal
        except msgspec.ValidationError:
            damaged["unexpected shape"] = damaged.get("unexpected shape", 0) + 1
            message = literal
        message.id = self.id or message.id
        message.model, message.tokens, message.usage = self.model, self.tokens, self.usage
        message.timestamp = self.timestamp or literal.timestamp
        return message


class RunMark(Mark, omit_defaults=True, gc=False):
    """The mark of a record that may stand for several messages, such as a run of messages of the assistant.

    `messages` are the originals then, and also if one message became several records, of which all but the first are
    `added`.
    """

    messages: list[Any] | None = None

    @classmethod
    def made_from_all(cls, messages: Sequence[Message]) -> Self:
        """Return the mark of a record that was made from these messages, which it cannot tell apart."""
        if not messages:
            return cls(added=True)
        return cls(messages=[msgspec.to_builtins(standalone(message)) for message in messages])

    def all_restored(self, literal: Message, damaged: dict[str, int]) -> list[Message]:
        """Return the messages that a record was made from."""
        if self.messages is None:
            return [self.restored(literal, damaged)]
        return msgspec.convert(self.messages, list[Message])


def record_id(names: uuid.UUID, source: Message | None, number: int, parent: str | None, used: set[str]) -> str:
    """Return an id for the record of a message, always the same for the same message, that is not used before."""
    name = source.id if source and source.id else f"{parent} {number}"
    identity = str(uuid.uuid5(names, name.encode("utf-8", "replace").decode("utf-8")))
    if identity in used:
        identity = str(uuid.uuid5(names, f"{identity} {number}"))
    used.add(identity)
    return identity


# ── the list, for tools that keep no field of ours ─────────────────────────────────────────────────


_LARGEST = 1 << 30


class _KeptLine(msgspec.Struct, omit_defaults=True):
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
        _KeptLine(_digest(read), standalone(original) if original is not None else None)
        for read, original in zip(as_read, made_from, strict=True)
    )
    durable.replace_file(path, (msgspec.json.encode(line) + b"\n" for line in lines))


class OwnMessages:
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
    def of(cls, messages: Iterable[Message], pairs: Iterable[tuple[Message, Message | None]]) -> OwnMessages:
        """Return the same for a session whose beginning is known: each message as read, and what it was made from."""
        restored = cls(messages, "")
        restored._lines = [_KeptLine(_digest(read), original) for read, original in pairs]
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


def _load(path: str) -> list[_KeptLine]:
    """Return the list; what cannot be read ends it, and the messages after that count as new."""
    try:
        data = durable.read_file(path, _LARGEST)
    except (OSError, CortextError):  # not a session that we wrote
        return []
    lines = []
    for line in data.splitlines():
        try:
            lines.append(msgspec.json.decode(line, type=_KeptLine))
        except msgspec.MsgspecError:
            break
    return lines


def _digest(message: Message) -> str:
    return hashlib.blake2b(encode(essence(message)), digest_size=16).hexdigest()


# ── verification ───────────────────────────────────────────────────────────────────────────────────


def same_message(want: Message, got: Message) -> bool:
    """Whether a message was read back with its id (if it had one), its text and its tool calls, on the main thread."""
    has_same_id = not want.id or want.id == got.id
    return has_same_id and not got.parent and not got.aside and encode(essence(want)) == encode(essence(got))


def verify(title: str, expected: Sequence[T], found: Iterable[T], counts: Counts, same: Callable[[T, T], bool]) -> None:
    """Raise DamagedData if what was read back is not what was written."""
    for number, (want, got) in enumerate(zip_longest(expected, found), 1):
        if want is None or got is None or not same(want, got):
            raise unfaithful(title, f"message {number} of {len(expected)} is different")
    if counts.damaged or counts.unknown:
        raise unfaithful(title, f"some records cannot be read: {counts.damaged | counts.unknown}")


@contextmanager
def removed_unless_verified(path: str) -> Iterator[None]:
    """Remove a file or folder that was just written if the verification inside fails."""
    try:
        yield
    except BaseException:
        if os.path.isdir(path):
            durable.remove_tree(path)
        else:
            durable.remove(path)
        raise


def unfaithful(title: str, difference: str) -> DamagedData:
    """Return the error for a native session that was not read back as it was written."""
    return DamagedData(
        f"the new session for {title} could not be verified: {difference}",
        kept="the conversation is unchanged; the new session was removed again",
        hint="resume with --print instead, and report this",
    )


def encode(value: Any) -> bytes:
    """Return a value as JSON, for comparison: tuples and lists are equal, and so are NaN and null."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # a lone surrogate, which JSON can only represent as an escape
        return json.dumps(value).encode("ascii")


class Position(NamedTuple):
    """Where an image is: in which record, and what follows the record's id in the reference."""

    ref: str
    record: str
    rest: list[str]


Pick = Callable[[dict[str, Any], list[str]], str | None]  # the base64 of the image in a record


def positions(key: str, refs: AbstractSet[str]) -> list[Position]:
    """Return the references that point into the transcript with this key."""
    found = [ref.removeprefix(f"{key}#").split("/") for ref in sorted(refs) if ref.startswith(f"{key}#")]
    return [Position(f"{key}#{'/'.join(steps)}", steps[0], steps[1:]) for steps in found if steps[0] and steps[1:]]


def in_lines(transcript: Transcript, refs: AbstractSet[str], pick: Pick) -> dict[str, bytes]:
    """Return the images of a transcript of JSON Lines; only the lines of the wanted records are decoded."""
    targets = positions(transcript.key, refs)
    found: dict[str, bytes] = {}
    if not targets:
        return found
    for line in ForeignLines(transcript.path, 0, Counts()):
        for position in targets:
            if position.ref not in found and f'"{position.record}"'.encode() in line:
                for record in _objects(line):
                    if data := decoded(pick(record, position.rest) if position.record in _ids(record) else None):
                        found[position.ref] = data
    return found


def decoded(data: str | None) -> bytes:
    """Return the bytes of a base64 text, also of a `data:` URL; empty if it is not valid."""
    if not data:
        return b""
    try:
        return b64decode(data.partition("base64,")[2] if data.startswith("data:") else data, validate=True)
    except (binascii.Error, ValueError):
        return b""


def values_of(value: Any, name: str) -> Iterator[dict[str, Any]]:
    """Yield the objects at any depth that have this field, in order."""
    if isinstance(value, dict):
        if name in value:
            yield value
        for inner in value.values():
            yield from values_of(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from values_of(inner, name)


def nth(images: Iterator[str], number: str) -> str | None:
    """Return the image of this number."""
    return next((image for index, image in enumerate(images) if str(index) == number), None)


def _objects(line: bytes) -> list[dict[str, Any]]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return []
    return [value] if isinstance(value, dict) else []


def _ids(record: dict[str, Any]) -> set[Any]:
    payload = record.get("payload")
    inner = payload if isinstance(payload, dict) else {}
    return {each for each in (record.get("id"), record.get("uuid"), inner.get("id")) if isinstance(each, str)}
