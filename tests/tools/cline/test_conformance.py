"""Cline, Roo Code and Kilo Code: the suite of all adapters, in several editors, with native calls and calls in tags."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cortext.model.message import Message
from cortext.testing import ReaderConformance, Samples
from cortext.tools.base import Counts
from cortext.tools.cline.adapter import Cline, Kilo, Roo

pytestmark = pytest.mark.req("TOOL-03", "TOOL-04", "TOOL-07")

KEY = "1793606400000"
PROJECT = "/work/pond"
TOLD = f"<environment_details>\n# Current Working Directory ({PROJECT}) Files\nreeds.txt\n</environment_details>"


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


HISTORY: tuple[dict[str, Any], ...] = (
    {"role": "user", "content": [text("<task>\nHow many herons? 答え\n</task>"), text(TOLD)], "ts": 1793606400000},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Count them.", "signature": "s"},
            {"type": "redacted_thinking", "data": "x"},
            text("Let me look."),
            {"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": {"path": "reeds.txt"}},
        ],
        "ts": 1793606401000,
        "modelInfo": {"modelId": "claude-sonnet-4.5", "providerId": "anthropic"},
    },
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "toolu_1",
                "content": [text("heron heron"), {"type": "image", "source": {"media_type": "image/png"}}],
            },
            text(TOLD),
        ],
    },
    {
        "role": "assistant",
        "content": [text("Now the list.\n<execute_command>\n<command>ls</command>\n</execute_command>")],
    },
    {"role": "user", "content": [text("[execute_command for 'ls'] Result:"), text("reeds.txt"), text(TOLD)]},
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "toolu_2", "name": "attempt_completion", "input": {"result": "Two."}}],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "toolu_2", "content": "<feedback>\nAnd storks?\n</feedback>"},
            {"type": "document", "title": "storks.pdf", "source": {"media_type": "application/pdf"}},
        ],
    },
    {"role": "assistant", "content": "No storks."},
)
SHOWN = [
    {"ts": 1793606400001, "type": "say", "say": "task", "text": "How many herons?"},
    {"ts": 1793606402000, "type": "say", "say": "text", "text": "x", "conversationHistoryIndex": 2},
]


class ClineSamples(Samples):
    project = PROJECT
    records = len(HISTORY)
    messages = (
        ("user", "How many herons? 答え"),
        ("assistant", "Let me look."),
        ("tool", "heron heron"),
        ("user", ""),
        ("assistant", "Now the list."),
        ("tool", "reeds.txt"),
        ("assistant", "Two."),
        ("user", "And storks?"),
        ("assistant", "No storks."),
    )
    unknown = (b'{"role": "oracle", "content": "?"}', b"{}", b'{"role": "user", "content": [{"type": "hologram"}]}')
    broken = (b'{"role": "user", "content": 7.5e999}',)
    folder = f".config/Code/User/globalStorage/saoudrizwan.claude-dev/tasks/{KEY}"
    kind: type[Cline] = Cline

    def tool(self, home: Path) -> Cline:
        return self.kind(str(home), {})

    def save(self, home: Path, records: int | None = None) -> None:
        self._save(home, [json.dumps(record).encode() for record in HISTORY[:records]])

    def save_with(self, home: Path, index: int, record: bytes) -> None:
        records = [json.dumps(item).encode() for item in HISTORY]
        self._save(home, [*records[:index], record, *records[index:]])

    def _save(self, home: Path, records: list[bytes]) -> None:
        folder = home / self.folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "api_conversation_history.json").write_bytes(b"[" + b",".join(records) + b"]")
        (folder / "ui_messages.json").write_text(json.dumps(SHOWN))
        (folder / "task_metadata.json").write_text("{}")


class TestCline(ReaderConformance):
    samples = ClineSamples()


class RooSamples(ClineSamples):
    folder = f"Library/Application Support/Code - Insiders/User/globalStorage/rooveterinaryinc.roo-cline/tasks/{KEY}"
    kind = Roo

    def _save(self, home: Path, records: list[bytes]) -> None:
        super()._save(home, records)
        item = {"id": KEY, "number": 1, "ts": 1, "task": "Herons", "workspace": PROJECT}
        (home / self.folder / "history_item.json").write_text(json.dumps(item))


class TestRoo(ReaderConformance):
    samples = RooSamples()


class KiloSamples(ClineSamples):
    folder = f".vscode-server/data/User/globalStorage/kilocode.Kilo-Code/tasks/{KEY}"
    kind = Kilo


class TestKilo(ReaderConformance):
    samples = KiloSamples()


class SessionSamples(ClineSamples):
    """The sessions of newer versions of Cline."""

    folder = ".cline/data/sessions/1793606400000_abc"
    key = "1793606400000_abc"

    def _save(self, home: Path, records: list[bytes]) -> None:
        folder = home / self.folder
        folder.mkdir(parents=True, exist_ok=True)
        document = b'{"version": 1, "messages": [' + b",".join(records) + b"]}"
        (folder / f"{self.key}.messages.json").write_bytes(document)
        manifest = {"version": 1, "session_id": self.key, "started_at": "2026-11-02T08:00:00Z", "cwd": PROJECT}
        (folder / f"{self.key}.json").write_text(json.dumps({**manifest, "model": "m", "prompt": "Herons"}))


class TestClineSessions(ReaderConformance):
    samples = SessionSamples()


def read(tool: Cline) -> tuple[list[Message], Counts]:
    (found,) = tool.transcripts()
    reading = tool.read(found)
    return list(reading), reading.counts


def test_calls_results_and_times_are_read(tmp_path: Path) -> None:
    samples = ClineSamples()
    samples.save(tmp_path)

    messages, counts = read(samples.tool(tmp_path))

    calls = [part for message in messages for part in message.parts_of("tool_call")]
    results = [part for message in messages for part in message.parts_of("tool_result")]
    assert [(call.name, call.input) for call in calls] == [
        ("read_file", {"path": "reeds.txt"}),
        ("execute_command", {"command": "ls"}),
    ]
    assert [(result.call_id, result.name) for result in results] == [(call.id, call.name) for call in calls]
    assert [message.timestamp[:19] for message in messages[:3]] == [f"2026-11-02T08:00:0{n}" for n in (0, 1, 2)]
    assert messages[1].model == "claude-sonnet-4.5"
    assert counts.skipped == {"text of the tool itself": 2, "redacted_thinking": 1}


def test_what_was_shown_is_read_if_nothing_else_is_left(tmp_path: Path) -> None:
    folder = tmp_path / ClineSamples.folder
    folder.mkdir(parents=True)
    shown = [
        {"ts": 1, "type": "say", "say": "text", "text": "Count the herons"},
        {"ts": 2, "type": "say", "say": "api_req_started", "text": "{}"},
        {"ts": 3, "type": "ask", "ask": "followup", "text": '{"question": "Which pond?", "options": []}'},
        {"ts": 4, "type": "say", "say": "user_feedback", "text": "The big one"},
        {"ts": 5, "type": "say", "say": "completion_result", "text": "Two."},
        {"ts": 6},
    ]
    (folder / "ui_messages.json").write_text(json.dumps(shown))

    messages, counts = read(Cline(str(tmp_path), {}))

    assert [(message.role, message.text) for message in messages] == [
        ("user", "Count the herons"),
        ("assistant", "Which pond?"),
        ("user", "The big one"),
        ("assistant", "Two."),
    ]
    assert (counts.skipped, counts.unknown) == ({"api_req_started": 1}, {"without kind": 1})


def test_the_summary_of_a_condensed_task_is_its_summary(tmp_path: Path) -> None:
    folder = tmp_path / RooSamples.folder
    folder.mkdir(parents=True)
    history = [
        {"role": "user", "content": "<user_message>\nHi\n</user_message>", "condenseParent": "c1"},
        {"role": "user", "content": [text("We said hi.")], "isSummary": True, "condenseId": "c1"},
        {"role": "assistant", "content": "Hello.", "reasoning_content": "Greet."},
    ]
    (folder / "api_conversation_history.json").write_text(json.dumps(history))
    tool = Roo(str(tmp_path), {})
    (found,) = tool.transcripts()
    reading = tool.read(found)

    messages = list(reading)

    assert [message.text for message in messages] == ["Hi", "Hello."]
    assert reading.about.summary == "We said hi."
    assert messages[1].parts_of("thinking")[0].text == "Greet."


def test_a_task_in_a_backup_belongs_to_the_extension_in_its_path(tmp_path: Path) -> None:
    RooSamples().save(tmp_path / "backup")
    path = str(tmp_path / "backup" / RooSamples.folder / "api_conversation_history.json")

    found = Roo("/nowhere", {}).transcript_at(path)

    assert found is not None and (found.key, found.project) == (KEY, PROJECT)
    assert Cline("/nowhere", {}).transcript_at(path) is None
    assert Roo("/nowhere", {}).transcript_at(path.replace("api_conversation_history", "ui_messages")) is None


def test_the_version_is_that_of_the_extension(tmp_path: Path) -> None:
    (tmp_path / ".vscode/extensions/saoudrizwan.claude-dev-3.38.1").mkdir(parents=True)

    found = Cline(str(tmp_path), {}).detect()

    assert found is not None and (found.version, found.tested) == ("3.38.1", False)
    assert Roo(str(tmp_path), {}).detect() is None


def test_a_project_with_half_a_character_in_its_name_is_copied(tmp_path: Path) -> None:
    samples = RooSamples()
    samples.save(tmp_path)
    (tmp_path / samples.folder / "history_item.json").write_text('{"workspace": "/work/\\ud800"}')
    tool = samples.tool(tmp_path)
    (found,) = tool.transcripts()

    tool.copy(found, str(tmp_path / "native"))

    copied = tool.transcript_at(str(tmp_path / "native"))
    assert copied is not None and copied.project == "/work/\ufffd"
