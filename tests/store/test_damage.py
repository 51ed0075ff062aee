"""Damaged logs: complete messages load, the rest is reported and kept, and `repair` fixes the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from cortext.errors import DamagedData, WriteFailed
from cortext.io import durable
from cortext.model.message import Message
from cortext.store.base import DISORDER, DOUBLED, NUMBER, TORN, UNREADABLE
from cortext.testing.table import every_row
from tests.store.conformance.kit import fields_of_each
from tests.store.damage import ID, LAYOUTS, Layout, make_store, quarantined, snapshot

pytestmark = pytest.mark.usefixtures("no_flush")
every_layout = pytest.mark.parametrize("layout", LAYOUTS, ids=[layout.name for layout in LAYOUTS])


class Bad(NamedTuple):
    """A damaged line: its bytes, the kind of damage, and the messages that it still contains."""

    raw: bytes
    kind: str = UNREADABLE
    keeps: Sequence[int] = ()


# A damaged log, made of the five lines of an undamaged one: a number is that line, bytes are not damage.
LogLines = Sequence["int | bytes | Bad"]
Case = Callable[[list[bytes]], LogLines]

NESTED = b'{"role": "user", "content": ' + b"[" * 10_000 + b"]" * 10_000 + b"}\n"


def cut(line: bytes, at: int = 40) -> bytes:
    return line[:at]


def chomp(line: bytes) -> bytes:
    return line.removesuffix(b"\n")


CASES: dict[str, Case] = {
    "a run of NUL": lambda lines: [0, 1, Bad(b"\0" * 4096 + b"\n"), 2, 3, 4],
    "NULs before a complete record": lambda lines: [0, Bad(b"\0" * 512 + lines[1], keeps=[1]), 2, 3, 4],
    "NULs after a complete record": lambda lines: [0, Bad(chomp(lines[1]) + b"\0" * 512 + b"\n", keeps=[1]), 2, 3, 4],
    "a NUL inside a text": lambda lines: [0, Bad(lines[1].replace(b"quoting", b"quo\0ing")), 2, 3, 4],
    "Windows line endings": lambda lines: [line.replace(b"\n", b"\r\n") for line in lines],
    "one Windows line ending": lambda lines: [0, chomp(lines[1]) + b"\r\n", 2, 3, 4],
    "a byte order mark in front": lambda lines: [b"\xef\xbb\xbf" + lines[0], 1, 2, 3, 4],
    "a byte order mark in the middle": lambda lines: [0, b"\xef\xbb\xbf" + lines[1], 2, 3, 4],
    "two records on one line": lambda lines: [0, Bad(chomp(lines[1]) + lines[2], keeps=[1, 2]), 3, 4],
    "two records on one line, then a blank line": lambda lines: [
        0, Bad(chomp(lines[1]) + lines[2], keeps=[1, 2]), b"\n", 3, 4,
    ],
    "all records on one line": lambda lines: [Bad(b" ".join(map(chomp, lines)) + b"\n", keeps=range(5))],
    "old Mac line endings": lambda lines: [Bad(b"\r".join(map(chomp, lines)) + b"\n", keeps=range(5))],
    "a record twice on one line": lambda lines: [0, Bad(chomp(lines[1]) + lines[1], keeps=[1]), 2, 3, 4],
    "a record over two lines": lambda lines: [
        0, Bad(lines[1][: lines[1].index(b", ")] + b",\n"), Bad(lines[1][lines[1].index(b", ") + 2 :]), 2, 3, 4,
    ],
    "text after a complete record": lambda lines: [0, Bad(chomp(lines[1]) + b" and then?\n", keeps=[1]), 2, 3, 4],
    "a comma after each record": lambda lines: [
        0, Bad(chomp(lines[1]) + b",\n", keeps=[1]), Bad(chomp(lines[2]) + b",\n", keeps=[2]), 3, 4,
    ],
    "a merge conflict": lambda lines: [
        0, 1, Bad(b"<<<<<<< HEAD\n"), 2, Bad(b"=======\n"), Bad(lines[2], DOUBLED), 3, Bad(b">>>>>>> theirs\n"), 4,
    ],
    "lone surrogates as escapes": lambda lines: [0, lines[1].replace(b"quoting", b"\\ud800 quoting \\udfff"), 2, 3, 4],
    "a character cut in two": lambda lines: [Bad(lines[0].replace("é".encode(), b"\xc3")), 1, 2, 3, 4],
    "Latin-1": lambda lines: [Bad(lines[0].replace("é".encode(), b"\xe9")), 1, 2, 3, 4],
    "a line of UTF-16": lambda lines: [0, 1, Bad(b"\xff\xfe{\0}\0\n"), 2, 3, 4],
    "a duplicate line": lambda lines: [0, 1, Bad(lines[1], DOUBLED), 2, 3, 4],
    "duplicates further down": lambda lines: [0, 1, 2, 3, Bad(lines[0], DOUBLED), 4, Bad(lines[3], DOUBLED)],
    "every line twice": lambda lines: [0, 1, 2, 3, 4, *(Bad(line, DOUBLED) for line in lines)],
    "the last two lines swapped": lambda lines: [0, 1, 2, 4, Bad(lines[3], DISORDER, keeps=[3])],
    "lines in reverse order": lambda lines: [4, *(Bad(lines[n], DISORDER, keeps=[n]) for n in (3, 2, 1, 0))],
    "blank lines": lambda lines: [b"\n", 0, b"\n\n\n", 1, b"  \t\n", 2, b"\r\n", 3, 4, b"\n"],
    "values that are not objects": lambda lines: [
        0, Bad(b"[1, 2]\n"), Bad(b'"text"\n'), Bad(b"17\n"), 1, Bad(b"null\n"), Bad(b"true\n"), 2, Bad(b"[]\n"), 3, 4,
    ],
    "objects that are not messages": lambda lines: [
        0, Bad(b"{}\n"), Bad(b'{"content": "whose?"}\n'), 1, Bad(b'{"role": 7}\n'), Bad(b'{"role": ""}\n'), 2, 3, 4,
    ],
    "records of other types": lambda lines: [
        0, b'{"type": "embedding", "message_id": "id-0000", "v": []}\n', 1, 2, 3, 4,
    ],
    "half a line in the middle": lambda lines: [0, Bad(cut(lines[1]) + b"\n"), 2, 3, 4],
    "half a record and a complete one on one line": lambda lines: [0, Bad(cut(lines[1]) + lines[2]), 3, 4],
    "a torn last line": lambda lines: [0, 1, 2, 3, Bad(cut(lines[4]), TORN)],
    "one byte of a last line": lambda lines: [0, 1, 2, 3, 4, Bad(b"{", TORN)],
    "NULs for a last line": lambda lines: [0, 1, 2, 3, 4, Bad(b"\0" * 700, TORN)],
    "a last line without its newline": lambda lines: [0, 1, 2, 3, chomp(lines[4])],
    "a torn record after a complete one": lambda lines: [0, 1, 2, Bad(chomp(lines[3]) + cut(lines[4]), keeps=[3])],
    "nested 10,000 deep": lambda lines: [0, Bad(NESTED), 1, 2, 3, 4],
    "a sequence number that is too large": lambda lines: [
        0, Bad(lines[1].replace(b'"seq": 1,', b'"seq": %d,' % 2**90), NUMBER, keeps=[1]), 2, 3, 4,
    ],
    "nothing but rubbish": lambda lines: [Bad(b"what\n"), Bad(b"is\n"), Bad(b"this", TORN)],
    "nothing": lambda lines: [],
}  # fmt: skip


def build(
    header: bytes, lines: list[bytes], log_lines: LogLines
) -> tuple[bytes, list[tuple[int, int, str]], list[int]]:
    """Return the damaged file, the damage that must be found in it, and the messages that must be read."""
    raw = header
    damage: list[tuple[int, int, str]] = []
    messages: list[int] = []
    for line in log_lines:
        if isinstance(line, Bad):
            damage.append((len(raw), len(line.raw), line.kind))
            messages += line.keeps
            raw += line.raw
        elif isinstance(line, int):
            messages.append(line)
            raw += lines[line]
        else:
            raw += line
            messages += [number for number in range(len(lines)) if b'"id-%04d", "seq"' % number in line]
    return raw, damage, messages


@pytest.mark.req("STORE-06")
@every_layout
@every_row("case", CASES.values(), ids=CASES)
def test_complete_messages_load_and_a_repair_quarantines_the_rest(layout: Layout, case: Case, tmp_path: Path) -> None:
    store, header, lines = make_store(layout, tmp_path, 5)
    log = layout.log_in(tmp_path)
    raw, expected, numbers = build(header, lines, case(lines))
    log.write_bytes(raw)

    # Complete messages load; everything else is reported by offset and length.
    reading = store.read(ID)
    messages = list(reading)
    assert [message.id for message in messages] == [f"id-{number:04d}" for number in numbers]
    assert [message.seq for message in messages] == sorted({message.seq for message in messages})
    assert [(item.offset, item.length, item.kind) for item in reading.damage] == expected
    assert all(item.file == log.name and item.reason for item in reading.damage)
    assert store.check(ID) == reading.damage
    assert store.get(ID).damage == next(store.sessions()).damage == len(expected)
    assert fields_of_each(store.tail(ID, 3)) == fields_of_each(messages[-3:])

    # A dry run reports the same and changes nothing.
    before = snapshot(tmp_path)
    bad = [(offset, raw[offset : offset + length]) for offset, length, kind in expected if kind != DISORDER]
    report = store.repair(ID, dry_run=True)
    assert (report.changed, report.dry_run, report.kept_messages) == (False, True, len(messages))
    assert report.damage == reading.damage
    assert report.quarantined_bytes == sum(len(data) for _, data in bad)
    assert snapshot(tmp_path) == before

    # The repair quarantines exactly the damaged bytes, and keeps every message as it was read.
    done = store.repair(ID)
    assert (done.changed, done.kept_messages) == (bool(expected), len(messages))
    assert done.quarantined_bytes == report.quarantined_bytes
    assert quarantined(log) == [(log.name, offset, data) for offset, data in bad]
    assert (done.quarantine == f"{log}.quarantine") is bool(bad)
    assert fields_of_each(store.read(ID)) == fields_of_each(messages)
    assert (store.check(ID), store.get(ID).damage) == ([], 0)

    # A second repair finds nothing and changes nothing.
    after = snapshot(tmp_path)
    second = store.repair(ID)
    assert (second.damage, second.changed, second.quarantined_bytes) == ([], False, 0)
    assert snapshot(tmp_path) == after

    # The session can be continued.
    [added] = store.append(ID, Message(role="user", content="on we go"))
    assert fields_of_each(layout.make(str(tmp_path)).read(ID)) == fields_of_each([*messages, added])


@pytest.mark.req("STORE-06", "STORE-04")
@every_layout
@every_row("case", CASES.values(), ids=CASES)
def test_appending_to_a_damaged_log_loses_nothing(layout: Layout, case: Case, tmp_path: Path) -> None:
    store, header, lines = make_store(layout, tmp_path, 5)
    log = layout.log_in(tmp_path)
    raw, expected, _ = build(header, lines, case(lines))
    log.write_bytes(raw)
    messages = list(store.read(ID))
    reopened = layout.make(str(tmp_path))
    [added] = reopened.append(ID, Message(role="user", content="on we go"))
    assert fields_of_each(store.read(ID)) == fields_of_each([*messages, added])
    torn = [item for item in expected if item[2] == TORN]
    assert quarantined(log) == [(log.name, offset, raw[offset : offset + length]) for offset, length, _ in torn]
    untorn = raw[: torn[0][0]] if torn else raw
    assert log.read_bytes().startswith(untorn)
    kinds = [kind for _, _, kind in expected if kind != TORN]
    assert [item.kind for item in store.check(ID)] == kinds


@pytest.mark.req("STORE-06")
@pytest.mark.parametrize("layout", [LAYOUTS[0], LAYOUTS[2]], ids=["workspace", "chat"])
@pytest.mark.parametrize("where", ["archive", "log"])
def test_damage_in_archive_or_log_loses_only_the_damaged_line(layout: Layout, where: str, tmp_path: Path) -> None:
    store, _, _ = make_store(layout, tmp_path, 8)
    store.compact(ID, 4)
    log = layout.log_in(tmp_path)
    path = log if where == "log" else log.with_name("archive.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], lines[1].replace(b'"content"', b'"cont'), lines[2], lines[1], lines[3]]))
    in_damaged_file = {"log": [4, 6, 5, 7], "archive": [0, 2, 1, 3]}[where]
    expected = [*range(4), *in_damaged_file] if where == "log" else [*in_damaged_file, *range(4, 8)]
    messages = list(store.read(ID))
    assert [message.id for message in messages] == [f"id-{number:04d}" for number in expected]
    assert {item.file for item in store.check(ID)} == ({path.name} if where == "log" else {path.name, log.name})
    with pytest.raises(DamagedData, match="is damaged"):
        store.compact(ID, 6)
    assert store.repair(ID).kept_messages == 8
    assert fields_of_each(store.read(ID)) == fields_of_each(messages)
    assert store.check(ID) == [] and store.repair(ID).damage == []
    assert [data for _, _, data in quarantined(path)] == [lines[1].replace(b'"content"', b'"cont')]
    assert store.compact(ID, messages[5].seq) == 1
    assert fields_of_each(store.read(ID)) == fields_of_each(messages)


@pytest.mark.req("STORE-03", "STORE-06")
@pytest.mark.parametrize("layout", [LAYOUTS[0], LAYOUTS[2]], ids=["workspace", "chat"])
def test_a_wrong_number_in_the_archive_hides_no_message_of_the_log(layout: Layout, tmp_path: Path) -> None:
    store, _, _ = make_store(layout, tmp_path, 8)
    store.compact(ID, 4)
    archive = layout.log_in(tmp_path).with_name("archive.jsonl")
    archive.write_bytes(archive.read_bytes().replace(b'"seq": 3', b'"seq": 93'))
    assert [message.id for message in store.read(ID)] == [f"id-{number:04d}" for number in range(8)]
    assert [item.kind for item in store.check(ID)] == [DISORDER] * 4
    messages = fields_of_each(store.read(ID))
    store.repair(ID)
    assert (store.check(ID), fields_of_each(store.read(ID))) == ([], messages)


@pytest.mark.req("STORE-06")
@pytest.mark.parametrize("layout", [LAYOUTS[0], LAYOUTS[2]], ids=["workspace", "chat"])
def test_a_torn_last_line_is_quarantined_before_a_compaction(layout: Layout, tmp_path: Path) -> None:
    store, header, lines = make_store(layout, tmp_path, 5)
    log = layout.log_in(tmp_path)
    undamaged = header + b"".join(lines)
    log.write_bytes(undamaged + lines[0][:30])
    messages = fields_of_each(store.read(ID))
    assert store.compact(ID, 3) == 3
    assert quarantined(log) == [(log.name, len(undamaged), lines[0][:30])]
    assert (fields_of_each(store.read(ID)), store.check(ID)) == (messages, [])


@pytest.mark.req("STORE-06")
@every_layout
def test_repeating_an_interrupted_repair_quarantines_the_bytes_once(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, header, lines = make_store(layout, tmp_path, 3)
    log = layout.log_in(tmp_path)
    raw = header + lines[0] + b"rubbish\n" + lines[1] + b"rubbish\n" + lines[2]
    log.write_bytes(raw)

    def fail(path: str, blocks: object) -> None:
        raise WriteFailed("disk full")

    with monkeypatch.context() as full_disk:
        full_disk.setattr(durable, "replace_file", fail)
        with pytest.raises(WriteFailed):
            store.repair(ID)
    assert log.read_bytes() == raw
    first = len(header) + len(lines[0])
    expected = [(log.name, first, b"rubbish\n"), (log.name, first + 8 + len(lines[1]), b"rubbish\n")]
    assert quarantined(log) == expected
    assert store.repair(ID).changed is True
    assert quarantined(log) == expected
    assert log.read_bytes() == header + b"".join(lines)
