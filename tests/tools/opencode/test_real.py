"""The adapter against the real OpenCode, talking to a model on loopback."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.model_server import ModelServer, Reply, Request
from tests.support.runners import Tool, make_tool

from cortext.io import files as fsio
from cortext.model.message import Message, Part, thread
from cortext.model.turns import NOT_RECORDED, SYSTEM_NOTE
from cortext.tools.base import CommandFile, Launch
from cortext.tools.opencode.adapter import OpenCode
from cortext.tools.opencode.write import delete

pytestmark = pytest.mark.real_tool
in_any_home = pytest.mark.parametrize("home", ["", "opencode"], ids=["fresh", "used"], indirect=True)

THINK = CommandFile(name="workspace.brainstorm", description="Think", text="Think widely.\n\nTopic: {arguments}\n")

# Stands in for `cortext`: writes down every event, and has something to say to the model about two of them.
# As the MCP server it is gone at once: OpenCode waits half a minute for one that says nothing.
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
    """A real OpenCode with a home of its own, our adapter for it, and a project."""

    server: ModelServer
    real: Tool
    tool: OpenCode
    project: Path
    events: Path

    def install(self) -> None:
        """What `cortext init` would put into the project."""
        self.events.mkdir()
        program = self.events.parent / "cortext stand-in"
        program.write_text(PROGRAM.format(folder=self.events), encoding="utf-8")
        program.chmod(0o755)
        for path, contents in self.tool.files([THINK], [str(program)]).items():
            (self.project / path).parent.mkdir(parents=True, exist_ok=True)
            fsio.replace_file(str(self.project / path), [contents])
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
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world with all that we install, in which a conversation was held: a start of OpenCode takes seconds."""
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


def wait_until(true: Callable[[], bool], what: str, timeout: float = 60.0) -> None:
    deadline = time.monotonic() + timeout
    while not true():
        assert time.monotonic() < deadline, f"not within {timeout} s: {what}"
        time.sleep(0.02)


def conversation(request: Request) -> list[tuple[str, str]]:
    """What a request carries after the system prompt: role and words, calls and results by name and output."""
    return [
        (turn.role, turn.text or f"{turn.name} {json.dumps(turn.arguments, ensure_ascii=False)}")
        for turn in request.conversation
        if turn.role != "system"
    ]


@pytest.mark.req("TOOL-01", "TOOL-02", "SESS-001d", "STORE-13")
def test_a_real_conversation_is_captured_word_for_word(held: World) -> None:
    found = held.tool.detect()
    assert found is not None
    assert (found.program, found.version, found.tested) == (held.real.program, "1.18.18", True)

    (transcript,) = held.tool.transcripts(str(held.project))
    messages, _ = held.read(transcript.key)

    assert [(one.role, one.text) for one in messages] == [
        ("user", "Read note.txt, please. 🦤"),
        ("assistant", "Let me look."),
        ("tool", "the heron stands still\n"),
        ("assistant", "The heron stands still. 答え"),
    ]
    words = messages[1]
    assert [part.type for part in words.parts or ()] == ["thinking", "text", "tool_call"]
    assert words.parts_of("tool_call")[0].input["command"] == "cat note.txt"
    assert messages[2].parts_of("tool_result")[0].call_id == words.parts_of("tool_call")[0].id
    assert (words.model, words.tokens) == ("test/test-model", 5)
    # The hook's words reached the model beside the prompt, and are none of the user's.
    assert held.server.turns[0].texts("user") == ["Read note.txt, please. 🦤\nCONTEXT OF THE PROMPT"]
    # Our entry is in the config that OpenCode took (it refuses what it does not know).
    assert held.tool.mcp_servers(str(held.project)) == {"cortext"}


@pytest.mark.req("TOOL-02", "TOOL-03")
def test_a_kept_copy_goes_back_unchanged(held: World, tmp_path: Path) -> None:
    (transcript,) = held.tool.transcripts()
    before, rows = held.read(transcript.key)[0], held.real.records()
    copy = str(tmp_path / "native")
    held.tool.copy(transcript, copy)
    delete(held.tool.program, transcript.key, project=str(held.project))
    assert list(held.tool.transcripts()) == []

    assert held.tool.put_back(copy, project=str(held.project)) == transcript.key

    assert held.read(transcript.key)[0] == before
    assert held.real.records() == rows


@pytest.mark.req("TOOL-01", "TOOL-02", "SESS-001d")
def test_a_command_and_the_events(held: World) -> None:
    (transcript,) = held.tool.transcripts()
    key = transcript.key
    before, cursor = held.read(key)
    held.server.push("Three ideas.")

    command = ("--command", "workspace.brainstorm")
    done = held.real.run('API "design"  now', cwd=held.project, resume=key, extra_args=command)

    assert (done.returncode, "Three ideas." in done.stdout) == (0, True), done.stderr
    expanded = held.server.turns[-1].texts("user")[-1]
    assert expanded.endswith('Think widely.\n\nTopic: API "design"  now\nCONTEXT OF THE COMMAND')
    added, _ = held.read(key, cursor)
    assert [(one.role, one.text) for one in added] == [
        ("user", '/workspace.brainstorm API "design"  now'),
        ("assistant", "Three ideas."),
    ]
    reading = held.tool.read(transcript)
    assert [one.id for one in reading] == [one.id for one in [*before, *added]]
    assert reading.about.command == "/workspace.brainstorm"
    # What the plugin told: it does not wait for most of them, so the last may still be on its way.
    wait_until(lambda: len(held.reported()) >= 7, "seven events")
    told = [(event["hook_event_name"], event.get("prompt") or event.get("command_args")) for event in held.reported()]
    assert sorted(told, key=str) == sorted(
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
    assert all(event["session_id"] == key and event["cwd"] == str(held.project) for event in held.reported())
    kinds = {event.kind for payload in held.reported() if (event := held.tool.hook_event(payload)) is not None}
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
        "system message as the user's": 1,
        "missing result added": 1,
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
    assert not marker.exists()  # what is history is not run again
    added, _ = world.read(written.key, cursor)
    assert [(one.role, one.text) for one in added] == [("user", "Which colour?\nThe boat's."), ("assistant", "Green.")]


@pytest.mark.req("SESS-004d", "TOOL-02")
@in_any_home
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
        wait_until(lambda: "It is green, as it was." in shown(), "the answer on the screen")
    assert asked.texts("user") == ["The boat is green.", prompt]
    assert asked.texts("assistant") == ["Noted: green."]
    found, _ = world.read(written.key)
    assert [one.role for one in found] == ["user", "assistant", "assistant", "user", "assistant"]
    assert [(one.aside, one.extra) for one in found if one.aside] == [(True, {"resume_block": True})]
    assert [one.text for one in thread(found)][-1] == "It is green, as it was."


class screen:  # noqa: N801 - it is used as a function
    """A terminal with the program in it; gives what it shows."""

    def __init__(self, world: World, launch: Launch, socket: Path) -> None:
        self.socket = str(socket)
        env = {**world.real.env, **launch.env, "TERM": "tmux-256color", "COLORTERM": "truecolor"}
        # The environment is longer than a command line of tmux may be: it goes through a script.
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

    def _tmux(self, *words: str) -> str:
        command = ["tmux", "-S", self.socket, *words]
        return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False).stdout
