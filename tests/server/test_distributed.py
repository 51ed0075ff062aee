"""Tables that Citus spreads over several nodes, and a node that is away.

Run with `CORTEXT_TEST_URL=postgresql://…`, the coordinator of a cluster: see docs/scale.md.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from cortext.errors import ConfigError, StoreUnreachable
from cortext.model.message import Message
from cortext.model.session import Session
from cortext.server import admin, driver
from cortext.server import schema as postgres_schema
from cortext.server.connection import Limits
from cortext.server.store import PostgresStore
from tests.server.nodes import node_of, through_proxies
from tests.server.proxy import Proxy
from tests.support.cli import cortext
from tests.support.postgres import needs_citus, shared

TYPES = "SELECT relname::text, partmethod::text FROM pg_dist_partition JOIN pg_class ON oid = logicalrelid"


def ask(url: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(query.encode()).fetchall()


def tables_of(url: str) -> dict[str, str]:
    """Return how each table is distributed: by a hash (h), or a copy on each node (n)."""
    return dict(ask(url, TYPES))


@pytest.mark.req("TEAM-05")
def test_every_table_has_a_place_on_the_nodes_of_citus() -> None:
    assert set(postgres_schema.SPREAD) == set(driver.GRANTS)


@pytest.mark.req("TEAM-05")
def test_the_tables_of_an_empty_database_are_distributed_when_they_are_created() -> None:
    needs_citus()
    url = shared().database()
    store = PostgresStore(url)
    store.create(Session(id="talk"))
    expected = {name: "h" if column else "n" for name, column in postgres_schema.SPREAD.items()}
    if not store.has_vectors():
        del expected["vectors"]
    assert tables_of(url) == expected
    state = store.server()
    assert state.distributed and state.bytes > 0
    assert not store.connections.can_write_two_tables, "Citus would commit such a statement in two phases"
    done = cortext("store", "status", env={"CORTEXT_STORE": url})
    assert done.code == 0 and " with Citus, tables of version" in done.out, done
    store.close()


@pytest.mark.req("TEAM-05")
def test_tables_that_are_there_are_distributed_by_the_administrator() -> None:
    needs_citus()
    name = f"d{secrets.token_hex(6)}"
    shared().sql(f"CREATE DATABASE {name}")
    url = urlsplit(shared().url)._replace(path=f"/{name}").geturl()
    store = PostgresStore(url)
    for number in range(10):
        store.create(Session(id=f"talk-{number}"))
        store.append(f"talk-{number}", Message(role="user", content=f"walnut {number}"))
    assert not store.server().distributed
    shared().add_nodes(url)
    assert tables_of(url) == {} and not store.server().distributed, "nothing is moved without a command"
    assert admin.pending(url, finish=False)[0].statement.startswith("SELECT create_distributed_table")
    admin.migrate(url, report=lambda step: None)
    assert tables_of(url)["sessions"] == "h" and admin.pending(url, finish=False) == []
    again = PostgresStore(url)
    assert sorted(hit.session.id for hit in again.find("walnut")) == [f"talk-{number}" for number in range(10)]
    assert list(again.miscounted()) == []
    for each in (store, again):
        each.close()


@pytest.mark.req("TEAM-01")
def test_policies_are_refused_where_citus_cannot_have_them() -> None:
    needs_citus()
    url = shared().database()
    PostgresStore(url).create(Session(id="talk"))
    with pytest.raises(ConfigError, match="Citus, which has no policies with subqueries") as caught:
        admin.policies(url)
    assert "filters by the owner" in caught.value.kept
    assert admin.policies(url, remove=True) != []


@pytest.fixture
def behind() -> Iterator[tuple[str, dict[int, Proxy]]]:
    """A database whose nodes are reached through proxies: its address, and the proxy of each node by its port."""
    needs_citus()
    url = shared().database()
    proxies = through_proxies(url)
    yield url, proxies
    for proxy in proxies.values():
        proxy.close()


@pytest.mark.req("TEAM-04")
def test_without_one_node_the_sessions_of_the_others_go_on(behind: tuple[str, dict[int, Proxy]]) -> None:
    url, proxies = behind
    store = PostgresStore(url, limits=Limits(patience=0.5))
    sessions = [f"talk-{number}" for number in range(20)]
    for name in sessions:
        store.create(Session(id=name))
        store.append(name, Message(role="user", content=f"walnut of {name}"))
    ports = {name: node_of(url, name) for name in sessions}
    away = ports[sessions[0]]
    here = next(name for name in sessions if ports[name] != away)
    proxies[away].close()
    later = Message(role="user", content="later", id="later")
    assert store.append(here, later)[0].seq == 1
    assert [message.content for message in store.read(here)] == [f"walnut of {here}", "later"]
    for use in (lambda: store.append(sessions[0], later), store.listed, lambda: store.find("walnut")):
        with pytest.raises(StoreUnreachable) as caught:
            use()
        assert "it is unknown whether" in caught.value.kept
    environment = {"CORTEXT_STORE": url, "CORTEXT_STORE_PATIENCE_SECONDS": "0.5"}
    for words in (("list",), ("search", "walnut")):
        done = cortext(*words, env=environment)
        assert done.code == 9 and "Sessions are missing: no answer from" in done.err + done.out, done
    shown = cortext("show", here, env=environment)
    assert shown.code == 0 and f"walnut of {here}" in shown.out, shown
    lost = cortext("show", sessions[0], env=environment)
    assert lost.code == 9 and "no answer from" in lost.err, lost
    store.close()
