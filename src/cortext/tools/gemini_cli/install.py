"""Install and remove our command files, and our hooks and MCP entry in a project's `.gemini/settings.json`."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any

from cortext.safety.languages import shell
from cortext.tools.base import CommandFile
from cortext.tools.gemini_cli.gate import COMMAND as GATE
from cortext.tools.gemini_cli.purge import RETENTION
from cortext.tools.shared.entries import NAME, Entry, Hooks, Server, Setting
from cortext.tools.shared.installer import JsonConfig, toml_string
from cortext.tools.shared.typed import check_names, marked_prompt

# The hook events that we need. The others fire for every model call, or for every chunk of its answer.
EVENTS = ("SessionStart", "BeforeAgent", "AfterAgent", "SessionEnd")
_KEEP_SESSIONS = Setting("retention", RETENTION, False)
_TIMEOUT_MS = 10_000


def configs(program: Sequence[str] = ("cortext",)) -> list[JsonConfig]:
    """Return our entries in `.gemini/settings.json` (hooks, MCP server, session retention) and the note beside it."""
    hook = _hook(shell([*program, "hook", "gemini"]))
    server = Server.of("gemini", program, description="Conversations of this workspace (added by cortext)")
    events = Hooks(dict.fromkeys(EVENTS, hook), mark="")
    # Without the matcher it is called before every turn, whether Gemini CLI then compresses the conversation or not.
    compressed = Hooks({"PreCompress": hook}, mark="", matcher="manual")
    return [_config(events, compressed, server, _KEEP_SESSIONS)]


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
    check_names(commands)
    return {f".gemini/commands/{command.name}.toml": command_text(command).encode("utf-8") for command in commands}


def command_text(command: CommandFile) -> str:
    """Return a command file for Gemini CLI."""
    return f"description = {toml_string(command.description)}\nprompt = {_toml_text(marked_prompt(command))}\n"


def _toml_text(text: str) -> str:
    """Return a multi-line TOML string; a single-line one if the multi-line form would not parse to the same text."""
    escaped = text.replace("\\", "\\\\").replace('"""', '""\\"')
    multi_line = f'"""\n{escaped}"""'
    try:
        is_exact = tomllib.loads(f"text = {multi_line}\n")["text"] == text
    except tomllib.TOMLDecodeError:
        is_exact = False
    return multi_line if is_exact else toml_string(text)
