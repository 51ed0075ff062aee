"""The tests with a real program that is not one of the four: imported, resumed in both directions, on its screen."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from tests.support.desk import MORE_NAMES, Desk
from tests.support.launching import captured_again, launched
from tests.support.model_server import ModelServer, Request
from tests.support.pairs import (
    DATA,
    Conversation,
    Said,
    copied,
    hold,
    imported,
    outcomes,
)
from tests.support.runners import ANOTHER_MODEL, make_tool

from cortext.model.message import ATTACHMENT, Message
from cortext.model.threads import thread
from cortext.services.library.stores import StoredConversation
from cortext.services.resume.planning import OWN, Plan
from cortext.wiring.stores import Stores

Conversations = dict[str, tuple[Path, list[Said]]]


class RealFlow:
    """The tests of one program, on a machine where it was used before with another provider and another model."""

    name: ClassVar[str]  # our name of the program
    sessions: ClassVar[str]  # the folder in the home that it does not have before its first use
    attached: ClassVar[tuple[str, ...]] = ()  # the messages with the files that a prompt named
    errors: ClassVar[tuple[bool, ...]] = (False, False, True)  # which results are recorded as errors
    loses_outputs: ClassVar[bool] = False  # the program itself may lose the outputs of two commands at once
    changed: ClassVar[dict[str, int]] = {}  # what the receipt of a resume in it says
    targets: ClassVar[tuple[str, ...]] = ("claude",)  # the programs that its conversation is resumed in

    def check_imported(self, conversation: StoredConversation, messages: list[Message]) -> None:
        """Check what only this program records."""

    def check_resumed(self, desk: Desk, plan: Plan, request: Request, project: Path) -> None:
        """Check what only this program does with a session that we wrote, such as listing it."""

    @pytest.fixture(scope="class")
    @classmethod
    def desk(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
        """Return a machine on which the program was used before."""
        folder = tmp_path_factory.mktemp("desk")
        with ModelServer() as other:
            tool = make_tool(MORE_NAMES[cls.name], folder / "home", other.url)
            tool.choose_another_model()
            elsewhere = folder / "elsewhere"
            elsewhere.mkdir()
            done = tool.run("Please put the kettle on.", cwd=elsewhere)
            assert done.returncode == 0, done.stderr
            assert other.turns[-1].body["model"] == ANOTHER_MODEL
        with ModelServer() as server:
            yield Desk(folder, server, names=dict.fromkeys(("claude", cls.name, *cls.targets)))

    @pytest.fixture(scope="class")
    @classmethod
    def conversations(cls, desk: Desk, of_claude: Conversation) -> Conversations:
        """Hold a conversation in the program, and get one of Claude Code; return the project and the texts of each."""
        project = desk.project(f"{cls.name}-project")
        own = (project, hold(desk, cls.name, project))
        shutil.copytree(of_claude.home / DATA, desk.home / DATA, dirs_exist_ok=True)
        for tool in desk.tools.values():
            tool.trust(of_claude.project)
        return {cls.name: own, "claude": (of_claude.project, of_claude.said)}

    @pytest.fixture
    def stores(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Stores:
        """Return the stores in the environment of the desk."""
        for name, value in desk.env.items():
            monkeypatch.setenv(name, value)
        return Stores(str(desk.home))

    @pytest.mark.req("TOOL-02", "TOOL-06", "SESS-001d", "STORE-13")
    def test_a_real_conversation_is_imported_whole(
        self, desk: Desk, conversations: Conversations, stores: Stores
    ) -> None:
        project, said = conversations[self.name]
        conversation = imported(desk, stores, self.name, project)
        messages = thread(conversation.store.read(conversation.session.id))
        attached = [message for message in messages if ATTACHMENT in (message.extra or {})]
        assert tuple(message.content for message in attached) == self.attached
        spoken = [message for message in messages if message.content and message not in attached]
        assert [(message.role, message.content) for message in spoken] == said
        results = outcomes(desk, messages, may_lose=self.loses_outputs)
        assert tuple(part.is_error for part in results) == self.errors
        assert {message.model for message in messages if message.role == "assistant"} == {"test-model"}
        again = desk.cortext("import", "--from", self.name, "--json", cwd=project).json
        assert again[0]["messages"] == 0, "idempotent"
        assert again[0]["failed"] == [], "nothing in the program's own store is left over"
        self.check_imported(conversation, messages)

    @pytest.mark.req("TOOL-02", "TOOL-06", "SESS-004d", "SESS-003b", "SESS-003c", "SAFE-09", "TRUE-01")
    @pytest.mark.parametrize("home", [pytest.param("fresh", marks=pytest.mark.repeats), "used"])
    def test_a_conversation_of_claude_opens_on_its_screen_and_is_captured_again(
        self, desk: Desk, conversations: Conversations, stores: Stores, home: str
    ) -> None:
        project, said = conversations["claude"]
        conversation = copied(imported(desk, stores, "claude", project), f"{self.name}-{home}")
        folder = desk.home / self.sessions
        if home == "fresh":
            folder.rename(folder.with_name("of before"))
            desk.tools[self.name].trust(project)
        try:
            result = launched(desk, stores, conversation, self.name, project)
            plan, request = result.plan, result.request
            outcome = result.outcome(said)
            assert outcome.problems == []
            assert (outcome.messages, outcome.calls, outcome.left_out) == (outcome.of_messages, 3, {})
            assert outcome.changed == self.changed
            assert request.body["model"] == "test-model"
            calls = [turn.call_id for turn in request.conversation if turn.kind == "tool_call"]
            results = [turn.call_id for turn in request.conversation if turn.kind == "tool_result"]
            assert sorted(results) == sorted(calls)  # two at once may end in any order
            assert captured_again(desk, conversation, self.name) == []
            self.check_resumed(desk, plan, request, project)
        finally:
            if home == "fresh":
                shutil.rmtree(folder)
                folder.with_name("of before").rename(folder)

    @pytest.mark.req("TOOL-02", "TOOL-06", "SESS-004d", "SESS-003b", "SESS-003c", "SAFE-03")
    def test_its_conversation_is_resumed_in_other_tools(
        self, desk: Desk, conversations: Conversations, stores: Stores
    ) -> None:
        project, said = conversations[self.name]
        original = imported(desk, stores, self.name, project)
        for target in self.targets:
            conversation = copied(original, target)
            outcome = launched(desk, stores, conversation, target, project).outcome(said)
            assert outcome.problems == [], target
            assert (outcome.messages, outcome.calls, outcome.left_out) == (outcome.of_messages, 3, {}), target
            assert captured_again(desk, conversation, target) == [], target

    @pytest.mark.repeats
    @pytest.mark.req("SESS-004d", "TRUE-01")
    def test_its_own_session_opens_on_its_screen_and_only_grows(
        self, desk: Desk, conversations: Conversations, stores: Stores
    ) -> None:
        """The last of its tests, because the conversation is longer after it."""
        project, said = conversations[self.name]
        conversation = imported(desk, stores, self.name, project)
        result = launched(desk, stores, conversation, self.name, project)
        assert result.plan.how == OWN
        assert result.outcome(said).problems == []
        assert captured_again(desk, conversation, self.name) == []


def files_in(folder: Path) -> dict[str, bytes]:
    """Return the contents of every file in a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def check_hooks(folder: Path, name: str, files: dict[Path, str]) -> None:
    """Check the commands and hooks of a program in a project with these files, which `cortext uninstall` restores."""
    with ModelServer() as server:
        desk = Desk(folder, server, names=(name,))
        tool, project = desk.tools[name], desk.project("w")
        for path, contents in files.items():
            path.parent.mkdir(parents=True)
            path.write_text(contents, encoding="utf-8")
        done = desk.cortext("init", "--ai", name, cwd=project)
        assert done.code == 0, done.err

        def say(words: str, answer: str, key: str | None = None) -> str:
            server.push(answer)
            done = tool.run(words, cwd=project, resume=key)
            assert done.returncode == 0, done.stderr
            return key or tool.sessions()[-1]

        first = say("/workspace.brainstorm API design", "What is the core problem?")
        say("REST or GraphQL?", "REST, because it is simple.", first)
        log = next(project.glob("conversations/*/001-brainstorm-api-design/.session/messages.jsonl"))
        kept = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        assert [(message["role"], message["content"]) for message in kept] == [
            ("user", "/workspace.brainstorm API design"),
            ("assistant", "What is the core problem?"),
            ("user", "REST or GraphQL?"),
            ("assistant", "REST, because it is simple."),
        ], "without an import"

        # Another chat resumes it, and is attached to it.
        second = say("/workspace.resume 001", "Picked up: REST.")
        received = "\n".join(server.turns[-1].texts())
        assert "[RESUMED CONVERSATION]" in received and "REST, because it is simple." in received
        say("What about pagination?", "Cursors, not pages.", second)
        assert "Cursors, not pages." in log.read_text(encoding="utf-8")
        assert "[RESUMED CONVERSATION]" not in log.read_text(encoding="utf-8")

        assert desk.cortext("uninstall", cwd=project).code == 0
        assert {path: path.read_text(encoding="utf-8") for path in files} == files
