"""What Gemini CLI sends to the model when it opens a session of its own: not everything, and some of it twice.

It leaves out messages of the user that begin as its commands do. It notes the results of calls twice, with the calls
and as a message of their own, and sends both.
"""

from __future__ import annotations

import msgspec

from cortext.tools.base import Counts, Withheld
from cortext.tools.gemini_cli.read import documented, is_document
from cortext.tools.gemini_cli.records import Content, Record, parts_of, record_decoder
from cortext.tools.shared.lines import ForeignLines

COMMANDS = "message that begins with / or ? (Gemini CLI does not send it again)"
DOUBLED = "tool result that Gemini CLI sends more than once"
_NOT_SENT = ("/", "?", "<session_context>", "<hook_context>")


def withheld(path: str) -> Withheld:
    """What the program would leave out of this transcript, and what it would send twice."""
    watch = _Watch()
    counts = Counts()
    if is_document(path):
        records = documented(path, counts)
    else:
        lines = ForeignLines(path, 0, counts)
        records = (record for line in lines for record in lines.decode(line, record_decoder, Record))
    for record in records:
        watch.see(record)
    return watch.told()


class _Watch:
    """Looks at each record on its way; a later record of the same id replaces the earlier."""

    def __init__(self) -> None:
        self._left: set[str] = set()
        self._answers: dict[str, list[str]] = {}  # of which calls a record holds results

    def see(self, record: Record) -> None:
        """Take one record into account."""
        if record.changed is not None and record.changed.messages is not None:
            self._left, self._answers = set(), {}
            for raw in record.changed.messages:
                try:
                    self.see(record_decoder.decode(raw))
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    continue  # damage is counted where the talk is read
        if record.type == "user":
            self._left.discard(record.id)
            if _text(record.content).strip().startswith(_NOT_SENT):
                self._left.add(record.id)
        if record.type in ("user", "gemini"):
            results = [part for call in record.toolCalls or () for part in parts_of(call.result)]
            found = [part.functionResponse for part in (*parts_of(record.content), *results)]
            self._answers[record.id] = [answer.id or "" for answer in found if answer is not None]

    def told(self) -> Withheld:
        """What was found."""
        answers = [name for names in self._answers.values() for name in names if name]
        more = len(answers) - len(set(answers))
        return Withheld(messages={COMMANDS: self._left} if self._left else {}, changed={DOUBLED: more} if more else {})


def _text(content: Content) -> str:
    return "".join(part.text or "" for part in parts_of(content))
