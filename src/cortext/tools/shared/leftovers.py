"""What a tool's store holds beside the transcripts that its adapter lists, described for the user.

A format changes with a version of its program. Then a file, a table or a column is there that an adapter does not know,
or one is missing that it needs; without a word about it, the conversations in it would simply not be there.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from cortext.io import durable
from cortext.model.wording import amount
from cortext.tools.base import Leftover, Transcript
from cortext.tools.shared import jsonc
from cortext.tools.shared.folders import entries
from cortext.tools.shared.lines import concatenated_values
from cortext.tools.shared.sqlite import columns, connection, has_text, is_database, row_count, tables_of

_BEGIN = 1 << 16
_SHOWN = 6  # fields or tables of a description
# Endings of transcripts in any tool's store; what else a tool keeps beside them is never a conversation of its own.
_ENDINGS = (".json", ".jsonl", ".jsonl.zst", ".db", ".sqlite", ".sqlite3", ".vscdb", ".zip")
_RECORD = re.compile(rb'"(?:role|messages?|(?:session|conversation|thread)_?id|mapping)"\s*:', re.IGNORECASE)
_TABLE = re.compile(r"(?:messages?|sessions?|conversations?|threads?|chats?)(?:_v?\d+)?", re.IGNORECASE)
_NAMED = 100  # files that are named one by one; the others are counted
_LOOKED_AT = 100_000  # files below a folder: listing more would take seconds
_WORKING = re.compile(r".*\.tmp\b.*|.*(\.lock|-wal|-shm|-journal)")  # files of a program at work, and of SQLite
_DATABASES = (".db", ".sqlite", ".vscdb")

Tables = Mapping[str, Iterable[str]]  # the columns that an adapter needs of each table that it knows


def unlisted(paths: Iterable[str], listed: Iterable[Transcript], title: str) -> Iterator[Leftover]:
    """Yield the files that are not among the transcripts, except for empty ones: nothing can be lost in those.

    If there are very many, the first are named, and the others counted.
    """
    known = {transcript.path for transcript in listed}
    left = (path for path in paths if path not in known and not is_empty(path))
    for path in islice(left, _NAMED):
        yield Leftover(path, f"not recognised as a conversation of {title}: it is {described(path)}")
    if rest := list(left):
        count = amount(len(rest), "more file")
        yield Leftover(os.path.dirname(rest[0]), f"{count}, here and below, not recognised as conversations of {title}")


def unlisted_below(
    folder: str,
    listed: Iterable[Transcript],
    title: str,
    companions: Sequence[str] = (),
    is_companion: Callable[[str], bool] = lambda path: False,
) -> Iterator[Leftover]:
    """Yield every file below the folder of a tool's sessions that is neither a transcript nor a known companion.

    `companions` says what else the program writes there, as patterns relative to the folder: `*` stands for a part of
    one name, and one that ends in `/` for a folder with everything in it. `is_companion` decides where no pattern can.
    """
    files = files_below(folder, companions)
    first = list(islice(files, _LOOKED_AT))
    yield from unlisted((path for path in first if not is_companion(path)), listed, title)
    if next(files, None) is not None:
        yield Leftover(folder, f"it has more than {_LOOKED_AT} files; only these were looked at")


def renamed(path: str, known: Iterable[str] = ()) -> Iterator[str]:
    """Yield the files in a folder with other things that may be this one by another name, without those that are known.

    Such a file has its stem in the name, or is a database like it, or has its name and is in a subfolder.
    """
    folder, name = os.path.split(path)
    stem, ending = os.path.splitext(name)
    passed = set(known)
    for entry in sorted(entries(folder), key=lambda entry: entry.name):
        if entry.is_dir(follow_symlinks=False):
            inner = os.path.join(entry.path, name)
            if not entry.name.startswith(".") and inner not in passed and os.path.isfile(inner):
                yield inner
        elif entry.path in passed or _WORKING.fullmatch(entry.name):
            continue
        elif stem in entry.name or (ending in _DATABASES and is_database(entry.path)):
            yield entry.path


def is_empty(path: str) -> bool:
    """Whether a file is missing, empty, or a second name of another file."""
    try:
        return os.path.islink(path) or os.stat(path).st_size == 0
    except OSError:
        return True


def files_below(folder: str, companions: Sequence[str] = ()) -> Iterator[str]:
    """Yield the files below a folder in order; no companions, see `unlisted_below`, no hidden and temporary ones."""
    known = re.compile("|".join("[^/]*".join(map(re.escape, text.split("*"))) for text in companions) or "(?!)")
    begin = len(os.path.join(folder, ""))
    for top, folders, names in os.walk(folder):
        below = os.path.join(top, "")[begin:]
        folders[:] = sorted(name for name in folders if name[0] != "." and not known.fullmatch(f"{below}{name}/"))
        for name in sorted(names):
            if name[0] != "." and not _WORKING.fullmatch(name) and not known.fullmatch(below + name):
                yield os.path.join(top, name)


def described(path: str) -> str:
    """Return what a file holds, in a few words for the user."""
    if os.path.isdir(path):
        return f"a folder ({_some(sorted(os.listdir(path))) or 'empty'})"
    if is_database(path):
        return _described_database(path)
    try:
        with open(path, "rb", opener=durable.plain_file) as file:
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
        with open(path, "rb", opener=durable.plain_file) as file:
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


def table_leftovers(path: str, known: Tables, bookkeeping: Iterable[str] = ()) -> Iterator[Leftover]:
    """Yield the tables of a database that are not known and have text, and what the known ones lack.

    `bookkeeping` are tables that are known and not read. A database that cannot be read is listed as a transcript.
    """
    try:
        with connection(path) as database:
            found = tables_of(database)
            for name in found:
                has = columns(database, name)
                wanting = sorted(set(known.get(name, ())) - has)
                if wanting:
                    yield Leftover(path, f"its table {name} has no column {', '.join(wanting)}")
                # Any other text may be what was said, whatever the table is called.
                is_other = name not in known and name not in bookkeeping and has_text(database, name)
                if is_other and (count := row_count(database, name)):
                    yield Leftover(path, f"its table {name} ({count} rows) is of a kind that is not known yet")
            if found and not any(name in known for name in found):
                yield Leftover(path, f"none of the tables that are known is in it: it has {_some(found)}")
    except sqlite3.Error:
        return


def stray_messages(path: str, statements: Iterable[str]) -> Iterator[Leftover]:
    """Yield that messages in a database belong to no conversation that is listed, as these statements count them."""
    for statement in statements:
        try:
            with connection(path) as database:
                count = int(database.execute(statement).fetchone()[0])
        except sqlite3.Error:
            continue  # a table is missing, which is told of the tables
        if count:
            yield Leftover(path, f"it has {amount(count, 'message')} of no conversation that is listed")
