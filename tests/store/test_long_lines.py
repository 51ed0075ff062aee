"""Long lines are shortened while they are read: every text becomes a prefix of the original."""

from __future__ import annotations

import json
from tempfile import TemporaryFile
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cortext.io import jsonl

pytestmark = pytest.mark.req("SAFE-06")
TEXTS = st.text(st.sampled_from('ab"\\/\n\té日😀\x7f{}[]:, '), max_size=40)
VALUES = st.one_of(TEXTS, st.integers(), st.none(), st.lists(TEXTS, max_size=3))
RECORDS = st.dictionaries(st.sampled_from(["role", "content", "id", "parts"]), VALUES)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make blocks so small that every possible boundary between two of them occurs."""
    monkeypatch.setattr(jsonl, "BLOCK", 7)


def shortened(raw: bytes, most: int) -> bytes | None:
    with TemporaryFile() as file:
        file.write(raw)
        file.flush()
        return jsonl.shortened(file.fileno(), 0, len(raw), most)


def is_shortened(original: Any, short: Any) -> bool:
    if isinstance(original, str):
        return original.startswith(short)
    if isinstance(original, list):
        return len(original) == len(short) and all(map(is_shortened, original, short))
    return bool(original == short)


@given(RECORDS, st.booleans(), st.integers(8, 30))
@example(record={"role": ":::\x7f"}, ascii_only=True, most=8)
def test_every_text_is_truncated_between_two_characters(record: dict[str, Any], ascii_only: bool, most: int) -> None:
    raw = json.dumps(record, ensure_ascii=ascii_only).encode() + b"\n"
    assert shortened(raw, 1000) == raw
    short = shortened(raw, most)
    assert short is not None and short.endswith(b"\n")
    found = msgspec.json.decode(short)
    assert list(found) == list(record) and all(is_shortened(record[name], found[name]) for name in record)
    for name, value in record.items():
        if isinstance(value, str) and len(json.dumps(value, ensure_ascii=ascii_only).encode()) - 2 <= most:
            assert found[name] == value


@given(RECORDS, st.data())
def test_invalid_json_is_not_changed(record: dict[str, Any], data: st.DataObject) -> None:
    raw = bytearray(json.dumps(record, ensure_ascii=False).encode() + b"\n")
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    short = shortened(bytes(raw), 1000)
    try:
        msgspec.json.decode(bytes(raw))
        bytes(raw).decode("utf-8")
    except (msgspec.DecodeError, UnicodeDecodeError):
        assert short in (None, bytes(raw))
    else:
        assert short == bytes(raw)
