"""Builds messages from the records of Claude Code.

One record gives one message, or several if it contains several tool results. Claude Code writes an answer of the model
as one record per block, with tool results in between. They stay separate messages, so that a reading in several steps
gives the same messages as a single one.

Typed decoding of the records skips what is not needed (second copies of a tool result, base64 images) without
building it.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from cortext.model.message import (
    ASSISTANT,
    ATTACHMENT,
    FILE,
    IMAGE,
    INSTRUCTIONS,
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
from cortext.model.tokens import CALL
from cortext.tools.base import About, Counts
from cortext.tools.shared.commands import is_resume_block
from cortext.tools.shared.lines import WITHOUT_CONTENT, moment, note
from cortext.tools.shared.native import Mark, nth, values_of

# Kinds of records that are Claude Code's own bookkeeping: known, and not part of the conversation.
_BOOKKEEPING = """
    agent-color agent-name agent-setting api-request api-request-blob api-request-shape artifact-autoreact-ledger
    artifact-comment-monitor atis-latch attribution-snapshot bridge-session content-replacement continued-in
    cost-state data-flow-incomplete data-flow-records derived-from dev-mods ended-by-model file-history-delta
    file-history-snapshot fork-context-ref frame-link history-suppression isolation-latch last-prompt memory-mode
    mode observer-ref permission-mode pr-link progress queue-operation relocated repl-mode resume-head-vouch
    session-owner speculation-accept tag task-summary tools-used worktree-state
"""
BOOKKEEPING = frozenset(_BOOKKEEPING.split())
# Kinds that hold a title, the most authoritative last.
TITLES = ("summary", "ai-title", "custom-title")
KNOWN = frozenset((*BOOKKEEPING, *TITLES, "attachment", "system"))
MESSAGE_TYPES = frozenset(("user", "assistant"))
_SYSTEM_NOTES = """
    agents_killed api_error api_metrics api_retry away_summary bridge_state bridge_status compact_boundary
    file_snapshot hook_progress hook_response hook_started informational init instruction_size_warning
    memory_recall memory_saved microcompact_boundary model_consent_fallback model_fallback model_refusal_fallback
    model_refusal_no_fallback notification per_turn_effort_changed permission_denied permission_retry
    post_turn_summary rewind_stand_in scheduled_task_fire session_writes_lost start_folder status stop_hook_summary
    task_notification task_progress task_started task_summary task_updated thinking thinking_tokens turn_duration
    turn_handoff_available turn_preempted voice_call_talk
"""
# Attachments that the user gave the model to read; all others are Claude Code's own notes to the model.
ATTACHED = frozenset(("file", "already_read_file", "directory", "selected_lines_in_ide", "mcp_resource"))
# Attachments that the model does not get.
UNSENT = frozenset(("command_permissions", "prompt_snapshot", "session_context"))
SYSTEM_NOTES = frozenset(_SYSTEM_NOTES.split())
SYNTHETIC = "<synthetic>"  # the "model" of assistant records that Claude Code itself made up


class Source(msgspec.Struct, gc=False):
    """Where an image comes from. `data` is not a field, so that its base64 is never decoded."""

    type: str | None = None
    media_type: str | None = None
    url: str | None = None
    file_id: str | None = None


class Block(msgspec.Struct, gc=False):
    """One block of a message's content, of any kind."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    tool_use_id: str | None = None
    content: str | list[Block | str] | dict[str, Any] | None = None
    is_error: bool | None = None
    source: Source | None = None
    title: str | None = None
    tool_name: str | None = None


class Body(msgspec.Struct, gc=False):
    """The `message` of a user or assistant record."""

    content: str | list[Block | str] | None = None
    id: str | None = None
    model: str | None = None
    usage: dict[str, Any] | None = None


class Attachment(msgspec.Struct, gc=False):
    """An attachment to the conversation.

    `queued_command` is what the user typed while the model was working. The types in ATTACHED are what the user gave
    the model to read with a prompt (`@note.txt`); their content has a form of its own and is decoded separately.
    """

    type: str | None = None
    prompt: str | list[Block | str] | None = None
    filename: str | None = None
    displayPath: str | None = None
    path: str | None = None
    uri: str | None = None
    content: msgspec.Raw = msgspec.Raw(b"null")
    addedNames: list[str] | None = None  # of deferred_tools_delta: the tools that the model has from now on
    names: list[str] | None = None  # of skill_listing: the skills that it has


class AttachedFile(msgspec.Struct, gc=False):
    """The file in an attachment. Its base64 is not a field, so that it is never decoded."""

    content: str | None = None
    type: str | None = None
    cells: Any = None


class AttachedText(msgspec.Struct, gc=False):
    """One content item of an MCP resource."""

    text: str | None = None


class Attached(msgspec.Struct, gc=False):
    """The content of an attachment: a file (text, notebook, image or PDF), or the contents of an MCP resource."""

    type: str | None = None
    file: AttachedFile | None = None
    contents: list[AttachedText] | None = None


class Record(msgspec.Struct, gc=False):
    """A line of a transcript, of any kind: the fields that we need."""

    type: str = ""
    uuid: str | None = None
    parentUuid: str | None = None
    logicalParentUuid: str | None = None
    timestamp: str | None = None
    requestId: str | None = None
    sessionId: str | None = None
    cwd: str | None = None
    gitBranch: str | None = None
    isSidechain: bool | None = None
    isMeta: bool | None = None
    sourceToolUseID: str | None = None  # the call of a skill that this record has the instructions of
    isCompactSummary: bool | None = None
    isVisibleInTranscriptOnly: bool | None = None
    isApiErrorMessage: bool | None = None
    message: Body | None = None
    attachment: Attachment | None = None
    subtype: str | None = None
    content: str | list[Block | str] | dict[str, Any] | None = None
    summary: str | None = None
    leafUuid: str | None = None
    customTitle: str | None = None
    aiTitle: str | None = None
    cortext: Mark | None = None


decoder = msgspec.json.Decoder(Record)
attached_decoder = msgspec.json.Decoder(str | Attached | None)


def note_at_hand(about: About, attachment: Attachment) -> None:
    """Add the MCP tools and the skills that the model has from now on to what is known of the transcript."""
    added = {name for name in attachment.addedNames or () if name.startswith("mcp__")}
    about.tools += sorted(added.difference(about.tools))
    about.skills += sorted({*(attachment.names or ())}.difference(about.skills))


def image_in(record: dict[str, Any], rest: list[str]) -> str | None:
    """Return the base64 of an image in a record, by its number among the images and documents there."""
    message, attachment = record.get("message"), record.get("attachment")
    inside = [message.get("content") if isinstance(message, dict) else None]
    if isinstance(attachment, dict):
        files = [str(file["base64"]) for file in values_of(attachment.get("content"), "base64")]
        if files:
            return nth(iter(files), rest[0])
        inside.append(attachment.get("prompt"))
    blocks = (block for block in values_of(inside, "source") if isinstance(block["source"], dict))
    return nth((str(block["source"].get("data") or "") for block in blocks), rest[0])


# ── building messages ────────────────────────────────────────────────────────────────────────────────

Content = str | list[Block | str] | dict[str, Any] | None

_COMMAND = re.compile(r"<command-name>\s*(.*?)\s*</command-name>", re.DOTALL)
_ARGUMENTS = re.compile(r"<command-args>(.*)</command-args>", re.DOTALL)
_LOCAL_OUTPUT = re.compile(r"<local-command-(?:stdout|stderr)>(.*)</local-command-(?:stdout|stderr)>\s*", re.DOTALL)
_SHELL = re.compile(r"<bash-input>(.*)</bash-input>\s*", re.DOTALL)


class MessageBuilder:
    """Builds messages from records. It remembers open tool calls, and the tokens already counted of an answer."""

    def __init__(self, key: str, about: About, counts: Counts, *, aside: bool) -> None:
        self.key = key
        self.about = about
        self.counts = counts
        self.aside = aside
        self.calls: dict[str, str] = {}  # tool names of the calls without a result yet, by call id
        self.answer = ""  # id of the model's answer that the last record belongs to
        self.counted = 0  # tokens of that answer that earlier messages have

    # ── user records ─────────────────────────────────────────────────────────────────────────────────

    def user(self, record: Record, identity: str) -> list[Message]:
        """Return the messages of a user record: what the user typed, tool results, or notes of Claude Code."""
        content = record.message.content if record.message else None
        if record.cortext is not None:
            return self._marked(record.cortext, record, content, USER)
        if isinstance(content, list):
            if len(content) != 1 or isinstance(content[0], str) or content[0].type != TEXT:
                return self._blocks(record, content, identity, USER)
            content = content[0].text
        return [self.typed(content or "", identity, record)]

    def typed(self, text: str, identity: str, record: Record) -> Message:
        """Return a text of role user as a message: as typed, or without the tags that Claude Code put around it."""
        message = Message(
            role=USER, content=text, timestamp=timestamp(record), id=identity, aside=self._is_aside(record)
        )
        if text.startswith("<"):
            self._unwrap(message)
        if message.content.startswith("/workspace.") and not (message.aside or self.about.command):
            self.about.command = message.content.split(None, 1)[0]
        if is_resume_block(text):
            message.aside = True
            message.extra = {"resume_block": True}
        return message

    def instructions(self, text: str, name: str, identity: str, record: Record) -> Message:
        """Return the instructions that a command or a skill gave to the model."""
        message = Message(role=SYSTEM, content=text, timestamp=timestamp(record), id=identity)
        message.aside, message.extra = self._is_aside(record), {INSTRUCTIONS: name}
        return message

    def queued(self, record: Record, identity: str) -> list[Message]:
        """Return what the user typed while the model was working, which only an attachment records."""
        attachment = record.attachment
        assert attachment is not None
        if isinstance(attachment.prompt, list):
            return self._blocks(record, attachment.prompt, identity, USER)
        return [self.typed(attachment.prompt or "", identity, record)]

    def attached(self, record: Record, identity: str) -> list[Message]:
        """Return what the user gave the model to read with a prompt: a file, a folder listing, an image."""
        attachment = record.attachment
        assert attachment is not None
        name = attachment.displayPath or attachment.filename or attachment.path or attachment.uri or ""
        content = attached_decoder.decode(attachment.content)
        text, part = content if isinstance(content, str) else "", None
        if isinstance(content, Attached):
            file = content.file
            if content.contents is not None:
                text = "\n".join(item.text for item in content.contents if item.text)
            elif content.type in ("image", "pdf"):
                kind, media = (IMAGE, "image/png") if content.type == "image" else (FILE, "application/pdf")
                media = (file.type if file else None) or media
                part = Part(kind, ref=f"{self.key}#{identity}/0", media_type=media, name=name)
            elif file is not None:
                text = file.content or ("" if file.cells is None else msgspec.json.encode(file.cells).decode("utf-8"))
        if part is None:
            if not text:
                note(self.counts.skipped, WITHOUT_CONTENT)
                return []
            part = Part(TEXT, text=f"[attached: {name}]\n{text}", name=name)
        message = Message(role=USER, content=part.text, timestamp=timestamp(record), id=identity, parts=[part])
        message.aside, message.extra = self._is_aside(record), {ATTACHMENT: name}
        return [message]

    def _unwrap(self, message: Message) -> None:
        """Turn a slash command back into what was typed; mark what Claude Code ran itself as an aside."""
        text = message.content
        if text.startswith(("<command-message>", "<command-name>")) and (name := _COMMAND.search(text)):
            arguments = _ARGUMENTS.search(text)
            typed = f"/{name[1].removeprefix('/')} {arguments[1].strip() if arguments else ''}"
            message.content = typed.rstrip()
            # A built-in command begins with its name; a command that is a prompt begins with its message.
            message.aside = message.aside or text.startswith("<command-name>")
        elif text.startswith("<local-command-") and (output := _LOCAL_OUTPUT.fullmatch(text)):
            message.role, message.content, message.aside = SYSTEM, output[1], True
        elif typed_command := _SHELL.fullmatch(text):
            message.content = f"!{typed_command[1]}"

    # ── assistant records ────────────────────────────────────────────────────────────────────────────

    def assistant(self, record: Record, identity: str) -> list[Message]:
        """Return the messages of an assistant record; errors that Claude Code reports there become system asides."""
        body = record.message
        if body is None:
            note(self.counts.skipped, WITHOUT_CONTENT)
            return []
        content = body.content
        if record.cortext is not None:
            return self._marked(record.cortext, record, content, ASSISTANT)
        if isinstance(content, list):
            messages = self._blocks(record, content, identity, ASSISTANT)
        else:
            stamp, aside = timestamp(record), self._is_aside(record)
            messages = [Message(role=ASSISTANT, content=content or "", timestamp=stamp, id=identity, aside=aside)]
        if body.model == SYNTHETIC or record.isApiErrorMessage:
            for message in messages:
                message.role, message.aside = SYSTEM, True
            return messages
        if messages:
            if body.usage is not None:
                self._count(messages[0], body.id or "", body.usage, record.requestId or "")
            for message in messages:
                message.model = body.model or ""
            if body.model and not (self.aside or record.isSidechain):
                self.about.model = body.model
        return messages

    def _count(self, message: Message, answer: str, usage: dict[str, Any], request: str) -> None:
        """Set the usage of an answer once, although each of its records repeats it; after that, only what was added.

        A fork or a resumed session copies records: by the ids of the answer and its request, they are counted once.
        """
        output = usage.get("output_tokens")
        tokens = output if isinstance(output, int) else None
        if not answer or answer != self.answer:
            self.answer, self.counted = answer, tokens or 0
            message.usage, message.tokens = usage, tokens
        elif tokens is not None and tokens > self.counted:
            message.usage, message.tokens = {"output_tokens": tokens - self.counted}, tokens - self.counted
            self.counted = tokens
        if message.usage is not None and answer:
            message.extra = {**(message.extra or {}), CALL: f"{answer}:{request}"}

    # ── blocks ───────────────────────────────────────────────────────────────────────────────────────

    def _blocks(self, record: Record, blocks: list[Block | str], identity: str, role: str) -> list[Message]:
        """Return the messages of a list of blocks: one for each tool result, and one for each run of other blocks."""
        stamp, aside = timestamp(record), self.aside or bool(record.isSidechain)
        if len(blocks) == 1:  # a fast path: nearly always true
            block = blocks[0]
            if type(block) is Block and block.type == TEXT:
                return [Message(role=role, content=block.text or "", timestamp=stamp, id=identity, aside=aside)]
        parts = self._parts(blocks, record.uuid or identity)
        if len(parts) == 1:
            part = parts[0]
            if part.type == TEXT:
                return [Message(role=role, content=part.text, timestamp=stamp, id=identity, aside=aside)]
            role = TOOL if part.type == TOOL_RESULT else role
            return [Message(role=role, timestamp=stamp, id=identity, parts=parts, aside=aside)]
        if not parts:
            note(self.counts.skipped, WITHOUT_CONTENT)
        messages: list[Message] = []
        for part in parts:
            before = messages[-1] if messages else None
            if part.type == TOOL_RESULT:
                messages.append(Message(role=TOOL, parts=[part]))
            elif before is None or before.parts is None or (before.role == TOOL and not _belongs_to(part, before)):
                messages.append(Message(role=role, parts=[part]))
            else:
                part.call_id = ""
                before.parts.append(part)
        for index, message in enumerate(messages):
            message.id = f"{identity}/{index}" if index else identity
            message.timestamp, message.aside = stamp, aside
            message.content = joined_text(message.parts or [])
            if message.role == USER and is_resume_block(message.content):
                message.aside, message.extra = True, {"resume_block": True}
        return messages

    def _parts(self, blocks: list[Block | str], record_id: str) -> list[Part]:
        """Return every block as a part. The images of a tool result follow it and have its call id."""
        parts: list[Part] = []
        images = 0
        for block in blocks:
            if isinstance(block, str):
                parts.append(Part(TEXT, text=block))
                continue
            kind = block.type
            if kind == TOOL_RESULT and type(block.content) is str:  # a fast path: half of all blocks
                call = block.tool_use_id or ""
                name, failed = self.calls.pop(call, ""), block.is_error is True
                parts.append(Part(TOOL_RESULT, call_id=call, name=name, output=block.content, is_error=failed))
            elif kind == TEXT:
                parts.append(Part(TEXT, text=block.text or ""))
            elif kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
                call, name = block.id or "", block.name or ""
                self.calls[call] = name
                if name not in self.about.tools:
                    self.about.tools.append(name)
                parts.append(Part(TOOL_CALL, id=call, name=name, input=block.input))
            elif kind == TOOL_RESULT or kind.endswith("_tool_result"):
                images = self._result(parts, block, record_id, images)
            elif kind == THINKING:
                parts.append(Part(THINKING, text=block.thinking or ""))
            elif kind == "redacted_thinking":
                parts.append(Part(THINKING))
            elif kind in ("image", "document"):
                parts.append(_by_reference(block, f"{self.key}#{record_id}/{images}"))
                images += 1
            else:
                note(self.counts.unknown, f"block {kind or 'without type'}")
                parts.append(Part(kind or "unknown", text=block.text or ""))
        return parts

    def _result(self, parts: list[Part], block: Block, record_id: str, images: int) -> int:
        call = block.tool_use_id or ""
        output, media = self._output(block.content)
        parts.append(
            Part(
                TOOL_RESULT,
                call_id=call,
                name=self.calls.pop(call, ""),
                output=output,
                is_error=bool(block.is_error),
            )
        )
        for image in media:
            part = _by_reference(image, f"{self.key}#{record_id}/{images}")
            part.call_id = call
            parts.append(part)
            images += 1
        return images

    def _output(self, content: Content) -> tuple[str, list[Block]]:
        """Return the text of a tool result, and the images and documents in it."""
        if isinstance(content, str):
            return content, []
        if isinstance(content, dict):
            return msgspec.json.encode(content).decode("utf-8"), []
        texts: list[str] = []
        media: list[Block] = []
        for block in content or ():
            if isinstance(block, str):
                texts.append(block)
            elif block.type in ("image", "document"):
                media.append(block)
            elif block.type == "tool_reference":
                texts.append(block.tool_name or block.name or "")
            else:
                if block.type != TEXT:
                    note(self.counts.unknown, f"result {block.type or 'without type'}")
                texts.append(block.text or block.title or "")
        return "\n".join(texts), media

    # ── our own records ──────────────────────────────────────────────────────────────────────────────

    def _marked(self, mark: Mark, record: Record, content: Content, role: str) -> list[Message]:
        """Return a record that we wrote as the message that it was made from."""
        if mark.added:
            note(self.counts.skipped, "added by cortext")
            return []
        message = mark.restored(self.literal(record, content, role), self.counts.damaged)
        if mark.model and message.role == ASSISTANT:
            self.about.model = mark.model
        return [message]

    def literal(self, record: Record, content: Content, role: str) -> Message:
        """Return a record as one message, its texts unchanged."""
        stamp, identity = timestamp(record), record.uuid or ""
        if not isinstance(content, list):
            text = content if isinstance(content, str) else ""
            return Message(role=role, content=text, timestamp=stamp, id=identity)
        parts = self._parts(content, identity)
        if parts and all(part.type == TOOL_RESULT for part in parts):
            role = TOOL
        message = Message(role=role, content=joined_text(parts), timestamp=stamp, id=identity, parts=parts)
        if len(parts) == 1 and parts[0].type == TEXT:
            message.parts = None
        return message

    def _is_aside(self, record: Record) -> bool:
        return self.aside or bool(record.isSidechain)


def timestamp(record: Record) -> str:
    """Return the record's time in our format."""
    return moment(record.timestamp)


def _belongs_to(part: Part, result: Message) -> bool:
    """Whether a part is an image or file inside this tool result."""
    return part.type in (IMAGE, FILE) and bool(result.parts) and part.call_id == (result.parts or [part])[0].call_id


def text_of(content: Content) -> str:
    """Return the plain text of content in any form."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n\n".join(block if isinstance(block, str) else block.text or "" for block in content)
    return ""


def _by_reference(block: Block, position: str) -> Part:
    """Return an image or document as a reference, `position` if it is inline: its bytes stay in the transcript."""
    source = block.source
    kind = IMAGE if block.type == "image" else FILE
    reference = (source.url or source.file_id) if source else None
    return Part(kind, ref=reference or position, media_type=(source.media_type if source else "") or "")


# ── a summary ────────────────────────────────────────────────────────────────────────────────────────

_OPENING = "This session is being continued from a previous conversation"
_BEGIN = ("<summary>", "\nSummary:\n")
# Where the instructions to the model begin: how to continue, and where to find the old messages.
_END = ("</summary>", "\nIf you need specific details from before", "\nPlease continue the conversation from")


def summary_text(text: str) -> str:
    """Return the summary itself. A text of any other form is returned unchanged."""
    if not text.startswith((_OPENING, "<analysis>", "<summary>")):
        return text
    rest = text
    for marker in _BEGIN:
        _, found, after = rest.partition(marker)
        rest = after if found else rest
    if rest is text:
        rest = text.partition("\n\n")[2]  # without the opening sentence
    for marker in _END:
        rest = rest.partition(marker)[0]
    return rest.strip() or text
