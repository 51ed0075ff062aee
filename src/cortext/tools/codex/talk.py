"""Lines of a Codex rollout become messages: one record a message, its thinking in front of it.

The model's answer comes as several records and is followed by what it cost; a reasoning record belongs to
the answer after it. So the newest few are held back until that is known, and nothing else is.
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
from cortext.tools.base import About, Counts
from cortext.tools.codex import records
from cortext.tools.codex.items import BLOCK, Items
from cortext.tools.codex.mark import Mark
from cortext.tools.codex.records import (
    BEGIN,
    ENDING_EVENTS,
    EVENT,
    ITEM,
    KIND,
    LOOK,
    PASSED_OVER,
    PASSED_OVER_EVENTS,
    Item,
    ItemLine,
)
from cortext.tools.shared.lines import WITHOUT_CONTENT, as_utf8, derived_id, note, place

_BLOCK = BLOCK.encode()
_DEVELOPER = re.compile(rb'message"(?:,"(?:id|status|phase)":"[^"]*")*,"role":"(?:developer|system)"')
_COMMAND = re.compile(
    r"\[?\$(workspace-[\w-]+)(?:\]\([^)]*\))?(?:\s+(.*))?|/(workspace\.[\w.-]+)(?:\s+(.*))?", re.DOTALL
)
_SUMMARY = re.compile(r"Another language model started to solve this problem.*?your own analysis:\n", re.DOTALL)
_TELLING = ("compacted", "event thread_name_updated", "event thread_rolled_back")
_ENDS = (b"}", b"}\r", b"} ")  # a line that ends otherwise is not whole
_TO_KIND = len(KIND)
_TO_ITEM = len(ITEM)
_TO_EVENT = len(EVENT)
_TURNS_KEPT = 50
_CALLS_KEPT = 200
_NONE: tuple[Message, ...] = ()


def command_of(text: str) -> tuple[str, str]:
    """The name and arguments of a command of ours that a prompt begins with: workspace.brainstorm."""
    found = _COMMAND.fullmatch(text.strip()) if text.lstrip().startswith(("$work", "[$work", "/work")) else None
    if found is None:
        return "", ""
    if found[1]:
        return found[1].replace("-", ".", 1), found[2] or ""
    return found[3], found[4] or ""


class Talk:
    """What was said in the lines that were handed in so far, and what is still open."""

    def __init__(self, key: str, about: About, counts: Counts, *, aside: bool = False, first: int = 0) -> None:
        self.key, self.about, self.counts = key, about, counts
        self.aside = aside
        self.first = first  # lines of lower ordinals are another thread's, handed down to this one
        self.path = ""
        self.items = Items(key, about, counts)
        self.last = ""  # the newest message of the talk
        self.follows: str | None = None  # what the next message follows, where the talk went back
        self.model = about.model
        self.turns: deque[str] = deque(maxlen=_TURNS_KEPT)
        self.held = -1  # where the records begin that the next reading has to see again
        self._thinking: list[Part] = []
        self._thinking_id = self._thinking_time = ""
        self._answer: list[Message] = []
        self._ours: list[ItemLine] = []
        self._minute = "-"

    def state(self) -> dict[str, Any]:
        """What a later reading has to know of this one."""
        calls = list(self.items.calls.items())[-_CALLS_KEPT:]
        turns = list(self.turns)
        return {
            "last": self.last,
            "follows": self.follows,
            "model": self.model,
            "calls": dict(calls),
            "turns": turns,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where another reading ended."""
        self.last, self.follows, self.model = state.get("last", ""), state.get("follows"), state.get("model", "")
        self.items.calls = dict(state.get("calls") or {})
        self.turns.extend(state.get("turns") or ())

    def finish(self, *, for_good: bool) -> Sequence[Message]:
        """What is left at the end of a file. Thinking, and half a message of ours, wait for the rest of it."""
        if not for_good:
            return self._flush_answer()
        if self._ours:
            note(self.counts.damaged, "half a message")
            self._ours.clear()
        ready = self._flush()
        self.held = -1
        return ready

    # ── one line ─────────────────────────────────────────────────────────────────────────────────────

    def take(self, line: bytes, begin: int, number: str = "") -> Sequence[Message]:
        """The messages that are complete with this line, which begins at a byte; `number`: its part of a line."""
        start = line.find(KIND, 14, LOOK) + _TO_KIND
        if start < _TO_KIND or not line.startswith(BEGIN):
            return self._odd(line, begin, number)
        name: str | None = "developer message"
        kind = event = b""
        if line.startswith(ITEM, start):
            inner = start + _TO_ITEM
            if not line.startswith(b"m", inner) or not _DEVELOPER.match(line, inner) or _BLOCK in line:
                return self._item(line, begin, number)
        elif line.startswith(EVENT, start):
            inner = start + _TO_EVENT
            event = line[inner : line.find(b'"', inner, inner + LOOK)]
            if event not in ENDING_EVENTS or not (self._answer or self._thinking):
                name = PASSED_OVER_EVENTS.get(event)
            else:
                name = None
        else:
            kind = line[start : line.find(b'"', start, start + LOOK)]
            name = PASSED_OVER.get(kind)
        if line.find(BEGIN, 1) > 0 or not line.endswith(_ENDS):
            return self._glued(line, begin)
        if name is None:
            return self._beside("event " if event else "", (kind or event).decode("utf-8", "replace"), line, begin)
        skipped = self.counts.skipped
        skipped[name] = skipped.get(name, 0) + 1
        return _NONE

    def _odd(self, line: bytes, begin: int, number: str) -> Sequence[Message]:
        """A line that does not begin as usual: another order of keys, an old bare record, or damage."""
        try:
            record = records.anything.decode(line)
            kind = record.type
            if kind == "response_item":
                return self._item(line, begin, number)
            if bytes(record.payload) != b"null":
                if kind == "event_msg":
                    return self._beside("event ", str(records.values.decode(record.payload).get("type")), line, begin)
                return self._beside("", kind, line, begin)
            if kind:
                self.items.line, self.items.begin, self.items.number = line, begin, number
                return self._row(ItemLine(payload=records.bare_items.decode(line)), begin)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, AttributeError):
            return self._glued(line, begin)
        note(self.counts.skipped, record.record_type or "session_meta")
        return _NONE

    def _glued(self, line: bytes, begin: int) -> Sequence[Message]:
        """A line that is not one record: every record that can be made out in it is taken."""
        found, whole = records.split(line)
        alone = len(found) == 1 and len(found[0]) == len(line)
        if alone and (sound := as_utf8(line)) is not None:
            return self.take(sound, begin)
        if alone or not whole:
            note(self.counts.damaged, "unexpected shape" if alone else "not JSON")
            place(self.counts, self.path, begin)
        ready: list[Message] = []
        for number, record in enumerate(() if alone else found):
            ready += self.take(record, begin, f"/{number}")
        return ready

    def _beside(self, event: str, kind: str, line: bytes, begin: int) -> Sequence[Message]:
        """A record that is no word of the talk; a few of them tell something about it."""
        known = kind in (records.EVENTS if event else records.BOOKKEEPING)
        name = event + kind
        note(self.counts.skipped if known else self.counts.unknown, name)
        try:
            if name == "token_usage_record":
                return self._cost(records.usages.decode(line).payload.usage)
            if name == "event token_count" and self._answer:
                info = records.usages.decode(line).payload.info
                return self._cost(info.last_token_usage if info else None)
            if name == "turn_context":
                self.model = records.turns.decode(line).payload.model or self.model
                self.about.model = self.model
                return _NONE
            told = records.events.decode(line).payload if name in _TELLING else records.Event()
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._glued(line, begin)
        if name == "compacted":
            self._summary(told.message)
        elif name == "event thread_name_updated":
            self.about.title = told.thread_name or self.about.title
        elif name == "event thread_rolled_back":
            return self._roll_back(told.num_turns or 0)
        elif name in ("event task_complete", "event turn_aborted"):
            return self._flush()
        return _NONE

    # ── one item of the conversation ─────────────────────────────────────────────────────────────────

    def _item(self, line: bytes, begin: int, number: str) -> Sequence[Message]:
        try:
            row = records.items.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._glued(line, begin)
        items = self.items
        items.line, items.begin, items.number = line, begin, number
        if self.first and int(records.ordinal_of(line) or self.first) < self.first:
            note(self.counts.skipped, "handed down by the parent thread")
            return _NONE
        return self._row(row, begin)

    def _row(self, row: ItemLine, begin: int) -> Sequence[Message]:
        if row.cortext is not None:
            return self._own(row, row.cortext, begin)
        item = row.payload
        if item.type == "reasoning":
            return self._reason(item, row.timestamp, begin)
        role, content, parts = self.items.read(item)
        if not role:
            return _NONE
        moment = row.timestamp
        if moment[:17] != self._minute or len(moment) != 24:
            moment = self._moment(moment)
        message = Message(role=role, content=content, timestamp=moment, id=self.items.id_of(item), parts=parts)
        if is_empty_message(message):
            note(self.counts.skipped, WITHOUT_CONTENT)
            return _NONE
        if role == ASSISTANT:
            return self._answered(message, row)
        if item.role in ("developer", "system") and BLOCK not in content:
            note(self.counts.skipped, "developer message")
            return _NONE
        if role == USER and BLOCK in content:
            message.aside, message.extra = True, {"resume_block": True}
        elif item.type == "agent_message":
            message.aside, message.extra = True, {"author": item.author or ""}
        if self._answer or self._thinking:
            return [*self._flush(), self._emit(message)]
        return (self._emit(message),)

    def _answered(self, message: Message, row: ItemLine) -> Sequence[Message]:
        """A piece of the model's answer: it waits for what comes after it."""
        if row.metadata is not None and row.metadata.compaction_output:
            note(self.counts.skipped, "summary of a compaction")
            self.about.summary = message.content
            return _NONE
        message.model = self.model
        if self._thinking:
            text = [Part(TEXT, text=message.content)] if message.content and not message.parts else []
            message.parts = [*self._thinking, *text, *(message.parts or ())]
            self._thinking, self.held = [], -1
        self._answer.append(message)
        return _NONE

    def _moment(self, timestamp: str) -> str:
        """A timestamp in our spelling. Most have it, and come many to a minute: then they need no looking at."""
        moment = clock.normalise(timestamp)
        self._minute = timestamp[:17] if moment and moment == timestamp else "-"
        return moment

    # ── what we wrote ourselves ──────────────────────────────────────────────────────────────────────

    def _own(self, row: ItemLine, mark: Mark, begin: int) -> Sequence[Message]:
        """A record that we wrote: the message that it was comes back, under the id that it had."""
        if mark.added:
            note(self.counts.skipped, "made up by cortext")
            return _NONE
        if not mark.more:
            self._ours.clear()
            self.held = begin
        self._ours.append(row)
        first = self._ours[0].cortext or mark
        if len(self._ours) < first.of:
            return _NONE
        rows, self._ours = self._ours, []
        self.held = -1
        message = self._assemble(rows, first)
        return [*self._flush(), *([] if message is None else [self._emit(message)])]

    def _assemble(self, rows: list[ItemLine], mark: Mark) -> Message | None:
        for row in rows:  # so that results find the names of their calls
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
                parts += (Part(TEXT, text=piece.text) for piece in row.payload.content if piece.text is not None)
        if not parts:
            return None
        role = TOOL if parts[0].type == TOOL_RESULT else rows[0].payload.role or ASSISTANT
        message = Message(role=role, content=joined_text(parts), timestamp=self._moment(rows[0].timestamp), id=mark.id)
        message.model, message.tokens, message.usage = mark.model, mark.tokens, mark.usage
        if len(parts) > 1 or parts[0].type != TEXT:
            message.parts = parts
        return message

    # ── thinking, cost, going back ───────────────────────────────────────────────────────────────────

    def _reason(self, item: Item, timestamp: str, begin: int) -> Sequence[Message]:
        pieces = item.summary or []
        if isinstance(item.content, list):
            pieces = [*pieces, *item.content]
        text = "\n\n".join([piece.text for piece in pieces if piece.text])
        if not text:
            note(self.counts.skipped, "sealed reasoning")
            return _NONE
        if not self._thinking:
            self._thinking_id, self._thinking_time = item.id or derived_id(self.items.page, begin), timestamp
            self.held = begin
        self._thinking.append(Part(THINKING, text=text))
        return _NONE

    def _flush(self) -> Sequence[Message]:
        """Let go of everything that was held back."""
        if not self._thinking:
            return self._flush_answer()
        return [*self._flush_answer(), *self._flush_thinking()]

    def _flush_thinking(self) -> Sequence[Message]:
        """Thinking that no answer followed: a message of its own."""
        if not self._thinking:
            return _NONE
        message = Message(
            role=ASSISTANT,
            timestamp=self._moment(self._thinking_time),
            id=self._thinking_id,
            model=self.model,
            parts=self._thinking,
        )
        self._thinking, self.held = [], -1
        return (self._emit(message),)

    def _flush_answer(self) -> Sequence[Message]:
        if not self._answer:
            return _NONE
        ready, self._answer = self._answer, []
        return [self._emit(message) for message in ready]

    def _cost(self, usage: dict[str, Any] | None) -> Sequence[Message]:
        """What the answer cost, told after it: noted at its last message."""
        if usage and self._answer:
            self._answer[-1].usage = usage
            spent = usage.get("output_tokens")
            # Of an answer in several messages nobody knows which took how much.
            if len(self._answer) == 1 and isinstance(spent, int):
                self._answer[0].tokens = spent
        return self._flush_answer()

    def _summary(self, text: str | None) -> None:
        if text:
            self.about.summary = _SUMMARY.sub("", text, count=1)

    def _roll_back(self, turns: int) -> Sequence[Message]:
        """The user took back the last turns (older files): the next message follows what was before them."""
        ready = self._flush()
        if 0 < turns <= len(self.turns):
            for _ in range(turns):
                self.follows = self.turns.pop()
        return ready

    def _emit(self, message: Message) -> Message:
        """Give a message its place in the talk."""
        message.aside = message.aside or self.aside
        if message.aside:
            return message
        before, self.follows = self.last if self.follows is None else self.follows, None
        if before != self.last:
            message.parent = before or BEGINNING
        if message.role == USER:
            self.turns.append(before)
            if not self.about.command and (name := command_of(message.content)[0]):
                self.about.command = f"/{name}"
        self.last = message.id
        return message
