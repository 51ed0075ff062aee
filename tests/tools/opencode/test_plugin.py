"""Our two scripts for OpenCode, run by Node.js with a stand-in for OpenCode."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.waiting import wait_until

from cortext.tools.base import CommandFile
from cortext.tools.opencode import settings
from cortext.tools.opencode.adapter import OpenCode
from cortext.tools.opencode.live import LAUNCHER
from cortext.tools.opencode.settings import PLUGIN
from cortext.tools.shared.installer import packaged_script

SESSION = "ses_x"
PART = {"id": "prt_00000000000fAAAA", "sessionID": SESSION, "messageID": "msg_1", "type": "text", "text": "Hello"}


def node(folder: Path, script: str, env: dict[str, str] | None = None) -> Any:
    """Run a script and return the JSON that it prints."""
    path = folder / "test.mjs"
    path.write_text(script, encoding="utf-8")
    given = {"PATH": os.environ["PATH"], "TMPDIR": str(folder / "tmp"), **(env or {})}
    done = subprocess.run(
        ["node", str(path)], capture_output=True, text=True, encoding="utf-8", env=given, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tmp").mkdir()
    return tmp_path


def plugin(folder: Path, script: str, timeout: int = 5000, commands: Sequence[CommandFile] = ()) -> Path:
    """Write the plugin for a program that is this shell script; the program is missing if the script is empty."""
    program = folder / "our program"
    if script:
        program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        program.chmod(0o755)
    text = OpenCode(str(folder), {}).files(commands, [str(program)])[PLUGIN].decode("utf-8")
    path = folder / "w/.opencode/plugin/cortext.mjs"
    path.parent.mkdir(parents=True)
    path.write_text(text.replace("timeout = 5000", f"timeout = {timeout}"), encoding="utf-8")
    return path


CALL = """
import {{ Cortext }} from "{path}"
const hooks = await Cortext({{ directory: "/place" }})
const output = {{ message: {{ sessionID: "ses_x" }}, parts: [{part}] }}
await hooks["{hook}"]({input}, output)
console.log(JSON.stringify({{ parts: output.parts }}))
"""


def call(folder: Path, path: Path, hook: str, given: dict[str, Any]) -> Any:
    return node(folder, CALL.format(path=path, part=json.dumps(PART), hook=hook, input=json.dumps(given)))


@pytest.mark.req("TOOL-01")
def test_a_prompt_is_reported_and_the_context_added_to_it(folder: Path) -> None:
    path = plugin(folder, f'cat > "{folder}/event"; echo "{{\\"context\\": \\"Mind the time.\\"}}"')

    found = call(folder, path, "chat.message", {"sessionID": SESSION})

    reported = json.loads((folder / "event").read_text(encoding="utf-8"))
    assert reported == {"hook_event_name": "chat.message", "session_id": SESSION, "cwd": "/place", "prompt": "Hello"}
    assert found["parts"] == [
        PART,
        {**PART, "id": "prt_000000000010AAAA", "text": "Mind the time.", "synthetic": True},
    ]
    assert list((folder / "tmp").iterdir()) == []


@pytest.mark.req("TOOL-01")
def test_a_command_is_annotated_with_what_was_typed(folder: Path) -> None:
    path = plugin(folder, f'cat > "{folder}/event"')
    given = {"sessionID": SESSION, "command": "workspace.plan", "arguments": "a b"}

    found = call(folder, path, "command.execute.before", given)

    assert found["parts"][0]["metadata"] == {"cortext": {"command": "workspace.plan", "arguments": "a b"}}
    reported = json.loads((folder / "event").read_text(encoding="utf-8"))
    assert (reported["command_name"], reported["command_args"]) == ("workspace.plan", "a b")


COMMANDS = [
    CommandFile(name="workspace.plan", description="Plan", text="old", file=".workspace/commands/plan.md"),
    CommandFile(name="workspace.related", description="Related", text="About: {arguments}\n\n{run}"),
    CommandFile(name="workspace.mine", description="Mine", text="ours"),
]
EXPAND = """
import {{ Cortext }} from "{path}"
const mine = {{ description: "of the user", template: "mine $ARGUMENTS" }}
const config = {{ command: {{ "workspace.mine": mine }} }}
const hooks = await Cortext({{ directory: "/place" }})
await hooks.config(config)
const texts = []
for (const [command, {{ template }}] of Object.entries(config.command)) {{
  const given = "$& a b"
  const output = {{ parts: [{{ type: "text", text: template.replaceAll("$ARGUMENTS", () => given) }}] }}
  await hooks["command.execute.before"]({{ command, arguments: given, sessionID: "ses_x" }}, output)
  texts.push([command, config.command[command].description, output.parts[0].text])
}}
console.log(JSON.stringify(texts))
"""
HEAD = "<command-name>/{}</command-name>\n<command-args>$& a b</command-args>\n\n"


@pytest.mark.req("TOOL-01", "SESS-007")
def test_a_command_has_the_prompt_as_the_user_has_it_now(folder: Path) -> None:
    path = plugin(folder, "", commands=COMMANDS)
    prompt = folder / "w/.workspace/commands/plan.md"
    prompt.parent.mkdir(parents=True)
    prompt.write_text("# Plan\n\nTopic: {arguments}, again {arguments}, $ARGUMENTS !`x`\n", encoding="utf-8")

    texts = node(folder, EXPAND.format(path=path))

    assert sorted(texts) == [
        ["workspace.mine", "of the user", "mine $& a b"],
        [
            "workspace.plan",
            "Plan",
            HEAD.format("workspace.plan") + "# Plan\n\nTopic: $& a b, again $& a b, $ARGUMENTS !`x`",
        ],
        ["workspace.related", "Related", HEAD.format("workspace.related") + "About: $& a b"],
    ]


@pytest.mark.req("SAFE-03", "SAFE-10")
@pytest.mark.parametrize("kind", ["link", "missing", "folder"])
def test_a_prompt_that_is_no_file_of_the_workspace_is_not_sent(folder: Path, kind: str) -> None:
    path = plugin(folder, "", commands=COMMANDS)
    prompt = folder / "w/.workspace/commands/plan.md"
    prompt.parent.mkdir(parents=True)
    (folder / "private").write_text("my key", encoding="utf-8")
    if kind == "link":
        prompt.symlink_to(folder / "private")
    elif kind == "folder":
        prompt.mkdir()

    (text,) = [text for name, _, text in node(folder, EXPAND.format(path=path)) if name == "workspace.plan"]

    assert "my key" not in text
    assert ".workspace/commands/plan.md, cannot be read" in text


@pytest.mark.parametrize(
    "script", ["", "exit 3", "echo not json", "echo '[]'", "echo null", "kill -9 $$", "exec sleep 3"]
)
def test_a_failure_of_our_program_leaves_the_prompt_unchanged(folder: Path, script: str) -> None:
    path = plugin(folder, script, timeout=300)

    found = call(folder, path, "chat.message", {"sessionID": SESSION})

    assert found["parts"] == [PART]


def test_unexpected_input_never_throws(folder: Path) -> None:
    path = plugin(folder, f'cat >> "{folder}/events"')
    script = f"""
import {{ Cortext }} from "{path}"
const hooks = await Cortext({{ directory: "/place" }})
for (const given of [undefined, null, {{}}, {{ event: null }}, {{ event: {{ type: "session.idle" }} }}, "text"]) {{
  for (const hook of Object.values(hooks)) await hook(given, given)
}}
console.log("true")
"""
    assert node(folder, script) is True


def test_events_of_side_agents_are_not_reported(folder: Path) -> None:
    path = plugin(folder, f'cat >> "{folder}/events"; echo >> "{folder}/events"')
    script = f"""
import {{ Cortext }} from "{path}"
const {{ event, dispose }} = await Cortext({{ directory: "/place" }})
const say = (type, properties) => event({{ event: {{ type, properties }} }})
await say("session.created", {{ info: {{ id: "ses_x" }}, sessionID: "ses_x" }})
await say("session.created", {{ info: {{ id: "ses_side", parentID: "ses_x" }}, sessionID: "ses_side" }})
await say("session.idle", {{ sessionID: "ses_side" }})
await say("message.part.updated", {{ sessionID: "ses_x" }})
await say("session.idle", {{ sessionID: "ses_x" }})
await say("session.compacted", {{ sessionID: "ses_x" }})
await dispose()
await dispose()
console.log("true")
"""
    node(folder, script)

    wait_until(lambda: len(_lines(folder / "events")) >= 4, 20, "four events")
    reported = _lines(folder / "events")
    expected = ["dispose", "session.compacted", "session.created", "session.idle"]
    assert sorted(event["hook_event_name"] for event in reported) == expected
    assert {event["session_id"] for event in reported} == {"ses_x"}


def _lines(path: Path) -> list[Any]:
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    # Two processes may have written to one line, but each event is complete.
    decoder, found = json.JSONDecoder(), []
    while text := text.lstrip():
        try:
            value, end = decoder.raw_decode(text)
        except ValueError:
            break
        found.append(value)
        text = text[end:]
    return found


# ── the first prompt ─────────────────────────────────────────────────────────────────────────────────

LAUNCH = """
import {{ CortextLaunch }} from "{path}"
const calls = []
const note = (name, answer) => async (given) => (calls.push([name, given]), {{ data: answer }})
const models = {{ providers: [{{ id: "some", models: {{ one: {{}}, two: {{}} }} }}], default: {{ some: "one" }} }}
const client = {{
  config: {{ providers: async () => ({{ data: models }}), get: async () => ({{ data: {{ model: "{setting}" }} }}) }},
  command: {{ list: async () => ({{ data: [{{ name: "mine" }}] }}) }},
  session: {{
    messages: async () => ({{ data: [{{ info: {{ role: "user", model: {last} }} }}] }}),
    promptAsync: {prompt},
    command: note("command"),
  }},
  tui: {{ showToast: note("toast") }},
}}
for (let time = 0; time < 2; time++) await CortextLaunch({{ client }}, {options})
await new Promise((done) => setTimeout(done, 200))
console.log(JSON.stringify([calls, Object.keys(process.env).filter((name) => name.startsWith("CORTEXT"))]))
"""


def launch(
    folder: Path,
    prompt: str,
    *,
    model: str = "",
    last: str = '{ providerID: "some", modelID: "one" }',
    setting: str = "",
    answer: str = 'note("prompt")',
) -> list[Any]:
    path = folder / "launch.mjs"
    path.write_text(packaged_script(settings.__file__, LAUNCHER), encoding="utf-8")
    started = OpenCode(str(folder), {}).launch(SESSION, project=str(folder), prompt=prompt, model=model)
    ((_, options),) = json.loads(started.env.pop("OPENCODE_CONFIG_CONTENT"))["plugin"]
    script = LAUNCH.format(path=path, options=json.dumps(options), last=last, setting=setting, prompt=answer)
    calls, remaining = node(folder, script, started.env)
    assert remaining == []  # the prompt is not passed on to what OpenCode starts
    assert isinstance(calls, list)
    return calls


@pytest.mark.req("SESS-004d")
def test_the_first_prompt_is_sent_once_and_unchanged(folder: Path) -> None:
    prompt = "Go on \"now\" 'x' $HOME\n答え 🦤 \0 " * 10_000

    ((name, given),) = launch(folder, prompt)

    assert (name, given["path"]) == ("prompt", {"id": SESSION})
    assert given["body"] == {"parts": [{"type": "text", "text": prompt}]}


def test_a_prompt_that_is_a_command_is_run_as_a_command(folder: Path) -> None:
    ((name, given),) = launch(folder, "/mine a  b\nc")

    assert (name, given["body"]) == ("command", {"command": "mine", "arguments": "a  b\nc"})
    assert launch(folder, "/other a")[0][0] == "prompt"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"model": "some/two"}, "two"),
        ({"model": "absent/two"}, None),  # the session's own model is available
        ({"last": '{ providerID: "absent", modelID: "x" }', "setting": "some/two"}, "two"),
        ({"last": '{ providerID: "absent", modelID: "x" }', "setting": "absent/x"}, "one"),
        ({"last": "undefined"}, "one"),
    ],
)
def test_the_first_prompt_uses_an_available_model(folder: Path, given: dict[str, str], expected: str | None) -> None:
    ((_, sent),) = launch(folder, "Go on", **given)

    assert sent["body"].get("model") == (expected and {"providerID": "some", "modelID": expected})


@pytest.mark.parametrize("answer", ["async () => ({ error: { name: 'Busy' } })", "async () => { throw Error('Busy') }"])
def test_a_failure_to_send_is_shown(folder: Path, answer: str) -> None:
    ((name, given),) = launch(folder, "Go on", answer=answer)

    assert name == "toast"
    assert "Busy" in given["body"]["message"]
