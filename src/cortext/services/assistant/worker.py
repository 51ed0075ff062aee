"""What is done while nobody waits: messages get their vectors, quiet sessions a summary, long ones become short.

A pass looks only at sessions that changed since it last found nothing to do there. One worker at a time, by a lock;
on a server as many as you like, by claims. The bot's own, a timer's and a person's may all run, and no summary is made
twice.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Protocol

import msgspec

from cortext.errors import CortextError, DamagedData, ModelError, NoModel, SessionBusy, SessionNotFound
from cortext.index.background_jobs import EMBED, SUMMARISE, Due
from cortext.io import locks
from cortext.llm.base import Model
from cortext.model import clock, tokens
from cortext.model.message import Message
from cortext.model.session import Session
from cortext.services.assistant.backfill import BATCH, Embedder, embed_many, embed_summary, lacking
from cortext.services.assistant.context import working
from cortext.services.assistant.summary import compact_chat, store_summary, summarise_chat
from cortext.services.assistant.turn import Models
from cortext.store.base import Store
from cortext.store.claims import Claim, Claims

CLAIMED = 300.0  # seconds that a summary may take before a worker elsewhere tries it
EMBEDDING = 60.0  # and to give it its vectors
TRIES = 3  # so often a model may fail at one session before code writes its summary


Progress = Callable[[str, int, int], None]  # what is being done, how far, of how many


class Lists(Protocol):
    """The list of sessions, as far as a worker needs it."""

    def refresh(self) -> None:
        """Take in what changed."""


class Jobs(Protocol):
    """The work that is left: index.background_jobs, or ServerJobs."""

    def due(self, chore: str) -> list[Due]:
        """The sessions that changed since this chore was found done, the oldest first."""

    def settled(self, chore: str, session: Due) -> None:
        """Nothing is left to do, as long as it stays as it was when it was looked at."""


class ServerMarks(Protocol):
    """What a server knows of the work that is left (see store.postgres.chores)."""

    def due(self, chore: str) -> list[tuple[str, int, str]]:
        """Ids of sessions, the end of their log, their last activity: those that wait longest."""

    def settled(self, chore: str, session_id: str, end: int) -> None:
        """Nothing is left to do up to this end of the log."""


class ServerJobs:
    """The jobs where the sessions are on a server, which keeps an index of them; any number of workers may ask."""

    def __init__(self, marks: ServerMarks) -> None:
        self._marks = marks

    def refresh(self) -> None:
        """The server is always up to date."""

    def due(self, chore: str) -> list[Due]:
        """Sessions that went on since this chore was found done, in no order: many workers ask, and begin apart."""
        found = [Due(session_id, str(end), last_active) for session_id, end, last_active in self._marks.due(chore)]
        random.shuffle(found)
        return found

    def settled(self, chore: str, session: Due) -> None:
        """Nothing is left to do, as long as the session does not go on."""
        self._marks.settled(chore, session.id, int(session.signs))


class Pass(msgspec.Struct):
    """What one pass did."""

    embedded: int = 0  # messages and summaries that got their vector
    summarised: list[str] = []
    compacted: list[str] = []
    failed: dict[str, str] = {}  # sessions and what went wrong; they are tried again
    busy: bool = False  # another worker is at it
    more: bool = False  # there was more to do than one pass does


class ChatWorker:
    """Looks after the sessions of the assistant."""

    def __init__(
        self,
        store: Store,
        listing: Lists,
        jobs: Jobs,
        *,
        embedder: Callable[[], Embedder],
        models: Models,
        lock: locks.Lock | None,
        idle_minutes: float,
        compact_tokens: int,
        keep_messages: int,
        at_once: int = 20,
        claims: Claims | None = None,
    ) -> None:
        self.store, self._listing, self._jobs = store, listing, jobs
        self._embedder, self._models, self._lock = embedder, models, lock
        self._idle, self._large, self._keep, self._at_once = idle_minutes * 60, compact_tokens, keep_messages, at_once
        self._claims = claims  # where workers of many hosts look after the same sessions
        self._held: dict[str, Claim] = {}
        self._progress: Progress | None = None
        self._failures: dict[str, int] = {}
        self._small: dict[str, str] = {}  # sessions under way that were found small, by the signs of their files

    def run(self, now: float | None = None, progress: Progress | None = None) -> Pass:
        """One pass; it stops at the first thing that no other session could do better (a full disk)."""
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

    def _tell(self, what: str, place: int, total: int) -> None:
        if self._progress is not None:
            self._progress(what, place, total)

    def _embed(self, done: Pass) -> None:
        waiting: dict[str, list[Message]] = {}
        due = self._jobs.due(EMBED)
        for place, session in enumerate(due):
            self._tell("Vectors", place, len(due))
            if not self._claimed(session.id):
                continue
            try:
                missing = lacking(self.store, session.id, self._embedder().name)
                made = embed_summary(self.store, session.id, self._embedder())
            except (SessionNotFound, SessionBusy, DamagedData) as error:
                done.failed[session.id] = error.message
                self._release(session.id)
                continue
            done.embedded += made
            if missing:
                waiting[session.id] = missing
            else:
                self._release(session.id)
            if not missing and not made:  # else it changes now: the next pass makes sure that nothing is missing
                self._jobs.settled(EMBED, session)
            if sum(map(len, waiting.values())) >= BATCH:
                self._embed_lot(waiting, done)
        self._embed_lot(waiting, done)

    def _claimed(self, session_id: str) -> bool:
        """Whether it is ours to give this session its vectors, and nobody's elsewhere at this moment."""
        if self._claims is None:
            return True
        claim = self._claims.claim(EMBED, session_id, EMBEDDING)
        if claim is not None:
            self._held[session_id] = claim
        return claim is not None

    def _release(self, *session_ids: str) -> None:
        for session_id in session_ids:
            claim = self._held.pop(session_id, None)
            if claim is not None and self._claims is not None:
                self._claims.finish(claim)

    def _embed_lot(self, waiting: dict[str, list[Message]], done: Pass) -> None:
        """Make the vectors of several sessions together. If one of them is gone since, the others follow next time."""
        try:
            done.embedded += embed_many(self.store, self._embedder(), waiting) if waiting else 0
        except (SessionNotFound, SessionBusy, DamagedData) as error:
            done.failed |= dict.fromkeys(waiting, error.message)
        self._release(*waiting)
        waiting.clear()

    def _summarise(self, done: Pass, now: float) -> None:
        due = self._jobs.due(SUMMARISE)
        quiet = clock.from_epoch(now - self._idle)
        for place, session in enumerate(due):
            self._tell("Summaries", place, len(due))
            if len(done.summarised) >= self._at_once:
                done.more = True
                return
            try:
                self._look_after(session, done, idle=session.last_active <= quiet)
            except (SessionNotFound, SessionBusy, DamagedData) as error:
                done.failed[session.id] = error.message
            except ModelError as error:
                self._failures[session.id] = self._failures.get(session.id, 0) + 1
                done.failed[session.id] = error.message

    def _look_after(self, due: Due, done: Pass, *, idle: bool) -> None:
        if not idle and self._small.get(due.id) == due.signs:
            return
        session = self.store.peek(due.id)
        size = sum(message.tokens or tokens.estimate(message.text) for message in working(self.store, due.id))
        large = size > self._large
        if not idle and not large:
            self._small[due.id] = due.signs
            return  # it is looked at again when it is quiet
        self._small.pop(due.id, None)
        changed = False
        last = self.store.tail(due.id, 1)
        if last and last[-1].seq >= session.summary_covers:
            made = self._renew_claimed(session, last[-1].seq)
            if made is None:
                return  # done elsewhere, or being done: looked at again
            changed = made
        if changed:
            done.summarised.append(due.id)
            self._failures.pop(due.id, None)
            done.embedded += embed_summary(self.store, due.id, self._embedder())
        if large and compact_chat(self.store, self.store.peek(due.id), self._keep):
            done.compacted.append(due.id)
            changed = True
        if not changed:
            self._jobs.settled(SUMMARISE, due)

    def _renew_claimed(self, session: Session, last: int) -> bool | None:
        """Sum the session up; None where a worker elsewhere does, or did a moment ago."""
        if self._claims is None:
            return self._renew_summary(session)
        claim = self._claims.claim(SUMMARISE, session.id, CLAIMED)
        if claim is None:
            return None
        try:
            session = self.store.peek(session.id)
            return self._renew_summary(session) if session.summary_covers <= last else None
        finally:
            self._claims.finish(claim)

    def _renew_summary(self, session: Session) -> bool:
        """Sum the session up; by code where there is no model, or where it failed too often. Whether it was stored."""
        model: Model | None = None
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
    """An error in one line, for a log."""
    return " ".join(filter(None, (error.message, f"({error.hint})" if error.hint else "")))
