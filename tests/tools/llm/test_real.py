"""Conversations held in the real llm, read from the log that it wrote."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.ai_programs import ensure
from tests.support.cli import cortext
from tests.support.model_server import ModelServer, Reply

from cortext.tools.llm.adapter import Llm

pytestmark = [pytest.mark.real_tool, pytest.mark.heavy_tool, pytest.mark.req("TOOL-02", "TOOL-03")]

Run = Callable[..., str]
MODEL = """
- model_id: test
  model_name: test-model
  api_base: {url}/v1
  api_key_name: test
  supports_tools: true
  vision: true
"""


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def run(home: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs llm with these arguments and returns what it printed."""
    folder = home / "llm"
    folder.mkdir(parents=True)
    monkeypatch.setenv("LLM_USER_PATH", str(folder))
    (folder / "extra-openai-models.yaml").write_text(MODEL.format(url=server.url))
    (folder / "keys.json").write_text('{"test": "dummy"}')

    def run(*arguments: str) -> str:
        env = {name: os.environ[name] for name in ("HOME", "PATH", "LLM_USER_PATH")} | {"HTTPS_PROXY": server.url}
        command = [ensure("llm"), *arguments]
        done = subprocess.run(
            command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


def test_a_conversation_with_a_call_a_fragment_and_an_image_is_imported(
    home: Path, server: ModelServer, run: Run
) -> None:
    (home / "page.txt").write_text("A page about herons.")
    (home / "pond.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    server.push("Seventeen herons.", Reply.call("llm_version"), "It is 0.36.")
    files = ("-f", str(home / "page.txt"), "-a", str(home / "pond.png"))
    run("-m", "test", "-s", "You count birds", *files, "How many herons? 答え")
    run("-c", "-T", "llm_version", "And your version?")

    tool = Llm()
    (found,) = tool.transcripts()
    reading = tool.read(found)
    messages = list(reading)

    assert [(message.role, message.text) for message in messages] == [
        ("system", "You count birds"),
        ("user", "A page about herons.\nHow many herons? 答え"),
        ("assistant", "Seventeen herons."),
        ("user", "And your version?"),
        ("assistant", ""),
        ("tool", "0.36"),
        ("assistant", "It is 0.36."),
    ]
    assert messages[1].parts_of("image")[0].ref == str(home / "pond.png")
    assert messages[4].parts_of("tool_call")[0].id == messages[5].parts_of("tool_result")[0].call_id
    assert all(message.timestamp for message in messages[1:])
    assert (messages[2].model, reading.about.model) == ("test", "test")
    assert (reading.counts.damaged, reading.counts.unknown) == ({}, {})
    (report,) = cortext("import", "--from", "llm", "--json").json
    assert (report["created"], report["messages"], report["tool_calls"]) == (1, 7, 1)
    run("-c", "Thanks")
    (report,) = cortext("sync", "--from", "llm", "--json").json
    assert (report["updated"], report["messages"]) == (1, 2)


def test_the_installed_version_is_the_tested_one(home: Path) -> None:
    program = Path(ensure("llm"))

    found = Llm(str(home), {"PATH": str(program.parent), "HOME": str(home)}).detect()

    assert found is not None and (found.version, found.tested) == ("0.36", True)
