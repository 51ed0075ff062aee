"""Write a native session: generate a document, let OpenCode import it, and read it back.

The database belongs to OpenCode, so we never write to it. An import over an existing session would add to it, so it is
refused. A session whose import fails, or that is not read back as it was written, is deleted.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from cortext.errors import DamagedData, SessionExists, UsageError, WriteFailed
from cortext.io import durable
from cortext.model import clock
from cortext.model.ids import slug
from cortext.model.message import ASSISTANT, USER, Message, Picture
from cortext.model.turns import whole_characters
from cortext.tools.base import Transcript, Written
from cortext.tools.opencode.mark import MARK
from cortext.tools.opencode.messages import Moments
from cortext.tools.opencode.program import TESTED_VERSION, Program
from cortext.tools.opencode.read import DatabaseReading
from cortext.tools.opencode.render import NativeMessage, NativePart, Rendering, Signature, signature
from cortext.tools.opencode.start import Model
from cortext.tools.opencode.store import exists
from cortext.tools.shared.verify import verify

IMPORT_SECONDS = 300.0
DELETE_SECONDS = 60.0
_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID_BITS = 48
_LONGEST_TITLE = 100


def new_key() -> str:
    """Return a new session id, which sorts before older ones, as OpenCode's own ids do."""
    moment = ~(int(time.time() * 1000) << 12) & ((1 << _ID_BITS) - 1)
    return f"ses_{moment:012x}{_letters(os.urandom(16))}"


def write_session(
    program: Program, database: str, messages: Sequence[Message], *, project: str, title: str, key: str, model: Model
) -> Written:
    """Write a new session with these messages."""
    rendering = Rendering(messages)
    if not rendering.native:
        raise UsageError("nothing to write: every message is empty", kept="nothing was changed")
    if exists(database, key):
        raise SessionExists(f"OpenCode already has a session {key}", kept="it is unchanged")
    title = whole_characters(title).strip() or _title_from(messages)
    import_document(program, document(rendering, key, title[:_LONGEST_TITLE], project, model), key, project=project)
    try:
        _verify(database, key, rendering)
    except DamagedData:
        delete(program, key, project=project)
        raise
    return Written.of(rendering.normal, key, database)


def write_empty(program: Program, database: str, *, project: str, title: str, key: str) -> Written:
    """Write a new session without messages."""
    title = whole_characters(title).strip()[:_LONGEST_TITLE] or "A new conversation"
    import_document(program, document(Rendering([]), key, title, project, Model("", "")), key, project=project)
    return Written(key=key, path=database, messages=0, tool_calls=0)


def import_document(program: Program, blocks: Iterator[bytes], key: str, *, project: str) -> None:
    """Let OpenCode import a document; if that fails, delete what was imported."""
    folder = tempfile.mkdtemp(prefix="cortext-", dir=program.environ.get("TMPDIR") or None)
    try:
        path = os.path.join(folder, "session.json")
        durable.replace_file(path, blocks)
        code, printed = program.run(["import", path], cwd=project, seconds=IMPORT_SECONDS)
        if code != 0 or f"Imported session: {key}" not in printed:
            raise WriteFailed(
                f"OpenCode did not import the session: {printed[-400:] or f'exit status {code}'}",
                kept="the conversation, in our store",
                hint="resume it with --print, and report this error",
            )
    except WriteFailed:
        delete(program, key, project=project)
        raise
    finally:
        durable.remove_tree(folder)


def delete(program: Program, key: str, *, project: str) -> None:
    """Delete a session."""
    program.run(["session", "delete", key], cwd=project, seconds=DELETE_SECONDS)


# ── the document ─────────────────────────────────────────────────────────────────────────────────────


def document(rendering: Rendering, key: str, title: str, project: str, model: Model) -> Iterator[bytes]:
    """Yield the document for `opencode import`, one message per line."""
    now = int(time.time() * 1000)
    total = sum(1 + sum(1 + (part.picture is not None) for part in message.parts) for message in rendering.native)
    # OpenCode sorts by id: ours are in the order of the conversation, and before those that it will assign next.
    # They come from the current time, not from the messages' times, because the ids wrap around every two years.
    numbers = iter(range((now << 12) - total, now << 12))
    times = _times(rendering.native, now)
    info = {
        "id": key,
        "slug": slug(title) or "conversation",
        "title": title,
        "version": TESTED_VERSION,
        "time": {"created": times[0] if times else now, "updated": now},
    }
    yield msgspec.json.encode({"info": info})[:-1] + b',"messages":[\n'
    moment = Moments()
    user = ""
    for index, (message, created) in enumerate(zip(rendering.native, times, strict=True)):
        identity = _identity("msg_", next(numbers), message.of.id if message.of is not None else "")
        if message.role == USER:
            user = identity
        record = {"id": identity, "sessionID": key, **_message_info(message, created, user, project, model)}
        stamp = message.of.timestamp if message.of is not None else ""
        parts = []
        for number, part in enumerate(message.parts):
            if stamp != moment(created) and not part.mark.added:
                part.mark.timestamp = stamp
            owner = f"{message.of.id if message.of is not None else ''}/{number}"
            ids = {"id": _identity("prt_", next(numbers), owner), "sessionID": key, "messageID": identity}
            parts.append({**ids, **_part(part, created)})
            if part.picture is not None:
                ids["id"] = _identity("prt_", next(numbers), f"{owner}/image")
                parts.append({**ids, **_image(part.picture)})
        yield (b",\n" if index else b"") + msgspec.json.encode({"info": record, "parts": parts})
    yield b"\n]}\n"


def _message_info(message: NativeMessage, created: int, user: str, project: str, model: Model) -> dict[str, Any]:
    if message.role == USER:
        chosen = {"providerID": model.provider, "modelID": model.name}
        return {"role": USER, "time": {"created": created}, "agent": model.agent, "model": chosen}
    provider, name, output = "", "", 0
    if message.of is not None:
        provider, slash, name = message.of.model.partition("/")
        provider, name = (provider, name) if slash else ("", provider)
        output = message.of.tokens or 0
    return {
        "role": ASSISTANT,
        "parentID": user,
        "mode": model.agent,
        "agent": model.agent,
        "path": {"cwd": project, "root": project},
        "cost": 0,
        "tokens": {"input": 0, "output": output, "reasoning": 0, "cache": {"read": 0, "write": 0}},
        "providerID": whole_characters(provider),
        "modelID": whole_characters(name),
        "time": {"created": created, "completed": created},
        "finish": "tool-calls" if any(part.tool for part in message.parts) else "stop",
    }


def _part(part: NativePart, created: int) -> dict[str, Any]:
    mark = {MARK: part.mark}
    if not part.tool:
        return {"type": "text", "text": part.text, "metadata": mark}
    state: dict[str, Any] = {"input": part.input, "metadata": mark, "time": {"start": created, "end": created}}
    if part.failed:
        state |= {"status": "error", "error": part.output}
    else:
        state |= {"status": "completed", "output": part.output, "title": part.tool}
    return {"type": "tool", "tool": part.tool, "callID": part.call, "state": state}


def _image(picture: Picture) -> dict[str, Any]:
    name = picture.name or f"image.{picture.kind.partition('/')[2]}"
    url = f"data:{picture.kind};base64,{picture.base64}"
    return {"type": "file", "mime": picture.kind, "filename": os.path.basename(name), "url": url}


def _times(messages: Sequence[NativeMessage], now: int) -> list[int]:
    """Return the time of each message in milliseconds: never before the previous one, and not in the future."""
    times: list[int] = []
    earliest = 1
    for message in messages:
        seconds = clock.to_epoch(message.of.timestamp) if message.of is not None and message.of.timestamp else None
        earliest = max(earliest, min(round(seconds * 1000), now) if seconds is not None else earliest)
        times.append(earliest)
    return times


def _identity(prefix: str, number: int, owner: str) -> str:
    """Return an id in OpenCode's format; its letters depend only on `owner`."""
    digest = hashlib.blake2b(owner.encode("utf-8", "replace"), digest_size=16).digest()
    return f"{prefix}{number & ((1 << _ID_BITS) - 1):012x}{_letters(digest)}"


def _letters(data: bytes) -> str:
    number = int.from_bytes(data, "big")
    letters = ""
    for _ in range(14):
        number, digit = divmod(number, len(_LETTERS))
        letters += _LETTERS[digit]
    return letters


def _title_from(messages: Sequence[Message]) -> str:
    text = next((message.text for message in messages if message.role == USER and message.text.strip()), "")
    return whole_characters(" ".join(text.split())[:60]) or "A continued conversation"


# ── verification ─────────────────────────────────────────────────────────────────────────────────────


def _verify(database: str, key: str, rendering: Rendering) -> None:
    """Read the session back; DamagedData unless it has the same messages, in the same order."""
    reading = DatabaseReading(Transcript(tool="", key=key, path=database))
    verify("OpenCode", rendering.expected, map(signature, reading), reading.counts, _same)


def _same(want: Signature, got: Signature) -> bool:
    # A message without an id gets one of OpenCode's.
    return (want[0], want[1] or got[1], want[2]) == got
