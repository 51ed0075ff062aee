"""The first reading of a transcript: the session it becomes, and its messages, batch by batch while they are stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from cortext.index.catalogue import Entry
from cortext.model import asking
from cortext.model.batches import batches
from cortext.model.message import TOOL_CALL, Message
from cortext.model.session import AgentConfig, Origin, Session
from cortext.model.status import PAUSED
from cortext.tools.base import About, Counts, Transcript, TranscriptReading

BATCH_MESSAGES = 2_000
BATCH_CHARACTERS = 8 << 20


class Captured(NamedTuple):
    """The result of one capture."""

    session_id: str
    created: bool
    added: int
    tool_calls: int
    counts: Counts
    is_whole: bool = True  # whether the transcript was read from its start


class FirstReading:
    """A transcript that is new to us. The first batch has been read; the rest is read by `batches`."""

    def __init__(
        self,
        transcript: Transcript,
        entry: Entry,
        reading: TranscriptReading,
        messages: Iterable[Message],
        batch_size: int = BATCH_MESSAGES,
    ) -> None:
        self._transcript, self._entry, self._reading = transcript, entry, reading
        self._rest = batches_of(messages, batch_size)
        self._first = next(self._rest, [])
        self._title = ""
        self._added = self._tool_calls = 0

    @property
    def is_empty(self) -> bool:
        """Whether the transcript has no message, and so makes no session."""
        return not self._first

    @property
    def about(self) -> About:
        """What the transcript says about itself, as far as it has been read."""
        return self._reading.about

    @property
    def counts(self) -> Counts:
        """What was left out so far."""
        return self._reading.counts

    def session(self) -> Session:
        """Return the session that the transcript becomes, as far as it has been read."""
        self._find_title(self._first)
        return new_session(self._entry, self._transcript, self.about, self._first, self._title)

    def batches(self) -> Iterator[list[Message]]:
        """Yield all messages, once; they count as stored when the next batch is asked for."""
        for batch in chain((self._first,), self._rest):
            self._find_title(batch)
            yield batch
            self._entry = self._entry._replace(last=newest_of(batch) or self._entry.last)
            self._added += len(batch)
            self._tool_calls += calls_in(batch)

    def _find_title(self, batch: Sequence[Message]) -> None:
        if not self._title:
            self._title = self.about.title or title_of(batch)

    def captured(self) -> Captured:
        """Return the result, once all batches are stored."""
        return Captured(self._entry.session_id, True, self._added, self._tool_calls, self.counts)

    def entry(self) -> Entry:
        """Return the catalogue's entry, once all batches are stored."""
        return done_entry(self._entry, self._transcript, self._reading)


def new_session(
    entry: Entry, transcript: Transcript, about: About, first: Sequence[Message], title: str = ""
) -> Session:
    """Return the session that a transcript becomes; without a title, its first messages give one."""
    created = about.created_at or first[0].timestamp
    return Session(
        id=entry.session_id,
        type=_type_of(about),
        title=about.title or title or title_of(first),
        status=PAUSED,
        created_at=created,
        last_active=created,
        agent_config=AgentConfig(command=about.command, model=about.model),
        origin=Origin(tool=transcript.tool, session_id=transcript.snapshot_of or transcript.key),
        extra={"project": about.project or transcript.project},
    )


def _type_of(about: About) -> str:
    """Return the type of a conversation that began with one of our commands, else an empty string."""
    name = about.command.removeprefix("/")
    kind = name.removeprefix("workspace.") if name.startswith("workspace.") else ""
    return "" if kind in asking.NAMES else kind


def title_of(messages: Iterable[Message]) -> str:
    """Return a title made from the user's first words."""
    from cortext.services.text.titles import title  # its patterns take 20 ms, and few hooks need a title

    return title(messages)


def done_entry(entry: Entry, transcript: Transcript, reading: TranscriptReading) -> Entry:
    """Return the catalogue's entry after a reading is stored; the caller has set `entry.last`."""
    return entry._replace(size=transcript.size, changed=transcript.changed, cursor=reading.cursor)


def newest_of(messages: Sequence[Message]) -> str:
    """Return the id of the last message that is not an aside, or an empty string."""
    return next((message.id for message in reversed(messages) if not message.aside), "")


def calls_in(batch: Sequence[Message]) -> int:
    """Return the number of tool calls."""
    return sum(1 for message in batch for part in message.parts or () if part.type == TOOL_CALL)


def batches_of(messages: Iterable[Message], batch_size: int = BATCH_MESSAGES) -> Iterator[list[Message]]:
    """Yield the messages in batches that are written and flushed together."""
    return batches(messages, most=batch_size, characters=BATCH_CHARACTERS)
