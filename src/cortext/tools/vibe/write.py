"""Writes a conversation as a folder of Vibe 2, which Vibe 3 imports when the session is resumed.

The format of Vibe 3 is a chain of hashed records, not meant to be written by others. Vibe leaves the folder as it is,
so the field that we add to its lines is there when the conversation comes back. Vibe 2 has no flag for a failed call.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Sequence
from typing import Any

import msgspec

from cortext.errors import SessionExists, UsageError
from cortext.io import durable
from cortext.model import clock
from cortext.model.message import ASSISTANT, USER, Message
from cortext.model.turns import Change, Text, Turn, Turns, standalone, whole_characters
from cortext.tools.base import Transcript, Written
from cortext.tools.shared.folders import is_uuid
from cortext.tools.shared.mark import Mark
from cortext.tools.shared.verify import same_message, verify
from cortext.tools.vibe.read import VibeReading
from cortext.tools.vibe.records import LINES, META
from cortext.tools.vibe.store import TOOL, VibeStore

Json = dict[str, Any]


class Rendering:
    """The lines for a sequence of messages, what had to change, and the messages that reading must return."""

    def __init__(self, messages: Sequence[Message], note: str = "") -> None:
        self.normal = Turns(messages)
        self.lines: list[Json] = []
        self.expected: list[Message] = []
        for turn in self.normal.turns:
            self._add(turn)
        if note:
            self._add(Turn(USER, [Text(note)], None))

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
                self.normal.note(Change.ERROR_FLAG)
            lines.append(
                {"role": "tool", "content": result.output, "name": result.call.name, "tool_call_id": result.call.id}
            )
        return [*lines, {"role": USER, "content": text}] if text else lines


def write_session(
    store: VibeStore, messages: Sequence[Message], *, project: str, title: str, key: str, note: str = ""
) -> Written:
    """Write a new session; it is read back, and removed if it is not what was written."""
    rendering = Rendering(messages, note)
    if not rendering.lines:
        raise UsageError("nothing to write: every message is empty", kept="nothing was changed")
    if not is_uuid(key) or store.has(key):
        key = str(uuid.uuid4())
        while store.has(key):
            key = str(uuid.uuid4())
    folder = os.path.join(store.root, f"session_{time.strftime('%Y%m%d_%H%M%S', time.gmtime())}_{key[:8]}")
    if os.path.lexists(folder):
        raise SessionExists(f"{folder} already exists", kept="it is unchanged", hint="try again")
    durable.ensure_folder(folder)
    path = os.path.join(folder, LINES)
    try:
        durable.replace_file(path, (msgspec.json.encode(line) + b"\n" for line in rendering.lines))
        durable.replace_file(os.path.join(folder, META), [msgspec.json.encode(_meta(rendering, key, project, title))])
        reading = VibeReading(Transcript(tool=TOOL, key=key, path=path, project=project), store.pieces(path))
        verify("Mistral Vibe", rendering.expected, reading, reading.counts, same_message)
    except BaseException:
        durable.remove_tree(folder)
        raise
    return Written.of(rendering.normal, key, path)


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
