"""What only some backends can do, as protocols: a caller asks with `isinstance(store, Compacts)`.

A store that lacks one of them still works; the callers have another way, or leave the thing out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

from cortext.errors import CortextError
from cortext.io.batch import Later
from cortext.model.message import Message, Outline
from cortext.model.session import Change, Session
from cortext.store.base import Reading


@runtime_checkable
class Compacts(Protocol):
    """A store whose older messages can leave the working file for an archive beside it."""

    def compact(self, session_id: str, before: int) -> int:
        """Move the messages with a sequence below `before`; how many moved. `read` still gives all."""


@runtime_checkable
class Outlines(Protocol):
    """A store that can give its messages without their text: all that a list, and most of a packet, needs."""

    def outline(self, session_id: str) -> Iterator[Outline]:
        """Every message in order, as `read` gives them, without content and parts."""


@runtime_checkable
class Skims(Protocol):
    """A store that can give its messages without holding a huge one in memory."""

    def skim(self, session_id: str) -> Iterator[Message]:
        """Every message in order, as `read` gives them; of a text of many megabytes only the beginning."""


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


@runtime_checkable
class Rewrites(Protocol):
    """A store whose records can be changed in place, for one reason only: to remove a secret."""

    def rewrite(self, session_id: str, transform: Callable[[dict[str, Any]], dict[str, Any]]) -> int:
        """Put every record through `transform`, atomically; how many changed."""


@runtime_checkable
class Annotates(Protocol):
    """A store that keeps a record about a message (an embedding) as a line of its own."""

    def annotate(self, session_id: str, *records: dict[str, object]) -> None:
        """Append records that are no messages; each has a `type` and a `message_id`."""

    def annotations(self, session_id: str) -> Iterator[dict[str, object]]:
        """All of them, in the order they were written; those about archived messages come first."""


@runtime_checkable
class KeepsWorking(Protocol):
    """A store that knows which messages are not archived: those that a model is shown."""

    def working(self, session_id: str) -> Reading:
        """The messages of the working file, in order."""


@runtime_checkable
class EmbedsSummaries(Protocol):
    """A store that keeps the embedding of a summary with it."""

    def embed_summary(self, session_id: str, summary: str, embedding: dict[str, object]) -> bool:
        """Keep the embedding of this text; whether it still is the summary of the session."""

    def summary_embedding(self, session_id: str) -> dict[str, object] | None:
        """The embedding that belongs to the summary as it is now."""


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


@runtime_checkable
class Bulks(Protocol):
    """A store that takes in many new sessions at a time for the price of a few."""

    def bulk(self) -> Bulk:
        """A bulk import; the caller closes it."""
