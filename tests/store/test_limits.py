"""Input that is far too large has a clear result, in memory that does not grow with it.

Python with the store imported takes 20 MB; the bounds below include it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cortext.errors import InvalidMessage
from cortext.io.jsonl import MAX_LINE
from cortext.model.message import Message
from cortext.store.base import METADATA, TORN, UNREADABLE
from cortext.store.files.lines import MAX_DEPTH
from tests.store.damage import ID, LAYOUTS, Layout, make_store, quarantined

WORKSPACE, SPAWN, CHAT = LAYOUTS
GIGABYTE = 1 << 30
SMALL = 48  # megabytes: enough for a few blocks of 1 MB, but not for a whole line or file
every_layout = pytest.mark.parametrize("layout", LAYOUTS, ids=[layout.name for layout in LAYOUTS])
pytestmark = pytest.mark.usefixtures("no_flush")


def run_and_measure(work: str, layout: Layout, root: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.store.limit_work", work, layout.name, str(root)]
    repository = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}  # the code under test
    done = subprocess.run(
        command, cwd=repository, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def write_with_hole(path: Path, before: bytes, size: int, after: bytes) -> None:
    """Write a sparse file: its long range of NULs takes no space on the disk."""
    with open(path, "wb") as file:
        file.write(before)
        file.seek(size, 1)
        file.write(after)


@pytest.mark.req("SAFE-06", "STORE-06")
def test_a_line_of_1_gb_is_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    _, _, lines = make_store(WORKSPACE, tmp_path, 3)
    begin, end = b'{"role": "user", "content": "', b'"}\n'
    write_with_hole(WORKSPACE.log_in(tmp_path), lines[0] + begin, GIGABYTE, end + lines[1] + lines[2])
    found = run_and_measure("read_and_append", WORKSPACE, tmp_path)
    length = len(begin) + GIGABYTE + len(end)
    assert found["damage"] == [[UNREADABLE, len(lines[0]), length]]
    assert (found["count"], found["session"], found["tail"], found["from"]) == (3, [3, 1], [0, 1, 2], 3)
    assert found["added"] == 3
    assert found["peak"] < SMALL


@pytest.mark.req("SAFE-06", "STORE-06")
def test_a_first_line_of_1_gb_is_not_metadata_and_hides_no_message(tmp_path: Path) -> None:
    _, _, lines = make_store(SPAWN, tmp_path, 3)
    begin = b'{"type": "metadata", "title": "'
    write_with_hole(SPAWN.log_in(tmp_path), begin, GIGABYTE, b'"}\n' + b"".join(lines))
    found = run_and_measure("read_once", SPAWN, tmp_path)
    assert found["damage"] == [[UNREADABLE, 0, len(begin) + GIGABYTE + 3]]
    assert (found["count"], found["title"]) == (3, "")
    assert found["peak"] < SMALL + 3 * 16  # metadata is read up to 16 MB


@pytest.mark.req("SAFE-06", "STORE-06")
def test_a_torn_last_line_of_1_gb_is_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    _, header, lines = make_store(CHAT, tmp_path, 3)
    undamaged = header + b"".join(lines)
    write_with_hole(CHAT.log_in(tmp_path), undamaged, GIGABYTE, b"x")
    found = run_and_measure("read_all_ways", CHAT, tmp_path)
    assert found["damage"] == [[TORN, len(undamaged), GIGABYTE + 1]]
    assert (found["count"], found["session"], found["tail"]) == (3, [3, 1], [0, 1, 2])
    assert found["peak"] < SMALL


@pytest.mark.req("SAFE-06", "STORE-06")
@every_layout
def test_lines_that_are_too_long_are_quarantined_in_chunks(layout: Layout, tmp_path: Path) -> None:
    _, header, lines = make_store(layout, tmp_path, 3)
    size = 24 << 20
    log = layout.log_in(tmp_path)
    write_with_hole(log, header + lines[0], size, b"\n" + lines[1] + lines[2] + b"y" * (5 << 20))
    found = run_and_measure("repair_long_lines", layout, tmp_path)
    assert (found["kept"], found["count"], found["damages"], found["second_changed"]) == (3, 3, 0, False)
    assert found["bytes"] == size + 1 + (5 << 20)
    kept = quarantined(log)
    assert b"".join(data for _, _, data in kept) == b"\0" * size + b"\n" + b"y" * (5 << 20)
    assert max(len(data) for _, _, data in kept) <= 1 << 20
    assert log.read_bytes() == header + b"".join(lines)
    assert found["peak"] < SMALL


@pytest.mark.req("SAFE-06", "STORE-04")
def test_a_million_messages_are_read_in_little_memory(tmp_path: Path) -> None:
    make_store(WORKSPACE, tmp_path, 1)
    with open(WORKSPACE.log_in(tmp_path), "wb") as file:
        for start in range(0, 1_000_000, 10_000):
            numbers = range(start, start + 10_000)
            file.write(b"".join(b'{"role": "user", "content": "x", "id": "%x", "seq": %d}\n' % (n, n) for n in numbers))
    found = run_and_measure("read_and_append", WORKSPACE, tmp_path)
    assert (found["count"], found["damages"], found["session"]) == (1_000_000, 0, [1_000_000, 0])
    assert (found["tail"], found["from"], found["added"]) == ([999_997, 999_998, 999_999], 10, 1_000_000)
    assert found["peak"] < SMALL


@pytest.mark.req("SAFE-06", "STORE-06")
def test_a_million_unreadable_lines_are_each_reported(tmp_path: Path) -> None:
    _, _, lines = make_store(WORKSPACE, tmp_path, 1)
    WORKSPACE.log_in(tmp_path).write_bytes(b"x\n" * 1_000_000 + lines[0])
    found = run_and_measure("read_once", WORKSPACE, tmp_path)
    assert (found["count"], found["damages"]) == (1, 1_000_000)
    assert found["damage"][:2] == [[UNREADABLE, 0, 2], [UNREADABLE, 2, 2]]
    assert found["peak"] < SMALL + 200  # 200 bytes for each damage: all of them are in a list


@pytest.mark.req("SAFE-06")
@every_layout
@pytest.mark.parametrize("depth", [10_000, 1_000_000])
def test_deeply_nested_json_is_reported_wherever_it_is(layout: Layout, depth: int, tmp_path: Path) -> None:
    _, header, lines = make_store(layout, tmp_path, 2)
    nested = b'{"role": "user", "content": %s, "id": "x", "seq": 7}\n' % (b"[" * depth + b"]" * depth)
    hidden = b'{"role": "user", "content": "x", "id": "x", "seq": 7, "zz": %s}\n' % (
        b'{"a":' * depth + b"1" + b"}" * depth
    )
    layout.log_in(tmp_path).write_bytes(header + lines[0] + nested + hidden + lines[1])
    damages = 2
    if layout is not SPAWN:
        layout.metadata_in(tmp_path).write_bytes(b"[" * depth)
        damages = 3
    found = run_and_measure("read_and_append", layout, tmp_path)
    start = len(header) + len(lines[0])
    assert found["damage"] == [[UNREADABLE, start, len(nested)], [UNREADABLE, start + len(nested), len(hidden)]]
    assert (found["count"], found["session"], found["added"]) == (2, [2, damages], 2)
    assert found["peak"] < SMALL + 100


@pytest.mark.req("SAFE-06", "STORE-06")
@pytest.mark.parametrize("layout", [WORKSPACE, CHAT], ids=["workspace", "chat"])
def test_metadata_of_1_gb_is_reported_and_not_read(layout: Layout, tmp_path: Path) -> None:
    make_store(layout, tmp_path, 3)
    write_with_hole(layout.metadata_in(tmp_path), b'{"title": "', GIGABYTE, b'"}')
    found = run_and_measure("read_and_append", layout, tmp_path)
    assert (found["count"], found["session"], found["added"]) == (3, [3, 1], 3)
    assert found["peak"] < SMALL


@pytest.mark.req("SAFE-06", "STORE-06")
@pytest.mark.parametrize("layout", [WORKSPACE, CHAT], ids=["workspace", "chat"])
def test_metadata_that_is_too_large_is_quarantined_completely(layout: Layout, tmp_path: Path) -> None:
    store, _, _ = make_store(layout, tmp_path, 3)
    path = layout.metadata_in(tmp_path)
    raw = b'{"title": "%s"}' % (b"x" * (17 << 20))
    path.write_bytes(raw)
    assert [(item.kind, item.length) for item in store.check(ID)] == [(METADATA, len(raw))]
    assert "too large" in store.check(ID)[0].reason
    store.repair(ID)
    assert store.check(ID) == [] and path.stat().st_size < 4096
    assert b"".join(data for _, _, data in quarantined(layout.log_in(tmp_path))) == raw


@pytest.mark.req("SAFE-06", "SAFE-07", "STORE-06")
@pytest.mark.parametrize("layout", [WORKSPACE, CHAT], ids=["workspace", "chat"])
def test_metadata_of_1_gb_is_renamed_and_not_copied(layout: Layout, tmp_path: Path) -> None:
    store, _, _ = make_store(layout, tmp_path, 3)
    path = layout.metadata_in(tmp_path)
    write_with_hole(path, b'{"title": "', GIGABYTE, b'"}')
    size = path.stat().st_size
    store.repair(ID)
    assert store.check(ID) == [] and path.stat().st_size < 4096
    [aside] = path.parent.glob(f"{path.name}.*.aside")
    assert aside.stat().st_size == size and not list(path.parent.glob("*.quarantine"))


@pytest.mark.req("SAFE-06", "STORE-07")
@pytest.mark.parametrize(("work", "copies"), [("append_too_long", 1), ("append_too_long_parts", 2)])
def test_a_message_that_is_too_long_is_refused_and_the_log_unchanged(work: str, copies: int, tmp_path: Path) -> None:
    _, header, lines = make_store(WORKSPACE, tmp_path, 2)
    found = run_and_measure(work, WORKSPACE, tmp_path)
    assert found["errors"] == ["the message is 256 MiB long; the limit is 256 MiB"]
    assert found["added"] == 2
    raw = WORKSPACE.log_in(tmp_path).read_bytes()
    assert raw.startswith(header + b"".join(lines)) and raw.count(b"\n") == 3
    assert found["peak"] < SMALL + copies * (MAX_LINE >> 20) + 16


@pytest.mark.req("SAFE-06", "STORE-07")
@every_layout
def test_a_message_that_is_too_deep_is_refused_and_the_log_unchanged(layout: Layout, tmp_path: Path) -> None:
    _, _, lines = make_store(layout, tmp_path, 2)
    found = run_and_measure("append_too_deep", layout, tmp_path)
    assert len(found["errors"]) >= 14
    assert all("nested too deeply" in error for error in found["errors"])
    assert found["added"] == 2
    raw = layout.log_in(tmp_path).read_bytes()
    assert raw.endswith(b"".join(lines) + raw.splitlines(keepends=True)[-1])


@pytest.mark.req("SAFE-06")
@every_layout
def test_the_deepest_allowed_message_can_be_read_from_a_deep_stack(layout: Layout, tmp_path: Path) -> None:
    store, _, _ = make_store(layout, tmp_path, 1)
    nested: list[Any] = []
    for _ in range(MAX_DEPTH - 4):
        nested = [nested]
    store.append(ID, Message(role="user", content="deep", extra={"deep": nested}))

    def read_from_depth(levels: int) -> list[str]:
        if levels:
            return read_from_depth(levels - 1)
        return [message.content for message in store.read(ID)][1:]

    assert read_from_depth(500) == ["deep"]
    assert store.check(ID) == []


@pytest.mark.req("SAFE-06", "STORE-07")
@every_layout
def test_one_level_more_than_the_limit_is_refused(layout: Layout, tmp_path: Path) -> None:
    store, _, _ = make_store(layout, tmp_path, 1)
    nested: list[Any] = []
    for _ in range(MAX_DEPTH):
        nested = [nested]
    before = layout.log_in(tmp_path).read_bytes()
    with pytest.raises(InvalidMessage, match=f"more than {MAX_DEPTH} levels"):
        store.append(ID, Message(role="user", content="deep", extra={"deep": nested}))
    store.append(ID, Message(role="user", content="[" * 10_000 + "{" * 10_000))  # brackets in a text do not count
    assert layout.log_in(tmp_path).read_bytes().startswith(before)
    assert [message.content[:4] for message in store.read(ID)][1:] == ["[[[["]
