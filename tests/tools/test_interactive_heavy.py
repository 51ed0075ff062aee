"""`cortext resume` in a real terminal, for the programs that the test command does not install."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.support.cli import SCRIPTS
from tests.support.desk import Desk
from tests.support.model_server import ModelServer
from tests.support.screen import Screen

from cortext.services.resume.planning import OWN

ANSWER = "The heron answers: I have picked it up where we stood."
THANKS = "Thank you very much."
GOODBYE = "Goodbye, and thanks for the fish."
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
        _check_its_own_session(desk, folder, tmp_path / "again", name)


def _check_its_own_session(desk: Desk, project: Path, folder: Path, name: str) -> None:
    """What was said on the screen is the program's own session now: it is opened as it is."""
    folder.mkdir()
    desk.server.push(ANSWER, ANSWER)
    command = [str(SCRIPTS / "cortext"), "resume", "herons", "--ai", name]
    with Screen(folder, command, desk.env, project, "150x70", log=folder / "log") as screen:
        screen.wait_for("Restored previous" if name == "aider" else THANKS, timeout=170)
        desk.say(screen.at_prompt(), GOODBYE)
        request = desk.server.wait_for(lambda turn: GOODBYE in str(turn.texts()), 60)
    assert OWN in (folder / "log").read_text(encoding="utf-8", errors="replace")
    sent = "\n".join(request.texts())
    order = ("How many herons are at the pond?", "seventeen herons", THANKS, GOODBYE)
    assert [sent.index(text) for text in order] == sorted(sent.index(text) for text in order)
