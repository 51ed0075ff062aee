"""Building the assistant (`alfred` and the Telegram bot): its sessions, memory, worker and the journals of its bots."""

from __future__ import annotations

import os
from collections.abc import Sequence

from cortext.agents.assistant.context import ContextBuilder
from cortext.agents.assistant.memory import Memory
from cortext.agents.assistant.sessions import COMMAND_LINE, ChatSessions
from cortext.agents.assistant.turn import Assistant, ModelPool
from cortext.agents.assistant.worker import ChatWorker, ServerJobs
from cortext.agents.choosing import choose_model
from cortext.config import folders
from cortext.errors import ConfigError
from cortext.index.derived import BackgroundJobs
from cortext.io import durable, locks
from cortext.model.ids import chat_name
from cortext.store.assistant import Chats, Facts, SharedUpdates
from cortext.store.files.assistant import FileChats, FileFacts, FileUpdates
from cortext.wiring.stores import CHAT, Stores, embedder


def build_assistant(stores: Stores, model: str = "") -> Assistant:
    """Return the assistant, with its sessions, its memory, and the model of that name or of the settings."""
    location, settings = stores.location(CHAT), stores.settings
    if location.address:
        server = stores.server(location)
        chats: Chats = server.chats()
        facts: Facts = server.facts()
    else:
        folder = folders.assistant(settings)
        current = os.path.join(folders.chat_sessions(settings), "current.json")
        chats = FileChats(os.path.join(folder, "chats"), COMMAND_LINE, current)
        facts = FileFacts(os.path.join(folder, "memory", "memories.jsonl"))
    memory = Memory(facts, _similarity)
    contexts = ContextBuilder(
        limit=settings.chat.context_tokens,
        facts=settings.chat.facts_tokens,
        own_prompt=_own_prompt(settings.chat.prompt_file),
    )
    return Assistant(
        ChatSessions(
            stores.open(location), location.root, chats, stores.listing, _desk_chats(settings.telegram.desk_chats)
        ),
        memory,
        contexts,
        ModelPool(lambda: choose_model(settings, stores.folder, model or settings.chat.model)),
        search=stores.search,
        embedder=embedder,
        auto_create=settings.chat.auto_create,
        keep_messages=settings.chat.keep_messages,
    )


def build_worker(stores: Stores, assistant: Assistant, *, at_once: int = 20) -> ChatWorker:
    """Return the worker that summarises, shortens and indexes the assistant's sessions in the background."""
    location, settings = stores.location(CHAT), stores.settings
    server = stores.server(location) if location.address else None
    served = ServerJobs(server.chores()) if server else None
    lock = os.path.join(folders.chat_sessions(settings), ".cortext", "worker.lock")
    return ChatWorker(
        assistant.store,
        served or stores.listing(),
        served or BackgroundJobs(folders.cache(), location.root),
        embedder=embedder,
        models=assistant.models,
        lock=None if server else locks.Lock(lock),
        idle_minutes=settings.session.idle_minutes,
        compact_tokens=settings.chat.compact_tokens,
        keep_messages=settings.chat.keep_messages,
        at_once=at_once,
        claims=server.claims() if server else None,
    )


def bot_updates(stores: Stores, bot: int) -> FileUpdates | SharedUpdates:
    """Return the journal of one bot."""
    location = stores.location(CHAT)
    if location.address:
        return stores.server(location).updates(bot)
    return FileUpdates(os.path.join(folders.assistant(stores.settings), "telegram", f"{bot}.jsonl"))


def _similarity(query: str, texts: Sequence[str]) -> Sequence[float]:
    """Return how similar in meaning a query is to each of these texts."""
    vectors = embedder().embed([query, *texts])
    similarity: list[float] = (vectors[1:] @ vectors[0]).tolist()
    return similarity


def _desk_chats(listed: str) -> list[str]:
    """Return the names of the messenger's chats that know what belongs to this machine."""
    try:
        return [chat_name(int(number)) for number in listed.replace(",", " ").split()]
    except ValueError:
        raise ConfigError(
            f"invalid telegram.desk_chats {listed!r}",
            hint='use the numbers of users and groups, separated by commas, such as "4711, -100123"',
        ) from None


def _own_prompt(path: str) -> str:
    """Return the user's own system prompt; empty if no file is named."""
    if not path:
        return ""
    try:
        return durable.read_text(os.path.expanduser(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"cannot read chat.prompt_file {path}: {error}", hint="check that the file exists and is UTF-8"
        ) from error
