"""The conversation that the records of a transcript add up to, message by message.

Gemini CLI appends: a record with a known id replaces the earlier one (first the text of an answer, then the same with
its tool calls), `$set` may replace the whole history, `$rewindTo` cuts it. Every message is reported once, when it
first appears; `parent` says where the conversation went back. When Gemini CLI compresses, masks or loads its history it
rewrites old messages under new ids: those are recognised by their text, and not reported again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from cortext.model.message import BEGINNING, USER, Message
from cortext.tools.base import About, Counts
from cortext.tools.gemini_cli.messages import COMPRESSED, MessageBuilder, bookkeeping, calls_of, moment, plain_answer
from cortext.tools.gemini_cli.records import (
    SCREEN_TYPES,
    SESSION_CONTEXT,
    Record,
    RecordState,
    fingerprint,
    head_decoder,
    record_decoder,
)
from cortext.tools.shared.building import parts_of, text_of
from cortext.tools.shared.lines import WITHOUT_CONTENT, note

# How many of the newest records a later one with the same id may complete: in this reading, and across a cursor.
RECENT = 32
REMEMBERED = 8


class HistoryNeeded(Exception):
    """The record cannot be interpreted without the records before the cursor."""


class Conversation(MessageBuilder):
    """Turns records, in order, into messages.

    `from_start` says whether it has read the transcript from its beginning. With `remember_all` it remembers every text
    and call, to recognise repetitions. If it lacks what a record needs, it raises HistoryNeeded before any change.
    """

    def __init__(self, key: str, about: About, counts: Counts, *, aside: bool, remember_all: bool = False) -> None:
        super().__init__(key, about, counts, aside=aside, remember_all=remember_all)
        self.from_start = True
        self.last = ""  # the message reported last
        self._cursor_tip = ""  # the end of the conversation at the cursor
        self._removed: dict[str, str] = {}  # records that were removed, each with its last message
        self._recent: dict[str, RecordState] = {}  # records that a later one with the same id may still complete
        self._rewritten: list[Record] | None = None  # a history that is being rewritten
        self._repeated_results = 0

    # ── the cursor ───────────────────────────────────────────────────────────────────────────────────

    def state(self) -> dict[str, Any]:
        """Return what the next reading needs to continue from here."""
        recent = []
        for name, record_state in list(self._recent.items())[-REMEMBERED:]:
            checksum = record_state.text if isinstance(record_state.text, int) else fingerprint(record_state.text)
            message_id = self._chain.get(name, "")
            recent.append(
                [
                    name,
                    message_id,
                    checksum,
                    record_state.has_message,
                    record_state.calls,
                    record_state.versions,
                    record_state.answered,
                ]
            )
        return {"last": self.last, "tip": self._tip(), "recent": recent, "notes": self.about.notes}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from the state that an earlier reading returned."""
        self.from_start, self._tip_moved = False, True
        self.last, self._cursor_tip = str(state["last"]), str(state["tip"])
        self.about.notes = int(state.get("notes") or 0)
        for name, message_id, *entry in state["recent"]:
            self._recent[name] = record_state = msgspec.convert(entry, RecordState)
            self._chain[name] = str(message_id)
            self._result_messages.update(dict.fromkeys(record_state.answered, ""))

    # ── records ──────────────────────────────────────────────────────────────────────────────────────

    def add(self, record: Record, out: list[Message]) -> None:
        """Append the messages that a record adds to `out`."""
        if record.type == "gemini" and record.id and self._rewritten is None:
            if self._is_plain_answer(record):
                self._add_plain_answer(record, out)
            else:
                self._add_message(record, out)
            return
        if self._rewritten is not None:
            if record.id:
                self._rewritten.append(record)
                return
            if record.changed is not None and record.changed.messages is None:
                note(self.counts.skipped, "metadata")
                return
            self.finish(out)
        if record.rewind is not None:
            self._rewind(record.rewind)
        elif record.id:
            if self._starts_rewrite(record):
                self._rewritten = [record]
            else:
                self._add_message(record, out)
        elif record.changed is not None:
            if record.changed.messages is not None:
                self._replace_history(record.changed.messages, out)
            else:
                note(self.counts.skipped, "metadata")
            self.about.title = record.changed.summary or self.about.title
        elif record.sessionId is not None:
            self._add_metadata(record, out)
        else:
            note(self.counts.unknown, "record without an id")

    def finish(self, out: list[Message]) -> None:
        """Process the rewritten history that was held back: mostly repetitions, possibly with new messages."""
        records, self._rewritten = self._rewritten or (), None
        for record in records:
            self._add_rewritten(record, out)
        if self._repeated_results:
            note(self.counts.skipped, "repeated tool result", self._repeated_results)
            self._repeated_results = 0

    def _is_plain_answer(self, record: Record) -> bool:
        """Whether an answer is new, plain text, and follows the message before it, as most answers do."""
        return (
            type(record.content) is str
            and record.id not in self._chain
            and not (self._tip_moved or self.remember_all or self.aside or self._removed)
            and record.cortext is None
            and not bookkeeping(record.content)
        )

    def _add_plain_answer(self, record: Record, out: list[Message]) -> None:
        """Add a plain answer: the same result as `_add_message`, in half the time."""
        messages, record_state = plain_answer(record, self.key, self._result_messages)
        name = record.id
        self._recent[name] = record_state
        if len(self._recent) > RECENT:
            self._trim_recent()
        self._chain[name] = ""
        if record.model:
            self.about.model = record.model
        if record_state.calls:
            self._only_call = record_state.answered[0] if record_state.calls == len(record_state.answered) == 1 else ""
            for call in record.toolCalls or ():
                if call.name and call.name not in self.about.tools:
                    self.about.tools.append(call.name)
        if messages:
            out += messages
            self.last = self._chain[name] = messages[-1].id

    def _trim_recent(self) -> None:
        for name in list(self._recent)[:-REMEMBERED]:
            del self._recent[name]

    def is_repeated_result(self, record_id: str, call_id: str) -> bool:
        """Whether a record that begins with this result adds nothing: the last call, made alone, has it already."""
        if call_id != self._only_call or self._rewritten is not None:
            return False
        self._repeated_results += 1
        self._chain[record_id] = ""
        return True

    def _add_metadata(self, record: Record, out: list[Message]) -> None:
        """Process the session's metadata; a document on a single line has its messages in the same record."""
        note(self.counts.skipped, "metadata")
        self.about.created_at = self.about.created_at or moment(record.startTime)
        self.about.title = record.summary or self.about.title
        for raw in record.messages or ():
            message = self._decoded(raw)
            if message is not None:
                self.add(message, out)

    def _starts_rewrite(self, record: Record) -> bool:
        """Whether Gemini CLI starts to rewrite its history: only then is this context a record of its own."""
        content = record.content
        if record.type != "user" or not isinstance(content, list) or not content or record.id in self._chain:
            return False
        first = content[0]
        text = first if isinstance(first, str) else first.text
        if not text or not text.startswith(SESSION_CONTEXT) or record.cortext is not None:
            return False
        if self.last and not self.remember_all:
            raise HistoryNeeded
        return self.last != ""

    def _rewind(self, record_id: str) -> None:
        """Cut the conversation before a record; drop all of it if the record is unknown, as Gemini CLI does."""
        if not self.from_start:
            raise HistoryNeeded
        note(self.counts.skipped, "rewind")
        self._tip_moved = True
        names = list(self._chain)
        start = names.index(record_id) if record_id in self._chain else 0
        for name in names[start:]:
            self._removed[name] = self._chain.pop(name)

    def _replace_history(self, raws: Sequence[msgspec.Raw], out: list[Message]) -> None:
        """Replace the whole history: known records keep their messages, unknown ones may add some."""
        before = {**self._removed, **self._chain}
        names = [_record_id(raw) for raw in raws]
        all_known = self.from_start and all(name in before or _calling_record(name) in before for name in names)
        if self.last and not all_known and not self.remember_all:
            raise HistoryNeeded
        note(self.counts.skipped, "repeated history")
        tip = self._tip()
        self._chain = {}
        for name, raw in zip(names, raws, strict=True):
            is_known = name in before
            if is_known:
                self._chain[name] = before.pop(name)
            elif _calling_record(name) in self._chain:
                self._chain[name] = ""  # Gemini CLI repeats results beside their calls
                note(self.counts.skipped, "repeated tool result")
                continue
            if not is_known or name in self._recent:
                record = self._decoded(raw)
                if record is not None and record.id:
                    self._tip_moved = True
                    self._add_rewritten(record, out)
                    if not is_known and record.type == "user":
                        self._stand_in(record, tip)
        self._removed = before
        self._tip_moved = True

    def _stand_in(self, record: Record, tip: str) -> None:
        """Let a new summary stand for the conversation that it replaces: what follows it follows `tip`."""
        text = text_of(parts_of(record.content))
        if bookkeeping(text) == COMPRESSED:
            origin = self._text_records.setdefault(fingerprint(text), tip)
            self._chain[record.id] = origin

    def _decoded(self, raw: msgspec.Raw) -> Record | None:
        try:
            return record_decoder.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            note(self.counts.damaged, "unexpected shape")
            return None

    # ── messages ─────────────────────────────────────────────────────────────────────────────────────

    def _add_message(self, record: Record, out: list[Message]) -> None:
        kind, name = record.type, record.id
        if kind not in ("gemini", "user"):
            self._chain.setdefault(name, "")
            if kind in SCREEN_TYPES:
                note(self.counts.skipped, kind)
            else:
                note(self.counts.unknown, f"type {kind[:40] or 'missing'}")
            return
        record_state = self._recent.get(name)
        if record_state is None:
            if name in self._chain:
                note(self.counts.skipped, "repeated record")
                return
            self._recent[name] = record_state = RecordState()
            if len(self._recent) > RECENT:
                self._trim_recent()
            self._chain[name] = self._removed.pop(name, "") if self._removed else ""
        elif name not in self._chain:
            self._chain[name] = self._removed.pop(name, "")
        if kind == "gemini" and record.cortext is None:
            messages = self._model(record, record_state)
        elif record.cortext is not None:
            messages = self._written_by_us(record, record.cortext, record_state)
        else:
            messages = self._user(record, record_state)
        if messages:
            self._report(record, messages, out)
        elif record_state.has_message or record_state.calls:
            note(self.counts.skipped, "repeated record")
        elif not record.toolCalls and not any(part.text or part.functionResponse for part in parts_of(record.content)):
            note(self.counts.skipped, WITHOUT_CONTENT)

    def _add_rewritten(self, record: Record, out: list[Message]) -> None:
        """Add a record of a rewritten history, unless it is known by its id or its text."""
        if record.id in self._recent and record.id in self._chain:
            if record.type == "gemini" and record.toolCalls:
                self._add_message(record, out)
            return
        parts = parts_of(record.content)
        texts = [part.text for part in parts if part.text and not part.thought]
        origin = next(
            (
                self._text_records[fingerprint(text)]
                for text in reversed(texts)
                if fingerprint(text) in self._text_records
            ),
            "",
        )
        answers = [part.functionResponse for part in parts if part.functionResponse is not None]
        for call_id in [*(call.id for call in calls_of(record, parts)), *(answer.id for answer in answers)]:
            origin = self._result_messages.get(call_id or "") or self._call_messages.get(call_id or "", origin)
        new_texts = [text for text in texts if fingerprint(text) not in self._text_records and not bookkeeping(text)]
        if origin and not new_texts:
            note(self.counts.skipped, "repeated message")
            self._chain[record.id] = origin
        else:
            self._add_message(record, out)

    # ── order ────────────────────────────────────────────────────────────────────────────────────────

    def _report(self, record: Record, messages: list[Message], out: list[Message]) -> None:
        """Report a record's messages, with a parent where they do not follow the message reported last."""
        out += messages
        if record.type == "gemini" and not self._tip_moved and not self.aside and not messages[0].aside:
            self.last = messages[-1].id
            self._chain[next(reversed(self._chain))] = self.last
            return
        for message in messages:
            if message.aside or self.aside:
                message.aside = True
                continue
            if self._tip_moved:
                self._tip_moved = False
                tip = self._tip()
                if tip != self.last and self.last:
                    message.parent = tip or BEGINNING
            self.last = message.id
            if message.role == USER and not self.about.command and message.content.startswith("/workspace"):
                self.about.command = message.content.split(maxsplit=1)[0]
        # Usually this is the newest record. If another process has appended one since, these messages come after it.
        self._chain[next(reversed(self._chain), record.id)] = self.last

    def _tip(self) -> str:
        """Return the id of the last message of the current conversation."""
        for message_id in reversed(self._chain.values()):
            if message_id:
                return message_id
        return self._cursor_tip


def _record_id(raw: msgspec.Raw) -> str:
    try:
        return head_decoder.decode(raw).id
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""


def _calling_record(name: str) -> str:
    """Return the id of the record with the calls whose results this one repeats; empty if it is not of that kind."""
    return name.removesuffix("_response") if name.endswith("_response") else ""
