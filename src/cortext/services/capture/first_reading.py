"""The first reading of a transcript: the session it becomes, and its messages, batch by batch while they are stored.

Also the one gate between the adapters and our stores (`storable`): a message that cannot be stored is counted and left
out; invalid values in one that can be are corrected and counted. Neither affects the messages around it. The copy of
the transcript next to our log has all of them unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from cortext.index.catalogue import Entry
from cortext.model.asides import COMMAND_FORMS, OWN_COMMANDS, with_asides
from cortext.model.clock import normalise
from cortext.model.message import ROLES, TOOL_CALL, USER, Message, batches, is_empty_message
from cortext.model.session import PAUSED, AgentConfig, Origin, Session
from cortext.model.titles import is_poor_title
from cortext.model.tokens import MOST, counted, read_of
from cortext.services.projects.workspaces import types_not_stored
from cortext.store.files.lines import MAX_DEPTH, deeper_than
from cortext.tools.base import About, Counts, Transcript, TranscriptReading
from cortext.tools.shared.lines import WITHOUT_CONTENT as WITHOUT_CONTENT
from cortext.tools.shared.lines import derived_id, note, without_lone_surrogates

BATCH_MESSAGES = 2_000
BATCH_CHARACTERS = 8 << 20
# What is corrected in a message that is stored all the same; its original is in the copy of the transcript.
CORRECTED = frozenset(("not a time", "token count out of range", "nested too deeply", "id used twice"))
_encode = msgspec.json.Encoder().encode
_LEVELS_ABOVE = 4  # nesting levels of a stored message above the value of a part


_COMMAND = re.compile(rf"\s*{COMMAND_FORMS}")  # whatever follows its name
_SEPARATORS = re.compile(r"[^a-z0-9]+")
RELATED = "related"  # looks something up, and neither begins nor ends a conversation


class CaptureResult(NamedTuple):
    """The result of one capture."""

    session_id: str
    created: bool
    added: int
    tool_calls: int
    counts: Counts
    is_whole: bool = True  # whether the transcript was read from its start
    grown: tuple[str, str] | None = None  # the conversation of a workspace that has new messages: store and id
    alarm: str = ""  # what the tool has lost of what was handed over to it
    trouble: str = ""  # why the catalogue could not record what was captured


class Withheld:
    """What of a transcript is not stored: everything from a command of a type without sessions to the next command."""

    def __init__(self, transcript: Transcript, reading: TranscriptReading) -> None:
        self._transcript, self._reading = transcript, reading
        self._any = False

    @property
    def any(self) -> bool:
        """Whether something was withheld so far."""
        return self._any

    @property
    def is_possible(self) -> bool:
        """Whether anything may be withheld, as far as is known before the transcript is read."""
        return not self._transcript.project or bool(types_not_stored(self._transcript.project))

    def rest(self, messages: Iterator[Message]) -> Iterator[Message]:
        """Yield the messages that are stored."""
        types: frozenset[str] | None = None
        is_private = False
        for message in messages:
            if types is None:  # not earlier: many tools name the folder in the file itself
                folder = self._transcript.project or self._reading.about.project
                types = frozenset(map(_command_form, types_not_stored(folder)))
            if not types:
                yield message
                continue
            command = _COMMAND.match(message.content) if message.role == USER else None
            if command:
                name = _command_form(command[1])
                is_private = name in types or (is_private and name == RELATED)
            if is_private:
                self._any = True
            else:
                yield message


def _command_form(name: str) -> str:
    """Return the name of a command as every tool could spell it."""
    return _SEPARATORS.sub("-", name.lower())


class FirstReading:
    """A transcript that is new to us. The first batch has been read; the rest is read by `batches`."""

    def __init__(
        self,
        transcript: Transcript,
        entry: Entry,
        reading: TranscriptReading,
        messages: Iterable[Message],
        withheld: Withheld,
        batch_size: int = BATCH_MESSAGES,
    ) -> None:
        self.withheld = withheld
        self._transcript, self._entry, self._reading = transcript, entry, reading
        self._rest = batches_of(messages, batch_size)
        self._first = next(self._rest, [])
        self._newest = ""
        self._title = ""
        self._added = self._tool_calls = 0

    @property
    def is_empty(self) -> bool:
        """Whether the transcript has no message, and so makes no session."""
        return not self._first

    @property
    def about(self) -> About:
        """What the transcript says about itself, as far as it has been read."""
        return stored_about(self._reading, self.withheld)

    @property
    def counts(self) -> Counts:
        """What was left out so far."""
        return self._reading.counts

    @property
    def newest(self) -> str:
        """The time of the newest message, once all batches are stored."""
        return self._newest

    def session(self) -> Session:
        """Return the session that the transcript becomes, as far as it has been read."""
        self._find_title(self._first)
        return new_session(self._entry, self._transcript, self.about, self._first, self._title)

    def batches(self) -> Iterator[list[Message]]:
        """Yield all messages, once; they count as stored when the next batch is asked for."""
        for batch in chain((self._first,), self._rest):
            self._find_title(batch)
            yield batch
            self._newest = batch[-1].timestamp if batch else ""
            self._entry = self._entry._replace(last=newest_of(batch) or self._entry.last)
            self._added += len(batch)
            self._tool_calls += calls_in(batch)

    def _find_title(self, batch: Sequence[Message]) -> None:
        if not self._title:
            self._title = "" if is_poor_title(self.about.title) else self.about.title
            self._title = self._title or title_of(batch)

    def captured(self) -> CaptureResult:
        """Return the result, once all batches are stored."""
        return CaptureResult(self._entry.session_id, True, self._added, self._tool_calls, self.counts)

    def entry(self) -> Entry:
        """Return the catalogue's entry, once all batches are stored."""
        return done_entry(self._entry, self._transcript, self._reading, self.withheld)


def stored_about(reading: TranscriptReading, withheld: Withheld) -> About:
    """Return what is stored of what a transcript says about itself: its title may quote what is withheld."""
    return msgspec.structs.replace(reading.about, title="", summary="") if withheld.any else reading.about


def new_session(
    entry: Entry, transcript: Transcript, about: About, first: Sequence[Message], title: str = ""
) -> Session:
    """Return the session that a transcript becomes; without a title, its first messages give one."""
    created = about.created_at or first[0].timestamp
    return Session(
        id=entry.session_id,
        type=_type_of(about),
        title=title or (title_of(first) if is_poor_title(about.title) else about.title) or about.title,
        status=PAUSED,
        created_at=created,
        last_active=created,
        agent_config=AgentConfig(command=about.command, model=about.model).with_tools(about.tools),
        origin=Origin(tool=transcript.tool, session_id=transcript.snapshot_of or transcript.key),
        extra={"project": about.project or transcript.project},
    )


def _type_of(about: About) -> str:
    """Return the type of a conversation that began with one of our commands, else an empty string."""
    name = about.command.removeprefix("/")
    kind = name.removeprefix("workspace.") if name.startswith("workspace.") else ""
    return "" if kind in OWN_COMMANDS else kind


def title_of(messages: Iterable[Message]) -> str:
    """Return a title made from the user's first words."""
    from cortext.services.text.titles import title  # its patterns take 20 ms, and few hooks need a title

    return title(messages)


def done_entry(entry: Entry, transcript: Transcript, reading: TranscriptReading, withheld: Withheld) -> Entry:
    """Return the catalogue's entry after a reading is stored; the caller has set `entry.last`."""
    cursor = None if withheld.any else reading.cursor  # the next reading must see where that begins
    return entry._replace(size=transcript.size, changed=transcript.changed, cursor=cursor)


def newest_of(messages: Sequence[Message]) -> str:
    """Return the id of the last message that is not an aside, or an empty string."""
    return next((message.id for message in reversed(messages) if not message.aside), "")


def calls_in(batch: Sequence[Message]) -> int:
    """Return the number of tool calls."""
    return sum(1 for message in batch for part in message.parts or () if part.type == TOOL_CALL)


def batches_of(messages: Iterable[Message], batch_size: int = BATCH_MESSAGES) -> Iterator[list[Message]]:
    """Yield the messages in batches that are written and flushed together."""
    return batches(messages, most=batch_size, characters=BATCH_CHARACTERS)


def storable(reading: TranscriptReading, before: Message | None = None, *, resumed: bool = False) -> Iterator[Message]:
    """Yield the messages of a reading that can be stored, asides marked; `before` is the one that was stored last.

    `resumed`: the reading begins after a command that continued the conversation here.
    """
    latest = before.timestamp if before is not None else ""
    last = (before.id, before.role, before.content) if before is not None else ("", "", "")
    for message in with_asides(reading, before, resumed=resumed):
        counts = reading.counts  # not earlier: a reading makes new counts when it begins
        if is_empty_message(message):
            note(counts.skipped, WITHOUT_CONTENT)
            continue
        if message.role not in ROLES:
            note(counts.damaged, "unknown role")
            continue
        if message.timestamp and not normalise(message.timestamp):
            note(counts.damaged, "not a time")
            message.timestamp = latest
        latest = message.timestamp or latest
        if message.tokens is not None or message.usage is not None:
            _count_in_range(message, counts)
            message.usage = read_of(message.usage)
        if message.parts is not None:
            _flatten(message, counts)
        if not message.content.isascii() or message.parts is not None:
            _without_lone_surrogates(message)
        if message.extra is not None and deeper_than(message.extra, MAX_DEPTH - _LEVELS_ABOVE):
            note(counts.damaged, "nested too deeply")
            message.extra = None
        current = message.id, message.role, message.content
        if current[0] == last[0] and current != last:
            note(counts.damaged, "id used twice")
            # Derived from the text, so that it is the same at every reading.
            message.id = f"{message.id}~{derived_id(*current)}"
        last = current
        yield message


def _without_lone_surrogates(message: Message) -> None:
    """Replace half surrogate pairs (from a text that was cut inside an emoji), which UTF-8 cannot encode."""
    try:
        message.content.encode("utf-8")
        for part in message.parts or ():
            part.text.encode("utf-8")
            part.output.encode("utf-8")
            if part.input is not None:
                _encode(part.input)
    except UnicodeEncodeError:
        message.content = without_lone_surrogates(message.content)
        for part in message.parts or ():
            part.text, part.output = without_lone_surrogates(part.text), without_lone_surrogates(part.output)
            part.input = without_lone_surrogates(part.input)


def _count_in_range(message: Message, counts: Counts) -> None:
    """Drop token counts that are too large for a database, or negative."""
    tokens, usage = message.tokens, message.usage
    if (tokens is None or counted(tokens) is not None) and (usage is None or _is_sound(usage)):
        return
    note(counts.damaged, "token count out of range")
    message.usage = None
    message.tokens = counted(tokens)  # None is estimated later


def _is_sound(value: Any) -> bool:
    """Whether all numbers in a provider's usage record are in range, at any depth."""
    todo = [value]
    for _ in range(MAX_DEPTH):
        if not todo:
            return True
        if any(type(item) in (int, float) and not 0 <= item <= MOST for item in todo):
            return False
        todo = [
            inner
            for item in todo
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
    return False


def _flatten(message: Message, counts: Counts) -> None:
    """Replace values that are nested too deeply for our log by their JSON text; the tool call itself stays."""
    for part in message.parts or ():
        for name in ("input", "data"):
            value = getattr(part, name)
            if type(value) in (dict, list) and deeper_than(value, MAX_DEPTH - _LEVELS_ABOVE):
                note(counts.damaged, "nested too deeply")
                try:
                    setattr(part, name, msgspec.json.encode(value).decode("utf-8"))
                except (RecursionError, ValueError, TypeError):
                    setattr(part, name, None)
