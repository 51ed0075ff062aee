"""Missing or damaged metadata: the messages are still readable, and the metadata is rebuilt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cortext.model.message import Message
from cortext.model.session import Change
from cortext.store.base import METADATA
from cortext.store.files.chat import ChatStore
from cortext.store.files.spawn import SpawnStore
from cortext.testing.table import every_row
from tests.store.conformance.kit import fields_of_each
from tests.store.damage import ID, LAYOUTS, Layout, make_store, quarantined, snapshot

pytestmark = pytest.mark.usefixtures("no_flush")
BROKEN = {
    "empty": b"",
    "cut off": b'{"session_id": "sess_one", "sta',
    "NUL": b"\0" * 300,
    "a list": b'["not", "an", "object"]',
    "a number": b"17",
    "not UTF-8": b'{"title": "\xff\xfe"}',
    "half a merge conflict": b'{\n<<<<<<< HEAD\n  "status": "paused"\n=======\n  "status": "active"\n}\n',
    "deep": b"[" * 10_000 + b"]" * 10_000,
}
every_damage = every_row("broken", BROKEN.values(), ids=BROKEN)
with_metadata_file = pytest.mark.parametrize("layout", [LAYOUTS[0], LAYOUTS[2]], ids=["workspace", "chat"])


@pytest.mark.req("STORE-06")
@with_metadata_file
@every_damage
def test_damaged_metadata_is_reported_and_hides_no_message(layout: Layout, broken: bytes, tmp_path: Path) -> None:
    store, _, _ = make_store(layout, tmp_path, 3)
    messages = fields_of_each(store.read(ID))
    layout.metadata_in(tmp_path).write_bytes(broken)
    session = store.get(ID)
    assert (session.id, session.message_count, session.damage, session.status) == (ID, 3, 1, "active")
    assert session.created_at.startswith("2026-01-01T")
    assert next(store.sessions()) == session
    assert [(item.kind, item.file, item.offset, item.length) for item in store.check(ID)] == [
        (METADATA, layout.metadata_in(tmp_path).name, 0, len(broken))
    ]
    assert fields_of_each(store.read(ID)) == messages
    assert store.append(ID, Message(role="user", content="on"))[0].seq == 3
    assert layout.metadata_in(tmp_path).read_bytes() == broken


@pytest.mark.req("STORE-06")
@with_metadata_file
@pytest.mark.parametrize("way", ["repair", "update"])
@every_damage
def test_damaged_metadata_is_quarantined_and_rebuilt_from_the_log(
    layout: Layout, broken: bytes, way: str, tmp_path: Path
) -> None:
    store, _, _ = make_store(layout, tmp_path, 3)
    path = layout.metadata_in(tmp_path)
    path.write_bytes(broken)
    before = snapshot(tmp_path)
    assert store.repair(ID, dry_run=True).quarantined_bytes == len(broken)
    assert snapshot(tmp_path) == before
    if way == "repair":
        report = store.repair(ID)
        assert (report.changed, report.kept_messages, report.quarantined_bytes) == (True, 3, len(broken))
    else:
        assert store.update(ID, Change(title="new title")).title == "new title"
    assert quarantined(layout.log_in(tmp_path)) == ([(path.name, 0, broken)] if broken else [])
    session = store.get(ID)
    assert (session.message_count, session.damage, session.status) == (3, 0, "active")
    assert json.loads(path.read_bytes())["message_count"] == 3
    after = snapshot(tmp_path)
    assert store.repair(ID).changed is False
    assert snapshot(tmp_path) == after


@pytest.mark.req("STORE-06")
@with_metadata_file
@pytest.mark.parametrize("way", ["repair", "update"])
def test_missing_metadata_is_reported_and_rebuilt(layout: Layout, way: str, tmp_path: Path) -> None:
    store, _, _ = make_store(layout, tmp_path, 3)
    messages = fields_of_each(store.read(ID))
    layout.metadata_in(tmp_path).unlink()
    assert [(item.kind, item.reason) for item in store.check(ID)] == [(METADATA, "the file is missing")]
    assert [(session.id, session.damage) for session in store.sessions()] == [(ID, 1)]
    assert store.repair(ID, dry_run=True).damage == store.check(ID)
    if way == "repair":
        assert store.repair(ID).changed is True
    else:
        store.update(ID, Change(status="paused"))
    assert store.check(ID) == [] and quarantined(layout.log_in(tmp_path)) == []
    assert (fields_of_each(store.read(ID)), store.get(ID).message_count) == (messages, 3)


@pytest.mark.req("STORE-06")
@with_metadata_file
def test_a_session_without_a_log_can_be_appended_to(layout: Layout, tmp_path: Path) -> None:
    store, _, _ = make_store(layout, tmp_path, 1)
    layout.log_in(tmp_path).unlink()
    assert (list(store.read(ID)), store.tail(ID, 3), store.get(ID).message_count) == ([], [], 0)
    assert store.append(ID, Message(role="user", content="first"))[0].seq == 0
    assert store.get(ID).message_count == 1


@pytest.mark.req("STORE-06")
@every_row(
    ("first", "lost"),
    [
        (b"", b""),
        (b"\n", b""),
        (b'{"type": "metadata", "session_id": "sess_o\n', b'{"type": "metadata", "session_id": "sess_o\n'),
        (b"\0" * 200 + b"\n", b"\0" * 200 + b"\n"),
        (b'["metadata"]\n', b'["metadata"]\n'),
        (b'{"session_id": "sess_one"}\n', b'{"session_id": "sess_one"}\n'),
        (b"\xff\xfe\n", b"\xff\xfe\n"),
    ],
    ids=["gone", "blank", "cut off", "NUL", "a list", "no type", "not UTF-8"],
)
@pytest.mark.parametrize("way", ["repair", "update"])
def test_the_missing_first_line_of_a_spawn_file_is_rebuilt(first: bytes, lost: bytes, way: str, tmp_path: Path) -> None:
    store, _, lines = make_store(LAYOUTS[1], tmp_path, 3)
    messages = fields_of_each(store.read(ID))
    log = LAYOUTS[1].log_in(tmp_path)
    log.write_bytes(first + b"".join(lines))
    assert fields_of_each(store.read(ID)) == messages
    assert METADATA in [item.kind for item in store.check(ID)]
    session = store.get(ID)
    assert (session.message_count, session.created_at) == (3, "2026-01-01T10:00:00Z")
    if way == "update":
        store.update(ID, Change(agent="found"))
        assert json.loads(log.read_bytes().splitlines()[0])["agent"] == "found"
        assert METADATA not in [item.kind for item in store.check(ID)]
        assert bytes(lost) in log.read_bytes(), "a change of metadata keeps the damaged line"
    store.repair(ID)
    assert [data for _, _, data in quarantined(log)] == ([lost] if lost else [])
    assert store.check(ID) == [] and store.repair(ID).changed is False
    assert fields_of_each(store.read(ID)) == messages
    assert json.loads(log.read_bytes().splitlines()[0])["type"] == "metadata"
    assert log.read_bytes().endswith(b"".join(lines))


@pytest.mark.req("STORE-06")
@pytest.mark.parametrize("raw", [b"", b"17", b'{"type": "metadata"', b"\0\0\0"])
def test_a_spawn_file_without_a_complete_line_can_be_continued(raw: bytes, tmp_path: Path) -> None:
    log = LAYOUTS[1].log_in(tmp_path)
    log.write_bytes(raw)
    store = SpawnStore(str(tmp_path))
    assert [(session.id, session.damage > 0) for session in store.sessions()] == [(ID, True)]
    assert store.append(ID, Message(role="user", content="first"))[0].seq == 0
    store.repair(ID)
    assert (store.check(ID), store.get(ID).message_count) == ([], 1)
    assert b"".join(data for _, _, data in quarantined(log)) == raw


@pytest.mark.req("STORE-06")
@every_damage
def test_a_damaged_summary_is_quarantined_and_can_be_replaced(broken: bytes, tmp_path: Path) -> None:
    store, _, _ = make_store(LAYOUTS[2], tmp_path, 3)
    store.update(ID, Change(title="kept"))
    path = tmp_path / ID / "summary.json"
    path.write_bytes(broken)
    assert [(item.kind, item.file) for item in store.check(ID)] == [(METADATA, "summary.json")]
    assert (store.get(ID).summary, store.get(ID).title) == ("", "kept")
    store.repair(ID)
    assert quarantined(LAYOUTS[2].log_in(tmp_path)) == ([("summary.json", 0, broken)] if broken else [])
    assert store.check(ID) == [] and store.repair(ID).changed is False
    store.update(ID, Change(summary="new", summary_covers=3))
    assert ChatStore(str(tmp_path)).get(ID).summary == "new"
