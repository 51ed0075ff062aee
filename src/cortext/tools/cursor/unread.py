"""What may be said in Cursor's databases and is not read: its format is in the keys and the JSON of the values.

Most keys are Cursor's own affair (checkpoints, diffs, caches), and no list of them is complete. So a key of an unknown
kind is told only if its values look like something that was said.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from typing import Any

from cortext.model.amounts import amount
from cortext.tools.base import Leftover
from cortext.tools.cursor.store import CHATS, COMPOSERS
from cortext.tools.shared.documents import object_of
from cortext.tools.shared.sqlite import columns, connection, text_of

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
# A field for words, a role or a list of messages that has something in it.
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
_RECORDS = """
SELECT substr(key, 14), CAST(value AS BLOB) FROM cursorDiskKV WHERE key >= 'composerData:' AND key < 'composerData;'
"""
_BUBBLES = """
SELECT substr(key, 10, instr(substr(key, 10), ':') - 1), count(*) FROM cursorDiskKV
WHERE key >= 'bubbleId:' AND key < 'bubbleId;' GROUP BY 1
"""
# Older versions kept whole conversations in one item.
_ITEMS = """
SELECT key, count(*) FROM ItemTable WHERE key NOT IN (?, ?)
AND (CAST(value AS TEXT) LIKE '%"bubbles":[{%' OR CAST(value AS TEXT) LIKE '%"conversation":[{%') GROUP BY key
"""


def leftovers_in(path: str, listed: set[str]) -> Iterator[Leftover]:
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
    odd = [
        text_of(key) for key, value in database.execute(_RECORDS) if text_of(key) not in listed and not _is_empty(value)
    ]
    if odd:
        yield f"{amount(len(odd), 'record')} of conversations without a field of messages that is known"
    counts = {text_of(key): count for key, count in database.execute(_BUBBLES)}
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
    for key, _ in database.execute(_ITEMS, (CHATS, COMPOSERS)):
        yield f"its item {text_of(key)[:60]} is of a kind that is not known yet"
    for key in (CHATS, COMPOSERS):
        row = database.execute("SELECT value FROM ItemTable WHERE key = ?", (key,)).fetchone()
        if row is not None and row[0] and object_of(text_of(row[0])) is None:
            yield f"its item {key} is not JSON"
