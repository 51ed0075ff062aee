"""Fixtures: a model server on loopback, and the assistant in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cortext.agents.assistant.build import build_assistant, build_worker
from cortext.agents.assistant.commands import Commands, Outcome
from cortext.agents.assistant.sessions import COMMAND_LINE
from cortext.agents.assistant.turn import Assistant
from cortext.agents.assistant.worker import ChatWorker
from cortext.model.message import ASSISTANT, USER, Message
from cortext.wiring.stores import Stores
from tests.agents.alfred.kit import Parrot, environment, sessions_of


@pytest.fixture
def model() -> Iterator[Parrot]:
    """A model server that echoes the question."""
    with Parrot() as server:
        yield server


class Desk:
    """The assistant in this process, with its files in this test's HOME."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.stores = Stores(str(home))
        self.assistant: Assistant = build_assistant(self.stores)
        self.commands = Commands(self.assistant)

    def do(self, line: str, chat: str = COMMAND_LINE) -> Outcome:
        """Run a slash command."""
        return self.commands.run(chat, line)

    def say(self, text: str, chat: str = COMMAND_LINE) -> str:
        """Run one turn; return the answer of the model."""
        session_id, _ = self.assistant.sessions.ensure(chat)
        model = self.assistant.models.take()
        talk = self.assistant.talk(session_id, model)
        self.assistant.say(talk, Message(role=USER, content=text))
        for _ in talk.answer():
            pass
        self.assistant.models.give_back(model)
        return talk.reply.text if talk.reply else ""

    def fill(self, session_id: str, count: int, chat: str = COMMAND_LINE) -> None:
        """Create a session with this many messages, without asking the model."""
        self.assistant.sessions.start(chat, session_id=session_id)
        text = "we decided to keep the retry budget in `retry_policy.py` because of ticket OPS-{}"
        self.assistant.store.append(
            session_id,
            *(
                Message(role=(USER, ASSISTANT)[number % 2], content=f"message {number}: {text.format(number)}")
                for number in range(count)
            ),
        )

    def worker(self) -> ChatWorker:
        """Return a new worker, as another process would build it."""
        return build_worker(self.stores, self.assistant)

    def folder(self, session_id: str) -> Path:
        """Return the folder of a session."""
        return sessions_of(self.home) / session_id


@pytest.fixture
def desk(home: Path, model: Parrot, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """The assistant in this process. Chat 4711 is its owner's; it knows what was said at the desk."""
    for name, value in {**environment(home, model), "CORTEXT_TELEGRAM_DESK_CHATS": "4711"}.items():
        monkeypatch.setenv(name, value)
    return Desk(home)
