"""Reads a session of Qwen Code: Claude Code's tree of records, with Google's content parts in them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cortext.model import message as model
from cortext.model.message import ATTACHMENT, TEXT, THINKING, TOOL, TOOL_CALL, Message, Part, joined_text
from cortext.tools.qwen_code.records import (
    ASSISTANT,
    BOOKKEEPING,
    COMPACTION,
    INJECTED,
    SYSTEM,
    TITLE,
    TOOL_RESULT,
    USER,
    Record,
    decoder,
    payload_of,
)
from cortext.tools.shared.google_parts import (
    ContentPart,
    code_of,
    is_empty,
    media_of,
    parts_of,
    result_part,
    text_of,
)
from cortext.tools.shared.lines import WITHOUT_CONTENT, derived_id, moment, note
from cortext.tools.shared.tree import TreeReading
from cortext.tools.shared.typed import is_resume_block, typed_command

_HOOK_CONTEXT = "<qwen:user-prompt-submit-context>"
# Around the files that the user named with an @ in a prompt; each follows as a line with its name, and its text.
_FILES, _END_OF_FILES = "\n--- Content from referenced files ---", "\n--- End of content ---"
_FILE = re.compile(r"\nContent from (.+):\n")
_FAILED = frozenset(("error", "cancelled"))


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
            messages.append(self._message(model.USER, record, identity, media, command or text))
        if messages and (record.subtype or "") in INJECTED:
            messages[0].extra = {"origin": record.subtype}
        messages += self._attached(record, files, identity)
        if block:
            aside = self._message(model.USER, record, f"{identity}/block" if messages else identity, [], block)
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
            message = self._message(model.USER, record, name_of, kept, joined_text(kept))
            message.extra = {ATTACHMENT: name}
            messages.append(message)
        return messages

    # ── the model and its tools ──────────────────────────────────────────────────────────────────────

    def _answer(self, record: Record, parts: Sequence[ContentPart], identity: str) -> Message:
        kept = self._answer_parts(parts, identity)
        message = self._message(model.ASSISTANT, record, identity, kept, joined_text(kept))
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
                messages.append(self._message(model.USER, record, name, [], text_of(group)))
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
        found = mark.all_restored(self.literal(record, parts, identity), self.counts.damaged)
        for message in found:
            if message.role == model.ASSISTANT and message.model:
                self.about.model = message.model
        return found

    def literal(self, record: Record, parts: Sequence[ContentPart], identity: str) -> Message:
        """Return a record as one message, its texts unchanged."""
        if record.type == ASSISTANT:
            kept, role = self._answer_parts(parts, identity), model.ASSISTANT
        else:
            kept = []
            for part in parts:
                if part.functionResponse is not None:
                    kept.append(result_part(part.functionResponse))
                elif part.text:
                    kept.append(Part(TEXT, text=part.text))
            role = TOOL if kept and all(part.type == model.TOOL_RESULT for part in kept) else model.USER
        return self._message(role, record, identity, kept, joined_text(kept))

    def _message(self, role: str, record: Record, identity: str, parts: list[Part], content: str) -> Message:
        if len(parts) == 1 and parts[0].type == TEXT and not parts[0].name and parts[0].data is None:
            parts = []
        return Message(role=role, content=content, timestamp=moment(record.timestamp), id=identity, parts=parts or None)
