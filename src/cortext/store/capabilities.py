"""Protocols for what only some backends support; callers check with `isinstance(store, Compacts)`.

A store that lacks one of them still works: callers fall back to the base protocol or skip the feature.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

from cortext.errors import CortextError
from cortext.io.new_files import Later
from cortext.model.message import Message
from cortext.model.session import Change, Session
from cortext.model.threads import Outline
from cortext.store.base import Reading, Store


@runtime_checkable
class KnowsOrigins(Protocol):
    """A store that finds the sessions of AI tools among many others."""

    def from_tools(self) -> Iterable[Session]:
        """Return the sessions that may name a transcript of a tool as their origin; none of others."""


@runtime_checkable
class Compacts(Protocol):
    """A store that can move older messages from the working file into an archive beside it."""

    def compact(self, session_id: str, before: int) -> int:
        """Archive the messages numbered below `before`; return how many moved. `read` still returns all."""


@runtime_checkable
class Outlines(Protocol):
    """A store that can read messages without their text, which is enough for a list and most of a packet."""

    def outline(self, session_id: str) -> Iterator[Outline]:
        """Yield every message in the order of `read`, without content and parts."""


def outlines_of(store: Store, session_id: str) -> Iterator[Outline]:
    """Yield the messages of a session without their text, if its store can read them so."""
    yield from store.outline(session_id) if isinstance(store, Outlines) else store.read(session_id)


@runtime_checkable
class Skims(Protocol):
    """A store that can read messages without holding a huge one in memory."""

    def skim(self, session_id: str) -> Iterator[Message]:
        """Yield every message in the order of `read`; a text of many megabytes is truncated."""


@runtime_checkable
class CreatesAtomically(Protocol):
    """A store that can create a session with its first messages atomically."""

    def create_atomically(self, session: Session, messages: Sequence[Message], change: Change) -> Session:
        """`create`, `append` and `update` in one step; a kill in between leaves nothing behind."""


@runtime_checkable
class Settles(Protocol):
    """A store whose metadata holds counts that an append does not touch."""

    def settle(self, session_id: str) -> None:
        """Write counts and last activity from the log into the metadata, if they differ."""


@runtime_checkable
class Rewrites(Protocol):
    """A store whose records can be changed in place. The only legitimate reason is to remove a secret."""

    def rewrite(self, session_id: str, transform: Callable[[dict[str, Any]], dict[str, Any]]) -> int:
        """Replace every record by `transform(record)`, atomically; return how many changed."""


@runtime_checkable
class MendsLineEnds(Protocol):
    """A store whose lines git may have given other ends."""

    def mend_line_ends(self, session_id: str, *, dry_run: bool = False) -> bool:
        """End every line of a session with a line feed alone; return whether one was not so."""


@runtime_checkable
class Annotates(Protocol):
    """A store that keeps records about messages (embeddings) beside them."""

    def annotate(self, session_id: str, *records: dict[str, object]) -> None:
        """Append records that are not messages; each has a `type` and a `message_id`."""

    def annotations(self, session_id: str) -> Iterator[dict[str, object]]:
        """Yield all such records in the order they were written; those about archived messages come first."""


@runtime_checkable
class KeepsWorking(Protocol):
    """A store that knows which messages are not archived; a model is shown only those."""

    def working(self, session_id: str) -> Reading:
        """Return a stream of the messages that are not archived."""


@runtime_checkable
class EmbedsSummaries(Protocol):
    """A store that keeps the embedding of a summary beside it."""

    def embed_summary(self, session_id: str, summary: str, embedding: dict[str, object]) -> bool:
        """Store the embedding if `summary` is still the session's summary; return whether it is."""

    def summary_embedding(self, session_id: str) -> dict[str, object] | None:
        """Return the embedding of the current summary, if there is one."""


class Draft(Protocol):
    """A session under construction, not yet visible to anyone."""

    session_id: str
    copy: str  # the path for the tool's own transcript
    later: Later  # files registered here are flushed with the rest

    def write(self, batches: Iterable[Sequence[Message]]) -> None:
        """Write all messages, in order."""

    def finish(self, session: Session, change: Change) -> None:
        """Write the metadata: the session at its start with `change` applied. Counts come from the messages."""


class Publication(msgspec.Struct):
    """The outcome for each draft: made a session, its id taken by someone else, or failed with an error."""

    made: list[str]
    taken: list[str]
    failed: dict[str, CortextError]


class Bulk(Protocol):
    """Many new sessions at a time: each is built as a draft, flushed in the background, and published in a batch."""

    def begin(self, session_id: str) -> Draft:
        """Start a new draft; SessionExists if the id is taken."""

    def drop(self, draft: Draft) -> None:
        """Discard a draft."""

    def ready(self, draft: Draft) -> None:
        """Mark a draft as completely written, so that flushing it may start."""

    def publish(self, done: Callable[[Sequence[str]], None]) -> Publication:
        """Make every ready draft a session, durably; `done` is called with their ids while they are locked."""

    def close(self) -> None:
        """Discard drafts that were not published."""


@runtime_checkable
class Bulks(Protocol):
    """A store that can create many sessions in a batch, for the cost of a few flushes."""

    def bulk(self) -> Bulk:
        """Start a bulk import; the caller closes it."""


class Left(msgspec.Struct, frozen=True):
    """A session that left the work tree, in part or as a whole; `path` is where its conversation was there.

    `messages` are those that the log in the work tree lacks; 0 if no work tree has the session.
    """

    session_id: str
    path: str
    messages: int = 0


@runtime_checkable
class KeepsCopies(Protocol):
    """A store whose files git may take away: it keeps copies of what was captured, and reads from them then."""

    def left(self) -> Iterator[Left]:
        """Yield the sessions, or ends of sessions, that are only in the copies."""

    def has_left(self, session_id: str) -> bool:
        """Whether no work tree has this session."""

    def bring_back(self, session_id: str) -> int:
        """Write what is only in the copies into the work tree again; return how many messages that were."""

    def was_deleted(self, session_id: str) -> bool:
        """Whether the user deleted a session with this id."""
