"""A scan never yields nothing: whatever is wrong in a tool's store, its conversation is read, or the loss is told.

And a change is noticed: a transcript is where the tool's folders are watched, and its file leads to it.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import pytest

from cortext.errors import CortextError
from cortext.testing.reading import Conformance, comparable, files_in
from cortext.tools.base import NamesLeftovers, TranscriptSource, Watched
from cortext.tools.shared.sqlite import is_database

# What a fault, another program or another version may leave instead of a file or of its first line.
CONTENTS = (b"not JSON at all", b"\xff\xfe\xfd\n", b'{"half": "a rec', b"[" * 5_000, b"null", b"{}", b"[7]", b"\0" * 64)
VALUES: tuple[Any, ...] = (None, 0.5, "x", {}, [7])
_DEEPEST = 3
_KEYS = re.compile(r"(^|_)(id|key|hash|role|type)$")  # columns that tie a row to others, or say what it is


class ScanningConformance(Conformance):
    """`NamesLeftovers`, for every adapter that looks for its conversations by itself."""

    needs: ClassVar[type] = NamesLeftovers

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
                self._check(home, tool, path, partial(_execute, statement, ()), statement)

    def test_a_file_by_another_name_is_never_passed_over(self, home: Path, tool: TranscriptSource) -> None:
        files, complete = self._files(home, tool), len(_messages(account_of(tool)))
        for path in files:
            moved = (f"new/{path.name}",) if self.samples.has_folder else ()
            for name in (*_other_names(path.name), *moved):
                self._check(home, tool, path, partial(_move, path.parent / name), name, complete)

    def test_a_row_with_another_key_is_never_passed_over(self, home: Path, tool: TranscriptSource) -> None:
        files, complete = self._files(home, tool), len(_messages(account_of(tool)))
        for path in files:
            for statement, values in _garbled(path) if is_database(str(path)) else ():
                self._check(home, tool, path, partial(_execute, statement, values), f"{statement} {values}", complete)

    def test_an_unknown_table_is_never_passed_over(self, home: Path, tool: TranscriptSource) -> None:
        for path in self._files(home, tool):
            if not is_database(str(path)):
                continue
            with closing(sqlite3.connect(path)) as database, database:
                database.execute("CREATE TABLE talk (id TEXT, said_by TEXT, words TEXT)")
            before = account_of(tool)
            _execute("INSERT INTO talk VALUES ('1', 'user', 'How many herons?')", (), path)

            assert len(account_of(tool)) > len(before), path

    def _files(self, home: Path, tool: TranscriptSource) -> list[Path]:
        """Store the conversation; return the files that it consists of."""
        before = {path for path in home.rglob("*") if path.is_file()}
        self.samples.save(home)
        return sorted(path for path in home.rglob("*") if path.is_file() and path not in before)

    def _check(
        self,
        home: Path,
        tool: TranscriptSource,
        path: Path,
        change: Callable[[Path], object],
        name: str,
        complete: int = 1,
    ) -> None:
        """Change a file, check that this many messages are read or the loss is told, and restore the file."""
        original, others = path.read_bytes(), set(home.rglob("*"))
        try:
            change(path)
            said = account_of(tool)
            is_told = len(_messages(said)) >= complete or len(said) > len(_messages(said))
            assert is_told, f"{path.relative_to(home)} with {name}: neither read nor told"
        finally:
            for created in sorted(set(home.rglob("*")) - others, reverse=True):
                created.rmdir() if created.is_dir() else created.unlink()
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


def _messages(said: list[Any]) -> list[Any]:
    """Return the messages of an account."""
    return [item for item in said if isinstance(item, tuple)]


def _other_names(name: str) -> Iterator[str]:
    """Yield the names that another version may give to a file."""
    stem, dot, _ = name.rpartition(".")
    yield from (f"{name}.zst", f"{name}2", f"v3-{name}")
    yield from (f"{stem}.{ending}" for ending in ("json", "jsonl", "db") if dot and stem and f"{stem}.{ending}" != name)


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


def _garbled(path: Path) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the changes that break what ties one row to others, or says what it is."""
    with closing(sqlite3.connect(path)) as database:
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            if table.startswith("sqlite_"):
                continue
            ends = database.execute(f'SELECT min(rowid), max(rowid) FROM "{table}" HAVING count(*)').fetchone()
            for row in database.execute(f'PRAGMA table_info("{table}")').fetchall():
                if not _KEYS.search(row[1]) or (row[5] and "INT" in row[2]):  # a number of the row itself
                    continue
                for number, odd in product(sorted(set(ends or ())), (None, "x")):
                    yield f'UPDATE OR IGNORE "{table}" SET "{row[1]}" = ? WHERE rowid = ?', (odd, number)


def _move(target: Path, path: Path) -> None:
    target.parent.mkdir(exist_ok=True)
    path.rename(target)


def _write(data: bytes, path: Path) -> None:
    path.write_bytes(data)


def _execute(sql: str, values: tuple[Any, ...], path: Path) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA legacy_alter_table = ON")
        database.execute(sql, values)


class WatchedConformance(Conformance):
    """`Watched`."""

    needs: ClassVar[type] = Watched

    @pytest.fixture
    def watching(self, tool: TranscriptSource) -> Watched:
        """Return the adapter."""
        assert isinstance(tool, Watched)
        return tool

    def test_a_changed_file_leads_to_its_transcript(self, watching: Watched, home: Path) -> None:
        watching.watched()  # before there is anything
        self.samples.save(home)
        transcript, watch = self.only_transcript(watching), watching.watched()

        inside = [folder for folder in watch.folders if transcript.path.startswith(os.path.join(folder, ""))]
        assert inside or transcript.path in watch.files
        (found,) = watching.changed(transcript.path)
        assert (found.key, found.path, found.size) == (transcript.key, transcript.path, transcript.size)

    def test_a_file_that_grows_with_the_conversation_leads_to_it(self, watching: Watched, home: Path) -> None:
        self.samples.save(home, self.samples.records - 1)
        before = files_in(home)
        self.samples.save(home)
        transcript, watch = self.only_transcript(watching), watching.watched()

        grown = [str(home / name) for name, data in files_in(home).items() if before.get(name) != data]
        folders = tuple(os.path.join(folder, "") for folder in watch.folders)
        noticed = [path for path in grown if path.startswith(folders) or path in watch.files]
        assert transcript in [found for path in noticed for found in watching.changed(path)]

    def test_another_file_leads_to_none(self, watching: Watched, home: Path, tmp_path: Path) -> None:
        self.samples.save(home)
        folders = [*watching.watched().folders, str(tmp_path)]

        for path in (os.path.join(folder, name) for folder in folders for name in ("other.txt", "missing", "a/b/c/d")):
            assert list(watching.changed(path)) == []
