"""The adapter with the real Mistral Vibe and a model server on loopback that records its requests."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
from tests.support.desk import Desk
from tests.tools.real_flow import RealFlow, files_in

from cortext.model.message import Message
from cortext.model.turns import Difference
from cortext.services.library.stores import StoredConversation

pytestmark = [pytest.mark.real_tool, pytest.mark.heavy_tool]


class TestVibe(RealFlow):
    name = "vibe"
    sessions = ".vibe/logs"
    errors = (False, False, False)
    changed: ClassVar[dict[str, int]] = {Difference.ERROR_FLAG: 1}

    def check_imported(self, conversation: StoredConversation, messages: list[Message]) -> None:
        assert {part.name for message in messages for part in message.parts_of("tool_result")} == {"bash"}
        assert [part.text for message in messages for part in message.parts_of("file")] == ["the heron stands still"]

    @pytest.mark.req("TOOL-05")
    def test_its_hook_keeps_the_conversation(self, desk: Desk, tmp_path: Path) -> None:
        folder = desk.project(tmp_path.name)  # a second run of the test needs another name
        (folder / ".vibe").mkdir()
        (folder / ".vibe/hooks.toml").write_text("# mine\n", encoding="utf-8")
        before = files_in(folder)
        done = desk.cortext("init", "--ai", "vibe", cwd=folder)
        assert done.code == 0, done.err
        vibe = desk.tools["vibe"]
        desk.server.push("A heron it is.", "Seventeen.")
        for prompt in ("Plan a pond for herons.", "How many fit in?"):
            done_turn = vibe.run(prompt, cwd=folder, resume=vibe.sessions()[-1] if prompt.startswith("How") else None)
            assert done_turn.returncode == 0, done_turn.stderr
            assert "hook" not in done_turn.stderr.lower()
        shown = desk.cortext("search", "Seventeen", "--json", cwd=folder)
        assert "Seventeen." in shown.out, "captured without an import"
        done = desk.cortext("uninstall", cwd=folder)
        assert done.code == 0, done.err
        kept = files_in(folder)
        assert {name: kept.get(name) for name in before} == before
        assert not [name for name in kept if name.startswith(".vibe/") and name not in before]
