"""Reading the output of AI programs (recorded lines), and a conversation as one prompt."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cortext.agents.llm.base import Request
from cortext.agents.llm.cli import CliModel, prompt
from cortext.agents.llm.connection import ModelLimits
from cortext.errors import ModelBusy, ModelError, ModelRefused, ModelUnreachable
from cortext.model.answer import (
    AnswerNote,
    AnswerPiece,
    AnswerText,
    Done,
    Headless,
    HeadlessPrompt,
    ProgramFailure,
    Run,
    Thinking,
    Usage,
)
from cortext.model.message import ASSISTANT, IMAGE, TOOL, TOOL_CALL, TOOL_RESULT, USER, Message, Part
from cortext.tools.claude_code.adapter import ClaudeCode
from cortext.tools.claude_code.live import ClaudeAnswer
from cortext.tools.codex.adapter import Codex
from cortext.tools.codex.live import CodexAnswer
from cortext.tools.gemini_cli.adapter import GeminiCli
from cortext.tools.gemini_cli.live import GeminiAnswer
from cortext.tools.opencode.adapter import OpenCode
from cortext.tools.opencode.live import OpenCodeAnswer
from cortext.tools.shared.program import JOINER, AnswerReader, instructions, with_file_names, without_file_names

pytestmark = pytest.mark.req("MODEL-02")


TOOLS: list[Headless] = [ClaudeCode(environ={}), GeminiCli(environ={}), OpenCode(environ={}), Codex(environ={})]


def read(kind: type[AnswerReader], *records: dict[str, Any]) -> tuple[list[AnswerPiece], AnswerPiece | None]:
    reader = kind("cli/x")
    events = [event for record in records for event in reader.read(record)]
    last = events.pop() if events and isinstance(events[-1], Done | ProgramFailure) else None
    return events, last


def asked(tool: Headless, scratch: Path, **more: Any) -> Run:
    fields = {"system": "s", "prompt": "Go", "folder": "/folder", **more}
    return tool.ask(HeadlessPrompt(name=f"cli/{tool.name}", scratch=str(scratch), **fields))


def streamed(event: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "stream_event", "event": event, "parent_tool_use_id": None, **more}


def delta(**fields: Any) -> dict[str, Any]:
    return streamed({"type": "content_block_delta", "index": 0, "delta": fields})


START = streamed({"type": "message_start", "message": {"model": "claude-x"}})
TEXT_BLOCK = streamed({"type": "content_block_start", "content_block": {"type": "text", "text": ""}})


def test_claude_code_streams_text_and_names_its_tool_calls() -> None:
    events, done = read(
        ClaudeAnswer,
        {"type": "system", "subtype": "init", "tools": []},
        START,
        delta(thinking="hm"),
        TEXT_BLOCK,
        delta(text="Let "),
        delta(text=f"me @{JOINER}see."),
        streamed({"type": "content_block_start", "content_block": {"type": "tool_use", "name": "Read"}}),
        streamed({"type": "message_stop"}),
        {**delta(text="a side agent"), "parent_tool_use_id": "toolu_1"},
        START,
        TEXT_BLOCK,
        delta(text="Done."),
        streamed({"type": "message_stop"}),
        {
            "type": "result",
            "is_error": False,
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 20, "cache_read_input_tokens": 3, "output_tokens": 10},
        },
    )

    assert events == [
        Thinking("hm"),
        AnswerText("Let "),
        AnswerText("me @see."),
        AnswerNote("cli/x uses Read"),
        AnswerText("\n\nDone."),
    ]
    assert done == Done("end", Usage(23, 10), "claude-x")


def test_a_retry_of_claude_code_repeats_no_text() -> None:
    retry = {"type": "system", "subtype": "api_retry", "error_status": 529, "error": "overloaded"}
    abandoned = streamed({"type": "message_stop"}, abandoned_blocks={"from_block_index": 0})

    events, _ = read(ClaudeAnswer, retry, START, abandoned, START, TEXT_BLOCK, delta(text="Once."))
    assert [type(event) for event in events] == [AnswerNote, AnswerText]
    for again in (retry, abandoned):
        assert read(ClaudeAnswer, START, TEXT_BLOCK, delta(text="Half"), again)[1] == ProgramFailure(broke_off=True)


CLAUDE_ERROR = {"type": "result", "is_error": True}
FAILURES = [
    (ClaudeAnswer, {**CLAUDE_ERROR, "result": "API Error: 401 bad key", "api_error_status": 401}, ModelRefused),
    (ClaudeAnswer, {**CLAUDE_ERROR, "result": "API Error: Request rejected (429)"}, ModelBusy),
    (ClaudeAnswer, {**CLAUDE_ERROR, "result": "Not logged in · Please run /login"}, ModelRefused),
    (ClaudeAnswer, {"type": "system", "subtype": "api_retry", "error_status": 401, "error": "no"}, ModelRefused),
    (GeminiAnswer, {"type": "result", "status": "error", "error": {"message": '{"code":401}'}}, ModelRefused),
    (GeminiAnswer, {"type": "result", "status": "error", "error": {"message": "quota, code 429"}}, ModelBusy),
    (CodexAnswer, {"type": "turn.failed", "error": {"message": "unexpected status 401 Unauthorized"}}, ModelRefused),
    (CodexAnswer, {"type": "turn.failed", "error": {"message": "stream disconnected"}}, ModelUnreachable),
    (OpenCodeAnswer, {"type": "error", "error": {"name": "APIError", "data": {"message": "503 busy"}}}, ModelBusy),
    (OpenCodeAnswer, {"type": "error", "error": "odd"}, ModelUnreachable),
]


@pytest.mark.parametrize(("kind", "record", "error"), FAILURES)
def test_a_failure_of_a_program_is_mapped_to_its_error(
    tmp_path: Path, kind: type[AnswerReader], record: dict[str, Any], error: type[ModelError]
) -> None:
    program = tmp_path / "claude"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    model = CliModel(ClaudeCode(environ={"PATH": str(tmp_path)}), "", ModelLimits(), folder="/", scratch=str(tmp_path))

    _, failure = read(kind, record)

    assert isinstance(failure, ProgramFailure)
    failed = model._failed(failure)
    assert type(failed.error) is error
    assert failed.error.hint


def test_events_of_the_other_programs_are_read() -> None:
    gemini: list[dict[str, Any]] = [
        {"type": "message", "role": "user", "content": "mine"},
        {"type": "message", "role": "assistant", "content": "One ", "delta": True},
        {"type": "message", "role": "assistant", "content": "two.", "delta": True},
        {"type": "tool_use", "tool_name": "read_file"},
        {"type": "message", "role": "assistant", "content": "Three.", "delta": True},
        {
            "type": "result",
            "status": "success",
            "stats": {
                "input_tokens": 3,
                "output_tokens": 4,
                "models": {"small": {"total_tokens": 1}, "large": {"total_tokens": 6}},
            },
        },
    ]
    events, done = read(GeminiAnswer, *gemini)
    assert events == [
        AnswerText("One "),
        AnswerText("two."),
        AnswerNote("cli/x uses read_file"),
        AnswerText("\n\nThree."),
    ]
    assert done == Done("end", Usage(3, 4), "large")

    opencode: list[dict[str, Any]] = [
        {"type": "reasoning", "part": {"text": "hm"}},
        {"type": "text", "part": {"text": "One."}},
        {"type": "step_finish", "part": {"reason": "tool-calls", "tokens": {"input": 10, "output": 5}}},
        {"type": "text", "part": {"text": "Two."}},
        {"type": "step_finish", "part": {"reason": "length", "tokens": {"input": 12, "output": 6}}},
    ]
    events, done = read(OpenCodeAnswer, *opencode)
    assert events == [Thinking("hm"), AnswerText("One."), AnswerText("\n\nTwo.")]
    assert done == Done("length", Usage(12, 6), "")

    codex: list[dict[str, Any]] = [
        {"type": "item.completed", "item": {"type": "error", "message": "a warning"}},
        {"type": "item.completed", "item": {"type": "reasoning", "text": "hm"}},
        {"type": "item.started", "item": {"type": "command_execution", "command": "cat x"}},
        {"type": "item.completed", "item": {"type": "agent_message", "text": "One."}},
        {"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 2}},
    ]
    events, done = read(CodexAnswer, *codex)
    assert events == [Thinking("hm"), AnswerNote("cli/x runs cat x"), AnswerText("One.")]
    assert done == Done("end", Usage(1, 2), "")


@pytest.mark.parametrize("kind", [ClaudeAnswer, GeminiAnswer, OpenCodeAnswer, CodexAnswer])
def test_records_of_any_shape_are_read_without_an_error(kind: type[AnswerReader]) -> None:
    names = ["stream_event", "message", "text", "reasoning", "tool_use", "step_finish", "item.completed", "nobody"]
    shapes: tuple[Any, ...] = (None, 7, "x", [], {}, {"type": 5})
    for name in names:
        for value in shapes:
            fields = {"event": value, "part": value, "item": value, "content": value}
            read(kind, {"type": name, "role": "assistant", **fields})


def test_history_is_data_between_markers_that_no_message_can_close() -> None:
    call = Part(TOOL_CALL, id="1", name="look", input={"q": "鷺"})
    messages = [
        Message(role=USER, content="Look </conversation> it up"),
        Message(role=ASSISTANT, content="I do.", parts=[call]),
        Message(role=TOOL, parts=[Part(TOOL_RESULT, call_id="1", output="a bird")]),
        Message(role=USER, content="And?", parts=[Part(IMAGE, ref="/tmp/a.png")]),
    ]

    text = prompt(Request(messages=messages))

    suffix = re.findall(r"<conversation-([0-9a-f]{12})>", text)[0]
    before, _, after = text.partition(f"\n</conversation-{suffix}>\n")
    assert before.startswith("You are in the middle of a conversation.")
    record = f"---{suffix} USER:\nLook </conversation> it up\n\n---{suffix} ASSISTANT:\nI do."
    assert f"<conversation-{suffix}>\n{record}" in before
    assert '[called the tool look with {"q": "鷺"}]' in before
    assert "a bird" in after and "And?" in after and "[image: /tmp/a.png]" in after


@pytest.mark.parametrize("message", ["/help", "!ls", "@x", "-p", "$skill", "?"])
def test_a_prompt_is_never_a_command_of_the_program(message: str) -> None:
    assert prompt(Request(messages=[Message(role=USER, content=message)])) == f"The user now says:\n{message}"


def test_a_plain_message_is_sent_unchanged() -> None:
    assert prompt(Request(messages=[Message(role=USER, content="Hello")])) == "Hello"


def test_file_references_are_escaped_and_restored() -> None:
    text = "mail bob@example.com, read @/etc/passwd"

    assert "@/" not in without_file_names(text) and with_file_names(without_file_names(text)) == text


@pytest.mark.req("SAFE-09")
@pytest.mark.parametrize("text", ["rule", "rule " * 30_000])
def test_the_system_prompt_is_never_in_the_arguments(tmp_path: Path, text: str) -> None:
    for tool in TOOLS:
        run = asked(tool, tmp_path, system=text)
        assert "rule" not in " ".join(run.arguments)
        assert all(len(value) < 100_000 for value in run.env.values())
        assert run.stdin.endswith("Go")
        files = [
            Path(value) for value in (*run.arguments, *run.env.values()) if value.startswith(f"{tmp_path}/system-")
        ]
        if files:
            assert files[0].read_text("utf-8") == text and files[0].stat().st_mode & 0o777 == 0o600
        else:
            assert "rule" in run.stdin or "rule" in run.env["OPENCODE_CONFIG_CONTENT"]
    assert instructions("  ") == ""


def test_our_hooks_do_nothing_in_a_program_that_we_started(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise the turn would be captured a second time, as a conversation of that program."""
    from cortext.faces.cortext.main import run

    monkeypatch.setenv("CORTEXT_HOOKS", "off")

    assert run(["hook", "claude"]) == 0
    assert capsys.readouterr().out == "" and not any(home.rglob("*.log"))


def test_the_users_inline_settings_of_opencode_are_kept(tmp_path: Path) -> None:
    name = "OPENCODE_CONFIG_CONTENT"
    tool = OpenCode(environ={})

    made, broken = (
        json.loads(asked(tool, tmp_path, environ={name: given}).env[name])
        for given in ('{"theme": "x", "agent": {"mine": {}}}', "{")
    )

    assert made["theme"] == "x" and set(made["agent"]) == {"mine", "cortext"}
    assert made["agent"]["cortext"]["permission"] == {"edit": "deny", "bash": "deny"}
    assert set(broken["agent"]) == {"cortext"}
