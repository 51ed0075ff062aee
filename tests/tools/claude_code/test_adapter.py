"""The adapter: executable, transcripts, copies, command lines and hooks."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.support.cli import cortext
from tests.tools.claude_code.corpus import KEY, PROJECT, Script, full_conversation

from cortext.errors import UsageError
from cortext.testing.table import every_row
from cortext.tools.base import HookEvent
from cortext.tools.claude_code.adapter import ClaudeCode, folder_name

OTHER = "7d3f5b1e-0000-4000-8000-00000000000a"


def store(home: Path, project: str, script: Script) -> Path:
    path = home / ".claude/projects" / folder_name(project) / f"{script.key}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(script.data())
    return path


def adapter(home: Path, **environ: str) -> ClaudeCode:
    return ClaudeCode(home=str(home), environ=environ)


def companion_of(path: Path, name: str = "subagents/agent-a1.jsonl") -> Path:
    companion = path.with_suffix("") / name
    companion.parent.mkdir(parents=True, exist_ok=True)
    script = Script("agent-a1")
    script.user("dig", isSidechain=True, agentId="a1", sessionId=KEY)
    companion.write_bytes(script.data())
    return companion


# ── executable ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("script", "version", "tested"),
    [
        ("echo '2.1.325 (Claude Code)'", "2.1.325", True),
        ("echo '9.9.9 (Claude Code)'", "9.9.9", False),
        ("exit 3", "", False),
    ],
)
def test_the_executable_is_found_on_the_path(tmp_path: Path, script: str, version: str, tested: bool) -> None:
    program = tmp_path / "claude"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)

    found = adapter(tmp_path, PATH=str(tmp_path)).detect()

    assert found is not None
    assert (found.program, found.version, found.tested) == (str(program), version, tested)


def test_a_missing_executable_is_not_detected(tmp_path: Path) -> None:
    assert adapter(tmp_path, PATH=str(tmp_path)).detect() is None


# ── transcripts ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("project", "name"),
    [
        ("/home/me/my.app_2", "-home-me-my-app-2"),
        ("/tmp/Ünï👍 x", "-tmp--n----x"),
        # As Claude Code itself named it.
        (
            f"/tmp/cc-sioq_s4y/{'p' * 120}/{'q' * 120}/Ünï👍 x",
            f"-tmp-cc-sioq-s4y-{'p' * 120}-{'q' * 62}-axg6tv",
        ),
    ],
)
def test_a_project_folder_is_named_as_claude_code_does(project: str, name: str) -> None:
    assert folder_name(project) == name


@pytest.mark.req("TOOL-03")
def test_transcripts_are_found_without_being_read(tmp_path: Path) -> None:
    one = store(tmp_path, PROJECT, Script(KEY))
    two = store(tmp_path, str(tmp_path), Script(OTHER))
    one.write_bytes(b"\xff not even JSON")
    for name in ("notes.jsonl", "agent-a1.jsonl", f"{KEY}.json", "sessions-index.json"):
        (one.parent / name).write_text("{}", encoding="utf-8")
    (one.parent / f"{OTHER}.jsonl").symlink_to(two)
    tool = adapter(tmp_path)

    found = {transcript.key: transcript for transcript in tool.transcripts()}

    assert {key: transcript.path for key, transcript in found.items()} == {KEY: str(one), OTHER: str(two)}
    assert found[KEY].size == one.stat().st_size
    (of_project,) = tool.transcripts(str(tmp_path))
    assert (of_project.key, of_project.project) == (OTHER, str(tmp_path))
    assert list(tool.transcripts("/not/there")) == []
    assert list(adapter(tmp_path / "nowhere").transcripts()) == []


def test_the_config_folder_comes_from_the_environment(tmp_path: Path) -> None:
    store(tmp_path, PROJECT, Script(KEY))
    tool = adapter(tmp_path / "nowhere", CLAUDE_CONFIG_DIR=str(tmp_path / ".claude"))

    assert [transcript.key for transcript in tool.transcripts()] == [KEY]


@pytest.mark.req("TRUE-05")
def test_snapshots_of_a_session_become_one_with_it() -> None:
    home = Path(os.environ["HOME"])
    projects = home / ".claude" / "projects" / "-p"
    projects.mkdir(parents=True)
    script = Script()
    script.user("The first question")
    script.assistant("The first answer")
    earlier = b"".join(line + b"\n" for line in script.lines)
    (projects / f"2026-01-05-{script.key}.jsonl").write_bytes(earlier)
    script.user("The second question")
    script.save(projects)
    alone = Script()
    alone.user("Only in a snapshot")
    other = "1c5c8a52-6f3d-4a63-9d7e-2f6c1a7d0e11"
    lines = [line.replace(alone.key.encode(), other.encode()) for line in alone.lines]
    (projects / f"2026-01-06-{other}.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))

    for _ in range(2):
        assert cortext("import", cwd=home).code == 0
        listed = {row["id"]: row["message_count"] for row in cortext("list", "--json", cwd=home).json}
        assert listed == {f"claude-{script.key}": 3, f"claude-{other}": 1}
    again = {row["tool"]: row for row in cortext("import", "--json", cwd=home).json}["claude"]
    assert (again["transcripts"], again["unchanged"]) == (3, 3)
    assert "No problems found" in cortext("doctor", cwd=home).out


@pytest.mark.req("TOOL-03")
def test_the_fingerprint_covers_files_of_subagents(tmp_path: Path) -> None:
    path = store(tmp_path, PROJECT, full_conversation())
    tool = adapter(tmp_path)
    (before,) = tool.transcripts()
    companion = companion_of(path)
    (after,) = tool.transcripts()

    assert after.size == before.size + companion.stat().st_size
    assert tool.transcript_at(str(path)) == after
    assert [transcript.key for transcript in tool.transcripts()] == [KEY]


def test_a_transcript_at_any_path_is_recognised_by_its_records(tmp_path: Path) -> None:
    tool = adapter(tmp_path / "home")
    script = full_conversation()
    copy = tmp_path / "native"
    copy.write_bytes(script.data())
    large = tmp_path / "large"
    large_script = Script(OTHER)
    large_script.user("x" * 3_000_000)
    large.write_bytes(large_script.data())

    for path, key in ((copy, KEY), (large, OTHER)):
        found = tool.transcript_at(str(path))
        assert found is not None
        assert (found.key, found.path, found.size) == (key, str(path), path.stat().st_size)
    companion = companion_of(tmp_path / f"{KEY}.jsonl")
    others = {
        "gemini": b'{"sessionId":"x","projectHash":"y","startTime":"z","kind":"main"}\n{"id":"1","type":"user"}\n',
        "codex": b'{"timestamp":"t","type":"session_meta","payload":{"id":"1"}}\n',
        "document": b'{\n  "sessionId": "x",\n  "messages": []\n}\n',
        "text": b"hello\n",
        "empty": b"",
        "binary": bytes(range(256)),
    }
    for name, data in others.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "link").symlink_to(copy)
    for path in (companion, *(tmp_path / name for name in others), tmp_path / "link", tmp_path, tmp_path / "missing"):
        assert tool.transcript_at(str(path)) is None, path


@pytest.mark.req("TOOL-03")
def test_a_copy_is_put_back_unchanged(tmp_path: Path) -> None:
    script = full_conversation()
    path = store(tmp_path, PROJECT, script)
    subagent, result = companion_of(path), companion_of(path, "tool-results/b1.txt")
    tool = adapter(tmp_path)
    (transcript,) = tool.transcripts()
    kept = tmp_path / "kept" / "native"

    tool.copy(transcript, str(kept))
    script.user("one more")
    path.write_bytes(script.data())
    tool.copy(transcript, str(kept))

    assert kept.read_bytes() == script.data()
    files = {file: file.read_bytes() for file in (path, subagent, result)}
    for file in files:
        file.unlink()
    project = tmp_path / "elsewhere"
    assert tool.put_back(str(kept), project=str(project)) == KEY
    (restored,) = tool.transcripts(str(project))
    assert {Path(restored.path).read_bytes()} == {files[path]}
    moved = Path(restored.path).with_suffix("")
    assert (moved / "subagents/agent-a1.jsonl").read_bytes() == files[subagent]
    assert (moved / "tool-results/b1.txt").read_bytes() == files[result]
    (copied,) = [tool.transcript_at(str(kept))]
    assert copied is not None
    assert [message.content for message in tool.read(copied)][-2:] == ["one more", "dig"]


# ── launching ────────────────────────────────────────────────────────────────────────────────────────


def test_the_command_line_resumes_a_session_with_prompt_and_model(tmp_path: Path) -> None:
    tool = adapter(tmp_path, PATH="/nowhere")

    plain = tool.launch(KEY, project=PROJECT)
    assert (plain.argv, plain.cwd) == (["claude", "--resume", KEY], PROJECT)
    prompted = tool.launch(KEY, project=PROJECT, prompt="-n is a flag?", model="opus")
    assert prompted.argv == ["claude", "--resume", KEY, "--model", "opus", "--", "-n is a flag?"]
    with pytest.raises(UsageError):
        tool.launch(KEY, project=PROJECT, prompt="x" * 200_000)


# ── hooks ────────────────────────────────────────────────────────────────────────────────────────────

COMMON = {"session_id": KEY, "transcript_path": "/t.jsonl", "cwd": PROJECT}


@every_row(
    ("payload", "kind", "text", "command", "arguments"),
    [
        ({"hook_event_name": "SessionStart", "source": "resume"}, "started", "", "", ""),
        ({"hook_event_name": "UserPromptSubmit", "prompt": "hello\nthere"}, "prompt", "hello\nthere", "", ""),
        (
            {"hook_event_name": "UserPromptSubmit", "prompt": "/workspace.plan a\nb"},
            "prompt",
            "/workspace.plan a\nb",
            "workspace.plan",
            "a\nb",
        ),
        (
            {
                "hook_event_name": "UserPromptExpansion",
                "command_name": "workspace.plan",
                "command_args": "a b",
                "prompt": "/workspace.plan a b",
            },
            "command",
            "/workspace.plan a b",
            "workspace.plan",
            "a b",
        ),
        ({"hook_event_name": "Stop", "last_assistant_message": "Done."}, "answered", "Done.", "", ""),
        ({"hook_event_name": "PostCompact", "compact_summary": "They met."}, "compacted", "They met.", "", ""),
        ({"hook_event_name": "SessionStart", "source": "compact"}, "compacted", "", "", ""),
        ({"hook_event_name": "SessionEnd", "reason": "other"}, "ended", "", "", ""),
        ({"hook_event_name": "Tomorrow", "prompt": 17}, "other", "", "", ""),
    ],
)
def test_a_hook_payload_becomes_an_event(
    payload: dict[str, object], kind: str, text: str, command: str, arguments: str
) -> None:
    assert adapter(Path("/nowhere")).hook_event({**COMMON, **payload}) == HookEvent(
        kind=kind, key=KEY, path="/t.jsonl", project=PROJECT, text=text, command=command, arguments=arguments
    )


@pytest.mark.parametrize("payload", [{}, {"hook_event_name": "Stop"}, {"session_id": KEY}, {"hook_event_name": 1}])
def test_a_payload_without_event_or_session_is_ignored(payload: dict[str, object]) -> None:
    assert adapter(Path("/nowhere")).hook_event(payload) is None


def test_a_hook_answer_is_given_only_where_it_arrives_completely() -> None:
    tool = adapter(Path("/nowhere"))
    answer = json.loads(tool.hook_answer({"hook_event_name": "SessionStart"}, 'give "this"'))

    assert answer["hookSpecificOutput"] == {"hookEventName": "SessionStart", "additionalContext": 'give "this"'}
    assert tool.hook_answer({"hook_event_name": "Stop"}, "would start another turn") == ""
    assert tool.hook_answer({"hook_event_name": "UserPromptSubmit"}, "x" * 10_000)
    assert tool.hook_answer({"hook_event_name": "UserPromptSubmit"}, "👍" * 5_001) == ""
    assert os.linesep not in tool.hook_answer({"hook_event_name": "UserPromptSubmit"}, "a\nb")
