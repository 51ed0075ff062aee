"""What is written for Copilot: sessions in its own store (a new one, or a lost one from our copy), and our files and
entries in a project.

A turn of the user is a `user.message`, one of the model an `assistant.message` with its calls, and each result a
`tool.execution_complete`. Copilot sends them as they are, and keeps the field `cortext`, which says how to restore the
messages. `copilot sessions import` is not used: it gives every session and message an id of its own and drops the
times, so that neither the session nor its messages could be recognised when the conversation comes back.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from cortext.errors import DamagedData, SessionExists, UsageError
from cortext.io import durable, new_files
from cortext.io.inside import if_inside
from cortext.model import clock
from cortext.model.message import ASSISTANT, USER, Message
from cortext.model.turns import Difference, Result, Text, Turn, Turns, standalone, whole_characters
from cortext.safety.languages import shell
from cortext.tools.base import CommandFile, Launch, Messages, Transcript, Withheld, Written
from cortext.tools.copilot.adapter import KINDS, Copilot
from cortext.tools.copilot.messages import ANSWER, CALL_STARTED, RESULT, START, USER_MESSAGE, Event, decoder, original
from cortext.tools.copilot.read import CopilotReading, head_of, is_shortened
from cortext.tools.shared.commands import all_hooks_off, without_run
from cortext.tools.shared.entries import Server, servers_of
from cortext.tools.shared.folders import is_uuid
from cortext.tools.shared.installer import JsonConfig, SettingsFiles
from cortext.tools.shared.native import Mark, removed_unless_verified, same_message, verify
from cortext.tools.shared.parts import FolderWriter, ToolPart
from cortext.tools.shared.program import check_argument

Json = dict[str, Any]

_EMPTY_ERROR = "[The call failed without a message.]"


class CopilotWriter(FolderWriter[Copilot]):
    """Writes sessions, and says how Copilot is started with one."""

    def put_back(self, copy: str, *, project: str) -> str:
        """Restore a kept copy to the tool's store if the session is missing there; return the session's key."""
        head = head_of(copy)
        if head is None or not is_uuid(head.sessionId):
            raise DamagedData(f"{copy} is not a session of {self.tool.title}", kept="nothing was changed")
        path = self.tool.events_of(head.sessionId)
        if not os.path.lexists(path):
            durable.ensure_folder(os.path.dirname(path))
            new_files.mirror_file(copy, path)
        return head.sessionId

    def withheld(self, transcript: Transcript) -> Withheld | None:
        """Return an empty report, because Copilot sends everything; None if the session was compacted or cleared."""
        return None if is_shortened(transcript.path) else Withheld()

    def preview(self, messages: Messages) -> Written:
        """Return what `write` would report for these messages; nothing is written."""
        return Written.of(Rendering(messages).normal)

    def write(
        self, messages: Messages, *, project: str, title: str = "", key: str = "", model: str = "", note: str = ""
    ) -> Written:
        """Write a new session of this project; it is read back, and removed if it is not what was written."""
        rendering = Rendering(messages, note)
        if not rendering.events:
            raise UsageError("nothing to write: every message is empty", kept="nothing was changed")
        if not is_uuid(key) or os.path.lexists(os.path.join(self.tool.sessions, key)):
            key = str(uuid.uuid4())
        folder = os.path.join(self.tool.sessions, key)
        if os.path.lexists(folder):
            raise SessionExists(f"{folder} already exists", kept="it is unchanged", hint="try again")
        path = self.tool.events_of(key)
        durable.ensure_folder(folder)
        with removed_unless_verified(folder):
            durable.replace_file(path, _lines(rendering, key, project, self.tool.tested_version))
            reading = CopilotReading(Transcript(tool=self.tool.name, key=key, path=path, project=project))
            verify(self.tool.title, rendering.expected, reading, reading.counts, same_message)
            if title:
                durable.replace_file(os.path.join(folder, "workspace.yaml"), [_workspace(key, project, title)])
        return Written.of(rendering.normal, key, path)

    def launch(self, written_or_key: str, *, project: str, prompt: str = "", model: str = "") -> Launch:
        """Return how to open that session interactively; the prompt, if any, is sent first."""
        check_argument(prompt)
        options = [*(["--model", model] if model else []), *(["-i", prompt] if prompt else [])]
        env = {} if self.tool.folder == self.tool.default_folder else {"COPILOT_HOME": self.tool.folder}
        argv = [self.tool.program.executable(), f"--resume={written_or_key}", *options]
        return Launch(argv=argv, cwd=project, env=env)


def _lines(rendering: Rendering, key: str, project: str, version: str) -> Iterator[bytes]:
    """Yield the lines of the file; each event names the one before it."""
    first = rendering.events[0]["timestamp"]
    start = {
        "sessionId": key,
        "version": 1,
        "producer": "copilot-agent",
        "copilotVersion": version,
        "startTime": first,
        "context": {"cwd": project},
        "alreadyInUse": False,
    }
    previous = None
    begin = {"type": START, "data": start, "id": str(uuid.uuid4()), "timestamp": first, "parentId": None}
    for event in (begin, *rendering.events):
        event["parentId"], previous = previous, event["id"]
        yield msgspec.json.encode(event) + b"\n"


def _workspace(key: str, project: str, title: str) -> bytes:
    """Return the file with the session's name, which Copilot shows in its list. A JSON string is a YAML string."""
    now = clock.now()
    fields: dict[str, str | bool] = {"id": key, "cwd": project, "name": title, "user_named": True}
    fields |= {"created_at": now, "updated_at": now}
    return "".join(f"{name}: {_yaml(value)}\n" for name, value in fields.items()).encode("utf-8")


def _yaml(value: str | bool) -> str:
    return json.dumps(whole_characters(value) if isinstance(value, str) else value, ensure_ascii=False)


class Rendering:
    """The events for a sequence of messages, what had to change, and the messages that reading must return."""

    def __init__(self, messages: Sequence[Message], note: str = "") -> None:
        self.normal = Turns(messages)
        self._time = ""
        self.events: list[Json] = []
        self.expected: list[Message] = []
        if note:
            self._add(Turn(USER, [Text(note)], None))
        for turn in self.normal.turns:
            self._add(turn)

    def _add(self, turn: Turn) -> None:
        message = standalone(turn.message) if turn.message is not None else None
        self._time = (clock.normalise(message.timestamp) if message else "") or self._time or clock.now()
        events = [self._event(kind, data) for kind, data in self._fields(turn)]
        marked = [event for event in events if event["type"] != CALL_STARTED]
        for event in marked:
            event["cortext"] = Mark(added=True)
        if message is not None:
            first = marked[0]
            first["cortext"] = mark = Mark(
                id=message.id,
                role=message.role if message.role != turn.role else "",
                model=message.model,
                tokens=message.tokens,
                usage=message.usage,
            )
            if len(marked) > 1 or not _is_read_as(first, message):
                first["cortext"] = Mark(id=mark.id, was=msgspec.to_builtins(message))
            self.expected.append(message)
        self.events += events

    def _fields(self, turn: Turn) -> Iterator[tuple[str, Json]]:
        """Yield the type and the data of each event of a turn."""
        text = "\n\n".join(text.whole for text in turn.texts)
        if turn.role == ASSISTANT:
            calls = turn.calls
            data: Json = {"messageId": str(uuid.uuid4()), "content": text}
            if calls:
                data["toolRequests"] = [
                    {"toolCallId": call.id, "name": call.name, "arguments": call.input, "type": "function"}
                    for call in calls
                ]
            yield ANSWER, data
            for call in calls:
                yield (
                    CALL_STARTED,
                    {"toolCallId": call.id, "toolName": call.name, "arguments": call.input},
                )
            return
        for result in turn.results:
            yield RESULT, self._outcome(result)
        if text:
            yield USER_MESSAGE, {"content": text}

    def _outcome(self, result: Result) -> Json:
        data: Json = {"toolCallId": result.call.id, "success": not result.is_error}
        if not result.is_error:
            return {**data, "result": {"content": result.output}}
        if not result.output:
            self.normal.note(Difference.ERROR_NAMED)
        return {**data, "error": {"message": result.output or _EMPTY_ERROR}}

    def _event(self, kind: str, data: Json) -> Json:
        return {"type": kind, "data": data, "id": str(uuid.uuid4()), "timestamp": self._time, "parentId": None}


def _is_read_as(event: Json, message: Message) -> bool:
    """Whether reading an event returns the message, so that its mark need not contain it."""
    read: Event = decoder.decode(msgspec.json.encode(event))
    return read.cortext is not None and original(read, read.cortext, "") == message


# ── in a project ─────────────────────────────────────────────────────────────────────────────────────

HOOKS = ".github/hooks/cortext.json"
SERVERS = ".github/mcp.json"
_HOOK_SECONDS = 30
_PLACEHOLDERS = re.compile(r"\$(?=\d|ARGUMENTS)")


class CopilotSettings(SettingsFiles, ToolPart[Copilot]):
    """Our files and entries in a project: skills, a file of hooks, and the MCP server.

    A skill is called like a command (`/workspace.plan TOPIC`), and its arguments are inserted.
    """

    def files(self, commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
        """Return the skills and the file of hooks."""
        hook = {"type": "command", "bash": shell([*program, "hook", "copilot"]), "timeoutSec": _HOOK_SECONDS}
        hooks = {"version": 1, "hooks": {event: [hook] for event in KINDS}}
        files = {f".github/skills/{command.name}/SKILL.md": _skill(command) for command in commands}
        files[HOOKS] = json.dumps(hooks, ensure_ascii=False, indent=2) + "\n"
        return {path: text.encode("utf-8") for path, text in files.items()}

    def configs(self, program: Sequence[str] = ("cortext",)) -> Sequence[JsonConfig]:
        """Return the MCP entry. Copilot also reads `.mcp.json`, but that is Claude Code's file."""
        return [JsonConfig((SERVERS,), [Server.of("copilot", program)])]

    def mcp_servers(self, project: str) -> set[str]:
        """Return the names of the MCP servers in the user's and the project's config."""
        return servers_of(os.path.join(self.tool.folder, "mcp-config.json"), project, ".mcp.json", SERVERS)

    def hooks_off(self, project: str) -> list[tuple[str, str]]:
        """Return why our hooks would not run here. Copilot asks at its start whether to trust a folder."""
        own = [if_inside(project, f".github/copilot/{name}") for name in ("settings.json", "settings.local.json")]
        return all_hooks_off([os.path.join(self.tool.folder, "settings.json"), *own])


def _skill(command: CommandFile) -> str:
    """Return a skill that only the user calls. The hook adds the output of `run`."""
    text = _PLACEHOLDERS.sub("$\u2060", without_run(command.text)).replace("{arguments}", "$ARGUMENTS")
    description = json.dumps(" ".join(command.description.split()), ensure_ascii=False)  # a JSON string is YAML
    return (
        f"---\nname: {command.name}\ndescription: {description}\ndisable-model-invocation: true\n---\n\n"
        f"<command-name>/{command.name}</command-name>\n<command-args>$ARGUMENTS</command-args>\n\n{text.strip()}\n"
    )
