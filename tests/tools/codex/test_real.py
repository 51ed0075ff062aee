"""With the real Codex: we read all that it writes, and it resumes with all that we write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.model_server import ModelServer, Reply, Request, ToolCall
from tests.support.runners import Tool, make_tool
from tests.tools import homes

from cortext.index.activity import calls_in
from cortext.model.message import TEXT, THINKING, TOOL_CALL, TOOL_RESULT, Message, Part
from cortext.model.threads import thread
from cortext.model.turns import NOT_RECORDED, OPENING, SYSTEM_NOTE
from cortext.tools.base import CommandFile, Transcript
from cortext.tools.codex.adapter import Codex

pytestmark = pytest.mark.real_tool
in_any_home = homes.in_any_home("codex")
# Codex runs no hooks that were not approved, except with this option for automation.
TRUST_HOOKS = "--dangerously-bypass-hook-trust"


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
def program(home: Path, server: ModelServer, project: Path) -> Tool:
    """The real executable with a home of its own, on the PATH."""
    tool = make_tool("codex", home, server.url)
    tool.env["PATH"] = f"{os.path.dirname(tool.program)}:{tool.env['PATH']}"
    tool.trust(project)
    return tool


@pytest.fixture
def adapter(program: Tool) -> Codex:
    return Codex(environ=program.env)


def only_transcript(adapter: Codex, project: Path) -> Transcript:
    (found,) = adapter.transcripts(str(project))
    return found


def resume(program: Tool, adapter: Codex, key: str, project: Path, prompt: str) -> None:
    """Run one headless turn with the command line that the adapter has for the interactive program."""
    launch = adapter.launch(key, project=str(project), prompt=prompt)
    index = launch.argv.index("resume")
    command = [*launch.argv[:index], "exec", "resume", "--skip-git-repo-check", *launch.argv[index + 1 :]]
    done = program.execute(command, cwd=Path(launch.cwd))
    assert done.returncode == 0, done.stderr


def turns_of(request: Request) -> list[tuple[str, str, str]]:
    """Return role, kind and text or name of a request's turns, without what Codex inserts."""
    return [
        (turn.role, turn.kind, turn.name or turn.text)
        for turn in request.conversation
        if turn.role != "developer" and not (turn.role == "user" and turn.text.startswith("<environment_context>"))
    ]


@pytest.mark.req("TOOL-02")
def test_the_real_version_is_detected(adapter: Codex, program: Tool) -> None:
    found = adapter.detect()

    assert found is not None
    assert (found.program, found.version, found.tested) == (program.program, "0.166.0", True)


@pytest.mark.req("COST-01")
def test_the_call_of_a_compaction_is_counted(program: Tool, server: ModelServer, adapter: Codex, project: Path) -> None:
    config = Path(program.env.get("CODEX_HOME") or Path(program.env["HOME"]) / ".codex") / "config.toml"
    before = config.read_text(encoding="utf-8") if config.exists() else ""
    config.write_text(f"model_auto_compact_token_limit = 5\n{before}", encoding="utf-8")
    server.push("The heron stands still.", "A summary: a heron.", "It still stands.")
    assert program.run("Read note.txt", cwd=project).returncode == 0
    resume(program, adapter, only_transcript(adapter, project).key, project, "And now?")

    messages = list(adapter.read(only_transcript(adapter, project)))

    assert [message.content for message in messages if message.aside and message.usage] == ["A summary: a heron."]
    assert len(calls_in(messages)) == 3
    said = [message.content for message in thread(messages) if message.role == "assistant"]
    assert said == ["The heron stands still.", "It still stands."]


@pytest.mark.req("TOOL-02", "SESS-001d", "STORE-13")
def test_a_real_conversation_is_read_completely(
    program: Tool, server: ModelServer, adapter: Codex, project: Path
) -> None:
    calls = (ToolCall("exec_command", {"cmd": "cat note.txt"}), ToolCall("exec_command", {"cmd": "cat missing.txt"}))
    server.push(Reply(text="Let me look.", thinking="I should read it first.", tool_calls=calls), "The heron. Ünï 答え")
    assert program.run("Read note.txt, 答え", cwd=project).returncode == 0
    found = only_transcript(adapter, project)

    reading = adapter.read(found)
    messages = list(reading)

    assert (found.key, found.project) == (program.sessions()[0], str(project))
    assert [message.role for message in messages] == [
        "user",
        "assistant",
        "assistant",
        "assistant",
        "tool",
        "tool",
        "assistant",
    ]
    assert messages[0].content == "Read note.txt, 答え"
    assert messages[1].parts == [Part(THINKING, text="I should read it first."), Part(TEXT, text="Let me look.")]
    called = [part for message in messages for part in message.parts_of(TOOL_CALL)]
    answered = [part for message in messages for part in message.parts_of(TOOL_RESULT)]
    assert [part.input for part in called] == [{"cmd": "cat note.txt"}, {"cmd": "cat missing.txt"}]
    assert [part.call_id for part in answered] == [part.id for part in called]
    assert "the heron stands still" in answered[0].output and "No such file" in answered[1].output
    assert [part.is_error for part in answered] == [False, True]
    assert (messages[-1].content, messages[-1].model, messages[-1].tokens) == ("The heron. Ünï 答え", "test-model", 5)
    assert (reading.counts.unknown, reading.counts.damaged) == ({}, {})
    assert reading.about.tools == ["exec_command"]


@pytest.mark.req("TOOL-02", "TOOL-03")
@in_any_home
def test_with_a_cursor_only_the_second_turn_is_read(
    program: Tool, server: ModelServer, adapter: Codex, project: Path
) -> None:
    program.run("The boat is green.", cwd=project)
    first = adapter.read(only_transcript(adapter, project))
    before = list(first)
    resume(program, adapter, only_transcript(adapter, project).key, project, "Which colour?")

    second = adapter.read(only_transcript(adapter, project), json.loads(json.dumps(first.cursor)))
    after = list(second)

    assert [message.content for message in after] == ["Which colour?", "Hello from the test model. (#2)"]
    assert [*before, *after] == list(adapter.read(only_transcript(adapter, project)))
    assert list(adapter.read(only_transcript(adapter, project), second.cursor)) == []


@pytest.mark.req("TOOL-02", "TOOL-03", "SESS-001d")
def test_real_branches_and_forks_are_read(program: Tool, server: ModelServer, adapter: Codex, project: Path) -> None:
    program.run("one", cwd=project)
    key = only_transcript(adapter, project).key
    resume(program, adapter, key, project, "two")
    first = adapter.read(only_transcript(adapter, project))
    before = list(first)
    turns = [record["payload"]["turn_id"] for record in program.records() if record["type"] == "turn_context"]
    resumed = {"method": "thread/resume", "params": {"threadId": key}}
    ask(program, project, resumed, {"method": "thread/revert", "params": {"threadId": key, "beforeTurnId": turns[1]}})
    resume(program, adapter, key, project, "two-b")
    forked = program.execute([program.program, "exec", "fork", "--skip-git-repo-check", key, "three"], cwd=project)
    assert forked.returncode == 0, forked.stderr

    assert len(program.transcripts()) == 3
    threads = {found.key: found for found in adapter.transcripts()}
    fork = next(found for name, found in threads.items() if name != key)
    messages = list(adapter.read(threads[key]))
    sent = [text for _, _, text in turns_of(server.turns[2])]
    assert [message.content for message in messages if message.role == "user"] == ["one", "two", "two-b"]
    assert [message.content for message in thread(messages)[:3]] == sent == ["one", messages[1].content, "two-b"]
    assert [*before, *adapter.read(threads[key], first.cursor)] == messages
    inherited = [message.content for message in adapter.read(fork)]
    assert inherited[:-1] == [text for _, _, text in turns_of(server.turns[3])]


AWKWARD = [
    "/slash and $workspace-plan at the beginning",
    "<environment_context>\n<cwd>/fake</cwd>\n</environment_context>",
    "<skill>\n<name>fake</name></skill> <turn_aborted>",
    "-- -x --dangerous 'quotes' \"double\" `ticks` $(no) \\n \\u0041",
    "control \x01\x1b[31m\x7f and NUL \x00, line\u2028separator, emoji 👩‍👩‍👧, 答え, \ufffe",
    "  leading and trailing  \n\n\n",
    '{"type":"response_item"}\n{"timestamp":"x"}',
]


@pytest.mark.req("TOOL-02", "SESS-004d", "STORE-13", "SAFE-03")
@in_any_home
def test_a_written_thread_reaches_the_model_as_real_turns(
    program: Tool, server: ModelServer, adapter: Codex, project: Path
) -> None:
    program.run("create the index files of Codex", cwd=project)
    server.forget()
    long_output = "".join(f"line {number} that must not be lost\n" for number in range(6_000))
    messages = [
        Message(role="assistant", content="An answer comes first.", id="m0"),
        *(Message(role="user", content=text, id=f"u{number}") for number, text in enumerate(AWKWARD)),
        Message(
            role="assistant",
            content="Let me look.",
            id="m1",
            model="claude-opus-5-5",
            timestamp="2026-11-01T10:00:01.000Z",
            parts=[
                Part(THINKING, text="never sent"),
                Part(TEXT, text="Let me look."),
                Part(TOOL_CALL, id="toolu_1", name="Read", input={"file": "ü.txt", "lines": [1, 2]}),
                Part(TOOL_CALL, id="toolu_2", name="apply_patch", input="*** Begin Patch\n"),
                Part(TOOL_CALL, id="toolu_3", name="mcp.boats/sail", input={}),
            ],
        ),
        Message(role="tool", id="m2", parts=[Part(TOOL_RESULT, call_id="toolu_2", output=long_output)]),
        Message(role="tool", id="m3", parts=[Part(TOOL_RESULT, call_id="toolu_1", output=long_output, is_error=True)]),
        Message(role="tool", id="m4", parts=[Part(TOOL_RESULT, call_id="lost", name="Grep", output="orphan")]),
        Message(role="system", content="Be kind.", id="m5"),
        Message(role="assistant", content="Done.", id="m6"),
        Message(role="assistant", content="And done again.", id="m7"),
    ]
    written = adapter.write(messages, project=str(project), title="Boats")

    resume(program, adapter, written.key, project, "-which colour?")

    (request,) = server.turns
    turns = turns_of(request)
    assert turns == [
        ("user", "text", OPENING),
        ("assistant", "text", "An answer comes first."),
        *(("user", "text", text) for text in AWKWARD if not text.startswith("<environment_context>")),
        ("assistant", "text", "Let me look."),
        ("assistant", "tool_call", "Read"),
        ("assistant", "tool_call", "apply_patch"),
        ("assistant", "tool_call", "mcp_boats_sail"),
        ("tool", "tool_result", NOT_RECORDED),
        ("tool", "tool_result", long_output),
        ("tool", "tool_result", long_output),
        ("user", "text", "[result of a call of Grep that was not recorded]\norphan"),
        ("user", "text", f"{SYSTEM_NOTE}\nBe kind."),
        ("assistant", "text", "Done."),
        ("assistant", "text", "And done again."),
        ("user", "text", "-which colour?"),
    ]
    assert AWKWARD[1] in request.texts("user")
    calls = {turn.call_id: turn.arguments for turn in request.conversation if turn.kind == "tool_call"}
    results = [turn.call_id for turn in request.conversation if turn.kind == "tool_result"]
    assert sorted(calls) == sorted(results)
    assert calls["toolu_1"] == {"file": "ü.txt", "lines": [1, 2]}
    assert calls["toolu_2"] == "*** Begin Patch\n"
    assert "never sent" not in json.dumps(request.body)
    # Read back: every message unchanged, then the new ones.
    back = list(adapter.read(next(item for item in adapter.transcripts() if item.key == written.key)))
    assert back[: len(messages)] == messages
    assert [message.content for message in back[len(messages) :]] == [
        "-which colour?",
        "Hello from the test model. (#2)",
    ]


@pytest.mark.req("TOOL-02", "SESS-004d")
@in_any_home
def test_restored_and_archived_threads_can_be_resumed(
    program: Tool, server: ModelServer, adapter: Codex, project: Path
) -> None:
    program.run("The boat is green.", cwd=project)
    found = only_transcript(adapter, project)
    copy = project / "kept" / "native"
    adapter.copy(found, str(copy))
    os.unlink(found.path)
    assert adapter.put_back(str(copy), project=str(project)) == found.key
    resume(program, adapter, found.key, project, "Which colour?")
    assert turns_of(server.turns[-1])[0] == ("user", "text", "The boat is green.")
    archived = program.execute([program.program, "archive", found.key], cwd=project)
    assert archived.returncode == 0, archived.stderr

    assert only_transcript(adapter, project).key == found.key
    resume(program, adapter, found.key, project, "Again?")

    assert [text for _, kind, text in turns_of(server.turns[-1]) if kind == "text"][-1] == "Again?"
    assert len(list(adapter.read(only_transcript(adapter, project)))) == 6


# ── hooks, commands, MCP server ──────────────────────────────────────────────────────────────────────

DUMP = """
import json, os, sys
folder = os.path.dirname(os.path.abspath(__file__))
event = sys.stdin.readline() if sys.argv[1:] == ["mcp"] else sys.stdin.read()
with open(os.path.join(folder, "calls.jsonl"), "a", encoding="utf-8") as file:
    file.write(json.dumps({"arguments": sys.argv[1:], "event": json.loads(event or "{}")}) + "\\n")
answer = os.path.join(folder, "answer")
if os.path.exists(answer) and "UserPromptSubmit" in event:
    sys.stdout.write(open(answer, encoding="utf-8").read())
"""


class Dump:
    """A stand-in for cortext that records how it was called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "dump.py").write_text(DUMP, encoding="utf-8")
        self.program = [sys.executable, str(folder / "dump.py")]

    def calls(self, kind: str) -> list[dict[str, Any]]:
        """Return the payloads of the calls of one kind, in order."""
        path = self.folder / "calls.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [call["event"] for call in map(json.loads, lines) if call["arguments"][0] == kind]


@pytest.fixture
def dump(tmp_path: Path, adapter: Codex, project: Path) -> Dump:
    stand_in = Dump(tmp_path / "dump")
    adapter.install_settings(str(project), stand_in.program)
    commands = [CommandFile(name="workspace.brainstorm", description="think", text="Think about {arguments} 答え.")]
    for path, contents in adapter.files(commands, stand_in.program).items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_bytes(contents)
    return stand_in


@pytest.mark.req("TOOL-02", "SESS-001d")
def test_installed_hooks_commands_and_server_work(
    program: Tool, server: ModelServer, adapter: Codex, project: Path, dump: Dump
) -> None:
    context = "[RESUMED CONVERSATION] " + "words " * 20_000 + "[END RESUMED CONTEXT]"
    answer = adapter.hook_answer({"hook_event_name": "UserPromptSubmit"}, context)
    (dump.folder / "answer").write_text(answer, encoding="utf-8")
    server.push("Thought.")

    done = program.run("$workspace-brainstorm API design", cwd=project, extra_args=[TRUST_HOOKS])

    assert done.returncode == 0, done.stderr
    events = [adapter.hook_event(event) for event in dump.calls("hook")]
    assert [event.kind for event in events if event] == ["started", "command", "answered", "ended"]
    found = only_transcript(adapter, project)
    assert {(event.key, event.path, event.project) for event in events if event} == {
        (found.key, found.path, str(project))
    }
    command, answered = events[1], events[2]
    assert command is not None and (command.command, command.arguments) == ("workspace.brainstorm", "API design")
    assert answered is not None and answered.text == "Thought."
    assert len(dump.calls("mcp")) >= 1
    texts = server.turns[-1].texts()
    assert texts.count(context) == 1
    assert "$workspace-brainstorm API design" in server.turns[-1].texts("user")
    assert any("Think about (the text after `$workspace-brainstorm`" in text for text in texts)
    # The command is read as it was typed, and our block as an aside.
    reading = adapter.read(found)
    messages = list(reading)
    assert [(message.role, message.content, message.aside) for message in messages] == [
        ("user", "$workspace-brainstorm API design", False),
        ("user", context, True),
        ("assistant", "Thought.", False),
    ]
    assert reading.about.command == "/workspace.brainstorm"


@pytest.mark.req("TOOL-02", "SESS-001d")
def test_hooks_run_after_approval_and_reading_works_without(
    program: Tool, server: ModelServer, adapter: Codex, project: Path, dump: Dump
) -> None:
    program.run("without hooks", cwd=project)
    assert dump.calls("hook") == []
    assert next(message.content for message in adapter.read(only_transcript(adapter, project))) == "without hooks"

    assert "review" in str(adapter.hooks_off(str(project))), "the hint for doctor"
    approve(program, project)
    assert adapter.hooks_off(str(project)) == []
    adapter.install_settings(str(project), dump.program)  # a second time: needs no new approval
    program.run("with hooks", cwd=project)

    assert [event["hook_event_name"] for event in dump.calls("hook")] == [
        "SessionStart",
        "UserPromptSubmit",
        "Stop",
        "SessionEnd",
    ]


def approve(program: Tool, project: Path) -> None:
    """Store the hash of every hook, as Codex does after "Trust all and continue"."""
    (listed,) = ask(program, project, {"method": "hooks/list", "params": {"cwds": [str(project)]}})
    hooks = listed["data"][0]["hooks"]
    assert [hook["trustStatus"] for hook in hooks] == ["untrusted"] * 5
    entries = [f'[hooks.state.{json.dumps(hook["key"])}]\ntrusted_hash = "{hook["currentHash"]}"\n' for hook in hooks]
    with open(program.home / ".codex" / "config.toml", "a", encoding="utf-8") as config:
        config.write("\n" + "\n".join(entries))


def ask(program: Tool, project: Path, *requests: dict[str, Any], until: str = "") -> list[Any]:
    """Send requests to the app server of Codex; return its answers, after the notification `until` if given."""
    initialize: dict[str, Any] = {"method": "initialize", "params": {"clientInfo": {"name": "test", "version": "1"}}}
    initialize["params"]["capabilities"] = {"experimentalApi": True}
    process = subprocess.Popen(
        [program.program, "app-server"],
        cwd=project,
        env=program.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
    )
    assert process.stdin is not None and process.stdout is not None
    answers = []
    timeout = threading.Timer(60, process.kill)
    timeout.start()
    with process:
        for number, request in enumerate((initialize, *requests)):
            process.stdin.write(json.dumps({"id": number, **request}) + "\n")
            process.stdin.flush()
            answer = next(found for line in process.stdout if (found := json.loads(line)).get("id") == number)
            assert "error" not in answer, answer
            answers.append(answer["result"])
        if until:
            next(line for line in process.stdout if json.loads(line).get("method") == until)
        process.stdin.close()
    timeout.cancel()
    return answers[1:]


@pytest.mark.req("TOOL-02")
def test_an_untrusted_project_still_has_our_commands(
    program: Tool, server: ModelServer, adapter: Codex, project: Path, dump: Dump
) -> None:
    settings = program.home / ".codex" / "config.toml"
    text = settings.read_text(encoding="utf-8").partition("[projects")[0]
    # With any other settings Codex trusts the folder by itself.
    text = text.replace('"never"', '"on-request"').replace("danger-full-access", "read-only")
    settings.write_text(text, encoding="utf-8")

    program.run("$workspace-brainstorm x", cwd=project, extra_args=[TRUST_HOOKS])

    assert any("Think about" in text for text in server.turns[-1].texts("user"))
    assert (dump.calls("hook"), dump.calls("mcp")) == ([], [])
    assert (
        next(message.content for message in adapter.read(only_transcript(adapter, project)))
        == "$workspace-brainstorm x"
    )
