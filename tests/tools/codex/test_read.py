"""Reading rollouts: every kind of record, and reading on from a cursor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.tools.codex.corpus import EVERYDAY, PIXEL, Rollout, everyday, provenance, read

from cortext.model.message import IMAGE, THINKING, TOOL_CALL, TOOL_RESULT, Message, Part
from cortext.model.tokens import LIMITS


def roles_and_texts(messages: list[Message]) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in messages]


@pytest.mark.req("SESS-001d", "STORE-13", "TOOL-03")
def test_all_messages_calls_and_results_are_read(tmp_path: Path) -> None:
    messages, reading = read(everyday().save(tmp_path))

    assert roles_and_texts(messages) == list(EVERYDAY)
    thought, first, second, failed, succeeded = (messages[index].parts for index in (1, 2, 3, 4, 5))
    assert thought == [Part(THINKING, text="I should read the note first."), Part("text", text="Let me look.")]
    assert first == [Part(TOOL_CALL, id="call_1", name="exec_command", input={"cmd": "cat note.txt"})]
    assert second == [Part(TOOL_CALL, id="call_2", name="read_boat", input={"path": "boat.txt"})]
    assert failed is not None and succeeded is not None
    assert (failed[0].call_id, failed[0].name, failed[0].is_error) == ("call_1", "exec_command", True)
    assert (succeeded[0].call_id, succeeded[0].name, succeeded[0].is_error) == ("call_2", "read_boat", False)
    assert all(message.model == "test-model" for message in messages if message.role == "assistant")
    assert len({message.id for message in messages}) == len(messages)
    about = reading.about
    assert (about.project, about.model, about.tools) == ("/work/boats", "test-model", ["exec_command", "read_boat"])
    assert about.created_at == "2026-11-15T02:34:30.092Z"
    assert reading.counts.skipped["event item_completed"] == 6
    assert (reading.counts.unknown, reading.counts.damaged) == ({}, {})


@pytest.mark.req("TOOL-09", "TOOL-04")
@pytest.mark.parametrize(
    ("git", "remote"),
    [
        ({"commit_hash": "ab12", "repository_url": "git@host:ann/boats.git"}, "git@host:ann/boats.git"),
        ({"repository_url": None}, ""),
        (["no object"], ""),
    ],
)
def test_the_remote_of_the_project_is_read(tmp_path: Path, git: Any, remote: str) -> None:
    rollout = Rollout(git=git)
    rollout.user("Hm.")
    messages, reading = read(rollout.save(tmp_path))
    assert (len(messages), reading.about.remote) == (1, remote)


@pytest.mark.req("STORE-13")
def test_usage_is_set_on_the_last_message_of_an_answer(tmp_path: Path) -> None:
    messages, _ = read(everyday().save(tmp_path))

    usages = [message.usage["output_tokens"] if message.usage else None for message in messages]
    assert usages == [None, None, None, 17, None, None, 5, None, 5]
    # If an answer has several messages, the tokens of each are unknown.
    assert [message.tokens for message in messages] == [None, None, None, None, None, None, 5, None, 5]


@pytest.mark.req("STORE-13")
def test_usage_in_older_files_comes_with_an_event(tmp_path: Path) -> None:
    rollout = Rollout()
    rollout.user("hello")
    rollout.says("hi")
    rollout.event("token_count", info={"last_token_usage": {"output_tokens": 9}})

    messages, _ = read(rollout.save(tmp_path))

    assert messages[-1].tokens == 9


@pytest.mark.req("COST-01")
def test_when_the_limits_of_the_subscription_are_reset_is_kept(tmp_path: Path) -> None:
    rollout = Rollout()
    rollout.turn("hello", "hi")  # the limits come after the first answer
    rollout.turn("again", "hi again")
    rollout.user("and now")
    rollout.says("later")
    window = {"window_minutes": 300, "resets_at": 1_794_740_000}
    limits = {"primary": window, "secondary": None, "odd": {"window_minutes": "x", "resets_at": 5}, "plan_type": "pro"}
    rollout.event("token_count", info={"last_token_usage": {"output_tokens": 9}}, rate_limits=limits)

    messages, _ = read(rollout.save(tmp_path))

    kept = [message.extra.get(LIMITS) if message.extra else None for message in messages if message.usage]
    assert kept == [None, {"300": 1_794_722_400, "10080": 1_795_000_000}, {"300": 1_794_740_000}]


@pytest.mark.req("STORE-13")
def test_images_become_references_and_are_not_copied(tmp_path: Path) -> None:
    rollout = Rollout()
    tag = {"type": "input_text", "text": '<image name=[Image #1] path="a.png">'}
    image = {"type": "input_image", "image_url": PIXEL, "detail": "high"}
    content = [tag, image, {"type": "input_text", "text": "</image>"}, {"type": "input_text", "text": "look at this"}]
    kinds = provenance("user.text", "user.image", "user.text", "user.text")
    prompt_id = rollout.item("msg", {"type": "message", "role": "user", "content": content, **kinds})
    rollout.call("call_1", "view_image", '{"path": "a.png"}')
    result_id = rollout.result("call_1", [{"type": "input_text", "text": "here"}, image])
    linked = {"type": "input_image", "image_url": "https://example.invalid/b.png"}
    rollout.item("msg", {"type": "message", "role": "user", "content": [linked], **provenance("user.image")})
    generated_id = rollout.item(
        "ig", {"type": "image_generation_call", "status": "completed", "revised_prompt": "a heron"}
    )
    rollout.lines[-1] = rollout.lines[-1].replace(b'"revised_prompt"', b'"result":"iVBORw0KGgo","revised_prompt"')

    messages, _ = read(rollout.save(tmp_path))

    key = rollout.thread
    assert messages[0].content == "look at this"
    assert messages[0].parts is not None and messages[0].parts[0] == Part(
        IMAGE, ref=f"{key}#{prompt_id}/1", media_type="image/png", name="a.png"
    )
    assert messages[2].parts == [
        Part(TOOL_RESULT, call_id="call_1", name="view_image", output="here"),
        Part(IMAGE, ref=f"{key}#{result_id}/1", media_type="image/png"),
    ]
    assert messages[3].parts == [Part(IMAGE, ref="https://example.invalid/b.png")]
    assert messages[4].parts == [
        Part(TOOL_CALL, id=generated_id, name="image_generation", input={"prompt": "a heron"}),
        Part(IMAGE, ref=f"{key}#{generated_id}/0", media_type="image/png"),
    ]
    assert b"iVBORw0KGgo" not in msgspec.json.encode(messages)


@pytest.mark.req("STORE-13")
def test_tool_calls_of_every_kind_are_read(tmp_path: Path) -> None:
    rollout = Rollout()
    rollout.item("ctc", {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": "*** Begin"})
    rollout.item("cto", {"type": "custom_tool_call_output", "call_id": "c1", "output": "Done"})
    action: dict[str, Any] = {"type": "exec", "command": ["ls", "-l"]}
    rollout.item("lsh", {"type": "local_shell_call", "call_id": "c2", "status": "completed", "action": action})
    rollout.result("c2", {"content": "bad", "success": False})
    search = {"type": "search", "query": "weather"}
    web = rollout.item("wsc", {"type": "web_search_call", "status": "completed", "action": search})
    rollout.item("tsc", {"type": "tool_search_call", "call_id": "c3", "arguments": {"query": "boats"}})
    rollout.item("tso", {"type": "tool_search_output", "call_id": "c3", "tools": [{"name": "sail"}]})
    rollout.add(
        "response_item",
        {
            "type": "function_call",
            "name": "spawn_agent",
            "namespace": "multi_agent_v1",
            "arguments": "not JSON",
            "call_id": "c4",
        },
    )

    messages, _ = read(rollout.save(tmp_path))

    parts = [part for message in messages for part in message.parts or ()]
    calls = [(part.id, part.name, part.input) for part in parts if part.type == TOOL_CALL]
    assert calls == [
        ("c1", "apply_patch", "*** Begin"),
        ("c2", "local_shell", action),
        (web, "web_search", search),
        ("c3", "tool_search", {"query": "boats"}),
        ("c4", "spawn_agent", "not JSON"),
    ]
    assert parts[-1].data == {"namespace": "multi_agent_v1"}
    results = [(part.name, part.output, part.is_error) for part in parts if part.type == TOOL_RESULT]
    assert results == [
        ("apply_patch", "Done", False),
        ("local_shell", "bad", True),
        ("tool_search", '[{"name":"sail"}]', False),
    ]


@pytest.mark.req("SESS-001d", "SAFE-03")
def test_text_that_codex_inserted_is_not_the_users(tmp_path: Path) -> None:
    rollout = Rollout()
    rollout.insert("# AGENTS.md instructions for /work/boats\n…", "agents_md.instructions")
    rollout.insert("<turn_aborted>…", "generic.turn_aborted")
    rollout.insert("You are in Default mode", "collaboration_mode.instructions", role="developer")
    rollout.user("$workspace-brainstorm API design")
    rollout.insert("<skill>\n<name>workspace-brainstorm</name>\n…</skill>", "skills.selected_skill_instructions")
    rollout.insert("<user_shell_command>ls</user_shell_command>", "shell.user_command")
    rollout.user("The command\n\n[RESUMED CONVERSATION]\n…")
    rollout.insert("[RESUMED CONVERSATION] by a hook", "hooks.additional_context", role="developer")
    rollout.user("<environment_context> is what I want to talk about")

    messages, reading = read(rollout.save(tmp_path))

    assert [(message.role, message.content, message.aside) for message in messages] == [
        ("user", "$workspace-brainstorm API design", False),
        ("user", "<user_shell_command>ls</user_shell_command>", False),
        ("user", "The command\n\n[RESUMED CONVERSATION]\n…", True),
        ("user", "[RESUMED CONVERSATION] by a hook", True),
        ("user", "<environment_context> is what I want to talk about", False),
    ]
    assert [message.extra for message in messages if message.aside] == [{"resume_block": True}] * 2
    assert reading.about.command == "/workspace.brainstorm"
    assert reading.counts.skipped["skills.selected_skill_instructions"] == 1


def test_inserted_text_in_older_files_is_known_by_its_beginning(tmp_path: Path) -> None:
    rollout = Rollout()
    for text in ("<environment_context>…", "<user_instructions>…", "# AGENTS.md instructions for /x", "hello"):
        content = [{"type": "input_text", "text": text}]
        rollout.item("msg", {"type": "message", "role": "user", "content": content})

    messages, reading = read(rollout.save(tmp_path))

    assert [message.content for message in messages] == ["hello"]
    assert reading.counts.skipped["inserted by Codex"] == 3


@pytest.mark.req("TOOL-03")
def test_the_oldest_files_without_payloads_are_read(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"id": Rollout().thread, "timestamp": "2025-05-07T17:24:21.123Z", "instructions": None, "git": {}},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "function_call", "name": "shell", "arguments": '{"command":["ls"]}', "call_id": "c1"},
        {"type": "function_call_output", "call_id": "c1", "output": '{"output":"a.txt","metadata":{"exit_code":0}}'},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]},
    ]
    path = tmp_path / ".codex/sessions/2025/05/07" / f"rollout-2025-05-07T17-24-21-{Rollout().thread}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")

    messages, reading = read(path)

    assert [message.role for message in messages] == ["user", "assistant", "tool", "assistant"]
    assert len({message.id for message in messages}) == 4
    assert reading.about.created_at == "2025-05-07T17:24:21.123Z"
    assert reading.counts.unknown == {}


def test_the_order_of_keys_does_not_matter(tmp_path: Path) -> None:
    rollout = everyday()
    expected, _ = read(rollout.save(tmp_path / "a"))
    rollout.lines = [json.dumps(dict(reversed(json.loads(line).items()))).encode() for line in rollout.lines]

    messages, reading = read(rollout.save(tmp_path / "b"))

    assert messages == expected
    assert (reading.counts.unknown, reading.counts.damaged) == ({}, {})


def test_a_compaction_keeps_all_messages_and_gives_a_summary(tmp_path: Path) -> None:
    rollout = everyday()
    rollout.says("We looked at boats.", metadata={"client_authored": False, "compaction_output": True})
    text = "Another language model started to solve this problem … use it for your own analysis:\nWe looked at boats."
    rollout.add("compacted", {"message": text, "replacement_history": [{"type": "message", "role": "user"}]})
    rollout.event("item_completed", item={"type": "ContextCompaction"})

    messages, reading = read(rollout.save(tmp_path))

    assert len(messages) == 9
    assert reading.about.summary == "We looked at boats."
    assert reading.counts.skipped["summary of a compaction"] == reading.counts.skipped["compacted"] == 1


@pytest.mark.req("COST-01")
def test_the_call_that_made_a_summary_is_kept_as_an_aside(tmp_path: Path) -> None:
    rollout = everyday()
    rollout.says("We looked at boats.", metadata={"client_authored": False, "compaction_output": True})
    rollout.usage(40)
    rollout.add("compacted", {"message": "We looked at boats.", "replacement_history": []})
    rollout.turn("And now?", "Herons.")

    messages, _ = read(rollout.save(tmp_path))

    (summary,) = [message for message in messages if message.aside and message.usage]
    assert (summary.content, (summary.usage or {})["output_tokens"]) == ("We looked at boats.", 40)
    assert [message.content for message in messages[-2:]] == ["And now?", "Herons."]
    assert messages[-2].parent in (None, ""), "it follows what was said before, not the summary"


def test_thinking_without_an_answer_becomes_a_message(tmp_path: Path) -> None:
    rollout = Rollout()
    rollout.user("hello")
    thought = rollout.think("Where was I?")
    rollout.think("")  # encrypted
    rollout.event("turn_aborted", reason="interrupted")
    rollout.user("go on")

    messages, reading = read(rollout.save(tmp_path))

    assert [message.role for message in messages] == ["user", "assistant", "user"]
    assert (messages[1].id, messages[1].parts) == (thought, [Part(THINKING, text="Where was I?")])
    assert reading.counts.skipped["encrypted reasoning"] == 1


def test_messages_of_subagents_are_asides(tmp_path: Path) -> None:
    source = {"subagent": {"thread_spawn": {"parent_thread_id": "p", "depth": 1}}}
    rollout = Rollout(thread_source="subagent", source=source, subagent_history_start_ordinal=9)
    rollout.turn("the parent said this", "and heard that")
    assert rollout.ordinal == 10
    rollout.user("sub, do it")
    rollout.item(
        "am", {"type": "agent_message", "author": "/root", "content": [{"type": "input_text", "text": "psst"}]}
    )

    messages, reading = read(rollout.save(tmp_path))

    assert [(message.content, message.aside) for message in messages] == [("sub, do it", True), ("psst", True)]
    assert reading.counts.skipped["inherited from the parent thread"] == 2


# ── reading on from a cursor ─────────────────────────────────────────────────────────────────────────


@pytest.mark.req("TOOL-03")
def test_a_cursor_gives_nothing_new_or_the_whole_changed_file(tmp_path: Path) -> None:
    rollout = everyday()
    path = rollout.save(tmp_path)
    _, reading = read(path)

    nothing, unchanged = read(path, reading.cursor)
    assert nothing == []
    assert unchanged.about.model == "test-model"
    assert unchanged.cursor == reading.cursor

    other = everyday()
    other.lines[7] = other.lines[7].replace(b"note.txt", b"memo.txt")
    other.turn("more", "of it")
    path.write_bytes(other.data[: len(rollout.data) - 10])
    assert len(read(path, reading.cursor)[0]) > 0  # shorter
    rewritten = Rollout(cwd="/elsewhere")
    rewritten.turn("x" * len(rollout.data), "y")
    path.write_bytes(rewritten.data)
    assert len(read(path, reading.cursor)[0]) == 2
    for nonsense in ({}, {"pages": 3}, {"pages": {"x": [1]}}, {"pages": {rollout.thread: ["a", "b", "c"]}}):
        assert len(read(path, nonsense)[0]) == 2


def test_a_result_finds_its_tool_name_in_an_earlier_reading(tmp_path: Path) -> None:
    rollout = Rollout()
    rollout.call("call_1", "read_boat")
    _, reading = read(rollout.save(tmp_path))
    rollout.result("call_1", "green")

    messages, _ = read(rollout.save(tmp_path), reading.cursor)

    assert messages[0].parts is not None and messages[0].parts[0].name == "read_boat"
