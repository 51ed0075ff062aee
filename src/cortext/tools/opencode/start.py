"""How OpenCode is started with a session: on a terminal.

`opencode -s ID --prompt TEXT` opens the session and drops the prompt. So the first prompt is sent by a small plugin,
named in the environment of this one start: the full screen opens with the conversation in it, and the answer comes.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping
from typing import Any

import msgspec

from cortext.errors import ConfigError
from cortext.io import files as fsio
from cortext.io.inside import if_inside
from cortext.tools.base import Launch
from cortext.tools.opencode.store import Folders, connection, is_database
from cortext.tools.shared import jsonc

_CONTENT = "OPENCODE_CONFIG_CONTENT"
_PIECE = 100_000  # a single argument or variable may be 128 KiB
_PACKAGE = "@opencode-ai/plugin"
LAUNCHER = "launch.js"
FOLDER = ".opencode"
# What a new installation of OpenCode has without any set-up.
_LAST_RESORT = ("opencode", "big-pickle")


class Model(msgspec.Struct):
    """Which model and agent a resumed session goes on with."""

    provider: str
    name: str
    agent: str = "build"


def interactive(
    program: str, key: str, *, project: str, prompt: str, model: str, folders: Folders, environ: Mapping[str, str]
) -> Launch:
    """The command line that opens a session on the terminal, the prompt (if any) sent first."""
    argv = [program, "-s", key, *_model_option(model)]
    if not prompt:
        return Launch(argv=argv, cwd=project)
    pieces = _pieces(json.dumps(prompt))
    options: dict[str, Any] = {"session": key, "pieces": len(pieces)}
    if "/" in model:
        provider, _, name = model.partition("/")
        options["model"] = {"providerID": provider, "modelID": name}
    env = {f"CORTEXT_PROMPT_{number}": piece for number, piece in enumerate(pieces)}
    env[_CONTENT] = _with_plugin(environ.get(_CONTENT, ""), options)
    if not all(_is_settled(folder) for folder in (folders.config, os.path.join(project, FOLDER))):
        # With a plugin it waits for its package first: without a network, not for a minute.
        env["npm_config_fetch_retries"] = "0"
    return Launch(argv=argv, cwd=project, env=env)


def choose_model(model: str, *, project: str, folders: Folders) -> Model:
    """Which model a session is to go on with: the one asked for, the user's setting, else the one used last."""
    agent, used = _used_last(folders)
    settings = [str(found.get("model") or "") for found in _settings(project, folders)]
    for name in (model, *settings, used):
        provider, slash, rest = name.partition("/")
        if slash and provider and rest:
            return Model(provider, rest, agent or "build")
    return Model(*_LAST_RESORT, agent or "build")


def mcp_servers(project: str, folders: Folders) -> set[str]:
    """The MCP servers that the config files name and do not turn off."""
    servers: dict[str, Any] = {}
    for settings in reversed(_settings(project, folders)):
        found = settings.get("mcp")
        for name, entry in found.items() if isinstance(found, dict) else ():
            earlier = servers.get(name)
            servers[name] = {
                **(earlier if isinstance(earlier, dict) else {}),
                **(entry if isinstance(entry, dict) else {}),
            }
    return {name for name, entry in servers.items() if entry.get("enabled") is not False}


def _settings(project: str, folders: Folders) -> list[dict[str, Any]]:
    """The config files that OpenCode reads, the strongest first."""
    names = ("opencode.jsonc", "opencode.json")
    own = [if_inside(project, os.path.join(folder, name)) for folder in (FOLDER, "") for name in names]
    return [jsonc.read_object(path) for path in (*own, *(os.path.join(folders.config, name) for name in names))]


def _used_last(folders: Folders) -> tuple[str, str]:
    """The agent and the model of the session that was used last."""
    if not is_database(folders.database):
        return "", ""
    query = "SELECT agent, model FROM session WHERE parent_id IS NULL AND model IS NOT NULL ORDER BY time_updated DESC"
    try:
        with connection(folders.database) as database:
            row = database.execute(query + " LIMIT 1").fetchone()
        value = json.loads(row[1]) if row else {}
        return row[0] or "" if row else "", f"{value.get('providerID') or ''}/{value.get('id') or ''}"
    except (sqlite3.Error, ValueError, AttributeError):
        return "", ""


def _model_option(model: str) -> list[str]:
    return ["-m", model] if "/" in model else []


def _pieces(text: str) -> list[str]:
    """A text in pieces that are short enough to hand over, counted in bytes."""
    step = _PIECE if text.isascii() else _PIECE // 4
    return [text[start : start + step] for start in range(0, len(text), step)]


def _with_plugin(content: str, options: dict[str, Any]) -> str:
    """The user's inline config with our plugin in it."""
    try:
        value = jsonc.parse(content or "{}")
    except ValueError as error:
        raise ConfigError(f"{_CONTENT} cannot be read: {error}", kept="nothing was started", hint="fix it") from error
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), LAUNCHER)
    value["plugin"] = [*value.get("plugin", []), [f"file://{path}", options]]
    return json.dumps(value)


def _is_settled(folder: str) -> bool:
    """Whether OpenCode finds nothing to install in a config folder."""
    if not os.path.isdir(folder):
        return True
    try:
        root = json.loads(fsio.read_text(os.path.join(folder, "package-lock.json")))["packages"][""]
        return _PACKAGE in root.get("dependencies", {}) and os.path.isdir(os.path.join(folder, "node_modules"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False
