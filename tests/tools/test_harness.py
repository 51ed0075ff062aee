"""The harness itself: the real programs reach the model server, and nothing else, and store their conversations."""

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
from typing import Any, NamedTuple

import pytest
from tests.support.model_server import ModelServer, Reply, Request
from tests.support.runners import TOOLS, Tool, make_tool

# How each program stores a tool call.
STORED_CALL = {
    "claude-code": '"type": "tool_use"',
    "gemini-cli": '"toolCalls": [',
    "opencode": '"type": "tool"',
    "codex": '"type": "function_call"',
}

QUESTION = "What is the answer? Ünïcode: 答え"
COMMAND = "cat note.txt; echo leak=$CORTEXT_TEST_LEAK home=$HOME"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


class Held(NamedTuple):
    """Two turns in a real program: one without a tool call, and one with a call, in which the first is resumed."""

    tool: Tool
    outputs: list[str]
    requests: list[Request]
    sessions: list[str]  # after the first turn

    @property
    def stored(self) -> str:
        return stored(self.tool)


@pytest.fixture(
    scope="module",
    params=[
        "claude-code",
        "codex",
        pytest.param("gemini-cli", marks=pytest.mark.repeats),
        pytest.param("opencode", marks=pytest.mark.repeats),
    ],
)
def held(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Held]:
    """Hold the two turns, once for each program."""
    folder = tmp_path_factory.mktemp(request.param)
    project = folder / "project"
    project.mkdir()
    (project / "note.txt").write_text("the heron stands still\n", encoding="utf-8")
    with ModelServer() as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("CORTEXT_TEST_LEAK", "leaked")
        tool = make_tool(request.param, folder / "home", server.url)
        server.push("The answer is forty-two, naïvely.", tool.shell(COMMAND), "I have read the note.")
        first = tool.run(QUESTION, cwd=project)
        assert first.returncode == 0, first.stderr
        sessions = tool.sessions()
        second = tool.run("Read the note, please.", cwd=project, resume=sessions[-1])
        assert second.returncode == 0, second.stderr
        assert server.pending == 0
        yield Held(tool, [first.stdout, second.stdout], server.turns, sessions)


def stored(tool: Tool) -> str:
    return "\n".join(json.dumps(record, ensure_ascii=False) for record in tool.records())


@pytest.mark.real_tool
def test_a_plain_turn_reaches_the_model_and_is_stored(held: Held) -> None:
    assert "forty-two, naïvely" in held.outputs[0]
    assert len(held.requests) == 3, "one for the first turn, and two for the one with a call"
    assert held.requests[0].texts("user")[-1] == QUESTION
    assert len(held.sessions) == 1
    assert QUESTION in held.stored
    assert "The answer is forty-two, naïvely." in held.stored


@pytest.mark.real_tool
def test_a_tool_call_is_run_by_the_real_program(held: Held) -> None:
    assert "I have read the note." in held.outputs[1]
    call, result = [turn for turn in held.requests[-1].conversation if turn.kind in ("tool_call", "tool_result")]
    assert (call.name, call.kind) == (held.tool.shell_tool, "tool_call")
    assert call.arguments[held.tool.shell_argument] == COMMAND
    assert "the heron stands still" in result.text
    assert result.call_id == call.call_id
    for text in (STORED_CALL[held.tool.name], "cat note.txt", "the heron stands still", "I have read the note."):
        assert text in held.stored


@pytest.mark.real_tool
def test_a_resumed_turn_includes_the_first_one(held: Held) -> None:
    assert held.tool.sessions() == held.sessions
    texts = [turn.text for turn in held.requests[1].conversation if turn.kind == "text"]
    said = (QUESTION, "The answer is forty-two, naïvely.", "Read the note, please.")
    order = [texts.index(text) for text in said]
    assert order == sorted(order)


@pytest.mark.real_tool
def test_a_program_inherits_nothing_of_our_environment(held: Held) -> None:
    (result,) = [turn for turn in held.requests[-1].conversation if turn.kind == "tool_result"]
    assert f"leak= home={held.tool.home}" in result.text


@pytest.mark.real_tool
def test_all_programs_can_run_at_the_same_time(server: ModelServer, project: Path, tmp_path: Path) -> None:
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
def test_a_program_that_takes_too_long_is_killed_with_its_children(tmp_path: Path, server: ModelServer) -> None:
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

# The path and a minimal body for each protocol; the body asks for streaming if the protocol has a field for it.
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
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


@pytest.mark.parametrize("protocol", sorted(REQUESTS))
def test_the_server_recognises_the_turns_of_each_protocol(server: ModelServer, protocol: str) -> None:
    path, body = REQUESTS[protocol]

    assert "(#1)" in ask(server, path, body).replace('"}', "")

    (request,) = server.turns
    assert (request.protocol, request.texts("user")) == (protocol, ["hi"])


@pytest.mark.parametrize("protocol", sorted(REQUESTS))
def test_the_server_can_fail_and_break_a_stream_as_scripted(server: ModelServer, protocol: str) -> None:
    path, body = REQUESTS[protocol]
    server.push(Reply.error(503, "try later"), Reply.cut("one two three four", after=1))

    with pytest.raises(urllib.error.HTTPError) as failed:
        ask(server, path, body)
    with failed.value as answer:
        assert (answer.code, "try later" in answer.read().decode()) == (503, True)
    with pytest.raises(http.client.IncompleteRead) as broken:
        ask(server, path, body)
    assert b"four" not in broken.value.partial


def test_an_auxiliary_request_uses_no_scripted_reply(server: ModelServer) -> None:
    server.push("for the turn")
    path, body = REQUESTS["gemini"]
    schema = {"type": "OBJECT", "properties": {"complexity_score": {"type": "INTEGER"}}}

    auxiliary = ask(server, path, {**body, "generationConfig": {"responseSchema": schema}})
    ask(server, "/v1/messages/count_tokens", {"messages": []})

    assert "complexity_score" in auxiliary
    assert (server.pending, server.turns) == (1, [])


def test_a_held_reply_waits_for_the_test(server: ModelServer) -> None:
    go = threading.Event()
    server.push(Reply(text="slow words", hold=go))
    path, body = REQUESTS["chat"]

    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, server, path, body)
        server.wait_for(lambda request: request.is_turn, timeout=10)
        assert not answer.done()
        go.set()
        assert "words" in answer.result(10)


def test_a_prompt_can_request_a_tool_call(server: ModelServer) -> None:
    path, _ = REQUESTS["anthropic"]
    prompt = 'do TOOLCALL:Bash:{"command": "ls"}:END please'

    answer = json.loads(ask(server, path, {"messages": [{"role": "user", "content": prompt}]}))

    assert answer["content"] == [
        {"type": "tool_use", "id": answer["content"][0]["id"], "name": "Bash", "input": {"command": "ls"}}
    ]


def test_waiting_for_a_request_that_never_comes_times_out(server: ModelServer) -> None:
    with pytest.raises(TimeoutError, match="no matching request"):
        server.wait_for(lambda request: True, timeout=0.05)


def test_a_proxy_request_is_refused_and_recorded(server: ModelServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.set_tunnel("example.invalid", 443)

    with pytest.raises(OSError, match="403"):
        connection.connect()

    connection.close()
    assert server.refused == ["example.invalid:443"]


@pytest.mark.real_tool
def test_a_tool_gets_only_path_from_our_environment(tmp_path: Path, server: ModelServer) -> None:
    tool = make_tool("claude-code", tmp_path / "home", server.url)

    assert tool.env["PATH"] == os.environ["PATH"]
    assert tool.env["HOME"] == str(tmp_path / "home")
    assert "USER" not in tool.env
