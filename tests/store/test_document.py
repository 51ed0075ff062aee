"""docs/file-formats.md is enough to write a reader: document_reader.py is such a reader and agrees with the stores."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from cortext.model.message import BEGINNING, Message, Part
from cortext.model.session import Change
from cortext.model.threads import thread
from cortext.services.library.stores import NamedStore
from cortext.services.workspace.creating import fork
from cortext.store.files.store import FileStore
from cortext.testing.table import every_row
from tests.store import document_reader as document
from tests.store.damage import ID, LAYOUTS, Layout, make_store
from tests.store.test_damage import CASES, Case, build

pytestmark = pytest.mark.usefixtures("no_flush")
every_layout = pytest.mark.parametrize("layout", LAYOUTS, ids=[layout.name for layout in LAYOUTS])
READERS: dict[str, Any] = {"workspace": document.Workspace, "spawn": document.Spawn, "chat": document.Chat}


def _read_by_document(layout: Layout, root: Path, session_id: str) -> list[dict[str, Any]]:
    return document.messages(*READERS[layout.name](root, session_id).files)


def _assert_readers_agree(layout: Layout, root: Path, store: FileStore, session_id: str) -> None:
    """Check that the store and the document's reader return the same messages, texts and current branch."""
    ours, theirs = list(store.read(session_id)), _read_by_document(layout, root, session_id)
    assert [(message["seq"], message["id"], message["role"], document.text_of(message)) for message in theirs] == [
        (message.seq, message.id, message.role, message.text) for message in ours
    ]
    assert [message["id"] for message in document.thread(theirs)] == [message.id for message in thread(ours)]


def test_the_document_reader_does_not_import_our_code() -> None:
    tree = ast.parse(Path(document.__file__).read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert [name for name in names if name.split(".")[0] in ("cortext", "tests")] == []


@pytest.mark.req("STORE-01")
@every_layout
def test_the_document_reader_reads_branches_and_forks(layout: Layout, tmp_path: Path) -> None:
    store, _, _ = make_store(layout, tmp_path, 9)
    store.append(
        ID,
        Message(role="user", content="another way", id="other", parent="id-0004"),
        Message(role="assistant", content="of a side agent", id="side", aside=True),
        Message(role="assistant", content="cut o", id="half", partial=True),
        Message(role="assistant", parts=[Part(type="tool_call", id="c", name="Bash", input={"a": 1})]),
        Message(role="tool", parts=[Part(type="tool_result", call_id="c", name="Bash", output="done")]),
    )
    _assert_readers_agree(layout, tmp_path, store, ID)
    session = store.update(ID, Change(status="paused", title="Branches"))
    metadata = READERS[layout.name](tmp_path, ID).metadata()
    assert (metadata["id"], metadata["status"], metadata["title"]) == (ID, "paused", "Branches")
    assert metadata["created_at"] == session.created_at
    if layout.name != "spawn":
        assert (metadata["message_count"], metadata["last_active"]) == (13, session.last_active)
    forked = fork(NamedStore("x", layout.name, str(tmp_path), store), store.get(ID), 6)
    _assert_readers_agree(layout, tmp_path, store, forked.id)
    fork_metadata = READERS[layout.name](tmp_path, forked.id).metadata()
    assert fork_metadata["forked_from"]["session"] == ID
    store.append(ID, Message(role="user", content="from the beginning", parent=BEGINNING, id="new"))
    _assert_readers_agree(layout, tmp_path, store, ID)
    assert [message["id"] for message in document.thread(_read_by_document(layout, tmp_path, ID))] == ["new"]


@pytest.mark.req("STORE-06")
@every_layout
@every_row("case", CASES.values(), ids=CASES)
def test_the_document_reader_reads_a_damaged_log(layout: Layout, case: Case, tmp_path: Path) -> None:
    store, header, lines = make_store(layout, tmp_path, 5)
    log = layout.log_in(tmp_path)
    log.write_bytes(build(header, lines, case(lines))[0])
    _assert_readers_agree(layout, tmp_path, store, ID)
    damaged = log.read_bytes()
    store.repair(ID)
    _assert_readers_agree(layout, tmp_path, store, ID)
    for name, offset, data in document.quarantine(log):
        assert (name, damaged[offset : offset + len(data)]) == (log.name, data)


@pytest.mark.req("STORE-06")
@every_layout
def test_the_document_reader_derives_missing_ids_and_numbers(layout: Layout, tmp_path: Path) -> None:
    store, header, lines = make_store(layout, tmp_path, 2)
    plain = b'{"role": "user", "content": "as in the first format", "timestamp": "2026-01-01T11:00:00.000Z"}\n'
    unknown = b'{"type": "note", "role": "user", "content": "of another kind, and said by somebody"}\n'
    layout.log_in(tmp_path).write_bytes(header + lines[0] + plain + plain + unknown)
    _assert_readers_agree(layout, tmp_path, store, ID)
    assert len(_read_by_document(layout, tmp_path, ID)) == 4


@pytest.mark.req("STORE-06")
@pytest.mark.parametrize("layout", [LAYOUTS[0], LAYOUTS[2]], ids=["workspace", "chat"])
def test_the_document_reader_reads_an_interrupted_compaction(layout: Layout, tmp_path: Path) -> None:
    store, _, _ = make_store(layout, tmp_path, 8)
    log = layout.log_in(tmp_path)
    before = log.read_bytes()
    store.compact(ID, 4)
    _assert_readers_agree(layout, tmp_path, store, ID)
    assert log.with_name("archive.jsonl").exists()
    log.write_bytes(before)  # as if interrupted before the log was replaced
    _assert_readers_agree(layout, tmp_path, store, ID)
    assert len(_read_by_document(layout, tmp_path, ID)) == 8
