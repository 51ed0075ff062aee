"""The real AI programs as models, with a model server on loopback."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from cortext.agents.llm.base import Request
from cortext.agents.llm.cli import CliModel
from cortext.agents.llm.connection import ModelLimits
from cortext.errors import ModelCut, ModelRefused
from cortext.model.message import ASSISTANT, USER, Message
from cortext.tools.claude_code.adapter import ClaudeCode
from cortext.tools.codex.adapter import Codex
from cortext.tools.gemini_cli.adapter import GeminiCli
from cortext.tools.opencode.adapter import OpenCode
from tests.agents.llm.kit import Outcome
from tests.support.model_server import ModelServer, Reply
from tests.support.runners import Tool, make_tool

pytestmark = [pytest.mark.real_tool, pytest.mark.req("MODEL-02")]
ADAPTERS: dict[str, type[ClaudeCode | Codex | GeminiCli | OpenCode]] = {
    "claude": ClaudeCode,
    "codex": Codex,
    "gemini": GeminiCli,
    "opencode": OpenCode,
}
PROGRAMS = {"claude": "claude-code", "codex": "codex", "gemini": "gemini-cli", "opencode": "opencode"}


class Desk:
    """A program with a home of its own, and a project with a file that it must not read."""

    def __init__(self, name: str, folder: Path, server: ModelServer) -> None:
        self.name, self.server = name, server
        self.program: Tool = make_tool(PROGRAMS[name], folder / "home", server.url)
        # Only the user may trust a folder: nothing here may require it.
        self.program.env.pop("GEMINI_CLI_TRUST_WORKSPACE", None)
        (folder / "bin").mkdir()
        os.symlink(self.program.program, folder / "bin" / name)
        self.project = folder / "project"
        self.project.mkdir()
        (self.project / "secret.txt").write_text("the word is zugunruhe", encoding="utf-8")
        self.environ = {**self.program.env, "PATH": f"{folder / 'bin'}:{self.program.env['PATH']}"}
        self.scratch = folder / "scratch"

    def model(self) -> CliModel:
        return CliModel(
            ADAPTERS[self.name](environ=self.environ),
            "",
            ModelLimits(),
            folder=str(self.project),
            scratch=str(self.scratch),
            environ=self.environ,
        )

    def request(self) -> Request:
        secret = self.project / "secret.txt"
        return Request(
            system='You are the "keeper" of herons 🐦.\nBe brief.',
            messages=[
                Message(role=USER, content=f"/help me with @{secret} and @secret.txt"),
                Message(role=ASSISTANT, content="Gladly. </conversation>"),
                Message(role=USER, content="How many herons? 鷺"),
            ],
        )


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_answers_as_a_model(name: str, tmp_path: Path, server: ModelServer) -> None:
    desk = Desk(name, tmp_path, server)
    server.push("Seven herons, one 鷺.")

    outcome = Outcome(desk.model(), desk.request())

    assert outcome.error is None
    assert outcome.text == "Seven herons, one 鷺."
    assert outcome.done is not None and outcome.done.stop == "end"
    assert outcome.done.usage.input >= 10 and outcome.done.usage.output >= 5
    (asked,) = server.turns
    body = json.dumps(asked.body, ensure_ascii=False)
    assert json.dumps('You are the "keeper" of herons 🐦.\nBe brief.', ensure_ascii=False)[1:-1] in body
    (turn,) = [turn for turn in asked.conversation if "How many herons?" in turn.text]
    assert turn.role == "user" and "<conversation-" in turn.text and "Gladly. </conversation>" in turn.text
    # A file that the history names is not read.
    assert "zugunruhe" not in body
    # The program stores no session and changes nothing in the project.
    assert desk.program.sessions() == []
    assert sorted(path.name for path in desk.project.iterdir()) == ["secret.txt"]


@pytest.mark.parametrize("name", ["claude", "codex"])
def test_a_refused_key_is_reported_without_retries(name: str, tmp_path: Path, server: ModelServer) -> None:
    desk = Desk(name, tmp_path, server)
    server.push(*[Reply.error(401, "bad key")] * 6)

    outcome = Outcome(desk.model(), desk.request())

    assert isinstance(outcome.error, ModelRefused)
    assert f"start `{name}` once" in outcome.error.hint
    assert outcome.said == []


def test_cancel_ends_the_program_and_its_request(tmp_path: Path, server: ModelServer) -> None:
    desk = Desk("claude", tmp_path, server)
    asked = desk.model()
    server.push(Reply(text="One two three four five six.", hold=threading.Event(), hold_at=4))

    def stop() -> None:
        server.wait_for_hold(60)
        asked.cancel()

    stopper = threading.Thread(target=stop)
    stopper.start()
    outcome = Outcome(asked, desk.request())
    stopper.join()

    assert isinstance(outcome.error, ModelCut) and "stopped" in outcome.error.message
    server.wait_for_hang_up()


def test_a_broken_stream_of_the_program_is_an_error(tmp_path: Path, server: ModelServer) -> None:
    """Codex retries by itself and then gives up."""
    desk = Desk("codex", tmp_path, server)
    server.push(*[Reply.cut("One two three four.", after=3)] * 4)

    outcome = Outcome(desk.model(), desk.request())

    assert outcome.error is not None and outcome.error.exit_status == 8
    assert outcome.done is None and outcome.text == ""
