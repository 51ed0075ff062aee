"""The turns of a conversation as records of gptme. A mark in each record says which message it was made from.

If gptme is set to another tool format than `tool`, it sends every call as the text that the log contains. Then calls
and results are written as labelled text from the start.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cortext.model.message import ASSISTANT, SYSTEM, USER, Message
from cortext.model.turns import Change, Result, Turn, Turns, standalone
from cortext.tools.gptme.notation import call_line, looks_like_call, without_calls
from cortext.tools.gptme.read import marked_message
from cortext.tools.gptme.records import Metadata, Record
from cortext.tools.shared.lines import derived_id
from cortext.tools.shared.mark import Mark
from cortext.tools.shared.plain_turns import plain_turns


class Rendering:
    """The records for a sequence of messages, what had to change, and the messages that reading must return."""

    def __init__(self, messages: Sequence[Message], *, real_calls: bool) -> None:
        self.normal = Turns(messages)
        self.records: list[Record] = []
        self.expected: list[Message] = []
        if real_calls:
            for turn in self.normal.turns:
                self._add(self._records(turn), turn.message)
        else:
            for plain in plain_turns(self.normal):
                self._add([self._text_record(plain.role, plain.text)], plain.message)

    def _records(self, turn: Turn) -> list[Record]:
        """Return a turn as one record, or one for each result and one for the text after them."""
        text = "\n\n".join(text.whole for text in turn.texts)
        if turn.role == ASSISTANT:
            record = self._text_record(ASSISTANT, text)
            calls = "\n".join(call_line(call) for call in turn.calls)
            record.content = "\n".join(filter(None, (record.content, calls)))
            return [record]
        records = [self._result(result) for result in turn.results]
        return [*records, self._text_record(USER, text)] if text else records

    def _text_record(self, role: str, text: str) -> Record:
        if role == ASSISTANT and looks_like_call(text):
            self.normal.note(Change.CODE_FENCE)
            text = without_calls(text)
        return Record(role=role, content=text)

    def _result(self, result: Result) -> Record:
        if result.is_error and result.part is not None:
            self.normal.note(Change.ERROR_FLAG)
        metadata = Metadata(tool=result.call.name)
        return Record(role=SYSTEM, content=result.output, call_id=result.call.id, metadata=metadata)

    def _add(self, records: list[Record], message: Message | None) -> None:
        """Add the records of one message. The first has its mark, the others are marked as added."""
        for record in records:
            record.metadata = record.metadata or Metadata()
            record.metadata.cortext = Mark(added=True)
        if message is not None:
            message = standalone(message)
            message.id = message.id or derived_id(len(self.expected), message.role, message.content)
            _mark(records[0], message)
            self.expected.append(message)
        self.records += records


def _mark(record: Record, message: Message) -> None:
    """Mark a record with what it does not say about its message: the whole message, if it is not read back equal."""
    assert record.metadata is not None
    mark = Mark(
        id=message.id, timestamp=message.timestamp, model=message.model, tokens=message.tokens, usage=message.usage
    )
    if marked_message(record, mark) != message:
        mark = Mark(was=msgspec.to_builtins(message))
    record.metadata.cortext = mark
    if record.role == ASSISTANT:
        record.metadata.model = message.model
