"""Our entries in a project: next to the user's, added once, and removed completely."""

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
USER_HOOKS = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}, "description": "mine"}


TOOL: Installer = Codex(home="/nowhere")


def install(project: Path, program: list[str] = PROGRAM) -> list[str]:
    return [os.path.relpath(path, project) for path in TOOL.install_settings(str(project), program)]


def remove(project: Path) -> list[str]:
    return [os.path.relpath(path, project) for path in TOOL.remove_settings(str(project))]


def save(project: Path, name: str, text: str) -> Path:
    path = project / ".codex" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text.encode())
    return path


def tree(project: Path) -> dict[str, bytes]:
    return {str(path.relative_to(project)): path.read_bytes() for path in project.rglob("*") if path.is_file()}


@pytest.mark.req("TOOL-01")
def test_hooks_and_server_are_added_once_and_removed_without_a_trace(tmp_path: Path) -> None:
    assert install(tmp_path) == [".codex/hooks.json", ".codex/config.toml"]

    hooks = json.loads((tmp_path / ".codex/hooks.json").read_text(encoding="utf-8"))["hooks"]
    assert list(hooks) == EVENTS
    for event, [group] in hooks.items():
        (hook,) = group["hooks"]
        assert set(hook) <= {"type", "command", "timeout", "additionalContextLimit"}  # all known to Codex
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
def test_the_users_own_settings_are_kept(tmp_path: Path) -> None:
    save(tmp_path, "hooks.json", json.dumps(USER_HOOKS, indent=2) + "\n")
    config = '# my settings\nmodel = "x"   # a comment\n\n[mcp_servers.other]\ncommand = "other"'
    save(tmp_path, "config.toml", config)
    save(tmp_path, "notes.md", "mine")
    before = tree(tmp_path)

    install(tmp_path)

    hooks = json.loads((tmp_path / ".codex/hooks.json").read_text(encoding="utf-8"))
    assert hooks["description"] == "mine"
    # Ours comes last: Codex stores approval by the position in the list.
    assert [group["hooks"][0]["command"][:8] for group in hooks["hooks"]["Stop"]] == ["say done", "cortext "]
    text = (tmp_path / ".codex/config.toml").read_text(encoding="utf-8")
    assert text.startswith(config)
    assert set(tomllib.loads(text)["mcp_servers"]) == {"other", "cortext"}
    remove(tmp_path)
    assert tree(tmp_path) == before


def test_what_the_user_adds_later_survives_removal(tmp_path: Path) -> None:
    install(tmp_path)
    path = tmp_path / ".codex/hooks.json"
    hooks = json.loads(path.read_text(encoding="utf-8"))
    hooks["hooks"]["Stop"].append(USER_HOOKS["hooks"]["Stop"][0])  # type: ignore[index]
    path.write_text(json.dumps(hooks, indent=2), encoding="utf-8")
    config = tmp_path / ".codex/config.toml"
    config.write_text(config.read_text(encoding="utf-8") + '\n[tui]\ntheme = "dark"\n', encoding="utf-8")

    remove(tmp_path)

    assert json.loads(path.read_text(encoding="utf-8")) == {"hooks": USER_HOOKS["hooks"]}
    assert tomllib.loads(config.read_text(encoding="utf-8")) == {"tui": {"theme": "dark"}}


def test_a_new_command_line_replaces_the_old_one(tmp_path: Path) -> None:
    save(tmp_path, "hooks.json", json.dumps(USER_HOOKS, indent=2))
    save(tmp_path, "config.toml", 'model = "x"\n')
    before = tree(tmp_path)
    install(tmp_path)

    assert install(tmp_path, ["/opt/my tools/python", "-m", 'cor"text']) == [".codex/hooks.json", ".codex/config.toml"]

    hooks = json.loads((tmp_path / ".codex/hooks.json").read_text(encoding="utf-8"))["hooks"]
    assert all(len(groups) == (2 if event == "Stop" else 1) for event, groups in hooks.items())
    command = hooks["SessionStart"][0]["hooks"][0]["command"]
    run = subprocess.run(
        ["/bin/sh", "-c", command.replace("'/opt/my tools/python'", "printf '%s|' py")], capture_output=True, check=True
    )
    assert run.stdout == b'py|-m|cor"text|hook|codex|'
    server = tomllib.loads((tmp_path / ".codex/config.toml").read_text(encoding="utf-8"))["mcp_servers"]["cortext"]
    assert (server["command"], server["args"]) == ("/opt/my tools/python", ["-m", 'cor"text', "mcp"])
    remove(tmp_path)
    assert tree(tmp_path) == before


def test_another_server_of_the_same_name_is_kept(tmp_path: Path) -> None:
    text = '[mcp_servers.cortext]\ncommand = "mine"\n'
    path = save(tmp_path, "config.toml", text)

    install(tmp_path)
    assert path.read_text(encoding="utf-8") == text
    remove(tmp_path)
    assert path.read_text(encoding="utf-8") == text


def test_a_binary_file_or_a_link_is_not_changed(tmp_path: Path) -> None:
    path = save(tmp_path, "config.toml", "")
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
def test_removal_restores_any_two_space_json_file_exactly(
    tmp_path_factory: pytest.TempPathFactory, root: dict[str, Any], ascii_only: bool, end: str
) -> None:
    project = tmp_path_factory.mktemp("project")
    text = json.dumps(root, indent=2, ensure_ascii=ascii_only) + end
    if ascii_only is False and "\\u" in text:
        return  # escaped and unescaped characters in one file: either form is correct
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    path = save(project, "hooks.json", text)

    install(project)
    once = path.read_bytes()
    install(project)
    assert path.read_bytes() == once
    remove(project)

    assert path.read_bytes() == text.encode()


# ── commands, hooks, launch ──────────────────────────────────────────────────────────────────────────


@pytest.mark.req("TOOL-01")
def test_commands_become_skills_that_only_the_user_calls() -> None:
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
    assert "Topic: (the text after `$workspace-brainstorm` in the user's message)" in brainstorm
    assert "`$workspace-resume` goes on; see docs/workspace.md." in brainstorm
    stop = files[".agents/skills/workspace-stop-conversation/SKILL.md"]
    assert "`'/my tools/cortext' stop --in-tool`" in stop and "{run}" not in stop
    resume = files[".agents/skills/workspace-resume/SKILL.md"]
    assert resume.index("'/my tools/cortext' resume --in-tool") < resume.index("Go on.")
    policies = [text for name, text in files.items() if name.endswith("agents/openai.yaml")]
    assert policies == ["policy:\n  allow_implicit_invocation: false\n"] * 3


@pytest.mark.req("TOOL-01", "SESS-007")
def test_a_skill_sends_the_model_to_the_file_with_the_prompt() -> None:
    plan = CommandFile(name="workspace.plan", description="x", text="# Plan\n", file=".workspace/commands/plan.md")

    text = Codex(home="/nowhere").files([plan], ["cortext"])[".agents/skills/workspace-plan/SKILL.md"].decode()

    assert "the file `../../../.workspace/commands/plan.md`, from the folder of this skill" in text
    assert "`{arguments}` in it stands for the text after `$workspace-plan`" in text
    assert "# Plan" not in text


def payload(event: str, **fields: Any) -> dict[str, Any]:
    common = {"session_id": "01a1", "transcript_path": "/s/rollout.jsonl", "cwd": "/work/boats"}
    return {**common, "hook_event_name": event, "model": "test-model", **fields}


@pytest.mark.req("TOOL-01", "SESS-001d")
def test_a_hook_payload_becomes_an_event() -> None:
    tool = Codex(home="/nowhere")

    def event_of(event: str, **fields: Any) -> tuple[str, ...]:
        found = tool.hook_event(payload(event, **fields))
        assert found is not None
        assert found.project == "/work/boats"
        return found.kind, found.key, found.text, found.command, found.arguments

    assert event_of("SessionStart", source="resume") == ("started", "01a1", "", "", "")
    assert event_of("UserPromptSubmit", prompt="hello") == ("prompt", "01a1", "hello", "", "")
    typed = "$workspace-brainstorm API design\nand more"
    assert event_of("UserPromptSubmit", prompt=typed) == (
        "command",
        "01a1",
        typed,
        "workspace.brainstorm",
        "API design\nand more",
    )
    linked = "[$workspace-stop-conversation](/p/.agents/skills/workspace-stop-conversation/SKILL.md)"
    assert event_of("UserPromptSubmit", prompt=linked)[3:] == ("workspace.stop-conversation", "")
    assert event_of("UserPromptSubmit", prompt="not $workspace-brainstorm")[0] == "prompt"
    assert event_of("Stop", last_assistant_message="The heron.") == ("answered", "01a1", "The heron.", "", "")
    assert event_of("Stop", last_assistant_message=None) == ("answered", "01a1", "", "", "")
    assert event_of("PostCompact", trigger="manual")[0] == "compacted"
    assert event_of("SessionEnd", reason="other")[0] == "ended"
    assert event_of("PreToolUse", tool_name="Bash")[0] == "other"
    assert event_of("UserPromptSubmit", prompt="sub, do it", agent_id="01a2") == ("other", "01a2", "sub, do it", "", "")
    bare = tool.hook_event({"session_id": "01a1", "hook_event_name": "Stop", "transcript_path": None})
    assert bare is not None and (bare.path, bare.project) == ("", "")
    assert tool.hook_event({}) is None
    assert tool.hook_event({"session_id": 3, "hook_event_name": ["x"]}) is None


def test_a_hook_answer_is_given_only_where_codex_takes_one() -> None:
    tool = Codex(home="/nowhere")

    answer = json.loads(tool.hook_answer(payload("UserPromptSubmit"), 'the "packet"\n'))

    assert answer == {
        "hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": 'the "packet"\n'}
    }
    # After an answer it becomes a user message, and the model continues.
    record = json.loads(tool.hook_answer(payload("Stop"), "words"))
    assert record["decision"] == "block" and record["reason"].endswith("nothing went wrong.\n\nwords")
    assert tool.hook_answer(payload("PostCompact"), "words") == ""
    assert tool.hook_answer(payload("SessionStart"), "") == ""


def environment(folder: Path, script: str) -> dict[str, str]:
    """Return an environment in which `codex` is this shell script."""
    folder.mkdir(exist_ok=True)
    executable = folder / "codex"
    executable.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    executable.chmod(0o755)
    return {"PATH": str(folder), "HOME": str(folder / "home")}


@pytest.mark.req("TOOL-01")
def test_the_executable_and_its_version_are_detected(tmp_path: Path) -> None:
    assert Codex(environ={"PATH": str(tmp_path), "HOME": "/"}).detect() is None

    found = Codex(environ=environment(tmp_path / "a", "echo codex-cli 0.166.0")).detect()
    assert found is not None
    assert (found.program, found.version, found.tested) == (str(tmp_path / "a" / "codex"), "0.166.0", True)
    newer = Codex(environ=environment(tmp_path / "b", "echo codex-cli 1.2.3-beta.4; exit 1")).detect()
    assert newer is not None and (newer.version, newer.tested) == ("1.2.3-beta.4", False)
    broken = Codex(environ=environment(tmp_path / "c", "exit 3")).detect()
    assert broken is not None and (broken.version, broken.tested) == ("", False)
    assert not (tmp_path / "a" / "home").exists()


def test_the_command_line_resumes_a_thread_with_prompt_and_model(tmp_path: Path) -> None:
    environ = environment(tmp_path / "bin", "true")
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
