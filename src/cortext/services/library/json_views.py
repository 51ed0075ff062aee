"""Sessions and messages as JSON, with the same field names in every interface."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from cortext.index.refresh import derived_fields
from cortext.index.sessions import Row
from cortext.model.message import Message
from cortext.model.session import Session
from cortext.store.base import Trashed

Json = dict[str, Any]


def session_json(row: Row) -> Json:
    """Return a session as JSON; with `damage`, `branch_count` and `place` (outside the work tree) only if needed."""
    fields: Json = {
        "id": row.id,
        "type": row.type,
        "title": row.title,
        "status": row.status,
        "tool": row.tool,
        "agent": row.agent,
        "workspace": row.root,
        "created_at": row.created_at,
        "last_active": row.last_active,
        "message_count": row.message_count,
        "token_count": row.token_count,
        "summary": row.summary,
        "path": row.path,
        "project": row.project,
        "repository": json.loads(row.repository) if row.repository else None,
        "tags": row.tag_names,
        "starred": bool(row.starred),
        "archived": bool(row.archived),
    }
    fields |= {"branch_count": row.branch_count} if row.branch_count > 1 else {}
    fields |= {"place": row.place} if row.place else {}
    return {**fields, "damage": row.damage} if row.damage else fields


def message_json(message: Message) -> Json:
    """Return a message as it is stored."""
    fields: Json = msgspec.to_builtins(message)
    return {name: value for name, value in fields.items() if name not in ("type", "idx")}


def trashed_json(item: Trashed, store: str = "") -> Json:
    """Return a session in the trash as JSON."""
    fields: Json = {"session": item.session_id, "key": item.key, "deleted_at": item.deleted_at}
    return {**fields, "store": store} if store else fields


def row_of(session: Session, root: str, kind: str) -> Row:
    """Return a session of an open store as a row of the list."""
    return Row(
        session.id,
        session.type,
        session.title,
        session.shown_status,
        session.origin.tool,
        session.agent,
        root,
        session.created_at,
        session.last_active,
        session.message_count,
        session.token_count,
        session.summary,
        session.path,
        kind,
        session.damage,
        int(session.is_linear),
        *derived_fields(root, kind, session),
    )
