"""Copying all sessions of one store into another, of any kind: streaming, to be gone on with, and verified.

A copy that was interrupted is gone on with by running it again: what is there is compared, and what is missing added.
A session that is there and says something else is never touched.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from itertools import islice

import msgspec

from cortext.errors import CortextError, SessionNotFound
from cortext.model import clock
from cortext.model.message import Message, plain
from cortext.model.session import Change, Session
from cortext.model.status import PAUSED, STORED
from cortext.store.base import Store, Writer
from cortext.store.capabilities import Annotates, Compacts, EmbedsSummaries, KeepsWorking
from cortext.store.files.lines import encode_message
from cortext.store.files.log import complete

BATCH = 500  # messages that are written at once,
BATCH_BYTES = 1 << 20  # or so many characters of them
_METADATA = ("title", "summary", "summary_by", "agent", "agent_config", "origin", "extra")

Progress = Callable[[int], None]


class CopyReport(msgspec.Struct, kw_only=True):
    """What a copy did. `failed` are sessions that could not be copied, and why."""

    sessions: int = 0
    copied: int = 0  # messages that were written now
    there: int = 0  # messages that were there already
    failed: dict[str, str] = {}


class _Digest:
    """How many messages, and a hash over all that they say."""

    def __init__(self) -> None:
        self.count = 0
        self._hash = hashlib.blake2b(digest_size=16)

    def add(self, message: Message) -> None:
        self.count += 1
        self._hash.update(encode_message(msgspec.structs.replace(message, seq=0)))

    @property
    def value(self) -> tuple[int, str]:
        return self.count, self._hash.hexdigest()


def total(source: Store) -> int:
    """How many messages there are to copy: for a progress bar."""
    return sum(session.message_count for session in source.sessions())


def copy_store(source: Store, target: Store, progress: Progress | None = None) -> CopyReport:
    """Copy every session that the target does not have, or not whole."""
    report = CopyReport()
    for session in source.sessions():
        try:
            if session.damage:
                raise CortextError(f"it is damaged: `cortext repair {session.id}` first")
            _copy_session(source, target, session, report, progress)
            report.sessions += 1
        except SessionNotFound:
            continue  # deleted while we were copying
        except CortextError as error:
            if error.exit_status > 4:  # the disk or the server: no other session would fare better
                raise
            report.failed[session.id] = error.message
    return report


def _copy_session(
    source: Store, target: Store, session: Session, report: CopyReport, progress: Progress | None
) -> None:
    _ensure(target, session)
    wanted = _as_stored(source, session)
    meant = _Digest()
    with target.open(session.id) as writer:
        there = _there(target, session.id)
        for message in islice(wanted, there.count):
            meant.add(message)
        if meant.value != there.value:
            raise CortextError("there is a session of that id in the target, and it says something else")
        report.there += there.count
        _tell(progress, there.count)
        for batch in _batches(wanted):
            for message in batch:
                meant.add(message)
            writer.append(*batch)
            report.copied += len(batch)
            _tell(progress, len(batch))
        _copy_metadata(source, session, writer)
    # What was not written now was compared above.
    if meant.count > there.count and _there(target, session.id).value != meant.value:
        raise CortextError("what was copied is not what was read; was one of the two changed meanwhile? Copy again")
    _copy_notes(source, target, session.id)
    _copy_archived(source, target, session.id)


def _tell(progress: Progress | None, done: int) -> None:
    if progress is not None and done:
        progress(done)


def _ensure(target: Store, session: Session) -> None:
    """The session in the target, empty where it was not there."""
    try:
        target.peek(session.id)
    except SessionNotFound:
        # A word for the status that another program wrote has no place in a store of ours.
        status = session.status if session.status in STORED else PAUSED
        target.create(msgspec.structs.replace(session, status=status))


def _there(target: Store, session_id: str) -> _Digest:
    digest = _Digest()
    for message in target.read(session_id):
        digest.add(plain(message))
    return digest


def _as_stored(source: Store, session: Session) -> Iterator[Message]:
    """The messages as any store would keep them: nothing left to be filled in, no id twice."""
    seen: set[str] = set()
    last = session.created_at
    for number, message in enumerate(source.read(session.id)):
        last = clock.normalise(message.timestamp) or last
        # Some program may have used an id for two messages. Both are copied, and the second is marked.
        message_id = f"{message.id}~{message.seq}" if message.id in seen else message.id
        seen.add(message_id)
        yield complete(msgspec.structs.replace(plain(message), timestamp=last, id=message_id), number)


def _batches(messages: Iterator[Message]) -> Iterator[list[Message]]:
    batch: list[Message] = []
    size = 0
    for message in messages:
        batch.append(message)
        size += len(message.content)
        if len(batch) >= BATCH or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _copy_metadata(source: Store, session: Session, writer: Writer) -> None:
    """What changed in the source since a first, interrupted copy. A summary reaches as far by the new numbers."""
    covers = session.summary_covers
    if not session.is_linear:
        covers = sum(1 for message in source.read(session.id) if message.seq < covers)
    known = writer.session()
    wanted = {name: getattr(session, name) for name in _METADATA} | {"summary_covers": covers}
    changed = {name: value for name, value in wanted.items() if getattr(known, name) != value}
    if session.status in STORED and session.status != known.status:
        changed["status"] = session.status
    if changed:
        writer.update(Change(**changed, force=True))


def _copy_notes(source: Store, target: Store, session_id: str) -> None:
    """Records about messages (embeddings), and that of the summary, where both stores keep such."""
    if isinstance(source, Annotates) and isinstance(target, Annotates):
        begun = sum(1 for _ in target.annotations(session_id))
        rest = islice(source.annotations(session_id), begun, None)
        while lot := list(islice(rest, BATCH)):
            target.annotate(session_id, *lot)
    if isinstance(source, EmbedsSummaries) and isinstance(target, EmbedsSummaries):
        embedding = source.summary_embedding(session_id)
        if embedding is not None:
            target.embed_summary(session_id, source.peek(session_id).summary, embedding)


def _copy_archived(source: Store, target: Store, session_id: str) -> None:
    """What is archived in the source is so in the target, where both tell the two apart."""
    if not isinstance(source, KeepsWorking) or not isinstance(target, KeepsWorking) or not isinstance(target, Compacts):
        return
    working = sum(1 for _ in source.working(session_id))
    count = target.get(session_id).message_count
    if working < count:
        target.compact(session_id, count - working)
