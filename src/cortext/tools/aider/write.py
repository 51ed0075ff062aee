"""Write histories of our own: a conversation that is carried over, or one of Aider's that is resumed."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Sequence

from cortext.errors import DamagedData, NotFound
from cortext.io import durable
from cortext.model.message import ASSISTANT, USER, Message
from cortext.model.turns import Change, Turns, standalone
from cortext.tools.aider.history import formatted, indented, without_separators
from cortext.tools.aider.read import AiderReading, section_messages
from cortext.tools.aider.store import KEY, AiderStore, Head, Section, head_line
from cortext.tools.base import Counts, Written
from cortext.tools.shared.lines import derived_id
from cortext.tools.shared.plain_turns import plain_turns
from cortext.tools.shared.verify import same_message, verify
from cortext.tools.shared.written import save_list


class Rendering:
    """The text for a sequence of messages, what had to change, and which message each part was made from."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.normal = Turns(messages)
        self.text = ""
        self.made_from: list[Message | None] = []
        self._last = ""
        for turn in plain_turns(self.normal):
            text, separators = without_separators(turn.text)
            if separators:
                self.normal.note(Change.SEPARATOR, separators)
            if turn.role == ASSISTANT:
                text, lines = indented(text)
                if lines:
                    self.normal.note(Change.INDENTED, lines)
            message = standalone(turn.message) if turn.message is not None else None
            if message is not None:
                message.id = message.id or derived_id(len(self.made_from), message.role, message.content)
            self.add(turn.role, text, message)

    def add(self, role: str, text: str, message: Message | None = None) -> None:
        """Add a part of the text; without a message, it is read back as nothing."""
        self.text += formatted(role, text, self._last)
        self.made_from.append(message)
        self._last = role


def write_session(
    store: AiderStore, messages: Sequence[Message], project: str, title: str, key: str, note: str
) -> Written:
    """Write a new history of our own; it is read back, and removed if it is not what was written."""
    rendering = Rendering(messages)
    if note:
        rendering.add(USER, without_separators(note)[0])
    key = _free_key(store, key)
    path = _write(store, Head(key, os.path.realpath(project), title), rendering.text.encode("utf-8"))
    try:
        _verify(store, path, rendering)
    except BaseException:
        discard(store, key)
        raise
    return Written.of(rendering.normal, key, path)


def _verify(store: AiderStore, path: str, rendering: Rendering) -> None:
    transcript = store.transcript_at(path)
    section = store.section(transcript) if transcript is not None else None
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
    save_list(store.list_path(transcript.key), as_read, rendering.made_from)
    expected = [message for message in rendering.made_from if message is not None]
    reading = AiderReading(store, transcript)
    verify("Aider", expected, list(reading), reading.counts, same_message)


def adopt(store: AiderStore, key: str, project: str) -> str:
    """Return the path of our own history of a conversation; copy it there if it is still only in Aider's file."""
    path = store.own_path(key)
    if not os.path.lexists(path):
        found = next((found for found in store.transcripts(project) if found.key == key), None)
        section = store.section(found) if found is not None else None
        if section is None:
            raise NotFound(f"Aider has no conversation {key} in {project}", kept="nothing was started")
        _write(store, Head(key, os.path.realpath(project)), section.data)
    return path


def put_back(store: AiderStore, copy: str, project: str) -> str:
    """Restore a kept copy as a history of our own if the conversation was lost; return its id."""
    transcript = store.transcript_at(copy)
    section = store.section(transcript) if transcript is not None else None
    if section is None:
        raise DamagedData(f"{copy} is not a history of Aider", kept="nothing was changed")
    known = (found.key for found in (*store.transcripts(project), *store.transcripts()))
    if section.key not in known:
        head = section.head or Head(section.key, os.path.realpath(project))
        _write(store, head, section.data)
    return section.key


def discard(store: AiderStore, key: str) -> None:
    """Remove a history of our own, and the list of what we wrote into it."""
    for path in (store.own_path(key), store.list_path(key)):
        durable.remove(path)


def contents(section: Section) -> bytes:
    """Return a conversation as a file of its own."""
    return (head_line(section.head) if section.head is not None else b"") + section.data


def _write(store: AiderStore, head: Head, data: bytes) -> str:
    path = store.own_path(head.key)
    durable.ensure_folder(store.folder)
    durable.replace_file(path, [head_line(head), data])
    return path


def _free_key(store: AiderStore, wanted: str) -> str:
    """Return the wanted id if it is well-formed and free, else a new one."""
    if KEY.fullmatch(wanted) and wanted not in {found.key for found in store.transcripts()}:
        return wanted
    while True:
        key = f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:12]}"
        if not os.path.lexists(store.own_path(key)):
            return key
