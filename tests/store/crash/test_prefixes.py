"""A file of 20 messages, cut after any byte, is opened and appended to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cortext.model.message import ASSISTANT, USER, Message
from cortext.model.session import Session
from cortext.store.base import TORN, UNREADABLE
from cortext.store.files.store import FileStore
from tests.store.crash.faults import Counting, installed
from tests.store.crash.invariants import check_kept, contents, plain, unreadable
from tests.store.crash.talk import COMPACTING, LAYOUTS, SESSION, place_of

# Two, three and four bytes a letter, escapes, and something that looks like a message inside a message.
TEXTS = ("né", "漢字", "🙂", 'a\n"b\\', '{"role": "user"}')
STARTED = "2026-01-31T09:30:00Z"


def some(layout: str, root: Path, count: int) -> tuple[FileStore, list[Message]]:
    """A session of short messages."""
    store = LAYOUTS[layout](str(root))
    store.create(Session(id=SESSION, created_at=STARTED))
    messages = [
        Message(role=ASSISTANT if n % 2 else USER, content=f"{n} {TEXTS[n % 5]}", timestamp=STARTED, id=f"m{n}")
        for n in range(count)
    ]
    return store, plain(store.append(SESSION, *messages))


def put(path: str, data: bytes) -> None:
    """A file with exactly these bytes; its quarantine is gone."""
    with open(path, "wb") as file:
        file.write(data)
    if os.path.exists(f"{path}.quarantine"):
        os.unlink(f"{path}.quarantine")


def whole_lines(data: bytes, end: int) -> int:
    """How many lines of `data` are whole before `end`; the newline itself may be missing."""
    return data.count(b"\n", 0, end) + (data[end : end + 1] == b"\n")


@pytest.mark.req("STORE-06", "STORE-03")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_log_cut_after_any_byte_keeps_its_whole_lines_and_takes_the_next(layout: str, tmp_path: Path) -> None:
    with installed(Counting()):
        store, messages = some(layout, tmp_path, 20)
        log = place_of(store).log
        data = contents(log)
        assert len(data) > 2000
        first = len(data.split(b"\n")) - 1 - len(messages)  # a metadata line, in the layout that has one
        for end in range(len(data) + 1):
            put(log, data[:end])
            store = LAYOUTS[layout](str(tmp_path))
            there = messages[: max(0, whole_lines(data, end) - first)]
            torn = end > 0 and data[end - 1 : end] != b"\n" and data[end : end + 1] != b"\n"
            reading = store.read(SESSION)
            assert plain(reading) == there, f"cut at {end}"
            assert [item.kind for item in reading.damage] == ([TORN] if torn else []), f"cut at {end}"
            rest = data[data.rfind(b"\n", 0, end) + 1 : end]
            [added] = store.append(SESSION, Message(role=USER, content="next", id="next"))
            assert plain(store.read(SESSION)) == [*there, added], f"cut at {end}"
            assert added.seq == len(there)
            check_kept(store, [(log, end - len(rest), rest)])
            kept = data[: data.rfind(b"\n", 0, end) + 1] if torn else data[:end]
            kept += b"\n" if kept and not kept.endswith(b"\n") else b""
            after = contents(log)
            assert after.startswith(kept) and after.endswith(b"\n"), f"cut at {end}"
            assert after.count(b"\n") == kept.count(b"\n") + 1, "the message is one line, on a line of its own"


@pytest.mark.req("STORE-06", "STORE-03")
@pytest.mark.parametrize("layout", COMPACTING)
def test_an_archive_cut_after_any_byte_beside_a_whole_log_doubles_and_loses_nothing(
    layout: str, tmp_path: Path
) -> None:
    """A compaction that died while it wrote the archive: the log still holds everything."""
    with installed(Counting()):
        store, messages = some(layout, tmp_path, 10)
        place = place_of(store)
        log = contents(place.log)
        assert store.compact(SESSION, 7) == 7
        archive = contents(place.archive)
        assert len(archive) > 700
        for end in range(len(archive) + 1):
            put(place.log, log)
            put(place.archive, archive[:end])
            store = LAYOUTS[layout](str(tmp_path))
            assert plain(store.read(SESSION)) == messages, f"cut at {end}"
            damage = store.check(SESSION)
            assert UNREADABLE not in [item.kind for item in damage]
            bad = unreadable(store)
            assert bool(bad) == bool(damage), f"cut at {end}"
            if end % 3 == 0:
                assert store.compact(SESSION, 6) == 6, f"cut at {end}"
                assert plain(store.read(SESSION)) == messages, f"compacted again after a cut at {end}"
            check_kept(store, bad)
