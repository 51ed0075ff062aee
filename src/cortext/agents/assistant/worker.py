"""Background work on the assistant's sessions: vectors of messages, summaries of idle sessions, archiving of long ones.

A pass visits only sessions that changed since the last pass that found nothing to do there. With files, a lock admits
one worker at a time; on a server, claims let any number of workers share the sessions. No summary is made twice.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Protocol

import msgspec

from cortext.agents.assistant.context import compact_chat, store_summary, summarise_chat, working
from cortext.agents.assistant.turn import ModelPool
from cortext.agents.llm.base import ChatModel
from cortext.errors import CortextError, DamagedData, ModelError, NoModel, SessionBusy, SessionNotFound
from cortext.io import locks
from cortext.model import clock, tokens
from cortext.model.message import Message
from cortext.model.session import ACTIVE, IDLE, Change, Session
from cortext.services.library.backfill import BATCH, Embedder, embed_many, embed_summary, without_vector
from cortext.store.assistant import EMBED, SUMMARISE, Due, Jobs
from cortext.store.base import Store
from cortext.store.server_capabilities import Chores, Claim, Claims

SUMMARY_CLAIM = 300.0  # seconds that a summary may take before another worker tries
EMBEDDING_CLAIM = 60.0  # seconds that the vectors of a session may take before another worker tries
TRIES = 3  # failures of the model at one session before its summary is extracted without it


Progress = Callable[[str, int, int], None]  # what is being done, the number done, the total


class Refreshes(Protocol):
    """What a worker needs of the listing of sessions."""

    def refresh(self) -> object:
        """Bring the listing up to date."""


class ServerJobs:
    """The jobs of sessions on a server; any number of workers may ask for them."""

    def __init__(self, chores: Chores) -> None:
        self._chores = chores

    def refresh(self) -> None:
        """Do nothing: the server is always up to date."""

    def due(self, chore: str) -> list[Due]:
        """Return the due sessions in random order, so that several workers start with different ones."""
        found = [Due(session_id, str(end), last_active) for session_id, end, last_active in self._chores.due(chore)]
        random.shuffle(found)
        return found

    def settled(self, chore: str, session: Due) -> None:
        """Record that nothing is left to do until the session grows."""
        self._chores.settled(chore, session.id, int(session.signs))


class Pass(msgspec.Struct):
    """What one pass did."""

    embedded: int = 0  # messages and summaries that got a vector
    summarised: list[str] = []
    compacted: list[str] = []
    failed: dict[str, str] = {}  # errors by session; the next pass tries again
    busy: bool = False  # whether another worker is running
    more: bool = False  # whether work is left because the limit of one pass was reached


class ChatWorker:
    """Does the background work on the sessions of the assistant."""

    def __init__(
        self,
        store: Store,
        listing: Refreshes,
        jobs: Jobs,
        *,
        embedder: Callable[[], Embedder],
        models: ModelPool,
        lock: locks.Lock | None,
        idle_minutes: float,
        compact_tokens: int,
        keep_messages: int,
        at_once: int = 20,
        claims: Claims | None = None,
    ) -> None:
        self.store, self._listing, self._jobs = store, listing, jobs
        self._embedder, self._models, self._lock = embedder, models, lock
        self._idle, self._keep, self._at_once = idle_minutes * 60, keep_messages, at_once
        self._compact_tokens = compact_tokens
        self._claims = claims  # if workers on several hosts share the sessions
        self._held: dict[str, Claim] = {}
        self._progress: Progress | None = None
        self._failures: dict[str, int] = {}
        self._small: dict[str, str] = {}  # fingerprints of the sessions in use that were found small

    def run(self, now: float | None = None, progress: Progress | None = None) -> Pass:
        """Make one pass. Errors that concern all sessions, such as a full disk, are raised."""
        done = Pass()
        self._progress = progress
        try:
            if self._lock is not None:
                self._lock.acquire(0, "the worker")
        except SessionBusy:
            done.busy = True
            return done
        try:
            self._listing.refresh()
            self._embed(done)
            self._summarise(done, time.time() if now is None else now)
        finally:
            if self._lock is not None:
                self._lock.release()
        return done

    def _report(self, what: str, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(what, done, total)

    def _embed(self, done: Pass) -> None:
        waiting: dict[str, list[Message]] = {}
        due = self._jobs.due(EMBED)
        for index, session in enumerate(due):
            self._report("Vectors", index, len(due))
            if not self._claimed(session.id):
                continue
            try:
                missing = without_vector(self.store, session.id, self._embedder().name)
                added = embed_summary(self.store, session.id, self._embedder())
            except (SessionNotFound, SessionBusy, DamagedData) as error:
                done.failed[session.id] = error.message
                self._release(session.id)
                continue
            done.embedded += added
            if missing:
                waiting[session.id] = missing
            else:
                self._release(session.id)
            if not missing and not added:  # otherwise the session changes now, and the next pass settles it
                self._jobs.settled(EMBED, session)
            if sum(map(len, waiting.values())) >= BATCH:
                self._embed_batch(waiting, done)
        self._embed_batch(waiting, done)

    def _claimed(self, session_id: str) -> bool:
        """Claim the vectors of this session, if claims are needed; return False if another worker holds them."""
        if self._claims is None:
            return True
        claim = self._claims.claim(EMBED, session_id, EMBEDDING_CLAIM)
        if claim is not None:
            self._held[session_id] = claim
        return claim is not None

    def _release(self, *session_ids: str) -> None:
        for session_id in session_ids:
            claim = self._held.pop(session_id, None)
            if claim is not None and self._claims is not None:
                self._claims.finish(claim)

    def _embed_batch(self, waiting: dict[str, list[Message]], done: Pass) -> None:
        """Compute the vectors of several sessions together. If one fails, all are left to the next pass."""
        try:
            done.embedded += embed_many(self.store, self._embedder(), waiting) if waiting else 0
        except (SessionNotFound, SessionBusy, DamagedData) as error:
            done.failed |= dict.fromkeys(waiting, error.message)
        self._release(*waiting)
        waiting.clear()

    def _summarise(self, done: Pass, now: float) -> None:
        due = self._jobs.due(SUMMARISE)
        quiet = clock.from_epoch(now - self._idle)
        for index, session in enumerate(due):
            self._report("Summaries", index, len(due))
            if len(done.summarised) >= self._at_once:
                done.more = True
                return
            try:
                self._summarise_session(session, done, idle=session.last_active <= quiet)
            except (SessionNotFound, SessionBusy, DamagedData) as error:
                done.failed[session.id] = error.message
            except ModelError as error:
                self._failures[session.id] = self._failures.get(session.id, 0) + 1
                done.failed[session.id] = error.message

    def _summarise_session(self, due: Due, done: Pass, *, idle: bool) -> None:
        """Summarise a session that is idle or large, and archive the older messages of a large one."""
        if not idle and self._small.get(due.id) == due.signs:
            return
        session = self.store.peek(due.id)
        size = sum(message.tokens or tokens.estimate(message.text) for message in working(self.store, due.id))
        large = size > self._compact_tokens
        if not idle and not large:
            self._small[due.id] = due.signs
            return  # visited again when it is idle
        self._small.pop(due.id, None)
        changed = False
        last = self.store.tail(due.id, 1)
        if last and last[-1].seq >= session.summary_covers:
            renewed = self._renew_claimed(session, last[-1].seq)
            if renewed is None:
                return  # another worker does it, or has done it: a later pass settles it
            changed = renewed
        if changed:
            done.summarised.append(due.id)
            self._failures.pop(due.id, None)
            done.embedded += embed_summary(self.store, due.id, self._embedder())
        if large and compact_chat(self.store, self.store.peek(due.id), self._keep):
            done.compacted.append(due.id)
            changed = True
        if idle:
            self._mark_idle(due.id)
        elif not changed:
            self._small[due.id] = due.signs  # its summary is fresh: visited again when it is idle
        if idle and not changed:
            self._jobs.settled(SUMMARISE, due)

    def _mark_idle(self, session_id: str) -> None:
        """Write that a session is idle, unless something was said in it meanwhile."""
        with self.store.open(session_id) as writer:
            session, last = writer.session(), self.store.tail(session_id, 1)
            if session.status == ACTIVE and last and last[-1].seq < session.summary_covers:
                writer.update(Change(status=IDLE))

    def _renew_claimed(self, session: Session, last: int) -> bool | None:
        """Renew the summary under a claim; None if another worker does, or has just done it."""
        if self._claims is None:
            return self._renew_summary(session)
        claim = self._claims.claim(SUMMARISE, session.id, SUMMARY_CLAIM)
        if claim is None:
            return None
        try:
            session = self.store.peek(session.id)
            return self._renew_summary(session) if session.summary_covers <= last else None
        finally:
            self._claims.finish(claim)

    def _renew_summary(self, session: Session) -> bool:
        """Renew the summary and return whether it was stored. If the model is missing or keeps failing, extract one."""
        model: ChatModel | None = None
        if self._failures.get(session.id, 0) < TRIES:
            try:
                model = self._models.take()
            except NoModel:
                pass
        try:
            summary = summarise_chat(self.store, session, model)
        finally:
            if model is not None:
                self._models.give_back(model)
        return summary is not None and store_summary(self.store, session, summary)


def error_text(error: CortextError) -> str:
    """Return an error as one line for a log."""
    return " ".join(filter(None, (error.message, f"({error.hint})" if error.hint else "")))
