"""Read a conversation of OpenHands: its events, of which only some are part of what was said."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from cortext.model.message import (
    ASSISTANT,
    BEGINNING,
    IMAGE,
    TEXT,
    THINKING,
    TOOL_CALL,
    TOOL_RESULT,
    USER,
    Message,
    Part,
)
from cortext.tools.base import Transcript
from cortext.tools.shared.building import MessageBuilder, is_error, output_of
from cortext.tools.shared.bundle import Piece
from cortext.tools.shared.documents import Object, object_of
from cortext.tools.shared.lines import derived_id, note
from cortext.tools.shared.reading import WholeReading
from cortext.tools.shared.sqlite import text_of
from cortext.tools.shared.values import field, moment, objects, word

_ROOT = "__root__"
_FINISH = "finish"  # the tool by which the model ends: its argument is the answer
_SKIPPED = (
    *("SystemPromptEvent", "ConversationStateUpdateEvent", "ConversationErrorEvent", "LLMCompletionLogEvent"),
    *("CondensationRequest", "PauseEvent", "InterruptEvent", "TokenEvent", "HookExecutionEvent"),
    *("StreamingDeltaEvent", "SecurityAnalysisEvent"),
)


class EventsReading(WholeReading):
    """The messages of one conversation."""

    def __init__(self, transcript: Transcript, pieces: Iterable[Piece]) -> None:
        super().__init__(transcript)
        self._pieces = pieces
        self._builder = MessageBuilder(self.about, self.counts)
        self._finished: set[str] = set()  # the calls that were the model's answer
        self._ends: dict[str, str] = {}  # event: the last message up to it
        self._last = ""

    def __iter__(self) -> Iterator[Message]:
        yield from self.each(self._events(), self._messages)

    def _events(self) -> Iterator[Object]:
        for piece in self._pieces:
            event = object_of(text_of(piece.values.get("text")))
            if event is None:
                self.damaged("not JSON", text_of(piece.values.get("name")))
            else:
                yield event

    def _messages(self, event: Object) -> list[Message]:
        kind = word(event, "kind")
        identity = word(event, "id") or derived_id(self.transcript.key, str(event))
        parent = word(event, "parent_id")
        before = BEGINNING if parent == _ROOT else self._ends.get(parent, self._last or BEGINNING)
        self._ends[identity] = before
        if kind in _SKIPPED:
            note(self.counts.skipped, kind)
            return []
        if kind in ("Condensation", "CondensationSummaryEvent"):
            self.about.summary = word(event, "summary") or self.about.summary
            note(self.counts.skipped, kind)
            return []
        parts = self._parts(event, kind, f"{self.transcript.key}#{identity}")
        if parts is None:
            note(self.counts.unknown, kind or "without kind")
            return []
        made = self._builder.messages(
            parts,
            role=USER if kind == "MessageEvent" and word(event, "source") == "user" else ASSISTANT,
            identity=identity,
            timestamp=_time(word(event, "timestamp")),
        )
        if made:
            made[0].parent = "" if before == (self._last or BEGINNING) else before
            self._last = self._ends[identity] = made[-1].id
        return made

    def _parts(self, event: Object, kind: str, reference: str) -> list[Part] | None:
        """Return the parts of an event; None if its kind is unknown."""
        call, name = word(event, "tool_call_id"), word(event, "tool_name")
        if kind == "MessageEvent":
            message = event["llm_message"]
            return [*_thinking(message), *_texts(objects(message, "content"), reference)]
        if kind == "ActionEvent":
            said = [*_thinking(event), *_texts(objects(event, "thought"), reference)]
            arguments = word(event, "tool_call", "arguments")
            values = object_of(arguments)
            if name == _FINISH and word(values, "message"):
                self._finished.add(call)
                return [*said, Part(TEXT, text=word(values, "message"))]
            return [*said, Part(TOOL_CALL, id=call, name=name, input=values or arguments or field(event, "action"))]
        if kind == "ObservationEvent":
            if call in self._finished:
                return []  # it repeats the answer
            output, images = output_of(field(event, "observation", "content"), reference)
            failed = is_error(field(event, "observation"))
            return [Part(TOOL_RESULT, call_id=call, name=name, output=output, is_error=failed), *images]
        if kind in ("UserRejectObservation", "AgentErrorEvent"):
            reason = word(event, "rejection_reason") or word(event, "error")
            return [Part(TOOL_RESULT, call_id=call, name=name, output=reason, is_error=True)]
        if kind == "ACPToolCallEvent":
            output, images = output_of(field(event, "content") or field(event, "raw_output"), reference)
            shown = word(event, "title") or word(event, "tool_kind")
            return [
                Part(TOOL_CALL, id=call, name=shown, input=field(event, "raw_input")),
                Part(TOOL_RESULT, call_id=call, name=shown, output=output, is_error=is_error(event)),
                *images,
            ]
        return None


def _time(text: str) -> str:
    """Return the time of an event: OpenHands writes the local time, without a zone."""
    try:
        return moment(datetime.fromisoformat(text).astimezone(UTC).isoformat())
    except (ValueError, OverflowError, OSError):
        return ""


def _thinking(record: Any) -> Iterator[Part]:
    blocks = (word(block, "thinking") for block in objects(record, "thinking_blocks"))
    if text := word(record, "reasoning_content") or "\n\n".join(block for block in blocks if block):
        yield Part(THINKING, text=text)


def _texts(content: list[Object], reference: str) -> Iterator[Part]:
    for number, item in enumerate(content):
        if text := word(item, "text"):
            yield Part(TEXT, text=text)
        elif word(item, "type") == "image":
            yield Part(IMAGE, ref=f"{reference}/{number}")
