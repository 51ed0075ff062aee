"""A scan never yields nothing: whatever is wrong in a tool's store, its conversation is read, or the loss is told."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cortext.errors import CortextError
from cortext.testing.reading import Conformance, comparable
from cortext.tools.base import NamesLeftovers, TranscriptSource
from cortext.tools.shared.sqlite import is_database

# What a fault, another program or another version may leave instead of a file or of its first line.
CONTENTS = (b"not JSON at all", b"\xff\xfe\xfd\n", b'{"half": "a rec', b"[" * 5_000, b"null", b"{}", b"[7]", b"\0" * 64)
VALUES: tuple[Any, ...] = (None, 0.5, "x", {}, [7])
_DEEPEST = 3


class ScanningConformance(Conformance):
    """`NamesLeftovers`, for every adapter that looks for its conversations by itself."""

    def test_a_file_replaced_by_anything_is_never_passed_over(self, home: Path, tool: TranscriptSource) -> None:
        for path in self._files(home, tool):
            for contents in CONTENTS:
                self._check(home, tool, path, partial(_write, contents), repr(contents[:20]))

    def test_a_first_line_of_any_kind_is_never_passed_over(self, home: Path, tool: TranscriptSource) -> None:
        for path in self._files(home, tool):
            rest = path.read_bytes().partition(b"\n")[2]
            for line in CONTENTS if rest and not is_database(str(path)) else ():
                data = line.removesuffix(b"\n") + b"\n" + rest
                self._check(home, tool, path, partial(_write, data), repr(line[:20]))

    def test_an_odd_value_in_a_first_record_is_never_fatal(self, home: Path, tool: TranscriptSource) -> None:
        for path in self._files(home, tool):
            whole = path.read_bytes()
            first, _, rest = whole.partition(b"\n")
            for record, after in ((whole, b""), (first, b"\n" + rest)):
                try:
                    value = json.loads(record)
                except ValueError:
                    continue
                for name, odd in _odd(value):
                    data = json.dumps(odd).encode() + after
                    self._check(home, tool, path, partial(_write, data), name)
                break

    def test_a_renamed_table_or_column_is_never_passed_over(self, home: Path, tool: TranscriptSource) -> None:
        for path in self._files(home, tool):
            for statement in _renames(path) if is_database(str(path)) else ():
                self._check(home, tool, path, partial(_execute, statement), statement)

    def _files(self, home: Path, tool: TranscriptSource) -> list[Path]:
        """Store the conversation; return the files that it consists of."""
        if not isinstance(tool, NamesLeftovers):
            pytest.skip("this adapter does not look for conversations by itself")
        before = {path for path in home.rglob("*") if path.is_file()}
        self.samples.save(home)
        return sorted(path for path in home.rglob("*") if path.is_file() and path not in before)

    def _check(
        self, home: Path, tool: TranscriptSource, path: Path, change: Callable[[Path], object], name: str
    ) -> None:
        """Change a file, check that the conversation is read or the loss is told, and restore the file."""
        original = path.read_bytes()
        try:
            change(path)
            assert account_of(tool), f"{path.relative_to(home)} with {name}: neither read nor told"
        finally:
            for file in (path, *(path.with_name(path.name + log) for log in ("-wal", "-shm"))):
                file.unlink(missing_ok=True)
            path.write_bytes(original)


def account_of(tool: TranscriptSource) -> list[Any]:
    """Return what a scan says: the messages that it reads, what it counts as unread, and what it names as left over."""
    said: list[Any] = []
    try:
        listed = list(tool.transcripts())
        said += tool.leftovers(listed) if isinstance(tool, NamesLeftovers) else ()
        for transcript in listed:
            reading = tool.read(transcript)
            said += [comparable(message) for message in reading]
            said += [*reading.counts.damaged, *reading.counts.unknown]
    except (CortextError, OSError) as error:  # an import reports it
        said.append(error)
    return said


def _odd(value: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the value with each of its fields replaced or left out, and where; itself, too."""
    for odd in VALUES if depth else ():
        yield f"= {odd!r}", odd
    if not isinstance(value, dict) or depth == _DEEPEST:
        return
    for name, inner in value.items():
        yield f".{name} left out", {other: item for other, item in value.items() if other != name}
        for where, odd in _odd(inner, depth + 1):
            yield f".{name}{where}", {**value, name: odd}


def _renames(path: Path) -> Iterator[str]:
    with closing(sqlite3.connect(path)) as database:
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            if table.startswith("sqlite_"):
                continue
            yield f'ALTER TABLE "{table}" RENAME TO "{table}_next"'
            for row in database.execute(f'PRAGMA table_info("{table}")').fetchall():
                yield f'ALTER TABLE "{table}" RENAME COLUMN "{row[1]}" TO "{row[1]}_next"'


def _write(data: bytes, path: Path) -> None:
    path.write_bytes(data)


def _execute(sql: str, path: Path) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA legacy_alter_table = ON")
        database.execute(sql)
