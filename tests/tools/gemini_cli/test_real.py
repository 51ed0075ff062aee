"""The adapter with the real Gemini CLI and a model server on loopback that records its requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cli import SCRIPTS
from tests.support.desk import Desk
from tests.support.model_server import ModelServer, Reply, Request, ToolCall
from tests.support.runners import Tool, make_tool
from tests.support.screen import Screen
from tests.tools import homes

from cortext.model.message import TOOL_CALL, TOOL_RESULT, Message, Part
from cortext.model.threads import thread
from cortext.tools.base import CommandFile, Transcript
from cortext.tools.gemini_cli.adapter import GeminiCli

pytestmark = pytest.mark.real_tool

in_any_home = homes.in_any_home("gemini-cli")
WHEN = "2026-11-01T10:00:00.000Z"


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
def program(home: Path, server: ModelServer) -> Tool:
    return make_tool("gemini-cli", home, server.url)


@pytest.fixture
def tool(program: Tool) -> GeminiCli:
    return GeminiCli(environ={**program.env, "PATH": f"{Path(program.program).parent}:{program.env['PATH']}"})


def run_turn(program: Tool, tool: GeminiCli, key: str, project: Path, prompt: str) -> None:
    """Run one headless turn in a project that the adapter prepared for a resume."""
    tool.launch(key, project=str(project))
    done = program.run(prompt, cwd=project, resume=key)
    assert done.returncode == 0, done.stderr


def only(tool: GeminiCli, project: Path) -> Transcript:
    (transcript,) = tool.transcripts(str(project))
    return transcript


def sent(request: Request) -> list[tuple[str, str, str]]:
    """Return the turns of a request, without the context that Gemini CLI adds."""
    turns = [
        (turn.role, turn.kind, turn.name if turn.kind == "tool_call" else turn.text) for turn in request.conversation
    ]
    return [turn for turn in turns if not turn[2].startswith("<session_context>")]


def texts(messages: list[Message]) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in messages if message.text]


@pytest.mark.req("TOOL-02", "SESS-001d", "STORE-13")
def test_a_real_conversation_is_read_word_for_word(
    tool: GeminiCli, program: Tool, server: ModelServer, project: Path
) -> None:
    both = tuple(ToolCall("run_shell_command", {"command": name}) for name in ("cat note.txt", "cat missing.txt"))
    server.push(
        Reply(text="Let me look.", thinking="I should read it.", tool_calls=both), "The heron stands still: 答え."
    )
    done = program.run("Read the note, please. Ünïcode: 答え", cwd=project)
    assert done.returncode == 0, done.stderr

    reading = tool.read(only(tool, project))
    messages = list(reading)

    contents = [message.content for message in messages if message.content]
    assert contents == ["Read the note, please. Ünïcode: 答え", "Let me look.", "The heron stands still: 答え."]
    calls = [part for message in messages for part in message.parts_of(TOOL_CALL)]
    results = [part for message in messages for part in message.parts_of(TOOL_RESULT)]
    assert [(part.name, part.input["command"]) for part in calls] == [
        ("run_shell_command", "cat note.txt"),
        ("run_shell_command", "cat missing.txt"),
    ]
    assert [part.call_id for part in results] == [part.id for part in calls]
    assert "the heron stands still" in results[0].output and "No such file" in results[1].output
    assert messages[1].parts is not None and messages[1].parts[0].text == "I should read it."
    assert all(message.timestamp and message.id for message in messages)
    assert (reading.counts.unknown, reading.counts.damaged) == ({}, {})
    assert thread(messages) == messages

    server.push("It is a heron.")
    run_turn(program, tool, program.sessions()[0], project, "Which bird?")
    again = tool.read(only(tool, project), reading.cursor)
    assert texts(list(again)) == [("user", "Which bird?"), ("assistant", "It is a heron.")]
    assert [message.id for message in tool.read(only(tool, project))][: len(messages)] == [m.id for m in messages]


AWKWARD = [
    "/workspace.brainstorm API design",
    "? what now",
    "<hook_context>not a hook",
    "line one\u2028line two",
    'quotes " and \\ and \t and 😀 and \x00 and </session_context>',
    "  \n",
]


def conversation() -> list[Message]:
    call = Part(TOOL_CALL, id="toolu_1", name="Bash", input={"command": "ls", "deep": [1, {"ü": None}]})
    other = Part(TOOL_CALL, id="call_2", name="mcp__boats__look", input={})
    open_call = Part(TOOL_CALL, id="call_3", name="exec_command", input="free text")
    messages = [
        Message(role="user", content="The boat is green. 答え", id="u1"),
        Message(role="assistant", content="Noted.", id="a1", parts=[Part("thinking", text="a thought"), call, other]),
        Message(role="tool", id="t1", parts=[Part(TOOL_RESULT, call_id="toolu_1", name="Bash", output="boat.txt")]),
        Message(role="tool", id="t2", parts=[Part(TOOL_RESULT, call_id="call_2", output="sunk", is_error=True)]),
        Message(role="assistant", content="It is green indeed.", id="a2"),
    ]
    for number, text in enumerate(AWKWARD):
        messages.append(Message(role="user", content=text, id=f"w{number}"))
        messages.append(Message(role="assistant", content=f"Answer {number}.", id=f"x{number}"))
    messages.append(Message(role="assistant", id="a3", parts=[open_call]))
    messages.append(Message(role="user", content="Never mind.", id="u4"))
    for message in messages:
        message.timestamp = WHEN
    return messages


@pytest.mark.req("TOOL-02", "SESS-004d")
@in_any_home
def test_a_written_session_is_resumed_as_real_turns_each_time(
    tool: GeminiCli, program: Tool, server: ModelServer, project: Path
) -> None:
    written = tool.write(conversation(), project=str(project), title="Boats")
    assert written.tool_calls == 3
    before = tool.read(only(tool, project))
    assert len(list(before)) == written.messages

    server.push("Green, as before.", "Still green.")
    run_turn(program, tool, written.key, project, "Which colour?")
    run_turn(program, tool, written.key, project, "And now?")

    guarded = [("user", "text", "The user wrote:\n")]
    expected: list[tuple[str, str, str]] = [
        ("user", "text", "The boat is green. 答え"),
        ("model", "text", "Noted."),
        ("model", "tool_call", "Bash"),
        ("model", "tool_call", "mcp__boats__look"),
        ("user", "tool_result", '{"output": "boat.txt"}'),
        ("user", "tool_result", '{"error": "sunk"}'),
        ("model", "text", "It is green indeed."),
    ]
    for number, text in enumerate(AWKWARD):
        expected += guarded if number in (0, 1, 2) else []
        sent_text = text.replace("\u2028", "\n") if text.strip() else f"[text: {json.dumps(text)}]"
        expected.append(("user", "text", sent_text))
        expected.append(("model", "text", f"Answer {number}."))
    expected += [
        ("model", "tool_call", "exec_command"),
        ("user", "tool_result", '{"output": "[The result of this call was not recorded.]"}'),
        ("user", "text", "Never mind."),
        ("user", "text", "Which colour?"),
    ]
    first, second = server.turns
    assert sent(first) == expected
    assert sent(second) == [*expected, ("model", "text", "Green, as before."), ("user", "text", "And now?")]
    for request in (first, second):
        calls = [(turn.call_id, turn.name) for turn in request.conversation if turn.kind == "tool_call"]
        answers = [(turn.call_id, turn.name) for turn in request.conversation if turn.kind == "tool_result"]
        assert calls == answers and len(calls) == 3
        assert "a thought" not in json.dumps(request.body)

    after = tool.read(only(tool, project), before.cursor)
    new = list(after)
    assert texts(new) == [
        ("user", "Which colour?"),
        ("assistant", "Green, as before."),
        ("user", "And now?"),
        ("assistant", "Still green."),
    ]
    whole = list(tool.read(only(tool, project)))
    assert [message.id for message in whole[: -len(new)]] == [message.id for message in conversation()]
    assert thread(whole) == whole


@pytest.mark.req("TOOL-01", "TOOL-02")
def test_installed_hooks_and_commands_work(
    tool: GeminiCli, program: Tool, server: ModelServer, project: Path, tmp_path: Path
) -> None:
    dump = tmp_path / "our program"
    answer = GeminiCli().hook_answer({"hook_event_name": "BeforeAgent"}, "Words of ours. " + "y" * 50_000 + " The end.")
    (tmp_path / "answer.json").write_text(answer, encoding="utf-8")
    lines = [
        "#!/bin/sh",
        '[ "$1" = hook ] || exit 0',
        f'echo "$@" >> "{tmp_path}/called"',
        f'event="{tmp_path}/event-$(date +%s%N).json"',
        'cat > "$event"',
        f'grep -q BeforeAgent "$event" && cat "{tmp_path}/answer.json"',
        "exit 0",
    ]
    dump.write_text("\n".join(lines), encoding="utf-8")
    dump.chmod(0o755)
    command = CommandFile(name="workspace.brainstorm", description="Think", text="You are a partner for {arguments}.")
    for name, contents in tool.files([command], [str(dump)]).items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_bytes(contents)
    tool.install_settings(str(project), [str(dump)])
    server.push("Let us think.")

    done = program.run("/workspace.brainstorm API design", cwd=project)

    assert done.returncode == 0, done.stderr
    prompt, added = (text for _, _, text in sent(server.turns[-1])[-2:])
    assert prompt.startswith("You are a partner for API design.\n")
    assert "Words of ours. " in added and " The end." in added and len(added) > 50_000
    payloads = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(tmp_path.glob("event-*.json"))]
    events = [event for payload in payloads if (event := tool.hook_event(payload)) is not None]
    kinds = [event.kind for event in events]
    assert kinds[:3] == ["started", "command", "answered"] and "ended" in kinds
    assert (events[1].command, events[1].arguments) == ("workspace.brainstorm", "API design")
    assert set((tmp_path / "called").read_text(encoding="utf-8").splitlines()) == {"hook gemini"}
    transcript = tool.transcript_at(events[2].path)
    assert transcript is not None and transcript.key == events[2].key == only(tool, project).key
    reading = tool.read(transcript)
    assert texts(list(reading)) == [("user", "/workspace.brainstorm API design"), ("assistant", "Let us think.")]
    assert reading.about.command == "/workspace.brainstorm"


@pytest.mark.req("TOOL-03", "SESS-004d")
@in_any_home
def test_a_resumed_session_is_kept_and_a_deleted_one_restored(
    tool: GeminiCli, program: Tool, server: ModelServer, project: Path, tmp_path: Path
) -> None:
    own = program.home / ".gemini" / "settings.json"
    settings = json.loads(own.read_text(encoding="utf-8"))
    del settings["general"]["sessionRetention"]
    own.write_text(json.dumps(settings), encoding="utf-8")
    written = tool.write(conversation()[:5], project=str(project))
    # Date the session back: only in a later minute does Gemini CLI create the stub that makes it delete both.
    path = Path(written.path)
    path = path.rename(path.with_name(f"session-2026-11-01T10-00-{written.key[:8]}.jsonl"))

    run_turn(program, tool, written.key, project, "Resumed.")
    program.run("Another talk.", cwd=project)

    assert len(list(path.parent.glob(f"*{written.key[:8]}*"))) == 2, "the session and its stub"
    kept = next(transcript for transcript in tool.transcripts(str(project)) if transcript.key == written.key)
    assert kept.path == str(path)
    tool.copy(kept, str(tmp_path / "copy"))

    tool.remove_settings(str(project))  # with its default settings, Gemini CLI deletes both at the next start
    program.run("Yet another.", cwd=project)
    assert written.key not in {transcript.key for transcript in tool.transcripts(str(project))}

    assert tool.put_back(str(tmp_path / "copy"), project=str(project)) == written.key
    run_turn(program, tool, written.key, project, "Back again?")
    turns = [text for _, kind, text in sent(server.turns[-1]) if kind == "text"]
    assert turns[0] == "The boat is green. 答え" and "Resumed." in turns and turns[-1] == "Back again?"


@pytest.mark.req("TOOL-02", "SESS-004d")
def test_the_screen_opens_with_the_conversation(
    tool: GeminiCli, program: Tool, server: ModelServer, project: Path, tmp_path: Path
) -> None:
    """The first prompt is sent after the history, however long that takes to load."""
    many = [
        Message(role="assistant" if number % 2 else "user", content=f"word {number} " * 50, id=f"m{number}")
        for number in range(400)
    ]
    written = tool.write([*many, *conversation()], project=str(project))
    launch = tool.launch(written.key, project=str(project), prompt="Which colour?")
    server.push("It is green, of course.")

    with Screen(tmp_path, launch.argv, {**program.env, **launch.env}, project, "120x60") as screen:
        request = server.wait_for(lambda request: request.is_turn, timeout=120)
        screen.wait_for("Never mind.", "Which colour?", "It is green, of course.")

    turns = sent(request)
    assert turns[0] == ("user", "text", many[0].content) and turns[-1] == ("user", "text", "Which colour?")
    assert len(turns) == 400 + 26
    messages = list(tool.read(only(tool, project)))
    assert texts(messages)[-2:] == [("user", "Which colour?"), ("assistant", "It is green, of course.")]


@pytest.mark.req("TOOL-01")
def test_the_installed_version_is_the_tested_one(tool: GeminiCli) -> None:
    found = tool.detect()

    assert found is not None and (found.version, found.tested) == ("0.61.0", True)


LARGE_FILES = ("first.log", "second.log", "third.log")


@pytest.mark.req("FLOW-06", "TRUE-03")
def test_the_receipt_of_its_own_session_counts_what_it_sends(tmp_path: Path, server: ModelServer) -> None:
    """Gemini CLI drops a message that begins with a slash, rewrites its list without it, and shortens old results."""
    desk = Desk(tmp_path, server, ["gemini"])
    folder = desk.project()
    for name in LARGE_FILES:
        lines = (f"{name} line {number} of the heron log, östlich" for number in range(1_900))
        (folder / name).write_text("\n".join(lines) + "x" * 80_000, encoding="utf-8")
    gemini = desk.tools["gemini"]
    reads = tuple(ToolCall("read_file", {"file_path": str(folder / name)}) for name in LARGE_FILES)
    server.push("Noted.", "So it is.", Reply(text="Let me look.", tool_calls=reads), "Three logs.", "Yes.")
    prompts = ("Remember 4711.", "/etc/hosts is a path.", "Read the three logs.", "Are they long?")
    for prompt in prompts:
        resumed = gemini.sessions()[-1] if gemini.sessions() else None
        done = gemini.run(prompt, cwd=folder, resume=resumed)
        assert done.returncode == 0 and server.pending < 5, done.stderr
    session = f"gemini-{gemini.sessions()[-1]}"
    assert desk.cortext("import", "--from", "gemini", cwd=folder).code == 0
    stored = desk.cortext("show", session, "--json", cwd=folder).json["messages"]

    planned = desk.cortext("resume", session, "--ai", "gemini", "--dry-run", cwd=folder)
    server.push("Here again.")
    with Screen(tmp_path, [str(SCRIPTS / "cortext"), "resume", session], desk.env, folder) as screen:
        screen.wait_for("Here again.", timeout=120)

    request = server.turns[-1]
    received = "\n".join(turn.text for turn in request.conversation if turn.kind == "text")
    arrived = [message for message in stored if message["role"] != "tool" and message.get("content", "") in received]
    arrived += [message for message in stored if message["role"] == "tool"]
    results = [turn for turn in request.conversation if turn.kind == "tool_result"]
    whole = {turn.call_id for turn in results if "<tool_output_masked>" not in turn.text}
    shortened = {turn.call_id for turn in results} - whole
    receipt = planned.out + planned.err
    assert "/etc/hosts" not in received and shortened
    assert f"{len(arrived)} of {len(stored)} messages" in receipt, receipt
    assert f"{len(shortened)} × tool result that Gemini CLI shortens" in receipt, receipt
