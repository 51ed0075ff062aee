"""The packet with a small budget: messages take precedence over a summary of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortext.model import tokens
from cortext.model.message import Message, Part
from cortext.model.session import Change, Session
from cortext.services.resume.history import History
from cortext.services.resume.packet import Packet, build
from cortext.store.files.workspace import WorkspaceStore

pytestmark = pytest.mark.req("SESS-003c")


def test_a_long_summary_does_not_crowd_out_the_messages(tmp_path: Path) -> None:
    store = WorkspaceStore(str(tmp_path))
    store.create(Session(id="talk"))
    store.append("talk", *(Message(role="user", content=f"message {number}. " + "word " * 50) for number in range(20)))
    session = store.update("talk", Change(summary="Where it stood, at great length. " * 500))
    packet = build(session, History(store, session), budget=2000)
    assert 1000 < packet.receipt.tokens <= 2400
    assert packet.receipt.messages >= 8 and "message 19." in packet.history
    assert "Where it stood" in packet.context and packet.receipt.changed == {"summary shortened": 1}
    assert "summary shortened" not in build(session, History(store, session), budget=60_000).receipt.changed


def _packet(folder: Path, *messages: Message, budget: int, summary: str = "") -> Packet:
    store = WorkspaceStore(str(folder))
    store.create(Session(id="talk"))
    store.append("talk", *messages)
    session = store.update("talk", Change(summary=summary)) if summary else store.peek("talk")
    return build(session, History(store, session), budget=budget)


@pytest.mark.req("TOOL-11")
def test_the_last_ask_is_in_the_packet_however_long_ago_it_was(tmp_path: Path) -> None:
    asked = Message(role="user", content="Count the herons at every pond. Never wake them.")
    work = [Message(role="assistant", content=f"Pond {number} has none. " + "word " * 40) for number in range(700)]
    packet = _packet(tmp_path, Message(role="user", content="Hello."), asked, *work, budget=2_000)
    assert packet.receipt.messages < 100
    assert f"\nThe user asked last: {asked.content}\n" in packet.context


@pytest.mark.req("TOOL-11")
@pytest.mark.parametrize("size", [100, 8_000, 200_000])
@pytest.mark.parametrize("budget", [1_000, 4_000])
def test_a_packet_stays_within_its_tokens(tmp_path: Path, size: int, budget: int) -> None:
    said = [Message(role="user", content=f"message {number}. " + "word " * 50) for number in range(60)]
    last = Message(role="user", content="The paste: " + "a_long_line of it\n" * (size // 18) + "The end of it.")
    packet = _packet(tmp_path, *said, last, budget=budget, summary="It was about herons.\n" * 300)
    assert tokens.estimate(packet.text()) <= budget
    assert "The user asked last: The paste: a_long_line" in packet.context
    assert packet.history.rstrip().splitlines()[-2].endswith("The end of it.")
    assert packet.receipt.changed.get("message shortened", 0) == (size > 8_000 or (size, budget) == (8_000, 1_000))


def test_a_summary_keeps_its_paragraphs(tmp_path: Path) -> None:
    summary = "1. Goal:\n   Count herons.\n\n\n2. Files:\n   - pond.py\n"
    packet = _packet(tmp_path, Message(role="user", content="Go on."), budget=4_000, summary=summary)
    assert "\nSummary:\n  1. Goal:\n  Count herons.\n  \n  2. Files:\n  - pond.py\n" in packet.context


@pytest.mark.req("TRUE-03")
def test_images_and_the_tools_own_notes_are_named_in_the_receipt(tmp_path: Path) -> None:
    shown = Part("image", ref="key#one/0", media_type="image/png")
    looked = [Part("tool_result", call_id="a", output="here"), Part("image", ref="key#two/0", call_id="a")]
    store = WorkspaceStore(str(tmp_path))
    store.create(Session(id="talk", extra={"tool_notes": {"claude one": 3, "codex two": 1}}))
    store.append(
        "talk",
        Message(role="user", content="Look.", parts=[shown]),
        Message(role="assistant", parts=[Part("tool_call", id="a", name="view_image", input={})]),
        Message(role="tool", parts=looked),
    )

    receipt = build(store.peek("talk"), History(store, store.peek("talk"))).receipt

    assert receipt.changed == {"image replaced by a text note": 2}
    assert receipt.left_out == {"note of the tool to its model (memory files, reminders, texts of hooks)": 4}
    assert (receipt.messages, receipt.tool_calls) == (3, 1)
