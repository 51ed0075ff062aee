"""What goes into a project for Claude Code: slash commands, hooks in its settings, and the MCP entry.

The commands are whole files of ours. The settings and `.mcp.json` are the user's: our entries in them are known by
a mark of their own (a comment at the end of the hook's command, a variable of the MCP server), never guessed.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Sequence
from typing import Any

from cortext.errors import ConfigError
from cortext.io import files as fsio
from cortext.io.inside import inside
from cortext.tools.base import CommandFile
from cortext.tools.claude_code.json import JsonText

# Not PreCompact (the transcript keeps everything) and no tool events (Stop tells all that a turn did).
EVENTS = ("SessionStart", "UserPromptSubmit", "UserPromptExpansion", "Stop", "PostCompact", "SessionEnd")
SETTINGS = os.path.join(".claude", "settings.json")
MCP = ".mcp.json"
SERVER = "cortext"
_HOOK_SECONDS = 30
# `keep` names what was there before us and empty, so that it stays when we go.
_MARK = re.compile(r" # cortext(?: keep ([A-Za-z ]+))?$")
_VARIABLE, _KEEP = "CORTEXT_TOOL", "CORTEXT_KEEP"


def command_files(commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
    """The slash commands as files of the project."""
    return {
        f".claude/commands/{command.name}.md": _command_text(command, program).encode("utf-8") for command in commands
    }


def _command_text(command: CommandFile, program: Sequence[str]) -> str:
    head = [f"description: {json.dumps(command.description, ensure_ascii=False)}"]
    output = ""
    if command.run:
        line = shlex.join([*program, *command.run])
        head.append(f"allowed-tools: {json.dumps(f'Bash({line}:*)', ensure_ascii=False)}")
        output = f'!`{line} "$ARGUMENTS"`' if "{arguments}" in command.text else f"!`{line}`"
    # A dollar before a digit or ARGUMENTS would be taken for a placeholder.
    text = re.sub(r"\$(?=\d|ARGUMENTS)", r"\\$", command.text).replace("{arguments}", "$ARGUMENTS")
    if output and "{run}" not in text:
        text = f"{text.rstrip()}\n\n{{run}}\n"
    lines = "\n".join(head)
    return f"---\n{lines}\n---\n\n{text.replace('{run}', output)}"


# ── the user's own files ─────────────────────────────────────────────────────────────────────────────


def merge(project: str, program: Sequence[str], tool: str, *, dry_run: bool = False) -> list[str]:
    """Put hooks and MCP entry into the project's files; those that changed, or, dry, would change."""
    hook = shlex.join([*program, "hook", tool])
    server = {"command": program[0], "args": [*program[1:], "mcp"]}
    edits = (lambda text: _merge_hooks(text, hook), lambda text: _merge_server(text, server, tool))
    return _edit(project, *edits, create=True, dry_run=dry_run)


def unmerge(project: str, tool: str, *, dry_run: bool = False) -> list[str]:
    """Take our entries out of the project's files; those that changed."""
    return _edit(project, _unmerge_hooks, lambda text: _unmerge_server(text, tool), create=False, dry_run=dry_run)


# Gives the new text of a file; None where the file is to go.
_Edit = Callable[[str | None], str | None]


def _edit(project: str, settings: _Edit, mcp: _Edit, *, create: bool, dry_run: bool) -> list[str]:
    """Work out all the new texts before the first is written: a broken file changes nothing anywhere."""
    planned: list[tuple[str, str | None]] = []
    for name, edit in ((SETTINGS, settings), (MCP, mcp)):
        path = inside(project, name)
        old = _read(path)
        if old is None and not create:
            continue
        try:
            new = edit(old)
        except (ValueError, RecursionError) as error:
            raise ConfigError(
                f"{path} cannot be used: {error}",
                kept="it is unchanged, and so is everything else",
                hint="mend it (plain JSON, without comments) and try again",
            ) from error
        if new != old:
            planned.append((path, new))
    for path, new in () if dry_run else planned:
        if new is None:
            fsio.remove(path)
            _remove_if_empty(os.path.dirname(path), project)
        else:
            fsio.ensure_folder(os.path.dirname(path))
            fsio.replace_file(path, [new.encode("utf-8")])
    return [path for path, _ in planned]


def _read(path: str) -> str | None:
    try:
        descriptor = fsio.open_file(path, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    with os.fdopen(descriptor, "rb") as file:
        raw = file.read(fsio.SMALL_FILE + 1)
    if len(raw) > fsio.SMALL_FILE:
        raise ConfigError(f"{path} is too large for settings", kept="it is unchanged", hint="mend it and try again")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8", kept="it is unchanged", hint="mend it and try again") from error


def _remove_if_empty(folder: str, project: str) -> None:
    if folder != project and os.path.isdir(folder) and not os.listdir(folder):
        fsio.remove_tree(folder)


def _document(text: str | None) -> JsonText:
    document = JsonText("{}\n" if text is None else text)
    if not isinstance(document.value, dict):
        raise ValueError("it is not an object")
    return document


def _checked(document: JsonText, path: Sequence[str | int], kind: type, what: str) -> Any:
    value = document.get(path)
    if value is not None and not isinstance(value, kind):
        raise ValueError(f"{'.'.join(map(str, path))} is not {what}")
    return value


# ── hooks ────────────────────────────────────────────────────────────────────────────────────────────


def _merge_hooks(text: str | None, hook: str) -> str:
    document = _document(text)
    hooks = _checked(document, ["hooks"], dict, "an object")
    keep = []
    if hooks is not None and not hooks:
        keep.append("hooks")
    if text is not None and not document.value:
        keep.append("file")
    if hooks is None:
        document.add([], "hooks", {event: [_group(hook, keep)] for event in EVENTS})
        return document.text
    for event in EVENTS:
        groups = _checked(document, ["hooks", event], list, "a list")
        ours = _ours(document, event)
        if ours:
            for path in ours:
                command = document.get(path)
                mark = _MARK.search(command)
                if mark and command != hook + mark[0]:
                    document.replace(path, hook + mark[0])
        elif groups is None:
            document.add(["hooks"], event, [_group(hook, keep)])
        else:
            document.add(["hooks", event], None, _group(hook, keep if groups else [*keep, "list"]))
    return document.text


def _unmerge_hooks(text: str | None) -> str | None:
    document = _document(text)
    _checked(document, ["hooks"], dict, "an object")
    keep: set[str] = set()
    found = False
    for event in list(document.get(["hooks"]) or ()):
        while ours := _ours(document, event):
            found = True
            *_, group, _, number, _ = path = ours[-1]
            mark = _MARK.search(document.get(path))
            flags = set(((mark[1] if mark else "") or "").split())
            keep |= flags
            document.remove(["hooks", event, group, "hooks", number])
            if not document.get(["hooks", event, group, "hooks"]):
                document.remove(["hooks", event, group])
            if not document.get(["hooks", event]) and "list" not in flags:
                document.remove(["hooks", event])
    if found and document.get(["hooks"]) == {} and "hooks" not in keep:
        document.remove(["hooks"])
    return None if found and not document.value and "file" not in keep else document.text


def _group(hook: str, keep: Sequence[str]) -> dict[str, Any]:
    mark = f" # cortext keep {' '.join(keep)}" if keep else " # cortext"
    return {"hooks": [{"type": "command", "command": hook + mark, "timeout": _HOOK_SECONDS}]}


def _ours(document: JsonText, event: str) -> list[list[str | int]]:
    """Where the commands of our hooks for an event stand."""
    found: list[list[str | int]] = []
    groups = document.get(["hooks", event])
    for group, _ in enumerate(groups if isinstance(groups, list) else ()):
        hooks = document.get(["hooks", event, group, "hooks"])
        for number, _ in enumerate(hooks if isinstance(hooks, list) else ()):
            path: list[str | int] = ["hooks", event, group, "hooks", number, "command"]
            command = document.get(path)
            if isinstance(command, str) and _MARK.search(command):
                found.append(path)
    return found


# ── the MCP server ───────────────────────────────────────────────────────────────────────────────────


def _merge_server(text: str | None, server: dict[str, Any], tool: str) -> str:
    document = _document(text)
    servers = _checked(document, ["mcpServers"], dict, "an object")
    keep = []
    if servers is not None and not servers:
        keep.append("mcpServers")
    if text is not None and not document.value:
        keep.append("file")
    entry = {**server, "env": {_VARIABLE: tool, **({_KEEP: " ".join(keep)} if keep else {})}}
    if servers is None:
        document.add([], "mcpServers", {SERVER: entry})
    elif SERVER not in servers:
        document.add(["mcpServers"], SERVER, entry)
    elif _is_ours(servers[SERVER], tool):
        for name, value in server.items():
            if name not in servers[SERVER]:
                document.add(["mcpServers", SERVER], name, value)
            elif servers[SERVER][name] != value:
                document.replace(["mcpServers", SERVER, name], value)
    return document.text


def _unmerge_server(text: str | None, tool: str) -> str | None:
    document = _document(text)
    _checked(document, ["mcpServers"], dict, "an object")
    entry = document.get(["mcpServers", SERVER])
    if not _is_ours(entry, tool):
        return document.text
    keep = str(entry["env"].get(_KEEP, "")).split()
    document.remove(["mcpServers", SERVER])
    if not document.get(["mcpServers"]) and "mcpServers" not in keep:
        document.remove(["mcpServers"])
    return None if not document.value and "file" not in keep else document.text


def _is_ours(entry: Any, tool: str) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("env"), dict) and entry["env"].get(_VARIABLE) == tool
