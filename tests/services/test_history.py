"""The thread of a session, read from its end: the same whether it is known to be linear or scanned."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from cortext.model.message import Message, thread
from cortext.model.session import Session
from cortext.services.resume.history import CHUNK, History
from cortext.services.resume.packet import build
from cortext.store.files.workspace import WorkspaceStore

COUNT = 3 * CHUNK + 7


def _stored(tmp_path: Path, *more: Message) -> tuple[WorkspaceStore, Session]:
    store = WorkspaceStore(str(tmp_path))
    store.create(Session(id="001-plan-x", type="plan", created_at="2026-11-15T10:00:00Z"))
    messages = [
        Message(role="assistant" if number % 2 else "user", content=f"word {number}.") for number in range(COUNT)
    ]
    store.append("001-plan-x", *messages, *more)
    return store, store.get("001-plan-x")


@pytest.mark.req("SESS-003c")
def test_a_linear_thread_is_the_same_as_a_scanned_one(tmp_path: Path) -> None:
    store, session = _stored(tmp_path)
    assert session.is_linear
    quick, slow = History(store, session), History(store, replace(session, is_linear=False))
    assert len(quick) == len(slow) == COUNT
    expected = thread(store.read(session.id))
    for history in (quick, slow):
        assert history.messages() == expected
        assert list(history.backwards()) == expected[::-1]
        assert history.messages(5, 9) == expected[5:9]
    packets = [build(session, history, budget=2_000, draw=bytes) for history in (quick, slow)]
    assert packets[0] == packets[1]


@pytest.mark.req("SESS-003c")
@pytest.mark.parametrize("is_linear", [True, False])
@pytest.mark.parametrize("tokens", [0, 100, 10_000_000])
def test_prefetched_messages_are_the_same(tmp_path: Path, is_linear: bool, tokens: int) -> None:
    store, session = _stored(tmp_path)
    expected = thread(store.read(session.id))
    history = History(store, replace(session, is_linear=is_linear))
    history.expect(tokens, before=300)
    store.append(session.id, Message(role="user", content="said while we read"))
    assert history.messages(COUNT - 400, COUNT - 200) == expected[COUNT - 400 : COUNT - 200]
    assert list(history.backwards()) == expected[::-1]
    assert history.messages() == expected
    assert history.messages(3, 3) == history.messages(COUNT, COUNT + 9) == []


@pytest.mark.req("SESS-003c")
def test_a_branched_session_is_not_mistaken_for_a_linear_one(tmp_path: Path) -> None:
    store, session = _stored(tmp_path)
    back = store.tail(session.id, 5)[0].id
    store.append(session.id, Message(role="user", content="another way", parent=back))
    now = store.get(session.id)
    assert not now.is_linear
    assert History(store, now).messages() == thread(store.read(session.id))
    # An outdated `is_linear` is noticed.
    assert History(store, session).messages() == thread(store.read(session.id))
