"""A server that is stopped, slow, behind a pooler, or does not permit something: commands end and say what happened."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from cortext.errors import ConfigError, CortextError, StoreUnreachable, WriteFailed
from cortext.model.message import Message
from cortext.model.session import Change, Session
from cortext.server import admin as administration
from cortext.server import connection, driver
from cortext.server.connection import Limits
from cortext.server.store import PostgresStore
from tests.support.cli import cortext
from tests.support.debian import NotToBeHad
from tests.support.pgbouncer import PgBouncer
from tests.support.postgres import PASSWORD, Postgres, as_role, new_space, shared
from tests.support.waiting import wait_until


@pytest.fixture(params=["this Debian's", "with prepared statements"])
def pooler(request: pytest.FixtureRequest) -> Iterator[PgBouncer]:
    try:
        made = PgBouncer(shared(), supporting=request.param == "with prepared statements")
    except NotToBeHad as error:
        pytest.skip(str(error))
    with made:
        yield made


@pytest.mark.req("TEAM-04")
@pytest.mark.parametrize("supporting", [False, True])
def test_one_of_the_two_poolers_supports_prepared_statements(supporting: bool) -> None:
    """Two clients that share one session of the server both prepare a statement; the driver names both the same."""
    try:
        pooler = PgBouncer(shared(), size=1, supporting=supporting)
    except NotToBeHad as error:
        pytest.skip(str(error))
    with pooler:
        connected = [psycopg.connect(pooler.url, autocommit=True, prepare_threshold=0) for _ in range(2)]
        if not supporting and not pooler.version.startswith("1.18."):
            pytest.skip(f"another Debian, with PgBouncer {pooler.version}")
        assert connected[0].execute("SELECT 1 + %s", (1,)).fetchone() == (2,)
        if supporting:
            assert connected[1].execute("SELECT 2 + %s", (1,)).fetchone() == (3,)
        else:
            with pytest.raises(psycopg.errors.DuplicatePreparedStatement):
                connected[1].execute("SELECT 2 + %s", (1,))
        for each in connected:
            each.close()


@pytest.mark.req("TEAM-04")
def test_eight_workers_behind_a_pooler_lose_and_repeat_nothing(pooler: PgBouncer) -> None:
    """Debian 12's PgBouncer has no prepared statements in transaction mode; newer ones have, and get none either."""
    store = PostgresStore(pooler.url, new_space())
    store.create(Session(id="talk"))
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            mine = PostgresStore(pooler.url, store.space)
            for index in range(12):  # the driver prepares a statement that it has seen five times
                mine.append("talk", Message(role="user", content=f"{number} {index}"))
                mine.tail("talk", 2)
                assert mine.claims().claim("t", f"{store.space}-{number}-{index}", 5.0) is not None
            mine.update("talk", Change(title=f"by {number}"))
            mine.close()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    stored = [message.content for message in store.read("talk")]
    assert sorted(stored) == sorted(f"{number} {index}" for number in range(8) for index in range(12))
    assert store.server().pooled
    assert not PostgresStore(shared().url, store.space).server().pooled
    store.close()


@pytest.mark.req("TEAM-04")
def test_the_settings_of_a_session_do_not_leak_through_a_pooler(pooler: PgBouncer) -> None:
    store = PostgresStore(pooler.url, new_space(), lease=3.0)
    store.create(Session(id="talk"))
    with psycopg.connect(pooler.url, prepare_threshold=None) as other:
        row = other.execute("SELECT current_setting('idle_in_transaction_session_timeout')").fetchone()
    assert row == ("0",)
    store.close()


@pytest.mark.req("TEAM-04")
def test_a_pooler_is_mentioned_by_the_status(pooler: PgBouncer) -> None:
    done = cortext("store", "status", env={"CORTEXT_STORE": pooler.url})
    assert done.code == 0 and "a pooler is in between: statements are not prepared" in done.out, done


@pytest.mark.req("TEAM-04")
@pytest.mark.req("TEAM-03")
def test_tables_are_not_changed_through_a_pooler(pooler: PgBouncer) -> None:
    with pytest.raises(ConfigError, match="a pooler between") as caught:
        administration.migrate(pooler.url, report=lambda step: None)
    assert "name the server itself" in caught.value.hint
    with pytest.raises(ConfigError, match="a pooler between"):
        administration.run(pooler.url, [["SELECT 1"]])


def test_a_statement_prepared_in_another_session_is_sent_again_unprepared() -> None:
    """A pooler that passes the process id on is noticed by its first error."""
    store = PostgresStore(shared().url, new_space())
    store.create(Session(id="talk"))
    calls = 0

    def work(used: driver.Connection) -> int | None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise psycopg.errors.InvalidSqlStatementName('prepared statement "_pg3_0" does not exist')
        return used.prepare_threshold

    assert store.connections.run(work) is None and calls == 2 and store.connections.pooled
    store.close()


@pytest.mark.req("TEAM-04")
def test_an_append_to_a_stopped_server_ends_in_time_and_may_be_repeated() -> None:
    server = Postgres()
    try:
        patient = PostgresStore(server.url, "home")
        patient.create(Session(id="talk"))
        store = PostgresStore(server.url, "home", limits=Limits(patience=0.5, connect=2.0, statement=1.0))
        assert store.get("talk").id == "talk"
        message = Message(role="user", content="kept once", id="m1")
        processes = server.processes()
        for process in processes:
            os.kill(process, signal.SIGSTOP)
        begin = time.monotonic()
        try:
            with pytest.raises(StoreUnreachable) as caught:
                store.append("talk", message)
        finally:
            for process in processes:
                os.kill(process, signal.SIGCONT)
        assert time.monotonic() - begin < 30
        assert "unknown whether" in caught.value.kept and "nothing is stored twice" in caught.value.hint
        patient.append("talk", message)
        assert [each.content for each in patient.read("talk")] == ["kept once"]
        for each in (patient, store):
            each.close()
    finally:
        server.stop()


@pytest.mark.req("TEAM-04")
def test_a_slow_statement_is_stopped_by_the_server_and_says_so() -> None:
    store = PostgresStore(shared().url, new_space(), limits=Limits(statement=1.0))
    with pytest.raises(StoreUnreachable, match="took too long") as caught:
        store.connections.query("SELECT pg_sleep(30)")
    assert "store.statement_seconds" in caught.value.hint
    store.close()


@pytest.mark.req("TEAM-04")
def test_a_search_that_breaks_its_connection_is_tried_twice_only() -> None:
    store = PostgresStore(shared().url, new_space())
    calls = 0

    def crash(used: driver.Connection) -> None:
        nonlocal calls
        calls += 1
        used.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    with pytest.raises(StoreUnreachable):
        store.connections.run(crash, breaks=2)
    assert calls == 2
    store.close()


def test_a_collection_in_a_thread_of_the_pool_closes_it_without_waiting_for_itself() -> None:
    store = PostgresStore(shared().url, new_space())
    assert store.listed() == []
    pools = store.connections._pools
    [pool] = pools.values()
    thread = threading.Thread(target=connection._close, args=(pools,), name=f"{pool.name}-worker-0")
    thread.start()
    thread.join(10)
    wait_until(lambda: pool.closed, 20, "the pool is closed")


@pytest.mark.req("TEAM-04")
def test_unused_connections_are_closed() -> None:
    server = shared()
    store = PostgresStore(server.database(), "home", limits=Limits(idle=0.3))
    store.create(Session(id="talk"))
    name = store.connections.name.rpartition("/")[2]
    count = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND application_name = 'cortext'"
    assert server.sql(count, name) == [(1,)]
    wait_until(lambda: server.sql(count, name) == [(0,)], 20, "no connection is open")
    assert store.get("talk").id == "talk", "a new connection is opened when it is needed"
    store.close()


@pytest.mark.req("TEAM-04")
@pytest.mark.parametrize(
    "table", ["sessions", "messages", "notes", "claims", "chats", "updates", "facts", "shares", "audit"]
)
def test_a_missing_grant_is_named_as_the_statement_that_repairs_it(table: str) -> None:
    server = shared()
    url = server.database()
    PostgresStore(url, "home").create(Session(id="talk"))
    role = f"r{new_space()}"
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'".encode())
    administration.run(url, [[grant for grant in administration.grants(url, role) if f"cortext.{table} " not in grant]])
    store = PostgresStore(as_role(url, role), "home")
    with pytest.raises(ConfigError, match=f"permission denied for table {table}") as caught:
        use(store)
    grant = caught.value.hint.partition(": ")[2]
    assert grant == f'GRANT {driver.GRANTS[table]} ON cortext.{table} TO "{role}"'
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(grant.encode())
    use(store)
    store.close()


def use(store: PostgresStore) -> None:
    """Touch every table once."""
    name = new_space()
    store.create(Session(id=name))
    store.append(name, Message(role="user", content="hello"))
    store.annotate(name, {"type": "comment", "message_id": "m", "text": "hello"})
    store.claims().claim("t", name, 1.0)
    store.chats().activate("cli", name)
    store.updates(7).take([(1, name, {"text": "hello"})])
    assert store.facts().all() == []
    store.shares().share(name, "pg_monitor")


@pytest.mark.req("TEAM-04")
@pytest.mark.parametrize(
    "text",
    [
        "FATAL: unexpected postmaster exit",
        "SSL SYSCALL error: EOF detected",
        "connection to the remote node cortext@10.0.0.2:5432 failed with the following error: Connection refused",
        "could not commit transaction for shard 102010 on at least one active node",
        "failed to COPY to shard 102015 on 10.0.0.2:5432",
    ],
)
def test_a_lost_node_of_the_server_means_an_unknown_outcome(text: str) -> None:
    error = psycopg.errors.InternalError_(text)
    assert driver.connection_lost(error)
    ours = driver.as_error(error, "db")
    assert isinstance(ours, StoreUnreachable) and "unknown whether this change was made" in ours.kept


def test_an_internal_error_does_not_claim_that_nothing_was_changed() -> None:
    ours: CortextError = driver.as_error(psycopg.errors.InternalError_("cache lookup failed"), "db")
    assert isinstance(ours, WriteFailed) and ours.kept == "it is unknown whether this change was made"
    ours = driver.as_error(psycopg.errors.UndefinedColumn("column x"), "db")
    assert ours.kept == "nothing was changed"


def test_no_claim_uses_the_clock_inside_a_conflict_clause() -> None:
    """Citus refuses it, and with it every claim."""
    source = Path(driver.__file__).parent
    for path in source.glob("*.py"):
        for part in path.read_text(encoding="utf-8").split("DO UPDATE")[1:]:
            assert "now()" not in part.partition('"""')[0], path.name
