"""One conversation through three real programs: started, resumed in another, completed, cloned and resumed again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cli import SCRIPTS, git
from tests.support.desk import Desk
from tests.support.model_server import ModelServer, Request
from tests.support.screen import Screen

from cortext.model.threads import thread
from cortext.services.library.resolve import with_exact_id
from cortext.wiring.stores import Stores


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with ModelServer() as server:
        yield Desk(tmp_path, server)


def _subjects(folder: Path) -> list[str]:
    return git(folder, "log", "--format=%s").splitlines()


@pytest.mark.real_tool
@pytest.mark.req("SESS-001a", "SESS-001d", "SESS-002a", "SESS-004d", "SESS-006a", "SESS-007", "TOOL-02", "TOOL-05")
def test_a_conversation_moves_through_three_tools_and_a_clone(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in desk.env.items():
        monkeypatch.setenv(name, value)
    folder = desk.project("w")
    assert desk.cortext("init", "--ai", "claude,gemini,opencode", cwd=folder).code == 0
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "workspace")

    # In Claude Code: the hook creates the conversation before the model receives the prompt.
    claude = desk.tools["claude"]
    desk.server.push("What is the core problem?")
    assert claude.run("/workspace.brainstorm API design", cwd=folder).returncode == 0
    request = desk.server.turns[-1]
    assert "conversations/" in str(request.body), "the prompt says where the notes are"
    session = next(folder.glob("conversations/*/001-brainstorm-api-design/.session/session.json"))
    assert (session.parent.parent / "brainstorm.md").exists()
    key = claude.sessions()[-1]
    desk.server.push("We decided to go with REST because it is simple.")
    assert claude.run("REST or GraphQL?", cwd=folder, resume=key).returncode == 0
    desk.server.push("Saved.")
    assert claude.run("/workspace.stop-conversation", cwd=folder, resume=key).returncode == 0
    assert "Session saved." in str(desk.server.turns[-1].body), "the model receives the result of the hook"
    assert any("API design" in line and "session state saved" in line for line in _subjects(folder))

    # In Gemini CLI: every message is carried over.
    found = with_exact_id(Stores(str(folder)).all(), "001-brainstorm-api-design")[0]
    assert found.session.status == "paused"
    texts = [message.content for message in thread(found.store.read(found.session.id)) if message.content]
    assert texts[:4] == [
        "/workspace.brainstorm API design",
        "What is the core problem?",
        "REST or GraphQL?",
        "We decided to go with REST because it is simple.",
    ]
    desk.server.push("REST it is: pagination next.")
    with _resume(desk, tmp_path, folder, "gemini") as screen:
        body = str(desk.server.wait_for(lambda turn: "[RESUMED CONVERSATION]" in str(turn.body), 170).body)
        screen.wait_for("pagination next", timeout=120)
    history = body.index("[END RESUMED CONTEXT]")  # the block before it has a summary
    assert body.index("REST or GraphQL?", history) < body.index("We decided to go with REST", history)

    # Completed from the shell: the messages of the second tool are in the same conversation, in git.
    done = desk.cortext("complete", "001", cwd=folder)
    assert done.code == 0, done.err
    assert "REST it is: pagination next." in (session.parent / "messages.jsonl").read_text(encoding="utf-8")
    assert "completed" in _subjects(folder)[0]
    assert git(folder, "status", "--porcelain", "--", "conversations") == ""

    # A clone on a second machine resumes it in a third tool: the talk is real turns there. The answer to a resume
    # repeats where things stood: it is kept, and not part of the talk.
    second = Desk(tmp_path / "second", desk.server)
    for name, value in second.env.items():
        monkeypatch.setenv(name, value)
    clone = second.project("w")
    git(tmp_path, "clone", "-q", str(folder), str(clone))
    desk.server.push("Picked up on the second machine.")
    before = len(desk.server.requests)

    def is_resumed(turn: Request) -> bool:
        return turn.number > before and "[RESUMED CONVERSATION]" in str(turn.body)

    with _resume(second, tmp_path, clone, "opencode", "--force") as screen:
        turn = desk.server.wait_for(is_resumed, 170)
        screen.wait_for("on the second machine", timeout=120)
    sent = "\n".join(part.text for part in turn.conversation if part.kind == "text")
    history = sent.index("[END RESUMED CONTEXT]")  # the block before it has a summary
    offsets = [sent.index(text, history) for text in texts[1:4]]
    assert offsets == sorted(offsets) and "REST it is: pagination next." not in sent


def _resume(desk: Desk, tmp_path: Path, folder: Path, tool: str, *more: str) -> Screen:
    """Run `cortext resume` in a terminal of this desk, which opens the tool's own screen."""
    command = [str(SCRIPTS / "cortext"), "resume", "api", "--ai", tool, *more]
    return Screen(tmp_path, command, desk.env, folder, "150x70")
