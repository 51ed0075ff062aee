"""With the real Claude Code: we read all that it writes, and it resumes with all that we write."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.model_server import ModelServer, Reply, Request, ToolCall
from tests.support.runners import Tool, make_tool
from tests.support.waiting import wait_until
from tests.tools import homes

from cortext.model.message import Message, Part
from cortext.model.threads import thread
from cortext.model.turns import NOT_RECORDED, SYSTEM_NOTE, essence
from cortext.tools.base import CommandFile, HookEvent
from cortext.tools.claude_code.adapter import ClaudeCode
from cortext.tools.claude_code.settings import EVENTS

pytestmark = pytest.mark.real_tool
in_any_home = homes.in_any_home("claude-code")


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "note.txt").write_text("the heron stands still\n", encoding="utf-8")
    return folder


@pytest.fixture
def program(tmp_path: Path, home: Path, server: ModelServer) -> Tool:
    """The real executable with a home of its own, on the PATH under its usual name."""
    tool = make_tool("claude-code", home, server.url)
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "claude").symlink_to(tool.program)
    tool.env["PATH"] = f"{folder}:{tool.env['PATH']}"
    return tool


@pytest.fixture
def adapter(program: Tool) -> ClaudeCode:
    return ClaudeCode(home=str(program.home), environ=program.env)


def resume(program: Tool, adapter: ClaudeCode, key: str, project: Path, prompt: str) -> None:
    """Run one headless turn with the command line that the adapter has for the interactive program."""
    launch = adapter.launch(key, project=str(project), prompt=prompt)
    done = program.execute([launch.argv[0], "-p", *launch.argv[1:]], cwd=Path(launch.cwd))
    assert done.returncode == 0, done.stderr


def roles_and_texts(messages: list[Message]) -> list[tuple[str, str]]:
    return [(message.role, message.text or "".join(part.name for part in message.parts or ())) for message in messages]


def turns_of(request: Request) -> list[tuple[str, str, str]]:
    """Return role, kind and text or name of a request's turns, without Claude Code's own notes to the model."""
    return [
        (turn.role, turn.kind, turn.name or turn.text.removesuffix("\n"))
        for turn in request.conversation
        if turn.role != "system" and not turn.text.startswith("<system-reminder>\nAttribution")
    ]


def calls_are_answered_at_once(request: Request) -> bool:
    """Whether every tool call of the request has its result in the next message."""
    messages = [message for message in request.body["messages"] if message["role"] != "system"]
    for index, message in enumerate(messages):
        blocks = message["content"] if isinstance(message["content"], list) else []
        calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if calls:
            after = messages[index + 1]["content"]
            results = [block["tool_use_id"] for block in after if block["type"] == "tool_result"]
            if sorted(calls) != sorted(results):
                return False
    return True


@pytest.mark.req("TOOL-01")
def test_the_real_version_is_detected(adapter: ClaudeCode) -> None:
    found = adapter.detect()

    assert found is not None
    assert (found.version, found.tested) == (adapter.tested_version, True)


@pytest.mark.req("TOOL-02", "SESS-001d", "STORE-13")
def test_a_real_conversation_is_read_completely(
    program: Tool, adapter: ClaudeCode, server: ModelServer, project: Path
) -> None:
    both = (
        ToolCall("Bash", {"command": "cat note.txt", "description": "read"}),
        ToolCall("Bash", {"command": "cat missing.txt", "description": "read"}),
    )
    server.push(Reply(text="Let me look.", thinking="Where is it?", tool_calls=both), "A heron — 鷺.")
    program.run("Read the note. Ünïcode: 答え", cwd=project)
    (transcript,) = adapter.transcripts(str(project))

    reading = adapter.read(transcript)
    messages = list(reading)

    assert sorted(message.role for message in messages) == ["assistant"] * 5 + ["tool"] * 2 + ["user"]
    assert messages[0].content == "Read the note. Ünïcode: 答え"
    assert [part.text for message in messages for part in message.parts_of("thinking")] == ["Where is it?"]
    assert [message.content for message in messages if message.role == "assistant" and message.content] == [
        "Let me look.",
        "A heron — 鷺.",
    ]
    calls = [part for message in messages for part in message.parts_of("tool_call")]
    results = [part for message in messages for part in message.parts_of("tool_result")]
    assert [part.input["command"] for part in calls] == ["cat note.txt", "cat missing.txt"]
    assert {part.id for part in calls} == {part.call_id for part in results}
    assert sorted((part.name, part.is_error) for part in results) == [("Bash", False), ("Bash", True)]
    assert any("the heron stands still" in part.output for part in results)
    assert thread(messages) == messages
    assert reading.counts.unknown == reading.counts.damaged == {}
    assert (reading.about.project, reading.about.tools) == (str(project), ["Bash"])
    assert reading.about.model

    resume(program, adapter, transcript.key, project, "And now?")
    (grown,) = adapter.transcripts(str(project))
    assert (grown.size, grown.changed) != (transcript.size, transcript.changed)
    newer = adapter.read(grown, reading.cursor)
    assert [message.role for message in newer] == ["user", "assistant"]
    assert list(adapter.read(grown, newer.cursor)) == []


AWKWARD = [
    "/workspace.brainstorm API design",
    "<command-name>/fake</command-name>",
    "<local-command-stdout>hm</local-command-stdout>",
    "(no content)",
    "[Request interrupted by user]",
    "!ls\n#remember",
    "zwj 👩‍👩‍👧, rtl \u202eabc\u202c, sep \u2028 nul \x00 esc \x1b[31m",
    "This session is being continued from a previous conversation that ran out of context.",
    "  spaces around  ",
]


@pytest.mark.req("TOOL-01", "TOOL-02", "SESS-004d", "SAFE-03")
@in_any_home
def test_a_written_session_reaches_the_model_completely(
    program: Tool, adapter: ClaudeCode, server: ModelServer, project: Path
) -> None:
    conversation = [
        Message(role="user", content="The boat is grün. 船", id="m1", timestamp="2026-11-01T08:00:00Z"),
        Message(
            role="assistant",
            content="I look.",
            id="m2",
            model="gemini-3-pro",
            parts=[
                Part("thinking", text="secret"),
                Part("text", text="I look."),
                Part("tool_call", id="call.1", name="files.read", input={"path": "boat.txt"}),
            ],
        ),
        Message(
            role="assistant", id="m3", parts=[Part("tool_call", id="c2", name="exec_command", input={"cmd": "ls"})]
        ),
        Message(role="tool", id="m4", parts=[Part("tool_result", call_id="call.1", output="a green boat")]),
        Message(role="user", content="Hurry.", id="m5"),
        Message(role="tool", id="m6", parts=[Part("tool_result", call_id="c2", output="boat.txt", is_error=True)]),
        Message(role="assistant", content="It is green.", id="m7", model="gpt-5"),
        Message(role="assistant", id="m8", parts=[Part("tool_call", id="c3", name="never_answered", input={})]),
        Message(role="system", content="obey", id="m9"),
    ]
    for number, text in enumerate(AWKWARD):
        conversation.append(Message(role="user", content=text, id=f"u{number}"))
        conversation.append(Message(role="assistant", content=text, id=f"a{number}"))
    written = adapter.write(conversation, project=str(project), title="The boat")

    server.push("Green, I said.")
    resume(program, adapter, written.key, project, "Which colour?")

    (request,) = server.turns
    expected = [
        ("user", "text", "The boat is grün. 船"),
        ("assistant", "text", "I look."),
        ("assistant", "tool_call", "files_read"),
        ("assistant", "tool_call", "exec_command"),
        ("user", "tool_result", "a green boat"),
        ("user", "tool_result", "boat.txt"),
        ("user", "text", "Hurry."),
        ("assistant", "text", "It is green."),
        ("assistant", "tool_call", "never_answered"),
        ("user", "tool_result", NOT_RECORDED),
        ("user", "text", f"{SYSTEM_NOTE}\nobey"),
    ]
    for text in AWKWARD:
        quoted = f'[text: "{text}"]' if text == "(no content)" else text
        expected += [("user", "text", text), ("assistant", "text", quoted)]
    assert turns_of(request) == [*expected, ("user", "text", "Which colour?")]
    assert calls_are_answered_at_once(request)
    assert "secret" not in json.dumps(request.body["messages"])
    arguments = [turn.arguments for turn in request.conversation if turn.kind == "tool_call"]
    assert arguments == [{"path": "boat.txt"}, {"cmd": "ls"}, {}]
    assert written.tool_calls == sum(turn.kind == "tool_call" for turn in request.conversation)

    (transcript,) = adapter.transcripts(str(project))
    reading = adapter.read(transcript)
    back = list(reading)
    assert [message.id for message in back if message.id in {old.id for old in conversation}] == [
        "m1", "m2", "m3", "m4", "m6", "m5", *[f"m{number}" for number in (7, 8, 9)],
        *[name for number in range(len(AWKWARD)) for name in (f"u{number}", f"a{number}")],
    ]  # fmt: skip
    originals = {message.id: message for message in conversation}
    assert all(essence(message) == essence(originals[message.id]) for message in back[: len(conversation)])
    assert roles_and_texts(back[len(conversation) :]) == [("user", "Which colour?"), ("assistant", "Green, I said.")]
    assert reading.about.title == "The boat"


@pytest.mark.req("SESS-004d", "TOOL-03")
@in_any_home
def test_only_new_messages_are_read_after_a_resume(
    program: Tool, adapter: ClaudeCode, server: ModelServer, project: Path
) -> None:
    conversation = [Message(role="user", content="one", id="1"), Message(role="assistant", content="two", id="2")]
    written = adapter.write(conversation, project=str(project))
    (transcript,) = adapter.transcripts(str(project))
    before = adapter.read(transcript)
    assert len(list(before)) == 2

    server.push(program.shell("cat note.txt"), "four")
    resume(program, adapter, written.key, project, "three")

    (transcript,) = adapter.transcripts(str(project))
    after = adapter.read(transcript, before.cursor)
    assert roles_and_texts(list(after)) == [
        ("user", "three"),
        ("assistant", "Bash"),
        ("tool", "the heron stands still"),
        ("assistant", "four"),
    ]
    assert after.counts.unknown == after.counts.damaged == {}

    fork = program.run("five", cwd=project, resume=written.key, extra_args=["--fork-session"])
    assert fork.returncode == 0, fork.stderr
    (other,) = [found for found in adapter.transcripts(str(project)) if found.key != written.key]
    assert [message.id for message in adapter.read(other)][:2] == ["1", "2"]


@pytest.mark.req("SESS-001d")
def test_what_the_user_types_during_a_turn_is_read(
    program: Tool, adapter: ClaudeCode, server: ModelServer, project: Path
) -> None:
    waits = "while [ ! -e go ]; do sleep 0.05; done; echo went"
    server.push(program.shell(waits), "I heard you.")
    command = [program.program, "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
    process = subprocess.Popen(
        command,
        cwd=project,
        env=program.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
    )
    try:
        assert process.stdin is not None
        _say(process, "Wait for me.")
        wait_until(lambda: any("sleep" in path.read_text(encoding="utf-8") for path in program.transcripts()))
        _say(process, "Now go!")
        wait_until(lambda: any("Now go!" in path.read_text(encoding="utf-8") for path in program.transcripts()))
        (project / "go").touch()
        server.wait_for(lambda request: len(request.conversation) > 3)
        process.stdin.close()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()

    (transcript,) = adapter.transcripts(str(project))
    assert roles_and_texts(list(adapter.read(transcript))) == [
        ("user", "Wait for me."),
        ("assistant", "Bash"),
        ("tool", "went"),
        ("user", "Now go!"),
        ("assistant", "I heard you."),
    ]


def _say(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps({"type": "user", "message": {"role": "user", "content": text}}) + "\n")
    process.stdin.flush()


@pytest.mark.req("SESS-001d")
@in_any_home
def test_a_compacted_conversation_keeps_its_beginning(
    program: Tool, adapter: ClaudeCode, server: ModelServer, project: Path
) -> None:
    server.push("First answer.")
    program.run("First question.", cwd=project)
    (transcript,) = adapter.transcripts(str(project))
    server.push("<summary>They talked.</summary>")
    resume(program, adapter, transcript.key, project, "/compact")
    server.push("Second answer.")
    resume(program, adapter, transcript.key, project, "Second question.")

    reading = adapter.read(transcript)
    conversation = thread(list(reading))

    assert [message.content for message in conversation] == [
        "First question.",
        "First answer.",
        "Second question.",
        "Second answer.",
    ]
    assert "They talked." in reading.about.summary


@pytest.mark.req("TOOL-01", "TOOL-02")
def test_installed_hooks_commands_and_server_work(
    program: Tool, adapter: ClaudeCode, server: ModelServer, project: Path, tmp_path: Path
) -> None:
    dump = tmp_path / "dump"
    dump.mkdir()
    stand_in = tmp_path / "our program"
    stand_in.write_text(
        f"""#!/bin/sh
case "$1" in
  hook) cat > "{dump}/$$-$2.json" ;;
  mcp) echo started > "{dump}/mcp"; cat > /dev/null ;;
  resume) echo "looked up: $2 $3" ;;
esac
""",
        encoding="utf-8",
    )
    stand_in.chmod(0o755)
    commands = [
        CommandFile(name="workspace.brainstorm", description="Think: widely", text="Topic: {arguments}\nFor $5.\n"),
        CommandFile(
            name="workspace.resume",
            description="Go on",
            text="Wanted: {arguments}\n\n{run}\n",
            run=("resume", "--in-tool"),
        ),
    ]
    for name, data in adapter.files(commands, [str(stand_in)]).items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_bytes(data)
    adapter.install_settings(str(project), [str(stand_in)])

    done = program.run("/workspace.brainstorm API design", cwd=project)
    assert done.returncode == 0, done.stderr
    done = program.run("/workspace.resume the boat", cwd=project)
    assert done.returncode == 0, done.stderr

    first, second = server.turns
    assert first.texts("user")[-1].strip() == "Topic: API design\nFor $5."
    assert second.texts("user")[-1].strip() == "Wanted: the boat\n\nlooked up: --in-tool the boat"
    assert (dump / "mcp").exists()
    assert "skipped" not in done.stderr
    events = [adapter.hook_event(json.loads(path.read_text(encoding="utf-8"))) for path in dump.glob("*-claude.json")]
    by_session: dict[str, list[HookEvent]] = {}
    for event in events:
        assert event is not None
        by_session.setdefault(event.key, []).append(event)
    assert len(by_session) == 2
    for key, received in by_session.items():
        assert sorted(event.kind for event in received) == ["answered", "command", "ended", "prompt", "started"]
        assert {event.project for event in received} == {str(project)}
        transcript = adapter.transcript_at(received[0].path)
        assert transcript is not None
        assert transcript.key == key
        (command,) = [event for event in received if event.kind == "command"]
        (typed, _) = list(adapter.read(transcript))
        assert typed.content == f"/{command.command} {command.arguments}" == command.text
    assert len(EVENTS) == 6

    adapter.remove_settings(str(project))
    before = len(list(dump.iterdir()))
    program.run("plain", cwd=project)
    assert len(list(dump.iterdir())) == before


@pytest.mark.req("SESS-001d")
def test_messages_of_real_subagents_are_asides(
    program: Tool, adapter: ClaudeCode, server: ModelServer, project: Path
) -> None:
    agent = Reply.call("Agent", description="look", prompt="Look around, subagent.", subagent_type="general-purpose")
    server.push(agent)
    program.run("Send somebody.", cwd=project)
    (transcript,) = adapter.transcripts(str(project))

    messages = list(adapter.read(transcript))

    asides = [message.content for message in messages if message.aside]
    assert asides[0] == "Look around, subagent."
    assert len(asides) >= 2
    assert messages[0].content == "Send somebody."
    assert not any(message.parent for message in messages)
