"""Logs and archives that were cut after any byte are opened and appended to.

The test command cuts around the end of every line and after every seventh byte; `python -m tests.store.crash.long
--prefixes` after every byte.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cortext.model.message import ASSISTANT, USER, Message
from cortext.model.session import Session
from cortext.store.base import TORN, UNREADABLE
from cortext.store.files.store import FileStore
from tests.store.crash.actor import COMPACTING, LAYOUTS, SESSION, files_of
from tests.store.crash.faults import Counting, installed
from tests.store.crash.invariants import check_kept, contents, plain, unreadable

# Characters of two, three and four bytes, escapes, and text that looks like a message.
TEXTS = ("né", "漢字", "🙂", 'a\n"b\\', '{"role": "user"}')
STARTED = "2026-01-31T09:30:00Z"
STEP = 7  # no divisor of the length of a line, so each line is cut at other bytes


def filled_store(layout: str, root: Path, count: int) -> tuple[FileStore, list[Message]]:
    """Return a store with a session of short messages, and the messages."""
    store = LAYOUTS[layout](str(root))
    store.create(Session(id=SESSION, created_at=STARTED))
    messages = [
        Message(role=ASSISTANT if n % 2 else USER, content=f"{n} {TEXTS[n % 5]}", timestamp=STARTED, id=f"m{n}")
        for n in range(count)
    ]
    return store, plain(store.append(SESSION, *messages))


def put(path: str, data: bytes) -> None:
    """Write a file with exactly these bytes and remove its quarantine."""
    with open(path, "wb") as file:
        file.write(data)
    if os.path.exists(f"{path}.quarantine"):
        os.unlink(f"{path}.quarantine")


def complete_lines(data: bytes, end: int) -> int:
    """Return how many lines of `data` are complete before `end`; only the last newline may be missing."""
    return data.count(b"\n", 0, end) + (data[end : end + 1] == b"\n")


def cuts(data: bytes, step: int) -> list[int]:
    """Return where to cut: after every `step` bytes, and around the end of every line."""
    ends = [index for index, byte in enumerate(data) if byte == ord("\n")]
    near = {end + offset for end in ends for offset in (-1, 0, 1, 2)}
    return [end for end in range(len(data) + 1) if end % step == 0 or end in near or end == len(data)]


@pytest.mark.req("STORE-06", "STORE-03")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_log_cut_after_any_byte_keeps_complete_lines_and_accepts_more(layout: str, tmp_path: Path) -> None:
    cut_log(layout, tmp_path, STEP)


def cut_log(layout: str, tmp_path: Path, step: int) -> int:
    """Cut a log at many places and check what is read and appended after each; return how many there were."""
    with installed(Counting()):
        store, messages = filled_store(layout, tmp_path, 20)
        log = files_of(store).log
        data = contents(log)
        assert len(data) > 2000
        first = len(data.split(b"\n")) - 1 - len(messages)  # the metadata line, in the layout that has one
        ends = cuts(data, step)
        for end in ends:
            put(log, data[:end])
            store = LAYOUTS[layout](str(tmp_path))
            expected = messages[: max(0, complete_lines(data, end) - first)]
            torn = end > 0 and data[end - 1 : end] != b"\n" and data[end : end + 1] != b"\n"
            reading = store.read(SESSION)
            assert plain(reading) == expected, f"cut at {end}"
            assert [item.kind for item in reading.damage] == ([TORN] if torn else []), f"cut at {end}"
            rest = data[data.rfind(b"\n", 0, end) + 1 : end]
            [added] = store.append(SESSION, Message(role=USER, content="next", id="next"))
            assert plain(store.read(SESSION)) == [*expected, added], f"cut at {end}"
            assert added.seq == len(expected)
            check_kept(store, [(log, end - len(rest), rest)])
            kept = data[: data.rfind(b"\n", 0, end) + 1] if torn else data[:end]
            kept += b"\n" if kept and not kept.endswith(b"\n") else b""
            after = contents(log)
            assert after.startswith(kept) and after.endswith(b"\n"), f"cut at {end}"
            assert after.count(b"\n") == kept.count(b"\n") + 1, "the message must be exactly one new line"
    return len(ends)


@pytest.mark.req("STORE-06", "STORE-03")
@pytest.mark.parametrize("layout", COMPACTING)
def test_an_archive_cut_after_any_byte_loses_and_duplicates_nothing(layout: str, tmp_path: Path) -> None:
    """A compaction was killed while it wrote the archive: the log still holds everything."""
    cut_archive(layout, tmp_path, STEP)


def cut_archive(layout: str, tmp_path: Path, step: int) -> int:
    """Cut an archive at many places and check what is read and compacted after each; return how many there were."""
    with installed(Counting()):
        store, messages = filled_store(layout, tmp_path, 10)
        files = files_of(store)
        log = contents(files.log)
        assert store.compact(SESSION, 7) == 7
        archive = contents(files.archive)
        assert len(archive) > 700
        ends = cuts(archive, step)
        for number, end in enumerate(ends):
            put(files.log, log)
            put(files.archive, archive[:end])
            store = LAYOUTS[layout](str(tmp_path))
            assert plain(store.read(SESSION)) == messages, f"cut at {end}"
            damage = store.check(SESSION)
            assert UNREADABLE not in [item.kind for item in damage]
            bad = unreadable(store)
            assert bool(bad) == bool(damage), f"cut at {end}"
            if number % 3 == 0:
                assert store.compact(SESSION, 6) == 6, f"cut at {end}"
                assert plain(store.read(SESSION)) == messages, f"compacted again after a cut at {end}"
            check_kept(store, bad)
    return len(ends)
