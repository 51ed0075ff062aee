"""Sessions and messages as `--json` shows them: a schema that stays."""

from __future__ import annotations

from typing import Any

import msgspec

from cortext.model.message import Message
from cortext.services.library.stores import Found


def session_row(found: Found) -> dict[str, Any]:
    """A session: always these fields, in this order."""
    session = found.session
    row = {
        "id": session.id,
        "type": session.type,
        "title": session.title,
        "status": session.shown_status,
        "tool": session.origin.tool,
        "agent": session.agent,
        "workspace": found.place.root,
        "created_at": session.created_at,
        "last_active": session.last_active,
        "message_count": session.message_count,
        "token_count": session.token_count,
        "summary": session.summary,
        "path": session.path,
    }
    if session.damage:
        row["damage"] = session.damage
    return row


def message_row(message: Message) -> dict[str, Any]:
    """A message: as it is stored."""
    row: dict[str, Any] = msgspec.to_builtins(message)
    return {name: value for name, value in row.items() if name not in ("type", "idx")}
