"""Continuing a session of another tool or face as a chat: its messages are copied, with their provenance.

The id of the copy is derived from the original's, so a second resume, or one after a crash, finds the copy. If the
original has grown since, a new copy is made; the old one stays.
"""

from __future__ import annotations

from msgspec.structs import replace

from cortext.errors import NotFound, SessionExists
from cortext.model.message import ASSISTANT, USER, Message, thread
from cortext.model.session import Change, Session
from cortext.services.library.stores import Found
from cortext.store.base import Store
from cortext.store.capabilities import Compacts

PREFIX = "cont_"
FROM = "continued_from"  # in the copy's metadata
_KEPT = 40  # messages that stay in the working file; the model sees a summary of the earlier ones


def adopt(store: Store, found: Found, chat: str = "") -> str:
    """Return the id of the chat that continues this session, which is created if it does not exist.

    A messenger's `chat` gets a copy of its own, which no other chat continues.
    """
    from cortext.services.text.titles import title

    source = found.session
    messages = [_text_only(message) for message in thread(found.store.read(source.id)) if _is_copied(message)]
    if not messages:
        raise NotFound(f"session {source.id} has no messages", kept="it is unchanged", hint="choose another session")
    provenance = {
        "store": found.named_store.label,
        "session_id": source.id,
        "tool": source.origin.tool,
        "messages": len(messages),
    }
    number = 1
    while True:
        suffix = f"_{number}" if number > 1 else ""
        session_id = f"{PREFIX}{f'{chat}_' if chat else ''}{source.id}"[: 96 - len(suffix)] + suffix
        copy = Session(
            id=session_id,
            type="chat",
            title=source.title or title(messages),
            origin=source.origin,
            extra={FROM: provenance},
        )
        try:
            store.create(copy)
        except SessionExists:
            existing = store.get(session_id)
            if existing.extra.get(FROM) != provenance:
                number += 1
                continue
            if existing.message_count:
                return session_id
        with store.open(session_id) as writer:
            if not store.tail(session_id, 1):  # another process may have copied them meanwhile
                writer.append(*messages)
        _compact(store, source, session_id, messages)
        return session_id


def _is_copied(message: Message) -> bool:
    return message.role in (USER, ASSISTANT) and bool(message.text.strip())


def _text_only(message: Message) -> Message:
    """Return the message without tool calls and results: those belong to the tool that ran them."""
    return Message(
        role=message.role,
        content=message.text,
        timestamp=message.timestamp,
        id=message.id,
        model=message.model,
    )


def _compact(store: Store, source: Session, session_id: str, messages: list[Message]) -> None:
    """Store a summary of the older messages, and move them out of the working file."""
    count = len(messages) - _KEPT
    if count <= 0 or not isinstance(store, Compacts):
        return
    from cortext.services.text.summarise import summarise

    existing = source.summary.strip()
    extracted = summarise([replace(message, seq=index) for index, message in enumerate(messages[:count])])
    summary = f"{existing}\n\n{extracted}" if existing and extracted not in existing else existing or extracted
    store.update(session_id, Change(summary=summary, summary_covers=count, summary_by="text"))
    store.compact(session_id, count)
