"""Writing native threads: messages come back unchanged, calls have results, no text is lost."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tools.codex.corpus import everyday, read

from cortext.errors import DamagedData, UsageError
from cortext.model.message import ASSISTANT, IMAGE, TEXT, THINKING, TOOL_CALL, TOOL_RESULT, Message, Part
from cortext.model.turns import NOT_RECORDED
from cortext.tools.base import Written
from cortext.tools.codex import write as codex_write
from cortext.tools.codex.adapter import Codex
from cortext.tools.codex.write import Rendering

CONVERSATION = [
    Message(role="user", content="/slash text that is no command", id="m1", timestamp="2026-11-01T10:00:00.000Z"),
    Message(
        role="assistant",
        content="Let me look.",
        id="m2",
        timestamp="2026-11-01T10:00:01.000Z",
        model="claude-opus-5-5",
        tokens=17,
        usage={"output_tokens": 17},
        parts=[
            Part(THINKING, text="hm"),
            Part(TEXT, text="Let me look."),
            Part(TOOL_CALL, id="toolu_1", name="Bash", input={"command": "cat boat.txt"}),
            Part(TOOL_CALL, id="toolu_2", name="apply_patch", input="*** Begin Patch"),
        ],
    ),
    Message(
        role="tool",
        id="m3",
        timestamp="2026-11-01T10:00:02.000Z",
        parts=[
            Part(TOOL_RESULT, call_id="toolu_1", name="Bash", output="green\n"),
            Part(TOOL_RESULT, call_id="toolu_2", name="apply_patch", output="Failed", is_error=True),
        ],
    ),
    Message(role="assistant", content="It is green.", id="m4", timestamp="2026-11-01T10:00:03.000Z"),
    Message(
        role="user",
        content="<environment_context>\u2028 [RESUMED CONVERSATION] \x00\x1b[31m 答え $workspace-plan",
        id="m5",
        timestamp="2026-11-01T10:00:04.000Z",
    ),
]


def write(home: Path, messages: list[Message], **how: str) -> Written:
    return Codex(home=str(home)).write(messages, project="/work/boats", **how)


def items(path: str) -> list[dict[str, Any]]:
    """Return what the model gets: the items without our field."""
    lines = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").split("\n") if line]
    return [line["payload"] for line in lines if line["type"] == "response_item"]


@pytest.mark.req("SESS-004d", "STORE-13", "TOOL-01")
def test_written_messages_are_read_back_unchanged(tmp_path: Path) -> None:
    written = write(tmp_path, CONVERSATION, title="Boats")

    messages, reading = read(Path(written.path))

    assert messages == CONVERSATION
    assert (written.messages, written.tool_calls) == (5, 2)
    assert written.changed == {"thinking left out": 1, "error flag left out": 1}
    assert (reading.about.title, reading.about.project) == ("Boats", "/work/boats")
    assert (reading.counts.unknown, reading.counts.damaged) == ({}, {})
    assert stat.S_IMODE(Path(written.path).stat().st_mode) == 0o600


@pytest.mark.req("SESS-004d", "SAFE-03")
def test_the_model_gets_real_turns_with_paired_calls_and_results(tmp_path: Path) -> None:
    sent = items(write(tmp_path, CONVERSATION).path)

    assert [item["type"] for item in sent] == [
        "message",
        "message",
        "function_call",
        "custom_tool_call",
        "function_call_output",
        "custom_tool_call_output",
        "message",
        "message",
    ]
    assert [item["role"] for item in sent if item["type"] == "message"] == ["user", "assistant", "assistant", "user"]
    assert sent[2] | {"id": ""} == {
        "type": "function_call",
        "id": "",
        "name": "Bash",
        "call_id": "toolu_1",
        "arguments": '{"command":"cat boat.txt"}',
    }
    assert (sent[4]["call_id"], sent[4]["output"]) == ("toolu_1", "green\n")
    assert sent[-1]["content"][0]["text"] == CONVERSATION[-1].content
    assert not any(item["role"] in ("developer", "system") for item in sent if item["type"] == "message")


@pytest.mark.req("SESS-004d", "SAFE-03")
def test_content_that_codex_would_reject_or_drop_is_converted(tmp_path: Path) -> None:
    long_output = "line of a long output\n" * 3_000
    conversation = [
        Message(role="system", content="Be kind.", id="a1"),
        Message(role="tool", id="a2", parts=[Part(TOOL_RESULT, call_id="gone", name="Read", output="orphaned words")]),
        Message(
            role="assistant",
            id="a3",
            parts=[
                Part(TOOL_CALL, id="same", name="mcp.server/tool", input={"a": 1}),
                Part(TOOL_CALL, id="same", name="", input=[1, 2]),
                Part(TOOL_CALL, id="x" * 80, name="never_answered", input=None),
            ],
        ),
        Message(role="tool", id="a4", parts=[Part(TOOL_RESULT, call_id="same", output=long_output)]),
        Message(
            role="tool",
            id="a5",
            parts=[Part(TOOL_RESULT, call_id="same", output=""), Part(IMAGE, ref="k#r/0", media_type="image/png")],
        ),
        Message(role="user", content="see", id="a6", parts=[Part(TEXT, text="see"), Part(IMAGE, ref="k#r/1")]),
        Message(role="assistant", id="a7", parts=[Part(THINKING, text="only thought")]),
        Message(role="user", content="", id="a8"),
        Message(role="assistant", content="of a subagent", id="a9", aside=True),
        Message(role="assistant", content="cut off", id="b1", partial=True),
        Message(role="assistant", content="broken \ud800 half", id="b2"),
    ]

    written = write(tmp_path, conversation)

    assert written.changed == {
        "subagent message left out": 1,
        "interrupted reply left out": 1,
        "invalid Unicode character replaced": 1,
        "tool call id changed": 2,
        "system message sent as a user message": 1,
        "tool result without a call turned into text": 1,
        "tool name changed": 2,
        "tool input wrapped in an object": 1,
        "placeholder added for a missing tool result": 1,
        "image replaced by a text note": 2,
        "thinking left out": 1,
        "empty message left out": 1,
    }
    assert Codex(home=str(tmp_path)).preview(conversation).changed == written.changed
    messages, _ = read(Path(written.path))
    kept = [message for message in conversation if message.id not in ("a7", "a8", "a9", "b1", "b2")]
    assert messages[:-1] == kept
    assert messages[-1].content == "broken \ufffd half"

    sent = items(written.path)
    sent_texts = [content["text"] for item in sent if item["type"] == "message" for content in item["content"]]
    assert sent_texts[0].startswith("[system note") and sent_texts[0].endswith("\nBe kind.")
    assert "orphaned words" in sent_texts[1]
    assert {"[image: k#r/0, image/png]", "[image: k#r/1]"} <= set(sent_texts)
    calls = [item for item in sent if item["type"] == "function_call"]
    assert [call["name"] for call in calls] == ["mcp_server_tool", "tool", "never_answered"]
    assert [json.loads(call["arguments"]) for call in calls] == [{"a": 1}, {"input": [1, 2]}, {}]
    outputs = {item["call_id"]: item["output"] for item in sent if item["type"] == "function_call_output"}
    assert [outputs[call["call_id"]] for call in calls] == [long_output, "", NOT_RECORDED]
    lines = [json.loads(line) for line in Path(written.path).read_text(encoding="utf-8").split("\n") if line]
    (metadata,) = [line["metadata"] for line in lines if "metadata" in line]
    assert metadata["fallback_token_limit_override"] >= len(long_output)


def test_events_show_the_same_text_as_the_items(tmp_path: Path) -> None:
    written = write(tmp_path, CONVERSATION)

    lines = [json.loads(line) for line in Path(written.path).read_text(encoding="utf-8").split("\n") if line]

    assert [line["ordinal"] for line in lines] == list(range(len(lines)))
    events = [line["payload"] for line in lines if line["type"] == "event_msg"]
    kinds = [event["type"] for event in events]
    assert kinds.count("task_started") == kinds.count("task_complete") == 2
    shown = [event["item"] for event in events if event["type"] == "item_completed"]
    assert [item["content"][0]["text"] for item in shown] == [
        message.content for message in CONVERSATION if message.content
    ]


def test_a_thread_that_reads_back_differently_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = codex_write._lines
    monkeypatch.setattr(
        codex_write, "_lines", lambda *arguments: [line for line in lines(*arguments) if b"green" not in line]
    )

    with pytest.raises(DamagedData, match="is different"):
        write(tmp_path, CONVERSATION)

    assert list(Codex(home=str(tmp_path)).transcripts()) == []


def test_a_conversation_without_text_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to write"):
        write(tmp_path, [Message(role="user", content="", id="m1")])


@pytest.mark.req("TOOL-03")
def test_only_messages_added_to_a_written_thread_are_new(tmp_path: Path) -> None:
    written = write(tmp_path, CONVERSATION)
    path = Path(written.path)
    _, reading = read(path)
    more = everyday()
    path.write_bytes(path.read_bytes() + b"".join(line + b"\n" for line in more.lines[1:]))

    messages, _ = read(path, reading.cursor)

    assert len(messages) == 9
    assert messages[0].content.startswith("Read note.txt")


texts = st.text(st.characters(codec="utf-8"), max_size=30)
names = st.sampled_from(["Bash", "read_file", "mcp__x__y", "odd.name/é", ""])
ids = st.sampled_from(["c1", "c2", "c3", "", "ü" * 3, "c1/2"])
inputs = (
    st.none() | texts | st.dictionaries(texts, st.integers() | texts | st.none(), max_size=3) | st.lists(st.integers())
)
parts = st.one_of(
    st.builds(Part, st.just(TEXT), text=texts),
    st.builds(Part, st.just(THINKING), text=texts),
    st.builds(Part, st.just(TOOL_CALL), id=ids, name=names, input=inputs),
    st.builds(Part, st.just(TOOL_RESULT), call_id=ids, name=names, output=texts, is_error=st.booleans()),
    st.builds(Part, st.just(IMAGE), ref=texts.filter(bool), media_type=st.just("image/png")),
)
conversations = st.lists(
    st.builds(
        Message,
        role=st.sampled_from(["user", "assistant", "tool", "system"]),
        content=texts,
        parts=st.none() | st.lists(parts, min_size=1, max_size=4),
        timestamp=st.sampled_from(["", "2026-11-01T10:00:00.000Z", "2026-11-01T10:00:00Z", "yesterday"]),
        model=st.sampled_from(["", "gemini-3.8-flash"]),
        tokens=st.none() | st.integers(0, 9),
    ),
    min_size=1,
    max_size=8,
)


@given(conversations)
@pytest.mark.req("SESS-004d", "STORE-13")
def test_any_conversation_survives_the_round_trip(
    tmp_path_factory: pytest.TempPathFactory, conversation: list[Message]
) -> None:
    for number, message in enumerate(conversation):
        message.id = f"m{number}"
    rendering = Rendering(conversation)
    if not rendering.messages:
        return
    home = tmp_path_factory.mktemp("home")

    written = write(home, conversation)

    messages, _ = read(Path(written.path))
    assert messages == rendering.messages
    calls_of_answers = [message.parts_of(TOOL_CALL) for message in conversation if message.role == ASSISTANT]
    assert written.tool_calls == sum(map(len, calls_of_answers))
    sent = items(written.path)
    calls = [item["call_id"] for item in sent if item["type"].endswith("_call")]
    results = [item["call_id"] for item in sent if item["type"].endswith("_output")]
    assert sorted(calls) == sorted(results) and len(set(calls)) == len(calls)
    everything = json.dumps(sent, ensure_ascii=False)
    for message in messages:
        for part in message.parts or [Part(TEXT, text=message.content)]:
            if part.type in (TEXT, TOOL_RESULT):
                assert json.dumps(part.text or part.output, ensure_ascii=False)[1:-1] in everything
