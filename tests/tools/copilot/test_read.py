"""What a session of Copilot says besides its messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.tools.copilot import samples

from cortext.model.message import Message
from cortext.tools.base import Transcript
from cortext.tools.copilot.adapter import Copilot
from cortext.tools.copilot.read import CopilotReading, title_beside

pytestmark = pytest.mark.req("TOOL-03", "SESS-001d", "STORE-13")


def _save(home: Path, *lines: bytes) -> Path:
    path = home / ".copilot/session-state" / samples.KEY / "events.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def _read(path: Path, cursor: dict[str, Any] | None = None) -> tuple[CopilotReading, list[Message]]:
    reading = CopilotReading(Transcript(tool="copilot", key=samples.KEY, path=str(path)), cursor)
    return reading, list(reading)


def test_the_metadata_is_read(tmp_path: Path) -> None:
    path = _save(tmp_path, *samples.LINES)
    (path.parent / "workspace.yaml").write_text("id: x\nname: 'Herons: it''s time'\n", encoding="utf-8")

    reading, messages = _read(path)

    about = reading.about
    assert (about.title, about.model, about.command) == ("Herons: it's time", "test-model", "/workspace.plan")
    assert (about.created_at, about.tools) == ("2026-11-17T12:42:00.000Z", ["bash", "view"])
    prompt, answer, read, failed, aside, last, _ = messages
    assert [part.ref for part in prompt.parts_of("image")] == ["/work/pond/heron.png"]
    assert [part.type for part in answer.parts or ()] == ["thinking", "text", "tool_call", "tool_call"]
    assert (answer.tokens, answer.usage) == (5, {"inputTokens": 10, "outputTokens": 5, "cacheReadTokens": 2})
    assert [(part.name, part.is_error) for item in (read, failed) for part in item.parts or ()] == [
        ("bash", False),
        ("view", True),
    ]
    assert [message.aside for message in messages] == [False, False, False, False, True, False, False]
    assert (aside.usage, last.tokens) == (None, 7), "the usage of a request is that of its answer"


def test_a_reading_with_a_cursor_knows_what_earlier_events_said(tmp_path: Path) -> None:
    path = _save(tmp_path, *samples.LINES)
    reading, complete = _read(path)
    assert reading.about.notes >= 1, "the text of a skill is counted"
    for count in range(1, len(samples.LINES)):
        first, before = _read(_save(tmp_path, *samples.LINES[:count]))
        rest, after = _read(_save(tmp_path, *samples.LINES), json.loads(json.dumps(first.cursor)))
        assert before + after == complete, f"after {count} events"
        assert (rest.about.model, rest.about.command) == ("test-model", "/workspace.plan")
        assert rest.about.notes == reading.about.notes


def test_our_context_block_is_not_taken_for_the_users_words(tmp_path: Path) -> None:
    block = {"content": "[RESUMED CONVERSATION]\nGo on.\n[END RESUMED CONTEXT]"}

    _, messages = _read(_save(tmp_path, samples.LINES[0], samples.event(1, "user.message", block)))

    assert [(message.aside, message.extra) for message in messages] == [(True, {"resume_block": True})]


@pytest.mark.parametrize(
    ("event", "data"),
    [
        ("session.compaction_complete", {"success": True, "summaryContent": "They talked about herons."}),
        ("session.context_cleared", {"messagesCleared": 4}),
        ("session.truncation", {"messagesRemovedDuringTruncation": 2}),
    ],
)
def test_what_a_shortened_session_sends_is_unknown(tmp_path: Path, event: str, data: dict[str, Any]) -> None:
    path = _save(tmp_path, *samples.LINES, samples.event(40, event, data))
    tool = Copilot(home=str(tmp_path), environ={})
    (transcript,) = tool.transcripts()

    reading, messages = _read(path)

    assert tool.withheld(transcript) is None
    assert len(messages) == len(samples.MESSAGES)
    assert reading.about.summary == data.get("summaryContent", "")
    _save(tmp_path, *samples.LINES, samples.event(40, "session.compaction_complete", {"success": False}))
    assert tool.withheld(transcript) is not None


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("name: Plain words", "Plain words"),
        ("name: 'It''s: quoted'", "It's: quoted"),
        (r'name: "a \"b\" \u00e9"', 'a "b" é'),
        ("name: |", ""),
        ("other: x", ""),
    ],
)
def test_the_title_is_the_name_beside_the_events(tmp_path: Path, line: str, title: str) -> None:
    (tmp_path / "workspace.yaml").write_text(f"id: x\n{line}\nuser_named: false\n", encoding="utf-8")

    assert title_beside(str(tmp_path / "events.jsonl")) == title


def test_the_prompt_of_a_skill_is_a_command(tmp_path: Path) -> None:
    tool = Copilot(home=str(tmp_path), environ={})
    payload = {"hook_event_name": "UserPromptSubmit", "session_id": samples.KEY, "cwd": "/work/pond"}
    expanded = (
        'The user explicitly invoked the "/workspace.plan" skill. Follow its instructions now.\n\n<skill-context>\n'
        "<command-name>/workspace.plan</command-name>\n<command-args>the herons</command-args>\n\nPlan it.\n"
    )
    for prompt in (expanded, "/workspace.plan the herons"):
        event = tool.hook_event({**payload, "prompt": prompt})
        assert event is not None
        assert (event.kind, event.command, event.arguments) == ("command", "workspace.plan", "the herons")
    started = tool.hook_event({**payload, "prompt": "[RESUMED CONVERSATION]\nGo on."})
    assert started is not None and started.kind == "started"


@pytest.mark.parametrize("name", ["h/.copilot/settings.json", "p/.github/copilot/settings.json"])
def test_hooks_that_are_turned_off_are_reported(tmp_path: Path, name: str) -> None:
    (tmp_path / "p").mkdir()
    tool = Copilot(home=str(tmp_path / "h"), environ={})
    assert tool.hooks_off(str(tmp_path / "p")) == []
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text('{"disableAllHooks": true}', encoding="utf-8")

    ((reason, _),) = tool.hooks_off(str(tmp_path / "p"))

    assert str(tmp_path / name) in reason
