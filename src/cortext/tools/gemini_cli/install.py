"""Our commands as files of a project, and our hooks and MCP entry in its `.gemini/settings.json`, and out again.

A note beside the settings (`.gemini/cortext.json`) says which places in them were made by us, so that exactly those
go. Hooks are known by their name, the MCP server by its description.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import tomllib
from collections.abc import Sequence
from typing import Any

from cortext.errors import ConfigError, UsageError
from cortext.io import files as fsio
from cortext.io.inside import inside
from cortext.tools.base import CommandFile
from cortext.tools.gemini_cli.gate import COMMAND as GATE
from cortext.tools.gemini_cli.settings import SettingsText

# What we want to hear of. The others come with every model call, or every chunk of it.
EVENTS = ("SessionStart", "BeforeAgent", "AfterAgent", "SessionEnd")
HOOK_NAME = "cortext"
SERVER_NAME = "cortext"
SERVER_DESCRIPTION = "Conversations of this workspace (added by cortext)"
RETENTION = ("general", "sessionRetention", "enabled")
_TIMEOUT_MS = 10_000
_COMMAND_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}")


class ProjectConfig:
    """The `.gemini` folder of a project."""

    def __init__(self, project: str, *, dry_run: bool = False) -> None:
        self.dry_run = dry_run  # then `touched` is what would be
        self.folder = inside(project, ".gemini")
        self.settings_path = inside(project, os.path.join(".gemini", "settings.json"))
        self.note_path = inside(project, os.path.join(".gemini", "cortext.json"))
        self.touched: list[str] = []

    def merge(self, program: Sequence[str]) -> list[str]:
        """Put hooks and the MCP entry in; what is there already is left alone."""
        settings, made = self._settings(), self._note()
        command = shlex.join([*program, "hook", "gemini"])
        for event in EVENTS:
            self._put_hook(settings, event, command, made)
        self._put_server(settings, list(program), made)
        self._put_retention(settings, made)
        self._save(settings, made)
        return self.touched

    def prepare(self, *, keep: bool, gate: bool) -> list[str]:
        """What a resume needs: that the program deletes no session by itself, and the gate before the first prompt."""
        settings, made = self._settings(), self._note()
        if keep:
            self._put_retention(settings, made)
        if gate and not any(_is_our_hook(entry) for entry in settings.get("hooks", "BeforeAgent") or ()):
            self._put_hook(settings, "BeforeAgent", GATE, made)
        self._save(settings, made)
        return self.touched

    def unmerge(self) -> list[str]:
        """Take everything out again that is still as we put it in."""
        settings, made = self._settings(), self._note()
        for event in EVENTS:
            settings.remove_items(("hooks", event), _is_our_hook)
        if _is_our_server(settings.get("mcpServers", SERVER_NAME)):
            settings.remove("mcpServers", SERVER_NAME)
        if settings.get(*RETENTION) is False and made.get("retention") is not None:
            settings.set(RETENTION, made["retention"])
        for place in reversed([tuple(steps) for steps in made.get("made", [])]):
            if settings.get(*place) in ({}, []) or (place == RETENTION and settings.get(*place) is False):
                settings.remove(*place)
        if made.get("file") and settings.value == {}:
            self._remove(self.settings_path)
        else:
            self._write(self.settings_path, settings.text)
        self._remove(self.note_path)
        if not self.dry_run and made.get("folder") and os.path.isdir(self.folder) and not os.listdir(self.folder):
            fsio.remove_tree(self.folder)
        return self.touched

    # ── settings ─────────────────────────────────────────────────────────────────────────────────────

    def _settings(self) -> SettingsText:
        text = self._read(self.settings_path)
        settings = SettingsText(text if text is not None and text.strip() else "{}\n", self.settings_path)
        if not isinstance(settings.value, dict):
            raise ConfigError(f"{self.settings_path} cannot be used: it is not an object", kept="it is unchanged")
        return settings

    def _note(self) -> dict[str, Any]:
        """What we wrote down about our own doing; a first time, what is there before it."""
        text = self._read(self.note_path)
        try:
            known = json.loads(text) if text else None
        except ValueError:
            known = None
        if isinstance(known, dict):
            return known
        return {
            "what": "what cortext added to settings.json; `cortext uninstall` takes it out by this list",
            "folder": not os.path.isdir(self.folder),
            "file": not os.path.exists(self.settings_path),
            "made": [],
        }

    def _put_hook(self, settings: SettingsText, event: str, command: str, made: dict[str, Any]) -> None:
        hook = {
            "name": HOOK_NAME,
            "type": "command",
            "command": command,
            "timeout": _TIMEOUT_MS,
            "description": "Keeps this conversation (cortext)",
        }
        entry = {"hooks": [hook]}
        entries = settings.get("hooks", event)
        if entries is not None and not isinstance(entries, list):
            raise ConfigError(
                f"{self.settings_path} cannot be used: hooks.{event} is not a list", kept="it is unchanged"
            )
        ours = [entry for entry in entries or () if _is_our_hook(entry)]
        if ours == [entry]:
            return
        settings.remove_items(("hooks", event), _is_our_hook)
        _add(made, settings.append(("hooks", event), entry))

    def _put_server(self, settings: SettingsText, program: list[str], made: dict[str, Any]) -> None:
        server = {"command": program[0], "args": [*program[1:], "mcp"], "env": {"CORTEXT_TOOL": "gemini"}}
        server["description"] = SERVER_DESCRIPTION
        there = settings.get("mcpServers", SERVER_NAME)
        if there is None or _is_our_server(there):
            _add(made, settings.set(("mcpServers", SERVER_NAME), server))

    def _put_retention(self, settings: SettingsText, made: dict[str, Any]) -> None:
        before = settings.get(*RETENTION)
        if before is False:
            return
        if before is not None:
            made["retention"] = before
        _add(made, settings.set(RETENTION, False))

    def _save(self, settings: SettingsText, made: dict[str, Any]) -> None:
        if self._write(self.settings_path, settings.text) or not os.path.exists(self.note_path):
            self._write(self.note_path, json.dumps(made, ensure_ascii=False, indent=2) + "\n")

    # ── files ────────────────────────────────────────────────────────────────────────────────────────

    def _read(self, path: str) -> str | None:
        """A file's text; None where there is none. One that we must not touch is an error that names it."""
        try:
            with os.fdopen(fsio.open_file(path, os.O_RDONLY), encoding="utf-8", newline="") as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (UnicodeDecodeError, OSError) as error:
            raise ConfigError(f"{path} cannot be read: {error}", kept="it is unchanged") from error

    def _write(self, path: str, text: str) -> bool:
        """Write a file where it says something else; whether it did."""
        there = self._read(path)
        if there == text or (there is None and text == "{}\n"):
            return False
        if not self.dry_run:
            fsio.ensure_folder(os.path.dirname(path))
            fsio.replace_file(path, [text.encode("utf-8")])
        self.touched.append(path)
        return True

    def _remove(self, path: str) -> None:
        if os.path.exists(path):
            if not self.dry_run:
                fsio.remove(path)
            self.touched.append(path)


def _add(made: dict[str, Any], places: list[tuple[str, ...]]) -> None:
    known = [tuple(steps) for steps in made["made"]]
    made["made"] = [list(steps) for steps in [*known, *(place for place in places if place not in known)]]


def _is_our_hook(entry: Any) -> bool:
    hooks = entry.get("hooks") if isinstance(entry, dict) else None
    if not isinstance(hooks, list) or not hooks:
        return False
    return all(isinstance(hook, dict) and hook.get("name") == HOOK_NAME for hook in hooks)


def _is_our_server(entry: Any) -> bool:
    return isinstance(entry, dict) and entry.get("description") == SERVER_DESCRIPTION


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
    return f"description = {_toml_line(command.description)}\nprompt = {_toml_text(text)}\n"


def _toml_line(text: str) -> str:
    """A TOML string on one line: as JSON has it, but for one character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml_text(text: str) -> str:
    """A TOML string of several lines, as a person would write it; on one line where that would not be the same."""
    plain = text.replace("\\", "\\\\").replace('"""', '""\\"')
    many = f'"""\n{plain}"""'
    try:
        same = tomllib.loads(f"text = {many}\n")["text"] == text
    except tomllib.TOMLDecodeError:
        same = False
    return many if same else _toml_line(text)
