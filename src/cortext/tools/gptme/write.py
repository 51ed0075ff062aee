"""Write sessions into gptme's own store: a new one, or a lost one from our copy."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Sequence

import msgspec

from cortext.errors import DamagedData, UnsafePath
from cortext.io import durable
from cortext.io.new_files import mirror_file
from cortext.model.message import Message
from cortext.tools.base import Written
from cortext.tools.gptme.read import GptmeReading
from cortext.tools.gptme.render import Rendering
from cortext.tools.gptme.store import KEY, LOG, SETTINGS, GptmeStore, folder_of
from cortext.tools.shared.installer import toml_string
from cortext.tools.shared.verify import same_message, verify

REAL_CALLS = "tool"  # the tool format in which gptme sends calls as calls


def write_session(
    store: GptmeStore, messages: Sequence[Message], project: str, title: str, key: str, note: str, tool_format: str
) -> Written:
    """Write a new session of this project; it is read back, and removed if it is not what was written."""
    rendering = Rendering(messages, real_calls=tool_format == REAL_CALLS)
    if note:
        rendering.add_note(note)
    key = _free_key(store, key)
    folder = store.folder(key)
    path = os.path.join(folder, LOG)
    durable.ensure_folder(folder)
    try:
        settings = {"name": title, "tool_format": tool_format, "workspace": os.path.realpath(project)}
        lines = [f"{name} = {toml_string(value)}\n" for name, value in settings.items() if value]
        durable.replace_file(os.path.join(folder, SETTINGS), [b"[chat]\n", "".join(lines).encode("utf-8")])
        durable.replace_file(path, (msgspec.json.encode(record) + b"\n" for record in rendering.records))
        _verify(store, path, rendering)
    except BaseException:
        durable.remove_tree(folder)
        raise
    return Written.of(rendering.normal, key, path)


def _free_key(store: GptmeStore, wanted: str) -> str:
    """Return the wanted id if it is well-formed and free, else a new one."""
    if KEY.fullmatch(wanted) and not os.path.lexists(store.folder(wanted)):
        return wanted
    while True:
        key = f"{time.strftime('%Y-%m-%d')}-{uuid.uuid4().hex[:16]}"
        if not os.path.lexists(store.folder(key)):
            return key


def _verify(store: GptmeStore, path: str, rendering: Rendering) -> None:
    if not rendering.records:
        return
    transcript = store.transcript_at(path)
    if transcript is None:
        raise DamagedData(f"{path} is not a transcript of gptme", kept="the conversation; the file was removed")
    reading = GptmeReading(transcript, None)
    verify("gptme", rendering.expected, list(reading), reading.counts, same_message)


def put_back(store: GptmeStore, copy: str) -> str:
    """Restore a kept copy byte for byte if gptme has lost the session; return the session's id."""
    found = store.transcript_at(copy)
    if found is None:
        raise DamagedData(f"{copy} is not a transcript of gptme", kept="nothing was changed")
    if not KEY.fullmatch(found.key):
        raise UnsafePath(f"{copy} has a session id that cannot be a file name", kept="nothing was changed")
    folder, beside = store.folder(found.key), folder_of(copy)
    if not os.path.lexists(os.path.join(folder, LOG)):
        durable.ensure_folder(folder)
        sources = [(os.path.join(beside, name), name) for name in os.listdir(beside)]
        for source, name in (*sources, (copy, LOG)):
            if not os.path.lexists(os.path.join(folder, name)):
                mirror_file(source, os.path.join(folder, name))
    return found.key
