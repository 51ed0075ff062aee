"""Several workers do the background work on sessions of a server: the server finds what is due, and it is done once."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from cortext.model.message import ASSISTANT, USER, Message
from cortext.model.session import Change, Session
from cortext.server.store import PostgresStore
from cortext.services.library.backfill import EMBEDDING
from tests.agents.alfred.conftest import Desk
from tests.agents.alfred.kit import SUMMARY_REQUEST, Parrot, alfred, environment
from tests.support.model_reply import Reply, Turn
from tests.support.postgres import shared

HOUR = 3600.0


class PairedSummaries(Parrot):
    """Holds back summaries until two are requested at the same time, which proves that two workers run."""

    def __init__(self) -> None:
        super().__init__()
        self._asked = 0
        self._both_asked = threading.Event()

    def _next_reply(self, conversation: tuple[Turn, ...]) -> Reply:
        reply = super()._next_reply(conversation)
        if SUMMARY_REQUEST not in conversation[-1].text:
            return reply
        self._asked += 1
        if self._asked == 2:
            self._both_asked.set()
        return Reply(text=reply.text, hold=self._both_asked, hold_at=1)


def _fill(store: PostgresStore, session_id: str, count: int = 4) -> None:
    store.create(Session(id=session_id, type="chat"))
    for number in range(count):
        store.append(session_id, Message(role=(USER, ASSISTANT)[number % 2], content=f"words {number} of {session_id}"))


@pytest.mark.req("CHAT-08", "STORE-14")
def test_concurrent_workers_make_each_summary_and_vector_once(home: Path) -> None:
    address = shared().database()
    store = PostgresStore(address, "chat")
    names = [f"sess_{number}" for number in range(8)]
    for name in names:
        _fill(store, name)
    with PairedSummaries() as model:
        env = {**environment(home, model), "CORTEXT_STORE": address, "CORTEXT_SESSION_IDLE_MINUTES": "0"}
        command = [sys.executable, "-m", "cortext.agents.alfred.main", "worker", "--once"]
        workers = [
            subprocess.Popen(command, env=env, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            for _ in range(2)
        ]
        outputs = [worker.communicate(timeout=60)[0].decode() for worker in workers]
        assert [worker.returncode for worker in workers] == [0, 0], outputs
        assert all("summarised" in output for output in outputs), outputs
        covered = Counter(name for prompt in model.summaries() for name in names if f"of {name}\n" in prompt)
        assert covered == Counter(names)
        assert alfred(env, "worker", "--once").out == ""
        assert len(model.summaries()) == len(names)
    for name in names:
        assert store.peek(name).summary_covers == 4
        assert store.summary_embedding(name) is not None
        vectors = [record["message_id"] for record in store.annotations(name) if record["type"] == EMBEDDING]
        assert sorted(map(str, vectors)) == sorted(message.id for message in store.read(name))
    assert store.chores().due("embed") == store.chores().due("summarise") == []
    store.close()


@pytest.mark.req("CHAT-08", "STORE-14")
def test_another_worker_makes_the_summary_of_a_dead_one(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = shared().database()
    with Parrot() as model:
        for name, value in {**environment(home, model), "CORTEXT_STORE": address}.items():
            monkeypatch.setenv(name, value)
        store = PostgresStore(address, "chat")
        _fill(store, "sess_1")
        dead = store.claims().claim("summarise", "sess_1", 60)
        assert dead is not None
        worker = Desk(home).worker()
        later = time.time() + HOUR
        for _ in range(3):
            assert worker.run(later).summarised == []
        assert [row[0] for row in store.chores().due("summarise")] == ["sess_1"], "the session must stay due"
        assert store.claims().renew(dead, 0.0)  # the claim expires
        assert worker.run(later).summarised == ["sess_1"]
        assert worker.run(later).summarised == []
        assert len(model.summaries()) == 1
        assert store.chores().due("summarise") == []
        store.close()


@pytest.mark.req("STORE-14")
def test_due_work_follows_the_log() -> None:
    address = shared().database()
    store = PostgresStore(address, "chat")
    chores = store.chores()
    _fill(store, "sess_1", 2)
    store.create(Session(id="sess_2", type="chat"))
    PostgresStore(address, "home").create(Session(id="other"))
    PostgresStore(address, "home").append("other", Message(role=USER, content="not the assistant's"))
    [(name, end, _)] = chores.due("embed")
    assert (name, end) == ("sess_1", 2)
    store.append("sess_1", Message(role=USER, content="meanwhile"))
    chores.settled("embed", "sess_1", end)
    assert [row[1] for row in chores.due("embed")] == [3], "messages appended meanwhile are due"
    chores.settled("embed", "sess_1", 3)
    chores.settled("embed", "sess_1", 2)  # a late worker must not move the mark back
    assert chores.due("embed") == []
    assert [row[0] for row in chores.due("summarise")] == ["sess_1"]
    store.update("sess_1", Change(summary="a summary", summary_covers=3, summary_by="text"))
    assert [row[0] for row in chores.due("embed")] == ["sess_1"], "a summary without a vector is due"
    assert store.embed_summary("sess_1", "a summary", {"model": "m"})
    assert chores.due("embed") == []
    store.update("sess_1", Change(title="a title"))
    assert chores.due("embed") == []
    store.delete("sess_1")
    assert chores.due("summarise") == []
    store.close()
