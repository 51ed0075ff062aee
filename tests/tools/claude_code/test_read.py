"""Reading: every kind of record, branches, and subagents."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from tests.support.cli import cortext
from tests.tools.claude_code.corpus import (
    FULL_CONVERSATION,
    KEY,
    PIXEL,
    PROJECT,
    Script,
    call,
    full_conversation,
    read,
    short,
)

from cortext.model.message import Message, instructions_of
from cortext.model.threads import thread
from cortext.tools.base import Transcript
from cortext.tools.claude_code.read import ClaudeReading

# ── messages ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("TOOL-01", "SESS-001d", "STORE-13")
def test_every_kind_of_record_is_known(tmp_path: Path) -> None:
    messages, reading = read(full_conversation().save(tmp_path))

    assert [short(message) for message in messages] == FULL_CONVERSATION
    assert reading.counts.unknown == reading.counts.damaged == {}
    assert reading.counts.skipped["attachment"] == 3
    assert reading.counts.skipped["api-request-blob"] == reading.counts.skipped["progress"] == 1
    assert reading.counts.skipped["meta"] == 2
    assert reading.counts.skipped["system/compact_boundary"] == reading.counts.skipped["compact summary"] == 1


@pytest.mark.req("STORE-13")
def test_thinking_calls_results_and_images_are_kept(tmp_path: Path) -> None:
    messages, _ = read(full_conversation().save(tmp_path))

    assert [part.text for part in messages[1].parts_of("thinking")] == ["Which one?"]
    (tool_call,) = messages[3].parts_of("tool_call")
    assert (tool_call.id, tool_call.name, tool_call.input) == ("toolu_1", "Bash", {"command": "ls songs"})
    (result,) = messages[5].parts_of("tool_result")
    assert (result.call_id, result.name, result.is_error) == ("toolu_1", "Bash", False)
    (image,) = messages[13].parts_of("image")
    assert (image.ref, image.media_type) == (f"{KEY}#{messages[13].id}/0", "image/png")
    assert PIXEL not in repr(messages)
    assert all(message.model == "claude-opus-5-5" for message in messages if message.role == "assistant")
    assert len({message.id for message in messages}) == len(messages)


def test_tokens_of_an_answer_are_counted_once(tmp_path: Path) -> None:
    script = Script()
    script.user("go")
    script.assistant("one", answer="msg_x", tokens=2)
    script.assistant("two", answer="msg_x", tokens=2)
    script.assistant("three", answer="msg_x", tokens=90)
    script.assistant("other", answer="msg_y", tokens=7)

    messages, _ = read(script.save(tmp_path))

    assert [message.tokens for message in messages] == [None, 2, None, 88, 7]
    assert messages[1].usage == {"input_tokens": 10, "output_tokens": 2}
    assert messages[3].usage == {"output_tokens": 88}


def test_title_model_project_command_and_tools_are_found(tmp_path: Path) -> None:
    _, reading = read(full_conversation().save(tmp_path))

    about = reading.about
    assert (about.title, about.model, about.project) == ("Shanties", "claude-opus-5-5", PROJECT)
    assert (about.command, about.summary) == ("/workspace.brainstorm", "Summary: they sang.")
    assert about.created_at == "2026-11-01T10:00:01.000Z"
    assert about.tools == ["Bash", "Read"]


def test_a_summary_is_the_title_only_of_its_own_conversation(tmp_path: Path) -> None:
    script = Script()
    leaf = script.user("hello")
    script.raw({"type": "summary", "summary": "Not this one", "leafUuid": "11111111-0000-4000-8000-000000000000"})
    script.raw({"type": "summary", "summary": "A greeting", "leafUuid": leaf})

    _, reading = read(script.save(tmp_path))
    assert reading.about.title == "A greeting"

    script.raw({"type": "custom-title", "customTitle": "Mine", "sessionId": KEY})
    script.raw({"type": "ai-title", "aiTitle": "Guess", "sessionId": KEY})
    _, reading = read(script.save(tmp_path))
    assert reading.about.title == "Mine"


def test_built_in_commands_and_api_errors_are_asides(tmp_path: Path) -> None:
    messages, _ = read(full_conversation().save(tmp_path))

    asides = [short(message) for message in messages if message.aside]
    assert asides == [("user", "/compact"), ("system", "Compacted"), ("system", "API Error: 500")]


def test_records_of_role_user_tell_who_wrote_them(tmp_path: Path) -> None:
    script = Script()
    script.user("<bash-input>git status</bash-input>")
    script.user("<task-notification>done</task-notification>", origin={"kind": "task-notification"})
    script.record("system", {"subtype": "local_command", "content": "<command-name>/context</command-name>"})
    script.user("<b>not a command</b>")
    script.user("<command-message>init is running…</command-message>\n<command-name>init</command-name>")
    script.user([{"type": "text", "text": "in a block"}], origin={"kind": "human"})

    messages, reading = read(script.save(tmp_path))

    assert [(message.content, message.aside, message.extra) for message in messages] == [
        ("!git status", False, None),
        ("<task-notification>done</task-notification>", False, None),
        ("/context", True, None),
        ("<b>not a command</b>", False, None),
        ("/init", False, None),
        ("in a block", False, None),
    ]
    assert reading.about.command == ""


@pytest.mark.req("SAFE-03")
@pytest.mark.parametrize("meta", [False, True])
def test_our_resume_block_is_an_aside(tmp_path: Path, meta: bool) -> None:
    script = Script()
    script.user("Be brief.\n\n[RESUMED CONVERSATION]\nTitle: x\n[END RESUMED CONTEXT]", isMeta=meta)
    script.assistant("I am back.")
    script.user("What is a [RESUMED CONVERSATION]?")

    messages, _ = read(script.save(tmp_path))

    assert (messages[0].aside, messages[0].extra) == (True, {"resume_block": True})
    assert [short(message)[1] for message in thread(messages)] == ["I am back.", "What is a [RESUMED CONVERSATION]?"]


def test_several_results_in_one_record_become_messages(tmp_path: Path) -> None:
    script = Script()
    script.assistant(call("a"), call("b"))
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    identity = script.user(
        [
            {"type": "tool_result", "tool_use_id": "a", "content": "one"},
            {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "two"}, picture]},
            {"type": "text", "text": "and now?"},
        ]
    )

    messages, _ = read(script.save(tmp_path))

    assert [short(message) for message in messages[1:]] == [("tool", "one"), ("tool", "two"), ("user", "and now?")]
    assert [message.id for message in messages[1:]] == [identity, f"{identity}/1", f"{identity}/2"]
    assert [part.ref for part in messages[2].parts_of("image")] == [f"{KEY}#{identity}/0"]


def test_unknown_blocks_are_counted_and_their_text_is_kept(tmp_path: Path) -> None:
    script = Script()
    script.assistant(
        {"type": "hologram", "text": "shimmer"}, {"type": "server_tool_use", "id": "s", "name": "web_search"}
    )
    script.user([{"type": "tool_result", "tool_use_id": "s", "content": [{"type": "smell", "text": "rose"}]}])

    messages, reading = read(script.save(tmp_path))

    assert messages[0].parts is not None
    assert messages[0].parts[0].text == "shimmer"
    assert messages[1].text == "rose"
    assert reading.counts.unknown == {"block hologram": 1, "result smell": 1}


# ── branches ────────────────────────────────────────────────────────────────────────────────────────


def test_parallel_calls_are_not_a_branch(tmp_path: Path) -> None:
    for order in ("together", "one by one"):
        script = Script()
        script.user("look")
        one = script.assistant(call("a"), answer="msg_x")
        if order == "together":
            two = script.assistant(call("b"), answer="msg_x")
            script.result("b", "second", parent=two)
            script.result("a", "first", parent=one)
        else:
            script.result("a", "first", parent=one, chain=False)
            two = script.assistant(call("b"), answer="msg_x")
            script.result("b", "second", parent=two)
        script.assistant("done", answer="msg_z")

        messages, _ = read(script.save(tmp_path))

        assert not any(message.parent for message in messages), order
        assert len(thread(messages)) == len(messages) == 6


def test_going_back_starts_a_branch(tmp_path: Path) -> None:
    script = Script()
    script.user("one")
    fork = script.assistant("first answer")
    script.attachment(type="date")
    script.user("two")
    script.assistant("second answer")
    script.attachment(type="date")
    script.user("two, again", parent=fork)
    script.assistant("another answer")

    messages, _ = read(script.save(tmp_path))

    assert [message.parent for message in messages] == ["", "", "", "", fork, ""]
    assert [message.content for message in thread(messages)] == ["one", "first answer", "two, again", "another answer"]


def test_going_back_before_the_first_message_starts_a_new_root(tmp_path: Path) -> None:
    script = Script()
    script.user("wrong from the start")
    script.assistant("oh")
    script.user("another beginning", parentUuid=None)
    script.assistant("better")

    messages, _ = read(script.save(tmp_path))

    assert len(messages) == 4
    assert [message.content for message in thread(messages)] == ["another beginning", "better"]


def test_two_writers_make_two_branches(tmp_path: Path) -> None:
    script = Script()
    fork = script.user("start")
    left = script.assistant("left 1", parent=fork)
    right = script.assistant("right 1", parent=fork)
    left = script.user("left 2", parent=left)
    right = script.user("right 2", parent=right)
    script.assistant("left 3", parent=left)
    script.assistant("right 3", parent=right)

    messages, _ = read(script.save(tmp_path))

    assert len(messages) == 7
    assert [message.content for message in thread(messages)] == ["start", "right 1", "right 2", "right 3"]


def test_messages_of_subagents_are_asides(tmp_path: Path) -> None:
    script = Script()
    script.user("look")
    script.user("side prompt", parent=None, chain=False, isSidechain=True)
    script.assistant("main answer")
    transcript = script.save(tmp_path)
    subagent = Script("agent-a1")
    subagent.user("dig", isSidechain=True, agentId="a1")
    subagent.assistant("dug", isSidechain=True, agentId="a1")
    folder = tmp_path / KEY / "subagents"
    folder.mkdir(parents=True)
    (folder / "agent-a1.jsonl").write_bytes(subagent.data())
    (folder / "agent-a1.meta.json").write_text("{}", encoding="utf-8")

    messages, reading = read(transcript)

    assert [message.content for message in messages] == ["look", "side prompt", "main answer", "dig", "dug"]
    assert [message.aside for message in messages] == [False, True, False, True, True]

    subagent.user("more", isSidechain=True)
    (folder / "agent-a1.jsonl").write_bytes(subagent.data())
    messages, _ = read(transcript, reading.cursor)
    assert [message.content for message in messages] == ["more"]


def test_a_repeated_record_is_read_once(tmp_path: Path) -> None:
    script = Script()
    script.user("hello")
    script.raw(script.lines[-1])

    messages, reading = read(script.save(tmp_path))

    assert len(messages) == 1
    assert reading.counts.skipped == {"repeated": 1}


def test_the_cursor_is_set_only_at_the_end(tmp_path: Path) -> None:
    transcript = Transcript(tool="claude", key=KEY, path=full_conversation().save(tmp_path).path, project="/elsewhere")
    reading = ClaudeReading(transcript)
    iterator = iter(reading)

    assert isinstance(next(iterator), Message)
    assert reading.cursor is None
    assert reading.about.project == "/elsewhere"


def _with_instructions() -> Script:
    """Return a conversation in which a command expands, and a skill that the model calls beside another tool."""
    script = Script()
    typed = "<command-message>heron</command-message>\n<command-name>/heron</command-name>\n"
    script.user(f"{typed}<command-args>the pond</command-args>")
    script.user([{"type": "text", "text": "Use a tally of five."}], isMeta=True)
    script.attachment(type="skill_listing", content="wading")
    script.attachment(type="command_permissions", allowedTools=[])
    script.assistant("Counted.")
    script.user("<local-command-caveat>…</local-command-caveat>", isMeta=True)
    script.user("Please wade.")
    one = script.assistant(call("toolu_1", "Skill", skill="wading"), answer="msg_a")
    two = script.assistant(call("toolu_2"), answer="msg_a")
    launched = script.result("toolu_1", "Launching skill: wading", parent=one)
    text = "Base directory for this skill: /home/x/.claude/skills/wading\n\n# Wading\n\nStep slowly."
    script.user([{"type": "text", "text": text}], isMeta=True, sourceToolUseID="toolu_1", parent=launched)
    script.result("toolu_2", "a.txt", parent=two)
    script.assistant("Waded.")
    return script


@pytest.mark.req("TRUE-03")
def test_instructions_of_commands_and_skills_are_messages_of_their_own(tmp_path: Path) -> None:
    messages, reading = read(_with_instructions().save(tmp_path))

    told = [message for message in messages if instructions_of(message)]
    assert [(message.role, instructions_of(message)) for message in told] == [
        ("system", "/heron"),
        ("system", "skill wading"),
    ]
    assert "Use a tally of five." in told[0].text and "Step slowly." in told[1].text
    assert thread(messages) == messages, "no branch"
    assert reading.about.notes == 2, "the caveat and the list of skills; no model gets the permissions"


@pytest.mark.req("TRUE-03")
def test_instructions_and_notes_are_the_same_in_steps(tmp_path: Path) -> None:
    script = _with_instructions()
    whole, reading = read(script.save(tmp_path))
    steps: list[Message] = []
    cursor = None
    for end in range(1, len(script.lines) + 1):
        part = Script()
        part.lines = script.lines[:end]
        added, step = read(part.save(tmp_path), cursor)
        steps, cursor = [*steps, *added], step.cursor
    assert steps == whole and step.about.notes == reading.about.notes


@pytest.mark.req("TRUE-03", "TOOL-03")
def test_an_older_store_gets_no_late_instructions() -> None:
    """Read again from its start, a transcript adds nothing in the middle of what is stored; then it goes on."""
    home = Path(os.environ["HOME"])
    script = _with_instructions()
    folder = home / ".claude" / "projects" / "-work-sea-shanties"
    folder.mkdir(parents=True)
    script.save(folder)
    assert cortext("import", "--from", "claude").code == 0
    shown = cortext("show", f"claude-{KEY}").out
    assert "system (skill wading)" in shown and "Step slowly." not in shown, "folded"
    (log,) = (home / ".local/share/cortext").rglob("messages.jsonl")
    older = [line for line in log.read_text(encoding="utf-8").splitlines() if '"instructions"' not in line]
    log.write_text("".join(f"{line}\n" for line in older), encoding="utf-8")
    shutil.rmtree(home / ".cache" / "cortext")
    script.user("<command-message>heron</command-message>\n<command-name>/heron</command-name>")
    script.user([{"type": "text", "text": "Use a tally of six."}], isMeta=True)
    script.assistant("Counted again.")
    script.save(folder)

    assert cortext("import", "--from", "claude").code == 0

    stored = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    added = [message.get("content") for message in stored[len(older) :]]
    assert added == ["/heron", "Use a tally of six.", "Counted again."]
    assert not [message for message in stored[len(older) :] if message.get("parent")]
