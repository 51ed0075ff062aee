"""The turns of a conversation as records of gptme. A mark in each record says which message it was made from.

If gptme is set to another tool format than `tool`, it sends every call as the text that the log contains. Then calls
and results are written as labelled text from the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from cortext.model.message import ASSISTANT, SYSTEM, USER, Message
from cortext.model.turns import Change, Result, Turn, Turns, standalone
from cortext.tools.gptme.notation import call_line, looks_like_call, without_calls
from cortext.tools.gptme.read import literal_message
from cortext.tools.gptme.records import Metadata, Record
from cortext.tools.shared.lines import derived_id
from cortext.tools.shared.mark import Mark
from cortext.tools.shared.plain_turns import plain_turns


class Rendering:
    """The records for a sequence of messages, what had to change, and the messages that reading must return."""

    def __init__(self, messages: Sequence[Message], *, real_calls: bool) -> None:
        self.normal = Turns(messages)
        self._now = datetime.now().isoformat()  # the original times are in the marks
        self.records: list[Record] = []
        self.expected: list[Message] = []
        if real_calls:
            for turn in self.normal.turns:
                self._add(self._records(turn), turn.message)
        else:
            for plain in plain_turns(self.normal):
                self._add([self._text_record(plain.role, plain.text)], plain.message)

    def add_note(self, text: str) -> None:
        """Add a user message of ours, which is read back as nothing."""
        self._add([Record(role=USER, content=text)], None)

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
        if message is not None:
            message = standalone(message)
            message.id = message.id or derived_id(len(self.expected), message.role, message.content)
            self.expected.append(message)
        for record in records:
            record.timestamp = self._now
            record.metadata = record.metadata or Metadata()
            record.metadata.cortext = Mark.made_from(message if record is records[0] else None, literal_message(record))
            if record.role == ASSISTANT and message is not None:
                record.metadata.model = message.model
        self.records += records
