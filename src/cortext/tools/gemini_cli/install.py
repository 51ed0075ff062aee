"""Install and remove our command files, and our hooks and MCP entry in a project's `.gemini/settings.json`."""

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

# The hook events that we need. The others fire for every model call, or for every chunk of its answer.
EVENTS = ("SessionStart", "BeforeAgent", "AfterAgent", "SessionEnd")
RETENTION = ("general", "sessionRetention", "enabled")
_KEEP_SESSIONS = Setting("retention", RETENTION, False)
_TIMEOUT_MS = 10_000
_COMMAND_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}")


def configs(program: Sequence[str] = ("cortext",)) -> list[JsonConfig]:
    """Return our entries in `.gemini/settings.json` (hooks, MCP server, session retention) and the note beside it."""
    hook = _hook(shlex.join([*program, "hook", "gemini"]))
    server = Server.of("gemini", program, description="Conversations of this workspace (added by cortext)")
    return [_config(Hooks(dict.fromkeys(EVENTS, hook), mark=""), server, _KEEP_SESSIONS)]


def resume_configs(*, keep: bool, gate: bool) -> list[JsonConfig]:
    """Return the entries that a resume needs: no deletion of sessions, and the gate before the first prompt."""
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
    """Return the slash command files by path; UsageError for a name that cannot be a file name."""
    for command in commands:
        if not _COMMAND_NAME.fullmatch(command.name):
            raise UsageError(
                f"invalid command name {ascii(command.name)[:60]}",
                hint="begin with a letter or digit; use letters, digits, dots, hyphens and underscores",
            )
    return {f".gemini/commands/{command.name}.toml": command_text(command).encode("utf-8") for command in commands}


def command_text(command: CommandFile) -> str:
    """Return a command file for Gemini CLI, with a marker by which our hook recognises the command.

    The hook also adds the output of `run`: Gemini CLI's own syntax for that asks for confirmation, fails in headless
    mode, and truncates a long output.
    """
    text = command.text.replace("{run}\n\n", "").replace("{run}", "")
    # Gemini CLI would expand these three: a shell command, the contents of a file, the arguments.
    text = re.sub(r"([!@])\{", r"\1 {", text).replace("{{args}}", "{ {args}}")
    text = text.replace("{arguments}", "{{args}}").rstrip("\n")
    text += f"\n\n<!-- cortext:command {command.name} -->{{{{args}}}}<!-- cortext:end -->\n"
    return f"description = {toml_string(command.description)}\nprompt = {_toml_text(text)}\n"


def _toml_text(text: str) -> str:
    """Return a multi-line TOML string; a single-line one if the multi-line form would not parse to the same text."""
    escaped = text.replace("\\", "\\\\").replace('"""', '""\\"')
    multi_line = f'"""\n{escaped}"""'
    try:
        is_exact = tomllib.loads(f"text = {multi_line}\n")["text"] == text
    except tomllib.TOMLDecodeError:
        is_exact = False
    return multi_line if is_exact else toml_string(text)
