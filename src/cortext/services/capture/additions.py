"""What a transcript adds to a session that exists: the messages that it lacks, and its metadata."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from cortext.index.catalogue import Entry
from cortext.model import clock
from cortext.model.asides import own_command
from cortext.model.message import BEGINNING, FORKED_FROM, FORKED_IN, JOINS, USER, Message, instructions_of
from cortext.model.session import ACTIVE, CHECKOUT, SKILLS, TOOL_NOTES, Change, Origin, Session
from cortext.model.threads import branches, is_branched, thread
from cortext.model.titles import best_title, is_titled_by_user
from cortext.services.capture.first_reading import FirstReading, newest_of
from cortext.services.projects.repository import Checkout, checkout_of
from cortext.store.base import Store
from cortext.store.capabilities import outlines_of
from cortext.tools import registry
from cortext.tools.base import About, Transcript, TranscriptSource, skills_at_hand

JOINED = "*"  # in place of the id of a message: a transcript contains all branches of its session
KNOWN_TAIL = 400  # messages at the end of a session that a later reading is compared with
LIVE = 120  # seconds after which what is checked out now may not be what was checked out with a message


class FreshMessages:
    """Finds the messages that a session does not have yet.

    They are compared by id and, for a conversation that we wrote into another tool, in order by role and text, because
    not every tool keeps our ids. If the session has messages after `follows`, the last one that the transcript
    contains, the conversation went on elsewhere meanwhile: the transcript's next message begins a branch, or goes on in
    its own. If that is JOINED, it follows all branches.
    """

    def __init__(self, store: Store, entry: Entry, *, tail_only: bool) -> None:
        session_id, follows = entry.session_id, entry.last
        messages: list[Message] = list(store.tail(session_id, KNOWN_TAIL) if tail_only else store.read(session_id))
        self.last = messages[-1] if messages else None
        self._ids = {message.id for message in messages}
        own = follows if is_branched(messages) else ""  # what the transcript has of several branches
        self._stored: Iterator[Message] = iter(() if tail_only else thread(messages, own))
        self._next = next(self._stored, None)
        self._branch: dict[str, Any] = {}
        if follows == JOINED:
            self._branch = {JOINS: True}
        elif follows in self._ids and follows != newest_of(messages):
            self._branch = {FORKED_FROM: follows, FORKED_IN: registry.title_of(entry.tool)}

    def only(self, batch: list[Message]) -> list[Message]:
        """Return the new messages of a batch, without parents that the session does not have."""
        new = []
        for message in batch:
            if message.id in self._ids:
                if self._next is not None and message.id == self._next.id:
                    self._next = next(self._stored, None)
                continue
            if self._next is not None and _same_text(message, self._next):
                self._next = next(self._stored, None)
                continue
            if self._next is not None and instructions_of(message):
                continue  # earlier versions did not store them: at the end of the log, they would be out of order
            self._next = None
            if message.parent not in ("", BEGINNING) and message.parent not in self._ids:
                message = msgspec.structs.replace(message, parent="")
            if self._branch and not message.aside:
                message = msgspec.structs.replace(message, extra={**(message.extra or {}), **self._branch})
                self._branch = {}
            self._ids.add(message.id)
            new.append(message)
        return new


def end_of(store: Store, session_id: str, branch: int | None) -> str:
    """Return the id of the message after which a session goes on, or one of its branches; JOINED for all (0)."""
    if branch is None:
        return newest_of(store.tail(session_id, KNOWN_TAIL))
    return branches(outlines_of(store, session_id))[branch - 1].head if branch else JOINED


def _same_text(one: Message, other: Message) -> bool:
    return one.role == other.role and one.text.split() == other.text.split()


def is_injected(message: Message) -> bool:
    """Whether this is the context block that we injected at a resume, which the user did not write."""
    return bool(message.extra and message.extra.get("resume_block"))


def is_from_user(message: Message) -> bool:
    """Whether the user wrote this, and it is not one of our commands."""
    is_said = message.role == USER and not message.aside and message.content.strip() != ""
    return is_said and not own_command(message.content)[0]


def continue_in_tool(change: Change, session: Session, entry: Entry, *, in_workspace: bool) -> None:
    """Add to the change that the session continues in the tool it was handed to.

    Outside of workspaces it does not become active, because nothing would ever pause it again.
    """
    if (session.origin.tool, session.origin.session_id) != (entry.tool, entry.key):
        change.origin = Origin(tool=entry.tool, session_id=entry.key)
    if in_workspace and session.status != ACTIVE:
        change.status, change.force = ACTIVE, True


def changes_of(session: Session, about: About) -> Change:
    """Return what a transcript's metadata adds to the session's."""
    change = Change()
    # A tool's title never replaces one that a person chose.
    if about.title not in ("", session.title) and not is_titled_by_user(session):
        change.title = best_title(about.title, session.title)
    if about.summary and about.summary != session.summary:
        change.summary, change.summary_by = about.summary, session.origin.tool
    config = session.agent_config.with_tools(about.tools)
    if about.model and about.model != config.model:
        config = msgspec.structs.replace(config, model=about.model)
    if config is not session.agent_config:
        change.agent_config = config
    return change


def first_change(
    session: Session, entry: Entry, tool: TranscriptSource, transcript: Transcript, first: FirstReading
) -> Change:
    """Return what the end of a new transcript adds to its session's metadata, once all of it is stored."""
    change = changes_of(session, first.about)
    around = surroundings_of(session, tool, transcript, first.about, first.newest)
    if extra := notes_of(session, entry, first.about) | around:
        change.extra = extra
    return change


def notes_of(session: Session, entry: Entry, about: About) -> dict[str, Any]:
    """Return what to record about the texts that a tool itself gave to its model: nothing if that is known already."""
    known = session.extra.get(TOOL_NOTES)
    counts = dict(known) if isinstance(known, dict) else {}
    name = f"{entry.tool} {entry.key}"
    return {TOOL_NOTES: counts | {name: about.notes}} if about.notes and counts.get(name) != about.notes else {}


def surroundings_of(
    session: Session, tool: TranscriptSource, transcript: Transcript, about: About, newest: str
) -> dict[str, Any]:
    """Return what to record about the project in which the newest message was written (`newest`), if it has changed.

    That is what is checked out: now if the message is that new, else as the tool recorded it. And the skills that the
    model had, but only those in files, because a resume can tell whether these are there.
    """
    added: dict[str, Any] = {}
    folder = about.project or transcript.project
    written, now = clock.to_epoch(newest), clock.to_epoch(clock.now())
    is_live = written is not None and now is not None and abs(now - written) < LIVE
    checkout = checkout_of(folder) if is_live and folder else Checkout()
    if checkout == Checkout():
        checkout = Checkout.of(about.branch, about.head)
    recorded = msgspec.to_builtins(checkout)
    if recorded and recorded != session.extra.get(CHECKOUT):
        added[CHECKOUT] = recorded
    known = session.extra.get(SKILLS)
    skills = {name for name in known if isinstance(name, str)} if isinstance(known, list) else set()
    if more := set(about.skills) - skills:
        more &= skills_at_hand(tool, folder) or set()
        if more:
            added[SKILLS] = sorted(skills | more)
    return added
