"""Writes histories of our own: a conversation that is carried over, or one of Aider's that is resumed."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Sequence

from cortext.errors import DamagedData, NotFound
from cortext.io import durable
from cortext.model.message import ASSISTANT, USER, Message
from cortext.model.turns import Difference, Turns, standalone
from cortext.tools.aider.adapter import KEY, Aider, AiderReading, Head, head_line, section_messages
from cortext.tools.aider.history import blocks, formatted, indented, without_separators
from cortext.tools.base import EXAMPLE_KEY, Counts, Launch, Messages, Transcript, Withheld, Written
from cortext.tools.shared.building import plain_turns
from cortext.tools.shared.lines import derived_id
from cortext.tools.shared.native import same_message, save_list, verify
from cortext.tools.shared.parts import SessionWriter

# Above this size Aider would replace the restored messages by a summary. Its default is 1,024 to 8,192.
_HISTORY_TOKENS = "1000000"


class AiderWriter(SessionWriter[Aider]):
    """Writes histories, and says how Aider is started with one."""

    def put_back(self, copy: str, *, project: str) -> str:
        """Restore a kept copy as a history of our own if the conversation was lost; return its id."""
        transcript = self.tool.transcript_at(copy)
        section = self.tool.section(transcript) if transcript is not None else None
        if section is None:
            raise DamagedData(f"{copy} is not a history of Aider", kept="nothing was changed")
        known = (found.key for found in (*self.tool.transcripts(project), *self.tool.transcripts()))
        if section.key not in known:
            head = section.head or Head(section.key, os.path.realpath(project))
            self._write(head, section.data)
        return section.key

    def withheld(self, transcript: Transcript) -> Withheld:
        """Count the lines of answers that Aider leaves out because of how they begin."""
        section = self.tool.section(transcript)
        lines = sum(block.left_out for block in blocks(section.text)) if section is not None else 0
        return Withheld(changed={Difference.LINE_LEFT_OUT: lines} if lines else {})

    def preview(self, messages: Messages) -> Written:
        """Return what `write` would report for these messages; nothing is written."""
        return Written.of(Rendering(messages).normal)

    def write(
        self, messages: Messages, *, project: str, title: str = "", key: str = "", model: str = "", note: str = ""
    ) -> Written:
        """Write a new history of our own; it is read back, and removed if it is not what was written."""
        rendering = Rendering(messages, note)
        key = self._free_key(key)
        path = self._write(Head(key, os.path.realpath(project), title), rendering.text.encode("utf-8"))
        try:
            self._verify(path, rendering)
        except BaseException:
            self._remove(key)
            raise
        return Written.of(rendering.normal, key, path)

    def launch(self, written_or_key: str, *, project: str, prompt: str = "", model: str = "") -> Launch:
        """Return how to open that conversation interactively. The prompt is not sent, because Aider takes none."""
        history = ["--chat-history-file", self._adopt(written_or_key, project), "--restore-chat-history"]
        options = ["--max-chat-history-tokens", _HISTORY_TOKENS, *(["--model", model] if model else [])]
        return Launch(argv=[self.tool.program.executable(), *history, *options], cwd=project)

    def discard(self, written: Written, *, project: str) -> None:
        """Remove a history that was never used."""
        if written.path:
            self._remove(written.key)

    def _remove(self, key: str) -> None:
        """Remove a history of our own, and the list of what we wrote into it."""
        for path in (self.tool.own_path(key), self.tool.list_path(key)):
            durable.remove(path)

    def _verify(self, path: str, rendering: Rendering) -> None:
        transcript = self.tool.transcript_at(path)
        section = self.tool.section(transcript) if transcript is not None else None
        if transcript is None or section is None:
            raise DamagedData(f"{path} is not a history of Aider", kept="the conversation; the file was removed")
        counts = Counts()
        as_read = list(section_messages(section, counts))
        if len(as_read) != len(rendering.made_from):
            raise DamagedData(
                f"{path} is read as {len(as_read)} messages instead of {len(rendering.made_from)}",
                kept="the conversation; the file was removed",
                hint="resume with --print instead, and report this",
            )
        save_list(self.tool.list_path(transcript.key), as_read, rendering.made_from)
        expected = [message for message in rendering.made_from if message is not None]
        reading = AiderReading(self.tool, transcript)
        verify(self.tool.title, expected, list(reading), reading.counts, same_message)

    def _adopt(self, key: str, project: str) -> str:
        """Return the path of our own history of a conversation; copy it there if it is still only in Aider's file."""
        path = self.tool.own_path(key)
        if key != EXAMPLE_KEY and not os.path.lexists(path):
            found = next((found for found in self.tool.transcripts(project) if found.key == key), None)
            section = self.tool.section(found) if found is not None else None
            if section is None:
                raise NotFound(f"Aider has no conversation {key} in {project}", kept="nothing was started")
            self._write(Head(key, os.path.realpath(project)), section.data)
        return path

    def _write(self, head: Head, data: bytes) -> str:
        path = self.tool.own_path(head.key)
        durable.ensure_folder(self.tool.folder)
        durable.replace_file(path, [head_line(head), data])
        return path

    def _free_key(self, wanted: str) -> str:
        """Return the wanted id if it is well-formed and free, else a new one."""
        if KEY.fullmatch(wanted) and wanted not in {found.key for found in self.tool.transcripts()}:
            return wanted
        while True:
            key = f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:12]}"
            if not os.path.lexists(self.tool.own_path(key)):
                return key


class Rendering:
    """The text for a sequence of messages, what had to change, and which message each part was made from."""

    def __init__(self, messages: Sequence[Message], note: str = "") -> None:
        self.normal = Turns(messages)
        self.text = ""
        self.made_from: list[Message | None] = []
        self._last = ""
        if note:
            self.add(USER, without_separators(note)[0])
        for turn in plain_turns(self.normal):
            text, separators = without_separators(turn.text)
            if separators:
                self.normal.note(Difference.SEPARATOR, separators)
            if turn.role == ASSISTANT:
                text, lines = indented(text)
                if lines:
                    self.normal.note(Difference.INDENTED, lines)
            message = standalone(turn.message) if turn.message is not None else None
            if message is not None:
                message.id = message.id or derived_id(len(self.made_from), message.role, message.content)
            self.add(turn.role, text, message)

    def add(self, role: str, text: str, message: Message | None = None) -> None:
        """Add a part of the text; without a message, it is read back as nothing."""
        self.text += formatted(role, text, self._last)
        self.made_from.append(message)
        self._last = role
