"""Any conversation can be written, and reading it back gives the same messages."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tools.claude_code.conversations import call_part, message_of, records, result_part, round_trip
from tests.tools.claude_code.corpus import Json

from cortext.model.message import Message, Part
from cortext.model.turns import essence
from cortext.tools.claude_code.adapter import ClaudeCode
from cortext.tools.claude_code.write import Rendering


@pytest.fixture
def tool(tmp_path: Path) -> ClaudeCode:
    return ClaudeCode(home=str(tmp_path / "home"), environ={"PATH": "/nowhere"})


_texts = st.text(st.characters(), max_size=12) | st.sampled_from(
    ["", " ", "(no content)", "<command-name>", "/x y", "\ud800"]
)
_ids = st.sampled_from(["a", "b", "c", "bad id", ""])
_inputs = st.none() | st.dictionaries(_texts, st.integers(), max_size=2) | _texts
_parts = st.one_of(
    st.builds(Part, st.just("text"), text=_texts),
    st.builds(Part, st.just("thinking"), text=_texts),
    st.builds(Part, st.just("tool_call"), id=_ids, name=_texts, input=_inputs),
    st.builds(Part, st.just("tool_result"), call_id=_ids, output=_texts, is_error=st.booleans()),
    st.builds(Part, st.just("image"), ref=_texts),
)
_messages = st.lists(
    st.tuples(st.sampled_from(["user", "assistant", "tool", "system"]), _texts, st.lists(_parts, max_size=4)),
    max_size=8,
)


@pytest.mark.req("SESS-004d")
@given(_messages)
def test_any_conversation_can_be_written(
    tmp_path_factory: pytest.TempPathFactory, conversation: list[tuple[str, str, list[Part]]]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    messages = [
        Message(role=role, content=content, id=f"id{number}", parts=parts or None)
        for number, (role, content, parts) in enumerate(conversation)
    ]
    tool = ClaudeCode(home=str(folder), environ={})

    written, back = round_trip(tool, messages, folder)

    by_id = {message.id: message for message in messages}
    for message in back:
        assert essence(message) == essence(by_id[message.id])
    missing = [message for message in messages if message.id not in {message.id for message in back}]
    assert all(not essence(message)[1] and essence(message)[2:] == ([], [], []) for message in missing)
    _check_for_the_api(records(written))


def _check_for_the_api(turns: list[Json]) -> None:
    """Assert what the model's API requires: a user first, every call answered at once, no blank text."""
    waiting: set[str] = set()
    answer = ""
    seen: set[str] = set()
    assert not turns or turns[0]["type"] == "user"
    for record in turns:
        content = record["message"]["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        same_answer = record["type"] == "assistant" and record["message"]["id"] == answer
        results = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
        assert not waiting or same_answer or results
        assert results <= waiting
        waiting -= results
        answer = record["message"]["id"] if record["type"] == "assistant" else ""
        for block in blocks:
            if block["type"] == "text":
                assert block["text"].strip()
                assert not waiting or record["type"] == "assistant"
            elif block["type"] == "tool_use":
                assert block["id"] not in seen
                assert isinstance(block["input"], dict)
                seen.add(block["id"])
                waiting.add(block["id"])
    assert not waiting


def test_a_long_conversation_is_rendered_in_linear_time() -> None:
    messages = []
    for number in range(4_000):
        messages += [
            message_of("assistant", "", call_part(f"c{number}")),
            message_of("tool", "", result_part(f"c{number}")),
        ]

    assert Rendering(messages).normal.tool_calls == 4_000
