"""A session of another tool or face, continued as a chat: its talk is copied word for word, with its provenance.

The copy has an id made from the original's, so a second resume, or one after a crash, finds it again. If the
original went on meanwhile, a new copy is made; the old one stays.
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
_KEPT = 40  # messages that stay in the working file: the model sees the summary of the others


def adopt(store: Store, found: Found) -> str:
    """The id of the chat that continues this session; made where it is not there yet."""
    from cortext.services.text.titles import title

    source = found.session
    talk = [_words(message) for message in thread(found.store.read(source.id)) if _is_talk(message)]
    if not talk:
        raise NotFound(f"nothing was said in {source.id}", kept="it is unchanged", hint="choose another one")
    provenance = {
        "store": found.named_store.label,
        "session_id": source.id,
        "tool": source.origin.tool,
        "messages": len(talk),
    }
    number = 1
    while True:
        suffix = f"_{number}" if number > 1 else ""
        session_id = f"{PREFIX}{source.id}"[: 96 - len(suffix)] + suffix
        copy = Session(
            id=session_id,
            type="chat",
            title=source.title or title(talk),
            origin=source.origin,
            extra={FROM: provenance},
        )
        try:
            store.create(copy)
        except SessionExists:
            there = store.get(session_id)
            if there.extra.get(FROM) != provenance:
                number += 1
                continue
            if there.message_count:
                return session_id
        with store.open(session_id) as writer:
            if not store.tail(session_id, 1):  # nobody else was quicker
                writer.append(*talk)
        _shorten(store, source, session_id, talk)
        return session_id


def _is_talk(message: Message) -> bool:
    return message.role in (USER, ASSISTANT) and bool(message.text.strip())


def _words(message: Message) -> Message:
    """What was said, without the tools' calls and results: those belong to the tool that ran them."""
    return Message(
        role=message.role,
        content=message.text,
        timestamp=message.timestamp,
        id=message.id,
        model=message.model,
    )


def _shorten(store: Store, source: Session, session_id: str, talk: list[Message]) -> None:
    """Let the older messages leave the working file, behind a summary that covers them."""
    going = len(talk) - _KEPT
    if going <= 0 or not isinstance(store, Compacts):
        return
    from cortext.services.text.summarise import summarise

    own = source.summary.strip()
    of_text = summarise([replace(message, seq=place) for place, message in enumerate(talk[:going])])
    summary = f"{own}\n\n{of_text}" if own and of_text not in own else own or of_text
    store.update(session_id, Change(summary=summary, summary_covers=going, summary_by="text"))
    store.compact(session_id, going)
