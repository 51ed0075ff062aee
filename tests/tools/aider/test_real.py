"""Conversations held in the real Aider, and carried into it and out of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.desk import Desk
from tests.support.launching import captured_again, launched
from tests.support.model_server import ModelServer
from tests.support.pairs import Said, copied, hold, imported

from cortext.model.message import ASSISTANT, USER, Message
from cortext.model.threads import thread
from cortext.model.turns import Difference
from cortext.services.library.stores import StoredConversation
from cortext.services.resume.handover import carry_out
from cortext.services.resume.planning import NEW, OWN, make_plan
from cortext.wiring import tools
from cortext.wiring.stores import Stores

pytestmark = [pytest.mark.real_tool, pytest.mark.heavy_tool, pytest.mark.req("TOOL-02", "SESS-004d", "STORE-13")]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with ModelServer() as server:
        yield Desk(tmp_path_factory.mktemp("desk"), server, names=("claude", "aider"))


@pytest.fixture(scope="module")
def held_in_claude(desk: Desk) -> tuple[Path, list[Said]]:
    project = desk.project("held-in-claude")
    return project, hold(desk, "claude", project)


@pytest.fixture
def stores(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Stores:
    for name, value in desk.env.items():
        monkeypatch.setenv(name, value)
    return Stores(str(desk.home))


def messages_of(conversation: StoredConversation) -> list[Message]:
    return thread(conversation.store.read(conversation.session.id))


def test_a_conversation_held_in_aider_is_captured_and_resumed_in_claude(desk: Desk, stores: Stores) -> None:
    project = desk.project("held-in-aider")
    said = hold(desk, "aider", project)

    conversation = imported(desk, stores, "aider", project)
    messages = messages_of(conversation)

    assert [Said(message.role, message.content) for message in messages] == said
    assert messages[-1].model == "openai/test-model" and messages[-1].usage is not None
    assert desk.cortext("import", "--from", "aider", "--json", cwd=project).json[0]["messages"] == 0
    outcome = launched(desk, stores, copied(conversation, "claude"), "claude", project).outcome(said)
    assert (outcome.problems, outcome.left_out, outcome.changed) == ([], {}, {})


def test_its_own_conversation_is_resumed_from_a_copy_of_only_that_one(desk: Desk, stores: Stores) -> None:
    project = desk.project("own")
    answer = "Noted.\n\n# A heading\n\n> a quotation\n\n```sh\n# a comment\ncat note.txt\n```"
    for words, reply in (("Put the kettle on.", "It is on."), ("Remember 4711.", answer)):
        desk.server.push(reply)
        assert desk.tools["aider"].run(words, cwd=project).returncode == 0
    assert desk.cortext("import", "--from", "aider", cwd=project).code == 0
    sessions = [StoredConversation(store, session) for store in stores.all() for session in store.store.sessions()]
    (found,) = (item for item in sessions if "Remember 4711." in str(messages_of(item)))
    assert [(message.role, message.content) for message in messages_of(found)] == [
        (USER, "Remember 4711."),
        (ASSISTANT, answer),
    ]
    history = (project / ".aider.chat.history.md").read_bytes()
    tool = tools.native_writer("aider")

    plan = make_plan(found, tool, project=str(project))
    launch = carry_out(plan, found, tool, stores.capture(), force=True)
    before = len(desk.server.turns)
    desk.server.push("It flew.")
    done = desk.tools["aider"].run("And then?", cwd=project, extra_args=launch.argv[1:])

    assert done.returncode == 0, done.stderr
    assert (plan.how, plan.receipt.changed) == (OWN, {Difference.LINE_LEFT_OUT: 3})
    sent = "\n".join(desk.server.turns[before].texts())
    assert "Remember 4711." in sent and "cat note.txt" in sent and "kettle" not in sent
    assert not any(line in sent for line in ("A heading", "a quotation", "a comment")), "as the receipt says"
    assert (project / ".aider.chat.history.md").read_bytes() == history
    assert desk.cortext("sync", "--from", "aider", cwd=project).code == 0
    texts = [message.content for message in messages_of(found)]
    assert texts == ["Remember 4711.", answer, "And then?", "It flew."]


@pytest.mark.parametrize("used", [False, True], ids=["fresh", "used before with another model"])
def test_a_conversation_held_in_claude_is_resumed_in_aider(
    desk: Desk, stores: Stores, held_in_claude: tuple[Path, list[Said]], used: bool
) -> None:
    project, said = held_in_claude
    if used:
        done = desk.tools["aider"].run("Hello.", cwd=project, extra_args=["--model", "openai/another-model"])
        assert done.returncode == 0, done.stderr
    conversation = copied(imported(desk, stores, "claude", project), f"aider-{used}".lower())

    result = launched(desk, stores, conversation, "aider", project)

    assert result.plan.how == NEW
    outcome = result.outcome(said)
    assert (outcome.problems, outcome.left_out) == ([], {})
    assert outcome.messages == outcome.of_messages and outcome.calls == outcome.of_calls == 3
    assert outcome.changed == {Difference.CALLS_AS_TEXT: 3}
    sent = "\n".join(result.request.texts())
    assert all(text in sent for text in ('"command": "cat note.txt"', "seventeen", ", which failed"))
    assert captured_again(desk, conversation, "aider") == []
    calls = [part for message in messages_of(conversation) for part in message.parts_of("tool_call")]
    assert len(calls) == 3, "the calls are calls again"
