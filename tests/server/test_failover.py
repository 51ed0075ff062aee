"""A primary that dies under load: a synchronous replica takes over, and nothing that was acknowledged is lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.server.faults import run_with_faults
from tests.support.debian import NotToBeHad
from tests.support.pgbouncer import PgBouncer
from tests.support.postgres import PASSWORD, Postgres
from tests.support.waiting import wait_until


@pytest.fixture
def pair() -> Iterator[tuple[Postgres, Postgres]]:
    """A primary and its synchronous replica."""
    primary = Postgres()
    try:
        replica = Postgres(replica_of=primary)
    except BaseException:
        primary.stop()
        raise
    try:
        primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
        primary.sql("SELECT pg_reload_conf()")
        state = "SELECT sync_state FROM pg_stat_replication"
        wait_until(lambda: primary.sql(state) == [("sync",)], 20, primary.log)
        yield primary, replica
    finally:
        replica.stop()
        primary.stop()


@pytest.mark.req("TEAM-04", "STORE-03")
def test_a_killed_primary_loses_nothing_that_was_acknowledged_to_eight_writers(pair: tuple[Postgres, Postgres]) -> None:
    primary, replica = pair
    hosts = f"127.0.0.1:{primary.port},127.0.0.1:{replica.port}"
    url = f"postgresql://cortext:{PASSWORD}@{hosts}/postgres?target_session_attrs=read-write"

    def fail_over() -> None:
        os.kill(primary.processes()[-1], signal.SIGKILL)  # its children notice by themselves
        replica.promote()

    writers = run_with_faults(url, url, fail_over, 1, writer_count=8, pause=0.5)
    assert sum(len(writer.acknowledged) for writer in writers) > 50
    assert replica.sql("SELECT pg_is_in_recovery()") == [(False,)]


@pytest.mark.req("TEAM-04", "STORE-03")
def test_a_server_that_crashes_behind_a_pooler_loses_nothing() -> None:
    server = Postgres()
    try:
        try:
            pooler = PgBouncer(server, size=4)
        except NotToBeHad as error:
            pytest.skip(str(error))

        def crash() -> None:
            server.kill()
            server.start()

        with pooler:
            run_with_faults(server, pooler.url, crash, 1, writer_count=4, pause=0.3)
    finally:
        server.stop()
