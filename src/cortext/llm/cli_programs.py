"""The AI programs without their screens: how each is started for one answer, and what its lines of JSON mean.

Each may read files in the user's folder and do nothing else there; settings that the folder itself brings are left
out, since it may be a stranger's. No program keeps the turn: the conversation is ours, and kept by us. Nothing
of it, nor of the instructions, is in the arguments.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from cortext.io import files as fsio
from cortext.llm import cli_prompt
from cortext.llm.base import Done, Event, Note, Text, Thinking, Usage
from cortext.llm.faults import Fault
from cortext.llm.provider import count, field, word

_LONGEST = 100_000  # bytes: an argument or a variable may be 128 KiB


class Start(msgspec.Struct):
    """How to start a program: its arguments, what is added to the environment, and what it reads."""

    arguments: list[str]
    given: str
    env: dict[str, str] = {}
    folder: str = ""  # where; empty for the user's own
    without: tuple[str, ...] = ()  # variables that it must not see


class Reader:
    """What the lines of one run mean. `done` is set with the last one."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.done: Done | None = None
        self._said = False
        self._model = ""

    def events(self, record: dict[str, Any]) -> Iterator[Event]:
        """The events of one line. Raises `Failed` where the program says that it failed."""
        raise NotImplementedError

    def _piece(self, text: str) -> Iterator[Event]:
        """A whole piece of the answer; a blank line keeps it from the one before."""
        if text.strip():
            yield Text(f"\n\n{text}" if self._said else text)
            self._said = True

    def _end(self, usage: Usage, stop: str = "end") -> None:
        self.done = Done(stop, usage, self._model)


def _short(text: str) -> bool:
    return 0 < len(text.encode("utf-8", "replace")) < _LONGEST and "\0" not in text


# ── Claude Code ──────────────────────────────────────────────────────────────────────────────────────


def start_claude(system: str, prompt: str, model: str, scratch: str, folder: str, env: Mapping[str, str]) -> Start:
    """Claude Code streams word by word."""
    arguments = ["-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages"]
    arguments += ["--no-session-persistence", "--setting-sources", "user", "--strict-mcp-config"]
    arguments += ["--settings", '{"disableAllHooks": true}', "--tools", "Read,Glob,Grep"]
    arguments += ["--model", model] if model else []
    if system.strip():
        arguments += ["--system-prompt-file", _kept(scratch, system)]
    # By itself it tries for three minutes. Started from inside Claude Code it would think that it called itself.
    patience = {"CLAUDE_CODE_MAX_RETRIES": env.get("CLAUDE_CODE_MAX_RETRIES", "3")}
    inside = ("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT")
    return Start(arguments, cli_prompt.unnamed(prompt), env=patience, without=inside)


class ClaudeReader(Reader):
    """`--output-format stream-json`."""

    _fresh = False  # whether the next words begin a new piece
    _open = False  # whether words of an unfinished message were handed out

    def events(self, record: dict[str, Any]) -> Iterator[Event]:
        """The stream of the API inside, and the program's own news around it."""
        kind = record.get("type")
        if record.get("parent_tool_use_id"):
            return  # the words of a side agent
        if kind == "stream_event":
            yield from self._streamed(record.get("event"), bool(record.get("abandoned_blocks")))
        elif kind == "system" and record.get("subtype") == "api_retry":
            self._began_again()
            if record.get("error_status") in (401, 403):  # asking again does not make a key valid
                raise self.fault.status(401, word(record, "error"))
            why = word(record, "error") or "trouble"
            yield Note(f"{self.fault.name}: {why}: trying again")
        elif kind == "result":
            if record.get("is_error"):
                status = record.get("api_error_status")
                raise self.fault.program(word(record, "result"), status if isinstance(status, int) else 0)
            usage = record.get("usage")
            asked = count(usage, "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
            stop = {"max_tokens": "length", "refusal": "filtered"}.get(word(record, "stop_reason"), "end")
            self._end(Usage(asked, count(usage, "output_tokens")), stop)

    def _streamed(self, event: Any, abandoned: bool) -> Iterator[Event]:
        kind = field(event, "type")
        if kind == "message_start":
            self._model = word(field(event, "message"), "model") or self._model
        elif kind == "content_block_start":
            block = field(event, "content_block")
            self._fresh = field(block, "type") == "text"
            if field(block, "type") == "tool_use":
                yield Note(f"{self.fault.name} uses {word(block, 'name')}")
        elif kind == "content_block_delta":
            delta = field(event, "delta")
            if thought := word(delta, "thinking"):
                yield Thinking(thought)
            if text := cli_prompt.named(word(delta, "text")):
                yield Text(f"\n\n{text}" if self._fresh and self._said else text)
                self._said, self._fresh, self._open = True, False, True
        elif kind == "message_stop":
            if abandoned:
                self._began_again()
            self._open = False

    def _began_again(self) -> None:
        # The program asks again by itself. Where words were handed out already they would be said twice.
        if self._open:
            raise self.fault.unfinished()


# ── Gemini CLI ───────────────────────────────────────────────────────────────────────────────────────


def start_gemini(system: str, prompt: str, model: str, scratch: str, folder: str, env: Mapping[str, str]) -> Start:
    """Gemini CLI streams too. It works in a folder of ours, which it may trust, and is shown the user's."""
    arguments = ["-o", "stream-json", "--skip-trust", "--session-id", str(uuid.uuid4())]
    # A comma would make two folders of one.
    arguments += ["--include-directories", folder] if "," not in folder else []
    arguments += ["-m", model] if model else []
    start = Start(arguments, cli_prompt.unnamed(prompt), folder=scratch)
    if system.strip():
        start.env["GEMINI_SYSTEM_MD"] = _kept(scratch, system)
    return start


def _kept(scratch: str, system: str) -> str:
    """A file with the system prompt, for the user alone; named by its content, so that it is made once.

    It holds what `alfred` remembers, say: an argument would show it to everybody on the machine.
    """
    data = system.encode("utf-8", "replace")
    path = os.path.join(scratch, f"system-{hashlib.sha256(data).hexdigest()[:16]}.md")
    if not os.path.exists(path):
        fsio.replace_file(path, [data])
    return path


class GeminiReader(Reader):
    """`-o stream-json`."""

    _fresh = False

    def events(self, record: dict[str, Any]) -> Iterator[Event]:
        """Messages in pieces, tools between them, a result at the end."""
        kind = record.get("type")
        if kind == "message" and record.get("role") == "assistant":
            if text := cli_prompt.named(word(record, "content")):
                yield Text(f"\n\n{text}" if self._fresh and self._said else text)
                self._said, self._fresh = True, False
        elif kind == "tool_use":
            self._fresh = True
            yield Note(f"{self.fault.name} uses {word(record, 'tool_name')}")
        elif kind == "error":
            yield Note(f"{self.fault.name}: {self.fault.words(word(record, 'message'))}")
        elif kind == "result":
            if record.get("status") != "success":
                raise self.fault.program(word(record.get("error"), "message"))
            stats = record.get("stats")
            # The largest is the one that answered; the others ran errands.
            models = field(stats, "models")
            if isinstance(models, dict) and models:
                self._model = max(models, key=lambda name: count(models[name], "total_tokens"))
            self._end(Usage(count(stats, "input_tokens"), count(stats, "output_tokens")))


# ── OpenCode ─────────────────────────────────────────────────────────────────────────────────────────

_AGENT = "cortext"


def start_opencode(system: str, prompt: str, model: str, scratch: str, folder: str, env: Mapping[str, str]) -> Start:
    """OpenCode hands out a piece when it is whole. Its database is in memory for once."""
    arguments = ["run", "--pure", "--format", "json", "--thinking", "--agent", _AGENT]
    arguments += ["-m", model] if "/" in model else []
    agent: dict[str, Any] = {"mode": "primary", "permission": {"edit": "deny", "bash": "deny"}}
    if _short(system):
        agent["prompt"] = system
    else:
        prompt = cli_prompt.system(system) + prompt
    try:
        settings = json.loads(env.get("OPENCODE_CONFIG_CONTENT") or "{}")
    except ValueError:
        settings = {}
    agents = field(settings, "agent")
    content = {**settings, "agent": {**(agents if isinstance(agents, dict) else {}), _AGENT: agent}}
    added = {"OPENCODE_DB": ":memory:", "OPENCODE_DISABLE_PROJECT_CONFIG": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}
    return Start(arguments, prompt, env={**added, "OPENCODE_CONFIG_CONTENT": json.dumps(content)})


class OpenCodeReader(Reader):
    """`run --format json`."""

    _asked = _told = -1

    def events(self, record: dict[str, Any]) -> Iterator[Event]:
        """Parts, and steps around them; the last step is the one that did not stop for a tool."""
        kind, part = record.get("type"), record.get("part")
        if kind == "text":
            yield from self._piece(word(part, "text"))
        elif kind == "reasoning":
            yield Thinking(word(part, "text"))
        elif kind == "tool_use":
            yield Note(f"{self.fault.name} uses {word(part, 'tool')}")
        elif kind == "error":
            error = record.get("error")
            raise self.fault.program(word(field(error, "data"), "message") or word(error, "name") or str(error))
        elif kind == "step_finish":
            tokens = field(part, "tokens")
            self._asked, self._told = max(count(tokens, "input"), self._asked), max(count(tokens, "output"), self._told)
            reason = word(part, "reason")
            if reason != "tool-calls":
                stop = {"length": "length", "content-filter": "filtered"}.get(reason, "end")
                self._end(Usage(self._asked, self._told), stop)


# ── Codex ────────────────────────────────────────────────────────────────────────────────────────────


def start_codex(system: str, prompt: str, model: str, scratch: str, folder: str, env: Mapping[str, str]) -> Start:
    """Codex hands out a piece when it is whole."""
    arguments = ["exec", "--json", "--ephemeral", "--skip-git-repo-check", "--sandbox", "read-only"]
    arguments += ["-m", model] if model else []
    # It takes instructions as an argument too, which every user of the machine could read.
    return Start([*arguments, "-"], cli_prompt.system(system) + prompt)


class CodexReader(Reader):
    """`exec --json`."""

    def events(self, record: dict[str, Any]) -> Iterator[Event]:
        """Items as they are completed."""
        kind, item = record.get("type"), record.get("item")
        if kind == "item.completed" and field(item, "type") == "agent_message":
            yield from self._piece(word(item, "text"))
        elif kind == "item.completed" and field(item, "type") == "reasoning":
            yield Thinking(word(item, "text"))
        elif kind == "item.started" and field(item, "type") == "command_execution":
            yield Note(f"{self.fault.name} runs {self.fault.words(word(item, 'command'))}")
        elif kind == "turn.completed":
            usage = record.get("usage")
            self._end(Usage(count(usage, "input_tokens"), count(usage, "output_tokens")))
        elif kind == "turn.failed":
            raise self.fault.program(word(record.get("error"), "message"))
