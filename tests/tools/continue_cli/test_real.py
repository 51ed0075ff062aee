"""The adapter with the real Continue and a model server on loopback that records its requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

import pytest
from tests.support.desk import Desk
from tests.support.model_server import Request
from tests.tools.real_flow import RealFlow

from cortext.model.turns import Change
from cortext.services.resume.handover import Plan

pytestmark = pytest.mark.real_tool


class TestContinue(RealFlow):
    name = "continue"
    sessions = ".continue/sessions"
    targets = ("claude", "gemini", "copilot")
    changed: ClassVar[dict[str, int]] = {Change.ERROR_FLAG: 1}

    def check_resumed(self, desk: Desk, plan: Plan, request: Request, project: Path) -> None:
        listed = json.loads((desk.home / self.sessions / "sessions.json").read_text(encoding="utf-8"))
        assert [(entry["sessionId"], entry["title"]) for entry in listed][-1] == (plan.key, "Herons")
