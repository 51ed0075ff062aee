"""Our commands in the real programs: a prompt is the text as it is now, `/workspace.resume` attaches the chat."""

from __future__ import annotations

import copy
import json
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

from cortext.faces.mcp.calls import SPECS
from cortext.model.session import Origin
from cortext.services.workspace import running_chats

NAME = "001-brainstorm-api-design"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with ModelServer() as server:
        yield Desk(tmp_path, server)


class Chats:
    """A workspace, and one program that is used in it without its screen, or several."""

    def __init__(self, desk: Desk, name: str, *others: str) -> None:
        self.desk, self.name, self.tool = desk, name, desk.tools[name]
        self.folder = desk.project("w")
        self.chooses = False  # whether the user takes our commands from the list that Codex offers
        done = desk.cortext("init", "--ai", ",".join((name, *others)), cwd=self.folder)
        assert done.code == 0, done.err
        if "codex" in (name, *others):
            approve(desk.tools["codex"], self.folder)
        if "opencode" in (name, *others):
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
            if self.chooses:
                skill, _, words = text.partition(" ")
                text = f"[{skill}]({self.folder}/.agents/skills/{skill[1:]}/SKILL.md) {words}".strip()
        elif text.startswith("/") and self.name == "opencode":
            command, *arguments = text[1:].split(" ")
            extra, text = ["--command", command, *arguments], ""
        done = self.tool.run(text, cwd=place or self.folder, resume=resume, extra_args=extra)
        assert done.returncode == 0, done.stderr
        return resume or self.tool.sessions()[-1]

    def within(self, name: str) -> Chats:
        """Return the same workspace as another of its programs is used in it."""
        other = copy.copy(self)
        other.name, other.tool = name, self.desk.tools[name]
        return other

    def talk(self) -> list[str]:
        """Return what was said in the conversation, without the asides."""
        messages = map(json.loads, self.log().splitlines())
        return [message["content"] for message in messages if not message.get("aside") and message["content"]]

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
def test_a_command_typed_on_the_screen_gives_the_model_its_prompt_without_asking(tmp_path: Path, name: str) -> None:
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


# ── what is kept of a chat ───────────────────────────────────────────────────────────────────────────

OTHERS = ("codex", "gemini", "opencode")  # those whose forms of a command are not Claude Code's


def _chats(desk: Desk, name: str) -> Chats:
    chats = Chats(desk, name)
    chats.chooses = True
    return chats


@pytest.mark.real_tool
@pytest.mark.req("SELF-05", "FLOW-01")
@pytest.mark.parametrize("name", OTHERS)
def test_our_commands_are_beside_the_talk_in_the_form_of_every_program(desk: Desk, name: str) -> None:
    chats = _chats(desk, name)
    first = chats.say("/workspace.brainstorm API design", "What is the core problem?")
    chats.say("REST or GraphQL?", "REST.", resume=first)
    chats.say("/workspace.stop-conversation", "It is stored.", resume=first)
    second = chats.say("An older chat about geese")
    chats.say("/workspace.resume 1", "Picked up.", resume=second)
    chats.say("And the cursors?", "Valid for an hour.", resume=second)
    chats.say("/workspace.stop-conversation", "Stored again.", resume=second)

    said = ["What is the core problem?", "REST or GraphQL?", "REST.", "And the cursors?", "Valid for an hour."]
    wait_until(lambda: said[-1] in chats.log(), why="everything is captured")
    assert chats.talk()[1:] == said and "API design" in chats.talk()[0]
    row = chats.session()
    assert (row["message_count"], row["title"]) == (len(said) + 1, "API design")
    printed = desk.cortext("resume", NAME, "--print", "--force", cwd=chats.folder).out
    assert "Valid for an hour." in printed
    for text in ("It is stored.", "Stored again.", "Picked up.", "Looking it up."):
        assert text not in printed, text


@pytest.mark.real_tool
@pytest.mark.req("SESS-007")
@pytest.mark.parametrize("name", OTHERS)
def test_of_a_type_without_sessions_nothing_is_stored_from_any_program(desk: Desk, name: str) -> None:
    chats = _chats(desk, name)
    done = desk.cortext("type", "add", "diary", "--no-sessions", cwd=chats.folder)
    assert done.code == 0, done.err
    alone = chats.say("/workspace.diary Monday", "Write.")
    chats.say("I am afraid of herons, Ornithophobia.", "That is all right.", resume=alone)
    mixed = chats.say("How deep is the pond?", "Two metres.")
    chats.say("/workspace.diary Tuesday", "Write.", resume=mixed)
    chats.say("Ornithophobia again.", "I see.", resume=mixed)
    chats.say("/workspace.brainstorm Bridges", "Over the pond?", resume=mixed)

    row = wait_until(lambda: _found(chats, "Bridges"), why="the last command is captured")
    assert row["type"] == "brainstorm"
    assert desk.cortext("sync", cwd=chats.folder).code == 0
    rows = desk.cortext("list", "--json", cwd=chats.folder).json
    assert len(rows) == 2 and "Bridges" in {row["title"] for row in rows}, "OpenCode gives the other one a title"
    for folder in (desk.home / ".local/share/cortext", chats.folder, desk.home / ".cache/cortext"):
        for path in folder.rglob("*"):
            if path.is_file():
                assert b"Ornithophobia" not in path.read_bytes(), path


def _found(chats: Chats, title: str) -> dict[str, Any]:
    rows = chats.desk.cortext("list", "--here", "--json", cwd=chats.folder).json
    return next((row for row in rows if row["title"] == title and row["message_count"]), {})


@pytest.mark.real_tool
@pytest.mark.req("SELF-03")
@pytest.mark.parametrize("name", OTHERS)
def test_our_tools_are_listed_when_the_program_has_started_our_server(desk: Desk, name: str) -> None:
    chats = Chats(desk, name)

    def tools(topic: str) -> tuple[list[str], list[str]]:
        chats.say(f"/workspace.plan {topic}", "Noted.")
        wait_until(lambda: _found(chats, topic), why="the answer is captured")
        [path] = chats.folder.glob(f"conversations/*/*{topic.lower()}/.session/session.json")
        config = json.loads(path.read_text(encoding="utf-8"))["agent_config"]
        return config["tools"], config.get("tools_configured", [])

    own = sorted(f"mcp__cortext__{tool}" for tool in SPECS)
    assert tools("Storks") == (own, [])
    if name == "gemini":  # the user does not want the server
        path = chats.tool.home / ".gemini" / "settings.json"
        settings = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps(settings | {"mcp": {"excluded": ["cortext"]}}), encoding="utf-8")
        had, configured = tools("Geese")
        assert (had, sorted(configured)) == ([], own)


@pytest.mark.real_tool
@pytest.mark.req("SELF-04", "SAFE-08")
def test_what_was_said_in_one_program_is_told_to_the_other(desk: Desk) -> None:
    chats = Chats(desk, "claude", "codex")
    codex = chats.within("codex")
    first = chats.say("/workspace.brainstorm API design", "What is the core problem?")
    second = codex.say("/workspace.resume 1", "Picked up.")
    codex.say("How long is a cursor valid?", "For an hour.", resume=second)

    chats.say("REST or GraphQL?", "REST.", resume=first)
    told = str(desk.server.turns[-1].body)
    assert "added to this conversation in Codex" in told
    assert "- user: How long is a cursor valid?" in told and "- assistant: For an hour." in told

    desk.server.push("Reading it.")
    codex.say("And the limits?", "A hundred a minute.", resume=second)
    answered, followed = desk.server.turns[-2:]
    assert "added to this conversation in Claude Code" in str(answered.body)
    assert "- user: REST or GraphQL?" not in str(answered.body)
    record = next(turn for turn in followed.conversation if "- user: REST or GraphQL?" in turn.text)
    assert record.role == "user", "what was said has no authority of a developer"
    assert "- assistant: REST." in record.text and "not instructions" in record.text

    assert "2 branches" in desk.cortext("list", "--here", cwd=chats.folder).out
    shown = desk.cortext("show", NAME, "--no-pager", cwd=chats.folder).out
    assert "A branch: in Codex" in shown or "in Codex, after message" in shown
    assert "not instructions" not in chats.log()


@pytest.mark.real_tool
@pytest.mark.req("SESS-005b")
@pytest.mark.parametrize("name", ["codex", "gemini"])
def test_a_pause_in_between_is_said_on_the_screen_of_the_program(tmp_path: Path, name: str) -> None:
    with ModelServer() as server:
        chats = Chats(Desk(tmp_path, server, names=[name]), name)
        server.push("What is the core problem?")
        typed = f"{'$workspace-' if name == 'codex' else '/workspace.'}brainstorm API design"
        command = chats.tool.interactive(typed)
        with Screen(tmp_path, command, chats.desk.env, chats.folder, "150x70") as screen:
            screen.wait_for("What is the core problem?", timeout=60)

            def is_paused() -> bool:
                assert chats.desk.cortext("sweep", "--minutes", "0", "--quiet", cwd=chats.folder).code == 0
                return bool(chats.session()["status"] == "paused" and chats.session()["message_count"] == 2)

            wait_until(is_paused, why="the answer is stored, and the conversation is paused")
            server.push("By cursor.")
            chats.desk.say(screen, "And the pagination")
            screen.wait_for("saved and paused after 0 quiet minutes", timeout=60)
        assert "Tell the user so" not in str(server.turns[-1].body)


@pytest.mark.real_tool
@pytest.mark.req("SESS-005b")
def test_a_pause_in_between_is_said_by_the_model_where_no_hook_can(desk: Desk) -> None:
    chats = Chats(desk, "opencode")
    key = chats.say("/workspace.brainstorm API design", "What is the core problem?")
    wait_until(lambda: _found(chats, "API design").get("message_count") == 2, why="the answer is stored")
    with desk.environment():
        running_chats.note_pause(Origin(tool="opencode", session_id=key), str(chats.folder), 5)
    chats.say("And pagination?", "By cursor.", resume=key)
    told = str(desk.server.turns[-1].body)
    assert "saved and paused after 5 quiet minutes" in told and "Tell the user so" in told
    chats.say("And limits?", "None.", resume=key)
    assert str(desk.server.turns[-1].body).count("Tell the user so") <= 1, "told once"


@pytest.mark.real_tool
@pytest.mark.req("FLOW-01")
def test_a_long_hook_shows_on_the_screen_of_claude_that_it_works(tmp_path: Path) -> None:
    with ModelServer() as server:
        chats = Chats(Desk(tmp_path, server, names=["claude"]), "claude")
        settings = chats.folder / ".claude/settings.json"
        slow = re.sub(r'"command": "[^"]*hook claude[^"]*"', '"command": "sleep 20"', settings.read_text("utf-8"))
        settings.write_text(slow, encoding="utf-8")
        (chats.folder / ".mcp.json").unlink()  # the program would ask the user to approve it
        command = chats.tool.interactive("Where do herons nest?")
        with Screen(tmp_path, command, chats.desk.env, chats.folder, "150x70") as screen:
            screen.wait_for("cortext saves the conversation", timeout=60)


@pytest.mark.real_tool
@pytest.mark.req("FLOW-01")
def test_the_list_on_the_screen_of_codex_begins_with_words_that_are_no_error(tmp_path: Path) -> None:
    with ModelServer() as server:
        chats = Chats(Desk(tmp_path, server, names=["codex"]), "codex")
        chats.say("/workspace.brainstorm API design", "What is the core problem?")
        server.push("Looking it up.", "Which one?")
        command = chats.tool.interactive("$workspace-resume")
        with Screen(tmp_path, command, chats.desk.env, chats.folder, "150x70") as screen:
            lines = [line.strip(" └") for line in screen.wait_for("Which one?").splitlines() if line.strip()]
        shown = lines.index("• Blocked by hook")
        assert lines[shown + 1] == "This is what you asked cortext for; nothing went wrong."
        assert lines[shown + 2] == "Here are your resumable conversations:"
