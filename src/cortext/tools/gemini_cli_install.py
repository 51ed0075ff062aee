"""Our commands, hooks and MCP entry in a project's `.gemini` folder, and out of it again.

A note beside them (`.gemini/cortext.json`) says which places in the settings were made by us, so that exactly those
go. Hooks are known by their name, the MCP server by its description, a command file by the sum in its first line:
one that the user edited is the user's, and stays.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import tomllib
from collections.abc import Sequence
from typing import Any

from cortext import fsio
from cortext.errors import ConfigError, UsageError
from cortext.tools.base import CommandFile
from cortext.tools.gemini_cli_settings import SettingsText

# What we want to hear of. The others come with every model call, or every chunk of it.
EVENTS = ("SessionStart", "BeforeAgent", "AfterAgent", "SessionEnd")
HOOK_NAME = "cortext"
SERVER_NAME = "cortext"
SERVER_DESCRIPTION = "Conversations of this workspace (added by cortext)"
RETENTION = ("general", "sessionRetention", "enabled")
_TIMEOUT_MS = 10_000
_HEADER = re.compile(r"# Added by cortext \(sha256:([0-9a-f]{64})\)[^\n]*\n")
_COMMAND_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}")


class ProjectConfig:
    """The `.gemini` folder of a project."""

    def __init__(self, project: str) -> None:
        self.folder = os.path.join(project, ".gemini")
        self.settings_path = os.path.join(self.folder, "settings.json")
        self.note_path = os.path.join(self.folder, "cortext.json")
        self.touched: list[str] = []

    def install(self, commands: Sequence[CommandFile], program: Sequence[str]) -> list[str]:
        """Put everything in; what is there already is left alone."""
        settings, made = self._settings(), self._note()
        files = {self._command_path(command.name): command_text(command) for command in commands}
        command = shlex.join([*program, "hook", "gemini"])
        for event in EVENTS:
            self._put_hook(settings, event, command, made)
        self._put_server(settings, list(program), made)
        self._put_retention(settings, made)
        for path, text in files.items():
            self._put_command(path, text)
        self._save(settings, made)
        return self.touched

    def keep_sessions(self) -> list[str]:
        """Only this: that the program deletes no session of the project by itself."""
        settings, made = self._settings(), self._note()
        self._put_retention(settings, made)
        self._save(settings, made)
        return self.touched

    def uninstall(self) -> list[str]:
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
        self._remove_commands()
        if made.get("file") and settings.value == {}:
            self._remove(self.settings_path)
        else:
            self._write(self.settings_path, settings.text)
        self._remove(self.note_path)
        self._remove_if_empty(os.path.join(self.folder, "commands"), made.get("commands"))
        self._remove_if_empty(self.folder, made.get("folder"))
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
            "what": "what cortext added to this folder; `cortext uninstall` takes it out by this list",
            "folder": not os.path.isdir(self.folder),
            "commands": not os.path.isdir(os.path.join(self.folder, "commands")),
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
        server = {"command": program[0], "args": [*program[1:], "mcp"], "description": SERVER_DESCRIPTION}
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

    # ── commands ─────────────────────────────────────────────────────────────────────────────────────

    def _command_path(self, name: str) -> str:
        if not _COMMAND_NAME.fullmatch(name):
            raise UsageError(f"not a name for a command: {ascii(name)[:60]}")
        return os.path.join(self.folder, "commands", f"{name}.toml")

    def _put_command(self, path: str, text: str) -> None:
        there = self._read(path)
        if there is None or is_ours(there):
            self._write(path, text)

    def _remove_commands(self) -> None:
        folder = os.path.join(self.folder, "commands")
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        for name in names:
            path = os.path.join(folder, name)
            if name.endswith(".toml") and is_ours(self._read(path) or ""):
                self._remove(path)

    # ── files ────────────────────────────────────────────────────────────────────────────────────────

    def _read(self, path: str) -> str | None:
        """A file's text; None where there is none. One that we must not touch is an error that names it."""
        if os.path.islink(path):
            raise ConfigError(f"{path} is a symbolic link", kept="it is unchanged", hint="put a file in its place")
        try:
            with open(path, encoding="utf-8", newline="") as file:
                return file.read()
        except FileNotFoundError:
            return None
        except (UnicodeDecodeError, IsADirectoryError, PermissionError) as error:
            raise ConfigError(f"{path} cannot be read: {error}", kept="it is unchanged") from error

    def _write(self, path: str, text: str) -> bool:
        """Write a file where it says something else; whether it did."""
        there = self._read(path)
        if there == text or (there is None and text == "{}\n"):
            return False
        fsio.ensure_folder(os.path.dirname(path))
        fsio.replace_file(path, [text.encode("utf-8")])
        self.touched.append(path)
        return True

    def _remove(self, path: str) -> None:
        if os.path.exists(path):
            fsio.remove(path)
            self.touched.append(path)

    def _remove_if_empty(self, folder: str, ours: object) -> None:
        if ours and os.path.isdir(folder) and not os.listdir(folder):
            fsio.remove_tree(folder)


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


def command_text(command: CommandFile) -> str:
    """A command as Gemini CLI wants it, with a mark that tells our hook which command it was."""
    # These three the program would take for orders of its own: to run, to read a file, to put in the arguments.
    text = re.sub(r"([!@])\{", r"\1 {", command.text).replace("{{args}}", "{ {args}}")
    text = text.replace("{arguments}", "{{args}}").rstrip("\n")
    if command.run:
        line = " ".join("{{args}}" if word == "{arguments}" else shlex.quote(word) for word in command.run)
        # Its own way to put a command's output into a prompt asks first, fails headless, and loses long output.
        text += f"\n\nRun this command in the shell, and go on from what it prints:\n\n    {line}"
    text += f"\n\n<!-- cortext:command {command.name} -->{{{{args}}}}<!-- cortext:end -->\n"
    body = f"description = {_toml_line(command.description)}\nprompt = {_toml_text(text)}\n"
    return f"# Added by cortext (sha256:{_sum(body)}); edited, it is yours and stays as it is.\n{body}"


def is_ours(text: str) -> bool:
    """Whether a command file is as we wrote it."""
    match = _HEADER.match(text)
    return match is not None and match[1] == _sum(text[match.end() :])


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


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
