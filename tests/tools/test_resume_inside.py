"""`/workspace.resume` in the four real programs attaches the chat to the conversation that it resumes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import git
from tests.support.desk import NAMES, Desk
from tests.support.model_server import ModelServer
from tests.support.runners import OpenCode
from tests.tools.codex.test_real import approve

NAME = "001-brainstorm-api-design"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with ModelServer() as server:
        yield Desk(tmp_path, server)


class Chats:
    """A workspace, and one program that is used in it without its screen."""

    def __init__(self, desk: Desk, name: str) -> None:
        self.desk, self.name, self.tool = desk, name, desk.tools[name]
        self.folder = desk.project("w")
        done = desk.cortext("init", "--ai", name, cwd=self.folder)
        assert done.code == 0, done.err
        if name == "codex":
            approve(self.tool, self.folder)
        if name == "opencode":
            OpenCode.settle(self.folder / ".opencode")
        git(self.folder, "add", ".")
        git(self.folder, "commit", "-qm", "workspace")

    def say(self, text: str, answer: str = "Noted.", resume: str | None = None) -> str:
        """Send one prompt; return the id of the chat. `/workspace.x` is spelled as the program expects it."""
        if self.name == "codex" and text.startswith("/workspace.resume"):
            self.desk.server.push("Looking it up.")  # the record follows this answer
        self.desk.server.push(answer)
        extra: list[str] = []
        if text.startswith("/") and self.name == "codex":
            text = f"$workspace-{text.removeprefix('/workspace.')}"
        elif text.startswith("/") and self.name == "opencode":
            command, *arguments = text[1:].split(" ")
            extra, text = ["--command", command, *arguments], ""
        done = self.tool.run(text, cwd=self.folder, resume=resume, extra_args=extra)
        assert done.returncode == 0, done.stderr
        return resume or self.tool.sessions()[-1]

    def received(self) -> str:
        """Return the text that the model received last, without system and developer messages."""
        return "\n".join(part.text for part in self.desk.server.turns[-1].conversation if part.kind == "text")

    def session(self) -> dict[str, Any]:
        done = self.desk.cortext("list", "--here", "--json", cwd=self.folder)
        return next(row for row in done.json if row["id"] == NAME)

    def log(self, revision: str = "") -> str:
        path = next(self.folder.glob(f"conversations/*/{NAME}/.session/messages.jsonl"))
        if revision:
            return git(self.folder, "show", f"{revision}:{path.relative_to(self.folder)}")
        return path.read_text(encoding="utf-8")


def _listed(text: str) -> list[str]:
    """Return the numbered lines of the list."""
    _, found, rest = text.rpartition("Here are your resumable conversations:")
    assert found, text[-3000:]
    rest = rest.partition("Which conversation")[0]
    return [line for line in rest.splitlines() if line[:1].isdigit()]


@pytest.mark.real_tool
@pytest.mark.req("FLOW-01", "FLOW-09", "SAFE-03")
@pytest.mark.parametrize("name", list(NAMES))
def test_the_chat_is_attached_to_the_conversation_that_it_resumes(desk: Desk, name: str) -> None:
    chats = Chats(desk, name)
    chats.say("An older chat about geese")  # the program was used here before
    first = chats.say("/workspace.brainstorm API design", "What is the core problem?")
    chats.say("REST or GraphQL?", "REST, because it is simple.", resume=first)

    # A new chat lists both, but not itself.
    asking = chats.say("/workspace.resume", "Which one?")
    lines = _listed(chats.received())
    assert [line.split("]")[0] for line in lines] == ["1. [brainstorm", "2. [home"], lines

    # A number resumes that conversation in this chat, with the packet as data.
    chats.say("/workspace.resume 1", "Picked up: REST.", resume=asking)
    text = chats.received()
    assert "[RESUMED CONVERSATION]" in text
    assert "REST, because it is simple." in text
    chats.say("What about pagination?", "Cursors, not pages.", resume=asking)
    chats.say("/workspace.stop-conversation", "Saved.", resume=asking)
    assert "Session saved." in str(desk.server.turns[-1].body)

    row = chats.session()
    assert (row["status"], row["tool"]) == ("paused", name)
    for text in ("What about pagination?", "Cursors, not pages."):
        assert text in chats.log(), text
        assert text in chats.log("HEAD"), text
    assert "[RESUMED CONVERSATION]" not in chats.log()

    # A third chat lists neither of the chats that asked for the list.
    chats.say("/workspace.resume", "Which one?")
    lines = _listed(chats.received())
    assert [line.split("]")[0] for line in lines] == ["1. [brainstorm", "2. [home"], lines
    assert "API design" in lines[0]
