"""Cursor's databases: which conversations they have, and the rows of each."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from typing import Any

import msgspec

from cortext.tools.base import Transcript
from cortext.tools.shared.bundle import Piece
from cortext.tools.shared.documents import object_of
from cortext.tools.shared.rows import query
from cortext.tools.shared.sqlite import columns, connection, text_of
from cortext.tools.shared.values import objects, word
from cortext.tools.shared.vscode import folder_of_workspace

_FILE = "state.vscdb"
CHATS = "workbench.panel.aichat.view.aichat.chatdata"
COMPOSERS = "composer.composerData"

_CONVERSATIONS = """
SELECT key, CAST(value AS BLOB) FROM cursorDiskKV WHERE key >= 'composerData:' AND key < 'composerData;'
"""
# The index of the keys is enough for this, so that no message is read.
_SIZES = """
SELECT substr(key, 10, instr(substr(key, 10), ':') - 1), count(*) FROM cursorDiskKV
WHERE key >= 'bubbleId:' AND key < 'bubbleId;' GROUP BY 1
"""
# A reply grows in its own row, and nothing else has to change with it.
_LENGTH = "SELECT length(CAST(value AS BLOB)) FROM cursorDiskKV WHERE key = ?"
_VALUE = "SELECT key, value FROM cursorDiskKV WHERE key = ?"
_ITEM = "SELECT value FROM ItemTable WHERE key = ?"


class _Conversation(msgspec.Struct, rename="camel"):
    """What the list needs; the rest of the record may be many megabytes."""

    created_at: Any = None
    last_updated_at: Any = None
    full_conversation_headers_only: list[msgspec.Raw] | None = None
    conversation: list[msgspec.Raw] | None = None


_decoder = msgspec.json.Decoder(_Conversation)


def databases_in(user: str) -> Iterator[str]:
    """Yield the databases in a folder of user data."""
    yield os.path.join(user, "globalStorage", _FILE)
    yield from (os.path.join(folder, _FILE) for folder in _workspaces(user))


def sessions(database: sqlite3.Connection, path: str, tool: str) -> Iterator[Transcript]:
    """Yield the conversations of a database."""
    folder = os.path.dirname(path)
    if columns(database, "cursorDiskKV"):
        yield from _current(database, path, tool)
    if columns(database, "ItemTable"):
        project = folder_of_workspace(folder)
        changed = os.stat(path).st_mtime_ns
        for key, record in _old(database).items():
            size = len(msgspec.json.encode(record))
            yield Transcript(tool=tool, key=key, path=path, project=project, size=size, changed=_time(record, changed))


def _current(database: sqlite3.Connection, path: str, tool: str) -> Iterator[Transcript]:
    projects: dict[str, str] | None = None
    sizes = dict(database.execute(_SIZES))
    for name, value in database.execute(_CONVERSATIONS):
        key = text_of(name).partition(":")[2]
        try:
            head = _decoder.decode(value or b"")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            head = None  # it is listed, so that reading it reports the damage
        if head is not None and not (head.full_conversation_headers_only or head.conversation):
            continue  # opened, but nothing was said
        if projects is None:
            projects = _projects(os.path.dirname(os.path.dirname(path)))
        changed = (head.last_updated_at or head.created_at) if head is not None else 0
        yield Transcript(
            tool=tool,
            key=key,
            path=path,
            project=projects.get(key, ""),
            size=len(value or b"") + sizes.get(key, 0) + _last_length(database, key, head),
            changed=changed if isinstance(changed, int) and changed else 1,
        )


def _last_length(database: sqlite3.Connection, key: str, head: _Conversation | None) -> int:
    """Return the length of a conversation's last message; 0 if it is not in a row of its own."""
    if head is None or not head.full_conversation_headers_only:
        return 0
    last = word(object_of(bytes(head.full_conversation_headers_only[-1]).decode("utf-8", "replace")), "bubbleId")
    row = database.execute(_LENGTH, (f"bubbleId:{key}:{last}",)).fetchone()
    return int(row[0] or 0) if row else 0


def rows(database: sqlite3.Connection, key: str) -> Iterator[Piece]:
    """Yield the record of a conversation, and then its messages in order."""
    if columns(database, "cursorDiskKV"):
        found = list(query(database, "conversation", _VALUE, (f"composerData:{key}",)))
        if found:
            yield from found
            headers = objects(object_of(text_of(found[0].values["value"])), "fullConversationHeadersOnly")
            names = [f"bubbleId:{key}:{word(header, 'bubbleId')}" for header in headers]
            if names and not any(database.execute(_LENGTH, (name,)).fetchone() for name in names):
                yield Piece("message", {"key": "the rows of all messages"})  # one without a value is counted as damage
            for name in names:
                yield from query(database, "message", _VALUE, (name,))
            return
    record = _old(database).get(key)
    if record is not None:
        yield Piece("conversation", {"value": msgspec.json.encode(record).decode("utf-8")})


def _old(database: sqlite3.Connection) -> dict[str, dict[str, Any]]:
    """Return the conversations that are complete in the database of a project, by id."""
    found = {}
    for chat in objects(_item(database, CHATS), "tabs"):
        if word(chat, "tabId") and objects(chat, "bubbles"):
            found[word(chat, "tabId")] = chat
    for composer in objects(_item(database, COMPOSERS), "allComposers"):
        if word(composer, "composerId") and objects(composer, "conversation"):
            found[word(composer, "composerId")] = composer
    return found


def _item(database: sqlite3.Connection, key: str) -> Any:
    row = database.execute(_ITEM, (key,)).fetchone()
    return object_of(text_of(row[0])) if row else None


def _time(record: dict[str, Any], otherwise: int) -> int:
    found = record.get("lastUpdatedAt") or record.get("lastSendTime") or record.get("createdAt")
    return found if isinstance(found, int) and found > 0 else otherwise


def _projects(user: str) -> dict[str, str]:
    """Return the project folder of each conversation, as the databases of the projects list them."""
    found: dict[str, str] = {}
    for folder in _workspaces(user):
        project = folder_of_workspace(folder)
        path = os.path.join(folder, _FILE)
        if not project or not os.path.exists(path):
            continue
        try:
            with connection(path) as database:
                listed = _item(database, COMPOSERS)
        except sqlite3.Error:
            continue  # its own listing reports it
        found.update((word(composer, "composerId"), project) for composer in objects(listed, "allComposers"))
    return found


def _workspaces(user: str) -> list[str]:
    storage = os.path.join(user, "workspaceStorage")
    return [os.path.join(storage, name) for name in sorted(os.listdir(storage))] if os.path.isdir(storage) else []
