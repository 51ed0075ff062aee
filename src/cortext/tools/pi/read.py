"""Reads a session of Pi: a tree of entries, in which the last one is the current end of the conversation."""

from __future__ import annotations

from cortext.model.message import (
    ASSISTANT,
    IMAGE,
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
from cortext.tools.pi.records import (
    BOOKKEEPING,
    BRANCH_SUMMARY,
    COMPACTION,
    INJECTED,
    MESSAGE,
    SESSION,
    TITLE,
    Block,
    Body,
    Content,
    Record,
    blocks_of,
    decoder,
)
from cortext.tools.shared.entries import NAME
from cortext.tools.shared.lines import WITHOUT_CONTENT, derived_id, moment, note
from cortext.tools.shared.mark import RunMark
from cortext.tools.shared.tree import TreeReading
from cortext.tools.shared.typed import is_resume_block, typed_command

# An answer that Pi stores although it was cut off, and does not send to the model again.
_CUT = frozenset(("error", "aborted"))


class PiReading(TreeReading[Record]):
    """The messages of a session, in order; `parent` says where a branch begins."""

    decoder = decoder
    record_type = Record

    def link(self, record: Record) -> tuple[str, str | None]:
        return ("", "") if record.type == SESSION else (record.id, record.parentId)

    def messages(self, record: Record, line: bytes) -> list[Message]:
        identity = record.id or derived_id(line.hex())
        if record.cortext is not None:
            return self._marked(record, record.cortext, identity)
        if record.type == MESSAGE and record.message is not None:
            return self._said(record, record.message, identity)
        if record.type == INJECTED:
            return self._injected(record, record.content, record.customType or "", identity)
        if record.type == BRANCH_SUMMARY:
            message = self._message(SYSTEM, record, identity, [], record.summary or "")
            message.extra = {"origin": BRANCH_SUMMARY}
            return [message]
        self._bookkeeping(record)
        return []

    def _bookkeeping(self, record: Record) -> None:
        known = record.type in BOOKKEEPING or record.type in (SESSION, TITLE, COMPACTION)
        note(self.counts.skipped if known else self.counts.unknown, record.type or "without type")
        if record.type == SESSION:
            self.about.project = self.about.project or record.cwd or ""
            self.about.created_at = self.about.created_at or moment(record.timestamp)
        elif record.type == TITLE:
            self.about.title = record.name or ""
        elif record.type == COMPACTION:
            self.about.summary = record.summary or ""

    # ── messages ─────────────────────────────────────────────────────────────────────────────────────

    def _said(self, record: Record, body: Body, identity: str) -> list[Message]:
        if body.role in ("user", "assistant", "toolResult"):
            message = self.literal(record, body, identity)
            return [self._typed(message)] if body.role == "user" else [message]
        if body.role == "bashExecution":  # a command that the user ran, with its output, for the model to read
            message = self._message(USER, record, identity, [], f"!{body.command or ''}\n{body.output or ''}")
            message.aside = bool(body.excludeFromContext)
            return [message]
        if body.role in ("custom", "hookMessage"):
            return self._injected(record, body.content, body.customType or "", identity)
        note(self.counts.skipped if body.role == "system" else self.counts.unknown, f"message/{body.role}")
        return []

    def _typed(self, message: Message) -> Message:
        """Return what the user typed: a command instead of its expansion. Our context block is an aside."""
        if is_resume_block(message.content):
            message.aside, message.extra = True, {"resume_block": True}
        elif command := typed_command(message.content):
            message.content = command
            message.parts = [part for part in message.parts or () if part.type != TEXT] or None
        if message.content.startswith("/workspace.") and not (message.aside or self.about.command):
            self.about.command = message.content.split(None, 1)[0]
        return message

    def _injected(self, record: Record, content: Content, origin: str, identity: str) -> list[Message]:
        """Return what an extension added for the model. Of ours, only the context block is kept, as an aside."""
        parts = self._parts(blocks_of(content), identity)
        message = self._message(USER, record, identity, parts, joined_text(parts))
        message.extra = {"origin": origin}
        if is_resume_block(message.content):
            message.aside, message.extra = True, {"resume_block": True}
        elif origin == NAME:
            note(self.counts.skipped, "added by cortext")
            return []
        return [message]

    def literal(self, record: Record, body: Body, identity: str) -> Message:
        """Return a message of the user, the model or a tool, its texts unchanged."""
        parts = self._parts(blocks_of(body.content), identity)
        if body.role == "toolResult":
            call = body.toolCallId or ""
            output = "\n".join(part.text for part in parts if part.type == TEXT)
            name = self.calls.pop(call, "") or body.toolName or ""
            result = Part(TOOL_RESULT, call_id=call, name=name, output=output, is_error=bool(body.isError))
            return self._message(TOOL, record, identity, [result, *(part for part in parts if part.type == IMAGE)], "")
        message = self._message(USER, record, identity, parts, joined_text(parts))
        if body.role == "assistant":
            message.role, message.model = ASSISTANT, body.model or ""
            message.partial = body.stopReason in _CUT
            self.about.model = body.model or self.about.model
            if body.usage is not None:
                message.usage = body.usage
                count = body.usage.get("output")
                message.tokens = count if isinstance(count, int) else None
        return message

    def _parts(self, blocks: list[Block], identity: str) -> list[Part]:
        parts: list[Part] = []
        for number, block in enumerate(blocks):
            if block.type == "text":
                parts.append(Part(TEXT, text=block.text or ""))
            elif block.type == "thinking":
                parts.append(Part(THINKING, text=block.thinking or ""))
            elif block.type == "toolCall":
                name = block.name or ""
                parts.append(Part(TOOL_CALL, id=block.id or "", name=name, input=block.arguments))
                self.calls[block.id or ""] = name
                if name and name not in self.about.tools:
                    self.about.tools.append(name)
            elif block.type == "image":
                reference = f"{self.transcript.key}#{identity}/{number}"
                parts.append(Part(IMAGE, ref=reference, media_type=block.mimeType or ""))
            else:
                note(self.counts.unknown, f"block {block.type or 'without type'}")
                parts.append(Part(block.type or "unknown", text=block.text or ""))
        return parts

    # ── entries that we wrote ────────────────────────────────────────────────────────────────────────

    def _marked(self, record: Record, mark: RunMark, identity: str) -> list[Message]:
        """Return an entry that we wrote as the messages that it was made from."""
        if mark.added or record.message is None:
            note(self.counts.skipped, "added by cortext" if mark.added else WITHOUT_CONTENT)
            return []
        literal = self.literal(record, record.message, identity)
        found = mark.all_restored(literal, self.counts.damaged)
        for message in found:
            if message.role == ASSISTANT and message.model:
                self.about.model = message.model
        return found

    def _message(self, role: str, record: Record, identity: str, parts: list[Part], content: str) -> Message:
        if len(parts) == 1 and parts[0].type == TEXT:
            parts = []
        return Message(role=role, content=content, timestamp=moment(record.timestamp), id=identity, parts=parts or None)
