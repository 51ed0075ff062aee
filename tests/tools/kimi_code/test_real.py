"""The adapter with the real Kimi Code and a model server on loopback that records its requests."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.cli import SCRIPTS
from tests.support.desk import Desk
from tests.support.model_server import Request
from tests.support.runners import API_KEY
from tests.support.screen import Screen
from tests.support.waiting import wait_until
from tests.tools.real_flow import RealFlow

from cortext.services.resume.planning import Plan

pytestmark = pytest.mark.real_tool


class TestKimiCode(RealFlow):
    name = "kimi"
    sessions = ".kimi-code/sessions"
    targets = ("claude",)

    def check_resumed(self, desk: Desk, plan: Plan, request: Request, project: Path) -> None:
        assert any("You are Kimi Code CLI" in text for text in request.texts("system")), "its own system prompt"
        results = [turn.text for turn in request.conversation if turn.kind == "tool_result"]
        assert ["ERROR: Tool execution failed" in text for text in results] == [False, False, True]
        listed = desk.tools["kimi"].execute(["kimi", "session", "list"], cwd=project)
        assert plan.key in listed.stdout and "Herons" in listed.stdout, listed.stdout + listed.stderr

    @pytest.mark.req("TRUE-01", "FLOW-06")
    def test_a_session_whose_model_is_gone_is_written_anew(self, desk: Desk, tmp_path: Path) -> None:
        folder = desk.project(f"{tmp_path.name}-model")
        kimi = desk.tools["kimi"]
        key = desk.use("kimi", folder)
        assert desk.cortext("import", "--from", "kimi", cwd=folder).code == 0
        session = f"kimi-{key}"
        assert "its own session, as it is" in desk.cortext("resume", session, "--dry-run", cwd=folder).out
        config = kimi.home / ".kimi-code" / "config.toml"
        before = config.read_bytes() if config.exists() else None
        provider = f'type = "openai"\nbase_url = "{kimi.server_url}/v1"\napi_key = "{API_KEY}"\n'
        model = '[models.now]\nprovider = "p"\nmodel = "model-of-now"\nmax_context_size = 200000\n'
        config.write_text(f'default_model = "now"\n[providers.p]\n{provider}{model}', encoding="utf-8")
        env = {name: value for name, value in desk.env.items() if not name.startswith("KIMI_MODEL_")}
        try:
            desk.server.push("It boils.")
            command = [str(SCRIPTS / "cortext"), "resume", session]
            with Screen(desk.home.parent, command, env, folder, "150x70") as screen:
                screen.wait_for("[END RESUMED CONTEXT]", timeout=120)
                desk.say(screen, "Is the kettle boiling?")
                screen.wait_for("It boils.", timeout=60)
            (request,) = (turn for turn in desk.server.turns if "Is the kettle boiling?" in str(turn.body))
            assert request.body["model"] == "model-of-now"
            texts = "\n".join(request.texts())
            assert all(text in texts for text in ("Please put the kettle on.", "The kettle is on."))
        finally:
            config.unlink()
            if before is not None:
                config.write_bytes(before)

    @pytest.mark.req("TOOL-02", "TOOL-05", "FLOW-01")
    def test_hooks_capture_messages_and_a_skill_starts_a_conversation(self, desk: Desk, tmp_path: Path) -> None:
        folder = desk.project(tmp_path.name)  # a second run of the test needs another name
        own = {".kimi-code/mcp.json": b'{"mcpServers": {}}', "AGENTS.md": b"mine\n"}
        for name, contents in own.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(contents)
        assert desk.cortext("init", "--ai", "kimi", cwd=folder).code == 0
        assert "hooks" in desk.cortext("doctor", cwd=folder).out
        config = desk.home / ".kimi-code" / "config.toml"
        before = config.read_bytes() if config.exists() else None
        assert desk.cortext("init", "--ai", "kimi", "--user-hooks", cwd=folder).code == 0
        assert "hook kimi" in config.read_text(encoding="utf-8")
        desk.server.push("In the reeds.")
        assert desk.tools["kimi"].run("Where do herons stand?", cwd=folder).returncode == 0
        logs = (desk.home / ".local/share/cortext").rglob("messages.jsonl")
        (log,) = (text for path in logs if "Where do herons stand?" in (text := path.read_text(encoding="utf-8")))
        assert "In the reeds." in log, "captured by the hook, without an import"

        desk.server.push("What about them?")
        command = desk.tools["kimi"].interactive(resume=desk.tools["kimi"].sessions()[-1])
        with Screen(desk.home.parent, command, desk.env, folder, "150x60") as screen:
            screen.wait_for("In the reeds.", timeout=60)
            screen.type("/skill:workspace-brainstorm Herons & reeds")
            for _ in range(120):
                screen.press("Enter")  # after fast keys, the first may be taken for a new line of a paste
                try:
                    desk.server.wait_for(lambda request: "Herons & reeds" in str(request.texts()), 1)
                    break
                except TimeoutError:
                    continue
            else:
                raise AssertionError(screen.text())
            screen.wait_for("What about them?", timeout=60)
            wait_until(lambda: any(folder.glob("conversations/*/001-brainstorm-herons-reeds/.session/messages.jsonl")))
            # Kimi Code does not wait for the hook of a skill, so it is the next turn that belongs to it for certain.
            desk.server.push("In the south.")
            desk.say(screen, "And in winter?")
            (path,) = folder.glob("conversations/*/001-brainstorm-herons-reeds/.session/messages.jsonl")
            wait_until(lambda: "In the south." in path.read_text(encoding="utf-8"))
        assert "And in winter?" in path.read_text(encoding="utf-8")

        assert desk.cortext("uninstall", "--user-hooks", cwd=folder).code == 0
        assert (config.read_bytes() if config.exists() else None) == before
        assert {name: (folder / name).read_bytes() for name in own} == own
        assert not (folder / ".kimi-code" / "skills").exists()
