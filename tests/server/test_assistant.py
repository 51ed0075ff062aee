"""An assistant's data on the server beside its sessions, and claims on work that one of many workers does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from cortext.errors import InvalidId, NotFound, SessionBusy, StoreUnreachable, TakenOver
from cortext.model.message import Message
from cortext.model.session import Session
from cortext.server.store import PostgresStore
from cortext.store.assistant import Fact
from cortext.store.server_capabilities import Claim, ServerHit
from tests.agents.alfred.conftest import Desk
from tests.agents.alfred.kit import Parrot, environment
from tests.support import postgres
from tests.support.cli import committed_workspace, cortext


@pytest.mark.req("STORE-14")
def test_a_fact_is_stored_once_and_can_be_forgotten(store: PostgresStore) -> None:
    facts, same_facts = store.facts(), postgres.same_store(store).facts()
    first = facts.add(Fact(id="", text="Likes tea.", kind="preference", by="user"))
    assert same_facts.add(Fact(id="", text=" likes  TEA")) == first
    second = same_facts.add(Fact(id="", text="Likes tea.", expires_at="2030-01-01T00:00:00Z"))
    assert [fact.id for fact in facts.all()] == [first.id, second.id]
    other = facts.add(Fact(id=first.id, text="Something else"))
    assert other.id not in (first.id, "") and facts.forget(other.id) == other
    assert same_facts.forget(first.id, by="model") == first
    with pytest.raises(NotFound):
        facts.forget(first.id)
    assert [fact.id for fact in facts.all()] == [second.id]
    assert facts.add(Fact(id="", text="likes tea")).id != first.id
    assert postgres.new_store().facts().all() == []


@pytest.mark.req("STORE-14")
def test_each_chat_has_its_own_active_session(store: PostgresStore) -> None:
    chats = store.chats()
    assert chats.active("tg_1") is None
    chats.activate("tg_1", "sess_a")
    chats.activate("tg_2", "sess_b")
    chats.activate("tg_1", "sess_c")
    same_chats = postgres.same_store(store).chats()
    assert (same_chats.active("tg_1"), same_chats.active("tg_2")) == ("sess_c", "sess_b")
    chats.activate("tg_1", "")
    assert same_chats.active("tg_1") == ""
    for chat, session_id in (("../x", "sess_a"), ("tg_1", "../x")):
        with pytest.raises(InvalidId):
            chats.activate(chat, session_id)


@pytest.mark.req("STORE-14")
def test_an_update_is_accepted_by_one_process_only(store: PostgresStore) -> None:
    bot = int.from_bytes(store.space.encode()[-4:], "big")
    one, other = store.updates(bot), postgres.same_store(store).updates(bot)
    body = {"text": "hi \u0000 \ud800"}
    [first] = one.take([(7, "tg_1", body)])
    assert (first.update, first.chat, first.body) == (7, "tg_1", body)
    assert [taken.update for taken in other.take([(7, "tg_1", body), (8, "tg_1", {}), (8, "tg_1", {})])] == [8]
    one.sent(7, 100)
    one.sent(7, 101)
    one.sent(7, 101)
    one.note(7, {"session": "s"})
    one.note(7, {"seq": 3})
    waiting = other.waiting()
    assert [(taken.update, taken.sent, taken.facts) for taken in waiting] == [
        (7, [100, 101], {"session": "s", "seq": 3}),
        (8, [], {}),
    ]
    assert waiting[0].body == body
    other.done(7)
    assert [taken.update for taken in one.waiting()] == [8]
    assert one.take([(7, "tg_1", body)]) == []


@pytest.mark.req("STORE-14")
def test_only_one_process_can_poll_a_bots_updates(store: PostgresStore) -> None:
    bot = int.from_bytes(store.space.encode()[-4:], "big")
    one, other = store.updates(bot), postgres.same_store(store).updates(bot)
    one.hold()
    with pytest.raises(SessionBusy):
        other.hold()
    one.release()
    other.hold()
    other.release()


@pytest.mark.req("STORE-05", "STORE-14")
def test_a_process_that_lost_its_claim_on_a_chat_cannot_write(store: PostgresStore) -> None:
    bot = int.from_bytes(store.space.encode()[-4:], "big")
    late = postgres.same_store(store)
    one, other = late.updates(bot), store.updates(bot)
    store.create(Session(id="talk"))
    one.take([(7, "tg_1", {}), (8, "tg_1", {}), (9, "tg_2", {})])
    assert one.unattended() == {"tg_1": 2, "tg_2": 1}
    assert one.claim("tg_1") and not other.claim("tg_1")
    assert other.unattended() == {"tg_2": 1}
    with one.working("tg_1"):
        late.append("talk", Message(role="user", content="ours"))
    one.waiting("tg_1")
    # The claim expires, and another process takes over.
    one.seconds = 0.0
    assert one.renew("tg_1")
    for _ in range(10_000):
        if other.claim("tg_1"):
            break
    assert not one.renew("tg_1") and other.renew("tg_1")
    refused: list[Callable[[], object]] = [
        lambda: late.append("talk", Message(role="assistant", content="too late")),
        lambda: late.append("talk", Message(role="assistant", content="too"), Message(role="user", content="late")),
        lambda: one.note(7, {"session": "talk"}),
        lambda: one.sent(7, 100),
        lambda: one.done(7),
    ]
    for attempt in refused:
        with pytest.raises(TakenOver), one.working("tg_1"):
            attempt()
    one.release_chat("tg_1")
    with pytest.raises(TakenOver):
        one.working("tg_1")
    assert [message.content for message in store.read("talk")] == ["ours"]
    assert [(taken.update, taken.facts, taken.sent) for taken in other.waiting("tg_1")] == [(7, {}, []), (8, {}, [])]
    assert not one.claim("tg_1"), "releasing a lost claim must not free the chat"
    late.append("talk", Message(role="user", content="without a claim"))
    late.close()


@pytest.mark.req("STORE-14")
def test_updates_answered_long_ago_are_deleted(store: PostgresStore) -> None:
    bot = int.from_bytes(store.space.encode()[-4:], "big")
    updates = store.updates(bot)
    updates.take([(number, "tg_1", {}) for number in (1, 2, 3)])
    assert updates.claim("tg_1")
    updates.done(1)
    updates.done(2)
    query = "UPDATE cortext.updates SET done_at = '2020-01-01T00:00:00.000Z' WHERE bot = %s AND number = 1"
    postgres.shared().sql(query, bot)
    updates.release_chat("tg_1")
    left = postgres.shared().sql("SELECT number FROM cortext.updates WHERE bot = %s ORDER BY number", bot)
    assert left == [(2,), (3,)]
    assert updates.take([(2, "tg_1", {}), (3, "tg_1", {})]) == []


@pytest.mark.req("STORE-14")
def test_one_of_many_workers_gets_a_claim_and_an_expired_one_cannot_finish(store: PostgresStore) -> None:
    claims = store.claims()
    key = store.space
    results: list[Claim | None] = []
    ready = threading.Barrier(6)

    def worker() -> None:
        ready.wait(10)
        results.append(claims.claim("summary", key, 60))

    threads = [threading.Thread(target=worker) for _ in range(6)]
    run_all(threads)
    [winner] = [claim for claim in results if claim is not None]
    assert claims.renew(winner, 0.0), "the winner can renew its claim"
    # The claim has expired: another worker takes over, and the first one can no longer finish the work.
    second = wait_for(lambda: claims.claim("summary", key, 60))
    assert second.fence > winner.fence
    assert not claims.renew(winner, 60) and not claims.finish(winner, version=5)
    assert claims.finish(second, version=5)
    assert claims.claim("summary", key, 60, version=5) is None, "finished work is not handed out again"
    assert claims.claim("summary", key, 60, version=6) is not None
    assert claims.claim("embed", key, 60) is not None, "other work on the same session is free"


def run_all(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)


def wait_for(attempt: Callable[[], Claim | None]) -> Claim:
    for _ in range(10_000):
        claim = attempt()
        if claim is not None:
            return claim
    raise AssertionError("the claim never became free")


@pytest.mark.req("TEAM-04")
def test_a_search_on_the_phone_without_the_server_says_what_is_missing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORTEXT_STORE", postgres.shared().database())
    with Parrot() as model, monkeypatch.context() as patched:
        for variable, value in environment(home, model).items():
            monkeypatch.setenv(variable, value)
        desk = Desk(home)
        desk.say("herons at dawn")

        def unanswered(*_: object, **__: object) -> list[ServerHit]:
            raise StoreUnreachable("no answer from db.example")

        patched.setattr(PostgresStore, "find", unanswered)
        answer = desk.do("/search herons")
        assert answer.above == "Sessions are missing: no answer from db.example." and "Nothing was found" in answer.text
        patched.undo()
        answer = desk.do("/search herons")
        assert answer.above == "" and len(answer.hits) == 1


@pytest.mark.req("TEAM-04")
def test_the_list_on_the_phone_without_the_server_shows_the_rest_and_says_so(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORTEXT_STORE", postgres.shared().database())
    folder = committed_workspace(tmp_path / "work", monkeypatch)
    with Parrot() as model, monkeypatch.context() as patched:
        for variable, value in environment(home, model).items():
            monkeypatch.setenv(variable, value)
        desk = Desk(home)
        desk.say("herons at dawn")

        def unanswered(*_: object, **__: object) -> list[Session]:
            raise StoreUnreachable("no answer from db.example")

        patched.setattr(PostgresStore, "listed", unanswered)
        for line in ("/sessions", "/sessions all", "/resume"):
            answer = desk.do(line)
            assert answer.above.startswith("Sessions are missing: no answer from db.example."), line
            assert not answer.rows and "yet" not in answer.text, "nobody knows what is on the server"
        assert desk.commands.complete("/resume ") == []
        assert cortext("new", "plan", "Sailors", cwd=folder).code == 0
        answer = desk.do("/sessions")
        assert [row[0] for row in answer.rows] == ["001-plan-sailors"] and "Sessions are missing" in answer.above
        patched.undo()
        answer = desk.do("/sessions")
        assert answer.above == "" and len(answer.rows) == 1 and answer.rows[0][0].startswith("sess_")
