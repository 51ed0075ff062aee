"""The adapter with the real Copilot and a model server on loopback that records its requests."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.cli import SCRIPTS
from tests.support.desk import Desk
from tests.support.model_server import ModelServer
from tests.support.pairs import Said, captured_again, compare, copied, hold, imported, outcomes, resumed
from tests.support.runners import make_tool
from tests.support.screen import Screen

from cortext.model.message import thread
from cortext.services.library.stores import Found
from cortext.wiring.stores import Stores

pytestmark = pytest.mark.real_tool

Conversations = dict[str, tuple[Path, list[Said]]]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Return a machine on which Copilot was used before, with another provider and another model."""
    folder = tmp_path_factory.mktemp("desk")
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    with ModelServer() as other:
        tool = make_tool("copilot", folder / "home", other.url)
        tool.env |= {"COPILOT_MODEL": "another-model", "COPILOT_PROVIDER_TYPE": "anthropic"}
        done = tool.run("Please put the kettle on.", cwd=elsewhere)
        assert done.returncode == 0, done.stderr
        assert (other.turns[-1].protocol, other.turns[-1].body["model"]) == ("anthropic", "another-model")
    with ModelServer() as server:
        yield Desk(folder, server, names=("claude", "copilot"))


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
def _unused(desk: Desk, project: Path) -> Iterator[None]:
    """Make the program look as if it had never been started here."""
    folder = desk.home / ".copilot"
    folder.rename(desk.home / "copilot of before")
    desk.tools["copilot"].trust(project)
    try:
        yield
    finally:
        folder.rename(desk.home / "copilot of this test")
        (desk.home / "copilot of before").rename(folder)


@pytest.mark.req("TOOL-02", "SESS-001d", "STORE-13")
def test_a_real_conversation_is_imported_whole(desk: Desk, conversations: Conversations, stores: Stores) -> None:
    project, said = conversations["copilot"]
    found = imported(desk, stores, "copilot", project)
    messages = thread(found.store.read(found.session.id))
    assert [(message.role, message.content) for message in messages if message.content] == said
    results = outcomes(messages)
    assert "the heron stands still" in results[0].output and "No such file" in results[2].output
    answers = [message for message in messages if message.role == "assistant"]
    assert {(message.model, message.tokens) for message in answers} == {("test-model", 5)}
    assert found.session.title.startswith("First words to copilot")
    assert desk.cortext("import", "--from", "copilot", "--json", cwd=project).json[0]["messages"] == 0, "idempotent"


@pytest.mark.req("TOOL-02", "SESS-004d", "SESS-003b", "SESS-003c")
@pytest.mark.parametrize("home", ["used", "fresh"])
def test_a_conversation_of_claude_is_resumed_and_captured_again(
    desk: Desk, conversations: Conversations, stores: Stores, home: str
) -> None:
    project, said = conversations["claude"]
    found = copied(imported(desk, stores, "claude", project), f"copilot-{home}")
    if home == "fresh":
        with _unused(desk, project):
            _resume_and_capture(desk, stores, found, project, said)
    else:
        _resume_and_capture(desk, stores, found, project, said)


def _resume_and_capture(desk: Desk, stores: Stores, found: Found, project: Path, said: list[Said]) -> None:
    plan, request = resumed(desk, stores, found, "copilot", project)
    outcome = compare(request, plan, said)
    assert outcome.problems == []
    assert (outcome.messages, outcome.calls, outcome.left_out, outcome.changed) == (outcome.of_messages, 3, {}, {})
    assert request.body["model"] == "test-model"
    assert captured_again(desk, found, "copilot") == []
    kept = (desk.home / ".copilot/session-state" / plan.key / "workspace.yaml").read_text(encoding="utf-8")
    assert "Herons" in kept, "the title in its own list"


@pytest.mark.req("TOOL-02", "SESS-004d")
def test_its_conversation_is_resumed_in_claude(desk: Desk, conversations: Conversations, stores: Stores) -> None:
    project, said = conversations["copilot"]
    found = copied(imported(desk, stores, "copilot", project), "claude")
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
    found = copied(imported(desk, stores, "claude", project), "copilot-screen")
    before = [message.id for message in thread(found.store.read(found.session.id))]
    desk.server.push("Welcome back.", "Nine.")
    command = [str(SCRIPTS / "cortext"), "resume", found.session.id, "--ai", "copilot"]
    with Screen(desk.home.parent, command, desk.env, project, "150x70") as screen:
        request = desk.server.wait_for(lambda turn: "Go on as the message above says" in str(turn.body), 120)
        assert "A number was noted and a note read." in str(request.body), "the context block"
        screen.wait_for("Welcome back.", timeout=120)
        desk.say(screen, "How many herons are there?")
        screen.wait_for("Nine.", timeout=60)
    assert desk.cortext("sync", "--from", "copilot", cwd=project).code == 0
    after = thread(found.store.read(found.session.id))
    assert [message.id for message in after][: len(before)] == before
    added = [(message.role, message.content) for message in after[len(before) :]]
    assert added == [("assistant", "Welcome back."), ("user", "How many herons are there?"), ("assistant", "Nine.")]


@pytest.mark.req("TOOL-05", "FLOW-01", "FLOW-09")
def test_its_hooks_keep_the_conversation_and_start_one_by_a_skill(desk: Desk) -> None:
    """The project is set up for Claude Code, too, whose hooks and commands Copilot also reads."""
    folder = desk.project("workspace")
    (folder / ".github").mkdir()
    (folder / ".github/mcp.json").write_text('{"mcpServers": {}}', encoding="utf-8")
    before = _files(folder)
    done = desk.cortext("init", "--ai", "copilot,claude", cwd=folder)
    assert done.code == 0, done.err
    desk.server.push("A heron it is.", "Seventeen.")
    with Screen(desk.home.parent, desk.tools["copilot"].interactive(), desk.env, folder, "150x60") as screen:
        screen.wait_for("/ commands", timeout=60)
        screen.type("/workspace.plan a pond for herons")
        screen.wait_for("/workspace.plan a pond for herons")
        screen.press("Enter")
        screen.wait_for("A heron it is.", timeout=60)
        desk.say(screen, "How many fit in?")
        screen.wait_for("Seventeen.", timeout=60)
        log = _kept(folder, "Seventeen.")
        screen.type("/exit")  # it waits for its hooks, which may still be at work
        screen.wait_for("/exit")
        screen.press("Enter")
        screen.wait_for("Pane is dead", timeout=60)
    request = desk.server.turns[-1]
    assert "a pond for herons" in "\n".join(request.texts("user")), "the arguments are in the text of the skill"
    rows = desk.cortext("list", "--here", "--json", cwd=folder).json
    assert [(row["tool"], row["title"]) for row in rows] == [("copilot", "a pond for herons")]
    assert [text in log for text in ("A heron it is.", "How many fit in?", "Seventeen.")] == [True] * 3
    done = desk.cortext("uninstall", cwd=folder)
    assert done.code == 0, done.err
    kept = _files(folder)
    assert {name: kept.get(name) for name in before} == before
    assert not [name for name in kept if name.startswith((".github/", ".claude/")) and name not in before]


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _kept(folder: Path, text: str) -> str:
    """Wait until the only conversation has this text; return its log."""
    deadline = time.monotonic() + 60
    while True:
        for path in folder.glob("conversations/*/*/.session/messages.jsonl"):
            if text in (log := path.read_text(encoding="utf-8")):
                return log
        assert time.monotonic() < deadline, f"{text!r} was not captured"
        time.sleep(0.1)  # the interval of polling
