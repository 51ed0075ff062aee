"""What the records of a transcript say, each thing once: the words, calls and results that were not given yet."""

from __future__ import annotations

from collections.abc import Sequence

from cortext.model.message import Message
from cortext.tools.base import About, Counts
from cortext.tools.gemini_cli.mark import Mark
from cortext.tools.gemini_cli.messages import (
    bookkeeping,
    calls_message,
    calls_of,
    model_message,
    moment,
    output_tokens,
    own_message,
    result_message,
    user_messages,
)
from cortext.tools.gemini_cli.records import ContentPart, Record, ToolCall, is_empty, parts_of, text_of
from cortext.tools.gemini_cli.seen import LONG, Seen, other_words, sign
from cortext.tools.shared.lines import note


class Turns:
    """What is known of a talk so far, and what a record adds to it; the order of things is `Talk`'s."""

    def __init__(self, key: str, about: About, counts: Counts, *, aside: bool, careful: bool = False) -> None:
        self.key, self.about, self.counts, self.aside, self.careful = key, about, counts, aside, careful
        self._moved = False  # whether the talk's end may be another than the message given last
        self._chain: dict[str, str] = {}  # the records of the talk as it stands, each with its last message
        self._answers: dict[str, str] = {}  # call id: the message with its result
        self._calls: dict[str, str] = {}  # call id: the message that made it
        self._words: dict[int, str] = {}  # sign of a text: the message that said it
        self._only_call = ""  # the newest record's call, where it made one and has its result

    def _own(self, record: Record, mark: Mark, seen: Seen) -> list[Message]:
        """A record that we wrote ourselves."""
        if mark.added:
            note(self.counts.skipped, "made by us")
        message = None if seen.said else own_message(record, mark)
        if message is None:
            return []
        seen.said = True
        for part in parts_of(record.content):
            if part.functionCall is not None:
                self._note_call(part.functionCall.id or "", part.functionCall.name or "", message.id)
            elif part.functionResponse is not None:
                self._answers[part.functionResponse.id or ""] = message.id
        if self.careful:
            self._remember(record, parts_of(record.content))
        return [message]

    def _user(self, record: Record, seen: Seen) -> list[Message]:
        parts = parts_of(record.content)
        words = text_of(parts)
        given: list[Message] = []
        if len(parts) != 1 or not words:
            self._look_at(parts)
            given = self._results(record, parts, seen)
            if not words and not any(part.inlineData or part.fileData for part in parts):
                return given
        kind = bookkeeping(words)
        if kind:
            note(self.counts.skipped, kind)
            if kind == "compression summary":
                self.about.summary = words
        elif not seen.said or other_words(words, seen):
            message, block = user_messages(record, parts, self.key)
            if message is not None:
                given.append(self._said(record, message, words, seen))
            if block is not None:
                given.append(block)
            if self.careful:
                self._remember(record, parts)
        return given

    def _model(self, record: Record, seen: Seen) -> list[Message]:
        content = record.content
        parts: Sequence[ContentPart] = ()
        if content is None or isinstance(content, str):
            words = content or ""
        else:
            parts = parts_of(content)
            words = text_of(parts)
            self._look_at(parts)
        kind = bookkeeping(words) if words else ""
        if kind:
            note(self.counts.skipped, kind)
            return []
        when = moment(record.timestamp)
        if record.model:
            self.about.model = record.model
        given: list[Message] = []
        if not seen.said or other_words(words, seen):
            message = model_message(record, words, parts, self.key, when)
            if message is not None:
                given.append(self._said(record, message, words, seen))
                if self.careful:
                    self._remember(record, parts)
        if record.toolCalls or parts:
            self._add_calls(record, calls_of(record, parts), when, seen, given)
        return given

    def _add_calls(self, record: Record, calls: list[ToolCall], when: str, seen: Seen, given: list[Message]) -> None:
        """The calls of a record that were not given yet, and the results that are there by now."""
        if len(calls) > seen.calls:
            fresh = calls[seen.calls :]
            name = f"{record.id}/calls/{seen.calls}" if seen.calls else f"{record.id}/calls"
            message = calls_message(record, fresh, name, when)
            if not seen.said and not seen.calls:
                message.usage, message.tokens = record.tokens, output_tokens(record)
            seen.calls = len(calls)
            for call in fresh:
                self._note_call(call.id or "", call.name or "", name)
            given.append(message)
        for place, call in enumerate(calls):
            call_id = call.id or ""
            if call_id not in self._answers:
                result = result_message(call, f"{record.id}/result/{place}", self.key, when)
                if result is not None:
                    self._answers[call_id] = result.id
                    seen.answered.append(call_id)
                    given.append(result)
        self._only_call = seen.answered[0] if len(calls) == len(seen.answered) == 1 else ""

    def _results(self, record: Record, parts: Sequence[ContentPart], seen: Seen) -> list[Message]:
        """Tool results that stand in a message of their own: mostly a second copy of what the call has."""
        given: list[Message] = []
        for place, part in enumerate(parts):
            answer = part.functionResponse
            if answer is not None:
                call_id = answer.id or f"{record.id}/{place}"
                if call_id in self._answers:
                    note(self.counts.skipped, "tool result again")
                    continue
                call = ToolCall(call_id, answer.name, result=part)
                result = result_message(call, f"{record.id}/result/{place}", self.key, moment(record.timestamp))
                if result is not None:
                    self._answers[call_id] = result.id
                    seen.answered.append(call_id)
                    given.append(result)
        return given

    def _said(self, record: Record, message: Message, words: str, seen: Seen) -> Message:
        """A record's words: given the first time, or in place of others under the same id."""
        if seen.said:
            seen.versions += 1
            message.id = f"{record.id}~{seen.versions}"
            if next(reversed(self._chain)) == record.id:
                self._chain[record.id] = ""
                self._moved = True
            else:
                message.aside = True  # more was said since: what stands now stays, this is kept beside it
        seen.said = True
        seen.words = words if len(words) < LONG else sign(words)
        return message

    def _note_call(self, call_id: str, tool: str, message_id: str) -> None:
        if self.careful:
            self._calls[call_id] = message_id
        if tool and tool not in self.about.tools:
            self.about.tools.append(tool)

    def _remember(self, record: Record, parts: Sequence[ContentPart]) -> None:
        """Keep the signs of a record's words, to know them when they come again under another id."""
        content = record.content
        for text in [content] if isinstance(content, str) else [part.text for part in parts]:
            if text:
                self._words.setdefault(sign(text), record.id)

    def _look_at(self, parts: Sequence[ContentPart]) -> None:
        for part in parts:
            if is_empty(part):
                note(self.counts.unknown, "part of an unknown kind")
