"""What a store on a server supports beyond the base protocol: its state, listing and search there, shares, claims.

A claim is on work that exactly one of many workers should do: it expires, and carries a fencing number. A worker
claims a task (a chat with waiting updates, a session that needs a summary), does it, and marks it finished. If the
worker dies, the claim expires and another worker takes over. Finished work is not handed out again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import msgspec

from cortext.model.message import Message
from cortext.model.session import Session
from cortext.store.assistant import Chats, Facts, SharedUpdates
from cortext.store.base import Store

COMPARED = ("type", "status", "tool", "agent", "after", "before")  # the filters of sessions that a server compares
COMPARED_IN_MESSAGES = ("role", "after", "before")  # and those of messages


class Claim(NamedTuple):
    """A claimed task; valid as long as the stored fencing number still equals `fence`."""

    key: str
    topic: str
    fence: int


class Claims(Protocol):
    """Which worker does which task, across processes and hosts."""

    def claim(self, topic: str, key: str, seconds: float, *, version: int = 0) -> Claim | None:
        """Claim a task for `seconds`; None if another worker holds it or it is finished up to this version (if > 0)."""

    def finished(self, topic: str, keys: Sequence[str]) -> dict[str, int]:
        """Return up to which version each of these tasks is finished; those that are not known are left out."""

    def renew(self, claim: Claim, seconds: float) -> bool:
        """Extend the claim by `seconds` from now; False if it was lost."""

    def finish(self, claim: Claim, *, version: int = 0) -> bool:
        """Release the claim and record up to which version the task is finished; False if the claim was lost."""


class ServerState(msgspec.Struct, kw_only=True):
    """The current state of a server."""

    address: str
    version: str
    schema: int
    # Whether the server can search by meaning; otherwise the local index does.
    vectors: bool
    round_trip_ms: float
    clock_ahead_s: float
    sessions: int
    messages: int
    bytes: int
    encrypted: bool
    # Whether a pooler is in between; then statements are not prepared, and the role's own settings apply.
    pooled: bool
    # Whether Citus spreads the tables over several nodes.
    distributed: bool
    # Whom the sessions belong to that this process sees.
    owner: str
    # Whether row-level security hides the rows of others: "on", "off", or "bypassed" if it does not bind this role.
    policies: str
    # Tables without policies, although others have them.
    unprotected: list[str]
    # Whether somebody else has sessions on this server, as far as this role can see.
    is_shared: bool

    def concerns(self) -> list[tuple[str, str]]:
        """Return what weakens the separation of the people on this server, each with what to do."""
        found = []
        if self.policies == "off" and self.is_shared:
            what = "others use this server, and no policies are installed: with SQL, everybody can read everything"
            install = "cortext store policies --apply, as the owner of the tables"
            instead = "use PostgreSQL without Citus, which cannot have them"
            found.append((what, instead if self.distributed else install))
        if self.unprotected:
            names = ", ".join(self.unprotected)
            found.append((f"tables without policies: {names}", "cortext store migrate, as the owner of the tables"))
        return found


class ServerHit(NamedTuple):
    """A matching message with its session and a score between 0 and 1."""

    session: Session
    message: Message
    score: float


class Share(NamedTuple):
    """A session that its owner shares with a person or a group."""

    session_id: str
    owner: str
    grantee: str
    can_write: bool
    shared_at: str
    title: str


class AuditEntry(NamedTuple):
    """What somebody did with a share or through one."""

    at: str
    actor: str
    action: str
    grantee: str
    detail: str
    deleted_at: str  # when the session was moved to the trash; empty if it is not there


class Shares(Protocol):
    """The shares of one owner's sessions."""

    def share(self, session_id: str, grantee: str, *, write: bool = False) -> Share:
        """Share a session with a person or a group; again to change whether they may write. NotFound."""

    def unshare(self, session_id: str, grantee: str = "") -> list[str]:
        """End a share, or all shares of the session; return with whom it is no longer shared."""

    def given(self) -> list[Share]:
        """Return what this owner shares, newest first."""

    def received(self) -> list[Share]:
        """Return what others share with this owner, newest first."""

    def audit(self, session_id: str) -> list[AuditEntry]:
        """Return what was done with the shares of sessions with this id and through them, oldest first.

        There may be several: those in the trash count too.
        """


@runtime_checkable
class SharesSessions(Protocol):
    """A store whose sessions can be shared."""

    def shares(self) -> Shares:
        """Return the shares."""


@runtime_checkable
class ReadsShared(Protocol):
    """A store of the sessions that others share with this owner."""

    def can_write(self, session_id: str) -> bool:
        """Whether the share allows to continue the session itself."""

    def forked(self, session_id: str, copy: str) -> None:
        """Record that a copy was made."""


class Chores(Protocol):
    """The outstanding background work on the sessions of a store."""

    def due(self, chore: str) -> list[tuple[str, int, str]]:
        """Return the id, the end of the log and the last activity of the sessions that have waited longest."""

    def settled(self, chore: str, session_id: str, end: int) -> None:
        """Record that nothing is left to do up to this end of the log."""


@runtime_checkable
class ServerQueries(Protocol):
    """A store on a server."""

    shared: bool  # whether its sessions belong to others, who share them

    def server(self) -> ServerState:
        """Return the current state of the server."""

    def listed(
        self, where: Sequence[tuple[str, str]] = (), *, limit: int = 0, order: str = "last_active"
    ) -> list[Session]:
        """Return the sessions that match all (name, value) filters, newest first, or by title from A to Z.

        The filters: COMPARED, where after and before are about the last activity; named (a piece of its id, title, type
        or summary), other_tool (from any tool but this).
        """

    def find(self, text: str, limit: int = 20, where: Sequence[tuple[str, str]] = ()) -> list[ServerHit]:
        """Return the messages that contain these words, best first; no text is invalid as a query.

        `where` are (name, value) filters: COMPARED_IN_MESSAGES of the message, the others of COMPARED of its session.
        """

    def around(self, places: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Message]:
        """Return messages and their neighbours, by the session's id and the message's number."""

    def has_vectors(self) -> bool:
        """Whether the server itself can search by meaning."""

    def find_similar(
        self, vector: Sequence[float], model: str, limit: int = 20, where: Sequence[tuple[str, str]] = ()
    ) -> list[ServerHit]:
        """Return the messages with the nearest vectors of this model, nearest first; empty without vectors."""

    def claims(self) -> Claims:
        """Return the claims of workers on tasks."""

    def miscounted(self, since: str = "") -> Iterator[str]:
        """Yield the ids of sessions whose counts differ from their rows, because rows were changed by hand.

        With a timestamp, only sessions that were active in its hour or later are counted.
        """


class ServerStore(Store, ServerQueries, SharesSessions, Protocol):
    """What an entry point of `cortext.stores` opens: a store on a server, with what the assistant keeps there."""

    def chats(self) -> Chats:
        """Return which session is active in which chat."""

    def facts(self) -> Facts:
        """Return the assistant's facts."""

    def updates(self, bot: int) -> SharedUpdates:
        """Return the updates that a messenger sent to a bot."""

    def chores(self) -> Chores:
        """Return the outstanding background work."""
