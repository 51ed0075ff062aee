"""Write sessions into Continue's folder: a new one, or a lost one from our copy."""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Sequence

import msgspec

from cortext.errors import DamagedData, UnsafePath
from cortext.io import durable, new_files
from cortext.model.message import Message
from cortext.tools.base import Counts, Transcript, Written
from cortext.tools.continue_cli import session_list
from cortext.tools.continue_cli.read import UNTITLED, ContinueReading
from cortext.tools.continue_cli.records import head_of, items_of
from cortext.tools.continue_cli.render import Rendering, note_item
from cortext.tools.shared.verify import removed_unless_verified, same_message, verify

_KEY = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{7,63}")
_AHEAD = 60  # seconds


def write_session(
    folder: str, messages: Sequence[Message], project: str, title: str, key: str, note: str = ""
) -> Written:
    """Write a new session of this project; it is read back, and removed if it is not what was written."""
    rendering = Rendering(messages)
    key = _free_key(folder, key)
    path = path_of(folder, key)
    items = [*rendering.items, note_item(note)] if note else rendering.items
    document = {
        "sessionId": key,
        "title": title or UNTITLED,
        "workspaceDirectory": os.path.realpath(project),
        "history": items,
    }
    durable.ensure_folder(folder)
    session_list.load(folder)  # raises an error before anything is written
    durable.replace_file(path, [msgspec.json.format(msgspec.json.encode(document), indent=2)])
    with removed_unless_verified(path):
        reading = ContinueReading(Transcript(tool="", key=key, path=path))
        verify("Continue", rendering.expected, list(reading), reading.counts, same_message)
        session_list.add(folder, document)
    return Written.of(rendering.normal, key, path)


def path_of(folder: str, key: str) -> str:
    """Return the path of a session."""
    return os.path.join(folder, f"{key}.json")


def _free_key(folder: str, wanted: str) -> str:
    """Return the wanted id if it is free and well-formed, else a new one."""
    if _KEY.fullmatch(wanted) and not os.path.lexists(path_of(folder, wanted)):
        return wanted
    return str(uuid.uuid4())


def put_back(folder: str, copy: str) -> str:
    """Restore a kept copy byte for byte if Continue has lost the session; return the session's id."""
    head = head_of(copy)
    if head is None:
        raise DamagedData(f"{copy} is not a session of Continue", kept="nothing was changed")
    if not _KEY.fullmatch(head.key):
        raise UnsafePath(f"{copy} has a session id that cannot be a file name", kept="nothing was changed")
    path = path_of(folder, head.key)
    if not os.path.lexists(path):
        durable.ensure_folder(folder)
        session_list.load(folder)
        new_files.mirror_file(copy, path)
        items = [{"message": {"role": item.message.role}} for item in items_of(copy, Counts())]
        named = {"sessionId": head.key, "title": head.title or UNTITLED, "workspaceDirectory": head.folder}
        session_list.add(folder, {**named, "history": items})
    return head.key


def discard(folder: str, written: Written) -> None:
    """Remove a session that was never used, and its entry in the list."""
    if written.path:
        durable.remove(written.path)
        session_list.remove(folder, written.key)


def open_next(folder: str, key: str) -> None:
    """Make `cn --resume` open this session: it opens the one whose file changed last.

    The time is a little ahead, because another `cn` may save its own session while this one starts. `cn --fork ID`
    names the session, but continues it under a new id and without its title: the messages would come back as another
    conversation.
    """
    path = path_of(folder, key)
    if _KEY.fullmatch(key) and os.path.isfile(path):
        ahead = time.time() + _AHEAD
        os.utime(path, (ahead, ahead))
