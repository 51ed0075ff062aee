"""OpenCode at work: opened with a session on a terminal, or asked for one answer.

`opencode -s ID --prompt TEXT` opens the session and drops the prompt. A small plugin therefore sends the first prompt;
the environment of this start names it. OpenCode opens with the conversation on the screen, and answers the prompt.

For an answer (`run --format json`) it prints each part when it is complete.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from cortext.errors import ConfigError
from cortext.io import durable
from cortext.model.answer import AnswerNote, AnswerPiece, HeadlessPrompt, ProgramFailure, Run, Thinking, Usage
from cortext.tools.base import Launch
from cortext.tools.opencode.adapter import Folders, OpenCode
from cortext.tools.opencode.settings import FOLDER, settings_of
from cortext.tools.shared import jsonc
from cortext.tools.shared.parts import ToolPart
from cortext.tools.shared.program import AnswerReader, instructions
from cortext.tools.shared.sqlite import connection, is_database
from cortext.tools.shared.values import count, field, word

_INLINE_CONFIG = "OPENCODE_CONFIG_CONTENT"
_LONGEST = 100_000  # bytes; the limit for one variable is 128 KiB
_PACKAGE = "@opencode-ai/plugin"
LAUNCHER = "launch.js"
_AGENT = "cortext"
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
    settings = [str(found.get("model") or "") for found in settings_of(project, folders)]
    for name in (model, *settings, last_used):
        provider, slash, rest = name.partition("/")
        if slash and provider and rest:
            return Model(provider, rest, agent or "build")
    return Model(*_DEFAULT_MODEL, agent or "build")


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
    step = _LONGEST if text.isascii() else _LONGEST // 4
    return [text[start : start + step] for start in range(0, len(text), step)]


def _with_plugin(content: str, options: dict[str, Any]) -> str:
    """Return the user's inline config with our plugin added; ConfigError if it is invalid."""
    value = _inline_config(content)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), LAUNCHER)
    value["plugin"] = [*value.get("plugin", []), [f"file://{path}", options]]
    return json.dumps(value)


def with_instructions(launch: Launch, file: str, environ: Mapping[str, str]) -> Launch:
    """Return a launch with a file of instructions added to the inline config; ConfigError if that is invalid."""
    value = _inline_config(launch.env.get(_INLINE_CONFIG) or environ.get(_INLINE_CONFIG, ""))
    value["instructions"] = [*value.get("instructions", []), file]
    return msgspec.structs.replace(launch, env={**launch.env, _INLINE_CONFIG: json.dumps(value)})


def _inline_config(content: str) -> dict[str, Any]:
    try:
        return dict(jsonc.parse(content or "{}"))
    except ValueError as error:
        raise ConfigError(
            f"{_INLINE_CONFIG} cannot be read: {error}", kept="nothing was started", hint="fix its JSON, or unset it"
        ) from error


def _is_installed(folder: str) -> bool:
    """Whether OpenCode has nothing to install in a config folder."""
    if not os.path.isdir(folder):
        return True
    try:
        root = json.loads(durable.read_text(os.path.join(folder, "package-lock.json")))["packages"][""]
        return _PACKAGE in root.get("dependencies", {}) and os.path.isdir(os.path.join(folder, "node_modules"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False


# ── one answer ─────────────────────────────────────────────────────────────────────────────────────


class OpenCodeHeadless(ToolPart[OpenCode]):
    """OpenCode without its terminal interface."""

    def ask(self, question: HeadlessPrompt) -> Run:
        """Return how to run it for one answer; its database is kept in memory, so that nothing is stored."""
        system, prompt = question.system, question.prompt
        arguments = ["run", "--pure", "--format", "json", "--thinking", "--agent", _AGENT]
        arguments += ["-m", question.model] if "/" in question.model else []
        agent: dict[str, Any] = {"mode": "primary", "permission": {"edit": "deny", "bash": "deny"}}
        if 0 < len(system.encode("utf-8", "replace")) < _LONGEST and "\0" not in system:
            agent["prompt"] = system
        else:
            prompt = instructions(system) + prompt
        try:
            settings = json.loads(question.environ.get(_INLINE_CONFIG) or "{}")
        except ValueError:
            settings = {}
        agents = field(settings, "agent")
        content = {**settings, "agent": {**(agents if isinstance(agents, dict) else {}), _AGENT: agent}}
        variables = {"OPENCODE_DB": ":memory:"}
        variables |= {"OPENCODE_DISABLE_PROJECT_CONFIG": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}
        return Run(
            arguments=arguments,
            stdin=prompt,
            read=OpenCodeAnswer(question.name).read,
            env={**variables, _INLINE_CONFIG: json.dumps(content)},
        )


class OpenCodeAnswer(AnswerReader):
    """Reads parts and the steps around them; the last step is the one that did not stop for a tool call."""

    _input = _output = -1

    def read(self, record: dict[str, Any]) -> Iterator[AnswerPiece]:
        """Yield the events of one record."""
        kind, part = record.get("type"), record.get("part")
        if kind == "text":
            yield from self._paragraph(word(part, "text"))
        elif kind == "reasoning":
            yield Thinking(word(part, "text"))
        elif kind == "tool_use":
            yield AnswerNote(f"{self.name} uses {word(part, 'tool')}")
        elif kind == "error":
            error = record.get("error")
            yield ProgramFailure(word(field(error, "data"), "message") or word(error, "name") or str(error))
        elif kind == "step_finish":
            tokens = field(part, "tokens")
            self._input = max(count(tokens, "input"), self._input)
            self._output = max(count(tokens, "output"), self._output)
            reason = word(part, "reason")
            if reason != "tool-calls":
                stop = {"length": "length", "content-filter": "filtered"}.get(reason, "end")
                yield self._done(Usage(self._input, self._output), stop)
