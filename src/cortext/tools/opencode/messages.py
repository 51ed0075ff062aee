"""OpenCode's messages in our words.

One message of OpenCode's is one call of the model: the assistant's words and calls become one message, the result
of each call one more. Side agents' words are `aside`, replies that failed or were stopped `partial`.
"""

from __future__ import annotations

import re
import time
from typing import Any

import msgspec

from cortext.model.message import (
    ASSISTANT,
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
from cortext.tools.base import About, Counts
from cortext.tools.opencode.mark import Mark, notes_text
from cortext.tools.opencode.records import (
    STEP,
    MessageRecord,
    PartRecord,
    PartRows,
    Records,
    State,
    TextRecord,
    ToolRecord,
    plain_text,
)
from cortext.tools.shared.lines import NOT_UNDERSTOOD, RECORD_ERRORS, note, value_of

RESUME_BLOCK = "[RESUMED CONVERSATION]"

# What our command files begin with, so that the stored expansion tells what was typed.
_TYPED = re.compile(r"<command-name>/([^<\s]+)</command-name>\n<command-args>(.*?)</command-args>", re.DOTALL)


class Moments:
    """Milliseconds since 1970 as timestamps; those of one minute share the costly part."""

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


class Maker:
    """Makes messages out of records, and notes what they tell about the session."""

    def __init__(self, path: str, about: About, counts: Counts) -> None:
        self.about = about
        self.counts = counts
        self.records = Records(path, counts)
        self.moment = Moments()

    def made(
        self, session: str, identity: str, record: MessageRecord, rows: PartRows, *, aside: bool, partial: bool
    ) -> list[Message]:
        """The messages of one record of OpenCode's, in order; one that is not understood costs the others nothing."""
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

    # ── the user's ───────────────────────────────────────────────────────────────────────────────────

    def _user(self, session: str, identity: str, record: MessageRecord, rows: PartRows, aside: bool) -> list[Message]:
        parts: list[Part] = []
        own: Mark | None = None
        command: tuple[str, str] | None = None
        block = False
        for row, kind, part in self.records.parts(rows):
            if kind == TEXT:
                mark = part.metadata.cortext if part.metadata is not None else None
                # In a conversation that we wrote, the words only look like those of a block or a command.
                block = block or ((mark is None or not mark.id) and RESUME_BLOCK in part.text)
                typed = self._typed(part.text, mark) if command is None else None
                if typed is not None:
                    command = typed
                elif mark is not None and mark.added:
                    note(self.counts.skipped, "added by us")
                elif part.synthetic or part.ignored:
                    note(self.counts.skipped, "synthetic text" if part.synthetic else "ignored text")
                else:
                    own = own or mark
                    parts.append(Part(TEXT, part.text) if mark is None else _marked(part.text, mark))
            elif kind == "file":
                parts.append(_file(session, row, part))
            elif kind == "compaction":
                note(self.counts.skipped, kind)
                return []
            elif kind == "subtask":
                command = (part.command, "") if part.command else command
                if not part.command:
                    parts.append(Part(TEXT, part.prompt))
            else:
                self._other(kind)
        if command is not None:
            parts.insert(0, Part(TEXT, f"/{command[0]} {command[1]}".rstrip()))
            if command[0].startswith("workspace") and not (aside or block or self.about.command):
                self.about.command = f"/{command[0]}"
        if not parts:
            return []
        message = Message(role=USER, id=identity, timestamp=self.moment(record.time.created if record.time else 0))
        _fill(message, parts)
        if own is not None:
            _take_mark(message, own)
        message.aside = aside or block
        if block:
            message.extra = {"resume_block": True}
        return [message]

    def _typed(self, text: str, mark: Mark | None) -> tuple[str, str] | None:
        """The slash command that a text is the expansion of."""
        if mark is not None and mark.id:
            return None
        if mark is not None and mark.command:
            found = (mark.command, mark.arguments)
        elif (match := _TYPED.match(text)) is not None:
            found = (match[1], match[2])
        else:
            return None
        note(self.counts.skipped, "command expansion")
        return found

    # ── the assistant's ──────────────────────────────────────────────────────────────────────────────

    def _assistant(
        self, session: str, identity: str, record: MessageRecord, rows: PartRows, aside: bool, partial: bool
    ) -> list[Message]:
        model = f"{record.provider}/{record.model}" if record.provider else record.model
        stamp = self.moment(record.time.created if record.time is not None else 0)
        reply = Reply(identity, Message(role=ASSISTANT, timestamp=stamp, model=model, aside=aside, partial=partial))
        usage = record.tokens
        if usage and (usage.get("output") or usage.get("input")):
            output = usage.get("output")
            reply.usage, reply.tokens = (
                usage,
                _whole(output),
            )
        parts = reply.parts
        for row, kind, part in self.records.parts(rows):
            if kind == "text":
                parts += self._said(part, reply)
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
                self._other(kind)
        if record.summary is True:
            self.about.summary = joined_text(parts) or self.about.summary
            note(self.counts.skipped, "compaction summary")
            return []
        made = reply.finished()
        if not made:
            note(self.counts.skipped, "reply without words")
        elif model and not aside:
            self.about.model = model
        return made

    def _said(self, part: TextRecord, reply: Reply) -> list[Part]:
        """A text of the assistant's, which may bear our mark."""
        mark = part.metadata.cortext if part.metadata is not None else None
        if mark is None:
            return [Part(TEXT, part.text)] if part.text else []
        if mark.added:
            note(self.counts.skipped, "added by us")
            return []
        reply.own = reply.own or mark
        return [_marked(part.text, mark)]

    def _call(self, session: str, row: str, part: ToolRecord, reply: Reply) -> None:
        state = part.state or State()
        call = part.call or row
        name = part.tool
        given = state.input
        metadata = state.metadata
        mark = metadata.cortext if metadata is not None else None
        if mark is not None:
            reply.own = reply.own or mark
            call, name = mark.call or call, mark.name or name
            given = given.get("input") if mark.wrapped and isinstance(given, dict) else given
        reply.parts.append(Part(TOOL_CALL, id=call, name=name, input=given))
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
        for part_noted in notes:
            reply.result(identity, part_noted, "")
        for number, attachment in enumerate(state.attachments or ()):
            kind = IMAGE if attachment.mime.startswith("image/") else "file"
            ref, name = f"{session}#{row}/{number}", attachment.filename or ""
            reply.result(identity, Part(kind, ref=ref, media_type=attachment.mime, name=name), "")

    def _other(self, kind: str) -> None:
        known = kind in ("compaction", "subtask")
        note(self.counts.skipped if known else self.counts.unknown, kind or "part without type")


_LONGEST_ADDRESS = 8192


def _whole(number: Any) -> int | None:
    """A count that may have been stored as another kind of number."""
    return int(number) if isinstance(number, int | float) and abs(number) < 2**63 else None


class Reply:
    """The assistant's words and calls with their results; older versions put several rounds into one record."""

    __slots__ = ("_before", "_like", "_round", "identity", "own", "parts", "results", "tokens", "usage")

    def __init__(self, identity: str, like: Message) -> None:
        self.identity = identity
        self.parts: list[Part] = []
        self.results: list[Message] = []
        self.own: Mark | None = None
        self.usage: dict[str, Any] | None = None
        self.tokens: int | None = None
        self._like = like
        self._before: list[Message] = []
        self._round = 1

    def result(self, identity: str, part: Part, stamp: str) -> None:
        """A part of a tool's answer; several with one id are one message."""
        if self.results and self.results[-1].id == identity:
            parts = self.results[-1].parts
            assert parts is not None
            parts.append(part)
            return
        like = self._like
        self.results.append(
            Message(
                role=TOOL,
                id=identity,
                timestamp=stamp or like.timestamp,
                parts=[part],
                aside=like.aside,
                partial=like.partial,
            )
        )

    def next_round(self) -> list[Part]:
        """New words and calls begin in the same record: their list."""
        self._before = self.finished()
        self._round += 1
        self._like = msgspec.structs.replace(self._like, content="", parts=None)
        self.parts, self.results = [], []
        self.usage = self.tokens = self.own = None
        return self.parts

    def finished(self) -> list[Message]:
        """All messages so far."""
        if not self.parts:
            return [*self._before, *self.results]
        message = self._like
        message.id = self.identity if self._round == 1 else f"{self.identity}.{self._round}"
        message.usage, message.tokens = self.usage, self.tokens
        _fill(message, self.parts)
        if self.own is not None:
            _take_mark(message, self.own)
        return [*self._before, message, *self.results]


def _marked(text: str, mark: Mark) -> Part:
    """What a text of ours stands for."""
    if mark.part is None:
        return Part(TEXT, text)
    if mark.part.type == TOOL_RESULT:
        mark.part.output = text
    return mark.part


def _fill(message: Message, parts: list[Part]) -> None:
    """A plain text needs no parts."""
    if len(parts) == 1 and parts[0].type == TEXT:
        message.content = parts[0].text
    else:
        message.content, message.parts = "\n\n".join([part.text for part in parts if part.type == TEXT]), parts


def _take_mark(message: Message, mark: Mark) -> None:
    """What we said about a message when we wrote it."""
    message.id = mark.id or message.id
    message.role = mark.role or message.role
    message.timestamp = mark.timestamp or message.timestamp


def _file(session: str, row: str, part: PartRecord) -> Part:
    """A file or image by reference: to where it lies, else to this record."""
    kind = IMAGE if part.mime.startswith("image/") else "file"
    url = memoryview(part.url)
    inline = len(url) > _LONGEST_ADDRESS or bytes(url[:6]).lower() == b'"data:'
    ref = f"{session}#{row}/0" if inline or not url else plain_text(value_of(url))
    return Part(kind, ref=ref, media_type=part.mime, name=part.filename or "")
