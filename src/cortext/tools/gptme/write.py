"""Write sessions into gptme's own store: a new one, or a lost one from our copy.

A mark in each record says which message it was made from. If gptme is set to another tool format than `tool`, it sends
every call as the text that the log contains. Then calls and results are written as labelled text from the start.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Sequence
from datetime import datetime

import msgspec

from cortext.errors import DamagedData, UnsafePath
from cortext.io import durable
from cortext.io.new_files import mirror_file
from cortext.model.message import ASSISTANT, SYSTEM, TOOL_CALL, USER, Message
from cortext.model.turns import Difference, Result, Turn, Turns, standalone
from cortext.tools.base import Launch, Messages, Transcript, Withheld, Written
from cortext.tools.gptme.adapter import (
    KEY,
    LOG,
    SETTINGS,
    Gptme,
    GptmeReading,
    folder_of,
    is_compacted,
    literal_message,
    settings_of,
)
from cortext.tools.gptme.notation import Metadata, Record, call_line, looks_like_call, without_calls
from cortext.tools.shared.building import plain_turns
from cortext.tools.shared.installer import toml_string
from cortext.tools.shared.lines import derived_id, note
from cortext.tools.shared.native import Mark, removed_unless_verified, same_message, verify
from cortext.tools.shared.parts import FolderWriter
from cortext.tools.shared.program import check_argument

_REAL_CALLS = "tool"  # the tool format in which gptme sends calls as calls
# What gptme needs for a provider, by the beginning of a model's name; others are not known.
_NEEDED = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "requesty": ("REQUESTY_API_KEY",),
    "gemini": ("GEMINI_API_KEY",),
    "groq": ("GROQ_API_KEY",),
    "xai": ("XAI_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "moonshot": ("MOONSHOT_API_KEY",),
    "nvidia": ("NVIDIA_API_KEY",),
    "azure": ("AZURE_OPENAI_API_KEY",),
    "local": ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
}


class GptmeWriter(FolderWriter[Gptme]):
    """Writes sessions, and says how gptme is started with one."""

    def put_back(self, copy: str, *, project: str) -> str:
        """Restore a kept copy byte for byte if gptme has lost the session; return the session's id."""
        found = self.tool.transcript_at(copy)
        if found is None:
            raise DamagedData(f"{copy} is not a transcript of gptme", kept="nothing was changed")
        if not KEY.fullmatch(found.key):
            raise UnsafePath(f"{copy} has a session id that cannot be a file name", kept="nothing was changed")
        folder, beside = self._folder(found.key), folder_of(copy)
        if not os.path.lexists(os.path.join(folder, LOG)):
            durable.ensure_folder(folder)
            sources = [(os.path.join(beside, name), name) for name in os.listdir(beside)]
            for source, name in (*sources, (copy, LOG)):
                if not os.path.lexists(os.path.join(folder, name)):
                    mirror_file(source, os.path.join(folder, name))
        return found.key

    def withheld(self, transcript: Transcript) -> Withheld | None:
        """Count the calls that gptme sends as text, because the session has another tool format than `tool`.

        None after a compaction.
        """
        if is_compacted(transcript.path):
            return None
        found = Withheld()
        if settings_of(folder_of(transcript.path)).get("tool_format", "tool") != "tool":
            for message in GptmeReading(transcript, None):
                calls = len(message.parts_of(TOOL_CALL)) if message.role == ASSISTANT else 0
                if calls:
                    note(found.changed, Difference.CALLS_AS_TEXT, calls)
        return found

    def refusal(self, transcript: Transcript) -> str:
        """Return why gptme would end at once, or after the next answer, in a session with these settings.

        It keeps `--non-interactive`, which no option takes back, and the model, whose provider needs a variable.
        """
        settings = settings_of(folder_of(transcript.path))
        if not settings.get("interactive", True):
            return "it was held without a terminal, and gptme would end after its next answer"
        model = settings.get("model")
        needed = _NEEDED.get(model.partition("/")[0], ()) if isinstance(model, str) else ()
        if not needed or any(self._variable(name) for name in needed):
            return ""
        return f"it was held with the model {model!r}, and {' or '.join(needed)} is not set"

    def _variable(self, name: str) -> object:
        """Return a variable of the environment or of the user's settings."""
        files = ("config.local.toml", "config.toml", "config.runtime.toml")
        found = self.tool.own_environ.get(f"GPTME_{name}") or self.tool.own_environ.get(name)
        return found or next(filter(None, (settings_of(self.tool.config, "env", file).get(name) for file in files)), "")

    def preview(self, messages: Messages) -> Written:
        """Return what `write` would report for these messages; nothing is written."""
        return Written.of(Rendering(messages, real_calls=self._tool_format() == _REAL_CALLS).normal)

    def write(
        self, messages: Messages, *, project: str, title: str = "", key: str = "", model: str = "", note: str = ""
    ) -> Written:
        """Write a new session of this project; it is read back, and removed if it is not what was written."""
        tool_format = self._tool_format()
        rendering = Rendering(messages, real_calls=tool_format == _REAL_CALLS, note=note)
        key = self._free_key(key)
        folder = self._folder(key)
        path = os.path.join(folder, LOG)
        durable.ensure_folder(folder)
        with removed_unless_verified(folder):
            settings = {"name": title, "tool_format": tool_format, "workspace": os.path.realpath(project)}
            lines = [f"{name} = {toml_string(value)}\n" for name, value in settings.items() if value]
            durable.replace_file(os.path.join(folder, SETTINGS), [b"[chat]\n", "".join(lines).encode("utf-8")])
            durable.replace_file(path, (msgspec.json.encode(record) + b"\n" for record in rendering.records))
            self._verify(path, rendering)
        return Written.of(rendering.normal, key, path)

    def launch(self, written_or_key: str, *, project: str, prompt: str = "", model: str = "") -> Launch:
        """Return how to open that session interactively; the prompt, if any, is sent first."""
        check_argument(prompt)
        options = [*(["--model", model] if model else []), *(["--", prompt] if prompt else [])]
        return Launch(argv=[self.tool.program.executable(), "--name", written_or_key, *options], cwd=project)

    def _tool_format(self) -> str:
        """Return the format that the user has chosen, or the one that gptme uses with almost every model.

        It is written into the session's settings, so that the receipt does not depend on the model.
        """
        chosen = self.tool.own_environ.get("TOOL_FORMAT")
        chosen = chosen or settings_of(self.tool.config, "env").get("TOOL_FORMAT")
        return chosen if chosen in ("markdown", "xml") else "tool"

    def _folder(self, key: str) -> str:
        """Return the folder of a session."""
        return os.path.join(self.tool.logs, key)

    def _free_key(self, wanted: str) -> str:
        """Return the wanted id if it is well-formed and free, else a new one."""
        if KEY.fullmatch(wanted) and not os.path.lexists(self._folder(wanted)):
            return wanted
        while True:
            key = f"{time.strftime('%Y-%m-%d')}-{uuid.uuid4().hex[:16]}"
            if not os.path.lexists(self._folder(key)):
                return key

    def _verify(self, path: str, rendering: Rendering) -> None:
        if not rendering.records:
            return
        transcript = self.tool.transcript_at(path)
        if transcript is None:
            raise DamagedData(f"{path} is not a transcript of gptme", kept="the conversation; the file was removed")
        reading = GptmeReading(transcript, None)
        verify(self.tool.title, rendering.expected, list(reading), reading.counts, same_message)


class Rendering:
    """The records for a sequence of messages, what had to change, and the messages that reading must return."""

    def __init__(self, messages: Sequence[Message], *, real_calls: bool, note: str = "") -> None:
        self.normal = Turns(messages)
        self._now = datetime.now().isoformat()  # the original times are in the marks
        self.records: list[Record] = []
        self.expected: list[Message] = []
        if note:
            self._add([Record(role=USER, content=note)], None)
        if real_calls:
            for turn in self.normal.turns:
                self._add(self._records(turn), turn.message)
        else:
            for plain in plain_turns(self.normal):
                self._add([self._text_record(plain.role, plain.text)], plain.message)

    def _records(self, turn: Turn) -> list[Record]:
        """Return a turn as one record, or one for each result and one for the text after them."""
        text = "\n\n".join(text.whole for text in turn.texts)
        if turn.role == ASSISTANT:
            record = self._text_record(ASSISTANT, text)
            calls = "\n".join(call_line(call) for call in turn.calls)
            record.content = "\n".join(filter(None, (record.content, calls)))
            return [record]
        records = [self._result(result) for result in turn.results]
        return [*records, self._text_record(USER, text)] if text else records

    def _text_record(self, role: str, text: str) -> Record:
        if role == ASSISTANT and looks_like_call(text):
            self.normal.note(Difference.CODE_FENCE)
            text = without_calls(text)
        return Record(role=role, content=text)

    def _result(self, result: Result) -> Record:
        if result.is_error and result.part is not None:
            self.normal.note(Difference.ERROR_FLAG)
        metadata = Metadata(tool=result.call.name)
        return Record(role=SYSTEM, content=result.output, call_id=result.call.id, metadata=metadata)

    def _add(self, records: list[Record], message: Message | None) -> None:
        """Add the records of one message. The first has its mark, the others are marked as added."""
        if message is not None:
            message = standalone(message)
            message.id = message.id or derived_id(len(self.expected), message.role, message.content)
            self.expected.append(message)
        for record in records:
            record.timestamp = self._now
            record.metadata = record.metadata or Metadata()
            record.metadata.cortext = Mark.made_from(message if record is records[0] else None, literal_message(record))
            if record.role == ASSISTANT and message is not None:
                record.metadata.model = message.model
        self.records += records
