"""What OpenCode is to have in a project: our commands, our plugin, and the MCP entry in its config.

OpenCode waits at a start with any plugin until it has installed its own package into every config folder, and tries
for over a minute where there is no network. Two small files of npm's make it try only once (see `NPMRC`).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from typing import Any

from cortext.errors import ConfigError
from cortext.io import files as fsio
from cortext.io.inside import inside
from cortext.tools.base import CommandFile
from cortext.tools.opencode import config
from cortext.tools.opencode.start import FOLDER

PLUGIN = f"{FOLDER}/plugin/cortext.js"
SERVER = "cortext"
# The environment of the MCP server tells it which tool started it, and us that the entry is ours.
MARK = {"CORTEXT_TOOL": "opencode"}
SCHEMA = "https://opencode.ai/config.json"

_PLACEHOLDERS = re.compile(r"\$(?=\d|ARGUMENTS)")

NPMRC = (
    "# Written by cortext: OpenCode installs its plugin package into this folder when it starts, and waits for it.\n"
    "# Without a network it would try for more than a minute, each time.\n"
    "fetch-retries=0\n"
    "fetch-timeout=20000\n"
)
# npm reads the .npmrc of the nearest folder upwards with a package.json: in a project of node's, not this one.
PACKAGE = '{\n  "private": true\n}\n'


def shipped(name: str) -> str:
    """A script that comes with the package."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), name), encoding="utf-8") as file:
        return file.read()


def project_files(commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
    """The whole files that are ours in a project."""
    files = {f"{FOLDER}/command/{command.name}.md": command_text(command) for command in commands}
    hook = json.dumps([*program, "hook", "opencode"])
    files[PLUGIN] = shipped("plugin.js").replace("__PROGRAM__", hook)
    files[f"{FOLDER}/.npmrc"] = NPMRC
    files[f"{FOLDER}/package.json"] = PACKAGE
    return {path: text.encode("utf-8") for path, text in files.items()}


def command_text(command: CommandFile) -> str:
    """A command file. It begins with what was typed: OpenCode stores only what it becomes.

    What `run` would print is added by the plugin: a command line in this file would be given to a shell together
    with whatever the user typed after the command.
    """
    text = command.text.replace("{run}\n\n", "").replace("{run}", "")
    # What OpenCode would fill in or give to a shell stays the words that it is.
    text = _PLACEHOLDERS.sub("$\u2060", text).replace("!`", "! `").replace("{arguments}", "$ARGUMENTS")
    return (
        f"---\ndescription: {json.dumps(command.description, ensure_ascii=False)}\n---\n"
        f"<command-name>/{command.name}</command-name>\n<command-args>$ARGUMENTS</command-args>\n\n{text.strip()}\n"
    )


def merge(project: str, program: Sequence[str], *, dry_run: bool = False) -> list[str]:
    """Put the MCP entry into the project's config; the files that changed, or, dry, would change."""
    entry = {"type": "local", "command": [*program, "mcp"], "environment": MARK}
    path = _config_file(project)
    old = _read(path)
    if old is None or not old.strip():
        new = _own_file(entry)
    else:
        there = _entry(path, old)
        if there == entry or (there is not None and not _is_ours(there)):
            return []
        new = config.put(old, entry, "mcp", SERVER)
        if _parsed(path, new).get("mcp", {}).get(SERVER) != entry:
            raise _broken(path, "the entry could not be put in")
    if not dry_run:
        fsio.ensure_folder(os.path.dirname(path))
        fsio.replace_file(path, [new.encode("utf-8")])
    return [path]


def unmerge(project: str, *, dry_run: bool = False) -> list[str]:
    """Take the MCP entry out again, wherever it is; the files that changed, or, dry, would change."""
    changed = []
    for path in _config_files(project):
        old = _read(path)
        if old is None or not _is_ours(_entry(path, old)):
            continue
        changed.append(path)
        if dry_run:
            continue
        if old == _own_file(_entry(path, old)):
            fsio.remove(path)
        else:
            fsio.replace_file(path, [config.take(old, "mcp", SERVER).encode("utf-8")])
    return changed


def _own_file(entry: Any) -> str:
    """A config file that holds nothing else. The schema is named last, as no user would: so we know it again."""
    return json.dumps({"mcp": {SERVER: entry}, "$schema": SCHEMA}, indent=2, ensure_ascii=False) + "\n"


def _config_files(project: str) -> list[str]:
    """The config files of a project that OpenCode reads, all of them."""
    names = ("opencode.json", "opencode.jsonc")
    return [inside(project, os.path.join(*folder, name)) for folder in ((), (FOLDER,)) for name in names]


def _config_file(project: str) -> str:
    """The one to write to: where our entry is, else the first that there is, else a new one."""
    there = [path for path in _config_files(project) if os.path.exists(path)]
    for path in there:
        if _is_ours(_entry(path, _read(path) or "")):
            return path
    return there[0] if there else _config_files(project)[0]


def _entry(path: str, text: str) -> Any:
    """The entry under our name; None where there is none."""
    servers = _parsed(path, text).get("mcp", {})
    if not isinstance(servers, dict):
        raise _broken(path, "`mcp` in it is not an object")
    return servers.get(SERVER)


def _is_ours(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(env := entry.get("environment"), dict) and MARK.items() <= env.items()


def _parsed(path: str, text: str) -> dict[str, Any]:
    try:
        value = config.parse(text)
    except (ValueError, RecursionError) as error:
        raise _broken(path, str(error)) from error
    if not isinstance(value, dict):
        raise _broken(path, "it is not an object")
    return value


def _read(path: str) -> str | None:
    try:
        with os.fdopen(fsio.open_file(path, os.O_RDONLY), encoding="utf-8", newline="") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _broken(path, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise _broken(path, "it is not UTF-8") from error


def _broken(path: str, reason: str) -> ConfigError:
    return ConfigError(
        f"{path} cannot be read: {reason}", kept="it is unchanged", hint="mend it, then run the command again"
    )
