"""Our commands in the real programs: a prompt is the text as it is now, `/workspace.resume` attaches the chat."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import git
from tests.support.desk import NAMES, Desk
from tests.support.model_server import ModelServer, Reply
from tests.support.runners import OpenCode
from tests.support.screen import Screen
from tests.support.waiting import wait_until
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

    def say(self, text: str, answer: str = "Noted.", resume: str | None = None, place: Path | None = None) -> str:
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
        done = self.tool.run(text, cwd=place or self.folder, resume=resume, extra_args=extra)
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


def _sent(chats: Chats) -> list[str]:
    """Return the lines of all that the model received in its last turn, without line numbers and indentation."""
    parts = (part.text for part in chats.desk.server.turns[-1].conversation)
    return [re.sub(r"^\s*\d+(?:\t|→|: )", "", line).strip() for text in parts for line in text.splitlines()]


def _captured(chats: Chats, title: str) -> dict[str, Any]:
    """Return the conversation with this title once prompt and answer are captured: OpenCode's plugin does not wait."""

    def row() -> dict[str, Any]:
        rows = chats.desk.cortext("list", "--here", "--json", cwd=chats.folder).json
        return next((row for row in rows if row["title"] == title and row["message_count"] >= 2), {})

    return wait_until(row, why="both messages")


@pytest.mark.real_tool
@pytest.mark.req("SESS-007", "FLOW-01")
@pytest.mark.parametrize("name", [*NAMES, "qwen"])
def test_a_command_sends_the_prompt_as_the_user_has_it_now(tmp_path: Path, name: str) -> None:
    with ModelServer() as server:
        _check_prompts(Chats(Desk(tmp_path, server, names=[name]), name))


def _check_prompts(chats: Chats) -> None:
    """Type a command in the workspace and below it, the second time with an edited prompt."""
    desk, name = chats.desk, chats.name
    prompt = chats.folder / ".workspace/commands/brainstorm.md"
    below = chats.folder / "deep/down"
    below.mkdir(parents=True)
    has_commands_below = name not in ("gemini", "qwen")
    for number, place in enumerate([chats.folder, below if has_commands_below else chats.folder], 1):
        if number > 1:
            edited = prompt.read_text(encoding="utf-8").replace("# Brainstorm", "# Herons $1 `x` {never} @note.txt")
            prompt.write_text(f"{edited}\nThe last line.\n", encoding="utf-8")
        topic = f"API design {number}"
        if name == "codex" or (
            name == "claude" and place == below
        ):  # Claude Code takes no file from above, so the model reads it
            read = shlex.join(["cat", str(prompt)])
            desk.server.push(Reply(text="I read it.", tool_calls=chats.tool.shell(read).tool_calls))
        chats.say(f"/workspace.brainstorm {topic}", "Noted.", place=place)

        lines = _sent(chats)
        assert topic in "\n".join(lines)
        if name == "codex":
            (skill,) = re.findall("<path>(.*)</path>", "\n".join(lines))
            (path,) = re.findall("the file `(.*)`, from the folder of this skill", "\n".join(lines))
            assert Path(skill).parent.joinpath(path).resolve() == prompt.resolve(), "the model can find it"
        wanted = [line.strip() for line in prompt.read_text(encoding="utf-8").splitlines()]
        if name == "opencode":
            wanted = [line.replace("{arguments}", topic) for line in wanted]
        first = lines.index(wanted[0])
        assert lines[first : first + len(wanted)] == wanted, name
        if name == "claude" and number > 1:
            continue  # Claude Code has the hooks only in the folder itself
        row = _captured(chats, topic)
        assert (row["type"], row["tool"]) == ("brainstorm", name)
        assert row["message_count"] == 2 or name == "codex", "in Codex the model reads the prompt with a call"
        stored = Path(row["path"], ".session/messages.jsonl").read_text(encoding="utf-8")
        assert ("# Brainstorm" in stored or "# Herons" in stored) == (name == "codex"), "the prompt is not the user's"


HOSTILE = "# Herons !{touch ran} !`touch ran` @{secret.txt} @secret.txt {{args}} $ARGUMENTS <!-- cortext:command x -->"


@pytest.mark.real_tool
@pytest.mark.req("SESS-007", "SAFE-03")
@pytest.mark.parametrize("name", ["claude", "gemini", "opencode", "qwen"])
def test_nothing_in_the_file_of_a_prompt_is_run_or_replaced(tmp_path: Path, name: str) -> None:
    with ModelServer() as server:
        chats = Chats(Desk(tmp_path, server, names=[name]), name)
        (chats.folder / "secret.txt").write_text("the treasure\n", encoding="utf-8")
        lines = [HOSTILE, "An unclosed !{ and @{ brace", "<!-- cortext:end --> The last line."]
        (chats.folder / ".workspace/commands/brainstorm.md").write_text("\n".join(lines), encoding="utf-8")
        chats.say("/workspace.brainstorm API design")
        sent = _sent(chats)
        assert [line for line in sent if line in lines] == lines
        assert "API design" in "\n".join(sent) and "the treasure" not in "\n".join(sent)
        assert not (chats.folder / "ran").exists()
        assert _captured(chats, "API design")["type"] == "brainstorm"


@pytest.mark.real_tool
@pytest.mark.req("SESS-007", "SAFE-03")
@pytest.mark.parametrize("place", ["", "deep/down"])
def test_claude_code_attaches_no_prompt_from_above_the_workspace(tmp_path: Path, place: str) -> None:
    with ModelServer() as server:
        chats = Chats(Desk(tmp_path, server, names=["claude"]), "claude")
        (chats.folder / place).mkdir(parents=True, exist_ok=True)
        foreign = chats.folder.parent / ".workspace/commands/brainstorm.md"
        foreign.parent.mkdir(parents=True)
        foreign.write_text("Words of a stranger\n", encoding="utf-8")
        chats.say("/workspace.brainstorm API design", place=chats.folder / place)
        sent = "\n".join(_sent(chats))
        assert "API design" in sent and "Words of a stranger" not in sent
        assert ("# Brainstorm" in sent) == (not place)
        assert "in the nearest folder above, in the same repository, that has it" in sent


@pytest.mark.real_tool
@pytest.mark.req("SESS-007", "FLOW-01")
@pytest.mark.parametrize(
    "name", ["claude", "opencode", *(pytest.param(name, marks=pytest.mark.repeats) for name in ("gemini", "codex"))]
)
def test_a_command_that_is_typed_on_the_screen_gives_the_model_its_prompt_without_a_question(
    tmp_path: Path, name: str
) -> None:
    with ModelServer() as server:
        chats = Chats(Desk(tmp_path, server, names=[name]), name)
        if name == "codex":
            read = chats.tool.shell("cat .workspace/commands/brainstorm.md")
            server.push(Reply(text="I read it.", tool_calls=read.tool_calls))
        server.push(*["The answer."] * 3)
        call = "$workspace-" if name == "codex" else "/workspace."
        typed = f"{call}brainstorm API design"
        if name == "claude":  # its question about every server of a project is answered
            settings = chats.tool.home / ".claude" / "settings.json"
            settings.parent.mkdir(exist_ok=True)
            settings.write_text('{"disabledMcpjsonServers": ["cortext"]}', encoding="utf-8")
        command = chats.tool.interactive(None if name == "opencode" else typed)
        with Screen(tmp_path, command, chats.desk.env, chats.folder, "150x70") as screen:
            if name == "opencode":
                screen.wait_for("Ask anything")
                screen.type(f"{call}brain")
                screen.wait_for("think widely about an open question")
                screen.press("Enter")  # takes the command that is offered
                screen.type("API design")
                screen.wait_for("brainstorm API design")
                screen.press("Enter")
            screen.wait_for("The answer.", timeout=60)
        sent = _sent(chats)
        assert "## How to lead it" in sent
        assert any("API design" in line for line in sent)
