"""The thread of a session, read from its end: the same whether it is known to be linear or scanned."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from cortext.model.message import REPLACES, Message, Part
from cortext.model.session import Session
from cortext.model.threads import thread
from cortext.services.resume import history as history_module
from cortext.services.resume.history import CHUNK, HEAD, TAIL, History, newest_that_fit
from cortext.services.resume.packet import build
from cortext.services.resume.receipt import REPLACED
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


@pytest.mark.req("CHAT-13", "SESS-003c")
def test_a_message_that_was_edited_later_is_left_out_with_its_answer_and_counted(tmp_path: Path) -> None:
    store = WorkspaceStore(str(tmp_path))
    store.create(Session(id="001-plan-x", type="plan", created_at="2026-11-15T10:00:00Z"))
    asked, _ = store.append(
        "001-plan-x",
        Message(role="user", content="About the zeppelin?"),
        Message(role="assistant", content="It flies on hydrogen."),
    )
    edited = Message(role="user", content="About the balloon?", extra={REPLACES: asked.id})
    store.append("001-plan-x", edited, Message(role="assistant", content="It flies on hot air."))
    session = store.get("001-plan-x")
    assert not session.is_linear

    packet = build(session, History(store, session), budget=2_000, draw=bytes)

    assert "balloon" in packet.history and "zeppelin" not in packet.history and "hydrogen" not in packet.history
    receipt = packet.receipt
    assert (receipt.messages, receipt.of_messages, receipt.left_out) == (2, 4, {REPLACED: 2})


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


@pytest.mark.req("TOOL-10")
@pytest.mark.parametrize("is_linear", [True, False])
@pytest.mark.parametrize("characters", [1, 60, 2_000])
def test_messages_that_are_too_large_to_be_kept_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_linear: bool, characters: int
) -> None:
    monkeypatch.setattr(history_module, "CHUNK_CHARACTERS", characters)
    monkeypatch.setattr(history_module, "KEPT_CHARACTERS", 2 * characters)
    store, session = _stored(tmp_path)
    expected = thread(store.read(session.id))
    history = History(store, replace(session, is_linear=is_linear))
    history.expect(10_000, before=300)
    for _ in range(2):
        assert list(history.backwards()) == expected[::-1]
    assert history.messages() == expected
    assert history.messages(COUNT - 400, COUNT - 2) == expected[COUNT - 400 : COUNT - 2]
    assert sum(len(message.content) for message in history._newest) <= 3 * max(characters, 10)


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


@pytest.mark.req("TOOL-10", "SESS-003c")
def test_a_large_result_is_shortened_only_if_not_everything_fits(tmp_path: Path) -> None:
    log = "a line of a long log, and another word\n" * 8_000
    result = Part(type="tool_result", call_id="c1", name="Bash", output=log)
    call = Part(type="tool_call", id="c1", name="Bash", input={"command": "make"})
    more = [Message(role="assistant", parts=[call]), Message(role="tool", parts=[result])]
    store, session = _stored(tmp_path, *more, Message(role="assistant", content="Built."))

    whole = newest_that_fit(History(store, session), 1_000_000)
    lean = newest_that_fit(History(store, session), 60_000)

    assert (len(whole.messages), whole.shortened) == (COUNT + 3, 0)
    assert (len(lean.messages), lean.shortened) == (COUNT + 3, 1), "the log does not take the place of the others"
    output = lean.messages[-2].parts_of("tool_result")[0].output
    assert output.startswith(log[:HEAD]) and output.endswith(log[-TAIL:]) and len(output) < HEAD + TAIL + 100
    assert f"{len(log) - HEAD - TAIL:,} characters of this result left out" in output
