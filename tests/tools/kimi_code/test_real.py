"""The adapter with the real Kimi Code and a model server on loopback that records its requests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.cli import SCRIPTS
from tests.support.desk import Desk
from tests.support.model_server import ModelServer
from tests.support.pairs import Said, captured_again, compare, copied, hold, imported, outcomes, resumed
from tests.support.runners import make_tool
from tests.support.screen import Screen

from cortext.model.message import thread
from cortext.tools.kimi_code.install import EVENTS
from cortext.wiring.stores import Stores

pytestmark = pytest.mark.real_tool

Conversations = dict[str, tuple[Path, list[Said]]]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Return a machine on which Kimi Code was used before, with another provider and another model."""
    folder = tmp_path_factory.mktemp("desk")
    with ModelServer() as other:
        tool = make_tool("kimi-code", folder / "home", other.url)
        tool.env["KIMI_MODEL_NAME"] = "another-model"
        elsewhere = folder / "elsewhere"
        elsewhere.mkdir()
        done = tool.run("Please put the kettle on.", cwd=elsewhere)
        assert done.returncode == 0, done.stderr
        assert other.turns[-1].body["model"] == "another-model"
    with ModelServer() as server:
        yield Desk(folder, server, names=("claude", "kimi"))


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
    project, said = conversations["kimi"]
    found = imported(desk, stores, "kimi", project)
    messages = thread(found.store.read(found.session.id))
    assert [(message.role, message.content) for message in messages if message.content] == said
    results = outcomes(messages)
    assert [part.is_error for part in results] == [False, False, True]
    assert "the heron stands still" in results[0].output
    assert {message.model for message in messages if message.role == "assistant"} == {"test-model"}
    assert desk.cortext("import", "--from", "kimi", "--json", cwd=project).json[0]["messages"] == 0, "idempotent"


@pytest.mark.req("TOOL-02", "SESS-004d", "SESS-003b", "SESS-003c")
@pytest.mark.parametrize("home", ["fresh", "used"])
def test_a_conversation_of_claude_is_resumed_and_captured_again(
    desk: Desk, conversations: Conversations, stores: Stores, home: str
) -> None:
    project, said = conversations["claude"]
    found = copied(imported(desk, stores, "claude", project), f"kimi-{home}")
    folder = desk.home / ".kimi-code" / "sessions"
    if home == "fresh":
        folder.rename(folder.with_name("sessions of before"))
    try:
        plan, request = resumed(desk, stores, found, "kimi", project)
        outcome = compare(request, plan, said)
        assert outcome.problems == []
        assert (outcome.messages, outcome.calls, outcome.left_out) == (outcome.of_messages, 3, {})
        assert outcome.changed == {}
        results = [turn.text for turn in request.conversation if turn.kind == "tool_result"]
        assert ["ERROR: Tool execution failed" in text for text in results] == [False, False, True]
        assert captured_again(desk, found, "kimi") == []
        assert request.body["model"] == "test-model"
        listed = desk.tools["kimi"].execute(["kimi", "session", "list"], cwd=project)
        assert plan.key in listed.stdout and "Herons" in listed.stdout, listed.stdout + listed.stderr
    finally:
        if home == "fresh":
            folder.rename(folder.with_name("sessions of this test"))
            folder.with_name("sessions of before").rename(folder)


@pytest.mark.req("SESS-004d", "SAFE-09")
def test_cortext_resume_opens_its_screen_with_the_conversation(
    desk: Desk, conversations: Conversations, stores: Stores
) -> None:
    project, _ = conversations["claude"]
    found = copied(imported(desk, stores, "claude", project), "kimi-screen")
    before = [message.id for message in thread(found.store.read(found.session.id))]
    desk.server.push("Nine.")
    command = [str(SCRIPTS / "cortext"), "resume", found.session.id, "--ai", "kimi"]
    with Screen(desk.home.parent, command, desk.env, project, "150x70") as screen:
        screen.wait_for("[END RESUMED CONTEXT]", timeout=120)
        desk.say(screen, "How many herons are there?")
        screen.wait_for("Nine.", timeout=60)
    (request,) = (turn for turn in desk.server.turns if "How many herons are there?" in str(turn.body))
    assert "A number was noted and a note read." in str(request.body), "the context block"
    assert any("You are Kimi Code CLI" in text for text in request.texts("system")), "its own system prompt"
    assert desk.cortext("sync", "--from", "kimi", cwd=project).code == 0
    after = thread(found.store.read(found.session.id))
    assert [message.id for message in after][: len(before)] == before
    added = [(message.role, message.content) for message in after[len(before) :]]
    assert added == [("user", "How many herons are there?"), ("assistant", "Nine.")]


@pytest.mark.req("TOOL-02", "SESS-004d")
def test_its_conversation_is_resumed_in_claude(desk: Desk, conversations: Conversations, stores: Stores) -> None:
    project, said = conversations["kimi"]
    found = copied(imported(desk, stores, "kimi", project), "claude")
    plan, request = resumed(desk, stores, found, "claude", project)
    outcome = compare(request, plan, said)
    assert outcome.problems == []
    assert (outcome.messages, outcome.calls) == (outcome.of_messages, 3)
    assert captured_again(desk, found, "claude") == []


@pytest.mark.req("TOOL-02", "TOOL-05", "FLOW-01")
def test_hooks_capture_messages_and_a_skill_starts_a_conversation(desk: Desk, tmp_path: Path) -> None:
    folder = desk.project(tmp_path.name)  # a second run of the test needs another name
    own = {".kimi-code/mcp.json": b'{"mcpServers": {}}', "AGENTS.md": b"mine\n"}
    for name, contents in own.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(contents)
    assert desk.cortext("init", "--ai", "kimi", cwd=folder).code == 0
    assert "hooks" in desk.cortext("doctor", cwd=folder).out
    config = desk.home / ".kimi-code" / "config.toml"
    tables = "".join(f'[[hooks]]\nevent = "{event}"\ncommand = "cortext hook kimi"\n' for event in EVENTS)
    config.write_text(tables, encoding="utf-8")
    desk.server.push("In the reeds.")
    assert desk.tools["kimi"].run("Where do herons stand?", cwd=folder).returncode == 0
    logs = (desk.home / ".local/share/cortext").rglob("messages.jsonl")
    (log,) = (text for path in logs if "Where do herons stand?" in (text := path.read_text(encoding="utf-8")))
    assert "In the reeds." in log, "captured by the hook, without an import"

    desk.server.push("What about them?")
    command = desk.tools["kimi"].interactive(resume=desk.tools["kimi"].sessions()[-1])
    with Screen(desk.home.parent, command, desk.env, folder, "150x60") as screen:
        screen.wait_for("In the reeds.", timeout=60)
        screen.type("/skill:workspace-brainstorm Herons & reeds")
        deadline = time.monotonic() + 120
        while not any("Herons & reeds" in str(turn.texts()) for turn in desk.server.turns):
            assert time.monotonic() < deadline, screen.text()
            screen.press("Enter")  # after fast keys, the first may be taken for a new line of a paste
            time.sleep(1)  # the interval of polling
        screen.wait_for("What about them?", timeout=60)
        _wait_until(lambda: any(folder.glob("conversations/*/001-brainstorm-herons-reeds/.session/messages.jsonl")))
        # Kimi Code does not wait for the hook of a skill, so it is the next turn that belongs to it for certain.
        desk.server.push("In the south.")
        desk.say(screen, "And in winter?")
        (path,) = folder.glob("conversations/*/001-brainstorm-herons-reeds/.session/messages.jsonl")
        _wait_until(lambda: "In the south." in path.read_text(encoding="utf-8"))
    assert "And in winter?" in path.read_text(encoding="utf-8")

    assert desk.cortext("uninstall", cwd=folder).code == 0
    assert {name: (folder / name).read_bytes() for name in own} == own
    assert not (folder / ".kimi-code" / "skills").exists()


def _wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)  # the interval of polling
