"""Reading a Claude Code transcript: streaming, from where the last reading ended, with the ways the talk took.

Records form a tree by `parentUuid`, through records that are not messages (attachments, notes). Only the owner of
each record is kept in memory: the message that it is, or the nearest one above it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from cortext.io import files as fsio
from cortext.model.message import BEGINNING, TOOL, Message, is_empty_message
from cortext.tools.base import About, Counts, Transcript
from cortext.tools.claude_code.messages import Maker, is_resume_block, text_of, timestamp
from cortext.tools.claude_code.records import ATTACHED, BOOKKEEPING, SYSTEM_NOTES, TALK, TITLES, Record, decoder
from cortext.tools.claude_code.summary import said_in
from cortext.tools.shared.lines import (
    NOT_UNDERSTOOD,
    RECORD_ERRORS,
    WITHOUT_CONTENT,
    ForeignLines,
    derived_id,
    note,
    place,
)

_TYPE_FIRST = b'{"type":"'
_PARENT_FIRST = b'{"parentUuid":'
_SOURCE = b'"sourceToolAssistantUUID":"'
_WORTH_CUTTING = _LONGEST_END = 2048
_PASSED_OVER = frozenset(kind.encode("ascii") for kind in BOOKKEEPING)
_HEAD, _TAIL = 4096, 512
_KEPT_OWNERS = 8
_KEPT_CALLS = 64
_KEPT_ROUND = 64


class ClaudeReading:
    """The messages of a transcript, then those of its side agents (`sides`: name and path of each file).

    The cursor holds how far we read, what the file looked like there, and the little that the next reading
    needs to go on: the newest owners, calls without a result, and what the transcript told about itself.
    """

    def __init__(
        self,
        transcript: Transcript,
        sides: Sequence[tuple[str, str]] = (),
        cursor: dict[str, Any] | None = None,
        counts: Counts | None = None,
        *,
        aside: bool = False,
    ) -> None:
        self.about = About(project=transcript.project)
        self.counts = Counts() if counts is None else counts
        self.cursor: dict[str, Any] | None = None
        self._transcript = transcript
        self._sides = sides
        self._aside = aside
        self._place = _usable(cursor, transcript.path)
        self._owners: dict[str, str] = {}
        self._last = ""  # the newest message of the talk itself
        self._answer = ""  # the model's answer that it belongs to,
        self._round: dict[str, None] = {}  # and the messages around that answer, in order
        self._introduced = False
        self._rank = -1  # how much the title that we have is worth
        self._summaries: dict[str, str] = {}
        self._start = 0
        self._knows_all = True

    def __iter__(self) -> Iterator[Message]:
        place = self._place or {}
        maker = Maker(self._transcript.key, self.about, self.counts, aside=self._aside)
        if place:
            self._go_on(place, maker)
        lines = ForeignLines(self._transcript.path, self._start, self.counts)
        yield from self._messages(lines, maker)
        self._choose_title()
        cursor = self._new_cursor(lines.end, maker)
        if self._sides:
            cursor["sides"] = {}
            earlier = place.get("sides") or {}
            for name, path in self._sides:
                side = ClaudeReading(
                    Transcript(tool=self._transcript.tool, key=self._transcript.key, path=path),
                    cursor=earlier.get(name),
                    counts=self.counts,
                    aside=True,
                )
                try:
                    yield from side
                except FileNotFoundError:  # the tool swept it away while we read
                    continue
                cursor["sides"][name] = side.cursor
        self.cursor = cursor

    # ── lines ────────────────────────────────────────────────────────────────────────────────────────

    def _messages(self, lines: ForeignLines, maker: Maker, stop: int | None = None) -> Iterator[Message]:
        skipped = self.counts.skipped
        decode = decoder.decode
        for line in lines:
            if stop is not None and lines.end > stop:
                return
            if line.startswith(_TYPE_FIRST):
                kind = line[9 : line.find(b'"', 9)]
                if kind in _PASSED_OVER and _is_one(line):
                    note(skipped, kind.decode("ascii"))
                    continue
            try:
                record = decode(_without_copy(line) if len(line) > _WORTH_CUTTING else line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                for record in lines.decode(line, decoder, Record) or _second_half(line):
                    yield from self._soundly(record, maker, line, lines)
            else:
                made = self._soundly(record, maker, line, lines)
                if made:
                    yield from made

    def _soundly(self, record: Record, maker: Maker, line: bytes, lines: ForeignLines) -> Sequence[Message]:
        """The messages of one record; one that cannot be understood costs the others nothing."""
        try:
            return self._record(record, maker, line)
        except RECORD_ERRORS:
            note(self.counts.damaged, NOT_UNDERSTOOD)
            place(self.counts, self._transcript.path, lines.end)
            return ()

    def _record(self, record: Record, maker: Maker, line: bytes) -> Sequence[Message]:
        """The messages of one record, each with its parent where it does not follow the one before."""
        uuid = record.uuid
        owners = self._owners
        kind = record.type
        if uuid in owners and kind in TALK:
            note(self.counts.skipped, "repeated")
            return ()
        if not self._introduced:
            self._introduce(record)
        if kind == "assistant":
            made = maker.assistant(record, uuid or derived_id(line.hex()))
        elif kind == "user":
            made = self._user(record, maker, uuid or derived_id(line.hex()))
        elif kind in BOOKKEEPING:  # progress, most of all
            note(self.counts.skipped, kind)
            made = []
        else:
            made = self._other(record, maker, line)
        if made and is_empty_message(made[-1]):  # an empty one is always alone, or the last
            note(self.counts.skipped, WITHOUT_CONTENT)
            made = made[:-1]
        # A compaction begins a new root, and says what it went on from.
        parent = record.parentUuid or record.logicalParentUuid
        above = "" if parent is None else owners.get(parent)
        if above is None:
            above = self._unknown(parent or "")
        if made and not made[0].aside:
            first = made[0]
            if above and above != self._last and above not in self._round:
                first.parent = above
            elif parent is None and self._last and kind == "user":
                first.parent = BEGINNING
            above = self._last = made[-1].id
            # What belongs to one answer of the model: its records and the results of its calls. Calls that ran side
            # by side are written as a tree, each result under its own call: no other way was taken.
            if first.role != TOOL:
                answer = record.message.id if record.message else None
                if answer is None or answer != self._answer:
                    self._round, self._answer = {}, answer or ""
            for message in made:
                self._round[message.id] = None
        elif record.isSidechain:
            above = ""
        if uuid is not None:
            owners[uuid] = above
        return made

    def _introduce(self, record: Record) -> None:
        """Where and when the talk began, from the first records that say so."""
        if record.cwd and not self.about.project:
            self.about.project = record.cwd
        if record.timestamp and not self.about.created_at:
            self.about.created_at = timestamp(record)
        self._introduced = bool(self.about.project and self.about.created_at)

    def _user(self, record: Record, maker: Maker, identity: str) -> list[Message]:
        """A record in the user's place, if it is more than the program's own note to the model."""
        if not (record.isMeta or record.isCompactSummary or record.isVisibleInTranscriptOnly) or record.cortext:
            return maker.user(record, identity)
        text = text_of(record.message.content if record.message else None)
        if record.isCompactSummary:
            self.about.summary = said_in(text)
            note(self.counts.skipped, "compact summary")
        elif is_resume_block(text):
            return [maker.typed(text, identity, record)]
        else:
            note(self.counts.skipped, "meta" if record.isMeta else "transcript only")
        return []

    def _other(self, record: Record, maker: Maker, line: bytes) -> list[Message]:
        """A record that is nobody's turn; some hold words all the same."""
        kind = record.type
        skipped = self.counts.skipped
        if kind == "attachment":
            if record.attachment is not None and record.attachment.type == "queued_command":
                return maker.queued(record, record.uuid or derived_id(line.hex()))
            if record.attachment is not None and record.attachment.type in ATTACHED:
                return maker.attached(record, record.uuid or derived_id(line.hex()))
            note(skipped, "attachment")
        elif kind == "system":
            return self._system(record, maker, line)
        elif kind in TITLES:
            self._title(record)
            note(skipped, kind)
        else:
            note(self.counts.unknown, kind or "without type")
        return []

    def _system(self, record: Record, maker: Maker, line: bytes) -> list[Message]:
        """A note of the program; a command that it ran by itself is kept beside the talk."""
        subtype = record.subtype or ""
        if subtype == "local_command":
            message = maker.typed(text_of(record.content), record.uuid or derived_id(line.hex()), record)
            message.aside = True
            return [message]
        kinds = self.counts.skipped if subtype in SYSTEM_NOTES else self.counts.unknown
        note(kinds, f"system/{subtype}")
        return []

    # ── the tree ─────────────────────────────────────────────────────────────────────────────────────

    def _unknown(self, parent: str) -> str:
        """The owner of a record that this reading has not met: it may lie before the cursor, or be lost."""
        if not self._knows_all:
            self._learn()
        return self._owners.get(parent, self._last)

    def _learn(self) -> None:
        """The owners of everything before this reading: the talk went back further than the cursor knows."""
        earlier = ClaudeReading(self._transcript)
        lines = ForeignLines(self._transcript.path, 0, earlier.counts)
        maker = Maker(self._transcript.key, earlier.about, earlier.counts, aside=False)
        for _ in earlier._messages(lines, maker, self._start):
            pass
        newer = dict(self._owners)
        self._owners.clear()
        self._owners |= earlier._owners | newer
        self._knows_all = True

    # ── what it tells about itself ───────────────────────────────────────────────────────────────────

    def _title(self, record: Record) -> None:
        rank = TITLES.index(record.type)
        if record.type == "summary":
            # Older versions put the summaries of other conversations here too: only the leaf tells.
            self._summaries[record.leafUuid or ""] = record.summary or ""
            return
        title = record.customTitle or record.aiTitle or ""
        if title and rank >= self._rank:
            self.about.title, self._rank = title, rank

    def _choose_title(self) -> None:
        for leaf, summary in self._summaries.items():
            if summary and self._rank <= 0 and leaf in self._owners:
                self.about.title, self._rank = summary, 0

    # ── the cursor ───────────────────────────────────────────────────────────────────────────────────

    def _go_on(self, place: dict[str, Any], maker: Maker) -> None:
        """Take up where the cursor says."""
        self._start = place["offset"]
        self._knows_all = self._aside  # a side agent's messages have no parents to look for
        self._owners = dict(place.get("owners") or {})
        self._last = str(place.get("last") or "")
        self._rank = place.get("rank", -1)
        self._answer, around = place.get("round") or ("", [])
        self._round = dict.fromkeys(around)
        maker.calls = dict(place.get("calls") or {})
        maker.answer, maker.counted = place.get("answer") or ("", 0)
        for name, value in (place.get("about") or {}).items():
            setattr(self.about, name, value)

    def _new_cursor(self, offset: int, maker: Maker) -> dict[str, Any]:
        cursor: dict[str, Any] = {"offset": offset, "seen": _seen(self._transcript.path, offset)}
        newest = list(self._owners.items())[-_KEPT_OWNERS:] if len(self._owners) < 1_000 else _newest(self._owners)
        about = {name: getattr(self.about, name) for name in ("title", "model", "project", "created_at", "command")}
        about["tools"] = list(self.about.tools)
        kept: dict[str, Any] = {
            "owners": dict(newest),
            "last": self._last,
            "rank": self._rank,
            "round": [self._answer, list(self._round)[-_KEPT_ROUND:]],
            "calls": dict(list(maker.calls.items())[-_KEPT_CALLS:]),
            "answer": [maker.answer, maker.counted],
            "about": {} if self._aside else {name: value for name, value in about.items() if value},
        }
        cursor |= {name: value for name, value in kept.items() if value not in ("", {}, -1, ["", 0], ["", []])}
        return cursor


def _newest(owners: dict[str, str]) -> list[tuple[str, str]]:
    """The last few entries of a large dict, without a copy of all of it."""
    keys = reversed(owners)
    return [(key, owners[key]) for key, _ in zip(keys, range(_KEPT_OWNERS), strict=False)][::-1]


def _usable(cursor: dict[str, Any] | None, path: str) -> dict[str, Any] | None:
    """The cursor, if the file still begins as it did when the cursor was made."""
    if not cursor or not isinstance(cursor.get("offset"), int) or not cursor.get("seen"):
        return None
    return cursor if cursor["seen"] == _seen(path, cursor["offset"]) else None


def _seen(path: str, offset: int) -> str:
    """A mark of what a file holds before an offset: its beginning, and the end of it. Empty where it is shorter."""
    try:
        descriptor = fsio.open_file(path, os.O_RDONLY)
    except FileNotFoundError:
        return ""
    try:
        if os.fstat(descriptor).st_size < offset:
            return ""
        tail = max(0, offset - _TAIL)
        data = os.pread(descriptor, min(_HEAD, offset), 0) + b"\0" + os.pread(descriptor, offset - tail, tail)
    finally:
        os.close(descriptor)
    return hashlib.blake2b(data, digest_size=12).hexdigest()


def _is_one(line: bytes) -> bool:
    """Whether a line of bookkeeping is no more than that, by a look: not torn, and no words glued to it.

    Every record with words begins alike. Looking for any record at all would cost as much as decoding the line.
    """
    return line.endswith(b"}") and line.find(_PARENT_FIRST, 1) < 0


def _without_copy(line: bytes) -> bytes:
    """A tool's result without the program's second copy of it, which makes up half of a transcript.

    Only where the line ends as this very record does: with the call that it answers, which no other record names.
    A cut inside an inner object would not be whole JSON: the decoder says so, and the line is taken as it is.
    """
    copy = line.find(b',"toolUseResult":')
    if copy < 0:
        return line
    source = line.rfind(_SOURCE, max(copy, len(line) - _LONGEST_END))
    end = line[source + len(_SOURCE) :]
    if source < 0 or end[:36] != line[15:51] or _PARENT_FIRST in end or _TYPE_FIRST in end:
        return line
    return line[:copy] + b"}"


def _second_half(line: bytes) -> list[Record]:
    """The whole record that a line ends with, after one that was torn: it begins as the program's records do."""
    start = line.rfind(_PARENT_FIRST)
    if start <= 0:
        return []
    try:
        return [decoder.decode(line[start:])]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
