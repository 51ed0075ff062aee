"""What is written for Qwen Code: sessions, and our files and entries in a project.

A session is never written over an existing one, and is verified by reading it back. Each message becomes one record,
with a field of our own that names the message, so that a conversation comes back with its original ids. Qwen Code only
appends to the file, and copies unknown fields when it forks a session. It invents a result for a call that is not
answered by the next record, so a run of assistant messages becomes one record.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from cortext.errors import NotFound
from cortext.io import durable, new_files
from cortext.model import clock
from cortext.model.message import ASSISTANT, SYSTEM, TOOL_RESULT, USER, Message
from cortext.model.turns import Block, Call, Result, Text, Turn, Turns, runs
from cortext.safety.languages import shell
from cortext.tools.base import CommandFile, Counts, Launch, Messages, Transcript, Withheld, Written
from cortext.tools.qwen_code.adapter import KINDS, QwenCode
from cortext.tools.qwen_code.read import (
    COMPACTION,
    SPOKEN,
    TITLE,
    QwenReader,
    QwenReading,
    Record,
    decoder,
    session_in,
)
from cortext.tools.shared.building import parts_of
from cortext.tools.shared.commands import all_hooks_off, check_names, marked_prompt, trust_level
from cortext.tools.shared.entries import ConfigEntry, Hooks, Server, servers_of
from cortext.tools.shared.folders import is_uuid
from cortext.tools.shared.installer import JsonConfig, SettingsFiles
from cortext.tools.shared.jsonc import read_object
from cortext.tools.shared.lines import ForeignLines, one_line_each
from cortext.tools.shared.native import RunMark, encode, record_id, removed_unless_verified, same_message, verify
from cortext.tools.shared.parts import FileWriter, ToolPart
from cortext.tools.shared.program import check_argument, with_options
from cortext.tools.shared.values import field

Json = dict[str, Any]

_NAMES = uuid.UUID("0d6b2f0e-9c3a-5b0c-8a44-7d1f5e2c9b10")
CALLS = "message of a voice call (Qwen Code does not send it again)"


class QwenWriter(FileWriter[QwenCode]):
    """Writes sessions, and says how Qwen Code is started with one."""

    def __init__(self, tool: QwenCode) -> None:
        super().__init__(tool)
        self.reader = QwenReader(tool)

    def put_back(self, copy: str, *, project: str) -> str:
        """Restore a copy, unless Qwen Code still has that session; return the session's id."""
        key = session_in(copy)
        if not is_uuid(key):
            raise NotFound(f"not a session of {self.tool.title}: {copy}", kept="nothing was changed")
        if not self.reader.has(key):
            target = self.tool.session(project, key)
            durable.ensure_folder(os.path.dirname(target))
            new_files.mirror_file(copy, target)
        return key

    def withheld(self, transcript: Transcript) -> Withheld | None:
        """Return the messages of voice calls; None after a compaction."""
        lines = ForeignLines(transcript.path, 0, Counts())
        found = {record.uuid: record for line in lines for record in lines.decode(line, decoder, Record) if record.uuid}
        spoken: set[str] = set()
        record = next(reversed(found.values()), None)
        while record is not None:  # back along the branch that Qwen Code resumes
            if record.subtype == COMPACTION:
                return None
            if record.subtype == SPOKEN:
                spoken.add(record.uuid)
            found.pop(record.uuid)
            record = found.get(record.parentUuid or "")
        return Withheld(messages={CALLS: spoken} if spoken else {})

    def write(
        self, messages: Messages, *, project: str, title: str = "", key: str = "", model: str = "", note: str = ""
    ) -> Written:
        """Write a new session into the project's folder. It gets another id if `key` is taken or not a UUID."""
        if not is_uuid(key) or self.reader.has(key):
            key = str(uuid.uuid4())
        return write_session(
            self.tool.session(project, key),
            messages,
            key=key,
            project=os.path.realpath(project),
            title=title,
            model=model,
            version=self.tool.tested_version,
            note=note,
        )

    def launch(self, written_or_key: str, *, project: str, prompt: str = "", model: str = "") -> Launch:
        """Return how to start Qwen Code interactively with that session open."""
        check_argument(prompt)
        options = [*(["--model", model] if model else []), *(["--prompt-interactive", prompt] if prompt else [])]
        return Launch(argv=[self.tool.program.executable(), "--resume", written_or_key, *options], cwd=project)

    def instructed(self, launch: Launch, text: str, file: str) -> Launch:
        """Return the launch with a text after Qwen Code's own system prompt."""
        option = f"--append-system-prompt={text}"
        check_argument(option)
        return with_options(launch, option)


def write_session(
    path: str,
    messages: Sequence[Message],
    *,
    key: str,
    project: str,
    title: str,
    model: str,
    version: str,
    note: str = "",
) -> Written:
    """Write the session and read it back; remove it and raise DamagedData if a message differs."""
    normal = Turns(messages)
    turns = [*([Turn(USER, [Text(note)], None)] if note else []), *normal.turns]
    common: Json = {"sessionId": key, "cwd": project, "version": version}
    durable.ensure_folder(os.path.dirname(path))
    durable.replace_file(path, _lines(turns, common, title, model))
    with removed_unless_verified(path):
        reading = QwenReading(Transcript(tool="qwen", key=key, path=path))
        expected = [turn.message for turn in turns if turn.message is not None]
        verify("Qwen Code", expected, reading, reading.counts, same_message)
    return Written.of(normal, key, path)


def _lines(turns: Sequence[Turn], common: Json, title: str, model: str) -> Iterator[bytes]:
    reading = QwenReading(Transcript(tool="qwen", key="", path=""))
    parent: str | None = None
    stamp = now = clock.now()
    used: set[str] = set()
    for number, run in enumerate(runs(turns)):
        sources = [turn.message for turn in run if turn.message is not None]
        first = sources[0] if sources else None
        identity = record_id(_NAMES, first, number, parent, used)
        stamp = (clock.normalise(first.timestamp) if first else "") or now
        record: Json = {"uuid": identity, "parentUuid": parent, "timestamp": stamp, **_content(run, model), **common}
        if len(sources) > 1:
            mark = RunMark.made_from_all(sources)
        else:
            typed = msgspec.convert(record, Record)
            parts = parts_of(typed.message.parts if typed.message else None)
            mark = RunMark.made_from(first, reading.literal(typed, parts, identity))
        yield _line({**record, "cortext": msgspec.to_builtins(mark)})
        parent = identity
    if title:
        record = {"uuid": str(uuid.uuid5(_NAMES, f"title {parent} {title}")), "parentUuid": parent, "timestamp": stamp}
        record |= {"type": SYSTEM, "subtype": TITLE, **common}
        yield _line({**record, "systemPayload": {"customTitle": title, "titleSource": "manual"}})


def _line(record: Json) -> bytes:
    return one_line_each(encode(record)) + b"\n"


def _content(run: Sequence[Turn], model: str) -> Json:
    """Return the fields of a record that differ between the user, the model and the results of its calls."""
    parts = [_part(block) for turn in run for block in turn.blocks]
    if run[0].role == ASSISTANT:
        name = next((turn.message.model for turn in run if turn.message and turn.message.model), model)
        fields: Json = {"type": ASSISTANT, "provenance": "assistant_output", "model": name or "unknown"}
        return {**fields, "message": {"role": "model", "parts": parts}}
    kind, origin = (TOOL_RESULT, "tool_result") if run[0].results else (USER, "real_user")
    return {"type": kind, "provenance": origin, "message": {"role": "user", "parts": parts}}


def _part(block: Block) -> Json:
    if isinstance(block, Call):
        return {"functionCall": {"id": block.id, "name": block.name, "args": block.input}}
    if isinstance(block, Result):
        answer = {"error" if block.is_error else "output": block.output}
        return {"functionResponse": {"id": block.call.id, "name": block.call.name, "response": answer}}
    return {"text": block.whole}


# ── in a project ─────────────────────────────────────────────────────────────────────────────────────

SETTINGS = ".qwen/settings.json"
_HOOK_SECONDS = 30
_VERSION = {"$version": 4}  # Qwen Code itself adds it to settings that lack it


class QwenSettings(SettingsFiles, ToolPart[QwenCode]):
    """Our files and entries in a project: slash commands, and hooks and the MCP server in `.qwen/settings.json`."""

    def files(self, commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
        """Return the slash commands as files of the project; UsageError for a name that cannot be a file name."""
        check_names(commands)
        return {f".qwen/commands/{command.name}.md": _command_text(command).encode("utf-8") for command in commands}

    def configs(self, program: Sequence[str] = ("cortext",)) -> Sequence[JsonConfig]:
        """Return our entries in the project's settings."""
        hook = {"type": "command", "command": shell([*program, "hook", "qwen"]), "timeout": _HOOK_SECONDS}
        entries: list[ConfigEntry] = [Hooks(dict.fromkeys(KINDS, hook)), Server.of("qwen", program)]
        return [JsonConfig((SETTINGS,), entries, comments=True, initial=_VERSION)]

    def mcp_servers(self, project: str) -> set[str]:
        """Return the names of the MCP servers of the project and of the user."""
        return servers_of(self.tool.user_settings, project, SETTINGS)

    def hooks_off(self, project: str) -> list[tuple[str, str]]:
        """Return why our hooks would not run here (hooks turned off, folder not trusted), each with a remedy."""
        user = self.tool.user_settings
        reasons = all_hooks_off([user, os.path.join(project, SETTINGS)])
        asks = field(read_object(user), "security", "folderTrust", "enabled") is True
        if asks and trust_level(read_object(self.tool.trust_rules), project) in ("", "DO_NOT_TRUST"):
            reasons.append(("it does not trust this folder", "run /trust in qwen"))
        return reasons


def _command_text(command: CommandFile) -> str:
    description = json.dumps(command.description, ensure_ascii=False)
    return f"---\ndescription: {description}\n---\n\n{marked_prompt(command)}"
