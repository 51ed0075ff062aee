"""Copying all sessions of one store into another, of any kind: streaming, resumable and verified.

To resume an interrupted copy, run it again: messages that the target has are compared, and missing ones are added. A
session in the target with other messages is never changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from itertools import islice

import msgspec

from cortext.errors import CortextError, SessionNotFound
from cortext.model import clock
from cortext.model.message import Message, batches, plain
from cortext.model.session import PAUSED, STATUSES, Change, Session
from cortext.store.base import Store, Writer
from cortext.store.capabilities import Annotates, Compacts, EmbedsSummaries, KeepsWorking
from cortext.store.files.lines import encode_message
from cortext.store.files.log import complete

BATCH_MESSAGES = 500  # messages written together,
BATCH_CHARACTERS = 1 << 20  # or characters of them
_METADATA = ("title", "summary", "summary_by", "agent", "agent_config", "origin", "extra")

Progress = Callable[[int], None]


class CopyReport(msgspec.Struct, kw_only=True):
    """The result of a copy. `failed` has the sessions that could not be copied, and why."""

    sessions: int = 0
    copied: int = 0  # messages written now
    there: int = 0  # messages that the target had already
    failed: dict[str, str] = {}


class _Digest:
    """The number of messages, and a hash over their content."""

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
    """Return how many messages there are to copy, for a progress bar."""
    return sum(session.line_count for session in source.sessions())


def copy_store(source: Store, target: Store, progress: Progress | None = None) -> CopyReport:
    """Copy every session that the target does not have, or has only in part."""
    report = CopyReport()
    for session in source.sessions():
        try:
            if session.damage:
                raise CortextError(f"it is damaged: run `cortext repair {session.id}` first")
            _copy_session(source, target, session, report, progress)
            report.sessions += 1
        except SessionNotFound:
            continue  # deleted during the copy
        except CortextError as error:
            if error.exit_status > 4:  # the disk or the server, which would fail the other sessions too
                raise
            report.failed[session.id] = error.message
    return report


def _copy_session(
    source: Store, target: Store, session: Session, report: CopyReport, progress: Progress | None
) -> None:
    _ensure(target, session)
    messages = _as_stored(source, session)
    expected = _Digest()
    with target.open(session.id) as writer:
        present = _digest_of(target, session.id)
        for message in islice(messages, present.count):
            expected.add(message)
        if expected.value != present.value:
            raise CortextError("the target has a session with this id and other messages")
        report.there += present.count
        _advance(progress, present.count)
        for batch in batches(messages, most=BATCH_MESSAGES, characters=BATCH_CHARACTERS):
            for message in batch:
                expected.add(message)
            writer.append(*batch)
            report.copied += len(batch)
            _advance(progress, len(batch))
        _copy_metadata(source, session, writer)
    # Messages that the target had already were compared above.
    if expected.count > present.count and _digest_of(target, session.id).value != expected.value:
        raise CortextError(
            "the copy does not match its source: one of them may have changed during the copy; copy again"
        )
    _copy_annotations(source, target, session.id)
    _copy_archived(source, target, session.id)


def _advance(progress: Progress | None, done: int) -> None:
    if progress is not None and done:
        progress(done)


def _ensure(target: Store, session: Session) -> None:
    """Create the session in the target, without messages, if it does not exist."""
    try:
        target.peek(session.id)
    except SessionNotFound:
        # Another program may have written a status that our stores do not accept.
        status = session.status if session.status in STATUSES else PAUSED
        target.create(msgspec.structs.replace(session, status=status))


def _digest_of(target: Store, session_id: str) -> _Digest:
    digest = _Digest()
    for message in target.read(session_id):
        digest.add(plain(message))
    return digest


def _as_stored(source: Store, session: Session) -> Iterator[Message]:
    """Yield the messages as any store would keep them: complete, and with unique ids."""
    seen: set[str] = set()
    last = session.created_at
    for number, message in enumerate(source.read(session.id)):
        last = clock.normalise(message.timestamp) or last
        # If another program used an id for two messages, both are copied and the second gets a suffix.
        message_id = f"{message.id}~{message.seq}" if message.id in seen else message.id
        seen.add(message_id)
        yield complete(msgspec.structs.replace(plain(message), timestamp=last, id=message_id), number)


def _copy_metadata(source: Store, session: Session, writer: Writer) -> None:
    """Copy metadata that differs, and the number of messages that the summary covers as it is in the target."""
    covers = session.summary_covers
    if not session.is_linear:
        covers = sum(1 for message in source.read(session.id) if message.seq < covers)
    known = writer.session()
    wanted = {name: getattr(session, name) for name in _METADATA} | {"summary_covers": covers}
    changed = {name: value for name, value in wanted.items() if getattr(known, name) != value}
    if session.status in STATUSES and session.status != known.status:
        changed["status"] = session.status
    if changed:
        writer.update(Change(**changed, force=True))


def _copy_annotations(source: Store, target: Store, session_id: str) -> None:
    """Copy the embeddings of messages and of the summary, if both stores keep them."""
    if isinstance(source, Annotates) and isinstance(target, Annotates):
        present = sum(1 for _ in target.annotations(session_id))
        rest = islice(source.annotations(session_id), present, None)
        while batch := list(islice(rest, BATCH_MESSAGES)):
            target.annotate(session_id, *batch)
    if isinstance(source, EmbedsSummaries) and isinstance(target, EmbedsSummaries):
        embedding = source.summary_embedding(session_id)
        if embedding is not None:
            target.embed_summary(session_id, source.peek(session_id).summary, embedding)


def _copy_archived(source: Store, target: Store, session_id: str) -> None:
    """Archive in the target what is archived in the source, if both stores support it."""
    if not isinstance(source, KeepsWorking) or not isinstance(target, KeepsWorking) or not isinstance(target, Compacts):
        return
    working = sum(1 for _ in source.working(session_id))
    count = target.get(session_id).line_count
    if working < count:
        target.compact(session_id, count - working)
