"""Build the messages of a record, without the text, calls and results that were reported before."""

from __future__ import annotations

from collections.abc import Sequence

from cortext.model.message import Message
from cortext.tools.base import About, Counts
from cortext.tools.gemini_cli.mark import HOOK_CONTEXT, Mark
from cortext.tools.gemini_cli.messages import (
    COMPRESSED,
    bookkeeping,
    calls_message,
    calls_of,
    expansion,
    model_message,
    moment,
    output_tokens,
    restored_message,
    result_message,
    user_messages,
)
from cortext.tools.gemini_cli.record_state import LONG, RecordState, fingerprint, has_other_text
from cortext.tools.gemini_cli.records import SNAPSHOT, Record, ToolCall
from cortext.tools.shared.google_parts import ContentPart, is_empty, parts_of, text_of
from cortext.tools.shared.lines import note


class MessageBuilder:
    """What is known of a conversation so far, and the messages that a record adds; `Conversation` orders them."""

    def __init__(self, key: str, about: About, counts: Counts, *, aside: bool, remember_all: bool = False) -> None:
        self.key, self.about, self.counts, self.aside, self.remember_all = key, about, counts, aside, remember_all
        self._tip_moved = False  # whether the end may differ from the message reported last
        self._chain: dict[str, str] = {}  # the current records, each with its last message
        self._result_messages: dict[str, str] = {}  # call id: the message with its result
        self._call_messages: dict[str, str] = {}  # call id: the message with the call
        self._text_records: dict[int, str] = {}  # fingerprint of a text: the record that contains it
        self._only_call = ""  # the call of the newest record, if it is its only one and has a result

    def _written_by_us(self, record: Record, mark: Mark, record_state: RecordState) -> list[Message]:
        """Return the message of a record that we wrote."""
        if mark.added:
            note(self.counts.skipped, "added by cortext")
        message = None if record_state.has_message else restored_message(record, mark)
        if message is None:
            return []
        record_state.has_message = True
        for part in parts_of(record.content):
            if part.functionCall is not None:
                self._note_call(part.functionCall.id or "", part.functionCall.name or "", message.id)
            elif part.functionResponse is not None:
                self._result_messages[part.functionResponse.id or ""] = message.id
        if self.remember_all:
            self._remember(record, parts_of(record.content))
        return [message]

    def _user(self, record: Record, record_state: RecordState) -> list[Message]:
        parts = parts_of(record.content)
        text = text_of(parts)
        messages: list[Message] = []
        if len(parts) != 1 or not text:
            self._count_unknown(parts)
            messages = self._results(record, parts, record_state)
            if not text and not any(part.inlineData or part.fileData for part in parts):
                return messages
        kind = bookkeeping(text)
        if kind:
            note(self.counts.skipped, kind)
            self.about.notes += not self.aside
            if kind == COMPRESSED:
                self.about.summary = text[text.index(SNAPSHOT) :]
        elif not record_state.has_message or has_other_text(text, record_state):
            message, block = user_messages(record, parts, self.key)
            if message is not None:
                messages.append(self._versioned(record, message, text, record_state))
            if block is not None:
                messages.append(block)
            elif message is not None and (instructions := expansion(record, message, text)) is not None:
                messages.append(instructions)
            self.about.notes += sum(bool(part.text and part.text.startswith(HOOK_CONTEXT)) for part in parts)
            if self.remember_all:
                self._remember(record, parts)
        return messages

    def _model(self, record: Record, record_state: RecordState) -> list[Message]:
        content = record.content
        parts: Sequence[ContentPart] = ()
        if content is None or isinstance(content, str):
            text = content or ""
        else:
            parts = parts_of(content)
            text = text_of(parts)
            self._count_unknown(parts)
        kind = bookkeeping(text) if text else ""
        if kind:
            note(self.counts.skipped, kind)
            return []
        when = moment(record.timestamp)
        if record.model:
            self.about.model = record.model
        messages: list[Message] = []
        if not record_state.has_message or has_other_text(text, record_state):
            message = model_message(record, text, parts, self.key, when)
            if message is not None:
                messages.append(self._versioned(record, message, text, record_state))
                if self.remember_all:
                    self._remember(record, parts)
        if record.toolCalls or parts:
            self._add_calls(record, calls_of(record, parts), when, record_state, messages)
        return messages

    def _add_calls(
        self, record: Record, calls: list[ToolCall], when: str, record_state: RecordState, messages: list[Message]
    ) -> None:
        """Append the calls of a record that are new, and the results that it has by now."""
        if len(calls) > record_state.calls:
            new_calls = calls[record_state.calls :]
            name = f"{record.id}/calls/{record_state.calls}" if record_state.calls else f"{record.id}/calls"
            message = calls_message(record, new_calls, name, when)
            if not record_state.has_message and not record_state.calls:
                message.usage, message.tokens = record.tokens, output_tokens(record)
            record_state.calls = len(calls)
            for call in new_calls:
                self._note_call(call.id or "", call.name or "", name)
            messages.append(message)
        for index, call in enumerate(calls):
            call_id = call.id or ""
            if call_id not in self._result_messages:
                result = result_message(call, f"{record.id}/result/{index}", self.key, when)
                if result is not None:
                    self._result_messages[call_id] = result.id
                    record_state.answered.append(call_id)
                    messages.append(result)
        self._only_call = record_state.answered[0] if len(calls) == len(record_state.answered) == 1 else ""

    def _results(self, record: Record, parts: Sequence[ContentPart], record_state: RecordState) -> list[Message]:
        """Return tool results from a separate record: usually a second copy of what the call contains."""
        messages: list[Message] = []
        for index, part in enumerate(parts):
            answer = part.functionResponse
            if answer is not None:
                call_id = answer.id or f"{record.id}/{index}"
                if call_id in self._result_messages:
                    note(self.counts.skipped, "repeated tool result")
                    continue
                call = ToolCall(call_id, answer.name, result=part)
                result = result_message(call, f"{record.id}/result/{index}", self.key, moment(record.timestamp))
                if result is not None:
                    self._result_messages[call_id] = result.id
                    record_state.answered.append(call_id)
                    messages.append(result)
        return messages

    def _versioned(self, record: Record, message: Message, text: str, record_state: RecordState) -> Message:
        """Return the message of a record's text, as the first or as a new version of it."""
        if record_state.has_message:
            record_state.versions += 1
            message.id = f"{record.id}~{record_state.versions}"
            if next(reversed(self._chain)) == record.id:
                self._chain[record.id] = ""
                self._tip_moved = True
            else:
                message.aside = True  # the conversation went on since: keep this version beside it
        record_state.has_message = True
        record_state.text = text if len(text) < LONG else fingerprint(text)
        return message

    def _note_call(self, call_id: str, tool: str, message_id: str) -> None:
        if self.remember_all:
            self._call_messages[call_id] = message_id
        if tool and tool not in self.about.tools:
            self.about.tools.append(tool)

    def _remember(self, record: Record, parts: Sequence[ContentPart]) -> None:
        """Store the fingerprints of a record's text, to recognise it under another id."""
        content = record.content
        for text in [content] if isinstance(content, str) else [part.text for part in parts]:
            if text:
                self._text_records.setdefault(fingerprint(text), record.id)

    def _count_unknown(self, parts: Sequence[ContentPart]) -> None:
        for part in parts:
            if is_empty(part):
                note(self.counts.unknown, "part of unknown type")
