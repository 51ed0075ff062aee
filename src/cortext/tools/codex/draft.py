"""Messages of any tool as the items of a Codex conversation: real turns, every call with its result.

What Codex or its model would refuse or drop gets a form that keeps the text; each such change is counted by
kind. The items carry a mark of ours, so that reading them gives back the messages as they were.
"""

from __future__ import annotations

import re
import uuid
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from cortext.model import clock
from cortext.model.message import (
    ASSISTANT,
    SYSTEM,
    TEXT,
    THINKING,
    TOOL,
    TOOL_CALL,
    TOOL_RESULT,
    Message,
    Part,
)
from cortext.tools.base import Written
from cortext.tools.codex.mark import Mark
from cortext.tools.shared.lines import note

_LEGAL = re.compile(r"[A-Za-z0-9_-]{1,64}")  # what the Responses API takes as a call's id or a tool's name
_OURS = uuid.UUID("5c1f0e0a-6d6b-5d0f-9c57-3c1a4b7f2e11")
NOT_RECORDED = "[the result of this call was not recorded]"
_SYSTEM_LABEL = "[a system message of the earlier conversation]"
# Codex shortens a tool's result when it loads it, unless the record says how long it may be.
_SHORT_RESULT = 4_000
_LEAST_LIMIT = 3_000


class Row(msgspec.Struct):
    """One item to be written: its payload, what the program notes beside it, and our mark."""

    payload: dict[str, Any]
    timestamp: str
    mark: Mark
    metadata: dict[str, Any] | None = None

    @property
    def speaker(self) -> str:
        """Who speaks in it, as the program shows it: the user, the assistant, or nobody."""
        return str(self.payload["role"]) if self.payload["type"] == "message" else ""

    @property
    def text(self) -> str:
        """The words in it."""
        return "\n\n".join(piece["text"] for piece in self.payload["content"])

    def encode(self, ordinal: int | None = None) -> bytes:
        """The line, in the order of keys that the program uses."""
        line: dict[str, Any] = {"timestamp": self.timestamp}
        if ordinal is not None:
            line["ordinal"] = ordinal
        line |= {"type": "response_item", "payload": self.payload}
        if self.metadata:
            line["metadata"] = self.metadata
        line["cortext"] = self.mark
        return msgspec.json.encode(line)


class Draft:
    """The items for a list of messages, and what had to change."""

    def __init__(self, messages: Iterable[Message], closing: str = "") -> None:
        self.changed: dict[str, int] = {}
        self.messages: list[Message] = []
        self.groups: list[list[Row]] = []  # the rows of each message; what was made up stands after them
        self.tool_calls = 0
        self._answered: set[int] = set()
        self._calls: dict[int, str] = {}  # the native id of each result's call
        self._custom: set[str] = set()
        self._used: set[str] = set()
        self._time = ""
        kept = [self._clean(message) for message in messages if self._belongs(message)]
        self._pair(kept)
        for message in kept:
            self._add(message)
        self.closing: list[Row] = []  # a word of ours behind them, which is none of the messages
        if closing:
            payload = {"type": "message", "id": f"msg_{uuid.uuid4()}", "role": "user"}
            said = {"content": [{"type": "input_text", "text": closing}]}
            self.closing = [Row({**payload, **said}, clock.now(), Mark(added=True))]

    def report(self, key: str = "", path: str = "") -> Written:
        """What was, or would be, written."""
        return Written(
            key=key, path=path, messages=len(self.messages), tool_calls=self.tool_calls, changed=self.changed
        )

    def _belongs(self, message: Message) -> bool:
        if message.aside or message.partial:
            note(self.changed, "side agent's message left out" if message.aside else "cut reply left out")
            return False
        return True

    def _clean(self, message: Message) -> Message:
        """The message as it stands alone, and in text that can be encoded at all."""
        message = msgspec.structs.replace(message, seq=-1, parent="")
        try:
            msgspec.json.encode(message)
        except UnicodeEncodeError:
            import json  # 2 ms, and broken characters are rare

            note(self.changed, "broken character replaced")
            text = json.dumps(msgspec.to_builtins(message), ensure_ascii=False)
            whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            message = msgspec.convert(json.loads(whole), Message)
        return message

    def _pair(self, messages: Sequence[Message]) -> None:
        """Find the call of each result: the first one of that id that is open. Ids may come again."""
        waiting: dict[str, deque[tuple[int, str]]] = defaultdict(deque)
        for message in messages:
            for part in message.parts or ():
                if part.type == TOOL_CALL:
                    native = self._call_id(part, message.id)
                    self._calls[id(part)] = native
                    waiting[part.id].append((id(part), native))
                elif part.type == TOOL_RESULT and waiting[part.call_id]:
                    call, self._calls[id(part)] = waiting[part.call_id].popleft()
                    self._answered.add(call)

    def _call_id(self, part: Part, message: str) -> str:
        native = part.id
        if not _LEGAL.fullmatch(native) or native in self._used:
            note(self.changed, "call id adapted")
            native = f"call_{uuid.uuid5(_OURS, f'{message}/{part.id}/{len(self._used)}').hex}"
        self._used.add(native)
        return native

    # ── one message ──────────────────────────────────────────────────────────────────────────────────

    def _add(self, message: Message) -> None:
        parts = list(message.parts or ())
        if message.content and not message.parts_of(TEXT):
            # A tool's message may say its results again as its content.
            again = message.content in (part.output for part in message.parts_of(TOOL_RESULT))
            parts.insert(len(parts) if message.role == TOOL else 0, Part(TEXT, text="" if again else message.content))
        self._time = clock.normalise(message.timestamp) or self._time or clock.now()
        rows: list[Row] = []
        made_up: list[Row] = []
        if message.role == SYSTEM:
            note(self.changed, "system message as the user's text")
            self._say(rows, message, _SYSTEM_LABEL)
        for part in parts:
            if part.type == TOOL_CALL:
                self._call(rows, made_up, message, part)
            elif part.type == TOOL_RESULT and id(part) in self._calls:
                self._result(rows, part)
            else:
                self._words(rows, message, part)
        if not rows:
            note(self.changed, "empty message left out")
            return
        for number, row in enumerate(rows):
            row.mark = Mark(id=message.id, more=number > 0)
        first = rows[0].mark
        first.of, first.model, first.tokens, first.usage = len(rows), message.model, message.tokens, message.usage
        self.messages.append(message)
        self.groups.append(rows + made_up)

    def _words(self, rows: list[Row], message: Message, part: Part) -> None:
        """A part that is said, or that has to be said because there is no other form for it here."""
        if part.type == THINKING:
            note(self.changed, "thinking dropped")
        elif part.type == TOOL_RESULT:
            note(self.changed, "result without its call as text")
            name = f" of {part.name}" if part.name else ""
            self._say(rows, message, f"[a tool's result{name}, the call was not recorded]\n{part.output}")
        elif part.ref:
            note(self.changed, f"{part.type} as a note")
            about = ", ".join(word for word in (part.name, part.media_type) if word)
            self._say(rows, message, f"[{part.type}{f' ({about})' if about else ''}: {part.ref}]")
        elif part.text:
            self._say(rows, message, part.text)

    def _say(self, rows: list[Row], message: Message, text: str) -> None:
        """Words of this message; beside a tool's result they join it, so that the pair stays together."""
        if message.role == TOOL and rows and "output" in rows[-1].payload:
            rows[-1].payload["output"] += f"\n{text}"
            _allow_length(rows[-1])
            return
        speaker = ASSISTANT if message.role == ASSISTANT else "user"
        piece = {"type": "output_text" if speaker == ASSISTANT else "input_text", "text": text}
        if rows and rows[-1].speaker == speaker:
            rows[-1].payload["content"].append(piece)
            return
        payload = {"type": "message", "id": self._id("msg", message, rows), "role": speaker, "content": [piece]}
        rows.append(Row(payload, self._time, Mark()))

    def _call(self, rows: list[Row], made_up: list[Row], message: Message, part: Part) -> None:
        self.tool_calls += 1
        call_id = self._calls[id(part)]
        name = part.name
        if not _LEGAL.fullmatch(name):
            note(self.changed, "tool name adapted")
            name = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "tool"
        # A text instead of arguments is what Codex calls a custom tool.
        custom = isinstance(part.input, str)
        if custom:
            self._custom.add(call_id)
        payload: dict[str, Any] = {"type": "custom_tool_call" if custom else "function_call"}
        payload |= {"id": self._id("ctc" if custom else "fc", message, rows), "name": name, "call_id": call_id}
        if custom:
            payload["input"] = part.input
        else:
            value = {} if part.input is None else part.input
            if not isinstance(value, dict):
                note(self.changed, "tool input wrapped")
                value = {"input": value}
            payload["arguments"] = msgspec.json.encode(value).decode("utf-8")
        if isinstance(part.data, dict) and isinstance(part.data.get("namespace"), str):
            payload["namespace"] = part.data["namespace"]
        rows.append(Row(payload, self._time, Mark()))
        if id(part) not in self._answered:
            note(self.changed, "missing result made up")
            answer = _result_payload(call_id, NOT_RECORDED, custom=custom)
            made_up.append(Row(answer, self._time, Mark(added=True)))

    def _result(self, rows: list[Row], part: Part) -> None:
        call_id = self._calls[id(part)]
        if part.is_error:
            note(self.changed, "failure flag left out")
        rows.append(Row(_result_payload(call_id, part.output, custom=call_id in self._custom), self._time, Mark()))
        _allow_length(rows[-1])

    def _id(self, prefix: str, message: Message, rows: list[Row]) -> str:
        """What the id is made of; `finish` makes it."""
        return f"{prefix} {len(self.messages)}/{message.id}/{len(rows)}"

    # ── to be written ────────────────────────────────────────────────────────────────────────────────

    def finish(self) -> None:
        """What only a real file needs, and a preview does not wait for: ids, and the messages in the marks.

        Where the items say less than the message did, the mark keeps the message itself.
        """
        from cortext.tools.base import About, Counts
        from cortext.tools.codex.talk import Talk

        talk = Talk("", About(), Counts())
        for message, rows in zip(self.messages, self.groups, strict=True):
            for row in rows:
                if "id" in row.payload:
                    prefix, _, name = row.payload["id"].partition(" ")
                    row.payload["id"] = f"{prefix}_{uuid.uuid5(_OURS, name)}"
            if [read for row in rows for read in talk.take(row.encode(), 0)] != [message]:
                rows[0].mark.was = msgspec.to_builtins(message)


def _result_payload(call_id: str, output: str, *, custom: bool) -> dict[str, Any]:
    kind = "custom_tool_call_output" if custom else "function_call_output"
    return {"type": kind, "call_id": call_id, "output": output}


def _allow_length(row: Row) -> None:
    size = len(row.payload["output"].encode("utf-8"))
    if size > _SHORT_RESULT:
        row.metadata = {"client_authored": False, "fallback_token_limit_override": max(_LEAST_LIMIT, size)}
