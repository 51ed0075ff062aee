"""What reading and writing a session of Pi does that the conformance suite does not cover."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.tools.pi.corpus import KEY, NAME, Chat, call, everyday, text

from cortext.model.message import BEGINNING, Message, Part
from cortext.model.threads import thread
from cortext.model.turns import essence
from cortext.tools.base import CommandFile
from cortext.tools.pi.adapter import Pi
from cortext.tools.pi.write import REMOVED, REPLACED

pytestmark = pytest.mark.req("TOOL-03", "SESS-001d", "SESS-004d")


def read(home: Path, chat: Chat) -> list[Message]:
    chat.save(home)
    tool = Pi(str(home), {})
    (transcript,) = tool.transcripts()
    return list(tool.read(transcript))


def test_what_a_session_says_about_itself(tmp_path: Path) -> None:
    everyday().save(tmp_path)
    tool = Pi(str(tmp_path), {})
    (transcript,) = tool.transcripts("/work/boats")
    reading = tool.read(transcript)
    messages = list(reading)

    about = reading.about
    assert (about.title, about.model, about.project) == ("The heron", "test-model", "/work/boats")
    assert (about.command, about.summary) == ("/workspace.plan", "They talked.")
    assert (about.created_at, about.tools) == ("2026-11-17T12:00:00.000Z", ["bash"])
    assert (messages[1].tokens, messages[3].parts_of("tool_result")[0].is_error) == (5, True)
    assert [part.ref for message in messages for part in message.parts_of("image")] == [f"{KEY}#00000011/1"]
    assert not any(message.extra for message in messages), "nothing reads who else wrote a message"


def test_the_last_entry_is_the_end_of_the_conversation(tmp_path: Path) -> None:
    chat = Chat()
    first = chat.user("one")
    chat.answer(text("left"))
    cut = len(chat.entries)
    chat.last = first
    chat.add("branch_summary", fromId="00000002", summary="They went left.")
    chat.answer(text("right"))
    chat.last = None
    chat.user("another root")

    messages = read(tmp_path, chat)

    assert [message.parent for message in messages] == ["", "", first, "", BEGINNING]
    assert [message.content for message in thread(messages[:-1])] == ["one", "They went left.", "right"]
    assert [message.content for message in thread(messages)] == ["another root"]

    # A reading that begins between the branches finds the same parents.
    tool = Pi(str(tmp_path), {})
    path = chat.save(tmp_path)
    path.write_bytes(b"".join(line + b"\n" for line in chat.lines[:cut]))
    (transcript,) = tool.transcripts()
    first_reading = tool.read(transcript)
    before = list(first_reading)
    chat.save(tmp_path)
    (transcript,) = tool.transcripts()
    assert [*before, *tool.read(transcript, first_reading.cursor)] == messages


def test_interrupted_answers_and_hidden_commands_are_kept_beside_the_conversation(tmp_path: Path) -> None:
    chat = Chat()
    chat.user("one")
    chat.answer(text("tw"), stop="aborted")
    chat.message("bashExecution", command="pwd", output="/", excludeFromContext=True)
    chat.user("[RESUMED CONVERSATION]\nwhat was said before")
    chat.answer(text("two"))

    messages = read(tmp_path, chat)

    assert [message.content for message in thread(messages)] == ["one", "two"]
    assert [(message.partial, message.aside) for message in messages] == [
        (False, False),
        (True, False),
        (False, True),
        (False, True),
        (False, False),
    ]


def test_sessions_of_the_first_version_have_no_ids(tmp_path: Path) -> None:
    chat = Chat()
    chat.user("one")
    chat.answer(text("two"))
    for entry in chat.entries[1:]:
        del entry["id"], entry["parentId"]

    messages = read(tmp_path, chat)

    assert [message.content for message in thread(messages)] == ["one", "two"]
    assert [message.id for message in read(tmp_path, chat)] == [message.id for message in messages]


def test_it_says_what_is_not_sent_again(tmp_path: Path) -> None:
    tool = Pi(str(tmp_path), {})
    chat = Chat()
    first = chat.user("one")
    second = chat.answer(text("two"))
    chat.add("context_edit", targetId=first, replacement={"content": "1"})
    chat.add("context_edit", targetId=first, replacement=None)
    chat.add("context_edit", targetId=second, replacement={"content": "2"})
    chat.save(tmp_path)
    (transcript,) = tool.transcripts()
    withheld = tool.withheld(transcript)
    assert withheld is not None
    assert (withheld.messages, withheld.changed) == ({REMOVED: {first}}, {REPLACED: 1})

    chat.add("compaction", summary="s", firstKeptEntryId=second)
    chat.user("three")
    chat.save(tmp_path)
    assert tool.withheld(transcript) is None


def test_a_run_of_assistant_messages_becomes_one_and_each_result_its_own(tmp_path: Path) -> None:
    """Otherwise Pi would invent a result for the first call."""
    messages = [
        Message(role="user", content="go", id="m1"),
        Message(role="assistant", content="Both.", id="m2", model="some-model"),
        Message(role="assistant", id="m3", parts=[Part("tool_call", id="a", name="ls", input={})]),
        Message(role="assistant", id="m4", parts=[Part("tool_call", id="b", name="ls", input={"x": 1})]),
        Message(
            role="user",
            content="and now\u2028this",
            id="m5",
            parts=[
                Part("tool_result", call_id="a", output="1"),
                Part("tool_result", call_id="b", output="2", is_error=True),
                Part("text", text="and now\u2028this"),
            ],
        ),
        Message(role="assistant", content="Done.", id="m6"),
    ]
    tool = Pi(str(tmp_path), {})
    written = tool.write(messages, project=str(tmp_path), title="Two calls")

    data = Path(written.path).read_text(encoding="utf-8")
    assert "\u2028" not in data, "Node.js ends a line there"
    entries = [json.loads(line) for line in data.splitlines()]
    assert [entry["message"]["role"] for entry in entries if entry["type"] == "message"] == [
        *("user", "assistant", "toolResult", "toolResult", "user", "assistant")
    ]
    assert [block["type"] for block in entries[2]["message"]["content"]] == ["text", "toolCall", "toolCall"]
    assert [entry.get("parentId") for entry in entries[1:]] == [None, *(entry["id"] for entry in entries[1:-1])]
    (transcript,) = tool.transcripts(str(tmp_path))
    back = list(tool.read(transcript))
    assert [message.id for message in back] == [message.id for message in messages]
    assert [essence(message) for message in back] == [essence(message) for message in messages]


def test_a_written_session_chooses_the_users_own_model(tmp_path: Path) -> None:
    settings = tmp_path / ".pi/agent/settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"defaultProvider": "mine", "defaultModel": "m-1"}', encoding="utf-8")
    tool = Pi(str(tmp_path), {})
    message = Message(role="user", content="hello", id="m1")
    for model, expected in (("", ("mine", "m-1")), ("other/m/2", ("other", "m/2")), ("unknown", ("mine", "m-1"))):
        written = tool.write([message], project=str(tmp_path), model=model)
        last = json.loads(Path(written.path).read_text(encoding="utf-8").splitlines()[-1])
        assert (last["type"], last["provider"], last["modelId"]) == ("model_change", *expected)


def test_folders_that_the_environment_and_the_settings_name(tmp_path: Path) -> None:
    path = everyday().save(tmp_path)
    agent = tmp_path / ".pi/agent"
    assert [found.key for found in Pi("/nowhere", {"PI_CODING_AGENT_DIR": str(agent)}).transcripts()] == [KEY]
    chosen = tmp_path / "chosen"
    chosen.mkdir()
    path.rename(chosen / NAME)
    for tool in (Pi(str(tmp_path), {"PI_CODING_AGENT_SESSION_DIR": str(chosen)}), _with_setting(tmp_path, "~/chosen")):
        assert [found.key for found in tool.transcripts()] == [KEY]
        assert [found.key for found in tool.transcripts("/work/boats")] == [KEY]
        assert list(tool.transcripts("/work/other")) == []


def _with_setting(home: Path, folder: str) -> Pi:
    (home / ".pi/agent/settings.json").write_text(json.dumps({"sessionDir": folder}), encoding="utf-8")
    return Pi(str(home), {})


def test_calls_are_named_in_their_results(tmp_path: Path) -> None:
    chat = Chat()
    chat.user("try")
    chat.answer(call("c1", "ls"), stop="toolUse")
    chat.message("toolResult", toolCallId="c1", content=[text("one"), text("two")], isError=False)
    result = read(tmp_path, chat)[-1].parts_of("tool_result")[0]
    assert (result.name, result.output) == ("bash", "one\ntwo")


@pytest.mark.req("TOOL-05")
def test_what_our_extension_added_is_not_what_the_user_said(tmp_path: Path) -> None:
    chat = Chat()
    chat.user("go on")
    chat.add("custom_message", customType="cortext", content="kept in plan.md", display=False)
    chat.add("custom_message", customType="cortext", content="[RESUMED CONVERSATION]\nx", display=False)
    chat.answer(text("Going on."))

    messages = read(tmp_path, chat)

    assert [message.content for message in thread(messages)] == ["go on", "Going on."]
    assert [message.extra for message in messages if message.aside] == [{"resume_block": True}]


@pytest.mark.req("TOOL-05")
def test_a_dollar_in_a_command_is_not_a_placeholder(tmp_path: Path) -> None:
    command = CommandFile(
        name="workspace.plan", description='Plan "it"', text="{run}\n\nIt costs $1 or ${x}: {arguments}\n"
    )
    files = Pi(str(tmp_path), {}).files([command], ["cortext"])

    assert set(files) == {
        ".pi/prompts/workspace.plan.md",
        ".pi/extensions/cortext.js",
        ".agents/skills/cortext/SKILL.md",
    }
    assert files[".pi/prompts/workspace.plan.md"].decode() == (
        '---\ndescription: "Plan \\"it\\""\n---\nIt costs $\u20601 or $\u2060{x}: $ARGUMENTS\n\n'
        "<!-- cortext:command workspace.plan -->$ARGUMENTS<!-- cortext:end -->\n"
    )
    assert b'const program = ["cortext", "hook", "pi"]' in files[".pi/extensions/cortext.js"]


@pytest.mark.req("TOOL-05")
def test_a_project_that_pi_does_not_trust_is_reported(tmp_path: Path) -> None:
    tool, project = Pi(str(tmp_path), {}), tmp_path / "a" / "b"
    agent = tmp_path / ".pi/agent"
    agent.mkdir(parents=True)
    assert tool.hooks_off(str(project))
    (agent / "trust.json").write_text(json.dumps({str(tmp_path / "a"): True}), encoding="utf-8")
    assert tool.hooks_off(str(project)) == []
    (agent / "trust.json").write_text(json.dumps({str(tmp_path / "a"): True, str(project): False}), encoding="utf-8")
    assert tool.hooks_off(str(project))
    (agent / "trust.json").unlink()
    (agent / "settings.json").write_text('{"defaultProjectTrust": "always"}', encoding="utf-8")
    assert tool.hooks_off(str(project)) == []
