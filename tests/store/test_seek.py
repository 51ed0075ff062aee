"""A message is found by its number without reading those before it, however long the lines are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cortext.io.jsonl import BLOCK
from cortext.store.files.journal import offset_of

pytestmark = pytest.mark.req("TOOL-10")


@pytest.mark.parametrize("sizes", [(10,), (900_000,), (10, 900_000), (900_000, 10, 10, 300_000)])
def test_a_reading_begins_at_most_a_block_before_the_message(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    starts = []
    with open(tmp_path / "messages.jsonl", "wb") as file:
        for seq in range(16):
            starts.append(file.tell())
            line = {"role": "user", "content": "x" * sizes[seq % len(sizes)], "id": f"m{seq}", "seq": seq}
            file.write(json.dumps(line).encode() + b"\n")
    with open(tmp_path / "messages.jsonl", "rb") as file:
        for seq, start in enumerate(starts):
            offset = offset_of(file.fileno(), seq)
            assert offset in starts and start - BLOCK <= offset <= start, (seq, offset, start)


def test_a_line_without_a_number_means_reading_from_the_start(tmp_path: Path) -> None:
    path = tmp_path / "messages.jsonl"
    path.write_text("".join(json.dumps({"role": "user", "content": "x" * 400_000}) + "\n" for _ in range(4)), "utf-8")
    with open(path, "rb") as file:
        assert offset_of(file.fileno(), 3) == 0
