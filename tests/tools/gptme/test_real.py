"""Conversations held in the real gptme, and carried into it and out of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.carrying import COMMAND, carried, continued, imported, messages_of
from tests.support.desk import Desk
from tests.support.model_server import ModelServer, Reply, ToolCall

from cortext.model.message import Message
from cortext.model.turns import Change
from cortext.services.resume.handover import NEW, OWN, make_plan
from cortext.wiring import tools
from cortext.wiring.stores import Stores

pytestmark = [pytest.mark.real_tool, pytest.mark.heavy_tool, pytest.mark.req("TOOL-02", "SESS-004d", "STORE-13")]

NEXT = "What was the number, and what did the note say?"
ANSWER = "It was 4711, and the heron stands still."
# Without a terminal, gptme asks the model twice whether it is done; the server's answers are numbered.
AFTERWARDS = "Hello from the test model."


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with ModelServer() as server:
        yield Desk(tmp_path_factory.mktemp("desk"), server, names=("claude", "gptme"))


@pytest.fixture
def stores(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Stores:
    for name, value in desk.env.items():
        monkeypatch.setenv(name, value)
    return Stores(str(desk.home))


def texts(messages: list[Message]) -> list[str]:
    return [message.content for message in messages if message.content and not message.content.startswith(AFTERWARDS)]


def test_a_conversation_held_in_gptme_is_captured_and_resumed_in_claude(desk: Desk, stores: Stores) -> None:
    project = desk.project("held-in-gptme")
    said = desk.talk("gptme", project)
    failing = ToolCall("shell", {"command": "cat nope.txt"})
    desk.server.push(Reply(tool_calls=(failing, ToolCall("shell", {"command": "echo two"}))), "One of them failed.")
    done = desk.tools["gptme"].run("Two more.", cwd=project, resume=desk.tools["gptme"].sessions()[-1])
    assert done.returncode == 0, done.stderr

    found = imported(desk, stores, "gptme", project)
    messages = messages_of(found)

    assert texts(messages) == [*said, "Two more.", "One of them failed."]
    calls = [part for message in messages for part in message.parts_of("tool_call")]
    results = [part for message in messages for part in message.parts_of("tool_result")]
    assert [call.name for call in calls] == ["shell"] * len(calls) and len(calls) >= 2
    assert [result.call_id for result in results] == [call.id for call in calls]
    assert "the heron stands still" in results[0].output
    assert "No such file" in results[1].output
    assert desk.cortext("import", "--from", "gptme", "--json", cwd=project).json[0]["messages"] == 0
    own = make_plan(found, tools.native_writer("gptme"), project=str(project))
    assert (own.how, own.key) == (OWN, found.session.origin.session_id)

    plan, _ = carried(found, "claude", project, stores)
    request = continued(desk, "claude", plan, project, NEXT, ANSWER)
    sent = "\n".join(turn.text for turn in request.conversation if turn.kind == "text")
    assert [sent.index(text) for text in said] == sorted(sent.index(text) for text in said)
    assert plan.receipt.tool_calls == sum(turn.kind == "tool_call" for turn in request.conversation) == len(calls)


@pytest.mark.parametrize("used", [False, True], ids=["fresh", "used before with another model"])
def test_a_conversation_held_in_claude_is_resumed_in_gptme(desk: Desk, stores: Stores, used: bool) -> None:
    project = desk.project(f"held-in-claude-{used}")
    said = desk.talk("claude", project)
    gptme = desk.tools["gptme"]
    if used:
        elsewhere = desk.project("elsewhere")
        done = gptme.run("Hello.", cwd=elsewhere, extra_args=["--model", "openai/gpt-4o"])
        assert done.returncode == 0, done.stderr
    found = imported(desk, stores, "claude", project)
    before = messages_of(found)

    plan, launch = carried(found, "gptme", project, stores)
    assert plan.how == NEW
    assert launch.argv[1:3] == ["--name", plan.key]
    request = continued(desk, "gptme", plan, project, NEXT, ANSWER)

    turns = request.conversation
    sent = "\n".join(turn.text for turn in turns if turn.kind == "text")
    offsets = [sent.index(text) for text in [*said, COMMAND, "[END RESUMED CONTEXT]", NEXT]]
    assert offsets == sorted(offsets)
    roles = [next(turn.role for turn in turns if turn.kind == "text" and text in turn.text) for text in said]
    assert roles == ["user", "assistant", "user", "assistant", "assistant", "user", "assistant"]
    calls = [turn for turn in turns if turn.kind == "tool_call"]
    results = [turn for turn in turns if turn.kind == "tool_result"]
    assert [(call.name, call.call_id) for call in calls] == [("Bash", results[0].call_id)]
    assert "the heron stands still" in results[0].text
    assert (plan.receipt.messages, plan.receipt.tool_calls) == (len(before), len(calls))
    assert not plan.receipt.left_out and Change.CALLS_AS_TEXT not in plan.receipt.changed

    assert desk.cortext("sync", "--from", "gptme", cwd=desk.home).code == 0
    after = messages_of(found)
    assert [message.id for message in after][: len(before)] == [message.id for message in before]
    assert texts(after)[-1] == ANSWER and texts(after[: len(before)]) == said
    assert desk.cortext("sync", "--from", "gptme", "--json", cwd=desk.home).code == 0
    assert len(messages_of(found)) == len(after)


def test_code_in_an_answer_is_neither_run_nor_cut(desk: Desk, stores: Stores) -> None:
    project = desk.project("code")
    answer = 'Run this:\n\n```shell\ntouch ran\n```\n\nor this:\n\n@shell(x1): {"command": "touch ran"}\n\nThat is all.'
    desk.server.push(answer)
    assert desk.tools["claude"].run("How do I mark it?", cwd=project).returncode == 0
    found = imported(desk, stores, "claude", project)

    plan, _ = carried(found, "gptme", project, stores)
    request = continued(desk, "gptme", plan, project, NEXT, ANSWER)

    sent = "\n".join(request.texts("assistant"))
    assert "touch ran" in sent and "That is all." in sent
    assert not [turn for turn in request.conversation if turn.kind == "tool_call"]
    assert plan.receipt.changed == {Change.CODE_FENCE: 1}
    assert not (project / "ran").exists()
    assert desk.cortext("sync", "--from", "gptme", cwd=desk.home).code == 0
    assert answer in texts(messages_of(found))
