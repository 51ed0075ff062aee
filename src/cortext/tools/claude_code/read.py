"""Reads a Claude Code transcript as a stream, from where the last reading ended, with the branches in it.

Records form a tree by `parentUuid`, through records that are not messages (attachments, notes). Only the owner of
each record is kept in memory: the message that it is, or its nearest ancestor that is a message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from cortext.model.message import BEGINNING, TOOL, Message, instructions_of, is_empty_message
from cortext.tools.base import About, Counts, Transcript
from cortext.tools.claude_code.messages import (
    ATTACHED,
    BOOKKEEPING,
    MESSAGE_TYPES,
    SYSTEM_NOTES,
    TITLES,
    UNSENT,
    MessageBuilder,
    Record,
    decoder,
    note_at_hand,
    summary_text,
    text_of,
    timestamp,
)
from cortext.tools.shared.commands import is_resume_block
from cortext.tools.shared.lines import (
    NOT_UNDERSTOOD,
    RECORD_ERRORS,
    WITHOUT_CONTENT,
    ForeignLines,
    derived_id,
    fingerprint,
    note,
    place,
    usable,
)

_TYPE_FIRST = b'{"type":"'
_PARENT_FIRST = b'{"parentUuid":'
_SOURCE = b'"sourceToolAssistantUUID":"'
_WORTH_CUTTING = _LONGEST_END = 2048  # bytes of a line
_SKIPPED_KINDS = frozenset(kind.encode("ascii") for kind in BOOKKEEPING)
_SKILL_FOLDER = "Base directory for this skill: "
_OWN_COMMANDS = "/workspace."  # a resume sends their current text
_PROMPT = "/.workspace/commands/"
_KEPT_OWNERS = 8
_KEPT_CALLS = 64
_KEPT_ABOUT = ("title", "model", "project", "created_at", "command", "notes")
_KEPT_ROUND = 64


class ClaudeReading:
    """The messages of a transcript, then those of its subagents (`subagents`: name and path of each file).

    The cursor contains the offset reached, a fingerprint of the file up to there, and the little that the next reading
    needs: the newest owners, calls without a result, and what the transcript says about itself.
    """

    def __init__(
        self,
        transcript: Transcript,
        subagents: Sequence[tuple[str, str]] = (),
        cursor: dict[str, Any] | None = None,
        counts: Counts | None = None,
        *,
        aside: bool = False,
    ) -> None:
        self.about = About(project=transcript.project)
        self.counts = Counts() if counts is None else counts
        self.cursor: dict[str, Any] | None = None
        self._transcript = transcript
        self._subagents = subagents
        self._aside = aside
        self._since = usable(cursor, transcript.path)
        self._owners: dict[str, str] = {}
        self._last = ""  # id of the newest message that is not an aside
        self._answer = ""  # id of the model's answer that it belongs to
        self._round: dict[str, None] = {}  # ids of the messages of that answer, in order
        self._command = ("", "")  # the record of the newest slash command, and what it was
        self._has_introduction = False
        self._title_rank = -1  # index in TITLES of the kind that the title came from
        self._summaries: dict[str, str] = {}
        self._start = 0
        self._has_all_owners = True

    def __iter__(self) -> Iterator[Message]:
        since = self._since or {}
        builder = MessageBuilder(self._transcript.key, self.about, self.counts, aside=self._aside)
        if since:
            self._restore(since, builder)
        lines = ForeignLines(self._transcript.path, self._start, self.counts)
        yield from self._messages(lines, builder)
        self._choose_title()
        cursor = self._new_cursor(lines.end, builder)
        if self._subagents:
            cursor["sides"] = {}
            earlier = since.get("sides") or {}
            for name, path in self._subagents:
                subagent = ClaudeReading(
                    Transcript(tool=self._transcript.tool, key=self._transcript.key, path=path),
                    cursor=earlier.get(name),
                    counts=self.counts,
                    aside=True,
                )
                try:
                    yield from subagent
                except FileNotFoundError:  # Claude Code removed it in the meantime
                    continue
                cursor["sides"][name] = subagent.cursor
        self.cursor = cursor

    # ── lines ────────────────────────────────────────────────────────────────────────────────────────

    def _messages(self, lines: ForeignLines, builder: MessageBuilder, stop: int | None = None) -> Iterator[Message]:
        skipped = self.counts.skipped
        decode = decoder.decode
        for line in lines:
            if stop is not None and lines.end > stop:
                return
            if line.startswith(_TYPE_FIRST):
                kind = line[9 : line.find(b'"', 9)]
                if kind in _SKIPPED_KINDS and _is_single_record(line):
                    note(skipped, kind.decode("ascii"))
                    continue
            try:
                record = decode(_without_result_copy(line) if len(line) > _WORTH_CUTTING else line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                for record in lines.decode(line, decoder, Record) or _record_after_torn_one(line):
                    yield from self._checked(record, builder, line, lines)
            else:
                messages = self._checked(record, builder, line, lines)
                if messages:
                    yield from messages

    def _checked(self, record: Record, builder: MessageBuilder, line: bytes, lines: ForeignLines) -> Sequence[Message]:
        """Return the messages of one record; a malformed one is counted as damaged."""
        try:
            return self._record(record, builder, line)
        except RECORD_ERRORS:
            note(self.counts.damaged, NOT_UNDERSTOOD)
            place(self.counts, self._transcript.path, lines.end)
            return ()

    def _record(self, record: Record, builder: MessageBuilder, line: bytes) -> Sequence[Message]:
        """Return the messages of one record; the first gets a parent if it does not follow the message before."""
        uuid = record.uuid
        owners = self._owners
        kind = record.type
        if uuid in owners and kind in MESSAGE_TYPES:
            note(self.counts.skipped, "repeated")
            return ()
        if not self._has_introduction:
            self._introduce(record)
        self.about.branch = record.gitBranch or self.about.branch
        if kind == "assistant":
            messages = builder.assistant(record, uuid or derived_id(line.hex()))
        elif kind == "user":
            messages = self._user(record, builder, uuid or derived_id(line.hex()))
        elif kind in BOOKKEEPING:  # mostly progress
            note(self.counts.skipped, kind)
            messages = []
        else:
            messages = self._other(record, builder, line)
        if messages and is_empty_message(messages[-1]):  # an empty message is always the last of its record
            note(self.counts.skipped, WITHOUT_CONTENT)
            messages = messages[:-1]
        # The record of a compaction is a new root; it names its predecessor separately.
        parent = record.parentUuid or record.logicalParentUuid
        owner = "" if parent is None else owners.get(parent)
        if owner is None:
            owner = self._earlier_owner(parent or "")
        if messages and not messages[0].aside:
            first = messages[0]
            if owner and owner != self._last and owner not in self._round:
                first.parent = owner
            elif parent is None and self._last and kind == "user":
                first.parent = BEGINNING
            owner = self._last = messages[-1].id
            # One answer of the model consists of its records and the results of its calls. Parallel calls are written
            # as a tree, each result below its own call, which is not a branch of the conversation.
            if first.role != TOOL and not (record.sourceToolUseID and instructions_of(first)):
                answer = record.message.id if record.message else None
                if answer is None or answer != self._answer:
                    self._round, self._answer = {}, answer or ""
            for message in messages:
                self._round[message.id] = None
        elif record.isSidechain:
            owner = ""
        if uuid is not None:
            owners[uuid] = owner
        return messages

    def _introduce(self, record: Record) -> None:
        """Take the project and the time of creation from the first records that name them."""
        if record.cwd and not self.about.project:
            self.about.project = record.cwd
        if record.timestamp and not self.about.created_at:
            self.about.created_at = timestamp(record)
        self._has_introduction = bool(self.about.project and self.about.created_at)

    def _user(self, record: Record, builder: MessageBuilder, identity: str) -> list[Message]:
        """Return the messages of a user record; none if it is Claude Code's own note to the model."""
        if not (record.isMeta or record.isCompactSummary or record.isVisibleInTranscriptOnly) or record.cortext:
            messages = builder.user(record, identity)
            if messages and messages[0].content.startswith("/") and not messages[0].aside:
                self._command = (identity, messages[0].content.split(None, 1)[0])
            return messages
        text = text_of(record.message.content if record.message else None)
        if record.isCompactSummary:
            self.about.summary = summary_text(text)
            note(self.counts.skipped, "compact summary")
        elif is_resume_block(text):
            return [builder.typed(text, identity, record)]
        elif name := self._instructions_of(record, text):
            if not name.startswith(_OWN_COMMANDS):
                return [builder.instructions(text, name, identity, record)]
            note(self.counts.skipped, "meta")
        else:
            self._count_note(record)
            note(self.counts.skipped, "meta" if record.isMeta else "transcript only")
        return []

    def _instructions_of(self, record: Record, text: str) -> str:
        """Return the command or skill that a record has the instructions of; empty for any other text."""
        if not record.isMeta or not text.strip():
            return ""
        command, name = self._command
        if command and record.parentUuid == command:
            return name
        if text.startswith(_SKILL_FOLDER):
            folder = text[len(_SKILL_FOLDER) :].split("\n", 1)[0].replace("\\", "/")
            return f"skill {folder.rstrip('/').rpartition('/')[2]}"
        return "skill" if record.sourceToolUseID else ""

    def _has_our_prompt(self, record: Record) -> bool:
        """Whether this is the file with the prompt of our command that was just typed, which its text names."""
        command, name = self._command
        path = ((record.attachment and record.attachment.filename) or "").replace("\\", "/")
        return bool(command) and command == self._last and name.startswith(_OWN_COMMANDS) and _PROMPT in path

    def _count_note(self, record: Record) -> None:
        """Count what Claude Code told the model of its own accord; it does so again at every start."""
        self.about.notes += not (self._aside or record.isSidechain)

    def _other(self, record: Record, builder: MessageBuilder, line: bytes) -> list[Message]:
        """Return the messages of a record that is neither user's nor assistant's: few kinds contain any."""
        kind = record.type
        skipped = self.counts.skipped
        if kind == "attachment":
            if record.attachment is not None and record.attachment.type == "queued_command":
                return builder.queued(record, record.uuid or derived_id(line.hex()))
            if self._has_our_prompt(record):
                note(skipped, "prompt of a command")
                return []
            if record.attachment is not None and record.attachment.type in ATTACHED:
                return builder.attached(record, record.uuid or derived_id(line.hex()))
            if record.attachment is None or record.attachment.type not in UNSENT:
                self._count_note(record)
            if record.attachment is not None and not self._aside:
                note_at_hand(self.about, record.attachment)
            note(skipped, "attachment")
        elif kind == "system":
            return self._system(record, builder, line)
        elif kind in TITLES:
            self._title(record)
            note(skipped, kind)
        else:
            note(self.counts.unknown, kind or "without type")
        return []

    def _system(self, record: Record, builder: MessageBuilder, line: bytes) -> list[Message]:
        """Return a built-in command as an aside; every other system record is only counted."""
        subtype = record.subtype or ""
        if subtype == "local_command":
            message = builder.typed(text_of(record.content), record.uuid or derived_id(line.hex()), record)
            message.aside = True
            return [message]
        kinds = self.counts.skipped if subtype in SYSTEM_NOTES else self.counts.unknown
        note(kinds, f"system/{subtype}")
        return []

    # ── the tree ─────────────────────────────────────────────────────────────────────────────────────

    def _earlier_owner(self, parent: str) -> str:
        """Return the owner of a record that this reading has not seen: it may be before the cursor, or missing."""
        if not self._has_all_owners:
            self._read_owners()
        return self._owners.get(parent, self._last)

    def _read_owners(self) -> None:
        """Find the owners of all records before the cursor, which contains only the newest."""
        earlier = ClaudeReading(self._transcript)
        lines = ForeignLines(self._transcript.path, 0, earlier.counts)
        builder = MessageBuilder(self._transcript.key, earlier.about, earlier.counts, aside=False)
        for _ in earlier._messages(lines, builder, self._start):
            pass
        newer = dict(self._owners)
        self._owners.clear()
        self._owners |= earlier._owners | newer
        self._has_all_owners = True

    # ── the title ────────────────────────────────────────────────────────────────────────────────────

    def _title(self, record: Record) -> None:
        rank = TITLES.index(record.type)
        if record.type == "summary":
            # Older versions also put summaries of other conversations here: the leaf says which is ours.
            self._summaries[record.leafUuid or ""] = record.summary or ""
            return
        title = record.customTitle or record.aiTitle or ""
        if title and rank >= self._title_rank:
            self.about.title, self._title_rank = title, rank

    def _choose_title(self) -> None:
        for leaf, summary in self._summaries.items():
            if summary and self._title_rank <= 0 and leaf in self._owners:
                self.about.title, self._title_rank = summary, 0

    # ── the cursor ───────────────────────────────────────────────────────────────────────────────────

    def _restore(self, cursor: dict[str, Any], builder: MessageBuilder) -> None:
        """Continue where the reading that made this cursor ended."""
        self._start = cursor["offset"]
        self._has_all_owners = self._aside  # messages of a subagent never have a parent
        self._owners = dict(cursor.get("owners") or {})
        self._last = str(cursor.get("last") or "")
        self._title_rank = cursor.get("rank", -1)
        self._command = tuple(cursor.get("command") or ("", ""))
        self._answer, around = cursor.get("round") or ("", [])
        self._round = dict.fromkeys(around)
        builder.calls = dict(cursor.get("calls") or {})
        builder.answer, builder.counted = cursor.get("answer") or ("", 0)
        for name, value in (cursor.get("about") or {}).items():
            setattr(self.about, name, value)

    def _new_cursor(self, offset: int, builder: MessageBuilder) -> dict[str, Any]:
        cursor: dict[str, Any] = {"offset": offset, "seen": fingerprint(self._transcript.path, offset)}
        newest = list(self._owners.items())[-_KEPT_OWNERS:] if len(self._owners) < 1_000 else _newest(self._owners)
        about = {name: getattr(self.about, name) for name in _KEPT_ABOUT}
        about |= {"tools": list(self.about.tools), "skills": list(self.about.skills)}
        kept: dict[str, Any] = {
            "owners": dict(newest),
            "last": self._last,
            "rank": self._title_rank,
            "command": list(self._command) if self._command[0] and self._command[0] == self._last else [],
            "round": [self._answer, list(self._round)[-_KEPT_ROUND:]],
            "calls": dict(list(builder.calls.items())[-_KEPT_CALLS:]),
            "answer": [builder.answer, builder.counted],
            "about": {} if self._aside else {name: value for name, value in about.items() if value},
        }
        cursor |= {name: value for name, value in kept.items() if value not in ("", {}, -1, [], ["", 0], ["", []])}
        return cursor


def _newest(owners: dict[str, str]) -> list[tuple[str, str]]:
    """Return the last few entries of a large dict without copying all of it."""
    keys = reversed(owners)
    return [(key, owners[key]) for key, _ in zip(keys, range(_KEPT_OWNERS), strict=False)][::-1]


def _is_single_record(line: bytes) -> bool:
    """Whether a bookkeeping line is complete and no message was appended to it, judging by its bytes.

    Every record of a message begins with _PARENT_FIRST. A search for any record would cost as much as decoding the
    line.
    """
    return line.endswith(b"}") and line.find(_PARENT_FIRST, 1) < 0


def _without_result_copy(line: bytes) -> bytes:
    """Return the record of a tool result without its second copy, which makes up half of a transcript.

    The line is cut only if it ends as such a record does: with its own parent as the record of the tool call. If the
    cut was inside an inner object, the rest is not valid JSON, and the caller decodes the complete line.
    """
    copy = line.find(b',"toolUseResult":')
    if copy < 0:
        return line
    source = line.rfind(_SOURCE, max(copy, len(line) - _LONGEST_END))
    end = line[source + len(_SOURCE) :]
    if source < 0 or end[:36] != line[15:51] or _PARENT_FIRST in end or _TYPE_FIRST in end:
        return line
    return line[:copy] + b"}"


def _record_after_torn_one(line: bytes) -> list[Record]:
    """Return the complete record at the end of a line that begins with a torn one; an empty list if there is none."""
    start = line.rfind(_PARENT_FIRST)
    if start <= 0:
        return []
    try:
        return [decoder.decode(line[start:])]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
