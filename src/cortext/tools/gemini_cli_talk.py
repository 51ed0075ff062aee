"""The talk that the records of a transcript add up to, message by message.

Gemini CLI appends: a record with a known id replaces the earlier one (first the words of an answer, then the
same with its tool calls), `$set` may replace the whole history, `$rewindTo` cuts it. We give every message once,
when it first appears, and say with `parent` where the talk went back. When the program compresses, masks or loads
its history it writes old messages again under new ids: those are known by their words, and not given twice.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from cortext.model.message import USER, Message
from cortext.tools.base import About, Counts
from cortext.tools.foreign import note
from cortext.tools.gemini_cli_messages import (
    Call,
    bookkeeping,
    calls_message,
    calls_of,
    measured,
    model_message,
    moment,
    own_message,
    result_message,
    user_messages,
)
from cortext.tools.gemini_cli_records import (
    SCREEN_TYPES,
    SESSION_CONTEXT,
    ContentPart,
    Record,
    head_decoder,
    is_empty,
    parts_of,
    record_decoder,
    text_of,
)

# How many of the newest records may still be completed by a later one with the same id.
RECENT = 64
# How many of them the cursor remembers for the next reading.
REMEMBERED = 8
_COMMENTS = re.compile(r"<!--.*?-->", re.DOTALL)


class Seen(msgspec.Struct, array_like=True):
    """What was given of a record so far."""

    sign: int = 0
    said: bool = False
    calls: int = 0
    versions: int = 0
    answered: list[str] = []


class PastNeeded(Exception):
    """This record cannot be understood without those before it."""


class Talk:
    """Takes records in order, gives messages. `whole` says whether it saw the transcript from its beginning."""

    def __init__(self, key: str, about: About, counts: Counts, *, aside: bool = False) -> None:
        self.key, self.about, self.counts, self.aside = key, about, counts, aside
        self.whole = True
        self.last = ""  # the message given last
        self._floor = ""  # the talk's end, where the cursor's records gave no message
        self._chain: dict[str, str] = {}  # the records of the talk as it stands, each with its last message
        self._gone: dict[str, str] = {}  # those that were cut away
        self._recent: dict[str, Seen] = {}
        self._answers: dict[str, str] = {}  # call id: the message with its result
        self._called: dict[str, str] = {}  # call id: the message that made it
        self._words: dict[int, str] = {}  # sign of a text: the message that said it
        self._held: list[Record] | None = None

    # ── the cursor ───────────────────────────────────────────────────────────────────────────────────

    def state(self) -> dict[str, Any]:
        """What the next reading needs to go on here."""
        recent = list(self._recent.items())[-REMEMBERED:]
        seen = [[name, self._chain.get(name, ""), *msgspec.to_builtins(entry)] for name, entry in recent]
        return {"last": self.last, "tip": self._tip(), "recent": seen}

    def go_on(self, state: dict[str, Any]) -> None:
        """Begin in the middle, with what an earlier reading left."""
        self.whole = False
        self.last, self._floor = str(state["last"]), str(state["tip"])
        for name, message_id, *entry in state["recent"]:
            seen = msgspec.convert(entry, Seen)
            self._recent[name] = seen
            self._chain[name] = message_id
            self._answers.update(dict.fromkeys(seen.answered, ""))

    # ── records ──────────────────────────────────────────────────────────────────────────────────────

    def take(self, record: Record) -> Iterator[Message]:
        """The messages that a record adds."""
        if self._held is not None:
            if record.id:
                self._held.append(record)
                return
            if record.changed is not None and record.changed.messages is None:
                note(self.counts.skipped, "metadata")
                return
            yield from self.finish()
        if record.rewind is not None:
            self._rewind(record.rewind)
        elif record.id:
            if self._begins_again(record):
                self._held = [record]
            else:
                yield from self._message(record)
        elif record.changed is not None:
            if record.changed.summary:
                self.about.title = record.changed.summary
            if record.changed.messages is None:
                note(self.counts.skipped, "metadata")
            else:
                yield from self._replace(record.changed.messages)
        elif record.sessionId is not None:
            yield from self._opening(record)
        else:
            note(self.counts.unknown, "record without an id")

    def finish(self) -> Iterator[Message]:
        """What was held back: copies of what is known already, and perhaps something new among them."""
        held, self._held = self._held or (), None
        for record in held:
            yield from self._second_hand(record)

    def _opening(self, record: Record) -> Iterator[Message]:
        """The session's own data; in a document on one line, with all its messages."""
        note(self.counts.skipped, "metadata")
        self.about.created_at = self.about.created_at or moment(record.startTime)
        self.about.title = record.summary or self.about.title
        for raw in record.messages or ():
            message = self._decoded(raw)
            if message is not None:
                yield from self.take(message)

    def _begins_again(self, record: Record) -> bool:
        """Whether the program begins to write its history again: only then this context comes as a record."""
        if record.type != "user" or record.id in self._chain or record.cortext is not None:
            return False
        parts = parts_of(record.content)
        if not (parts and parts[0].text and parts[0].text.startswith(SESSION_CONTEXT)):
            return False
        self._need_past()
        return bool(self._words)

    def _rewind(self, record_id: str) -> None:
        """Cut the talk before a record; all of it where the record is unknown, as the program does."""
        self._need_past()
        note(self.counts.skipped, "rewind")
        names = list(self._chain)
        start = names.index(record_id) if record_id in self._chain else 0
        for name in names[start:]:
            self._gone[name] = self._chain.pop(name)

    def _replace(self, raws: Sequence[msgspec.Raw]) -> Iterator[Message]:
        """The whole history anew: known records stay what they are, unknown ones may bring something."""
        self._need_past()
        note(self.counts.skipped, "history again")
        before = {**self._gone, **self._chain}
        self._chain = {}
        for raw in raws:
            try:
                name = head_decoder.decode(raw).id
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                name = ""
            if name in before:
                self._chain[name] = before.pop(name)
            if name not in self._chain or name in self._recent:
                record = self._decoded(raw)
                if record is not None and record.id:
                    yield from self._second_hand(record)
        self._gone = before

    def _decoded(self, raw: msgspec.Raw) -> Record | None:
        try:
            return record_decoder.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            note(self.counts.damaged, "unexpected shape")
            return None

    # ── messages ─────────────────────────────────────────────────────────────────────────────────────

    def _message(self, record: Record) -> Iterator[Message]:
        if record.type in SCREEN_TYPES:
            note(self.counts.skipped, record.type)
            self._chain.setdefault(record.id, "")
            return
        if record.type not in ("user", "gemini"):
            note(self.counts.unknown, f"type {record.type[:40] or 'missing'}")
            self._chain.setdefault(record.id, "")
            return
        seen = self._recent.get(record.id)
        if seen is None:
            if record.id in self._chain:
                note(self.counts.skipped, "record again")
                return
            seen = self._recent[record.id] = Seen()
            if len(self._recent) > RECENT:
                del self._recent[next(iter(self._recent))]
        if record.id not in self._chain:
            self._chain[record.id] = self._gone.pop(record.id, "")
        given = 0
        for message in self._spoken(record, seen):
            given += 1
            yield self._placed(record, message)
        if not given and (seen.said or seen.calls):
            note(self.counts.skipped, "record again")

    def _spoken(self, record: Record, seen: Seen) -> Iterator[Message]:
        """What a record says that was not given yet."""
        if record.cortext is not None:
            message = None if seen.said else own_message(record, record.cortext, self.key)
            if record.cortext.made:
                note(self.counts.skipped, "made by us")
            if message is not None:
                seen.said = True
                self._remember_words(parts_of(record.content), message.id)
                self._note_calls(message)
                yield message
            return
        parts = parts_of(record.content)
        for part in parts:
            if is_empty(part):
                note(self.counts.unknown, "part of an unknown kind")
        if record.type == "user":
            yield from self._results(record, parts, seen)
            yield from self._user(record, parts, seen)
        else:
            yield from self._model(record, parts, seen)

    def _user(self, record: Record, parts: Sequence[ContentPart], seen: Seen) -> Iterator[Message]:
        words = text_of(parts)
        if not words and not any(part.inlineData or part.fileData for part in parts):
            return
        kind = bookkeeping(words)
        if kind:
            note(self.counts.skipped, kind)
            if kind == "compression summary":
                self.about.summary = words
            return
        yield from self._once(record, words, seen, user_messages(record, parts, self.key))

    def _model(self, record: Record, parts: Sequence[ContentPart], seen: Seen) -> Iterator[Message]:
        words = text_of(parts)
        kind = bookkeeping(words)
        if kind:
            note(self.counts.skipped, kind)
            return
        if record.model:
            self.about.model = record.model
        message = model_message(record, parts, self.key)
        if message is not None:
            yield from self._once(record, words, seen, iter([message]))
        calls = calls_of(record, parts)
        fresh = calls[seen.calls :]
        if fresh:
            name = f"{record.id}/calls/{seen.calls}" if seen.calls else f"{record.id}/calls"
            called = calls_message(record, fresh, name)
            if message is None and not seen.calls:
                measured(called, record)
            seen.calls = len(calls)
            self._note_calls(called)
            yield called
        for place, call in enumerate(calls):
            if call.id not in self._answers:
                result = result_message(call, f"{record.id}/result/{place}", self.key, moment(record.timestamp))
                if result is not None:
                    self._answer(call.id, result.id, seen)
                    yield result

    def _results(self, record: Record, parts: Sequence[ContentPart], seen: Seen) -> Iterator[Message]:
        """Tool results that stand in a message of their own: mostly a second copy of what the call has."""
        for place, part in enumerate(parts):
            if part.functionResponse is None:
                continue
            answer = part.functionResponse
            call = Call(answer.id or f"{record.id}/{place}", answer.name or "", None, answer)
            if call.id in self._answers:
                note(self.counts.skipped, "tool result again")
                continue
            result = result_message(call, f"{record.id}/result/{place}", self.key, moment(record.timestamp))
            if result is not None:
                self._answer(call.id, result.id, seen)
                yield result

    def _once(self, record: Record, words: str, seen: Seen, messages: Iterator[Message]) -> Iterator[Message]:
        """The record's words, the first time; other words under the same id replace them."""
        mark = sign(words)
        if seen.said and (seen.sign == mark or not words):
            return
        for message in messages:
            if seen.said and not message.aside:
                seen.versions += 1
                message.id = f"{record.id}~{seen.versions}"
                self._replace_last(record, message)
            yield message
        self._words.setdefault(mark, record.id)
        parts = parts_of(record.content)
        if len(parts) > 1:
            self._remember_words(parts, record.id)
        seen.said, seen.sign = True, mark

    def _remember_words(self, parts: Sequence[ContentPart], message_id: str) -> None:
        for part in parts:
            if part.text:
                self._words.setdefault(sign(part.text), message_id)

    def _replace_last(self, record: Record, message: Message) -> None:
        """New words for an old record: in its place where it is the newest, else beside the talk."""
        names = list(self._chain)
        if names and names[-1] == record.id:
            self._chain[record.id] = ""
        else:
            message.aside = True

    def _second_hand(self, record: Record) -> Iterator[Message]:
        """A record out of a history that was written again: only what is not known by id or by its words."""
        if record.id in self._recent and record.id in self._chain:
            if record.type == "gemini" and record.toolCalls:
                yield from self._message(record)
            return
        parts = parts_of(record.content)
        texts = [part.text for part in parts if part.text and not part.thought]
        origin = next((self._words[sign(text)] for text in reversed(texts) if sign(text) in self._words), "")
        for call in [*calls_of(record, parts), *_answers_in(parts)]:
            origin = self._answers.get(call.id) or self._called.get(call.id, origin)
        strange = [text for text in texts if sign(text) not in self._words and not bookkeeping(text)]
        if origin and not strange:
            note(self.counts.skipped, "message again")
            self._chain[record.id] = origin
        else:
            yield from self._message(record)

    # ── places ───────────────────────────────────────────────────────────────────────────────────────

    def _placed(self, record: Record, message: Message) -> Message:
        """The message in its place in the talk: with a parent where that is not the one given before it."""
        if self.aside:
            message.aside = True
        if message.aside:
            return message
        tip = self._tip()
        if self.last and tip != self.last:
            message.parent = tip
        self.last = message.id
        # The newest record mostly is this one; where another writer's followed it, this belongs behind that.
        self._chain[next(reversed(self._chain), record.id)] = message.id
        command = message.content if message.role == USER else ""
        if command.startswith("/workspace") and not self.about.command:
            self.about.command = command.split(maxsplit=1)[0]
        return message

    def _tip(self) -> str:
        """The last message of the talk as it stands."""
        for message_id in reversed(self._chain.values()):
            if message_id:
                return message_id
        return self._floor

    def _note_calls(self, message: Message) -> None:
        for part in message.parts or ():
            if part.type == "tool_call":
                self._called[part.id] = message.id
                if part.name and part.name not in self.about.tools:
                    self.about.tools.append(part.name)
            elif part.type == "tool_result" and part.call_id:
                self._answers[part.call_id] = message.id

    def _answer(self, call_id: str, message_id: str, seen: Seen) -> None:
        self._answers[call_id] = message_id
        seen.answered.append(call_id)

    def _need_past(self) -> None:
        if not self.whole:
            raise PastNeeded


def _answers_in(parts: Sequence[ContentPart]) -> list[Call]:
    answers = [part.functionResponse for part in parts if part.functionResponse is not None]
    return [Call(answer.id or "", answer.name or "", None) for answer in answers]


def sign(text: str) -> int:
    """A short sign of a text by which it is known again; blind to what the program itself takes away."""
    if "<!--" in text:
        text = _COMMENTS.sub("", text)
    text = text.strip()
    return zlib.crc32(f"{len(text)}\0{text[:512]}\0{text[-512:]}".encode("utf-8", "surrogatepass"))
