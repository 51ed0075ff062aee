"""The adapter for Cursor, the editor: its databases, which are those of Visual Studio Code with tables of its own.

Conversations are in the database of all projects: one row for each conversation (`composerData:ID`), and one for each
message (`bubbleId:ID:MESSAGE`). Older versions kept them in the database of each project; those are read too.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import msgspec

from cortext.model.message import ASSISTANT, IMAGE, TEXT, THINKING, TOOL_CALL, TOOL_RESULT, USER, Message, Part
from cortext.model.wording import amount
from cortext.tools.base import Leftover, Transcript, TranscriptReading
from cortext.tools.shared.bundle import Piece, RowReading, RowTool, query
from cortext.tools.shared.leftovers import Tables
from cortext.tools.shared.lines import derived_id, note
from cortext.tools.shared.program import LocalTool
from cortext.tools.shared.sqlite import columns, connection, text_of
from cortext.tools.shared.values import field, moment, object_of, objects, word
from cortext.tools.shared.vscode import DATABASE, databases, folder_of_workspace, item, user_folders, workspaces

_CHATS = "workbench.panel.aichat.view.aichat.chatdata"
_COMPOSERS = "composer.composerData"
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
_READ = ("composerData:", "bubbleId:")
# The kinds of keys that hold nothing but what is in the messages too, or what Cursor needs for its editor.
_HARMLESS = (
    *("agentKv:", "checkpointId:", "codeBlockDiff:", "codeBlockPartialInlineDiffFates:", "codeblockdata:"),
    *("composer.content.", "composer.autoAccept", "composerVirtualRowHeights:", "fileData:", "inlineDiff"),
    *("mcpToolResult:", "messageRequestContext:", "ofsBlock:", "ofsContent:", "patch-graph:", "taskInputs:"),
)
_SAMPLES = 20  # values of a kind that are looked at
_LOOKED_AT = 1 << 16  # bytes of each
_KINDS = 1_000
_LONG = 200  # characters of a text that is no JSON
_AFTER = "\U0010ffff"
# Most keys are Cursor's own affair (checkpoints, diffs, caches), and no list of them is complete. So a key of an
# unknown kind is told only if its values look like something that was said: a field for words, a role or a list of
# messages that has something in it.
_SPOKEN = re.compile(
    rb'"(?:raw_?|rich_?)?(?:text|role|content|messages?|prompt|response|answer|\w*conversation\w*|\w*bubbles?\w*)"'
    rb'\s*:\s*(?:"[^"]|\d|\[\s*[^\]\s]|\{\s*[^}\s])',
    re.IGNORECASE,
)
_NEXT = "SELECT key FROM cursorDiskKV WHERE key > ? AND typeof(key) = 'text' ORDER BY key LIMIT 1"
_COUNT = "SELECT count(*) FROM cursorDiskKV WHERE key >= ? AND key < ?"
_VALUES = """
SELECT substr(CAST(value AS BLOB), 1, ?) FROM cursorDiskKV WHERE key >= ? AND key < ? AND value IS NOT NULL LIMIT ?
"""
_ODD_KEYS = "SELECT count(*) FROM cursorDiskKV WHERE typeof(key) != 'text'"
# Older versions kept whole conversations in one item.
_ITEMS = """
SELECT key, count(*) FROM ItemTable WHERE key NOT IN (?, ?)
AND (CAST(value AS TEXT) LIKE '%"bubbles":[{%' OR CAST(value AS TEXT) LIKE '%"conversation":[{%') GROUP BY key
"""


class Cursor(RowTool, LocalTool):
    """The adapter for Cursor; it only reads."""

    name = "cursor"
    title = "Cursor"
    command = "cursor"
    database_name = DATABASE
    proof = "samples"
    beside = (f"{DATABASE}.backup",)
    tables: ClassVar[Tables] = {"cursorDiskKV": ("key", "value"), "ItemTable": ("key", "value")}

    def databases(self, project: str | None = None) -> Iterable[str]:
        """Return the database of all projects, and that of each."""
        users = user_folders(self.home, self.environ, ("Cursor",))
        return [path for user in users for path in databases(user)]

    def leftovers(self, listed: Sequence[Transcript]) -> Iterator[Leftover]:
        """Yield the tables, and in those that are known the keys and records, that may hold what was said."""
        yield from super().leftovers(listed)
        for path in self.databases():
            if os.path.exists(path):
                yield from _leftovers_in(path, {found.key for found in listed if found.path == path})

    def sessions(self, database: sqlite3.Connection, path: str) -> Iterator[Transcript]:
        """Yield the conversations of one database."""
        if columns(database, "cursorDiskKV"):
            yield from _current(database, path)
        if columns(database, "ItemTable"):
            project = folder_of_workspace(os.path.dirname(path))
            changed = os.stat(path).st_mtime_ns
            for key, record in _old(database).items():
                size, when = len(msgspec.json.encode(record)), _time(record, changed)
                yield Transcript(tool=self.name, key=key, path=path, project=project, size=size, changed=when)

    def rows(self, database: sqlite3.Connection, key: str) -> Iterator[Piece]:
        """Yield the record of a conversation, and then its messages in order."""
        if columns(database, "cursorDiskKV"):
            found = list(query(database, "conversation", _VALUE, (f"composerData:{key}",)))
            if found:
                yield from found
                headers = objects(object_of(text_of(found[0].values["value"])), "fullConversationHeadersOnly")
                names = [f"bubbleId:{key}:{word(header, 'bubbleId')}" for header in headers]
                if names and not any(database.execute(_LENGTH, (name,)).fetchone() for name in names):
                    # One without a value is counted as damage.
                    yield Piece("message", {"key": "the rows of all messages"})
                    return
                for name in names:
                    rows = list(query(database, "message", _VALUE, (name,)))
                    yield from rows or [Piece("message", {"key": name})]
                return
        record = _old(database).get(key)
        if record is not None:
            yield Piece("conversation", {"value": msgspec.json.encode(record).decode("utf-8")})

    def reading(self, transcript: Transcript, pieces: Iterable[Piece]) -> TranscriptReading:
        """Return the messages in these rows."""
        return CursorReading(transcript, pieces)


class _Conversation(msgspec.Struct, rename="camel"):
    """What the list needs; the rest of the record may be many megabytes."""

    created_at: Any = None
    last_updated_at: Any = None
    full_conversation_headers_only: list[msgspec.Raw] | None = None
    conversation: list[msgspec.Raw] | None = None


_decoder = msgspec.json.Decoder(_Conversation)


def _current(database: sqlite3.Connection, path: str) -> Iterator[Transcript]:
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
            tool=Cursor.name,
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


def _old(database: sqlite3.Connection) -> dict[str, dict[str, Any]]:
    """Return the conversations that are complete in the database of a project, by id."""
    found = {}
    for chat in objects(object_of(item(database, _CHATS)), "tabs"):
        if word(chat, "tabId") and objects(chat, "bubbles"):
            found[word(chat, "tabId")] = chat
    for composer in objects(object_of(item(database, _COMPOSERS)), "allComposers"):
        if word(composer, "composerId") and objects(composer, "conversation"):
            found[word(composer, "composerId")] = composer
    return found


def _time(record: dict[str, Any], otherwise: int) -> int:
    found = record.get("lastUpdatedAt") or record.get("lastSendTime") or record.get("createdAt")
    return found if isinstance(found, int) and found > 0 else otherwise


def _projects(user: str) -> dict[str, str]:
    """Return the project folder of each conversation, as the databases of the projects list them."""
    found: dict[str, str] = {}
    for folder in workspaces(user):
        project = folder_of_workspace(folder)
        path = os.path.join(folder, DATABASE)
        if not project or not os.path.exists(path):
            continue
        try:
            with connection(path) as database:
                listed = object_of(item(database, _COMPOSERS))
        except sqlite3.Error:
            continue  # its own listing reports it
        found.update((word(composer, "composerId"), project) for composer in objects(listed, "allComposers"))
    return found


def _leftovers_in(path: str, listed: set[str]) -> Iterator[Leftover]:
    """Yield what one database has beside these conversations. One that cannot be read is listed as a transcript."""
    try:
        with connection(path) as database:
            if columns(database, "cursorDiskKV") >= {"key", "value"}:
                yield from (Leftover(path, why) for why in (*_conversations(database, listed), *_kinds(database)))
            if columns(database, "ItemTable") >= {"key", "value"}:
                yield from (Leftover(path, why) for why in _items(database))
    except sqlite3.Error:
        return


def _conversations(database: sqlite3.Connection, listed: set[str]) -> Iterator[str]:
    """Yield how many conversations have no message in a known field, and how many messages no conversation."""
    odd = sum(
        text_of(name).partition(":")[2] not in listed and not _is_empty(value)
        for name, value in database.execute(_CONVERSATIONS)
    )
    if odd:
        yield f"{amount(odd, 'record')} of conversations without a field of messages that is known"
    counts = {text_of(key): count for key, count in database.execute(_SIZES)}
    strays = [key for key in counts if key not in listed and _are_spoken(database, f"bubbleId:{key}:")]
    if strays:
        yield f"it has {amount(sum(counts[key] for key in strays), 'message')} of no conversation that is listed"


def _is_empty(value: bytes | None) -> bool:
    """Whether a record says that nothing was said: a known field of messages is there, and empty."""
    record: Any = object_of(text_of(value)) or {}
    is_known = any(record.get(name) == [] for name in ("fullConversationHeadersOnly", "conversation"))
    return is_known or not _is_spoken(value or b"")


def _kinds(database: sqlite3.Connection) -> Iterator[str]:
    """Yield the kinds of keys that are not known and hold what may have been said."""
    key, kinds = "", 0
    while (row := database.execute(_NEXT, (key,)).fetchone()) is not None and kinds < _KINDS:
        name = text_of(row[0])
        known = next((kind for kind in (*_READ, *_HARMLESS) if name.startswith(kind)), "")
        kind = known or (name[: name.index(":") + 1] if ":" in name else name)
        key = kind + _AFTER
        if known:
            continue
        kinds += 1
        if _are_spoken(database, kind):
            (count,) = database.execute(_COUNT, (kind, key)).fetchone()
            yield f"its keys {kind[:60]} ({amount(count, 'row')}) are of a kind that is not known yet"
    (count,) = database.execute(_ODD_KEYS).fetchone()
    if count:
        yield f"it has {amount(count, 'row')} whose key is no text"


def _are_spoken(database: sqlite3.Connection, kind: str) -> bool:
    """Whether one of the first values of this kind of keys looks like something that was said."""
    values = database.execute(_VALUES, (_LOOKED_AT, kind, kind + _AFTER, _SAMPLES))
    return any(_is_spoken(value) for (value,) in values)


def _is_spoken(value: bytes) -> bool:
    """Whether a value looks like something that was said: JSON with words or a role in it, or a long text."""
    if value.lstrip()[:1] in (b"{", b"["):
        return _SPOKEN.search(value) is not None
    return len(value) >= _LONG and value.count(b" ") * 20 >= len(value)


def _items(database: sqlite3.Connection) -> Iterator[str]:
    """Yield what the older table has: conversations under unknown keys, and a known key that cannot be read."""
    for key, _ in database.execute(_ITEMS, (_CHATS, _COMPOSERS)):
        yield f"its item {text_of(key)[:60]} is of a kind that is not known yet"
    for key in (_CHATS, _COMPOSERS):
        text = item(database, key)
        if text and object_of(text) is None:
            yield f"its item {key} is not JSON"


_ROLES = {1: USER, 2: ASSISTANT, "user": USER, "ai": ASSISTANT}
_FAILED = ("error", "cancelled", "rejected")


class CursorReading(RowReading):
    """The messages of one conversation."""

    def __init__(self, transcript: Transcript, pieces: Iterable[Piece]) -> None:
        super().__init__(transcript, pieces)
        self._is_generating = False
        self._growing: set[str] = set()  # the ids of messages that are being written, as far as Cursor names them

    def __iter__(self) -> Iterator[Message]:
        yield from self.each(_with_last(self._bubbles()), self._messages)

    def _bubbles(self) -> Iterator[dict[str, Any]]:
        """Yield the messages as Cursor stores them: in rows of their own or, in older versions, in the record."""
        for number, (kind, values) in enumerate(self.pieces()):
            value = text_of(values.get("value"))
            record = object_of(value)
            if record is None:
                self.damaged("not JSON" if value else "empty", f"{kind} {text_of(values.get('key')) or number}")
            elif kind == "message":
                yield record
            else:
                self._fill_about(record)
                self._fill_state(record)
                yield from objects(record, "conversation") or objects(record, "bubbles")

    def _fill_about(self, record: dict[str, Any]) -> None:
        self.about.title = word(record, "name") or word(record, "chatTitle")
        self.about.created_at = moment(field(record, "createdAt"))
        model = word(record, "modelConfig", "modelName")
        self.about.model = "" if model == "default" else model
        self.about.summary = word(record, "latestConversationSummary", "summary", "summary")

    def _fill_state(self, record: dict[str, Any]) -> None:
        self._is_generating = word(record, "status") == "generating"
        named = record.get("generatingBubbleIds")
        self._growing = {name for name in named if isinstance(name, str)} if isinstance(named, list) else set()

    def _messages(self, bubble_and_last: tuple[dict[str, Any], bool]) -> list[Message]:
        bubble, is_last = bubble_and_last
        kind = bubble.get("type")
        role = _ROLES.get(kind) if isinstance(kind, int | str) else None
        if role is None:
            note(self.counts.unknown, f"message of type {kind}")
            return []
        identity = word(bubble, "bubbleId") or word(bubble, "id")
        text = word(bubble, "text") or word(bubble, "rawText")
        identity = identity or self.builder.identity(self.transcript.key, role, text)
        # A reply that Cursor is still writing gets another id, because it will be different when it is finished.
        unfinished = role == ASSISTANT and (identity in self._growing or (is_last and self._is_generating))
        usage = field(bubble, "tokenCount")
        made = self.builder.messages(
            list(_parts(bubble, text, f"{self.transcript.key}#{identity}")),
            role=role,
            identity=f"{identity}.unfinished" if unfinished else identity,
            partial=unfinished,
            timestamp=moment(bubble.get("createdAt")) or moment(field(bubble, "timingInfo", "clientRpcSendTime")),
            model=word(bubble, "modelInfo", "modelName") or word(bubble, "modelType") if role == ASSISTANT else "",
            usage=usage if isinstance(usage, dict) and any(usage.values()) else None,
        )
        if not made:
            note(self.counts.skipped, "without content")
        return made


def _with_last(bubbles: Iterable[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yield each message, and whether it is the last one."""
    previous = None
    for bubble in bubbles:
        if previous is not None:
            yield previous, False
        previous = bubble
    if previous is not None:
        yield previous, True


def _parts(bubble: dict[str, Any], text: str, reference: str) -> Iterator[Part]:
    if thinking := word(bubble, "thinking", "text") or word(bubble, "thinking"):
        yield Part(THINKING, text=thinking)
    if text:
        yield Part(TEXT, text=text)
    for number, _ in enumerate(objects(bubble, "images")):
        yield Part(IMAGE, ref=f"{reference}/{number}")
    call = field(bubble, "toolFormerData")
    name = word(call, "name")
    if not name:
        return
    identity = word(call, "toolCallId") or derived_id(reference)
    arguments = word(call, "rawArgs") or word(call, "params")
    yield Part(TOOL_CALL, id=identity, name=name, input=object_of(arguments) or arguments or None)
    result, status = word(call, "result"), word(call, "status")
    if result or status in ("completed", *_FAILED):
        shown = object_of(result)
        output = word(shown, "output") or word(shown, "contents") or result
        yield Part(TOOL_RESULT, call_id=identity, name=name, output=output, is_error=status in _FAILED)
