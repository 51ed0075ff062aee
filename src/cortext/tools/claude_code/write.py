"""Writes a native session of Claude Code, never over an existing one, and verifies it by reading it back.

Each record has a field of our own that names the message it was made from, so that a conversation comes back with its
original ids. Claude Code keeps unknown fields, and copies them when it forks a session.

How Claude Code treats a session that it did not write (tested with 2.1.325): it joins the assistant's records by
`message.id`, so consecutive assistant messages share one; it drops a tool result that does not follow its call, and an
assistant's text "(no content)". The model's API rejects an error without text.

When it resumes a session, it follows parents back from the last record. The record of a compaction has no parent, so it
stops there, and its summary replaces everything before.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from cortext.errors import NotFound
from cortext.io import durable, new_files
from cortext.model import clock, turns
from cortext.model.message import ASSISTANT, TOOL, USER, Message
from cortext.model.tokens import estimate
from cortext.model.turns import Call, Difference, Image, Result, Turns
from cortext.tools.base import About, Counts, Launch, Messages, Transcript, Withheld, Written
from cortext.tools.claude_code.adapter import ClaudeCode
from cortext.tools.claude_code.live import interactive
from cortext.tools.claude_code.messages import SYNTHETIC, Block, MessageBuilder, Record, decoder
from cortext.tools.claude_code.read import ClaudeReading
from cortext.tools.claude_code.store import ClaudeStore, mirror_companions, session_in
from cortext.tools.shared.folders import is_uuid
from cortext.tools.shared.lines import ForeignLines
from cortext.tools.shared.native import (
    Mark,
    encode,
    record_id,
    removed_unless_verified,
    same_message,
    unfaithful,
    verify,
)
from cortext.tools.shared.parts import FileWriter
from cortext.tools.shared.program import with_options

Json = dict[str, Any]

_DROPPED = "(no content)"
_EMPTY_ERROR = "[error without a message]"
_TITLE = "Claude Code"
_NAMES = uuid.UUID("6f0d7c0e-52a4-5c35-9a61-0c4d0e1c7a11")
BEFORE = "message before the tool's own compaction (the model gets the tool's summary instead)"


class ClaudeWriter(FileWriter[ClaudeCode]):
    """Writes sessions, and says how Claude Code is started with one."""

    def __init__(self, tool: ClaudeCode) -> None:
        super().__init__(tool)
        self.store = ClaudeStore(tool)

    def put_back(self, copy: str, *, project: str) -> str:
        """Restore a copy, unless Claude Code still has that session; return the session's id."""
        key = session_in(copy)
        if not key:
            raise NotFound(f"not a transcript of {self.tool.title}: {copy}", kept="nothing was changed")
        if self.store.path_of(key) is None:
            target = self.store.new_path(key, project)
            durable.ensure_folder(os.path.dirname(target))
            new_files.mirror_file(copy, target)
            mirror_companions(copy, target)
        return key

    def withheld(self, transcript: Transcript) -> Withheld:
        """Return the messages before the last compaction on the branch of the newest record."""
        lines = ForeignLines(transcript.path, 0, Counts())
        links = [link for line in lines for link in lines.decode(line, _links, _Link)]
        indices = {link.uuid: index for index, link in enumerate(links) if link.uuid}
        conversation = [link for link in links if link.type in ("user", "assistant") and not link.isSidechain]
        compaction = _last_compaction(links, indices, conversation[-1]) if conversation else None
        if compaction is None:
            return Withheld()
        kept = _preserved(links, indices, links[compaction])
        before = {
            name
            for link in links[:compaction]
            if link.uuid and link.uuid not in kept
            for name in (link.uuid, link.cortext.id if link.cortext else "")
            if name
        }
        return Withheld(messages={BEFORE: before})

    def preview(self, messages: Messages) -> Written:
        """Return what `write` would report."""
        return Written.of(Rendering(messages).normal)

    def write(
        self, messages: Messages, *, project: str, title: str = "", key: str = "", model: str = "", note: str = ""
    ) -> Written:
        """Write a new session into the project's folder. It gets another id if `key` is taken or not a UUID."""
        if not is_uuid(key) or self.store.path_of(key) is not None:
            key = str(uuid.uuid4())
        path = self.store.new_path(key, project)
        rendering = Rendering(messages)
        if note:
            rendering.records.insert(0, NewRecord(USER, [{"type": "text", "text": note}], None, is_note=True))
        common: Json = {
            "isSidechain": False,
            "userType": "external",
            "cwd": os.path.realpath(project),
            "sessionId": key,
            "version": self.tool.tested_version,
            "gitBranch": "",
        }
        durable.ensure_folder(os.path.dirname(path))
        durable.replace_file(path, _lines(rendering, common, title, model))
        with removed_unless_verified(path):
            _verify(path, key, rendering)
        return Written.of(rendering.normal, key, path)

    def launch(self, written_or_key: str, *, project: str, prompt: str = "", model: str = "") -> Launch:
        """Return how to start Claude Code interactively with that session open."""
        return interactive(self.tool, written_or_key, project=project, prompt=prompt, model=model)

    def instructed(self, launch: Launch, text: str, file: str) -> Launch:
        """Return the launch with a text after Claude Code's own system prompt."""
        found = self.tool.detect()
        # Without the option, the system prompt that such a version recorded with the session wins.
        fresh = ["--system-prompt-snapshot", "off"] if found is not None and _records_prompt(found.version) else []
        return with_options(launch, *fresh, "--append-system-prompt-file", file)


def _records_prompt(version: str) -> bool:
    """Whether a version of Claude Code records the system prompt with a session: the tested one and newer ones do."""
    numbers, tested = (
        [int(number) for number in text.split(".")[:3] if number.isdigit()]
        for text in (version, ClaudeCode.tested_version)
    )
    return numbers >= tested


# ── the records to write ─────────────────────────────────────────────────────────────────────────────


class NewRecord(NamedTuple):
    """One record to write: its role, its content, and the message it comes from (None: it was added).

    Claude Code sends a note to the model and does not show it.
    """

    role: str
    blocks: list[Json]
    message: Message | None
    is_note: bool = False


class Rendering:
    """The records for a sequence of messages; `normal` counts what had to change."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.normal = Turns(messages, images_in=(USER, TOOL))
        self.records = [
            NewRecord(turn.role, [self._block(block, turn.role) for block in turn.blocks], turn.message)
            for turn in self.normal.turns
        ]

    def _block(self, block: turns.Block, role: str) -> Json:
        if isinstance(block, Call):
            return {"type": "tool_use", "id": block.id, "name": block.name, "input": block.input}
        if isinstance(block, Result):
            return {
                "type": "tool_result",
                "tool_use_id": block.call.id,
                "content": self._output(block),
                "is_error": block.is_error,
            }
        if isinstance(block, Image):
            source = {"type": "base64", "media_type": block.picture.kind, "data": block.picture.base64}
            return {"type": "image", "source": source}
        text = block.whole
        if role == ASSISTANT and text.strip() == _DROPPED:
            self.normal.note(Difference.QUOTED)
            text = f"[text: {json.dumps(text)}]"
        return {"type": "text", "text": text}

    def _output(self, result: Result) -> str:
        if result.is_error and not result.output.strip():
            self.normal.note(Difference.ERROR_NAMED)
            return _EMPTY_ERROR
        return result.output


def _lines(rendering: Rendering, common: Json, title: str, model: str) -> Iterator[bytes]:
    parent: str | None = None
    stamp, answer = "", ""
    used: set[str] = set()
    size = 0
    now = clock.now()
    for number, turn in enumerate(rendering.records):
        identity = record_id(_NAMES, turn.message, number, parent, used)
        time = clock.normalise(turn.message.timestamp) if turn.message else ""
        stamp = max(stamp, time) or now  # never decreasing: Claude Code finds the newest record by its time
        answer = (answer or "msg_" + identity.replace("-", "")[:24]) if turn.role == ASSISTANT else ""
        tokens = estimate("".join(_text(block) for block in turn.blocks))
        body = _assistant(turn, answer, model, size, tokens) if answer else _user(turn)
        size += tokens
        record: Json = {"parentUuid": parent, **common, "type": turn.role, "message": body}
        record |= {"uuid": identity, "timestamp": stamp, "cortext": _mark(turn, stamp)}
        if turn.is_note:
            record["isMeta"] = True
        yield encode(record) + b"\n"
        parent = identity
    if title:
        yield encode({"type": "custom-title", "customTitle": title, "sessionId": common["sessionId"]}) + b"\n"


def _user(turn: NewRecord) -> Json:
    blocks = turn.blocks
    is_plain_text = len(blocks) == 1 and blocks[0]["type"] == "text"
    return {"role": "user", "content": blocks[0]["text"] if is_plain_text else blocks}


def _assistant(turn: NewRecord, answer: str, model: str, before: int, tokens: int) -> Json:
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


def _model(turn: NewRecord, model: str) -> str:
    """Return the model to record. Never empty: one version of Claude Code hung on that.

    A resume restores a Claude model, and warns that it cannot restore any other, except for SYNTHETIC.
    """
    name = (turn.message.model if turn.message else "") or model
    return name if name.startswith("claude-") else SYNTHETIC


def _mark(turn: NewRecord, stamp: str) -> Json:
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


# ── what the model does not get ──────────────────────────────────────────────────────────────────────


class _Link(msgspec.Struct):
    """The fields of a record that link it to others."""

    type: str = ""
    subtype: str | None = None
    uuid: str | None = None
    parentUuid: str | None = None
    isSidechain: bool | None = None
    compactMetadata: dict[str, Any] | None = None
    cortext: Mark | None = None


_links = msgspec.json.Decoder(_Link)


def _last_compaction(links: list[_Link], indices: dict[str, int], leaf: _Link) -> int | None:
    link = leaf
    for _ in links:
        index = indices.get(link.uuid or "")
        if index is not None and link.subtype == "compact_boundary":
            return index
        parent = indices.get(link.parentUuid or "")
        if parent is None:
            return None
        link = links[parent]
    return None


def _preserved(links: list[_Link], indices: dict[str, int], compaction: _Link) -> set[str]:
    """Return the ids of the records that a compaction keeps: a range that it names by its first and last record."""
    segment = (compaction.compactMetadata or {}).get("preservedSegment")
    if not isinstance(segment, dict):
        return set()
    kept: set[str] = set()
    name = segment.get("tailUuid")
    while isinstance(name, str) and name in indices and name not in kept:
        kept.add(name)
        name = None if name == segment.get("headUuid") else links[indices[name]].parentUuid
    return kept
