"""The adapter with the real Pi and a model server on loopback that records its requests."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tools.real_flow import RealFlow, check_hooks

pytestmark = pytest.mark.real_tool


class TestPi(RealFlow):
    name = "pi"
    sessions = ".pi/agent/sessions"
    targets = ("claude", "codex", "kimi")


@pytest.mark.req("TOOL-05", "FLOW-01", "FLOW-09")
def test_hooks_keep_a_conversation_and_resume_another_one_inside(tmp_path: Path) -> None:
    own = tmp_path / "w" / ".pi" / "prompts" / "mine.md"
    check_hooks(tmp_path, "pi", {own: "Say $1.\n"})
    assert [path.name for path in (tmp_path / "w" / ".pi").rglob("*") if path.is_file()] == ["mine.md"]
