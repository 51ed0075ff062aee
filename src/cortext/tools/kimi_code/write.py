"""Write sessions into Kimi Code's own store: a new one, or a lost one from our copy. And what we install in a project.

A session needs no `profile.bind`: Kimi Code binds one without it to the profile, the model and the system prompt of a
new session, so that the user's current provider is used. (Only `kimi -p` has to be told the model then, with `-m`.)

Each record is annotated with the message it was made from: Kimi Code only appends to its log, and ignores the field
`cortext` of a record.

In a project, our commands are skills, and the MCP server is in `.kimi-code/mcp.json`. Kimi Code reads hooks only from
the user's `config.toml`, where they run in every folder. So a project cannot bring them: they are added to that file if
the user agrees, in a block of our own at its end.
"""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from collections.abc import Sequence
from typing import Any

import msgspec

from cortext.errors import ConfigError, CortextError, DamagedData, UnsafePath
from cortext.io import durable, new_files
from cortext.model.message import TOOL, USER, Message
from cortext.model.turns import Result, Turn, Turns, standalone
from cortext.safety.languages import shell
from cortext.tools.base import CommandFile, Launch, Messages, Transcript, Withheld, Written
from cortext.tools.kimi_code.adapter import CONFIG, KEY, LOG, KimiCode, log_in
from cortext.tools.kimi_code.messages import MESSAGE, Record, literal_message
from cortext.tools.kimi_code.read import KimiReader, KimiReading, agents_of, state_of, state_path, workspace_name
from cortext.tools.shared.commands import agent_skill, skill_name, skill_text
from cortext.tools.shared.entries import Server, servers_of
from cortext.tools.shared.installer import (
    JsonConfig,
    SettingsFiles,
    TomlConfig,
    install,
    parse_toml,
    read_config,
    remove,
    toml_string,
)
from cortext.tools.shared.lines import last_match
from cortext.tools.shared.native import Mark, removed_unless_verified, same_message, verify
from cortext.tools.shared.parts import SessionWriter, ToolPart

Json = dict[str, Any]

_PROTOCOL = "1.5"
_BOUND = re.compile(rb'^\{"type":"(?:profile\.bind|config\.update)",.*?"modelAlias":"([^"\\]+)"')
_OF_ENVIRONMENT = "__kimi_env_model__"  # its name of the model in the variable


class KimiWriter(SessionWriter[KimiCode]):
    """Writes sessions, and says how Kimi Code is started with one."""

    def __init__(self, tool: KimiCode) -> None:
        super().__init__(tool)
        self.reader = KimiReader(tool)

    def put_back(self, copy: str, *, project: str) -> str:
        """Restore a kept copy byte for byte if Kimi Code has lost the session; return the session's id."""
        found = self.reader.transcript_at(copy)
        if found is None:
            raise DamagedData(f"{copy} is not a session of Kimi Code", kept="nothing was changed")
        if not KEY.fullmatch(found.key):
            raise UnsafePath(f"{copy} has a session id that cannot be a file name", kept="nothing was changed")
        if not self.tool.find(found.key):
            folder = self._folder_for(found.project or project, found.key)
            logs = {"main": copy, **agents_of(copy)}
            for name, log in logs.items():
                new_files.ensure_folder(os.path.join(folder, "agents", name), None)
                new_files.mirror_file(log, os.path.join(folder, "agents", name, LOG))
            new_files.mirror_file(state_path(copy), os.path.join(folder, "state.json"))
        return found.key

    def withheld(self, transcript: Transcript) -> Withheld | None:
        """Return an empty report, because Kimi Code sends everything; None if the session was compacted."""
        reading = self.reader.read(transcript)
        for _ in reading:
            pass
        return None if reading.about.summary else Withheld()

    def refusal(self, transcript: Transcript) -> str:
        """Return that the settings no longer have the model that the session is bound to."""
        model, configured = last_match(transcript.path, _BOUND), self._configured_models()
        if not model or not configured or model in configured:
            return ""
        return f"it was held with the model {model!r}, which is no longer configured"

    def _configured_models(self) -> set[str]:
        """Return the names of the configured models; empty if there are none, or if the settings are unreadable."""
        try:
            models = parse_toml(CONFIG, durable.read_text(os.path.join(self.tool.folder, CONFIG))).get("models")
        except FileNotFoundError:
            models = {}
        except (CortextError, OSError, ValueError):  # Kimi Code reports it
            return set()
        of_environment = {_OF_ENVIRONMENT} if self.tool.environ.get("KIMI_MODEL_NAME") else set()
        return of_environment | (set(models) if isinstance(models, dict) else set())

    def preview(self, messages: Messages) -> Written:
        """Return what `write` would report for these messages; nothing is written."""
        return Written.of(Rendering(messages, 0).normal)

    def write(
        self, messages: Messages, *, project: str, title: str = "", key: str = "", model: str = "", note: str = ""
    ) -> Written:
        """Write a new session of this project; it is read back, and removed if it is not what was written."""
        now = int(time.time() * 1000)
        rendering = Rendering(messages, now)
        if not KEY.fullmatch(key) or self.tool.find(key):
            key = f"session_{uuid.uuid4()}"
        folder = self._folder_for(project, key)
        log = log_in(folder)
        records = [
            {"type": "metadata", "protocol_version": _PROTOCOL, "created_at": now},
            *([_note_record(note, now)] if note else []),
            *rendering.records,
        ]
        durable.ensure_folder(os.path.dirname(log))
        with removed_unless_verified(folder):
            durable.replace_file(log, (msgspec.json.encode(record) + b"\n" for record in records))
            durable.replace_file(os.path.join(folder, "state.json"), [_state(key, project, title, folder, now)])
            transcript = self.reader.transcript_at(log)
            if transcript is None:
                raise DamagedData(f"{log} is not a session of Kimi Code", kept="the conversation; the file was removed")
            reading = KimiReading(transcript, None, state_of(log), {})
            verify(self.tool.title, rendering.expected, list(reading), reading.counts, same_message)
        return Written.of(rendering.normal, key, log)

    def launch(self, written_or_key: str, *, project: str, prompt: str = "", model: str = "") -> Launch:
        """Return how to open that session interactively. A prompt is not sent: see `user_speaks_first`."""
        options = ["-m", model] if model else []
        return Launch(argv=[self.tool.program.executable(), "-S", written_or_key, *options], cwd=project)

    def discard(self, written: Written, *, project: str) -> None:
        """Remove the folder of a session that was never used."""
        folder = os.path.dirname(os.path.dirname(os.path.dirname(written.path)))
        if written.path and KEY.fullmatch(os.path.basename(folder)):
            durable.remove_tree(folder)
            workspace = os.path.dirname(folder)
            if not os.listdir(workspace):
                durable.remove_tree(workspace)

    def _folder_for(self, project: str, key: str) -> str:
        """Return the folder of a session of this project."""
        return os.path.join(self.tool.sessions, workspace_name(project), key)


def _state(key: str, project: str, title: str, folder: str, now: int) -> bytes:
    main = {"homedir": os.path.join(folder, "agents", "main"), "type": "main"}
    state = {"id": key, "version": 2, "cwd": os.path.realpath(project), "archived": False, "agents": {"main": main}}
    named = {"title": title, "titleKind": "custom"} if title else {}
    rest = {"custom": {}, "createdAt": now, "updatedAt": now, "isCustomTitle": bool(title)}
    return msgspec.json.encode({**state, **named, **rest})


class Rendering:
    """The records for a sequence of messages, what had to change, and the messages that reading must return."""

    def __init__(self, messages: Sequence[Message], now: int) -> None:
        self.normal = Turns(messages)
        self.records: list[Json] = []
        self.expected: list[Message] = []
        self._now = now
        # Messages with a record of their own; one with results only is restored from the first of them.
        self._placed = {id(turn.message) for turn in self.normal.turns if turn.texts or turn.calls}
        for turn in self.normal.turns:
            for result in turn.results:
                self._add_result(result)
            if turn.texts or turn.calls:
                self._add_turn(turn)

    def _add_turn(self, turn: Turn) -> None:
        said = _spoken(turn.role, "\n\n".join(text.whole for text in turn.texts))
        said["toolCalls"] = [
            {
                "type": "function",
                "id": call.id,
                "name": call.name,
                "arguments": json.dumps(call.input, ensure_ascii=False),
            }
            for call in turn.calls
        ]
        self._add(said, turn.message)

    def _add_result(self, result: Result) -> None:
        said = {**_spoken(TOOL, result.output), "toolCallId": result.call.id}
        if result.is_error and result.part is not None:
            said["isError"] = True
        message = result.message
        self._add(said, None if message is None or id(message) in self._placed else message)
        self._placed.add(id(message))

    def _add(self, said: Json, message: Message | None) -> None:
        record: Json = {"type": MESSAGE, "agentId": "main", "message": said, "time": self._now}
        if message is not None:
            message = standalone(message)
            self.expected.append(message)
        mark = Mark.made_from(message, literal_message(msgspec.convert(record, Record), ""))
        self.records.append({**record, "cortext": msgspec.to_builtins(mark)})


def _note_record(note: str, now: int) -> Json:
    """Return a message from cortext to the model."""
    mark = msgspec.to_builtins(Mark(added=True))
    return {"type": MESSAGE, "agentId": "main", "message": _spoken(USER, note), "time": now, "cortext": mark}


def _spoken(role: str, text: str) -> Json:
    """Return a message as Kimi Code stores it."""
    said: Json = {"role": role, "content": [{"type": "text", "text": text}] if text else [], "toolCalls": []}
    return {**said, "origin": {"kind": "user"}} if role == USER else said


MCP = ".kimi-code/mcp.json"
EVENTS = ("SessionStart", "UserPromptSubmit", "TurnStarted", "Stop", "PostCompact", "SessionEnd")
# The variable that a command line in a skill sets; Kimi Code inserts the value.
SESSION = "KIMI_SESSION_ID"
_CALL = "hook kimi"
_BEGIN = "# >>> cortext: its hooks; taken out again by cortext >>>"
_END = "# <<< cortext <<<"


class KimiSettings(SettingsFiles, ToolPart[KimiCode]):
    """Our files and entries in a project, and our hooks in the user's config."""

    def files(self, commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
        """Return the commands as skills, which only the user calls, and the skill about cortext."""
        files = {}
        for command in commands:
            run = ""
            if command.run:
                line = f"{SESSION}=${{{SESSION}}} {shell([*program, *command.run])}"
                run = (
                    f"Run `{line}` first, with these words as further arguments (none if there are none): $ARGUMENTS\n"
                    "Read its output."
                )
            head = ["disable-model-invocation: true"]
            text = skill_text(command, arguments="$ARGUMENTS", run=run, call="/skill:", head=head)
            files[f".kimi-code/skills/{skill_name(command.name)}/SKILL.md"] = text.encode("utf-8")
        return files | agent_skill()

    def configs(self, program: Sequence[str] = ("cortext",)) -> Sequence[JsonConfig]:
        """Return our entry in the project's list of MCP servers."""
        return [JsonConfig((MCP,), [Server.of("kimi", program)])]

    def mcp_servers(self, project: str) -> set[str]:
        """Return the names of the MCP servers in the user's and the project's lists."""
        return servers_of(os.path.join(self.tool.folder, "mcp.json"), project, ".mcp.json", MCP)

    def install_user_hooks(self, program: Sequence[str], *, dry_run: bool = False) -> list[str]:
        """Add our hooks to the user's config, those that it lacks."""
        return install(self.tool.folder, self._user_hooks(program), dry_run=dry_run)

    def remove_user_hooks(self, *, dry_run: bool = False) -> list[str]:
        """Remove our block; raise ConfigError if Kimi Code rewrote the file without the lines around it."""
        changed = remove(self.tool.folder, self._user_hooks(), dry_run=dry_run)
        path = self.tool.user_hooks_file
        if not changed and len(_missing(path, read_config(path) or "")) < len(EVENTS):
            raise ConfigError(
                f"cortext's hooks in {path} cannot be recognised: the comments that mark them are gone",
                kept="it is unchanged",
                hint=f"remove the tables [[hooks]] with the command `cortext {_CALL}`",
            )
        return changed

    def hooks_off(self, project: str) -> list[tuple[str, str]]:
        """Return which of our hooks the user's config lacks, and what to do: a project cannot bring hooks."""
        path = self.tool.user_hooks_file
        try:
            missing = _missing(path, read_config(os.path.realpath(path)) or "")
        except ConfigError as error:
            return [(error.message, error.hint)]
        if not missing:
            return []
        return [
            (
                f"it runs only the hooks in {path}, where ours for {', '.join(missing)} are missing",
                "add them with `cortext init --ai kimi --user-hooks`",
            )
        ]

    def _user_hooks(self, program: Sequence[str] = ("cortext",)) -> list[TomlConfig]:
        """Return our block in the user's config: a hook for each event that the user has not added; none if all are."""
        command = toml_string(shell([*program, "hook", "kimi"]))
        path = self.tool.user_hooks_file
        text = read_config(path) or ""
        outside = text.partition(_BEGIN)[0] + text.partition(_END)[2] if _BEGIN in text else text
        missing = _missing(path, outside)
        entry = "\n".join(f'[[hooks]]\nevent = "{event}"\ncommand = {command}' for event in missing)
        return [TomlConfig(CONFIG, "hooks", entry, begin=_BEGIN, end=_END, is_server=False)] if missing else []


def _missing(path: str, text: str) -> list[str]:
    """Return the events for which a config has no hook of ours."""
    found = parse_toml(path, text).get("hooks")
    hooks: list[Any] = found if isinstance(found, list) else []
    ours = {hook.get("event") for hook in hooks if isinstance(hook, dict) and _CALL in str(hook.get("command"))}
    return [event for event in EVENTS if event not in ours]
