"""Finds and reads the sessions of Kimi Code; a folder of ours next to a copy holds the same files.

A session is the folder `sessions/wd_<name>_<hash of the path>/<id>` with `state.json` and one event log for each agent.
Kimi Code finds sessions by listing the folders; `session_index.jsonl` is only appended to, and left alone by us.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from cortext.io import durable, new_files
from cortext.model.message import BEGINNING, USER, Message
from cortext.tools.base import About, Counts, Leftover, Transcript, Watch
from cortext.tools.kimi_code.adapter import KEY, LOG, KimiCode, log_in
from cortext.tools.kimi_code.messages import (
    CLEAR,
    COMPACTION,
    INJECTED,
    LOOP_EVENT,
    MESSAGE,
    REQUEST,
    SKIPPED,
    TOOLS,
    UNDO,
    USAGE,
    ContextMessage,
    Origin,
    Record,
    State,
    Step,
    literal_message,
    mcp_tools_in,
    record_decoder,
    timestamp,
)
from cortext.tools.shared.building import note_tools
from cortext.tools.shared.folders import listing, of_project
from cortext.tools.shared.leftovers import unlisted_below
from cortext.tools.shared.lines import NOT_UNDERSTOOD, RECORD_ERRORS, ForeignLines, fingerprint, note, place, usable
from cortext.tools.shared.parts import ToolPart

# What Kimi Code keeps beside the logs of a session's agents.
_COMPANIONS = (
    *("*/*/state.json", "*/*/metadata.json", "*/*/session-meta*", "*/*/notify/", "*/*/logs/", "*/*/media-originals/"),
    *("*/*/attachments/", "*/*/agents/*/tasks/", "*/*/agents/*/cron/", "*/*/agents/*/blobs/", "*/*/agents/*/plans/"),
)
_FIRST = re.compile(rb'\s*\{\s*"type"\s*:\s*"metadata"\s*,[^\n]{0,200}"protocol_version"')
_STALE_SECONDS = 3600
_PROMPTS = 50  # how many of the last prompts a cursor remembers, because they may be undone
_ROLES = ("user", "assistant", "tool")
_state = msgspec.json.Decoder(State)


class KimiReader(ToolPart[KimiCode]):
    """Finds and reads the sessions."""

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield the sessions, or those of one project."""
        return of_project(map(self.transcript_at, map(log_in, self.tool.folders())), project, resolve=True)

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the transcript in a log of Kimi Code's, or in a copy of one; None for any other file."""
        try:
            with open(path, "rb", opener=durable.plain_file) as file:
                is_log = _FIRST.match(file.read(512)) is not None
        except OSError:
            return None
        state = state_of(path)
        folder = _session_folder(path)
        key = os.path.basename(folder) if folder else state.id
        if not KEY.fullmatch(key) or not (is_log or folder):
            return None
        sizes, times = zip(*map(_status, (path, *agents_of(path).values())), strict=True)
        return Transcript(
            tool=self.tool.name, key=key, path=path, project=state.cwd, size=sum(sizes), changed=max(times)
        )

    def leftovers(self, listed: Sequence[Transcript]) -> Iterator[Leftover]:
        """Yield the other files among the sessions, without what belongs to one."""
        logs = {log for transcript in listed for log in agents_of(transcript.path).values()}
        return unlisted_below(self.tool.sessions, listed, self.tool.title, _COMPANIONS, logs.__contains__)

    def watched(self) -> Watch:
        """Return the folder of all sessions."""
        return Watch(folders=[self.tool.sessions])

    def changed(self, path: str) -> list[Transcript]:
        """Return the session in whose folder a file is: its log, a subagent's log, its state."""
        steps = os.path.relpath(path, self.tool.sessions).split(os.sep)
        is_below = len(steps) > 2 and steps[0].startswith("wd_")
        found = self.transcript_at(log_in(os.path.join(self.tool.sessions, *steps[:2]))) if is_below else None
        return [found] if found is not None else []

    def read(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> KimiReading:
        """Return a reading of the messages; with a cursor, only of those added since."""
        return KimiReading(transcript, cursor, state_of(transcript.path), agents_of(transcript.path))

    def copy(self, transcript: Transcript, target: str, later: new_files.Later | None = None) -> None:
        """Copy a log, and beside it the logs of the subagents and `state.json`."""
        path = transcript.path
        beside = f"{target}.files"
        new_files.mirror_file(path, target, later)
        new_files.ensure_folder(beside, later)
        for name, log in agents_of(path).items():
            new_files.mirror_file(log, os.path.join(beside, f"{name}.jsonl"), later)
        if os.path.isfile(state_path(path)):
            new_files.mirror_file(state_path(path), os.path.join(beside, "state.json"), later)


def workspace_name(project: str) -> str:
    """Return the name that Kimi Code gives to the folder of a project: its last part, and a hash of all of it."""
    project = os.path.realpath(project)
    name = re.sub(r"[^a-z0-9._-]+", "-", os.path.basename(project).lower()).strip("-")[:40].strip("-")
    digest = hashlib.sha256(project.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return f"wd_{'workspace' if name in ('', '.', '..') else name}_{digest}"


def state_of(path: str) -> State:
    """Return what the file `state.json` of a session says; an empty one if it cannot be read."""
    try:
        return _state.decode(durable.read_file(state_path(path)))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return State()


def agents_of(path: str) -> dict[str, str]:
    """Return the logs of the subagents of a session, by name."""
    folder = _session_folder(path)
    if not folder:
        names = [name for name in listing(f"{path}.files") if name.endswith(".jsonl")]
        return {name.removesuffix(".jsonl"): os.path.join(f"{path}.files", name) for name in names}
    agents = os.path.join(folder, "agents")
    logs = {name: os.path.join(agents, name, LOG) for name in listing(agents) if name != "main"}
    return {name: log for name, log in logs.items() if os.path.isfile(log)}


def _session_folder(path: str) -> str:
    """Return the folder of the session that a log belongs to; empty for a copy in another place."""
    parts = path.split(os.sep)
    return os.sep.join(parts[:-3]) if parts[-3:] == ["agents", "main", LOG] and KEY.fullmatch(parts[-4]) else ""


def state_path(path: str) -> str:
    return os.path.join(_session_folder(path) or f"{path}.files", "state.json")


def _status(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0
    return status.st_size, status.st_mtime_ns


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
            note_tools(about, message)
            yield message

    def _add(self, record: Record, offset: int) -> list[Message]:
        """Return the messages that are complete with this record."""
        kind = record.type
        if kind == LOOP_EVENT and record.event is not None:
            return self._loop_event(record, offset)
        if kind in (REQUEST, USAGE):
            self._account(record)
            return []
        if kind == TOOLS and not self._aside:
            about = self._reading.about
            about.tools += [name for name in mcp_tools_in(record) if name not in about.tools]
        if kind in SKIPPED:
            note(self._reading.counts.skipped, kind)
            return []
        closed = self._close()
        if kind == MESSAGE and record.message is not None:
            return [*closed, *self._message(record, record.message)]
        if kind == COMPACTION:
            summary = record.context_summary or record.summary
            if isinstance(summary, ContextMessage):
                summary = literal_message(Record(message=summary), "").text
            self._reading.about.summary = summary or ""
            note(self._reading.counts.skipped, kind)
        elif kind == CLEAR:
            self._progress.parent, self._progress.prompts = BEGINNING, []
            note(self._reading.counts.skipped, kind)
        elif kind == UNDO:
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
        if record.type == REQUEST:
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
        note(self._reading.counts.skipped, UNDO)
        prompts = self._progress.prompts
        if 0 < count <= len(prompts):
            self._progress.parent = prompts[-count] or BEGINNING
            del prompts[-count:]
