"""Writes a native session of Claude Code, never over an existing one, and verifies it by reading it back.

Each record has a field of our own that names the message it was made from, so that a conversation comes back with its
original ids. Claude Code keeps unknown fields, and copies them when it forks a session.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Sequence

import msgspec

from cortext.io import durable
from cortext.model import clock
from cortext.model.message import ASSISTANT, USER, Message
from cortext.model.tokens import estimate
from cortext.tools.base import About, Counts, Transcript, Written
from cortext.tools.claude_code.messages import MessageBuilder
from cortext.tools.claude_code.read import ClaudeReading
from cortext.tools.claude_code.records import SYNTHETIC, Block, Record, decoder
from cortext.tools.claude_code.render import Json, Rendered, Rendering
from cortext.tools.shared.lines import ForeignLines
from cortext.tools.shared.mark import Mark
from cortext.tools.shared.verify import encode, removed_unless_verified, same_message, unfaithful, verify

_TITLE = "Claude Code"
_NAMES = uuid.UUID("6f0d7c0e-52a4-5c35-9a61-0c4d0e1c7a11")


def write_session(
    path: str,
    messages: Sequence[Message],
    *,
    key: str,
    project: str,
    title: str,
    model: str,
    version: str,
    note: str = "",
) -> Written:
    """Write the session and read it back; remove it and raise DamagedData if a message differs."""
    rendering = Rendering(messages)
    if note:
        rendering.records.append(Rendered(USER, [{"type": "text", "text": note}], None))
    common: Json = {"isSidechain": False, "userType": "external", "cwd": project, "sessionId": key}
    common |= {"version": version, "gitBranch": ""}
    durable.ensure_folder(os.path.dirname(path))
    durable.replace_file(path, _lines(rendering, common, title, model))
    with removed_unless_verified(path):
        _verify(path, key, rendering)
    return Written.of(rendering.normal, key, path)


def _lines(rendering: Rendering, common: Json, title: str, model: str) -> Iterator[bytes]:
    parent: str | None = None
    stamp, answer = "", ""
    used: set[str] = set()
    size = 0
    now = clock.now()
    for number, turn in enumerate(rendering.records):
        identity = _record_id(turn, number, parent, used)
        time = clock.normalise(turn.message.timestamp) if turn.message else ""
        stamp = max(stamp, time) or now  # never decreasing: Claude Code finds the newest record by its time
        answer = (answer or "msg_" + identity.replace("-", "")[:24]) if turn.role == ASSISTANT else ""
        tokens = estimate("".join(_text(block) for block in turn.blocks))
        body = _assistant(turn, answer, model, size, tokens) if answer else _user(turn)
        size += tokens
        record: Json = {"parentUuid": parent, **common, "type": turn.role, "message": body}
        record |= {"uuid": identity, "timestamp": stamp, "cortext": _mark(turn, stamp)}
        yield encode(record) + b"\n"
        parent = identity
    if title:
        yield encode({"type": "custom-title", "customTitle": title, "sessionId": common["sessionId"]}) + b"\n"


def _record_id(turn: Rendered, number: int, parent: str | None, used: set[str]) -> str:
    """Return the record's id, always the same for the same message."""
    name = turn.message.id if turn.message and turn.message.id else f"{parent} {number}"
    identity = str(uuid.uuid5(_NAMES, name.encode("utf-8", "replace").decode("utf-8")))
    if identity in used:
        identity = str(uuid.uuid5(_NAMES, f"{identity} {number}"))
    used.add(identity)
    return identity


def _user(turn: Rendered) -> Json:
    blocks = turn.blocks
    is_plain_text = len(blocks) == 1 and blocks[0]["type"] == "text"
    return {"role": "user", "content": blocks[0]["text"] if is_plain_text else blocks}


def _assistant(turn: Rendered, answer: str, model: str, before: int, tokens: int) -> Json:
    calls = any(block["type"] == "tool_use" for block in turn.blocks)
    # From the usage, Claude Code computes how full the context is.
    usage = {"input_tokens": before, "output_tokens": tokens}
    usage |= {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    return {
        "id": answer,
        "type": "message",
        "role": "assistant",
        "model": _model(turn, model),
        "content": turn.blocks,
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": usage,
    }


def _model(turn: Rendered, model: str) -> str:
    """Return the model to record. Never empty: one version of Claude Code hung on that.

    A resume restores a Claude model, and warns that it cannot restore any other, except for SYNTHETIC.
    """
    name = (turn.message.model if turn.message else "") or model
    return name if name.startswith("claude-") else SYNTHETIC


def _mark(turn: Rendered, stamp: str) -> Json:
    """Return our field. The mark has to contain a message that reading the turn's blocks would not give."""
    builder = MessageBuilder("", About(), Counts(), aside=False)
    typed = msgspec.convert(turn.blocks, list[Block | str])
    literal = builder.literal(Record(timestamp=stamp), typed, turn.role)
    fields: Json = msgspec.to_builtins(Mark.made_from(turn.message, literal))
    return fields


def _text(block: Json) -> str:
    if block["type"] == "tool_use":
        return json.dumps(block["input"], ensure_ascii=False)
    return str(block.get("text") or block.get("content") or "")


# ── reading it back ──────────────────────────────────────────────────────────────────────────────────


def _verify(path: str, key: str, rendering: Rendering) -> None:
    """Check that all messages come back unchanged and in order, and that every tool call is answered at once."""
    reading = ClaudeReading(Transcript(tool="claude", key=key, path=path))
    expected = [turn.message for turn in rendering.records if turn.message is not None]
    verify(_TITLE, expected, reading, reading.counts, same_message)
    _verify_native(path, rendering)


def _verify_native(path: str, rendering: Rendering) -> None:
    """Check what Claude Code reads, without our field: one chain of turns, each call followed by its result."""
    lines = ForeignLines(path, 0, Counts())
    parent: str | None = None
    waiting: set[str] = set()
    turns = iter(rendering.records)
    for line in lines:
        for record in lines.decode(line, decoder, Record):
            if record.type == "custom-title":
                continue
            turn = next(turns, None)
            content = record.message.content if record.message else None
            blocks = [block for block in content if isinstance(block, Block)] if isinstance(content, list) else []
            calls = {block.id or "" for block in blocks if block.type == "tool_use"}
            results = {block.tool_use_id or "" for block in blocks if block.type == "tool_result"}
            texts = [content] if isinstance(content, str) else [item.text for item in blocks if item.type == "text"]
            if turn is None or record.parentUuid != parent or record.type != turn.role:
                raise unfaithful(_TITLE, "the turns do not form one chain")
            if texts != [block["text"] for block in turn.blocks if block["type"] == "text"]:
                raise unfaithful(_TITLE, "a text differs from what was written")
            if results - waiting or (record.type == "user" and texts and waiting - results):
                raise unfaithful(_TITLE, "a tool result does not follow its call")
            waiting = (waiting - results) | calls
            parent = record.uuid
    if waiting or next(turns, None) is not None:
        raise unfaithful(_TITLE, "turns are missing at the end")
