"""The adapter with the real Qwen Code and a model server on loopback that records its requests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.desk import Desk
from tests.support.model_server import ModelServer
from tests.support.runners import QwenCode, Tool
from tests.tools.real_flow import RealFlow

pytestmark = pytest.mark.real_tool


class TestQwenCode(RealFlow):
    name = "qwen"
    sessions = ".qwen/projects"
    attached = ("[attached: note.txt]\nthe heron stands still\n",)

    @classmethod
    def choose_another_model(cls, tool: Tool) -> None:
        assert isinstance(tool, QwenCode)
        tool.choose_model("another-model")


@pytest.mark.req("TOOL-05", "FLOW-01", "FLOW-09")
def test_hooks_keep_a_conversation_and_resume_another_one_inside(tmp_path: Path) -> None:
    with ModelServer() as server:
        desk = Desk(tmp_path, server, names=("qwen",))
        tool, project = desk.tools["qwen"], desk.project("w")
        settings = project / ".qwen" / "settings.json"
        settings.parent.mkdir()
        settings.write_text('{\n  // mine\n  "$version": 4,\n  "ui": {"hideTips": true}\n}\n', encoding="utf-8")
        before = settings.read_bytes()
        done = desk.cortext("init", "--ai", "qwen", cwd=project)
        assert done.code == 0, done.err

        def say(words: str, answer: str, key: str | None = None) -> str:
            server.push(answer)
            assert tool.run(words, cwd=project, resume=key).returncode == 0
            return key or tool.sessions()[-1]

        first = say("/workspace.brainstorm API design", "What is the core problem?")
        say("REST or GraphQL?", "REST, because it is simple.", first)
        log = next(project.glob("conversations/*/001-brainstorm-api-design/.session/messages.jsonl"))
        kept = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        assert [(message["role"], message["content"]) for message in kept] == [
            ("user", "/workspace.brainstorm API design"),
            ("assistant", "What is the core problem?"),
            ("user", "REST or GraphQL?"),
            ("assistant", "REST, because it is simple."),
        ], "without an import"

        # Another chat resumes it, and is attached to it.
        second = say("/workspace.resume 001", "Picked up: REST.")
        received = "\n".join(server.turns[-1].texts())
        assert "[RESUMED CONVERSATION]" in received and "REST, because it is simple." in received
        say("What about pagination?", "Cursors, not pages.", second)
        assert "Cursors, not pages." in log.read_text(encoding="utf-8")
        assert "[RESUMED CONVERSATION]" not in log.read_text(encoding="utf-8")

        assert desk.cortext("uninstall", cwd=project).code == 0
        assert settings.read_bytes() == before
        assert sorted(path.name for path in settings.parent.rglob("*")) == ["settings.json"]
