"""Conversations held in the real Aider, and carried into it and out of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.carrying import COMMAND, carried, imported, messages_of
from tests.support.desk import Desk
from tests.support.model_server import ModelServer, Request

from cortext.model.message import Message
from cortext.model.turns import Change
from cortext.services.resume.handover import NEW, OWN
from cortext.tools.base import Launch
from cortext.wiring.stores import Stores

pytestmark = [pytest.mark.real_tool, pytest.mark.heavy_tool, pytest.mark.req("TOOL-02", "SESS-004d", "STORE-13")]

NEXT = "What was the number, and what did the note say?"
ANSWER = "It was 4711, and the heron stands still."


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with ModelServer() as server:
        yield Desk(tmp_path_factory.mktemp("desk"), server, names=("claude", "aider"))


@pytest.fixture
def stores(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Stores:
    for name, value in desk.env.items():
        monkeypatch.setenv(name, value)
    return Stores(str(desk.home))


def texts(messages: list[Message]) -> list[str]:
    return [message.content for message in messages if message.content]


def run(desk: Desk, project: Path, words: str, answer: str, *options: str) -> Request:
    """Say something in Aider; return the request that the model received."""
    before = len(desk.server.turns)
    desk.server.push(answer)
    done = desk.tools["aider"].run(words, cwd=project, extra_args=options)
    assert done.returncode == 0, done.stderr
    return desk.server.turns[before]


def after_start(launch: Launch) -> list[str]:
    """Return the options with which `cortext resume` starts Aider."""
    return launch.argv[1:]


def test_a_conversation_held_in_aider_is_captured_and_resumed(desk: Desk, stores: Stores) -> None:
    project = desk.project("held-in-aider")
    answer = "Noted: 4711.\n\n# A heading\n\n> a quotation\n\n```sh\n# a comment\ncat note.txt\n```"
    run(desk, project, "Remember the number 4711.\n\n覚えて 🦩", answer)

    found = imported(desk, stores, "aider", project)
    messages = messages_of(found)
    assert texts(messages) == ["Remember the number 4711.\n\n覚えて 🦩", answer]
    assert messages[1].model == "openai/test-model" and messages[1].usage is not None
    assert desk.cortext("import", "--from", "aider", "--json", cwd=project).json[0]["messages"] == 0

    # In Aider: from a copy of that section, because the file would bring all others, too.
    history = (project / ".aider.chat.history.md").read_bytes()
    plan, launch = carried(found, "aider", project, stores)
    assert plan.how == OWN
    assert plan.receipt.changed == {Change.LINE_LEFT_OUT: 3}
    request = run(desk, project, "And then?", "It flew.", *after_start(launch))
    sent = "\n".join(request.texts("assistant"))
    assert "Noted: 4711." in sent and "cat note.txt" in sent
    assert not any(line in sent for line in ("A heading", "a quotation", "a comment")), "the receipt is right"
    assert (project / ".aider.chat.history.md").read_bytes() == history
    assert desk.cortext("sync", "--from", "aider", cwd=project).code == 0
    assert texts(messages_of(found)) == [*texts(messages), "And then?", "It flew."]
    assert [message.id for message in messages_of(found)][:2] == [message.id for message in messages]

    # In Claude Code.
    plan, _ = carried(found, "claude", project, stores)
    before = len(desk.server.turns)
    desk.server.push(ANSWER)
    assert desk.tools["claude"].run(f"{plan.prompt}\n\n{NEXT}", cwd=project, resume=plan.key).returncode == 0
    sent = "\n".join(desk.server.turns[before].texts())
    assert all(text in sent for text in ("Remember the number 4711.", answer, "It flew."))


@pytest.mark.parametrize("used", [False, True], ids=["fresh", "used before with another model"])
def test_a_conversation_held_in_claude_is_resumed_in_aider(desk: Desk, stores: Stores, used: bool) -> None:
    project = desk.project(f"held-in-claude-{used}")
    said = desk.talk("claude", project)
    if used:
        run(desk, project, "Hello.", "Hello!", "--model", "openai/another-model")
    found = imported(desk, stores, "claude", project)
    before = messages_of(found)

    plan, launch = carried(found, "aider", project, stores)
    assert plan.how == NEW
    request = run(desk, project, NEXT, ANSWER, *after_start(launch))

    turns = [turn for turn in request.conversation if turn.kind == "text"]
    sent = "\n".join(turn.text for turn in turns)
    call, result = '{"command": "cat note.txt"', "the heron stands still"
    order = [*said[:4], call, result, *said[4:], COMMAND.partition("\n")[0], "[END RESUMED CONTEXT]", NEXT]
    offsets = [sent.index(text) for text in order]
    assert offsets == sorted(offsets)
    roles = [next(turn.role for turn in turns if text in turn.text) for text in said]
    assert roles == ["user", "assistant", "user", "assistant", "assistant", "user", "assistant"]
    assert (plan.receipt.messages, plan.receipt.tool_calls) == (len(before), 1)
    assert plan.receipt.changed == {Change.CALLS_AS_TEXT: 1}
    assert not plan.receipt.left_out

    assert desk.cortext("sync", "--from", "aider", cwd=desk.home).code == 0
    after = messages_of(found)
    assert [message.id for message in after][: len(before)] == [message.id for message in before]
    assert [part.id for message in after for part in message.parts_of("tool_call")], "the calls are calls again"
    assert texts(after[len(before) :]) == [NEXT, ANSWER]
    assert desk.cortext("sync", "--from", "aider", cwd=desk.home).code == 0
    assert len(messages_of(found)) == len(after)
