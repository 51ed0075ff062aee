"""The sessions of Qwen Code: Claude Code's tree of records, with Google's content parts in them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from cortext.errors import UnsafePath
from cortext.io import durable
from cortext.model.asides import ASIDE_OF, NOTICE
from cortext.model.message import (
    ASSISTANT,
    ATTACHMENT,
    SYSTEM,
    TEXT,
    THINKING,
    TOOL,
    TOOL_CALL,
    TOOL_RESULT,
    USER,
    Message,
    Part,
    joined_text,
)
from cortext.tools.base import Counts, Leftover, Transcript, Watch
from cortext.tools.qwen_code.adapter import SUFFIX, QwenCode
from cortext.tools.shared.building import (
    Content,
    ContentPart,
    code_of,
    is_empty,
    media_of,
    parts_of,
    result_part,
    text_of,
)
from cortext.tools.shared.commands import is_resume_block, typed_command
from cortext.tools.shared.folders import changed_below, entries, file_transcript, is_uuid
from cortext.tools.shared.leftovers import unlisted_below
from cortext.tools.shared.lines import WITHOUT_CONTENT, ForeignLines, derived_id, moment, note
from cortext.tools.shared.native import RunMark
from cortext.tools.shared.parts import FileReader
from cortext.tools.shared.reading import TreeReading

# What Qwen Code keeps beside the sessions of a project.
_COMPANIONS = (
    *("*/chats/*.runtime.json", "*/chats/*.worktree.json", "*/chats/*.pr.json", "*/chats/*.ledger.jsonl"),
    *("*/subagents/", "*/tool-results/", "*/workflows/", "*/diagnostics/", "*/memory/", "*/*.json", "*/*.md"),
)
_RECORDS_CHECKED = 64  # the first message comes well before that
# Kinds of system records that are Qwen Code's own bookkeeping: known, and not part of the conversation.
_BOOKKEEPING = """
    agent_bootstrap agent_launch_prompt agent_retry agent_session_ready at_command attribution_snapshot
    background_task_completed branch_checkpoint file_history_snapshot goal_state goal_turn_end managed_session_commit_v1
    managed_session_event_v1 managed_session_header_v1 omni_recall parent_session rewind session_artifact_event
    session_artifact_snapshot session_model session_source session_sources_snapshot slash_command turn_result
    ui_telemetry user_text_elements
"""
BOOKKEEPING = frozenset(_BOOKKEEPING.split())
TITLE, COMPACTION = "custom_title", "chat_compression"
# User records that Qwen Code wrote for itself, as a prompt of its own. What a "cron" record says, the user wrote once.
INJECTED = frozenset(("notification", "goal_runtime"))
# What was said in a voice call: Qwen Code does not send it to the model again.
SPOKEN = "realtime_message"
MESSAGE_TYPES = frozenset((USER, ASSISTANT, TOOL_RESULT))
_HOOK_CONTEXT = "<qwen:user-prompt-submit-context>"
# Around the files that the user named with an @ in a prompt; each follows as a line with its name, and its text.
_FILES, _END_OF_FILES = "\n--- Content from referenced files ---", "\n--- End of content ---"
_FILE = re.compile(r"\nContent from (.+):\n")
_FAILED = frozenset(("error", "cancelled"))


class Body(msgspec.Struct, gc=False):
    """The `message` of a record."""

    role: str | None = None
    parts: Content = None


class CallStatus(msgspec.Struct, gc=False):
    """What became of a tool call."""

    status: str | None = None


class Payload(msgspec.Struct, gc=False):
    """What a system record says, or what a user record says about the prompt."""

    displayText: str | None = None
    hookContext: str | None = None
    customTitle: str | None = None
    compressedHistory: list[Body] | None = None


class Record(msgspec.Struct, gc=False):
    """A line of a session: the fields that we need. `parentUuid` is null at the root, and empty if it is missing."""

    type: str = ""
    subtype: str | None = None
    uuid: str = ""
    parentUuid: str | None = ""
    sessionId: str | None = None
    timestamp: str | None = None
    cwd: str | None = None
    model: str | None = None
    message: Body | None = None
    usageMetadata: dict[str, Any] | None = None
    toolCallResult: CallStatus | None = None
    systemPayload: msgspec.Raw = msgspec.Raw(b"null")
    cortext: RunMark | None = None


decoder = msgspec.json.Decoder(Record)
_payload_decoder = msgspec.json.Decoder(Payload | None)


def payload_of(record: Record) -> Payload:
    """Return the payload of a record."""
    return _payload_decoder.decode(record.systemPayload) or Payload()


# ── sessions ─────────────────────────────────────────────────────────────────────────────────────────


class QwenReader(FileReader[QwenCode]):
    """Finds and reads the sessions."""

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield every `<session>.jsonl` in the `chats` of every project's folder."""
        if project is not None:
            yield from self._in_folder(self.tool.chats(project), os.path.realpath(project))
            return
        for folder in entries(self.tool.projects):
            yield from self._in_folder(os.path.join(folder.path, "chats"), "")

    def _in_folder(self, folder: str, project: str) -> Iterator[Transcript]:
        for entry in entries(folder):
            key = entry.name.removesuffix(SUFFIX)
            if key != entry.name and is_uuid(key) and not (entry.is_symlink() and os.path.isfile(entry.path)):
                found = file_transcript(self.tool.name, key, entry.path, project)
                if found is not None:
                    yield found

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the session at any path, recognised by its records."""
        try:
            key = session_in(path)
        except (OSError, UnsafePath):
            return None
        return file_transcript(self.tool.name, key, path) if key else None

    def leftovers(self, listed: Sequence[Transcript]) -> Iterator[Leftover]:
        """Yield the other files among the sessions."""
        return unlisted_below(self.tool.projects, listed, self.tool.title, _COMPANIONS)

    def watched(self) -> Watch:
        """Return the folder of all projects."""
        return Watch(folders=[self.tool.projects])

    def changed(self, path: str) -> list[Transcript]:
        """Return the session in this file."""
        return changed_below(self.tool, self.tool.projects, path)

    def read(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> QwenReading:
        """Return the messages; with a cursor, only those added since."""
        return QwenReading(transcript, cursor)

    def has(self, key: str) -> bool:
        """Whether there is a session with this id, in any project."""
        folders = (os.path.join(folder.path, "chats") for folder in entries(self.tool.projects))
        return any(os.path.lexists(os.path.join(folder, key + SUFFIX)) for folder in folders)


def session_in(path: str) -> str:
    """Return the id of the session in a file, from its first records; empty if it is not a session of Qwen Code."""
    descriptor = durable.open_file(path, os.O_RDONLY)
    try:
        head = os.pread(descriptor, 64, 0)
    finally:
        os.close(descriptor)
    if not head.lstrip(b"\0 \t\r\n").startswith(b"{"):
        return ""
    lines = ForeignLines(path, 0, Counts())
    for line, _ in zip(lines, range(_RECORDS_CHECKED), strict=False):
        for record in lines.decode(line, decoder, Record):
            # Claude Code's messages have `content` instead of `parts`.
            if record.type in MESSAGE_TYPES and record.message is not None and record.message.parts is not None:
                return record.sessionId or ""
    return ""


# ── messages ─────────────────────────────────────────────────────────────────────────────────────────


class QwenReading(TreeReading[Record]):
    """The messages of a session, in order; `parent` says where the conversation went back (`/rewind`)."""

    decoder = decoder
    record_type = Record

    def link(self, record: Record) -> tuple[str, str | None]:
        return record.uuid, record.parentUuid

    def messages(self, record: Record, line: bytes) -> list[Message]:
        if record.type == SYSTEM:
            self._system(record)
            return []
        identity = record.uuid or derived_id(line.hex())
        parts = parts_of(record.message.parts if record.message else None)
        found = self._said(record, parts, identity)
        if record.cwd and not self.about.project:
            self.about.project = record.cwd
        if found and not self.about.created_at:
            self.about.created_at = moment(record.timestamp)
        return found

    def _said(self, record: Record, parts: Sequence[ContentPart], identity: str) -> list[Message]:
        """Return the messages of a record that is not a system record."""
        if record.type not in (USER, ASSISTANT, TOOL_RESULT):
            note(self.counts.unknown, record.type or "without type")
            return []
        for part in parts:
            if not part.text and is_empty(part):
                note(self.counts.unknown, "part of unknown type")
        if record.cortext is not None:
            return self._marked(record, parts, identity)
        if not parts:
            note(self.counts.skipped, WITHOUT_CONTENT)
            return []
        if record.type == TOOL_RESULT:
            return self._results(record, parts, identity)
        return self._user(record, parts, identity) if record.type == USER else [self._answer(record, parts, identity)]

    def _system(self, record: Record) -> None:
        kind = record.subtype or ""
        known = kind in BOOKKEEPING or kind in (TITLE, COMPACTION)
        note(self.counts.skipped if known else self.counts.unknown, f"system/{kind}")
        if kind == TITLE:
            self.about.title = payload_of(record).customTitle or self.about.title
        elif kind == COMPACTION:
            kept = payload_of(record).compressedHistory or []
            self.about.summary = text_of(parts_of(kept[0].parts)) if kept else ""

    # ── the user ─────────────────────────────────────────────────────────────────────────────────────

    def _user(self, record: Record, parts: Sequence[ContentPart], identity: str) -> list[Message]:
        """Return what the user typed, the files named in it, and our context block, which is an aside."""
        contexts = [part.text for part in parts if part.text and part.text.startswith(_HOOK_CONTEXT)]
        parts = [part for part in parts if part.text not in contexts]
        begin = next((index for index, part in enumerate(parts) if part.text == _FILES), len(parts))
        words, files = parts[:begin], parts[begin + 1 :]
        text = text_of(words)
        block = text if is_resume_block(text) else next(filter(is_resume_block, contexts), "")
        payload = payload_of(record)
        command = payload.displayText if payload.displayText and contexts else typed_command(text)
        messages = []
        if command or text != block:
            media = media_of(words, f"{self.transcript.key}#{identity}")
            messages.append(self._message(USER, record, identity, media, command or text))
        if messages and (record.subtype or "") in INJECTED:
            messages[0].extra = {ASIDE_OF: NOTICE}
        messages += self._attached(record, files, identity)
        if block:
            aside = self._message(USER, record, f"{identity}/block" if messages else identity, [], block)
            aside.aside, aside.extra = True, {"resume_block": True}
            messages.append(aside)
        for message in messages:
            if message.content.startswith("/workspace.") and not self.about.command:
                self.about.command = message.content.split(None, 1)[0]
        return messages

    def _attached(self, record: Record, parts: Sequence[ContentPart], identity: str) -> list[Message]:
        """Return a message for each file that the prompt named."""
        files: list[tuple[str, list[ContentPart]]] = []
        for part in parts:
            heading = _FILE.fullmatch(part.text or "")
            if heading:
                files.append((heading[1], []))
            elif part.text != _END_OF_FILES:
                if not files:
                    files.append(("", []))
                files[-1][1].append(part)
        messages = []
        for number, (name, content) in enumerate(files, 1):
            name_of = f"{identity}/{number}"
            kept = media_of(content, f"{self.transcript.key}#{name_of}")
            if text := text_of(content):
                kept.insert(0, Part(TEXT, text=f"[attached: {name}]\n{text}", name=name))
            message = self._message(USER, record, name_of, kept, joined_text(kept))
            message.extra = {ATTACHMENT: name}
            messages.append(message)
        return messages

    # ── the model and its tools ──────────────────────────────────────────────────────────────────────

    def _answer(self, record: Record, parts: Sequence[ContentPart], identity: str) -> Message:
        kept = self._answer_parts(parts, identity)
        message = self._message(ASSISTANT, record, identity, kept, joined_text(kept))
        message.model = record.model or ""
        self.about.model = record.model or self.about.model
        if record.usageMetadata is not None:
            message.usage = record.usageMetadata
            count = record.usageMetadata.get("candidatesTokenCount")
            message.tokens = count if isinstance(count, int) else None
        return message

    def _answer_parts(self, parts: Sequence[ContentPart], identity: str) -> list[Part]:
        kept: list[Part] = []
        for number, part in enumerate(parts):
            if part.functionCall is not None:
                call = part.functionCall
                name, call_id = call.name or "", call.id or f"{identity}/{number}"
                kept.append(Part(TOOL_CALL, id=call_id, name=name, input=call.args))
                self.calls[call_id] = name
                if name and name not in self.about.tools:
                    self.about.tools.append(name)
            elif part.text:
                kept.append(Part(THINKING if part.thought else TEXT, text=part.text))
        return [*kept, *code_of(parts), *media_of(parts, f"{self.transcript.key}#{identity}")]

    def _results(self, record: Record, parts: Sequence[ContentPart], identity: str) -> list[Message]:
        """Return a message for each result; the parts after a result, up to the next one, belong to it."""
        groups: list[list[ContentPart]] = []
        for part in parts:
            if part.functionResponse is not None or not groups:
                groups.append([])
            groups[-1].append(part)
        messages = []
        for number, group in enumerate(groups):
            name = f"{identity}/{number}" if number else identity
            answer = group[0].functionResponse
            if answer is None:
                messages.append(self._message(USER, record, name, [], text_of(group)))
                continue
            result = result_part(answer, group[1:])
            result.name = self.calls.pop(result.call_id, "") or result.name
            failed = record.toolCallResult is not None and record.toolCallResult.status in _FAILED
            result.is_error = result.is_error or (failed and len(groups) == 1)
            media = media_of([*(answer.parts or ()), *group[1:]], f"{self.transcript.key}#{name}")
            messages.append(self._message(TOOL, record, name, [result, *media], ""))
        return messages

    # ── records that we wrote ────────────────────────────────────────────────────────────────────────

    def _marked(self, record: Record, parts: Sequence[ContentPart], identity: str) -> list[Message]:
        """Return a record that we wrote as the messages that it was made from."""
        mark = record.cortext
        if mark is None or mark.added:
            note(self.counts.skipped, "added by cortext")
            return []
        return self.restored(mark, self.literal(record, parts, identity))

    def literal(self, record: Record, parts: Sequence[ContentPart], identity: str) -> Message:
        """Return a record as one message, its texts unchanged."""
        if record.type == ASSISTANT:
            kept, role = self._answer_parts(parts, identity), ASSISTANT
        else:
            kept = []
            for part in parts:
                if part.functionResponse is not None:
                    kept.append(result_part(part.functionResponse))
                elif part.text:
                    kept.append(Part(TEXT, text=part.text))
            role = TOOL if kept and all(part.type == TOOL_RESULT for part in kept) else USER
        return self._message(role, record, identity, kept, joined_text(kept))

    def _message(self, role: str, record: Record, identity: str, parts: list[Part], content: str) -> Message:
        if len(parts) == 1 and parts[0].type == TEXT and not parts[0].name and parts[0].data is None:
            parts = []
        return Message(role=role, content=content, timestamp=moment(record.timestamp), id=identity, parts=parts or None)
