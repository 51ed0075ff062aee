"""Damaged rollouts: only the damaged record is lost, nothing is fatal, and memory is bounded."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tools.codex.corpus import everyday, read

from cortext.tools.base import About, Counts
from cortext.tools.codex.adapter import Codex
from cortext.tools.codex.messages import MessageBuilder


@pytest.mark.req("TOOL-04")
def test_a_line_torn_by_a_second_writer_loses_no_message(tmp_path: Path) -> None:
    rollout = everyday()
    expected, _ = read(rollout.save(tmp_path / "a"))
    for number in range(1, len(rollout.lines)):
        torn = everyday()
        # One process had written half of an event when the other wrote its line.
        torn.lines[number] = b'{"timestamp":"2026-11-15T02:34:00.000Z","ordinal":7,"type":"eve' + torn.lines[number]

        messages, reading = read(torn.save(tmp_path / str(number)))

        assert messages == expected, number
        assert reading.counts.damaged == {"not JSON": 1}


@pytest.mark.req("TOOL-04")
def test_huge_and_many_records_are_read_in_bounded_memory(tmp_path: Path) -> None:
    rollout = everyday()
    rollout.call("call_9")
    rollout.result("call_9", "x" * 8_000_000)
    for number in range(6_000):
        rollout.user(f"question {number} " + "words " * 100)
    path = rollout.save(tmp_path)

    with_huge_record = _peak(path, stop=12)
    with_all_records = _peak(path, stop=10**9)

    assert path.stat().st_size > 17_000_000
    assert with_huge_record < 40_000_000
    assert with_all_records < with_huge_record + 2_000_000


def _peak(path: Path, stop: int) -> int:
    tool = Codex(home=str(path.parents[5]))
    transcript = tool.transcript_at(str(path))
    assert transcript is not None
    tracemalloc.start()
    for number, _ in enumerate(tool.read(transcript)):
        if number >= stop:
            break
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


@given(st.lists(st.one_of(st.binary(max_size=80), st.sampled_from(everyday().lines)), max_size=12))
@pytest.mark.req("TOOL-04")
def test_no_line_is_fatal(lines: list[bytes]) -> None:
    builder = MessageBuilder("key", About(), Counts())
    for text in lines:
        for line in text.split(b"\n"):
            builder.add_line(line, 0)
    builder.finish(is_final=True)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "payload", "content", "id", "output", "text"]), inner)
    ),
    max_leaves=8,
)


@given(values)
@pytest.mark.req("TOOL-04")
def test_no_value_in_a_record_is_fatal(value: Any) -> None:
    fields = ("id", "role", "content", "output", "arguments", "action", "summary", "call_id")
    for kind in ("message", "function_call", "function_call_output", "reasoning", "web_search_call"):
        for field in fields:
            builder = MessageBuilder("key", About(), Counts())
            record = {"timestamp": "2026-11-15T02:34:00.000Z", "type": "response_item"}
            line = json.dumps({**record, "payload": {"type": kind, field: value}}, separators=(",", ":"))
            builder.add_line(line.encode(), 0)
            builder.finish(is_final=True)
    MessageBuilder("key", About(), Counts()).add_line(json.dumps(value).encode(), 0)
