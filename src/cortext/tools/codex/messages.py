"""Builds messages from the lines of a Codex rollout: one for each record, with the thinking before it.

An answer of the model consists of several records, and its token usage comes after them; a reasoning record belongs to
the answer after it. So the records of an open answer are held back until it is complete.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec

from cortext.model import clock
from cortext.model.message import (
    ASSISTANT,
    BEGINNING,
    INSTRUCTIONS,
    SYSTEM,
    TEXT,
    THINKING,
    TOOL,
    TOOL_RESULT,
    USER,
    Message,
    Part,
    is_empty_message,
    joined_text,
)
from cortext.model.tokens import LIMITS
from cortext.tools.base import About, Counts
from cortext.tools.codex import records
from cortext.tools.codex.records import (
    BEGIN,
    ENDING_EVENTS,
    EVENT,
    HEADER_SIZE,
    ITEM,
    KIND,
    SKIPPED,
    SKIPPED_EVENTS,
    Item,
    ItemLine,
    Items,
    Mark,
)
from cortext.tools.shared.commands import RESUMED, command_in
from cortext.tools.shared.lines import WITHOUT_CONTENT, as_utf8, derived_id, note, place

_RESUMED = RESUMED.encode()
_DEVELOPER = re.compile(rb'message"(?:,"(?:id|status|phase)":"[^"]*")*,"role":"(?:developer|system)"')
_SUMMARY = re.compile(r"Another language model started to solve this problem.*?your own analysis:\n", re.DOTALL)
_INFORMATIVE = ("compacted", "event thread_name_updated", "event thread_rolled_back")
_COMPLETE = (b"}", b"}\r", b"} ")  # how a complete line ends
_KIND_SIZE = len(KIND)
_ITEM_SIZE = len(ITEM)
_EVENT_SIZE = len(EVENT)
_KEPT_TURNS = 50
_KEPT_CALLS = 200
_COUNTED = b"token_count"
_LIMITED = b'"rate_limits"'
_NONE: tuple[Message, ...] = ()


class MessageBuilder:
    """Builds messages from lines, and holds back what later lines may complete."""

    def __init__(self, key: str, about: About, counts: Counts, *, aside: bool = False, first_ordinal: int = 0) -> None:
        self.key, self.about, self.counts = key, about, counts
        self.aside = aside
        self.first_ordinal = first_ordinal  # lines before it were inherited from another thread
        self.path = ""
        self.items = Items(key, about, counts)
        self.last = ""  # id of the newest message that is not an aside
        self.next_parent: str | None = None  # id of the parent of the next message, if that is not `last`
        self.model = about.model
        self.limits: dict[str, int] = {}  # when the limits of the subscription are reset, as recorded last
        self.turns: deque[str] = deque(maxlen=_KEPT_TURNS)  # for each user message, the id of the message before it
        self.held_from = -1  # offset of the first record held back, where the next reading begins; -1: none
        self._thinking: list[Part] = []
        self._thinking_id = self._thinking_time = ""
        self._answer: list[Message] = []
        self._summary = ""  # id of the summary that the last compaction made
        self._our_rows: list[ItemLine] = []  # the records so far of a message that we wrote
        self._minute = "-"  # the start of timestamps that need no conversion

    def state(self) -> dict[str, Any]:
        """Return what a later reading needs, for the cursor."""
        calls = list(self.items.calls.items())[-_KEPT_CALLS:]
        turns = list(self.turns)
        return {
            "last": self.last,
            "follows": self.next_parent,
            "model": self.model,
            "limits": self.limits,
            "calls": dict(calls),
            "turns": turns,
            "notes": self.about.notes,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue where another reading ended."""
        self.last, self.next_parent, self.model = state.get("last", ""), state.get("follows"), state.get("model", "")
        self.about.notes = int(state.get("notes") or 0)
        self.items.calls, self.limits = dict(state.get("calls") or {}), dict(state.get("limits") or {})
        self.turns.extend(state.get("turns") or ())

    def finish(self, *, is_final: bool) -> Sequence[Message]:
        """Return what is held back at the end of a file; only the open answer if the file may still grow."""
        if not is_final:
            return self._flush_answer()
        if self._our_rows:
            note(self.counts.damaged, "incomplete message")
            self._our_rows.clear()
        ready = self._flush()
        self.held_from = -1
        return ready

    # ── one line ─────────────────────────────────────────────────────────────────────────────────────

    def add_line(self, line: bytes, begin: int, number: str = "") -> Sequence[Message]:
        """Return the messages that this line completes.

        `begin` is its offset; `number` tells apart several records on one line.
        """
        start = line.find(KIND, 14, HEADER_SIZE) + _KIND_SIZE
        if start < _KIND_SIZE or not line.startswith(BEGIN):
            return self._unusual_line(line, begin, number)
        name: str | None = "developer message"
        kind = event = b""
        if line.startswith(ITEM, start):
            inner = start + _ITEM_SIZE
            if not line.startswith(b"m", inner) or not _DEVELOPER.match(line, inner) or _RESUMED in line:
                return self._item(line, begin, number)
        elif line.startswith(EVENT, start):
            inner = start + _EVENT_SIZE
            event = line[inner : line.find(b'"', inner, inner + HEADER_SIZE)]
            is_ending = event in ENDING_EVENTS and (self._answer or self._thinking)
            has_limits = event == _COUNTED and _LIMITED in line
            name = None if is_ending or has_limits else SKIPPED_EVENTS.get(event)
        else:
            kind = line[start : line.find(b'"', start, start + HEADER_SIZE)]
            name = SKIPPED.get(kind)
        if line.find(BEGIN, 1) > 0 or not line.endswith(_COMPLETE):
            return self._damaged_line(line, begin)
        if name is None:
            return self._other_record(
                "event " if event else "", (kind or event).decode("utf-8", "replace"), line, begin
            )
        skipped = self.counts.skipped
        skipped[name] = skipped.get(name, 0) + 1
        self.about.notes += not (kind or event or self.aside)
        return _NONE

    def _unusual_line(self, line: bytes, begin: int, number: str) -> Sequence[Message]:
        """Add a line that does not begin as usual: another order of keys, an old record without payload, or damage."""
        try:
            record = records.anything.decode(line)
            kind = record.type
            if kind == "response_item":
                return self._item(line, begin, number)
            if bytes(record.payload) != b"null":
                if kind == "event_msg":
                    event = str(records.values.decode(record.payload).get("type"))
                    return self._other_record("event ", event, line, begin)
                return self._other_record("", kind, line, begin)
            if kind:
                self.items.line, self.items.begin, self.items.number = line, begin, number
                return self._row(ItemLine(payload=records.bare_items.decode(line)), begin)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, AttributeError):
            return self._damaged_line(line, begin)
        if (
            record.record_type or b'"timestamp"' in line
        ):  # the oldest files have the metadata without a record around it
            note(self.counts.skipped, record.record_type or "session_meta")
        else:
            note(self.counts.unknown, "without kind")
        return _NONE

    def _damaged_line(self, line: bytes, begin: int) -> Sequence[Message]:
        """Add every record that can be recovered from a line that is not exactly one valid record."""
        found, is_complete = records.split_records(line)
        is_single = len(found) == 1 and len(found[0]) == len(line)
        if is_single and (valid := as_utf8(line)) is not None:
            return self.add_line(valid, begin)
        if is_single or not is_complete:
            note(self.counts.damaged, "unexpected shape" if is_single else "not JSON")
            place(self.counts, self.path, begin)
        ready: list[Message] = []
        for number, record in enumerate(() if is_single else found):
            ready += self.add_line(record, begin, f"/{number}")
        return ready

    def _other_record(self, event: str, kind: str, line: bytes, begin: int) -> Sequence[Message]:
        """Count a record that is not a message; use the few that say something about the conversation."""
        is_known = kind in (records.EVENTS if event else records.BOOKKEEPING)
        name = event + kind
        note(self.counts.skipped if is_known else self.counts.unknown, name)
        try:
            if name == "token_usage_record":
                return self._add_usage(records.usages.decode(line).payload.usage)
            if name == "event token_count" and (self._answer or _LIMITED in line):
                counted = records.usages.decode(line).payload
                self.limits = counted.resets or self.limits
                return self._add_usage(counted.info.last_token_usage if counted.info else None)
            if name == "turn_context":
                self.model = records.turns.decode(line).payload.model or self.model
                self.about.model = self.model
                return _NONE
            payload = records.events.decode(line).payload if name in _INFORMATIVE else records.Event()
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._damaged_line(line, begin)
        if name == "compacted":
            self._set_summary(payload.message)
        elif name == "event thread_name_updated":
            self.about.title = payload.thread_name or self.about.title
        elif name == "event thread_rolled_back":
            return self._roll_back(payload.num_turns or 0)
        elif name in ("event task_complete", "event turn_aborted"):
            return self._flush()
        return _NONE

    # ── one item ─────────────────────────────────────────────────────────────────────────────────────

    def _item(self, line: bytes, begin: int, number: str) -> Sequence[Message]:
        try:
            row = records.items.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._damaged_line(line, begin)
        items = self.items
        items.line, items.begin, items.number = line, begin, number
        if self.first_ordinal and int(records.ordinal_of(line) or self.first_ordinal) < self.first_ordinal:
            note(self.counts.skipped, "inherited from the parent thread")
            return _NONE
        return self._row(row, begin)

    def _row(self, row: ItemLine, begin: int) -> Sequence[Message]:
        if row.cortext is not None:
            return self._our_record(row, row.cortext, begin)
        item = row.payload
        if item.type == "reasoning":
            return self._reasoning(item, row.timestamp, begin)
        role, content, parts = self.items.read(item)
        if not role:
            return _NONE
        timestamp = row.timestamp
        if timestamp[:17] != self._minute or len(timestamp) != 24:
            timestamp = self._normalised(timestamp)
        message = Message(role=role, content=content, timestamp=timestamp, id=self.items.id_of(item), parts=parts)
        if is_empty_message(message):
            note(self.counts.skipped, WITHOUT_CONTENT)
            return _NONE
        if role == ASSISTANT:
            return self._add_to_answer(message, row)
        if role == SYSTEM and (skill := records.skill_in(content)):
            message.extra = {INSTRUCTIONS: f"skill {skill}"}
        if item.role in ("developer", "system") and RESUMED not in content:
            self.about.notes += not self.aside
            note(self.counts.skipped, "developer message")
            return _NONE
        if role == USER and RESUMED in content:
            message.aside, message.extra = True, {"resume_block": True}
        elif item.type == "agent_message":
            message.aside = True
        if self._answer or self._thinking:
            return [*self._flush(), self._link(message)]
        return (self._link(message),)

    def _add_to_answer(self, message: Message, row: ItemLine) -> Sequence[Message]:
        """Hold back a message of the model's answer until the answer is complete."""
        if row.metadata is not None and row.metadata.compaction_output:
            note(self.counts.skipped, "summary of a compaction")
            self.about.summary = message.content
            # It is not part of what was said; but if its usage follows, the call was paid for.
            message.aside, message.model, self._summary = True, self.model, message.id
            self._answer.append(message)
            return _NONE
        message.model = self.model
        if self._thinking:
            text = [Part(TEXT, text=message.content)] if message.content and not message.parts else []
            message.parts = [*self._thinking, *text, *(message.parts or ())]
            self._thinking, self.held_from = [], -1
        self._answer.append(message)
        return _NONE

    def _normalised(self, timestamp: str) -> str:
        """Return a timestamp in our format. If it already was, others of the same minute need no conversion."""
        normalised = clock.normalise(timestamp)
        self._minute = timestamp[:17] if normalised and normalised == timestamp else "-"
        return normalised

    # ── our own records ──────────────────────────────────────────────────────────────────────────────

    def _our_record(self, row: ItemLine, mark: Mark, begin: int) -> Sequence[Message]:
        """Add a record that we wrote; return the original message with the last record of it."""
        if mark.added:
            note(self.counts.skipped, "added by cortext")
            return _NONE
        if not mark.more:
            self._our_rows.clear()
            self.held_from = begin
        self._our_rows.append(row)
        first = self._our_rows[0].cortext or mark
        if len(self._our_rows) < first.of:
            return _NONE
        rows, self._our_rows = self._our_rows, []
        self.held_from = -1
        message = self._original(rows, first)
        return [*self._flush(), *([] if message is None else [self._link(message)])]

    def _original(self, rows: list[ItemLine], mark: Mark) -> Message | None:
        for row in rows:  # so that later results find the names of their calls
            if row.payload.type in records.CALLS:
                self.items.call(row.payload)
        try:
            if message := mark.original():
                return message
        except msgspec.ValidationError:
            note(self.counts.damaged, "unexpected shape")
        parts: list[Part] = []
        for row in rows:
            kind = row.payload.type
            if kind in records.CALLS:
                parts += self.items.call(row.payload)
            elif kind in records.RESULTS:
                parts += self.items.result(row.payload)
            elif isinstance(row.payload.content, list):
                parts += (Part(TEXT, text=item.text) for item in row.payload.content if item.text is not None)
        if not parts:
            return None
        role = TOOL if parts[0].type == TOOL_RESULT else rows[0].payload.role or ASSISTANT
        timestamp = self._normalised(rows[0].timestamp)
        message = Message(role=role, content=joined_text(parts), timestamp=timestamp, id=mark.id)
        message.model, message.tokens, message.usage = mark.model, mark.tokens, mark.usage
        if len(parts) > 1 or parts[0].type != TEXT:
            message.parts = parts
        return message

    # ── thinking, usage, rollback ────────────────────────────────────────────────────────────────────

    def _reasoning(self, item: Item, timestamp: str, begin: int) -> Sequence[Message]:
        contents = item.summary or []
        if isinstance(item.content, list):
            contents = [*contents, *item.content]
        text = "\n\n".join([content.text for content in contents if content.text])
        if not text:
            note(self.counts.skipped, "encrypted reasoning")
            return _NONE
        if not self._thinking:
            self._thinking_id, self._thinking_time = item.id or derived_id(self.items.page, begin), timestamp
            self.held_from = begin
        self._thinking.append(Part(THINKING, text=text))
        return _NONE

    def _flush(self) -> Sequence[Message]:
        """Return everything that was held back."""
        if not self._thinking:
            return self._flush_answer()
        return [*self._flush_answer(), *self._flush_thinking()]

    def _flush_thinking(self) -> Sequence[Message]:
        """Return thinking without an answer as a message of its own."""
        if not self._thinking:
            return _NONE
        message = Message(
            role=ASSISTANT,
            timestamp=self._normalised(self._thinking_time),
            id=self._thinking_id,
            model=self.model,
            parts=self._thinking,
        )
        self._thinking, self.held_from = [], -1
        return (self._link(message),)

    def _flush_answer(self) -> Sequence[Message]:
        if not self._answer:
            return _NONE
        ready, self._answer = self._answer, []
        return [self._link(message) for message in ready if message.usage or message.id != self._summary]

    def _add_usage(self, usage: dict[str, Any] | None) -> Sequence[Message]:
        """Set the usage, which comes after an answer, on its last message; return the answer."""
        if usage and self._answer:
            self._answer[-1].usage = usage
            if self.limits:
                self._answer[-1].extra = {**(self._answer[-1].extra or {}), LIMITS: self.limits}
            tokens = usage.get("output_tokens")
            # If an answer has several messages, the tokens of each are unknown.
            if len(self._answer) == 1 and isinstance(tokens, int):
                self._answer[0].tokens = tokens
        return self._flush_answer()

    def _set_summary(self, text: str | None) -> None:
        if text:
            self.about.summary = _SUMMARY.sub("", text, count=1)

    def _roll_back(self, turns: int) -> Sequence[Message]:
        """Undo the last turns (older files): the next message follows the message before them."""
        ready = self._flush()
        if 0 < turns <= len(self.turns):
            for _ in range(turns):
                self.next_parent = self.turns.pop()
        return ready

    def _link(self, message: Message) -> Message:
        """Set the parent of a message if it does not follow the one before; return it."""
        message.aside = message.aside or self.aside
        if message.aside:
            return message
        before, self.next_parent = self.last if self.next_parent is None else self.next_parent, None
        if before != self.last:
            message.parent = before or BEGINNING
        if message.role == USER:
            self.turns.append(before)
            if not self.about.command and (name := command_in(message.content)[0]):
                self.about.command = f"/{name}"
        self.last = message.id
        return message
