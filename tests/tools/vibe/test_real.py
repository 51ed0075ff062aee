"""The adapter with the real Mistral Vibe and a model server on loopback that records its requests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.cli import SCRIPTS
from tests.support.desk import Desk
from tests.support.model_server import ModelServer
from tests.support.pairs import Said, captured_again, compare, copied, hold, imported, resumed
from tests.support.runners import MistralVibe, make_tool
from tests.support.screen import Screen

from cortext.model.message import thread
from cortext.model.turns import Change
from cortext.services.library.stores import Found
from cortext.wiring.stores import Stores

pytestmark = [pytest.mark.real_tool, pytest.mark.heavy_tool]

Conversations = dict[str, tuple[Path, list[Said]]]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Return a machine on which Vibe was used before, with another provider and another model."""
    folder = tmp_path_factory.mktemp("desk")
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    with ModelServer() as other:
        tool = make_tool("mistral-vibe", folder / "home", other.url)
        assert isinstance(tool, MistralVibe)
        tool.choose_model("another-model")
        done = tool.run("Please put the kettle on.", cwd=elsewhere)
        assert done.returncode == 0, done.stderr
        assert other.turns[-1].body["model"] == "another-model"
    with ModelServer() as server:
        yield Desk(folder, server, names=("claude", "vibe"))


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


@contextmanager
def _unused(desk: Desk) -> Iterator[None]:
    """Make the program look as if it had never been started here: only its settings stay."""
    folder = desk.home / ".vibe"
    logs = folder / "logs"
    logs.rename(desk.home / "logs of before")
    try:
        yield
    finally:
        logs.rename(desk.home / "logs of this test")
        (desk.home / "logs of before").rename(logs)


@pytest.mark.req("TOOL-02", "SESS-001d", "STORE-13")
def test_a_real_conversation_is_imported_whole(desk: Desk, conversations: Conversations, stores: Stores) -> None:
    project, said = conversations["vibe"]
    found = imported(desk, stores, "vibe", project)
    messages = thread(found.store.read(found.session.id))
    assert [(message.role, message.content) for message in messages if message.content] == said
    calls = [part for message in messages for part in message.parts_of("tool_call")]
    results = [part for message in messages for part in message.parts_of("tool_result")]
    assert [part.input["command"] for part in calls] == ["cat note.txt", "cat count.txt", "cat missing.txt"]
    assert [(part.call_id, part.name) for part in results] == [(part.id, "bash") for part in calls]
    assert "the heron stands still" in results[0].output and "No such file" in results[2].output
    assert {message.model for message in messages if message.role == "assistant"} == {"test-model"}
    assert [part.text for message in messages for part in message.parts_of("file")] == ["the heron stands still"]
    assert desk.cortext("import", "--from", "vibe", "--json", cwd=project).json[0]["messages"] == 0, "idempotent"


@pytest.mark.req("TOOL-02", "SESS-004d", "SESS-003b", "SESS-003c")
@pytest.mark.parametrize("home", ["used", "fresh"])
def test_a_conversation_of_claude_is_resumed_and_captured_again(
    desk: Desk, conversations: Conversations, stores: Stores, home: str
) -> None:
    project, said = conversations["claude"]
    found = copied(imported(desk, stores, "claude", project), f"vibe-{home}")
    if home == "fresh":
        with _unused(desk):
            _resume_and_capture(desk, stores, found, project, said)
    else:
        _resume_and_capture(desk, stores, found, project, said)


def _resume_and_capture(desk: Desk, stores: Stores, found: Found, project: Path, said: list[Said]) -> None:
    plan, request = resumed(desk, stores, found, "vibe", project)
    outcome = compare(request, plan, said)
    assert outcome.problems == []
    assert (outcome.messages, outcome.calls, outcome.left_out) == (outcome.of_messages, 3, {})
    assert outcome.changed == {Change.ERROR_FLAG: 1}
    assert request.body["model"] == "test-model"
    assert captured_again(desk, found, "vibe") == []


@pytest.mark.req("TOOL-02", "SESS-004d")
def test_its_conversation_is_resumed_in_claude(desk: Desk, conversations: Conversations, stores: Stores) -> None:
    project, said = conversations["vibe"]
    found = copied(imported(desk, stores, "vibe", project), "claude")
    plan, request = resumed(desk, stores, found, "claude", project)
    outcome = compare(request, plan, said)
    assert outcome.problems == []
    assert (outcome.messages, outcome.calls) == (outcome.of_messages, 3)
    assert captured_again(desk, found, "claude") == []


@pytest.mark.req("SESS-004d", "SAFE-09")
def test_cortext_resume_opens_its_screen_with_the_conversation(
    desk: Desk, conversations: Conversations, stores: Stores
) -> None:
    project, _ = conversations["claude"]
    found = copied(imported(desk, stores, "claude", project), "vibe-screen")
    before = [message.id for message in thread(found.store.read(found.session.id))]
    desk.server.push(*["Welcome back."] * 3)  # on its screen, Vibe also asks for a title
    command = [str(SCRIPTS / "cortext"), "resume", found.session.id, "--ai", "vibe"]
    with Screen(desk.home.parent, command, desk.env, project, "150x70") as screen:
        request = desk.server.wait_for(lambda turn: "Go on as the message above says" in str(turn.body), 120)
        assert "A number was noted and a note read." in str(request.body), "the context block"
        screen.wait_for("Welcome back.", timeout=120)
        desk.server.drop_replies()
        desk.server.push(*["Nine."] * 3)
        desk.say(screen, "How many herons are there?")
        screen.wait_for("Nine.", timeout=60)
    assert desk.cortext("sync", "--from", "vibe", cwd=project).code == 0
    after = thread(found.store.read(found.session.id))
    assert [message.id for message in after][: len(before)] == before
    added = [(message.role, message.content) for message in after[len(before) :]]
    assert added == [("assistant", "Welcome back."), ("user", "How many herons are there?"), ("assistant", "Nine.")]


@pytest.mark.req("TOOL-05")
def test_its_hook_keeps_the_conversation(desk: Desk) -> None:
    folder = desk.project("workspace")
    (folder / ".vibe").mkdir()
    (folder / ".vibe/hooks.toml").write_text("# mine\n", encoding="utf-8")
    before = _files(folder)
    done = desk.cortext("init", "--ai", "vibe", cwd=folder)
    assert done.code == 0, done.err
    vibe = desk.tools["vibe"]
    desk.server.push("A heron it is.", "Seventeen.")
    for prompt in ("Plan a pond for herons.", "How many fit in?"):
        done_turn = vibe.run(prompt, cwd=folder, resume=vibe.sessions()[-1] if prompt.startswith("How") else None)
        assert done_turn.returncode == 0, done_turn.stderr
        assert "hook" not in done_turn.stderr.lower()
    shown = desk.cortext("search", "Seventeen", "--json", cwd=folder)
    assert "Seventeen." in shown.out, "captured without an import"
    done = desk.cortext("uninstall", cwd=folder)
    assert done.code == 0, done.err
    kept = _files(folder)
    assert {name: kept.get(name) for name in before} == before
    assert not [name for name in kept if name.startswith(".vibe/") and name not in before]


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
