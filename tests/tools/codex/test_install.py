"""Our entries in a project: beside the user's, the same when done twice, gone when taken out."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortext.errors import ConfigError, NotFound, UnsafePath, UsageError
from cortext.tools.base import CommandFile, Installer
from cortext.tools.codex.adapter import Codex

PROGRAM = ["cortext"]
EVENTS = ["SessionStart", "UserPromptSubmit", "PostCompact", "Stop", "SessionEnd"]
USERS = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}, "description": "mine"}


TOOL: Installer = Codex(home="/nowhere")


def install(project: Path, program: list[str] = PROGRAM) -> list[str]:
    return [os.path.relpath(path, project) for path in TOOL.install_settings(str(project), program)]


def remove(project: Path) -> list[str]:
    return [os.path.relpath(path, project) for path in TOOL.remove_settings(str(project))]


def put(project: Path, name: str, text: str) -> Path:
    path = project / ".codex" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text.encode())
    return path


def tree(project: Path) -> dict[str, bytes]:
    return {str(path.relative_to(project)): path.read_bytes() for path in project.rglob("*") if path.is_file()}


@pytest.mark.req("TOOL-01")
def test_new_project_gets_hooks_and_the_server_and_loses_them_again(tmp_path: Path) -> None:
    assert install(tmp_path) == [".codex/hooks.json", ".codex/config.toml"]

    hooks = json.loads((tmp_path / ".codex/hooks.json").read_text(encoding="utf-8"))["hooks"]
    assert list(hooks) == EVENTS
    for event, [group] in hooks.items():
        (hook,) = group["hooks"]
        assert set(hook) <= {"type", "command", "timeout", "additionalContextLimit"}  # all known to the program
        assert hook["command"].startswith("cortext hook codex # ")
        assert hook["timeout"] <= (3 if event == "SessionEnd" else 10)
    config = tomllib.loads((tmp_path / ".codex/config.toml").read_text(encoding="utf-8"))
    server = {"command": "cortext", "args": ["mcp"], "env": {"CORTEXT_TOOL": "codex"}}
    assert config == {"mcp_servers": {"cortext": server}}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in (tmp_path / ".codex").iterdir())

    before = tree(tmp_path)
    assert install(tmp_path) == []
    assert tree(tmp_path) == before
    assert remove(tmp_path) == [".codex/hooks.json", ".codex/config.toml"]
    assert list(tmp_path.iterdir()) == []
    assert remove(tmp_path) == []


@pytest.mark.req("TOOL-01")
def test_what_the_user_has_stays(tmp_path: Path) -> None:
    put(tmp_path, "hooks.json", json.dumps(USERS, indent=2) + "\n")
    config = '# my settings\nmodel = "x"   # a comment\n\n[mcp_servers.other]\ncommand = "other"'
    put(tmp_path, "config.toml", config)
    put(tmp_path, "notes.md", "mine")
    before = tree(tmp_path)

    install(tmp_path)

    hooks = json.loads((tmp_path / ".codex/hooks.json").read_text(encoding="utf-8"))
    assert hooks["description"] == "mine"
    # Ours comes last: approval is given to a place in the list.
    assert [group["hooks"][0]["command"][:8] for group in hooks["hooks"]["Stop"]] == ["say done", "cortext "]
    text = (tmp_path / ".codex/config.toml").read_text(encoding="utf-8")
    assert text.startswith(config)
    assert set(tomllib.loads(text)["mcp_servers"]) == {"other", "cortext"}
    remove(tmp_path)
    assert tree(tmp_path) == before


def test_hooks_that_the_user_adds_later_stay(tmp_path: Path) -> None:
    install(tmp_path)
    path = tmp_path / ".codex/hooks.json"
    hooks = json.loads(path.read_text(encoding="utf-8"))
    hooks["hooks"]["Stop"].append(USERS["hooks"]["Stop"][0])  # type: ignore[index]
    path.write_text(json.dumps(hooks, indent=2), encoding="utf-8")
    config = tmp_path / ".codex/config.toml"
    config.write_text(config.read_text(encoding="utf-8") + '\n[tui]\ntheme = "dark"\n', encoding="utf-8")

    remove(tmp_path)

    assert json.loads(path.read_text(encoding="utf-8")) == {"hooks": USERS["hooks"]}
    assert tomllib.loads(config.read_text(encoding="utf-8")) == {"tui": {"theme": "dark"}}


def test_another_way_to_call_us_replaces_the_old_one(tmp_path: Path) -> None:
    put(tmp_path, "hooks.json", json.dumps(USERS, indent=2))
    put(tmp_path, "config.toml", 'model = "x"\n')
    before = tree(tmp_path)
    install(tmp_path)

    assert install(tmp_path, ["/opt/my tools/python", "-m", 'cor"text']) == [".codex/hooks.json", ".codex/config.toml"]

    hooks = json.loads((tmp_path / ".codex/hooks.json").read_text(encoding="utf-8"))["hooks"]
    assert all(len(groups) == (2 if event == "Stop" else 1) for event, groups in hooks.items())
    command = hooks["SessionStart"][0]["hooks"][0]["command"]
    said = subprocess.run(
        ["/bin/sh", "-c", command.replace("'/opt/my tools/python'", "printf '%s|' py")], capture_output=True, check=True
    )
    assert said.stdout == b'py|-m|cor"text|hook|codex|'
    server = tomllib.loads((tmp_path / ".codex/config.toml").read_text(encoding="utf-8"))["mcp_servers"]["cortext"]
    assert (server["command"], server["args"]) == ("/opt/my tools/python", ["-m", 'cor"text', "mcp"])
    remove(tmp_path)
    assert tree(tmp_path) == before


def test_users_own_server_of_our_name_stays(tmp_path: Path) -> None:
    text = '[mcp_servers.cortext]\ncommand = "mine"\n'
    path = put(tmp_path, "config.toml", text)

    install(tmp_path)
    assert path.read_text(encoding="utf-8") == text
    remove(tmp_path)
    assert path.read_text(encoding="utf-8") == text


def test_file_that_is_not_text_or_is_a_link_is_left_alone(tmp_path: Path) -> None:
    path = put(tmp_path, "config.toml", "")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"config\.toml"):
        install(tmp_path)
    assert path.read_bytes() == b"\xff\xfe"

    path.unlink()
    path.symlink_to(tmp_path.parent / "dotfiles.toml")
    with pytest.raises(UnsafePath, match="link"):
        install(tmp_path)
    assert path.is_symlink()


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
groups = st.lists(st.fixed_dictionaries({"hooks": st.lists(values, max_size=2)}) | values, max_size=3)
files = st.fixed_dictionaries(
    {}, optional={"hooks": st.dictionaries(st.sampled_from(["Stop", "PreToolUse"]), groups), "x": values}
)


@given(files, st.booleans(), st.sampled_from(["", "\n"]))
@pytest.mark.req("TOOL-01")
def test_any_file_with_two_spaces_comes_back_byte_for_byte(
    tmp_path_factory: pytest.TempPathFactory, root: dict[str, Any], ascii_only: bool, end: str
) -> None:
    project = tmp_path_factory.mktemp("project")
    text = json.dumps(root, indent=2, ensure_ascii=ascii_only) + end
    if ascii_only is False and "\\u" in text:
        return  # an escaped and an unescaped character in one file: either spelling is right
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    path = put(project, "hooks.json", text)

    install(project)
    once = path.read_bytes()
    install(project)
    assert path.read_bytes() == once
    remove(project)

    assert path.read_bytes() == text.encode()


# ── commands, hooks, start ───────────────────────────────────────────────────────────────────────────


@pytest.mark.req("TOOL-01")
def test_commands_become_skills() -> None:
    commands = [
        CommandFile(
            name="workspace.brainstorm",
            description='think "widely":\nthen choose',
            text="# Brainstorm\n\nTopic: {arguments}\n\n`/workspace.resume` goes on; see docs/workspace.md.\n",
        ),
        CommandFile(
            name="workspace.stop-conversation", description="stop", text="{run}\n\nSay it.", run=("stop", "--in-tool")
        ),
        CommandFile(name="workspace.resume", description="resume", text="Go on.", run=("resume", "--in-tool")),
    ]

    files = {
        name: data.decode() for name, data in Codex(home="/nowhere").files(commands, ["/my tools/cortext"]).items()
    }

    brainstorm = files[".agents/skills/workspace-brainstorm/SKILL.md"]
    assert brainstorm.startswith(
        '---\nname: workspace-brainstorm\ndescription: "think \\"widely\\": then choose"\n---\n\n# Brainstorm\n'
    )
    assert "Topic: (the words after `$workspace-brainstorm` in the user's message)" in brainstorm
    assert "`$workspace-resume` goes on; see docs/workspace.md." in brainstorm
    stop = files[".agents/skills/workspace-stop-conversation/SKILL.md"]
    assert "`'/my tools/cortext' stop --in-tool`" in stop and "{run}" not in stop
    resume = files[".agents/skills/workspace-resume/SKILL.md"]
    assert resume.index("'/my tools/cortext' resume --in-tool") < resume.index("Go on.")
    policies = [text for name, text in files.items() if name.endswith("agents/openai.yaml")]
    assert policies == ["policy:\n  allow_implicit_invocation: false\n"] * 3


def payload(event: str, **fields: Any) -> dict[str, Any]:
    where = {"session_id": "01a1", "transcript_path": "/s/rollout.jsonl", "cwd": "/work/boats"}
    return {**where, "hook_event_name": event, "model": "test-model", **fields}


@pytest.mark.req("TOOL-01", "SESS-001d")
def test_payloads_in_our_words() -> None:
    tool = Codex(home="/nowhere")

    def told(event: str, **fields: Any) -> tuple[str, ...]:
        found = tool.hook_event(payload(event, **fields))
        assert found is not None
        assert found.project == "/work/boats"
        return found.kind, found.key, found.text, found.command, found.arguments

    assert told("SessionStart", source="resume") == ("started", "01a1", "", "", "")
    assert told("UserPromptSubmit", prompt="hello") == ("prompt", "01a1", "hello", "", "")
    typed = "$workspace-brainstorm API design\nand more"
    assert told("UserPromptSubmit", prompt=typed) == (
        "command",
        "01a1",
        typed,
        "workspace.brainstorm",
        "API design\nand more",
    )
    linked = "[$workspace-stop-conversation](/p/.agents/skills/workspace-stop-conversation/SKILL.md)"
    assert told("UserPromptSubmit", prompt=linked)[3:] == ("workspace.stop-conversation", "")
    assert told("UserPromptSubmit", prompt="not $workspace-brainstorm")[0] == "prompt"
    assert told("Stop", last_assistant_message="The heron.") == ("answered", "01a1", "The heron.", "", "")
    assert told("Stop", last_assistant_message=None) == ("answered", "01a1", "", "", "")
    assert told("PostCompact", trigger="manual")[0] == "compacted"
    assert told("SessionEnd", reason="other")[0] == "ended"
    assert told("PreToolUse", tool_name="Bash")[0] == "other"
    assert told("UserPromptSubmit", prompt="sub, do it", agent_id="01a2") == ("other", "01a2", "sub, do it", "", "")
    bare = tool.hook_event({"session_id": "01a1", "hook_event_name": "Stop", "transcript_path": None})
    assert bare is not None and (bare.path, bare.project) == ("", "")
    assert tool.hook_event({}) is None
    assert tool.hook_event({"session_id": 3, "hook_event_name": ["x"]}) is None


def test_answer_reaches_the_model_only_where_codex_listens() -> None:
    tool = Codex(home="/nowhere")

    answer = json.loads(tool.hook_answer(payload("UserPromptSubmit"), 'the "packet"\n'))

    assert answer == {
        "hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": 'the "packet"\n'}
    }
    # With the end of an answer it is a user's message, and the model goes on.
    assert json.loads(tool.hook_answer(payload("Stop"), "words")) == {"decision": "block", "reason": "words"}
    assert tool.hook_answer(payload("PostCompact"), "words") == ""
    assert tool.hook_answer(payload("SessionStart"), "") == ""


def program(folder: Path, says: str) -> dict[str, str]:
    """An environment in which `codex` is a script that says this."""
    folder.mkdir(exist_ok=True)
    script = folder / "codex"
    script.write_text(f"#!/bin/sh\n{says}\n", encoding="utf-8")
    script.chmod(0o755)
    return {"PATH": str(folder), "HOME": str(folder / "home")}


@pytest.mark.req("TOOL-01")
def test_program_is_found_and_asked_for_its_version(tmp_path: Path) -> None:
    assert Codex(environ={"PATH": str(tmp_path), "HOME": "/"}).detect() is None

    found = Codex(environ=program(tmp_path / "a", "echo codex-cli 0.166.0")).detect()
    assert found is not None
    assert (found.program, found.version, found.tested) == (str(tmp_path / "a" / "codex"), "0.166.0", True)
    newer = Codex(environ=program(tmp_path / "b", "echo codex-cli 1.2.3-beta.4; exit 1")).detect()
    assert newer is not None and (newer.version, newer.tested) == ("1.2.3-beta.4", False)
    broken = Codex(environ=program(tmp_path / "c", "exit 3")).detect()
    assert broken is not None and (broken.version, broken.tested) == ("unknown", False)
    assert not (tmp_path / "a" / "home").exists()


def test_how_to_start_it(tmp_path: Path) -> None:
    environ = program(tmp_path / "bin", "true")
    tool = Codex(environ=environ)
    codex = str(tmp_path / "bin" / "codex")

    start = tool.launch("key", project="/work/boats")
    assert (start.argv, start.cwd, start.env) == ([codex, "resume", "key"], "/work/boats", {})
    start = tool.launch("key", project="/work/boats", prompt="-x", model="m")
    assert start.argv == [codex, "resume", "-m", "m", "key", "--", "-x"]
    elsewhere = Codex(environ={**environ, "CODEX_HOME": "/elsewhere"}).launch("key", project="/work/boats")
    assert elsewhere.env == {"CODEX_HOME": "/elsewhere"}
    with pytest.raises(UsageError, match="too long"):
        tool.launch("key", project="/", prompt="x" * 200_000)
    with pytest.raises(NotFound, match="not installed"):
        Codex(environ={"PATH": "", "HOME": "/"}).launch("key", project="/")
