"""Listing and search by the server."""

from __future__ import annotations

import base64
import re
from typing import Any

import numpy as np
import pytest

from cortext.errors import UsageError
from cortext.model.message import Message, Part
from cortext.model.session import Change, Origin, Session
from cortext.server import search
from cortext.server.store import PostgresStore
from tests.server.million import fill, recall
from tests.server.team import Team
from tests.support import postgres


def add_session(store: PostgresStore, name: str, *texts: str, **fields: Any) -> None:
    store.create(Session(id=name, **fields))
    for text in texts:
        store.append(name, Message(role="user", content=text, timestamp=fields.get("last_active", "")))


@pytest.mark.req("STORE-14")
def test_sessions_are_filtered_and_listed_most_recently_active_first(store: PostgresStore) -> None:
    for hour, name in ((3, "c"), (1, "a"), (2, "b")):
        add_session(
            store,
            name,
            "hello",
            type="debug" if hour > 1 else "plan",
            last_active=f"2026-01-01T0{hour}:30:00Z",
            created_at=f"2026-01-01T0{4 - hour}:00:00Z",
            title=name * 3,
        )
    store.update("b", Change(status="paused", origin=Origin(tool="codex")))
    assert [session.id for session in store.listed()] == ["c", "b", "a"]
    assert [session.id for session in store.listed(limit=2)] == ["c", "b"]
    assert [session.id for session in store.listed([("type", "debug")])] == ["c", "b"]
    assert [session.id for session in store.listed([("status", "paused"), ("tool", "codex")])] == ["b"]
    assert [session.id for session in store.listed(order="created_at")] == ["a", "b", "c"]
    assert store.listed() == [store.get(session.id) for session in store.listed()]
    with pytest.raises(UsageError):
        store.listed([("id; DROP TABLE", "x")])


@pytest.mark.req("STORE-14")
def test_matches_of_all_words_come_before_matches_of_any_word(store: PostgresStore) -> None:
    add_session(store, "one", "the retry budget is per host", "something else")
    add_session(store, "two", "a budget for lunch")
    found = store.find("retry BUDGET")
    assert [(hit.session.id, hit.message.seq) for hit in found] == [("one", 0), ("two", 0)]
    assert found[0].score > 0.5 >= found[1].score > 0
    assert [hit.session.id for hit in store.find("budget lunch", 1)] == ["two"]
    assert store.find("nowhere to be seen") == []


def test_a_tool_result_is_found_and_returned_complete(store: PostgresStore) -> None:
    store.create(Session(id="talk"))
    [stored] = store.append("talk", Message(role="tool", parts=[Part(type="tool_result", output="42 zebras")]))
    assert store.find("zebras")[0].message == stored


def test_counts_are_compared_page_by_page(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_PAGE", 2)
    for number in range(7):
        add_session(store, f"talk-{number}", *["hello"] * number)
    assert list(store.miscounted()) == []
    wrong = "UPDATE cortext.sessions SET token_count = 9 WHERE space = %s AND session_id = ANY(%s)"
    postgres.shared().sql(wrong, store.space, ["talk-0", "talk-3", "talk-6"])
    assert list(store.miscounted()) == ["talk-0", "talk-3", "talk-6"]
    assert list(store.miscounted("2999-01-01T00:00:00Z")) == []


def test_the_trash_and_other_spaces_are_not_searched(store: PostgresStore) -> None:
    add_session(store, "gone", "unmistakable")
    key = store.delete("gone").key
    other = postgres.new_store()
    add_session(other, "gone", "unmistakable")
    assert store.find("unmistakable") == [] and store.listed() == []
    store.restore(key)
    assert [hit.session.id for hit in store.find("unmistakable")] == ["gone"]
    other.close()


@pytest.mark.parametrize(
    "query",
    [
        *("", " ", "'", "a & | ! <-> b:*", "\\", "'; DROP TABLE cortext.messages; --", "\0", "\ud800"),
        *("x" * 1_000_000, "%s %(a)s", "\x1b[31m", "(((("),
    ],
    ids=lambda text: ascii(text)[:20],
)
def test_no_query_is_an_error(store: PostgresStore, query: str) -> None:
    add_session(store, "talk", "plain words")
    assert len(store.find(query)) <= 1
    assert [hit.session.id for hit in store.find("plain")] == ["talk"]


def test_a_message_too_long_for_the_index_is_found_by_its_first_words(store: PostgresStore) -> None:
    words = " ".join(f"word{number}" for number in range(400_000))
    add_session(store, "long", f"unmistakable {words}", "x" * 3_000_000)
    assert [hit.message.seq for hit in store.find("unmistakable")] == [0]
    assert [len(message.content) for message in store.read("long")] == [len(words) + 13, 3_000_000]


def packed(message: Message, values: list[int], scale: float = 0.01) -> dict[str, object]:
    # As long as real vectors: the test server's build of the extension cannot handle very short ones.
    raw = bytes(value % 256 for value in [*values, *[0] * 253])
    return {
        "type": "embedding", "message_id": message.id, "model": "test/3", "dimensions": 256, "scale": scale,
        "int8": base64.b64encode(raw).decode(),
    }  # fmt: skip


@pytest.mark.req("STORE-14")
def test_a_server_with_pgvector_finds_messages_by_meaning(store: PostgresStore) -> None:
    postgres.needs_vectors()
    store.create(Session(id="talk"))
    one, two, three = store.append("talk", *(Message(role="user", content=text) for text in ("sea", "hill", "lake")))
    records = [packed(one, [100, 0, 0]), packed(two, [0, -100, 0]), packed(three, [90, 30, 0])]
    short = {**packed(two, [1]), "int8": base64.b64encode(b"12345678" * 2).decode()}
    invalid = {"type": "embedding", "message_id": two.id, "int8": "not base64!", "scale": 1}
    store.annotate("talk", short, invalid, *records)
    assert store.server().vectors and store.has_vectors()
    east = [1.0, *[0.0] * 255]
    found = store.find_similar(east, "test/3")
    assert [hit.message.content for hit in found] == ["sea", "lake", "hill"]
    assert found[0].score == pytest.approx(1.0, abs=0.01) and found[2].score == pytest.approx(0.0, abs=0.01)
    assert store.find_similar(east, "another model") == []
    assert list(store.annotations("talk"))[2:] == records
    store.delete("talk")
    assert store.find_similar(east, "test/3") == []


@pytest.mark.req("STORE-14")
def test_the_best_match_is_found_among_any_number_of_matches(store: PostgresStore) -> None:
    """Ranking used to stop at an arbitrary 2,000 matches; the best of all is compared with an exact scan."""
    store.create(Session(id="many"))
    filler = [
        Message(role="user", content=f"budget {'and so on ' * (1 + number % 7)} {number}") for number in range(3000)
    ]
    for begin in range(0, 3000, 500):
        store.append("many", *filler[begin : begin + 500])
    store.create(Session(id="best"))
    store.append("best", Message(role="user", content="budget budget budget"))
    found = store.find("budget", 10)
    assert found[0].session.id == "best"
    exact = postgres.shared().sql(
        "SELECT m.id FROM cortext.messages m JOIN cortext.sessions s USING (session_id, life) WHERE s.space = %s "
        "ORDER BY ts_rank(to_tsvector('simple', m.content), plainto_tsquery('simple', 'budget'), 33) DESC, "
        "s.last_active DESC, m.seq LIMIT 10",
        store.space,
    )
    assert [hit.message.id for hit in found] == [row[0] for row in exact]


@pytest.mark.req("TEAM-04")
def test_the_ten_best_of_many_messages_are_those_of_an_exact_scan() -> None:
    """`python -m tests.server.long recall` runs the same with a million messages."""
    assert "equal those of an exact scan" in recall(postgres.shared(), 5_000)


@pytest.mark.req("STORE-14")
@pytest.mark.parametrize("policies", [False, True], ids=["statements alone", "policies that admit the index"])
def test_the_index_of_words_finds_a_rare_word(policies: bool) -> None:
    """From the eleventh search on it was not used: one plan served all words, and expected one message in a session."""
    team = Team(policies=policies)
    fill(team.url, team.ann, 20_000)
    if policies:
        if team.sql("SELECT rolsuper FROM pg_roles WHERE rolname = current_user") != [(True,)]:
            pytest.skip("only a superuser can declare it")  # of a server that somebody else runs
        team.sql("ALTER FUNCTION ts_match_vq(tsvector, tsquery) LEAKPROOF")
    ann = team.store(team.ann)

    def plan(words: str) -> str:
        query, values = search.statement(ann.scope, search.ALL_WORDS, words, 20)
        return str(ann.connections.query(f"EXPLAIN {query}", *values))

    for _ in range(12):  # after ten of them, a prepared statement would have one plan for all words
        assert len(ann.find("budget")) == 20
    assert ann.connections.query("SELECT 1 FROM pg_prepared_statements WHERE statement LIKE '%%ts_rank%%'") == []
    assert "messages_words" in plan("w27182") and "messages_words" in plan("heron w27182")
    assert "messages_words" not in plan("budget"), "every message has it, so the index would only add work"
    expected = [int(number) for number in re.findall(r"Sort  \(cost=\S+ rows=(\d+)", plan("budget"))]
    assert max(expected) > 500, "20,000 messages; 200 are expected if each session seems to have one"
    assert len(ann.find("w27182")) == 1
    ann.close()


@pytest.mark.req("STORE-14")
def test_a_match_is_read_alone_however_long_its_session_is(store: PostgresStore) -> None:
    """The other messages of its session were read with it."""
    if postgres.shared().is_citus:
        pytest.skip("the plan for messages is made on the nodes of Citus")
    query, values = search.statement(store.scope, search.ALL_WORDS, "heron", 20)

    def explain(connection: Any) -> list[str]:
        with connection.transaction():  # as for tables that are too large to be read as a whole
            for other in ("seqscan", "hashjoin", "mergejoin", "bitmapscan"):
                connection.execute(f"SET LOCAL enable_{other} = off")
            return [row[0].strip() for row in connection.execute(f"EXPLAIN {query}".encode(), values)]

    plan = store.connections.run(explain)
    [read] = [line for line in plan if line.startswith("Index Cond") and "= best.life" in line]
    assert "seq = best.seq" in read or "id = best.id)" in read.replace("session_id", ""), plan


@pytest.mark.req("STORE-14")
def test_one_word_is_searched_once(store: PostgresStore) -> None:
    add_session(store, "one", "a heron", "another heron")
    query, values = search.statement(store.scope, search.ANY_WORD, "heron", 20)
    assert "One-Time Filter: false" in str(store.connections.query(f"EXPLAIN {query}", *values))
    assert len(store.find("heron")) == 2 and len(store.find("heron crane")) == 2


@pytest.mark.req("STORE-14")
def test_the_nearest_vectors_of_others_and_of_the_trash_take_no_room(store: PostgresStore) -> None:
    """The nearest 400 of everybody were considered, and then filtered; recall is compared with an exact scan."""
    postgres.needs_vectors()
    rng = np.random.default_rng(4)
    query = rng.normal(size=16)
    somebody = postgres.store_of(store.space, owner="somebody")
    expected: list[tuple[float, str]] = []
    for owner, name, near in ((somebody, "theirs", 0.01), (store, "trashed", 0.01), (store, "mine", 1.0)):
        owner.create(Session(id=name))
        for begin in range(0, 450, 150):
            messages = [Message(role="user", content=f"{name} {begin + index}") for index in range(150)]
            stored = owner.append(name, *messages)
            vectors = query + near * rng.normal(size=(150, 16))
            records = [
                {"type": "embedding", "message_id": message.id, "model": "m", "vector": vector.tolist()}
                for message, vector in zip(stored, vectors, strict=True)
            ]
            owner.annotate(name, *records)
            if name == "mine":
                cosine = vectors @ query / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query)
                expected += [(-score, message.id) for score, message in zip(cosine, stored, strict=True)]
    store.delete("trashed")
    found = store.find_similar(query.tolist(), "m", 10)
    assert [hit.message.id for hit in found] == [name for _, name in sorted(expected)[:10]]
    somebody.delete("theirs")  # other tests use the same database, and are warned of others
    somebody.close()
