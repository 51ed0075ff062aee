"""Capture: the real words out of an AI tool's own transcript, into a session of ours.

Called by import, sync and the hooks; any number of times, in any order, by several processes at once. Under
the session's lock it reads what is new in the transcript and appends what the session does not have yet.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from cortext.errors import CortextError, SessionExists, SessionNotFound
from cortext.index.catalogue import HANDED_OVER, Catalogue, Entry
from cortext.index.database import is_unwritable
from cortext.io import batch as newfiles
from cortext.model import clock
from cortext.model.ids import is_id, slug
from cortext.model.message import BEGINNING, USER, Message, thread
from cortext.model.session import TITLED_BY_USER, AgentConfig, Change, Origin, Session
from cortext.model.status import ACTIVE, PAUSED
from cortext.services.capture.storable import storable
from cortext.services.library.stores import Found, NamedStore, settle
from cortext.services.text.masking import Kept, mask_message, mask_struct
from cortext.store.base import Store
from cortext.store.files.layout_paths import NATIVE, native_copy
from cortext.tools.base import About, Counts, Transcript, TranscriptReading, TranscriptSource

BATCH_MESSAGES = 2_000
BATCH_BYTES = 8 << 20
KNOWN_TAIL = 400
UNREAD = "unread"  # transcripts that gave no session, as the tools wrote them
OWN_COMMANDS = ("/workspace.", "$workspace-")


class Captured(NamedTuple):
    """What one capture did."""

    session_id: str
    created: bool
    added: int
    tool_calls: int
    counts: Counts


UNCHANGED = Captured("", False, 0, 0, Counts())


def session_id_for(tool: str, key: str) -> str:
    """The id of the session that a transcript becomes in the home store: always the same."""
    plain = f"{tool}-{key}"
    if is_id(plain):
        return plain

    mark = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return f"{tool}-{slug(key, 60) or 'session'}-{mark}"


class Capture:
    """Captures transcripts of any tool: into the session that they belong to, else into the home store."""

    def __init__(
        self,
        home: NamedStore,
        catalogue: Catalogue,
        stores: Iterable[NamedStore] = (),
        *,
        mask: bool = True,
        keep_unmasked: bool = False,
    ) -> None:
        self.home = home
        self._mask, self._keep_unmasked = mask, keep_unmasked
        self.catalogue = catalogue
        self._places = {place.root: place for place in (*stores, home)}
        self.trouble = ""  # why the catalogue does not know what was taken in
        self.grown: dict[tuple[str, str], None] = {}  # conversations of workspaces that got words: store and id
        self._entries: dict[tuple[str, str], Entry] | None = None
        self._origins: dict[tuple[str, str], Entry] | None = None

    def remember_all(self) -> None:
        """Load the catalogue at once, for a run over very many transcripts."""
        self._entries = self.catalogue.all()

    def look_again(self) -> None:
        """Look into the catalogue again: others have written to it."""
        if self._entries is not None:
            self.remember_all()

    def place_at(self, root: str) -> NamedStore | None:
        """The store in this folder, if it is one that we know."""
        return self._places.get(root)

    def is_own(self, entry: Entry) -> bool:
        """Whether a transcript is kept as the session that it would become by itself, in the home store."""
        return entry.root == self.home.root and entry.session_id == session_id_for(entry.tool, entry.key)

    def unchanged(self, transcript: Transcript) -> bool:
        """Whether nothing happened to a transcript since it was captured, by its cheap signs."""
        entry = self._entry(transcript.tool, transcript.key)
        return entry is not None and (entry.size, entry.changed) == (transcript.size, transcript.changed)

    def attach(self, place: NamedStore, session_id: str, tool: str, key: str, *, from_now: bool = False) -> None:
        """Say that a tool's session continues one of ours: its words go there, from now on or from its start.

        It knows everything that our session holds at this moment; what others add later, it does not.
        """
        self._places.setdefault(place.root, place)
        before = self.catalogue.get(tool, key) if from_now else None
        known = place.store.tail(session_id, KNOWN_TAIL)
        entry = Entry(tool, key, place.root, session_id, last=newest_of(known))
        if before is not None:
            entry = entry._replace(cursor=before.cursor, since=self._until(before))
        self.catalogue.put(entry)

    def _until(self, before: Entry) -> str:
        """The time of the newest word of a transcript that was taken in where it belonged before."""
        place = self.place_at(before.root)
        try:
            messages = place.store.tail(before.session_id, KNOWN_TAIL) if place else []
        except CortextError:
            messages = []
        newest = max([before.since, *(message.timestamp for message in messages)])
        # A clock that is ahead elsewhere must not hide what is said here from now on.
        return newest if newest <= clock.now() else ""

    def hand_over(self, place: NamedStore, session_id: str, tool: str, key: str) -> Entry | None:
        """Note that a session of ours is about to be opened as this session of a tool; what was noted before.

        Nothing else changes: the session is active, and in that tool, from when the tool's own start or the user's
        next words say so.
        """
        self._places.setdefault(place.root, place)
        before = self.catalogue.get(tool, key)
        known = place.store.tail(session_id, KNOWN_TAIL)
        entry = Entry(tool, key, place.root, session_id, changed=HANDED_OVER, last=newest_of(known))
        if before is not None and (before.root, before.session_id) == (place.root, session_id):
            entry = entry._replace(cursor=before.cursor, since=before.since)
        self.catalogue.put(entry)
        return before

    def take_back(self, tool: str, key: str, before: Entry | None) -> None:
        """Undo a `hand_over`: the tool could not be started."""
        if before is None:
            self.catalogue.remove(tool, key)
        else:
            self.catalogue.put(before)

    def capture(self, tool: TranscriptSource, transcript: Transcript) -> Captured:
        """Take in what is new in a transcript."""
        if self.unchanged(transcript):
            return UNCHANGED
        known = self._entry(transcript.tool, transcript.key)
        entry = known or self._entry_by_origin(transcript)
        place = self.place_at(entry.root) if entry else None
        if entry is None or place is None:
            entry, place = self._home_entry(transcript), self.home
        if self._keep_unmasked and entry.root != self.home.root:
            aside = Entry(transcript.tool, f"{transcript.key}#unmasked", self.home.root, session_id_for(*entry[:2]))
            self._take(tool, transcript, self.catalogue.get(*aside[:2]) or aside, self.home.store)
        # The first words after a conversation was handed to a tool show that it goes on there.
        return self._take(tool, transcript, entry, place.store, wake=known is not None and known.fresh)

    def _take(
        self, tool: TranscriptSource, transcript: Transcript, entry: Entry, store: Store, *, wake: bool = False
    ) -> Captured:
        try:
            done = self._more(tool, transcript, entry, store, wake=wake)
        except SessionNotFound:
            done = self._first(tool, transcript, entry, store)
        if done.added and entry.root != self.home.root:
            self.grown[entry.root, entry.session_id] = None
        return done

    def words(self, reading: TranscriptReading, entry: Entry, before: Message | None = None) -> Iterator[Message]:
        """What was said and can be stored, without what we ourselves put in; on its way into git without secrets.

        `before` is the message that the session ends with.
        """
        sound = storable(reading, before)
        own = (message for message in sound if message.extra is None or not _is_ours(message))
        if entry.since:
            own = (message for message in own if not message.timestamp or message.timestamp > entry.since)
        return (mask_message(message)[0] for message in own) if self._is_masked(entry) else own

    def clean(self, about: Kept, entry: Entry) -> Kept:
        """What a transcript tells about itself, on its way into git without secrets."""
        return mask_struct(about) if self._is_masked(entry) else about

    def _is_masked(self, entry: Entry) -> bool:
        return self._mask and entry.root != self.home.root

    def _entry(self, tool: str, key: str) -> Entry | None:
        if self._entries is not None:
            return self._entries.get((tool, key))
        return self.catalogue.get(tool, key)

    def _entry_by_origin(self, transcript: Transcript) -> Entry | None:
        """A session that names this transcript as its own: how the catalogue is found again when it was lost."""
        if self._origins is None or self._entries is None:  # looked up once for a run over very many
            self._origins = {}
            for root, place in self._places.items():
                for session in place.store.sessions() if root != self.home.root else ():
                    origin = session.origin
                    entry = Entry(origin.tool, origin.session_id, root, session.id)
                    self._origins.setdefault((origin.tool, origin.session_id), entry)
        return self._origins.get((transcript.tool, transcript.key))

    def _first(self, tool: TranscriptSource, transcript: Transcript, entry: Entry, store: Store) -> Captured:
        """A transcript that is new to us becomes a session, once it holds a message."""
        with self.keeping_unread(tool, transcript):
            reading = tool.read(transcript)
            batches = batches_of(self.words(reading, entry))
            first = next(batches, None)
        if first is None:
            return self.nothing_said(tool, transcript, reading.counts)
        made = new_session(entry, transcript, reading.about, first)
        session = msgspec.structs.replace(self.clean(made, entry), id=made.id, origin=made.origin)
        try:
            store.create(session)
        except SessionExists:  # another process was faster: what it has not got yet comes next time
            return UNCHANGED
        added = calls = 0
        with store.open(entry.session_id) as writer:
            with self._copied(tool, transcript, entry, writer.session()):
                batch: list[Message] | None = first
                while batch:
                    entry = entry._replace(last=newest_of(batch) or entry.last)
                    writer.append(*batch)
                    added += len(batch)
                    calls += calls_in(batch)
                    batch = next(batches, None)
                writer.update(self.clean(changes_of(session, reading.about, first), entry))
            self.remember([done_entry(entry, transcript, reading)])
        return Captured(entry.session_id, True, added, calls, reading.counts)

    def _more(
        self, tool: TranscriptSource, transcript: Transcript, entry: Entry, store: Store, *, wake: bool
    ) -> Captured:
        """Append what the session does not have yet."""
        added = calls = 0
        spoken = False
        with store.open(entry.session_id) as writer:
            session = writer.session()
            with self._copied(tool, transcript, entry, session):
                reading = tool.read(transcript, entry.cursor)
                fresh = _Fresh(store, entry.session_id, partly=entry.cursor is not None, follows=entry.last)
                for batch in batches_of(self.words(reading, entry, fresh.last)):
                    new = fresh.only(batch)
                    if new:
                        entry = entry._replace(last=newest_of(new) or entry.last)
                        writer.append(*new)
                        added += len(new)
                        calls += calls_in(new)
                        spoken = spoken or any(map(_is_spoken, new))
                change = self.clean(changes_of(session, reading.about, []), entry)
                if session.title and not self.is_own(entry):
                    change.title = msgspec.UNSET  # a chat's own name is not that of the conversation that it continues
                if spoken and wake:
                    _go_on(change, session, entry, in_workspace=entry.root != self.home.root)
                if change != Change():
                    writer.update(change)
            done = done_entry(entry, transcript, reading)
            waiting = entry.changed == HANDED_OVER and not spoken
        # Noted as read only when all is done: who is killed before that is taken up again by the next run.
        settle(store, entry.session_id)
        self.remember([done._replace(changed=HANDED_OVER) if waiting else done])
        return Captured(entry.session_id, False, added, calls, reading.counts)

    @contextmanager
    def _copied(self, tool: TranscriptSource, transcript: Transcript, entry: Entry, session: Session) -> Iterator[None]:
        """Keep the tool's own form beside ours (in the home store only) before anything in it is read.

        Where that fails, the words are taken in all the same, and then the failure is told: the next run tries again.
        """
        failure: Exception | None = None
        own = (session.origin.tool, session.origin.session_id) == (transcript.tool, transcript.key)
        if entry.root == self.home.root and own:  # not one that we wrote ourselves, beside it
            try:
                tool.copy(transcript, native_copy(session.path))
            except (CortextError, OSError) as error:
                failure = error
        yield
        if failure is not None:
            raise failure

    def nothing_said(self, tool: TranscriptSource, transcript: Transcript, counts: Counts) -> Captured:
        """A transcript without a message makes no session; where that is because of damage, its file is kept."""
        if counts.damaged:
            self.keep_unread(tool, transcript)
        return UNCHANGED._replace(counts=counts)

    @contextmanager
    def keeping_unread(self, tool: TranscriptSource, transcript: Transcript) -> Iterator[None]:
        """Whatever goes wrong in here, the tool's own file is kept: a later version may read it."""
        try:
            yield
        except Exception:
            self.keep_unread(tool, transcript)
            raise

    def keep_unread(self, tool: TranscriptSource, transcript: Transcript) -> None:
        """Keep the tool's own form of a transcript that gave no session."""
        folder = os.path.join(self.home.root, UNREAD, session_id_for(transcript.tool, transcript.key))
        try:
            newfiles.ensure_folder(folder, None)
            tool.copy(transcript, os.path.join(folder, NATIVE))
        except (CortextError, OSError):
            pass  # what went wrong with the transcript itself is told

    def remember(self, entries: Sequence[Entry]) -> None:
        """Note in the catalogue how far these transcripts were read. Where it cannot be written nothing is lost."""
        try:
            self.catalogue.put_all(entries)
        except sqlite3.DatabaseError as error:
            if not is_unwritable(error):
                raise
            self.trouble = (
                f"the catalogue could not be written ({error}); everything that was taken in is kept, "
                "and the next import looks through these transcripts again"
            )
        if self._entries is not None:
            self._entries.update({(entry.tool, entry.key): entry for entry in entries})

    def new_entry(self, transcript: Transcript) -> Entry | None:
        """The entry that a transcript will get in the home store, where nothing is known of it; else None."""
        if self._entry(transcript.tool, transcript.key) or self._entry_by_origin(transcript):
            return None
        return self._home_entry(transcript)

    def _home_entry(self, transcript: Transcript) -> Entry:
        session_id = session_id_for(transcript.tool, transcript.key)
        return Entry(transcript.tool, transcript.key, self.home.root, session_id)


def new_session(entry: Entry, transcript: Transcript, about: About, first: Sequence[Message]) -> Session:
    """The session that a transcript becomes, as far as its first messages tell."""
    created = about.created_at or first[0].timestamp
    return Session(
        id=entry.session_id,
        type=_type_of(about),
        title=about.title or title_of(first),
        status=PAUSED,
        created_at=created,
        last_active=created,
        agent_config=AgentConfig(command=about.command, model=about.model),
        origin=Origin(tool=transcript.tool, session_id=transcript.key),
        extra={"project": about.project or transcript.project},
    )


def done_entry(entry: Entry, transcript: Transcript, reading: TranscriptReading) -> Entry:
    """What the catalogue is to say once a reading is stored; `entry.last` is set by who stored it."""
    return entry._replace(size=transcript.size, changed=transcript.changed, cursor=reading.cursor)


class _Fresh:
    """Tells the messages that a session does not have yet.

    By id; and, for a conversation that we had written into another tool, by walking along what it holds
    already (same role, same words), because not every tool keeps our ids. Where the session holds more than
    the transcript knows of (`follows` is the last that it does), the talk went on elsewhere meanwhile: its next
    words are a branch from there, not an answer to what it never saw.
    """

    def __init__(self, store: Store, session_id: str, *, partly: bool, follows: str = "") -> None:
        messages: list[Message] = list(store.tail(session_id, KNOWN_TAIL) if partly else store.read(session_id))
        self.last = messages[-1] if messages else None
        self._ids = {message.id for message in messages}
        self._along: Iterator[Message] = iter(() if partly else thread(messages))
        self._next = next(self._along, None)
        self._branch = follows if follows in self._ids and follows != newest_of(messages) else ""

    def only(self, batch: list[Message]) -> list[Message]:
        """The messages of a batch that are new, without a parent that we do not know."""
        new = []
        for message in batch:
            if message.id in self._ids:
                if self._next is not None and message.id == self._next.id:
                    self._next = next(self._along, None)
                continue
            if self._next is not None and _same_words(message, self._next):
                self._next = next(self._along, None)
                continue
            self._next = None
            if message.parent not in ("", BEGINNING) and message.parent not in self._ids:
                message = msgspec.structs.replace(message, parent="")
            if self._branch and not message.aside:
                message = msgspec.structs.replace(message, parent=message.parent or self._branch)
                self._branch = ""
            self._ids.add(message.id)
            new.append(message)
        return new


def newest_of(messages: Sequence[Message]) -> str:
    """The id of the last message that is part of the talk; empty where there is none."""
    return next((message.id for message in reversed(messages) if not message.aside), "")


def _same_words(one: Message, other: Message) -> bool:
    return one.role == other.role and one.text.split() == other.text.split()


def _is_ours(message: Message) -> bool:
    """Whether this is the block that we injected at a resume: not a word of the user's."""
    return bool(message.extra and message.extra.get("resume_block"))


def _is_spoken(message: Message) -> bool:
    """Whether the user said something here, other than a command of ours."""
    words = message.content.strip()
    return message.role == USER and not message.aside and words != "" and not words.startswith(OWN_COMMANDS)


def _go_on(change: Change, session: Session, entry: Entry, *, in_workspace: bool) -> None:
    """A session that was handed to a tool goes on there. Outside of workspaces nobody would ever pause it again."""
    if (session.origin.tool, session.origin.session_id) != (entry.tool, entry.key):
        change.origin = Origin(tool=entry.tool, session_id=entry.key)
    if in_workspace and session.status != ACTIVE:
        change.status, change.force = ACTIVE, True


def batches_of(messages: Iterable[Message], most: int = BATCH_MESSAGES) -> Iterator[list[Message]]:
    """Messages in lots that are written and flushed at once; memory is bounded by the lot."""
    batch: list[Message] = []
    size = 0
    failure: Exception | None = None
    try:
        for message in messages:
            batch.append(message)
            size += len(message.content)
            if message.parts is not None:
                for part in message.parts:
                    size += len(part.output)
            if len(batch) >= most or size >= BATCH_BYTES:
                yield batch
                batch, size = [], 0
    except Exception as error:  # noqa: BLE001 (what came before it is stored first; then it is raised)
        failure = error
    if batch:
        yield batch
    if failure is not None:
        raise failure


def calls_in(batch: Sequence[Message]) -> int:
    """How many tools were called."""
    return sum(1 for message in batch for part in message.parts or () if part.type == "tool_call")


def _type_of(about: About) -> str:
    """The conversation type, where it began with one of our commands."""
    name = about.command.removeprefix("/")
    kind = name.removeprefix("workspace.") if name.startswith("workspace.") else ""
    return "" if kind in ("resume", "stop-conversation") else kind


def changes_of(session: Session, about: About, first: Sequence[Message]) -> Change:
    """What a transcript tells about itself, where it tells more than we know."""
    change = Change()
    # Over a title that a person gave (or a topic, when the conversation was begun) no tool's own goes.
    if about.title and about.title != session.title and not _is_given(session):
        change.title = about.title
    elif not session.title and first:
        change.title = title_of(first)
    if about.summary and about.summary != session.summary:
        change.summary, change.summary_by = about.summary, session.origin.tool
    if about.model and about.model != session.agent_config.model:
        change.agent_config = msgspec.structs.replace(session.agent_config, model=about.model)
    return change


def _is_given(session: Session) -> bool:
    """Whether a person named this session: by `/workspace.X topic`, or by `cortext title`."""
    _, _, topic = str(session.extra.get("begun_by", "")).partition(" ")  # all that older versions left
    return bool(session.title) and (TITLED_BY_USER.items() <= session.extra.items() or bool(topic.strip()))


def title_of(messages: Iterable[Message]) -> str:
    """A title from the user's first words."""
    from cortext.services.text.titles import title  # its patterns take 20 ms, and few hooks need a title

    return title(messages)


def catch_up(capture: Capture, tool: TranscriptSource, key: str) -> Captured:
    """Take in what a tool's session holds that no hook told us of."""
    for transcript in tool.transcripts():
        if transcript.key == key:
            return capture.capture(tool, transcript)
    return UNCHANGED


def caught_up(capture: Capture, tool: TranscriptSource, found: Found) -> Found:
    """The session with everything that its tool has written: a tool that was killed ran no hook."""
    if not catch_up(capture, tool, found.session.origin.session_id).added:
        return found
    return Found(found.place, found.place.store.get(found.session.id))


class ToolReport(msgspec.Struct, kw_only=True):
    """What an import did for one tool."""

    tool: str
    transcripts: int = 0
    unchanged: int = 0
    created: int = 0
    updated: int = 0
    messages: int = 0
    tool_calls: int = 0
    counts: Counts = msgspec.field(default_factory=Counts)
    failed: list[str] = []

    def add(self, done: Captured) -> None:
        """Count one capture."""
        self.created += done.created
        self.updated += not done.created and done.added > 0
        self.unchanged += not done.added
        self.messages += done.added
        self.tool_calls += done.tool_calls
        for mine, theirs in (
            (self.counts.skipped, done.counts.skipped),
            (self.counts.unknown, done.counts.unknown),
            (self.counts.damaged, done.counts.damaged),
        ):
            for kind, count in theirs.items():
                mine[kind] = mine.get(kind, 0) + count
        self.counts.places += done.counts.places[: 20 - len(self.counts.places)]
