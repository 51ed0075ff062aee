"""Convert OpenCode's messages to ours.

One message of OpenCode is one request to the model: the assistant's text and tool calls become one message, the result
of each call another. Messages of side agents are `aside`; replies that failed or were stopped are `partial`.
"""

from __future__ import annotations

import re
import time
from typing import Any

import msgspec

from cortext.model.message import (
    ASSISTANT,
    FILE,
    IMAGE,
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
from cortext.model.tokens import used
from cortext.tools.base import About, Counts
from cortext.tools.opencode.records import (
    STEP,
    Mark,
    MessageRecord,
    PartRecord,
    PartRows,
    Records,
    State,
    TextRecord,
    ToolRecord,
    notes_text,
    plain_text,
)
from cortext.tools.shared.commands import RESUMED
from cortext.tools.shared.lines import NOT_UNDERSTOOD, RECORD_ERRORS, note, value_of

# The beginning of our command files, by which the stored expansion shows what was typed.
_TYPED_COMMAND = re.compile(r"<command-name>/([^<\s]+)</command-name>\n<command-args>(.*?)</command-args>", re.DOTALL)


class Moments:
    """Formats milliseconds since 1970 as timestamps; the part up to the minute is cached."""

    def __init__(self) -> None:
        self._minutes: dict[int, str] = {}

    def __call__(self, milliseconds: float | None) -> str:
        if not milliseconds or not 0 < milliseconds < 1e14:
            return ""
        minute, rest = divmod(int(milliseconds), 60_000)
        text = self._minutes.get(minute)
        if text is None:
            if len(self._minutes) > 100:
                self._minutes.clear()
            text = self._minutes[minute] = time.strftime("%Y-%m-%dT%H:%M:", time.gmtime(minute * 60))
        digits = str(100_000 + rest)
        return f"{text}{digits[1:3]}.{digits[3:]}Z"


class MessageBuilder:
    """Builds messages from records, and collects what they say about the session."""

    def __init__(self, path: str, about: About, counts: Counts) -> None:
        self.about = about
        self.counts = counts
        self.records = Records(path, counts)
        self.moment = Moments()

    def messages_of(
        self, session: str, identity: str, record: MessageRecord, rows: PartRows, *, aside: bool, partial: bool
    ) -> list[Message]:
        """Return the messages of one record, in order; none if it cannot be interpreted, which is counted."""
        try:
            if record.role == USER:
                return self._user(session, identity, record, rows, aside)
            if record.role == ASSISTANT:
                return self._assistant(session, identity, record, rows, aside, partial or record.error is not None)
        except RECORD_ERRORS:
            note(self.counts.damaged, NOT_UNDERSTOOD)
            return []
        note(self.counts.unknown, f"message of role {record.role or 'none'}")
        return []

    # ── the user ─────────────────────────────────────────────────────────────────────────────────────

    def _user(self, session: str, identity: str, record: MessageRecord, rows: PartRows, aside: bool) -> list[Message]:
        parts: list[Part] = []
        first_mark: Mark | None = None
        command: tuple[str, str] | None = None
        synthetic: list[str] = []
        has_block = is_note = False  # is_note: our note of an image, which the image itself follows
        for row, kind, part in self.records.parts(rows):
            if kind == TEXT:
                mark = part.metadata.cortext if part.metadata is not None else None
                is_note = mark is not None and mark.part is not None and mark.part.type == IMAGE
                # In a session that we wrote, a text may quote a resume block or a command without being one.
                has_block = has_block or ((mark is None or not mark.id) and RESUMED in part.text)
                typed = self._typed_command(part.text, mark) if command is None else None
                if typed is not None:
                    command = typed
                elif mark is not None and mark.added:
                    note(self.counts.skipped, "added by cortext")
                elif part.synthetic or part.ignored:
                    note(self.counts.skipped, "synthetic text" if part.synthetic else "ignored text")
                    synthetic += [part.text] if part.synthetic else []
                else:
                    first_mark = first_mark or mark
                    parts.append(Part(TEXT, part.text) if mark is None else _restored_part(part.text, mark))
            elif kind == "file" and is_note:
                is_note = False
                note(self.counts.skipped, "added by cortext")
            elif kind == "file":
                parts.append(_file(session, row, part))
                if synthetic and parts[-1].type == FILE:
                    parts[-1].text = synthetic.pop()  # the contents, as the model got them
            elif kind == "compaction":
                note(self.counts.skipped, kind)
                return []
            elif kind == "subtask":
                command = (part.command, "") if part.command else command
                if not part.command:
                    parts.append(Part(TEXT, part.prompt))
            else:
                self._count_other(kind)
        self.about.notes += 0 if aside else len(synthetic)
        if command is not None:
            parts.insert(0, Part(TEXT, f"/{command[0]} {command[1]}".rstrip()))
            if command[0].startswith("workspace") and not (aside or has_block or self.about.command):
                self.about.command = f"/{command[0]}"
        if not parts:
            return []
        message = Message(role=USER, id=identity, timestamp=self.moment(record.time.created if record.time else 0))
        _fill(message, parts)
        if first_mark is not None:
            _restore_from_mark(message, first_mark)
        message.aside = aside or has_block
        if has_block:
            message.extra = {"resume_block": True}
        return [message]

    def _typed_command(self, text: str, mark: Mark | None) -> tuple[str, str] | None:
        """Return the name and arguments of the slash command that expanded to this text; None if none did."""
        if mark is not None and mark.id:
            return None
        if mark is not None and mark.command:
            found = (mark.command, mark.arguments)
        elif (match := _TYPED_COMMAND.match(text)) is not None:
            found = (match[1], match[2])
        else:
            return None
        note(self.counts.skipped, "command expansion")
        return found

    # ── the assistant ────────────────────────────────────────────────────────────────────────────────

    def _assistant(
        self, session: str, identity: str, record: MessageRecord, rows: PartRows, aside: bool, partial: bool
    ) -> list[Message]:
        model = f"{record.provider}/{record.model}" if record.provider else record.model
        stamp = self.moment(record.time.created if record.time is not None else 0)
        reply = Reply(identity, Message(role=ASSISTANT, timestamp=stamp, model=model, aside=aside, partial=partial))
        if record.tokens and used(record.tokens) is not None:
            reply.tokens = _integer(record.tokens.get("output"))
            reply.usage = {**record.tokens, "cost": record.cost} if record.cost else record.tokens
        parts = reply.parts
        for row, kind, part in self.records.parts(rows):
            if kind == "text":
                parts += self._text_parts(part, reply)
            elif kind == "reasoning":
                if part.text:
                    parts.append(Part(THINKING, part.text))
            elif kind == "tool":
                self._call(session, row, part, reply)
            elif kind == "file":
                parts.append(_file(session, row, part))
            elif kind == STEP:
                parts = reply.next_round() if reply.results else parts
            else:
                self._count_other(kind)
        if record.summary is True:
            text = joined_text(parts)
            self.about.summary = text or self.about.summary
            note(self.counts.skipped, "compaction summary")
            if not text or reply.usage is None:
                return []
            # It is the session's summary and not part of what was said, but the call was paid for.
            spent = Message(role=ASSISTANT, content=text, id=identity, timestamp=stamp, model=model, aside=True)
            spent.usage, spent.tokens = reply.usage, reply.tokens
            return [spent]
        messages = reply.finished()
        if not messages:
            note(self.counts.skipped, "empty reply")
        elif model and not aside:
            self.about.model = model
        return messages

    def _text_parts(self, part: TextRecord, reply: Reply) -> list[Part]:
        """Return the parts of a text of the assistant, which may have our annotation."""
        mark = part.metadata.cortext if part.metadata is not None else None
        if mark is None:
            return [Part(TEXT, part.text)] if part.text else []
        if mark.added:
            note(self.counts.skipped, "added by cortext")
            return []
        reply.first_mark = reply.first_mark or mark
        return [_restored_part(part.text, mark)]

    def _call(self, session: str, row: str, part: ToolRecord, reply: Reply) -> None:
        state = part.state or State()
        call = part.call or row
        name = part.tool
        arguments = state.input
        metadata = state.metadata
        mark = metadata.cortext if metadata is not None else None
        if mark is not None:
            reply.first_mark = reply.first_mark or mark
            call, name = mark.call or call, mark.name or name
            arguments = arguments.get("input") if mark.wrapped and isinstance(arguments, dict) else arguments
        reply.parts.append(Part(TOOL_CALL, id=call, name=name, input=arguments))
        if name not in self.about.tools:
            self.about.tools.append(name)
        if state.status not in ("completed", "error") or (mark is not None and mark.added):
            return
        failed = state.status == "error"
        output = plain_text(state.error if failed else state.output)
        if failed and metadata is not None and metadata.interrupted and memoryview(metadata.output):
            output = plain_text(value_of(metadata.output)) or output
        notes = mark.notes if mark is not None else []
        if notes:
            output = output.removesuffix(notes_text(notes))
        identity = mark.result if mark is not None and mark.result else row
        result = Part(TOOL_RESULT, name=name, call_id=call, output=output, is_error=failed)
        reply.result(identity, result, self.moment(state.time.end) if state.time is not None else "")
        for attached in notes:
            reply.result(identity, attached, "")
        for number, attachment in enumerate(state.attachments or ()):
            kind = IMAGE if attachment.mime.startswith("image/") else "file"
            ref, name = f"{session}#{row}/{number}", attachment.filename or ""
            reply.result(identity, Part(kind, ref=ref, media_type=attachment.mime, name=name), "")

    def _count_other(self, kind: str) -> None:
        is_known = kind in ("compaction", "subtask")
        note(self.counts.skipped if is_known else self.counts.unknown, kind or "part without type")


_LONGEST_URL = 8192


def _integer(number: Any) -> int | None:
    """Return a count that may be stored as a float; None if it is not a number."""
    return int(number) if isinstance(number, int | float) and abs(number) < 2**63 else None


class Reply:
    """The assistant's text and calls with their results; older versions store several rounds in one record."""

    __slots__ = (
        "_earlier_rounds",
        "_round",
        "_template",
        "first_mark",
        "identity",
        "parts",
        "results",
        "tokens",
        "usage",
    )

    def __init__(self, identity: str, template: Message) -> None:
        self.identity = identity
        self.parts: list[Part] = []
        self.results: list[Message] = []
        self.first_mark: Mark | None = None
        self.usage: dict[str, Any] | None = None
        self.tokens: int | None = None
        self._template = template
        self._earlier_rounds: list[Message] = []
        self._round = 1

    def result(self, identity: str, part: Part, stamp: str) -> None:
        """Add a part of a tool's result; consecutive parts with the same id form one message."""
        if self.results and self.results[-1].id == identity:
            parts = self.results[-1].parts
            assert parts is not None
            parts.append(part)
            return
        template = self._template
        self.results.append(
            Message(
                role=TOOL,
                id=identity,
                timestamp=stamp or template.timestamp,
                parts=[part],
                aside=template.aside,
                partial=template.partial,
            )
        )

    def next_round(self) -> list[Part]:
        """Start a new round in the same record; return the list for its parts."""
        self._earlier_rounds = self.finished()
        self._round += 1
        self._template = msgspec.structs.replace(self._template, content="", parts=None)
        self.parts, self.results = [], []
        self.usage = self.tokens = self.first_mark = None
        return self.parts

    def finished(self) -> list[Message]:
        """Return all messages so far."""
        if not self.parts:
            return [*self._earlier_rounds, *self.results]
        message = self._template
        message.id = self.identity if self._round == 1 else f"{self.identity}.{self._round}"
        message.usage, message.tokens = self.usage, self.tokens
        _fill(message, self.parts)
        if self.first_mark is not None:
            _restore_from_mark(message, self.first_mark)
        return [*self._earlier_rounds, message, *self.results]


def _restored_part(text: str, mark: Mark) -> Part:
    """Return the part that a text with our annotation replaces."""
    if mark.part is None:
        return Part(TEXT, text)
    if mark.part.type == TOOL_RESULT:
        mark.part.output = text
    return mark.part


def _fill(message: Message, parts: list[Part]) -> None:
    """Set the content and, unless it is a single text, the parts."""
    if len(parts) == 1 and parts[0].type == TEXT:
        message.content = parts[0].text
    else:
        message.content, message.parts = "\n\n".join([part.text for part in parts if part.type == TEXT]), parts


def _restore_from_mark(message: Message, mark: Mark) -> None:
    """Restore the id, role and timestamp that a message had when we wrote it."""
    message.id = mark.id or message.id
    message.role = mark.role or message.role
    message.timestamp = mark.timestamp or message.timestamp


def _file(session: str, row: str, part: PartRecord) -> Part:
    """Return a reference to a file or image: its URL, or this record if the data is inline."""
    kind = IMAGE if part.mime.startswith("image/") else "file"
    url = memoryview(part.url)
    inline = len(url) > _LONGEST_URL or bytes(url[:6]).lower() == b'"data:'
    ref = f"{session}#{row}/0" if inline or not url else plain_text(value_of(url))
    return Part(kind, ref=ref, media_type=part.mime, name=part.filename or "")
