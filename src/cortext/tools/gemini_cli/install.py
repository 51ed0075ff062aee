"""Our commands as files of a project, and our hooks and MCP entry in its `.gemini/settings.json`, and out again."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Sequence
from typing import Any

from cortext.errors import UsageError
from cortext.tools.base import CommandFile
from cortext.tools.gemini_cli.gate import COMMAND as GATE
from cortext.tools.shared.entries import NAME, Entry, Hooks, Server, Setting
from cortext.tools.shared.installer import JsonConfig, toml_string

# What we want to hear of. The others come with every model call, or every chunk of it.
EVENTS = ("SessionStart", "BeforeAgent", "AfterAgent", "SessionEnd")
RETENTION = ("general", "sessionRetention", "enabled")
_KEEP_SESSIONS = Setting("retention", RETENTION, False)
_TIMEOUT_MS = 10_000
_COMMAND_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}")


def configs(program: Sequence[str] = ("cortext",)) -> list[JsonConfig]:
    """Hooks, MCP server and the retention of sessions in `.gemini/settings.json`, and the note of what was there."""
    hook = _hook(shlex.join([*program, "hook", "gemini"]))
    server = Server.of("gemini", program, description="Conversations of this workspace (added by cortext)")
    return [_config(Hooks(dict.fromkeys(EVENTS, hook), mark=""), server, _KEEP_SESSIONS)]


def resume_configs(*, keep: bool, gate: bool) -> list[JsonConfig]:
    """What a resume needs: that the program deletes no session by itself, and the gate before the first prompt."""
    entries: list[Entry] = [_KEEP_SESSIONS] if keep else []
    if gate:
        entries.append(Hooks({"BeforeAgent": _hook(GATE)}, mark="", update=False))
    return [_config(*entries)]


def _config(*entries: Entry) -> JsonConfig:
    return JsonConfig((".gemini/settings.json",), entries, comments=True, note=".gemini/cortext.json")


def _hook(command: str) -> dict[str, Any]:
    return {
        "name": NAME,
        "type": "command",
        "command": command,
        "timeout": _TIMEOUT_MS,
        "description": "Keeps this conversation (cortext)",
    }


# ── command files ────────────────────────────────────────────────────────────────────────────────────


def command_files(commands: Sequence[CommandFile]) -> dict[str, bytes]:
    """The slash commands as files of the project."""
    for command in commands:
        if not _COMMAND_NAME.fullmatch(command.name):
            raise UsageError(f"not a name for a command: {ascii(command.name)[:60]}")
    return {f".gemini/commands/{command.name}.toml": command_text(command).encode("utf-8") for command in commands}


def command_text(command: CommandFile) -> str:
    """A command as Gemini CLI wants it, with a mark that tells our hook which command it was.

    What a command is to run is left to that hook: the program's own way to put an output into a prompt asks first,
    fails without a screen, and loses the end of a long one.
    """
    text = command.text.replace("{run}\n\n", "").replace("{run}", "")
    # These three the program would take for orders of its own: to run, to read a file, to put in the arguments.
    text = re.sub(r"([!@])\{", r"\1 {", text).replace("{{args}}", "{ {args}}")
    text = text.replace("{arguments}", "{{args}}").rstrip("\n")
    text += f"\n\n<!-- cortext:command {command.name} -->{{{{args}}}}<!-- cortext:end -->\n"
    return f"description = {toml_string(command.description)}\nprompt = {_toml_text(text)}\n"


def _toml_text(text: str) -> str:
    """A TOML string of several lines, as a person would write it; on one line where that would not be the same."""
    plain = text.replace("\\", "\\\\").replace('"""', '""\\"')
    many = f'"""\n{plain}"""'
    try:
        same = tomllib.loads(f"text = {many}\n")["text"] == text
    except tomllib.TOMLDecodeError:
        same = False
    return many if same else toml_string(text)
