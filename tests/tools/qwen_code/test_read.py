"""What reading a session of Qwen Code returns: the typed words, the current branch, and nothing of other tools."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tools.claude_code import corpus as claude
from tests.tools.qwen_code.corpus import HOOK, KEY, RESUMED, Chat, call, everyday, text

from cortext.model.message import BEGINNING, Message, Part
from cortext.model.threads import thread
from cortext.tools.claude_code.adapter import ClaudeCode
from cortext.tools.qwen_code.adapter import QwenCode
from cortext.tools.qwen_code.write import CALLS

pytestmark = pytest.mark.req("TOOL-03", "SESS-001d")


def read(home: Path, chat: Chat) -> list[Message]:
    chat.save(home)
    tool = QwenCode(str(home), {})
    (transcript,) = tool.transcripts()
    return list(tool.read(transcript))


def test_what_a_session_says_about_itself(tmp_path: Path) -> None:
    everyday().save(tmp_path)
    tool = QwenCode(str(tmp_path), {})
    (transcript,) = tool.transcripts("/work/boats")
    reading = tool.read(transcript)
    messages = list(reading)

    about = reading.about
    assert (about.title, about.model, about.project) == ("The heron", "test-model", "/work/boats")
    assert (about.command, about.summary) == ("/workspace.plan", "They talked.")
    assert (about.created_at, about.tools) == ("2026-11-17T12:00:00.419Z", ["run_shell_command"])
    assert messages[1].parts == [
        Part("thinking", text="hm"),
        Part("text", text="Let me look."),
        Part("tool_call", id="c1", name="run_shell_command", input={"command": "cat note.txt"}),
        Part("tool_call", id="c2", name="run_shell_command", input={"command": "cat gone.txt"}),
    ]
    assert (messages[1].tokens, messages[3].parts_of("tool_result")[0].is_error) == (5, True)
    assert [message.extra for message in messages if message.extra] == [
        {"attachment": "a.txt"},
        {"aside_of": "notice"},
    ]


def test_our_context_block_is_an_aside(tmp_path: Path) -> None:
    chat = Chat()
    chat.user("go on", HOOK.format(RESUMED), systemPayload={"displayText": "go on", "hookContext": RESUMED})
    chat.user(RESUMED)
    chat.answer(text("Going on."))

    messages = read(tmp_path, chat)

    assert [message.content for message in thread(messages)] == ["go on", "Going on."]
    asides = [message for message in messages if message.aside]
    assert [message.extra for message in asides] == [{"resume_block": True}] * 2
    assert len({message.id for message in messages}) == 4


def test_after_a_rewind_only_the_new_branch_is_the_conversation(tmp_path: Path) -> None:
    chat = Chat()
    chat.user("one")
    kept = chat.answer(text("two"))
    chat.user("three")
    chat.answer(text("four"))
    cut = len(chat.records)
    chat.last = kept
    chat.system("rewind", truncatedCount=1)
    chat.user("five")
    chat.last = None
    chat.system("rewind", truncatedCount=3)
    chat.user("six")

    messages = read(tmp_path, chat)

    assert [message.parent for message in messages] == ["", "", "", "", kept, BEGINNING]
    assert [message.content for message in thread(messages)] == ["six"]

    # A reading that begins between the branches finds the same parents.
    tool = QwenCode(str(tmp_path), {})
    path = chat.save(tmp_path)
    path.write_bytes(b"".join(line + b"\n" for line in chat.lines[:cut]))
    (transcript,) = tool.transcripts()
    first = tool.read(transcript)
    before = list(first)
    chat.save(tmp_path)
    (transcript,) = tool.transcripts()
    assert [*before, *tool.read(transcript, first.cursor)] == messages


def test_it_says_what_is_not_sent_again(tmp_path: Path) -> None:
    tool = QwenCode(str(tmp_path), {})
    chat = Chat()
    chat.user("one")
    said = chat.user("by voice", subtype="realtime_message")
    chat.answer(text("two"))
    chat.save(tmp_path)
    (transcript,) = tool.transcripts()
    withheld = tool.withheld(transcript)
    assert withheld is not None and withheld.messages == {CALLS: {said}}

    chat.system("chat_compression", compressedHistory=[])
    chat.user("three")
    chat.save(tmp_path)
    assert tool.withheld(transcript) is None


def test_claude_code_and_qwen_code_do_not_take_each_others_files(tmp_path: Path) -> None:
    qwen = everyday().save(tmp_path)
    other = tmp_path / f"{claude.KEY}.jsonl"
    other.write_bytes(b"".join(line + b"\n" for line in claude.full_conversation().lines))

    found = QwenCode(str(tmp_path), {}).transcript_at(str(qwen))
    assert found is not None and found.key == KEY
    assert ClaudeCode(str(tmp_path), {}).transcript_at(str(qwen)) is None
    assert QwenCode(str(tmp_path), {}).transcript_at(str(other)) is None
    assert ClaudeCode(str(tmp_path), {}).transcript_at(str(other)) is not None


def test_folders_that_the_environment_names(tmp_path: Path) -> None:
    everyday().save(tmp_path)
    moved = QwenCode("/nowhere", {"QWEN_HOME": str(tmp_path / ".qwen")})
    assert [found.key for found in moved.transcripts("/work/boats")] == [KEY]
    runtime = QwenCode("/nowhere", {"QWEN_RUNTIME_DIR": str(tmp_path / ".qwen")})
    assert [found.key for found in runtime.transcripts("/work/boats")] == [KEY]


def test_a_written_session_is_one_line_for_each_record_to_nodejs(tmp_path: Path) -> None:
    words = "line\u2028separator\u2029"
    written = QwenCode(str(tmp_path), {}).write(
        [Message(role="user", content=words, id="m1"), Message(role="assistant", content="Fine.", id="m2")],
        project=str(tmp_path),
        title=words,
    )
    lines = Path(written.path).read_text(encoding="utf-8")
    assert "\u2028" not in lines and "\u2029" not in lines
    assert lines.count("\n") == 3


@pytest.mark.req("TOOL-05")
def test_a_prompt_is_reported_as_it_was_typed(tmp_path: Path) -> None:
    tool = QwenCode(str(tmp_path), {})
    base = {"session_id": KEY, "hook_event_name": "UserPromptSubmit", "cwd": "/work/boats"}
    marked = "Plan it.\n\n<!-- cortext:command workspace.plan -->geese<!-- cortext:end -->\n"
    for payload in ({"prompt": "Plan it.", "submitted_prompt": "/workspace.plan geese"}, {"prompt": marked}):
        event = tool.hook_event({**base, **payload})
        assert event is not None
        assert (event.kind, event.command, event.arguments) == ("prompt", "workspace.plan", "geese")
    assert '"additionalContext":"kept"' in tool.hook_answer(base, "kept")
    assert tool.hook_answer({**base, "hook_event_name": "Stop"}, "kept") == ""


@pytest.mark.req("TOOL-05")
def test_it_says_why_hooks_would_not_run(tmp_path: Path) -> None:
    project, settings = tmp_path / "p", tmp_path / ".qwen" / "settings.json"
    settings.parent.mkdir()
    tool = QwenCode(str(tmp_path), {})
    assert tool.hooks_off(str(project)) == []
    settings.write_text('{"disableAllHooks": true, "security": {"folderTrust": {"enabled": true}}}', encoding="utf-8")
    assert [reason for reason, _ in tool.hooks_off(str(project))] == [
        f"`disableAllHooks` is true in {settings}",
        "it does not trust this folder",
    ]
    settings.write_text('{"security": {"folderTrust": {"enabled": true}}}', encoding="utf-8")
    rules = settings.with_name("trustedFolders.json")
    rules.write_text(f'{{"{tmp_path}": "TRUST_FOLDER"}}', encoding="utf-8")
    assert tool.hooks_off(str(project)) == []


def test_calls_that_ended_in_an_error_are_marked(tmp_path: Path) -> None:
    chat = Chat()
    chat.user("try")
    chat.answer(call("c1", "sleep 9"))
    chat.result("c1", {"output": "[Operation Cancelled]"}, "cancelled")
    result = read(tmp_path, chat)[-1].parts_of("tool_result")[0]
    assert (result.is_error, result.name, result.output) == (True, "run_shell_command", "[Operation Cancelled]")
