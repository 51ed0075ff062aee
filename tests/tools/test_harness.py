"""The harness itself: the real programs reach our model, and only it, and store what was said."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.support.model_server import ModelServer, Reply
from tests.support.runners import TOOLS, Tool, make_tool

# How each program marks a tool call in what it stores.
STORED_CALL = {
    "claude-code": '"type": "tool_use"',
    "gemini-cli": '"toolCalls": [',
    "opencode": '"type": "tool"',
    "codex": '"type": "function_call"',
}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture(params=sorted(TOOLS))
def tool(request: pytest.FixtureRequest, tmp_path: Path, server: ModelServer) -> Tool:
    return make_tool(request.param, tmp_path / "home", server.url)


def stored(tool: Tool) -> str:
    return "\n".join(json.dumps(record, ensure_ascii=False) for record in tool.records())


@pytest.mark.real_tool
def test_plain_turn_reaches_the_model_and_is_stored(tool: Tool, server: ModelServer, project: Path) -> None:
    server.push("The answer is forty-two, naïvely.")

    done = tool.run("What is the answer? Ünïcode: 答え", cwd=project)

    assert done.returncode == 0, done.stderr
    assert "forty-two, naïvely" in done.stdout
    (asked,) = server.turns
    assert asked.texts("user")[-1] == "What is the answer? Ünïcode: 答え"
    assert len(tool.sessions()) == 1
    assert "What is the answer? Ünïcode: 答え" in stored(tool)
    assert "The answer is forty-two, naïvely." in stored(tool)


@pytest.mark.real_tool
def test_tool_call_is_run_by_the_real_program(tool: Tool, server: ModelServer, project: Path) -> None:
    (project / "note.txt").write_text("the heron stands still\n", encoding="utf-8")
    server.push(tool.shell("cat note.txt"), "I have read the note.")

    done = tool.run("Read the note, please.", cwd=project)

    assert done.returncode == 0, done.stderr
    assert "I have read the note." in done.stdout
    assert server.pending == 0
    _, after = server.turns
    called, answered = [turn for turn in after.conversation if turn.kind in ("tool_call", "tool_result")]
    assert (called.name, called.kind) == (tool.shell_tool, "tool_call")
    assert called.arguments[tool.shell_argument] == "cat note.txt"
    assert "the heron stands still" in answered.text
    assert answered.call_id == called.call_id
    for text in (STORED_CALL[tool.name], "cat note.txt", "the heron stands still", "I have read the note."):
        assert text in stored(tool)


@pytest.mark.real_tool
def test_resumed_turn_carries_the_first_one(tool: Tool, server: ModelServer, project: Path) -> None:
    server.push("Noted: the boat is green.", "It is green.")
    tool.run("The boat is green.", cwd=project)
    (session,) = tool.sessions()

    done = tool.run("Which colour?", cwd=project, resume=session)

    assert done.returncode == 0, done.stderr
    texts = [turn.text for turn in server.turns[-1].conversation if turn.kind == "text"]
    places = [texts.index(said) for said in ("The boat is green.", "Noted: the boat is green.", "Which colour?")]
    assert places == sorted(places)


@pytest.mark.real_tool
def test_all_programs_run_at_once(server: ModelServer, project: Path, tmp_path: Path) -> None:
    tools = [make_tool(name, tmp_path / name, server.url) for name in TOOLS]

    with ThreadPoolExecutor(len(tools)) as pool:
        done = list(pool.map(lambda tool: tool.run(f"I am {tool.name}.", cwd=project), tools))

    assert [run.returncode for run in done] == [0] * len(tools), [run.stderr for run in done]
    assert sorted(turn.texts("user")[-1] for turn in server.turns) == sorted(f"I am {name}." for name in TOOLS)
    for tool in tools:
        others = [name for name in TOOLS if name != tool.name]
        assert f"I am {tool.name}." in stored(tool)
        assert not any(f"I am {name}." in stored(tool) for name in others)


@pytest.mark.real_tool
def test_nothing_of_our_own_environment_is_inherited(
    tool: Tool, server: ModelServer, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORTEXT_TEST_LEAK", "leaked")
    server.push(tool.shell("echo leak=$CORTEXT_TEST_LEAK home=$HOME"), "ok")

    tool.run("Show the environment.", cwd=project)

    (answered,) = [turn for turn in server.turns[-1].conversation if turn.kind == "tool_result"]
    assert f"leak= home={tool.home}" in answered.text


def test_late_program_is_killed_with_its_children(tmp_path: Path, server: ModelServer) -> None:
    tool = make_tool("codex", tmp_path / "home", server.url)
    script = "sleep 600 & echo $! > child; wait"

    with pytest.raises(subprocess.TimeoutExpired):
        tool.execute(["/bin/sh", "-c", script], cwd=tmp_path, timeout=3.0)

    child = int((tmp_path / "child").read_text(encoding="utf-8"))
    deadline = time.monotonic() + 10
    while _is_alive(child):
        assert time.monotonic() < deadline, "the child outlived its program"


def _is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


# --- the model server by itself -----------------------------------------------------------------------------

# A path and a smallest body of each protocol, as a streamed question where the protocol says so in the body.
QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "anthropic": ("/v1/messages", {"messages": [{"role": "user", "content": "hi"}], "stream": True}),
    "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], "stream": True}),
    "responses": ("/v1/responses", {"input": "hi", "stream": True}),
    "gemini": (
        "/v1beta/models/m:streamGenerateContent",
        {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
    ),
}


def ask(server: ModelServer, path: str, body: dict[str, Any]) -> str:
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=10) as answer:
        return str(answer.read().decode())


@pytest.mark.parametrize("protocol", sorted(QUESTIONS))
def test_server_tells_the_turns_apart(server: ModelServer, protocol: str) -> None:
    path, body = QUESTIONS[protocol]

    assert "(#1)" in ask(server, path, body).replace('"}', "")

    (asked,) = server.turns
    assert (asked.protocol, asked.texts("user")) == (protocol, ["hi"])


@pytest.mark.parametrize("protocol", sorted(QUESTIONS))
def test_scripted_error_and_broken_stream(server: ModelServer, protocol: str) -> None:
    path, body = QUESTIONS[protocol]
    server.push(Reply.error(503, "try later"), Reply.cut("one two three four", after=1))

    with pytest.raises(urllib.error.HTTPError) as failed:
        ask(server, path, body)
    with failed.value as answer:
        assert (answer.code, "try later" in answer.read().decode()) == (503, True)
    with pytest.raises(http.client.IncompleteRead) as broken:
        ask(server, path, body)
    assert b"four" not in broken.value.partial


def test_errand_leaves_the_script_alone(server: ModelServer) -> None:
    server.push("for the turn")
    path, body = QUESTIONS["gemini"]
    schema = {"type": "OBJECT", "properties": {"complexity_score": {"type": "INTEGER"}}}

    errand = ask(server, path, {**body, "generationConfig": {"responseSchema": schema}})
    ask(server, "/v1/messages/count_tokens", {"messages": []})

    assert "complexity_score" in errand
    assert (server.pending, server.turns) == (1, [])


def test_held_reply_waits_for_the_test(server: ModelServer) -> None:
    go = threading.Event()
    server.push(Reply(text="slow words", hold=go))
    path, body = QUESTIONS["chat"]

    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, server, path, body)
        server.wait_for(lambda request: request.is_turn, timeout=10)
        assert not answer.done()
        go.set()
        assert "words" in answer.result(10)


def test_prompt_may_ask_for_a_tool_call(server: ModelServer) -> None:
    path, _ = QUESTIONS["anthropic"]
    prompt = 'do TOOLCALL:Bash:{"command": "ls"}:END please'

    answer = json.loads(ask(server, path, {"messages": [{"role": "user", "content": prompt}]}))

    assert answer["content"] == [
        {"type": "tool_use", "id": answer["content"][0]["id"], "name": "Bash", "input": {"command": "ls"}}
    ]


def test_waiting_for_a_request_that_never_comes_ends(server: ModelServer) -> None:
    with pytest.raises(TimeoutError, match="no matching request"):
        server.wait_for(lambda request: True, timeout=0.05)


def test_proxy_use_is_refused_and_written_down(server: ModelServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.set_tunnel("example.invalid", 443)

    with pytest.raises(OSError, match="403"):
        connection.connect()

    connection.close()
    assert server.refused == ["example.invalid:443"]


def test_path_is_all_that_a_tool_gets(tmp_path: Path, server: ModelServer) -> None:
    tool = make_tool("claude-code", tmp_path / "home", server.url)

    assert tool.env["PATH"] == os.environ["PATH"]
    assert tool.env["HOME"] == str(tmp_path / "home")
    assert "USER" not in tool.env
