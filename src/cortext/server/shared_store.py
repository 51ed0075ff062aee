"""The sessions that others shared with this owner, as a store: readable, and writable where the share says so.

What is done through a share is in the audit: each write, in the same transaction, and that somebody read a session,
once an hour for each process. A list, which shows titles and summaries, is not noted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from cortext.config.schema import StoreSettings
from cortext.errors import NotShared
from cortext.model import clock
from cortext.model.message import Message
from cortext.model.session import Change, Session
from cortext.server.connection import Limits
from cortext.server.log import ServerReading
from cortext.server.rows import hour_of
from cortext.server.scope import Own, Shared, note
from cortext.server.store import HeldSession, PostgresStore, Transform
from cortext.store.base import RepairReport, Trashed
from cortext.store.server_capabilities import ServerHit

SPACE = "shared"


def open_store(address: str, kind: str, settings: StoreSettings, lock_timeout: float) -> PostgresStore:
    """Return the store of one kind on a server: the entry point of this room."""
    options: dict[str, Any] = {
        "lock_timeout": lock_timeout,
        "lease": settings.lease_seconds,
        "limits": Limits(
            patience=settings.patience_seconds,
            connect=settings.connect_seconds,
            statement=settings.statement_seconds,
            idle=settings.idle_seconds,
        ),
        "owner": settings.owner,
    }
    return SharedStore(address, **options) if kind == SPACE else PostgresStore(address, kind, **options)


class SharedStore(PostgresStore):
    """Sessions of others: see server_capabilities.ReadsShared."""

    shared = True

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(url, SPACE, **options)
        self._seen: set[tuple[str, str]] = set()  # sessions whose reading is in the audit, and in which hour

    def _scope(self) -> Own:
        return Shared(self.connections)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────

    def read(self, session_id: str, start: int = 0) -> ServerReading:
        self._saw(session_id)
        return super().read(session_id, start)

    def working(self, session_id: str) -> ServerReading:
        self._saw(session_id)
        return super().working(session_id)

    def tail(self, session_id: str, count: int) -> list[Message]:
        self._saw(session_id)
        return super().tail(session_id, count)

    def annotations(self, session_id: str) -> Iterator[dict[str, object]]:
        self._saw(session_id)
        return super().annotations(session_id)

    def find(self, text: str, limit: int = 20, where: Sequence[tuple[str, str]] = ()) -> list[ServerHit]:
        return self._seen_in(super().find(text, limit, where))

    def find_similar(
        self, vector: Sequence[float], model: str, limit: int = 20, where: Sequence[tuple[str, str]] = ()
    ) -> list[ServerHit]:
        return self._seen_in(super().find_similar(vector, model, limit, where))

    def miscounted(self, since: str = "") -> Iterator[str]:
        return iter(())  # their owner's doctor reports them

    def trash(self) -> Iterator[Trashed]:
        return iter(())

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────

    def can_write(self, session_id: str) -> bool:
        assert isinstance(self.scope, Shared)
        return self.scope.can_write(session_id)

    def forked(self, session_id: str, copy: str) -> None:
        self._note(session_id, "fork", copy)

    def open(self, session_id: str, timeout: float | None = None) -> HeldSession:
        self._check_write(session_id)
        return super().open(session_id, timeout)

    def append(self, session_id: str, *messages: Message) -> list[Message]:
        self._check_write(session_id)
        return super().append(session_id, *messages)

    def update(self, session_id: str, change: Change) -> Session:
        self._check_write(session_id)
        return super().update(session_id, change)

    def compact(self, session_id: str, before: int) -> int:
        self._check_write(session_id)
        return super().compact(session_id, before)

    def annotate(self, session_id: str, *records: dict[str, object]) -> None:
        self._check_write(session_id)
        super().annotate(session_id, *records)

    # ── what only the owner may do ───────────────────────────────────────────────────────────────────

    def create(self, session: Session) -> Session:
        raise NotShared("sessions of others cannot be created", kept="nothing was changed")

    def delete(self, session_id: str) -> Trashed:
        self._refuse(session_id, "deleted")

    def restore(self, key: str) -> Session:
        self._refuse(key, "restored")

    def repair(self, session_id: str, *, dry_run: bool = False) -> RepairReport:
        self._refuse(session_id, "repaired")

    def rewrite(self, session_id: str, transform: Transform) -> int:
        self._refuse(session_id, "rewritten")

    def embed_summary(self, session_id: str, summary: str, embedding: dict[str, object]) -> bool:
        return False

    # ── helpers ──────────────────────────────────────────────────────────────────────────────────────

    def _refuse(self, session_id: str, what: str) -> NoReturn:
        raise NotShared(
            f"{session_id} belongs to somebody else, and can only be {what} by its owner", kept="nothing was changed"
        )

    def _check_write(self, session_id: str) -> None:
        self._life(session_id)  # SessionNotFound
        self.scope.check_write(session_id)

    def _seen_in(self, hits: list[ServerHit]) -> list[ServerHit]:
        for session_id in dict.fromkeys(hit.session.id for hit in hits):
            self._saw(session_id)
        return hits

    def _saw(self, session_id: str) -> None:
        seen = (session_id, hour_of(clock.now()))
        if seen not in self._seen:
            self._note(session_id, "read")
            self._seen = {each for each in self._seen if each[1] == seen[1]} | {seen}

    def _note(self, session_id: str, action: str, detail: str = "") -> None:
        self.connections.run(lambda connection: note(connection, self.scope, session_id, action, "", detail))
