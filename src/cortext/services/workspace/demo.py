"""The demo workspace: a dozen conversations written to a real one, through the same store as any other."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from importlib import resources
from typing import Any

import msgspec

from cortext.errors import SessionExists
from cortext.io import durable
from cortext.model import clock, ids
from cortext.model.message import Message, Part
from cortext.model.session import AgentConfig, Change, Origin, Session
from cortext.services.workspace import registry
from cortext.store.base import Store
from cortext.store.capabilities import KeepsCopies

_DAY = 86_400


class _Script(msgspec.Struct, kw_only=True):
    """A demo conversation as stored in the package."""

    conversation_type: str
    title: str
    slug: str
    days_ago: int
    start: str
    tool: str
    model: str
    status: str
    summary: str
    notes: str
    messages: list[dict[str, Any]]


def scripts() -> Iterator[_Script]:
    """Yield the conversations, in the order of their files."""
    folder = resources.files("cortext").joinpath("demo", "conversations")
    for entry in sorted(folder.iterdir(), key=lambda item: item.name):
        if entry.name.endswith(".json"):
            yield msgspec.json.decode(entry.read_bytes(), type=_Script)


def fill(workspace: str, store: Store) -> list[Session]:
    """Write every demo conversation that does not exist yet; return those written.

    If the demo was made here before and its folder was removed, they are kept outside it, and are written from there.
    """
    made = []
    today = int(time.time()) // _DAY * _DAY
    for number, script in enumerate(scripts(), 1):
        hours, minutes = script.start.split(":")
        begin = today - script.days_ago * _DAY + int(hours) * 3600 + int(minutes) * 60
        begin = min(begin, int(time.time()) - 3600)
        session_id = ids.check_id(f"{number:03d}-{script.conversation_type}-{script.slug}")
        try:
            made.append(_write(workspace, store, session_id, script, begin))
        except SessionExists:
            if isinstance(store, KeepsCopies) and store.has_left(session_id):
                store.bring_back(session_id)
                made.append(_with_notes(store.get(session_id), script))
    return made


def _write(workspace: str, store: Store, session_id: str, script: _Script, begin: float) -> Session:
    prompt_hash = registry.command_hash(workspace, script.conversation_type)
    session = store.create(
        Session(
            id=session_id,
            type=script.conversation_type,
            title=script.title,
            created_at=clock.from_epoch(begin),
            last_active=clock.from_epoch(begin),
            agent_config=AgentConfig(
                command=f"/workspace.{script.conversation_type}", system_prompt_hash=prompt_hash, model=script.model
            ),
            origin=Origin(tool=script.tool),
        )
    )
    store.append(session_id, *_messages(script, begin))
    _with_notes(session, script)
    return store.update(
        session_id,
        Change(status=script.status, summary=script.summary, summary_by="agent", summary_covers=len(script.messages)),
    )


def _with_notes(session: Session, script: _Script) -> Session:
    notes = os.path.join(session.path, f"{script.conversation_type}.md")
    durable.replace_file(notes, [script.notes.rstrip().encode("utf-8"), b"\n"])
    return session


def _messages(script: _Script, begin: float) -> Iterator[Message]:
    now = begin
    for entry in script.messages:
        now += entry.get("after_seconds", 10)
        parts = entry.get("parts")
        yield Message(
            role=entry["role"],
            content=entry.get("content", ""),
            timestamp=clock.from_epoch(now),
            tokens=entry.get("tokens"),
            model=script.model if entry["role"] == "assistant" else "",
            parts=msgspec.convert(parts, list[Part]) if parts else None,
        )
