"""Logs that are already broken: what is whole loads, the rest is kept and told, `repair` mends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from cortext.errors import DamagedData, WriteFailed
from cortext.io import files as fsio
from cortext.model.message import Message
from cortext.store.base import DISORDER, DOUBLED, NUMBER, TORN, UNREADABLE
from tests.store.conformance.kit import plains
from tests.store.damage import ID, LAYOUTS, Layout, make, quarantined, snapshot

pytestmark = pytest.mark.usefixtures("no_flush")
every_layout = pytest.mark.parametrize("layout", LAYOUTS, ids=[layout.name for layout in LAYOUTS])


class Bad(NamedTuple):
    """A line with something wrong: its bytes, what kind of damage that is, and which messages it still gives."""

    raw: bytes
    kind: str = UNREADABLE
    gives: Sequence[int] = ()


# A damaged log, made of the five lines of a whole one: a number is that line, bytes are harmless.
Pieces = Sequence["int | bytes | Bad"]
Case = Callable[[list[bytes]], Pieces]

NESTED = b'{"role": "user", "content": ' + b"[" * 10_000 + b"]" * 10_000 + b"}\n"


def cut(line: bytes, at: int = 40) -> bytes:
    return line[:at]


def end(line: bytes) -> bytes:
    return line.removesuffix(b"\n")


CASES: dict[str, Case] = {
    "a run of NUL": lambda li: [0, 1, Bad(b"\0" * 4096 + b"\n"), 2, 3, 4],
    "NULs before a whole line": lambda li: [0, Bad(b"\0" * 512 + li[1], gives=[1]), 2, 3, 4],
    "NULs after a whole line": lambda li: [0, Bad(end(li[1]) + b"\0" * 512 + b"\n", gives=[1]), 2, 3, 4],
    "a NUL inside a text": lambda li: [0, Bad(li[1].replace(b"quoting", b"quo\0ing")), 2, 3, 4],
    "Windows line ends": lambda li: [line.replace(b"\n", b"\r\n") for line in li],
    "one Windows line end": lambda li: [0, end(li[1]) + b"\r\n", 2, 3, 4],
    "a byte order mark in front": lambda li: [b"\xef\xbb\xbf" + li[0], 1, 2, 3, 4],
    "a byte order mark in the middle": lambda li: [0, b"\xef\xbb\xbf" + li[1], 2, 3, 4],
    "two lines glued": lambda li: [0, Bad(end(li[1]) + li[2], gives=[1, 2]), 3, 4],
    "two lines glued, then a blank one": lambda li: [0, Bad(end(li[1]) + li[2], gives=[1, 2]), b"\n", 3, 4],
    "all lines glued": lambda li: [Bad(b" ".join(map(end, li)) + b"\n", gives=range(5))],
    "old Mac line ends": lambda li: [Bad(b"\r".join(map(end, li)) + b"\n", gives=range(5))],
    "a doubled line glued to itself": lambda li: [0, Bad(end(li[1]) + li[1], gives=[1]), 2, 3, 4],
    "a record over two lines": lambda li: [
        0, Bad(li[1][: li[1].index(b", ")] + b",\n"), Bad(li[1][li[1].index(b", ") + 2 :]), 2, 3, 4,
    ],
    "words after a whole record": lambda li: [0, Bad(end(li[1]) + b" and then?\n", gives=[1]), 2, 3, 4],
    "a comma after each record": lambda li: [
        0, Bad(end(li[1]) + b",\n", gives=[1]), Bad(end(li[2]) + b",\n", gives=[2]), 3, 4,
    ],
    "a merge conflict": lambda li: [
        0, 1, Bad(b"<<<<<<< HEAD\n"), 2, Bad(b"=======\n"), Bad(li[2], DOUBLED), 3, Bad(b">>>>>>> theirs\n"), 4,
    ],
    "lone surrogates as escapes": lambda li: [0, li[1].replace(b"quoting", b"\\ud800 quoting \\udfff"), 2, 3, 4],
    "a character cut in two": lambda li: [Bad(li[0].replace("é".encode(), b"\xc3")), 1, 2, 3, 4],
    "Latin-1": lambda li: [Bad(li[0].replace("é".encode(), b"\xe9")), 1, 2, 3, 4],
    "a line of UTF-16": lambda li: [0, 1, Bad(b"\xff\xfe{\0}\0\n"), 2, 3, 4],
    "a doubled line": lambda li: [0, 1, Bad(li[1], DOUBLED), 2, 3, 4],
    "a line doubled later": lambda li: [0, 1, 2, 3, Bad(li[0], DOUBLED), 4, Bad(li[3], DOUBLED)],
    "everything doubled": lambda li: [0, 1, 2, 3, 4, *(Bad(line, DOUBLED) for line in li)],
    "the last two swapped": lambda li: [0, 1, 2, 4, Bad(li[3], DISORDER, gives=[3])],
    "backwards": lambda li: [4, *(Bad(li[n], DISORDER, gives=[n]) for n in (3, 2, 1, 0))],
    "blank lines": lambda li: [b"\n", 0, b"\n\n\n", 1, b"  \t\n", 2, b"\r\n", 3, 4, b"\n"],
    "values that are no objects": lambda li: [
        0, Bad(b"[1, 2]\n"), Bad(b'"text"\n'), Bad(b"17\n"), 1, Bad(b"null\n"), Bad(b"true\n"), 2, Bad(b"[]\n"), 3, 4,
    ],
    "objects that are no messages": lambda li: [
        0, Bad(b"{}\n"), Bad(b'{"content": "whose?"}\n'), 1, Bad(b'{"role": 7}\n'), Bad(b'{"role": ""}\n'), 2, 3, 4,
    ],
    "records of other kinds": lambda li: [0, b'{"type": "embedding", "message_id": "id-0000", "v": []}\n', 1, 2, 3, 4],
    "half a line in the middle": lambda li: [0, Bad(cut(li[1]) + b"\n"), 2, 3, 4],
    "half a line and a whole one glued": lambda li: [0, Bad(cut(li[1]) + li[2]), 3, 4],
    "a torn last line": lambda li: [0, 1, 2, 3, Bad(cut(li[4]), TORN)],
    "one byte of a last line": lambda li: [0, 1, 2, 3, 4, Bad(b"{", TORN)],
    "NULs for a last line": lambda li: [0, 1, 2, 3, 4, Bad(b"\0" * 700, TORN)],
    "a last line without its newline": lambda li: [0, 1, 2, 3, end(li[4])],
    "a torn end after a whole record": lambda li: [0, 1, 2, Bad(end(li[3]) + cut(li[4]), gives=[3])],
    "nested 10,000 deep": lambda li: [0, Bad(NESTED), 1, 2, 3, 4],
    "a number beyond all": lambda li: [
        0, Bad(li[1].replace(b'"seq": 1,', b'"seq": %d,' % 2**90), NUMBER, gives=[1]), 2, 3, 4,
    ],
    "nothing but rubbish": lambda li: [Bad(b"what\n"), Bad(b"is\n"), Bad(b"this", TORN)],
    "nothing": lambda li: [],
}  # fmt: skip


def build(header: bytes, lines: list[bytes], pieces: Pieces) -> tuple[bytes, list[tuple[int, int, str]], list[int]]:
    """The damaged file, the damage that must be found in it, and the messages that must come out."""
    raw = header
    damage: list[tuple[int, int, str]] = []
    messages: list[int] = []
    for piece in pieces:
        if isinstance(piece, Bad):
            damage.append((len(raw), len(piece.raw), piece.kind))
            messages += piece.gives
            raw += piece.raw
        elif isinstance(piece, int):
            messages.append(piece)
            raw += lines[piece]
        else:
            raw += piece
            messages += [number for number in range(len(lines)) if b'"id-%04d", "seq"' % number in piece]
    return raw, damage, messages


@pytest.mark.req("STORE-06")
@every_layout
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_is_whole_loads_the_rest_is_told_and_repair_mends_it(layout: Layout, case: Case, tmp_path: Path) -> None:
    store, header, lines = make(layout, tmp_path, 5)
    log = layout.log_in(tmp_path)
    pieces = case(lines)
    raw, expected, numbers = build(header, lines, pieces)
    log.write_bytes(raw)

    # What is whole loads; what is not is told, by offset and length.
    reading = store.read(ID)
    messages = list(reading)
    assert [message.id for message in messages] == [f"id-{number:04d}" for number in numbers]
    assert [message.seq for message in messages] == sorted({message.seq for message in messages})
    assert [(item.offset, item.length, item.kind) for item in reading.damage] == expected
    assert all(item.file == log.name and item.reason for item in reading.damage)
    assert store.check(ID) == reading.damage
    assert store.get(ID).damage == next(store.sessions()).damage == len(expected)
    assert plains(store.tail(ID, 3)) == plains(messages[-3:])

    # A dry run says it all and changes nothing.
    before = snapshot(tmp_path)
    bad = [(offset, raw[offset : offset + length]) for offset, length, kind in expected if kind != DISORDER]
    report = store.repair(ID, dry_run=True)
    assert (report.changed, report.dry_run, report.kept_messages) == (False, True, len(messages))
    assert report.damage == reading.damage
    assert report.quarantined_bytes == sum(len(data) for _, data in bad)
    assert snapshot(tmp_path) == before

    # The repair keeps exactly the bad bytes, and every message as it was read.
    done = store.repair(ID)
    assert (done.changed, done.kept_messages) == (bool(expected), len(messages))
    assert done.quarantined_bytes == report.quarantined_bytes
    assert quarantined(log) == [(log.name, offset, data) for offset, data in bad]
    assert (done.quarantine == f"{log}.quarantine") is bool(bad)
    assert plains(store.read(ID)) == plains(messages)
    assert (store.check(ID), store.get(ID).damage) == ([], 0)

    # A second repair finds nothing and changes nothing.
    after = snapshot(tmp_path)
    second = store.repair(ID)
    assert (second.damage, second.changed, second.quarantined_bytes) == ([], False, 0)
    assert snapshot(tmp_path) == after

    # And the talk goes on.
    [added] = store.append(ID, Message(role="user", content="on we go"))
    assert plains(layout.make(str(tmp_path)).read(ID)) == plains([*messages, added])


@pytest.mark.req("STORE-06", "STORE-04")
@every_layout
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_appending_to_a_damaged_log_loses_nothing(layout: Layout, case: Case, tmp_path: Path) -> None:
    store, header, lines = make(layout, tmp_path, 5)
    log = layout.log_in(tmp_path)
    raw, expected, _ = build(header, lines, case(lines))
    log.write_bytes(raw)
    messages = list(store.read(ID))
    fresh = layout.make(str(tmp_path))
    [added] = fresh.append(ID, Message(role="user", content="on we go"))
    assert plains(store.read(ID)) == plains([*messages, added])
    torn = [item for item in expected if item[2] == TORN]
    assert quarantined(log) == [(log.name, offset, raw[offset : offset + length]) for offset, length, _ in torn]
    whole = raw[: torn[0][0]] if torn else raw
    assert log.read_bytes().startswith(whole)
    kinds = [kind for _, _, kind in expected if kind != TORN]
    assert [item.kind for item in store.check(ID)] == kinds


@pytest.mark.req("STORE-06")
@pytest.mark.parametrize("layout", [LAYOUTS[0], LAYOUTS[2]], ids=["workspace", "chat"])
@pytest.mark.parametrize("where", ["archive", "log"])
def test_damage_on_either_side_of_an_archive_loses_only_itself(layout: Layout, where: str, tmp_path: Path) -> None:
    store, _, _ = make(layout, tmp_path, 8)
    store.compact(ID, 4)
    log = layout.log_in(tmp_path)
    path = log if where == "log" else log.with_name("archive.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], lines[1].replace(b'"content"', b'"cont'), lines[2], lines[1], lines[3]]))
    gone = {"log": [4, 6, 5, 7], "archive": [0, 2, 1, 3]}[where]
    expected = [*range(4), *gone] if where == "log" else [*gone, *range(4, 8)]
    messages = list(store.read(ID))
    assert [message.id for message in messages] == [f"id-{number:04d}" for number in expected]
    assert {item.file for item in store.check(ID)} == ({path.name} if where == "log" else {path.name, log.name})
    with pytest.raises(DamagedData, match="is damaged"):
        store.compact(ID, 6)
    assert store.repair(ID).kept_messages == 8
    assert plains(store.read(ID)) == plains(messages)
    assert store.check(ID) == [] and store.repair(ID).damage == []
    assert [data for _, _, data in quarantined(path)] == [lines[1].replace(b'"content"', b'"cont')]
    assert store.compact(ID, messages[5].seq) == 1
    assert plains(store.read(ID)) == plains(messages)


@pytest.mark.req("STORE-03", "STORE-06")
@pytest.mark.parametrize("layout", [LAYOUTS[0], LAYOUTS[2]], ids=["workspace", "chat"])
def test_one_wrong_digit_in_the_archive_hides_no_message_of_the_log(layout: Layout, tmp_path: Path) -> None:
    store, _, _ = make(layout, tmp_path, 8)
    store.compact(ID, 4)
    archive = layout.log_in(tmp_path).with_name("archive.jsonl")
    archive.write_bytes(archive.read_bytes().replace(b'"seq": 3', b'"seq": 93'))
    assert [message.id for message in store.read(ID)] == [f"id-{number:04d}" for number in range(8)]
    assert [item.kind for item in store.check(ID)] == [DISORDER] * 4
    messages = plains(store.read(ID))
    store.repair(ID)
    assert (store.check(ID), plains(store.read(ID))) == ([], messages)


@pytest.mark.req("STORE-06")
@pytest.mark.parametrize("layout", [LAYOUTS[0], LAYOUTS[2]], ids=["workspace", "chat"])
def test_a_torn_end_is_set_aside_before_a_compaction(layout: Layout, tmp_path: Path) -> None:
    store, header, lines = make(layout, tmp_path, 5)
    log = layout.log_in(tmp_path)
    whole = header + b"".join(lines)
    log.write_bytes(whole + lines[0][:30])
    messages = plains(store.read(ID))
    assert store.compact(ID, 3) == 3
    assert quarantined(log) == [(log.name, len(whole), lines[0][:30])]
    assert (plains(store.read(ID)), store.check(ID)) == (messages, [])


@pytest.mark.req("STORE-06")
@every_layout
def test_a_repair_that_was_cut_off_can_be_run_again_and_keeps_the_bytes_once(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, header, lines = make(layout, tmp_path, 3)
    log = layout.log_in(tmp_path)
    raw = header + lines[0] + b"rubbish\n" + lines[1] + b"rubbish\n" + lines[2]
    log.write_bytes(raw)

    def fail(path: str, pieces: object) -> None:
        raise WriteFailed("no more room")

    with monkeypatch.context() as full_disk:
        full_disk.setattr(fsio, "replace_file", fail)
        with pytest.raises(WriteFailed):
            store.repair(ID)
    assert log.read_bytes() == raw
    first = len(header) + len(lines[0])
    expected = [(log.name, first, b"rubbish\n"), (log.name, first + 8 + len(lines[1]), b"rubbish\n")]
    assert quarantined(log) == expected
    assert store.repair(ID).changed is True
    assert quarantined(log) == expected
    assert log.read_bytes() == header + b"".join(lines)
