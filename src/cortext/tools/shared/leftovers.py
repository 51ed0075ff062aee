"""What a tool's store holds beside the transcripts that its adapter lists, described for the user.

A format changes with a version of its program. Then a file, a table or a column is there that an adapter does not know,
or one is missing that it needs; without a word about it, the conversations in it would simply not be there.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any

from cortext.io import files as fsio
from cortext.tools.base import Leftover, Transcript
from cortext.tools.shared import jsonc
from cortext.tools.shared.lines import concatenated_values
from cortext.tools.shared.sqlite import columns, connection, is_database

_BEGIN = 1 << 16
_SHOWN = 6  # fields or tables of a description
# Tables with these words in their name or columns may hold conversations; others are the program's own affair.
_SPEAKING = re.compile(
    r"session|message|conversation|thread|chat|turn|prompt|response|event|transcript|bubble|composer", re.IGNORECASE
)
# Endings of transcripts in any tool's store; what else a tool keeps beside them is never a conversation of its own.
_ENDINGS = (".json", ".jsonl", ".jsonl.zst", ".db", ".sqlite", ".sqlite3", ".vscdb", ".zip")
_RECORD = re.compile(rb'"(?:role|messages?|(?:session|conversation|thread)_?id|mapping)"\s*:', re.IGNORECASE)
_TABLE = re.compile(r"(?:messages?|sessions?|conversations?|threads?|chats?)(?:_v?\d+)?", re.IGNORECASE)
_INTERNAL = re.compile(r"sqlite_.*|.*_fts\d?(_\w+)?|_?\w*migrations?\w*", re.IGNORECASE)

Tables = Mapping[str, Iterable[str]]  # the columns that an adapter needs of each table that it knows


def unlisted(paths: Iterable[str], listed: Iterable[Transcript], title: str) -> Iterator[Leftover]:
    """Yield the files that are not among the transcripts, except for empty ones: nothing can be lost in those."""
    known = {transcript.path for transcript in listed}
    for path in paths:
        if path not in known and not is_empty(path):
            yield Leftover(path, f"not recognised as a conversation of {title}: it is {described(path)}")


def is_empty(path: str) -> bool:
    """Whether a file is missing, empty, or a second name of another file."""
    try:
        return os.path.islink(path) or os.stat(path).st_size == 0
    except OSError:
        return True


def files_below(folder: str, endings: tuple[str, ...]) -> Iterator[str]:
    """Yield the files below a folder whose names have one of these endings, in order; no hidden and temporary ones."""
    for top, folders, names in os.walk(folder):
        folders.sort()
        found = (name for name in sorted(names) if name.endswith(endings) and not name.endswith((".tmp", ".lock")))
        yield from (os.path.join(top, name) for name in found if not name.startswith("."))


def described(path: str) -> str:
    """Return what a file holds, in a few words for the user."""
    if os.path.isdir(path):
        return f"a folder ({_some(sorted(os.listdir(path))) or 'empty'})"
    if is_database(path):
        return _described_database(path)
    try:
        with open(path, "rb", opener=fsio.plain_file) as file:
            data = file.read(_BEGIN)
    except OSError as error:
        return f"not readable ({error.strerror or error})"
    if not data.strip():
        return "empty"
    if data.startswith(b"PK\x03\x04"):
        return "a zip archive"
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        return "compressed by zstd"
    if not data.strip(b"\0"):
        return "full of zeros"
    values = _values(data)
    if values:
        value = values[0]
        if isinstance(value, dict):
            return f"JSON that begins with an object ({_some(value) or 'empty'})"
        return "a JSON list" if isinstance(value, list) else "a JSON value"
    if data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
        return "JSON that is cut or damaged" if len(data) < _BEGIN else "a large JSON document"
    return "text" if b"\0" not in data and _is_text(data) else "neither JSON nor text"


def _values(data: bytes) -> list[Any]:
    """Return the JSON values on the first line of a file, or in all of it if it is short; none if they are damaged."""
    first = data.partition(b"\n")[0]
    values, is_complete = concatenated_values(first if len(first) < len(data) else data)
    if not (values and is_complete) and len(data) < _BEGIN:
        values, is_complete = concatenated_values(data)
    return values if is_complete else []


def has_ending(path: str) -> bool:
    """Whether a file has the name of a transcript, and is not hidden, empty or a link."""
    name = os.path.basename(path).lower()
    return name.endswith(_ENDINGS) and not name.startswith(".") and not is_empty(path)


def signs(path: str) -> bytes | None:
    """Return the beginning of a file that may be a conversation, as it speaks of messages; empty if it is damaged.

    None for any other file: settings, package lists, another program's database.
    """
    if is_database(path):
        return _table_signs(path)
    try:
        with open(path, "rb", opener=fsio.plain_file) as file:
            data = file.read(_BEGIN)
    except OSError:
        return b""
    name = path.lower()
    if not data.strip():
        return None
    if name.endswith(".zip"):
        return data if b"conversations.json" in data else None
    if name.endswith(".zst"):
        return data
    if not name.endswith((".json", ".jsonl")):
        return None if data.strip(b"\0") else b""  # another kind of database, or one that was lost
    if not _values(data) and len(data) < _BEGIN and not _has_comments(data):
        return b""
    return data if _RECORD.search(data) else None


def _table_signs(path: str) -> bytes | None:
    try:
        with connection(path) as database:
            return b"".join(os.fsencode(name) for name in tables_of(database) if _TABLE.fullmatch(name)) or None
    except sqlite3.Error:
        return b""


def _has_comments(data: bytes) -> bool:
    """Whether this is JSON with comments, which settings may have."""
    try:
        jsonc.parse(data.decode("utf-8"))
    except (ValueError, RecursionError):
        return False
    return True


def _is_text(data: bytes) -> bool:
    try:
        data[: _BEGIN - 4].decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _described_database(path: str) -> str:
    try:
        with connection(path) as database:
            return f"a database with the tables {_some(tables_of(database)) or '(none)'}"
    except sqlite3.Error as error:
        return f"a database that cannot be read ({error})"


def _some(names: Iterable[str]) -> str:
    shown = [str(name)[:40] for name in names]
    return ", ".join(shown[:_SHOWN]) + (", …" if len(shown) > _SHOWN else "")


def tables_of(database: sqlite3.Connection) -> list[str]:
    """Return the names of the tables of a database, without those of SQLite, of a full-text search or a migration."""
    rows = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    return [row[0] for row in rows if isinstance(row[0], str) and not _INTERNAL.fullmatch(row[0])]


def table_leftovers(path: str, known: Tables, bookkeeping: Iterable[str] = ()) -> Iterator[Leftover]:
    """Yield the tables of a database that are not known and may hold conversations, and what the known ones lack.

    `bookkeeping` are tables that are known and not read. A database that cannot be read is listed as a transcript.
    """
    try:
        with connection(path) as database:
            found = tables_of(database)
            missing = [set(needed) for name, needed in known.items() if needed and name not in found]
            for name in found:
                has = columns(database, name)
                wanting = sorted(set(known.get(name, ())) - has)
                if wanting:
                    yield Leftover(path, f"its table {name} has no column {', '.join(wanting)}")
                if name in known or name in bookkeeping:
                    continue
                # It may hold a conversation if it is spoken of, or if it looks like a known table by another name.
                is_speaking = any(map(_SPEAKING.search, (name, *has))) or any(needed <= has for needed in missing)
                if is_speaking and (count := _rows(database, name)):
                    yield Leftover(path, f"its table {name} ({count} rows) is of a kind that is not known yet")
            if found and not any(name in known for name in found):
                yield Leftover(path, f"none of the tables that are known is in it: it has {_some(found)}")
    except sqlite3.Error:
        return


def _rows(database: sqlite3.Connection, table: str) -> int:
    """Return how many rows a table has."""
    quoted = table.replace('"', '""')
    with closing(database.cursor()) as cursor:
        return int(cursor.execute(f'SELECT count(*) FROM "{quoted}"').fetchone()[0])
