"""What is written for Mistral Vibe: sessions, and our files and entries in a project.

A conversation becomes a folder of Vibe 2, which Vibe 3 imports when the session is resumed. The format of Vibe 3 is a
chain of hashed records, not meant to be written by others. Vibe leaves the folder as it is, so the field that we add to
its lines is there when the conversation comes back. Vibe 2 has no flag for a failed call.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Sequence
from typing import Any

import msgspec

from cortext.errors import DamagedData, SessionExists, UsageError
from cortext.io import durable
from cortext.model import clock
from cortext.model.message import ASSISTANT, USER, Message
from cortext.model.turns import Difference, Text, Turn, Turns, standalone, whole_characters
from cortext.safety.languages import shell
from cortext.tools.base import CommandFile, Launch, Messages, Transcript, Withheld, Written
from cortext.tools.shared.bundle import pieces_in
from cortext.tools.shared.commands import agent_skill, skill_name, text_without_arguments
from cortext.tools.shared.entries import NAME, servers_of
from cortext.tools.shared.folders import is_uuid
from cortext.tools.shared.installer import SettingsFiles, TomlConfig, parse_toml, toml_string
from cortext.tools.shared.native import Mark, removed_unless_verified, same_message, verify
from cortext.tools.shared.parts import FolderWriter, ToolPart
from cortext.tools.shared.program import check_argument
from cortext.tools.vibe.adapter import VIBE_2, Vibe
from cortext.tools.vibe.read import VibeReading, is_compacted
from cortext.tools.vibe.records import ERRORS, LINES, META
from cortext.tools.vibe.store import VibeReader, model_of

Json = dict[str, Any]


class VibeWriter(FolderWriter[Vibe]):
    """Writes sessions, and says how Vibe is started with one."""

    def __init__(self, tool: Vibe) -> None:
        super().__init__(tool)
        self.reader = VibeReader(tool)

    def put_back(self, copy: str, *, project: str) -> str:
        """Restore a kept copy to the tool's store if the session is missing there; return the session's key."""
        found = self.reader.copied_transcript(copy)
        if found is None or not is_uuid(found.key):
            raise DamagedData(f"{copy} is not a session of {self.tool.title}", kept="nothing was changed")
        if not any(transcript.key == found.key for transcript in self.reader.transcripts()):
            self.reader.restore(pieces_in(copy))
        return found.key

    def withheld(self, transcript: Transcript) -> Withheld | None:
        """Return an empty report, because Vibe sends everything; None if the session was compacted."""
        return None if is_compacted(self.reader.pieces(transcript)) else Withheld()

    def refusal(self, transcript: Transcript) -> str:
        """Return that the settings no longer name the model of the session: Vibe would resume it without an end."""
        model = model_of(self.reader.pieces(transcript))
        known: set[object] = set()
        for path in (os.path.join(self.tool.folder, "config.toml"), os.path.join(transcript.project or "", SETTINGS)):
            try:
                models = parse_toml(path, durable.read_text(path)).get("models") if os.path.exists(path) else None
            except (*ERRORS, ValueError):  # Vibe reports it
                return ""
            for each in models if isinstance(models, list) else ():
                known |= {each.get("alias"), each.get("name")} if isinstance(each, dict) else set()
        if not model or not known or model in known:  # without models in the settings, Vibe has its own
            return ""
        return f"it was held with the model {model!r}, which is no longer configured"

    def preview(self, messages: Messages) -> Written:
        """Return what `write` would report for these messages; nothing is written."""
        return Written.of(Rendering(messages).normal)

    def write(
        self, messages: Messages, *, project: str, title: str = "", key: str = "", model: str = "", note: str = ""
    ) -> Written:
        """Write a new session of this project; it is read back, and removed if it is not what was written."""
        rendering = Rendering(messages, note)
        if not rendering.lines:
            raise UsageError("nothing to write: every message is empty", kept="nothing was changed")
        if not is_uuid(key) or self.reader.has(key):
            key = str(uuid.uuid4())
            while self.reader.has(key):
                key = str(uuid.uuid4())
        folder = os.path.join(self.tool.root, f"{VIBE_2}{time.strftime('%Y%m%d_%H%M%S', time.gmtime())}_{key[:8]}")
        if os.path.lexists(folder):
            raise SessionExists(f"{folder} already exists", kept="it is unchanged", hint="try again")
        durable.ensure_folder(folder)
        path = os.path.join(folder, LINES)
        with removed_unless_verified(folder):
            durable.replace_file(path, (msgspec.json.encode(line) + b"\n" for line in rendering.lines))
            durable.replace_file(
                os.path.join(folder, META), [msgspec.json.encode(_meta(rendering, key, project, title))]
            )
            transcript = Transcript(tool=self.tool.name, key=key, path=path, project=project)
            reading = VibeReading(transcript, self.reader.pieces(transcript))
            verify(self.tool.title, rendering.expected, reading, reading.counts, same_message)
        return Written.of(rendering.normal, key, path)

    def launch(self, written_or_key: str, *, project: str, prompt: str = "", model: str = "") -> Launch:
        """Return how to open that session interactively; the prompt, if any, is sent first."""
        check_argument(prompt)
        env = {} if self.tool.folder == self.tool.default_folder else {"VIBE_HOME": self.tool.folder}
        if model:
            env["VIBE_ACTIVE_MODEL"] = model
        argv = [self.tool.program.executable(), "--resume", written_or_key, *(["--", prompt] if prompt else [])]
        return Launch(argv=argv, cwd=project, env=env)


def _meta(rendering: Rendering, key: str, project: str, title: str) -> Json:
    now = clock.now()
    return {
        "session_id": key,
        "start_time": now,
        "end_time": now,
        "git_commit": None,
        "git_branch": None,
        "environment": {"working_directory": project},
        "username": "",
        "title": whole_characters(title) or None,
        "title_source": "manual" if title else "auto",
        "total_messages": len(rendering.lines),
    }


class Rendering:
    """The lines for a sequence of messages, what had to change, and the messages that reading must return."""

    def __init__(self, messages: Sequence[Message], note: str = "") -> None:
        self.normal = Turns(messages)
        self.lines: list[Json] = []
        self.expected: list[Message] = []
        if note:
            self._add(Turn(USER, [Text(note)], None))
        for turn in self.normal.turns:
            self._add(turn)

    def _add(self, turn: Turn) -> None:
        """Add the lines of a turn: the first says which message it is, the others were added."""
        lines = self._lines(turn)
        for line in lines:
            line["cortext"] = Mark(added=True)
        if turn.message is not None:
            message = standalone(turn.message)
            lines[0]["cortext"] = Mark(id=message.id, was=msgspec.to_builtins(message))
            self.expected.append(message)
        self.lines += lines

    def _lines(self, turn: Turn) -> list[Json]:
        text = "\n\n".join(text.whole for text in turn.texts)
        if turn.role == ASSISTANT:
            line: Json = {"role": ASSISTANT, "content": text}
            if turn.calls:
                line["tool_calls"] = [
                    {
                        "id": call.id,
                        "index": index,
                        "type": "function",
                        "function": {"name": call.name, "arguments": msgspec.json.encode(call.input).decode("utf-8")},
                    }
                    for index, call in enumerate(turn.calls)
                ]
            return [line]
        lines: list[Json] = []
        for result in turn.results:
            if result.is_error and result.part is not None:
                self.normal.note(Difference.ERROR_FLAG)
            lines.append(
                {"role": "tool", "content": result.output, "name": result.call.name, "tool_call_id": result.call.id}
            )
        return [*lines, {"role": USER, "content": text}] if text else lines


# ── in a project ─────────────────────────────────────────────────────────────────────────────────────

HOOKS = ".vibe/hooks.toml"
SETTINGS = ".vibe/config.toml"
_END = "# <<< cortext <<<"


class VibeSettings(SettingsFiles, ToolPart[Vibe]):
    """Our files and entries in a project: skills, a hook and the MCP server. Vibe reads them in a trusted folder."""

    def files(self, commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
        """Return the commands as skills, which only the user calls, and the skill about cortext."""
        head = ("user-invocable: true", "disable-model-invocation: true")
        texts = {skill_name(command.name): text_without_arguments(command, program, "/", *head) for command in commands}
        return {f".vibe/skills/{name}/SKILL.md": text.encode("utf-8") for name, text in texts.items()} | agent_skill()

    def configs(self, program: Sequence[str] = ("cortext",)) -> Sequence[TomlConfig]:
        """Return our entries: the hook after each answer, and the MCP server. Vibe has no hook for a prompt."""
        hook = toml_string(shell([*program, "hook", "vibe"]))
        command, *arguments = map(toml_string, [*program, "mcp"])
        return [
            TomlConfig(
                HOOKS,
                "hooks",
                f'[[hooks]]\nname = "{NAME}"\ntype = "post_agent"\ncommand = {hook}\ntimeout = 30.0',
                begin="# >>> cortext: its hook; taken out again by cortext >>>",
                end=_END,
                is_server=False,
            ),
            TomlConfig(
                SETTINGS,
                "mcp_servers",
                f'[[mcp_servers]]\nname = "{NAME}"\ntransport = "stdio"\ncommand = {command}\n'
                f'args = [{", ".join(arguments)}]\nenv = {{ CORTEXT_TOOL = "vibe" }}',
                begin="# >>> cortext: its MCP server; taken out again by cortext >>>",
                end=_END,
            ),
        ]

    def mcp_servers(self, project: str) -> set[str]:
        """Return the names of the MCP servers in the user's and the project's settings."""
        return servers_of(os.path.join(self.tool.folder, "config.toml"), project, SETTINGS, key="mcp_servers")

    def hooks_off(self, project: str) -> list[tuple[str, str]]:
        """Return nothing: Vibe asks at its start whether to trust a folder, and then runs its hooks."""
        return []
