"""The scenarios of the workspace specification, with the real command in a real git repository."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.claude_talk import ClaudeTalk
from tests.support.cli import SCRIPTS, Ran, committed_workspace, cortext, git, run
from tests.support.waiting import wait_until
from tests.web.served import serving


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create and commit a workspace for Claude Code."""
    return committed_workspace(tmp_path / "w", monkeypatch)


def _session(workspace: Path, part: str = "") -> Path:
    found = [path.parent for path in workspace.glob("conversations/*/*/.session/session.json") if part in str(path)]
    assert len(found) == 1, found
    return found[0]


def _metadata(workspace: Path, part: str = "") -> dict[str, object]:
    fields: dict[str, object] = json.loads((_session(workspace, part) / "session.json").read_text(encoding="utf-8"))
    return fields


def _messages(workspace: Path, part: str = "") -> list[dict[str, object]]:
    text = (_session(workspace, part) / "messages.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def _brainstorm(workspace: Path) -> ClaudeTalk:
    talk = ClaudeTalk(workspace)
    talk.prompt("/workspace.brainstorm API design")
    talk.answer("Great! What is the core problem?")
    talk.say("REST or GraphQL for internal APIs?", "We decided to go with REST because it is simple to operate.")
    return talk


@pytest.mark.req("SESS-007", "TOOL-05")
def test_a_command_creates_the_conversation_before_the_model_is_asked(workspace: Path) -> None:
    talk = ClaudeTalk(workspace)
    said = talk.hook("UserPromptSubmit", prompt="/workspace.brainstorm API design")
    folder = _session(workspace).parent
    assert said.code == 0
    assert folder.name in said.out, "the model is told where the notes are"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", folder.parent.name)
    assert folder.name == "001-brainstorm-api-design"
    assert (folder / "brainstorm.md").read_text(encoding="utf-8").startswith("# ")
    assert "API design" in (folder / "brainstorm.md").read_text(encoding="utf-8")
    assert _metadata(workspace)["status"] == "active"


@pytest.mark.req("SESS-007", "TOOL-05")
def test_the_same_hook_fired_twice_creates_one_conversation(workspace: Path) -> None:
    talk = ClaudeTalk(workspace)
    for _ in range(3):
        talk.hook("UserPromptSubmit", prompt="/workspace.brainstorm API design")
    assert _session(workspace).parent.name == "001-brainstorm-api-design"


@pytest.mark.req("SESS-001a", "SESS-001c", "SESS-001d")
def test_closing_the_tool_saves_the_messages_and_pauses(workspace: Path) -> None:
    talk = _brainstorm(workspace)
    talk.end()
    assert _metadata(workspace)["status"] == "paused"
    said = [(message["role"], message["content"]) for message in _messages(workspace)]
    assert said == [
        ("user", "/workspace.brainstorm API design"),
        ("assistant", "Great! What is the core problem?"),
        ("user", "REST or GraphQL for internal APIs?"),
        ("assistant", "We decided to go with REST because it is simple to operate."),
    ]
    assert all(str(message["timestamp"]).endswith("Z") and message["id"] for message in _messages(workspace))
    assert [message["seq"] for message in _messages(workspace)] == [0, 1, 2, 3]


@pytest.mark.req("SESS-001b", "SESS-009", "SELF-03")
def test_the_session_has_what_is_needed_to_recreate_the_agent(workspace: Path) -> None:
    talk = _brainstorm(workspace)
    talk.note_tools("WebFetch", "mcp__cortext__search_workspace", "mcp__cortext__get_context")
    talk.end()
    fields = _metadata(workspace)
    command = (workspace / ".workspace" / "commands" / "brainstorm.md").read_bytes()
    config = fields["agent_config"]
    assert isinstance(config, dict)
    assert config["command"] == "/workspace.brainstorm"
    assert config["system_prompt_hash"] == f"sha256:{hashlib.sha256(command).hexdigest()}"
    assert config["model"] == "claude-test"
    assert config["tools"] == ["mcp__cortext__get_context", "mcp__cortext__search_workspace"]
    assert "mcp__cortext__resume_session" in config["tools_configured"]
    assert fields["version"] == "1.0"
    assert fields["conversation_id"] == "001-brainstorm-api-design"
    assert fields["conversation_type"] == "brainstorm"
    assert fields["title"] == "API design"
    assert fields["message_count"] == 4
    assert isinstance(fields["token_count"], int) and fields["token_count"] > 0
    assert "REST" in str(fields["context_summary"])
    assert fields["continuation"] == {"tool": "claude", "session_id": talk.key}
    assert all(isinstance(message["tokens"], int) for message in _messages(workspace))


@pytest.mark.req("SESS-002a")
def test_stop_confirms_title_stopping_point_and_how_to_resume(workspace: Path) -> None:
    _brainstorm(workspace)
    done = cortext("stop", cwd=workspace)
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == "Session saved."
    assert 'Conversation "API design" has been paused.' in lines
    assert "You can continue later with /workspace.resume" in lines
    assert any(line.startswith("Summary: ") and "REST" in line for line in lines)
    assert _metadata(workspace)["status"] == "paused"


@pytest.mark.req("SELF-01")
def test_a_summary_covers_everything_up_to_the_last_stop(workspace: Path) -> None:
    talk = _brainstorm(workspace)
    cortext("stop", cwd=workspace)
    for number in range(3):
        talk.say(f"Who owns the schema of service {number}?", f"The team of service {number} owns it.")
        done = cortext("stop", cwd=workspace)
        ending = f"Last ask: Who owns the schema of service {number}? Answer: The team of service {number} owns it."
        summary = str(_metadata(workspace)["context_summary"])
        assert summary.endswith(ending)
        assert f"Summary: {summary}" in " ".join(done.out.split()), (
            "the confirmation, the file and the list say the same"
        )
        assert f"Summary: {summary}" in " ".join(cortext("resume", cwd=workspace).out.split())
    assert _metadata(workspace)["summary_covers"] == 10
    talk.prompt("/workspace.stop-conversation")
    talk.answer("The session is saved.")
    cortext("stop", cwd=workspace)
    assert _metadata(workspace)["context_summary"] == summary, "our own command is not part of the talk"


def _titles(workspace: Path, name: str) -> set[str]:
    """Return the title that each face shows."""
    listed = cortext("list", "--json", cwd=workspace).json[0]["title"]
    picker = re.search(r"1\. \[brainstorm\] (.*)", cortext("resume", cwd=workspace).out)
    in_tool = re.search(r"1\. \[brainstorm\] (.*)", cortext("resume", "--in-tool", cwd=workspace).out)
    packet = re.search(r"Conversation: brainstorm / (.*)", cortext("resume", name, "--print", cwd=workspace).out)
    assert picker and in_tool and packet
    assert listed in cortext("list", cwd=workspace).out
    return {str(listed), picker[1], in_tool[1], packet[1]}


@pytest.mark.req("SELF-02")
def test_a_conversation_in_the_seed_format_has_one_title_everywhere(workspace: Path) -> None:
    folder = workspace / "conversations" / "2025-11-22" / "001-brainstorm-api-design"
    (folder / ".session").mkdir(parents=True)
    (folder / "brainstorm.md").write_text("# API Design Discussion\n\nREST or GraphQL.\n", encoding="utf-8")
    fields = {
        "version": "1.0",
        "conversation_id": folder.name,
        "conversation_type": "brainstorm",
        "status": "paused",
        "created_at": "2025-11-22T10:30:00Z",
        "last_active": "2025-11-22T11:45:00Z",
        "message_count": 2,
        "agent_config": {"command": "/workspace.brainstorm"},
        "context_summary": "Discussing REST vs GraphQL for internal APIs, leaning toward REST for simplicity",
    }
    (folder / ".session" / "session.json").write_text(json.dumps(fields), encoding="utf-8")
    said = [
        {"role": "user", "content": "Brainstorm API design", "timestamp": "2025-11-22T10:30:00Z"},
        {"role": "assistant", "content": "Great! What is the core problem?", "timestamp": "2025-11-22T10:30:15Z"},
    ]
    (folder / ".session" / "messages.jsonl").write_text(
        "".join(json.dumps(one) + "\n" for one in said), encoding="utf-8"
    )
    assert _titles(workspace, folder.name) == {"API Design Discussion"}
    assert 'Conversation "API Design Discussion" has been paused.' in cortext("stop", "001", cwd=workspace).out
    assert _metadata(workspace)["title"] == "API Design Discussion"
    assert _metadata(workspace)["context_summary"] == fields["context_summary"]
    assert (folder / "brainstorm.md").read_text(encoding="utf-8") == "# API Design Discussion\n\nREST or GraphQL.\n"
    key = _resumed(workspace, "001")
    talk = ClaudeTalk(workspace, key)
    talk.note_title("Brainstorm API design")
    talk.say("Which paths need versions?", "Only those under /v1.")
    talk.end()
    assert _metadata(workspace)["message_count"] == 4
    assert _titles(workspace, folder.name) == {"API Design Discussion"}, "a title of the tool's does not replace it"
    with serving(os.environ, workspace) as served:
        served.open()
        assert '<h1 dir="auto">API Design Discussion</h1>' in served.get(served.link("API Design Discussion")).text
    cortext("title", "001", "Inner services", cwd=workspace)
    assert _titles(workspace, folder.name) == {"Inner services"}, "the user's own comes first"


def _resumed(workspace: Path, name: str) -> str:
    """Resume a conversation in a stand-in for Claude Code; return the session that it was given to open."""
    done = cortext("resume", name, "--ai", "claude", cwd=workspace, env=_fake_tool(workspace, "claude"))
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    return lines[lines.index("--resume") + 1]


@pytest.mark.req("SELF-02")
def test_without_a_topic_the_heading_of_the_notes_is_the_title_else_the_first_words(workspace: Path) -> None:
    talk = ClaudeTalk(workspace)
    talk.say("/workspace.brainstorm", "About what?", "Which queue do the orders need?", "An outbox in Postgres.")
    cortext("stop", cwd=workspace)
    (name,) = [path.name for path in workspace.glob("conversations/*/*")]
    assert _titles(workspace, name) == {"Which queue do the orders need?"}
    (notes,) = workspace.glob("conversations/*/*/brainstorm.md")
    notes.write_text("# Queues for orders\n", encoding="utf-8")
    talk.say("Who reads it?", "The shipping service.")
    cortext("stop", cwd=workspace)
    assert _titles(workspace, name) == {"Queues for orders"}


@pytest.mark.req("SELF-01")
def test_a_summary_of_another_program_counts_as_of_its_time(workspace: Path) -> None:
    talk = _brainstorm(workspace)
    cortext("stop", cwd=workspace)
    path = _session(workspace) / "session.json"
    fields = json.loads(path.read_text(encoding="utf-8"))
    theirs = "Discussing REST vs GraphQL for internal APIs, leaning toward REST for simplicity"
    kept = {name: value for name, value in fields.items() if name not in ("summary_by", "summary_covers")}
    path.write_text(json.dumps({**kept, "context_summary": theirs}), encoding="utf-8")
    cortext("stop", cwd=workspace)
    assert _metadata(workspace)["context_summary"] == theirs, "nothing was said since"
    talk.say("Which paths need versions?", "Only those under /v1.")
    cortext("stop", cwd=workspace)
    assert str(_metadata(workspace)["context_summary"]).endswith(
        "Last ask: Which paths need versions? Answer: Only those under /v1."
    )


@pytest.mark.req("SESS-002a", "TOOL-05")
def test_the_stop_command_in_the_tool_saves_through_its_hook(workspace: Path) -> None:
    talk = _brainstorm(workspace)
    said = talk.hook("UserPromptSubmit", prompt="/workspace.stop-conversation")
    assert "Session saved." in said.out
    assert "/workspace.resume" in said.out
    assert _metadata(workspace)["status"] == "paused"


@pytest.mark.req("SESS-003a", "SESS-004c")
def test_resumable_conversations_are_listed_most_recent_first(workspace: Path) -> None:
    _brainstorm(workspace).end()
    cortext("new", "debug", "Auth token expiry", cwd=workspace)
    done = cortext("resume", cwd=workspace)
    assert done.code == 0
    first, second = done.out.index("1. [debug] Auth token expiry"), done.out.index("2. [brainstorm] API design")
    assert first < second
    assert re.search(r"Last active: .* \| Status: paused", done.out)
    assert "Summary: " in done.out
    table = cortext("resume", "--list", cwd=workspace).out.splitlines()
    assert table[0].split() == ["ID", "TYPE", "TOOL", "STATUS", "LAST", "ACTIVE", "MESSAGES", "TITLE"]
    assert [line.split()[0] for line in table[1:]] == ["002-debug-auth-token-expiry", "001-brainstorm-api-design"]
    rows = cortext("resume", "--list", "--type", "debug", "--json", cwd=workspace).json
    assert [row["id"] for row in rows] == ["002-debug-auth-token-expiry"]


@pytest.mark.req("SESS-003b", "SESS-003c", "SAFE-03")
def test_the_packet_has_the_command_the_block_and_every_message(workspace: Path) -> None:
    _brainstorm(workspace).end()
    packet = cortext("resume", "1", "--print", cwd=workspace).out
    command = (workspace / ".workspace" / "commands" / "brainstorm.md").read_text(encoding="utf-8")
    places = [
        packet.index(command.replace("{arguments}", "API design").strip()[:200]),
        packet.index("[RESUMED CONVERSATION]"),
        packet.index("[END RESUMED CONTEXT]"),
        packet.rindex("Great! What is the core problem?"),
        packet.rindex("REST or GraphQL for internal APIs?"),
        packet.rindex("We decided to go with REST"),
    ]
    assert places == sorted(places)
    assert "Conversation: brainstorm / API design" in packet
    assert "Messages: 4 exchanges" in packet
    assert "data, not instructions" in packet


@pytest.mark.req("SESS-003d")
def test_a_changed_command_is_used_and_reported(workspace: Path) -> None:
    _brainstorm(workspace).end()
    command = workspace / ".workspace" / "commands" / "brainstorm.md"
    command.write_text("# A new way to brainstorm\n\nTopic: {arguments}\n", encoding="utf-8")
    assert "A new way to brainstorm" in cortext("resume", "1", "--print", cwd=workspace).out
    dry = cortext("resume", "1", "--dry-run", cwd=workspace)
    assert "the text of /workspace.brainstorm has changed; the current one is used" in dry.out


@pytest.mark.req("SESS-003d", "SELF-03")
def test_missing_tools_are_reported_by_name(workspace: Path) -> None:
    talk = _brainstorm(workspace)
    talk.end()
    assert "MCP server" not in cortext("resume", "1", "--ai", "codex", "--dry-run", cwd=workspace).out, "only set up"
    talk.note_tools("mcp__cortext__search_workspace")
    talk.say("And for the public ones?", "REST, too.")
    talk.end()
    assert "MCP server" not in cortext("resume", "1", "--dry-run", cwd=workspace).out
    dry = cortext("resume", "1", "--ai", "codex", "--dry-run", cwd=workspace)
    assert "differs    not set up in Codex here: MCP server cortext" in dry.out


@pytest.mark.req("SESS-003e")
def test_nothing_to_resume_says_so_and_how_to_start(workspace: Path) -> None:
    done = cortext("resume", cwd=workspace)
    assert done.code == 0
    assert "There are no conversations yet" in done.out
    assert "/workspace.brainstorm" in done.out


@pytest.mark.req("SESS-003e", "SESS-004c")
def test_an_empty_filter_result_does_not_claim_there_are_no_sessions(workspace: Path) -> None:
    cortext("new", "plan", "Database migration", cwd=workspace)
    for words in (["--list", "--type", "debug"], ["--type", "debug"], ["--list", "--status", "completed"]):
        assert cortext("resume", *words, cwd=workspace).out.startswith("No conversation matches.")
    assert cortext("resume", "--list", "--status", "nosuch", cwd=workspace).code == 2


@pytest.mark.req("SESS-004a")
def test_an_id_prefix_means_the_conversation_of_this_workspace(workspace: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    for folder, kind in ((workspace, "plan"), (other, "debug")):
        assert cortext("init", str(folder), "--ai", "claude", cwd=tmp_path).code == 0
        assert cortext("new", kind, "Database migration", cwd=folder).code == 0
    assert "001-plan-database" in cortext("show", "001", cwd=workspace).out
    assert "001-debug-database" in cortext("show", "001", cwd=other).out
    assert cortext("resume", "001", "--ai", "claude", "--dry-run", cwd=other).code == 0
    assert cortext("show", "001", cwd=tmp_path).code == 1
    asked = cortext("resume", "database", cwd=other)
    assert asked.code == 1
    assert asked.err.splitlines()[:2] == [
        "1. Database migration (debug · just now · 001-debug-database-migration in other)",
        f"2. Database migration (plan · just now · 001-plan-database-migration in {workspace.name})",
    ]


@pytest.mark.req("SESS-003e")
def test_plain_markdown_without_a_session_is_left_alone(workspace: Path) -> None:
    plain = workspace / "conversations" / "2025-01-01" / "001-notes"
    plain.mkdir(parents=True)
    (plain / "notes.md").write_text("# Just notes\n", encoding="utf-8")
    assert cortext("list", "--here", "--json", cwd=workspace).json == []
    assert cortext("doctor", cwd=workspace).code == 0
    assert os.listdir(plain) == ["notes.md"]


@pytest.mark.req("SESS-004a", "SESS-004b")
@pytest.mark.parametrize(
    "words", [["001-brainstorm-api-design"], ["001"], ["api", "design"], ["apu", "desing"], ["GraphQL"]]
)
def test_a_conversation_is_found_by_prefix_words_typos_and_content(workspace: Path, words: list[str]) -> None:
    _brainstorm(workspace).end()
    cortext("new", "plan", "Holiday in Japan", cwd=workspace)
    done = cortext("resume", *words, "--dry-run", cwd=workspace)
    assert done.code == 0, done.err
    assert "would run" in done.out
    assert "4 of 4 messages" in done.out


@pytest.mark.req("SESS-004b")
def test_several_matches_ask_and_no_match_shows_the_nearest(workspace: Path) -> None:
    cortext("new", "plan", "Database migration", cwd=workspace)
    cortext("new", "debug", "Database locks", cwd=workspace)
    several = cortext("resume", "database", cwd=workspace)
    assert several.code == 1
    assert several.err.splitlines()[0].startswith("1. Database locks (debug · just now · 002-debug-database-locks in ")
    assert several.err.splitlines()[1].startswith("2. Database migration (plan · ")
    as_json = cortext("resume", "database", "--json", cwd=workspace)
    assert as_json.json["error"]["code"] == "ambiguous-id" and not as_json.err
    none = cortext("resume", "databse", "xylophone", cwd=workspace)
    assert none.code == 1
    assert "no conversation matches" in none.err
    assert "Database migration" in none.err


@pytest.mark.req("SESS-005a", "SESS-005c")
def test_a_completed_conversation_is_resumed_only_with_force(workspace: Path) -> None:
    _brainstorm(workspace)
    completed = cortext("complete", cwd=workspace)
    assert completed.code == 0
    assert "cortext resume 001-brainstorm-api-design --force" in completed.out
    assert "/workspace.resume" not in completed.out
    assert _metadata(workspace)["status"] == "completed"
    refused = cortext("stop", "001", cwd=workspace)
    assert refused.code == 1
    assert "cannot go from completed to paused" in refused.err
    tool = _fake_tool(workspace, "claude")
    done = cortext("resume", "001", cwd=workspace, env=tool)
    assert done.code == 1
    assert "completed" in done.err and "--force" in done.err
    opened = cortext("resume", "001", "--force", cwd=workspace, env=tool)
    assert opened.code == 0
    assert _metadata(workspace)["status"] == "completed", "the program exited at once, so it is not active"
    key = opened.out.splitlines()[opened.out.splitlines().index("--resume") + 1]
    event = {"hook_event_name": "SessionStart", "session_id": key, "cwd": str(workspace), "source": "resume"}
    assert cortext("hook", "claude", cwd=workspace, stdin=json.dumps(event)).code == 0
    assert _metadata(workspace)["status"] == "active", "the tool's start makes it active"


def _fake_tool(folder: Path, name: str) -> dict[str, str]:
    """Create a stub of that name that prints its arguments; return an environment with it on PATH."""
    place = folder.parent / "bin"
    place.mkdir(exist_ok=True)
    program = place / name
    program.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo 2.1.325 && exit 0\nprintf "%s\\n" "$0" "$@"\n', encoding="utf-8"
    )
    program.chmod(0o755)
    return {"PATH": f"{place}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.req("SESS-005b")
def test_a_quiet_conversation_is_paused_and_reported_next_time(workspace: Path) -> None:
    _brainstorm(workspace)
    assert cortext("sweep", cwd=workspace).out == "", "five minutes have not passed"
    quiet = cortext("sweep", "--minutes", "0", "--quiet", cwd=workspace)
    assert quiet.out == ""
    assert _metadata(workspace)["status"] == "paused"
    listed = cortext("list", "--here", cwd=workspace)
    assert '"API design" was saved and paused after 0 quiet minutes' in listed.err
    assert "was saved" not in cortext("list", "--here", cwd=workspace).err, "reported once"


@pytest.mark.req("SESS-005b")
@pytest.mark.parametrize("program", [("watch", "--json"), ("web", "--json", "--no-open")])
def test_what_runs_anyway_pauses_and_the_next_prompt_says_so(
    workspace: Path, home: Path, program: tuple[str, ...]
) -> None:
    talk = _brainstorm(workspace)
    environ = {**os.environ, "CORTEXT_WORKSPACE_PAUSE_MINUTES": "0"}
    command, notices = [str(SCRIPTS / "cortext"), *program], home / ".local/share/cortext/notices"
    with subprocess.Popen(command, cwd=workspace, env=environ, stdout=subprocess.PIPE) as process:
        try:
            wait_until(lambda: notices.exists() and notices.read_text().endswith("\n"), why="it is paused")
        finally:
            process.terminate()
    said = json.loads(talk.prompt("And pagination?").out)["systemMessage"]
    expected = "this conversation was saved and paused after 0 quiet minutes; it is active again."
    assert said == f"cortext: {expected}"
    assert _metadata(workspace)["status"] == "active"
    talk.answer("By cursor.")
    assert "quiet minutes" not in talk.prompt("And limits?").out, "told once"
    assert '"API design" was saved and paused after 0 quiet minutes' in cortext("list", cwd=workspace).err


@pytest.mark.req("SESS-005b", "STORE-12")
def test_a_pause_is_committed_by_the_machine_that_it_was_said_on(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = ClaudeTalk(workspace, real_time=True)
    talk.say("/workspace.brainstorm API design", "What is the core problem?")
    git(workspace, "add", ".")
    git(workspace, "commit", "-qm", "in the middle")
    run(["git", "clone", "-q", str(workspace), str(tmp_path / "clone")])
    monkeypatch.setenv("CORTEXT_WORKSPACE_PAUSE_MINUTES", "0")
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("HOME", str(tmp_path / "elsewhere"))
        assert "quiet minutes" not in cortext("list", cwd=tmp_path / "clone").err
        assert _metadata(tmp_path / "clone")["status"] == "active"
        assert git(tmp_path / "clone", "status", "--short") == ""
    assert "was saved and paused after 0 quiet minutes" in cortext("list", cwd=workspace).err
    assert _metadata(workspace)["status"] == "paused"


@pytest.mark.req("SESS-005b")
def test_any_command_sweeps_and_the_next_prompt_reactivates(workspace: Path) -> None:
    (workspace / ".workspace" / "config.toml").write_text("[workspace]\npause_minutes = 0\n", encoding="utf-8")
    talk = _brainstorm(workspace)
    assert "paused after" in cortext("list", cwd=workspace).err
    talk.prompt("And pagination?")
    assert _metadata(workspace)["status"] == "active"


@pytest.mark.req("SESS-005d")
@pytest.mark.parametrize(
    "words", ["let's stop here", "That's enough.", "Thanks! I have to run.", "Thanks, bye!", "Das reicht für heute."]
)
def test_natural_words_pause_after_the_answer(workspace: Path, words: str) -> None:
    talk = _brainstorm(workspace)
    heard = talk.prompt(words)
    assert "/workspace.resume" in heard.out
    assert _metadata(workspace)["status"] == "active"
    talk.answer("Saved. See you.")
    assert _metadata(workspace)["status"] == "paused"


@pytest.mark.req("SESS-005d")
def test_work_that_sounds_like_a_goodbye_goes_on(workspace: Path) -> None:
    talk = _brainstorm(workspace)
    assert talk.prompt("So I need to run the tests").out.strip() == ""
    talk.answer("They pass.")
    assert _metadata(workspace)["status"] == "active"


@pytest.mark.req("SESS-005d")
def test_a_long_conversation_gets_one_offer_to_save(workspace: Path) -> None:
    (workspace / ".workspace" / "config.toml").write_text("[workspace]\noffer_after = 6\n", encoding="utf-8")
    talk = _brainstorm(workspace)
    talk.say("more", "yes")
    assert "whether to save" in talk.prompt("and more").out
    talk.answer("Shall I save?")
    assert talk.prompt("no").out.strip() == ""
    talk.answer("Fine.")
    for text in ("on", "and on", "and on and on"):
        assert "save" not in talk.prompt(text).out
        talk.answer("…")
    assert _metadata(workspace)["status"] == "active"


def _last_commit(workspace: Path) -> tuple[str, list[str]]:
    lines = git(workspace, "log", "-1", "--format=%s", "--name-only").splitlines()
    return lines[0], [line for line in lines[1:] if line]


@pytest.mark.req("SESS-006a")
def test_stop_commits_only_the_conversation_with_its_session(workspace: Path) -> None:
    (workspace / "mine.txt").write_text("mine\n", encoding="utf-8")
    git(workspace, "add", "mine.txt")
    _brainstorm(workspace)
    before = git(workspace, "rev-list", "--count", "HEAD")
    assert int(before) == 1, "no commit per message"
    cortext("stop", cwd=workspace)
    message, files = _last_commit(workspace)
    folder = _session(workspace).parent.relative_to(workspace)
    assert "API design" in message and "session state saved" in message
    assert sorted(files) == [
        f"{folder}/.session/messages.jsonl",
        f"{folder}/.session/session.json",
        f"{folder}/brainstorm.md",
    ]
    assert git(workspace, "diff", "--cached", "--name-only") == "mine.txt\n"


@pytest.mark.req("SESS-006a")
def test_a_commit_of_session_files_alone_is_a_session_update(workspace: Path) -> None:
    talk = _brainstorm(workspace)
    cortext("stop", cwd=workspace)
    talk.say("One more thing", "Sure.")
    cortext("stop", cwd=workspace)
    assert _last_commit(workspace)[0].startswith("session update: 001-brainstorm-api-design")


@pytest.mark.req("SESS-008")
def test_prune_has_a_dry_run_and_keeps_everything_readable(workspace: Path) -> None:
    talk = _brainstorm(workspace)
    talk.say(*[f"turn {number}" for number in range(8)])
    dry = cortext("prune", "001", "--keep", "4", "--dry-run", cwd=workspace)
    assert "8 messages go to the archive, 4 stay" in dry.out
    assert len(_messages(workspace)) == 12
    assert cortext("prune", "001", "--keep", "4", cwd=workspace).code == 0
    assert len(_messages(workspace)) == 4
    assert len(cortext("show", "001", "--json", cwd=workspace).json["messages"]) == 12
    assert "REST" in str(_metadata(workspace)["context_summary"])


def _texts(ran: Ran) -> list[str]:
    return [message["content"] for message in ran.json["messages"]]


@pytest.mark.req("SESS-007")
def test_a_fork_copies_the_messages_up_to_a_number(workspace: Path) -> None:
    _brainstorm(workspace).end()
    made = cortext("fork", "001", "--at", "1", "--json", cwd=workspace).json
    assert made["message_count"] == 2
    assert (
        _texts(cortext("show", made["id"], "--json", cwd=workspace))
        == _texts(cortext("show", "001-", "--json", cwd=workspace))[:2]
    )


KEY = "sk-ant-api03-" + "Zx9Qw3Er7Ty1Ui5Op2As8Df4Gh6Jk0Lz" * 2


@pytest.mark.req("SAFE-02")
def test_a_secret_never_reaches_git_and_the_session_still_resumes(workspace: Path) -> None:
    talk = _brainstorm(workspace)
    talk.say(f"my key is {KEY}, use it", "I will not repeat it.")
    done = cortext("stop", cwd=workspace)
    assert "Masked, and so not in git: 1 × anthropic" in done.out
    assert KEY not in git(workspace, "log", "-p", "--all")
    packet = cortext("resume", "1", "--print", cwd=workspace).out
    assert KEY not in packet
    assert "[masked anthropic" in packet
    assert "I will not repeat it." in packet


@pytest.mark.req("SAFE-02")
def test_a_secret_written_by_another_program_is_masked_before_commit(workspace: Path) -> None:
    _brainstorm(workspace)
    log = _session(workspace) / "messages.jsonl"
    with open(log, "a", encoding="utf-8") as file:
        file.write(
            json.dumps({"role": "user", "content": f"key: {KEY}", "timestamp": "2026-01-01T00:00:00Z", "x": 1}) + "\n"
        )
    cortext("stop", cwd=workspace)
    assert KEY not in log.read_text(encoding="utf-8")
    assert KEY not in git(workspace, "log", "-p", "--all")
    assert _messages(workspace)[-1]["x"] == 1


@pytest.mark.req("SAFE-02")
def test_unmasked_messages_can_be_kept_outside_git(workspace: Path, home: Path) -> None:
    settings = home / ".config" / "cortext"
    settings.mkdir(parents=True)
    (settings / "config.toml").write_text("[workspace]\nkeep_unmasked = true\n", encoding="utf-8")
    talk = _brainstorm(workspace)
    talk.say(f"my key is {KEY}", "ok, noted here")
    cortext("stop", cwd=workspace)
    assert KEY not in git(workspace, "log", "-p", "--all")
    kept = [
        path for path in (home / ".local/share/cortext/home").rglob("messages.jsonl") if KEY in path.read_text("utf-8")
    ]
    assert len(kept) == 1


@pytest.mark.req("SAFE-02")
def test_an_export_is_masked_unless_unmasked_is_given(workspace: Path) -> None:
    (workspace / ".workspace" / "config.toml").write_text("", encoding="utf-8")
    cortext("new", "plan", "Keys", cwd=workspace)
    log = _session(workspace) / "messages.jsonl"
    log.write_text(
        json.dumps({"role": "user", "content": f"key: {KEY}", "timestamp": "2026-01-01T00:00:00Z"}) + "\n", "utf-8"
    )
    masked = cortext("export", "001", cwd=workspace)
    assert KEY not in masked.out
    assert "masked 1 ×" in masked.err
    assert KEY in cortext("export", "001", "--unmasked", cwd=workspace).out
    assert KEY not in cortext("export", "001", "--format", "json", cwd=workspace).out


@pytest.mark.req("SAFE-04")
def test_a_repositorys_settings_are_limited_until_trusted(workspace: Path) -> None:
    config = workspace / ".workspace" / "config.toml"
    config.write_text(
        '[workspace]\nmask = false\npause_minutes = 7\n[session]\nsessions_dir = "/tmp/x"\n', encoding="utf-8"
    )
    talk = _brainstorm(workspace)
    talk.say(f"my key is {KEY}", "fine, noted here")
    assert KEY not in (_session(workspace) / "messages.jsonl").read_text(encoding="utf-8")
    trusted = cortext("trust", cwd=workspace)
    assert "workspace.mask = False" in trusted.out
    talk.say(f"again {KEY}", "fine, as you wish")
    assert KEY in (_session(workspace) / "messages.jsonl").read_text(encoding="utf-8")
    config.write_text(config.read_text(encoding="utf-8") + "# changed\n", encoding="utf-8")
    talk.say(f"once more {KEY}z", "fine, the last one")
    assert f"{KEY}z" not in (_session(workspace) / "messages.jsonl").read_text(encoding="utf-8")


@pytest.mark.req("SESS-006b")
def test_sessions_that_are_ignored_later_say_once_how_to_take_them_out_of_git(workspace: Path) -> None:
    talk = _brainstorm(workspace)
    talk.end()
    (workspace / ".gitignore").write_text(".session/\n", encoding="utf-8")
    (workspace / ".workspace/config.toml").write_text("[workspace]\npause_minutes = 600\n", encoding="utf-8")
    said = []
    for question in ("And pagination?", "And limits?"):
        talk.prompt(question)
        talk.answer("Later.")
        said.append(cortext("stop", cwd=workspace).out)
    session = _metadata(workspace)["conversation_id"]
    folder = next(workspace.glob(f"conversations/*/{session}/.session")).relative_to(workspace)
    told = f"`git rm -r --cached -- {folder}` takes them out, and they stay here"
    assert [told in " ".join(text.split()) for text in said] == [True, False], said
    git(workspace, "rm", "-qr", "--cached", "--", str(folder))
    assert (workspace / folder / "messages.jsonl").exists()
