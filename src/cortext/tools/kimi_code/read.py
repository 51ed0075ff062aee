"""Read a session of Kimi Code: the event log of its main agent, and those of its subagents."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import msgspec

from cortext.model.message import BEGINNING, TOOL_CALL, USER, Message
from cortext.tools.base import About, Counts, Transcript
from cortext.tools.kimi_code import records
from cortext.tools.kimi_code.messages import Step, literal_message, timestamp
from cortext.tools.kimi_code.records import INJECTED, SKIPPED, ContextMessage, Origin, Record, State, record_decoder
from cortext.tools.shared.cursor import fingerprint, usable
from cortext.tools.shared.lines import NOT_UNDERSTOOD, RECORD_ERRORS, ForeignLines, note, place

_STALE_SECONDS = 3600
_PROMPTS = 50  # how many of the last prompts a cursor remembers, because they may be undone
_ROLES = ("user", "assistant", "tool")


class KimiReading:
    """The messages of a session, then those of its subagents as asides; see `TranscriptReading`."""

    def __init__(
        self, transcript: Transcript, cursor: dict[str, Any] | None, state: State, agents: dict[str, str]
    ) -> None:
        self.about = About(project=transcript.project, title=state.title, created_at=timestamp(state.created))
        self.counts = Counts()
        self.cursor: dict[str, Any] | None = None
        self._transcript = transcript
        self._start_cursor = cursor or {}
        self._agents = agents

    def __iter__(self) -> Iterator[Message]:
        self.counts = Counts()
        reached: dict[str, Any] = {}
        for name, path in {"main": self._transcript.path, **self._agents}.items():
            saved = self._start_cursor.get(name)
            log = _Log(self, path, saved if isinstance(saved, dict) else None, aside=name != "main")
            yield from log
            reached[name] = log.cursor
            if name == "main":
                self.about.notes = log.notes
        self.cursor = reached

    @property
    def key(self) -> str:
        """The id of the session."""
        return self._transcript.key

    @property
    def is_stale(self) -> bool:
        """Whether nothing has been written for so long that an open answer will not be finished."""
        return time.time() - self._transcript.changed / 1e9 > _STALE_SECONDS


class _Progress(msgspec.Struct):
    """What a later reading needs of the records before its start."""

    last: str = ""  # the newest message
    parent: str = ""  # what the next message follows, if that is another one
    prompts: list[str] = []  # the message before each of the last prompts; Kimi Code can undo prompts
    notes: int = 0  # texts of its own, and instructions of skills, that Kimi Code gave to its model


class _Log:
    """One event log."""

    def __init__(self, reading: KimiReading, path: str, cursor: dict[str, Any] | None, *, aside: bool) -> None:
        self._reading, self._path, self._aside = reading, path, aside
        self._model = ""
        self._step: Step | None = None
        self._start, self._progress = 0, _Progress()
        cursor = usable(cursor, path)
        if cursor is not None:
            try:
                self._progress = msgspec.convert(cursor.get("progress"), _Progress)
                self._start = cursor["offset"]
            except msgspec.ValidationError:
                pass  # read everything
        self.cursor: dict[str, Any] | None = None

    @property
    def notes(self) -> int:
        """How many texts of its own Kimi Code has given to its model by now."""
        return self._progress.notes

    def __iter__(self) -> Iterator[Message]:
        counts = self._reading.counts
        lines = ForeignLines(self._path, self._start, counts)
        end, before = self._start, msgspec.structs.replace(self._progress)
        for line in lines:
            for record in lines.decode(line, record_decoder, Record):
                try:
                    found = self._add(record, end)
                except RECORD_ERRORS:
                    note(counts.damaged, NOT_UNDERSTOOD)
                    place(counts, self._path, lines.end)
                    continue
                yield from self._placed(found)
            end = lines.end
            if self._step is None:
                before = msgspec.structs.replace(self._progress, prompts=self._progress.prompts[-_PROMPTS:])
        offset = self._step.offset if self._step is not None else lines.end
        if self._step is not None and self._reading.is_stale:
            yield from self._placed(self._step.messages())
        self.cursor = {
            "offset": offset,
            "seen": fingerprint(self._path, offset),
            "progress": msgspec.to_builtins(before),
        }

    def _placed(self, messages: list[Message]) -> Iterator[Message]:
        about, progress = self._reading.about, self._progress
        for message in messages:
            message.aside = self._aside or message.aside
            message.parent, progress.parent = progress.parent, ""
            progress.last = message.id
            about.model = message.model or about.model
            used = (part.name for part in message.parts or () if part.type == TOOL_CALL)
            about.tools += [tool for tool in dict.fromkeys(used) if tool not in about.tools]
            yield message

    def _add(self, record: Record, offset: int) -> list[Message]:
        """Return the messages that are complete with this record."""
        kind = record.type
        if kind == records.LOOP_EVENT and record.event is not None:
            return self._loop_event(record, offset)
        if kind in (records.REQUEST, records.USAGE):
            self._account(record)
            return []
        if kind in SKIPPED:
            note(self._reading.counts.skipped, kind)
            return []
        closed = self._close()
        if kind == records.MESSAGE and record.message is not None:
            return [*closed, *self._message(record, record.message)]
        if kind == records.COMPACTION:
            summary = record.context_summary or record.summary
            if isinstance(summary, ContextMessage):
                summary = literal_message(Record(message=summary), "").text
            self._reading.about.summary = summary or ""
            note(self._reading.counts.skipped, kind)
        elif kind == records.CLEAR:
            self._progress.parent, self._progress.prompts = BEGINNING, []
            note(self._reading.counts.skipped, kind)
        elif kind == records.UNDO:
            self._undo(record.count)
        else:
            note(self._reading.counts.unknown, kind or "record without type")
        return closed

    def _loop_event(self, record: Record, offset: int) -> list[Message]:
        event = record.event
        assert event is not None
        if event.type == "step.begin":
            closed = self._close()
            self._step = Step(event, record.time, offset)
            return closed
        if event.type == "step.end":
            return self._close()
        if self._step is None:
            self._step = Step(event, record.time, offset)  # its beginning is damaged
        if not self._step.add(event, record.time):
            note(self._reading.counts.unknown, f"loop event {event.type or 'without type'}")
        return []

    def _account(self, record: Record) -> None:
        """Set the model and the tokens of the open answer."""
        note(self._reading.counts.skipped, record.type)
        if record.type == records.REQUEST:
            self._model = record.model
        if self._step is not None:
            self._step.model = self._model
            self._step.usage = record.usage or self._step.usage

    def _close(self) -> list[Message]:
        step, self._step = self._step, None
        return step.messages() if step is not None else []

    def _message(self, record: Record, said: ContextMessage) -> list[Message]:
        counts, origin = self._reading.counts, said.origin or Origin()
        if said.role not in _ROLES:
            note(counts.unknown, f"message of role {said.role or 'none'}")
            return []
        if said.role == USER:
            by_command = origin.kind in ("skill_activation", "plugin_command")
            self._progress.notes += origin.kind in INJECTED or by_command
            if origin.kind in INJECTED or (by_command and origin.trigger != "user-slash"):
                note(counts.skipped, f"message by {origin.kind}")
                return []
            if origin.kind == "compaction_summary":
                self._reading.about.summary = literal_message(record, "").text
                note(counts.skipped, "summary")
                return []
            if origin.kind not in ("user", "shell_command") and not by_command:
                note(counts.unknown, f"message by {origin.kind}")
                return []
            if not origin.in_turn and origin.kind != "shell_command":
                self._progress.prompts.append(self._progress.last)
        message, mark = literal_message(record, self._reading.key), record.cortext
        if mark is not None and mark.added:
            return []
        return [message if mark is None else mark.restored(message, counts.damaged)]

    def _undo(self, count: int) -> None:
        """Go back to before the last prompts."""
        note(self._reading.counts.skipped, records.UNDO)
        prompts = self._progress.prompts
        if 0 < count <= len(prompts):
            self._progress.parent = prompts[-count] or BEGINNING
            del prompts[-count:]
