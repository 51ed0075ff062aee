"""The adapter with the real Continue and a model server on loopback that records its requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cli import SCRIPTS
from tests.support.desk import Desk
from tests.support.model_server import ModelServer
from tests.support.pairs import Said, captured_again, compare, copied, hold, imported, outcomes, resumed
from tests.support.runners import Continue, make_tool
from tests.support.screen import Screen

from cortext.model.message import thread
from cortext.model.turns import Change
from cortext.wiring.stores import Stores

pytestmark = pytest.mark.real_tool

Conversations = dict[str, tuple[Path, list[Said]]]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Return a machine on which Continue was used before, with another provider and another model."""
    folder = tmp_path_factory.mktemp("desk")
    with ModelServer() as other:
        tool = make_tool("continue", folder / "home", other.url)
        assert isinstance(tool, Continue)
        tool.choose_model("another-model")
        elsewhere = folder / "elsewhere"
        elsewhere.mkdir()
        done = tool.run("Please put the kettle on.", cwd=elsewhere)
        assert done.returncode == 0, done.stderr
        assert other.turns[-1].body["model"] == "another-model"
    with ModelServer() as server:
        yield Desk(folder, server, names=("claude", "continue"))


@pytest.fixture(scope="module")
def conversations(desk: Desk) -> Conversations:
    """Hold a conversation in each program; return the project and the texts of each."""
    made = {}
    for name in desk.tools:
        project = desk.project(f"{name}-project")
        made[name] = (project, hold(desk, name, project))
    return made


@pytest.fixture
def stores(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Stores:
    for name, value in desk.env.items():
        monkeypatch.setenv(name, value)
    return Stores(str(desk.home))


@pytest.mark.req("TOOL-02", "SESS-001d", "STORE-13")
def test_a_real_conversation_is_imported_whole(desk: Desk, conversations: Conversations, stores: Stores) -> None:
    project, said = conversations["continue"]
    found = imported(desk, stores, "continue", project)
    messages = thread(found.store.read(found.session.id))
    assert [(message.role, message.content) for message in messages if message.content] == said
    results = outcomes(messages)
    assert [part.is_error for part in results] == [False, False, True]
    assert "the heron stands still" in results[0].output
    assert {message.model for message in messages if message.role == "assistant"} == {"test-model"}
    assert desk.cortext("import", "--from", "continue", "--json", cwd=project).json[0]["messages"] == 0, "idempotent"


@pytest.mark.req("TOOL-02", "SESS-004d", "SESS-003b", "SESS-003c")
@pytest.mark.parametrize("home", ["fresh", "used"])
def test_a_conversation_of_claude_is_resumed_and_captured_again(
    desk: Desk, conversations: Conversations, stores: Stores, home: str
) -> None:
    project, said = conversations["claude"]
    found = copied(imported(desk, stores, "claude", project), f"continue-{home}")
    folder = desk.home / ".continue" / "sessions"
    if home == "fresh":
        folder.rename(folder.with_name("sessions of before"))
    try:
        plan, request = resumed(desk, stores, found, "continue", project)
        outcome = compare(request, plan, said)
        assert outcome.problems == []
        assert (outcome.messages, outcome.calls, outcome.left_out) == (outcome.of_messages, 3, {})
        assert outcome.changed == {Change.ERROR_FLAG: 1}
        assert captured_again(desk, found, "continue") == []
        listed = json.loads((folder / "sessions.json").read_text(encoding="utf-8"))
        assert [(entry["sessionId"], entry["title"]) for entry in listed][-1] == (plan.key, "Herons")
    finally:
        if home == "fresh":
            folder.rename(folder.with_name("sessions of this test"))
            folder.with_name("sessions of before").rename(folder)


@pytest.mark.req("SESS-004d", "SAFE-09")
def test_cortext_resume_opens_its_screen_with_the_conversation(
    desk: Desk, conversations: Conversations, stores: Stores
) -> None:
    project, _ = conversations["claude"]
    found = copied(imported(desk, stores, "claude", project), "continue-screen")
    before = [message.id for message in thread(found.store.read(found.session.id))]
    desk.server.push("Welcome back.", "Nine.")
    command = [str(SCRIPTS / "cortext"), "resume", found.session.id, "--ai", "continue"]
    with Screen(desk.home.parent, command, desk.env, project, "150x70") as screen:
        request = desk.server.wait_for(lambda turn: "Go on as the message above says" in str(turn.body), 120)
        assert "A number was noted and a note read." in str(request.body), "the context block"
        screen.wait_for("Welcome back.", timeout=120)
        desk.say(screen, "How many herons are there?")
        screen.wait_for("Nine.", timeout=60)
    assert desk.cortext("sync", "--from", "continue", cwd=project).code == 0
    after = thread(found.store.read(found.session.id))
    assert [message.id for message in after][: len(before)] == before
    added = [(message.role, message.content) for message in after[len(before) :]]
    assert added == [("assistant", "Welcome back."), ("user", "How many herons are there?"), ("assistant", "Nine.")]


@pytest.mark.req("TOOL-02", "SESS-004d")
def test_its_conversation_is_resumed_in_claude(desk: Desk, conversations: Conversations, stores: Stores) -> None:
    project, said = conversations["continue"]
    found = copied(imported(desk, stores, "continue", project), "claude")
    plan, request = resumed(desk, stores, found, "claude", project)
    outcome = compare(request, plan, said)
    assert outcome.problems == []
    assert (outcome.messages, outcome.calls) == (outcome.of_messages, 3)
    assert captured_again(desk, found, "claude") == []
