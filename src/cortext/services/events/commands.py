"""The commands that a user types in a chat: start, resume or stop a conversation, or ask for related ones."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress

from cortext.errors import CortextError, StoreUnreachable
from cortext.model.amounts import amount
from cortext.safety.secrets.masking import mask
from cortext.services.capture.capture import session_id_for
from cortext.services.events import related
from cortext.services.events.chat import TAIL, ToolChat, safe_text
from cortext.services.library.listing import incomplete_line
from cortext.services.resume.in_tool import LARGEST, ChatResumer, reply_in_chat
from cortext.services.workspace import registry, running_chats
from cortext.services.workspace.lifecycle import begin, confirmation
from cortext.tools.base import Installer

# For a tool whose hooks speak with a developer's authority: the record is sent as a user's message instead.
_FOLLOWS = (
    "The record follows as the next message, right after your answer. Answer now, in one short sentence, that you are "
    "looking it up."
)


def run_command(chat: ToolChat, name: str) -> str:
    """Do what `/workspace.<name>` asks for; return the text for the model."""
    if name == "resume":
        return "" if chat.tool.commands_run else _resume(chat)  # otherwise its file has run `cortext resume`
    if name == "stop-conversation":
        return safe_text(_once(chat, _stop))
    if name == "related":
        return safe_text(_once(chat, _related))
    entry = registry.load(chat.world.workspace).types.get(name)
    if entry is None or not entry.sessions:  # not one of our commands, or of a type without sessions
        return ""
    return safe_text(_start(chat, name))


def _once(chat: ToolChat, answer: Callable[[ToolChat], str]) -> str:
    """Return the answer to a command, unless an event of another kind has answered it in the same prompt.

    A second event of the same kind is another prompt: of a turn that was interrupted, no end is reported.
    """
    if chat.record().answered_by not in ("", chat.event.kind):
        return ""
    said = answer(chat)
    with chat.changed_record() as record:
        record.answered_by = chat.event.kind
    return said


def _stop(chat: ToolChat) -> str:
    """Save and pause the conversation of this chat; return the confirmation."""
    chat.capture_new()
    found = chat.current()
    if found is None:
        return "This chat belongs to no conversation of this workspace, so there is nothing to stop."
    with chat.changed_record() as record:
        record.owed = ""
    return confirmation(chat.save(found))


def _resume(chat: ToolChat) -> str:
    """Return the list of conversations, or resume one in this chat and return its context."""
    world, record = chat.world, chat.record()
    resumer = ChatResumer(
        world.listing(), chat.capture, world.workspace, record, caught_up=world.caught_up, save=chat.save
    )
    # Earlier messages belong to the earlier conversation.
    wanted, capture_chat = chat.event.arguments, chat.capture_new
    if not chat.tool.records_after_answer:
        return reply_in_chat(resumer, wanted, capture_chat).text()
    reply = reply_in_chat(resumer, wanted, capture_chat, LARGEST, lambda text: len(text.encode("utf-8", "replace")))
    record.owed = reply.record
    running_chats.save(record)
    instruction = "cortext has answered this already; do not run the command again."
    if reply.record:
        instruction += f" {_FOLLOWS}"
    return "\n".join(part for part in (reply.done, instruction) if part)


def _start(chat: ToolChat, kind: str) -> str:
    """Create the conversation, its notes and its session before the model receives the prompt."""
    workspace, tool = chat.world.workspace, chat.tool
    found = chat.current()
    command = mask(f"{kind} {chat.event.arguments}").text  # it is stored with the session, and so in git
    if found is None or found.session.extra.get("begun_by") != command or found.session.message_count > 0:
        chat.capture_new()  # earlier messages belong to the earlier conversation
        named_store = chat.world.workspace_store()
        session = begin(
            named_store,
            kind,
            chat.event.arguments,
            origin=chat.origin,
            servers=tool.mcp_servers(workspace) if isinstance(tool, Installer) else set(),
            begun_by=command,
        )
        chat.capture.attach(named_store, session.id, tool.name, chat.event.key, from_now=True)
    else:
        session = found.session
    folder = os.path.relpath(session.path, workspace)
    return (
        f"cortext keeps this conversation in {folder}/, which already exists, and saves every message by itself. "
        f"Its notes document is {folder}/{kind}.md."
    )


def _related(chat: ToolChat) -> str:
    """Return three conversations about what was asked for, or about the last thing that the user asked here."""
    workspace = chat.world.workspace
    with suppress(StoreUnreachable):  # the answer says so, and the next event captures it
        chat.capture_new()  # the last ask may not be stored yet
    kept = chat.kept()
    topic = chat.event.arguments.strip()
    if not topic and kept is not None:
        topic = related.topic_in(kept.store.tail(kept.session.id, TAIL))
    if not topic:
        return "Nothing was asked in this chat yet: `/workspace.related TOPIC` looks for conversations about a topic."
    this_chat = [session_id_for(chat.tool.name, chat.event.key), *([kept.session.id] if kept else [])]
    search = chat.world.search().reachable()
    try:
        found = related.related(search, topic, workspace, this_chat)
        gone = incomplete_line(error.message for error in search.listing.away.values())
    except (CortextError, OSError, ValueError, sqlite3.Error) as error:
        return f"cortext could not search: {error}. `cortext doctor` says more."
    record = chat.record()
    running_chats.remember_list(record, workspace, [(one.session.root, one.session.id) for one in found])
    text = "\n\n".join(filter(None, (gone, related.text_of(found, search, topic))))
    if not chat.tool.records_after_answer or not found:
        return text
    record.owed = safe_text(text)
    running_chats.save(record)
    return f"cortext has found {amount(len(found), 'conversation')}. {_FOLLOWS}"
