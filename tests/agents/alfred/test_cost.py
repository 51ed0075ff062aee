"""The cost of a turn does not depend on the number of other sessions."""

from __future__ import annotations

import os
from typing import Any

import pytest

from cortext.io import durable
from tests.agents.alfred.conftest import Desk


@pytest.mark.req("CHAT-11")
def test_a_turn_touches_its_own_session_only(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.fill("sess_mine", 6)
    desk.say("the first turn fills the caches")
    opened: list[str] = []
    real_open, real_scan = durable.calls.open, os.scandir

    def counting_open(path: Any, *arguments: Any) -> int:
        opened.append(os.fspath(path))
        return real_open(path, *arguments)

    def no_scan(path: Any = ".") -> Any:
        assert "sessions" not in str(path), "a turn listed the folder of the sessions"
        return real_scan(path)

    monkeypatch.setattr(durable.calls, "open", counting_open)
    monkeypatch.setattr(os, "scandir", no_scan)
    desk.say("one")
    before = len(opened)
    monkeypatch.setattr(os, "scandir", real_scan)
    for number in range(60):
        desk.fill(f"sess_{number:03d}", 2, chat=f"tg_{number}")
    monkeypatch.setattr(os, "scandir", no_scan)
    opened.clear()
    desk.say("two")
    assert len(opened) == before
    of_others = [path for path in opened if "/sess_" in path and "/sess_mine" not in path]
    assert of_others == []
