"""The adapter with the real Continue and a model server on loopback that records its requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

import pytest
from tests.support.desk import Desk
from tests.support.model_server import Request
from tests.tools.real_flow import Conversations, RealFlow

from cortext.model.turns import Difference
from cortext.services.resume.planning import Plan
from cortext.wiring.stores import Stores

pytestmark = pytest.mark.real_tool


class TestContinue(RealFlow):
    name = "continue"
    sessions = ".continue/sessions"
    targets = ("claude",)
    changed: ClassVar[dict[str, int]] = {Difference.ERROR_FLAG: 1}

    def check_resumed(self, desk: Desk, plan: Plan, request: Request, project: Path) -> None:
        listed = json.loads((desk.home / self.sessions / "sessions.json").read_text(encoding="utf-8"))
        assert [(entry["sessionId"], entry["title"]) for entry in listed][-1] == (plan.key, "Herons")

    @pytest.mark.req("SESS-004d", "TRUE-01")
    def test_its_own_session_opens_on_its_screen_and_only_grows(
        self, desk: Desk, conversations: Conversations, stores: Stores
    ) -> None:
        """In every run, because with a first prompt Continue overwrites the session's file."""
        super().test_its_own_session_opens_on_its_screen_and_only_grows(desk, conversations, stores)
