"""Start OpenCode with a session on a terminal.

`opencode -s ID --prompt TEXT` opens the session and drops the prompt. A small plugin therefore sends the first prompt;
the environment of this start names it. OpenCode opens with the conversation on the screen, and answers the prompt.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping
from typing import Any

import msgspec

from cortext.errors import ConfigError
from cortext.io import durable
from cortext.io.inside import if_inside
from cortext.tools.base import Launch
from cortext.tools.opencode.adapter import Folders
from cortext.tools.shared import jsonc
from cortext.tools.shared.sqlite import connection, is_database

_INLINE_CONFIG = "OPENCODE_CONFIG_CONTENT"
_CHUNK = 100_000  # bytes; the limit for one variable is 128 KiB
_PACKAGE = "@opencode-ai/plugin"
LAUNCHER = "launch.js"
FOLDER = ".opencode"
# The model that a new installation of OpenCode has without any configuration.
_DEFAULT_MODEL = ("opencode", "big-pickle")


class Model(msgspec.Struct):
    """The model and agent that a resumed session continues with."""

    provider: str
    name: str
    agent: str = "build"


def interactive(
    program: str, key: str, *, project: str, prompt: str, model: str, folders: Folders, environ: Mapping[str, str]
) -> Launch:
    """Return the command line that opens a session on the terminal; the prompt, if any, is sent first."""
    argv = [program, "-s", key, *_model_option(model)]
    if not prompt:
        return Launch(argv=argv, cwd=project)
    chunks = _chunks(json.dumps(prompt))
    options: dict[str, Any] = {"session": key, "pieces": len(chunks)}
    if "/" in model:
        provider, _, name = model.partition("/")
        options["model"] = {"providerID": provider, "modelID": name}
    env = {f"CORTEXT_PROMPT_{number}": chunk for number, chunk in enumerate(chunks)}
    env[_INLINE_CONFIG] = _with_plugin(environ.get(_INLINE_CONFIG, ""), options)
    if not all(_is_installed(folder) for folder in (folders.config, os.path.join(project, FOLDER))):
        # With a plugin, OpenCode first installs its package: without a network it must not retry for a minute.
        env["npm_config_fetch_retries"] = "0"
    return Launch(argv=argv, cwd=project, env=env)


def choose_model(model: str, *, project: str, folders: Folders) -> Model:
    """Return the model to continue a session with: the one requested, the user's setting, or the one used last."""
    agent, last_used = _last_used(folders)
    settings = [str(found.get("model") or "") for found in _settings(project, folders)]
    for name in (model, *settings, last_used):
        provider, slash, rest = name.partition("/")
        if slash and provider and rest:
            return Model(provider, rest, agent or "build")
    return Model(*_DEFAULT_MODEL, agent or "build")


def mcp_servers(project: str, folders: Folders) -> set[str]:
    """Return the MCP servers that the config files name and do not disable."""
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
    """Return the config files that OpenCode reads, in order of precedence."""
    names = ("opencode.jsonc", "opencode.json")
    project_files = [if_inside(project, os.path.join(folder, name)) for folder in (FOLDER, "") for name in names]
    return [
        jsonc.read_object(path) for path in (*project_files, *(os.path.join(folders.config, name) for name in names))
    ]


def _last_used(folders: Folders) -> tuple[str, str]:
    """Return the agent and the model of the most recently used session; empty if there is none."""
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


def _chunks(text: str) -> list[str]:
    """Split a text into chunks that each fit into a variable."""
    step = _CHUNK if text.isascii() else _CHUNK // 4
    return [text[start : start + step] for start in range(0, len(text), step)]


def _with_plugin(content: str, options: dict[str, Any]) -> str:
    """Return the user's inline config with our plugin added; ConfigError if it is invalid."""
    try:
        value = jsonc.parse(content or "{}")
    except ValueError as error:
        raise ConfigError(
            f"{_INLINE_CONFIG} cannot be read: {error}", kept="nothing was started", hint="fix its JSON, or unset it"
        ) from error
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), LAUNCHER)
    value["plugin"] = [*value.get("plugin", []), [f"file://{path}", options]]
    return json.dumps(value)


def _is_installed(folder: str) -> bool:
    """Whether OpenCode has nothing to install in a config folder."""
    if not os.path.isdir(folder):
        return True
    try:
        root = json.loads(durable.read_text(os.path.join(folder, "package-lock.json")))["packages"][""]
        return _PACKAGE in root.get("dependencies", {}) and os.path.isdir(os.path.join(folder, "node_modules"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False
