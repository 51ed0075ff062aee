"""Lost answers: the connection breaks at any statement, before or after the server has executed it.

The caller then sees exactly what would have happened without the fault.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Self
from unittest import mock

import psycopg
import pytest

from cortext.model.message import Message
from cortext.model.session import Change, Session
from cortext.server.store import PostgresStore
from tests.server.messages import as_dicts, turns
from tests.support import postgres

ID = "talk"
BREAKS = range(1, 8)


class BreakAt:
    """Breaks the connection at the n-th statement; later statements run on a new connection and succeed."""

    def __init__(self, number: int, *, after: bool) -> None:
        self._number, self._after = number, after
        self._thread = threading.get_ident()
        self.calls = 0

    def _breaking(self, call: Callable[..., Any], connection_of: Callable[[Any], Any]) -> Callable[..., Any]:
        def breaking(this: Any, *arguments: Any, **options: Any) -> Any:
            if threading.get_ident() != self._thread:
                return call(this, *arguments, **options)
            self.calls += 1
            if self.calls != self._number:
                return call(this, *arguments, **options)
            if self._after:
                call(this, *arguments, **options)
            connection_of(this).close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")

        return breaking

    def __enter__(self) -> None:
        execute = self._breaking(psycopg.Connection.execute, lambda connection: connection)
        executemany = self._breaking(psycopg.Cursor.executemany, lambda cursor: cursor.connection)
        commit = self._breaking_commit(psycopg.Transaction.__exit__)
        self._patches = [
            mock.patch.object(psycopg.Connection, "execute", execute),
            mock.patch.object(psycopg.Cursor, "executemany", executemany),
            mock.patch.object(psycopg.Transaction, "__exit__", commit),
        ]
        for patch in self._patches:
            patch.start()

    def _breaking_commit(self, exit: Callable[..., Any]) -> Callable[..., Any]:
        """Count a commit as a statement too: it is the one that matters most."""

        def exiting(this: Any, *error: Any) -> Any:
            self.calls += 1
            if self.calls != self._number or error[0] is not None:
                return exit(this, *error)
            if self._after:
                exit(this, *error)
            else:
                exit(this, psycopg.OperationalError, psycopg.OperationalError("cut"), None)
            this.connection.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")

        return exiting

    def __exit__(self, *error: object) -> None:
        for patch in self._patches:
            patch.stop()


def observed(store: PostgresStore) -> dict[str, Any]:
    """Return everything observable in the store, without what differs from run to run."""
    seen: dict[str, Any] = {"trash": [item.session_id for item in store.trash()]}
    for session in store.sessions():
        messages = as_dicts(store.read(session.id))
        for message in messages:
            message.pop("timestamp", None)
        seen[session.id] = (
            messages,
            list(store.annotations(session.id)),
            (session.title, session.status, session.message_count, session.token_count, session.is_linear),
            store.check(session.id),
        )
    return seen


def numbered(count: int, start: int = 0) -> list[Message]:
    messages = turns(count, start)
    for number, message in enumerate(messages, start):
        message.id = f"id-{number}"
    return messages


def held(store: PostgresStore) -> None:
    with store.open(ID) as writer:
        writer.append(*numbered(1, 3))
        writer.update(Change(title="held"))
        writer.append(*numbered(2, 4))


def note(number: int) -> dict[str, object]:
    return {"type": "note", "message_id": "id-0", "n": number}


def restore(store: PostgresStore) -> None:
    store.restore(next(iter(store.trash())).key)


Operation = Callable[[PostgresStore], object]
OPERATIONS: dict[str, tuple[Operation, Operation]] = {
    "create": (lambda store: None, lambda store: store.create(Session(id="another", title="new"))),
    "append one": (lambda store: None, lambda store: store.append(ID, *numbered(1, 3))),
    "append many": (lambda store: None, lambda store: store.append(ID, *numbered(3, 3))),
    "append again": (lambda store: store.append(ID, *numbered(2, 3)), lambda store: store.append(ID, *numbered(3, 3))),
    "a writer": (lambda store: None, held),
    "update": (lambda store: None, lambda store: store.update(ID, Change(status="paused", title="t"))),
    "delete": (lambda store: None, lambda store: store.delete(ID)),
    "restore": (lambda store: store.delete(ID), restore),
    "compact": (lambda store: None, lambda store: store.compact(ID, 2)),
    "annotate": (
        lambda store: store.annotate(ID, note(1)),
        lambda store: store.annotate(ID, note(1), note(2)),
    ),
    "rewrite": (lambda store: None, lambda store: store.rewrite(ID, lambda record: {**record, "model": "m"})),
}


@pytest.mark.req("STORE-03", "STORE-14")
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_whose_connection_breaks_is_done_once(name: str) -> None:
    prepare, operation = OPERATIONS[name]

    def run(fault: BreakAt | None) -> dict[str, Any]:
        store = postgres.new_store(lease=0.2)
        store.create(Session(id=ID))
        store.append(ID, *numbered(3))
        prepare(store)
        if fault is None:
            operation(store)
        else:
            with fault:
                operation(store)
        seen = observed(store)
        store.close()
        return seen

    expected = run(None)
    reached = 0
    for number in BREAKS:
        for after in (False, True):
            fault = BreakAt(number, after=after)
            assert run(fault) == expected, f"{name}, broken {'after' if after else 'before'} statement {number}"
            reached += fault.calls >= number
        if fault.calls < number:
            break  # the operation has no more statements
    assert reached >= 2, "no connection was broken"


@pytest.mark.req("STORE-03")
def test_a_retry_without_an_id_stores_a_message_twice() -> None:
    """The negative control: a store that retries without looking for the id stores a duplicate."""
    store = postgres.new_store()
    store.create(Session(id=ID))
    url = postgres.shared().url
    with psycopg.connect(url) as one, psycopg.connect(url) as another:
        with BreakAt(1, after=True), pytest.raises(psycopg.OperationalError):
            one.autocommit = True
            naive(one, store.space)
        naive(another, store.space)
    assert len(list(store.read(ID))) == 2
    store.close()


def naive(connection: psycopg.Connection[Any], space: str) -> None:
    connection.execute(
        b"INSERT INTO cortext.messages (session_id, life, seq, id, role, said_at, tokens, content) "
        b"SELECT s.session_id, s.life, count(m.seq), gen_random_uuid(), 'user', '2026-01-01T00:00:00Z', 1, 'x' "
        b"FROM cortext.sessions s LEFT JOIN cortext.messages m USING (session_id, life) "
        b"WHERE s.space = %s GROUP BY 1, 2",
        (space,),
    )


class Late:
    """Remembers the statements that contain a text, to execute them once more, as a server may that was cut off."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._sent: list[tuple[bytes, Any]] = []

    def __enter__(self) -> Self:
        execute = psycopg.Connection.execute

        def remembering(this: Any, query: bytes, values: Any = None, **options: Any) -> Any:
            if self._text in query:
                self._sent.append((query, values))
            return execute(this, query, values, **options)

        self._patch = mock.patch.object(psycopg.Connection, "execute", remembering)
        self._patch.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._patch.stop()

    def execute(self) -> None:
        [(query, values)] = self._sent
        with psycopg.connect(postgres.shared().url, autocommit=True) as connection:
            assert connection.execute(query, values).rowcount == 1


@pytest.mark.req("TEAM-04")
def test_an_attempt_that_is_executed_late_does_not_end_the_lease(store: PostgresStore) -> None:
    store.create(Session(id=ID))
    with Late(b"held_since = ") as late, store.open(ID) as writer:
        late.execute()
        assert len(writer.append(*turns(2))) == 2
    store.append(ID, *turns(1))


@pytest.mark.req("TEAM-04")
def test_an_attempt_that_is_executed_late_does_not_end_the_claim(store: PostgresStore) -> None:
    claims = store.claims()
    first = claims.claim("work", store.space, 60.0)
    assert first is not None and claims.finish(first)
    with Late(b"SET fence = CASE") as late:
        claim = claims.claim("work", store.space, 60.0)
    assert claim is not None and claim.fence > first.fence
    late.execute()
    assert claims.renew(claim, 60.0) and claims.claim("work", store.space, 60.0) is None
