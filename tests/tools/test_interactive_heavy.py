"""`cortext resume` in a real terminal, for the programs that the test command does not install."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.support.cli import SCRIPTS
from tests.support.desk import Desk
from tests.support.model_server import ModelServer
from tests.support.screen import Screen

ANSWER = "The heron answers: I have picked it up where we stood."
THANKS = "Thank you very much."
MESSAGES = (
    '{"role": "user", "content": "How many herons are at the pond?", "timestamp": "2026-11-14T10:00:00Z"}\n'
    '{"role": "assistant", "content": "I counted seventeen herons.", "timestamp": "2026-11-14T10:00:05Z"}\n'
)


@pytest.mark.real_tool
@pytest.mark.heavy_tool
@pytest.mark.req("SESS-004a", "SESS-004d", "TOOL-02")
@pytest.mark.parametrize("name", ["gptme", "aider"])
def test_the_program_opens_with_the_conversation_and_what_is_said_there_is_captured(tmp_path: Path, name: str) -> None:
    with ModelServer() as server:
        desk = Desk(tmp_path, server, names=(name,))
        folder = desk.project("w")
        assert desk.cortext("init", "--ai", "claude", cwd=folder).code == 0
        assert desk.cortext("new", "plan", "Herons at the pond", cwd=folder).code == 0
        log = next(folder.glob("conversations/*/*/.session/messages.jsonl"))
        log.write_text(MESSAGES, encoding="utf-8")
        server.push(ANSWER, ANSWER)
        command = [str(SCRIPTS / "cortext"), "resume", "herons", "--ai", name]
        with Screen(tmp_path, command, desk.env, folder, "150x70") as screen:
            # Aider takes no first prompt: the user speaks first.
            screen.wait_for("where we stood" if name == "gptme" else "Restored previous", timeout=170)
            desk.say(screen.at_prompt(), THANKS)
            request = server.wait_for(lambda turn: THANKS in str(turn.texts()), 60)
            sent = "\n".join(request.texts())
            order = ("How many herons are at the pond?", "seventeen herons", "[RESUMED CONVERSATION]", THANKS)
            assert [sent.index(text) for text in order] == sorted(sent.index(text) for text in order)
            deadline = time.monotonic() + 120
            while THANKS not in log.read_text(encoding="utf-8"):
                assert time.monotonic() < deadline, screen.text()
                assert desk.cortext("sync", "--from", name, cwd=folder).code == 0
        row = desk.cortext("list", "--here", "--json", cwd=folder).json[0]
        assert (row["status"], row["tool"]) == ("active", name)
        texts = log.read_text(encoding="utf-8")
        assert texts.count("How many herons") == texts.count(THANKS) == 1
