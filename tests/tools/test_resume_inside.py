"""`/workspace.resume` inside the four real programs: the chat becomes part of the conversation that it resumed."""

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


class Place:
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
        """One turn; the chat that it was in. `/workspace.x` is spelled as the program wants it."""
        if self.name == "codex" and text.startswith("/workspace.resume"):
            self.desk.server.push("Looking it up.")  # the record comes after this answer
        self.desk.server.push(answer)
        extra: list[str] = []
        if text.startswith("/") and self.name == "codex":
            text = f"$workspace-{text.removeprefix('/workspace.')}"
        elif text.startswith("/") and self.name == "opencode":
            command, *words = text[1:].split(" ")
            extra, text = ["--command", command, *words], ""
        done = self.tool.run(text, cwd=self.folder, resume=resume, extra_args=extra)
        assert done.returncode == 0, done.stderr
        return resume or self.tool.sessions()[-1]

    def received(self) -> str:
        """What the model received last, but for what a system or a developer says."""
        return "\n".join(piece.text for piece in self.desk.server.turns[-1].conversation if piece.kind == "text")

    def session(self) -> dict[str, Any]:
        done = self.desk.cortext("list", "--here", "--json", cwd=self.folder)
        return next(row for row in done.json if row["id"] == NAME)

    def log(self, revision: str = "") -> str:
        path = next(self.folder.glob(f"conversations/*/{NAME}/.session/messages.jsonl"))
        if revision:
            return git(self.folder, "show", f"{revision}:{path.relative_to(self.folder)}")
        return path.read_text(encoding="utf-8")


def _listed(text: str) -> list[str]:
    """The lines of the list that have a number."""
    _, found, rest = text.rpartition("Here are your resumable conversations:")
    assert found, text[-3000:]
    rest = rest.partition("Which conversation")[0]
    return [line for line in rest.splitlines() if line[:1].isdigit()]


@pytest.mark.real_tool
@pytest.mark.req("FLOW-01", "FLOW-09", "SAFE-03")
@pytest.mark.parametrize("name", list(NAMES))
def test_the_chat_becomes_part_of_the_conversation_that_it_resumed(desk: Desk, name: str) -> None:
    place = Place(desk, name)
    place.say("An older chat about geese")  # the program was used here before
    held = place.say("/workspace.brainstorm API design", "What is the core problem?")
    place.say("REST or GraphQL?", "REST, because it is simple.", resume=held)

    # A new chat is shown both, and not itself.
    asking = place.say("/workspace.resume", "Which one?")
    lines = _listed(place.received())
    assert [line.split("]")[0] for line in lines] == ["1. [brainstorm", "2. [home"], lines

    # The number goes on here: the packet is data, the conversation active.
    place.say("/workspace.resume 1", "Picked up: REST.", resume=asking)
    text = place.received()
    assert "[RESUMED CONVERSATION]" in text
    assert "REST, because it is simple." in text
    place.say("What about pagination?", "Cursors, not pages.", resume=asking)
    place.say("And versioning?", "In the path.", resume=asking)
    place.say("/workspace.stop-conversation", "Saved.", resume=asking)
    assert "Session saved." in str(desk.server.turns[-1].body)

    row = place.session()
    assert (row["status"], row["tool"]) == ("paused", name)
    for words in ("What about pagination?", "Cursors, not pages.", "And versioning?", "In the path."):
        assert words in place.log(), words
        assert words in place.log("HEAD"), words
    assert "[RESUMED CONVERSATION]" not in place.log()

    # A third chat sees neither of the asking ones.
    place.say("/workspace.resume", "Which one?")
    lines = _listed(place.received())
    assert [line.split("]")[0] for line in lines] == ["1. [brainstorm", "2. [home"], lines
    assert "API design" in lines[0]
