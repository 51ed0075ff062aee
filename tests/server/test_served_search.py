"""Search and the assistant with sessions on a server."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cortext.agents.assistant.build import bot_updates, build_assistant
from cortext.errors import SessionNotFound
from cortext.faces.cortext.commands._which import which, which_row
from cortext.model.message import Message
from cortext.model.order import ORDER, TAG, event
from cortext.model.query import Query
from cortext.model.session import Change, Origin, Session
from cortext.server.store import PostgresStore
from cortext.services.capture import capture
from cortext.services.library import last_command, served_sessions
from cortext.wiring.stores import Stores
from tests.support.postgres import needs_vectors, shared


@pytest.fixture
def stores(monkeypatch: pytest.MonkeyPatch) -> Stores:
    """The stores of a user whose settings name a server."""
    monkeypatch.setenv("CORTEXT_STORE", shared().database())
    return Stores()


def add_session(stores: Stores, name: str, *texts: str) -> None:
    store = stores.home_store().store
    store.create(Session(id=name, type="debug"))
    for text in texts:
        store.append(name, Message(role="user", content=text, timestamp="2026-05-01T10:00:00Z"))


@pytest.mark.req("STORE-14")
@pytest.mark.parametrize("vectors", [True, False], ids=["pgvector", "no pgvector"])
def test_words_and_meaning_are_found_on_the_server(
    stores: Stores, vectors: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not vectors:
        monkeypatch.setattr(PostgresStore, "has_vectors", lambda self: False)
    add_session(stores, "ocean", "before it", "the sailor steered his boat across the stormy sea", "after it")
    add_session(stores, "money", "the invoice was paid from the wrong bank account")
    search = stores.search()
    [found] = search.search(Query("sailor boat", limit=1)).hits
    assert found.matches[0].why == ("words",)
    [match] = found.matches[:1]
    assert (found.session.id, match.seq, match.before, match.after) == ("ocean", 1, "before it", "after it")
    assert [match.snippet[start:end] for start, end in match.highlights] == ["sailor", "boat"]
    # No word in common, only the meaning.
    assert [item.session.id for item in search.search(Query("ships on the ocean water", limit=1)).hits] == ["ocean"]
    assert [item.session.id for item in search.messages(Query("payment of a bill", limit=1)).hits] == ["money"]


@pytest.mark.req("STORE-14")
def test_search_filters_apply_on_the_server(stores: Stores) -> None:
    add_session(stores, "ocean", "the sailor steered his boat")
    search = stores.search()
    for matching in ("type:debug", "role:user", "after:2026-04", "before:2026-06", "workspace:home", "status:active"):
        assert [found.session.id for found in search.search(Query(f"sailor {matching}")).hits] == ["ocean"], matching
    for excluding in ("type:plan", "role:assistant", "after:2026-06", "before:2026-04", "workspace:aur", "tool:codex"):
        assert search.search(Query(f"sailor {excluding}")).hits == [], excluding
    assert search.search(Query("sailor", leave_out={"ocean"})).hits == []


@pytest.mark.req("STORE-14")
@pytest.mark.parametrize("vectors", [True, False], ids=["pgvector", "no pgvector"])
def test_better_matches_that_a_filter_rejects_take_no_room(
    stores: Stores, vectors: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server returned its best 60 messages, which were filtered afterwards."""
    if not vectors:
        monkeypatch.setattr(PostgresStore, "has_vectors", lambda self: False)
    store = stores.home_store().store
    store.create(Session(id="loud", type="debug", extra={"project": "/src/loud"}))
    store.append("loud", *(Message(role="user", content=f"sailor boat sailor {number}") for number in range(150)))
    quiet = Session(id="quiet", type="plan", agent="cook", origin=Origin(tool="codex"), extra={"project": "/src/quiet"})
    store.create(quiet)
    told = "once there was a sailor, who was neither here nor there, and had seen a boat"
    store.append("quiet", Message(role="assistant", content=told, timestamp="2024-05-01T10:00:00Z"))
    store.update("quiet", Change(status="paused", extra={ORDER: [event({}, TAG, "harbour")]}))
    search = stores.search()
    for words in (
        "type:plan",
        "tool:codex",
        "agent:cook",
        "status:paused",
        "role:assistant",
        "before:2024-06",
        "after:2024-04 before:2024-06",
        "tag:harbour",
        "project:/src/quiet",
        "+neither",
    ):
        found = search.search(Query(f"sailor boat {words}", limit=1, exact=True)).hits
        assert [item.session.id for item in found] == ["quiet"], words


@pytest.mark.req("STORE-14")
def test_a_name_is_looked_up_without_reading_every_session(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_sessions, "NEWEST", 3)
    for number in range(12):
        add_session(stores, f"{number + 1:03}-talk-{'abcdefghijkl'[number]}", f"words {number}")
    store = stores.home_store().store
    store.update("002-talk-b", Change(title="The 100% Harbour_Plan"))
    limits = []
    listed = PostgresStore.listed

    def counted(self: PostgresStore, where: Sequence[tuple[str, str]] = (), *, limit: int = 0, **order: str) -> object:
        limits.append(limit)
        return listed(self, where, limit=limit, **order)

    monkeypatch.setattr(PostgresStore, "listed", counted)
    for name, words in (
        ("002", False),
        ("002-talk", False),
        ("002_talk", False),
        ("harbour", True),
        ("100% harbour_plan", True),
    ):
        assert which(stores, name, words=words).session.id == "002-talk-b", name
    row = which_row(stores.listing(), "", "012")
    last_command.remember_list("cortext", [(row.root, "001-talk-a")])
    assert which(stores, "1").session.id == "001-talk-a"
    with pytest.raises(SessionNotFound):
        which(stores, "nowhere at all")
    assert limits and set(limits) == {3}
    # A transcript without an entry in the catalogue: only sessions that came from a tool are read, and none of others.
    assert [session.id for session in capture._from_tools(store)] == []
    store.update("003-talk-c", Change(origin=Origin(tool="codex", session_id="x")))
    assert [session.id for session in capture._from_tools(store)] == ["003-talk-c"]
    shared_store = next(each.store for each in stores.all() if each.kind == "shared")
    assert list(capture._from_tools(shared_store)) == []


@pytest.mark.req("STORE-14")
def test_the_vectors_of_a_session_are_computed_once(stores: Stores) -> None:
    needs_vectors()
    add_session(stores, "ocean", "the sailor steered his boat", "and was glad")
    for _ in range(3):
        stores.search().search(Query("sailor"))
    store = stores.home_store().store
    assert isinstance(store, PostgresStore)
    assert len(list(store.annotations("ocean"))) == 2
    store.append("ocean", Message(role="user", content="a third message"))
    stores.search().search(Query("sailor"))
    assert len(list(store.annotations("ocean"))) == 3


@pytest.mark.req("STORE-14")
def test_the_assistant_stores_everything_on_the_server(stores: Stores) -> None:
    assistant = build_assistant(stores)
    session_id, made = assistant.sessions.ensure("tg_1")
    assert made and assistant.sessions.ensure("tg_1") == (session_id, False)
    assistant.store.append(session_id, Message(role="user", content="hello"))
    assistant.memory.remember("Likes tea")
    other = build_assistant(Stores())
    assert other.sessions.active("tg_1") == session_id
    assert [(row.id, row.message_count, row.kind) for row in other.sessions.answer(Query(limit=20)).rows] == [
        (session_id, 1, "chat")
    ]
    assert "Likes tea" in str(other.memory.all())
    updates = bot_updates(stores, 7)
    updates.hold()
    assert [taken.update for taken in updates.take([(1, "tg_1", {"text": "x"})])] == [1]
    updates.release()
