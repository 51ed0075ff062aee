"""The store protocol, on one page. Every backend keeps it and passes tests/store/conformance.

A session is an append-only log of messages plus small metadata. `append` returns when the messages are
durable. One writer at a time: `open` takes the session's lock and gives a Writer. Reading never blocks.
What only some backends can do is in `capabilities`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec

from cortext.model.message import Message
from cortext.model.session import Change, Session

UNREADABLE = "unreadable"  # bytes that are no record
TORN = "torn"  # an incomplete last line
DOUBLED = "doubled"  # a message that is there already
NUMBER = "number"  # a whole message with a count or a number that cannot be one
DISORDER = "out of order"  # a whole message whose number does not go up
METADATA = "metadata"  # the metadata cannot be read, and was put together from the log
GIT_MARKS = "a git merge left its marks in it"  # the reason of a damage


class Damage(msgspec.Struct, frozen=True):
    """Something wrong in a file: where, how much, and what."""

    file: str
    offset: int
    length: int
    kind: str
    reason: str


class Reading(Protocol):
    """Messages in order, as they come off the disk. `damage` is complete when the iteration is."""

    @property
    def damage(self) -> list[Damage]: ...

    def __iter__(self) -> Iterator[Message]: ...


class RepairReport(msgspec.Struct, kw_only=True):
    """What a repair did (or, dry, would do)."""

    session: str
    damage: list[Damage]
    kept_messages: int
    quarantined_bytes: int
    quarantine: str
    changed: bool
    dry_run: bool


class Trashed(msgspec.Struct, kw_only=True):
    """A deleted session that can still come back. `key` names it to `restore`."""

    key: str
    session_id: str
    deleted_at: str
    origin: str


class Writer(Protocol):
    """A session held open by one writer: its lock is ours until the `with` ends."""

    def append(self, *messages: Message) -> list[Message]:
        """Store the messages after the last one, all or none, durably; ids, numbers, times filled in."""

    def session(self) -> Session:
        """The metadata as it stands; counts are not filled in, so it costs the same however long the log is."""

    def update(self, change: Change) -> Session:
        """Change status or metadata, atomically."""


class Store(Protocol):
    """What every backend does, and all that the floors above may ask of it."""

    name: str

    def create(self, session: Session) -> Session:
        """A new session, durable; SessionExists where the id is taken."""

    def get(self, session_id: str) -> Session:
        """The metadata, with counts as the log has them; SessionNotFound."""

    def peek(self, session_id: str) -> Session:
        """The metadata alone, without counts: it costs the same however long the log is."""

    def sessions(self) -> Iterator[Session]:
        """Every session, in no order; damaged ones too (`damage` > 0)."""

    def read(self, session_id: str, start: int = 0) -> Reading:
        """The messages from sequence `start` on, streaming."""

    def tail(self, session_id: str, count: int) -> list[Message]:
        """The last `count` messages, read from the end."""

    def open(self, session_id: str, timeout: float | None = None) -> AbstractContextManager[Writer]:
        """Take the session's lock, or SessionBusy after `timeout` seconds."""

    def append(self, session_id: str, *messages: Message) -> list[Message]:
        """`open`, append, let go."""

    def update(self, session_id: str, change: Change) -> Session:
        """`open`, update, let go."""

    def delete(self, session_id: str) -> Trashed:
        """Move the session to the trash."""

    def trash(self) -> Iterator[Trashed]:
        """What the trash holds."""

    def restore(self, key: str) -> Session:
        """Bring a trashed session back under its old id; SessionExists where that is taken again."""

    def check(self, session_id: str) -> list[Damage]:
        """Everything wrong with one session's files."""

    def repair(self, session_id: str, *, dry_run: bool = False) -> RepairReport:
        """Keep what is whole, put the rest into quarantine beside the log, and say so."""

    def close(self) -> None:
        """Close the connections to a server; a store of files has none."""
