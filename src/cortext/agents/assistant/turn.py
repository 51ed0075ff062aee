"""The assistant, as every face uses it: turns in a session, with its memory and its tools.

A session is locked only while a message is written, not while the model answers: the same session may be in use in a
terminal, in a messenger and by the worker at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING

from cortext.agents.assistant.context import ContextBuilder, PromptContext, working
from cortext.agents.assistant.memory import Memory, MemoryTools
from cortext.agents.assistant.sessions import ChatSessions
from cortext.agents.llm.base import ChatModel
from cortext.agents.talk.turn import Talk
from cortext.errors import CortextError
from cortext.model.ids import chat_of
from cortext.model.message import ASSISTANT, TOOL, TOOL_CALL, TOOL_RESULT, USER, Message, Part
from cortext.model.session import ACTIVE, IDLE, Change, Session
from cortext.services.library.backfill import Embedder, embed
from cortext.services.library.stores import settle
from cortext.services.text.titles import title
from cortext.store.base import Store

if TYPE_CHECKING:
    from cortext.services.library.search import Search


class BriefWriter:
    """A writer (see base.Writer) that holds the session's lock only during each write."""

    def __init__(self, store: Store, session_id: str, *, is_idle: bool = False) -> None:
        self._store, self._session_id, self._is_idle = store, session_id, is_idle

    def append(self, *messages: Message) -> list[Message]:
        if self._is_idle:
            self._store.update(self._session_id, Change(status=ACTIVE))
            self._is_idle = False
        return self._store.append(self._session_id, *messages)

    def session(self) -> Session:
        return self._store.peek(self._session_id)

    def update(self, change: Change) -> Session:
        return self._store.update(self._session_id, change)


class ModelPool:
    """A pool of models. Each turn uses one exclusively, so that stopping one turn stops no other."""

    def __init__(self, make: Callable[[], ChatModel]) -> None:
        self._make = make
        self._free: list[ChatModel] = []
        self._lock = threading.Lock()

    def take(self) -> ChatModel:
        """Return a model that no other turn uses; NoModel if none is available."""
        with self._lock:
            if self._free:
                return self._free.pop()
        return self._make()

    def give_back(self, model: ChatModel) -> None:
        """Return a model to the pool."""
        with self._lock:
            self._free.append(model)


class DeferredWork:
    """One thread for deferred work. Failures are ignored: the worker repeats what is missing."""

    def __init__(self) -> None:
        self._work: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def do(self, work: Callable[[], object]) -> None:
        """Queue a function for the thread."""
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
        """Wait for the queued work, for at most this many seconds."""
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
        models: ModelPool,
        *,
        search: Callable[[], Search],
        embedder: Callable[[], Embedder],
        auto_create: bool = True,
        keep_messages: int = 20,
    ) -> None:
        self.sessions, self.memory, self.contexts, self.models = sessions, memory, contexts, models
        self.embedder, self._make_search = embedder, search
        self._of_thread = threading.local()  # the database connection of a search must stay in its thread
        self.auto_create, self.keep_messages = auto_create, keep_messages
        self.background = DeferredWork()

    @property
    def store(self) -> Store:
        """The store of the assistant's sessions."""
        return self.sessions.store

    def search(self) -> Search:
        """Return the search over the sessions of every tool."""
        search: Search | None = getattr(self._of_thread, "search", None)
        if search is None:
            search = self._of_thread.search = self._make_search()
        return search

    def context(self, session_id: str, model_context: int = 0, *, tools: bool = True) -> PromptContext:
        """Return the current context of a session."""
        return self._context_of(self.store.peek(session_id), model_context, tools=tools)

    def _context_of(self, session: Session, model_context: int, *, tools: bool) -> PromptContext:
        return self.contexts.build(self.store, session, self.memory_of(session.id), model_context, tools=tools)

    def memory_of(self, chat_or_session: str) -> Memory:
        """Return what a chat, or a session, may know of the memory: users of a messenger share none."""
        return self.memory.within(self.sessions.reach(chat_or_session).has)

    def knows(self, chat_or_session: str) -> Callable[[str, str], bool] | None:
        """Return what says whether a chat, or a session, may know a session (store, id); None: it knows every one."""
        return partial(self.sessions.knows, chat_or_session) if chat_of(chat_or_session) else None

    def talk(self, session_id: str, model: ChatModel) -> Talk:
        """Return the conversation of a session, ready for the next message."""
        session = self.store.peek(session_id)
        view = self._context_of(session, model.context, tools=model.takes_tools).view
        memory, knows = self.memory_of(session_id), self.knows(session_id)
        tools = MemoryTools(memory, self.search, session_id=session_id, knows=knows) if model.takes_tools else None
        return Talk(BriefWriter(self.store, session_id, is_idle=session.status == IDLE), view, model, tools=tools)

    def say(self, talk: Talk, message: Message) -> Message:
        """Store the user's message durably. Facts that this turn's tools remember name it as their origin."""
        stored = talk.store(message)[0]
        if isinstance(talk.tools, MemoryTools):
            talk.tools.message_id = stored.id
        return stored

    def end_turn(self, session_id: str, messages: Iterable[Message]) -> None:
        """End a turn: bring the counts on disk up to date, then compute vectors and a title in the background."""
        new_messages = list(messages)
        settle(self.store, session_id)

        def work() -> None:
            embed(self.store, session_id, self.embedder(), new_messages)
            if not self.store.peek(session_id).title:
                self.store.update(session_id, Change(title=title(list(working(self.store, session_id)))))

        self.background.do(work)


def missing_setup(model: ChatModel) -> str:
    """Return a notice for the user if the model does not support tools; empty otherwise."""
    if model.takes_tools:
        return ""
    return f"{model.name} cannot search past sessions or remember things by itself; use /search and /remember"


def unanswered_calls(messages: Sequence[Message]) -> Message | None:
    """Return the tool results to store before the model is asked again, if a crash came after its tool calls.

    The tools are not run again, since they may have run before the crash; the results say so.
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
    """Return the complete final answer (without tool calls) that was stored after this message; None without one."""
    after = [message.id for message in messages].index(message_id) + 1
    for message in messages[after:]:
        if message.role == USER and not message.aside:
            return None
        if message.role == ASSISTANT and not message.partial and not message.parts_of(TOOL_CALL):
            return message
    return None
