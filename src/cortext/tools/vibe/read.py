"""Reads a session of Mistral Vibe: whole each time, because Vibe rewrites its files.

What the model gets has no ids and no times; the entries of the screen have both, but no ids of calls. So the two are
matched in their order. After a compaction the model gets a summary, and the earlier messages are those of the screen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from cortext.model import clock
from cortext.model.message import (
    ASSISTANT,
    FILE,
    IMAGE,
    TEXT,
    THINKING,
    TOOL,
    TOOL_CALL,
    TOOL_RESULT,
    USER,
    Message,
    Part,
    is_empty_message,
    joined_text,
)
from cortext.tools.base import Transcript
from cortext.tools.shared.building import note_tools
from cortext.tools.shared.bundle import Piece
from cortext.tools.shared.commands import command_in, is_resume_block
from cortext.tools.shared.lines import (
    NOT_UNDERSTOOD,
    RECORD_ERRORS,
    WITHOUT_CONTENT,
    concatenated_values,
    derived_id,
    note,
    without_lone_surrogates,
)
from cortext.tools.shared.native import OwnMessages
from cortext.tools.shared.reading import WholeReading
from cortext.tools.shared.values import objects, word
from cortext.tools.vibe import records
from cortext.tools.vibe.records import ERRORS, Line, Session, contents_of

T = TypeVar("T")
Pairs = list[tuple[Message, Message | None]]
_SKILL = '<skill_content name="'
_SUMMARY = re.compile(r"<compaction_summary>\n(.*)\n</compaction_summary>", re.DOTALL)


class VibeReading(WholeReading):
    """The messages of a session, from its files."""

    def __init__(self, transcript: Transcript, pieces: Iterable[Piece]) -> None:
        super().__init__(transcript)
        self._pieces, self._key = pieces, transcript.key

    def __iter__(self) -> Iterator[Message]:
        try:
            session = Session(contents_of(self._pieces))
        except ERRORS:
            self.damaged("session cannot be read", "its main files")
            return
        meta, config = session.meta, session.meta.config
        self.about.title, self.about.created_at = meta.title or "", clock.normalise(meta.start_time or "")
        self.about.model = (config.model_name or config.active_model or "") if config else ""
        for message in self._messages(session):
            self._describe(message)
            yield message

    def _messages(self, session: Session) -> Iterable[Message]:
        if not session.is_unified:
            return (original for _, original in self._vibe_2(session) if original is not None)
        try:
            old = session.old
            pairs = self._vibe_2(old) if old is not None else []
        except ERRORS:
            return self._unified(session)
        if old is not None:
            self.about.title = self.about.title or old.meta.title or ""
        return OwnMessages.of(self._unified(session), pairs)

    def _describe(self, message: Message) -> None:
        note_tools(self.about, message)
        if message.role == USER and not self.about.command:
            self.about.command = f"/{name}" if (name := command_in(message.content)[0]) else ""

    # ── Vibe 2 ───────────────────────────────────────────────────────────────────────────────────────

    def _vibe_2(self, session: Session) -> Pairs:
        """Return each message of a Vibe 2 session as it is read, and as it was before we wrote it."""
        pairs: Pairs = []
        for number, line in enumerate(self._lines(session, records.LINES, records.line_decoder, records.Line)):
            try:
                message = _from_line(line)
                mark = line.cortext
                original = mark.original() if mark is not None else None
            except RECORD_ERRORS:
                self.damaged(NOT_UNDERSTOOD, f"{records.LINES}, record {number + 1}")
                continue
            if line.role == "system" or line.injected:
                self.about.notes += 1
                note(self.counts.skipped, "text of the program")
            elif message is None:
                note(self.counts.unknown, f"role {line.role}" if line.role else "without role")
            elif mark is not None:
                if mark.added:
                    note(self.counts.skipped, "added by cortext")
                pairs.append((message, None if mark.added else original))
            elif is_empty_message(message):
                note(self.counts.skipped, WITHOUT_CONTENT)
            else:
                message.id = line.message_id or derived_id(self._key, number, line.role, message.text)
                message.model = self.about.model if message.role == ASSISTANT else ""
                pairs.append((message, message))
        return pairs

    def _lines(self, session: Session, name: str, decoder: msgspec.json.Decoder[T], kind: type[T]) -> Iterator[T]:
        """Yield the records of a file of lines; a last line without an end may still be being written."""
        lines = session.read(name).split(b"\n")
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                yield decoder.decode(line)
                continue
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                values, is_complete = concatenated_values(line)
            if number == len(lines) and not is_complete and number > 1:
                return
            for value in values:
                try:
                    yield msgspec.json.decode(msgspec.json.encode(without_lone_surrogates(value)), type=kind)
                except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
                    self.damaged("unexpected shape", f"{name}, line {number}")
            if not is_complete or not values:
                self.damaged("not JSON", f"{name}, line {number}")

    # ── Vibe 3 ───────────────────────────────────────────────────────────────────────────────────────

    def _unified(self, session: Session) -> Iterator[Message]:
        context = self._chunks(session, session.manifest.checkpoint.names, list[records.Context])
        entries = self._chunks(session, session.manifest.projection_state.names, list[records.Entry])
        shown = [entry for entry in entries if entry.type == "message" and entry.role in (USER, ASSISTANT)]
        try:
            spoken_before = _is_compacted(session)
        except ERRORS:
            self.damaged("checkpoint cannot be read", "checkpoint.json")
            spoken_before = False
        thread = _Thread(self._key, self.about.model, shown)
        manifest = session.manifest
        journal = manifest.recovery_journal_segment.path
        if not journal and not context:
            self.damaged("nothing is named", f"{session.generation}/manifest.json")
        for item in context:
            message = _from_context(item.message)
            if item.source != "history":
                self.about.notes += 1
                note(self.counts.skipped, f"context from {item.source}")
                self.about.summary = (_summary_in(message.content) if message else "") or self.about.summary
            elif message is None:
                note(self.counts.skipped, "text of the program")
            else:
                yield from thread.add(message, with_earlier=spoken_before)
        if journal:
            yield from self._journal(session, journal, thread, is_all=not context)

    def _chunks(self, session: Session, names: Sequence[str], kind: type[list[T]]) -> list[T]:
        found: list[T] = []
        for name in names:
            try:
                found += session.decode(name, kind)
            except ERRORS:
                self.damaged("chunk cannot be read", name)
        return found

    def _journal(self, session: Session, name: str, thread: _Thread, *, is_all: bool) -> Iterator[Message]:
        try:
            for record in self._lines(session, name, records.journal_decoder, records.JournalRecord):
                try:
                    yield from self._record(record, thread)
                except RECORD_ERRORS:
                    self.damaged(NOT_UNDERSTOOD, name)
        except FileNotFoundError:
            if is_all:  # else nothing was said since
                self.damaged("journal is missing", name)

    def _record(self, record: records.JournalRecord, thread: _Thread) -> Iterator[Message]:
        if record.type == "projection_delta":
            for delta in msgspec.json.decode(record.payload, type=records.Deltas).delta:
                entry = delta.entry
                if delta.op == "append_entry" and entry is not None and (entry.type, entry.role) == ("message", USER):
                    message = _from_context({"role": USER, "content": entry.content})
                    if message is not None:
                        yield from thread.place(message, entry)
        elif record.type == "action_intent":
            intent = msgspec.json.decode(record.payload, type=records.Intent)
            if intent.request.type == "llm_call" and intent.request.purpose == "agent":
                thread.asked.add(intent.action_id)
                sent = intent.request.model_input.messages.messages if intent.request.model_input else []
                yield from thread.results([found for item in sent if (found := _from_context(item)) is not None])
        elif record.type == "action_result":
            result = msgspec.json.decode(record.payload, type=records.ActionResult)
            if result.action_id in thread.asked and result.result.type == "completion_succeeded":
                answer = msgspec.convert(result.result.result, records.Completion)
                yield from thread.answer(_from_answer(answer.parts), result.action_id, answer.usage)
        note_kind = record.type or "without type"
        known = record.type in ("projection_delta", "action_intent", "action_result", *records.BOOKKEEPING)
        note(self.counts.skipped if known else self.counts.unknown, note_kind)


class _Thread:
    """Gives the messages of a session their ids, and knows which calls have no result yet."""

    def __init__(self, key: str, model: str, shown: Sequence[records.Entry]) -> None:
        self._key, self._model, self._shown, self._next = key, model, shown, 0
        self._times: dict[str, int] = {}
        self._open: set[str] = set()
        self._calls: set[str] = set()
        self.asked: set[str] = set()  # the requests for an answer of the conversation itself

    def add(self, message: Message, *, with_earlier: bool) -> Iterator[Message]:
        """Yield a message that the model gets; with `with_earlier`, before it what only the screen still shows."""
        if message.role == TOOL or not message.content:
            yield from self._identified(message, "")
            return
        for index in range(self._next, len(self._shown)):
            entry = self._shown[index]
            if entry.role == message.role and _content(entry) == message.content:
                for earlier in self._shown[self._next : index] if with_earlier else ():
                    yield from self.place(_spoken(earlier.role, [Part(TEXT, text=_content(earlier))]), earlier)
                self._next = index + 1
                yield from self.place(message, entry)
                return
        yield from self._identified(message, "")

    def place(self, message: Message, entry: records.Entry) -> Iterator[Message]:
        """Yield a message with the id and the time of its entry."""
        message.timestamp = clock.from_epoch(entry.createdAt / 1000) if entry.createdAt > 0 else ""
        yield from self._identified(message, entry.id)

    def answer(self, message: Message, action: str, usage: dict[str, Any] | None) -> Iterator[Message]:
        """Yield an answer of the model. The entry of its text will have the same id."""
        message.usage = usage
        tokens = usage.get("output_tokens") if usage else None
        message.tokens = tokens if isinstance(tokens, int) else None
        yield from self._identified(message, f"assistant-{action}" if message.content else "")

    def results(self, messages: Sequence[Message]) -> Iterator[Message]:
        """Yield the results that a request contains for open calls, and the calls that the program made itself."""
        for message in messages:
            calls = {part.id for part in message.parts_of(TOOL_CALL)}
            answered = {part.call_id for part in message.parts_of(TOOL_RESULT)}
            if (calls and not calls & self._calls) or answered & self._open:
                yield from self._identified(message, "")

    def _identified(self, message: Message, identity: str) -> Iterator[Message]:
        if is_empty_message(message):
            return
        calls = [part.id for part in message.parts_of(TOOL_CALL)]
        answered = [part.call_id for part in message.parts_of(TOOL_RESULT)]
        self._calls.update(calls)
        self._open.update(calls)
        self._open.difference_update(answered)
        seed = derived_id(self._key, message.role, *(calls or answered or [message.text]))
        self._times[seed] = times = self._times.get(seed, 0) + 1
        message.id = identity or (seed if times == 1 else f"{seed}.{times}")
        if message.role == ASSISTANT:
            message.model = self._model
        yield message


def _content(entry: records.Entry) -> str:
    message = _from_context({"role": entry.role, "content": entry.content})
    return message.content if message is not None else ""


def is_compacted(pieces: Iterable[Piece]) -> bool:
    """Whether the model gets only a summary of a part of this session, or nobody knows."""
    try:
        session = Session(contents_of(pieces))
        return session.is_unified and _is_compacted(session)
    except ERRORS:
        return True


def _is_compacted(session: Session) -> bool:
    checkpoint: records.Checkpoint = session.decode(f"{session.generation}/checkpoint.json", records.Checkpoint)
    return checkpoint.compaction_count > 0


# ── what the model gets (Vibe 3), and the lines of Vibe 2, as messages ───────────────────────────────


def _from_context(message: dict[str, Any]) -> Message | None:
    """Return a message that the model gets; None if it is not part of a conversation."""
    role, parts = message.get("role"), [_part(item) for item in objects(message, "content")]
    if role == TOOL:
        output = "\n\n".join(part.text for part in parts if part.type == TEXT)
        failed = message.get("outcome") == "failure"
        return _result(word(message, "tool_call_id"), word(message, "name"), output, is_error=failed)
    if role == USER:  # after the words of the user, Vibe adds the text of the skill that they call
        parts = [part for index, part in enumerate(parts) if not (index and part.text.startswith(_SKILL))]
    return _spoken(role, parts) if role in (USER, ASSISTANT) else None


def _summary_in(text: str) -> str:
    """Return the summary in a text that Vibe sends after a compaction; empty if there is none."""
    found = _SUMMARY.search(text)
    return found[1] if found else ""


def _from_answer(items: list[dict[str, Any]]) -> Message:
    """Return the model's answer as the journal records it."""
    return _spoken(ASSISTANT, [_part(item) for item in items])


def _from_line(line: Line) -> Message | None:
    """Return a message of Vibe 2, without the field that we may have added."""
    texts = [line.content] if isinstance(line.content, str) else []
    parts = [Part(TEXT, text=text) for text in texts if text]
    if isinstance(line.content, list):
        parts = [_part(item) for item in line.content]
    if line.role == TOOL:
        return _result(line.tool_call_id or "", line.name or "", joined_text(parts))
    if line.role not in (USER, ASSISTANT):
        return None
    if line.reasoning_content:
        parts.insert(0, Part(THINKING, text=line.reasoning_content))
    for call in line.tool_calls or ():
        given = _json(word(call, "function", "arguments"))
        parts.append(Part(TOOL_CALL, id=word(call, "id"), name=word(call, "function", "name"), input=given))
    return _spoken(line.role, parts)


def _spoken(role: str, parts: list[Part]) -> Message:
    """Return what the user or the model said."""
    content = joined_text(parts)
    message = Message(role=role, content=content, parts=None if all(part.type == TEXT for part in parts) else parts)
    if role == USER and is_resume_block(content):
        message.aside, message.extra = True, {"resume_block": True}
    return message


def _result(call: str, name: str, output: str, *, is_error: bool = False) -> Message:
    return Message(role=TOOL, parts=[Part(TOOL_RESULT, call_id=call, name=name, output=output, is_error=is_error)])


def _part(item: dict[str, Any]) -> Part:
    kind = word(item, "type")
    if kind == "text":
        return Part(TEXT, text=word(item, "text"))
    if kind == "reasoning":
        return Part(THINKING, text="\n\n".join(word(piece, "text") for piece in objects(item, "content")))
    if kind == "tool_call":
        raw = word(item, "arguments_json") or word(item, "arguments", "raw")
        return Part(TOOL_CALL, id=word(item, "id"), name=word(item, "name"), input=_json(raw))
    if kind == "resource":
        return Part(FILE, ref=word(item, "resource", "uri"), text=word(item, "resource", "text"))
    if kind in ("image", "image_url"):
        return Part(IMAGE, ref=word(item, "uri"), media_type=word(item, "mime_type") or word(item, "mimeType"))
    return Part(kind or "unknown", text=word(item, "text"))


def _json(text: str) -> Any:
    """Return the arguments of a call: an object, or the text itself if the model wrote something else."""
    try:
        return msgspec.json.decode(text) if text else {}
    except (msgspec.DecodeError, RecursionError):
        return text
