"""What a store on a server can do beyond the protocol: tell about the server, list and find with its help."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import msgspec

from cortext.model.message import Message
from cortext.model.session import Session


class ServerState(msgspec.Struct, kw_only=True):
    """A server as it answers now."""

    address: str
    version: str
    schema: int
    # Whether the server can search by meaning; if not, that is done with the local index.
    vectors: bool
    round_trip_ms: float
    clock_ahead_s: float
    sessions: int
    messages: int
    bytes: int
    encrypted: bool


class Hit(NamedTuple):
    """A message that was found, with its session and a score between 0 and 1."""

    session: Session
    message: Message
    score: float


class Served(Protocol):
    """A store on a server."""

    def server(self) -> ServerState:
        """How the server is."""

    def listed(
        self, where: Sequence[tuple[str, str]] = (), *, limit: int = 0, order: str = "last_active"
    ) -> list[Session]:
        """Sessions with these properties, the newest first."""

    def find(self, text: str, limit: int = 20) -> list[Hit]:
        """Messages with these words, the best first; any text is a question, none an error."""

    def has_vectors(self) -> bool:
        """Whether the server itself can search by meaning."""

    def find_alike(self, vector: Sequence[float], model: str, limit: int = 20) -> list[Hit]:
        """Messages whose vector of this model is near, the nearest first; none where the server has no vectors."""

    def miscounted(self) -> Iterator[str]:
        """Ids of sessions whose counts are not those of their rows: somebody changed rows by hand."""
