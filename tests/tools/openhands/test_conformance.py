"""OpenHands CLI: the suite of all adapters, with a conversation of every kind of event."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from cortext.model.message import BEGINNING, Message
from cortext.model.threads import thread
from cortext.testing import ReaderConformance, Samples
from cortext.tools.openhands.adapter import OpenHands

pytestmark = pytest.mark.req("TOOL-03", "TOOL-04", "TOOL-07")

KEY = "0123456789abcdef0123456789abcdef"
PROJECT = "/work/pond"


def event(kind: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "timestamp": "2026-11-02T08:00:00.123456", "kind": kind, **fields}


def text(words: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": words, "cache_prompt": False}]


def message(name: str, source: str, words: str, **more: Any) -> dict[str, Any]:
    role = "user" if source == "user" else "assistant"
    return event("MessageEvent", name, source=source, llm_message={"role": role, "content": text(words), **more})


def action(name: str, call: str, tool: str, arguments: str, words: str = "", **more: Any) -> dict[str, Any]:
    called = {"id": call, "name": tool, "arguments": arguments, "origin": "completion"}
    thought = text(words) if words else []
    return event(
        "ActionEvent",
        name,
        source="agent",
        thought=thought,
        tool_name=tool,
        tool_call_id=call,
        tool_call=called,
        **more,
    )


def observed(name: str, call: str, tool: str, words: str, failed: bool = False) -> dict[str, Any]:
    seen = {"kind": "TerminalObservation", "content": text(words), "is_error": failed}
    return event("ObservationEvent", name, source="environment", tool_name=tool, tool_call_id=call, observation=seen)


EVENTS: tuple[dict[str, Any], ...] = (
    event("SystemPromptEvent", "s", source="agent", system_prompt=text("You are OpenHands")[0], tools=[]),
    message("u1", "user", "How many herons? 答え"),
    event("ConversationStateUpdateEvent", "st", source="environment", key="execution_status", value="running"),
    action("a1", "call_1", "terminal", '{"command": "ls"}', "Let me look.", reasoning_content="Count them."),
    observed("o1", "call_1", "terminal", "heron heron"),
    action("a2", "call_2", "file_editor", "not JSON"),
    event("AgentErrorEvent", "e1", source="agent", tool_name="file_editor", tool_call_id="call_2", error="bad call"),
    action("a3", "call_3", "terminal", '{"command": "rm -r /"}'),
    event(
        "UserRejectObservation",
        "r1",
        source="environment",
        tool_name="terminal",
        tool_call_id="call_3",
        rejection_reason="no",
    ),
    event(
        "ACPToolCallEvent",
        "p1",
        source="agent",
        tool_call_id="call_4",
        title="Read reeds",
        raw_input={"path": "x"},
        raw_output="reeds",
        is_error=False,
    ),
    event("Condensation", "c1", source="environment", forgotten_event_ids=[], summary="They counted."),
    action("a4", "call_5", "finish", '{"message": "Two herons."}'),
    observed("o4", "call_5", "finish", "Two herons."),
    message("u2", "user", "And storks?"),
    message("a5", "agent", "No storks.", thinking_blocks=[{"type": "thinking", "thinking": "None."}]),
    event("PauseEvent", "z", source="user"),
)


class OpenHandsSamples(Samples):
    project = PROJECT
    records = len(EVENTS)
    messages = (
        ("user", "How many herons? 答え"),
        ("assistant", "Let me look."),
        ("tool", "heron heron"),
        ("assistant", ""),
        ("tool", "bad call"),
        ("assistant", ""),
        ("tool", "no"),
        ("assistant", ""),
        ("tool", "reeds"),
        ("assistant", "Two herons."),
        ("user", "And storks?"),
        ("assistant", "No storks."),
    )
    unknown = (b'{"id": "x", "kind": "HologramEvent"}', b"{}")
    broken = (b'{"id": "x", "kind": "MessageEvent", "source": "user"}',)

    def tool(self, home: Path) -> OpenHands:
        return OpenHands(str(home), {"PATH": "/nowhere"})

    def save(self, home: Path, records: int | None = None) -> None:
        self._save(home, [json.dumps(item).encode() for item in EVENTS[:records]])

    def save_with(self, home: Path, index: int, record: bytes) -> None:
        events = [json.dumps(item).encode() for item in EVENTS]
        self._save(home, [*events[:index], record, *events[index:]])

    def _save(self, home: Path, events: list[bytes]) -> None:
        folder = home / ".openhands/conversations" / KEY
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "events").mkdir(parents=True)
        state = {"id": KEY, "workspace": {"kind": "LocalWorkspace", "working_dir": PROJECT}, "agent": {"key": "secret"}}
        (folder / "base_state.json").write_text(json.dumps(state))
        for number, data in enumerate(events):
            (folder / "events" / f"event-{number:05}-{number:08x}.json").write_bytes(data)


class TestOpenHands(ReaderConformance):
    samples = OpenHandsSamples()


def read(home: Path) -> tuple[list[Message], Any]:
    tool = OpenHands(str(home), {})
    (found,) = tool.transcripts()
    reading = tool.read(found)
    return list(reading), reading


def test_calls_are_paired_and_the_settings_of_the_program_are_not_copied(tmp_path: Path) -> None:
    OpenHandsSamples().save(tmp_path)

    messages, reading = read(tmp_path)

    calls = [part for message in messages for part in message.parts_of("tool_call")]
    results = [part for message in messages for part in message.parts_of("tool_result")]
    assert [call.id for call in calls] == [result.call_id for result in results]
    assert [result.is_error for result in results] == [False, True, True, False]
    assert calls[0].input == {"command": "ls"}
    assert reading.about.summary == "They counted."
    assert messages[1].parts_of("thinking")[0].text == "Count them."
    assert messages[-1].parts_of("thinking")[0].text == "None."
    tool = OpenHands(str(tmp_path), {})
    tool.copy(next(tool.transcripts()), str(tmp_path / "native"))
    assert b"secret" not in (tmp_path / "native").read_bytes()


def test_a_time_without_a_zone_is_the_local_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC-2")
    time.tzset()
    try:
        OpenHandsSamples().save(tmp_path)
        messages, _ = read(tmp_path)
    finally:
        monkeypatch.undo()
        time.tzset()

    assert messages[0].timestamp == "2026-11-02T06:00:00.123Z"


def test_a_conversation_that_went_back_branches(tmp_path: Path) -> None:
    samples = OpenHandsSamples()
    events = [
        message("u1", "user", "One"),
        {**message("a1", "agent", "First"), "parent_id": "u1"},
        {**event("PauseEvent", "p", source="user"), "parent_id": "u1"},
        {**message("a2", "agent", "Second"), "parent_id": "p"},
        {**message("u2", "user", "Anew"), "parent_id": "__root__"},
    ]
    samples._save(tmp_path, [json.dumps(item).encode() for item in events])

    messages, _ = read(tmp_path)

    assert [message.parent for message in messages] == ["", "", "u1", BEGINNING]
    assert [message.text for message in thread(messages)] == ["Anew"]
