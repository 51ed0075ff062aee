"""Capture: read what is new in an AI tool's transcript and append it to a session of ours.

Called by import, sync and the hooks, any number of times, in any order, by several processes at once. Reading and
appending happen under the session's lock, and a message that the session already has is not appended again.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from cortext.errors import CortextError, SessionExists, SessionNotFound
from cortext.index.catalogue import HANDED_OVER, Catalogue, Entry
from cortext.index.database import is_unwritable
from cortext.io import new_files
from cortext.model import clock
from cortext.model.ids import is_id, slug
from cortext.model.message import Message
from cortext.model.session import FIRST_TURN, Change, Session, first_turn_of
from cortext.services.capture import copies, first_turns
from cortext.services.capture.additions import (
    KNOWN_TAIL,
    FreshMessages,
    changes_of,
    continue_in_tool,
    end_of,
    first_change,
    is_from_user,
    is_injected,
    notes_of,
    surroundings_of,
)
from cortext.services.capture.first_reading import (
    BATCH_MESSAGES,
    CaptureResult,
    FirstReading,
    Withheld,
    batches_of,
    calls_in,
    done_entry,
    newest_of,
    storable,
    stored_about,
)
from cortext.services.library.stores import NamedStore, StoredConversation, settle
from cortext.services.projects.projects import Projects, held_in_workspace, project_of
from cortext.services.projects.workspaces import types_not_stored
from cortext.services.text.message_masking import AnyStruct, mask_message, mask_struct, mask_value
from cortext.store.base import Store
from cortext.store.capabilities import KeepsCopies, KnowsOrigins
from cortext.store.files.layout_paths import NATIVE
from cortext.tools.base import Counts, Transcript, TranscriptReading, TranscriptSource

UNREAD = "unread"  # the folder of transcripts that made no session, as the tools wrote them


UNCHANGED = CaptureResult("", False, 0, 0, Counts())


def session_id_for(tool: str, key: str) -> str:
    """Return the id of the session that a transcript becomes in the home store: always the same."""
    plain = f"{tool}-{key}"
    if is_id(plain):
        return plain

    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return f"{tool}-{slug(key, 60) or 'session'}-{digest}"


class Capture:
    """Captures transcripts of any tool, into the session that they belong to, else into the home store."""

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
        self._stores = {named_store.root: named_store for named_store in (*stores, home)}
        self.projects = Projects()
        self._entries: dict[tuple[str, str], Entry] | None = None
        self._origins: dict[tuple[str, str], Entry] | None = None
        # The catalogue is only a cache: if the folder of the home store was removed, it still knows what was in it.
        self._home_was_missing = os.path.isabs(home.root) and not os.path.lexists(home.root)

    def remember_all(self) -> None:
        """Load the whole catalogue into memory, for a run over very many transcripts."""
        self._entries = self.catalogue.all()

    def reload(self) -> None:
        """Load the catalogue again if it is in memory: other processes have written to it."""
        if self._entries is not None:
            self.remember_all()

    def store_at(self, root: str) -> NamedStore | None:
        """Return the store in this folder, or None if it is not one of ours."""
        return self._stores.get(root)

    def is_own(self, entry: Entry) -> bool:
        """Whether a transcript is stored as a session of its own, in the home store."""
        return entry.root == self.home.root and entry.session_id == session_id_for(entry.tool, entry.key)

    def unchanged(self, transcript: Transcript) -> bool:
        """Whether a transcript has the same fingerprint as when it was captured, and what was captured is kept."""
        entry = self._entry(transcript.tool, transcript.key)
        same = entry is not None and (entry.size, entry.changed) == (transcript.size, transcript.changed)
        return entry is not None and same and not self._is_gone(entry)

    def _is_gone(self, entry: Entry) -> bool:
        """Whether a workspace no longer has a session, although nobody deleted it: it is captured again."""
        named_store = self.store_at(entry.root)
        if named_store is None or not isinstance(named_store.store, KeepsCopies) or entry.root == self.home.root:
            return False
        try:
            named_store.store.peek(entry.session_id)
        except SessionNotFound:
            return not named_store.store.was_deleted(entry.session_id)
        except (CortextError, OSError):
            return False
        return False

    def read_again(self, transcript: Transcript) -> None:
        """Have the next capture of a transcript read it from its start."""
        entry = self._entry(transcript.tool, transcript.key)
        if entry is not None and entry.changed != HANDED_OVER:
            self.remember([entry._replace(cursor=None, size=-1)])

    def attach(
        self,
        named_store: NamedStore,
        session_id: str,
        tool: str,
        key: str,
        *,
        from_now: bool = False,
        branch: int | None = None,
    ) -> None:
        """Record that a tool's session continues one of ours: its messages go there, from now on or from its start.

        The tool's session is taken to contain everything that ours holds now, but nothing that others append later; of
        several branches the one that is named, or all (0).
        """
        self._stores.setdefault(named_store.root, named_store)
        before = self.catalogue.get(tool, key) if from_now else None
        entry = Entry(tool, key, named_store.root, session_id, last=end_of(named_store.store, session_id, branch))
        if before is not None:
            entry = entry._replace(cursor=before.cursor, since=self._until(before))
        self.catalogue.put(entry)

    def _until(self, before: Entry) -> str:
        """Return the time of the newest message that was captured into the previous session of a transcript."""
        named_store = self.store_at(before.root)
        try:
            messages = named_store.store.tail(before.session_id, KNOWN_TAIL) if named_store else []
        except CortextError:
            messages = []
        newest = max([before.since, *(message.timestamp for message in messages)])
        # Timestamps from a clock that is ahead must not hide new messages.
        return newest if newest <= clock.now() else ""

    def hand_over(
        self, named_store: NamedStore, session_id: str, tool: str, key: str, *, branch: int | None = None
    ) -> Entry | None:
        """Record that a session of ours is about to be opened as this session of a tool; return the previous entry.

        `branch` is as in `attach`. Nothing else changes: the session becomes active, and moves to that tool, when the
        tool has started or the user has written there.
        """
        self._stores.setdefault(named_store.root, named_store)
        before = self.catalogue.get(tool, key)
        last = end_of(named_store.store, session_id, branch)
        entry = Entry(tool, key, named_store.root, session_id, changed=HANDED_OVER, last=last)
        if before is not None and (before.root, before.session_id) == (named_store.root, session_id):
            entry = entry._replace(cursor=before.cursor, since=before.since)
        self.catalogue.put(entry)
        return before

    def take_back(self, tool: str, key: str, before: Entry | None) -> None:
        """Undo a `hand_over`: the tool could not be started."""
        if before is None:
            self.catalogue.remove(tool, key)
        else:
            self.catalogue.put(before)

    def capture(self, tool: TranscriptSource, transcript: Transcript) -> CaptureResult:
        """Capture what is new in a transcript."""
        if self.unchanged(transcript):
            return UNCHANGED
        known = self._entry(transcript.tool, transcript.key)
        entry = known or self._entry_of_snapshot(transcript) or self._entry_by_origin(transcript)
        named_store = self.store_at(entry.root) if entry else None
        if entry is None or named_store is None:
            entry, named_store = self._home_entry(transcript), self.home
        if self._keep_unmasked and entry.root != self.home.root:
            unmasked = Entry(transcript.tool, f"{transcript.key}#unmasked", self.home.root, session_id_for(*entry[:2]))
            self._capture_into(tool, transcript, self.catalogue.get(*unmasked[:2]) or unmasked, self.home.store)
        # The first messages after a conversation was handed to a tool show that it continues there.
        wake = known is not None and known.fresh
        done = self._capture_into(tool, transcript, entry, named_store.store, wake=wake)
        return done._replace(alarm=_check(tool, transcript, named_store.store, entry.session_id))

    def check_smaller(self, tool_of: Callable[[str], TranscriptSource]) -> list[str]:
        """Record and return what tools have lost of what was handed over, if no transcript of it is captured."""
        first_turns.judge_smaller(tool_of)
        alarms = []
        for record in first_turns.shortened():
            named_store, result = self.store_at(record.root), record.result
            if named_store is None or result is None:
                continue
            try:
                before = first_turn_of(named_store.store.get(record.session).extra)
                if before is not None and before.at >= result.at:
                    continue
                named_store.store.update(record.session, Change(extra={FIRST_TURN: msgspec.to_builtins(result)}))
                alarms.append(first_turns.alarm(record, tool_of(record.tool).title))
            except CortextError:
                continue  # its session is gone, or held by another process; `list` and `doctor` tell it
        return alarms

    def _capture_into(
        self, tool: TranscriptSource, transcript: Transcript, entry: Entry, store: Store, *, wake: bool = False
    ) -> CaptureResult:
        try:
            done = self._append(tool, transcript, entry, store, wake=wake)
        except SessionNotFound:
            done = self._create(tool, transcript, entry, store)
        if done.added and entry.root != self.home.root:
            return done._replace(grown=(entry.root, entry.session_id))
        return done

    def _messages(
        self, reading: TranscriptReading, entry: Entry, withheld: Withheld, before: Message | None = None
    ) -> Iterator[Message]:
        """Yield the messages that are stored, without what we injected, and masked if they may get into git.

        `before` is the message that the session ends with.
        """
        resumed = bool(entry.since) and before is not None and before.timestamp <= entry.since
        kept = withheld.rest(storable(reading, before, resumed=resumed))
        messages = (message for message in kept if not is_injected(message))
        if entry.since:
            messages = (message for message in messages if not message.timestamp or message.timestamp > entry.since)
        return (mask_message(message)[0] for message in messages) if self._is_masked(entry) else messages

    def _masked(self, metadata: AnyStruct, entry: Entry) -> AnyStruct:
        """Return metadata without secrets if it may get into git."""
        return mask_struct(metadata) if self._is_masked(entry) else metadata

    def _is_masked(self, entry: Entry) -> bool:
        return self._mask and entry.root != self.home.root

    def _entry(self, tool: str, key: str) -> Entry | None:
        entry = self._entries.get((tool, key)) if self._entries is not None else self.catalogue.get(tool, key)
        return entry if entry is not None and not self._is_lost(entry) else None

    def _entry_of_snapshot(self, transcript: Transcript) -> Entry | None:
        """Return the entry for a snapshot: in the session of the conversation that it was taken of."""
        owner = self._entry(transcript.tool, transcript.snapshot_of) if transcript.snapshot_of else None
        return Entry(transcript.tool, transcript.key, owner.root, owner.session_id) if owner is not None else None

    def _is_lost(self, entry: Entry) -> bool:
        """Whether a session was in a home store that was removed, or in the one of another data folder."""
        keys = entry.key, entry.key.partition("@")[0]  # that of a snapshot, and of what it was taken of
        if entry.session_id not in {session_id_for(entry.tool, key) for key in keys}:
            return False
        if entry.root != self.home.root:
            return self.store_at(entry.root) is None
        return self._home_was_missing and not self._is_stored(entry.session_id)

    def _is_stored(self, session_id: str) -> bool:
        """Whether the home store has this session."""
        try:
            self.home.store.get(session_id)
        except SessionNotFound:
            return False
        return True

    def _entry_by_origin(self, transcript: Transcript) -> Entry | None:
        """Find a session that names this transcript as its origin: it replaces a lost entry of the catalogue."""
        if self._origins is None or self._entries is None:  # scanned once for a run over very many transcripts
            self._origins = {}
            for root, named_store in self._stores.items():
                for session in _from_tools(named_store.store) if root != self.home.root else ():
                    origin = session.origin
                    entry = Entry(origin.tool, origin.session_id, root, session.id)
                    self._origins.setdefault((origin.tool, origin.session_id), entry)
        return self._origins.get((transcript.tool, transcript.snapshot_of or transcript.key))

    def first_reading(
        self, tool: TranscriptSource, transcript: Transcript, entry: Entry, batch_size: int = BATCH_MESSAGES
    ) -> FirstReading:
        """Begin to read a transcript that is new to us; if that fails, the tool's own file is kept."""
        with self._keeping_unread(tool, transcript):
            reading = tool.read(transcript)
            withheld = Withheld(transcript, reading)
            return FirstReading(
                transcript, entry, reading, self._messages(reading, entry, withheld), withheld, batch_size
            )

    def session_of(self, first: FirstReading) -> Session:
        """Return the session that a transcript becomes, with the repository that its project is in."""
        session = first.session()
        session.extra |= self.projects.record(project_of(session), first.about.remote)
        return session

    def _create(self, tool: TranscriptSource, transcript: Transcript, entry: Entry, store: Store) -> CaptureResult:
        """Make a session of a transcript that is new to us, if it has a message."""
        first = self.first_reading(tool, transcript, entry)
        if first.is_empty:
            return self.without_session(tool, transcript, first.counts)
        made = self.session_of(first)
        session = msgspec.structs.replace(self._masked(made, entry), id=made.id, origin=made.origin)
        try:
            store.create(session)
        except SessionExists:  # another process was faster; the next run appends what that one has not read
            return UNCHANGED
        with store.open(entry.session_id) as writer:
            with self._copied(tool, transcript, entry, writer.session(), first.withheld):
                for batch in first.batches():
                    writer.append(*batch)
                writer.update(self._masked(first_change(session, entry, tool, transcript, first), entry))
            trouble = self.remember([first.entry()])
        return first.captured()._replace(trouble=trouble)

    def _append(
        self, tool: TranscriptSource, transcript: Transcript, entry: Entry, store: Store, *, wake: bool
    ) -> CaptureResult:
        """Append the messages that the session does not have yet."""
        added = calls = 0
        user_spoke = False
        with store.open(entry.session_id) as writer:
            session = writer.session()
            reading = tool.read(transcript, entry.cursor)
            withheld = Withheld(transcript, reading)
            with self._copied(tool, transcript, entry, session, withheld):
                # A tool whose format changed may have had a cursor before, and is now read from the start each time.
                is_whole = entry.cursor is None or getattr(reading, "is_whole", False)
                fresh = FreshMessages(store, entry, tail_only=not is_whole)
                for batch in batches_of(self._messages(reading, entry, withheld, fresh.last)):
                    new = fresh.only(batch)
                    if new:
                        entry = entry._replace(last=newest_of(new) or entry.last)
                        writer.append(*new)
                        added += len(new)
                        calls += calls_in(new)
                        user_spoke = user_spoke or any(map(is_from_user, new))
                change = self._masked(changes_of(session, stored_about(reading, withheld)), entry)
                if session.title and not self.is_own(entry):
                    change.title = msgspec.UNSET  # the tool's title is not that of the conversation it continues
                if user_spoke and wake:
                    continue_in_tool(change, session, entry, in_workspace=entry.root != self.home.root)
                extra = notes_of(session, entry, reading.about)
                if added:
                    around = surroundings_of(session, tool, transcript, reading.about, writer.session().last_active)
                    extra |= mask_value(around) if self._is_masked(entry) else around
                    extra |= self._held_in(session, entry, reading.about.project or transcript.project)
                if extra:
                    change.extra = extra
                if change != Change():
                    writer.update(change)
            done = done_entry(entry, transcript, reading, withheld)
            waiting = entry.changed == HANDED_OVER and not user_spoke
        # Recorded last: if this process is killed before, the next run reads the transcript again.
        settle(store, entry.session_id)
        trouble = self.remember([done._replace(changed=HANDED_OVER) if waiting else done])
        return CaptureResult(entry.session_id, False, added, calls, reading.counts, is_whole, trouble=trouble)

    def _held_in(self, session: Session, entry: Entry, folder: str) -> dict[str, Any]:
        """Return what to record about the folder that a session continued in; usually nothing."""
        if entry.root in self._stores and self._stores[entry.root].kind == "workspace":
            return held_in_workspace(session, entry.root, folder)
        return self.projects.continued_in(session, folder)

    @contextmanager
    def _copied(
        self, tool: TranscriptSource, transcript: Transcript, entry: Entry, session: Session, withheld: Withheld
    ) -> Iterator[None]:
        """Copy the transcript next to our log (in the home store only), before it is read; not what is withheld.

        If the copy fails, the messages are captured anyway and the error is raised afterwards, so that the next
        run tries again.
        """
        failure: Exception | None = None
        own = (session.origin.tool, session.origin.session_id) == (transcript.tool, transcript.key)
        is_copied = entry.root == self.home.root and own  # not a native session that we wrote
        is_first = is_copied and not withheld.is_possible
        try:
            if is_first:
                copies.copy(tool, transcript, session.path)
        except (CortextError, OSError) as error:
            failure = error
        yield
        if is_copied and not is_first and not withheld.any:
            copies.copy(tool, transcript, session.path)
        if failure is not None:
            raise failure

    def without_session(self, tool: TranscriptSource, transcript: Transcript, counts: Counts) -> CaptureResult:
        """Return the result for a transcript without a message; if damage is the reason, keep its file."""
        if counts.damaged:
            self._keep_unread(tool, transcript)
        return UNCHANGED._replace(counts=counts)

    @contextmanager
    def _keeping_unread(self, tool: TranscriptSource, transcript: Transcript) -> Iterator[None]:
        """Keep the tool's own file if anything fails in here: a later version may be able to read it."""
        try:
            yield
        except Exception:
            self._keep_unread(tool, transcript)
            raise

    def _keep_unread(self, tool: TranscriptSource, transcript: Transcript) -> None:
        """Copy a transcript that made no session, unless it may have what is withheld."""
        if types_not_stored(transcript.project):
            return
        folder = os.path.join(self.home.root, UNREAD, session_id_for(transcript.tool, transcript.key))
        try:
            new_files.ensure_folder(folder, None)
            tool.copy(transcript, os.path.join(folder, NATIVE))
        except (CortextError, OSError):
            pass  # the error of the transcript itself is reported

    def remember(self, entries: Sequence[Entry]) -> str:
        """Record in the catalogue how far these transcripts were read; return what the user should know.

        If it cannot be written, nothing is lost.
        """
        trouble = ""
        try:
            self.catalogue.put_all(entries)
        except sqlite3.DatabaseError as error:
            if not is_unwritable(error):
                raise
            trouble = (
                f"the catalogue could not be written ({error}); everything captured is kept, "
                "and the next import reads these transcripts again"
            )
        if self._entries is not None:
            self._entries.update({(entry.tool, entry.key): entry for entry in entries})
        return trouble

    def new_entry(self, transcript: Transcript) -> Entry | None:
        """Return the entry of a transcript that is new to us, in the home store; None for any other."""
        if transcript.snapshot_of or self._entry(transcript.tool, transcript.key) or self._entry_by_origin(transcript):
            return None
        return self._home_entry(transcript)

    def _home_entry(self, transcript: Transcript) -> Entry:
        session_id = session_id_for(transcript.tool, transcript.snapshot_of or transcript.key)
        return Entry(transcript.tool, transcript.key, self.home.root, session_id)


def _check(tool: TranscriptSource, transcript: Transcript, store: Store, session_id: str) -> str:
    """After the first turn of a resume, record whether the tool's session still holds what was handed over.

    Return what the user should know.
    """
    judged = first_turns.judge(tool, transcript)
    if judged is None:
        return ""
    record, result = judged
    store.update(session_id, Change(extra={FIRST_TURN: msgspec.to_builtins(result)}))
    return first_turns.alarm(record, tool.title) if result.is_short else ""


def catch_up(capture: Capture, tool: TranscriptSource, key: str) -> CaptureResult:
    """Capture what a tool's session holds and no hook has reported."""
    for transcript in tool.transcripts():
        if transcript.key == key:
            return capture.capture(tool, transcript)
    return UNCHANGED


def caught_up(capture: Capture, tool: TranscriptSource, conversation: StoredConversation) -> StoredConversation:
    """Return the session after capturing what its tool has written: a tool that was killed ran no hook."""
    if not catch_up(capture, tool, conversation.session.origin.session_id).added:
        return conversation
    return StoredConversation(conversation.named_store, conversation.store.get(conversation.session.id))


def _from_tools(store: Store) -> Iterable[Session]:
    """Return the sessions that may name a transcript as their origin; a server chooses them, none of others."""
    return store.from_tools() if isinstance(store, KnowsOrigins) else store.sessions()
