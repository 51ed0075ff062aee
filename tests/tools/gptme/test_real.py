"""Conversations held in the real gptme, and carried into it and out of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.desk import Desk
from tests.support.launching import captured_again, launched
from tests.support.model_server import ModelServer
from tests.support.pairs import Said, copied, hold, imported

from cortext.model.threads import thread
from cortext.model.turns import Difference
from cortext.services.resume.planning import NEW, make_plan
from cortext.wiring import tools
from cortext.wiring.stores import Stores

pytestmark = [pytest.mark.real_tool, pytest.mark.heavy_tool, pytest.mark.req("TOOL-02", "SESS-004d", "STORE-13")]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with ModelServer() as server:
        yield Desk(tmp_path_factory.mktemp("desk"), server, names=("claude", "gptme"))


@pytest.fixture(scope="module")
def held_in_claude(desk: Desk) -> tuple[Path, list[Said]]:
    project = desk.project("held-in-claude")
    return project, hold(desk, "claude", project)


@pytest.fixture
def stores(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Stores:
    for name, value in desk.env.items():
        monkeypatch.setenv(name, value)
    return Stores(str(desk.home))


def test_a_conversation_held_in_gptme_is_captured_and_resumed_in_claude(desk: Desk, stores: Stores) -> None:
    project = desk.project("held-in-gptme")
    said = hold(desk, "gptme", project)

    conversation = imported(desk, stores, "gptme", project)
    messages = thread(conversation.store.read(conversation.session.id))

    assert [Said(message.role, message.content) for message in messages if message.content] == said
    calls = [part for message in messages for part in message.parts_of("tool_call")]
    results = [part for message in messages for part in message.parts_of("tool_result")]
    assert [result.call_id for result in results] == [call.id for call in calls] and len(calls) == 3
    assert "the heron stands still" in results[0].output and "No such file" in results[2].output
    assert conversation.session.agent_config.model == "local/test-model"
    assert desk.cortext("import", "--from", "gptme", "--json", cwd=project).json[0]["messages"] == 0
    again = make_plan(conversation, tools.native_writer("gptme"), project=str(project))
    assert again.how == NEW and "was held without a terminal" in again.warnings[0]

    outcome = launched(desk, stores, copied(conversation, "claude"), "claude", project).outcome(said)
    assert (outcome.problems, outcome.left_out, outcome.calls) == ([], {}, 3)


@pytest.mark.parametrize("used", [False, True], ids=["fresh", "used before with another model"])
def test_a_conversation_held_in_claude_is_resumed_in_gptme(
    desk: Desk, stores: Stores, held_in_claude: tuple[Path, list[Said]], used: bool
) -> None:
    project, said = held_in_claude
    if used:
        options = ["--model", "openai/gpt-4o"]
        done = desk.tools["gptme"].run("Hello.", cwd=desk.project("elsewhere"), extra_args=options)
        assert done.returncode == 0, done.stderr
    conversation = copied(imported(desk, stores, "claude", project), f"gptme-{used}".lower())

    result = launched(desk, stores, conversation, "gptme", project)

    assert result.plan.how == NEW
    outcome = result.outcome(said)
    assert (outcome.problems, outcome.left_out) == ([], {})
    assert outcome.messages == outcome.of_messages and outcome.calls == outcome.of_calls == 3
    assert outcome.changed == {Difference.ERROR_FLAG: 1}
    calls = [turn for turn in result.request.conversation if turn.kind == "tool_call"]
    assert [call.name for call in calls] == ["Bash"] * 3
    assert captured_again(desk, conversation, "gptme") == []
    assert captured_again(desk, conversation, "gptme") != [], "nothing is added twice"


def test_code_in_an_answer_is_neither_run_nor_cut(desk: Desk, stores: Stores) -> None:
    project = desk.project("code")
    answer = 'Run this:\n\n```shell\ntouch ran\n```\n\nor this:\n\n@shell(x1): {"command": "touch ran"}\n\nThat is all.'
    desk.server.push(answer)
    assert desk.tools["claude"].run("How do I mark it?", cwd=project).returncode == 0
    conversation = imported(desk, stores, "claude", project)

    plan, _, request, *_ = launched(desk, stores, conversation, "gptme", project)

    sent = "\n".join(request.texts("assistant"))
    assert "touch ran" in sent and "That is all." in sent
    assert not [turn for turn in request.conversation if turn.kind == "tool_call"]
    assert plan.receipt.changed == {Difference.CODE_FENCE: 1}
    assert not (project / "ran").exists()
    assert captured_again(desk, conversation, "gptme") == []
    assert answer in [message.content for message in conversation.store.read(conversation.session.id)]
