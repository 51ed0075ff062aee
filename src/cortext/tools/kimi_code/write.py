"""Write sessions into Kimi Code's own store: a new one, or a lost one from our copy.

A session needs no `profile.bind`: Kimi Code binds one without it to the profile, the model and the system prompt of a
new session, so that the user's current provider is used. (Only `kimi -p` has to be told the model then, with `-m`.)
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Sequence

import msgspec

from cortext.errors import DamagedData, UnsafePath
from cortext.io import durable
from cortext.model.message import Message
from cortext.tools.base import Written
from cortext.tools.kimi_code import store as files
from cortext.tools.kimi_code.read import KimiReading
from cortext.tools.kimi_code.render import Rendering, note_record
from cortext.tools.kimi_code.store import KEY, KimiStore, log_in, transcript_at
from cortext.tools.shared.verify import same_message, verify

_PROTOCOL = "1.5"


def write_session(
    store: KimiStore, messages: Sequence[Message], project: str, title: str, key: str, note: str = ""
) -> Written:
    """Write a new session of this project; it is read back, and removed if it is not what was written."""
    now = int(time.time() * 1000)
    rendering = Rendering(messages, now)
    if not KEY.fullmatch(key) or store.find(key):
        key = f"session_{uuid.uuid4()}"
    folder = store.folder_for(project, key)
    log = log_in(folder)
    records = [
        {"type": "metadata", "protocol_version": _PROTOCOL, "created_at": now},
        *rendering.records,
        *([note_record(note, now)] if note else []),
    ]
    durable.ensure_folder(os.path.dirname(log))
    try:
        durable.replace_file(log, (msgspec.json.encode(record) + b"\n" for record in records))
        durable.replace_file(os.path.join(folder, "state.json"), [_state(key, project, title, folder, now)])
        transcript = transcript_at(log)
        if transcript is None:
            raise DamagedData(f"{log} is not a session of Kimi Code", kept="the conversation; the file was removed")
        reading = KimiReading(transcript, None, files.state_of(log), {})
        verify("Kimi Code", rendering.expected, list(reading), reading.counts, same_message)
    except BaseException:
        durable.remove_tree(folder)
        raise
    return Written.of(rendering.normal, key, log)


def _state(key: str, project: str, title: str, folder: str, now: int) -> bytes:
    main = {"homedir": os.path.join(folder, "agents", "main"), "type": "main"}
    state = {"id": key, "version": 2, "cwd": os.path.realpath(project), "archived": False, "agents": {"main": main}}
    named = {"title": title, "titleKind": "custom"} if title else {}
    rest = {"custom": {}, "createdAt": now, "updatedAt": now, "isCustomTitle": bool(title)}
    return msgspec.json.encode({**state, **named, **rest})


def put_back(store: KimiStore, copy: str, project: str) -> str:
    """Restore a kept copy byte for byte if Kimi Code has lost the session; return the session's id."""
    found = transcript_at(copy)
    if found is None:
        raise DamagedData(f"{copy} is not a session of Kimi Code", kept="nothing was changed")
    if not KEY.fullmatch(found.key):
        raise UnsafePath(f"{copy} has a session id that cannot be a file name", kept="nothing was changed")
    if not store.find(found.key):
        files.put_back(copy, store.folder_for(found.project or project, found.key))
    return found.key


def discard(written: Written) -> None:
    """Remove the folder of a session that was never used."""
    folder = os.path.dirname(os.path.dirname(os.path.dirname(written.path)))
    if written.path and KEY.fullmatch(os.path.basename(folder)):
        durable.remove_tree(folder)
        workspace = os.path.dirname(folder)
        if not os.listdir(workspace):
            durable.remove_tree(workspace)
