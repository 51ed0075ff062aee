"""The adapter with the real OpenCode and a model server on loopback."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.model_server import ModelServer, Reply, Request
from tests.support.runners import Tool, make_tool
from tests.support.waiting import wait_until
from tests.tools import homes

from cortext.io import durable
from cortext.model.message import Message, Part
from cortext.model.threads import thread
from cortext.model.turns import NOT_RECORDED, SYSTEM_NOTE
from cortext.tools.base import CommandFile, Launch
from cortext.tools.opencode.adapter import OpenCode
from cortext.tools.opencode.write import delete

pytestmark = pytest.mark.real_tool
in_any_home = homes.in_any_home("opencode")

THINK = CommandFile(name="workspace.brainstorm", description="Think", text="Think widely.\n\nTopic: {arguments}\n")

# A stand-in for `cortext` that records every event, and answers two of them with context.
# As the MCP server it exits at once: OpenCode waits half a minute for one that does not answer.
PROGRAM = """\
#!/bin/sh
[ "$1" = mcp ] && exit 1
cat > "{folder}/$$.part" && mv "{folder}/$$.part" "{folder}/$(date +%s%N).$$.json"
case "$1$(cat "{folder}"/*.$$.json)" in
  *command.execute.before*) echo '{{"context": "CONTEXT OF THE COMMAND"}}';;
  *chat.message*) echo '{{"context": "CONTEXT OF THE PROMPT"}}';;
esac
"""


@dataclass
class World:
    """A real OpenCode with its own home folder, our adapter for it, and a project."""

    server: ModelServer
    real: Tool
    tool: OpenCode
    project: Path
    events: Path

    def install(self) -> None:
        """Install what `cortext init` would install in the project."""
        self.events.mkdir()
        program = self.events.parent / "cortext stand-in"
        program.write_text(PROGRAM.format(folder=self.events), encoding="utf-8")
        program.chmod(0o755)
        for path, contents in self.tool.files([THINK], [str(program)]).items():
            (self.project / path).parent.mkdir(parents=True, exist_ok=True)
            durable.replace_file(str(self.project / path), [contents])
        self.tool.install_settings(str(self.project), [str(program)])

    def reported(self) -> list[dict[str, Any]]:
        files = sorted(self.events.glob("*.json"))
        return [json.loads(path.read_text(encoding="utf-8")) for path in files]

    def read(self, key: str, cursor: dict[str, Any] | None = None) -> tuple[list[Message], dict[str, Any] | None]:
        transcript = self.tool.transcript_at(f"{self.tool.folders.database}#{key}")
        assert transcript is not None
        reading = self.tool.read(transcript, cursor)
        messages = list(reading)
        assert (reading.counts.unknown, reading.counts.damaged) == ({}, {})
        return messages, reading.cursor


def make_world(folder: Path, home: Path, server: ModelServer) -> World:
    project = folder / "project"
    project.mkdir()
    real = make_tool("opencode", home, server.url)
    real.env["PATH"] = f"{Path(real.program).parent}:{real.env['PATH']}"
    return World(server, real, OpenCode(environ=real.env), project, folder / "events")


@pytest.fixture
def world(tmp_path: Path, home: Path) -> Iterator[World]:
    with ModelServer() as server:
        yield make_world(tmp_path, home, server)


@pytest.fixture(scope="module")
def shared_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Yield a world with our files and one conversation, shared by tests because a start takes seconds."""
    with ModelServer() as server:
        folder = tmp_path_factory.mktemp("held")
        world = make_world(folder, folder / "home", server)
        world.install()
        (world.project / "note.txt").write_text("the heron stands still\n", encoding="utf-8")
        look = world.real.shell("cat note.txt").tool_calls
        server.push(
            Reply(text="Let me look.", thinking="I should read it.", tool_calls=look), "The heron stands still. 答え"
        )
        done = world.real.run("Read note.txt, please. 🦤", cwd=world.project)
        assert done.returncode == 0, done.stderr
        yield world


def conversation(request: Request) -> list[tuple[str, str]]:
    """Return the turns of a request after the system prompt: role and text, calls by name and arguments."""
    return [
        (turn.role, turn.text or f"{turn.name} {json.dumps(turn.arguments, ensure_ascii=False)}")
        for turn in request.conversation
        if turn.role != "system"
    ]


@pytest.mark.req("TOOL-01", "TOOL-02", "SESS-001d", "STORE-13")
def test_a_real_conversation_is_captured_word_for_word(shared_world: World) -> None:
    found = shared_world.tool.detect()
    assert found is not None
    assert (found.program, found.version, found.tested) == (shared_world.real.program, "1.18.18", True)

    (transcript,) = shared_world.tool.transcripts(str(shared_world.project))
    messages, _ = shared_world.read(transcript.key)

    assert [(one.role, one.text) for one in messages] == [
        ("user", "Read note.txt, please. 🦤"),
        ("assistant", "Let me look."),
        ("tool", "the heron stands still\n"),
        ("assistant", "The heron stands still. 答え"),
    ]
    reply = messages[1]
    assert [part.type for part in reply.parts or ()] == ["thinking", "text", "tool_call"]
    assert reply.parts_of("tool_call")[0].input["command"] == "cat note.txt"
    assert messages[2].parts_of("tool_result")[0].call_id == reply.parts_of("tool_call")[0].id
    assert (reply.model, reply.tokens) == ("test/test-model", 5)
    # The model got the hook's context with the prompt, but the user's message does not contain it.
    assert shared_world.server.turns[0].texts("user") == ["Read note.txt, please. 🦤\nCONTEXT OF THE PROMPT"]
    # OpenCode accepted the config with our entry: it rejects unknown settings.
    assert shared_world.tool.mcp_servers(str(shared_world.project)) == {"cortext"}


@pytest.mark.req("TOOL-02", "TOOL-03")
def test_a_copy_is_restored_unchanged(shared_world: World, tmp_path: Path) -> None:
    (transcript,) = shared_world.tool.transcripts()
    before, rows = shared_world.read(transcript.key)[0], shared_world.real.records()
    copy = str(tmp_path / "native")
    shared_world.tool.copy(transcript, copy)
    delete(shared_world.tool.program, transcript.key, project=str(shared_world.project))
    assert list(shared_world.tool.transcripts()) == []

    assert shared_world.tool.put_back(copy, project=str(shared_world.project)) == transcript.key

    assert shared_world.read(transcript.key)[0] == before
    assert shared_world.real.records() == rows


@pytest.mark.req("TOOL-01", "TOOL-02", "SESS-001d")
def test_a_command_is_captured_and_events_are_reported(shared_world: World) -> None:
    (transcript,) = shared_world.tool.transcripts()
    key = transcript.key
    before, cursor = shared_world.read(key)
    shared_world.server.push("Three ideas.")

    command = ("--command", "workspace.brainstorm")
    done = shared_world.real.run('API "design"  now', cwd=shared_world.project, resume=key, extra_args=command)

    assert (done.returncode, "Three ideas." in done.stdout) == (0, True), done.stderr
    expanded = shared_world.server.turns[-1].texts("user")[-1]
    assert expanded.endswith('Think widely.\n\nTopic: API "design"  now\nCONTEXT OF THE COMMAND')
    added, _ = shared_world.read(key, cursor)
    assert [(one.role, one.text) for one in added] == [
        ("user", '/workspace.brainstorm API "design"  now'),
        ("assistant", "Three ideas."),
    ]
    reading = shared_world.tool.read(transcript)
    assert [one.id for one in reading] == [one.id for one in [*before, *added]]
    assert reading.about.command == "/workspace.brainstorm"
    # The plugin does not wait for most events, so the last ones may arrive late.
    wait_until(lambda: len(shared_world.reported()) >= 7, why="seven events")
    reported = [
        (event["hook_event_name"], event.get("prompt") or event.get("command_args"))
        for event in shared_world.reported()
    ]
    assert sorted(reported, key=str) == sorted(
        [
            ("session.created", None),
            ("chat.message", "Read note.txt, please. 🦤"),
            ("session.idle", None),
            ("dispose", None),
            ("command.execute.before", 'API "design"  now'),
            ("session.idle", None),
            ("dispose", None),
        ],
        key=str,
    )
    assert all(
        event["session_id"] == key and event["cwd"] == str(shared_world.project) for event in shared_world.reported()
    )
    kinds = {
        event.kind
        for payload in shared_world.reported()
        if (event := shared_world.tool.hook_event(payload)) is not None
    }
    assert kinds == {"started", "prompt", "command", "answered", "ended"}


@pytest.mark.req("SESS-004d", "TOOL-02", "SAFE-03")
@in_any_home
def test_a_written_session_is_resumed_as_real_turns(world: World) -> None:
    foreign = Part("tool_call", id="toolu_1", name="mcp__boat__read", input={"path": "boät.txt", "deep": [{"a": None}]})
    marker = world.project / "ran"
    harmful = Part("tool_call", id="toolu_2", name="bash", input={"command": f"touch {marker}", "description": "x"})
    unanswered = Part("tool_call", id="toolu_3", name="bash", input={"command": f"touch {marker}", "description": "x"})
    texts = [
        "/workspace.brainstorm is only a word here",
        "<b>@note.txt</b> !`x` $1 — 答え 🦤\r\n\ttail  ",
        "nul \x00 and \x1b[31mred",
    ]
    messages = [
        Message(role="user", content="The boat is green.", id="m1", timestamp="2025-01-01T10:00:00.000Z"),
        Message(
            role="assistant",
            content="Noted.",
            parts=[Part("thinking", "hm"), Part("text", "Noted."), foreign, harmful],
            id="m2",
            model="claude-opus-5-5",
            timestamp="2025-01-01T10:00:01.000Z",
        ),
        Message(role="tool", parts=[Part("tool_result", call_id="toolu_1", output="a green boat")], id="m3"),
        Message(role="tool", parts=[Part("tool_result", call_id="toolu_2", output="it broke", is_error=True)], id="m4"),
        Message(role="assistant", content="It is green.", id="m5", model="gemini-x"),
        *(Message(role="user", content=text, id=f"u{number}") for number, text in enumerate(texts)),
        Message(role="system", content="Be brief.", id="s1"),
        Message(role="assistant", parts=[unanswered], id="m6"),
        Message(role="assistant", content="So it goes.", id="m7"),
    ]

    written = world.tool.write(messages, project=str(world.project), title="The boat")

    assert written.changed == {
        "thinking left out": 1,
        "system message sent as a user message": 1,
        "placeholder added for a missing tool result": 1,
    }
    before, cursor = world.read(written.key)
    assert [one.id for one in before] == [one.id for one in messages]
    world.server.push("Green.")
    done = world.real.run("Which colour?\nThe boat's.", cwd=world.project, resume=written.key)
    assert (done.returncode, "Green." in done.stdout) == (0, True), done.stderr

    (asked,) = world.server.turns
    assert conversation(asked) == [
        ("user", "The boat is green."),
        ("assistant", "Noted."),
        ("assistant", 'mcp__boat__read {"path": "boät.txt", "deep": [{"a": null}]}'),
        ("assistant", f'bash {{"command": "touch {marker}", "description": "x"}}'),
        ("tool", "a green boat"),
        ("tool", "it broke"),
        ("assistant", "It is green."),
        *(("user", text) for text in texts),
        ("user", f"{SYSTEM_NOTE}\nBe brief."),
        ("assistant", f'bash {{"command": "touch {marker}", "description": "x"}}'),
        ("tool", NOT_RECORDED),
        ("assistant", "So it goes."),
        ("user", "Which colour?\nThe boat's."),
    ]
    calls = [turn for turn in asked.conversation if turn.kind in ("tool_call", "tool_result")]
    assert [turn.call_id for turn in calls] == ["toolu_1", "toolu_2", "toolu_1", "toolu_2", "toolu_3", "toolu_3"]
    assert not marker.exists()  # calls in the history are not executed again
    added, _ = world.read(written.key, cursor)
    assert [(one.role, one.text) for one in added] == [("user", "Which colour?\nThe boat's."), ("assistant", "Green.")]


@pytest.mark.req("SESS-004d", "TOOL-02")
def test_the_screen_opens_with_the_conversation_and_sends_the_prompt(world: World, tmp_path: Path) -> None:
    messages = [
        Message(role="user", content="The boat is green.", id="m1"),
        Message(role="assistant", content="Noted: green.", id="m2", model="claude-opus-5-5"),
        Message(role="assistant", parts=[Part("tool_call", id="c1", name="odd", input={})], id="m3"),
    ]
    written = world.tool.write(messages, project=str(world.project), title="The boat", model="absent/model")
    world.server.push("It is green, as it was.")
    prompt = "Go on.\n\n[RESUMED CONVERSATION]\n" + "what was said 答え \"'$x\n" * 12_000

    launch = world.tool.launch(written.key, project=str(world.project), prompt=prompt)

    with screen(world, launch, tmp_path / "socket") as shown:
        asked = world.server.wait_for(lambda request: request.is_turn, timeout=90)
        wait_until(lambda: "It is green, as it was." in shown(), why="the answer on the screen")
    assert asked.texts("user") == ["The boat is green.", prompt]
    assert asked.texts("assistant") == ["Noted: green."]
    found, _ = world.read(written.key)
    assert [one.role for one in found] == ["user", "assistant", "assistant", "user", "assistant"]
    assert [(one.aside, one.extra) for one in found if one.aside] == [(True, {"resume_block": True})]
    assert [one.text for one in thread(found)][-1] == "It is green, as it was."


class screen:  # noqa: N801 - it is used as a function
    """A terminal that runs the program; the context value returns what it shows."""

    def __init__(self, world: World, launch: Launch, socket: Path) -> None:
        self.socket = str(socket)
        env = {**world.real.env, **launch.env, "TERM": "tmux-256color", "COLORTERM": "truecolor"}
        # The environment is too long for a command line of tmux, so a script sets it.
        script = socket.with_suffix(".sh")
        lines = [f"export {name}={shlex.quote(value)}" for name, value in env.items()]
        script.write_text("\n".join([*lines, f"exec {shlex.join(launch.argv)}"]), encoding="utf-8")
        self.start = ["-f", os.devnull, "new-session", "-d", "-x", "120", "-y", "45", "-c", launch.cwd]
        self.start.append(f"env -i /bin/sh {shlex.quote(str(script))}")

    def __enter__(self) -> Callable[[], str]:
        self._tmux(*self.start)
        return lambda: self._tmux("capture-pane", "-p")

    def __exit__(self, *_: object) -> None:
        self._tmux("kill-server")

    def _tmux(self, *arguments: str) -> str:
        command = ["tmux", "-S", self.socket, *arguments]
        return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False).stdout
