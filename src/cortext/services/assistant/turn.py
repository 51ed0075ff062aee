"""The assistant itself, whoever the face is: a turn in a session, with its memory at hand and its tools.

The session is locked only while a line is written, not while the model thinks: the same session may be open on the
phone, on the desk and at the worker, and nobody waits for anybody.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from queue import SimpleQueue
from typing import TYPE_CHECKING

from cortext.errors import CortextError
from cortext.llm.base import Model
from cortext.model.message import ASSISTANT, TOOL, TOOL_CALL, TOOL_RESULT, USER, Message, Part
from cortext.model.session import Change, Session
from cortext.services.assistant.backfill import Embedder, embed
from cortext.services.assistant.context import Context, ContextBuilder, working
from cortext.services.assistant.memory import Memory
from cortext.services.assistant.memory_tools import MemoryTools
from cortext.services.assistant.sessions import ChatSessions
from cortext.services.library.stores import settle
from cortext.services.talk.turn import Talk
from cortext.store.base import Store

if TYPE_CHECKING:
    from cortext.services.library.search import Search


class BriefWriter:
    """A writer (see base.Writer) that takes the session's lock for each write, and lets go at once."""

    def __init__(self, store: Store, session_id: str) -> None:
        self._store, self._session_id = store, session_id

    def append(self, *messages: Message) -> list[Message]:
        return self._store.append(self._session_id, *messages)

    def session(self) -> Session:
        return self._store.peek(self._session_id)

    def update(self, change: Change) -> Session:
        return self._store.update(self._session_id, change)


class Models:
    """Models to talk to: each talk has one to itself while it lasts, so that stopping one stops no other."""

    def __init__(self, make: Callable[[], Model]) -> None:
        self._make = make
        self._free: list[Model] = []
        self._lock = threading.Lock()

    def take(self) -> Model:
        """One that nobody uses; NoModel."""
        with self._lock:
            if self._free:
                return self._free.pop()
        return self._make()

    def give_back(self, model: Model) -> None:
        """It may be used by another talk."""
        with self._lock:
            self._free.append(model)


class Background:
    """One thread for what nobody waits for. What fails there is mended by the worker, and nobody's concern here."""

    def __init__(self) -> None:
        self._work: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def do(self, work: Callable[[], object]) -> None:
        """Do it soon."""
        self._work.put(work)
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, daemon=True, name="background")
            self._thread.start()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work()
            except (CortextError, OSError):
                pass

    def finish(self, seconds: float) -> None:
        """Wait for what is left to do, but not longer than that."""
        if self._thread is not None:
            self._work.put(None)
            self._thread.join(seconds)


class Assistant:
    """Everything that a face of the assistant needs."""

    def __init__(
        self,
        sessions: ChatSessions,
        memory: Memory,
        contexts: ContextBuilder,
        models: Models,
        *,
        search: Callable[[], Search],
        embedder: Callable[[], Embedder],
        auto_create: bool = True,
        keep_messages: int = 20,
    ) -> None:
        self.sessions, self.memory, self.contexts, self.models = sessions, memory, contexts, models
        self.embedder, self._make_search = embedder, search
        self._of_thread = threading.local()  # a search has a database, and a database has one thread
        self.auto_create, self.keep_messages = auto_create, keep_messages
        self.background = Background()

    @property
    def store(self) -> Store:
        """The assistant's sessions."""
        return self.sessions.store

    def search(self) -> Search:
        """The search over every session of every tool."""
        search: Search | None = getattr(self._of_thread, "search", None)
        if search is None:
            search = self._of_thread.search = self._make_search()
        return search

    def context(self, session_id: str, model_context: int = 0, *, tools: bool = True) -> Context:
        """What the model sees of a session now."""
        return self.contexts.build(self.store, self.store.peek(session_id), model_context, tools=tools)

    def talk(self, session_id: str, model: Model) -> Talk:
        """A session, ready for the next words."""
        view = self.context(session_id, model.context, tools=model.takes_tools).view
        tools = MemoryTools(self.memory, self.search, session_id=session_id) if model.takes_tools else None
        return Talk(BriefWriter(self.store, session_id), view, model, tools=tools)

    def say(self, talk: Talk, message: Message) -> Message:
        """Store the user's words, durably; what the tools of this turn remember says that it comes from them."""
        stored = talk.store(message)[0]
        if isinstance(talk.tools, MemoryTools):
            talk.tools.message_id = stored.id
        return stored

    def afterwards(self, session_id: str, messages: Iterable[Message]) -> None:
        """The end of a turn: the counts on disk are right. Then, what nobody waits for: vectors, and a title."""
        wanted = list(messages)
        settle(self.store, session_id)

        def work() -> None:
            from cortext.services.text.titles import title

            embed(self.store, session_id, self.embedder(), wanted)
            if not self.store.peek(session_id).title:
                self.store.update(session_id, Change(title=title(list(working(self.store, session_id)))))

        self.background.do(work)


def missing_setup(model: Model) -> str:
    """What the user should know about a model that cannot be given our tools; empty for all others."""
    if model.takes_tools:
        return ""
    return f"{model.name} has no tools of ours: it cannot look into past sessions or remember; /search and /remember do"


def unanswered_calls(messages: Sequence[Message]) -> Message | None:
    """What to store before the model is asked again, where a crash came between a tool's call and its result.

    Nobody knows whether the tool was run: the model is told so, and nothing is run a second time by us.
    """
    last = next((message for message in reversed(messages) if not message.partial and not message.aside), None)
    if last is None or last.role != ASSISTANT:
        return None
    parts = [
        Part(
            type=TOOL_RESULT,
            call_id=part.id,
            name=part.name,
            output="interrupted by a restart: it is not known whether this was done",
            is_error=True,
        )
        for part in last.parts_of(TOOL_CALL)
    ]
    return Message(role=TOOL, parts=parts) if parts else None


def answer_to(messages: Sequence[Message], message_id: str) -> Message | None:
    """The whole answer that was stored after this message, if there is one: its last words, no more calls."""
    after = [message.id for message in messages].index(message_id) + 1
    for message in messages[after:]:
        if message.role == USER and not message.aside:
            return None
        if message.role == ASSISTANT and not message.partial and not message.parts_of(TOOL_CALL):
            return message
    return None
