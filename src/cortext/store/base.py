"""The store protocol, on one page. Every backend implements it and passes tests/store/conformance.

A session is an append-only log of messages plus small metadata. `append` returns when the messages are
durable. One writer at a time: `open` takes the session's lock and returns a Writer. Reading never blocks.
What only some backends support is in `capabilities`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec

from cortext.model.message import Message
from cortext.model.session import Change, Session

UNREADABLE = "unreadable"  # bytes that cannot be parsed as a record
TORN = "torn"  # an incomplete last line
DOUBLED = "doubled"  # a message that the log already contains
NUMBER = "number"  # a complete message with an impossible count or number
DISORDER = "out of order"  # a complete message whose number does not increase
METADATA = "metadata"  # the metadata cannot be read, and was reconstructed from the log
POINTER = "pointer"  # the file has not been fetched: Git LFS has put a pointer in its place
GIT_MARKS = "it contains git conflict markers"  # the reason of a damage


class Damage(msgspec.Struct, frozen=True):
    """A damaged stretch of a file: its position and size, the kind of damage, and the reason."""

    file: str
    offset: int
    length: int
    kind: str
    reason: str


class Reading(Protocol):
    """Messages in order, streamed from the store. `damage` is complete once the iteration has ended."""

    @property
    def damage(self) -> list[Damage]: ...

    def __iter__(self) -> Iterator[Message]: ...


class RepairReport(msgspec.Struct, kw_only=True):
    """What a repair did, or would do in a dry run."""

    session: str
    damage: list[Damage]
    kept_messages: int
    quarantined_bytes: int
    quarantine: str
    changed: bool
    dry_run: bool


class Trashed(msgspec.Struct, kw_only=True):
    """A deleted session that can still be restored; pass `key` to `restore`."""

    key: str
    session_id: str
    deleted_at: str
    origin: str


class Writer(Protocol):
    """A session opened for writing; its lock is held until the `with` block ends."""

    def append(self, *messages: Message) -> list[Message]:
        """Append the messages durably, all or none; return them with ids, numbers and times filled in."""

    def session(self) -> Session:
        """Return the current metadata without counts; the cost does not depend on the length of the log."""

    def update(self, change: Change) -> Session:
        """Change status or metadata atomically; return the result."""


class Store(Protocol):
    """What every backend supports, and all that the layers above may rely on."""

    name: str

    def create(self, session: Session) -> Session:
        """Create a session durably; SessionExists if the id is taken."""

    def get(self, session_id: str) -> Session:
        """Return the metadata, with counts taken from the log; SessionNotFound."""

    def peek(self, session_id: str) -> Session:
        """Return the metadata without counts; the cost does not depend on the length of the log."""

    def sessions(self) -> Iterator[Session]:
        """Yield every session in no particular order, including damaged ones (`damage` > 0)."""

    def read(self, session_id: str, start: int = 0) -> Reading:
        """Return a stream of the messages from number `start` on."""

    def tail(self, session_id: str, count: int) -> list[Message]:
        """Return the last `count` messages, read from the end of the log."""

    def open(self, session_id: str, timeout: float | None = None) -> AbstractContextManager[Writer]:
        """Take the session's lock and return a Writer; SessionBusy after `timeout` seconds."""

    def append(self, session_id: str, *messages: Message) -> list[Message]:
        """Take the lock, append, and release it."""

    def update(self, session_id: str, change: Change) -> Session:
        """Take the lock, update, and release it."""

    def delete(self, session_id: str) -> Trashed:
        """Move the session to the trash."""

    def trash(self) -> Iterator[Trashed]:
        """Yield the sessions in the trash."""

    def restore(self, key: str) -> Session:
        """Restore a session from the trash under its old id; SessionExists if the id has been taken since."""

    def check(self, session_id: str) -> list[Damage]:
        """Return all damage of one session."""

    def repair(self, session_id: str, *, dry_run: bool = False) -> RepairReport:
        """Keep intact messages, move the rest into quarantine beside the log, and report it."""

    def close(self) -> None:
        """Close connections to a server, if the store has any."""
