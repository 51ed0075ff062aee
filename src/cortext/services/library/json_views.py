"""Sessions, messages and hits as JSON, with the same field names in every interface."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from cortext.index.sessions import Row
from cortext.model.message import Message
from cortext.model.session import FIRST_TURN, Session, first_turn_of
from cortext.services.library.listing import placed, row_of
from cortext.services.library.sources import Answer, Match
from cortext.services.library.stores import StoredConversation, problem_of
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


def conversation_json(conversation: StoredConversation) -> Json:
    """Return one session with what no list shows: the result of its first turn in a tool, and what is wrong with it."""
    checked, problem = first_turn_of(conversation.session.extra), problem_of(conversation)
    (row,) = placed([row_of(conversation.session, conversation.root, conversation.named_store.kind)])
    fields = session_json(row)
    fields |= {FIRST_TURN: msgspec.to_builtins(checked)} if checked is not None else {}
    return fields | ({"problem": problem.text} if problem is not None else {})


def message_json(message: Message) -> Json:
    """Return a message as it is stored."""
    fields: Json = msgspec.to_builtins(message)
    return {name: value for name, value in fields.items() if name not in ("type", "idx")}


def hit_json(row: Row, match: Match, answer: Answer) -> Json:
    """Return a message that was found, with its session; `nearest` and `absent` are the same for the whole answer."""
    message = {name: getattr(match, name) for name in ("id", "seq", "role", "timestamp", "snippet")}
    return {
        "session": session_json(row),
        "message": message,
        "score": match.score,
        "why": list(match.why),
        "nearest": answer.is_only_near,
        "absent": list(answer.absent),
    }


def trashed_json(item: Trashed, store: str = "") -> Json:
    """Return a session in the trash as JSON."""
    fields: Json = {"session": item.session_id, "key": item.key, "deleted_at": item.deleted_at}
    return {**fields, "store": store} if store else fields


def restored_json(session: Session) -> Json:
    """Return a session that came back as JSON."""
    return {"session": session.id, "message_count": session.message_count}
