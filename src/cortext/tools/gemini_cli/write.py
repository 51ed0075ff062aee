"""Putting a session into Gemini CLI's own store: a new one, or one that the program lost, from our copy."""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Iterator, Sequence

import msgspec

from cortext.errors import DamagedData, SessionExists, UnsafePath
from cortext.io import batch as newfiles
from cortext.io import files as fsio
from cortext.model import clock
from cortext.model.message import Message
from cortext.tools.base import Written
from cortext.tools.gemini_cli.read import GeminiReading, is_document
from cortext.tools.gemini_cli.render import Rendering
from cortext.tools.gemini_cli.store import GeminiStore, has_messages, look_at, project_hash
from cortext.tools.shared.verify import removed_unless_verified, same_message, verify

# As the program's own ids; a number alone would be taken for a place in its list.
_KEY = re.compile(r"(?![0-9]+$)[0-9A-Za-z]{8}[0-9A-Za-z-]{0,56}")
_BLOCK = 1 << 20


def write_session(
    store: GeminiStore, messages: Sequence[Message], project: str, title: str, key: str, note: str = ""
) -> Written:
    """A new session of this project with these messages; read back, and taken away again where it is not right."""
    project = os.path.realpath(project)
    done = Rendering(messages)
    chats = os.path.join(store.chats_root, store.slug_for(project), "chats")
    key = _free_key(store, chats, key)
    # Named for this minute: resumed within it, the program makes no second file, and so deletes none later.
    path = os.path.join(chats, f"session-{time.strftime('%Y-%m-%dT%H-%M', time.gmtime())}-{key[:8]}.jsonl")
    if os.path.lexists(path):
        raise SessionExists(f"{path} is there already", kept="it is unchanged", hint="try again in a minute")
    fsio.ensure_folder(chats)
    if note:
        # Read back as what it is: our own block, and no message.
        word = f"Resumed:\n{note}" if note.lstrip().startswith(("/", "?")) else note  # else a command to the program
        now = clock.now()
        done.records.append({"id": str(uuid.uuid4()), "timestamp": now, "type": "user", "content": [{"text": word}]})
    fsio.replace_file(path, _lines(done, key, project, title))
    with removed_unless_verified(path):
        _verify(store, path, done)
    return Written.of(done.normal, key, path)


def _free_key(store: GeminiStore, chats: str, wanted: str) -> str:
    """The wanted id where it is free and of the right form, else a new one.

    The first eight characters must be free, too: the program deletes by them.
    """
    if _KEY.fullmatch(wanted) and not any(store.files(chats, wanted[:8])):
        return wanted
    while True:
        key = str(uuid.uuid4())
        if not any(store.files(chats, key[:8])):
            return key


def _lines(done: Rendering, key: str, project: str, title: str) -> Iterator[bytes]:
    now = clock.now()
    opening = {"sessionId": key, "projectHash": project_hash(project), "startTime": now, "lastUpdated": now}
    if title:
        opening["summary"] = title
    yield _line({**opening, "kind": "main"})
    for record in done.records:
        yield _line(record)


def _line(record: dict[str, object]) -> bytes:
    # Bare, these two would end the line for the program; they stand only in strings, so they may be escaped.
    data = msgspec.json.encode(record).replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    return data + b"\n"


def _verify(store: GeminiStore, path: str, done: Rendering) -> None:
    transcript = store.transcript_at(path)
    if transcript is None:
        raise DamagedData(f"{path} is not a transcript of Gemini CLI", kept="it was removed again")
    reading = GeminiReading(transcript, None, [])
    found = [message for message in reading if not (message.extra and message.extra.get("resume_block"))]
    verify("Gemini CLI", done.expected, found, reading.counts, same_message)


# ── from a copy ──────────────────────────────────────────────────────────────────────────────────────


def put_back(store: GeminiStore, copy: str, project: str) -> str:
    """A kept copy into the store again, byte for byte, where the program has lost the session; its id."""
    head = look_at(copy)
    if head is None:
        raise DamagedData(f"{copy} is not a transcript of Gemini CLI", kept="nothing was changed")
    if not _KEY.fullmatch(head.key):
        raise UnsafePath(f"{copy} has a session id that cannot be a file name", kept="nothing was changed")
    project = os.path.realpath(project)
    chats = os.path.join(store.chats_root, store.slug_for(project), "chats")
    for path, found in store.files(chats, head.key[:8]):
        if found.key == head.key and has_messages(path):
            return head.key  # it is still there
    started = clock.to_epoch(_start_of(copy)) or os.stat(copy).st_mtime
    minute = time.strftime("%Y-%m-%dT%H-%M", time.gmtime(started))
    ending = "json" if is_document(copy) else "jsonl"
    path = os.path.join(chats, f"session-{minute}-{head.key[:8]}.{ending}")
    if os.path.lexists(path):
        # A stub of that very minute: the program's file stays as it is, ours goes beside it.
        path = os.path.join(chats, f"session-{minute}-00-{head.key[:8]}.{ending}")
    mirror(store, copy, path, head.key)
    return head.key


def mirror(store: GeminiStore, source: str, target: str, key: str, later: newfiles.Later | None = None) -> None:
    """Make a transcript and those of its side agents the same as others; only what is new is copied."""
    newfiles.ensure_folder(os.path.dirname(target), later)
    newfiles.mirror_file(source, target, later)
    for path in store.agents(source, key):
        copy = os.path.join(store.agents_folder(target, key), os.path.basename(path))
        newfiles.ensure_folder(os.path.dirname(copy), later)
        newfiles.mirror_file(path, copy, later)


def _start_of(path: str) -> str:
    """When a session began, by its first data."""
    with open(path, "rb", opener=fsio.plain_file) as file:
        first = file.readline(_BLOCK)
        if first.strip() == b"{":
            first = first + file.read(_BLOCK)
    match = re.search(rb'"startTime"\s*:\s*"([^"]{10,40})"', first)
    return match[1].decode("ascii", "replace") if match else ""
