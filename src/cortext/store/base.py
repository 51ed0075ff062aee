"""The store protocol, on one page. Every backend keeps it and passes tests/store/conformance.

A session is an append-only log of messages plus small metadata. `append` returns when the messages are
durable. One writer at a time: `open` takes the session's lock and gives a Writer. Reading never blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

import msgspec

from cortext.errors import CortextError
from cortext.io.batch import Later
from cortext.model.message import Message, Outline
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


class Compacts(Protocol):
    """A store whose older messages can leave the working file for an archive beside it."""

    def compact(self, session_id: str, before: int) -> int:
        """Move the messages with a sequence below `before`; how many moved. `read` still gives all."""


class Outlines(Protocol):
    """A store that can tell of its messages without reading their words: what a list and a packet need of most."""

    def outline(self, session_id: str) -> Iterator[Outline]:
        """Every message in order, as `read` gives them, without content and parts."""


class Skims(Protocol):
    """A store that can give its messages without holding a huge one in memory."""

    def skim(self, session_id: str) -> Iterator[Message]:
        """Every message in order, as `read` gives them; of a text of many megabytes only the beginning."""


class Draft(Protocol):
    """A session that is being built aside: nobody sees it yet."""

    session_id: str
    copy: str  # where the tool's own form of it goes
    later: Later  # what is written there is flushed with the rest

    def write(self, batches: Iterable[Sequence[Message]]) -> None:
        """All its messages, in order."""

    def finish(self, session: Session, change: Change) -> None:
        """Its metadata: the session as it began, and what changed until its end. Counts are those of the messages."""


class Published(msgspec.Struct):
    """What became of drafts: now sessions; somebody else's already; or why they are not."""

    made: list[str]
    taken: list[str]
    failed: dict[str, CortextError]


class Bulk(Protocol):
    """Many new sessions at a time: each is built aside, flushed meanwhile, and put in its place with the others."""

    def begin(self, session_id: str) -> Draft:
        """A new draft; SessionExists where the id is taken."""

    def drop(self, draft: Draft) -> None:
        """Away with a draft that is not to be a session."""

    def ready(self, draft: Draft) -> None:
        """All of a draft is written: it may be flushed from now on."""

    def publish(self, done: Callable[[Sequence[str]], None]) -> Published:
        """Make every draft that is ready a session, durably; `done` is called with their ids while they are locked."""

    def close(self) -> None:
        """Away with what was not published."""


class Bulks(Protocol):
    """A store that takes in many new sessions at a time for the price of a few."""

    def bulk(self) -> Bulk:
        """A place to build them in; close it."""


@runtime_checkable
class CreatesWhole(Protocol):
    """A store that makes a session with its first messages in one step: whole, or not at all."""

    def create_whole(self, session: Session, messages: Sequence[Message], change: Change) -> Session:
        """As `create`, `append` and `update`; a kill between them leaves nothing."""


@runtime_checkable
class Settles(Protocol):
    """A store whose metadata holds counts that an append does not touch."""

    def settle(self, session_id: str) -> None:
        """Write what the log says (counts, last activity) into the metadata; nothing where that says it already."""


class Rewrites(Protocol):
    """A store whose lines can be changed in place, for the one reason that there is: a secret must go."""

    def rewrite(self, session_id: str, transform: Callable[[dict[str, Any]], dict[str, Any]]) -> int:
        """Put every record through `transform`, atomically; how many changed."""


class Annotates(Protocol):
    """A store that keeps a record about a message (an embedding) as a line of its own."""

    def annotate(self, session_id: str, *records: dict[str, object]) -> None:
        """Append records that are no messages; each has a `type` and a `message_id`."""

    def annotations(self, session_id: str) -> Iterator[dict[str, object]]:
        """All of them, in the order they were written; those about archived messages come first."""
