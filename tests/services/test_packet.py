"""The packet with a small budget: messages take precedence over a summary of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortext.model.message import Message
from cortext.model.session import Change, Session
from cortext.services.resume.history import History
from cortext.services.resume.packet import build
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
