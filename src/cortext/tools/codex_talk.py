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
from cortext.model.message import ASSISTANT, TEXT, THINKING, TOOL, TOOL_RESULT, USER, Message, Part, said
from cortext.tools import codex_records as records
from cortext.tools.base import About, Counts
from cortext.tools.codex_items import BLOCK, Items
from cortext.tools.codex_records import Item, ItemLine, Mark
from cortext.tools.foreign import derived_id, note, place

_BLOCK = BLOCK.encode()
_DEVELOPER = re.compile(rb'(?:, ?"(?:id|status|phase)": ?"[^"]*")*, ?"role": ?"(?:developer|system)"')
_COMMAND = re.compile(
    r"\[?\$(workspace-[\w-]+)(?:\]\([^)]*\))?(?:\s+(.*))?|/(workspace\.[\w.-]+)(?:\s+(.*))?", re.DOTALL
)
_SUMMARY = re.compile(r"Another language model started to solve this problem.*?your own analysis:\n", re.DOTALL)
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

    def state(self) -> dict[str, Any]:
        """What a later reading has to know of this one."""
        calls = list(self.items.calls.items())[-_CALLS_KEPT:]
        return {"last": self.last, "model": self.model, "calls": dict(calls), "turns": list(self.turns)}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where another reading ended."""
        self.last, self.model = str(state.get("last", "")), str(state.get("model", ""))
        self.items.calls = dict(state.get("calls") or {})
        self.turns.extend(state.get("turns") or ())

    def finish(self, *, for_good: bool) -> Sequence[Message]:
        """What is left at the end of a file. Thinking, and half a message of ours, wait for the rest of it."""
        ready = self._flush_answer()
        if not for_good:
            return ready
        if self._ours:
            note(self.counts.damaged, "half a message")
            self._ours.clear()
        ready = [*ready, *self._flush_thinking()]
        self.held = -1
        return ready

    # ── one line ─────────────────────────────────────────────────────────────────────────────────────

    def take(self, line: bytes, begin: int, where: str = "") -> Sequence[Message]:
        """The messages that are complete with this line, which begins at a byte; `where` names its place."""
        head = records.HEAD.match(line)
        if head is None:
            return self._odd(line, begin, where or str(begin))
        ordinal, kind, inner = head.groups()
        words = kind == b"response_item" and not _DEVELOPER.match(line, head.end())
        if not words:
            if line.find(records.BEGIN, 1) > 0:
                return self._glued(line, begin, where or str(begin))
            if (name := records.PASSED_OVER.get((kind, inner))) is not None:
                skipped = self.counts.skipped
                skipped[name] = skipped.get(name, 0) + 1
                return _NONE
        where = ordinal.decode("ascii") if ordinal else where or str(begin)
        if self.first and ordinal and int(ordinal) < self.first:
            note(self.counts.skipped, "handed down by the parent thread")
            return _NONE
        if kind != b"response_item":
            return self._beside(kind.decode("ascii"), inner.decode("ascii") if inner else "", line, begin, where)
        if words or _BLOCK in line:
            return self._item(line, begin, where)
        note(self.counts.skipped, "developer message")
        return _NONE

    def _odd(self, line: bytes, begin: int, where: str) -> Sequence[Message]:
        """A line that does not begin as usual: another order of keys, an old bare record, or damage."""
        try:
            record = records.anything.decode(line)
            kind = record.type
            if kind == "response_item":
                return self._row(records.items.decode(line), begin, where)
            if bytes(record.payload) != b"null":
                inner = records.values.decode(record.payload).get("type", "")
                return self._beside(kind, str(inner) if kind == "event_msg" else "", line, begin, where)
            if kind:
                return self._row(ItemLine(payload=records.bare_items.decode(line)), begin, where)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, AttributeError):
            return self._glued(line, begin, where)
        note(self.counts.skipped, record.record_type or "session_meta")
        return _NONE

    def _glued(self, line: bytes, begin: int, where: str) -> Sequence[Message]:
        """A line that is not one record: every record that can be made out in it is taken."""
        found, whole = records.split(line)
        alone = len(found) == 1 and len(found[0]) == len(line)
        if alone or not whole:
            note(self.counts.damaged, "unexpected shape" if alone else "not JSON")
            place(self.counts, self.path, begin)
        ready: list[Message] = []
        for number, record in enumerate(() if alone else found):
            ready += self.take(record, begin, f"{where}/{number}")
        return ready

    def _beside(self, kind: str, inner: str, line: bytes, begin: int, where: str) -> Sequence[Message]:
        """A record that is no word of the talk; a few of them tell something about it."""
        if kind == "event_msg":
            note(self.counts.skipped if inner in records.EVENTS else self.counts.unknown, f"event {inner}")
        else:
            note(self.counts.skipped if kind in records.BOOKKEEPING else self.counts.unknown, kind)
        try:
            if kind == "turn_context":
                self.model = records.turns.decode(line).payload.model or self.model
                self.about.model = self.model
            elif kind == "token_usage_record":
                return self._cost(records.usages.decode(line).payload.usage)
            elif kind == "compacted":
                self._summary(records.events.decode(line).payload.message)
            elif inner == "token_count" and self._answer:
                info = records.usages.decode(line).payload.info
                return self._cost(info.last_token_usage if info else None)
            elif inner == "thread_rolled_back":
                return self._roll_back(records.events.decode(line).payload.num_turns or 0)
            elif inner == "thread_name_updated":
                self.about.title = records.events.decode(line).payload.thread_name or self.about.title
            elif inner in ("task_complete", "turn_aborted"):
                return [*self._flush_answer(), *self._flush_thinking()]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._glued(line, begin, where)
        return _NONE

    def _item(self, line: bytes, begin: int, where: str) -> Sequence[Message]:
        try:
            row = records.items.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._glued(line, begin, where)
        return self._row(row, begin, where)

    # ── one item of the conversation ─────────────────────────────────────────────────────────────────

    def _row(self, row: ItemLine, begin: int, where: str) -> Sequence[Message]:
        if row.cortext is not None:
            return self._own(row, row.cortext, begin)
        item = row.payload
        if item.type == "reasoning":
            return self._reason(item, row.timestamp, begin)
        message = self._message(row, where)
        if message is None:
            return _NONE
        if message.role == ASSISTANT:
            if self._thinking:
                text = [Part(TEXT, text=message.content)] if message.content and not message.parts else []
                message.parts = [*self._thinking, *text, *(message.parts or ())]
                self._thinking, self.held = [], -1
            self._answer.append(message)
            return _NONE
        return [*self._flush_answer(), *self._flush_thinking(), self._emit(message)]

    def _message(self, row: ItemLine, where: str) -> Message | None:
        """The message that a record is; None where it is none."""
        item = row.payload
        role, parts = self.items.read(item, where)
        if not parts:
            return None
        if role == ASSISTANT and row.metadata is not None and row.metadata.compaction_output:
            note(self.counts.skipped, "summary of a compaction")
            self.about.summary = said(parts)
            return None
        message = Message(role=role, timestamp=clock.normalise(row.timestamp), id=self.items.id_of(item, where))
        message.content = said(parts)
        if len(parts) > 1 or parts[0].type != TEXT:
            message.parts = parts
        if role == ASSISTANT:
            message.model = self.model
        if BLOCK in message.content and role == USER:
            message.aside, message.extra = True, {"resume_block": True}
        if item.type == "agent_message":
            message.aside, message.extra = True, {"author": item.author or ""}
        return message

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
        return [*self._flush_answer(), *self._flush_thinking(), *([] if message is None else [self._emit(message)])]

    def _assemble(self, rows: list[ItemLine], mark: Mark) -> Message | None:
        for row in rows:  # so that results find the names of their calls
            if row.payload.type in records.CALLS:
                self.items.call(row.payload, mark.id)
        if mark.was is not None:
            try:
                return msgspec.convert(mark.was, Message)
            except msgspec.ValidationError:
                note(self.counts.damaged, "unexpected shape")
        parts: list[Part] = []
        for row in rows:
            kind = row.payload.type
            if kind in records.CALLS:
                parts += self.items.call(row.payload, mark.id)
            elif kind in records.RESULTS:
                parts += self.items.result(row.payload, mark.id)
            elif isinstance(row.payload.content, list):
                parts += (Part(TEXT, text=piece.text) for piece in row.payload.content if piece.text is not None)
        if not parts:
            return None
        role = TOOL if parts[0].type == TOOL_RESULT else rows[0].payload.role or ASSISTANT
        message = Message(role=role, content=said(parts), timestamp=clock.normalise(rows[0].timestamp), id=mark.id)
        message.model, message.tokens, message.usage = mark.model, mark.tokens, mark.usage
        if len(parts) > 1 or parts[0].type != TEXT:
            message.parts = parts
        return message

    # ── thinking, cost, going back ───────────────────────────────────────────────────────────────────

    def _reason(self, item: Item, timestamp: str, begin: int) -> Sequence[Message]:
        pieces = [*(item.summary or ()), *(item.content if isinstance(item.content, list) else ())]
        text = "\n\n".join(piece.text for piece in pieces if piece.text)
        if not text:
            note(self.counts.skipped, "sealed reasoning")
            return _NONE
        if not self._thinking:
            self._thinking_id, self._thinking_time = item.id or derived_id(self.items.page, begin), timestamp
            self.held = begin
        self._thinking.append(Part(THINKING, text=text))
        return _NONE

    def _flush_thinking(self) -> Sequence[Message]:
        """Thinking that no answer followed: a message of its own."""
        if not self._thinking:
            return _NONE
        message = Message(
            role=ASSISTANT,
            timestamp=clock.normalise(self._thinking_time),
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
        ready = [*self._flush_answer(), *self._flush_thinking()]
        if 0 < turns <= len(self.turns):
            for _ in range(turns):
                self.follows = self.turns.pop()
        return ready

    def _emit(self, message: Message) -> Message:
        """Give a message its place in the talk."""
        message.aside = message.aside or self.aside
        if message.aside:
            return message
        if self.follows is not None:
            if self.follows != self.last:
                message.parent = self.follows
            self.follows = None
        if message.role == USER:
            self.turns.append(self.last)
            if not self.about.command and (name := command_of(message.content)[0]):
                self.about.command = f"/{name}"
        self.last = message.id
        return message
