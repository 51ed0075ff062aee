"""A thousand valid logs, each damaged at random: nothing crashes, no complete message is lost, none is invented."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cortext.model.message import Message
from cortext.store.base import DISORDER, DOUBLED
from cortext.store.files.lines import BadLine, StoredMessage, coerce, decode_value
from cortext.store.files.store import FileStore
from tests.store.conformance.kit import fields_of_each
from tests.store.damage import ID, LAYOUTS, Layout, make_store, quarantined

pytestmark = pytest.mark.usefixtures("no_flush")
FILES = 1_000
LINES = 12
NASTY = [b"\0" * 64, b"\n", b"\n\n", b"\r\n", b"\xef\xbb\xbf", b"}{", b"<<<<<<< HEAD\n", b"\xff", b"\xed\xa0\x80"]
NASTY += [b'"', b"\\", b"9" * 20, b"{}", b"[", b"null"]

Mutation = Callable[[random.Random, bytes], bytes]


def flip(chance: random.Random, raw: bytes) -> bytes:
    at = chance.randrange(len(raw))
    return raw[:at] + bytes([raw[at] ^ (1 << chance.randrange(8))]) + raw[at + 1 :]


def delete(chance: random.Random, raw: bytes) -> bytes:
    at = chance.randrange(len(raw))
    return raw[:at] + raw[at + chance.choice([1, 2, 7, 60, 400]) :]


def insert(chance: random.Random, raw: bytes) -> bytes:
    at = chance.randrange(len(raw) + 1)
    return raw[:at] + chance.choice([*NASTY, chance.randbytes(8)]) + raw[at:]


def overwrite(chance: random.Random, raw: bytes) -> bytes:
    at, size = chance.randrange(len(raw)), chance.choice([1, 16, 512])
    return raw[:at] + chance.choice([b"\0" * size, chance.randbytes(size)])[: len(raw) - at] + raw[at + size :]


def swap(chance: random.Random, raw: bytes) -> bytes:
    lines = raw.splitlines(keepends=True)
    first, second = chance.randrange(len(lines)), chance.randrange(len(lines))
    lines[first], lines[second] = lines[second], lines[first]
    return b"".join(lines)


def double(chance: random.Random, raw: bytes) -> bytes:
    lines = raw.splitlines(keepends=True)
    lines.insert(chance.randrange(len(lines) + 1), chance.choice(lines))
    return b"".join(lines)


def truncate(chance: random.Random, raw: bytes) -> bytes:
    return raw[: chance.randrange(len(raw))]


MUTATIONS: list[Mutation] = [flip, delete, insert, overwrite, swap, double, truncate]


def damaged(chance: random.Random, raw: bytes) -> bytes:
    for _ in range(chance.choice([1, 1, 2, 5])):
        if raw:
            raw = chance.choice(MUTATIONS)(chance, raw)
    return raw


def complete_lines(raw: bytes) -> list[tuple[int, StoredMessage]]:
    """Return every line that is a message by itself, with its offset, found in the slow and obvious way."""
    found = []
    offset = 0
    for line in raw.split(b"\n"):
        try:
            record = coerce(decode_value(line)) if line.strip() else StoredMessage()
        except BadLine:
            record = StoredMessage()
        if record.role:
            found.append((offset, record))
        offset += len(line) + 1
    return found


def records_in(raw: bytes) -> Iterator[tuple[str, str]]:
    """Return the role and text of every message at the start of a line, or directly after another message."""
    for line in raw.split(b"\n"):
        try:
            text = line.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            text = line[: error.start].decode("utf-8", "surrogatepass")
        text = text.strip("\0 \t\r").removeprefix("\ufeff")
        while text:
            try:
                value, end = json.JSONDecoder().raw_decode(text)
                record = coerce(value)
            except ValueError:
                break
            yield record.role, record.content
            text = text[end:].lstrip("\0 \t\r")


def check_one(store: FileStore, log: Path, raw: bytes) -> int:
    """Check that one damaged log is read and repaired without loss; return how many damages were reported."""
    log.write_bytes(raw)
    reading = store.read(ID)
    messages = list(reading)
    numbers = [message.seq for message in messages]
    assert numbers == sorted(set(numbers)), "sequence numbers are unique and in order"

    # Nothing is lost: each complete line was read, except for a second line with the same id.
    read = {(message.role, message.content) for message in messages}
    ids = {message.id for message in messages}
    doubled = {item.offset for item in reading.damage if item.kind == DOUBLED}
    for offset, line in complete_lines(raw):
        assert (line.role, line.content) in read or (offset in doubled and line.id in ids)
    # Nothing is invented or merged: each message that was read is in the file.
    in_file = Counter(records_in(raw))
    for message in messages:
        assert in_file[message.role, message.content] > 0
        in_file[message.role, message.content] -= 1
    # Nothing is silent: every line was either read or reported.
    reported = sum(item.length for item in reading.damage if item.kind != DISORDER)
    assert all(item.offset >= 0 and item.offset + item.length <= len(raw) for item in reading.damage)
    assert len(reading.damage) > 0 or len(messages) == len(complete_lines(raw))

    report = store.repair(ID)
    assert fields_of_each(store.read(ID)) == fields_of_each(messages)
    assert report.kept_messages == len(messages)
    kept = [(offset, data) for name, offset, data in quarantined(log) if name == log.name]
    assert sorted(kept) == sorted(
        (item.offset, raw[item.offset : item.offset + item.length]) for item in reading.damage if item.kind != DISORDER
    )
    assert reported == sum(len(data) for _, data in kept)
    repaired = log.read_bytes()
    second = store.repair(ID)
    assert (second.damage, second.changed, log.read_bytes()) == ([], False, repaired)
    [added] = store.append(ID, Message(role="user", content="and on"))
    assert fields_of_each(store.read(ID)) == fields_of_each([*messages, added])
    return len(report.damage)


@pytest.mark.req("STORE-03", "STORE-06")
@pytest.mark.parametrize("layout", LAYOUTS, ids=[layout.name for layout in LAYOUTS])
def test_a_thousand_damaged_logs_lose_only_what_is_damaged(layout: Layout, tmp_path: Path) -> None:
    store, header, lines = make_store(layout, tmp_path, LINES)
    log = layout.log_in(tmp_path)
    undamaged = header + b"".join(lines)
    quarantine = log.with_name(log.name + ".quarantine")
    with_damage = 0
    for number in range(FILES // len(LAYOUTS) + 1):
        chance = random.Random(f"{layout.name} {number}")
        raw = damaged(chance, undamaged)
        quarantine.unlink(missing_ok=True)
        try:
            with_damage += check_one(store, log, raw) > 0
        except BaseException as error:
            error.add_note(f"{layout.name}, file {number}: {raw!r}")
            raise
    assert with_damage > FILES // len(LAYOUTS) // 2, "damage was reported in most of these files"


@pytest.mark.req("STORE-03", "STORE-06")
@pytest.mark.parametrize("layout", [LAYOUTS[0], LAYOUTS[2]], ids=["workspace", "chat"])
def test_a_damaged_archive_hides_no_message_of_the_log(layout: Layout, tmp_path: Path) -> None:
    store, _, _ = make_store(layout, tmp_path, LINES)
    store.compact(ID, LINES // 2)
    log = layout.log_in(tmp_path)
    archive = log.with_name("archive.jsonl")
    undamaged, log_bytes = archive.read_bytes(), log.read_bytes()
    in_log = [f"id-{number:04d}" for number in range(LINES // 2, LINES)]
    for number in range(FILES // 10):
        raw = damaged(random.Random(f"archive {number}"), undamaged)
        archive.write_bytes(raw)
        log.write_bytes(log_bytes)
        messages = list(store.read(ID))
        altered = {message.id for message in messages[: -len(in_log)]}
        assert [message.id for message in messages if message.id not in altered][-len(in_log) :] == in_log
        assert {line.content for _, line in complete_lines(raw)} <= {message.content for message in messages}
        store.repair(ID)
        assert fields_of_each(store.read(ID)) == fields_of_each(messages)
        assert (store.check(ID), store.repair(ID).changed) == ([], False)
        [added] = store.append(ID, Message(role="user", content="and on"))
        store.compact(ID, added.seq)
        assert fields_of_each(store.read(ID)) == fields_of_each([*messages, added])
