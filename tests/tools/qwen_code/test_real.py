"""The adapter with the real Qwen Code and a model server on loopback that records its requests."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tools.real_flow import RealFlow, check_hooks

pytestmark = pytest.mark.real_tool


class TestQwenCode(RealFlow):
    name = "qwen"
    sessions = ".qwen/projects"
    loses_outputs = True  # the slower the machine, the more often, and sometimes of both commands
    targets = ("claude", "pi")
    attached = ("[attached: note.txt]\nthe heron stands still\n",)


@pytest.mark.req("TOOL-05", "FLOW-01", "FLOW-09")
def test_hooks_keep_a_conversation_and_resume_another_one_inside(tmp_path: Path) -> None:
    settings = tmp_path / "w" / ".qwen" / "settings.json"
    before = '{\n  // mine\n  "$version": 4,\n  "ui": {"hideTips": true}\n}\n'
    check_hooks(tmp_path, "qwen", {settings: before})
    assert sorted(path.name for path in settings.parent.rglob("*")) == ["settings.json"]
