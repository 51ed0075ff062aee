"""Write sessions into Gemini CLI's own store: a new one, or a lost one from our copy."""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Iterator, Sequence

import msgspec

from cortext.errors import DamagedData, SessionExists, UnsafePath
from cortext.io import durable, new_files
from cortext.model import clock
from cortext.model.message import Message
from cortext.tools.base import Written
from cortext.tools.gemini_cli.read import GeminiReading, is_document
from cortext.tools.gemini_cli.render import Rendering
from cortext.tools.gemini_cli.store import GeminiStore, has_messages, project_hash, read_head
from cortext.tools.shared.lines import one_line_each
from cortext.tools.shared.verify import removed_unless_verified, same_message, verify

# The form of Gemini CLI's own ids. An id of digits only would be taken for an index in its list of sessions.
_KEY = re.compile(r"(?![0-9]+$)[0-9A-Za-z]{8}[0-9A-Za-z-]{0,56}")
_BLOCK = 1 << 20


def write_session(
    store: GeminiStore, messages: Sequence[Message], project: str, title: str, key: str, note: str = ""
) -> Written:
    """Write a new session of this project; it is read back, and removed if it is not what was written."""
    project = os.path.realpath(project)
    rendering = Rendering(messages)
    chats = os.path.join(store.chats_root, store.slug_for(project), "chats")
    key = _free_key(store, chats, key)
    # Named for the current minute: Gemini CLI creates no stub if the session is resumed in the same minute.
    path = os.path.join(chats, f"session-{time.strftime('%Y-%m-%dT%H-%M', time.gmtime())}-{key[:8]}.jsonl")
    if os.path.lexists(path):
        raise SessionExists(f"{path} already exists", kept="it is unchanged", hint="try again in a minute")
    durable.ensure_folder(chats)
    if note:
        # Reading recognises it as our resume block. Text in front keeps Gemini CLI from dropping it as a command.
        text = f"Resumed:\n{note}" if note.lstrip().startswith(("/", "?")) else note
        now = clock.now()
        rendering.records.append(
            {"id": str(uuid.uuid4()), "timestamp": now, "type": "user", "content": [{"text": text}]}
        )
    durable.replace_file(path, _lines(rendering, key, project, title))
    with removed_unless_verified(path):
        _verify(store, path, rendering)
    return Written.of(rendering.normal, key, path)


def _free_key(store: GeminiStore, chats: str, wanted: str) -> str:
    """Return the wanted id if it is free and well-formed, else a new one.

    Its first eight characters must be unused, too: Gemini CLI deletes files by them.
    """
    if _KEY.fullmatch(wanted) and not any(store.files(chats, wanted[:8])):
        return wanted
    while True:
        key = str(uuid.uuid4())
        if not any(store.files(chats, key[:8])):
            return key


def _lines(rendering: Rendering, key: str, project: str, title: str) -> Iterator[bytes]:
    now = clock.now()
    opening = {"sessionId": key, "projectHash": project_hash(project), "startTime": now, "lastUpdated": now}
    if title:
        opening["summary"] = title
    yield _line({**opening, "kind": "main"})
    for record in rendering.records:
        yield _line(record)


def _line(record: dict[str, object]) -> bytes:
    return one_line_each(msgspec.json.encode(record)) + b"\n"


def _verify(store: GeminiStore, path: str, rendering: Rendering) -> None:
    transcript = store.transcript_at(path)
    if transcript is None:
        raise DamagedData(f"{path} is not a transcript of Gemini CLI", kept="the conversation; the file was removed")
    reading = GeminiReading(transcript, None, [])
    found = [message for message in reading if not (message.extra and message.extra.get("resume_block"))]
    verify("Gemini CLI", rendering.expected, found, reading.counts, same_message)


# ── from a copy ──────────────────────────────────────────────────────────────────────────────────────


def put_back(store: GeminiStore, copy: str, project: str) -> str:
    """Restore a kept copy byte for byte if Gemini CLI has lost the session; return the session's id."""
    head = read_head(copy)
    if head is None:
        raise DamagedData(f"{copy} is not a transcript of Gemini CLI", kept="nothing was changed")
    if not _KEY.fullmatch(head.key):
        raise UnsafePath(f"{copy} has a session id that cannot be a file name", kept="nothing was changed")
    project = os.path.realpath(project)
    chats = os.path.join(store.chats_root, store.slug_for(project), "chats")
    for path, found in store.files(chats, head.key[:8]):
        if found.key == head.key and has_messages(path):
            return head.key  # nothing was lost
    started = clock.to_epoch(_start_of(copy)) or os.stat(copy).st_mtime
    minute = time.strftime("%Y-%m-%dT%H-%M", time.gmtime(started))
    ending = "json" if is_document(copy) else "jsonl"
    path = os.path.join(chats, f"session-{minute}-{head.key[:8]}.{ending}")
    if os.path.lexists(path):
        # A stub of the same minute: leave Gemini CLI's file as it is, and write ours beside it.
        path = os.path.join(chats, f"session-{minute}-00-{head.key[:8]}.{ending}")
    mirror(store, copy, path, head.key)
    return head.key


def mirror(store: GeminiStore, source: str, target: str, key: str, later: new_files.Later | None = None) -> None:
    """Copy a transcript and those of its side agents; of a copy that exists, only what is new."""
    new_files.ensure_folder(os.path.dirname(target), later)
    new_files.mirror_file(source, target, later)
    for path in store.agents(source, key):
        copy = os.path.join(store.agents_folder(target, key), os.path.basename(path))
        new_files.ensure_folder(os.path.dirname(copy), later)
        new_files.mirror_file(path, copy, later)


def _start_of(path: str) -> str:
    """Return when a session started, by its metadata; empty if unknown."""
    with open(path, "rb", opener=durable.plain_file) as file:
        first = file.readline(_BLOCK)
        if first.strip() == b"{":
            first = first + file.read(_BLOCK)
    match = re.search(rb'"startTime"\s*:\s*"([^"]{10,40})"', first)
    return match[1].decode("ascii", "replace") if match else ""
