"""Servers that crash, connections that break, writers that are suspended: short versions of `long.py`."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys

import pytest

from cortext.errors import SessionBusy
from cortext.model.message import Message
from cortext.model.session import Change, Session
from cortext.server import lease as postgres_lease
from cortext.server.store import PostgresStore
from tests.server.bots import serve
from tests.server.faults import run_with_faults
from tests.server.proxy import Proxy
from tests.support.postgres import Postgres, new_space, shared


@pytest.mark.req("STORE-03", "STORE-14")
def test_a_server_killed_repeatedly_loses_and_duplicates_nothing() -> None:
    server = Postgres()
    try:

        def crash() -> None:
            server.kill()
            server.start()

        run_with_faults(server, server.url, crash, 5, pause=0.15)
    finally:
        server.stop()


@pytest.mark.req("STORE-03", "STORE-14")
def test_connections_cut_anywhere_lose_and_duplicate_nothing() -> None:
    server = shared()
    proxy = Proxy(server.port, server.host)
    chance = random.Random(25)
    try:
        run_with_faults(server, server.at(proxy.port), lambda: proxy.cut(chance), 25, pause=0.04)
        assert proxy.cuts == 25
    finally:
        proxy.close()


@pytest.mark.req("STORE-05", "STORE-14")
@pytest.mark.parametrize("between", ["another writer", "an append alone", "a change of the title", "nobody"])
def test_a_writer_suspended_past_its_lease_writes_only_if_nobody_took_over(between: str) -> None:
    store = PostgresStore(shared().url, new_space(), lock_timeout=10)
    store.create(Session(id="talk"))
    command = [sys.executable, "-m", "tests.server.suspended_writer", shared().url, store.space]
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert worker.stdin is not None and worker.stdout is not None
        assert worker.stdout.readline() == "stored 0\n"
        os.kill(worker.pid, signal.SIGSTOP)
        take_over(store, between)
        worker.stdin.write("continue\n")
        worker.stdin.flush()
        os.kill(worker.pid, signal.SIGCONT)
        answer = worker.stdout.readline()
        contents = [message.content for message in store.read("talk")]
        if between == "nobody":
            assert answer == "stored 1\n" and contents == ["before", "after"]
        else:
            assert answer.startswith("busy: session talk was taken over"), answer
            assert "after" not in contents
    finally:
        worker.kill()
        worker.wait(10)
        for pipe in (worker.stdin, worker.stdout):
            if pipe is not None:
                pipe.close()
        store.close()


def take_over(store: PostgresStore, between: str) -> None:
    """Use the session as soon as the suspended writer's lease has expired; until then, the store waits."""

    message = Message(role="user", content="meanwhile")
    if between == "another writer":
        with store.open("talk") as writer:
            writer.append(message)
    elif between == "an append alone":
        store.append("talk", message)
    elif between == "a change of the title":
        store.update("talk", Change(title="meanwhile"))
    else:
        free = "SELECT held_until < now() FROM cortext.sessions WHERE session_id = 'talk' AND space = %s"
        while shared().sql(free, store.space) != [(True,)]:
            pass


@pytest.mark.req("STORE-03", "STORE-14")
def test_killed_workers_answer_every_update_once_and_in_order() -> None:
    serve(shared(), workers=3, chats=5, messages=6, kills=2)


@pytest.mark.req("STORE-05", "STORE-14")
def test_a_renewal_after_the_release_does_not_hold_the_session() -> None:
    """The thread that renews leases may have started a renewal just before the session was released."""
    store = PostgresStore(shared().url, new_space(), lock_timeout=0.2)
    store.create(Session(id="talk"))
    with store.open("talk") as writer:
        lease = writer.lease
    store.connections.query(store.scope.sql(postgres_lease._RENEW), 10.0, *store.scope.held(lease))
    with store.open("talk") as again:
        assert again.append(Message(role="user", content="free"))[0].seq == 0
    with pytest.raises(SessionBusy, match="taken over"):
        writer.append(Message(role="user", content="too late"))
    store.close()
