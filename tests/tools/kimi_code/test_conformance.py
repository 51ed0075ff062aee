"""The adapter for Kimi Code passes the conformance suite, with records as Kimi Code writes them."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest
from tests.support.cli import cortext

from cortext.errors import ConfigError
from cortext.model.message import BEGINNING
from cortext.testing import LineSamples, LineToolConformance
from cortext.tools.base import CommandFile, Hooks, Installer, NativeWriter, TranscriptReading
from cortext.tools.kimi_code.adapter import KimiCode
from cortext.tools.kimi_code.write import EVENTS

pytestmark = pytest.mark.req("LIB-02", "TOOL-03", "TOOL-04", "SESS-001d", "SESS-004d", "STORE-13")

KEY = "session_3b6c3574-908f-4aec-81ac-018d041716b4"
PROJECT = "/work/boats"
STATE = {"id": KEY, "version": 2, "cwd": PROJECT, "title": "Boats", "createdAt": 1794920472792}
WHEN = 1794920473000
USAGE = {"inputOther": 10, "output": 5, "inputCacheRead": 0, "inputCacheCreation": 0}
PICTURE = {"url": "data:image/png;base64,iVBORw0KGgo=", "name": "boat.png"}
Json = dict[str, Any]


def record(name: str, /, **fields: Any) -> Json:
    return {"type": name, "agentId": "main", **fields, "time": WHEN}


def said(text: str, key: str = "", *more: Json, **origin: Any) -> Json:
    """Return what the user, or Kimi Code in the user's name, said."""
    message: Json = {"role": "user", "content": [{"type": "text", "text": text}, *more], "toolCalls": []}
    message |= {"id": key} if key else {}
    return record("context.append_message", message={**message, "origin": {"kind": "user", **origin}})


def event(kind: str, step: str, /, **fields: Any) -> Json:
    return record("context.append_loop_event", event={"type": kind, "stepUuid": step, "turnId": "0", **fields})


def part(step: str, /, **fields: Any) -> Json:
    return event("content.part", step, uuid=f"{step}-part", part=fields)


def step(name: str, *events: Json) -> list[Json]:
    """Return one answer of the model."""
    return [
        event("step.begin", name, uuid=name),
        record("llm.request", kind="loop", model="test-model", modelAlias="__kimi_env_model__"),
        record("usage.record", model="__kimi_env_model__", usage=USAGE, usageScope="turn"),
        *events,
        event("step.end", name, uuid=name, finishReason="end_turn", usage=USAGE),
    ]


def called(name: str, key: str, arguments: Json) -> Json:
    return event("tool.call", name, uuid=f"{key}-call", toolCallId=key, name="Bash", args=arguments)


def result(name: str, key: str, output: Any, **fields: Any) -> Json:
    return event("tool.result", name, parentUuid=f"{key}-call", toolCallId=key, result={"output": output, **fields})


RECORDS: list[Json] = [
    {"type": "metadata", "protocol_version": "1.5", "created_at": WHEN},
    record("profile.bind", modelAlias="m", profileName="agent", systemPrompt="You are Kimi Code CLI."),
    record("turn.prompt", input=[{"type": "text", "text": "How many boats? 答え 🦤"}]),
    said("How many boats? 答え 🦤", "msg_1"),
    said("<system-reminder>\nToday\n</system-reminder>", kind="injection", variant="date_change"),
    *step(
        "s1",
        part("s1", type="think", think="Hm."),
        part("s1", type="text", text="Let me look."),
        called("s1", "c1", {"command": "ls"}),
        called("s1", "c2", {"command": "cat x"}),
        result("s1", "c1", "a green boat\n", durationMs=84),
        result("s1", "c2", [{"type": "text", "text": "no such file"}], isError=True),
    ),
    *step("s2", part("s2", type="text", text="One boat.")),
    said("And here?", "msg_2", {"type": "image_url", "imageUrl": PICTURE}),
    record("agent.message.appended", message={"message": {"role": "user", "content": []}, "meta": {}}, kind="event"),
    *step("s3", part("s3", type="text", text="Two.")),
    said("<skill>long text</skill>", kind="skill_activation", trigger="user-slash", skillName="tide", skillArgs="now"),
    said("ls", kind="shell_command", phase="input"),
    said("a b", kind="shell_command", phase="output"),
    said("loaded", kind="skill_activation", trigger="model-tool", skillName="tide"),
]
MESSAGES = (
    ("user", "How many boats? 答え 🦤"),
    ("assistant", "Let me look."),
    ("tool", "a green boat\n"),
    ("tool", "no such file"),
    ("assistant", "One boat."),
    ("user", "And here?"),
    ("assistant", "Two."),
    ("user", "/tide now"),
    ("user", "ls"),
    ("system", "a b"),
)


def log_path(home: Path) -> Path:
    return home / ".kimi-code/sessions/wd_boats_000000000000" / KEY / "agents/main/wire.jsonl"


def save(home: Path, records: list[Json]) -> Path:
    """Store a log where Kimi Code does, with the state of its session."""
    path = log_path(home)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in records), encoding="utf-8")
    (path.parents[2] / "state.json").write_text(json.dumps(STATE), encoding="utf-8")
    return path


class FullTool(NativeWriter, Installer, Hooks, Protocol):
    """What the adapter can do."""


class KimiSamples(LineSamples):
    project = PROJECT
    lines = tuple(json.dumps(line, ensure_ascii=False).encode() for line in RECORDS)
    messages = MESSAGES
    invalid_cursors = ({"main": 3}, {"main": {"offset": 5, "seen": "x"}}, {"main": {"offset": 10**9, "seen": "x"}})
    unknown = (
        b'{"type":"hologram","agentId":"main"}',
        b"{}",
        b'{"type":"context.append_message","message":{"role":"oracle","content":"x"}}',
        b'{"type":"context.append_message","message":{"role":"user","content":"x","origin":{"kind":"telepathy"}}}',
    )
    broken = (b'{"type":"context.append_message","message":{"role":"user","content":7}}',)
    settings = (
        {".kimi-code/mcp.json": '{"mcpServers": {"mine": {"command": "x"}}}', ".kimi-code/notes.md": "mine"},
        {".kimi-code/mcp.json": "{}"},
        {".kimi-code/mcp.json": '{\n  "mcpServers": {}\n}\n'},
        {".kimi-code/mcp.json": '{\r\n    "a": {"b": [1,2]}\r\n}\r\n'},
    )
    broken_settings = (
        *({".kimi-code/mcp.json": text} for text in ("{", "[]", '"text"')),
        {".kimi-code/mcp.json": '{"mcpServers": 1}'},
    )

    def tool(self, home: Path) -> FullTool:
        return KimiCode(home=str(home), environ={"PATH": "/nowhere"})

    def path(self, home: Path) -> Path:
        return log_path(home)

    def payloads(self, home: Path, project: Path) -> Sequence[tuple[str, Json]]:
        common = {"session_id": KEY, "cwd": str(project), "client_type": "kimi_code_cli"}
        skill = '<skill-loaded name="workspace-tide" trigger="user-slash" dir="/x" args="&lt;now&gt;">\nWhen is it?'
        events: list[tuple[str, Json]] = [
            ("started", {"hook_event_name": "SessionStart", "source": "startup"}),
            ("prompt", {"hook_event_name": "UserPromptSubmit", "prompt": [{"type": "text", "text": "And here?"}]}),
            ("command", {"hook_event_name": "TurnStarted", "origin_kind": "skill_activation", "prompt": skill}),
            ("answered", {"hook_event_name": "Stop", "stop_hook_active": False}),
            ("compacted", {"hook_event_name": "PostCompact", "trigger": "auto"}),
            ("ended", {"hook_event_name": "SessionEnd", "reason": "exit"}),
        ]
        return [(kind, {**common, **fields}) for kind, fields in events]

    def save_bytes(self, home: Path, data: bytes) -> Path:
        save(home, [])
        return super().save_bytes(home, data)


class TestKimiCode(LineToolConformance):
    samples = KimiSamples()

    def test_the_tool_is_started_in_the_project_with_that_session(self, writer: NativeWriter, project: Path) -> None:
        """Its screen takes no first prompt: what the model should know is in the session."""
        launch = writer.launch("session_1", project=str(project), prompt="-n is not an option", model="some/model")

        assert launch.cwd == str(project)
        assert launch.argv[1:] == ["-S", "session_1", "-m", "some/model"]


def read(home: Path, cursor: Json | None = None) -> tuple[TranscriptReading, list[Any]]:
    tool = KimiCode(home=str(home), environ={})
    (transcript,) = tool.transcripts()
    reading = tool.read(transcript, cursor)
    return reading, list(reading)


def test_title_model_tokens_and_tools_are_read(tmp_path: Path) -> None:
    save(tmp_path, RECORDS)
    reading, messages = read(tmp_path)
    about = reading.about
    assert (about.title, about.model, about.tools, about.project) == ("Boats", "test-model", ["Bash"], PROJECT)
    assert about.created_at.startswith("2026-11-17T")
    answer = messages[1]
    assert (answer.usage, answer.tokens, answer.model) == (USAGE, 5, "test-model")
    assert [part.text for part in answer.parts_of("thinking")] == ["Hm."]
    assert [part.input for part in answer.parts_of("tool_call")] == [{"command": "ls"}, {"command": "cat x"}]
    assert [message.parts[0].is_error for message in messages if message.role == "tool"] == [False, True]
    (image,) = messages[5].parts_of("image")
    assert (image.media_type, image.name) == ("image/png", "boat.png")


@pytest.mark.req("SELF-03")
def test_the_mcp_tools_that_the_model_got_are_read(tmp_path: Path) -> None:
    tools: list[Json] = [{"name": name, "description": "x", "parameters": {}} for name in ("Bash", "mcp__pond__count")]
    given, broken = record("llm.tools_snapshot", hash="x", tools=tools), record("llm.tools_snapshot", tools={"x": 1})
    save(tmp_path, [*RECORDS[:2], given, broken, *RECORDS[2:]])
    about = read(tmp_path)[0].about
    assert sorted(about.tools) == ["Bash", "mcp__pond__count"]


def test_what_the_user_undid_or_cleared_is_followed_by_a_branch(tmp_path: Path) -> None:
    undone = [*RECORDS[:-4], record("context.undo", count=1), record("context.undone", turns=1), said("Again?", "m3")]
    save(tmp_path, undone)
    _, messages = read(tmp_path)
    assert (messages[-1].content, messages[-1].parent) == ("Again?", messages[4].id)
    for cut in range(4, len(undone)):  # the same if a cursor is between the prompt and its undoing
        save(tmp_path, undone[:cut])
        cursor = json.loads(json.dumps(read(tmp_path)[0].cursor))
        save(tmp_path, undone)
        assert read(tmp_path, cursor)[1][-1].parent == messages[4].id, cut
    save(tmp_path, [*RECORDS, record("context.clear"), said("New."), *step("s9", part("s9", type="text", text="Yes."))])
    _, messages = read(tmp_path)
    assert [message.parent for message in messages[-2:]] == [BEGINNING, ""]


def test_a_compacted_session_has_a_summary_and_is_not_opened_as_it_is(tmp_path: Path) -> None:
    compaction = record("context.apply_compaction", summary="They counted.", compactedCount=3)
    save(tmp_path, [*RECORDS, compaction, said("And now?")])
    reading, messages = read(tmp_path)
    assert (messages[-1].content, reading.about.summary) == ("And now?", "They counted.")
    tool = KimiCode(home=str(tmp_path), environ={})
    assert tool.withheld(next(tool.transcripts())) is None


def test_messages_of_subagents_are_asides_and_part_of_the_copy(tmp_path: Path) -> None:
    home, kept = tmp_path / "home", tmp_path / "kept"
    path = save(home, RECORDS)
    other = path.parents[1] / "sub-1" / "wire.jsonl"
    other.parent.mkdir()
    lines = [RECORDS[0], said("Count them."), *step("a1", part("a1", type="text", text="Three."))]
    other.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    reading, messages = read(home)
    assert [(message.content, message.aside) for message in messages[-2:]] == [("Count them.", True), ("Three.", True)]
    assert read(home, reading.cursor)[1] == []
    tool = KimiCode(home=str(home), environ={})
    tool.copy(next(tool.transcripts()), str(kept))
    copy = tool.transcript_at(str(kept))
    assert copy is not None and list(tool.read(copy)) == messages


def test_an_answer_that_is_not_finished_is_read_when_it_is_or_when_nothing_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = step("s9", part("s9", type="text", text="Three."))
    save(tmp_path, [*RECORDS, *answer[:-1]])
    reading, messages = read(tmp_path)
    assert len(messages) == len(MESSAGES)
    monkeypatch.setattr("cortext.tools.kimi_code.read.time.time", lambda: 1e11)
    _, stale = read(tmp_path)
    save(tmp_path, [*RECORDS, *answer])
    _, more = read(tmp_path, reading.cursor)
    assert [message.content for message in more] == ["Three."]
    assert [message.id for message in stale[len(MESSAGES) :]] == [message.id for message in more]


@pytest.mark.req("TOOL-05")
def test_a_skill_is_a_command_with_its_arguments(tmp_path: Path) -> None:
    tool = KimiCode(home=str(tmp_path), environ={})
    payloads = {payload["hook_event_name"]: payload for _, payload in KimiSamples().payloads(tmp_path, tmp_path)}
    event = tool.hook_event(payloads["TurnStarted"])
    assert event is not None and (event.command, event.arguments) == ("workspace.tide", "<now>")
    assert tool.hook_event({**payloads["TurnStarted"], "prompt": "And here?"}) is None
    for text in ("/skill:workspace-tide <now>", "/workspace.tide <now>"):  # before it has loaded its skills
        typed = tool.hook_event({**payloads["UserPromptSubmit"], "prompt": [{"type": "text", "text": text}]})
        assert typed is not None and (typed.kind, typed.command, typed.arguments) == (
            "command",
            "workspace.tide",
            "<now>",
        )
        save(tmp_path, [RECORDS[0], said(text)])
        assert read(tmp_path)[1][0].content == "/workspace.tide <now>"
    save(tmp_path, RECORDS)
    answered = tool.hook_event(payloads["Stop"])
    assert answered is not None and answered.path == str(log_path(tmp_path)), "no payload names the transcript"


def test_the_hooks_that_the_user_has_to_add_are_named(tmp_path: Path) -> None:
    tool = KimiCode(home=str(tmp_path), environ={})
    ((reason, remedy),) = tool.hooks_off("/work")
    assert all(event in reason for event in EVENTS) and "--user-hooks" in remedy
    config = tmp_path / ".kimi-code" / "config.toml"
    config.parent.mkdir()
    config.write_text("".join(f'[[hooks]]\nevent = "{event}"\ncommand = "cortext hook kimi"\n' for event in EVENTS))
    assert tool.hooks_off("/work") == []
    config.write_text("[[hooks")
    ((reason, _),) = tool.hooks_off("/work")
    assert str(config) in reason


OWN = '[[hooks]]\nevent = "Stop"\ncommand = "cortext hook kimi"\n'
OTHERS = OWN.replace("cortext hook kimi", "say done")


@pytest.mark.parametrize("text", [None, "", "# mine", "a = 1\r\n[t]\r\nb = 2\r\n", OTHERS, OWN])
def test_hooks_in_the_users_config_are_added_and_taken_out_byte_for_byte(tmp_path: Path, text: str | None) -> None:
    tool = KimiCode(home=str(tmp_path), environ={})
    config = tmp_path / ".kimi-code" / "config.toml"
    config.parent.mkdir()
    if text is not None:
        config.write_bytes(text.encode())

    assert tool.install_user_hooks(["cortext"], dry_run=True) == [str(config)] == [tool.user_hooks_file]
    assert tool.install_user_hooks(["cortext"]) == [str(config)]
    assert tool.hooks_off("/work") == []
    found = [hook["event"] for hook in tomllib.loads(config.read_text())["hooks"] if "hook kimi" in str(hook)]
    assert sorted(found) == sorted(EVENTS), "none twice"
    assert tool.install_user_hooks(["cortext"]) == []
    assert tool.remove_user_hooks(dry_run=True) == tool.remove_user_hooks() == [str(config)]
    assert (config.read_bytes().decode() if config.exists() else None) == text


def test_hooks_that_cannot_be_told_from_the_users_are_left(tmp_path: Path) -> None:
    tool = KimiCode(home=str(tmp_path), environ={})
    tool.install_user_hooks(["cortext"])
    config = tmp_path / ".kimi-code" / "config.toml"
    config.write_text("".join(line for line in config.read_text().splitlines(True) if not line.startswith("#")))

    with pytest.raises(ConfigError, match="cannot be recognised"):
        tool.remove_user_hooks()


def test_init_adds_the_hooks_only_if_told_and_uninstall_removes_them(home: Path, tmp_path: Path) -> None:
    os.environ["HOME"] = str(home)
    folder = tmp_path / "pond"
    folder.mkdir()
    config = home / ".kimi-code" / "config.toml"

    asked = cortext("init", "--ai", "kimi", cwd=folder)
    assert "cortext init --ai kimi --user-hooks" in asked.out and not config.exists()
    assert cortext("init", "--ai", "kimi", "--user-hooks", cwd=folder).code == 0
    assert "hook kimi" in config.read_text()
    left = cortext("uninstall", cwd=folder)
    assert "cortext uninstall --user-hooks" in left.out and config.exists()
    assert cortext("uninstall", "--user-hooks", cwd=folder).code == 0, "also where nothing else is left"
    assert not config.exists()


def test_commands_become_skills_that_only_the_user_calls(tmp_path: Path) -> None:
    tool = KimiCode(home=str(tmp_path), environ={})
    plan = CommandFile(
        name="workspace.plan", description='Plan: "it"', text="Topic: {arguments}\nThen /workspace.stop."
    )
    resume = CommandFile(name="workspace.resume", description="x", text="{run}\n\nGo on.", run=("resume", "--in-tool"))
    files = tool.files([plan, resume], ["cortext"])
    text = files[".kimi-code/skills/workspace-plan/SKILL.md"].decode()
    assert text.startswith(
        '---\nname: workspace-plan\ndescription: "Plan: \\"it\\""\ndisable-model-invocation: true\n---\n'
    )
    assert "Topic: $ARGUMENTS\nThen /skill:workspace-stop." in text
    run = files[".kimi-code/skills/workspace-resume/SKILL.md"].decode()
    assert "`KIMI_SESSION_ID=${KIMI_SESSION_ID} cortext resume --in-tool`" in run


@pytest.mark.req("TRUE-03")
def test_what_kimi_code_told_its_model_is_counted_once(tmp_path: Path) -> None:
    save(tmp_path, RECORDS)
    whole, _ = read(tmp_path)
    save(tmp_path, RECORDS[: len(RECORDS) // 2])
    first, _ = read(tmp_path)
    save(tmp_path, RECORDS)
    rest, _ = read(tmp_path, first.cursor)

    assert rest.about.notes == whole.about.notes >= 2, "a skill that the user called, and one that the model did"
